#include "config.h"
#include "launcher/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/buf.h"

static int count_values(const char *list)
{
    int n = 1;

    for (const char *p = list; *p; p++)
        n += *p == ',';
    return n;
}

/* Value i of "A,B,C". */
static const char *value_at(const char *list, int i, int *len_out)
{
    for (; i > 0; i--)
        list += strcspn(list, ",") + 1;
    *len_out = (int)strcspn(list, ",");
    return list;
}

static int check(const char *const *sweep, int i, struct zep_error *err)
{
    static const char *const fixed[] = {"cluster.", "name=", "run_root=", "format="};
    const char *eq = strchr(sweep[i], '=');
    size_t key = eq ? (size_t)(eq - sweep[i]) : 0;
    int len;

    if (!key)
        return zep_error_set(err, ZEP_EINVAL, "--sweep '%.100s': expected KEY=VALUE,VALUE,..., as in train.lr=0.001,0.003", sweep[i]);
    for (size_t k = 0; k < sizeof fixed / sizeof fixed[0]; k++)
        if (!strncmp(sweep[i], fixed[k], strlen(fixed[k])))
            return zep_error_set(err, ZEP_EINVAL, "--sweep %.*s: the jobs of a sweep are one array, which asks Slurm for the same: expected a key of model, data, train, plan, checkpoint or log", (int)key, sweep[i]);
    for (int k = 0; k < i; k++)
        if (!strncmp(sweep[k], sweep[i], key + 1))
            return zep_error_set(err, ZEP_EINVAL, "--sweep %.*s: given twice", (int)key, sweep[i]);
    for (int k = 0; k < count_values(eq + 1); k++)
        if (value_at(eq + 1, k, &len), len == 0)
            return zep_error_set(err, ZEP_EINVAL, "--sweep '%.200s': an empty value", sweep[i]);
    return ZEP_OK;
}

int zep_variants(const char *const *sweep, int n_sweep, struct zep_variants *out, struct zep_error *err)
{
    struct zep_variants v = {.n = 1, .n_key = n_sweep};
    int rc;

    for (int i = 0; i < n_sweep; i++) {
        if ((rc = check(sweep, i, err)) < 0)
            return rc;
        v.n *= count_values(strchr(sweep[i], '=') + 1);
        if (v.n > ZEP_MAX_VARIANT)
            return zep_error_set(err, ZEP_EINVAL, "--sweep: more than %d runs", ZEP_MAX_VARIANT);
    }
    if (!(v.set = zep_calloc((size_t)v.n * (size_t)n_sweep + 1, sizeof *v.set)))
        return zep_error_nomem(err, "sweep");
    for (int r = 0; r < v.n; r++)
        for (int i = n_sweep - 1, rest = r; i >= 0; i--) { /* the last key changes fastest */
            const char *eq = strchr(sweep[i], '=');
            int n = count_values(eq + 1), len;
            const char *value = value_at(eq + 1, rest % n, &len);
            struct zep_buf b = ZEP_BUF_INIT;

            rest /= n;
            zep_buf_printf(&b, "%.*s%.*s", (int)(eq + 1 - sweep[i]), sweep[i], len, value);
            if ((rc = zep_buf_steal(&b, &v.set[r * n_sweep + i], err)) < 0) {
                zep_variants_free(&v);
                return rc;
            }
        }
    *out = v;
    return ZEP_OK;
}

void zep_variants_free(struct zep_variants *v)
{
    for (int i = 0; v->set && i < v->n * v->n_key; i++)
        free(v->set[i]);
    free(v->set);
    *v = (struct zep_variants){0};
}
