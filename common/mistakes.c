#include "config.h"
#include "common/mistakes.h"

#include <stdarg.h>
#include <string.h>

#define ROOM 1900 /* of an error's text, so that the line about the others fits */

void zep_mistakes_add(struct zep_mistakes *m, const char *key, enum zep_status code, const char *fmt, ...)
{
    struct zep_error one;
    va_list ap;

    va_start(ap, fmt);
    zep_error_vset(&one, code, fmt, ap);
    va_end(ap);
    if (!m->n++)
        m->code = code;
    zep_buf_printf(&m->text, "%s%s", m->n > 1 ? "\n" : "", one.text);
    if (key)
        zep_buf_printf(&m->keys, "\n%s\n", key);
}

int zep_mistakes_doubt(const struct zep_mistakes *m, const char *key)
{
    size_t len = strlen(key);
    char line[300];

    if (!m->keys.len || len > 256)
        return 0;
    line[0] = '\n';
    memcpy(line + 1, key, len + 1);
    if (len && key[len - 1] != '.')
        memcpy(line + 1 + len, "\n", 2);
    return strstr(m->keys.data, line) != NULL;
}

int zep_mistakes_error(const struct zep_mistakes *m, struct zep_error *err)
{
    size_t len = 0;
    int told = 0, rc;

    if (!m->n)
        return ZEP_OK;
    if ((rc = zep_buf_ok(&m->text, err)) < 0)
        return rc;
    while (len < m->text.len) { /* whole lines only */
        size_t line = strcspn(m->text.data + len + (told > 0), "\n") + (told > 0);

        if (told && len + line > ROOM)
            break;
        len += line;
        told++;
    }
    if (told < m->n)
        return zep_error_set(err, m->code, "%.*s\n... and %d more: `zeppelin job check` tells all", (int)len, m->text.data, m->n - told);
    return zep_error_set(err, m->code, "%s", m->text.data);
}

void zep_mistakes_free(struct zep_mistakes *m)
{
    zep_buf_free(&m->text);
    zep_buf_free(&m->keys);
    *m = (struct zep_mistakes)ZEP_MISTAKES_INIT;
}
