#include "config.h"
#include "runtime/save.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/arena.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/memory.h"
#include "runtime/agree.h"

#define WORTH_BYTES (INT64_C(64) << 20) /* less is written sooner than it is worth a thread */

struct zep_saver {
    struct zep_comm *comm;
    struct zep_ckpt_args base;
    int background; /* training goes on */
    float *copy;    /* own shard; kept from one checkpoint to the next */
    struct zep_ckpt_save *save; /* under way */
    struct zep_saver_told told; /* of it */
    double begun;
    void (*committed)(void *arg, const struct zep_saver_told *told);
    void *arg;
};

/* Is there a copy? "auto": where it is worth it, and where all ranks of the machine together would take no more than half of what is left. */
static int wants_copy(const struct zep_job *job, int64_t bytes, int ranks_here)
{
    int64_t have;

    if (strcmp(job->checkpoint.background, "auto") != 0)
        return strcmp(job->checkpoint.background, "true") == 0;
    have = zep_memory_available("");
    return bytes >= WORTH_BYTES && have > 0 && bytes <= have / 2 / (ranks_here > 0 ? ranks_here : 1);
}

int zep_saver_new(struct zep_comm *comm, const struct zep_job *job, const struct zep_ckpt_args *base, int ranks_here, void (*committed)(void *arg, const struct zep_saver_told *told), void *arg,
                  struct zep_saver **saver_out, struct zep_error *err)
{
    const struct zep_optim *o = base->optim;
    size_t n = (size_t)(o->first[o->rank + 1] - o->first[o->rank]) * (o->m ? 3 : 1);
    struct zep_saver *s = zep_calloc(1, sizeof *s);
    uint32_t without = 0;
    int rc = ZEP_OK;

    if (!s)
        rc = zep_error_nomem(err, "checkpoints");
    else if (wants_copy(job, (int64_t)(n * sizeof *s->copy), ranks_here))
        s->copy = malloc((n ? n : 1) * sizeof *s->copy);
    if ((rc = zep_agree(comm, rc, err)) < 0)
        goto err_saver;
    without = !s->copy;
    if ((rc = zep_comm_or_u32(comm, &without, 1, err)) < 0)
        goto err_saver;
    if (without) { /* all or none: nobody would wait for the others */
        free(s->copy);
        s->copy = NULL;
    }
    s->comm = comm;
    s->base = *base;
    s->background = !without;
    s->committed = committed;
    s->arg = arg;
    *saver_out = s;
    return ZEP_OK;
err_saver:
    if (s)
        free(s->copy);
    free(s);
    return rc;
}

void zep_saver_free(struct zep_saver *s)
{
    if (!s)
        return;
    zep_ckpt_abandon(s->save);
    free(s->copy);
    free(s);
}

int zep_saver_busy(const struct zep_saver *s)
{
    return zep_ckpt_busy(s->save);
}

static int finish(struct zep_saver *s, struct zep_error *err)
{
    struct zep_ckpt_save *save = s->save;
    int rc;

    s->save = NULL; /* it is freed in any case */
    if ((rc = zep_ckpt_end(s->comm, save, s->told.name, &s->told.bytes, err)) < 0)
        return rc;
    s->told.time_s = zep_clock_now() - s->begun;
    return ZEP_OK;
}

int zep_saver_finish(struct zep_saver *s, struct zep_error *err)
{
    double t0 = zep_clock_now();
    int rc;

    if (!s->save)
        return ZEP_OK;
    if ((rc = finish(s, err)) < 0)
        return rc;
    s->told.stall_s += zep_clock_now() - t0;
    s->committed(s->arg, &s->told);
    return ZEP_OK;
}

/* One stage further, where nobody has to wait for it. */
static int advance(struct zep_saver *s, struct zep_error *err)
{
    double t0 = zep_clock_now();
    int done, rc;

    if ((rc = zep_ckpt_advance(s->comm, s->save, &done, err)) < 0) {
        s->save = NULL;
        return rc;
    }
    s->told.stall_s += zep_clock_now() - t0;
    return done ? zep_saver_finish(s, err) : ZEP_OK;
}

static int begin(struct zep_saver *s, int64_t step, int now, struct zep_error *err)
{
    struct zep_ckpt_args args = s->base;
    int rc;

    args.info.step = step;
    s->begun = zep_clock_now();
    s->told = (struct zep_saver_told){.step = step};
    if ((rc = zep_ckpt_begin(s->comm, &args, now ? NULL : s->copy, &s->save, err)) < 0)
        return rc;
    if (now)
        return zep_saver_finish(s, err);
    s->told.stall_s = zep_clock_now() - s->begun;
    return ZEP_OK;
}

int zep_saver_after(struct zep_saver *s, int64_t step, int any_busy, int due, int now, struct zep_error *err)
{
    int rc;

    if (s->save && !any_busy && (rc = advance(s, err)) < 0)
        return rc;
    if (!due)
        return ZEP_OK;
    if ((rc = zep_saver_finish(s, err)) < 0)
        return rc;
    return begin(s, step, now || !s->background, err);
}
