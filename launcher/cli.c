#include "config.h"
#include "launcher/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/fs.h"
#include "common/log.h"
#include "common/yaml.h"

static void unknown_option(const struct cli *cli, const char *word)
{
    const char *names[64] = {NULL}, *near = NULL;
    char name[64];
    int n = 0;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    for (; n < 63 && cli->options[n].name; n++)
        names[n] = cli->options[n].name;
    if (!strncmp(name, "--", 2))
        near = zep_nearest(name + 2, names);
    if (near)
        fprintf(stderr, "zeppelin %s: unknown option '%s' (did you mean '--%s'?)\n", cli->verb, name, near);
    else
        fprintf(stderr, "zeppelin %s: unknown option '%s': `zeppelin %s --help` lists all\n", cli->verb, name, cli->verb);
}

static void short_options(const struct cli *cli, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, ":o:h");

    for (const struct option *o = cli->options; o->name && n + 3 < size; o++)
        if (o->val > ' ' && o->val < 127 && !strchr("oh", o->val))
            n += (size_t)snprintf(out + n, size - n, "%c%s", o->val, o->has_arg == required_argument ? ":" : "");
}

int zep_cli_next(const struct cli *cli, int argc, char **argv)
{
    int at = optind ? optind : 1, c;
    char letters[64];

    opterr = 0;
    short_options(cli, letters, sizeof letters);
    c = getopt_long(argc, argv, letters, cli->options, NULL);
    if (c == 'h') {
        fputs(cli->usage, stdout);
        return 'h';
    }
    if (c == ':') {
        fprintf(stderr, "zeppelin %s: option '%s' needs a value\n", cli->verb, argv[optind - 1]);
        return CLI_BAD;
    }
    if (c == '?') {
        while (at < argc && argv[at][0] != '-')
            at++;
        unknown_option(cli, at < argc ? argv[optind > at ? optind - 1 : at] : "?");
        return CLI_BAD;
    }
    return c;
}

int zep_cli_fail_text(const char *text, int code)
{
    for (const char *line = text;;) {
        size_t len = strcspn(line, "\n");

        zep_log(ZEP_LOG_ERROR, "%.*s", (int)len, line);
        if (!line[len])
            break;
        line += len + 1;
    }
    return zep_exit_status(code);
}

int zep_cli_fail(const struct zep_error *err)
{
    return zep_cli_fail_text(err->text, err->code);
}

int zep_cli_usage(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "zeppelin %s: ", cli->verb);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, ": see `zeppelin %s --help`\n", cli->verb);
    return 2;
}

int zep_cli_write(const char *path, const struct zep_buf *text, struct zep_error *err)
{
    int rc;

    if ((rc = zep_buf_ok(text, err)) < 0)
        return rc;
    if (path && strcmp(path, "-"))
        return zep_fs_write_atomic(path, text->data ? text->data : "", text->len, 0666, err);
    if (text->len && fwrite(text->data, 1, text->len, stdout) != text->len)
        return zep_error_set(err, ZEP_EIO, "standard output: %s", strerror(errno));
    if (fflush(stdout) != 0)
        return zep_error_set(err, ZEP_EIO, "standard output: %s", strerror(errno));
    return ZEP_OK;
}

static void argv_push(struct zep_argv *a, char *word)
{
    if (a->n < 0 || !word) {
        free(word);
        a->n = -1;
        return;
    }
    if (a->n + 2 > a->cap) {
        int cap = 2 * a->cap + 16;
        char **v = zep_reallocarray(a->v, (size_t)cap, sizeof *v);

        if (!v) {
            free(word);
            a->n = -1;
            return;
        }
        a->v = v;
        a->cap = cap;
    }
    a->v[a->n++] = word;
    a->v[a->n] = NULL;
}

void zep_argv_add(struct zep_argv *a, const char *fmt, ...)
{
    char *word = NULL;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&word, fmt, ap) < 0)
        word = NULL;
    va_end(ap);
    argv_push(a, word);
}

void zep_argv_split(struct zep_argv *a, const char *words)
{
    while (*words) {
        size_t skip = strspn(words, " \t"), len = strcspn(words + skip, " \t");

        if (len)
            argv_push(a, strndup(words + skip, len));
        words += skip + len;
    }
}

void zep_argv_free(struct zep_argv *a)
{
    for (int i = 0; a->v && a->v[i]; i++)
        free(a->v[i]);
    free(a->v);
    *a = (struct zep_argv){0};
}
