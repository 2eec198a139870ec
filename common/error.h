/* Status codes and error texts. Whoever first knows that something is wrong writes the text. */
#ifndef ZEP_COMMON_ERROR_H
#define ZEP_COMMON_ERROR_H

#include <stdarg.h>

enum zep_status {
    ZEP_OK = 0,
    ZEP_EINVAL = -1,       /* bad input: usage, a value, a file's content          exit 2 */
    ZEP_ENOMEM = -2,       /* out of memory                                        exit 1 */
    ZEP_EIO = -3,          /* reading or writing failed                            exit 1 */
    ZEP_ENOENT = -4,       /* a file that was named is not there                   exit 2 */
    ZEP_EUNAVAIL = -5,     /* the machine or cluster lacks something needed        exit 3 */
    ZEP_EUNSUPPORTED = -6, /* understood, but this version cannot do it            exit 3 */
    ZEP_EREFUSED = -7,     /* refused for safety (lock, digest, version)           exit 4 */
    ZEP_ESTOPPED = -8,     /* stopped on request, with a good checkpoint           exit 75 */
    ZEP_EPEER = -9,        /* a peer, node or link was lost                        exit 76 */
    ZEP_ETIMEDOUT = -10,   /* no answer in time                                    exit 3 */
    ZEP_EINTERNAL = -11,   /* an invariant of ours does not hold                   exit 1 */
};

struct zep_error {
    enum zep_status code;
    char text[2048];
};

#define ZEP_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* Sets code and text (err may be NULL) and returns code, so that `return zep_error_set(...)` reads well. */
int zep_error_set(struct zep_error *err, enum zep_status code, const char *fmt, ...) ZEP_PRINTF(3, 4);
int zep_error_vset(struct zep_error *err, enum zep_status code, const char *fmt, va_list ap);
/* Puts "PREFIX: " in front of an error that is already there. Returns err's code (ZEP_EINTERNAL for NULL). */
int zep_error_prefix(struct zep_error *err, const char *fmt, ...) ZEP_PRINTF(2, 3);
/* The text for out of memory, with the size that was asked for. */
int zep_error_nomem(struct zep_error *err, const char *what);
/* The exit status of the command for a status code (design, section 12). */
int zep_exit_status(int code);
const char *zep_status_name(int code);

#endif
