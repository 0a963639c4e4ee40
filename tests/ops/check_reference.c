/* check_reference.c: eager against the op's loop program computed in double (tests/ref). Integers and bools exactly; a
 * float within a few units of its dtype's last place, relative to 1 or to the value:
 *   f64 1e-12   f32 4e-6 (a sum of 300 elements: 2.5e-6)   f16 4e-3   bf16 3e-2 */
#include "runtime/base/error.h"
#include "tests/ops/ops.h"
#include "tests/ref/plan_eval.h"

#include <math.h>
#include <stdlib.h>

static double tolerance(DType dtype) {
    return dtype == DT_f64 ? 1e-12 : dtype == DT_f32 ? 4e-6 : dtype == DT_f16 ? 4e-3 : 3e-2;
}

static bool close_enough(double got, double want, double within) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    return got == want || fabs(got - want) <= within * (1 + fabs(want));
}

static void compare(const Case *c, int i, DType coarsest, sn_tensor *got, sn_tensor *want) {
    const DType dtype = got->base.meta->dtype;
    const size_t bytes = (size_t)sn_numel(got) * 8;
    if (dtype_is_int(dtype) || dtype == DT_bool) {
        int64_t *const a = calloc(bytes + 8, 1), *const b = calloc(bytes + 8, 1);
        sn_read(sn_to(got, SN_I64), a, bytes), sn_read(sn_to(want, SN_I64), b, bytes);
        for (int64_t k = 0; k < sn_numel(got); k++)
            if (a[k] != b[k]) {
                ops_fail(c, "result %d, element %lld: %lld, reference %lld", i, (long long)k, (long long)a[k],
                         (long long)b[k]);
                break;
            }
        free(a), free(b);
        return;
    }
    double *const a = calloc(bytes + 8, 1), *const b = calloc(bytes + 8, 1);
    const double within = fmax(tolerance(dtype), tolerance(coarsest));
    sn_read(sn_to(got, SN_F64), a, bytes), sn_read(sn_to(want, SN_F64), b, bytes);
    for (int64_t k = 0; k < sn_numel(got); k++)
        if (!close_enough(a[k], b[k], within)) {
            ops_fail(c, "result %d, element %lld: %.17g, reference %.17g", i, (long long)k, a[k], b[k]);
            break;
        }
    free(a), free(b);
}

/* Unset memory has no reference, nor what no graph holds. */
static bool unset(const OpRow *row) {
    return row->role == ROLE_bits || (row->kind == KIND_kernel && !strcmp(row->body, "empty"));
}

/* The rounds of control flow are ops whose references are here, and how they hang together is the contract's T3. */
static bool has_flow(const Plan *plan) {
    bool has = false;
    for (int i = 0; i < plan->steps.n; i++) has |= plan->steps.at[i].row && plan->steps.at[i].row->flags & OPF_flow;
    return has;
}

static void evaluate(const Case *c, const SampleCall *call, Arena *arena, sn_tensor **outs, int n) {
    Graph *const graph = ops_graph(call, arena);
    sn_tensor *want[MAX_LIST] = {NULL};
    const int64_t symbols[] = {3, 0};
    const char *why = NULL;
    Bail exit;
    Plan *const plan = graph ? ops_plan(graph, "functionalize,decompose,dce,plan", &exit, &why) : NULL;
    if (!plan) {
        ops_fail(c, "no plan: %s", graph ? why : sn_error_take()->message);
        return;
    }
    if (has_flow(plan)) return;
    if (plan_eval(plan, call->tensors, symbols, want) != ST_OK) {
        ops_fail(c, "no reference: %s", sn_error_take()->message);
        return;
    }
    for (int i = 0, k = 0; i < n && k < graph->outputs.n; i++) {
        if (!ops_wanted(call, i)) continue;
        if (want[k])
            compare(c, i, dtype_is_float(c->style.dtype) ? c->style.dtype : DT_f64, outs[i], want[k]);
        else if (sn_numel(outs[i]))
            ops_fail(c, "result %d has no place in the plan", i);
        k++;
    }
}

void check_reference(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n;
    if (!ops_run(c, &call, outs, &n) || unset(c->row)) return;
    /* as_strided and its scatter name the storage, which a graph of one node does not have */
    const bool by_storage = c->row->role == ROLE_storage || c->row->role == ROLE_told_place;
    if (by_storage && c->style.layout != LAYOUT_contiguous) return;
    Arena *const arena = arena_new();
    evaluate(c, &call, arena, outs, n);
    arena_free(arena);
}
