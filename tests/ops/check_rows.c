/* check_rows.c: batch invariance [semantics B7]: each index of the batch dim, computed alone, gives the bits that it
 * has in its batch. */
#include "runtime/base/error.h"
#include "tests/ops/ops.h"

static Val *part_of(void *context, Val *val) {
    const SampleCall *const call = ((void **)context)[0];
    sn_tensor *const *const parts = ((void **)context)[1];
    for (int i = 0; i < call->n_tensors; i++)
        if (&call->tensors[i]->base == val) return &parts[i]->base;
    return val;
}

static void compare(const Case *c, int64_t row, int i, sn_tensor *all, sn_tensor *alone) {
    Text in_batch = {0}, by_itself = {0};
    ops_show(&in_batch, sn_contiguous(sn_narrow(all, 0, row, 1)));
    ops_show(&by_itself, sn_contiguous(alone));
    if (strcmp(text_str(&in_batch), text_str(&by_itself)))
        ops_fail(c, "row %lld, result %d\n  in its batch %.200s\n  alone        %.200s", (long long)row, i,
                 text_str(&in_batch), text_str(&by_itself));
    text_free(&in_batch);
    text_free(&by_itself);
}

static void check_row(const Case *c, const SampleCall *call, int64_t row, sn_tensor **outs, int n) {
    SampleCall alone = *call;
    sn_tensor *parts[SAMPLE_TENSORS], *results[MAX_LIST];
    void *context[] = {(void *)call, parts};
    Arena *const arena = arena_new();
    int n_results;
    for (int i = 0; i < call->n_tensors; i++)
        parts[i] = call->batched[i] ? sn_narrow(call->tensors[i], 0, row, 1) : call->tensors[i];
    for (int i = 0; i < c->row->n_params; i++) alone.args[i] = arg_map_vals(arena, call->args[i], part_of, context);
    if (sample_run(&alone, results, &n_results) != ST_OK)
        ops_fail(c, "row %lld alone: %s", (long long)row, sn_error_take()->message);
    else
        for (int i = 0; i < n; i++) compare(c, row, i, outs[i], results[i]);
    arena_free(arena);
}

void check_rows(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n, first = 0;
    if (!ops_run(c, &call, outs, &n)) return;
    while (!call.batched[first]) first++;
    for (int64_t row = 0; row < sn_size(call.tensors[first], 0); row++) check_row(c, &call, row, outs, n);
}
