#include "config.h"
#include "common/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"

static struct {
    char tag[64];
    enum zep_log_level level;
    int fd, copy;
    int live;          /* a progress line is on the terminal */
    double last_s;     /* when it was drawn */
} state = {"zeppelin", ZEP_LOG_INFO, 2, -1, 0, -1.0};

void zep_log_init(const char *tag, enum zep_log_level level)
{
    snprintf(state.tag, sizeof state.tag, "%s", tag);
    state.level = level;
}

void zep_log_set_fd(int fd)
{
    state.fd = fd;
}

void zep_log_copy(int fd)
{
    state.copy = fd;
}

static void put(const char *text, size_t len)
{
    ssize_t n = write(state.fd, text, len); /* one write, so that lines of several processes do not mix */

    (void)n;
}

/* On a full disk the copy is given up. */
static void put_copy(const char *text, size_t len)
{
    if (state.copy >= 0 && write(state.copy, text, len) != (ssize_t)len)
        state.copy = -1;
}

static void clear_line(void)
{
    if (state.live)
        put("\r\033[K", 4);
    state.live = 0;
}

void zep_log(enum zep_log_level level, const char *fmt, ...)
{
    static const char *const names[] = {"", "error: ", "warning: ", "", "debug: "};
    char line[4096];
    va_list ap;
    int n;

    if (level > state.level || level < ZEP_LOG_ERROR || level > ZEP_LOG_DEBUG)
        return;
    clear_line();
    n = snprintf(line, sizeof line, "%s: %s", state.tag, names[level]);
    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n, fmt, ap);
    va_end(ap);
    if ((size_t)n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    put(line, (size_t)n);
    put_copy(line, (size_t)n);
}

void zep_progress_line(int milestone, const char *fmt, ...)
{
    char line[1024];
    int terminal = isatty(state.fd), n = 0, head;
    double now = zep_clock_now();
    va_list ap;

    if (terminal ? !milestone && state.live && now - state.last_s < 0.1 : !milestone)
        return;
    if (terminal) {
        memcpy(line, "\r\033[K", 4);
        n = 4;
    }
    head = n;
    va_start(ap, fmt);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, fmt, ap);
    va_end(ap);
    if ((size_t)n > sizeof line - 2)
        n = sizeof line - 2;
    line[n] = '\n';
    if (milestone)
        put_copy(line + head, (size_t)(n + 1 - head));
    put(line, (size_t)(n + !terminal));
    state.live = terminal;
    state.last_s = now;
}

void zep_progress_end(void)
{
    if (state.live)
        put("\n", 1);
    state.live = 0;
}
