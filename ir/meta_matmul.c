/* meta_matmul.c: products of matrices: shapes, one dtype for all operands, ORDER_chain [semantics B2]. */
#include "ir/meta_rules.h"

static Status want_rank(const MetaCall *call, int i, int rank) {
    const Meta *meta = tensor_meta(call, i);
    if (meta->rank == rank) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s must have %d dims, not sizes %s", arg_name(call, i), rank, SIZES(call, meta));
}

static Status want_same_dtype(const MetaCall *call, int a, int b) {
    const Meta *left = tensor_meta(call, a), *right = tensor_meta(call, b);
    if (left->dtype != right->dtype)
        return meta_fail(call, ST_DTYPE, "%s is %s, but %s is %s", arg_name(call, a), dtype_name(left->dtype),
                         arg_name(call, b), dtype_name(right->dtype));
    return same_device(call, left, right);
}

static Status want_equal(const MetaCall *call, int a, int dim_a, int b, int dim_b) {
    const Meta *left = tensor_meta(call, a), *right = tensor_meta(call, b);
    const int64_t x = left->sizes[dim_a], y = right->sizes[dim_b];
    if (sym_same(call->env, x, y)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s %s does not match %s %s: %lld != %lld", arg_name(call, b), SIZES(call, right),
                     arg_name(call, a), SIZES(call, left), (long long)sym_hint(call->env, x),
                     (long long)sym_hint(call->env, y));
}

Status meta_mm(MetaCall *call) {
    TRY(want_rank(call, 0, 2));
    TRY(want_rank(call, 1, 2));
    TRY(want_same_dtype(call, 0, 1));
    TRY(want_equal(call, 0, 1, 1, 0));
    const Meta *a = tensor_meta(call, 0), *b = tensor_meta(call, 1);
    out_plain(call, 0, a->dtype, a->device, (const int64_t[]){a->sizes[0], b->sizes[1]}, 2);
    call->order = ORDER_chain;
    return ST_OK;
}

static Status bmm_operands(MetaCall *call, int a, int b) {
    TRY(want_rank(call, a, 3));
    TRY(want_rank(call, b, 3));
    TRY(want_same_dtype(call, a, b));
    TRY(want_equal(call, a, 0, b, 0));
    return want_equal(call, a, 2, b, 1);
}

Status meta_bmm(MetaCall *call) {
    TRY(bmm_operands(call, 0, 1));
    const Meta *a = tensor_meta(call, 0), *b = tensor_meta(call, 1);
    out_plain(call, 0, a->dtype, a->device, (const int64_t[]){a->sizes[0], a->sizes[1], b->sizes[2]}, 3);
    call->order = ORDER_chain;
    return ST_OK;
}

/* mm.dtype and the like: what the operands are widened to before they are multiplied. */
static Status wide_result(MetaCall *call, int operand) {
    const DType own = tensor_meta(call, operand)->dtype,
                wide = (DType)call->args[op_param_find(call->row, "out_dtype")].i;
    if (wide != own && (wide != DT_f32 || (own != DT_f16 && own != DT_bf16)))
        return meta_fail(call, ST_DTYPE,
                         "out_dtype must be that of the operands, or f32 for f16 and bf16; not %s "
                         "for %s",
                         dtype_name(wide), dtype_name(own));
    call->out[0].dtype = wide;
    return ST_OK;
}

Status meta_mm_dtype(MetaCall *call) {
    TRY(meta_mm(call));
    return wide_result(call, 0);
}

Status meta_bmm_dtype(MetaCall *call) {
    TRY(meta_bmm(call));
    return wide_result(call, 0);
}

/* self, of the result's dtype or the operands', broadcasts to the product. */
static Status check_added(MetaCall *call) {
    const Meta *self = tensor_meta(call, 0);
    MetaOut *out = &call->out[0];
    int64_t sizes[MAX_RANK];
    int rank = out->rank;
    if (op_param_find(call->row, "out_dtype") >= 0) TRY(wide_result(call, 1));
    if (self->dtype != out->dtype) TRY(want_same_dtype(call, 0, 1));
    TRY(same_device(call, self, tensor_meta(call, 1)));
    for (int i = 0; i < call->row->n_params; i++)
        if (self->rank < 3 && out->rank < 3 && call->row->params[i].type == PT_scalar &&
            call->args[i].kind == ARG_float &&
            !dtype_is_float(self->dtype)) /* baddbmm truncates them, as PyTorch does */
            return meta_fail(call, ST_DTYPE, "%s must not be a float for %s", arg_name(call, i),
                             dtype_name(self->dtype));
    memcpy(sizes, out->sizes, sizeof *sizes * (size_t)rank);
    bool fits = self->rank <= rank && broadcast_into(call->env, sizes, &rank, self->sizes, self->rank);
    for (int i = 0; fits && i < rank; i++) fits = sym_same(call->env, sizes[i], out->sizes[i]);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "self %s does not broadcast to the product's sizes %s", SIZES(call, self),
                     sizes_text(call, out->sizes, out->rank).at);
}

