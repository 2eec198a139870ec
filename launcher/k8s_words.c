#include "config.h"
#include "launcher/k8s_words.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/k8s_spec.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGIT "0123456789"

static int is_in(char c, const char *set)
{
    return c && strchr(set, c) != NULL;
}

/* n characters of body, the first and the last of ends. */
static int is_word(const char *s, size_t n, const char *body, const char *ends)
{
    if (!n || !is_in(s[0], ends) || !is_in(s[n - 1], ends))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!is_in(s[i], body))
            return 0;
    return 1;
}

static int is_subdomain(const char *s, size_t n)
{
    for (const char *p = s, *end = s + n; p <= end;) {
        const char *dot = memchr(p, '.', (size_t)(end - p)), *stop = dot ? dot : end;

        if (!is_word(p, (size_t)(stop - p), LOWER DIGIT "-", LOWER DIGIT))
            return 0;
        p = stop + 1;
    }
    return n <= 253;
}

int zep_k8s_check_object(const char *name, struct zep_error *err)
{
    if (!is_subdomain(name, strlen(name)))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': expected the name of an object: lower-case letters, digits, '-' and '.', with a letter or digit at both ends", name);
    return ZEP_OK;
}

int zep_k8s_check_label(const char *name, struct zep_error *err)
{
    size_t n = strlen(name);

    if (n > 63 || !is_word(name, n, LOWER DIGIT "-", LOWER DIGIT))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': expected at most 63 lower-case letters, digits and '-', with a letter or digit at both ends", name);
    return ZEP_OK;
}

int zep_k8s_check_name(const char *name, int max, struct zep_error *err)
{
    size_t n = strlen(name);

    if (!is_word(name, n, LOWER DIGIT "-", LOWER DIGIT) || !is_in(*name, LOWER))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': on Kubernetes expected lower-case letters, digits and '-', beginning with a letter, not ending with '-' (DNS-1035): the operator would take another name and then do nothing",
                             name);
    if (n > (size_t)max)
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': %zu characters; on Kubernetes expected at most %d, for '-worker-N' and the like are added", name, n, max);
    return ZEP_OK;
}

int zep_k8s_check_key(const char *key, struct zep_error *err)
{
    const char *slash = strchr(key, '/'), *name = slash ? slash + 1 : key;

    if ((slash && !is_subdomain(key, (size_t)(slash - key))) || strlen(name) > 63 || !is_word(name, strlen(name), LOWER UPPER DIGIT "-_.", LOWER UPPER DIGIT))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': expected [PREFIX/]NAME, as in topology.kubernetes.io/zone", key);
    return ZEP_OK;
}

int zep_k8s_check_value(const char *value, struct zep_error *err)
{
    if (*value && (strlen(value) > 63 || !is_word(value, strlen(value), LOWER UPPER DIGIT "-_.", LOWER UPPER DIGIT)))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': expected the value of a label: at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends", value);
    return ZEP_OK;
}

int zep_k8s_check_data_key(const char *key, struct zep_error *err)
{
    if (!*key || strlen(key) > 253 || strspn(key, LOWER UPPER DIGIT "-_.") != strlen(key) || !strcmp(key, ".") || !strncmp(key, "..", 2))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': expected a key of a Secret: letters, digits, '-', '_' and '.'", key);
    return ZEP_OK;
}

int zep_k8s_check_variable(const char *name, struct zep_error *err)
{
    if (!*name || isdigit((unsigned char)*name) || strspn(name, LOWER UPPER DIGIT "_") != strlen(name))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': expected the name of a variable: letters, digits and '_'", name);
    return ZEP_OK;
}

int zep_k8s_check_path(const char *path, struct zep_error *err)
{
    size_t n = strlen(path);

    if (n > 1000 || *path != '/' || strchr(path, ':') || strstr(path, "/../") || (n > 2 && !strcmp(path + n - 3, "/..")))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': expected an absolute path of at most 1000 characters, without ':' and '..'", path);
    return ZEP_OK;
}

