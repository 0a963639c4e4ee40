/* meta_view_dims.c: views that rearrange, cut, add or drop dims: transpose, slice, select, squeeze, diagonal, unfold...
 * Negative dims and positions count from the end. */
#include "ir/meta_rules.h"

/* The result in the making: starts as the argument, then dims are moved, cut, inserted, removed. */
typedef struct ViewDims {
    MetaOut *out;
    const Meta *in;
} ViewDims;

static ViewDims begin_dims(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    MetaOut *out = &call->out[0];
    out_set(out, in->dtype, in->device, in->sizes, in->rank);
    if (in->rank) memcpy(out->strides, in->strides, sizeof *out->strides * (size_t)in->rank);
    out->alias = 0;
    return (ViewDims){out, in};
}

static void remove_dim(MetaOut *out, int dim) {
    const size_t after = sizeof *out->sizes * (size_t)(out->rank - dim - 1);
    memmove(out->sizes + dim, out->sizes + dim + 1, after);
    memmove(out->strides + dim, out->strides + dim + 1, after);
    out->rank--;
}

static Status insert_dim(const MetaCall *call, MetaOut *out, int dim, int64_t size, int64_t stride) {
    if (out->rank == MAX_RANK) return meta_fail(call, ST_SHAPE, "more than %d dims", MAX_RANK);
    const size_t after = sizeof *out->sizes * (size_t)(out->rank - dim);
    memmove(out->sizes + dim + 1, out->sizes + dim, after);
    memmove(out->strides + dim + 1, out->strides + dim, after);
    out->sizes[dim] = size;
    out->strides[dim] = stride;
    out->rank++;
    return ST_OK;
}

static Status named_dim(const MetaCall *call, const char *name, int rank, int *out) {
    return wrap_dim(call, arg_named(call, name)->i, rank, name, out);
}

Status meta_alias(MetaCall *call) {
    begin_dims(call);
    return ST_OK;
}

Status meta_permute(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    const Arg *dims = arg_named(call, "dims");
    bool seen[MAX_RANK] = {false};
    if (dims->n != v.in->rank)
        return meta_fail(call, ST_ARGUMENT, "dims %s don't name each dim of self %s once",
                         sizes_text(call, dims->ints, dims->n).at, SIZES(call, v.in));
    for (int i = 0; i < dims->n; i++) {
        int from = 0;
        TRY(wrap_dim(call, dims->ints[i], v.in->rank, "dims", &from));
        if (seen[from]) return meta_fail(call, ST_ARGUMENT, "dim %d appears twice in dims", from);
        seen[from] = true;
        v.out->sizes[i] = v.in->sizes[from];
        v.out->strides[i] = v.in->strides[from];
    }
    return ST_OK;
}

static void exchange(const ViewDims *v, int a, int b) {
    if (!v->in->rank) return;
    v->out->sizes[a] = v->in->sizes[b], v->out->sizes[b] = v->in->sizes[a];
    v->out->strides[a] = v->in->strides[b], v->out->strides[b] = v->in->strides[a];
}

Status meta_transpose(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    int a = 0, b = 0;
    TRY(named_dim(call, "dim0", v.in->rank, &a));
    TRY(named_dim(call, "dim1", v.in->rank, &b));
    exchange(&v, a, b);
    return ST_OK;
}

Status meta_t(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    if (v.in->rank > 2)
        return meta_fail(call, ST_SHAPE, "self must have at most 2 dims, not sizes %s", SIZES(call, v.in));
    if (v.in->rank == 2) exchange(&v, 0, 1);
    return ST_OK;
}

int64_t slice_position(SymEnv *env, const Arg *given, int64_t fallback, int64_t size) {
    if (given->kind == ARG_none) return fallback;
    int64_t at = given->i;
    if (sym_identical(at, INT64_MAX)) return size;
    if (sym_less(env, at, 0)) at = sym_add(env, at, size);
    if (sym_less(env, at, 0)) return 0;
    return sym_less(env, size, at) ? size : at;
}

/* How many steps begin within a span, both plain or symbolic. A plain step may be as large as it likes: the sum of a
 * symbolic span and such a one would not fit, but few spans hold more than one. */
