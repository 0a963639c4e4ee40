/* pieces.c: ops whose result is put together from parts, one nest per part: rows of rules/pieces.def. Parts are Copies
 * into the result's memory. */
#include "passes/lower.h"
#include "ir/op_ids.h"

BodyFn body_pieces;

typedef int PiecesFn(Lower *l, Node *node, Copy *copies, int capacity);
static int cat_pieces(Lower *l, Node *node, Copy *copies, int capacity);
static int pad_pieces(Lower *l, Node *node, Copy *copies, int capacity);
static int slice_scatter_pieces(Lower *l, Node *node, Copy *copies, int capacity);
static int select_scatter_pieces(Lower *l, Node *node, Copy *copies, int capacity);

typedef struct PiecesRow {
    PiecesFn *pieces;
    bool independent;
} PiecesRow;

static const PiecesRow rows[OP_IDS] = {
#define PIECES(op, name, independent) [OP_##op] = {name##_pieces, independent},
#include "passes/rules/pieces.def"
#undef PIECES
};

static const PiecesRow *pieces_row(const Node *node) {
    const PiecesRow *const row = !op_is_made(node->row) ? &rows[node->row->id] : NULL;
    return row && row->pieces ? row : NULL;
}

bool pieces_known(const Node *node) { return pieces_row(node) != NULL; }
bool pieces_independent(const Node *node) { return pieces_row(node)->independent; }
int pieces_of(Lower *l, Node *node, Copy *copies, int capacity) {
    return pieces_row(node)->pieces(l, node, copies, capacity);
}

/* All of `from` to the result's elements that start at `offset` with these strides. */
static Copy piece(Node *node, GVal *from, int64_t offset, const int64_t *strides) {
    GVal *const to = &node->outs[0];
    const Meta *const meta = from->base.meta;
    return (Copy){.from = from,
                  .to = to,
                  .slot = -1,
                  .dtype = to->base.meta->dtype,
                  .sizes = meta->sizes,
                  .rank = meta->rank,
                  .offset = offset,
                  .strides = strides};
}

static int64_t wrapped(int64_t dim, int rank) { return sym_is(dim) ? dim : dim_wrap(dim, rank); }

static int cat_pieces(Lower *l, Node *node, Copy *copies, int capacity) {
    const Arg *const list = &node->args[0];
    const int64_t *const strides = val_info(l, &node->outs[0])->strides;
    const int rank = node->outs[0].base.meta->rank;
    const int64_t given = wrapped(node->args[1].i, rank);
    const int64_t dim = given < 0 || given >= rank ? 0 : given; /* any, of nothing but [0] */
    int64_t at = 0;
    int n = 0;
    if (list->n > capacity) return -1;
    for (int i = 0; i < list->n; i++) {
        GVal *const part = gval(list->vals[i]);
        if (part->base.meta->rank != rank) continue; /* PyTorch lets [0] stand for nothing */
        copies[n++] = piece(node, part, sym_mul(l->env, at, strides[dim]), strides);
        at = sym_add(l->env, at, part->base.meta->sizes[dim]);
    }
    return n;
}

static Copy filled(Lower *l, Node *node, Arg value) {
    GVal *const to = &node->outs[0];
    const Meta *const meta = to->base.meta;
    return (Copy){.fill = value,
                  .to = to,
                  .slot = -1,
                  .dtype = meta->dtype,
                  .sizes = meta->sizes,
                  .rank = meta->rank,
                  .strides = val_info(l, to)->strides};
}

/* What a pad takes away: its sign is decided, also of a symbol, unless it is known not to add. */
static int64_t cut_by(SymEnv *env, int64_t pad) {
    return sym_known(env, SYM_le, pad, 0) || sym_less(env, pad, 0) ? sym_sub(env, 0, pad) : 0;
}

/* Pads come in pairs, last dim first; negative ones cut. */
static int pad_pieces(Lower *l, Node *node, Copy *copies, int capacity) {
    const Arg *const value = &node->args[2];
    if (capacity < 2 || !arg_is_number(value)) return -1;
    GVal *const self = gval(node->args[0].val);
    const Meta *const meta = self->base.meta;
    const Arg *const pad = &node->args[1];
    int64_t *const sizes = arena_copy(l->arena, meta->sizes, sizeof(int64_t) * (size_t)meta->rank);
    const int64_t *const strides = val_info(l, &node->outs[0])->strides;
    int64_t to = 0, from = 0, dense[MAX_RANK];
    row_major(l->env, meta->sizes, meta->rank, dense);
    for (int i = 0; i < pad->n / 2; i++) {
        const int d = meta->rank - 1 - i;
        const int64_t before = pad->ints[2 * i], after = pad->ints[2 * i + 1], cut = cut_by(l->env, before);
        sizes[d] = sym_sub(l->env, sizes[d], sym_add(l->env, cut, cut_by(l->env, after)));
        from = sym_add(l->env, from, sym_mul(l->env, cut, dense[d]));
        to = sym_add(l->env, to, sym_mul(l->env, sym_add(l->env, before, cut), strides[d]));
    }
    copies[0] = filled(l, node, *value);
    copies[1] = piece(node, self, to, strides);
    copies[1].sizes = sizes;
    copies[1].from_offset = from;
    copies[1].from_strides = arena_copy(l->arena, dense, sizeof dense);
    return 2;
}

static int slice_scatter_pieces(Lower *l, Node *node, Copy *copies, int capacity) {
    const Meta *const meta = node->outs[0].base.meta;
    const int64_t dim = wrapped(node->args[2].i, meta->rank), size = meta->sizes[dim];
    const int64_t step = node->args[5].kind == ARG_int ? sym_concrete(l->env, node->args[5].i) : 1;
    if (capacity < 2) return -1;
    const int64_t start = slice_position(l->env, &node->args[3], 0, size);
    const ValInfo *const info = val_info(l, &node->outs[0]);
    int64_t *const strides = arena_copy(l->arena, info->strides, sizeof(int64_t) * (size_t)meta->rank);
    strides[dim] = sym_mul(l->env, strides[dim], step);
    copies[0] = piece(node, gval(node->args[0].val), 0, info->strides);
    copies[1] = piece(node, gval(node->args[1].val), sym_mul(l->env, start, info->strides[dim]), strides);
    return 2;
}

static int select_scatter_pieces(Lower *l, Node *node, Copy *copies, int capacity) {
    const Meta *const meta = node->outs[0].base.meta;
    const int64_t dim = wrapped(node->args[2].i, meta->rank);
    int64_t index = node->args[3].i;
    if (capacity < 2) return -1;
    if (sym_less(l->env, index, 0)) index = sym_add(l->env, meta->sizes[dim], index);
    const ValInfo *const info = val_info(l, &node->outs[0]);
    int64_t *const strides = ARENA_ARRAY(l->arena, int64_t, meta->rank);
    for (int d = 0, k = 0; d < meta->rank; d++)
        if (d != dim) strides[k++] = info->strides[d];
    copies[0] = piece(node, gval(node->args[0].val), 0, info->strides);
    copies[1] = piece(node, gval(node->args[1].val), sym_mul(l->env, index, info->strides[dim]), strides);
    return 2;
}

/* Such rows have no element of their own to compute: lowering asks for their pieces instead. */
int body_pieces(BodyCall *call) { return body_stop(call, "it is made of pieces"); }
