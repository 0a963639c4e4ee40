/* test_left.c: a callback of each kind leaves by longjmp and by an exception [semantics C13]: caught outside of all, or
 * in the body of a function that goes on; followed by sn_scope_end, or by nothing but the program's next call. The
 * thread's context is then what it was, whole, and what it does has the right bits.
 *
 * A kind is a function that calls the library, which calls back; `leave` jumps from the callback that is armed. */
#include <setjmp.h>
#include <sinter/graph.h>
#include <sinter/transform.h>
#include <unwind.h>

#include "runtime/core/state.h"
#include "tests/unit/contract.h"

/* leaving ---------------------------------------------------------------------------------------- */

typedef enum Way { BY_JUMP, BY_EXCEPTION, WAYS } Way;

static struct _Unwind_Exception exception;
static const char *target; /* frames above it stay */
static jmp_buf caught;
static bool armed;
static Way way;

/* What the address sanitizer does itself where a C++ exception is thrown: no frame stays poisoned that is left. */
#ifdef __SANITIZE_ADDRESS__
void __asan_handle_no_return(void);
static void no_frame_returns(void) { __asan_handle_no_return(); }
#else
static void no_frame_returns(void) {}
#endif

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception *thrown, struct _Unwind_Context *context, void *to) {
    (void)version, (void)class, (void)thrown, (void)to;
    if ((const char *)_Unwind_GetCFA(context) < target && !(actions & _UA_END_OF_STACK)) return _URC_NO_REASON;
    longjmp(caught, 1); /* all cleanups below have run: as a catch clause does */
}

static void leave(void) {
    if (!armed) return;
    armed = false;
    if (way == BY_JUMP) longjmp(caught, 1);
    no_frame_returns();
    _Unwind_ForcedUnwind(&exception, stop, NULL);
}

typedef sn_tensor *Run(sn_tensor *x);

/* True: the run was left. */
__attribute__((noinline)) static bool leaves(Run *run, sn_tensor *x) {
    target = (const char *)__builtin_frame_address(0);
    armed = true;
    if (setjmp(caught)) return true;
    run(x);
    armed = false;
    return false;
}

/* bodies ------------------------------------------------------------------------------------------ */

static sn_tensor *weight; /* a leaf that bodies close over */

static sn_status body(sn_frame *f) { /* x -> w exp(x) */
    sn_tensor *const y = sn_mul(weight, sn_exp(sn_in(f, 0)));
    leave();
    return sn_out(f, 0, y);
}

static sn_status loss(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0));
    leave();
    return sn_out(f, 0, sn_sum(sn_mul(y, sn_in(f, 0))));
}

static sn_status small(sn_frame *f) {
    leave();
    return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_float(100)));
}

static sn_status triple(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(3))); }
static sn_status triple_leaves(sn_frame *f) { return leave(), triple(f); }
static sn_status is_small(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_float(100))); }

static sn_status carry(sn_frame *f) {
    sn_tensor *const y = sn_add(sn_in(f, 0), sn_in(f, 1));
    leave();
    sn_out(f, 0, y);
    return sn_out(f, 1, sn_mul(y, y));
}

static sn_status hook(sn_frame *f) {
    leave();
    return sn_out(f, 0, sn_in(f, 0));
}

static sn_status no_out(sn_frame *f) { return leave(), sn_check(); }
static sn_status passes_on(sn_frame *f) { return leave(), sn_redispatch(f); }
static sn_status same(sn_frame *f) { return sn_out(f, 0, sn_clone(sn_in(f, 0))); }
static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status like_leaves(sn_frame *f) { return leave(), like(f); }
static sn_status negates(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }
static sn_status negates_leaves(sn_frame *f) { return leave(), negates(f); }

static sn_status negates_backward(sn_frame *f) {
    leave();
    return sn_set_grad_of(f, 0, sn_neg(sn_grad_of(f, 0)));
}

/* kinds ------------------------------------------------------------------------------------------- */

