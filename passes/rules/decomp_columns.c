/* decomp_columns.c: windows as columns and back, dim by dim: positions (kernel row, block row) along the height, then
 * the same along the width. What is added back goes the other way round, the width first [B2.11]. */
#include "passes/rules/decomp.h"

DecompFn decomp_im2col, decomp_col2im;

/* One spatial dim: `kernel` positions of each of `blocks` windows over `size` elements and padding on both sides. How
 * many elements and windows there are may be symbolic. */
typedef struct Line {
    int64_t size, kernel, dilation, padding, stride, blocks;
} Line;

static int64_t of_list(Builder *b, const Arg *list, int i) {
    return sym_concrete(b->env, list->ints[list->n == 1 ? 0 : i]);
}

/* lists: kernel_size, dilation, padding, stride */
static Line line_of(Builder *b, const Arg *lists, int i, int64_t size) {
    SymEnv *const env = b->env;
    Line l = {.size = size,
              .kernel = of_list(b, &lists[0], i),
              .dilation = of_list(b, &lists[1], i),
              .padding = of_list(b, &lists[2], i),
              .stride = of_list(b, &lists[3], i)};
    const int64_t capacity = sym_add(env, l.size, 2 * l.padding - l.dilation * (l.kernel - 1) - 1);
    l.blocks = sym_add(env, sym_div(env, capacity, l.stride), 1);
    return l;
}

static int64_t padded_size(Builder *b, const Line *l) { return sym_add(b->env, l->size, 2 * l->padding); }

/* kernel * dilation + block * stride, by (kernel, block) */
static Val *positions(Builder *b, const Line *l, Device device) {
    const int64_t column[] = {l->kernel, 1}, all = sym_mul(b->env, l->blocks, l->kernel);
    Val *const tap = E(b, mul_Tensor, V(E(b, arange, I(l->kernel), I(DT_i64), A_NONE, I(device))), I(l->dilation));
    Val *const start = E(b, mul_Tensor, V(E(b, arange, I(l->blocks), I(DT_i64), A_NONE, I(device))), I(l->stride));
    return reshaped(b, E(b, add_Tensor, V(E(b, view, V(tap), A_INTS(column, 2))), V(start)), &all, 1);
}

/* Both dims of an image or its columns, with its batch and channels. */
typedef struct ImageColumns {
    Line rows, columns;
    int64_t batch, channels, six[6], three[3];
} ImageColumns;

static ImageColumns columns_of(Builder *b, const Arg *lists, int64_t batch, int64_t channels, const int64_t *size) {
    ImageColumns c = {.rows = line_of(b, lists, 0, size[0]), .columns = line_of(b, lists, 1, size[1])};
    c.batch = batch, c.channels = channels;
    const int64_t area = c.rows.kernel * c.columns.kernel;
    memcpy(c.six, ((int64_t[]){batch, channels, c.rows.kernel, c.rows.blocks, c.columns.kernel, c.columns.blocks}),
           sizeof c.six);
    const int64_t blocks = sym_mul(b->env, c.rows.blocks, c.columns.blocks);
    memcpy(c.three, ((int64_t[]){batch, sym_mul(b->env, channels, area), blocks}), sizeof c.three);
    return c;
}

static const int64_t kernel_first[] = {0, 1, 2, 4, 3, 5}; /* and back */

/* (self, kernel_size, dilation, padding, stride) */
Status decomp_im2col(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int batched = self->rank == 4;
    const ImageColumns c =
        columns_of(b, args + 1, batched ? self->sizes[0] : 1, self->sizes[batched], self->sizes + batched + 1);
    const int64_t pads[] = {c.columns.padding, c.columns.padding, c.rows.padding, c.rows.padding};
    Val *x = batched ? args[0].val : E(b, unsqueeze, args[0], I(0));
    if (c.rows.padding || c.columns.padding) x = E(b, constant_pad_nd, V(x), A_INTS(pads, 4));
    x = E(b, index_select, V(x), I(2), V(positions(b, &c.rows, self->device)));
    x = E(b, index_select, V(x), I(3), V(positions(b, &c.columns, self->device)));
    x = reshaped(b, x, c.six, 6);
    x = E(b, clone, V(E(b, permute, V(x), A_INTS(kernel_first, 6))), I(0));
    return done1(outs, reshaped(b, x, c.three + !batched, 2 + batched));
}

/* x's rows of a dim added at the line's positions; the padding is cut off. */
static Val *added_along(Builder *b, Val *x, int dim, const Line *l) {
    if (!x) return NULL;
    Val *const none = zeros_along(b, x->meta, dim, padded_size(b, l));
    Val *const sums = E(b, index_add, V(none), I(dim), V(positions(b, l, x->meta->device)), V(x));
    if (!l->padding) return sums;
    return E(b, slice_Tensor, V(sums), I(dim), I(l->padding), I(sym_add(b->env, l->size, l->padding)));
}

/* (self, output_size, kernel_size, dilation, padding, stride) */
Status decomp_col2im(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const self = args[0].val->meta;
    const int batched = self->rank == 3;
    const int64_t area = of_list(b, &args[2], 0) * of_list(b, &args[2], 1);
    const ImageColumns c = columns_of(b, args + 2, batched ? self->sizes[0] : 1,
                                      sym_div(b->env, self->sizes[batched], area), args[1].ints);
    const int64_t apart[] = {c.batch, c.channels, c.six[2], c.six[4], c.six[3], c.six[5]};
    const int64_t four[] = {c.batch, c.channels, sym_mul(b->env, c.six[3], c.six[2]),
                            sym_mul(b->env, c.six[5], c.six[4])};
    const int64_t image[] = {c.batch, c.channels, c.rows.size, c.columns.size};
    Val *x = self->dtype == DT_bool ? in_dtype(b, args[0].val, DT_i32) : widened(b, args[0].val);
    x = E(b, permute, V(reshaped(b, x, apart, 6)), A_INTS(kernel_first, 6));
    x = reshaped(b, x, four, 4);
    x = added_along(b, added_along(b, x, 3, &c.columns), 2, &c.rows);
    x = E(b, clone, V(in_dtype(b, x, self->dtype)), I(0));
    return done1(outs, batched ? x : reshaped(b, x, image + 1, 3));
}
