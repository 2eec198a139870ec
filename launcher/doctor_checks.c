/* The checks of zeppelin doctor that look at what is known already. Each says something in any case: ok, skipped and why, a warning, or an error and what to do. */
#include "config.h"
#include "launcher/doctor.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/hostlist.h"
#include "common/units.h"

#define OK ZEP_FINDING_OK
#define SKIPPED ZEP_FINDING_SKIPPED
#define WARNING ZEP_FINDING_WARNING
#define ERROR ZEP_FINDING_ERROR
#define MANY 20       /* findings of one check */
#define SHM_LEAST (1LL << 30)
#define CLOCK_APART_S 5.0

static int n_devices(const struct zep_topo *t, enum zep_dev_kind kind)
{
    int n = 0;

    for (int i = 0; i < t->n_node; i++)
        for (int k = 0; k < t->node[i].n_device; k++)
            n += t->node[i].device[k].kind == kind;
    return n;
}

static int any_rdma(const struct zep_node *n)
{
    for (int i = 0; i < n->n_nic; i++)
        if (n->nic[i].rdma == 1)
            return 1;
    return 0;
}

/* --- nodes --- */

static void check_states(struct zep_doctor *d)
{
    int n = 0, known = 0;

    for (int i = 0; i < d->topo->n_node; i++) {
        const struct zep_node *node = &d->topo->node[i];

        known += node->state != NULL;
        if (zep_node_is_out(node) && n++ < MANY)
            zep_doctor_say(d, d->in_job ? ERROR : WARNING, "state", "ask the administrator (scontrol show node, kubectl describe node), or leave the node out", "node '%s' is %s", node->id, node->state);
    }
    if (!known)
        zep_doctor_say(d, SKIPPED, "state", NULL, "no controller was asked for the state of nodes");
    else if (!n)
        zep_doctor_say(d, OK, "state", NULL, "%d node%s fit for work", known, known == 1 ? " is" : "s are");
}

struct sibling_arg {
    struct zep_doctor *d;
    int n;
};

static int on_sibling(void *arg, int node, const char *text)
{
    struct sibling_arg *a = arg;
    int grave = strstr(text, " is down") || strstr(text, " is missing") || strstr(text, " devices, ");

    (void)node;
    if (a->n++ < MANY)
        zep_doctor_say(a->d, grave ? ERROR : WARNING, "siblings",
                       strstr(text, " is down")        ? "look at the cable and the port (ibstat, ip link), or leave the node out: every collective waits for its slowest NIC"
                       : strstr(text, "device")        ? "look at the node (nvidia-smi, dmesg): a GPU that fell off the bus comes back after a reboot at most"
                       : strstr(text, "PCIe width")    ? "reseat the card: a link that trains at fewer lanes halves the transfers behind it"
                                                       : "bring the node to the state of the others, or leave it out",
                       "%s", text);
    return 0;
}

static void check_siblings(struct zep_doctor *d)
{
    struct sibling_arg a = {d, 0};

    if (d->topo->n_node < 2) {
        zep_doctor_say(d, SKIPPED, "siblings", NULL, "one node has no siblings to differ from");
        return;
    }
    if (zep_topo_siblings(d->topo, on_sibling, &a, NULL) < 0)
        d->failed = 1;
    else if (!a.n)
        zep_doctor_say(d, OK, "siblings", NULL, "no node differs from the others of its kind");
    else if (a.n > MANY)
        zep_doctor_say(d, WARNING, "siblings", NULL, "%d more differences", a.n - MANY);
}

/* Sources that disagree: a number of GPUs is grave, the rest is worth a look. */
static int on_conflict(void *arg, const char *where, const struct zep_conflict *c)
{
    zep_doctor_say(arg, !strcmp(c->what, "number of devices") ? ERROR : WARNING, "sources", "find out which source is right and mend the other (slurm.conf, gres.conf, labels)", "%.300s: %s: %s (%s), but %s (%s)", where, c->what,
                   c->kept, zep_source_name(c->kept_source), c->lost, zep_source_name(c->lost_source));
    return 0;
}

static void check_conflicts(struct zep_doctor *d)
{
    if (zep_topo_fold_conflicts(d->topo, MANY, on_conflict, d, NULL) < 0)
        d->failed = 1;
    if (!d->topo->n_conflict)
        zep_doctor_say(d, OK, "sources", NULL, "no two sources disagree");
}

/* --- NICs and where they are --- */

