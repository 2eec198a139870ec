#include "config.h"
#include "launcher/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/fs.h"

#define MAX_SECRET ((size_t)64 << 10)

/* --- variables --- */

static int put_before(const char *name, const char *dir, struct zep_error *err)
{
    const char *old = getenv(name);
    struct zep_buf b = ZEP_BUF_INIT;
    int rc;

    zep_buf_printf(&b, "%s%s%s", dir, old && *old ? ":" : "", old ? old : "");
    if ((rc = zep_buf_ok(&b, err)) == ZEP_OK && setenv(name, b.data, 1) < 0)
        rc = zep_error_nomem(err, "environment");
    zep_buf_free(&b);
    return rc;
}

/* Sites build Open MPI with lib or lib64. */
static int use_mpi(const char *prefix, struct zep_error *err)
{
    static const char *const libs[] = {"lib64", "lib"};
    char *bin = zep_fs_join(prefix, "bin"), *mpirun = bin ? zep_fs_join(bin, "mpirun") : NULL;
    int rc = mpirun ? ZEP_OK : zep_error_nomem(err, "cluster.mpi");

    if (rc == ZEP_OK && access(mpirun, X_OK) < 0)
        rc = zep_error_set(err, ZEP_EUNAVAIL, "cluster.mpi: '%s': there is no %s: expected the folder that Open MPI is installed in", prefix, mpirun);
    if (rc == ZEP_OK)
        rc = put_before("PATH", bin, err);
    for (int i = 0; rc == ZEP_OK && i < 2; i++) {
        char *lib = zep_fs_join(prefix, libs[i]);

        if (lib && zep_fs_is_dir(lib))
            rc = put_before("LD_LIBRARY_PATH", lib, err);
        free(lib);
    }
    free(mpirun);
    free(bin);
    return rc;
}

int zep_environment_apply(const struct zep_job *job, int slurm, struct zep_error *err)
{
    const struct zep_job_map *env = &job->cluster.env;
    int rc = ZEP_OK;

    for (int i = 0; i < env->n; i++)
        if (setenv(env->pair[i].name, env->pair[i].value, 1) < 0)
            return zep_error_nomem(err, "environment");
    if (*job->cluster.library_path)
        rc = put_before("LD_LIBRARY_PATH", job->cluster.library_path, err);
    if (rc == ZEP_OK && *job->cluster.mpi)
        rc = use_mpi(job->cluster.mpi, err);
    if (rc == ZEP_OK && slurm) /* what --export=NONE leaves behind would keep all of it from the ranks, and PATH from mpirun's daemons */
        setenv("SLURM_EXPORT_ENV", "ALL", 1);
    return rc;
}

static void forward(struct zep_argv *a, const char *name)
{
    zep_argv_add(a, "-x");
    zep_argv_add(a, "%s", name);
}

void zep_environment_forward(const struct zep_job *job, struct zep_argv *a)
{
    const struct zep_job_map *env = &job->cluster.env, *secrets = &job->cluster.secrets;

    if (*job->cluster.mpi) {
        zep_argv_add(a, "--prefix");
        zep_argv_add(a, "%s", job->cluster.mpi);
    }
    if ((*job->cluster.mpi || *job->cluster.library_path) && !zep_job_map_get(env, "LD_LIBRARY_PATH"))
        forward(a, "LD_LIBRARY_PATH");
    for (int i = 0; i < env->n; i++)
        forward(a, env->pair[i].name);
    for (int i = 0; i < secrets->n; i++)
        forward(a, secrets->pair[i].name);
}

/* --- secrets --- */

/* A file that only its owner can read. */
static int read_private(const char *path, char **out, struct zep_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), rc = ZEP_OK;
    struct stat st;
    char *text = NULL;
    ssize_t n = 0;
    size_t len = 0;

    if (fd < 0)
        return zep_error_set(err, errno == ENOENT ? ZEP_ENOENT : ZEP_EIO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        rc = zep_error_set(err, ZEP_EINVAL, "%s: expected a file", path);
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        rc = zep_error_set(err, ZEP_EREFUSED, "%s: belongs to another user (id %ld): expected a file of yours", path, (long)st.st_uid);
    else if (st.st_mode & 077)
        rc = zep_error_set(err, ZEP_EREFUSED, "%s: mode %04o: others may read or write it: expected 0600 (chmod 600 %s)", path, (unsigned)(st.st_mode & 07777), path);
    else if ((size_t)st.st_size > MAX_SECRET)
        rc = zep_error_set(err, ZEP_EINVAL, "%s: larger than %zu bytes: expected a secret", path, MAX_SECRET);
    else if (!(text = zep_calloc(MAX_SECRET + 1, 1)))
        rc = zep_error_nomem(err, path);
    while (rc == ZEP_OK && len < MAX_SECRET && (n = read(fd, text + len, MAX_SECRET - len)) > 0)
        len += (size_t)n;
    if (rc == ZEP_OK && n < 0)
        rc = zep_error_set(err, ZEP_EIO, "%s: %s", path, strerror(errno));
    close(fd);
    if (rc == ZEP_OK && len && text[len - 1] == '\n')
        text[--len] = '\0';
    if (rc == ZEP_OK && (!len || strlen(text) != len))
        rc = zep_error_set(err, ZEP_EINVAL, "%s: %s", path, len ? "has a NUL character in it: expected text" : "is empty");
    if (rc < 0)
        free(text);
    else
        *out = text;
    return rc;
}

