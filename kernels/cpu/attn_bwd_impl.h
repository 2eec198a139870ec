/* Attention of one causal block, backward; compiled once per instruction set, after attn_impl.h.
 *
 * For each span of keys and each block of queries, panel by panel: scores and weights P = exp(S - lse) again, dP = dO V^T,
 * dS = P * (dP - delta), then dQ += dS K, dV += P^T dO, dK += dS^T Q (Dao et al. 2022, algorithm 4). */

#define QUERIES_BWD 96
#define SPAN_FLOATS_BWD 32768

struct bwd {
    const struct zep_attn *a;
    int ld;
    int64_t span;
    float *kt, *vt;          /* [span / KEYS][head_dim][KEYS] */
    float *k;                /* [span][ld] */
    float *dk, *dv;          /* [span][ld] sums over all query heads of the group */
    float *q, *d_o, *dq;     /* [QUERIES_BWD][ld]; q times scale * log2(e) */
    float *p, *ds;           /* [QUERIES_BWD][KEYS] */
    float *lse2, *delta;     /* [QUERIES_BWD] lse in base 2 */
};

static size_t bwd_carve(struct bwd *b, float *base)
{
    int64_t n_q = min64(round_up(b->a->n_q, ROWS), QUERIES_BWD);
    size_t n = 0;

    b->kt = carve(base, &n, b->span * b->a->head_dim);
    b->vt = carve(base, &n, b->span * b->a->head_dim);
    b->k = carve(base, &n, b->span * b->ld);
    b->dk = carve(base, &n, b->span * b->ld);
    b->dv = carve(base, &n, b->span * b->ld);
    b->q = carve(base, &n, n_q * b->ld);
    b->d_o = carve(base, &n, n_q * b->ld);
    b->dq = carve(base, &n, n_q * b->ld);
    b->p = carve(base, &n, n_q * KEYS);
    b->ds = carve(base, &n, n_q * KEYS);
    b->lse2 = carve(base, &n, n_q);
    b->delta = carve(base, &n, n_q);
    return n;
}

/* ROWS rows of scores p and of dP in ds become weights and dS; columns as in softmax_step, zero where nothing is seen. */
INLINE void weight_step(const int all, int64_t seen, int64_t n_key, float *p, float *ds, const float *lse2,
                        const float *delta)
{
    for (int r = 0; r < ROWS; r++) {
        int64_t lim = min64(seen + r, n_key);
        vf l = v_set1(lse2[r]), d = v_set1(delta[r]);

        UNROLL for (int w = 0; w < KEY_VEC; w++) {
            float *pw = p + r * KEYS + w * VEC_W, *dw = ds + r * KEYS + w * VEC_W;
            vf e = v_exp2(v_sub(v_load(pw), l)), g = v_mul(e, v_sub(v_load(dw), d));

            if (!all) {
                vm m = v_first(lim - w * VEC_W);

                e = v_select(m, e, v_zero());
                g = v_select(m, g, v_zero());
            }
            v_store(pw, e);
            v_store(dw, g);
        }
    }
}

NOINLINE void weight_step_all(float *p, float *ds, const float *lse2, const float *delta)
{
    weight_step(1, KEYS, KEYS, p, ds, lse2, delta);
}

NOINLINE void weight_step_part(int64_t seen, int64_t n_key, float *p, float *ds, const float *lse2, const float *delta)
{
    weight_step(0, seen, n_key, p, ds, lse2, delta);
}

/* The packed queries against one panel; arguments as in fwd_panel. */
static void bwd_panel(const struct bwd *b, int64_t n_q, int64_t pos, int64_t panel, int64_t n_key, int64_t key_pos,
                      struct ticker *t)
{
    int d = b->a->head_dim, ld = b->ld;
    int64_t at = panel * KEYS, ahead = key_pos - pos, first = ahead > 0 ? ahead / ROWS * ROWS : 0;

    for (int64_t g = first; g < n_q; g += ROWS) {
        float *p = b->p + g * KEYS, *ds = b->ds + g * KEYS;
        int64_t seen = pos + g - key_pos + 1, n_col = min64(seen + ROWS - 1, n_key);
        int n_vec = (int)((n_col + VEC_W - 1) / VEC_W);

        tile_scores(n_vec, d, b->q + g * ld, ld, b->kt + at * d, p);
        tile_scores(n_vec, d, b->d_o + g * ld, ld, b->vt + at * d, ds);
        if (seen >= KEYS && n_key == KEYS)
            weight_step_all(p, ds, b->lse2 + g, b->delta + g);
        else
            weight_step_part(seen, n_key, p, ds, b->lse2 + g, b->delta + g);
        tile_query_grad(n_col, ds, b->k + at * ld, ld, b->dq + g * ld);
        tick(t, 6 * ROWS * n_col * ld);
    }
    for (int64_t j = 0; j < n_key; j += ROWS) {
        int64_t r = ahead + j > first ? ahead + j : first; /* the first query that sees key j */
        int n_row = (int)min64(ROWS, KEYS - j);

        if (r >= n_q)
            break;
        tile_key_grad(n_row, n_q - r, b->p + r * KEYS + j, b->d_o + r * ld, ld, b->dv + (at + j) * ld);
        tile_key_grad(n_row, n_q - r, b->ds + r * KEYS + j, b->q + r * ld, ld, b->dk + (at + j) * ld);
        tick(t, 4 * n_row * (n_q - r) * ld);
    }
}

