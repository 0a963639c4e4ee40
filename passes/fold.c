/* fold.c: peepholes, one walk in program order. Every rule keeps bits, dtype, sizes
 * and strides:
 *
 *   P1 view chains   a view that shows the same memory (offset, sizes, strides) as a value it views:
 *                    that value. So transposes of transposes, views and expands to the same sizes go.
 *   P2 view of view  view(view(x, a), b) of a contiguous x: view(x, b).
 *   P3 copies        clone, _to_copy, copy, restride that change neither dtype nor layout: their
 *                    source. Outputs get their own memory back by own_outputs.
 *   P4 neutral       x * 1, x / 1, x - 0 in x's dtype and layout: x. A NaN stays a NaN, -0 stays -0
 *                    [semantics B1]. Not x + 0 nor x - -0 (-0 + 0 is +0), not x * 0 (NaN, -0).
 *   P5 scattered     a view of sn::view_scatter at the same place, of src's layout: src.
 *   P6 into zeros    slice_scatter (step 1) and select_scatter into a full of 0: a constant_pad_nd, which reads none;
 *                    the zeros of all gradients of slices are one value, that would be alive all the time.
 *
 * Views must not be cut before differentiation (detach is one): the pass takes joint graphs. */
#include "passes/internal.h"
#include "ir/op_ids.h"
#include "runtime/base/error.h"

#include <math.h>

PassFn pass_fold;

typedef struct Fold {
    Graph *graph;
    GVal **table; /* by value id: what stands for it */
} Fold;

/* views --------------------------------------------------------------------------------------- */

static GVal *fold_view_chain(Fold *fold, Node *node) {
    const GVal *const out = &node->outs[0], *value = out;
    int64_t offset = 0; /* from what is viewed to the result */
    for (GVal *viewed; (viewed = value_viewed(value)); value = viewed) {
        offset = sym_add(fold->graph->env, offset, value->offset);
        if (offset == 0 && meta_equal(viewed->base.meta, out->base.meta)) return viewed;
    }
    return NULL;
}

static bool is_reshape(const Node *node) { return node->form == FORM_functional && node->row->flags & OPF_reshape; }

/* The inner view's source takes its place; the node stays. A size of -1 follows from the count of elements, which a
 * guard may know as a number in the one and as a symbol in the other. */
static GVal *fold_view_of_view(Fold *fold, Node *node) {
    if (!is_reshape(node)) return NULL;
    const GVal *const inner = gval(node->args[0].val);
    if (!inner->def || !is_reshape(inner->def)) return NULL;
    Val *const source = inner->def->args[0].val;
    if (!source->meta->contiguous || !node->outs[0].base.meta->contiguous) return NULL;
    if (source->meta->numel != inner->base.meta->numel) return NULL;
    node->args[0] = A_VAL(source);
    return NULL;
}

static GVal *fold_scattered(Fold *fold, Node *node) {
    const GVal *const out = node->outs, *const base = value_viewed(out);
    if (!base || !base->def || !(base->def->row->flags & OPF_puts)) return NULL;
    const Arg *const args = base->def->args;
    const bool same_place = out->offset == args[4].i && args[2].n == out->base.meta->rank &&
                            !memcmp(args[2].ints, out->base.meta->sizes, sizeof(int64_t) * (size_t)args[2].n) &&
                            !memcmp(args[3].ints, out->base.meta->strides, sizeof(int64_t) * (size_t)args[3].n);
    return same_place && meta_equal(args[1].val->meta, out->base.meta) ? gval(args[1].val) : NULL;
}

/* copies and neutral numbers ------------------------------------------------------------------ */

static GVal *fold_copy(Fold *fold, Node *node) {
    if (!(node->row->flags & OPF_copy)) return NULL;
    int last = node->row->n_params - 1;
    while (last > 0 && node->row->params[last].type != PT_tensor) last--;
    if (node->args[last].kind != ARG_tensor) return NULL;
    GVal *const source = gval(node->args[last].val);
    return meta_equal(source->base.meta, node->outs[0].base.meta) ? source : NULL;
}

/* No rounding mode, and no alpha: a negative one turns x - 0 into x + 0, an infinite one into NaN. */
static bool plain(const Arg *arg) {
    return arg->kind == ARG_none || (arg_is_number(arg) && arg->kind != ARG_runtime && arg_double(arg) == 1);
}

static GVal *fold_neutral(Fold *fold, Node *node) {
    if (!node->row->neutral || node->n_args < 2 || node->args[0].kind != ARG_tensor) return NULL;
    const Arg *const other = &node->args[1];
    const double number = node->row->neutral == NEUTRAL_one;
    if (!arg_is_number(other) || other->kind == ARG_runtime || arg_double(other) != number ||
        signbit(arg_double(other)))
        return NULL;
    if (node->n_args > 2 && !plain(&node->args[2])) return NULL;
    GVal *const source = gval(node->args[0].val);
    return meta_equal(source->base.meta, node->outs[0].base.meta) ? source : NULL;
}

