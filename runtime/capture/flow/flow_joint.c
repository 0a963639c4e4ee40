/* flow_joint.c: gradients of control flow in a launch: for each body that ran, from the last round to the first, a plan
 * that takes the round's inputs, the sums so far and the gradients of what it gave, and gives new sums. Bits are those
 * of the ops one by one (flow_tape.c):
 *
 *   carries of all rounds      the forward once more, without its ys
 *   gradients of carries       go from round to round
 *   sums of closed over values are continued by each round
 *   gradient of what is scanned: slices, as select_backward and add would have put them there */
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/flow/flow.h"

typedef struct JointRun {
    OpCall *op;
    const Arg *operands, *of;
    FlowCall call; /* the forward's inputs */
    FlowRun generator;
    sn_tensor *sums[FLOW_OPERANDS]; /* by result: so far, NULL: none */
    sn_tensor *grads[FLOW_RESULTS]; /* by result of the forward; NULL undefined */
    int n_results;
} JointRun;

static void joint_begin(JointRun *run, OpCall *op, const char *name) {
    const Arg *const sums = flow_arg(op, "sums"), *const summed = flow_arg(op, "summed");
    const Arg *const grads = flow_arg(op, "gradients"), *const defined = flow_arg(op, "defined");
    *run = (JointRun){.op = op, .operands = flow_arg(op, "operands"), .of = flow_arg(op, "of")};
    run->call = (FlowCall){
        .op = name, .in = flow_operands(run->operands), .n_in = (int)flow_arg(op, "n_in")->i, .out = op->outs};
    for (int k = 0; k < sums->n; k++) run->sums[summed->ints[k]] = tensor_of(sums->vals[k]);
    for (int k = 0; k < grads->n; k++) run->grads[defined->ints[k]] = tensor_of(grads->vals[k]);
    run->n_results = flow_backward_results(op);
}

static sn_tensor *operand_of_result(const JointRun *run, int result) {
    int i = 0;
    while (run->of->ints[i] != result) i++;
    return run->call.in[i];
}

/* What nothing came to is zeros. */
static Status joint_set_results(const JointRun *run) {
    for (int k = 0; k < run->n_results; k++) {
        sn_tensor *const sum = run->sums[k] ? run->sums[k] : flow_no_gradient(operand_of_result(run, k));
        if (!(run->op->outs[k] = sum)) return ST_MEMORY;
    }
    run->op->n_outs = run->n_results;
    return ST_OK;
}

static sn_tensor *plus(sn_tensor *a, sn_tensor *b) {
    return tensor_of(E(eager_builder(), add_Tensor, V(&a->base), V(&b->base)));
}

/* Which operand is which input of a body: its arguments, then what it closes over. */
typedef struct InputMap {
    int operand[FLOW_OPERANDS];
    int n;
} InputMap;

static InputMap input_map(const JointRun *run, const FlowBody *body, int first_closed) {
    InputMap map = {.n = run->call.n_in + body->closed.n};
    for (int i = 0; i < map.n; i++) map.operand[i] = i < run->call.n_in ? i : first_closed + i - run->call.n_in;
    return map;
}

static int64_t result_of(const JointRun *run, const InputMap *map, int i) { return run->of->ints[map->operand[i]]; }

/* Two inputs of one sum would have to take turns in it. */
static bool shares_sums(const JointRun *run, const InputMap *map) {
    for (int i = 0; i < map->n; i++)
        for (int k = 0; k < i; k++)
            if (result_of(run, map, i) >= 0 && result_of(run, map, i) == result_of(run, map, k)) return true;
    return false;
}

static bool has_code(const JointRun *run, const FlowBody *body, const InputMap *map) {
    return body->code && flow_code_serves(body->code) && !shares_sums(run, map);
}

static void enter_input_of(const JointRun *run, const InputMap *map, int i, FlowBack *back) {
    const int64_t result = result_of(run, map, i);
    back->in[i] = run->call.in[map->operand[i]];
    back->want[i] = result >= 0;
    back->sums[i] = result >= 0 ? run->sums[result] : NULL;
}

static void store_sum(JointRun *run, const InputMap *map, int i, const FlowBack *back) {
    if (back->want[i] && back->got[i]) run->sums[result_of(run, map, i)] = back->got[i];
}

/* Cond ------------------------------------------------------------------------------------------------- */

