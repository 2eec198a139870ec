#include "config.h"
#include "launcher/options.h"

static int take(const struct zep_option *o, int code)
{
    while (o->kind && o->code != code)
        o++;
    if (o->kind == ZEP_OPTION_FLAG)
        *(int *)o->at = 1;
    else if (o->kind == ZEP_OPTION_TEXT)
        *(const char **)o->at = optarg;
    else if (o->kind == ZEP_OPTION_LIST)
        (*(const char ***)o->at)[(*o->n)++] = optarg;
    return o->kind != ZEP_OPTION_END;
}

int zep_options(const struct cli *cli, int argc, char **argv, const struct zep_option *table)
{
    int c;

    while ((c = zep_cli_next(cli, argc, argv)) != -1)
        if (c == 'h' || c == CLI_BAD || !take(table, c))
            return c == 'h' ? 0 : 2;
    return -1;
}
