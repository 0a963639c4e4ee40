/* decomp_window.c: pads as what lies before, the middle and what lies after, dim by dim; their gradients, dim by dim
 * too, add what lay before to the middle and then what lay after [B2.9]; pools without indices and of one dim. */
#include "ir/schema.h"
#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

DecompFn decomp_reflection_pad, decomp_replication_pad, decomp_reflection_pad_backward;
DecompFn decomp_replication_pad_backward, decomp_max_pool, decomp_max_pool1d, decomp_avg_pool1d;
DecompFn decomp_adaptive_avg_pool, decomp_adaptive_avg_pool1d;
DecompFn decomp_adaptive_max_pool, decomp_adaptive_max_pool1d, decomp_adaptive_max_pool_backward;

static Val *part_of(Builder *b, Val *x, int64_t dim, int64_t start, int64_t end) {
    return E(b, slice_Tensor, V(x), I(dim), I(start), I(end));
}
static Val *mirrored(Builder *b, Val *x, int64_t dim) { return E(b, flip, V(x), A_INTS(&dim, 1)); }

/* One dim of a pad: a negative number of elements is cut off after the other side was padded. */
typedef struct Pad {
    int64_t dim, size, before, after; /* what is added, at least 0 */
    int64_t cut_before, cut_after;
    bool mirrors;
} Pad;

