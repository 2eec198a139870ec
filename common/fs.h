/* Files: whole reads, writes that are complete or absent, folders. Errors: "PATH: text of errno", what was expected where a kind is wrong. */
#ifndef ZEP_COMMON_FS_H
#define ZEP_COMMON_FS_H

#include <stddef.h>
#include <stdint.h>
#include "common/error.h"

/* *data_out is NUL-terminated past len and goes to free(). A folder or a device is refused ("is a directory, expected a file"); max 0: 1 GiB. */
int zep_fs_read(const char *path, size_t max, char **data_out, size_t *len_out, struct zep_error *err);
/* Writes PATH.tmp.PID in the same folder, fsyncs, renames, fsyncs the folder. The old file stays on any failure. What is no regular file (a device, a pipe) is written to and stays. */
int zep_fs_write_atomic(const char *path, const void *data, size_t len, unsigned mode, struct zep_error *err);
/* The same without waiting for the disk: complete or absent for other processes, but not after a power cut. */
int zep_fs_write_quick(const char *path, const void *data, size_t len, unsigned mode, struct zep_error *err);
/* A small file with a secret in it, as a copy that only its owner can read; nothing of it stays in memory. */
int zep_fs_copy_private(const char *from, const char *to, struct zep_error *err);
int zep_fs_mkdir_p(const char *path, struct zep_error *err); /* mode 0777 less umask; existing folders are fine */
int zep_fs_fsync_dir(const char *path, struct zep_error *err);
int zep_fs_exists(const char *path);
int zep_fs_is_dir(const char *path);
/* Removes a folder that we made, recursively, without following links out of it. */
int zep_fs_remove_tree(const char *path, struct zep_error *err);
/* Joined with one slash; goes to free(); NULL when out of memory. */
char *zep_fs_join(const char *a, const char *b);
/* Sorted (strcmp) names in a folder, without . and .. ; both levels go to free(). */
int zep_fs_list(const char *path, char ***names_out, int *n_out, struct zep_error *err);
/* The folder of the running program's binary (readlink /proc/self/exe), for finding sibling programs in a build tree. free(). */
int zep_fs_self_dir(char **dir_out, struct zep_error *err);
/* Absolute path of a helper program NAME: next to the running binary (build tree, also through libtool's .libs), else pkglibexecdir. free(). */
int zep_fs_helper(const char *name, char **path_out, struct zep_error *err);

#endif
