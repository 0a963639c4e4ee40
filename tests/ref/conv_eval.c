/* conv_eval.c: convolution and the gradients of it by plain loops over doubles: every product that there is, scattered
 * to where it belongs. */
#include "runtime/base/alloc.h"
#include "ir/op_ids.h"
#include "runtime/base/error.h"
#include "tests/ref/plan_eval.h"

typedef struct ConvDims {
    const Arg *stride, *padding, *dilation;
    int64_t groups;
    bool transposed;
} ConvDims;

static ConvDims dims_of(const OpRow *row, const Arg *args) {
    return (ConvDims){.stride = &args[op_param_find(row, "stride")],
                      .padding = &args[op_param_find(row, "padding")],
                      .dilation = &args[op_param_find(row, "dilation")],
                      .groups = args[op_param_find(row, "groups")].i,
                      .transposed = args[op_param_find(row, "transposed")].i != 0};
}

static int64_t along(const Arg *list, int i) { return list->ints[list->n == 1 ? 0 : i]; }

/* The element of the large side (input, or the result of a transposed convolution) under position `at` of the small
 * side and kernel position `tap`; false: padding. */
static bool under(const ConvDims *d, int rank, const int64_t *sizes, const int64_t *at, const int64_t *tap,
                  int64_t *large) {
    for (int i = 2; i < rank; i++) {
        large[i] = at[i] * along(d->stride, i - 2) - along(d->padding, i - 2) + tap[i] * along(d->dilation, i - 2);
        if (large[i] < 0 || large[i] >= sizes[i]) return false;
    }
    return true;
}

/* sums[to] += a * b for all (image, small channel, small position, weight's dims 1..): which of the three tensors is
 * the sum. large [N, C, ..], weight [S, C / groups, kernel], small [N, S, ..]. */
typedef struct Conv {
    ConvDims d;
    const WideTensor *large, *weight, *small; /* data NULL: the sum */
    double *sums;
} Conv;

static int64_t row_major(const WideTensor *t, const int64_t *index) {
    int64_t n = 0;
    for (int i = 0; i < t->rank; i++) n = n * t->sizes[i] + index[i];
    return n;
}

static void add_one(Conv *c, const int64_t *large, const int64_t *weight, const int64_t *small) {
    if (!c->large->data)
        c->sums[row_major(c->large, large)] += wide_get(c->weight, weight) * wide_get(c->small, small);
    else if (!c->weight->data)
        c->sums[row_major(c->weight, weight)] += wide_get(c->large, large) * wide_get(c->small, small);
    else
        c->sums[row_major(c->small, small)] += wide_get(c->large, large) * wide_get(c->weight, weight);
}

static void add_all(Conv *c) {
    int64_t small[MAX_RANK], weight[MAX_RANK], large[MAX_RANK];
    const int64_t taps = wide_numel(c->weight) / (c->weight->sizes[0] ? c->weight->sizes[0] : 1);
    const int64_t in_group = c->weight->sizes[1], out_group = c->weight->sizes[0] / c->d.groups;
    for (int64_t i = 0; i < wide_numel(c->small); i++)
        for (int64_t t = 0; t < taps; t++) {
            wide_index(c->small, i, small);
            wide_index(c->weight, t, weight);
            weight[0] = small[1], large[0] = small[0];
            large[1] = small[1] / out_group * in_group + weight[1];
            if (under(&c->d, c->small->rank, c->large->sizes, small, weight, large)) add_one(c, large, weight, small);
        }
}

static Status store(Conv *c, const WideTensor *bias, const WideTensor *out) {
    int64_t at[MAX_RANK];
    for (int64_t i = 0; i < wide_numel(out); i++) {
        wide_index(out, i, at);
        wide_set(out, at, c->sums[i] + (bias && bias->data ? wide_get(bias, &at[1]) : 0));
    }
    mem_free(c->sums);
    return ST_OK;
}

Status conv_eval(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const ConvDims d = dims_of(row, args);
    WideTensor sum = *out;
    Conv c = {.d = d, .sums = mem_zero((size_t)(wide_numel(out) + 1) * sizeof(double))};
    sum.data = NULL;
    if (!c.sums) return ST_MEMORY;
    if (row->id == OP_convolution) /* (input, weight, bias, ...) */
        c.weight = &in[1], c.large = d.transposed ? &sum : &in[0], c.small = d.transposed ? &in[0] : &sum;
    else if (row->id == OP_convolution_input) /* (grad_output, weight, ...) */
        c.weight = &in[1], c.large = d.transposed ? &in[0] : &sum, c.small = d.transposed ? &sum : &in[0];
    else /* (grad_output, input, ...) */
        c.weight = &sum, c.large = &in[d.transposed ? 0 : 1], c.small = &in[d.transposed ? 1 : 0];
    add_all(&c);
    return store(&c, row->id == OP_convolution ? &in[2] : NULL, out);
}
