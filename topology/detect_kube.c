/* zeppelin-detect-kube: in a pod, the cluster's nodes from the API by the pod's service account, page by page, as one NodeList. */
#include "config.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/fs.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"
#define MAX_ANSWER ((size_t)64 << 20)
#define MAX_TRIES 4

struct client {
    CURL *curl;
    const char *account; /* folder with token and ca.crt */
    char base[300];
};

static size_t take(char *data, size_t size, size_t n, void *arg)
{
    struct zep_buf *b = arg;

    if (b->len + size * n > MAX_ANSWER)
        return 0;
    zep_buf_add(b, data, size * n);
    return size * n;
}

static int say(const char *fmt, const char *a)
{
    fprintf(stderr, fmt, a);
    fputc('\n', stderr);
    return -1;
}

/* The token rotates: it is read for each request. */
static int headers(const struct client *c, struct curl_slist **out)
{
    char *path = zep_fs_join(c->account, "token"), *token = NULL;
    struct zep_error err;
    struct zep_buf line = ZEP_BUF_INIT;
    size_t len;

    if (!path || zep_fs_read(path, 1 << 20, &token, &len, &err) < 0) {
        free(path);
        return say("the pod's service account cannot be read: %s", path ? err.text : "out of memory");
    }
    free(path);
    token[strcspn(token, "\r\n")] = '\0';
    zep_buf_printf(&line, "Authorization: Bearer %s", token);
    *out = line.data ? curl_slist_append(NULL, line.data) : NULL;
    if (*out)
        *out = curl_slist_append(*out, "Accept: application/json");
    memset(token, 0, strlen(token));
    free(token);
    if (line.data)
        memset(line.data, 0, line.len);
    zep_buf_free(&line);
    return *out ? 0 : say("%s", "out of memory");
}

static long get(struct client *c, const char *url, struct zep_buf *body, char why[CURL_ERROR_SIZE])
{
    struct curl_slist *list;
    long status = 0;
    CURLcode rc;

    if (headers(c, &list) < 0)
        exit(1);
    body->len = 0;
    *why = '\0';
    curl_easy_setopt(c->curl, CURLOPT_URL, url);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT, 30L);
    rc = curl_easy_perform(c->curl);
    curl_slist_free_all(list);
    if (rc != CURLE_OK) {
        if (!*why)
            snprintf(why, CURL_ERROR_SIZE, "%s", curl_easy_strerror(rc));
        return 0;
    }
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static void pause_s(struct client *c, int try)
{
    curl_off_t after = 0;
    struct timespec t = {.tv_sec = 1 << try};

    curl_easy_getinfo(c->curl, CURLINFO_RETRY_AFTER, &after);
    if (after > 0 && after < 20)
        t.tv_sec = (time_t)after;
    nanosleep(&t, NULL);
}

/* What a Status object says. */
static void message_of(const struct zep_buf *body, char out[300])
{
    json_t *j = body->data ? json_loadb(body->data, body->len, 0, NULL) : NULL;
    const char *text = json_string_value(json_object_get(j, "message"));

    snprintf(out, 300, "%.299s", text ? text : "no message");
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20)
            *p = ' ';
    json_decref(j);
}

/* One page, tried again where the API says so. 1: the list changed meanwhile, begin again. */
static int page(struct client *c, const char *token, struct zep_buf *body)
{
    char url[2000], why[CURL_ERROR_SIZE], text[300], *escaped = *token ? curl_easy_escape(c->curl, token, 0) : NULL;

    snprintf(url, sizeof url, "%s/api/v1/nodes?limit=500%s%.1500s", c->base, escaped ? "&continue=" : "", escaped ? escaped : "");
    curl_free(escaped);
    for (int try = 0;; try++) {
        long status = get(c, url, body, why);

        if (status == 200)
            return 0;
        if (status == 410)
            return 1;
        if (try + 1 < MAX_TRIES && (status == 0 || status == 429 || status == 500 || status == 503 || status == 504 || (status == 401 && try == 0))) {
            pause_s(c, status == 401 ? 0 : try);
            continue;
        }
        message_of(body, text);
        if (status == 0)
            return say("the API cannot be reached: %s", why);
        if (status == 403)
            return say("no permission to read nodes: %s (needed: a ClusterRole with get and list of nodes, bound to the pod's service account)", text);
        fprintf(stderr, "the API answered with status %ld: %s\n", status, text);
        return -1;
    }
}

static int all(struct client *c, json_t **items_out)
{
    struct zep_buf body = ZEP_BUF_INIT;
    char token[1000] = "";
    json_t *items = json_array();
    int rc, again = 0;

    do {
        json_error_t je;
        json_t *j;

        if ((rc = page(c, token, &body)) < 0)
            break;
        if (rc == 1) { /* the token is too old */
            if (again++ == 3) {
                rc = say("%s", "the list of nodes changes faster than it can be read");
                break;
            }
            json_array_clear(items);
            *token = '\0';
            continue;
        }
        if (!(j = json_loadb(body.data ? body.data : "", body.len, 0, &je)) || !json_is_array(json_object_get(j, "items"))) {
            json_decref(j);
            rc = say("the API's answer is no list of nodes: %s", je.text);
            break;
        }
        json_array_extend(items, json_object_get(j, "items"));
        snprintf(token, sizeof token, "%.999s", json_string_value(json_object_get(json_object_get(j, "metadata"), "continue")) ? json_string_value(json_object_get(json_object_get(j, "metadata"), "continue")) : "");
        json_decref(j);
        rc = *token ? 1 : 0;
    } while (rc == 1);
    zep_buf_free(&body);
    if (rc < 0)
        json_decref(items);
    else
        *items_out = items;
    return rc;
}

int main(int argc, char **argv)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT"), *account = getenv("ZEPPELIN_SERVICEACCOUNT");
    struct client c = {.account = account && *account ? account : ACCOUNT};
    json_t *items = NULL, *root;
    char *ca, *text;

    if (argc > 1) {
        int help = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h");

        if (!strcmp(argv[1], "--version"))
            puts("zeppelin-detect-kube " PACKAGE_VERSION);
        else
            fputs("usage: zeppelin-detect-kube\nIn a pod: prints the nodes of the cluster as a NodeList, read from the API by the pod's service account.\n", help ? stdout : stderr);
        return help || !strcmp(argv[1], "--version") ? 0 : 2;
    }
    if (!host || !*host) {
        say("%s", "this is no pod of Kubernetes: KUBERNETES_SERVICE_HOST is not set");
        return 1;
    }
    snprintf(c.base, sizeof c.base, strchr(host, ':') ? "https://[%.200s]:%.10s" : "https://%.200s:%.10s", host, port && *port ? port : "443");
    curl_global_init(CURL_GLOBAL_DEFAULT);
    c.curl = curl_easy_init();
    ca = zep_fs_join(c.account, "ca.crt");
    if (!c.curl || !ca) {
        say("%s", "out of memory");
        return 1;
    }
    curl_easy_setopt(c.curl, CURLOPT_CAINFO, ca);
    curl_easy_setopt(c.curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c.curl, CURLOPT_PROXY, "");
    if (all(&c, &items) < 0)
        return 1;
    root = json_pack("{s:s, s:s, s:o}", "apiVersion", "v1", "kind", "NodeList", "items", items);
    text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    if (!text) {
        say("%s", "out of memory");
        return 1;
    }
    puts(text);
    free(text);
    free(ca);
    json_decref(root);
    curl_easy_cleanup(c.curl);
    return 0;
}
