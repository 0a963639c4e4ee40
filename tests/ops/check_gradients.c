/* check_gradients.c: every row that has a derivative, and composites, whose parts have the rules: first and second
 * derivatives in f64 against central differences. Losses are weighted sums of all float results; the seed is set before
 * every call, so that what is random is fixed. Where a sample's numbers are outside of what the op is defined on (the
 * logarithm of a negative one), they are drawn from a smaller range. */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/error.h"
#include "ir/op_ids.h"
#include "tests/ops/ops.h"

enum { MOST = 512 };

static bool is_checked(const OpRow *row) {
    return !row->alias_of && (deriv_rule(row) || (row->kind == KIND_composite && !(row->flags & OPF_nodiff)));
}

static sn_tensor *weighted(sn_tensor *t, int which) {
    const int64_t n = sn_numel(t); /* of a result: a pad's has more elements than any argument */
    double *const weights = malloc((size_t)(n + 1) * sizeof *weights);
    for (int64_t i = 0; i < n; i++) weights[i] = 0.5 + fmod((double)(i + 1) * 0.618034 + which * 0.37, 1.0);
    sn_tensor *const by = sn_from_data(weights, sn_sizes(t), SN_F64);
    free(weights);
    return sn_sum(sn_mul(t, by));
}

static sn_tensor *sum_of(sn_tensor *const *ts, int n) {
    sn_tensor *sum = NULL;
    for (int i = 0; i < n && !sn_check(); i++) {
        if (!ts[i] || !sn_requires_grad(ts[i]) || sn_dtype_of(ts[i]) != SN_F64) continue;
        sn_tensor *const part = weighted(ts[i], i);
        sum = sum ? sn_add(sum, part) : part;
    }
    return sum;
}

typedef struct Leaves {
    sn_tensor *at[SAMPLE_TENSORS];
    int n;
} Leaves;

static sn_tensor *loss_of(const SampleCall *call, const Leaves *leaves) {
    sn_tensor *outs[MAX_LIST];
    int n;
    sn_seed(3);
    return sample_run(call, outs, &n) == ST_OK ? sum_of(outs, n) : NULL;
}

static bool slopes_of(sn_tensor *loss, const Leaves *leaves, uint32_t flags, sn_tensor **grads) {
    return sn_gradients((sn_tensors){&loss, 1}, (sn_tensors){leaves->at, leaves->n}, (sn_tensors){0},
                        flags | SN_ALLOW_UNUSED, grads) == SN_OK;
}

static sn_tensor *slope_of(const SampleCall *call, const Leaves *leaves) {
    sn_tensor *grads[SAMPLE_TENSORS] = {NULL}, *const loss = loss_of(call, leaves);
    if (!loss || !slopes_of(loss, leaves, SN_CREATE_GRAPH, grads)) return NULL;
    return sum_of(grads, leaves->n);
}

bool ops_first_only(const OpRow *row) {
    static const OpId rows[] = {OP__embedding_bag, OP_embedding_bag, OP_embedding_bag_padding_idx};
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (rows[i] == row->id) return true;
    return false;
}

typedef sn_tensor *Loss(const SampleCall *call, const Leaves *leaves);

static double value_of(Loss *loss, const SampleCall *call, const Leaves *leaves) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t = loss(call, leaves);
    const double value = t ? sn_item(t) : 0;
    sn_scope_end(scope);
    return value;
}

static int64_t element(const sn_tensor *t, int64_t number) {
    int64_t at = 0;
    const Meta *const meta = t->base.meta;
    for (int d = meta->rank - 1; d >= 0; d--) {
        at += number % meta->sizes[d] * meta->strides[d];
        number /= meta->sizes[d];
    }
    return at;
}