static int read_secret(const struct zep_job_pair *p, char **out, struct zep_error *err)
{
    const char *arg = strchr(p->value, ':') + 1, *value;

    if (*p->value == 'f')
        return read_private(arg, out, err);
    if (*p->value == 'k' && !getenv(p->name))
        return zep_error_set(err, ZEP_EUNAVAIL, "'%s': a Kubernetes secret, which only pods have: expected {env: NAME} or {file: PATH}", p->value);
    value = getenv(*p->value == 'k' ? p->name : arg);
    if (!value || !*value)
        return zep_error_set(err, ZEP_EUNAVAIL, "the environment variable %s is not set here", arg);
    *out = strdup(value);
    return *out ? ZEP_OK : zep_error_nomem(err, "secret");
}

void zep_secrets_check(const struct zep_job *job, struct zep_mistakes *m)
{
    const struct zep_job_map *map = &job->cluster.secrets;

    for (int i = 0; i < map->n; i++) {
        const struct zep_job_pair *p = &map->pair[i];
        struct zep_error err;
        char *value = NULL;

        if (read_secret(p, &value, &err) < 0)
            zep_mistakes_add(m, NULL, err.code, "%s: cluster.secrets.%s: %s", p->origin, p->name, err.text);
        else
            explicit_bzero(value, strlen(value));
        free(value);
    }
}

int zep_secrets_read(const struct zep_job *job, struct zep_secrets *out, struct zep_error *err)
{
    const struct zep_job_map *map = &job->cluster.secrets;
    struct zep_mistakes m = ZEP_MISTAKES_INIT;
    struct zep_secrets s = {0};
    int rc;

    zep_secrets_check(job, &m);
    rc = zep_mistakes_error(&m, err);
    zep_mistakes_free(&m);
    if (rc < 0)
        return rc;
    s.name = zep_calloc((size_t)map->n + 1, sizeof *s.name);
    s.value = zep_calloc((size_t)map->n + 1, sizeof *s.value);
    if (!s.name || !s.value)
        rc = zep_error_nomem(err, "secrets");
    for (int i = 0; rc == ZEP_OK && i < map->n; i++) {
        s.n = i + 1;
        if (!(s.name[i] = strdup(map->pair[i].name)))
            rc = zep_error_nomem(err, "secrets");
        else if ((rc = read_secret(&map->pair[i], &s.value[i], err)) < 0)
            zep_error_prefix(err, "%s: cluster.secrets.%s", map->pair[i].origin, map->pair[i].name);
    }
    if (rc < 0)
        zep_secrets_free(&s);
    else
        *out = s;
    return rc;
}

void zep_secrets_set(const struct zep_secrets *s)
{
    for (int i = 0; i < s->n; i++)
        setenv(s->name[i], s->value[i], 1);
}

void zep_secrets_free(struct zep_secrets *s)
{
    for (int i = 0; i < s->n; i++) {
        free(s->name[i]);
        if (s->value[i])
            explicit_bzero(s->value[i], strlen(s->value[i]));
        free(s->value[i]);
    }
    free(s->name);
    free(s->value);
    *s = (struct zep_secrets){0};
}

/* --- batch scripts --- */

int zep_environment_export(const struct zep_job *job, struct zep_buf *out, struct zep_error *err)
{
    const char *base = job->cluster.export_env;
    const struct zep_job_map *map = &job->cluster.secrets;
    int nothing = !strcmp(base, "NONE") || !strcmp(base, "NIL"), n = 0;

    for (int i = 0; i < map->n; i++)
        n += !strncmp(map->pair[i].value, "env:", 4);
    if (!nothing || !n)
        zep_buf_puts(out, base);
    for (int i = 0; i < map->n && !zep_text_lists(base, "ALL"); i++) {
        const char *name = map->pair[i].value + 4;

        if (strncmp(map->pair[i].value, "env:", 4) || zep_text_lists(base, name) || zep_text_lists(out->data, name))
            continue;
        zep_buf_printf(out, "%s%s", out->len ? "," : "", name);
    }
    return zep_buf_ok(out, err);
}

int zep_environment_lines(const struct zep_job *job, struct zep_buf *out, struct zep_error *err)
{
    const struct zep_job_map *env = &job->cluster.env;
    int rc;

    if (env->n)
        zep_buf_puts(out, "\n# cluster.env\n");
    for (int i = 0; i < env->n; i++) {
        zep_buf_printf(out, "export %s=", env->pair[i].name);
        if ((rc = zep_encode_shell(out, env->pair[i].value, err)) < 0)
            return zep_error_prefix(err, "cluster.env.%s", env->pair[i].name);
        zep_buf_puts(out, "\n");
    }
    return zep_buf_ok(out, err);
}
