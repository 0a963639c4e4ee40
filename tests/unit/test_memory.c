/* test_memory.c: what the library keeps does not grow with what a program calls: numbers and sizes that change with
 * every call, functions that come and go. Bytes of our own allocators are counted; the process' memory is looked at
 * once. */
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/bail.h"
#include "runtime/capture/function/function.h"
#include "runtime/compile/code_cache.h"
#include "runtime/core/state.h"
#include "runtime/eager/eager.h"
#include "tests/unit/contract.h"

static double host_number;

/* A number that is known to the host only. */
static sn_status scaled_by_host(sn_frame *f) {
    return sn_out(f, 0, sn_add_scalar(sn_mul_scalar(sn_in(f, 0), sn_float(host_number)), sn_float(1 / host_number)));
}

static sn_status scaled_by_input(sn_frame *f) {
    return sn_out(f, 0, sn_add_scalar(sn_mul_scalar(sn_in(f, 0), sn_float(sn_in_float(f, 1))), sn_float(4)));
}

static void call_once(sn_function *fn, sn_tensor *x, double number) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *out[1] = {0};
    host_number = number;
    ck_assert_int_eq(sn_call_values(fn, (sn_value[]){sn_val(x), sn_float(number)}, 2, out, 1), SN_OK);
    sn_scope_end(scope);
}

/* In use, not the room of chunks. */
static size_t bytes_of(const sn_function *fn) { return fn->arena->total - (size_t)(fn->arena->end - fn->arena->at); }

static const struct {
    sn_body body;
    sn_compile_mode mode;
} numbers[] = {
    {scaled_by_host, SN_COMPILE_VERIFY}, {scaled_by_input, SN_COMPILE_VERIFY}, {scaled_by_input, SN_COMPILE_REPLAY}};

START_TEST(a_number_that_changes_takes_no_memory) {
    sn_function *const fn = sn_compile(numbers[_i].body, NULL, SN_COMPILE_OPTIONS(.mode = numbers[_i].mode));
    sn_tensor *const x = F32(1, 16);
    int call = 0;
    while (call < 200) call_once(fn, x, 1.25 + call++);
    const size_t before = bytes_of(fn);
    while (call < 5000) call_once(fn, x, 1.25 + call++);
    ck_assert_uint_eq(bytes_of(fn), before);
    sn_function_free(fn);
}
END_TEST

/* Functions that come and go ------------------------------------------------------------------ */

static void ignore(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic, (void)line;
}

static sn_status with_a_constant(sn_frame *f) {
    const double *const number = sn_closure(f);
    return sn_out(f, 0, sn_tanh(sn_mul_scalar(sn_in(f, 0), sn_float(*number))));
}

static sn_function *compiled_with(double *number, sn_tensor *x) {
    sn_function *const fn = sn_compile(with_a_constant, number, NULL);
    sn_tensor *const first = SN_CALL(fn, x);
    ck_assert(same_bits(SN_CALL(fn, x), first));
    return fn;
}

START_TEST(freed_functions_give_back_their_code) {
    sn_tensor *const x = F32(1, 16);
    double number = 1.5;
    sn_function *const kept = compiled_with(&number, x);
    if (stats_of(kept).ops_generated) { /* else there is no code generator here */
        const CodeCounts before = code_counts();
        ck_assert_uint_gt(before.bytes, before.unused_bytes);
        const int n = (int)(CODE_MOST_UNUSED / (before.bytes / (size_t)before.modules)) + 20;
        for (int i = 0; i < n; i++) {
            const sn_scope scope = sn_scope_begin();
            double other = 2.25 + i;
            sn_function_free(compiled_with(&other, x));
            sn_scope_end(scope);
        }
        const CodeCounts after = code_counts();
        ck_assert_uint_le(after.unused_bytes, CODE_MOST_UNUSED);
        ck_assert_uint_gt(after.unused_bytes, CODE_MOST_UNUSED / 2); /* equal nests to come find theirs */
        ck_assert_uint_eq(after.bytes - after.unused_bytes, before.bytes - before.unused_bytes);
        ck_assert(same_bits(SN_CALL(kept, x), sn_tanh(sn_mul_scalar(x, sn_float(1.5)))));
    }
    sn_function_free(kept);
    ck_assert_uint_eq(code_counts().bytes, code_counts().unused_bytes);
}
END_TEST