static sn_tensor *first(sn_status status, sn_tensor **out) { return status == SN_OK ? out[0] : NULL; }
#define FIRST(call)                                                                                                    \
    ({                                                                                                                 \
        sn_tensor *out[4] = {0};                                                                                       \
        first(call, out);                                                                                              \
    })

/* Compiled functions live through all runs of a test: what was compiled before the jump, or could not be, is used. */
static sn_function *kept[64];
static sn_tensor *by_function(int slot, sn_body run, const sn_compile_options *options, sn_tensor *x) {
    if (!kept[slot]) kept[slot] = sn_compile(run, NULL, options);
    return sn_call1(kept[slot], SN_TENSORS(x));
}

static sn_tensor *compiled(sn_tensor *x) { return by_function(0, body, NULL, x); }
static sn_tensor *eagerly(sn_tensor *x) {
    return by_function(1, body, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER), x);
}
static sn_tensor *replayed(sn_tensor *x) {
    return by_function(2, body, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY), x);
}

static sn_tensor *cond(sn_tensor *x) {
    return FIRST(sn_cond(sn_gt_scalar(sn_sum(x), sn_float(-1e9)), body, triple, NULL, NULL, SN_TENSORS(x), out, 1));
}
static sn_tensor *while_condition(sn_tensor *x) {
    return FIRST(sn_while_loop(small, triple, NULL, NULL, SN_TENSORS(sn_exp(sn_detach(x))), out, 1));
}
static sn_tensor *while_body(sn_tensor *x) {
    return FIRST(sn_while_loop(is_small, triple_leaves, NULL, NULL, SN_TENSORS(sn_exp(sn_detach(x))), out, 1));
}
static sn_tensor *scan(sn_tensor *x) {
    return FIRST(sn_scan(carry, NULL, NULL, SN_TENSORS(sn_select(x, 0, 0), x), out, 2));
}
static sn_tensor *map(sn_tensor *x) {
    return FIRST(sn_map(body, NULL, NULL, SN_TENSORS(sn_stack(SN_TENSORS(x, x), 0)), out, 1));
}
static sn_tensor *vmap(sn_tensor *x) {
    return FIRST(sn_vmap(body, NULL, NULL, SN_TENSORS(sn_stack(SN_TENSORS(x, x), 0)), out, 1));
}
static sn_tensor *func_grad(sn_tensor *x) { return FIRST(sn_func_grad(loss, NULL, NULL, SN_TENSORS(x), out, 1)); }
static sn_tensor *func_vjp(sn_tensor *x) {
    return FIRST(
        sn_func_vjp(body, NULL, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(sn_ones_like(x))), SN_TENSORS(x), out, 1));
}
static sn_tensor *func_jvp(sn_tensor *x) {
    return FIRST(
        sn_func_jvp(body, NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(sn_ones_like(x))), SN_TENSORS(x), out, 1));
}
static sn_tensor *jacobian(sn_tensor *x) { return FIRST(sn_jacobian(body, NULL, NULL, SN_TENSORS(x), out, 1)); }
static sn_tensor *hessian(sn_tensor *x) { return FIRST(sn_hessian(loss, NULL, NULL, SN_TENSORS(x), out, 1)); }

/* The gradient by x of the sum of y. */
static sn_tensor *slope(sn_tensor *y, sn_tensor *x) {
    return y ? FIRST(sn_gradients(SN_TENSORS(sn_sum(y)), SN_TENSORS(x), (sn_tensors){0}, SN_ALLOW_UNUSED, out)) : NULL;
}

static sn_tensor *checkpoint(sn_tensor *x) {
    return slope(FIRST(sn_checkpoint(body, NULL, NULL, SN_TENSORS(x), out, 1)), x);
}

