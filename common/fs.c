#include "config.h"
#include "common/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/arena.h"

static int sys_error(struct zep_error *err, const char *path)
{
    int e = errno;

    return zep_error_set(err, e == ENOENT || e == ENOTDIR ? ZEP_ENOENT : ZEP_EIO, "%s: %s", path, strerror(e));
}

static int read_all(int fd, const char *path, size_t max, char **data_out, size_t *len_out, struct zep_error *err)
{
    size_t len = 0, cap = 65536;
    struct stat st;
    char *data, *p;
    ssize_t n;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        cap = (size_t)st.st_size + 1;
    if (cap > max + 1)
        cap = max + 1;
    if (!(data = malloc(cap + 1)))
        return zep_error_nomem(err, path);
    while ((n = read(fd, data + len, cap - len)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            free(data);
            return sys_error(err, path);
        }
        len += (size_t)n;
        if (len > max) {
            free(data);
            return zep_error_set(err, ZEP_EINVAL, "%s: larger than %zu bytes", path, max);
        }
        if (len == cap) {
            cap = cap * 2 > max + 1 ? max + 1 : cap * 2;
            if (!(p = realloc(data, cap + 1))) {
                free(data);
                return zep_error_nomem(err, path);
            }
            data = p;
        }
    }
    data[len] = '\0';
    *data_out = data;
    *len_out = len;
    return ZEP_OK;
}

int zep_fs_read(const char *path, size_t max, char **data_out, size_t *len_out, struct zep_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
    struct stat st;

    if (fd < 0)
        return sys_error(err, path);
    if (fstat(fd, &st) < 0)
        rc = sys_error(err, path);
    else if (S_ISDIR(st.st_mode))
        rc = zep_error_set(err, ZEP_EINVAL, "%s: is a directory, expected a file", path);
    else if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) || S_ISSOCK(st.st_mode))
        rc = zep_error_set(err, ZEP_EINVAL, "%s: is a device or socket, expected a file", path);
    else {
        if (!S_ISREG(st.st_mode)) /* a pipe: wait for its writer */
            fcntl(fd, F_SETFL, 0);
        rc = read_all(fd, path, max ? max : (size_t)1 << 30, data_out, len_out, err);
    }
    close(fd);
    return rc;
}

static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static int write_fd(int fd, const char *path, const char *data, size_t len, int sync, struct zep_error *err)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return sys_error(err, path);
        data += n;
        len -= (size_t)n;
    }
    return sync && fsync(fd) < 0 && errno != EINVAL && errno != EROFS ? sys_error(err, path) : ZEP_OK;
}

static int write_through(const char *path, const void *data, size_t len, int sync, struct zep_error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), rc;

    if (fd < 0)
        return sys_error(err, path);
    rc = write_fd(fd, path, data, len, sync, err);
    if (close(fd) < 0 && rc == ZEP_OK)
        rc = sys_error(err, path);
    return rc;
}

static int write_and_rename(const char *path, const void *data, size_t len, unsigned mode, int sync, struct zep_error *err)
{
    char *tmp, *dir = NULL;
    struct stat st;
    int fd, rc;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) /* /dev/null, a pipe: written to, never replaced */
        return write_through(path, data, len, sync, err);
    if (asprintf(&tmp, "%s.tmp.%ld", path, (long)getpid()) < 0)
        return zep_error_nomem(err, path);
    fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0) {
        rc = sys_error(err, path);
        goto out;
    }
    rc = write_fd(fd, path, data, len, sync, err);
    if (close(fd) < 0 && rc == ZEP_OK)
        rc = sys_error(err, path);
    if (rc == ZEP_OK && rename(tmp, path) < 0)
        rc = sys_error(err, path);
    if (rc < 0)
        unlink(tmp);
    if (rc < 0 || !sync)
        goto out;
    dir = dir_of(path);
    rc = dir ? zep_fs_fsync_dir(dir, err) : zep_error_nomem(err, path);
out:
    free(dir);
    free(tmp);
    return rc;
}

int zep_fs_write_atomic(const char *path, const void *data, size_t len, unsigned mode, struct zep_error *err)
{
    return write_and_rename(path, data, len, mode, 1, err);
}

int zep_fs_write_quick(const char *path, const void *data, size_t len, unsigned mode, struct zep_error *err)
{
    return write_and_rename(path, data, len, mode, 0, err);
}

int zep_fs_copy_private(const char *from, const char *to, struct zep_error *err)
{
    char *text;
    size_t len;
    int rc;

    if ((rc = zep_fs_read(from, 1 << 20, &text, &len, err)) < 0)
        return rc;
    rc = zep_fs_write_atomic(to, text, len, 0600, err);
    explicit_bzero(text, len);
    free(text);
    return rc;
}

