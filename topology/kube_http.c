#include "config.h"
#include "topology/kube_http.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/arena.h"
#include "common/encode.h"
#include "common/fs.h"

#define ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"
#define MAX_ANSWER ((size_t)64 << 20)
#define MAX_TRIES 4
#define ANSWER_S 30L

struct zep_kube_http {
    CURL *curl;
    const char *account; /* folder with token, ca.crt, namespace */
    char base[300], ns[128], *ca;
    int fd;              /* where a stream goes, -1 */
    long status;         /* of the stream's answer */
};

int zep_kube_http_open(struct zep_kube_http **out, struct zep_error *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT"), *account = getenv("ZEPPELIN_SERVICEACCOUNT");
    struct zep_kube_http *h;
    char *path, *text = NULL;
    size_t len;

    if (!host || !*host)
        return zep_error_set(err, ZEP_EUNAVAIL, "this is no pod of Kubernetes: KUBERNETES_SERVICE_HOST is not set");
    if (!(h = zep_calloc(1, sizeof *h)))
        return zep_error_nomem(err, "API");
    h->account = account && *account ? account : ACCOUNT;
    h->fd = -1;
    snprintf(h->base, sizeof h->base, strchr(host, ':') ? "https://[%.200s]:%.10s" : "https://%.200s:%.10s", host, port && *port ? port : "443");
    snprintf(h->ns, sizeof h->ns, "default");
    if ((path = zep_fs_join(h->account, "namespace")) && zep_fs_exists(path) && zep_fs_read(path, 4096, &text, &len, NULL) == ZEP_OK)
        snprintf(h->ns, sizeof h->ns, "%.*s", (int)strcspn(text, "\r\n "), text);
    free(text);
    free(path);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    h->curl = curl_easy_init();
    h->ca = zep_fs_join(h->account, "ca.crt");
    if (!h->curl || !h->ca) {
        zep_kube_http_close(h);
        return zep_error_nomem(err, "API");
    }
    *out = h;
    return ZEP_OK;
}

void zep_kube_http_close(struct zep_kube_http *h)
{
    if (!h)
        return;
    if (h->curl)
        curl_easy_cleanup(h->curl);
    free(h->ca);
    free(h);
}

const char *zep_kube_http_namespace(const struct zep_kube_http *h)
{
    return h->ns;
}

char *zep_kube_http_escape(struct zep_kube_http *h, const char *text)
{
    char *e = curl_easy_escape(h->curl, text, 0), *copy = e ? strdup(e) : NULL;

    curl_free(e);
    return copy;
}

/* --- one request --- */

/* The token rotates: it is read for each request. */
static int headers(const struct zep_kube_http *h, int with_body, struct curl_slist **out, struct zep_error *err)
{
    char *path = zep_fs_join(h->account, "token"), *token = NULL;
    struct zep_buf line = ZEP_BUF_INIT;
    struct zep_error e;
    size_t len;

    if (!path || zep_fs_read(path, 1 << 20, &token, &len, &e) < 0) {
        free(path);
        return zep_error_set(err, ZEP_EUNAVAIL, "the pod's service account cannot be read: %s", path ? e.text : "out of memory");
    }
    free(path);
    token[strcspn(token, "\r\n")] = '\0';
    zep_buf_printf(&line, "Authorization: Bearer %s", token);
    *out = line.data ? curl_slist_append(NULL, line.data) : NULL;
    if (*out)
        *out = curl_slist_append(*out, "Accept: application/json");
    if (*out && with_body)
        *out = curl_slist_append(*out, "Content-Type: application/json");
    explicit_bzero(token, strlen(token));
    free(token);
    if (line.data)
        explicit_bzero(line.data, line.len);
    zep_buf_free(&line);
    return *out ? ZEP_OK : zep_error_nomem(err, "API");
}

static size_t take(char *data, size_t size, size_t n, void *arg)
{
    struct zep_buf *b = arg;

    if (b->len + size * n > MAX_ANSWER)
        return 0;
    zep_buf_add(b, data, size * n);
    return size * n;
}

struct stream {
    struct zep_kube_http *h;
    struct zep_buf *other; /* an answer that is no 200 */
};

static size_t take_stream(char *data, size_t size, size_t n, void *arg)
{
    struct stream *s = arg;

    curl_easy_getinfo(s->h->curl, CURLINFO_RESPONSE_CODE, &s->h->status);
    if (s->h->status != 200)
        return take(data, size, n, s->other);
    for (size_t done = 0; done < size * n;) {
        ssize_t w = write(s->h->fd, data + done, size * n - done);

        if (w <= 0)
            return 0; /* nobody reads it any more */
        done += (size_t)w;
    }
    return size * n;
}

