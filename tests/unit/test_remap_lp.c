/* Both objectives of remapping against linear programs that know nothing of levels, water or bisection: a variable a pair of devices, a row a sender, receiver, NIC.
 * usage: test_remap_lp [cases [first seed]]. Skipped (status 77) where GLPK was not there at configure. */
#include "config.h"

#include <stdio.h>

#include "tests/unit/remap_util.h"

#if HAVE_GLPK
#include <glpk.h>

static int n_case = 2000;
static uint64_t seed0 = 1000000;

/* Numbers of a sparse matrix, from 1 as GLPK has them. */
struct matrix {
    int n, *row, *col;
    double *val;
};

static void put(struct matrix *m, int row, int col, double val)
{
    m->n++;
    m->row[m->n] = row;
    m->col[m->n] = col;
    m->val[m->n] = val;
}

/* Rows: 1..D what a device sends or receives; then one for each resource (sum of its times - T <= 0): senders; or devices out, in, NICs out, in. Column 1 is T. */
static double optimum(const struct remap_case *c, const int64_t *surplus, enum zep_remap_objective objective, int whole)
{
    const struct zep_view *v = c->view;
    int n_dev = c->n_dev, n_res = objective == ZEP_REMAP_SENDERS ? n_dev : 2 * (n_dev + v->n_nic + v->n_node), col = 1;
    size_t cap = (size_t)n_dev * (size_t)n_dev * 4 + (size_t)n_res + 2;
    struct matrix m = {0, calloc(cap, sizeof(int)), calloc(cap, sizeof(int)), calloc(cap, sizeof(double))};
    glp_prob *p = glp_create_prob();
    double scale = 1e9, best; /* costs in nanoseconds: near to 1 */
    glp_smcp how;

    ck_assert(m.row && m.col && m.val);
    glp_set_obj_dir(p, GLP_MIN);
    glp_add_rows(p, n_dev + n_res);
    glp_add_cols(p, 1);
    glp_set_obj_coef(p, 1, 1);
    glp_set_col_bnds(p, 1, GLP_LO, 0, 0);
    for (int d = 0; d < n_dev; d++)
        glp_set_row_bnds(p, d + 1, GLP_FX, (double)llabs(surplus[d]), 0);
    for (int k = 0; k < n_res; k++) {
        glp_set_row_bnds(p, n_dev + 1 + k, GLP_UP, 0, 0);
        put(&m, n_dev + 1 + k, 1, -1);
    }
    for (int i = 0; i < n_dev; i++)
        for (int j = 0; j < n_dev; j++) {
            if (surplus[i] <= 0 || surplus[j] >= 0)
                continue;
            col++;
            glp_add_cols(p, 1);
            glp_set_col_bnds(p, col, GLP_LO, 0, 0);
            if (whole)
                glp_set_col_kind(p, col, GLP_IV);
            put(&m, i + 1, col, 1);
            put(&m, j + 1, col, 1);
            if (objective == ZEP_REMAP_SENDERS) {
                put(&m, n_dev + 1 + i, col, scale * case_cost(v, i, j));
            } else if (v->dev_node[i] == v->dev_node[j]) {
                put(&m, n_dev + 1 + i, col, scale / case_dev_bw(v, i));
                put(&m, 2 * n_dev + 1 + j, col, scale / case_dev_bw(v, j));
            } else {
                put(&m, 3 * n_dev + 1 + case_nic(v, i), col, scale / case_nic_bw(v, case_nic(v, i)));
                put(&m, 3 * n_dev + 1 + v->n_nic + v->n_node + case_nic(v, j), col, scale / case_nic_bw(v, case_nic(v, j)));
            }
        }
    glp_load_matrix(p, m.n, m.row, m.col, m.val);
    glp_init_smcp(&how);
    how.presolve = GLP_ON;
    ck_assert_int_eq(glp_simplex(p, &how), 0);
    ck_assert_int_eq(glp_get_status(p), GLP_OPT);
    best = glp_get_obj_val(p);
    if (whole) {
        glp_iocp iocp;

        glp_init_iocp(&iocp);
        iocp.presolve = GLP_ON;
        iocp.tm_lim = 5000;
        best = glp_intopt(p, &iocp) == 0 && glp_mip_status(p) == GLP_OPT ? glp_mip_obj_val(p) : -1;
    }
    glp_delete_prob(p);
    free(m.row);
    free(m.col);
    free(m.val);
    return best / scale;
}