/* NICs that devices use; without devices all that can do RDMA. One for storage or management may be slower. */
static int is_for_training(const struct zep_node *n, int nic)
{
    int any = 0;

    for (int i = 0; i < n->n_device; i++) {
        any |= n->device[i].nic >= 0;
        if (n->device[i].nic == nic)
            return 1;
        for (int k = 0; k < n->device[i].n_more; k++)
            if (n->device[i].more[k] == nic)
                return 1;
    }
    return !any && n->nic[nic].rdma == 1;
}

static void check_nics(struct zep_doctor *d)
{
    int n_down = 0, n_up = 0, n_slow = 0, n_nic = 0;

    for (int i = 0; i < d->topo->n_node; i++) {
        const struct zep_node *n = &d->topo->node[i];
        double most = 0;

        for (int k = 0; k < n->n_nic; k++) {
            n_nic++;
            n_up += n->nic[k].up == 1;
            if (is_for_training(n, k) && n->nic[k].bw.value > most)
                most = n->nic[k].bw.value;
        }
        for (int k = 0; k < n->n_nic; k++) {
            const struct zep_nic *c = &n->nic[k];
            char a[ZEP_UNIT_BUF], b[ZEP_UNIT_BUF];

            if (c->up == 0 && c->rdma == 1 && n_down++ < MANY)
                zep_doctor_say(d, WARNING, "nics", "look at the cable and the port (ibstat, ip link)", "node '%s': NIC %s (%s) is down", n->id, c->name, c->key);
            if (c->up != 0 && is_for_training(n, k) && c->bw.value > 0 && c->bw.value < 0.9 * most && n_slow++ < MANY)
                zep_doctor_say(d, WARNING, "nics", "look at the cable and the switch port: they agreed on less than the card can do", "node '%s': NIC %s has %s, the fastest of the node has %s", n->id, c->name,
                               zep_format_bandwidth(c->bw.value, a), zep_format_bandwidth(most, b));
        }
    }
    if (n_down || n_slow)
        return;
    if (n_up)
        zep_doctor_say(d, OK, "nics", NULL, "%d NIC%s up", n_up, n_up == 1 ? " is" : "s are");
    else if (n_nic)
        zep_doctor_say(d, SKIPPED, "nics", NULL, "whether the %d NIC%s up is not known from these sources", n_nic, n_nic == 1 ? " is" : "s are");
    else
        zep_doctor_say(d, SKIPPED, "nics", NULL, "no NIC is known");
}

static void check_locality(struct zep_doctor *d)
{
    int n_far = 0, n_unknown = 0, n_nic = 0, first = -1, n_gpu = n_devices(d->topo, ZEP_DEV_GPU);

    for (int i = 0; i < d->topo->n_node; i++) {
        const struct zep_node *n = &d->topo->node[i];

        n_nic += n->n_nic;
        for (int k = 0; k < n->n_device; k++) {
            const struct zep_device *g = &n->device[k];

            if (g->kind != ZEP_DEV_GPU)
                continue;
            if (g->nic >= 0 && g->nic_distance == ZEP_DIST_SYSTEM && n_far++ < MANY)
                zep_doctor_say(d, WARNING, "locality", "expect half the bandwidth there; a NIC beside each pair of GPUs is what training wants", "node '%s': the nearest NIC of GPU %s, %s, is across the sockets", n->id, g->key,
                               n->nic[g->nic].name);
            if (g->nic < 0 && n->n_nic > 1 && n_unknown++ == 0)
                first = i;
        }
    }
    if (n_unknown)
        zep_doctor_say(d, WARNING, "locality", "detect on the node itself (--from probe), or say it in a topology.yaml; in a virtual machine give NCCL the provider's topology file",
                       "which NIC is near which GPU is not known for %d GPU%s, node '%s' first", n_unknown, n_unknown == 1 ? "" : "s", d->topo->node[first].id);
    if (!n_gpu)
        zep_doctor_say(d, SKIPPED, "locality", NULL, "no GPUs");
    else if (!n_nic)
        zep_doctor_say(d, SKIPPED, "locality", NULL, "no NICs are known");
    else if (!n_far && !n_unknown)
        zep_doctor_say(d, OK, "locality", NULL, "every GPU has a NIC on its own socket, or its node has at most one");
}

static void check_pcie(struct zep_doctor *d)
{
    int n = 0;

    for (int i = 0; i < d->topo->n_warning && n < MANY; i++)
        if (strstr(d->topo->warning[i], "PCIe link of width")) {
            zep_doctor_say(d, WARNING, "pcie", "reseat the card, look at the slot and the BIOS", "%s", d->topo->warning[i]);
            n++;
        }
    if (!n)
        zep_doctor_say(d, OK, "pcie", NULL, "no link is known to run below its width");
}