static Status cond_branch(JointRun *run, const FlowBody *body, const InputMap *map, bool *done) {
    FlowBack back = {.seed = state_get()->seed};
    for (int i = 0; i < map->n; i++) enter_input_of(run, map, i, &back);
    for (int k = 0; k < body->n_out; k++) back.grads[k] = run->grads[k];
    TRY(flow_code_back(body->code, &back, done));
    for (int i = 0; *done && i < map->n; i++) store_sum(run, map, i, &back);
    return *done ? joint_set_results(run) : ST_OK;
}

static Status cond_joint(JointRun *run, FlowBody *bodies, bool *done) {
    FlowBody *const yes = &bodies[0], *const no = &bodies[1];
    Val *const *closed = run->operands->vals + run->call.n_in;
    bool taken = false;
    TRY(flow_body_read(yes, flow_arg(run->op, "if_true")->string, true, &closed));
    TRY(flow_body_read(no, flow_arg(run->op, "if_false")->string, true, &closed));
    TRY(flow_decide(run->call.op, "the predicate", tensor_of(flow_arg(run->op, "pred")->val), &taken));
    const FlowBody *const body = taken ? yes : no;
    const InputMap map = input_map(run, body, run->call.n_in + (taken ? 0 : yes->closed.n));
    return has_code(run, body, &map) ? cond_branch(run, body, &map, done) : ST_OK;
}

/* Scan ------------------------------------------------------------------------------------------------- */

typedef struct Slices { /* the gradient of one scanned argument comes as slices, one a round */
    sn_tensor *total;   /* the whole gradient, into which the slices go */
    int n;              /* how many slices came */
    int64_t last;       /* the position of the last slice */
    sn_tensor *slice;
} Slices;

typedef struct ScanJoint {
    JointRun *run;
    const FlowBody *body;
    InputMap map;
    int n_carry;
    int64_t dim, length;
    bool reverse;
    sn_tensor **carries;               /* by round and carry: before the round */
    sn_tensor *of_carry[FLOW_RESULTS]; /* gradients of those behind the round; NULL undefined */
    Slices slices[FLOW_OPERANDS];
    sn_tensor *made[FLOW_OPERANDS]; /* by input: what the last round made of it that is still in use */
} ScanJoint;

static int64_t slice_of_round(const ScanJoint *s, int64_t round) { return s->reverse ? s->length - 1 - round : round; }

static sn_tensor *scanned(const ScanJoint *s, int i, int64_t round) {
    sn_tensor *const t = s->run->call.in[i];
    return tensor_of(E(eager_builder(), select_int, V(&t->base), I(dim_wrap(s->dim, t->base.meta->rank)),
                       I(slice_of_round(s, round))));
}

static Status round_inputs(const ScanJoint *s, int64_t round, sn_tensor **in) {
    const int n_in = s->run->call.n_in;
    for (int i = 0; i < n_in; i++) {
        in[i] = i < s->n_carry ? s->carries[round * s->n_carry + i] : scanned(s, i, round);
        if (!in[i]) return error_pending() ? error_pending() : ST_MEMORY;
    }
    return ST_OK;
}

/* Random ops count through the rounds. */
static Status forward_round(const ScanJoint *s, int64_t round) {
    sn_state *const state = state_get();
    sn_tensor *in[FLOW_OPERANDS], *out[FLOW_RESULTS];
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    Status status = round_inputs(s, round, in);
    if (status == ST_OK) status = flow_body_run(s->body, in, out);
    scope_pop_passing(state, depth, out, status == ST_OK ? s->n_carry : 0);
    for (int k = 0; status == ST_OK && k < s->n_carry; k++) s->carries[(round + 1) * s->n_carry + k] = out[k];
    return status;
}

static Status forward_rounds(const ScanJoint *s) {
    for (int k = 0; k < s->n_carry; k++) s->carries[k] = s->run->call.in[k];
    TRY(flow_carry(s->carries, s->n_carry));
    for (int64_t round = 0; s->n_carry && round + 1 < s->length; round++) TRY(forward_round(s, round));
    return ST_OK;
}

/* The first round continues the sum of what it is given, where that is no copy. */
static bool is_given(const ScanJoint *s, int i, int64_t round) {
    return !round && s->carries[i] == s->run->call.in[i] && result_of(s->run, &s->map, i) >= 0;
}

static Status enter_round(const ScanJoint *s, int64_t round, FlowBack *back) {
    const int n_in = s->run->call.n_in;
    for (int i = 0; i < s->map.n; i++) enter_input_of(s->run, &s->map, i, back);
    TRY(round_inputs(s, round, back->in));
    for (int i = 0; i < n_in; i++) {
        if (i < s->n_carry) back->want[i] = dtype_is_float(back->in[i]->base.meta->dtype);
        if (!is_given(s, i, round) || i >= s->n_carry) back->sums[i] = NULL;
    }
    return ST_OK;
}

