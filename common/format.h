/* Names of our file formats: "zeppelin-plan/1.0". A newer minor is read, a newer major is refused with both numbers (design, section 12). */
#ifndef ZEP_COMMON_FORMAT_H
#define ZEP_COMMON_FORMAT_H

#include "common/error.h"

/* text: what the file says. name: "zeppelin-plan". Sets *newer_minor_out (NULL allowed) when the file's minor is above ours.
 * Errors: "'X': expected zeppelin-plan/1.x"; a newer major is ZEP_EREFUSED and names both. */
int zep_format_check(const char *text, const char *name, int major, int minor, int *newer_minor_out, struct zep_error *err);

#endif
