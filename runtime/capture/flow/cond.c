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
    Status status = ST_OK;
    for (int i = 1; i >= 0 && status == ST_OK; i--)
        if (!run->branches[i].arena) status = body_trace(&run->branches[i], metas);
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

static CondRun cond_of(const FlowCall *call) {
    const FlowBody any = {.op = "sn_cond", .n_in = call->n_in, .n_out = call->n_out};
    CondRun run = {.call = call, .branches = {any, any}};
    run.branches[1].what = "the true branch", run.branches[0].what = "the false branch";
    return run;
}

static void cond_free(CondRun *run) {
    body_trace_free(&run->branches[0]);
    body_trace_free(&run->branches[1]);
}

static Status record_branches(CondRun *run, FlowRecord *record) {
    const Meta **const metas = mem_alloc((size_t)(run->call->n_in + 1) * sizeof *metas);
    if (!metas) return ST_MEMORY;
    for (int i = 0; i < run->call->n_in; i++) metas[i] = run->call->in[i]->base.meta;
    Status status = flow_record_body(record, &run->branches[1], metas);
    if (status == ST_OK) status = flow_record_body(record, &run->branches[0], metas);
    mem_free(metas);
    return status;
}

/* A result requires gradients where it does in either branch. */
static bool is_one(const CondRun *run, bool recorded) {
    const FlowBody *const yes = &run->branches[1], *const no = &run->branches[0];
    const FlowBody *const bodies[] = {yes, no};
    bool in_yes[FLOW_RESULTS], in_no[FLOW_RESULTS];
    FlowMarks marks;
    if (!yes->graph || !no->graph) return false;
    flow_marks(run->call, bodies, 2, recorded, &marks);
    if (!marks.n_tracked || !marks.fit) return false;
    if (flow_marks_run(&marks, yes, run->call->n_in, in_yes) != ST_OK) return false;
    if (flow_marks_run(&marks, no, run->call->n_in + yes->closed.n, in_no) != ST_OK) return false;
    for (int i = 0; i < run->call->n_out; i++) in_yes[i] |= in_no[i];
    return flow_marks_all(yes, in_yes, 0, run->call->n_out);
}

/* As one op, of a graph or for the tape; record->reason: it can't be. */
static Status record_cond(CondRun *run, sn_tensor *pred, FlowRecord *record) {
    if (!pred) return error_raise(ST_ARGUMENT, "sn_cond: the predicate is NULL");
    TRY(flow_record_inputs(record));
    TRY(tensor_valid(pred, "sn_cond"));
    TRY(flow_is_predicate("sn_cond", "the predicate", pred->base.meta));
    TRY(record_branches(run, record));
    if (record->reason) return ST_OK;
    TRY(compare_types(run));
    const FlowBody *const bodies[] = {&run->branches[1], &run->branches[0]};
    flow_record_tape(record, bodies, 2, is_one(run, true));
    if (record->reason) return error_pending();
    const char *const yes = flow_text(&run->branches[1]), *const no = flow_text(&run->branches[0]);
    if (!yes || !no) return ST_MEMORY;
    Arg args[] = {A_VAL(&pred->base), A_NONE,   A_INT(run->call->n_in), A_STR(yes), A_STR(no),
                  A_INT(0),           A_INT(0), A_INTS(NULL, 0)};
    return flow_record_op(record, OP_ROW(cond), args, 1, bodies, 2);
}

/* Inside of transforms: the taken branch runs itself. */
static Status run_known(CondRun *run, sn_tensor *pred, const FlowBody *const *bodies) {
    FlowRun around;
    TRY(compare_types(run));
    TRY(flow_level_begin(run->call, bodies, 2, &around));
    run->branches[0].itself = run->branches[1].itself = true;
    Status status = flow_decide("sn_cond", "the predicate", pred, &run->taken);
    if (status == ST_OK) status = flow_body_run(&run->branches[run->taken], run->call->in, run->call->out);
    return flow_end(run->call, &around, status);
}

static Status cond_at_level(CondRun *run, sn_tensor *pred) {
    const FlowBody *const bodies[] = {&run->branches[1], &run->branches[0]};
    FlowRecord record = {.call = run->call};
    TRY(flow_level_inputs(run->call));
    TRY(trace_branches(run));
    if (flow_is_known(pred)) return run_known(run, pred, bodies);
    TRY(flow_level_graphs(run->call, bodies, 2));
    cond_free(run);
    TRY(record_cond(run, pred, &record));
    return record.reason ? error_raise(ST_UNSUPPORTED, "sn_cond: %s", reason_text(record.reason)) : ST_OK;
}

Status flow_cond(const FlowCall *call, sn_tensor *pred, const FlowBodies *branches) {
    FlowRun around;
    CondRun run = cond_of(call);
    run.branches[1].run = branches->first, run.branches[0].run = branches->second;
    run.branches[1].closure = branches->first_closure, run.branches[0].closure = branches->second_closure;
    FlowRecord record = {.call = call};
    if (state_get()->level) {
        const Status status = cond_at_level(&run, pred);
        cond_free(&run);
        return status;
    }
    if (flow_records()) {
        const Status status = record_cond(&run, pred, &record);
        const bool done = status != ST_OK || !record.reason;
        if (done || flow_traces_again()) cond_free(&run);
        if (done) return status;
    }
    TRY(flow_begin(call, record.reason, &around));
    const Status status = run_cond(&run, pred);
    cond_free(&run);
    return flow_end(call, &around, status);
}

static FlowCall call_of(const OpCall *op) {
    return (FlowCall){.op = "sn_cond", .in = flow_operands(&op->args[1]), .n_in = (int)op->args[2].i, .out = op->outs};
}

static Status read_branches(CondRun *run, const OpCall *op, bool compiled, FlowCall *call) {
    Val *const *closed = op->args[1].vals + call->n_in;
    TRY(flow_body_read(&run->branches[1], op->args[3].string, compiled, &closed));
    TRY(flow_body_read(&run->branches[0], op->args[4].string, compiled, &closed));
    call->n_out = run->branches[1].n_out;
    return ST_OK;
}

bool flow_cond_is_one(OpCall *op) {
    FlowCall call = call_of(op);
    CondRun run = cond_of(&call);
    const bool one = read_branches(&run, op, false, &call) == ST_OK && is_one(&run, false);
    cond_free(&run);
    return one;
}

Status flow_cond_run(OpCall *op, bool compiled) {
    FlowCall call = call_of(op);
    CondRun run = cond_of(&call);
    FlowRun around;
    Status status = read_branches(&run, op, compiled, &call);
    run.branches[0].n_out = run.branches[1].n_out;
    op->n_outs = call.n_out;
    if (status == ST_OK) status = flow_op_begin(&call, &around);
    if (status == ST_OK) status = flow_end(&call, &around, run_cond(&run, tensor_of(op->args[0].val)));
    cond_free(&run);
    return status;
}