static int64_t steps_in(SymEnv *env, int64_t span, int64_t step) {
    if (sym_is(span) && !sym_is(step) && step > INT32_MAX) {
        if (sym_at_most(env, span, 0)) return 0;
        if (sym_at_most(env, span, step)) return 1;
        span = sym_concrete(env, span);
    }
    if (!sym_is(span) && !sym_is(step)) return span / step + (span % step != 0);
    return sym_div(env, sym_add(env, span, sym_sub(env, step, 1)), step);
}

static Status step_stride(const MetaCall *call, int64_t stride, int64_t step, int64_t *out) {
    if (sym_is(stride) || sym_is(step)) return *out = sym_mul(call->env, stride, step), ST_OK;
    if (mul_ok(stride, step, out)) return ST_OK;
    return meta_fail(call, ST_VALUE, "step %lld is too large for a dim of stride %lld", (long long)step,
                     (long long)stride);
}

static Status cut_dim(MetaCall *call, const ViewDims *v, int dim, int64_t start, int64_t end, int64_t step) {
    SymEnv *env = call->env;
    MetaOut *out = v->out;
    if (sym_less(env, end, start)) end = start;
    const int64_t span = sym_sub(env, end, start);
    out->offset = sym_mul(env, start, v->in->strides[dim]);
    out->sizes[dim] = step == 1 ? span : steps_in(env, span, step);
    return step_stride(call, v->in->strides[dim], step, &out->strides[dim]);
}

Status meta_slice(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    int dim = 0;
    if (!v.in->rank) return meta_fail(call, ST_SHAPE, "a 0-dim tensor can't be sliced");
    TRY(named_dim(call, "dim", v.in->rank, &dim));
    const int64_t size = v.in->sizes[dim];
    int64_t step = arg_named(call, "step")->i;
    if (sym_is(step)) step = sym_concrete(call->env, step);
    if (step <= 0) return meta_fail(call, ST_VALUE, "step must be positive, not %lld", (long long)step);
    const int64_t start = slice_position(call->env, arg_named(call, "start"), 0, size);
    const int64_t end = slice_position(call->env, arg_named(call, "end"), size, size);
    return cut_dim(call, &v, dim, start, end, step);
}

/* narrow refuses what slice would clip. */
Status meta_narrow(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    SymEnv *env = call->env;
    int dim = 0;
    if (!v.in->rank) return meta_fail(call, ST_SHAPE, "a 0-dim tensor can't be narrowed");
    TRY(named_dim(call, "dim", v.in->rank, &dim));
    const int64_t size = v.in->sizes[dim], length = arg_named(call, "length")->i;
    int64_t start = arg_named(call, "start")->i;
    if (sym_less(env, length, 0)) return meta_fail(call, ST_VALUE, "length must not be negative");
    if (sym_less(env, start, 0)) start = sym_add(env, start, size);
    if (sym_less(env, start, 0) || sym_less(env, sym_sub(env, size, length), start))
        return meta_fail(call, ST_VALUE, "start %lld and length %lld exceed dim %d of size %lld",
                         (long long)sym_hint(env, arg_named(call, "start")->i), (long long)sym_hint(env, length), dim,
                         (long long)sym_hint(env, size));
    return cut_dim(call, &v, dim, start, sym_add(env, start, length), 1);
}

Status meta_select(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    SymEnv *env = call->env;
    int dim = 0;
    if (!v.in->rank) return meta_fail(call, ST_SHAPE, "nothing to select in a 0-dim tensor");
    TRY(named_dim(call, "dim", v.in->rank, &dim));
    const int64_t size = v.in->sizes[dim];
    int64_t index = arg_named(call, "index")->i;
    if (sym_less(env, index, 0)) index = sym_add(env, index, size);
    if (sym_less(env, index, 0) || !sym_less(env, index, size))
        return meta_fail(call, ST_VALUE, "index %lld is out of range for dim %d of size %lld",
                         (long long)sym_hint(env, arg_named(call, "index")->i), dim, (long long)sym_hint(env, size));
    v.out->offset = sym_mul(env, index, v.in->strides[dim]);
    remove_dim(v.out, dim);
    return ST_OK;
}

