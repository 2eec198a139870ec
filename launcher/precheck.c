#include "config.h"
#include "launcher/precheck.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/yaml.h"
#include "planner/dataset.h"
#include "planner/plan.h"
#include "planner/workload.h"

int zep_precheck_job(const struct zep_job *job, struct zep_error *err)
{
    const struct zep_method *const *m = zep_methods();
    const char *names[32] = {NULL}, *near;

    for (int i = 0; m[i]; i++) {
        if (i < 31)
            names[i] = m[i]->name;
        if (!strcmp(m[i]->name, job->plan.method))
            break;
        if (m[i + 1])
            continue;
        near = zep_nearest(job->plan.method, names);
        return zep_error_set(err, ZEP_EINVAL, near ? "plan.method: '%s' (did you mean '%s'?): `zeppelin plan --help` lists the methods" : "plan.method: '%s': `zeppelin plan --help` lists the methods",
                             job->plan.method, near ? near : "");
    }
    if (job->cluster.tp != 1)
        return zep_error_set(err, ZEP_EUNSUPPORTED, "cluster.tp is %" PRId64 ": tensor parallelism is planned and checked, but this version's runtime trains with cluster.tp: 1", job->cluster.tp);
    if (!*job->data.train)
        return zep_error_set(err, ZEP_EINVAL, "data.train is not set: expected the prefix of a data set, as `zeppelin data` makes it");
    return ZEP_OK;
}

/* The first million tokens: a set of another vocabulary is found here; the ranks look at every token that they use. */
static int check_tokens(const struct zep_dataset *set, int64_t vocab, int64_t longest, struct zep_error *err)
{
    int32_t *token = zep_calloc((size_t)longest, sizeof *token);
    int rc = token ? ZEP_OK : zep_error_nomem(err, "tokens");

    for (int64_t i = 0, n = 0; rc == ZEP_OK && i < zep_dataset_n_doc(set) && n < 1000000; i++) {
        rc = zep_dataset_read_doc(set, i, vocab, token, err);
        n += zep_dataset_len(set, i);
    }
    free(token);
    return rc;
}

static int check_set(const struct zep_job *job, const char *key, const char *prefix, int n_dev, struct zep_error *err)
{
    struct zep_dataset *set = NULL;
    struct zep_batches *batches = NULL;
    int64_t cut, longest = 0, hold = job->plan.capacity * n_dev;
    int rc;

    if ((rc = zep_dataset_open(prefix, &set, err)) < 0 || (rc = zep_dataset_limit(set, job->data.context, !strcmp(job->data.too_long, "cut"), &cut, err)) < 0 ||
        (rc = zep_batches_new(set, job->train.tokens, 0, &batches, err)) < 0)
        goto out;
    for (int64_t i = 0; i < zep_dataset_n_doc(set); i++)
        longest = zep_dataset_len(set, i) > longest ? zep_dataset_len(set, i) : longest;
    if (hold > 0 && longest > hold)
        rc = zep_error_set(err, ZEP_EINVAL, "plan.capacity %" PRId64 " tokens x %d devices = %" PRId64 " is %" PRId64 " tokens short of the longest document's %" PRId64 "; plan.capacity: %" PRId64 " would fit",
                           job->plan.capacity, n_dev, hold, longest - hold, longest, (longest + n_dev - 1) / n_dev);
    if (rc == ZEP_OK)
        rc = check_tokens(set, job->model.vocab, longest, err);
out:
    zep_batches_free(batches);
    zep_dataset_close(set);
    return rc < 0 ? zep_error_prefix(err, "%s", key) : ZEP_OK;
}

int zep_precheck_data(const struct zep_job *job, int n_dev, struct zep_error *err)
{
    int rc = check_set(job, "data.train", job->data.train, n_dev, err);

    if (rc == ZEP_OK && *job->data.heldout)
        rc = check_set(job, "data.heldout", job->data.heldout, n_dev, err);
    return rc;
}
