/* vmap_loop.c: an op without a batching rule: example by example, said once. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/core/breaks.h"
#include "runtime/core/tracer.h"
#include "runtime/transform/vmap.h"

typedef struct VmapLoop {
    OpCall *call;
    const Level *level;
    int64_t n;     /* how many rounds: one at least, which says what results are */
    Val **results; /* [result * n + example] */
    Arg args[MAX_ARGS];
    Val **lists;
} VmapLoop;

static void report_once(const OpRow *row) {
    static _Atomic uint8_t said[OP_IDS];
    if (!op_is_made(row) && atomic_exchange(&said[row->id], 1)) return;
    LOG(vmap, WARNING, "sn_vmap: %s has no batching rule: it runs once for each example", row->name);
}

static Val *example(const VmapLoop *l, Val *val, int64_t i) {
    sn_tensor *const inner = level_inner(l->level, val);
    return inner ? E(eager_builder(), select_int, V(&inner->base), I(0), I(i)) : val;
}

static Status slice_example(VmapLoop *l, int64_t i) {
    Val **buffer = l->lists;
    for (int k = 0; k < l->call->row->n_params; k++) {
        Arg *const arg = &l->args[k];
        *arg = l->call->args[k];
        if (arg->kind == ARG_tensor && arg->val && !(arg->val = example(l, arg->val, i))) return error_pending();
        if (arg->kind != ARG_tensors) continue;
        for (int j = 0; j < arg->n; j++)
            if (arg->vals[j] && !(buffer[j] = example(l, arg->vals[j], i)))
                return error_pending();
            else if (!arg->vals[j])
                buffer[j] = NULL;
        arg->vals = buffer;
        buffer += arg->n;
    }
    return ST_OK;
}

static Status round_of(VmapLoop *l, int64_t i, int *n_outs) {
    sn_tensor *outs[MAX_LIST];
    const OpRow *const row = l->call->row;
    const OpForm form = l->call->form == FORM_inplace ? FORM_inplace : FORM_functional;
    *n_outs = row->n_out;
    TRY(slice_example(l, i));
    memset(outs, 0, sizeof *outs * (size_t)row->n_out);
    TRY(row->returns_list ? dispatch_list(row, l->args, outs, n_outs) : dispatch(row, form, l->args, NULL, outs));
    if (!l->results && !(l->results = mem_zero(sizeof *l->results * (size_t)(l->n * *n_outs + 1)))) return ST_MEMORY;
    for (int k = 0; k < *n_outs; k++) l->results[k * l->n + i] = outs[k] ? &outs[k]->base : NULL;
    return ST_OK;
}

static Status stack_results(const VmapLoop *l, int n_outs) {
    sn_tensor *outs[MAX_LIST];
    for (int k = 0; k < n_outs; k++) {
        Val *const *const results = l->results + k * l->n;
        outs[k] = results[0] ? tensor_of(E(eager_builder(), stack, A_VALS(results, l->n), I(0))) : NULL;
        if (!outs[k] && results[0]) return error_pending();
    }
    return vmap_set_results(l->call, l->level, outs, n_outs);
}

/* same: all rounds draw the same random numbers. Each of them starts from the generator's number of the first, so that
 * together they use up as many as one round. */
static Status run_rounds(VmapLoop *l, bool same, int *n_outs) {
    const sn_state *const state = state_get();
    const uint64_t sequence = state->sequence;
    for (int64_t i = 0; i < l->n; i++) {
        if (i && same && state->sequence != sequence)
            TRY(tracer_set_generator(state->seed, sequence, BREAK_REASON(vmap_loop), BREAK_REASON(vmap_loop)));
        TRY(round_of(l, i, n_outs));
    }
    return ST_OK;
}

static void loop_end(const VmapLoop *l) {
    mem_free(l->results);
    mem_free(l->lists);
}

Status vmap_loop(OpCall *call, const Level *level, bool same) {
    __attribute__((cleanup(loop_end))) VmapLoop l = {.call = call, .level = level, .n = level->size};
    const int items = call_list_items(call);
    int n_outs = 0;
    if (!same || call->row->flags & OPF_flow) report_once(call->row);
    if (!l.n)
        return error_raise(ST_UNSUPPORTED, "%s: sn_vmap over no examples: it runs once for each", call->row->name);
    if (items && !(l.lists = mem_alloc(sizeof *l.lists * (size_t)items))) return ST_MEMORY;
    TRY(run_rounds(&l, same, &n_outs));
    if (call->form != FORM_inplace) return stack_results(&l, n_outs);
    call->outs[0] = tensor_of(call->args[0].val);
    return ST_OK;
}