/* squeeze, squeeze.dim, squeeze.dims. */
Status meta_squeeze(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    bool asked[MAX_RANK];
    memset(asked, call->row->n_params == 1, sizeof asked);
    if (call->row->n_params > 1) {
        const Arg *given = &call->args[1];
        const int64_t *dims = given->kind == ARG_int ? &given->i : given->ints;
        const int n = given->kind == ARG_int ? 1 : given->n;
        for (int i = 0; i < n; i++) {
            int dim = 0;
            TRY(wrap_dim(call, dims[i], v.in->rank, "dim", &dim));
            if (asked[dim]) return meta_fail(call, ST_ARGUMENT, "dim %d appears twice", dim);
            asked[dim] = true;
        }
    }
    for (int dim = v.in->rank - 1; dim >= 0; dim--)
        if (asked[dim] && sym_same(call->env, v.in->sizes[dim], 1)) remove_dim(v.out, dim);
    return ST_OK;
}

Status meta_unsqueeze(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    int dim = 0;
    TRY(named_dim(call, "dim", v.in->rank + 1, &dim));
    const int64_t stride = dim < v.in->rank ? sym_mul(call->env, v.in->sizes[dim], v.in->strides[dim]) : 1;
    return insert_dim(call, v.out, dim, 1, stride);
}

/* Offsets are absolute in the storage; the result's is told relative to self's. */
Status meta_as_strided(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    const Arg *size = arg_named(call, "size"), *stride = arg_named(call, "stride"),
              *offset = arg_named(call, "storage_offset");
    if (size->n != stride->n || size->n > MAX_RANK)
        return meta_fail(call, ST_ARGUMENT, "size has %d dims, but stride has %d", size->n, stride->n);
    TRY(check_numel(call, size->ints, size->n));
    for (int i = 0; i < size->n; i++) {
        if (sym_less(call->env, stride->ints[i], 0))
            return meta_fail(call, ST_ARGUMENT, "negative strides are not supported");
        v.out->sizes[i] = size->ints[i];
        v.out->strides[i] = stride->ints[i];
    }
    v.out->rank = size->n;
    if (offset->kind == ARG_none) return ST_OK;
    if (sym_less(call->env, offset->i, 0)) return meta_fail(call, ST_ARGUMENT, "storage_offset must not be negative");
    v.out->offset = sym_sub(call->env, offset->i, call->base_offset);
    return ST_OK;
}

Status meta_diagonal(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    SymEnv *env = call->env;
    int a = 0, b = 0;
    TRY(named_dim(call, "dim1", v.in->rank, &a));
    TRY(named_dim(call, "dim2", v.in->rank, &b));
    if (a == b) return meta_fail(call, ST_ARGUMENT, "dim1 and dim2 are both %d", a);
    const int64_t by = arg_named(call, "offset")->i;
    const bool above = !sym_less(env, by, 0);
    const int64_t rows = above ? v.in->sizes[a] : sym_add(env, v.in->sizes[a], by);
    const int64_t columns = above ? sym_sub(env, v.in->sizes[b], by) : v.in->sizes[b];
    const int64_t length = sym_max(env, sym_min(env, rows, columns), 0);
    const int64_t stride = sym_add(env, v.in->strides[a], v.in->strides[b]);
    if (!sym_same(env, length, 0))
        v.out->offset =
            above ? sym_mul(env, by, v.in->strides[b]) : sym_mul(env, sym_sub(env, 0, by), v.in->strides[a]);
    remove_dim(v.out, a > b ? a : b);
    remove_dim(v.out, a > b ? b : a);
    return insert_dim(call, v.out, v.out->rank, length, stride);
}

Status meta_unfold(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    SymEnv *env = call->env;
    int dim = 0;
    TRY(named_dim(call, "dimension", v.in->rank, &dim));
    const int64_t window = arg_named(call, "size")->i, step = arg_named(call, "step")->i;
    const int64_t have = v.in->rank ? v.in->sizes[dim] : 1, stride = v.in->rank ? v.in->strides[dim] : 1;
    if (sym_less(env, window, 0) || sym_less(env, have, window))
        return meta_fail(call, ST_SHAPE, "windows of %lld don't fit dim %d of size %lld",
                         (long long)sym_hint(env, window), dim, (long long)sym_hint(env, have));
    if (!sym_less(env, 0, step))
        return meta_fail(call, ST_VALUE, "step must be positive, not %lld", (long long)sym_hint(env, step));
    if (v.in->rank) {
        v.out->sizes[dim] = sym_add(env, sym_div(env, sym_sub(env, have, window), step), 1);
        TRY(step_stride(call, stride, step, &v.out->strides[dim]));
    }
    return insert_dim(call, v.out, v.out->rank, window, stride);
}

