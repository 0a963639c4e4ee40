/* deriv_flow.c: the gradients of control flow [semantics T3]. One op gives those of all operands: it runs the bodies
 * again, op by op, and goes back through what these recorded, from the sums that there are so far:
 *
 *   c, ys = scan(h, xs, w)   ->   sum of h, sum of xs, sum of w = scan_backward(h, xs, w, gradients, sums)
 *
 * Random ops inside have the forward's numbers, so they give what they gave. */
#include "passes/passes.h"
#include "ir/op_ids.h"
#include "runtime/base/error.h"

DerivFn deriv_cond, deriv_scan; /* deriv_table.c has them */

typedef struct FlowLists {
    Val *gradients[FLOW_RESULTS], *sums[FLOW_OPERANDS];
    int64_t of[FLOW_OPERANDS], summed[FLOW_OPERANDS], defined[FLOW_RESULTS];
    int n_gradients, n_sums, n_results;
} FlowLists;

/* Operands whose gradients go to the same place share a result. */
static void list_operands(const Deriv *d, int n, FlowLists *lists) {
    for (int i = 0; i < n; i++) {
        const int first = d->flow->same[i];
        lists->of[i] = d->flow->wanted[i] ? lists->of[first] : -1;
        if (first != i || !d->flow->wanted[i]) continue;
        lists->of[i] = lists->n_results++;
        if (!d->flow->sums[i]) continue;
        lists->summed[lists->n_sums] = lists->of[i];
        lists->sums[lists->n_sums++] = d->flow->sums[i];
    }
}

static void list_gradients(const Deriv *d, FlowLists *lists) {
    for (int i = 0; i < d->flow->n_results; i++) {
        if (!d->grad_out[i]) continue;
        lists->defined[lists->n_gradients] = i;
        lists->gradients[lists->n_gradients++] = d->grad_out[i];
    }
}

static Status check_rank_left(const Deriv *d, const Arg *operands) {
    if (operands->n <= FLOW_OPERANDS && d->flow->n_results <= FLOW_RESULTS) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "%s: %d operands and %d results, of at most %d and %d", d->row->name,
                       operands->n, d->flow->n_results, FLOW_OPERANDS, FLOW_RESULTS);
}

/* Arguments of the same name are the forward's. */
static void fill_args(const Deriv *d, const OpRow *row, const FlowLists *lists, Arg *args) {
    for (int i = 0; i < row->n_params; i++) {
        const int from = op_param_find(d->row, row->params[i].name);
        if (from >= 0) args[i] = d->args[from];
    }
    args[op_param_find(row, "gradients")] = A_VALS(lists->gradients, lists->n_gradients);
    args[op_param_find(row, "sums")] = A_VALS(lists->sums, lists->n_sums);
    args[op_param_find(row, "of")] = A_INTS(lists->of, d->args[op_param_find(d->row, "operands")].n);
    args[op_param_find(row, "summed")] = A_INTS(lists->summed, lists->n_sums);
    args[op_param_find(row, "defined")] = A_INTS(lists->defined, lists->n_gradients);
}

static Status flow_backward(Deriv *d, OpId op) {
    const OpRow *const row = op_row(op);
    const Arg *const operands = &d->args[op_param_find(d->row, "operands")];
    FlowLists lists = {.n_results = 0};
    Arg args[MAX_ARGS];
    Val *outs[FLOW_OPERANDS] = {NULL};
    TRY(check_rank_left(d, operands));
    list_operands(d, operands->n, &lists);
    list_gradients(d, &lists);
    if (!lists.n_results) return ST_OK;
    fill_args(d, row, &lists, args);
    TRY(emit(d->b, op, args, row->n_params, outs));
    for (int i = 0; i < operands->n; i++)
        if (lists.of[i] >= 0 && d->flow->same[i] == i) d->grad_list[i] = outs[lists.of[i]];
    return ST_OK;
}

Status deriv_cond(Deriv *d) { return flow_backward(d, OP_cond_backward); }
Status deriv_scan(Deriv *d) { return flow_backward(d, OP_scan_backward); }