/* --- GPUs and what hides them --- */

static void check_mig(struct zep_doctor *d)
{
    for (int i = 0; i < d->topo->n_node; i++)
        for (int k = 0; k < d->topo->node[i].n_device; k++)
            if (d->topo->node[i].device[k].mig) {
                zep_doctor_say(d, WARNING, "mig", "give ranks whole GPUs (nvidia-smi -mig 0): slices cannot reach each other by NVLink or P2P, NCCL refuses several of one GPU", "node '%s' offers MIG slices (%s)", d->topo->node[i].id,
                               d->topo->node[i].device[k].mig);
                return;
            }
}

static int list_count(const char *text)
{
    int n = *text ? 1 : 0;

    for (; *text; text++)
        n += *text == ',';
    return n;
}

/* "0,1,1" */
static int has_twice(const char *text)
{
    char *copy = strdup(text), *save = NULL, *seen[64];
    int n = 0, twice = 0;

    for (char *p = copy ? strtok_r(copy, ",", &save) : NULL; p && n < 64; p = strtok_r(NULL, ",", &save)) {
        for (int i = 0; i < n; i++)
            twice |= !strcmp(seen[i], p);
        seen[n++] = p;
    }
    free(copy);
    return twice;
}

static void check_visible(struct zep_doctor *d)
{
    static const char *const hiding[] = {"SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND", "SBATCH_GPU_BIND", "SBATCH_GPUS_PER_TASK"};
    int n = 0, n_gpu = n_devices(d->topo, ZEP_DEV_GPU);

    for (size_t i = 0; i < sizeof hiding / sizeof hiding[0]; i++) {
        const char *v = d->env(hiding[i]);

        if (v && *v && strcmp(v, "none") && strcmp(v, "0")) {
            zep_doctor_say(d, ERROR, "visible", "ask for --gpus-per-node and let every rank see all GPUs of its node", "%s=%s: each rank sees its own GPUs only, so that peers cannot copy to each other (no P2P)", hiding[i], v);
            n++;
        }
    }
    for (int i = 0; i < d->topo->n_node && n < MANY; i++) {
        const struct zep_node *node = &d->topo->node[i];
        const char *visible = zep_node_note(node, "CUDA_VISIBLE_DEVICES"), *files = zep_node_note(node, "gpu files"), *nvml = zep_node_note(node, "nvml gpus"), *on_bus = zep_node_note(node, "pci gpus");

        if (visible && has_twice(visible)) {
            zep_doctor_say(d, ERROR, "visible", "name each device once", "node '%s': CUDA_VISIBLE_DEVICES is '%s': one device twice", node->id, visible);
            n++;
        }
        if (visible && node->n_device > 1 && list_count(visible) < node->n_device) {
            zep_doctor_say(d, WARNING, "visible", "unset it, or ask for all GPUs of the node", "node '%s': CUDA_VISIBLE_DEVICES shows %d of %d GPUs", node->id, list_count(visible), node->n_device);
            n++;
        }
        if (nvml && on_bus && atoi(nvml) < atoi(on_bus)) {
            zep_doctor_say(d, WARNING, "visible", "ask for all GPUs of the node", "node '%s': NVML shows %s of the %s GPUs on its bus: a cgroup or container hides the others", node->id, nvml, on_bus);
            n++;
        }
        if (files && atoi(files) > 0 && atoi(files) < node->n_device && node->device[0].kind == ZEP_DEV_GPU && !node->device[0].mig) {
            zep_doctor_say(d, WARNING, "visible", "ask for all GPUs of the node", "node '%s': a cgroup or container shows device files of %s of %d GPUs", node->id, files, node->n_device);
            n++;
        }
    }
    if (!n)
        zep_doctor_say(d, n_gpu ? OK : SKIPPED, "visible", NULL, n_gpu ? "nothing hides GPUs from ranks" : "no GPUs");
}

/* --- how ranks were started --- */

static void check_ranks(struct zep_doctor *d)
{
    const char *ntasks = d->env("SLURM_NTASKS"), *procid = d->env("SLURM_PROCID"), *step = d->env("SLURM_STEP_ID"), *size = d->env("OMPI_COMM_WORLD_SIZE"), *step_tasks = d->env("SLURM_STEP_NUM_TASKS");

    if (step && procid && step_tasks && atoi(step_tasks) > 1 && (!size || atoi(size) <= 1))
        zep_doctor_say(d, ERROR, "ranks", "start zeppelin once (`zeppelin run` starts the ranks), or give srun --mpi=pmix", "this is task %s of %s that srun started: without MPI between them they are %s jobs of one rank", procid, step_tasks,
                       step_tasks);
    else if (d->in_job)
        zep_doctor_say(d, OK, "ranks", NULL, "started once in the allocation%s%s%s", ntasks ? " of " : "", ntasks ? ntasks : "", ntasks ? " tasks" : "");
    else
        zep_doctor_say(d, SKIPPED, "ranks", NULL, "no allocation");
}

