/* What holds of every remap, whatever it minimises; its two objectives are compared with linear programs in test_remap_lp.c. */
#include "config.h"

#include <stdio.h>

#include "common/arena.h"
#include "planner/remap_internal.h"
#include "tests/unit/remap_util.h"

#define CASES 4000

static int64_t share(int64_t total, int n, int64_t *rest)
{
    *rest = total % n;
    return total / n;
}

static void check_moves(const struct remap_case *c)
{
    int64_t after[CASE_MAX_DEV], total = 0, least, rest;
    int role[CASE_MAX_DEV] = {0}, n_full = 0, n_active = 0;

    for (int d = 0; d < c->n_dev; d++)
        total += after[d] = c->tok[d];
    for (int i = 0; i < c->plan.n_move; i++) {
        const struct zep_plan_move *m = &c->plan.move[i];

        ck_assert_msg(m->n >= 1 && m->from != m->to, "seed %llu: move %d", (unsigned long long)c->seed, i);
        ck_assert_msg(i == 0 || m->from > m[-1].from || (m->from == m[-1].from && m->to > m[-1].to), "seed %llu: move %d out of order", (unsigned long long)c->seed, i);
        ck_assert_msg(role[m->from] != 2 && role[m->to] != 1, "seed %llu: a device sends and receives", (unsigned long long)c->seed);
        n_active += !role[m->from] + !role[m->to];
        role[m->from] = 1;
        role[m->to] = 2;
        after[m->from] -= m->n;
        after[m->to] += m->n;
    }
    least = share(total, c->n_dev, &rest);
    for (int d = 0; d < c->n_dev; d++) {
        ck_assert_msg(after[d] == least || after[d] == least + 1, "seed %llu: device %d is left with %lld", (unsigned long long)c->seed, d, (long long)after[d]);
        n_full += after[d] > least;
    }
    ck_assert_int_eq(n_full, rest);
    /* at most one move a device of each group that is paired (node, leaf, all) */
    ck_assert_msg(c->plan.n_move <= 3 * n_active, "seed %llu: %d moves among %d devices", (unsigned long long)c->seed, c->plan.n_move, n_active);
}

START_TEST(properties)
{
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct remap_case a, b;
        enum zep_remap_objective objective = seed % 2 ? ZEP_REMAP_LINKS : ZEP_REMAP_SENDERS;

        case_make(&a, seed / 2);
        case_make(&b, seed / 2);
        case_remap(&a, objective);
        case_remap(&b, objective);
        check_moves(&a);
        ck_assert_int_eq(a.plan.n_move, b.plan.n_move);
        ck_assert(!a.plan.n_move || !memcmp(a.plan.move, b.plan.move, (size_t)a.plan.n_move * sizeof *a.plan.move));
        case_free(&a);
        case_free(&b);
    }
}
END_TEST

/* Senders: the spine carries no more than the leaves' own surpluses and deficits make it, and no node sends to its leaf what its own receivers take from elsewhere. */
START_TEST(spine_carries_least)
{
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct remap_case c;
        int64_t leaf[8] = {0}, spine = 0, least = 0;
        int from_leaf[16] = {0}, to_leaf[16] = {0};

        case_make(&c, seed);
        case_remap(&c, ZEP_REMAP_SENDERS);
        for (int i = 0; i < c.plan.n_move; i++) {
            const struct zep_plan_move *m = &c.plan.move[i];
            int a = c.view->dev_node[m->from], b = c.view->dev_node[m->to], la = c.view->node_leaf[a] + 1, lb = c.view->node_leaf[b] + 1;

            leaf[la] += m->n;
            leaf[lb] -= m->n;
            spine += la == lb ? 0 : m->n;
            from_leaf[a] |= a != b;
            to_leaf[b] |= a != b && la == lb;
        }
        for (int l = 0; l < 8; l++)
            least += leaf[l] > 0 ? leaf[l] : 0;
        ck_assert_msg(spine == least, "seed %llu: %lld tokens over the spine, expected %lld", (unsigned long long)seed, (long long)spine, (long long)least);
        for (int i = 0; i < c.view->n_node; i++)
            ck_assert_msg(!from_leaf[i] || !to_leaf[i] || least, "seed %llu: node %d sends to and receives from its leaf", (unsigned long long)seed, i);
        case_free(&c);
    }
}
END_TEST

