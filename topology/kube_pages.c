#include "config.h"
#include "topology/kube_pages.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 500
#define MAX_AGAIN 3

/* Adds a page's items; the token of the next one, "" none. */
static int take_page(const struct zep_buf *answer, json_t *items, char token[2000], struct zep_error *err)
{
    json_error_t je = {.text = ""};
    json_t *j = json_loadb(answer->data ? answer->data : "", answer->len, 0, &je), *list = json_object_get(j, "items");
    const char *next = json_string_value(json_object_get(json_object_get(j, "metadata"), "continue"));
    int rc = ZEP_OK;

    if (!json_is_array(list))
        rc = zep_error_set(err, ZEP_EIO, "the API's answer is no list: %s", *je.text ? je.text : "no items in it");
    else
        json_array_extend(items, list);
    snprintf(token, 2000, "%.1999s", next ? next : "");
    json_decref(j);
    return rc;
}

int zep_kube_pages(struct zep_kube_http *h, const char *path, const char *query, json_t **items_out, struct zep_buf *answer, long *status_out, struct zep_error *err)
{
    json_t *items = json_array();
    char token[2000] = "", url[6000];
    int rc, again = 0;

    *items_out = NULL;
    do {
        char *escaped = *token ? zep_kube_http_escape(h, token) : NULL;

        snprintf(url, sizeof url, "%.500s?limit=%d%s%.1000s%s%.2200s", path, PAGE, *query ? "&" : "", query, escaped ? "&continue=" : "", escaped ? escaped : "");
        free(escaped);
        if ((rc = zep_kube_http_request(h, "GET", url, NULL, answer, status_out, err)) < 0)
            break;
        if (*status_out == 410 && again++ < MAX_AGAIN) { /* the token is too old */
            json_array_clear(items);
            *token = '\0';
            rc = 1;
        } else if (*status_out == 410) {
            rc = zep_error_set(err, ZEP_EUNAVAIL, "the list changes faster than it can be read");
        } else if (*status_out != 200) {
            break;
        } else if ((rc = take_page(answer, items, token, err)) == ZEP_OK && *token) {
            rc = 1;
        }
    } while (rc == 1);
    if (rc < 0 || *status_out != 200)
        json_decref(items);
    else
        *items_out = items;
    return rc;
}
