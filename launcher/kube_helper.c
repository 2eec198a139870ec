/* zeppelin-kube: in a pod, the part of kubectl's language that launcher/kube.c speaks, by libcurl and the pod's service account. */
#include "config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "topology/kube_http.h"
#include "topology/kube_pages.h"

struct args {
    const char *word[4]; /* verb, kind or pod, name */
    int n_word, follow, dry_run;
    const char *ns, *selector, *file, *container, *grace, *tail;
};

static const struct {
    const char *kind, *base, *plural;
} kinds[] = {{"mpijobs.v2beta1.kubeflow.org", "/apis/kubeflow.org/v2beta1", "mpijobs.kubeflow.org"}, {"pods", "/api/v1", "pods"}, {"events", "/api/v1", "events"}};

static int usage(FILE *f, int status)
{
    fputs("usage: zeppelin-kube [--namespace=NS] get KIND [NAME] [-l SELECTOR] [-o json]\n"
          "       zeppelin-kube [--namespace=NS] create -f FILE [--dry-run=server]\n"
          "       zeppelin-kube [--namespace=NS] delete KIND NAME | delete pods -l SELECTOR [--grace-period=N]\n"
          "       zeppelin-kube [--namespace=NS] logs POD [-c CONTAINER] [-f] [--tail=N]\n"
          "In a pod: asks the API by the pod's service account, in the words of kubectl.\n",
          f);
    return status;
}

/* "--name=VALUE" */
static const char *value_of(const char *word, const char *name)
{
    size_t n = strlen(name);

    return !strncmp(word, name, n) && word[n] == '=' ? word + n + 1 : NULL;
}

static int parse(int argc, char **argv, struct args *a)
{
    const char *v;

    for (int i = 1; i < argc; i++) {
        const char **after = !strcmp(argv[i], "-l") ? &a->selector : !strcmp(argv[i], "-c") ? &a->container : NULL;

        if (!strcmp(argv[i], "-f") && a->n_word && !strcmp(a->word[0], "create"))
            after = &a->file;
        if (after && i + 1 < argc)
            *after = argv[++i];
        else if (!strcmp(argv[i], "-o") && i + 1 < argc)
            i++;
        else if (!strcmp(argv[i], "-f"))
            a->follow = 1;
        else if ((v = value_of(argv[i], "--namespace")))
            a->ns = v;
        else if ((v = value_of(argv[i], "--grace-period")))
            a->grace = v;
        else if ((v = value_of(argv[i], "--tail")))
            a->tail = v;
        else if (!strcmp(argv[i], "--dry-run=server"))
            a->dry_run = 1;
        else if (value_of(argv[i], "--request-timeout") || value_of(argv[i], "--wait"))
            ;
        else if (*argv[i] != '-' && a->n_word < 3)
            a->word[a->n_word++] = argv[i];
        else
            return -1;
    }
    return a->n_word ? 0 : -1;
}

/* As kubectl says it: launcher/kube.c reads the reason. */
static int refused(const struct zep_buf *answer, long status)
{
    char message[400], reason[64];

    zep_kube_http_status(answer, message, reason);
    if (status == 401)
        fprintf(stderr, "error: You must be logged in to the server (Unauthorized)\n");
    else
        fprintf(stderr, "Error from server (%s): %s\n", *reason ? reason : status == 404 ? "NotFound" : "Unknown", message);
    return 1;
}

static int failed(const struct zep_error *err)
{
    fprintf(stderr, "error: %s\n", err->text);
    return 1;
}

static int kind_of(const char *word)
{
    for (int i = 0; i < (int)(sizeof kinds / sizeof kinds[0]); i++)
        if (!strcmp(kinds[i].kind, word))
            return i;
    fprintf(stderr, "error: the server doesn't have a resource type \"%s\"\n", word);
    return -1;
}

static void path_of(struct zep_kube_http *h, int kind, const char *ns, const char *name, char out[1200])
{
    char *e = name ? zep_kube_http_escape(h, name) : NULL;

    snprintf(out, 1200, "%s/namespaces/%.200s/%.*s%s%.800s", kinds[kind].base, ns, (int)strcspn(kinds[kind].plural, "."), kinds[kind].plural, e ? "/" : "", e ? e : "");
    free(e);
}

static void query_of(struct zep_kube_http *h, const char *selector, char out[1000])
{
    char *e = selector ? zep_kube_http_escape(h, selector) : NULL;

    snprintf(out, 1000, "%s%.900s", e ? "labelSelector=" : "", e ? e : "");
    free(e);
}

static int print_answer(const struct zep_buf *answer)
{
    puts(answer->data ? answer->data : "");
    return fflush(stdout) == 0 ? 0 : 1;
}

