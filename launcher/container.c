#include "config.h"
#include "launcher/container.h"

#include <string.h>

#include "common/buf.h"
#include "common/fs.h"
#include "launcher/launch.h"

static int is(const struct zep_job *job, const char *kind)
{
    return !strcmp(job->cluster.container, kind);
}

/* Is the folder in the list already, as a whole "SRC:DST"? */
static int has_mount(const struct zep_buf *list, const char *one)
{
    size_t len = strlen(one);

    for (const char *p = list->data; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, one, len) && (p[len] == ',' || p[len] == ':' || !p[len]))
            return 1;
    return 0;
}

static void add_mount(struct zep_buf *list, const char *path, int folder_of)
{
    const char *slash = strrchr(path, '/');
    int len = folder_of && slash ? (int)(slash - path) : (int)strlen(path);
    struct zep_buf one = ZEP_BUF_INIT;

    if (!*path || len < 1)
        return;
    zep_buf_printf(&one, "%.*s:%.*s", len, path, len, path);
    if (one.data && !has_mount(list, one.data))
        zep_buf_printf(list, "%s%s", list->len ? "," : "", one.data);
    zep_buf_free(&one);
}

/* Relative paths are made absolute before. */
static void mounts(const struct zep_job *job, struct zep_buf *list)
{
    for (const char *p = job->cluster.mounts; *p;) { /* blanks round the commas are the writer's */
        size_t skip = strspn(p, ", "), len = strcspn(p + skip, ",");

        for (p += skip; len && p[len - 1] == ' '; len--)
            ;
        if (len) {
            zep_buf_puts(list, list->len ? "," : "");
            zep_buf_add(list, p, len);
        }
        p += strcspn(p, ",");
    }
    add_mount(list, job->run_root, 0);
    add_mount(list, job->data.train, 1);
    add_mount(list, job->data.heldout, 1);
}

int zep_container_check(const struct zep_job *job, struct zep_error *err)
{
    const struct {
        const char *key, *path;
    } paths[] = {{"run_root", job->run_root}, {"data.train", job->data.train}, {"data.heldout", job->data.heldout}};

    if (is(job, "none"))
        return ZEP_OK;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (strpbrk(paths[i].path, ",:"))
            return zep_error_set(err, ZEP_EINVAL, "%s: '%s': ',' and ':' divide a container's mounts: expected a path without them", paths[i].key, paths[i].path);
    return ZEP_OK;
}

int zep_container_there(const struct zep_job *job, struct zep_error *err)
{
    if (is(job, "none"))
        return ZEP_OK;
    if (is(job, "apptainer") && !zep_launch_in_path("apptainer"))
        return zep_error_set(err, ZEP_EUNAVAIL, "cluster.container is apptainer, but apptainer is not in PATH (cluster.setup may load a module)");
    if (zep_job_image_is_file(job->cluster.image) && !zep_fs_exists(job->cluster.image))
        return zep_error_set(err, ZEP_ENOENT, "%s: cluster.image: %s: no such file", zep_job_origin(job, "cluster.image"), job->cluster.image);
    return ZEP_OK;
}

void zep_container_srun(struct zep_argv *a, const struct zep_job *job)
{
    struct zep_buf b = ZEP_BUF_INIT;
    const struct zep_job_map *maps[] = {&job->cluster.env, &job->cluster.secrets};

    if (!is(job, "pyxis"))
        return;
    zep_argv_add(a, "--container-image=%s", job->cluster.image);
    mounts(job, &b);
    if (b.len)
        zep_argv_add(a, "--container-mounts=%s", b.data);
    zep_buf_free(&b);
    for (int k = 0; k < 2; k++) /* the job's word counts, not the image's: names only */
        for (int i = 0; i < maps[k]->n; i++)
            zep_buf_printf(&b, "%s%s", b.len ? "," : "", maps[k]->pair[i].name);
    if (b.len)
        zep_argv_add(a, "--container-env=%s", b.data);
    zep_buf_free(&b);
    zep_argv_split(a, job->cluster.container_args);
}

void zep_container_wrap(struct zep_argv *a, const struct zep_job *job)
{
    struct zep_buf b = ZEP_BUF_INIT;

    if (!is(job, "apptainer"))
        return;
    zep_argv_add(a, "apptainer");
    zep_argv_add(a, "exec");
    if (job->cluster.gpus_per_node)
        zep_argv_add(a, "--nv");
    mounts(job, &b);
    if (b.len) {
        zep_argv_add(a, "--bind");
        zep_argv_add(a, "%s", b.data);
    }
    zep_buf_free(&b);
    zep_argv_split(a, job->cluster.container_args);
    zep_argv_add(a, "%s", job->cluster.image);
}