/* --- limits of each node --- */

static void check_memlock(struct zep_doctor *d)
{
    int n = 0, known = 0;

    for (int i = 0; i < d->topo->n_node; i++) {
        const struct zep_node *node = &d->topo->node[i];
        const char *v = zep_node_note(node, "memlock");

        known += v != NULL;
        if (v && strcmp(v, "unlimited") && any_rdma(node) && strtoll(v, NULL, 10) < node->mem_bytes / 2 && n++ < MANY)
            zep_doctor_say(d, ERROR, "memlock", "set it to unlimited (ulimit -l; LimitMEMLOCK=infinity of slurmd; in a pod the capability IPC_LOCK)", "node '%s': %s bytes of memory may be locked: RDMA registers what it sends", node->id, v);
    }
    if (!n)
        zep_doctor_say(d, known ? OK : SKIPPED, "memlock", NULL, known ? "enough memory may be locked, or no RDMA NIC needs it" : "no node was asked for its limits (--from probe)");
}

static void check_shm(struct zep_doctor *d)
{
    int n = 0, known = 0;

    for (int i = 0; i < d->topo->n_node; i++) {
        const char *v = zep_node_note(&d->topo->node[i], "shm_free");
        char size[ZEP_UNIT_BUF];

        known += v != NULL;
        if (v && strtoll(v, NULL, 10) < SHM_LEAST && n++ < MANY)
            zep_doctor_say(d, WARNING, "shm", "make it larger (mount -o remount,size=..., docker --shm-size, an emptyDir of medium Memory), or remove what was left in it", "node '%s': %s free in /dev/shm, through which ranks of a node exchange",
                           d->topo->node[i].id, zep_format_size(strtoll(v, NULL, 10), size));
    }
    if (!n)
        zep_doctor_say(d, known ? OK : SKIPPED, "shm", NULL, known ? "at least 1 GiB is free in /dev/shm" : "no node was asked (--from probe)");
}

/* --- what should be equal on all nodes --- */

static void check_equal(struct zep_doctor *d, const char *key, enum zep_finding_level level, const char *todo)
{
    const char *first = NULL, *first_node = NULL;
    int n = 0, known = 0;

    for (int i = 0; i < d->topo->n_node; i++) {
        const char *v = zep_node_note(&d->topo->node[i], key);

        if (!v)
            continue;
        known++;
        if (!first) {
            first = v;
            first_node = d->topo->node[i].id;
        } else if (strcmp(first, v) && n++ < MANY) {
            zep_doctor_say(d, level, "versions", todo, "%s: '%s' on node '%s', '%s' on node '%s'", key, v, d->topo->node[i].id, first, first_node);
        }
    }
    if (known > 1 && !n)
        zep_doctor_say(d, OK, "versions", NULL, "%s '%s' on all %d nodes", key, first, known);
}

static void check_clocks(struct zep_doctor *d)
{
    double least = 0, most = 0;
    int a = -1, b = -1, known = 0;

    for (int i = 0; i < d->topo->n_node; i++) {
        const char *v = zep_node_note(&d->topo->node[i], "clock");
        double t = v ? atof(v) : 0;

        if (!v)
            continue;
        if (!known++ || t < least) {
            least = t;
            a = i;
        }
        if (b < 0 || t > most) {
            most = t;
            b = i;
        }
    }
    if (known < 2)
        zep_doctor_say(d, SKIPPED, "clocks", NULL, "fewer than two nodes were asked");
    else if (most - least > CLOCK_APART_S)
        zep_doctor_say(d, WARNING, "clocks", "set the clocks (chronyc tracking): logs and time limits will not agree", "the clocks of '%s' and '%s' differ by %.1f s", d->topo->node[a].id, d->topo->node[b].id, most - least);
    else
        zep_doctor_say(d, OK, "clocks", NULL, "%d clocks within %.0f s", known, CLOCK_APART_S);
}

static void check_versions(struct zep_doctor *d)
{
    check_equal(d, "zeppelin", ERROR, "install one version everywhere");
    check_equal(d, "nvidia driver", ERROR, "bring the nodes to one driver: NCCL and CUDA graphs misbehave between versions");
    check_equal(d, "mlx5 driver", WARNING, "bring the nodes to one driver");
    check_equal(d, "kernel", WARNING, "nodes of one image behave alike");
    check_clocks(d);
}

