/* region_program.c: a captured body has returned when its segment runs op by op, as the first one of a case does. So a
 * region's recorded ops are its body: they are copied, since the trace goes with the call, and region_call runs them,
 * and runs them again in the backward.
 *
 *   ops of the trace   0: exp   1: mul {1}   2: sin {2<1}   3: add {1}   4: sum
 *   copied             body 1: [1: mul, body 2: [2: sin], 3: add]
 *
 * Operands are encoded once for all: values that the outermost region makes count from its first one; all others are
 * numbered as they come, below zero. A region's inputs are what it reads of either without having made it. */
#include "runtime/capture/record/region_program.h"

#include "runtime/autograd/region.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"

typedef struct RecordedBody RecordedBody;

typedef struct RecordedOp {
    RecordedBody *inner; /* a region in this one; else NULL, and: */
    TraceOp op;          /* with its numbers; operands are encoded, first_value counts from the program's first one */
    const void *site;
    uint64_t sequence;
    Val **operands; /* room for what a run has for them */
    int number;     /* in the trace */
} RecordedOp;

/* All that a segment's region needs to run without its trace. */
typedef struct RegionProgram {
    _Atomic int32_t refs; /* calls of its regions that can still be run */
    Arena *arena;
    int first_value, n_values;
    VEC(Operand) outer;    /* of the trace; encoded as -1 - place */
    int failed;            /* the op that failed; -1: none */
    const Trace *trace;    /* of the forward, while it runs */
    const RecordedOp *now; /* the op that runs: the policy was asked when it was recorded */
} RegionProgram;

struct RecordedBody { /* of one region */
    RegionProgram *program;
    VEC(RecordedOp) ops;
    VEC(Operand) in, out; /* encoded; results are values */
};

/* copying ---------------------------------------------------------------------------------------------------------- */

typedef struct ProgramCopy {
    const Trace *trace;
    const int *last;
    RegionProgram *program;
} ProgramCopy;

static bool lies_in(const Trace *trace, int at, int region) {
    const int in = trace->ops.at[at].op->region;
    return in == region || regions_below(&trace->regions, in, region);
}

static int region_end_of(const Trace *trace, int first, int region) {
    int i = first;
    while (i < trace->ops.n && lies_in(trace, i, region)) i++;
    return i;
}

static Operand encode(const ProgramCopy *c, Operand o) {
    RegionProgram *const program = c->program;
    if (o == OPERAND_ABSENT) return o;
    if (o >= program->first_value) return o - program->first_value;
    for (int i = 0; i < program->outer.n; i++)
        if (program->outer.at[i] == o) return -1 - i;
    VEC_PUSH(program->arena, &program->outer, o);
    return -program->outer.n;
}

static bool has_operand(const Operand *at, int n, Operand o) {
    for (int i = 0; i < n; i++)
        if (at[i] == o) return true;
    return false;
}

/* made: the region has made the values from there on. */
static void reads(RecordedBody *body, Operand o, int made) {
    if (o == OPERAND_ABSENT || o >= made || has_operand(body->in.at, body->in.n, o)) return;
    VEC_PUSH(body->program->arena, &body->in, o);
}

static bool copy_arg(Arena *arena, Arg *a) {
    if ((a->kind == ARG_ints || a->kind == ARG_floats) && a->n)
        return (a->ints = arena_copy(arena, a->ints, sizeof *a->ints * (size_t)a->n)) != NULL;
    if (a->kind == ARG_string && a->string) return (a->string = arena_strdup(arena, a->string)) != NULL;
    return true;
}

static bool copy_op(const ProgramCopy *c, RecordedBody *body, int at) {
    Arena *const arena = c->program->arena;
    const TracedOp *const step = &c->trace->ops.at[at];
    const TraceOp *const op = step->op;
    RecordedOp *const to = VEC_NEXT(arena, &body->ops);
    Arg *const args = ARENA_ARRAY(arena, Arg, op->row->n_params + 1);
    Operand *const operands = ARENA_ARRAY(arena, Operand, op->n_operands + 1);
    Val **const room = ARENA_ARRAY(arena, Val *, op->n_operands + 1);
    if (!to || !args || !operands || !room) return false;
    trace_numbers(op, c->trace->numbers.at, args);
    for (int i = 0; i < op->row->n_params; i++)
        if (!copy_arg(arena, &args[i])) return false;
    for (int i = 0; i < op->n_operands; i++) operands[i] = encode(c, op->operands[i]);
    const uint64_t sequence = c->trace->sequence + (uint64_t)step->random;
    *to = (RecordedOp){.op = *op, .site = step->site, .sequence = sequence, .operands = room, .number = at};
    to->op.args = args, to->op.operands = operands, to->op.fixed = NULL;
    to->op.first_value -= c->program->first_value;
    body->ops.n++;
    return true;
}

