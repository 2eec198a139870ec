/* zeppelin-detect-kube: in a pod, the cluster's nodes from the API by the pod's service account, page by page, as one NodeList. */
#include "config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topology/kube_http.h"
#include "topology/kube_pages.h"

static int say(const char *text)
{
    fprintf(stderr, "%s\n", text);
    return 1;
}

static int print(json_t *items)
{
    json_t *root = json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", "NodeList", "items", items);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;

    json_decref(root);
    if (!text)
        return say("out of memory");
    puts(text);
    free(text);
    return 0;
}

int main(int argc, char **argv)
{
    struct zep_buf answer = ZEP_BUF_INIT;
    struct zep_kube_http *h = NULL;
    char message[400], reason[64];
    json_t *items = NULL;
    struct zep_error err;
    long status = 0;
    int rc;

    if (argc > 1) {
        int help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");

        if (!strcmp(argv[1], "--version"))
            puts("zeppelin-detect-kube " PACKAGE_VERSION);
        else
            fputs("usage: zeppelin-detect-kube\nIn a pod: prints the nodes of the cluster as a NodeList, read from the API by the pod's service account.\n", help ? stdout : stderr);
        return help || !strcmp(argv[1], "--version") ? 0 : 2;
    }
    if (zep_kube_http_open(&h, &err) < 0)
        return say(err.text);
    if (zep_kube_pages(h, "/api/v1/nodes", "", &items, &answer, &status, &err) < 0) {
        rc = say(err.text);
    } else if (items) {
        rc = print(items);
    } else {
        zep_kube_http_status(&answer, message, reason);
        rc = 1;
        if (status == 403)
            fprintf(stderr, "no permission to read nodes: %s (needed: a ClusterRole with get and list of nodes, bound to the pod's service account)\n", message);
        else
            fprintf(stderr, "the API answered with status %ld: %s\n", status, message);
    }
    json_decref(items);
    zep_buf_free(&answer);
    zep_kube_http_close(h);
    return rc;
}
