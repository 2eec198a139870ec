/* How long devices take: times of a sequence on a block, what a device's sequences add up to, and the tournaments over nodes. */
#include "config.h"
#include "planner/place.h"

#include <float.h>
#include <string.h>

static double max2(double a, double b)
{
    return a > b ? a : b;
}

int zep_place_end_node(const struct zep_place *z, int k, int dev0)
{
    return k == z->n_level - 1 ? z->view->n_node : z->view->dev_node[dev0] + z->level[k].n_node;
}

/* Devices that a block over nodes uses in each of them. */
static int per_node(const struct zep_place *z, int node, int end)
{
    int least = z->per_node;

    for (int i = node; i < end && !z->per_node; i++) {
        int n = z->view->node_dev0[i + 1] - z->view->node_dev0[i];

        least = !least || n < least ? n : least;
    }
    return least;
}

int zep_place_size(const struct zep_place *z, int k, int dev0)
{
    int node = z->view->dev_node[dev0];

    if (z->per_node || k < z->n_inside || k == z->n_level - 1)
        return z->level[k].size;
    return z->level[k].n_node * per_node(z, node, node + z->level[k].n_node);
}

double zep_place_net_bw(const struct zep_place *z, int k, int dev0)
{
    int node0 = z->view->dev_node[dev0], end = zep_place_end_node(z, k, dev0);
    double least = z->node_bw[node0];

    for (int i = node0 + 1; i < end && !z->alike; i++)
        least = z->node_bw[i] < least ? z->node_bw[i] : least;
    return least;
}

static int n_node_of(const struct zep_place *z, int k)
{
    return k == z->n_level - 1 ? z->view->n_node : z->level[k].n_node;
}

/* One pass's exchange: queries, keys and values one way and outputs the other (backward their gradients), all but the own part: over the port what stays in the node, over its NICs what does not,
 * at once; each packed on its way. */
static double exchange_s(const struct zep_place *z, double rows, int in_node, double net_bw, int heads)
{
    const struct zep_cost *c = z->g.cost;
    int inside = heads < in_node ? heads : in_node;
    double part = rows * (2 * c->q_row + c->kv_row) / heads, port = part * (inside - 1) / z->port_bw, net = heads > inside ? part * (heads - inside) * in_node / net_bw : 0;

    return max2(port, net) + (c->mem_bw > 0 ? 2 * part * (heads - 1) / c->mem_bw : 0) + 2 * z->view->dev_latency_s + 4 * c->launch_s;
}

void zep_place_times(const struct zep_place *z, int64_t len, int size, int n_node, double net_bw, int heads, struct zep_times *t)
{
    const struct zep_cost *c = z->g.cost;
    double pass_s[2] = {c->attn_fwd_s / heads, c->attn_bwd_s / heads}, n = (double)len, own, other, block = n / size;
    int ring = size / heads; /* groups; each member has its share of the heads of all tokens of its group */
    double chunk = n / (2.0 * ring);

    memset(t, 0, sizeof *t);
    if (size == 1) {
        own = zep_cost_tri(c, n);
        t->attn[0] = own * pass_s[0];
        t->attn[1] = own * pass_s[1];
        return;
    }
    own = 2 * zep_cost_tri(c, chunk) + zep_cost_rect(c, chunk, chunk);
    other = zep_cost_rect(c, 2 * chunk, chunk);
    for (int p = 0; p < 2; p++) {
        t->step[p] = ring > n_node ? other * pass_s[p] : 0;
        t->attn[p] = (own + (ring - 1) * other) * pass_s[p];
        t->turn[p] = ring > 1 ? t->attn[p] / n_node : 0;
    }
    t->attn[1] += c->mem_bw > 0 && ring > 1 ? 3 * n / heads * c->dkv_row / c->mem_bw : 0; /* the additions of gradients */
    if (ring > n_node && z->port_bw > 0) {
        double hop = block * c->kv_row / z->port_bw, back = block * c->dkv_row / z->port_bw;

        t->port[0] = (ring - n_node) * (hop + z->view->dev_latency_s);
        t->port[1] = (ring - n_node) * (hop + back + z->view->dev_latency_s) + (n_node > 1 ? 2 * (back + z->view->dev_latency_s) : 0); /* twice straight home (sched.h) */
        if (n_node == 1) {
            t->tail[0] = max2(hop - own * pass_s[0], 0);
            t->tail[1] = hop + max2(back - own * pass_s[1], 0);
        }
    }
    if (n_node > 1 && ring > 1 && net_bw > 0) {
        double there = n / n_node * c->kv_row / net_bw, home = n / n_node * c->dkv_row / net_bw, per = (double)ring / n_node;
        double turn[2] = {max2(t->turn[0], t->port[0] / n_node), max2(t->turn[1], t->port[1] / n_node)}; /* the own node's */
        double early = turn[1] * (int)((per + 1) / 3) / per, late = turn[1] - early; /* backward, so many places of it come first (sched.h) */

        t->nic[0] = there * (n_node - 1);
        t->nic[1] = (there + home) * (n_node - 1);
        t->tail[0] = max2(there - turn[0], 0);
        t->tail[1] = max2(there - early, 0) + max2(home - late, 0);
    }
    for (int p = 0; p < 2 && heads > 1; p++)
        t->attn[p] += exchange_s(z, block, size / n_node, net_bw, heads);
}

