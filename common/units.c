#include "config.h"
#include "common/units.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A plain decimal number (no hex, no inf) at the start of text; NULL if there is none. */
static const char *number(const char *text, double *value)
{
    char *end;

    if (!isdigit((unsigned char)text[0]) && !(text[0] == '.' && isdigit((unsigned char)text[1])))
        return NULL;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return NULL;
    *value = strtod(text, &end);
    return isfinite(*value) ? end : NULL;
}

/* k, M, G, T, P with an optional i: the factor; *s moves behind it. */
static double prefix(const char **s, double k_factor)
{
    static const char letters[] = "kmgtp";
    const char *p = **s ? strchr(letters, tolower((unsigned char)**s)) : NULL;
    double base = 1000.0, f = 1.0;

    if (!p)
        return 1.0;
    (*s)++;
    if (**s == 'i') {
        base = 1024.0;
        (*s)++;
    } else if (k_factor != 0.0) {
        base = k_factor;
    }
    for (int i = 0; i <= p - letters; i++)
        f *= base;
    return f;
}

static int bad(struct zep_error *err, const char *text, const char *expected)
{
    return zep_error_set(err, ZEP_EINVAL, "'%.200s': expected %s", text, expected);
}

int zep_parse_bandwidth(const char *text, double *bytes_s_out, struct zep_error *err)
{
    static const char expected[] = "a number and a unit (for example 200Gb/s, 25GB/s)";
    double value, f;
    const char *s = number(text, &value);

    if (!s)
        return bad(err, text, expected);
    while (*s == ' ')
        s++;
    f = prefix(&s, 0.0);
    if (strncasecmp(s, "bit", 3) == 0) {
        f /= 8.0;
        s += 3;
    } else if (strncasecmp(s, "byte", 4) == 0) {
        s += 4;
        s += *s == 's';
    } else if (*s == 'b') {
        f /= 8.0;
        s++;
    } else if (*s == 'B') {
        s++;
    } else {
        return bad(err, text, expected);
    }
    if (strcmp(s, "/s") != 0 && strcmp(s, "ps") != 0 && *s != '\0')
        return bad(err, text, expected);
    value *= f;
    if (!(value > 0.0) || !isfinite(value) || value > 1e18)
        return bad(err, text, "a bandwidth above zero and at most 1e18 bytes/s");
    *bytes_s_out = value;
    return ZEP_OK;
}

static int to_int64(double value, const char *text, const char *expected, int64_t *out, struct zep_error *err)
{
    if (!(value >= 0.0) || value > 9.2e18)
        return bad(err, text, expected);
    *out = (int64_t)(value + 0.5);
    return ZEP_OK;
}

int zep_parse_size(const char *text, int64_t *bytes_out, struct zep_error *err)
{
    static const char expected[] = "a size (for example 80GB, 64KiB, 512)";
    double value;
    const char *s = number(text, &value);

    if (!s)
        return bad(err, text, expected);
    while (*s == ' ')
        s++;
    value *= prefix(&s, 0.0);
    if (*s == 'B')
        s++;
    if (*s)
        return bad(err, text, expected);
    return to_int64(value, text, expected, bytes_out, err);
}

int zep_parse_count(const char *text, int64_t *count_out, struct zep_error *err)
{
    static const char expected[] = "a whole number (for example 8192, 8k; k is 1024)";
    double value;
    const char *s = number(text, &value);

    if (!s)
        return bad(err, text, expected);
    value *= prefix(&s, 1024.0);
    if (*s || value != floor(value))
        return bad(err, text, expected);
    return to_int64(value, text, expected, count_out, err);
}

/* Slurm's MM:SS, HH:MM:SS, D-HH, D-HH:MM, D-HH:MM:SS. */
static int clock_time(const char *text, double *out)
{
    unsigned long d = 0, v[3] = {0};
    const char *s = text;
    int n = 0, days = 0, used = 0;

    if (sscanf(s, "%6lu-%n", &d, &used) == 1 && used > 0) {
        days = 1;
        s += used;
    }
    do {
        if (n == 3 || !isdigit((unsigned char)*s) || sscanf(s, "%6lu%n", &v[n], &used) != 1)
            return 0;
        n++;
        s += used;
    } while (*s++ == ':');
    if (s[-1] != '\0' || (!days && n < 2))
        return 0;
    if (days) /* hours first */
        *out = 86400.0 * (double)d + 3600.0 * (double)v[0] + 60.0 * (double)v[1] + (double)v[2];
    else
        *out = n == 2 ? 60.0 * (double)v[0] + (double)v[1] : 3600.0 * (double)v[0] + 60.0 * (double)v[1] + (double)v[2];
    return 1;
}

