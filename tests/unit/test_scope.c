/* test_scope.c: who owns results [semantics O1], pending errors [O5], marks and unwinding [C13],
 * settings, states. */
#include <pthread.h>

#include "runtime/base/alloc_fail.h"
#include "runtime/base/log.h"
#include "runtime/core/tensor.h"
#include <sinter/amp.h>
#include <sinter/memory.h>
#include <sinter/nn.h>

#include "tests/unit/suite.h"

static sn_tensor *numbers(int64_t n) {
    float values[64] = {0};
    return sn_from_data(values, (sn_ints){&n, 1}, SN_F32);
}

static int64_t in_use(void) {
    sn_memory memory = {.size = sizeof memory};
    ck_assert_int_eq(sn_memory_get(SN_CPU, &memory), SN_OK);
    return memory.current;
}

/* A result whose memory the allocator counts. */
static sn_tensor *big(void) {
    static float values[4096];
    return sn_from_data(values, (sn_ints){(int64_t[]){4096}, 1}, SN_F32);
}

START_TEST(scope_end_frees_its_results) {
    const int64_t before = in_use();
    const sn_scope scope = sn_scope_begin();
    ck_assert_ptr_nonnull(big());
    ck_assert_ptr_nonnull(big());
    ck_assert_int_ge(in_use(), before + 2 * 16384);
    ck_assert_int_eq(sn_scope_end(scope), SN_OK);
    ck_assert_int_eq(in_use(), before);
}
END_TEST

START_TEST(an_ending_scope_leaves_the_root_alone) {
    sn_tensor *const root = big();
    const char *const text = state_text(state_get(), strdup("root"));
    sn_scope_end(sn_scope_begin());
    ck_assert_int_eq(sn_size(root, 0), 4096);
    ck_assert(tensor_in_scope(root));
    ck_assert_str_eq(text, "root");
    sn_scope_end(SN_SCOPE_ROOT); /* ends the root's too */
}
END_TEST

START_TEST(keep_takes_the_scopes_reference) {
    const int64_t before = in_use();
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const kept = sn_keep(big());
    ck_assert_int_eq(atomic_load(&kept->refs), 1);
    sn_scope_end(scope);
    ck_assert_int_gt(in_use(), before);
    sn_release(kept);
    ck_assert_int_eq(in_use(), before);
}
END_TEST

START_TEST(keep_of_an_outer_scopes_tensor_retains) {
    const sn_scope outer = sn_scope_begin();
    sn_tensor *const t = big();
    const sn_scope inner = sn_scope_begin();
    sn_keep(t);
    ck_assert_int_eq(atomic_load(&t->refs), 2);
    sn_scope_end(inner);
    sn_scope_end(outer);
    ck_assert_int_eq(atomic_load(&t->refs), 1);
    sn_release(t);
}
END_TEST

START_TEST(keep_leaves_the_other_handles_owned) {
    const int64_t before = in_use();
    const sn_scope scope = sn_scope_begin();
    sn_tensor *ts[5];
    for (int i = 0; i < 5; i++) ts[i] = big();
    sn_keep(ts[1]);
    sn_keep(ts[4]);
    sn_keep(ts[0]);
    sn_scope_end(scope);
    ck_assert_int_eq(in_use(), before + 3 * 16384);
    sn_release(ts[0]), sn_release(ts[1]), sn_release(ts[4]);
    ck_assert_int_eq(in_use(), before);
}
END_TEST

START_TEST(scope_return_passes_to_the_scope_outside) {
    const int64_t before = in_use();
    const sn_scope outer = sn_scope_begin();
    const sn_scope inner = sn_scope_begin();
    sn_tensor *const t = big();
    big();
    ck_assert_ptr_eq(sn_scope_return(inner, t), t);
    ck_assert_int_eq(atomic_load(&t->refs), 1);
    ck_assert_int_eq(in_use(), before + 16384);
    sn_scope_end(outer);
    ck_assert_int_eq(in_use(), before);
}
END_TEST

START_TEST(ending_a_mark_closes_all_above) {
    const int64_t before = in_use();
    const sn_scope outer = sn_scope_begin();
    const sn_scope skipped = sn_scope_begin(); /* as if a longjmp left it */
    big();
    sn_scope_begin();
    big();
    ck_assert_int_eq(sn_scope_end(outer), SN_OK);
    ck_assert_int_eq(in_use(), before);
    ck_assert_int_eq(sn_scope_end(skipped), SN_ERR_STATE);
    sn_error_take();
}
END_TEST

START_TEST(a_mark_of_a_reused_depth_is_refused) {
    const sn_scope first = sn_scope_begin();
    sn_scope_end(first);
    const sn_scope second = sn_scope_begin();
    ck_assert_int_eq(sn_scope_end(first), SN_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "ended already"));
    ck_assert_int_eq(sn_scope_end(second), SN_OK);
}
END_TEST