static Status enter_gradients(const ScanJoint *s, int64_t round, FlowBack *back, bool *any) {
    for (int k = 0; k < s->body->n_out; k++) {
        sn_tensor *grad = k < s->n_carry ? s->of_carry[k] : s->run->grads[k];
        if (grad && k >= s->n_carry)
            grad = tensor_of(E(eager_builder(), select_int, V(&grad->base), I(0), I(slice_of_round(s, round))));
        TRY(error_pending());
        back->grads[k] = grad;
        *any |= grad != NULL;
    }
    return ST_OK;
}

static Status add_in_place(sn_tensor *to, Arg what) {
    sn_tensor *written;
    return dispatch(OP_ROW(add_Tensor), FORM_inplace, (const Arg[]){V(&to->base), what, I(1)}, NULL, &written);
}

static bool is_scanned(const ScanJoint *s, int i) {
    return i >= s->n_carry && i < s->run->call.n_in && result_of(s->run, &s->map, i) >= 0;
}

static Status slices_begin(ScanJoint *s, int i) {
    const Meta *const like = s->run->call.in[i]->base.meta;
    sn_tensor *const sum = s->run->sums[result_of(s->run, &s->map, i)];
    const Meta *const meta = meta_intern_contiguous(like->dtype, like->device, like->sizes, like->rank);
    s->slices[i].total = !meta ? NULL : sum ? tape_clone(sum, meta) : tensor_new_zero(meta);
    return s->slices[i].total ? ST_OK : error_pending() ? error_pending() : ST_MEMORY;
}

static sn_tensor *slices_part(sn_tensor *t, int64_t dim, int64_t from, int64_t to) {
    return tensor_of(E(eager_builder(), slice_Tensor, V(&t->base), I(dim), I(from), I(to), I(1)));
}

/* What comes is put in its place; into a sum that was there it is added. */
static Status store_slice(ScanJoint *s, int i, int64_t round, sn_tensor *grad) {
    Slices *const slices = &s->slices[i];
    sn_tensor *const total = slices->total, *written;
    slices->last = slice_of_round(s, round);
    slices->n++;
    Val *const place =
        E(eager_builder(), select_int, V(&total->base), I(dim_wrap(s->dim, total->base.meta->rank)), I(slices->last));
    if (!place) return error_pending();
    if (s->run->sums[result_of(s->run, &s->map, i)]) return add_in_place(tensor_of(place), V(&grad->base));
    const Arg copy[] = {V(place), V(&grad->base), A_BOOL(false)};
    return dispatch(OP_ROW(copy), FORM_inplace, copy, NULL, &written);
}

/* Each slice comes as a whole tensor of zeros but for itself: a place of another one is added 0 to, which turns -0 into
 * 0. */
static Status slices_end(ScanJoint *s, int i) {
    const Slices *const slices = &s->slices[i];
    sn_tensor **const sum = &s->run->sums[result_of(s->run, &s->map, i)];
    if (!slices->n) return ST_OK;
    const int64_t dim = dim_wrap(s->dim, slices->total->base.meta->rank);
    if (slices->n > 1) {
        TRY(add_in_place(slices->total, I(0)));
    } else if (*sum) {
        sn_tensor *const before = slices_part(slices->total, dim, 0, slices->last);
        sn_tensor *const behind = slices_part(slices->total, dim, slices->last + 1, s->length);
        if (!before || !behind) return error_pending();
        TRY(add_in_place(before, I(0)));
        TRY(add_in_place(behind, I(0)));
    }
    *sum = slices->total;
    return ST_OK;
}

static Status store_gradients(ScanJoint *s, int64_t round, FlowBack *back) {
    for (int i = 0; i < s->map.n; i++) {
        if (i < s->n_carry) s->of_carry[i] = back->got[i];
        if (i >= s->run->call.n_in) store_sum(s->run, &s->map, i, back);
        if (!is_scanned(s, i)) continue;
        if (back->got[i]) TRY(store_slice(s, i, round, back->got[i]));
        back->got[i] = NULL; /* it is in its place */
    }
    return ST_OK;
}

/* Takes the gradients of the first round's carries. A carry that was copied goes on in the sum of its original. */
static Status add_first_carries(ScanJoint *s) {
    for (int i = 0; i < s->n_carry; i++) {
        const int64_t result = result_of(s->run, &s->map, i);
        if (result < 0 || !s->of_carry[i]) continue;
        sn_tensor **const sum = &s->run->sums[result];
        *sum = *sum && !is_given(s, i, 0) ? plus(*sum, s->of_carry[i]) : s->of_carry[i];
        if (!*sum) return error_pending();
    }
    return ST_OK;
}

