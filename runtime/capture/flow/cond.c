/* cond.c: one of two bodies. Both are traced, for the types of the results and for whether they require gradients; the
 * taken one runs. Where the other one cannot be traced, what it would give is not known, and not compared. */
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/flow.h"

typedef struct CondRun {
    const FlowCall *call;
    FlowBody branches[2]; /* false, true */
    bool taken;
} CondRun;

static Status trace_branches(CondRun *run) {
    const FlowCall *const call = run->call;
    const Meta **const metas = mem_alloc((size_t)(call->n_in + 1) * sizeof *metas);
    if (!metas) return ST_MEMORY;
    for (int i = 0; i < call->n_in; i++) metas[i] = call->in[i]->base.meta;
    Status status = body_trace(&run->branches[1], metas);
    if (status == ST_OK) status = body_trace(&run->branches[0], metas);
    mem_free(metas);
    return status;
}

static Status compare_types(const CondRun *run) {
    const Graph *const no = run->branches[0].graph, *const yes = run->branches[1].graph;
    for (int i = 0; yes && no && i < run->call->n_out; i++)
        TRY(flow_same_type("sn_cond", "result", i, yes->outputs.at[i].value->base.meta, "in the true branch",
                           no->outputs.at[i].value->base.meta, "in the false branch"));
    return ST_OK;
}

/* Nothing of the result came from what the other branch would have made it of: no gradient goes there. */
static Status other_backward(void *context, TapeBackward *call) {
    (void)context, (void)call;
    return ST_OK;
}

static const TapeCompiled other_class = {.name = "Cond", .backward = other_backward};

/* A result that would require gradients had the other branch been taken does so [semantics T2]. */
static Status require_gradients(const CondRun *run) {
    const FlowCall *const call = run->call;
    const FlowBody *const other = &run->branches[!run->taken];
    if (!other->graph) return ST_OK;
    for (int i = 0; i < call->n_out; i++) {
        sn_tensor *outs[] = {call->out[i]};
        if (tape_tracks(outs[0]) || !flow_body_tracks(other, call->in, i)) continue;
        const int n = call->n_in + other->closed.n;
        sn_tensor **const inputs = mem_alloc((size_t)(n + 1) * sizeof *inputs);
        if (!inputs) return ST_MEMORY;
        for (int k = 0; k < n; k++) inputs[k] = k < call->n_in ? call->in[k] : other->closed.at[k - call->n_in];
        const Status status = tape_add_compiled(outs, 1, inputs, n, &other_class, NULL);
        mem_free(inputs);
        TRY(status);
    }
    return ST_OK;
}

static Status run_cond(CondRun *run, sn_tensor *pred) {
    TRY(flow_decide("sn_cond", "the predicate", pred, &run->taken));
    TRY(trace_branches(run));
    TRY(compare_types(run));
    TRY(flow_body_run(&run->branches[run->taken], run->call->in, run->call->out));
    return require_gradients(run);
}

Status flow_cond(const FlowCall *call, sn_tensor *pred, const FlowBodies *branches) {
    FlowRun around;
    const FlowBody any = {.op = "sn_cond", .n_in = call->n_in, .n_out = call->n_out};
    CondRun run = {.call = call, .branches = {any, any}};
    run.branches[1].what = "the true branch", run.branches[1].run = branches->first;
    run.branches[0].what = "the false branch", run.branches[0].run = branches->second;
    run.branches[1].closure = branches->first_closure, run.branches[0].closure = branches->second_closure;
    TRY(flow_begin(call, &around));
    const Status status = run_cond(&run, pred);
    body_trace_free(&run.branches[0]);
    body_trace_free(&run.branches[1]);
    return flow_end(call, &around, status);
}
