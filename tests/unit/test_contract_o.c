/* test_contract_o.c: the contract's rules of ownership and ABI [semantics O1 to O5]; each test's
 * name begins with its rule. More of scopes is in test_scope.c, of frames in test_dispatch.c. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/compile/llvm_module.h"
#include "runtime/core/state.h"
#include "runtime/core/tensor.h"
#include "tests/unit/contract.h"

static int freed;
static void count_free(void *data, void *context) { (void)data, (void)context, freed++; }

static sn_tensor *counted(float *memory) {
    return sn_wrap(SN_BLOB(.data = memory, .bytes = 16, .sizes = SN_INTS(4), .dtype = SN_F32, .free = count_free));
}

/* O1: scopes ---------------------------------------------------------------------------------- */

START_TEST(o1_results_belong_to_the_innermost_scope) {
    float memory[4] = {1, 2, 3, 4};
    const sn_scope outer = sn_scope_begin(), inner = sn_scope_begin();
    sn_tensor *const dies = counted(memory), *const kept = sn_keep(counted(memory));
    ck_assert(dies && kept);
    ck_assert_int_eq(sn_scope_end(inner), SN_OK);
    ck_assert_int_eq(freed, 1);
    ck_assert_int_eq(sn_scope_end(outer), SN_OK);
    ck_assert_int_eq(freed, 1); /* transferred out */
    sn_release(kept);
    ck_assert_int_eq(freed, 2);
}
END_TEST

START_TEST(o1_keep_of_an_outer_tensor_retains) {
    float memory[4] = {1, 2, 3, 4};
    const sn_scope outer = sn_scope_begin();
    sn_tensor *const t = counted(memory);
    const sn_scope inner = sn_scope_begin();
    sn_keep(t);
    sn_scope_end(inner);
    sn_scope_end(outer);
    ck_assert_int_eq(freed, 0);
    sn_release(t);
    ck_assert_int_eq(freed, 1);
}
END_TEST

START_TEST(o1_an_owned_scope_gives_bindings_the_results) {
    float memory[4] = {1, 2, 3, 4};
    const sn_scope scope = sn_scope_begin_owned();
    sn_tensor *const t = counted(memory);
    sn_scope_end(scope);
    ck_assert_int_eq(freed, 0);
    sn_release(t);
    ck_assert_int_eq(freed, 1);
}
END_TEST

static float callback_memory[4];
static sn_status makes_temporaries(sn_frame *f) {
    counted(callback_memory);
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

START_TEST(o1_every_callback_runs_in_its_own_scope) {
    sn_function *const fn = sn_compile(makes_temporaries, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(SN_CALL(fn, F32(1, 4)));
        ck_assert_int_eq(freed, i + 1);
    }
    sn_function_free(fn);
}
END_TEST

static sn_status hundred(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < 100; i++) x = sn_add(x, x);
    return sn_out(f, 0, x);
}

START_TEST(o1_calls_leave_one_handle_each) {
    sn_function *const fn = sn_compile(hundred, NULL, NULL);
    sn_tensor *const x = F32(1, 4);
    for (int i = 0; i < 4; i++) {
        const uint32_t before = state_get()->handles.n;
        SN_CALL(fn, x);
        ck_assert_uint_eq(state_get()->handles.n, before + 1);
    }
    sn_function_free(fn);
}
END_TEST

/* What a body can let go of again once it has set it; the closure says which. */
enum { RELEASED, OF_A_DICT, OF_AN_ENDED_SCOPE, OF_AN_OWNED_SCOPE, A_CLEARED_GRADIENT, WAYS };
typedef struct Ways {
    int which;
    sn_tensor *leaf;
} Ways;
static sn_status lets_go(sn_frame *f) {
    const Ways *const ways = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    const sn_scope inner = ways->which == OF_AN_OWNED_SCOPE ? sn_scope_begin_owned() : sn_scope_begin();
    sn_tensor *const y = ways->which == RELEASED ? sn_keep(sn_exp(x)) : sn_exp(x);
    if (ways->which == OF_A_DICT) {
        sn_dict *const dict = sn_dict_new();
        sn_dict_set(dict, "y", sn_exp(x));
        sn_out(f, 0, sn_dict_get(dict, "y"));
        sn_dict_free(dict);
    } else if (ways->which == A_CLEARED_GRADIENT) {
        sn_backward(sn_sum(sn_mul(ways->leaf, y)));
        sn_out(f, 0, sn_grad(ways->leaf));
        sn_grad_set(ways->leaf, NULL);
    } else {
        sn_out(f, 0, y);
    }
    sn_scope_end(inner);
    if (ways->which == RELEASED || ways->which == OF_AN_OWNED_SCOPE) sn_release(y);
    sn_exp(x); /* where the output's memory would be, were it free */
    return sn_check();
}