/* A hash that all nests share finds none but the one that is meant: codes as many as nests, each with its bits. */
START_TEST(nests_of_one_hash_have_codes_of_their_own) {
    enum { N = 6 };
    sn_tensor *const x = F32(1, 16);
    sn_function *fns[N];
    double values[N];
    failpoint_set("one_hash");
    for (int i = 0; i < N; i++) {
        values[i] = 1.5 + i / 2; /* two of each */
        fns[i] = compiled_with(&values[i], x);
    }
    for (int i = 0; i < N; i++) {
        const int64_t made = fns[i]->variants.at[0]->info.generated, found = fns[i]->variants.at[0]->info.reused;
        if (stats_of(fns[i]).ops_generated) ck_assert(i % 2 ? !made && found == 1 : made == 1 && !found);
        ck_assert(same_bits(SN_CALL(fns[i], x), sn_tanh(sn_mul_scalar(x, sn_float(values[i])))));
    }
    for (int i = 0; i < N; i++) sn_function_free(fns[(i + 2) % N]);
    failpoint_set(NULL);
    ck_assert_uint_eq(code_counts().bytes, code_counts().unused_bytes);
}
END_TEST

/* The function is freed, its forward and its backward are still the tape's. */
START_TEST(a_tape_keeps_the_code_of_its_nodes) {
    double number = 1.5;
    sn_tensor *const x = LEAF(1, 16), *const plain = LEAF(1, 16);
    sn_tensor *y = NULL;
    for (int i = 0; i < 3; i++) { /* the backward, too, is compiled */
        sn_function *const fn = sn_compile(with_a_constant, &number, NULL);
        for (int k = 0; k < 2; k++) sn_backward(sn_sum(SN_CALL(fn, x)));
        y = SN_CALL(fn, x);
        sn_function_free(fn);
    }
    for (int i = 0; i < 3; i++) {
        double other = 77.25 + i;
        sn_function_free(compiled_with(&other, plain));
    }
    sn_grad_set(x, NULL);
    sn_backward(sn_sum(y));
    sn_backward(sn_sum(sn_tanh(sn_mul_scalar(plain, sn_float(number)))));
    ck_assert(same_bits(sn_grad(x), sn_grad(plain)));
}
END_TEST

static size_t resident_bytes(void) {
    unsigned long pages = 0, resident = 0;
    FILE *const file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu %lu", &pages, &resident) != 2) resident = 0;
    if (file) fclose(file);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* But for eager's programs, which have a bound of their own. */
static size_t other_bytes(void) { return resident_bytes() - eager_counts(state_get()).bytes; }

/* No two are alike: ops by the number's digits, a number of their own, a row, a backward inside. */
static sn_status one_of_many(sn_frame *f) {
    const int number = *(const int *)sn_closure(f);
    sn_tensor *x = sn_in(f, 0);
    for (int digits = number; digits; digits /= 4) {
        switch (digits % 4) {
        case 0:
            x = sn_tanh(x);
            break;
        case 1:
            x = sn_mul_scalar(x, sn_float(1.0 + number));
            break;
        case 2:
            x = sn_relu(sn_add_scalar(x, sn_float(0.5 * number)));
            break;
        default:
            x = sn_mul(x, sn_sigmoid(x));
            break;
        }
    }
    if (number & 2) x = sn_add(x, sn_softmax(x, -1));
    if (number & 4) sn_backward(x = sn_sum(x));
    return sn_out(f, 0, x);
}

/* Two sizes, gradients from outside, its text. */
static void live_and_die(int number) {
    const sn_scope scope = sn_scope_begin();
    sn_function *const fn = sn_compile(
        one_of_many, &number, SN_COMPILE_OPTIONS(.mode = number % 8 == 1 ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY));
    for (int call = 0; call < 3; call++) {
        sn_tensor *const x = sn_requires_grad_(F32(1, 3, 8 + number % 97 + call / 2), number % 8 != 1);
        sn_tensor *const y = SN_CALL(fn, x);
        if (number % 8 == 3) sn_backward(sn_sum(y));
        ck_assert_int_eq(sn_check(), SN_OK);
    }
    ck_assert_ptr_nonnull(sn_explain(fn));
    sn_function_free(fn);
    sn_scope_end(scope);
}

#ifdef SINTER_PLAIN_MALLOC /* sanitizers find leaks themselves, are slow and keep what is freed */
enum { SETTLED = 100, ALL = 200, SLACK = 1 << 30 };
#else
enum { SETTLED = 800, ALL = 1600, SLACK = 2 << 20 };
#endif

/* Without generated code, which the test above counts: that takes ten times as long. */
START_TEST(freed_functions_leave_nothing) {
    keep_no_handles();
    sn_logging_set(ignore, NULL, NULL);
    failpoint_set("codegen");
    int number = 1;
    while (number <= SETTLED) live_and_die(number++);
    const size_t before = other_bytes();
    while (number <= ALL) live_and_die(number++);
    const size_t after = other_bytes();
    ck_assert_msg(after <= before + SLACK, "%zu KiB, then %zu", before >> 10, after >> 10);
    failpoint_set(NULL);
    sn_logging_set(NULL, NULL, NULL);
}
END_TEST

/* All at once --------------------------------------------------------------------------------- */

/* Numbers and layouts never come again, sizes do after 999 others. */
static void call_all(sn_function *fn, sn_tensor *x, sn_tensor *wide, int64_t i) {
    const sn_scope scope = sn_scope_begin();
    ck_assert_ptr_nonnull(sn_neg(sn_as_strided(wide, SN_INTS(2), SN_INTS(1000 + i), 0)));
    const double number = 1.25 + 0x1p-20 * (double)i;
    sn_tensor *const part = sn_narrow(x, 0, 0, 2 + i % 999);
    sn_tensor *const y = sn_clamp(sn_mul_scalar(part, sn_float(number)), sn_float(-number), sn_float(number));
    ck_assert_ptr_nonnull(sn_softmax(y, 0));
    call_once(fn, y, number);
    sn_scope_end(scope);
}

START_TEST(memory_does_not_grow_with_calls) {
    keep_no_handles();
    sn_function *const fns[] = {sn_compile(scaled_by_host, NULL, NULL),
                                sn_compile(scaled_by_input, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY))};
    sn_logging_set(NULL, NULL, "");
    const char *const calls = getenv("SINTER_TEST_CALLS"); /* a long run by hand: 1000000 */
    const int64_t n = calls ? atoll(calls) : 30000;
    sn_tensor *const x = F32(1, 1024), *const wide = sn_zeros(SN_INTS(n + 2000), SN_F32);
    int64_t i = 0;
    for (; i < 20000; i++) call_all(fns[i % 2], x, wide, i);
    const size_t before = resident_bytes(), used = bytes_of(fns[0]) + bytes_of(fns[1]);
    const MetaCounts layouts = meta_counts();
    for (; i < n; i++) call_all(fns[i % 2], x, wide, i);
    ck_assert_uint_eq(bytes_of(fns[0]) + bytes_of(fns[1]), used);
    ck_assert_int_eq(meta_counts().stay, layouts.stay);
    ck_assert_int_le(meta_counts().counted, layouts.counted + LENT_METAS);
    ck_assert_uint_le(eager_counts(state_get()).bytes, EAGER_MOST_BYTES);
    const size_t after = resident_bytes();
    if (calls)
        fprintf(stderr, "resident: %zu KiB after 20,000 calls, %zu after %lld\n", before >> 10, after >> 10,
                (long long)n);
#ifndef SINTER_PLAIN_MALLOC /* sanitizers keep what is freed */
    ck_assert_msg(after <= before + (2 << 20), "%zu KiB, then %zu", before >> 10, after >> 10);
#endif
    for (int k = 0; k < 2; k++) sn_function_free(fns[k]);
}
END_TEST

