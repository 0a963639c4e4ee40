/* scan.c: a body along a dim, which takes what it carried and gives what is stacked; a map carries nothing.
 *
 *   carry, y_i = body(carry, x_i)   for each i, from the last one on where it is reversed
 *   results: carry, stack of y_i in the order of i
 *
 * Each round is ops on the tape, so a backward goes through them last round first [semantics T3]. */
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/flow.h"

typedef struct ScanRun {
    const FlowCall *call;
    const FlowScan *scan;
    FlowBody body;
    int64_t length;
    sn_tensor **carry, **in, **out; /* n_carry; the body's arguments and results */
    sn_tensor **ys;                 /* result by result, length of each */
} ScanRun;

static Status measure(ScanRun *run) {
    const FlowCall *const call = run->call;
    const int first = run->scan->n_carry;
    for (int i = first; i < call->n_in; i++) {
        const Meta *const meta = call->in[i]->base.meta;
        const int64_t dim = dim_wrap(run->scan->dim, meta->rank);
        if (!meta->rank || dim < 0 || dim >= meta->rank)
            return error_raise(ST_SHAPE, "%s: input %d has %d dims, and no dim %lld", call->op, i, meta->rank,
                               (long long)run->scan->dim);
        if (i == first) run->length = meta->sizes[dim];
        if (meta->sizes[dim] != run->length)
            return error_raise(ST_SHAPE, "%s: input %d has %lld in dim %lld, input %d has %lld", call->op, i,
                               (long long)meta->sizes[dim], (long long)run->scan->dim, first, (long long)run->length);
    }
    return ST_OK;
}

static Val *slice_at(sn_tensor *t, int64_t dim, int64_t i) {
    return E(eager_builder(), select_int, V(&t->base), I(dim), I(i));
}

static Status load_slices(ScanRun *run, int64_t i) {
    const FlowCall *const call = run->call;
    for (int k = 0; k < run->scan->n_carry; k++) run->in[k] = run->carry[k];
    for (int k = run->scan->n_carry; k < call->n_in; k++) {
        const Meta *const meta = call->in[k]->base.meta;
        run->in[k] = tensor_of(slice_at(call->in[k], dim_wrap(run->scan->dim, meta->rank), i));
        if (!run->in[k]) return error_pending();
    }
    return ST_OK;
}

/* The layout of a slice, also where there is none. */
static Status slice_meta(const FlowCall *call, const FlowScan *scan, int k, const Meta **out) {
    const Meta *const meta = call->in[k]->base.meta;
    const int dim = (int)dim_wrap(scan->dim, meta->rank);
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0, n = 0; d < meta->rank; d++) {
        if (d == dim) continue;
        sizes[n] = meta->sizes[d], strides[n++] = meta->strides[d];
    }
    *out = meta_intern(meta->dtype, meta->device, sizes, strides, meta->rank - 1, false);
    return *out ? ST_OK : ST_MEMORY;
}

static Status trace_round(ScanRun *run, FlowRecord *record) {
    const FlowCall *const call = run->call;
    const int first = run->scan->n_carry;
    const Meta **const metas = mem_zero((size_t)(call->n_in + 1) * sizeof *metas);
    Status status = metas ? flow_carry_metas(call, first, metas) : ST_MEMORY;
    for (int i = first; i < call->n_in && status == ST_OK; i++) status = slice_meta(call, run->scan, i, &metas[i]);
    if (status == ST_OK)
        status = record->call ? flow_record_body(record, &run->body, metas) : body_trace(&run->body, metas);
    for (int i = 0; metas && i < call->n_in; i++)
        if (metas[i]) meta_release(metas[i]);
    mem_free(metas);
    return status;
}

static Status one_step(ScanRun *run, int64_t i) {
    sn_state *const state = state_get();
    const int n = run->body.n_out, n_carry = run->scan->n_carry;
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    Status status = load_slices(run, i);
    if (status == ST_OK) status = flow_body_run(&run->body, run->in, run->out);
    scope_pop_passing(state, depth, run->out, status == ST_OK ? n : 0);
    TRY(status);
    for (int k = 0; k < n_carry; k++) {
        TRY(flow_same_type(run->call->op, "carry", k, run->carry[k]->base.meta, "before the body",
                           run->out[k]->base.meta, "behind it"));
        run->carry[k] = run->out[k];
    }
    for (int k = n_carry; k < n; k++) run->ys[(k - n_carry) * run->length + i] = run->out[k];
    return ST_OK;
}

