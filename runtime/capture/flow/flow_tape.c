/* flow_tape.c: control flow on the tape [semantics T3]. A node for the whole call saves its operands; where its turn
 * comes the bodies run once more, op by op, from handles that end there:
 *
 *   operand -- alias of the node "Operands" --> body --> result <-- its gradient
 *        a run of the engine from results and sums so far, to the aliases: the new sums
 *
 * So nothing between the rounds is kept, each contribution is added in the order of a loop by hand, and a graph holds
 * the same as one op, whose results are the same bits; its launch goes another way to them (flow_joint.c). */
#include "ir/flow_text.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/capture/record/capture.h"
#include "runtime/core/context_enter.h"

/* What requires gradients ------------------------------------------------------------------------- */

typedef struct Operands {
    sn_tensor *seen[FLOW_OPERANDS]; /* that require gradients, each once */
    int n;                          /* all that were looked at */
    bool recorded;
    FlowMarks *marks;
} FlowOperands;

static bool is_new(const FlowOperands *o, const sn_tensor *t) {
    for (int k = 0; k < o->marks->n_tracked && k < FLOW_OPERANDS; k++)
        if (o->seen[k] == t) return false;
    return true;
}

static void mark_operand(FlowOperands *o, sn_tensor *t) {
    const bool tracked = o->recorded ? capture_requires_grad(t) : tape_tracks(t), fits = o->n < FLOW_OPERANDS;
    if (fits) o->marks->operand[o->n] = tracked;
    if (tracked && is_new(o, t)) {
        if (fits) o->seen[o->marks->n_tracked] = t;
        o->marks->n_tracked++;
    }
    o->n++;
}

void flow_marks(const FlowCall *call, const FlowBody *const *bodies, int n_bodies, bool recorded, FlowMarks *marks) {
    FlowOperands o = {.recorded = recorded, .marks = marks};
    *marks = (FlowMarks){.n_tracked = 0};
    if (recorded && tracer_symbolic(state_get())) return; /* of a traced body nothing is known yet */
    for (int i = 0; i < call->n_in; i++) mark_operand(&o, call->in[i]);
    for (int k = 0; k < n_bodies; k++)
        for (int i = 0; i < bodies[k]->closed.n; i++) mark_operand(&o, bodies[k]->closed.at[i]);
    marks->fit = o.n <= FLOW_OPERANDS && call->n_out <= FLOW_RESULTS;
}

Status flow_marks_run(const FlowMarks *marks, const FlowBody *body, int first, bool *out) {
    bool in[FLOW_OPERANDS];
    for (int i = 0; i < body->n_in; i++) in[i] = marks->operand[i];
    for (int i = 0; i < body->closed.n; i++) in[body->n_in + i] = marks->operand[first + i];
    return flow_body_marks(body, in, out);
}

bool flow_marks_all(const FlowBody *body, const bool *out, int from, int to) {
    bool all = true;
    for (int i = from; i < to; i++)
        all &= out[i] || !dtype_is_float(body->graph->outputs.at[i].value->base.meta->dtype);
    return all;
}

/* The forward on the key ------------------------------------------------------------------------------ */

/* Under a transform's level its rules see each op. */
static Status on_tape(OpCall *op, OpKernel *each, bool (*is_one)(OpCall *op)) {
    const sn_state *const state = state_get();
    const bool one = state->grad_mode == SN_GRAD_ON && !state->level && is_one(op);
    TRY(error_pending());
    return one ? tape_kernel(op) : each(op);
}

static Status cond_on_tape(OpCall *op) { return on_tape(op, flow_cond_op, flow_cond_is_one); }
static Status scan_on_tape(OpCall *op) { return on_tape(op, flow_scan_op, flow_scan_is_one); }

/* Below the tape: what the bodies record is nobody's. */
static Status below(OpCall *op, OpKernel *each) {
    const ContextSaved saved = context_enter(state_get(), CONTEXT_below_tape);
    const Status status = each(op);
    context_leave(&saved);
    return status;
}

static Status cond_below(OpCall *op) { return below(op, flow_cond_op); }
static Status scan_below(OpCall *op) { return below(op, flow_scan_op); }

/* The backward ------------------------------------------------------------------------------------------ */

typedef struct FlowBackward {
    OpCall *op;
    const Arg *operands, *of;
    bool create; /* its ops are recorded, on the operands' own histories */
    int n;       /* results */
    Val *in[FLOW_OPERANDS];
    sn_tensor *xs[FLOW_OPERANDS], *got[FLOW_OPERANDS]; /* by result */
    sn_tensor *roots[FLOW_OPERANDS + FLOW_RESULTS], *grads[FLOW_OPERANDS + FLOW_RESULTS];
    int n_roots;
} FlowBackward;