static bool in_second;
static sn_status second_leaves(sn_frame *f) {
    sn_tensor *const y = sn_mul(weight, sn_exp(sn_in(f, 0)));
    if (in_second) leave();
    return sn_out(f, 0, sn_mul(y, y));
}
static sn_tensor *checkpoint_again(sn_tensor *x) {
    in_second = false;
    sn_tensor *const y = FIRST(sn_checkpoint(second_leaves, NULL, NULL, SN_TENSORS(x), out, 1));
    in_second = true;
    return slope(y, x);
}

static sn_checkpoint_choice choose(void *context, const char *op) {
    (void)context, (void)op;
    leave();
    return SN_CHECKPOINT_SAVE;
}
static sn_status plain_body(sn_frame *f) { return sn_out(f, 0, sn_mul(weight, sn_exp(sn_in(f, 0)))); }
static sn_tensor *policy(sn_tensor *x) {
    return slope(FIRST(sn_checkpoint(plain_body, NULL, SN_CHECKPOINT_OPTIONS(.policy = choose), SN_TENSORS(x), out, 1)),
                 x);
}

static const sn_op *negation, *rule_leaves, *meta_leaves, *pieces;
static sn_tensor *by_op(const sn_op *op, sn_tensor *x) { return sn_op_call1(op, (sn_value[]){sn_val(x)}, 1); }
static sn_tensor *kernel(sn_tensor *x) { return by_op(negation, x); }
static sn_tensor *derivative(sn_tensor *x) { return slope(by_op(rule_leaves, x), x); }
static sn_status calls_meta(sn_frame *f) { return sn_out(f, 0, sn_exp(by_op(meta_leaves, sn_in(f, 0)))); }
static sn_tensor *meta(sn_tensor *x) { /* at each first call of a function */
    sn_function *const fn = sn_compile(calls_meta, NULL, NULL);
    sn_tensor *const y = sn_call1(fn, SN_TENSORS(x));
    sn_function_free(fn);
    return y;
}
static sn_tensor *decomposition(sn_tensor *x) { return by_op(pieces, x); }
static sn_status calls_kernel(sn_frame *f) {
    return sn_out(f, 0, sn_mul(sn_exp(sn_in(f, 0)), by_op(negation, sn_in(f, 0))));
}
static sn_status calls_rule(sn_frame *f) {
    return sn_out(f, 0, sn_mul(sn_exp(sn_in(f, 0)), by_op(rule_leaves, sn_in(f, 0))));
}
static sn_tensor *kernel_of_segment(sn_tensor *x) { return by_function(3, calls_kernel, NULL, sn_detach(x)); }
static sn_tensor *derivative_compiled(sn_tensor *x) { return slope(by_function(4, calls_rule, NULL, x), x); }

static sn_tensor *custom_forward(sn_tensor *x) {
    const sn_custom custom = {
        .size = sizeof custom, .name = "f", .forward = negates_leaves, .backward = negates_backward};
    return slope(FIRST(sn_custom_call(&custom, NULL, &x, 1, out, 1)), x);
}
static sn_tensor *custom_backward(sn_tensor *x) {
    const sn_custom custom = {.size = sizeof custom, .name = "f", .forward = negates, .backward = negates_backward};
    return slope(FIRST(sn_custom_call(&custom, NULL, &x, 1, out, 1)), x);
}

static sn_tensor *under_scope(sn_tensor *x, Run *begin, sn_tensor *(*end)(sn_tensor *x, sn_tensor *y)) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *y = begin(x);
    if (end && y) y = end(x, y);
    return sn_scope_return(scope, y);
}
static sn_tensor *in_user_mode(sn_tensor *x) { return sn_user_mode_push(passes_on, NULL), sn_exp(x); }
static sn_tensor *in_api_mode(sn_tensor *x) { return sn_api_mode_push(passes_on, NULL), sn_exp(x); }
static sn_tensor *in_pack(sn_tensor *x) { return sn_saved_hooks_set(hook, same, NULL), sn_exp(x); }
static sn_tensor *in_unpack(sn_tensor *x) { return sn_saved_hooks_set(same, hook, NULL), sn_exp(x); }
static sn_tensor *back(sn_tensor *x, sn_tensor *y) { return slope(y, x); }
static sn_tensor *user_mode(sn_tensor *x) { return under_scope(x, in_user_mode, NULL); }
static sn_tensor *api_mode(sn_tensor *x) { return under_scope(x, in_api_mode, NULL); }
static sn_tensor *pack(sn_tensor *x) { return under_scope(x, in_pack, back); }
static sn_tensor *unpack(sn_tensor *x) { return under_scope(x, in_unpack, back); }

