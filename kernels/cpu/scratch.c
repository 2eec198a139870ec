#include "config.h"
#include "kernels/cpu/cpu.h"

#include <pthread.h>
#include <stdlib.h>

#define ALIGN 64

struct scratch {
    size_t n_float;
    float *data;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_rc;

static void scratch_free(void *arg)
{
    struct scratch *s = arg;

    free(s->data);
    free(s);
}

static void make_key(void)
{
    key_rc = pthread_key_create(&key, scratch_free);
}

static struct scratch *thread_scratch(void)
{
    struct scratch *s;

    pthread_once(&once, make_key);
    if (key_rc)
        return NULL;
    if ((s = pthread_getspecific(key)))
        return s;
    if (!(s = calloc(1, sizeof *s)))
        return NULL;
    if (pthread_setspecific(key, s)) {
        free(s);
        return NULL;
    }
    return s;
}

float *zep_cpu_scratch(size_t n_float)
{
    struct scratch *s = thread_scratch();
    float *data;

    if (!s || n_float > (SIZE_MAX - ALIGN) / sizeof *data)
        return NULL;
    if (n_float <= s->n_float)
        return s->data;
    data = aligned_alloc(ALIGN, (n_float * sizeof *data + ALIGN - 1) / ALIGN * ALIGN);
    if (!data)
        return NULL;
    free(s->data);
    s->data = data;
    s->n_float = n_float;
    return data;
}
