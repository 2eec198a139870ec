/* The kernel's files about PCI links, NICs and NVIDIA's driver. */
#include "config.h"
#include "topology/detect_machine.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fs.h"

static int make_path(const struct zep_sysfs *s, char out[512], const char *fmt, va_list ap)
{
    int n;

    if (!s->root)
        return 0;
    n = snprintf(out, 512, "%.300s", s->root);
    vsnprintf(out + n, (size_t)(512 - n), fmt, ap);
    return 1;
}

int zep_sysfs_word(const struct zep_sysfs *s, char out[128], const char *fmt, ...)
{
    char path[512];
    va_list ap;
    FILE *f;
    int ok;

    va_start(ap, fmt);
    ok = make_path(s, path, fmt, ap);
    va_end(ap);
    *out = '\0';
    if (!ok || !(f = fopen(path, "re")))
        return 0;
    ok = fgets(out, 128, f) != NULL; /* a port without a cable cannot say its speed: an error of the read, not of ours */
    fclose(f);
    out[strcspn(out, "\n")] = '\0';
    return ok && *out;
}

int zep_sysfs_exists(const struct zep_sysfs *s, const char *fmt, ...)
{
    char path[512];
    va_list ap;
    int ok;

    va_start(ap, fmt);
    ok = make_path(s, path, fmt, ap);
    va_end(ap);
    return ok && access(path, F_OK) == 0;
}

int zep_sysfs_link(const struct zep_sysfs *s, char out[128], const char *fmt, ...)
{
    char path[512], target[512];
    const char *slash;
    va_list ap;
    ssize_t n;
    int ok;

    va_start(ap, fmt);
    ok = make_path(s, path, fmt, ap);
    va_end(ap);
    *out = '\0';
    if (!ok || (n = readlink(path, target, sizeof target - 1)) <= 0)
        return 0;
    target[n] = '\0';
    slash = strrchr(target, '/');
    snprintf(out, 128, "%.127s", slash ? slash + 1 : target);
    return 1;
}

void zep_sysfs_pcie(const struct zep_sysfs *s, const char *pci, int *width_out, int *max_out)
{
    char word[128];

    *width_out = zep_sysfs_word(s, word, "/sys/bus/pci/devices/%s/current_link_width", pci) ? atoi(word) : 0;
    *max_out = zep_sysfs_word(s, word, "/sys/bus/pci/devices/%s/max_link_width", pci) ? atoi(word) : 0;
    if (*width_out < 0 || *width_out > 64)
        *width_out = 0;
    if (*max_out < 0 || *max_out > 64) /* 255: the device does not say */
        *max_out = 0;
}

static int set_text(char **out, const char *text)
{
    free(*out);
    return (*out = strdup(text)) ? 0 : -1;
}

int zep_sysfs_bond(const struct zep_sysfs *s, const char *net, struct zep_nic *c)
{
    char master[128];

    if (!zep_sysfs_link(s, master, "/sys/class/net/%s/master", net) || !zep_sysfs_exists(s, "/sys/class/net/%s/bonding", master))
        return 0; /* a bridge is a master too */
    return set_text(&c->bond, master);
}

/* "200 Gb/sec (4X HDR)"; up to QDR the line code takes a fifth. */
static double rate_of(const char *text)
{
    double v = atof(text) * 1e9 / 8;

    return strstr(text, "QDR") || strstr(text, "DDR") || strstr(text, "SDR") ? 0.8 * v : v;
}

static int verbs_port(const struct zep_sysfs *s, const char *name, int port, struct zep_nic *c)
{
    char word[128];

    c->rdma = 1;
    if (!c->guid && zep_sysfs_word(s, word, "/sys/class/infiniband/%s/node_guid", name)) { /* "0c42:a103:00ab:cdef" */
        char *out = word;

        for (const char *p = word; *p; p++)
            if (*p != ':')
                *out++ = (char)tolower((unsigned char)*p);
        *out = '\0';
        if (set_text(&c->guid, word) < 0)
            return -1;
    }
    if (zep_sysfs_word(s, word, "/sys/class/infiniband/%s/ports/%d/rate", name, port) && rate_of(word) > 0)
        c->bw = (struct zep_fact){.value = rate_of(word), .source = ZEP_SRC_NODE};
    if (zep_sysfs_word(s, word, "/sys/class/infiniband/%s/ports/%d/state", name, port))
        c->up = atoi(word) == 4; /* ACTIVE */
    if (zep_sysfs_word(s, word, "/sys/class/infiniband/%s/ports/%d/link_layer", name, port))
        return set_text(&c->link, strcmp(word, "InfiniBand") ? "ethernet" : "infiniband");
    return 0;
}

