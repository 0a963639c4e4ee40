/* test_left.c: a callback of each kind leaves by longjmp and by an exception [semantics C13]: caught outside of all, or
 * in the body of a function that goes on; followed by sn_scope_end, or by nothing but the program's next call. The
 * thread's context is then what it was, whole, and what it does has the right bits.
 *
 * `called_back` jumps from the callback that is armed. */
#include <setjmp.h>
#include <unwind.h>

#include "runtime/core/state.h"
#include "tests/unit/callback_kinds.h"

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

static void called_back(void) {
    if (!armed) return;
    armed = false;
    if (way == BY_JUMP) longjmp(caught, 1);
    no_frame_returns();
    _Unwind_ForcedUnwind(&exception, stop, NULL);
}

/* True: the run was left. */
__attribute__((noinline)) static bool leaves(Run *run, sn_tensor *on) {
    target = (const char *)__builtin_frame_address(0);
    armed = true;
    if (setjmp(caught)) return true;
    run(on);
    armed = false;
    return false;
}

/* the thread is whole ---------------------------------------------------------------------------- */

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
    make_callbacks();
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
    make_callbacks();
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

/* A callback that ends a mode of the program further out, and begins another one, before it leaves: the first has
 * ended, the second ends with the callback, and those that were not touched are there. */
typedef struct ModeKind {
    sn_status (*push)(sn_body handler, void *closure), (*pop)(void);
    Key key;
    const char *none;
} ModeKind;
static const ModeKind mode_kinds[] = {
    {sn_user_mode_push, sn_user_mode_pop, KEY_mode, "no user mode is active"},
    {sn_api_mode_push, sn_api_mode_pop, KEY_api, "no API mode is active"},
};
static const ModeKind *modes;
static int n_ended, n_begun, n_seen;
static sn_status sees(sn_frame *f) { return n_seen++, sn_redispatch(f); }
static sn_status ends_modes(sn_frame *f) {
    if (armed) {
        for (int i = 0; i < n_ended; i++) modes->pop();
        for (int i = 0; i < n_begun; i++) modes->push(sees, NULL);
    }
    return called_back(), sn_redispatch(f);
}
static sn_tensor *negated(sn_tensor *t) { return sn_neg(t); }
static sn_status calls_another(sn_frame *f) {
    if (armed) sn_neg(sn_in(f, 0));
    return sn_redispatch(f);
}

static void check_modes(int want) { /* so many are there that see */
    n_seen = 0;
    ck_assert_msg(sn_abs(x) != NULL, "%s", sn_error_take()->message);
    ck_assert_int_eq(n_seen, want);
    sn_check();
}

/* Of `sees` there are two, then one that ends them and, perhaps, one whose handler calls an op. */
static void leave_from_modes(bool nested) {
    const sn_scope scope = sn_scope_begin();
    const uint64_t include = state_get()->include;
    modes->push(sees, NULL), modes->push(sees, NULL), modes->push(ends_modes, NULL);
    if (nested) modes->push(calls_another, NULL);
    ck_assert(leaves(negated, x));
    check_modes(2 - n_ended);
    ck_assert(state_get()->include >> modes->key & 1);
    for (int i = 2 - n_ended + 1 + nested; i > 0; i--) ck_assert_int_eq(modes->pop(), SN_OK);
    ck_assert_int_ne(modes->pop(), SN_OK);
    expect_error(SN_ERR_STATE, modes->none);
    ck_assert_uint_eq(state_get()->include, include);
    sn_scope_end(scope);
    check_modes(0);
}

START_TEST(a_callback_that_ended_a_mode_further_out_leaves) {
    make_callbacks();
    modes = &mode_kinds[_i];
    for (int form = 0; form < 2 * 2 * 3 * 2; form++) {
        way = (Way)(form % 2), n_begun = form / 2 % 2, n_ended = form / 4 % 3;
        leave_from_modes(form / 12);
    }
}
END_TEST

/* A body, which no handler runs around. */
static sn_status ends_one(sn_frame *f) { return modes->pop(), negates_called(f); }
static sn_tensor *runs_body(sn_tensor *t) {
    return FIRST(sn_func_vjp(ends_one, NULL, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(t)), SN_TENSORS(t), out, 1));
}

START_TEST(a_body_that_ended_a_mode_leaves) {
    make_callbacks();
    modes = &mode_kinds[_i / WAYS], way = (Way)(_i % WAYS);
    const uint64_t include = state_get()->include;
    for (int left = 2; left > 0; left--) {
        for (int i = 0; i < left; i++) modes->push(sees, NULL);
        ck_assert(leaves(runs_body, x));
        check_modes(left - 1);
        for (int i = 1; i < left; i++) ck_assert_int_eq(modes->pop(), SN_OK);
        ck_assert_int_ne(modes->pop(), SN_OK);
        expect_error(SN_ERR_STATE, modes->none);
        ck_assert_uint_eq(state_get()->include, include);
    }
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
    make_callbacks();
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
    tcase_add_loop_test(tests, a_callback_that_ended_a_mode_further_out_leaves, 0, 2);
    tcase_add_loop_test(tests, a_body_that_ended_a_mode_leaves, 0, 2 * WAYS);
    tcase_add_loop_test(tests, a_thread_is_whole_behind_a_callback_that_left, 0, KINDS - N_ONCE);
    tcase_add_loop_test(tests, a_thread_is_whole_behind_one_that_left_a_compile, (KINDS - N_ONCE) * FORMS,
                        KINDS * FORMS);
    tcase_add_loop_test(tests, a_body_goes_on_behind_a_callback_that_left, 0, KINDS - N_ONCE);
    tcase_add_loop_test(tests, a_body_goes_on_behind_one_that_left_a_compile, (KINDS - N_ONCE) * WAYS, KINDS * WAYS);
    return suite_run("test_left", tests);
}
