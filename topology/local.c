#include "config.h"
#include "topology/detect.h"

#define LIMIT_S 10.0

int zep_topo_detect_local(struct zep_topo **topo_out, struct zep_error *err)
{
    int absent, rc = zep_detect_run("zeppelin-detect-local", NULL, LIMIT_S, &absent, topo_out, err);

    return rc < 0 ? zep_error_prefix(err, "this machine") : rc;
}