int zep_fs_mkdir_p(const char *path, struct zep_error *err)
{
    char *copy = strdup(path);
    struct stat st;
    int rc = ZEP_OK;

    if (!copy)
        return zep_error_nomem(err, path);
    for (char *p = copy + 1; rc == ZEP_OK; p++) {
        char c = *p;

        if (c != '/' && c != '\0')
            continue;
        *p = '\0';
        if (mkdir(copy, 0777) < 0 && (errno != EEXIST || stat(copy, &st) < 0 || !S_ISDIR(st.st_mode))) {
            if (errno == EEXIST || errno == 0)
                rc = zep_error_set(err, ZEP_EINVAL, "%s: is a file, expected a directory", copy);
            else
                rc = sys_error(err, copy);
        }
        *p = c;
        if (c == '\0')
            break;
    }
    free(copy);
    return rc;
}

int zep_fs_fsync_dir(const char *path, struct zep_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = ZEP_OK;

    if (fd < 0)
        return sys_error(err, path);
    if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS) /* some network file systems cannot */
        rc = sys_error(err, path);
    close(fd);
    return rc;
}

int zep_fs_exists(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

int zep_fs_is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int remove_at(int parent, const char *name, const char *path, struct zep_error *err)
{
    int fd, rc = ZEP_OK;
    struct dirent *e;
    DIR *dir;

    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return ZEP_OK;
    if (errno != EISDIR && errno != EPERM)
        return sys_error(err, path);
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || !(dir = fdopendir(fd))) {
        if (fd >= 0)
            close(fd);
        return sys_error(err, path);
    }
    while (rc == ZEP_OK && (e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_at(fd, e->d_name, path, err);
    closedir(dir);
    if (rc == ZEP_OK && unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        rc = sys_error(err, path);
    return rc;
}

int zep_fs_remove_tree(const char *path, struct zep_error *err)
{
    return remove_at(AT_FDCWD, path, path, err);
}

char *zep_fs_join(const char *a, const char *b)
{
    size_t n = strlen(a);
    char *p;

    while (n > 1 && a[n - 1] == '/')
        n--;
    while (*b == '/')
        b++;
    return asprintf(&p, "%.*s%s%s", (int)n, a, n == 1 && *a == '/' ? "" : "/", b) < 0 ? NULL : p;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int zep_fs_list(const char *path, char ***names_out, int *n_out, struct zep_error *err)
{
    DIR *dir = opendir(path);
    char **names = NULL, **p;
    struct dirent *e;
    int n = 0, cap = 0;

    if (!dir)
        return sys_error(err, path);
    while ((e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (n == cap) {
            cap = cap ? 2 * cap : 16;
            if (!(p = zep_reallocarray(names, (size_t)cap, sizeof *names)))
                goto err_names;
            names = p;
        }
        if (!(names[n] = strdup(e->d_name)))
            goto err_names;
        n++;
    }
    closedir(dir);
    if (n > 1)
        qsort(names, (size_t)n, sizeof *names, by_name);
    *names_out = names;
    *n_out = n;
    return ZEP_OK;
err_names:
    closedir(dir);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return zep_error_nomem(err, path);
}

int zep_fs_self_dir(char **dir_out, struct zep_error *err)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    if (n < 0)
        return sys_error(err, "/proc/self/exe");
    path[n] = '\0';
    *dir_out = dir_of(path);
    return *dir_out ? ZEP_OK : zep_error_nomem(err, path);
}

/* In a build tree a program lies in FOLDER/ or FOLDER/.libs/; libtool's wrapper FOLDER/NAME is what may be started. */
int zep_fs_helper(const char *name, char **path_out, struct zep_error *err)
{
    static const char *const patterns[] = {"%s/%s", "%s/../topology/%s", "%s/../runtime/%s", "%s/../launcher/%s", "%s/../../topology/%s",
                                           "%s/../../runtime/%s", "%s/../../launcher/%s"};
    char *dir, *path;
    int rc, in_libs;

    if ((rc = zep_fs_self_dir(&dir, err)) < 0)
        return rc;
    in_libs = strlen(dir) > 6 && strcmp(dir + strlen(dir) - 6, "/.libs") == 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if ((i == 0 && in_libs) || (i >= 4 && !in_libs)) /* the raw binary in .libs does not find its libraries by itself */
            continue;
        if (asprintf(&path, patterns[i], dir, name) < 0)
            break;
        if (access(path, X_OK) == 0) {
            char *real = realpath(path, NULL);

            free(path);
            free(dir);
            *path_out = real;
            return real ? ZEP_OK : zep_error_nomem(err, name);
        }
        free(path);
    }
    free(dir);
    path = zep_fs_join(ZEP_PKGLIBEXECDIR, name);
    if (!path)
        return zep_error_nomem(err, name);
    if (access(path, X_OK) == 0) {
        *path_out = path;
        return ZEP_OK;
    }
    rc = zep_error_set(err, ZEP_EUNAVAIL, "the helper program %s is not installed (looked in %s)", name, ZEP_PKGLIBEXECDIR);
    free(path);
    return rc;
}
