/* test_threads.c: many threads in one process [semantics C13]: first calls that race, eager ops side
 * by side, training, states that move between threads, and the fork-join pool, whose size changes
 * no bit and hides no error. Run under the tsan preset to look for races; the bits are compared in every build. */
#include <pthread.h>

#include "contract.h"
#include "runtime/base/bail.h"
#include "tests/unit/suite.h"

enum { THREADS = 4, ROUNDS = 24 };

typedef struct Job {
    sn_function *fast, *eager;
    pthread_barrier_t *start;
    int number, wrong;
} Job;

/* Runs body once a thread, all let go at one moment; asserts that none counted a wrong result. */
static void run_jobs(void *(*body)(void *job), sn_function *fast, sn_function *eager) {
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    Job jobs[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (Job){fast, eager, &start, i, 0};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, body, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++) ck_assert_msg(jobs[i].wrong == 0, "thread %d", i);
}

/* Compiled functions -------------------------------------------------------------------------- */

static sn_status norm(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_gelu(sn_add(x, sn_mul(x, x)));
    return sn_out(f, 0, sn_softmax(sn_sub(y, sn_mean(y)), -1));
}

static sn_status halves(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < 8 && sn_item(sn_amax(sn_abs(x))) > 0.5; i++) x = sn_mul_scalar(x, sn_float(0.5));
    return sn_out(f, 0, sn_exp(x));
}

static void call_both(Job *job, sn_tensor *x) {
    sn_tensor *const want = SN_CALL(job->eager, x), *const got = SN_CALL(job->fast, x);
    job->wrong += !got || !same_bits(got, want) || sn_error_take()->status != SN_OK;
}

static void *call_same_shape(void *context) {
    Job *const job = context;
    pthread_barrier_wait(job->start);
    for (int i = 0; i < ROUNDS; i++) {
        const sn_scope scope = sn_scope_begin();
        call_both(job, F32((uint64_t)(job->number * ROUNDS + i), 6, 40));
        sn_scope_end(scope);
    }
    return NULL;
}

static void *call_many_shapes(void *context) {
    Job *const job = context;
    pthread_barrier_wait(job->start);
    for (int i = 0; i < ROUNDS; i++) {
        const sn_scope scope = sn_scope_begin();
        const int n = 2 + (job->number + i) % 5 * 7;
        call_both(job, F32((uint64_t)i, n, 3 + i % 2 * 30));
        sn_scope_end(scope);
    }
    return NULL;
}

typedef struct Case {
    sn_body body;
    sn_compile_mode mode;
    void *(*job)(void *);
} Case;

