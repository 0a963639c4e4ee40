/* test_callback_scope.c: callbacks of every kind run in a scope of their own [semantics O1]: what they make ends with
 * it, what would end the thread's state is refused there, and a backend may not write what it was lent. */
#include <sinter/graph.h>

#include "runtime/core/state.h"
#include "tests/unit/contract.h"

typedef enum Act { END_ROOT, SHUTDOWN, FINISH, FREE_STATE, ACTS } Act;

static int asked; /* how often the callback ran */
static Act act;
static sn_state *own;

static void expect_refused(const char *says) {
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_STATE);
    ck_assert_msg(strstr(error->message, says) != NULL, "%s", error->message);
}

/* Refused, and nothing has ended; a temporary of the callback's, left open scopes and a mode, which end with it. */
static void acts(void) {
    const uint32_t scopes = state_get()->n_scopes;
    asked++;
    if (act == END_ROOT) sn_scope_end(SN_SCOPE_ROOT), expect_refused("");
    if (act == SHUTDOWN) sn_shutdown(), expect_refused("sn_shutdown: not in");
    if (act == FINISH) sn_finish(), expect_refused("sn_finish: not in");
    if (act == FREE_STATE) sn_state_free(own), expect_refused("sn_state_free: ");
    ck_assert_uint_eq(state_get()->n_scopes, scopes);
}

static void makes(void) {
    ck_assert_ptr_nonnull(sn_ones(SN_INTS(3), SN_F32));
    sn_scope_begin();
    sn_grad_mode_set(SN_INFERENCE);
}

static sn_status body(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_exp(sn_in(f, 0)), sn_in(f, 0))); }

/* kinds ------------------------------------------------------------------------------------------- */

static sn_status body_acts(sn_frame *f) { return acts(), body(f); }
static sn_status hook_acts(sn_frame *f) { return acts(), sn_out(f, 0, sn_in(f, 0)); }
static sn_status kernel_acts(sn_frame *f) { return acts(), sn_out(f, 0, sn_neg(sn_in(f, 0))); }
static sn_status pass_acts(sn_graph *g, void *closure) { return (void)g, (void)closure, acts(), makes(), SN_OK; }
static sn_function *make_acts(sn_graph *g, void *closure) {
    (void)closure;
    acts();
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    makes();
    return fn;
}

static sn_tensor *calls(sn_body run, const sn_compile_options *options, sn_tensor *x) {
    sn_function *const fn = sn_compile(run, NULL, options);
    for (int i = 0; i < 2; i++) ck_assert_ptr_nonnull(sn_call1(fn, SN_TENSORS(x)));
    sn_tensor *const y = sn_call1(fn, SN_TENSORS(x));
    sn_function_free(fn);
    return y;
}

static sn_tensor *in_body(sn_tensor *x) { return calls(body_acts, NULL, x); }
static sn_tensor *in_eager_body(sn_tensor *x) {
    return calls(body_acts, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER), x);
}
static sn_tensor *in_pass(sn_tensor *x) {
    ck_assert_int_eq(sn_pass_register(SN_PASS_JOINT, pass_acts, NULL, "acts", "1"), SN_OK);
    return calls(body, NULL, x);
}
static sn_tensor *in_make(sn_tensor *x) {
    ck_assert_int_eq(sn_backend_register("acts", "1", make_acts, NULL), SN_OK);
    return calls(body, SN_COMPILE_OPTIONS(.backend = "acts"), x);
}
static sn_tensor *in_hook(sn_tensor *x) {
    sn_tensor *const leaf = sn_requires_grad_(sn_clone(x), true);
    sn_hook_add(leaf, hook_acts, NULL);
    sn_backward(sn_sum(leaf));
    return sn_mul(sn_mul(sn_exp(x), x), sn_grad(leaf));
}
static sn_tensor *in_kernel(sn_tensor *x) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "acts::neg(Tensor x) -> Tensor", .cpu = kernel_acts));
    return sn_mul(sn_exp(x), sn_neg(sn_op_call1(op, (sn_value[]){sn_val(x)}, 1)));
}

typedef sn_tensor *Kind(sn_tensor *x);
static Kind *const kinds[] = {in_body, in_eager_body, in_pass, in_make, in_hook, in_kernel};
enum { KINDS = sizeof kinds / sizeof *kinds };

START_TEST(o1_what_ends_the_threads_state_is_refused_in_callbacks) {
    act = (Act)(_i / KINDS);
    own = state_get();
    const sn_scope outer = sn_scope_begin(); /* what the library pushes lies above it */
    sn_tensor *const x = F32(1, 4), *const want = sn_mul(sn_exp(x), x), *const y = kinds[_i % KINDS](x);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    ck_assert_int_gt(asked, 0);
    ck_assert(same_bits(y, want));
    ck_assert_int_eq(sn_grad_mode_set(SN_GRAD_ON), SN_GRAD_ON);
    ck_assert_uint_eq(state_get()->n_scopes, 1);
    ck_assert_int_eq(sn_scope_end(outer), SN_OK);
}
END_TEST

/* a backend's inputs ------------------------------------------------------------------------------ */

static enum { WRITES, WRITES_pointer, WRITES_view, GIVES_input } does;

static sn_status writes(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = body(f) == SN_OK ? sn_mul(sn_exp(x), x) : NULL;
    if (does == WRITES) sn_add_(x, x);
    if (does == WRITES_view) sn_mul_scalar_(sn_select(x, 0, 1), sn_float(7));
    float *const data = does == WRITES_pointer ? sn_data_mut(x, SN_F32) : NULL;
    if (data) data[0] = 5;
    return sn_check() == SN_OK ? sn_out(f, 0, does == GIVES_input ? x : y) : sn_check();
}

static sn_function *make_writes(sn_graph *g, void *closure) {
    (void)g, (void)closure;
    return sn_compile(writes, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}

static int warnings;
static void count(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic;
    warnings += strstr(line, "read-only") != NULL;
}

START_TEST(t9_a_backend_that_writes_its_inputs_is_noticed) {
    does = _i;
    sn_logging_set(count, NULL, "");
    sn_backend_register("writes", "1", make_writes, NULL);
    sn_function *const fn = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.backend = "writes"));
    sn_tensor *const x = F32(1, 4), *const was = sn_clone(x), *const want = sn_mul(sn_exp(x), x);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const y = SN_CALL(fn, x);
        ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
        ck_assert(same_bits(x, was));
        if (does != GIVES_input) ck_assert(same_bits(y, want));
        ck_assert_ptr_nonnull(sn_add_(y, y)); /* memory of its own */
        ck_assert(same_bits(x, was));
    }
    ck_assert_int_eq(warnings > 0, does != GIVES_input);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("callback scope");
    tcase_add_loop_test(tests, o1_what_ends_the_threads_state_is_refused_in_callbacks, 0, KINDS * ACTS);
    tcase_add_loop_test(tests, t9_a_backend_that_writes_its_inputs_is_noticed, 0, GIVES_input + 1);
    return suite_run("test_callback_scope", tests);
}