/* Nodes that hang on a switch, each once: one with two NICs there is on two ports. */
static int n_nodes_on(const struct zep_switch *sw)
{
    int n = 0;

    for (int k = 0; k < sw->n_node; k++) {
        int again = 0;

        for (int i = 0; i < k && !again; i++)
            again = sw->node[i] == sw->node[k];
        n += !again;
    }
    return n;
}

static int cmp_most(const void *a, const void *b)
{
    return *(const int *)b - *(const int *)a;
}

/* Leaves of the first fabric; the least number of them that have `want` nodes together, 0: all together have not so many. largest_out: nodes of the largest. */
static int n_leaves(const struct zep_topo *t, int want, int *needed_out, int *largest_out)
{
    int n = 0, needed = 0, sum = 0, *size = zep_calloc(t->n_fabric ? (size_t)t->fabric[0].n_switch + 1 : 1, sizeof *size);

    for (int s = 0; size && t->n_fabric && s < t->fabric[0].n_switch; s++)
        if (t->fabric[0].sw[s].n_node > 0)
            size[n++] = n_nodes_on(&t->fabric[0].sw[s]);
    if (n > 0)
        qsort(size, (size_t)n, sizeof *size, cmp_most);
    while (needed < n && sum < want)
        sum += size[needed++];
    *needed_out = sum >= want ? needed : 0;
    *largest_out = n > 0 ? size[0] : 0;
    free(size);
    return n;
}

static void check_leaves(struct zep_doctor *d)
{
    int want = d->job && d->job->cluster.nodes > 0 ? (int)d->job->cluster.nodes : d->topo->n_node, largest, needed, n = n_leaves(d->topo, want, &needed, &largest);

    if (!d->topo->n_fabric || !n) {
        zep_doctor_say(d, SKIPPED, "leaves", NULL, "no switches are known");
        return;
    }
    if (d->topo->fabric[0].kind == ZEP_FABRIC_RAILS) {
        zep_doctor_say(d, OK, "leaves", NULL, "rails: NIC i of every node hangs on leaf i");
        return;
    }
    if (d->cluster)
        n_leaves(d->cluster, want, &needed, &largest);
    if (!needed)
        zep_doctor_say(d, SKIPPED, "leaves", NULL, "not all of the %d node%s hang on a switch that is known", want, want == 1 ? "" : "s");
    else if (d->in_job && n > needed)
        zep_doctor_say(d, WARNING, "leaves", "ask for --switches=N with a time to wait (#SBATCH --switches=1@30:00)", "%d nodes hang on %d leaves, %d would do (the largest leaf of the cluster has %d nodes)", d->topo->n_node, n, needed,
                       largest);
    else if (d->in_job)
        zep_doctor_say(d, OK, "leaves", NULL, "%d node%s on %d lea%s: no fewer would do", want, want == 1 ? "" : "s", n, n == 1 ? "f" : "ves");
    else
        zep_doctor_say(d, OK, "leaves", NULL, "%d node%s need%s %d of %d lea%s", want, want == 1 ? "" : "s", want == 1 ? "s" : "", needed, n, n == 1 ? "f" : "ves");
}

/* --- the job --- */

static void check_job(struct zep_doctor *d)
{
    struct zep_view *view = NULL;
    struct zep_error err = {0};
    int nodes;

    if (!d->job)
        return;
    nodes = (int)d->job->cluster.nodes;
    if (zep_view_new(d->topo, nodes, (int)d->job->cluster.devices, (int)d->job->cluster.tp, &view, &err) < 0)
        zep_doctor_say(d, ERROR, "job", "change cluster.nodes, cluster.devices or cluster.tp, or the nodes", "the job does not fit: %s", err.text);
    else
        zep_doctor_say(d, OK, "job", NULL, "%d node%s with %d device%s in all fit", view->n_node, view->n_node == 1 ? "" : "s", view->n_dev, view->n_dev == 1 ? "" : "s");
    zep_view_free(view);
}

void zep_doctor_run(struct zep_doctor *d)
{
    check_states(d);
    check_siblings(d);
    check_conflicts(d);
    check_nics(d);
    check_locality(d);
    check_pcie(d);
    check_mig(d);
    check_visible(d);
    check_ranks(d);
    check_memlock(d);
    check_shm(d);
    check_versions(d);
    check_leaves(d);
    check_job(d);
}
