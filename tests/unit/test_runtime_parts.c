/* Parts of the runtime that need no MPI: learning rate, shards, this rank's tokens, checkpoint manifests, model layout and initial weights. */
#include "config.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/job.h"
#include "runtime/agree.h"
#include "runtime/batch.h"
#include "planner/workload.h"
#include "runtime/checkpoint_internal.h"
#include "runtime/model.h"
#include "runtime/optim.h"

START_TEST(shards_cover)
{
    static const struct {
        int64_t n;
        int ranks;
    } cases[] = {{0, 1}, {1, 1}, {1, 8}, {15, 2}, {16, 2}, {17, 2}, {1000, 3}, {100000, 7}, {64, 64}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t first[65], longest = 0, shortest = INT64_MAX;
        int r = cases[i].ranks;

        zep_optim_shards(cases[i].n, r, first);
        ck_assert_int_eq(first[0], 0);
        ck_assert_int_eq(first[r], cases[i].n);
        for (int k = 0; k < r; k++) {
            int64_t own = first[k + 1] - first[k];

            ck_assert_int_ge(own, 0);
            ck_assert(first[k] % 16 == 0 || first[k] == cases[i].n);
            longest = own > longest ? own : longest;
            shortest = own < shortest ? own : shortest;
        }
        ck_assert_int_le(longest - shortest, 31);
    }
}
END_TEST