/* Of no slices: what the trace says of one. */
static sn_tensor *empty_stack(const ScanRun *run, int k) {
    if (!run->body.graph) {
        error_raise(ST_SHAPE, "%s: of no slices, and a body that cannot be traced (%s), result %d is not known",
                    run->call->op, reason_text(run->body.reason), k);
        return NULL;
    }
    const Meta *const one = run->body.graph->outputs.at[k].value->base.meta;
    int64_t sizes[MAX_RANK] = {0};
    memcpy(sizes + 1, one->sizes, (size_t)one->rank * sizeof *sizes);
    const Meta *const meta = meta_intern_contiguous(one->dtype, one->device, sizes, one->rank + 1);
    return meta ? tensor_new(meta) : NULL;
}

static sn_tensor *stacked(const ScanRun *run, int k) {
    if (!run->length) return empty_stack(run, k);
    sn_tensor *const *const ys = run->ys + (k - run->scan->n_carry) * run->length;
    for (int64_t i = 1; i < run->length; i++)
        if (flow_same_type(run->call->op, "result", k, ys[0]->base.meta, "of slice 0", ys[i]->base.meta,
                           "of another one") != ST_OK)
            return NULL;
    Val **const vals = mem_alloc((size_t)run->length * sizeof *vals);
    if (!vals) return NULL;
    for (int64_t i = 0; i < run->length; i++) vals[i] = &ys[i]->base;
    Val *const all = E(eager_builder(), stack, A_VALS(vals, run->length), I(0));
    mem_free(vals);
    return tensor_of(all);
}

static Status set_results(const ScanRun *run) {
    const FlowCall *const call = run->call;
    for (int k = 0; k < call->n_out; k++) {
        const bool carried = k < run->scan->n_carry;
        sn_tensor *const t = carried ? run->carry[k] : stacked(run, k);
        call->out[k] = carried && t == call->in[k] ? tape_clone(t, NULL) : t; /* of no slices: still the program's */
        if (!call->out[k]) return error_pending() ? error_pending() : ST_MEMORY;
    }
    return ST_OK;
}

static Status run_scan(ScanRun *run) {
    TRY(measure(run));
    for (int k = 0; k < run->scan->n_carry; k++) run->carry[k] = run->call->in[k];
    TRY(flow_carry(run->carry, run->scan->n_carry));
    if (!run->body.arena) TRY(trace_round(run, &(FlowRecord){0}));
    const int64_t n_ys = (run->call->n_out - run->scan->n_carry) * run->length;
    if (!(run->ys = mem_zero((size_t)(n_ys + 1) * sizeof *run->ys))) return ST_MEMORY;
    for (int64_t i = 0; i < run->length; i++) TRY(one_step(run, run->scan->reverse ? run->length - 1 - i : i));
    return set_results(run);
}

static ScanRun scan_of(const FlowCall *call, const FlowScan *scan) {
    ScanRun run = {.call = call, .scan = scan};
    run.body = (FlowBody){.op = call->op, .what = scan->what, .n_in = call->n_in, .n_out = call->n_out};
    run.body.run = scan->body, run.body.closure = scan->closure;
    return run;
}

static Status run_with_memory(ScanRun *run) {
    sn_state *const state = state_get();
    const FlowCall *const call = run->call;
    sn_tensor **const buffer = mem_zero((size_t)(2 * call->n_in + call->n_out + 1) * sizeof *buffer);
    run->carry = buffer, run->in = buffer + call->n_in, run->out = buffer + 2 * call->n_in;
    Status status = buffer ? scope_push(state, false) : ST_MEMORY;
    if (status == ST_OK) {
        const uint32_t depth = state->n_scopes - 1;
        status = run_scan(run);
        scope_pop_passing(state, depth, call->out, status == ST_OK ? call->n_out : 0);
    }
    mem_free(buffer);
    mem_free(run->ys);
    return status;
}

/* Round after round: what a carry requires may become more. Few rounds show all that many do. */
static bool rounds_track(const ScanRun *run, FlowMarks *marks) {
    const int n_carry = run->scan->n_carry, n = run->call->n_out;
    const int64_t rounds = min_i64(run->length, n_carry + 2);
    bool out[FLOW_RESULTS], any[FLOW_RESULTS] = {false};
    for (int64_t i = 0; i < rounds; i++) {
        if (flow_marks_run(marks, &run->body, run->call->n_in, out) != ST_OK) return false;
        for (int k = 0; k < n_carry; k++) any[k] = marks->operand[k] = out[k];
        for (int k = n_carry; k < n; k++) any[k] |= out[k];
        if (flow_marks_all(&run->body, out, 0, n_carry) && flow_marks_all(&run->body, any, n_carry, n)) return true;
    }
    return false;
}