START_TEST(owned_scope_gives_results_to_the_caller) {
    const int64_t before = in_use();
    const sn_scope scope = sn_scope_begin_owned();
    sn_tensor *const t = big();
    ck_assert_int_eq(sn_scope_end(scope), SN_OK);
    ck_assert_int_eq(atomic_load(&t->refs), 1);
    ck_assert_int_gt(in_use(), before);
    sn_release(t);
    ck_assert_int_eq(in_use(), before);
}
END_TEST

START_TEST(scopes_restore_modes) {
    sn_state *const state = state_get();
    const uint64_t exclude = state->exclude;
    const sn_scope scope = sn_scope_begin();
    state_grad_mode_set(state, SN_INFERENCE);
    ck_assert(numbers(4)->flags & TF_inference);
    sn_scope_end(scope);
    ck_assert_int_eq(state->grad_mode, SN_GRAD_ON);
    ck_assert_uint_eq(state->exclude, exclude);
}
END_TEST

static int warnings;
static void count_warning(void *context, int level, const char *topic, const char *line) {
    (void)context;
    warnings += level == LOG_WARNING && !strcmp(topic, "memory") && strstr(line, "root scope") != NULL;
}

START_TEST(root_scope_warns_once) {
    sn_state *const state = sn_state_new(), *const before = sn_state_use(state);
    sn_logging_set(count_warning, NULL, NULL);
    for (int i = 0; i < 9999; i++) numbers(1);
    ck_assert_int_eq(warnings, 0);
    for (int i = 0; i < 100; i++) numbers(1);
    ck_assert_int_eq(warnings, 1);
    sn_logging_set(NULL, NULL, NULL);
    sn_state_use(before);
    sn_state_free(state);
}
END_TEST

START_TEST(the_first_error_stays_pending) {
    ck_assert_int_eq(sn_fail(SN_ERR_VALUE, "first"), SN_ERR_VALUE);
    sn_fail(SN_ERR_SHAPE, "second");
    ck_assert_int_eq(sn_check(), SN_ERR_VALUE);
    ck_assert_ptr_null(numbers(4)); /* makers do nothing */
    const sn_error *const error = sn_error_take();
    ck_assert_str_eq(error->message, "first");
    ck_assert_int_eq(error->code, 1000 + SN_ERR_VALUE);
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert_int_eq(sn_error_take()->status, SN_OK);
    ck_assert_str_eq(sn_error_take()->message, "");
}
END_TEST

START_TEST(frees_and_ends_work_while_an_error_is_pending) {
    const int64_t before = in_use();
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t = sn_keep(big());
    big();
    sn_fail(SN_ERR_VALUE, "pending");
    ck_assert_int_eq(sn_scope_end(scope), SN_ERR_VALUE);
    sn_release(t);
    sn_error_take();
    ck_assert_int_eq(in_use(), before);
}
END_TEST

START_TEST(states_have_their_own_error_and_scopes) {
    sn_state *const other = sn_state_new();
    sn_fail(SN_ERR_VALUE, "mine");
    sn_state *const mine = sn_state_use(other);
    ck_assert_int_eq(sn_check(), SN_OK);
    const sn_scope scope = sn_scope_begin();
    sn_state_use(mine);
    ck_assert_int_eq(sn_check(), SN_ERR_VALUE);
    sn_error_take();
    ck_assert_int_eq(sn_scope_end(scope), SN_ERR_STATE); /* another state's mark */
    sn_error_take();
    sn_state_free(other);
}
END_TEST

static void *thread_body(void *result) {
    const sn_scope scope = sn_scope_begin();
    *(int *)result = sn_check() == SN_OK && numbers(8) != NULL;
    sn_scope_end(scope);
    big(); /* the root scope's: freed when the thread ends */
    return NULL;
}

START_TEST(a_threads_state_dies_with_it) {
    const int64_t before = in_use();
    pthread_t thread;
    int fine = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, thread_body, &fine), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(fine, 1);
    ck_assert_int_eq(in_use(), before);
}
END_TEST

START_TEST(settings_are_named_rows) {
    ck_assert_str_eq(sn_setting_get("recompile_limit"), "8");
    ck_assert_int_eq(sn_setting_set("recompile_limit", "3"), SN_OK);
    ck_assert_str_eq(sn_setting_get("recompile_limit"), "3");
    ck_assert_int_eq(setting_number(SET_recompile_limit), 3);
    ck_assert_int_eq(sn_setting_set("recompile_limit", "many"), SN_ERR_ARGUMENT);
    sn_error_take();
    ck_assert_int_eq(sn_setting_set("no_such", "1"), SN_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "recompile_limit")); /* lists the valid ones */
    sn_setting_set("recompile_limit", "8");
}
END_TEST

