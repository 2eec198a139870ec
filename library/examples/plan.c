/* Plans a step of sequences of given lengths on a cluster, proves the plan, predicts how long the step takes, and writes what each rank has to do.
 *
 *     cc plan.c $(pkg-config --cflags --libs zeppelin) -o plan
 *     ./plan 'preset:dgx-h100:2' 24k ranks 60000 20000 8000 8000 4000 1000 500 */
#include <stdio.h>
#include <stdlib.h>
#include <zeppelin.h>

#define MAX_SEQ 4096

static int run(const char *source, const char *capacity, const char *folder, const int64_t *len, int n, struct zep_error *err)
{
    struct zep_cluster *cluster = NULL;
    struct zep_options *options = zep_options_new();
    struct zep_plan *plan = NULL;
    struct zep_sim *sim = NULL;
    double step_s, tokens_s;
    int rc;

    if (!options)
        return ZEP_ENOMEM;
    if ((rc = zep_cluster_open(&source, 1, 0, 0, 1, err, &cluster)) < 0 || (rc = zep_options_set(options, "capacity", capacity, err)) < 0 ||
        (rc = zep_options_set(options, "model", "llama-7b", err)) < 0 || (rc = zep_options_set(options, "device", "h100", err)) < 0 || (rc = zep_plan_make(cluster, len, n, options, err, &plan)) < 0 ||
        (rc = zep_plan_prove(plan, err)) < 0 || (rc = zep_plan_simulate(plan, cluster, options, err, &sim)) < 0 || (rc = zep_sim_value(sim, "step_s", err, &step_s)) < 0 ||
        (rc = zep_sim_value(sim, "tokens_s_device", err, &tokens_s)) < 0 || (rc = zep_plan_export(plan, folder, err)) < 0)
        goto out;
    printf("libzeppelin %s: %lld tokens in %d sequences on %d devices of %d nodes, by %s\n", zep_version(), (long long)zep_plan_tokens(plan), n, zep_cluster_devices(cluster), zep_cluster_nodes(cluster),
           zep_plan_method(plan));
    printf("proved; a step takes %.0f ms, %.0f tokens/s a device; exported to %s\n", 1e3 * step_s, tokens_s, folder);
    for (int d = 0; d < zep_plan_devices(plan); d++)
        printf("device %d of %s: attention %lld tokens, linear modules %lld\n", d, zep_cluster_node_name(cluster, zep_cluster_device_node(cluster, d)), (long long)zep_plan_rows(plan, d, 0),
               (long long)zep_plan_rows(plan, d, 1));
out:
    zep_sim_free(sim);
    zep_plan_free(plan);
    zep_options_free(options);
    zep_cluster_free(cluster);
    return rc;
}

int main(int argc, char **argv)
{
    struct zep_error *err = zep_error_new();
    int64_t len[MAX_SEQ];
    int n = argc - 4, rc;

    if (!err || n < 1 || n > MAX_SEQ) {
        fprintf(stderr, "usage: plan SOURCE CAPACITY FOLDER LENGTH...\n");
        zep_error_free(err);
        return 2;
    }
    for (int i = 0; i < n; i++)
        len[i] = atoll(argv[4 + i]);
    if ((rc = run(argv[1], argv[2], argv[3], len, n, err)) < 0)
        fprintf(stderr, "plan: %s\n", zep_error_text(err));
    zep_error_free(err);
    return rc < 0;
}