/* The same plan where all bandwidths are another unit's: only ratios count. */
START_TEST(units)
{
    for (uint64_t seed = 0; seed < 500; seed++)
        for (int k = 0; k < 2; k++) {
            struct remap_case a, b;

            case_make(&a, seed);
            case_make(&b, seed);
            for (int d = 0; d < a.n_dev; d++) {
                a.view->dev_bw[d] = case_dev_bw(a.view, d);
                b.view->dev_bw[d] = a.view->dev_bw[d] / 1024;
            }
            for (int i = 0; i < a.view->n_nic; i++) {
                a.view->nic_bw[i] = case_nic_bw(a.view, i);
                b.view->nic_bw[i] = a.view->nic_bw[i] / 1024;
            }
            for (int d = 0; d < a.n_dev; d++)
                if (a.view->dev_nic[d] < 0)
                    goto next; /* an unknown NIC has a speed of its own */
            case_remap(&a, k ? ZEP_REMAP_LINKS : ZEP_REMAP_SENDERS);
            case_remap(&b, k ? ZEP_REMAP_LINKS : ZEP_REMAP_SENDERS);
            ck_assert_int_eq(a.plan.n_move, b.plan.n_move);
            ck_assert(!a.plan.n_move || !memcmp(a.plan.move, b.plan.move, (size_t)a.plan.n_move * sizeof *a.plan.move));
        next:
            case_free(&a);
            case_free(&b);
        }
}
END_TEST