static Pad pad_of(Builder *b, const Meta *self, const Arg *padding, int d, bool mirrors) {
    const int pair = self->rank - 1 - d;
    int64_t by[2] = {padding->ints[2 * pair], padding->ints[2 * pair + 1]}, cut[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        if (sym_less(b->env, by[i], 0)) cut[i] = sym_sub(b->env, 0, by[i]), by[i] = 0;
    return (Pad){d, self->sizes[d], by[0], by[1], cut[0], cut[1], mirrors};
}

static bool some(Builder *b, int64_t n) { return sym_less(b->env, 0, n); }

/* `n` copies of the element at one border. */
static Val *repeated(Builder *b, Val *x, const Pad *pad, int64_t at, int64_t n) {
    Val *const border = part_of(b, x, pad->dim, at, sym_add(b->env, at, 1));
    if (!border) return NULL;
    int64_t sizes[MAX_RANK];
    memcpy(sizes, border->meta->sizes, sizeof *sizes * (size_t)border->meta->rank);
    sizes[pad->dim] = n;
    return E(b, expand, V(border), A_INTS(sizes, border->meta->rank));
}

static Val *padded(Builder *b, Val *x, const Pad *pad) {
    SymEnv *const env = b->env;
    const int64_t last = sym_sub(env, pad->size, 1), end = sym_sub(env, last, pad->after);
    Val *parts[3];
    int n = 0;
    if (some(b, pad->before))
        parts[n++] = pad->mirrors ? mirrored(b, part_of(b, x, pad->dim, 1, sym_add(env, pad->before, 1)), pad->dim)
                                  : repeated(b, x, pad, 0, pad->before);
    parts[n++] = x;
    if (some(b, pad->after))
        parts[n++] = pad->mirrors ? mirrored(b, part_of(b, x, pad->dim, end, last), pad->dim)
                                  : repeated(b, x, pad, last, pad->after);
    for (int i = 0; i < n; i++)
        if (!parts[i]) return NULL;
    Val *const all = n > 1 ? E(b, cat, A_VALS(parts, n), I(pad->dim)) : x;
    if (!all || (!some(b, pad->cut_before) && !some(b, pad->cut_after))) return all;
    return part_of(b, all, pad->dim, pad->cut_before, sym_sub(env, all->meta->sizes[pad->dim], pad->cut_after));
}

static Status pad_dims(Builder *b, const Arg *args, bool mirrors, Val **outs) {
    const Meta *const self = args[0].val->meta;
    Val *x = args[0].val;
    for (int d = self->rank - args[1].n / 2; x && d < self->rank; d++) {
        const Pad pad = pad_of(b, self, &args[1], d, mirrors);
        x = padded(b, x, &pad);
    }
    return done1(outs, x ? E(b, clone, V(x), I(0)) : NULL);
}
Status decomp_reflection_pad(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return pad_dims(b, args, true, outs);
}
Status decomp_replication_pad(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return pad_dims(b, args, false, outs);
}

/* zeros around x along a dim */
static Val *placed(Builder *b, Val *x, int64_t dim, int64_t before, int64_t after) {
    if (!x) return NULL;
    int64_t pads[2 * MAX_RANK] = {0};
    const int64_t pair = x->meta->rank - 1 - dim;
    pads[2 * pair] = before;
    pads[2 * pair + 1] = after;
    return E(b, constant_pad_nd, V(x), A_INTS(pads, 2 * (pair + 1)));
}

/* What one side adds, at its place in the middle. */
static Val *folded(Builder *b, Val *side, const Pad *pad, bool before, int64_t n) {
    SymEnv *const env = b->env;
    const int64_t rest = sym_sub(env, pad->size, pad->mirrors ? sym_add(env, n, 1) : 1);
    const int64_t border = pad->mirrors;
    Val *const sum = pad->mirrors ? mirrored(b, side, pad->dim) : sum_over(b, side, &pad->dim, 1, true);
    return before ? placed(b, sum, pad->dim, border, rest) : placed(b, sum, pad->dim, rest, border);
}

static Val *unpadded(Builder *b, Val *grad, const Pad *pad) {
    SymEnv *const env = b->env;
    if (some(b, pad->cut_before) || some(b, pad->cut_after))
        grad = placed(b, grad, pad->dim, pad->cut_before, pad->cut_after);
    if (!grad) return NULL;
    const int64_t middle = pad->before, end = sym_add(env, middle, pad->size);
    Val *sum = part_of(b, grad, pad->dim, middle, end);
    if (some(b, pad->before)) {
        Val *const side = part_of(b, grad, pad->dim, 0, middle);
        sum = E(b, add_Tensor, V(folded(b, side, pad, true, pad->before)), V(sum));
    }
    if (!some(b, pad->after)) return sum;
    Val *const side = part_of(b, grad, pad->dim, end, sym_add(env, end, pad->after));
    return E(b, add_Tensor, V(sum), V(folded(b, side, pad, false, pad->after)));
}

static Status unpad_dims(Builder *b, const Arg *args, bool mirrors, Val **outs) {
    const Meta *const self = args[1].val->meta;
    Val *grad = widened(b, args[0].val);
    for (int d = self->rank - 1; grad && d >= self->rank - args[2].n / 2; d--) {
        const Pad pad = pad_of(b, self, &args[2], d, mirrors);
        grad = unpadded(b, grad, &pad);
    }
    return done1(outs, grad ? in_dtype(b, E(b, clone, V(grad), I(0)), self->dtype) : NULL);
}
Status decomp_reflection_pad_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return unpad_dims(b, args, true, outs);
}
Status decomp_replication_pad_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return unpad_dims(b, args, false, outs);
}

/* pools --------------------------------------------------------------------------------------- */

Status decomp_max_pool(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool flat = row->id == OP_max_pool2d;
    Val *both[2] = {NULL};
    TRY(emit(b, flat ? OP_max_pool2d_with_indices : OP_max_pool3d_with_indices, args, row->n_params, both));
    return done1(outs, both[0]);
}

/* A list that speaks of one dim, for two of which the first has nothing to do. */
typedef struct TwoDims {
    int64_t at[2];
} TwoDims;
static Arg two_dims(const Arg *one, int64_t first, TwoDims *buffer) {
    const int n = one->kind == ARG_int ? 1 : one->n;
    buffer->at[0] = first;
    if (n) buffer->at[1] = one->kind == ARG_int ? one->i : one->ints[0];
    return A_INTS(buffer->at, n ? 2 : 0);
}