static bool is_one(const ScanRun *run, bool recorded) {
    const FlowBody *const bodies[] = {&run->body};
    FlowMarks marks;
    if (!run->body.graph) return false;
    flow_marks(run->call, bodies, 1, recorded, &marks);
    return marks.n_tracked && marks.fit && rounds_track(run, &marks);
}

static Status record_scan(ScanRun *run, FlowRecord *record) {
    const FlowCall *const call = run->call;
    const FlowScan *const scan = run->scan;
    TRY(flow_record_inputs(record));
    TRY(measure(run));
    TRY(trace_round(run, record));
    if (record->reason) return ST_OK;
    for (int i = 0; i < scan->n_carry; i++)
        TRY(flow_same_type(call->op, "carry", i, call->in[i]->base.meta, "before the body",
                           run->body.graph->outputs.at[i].value->base.meta, "behind it"));
    const FlowBody *const bodies[] = {&run->body};
    flow_record_tape(record, bodies, 1, is_one(run, true));
    if (record->reason) return error_pending();
    const char *const body = flow_text(&run->body);
    if (!body) return ST_MEMORY;
    Arg args[] = {
        A_NONE,   A_INT(call->n_in), A_INT(scan->n_carry), A_INT(scan->dim), A_BOOL(scan->reverse), A_STR(body),
        A_INT(0), A_INT(0),          A_INTS(NULL, 0)};
    return flow_record_op(record, OP_ROW(scan), args, 0, bodies, 1);
}

/* Inside of transforms the body runs itself for each slice, whose number is known. */
static Status scan_at_level(ScanRun *run) {
    const FlowBody *const bodies[] = {&run->body};
    FlowRun around;
    TRY(flow_level_inputs(run->call));
    TRY(measure(run));
    TRY(trace_round(run, &(FlowRecord){0}));
    TRY(flow_level_begin(run->call, bodies, 1, &around));
    run->body.itself = true;
    return flow_end(run->call, &around, run_with_memory(run));
}

Status flow_scan(const FlowCall *call, const FlowScan *scan) {
    FlowRun around;
    ScanRun run = scan_of(call, scan);
    FlowRecord record = {.call = call};
    if (state_get()->level) {
        const Status status = scan_at_level(&run);
        body_trace_free(&run.body);
        return status;
    }
    if (flow_records()) {
        const Status status = record_scan(&run, &record);
        const bool done = status != ST_OK || !record.reason;
        if (done || flow_traces_again()) body_trace_free(&run.body);
        if (done) return status;
    }
    TRY(flow_begin(call, record.reason, &around));
    const Status status = run_with_memory(&run);
    body_trace_free(&run.body);
    return flow_end(call, &around, status);
}

static FlowScan scan_args(const OpCall *op) {
    return (FlowScan){
        .n_carry = (int)op->args[2].i, .dim = op->args[3].i, .reverse = op->args[4].i, .what = "the body"};
}

static FlowCall call_of(const OpCall *op) {
    return (FlowCall){.op = op->args[2].i ? "sn_scan" : "sn_map",
                      .in = flow_operands(&op->args[0]),
                      .n_in = (int)op->args[1].i,
                      .out = op->outs};
}

static Status read_body(ScanRun *run, const OpCall *op, bool compiled) {
    Val *const *closed = op->args[0].vals + run->call->n_in;
    return flow_body_read(&run->body, op->args[5].string, compiled, &closed);
}

bool flow_scan_is_one(OpCall *op) {
    const FlowScan scan = scan_args(op);
    FlowCall call = call_of(op);
    ScanRun run = scan_of(&call, &scan);
    Status status = read_body(&run, op, false);
    call.n_out = run.body.n_out;
    if (status == ST_OK) status = measure(&run);
    const bool one = status == ST_OK && is_one(&run, false);
    body_trace_free(&run.body);
    return one;
}

Status flow_scan_run(OpCall *op, bool compiled) {
    const FlowScan scan = scan_args(op);
    FlowCall call = call_of(op);
    ScanRun run = scan_of(&call, &scan);
    FlowRun around;
    Status status = read_body(&run, op, compiled);
    op->n_outs = call.n_out = run.body.n_out;
    if (status == ST_OK) status = flow_op_begin(&call, &around);
    if (status == ST_OK) status = flow_end(&call, &around, run_with_memory(&run));
    body_trace_free(&run.body);
    return status;
}