/* 0 with why: no answer. */
static long perform(struct zep_kube_http *h, const char *method, const char *path, const char *body, struct zep_buf *answer, int streaming, char why[CURL_ERROR_SIZE], struct zep_error *err)
{
    struct stream s = {h, answer};
    struct curl_slist *list;
    char url[4200];
    long status = 0;
    CURLcode rc;

    *why = '\0';
    if (headers(h, body != NULL, &list, err) < 0)
        return -1;
    snprintf(url, sizeof url, "%s%.3800s", h->base, path);
    answer->len = 0;
    curl_easy_reset(h->curl);
    curl_easy_setopt(h->curl, CURLOPT_CAINFO, h->ca);
    curl_easy_setopt(h->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(h->curl, CURLOPT_URL, url);
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(h->curl, CURLOPT_CUSTOMREQUEST, method);
    if (body)
        curl_easy_setopt(h->curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(h->curl, CURLOPT_WRITEFUNCTION, streaming ? take_stream : take);
    curl_easy_setopt(h->curl, CURLOPT_WRITEDATA, streaming ? (void *)&s : (void *)answer);
    curl_easy_setopt(h->curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(h->curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(h->curl, CURLOPT_TCP_KEEPALIVE, 1L);
    if (!streaming)
        curl_easy_setopt(h->curl, CURLOPT_TIMEOUT, ANSWER_S);
    h->status = 0;
    rc = curl_easy_perform(h->curl);
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(list);
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    if (rc == CURLE_OK)
        return status;
    if (!*why)
        snprintf(why, CURL_ERROR_SIZE, "%s", curl_easy_strerror(rc));
    return 0;
}

static void pause_s(const struct zep_kube_http *h, int try)
{
    curl_off_t after = 0;
    struct timespec t = {.tv_sec = 1 << try};

    curl_easy_getinfo(h->curl, CURLINFO_RETRY_AFTER, &after);
    if (after > 0 && after < 20)
        t.tv_sec = (time_t)after;
    nanosleep(&t, NULL);
}

int zep_kube_http_request(struct zep_kube_http *h, const char *method, const char *path, const char *body, struct zep_buf *answer, long *status_out, struct zep_error *err)
{
    char why[CURL_ERROR_SIZE];

    for (int try = 0;; try++) {
        long status = perform(h, method, path, body, answer, 0, why, err);

        if (status < 0)
            return err->code;
        if (try + 1 < MAX_TRIES && (status == 0 || status == 429 || status == 500 || status == 503 || status == 504 || (status == 401 && try == 0))) {
            pause_s(h, status == 401 ? 0 : try);
            continue;
        }
        if (status == 0)
            return zep_error_set(err, ZEP_EUNAVAIL, "the API cannot be reached: %s", why);
        *status_out = status;
        return ZEP_OK;
    }
}

int zep_kube_http_stream(struct zep_kube_http *h, const char *path, int fd, struct zep_buf *answer, long *status_out, struct zep_error *err)
{
    char why[CURL_ERROR_SIZE];

    h->fd = fd;
    for (int try = 0;; try++) {
        long status = perform(h, "GET", path, NULL, answer, 1, why, err);

        if (status < 0)
            return err->code;
        if (status == 0 && h->status == 200) /* some of it came: to begin again would bring that twice */
            return zep_error_set(err, ZEP_EPEER, "the stream was cut: %s", why);
        if (try + 1 < MAX_TRIES && (status == 0 || status == 429 || status >= 500 || (status == 401 && try == 0))) {
            pause_s(h, status == 401 ? 0 : try);
            continue;
        }
        if (status == 0)
            return zep_error_set(err, ZEP_EUNAVAIL, "the API cannot be reached: %s", why);
        *status_out = status;
        return ZEP_OK;
    }
}

void zep_kube_http_status(const struct zep_buf *answer, char message[400], char reason[64])
{
    json_t *j = answer->data ? json_loadb(answer->data, answer->len, 0, NULL) : NULL;
    const char *text = json_string_value(json_object_get(j, "message")), *word = json_string_value(json_object_get(j, "reason"));

    snprintf(message, 400, "%.399s", text ? text : "no message");
    snprintf(reason, 64, "%.63s", word ? word : "");
    zep_text_clean(message);
    zep_text_clean(reason);
    json_decref(j);
}
