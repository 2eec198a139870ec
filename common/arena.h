/* Arena: many small allocations with one lifetime, freed together. */
#ifndef ZEP_COMMON_ARENA_H
#define ZEP_COMMON_ARENA_H

#include <stddef.h>

struct zep_arena;

struct zep_arena *zep_arena_new(size_t chunk_bytes); /* 0: default. NULL when out of memory */
void zep_arena_free(struct zep_arena *arena);
/* n elements of size bytes, zeroed, aligned to 64; the product is checked. NULL when out of memory. Lives until reset or free. */
void *zep_arena_alloc(struct zep_arena *arena, size_t n, size_t size);
char *zep_arena_strdup(struct zep_arena *arena, const char *s);
void zep_arena_reset(struct zep_arena *arena); /* keeps the memory for the next use */

/* Checked calloc and realloc for plain ownership: NULL on overflow too. */
void *zep_calloc(size_t n, size_t size);
void *zep_reallocarray(void *p, size_t n, size_t size);

#endif
