/* fold.c: peepholes, one traversal in program order: rows of fold.def, which says what each rule is of and does.
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
    if (!base || !base->def || base->def->row->role != ROLE_puts) return NULL;
    const Arg *const args = base->def->args;
    const bool same_place = out->offset == args[4].i && args[2].n == out->base.meta->rank &&
                            !memcmp(args[2].ints, out->base.meta->sizes, sizeof(int64_t) * (size_t)args[2].n) &&
                            !memcmp(args[3].ints, out->base.meta->strides, sizeof(int64_t) * (size_t)args[3].n);
    return same_place && meta_equal(args[1].val->meta, out->base.meta) ? gval(args[1].val) : NULL;
}

/* copies and neutral numbers ------------------------------------------------------------------ */

static GVal *fold_copy(Fold *fold, Node *node) {
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
    const double number = node->row->neutral == NEUTRAL_one, other = arg_double(&node->args[1]);
    if (!node->row->neutral || other != number || signbit(other)) return NULL;
    if (node->n_args > 2 && !plain(&node->args[2])) return NULL;
    GVal *const source = gval(node->args[0].val);
    return meta_equal(source->base.meta, node->outs[0].base.meta) ? source : NULL;
}

/* into zeros ---------------------------------------------------------------------------------- */

/* Where `src` begins and how many are behind it; neither is a cut, or not known. */
static bool fold_pads(Fold *fold, const Node *node, int dim, bool selects, int64_t *before, int64_t *after) {
    SymEnv *const env = fold->graph->env;
    const int64_t size = node->outs[0].base.meta->sizes[dim], at = node->args[3].i;
    if (!selects && node->args[5].kind == ARG_int && node->args[5].i != 1) return false;
    if (!selects)
        *before = slice_position(env, &node->args[3], 0, size);
    else
        *before = sym_less(env, at, 0) ? sym_add(env, size, at) : at;
    *after = sym_sub(env, size, sym_add(env, *before, selects ? 1 : node->args[1].val->meta->sizes[dim]));
    return sym_least(env, *before) >= 0 && sym_least(env, *after) >= 0;
}

/* New values have number 0, for which nothing stands: that of an input, or of an op without operands. */
static GVal *into_zeros(Fold *fold, Node *node, bool selects) {
    Builder *const b = &fold->graph->builder;
    const Meta *const meta = node->outs[0].base.meta;
    int64_t pads[2 * MAX_RANK] = {0};
    const int dim = (int)dim_wrap(node->args[2].i, meta->rank), last = meta->rank - 1 - dim;
    Val *src = node->args[1].val;
    if (src->meta->dtype != meta->dtype) return NULL;
    if (!fold_pads(fold, node, dim, selects, &pads[2 * last], &pads[2 * last + 1])) return NULL;
    const NewNodes saved = nodes_like(fold->graph, node, node);
    if (selects) src = E(b, unsqueeze, A_VAL(src), A_INT(dim));
    Val *const padded = E(b, constant_pad_nd, A_VAL(src), A_INTS(pads, 2 * (last + 1)), A_INT(0));
    nodes_restore(fold->graph, saved);
    return padded && meta_equal(padded->meta, meta) ? gval(padded) : NULL;
}

static GVal *fold_slice_into_zeros(Fold *fold, Node *node) { return into_zeros(fold, node, false); }
static GVal *fold_select_into_zeros(Fold *fold, Node *node) { return into_zeros(fold, node, true); }

/* rows ---------------------------------------------------------------------------------------- */

typedef bool OperandFits(const Arg *arg);
static bool operand_any(const Arg *arg) { return true; }
static bool operand_tensor(const Arg *arg) { return arg && arg->kind == ARG_tensor && arg->val; }
static bool operand_number(const Arg *arg) { return arg && arg_is_number(arg) && arg->kind != ARG_runtime; }

enum { NO_FILL = -1 };
/* Which argument every element of its result is. */
static int fill_argument(const OpRow *row) {
    static const int8_t filled[OP_IDS] = {
#define FOLD(ops, first, second, rule)
#define FILLED(op, argument) [OP_##op] = (argument) + 1,
#include "passes/fold.def"
#undef FOLD
#undef FILLED
    };
    return op_is_made(row) ? NO_FILL : filled[row->id] - 1;
}

static bool operand_zeros(const Arg *arg) {
    const Node *const made = operand_tensor(arg) ? gval(arg->val)->def : NULL;
    const int fill = made ? fill_argument(made->row) : NO_FILL;
    if (fill == NO_FILL || !operand_number(&made->args[fill])) return false;
    const double number = arg_double(&made->args[fill]);
    return number == 0 && !signbit(number);
}

typedef struct FoldOps {
    uint32_t flags; /* any of them; 0: of any row */
    int op;         /* 1 + its id; 0: any */
} FoldOps;

typedef struct FoldRow {
    FoldOps ops;
    OperandFits *first, *second;
    GVal *(*rule)(Fold *fold, Node *node); /* what stands for the node's one result, or NULL */
} FoldRow;

#define ALL        .flags = 0
#define FLAG(name) .flags = OPF_##name
#define OP(name)   .op = OP_##name + 1
static const FoldRow fold_rows[] = {
#define FOLD(ops, first, second, rule) {{ops}, operand_##first, operand_##second, fold_##rule},
#define FILLED(op, argument)
#include "passes/fold.def"
#undef FOLD
#undef FILLED
};

static bool row_fits(const FoldRow *fold, const Node *node) {
    const OpRow *const row = node->row;
    if (fold->ops.flags && !(row->flags & fold->ops.flags)) return false;
    if (fold->ops.op && (op_is_made(row) || row->id != fold->ops.op - 1)) return false;
    return fold->first(node->n_args > 0 ? &node->args[0] : NULL) &&
           fold->second(node->n_args > 1 ? &node->args[1] : NULL);
}

static bool fold_node(Fold *fold, Node *node) {
    for (int i = 0; i < COUNT_OF(fold_rows); i++) {
        GVal *const value = row_fits(&fold_rows[i], node) ? fold_rows[i].rule(fold, node) : NULL;
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
