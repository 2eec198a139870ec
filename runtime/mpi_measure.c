/* zeppelin-measure, an MPI program: times transfers between ranks as rank 0 is told by options, and prints them as JSON. Ranks that have nothing to do sleep, so that those that are
 * measured have the processor. Every message is answered by an empty one; the answer's time is in the intercept of the line, not in its slope. */
#include "config.h"

#include <getopt.h>
#include <jansson.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/fit.h"

#define MAX_NAME 256
#define MAX_BYTES ((size_t)64 << 20)
#define MIN_FIT 262144   /* smaller messages show buffers and token buckets */
#define LONG_S 0.15      /* a transfer that takes longer is long enough */
#define STREAM_S 0.4     /* transfers at the same time go on at least so long */

enum { TAG_COMMAND = 1, TAG_DATA, TAG_ACK, TAG_END, TAG_RESULT };
enum action { DO_NOTHING = 0, DO_SEND_ALL, DO_SEND_STREAM, DO_RECEIVE, DO_STOP };

struct command {
    int action, peer, rounds, bytes;
};

struct result {
    double latency_s, bytes_s;
    int n_size;
};

struct world {
    int rank, size, local;
    int rounds;
    const char *nics; /* names, divided by commas: rank i of a node is pinned to the i-th */
    char *buffer;
    char (*host)[MAX_NAME]; /* [size] */
    int *local_of;          /* [size] */
    json_t *results;        /* rank 0 */
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Waits for a message without taking the processor. */
static void sleep_until(int source, int tag)
{
    struct timespec t = {.tv_nsec = 300000};
    int there = 0;

    while (MPI_Iprobe(source, tag, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE), !there)
        nanosleep(&t, NULL);
}

/* --- one sender, one receiver --- */

static double one(struct world *w, int peer, int bytes)
{
    double t = now_s();

    MPI_Send(w->buffer, bytes, MPI_BYTE, peer, TAG_DATA, MPI_COMM_WORLD);
    MPI_Recv(NULL, 0, MPI_BYTE, peer, TAG_ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return now_s() - t;
}

static double median_of(struct world *w, int peer, int bytes, int rounds)
{
    double v[1000];

    one(w, peer, bytes); /* connections, page faults */
    for (int i = 0; i < rounds; i++)
        v[i] = one(w, peer, bytes);
    return zep_median(rounds, v);
}

static struct result send_all(struct world *w, int peer, int rounds)
{
    double x[16], y[16], intercept = 0, slope = 0, small;
    struct result r = {0};
    int n = 0, first = 0;

    small = median_of(w, peer, 8, 3 * rounds < 1000 ? 3 * rounds : rounds);
    for (size_t bytes = 65536; bytes <= MAX_BYTES; bytes *= bytes < 1048576 ? 2 : 4) {
        x[n] = (double)bytes;
        y[n] = median_of(w, peer, (int)bytes, rounds);
        if (y[n++] > LONG_S && n >= 5)
            break;
    }
    while (n - first > 3 && x[first] < MIN_FIT)
        first++;
    zep_fit_line(n - first, x + first, y + first, &intercept, &slope);
    r.latency_s = small / 2;
    r.bytes_s = slope > 0 ? 1 / slope : 0;
    r.n_size = n - first;
    return r;
}

/* Messages of one size again and again; the median leaves out the beginning and the end, where fewer are under way. */
static struct result send_stream(struct world *w, int peer, int rounds, int bytes)
{
    double v[1000], begin = now_s();
    struct result r = {0};
    int n = 0;

    one(w, peer, bytes);
    while (n < 1000 && (n < rounds || now_s() - begin < STREAM_S))
        v[n++] = one(w, peer, bytes);
    r.bytes_s = (double)bytes / zep_median(n, v);
    r.n_size = 1;
    return r;
}

static void receive(struct world *w, int peer)
{
    MPI_Status s;

    for (;;) {
        MPI_Recv(w->buffer, (int)MAX_BYTES, MPI_BYTE, peer, MPI_ANY_TAG, MPI_COMM_WORLD, &s);
        if (s.MPI_TAG == TAG_END)
            return;
        MPI_Send(NULL, 0, MPI_BYTE, peer, TAG_ACK, MPI_COMM_WORLD);
    }
}

static struct result obey(struct world *w, const struct command *c)
{
    struct result r = {0};

    if (c->action == DO_RECEIVE) {
        receive(w, c->peer);
        return r;
    }
    r = c->action == DO_SEND_ALL ? send_all(w, c->peer, c->rounds) : send_stream(w, c->peer, c->rounds, c->bytes);
    MPI_Send(NULL, 0, MPI_BYTE, c->peer, TAG_END, MPI_COMM_WORLD);
    return r;
}

static void serve(struct world *w)
{
    struct command c;

    for (;;) {
        struct result r;

        sleep_until(0, TAG_COMMAND);
        MPI_Recv(&c, sizeof c, MPI_BYTE, 0, TAG_COMMAND, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (c.action == DO_STOP)
            return;
        r = obey(w, &c);
        if (c.action != DO_RECEIVE)
            MPI_Send(&r, sizeof r, MPI_BYTE, 0, TAG_RESULT, MPI_COMM_WORLD);
    }
}

/* --- rank 0 --- */

struct transfer {
    int from, to;
    struct result r;
};

/* All at the same time. */
static void run(struct world *w, struct transfer *t, int n, enum action action, int bytes)
{
    struct command mine = {0};
    int mine_at = -1;

    for (int i = 0; i < n; i++) { /* receivers first */
        struct command c = {DO_RECEIVE, t[i].from, w->rounds, bytes};

        if (t[i].to == 0)
            mine = c;
        else
            MPI_Send(&c, sizeof c, MPI_BYTE, t[i].to, TAG_COMMAND, MPI_COMM_WORLD);
    }
    for (int i = 0; i < n; i++) {
        struct command c = {(int)action, t[i].to, w->rounds, bytes};

        if (t[i].from == 0) {
            mine = c;
            mine_at = i;
        } else {
            MPI_Send(&c, sizeof c, MPI_BYTE, t[i].from, TAG_COMMAND, MPI_COMM_WORLD);
        }
    }
    if (mine.action) {
        struct result r = obey(w, &mine);

        if (mine_at >= 0)
            t[mine_at].r = r;
    }
    for (int i = 0; i < n; i++)
        if (t[i].from != 0) {
            sleep_until(t[i].from, TAG_RESULT);
            MPI_Recv(&t[i].r, sizeof t[i].r, MPI_BYTE, t[i].from, TAG_RESULT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
}

static int rank_of(const struct world *w, const char *host, int local)
{
    for (int i = 0; i < w->size; i++)
        if (w->local_of[i] == local && !strcmp(w->host[i], host))
            return i;
    return -1;
}

/* "a,b": the hosts that sent. */
static void note(struct world *w, const char *kind, const char *from, const char *to, int nic, const struct result *r)
{
    json_array_append_new(w->results, json_pack("{s:s, s:s, s:s, s:i, s:f, s:f, s:i}", "kind", kind, "from", from, "to", to, "nic", nic, "latency_s", r->latency_s, "bandwidth_bytes_s", r->bytes_s, "sizes", r->n_size));
}

/* "devices HOST": its first two ranks. "nics A B N": each of the first N ranks of A to the one of B, alone, then together. "group A,A2 B,B2 N": all at once, NICs of all hosts. */
static int measure_devices(struct world *w, const char *host)
{
    struct transfer t = {rank_of(w, host, 0), rank_of(w, host, 1), {.bytes_s = 0}};

    if (t.from < 0 || t.to < 0)
        return -1;
    run(w, &t, 1, DO_SEND_ALL, 0);
    note(w, "devices", host, host, -1, &t.r);
    return 0;
}

/* A size that takes about a tenth of a second, from what one alone did. */
static int stream_bytes(double bytes_s)
{
    double want = bytes_s * 0.08;

    return want < 262144 ? 262144 : want > (double)MAX_BYTES ? (int)MAX_BYTES : (int)want;
}

static int measure_nics(struct world *w, const char *a, const char *b, int n)
{
    struct transfer t[64];
    double least = 0;

    if (n < 1 || n > 64)
        return -1;
    for (int i = 0; i < n; i++) {
        t[i] = (struct transfer){rank_of(w, a, i), rank_of(w, b, i), {.bytes_s = 0}};
        if (t[i].from < 0 || t[i].to < 0)
            return -1;
        run(w, &t[i], 1, DO_SEND_ALL, 0);
        note(w, "nic", a, b, i, &t[i].r);
        least = i == 0 || t[i].r.bytes_s < least ? t[i].r.bytes_s : least;
    }
    if (n > 1) {
        struct result sum = {0};

        run(w, t, n, DO_SEND_STREAM, stream_bytes(least));
        for (int i = 0; i < n; i++)
            sum.bytes_s += t[i].r.bytes_s;
        note(w, "together", a, b, -1, &sum);
    }
    return 0;
}

static int measure_group(struct world *w, char *a, char *b, int n)
{
    char senders[4096] = "";
    struct transfer *t = calloc(4096, sizeof *t);
    char *sa = NULL, *sb = NULL, *ha = strtok_r(a, ",", &sa), *hb = strtok_r(b, ",", &sb), *first_a = ha, *first_b = hb;
    struct result sum = {0};
    int count = 0;

    if (!t)
        return -1;
    for (; ha && hb; ha = strtok_r(NULL, ",", &sa), hb = strtok_r(NULL, ",", &sb))
        for (int i = 0; i < n && count < 4096; i++) {
            t[count] = (struct transfer){rank_of(w, ha, i), rank_of(w, hb, i), {.bytes_s = 0}};
            if (t[count].from < 0 || t[count].to < 0) {
                free(t);
                return -1;
            }
            count++;
            if (i == 0 && strlen(senders) + strlen(ha) + 2 < sizeof senders)
                sprintf(senders + strlen(senders), "%s%s", *senders ? "," : "", ha);
        }
    if (!count) {
        free(t);
        return -1;
    }
    run(w, &t[0], 1, DO_SEND_ALL, 0); /* alone across the spine: for the latency */
    note(w, "across", first_a, first_b, 0, &t[0].r);
    run(w, t, count, DO_SEND_STREAM, stream_bytes(t[0].r.bytes_s / count > 0 ? t[0].r.bytes_s / (count > 4 ? 4 : count) : 1e6));
    for (int i = 0; i < count; i++)
        sum.bytes_s += t[i].r.bytes_s;
    sum.n_size = count;
    note(w, "uplink", senders, first_b, -1, &sum);
    free(t);
    return 0;
}

static int measure(struct world *w, char *what)
{
    char *save = NULL, *word[5] = {NULL};
    int n = 0, rc = -1;

    for (char *p = strtok_r(what, " ", &save); p && n < 5; p = strtok_r(NULL, " ", &save))
        word[n++] = p;
    if (n == 2 && !strcmp(word[0], "devices"))
        rc = measure_devices(w, word[1]);
    else if (n == 4 && !strcmp(word[0], "nics"))
        rc = measure_nics(w, word[1], word[2], atoi(word[3]));
    else if (n == 4 && !strcmp(word[0], "group"))
        rc = measure_group(w, word[1], word[2], atoi(word[3]));
    if (rc < 0)
        fprintf(stderr, "zeppelin-measure: '%s %s ...': no ranks for it\n", word[0] ? word[0] : "", word[1] ? word[1] : "");
    return rc;
}

/* --- start --- */

static int local_rank(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "PMIX_LOCAL_RANK", "MPI_LOCALRANKID"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            return atoi(getenv(names[i]));
    return 0;
}

/* Before MPI starts: this rank's transfers go over one NIC. Open MPI's tcp takes a network interface, UCX a device, of verbs with its port. */
static void pin_to_nic(const char *nics, int local)
{
    char *copy = strdup(nics), *save = NULL, *name[64], ucx[300];
    int n = 0;

    for (char *p = copy ? strtok_r(copy, ",", &save) : NULL; p && n < 64; p = strtok_r(NULL, ",", &save))
        name[n++] = p;
    if (n) {
        const char *nic = name[local % n];
        int is_verbs = !strncmp(nic, "mlx", 3) || strstr(nic, "rdma") || strstr(nic, "bnxt_re") || strstr(nic, "irdma");

        snprintf(ucx, sizeof ucx, "%.280s%s", nic, is_verbs && !strchr(nic, ':') ? ":1" : "");
        setenv("UCX_NET_DEVICES", ucx, 0);
        if (!is_verbs)
            setenv("OMPI_MCA_btl_tcp_if_include", nic, 1);
    }
    free(copy);
}

static void learn_hosts(struct world *w)
{
    char mine[MAX_NAME] = "", *dot;
    int len = 0;

    MPI_Get_processor_name(mine, &len);
    mine[MAX_NAME - 1] = '\0';
    if ((dot = strchr(mine, '.')))
        *dot = '\0';
    MPI_Allgather(mine, MAX_NAME, MPI_CHAR, w->host, MAX_NAME, MPI_CHAR, MPI_COMM_WORLD);
    for (int i = 0; i < w->size; i++)
        for (int k = 0; k < i; k++)
            w->local_of[i] += !strcmp(w->host[k], w->host[i]);
    /* launchers may number ranks of a node in any order: the local rank that chose the NIC counts */
    MPI_Allgather(&w->local, 1, MPI_INT, w->local_of, 1, MPI_INT, MPI_COMM_WORLD);
}

static int print_results(const struct world *w)
{
    json_t *root = json_pack("{s:s, s:s, s:O}", "format", "zeppelin-measure/1.0", "nics", w->nics, "results", w->results);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

    if (text)
        printf("\n%s\n", text);
    free(text);
    json_decref(root);
    return text ? 0 : -1;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"rounds", required_argument, NULL, 'r'}, {"nics", required_argument, NULL, 'n'}, {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
    struct world w = {.rounds = 7, .local = local_rank()};
    const char *nics = "";
    int c, rc = 0;

    while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
        if (c == 'r') {
            w.rounds = atoi(optarg);
        } else if (c == 'n') {
            nics = optarg;
        } else if (c == 'V') {
            puts("zeppelin-measure " PACKAGE_VERSION);
            return 0;
        } else {
            fputs("usage: mpirun ... zeppelin-measure [--rounds N] [--nics NAME,...] ['devices HOST' | 'nics HOST HOST N' | 'group HOST,... HOST,... N']...\n"
                  "Times transfers between ranks and prints them as zeppelin-measure/1.0 JSON; `zeppelin topo --measure` starts it.\n", c == 'h' ? stdout : stderr);
            return c == 'h' ? 0 : 2;
        }
    }
    if (w.rounds < 3 || w.rounds > 1000)
        w.rounds = 7;
    w.nics = nics;
    pin_to_nic(nics, w.local);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &w.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &w.size);
    w.host = calloc((size_t)w.size, sizeof *w.host);
    w.local_of = calloc((size_t)w.size, sizeof *w.local_of);
    w.buffer = malloc(MAX_BYTES);
    if (!w.host || !w.local_of || !w.buffer) {
        fputs("zeppelin-measure: out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(w.buffer, 1, MAX_BYTES);
    learn_hosts(&w);
    if (w.rank == 0) {
        struct command stop = {.action = DO_STOP};

        w.results = json_array();
        for (int i = optind; i < argc && rc == 0; i++)
            rc = measure(&w, argv[i]);
        if (rc < 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 1; i < w.size; i++)
            MPI_Send(&stop, sizeof stop, MPI_BYTE, i, TAG_COMMAND, MPI_COMM_WORLD);
        rc = print_results(&w);
        json_decref(w.results);
    } else {
        serve(&w);
    }
    MPI_Finalize();
    free(w.host);
    free(w.local_of);
    free(w.buffer);
    return rc < 0;
}