/* Cases whose answer is known: nodes (devices, NICs), leaves, tokens -> the moves. */
START_TEST(known)
{
    static const struct {
        const char *what;
        int objective, n_node, dev, nic, leaf[4];
        int64_t tok[8];
        const char *moves;
    } cases[] = {
        {"balanced", 0, 2, 2, 2, {0, 0}, {5, 4, 5, 5}, ""},
        {"balanced", 1, 2, 2, 2, {0, 0}, {5, 4, 5, 5}, ""},
        {"inside a node", 0, 2, 2, 2, {0, 0}, {12, 4, 4, 12}, "0>1:4 3>2:4 "},
        {"inside a node", 1, 2, 2, 2, {0, 0}, {12, 4, 4, 12}, "0>1:4 3>2:4 "},
        /* inside costs 1, across 8: of the 18 that cross 0 sends y and 1 sends 18 - y, and 20 + 7y = 14 + 7(18 - y) where y is 8.57; in whole tokens 9 is better than 8 */
        {"water", 0, 2, 3, 3, {0, 0}, {36, 30, 0, 10, 10, 10}, "0>2:11 0>3:6 0>4:3 1>2:5 1>4:3 1>5:6 "},
        /* the remaining token stays with the fullest */
        {"remainder", 0, 1, 4, 1, {0}, {4, 0, 0, 1}, "0>1:1 0>2:1 "},
        /* the sender of node 0 gives its leaf's only receiver to the fuller one of node 1: it goes across leaves itself, and the largest cost falls */
        {"not greedy", 0, 4, 2, 2, {0, 0, 1, 1}, {110, 90, 200, 100, 50, 50, 100, 100}, "0>4:10 2>1:10 2>4:40 2>5:50 "},
        /* devices 0 and 1 share a NIC: what crosses, 8 tokens, takes the same however they share it; the fewest moves then */
        {"shared NIC", 1, 2, 4, 2, {0, 0}, {24, 24, 4, 4, 10, 10, 10, 10}, "0>2:8 0>3:4 1>3:4 1>4:2 1>5:2 1>6:2 1>7:2 "},
        {"leaf first", 1, 4, 1, 1, {0, 1, 1, 0}, {16, 0, 16, 0}, "0>3:8 2>1:8 "},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zep_view *view = make_view(cases[i].n_node, cases[i].dev, cases[i].nic);
        struct zep_plan plan = {0};
        struct zep_error err;
        char got[256] = "";

        for (int k = 0; k < cases[i].n_node; k++)
            view->node_leaf[k] = cases[i].leaf[k];
        ck_assert_int_eq(zep_plan_remap_for(view, cases[i].objective ? ZEP_REMAP_LINKS : ZEP_REMAP_SENDERS, cases[i].tok, NULL, &plan, &err), ZEP_OK);
        for (int k = 0; k < plan.n_move; k++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%d>%d:%d ", plan.move[k].from, plan.move[k].to, (int)plan.move[k].n);
        ck_assert_msg(!strcmp(got, cases[i].moves), "%s: %s, expected %s", cases[i].what, got, cases[i].moves);
        free(plan.move);
        test_view_free(view);
    }
}
END_TEST

/* The largest batch, very slow and very fast links: nothing overflows. */
START_TEST(extremes)
{
    static const double bw[] = {1, 1e3, 25e9, 1e15};

    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4; k++)
            for (int objective = 0; objective < 2; objective++) {
                struct remap_case c = {.view = make_view(3, 2, 2), .n_dev = 6, .tok = {ZEP_PLAN_MAX_TOKENS}};

                for (int d = 0; d < 6; d++) {
                    c.view->dev_bw[d] = bw[i];
                    c.view->nic_bw[d] = bw[k];
                    c.view->node_leaf[d / 2] = d / 2;
                }
                case_remap(&c, objective ? ZEP_REMAP_LINKS : ZEP_REMAP_SENDERS);
                check_moves(&c);
                case_free(&c);
            }
}
END_TEST

/* Slow inside, fast NICs, one node with senders and receivers: it must not be left alone with itself. */
START_TEST(alone)
{
    for (uint64_t seed = 0; seed < 3000; seed++) {
        struct remap_case c;

        case_make(&c, seed);
        for (int d = 0; d < c.n_dev; d++)
            c.view->dev_bw[d] = d % 2 ? 1e9 : 3e9;
        case_remap(&c, ZEP_REMAP_LINKS);
        check_moves(&c);
        case_free(&c);
    }
}
END_TEST

/* The method decides. */
START_TEST(by_method)
{
    static const char *const methods[] = {"zeppelin", "zeppelin-paper", "te-cp"};

    for (int m = 0; m < 3; m++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            struct remap_case a, b;
            struct zep_error err;

            case_make(&a, seed);
            case_make(&b, seed);
            strcpy(a.plan.method, methods[m]);
            ck_assert_int_eq(zep_plan_remap(a.view, a.tok, NULL, &a.plan, &err), ZEP_OK);
            case_remap(&b, m == 0 ? ZEP_REMAP_LINKS : ZEP_REMAP_SENDERS);
            ck_assert_int_eq(a.plan.n_move, b.plan.n_move);
            ck_assert(!a.plan.n_move || !memcmp(a.plan.move, b.plan.move, (size_t)a.plan.n_move * sizeof *a.plan.move));
            case_free(&a);
            case_free(&b);
        }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("planner: remapping");
    TCase *t = tcase_create("remap");
    SRunner *run;
    int failed;

    tcase_set_timeout(t, 120);
    tcase_add_test(t, properties);
    tcase_add_test(t, spine_carries_least);
    tcase_add_test(t, units);
    tcase_add_test(t, known);
    tcase_add_test(t, extremes);
    tcase_add_test(t, alone);
    tcase_add_test(t, by_method);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