/* Each size comes again after 3,000 others: what is made of its own, with its second or its 17th call, comes late. */
START_TEST(memory_does_not_grow_with_sizes) {
    keep_no_handles();
    enum { N_SIZES = 3001, EARLY = 20000, CALLS = 17 * N_SIZES + 1000 };
    size_t resident = 0;
    EagerCounts before = {0};
    for (int i = 0; i < CALLS; i++) {
        const sn_scope scope = sn_scope_begin();
        ck_assert_ptr_nonnull(sn_sum(sn_zeros(SN_INTS(2 + i % N_SIZES, 3), SN_F32)));
        sn_scope_end(scope);
        if (i == EARLY) resident = resident_bytes(), before = eager_counts(state_get());
    }
    const EagerCounts after = eager_counts(state_get());
    ck_assert_int_gt(after.built, before.built + N_SIZES / 4); /* of sizes that came often enough */
    ck_assert_uint_le(after.bytes, before.bytes + EAGER_MOST_CAN_GO);
    ck_assert_uint_le(resident_bytes(), resident + SLACK);
}
END_TEST

/* A backward holds what it still needs ---------------------------------------------------------- */

enum { LAYERS = 8, SIDE = 256, MATRIX_BYTES = SIDE * SIDE * 4 };

static sn_status layers(sn_frame *f) {
    sn_tensor *h = sn_in(f, 0);
    for (int i = 1; i <= LAYERS; i++) h = sn_sin(sn_mm(h, sn_in(f, i)));
    return sn_out(f, 0, h);
}