/* into zeros ---------------------------------------------------------------------------------- */

typedef enum ZerosRole { ZEROS_none, ZEROS_made, ZEROS_slice, ZEROS_select } ZerosRole;
static const uint8_t zeros_roles[OP_IDS] = {
    [OP_full] = ZEROS_made, [OP_slice_scatter] = ZEROS_slice, [OP_select_scatter] = ZEROS_select};

static ZerosRole zeros_role(const Node *node) { return !op_is_made(node->row) ? zeros_roles[node->row->id] : 0; }

static bool is_zeros(const GVal *value) {
    if (!value->def || zeros_role(value->def) != ZEROS_made) return false;
    const Arg *const fill = &value->def->args[1];
    return arg_is_number(fill) && fill->kind != ARG_runtime && arg_double(fill) == 0 && !signbit(arg_double(fill));
}

/* Where `src` begins and how many are behind it; neither is a cut, or not known. */
static bool fold_pads(Fold *fold, const Node *node, int dim, const Meta *src, int64_t *before, int64_t *after) {
    SymEnv *const env = fold->graph->env;
    const int64_t size = node->outs[0].base.meta->sizes[dim], at = node->args[3].i;
    const bool selects = zeros_role(node) == ZEROS_select;
    if (!selects && node->args[5].kind == ARG_int && node->args[5].i != 1) return false;
    if (!selects)
        *before = slice_position(env, &node->args[3], 0, size);
    else
        *before = sym_less(env, at, 0) ? sym_add(env, size, at) : at;
    *after = sym_sub(env, size, sym_add(env, *before, selects ? 1 : src->sizes[dim]));
    return sym_least(env, *before) >= 0 && sym_least(env, *after) >= 0;
}

/* New values have number 0, for which nothing stands: that of an input, or of an op without operands. */
static GVal *fold_into_zeros(Fold *fold, Node *node) {
    const ZerosRole role = zeros_role(node);
    if (role < ZEROS_slice || !is_zeros(gval(node->args[0].val))) return NULL;
    Builder *const b = &fold->graph->builder;
    const Meta *const meta = node->outs[0].base.meta;
    int64_t pads[2 * MAX_RANK] = {0};
    const int dim = (int)dim_wrap(node->args[2].i, meta->rank), last = meta->rank - 1 - dim;
    Val *src = node->args[1].val;
    if (src->meta->dtype != meta->dtype) return NULL;
    if (!fold_pads(fold, node, dim, src->meta, &pads[2 * last], &pads[2 * last + 1])) return NULL;
    const NewNodes saved = nodes_like(fold->graph, node, node);
    if (role == ZEROS_select) src = E(b, unsqueeze, A_VAL(src), A_INT(dim));
    Val *const padded = E(b, constant_pad_nd, A_VAL(src), A_INTS(pads, 2 * (last + 1)), A_INT(0));
    nodes_restore(fold->graph, saved);
    return padded && meta_equal(padded->meta, meta) ? gval(padded) : NULL;
}

typedef GVal *Peephole(Fold *fold, Node *node); /* what stands for the node's one result, or NULL */
static Peephole *const peepholes[] = {fold_view_chain, fold_view_of_view, fold_scattered,
                                      fold_copy,       fold_neutral,      fold_into_zeros};

static bool fold_node(Fold *fold, Node *node) {
    for (int i = 0; i < COUNT_OF(peepholes); i++) {
        GVal *const value = peepholes[i](fold, node);
        if (!value) continue;
        fold->table[node->outs[0].id] = value;
        return true;
    }
    return false;
}

bool pass_fold(Graph *graph, const PassOptions *options) {
    graph_number(graph);
    Arena *const arena = graph->arena;
    Fold fold = {.graph = graph, .table = ARENA_ARRAY(arena, GVal *, graph->n_vals + 1)};
    if (!fold.table) return false;
    bool changed = false;
    for (Node *node = graph->first, *next; node && error_pending() == ST_OK; node = next) {
        next = node->next;
        replace_uses(graph, node, fold.table);
        if (node->form == FORM_functional && node->n_outs == 1 && fold_node(&fold, node)) changed = true;
    }
    if (!changed) return false;
    replace_ends(graph, fold.table);
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        const GVal *const by = node->n_outs == 1 ? fold.table[node->outs[0].id] : NULL;
        if (by && node_is_pure(node)) graph_remove(graph, node);
    }
    own_outputs(graph);
    return true;
}