double zep_place_each(const struct zep_place *z, int seq, int k)
{
    struct zep_times t;

    zep_place_times(z, z->g.len[seq], z->level[k].size, n_node_of(z, k), z->level[k].net_bw, z->level[k].heads, &t);
    return t.attn[0] + t.attn[1] + (double)z->g.len[seq] / z->level[k].size * z->token_s;
}

/* --- a device --- */

#define WAITS 0.1 /* of the lesser of computing and transfers is not hidden where both are alike */

static double overlap(double a, double b)
{
    double most = a > b ? a : b, least = a > b ? b : a, q = most > 0 ? least / most : 0;

    return most + WAITS * least * q * q * q;
}

/* How long attention takes, both passes: its computing and what of its transfers that does not hide, or its port, or its node's NICs, if these are slower. */
static double attention(const struct zep_place *z, const struct zep_load *l, const struct zep_place_node *node)
{
    double sum = 0;

    for (int p = 0; p < 2; p++) {
        double rest = l->t.attn[p] - l->over[p], s = l->t.attn[p] + max2(l->t.tail[p] - rest, 0);

        if (!z->same_speed)
            s = max2(s, l->pace[p]);
        if (l->t.port[p] > 0)
            s = overlap(s, l->t.port[p] + l->t.step[p]);
        if (l->over[p] > 0)
            s = overlap(s, node->nic[p] + (p ? 0.5 : 1) * l->t.turn[p]); /* backward, a part of the own turn comes first */
        sum += max2(s, 0); /* sums that come and go leave a rest of rounding */
    }
    return sum;
}

double zep_place_alone(const struct zep_place *z, int seq, int k)
{
    int n_node = n_node_of(z, k), steps = z->level[k].size / z->level[k].heads;
    struct zep_place_node node;
    struct zep_load l;

    memset(&node, 0, sizeof node);
    memset(&l, 0, sizeof l);
    zep_place_times(z, z->g.len[seq], z->level[k].size, n_node, z->level[k].net_bw, z->level[k].heads, &l.t);
    for (int p = 0; p < 2; p++) {
        l.pace[p] = l.t.attn[p];
        l.over[p] = n_node > 1 ? l.t.attn[p] : 0;
        node.nic[p] = l.t.nic[p];
    }
    return attention(z, &l, &node) + 3 * steps * z->g.cost->launch_s;
}

/* Of a node whose tokens move for linear modules: to equal shares in the node, or over all devices. Attention begins when those who send tokens are done with their linear modules: to give some devices
 * fewer than others would gain nothing. */
static void level(struct zep_place *z, int i)
{
    const struct zep_cost *c = z->g.cost;
    int first = z->view->node_dev0[i], end = z->view->node_dev0[i + 1];
    double row = 4 * c->q_row + c->kv_row + c->dkv_row, sum = 0, speed = 0, most = 0, even, shift = 0, copy; /* q, k, v and o, their gradients */

    for (int d = first; d < end; d++) {
        sum += z->dev[d].linear;
        speed += zep_view_speed(z->view, d);
    }
    even = z->move == ZEP_MOVE_NODE ? sum / speed : z->linear_s;
    for (int d = first; d < end; d++) {
        double part = even * zep_view_speed(z->view, d);

        most = max2(most, z->dev[d].linear > part ? z->dev[d].linear - part : part - z->dev[d].linear);
    }
    if (z->port_bw > 0)
        shift = most / z->token_s * row / z->port_bw;
    if (z->move == ZEP_MOVE_ALL && z->node_bw[i] > 0) {
        double away = sum > speed * even ? sum - speed * even : speed * even - sum;

        shift = max2(shift, away / z->token_s * row / z->node_bw[i]);
    }
    copy = 4 * c->launch_s + (c->mem_bw > 0 ? 2 * even / z->token_s * row / c->mem_bw : 0);
    for (int d = first; d < end; d++)
        z->done_s[d] = even + z->attn_s[d] + shift + copy;
}