/* Behind op `end` somebody takes it, or has it. */
static bool is_wanted(const ProgramCopy *c, int value, int end) {
    const sn_tensor *const t = c->trace->values.at[value];
    return c->last[value] >= end || (t && atomic_load(&t->refs) > 1) || c->trace->marks[value] & VALUE_output;
}

static RecordedBody *copy_region(const ProgramCopy *c, int first, int end, int region) {
    RegionProgram *const program = c->program;
    RecordedBody *const body = ARENA_NEW(program->arena, RecordedBody);
    if (!body) return NULL;
    *body = (RecordedBody){.program = program};
    const int made = c->trace->ops.at[first].op->first_value - program->first_value;
    for (int i = first; i < end;) {
        const TraceOp *const op = c->trace->ops.at[i].op;
        if (op->region == region) {
            if (!copy_op(c, body, i++)) return NULL;
        } else {
            const int inner = regions_below(&c->trace->regions, op->region, region);
            const int inner_end = region_end_of(c->trace, i, inner);
            RecordedOp *const to = VEC_NEXT(program->arena, &body->ops);
            if (!to || !(to->inner = copy_region(c, i, inner_end, inner))) return NULL;
            body->ops.n++;
            i = inner_end;
        }
    }
    for (int i = first; i < end; i++) {
        const TraceOp *const op = c->trace->ops.at[i].op;
        for (int k = 0; k < op->n_operands; k++) reads(body, encode(c, op->operands[k]), made);
        for (int v = op->first_value; v < op->first_value + op->n_outs; v++)
            if (is_wanted(c, v, end)) VEC_PUSH(program->arena, &body->out, v - program->first_value);
    }
    return body;
}

/* running ---------------------------------------------------------------------------------------------------------- */

typedef struct ProgramValues { /* of one run of a region */
    sn_tensor **made, **outer;
} ProgramValues;

static sn_tensor **value_at(const ProgramValues *values, Operand o) {
    return o < 0 ? &values->outer[-1 - o] : &values->made[o];
}

static Val *operand_of(const ProgramValues *values, Operand o) {
    return o == OPERAND_ABSENT ? NULL : &(*value_at(values, o))->base;
}

/* In the forward at once: views know their base by its handle, whose history a later write changes. */
static sn_tensor *bound_handle(const RegionProgram *program, int value, sn_tensor *made) {
    sn_tensor *const placeholder = program->trace ? program->trace->values.at[program->first_value + value] : NULL;
    if (!placeholder || !placeholder->placeholder) return made;
    tensor_bind(placeholder, made);
    return placeholder;
}

static Status run_op(RegionProgram *program, const RecordedOp *recorded, const ProgramValues *values) {
    const TraceOp *const op = &recorded->op;
    Arg args[MAX_ARGS];
    sn_tensor *outs[MAX_OUTS] = {NULL}, *out_args[MAX_OUTS];
    memcpy(args, op->args, sizeof *args * (size_t)op->row->n_params);
    for (int k = 0; k < op->n_operands; k++) recorded->operands[k] = operand_of(values, op->operands[k]);
    trace_tensors(op, recorded->operands, args, out_args);
    trace_op_enter(op, recorded->site, recorded->sequence);
    program->now = recorded;
    program->failed = recorded->number;
    TRY(dispatch(op->row, op->form, args, op->form == FORM_out ? out_args : NULL, outs));
    program->failed = -1;
    for (int i = 0; i < op->n_outs; i++)
        values->made[op->first_value + i] = bound_handle(program, op->first_value + i, outs[i]);
    return ST_OK;
}

static Status run_region(RecordedBody *body, const bool *made, const ProgramValues *values);

static Status run_all(sn_frame *frame, RecordedBody *body, const ProgramValues *values) {
    context_enter_scope(state_get(), CONTEXT_parts); /* casts are ops among these */
    for (int i = 0; i < frame->n_in; i++)
        if (frame->in[i].val) *value_at(values, body->in.at[i]) = tensor_of(frame->in[i].val);
    for (int i = 0; i < body->ops.n; i++) {
        const RecordedOp *const op = &body->ops.at[i];
        TRY(op->inner ? run_region(op->inner, NULL, values) : run_op(body->program, op, values));
    }
    for (int i = 0; i < body->out.n; i++) frame->out[i] = tensor_retained(values->made[body->out.at[i]]);
    return ST_OK;
}

static sn_status recorded_body(sn_frame *frame) {
    RecordedBody *const body = frame->closure;
    const RegionProgram *const program = body->program;
    const size_t n_made = (size_t)program->n_values, n_outer = (size_t)program->outer.n;
    sn_tensor **const buffer = mem_zero((n_made + n_outer + 1) * sizeof *buffer);
    if (!buffer) return (sn_status)ST_MEMORY;
    const ProgramValues values = {buffer, buffer + n_made};
    const Status status = run_all(frame, body, &values);
    mem_free(buffer);
    return (sn_status)status;
}