static void check_letting_go(sn_function *fn) {
    for (int i = 0; i < 4; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = F32((uint64_t)i, 700), *const y = SN_CALL(fn, x);
        F32(9, 700);
        ck_assert(same_bits(y, sn_exp(x)));
        ck_assert_int_eq(atomic_load(&y->refs), 1); /* the scope's */
        sn_scope_end(scope);
    }
}

START_TEST(o1_an_output_lives_though_the_body_lets_go_of_it) {
    Ways ways = {.leaf = sn_keep(LEAF(1, 700))};
    for (int i = 0; i < 3 * WAYS; i++) {
        ways.which = i / 3;
        sn_function *const fn = sn_compile(lets_go, &ways, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)(i % 3)));
        check_letting_go(fn);
        sn_function_free(fn);
    }
    sn_release(ways.leaf);
}
END_TEST

static sn_tensor *shown[2];
static bool set_twice;
static sn_status sets_what_is_shown(sn_frame *f) {
    sn_out(f, 0, shown[0]);
    if (set_twice) sn_out(f, 0, shown[1]);
    return sn_out(f, 1, shown[1]);
}

/* Nothing is left of the frame's references, whether the call returned, failed, or set an output twice. */
START_TEST(o1_a_call_gives_back_what_its_outputs_held) {
    for (int i = 0; i < 9; i++) {
        const sn_scope scope = sn_scope_begin();
        for (int k = 0; k < 2; k++) shown[k] = i < 6 ? sn_keep(F32(1, 4)) : shown[k];
        if (i >= 6) shown[0] = shown[1] = sn_keep(F32(1, 4)); /* both outputs are one */
        set_twice = i >= 3 && i < 6;
        sn_function *const fn =
            sn_compile(sets_what_is_shown, NULL, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)(i % 3)));
        sn_tensor *out[2];
        const sn_status status = sn_call(fn, NULL, 0, out, 2);
        ck_assert_int_eq(status, set_twice ? SN_ERR_STATE : SN_OK);
        ck_assert_ptr_eq(out[1], set_twice ? NULL : shown[1]);
        sn_error_take();
        sn_function_free(fn);
        sn_scope_end(scope);
        ck_assert_int_eq(atomic_load(&shown[0]->refs), 1);
        ck_assert_int_eq(atomic_load(&shown[1]->refs), 1);
        sn_release(shown[0]);
        if (shown[1] != shown[0]) sn_release(shown[1]);
    }
}
END_TEST

static sn_status returns_its_input(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }

/* In an owned scope a result is the caller's to release, an input that comes back is that already. */
START_TEST(o1_an_owned_scope_gives_results_once) {
    Ways ways = {0};
    sn_function *const fn = sn_compile(lets_go, &ways, NULL);
    sn_function *const same = sn_compile(returns_its_input, NULL, NULL);
    const sn_scope scope = sn_scope_begin_owned();
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(1, 4), *const y = SN_CALL(fn, x);
        ck_assert_int_eq(atomic_load(&y->refs), 1);
        ck_assert_ptr_eq(SN_CALL(same, x), x);
        ck_assert_int_eq(atomic_load(&x->refs), 1);
        sn_release(x), sn_release(y);
    }
    sn_scope_end(scope);
    sn_function_free(fn), sn_function_free(same);
}
END_TEST

/* O2: callbacks, options ---------------------------------------------------------------------- */

static sn_status asks_for_input_3(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_in(f, 3))); }
static sn_status sets_output_2(sn_frame *f) { return sn_out(f, 2, sn_in(f, 0)); }
static sn_status sets_nothing(sn_frame *f) { return sn_check(); }
static sn_status sets_twice(sn_frame *f) {
    sn_out(f, 0, sn_in(f, 0));
    return sn_out(f, 0, sn_in(f, 0));
}
static sn_status scalar_of_a_tensor(sn_frame *f) {
    sn_in_float(f, 0);
    return sn_out(f, 0, sn_in(f, 0));
}