/* The root scope's results are there where a scope of the program's, or of a function of the library, could not begin,
 * and is ended all the same. In a state of its own, whose first scope asks for memory. */
typedef void Scoped(void);
static sn_dict *params;
static sn_optim *optimizer;
static void ends_a_scope(void) { sn_scope_end(sn_scope_begin()); }
static void returns_from_a_scope(void) { sn_scope_return(sn_scope_begin(), NULL); }
static void ends_no_grad(void) { sn_scope_end(sn_no_grad_begin()); }
static void ends_a_fork(void) { sn_scope_end(sn_rng_fork_begin()); }
static void steps(void) { sn_optim_step(optimizer); }
static void clips(void) { sn_clip_grad_norm(params, 1e-3); }
static void copies(void) { sn_dict_copy(params, params); }
static void makes_an_optimizer(void) { sn_optim_free(sn_adam(params, 0.1, 0)); }
static void makes_parameters(void) {
    sn_dict *const d = sn_dict_new();
    if (d) sn_param_linear(d, "l", 2, 2, NULL, NULL), sn_param_embedding(d, "e", 2, 2);
    sn_dict_free(d);
}
static void converts_numbers(void) {
    sn_scaler *const scaler = sn_scaler_new(NULL);
    if (scaler) sn_scaler_unscale(scaler, optimizer), sn_scaler_step(scaler, optimizer), sn_scaler_update(scaler);
    sn_scaler_free(scaler);
}
static Scoped *const scoped[] = {ends_a_scope, returns_from_a_scope, ends_no_grad,     ends_a_fork,     steps, clips,
                                 copies,       makes_an_optimizer,   makes_parameters, converts_numbers};

static bool keeps_the_root(Scoped *run, int64_t failing) {
    sn_state *const own = sn_state_new();
    sn_state_use(own);
    sn_tensor *const held = numbers(3);
    mem_fail_once(failing);
    run();
    const bool failed = mem_failed_once();
    mem_fail_once(-1);
    if (sn_check() != SN_OK) sn_error_take();
    ck_assert_msg(own->handles.n && own->handles.at[0] == held, "allocation %lld: the root scope has ended",
                  (long long)failing);
    sn_state_use(NULL);
    sn_state_free(own);
    return failed;
}

START_TEST(a_scope_that_could_not_begin_ends_nothing) {
    params = sn_dict_new();
    sn_tensor *const w = sn_requires_grad_(numbers(4), true);
    sn_dict_set(params, "w", w);
    optimizer = sn_adam(params, 0.1, 0);
    sn_grad_set(w, numbers(4));
    for (int64_t failing = 0; keeps_the_root(scoped[_i], failing) && failing < 200;) failing++;
    sn_optim_free(optimizer);
    sn_dict_free(params);
}
END_TEST

START_TEST(texts_belong_to_scopes) {
    const sn_scope scope = sn_scope_begin();
    char *const text = strdup("hello");
    ck_assert_str_eq(state_text(state_get(), text), "hello");
    sn_scope_end(scope); /* freed: the sanitizer builds see a leak or a double free */
    ck_assert_str_eq(state_text(state_get(), NULL), "");
}
END_TEST

int main(void) {
    TCase *const tc = tcase_create("scope");
    tcase_add_test(tc, scope_end_frees_its_results);
    tcase_add_test(tc, an_ending_scope_leaves_the_root_alone);
    tcase_add_test(tc, keep_takes_the_scopes_reference);
    tcase_add_test(tc, keep_of_an_outer_scopes_tensor_retains);
    tcase_add_test(tc, keep_leaves_the_other_handles_owned);
    tcase_add_test(tc, scope_return_passes_to_the_scope_outside);
    tcase_add_test(tc, ending_a_mark_closes_all_above);
    tcase_add_test(tc, a_mark_of_a_reused_depth_is_refused);
    tcase_add_test(tc, owned_scope_gives_results_to_the_caller);
    tcase_add_test(tc, scopes_restore_modes);
    tcase_add_test(tc, root_scope_warns_once);
    tcase_add_test(tc, the_first_error_stays_pending);
    tcase_add_test(tc, frees_and_ends_work_while_an_error_is_pending);
    tcase_add_test(tc, states_have_their_own_error_and_scopes);
    tcase_add_test(tc, a_threads_state_dies_with_it);
    tcase_add_test(tc, settings_are_named_rows);
    tcase_add_test(tc, texts_belong_to_scopes);
    tcase_add_loop_test(tc, a_scope_that_could_not_begin_ends_nothing, 0, sizeof scoped / sizeof *scoped);
    return suite_run("scope", tc);
}