/* Surpluses as the moves have them: which device keeps a remaining token is no question of the optimum. */
static void surpluses(const struct remap_case *c, int64_t *surplus)
{
    memset(surplus, 0, CASE_MAX_DEV * sizeof *surplus);
    for (int i = 0; i < c->plan.n_move; i++) {
        surplus[c->plan.move[i].from] += c->plan.move[i].n;
        surplus[c->plan.move[i].to] -= c->plan.move[i].n;
    }
}

/* The time of one token over the dearest link that a device or NIC in question has; senders: what a token costs more across leaves than inside. */
static double one_token(const struct remap_case *c, enum zep_remap_objective objective)
{
    const struct zep_view *v = c->view;
    double worst = 0;

    for (int d = 0; d < c->n_dev; d++) {
        double in = 1 / case_dev_bw(v, d), out = 1 / case_nic_bw(v, case_nic(v, d)), most = out > in ? out : in;

        most = objective == ZEP_REMAP_SENDERS ? 1.25 * most - in : most;
        worst = most > worst ? most : worst;
    }
    return worst;
}

static void compare(enum zep_remap_objective objective)
{
    double most_off = 0;
    int n_moving = 0;

    glp_term_out(GLP_OFF);
    for (int i = 0; i < n_case; i++) {
        struct remap_case c;
        int64_t surplus[CASE_MAX_DEV];
        double want = 0, got, token;

        case_make(&c, seed0 + (uint64_t)i);
        case_remap(&c, objective);
        got = case_time(&c, objective);
        token = one_token(&c, objective);
        surpluses(&c, surplus);
        if (c.plan.n_move) {
            n_moving++;
            want = optimum(&c, surplus, objective, 0);
        }
        ck_assert_msg(got >= want * (1 - 1e-6), "seed %llu: %.9g s is less than the linear program's %.9g s", (unsigned long long)c.seed, got, want);
        ck_assert_msg(got <= want * (1 + 1e-5) + token, "seed %llu: %.9g s, the linear program has %.9g s, a token takes %.3g s", (unsigned long long)c.seed, got, want, token);
        most_off = (got - want) / token > most_off ? (got - want) / token : most_off;
        case_free(&c);
    }
    printf("%s: %d cases (%d with moves), at most %.3f tokens over the linear program\n", objective == ZEP_REMAP_LINKS ? "links" : "senders", n_case, n_moving, most_off);
}

START_TEST(senders)
{
    compare(ZEP_REMAP_SENDERS);
}
END_TEST

START_TEST(links)
{
    compare(ZEP_REMAP_LINKS);
}
END_TEST

/* The least in whole tokens too: small cases against the program in whole numbers. */
static void compare_whole(enum zep_remap_objective objective, int one_leaf)
{
    int n = 0;

    glp_term_out(GLP_OFF);
    for (int i = 0; i < n_case / 5; i++) {
        struct remap_case c;
        int64_t surplus[CASE_MAX_DEV];
        double want;

        case_make(&c, seed0 + 500000 + (uint64_t)i);
        for (int k = 0; one_leaf && k < c.view->n_node; k++)
            c.view->node_leaf[k] = 0;
        if (c.n_dev <= 12) {
            case_remap(&c, objective);
            surpluses(&c, surplus);
            want = c.plan.n_move ? optimum(&c, surplus, objective, 1) : 0;
            if (want >= 0) {
                n++;
                ck_assert_msg(case_time(&c, objective) <= want * (1 + 1e-5), "seed %llu: %.9g s, the whole-number program has %.9g s", (unsigned long long)c.seed,
                              case_time(&c, objective), want);
            }
        }
        case_free(&c);
    }
    printf("%s: %d cases equal the program in whole numbers\n", objective == ZEP_REMAP_LINKS ? "links" : "senders, one leaf", n);
}

START_TEST(senders_whole)
{
    compare_whole(ZEP_REMAP_SENDERS, 1);
}
END_TEST

START_TEST(links_whole)
{
    compare_whole(ZEP_REMAP_LINKS, 0);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *s = suite_create("planner: remapping and linear programs");
    TCase *t = tcase_create("remap");
    SRunner *run;
    int failed;

    if (argc > 1)
        n_case = atoi(argv[1]);
    if (argc > 2)
        seed0 = strtoull(argv[2], NULL, 10);
    tcase_set_timeout(t, 600);
    tcase_add_test(t, senders);
    tcase_add_test(t, links);
    tcase_add_test(t, senders_whole);
    tcase_add_test(t, links_whole);
    suite_add_tcase(s, t);
    run = srunner_create(s);
    srunner_run_all(run, CK_NORMAL);
    failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#else

int main(void)
{
    puts("skipped: built without GLPK (Debian: libglpk-dev), nothing to compare with");
    return 77;
}

#endif