START_TEST(o2_accessors_check_counts_and_types) {
    static const sn_body bodies[] = {asks_for_input_3, sets_output_2, sets_nothing, sets_twice, scalar_of_a_tensor};
    for (int i = 0; i < 5; i++) {
        sn_function *const fn = sn_compile(bodies[i], NULL, SN_COMPILE_OPTIONS(.name = "mine"));
        for (int k = 0; k < 2; k++) {
            ck_assert_msg(!SN_CALL(fn, F32(1, 4)), "body %d", i);
            const sn_error *const error = sn_error_take();
            ck_assert_msg(strstr(error->message, "mine") != NULL, "body %d: %s", i, error->message);
        }
        sn_function_free(fn);
    }
}
END_TEST

START_TEST(o2_options_begin_with_their_size) {
    struct { /* an older program's, shorter */
        size_t size;
        sn_compile_mode mode;
    } old = {offsetof(sn_compile_options, numerics), SN_COMPILE_EAGER};
    sn_function *const fn = sn_compile(hundred, NULL, (const sn_compile_options *)&old);
    for (int i = 0; i < 2; i++) ck_assert_ptr_nonnull(SN_CALL(fn, F32(1, 4)));
    ck_assert_int_eq(stats_of(fn).compiles, 0);
    struct {
        size_t size;
        int64_t calls, canary;
    } stats = {.size = 2 * sizeof(int64_t), .canary = 77};
    ck_assert_int_eq(sn_function_stats(fn, (sn_stats *)&stats), SN_OK);
    ck_assert_int_eq(stats.calls, 2);
    ck_assert_int_eq(stats.canary, 77); /* nothing is written past the size */
    sn_function_free(fn);
}
END_TEST

/* O3: typed functions ------------------------------------------------------------------------- */

START_TEST(o3_typed_and_boxed_functions_agree) {
    sn_tensor *const a = F32(1, 5), *const b = F32(2, 5);
    const sn_value in[] = {sn_val(a), sn_val(b), sn_float(0.5)};
    sn_tensor *const want = sn_op_call1(sn_op_find("aten::add.Tensor"), in, 3);
    ck_assert(same_bits(sn_add_ex(a, b, sn_float(0.5)), want));
    sn_tensor *const out = sn_zeros(SN_INTS(5), SN_F32);
    ck_assert_ptr_eq(sn_add_out(out, a, b), out);
    ck_assert(same_bits(out, sn_add(a, b)));
    ck_assert_ptr_eq(sn_add_(a, b), a);
    ck_assert(same_bits(a, out));
}
END_TEST

START_TEST(o3_out_ex_takes_all_arguments) {
    sn_tensor *const x = F32(1, 3, 4), *const out = sn_zeros(SN_INTS(3, 1), SN_F32);
    ck_assert_ptr_eq(sn_amax_out_ex(out, x, SN_INTS(1), true), out);
    ck_assert(same_bits(out, sn_amax_ex(x, SN_INTS(1), true)));
    ck_assert_ptr_eq(sn_add_out_ex(out, out, out, sn_float(-0.5)), out);
    ck_assert(same_bits(out, sn_mul_scalar(sn_amax_ex(x, SN_INTS(1), true), sn_float(0.5))));
}
END_TEST

START_TEST(o3_further_results_are_nullable_pointers) {
    sn_tensor *const x = F32(1, 4, 6), *at;
    sn_tensor *const values = sn_max_dim(x, 1, false, &at);
    ck_assert(same_bits(values, sn_max_dim(x, 1, false, NULL)));
    ck_assert(same_bits(at, sn_argmax(x, 1, false)));
    ck_assert_ptr_null(sn_max_dim(x, 9, false, &at));
    ck_assert_ptr_null(at); /* out parameters are NULL on failure */
    ck_assert_int_ne(sn_error_take()->status, SN_OK);
    ck_assert(same_bits(sn_linear(x, F32(2, 3, 6), NULL), sn_matmul(x, sn_t(F32(2, 3, 6)))));
}
END_TEST

/* O4: the LLVM module, loading ---------------------------------------------------------------- */