int zep_sysfs_port(const struct zep_sysfs *s, const char *name, int port, struct zep_nic *c)
{
    char word[128];

    if (port > 0)
        return verbs_port(s, name, port, c);
    if (zep_sysfs_word(s, word, "/sys/class/net/%s/speed", name) && atof(word) > 0)
        c->bw = (struct zep_fact){.value = atof(word) * 1e6 / 8, .source = ZEP_SRC_NODE};
    if (zep_sysfs_word(s, word, "/sys/class/net/%s/operstate", name) && strcmp(word, "unknown"))
        c->up = !strcmp(word, "up");
    if (zep_sysfs_word(s, word, "/sys/class/net/%s/type", name))
        return set_text(&c->link, atoi(word) == 32 ? "infiniband" : "ethernet");
    return 0;
}

int zep_sysfs_n_port(const struct zep_sysfs *s, const char *name)
{
    int n = 0;

    while (n < 8 && zep_sysfs_exists(s, "/sys/class/infiniband/%s/ports/%d", name, n + 1))
        n++;
    return n;
}

void zep_node_drop_device(struct zep_node *node, int at)
{
    free(node->device[at].key);
    free(node->device[at].uuid);
    free(node->device[at].model);
    free(node->device[at].mig);
    free(node->device[at].cores);
    free(node->device[at].bus);
    free(node->device[at].more);
    free(node->device[at].nic_dist);
    free(node->device[at].peer_dist);
    free(node->device[at].peer_nvlink);
    memmove(&node->device[at], &node->device[at + 1], (size_t)(node->n_device - at - 1) * sizeof *node->device);
    node->n_device--;
}

/* "Model: \t\t NVIDIA A100-SXM4-80GB" */
static int field(const char *line, const char *key, char out[128])
{
    size_t n = strlen(key);
    const char *p;

    if (strncmp(line, key, n) || line[n] != ':')
        return 0;
    p = line + n + 1 + strspn(line + n + 1, " \t");
    snprintf(out, 128, "%.127s", p);
    out[strcspn(out, "\n")] = '\0';
    return 1;
}

static int read_information(const struct zep_sysfs *s, const char *pci, struct zep_device *d, int *minor_out)
{
    char path[512], line[256], value[128];
    FILE *f;
    int rc = 0;

    snprintf(path, sizeof path, "%.300s/proc/driver/nvidia/gpus/%.40s/information", s->root, pci);
    *minor_out = -1;
    if (!(f = fopen(path, "re")))
        return 0;
    while (rc == 0 && fgets(line, sizeof line, f)) {
        if (field(line, "Model", value))
            rc = set_text(&d->model, value);
        else if (field(line, "GPU UUID", value) && !strchr(value, '?'))
            rc = set_text(&d->uuid, value);
        else if (field(line, "Device Minor", value))
            *minor_out = atoi(value);
    }
    fclose(f);
    return rc;
}

/* One slice of GPU `dev`, named by its GPU and compute instance. */
static int add_slice(struct zep_node *node, int dev, const char *gi, const char *ci)
{
    const struct zep_device *whole;
    struct zep_device *d;
    char key[128], mig[64];

    snprintf(key, sizeof key, "%.60s/%.20s/%.20s", node->device[dev].key, gi, ci);
    snprintf(mig, sizeof mig, "%.20s/%.20s", gi, ci);
    if (!(d = zep_node_add_device(node, key, ZEP_DEV_GPU)))
        return -1;
    whole = &node->device[dev]; /* the array may have moved */
    d->source = ZEP_SRC_NODE;
    d->numa = whole->numa;
    d->pcie_width = whole->pcie_width;
    if (set_text(&d->mig, mig) < 0 || (whole->model && set_text(&d->model, whole->model) < 0) || (whole->bus && set_text(&d->bus, whole->bus) < 0))
        return -1;
    return 0;
}

int zep_sysfs_nvidia(const struct zep_sysfs *s, struct zep_node *node, int dev, int *n_slice_out)
{
    struct zep_error err;
    char path[512], **gi = NULL, **ci = NULL;
    int minor, n_gi = 0, n_ci = 0, rc;

    *n_slice_out = 0;
    if (!s->root)
        return 0;
    if ((rc = read_information(s, node->device[dev].key, &node->device[dev], &minor)) < 0 || minor < 0)
        return rc;
    snprintf(path, sizeof path, "%.300s/proc/driver/nvidia/capabilities/gpu%d/mig", s->root, minor);
    if (zep_fs_list(path, &gi, &n_gi, &err) < 0)
        return 0;
    for (int i = 0; i < n_gi; i++) {
        char inner[512];

        snprintf(inner, sizeof inner, "%.400s/%.60s", path, gi[i]);
        if (!strncmp(gi[i], "gi", 2) && zep_fs_list(inner, &ci, &n_ci, &err) == 0) {
            for (int k = 0; k < n_ci; k++) {
                if (rc == 0 && !strncmp(ci[k], "ci", 2) && (rc = add_slice(node, dev, gi[i], ci[k])) == 0)
                    ++*n_slice_out;
                free(ci[k]);
            }
            free(ci);
        }
        free(gi[i]);
    }
    free(gi);
    return rc;
}