/* --- tournaments --- */

static void look(const struct zep_place *z, int d0, int size, double *busy, int64_t *tok)
{
    *busy = 0;
    *tok = 0;
    for (int d = d0; d < d0 + size; d++) {
        *busy = max2(*busy, z->done_s[d]);
        *tok = z->dev[d].tok > *tok ? z->dev[d].tok : *tok;
    }
}

static void lift(const struct zep_place *z, int k, int node)
{
    struct zep_tree *t = &z->least[k];
    int first = z->view->node_dev0[node], end = z->view->node_dev0[node + 1], size = z->level[k].size;
    double least = DBL_MAX;
    int64_t room = INT64_MAX;

    for (int d0 = first; d0 + size <= end; d0 += size) {
        double busy;
        int64_t tok;

        look(z, d0, size, &busy, &tok);
        least = busy < least ? busy : least;
        room = tok < room ? tok : room;
    }
    t->busy[z->width + node] = least;
    t->tok[z->width + node] = room;
    for (int i = (z->width + node) / 2; i > 0; i /= 2) {
        double a = t->busy[2 * i], b = t->busy[2 * i + 1];
        int64_t x = t->tok[2 * i], y = t->tok[2 * i + 1];

        a = a < b ? a : b;
        x = x < y ? x : y;
        if (t->busy[i] == a && t->tok[i] == x)
            break;
        t->busy[i] = a;
        t->tok[i] = x;
    }
}

static void update(struct zep_place *z, int i)
{
    struct zep_place_node *node = &z->node[i];
    int first = z->view->node_dev0[i], end = z->view->node_dev0[i + 1];

    for (int d = first; d < end; d++) {
        z->attn_s[d] = attention(z, &z->dev[d], node);
        z->done_s[d] = z->attn_s[d] + max2(z->dev[d].linear, 0) / zep_view_speed(z->view, d);
    }
    if (z->move != ZEP_MOVE_NONE)
        level(z, i);
    *node = (struct zep_place_node){.nic = {node->nic[0], node->nic[1]}, .slowest = first, .done_s = -1};
    for (int d = first; d < end; d++) {
        node->squares += z->done_s[d] * z->done_s[d];
        node->most_tok = z->dev[d].tok > node->most_tok ? z->dev[d].tok : node->most_tok;
        if (z->done_s[d] > node->done_s) {
            node->done_s = z->done_s[d];
            node->slowest = d;
        }
    }
    for (int k = 0; k < z->n_inside; k++)
        lift(z, k, i);
    z->most[z->width + i] = node->done_s;
    for (int at = (z->width + i) / 2; at > 0; at /= 2)
        z->most[at] = max2(z->most[2 * at], z->most[2 * at + 1]);
    z->work++;
}

void zep_place_clear(struct zep_place *z)
{
    memset(z->dev, 0, (size_t)z->view->n_dev * sizeof *z->dev);
    for (int d = 0; d < z->view->n_dev && z->opts->dev_capacity; d++) /* what a device does not hold counts as full */
        z->dev[d].tok = z->g.cap - zep_opts_capacity(z->opts, d);
    memset(z->node, 0, (size_t)z->view->n_node * sizeof *z->node);
    memset(z->head, 0, (size_t)z->n_level * (size_t)z->view->n_dev * sizeof *z->head);
    for (int i = 0; i < z->view->n_node; i++)
        update(z, i);
}

/* --- sequences come and go --- */

/* The slowest device's of a block. */
static double speed_of(const struct zep_place *z, int k, int dev0)
{
    int end = k < z->n_inside ? dev0 + z->level[k].size : z->view->node_dev0[zep_place_end_node(z, k, dev0)];
    double least = zep_view_speed(z->view, dev0);

    for (int d = dev0 + 1; d < end && !z->same_speed; d++)
        least = zep_view_speed(z->view, d) < least ? zep_view_speed(z->view, d) : least;
    return least;
}

