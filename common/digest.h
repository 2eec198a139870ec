/* XXH64 of bytes (libxxhash): digests of plans, checksums of checkpoints. Not a protection against intent. */
#ifndef ZEP_COMMON_DIGEST_H
#define ZEP_COMMON_DIGEST_H

#include <stddef.h>
#include <stdint.h>

uint64_t zep_digest(const void *data, size_t len, uint64_t seed);

struct zep_digest_state; /* for data that comes in pieces */
struct zep_digest_state *zep_digest_new(uint64_t seed); /* NULL when out of memory */
void zep_digest_update(struct zep_digest_state *s, const void *data, size_t len);
uint64_t zep_digest_final(const struct zep_digest_state *s);
void zep_digest_free(struct zep_digest_state *s);

#endif
