/* decomp_window.c: pads as what lies before, the middle and what lies after, dim by dim; their gradients, dim by dim
 * too, add what lay before to the middle and then what lay after [B2.9]; pools without indices and of one dim. */
#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

DecompFn decomp_reflection_pad, decomp_replication_pad, decomp_reflection_pad_backward;
DecompFn decomp_replication_pad_backward, decomp_max_pool, decomp_max_pool1d, decomp_avg_pool1d;
DecompFn decomp_adaptive_avg_pool, decomp_adaptive_avg_pool1d;

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