static Arg as_list(const Arg *arg) { return arg->kind == ARG_ints ? *arg : A_INTS(&arg->i, 1); }

Status meta_movedim(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    const Arg from = as_list(arg_named(call, "source")), to = as_list(arg_named(call, "destination"));
    int place[MAX_RANK]; /* by destination: source + 1 */
    bool moved[MAX_RANK] = {false};
    memset(place, 0, sizeof place);
    if (from.n != to.n) return meta_fail(call, ST_ARGUMENT, "source has %d dims, but destination has %d", from.n, to.n);
    for (int i = 0; i < from.n; i++) {
        int source = 0, destination = 0;
        TRY(wrap_dim(call, from.ints[i], v.in->rank, "source", &source));
        TRY(wrap_dim(call, to.ints[i], v.in->rank, "destination", &destination));
        if (moved[source] || place[destination]) return meta_fail(call, ST_ARGUMENT, "a dim appears twice");
        moved[source] = true;
        place[destination] = source + 1;
    }
    for (int i = 0, next = 0; i < v.in->rank; i++) {
        while (!place[i] && moved[next]) next++;
        const int source = place[i] ? place[i] - 1 : next++;
        v.out->sizes[i] = v.in->sizes[source];
        v.out->strides[i] = v.in->strides[source];
    }
    return ST_OK;
}

/* pieces -------------------------------------------------------------------------------------- */

static void piece(MetaCall *call, int i, const Meta *in, int dim, int64_t start, int64_t size) {
    MetaOut *out = out_list(call, i);
    if (!out) return;
    out_set(out, in->dtype, in->device, in->sizes, in->rank);
    memcpy(out->strides, in->strides, sizeof *out->strides * (size_t)in->rank);
    out->sizes[dim] = size;
    out->offset = sym_mul(call->env, start, in->strides[dim]);
    out->alias = 0;
}

/* Nobody has room for more; a dim of any size may be asked to become as many. */
static Status count_pieces(MetaCall *call, int64_t n) {
    if (n > MAX_LIST) return meta_fail(call, ST_UNSUPPORTED, "%lld results; at most %d", (long long)n, MAX_LIST);
    call->n_out = (int)n;
    return ST_OK;
}

/* n pieces of `size`, the last one smaller. */
static Status equal_pieces(MetaCall *call, const Meta *in, int dim, int64_t size, int64_t n) {
    SymEnv *env = call->env;
    for (int i = 0; i < n && out_list(call, i); i++) {
        const int64_t start = sym_mul(env, i, size), left = sym_sub(env, in->sizes[dim], start);
        piece(call, i, in, dim, start, i + 1 < n ? size : left);
    }
    return count_pieces(call, n);
}

static Status piece_dim(MetaCall *call, const Meta *in, int *dim) {
    if (!in->rank) return meta_fail(call, ST_SHAPE, "a 0-dim tensor has no pieces");
    return named_dim(call, "dim", in->rank, dim);
}

Status meta_split(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    int dim = 0;
    TRY(piece_dim(call, in, &dim));
    int64_t size = call->args[1].i;
    if (sym_less(call->env, size, 0)) return meta_fail(call, ST_VALUE, "split_size must not be negative");
    if (sym_same(call->env, size, 0)) {
        if (!sym_same(call->env, in->sizes[dim], 0))
            return meta_fail(call, ST_VALUE, "split_size 0 needs a dim of size 0");
        size = 1;
    }
    const int64_t n = steps_in(call->env, in->sizes[dim], size);
    return equal_pieces(call, in, dim, size, max_i64(sym_concrete(call->env, n), 1));
}

