#include "config.h"
#include "common/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"

#define PATH_SIZE 4096

/* The number behind the first line that begins with key ("" the text's first); negative: there is none. */
static int64_t number_of(const char *root, const char *path, const char *key)
{
    char full[PATH_SIZE], *text, *at, *end;
    int64_t value = -1;
    size_t len;

    if (snprintf(full, sizeof full, "%s%s", root, path) >= (int)sizeof full || zep_fs_read(full, 1 << 20, &text, &len, NULL) < 0)
        return -1;
    for (at = text; at && value < 0; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, key, strlen(key)) == 0) {
            int64_t n = strtoll(at + strlen(key), &end, 10);

            value = end > at + strlen(key) && n >= 0 ? n : -1;
            break;
        }
    free(text);
    return value;
}

/* Room in one control group; negative: no limit. */
static int64_t room_in(const char *root, const char *group)
{
    char path[PATH_SIZE];
    int64_t limit, used, cache;

    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
    limit = number_of(root, path, "");
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
    used = number_of(root, path, "");
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", group);
    cache = number_of(root, path, "inactive_file ");
    if (limit < 0 || used < 0)
        return -1;
    used -= cache > 0 && cache < used ? cache : 0;
    return limit > used ? limit - used : 0;
}

int64_t zep_memory_available(const char *root)
{
    int64_t kib = number_of(root, "/proc/meminfo", "MemAvailable:"), have = kib > 0 ? kib * 1024 : 0, room;
    char full[PATH_SIZE], *text = NULL, *group, *slash;
    size_t len;

    if (snprintf(full, sizeof full, "%s/proc/self/cgroup", root) >= (int)sizeof full || zep_fs_read(full, 1 << 16, &text, &len, NULL) < 0)
        return have;
    group = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    group = group ? strstr(group, "0::") + 3 : text + len;
    group[strcspn(group, "\n")] = '\0';
    if (strlen(group) > PATH_SIZE - 64)
        *group = '\0';
    for (;;) {
        room = room_in(root, strcmp(group, "/") == 0 ? "" : group);
        if (room >= 0 && (have == 0 || room < have))
            have = room;
        if (!(slash = strrchr(group, '/')))
            break;
        *slash = '\0';
    }
    free(text);
    return have;
}