int zep_parse_time(const char *text, double *time_s_out, struct zep_error *err)
{
    static const struct {
        const char *name;
        double times, over; /* 10 us is 10 / 1e6 s exactly, 10 * 1e-6 is not */
    } units[] = {{"", 1, 1}, {"ns", 1, 1e9}, {"us", 1, 1e6}, {"ms", 1, 1e3}, {"s", 1, 1}, {"m", 60, 1}, {"min", 60, 1}, {"h", 3600, 1}, {"d", 86400, 1}};
    static const char expected[] = "a time (for example 30s, 10m, 2h, 1.5ms, 01:30:00)";
    double value;
    const char *s;

    if (strpbrk(text, ":-"))
        return clock_time(text, time_s_out) ? ZEP_OK : bad(err, text, expected);
    if (!(s = number(text, &value)))
        return bad(err, text, expected);
    while (*s == ' ')
        s++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(s, units[i].name) == 0) {
            *time_s_out = value * units[i].times / units[i].over;
            return ZEP_OK;
        }
    }
    return bad(err, text, expected);
}

int zep_parse_int(const char *text, int64_t min, int64_t max, int64_t *value_out, struct zep_error *err)
{
    const char *s = text + (*text == '-' || *text == '+');
    long long v;
    char *end;

    errno = 0;
    v = isdigit((unsigned char)*s) ? strtoll(text, &end, 10) : 0;
    if (!isdigit((unsigned char)*s) || *end != '\0')
        return bad(err, text, "a whole number");
    if (errno == ERANGE || v < min || v > max)
        return zep_error_set(err, ZEP_EINVAL, "'%.200s': expected a whole number from %lld to %lld", text, (long long)min, (long long)max);
    *value_out = v;
    return ZEP_OK;
}

int zep_parse_double(const char *text, double min, double max, double *value_out, struct zep_error *err)
{
    int minus = *text == '-';
    double v;
    const char *s = number(text + (minus || *text == '+'), &v);

    if (!s || *s)
        return bad(err, text, "a number");
    v = minus ? -v : v;
    if (v < min || v > max)
        return zep_error_set(err, ZEP_EINVAL, "'%.200s': expected a number from %g to %g", text, min, max);
    *value_out = v;
    return ZEP_OK;
}

/* The shortest decimal that reads back as the same value. */
static void shortest(double value, char *buf, size_t size)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, size, "%.*g", digits, value);
        if (strtod(buf, NULL) == value)
            break;
    }
    if (value >= 1 && value < 1e15 && strchr(buf, 'e')) /* 2e+02 reads worse than 200 */
        snprintf(buf, size, "%.0f", value);
}

char *zep_format_number(double value, char buf[ZEP_UNIT_BUF])
{
    shortest(value, buf, ZEP_UNIT_BUF);
    return buf;
}

char *zep_format_bandwidth(double bytes_s, char buf[ZEP_UNIT_BUF])
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};
    char num[ZEP_UNIT_BUF - 8];
    double f = 1.0, back;
    int u = 0;

    while (u < 5 && bytes_s >= 1000.0 * f) {
        f *= 1000.0;
        u++;
    }
    for (;; f /= 1000.0, u--) { /* a smaller unit where the larger one does not give the same bits back */
        shortest(bytes_s / f, num, sizeof num);
        snprintf(buf, ZEP_UNIT_BUF, "%s%s", num, units[u]);
        if (u == 0 || strchr(num, 'e') == NULL)
            if (u == 0 || (zep_parse_bandwidth(buf, &back, NULL) == ZEP_OK && back == bytes_s))
                return buf;
    }
}

char *zep_format_size(int64_t bytes, char buf[ZEP_UNIT_BUF])
{
    static const struct {
        const char *name;
        int64_t f;
    } units[] = {{"TiB", (int64_t)1 << 40}, {"TB", 1000000000000}, {"GiB", 1 << 30}, {"GB", 1000000000}, {"MiB", 1 << 20}, {"MB", 1000000}, {"KiB", 1 << 10}, {"kB", 1000}};

    for (size_t i = 0; bytes > 0 && i < sizeof units / sizeof *units; i++) {
        if (bytes % units[i].f == 0) {
            snprintf(buf, ZEP_UNIT_BUF, "%lld%s", (long long)(bytes / units[i].f), units[i].name);
            return buf;
        }
    }
    snprintf(buf, ZEP_UNIT_BUF, "%lldB", (long long)bytes);
    return buf;
}

char *zep_format_time(double time_s, char buf[ZEP_UNIT_BUF])
{
    static const struct {
        const char *name;
        double s; /* in a second */
    } units[] = {{"s", 1.0}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}};
    char num[ZEP_UNIT_BUF - 8];
    double back;
    size_t u = 0;

    while (u < 3 && time_s > 0.0 && time_s * units[u].s < 1.0)
        u++;
    shortest(time_s * units[u].s, num, sizeof num); /* multiplied: 1e-5 s is 10 us, not 10.000000000000002 */
    snprintf(buf, ZEP_UNIT_BUF, "%s%s", num, units[u].name);
    for (int digits = 1; (zep_parse_time(buf, &back, NULL) != ZEP_OK || back != time_s) && digits < ZEP_UNIT_BUF - 12; digits++)
        snprintf(buf, ZEP_UNIT_BUF, "%.*fs", digits, time_s);
    return buf;
}