START_TEST(learning_rate)
{
    struct zep_optim o = {.lr = 1.0, .min_lr = 0.1, .warmup = 4, .steps = 14};
    static const struct {
        int64_t step;
        double lr;
    } cases[] = {{1, 0.25}, {2, 0.5}, {4, 1.0}, {9, 0.55}, {14, 0.1}, {20, 0.1}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_double_eq_tol(zep_optim_lr(&o, cases[i].step), cases[i].lr, 1e-12);
}
END_TEST

static struct zep_model *small_model(int tied)
{
    struct zep_model_shape s = {.vocab = 10, .hidden = 16, .n_layer = 2, .n_head = 4, .n_head_kv = 2, .head_dim = 8, .ffn = 24, .tied = tied, .norm_eps = 1e-5f,
                                .rope_theta = 1e4, .init_std = 0.02, .max_pos = 8};
    const struct zep_kernels *k;
    struct zep_model *m;
    struct zep_error err;

    ck_assert_int_eq(zep_kernels_select(&k, &err), ZEP_OK);
    ck_assert_int_eq(zep_model_new(&s, k, &m, &err), ZEP_OK);
    return m;
}

START_TEST(model_layout)
{
    struct zep_model *m = small_model(1), *u = small_model(0);
    const struct zep_tensor *k = zep_model_tensor(m, "model.layers.1.self_attn.k_proj.weight");
    const struct zep_tensor *v = zep_model_tensor(m, "model.layers.1.self_attn.v_proj.weight");
    int64_t layer = 2 * 16 + 2 * 32 * 16 + 2 * 16 * 16 + 3 * 24 * 16;

    ck_assert_int_eq(m->n_weight, 10 * 16 + 2 * layer + 16);
    ck_assert_int_eq(u->n_weight, m->n_weight + 10 * 16);
    ck_assert_ptr_nonnull(zep_model_tensor(u, "lm_head.weight"));
    ck_assert_ptr_null(zep_model_tensor(m, "lm_head.weight"));
    ck_assert_int_eq(v->offset, k->offset + k->rows * k->cols); /* one product makes both */
    zep_model_free(m);
    zep_model_free(u);
}
END_TEST

START_TEST(model_init)
{
    struct zep_model *a = small_model(1), *b = small_model(1);
    const struct zep_tensor *o = zep_model_tensor(a, "model.layers.0.self_attn.o_proj.weight"), *q = zep_model_tensor(a, "model.layers.0.self_attn.q_proj.weight");
    double so = 0.0, sq = 0.0;

    zep_model_init(a, 1, 0, a->n_weight);
    for (int64_t at = 0; at < b->n_weight; at += 1237) /* in parts, as ranks do */
        zep_model_init(b, 1, at, at + 1237 < b->n_weight ? at + 1237 : b->n_weight);
    ck_assert_mem_eq(a->weight, b->weight, (size_t)a->n_weight * sizeof(float));
    zep_model_init(b, 2, 0, b->n_weight);
    ck_assert_mem_ne(a->weight, b->weight, (size_t)a->n_weight * sizeof(float));
    for (int64_t i = 0; i < o->rows * o->cols; i++) {
        so += a->weight[o->offset + i] * a->weight[o->offset + i];
        sq += a->weight[q->offset + i] * a->weight[q->offset + i];
    }
    ck_assert_double_eq_tol(sqrt(sq / (double)(q->rows * q->cols)), 0.02, 0.003);
    ck_assert_double_eq_tol(sqrt(so / sq), 0.5, 0.08); /* 1 / sqrt(2 layers x 2) */
    ck_assert(a->weight[zep_model_tensor(a, "model.norm.weight")->offset] == 1.0f);
    zep_model_free(a);
    zep_model_free(b);
}
END_TEST

START_TEST(init_std)
{
    static const struct {
        const char *set[2];
        double std;
    } cases[] = {{{"model.hidden=128", "model.init_std=auto"}, 0.0618718}, {{"model.hidden=4096", "model.init_std=auto"}, 0.0109375}, {{"model.hidden=128", "model.init_std=0.02"}, 0.02}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zep_job *job, *back;
        struct zep_model_shape shape;
        struct zep_buf b = ZEP_BUF_INIT;
        struct zep_error err;

        ck_assert_int_eq(zep_job_load(NULL, cases[i].set, 2, &job, &err), ZEP_OK);
        ck_assert_int_eq(zep_model_shape_from_job(job, &shape, &err), ZEP_OK);
        ck_assert_double_eq_tol(shape.init_std, cases[i].std, 1e-7);
        ck_assert_int_eq(zep_job_to_yaml(job, 0, &b, &err), ZEP_OK); /* and as the ranks read it */
        ck_assert_int_eq(zep_job_parse("job.yaml", b.data, b.len, &back, &err), ZEP_OK);
        ck_assert(back->model.init_std == job->model.init_std);
        zep_buf_free(&b);
        zep_job_free(job);
        zep_job_free(back);
    }
}
END_TEST

START_TEST(share_positions_and_labels)
{
    static const int64_t len[] = {1, 5, 3};
    static const int32_t token[] = {9, 10, 11, 12, 13, 14, 20, 21, 22};
    int node_dev0[] = {0, 1}, node_nic0[] = {0, 0}, leaf[] = {0}, dev_node[] = {0}, dev_nic[] = {-1};
    double bw[] = {0};
    struct zep_view view = {.n_node = 1, .n_dev = 1, .node_dev0 = node_dev0, .node_nic0 = node_nic0, .node_leaf = leaf, .dev_node = dev_node, .dev_nic = dev_nic,
                            .dev_bw = bw};
    struct zep_plan_opts opts = ZEP_PLAN_OPTS_DEFAULT;
    struct zep_plan *plan;
    struct zep_batch batch;
    struct zep_share share = {0};
    struct zep_error err;
    int seen = 0;

    opts.capacity_tok = 16;
    ck_assert_int_eq(zep_batch_make(len, 3, token, &batch, &err), ZEP_OK);
    ck_assert_int_eq(batch.n_token, 9);
    ck_assert_int_eq(batch.n_target, 6);
    /* the micro-step that holds documents 1 and 2 */
    ck_assert_int_eq(zep_plan_build(&view, len + 1, 2, &opts, &plan, &err), ZEP_OK);
    ck_assert_int_eq(zep_share_fill(&share, &batch, 1, plan, 0, &err), ZEP_OK);
    ck_assert_int_eq(share.n, 8);
    for (int64_t i = 0; i < share.n; i++) {
        int doc = share.token[i] >= 20, base = doc ? 20 : 10, n = doc ? 3 : 5;

        ck_assert_int_eq(share.pos[i], share.token[i] - base);
        ck_assert_int_eq(share.target[i], share.pos[i] + 1 < n ? share.token[i] + 1 : -1);
        seen |= 1 << (share.token[i] - 10);
    }
    ck_assert_int_eq(seen, 0x1c1f);
    zep_share_free(&share);
    zep_batch_free(&batch);
    zep_plan_free(plan);
}
END_TEST

START_TEST(manifest_round_trip)
{
    struct zep_model *m = small_model(1);
    struct zep_shard shard[2] = {{0, 160, 64 + 160 * 12, 0xfedcba9876543210u}, {160, m->n_weight, 64 + (m->n_weight - 160) * 12, 7}};
    struct zep_manifest a = {{42, 3, 0x8000000000000001u, 4096, 0xfffffffffffffffeu, 5, 2048, 4, ZEP_COMPOSE_ALIKE}, 3, 2, shard}, b;
    struct zep_error err;
    char *text = zep_manifest_write(&a, m), *p;

    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(zep_manifest_read("M", text, strlen(text), m, &b, &err), ZEP_OK);
    ck_assert_int_eq(b.info.step, 42);
    ck_assert_uint_eq(b.info.data_digest, a.info.data_digest);
    ck_assert_uint_eq(b.info.token_digest, a.info.token_digest);
    ck_assert_uint_eq(b.info.document_digest, 5);
    ck_assert_int_eq(b.info.context, 2048);
    ck_assert(b.info.window == 4 && b.info.compose == ZEP_COMPOSE_ALIKE);
    ck_assert_int_eq(b.n_part, 3);
    ck_assert_int_eq(b.n_shard, 2);
    ck_assert_mem_eq(b.shard, shard, sizeof shard);
    zep_manifest_free(&b);
    /* no digit can change unnoticed */
    for (char *p = text; *p; p++)
        if (*p >= '0' && *p <= '9') {
            *p ^= 1;
            ck_assert_int_lt(zep_manifest_read("M", text, strlen(text), m, &b, &err), 0);
            *p ^= 1;
        }
    p = strstr(text, "\"step\": 42");
    ck_assert_ptr_nonnull(p);
    memcpy(p, "\"step\": 41", 10);
    ck_assert_int_eq(zep_manifest_read("M", text, strlen(text), m, &b, &err), ZEP_EINVAL);
    ck_assert_str_eq(err.text, "M: the checksum of MANIFEST does not hold");
    memcpy(p, "\"step\": 42", 10);
    /* another model of the same shape */
    m->shape.rope_theta = 500;
    ck_assert_int_eq(zep_manifest_read("M", text, strlen(text), m, &b, &err), ZEP_EREFUSED);
    ck_assert_str_eq(err.text, "M: was made with model.rope_theta 10000, the job says 500");
    m->shape.rope_theta = 1e4;
    m->shape.norm_eps = 1e-6f;
    ck_assert_int_eq(zep_manifest_read("M", text, strlen(text), m, &b, &err), ZEP_EREFUSED);
    ck_assert_str_eq(err.text, "M: was made with model.norm_eps 1e-05, the job says 1e-06");
    free(text);
    zep_model_free(m);
}
END_TEST

START_TEST(manifest_refused)
{
    struct zep_model *m = small_model(1);
    char text[1024];
    static const struct {
        const char *json, *message;
        int rc;
    } cases[] = {
        {"{", "M:1: string or '}' expected near end of file", ZEP_EINVAL},
        {"{\"format\":\"zeppelin-checkpoint/1.0\",\"dtype\":\"float32-le\",\"model\":{\"vocab\":11}}", "M: was made with model.vocab 11, the job says 10", ZEP_EREFUSED},
        {"{\"format\":\"zeppelin-checkpoint/1.0\",\"dtype\":\"float32-le\",\"model\":{\"vocab\":10,\"hidden\":16,\"layers\":2,\"heads\":4,\"kv_heads\":2,\"head_dim\":8,\"ffn\":24,\"tied\":1},"
         "\"shards\":[{\"first\":16,\"last\":32,\"bytes\":256}]}",
         "M: shard 0 does not join the one before it", ZEP_EINVAL},
        {"{\"format\":\"zeppelin-checkpoint/1.0\",\"dtype\":\"float32-le\",\"model\":{\"vocab\":10,\"hidden\":16,\"layers\":2,\"heads\":4,\"kv_heads\":2,\"head_dim\":8,\"ffn\":24,\"tied\":1},"
         "\"shards\":[]}",
         "M: shards end at weight 0, expected ", ZEP_EINVAL},
        {"{\"format\":\"zeppelin-checkpoint/1.0\",\"dtype\":\"float32-le\",\"model\":{\"vocab\":10,\"hidden\":16,\"layers\":2,\"heads\":4,\"kv_heads\":2,\"head_dim\":8,\"ffn\":24,\"tied\":1},"
         "\"shards\":[{\"first\":0,\"last\":9223372036854775807,\"bytes\":0}]}",
         "M: shard 0 does not join the one before it", ZEP_EINVAL},
        {"{\"format\":\"zeppelin-checkpoint/1.0\",\"dtype\":\"bfloat16\"}", "M: dtype 'bfloat16': expected float32-le", ZEP_EREFUSED},
        {"{\"format\":\"zeppelin-checkpoint/1.0\"}", "M: dtype '': expected float32-le", ZEP_EINVAL},
        {"{\"format\":\"zeppelin-checkpoint/1.1\",\"dtype\":\"float32-le\"}", "M: the checksum of MANIFEST does not hold", ZEP_EINVAL},
        {"{\"format\":\"zeppelin-checkpoint/1.1\",\"manifest_xxh64\": \"0123", "M:1: ", ZEP_EINVAL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zep_manifest b;
        struct zep_error err;

        ck_assert_int_eq(zep_manifest_read("M", cases[i].json, strlen(cases[i].json), m, &b, &err), cases[i].rc);
        snprintf(text, sizeof text, "%.*s", (int)strlen(cases[i].message), err.text);
        ck_assert_str_eq(text, cases[i].message);
    }
    zep_model_free(m);
}
END_TEST

START_TEST(checkpoint_names)
{
    ck_assert_int_eq(zep_ckpt_step_of("step-120"), 120);
    ck_assert_int_eq(zep_ckpt_step_of("step-0"), 0);
    ck_assert_int_eq(zep_ckpt_step_of("step-120.0123456789abcdef"), -1);
    ck_assert_int_eq(zep_ckpt_step_of("step-"), -1);
    ck_assert_int_eq(zep_ckpt_step_of("step--3"), -1);
    ck_assert_int_eq(zep_ckpt_step_of("lost+found"), -1);
}
END_TEST

START_TEST(agreed_errors)
{
    struct zep_error err = {0};

    zep_error_set(&err, ZEP_EIO, "rank 12: disk full");
    ck_assert_int_eq(zep_agreed_rank(&err), 12);
    zep_error_set(&err, ZEP_EPEER, "rank 3 on n1 does not answer");
    ck_assert_int_eq(zep_agreed_rank(&err), -1);
    zep_error_set(&err, ZEP_EIO, "disk full");
    ck_assert_int_eq(zep_agreed_rank(&err), -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("runtime parts");
    TCase *tc = tcase_create("all");
    SRunner *sr;
    int failed;

    tcase_add_test(tc, shards_cover);
    tcase_add_test(tc, learning_rate);
    tcase_add_test(tc, model_layout);
    tcase_add_test(tc, model_init);
    tcase_add_test(tc, init_std);
    tcase_add_test(tc, share_positions_and_labels);
    tcase_add_test(tc, manifest_round_trip);
    tcase_add_test(tc, manifest_refused);
    tcase_add_test(tc, checkpoint_names);
    tcase_add_test(tc, agreed_errors);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