static void check_leaf(const Case *c, Loss *loss, const SampleCall *call, const Leaves *leaves, int k,
                       sn_tensor *grad) {
    sn_tensor *const leaf = leaves->at[k];
    double got[MOST] = {0};
    if (grad && sn_read(grad, got, (size_t)sn_numel(grad) * sizeof *got) != SN_OK) return;
    for (int64_t i = 0; i < sn_numel(leaf); i++) {
        const double step = 1e-5;
        double *const x = (double *)tensor_data(leaf) + element(leaf, i), middle = *x;
        *x = middle + step;
        const double above = value_of(loss, call, leaves);
        *x = middle - step;
        const double below = value_of(loss, call, leaves), want = (above - below) / (2 * step);
        *x = middle;
        if (fabs(got[i] - want) <= 2e-6 + 1e-5 * fabs(want)) continue;
        ops_fail(c, "%s gradient of tensor %d, element %lld: %g, difference %g", loss == loss_of ? "first" : "second",
                 k, (long long)i, got[i], want);
        return;
    }
}

static void check_order(const Case *c, Loss *loss, const SampleCall *call, const Leaves *leaves) {
    sn_tensor *grads[SAMPLE_TENSORS] = {NULL}, *const root = loss(call, leaves);
    if (sn_check() != SN_OK) return;
    if (root && sn_requires_grad(root) && !slopes_of(root, leaves, 0, grads)) return;
    for (int k = 0; root && k < leaves->n && sn_check() == SN_OK; k++) check_leaf(c, loss, call, leaves, k, grads[k]);
}

static void check_no_second(const Case *c, const SampleCall *call, const Leaves *leaves) {
    sn_tensor *grads[SAMPLE_TENSORS] = {NULL}, *const slope = slope_of(call, leaves);
    if (!slope || sn_check() != SN_OK || !sn_requires_grad(slope)) return;
    if (slopes_of(slope, leaves, 0, grads)) ops_fail(c, "there is a second derivative: check it");
}

/* Can differences follow it? */
static bool is_tame(const SampleCall *call, const Leaves *leaves) {
    const bool twice = !ops_first_only(call->row);
    const double loss = value_of(loss_of, call, leaves), slope = twice ? value_of(slope_of, call, leaves) : 0;
    return sn_check() != SN_OK || (fabs(loss) < 1e4 && fabs(slope) < 1e4);
}

/* The call with its leaves; false: the op refuses it, or it is too large. */
static bool make(const Case *c, SampleCall *call, Leaves *leaves) {
    *leaves = (Leaves){.n = 0};
    if (!ops_make(c, call)) return false;
    for (int i = 0; i < call->n_tensors; i++) {
        if (sn_numel(call->tensors[i]) > MOST) return false;
        if (sn_requires_grad(call->tensors[i]) && sn_dtype_of(call->tensors[i]) == SN_F64)
            leaves->at[leaves->n++] = call->tensors[i];
    }
    return leaves->n > 0;
}

void check_gradients(const Case *c) {
    SampleCall call;
    Leaves leaves;
    Case own = *c;
    /* internal rows name memory from their argument's first element on, gaps included */
    const bool layout = c->style.layout == LAYOUT_contiguous || !(c->row->flags & OPF_internal);
    if (ops_is_drawn(c->row)) ops_count();
    if (!is_checked(c->row) || ops_is_drawn(c->row) || c->style.layout == LAYOUT_expanded || !layout) return;
    own.style.dtype = DT_f64;
    own.style.leaves = true;
    do
        if (!make(&own, &call, &leaves)) return;
    while (!is_tame(&call, &leaves) && ++own.style.range < RANGE_COUNT);
    if (own.style.range == RANGE_COUNT) {
        ops_fail(c, "no range of numbers has finite derivatives");
        return;
    }
    check_order(&own, loss_of, &call, &leaves);
    if (sn_check() == SN_OK && ops_first_only(c->row))
        ops_count(), check_no_second(&own, &call, &leaves);
    else
        check_order(&own, slope_of, &call, &leaves);
    if (sn_check() == SN_OK)
        ops_count();
    else if (sn_check() == SN_ERR_UNSUPPORTED) /* a row's other samples have what is supported */
        sn_error_take();
}