static sn_tensor *tensor_hook(sn_tensor *x) {
    sn_tensor *const y = sn_exp(x);
    sn_hook_add(y, hook, NULL);
    return slope(sn_mul(y, y), x);
}
static sn_tensor *accumulated_hook(sn_tensor *x) {
    sn_tensor *const own = sn_requires_grad_(sn_clone(sn_detach(x)), true);
    sn_post_accumulate_hook_add(own, no_out, NULL);
    return sn_backward(sn_sum(sn_mul(own, own))) == SN_OK ? sn_grad(own) : NULL;
}

static sn_override *override;
static sn_tensor *overridden(sn_tensor *x) {
    if (!override) override = sn_op_override(sn_op_find("aten::cosh"), SN_KEY_CPU, negates_leaves, NULL);
    return sn_cosh(x);
}

static sn_status do_nothing(sn_graph *g, void *closure) { return (void)g, (void)closure, leave(), SN_OK; }
static sn_tensor *pass(sn_tensor *x) {
    static bool there;
    if (!there) there = sn_pass_register(SN_PASS_JOINT, do_nothing, NULL, "left", "1") == SN_OK;
    return by_function(5, plain_body, NULL, x);
}
static sn_function *make(sn_graph *g, void *closure) {
    (void)closure;
    leave();
    return sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}
static sn_tensor *backend(sn_tensor *x) {
    static bool there;
    if (!there) there = sn_backend_register("left", "1", make, NULL) == SN_OK;
    return by_function(6, plain_body, SN_COMPILE_OPTIONS(.backend = "left"), sn_detach(x));
}
static sn_function *make_calling(sn_graph *g, void *closure) {
    (void)g, (void)closure;
    return sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}
static sn_status graph_like_body(sn_frame *f) { return sn_out(f, 0, sn_mul(weight, sn_exp(sn_in(f, 0)))); }
static sn_tensor *backend_runs(sn_tensor *x) {
    static bool there;
    if (!there) there = sn_backend_register("runs", "1", make_calling, NULL) == SN_OK;
    const sn_scope scope = sn_no_grad_begin();
    return sn_scope_return(scope, by_function(7, graph_like_body, SN_COMPILE_OPTIONS(.backend = "runs"), x));
}

/* In each other: of the inner one to outside of both. */
static sn_status maps(sn_frame *f) { return sn_out(f, 0, map(sn_in(f, 0))); }
static sn_status conds(sn_frame *f) { return sn_out(f, 0, cond(sn_in(f, 0))); }
static sn_tensor *cond_in_vmap(sn_tensor *x) {
    return FIRST(sn_vmap(conds, NULL, NULL, SN_TENSORS(sn_stack(SN_TENSORS(x, x), 0)), out, 1));
}
static sn_status vmaps(sn_frame *f) { return sn_out(f, 0, vmap(sn_in(f, 0))); }
static sn_tensor *vmap_in_cond(sn_tensor *x) {
    return FIRST(sn_cond(sn_gt_scalar(sn_sum(x), sn_float(-1e9)), vmaps, vmaps, NULL, NULL, SN_TENSORS(x), out, 1));
}
static sn_tensor *map_in_checkpoint(sn_tensor *x) {
    return slope(FIRST(sn_checkpoint(maps, NULL, NULL, SN_TENSORS(x), out, 1)), x);
}
static sn_tensor *cond_in_function(sn_tensor *x) { return by_function(8, conds, NULL, x); }
static sn_tensor *map_in_function(sn_tensor *x) { return by_function(9, maps, NULL, x); }

