/* Helper programs: run under a time limit, what they print is read. */
#include "config.h"
#include "topology/detect.h"
#include "topology/topo_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "common/process.h"

/* What a helper said at last, unless that is a word of a library (it begins with the program's name): then what it said first. */
static const char *telling_line(const char *helper, const char *text, size_t *len_out)
{
    const char *first = text + strspn(text, "\n \t"), *last = first;

    for (const char *p = first; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (*p != '\n')
            last = p;
    if (!strncmp(last, helper, strlen(helper)))
        last = first;
    *len_out = strcspn(last, "\n");
    if (*len_out > 1500)
        *len_out = 1500;
    return last;
}

static int helper_error(const char *helper, const struct zep_process_result *p, double time_s, struct zep_error *err)
{
    size_t len;
    const char *line = telling_line(helper, p->err, &len);

    if (p->timed_out)
        return zep_error_set(err, ZEP_ETIMEDOUT, "%s gave no answer in %.0f s", helper, time_s);
    if (p->status > 128)
        return zep_error_set(err, ZEP_EUNAVAIL, "%s was ended by signal %d", helper, p->status - 128);
    if (len)
        return zep_error_set(err, ZEP_EUNAVAIL, "%.*s", (int)len, line);
    return zep_error_set(err, ZEP_EUNAVAIL, "%s failed (status %d) without a word", helper, p->status);
}

int zep_detect_helper(const char *helper, char **path_out, struct zep_error *err)
{
    if (zep_fs_helper(helper, path_out, err) == ZEP_OK)
        return ZEP_OK;
    return zep_error_set(err, ZEP_ENOENT, "the helper %s is missing: it was not built", helper);
}

int zep_detect_run(const char *helper, const char *const *args, double time_s, int *absent_out, struct zep_topo **topo_out, struct zep_error *err)
{
    char *path = NULL, *argv[8] = {NULL};
    struct zep_process_result p;
    int rc, n = 0;

    *absent_out = 0;
    if (zep_fs_helper(helper, &path, err) < 0) {
        *absent_out = 1;
        return zep_error_set(err, ZEP_EUNAVAIL, "the helper %s is missing: it was not built", helper);
    }
    argv[n++] = path;
    for (; args && *args && n < 7; args++)
        argv[n++] = (char *)*args;
    if ((rc = zep_process_run(argv, time_s, &p, err)) == ZEP_OK) {
        *absent_out = !p.timed_out && p.status == 127; /* a library of it is missing here */
        rc = p.timed_out || p.status ? helper_error(helper, &p, time_s, err) : zep_detect_from_json(helper, p.out, p.out_len, topo_out, err);
        zep_process_result_free(&p);
    }
    for (int i = 0; rc == ZEP_OK && i < (*topo_out)->n_node; i++)
        if (zep_node_sort_devices(&(*topo_out)->node[i]) < 0) {
            zep_topo_free(*topo_out);
            rc = zep_error_nomem(err, "topology");
            break;
        }
    free(path);
    return rc;
}
