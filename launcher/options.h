/* A verb's options as a table: where each value goes. What needs more than that keeps its own loop over zep_cli_next. */
#ifndef ZEP_LAUNCHER_OPTIONS_H
#define ZEP_LAUNCHER_OPTIONS_H

#include "launcher/cli.h"

enum zep_option_kind { ZEP_OPTION_END = 0, ZEP_OPTION_FLAG /* int: 1 */, ZEP_OPTION_TEXT /* const char * */, ZEP_OPTION_LIST /* one more text */ };

struct zep_option {
    enum zep_option_kind kind;
    int code;            /* as in the verb's struct option */
    void *at;            /* int *, const char **; of a list const char ***, with room for argc texts */
    int *n;              /* of a list: how many there are */
};

/* Takes all options; the table ends with kind 0. Returns -1: go on with the words from argv[optind]; else the exit status (help was printed, or what is wrong). */
int zep_options(const struct cli *cli, int argc, char **argv, const struct zep_option *table);

#endif