static const Case cases[] = {
    {norm, SN_COMPILE_VERIFY, call_same_shape},   {norm, SN_COMPILE_VERIFY, call_many_shapes},
    {norm, SN_COMPILE_REPLAY, call_same_shape},   {norm, SN_COMPILE_REPLAY, call_many_shapes},
    {halves, SN_COMPILE_VERIFY, call_same_shape}, {halves, SN_COMPILE_VERIFY, call_many_shapes},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(c13_first_calls_race) {
    const Case *const c = &cases[_i];
    const Twin twin = twin_new(c->body, NULL, NULL, SN_COMPILE_OPTIONS(.mode = c->mode));
    run_jobs(c->job, twin.fast, twin.eager);
    ck_assert_int_eq(stats_of(twin.fast).calls, THREADS * ROUNDS);
    twin_free(twin);
}
END_TEST

static void *train(void *context) {
    Job *const job = context;
    pthread_barrier_wait(job->start);
    for (int i = 0; i < ROUNDS; i++) {
        const sn_scope scope = sn_scope_begin();
        const uint64_t seed = (uint64_t)(job->number * ROUNDS + i);
        sn_tensor *const x = LEAF(seed, 5, 30), *const y = LEAF(seed, 5, 30);
        sn_tensor *const got = SN_CALL(job->fast, x), *const want = SN_CALL(job->eager, y);
        sn_backward(sn_sum(sn_mul(got, got)));
        sn_backward(sn_sum(sn_mul(want, want)));
        job->wrong += !sn_grad(x) || !same_bits(sn_grad(x), sn_grad(y));
        job->wrong += sn_error_take()->status != SN_OK;
        sn_scope_end(scope);
    }
    return NULL;
}

/* All threads go backward through one parameter, whose gradient nobody asks for; some calls break. */
static sn_status through_a_parameter(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const h = sn_tanh(sn_mm(x, sn_closure(f)));
    if (sn_size(x, 0) % 3 == 0) sn_graph_break("rows in threes");
    return sn_out(f, 0, sn_sum(sn_mul(h, h)));
}

static sn_tensor *gradient(sn_function *fn, int call) {
    sn_tensor *const x = LEAF((uint64_t)call, 2 + call * 7 % 9, 4), *out = NULL;
    sn_tensor *const y = SN_CALL(fn, x);
    sn_gradients(SN_TENSORS(y), SN_TENSORS(x), (sn_tensors){0}, 0, &out);
    return out;
}

static sn_tensor *parameter_gradients[THREADS * ROUNDS]; /* by call, of one thread */

static void *share_a_parameter(void *context) {
    Job *const job = context;
    pthread_barrier_wait(job->start);
    for (int i = 0; i < 2 * ROUNDS; i++) {
        const sn_scope scope = sn_scope_begin();
        const int call = job->number * ROUNDS + i % ROUNDS;
        sn_tensor *const got = gradient(i < ROUNDS ? job->fast : job->eager, call);
        job->wrong += !got || !same_bits(got, parameter_gradients[call]);
        job->wrong += sn_error_take()->status != SN_OK;
        sn_scope_end(scope);
    }
    return NULL;
}

START_TEST(c13_backwards_share_a_parameter) {
    sn_tensor *const w = LEAF(1, 4, 6);
    const Twin twin = twin_new(through_a_parameter, w, w, NULL);
    for (int i = 0; i < THREADS * ROUNDS; i++) parameter_gradients[i] = gradient(twin.eager, i);
    for (int i = 0; i < 5; i++) run_jobs(share_a_parameter, twin.fast, twin.eager);
    ck_assert_ptr_null(sn_grad(w));
    twin_free(twin);
}
END_TEST

START_TEST(c13_training_on_many_threads) {
    const Twin twin = twin_new(norm, NULL, NULL, NULL);
    run_jobs(train, twin.fast, twin.eager);
    twin_free(twin);
}
END_TEST

/* Eager ops and tensors ----------------------------------------------------------------------- */

static void *eager_ops(void *context) {
    Job *const job = context;
    float data[33], out[33];
    fill_floats(data, 33, (uint64_t)job->number);
    pthread_barrier_wait(job->start);
    for (int i = 0; i < 20 * ROUNDS; i++) {
        const sn_scope scope = sn_scope_begin();
        const int64_t n = 1 + i % 33;
        sn_tensor *const x = sn_from_data(data, SN_INTS(n), SN_F32);
        sn_tensor *const y = sn_add(sn_mul(x, x), sn_neg(x));
        sn_read(sn_flip(y, SN_INTS(0)), out, (size_t)n * sizeof *out);
        for (int64_t k = 0; k < n; k++) job->wrong += out[n - 1 - k] != data[k] * data[k] + -data[k];
        job->wrong += sn_scope_end(scope) != SN_OK;
    }
    return NULL;
}

START_TEST(c13_eager_ops_side_by_side) { run_jobs(eager_ops, NULL, NULL); }
END_TEST

static sn_tensor *shared;

static void *share(void *context) {
    Job *const job = context;
    pthread_barrier_wait(job->start);
    for (int i = 0; i < 20 * ROUNDS; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const view = sn_narrow(sn_retain(shared), 0, i % 8, 2);
        job->wrong += sn_item(sn_sum(view)) != 2.0 * 16;
        sn_release(shared);
        sn_scope_end(scope);
    }
    return NULL;
}

/* Reference counts of a tensor and its storage from all threads at once. */
START_TEST(c13_threads_share_a_tensor) {
    shared = sn_keep(sn_ones(SN_INTS(10, 16), SN_F32));
    run_jobs(share, NULL, NULL);
    sn_release(shared);
}
END_TEST

/* States -------------------------------------------------------------------------------------- */

typedef struct Moved {
    sn_state *state;
    sn_function *fn;
    sn_tensor *sum;
    int steps;
} Moved;

/* One step of a session: its state, with what its root scope holds, is used on this thread. */
static void *step(void *context) {
    Moved *const moved = context;
    sn_state *const before = sn_state_use(moved->state);
    sn_tensor *const term = SN_CALL(moved->fn, F32((uint64_t)moved->steps++, 4, 8));
    moved->sum = moved->sum ? sn_add(moved->sum, term) : term;
    sn_state_use(before);
    return NULL;
}

START_TEST(c13_a_state_moves_between_threads) {
    sn_function *const fn = sn_compile(norm, NULL, NULL);
    Moved moved = {.state = sn_state_new(), .fn = fn}, still = {.state = sn_state_new(), .fn = fn};
    for (int i = 0; i < 6; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, step, &moved), 0);
        pthread_join(thread, NULL);
        step(&still);
    }
    ck_assert(same_bits(moved.sum, still.sum));
    ck_assert_int_eq(sn_check(), SN_OK);
    sn_state_free(moved.state);
    sn_state_free(still.state);
    sn_function_free(fn);
}
END_TEST

