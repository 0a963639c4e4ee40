/* traffic.c: the bytes that one nest for two clusters moves less than two, by the sizes' hints.
 *
 *     saved    what b reads of a's results, or of what a reads too; and a's stores of what nobody else needs
 *     again    what a reads, once more for each time that b comes to the same elements of a's results:
 *
 *     %0 = add(%p, %q)          f32[1048576]         alone: loads and a store of 4 MiB each, and one load of %0 a row
 *     %1 = mul(%x, %0)          f32[64,1048576]      as one nest: %p and %q are loaded for each of the 64 rows
 *
 * Only what lies further apart than a cache holds counts: a bias of 768 elements is read from there. So a column
 * (f32[64,1]) never does: its elements are repeated one after the other. */
#include "passes/lower.h"

enum { CPU_CACHE = 1 << 20, GPU_CACHE = 32 << 20 }; /* second level, of what the smallest of today's machines has */

typedef struct TwoClusters {
    const Lower *l;
    const Cluster *a, *b;
    const Node *node; /* of b, whose operands are looked at */
    int64_t a_reads;  /* bytes, from outside; -1: not known yet */
    int64_t saved;
    double again; /* may be more than an int64_t holds */
} TwoClusters;

static int64_t hint(const Lower *l, int64_t size) { return sym_hint(l->env, size); }

static int64_t bytes_of_base(const Lower *l, const ValInfo *info) {
    return meta_hint_bytes(l->env, info->val->base.meta);
}

static bool reads_base(const Lower *l, const Cluster *cluster, const ValInfo *base) {
    for (int u = 0; u < base->users.n; u++)
        if (l->cluster[base->users.at[u]] == cluster) return true;
    return false;
}

/* Do others than these two clusters read the value, or does the caller get it? */
static bool is_needed_elsewhere(const TwoClusters *t, const ValInfo *base) {
    for (int u = 0; u < base->users.n; u++) {
        const Cluster *const user = t->l->cluster[base->users.at[u]];
        if (user != t->a && user != t->b) return true;
    }
    return base->visible;
}

static bool is_of(const Lower *l, const Cluster *cluster, const ValInfo *base) {
    return base->val->def && l->cluster[base->val->def->id] == cluster;
}

static void add_operand(void *context, GVal **slot) {
    TwoClusters *const t = context;
    const ValInfo *const base = *slot ? val_info(t->l, val_info(t->l, *slot)->base) : NULL;
    if (base && !is_of(t->l, t->a, base)) t->a_reads += bytes_of_base(t->l, base);
}

static int64_t operands_of_a(TwoClusters *t) {
    if (t->a_reads >= 0) return t->a_reads;
    t->a_reads = 0;
    for (int i = 0; i < t->a->nodes.n; i++) node_each_input(t->a->nodes.at[i], add_operand, t);
    return t->a_reads;
}

/* How often each element of `v` is read over the space, where the readings of one are further apart than a cache holds
 * of what a reads meanwhile; else 1. The dims behind the first one along which v stays the same lie between them. */
static int64_t times_read(TwoClusters *t, const GVal *v, const Meta *space) {
    const Lower *const l = t->l;
    const Meta *const meta = v->base.meta;
    const int64_t *const strides = val_info(l, v)->strides;
    int64_t times = 1, between = 1, all = 1;
    for (int d = 0; d < space->rank; d++) {
        const int own = d - (space->rank - meta->rank);
        const int64_t size = hint(l, space->sizes[d]);
        const bool stays = own < 0 || hint(l, meta->sizes[own]) == 1 || !strides[own];
        if (stays) times *= size;
        if (!stays) all *= size;
        if (!stays && times > 1) between *= size;
    }
    const double share = times > 1 && all ? (double)between / (double)all : 0;
    const int64_t cache = device_is_host(meta->device) ? CPU_CACHE : GPU_CACHE;
    return share * (double)operands_of_a(t) > (double)cache ? times : 1;
}

/* A result of a, which b reads from memory or has by itself. */
static void add_result(TwoClusters *t, const ValInfo *base, const GVal *v) {
    const int64_t bytes = bytes_of_base(t->l, base);
    const Meta *const space = t->b->kind == VAL_reduction ? v->base.meta : t->node->outs[0].base.meta;
    t->saved += is_needed_elsewhere(t, base) ? bytes : 2 * bytes;
    if (t->a->kind != VAL_pointwise || t->b->kind == VAL_template) return;
    const int64_t more = operands_of_a(t) - bytes;
    if (more > 0) t->again += (double)(times_read(t, v, space) - 1) * (double)more;
}

/* Each base once: by the first node of b that reads it. */
static bool is_read_before(const TwoClusters *t, const ValInfo *base) {
    for (int u = 0; u < base->users.n; u++)
        if (t->l->cluster[base->users.at[u]] == t->b && base->users.at[u] < t->node->id) return true;
    return false;
}

static void look_at_operand(void *context, GVal **slot) {
    TwoClusters *const t = context;
    if (!*slot) return;
    const ValInfo *const base = val_info(t->l, val_info(t->l, *slot)->base);
    if (is_of(t->l, t->b, base) || is_read_before(t, base)) return;
    if (is_of(t->l, t->a, base))
        add_result(t, base, *slot);
    else if (reads_base(t->l, t->a, base))
        t->saved += bytes_of_base(t->l, base);
}

int64_t traffic_saved(const Lower *l, const Cluster *a, const Cluster *b) {
    TwoClusters t = {.l = l, .a = a, .b = b, .a_reads = -1};
    for (int i = 0; i < b->nodes.n; i++) {
        t.node = b->nodes.at[i];
        node_each_input(b->nodes.at[i], look_at_operand, &t);
    }
    return t.again < 0x1p62 ? t.saved - (int64_t)t.again : INT64_MIN / 2;
}