static void account(struct zep_place *z, int seq, int k, int dev0, int sign)
{
    const struct zep_view *v = z->view;
    const struct zep_cost *c = z->g.cost;
    int size = zep_place_size(z, k, dev0), node0 = v->dev_node[dev0], end = zep_place_end_node(z, k, dev0), n_node = end - node0;
    int per = n_node > 1 && k < z->n_level - 1 ? size / n_node : 0; /* 0: all of each node's */
    int64_t len = z->g.len[seq], share = len / size + (len % size != 0);
    double linear = (double)len / size * z->token_s, slowest = speed_of(z, k, dev0), net_bw;
    struct zep_times t;

    net_bw = n_node > 1 ? zep_place_net_bw(z, k, dev0) : 0;
    zep_place_times(z, len, size, n_node, net_bw, z->level[k].heads, &t);
    if (size > 1 && !z->head[(size_t)k * (size_t)v->n_dev + (size_t)dev0]) { /* the ring itself: a launch a step, and for each addition */
        int steps = size / z->level[k].heads;

        t.attn[0] += steps * c->launch_s;
        t.attn[1] += 2 * steps * c->launch_s;
    }
    for (int i = node0; i < end; i++) {
        int first = n_node > 1 ? v->node_dev0[i] : dev0, last = n_node == 1 ? dev0 + size : per ? first + per : v->node_dev0[i + 1];

        for (int d = first; d < last; d++) {
            struct zep_load *l = &z->dev[d];
            double own = z->same_speed ? slowest : zep_view_speed(v, d);

            for (int p = 0; p < 2; p++) {
                l->t.attn[p] += sign * t.attn[p] / own;
                l->over[p] += n_node > 1 ? sign * t.attn[p] / own : 0;
                l->pace[p] += size > 1 ? sign * t.attn[p] / slowest : 0;
                l->t.step[p] += sign * t.step[p] / slowest;
                l->t.port[p] += sign * t.port[p];
                l->t.tail[p] += sign * t.tail[p];
                l->t.turn[p] += n_node > 1 ? sign * t.turn[p] / slowest : 0;
            }
            l->local += size == 1 ? sign * (t.attn[0] + t.attn[1]) / own : 0;
            l->linear += sign * linear;
            l->tok += sign * share;
        }
        for (int p = 0; p < 2 && n_node > 1 && z->node_bw[i] > 0; p++)
            z->node[i].nic[p] += sign * t.nic[p] * (net_bw / z->node_bw[i]);
        update(z, i);
    }
}

void zep_place_add(struct zep_place *z, int seq, int k, int dev0)
{
    int32_t *head = &z->head[(size_t)k * (size_t)z->view->n_dev + (size_t)dev0];

    account(z, seq, k, dev0, 1);
    z->job[seq] = (struct zep_job){dev0, k};
    z->next[seq] = *head;
    z->prev[seq] = 0;
    if (*head)
        z->prev[*head - 1] = seq + 1;
    *head = seq + 1;
}

void zep_place_remove(struct zep_place *z, int seq)
{
    struct zep_job j = z->job[seq];
    int32_t *head = &z->head[(size_t)j.k * (size_t)z->view->n_dev + (size_t)j.dev0];

    *(z->prev[seq] ? &z->next[z->prev[seq] - 1] : head) = z->next[seq];
    if (z->next[seq])
        z->prev[z->next[seq] - 1] = z->prev[seq];
    account(z, seq, j.k, j.dev0, -1);
}

double zep_place_slowest(const struct zep_place *z, int *dev_out)
{
    int i = 1;

    while (i < z->width)
        i = z->most[2 * i] >= z->most[2 * i + 1] ? 2 * i : 2 * i + 1;
    *dev_out = z->node[i - z->width].slowest;
    return z->most[1];
}

/* --- the least busy block --- */

struct search {
    const struct zep_place *z;
    int k;
    int64_t len, room; /* of the sequence; what a device may hold already */
    double each_s, best;
    int dev0;
};

static void search_inside(struct search *s, int at)
{
    const struct zep_place *z = s->z;
    const struct zep_tree *t = &z->least[s->k];
    int right, size = z->level[s->k].size;

    if (t->tok[at] > s->room || (s->best >= 0 && t->busy[at] + s->each_s / z->fastest >= s->best))
        return;
    if (at < z->width) {
        right = t->busy[2 * at + 1] < t->busy[2 * at];
        search_inside(s, 2 * at + right);
        search_inside(s, 2 * at + !right);
        return;
    }
    for (int d0 = z->view->node_dev0[at - z->width]; d0 + size <= z->view->node_dev0[at - z->width + 1]; d0 += size) {
        double busy;
        int64_t tok;

        look(z, d0, size, &busy, &tok);
        busy += s->each_s / speed_of(z, s->k, d0);
        if (tok > s->room || (s->best >= 0 && busy >= s->best))
            continue;
        s->best = busy;
        s->dev0 = d0;
    }
}