static Val *below_one(Builder *b, Val *x) { return E(b, unsqueeze, V(x), I(-2)); }
static Val *without_one(Builder *b, Val *x) { return E(b, squeeze_dim, V(x), I(-2)); }

Status decomp_max_pool1d(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    TwoDims buffers[4];
    Val *both[2] = {NULL}, *results[2];
    const Arg full[] = {V(below_one(b, args[0].val)),       two_dims(&args[1], 1, &buffers[0]),
                        two_dims(&args[2], 1, &buffers[1]), two_dims(&args[3], 0, &buffers[2]),
                        two_dims(&args[4], 1, &buffers[3]), args[5]};
    TRY(emit(b, OP_max_pool2d_with_indices, full, COUNT_OF(full), both));
    results[0] = without_one(b, both[0]);
    if (row->n_out > 1) results[1] = without_one(b, both[1]);
    return decomp_done(outs, row->n_out, results);
}

Status decomp_avg_pool1d(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    TwoDims buffers[3];
    Val *const mean = E(b, avg_pool2d, V(below_one(b, args[0].val)), two_dims(&args[1], 1, &buffers[0]),
                        two_dims(&args[2], 1, &buffers[1]), two_dims(&args[3], 0, &buffers[2]), args[4], args[5]);
    return done1(outs, without_one(b, mean));
}

Status decomp_adaptive_avg_pool(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const bool flat = row->id == OP_adaptive_avg_pool2d;
    return done1(outs, emit1(b, flat ? OP__adaptive_avg_pool2d : OP__adaptive_avg_pool3d, args, row->n_params));
}

Status decomp_adaptive_avg_pool1d(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    TwoDims buffer;
    Val *const x = below_one(b, args[0].val);
    return done1(outs, without_one(b, E(b, _adaptive_avg_pool2d, V(x), two_dims(&args[1], 1, &buffer))));
}

/* largest of windows that cover self ---------------------------------------------------------- */

static Val *positions_of(Builder *b, int64_t n, Device device) {
    return E(b, arange, I(n), I(DT_i64), A_NONE, I(device));
}
static Val *floor_quotient(Builder *b, Val *x, int64_t by) {
    return E(b, div_Tensor_mode, V(x), I(by), A_STR("floor"));
}

/* [windows, most] positions along a dim of `size`: each window from floor(i size / n) to before ceil((i + 1) size / n),
 * its last one again where it is shorter than the longest. */
static Val *covering(Builder *b, int64_t size, int64_t n, int64_t most, Device device) {
    Val *const i = positions_of(b, n, device);
    Val *const begin = floor_quotient(b, E(b, mul_Tensor, V(i), I(size)), n);
    Val *const next = E(b, mul_Tensor, V(E(b, add_Tensor, V(i), I(1))), I(size));
    Val *const last = floor_quotient(b, E(b, sub_Tensor, V(next), I(1)), n);
    Val *const at = E(b, add_Tensor, V(E(b, unsqueeze, V(begin), I(1))), V(positions_of(b, most, device)));
    return E(b, minimum, V(at), V(E(b, unsqueeze, V(last), I(1))));
}

/* [windows, elements of one]: positions in the plane or volume of `n` dims. */
static Val *window_positions(Builder *b, const int64_t *size, const int64_t *windows, int n, Device device) {
    int64_t shape[2 * 3], most[3], cells = 1, each = 1;
    Val *all = NULL;
    for (int d = 0; d < n; d++) {
        most[d] = sym_add(b->env, sym_div(b->env, sym_add(b->env, size[d], windows[d] - 1), windows[d]), 1);
        cells *= windows[d], each = sym_mul(b->env, each, most[d]);
        Val *at = covering(b, size[d], windows[d], most[d], device);
        for (int k = 0; k < 2 * n; k++) shape[k] = k == d ? windows[d] : k == n + d ? most[d] : 1;
        at = at ? reshaped(b, at, shape, 2 * n) : NULL;
        all = d ? E(b, add_Tensor, V(E(b, mul_Tensor, V(all), I(size[d]))), V(at)) : at;
    }
    return all ? reshaped(b, all, (const int64_t[]){cells, each}, 2) : NULL;
}