Status meta_addmm(MetaCall *call) {
    TRY(want_rank(call, 1, 2));
    TRY(want_rank(call, 2, 2));
    TRY(want_same_dtype(call, 1, 2));
    TRY(want_equal(call, 1, 1, 2, 0));
    const Meta *a = tensor_meta(call, 1), *b = tensor_meta(call, 2);
    out_plain(call, 0, a->dtype, a->device, (const int64_t[]){a->sizes[0], b->sizes[1]}, 2);
    call->order = ORDER_chain;
    return check_added(call);
}

Status meta_baddbmm(MetaCall *call) {
    TRY(bmm_operands(call, 1, 2));
    const Meta *a = tensor_meta(call, 1), *b = tensor_meta(call, 2);
    out_plain(call, 0, a->dtype, a->device, (const int64_t[]){a->sizes[0], a->sizes[1], b->sizes[2]}, 3);
    call->order = ORDER_chain;
    return check_added(call);
}

/* 1-D operands gain a dim that the result drops; leading dims broadcast. */
static Status matmul_out(MetaCall *call, int a, int b) {
    const Meta *left = tensor_meta(call, a), *right = tensor_meta(call, b);
    int64_t sizes[MAX_RANK];
    int rank = left->rank > 2 ? left->rank - 2 : 0;
    if (!left->rank || !right->rank) return meta_fail(call, ST_SHAPE, "both operands must have at least 1 dim");
    TRY(want_same_dtype(call, a, b));
    TRY(want_equal(call, a, left->rank - 1, b, right->rank > 1 ? right->rank - 2 : 0));
    if (rank) memcpy(sizes, left->sizes, sizeof *sizes * (size_t)rank);
    if (!broadcast_into(call->env, sizes, &rank, right->sizes, right->rank > 2 ? right->rank - 2 : 0))
        return meta_fail(call, ST_SHAPE, "leading dims of %s %s and %s %s don't broadcast", arg_name(call, a),
                         SIZES(call, left), arg_name(call, b), SIZES(call, right));
    if (left->rank > 1) sizes[rank++] = left->sizes[left->rank - 2];
    if (right->rank > 1) sizes[rank++] = right->sizes[right->rank - 1];
    out_plain(call, 0, left->dtype, left->device, sizes, rank);
    return ST_OK;
}

Status meta_matmul(MetaCall *call) { return matmul_out(call, 0, 1); }

/* bias broadcasts to the result; a 1-D input is a row of one. A 1-D weight is no matrix, which PyTorch wants of a
 * weight wherever it adds the bias in the product. */
static Status bias_fits(const MetaCall *call, const int64_t *sizes, int rank) {
    const Meta *input = tensor_meta(call, 0), *weight = tensor_meta(call, 1), *bias = tensor_meta(call, 2);
    int64_t wide[MAX_RANK] = {1};
    const bool row = input->rank == 1 && weight->rank == 2 && bias->rank == 2;
    const int n = rank + row;
    int wide_rank = n;
    if (rank) memcpy(wide + row, sizes, sizeof *sizes * (size_t)rank);
    TRY(want_same_dtype(call, 0, 2));
    bool fits = weight->rank == 2 ||
                (bias->rank == 0 ? input->rank != 2
                                 : input->rank > 2 && (bias->rank > 1 || !meta_decide_contiguous(call->env, input)));
    fits = fits && bias->rank <= n && broadcast_into(call->env, wide, &wide_rank, bias->sizes, bias->rank);
    for (int i = 0; fits && i < n; i++) fits = sym_same(call->env, wide[i], i < row ? 1 : sizes[i - row]);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "bias %s does not fit input %s and weight %s", SIZES(call, bias),
                     SIZES(call, input), SIZES(call, weight));
}