/* What the sequence takes on a block at speed 1, where blocks of a level differ: computing, or the crossings that it waits for. */
static double each_on(const struct search *s, int dev0)
{
    const struct zep_place *z = s->z;
    int size = zep_place_size(z, s->k, dev0);
    struct zep_times t;
    double sum = 0;

    zep_place_times(z, s->len, size, n_node_of(z, s->k), zep_place_net_bw(z, s->k, dev0), z->level[s->k].heads, &t);
    for (int p = 0; p < 2; p++)
        sum += max2(t.attn[p] + t.tail[p], t.nic[p]);
    return sum + (double)s->len / size * z->token_s;
}

/* Blocks over nodes begin at multiples of their number; the last one ends with the last node. */
static void search_over(struct search *s)
{
    const struct zep_place *z = s->z;
    int m = n_node_of(z, s->k), n_node = z->view->n_node;

    for (int node0 = 0; node0 < n_node; node0 += m) {
        int first = node0 + m > n_node ? n_node - m : node0, dev0 = z->view->node_dev0[first];
        double busy = 0;
        int64_t tok = 0;

        if (!z->per_node) { /* blocks differ */
            int size = zep_place_size(z, s->k, dev0);

            s->room = z->g.cap - (s->len / size + (s->len % size != 0));
        }
        for (int i = first; i < first + m; i++) {
            busy = max2(busy, z->node[i].done_s);
            tok = z->node[i].most_tok > tok ? z->node[i].most_tok : tok;
        }
        busy += (z->alike ? s->each_s : each_on(s, dev0)) / speed_of(z, s->k, dev0);
        if (tok > s->room || (s->best >= 0 && busy >= s->best))
            continue;
        s->best = busy;
        s->dev0 = dev0;
    }
}

double zep_place_best(struct zep_place *z, int seq, int k, double each_s, int *dev0_out)
{
    int64_t len = z->g.len[seq], size = z->level[k].size;
    struct search s = {z, k, len, z->g.cap - (len / size + (len % size != 0)), each_s, -1, 0};

    if (k < z->n_inside) {
        search_inside(&s, 1);
        z->work++;
    } else {
        search_over(&s);
        z->work += 1 + z->view->n_node / 16;
    }
    *dev0_out = s.dev0;
    return s.best;
}

/* --- rings wait for each other --- */

#define JUDGE_ROUNDS 6

/* When each device is done with linear modules. */
static void set_begin(const struct zep_place *z, double *begin)
{
    const struct zep_view *v = z->view;

    for (int i = 0; i < v->n_node; i++) {
        double sum = 0, speed = 0;

        for (int d = v->node_dev0[i]; d < v->node_dev0[i + 1]; d++) {
            sum += z->dev[d].linear;
            speed += zep_view_speed(v, d);
            begin[d] = z->move == ZEP_MOVE_ALL ? z->linear_s : z->dev[d].linear / zep_view_speed(v, d);
        }
        for (int d = v->node_dev0[i]; d < v->node_dev0[i + 1] && z->move == ZEP_MOVE_NODE; d++)
            begin[d] = sum / speed;
    }
}

/* The devices of a job's block begin together: 1 some begin later than before. */
static int together(const struct zep_place *z, struct zep_job j, double *begin)
{
    int end = j.k < z->n_inside ? j.dev0 + z->level[j.k].size : z->view->node_dev0[zep_place_end_node(z, j.k, j.dev0)], later = 0;
    double last = 0;

    for (int d = j.dev0; d < end; d++)
        last = max2(last, begin[d]);
    for (int d = j.dev0; d < end; d++) {
        later |= begin[d] < last * (1 - 1e-6);
        begin[d] = last;
    }
    return later;
}

double zep_place_judge(const struct zep_place *z, double *scratch)
{
    double *begin = scratch, *ready = scratch + z->view->n_dev, most = 0;

    set_begin(z, ready);
    memcpy(begin, ready, (size_t)z->view->n_dev * sizeof *begin);
    for (int round = 0, later = 1; round < JUDGE_ROUNDS && later; round++) {
        later = 0;
        for (int i = 0; i < z->g.n_seq; i++) {
            int seq = z->g.sorted[i];

            if (z->job[seq].k && !z->prev[seq]) /* a block's first sequence stands for all */
                later |= together(z, z->job[seq], begin);
        }
    }
    for (int d = 0; d < z->view->n_dev; d++) {
        double wait = begin[d] - ready[d];

        most = max2(most, z->done_s[d] + max2(wait - z->dev[d].local, 0));
    }
    return most;
}
