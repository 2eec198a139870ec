#include "config.h"
#include "common/encode.h"

#include <string.h>

static int refuse_control(const char *s, struct zep_error *err)
{
    for (const char *p = s; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return zep_error_set(err, ZEP_EINVAL, "control character 0x%02x at byte %d of '%.*s': not allowed here", (unsigned char)*p, (int)(p - s) + 1,
                                 (int)(p - s), s);
    return ZEP_OK;
}

static int only(const char *s, const char *extra)
{
    static const char alnum[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

    if (!*s)
        return 0;
    for (; *s; s++)
        if (!strchr(alnum, *s) && !strchr(extra, *s))
            return 0;
    return 1;
}

int zep_encode_shell(struct zep_buf *b, const char *s, struct zep_error *err)
{
    int rc;

    if ((rc = refuse_control(s, err)) < 0)
        return rc;
    if (only(s, "_./:=,@%+-")) {
        zep_buf_puts(b, s);
        return zep_buf_ok(b, err);
    }
    zep_buf_puts(b, "'");
    for (; *s; s++) {
        if (*s == '\'')
            zep_buf_puts(b, "'\\''");
        else
            zep_buf_add(b, s, 1);
    }
    zep_buf_puts(b, "'");
    return zep_buf_ok(b, err);
}

/* sbatch (src/sbatch/opt.c, _get_argument) reads the rest of a #SBATCH line like this: a blank ends the argument, even behind a backslash, unless it is quoted; ' and " quote up to the same quote, # starts a
 * comment outside quotes, and a backslash takes the next character as it is, inside quotes of both kinds too. Nothing is expanded. So: double quotes, with \ before " and \ (tried with 22.05). */
int zep_encode_sbatch(struct zep_buf *b, const char *s, struct zep_error *err)
{
    int rc;

    if ((rc = refuse_control(s, err)) < 0)
        return rc;
    if (only(s, "_./:=,@%+-[]")) {
        zep_buf_puts(b, s);
        return zep_buf_ok(b, err);
    }
    zep_buf_puts(b, "\"");
    for (; *s; s++) {
        if (strchr("\\\"", *s))
            zep_buf_puts(b, "\\");
        zep_buf_add(b, s, 1);
    }
    zep_buf_puts(b, "\"");
    return zep_buf_ok(b, err);
}

int zep_encode_slurm_path(struct zep_buf *b, const char *s, struct zep_error *err)
{
    int rc;

    if ((rc = refuse_control(s, err)) < 0)
        return rc;
    if (strchr(s, '\\'))
        return zep_error_set(err, ZEP_EINVAL, "'%s': a backslash cannot stand in a Slurm file name (it switches all patterns off)", s);
    for (; *s; s++)
        zep_buf_add(b, "%%", *s == '%' ? 2 : 0), zep_buf_add(b, s, *s == '%' ? 0 : 1);
    return zep_buf_ok(b, err);
}

int zep_encode_pod_text(struct zep_buf *b, const char *s, struct zep_error *err)
{
    for (const char *p = s; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
            return zep_error_set(err, ZEP_EINVAL, "control character 0x%02x at byte %d: not allowed here", (unsigned char)*p, (int)(p - s) + 1);
    for (; *s; s++)
        zep_buf_add(b, "$$", *s == '$' ? 2 : 0), zep_buf_add(b, s, *s == '$' ? 0 : 1);
    return zep_buf_ok(b, err);
}

int zep_utf8_next(const char *text, unsigned *code_out)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned code;
    int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;

    if (!n)
        return 0;
    code = n == 1 ? s[0] : n == 2 ? s[0] & 0x1fu : n == 3 ? s[0] & 0xfu : s[0] & 7u;
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    if ((n == 3 && code < 0x800) || (n == 4 && (code < 0x10000 || code > 0x10ffff)) || (code >= 0xd800 && code < 0xe000))
        return 0;
    *code_out = code;
    return n;
}

int zep_utf8_prints(unsigned code)
{
    return code >= 0x20 && (code < 0x7f || code >= 0xa0) && (code & 0xfffe) != 0xfffe && code != 0xfeff && code != 0x2028 && code != 0x2029;
}

int zep_encode_xml(struct zep_buf *b, const char *s, struct zep_error *err)
{
    int rc;

    if ((rc = refuse_control(s, err)) < 0)
        return rc;
    while (*s) {
        unsigned code;
        int n = zep_utf8_next(s, &code);

        if (n == 0)
            zep_buf_puts(b, "\xef\xbf\xbd");
        else if (*s == '&')
            zep_buf_puts(b, "&amp;");
        else if (*s == '<')
            zep_buf_puts(b, "&lt;");
        else if (*s == '>')
            zep_buf_puts(b, "&gt;");
        else if (*s == '"')
            zep_buf_puts(b, "&quot;");
        else if (*s == '\'')
            zep_buf_puts(b, "&#39;");
        else
            zep_buf_add(b, s, (size_t)n);
        s += n ? n : 1;
    }
    return zep_buf_ok(b, err);
}

int zep_check_hostname(const char *s, struct zep_error *err)
{
    if (*s == '-' || strlen(s) > 253 || !only(s, "._-"))
        return zep_error_set(err, ZEP_EINVAL, "host name '%.300s': expected letters, digits, '.', '_' and '-', not beginning with '-', at most 253", s);
    return ZEP_OK;
}

/* Length of the sequence at s, 0: none that is valid and printable. */
static int sequence(const char *s)
{
    unsigned code;
    int n = zep_utf8_next(s, &code);

    return n && zep_utf8_prints(code) ? n : 0;
}

int zep_text_is_clean(const char *s)
{
    for (int n; *s; s += n)
        if (!(n = sequence(s)))
            return 0;
    return 1;
}

int zep_text_lists(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, word, n) && (p[n] == ',' || !p[n]))
            return 1;
    return 0;
}

void zep_text_clean(char *s)
{
    for (int n; *s; s += n ? n : 1)
        if (!(n = sequence(s)))
            *s = '?';
}