Status meta_linear(MetaCall *call) {
    const Meta *input = tensor_meta(call, 0), *weight = tensor_meta(call, 1);
    int64_t sizes[MAX_RANK];
    if (!input->rank || weight->rank < 1 || weight->rank > 2)
        return meta_fail(call, ST_SHAPE, "input %s and weight %s don't fit", SIZES(call, input), SIZES(call, weight));
    TRY(want_same_dtype(call, 0, 1));
    TRY(want_equal(call, 0, input->rank - 1, 1, weight->rank - 1));
    memcpy(sizes, input->sizes, sizeof *sizes * (size_t)input->rank);
    int rank = input->rank - 1;
    if (weight->rank == 2) sizes[rank++] = weight->sizes[0];
    if (tensor_meta(call, 2)) TRY(bias_fits(call, sizes, rank));
    out_plain(call, 0, input->dtype, input->device, sizes, rank);
    return ST_OK;
}

Status meta_outer(MetaCall *call) {
    TRY(want_rank(call, 0, 1));
    TRY(want_rank(call, 1, 1));
    const Meta *a = tensor_meta(call, 0), *b = tensor_meta(call, 1);
    out_plain(call, 0, dtype_promote(a->dtype, b->dtype), a->device, (const int64_t[]){a->sizes[0], b->sizes[0]}, 2);
    return ST_OK;
}

static Status attention_fits(MetaCall *call) {
    const Meta *query = tensor_meta(call, 0), *key = tensor_meta(call, 1), *value = tensor_meta(call, 2);
    if (query->rank < 2 || key->rank != query->rank || value->rank != query->rank)
        return meta_fail(call, ST_SHAPE, "query, key and value need one rank of at least 2, not sizes %s, %s and %s",
                         SIZES(call, query), SIZES(call, key), SIZES(call, value));
    const int rank = query->rank;
    int64_t sizes[MAX_RANK];
    TRY(want_same_dtype(call, 0, 1));
    TRY(want_same_dtype(call, 0, 2));
    TRY(want_equal(call, 0, rank - 1, 1, rank - 1));
    TRY(want_equal(call, 1, rank - 2, 2, rank - 2));
    memcpy(sizes, query->sizes, sizeof *sizes * (size_t)rank);
    sizes[rank - 1] = value->sizes[rank - 1];
    out_plain(call, 0, query->dtype, query->device, sizes, rank);
    return ST_OK;
}

Status meta_sdpa(MetaCall *call) {
    const Arg *const mask = arg_named(call, "attn_mask"), *const causal = arg_named(call, "is_causal");
    if (mask->kind == ARG_tensor && mask->val && causal->i)
        return meta_fail(call, ST_ARGUMENT, "is_causal is a mask: attn_mask must not be given with it");
    return attention_fits(call);
}

/* It broadcasts with the scores, which stay of their sizes. */
static Status mask_fits_scores(const MetaCall *call, const Meta *query, const Meta *key) {
    const Arg *const mask = arg_named(call, "attn_mask");
    if (mask->kind != ARG_tensor || !mask->val) return ST_OK;
    const Meta *const meta = mask->val->meta;
    const int64_t scores[4] = {query->sizes[0], query->sizes[1], query->sizes[2], key->sizes[2]};
    int64_t joined[MAX_RANK];
    int rank = 4;
    memcpy(joined, scores, sizeof scores);
    const bool joins = meta->rank <= 4 && broadcast_into(call->env, joined, &rank, meta->sizes, meta->rank);
    if (joins && all_same(call->env, joined, scores, 4)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "attn_mask %s does not broadcast to the scores, %s", SIZES(call, meta),
                     sizes_text(call, scores, 4).at);
}

/* 4-D operands; the sums of rows in the compute type. */
/* Heads of key and value, behind query at argument `at`, are query's, or each is that of as many of query's. */
static Status heads_fit(const MetaCall *call, int at) {
    SymEnv *const env = call->env;
    const int64_t heads = tensor_meta(call, at)->sizes[1], kept = tensor_meta(call, at + 1)->sizes[1];
    TRY(want_equal(call, at + 1, 1, at + 2, 1));
    if (sym_same(env, heads, kept)) return ST_OK;
    const bool fits = sym_less(env, 0, kept) && sym_same(env, sym_mul(env, sym_div(env, heads, kept), kept), heads);
    return fits ? ST_OK : want_equal(call, at, 1, at + 1, 1);
}