/* Where the largest of the last dim is: of NaNs the last. */
static Val *largest_in(Builder *b, Val *windows) {
    Val *const most = E(b, argmax, V(windows), I(-1), A_BOOL(true));
    Val *const count =
        windows ? positions_of(b, windows->meta->sizes[windows->meta->rank - 1], windows->meta->device) : NULL;
    Val *const nan = E(b, where_self, V(E(b, isnan, V(windows))), V(count), I(-1));
    Val *const last = E(b, amax, V(nan), A_INTS(&(int64_t){-1}, 1), A_BOOL(true));
    return E(b, where_self, V(E(b, ge_Tensor, V(last), I(0))), V(last), V(most));
}

/* The last n dims as one. */
static Val *flat_planes(Builder *b, Val *x, int n) {
    if (!x) return NULL;
    int64_t sizes[MAX_RANK];
    const int first = x->meta->rank - n;
    if (first) memcpy(sizes, x->meta->sizes, sizeof *sizes * (size_t)first);
    sizes[first] = sym_product(b->env, x->meta->sizes + first, n);
    return reshaped(b, x, sizes, first + 1);
}

/* (self, output_size): where the largest is first, then what is there. */
Status decomp_adaptive_max_pool(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int n = row->id == OP_adaptive_max_pool2d ? 2 : 3;
    const Meta *const self = args[0].val->meta;
    const int first = self->rank - n;
    int64_t windows[3], sizes[MAX_RANK];
    for (int d = 0; d < n; d++) windows[d] = args[1].kind == ARG_int ? args[1].i : args[1].ints[d];
    memcpy(sizes, self->sizes, sizeof *sizes * (size_t)first);
    memcpy(sizes + first, windows, sizeof *sizes * (size_t)n);
    Val *both[2] = {NULL};
    if (sym_same(b->env, sym_product(b->env, sizes, self->rank), 0)) {
        for (int i = 0; i < 2; i++)
            both[i] = E(b, full, A_INTS(sizes, self->rank), I(0), I(i ? DT_i64 : self->dtype), A_NONE, I(self->device));
        return decomp_done(outs, 2, both);
    }
    Val *const x = flat_planes(b, args[0].val, n);
    Val *const at = window_positions(b, self->sizes + first, windows, n, self->device);
    if (!x || !at) return error_pending();
    const int64_t cells = at->meta->sizes[0], each = at->meta->sizes[1];
    Val *const flat = reshaped(b, at, (const int64_t[]){-1}, 1);
    sizes[first] = cells, sizes[first + 1] = each;
    Val *const read = E(b, index_select, V(x), I(-1), V(flat));
    Val *const most = largest_in(b, read ? reshaped(b, read, sizes, first + 2) : NULL); /* [..., cells, 1] */
    Val *const begin = E(b, mul_Tensor, V(positions_of(b, cells, self->device)), I(each));
    Val *const place = E(b, add_Tensor, V(E(b, squeeze_dim, V(most), I(-1))), V(begin));
    Val *const found =
        E(b, index_select, V(flat), I(0), V(place ? reshaped(b, place, (const int64_t[]){-1}, 1) : NULL));
    both[1] = found ? reshaped(b, found, sizes, first + 1) : NULL;
    both[0] = E(b, gather, V(x), I(-1), V(both[1]));
    memcpy(sizes + first, windows, sizeof *sizes * (size_t)n);
    for (int i = 0; i < 2; i++)
        both[i] = both[i] ? in_layout_of(b, row, args, i, reshaped(b, both[i], sizes, self->rank)) : NULL;
    return decomp_done(outs, 2, both);
}