static void recorded_drop(void *closure, void *context) {
    RegionProgram *const program = ((RecordedBody *)closure)->program;
    if (refs_drop(&program->refs)) arena_free(program->arena);
}

static bool op_is_saved(void *context, const char *name) {
    const RegionProgram *const program = context;
    return program->now && program->now->op.modes & NODE_saved;
}

/* made: as RegionCall has it. */
static Status run_region(RecordedBody *body, const bool *made, const ProgramValues *values) {
    Arena *const arena = arena_new();
    Arg *const in = arena ? ARENA_ARRAY(arena, Arg, body->in.n + 1) : NULL;
    sn_tensor **const out = arena ? ARENA_ARRAY(arena, sn_tensor *, body->out.n + 1) : NULL;
    Status status = in && out ? ST_OK : ST_MEMORY;
    for (int i = 0; in && i < body->in.n; i++) in[i] = arg_tensor_opt(*value_at(values, body->in.at[i]));
    const RegionCall call = {.body = recorded_body,
                             .closure = body,
                             .closure_free = recorded_drop,
                             .policy = {op_is_saved, body->program},
                             .in = in,
                             .n_in = body->in.n,
                             .out = out,
                             .n_out = body->out.n,
                             .made = made};
    refs_add(&body->program->refs, 1);
    state_grad_mode_set(state_get(), SN_GRAD_ON);
    if (status != ST_OK) recorded_drop(body, NULL);
    if (status == ST_OK) status = region_call(&call);
    for (int i = 0; status == ST_OK && i < body->out.n; i++) values->made[body->out.at[i]] = out[i];
    arena_free(arena);
    return status;
}

/* a segment's ------------------------------------------------------------------------------------------------------ */

/* Whole: what of a region comes behind an op that ran by itself does, too. */
static bool may_run(const Trace *trace, int region, int first, int end) {
    bool tracked = false;
    if (first && lies_in(trace, first - 1, region)) return false;
    for (int i = first; i < end; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        tracked |= trace->ops.at[i].needs != 0;
        if (op->mutates_metadata || op_dynamic(op->row)) return false;
        if (op->row->returns_list && !(op->row->flags & OPF_flow)) return false; /* control flow has few results */
        if (op->row->flags & OPF_ordered || op->row->role == ROLE_gradients) return false;
    }
    return tracked;
}

static bool is_rest(const Trace *trace, const sn_tensor *t) {
    for (int i = 0; i < trace->rest.n; i++)
        if (trace->rest.at[i] == t) return true;
    return false;
}

static Status run_program(const Trace *trace, RegionProgram *program, RecordedBody *body) {
    sn_tensor **const buffer =
        ARENA_ARRAY(trace->capture->arena, sn_tensor *, program->n_values + program->outer.n + 1);
    if (!buffer) return ST_MEMORY;
    const ProgramValues values = {buffer, buffer + program->n_values};
    for (int i = 0; i < program->outer.n; i++) values.outer[i] = trace_tensor(trace, program->outer.at[i]);
    bool *const made = ARENA_ARRAY(trace->capture->arena, bool, body->in.n + 1);
    if (!made) return ST_MEMORY;
    for (int i = 0; i < body->in.n; i++) made[i] = is_rest(trace, *value_at(&values, body->in.at[i]));
    program->trace = trace;
    const Status status = run_region(body, made, &values);
    program->trace = NULL;
    return status;
}

static RegionProgram *program_new(const Trace *trace, int first, int end) {
    Arena *const arena = arena_new();
    RegionProgram *const program = arena ? ARENA_NEW(arena, RegionProgram) : NULL;
    const TraceOp *const head = trace->ops.at[first].op, *const tail = trace->ops.at[end - 1].op;
    if (program)
        *program = (RegionProgram){.refs = 1,
                                   .arena = arena,
                                   .first_value = head->first_value,
                                   .n_values = tail->first_value + tail->n_outs - head->first_value,
                                   .failed = -1};
    else
        arena_free(arena);
    return program;
}

Status region_program_run(Trace *trace, int first, const int *last, int *n) {
    const int region = regions_top(&trace->regions, trace->ops.at[first].op->region);
    const int end = region_end_of(trace, first, region);
    *n = 0;
    if (!region || !may_run(trace, region, first, end)) return ST_OK;
    RegionProgram *const program = program_new(trace, first, end);
    const ProgramCopy copying = {trace, last, program};
    RecordedBody *const body = program ? copy_region(&copying, first, end, region) : NULL;
    sn_state *const state = state_get();
    Status status = body ? scope_push(state, false) : ST_MEMORY;
    if (status == ST_OK) {
        status = run_program(trace, program, body);
        scope_pop(state);
    }
    *n = program && program->failed >= 0 ? program->failed - first : end - first;
    if (program && refs_drop(&program->refs)) arena_free(program->arena);
    return status;
}