/* The pool ------------------------------------------------------------------------------------ */

static sn_status large(sn_frame *f) {
    sn_tensor *const h = sn_gelu(sn_matmul(sn_in(f, 0), sn_in(f, 1)));
    sn_out(f, 1, sn_sum(h));
    sn_out(f, 2, sn_sum_dim(h, SN_INTS(0), false));
    return sn_out(f, 0, sn_softmax(h, -1));
}

/* Batches of q k^T, whose second operand has its k contiguous: as they are, with an epilogue, and the other way
 * round. */
static sn_status scores(sn_frame *f) {
    sn_tensor *const q = sn_in(f, 0), *const k = sn_in(f, 1);
    sn_out(f, 1, sn_gelu(sn_bmm(q, sn_transpose(k, 1, 2))));
    sn_out(f, 2, sn_bmm(k, sn_transpose(q, 1, 2)));
    return sn_out(f, 0, sn_bmm(q, sn_transpose(k, 1, 2)));
}

typedef struct Pooled {
    sn_body body;
    int rank;
    int64_t a[3], b[3]; /* sizes of the inputs */
} Pooled;

/* Rows of 300 in two to eight parts leave a last one that alone would be blocked in another way. */
static const Pooled pooled[] = {{large, 2, {700, 300}, {300, 513}},        {scores, 3, {3, 300, 300}, {3, 400, 300}},
                                {scores, 3, {2, 97, 200}, {2, 1100, 200}}, {scores, 3, {12, 197, 64}, {12, 197, 64}},
                                {scores, 3, {1, 1, 768}, {1, 1100, 768}}, /* few rows: parts are columns, or batches */
                                {scores, 3, {2, 7, 300}, {2, 1100, 300}},  {scores, 3, {13, 5, 640}, {13, 197, 640}},
                                {large, 2, {3, 300}, {300, 2500}}};
enum { POOLED = sizeof pooled / sizeof *pooled };

/* All results of eager and of a compiled call, with so many threads in the pool. */
static void pooled_results(const Pooled *work, const char *threads, sn_tensor *out[6]) {
    sn_setting_set("threads", threads);
    const Twin twin = twin_new(work->body, NULL, NULL, NULL);
    sn_tensor *const a = make_f32((sn_ints){work->a, work->rank}, 1);
    sn_tensor *const b = make_f32((sn_ints){work->b, work->rank}, 2);
    sn_tensor *in[] = {a, b}, *first[3];
    ck_assert_int_eq(sn_call(twin.eager, in, 2, out, 3), SN_OK);
    ck_assert_int_eq(sn_call(twin.fast, in, 2, first, 3), SN_OK);
    ck_assert_int_eq(sn_call(twin.fast, in, 2, out + 3, 3), SN_OK);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}

