/* plain.c: pointwise clusters that fit into one nest obviously: nobody has to write it to see.
 *
 * A cluster is plain if every node computes elements of the same sizes, each from elements of its operands at the
 * same place (broadcasts from outside included) and from nothing else: the nest is then one pass over those sizes,
 * a value of the cluster is computed once, and all that can go wrong is that the positions of one cluster's
 * operands are affine only where the nest's dims are cut differently than the other's. So two plain clusters of the
 * same sizes fit if their nests have the same dims, or one has a single dim (contiguous operands and single
 * elements: affine in any), and if what one reads of the other is read as it is, not through a view. Everything
 * else is left to a trial (schedule.c).
 *
 * What a node is by itself is found by a trial of it alone, once. */
#include "passes/lower.h"

enum { MOST_READS = 64 };

struct Plain {
    const Meta *space; /* the sizes */
    int n_vars;        /* of its nest */
    int64_t extent[MAX_LOOP_DIMS];
    VEC(const GVal *) reads;  /* values from outside, each once */
    VEC(const GVal *) stores; /* own values that must be in memory */
    int n_bases;              /* memory that is read: values without views */
};

int plain_bufs(const Plain *plain) { return plain->n_bases + plain->stores.n; }

static bool is_draft_buf(const Draft *draft, const GVal *base) {
    for (int i = 0; i < draft->bufs.n; i++)
        if (draft->homes.at[i] == base) return draft->bufs.at[i].role != BUF_out;
    return false;
}

/* Once; counts memory that no earlier one lies in. */
static void add_plain_read(const Lower *l, Arena *arena, Plain *plain, const GVal *v) {
    const GVal *const base = val_info(l, v)->base;
    bool new_base = true;
    for (int i = 0; i < plain->reads.n; i++) {
        if (plain->reads.at[i] == v) return;
        new_base &= val_info(l, plain->reads.at[i])->base != base;
    }
    VEC_PUSH(arena, &plain->reads, v);
    plain->n_bases += new_base;
}

static void set_dims(Plain *plain, int n_vars, const int64_t *extent) {
    plain->n_vars = n_vars;
    memcpy(plain->extent, extent, sizeof plain->extent);
}

const Plain *plain_of(Lower *l, const Cluster *cluster, const Draft *draft, const NestCost *cost) {
    Node *const node = cluster->nodes.at[0];
    if (cluster->nodes.n > 1 || cluster->kind != VAL_pointwise || cost->elsewhere || node->row->flags & OPF_may_fail)
        return NULL;
    Plain *const plain = ARENA_NEW(l->arena, Plain);
    plain->space = node->outs[0].base.meta;
    set_dims(plain, cost->n_vars, cost->extent);
    for (int r = 0; r < node->n_outs; r++) {
        if (!meta_same_sizes(plain->space, node->outs[r].base.meta)) return NULL;
        if (needs_memory(l, cluster, &node->outs[r])) VEC_PUSH(l->arena, &plain->stores, &node->outs[r]);
    }
    for (int i = 0; i < node->n_args; i++) {
        const Arg *const a = &node->args[i];
        if (a->kind == ARG_tensors) return NULL;
        if (a->kind != ARG_tensor || !a->val) continue;
        const GVal *const v = gval(a->val);
        if (is_draft_buf(draft, val_info(l, v)->base)) add_plain_read(l, l->arena, plain, v);
    }
    return plain->stores.n ? plain : NULL;
}

/* What `one` reads from outside of both; false: of the other it reads something through a view. */
static bool join_reads(Lower *l, const Cluster *both, Plain *plain, const Plain *one) {
    for (int i = 0; i < one->reads.n; i++) {
        const GVal *const v = one->reads.at[i], *const base = val_info(l, v)->base;
        if (!cluster_has(l, both, base))
            add_plain_read(l, l->arena, plain, v);
        else if (v != base)
            return false;
    }
    return plain->reads.n <= MOST_READS;
}

static void join_stores(Lower *l, const Cluster *both, Plain *plain, const Plain *one) {
    for (int i = 0; i < one->stores.n; i++)
        if (needs_memory(l, both, one->stores.at[i])) VEC_PUSH(l->arena, &plain->stores, one->stores.at[i]);
}

static Plain *joined(Lower *l, const Cluster *both, const Plain *a, const Plain *b) {
    if (!a || !b || !meta_same_sizes(a->space, b->space)) return NULL;
    Plain *const plain = ARENA_NEW(l->arena, Plain);
    plain->space = a->space;
    if (!join_reads(l, both, plain, a) || !join_reads(l, both, plain, b)) return NULL;
    join_stores(l, both, plain, a);
    join_stores(l, both, plain, b);
    return plain->stores.n ? plain : NULL;
}

static bool same_dims(const Plain *a, const Plain *b) {
    return a->n_vars == b->n_vars && !memcmp(a->extent, b->extent, sizeof(int64_t) * (size_t)a->n_vars);
}

const Plain *plain_both(Lower *l, const Cluster *both, const Plain *a, const Plain *b) {
    if (!a || !b || (a->n_vars > 1 && b->n_vars > 1 && !same_dims(a, b))) return NULL;
    Plain *const plain = joined(l, both, a, b);
    const Plain *const cut = a->n_vars > b->n_vars ? a : b;
    if (plain) set_dims(plain, cut->n_vars, cut->extent);
    return plain;
}

const Plain *plain_tried(Lower *l, const Cluster *both, const Plain *a, const Plain *b, const NestCost *cost) {
    Plain *const plain = joined(l, both, a, b);
    if (plain) set_dims(plain, cost->n_vars, cost->extent);
    return plain;
}