int flow_backward_results(const OpCall *op) {
    const Arg *const of = flow_arg(op, "of");
    int64_t n = 0;
    for (int i = 0; i < of->n; i++) n = max_i64(n, of->ints[i] + 1);
    return (int)n;
}

sn_tensor *flow_no_gradient(const sn_tensor *operand) {
    const Meta *const like = operand->base.meta;
    const Meta *const meta = meta_intern_contiguous(like->dtype, like->device, like->sizes, like->rank);
    return meta ? tensor_new_zero(meta) : NULL;
}

static Status ends_here(TapeNode *node, TapeBackward *call) {
    (void)node, (void)call;
    return error_raise(ST_INTERNAL, "the operands of control flow have no history");
}
static void drops_nothing(TapeNode *node) { (void)node; }
static void operands_name(const TapeNode *node, Text *text) {
    (void)node;
    text_puts(text, "Operands");
}
static const TapeClass operands_class = {.backward = ends_here, .drop = drops_nothing, .name = operands_name};

/* A level saves tensors of inference mode, too: a view of one would be such, and no op of it recorded. */
static sn_tensor *operand_handle(sn_tensor *t) {
    const bool inference = t->flags & TF_inference;
    return inference ? tensor_from_storage(t->storage, t->base.meta, t->offset)
                     : tensor_view(t, t->base.meta, t->offset);
}

/* Under create_graph the operand itself, as what is recorded leads to it. Else another handle, a result of `node`; what
 * wants no gradient has no history. */
static Status enter_operand(FlowBackward *b, int i, TapeNode *node) {
    sn_tensor *t = tensor_of(b->operands->vals[i]);
    const int64_t result = b->of->ints[i];
    if (!b->create) {
        t = operand_handle(t);
        if (!t) return error_pending() ? error_pending() : ST_MEMORY;
    }
    if (result >= 0 && !b->create) TRY(tape_attach(t, node, (int)result));
    if (result >= 0 && !b->xs[result]) b->xs[result] = t;
    b->in[i] = &t->base;
    return ST_OK;
}

static Status enter_operands(FlowBackward *b) {
    TapeNode *const node = tape_node_new(&operands_class, 0, 0, b->n, 0);
    Status status = node ? ST_OK : ST_MEMORY;
    for (int i = 0; status == ST_OK && i < b->operands->n; i++) status = enter_operand(b, i, node);
    tape_node_release(node);
    return status;
}

/* Its arguments are the forward's, by name, but for the operands. Texts of what ran have no ints. */
static Status run_again(FlowBackward *b, sn_tensor **outs) {
    const bool cond = b->op->row == OP_ROW(cond_backward);
    const OpRow *const row = op_row(cond ? OP_ID(cond) : OP_ID(scan));
    sn_state *const state = state_get();
    const uint64_t seed = state->seed, sequence = state->sequence;
    Arg args[MAX_ARGS];
    for (int i = 0; i < row->n_params; i++) {
        const int from = op_param_find(b->op->row, row->params[i].name);
        args[i] = from >= 0 ? b->op->args[from] : A_INTS(NULL, 0);
    }
    args[op_param_find(row, "operands")] = A_VALS(b->in, b->operands->n);
    state->seed = (uint64_t)flow_arg(b->op, "seed")->i;
    state->sequence = (uint64_t)flow_arg(b->op, "number")->i;
    OpCall forward = {.row = row, .args = args, .outs = outs};
    const Status status = cond ? flow_cond_op(&forward) : flow_scan_op(&forward);
    state->seed = seed, state->sequence = sequence;
    return status;
}

static void flow_root(FlowBackward *b, sn_tensor *root, sn_tensor *grad) {
    b->roots[b->n_roots] = root;
    b->grads[b->n_roots++] = grad;
}

/* The sums come first, then the results' gradients in their order. */
static void find_roots(FlowBackward *b, sn_tensor *const *outs) {
    const Arg *const sums = flow_arg(b->op, "sums"), *const summed = flow_arg(b->op, "summed");
    const Arg *const gradients = flow_arg(b->op, "gradients"), *const defined = flow_arg(b->op, "defined");
    for (int k = 0; k < sums->n; k++) flow_root(b, b->xs[summed->ints[k]], tensor_of(sums->vals[k]));
    for (int k = 0; k < gradients->n; k++)
        if (tape_tracks(outs[defined->ints[k]])) flow_root(b, outs[defined->ints[k]], tensor_of(gradients->vals[k]));
}

static bool is_argument(const OpCall *op, const sn_tensor *t) {
    bool any = false;
    for (int i = 0; i < op->row->n_params; i++)
        for (int k = 0; op->args[i].kind == ARG_tensors && k < op->args[i].n; k++)
            any |= tensor_of(op->args[i].vals[k])->storage == t->storage;
    return any;
}

