/* check_domain.c: the bound of checked positions that a row states (column .check) is the one that its call has: the
 * last position below it is taken, the bound itself is a value error. */
#include "runtime/base/error.h"
#include "runtime/core/tensor.h"
#include "tests/ops/ops.h"

/* Rows that read other positions, or none, under some arguments: nothing is refused there. */
static const char *const lenient[] = {
    "nll_loss_backward",             /* looks up weights alone: a class that there is not meets no column */
    "_embedding_bag_backward",       /* of maxima it reads where they came from */
    "_embedding_bag_dense_backward", /* likewise */
};

static bool is_lenient(const OpRow *row) {
    bool found = false;
    for (int i = 0; i < COUNT_OF(lenient); i++) found |= !strcmp(row->base, lenient[i]);
    return found;
}

static Status run_with(const SampleCall *call, sn_tensor *positions, int64_t position) {
    sn_tensor *outs[MAX_LIST];
    int n;
    sn_fill_(positions, sn_int(position));
    if (sn_check() != SN_OK) return error_pending();
    return sample_run(call, outs, &n);
}

static void check_positions(const Case *c, const SampleCall *call, sn_tensor *positions, int64_t bound) {
    if (run_with(call, positions, bound - 1) != ST_OK) {
        const sn_error *const error = sn_error_take();
        ops_fail(c, "position %lld, below the bound %lld, is refused: %s", (long long)bound - 1, (long long)bound,
                 error->message);
        return;
    }
    const Status status = run_with(call, positions, bound);
    if (status != ST_VALUE && !(status == ST_OK && is_lenient(c->row)))
        ops_fail(c, "position %lld, the bound, is %s, no value error", (long long)bound, status_name(status));
    sn_error_take();
}

static bool holds_positions(const Val *val) {
    if (!val || !val->meta->numel) return false;
    const DCategory category = dtype_category(val->meta->dtype);
    return category != CAT_bool && category != CAT_float; /* a mask; a target of probabilities */
}

void check_domain(const Case *c) {
    SampleCall call;
    ops_count();
    if (!c->row->check.bound || !ops_make(c, &call)) return;
    const OpRow *const row = c->row->alias_of ? c->row->alias_of : c->row;
    const Arg *const checked = &call.args[op_param_find(row, row->check.param)];
    const int n = checked->kind == ARG_tensors ? checked->n : 1;
    for (int i = 0; i < n; i++) {
        Val *const val = checked->kind == ARG_tensors ? checked->vals[i] : checked->val;
        const int64_t bound = op_check_bound(row, call.args, i, NULL);
        if (!holds_positions(val) || bound <= 0) continue;
        sn_tensor *const positions = (sn_tensor *)val, *const before = sn_clone(positions);
        check_positions(c, &call, positions, bound);
        sn_copy_(positions, before);
    }
}
