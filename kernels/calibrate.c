/* zeppelin-calibrate: how fast this machine's kernels are on one core, as a device file (zeppelin-device/1.0) on standard output. Run by `zeppelin calibrate`.
 * usage: zeppelin-calibrate SECONDS   (about so long; medians of what fits in)
 *
 * Attention of a block of n queries against n keys takes launch + a (n + t)^2 pairs: t and a are fitted to two sizes, the launch is what the smallest block takes. */
#include "config.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

#define N_HEAD 4
#define HEAD_DIM 64
#define ROW (N_HEAD * HEAD_DIM)
#define SMALL 192
#define LARGE 768
#define MAX_RUN 200

struct work {
    const struct zep_kernels *k;
    float *q, *kv, *o, *lse, *d_o, *delta, *dq, *dkv;
    float *a, *b, *c;
    int64_t n;
};

static float *floats(int64_t n)
{
    float *x = aligned_alloc(64, (size_t)(n * 4 + 63) / 64 * 64);
    uint64_t s = 88172645463325252u;

    if (!x) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    for (int64_t i = 0; i < n; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        x[i] = (float)(int64_t)(s >> 40) / 8388608.0f - 1.0f;
    }
    return x;
}

static struct zep_attn block(const struct work *w)
{
    return (struct zep_attn){.n_head = N_HEAD, .n_head_kv = N_HEAD, .head_dim = HEAD_DIM, .scale = 0.125f, .n_q = w->n, .n_kv = w->n, .q_pos = LARGE, .kv_pos = 0, .q = w->q, .ld_q = ROW, .k = w->kv, .v = w->kv + ROW, .ld_kv = 2 * ROW};
}

static int forward(struct work *w, struct zep_error *err)
{
    struct zep_attn a = block(w);

    for (int64_t i = 0; i < w->n * N_HEAD; i++)
        w->lse[i] = -INFINITY;
    memset(w->o, 0, (size_t)(w->n * ROW) * sizeof *w->o);
    return w->k->attn_fwd(&a, w->o, ROW, w->lse, NULL, err);
}

static int backward(struct work *w, struct zep_error *err)
{
    struct zep_attn a = block(w);

    return w->k->attn_bwd(&a, w->d_o, ROW, w->lse, w->delta, w->dq, ROW, w->dkv, w->dkv + ROW, 2 * ROW, NULL, err);
}

static int product(struct work *w, struct zep_error *err)
{
    return zep_gemm(0, 0, 512, 1024, 1024, 1, w->a, 1024, w->b, 1024, 0, w->c, 1024, NULL, err);
}

#define COPY_BYTES ((size_t)64 << 20)

static int copy(struct work *w, struct zep_error *err)
{
    (void)err;
    memcpy(w->c, w->a, COPY_BYTES);
    return 0;
}

static int cmp(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Median time of one run within about limit_s. */
static double median_s(int (*run)(struct work *, struct zep_error *), struct work *w, double limit_s)
{
    double t[MAX_RUN], begin = zep_clock_now();
    struct zep_error err;
    int n = 0;

    for (int i = 0; n < MAX_RUN && (n < 5 || zep_clock_now() - begin < limit_s); i++) {
        double t0 = zep_clock_now();

        if (run(w, &err) < 0) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        if (i) /* the first one warms up */
            t[n++] = zep_clock_now() - t0;
    }
    qsort(t, (size_t)n, sizeof *t, cmp);
    return t[n / 2];
}

/* "AMD EPYC 9R14", without what YAML would take for more than text. */
static void cpu_name(char out[64])
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");

    snprintf(out, 64, "cpu");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
            snprintf(out, 64, "%.47s", strchr(line, ':') + 1 + strspn(strchr(line, ':') + 1, " \t"));
            out[strcspn(out, "\n")] = '\0';
            break;
        }
    if (f)
        fclose(f);
    for (char *p = out; *p; p++)
        if (strchr(":#'\"{}[]\\", *p))
            *p = ' ';
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 5, part, tiny, small, large, back, gemm, move, root, tile, a_fwd, flops, mem_bw;
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    struct work w = {.q = floats(LARGE * ROW), .kv = floats(LARGE * 2 * ROW), .o = floats(LARGE * ROW), .lse = floats(LARGE * N_HEAD), .d_o = floats(LARGE * ROW), .delta = floats(LARGE * N_HEAD), .dq = floats(LARGE * ROW),
                     .dkv = floats(LARGE * 2 * ROW), .a = floats((int64_t)COPY_BYTES / 4), .b = floats(1024 * 1024), .c = floats((int64_t)COPY_BYTES / 4)};
    struct zep_error err;
    char name[64];

    if (!(seconds > 0) || seconds > 3600) {
        fprintf(stderr, "'%s': expected seconds, up to 3600\n", argv[1]);
        return 2;
    }
    if (zep_kernels_select(&w.k, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    part = seconds / 6;
    gemm = median_s(product, &w, part);
    w.n = 1;
    tiny = median_s(forward, &w, part / 4);
    w.n = SMALL;
    small = median_s(forward, &w, part);
    w.n = LARGE;
    large = median_s(forward, &w, part);
    w.k->attn_delta(w.n, N_HEAD, HEAD_DIM, w.o, ROW, w.d_o, ROW, w.delta);
    back = median_s(backward, &w, part);
    move = median_s(copy, &w, part);
    flops = 2.0 * 512 * 1024 * 1024 / gemm;
    root = (sqrt(large - tiny) - sqrt(small > tiny ? small - tiny : 0)) / (LARGE - SMALL);
    tile = sqrt(large - tiny) / root - LARGE;
    tile = tile < 0 ? 0 : tile > 512 ? 512 : floor(tile + 0.5);
    a_fwd = (large - tiny) / ((LARGE + tile) * (LARGE + tile));
    mem_bw = 2.0 * (double)COPY_BYTES / move;
    cpu_name(name);
    printf("format: zeppelin-device/1.0\n");
    printf("name: \"%s\"\n", name);
    printf("source: \"zeppelin calibrate on this machine, one core, fp32: kernels %s with %s, medians of %.1f s; port_bandwidth is a quarter of the memory's (two copies, not measured)\"\n", w.k->name, zep_gemm_name(), seconds);
    printf("calibrated: true\n");
    printf("flops: %.6g # products of 512 x 1024 x 1024\n", flops);
    printf("linear: 1\n");
    printf("attention_forward: %.4f # of flops, blocks of %d\n", 4.0 * ROW / a_fwd / flops, LARGE);
    printf("attention_backward: %.4f\n", 10.0 * ROW / ((back - tiny) / ((LARGE + tile) * (LARGE + tile))) / flops);
    printf("tile: %.0f\n", tile);
    printf("launch: %.3fus\n", 1e6 * tiny);
    printf("memory: %.0fMB # of the machine, a core\n", (double)pages * (double)page / (double)(cores > 0 ? cores : 1) / 1e6);
    printf("memory_bandwidth: %.3fGB/s\n", mem_bw / 1e9);
    printf("port_bandwidth: %.3fGB/s\n", mem_bw / 4e9);
    printf("overlap_gradients: false\n");
    printf("type_bytes: %zu\n", sizeof(float));
    return 0;
}