START_TEST(the_pool_changes_no_bit) {
    static const char *const sizes[] = {"1", "2", "4", "5"};
    sn_tensor *out[4][6];
    for (int i = 0; i < 4; i++) pooled_results(&pooled[_i], sizes[i], out[i]);
    for (int k = 0; k < 6; k++) {
        ck_assert_msg(same_bits(out[0][k], out[0][k % 3]), "eager and compiled, result %d", k % 3);
        for (int i = 1; i < 4; i++)
            ck_assert_msg(same_bits(out[i][k], out[0][k]), "%s threads, result %d", sizes[i], k);
    }
}
END_TEST

/* Checks that only the last element of the second input fails, which only the pool's last part sees. */
static sn_status pick(sn_frame *f) { return sn_out(f, 0, sn_index_select(sn_in(f, 0), 0, sn_in(f, 1))); }

static sn_status quotient(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_div_mode(sn_matmul(x, x), sn_in(f, 1), "trunc"));
}

typedef struct Checked {
    sn_body body;
    int64_t x; /* rows and columns */
    int rank;
    int64_t sizes[2], bad;     /* of the second input, and its last element */
    const char *kernel, *says; /* parts of the kernel's text, and of the error's message */
} Checked;

static const Checked checked[] = {
    {pick, 7, 1, {40000}, 7, "gather i64", "index 7 is out of range for 7 elements"},
    {quotient, 120, 2, {120, 120}, 0, "tile i64", "an integer is divided by zero in other"}};
enum { CHECKED = sizeof checked / sizeof *checked };

static sn_tensor *ones_but_last(const Checked *c, int64_t last) {
    sn_tensor *const t = sn_ones((sn_ints){c->sizes, c->rank}, SN_I64);
    ((int64_t *)sn_data(t, SN_I64))[sn_numel(t) - 1] = last;
    return t;
}

static void fails_for_the_last(const Checked *c, sn_compile_mode mode, sn_path path) {
    sn_function *const fn = sn_compile(c->body, NULL, SN_COMPILE_OPTIONS(.mode = mode));
    sn_tensor *const x = sn_ones(SN_INTS(c->x, c->x), SN_I64);
    for (int i = 0; i < 2; i++) ck_assert_ptr_nonnull(SN_CALL(fn, x, ones_but_last(c, 1)));
    ck_assert_int_eq(last_path(), path);
    if (path != SN_PATH_EAGER) ck_assert_ptr_nonnull(strstr(sn_dump(fn, "loops"), c->kernel));
    ck_assert_ptr_null(SN_CALL(fn, x, ones_but_last(c, c->bad)));
    expect_error(SN_ERR_VALUE, c->says);
    sn_function_free(fn);
}

START_TEST(the_pool_hides_no_error) {
    const Checked *const c = &checked[_i];
    sn_setting_set("threads", "2");
    fails_for_the_last(c, SN_COMPILE_EAGER, SN_PATH_EAGER);
    failpoint_set("codegen");
    fails_for_the_last(c, SN_COMPILE_VERIFY, SN_PATH_INTERPRETED);
    failpoint_set(NULL);
    fails_for_the_last(c, SN_COMPILE_VERIFY, SN_PATH_COMPILED);
}
END_TEST

static void *large_calls(void *context) {
    Job *const job = context;
    pthread_barrier_wait(job->start);
    for (int i = 0; i < 4; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = F32((uint64_t)(job->number + i), 300, 700);
        call_both(job, x);
        sn_scope_end(scope);
    }
    return NULL;
}

START_TEST(c13_threads_share_the_pool) {
    sn_setting_set("threads", "2");
    const Twin twin = twin_new(norm, NULL, NULL, NULL);
    run_jobs(large_calls, twin.fast, twin.eager);
    twin_free(twin);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("threads");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, c13_first_calls_race, 0, CASES);
    tcase_add_test(tests, c13_training_on_many_threads);
    tcase_add_test(tests, c13_backwards_share_a_parameter);
    tcase_add_test(tests, c13_eager_ops_side_by_side);
    tcase_add_test(tests, c13_threads_share_a_tensor);
    tcase_add_test(tests, c13_a_state_moves_between_threads);
    tcase_add_loop_test(tests, the_pool_changes_no_bit, 0, POOLED);
    tcase_add_loop_test(tests, the_pool_hides_no_error, 0, CHECKED);
    tcase_add_test(tests, c13_threads_share_the_pool);
    return suite_run("threads", tests);
}