Status meta_flash_attention(MetaCall *call) {
    const Meta *const query = tensor_meta(call, 0);
    if (query->rank != 4) return meta_fail(call, ST_SHAPE, "query must have 4 dims, not sizes %s", SIZES(call, query));
    if (!dtype_is_float(query->dtype))
        return meta_fail(call, ST_DTYPE, "query must be floating point, not %s", dtype_name(query->dtype));
    if (arg_double(arg_named(call, "dropout_p")) != 0)
        return meta_fail(call, ST_UNSUPPORTED, "dropout_p must be 0, as in PyTorch");
    TRY(attention_fits(call));
    TRY(want_equal(call, 0, 0, 1, 0));
    TRY(want_equal(call, 0, 0, 2, 0));
    TRY(heads_fit(call, 0));
    TRY(mask_fits_scores(call, query, tensor_meta(call, 1)));
    if (sym_same(call->env, call->out[0].sizes[3], query->sizes[3])) out_like(call, 0, query, query->dtype);
    out_plain(call, 1, query->dtype == DT_f64 ? DT_f64 : DT_f32, query->device, query->sizes, 3);
    MetaOut *const sums = &call->out[1]; /* [batch, row, head] in memory */
    sums->strides[1] = 1, sums->strides[2] = sym_max(call->env, sums->sizes[1], 1);
    return ST_OK;
}

/* [batch, head, row, width], as [batch, row, head, width] in memory. */
static void out_by_rows(const MetaCall *call, MetaOut *out) {
    SymEnv *const env = call->env;
    const int64_t width = sym_max(env, out->sizes[3], 1);
    out->strides[1] = width, out->strides[2] = sym_mul(env, width, sym_max(env, out->sizes[1], 1));
    out->strides[0] = sym_mul(env, out->strides[2], sym_max(env, out->sizes[2], 1));
}

/* What the forward asks of query, key and value. */
static Status forward_fits(const MetaCall *call) {
    for (int i = 1; i < 4; i++)
        if (tensor_meta(call, i)->rank != 4)
            return meta_fail(call, ST_SHAPE, "%s must have 4 dims, not sizes %s", call->row->params[i].name,
                             SIZES(call, tensor_meta(call, i)));
    TRY(want_equal(call, 1, 3, 2, 3));
    TRY(want_equal(call, 2, 2, 3, 2));
    TRY(want_equal(call, 1, 0, 2, 0));
    TRY(want_equal(call, 1, 0, 3, 0));
    TRY(heads_fit(call, 1));
    for (int d = 0; d < 3 && tensor_meta(call, 4)->rank == 4; d++) TRY(want_equal(call, 1, d, 4, d));
    if (tensor_meta(call, 4)->rank == 4) TRY(want_equal(call, 3, 3, 4, 3));
    return mask_fits_scores(call, tensor_meta(call, 1), tensor_meta(call, 2));
}

Status meta_flash_attention_backward(MetaCall *call) {
    TRY(forward_fits(call));
    for (int i = 0; i < 3; i++) {
        const Meta *const of = tensor_meta(call, i + 1);
        out_plain(call, i, of->dtype, of->device, of->sizes, of->rank);
        out_by_rows(call, &call->out[i]);
    }
    const Meta *const grad = tensor_meta(call, 0), *const out = tensor_meta(call, 4), *const sum = tensor_meta(call, 5);
    const bool fits = grad->rank == 4 && out->rank == 4 && sum->rank == 3 &&
                      all_same(call->env, grad->sizes, out->sizes, 4) && all_same(call->env, out->sizes, sum->sizes, 3);
    if (fits) return ST_OK;
    return meta_fail(call, ST_SHAPE, "grad_out %s, out %s and logsumexp %s do not fit", SIZES(call, grad),
                     SIZES(call, out), SIZES(call, sum));
}

/* sn::attention's own ------------------------------------------------------------------------------ */

/* Leading sizes are equal, but for the heads of key and value, each of which may be that of several of query's; a mask,
 * of bools or of numbers that the compute type holds, broadcasts to [leading sizes, rows, keys]. at: of query among the
 * arguments, before key and value. */