/* Of one call and its backward, beyond what was there. */
static int64_t peak_of_step(sn_function *fn, sn_tensor **in, sn_tensor *grad, bool retain) {
    sn_memory before = {.size = sizeof before}, after = before;
    sn_tensor *out[1] = {0}, *grads[LAYERS];
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(sn_memory_reset_peak(SN_CPU), SN_OK);
    sn_memory_get(SN_CPU, &before);
    ck_assert_int_eq(sn_call(fn, in, LAYERS + 1, out, 1), SN_OK);
    ck_assert_int_eq(sn_gradients((sn_tensors){out, 1}, (sn_tensors){in + 1, LAYERS}, (sn_tensors){&grad, 1},
                                  retain ? SN_RETAIN_GRAPH : 0, grads),
                     SN_OK);
    sn_memory_get(SN_CPU, &after);
    sn_scope_end(scope);
    return after.peak - before.current;
}

/* Each function of sinter/memory.h, of no device and of one whose memory is not ours. */
START_TEST(no_such_device) {
    const sn_device none = (sn_device)-7;
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(none, &memory);
    expect_error(SN_ERR_ARGUMENT, "sn_memory_get: -7 is no device");
    sn_memory_reset_peak(none);
    expect_error(SN_ERR_ARGUMENT, "sn_memory_reset_peak: -7 is no device");
    sn_memory_trim(none);
    expect_error(SN_ERR_ARGUMENT, "sn_memory_trim: -7 is no device");
    sn_memory_summary(none);
    expect_error(SN_ERR_ARGUMENT, "sn_memory_summary: -7 is no device");
    sn_memory_snapshot(none);
    expect_error(SN_ERR_ARGUMENT, "sn_memory_snapshot: -7 is no device");
    sn_memory_trim(SN_META);
    expect_error(SN_ERR_DEVICE, "sn_memory_trim: nothing is known of meta");
}
END_TEST

/* Of a program that was built with a library of before, and of one to come: what both know is given, sizes stay. */
START_TEST(a_struct_is_filled_by_its_size) {
    struct {
        sn_memory memory;
        char more[64];
    } out, before;
    sn_memory known = {.size = sizeof known};
    sn_tensor *const x = sn_zeros(SN_INTS(1000), SN_F32);
    ck_assert_int_eq(sn_memory_get(SN_CPU, &known), SN_OK);
    ck_assert_int_ge(known.current, 4000);
    const size_t sizes[] = {offsetof(sn_memory, peak), offsetof(sn_memory, bytes), sizeof out};
    for (int i = 0; i < 3; i++) {
        const size_t given = sizes[i] < sizeof known ? sizes[i] : sizeof known;
        memset(&before, 0x5a, sizeof before);
        before.memory.size = sizes[i];
        out = before;
        ck_assert_int_eq(sn_memory_get(SN_CPU, &out.memory), SN_OK);
        ck_assert_int_eq((int64_t)out.memory.size, (int64_t)sizes[i]);
        ck_assert_int_eq(out.memory.current, known.current);
        ck_assert_mem_eq((char *)&out + given, (char *)&before + given, sizeof out - given);
    }
    ck_assert_ptr_nonnull(x);
}
END_TEST

START_TEST(a_backward_lets_go_of_what_it_has_read) {
    sn_function *const fn = sn_compile(layers, NULL, NULL);
    sn_tensor *in[LAYERS + 1] = {sn_randn(SN_INTS(SIDE, SIDE), SN_F32)};
    for (int i = 1; i <= LAYERS; i++) in[i] = sn_requires_grad_(sn_randn(SN_INTS(SIDE, SIDE), SN_F32), true);
    sn_tensor *const grad = sn_randn(SN_INTS(SIDE, SIDE), SN_F32);
    for (int i = 0; i < 2; i++) peak_of_step(fn, in, grad, i);
    const int64_t kept = peak_of_step(fn, in, grad, true), last = peak_of_step(fn, in, grad, false);
    /* Two saved matrices a layer, two of the arena, the product's workspace; the gradients of all layers come on top
     * where what is saved stays. */
    ck_assert_int_le(last, (2 * LAYERS + 3) * MATRIX_BYTES);
    ck_assert_int_ge(kept, last + (LAYERS - 1) * MATRIX_BYTES);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("memory");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_number_that_changes_takes_no_memory, 0, sizeof numbers / sizeof *numbers);
    tcase_add_test(tests, freed_functions_give_back_their_code);
    tcase_add_test(tests, freed_functions_leave_nothing);
    tcase_add_test(tests, nests_of_one_hash_have_codes_of_their_own);
    tcase_add_test(tests, a_tape_keeps_the_code_of_its_nodes);
    tcase_add_test(tests, a_backward_lets_go_of_what_it_has_read);
    tcase_add_test(tests, memory_does_not_grow_with_calls);
    tcase_add_test(tests, memory_does_not_grow_with_sizes);
    tcase_add_test(tests, no_such_device);
    tcase_add_test(tests, a_struct_is_filled_by_its_size);
    return suite_run("test_memory", tests);
}