/* (grad_output, self, indices) */
Status decomp_adaptive_max_pool_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const int n = row->id == OP_adaptive_max_pool2d_backward ? 2 : 3;
    const Meta *const self = args[1].val->meta;
    Val *const grad = flat_planes(b, widened(b, args[0].val), n), *const at = flat_planes(b, args[2].val, n);
    if (!grad || !at) return error_pending();
    const int64_t size = sym_product(b->env, self->sizes + self->rank - n, n);
    Val *const none = zeros_along(b, grad->meta, grad->meta->rank - 1, size);
    Val *const sum = in_dtype(b, E(b, scatter_add, V(none), I(-1), V(at), V(grad)), self->dtype);
    return done1(outs, sum ? in_layout_of(b, row, args, 0, reshaped(b, sum, self->sizes, self->rank)) : NULL);
}

Status decomp_adaptive_max_pool1d(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    TwoDims buffer;
    Val *both[2] = {NULL};
    TRY(emit(b, OP_adaptive_max_pool2d, (const Arg[]){V(below_one(b, args[0].val)), two_dims(&args[1], 1, &buffer)}, 2,
             both));
    for (int i = 0; i < 2; i++) both[i] = without_one(b, both[i]);
    return decomp_done(outs, 2, both);
}

/* pad by mode --------------------------------------------------------------------------------- */

DecompFn decomp_pad, decomp_pad_circular;

/* One dim: what negative numbers cut goes first, then the last `before` elements come first, the first `after` last. */
static Val *turned_around(Builder *b, Val *x, int64_t dim, int64_t before, int64_t after) {
    if (!x) return NULL;
    SymEnv *const env = b->env;
    if (before < 0 || after < 0) {
        const int64_t start = max_i64(-before, 0), end = sym_sub(env, x->meta->sizes[dim], max_i64(-after, 0));
        x = part_of(b, x, dim, start, end);
        if (!x) return NULL;
    }
    const int64_t size = x->meta->sizes[dim];
    Val *parts[3];
    int n = 0;
    if (before > 0) parts[n++] = part_of(b, x, dim, sym_sub(env, size, before), size);
    parts[n++] = x;
    if (after > 0) parts[n++] = part_of(b, x, dim, 0, after);
    for (int i = 0; i < n; i++)
        if (!parts[i]) return NULL;
    return n > 1 ? E(b, cat, A_VALS(parts, n), I(dim)) : x;
}

/* (self, pad): the last dim last, as what is read of it was padded before. */
Status decomp_pad_circular(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *x = args[0].val;
    const int rank = x->meta->rank;
    for (int i = args[1].n / 2 - 1; i >= 0; i--)
        x = turned_around(b, x, rank - 1 - i, sym_concrete(b->env, args[1].ints[2 * i]),
                          sym_concrete(b->env, args[1].ints[2 * i + 1]));
    return done1(outs, E(b, clone, V(x), I(MF_contiguous)));
}

/* (self, pad, mode, value) */
Status decomp_pad(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    static const char *const modes[] = {"reflect", "replicate", "circular", "constant"};
    static const OpId ops[2][3] = {{OP_reflection_pad1d, OP_reflection_pad2d, OP_reflection_pad3d},
                                   {OP_replication_pad1d, OP_replication_pad2d, OP_replication_pad3d}};
    int mode = args[2].kind == ARG_int ? (int)args[2].i : 0;
    while (args[2].kind == ARG_string && strcmp(modes[mode], args[2].string) != 0) mode++;
    if (mode == 3)
        return done1(outs, E(b, constant_pad_nd, args[0], args[1], args[3].kind == ARG_none ? I(0) : args[3]));
    if (mode == 2) return decomp_pad_circular(b, row, args, outs);
    return done1(outs, emit1(b, ops[mode][args[1].n / 2 - 1], args, 2));
}