static int get(struct zep_kube_http *h, const struct args *a)
{
    struct zep_buf answer = ZEP_BUF_INIT;
    char path[1200], query[1000], *text = NULL;
    int kind = kind_of(a->n_word > 1 ? a->word[1] : ""), rc;
    json_t *items = NULL, *list;
    struct zep_error err;
    long status = 0;

    if (kind < 0)
        return 1;
    path_of(h, kind, a->ns, a->n_word > 2 ? a->word[2] : NULL, path);
    query_of(h, a->selector, query);
    if (a->n_word > 2)
        rc = zep_kube_http_request(h, "GET", path, NULL, &answer, &status, &err);
    else
        rc = zep_kube_pages(h, path, query, &items, &answer, &status, &err);
    if (rc < 0) {
        rc = failed(&err);
    } else if (status != 200) {
        rc = refused(&answer, status);
    } else if (a->n_word > 2) {
        rc = print_answer(&answer);
    } else {
        list = json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", "List", "items", items);
        text = list ? json_dumps(list, JSON_COMPACT) : NULL;
        rc = text && puts(text) >= 0 ? 0 : 1;
        json_decref(list);
    }
    free(text);
    json_decref(items);
    zep_buf_free(&answer);
    return rc;
}

/* The document says its namespace, or the account does. */
static int create(struct zep_kube_http *h, const struct args *a)
{
    struct zep_buf answer = ZEP_BUF_INIT;
    struct zep_error err;
    const char *ns;
    char *text = NULL, path[1400];
    long status = 0;
    size_t len;
    json_t *j;
    int rc;

    if (!a->file || zep_fs_read(a->file, 0, &text, &len, &err) < 0)
        return a->file ? failed(&err) : usage(stderr, 2);
    j = json_loadb(text, len, 0, NULL);
    ns = json_string_value(json_object_get(json_object_get(j, "metadata"), "namespace"));
    path_of(h, 0, ns ? ns : a->ns, NULL, path);
    if (a->dry_run)
        strncat(path, "?dryRun=All", sizeof path - strlen(path) - 1);
    if (zep_kube_http_request(h, "POST", path, text, &answer, &status, &err) < 0)
        rc = failed(&err);
    else
        rc = status == 200 || status == 201 ? print_answer(&answer) : refused(&answer, status);
    json_decref(j);
    free(text);
    zep_buf_free(&answer);
    return rc;
}

static int delete(struct zep_kube_http *h, const struct args *a)
{
    struct zep_buf answer = ZEP_BUF_INIT;
    int kind = kind_of(a->n_word > 1 ? a->word[1] : ""), rc;
    char path[1200], query[1000], url[2300], body[200];
    struct zep_error err;
    long status = 0;

    if (kind < 0)
        return 1;
    if (a->n_word < 3 && !a->selector)
        return usage(stderr, 2); /* never all of them */
    path_of(h, kind, a->ns, a->n_word > 2 ? a->word[2] : NULL, path);
    query_of(h, a->n_word > 2 ? NULL : a->selector, query);
    snprintf(url, sizeof url, "%s%s%s", path, *query ? "?" : "", query);
    if (a->grace)
        snprintf(body, sizeof body, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"gracePeriodSeconds\":%d}", atoi(a->grace));
    else
        snprintf(body, sizeof body, "{\"kind\":\"DeleteOptions\",\"apiVersion\":\"v1\",\"propagationPolicy\":\"Background\"}");
    if (zep_kube_http_request(h, "DELETE", url, body, &answer, &status, &err) < 0)
        rc = failed(&err);
    else
        rc = status == 200 || status == 202 ? 0 : refused(&answer, status);
    zep_buf_free(&answer);
    return rc;
}

static int logs(struct zep_kube_http *h, const struct args *a)
{
    struct zep_buf answer = ZEP_BUF_INIT;
    char path[1200], url[1700], *c = a->container ? zep_kube_http_escape(h, a->container) : NULL;
    struct zep_error err;
    long status = 0;
    int rc;

    path_of(h, 1, a->ns, a->n_word > 1 ? a->word[1] : "", path);
    snprintf(url, sizeof url, "%s/log?follow=%s%s%.200s%s%.20s", path, a->follow ? "true" : "false", c ? "&container=" : "", c ? c : "", a->tail ? "&tailLines=" : "", a->tail ? a->tail : "");
    free(c);
    if (zep_kube_http_stream(h, url, 1, &answer, &status, &err) < 0)
        rc = failed(&err);
    else
        rc = status == 200 || status == 204 ? 0 : refused(&answer, status);
    zep_buf_free(&answer);
    return rc;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *verb;
        int (*run)(struct zep_kube_http *h, const struct args *a);
    } verbs[] = {{"get", get}, {"create", create}, {"delete", delete}, {"logs", logs}};
    struct zep_kube_http *h = NULL;
    struct args a = {0};
    struct zep_error err;
    int rc = -1;

    if (argc > 1 && !strcmp(argv[1], "--help"))
        return usage(stdout, 0);
    if (argc > 1 && !strcmp(argv[1], "--version"))
        return puts("zeppelin-kube " PACKAGE_VERSION) < 0;
    if (parse(argc, argv, &a) < 0)
        return usage(stderr, 2);
    if (zep_kube_http_open(&h, &err) < 0)
        return failed(&err);
    if (!a.ns)
        a.ns = zep_kube_http_namespace(h);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (!strcmp(a.word[0], verbs[i].verb))
            rc = verbs[i].run(h, &a);
    zep_kube_http_close(h);
    return rc < 0 ? usage(stderr, 2) : rc;
}