/* Is the module, or a library of LLVM's, mapped? */
static bool llvm_is_loaded(void) {
    FILE *const maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool found = false;
    ck_assert_ptr_nonnull(maps);
    while (!found && fgets(line, sizeof line, maps)) found = strstr(line, "sinter-llvm") || strstr(line, "libLLVM");
    fclose(maps);
    return found;
}

static sn_status layer(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_linear(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)))); }

/* The first test of this file: with CK_FORK=no those before it would have loaded it. */
START_TEST(o4_a_program_that_only_runs_eagerly_loads_no_llvm) {
    const Twin twin = twin_new(layer, NULL, NULL, NULL);
    sn_tensor *const x = F32(1, 8, 6), *const w = LEAF(2, 4, 6), *const b = LEAF(3, 4);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const y = sn_softmax(SN_CALL(twin.eager, x, w, b), 1);
        ck_assert_int_eq(sn_backward(sn_sum(sn_mul(y, y))), SN_OK);
        sn_sub_(sn_detach(w), sn_mul_scalar(sn_grad(w), sn_float(0.1)));
    }
    ck_assert_msg(!sn_check(), "%s", sn_error_take()->message);
    ck_assert(!llvm_is_loaded());
    for (int i = 0; i < 2; i++) SN_CALL(twin.fast, x, w, b);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert(llvm_is_loaded());
    twin_free(twin);
}
END_TEST

START_TEST(o4_no_memory_is_writable_and_executable) {
    sn_function *const fn = sn_compile(hundred, NULL, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(1, 4));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    FILE *const maps = fopen("/proc/self/maps", "r");
    char line[512];
    int lines = 0;
    for (; maps && fgets(line, sizeof line, maps); lines++) ck_assert_msg(!strstr(line, " rwx"), "%s", line);
    ck_assert_int_gt(lines, 3);
    fclose(maps);
    ck_assert_ptr_nonnull(llvm_module());
    ck_assert_uint_eq(llvm_module()->version, LLVM_MODULE_VERSION);
    sn_function_free(fn);
}
END_TEST

static sn_status polynomial(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < *(int *)sn_closure(f); i++) x = sn_add_scalar(sn_mul(x, x), sn_float(i + 0.5));
    return sn_out(f, 0, x);
}

static void *compiles(void *context) {
    bool *const ok = context;
    *ok = true;
    for (int n = 1; n < 12 && *ok; n++) {
        sn_function *const fn = sn_compile(polynomial, &n, NULL);
        sn_tensor *const x = F32(1, 8), *const first = SN_CALL(fn, x), *const then = SN_CALL(fn, x);
        *ok = same_bits(first, then) && last_path() == SN_PATH_COMPILED;
        sn_function_free(fn);
    }
    return NULL;
}

START_TEST(o4_each_compile_has_its_own_context) {
    pthread_t threads[3];
    bool ok[3];
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, compiles, &ok[i]);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    ck_assert(ok[0] && ok[1] && ok[2]);
}
END_TEST

/* O5: errors ---------------------------------------------------------------------------------- */

START_TEST(o5_while_an_error_is_pending_nothing_happens) {
    sn_tensor *const x = F32(1, 4), *const copy = sn_clone(x);
    sn_function *const fn = sn_compile(hundred, NULL, NULL);
    const sn_scope scope = sn_scope_begin();
    sn_fail(SN_ERR_VALUE, "the first");
    sn_add_(x, x);
    ck_assert_ptr_null(sn_relu(x));
    ck_assert_ptr_null(SN_CALL(fn, x));
    ck_assert_ptr_null(sn_compile(hundred, NULL, NULL));
    sn_fail(SN_ERR_SHAPE, "the second");
    ck_assert_int_eq(sn_scope_end(scope), SN_ERR_VALUE); /* ends work and tell */
    sn_function_free(fn);
    expect_error(SN_ERR_VALUE, "the first");
    ck_assert(same_bits(x, copy));
    ck_assert_int_eq(stats_of(NULL).calls, 0);
    sn_error_take();
}
END_TEST

static sn_status fails_silently(sn_frame *f) {
    sn_add(sn_in(f, 0), F32(1, 3)); /* an error that the body does not look at */
    return SN_OK;
}
static sn_status returns_a_status(sn_frame *f) { return SN_ERR_UNSUPPORTED; }