typedef struct Kind {
    const char *name;
    Run *run;
    bool once;  /* its callback runs where something is compiled, and not again */
    bool later; /* in a captured body it runs with the segment, or not at all */
} Kind;
#define KIND(name)                                                                                                     \
    { #name, name, false, false }
#define LATER(name)                                                                                                    \
    { #name, name, false, true }
#define ONCE(name)                                                                                                     \
    { #name, name, true, true }
static const Kind kinds[] = {/* those that run once come last */
                             KIND(compiled),
                             KIND(eagerly),
                             KIND(replayed),
                             KIND(cond),
                             KIND(while_condition),
                             KIND(while_body),
                             KIND(scan),
                             KIND(map),
                             KIND(vmap),
                             KIND(func_grad),
                             KIND(func_vjp),
                             KIND(func_jvp),
                             KIND(jacobian),
                             KIND(hessian),
                             KIND(checkpoint),
                             LATER(checkpoint_again),
                             KIND(policy),
                             LATER(kernel),
                             KIND(derivative),
                             KIND(meta),
                             KIND(decomposition),
                             LATER(kernel_of_segment),
                             KIND(custom_forward),
                             KIND(custom_backward),
                             KIND(user_mode),
                             KIND(api_mode),
                             KIND(pack),
                             KIND(unpack),
                             KIND(tensor_hook),
                             KIND(accumulated_hook),
                             KIND(overridden),
                             LATER(backend_runs),
                             KIND(cond_in_vmap),
                             KIND(vmap_in_cond),
                             KIND(map_in_checkpoint),
                             KIND(cond_in_function),
                             KIND(map_in_function),
                             ONCE(derivative_compiled),
                             ONCE(pass),
                             ONCE(backend)};
enum { N_ONCE = 3, KINDS = sizeof kinds / sizeof *kinds };

/* the thread is whole ---------------------------------------------------------------------------- */

static sn_tensor *x;

static void make_world(void) {
    if (x) return;
#define OP(text, ...) sn_op_register(SN_OP_DESC(.schema = "left::" text "(Tensor x) -> Tensor", __VA_ARGS__))
    negation = OP("negation", .cpu = negates_leaves, .meta = like, .flags = SN_OP_PURE);
    rule_leaves = OP("rule_leaves", .cpu = negates, .meta = like, .derivative = negates_backward, .flags = SN_OP_PURE);
    meta_leaves = OP("meta_leaves", .cpu = negates, .meta = like_leaves, .flags = SN_OP_PURE);
    pieces = OP("pieces", .decomposition = negates_leaves);
    weight = sn_keep(LEAF(1, 4));
    x = sn_keep(LEAF(2, 4));
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
}

static sn_status step(sn_frame *f) {
    sn_tensor *const y = sn_softmax(sn_mul(weight, sn_in(f, 0)), 0);
    return sn_out(f, 0, sn_sum(sn_mul(y, y)));
}

/* Ops, random numbers, gradients, a compiled function: what a thread does. */
static sn_tensor *does(void) {
    sn_seed(3);
    sn_tensor *const y = sn_call1(kept[63] ? kept[63] : (kept[63] = sn_compile(step, NULL, NULL)), SN_TENSORS(x));
    sn_tensor *const g = slope(y, x), *const r = sn_rand(SN_INTS(4), SN_F32);
    sn_tensor *const all = sn_stack(SN_TENSORS(sn_detach(g), r, sn_exp(sn_detach(x))), 0);
    ck_assert_msg(all != NULL, "%s", sn_error_take()->message);
    return all;
}

static void say_nothing(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic, (void)line;
}

/* The first field that differs; NULL: none does. When it was noted is no part of what is in force. */
static const char *differs(Context a, Context b) {
    a.noted_at = b.noted_at;
#define FIELD(type, name)                                                                                              \
    if (a.name != b.name) return #name;
#include "runtime/core/context.def"
#undef FIELD
    return NULL;
}

static void check_context(const Kind *kind, const char *what, Context now, Context before) {
    const char *const field = differs(now, before);
    ck_assert_msg(!field, "%s: %s of %s is another", kind->name, field, what);
}

static void check_whole(const Kind *kind, const Context *context, uint32_t n_scopes, sn_tensor *did, sn_tensor *want) {
    sn_state *const state = state_get();
    sn_check(); /* the program's next call */
    check_context(kind, "the thread's context", state->context, *context);
    check_context(kind, "the program's context", state->program, *context);
    ck_assert_msg(state->n_scopes == n_scopes, "%s: %u scopes, not %u", kind->name, state->n_scopes, n_scopes);
    ck_assert_msg(!state->in_progress, "%s: something is in progress", kind->name);
    ck_assert_msg(sn_check() == SN_OK, "%s: %s", kind->name, sn_error_take()->message);
    ck_assert_msg(same_bits(does(), did), "%s: the thread does something else", kind->name);
    sn_tensor *const got = kind->run(x);
    ck_assert_msg(got != NULL, "%s: %s", kind->name, sn_error_take()->message);
    ck_assert_msg(same_bits(got, want), "%s: other bits", kind->name);
}

/* By way, and with the end of a scope or without. */
enum { FORMS = 2 * WAYS };

static void leave_in(const Kind *kind, int form) {
    way = (Way)(form / 2);
    make_world();
    sn_logging_set(say_nothing, NULL, "");
    sn_grad_mode_set(SN_GRAD_ON);
    sn_tensor *const did = sn_keep(does());
    sn_tensor *const want = kind->once ? NULL : sn_keep(kind->run(x)); /* first: what it makes is there */
    ck_assert_msg(kind->once || want, "%s: %s", kind->name, sn_error_take()->message);
    for (int round = 0; round < (kind->once ? 1 : 3); round++) {
        const Context context = state_get()->context;
        const uint32_t n_scopes = state_get()->n_scopes;
        const sn_scope scope = form % 2 ? sn_scope_begin() : SN_SCOPE_ROOT;
        ck_assert_msg(leaves(kind->run, x), "%s does not call back", kind->name);
        if (scope != SN_SCOPE_ROOT) ck_assert_int_eq(sn_scope_end(scope), SN_OK);
        const bool own = kind->run == user_mode || kind->run == api_mode || kind->run == pack || kind->run == unpack ||
                         kind->run == backend_runs;
        if (own && scope == SN_SCOPE_ROOT) sn_scope_end(SN_SCOPE_ROOT); /* it has begun one */
        sn_tensor *const again = want ? want : kind->run(x);
        check_whole(kind, &context, n_scopes, did, again);
    }
}

START_TEST(a_thread_is_whole_behind_a_callback_that_left) {
    for (int form = 0; form < FORMS; form++) leave_in(&kinds[_i], form);
}
END_TEST

START_TEST(a_thread_is_whole_behind_one_that_left_a_compile) { leave_in(&kinds[_i / FORMS], _i % FORMS); }
END_TEST

/* Functions of the library that are made of ops: their scopes and their mode end with them, also where a user's mode
 * leaves that sees the ops. */
static sn_dict *params;
static sn_optim *optimizer;
static sn_tensor *steps(sn_tensor *t) { return sn_optim_step(optimizer) == SN_OK ? t : NULL; }
static sn_tensor *clips(sn_tensor *t) { return sn_clip_grad_norm(params, 1e-3) ? t : NULL; }
static sn_tensor *copies(sn_tensor *t) { return sn_dict_copy(params, params) == SN_OK ? t : NULL; }
static sn_tensor *builds(sn_tensor *t) {
    sn_dict *const d = sn_dict_new();
    sn_tensor *w, *b;
    const sn_status status = sn_param_linear(d, "l", 2, 2, &w, &b);
    sn_dict_free(d);
    return status == SN_OK ? t : NULL;
}
static Run *const made_of_ops[] = {steps, clips, copies, builds};

START_TEST(a_thread_is_whole_behind_a_mode_that_left_a_function_of_the_library) {
    make_world();
    params = sn_dict_new();
    sn_tensor *const w = sn_requires_grad_(sn_clone(sn_detach(x)), true);
    sn_dict_set(params, "w", w);
    optimizer = sn_adam(params, 0.1, 0);
    sn_grad_set(w, sn_detach(x));
    sn_user_mode_push(passes_on, NULL);
    for (way = 0; way < WAYS; way++) {
        const Context context = state_get()->context;
        const uint32_t n_scopes = state_get()->n_scopes;
        const Kind kind = {.name = "a function of the library", .run = made_of_ops[_i]};
        ck_assert_msg(leaves(kind.run, x), "%d calls no mode", _i);
        sn_check();
        check_context(&kind, "the thread's context", state_get()->context, context);
        check_context(&kind, "the program's context", state_get()->program, context);
        ck_assert_uint_eq(state_get()->n_scopes, n_scopes);
        ck_assert_msg(kind.run(x) != NULL, "%s", sn_error_take()->message);
    }
    sn_user_mode_pop();
    sn_optim_free(optimizer);
    sn_dict_free(params);
}
END_TEST

/* The same in the body of a function, which goes on. */
static const Kind *inner;
static bool leaving;
static sn_status goes_on(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    const sn_scope scope = sn_scope_begin();
    if (leaving) {
        ck_assert_msg(leaves(inner->run, x), "%s does not call back", inner->name);
        sn_check();
    }
    sn_scope_end(scope);
    return sn_out(f, 0, sn_mul(y, sn_neg(y)));
}

static void leave_within(const Kind *kind, bool eager) {
    make_world();
    sn_logging_set(say_nothing, NULL, "");
    inner = kind;
    sn_tensor *const y = sn_exp(x), *const want = sn_mul(y, sn_neg(y)), *const did = sn_keep(does());
    sn_function *const fn = sn_compile(goes_on, NULL, eager ? SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER) : NULL);
    if (!kind->once) kind->run(x);
    for (int round = 0; round < 4; round++) {
        const Context context = state_get()->context;
        const uint32_t n_scopes = state_get()->n_scopes;
        leaving = round % 2 == 0 && !(kind->once && round);
        sn_tensor *const got = SN_CALL(fn, x);
        ck_assert_msg(got != NULL, "%s: %s", kind->name, sn_error_take()->message);
        ck_assert_msg(same_bits(got, want), "%s: other bits", kind->name);
        sn_tensor *const again = kind->run(x);
        check_whole(kind, &context, n_scopes, did, again);
    }
}

START_TEST(a_body_goes_on_behind_a_callback_that_left) {
    const Kind *const kind = &kinds[_i];
    for (int form = 0; form < 2 * WAYS; form++) {
        way = (Way)(form % WAYS);
        if (form / WAYS || !kind->later) leave_within(kind, form / WAYS);
    }
}
END_TEST

START_TEST(a_body_goes_on_behind_one_that_left_a_compile) {
    way = (Way)(_i % WAYS);
    leave_within(&kinds[_i / WAYS], true);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("left");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_thread_is_whole_behind_a_mode_that_left_a_function_of_the_library, 0,
                        sizeof made_of_ops / sizeof *made_of_ops);
    tcase_add_loop_test(tests, a_thread_is_whole_behind_a_callback_that_left, 0, KINDS - N_ONCE);
    tcase_add_loop_test(tests, a_thread_is_whole_behind_one_that_left_a_compile, (KINDS - N_ONCE) * FORMS,
                        KINDS * FORMS);
    tcase_add_loop_test(tests, a_body_goes_on_behind_a_callback_that_left, 0, KINDS - N_ONCE);
    tcase_add_loop_test(tests, a_body_goes_on_behind_one_that_left_a_compile, (KINDS - N_ONCE) * WAYS, KINDS * WAYS);
    return suite_run("test_left", tests);
}
