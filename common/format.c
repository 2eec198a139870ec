#include "config.h"
#include "common/format.h"

#include <stdio.h>
#include <string.h>

int zep_format_check(const char *text, const char *name, int major, int minor, int *newer_minor_out, struct zep_error *err)
{
    size_t len = strlen(name);
    unsigned have_major, have_minor;
    int used = 0;

    if (strncmp(text, name, len) != 0 || text[len] != '/' || sscanf(text + len, "/%6u.%6u%n", &have_major, &have_minor, &used) != 2 ||
        text[len + (size_t)used] != '\0')
        return zep_error_set(err, ZEP_EINVAL, "format '%.100s': expected %s/%d.x", text, name, major);
    if (have_major > (unsigned)major)
        return zep_error_set(err, ZEP_EREFUSED, "format %s/%u.%u is newer than this program, which reads %s/%d.x", name, have_major, have_minor, name, major);
    if (have_major < (unsigned)major)
        return zep_error_set(err, ZEP_EREFUSED, "format %s/%u.%u is older than this program, which reads %s/%d.x", name, have_major, have_minor, name, major);
    if (newer_minor_out)
        *newer_minor_out = have_minor > (unsigned)minor;
    return ZEP_OK;
}
