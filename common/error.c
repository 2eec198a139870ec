#include "config.h"
#include "common/error.h"

#include <stdio.h>
#include <string.h>

int zep_error_vset(struct zep_error *err, enum zep_status code, const char *fmt, va_list ap)
{
    if (err) {
        char text[sizeof err->text];

        vsnprintf(text, sizeof text, fmt, ap); /* an argument may be err->text itself */
        memcpy(err->text, text, sizeof text);
        err->code = code;
    }
    return code;
}

int zep_error_set(struct zep_error *err, enum zep_status code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(err, code, fmt, ap);
    va_end(ap);
    return code;
}

int zep_error_prefix(struct zep_error *err, const char *fmt, ...)
{
    char prefix[sizeof err->text / 2], text[sizeof err->text];
    va_list ap;

    if (!err)
        return ZEP_EINTERNAL;
    va_start(ap, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    memcpy(text, err->text, sizeof text);
    text[sizeof text - 1] = '\0';
    snprintf(err->text, sizeof err->text, "%s: %.*s", prefix, (int)(sizeof text - strlen(prefix) - 3), text);
    return err->code;
}

int zep_error_nomem(struct zep_error *err, const char *what)
{
    return zep_error_set(err, ZEP_ENOMEM, "out of memory (%s)", what);
}

int zep_exit_status(int code)
{
    switch (code) {
    case ZEP_OK:
        return 0;
    case ZEP_EINVAL:
    case ZEP_ENOENT:
        return 2;
    case ZEP_EUNAVAIL:
    case ZEP_EUNSUPPORTED:
    case ZEP_ETIMEDOUT:
        return 3;
    case ZEP_EREFUSED:
        return 4;
    case ZEP_ESTOPPED:
        return 75;
    case ZEP_EPEER:
        return 76;
    default:
        return 1;
    }
}

const char *zep_status_name(int code)
{
    static const char *const names[] = {
        "ok",        "invalid input", "out of memory", "i/o error", "not found", "unavailable",
        "unsupported", "refused",     "stopped",       "peer lost", "timed out", "internal error",
    };

    if (code > 0 || -code >= (int)(sizeof names / sizeof *names))
        return "unknown status";
    return names[-code];
}