START_TEST(o5_a_callback_that_returns_with_an_error_has_failed) {
    sn_function *const fn = sn_compile(fails_silently, NULL, NULL);
    sn_tensor *const x = F32(1, 4), *out = x;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(sn_call(fn, &x, 1, &out, 1), SN_ERR_SHAPE);
        ck_assert_ptr_null(out);
        expect_error(SN_ERR_SHAPE, "add");
    }
    sn_function_free(fn);
    sn_function *const other = sn_compile(returns_a_status, NULL, NULL);
    ck_assert_int_ne(sn_call(other, &x, 1, &out, 1), SN_OK);
    expect_error(SN_ERR_CALLBACK, "unsupported");
    sn_function_free(other);
}
END_TEST

static sn_status forgets(sn_frame *f) { return sn_in(f, 0) ? SN_OK : sn_check(); }

START_TEST(o5_errors_name_op_and_call_site) {
    ck_assert_ptr_null(sn_add(F32(1, 4), F32(1, 3)));
    const sn_error *const error = sn_error_take();
    ck_assert_ptr_nonnull(strstr(error->op, "add"));
    ck_assert_ptr_nonnull(strstr(error->where, "test_contract_o")); /* and the line, with -g */
    ck_assert_ptr_nonnull(strstr(error->message, "4"));
    ck_assert_ptr_nonnull(strstr(error->message, "3"));
    ck_assert_int_gt(error->code, 0);
    const sn_error *const none = sn_error_take();
    ck_assert_int_eq(none->status, SN_OK);
    ck_assert(none->message && none->op && none->where && !none->where[0]);
    sn_tensor *const leaf = LEAF(1, 3);
    ck_assert_ptr_null(sn_exp_(leaf)); /* raised where no op is known: the message names it all the same */
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "aten::exp_: "));
    ck_assert_int_ne(sn_backward(leaf), SN_OK);
    ck_assert_ptr_nonnull(strstr(sn_error_take()->where, "test_contract_o"));
    const sn_value in[] = {sn_val(leaf)};
    ck_assert_ptr_null(sn_op_call1(sn_op_find("aten::mm"), in, 1));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->where, "test_contract_o"));
    sn_function *const fn = sn_compile(forgets, NULL, NULL);
    ck_assert_ptr_null(SN_CALL(fn, leaf));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->where, "test_contract_o"));
    sn_function_free(fn);
}
END_TEST

static int said;
static void count_lines(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic, (void)line;
    said++;
}

START_TEST(o5_nothing_prints_but_the_log_handler) {
    FILE *const file = tmpfile();
    const int before = dup(1), errors = dup(2);
    fflush(NULL);
    dup2(fileno(file), 1);
    dup2(fileno(file), 2);
    sn_logging_set(count_lines, NULL, "");
    sn_function *const fn =
        sn_compile(hundred, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER, .recompile_limit = 1));
    for (int64_t n = 2; n < 5; n++) SN_CALL(fn, F32(1, n)); /* says the limit once */
    sn_add(F32(1, 4), F32(1, 3));
    sn_error_take();
    sn_function_free(fn);
    fflush(NULL);
    const off_t bytes = lseek(fileno(file), 0, SEEK_END);
    dup2(before, 1);
    dup2(errors, 2);
    ck_assert_int_eq(bytes, 0);
    ck_assert_int_eq(said, 1);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        o4_a_program_that_only_runs_eagerly_loads_no_llvm,
        o1_results_belong_to_the_innermost_scope,
        o1_keep_of_an_outer_tensor_retains,
        o1_an_owned_scope_gives_bindings_the_results,
        o1_every_callback_runs_in_its_own_scope,
        o1_calls_leave_one_handle_each,
        o1_an_output_lives_though_the_body_lets_go_of_it,
        o1_a_call_gives_back_what_its_outputs_held,
        o1_an_owned_scope_gives_results_once,
        o2_accessors_check_counts_and_types,
        o2_options_begin_with_their_size,
        o3_typed_and_boxed_functions_agree,
        o3_out_ex_takes_all_arguments,
        o3_further_results_are_nullable_pointers,
        o4_no_memory_is_writable_and_executable,
        o4_each_compile_has_its_own_context,
        o5_while_an_error_is_pending_nothing_happens,
        o5_a_callback_that_returns_with_an_error_has_failed,
        o5_errors_name_op_and_call_site,
        o5_nothing_prints_but_the_log_handler,
    };
    return contract_main("test_contract_o", tests, (int)(sizeof tests / sizeof *tests));
}
