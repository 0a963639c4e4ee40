/* region_program.c: a captured body has returned when its segment runs op by op, as the first one of a case does. So a
 * region's recorded ops are its body: they are copied, since the trace goes with the call, and region_call runs them,
 * and runs them again in the backward.
 *
 *   ops of the trace   0: exp   1: mul {1}   2: sin {2<1}   3: add {1}   4: sum
 *   copied             Steps 1: [1: mul, Steps 2: [2: sin], 3: add]
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

typedef struct Steps Steps;

typedef struct StepsOp {
    Steps *inner; /* a region in this one; else NULL, and: */
    const OpRow *row;
    OpForm form;
    uint8_t modes;
    const void *site;
    uint64_t random; /* its sequence number */
    Arg *args;
    Val **listed;      /* room for what its lists hold */
    Operand *operands; /* encoded */
    int n_outs, first_out, number;
} StepsOp;

/* All that a segment's region needs to run without its trace. */
typedef struct StepsTree {
    _Atomic int32_t refs; /* calls of its regions that can still be run */
    Arena *arena;
    int first_value, n_values;
    VEC(Operand) outer; /* of the trace; encoded as -1 - place */
    int failed;         /* the op that failed; -1: none */
    const Trace *trace; /* of the forward, while it runs */
    const StepsOp *now; /* the op that runs: the policy was asked when it was recorded */
} StepsTree;

struct Steps {
    StepsTree *tree;
    int region;
    VEC(StepsOp) ops;
    VEC(Operand) in, out; /* encoded; results are values */
};

/* copying ---------------------------------------------------------------------------------------------------------- */

typedef struct StepsCopy {
    const Trace *trace;
    const int *last;
    StepsTree *tree;
} StepsCopy;

static int outer_region(const Trace *trace, int region) { return trace->regions.at[region - 1]; }

/* The region right inside of `outer` that `region` is, or lies in; 0: it lies elsewhere, or is that one. */
static int region_below(const Trace *trace, int region, int outer) {
    while (region && outer_region(trace, region) != outer) region = outer_region(trace, region);
    return region;
}

static bool lies_in(const Trace *trace, int region, int outer) {
    while (region && region != outer) region = outer_region(trace, region);
    return region != 0;
}

static int region_end_of(const Trace *trace, int first, int region) {
    int i = first;
    while (i < trace->ops.n && lies_in(trace, trace->ops.at[i].op->region, region)) i++;
    return i;
}

static Operand encode(const StepsCopy *c, Operand o) {
    StepsTree *const tree = c->tree;
    if (o == OPERAND_ABSENT) return o;
    if (o >= tree->first_value) return o - tree->first_value;
    for (int i = 0; i < tree->outer.n; i++)
        if (tree->outer.at[i] == o) return -1 - i;
    VEC_PUSH(tree->arena, &tree->outer, o);
    return -tree->outer.n;
}

static bool has_operand(const Operand *at, int n, Operand o) {
    for (int i = 0; i < n; i++)
        if (at[i] == o) return true;
    return false;
}

/* made: the region has made the values from there on. */
static void reads(Steps *steps, Operand o, int made) {
    if (o == OPERAND_ABSENT || o >= made || has_operand(steps->in.at, steps->in.n, o)) return;
    VEC_PUSH(steps->tree->arena, &steps->in, o);
}

static bool copy_arg(Arena *arena, Arg *a) {
    if ((a->kind == ARG_ints || a->kind == ARG_floats) && a->n)
        return (a->ints = arena_copy(arena, a->ints, sizeof *a->ints * (size_t)a->n)) != NULL;
    if (a->kind == ARG_string && a->string) return (a->string = arena_strdup(arena, a->string)) != NULL;
    return true;
}

static bool copy_op(const StepsCopy *c, Steps *steps, int at) {
    Arena *const arena = c->tree->arena;
    const TracedOp *const step = &c->trace->ops.at[at];
    const TraceOp *const op = step->op;
    StepsOp *const to = VEC_NEXT(arena, &steps->ops);
    if (!to) return false;
    *to = (StepsOp){.row = op->row,
                    .form = op->form,
                    .modes = op->modes,
                    .site = step->site,
                    .random = c->trace->sequence + (uint64_t)step->random,
                    .args = ARENA_ARRAY(arena, Arg, op->row->n_params + 1),
                    .listed = ARENA_ARRAY(arena, Val *, op->n_operands + 1),
                    .operands = ARENA_ARRAY(arena, Operand, op->n_operands + 1),
                    .n_outs = op->n_outs,
                    .first_out = op->first_value - c->tree->first_value,
                    .number = at};
    if (!to->args || !to->listed || !to->operands) return false;
    steps->ops.n++;
    trace_numbers(op, c->trace->numbers.at, to->args);
    for (int i = 0; i < op->row->n_params; i++)
        if (!copy_arg(arena, &to->args[i])) return false;
    for (int i = 0; i < op->n_operands; i++) to->operands[i] = encode(c, op->operands[i]);
    return true;
}