Status meta_chunk(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    int dim = 0;
    TRY(piece_dim(call, in, &dim));
    const int64_t chunks = sym_concrete(call->env, call->args[1].i);
    if (chunks <= 0) return meta_fail(call, ST_VALUE, "chunks must be positive, not %lld", (long long)chunks);
    const int64_t whole = in->sizes[dim];
    const int64_t size = steps_in(call->env, whole, chunks);
    if (sym_same(call->env, size, 0)) return equal_pieces(call, in, dim, 0, chunks);
    const int64_t n = steps_in(call->env, whole, size);
    return equal_pieces(call, in, dim, size, max_i64(sym_concrete(call->env, n), 1));
}

Status meta_split_with_sizes(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    const Arg *sizes = &call->args[1];
    int dim = 0;
    int64_t start = 0;
    TRY(piece_dim(call, in, &dim));
    for (int i = 0; i < sizes->n; i++) {
        if (sym_less(call->env, sizes->ints[i], 0)) return meta_fail(call, ST_VALUE, "sizes must not be negative");
        piece(call, i, in, dim, start, sizes->ints[i]);
        start = sym_add(call->env, start, sizes->ints[i]);
    }
    if (!sym_same(call->env, start, in->sizes[dim]))
        return meta_fail(call, ST_SHAPE, "sizes %s don't add up to dim %d of self %s",
                         sizes_text(call, sizes->ints, sizes->n).at, dim, SIZES(call, in));
    return count_pieces(call, sizes->n);
}

/* From one place to before the next, as Python slices. */
static void sliced_piece(MetaCall *call, int i, const Meta *in, int dim, const Arg *from, const Arg *to) {
    const int64_t size = in->sizes[dim], start = slice_position(call->env, from, 0, size);
    const int64_t end = slice_position(call->env, to, size, size);
    piece(call, i, in, dim, start, sym_max(call->env, sym_sub(call->env, end, start), 0));
}

/* (self, indices, dim) */
Status meta_tensor_split_indices(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    const Arg *const at = &call->args[1], none = A_NONE;
    int dim = 0;
    TRY(piece_dim(call, in, &dim));
    for (int i = 0; i <= at->n && out_list(call, i); i++) {
        const Arg from = i ? A_INT(at->ints[i - 1]) : none, to = i < at->n ? A_INT(at->ints[i]) : none;
        sliced_piece(call, i, in, dim, &from, &to);
    }
    return count_pieces(call, at->n + 1);
}

/* (self, sections, dim) */
Status meta_tensor_split_sections(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    int dim = 0;
    TRY(piece_dim(call, in, &dim));
    const int64_t n = sym_concrete(call->env, call->args[1].i), size = sym_concrete(call->env, in->sizes[dim]);
    if (n <= 0) return meta_fail(call, ST_ARGUMENT, "sections must be positive, not %lld", (long long)n);
    for (int64_t i = 0, start = 0; i < n && out_list(call, (int)i); i++) {
        const int64_t each = size / n + (i < size % n);
        piece(call, (int)i, in, dim, start, each);
        start += each;
    }
    return count_pieces(call, n);
}

/* What views of pieces are as copies; there was room for so many. */
static Status copied_pieces(MetaCall *call, MetaFn *views) {
    const int room = call->n_out;
    TRY(views(call));
    for (int i = 0; i < call->n_out && i < room; i++) {
        out_contiguous(call, &call->out[i]);
        call->out[i].alias = -1, call->out[i].offset = 0;
    }
    return ST_OK;
}
MetaFn meta_unbind;
Status meta_split_with_sizes_copy(MetaCall *call) { return copied_pieces(call, meta_split_with_sizes); }
Status meta_unbind_copy(MetaCall *call) { return copied_pieces(call, meta_unbind); }

Status meta_unbind(MetaCall *call) {
    const Meta *in = tensor_meta(call, 0);
    int dim = 0;
    TRY(piece_dim(call, in, &dim));
    const int64_t n = sym_concrete(call->env, in->sizes[dim]);
    for (int i = 0; i < n && out_list(call, i); i++) {
        piece(call, i, in, dim, i, 1);
        remove_dim(out_list(call, i), dim);
    }
    return count_pieces(call, n);
}

/* lists --------------------------------------------------------------------------------------- */

