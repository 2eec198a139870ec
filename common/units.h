/* Numbers with units. Every parser takes the whole string; the error text is `'VALUE': expected ...` (no place; the caller prefixes it). */
#ifndef ZEP_COMMON_UNITS_H
#define ZEP_COMMON_UNITS_H

#include <stddef.h>
#include <stdint.h>
#include "common/error.h"

/* "200Gb/s", "25GB/s", "400 GB/s", "200gbit", "1.5TB/s", "100Mbit/s": b or bit = bits, B = bytes (a word's case decides only b or B); k, M, G, T are
 * powers of 1000, Ki, Mi, Gi, Ti of 1024. A number without a unit, a negative one, zero, NaN and overflow are errors. bytes per second. */
int zep_parse_bandwidth(const char *text, double *bytes_s_out, struct zep_error *err);
/* "80GB", "64KiB", "512": bytes. */
int zep_parse_size(const char *text, int64_t *bytes_out, struct zep_error *err);
/* "8192", "8k" (= 8*1024), "256k", "1M" (1024*1024): tokens and other counts, where k is 1024 as the field writes context lengths. */
int zep_parse_count(const char *text, int64_t *count_out, struct zep_error *err);
/* "2us", "1.5ms", "30s", "10m", "2h", "90": seconds; Slurm's "HH:MM:SS", "D-HH:MM:SS" and "MM:SS" too. */
int zep_parse_time(const char *text, double *time_s_out, struct zep_error *err);
/* A plain decimal integer within [min, max]. */
int zep_parse_int(const char *text, int64_t min, int64_t max, int64_t *value_out, struct zep_error *err);
int zep_parse_double(const char *text, double min, double max, double *value_out, struct zep_error *err);

/* Formatting for people and files; a value printed by these is read back equal by the parsers above. Each writes into buf and returns it. */
#define ZEP_UNIT_BUF 40
char *zep_format_bandwidth(double bytes_s, char buf[ZEP_UNIT_BUF]); /* "25GB/s" */
char *zep_format_number(double value, char buf[ZEP_UNIT_BUF]);      /* "0.8", without a unit */
char *zep_format_size(int64_t bytes, char buf[ZEP_UNIT_BUF]);       /* "80GB", "64KiB" where that is exact */
char *zep_format_time(double time_s, char buf[ZEP_UNIT_BUF]);       /* "1.5ms" */

#endif
