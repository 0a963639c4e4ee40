/* meta_common.c: what meta rules share (meta_rules.h). Promotion and strides follow PyTorch's TensorIterator
 * (aten/src/ATen/TensorIterator.cpp): equal dense operands keep their layout, others give the permutation of the first
 * operand that has an opinion. */
#include "ir/meta_rules.h"

#include <stdarg.h>
#include <stdio.h>

Status meta_fail(const MetaCall *call, Status status, const char *format, ...) {
    char message[768];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return error_raise(status, "%s: %s", op_form_name(call->row, call->form), message);
}

SizesText sizes_text(const MetaCall *call, const int64_t *sizes, int n) {
    Text text = {0};
    SizesText out;
    sizes_print(call->env, &text, sizes, n);
    snprintf(out.at, sizeof out.at, "%s", text_str(&text));
    text_free(&text);
    return out;
}

DType number_dtype(const Arg *number) {
    return number->kind == ARG_bool ? DT_bool : number->kind == ARG_int ? DT_i64 : DT_f32;
}

DType default_float(DType dtype) { return dtype_is_float(dtype) ? dtype : DT_f32; }

DType dtype_arg(const MetaCall *call, const char *name, DType fallback) {
    const int i = op_param_find(call->row, name);
    return i >= 0 && call->args[i].kind == ARG_int && call->args[i].i ? (DType)call->args[i].i : fallback;
}

const char *arg_name(const MetaCall *call, int i) { return call->row->params[i].name; }

const Meta *tensor_meta(const MetaCall *call, int i) {
    return call->args[i].kind == ARG_tensor ? call->args[i].val->meta : NULL;
}

const Arg *arg_named(const MetaCall *call, const char *name) {
    const int i = op_param_find(call->row, name);
    return i < 0 ? NULL : &call->args[i];
}

const Meta *arg_meta(const MetaCall *call, int i, Meta *number) {
    const Arg *arg = &call->args[i];
    if (arg->kind == ARG_tensor) return arg->val->meta;
    *number = (Meta){.dtype = number_dtype(arg), .device = DEV_cpu, .contiguous = true, .wrapped = true, .numel = 1};
    return number;
}

/* results ------------------------------------------------------------------------------------- */

void out_set(MetaOut *out, DType dtype, Device device, const int64_t *sizes, int rank) {
    out->dtype = dtype;
    out->device = device;
    out->rank = rank;
    out->alias = -1;
    out->wrapped = false;
    out->offset = 0;
    if (rank) memmove(out->sizes, sizes, sizeof *sizes * (size_t)rank);
}

void out_contiguous(const MetaCall *call, MetaOut *out) {
    meta_contiguous_strides(call->env, out->sizes, out->rank, out->strides);
}

void out_channels_last(const MetaCall *call, MetaOut *out) {
    int64_t next = 1;
    for (int i = 0; i < out->rank; i++) {
        const int dim = i == 0 ? 1 : i == out->rank - 1 ? 0 : out->rank - i;
        out->strides[dim] = next;
        next = sym_mul(call->env, next, sym_max(call->env, out->sizes[dim], 1));
    }
}

bool meta_suggests_channels_last(SymEnv *env, const Meta *meta) {
    const int rank = meta->rank;
    int64_t least = 0;
    if ((rank != 4 && rank != 5) || sym_identical(meta->strides[1], 0)) return false;
    if (meta_decide_contiguous(env, meta) && !sym_identical(meta->strides[1], 1) &&
        !sym_identical(meta->sizes[rank - 1], 1))
        return false;
    for (int i = 0; i < rank; i++) { /* 1, the last ... 2, 0 */
        const int d = i == 0 ? 1 : i == rank - 1 ? 0 : rank - i;
        const int64_t size = meta->sizes[d], stride = meta->strides[d];
        if (sym_same(env, size, 0) || sym_less(env, stride, least)) return false;
        if (d == 0 && sym_same(env, least, meta->strides[1])) return false;
        least = sym_less(env, 1, size) ? sym_mul(env, stride, size) : stride;
    }
    return true;
}

void out_plain(const MetaCall *call, int i, DType dtype, Device device, const int64_t *sizes, int rank) {
    out_set(&call->out[i], dtype, device, sizes, rank);
    out_contiguous(call, &call->out[i]);
}