static Status attention_heads_fit(MetaCall *call, int at) {
    const Meta *const query = tensor_meta(call, at), *const key = tensor_meta(call, at + 1),
                      *const mask = tensor_meta(call, op_param_find(call->row, "attn_mask"));
    const int rank = query->rank;
    int64_t scores[MAX_RANK], joined[MAX_RANK];
    if (rank < 2 || key->rank != rank || tensor_meta(call, at + 2)->rank != rank)
        return meta_fail(call, ST_SHAPE, "query, key and value need one rank of at least 2");
    if (!dtype_is_float(query->dtype))
        return meta_fail(call, ST_DTYPE, "query must be floating point, not %s", dtype_name(query->dtype));
    TRY(want_same_dtype(call, at, at + 1));
    TRY(want_same_dtype(call, at, at + 2));
    TRY(want_equal(call, at, rank - 1, at + 1, rank - 1));
    for (int d = 0; d < rank - 1; d++) TRY(want_equal(call, at + 1, d, at + 2, d));
    for (int d = 0; d < rank - 3; d++) TRY(want_equal(call, at, d, at + 1, d));
    if (rank > 2) {
        const int64_t heads = query->sizes[rank - 3], kept = key->sizes[rank - 3];
        const bool fits = sym_same(call->env, heads, kept) ||
                          (sym_less(call->env, 0, kept) &&
                           sym_same(call->env, sym_mul(call->env, sym_div(call->env, heads, kept), kept), heads));
        if (!fits) return want_equal(call, at, rank - 3, at + 1, rank - 3);
    }
    if (!mask) return ST_OK;
    if (mask->dtype != DT_bool && mask->dtype != query->dtype && (mask->dtype != DT_f32 || query->dtype == DT_f64))
        return meta_fail(call, ST_DTYPE, "attn_mask must be bool or %s, not %s", dtype_name(query->dtype),
                         dtype_name(mask->dtype));
    memcpy(scores, query->sizes, sizeof *scores * (size_t)rank);
    scores[rank - 1] = key->sizes[rank - 2];
    memcpy(joined, scores, sizeof *scores * (size_t)rank);
    int joined_rank = rank;
    const bool joins = mask->rank <= rank && broadcast_into(call->env, joined, &joined_rank, mask->sizes, mask->rank);
    if (joins && all_same(call->env, joined, scores, rank)) return same_device(call, query, mask);
    return meta_fail(call, ST_SHAPE, "attn_mask %s does not broadcast to the scores, %s", SIZES(call, mask),
                     sizes_text(call, scores, rank).at);
}

Status meta_attention(MetaCall *call) {
    TRY(attention_heads_fit(call, 0));
    const Meta *const query = tensor_meta(call, 0), *const value = tensor_meta(call, 2);
    const DType wide = query->dtype == DT_f64 ? DT_f64 : DT_f32;
    int64_t sizes[MAX_RANK];
    memcpy(sizes, query->sizes, sizeof *sizes * (size_t)query->rank);
    sizes[query->rank - 1] = value->sizes[value->rank - 1];
    out_plain(call, 0, query->dtype, query->device, sizes, query->rank);
    for (int i = 1; i < 3; i++) out_plain(call, i, wide, query->device, sizes, query->rank - 1);
    call->order = ORDER_chain;
    return ST_OK;
}

Status meta_attention_backward(MetaCall *call) {
    TRY(attention_heads_fit(call, 1));
    const Meta *const query = tensor_meta(call, 1), *const grad = tensor_meta(call, 0);
    const int rank = query->rank;
    bool fits = grad->rank == rank && all_same(call->env, grad->sizes, query->sizes, rank - 1);
    for (int i = 4; i < 6; i++) {
        const Meta *const row = tensor_meta(call, i);
        fits = fits && row->rank == rank - 1 && all_same(call->env, row->sizes, query->sizes, rank - 1);
        fits = fits && row->dtype == (query->dtype == DT_f64 ? DT_f64 : DT_f32);
    }
    if (!fits)
        return meta_fail(call, ST_SHAPE, "grad_out %s, max and sum do not fit query %s", SIZES(call, grad),
                         SIZES(call, query));
    TRY(want_equal(call, 3, rank - 1, 0, rank - 1));
    TRY(want_same_dtype(call, 1, 0));
    for (int i = 0; i < 3; i++) {
        const Meta *const of = tensor_meta(call, i + 1);
        out_plain(call, i, of->dtype, of->device, of->sizes, of->rank);
    }
    call->order = ORDER_chain;
    return ST_OK;
}