/* Behind op `end` somebody takes it, or has it. */
static bool is_wanted(const StepsCopy *c, int value, int end) {
    const sn_tensor *const t = c->trace->values.at[value];
    return c->last[value] >= end || (t && atomic_load(&t->refs) > 1) || c->trace->marks[value] & VALUE_output;
}

static Steps *copy_region(const StepsCopy *c, int first, int end, int region) {
    StepsTree *const tree = c->tree;
    Steps *const steps = ARENA_NEW(tree->arena, Steps);
    if (!steps) return NULL;
    *steps = (Steps){.tree = tree, .region = region};
    const int made = c->trace->ops.at[first].op->first_value - tree->first_value;
    for (int i = first; i < end;) {
        const TraceOp *const op = c->trace->ops.at[i].op;
        if (op->region == region) {
            if (!copy_op(c, steps, i++)) return NULL;
        } else {
            const int inner = region_below(c->trace, op->region, region);
            const int inner_end = region_end_of(c->trace, i, inner);
            StepsOp *const to = VEC_NEXT(tree->arena, &steps->ops);
            if (!to || !(to->inner = copy_region(c, i, inner_end, inner))) return NULL;
            steps->ops.n++;
            i = inner_end;
        }
    }
    for (int i = first; i < end; i++) {
        const TraceOp *const op = c->trace->ops.at[i].op;
        for (int k = 0; k < op->n_operands; k++) reads(steps, encode(c, op->operands[k]), made);
        for (int v = op->first_value; v < op->first_value + op->n_outs; v++)
            if (is_wanted(c, v, end)) VEC_PUSH(tree->arena, &steps->out, v - tree->first_value);
    }
    return steps;
}

/* running ---------------------------------------------------------------------------------------------------------- */

typedef struct StepsValues { /* of one run of a region */
    sn_tensor **made, **outer;
} StepsValues;

static sn_tensor **value_at(const StepsValues *values, Operand o) {
    return o < 0 ? &values->outer[-1 - o] : &values->made[o];
}

static Val *operand_of(const StepsValues *values, Operand o) {
    return o == OPERAND_ABSENT ? NULL : &(*value_at(values, o))->base;
}

/* In the forward at once: views know their base by its handle, whose history a later write changes. */
static sn_tensor *bound_handle(const StepsTree *tree, int value, sn_tensor *made) {
    sn_tensor *const placeholder = tree->trace ? tree->trace->values.at[tree->first_value + value] : NULL;
    if (!placeholder || !placeholder->placeholder) return made;
    tensor_bind(placeholder, made);
    return placeholder;
}

static Status run_op(StepsTree *tree, const StepsOp *op, const StepsValues *values) {
    Arg args[MAX_ARGS];
    sn_tensor *outs[MAX_OUTS] = {NULL}, *out_args[MAX_OUTS];
    const Operand *operand = op->operands;
    Val **listed = op->listed;
    for (int i = 0; i < op->row->n_params; i++) {
        Arg *const a = &args[i];
        *a = op->args[i];
        if (a->kind == ARG_tensor) a->val = operand_of(values, *operand++);
        if (a->kind != ARG_tensors) continue;
        a->vals = listed;
        for (int k = 0; k < a->n; k++) *listed++ = operand_of(values, *operand++);
    }
    for (int i = 0; op->form == FORM_out && i < op->row->n_out; i++)
        out_args[i] = tensor_of(operand_of(values, *operand++));
    sn_state *const state = state_get();
    state_grad_mode_set(state, op->modes & NODE_inference ? SN_INFERENCE
                               : op->modes & NODE_no_grad ? SN_GRAD_OFF
                                                          : SN_GRAD_ON);
    state->site = op->site;
    if (op->row->flags & OPF_random) state->sequence = op->random;
    tree->now = op;
    tree->failed = op->number;
    TRY(dispatch(op->row, op->form, args, op->form == FORM_out ? out_args : NULL, outs));
    tree->failed = -1;
    for (int i = 0; i < op->n_outs; i++)
        values->made[op->first_out + i] = bound_handle(tree, op->first_out + i, outs[i]);
    return ST_OK;
}

static Status run_region(Steps *steps, const bool *made, const StepsValues *values);

static Status run_all(sn_frame *frame, Steps *steps, const StepsValues *values) {
    context_enter_scope(state_get(), CONTEXT_parts); /* casts are ops among these */
    for (int i = 0; i < frame->n_in; i++)
        if (frame->in[i].val) *value_at(values, steps->in.at[i]) = tensor_of(frame->in[i].val);
    for (int i = 0; i < steps->ops.n; i++) {
        const StepsOp *const op = &steps->ops.at[i];
        TRY(op->inner ? run_region(op->inner, NULL, values) : run_op(steps->tree, op, values));
    }
    for (int i = 0; i < steps->out.n; i++) frame->out[i] = tensor_retained(values->made[steps->out.at[i]]);
    return ST_OK;
}

