#include "config.h"
#include "common/digest.h"

#include <xxhash.h>

uint64_t zep_digest(const void *data, size_t len, uint64_t seed)
{
    return XXH64(data, len, seed);
}

struct zep_digest_state *zep_digest_new(uint64_t seed)
{
    XXH64_state_t *s = XXH64_createState();

    if (s)
        XXH64_reset(s, seed);
    return (struct zep_digest_state *)s;
}

void zep_digest_update(struct zep_digest_state *s, const void *data, size_t len)
{
    XXH64_update((XXH64_state_t *)s, data, len);
}

uint64_t zep_digest_final(const struct zep_digest_state *s)
{
    return XXH64_digest((const XXH64_state_t *)s);
}

void zep_digest_free(struct zep_digest_state *s)
{
    XXH64_freeState((XXH64_state_t *)s);
}
