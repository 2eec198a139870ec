/* What the verbs share: options, messages, output. */
#ifndef ZEP_LAUNCHER_CLI_H
#define ZEP_LAUNCHER_CLI_H

#include <getopt.h>
#include <stddef.h>
#include "common/buf.h"
#include "common/error.h"

enum { CLI_BAD = -2, CLI_HELP = 'h' };

struct cli {
    const char *verb;  /* "plan" */
    const char *usage; /* whole help text */
    const struct option *options; /* one whose value is a letter has that as its short form */
};

/* The next option: its value; -1 no more; CLI_BAD after the message was printed (exit 2). 'h' prints the help: return 0 then. */
int zep_cli_next(const struct cli *cli, int argc, char **argv);
/* Prints the error, one line of stderr for each line of text, and returns the exit status that belongs to it. */
int zep_cli_fail(const struct zep_error *err);
int zep_cli_fail_text(const char *text, int code); /* the same for a text of any length */
/* A mistake in the command line: "zeppelin VERB: text"; returns 2. */
int zep_cli_usage(const struct cli *cli, const char *fmt, ...) ZEP_PRINTF(2, 3);
/* Text to standard output, or to a file that is complete or absent. path NULL or "-": stdout. */
int zep_cli_write(const char *path, const struct zep_buf *text, struct zep_error *err);
/* A growing list of arguments for programs; NULL-terminated. A failed allocation is remembered in n = -1. */
struct zep_argv {
    int n, cap;
    char **v;
};
void zep_argv_add(struct zep_argv *a, const char *fmt, ...) ZEP_PRINTF(2, 3);
void zep_argv_split(struct zep_argv *a, const char *words); /* at blanks */
void zep_argv_free(struct zep_argv *a);

#endif