static sn_status steps_body(sn_frame *frame) {
    Steps *const steps = frame->closure;
    const StepsTree *const tree = steps->tree;
    const size_t n_made = (size_t)tree->n_values, n_outer = (size_t)tree->outer.n;
    sn_tensor **const buffer = mem_zero((n_made + n_outer + 1) * sizeof *buffer);
    if (!buffer) return (sn_status)ST_MEMORY;
    const StepsValues values = {buffer, buffer + n_made};
    const Status status = run_all(frame, steps, &values);
    mem_free(buffer);
    return (sn_status)status;
}

static void steps_drop(void *closure, void *context) {
    StepsTree *const tree = ((Steps *)closure)->tree;
    if (refs_drop(&tree->refs)) arena_free(tree->arena);
}

static bool op_is_saved(void *context, const char *name) {
    const StepsTree *const tree = context;
    return tree->now && tree->now->modes & NODE_saved;
}

/* made: as RegionCall has it. */
static Status run_region(Steps *steps, const bool *made, const StepsValues *values) {
    Arena *const arena = arena_new();
    Arg *const in = arena ? ARENA_ARRAY(arena, Arg, steps->in.n + 1) : NULL;
    sn_tensor **const out = arena ? ARENA_ARRAY(arena, sn_tensor *, steps->out.n + 1) : NULL;
    Status status = in && out ? ST_OK : ST_MEMORY;
    for (int i = 0; in && i < steps->in.n; i++) in[i] = arg_tensor_opt(*value_at(values, steps->in.at[i]));
    const RegionCall call = {.body = steps_body,
                             .closure = steps,
                             .closure_free = steps_drop,
                             .policy = {op_is_saved, steps->tree},
                             .in = in,
                             .n_in = steps->in.n,
                             .out = out,
                             .n_out = steps->out.n,
                             .made = made};
    refs_add(&steps->tree->refs, 1);
    state_grad_mode_set(state_get(), SN_GRAD_ON);
    if (status != ST_OK) steps_drop(steps, NULL);
    if (status == ST_OK) status = region_call(&call);
    for (int i = 0; status == ST_OK && i < steps->out.n; i++) values->made[steps->out.at[i]] = out[i];
    arena_free(arena);
    return status;
}

/* a segment's ------------------------------------------------------------------------------------------------------ */

/* Whole: what of a region comes behind an op that ran by itself does, too. */
static bool may_run(const Trace *trace, int region, int first, int end) {
    bool tracked = false;
    if (first && lies_in(trace, trace->ops.at[first - 1].op->region, region)) return false;
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

static sn_tensor *operand_now(const Trace *trace, Operand o) {
    return operand_is_input(o) ? trace->inputs.at[operand_input(o)].tensor : trace->values.at[o];
}

static Status run_tree(const Trace *trace, StepsTree *tree, Steps *steps) {
    sn_tensor **const buffer = ARENA_ARRAY(trace->capture->arena, sn_tensor *, tree->n_values + tree->outer.n + 1);
    if (!buffer) return ST_MEMORY;
    const StepsValues values = {buffer, buffer + tree->n_values};
    for (int i = 0; i < tree->outer.n; i++) values.outer[i] = operand_now(trace, tree->outer.at[i]);
    bool *const made = ARENA_ARRAY(trace->capture->arena, bool, steps->in.n + 1);
    if (!made) return ST_MEMORY;
    for (int i = 0; i < steps->in.n; i++) made[i] = is_rest(trace, *value_at(&values, steps->in.at[i]));
    tree->trace = trace;
    const Status status = run_region(steps, made, &values);
    tree->trace = NULL;
    return status;
}

static StepsTree *tree_new(const Trace *trace, int first, int end) {
    Arena *const arena = arena_new();
    StepsTree *const tree = arena ? ARENA_NEW(arena, StepsTree) : NULL;
    const TraceOp *const head = trace->ops.at[first].op, *const tail = trace->ops.at[end - 1].op;
    if (tree)
        *tree = (StepsTree){.refs = 1,
                            .arena = arena,
                            .first_value = head->first_value,
                            .n_values = tail->first_value + tail->n_outs - head->first_value,
                            .failed = -1};
    else
        arena_free(arena);
    return tree;
}

Status region_program_run(Trace *trace, int first, const int *last, int *n) {
    const int region = region_below(trace, trace->ops.at[first].op->region, 0);
    const int end = region_end_of(trace, first, region);
    *n = 0;
    if (!region || !may_run(trace, region, first, end)) return ST_OK;
    StepsTree *const tree = tree_new(trace, first, end);
    const StepsCopy copying = {trace, last, tree};
    Steps *const steps = tree ? copy_region(&copying, first, end, region) : NULL;
    sn_state *const state = state_get();
    Status status = steps ? scope_push(state, false) : ST_MEMORY;
    if (status == ST_OK) {
        status = run_tree(trace, tree, steps);
        scope_pop(state);
    }
    *n = tree && tree->failed >= 0 ? tree->failed - first : end - first;
    if (tree && refs_drop(&tree->refs)) arena_free(tree->arena);
    return status;
}