Status meta_numpy_T(MetaCall *call) {
    const ViewDims v = begin_dims(call);
    for (int d = 0; d < v.in->rank / 2; d++) exchange(&v, d, v.in->rank - 1 - d);
    return ST_OK;
}

/* Result i of the rule is what a rule of one tensor makes of the list's element `of`. */
static Status element_with(MetaCall *call, int i, MetaFn *rule, int of, const int64_t *sizes, int n) {
    MetaCall one = *call;
    MetaOut *const out = out_list(call, i);
    if (!out) return ST_OK;
    one.args = (const Arg[]){A_VAL(call->args[0].vals[of]), A_INTS(sizes, n)};
    one.out = out, one.n_out = 1;
    return rule(&one);
}

MetaFn meta_expand, meta_view;
Status meta_broadcast_tensors(MetaCall *call) {
    const Arg *const list = &call->args[0];
    int64_t sizes[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < list->n; i++)
        if (!broadcast_into(call->env, sizes, &rank, list->vals[i]->meta->sizes, list->vals[i]->meta->rank))
            return meta_fail(call, ST_SHAPE, "tensor %d of sizes %s does not broadcast with the others, %s", i,
                             SIZES(call, list->vals[i]->meta), sizes_text(call, sizes, rank).at);
    for (int i = 0; i < list->n; i++) TRY(element_with(call, i, meta_expand, i, sizes, rank));
    return count_pieces(call, list->n);
}

static Status grid_fits(const MetaCall *call, const Arg *list) {
    if (!list->n || list->n > MAX_RANK)
        return meta_fail(call, ST_ARGUMENT, "a grid has 1 to %d dims, not %d", MAX_RANK, list->n);
    for (int i = 0; i < list->n; i++) {
        const Meta *const meta = list->vals[i]->meta, *const first = list->vals[0]->meta;
        if (meta->rank > 1)
            return meta_fail(call, ST_SHAPE, "tensor %d must have 1 dim or none, not sizes %s", i, SIZES(call, meta));
        if (meta->dtype != first->dtype)
            return meta_fail(call, ST_DTYPE, "tensor %d is %s, but the first one %s", i, dtype_name(meta->dtype),
                             dtype_name(first->dtype));
        TRY(same_device(call, first, meta));
    }
    return ST_OK;
}

/* Which dim of the grid tensor i is: of 'xy' the first two are exchanged. */
static Status grid_order(const MetaCall *call, bool *exchanged) {
    const Arg *const indexing = arg_named(call, "indexing");
    *exchanged = indexing && !strcmp(indexing->string, "xy");
    if (!indexing || *exchanged || !strcmp(indexing->string, "ij")) return ST_OK;
    return meta_fail(call, ST_ARGUMENT, "indexing must be 'xy' or 'ij', not '%s'", indexing->string);
}

/* A view with dims of size 1 around its own, of which those of others then grow. */
static Status grid_part(MetaCall *call, int i, int at, const int64_t *grid, int n) {
    const Meta *const meta = call->args[0].vals[i]->meta;
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < n; d++) sizes[d] = d == at && meta->rank ? meta->sizes[0] : 1;
    TRY(element_with(call, i, meta_view, i, sizes, n));
    MetaOut *const out = out_list(call, i);
    for (int d = 0; out && d < n; d++) {
        if (!sym_same(call->env, sizes[d], grid[d])) out->strides[d] = 0;
        out->sizes[d] = grid[d];
    }
    return ST_OK;
}

Status meta_meshgrid(MetaCall *call) {
    const Arg *const list = &call->args[0];
    int64_t grid[MAX_RANK];
    bool exchanged;
    TRY(grid_fits(call, list));
    TRY(grid_order(call, &exchanged));
    exchanged = exchanged && list->n > 1;
    for (int i = 0; i < list->n; i++)
        grid[exchanged && i < 2 ? 1 - i : i] = list->vals[i]->meta->rank ? list->vals[i]->meta->sizes[0] : 1;
    TRY(check_numel(call, grid, list->n));
    for (int i = 0; i < list->n; i++) TRY(grid_part(call, i, exchanged && i < 2 ? 1 - i : i, grid, list->n));
    return count_pieces(call, list->n);
}