void out_like(const MetaCall *call, int i, const Meta *meta, DType dtype) {
    out_set(&call->out[i], dtype, meta->device, meta->sizes, meta->rank);
    preserved_strides(call->env, meta, call->out[i].strides);
}

MetaOut *out_list(MetaCall *call, int i) { return i < call->n_out ? &call->out[i] : NULL; }

Status check_numel(const MetaCall *call, const int64_t *sizes, int n) {
    int64_t product = 1;
    bool empty = false, fits = true;
    if (n > MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    for (int i = 0; i < n; i++) {
        if (sym_is(sizes[i])) continue;
        if (sizes[i] < 0)
            return meta_fail(call, ST_SHAPE, "negative size %lld in %s", (long long)sizes[i],
                             sizes_text(call, sizes, n).at);
        if (sizes[i] == 0)
            empty = true;
        else
            fits = fits && mul_ok(product, sizes[i], &product);
    }
    int64_t bytes;
    if (!empty && (!fits || !mul_ok(product, 8, &bytes)))
        return meta_fail(call, ST_SHAPE, "%s holds more elements than memory can", sizes_text(call, sizes, n).at);
    if (!fits) /* strides count a size of 0 as 1 */
        return meta_fail(call, ST_SHAPE, "the strides of %s overflow", sizes_text(call, sizes, n).at);
    return ST_OK;
}

/* layouts ------------------------------------------------------------------------------------- */

/* Dims ordered by stride, smallest first, those of sizes 0 and 1 behind. */
static void by_stride(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank, int *perm) {
    for (int i = 0; i < rank; i++) perm[i] = i;
    for (int i = 1; i < rank; i++)
        for (int j = i; j > 0; j--) {
            const int a = perm[j - 1], b = perm[j];
            const bool a_last = sizes[a] == 0 || sizes[a] == 1, b_last = sizes[b] == 0 || sizes[b] == 1;
            if (b_last || (!a_last && !sym_less(env, strides[b], strides[a]))) break;
            perm[j - 1] = b, perm[j] = a;
        }
}

bool apart(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank) {
    int perm[MAX_RANK];
    int64_t span = 1; /* of the dims before */
    by_stride(env, sizes, strides, rank, perm);
    for (int i = 0; i < rank; i++) {
        const int dim = perm[i];
        if (sizes[dim] == 0) return true;
        if (sizes[dim] == 1) continue;
        if (sym_less(env, strides[dim], span)) return false;
        span = sym_add(env, span, sym_mul(env, strides[dim], sym_sub(env, sizes[dim], 1)));
    }
    return true;
}

/* Each stride must be the product of the sizes before it. */
bool dense_non_overlapping(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank) {
    int perm[MAX_RANK];
    by_stride(env, sizes, strides, rank, perm);
    int64_t need = 1;
    for (int i = 0; i < rank; i++) {
        const int dim = perm[i];
        if (sizes[dim] == 0) return true;
        if (sizes[dim] == 1) continue;
        if (!sym_same(env, strides[dim], need)) return false;
        need = sym_mul(env, need, sizes[dim]);
    }
    return true;
}

/* TensorIterator's order of dims, fastest first, from the strides of operands (0 where broadcast). */
typedef struct Layout {
    SymEnv *env;
    int n, rank;
    const int64_t *sizes;
    int64_t strides[MAX_OPERANDS][MAX_RANK];
} Layout;

/* Of strides that are the same only where a size that may be 1 is: then the order makes no difference but in the stride
 * of that dim. */
static bool steps_less(SymEnv *env, int64_t a, int64_t b) {
    return (sym_is(a) || sym_is(b)) && sym_hint(env, a) < sym_hint(env, b) && sym_all_given(env, a) &&
           sym_all_given(env, b) && sym_surely_at_most(env, a, b);
}

static int swap_wanted(const Layout *l, int dim0, int dim1) {
    for (int i = 0; i < l->n; i++) {
        const int64_t a = l->strides[i][dim0], b = l->strides[i][dim1];
        if (sym_identical(a, 0) || sym_identical(b, 0)) continue;
        if (steps_less(l->env, a, b)) return -1;
        if (steps_less(l->env, b, a)) return 1;
        if (sym_same(l->env, a, b)) {
            if (sym_less(l->env, l->sizes[dim1], l->sizes[dim0])) return 1;
        } else {
            return sym_less(l->env, a, b) ? -1 : 1;
        }
    }
    return 0;
}

static void layout_order(const Layout *l, int *perm) {
    for (int i = 0; i < l->rank; i++) perm[i] = l->rank - 1 - i;
    for (int i = 1; i < l->rank; i++) {
        int dim1 = i;
        for (int dim0 = i - 1; dim0 >= 0; dim0--) {
            const int wanted = swap_wanted(l, perm[dim0], perm[dim1]);
            if (wanted < 0) break;
            if (!wanted) continue;
            const int kept = perm[dim0];
            perm[dim0] = perm[dim1], perm[dim1] = kept;
            dim1 = dim0;
        }
    }
}

static void layout_strides(const Layout *l, int64_t *strides) {
    int perm[MAX_RANK];
    bool plain = true;
    layout_order(l, perm);
    for (int i = 0; i < l->rank; i++) plain = plain && perm[i] == l->rank - 1 - i;
    if (plain) {
        meta_contiguous_strides(l->env, l->sizes, l->rank, strides);
        return;
    }
    int64_t next = 1;
    for (int i = 0; i < l->rank; i++) {
        strides[perm[i]] = next;
        next = sym_mul(l->env, next, l->sizes[perm[i]]);
    }
}

/* Strides are written before they are read: they are not zeroed, which would cost more than all else here. */
static void layout_begin(Layout *l, SymEnv *env, int rank, const int64_t *sizes) {
    l->env = env;
    l->n = 0;
    l->rank = rank;
    l->sizes = sizes;
}

static void layout_add(Layout *l, const Meta *meta) {
    const int lead = l->rank - meta->rank;
    int64_t *to = l->strides[l->n++];
    for (int i = 0; i < l->rank; i++) {
        const bool own = i >= lead && (!sym_identical(meta->sizes[i - lead], 1) || sym_identical(l->sizes[i], 1));
        to[i] = own ? meta->strides[i - lead] : 0;
    }
}

void preserved_strides(SymEnv *env, const Meta *meta, int64_t *strides) {
    if (meta_decide_contiguous(env, meta) || dense_non_overlapping(env, meta->sizes, meta->strides, meta->rank)) {
        for (int d = 0; d < meta->rank; d++) strides[d] = meta->strides[d]; /* a number has none, and no array */
    } else {
        Layout l;
        layout_begin(&l, env, meta->rank, meta->sizes);
        layout_add(&l, meta);
        layout_strides(&l, strides);
    }
}

/* elementwise --------------------------------------------------------------------------------- */

void elementwise_add(const MetaCall *call, Elementwise *e, int arg) {
    e->in[e->n] = arg_meta(call, arg, &e->numbers[e->n]);
    e->arg[e->n++] = arg;
}

static DType join(DType a, DType b) { return !a ? b : !b ? a : dtype_promote(a, b); }

/* combine_categories of PyTorch's result_type: the weaker one counts only if its category is higher. */
static DType join_weaker(DType strong, DType weak) {
    if (!strong || !weak) return join(strong, weak);
    if (dtype_is_float(strong)) return strong;
    return strong == DT_bool || dtype_is_float(weak) ? join(strong, weak) : strong;
}

DType promoted(const Elementwise *e) {
    DType dims = DT_default, zero = DT_default, wrapped = DT_default;
    for (int i = 0; i < e->n; i++) {
        const Meta *meta = e->in[i];
        if (meta->rank)
            dims = join(dims, meta->dtype);
        else if (!meta->wrapped)
            zero = join(zero, meta->dtype);
        else
            wrapped = join(wrapped, dtype_is_float(meta->dtype) ? DT_f32 : meta->dtype);
    }
    return join_weaker(dims, join_weaker(zero, wrapped));
}

bool broadcast_into(SymEnv *env, int64_t *sizes, int *rank, const int64_t *other, int other_rank) {
    if (other_rank > *rank) {
        const int grow = other_rank - *rank;
        memmove(sizes + grow, sizes, sizeof *sizes * (size_t)*rank);
        for (int i = 0; i < grow; i++) sizes[i] = 1;
        *rank = other_rank;
    }
    const int lead = *rank - other_rank;
    for (int i = 0; i < other_rank; i++) {
        int64_t *a = &sizes[lead + i];
        const int64_t b = other[i];
        if (b == 1) continue;
        if (*a != 1) { /* else b it is, which may be 1 as well: nobody need know */
            if (sym_same(env, *a, b) || sym_same(env, b, 1)) continue;
            if (!sym_same(env, *a, 1)) return false;
        }
        *a = b;
    }
    return true;
}

Status same_device(const MetaCall *call, const Meta *a, const Meta *b) {
    if (a->device == b->device) return ST_OK;
    return meta_fail(call, ST_DEVICE, "tensors are on different devices (%s and %s)", DEVICE_TEXT(a->device),
                     DEVICE_TEXT(b->device));
}

static Status broadcast_all(const MetaCall *call, const Elementwise *e, MetaOut *out) {
    Device device = e->in[0]->device;
    out->rank = 0;
    for (int i = 0; i < e->n; i++) {
        const Meta *in = e->in[i];
        if (!broadcast_into(call->env, out->sizes, &out->rank, in->sizes, in->rank))
            return meta_fail(call, ST_SHAPE, "%s %s does not broadcast with %s", arg_name(call, e->arg[i]),
                             SIZES(call, in), SIZES(call, e->in[0]));
        if (in->rank && !e->in[0]->rank) device = in->device;
    }
    for (int i = 0; i < e->n; i++) { /* 0-dim cpu tensors go anywhere */
        const Meta *in = e->in[i];
        if (in->device != device && (in->rank || in->device != DEV_cpu) && e->in[0]->rank)
            return same_device(call, e->in[0], in);
        if (in->device != DEV_cpu) device = in->device;
    }
    out_set(out, DT_default, device, out->sizes, out->rank);
    return ST_OK;
}

bool all_same(SymEnv *env, const int64_t *a, const int64_t *b, int n) {
    for (int i = 0; i < n; i++)
        if (!sym_same(env, a[i], b[i])) return false;
    return true;
}

Status meta_unbacked(MetaCall *call, int64_t least, int64_t *number) {
    enum { HINT = 2 };
    if (!call->unbacked) return meta_fail(call, ST_UNSUPPORTED, "the sizes of the result depend on values");
    if (!call->unbacked->symbol) {
        call->unbacked->symbol = sym_free(call->env, HINT, least);
        sym_free_give(call->env, call->unbacked->symbol, HINT, least, SYM_MOST);
    }
    call->unbacked->used = true;
    *number = call->unbacked->symbol;
    return ST_OK;
}

Status meta_unbacked_size(MetaCall *call, int64_t *size) { return meta_unbacked(call, 0, size); }

bool meta_beside_one(SymEnv *env, int64_t a, int64_t b) {
    const int64_t other = a == 1 ? b : a;
    return (a == 1 || b == 1) && sym_is(other) && sym_hint(env, other) >= 2 && sym_all_given(env, other);
}

/* Of a size that may be 1 beside one that is: strides come out the same where all is contiguous. */
static bool fits_first(SymEnv *env, const Meta *in, const Meta *first) {
    for (int d = 0; d < in->rank; d++)
        if (meta_beside_one(env, in->sizes[d], first->sizes[d])) return false;
    return all_same(env, in->sizes, first->sizes, in->rank);
}

/* PyTorch's fast set-up, for operands of equal sizes; false: none of its three cases. Sizes are equal as the broadcast
 * has decided: a size and a number may be so only by a guard. */
static bool fast_strides(SymEnv *env, const Elementwise *e, int64_t *strides) {
    const Meta *first = e->in[0];
    bool contiguous = true, channels_last = first->rank == 4; /* images only: volumes are dense */
    for (int i = 0; i < e->n; i++) {
        const Meta *const in = e->in[i];
        if (in->rank != first->rank || !fits_first(env, in, first)) return false;
        contiguous = contiguous && meta_decide_contiguous(env, in);
    }
    if (contiguous) {
        meta_contiguous_strides(env, first->sizes, first->rank, strides);
        return true;
    }
    for (int i = 0; i < e->n; i++)
        channels_last = channels_last && meta_is_channels_last(env, e->in[i]->sizes, e->in[i]->strides, first->rank);
    for (int i = 0; !channels_last && i < e->n; i++) {
        if (!dense_non_overlapping(env, e->in[i]->sizes, e->in[i]->strides, first->rank)) return false;
        if (!all_same(env, first->strides, e->in[i]->strides, first->rank)) return false;
    }
    if (!channels_last) {
        memcpy(strides, first->strides, sizeof *strides * (size_t)first->rank);
        return true;
    }
    const int64_t *n = first->sizes;
    strides[1] = 1, strides[3] = n[1], strides[2] = sym_mul(env, n[3], n[1]);
    strides[0] = sym_mul(env, strides[2], n[2]);
    return true;
}

void iterated_strides(MetaCall *call, const Meta *const *operands, int n) {
    MetaOut *const out = &call->out[0];
    Layout l;
    layout_begin(&l, call->env, out->rank, out->sizes);
    for (int i = 0; i < n && i < MAX_OPERANDS; i++) layout_add(&l, operands[i]);
    layout_strides(&l, out->strides);
}

Status elementwise_out(MetaCall *call, Elementwise *e, DType dtype) {
    MetaOut *out = &call->out[0];
    TRY(broadcast_all(call, e, out));
    TRY(check_numel(call, out->sizes, out->rank));
    out->dtype = dtype;
    if (fast_strides(call->env, e, out->strides)) return ST_OK;
    iterated_strides(call, e->in, e->n);
    return ST_OK;
}

Status elementwise(MetaCall *call, Elementwise *e) {
    for (int i = 0; i < call->row->n_params; i++) {
        const ParamType type = call->row->params[i].type;
        const bool tensor = type == PT_tensor || (type == PT_tensor_opt && arg_given(call, i));
        if (tensor && e->n < MAX_OPERANDS) elementwise_add(call, e, i);
    }
    e->common = promoted(e);
    return ST_OK;
}

/* An alias' numbers stand where its row has tensors. */
DType operands_promoted(const OpRow *row, const Arg *args) {
    Elementwise elements = {0};
    elementwise(&(MetaCall){.row = row->alias_of ? row->alias_of : row, .args = args}, &elements);
    return elements.common;
}

/* dims ---------------------------------------------------------------------------------------- */

Status wrap_dim(const MetaCall *call, int64_t dim, int rank, const char *name, int *out) {
    const int64_t count = max_i64(rank, 1);
    if (sym_is(dim)) dim = sym_concrete(call->env, dim);
    if (dim < -count || dim >= count)
        return meta_fail(call, ST_ARGUMENT, "%s %lld is out of range: expected %lld to %lld", name, (long long)dim,
                         (long long)-count, (long long)count - 1);
    *out = (int)(dim < 0 ? dim + count : dim);
    return ST_OK;
}

Status wrap_dims(const MetaCall *call, const Arg *dims, int rank, bool reduced[MAX_RANK]) {
    const bool all = dims->kind != ARG_ints || !dims->n;
    memset(reduced, all, MAX_RANK);
    for (int i = 0; !all && i < dims->n; i++) {
        int dim = 0;
        TRY(wrap_dim(call, dims->ints[i], rank, "dim", &dim));
        if (reduced[dim]) return meta_fail(call, ST_ARGUMENT, "dim %d appears twice", dim);
        reduced[dim] = true;
    }
    return ST_OK;
}

/* Results of reductions keep the input's dim order, as TensorIterator makes them. */
void reduced_out(MetaCall *call, int i, const Meta *in, const bool *reduced, bool keepdim, DType dtype) {
    MetaOut *out = &call->out[i];
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    int rank = 0;
    for (int dim = 0; dim < in->rank; dim++) sizes[dim] = reduced[dim] ? 1 : in->sizes[dim];
    meta_contiguous_strides(call->env, sizes, in->rank, strides);
    out_set(out, dtype, in->device, NULL, 0);
    for (int dim = 0; dim < in->rank; dim++) {
        if (reduced[dim] && !keepdim) continue;
        out->sizes[rank] = sizes[dim];
        out->strides[rank++] = strides[dim];
    }
    out->rank = rank;
    out_contiguous(call, out);
}

Order reduction_order(const Meta *in, const bool *reduced) {
    int trailing = in->rank;
    bool other = false;
    while (trailing > 0 && reduced[trailing - 1]) trailing--;
    for (int dim = 0; dim < trailing; dim++) other = other || reduced[dim];
    if (trailing == in->rank && in->rank) return other ? ORDER_S : ORDER_none;
    return other ? ORDER_LS : ORDER_L;
}

bool can_cast(DType from, DType to) {
    if (dtype_is_float(from)) return dtype_is_float(to);
    return from == DT_bool || to != DT_bool;
}
