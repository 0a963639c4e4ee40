/* meta_einsum.c: sizes and strides of an einsum: the operands have all dims and are contracted one after another,
 * from the left, as PyTorch does it, so that its strides are ours. */
#include "ir/einsum.h"
#include "ir/meta_rules.h"

typedef struct EinsumLayout {
    DType dtype;
    int64_t sizes[EINSUM_DIMS], strides[EINSUM_DIMS];
} EinsumLayout;

static Status operand_layout(const MetaCall *call, const Einsum *e, int k, EinsumLayout *out) {
    const Meta *const meta = call->args[1].vals[k]->meta;
    bool met[EINSUM_DIMS] = {false};
    out->dtype = meta->dtype;
    for (int d = 0; d < e->n_dims; d++) out->sizes[d] = 1, out->strides[d] = 0;
    for (int i = 0; i < meta->rank; i++) {
        const int d = e->dim[k][i];
        if (met[d] && !sym_same(call->env, out->sizes[d], meta->sizes[i]))
            return meta_fail(call, ST_SHAPE,
                             "equation '%s': a label stands twice for operand %d of sizes %s, which differ there",
                             call->args[0].string, k, SIZES(call, meta));
        out->sizes[d] = meta->sizes[i], met[d] = true;
        out->strides[d] = sym_add(call->env, out->strides[d], meta->strides[i]);
    }
    return ST_OK;
}

/* Each dim has one size, or 1. left: how many operands have more than 1 there. */
static Status common_sizes(const MetaCall *call, const Einsum *e, int64_t *sizes, int *left) {
    EinsumLayout one;
    for (int d = 0; d < e->n_dims; d++) sizes[d] = 1, left[d] = 0;
    for (int k = 0; k < e->n_operands; k++) {
        TRY(operand_layout(call, e, k, &one));
        for (int d = 0; d < e->n_dims; d++) {
            if (sym_same(call->env, one.sizes[d], 1)) continue;
            if (left[d]++ && !sym_same(call->env, sizes[d], one.sizes[d]))
                return meta_fail(call, ST_SHAPE,
                                 "equation '%s': operand %d of sizes %s has another size for a label than those "
                                 "before it",
                                 call->args[0].string, k, SIZES(call, call->args[1].vals[k]->meta));
            sizes[d] = one.sizes[d];
        }
    }
    return ST_OK;
}

static void packed(SymEnv *env, EinsumLayout *layout, const int *order, int n) {
    int64_t next = 1;
    for (int i = n - 1; i >= 0; i--) {
        layout->strides[order[i]] = next;
        next = sym_mul(env, next, sym_max(env, layout->sizes[order[i]], 1));
    }
}

/* Row-major, which sums are; of ints they are i64. */
static void sum_layout(SymEnv *env, const Einsum *e, EinsumLayout *layout, const bool *summed) {
    int order[EINSUM_DIMS];
    if (!dtype_is_float(layout->dtype)) layout->dtype = DT_i64;
    for (int d = 0; d < e->n_dims; d++) {
        order[d] = d;
        if (summed[d]) layout->sizes[d] = 1;
    }
    packed(env, layout, order, e->n_dims);
}

static void multiplied(MetaCall *call, const Einsum *e, EinsumLayout *a, const EinsumLayout *b) {
    MetaOut *const out = &call->out[0];
    const DType dtype = a->dtype;
    const Meta left = {.dtype = dtype, .rank = e->n_dims, .sizes = a->sizes, .strides = a->strides};
    const Meta right = {.dtype = dtype, .rank = e->n_dims, .sizes = b->sizes, .strides = b->strides};
    int64_t sizes[EINSUM_DIMS];
    for (int d = 0; d < e->n_dims; d++) sizes[d] = sym_same(call->env, a->sizes[d], 1) ? b->sizes[d] : a->sizes[d];
    out_set(out, dtype, DEV_cpu, sizes, e->n_dims);
    iterated_strides(call, (const Meta *const[]){&left, &right}, 2);
    memcpy(a->sizes, sizes, sizeof sizes);
    memcpy(a->strides, out->strides, sizeof *out->strides * (size_t)e->n_dims);
}

static void contracted(MetaCall *call, const Einsum *e, EinsumLayout *a, EinsumLayout *b, int *left) {
    const EinsumStep step = einsum_step(call->env, e, left, a->sizes, b->sizes);
    int order[EINSUM_DIMS], counts[4];
    einsum_product(call->env, e, &step, a->sizes, b->sizes, order, counts);
    if (step.any_a) sum_layout(call->env, e, a, step.sum_a);
    if (step.any_b) sum_layout(call->env, e, b, step.sum_b);
    a->dtype = dtype_promote(a->dtype, b->dtype);
    if (!step.any) {
        multiplied(call, e, a, b);
        return;
    }
    for (int d = 0; d < e->n_dims; d++)
        a->sizes[d] = step.sum[d] ? 1 : sym_same(call->env, a->sizes[d], 1) ? b->sizes[d] : a->sizes[d];
    packed(call->env, a, order, e->n_dims);
}

static Status check_operands(const MetaCall *call, Einsum *e) {
    const Arg *const list = &call->args[1];
    int ranks[EINSUM_OPERANDS] = {0};
    for (int k = 0; k < list->n && k < EINSUM_OPERANDS; k++) {
        const Meta *const meta = list->vals[k]->meta;
        ranks[k] = meta->rank;
        TRY(same_device(call, list->vals[0]->meta, meta));
        if (meta->dtype != list->vals[0]->meta->dtype)
            return meta_fail(call, ST_DTYPE, "operand %d is %s, but operand 0 is %s", k, dtype_name(meta->dtype),
                             dtype_name(list->vals[0]->meta->dtype));
    }
    const char *const wrong = einsum_parse(call->args[0].string, ranks, list->n, e);
    return wrong
               ? meta_fail(call, ST_ARGUMENT, "equation '%s' for %d operands: %s", call->args[0].string, list->n, wrong)
               : ST_OK;
}

/* (equation, tensors, path) */
Status meta_einsum(MetaCall *call) {
    Einsum e;
    EinsumLayout a, b;
    int64_t sizes[EINSUM_DIMS];
    int left[EINSUM_DIMS];
    bool summed[EINSUM_DIMS] = {false};
    TRY(check_operands(call, &e));
    TRY(common_sizes(call, &e, sizes, left));
    TRY(check_numel(call, sizes, e.n_out));
    TRY(operand_layout(call, &e, 0, &a));
    for (int k = 1; k < e.n_operands; k++) {
        TRY(operand_layout(call, &e, k, &b));
        contracted(call, &e, &a, &b, left);
    }
    if (e.n_operands == 1 && e.n_dims > e.n_out) {
        for (int d = e.n_out; d < e.n_dims; d++) summed[d] = true;
        sum_layout(call->env, &e, &a, summed);
    }
    const Meta *const first = call->args[1].vals[0]->meta;
    out_set(&call->out[0], a.dtype, first->device, sizes, e.n_out);
    if (e.n_operands == 1 && e.n_dims == e.n_out) { /* a copy */
        const Meta view = {.dtype = a.dtype, .rank = e.n_out, .sizes = a.sizes, .strides = a.strides};
        preserved_strides(call->env, &view, call->out[0].strides);
        return ST_OK;
    }
    if (e.n_out) memcpy(call->out[0].strides, a.strides, sizeof *a.strides * (size_t)e.n_out);
    return ST_OK;
}