int zep_k8s_quantity(const char *text, double *value_out, struct zep_error *err)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1},       {"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3}, {"k", 1e3},          {"M", 1e6},           {"G", 1e9},           {"T", 1e12},
                 {"P", 1e15},   {"E", 1e18}, {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"Ti", 1099511627776.0}, {"Pi", 1125899906842624.0}, {"Ei", 1152921504606846976.0}};
    size_t digits = strspn(text, DIGIT "."), n = strlen(text);
    char *end = NULL;
    double v;

    if (digits && is_in(text[0], DIGIT) && (!strchr(text, '.') || strchr(text, '.') == strrchr(text, '.'))) {
        if ((text[digits] == 'e' || text[digits] == 'E') && (is_in(text[digits + 1], DIGIT) || (is_in(text[digits + 1], "+-") && is_in(text[digits + 2], DIGIT))))
            digits = n;
        v = strtod(text, &end);
        if (digits < n && end != text + digits) /* strtod takes more than Kubernetes does: "1e", "0x1" */
            v = -1;
        for (size_t i = 0; v >= 0 && i < sizeof units / sizeof units[0]; i++)
            if (!strcmp(end, units[i].suffix) && isfinite(v)) {
                *value_out = v * units[i].factor;
                return ZEP_OK;
            }
    }
    return zep_error_set(err, ZEP_EINVAL, "'%.100s': expected a quantity, as in 500m, 4 or 16Gi", text);
}

static int is_path_of_image(const char *s, size_t n)
{
    for (const char *p = s, *end = s + n; p <= end;) {
        const char *slash = memchr(p, '/', (size_t)(end - p)), *stop = slash ? slash : end;

        if (!is_word(p, (size_t)(stop - p), LOWER DIGIT "-_.", LOWER DIGIT))
            return 0;
        p = stop + 1;
    }
    return 1;
}

int zep_k8s_check_image(const char *image, struct zep_error *err)
{
    static const char form[] = "expected [REGISTRY[:PORT]/]NAME:TAG or NAME@sha256:DIGEST";
    const char *at = strchr(image, '@'), *end = at ? at : image + strlen(image), *slash = NULL, *tag, *path = image;

    for (const char *p = image; p < end; p++)
        slash = *p == '/' ? p : slash;
    tag = memchr(slash ? slash : image, ':', (size_t)(end - (slash ? slash : image)));
    if (!*image)
        return zep_error_set(err, ZEP_EINVAL, "'': the job names no image: %s", form);
    if (at && (strncmp(at, "@sha256:", 8) || strlen(at + 8) != 64 || strspn(at + 8, DIGIT "abcdef") != 64))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': the digest is not 'sha256:' and 64 hexadecimal digits: %s", image, form);
    if (!at && !tag)
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': an image without a tag is another one tomorrow, and nodes that have it keep the old one: %s", image, form);
    if (tag && (end - tag - 1 < 1 || end - tag - 1 > 128 || strspn(tag + 1, LOWER UPPER DIGIT "_.-") < (size_t)(end - tag - 1) || is_in(tag[1], ".-")))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': the tag is not 1 to 128 letters, digits, '_', '.' and '-': %s", image, form);
    if (slash) { /* a registry's port is no part of the path */
        const char *first = memchr(image, '/', (size_t)(end - image)), *colon = memchr(image, ':', (size_t)(first - image));

        if (colon && strspn(colon + 1, DIGIT) == (size_t)(first - colon - 1) && first > colon + 1 && is_subdomain(image, (size_t)(colon - image)))
            path = first + 1;
    }
    if (!is_path_of_image(path, (size_t)((tag ? tag : end) - path)))
        return zep_error_set(err, ZEP_EINVAL, "'%.300s': a name of an image has lower-case letters, digits, '-', '_', '.' and '/': %s", image, form);
    return ZEP_OK;
}