static Status back_round(ScanJoint *s, int64_t round, FlowBack *back, bool *done) {
    bool any = false;
    back->seed = state_get()->seed;
    back->sequence = (uint64_t)round * (uint64_t)s->body->graph->n_random;
    *done = true;
    TRY(enter_round(s, round, back));
    TRY(enter_gradients(s, round, back, &any));
    if (any) TRY(flow_code_back(s->body->code, back, done));
    return *done ? store_gradients(s, round, back) : ST_OK;
}

/* Frees what the round before made where this round has used it up. */
static void replace_round(ScanJoint *s, const FlowBack *back) {
    sn_state *const state = state_get();
    for (int i = 0; i < s->map.n; i++) {
        sn_tensor *const old = s->made[i];
        if (i >= s->n_carry && !back->got[i]) continue;
        s->made[i] = back->got[i];
        if (old && old != back->got[i] && scope_disown(state, old)) tensor_release(old);
    }
}

static Status back_rounds(ScanJoint *s, bool *done) {
    sn_state *const state = state_get();
    for (int k = 0; k < s->n_carry; k++) s->of_carry[k] = s->run->grads[k];
    for (int i = 0; i < s->map.n; i++)
        if (is_scanned(s, i)) TRY(slices_begin(s, i));
    *done = true;
    for (int64_t round = s->length - 1; *done && round >= 0; round--) {
        FlowBack back = {.seed = 0};
        TRY(scope_push(state, false));
        const uint32_t depth = state->n_scopes - 1;
        const Status status = back_round(s, round, &back, done);
        scope_pop_passing(state, depth, back.got, status == ST_OK ? s->map.n : 0);
        TRY(status);
        replace_round(s, &back);
    }
    if (!*done) return ST_OK;
    TRY(add_first_carries(s));
    for (int i = 0; i < s->map.n; i++)
        if (is_scanned(s, i)) TRY(slices_end(s, i));
    return joint_set_results(s->run);
}

static int64_t scan_length(const JointRun *run, int n_carry, int64_t dim) {
    const Meta *const meta = run->call.in[n_carry]->base.meta;
    return meta->sizes[dim_wrap(dim, meta->rank)];
}

static Status scan_joint(JointRun *run, FlowBody *body, bool *done) {
    Val *const *closed = run->operands->vals + run->call.n_in;
    TRY(flow_body_read(body, flow_arg(run->op, "body")->string, true, &closed));
    ScanJoint s = {.run = run,
                   .body = body,
                   .map = input_map(run, body, run->call.n_in),
                   .n_carry = (int)flow_arg(run->op, "n_carry")->i,
                   .dim = flow_arg(run->op, "dim")->i,
                   .reverse = flow_arg(run->op, "reverse")->i};
    s.length = scan_length(run, s.n_carry, s.dim);
    if (!s.length || !has_code(run, body, &s.map)) return ST_OK;
    s.carries = mem_zero((size_t)((s.length + 1) * s.n_carry + 1) * sizeof *s.carries);
    Status status = s.carries ? forward_rounds(&s) : ST_MEMORY;
    if (status == ST_OK) status = back_rounds(&s, done);
    mem_free(s.carries);
    return status;
}

/* Both ------------------------------------------------------------------------------------------------- */

static Status run_joint(JointRun *run, bool cond, bool *done) {
    const FlowBody any = {.op = run->call.op, .what = "the body", .n_in = run->call.n_in};
    FlowBody bodies[] = {any, any};
    TRY(flow_op_begin(&run->call, &run->generator));
    Status status = cond ? cond_joint(run, bodies, done) : scan_joint(run, bodies, done);
    status = flow_end(&run->call, &run->generator, status);
    body_trace_free(&bodies[0]);
    body_trace_free(&bodies[1]);
    return status;
}

Status flow_joint_run(OpCall *op, bool *done) {
    sn_state *const state = state_get();
    const bool cond = op->row == OP_ROW(cond_backward);
    const uint64_t seed = state->seed, sequence = state->sequence;
    JointRun run;
    *done = false;
    joint_begin(&run, op, cond ? "sn_cond" : "sn_scan");
    TRY(scope_push(state, false));
    const uint32_t depth = state->n_scopes - 1;
    const Status status = run_joint(&run, cond, done);
    scope_pop_passing(state, depth, op->outs, status == ST_OK && *done ? run.n_results : 0);
    state->seed = seed, state->sequence = sequence; /* another try draws the same numbers */
    return status;
}
