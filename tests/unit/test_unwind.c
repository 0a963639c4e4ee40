/* test_unwind.c: a C++ exception passes through the library's frames: hooks, a user's backward, a user's kernel. What
 * they held is given back, scopes and modes are the caller's at the next call, the same graph can be walked again. */
#include <malloc.h>
#include <setjmp.h>
#include <unwind.h>

#include "runtime/core/state.h"
#include "tests/unit/contract.h"

typedef struct Catch {
    struct _Unwind_Exception exception;
    const char *target; /* frames above it stay */
    jmp_buf by_jump;
} Catch;
static Catch caught;
static bool throws;

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception *exception, struct _Unwind_Context *context, void *to) {
    (void)version, (void)class, (void)exception, (void)to;
    if ((const char *)_Unwind_GetCFA(context) < caught.target && !(actions & _UA_END_OF_STACK)) return _URC_NO_REASON;
    longjmp(caught.by_jump, 1); /* all cleanups below have run: as a catch clause does */
}

static void throw_now(void) {
    if (throws) _Unwind_ForcedUnwind(&caught.exception, stop, NULL);
}

static sn_status hook(sn_frame *f) {
    throw_now();
    return sn_out(f, 0, sn_in(f, 0));
}

enum { MANY = 40 }; /* more than what an engine has on its stack */

static sn_status many_forward(sn_frame *f) {
    sn_tensor *sum = sn_in(f, 0);
    for (int i = 1; i < MANY; i++) sum = sn_add(sum, sn_in(f, i));
    return sn_out(f, 0, sum);
}

static sn_status many_backward(sn_frame *f) {
    throw_now();
    for (int i = 0; i < MANY; i++) sn_set_grad_of(f, i, sn_grad_of(f, 0));
    return SN_OK;
}

static sn_status negates(sn_frame *f) {
    throw_now();
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}

static sn_status like_input(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }

/* Memory of the plan's own stands when the kernel runs. */
static sn_status uses_kernel(sn_frame *f) {
    sn_tensor *const x = sn_sum_dim(sn_mul(sn_in(f, 0), sn_in(f, 0)), SN_INTS(0), true);
    sn_tensor *const y = sn_op_call1(sn_closure(f), (sn_value[]){sn_val(x)}, 1);
    return sn_out(f, 0, sn_sum_dim(sn_mul(sn_in(f, 0), y), SN_INTS(1), false));
}

/* What throws while `throws` is set, and gives a number otherwise. */
typedef double Case(void);
static sn_tensor *leaf, *leaves[MANY];
static sn_function *compiled;

static double by_hook(void) {
    sn_tensor *const y = sn_exp(leaf);
    sn_hook_add(y, hook, NULL);
    sn_grad_set(leaf, NULL);
    sn_backward(sn_sum(sn_mul(y, y)));
    return sn_item(sn_sum(sn_grad(leaf)));
}

static double by_gradients(void) {
    sn_tensor *const y = sn_exp(leaf), *out[1] = {0};
    sn_hook_add(y, hook, NULL);
    sn_gradients(SN_TENSORS(sn_sum(sn_mul(y, y))), SN_TENSORS(leaf), (sn_tensors){0}, 0, out);
    return sn_item(sn_sum(out[0]));
}

static double by_function(void) {
    const sn_custom custom = {
        .size = sizeof custom, .name = "many", .forward = many_forward, .backward = many_backward};
    sn_tensor *out[1] = {0};
    sn_custom_call(&custom, NULL, leaves, MANY, out, 1);
    sn_grad_set(leaves[MANY - 1], NULL);
    sn_backward(sn_sum(out[0]));
    return sn_item(sn_sum(sn_grad(leaves[MANY - 1])));
}

static double by_kernel(void) { return sn_item(sn_sum(SN_CALL(compiled, sn_detach(leaves[0])))); }

static Case *const cases[] = {by_hook, by_gradients, by_function, by_kernel};

static void make_world(void) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "unwind::negates(Tensor x) -> Tensor", .cpu = negates,
                                                      .meta = like_input, .flags = SN_OP_PURE));
    leaf = sn_keep(LEAF(1, 8, 8));
    for (int i = 0; i < MANY; i++) leaves[i] = sn_keep(LEAF(2 + (uint64_t)i, 64, 16));
    compiled = sn_compile(uses_kernel, (void *)(uintptr_t)op, NULL);
}

static void throw_from(Case *run) {
    throws = true;
    caught.target = (const char *)__builtin_frame_address(0);
    if (!setjmp(caught.by_jump)) {
        run();
        ck_abort_msg("nothing was thrown");
    }
    throws = false;
}

/* The heap of the process: blocks that are out. */
static size_t held(void) { return mallinfo2().uordblks; }

static void say_nothing(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic, (void)line;
}

START_TEST(an_exception_leaves_nothing_behind) {
    keep_no_handles();
    Case *const run = cases[_i];
    make_world();
    sn_logging_set(say_nothing, NULL, "");
    const uint32_t scopes = state_get()->n_scopes;
    const sn_grad_mode mode = state_get()->grad_mode;
    double want = 0;
    size_t before = 0;
    for (int i = 0; i < 40; i++) {
        const sn_scope scope = sn_scope_begin();
        const double got = run();
        if (!i) want = got;
        ck_assert_msg(got == want && sn_check() == SN_OK, "%g, not %g", got, want);
        throw_from(run);
        ck_assert_int_eq(sn_check(), SN_OK); /* the next call */
        ck_assert_uint_eq(state_get()->n_scopes, scopes + 1);
        ck_assert_int_eq(state_get()->grad_mode, mode);
        sn_scope_end(scope);
        if (i == 20) before = held(); /* caches are filled */
    }
    ck_assert_msg(held() <= before, "%zu bytes more are held", held() - before);
}
END_TEST

/* The run that was left stands in no node's place: another one finds its own. */
START_TEST(a_graph_that_was_left_is_walked_again) {
    make_world();
    sn_tensor *const y = sn_exp(leaf), *const z = sn_sum(sn_mul(y, y));
    sn_hook_add(y, hook, NULL);
    for (int i = 0; i < 3; i++) {
        throws = i < 2;
        caught.target = (const char *)__builtin_frame_address(0);
        if (!setjmp(caught.by_jump)) sn_backward_ex(SN_TENSORS(z), (sn_tensors){0}, SN_RETAIN_GRAPH);
    }
    ck_assert(same_bits(sn_grad(leaf), sn_detach(sn_mul(sn_mul_scalar(y, sn_float(2)), y))));
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("unwind");
    tcase_add_loop_test(tests, an_exception_leaves_nothing_behind, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tests, a_graph_that_was_left_is_walked_again);
    return suite_run("test_unwind", tests);
}