/* A row that has seen nothing, and the rows that fill up a block, get an lse that makes every weight vanish. */
static void pack_row_sums(const struct bwd *b, int head, int64_t q0, int64_t n_q, int64_t n_pad, const float *lse,
                          const float *delta)
{
    for (int64_t i = 0; i < n_pad; i++) {
        int64_t at = (q0 + i) * b->a->n_head + head;
        int dead = i >= n_q || lse[at] == -INFINITY;

        b->lse2[i] = dead ? -SCORE_MIN : lse[at] * log2_e;
        b->delta[i] = dead ? 0 : delta[at];
    }
}

/* Queries q0 .. q0 + n_q - 1 of one head against the packed span. */
static void bwd_block(const struct bwd *b, int head, int64_t q0, int64_t n_q, int64_t n_key, int64_t key_pos,
                      const float *d_o, int64_t ld_do, float *dq, int64_t ld_dq, struct ticker *t)
{
    const struct zep_attn *a = b->a;
    int64_t n_pad = round_up(n_q, ROWS), pos = a->q_pos + q0, col = (int64_t)head * a->head_dim;

    pack_rows(a->q + q0 * a->ld_q + col, a->ld_q, n_q, a->head_dim, a->scale * log2_e, b->q, n_pad, b->ld);
    pack_rows(d_o + q0 * ld_do + col, ld_do, n_q, a->head_dim, 1, b->d_o, n_pad, b->ld);
    memset(b->dq, 0, n_pad * b->ld * sizeof *b->dq);
    for (int64_t k = 0; k < n_key && key_pos + k < pos + n_q; k += KEYS)
        bwd_panel(b, n_pad, pos, k / KEYS, min64(n_key - k, KEYS), key_pos + k, t);
    unpack_add(dq + q0 * ld_dq + col, ld_dq, n_q, a->head_dim, a->scale, b->dq, b->ld);
}

static void bwd_pack_span(const struct bwd *b, int64_t at, int64_t n, struct ticker *t)
{
    const struct zep_attn *a = b->a;

    for (int64_t k = 0; k < n; k += KEYS) {
        int64_t m = min64(n - k, KEYS), from = at + k * a->ld_kv;

        pack_transposed(a->k + from, a->ld_kv, m, a->head_dim, b->kt + k * a->head_dim);
        pack_transposed(a->v + from, a->ld_kv, m, a->head_dim, b->vt + k * a->head_dim);
        pack_rows(a->k + from, a->ld_kv, m, a->head_dim, 1, b->k + k * b->ld, m, b->ld);
        tick(t, 128 * m * a->head_dim);
    }
    memset(b->dk, 0, round_up(n, KEYS) * b->ld * sizeof *b->dk);
    memset(b->dv, 0, round_up(n, KEYS) * b->ld * sizeof *b->dv);
}

int ISA_FN(zep_attn_bwd)(const struct zep_attn *a, const float *d_o, int64_t ld_do, const float *lse, const float *delta,
                         float *dq, int64_t ld_dq, float *dk, float *dv, int64_t ld_dkv, const struct zep_progress *pr,
                         struct zep_error *err)
{
    struct bwd b = { .a = a };
    struct ticker t = ticker_start(pr);
    int64_t n_key = visible_keys(a);
    float *base;
    int rc;

    if ((rc = check_attn(a, err)) < 0)
        return rc;
    if (!n_key)
        return ZEP_OK;
    b.ld = (int)round_up(a->head_dim, VEC_W);
    b.span = span_keys(SPAN_FLOATS_BWD, a->head_dim, n_key);
    if (!(base = zep_cpu_scratch(bwd_carve(&b, NULL))))
        return zep_error_nomem(err, "attention");
    bwd_carve(&b, base);
    for (int kvh = 0; kvh < a->n_head_kv; kvh++) {
        int group = a->n_head / a->n_head_kv;

        for (int64_t s = 0; s < n_key; s += b.span) {
            int64_t n = min64(n_key - s, b.span), key_pos = a->kv_pos + s, col = (int64_t)kvh * a->head_dim;
            int64_t first = key_pos > a->q_pos ? key_pos - a->q_pos : 0;

            bwd_pack_span(&b, s * a->ld_kv + col, n, &t);
            for (int h = kvh * group; h < (kvh + 1) * group; h++) {
                for (int64_t q = first; q < a->n_q; q += QUERIES_BWD) {
                    int64_t n_q = min64(a->n_q - q, QUERIES_BWD);

                    pack_row_sums(&b, h, q, n_q, round_up(n_q, ROWS), lse, delta);
                    bwd_block(&b, h, q, n_q, n, key_pos, d_o, ld_do, dq, ld_dq, &t);
                }
            }
            /* q was packed times scale * log2(e): the gradient of the keys wants scale alone */
            unpack_add(dk + s * ld_dkv + col, ld_dkv, n, a->head_dim, (float)ln_2, b.dk, b.ld);
            unpack_add(dv + s * ld_dkv + col, ld_dkv, n, a->head_dim, 1, b.dv, b.ld);
        }
    }
    return ZEP_OK;
}

void ISA_FN(zep_attn_delta)(int64_t n, int n_head, int head_dim, const float *o, int64_t ld_o, const float *d_o,
                            int64_t ld_do, float *delta)
{
    for (int64_t i = 0; i < n; i++) {
        for (int h = 0; h < n_head; h++) {
            const float *x = o + i * ld_o + h * head_dim, *y = d_o + i * ld_do + h * head_dim;
            vf s = v_zero();

            for (int c = 0; c < head_dim; c += VEC_W)
                s = v_fma(v_load_n(x + c, head_dim - c), v_load_n(y + c, head_dim - c), s);
            delta[i * n_head + h] = v_sum(s);
        }
    }
}