/* Row-major, in memory of its own; where nothing came, of the branch that was not taken, zeros. */
static Status set_result(FlowBackward *b, int k) {
    sn_tensor *t = b->got[k];
    if (!t) {
        t = flow_no_gradient(b->xs[k]);
    } else if (!flow_is_row_major(t->base.meta) || is_argument(b->op, t)) {
        t = tape_clone(t, NULL);
    }
    b->op->outs[k] = t;
    return t ? ST_OK : error_pending() ? error_pending() : ST_MEMORY;
}

static Status go_back(FlowBackward *b) {
    sn_tensor **const outs = mem_zero(MAX_LIST * sizeof *outs);
    if (!outs) return ST_MEMORY;
    Status status = enter_operands(b);
    if (status == ST_OK) status = run_again(b, outs);
    if (status == ST_OK) find_roots(b, outs);
    mem_free(outs);
    TRY(status);
    const TapeRun run = {.roots = b->roots,
                         .grads = b->grads,
                         .n_roots = b->n_roots,
                         .xs = b->xs,
                         .n_xs = b->n,
                         .out = b->got,
                         .flags = TAPE_allow_unused | TAPE_stop | (b->create ? TAPE_create | TAPE_retain : 0)};
    if (b->n_roots) TRY(tape_run(&run));
    for (int k = 0; k < b->n; k++) TRY(set_result(b, k));
    b->op->n_outs = b->n;
    return ST_OK;
}

/* As the forward ran: with gradients on, outside of a region or of what looks at what is saved. */
static Status with_tape(FlowBackward *b) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    context_enter_scope(state, CONTEXT_again);
    const Status status = go_back(b);
    scope_pop_passing(state, depth, b->op->outs, status == ST_OK ? b->n : 0);
    return status;
}

static Status backward_of(OpCall *op, bool create) {
    FlowBackward b = {.op = op, .operands = flow_arg(op, "operands"), .of = flow_arg(op, "of"), .create = create};
    b.n = flow_backward_results(op);
    return with_tape(&b);
}

Status flow_backward_op(OpCall *op) { return backward_of(op, false); }

static bool list_tracks(const Arg *list) {
    bool any = false;
    for (int k = 0; list->kind == ARG_tensors && k < list->n; k++) any |= tape_tracks(tensor_of(list->vals[k]));
    return any;
}

/* Under create_graph. */
static Status backward_on_tape(OpCall *op) {
    bool tracks = false;
    for (int i = 0; i < op->row->n_params; i++) tracks |= list_tracks(&op->args[i]);
    return backward_of(op, tracks && state_get()->grad_mode == SN_GRAD_ON);
}

/* Texts with symbols, of a call that runs by itself: with the numbers that these stand for ---------------- */

static Status with_numbers(OpCall *op, OpKernel *kernel) {
    if (flow_args_are_plain(op->row, op->args)) return kernel(op);
    Arena *const arena = arena_new();
    Arg args[MAX_ARGS];
    OpCall plain = *op;
    memcpy(args, op->args, sizeof *args * (size_t)op->row->n_params);
    plain.args = args;
    FlowNumbers numbers;
    Status status = arena ? flow_numbers_put(arena, op->row, args, &numbers) : ST_MEMORY;
    if (status == ST_OK) status = kernel(&plain);
    op->n_outs = plain.n_outs;
    arena_free(arena);
    return status;
}

static Status plain_cond_on_tape(OpCall *op) { return with_numbers(op, cond_on_tape); }
static Status plain_cond(OpCall *op) { return with_numbers(op, cond_below); }
static Status plain_while(OpCall *op) { return with_numbers(op, flow_while_op); }
static Status plain_scan_on_tape(OpCall *op) { return with_numbers(op, scan_on_tape); }
static Status plain_scan(OpCall *op) { return with_numbers(op, scan_below); }
static Status plain_backward_on_tape(OpCall *op) { return with_numbers(op, backward_on_tape); }
static Status plain_backward(OpCall *op) { return with_numbers(op, flow_backward_op); }

/* Start -------------------------------------------------------------------------------------------------- */

static void serve(OpId op, OpKernel *on_key, OpKernel *below_key) {
    dispatch_register(op_row(op), KEY_autograd, on_key);
    dispatch_register(op_row(op), KEY_cpu, below_key);
    dispatch_register(op_row(op), KEY_cuda, below_key);
}

void flow_start(void) {
    serve(OP_ID(cond), plain_cond_on_tape, plain_cond);
    serve(OP_ID(while_loop), plain_while, plain_while);
    serve(OP_ID(scan), plain_scan_on_tape, plain_scan);
    serve(OP_ID(cond_backward), plain_backward_on_tape, plain_backward);
    serve(OP_ID(scan_backward), plain_backward_on_tape, plain_backward);
}
