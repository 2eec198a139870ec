#include "config.h"
#include "common/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 64
#define DEFAULT_CHUNK 65536

struct chunk {
    struct chunk *next;
    size_t size, used; /* of data */
    char *data;        /* aligned to ALIGN */
};

struct zep_arena {
    size_t chunk_bytes;
    struct chunk *first, *cur;
};

void *zep_calloc(size_t n, size_t size)
{
    if (size != 0 && n > PTRDIFF_MAX / size)
        return NULL;
    return calloc(n ? n : 1, size ? size : 1);
}

void *zep_reallocarray(void *p, size_t n, size_t size)
{
    if (size != 0 && n > PTRDIFF_MAX / size)
        return NULL;
    return realloc(p, n > 0 && size > 0 ? n * size : 1);
}

struct zep_arena *zep_arena_new(size_t chunk_bytes)
{
    struct zep_arena *a = zep_calloc(1, sizeof *a);

    if (a)
        a->chunk_bytes = chunk_bytes ? chunk_bytes : DEFAULT_CHUNK;
    return a;
}

void zep_arena_free(struct zep_arena *arena)
{
    struct chunk *next;

    if (!arena)
        return;
    for (struct chunk *c = arena->first; c; c = next) {
        next = c->next;
        free(c->data);
        free(c);
    }
    free(arena);
}

static struct chunk *add_chunk(struct zep_arena *arena, size_t bytes)
{
    struct chunk *c = zep_calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->size = bytes > arena->chunk_bytes ? bytes : (arena->chunk_bytes + ALIGN - 1) / ALIGN * ALIGN;
    c->data = aligned_alloc(ALIGN, c->size);
    if (!c->data) {
        free(c);
        return NULL;
    }
    if (arena->cur) {
        c->next = arena->cur->next;
        arena->cur->next = c;
    } else {
        arena->first = c;
    }
    arena->cur = c;
    return c;
}

void *zep_arena_alloc(struct zep_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    struct chunk *c = arena->cur;
    void *p;

    if (size != 0 && n > (PTRDIFF_MAX - ALIGN) / size)
        return NULL;
    bytes = (n * size + ALIGN - 1) / ALIGN * ALIGN;
    while (c && c->size - c->used < bytes) { /* after a reset, later chunks are empty and may fit */
        if (!c->next || c->next->size - c->next->used < bytes) {
            c = NULL;
            break;
        }
        c = arena->cur = c->next;
    }
    if (!c && !(c = add_chunk(arena, bytes)))
        return NULL;
    p = c->data + c->used;
    c->used += bytes;
    memset(p, 0, bytes);
    return p;
}

char *zep_arena_strdup(struct zep_arena *arena, const char *s)
{
    size_t len = strlen(s) + 1;
    char *p = zep_arena_alloc(arena, len, 1);

    if (p)
        memcpy(p, s, len);
    return p;
}

void zep_arena_reset(struct zep_arena *arena)
{
    for (struct chunk *c = arena->first; c; c = c->next)
        c->used = 0;
    arena->cur = arena->first;
}
