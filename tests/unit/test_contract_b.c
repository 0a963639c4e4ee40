/* test_contract_b.c: the contract's rules of bits [semantics B1 to B8]; each test's name begins
 * with its rule. Digests of scalar primitives are in test_kernels.c. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include "ir/dtype.h"
#include "tests/unit/contract.h"

static uint32_t bits_at(sn_tensor *t, int64_t i) {
    uint32_t bits[256] = {0};
    sn_read(t, bits, (size_t)sn_numel(t) * 4);
    return bits[i];
}

static sn_tensor *from_bits(const uint32_t *bits, int64_t n) { return sn_from_data(bits, SN_INTS(n), SN_F32); }

static sn_status moves(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const both = sn_cat(SN_TENSORS(x, sn_neg(x), sn_abs(x)), 0);
    return sn_out(f, 0, sn_where(sn_ge_scalar(sn_in(f, 1), sn_float(0)), both, both));
}

START_TEST(b1_moving_ops_keep_payloads_and_zero_signs) {
    static const uint32_t bits[] = {0x7fc01234, 0xffc00001, 0x80000000, 0x00000000, 0x00000001};
    const Twin twin = twin_new(moves, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const y = SN_CALL(i ? twin.fast : twin.eager, from_bits(bits, 5), F32(1, 15));
        for (int k = 0; k < 5; k++) {
            ck_assert_uint_eq(bits_at(y, k), bits[k]);
            ck_assert_uint_eq(bits_at(y, 5 + k), bits[k] ^ 0x80000000);
            ck_assert_uint_eq(bits_at(y, 10 + k), bits[k] & 0x7fffffff);
        }
    }
    twin_free(twin);
}
END_TEST

static sn_status row_sums(sn_frame *f) { return sn_out(f, 0, sn_sum_dim(sn_in(f, 0), SN_INTS(1), false)); }
static sn_status column_sums(sn_frame *f) { return sn_out(f, 0, sn_sum_dim(sn_in(f, 0), SN_INTS(0), false)); }

START_TEST(b2_order_never_depends_on_strides) {
    const Twin rows = twin_new(row_sums, NULL, NULL, NULL), columns = twin_new(column_sums, NULL, NULL, NULL);
    sn_tensor *const x = F32(1, 70, 1500);
    sn_tensor *const turned = sn_t(sn_contiguous(sn_t(x)));
    ck_assert(!sn_is_contiguous(turned));
    for (int i = 0; i < 2; i++) {
        ck_assert(same_bits(TWIN_CALL(rows, x), TWIN_CALL(rows, turned)));
        ck_assert(same_bits(TWIN_CALL(columns, x), TWIN_CALL(columns, turned)));
        sn_tensor *const part = sn_narrow(F32(1, 70, 1507), 1, 3, 1500);
        ck_assert(same_bits(TWIN_CALL(rows, part), SN_CALL(rows.eager, sn_contiguous(part))));
    }
    twin_free(rows);
    twin_free(columns);
}
END_TEST

START_TEST(b2_orders_print_in_the_ir) {
    const Twin rows = twin_new(row_sums, NULL, NULL, NULL);
    TWIN_CALL(rows, F32(1, 7, 9));
    ck_assert_ptr_nonnull(strstr(sn_dump(rows.fast, "capture"), "order=L"));
    twin_free(rows);
}
END_TEST

static sn_status edges(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const i = sn_in(f, 1);
    sn_out(f, 0, sn_to(x, SN_I32));
    sn_out(f, 1, sn_relu(x));
    sn_out(f, 2, sn_neg(i));
    return sn_out(f, 3, sn_mul_scalar(x, sn_float(0.5)));
}

static void check_edges(sn_function *fn) {
    const float values[] = {NAN, 3e10f, -3e10f, -0.0f, 2.75f, 1e-45f, 1e-38f};
    sn_tensor *const in[] = {sn_from_data(values, SN_INTS(7), SN_F32),
                             sn_from_data((int32_t[]){INT32_MIN, 5}, SN_INTS(2), SN_I32)};
    sn_tensor *out[4];
    ck_assert_msg(sn_call(fn, in, 2, out, 4) == SN_OK, "%s", sn_error_take()->message);
    const int32_t ints[] = {0, INT32_MAX, INT32_MIN, 0, 2, 0, 0};
    for (int k = 0; k < 7; k++) ck_assert_int_eq((int32_t)bits_at(out[0], k), ints[k]);
    ck_assert(isnan(((const float *)sn_data(out[1], SN_F32))[0])); /* max returns NaN */
    ck_assert_uint_eq(bits_at(out[1], 3), 0);                      /* -0 below +0 */
    ck_assert_int_eq((int32_t)bits_at(out[2], 0), INT32_MIN);      /* wraps */
    ck_assert_uint_eq(bits_at(out[3], 6), 0x003671f7);             /* a denormal is kept */
}

START_TEST(b3_edges_of_primitives) {
    const Twin twin = twin_new(edges, NULL, NULL, NULL);
    check_edges(twin.eager);
    for (int i = 0; i < 2; i++) check_edges(twin.fast);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

static sn_status narrowed(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 0, sn_to(x, SN_I8));
    sn_out(f, 1, sn_to(x, SN_U8));
    return sn_out(f, 2, sn_to(x, SN_I16));
}

static void check_narrowed(sn_function *fn, sn_tensor *x) {
    static const int8_t i8[] = {-1, 44, 56, 112, -1, 0, 0, -128};
    static const uint8_t u8[] = {255, 44, 56, 112, 255, 0, 0, 128};
    static const int16_t i16[] = {-1, 300, -200, 4464, -1, 0, 0, 128};
    sn_tensor *const in[] = {x}, *out[3];
    ck_assert_msg(sn_call(fn, in, 1, out, 3) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_mem_eq(sn_data(out[0], SN_I8), i8, sizeof i8);
    ck_assert_mem_eq(sn_data(out[1], SN_U8), u8, sizeof u8);
    ck_assert_mem_eq(sn_data(out[2], SN_I16), i16, sizeof i16);
}

/* Through i32, which saturates; its low bits are taken, as PyTorch takes them. */
START_TEST(b3_float_to_narrow_ints_goes_through_i32) {
    const float values[] = {-1.5f, 300, -200, 70000, 3e9f, -3e9f, NAN, 128.75f};
    sn_tensor *const x = sn_from_data(values, SN_INTS(8), SN_F32);
    const Twin twin = twin_new(narrowed, NULL, NULL, NULL);
    for (int type = 0; type < 2; type++) {
        sn_tensor *const in = type ? sn_to(x, SN_F64) : x;
        check_narrowed(twin.eager, in);
        for (int i = 0; i < 2; i++) check_narrowed(twin.fast, in);
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    }
    twin_free(twin);
}
END_TEST

/* What the library makes of a program's doubles itself: the same conversion. */
START_TEST(b3_numbers_become_ints_as_elements_do) {
    static const double values[] = {-1.5,   300,     -200,    70000,        3e9,          -3e9,     NAN,
                                    128.75, 0x1p31,  -0x1p31, 1e30,         -1e30,        INFINITY, -INFINITY,
                                    0x1p63, -0x1p63, -0.0,    2147483647.9, -2147483648.9};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        sn_tensor *const x = sn_from_data(&values[i], SN_INTS(1), SN_F64);
        const int64_t wide = *(const int64_t *)sn_data(sn_to(x, SN_I64), SN_I64);
        const int32_t narrow = *(const int32_t *)sn_data(sn_to(x, SN_I32), SN_I32);
        ck_assert_msg(double_to_i64(values[i]) == wide, "%g: %lld", values[i], (long long)wide);
        ck_assert_msg(double_to_i32(values[i]) == narrow, "%g: %d", values[i], narrow);
        ck_assert_int_eq(double_is_i64(values[i]),
                         values[i] == trunc(values[i]) && fabs(values[i]) <= 0x1p63 && values[i] != 0x1p63);
    }
}
END_TEST

START_TEST(b3_the_control_register_is_checked) {
    const Twin twin = twin_new(edges, NULL, NULL, NULL);
    for (int i = 0; i < 2; i++) check_edges(twin.fast);
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040 | 0x6000); /* flush denormals, round toward zero */
    const unsigned theirs = _mm_getcsr();
    check_edges(twin.eager);
    check_edges(twin.fast);
    ck_assert_uint_eq(_mm_getcsr() & 0xffc0, theirs & 0xffc0); /* and put back */
    _mm_setcsr(before);
    twin_free(twin);
}
END_TEST

static sn_status divides(sn_frame *f) { return sn_out(f, 0, sn_div_mode(sn_in(f, 0), sn_in(f, 1), "trunc")); }

START_TEST(b3_integer_division_by_zero_is_a_value_error) {
    sn_function *const fn = sn_compile(divides, NULL, NULL);
    sn_tensor *const a = sn_from_data((int32_t[]){INT32_MIN, 7}, SN_INTS(2), SN_I32);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const y = SN_CALL(fn, a, sn_from_data((int32_t[]){-1, -2}, SN_INTS(2), SN_I32));
        ck_assert_int_eq((int32_t)bits_at(y, 0), INT32_MIN);
        ck_assert_int_eq((int32_t)bits_at(y, 1), -3);
        ck_assert_ptr_null(SN_CALL(fn, a, sn_from_data((int32_t[]){1, 0}, SN_INTS(2), SN_I32)));
        expect_error(SN_ERR_VALUE, "div");
    }
    sn_function_free(fn);
}
END_TEST

static sn_status halves(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_add(sn_mul(x, x), x));
}

START_TEST(b5_half_values_are_rounded_where_eager_stores_them) {
    const Twin twin = twin_new(halves, NULL, NULL, NULL);
    static const sn_dtype types[] = {SN_BF16, SN_F16};
    for (int i = 0; i < 6; i++) TWIN_CALL(twin, sn_to(F32((uint64_t)i, 100), types[i % 2]));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_tensor *const x = sn_to(F32(9, 100), SN_BF16), *const wide = sn_to(x, SN_F32);
    sn_tensor *const once = sn_to(sn_add(sn_mul(wide, wide), wide), SN_BF16);
    ck_assert(!same_bits(SN_CALL(twin.fast, x), once)); /* one rounding would be other bits */
    twin_free(twin);
}
END_TEST

static sn_status scaled_addends(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    const sn_scalar alpha = sn_float(-3.1234567);
    sn_out(f, 0, sn_add_ex(x, y, alpha));
    sn_out(f, 1, sn_sub_ex(x, y, alpha));
    sn_out(f, 2, sn_rsub_ex(y, x, alpha));
    return sn_out(f, 3, sn_sub_scalar(x, sn_float(0.93290707)));
}

/* add and sub: numbers are of the op's dtype, alpha * other is what mul stores (PyTorch's kernels). */
START_TEST(b5_half_addends_are_stored_first) {
    static const sn_dtype types[] = {SN_BF16, SN_F16, SN_F32};
    sn_function *const fn = sn_compile(scaled_addends, NULL, NULL);
    for (int i = 0; i < 9; i++) {
        const sn_dtype dtype = types[i % 3];
        sn_tensor *const x = sn_to(F32((uint64_t)i, 100), dtype), *const y = sn_to(F32((uint64_t)i + 50, 100), dtype),
                         *outs[4];
        sn_tensor *const alpha = sn_full(SN_INTS(), sn_float(-3.1234567), dtype);
        sn_tensor *const number = sn_full(SN_INTS(), sn_float(0.93290707), dtype);
        sn_tensor *const term = sn_mul(y, alpha), *const other = sn_mul(x, alpha);
        ck_assert_int_eq(sn_call(fn, (sn_tensor *[]){x, y}, 2, outs, 4), SN_OK);
        ck_assert(same_bits(outs[0], sn_add(x, term)));
        ck_assert(same_bits(outs[1], sn_sub(x, term)));
        ck_assert(same_bits(outs[2], sn_sub(x, term)));
        ck_assert(same_bits(outs[3], sn_sub(x, number)));
        ck_assert(same_bits(outs[1], sn_sub_ex(x, y, sn_float(-3.1234567))));
        ck_assert(same_bits(sn_rsub_ex(x, y, sn_float(-3.1234567)), sn_sub(y, other)));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

static sn_status random_ops(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_rand(SN_INTS(1000), SN_F32); /* removed, but its number is taken */
    sn_tensor *const a = sn_rand_like(x);
    sn_tensor *const b = sn_randn_like(x);
    return sn_out(f, 0, sn_add(a, sn_mul(b, x)));
}

START_TEST(b6_a_random_op_takes_one_number) {
    const Twin twin = twin_new(random_ops, NULL, NULL, NULL);
    sn_tensor *const x = F32(1, 30);
    for (int i = 0; i < 4; i++) {
        sn_seed(7 + (uint64_t)(i / 2));
        sn_tensor *const want = SN_CALL(twin.eager, x), *const next = sn_rand(SN_INTS(5), SN_F32);
        sn_seed(7 + (uint64_t)(i / 2));
        sn_tensor *const got = SN_CALL(twin.fast, x);
        ck_assert_msg(same_bits(got, want), "call %d", i);
        ck_assert(same_bits(sn_rand(SN_INTS(5), SN_F32), next)); /* the generator goes on alike */
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1); /* seed and sequence are inputs */
    twin_free(twin);
}
END_TEST

START_TEST(b6_elements_are_logical_and_errors_take_nothing) {
    sn_seed(3);
    sn_tensor *const flat = sn_rand(SN_INTS(12), SN_F32);
    sn_seed(3);
    ck_assert(same_bits(sn_view(sn_rand(SN_INTS(3, 4), SN_F32), SN_INTS(12)), flat));
    sn_seed(3);
    ck_assert_ptr_null(sn_rand(SN_INTS(-1), SN_F32));
    sn_error_take();
    ck_assert(same_bits(sn_rand(SN_INTS(12), SN_F32), flat));
}
END_TEST

static sn_status row_wise(sn_frame *f) {
    sn_tensor *const *const w = sn_closure(f);
    sn_tensor *const h = sn_gelu(sn_linear(sn_in(f, 0), w[0], w[1]));
    return sn_out(f, 0, sn_softmax(sn_layer_norm(h, SN_INTS(37), NULL, NULL), -1));
}

START_TEST(b7_a_row_does_not_depend_on_its_batch) {
    sn_tensor *w[] = {F32(1, 37, 300), F32(2, 37)};
    const Twin twin = twin_new(row_wise, w, w, NULL);
    sn_tensor *const x = F32(3, 130, 300);
    sn_tensor *const all = TWIN_CALL(twin, x);
    static const int64_t counts[] = {1, 2, 5, 6, 7, 64, 97};
    for (int i = 0; i < 7; i++) {
        sn_tensor *const part = sn_contiguous(sn_narrow(x, 0, 11, counts[i]));
        sn_tensor *const want = sn_narrow(all, 0, 11, counts[i]);
        ck_assert_msg(same_bits(TWIN_CALL(twin, part), want), "%lld rows", (long long)counts[i]);
    }
    twin_free(twin);
}
END_TEST

START_TEST(b7_threads_change_nothing) {
    sn_tensor *w[] = {F32(1, 37, 300), F32(2, 37)};
    sn_function *const fn = sn_compile(row_wise, w, NULL);
    sn_tensor *const x = F32(3, 513, 300), *want = NULL;
    static const char *const threads[] = {"1", "2", "3", "7"};
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(sn_setting_set("threads", threads[i / 2]), SN_OK);
        sn_tensor *const y = SN_CALL(fn, x);
        if (want) ck_assert_msg(same_bits(y, want), "%s threads", threads[i / 2]);
        want = y;
    }
    sn_setting_set("threads", "1");
    sn_function_free(fn);
}
END_TEST

/* B8: a small training run, the same on every CPU. */
static uint64_t digest(sn_tensor *t, uint64_t h) {
    float data[256];
    sn_read(t, data, (size_t)sn_numel(t) * sizeof *data);
    const unsigned char *const bytes = (const unsigned char *)data;
    for (size_t i = 0; i < (size_t)sn_numel(t) * sizeof *data; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

static sn_status train(sn_frame *f) {
    sn_tensor *const *const w = sn_closure(f);
    sn_tensor *const h = sn_gelu(sn_linear(sn_in(f, 0), w[0], w[1]));
    sn_tensor *const loss = sn_mean(sn_mul(h, h));
    sn_backward(loss);
    return sn_out(f, 0, loss);
}

static uint64_t trained(const sn_compile_options *options) {
    sn_tensor *w[] = {LEAF(1, 8, 12), LEAF(2, 8)};
    sn_function *const fn = sn_compile(train, w, options);
    for (int step = 0; step < 20; step++) {
        for (int i = 0; i < 2; i++) sn_grad_set(w[i], NULL);
        ck_assert_ptr_nonnull(SN_CALL(fn, F32((uint64_t)step, 16, 12)));
        const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
        for (int i = 0; i < 2; i++) sn_sub_(w[i], sn_mul_scalar(sn_grad(w[i]), sn_float(0.1)));
        sn_grad_mode_set(before);
    }
    sn_function_free(fn);
    return digest(w[1], digest(w[0], 0xcbf29ce484222325u));
}

/* B4: the level is read once from the environment, so each one gets a process. */
static uint64_t trained_at(const char *level) {
    int ends[2];
    uint64_t got = 0;
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        setenv("SINTER_ISA", level, 1);
        got = trained(NULL);
        _exit(write(ends[1], &got, sizeof got) == sizeof got ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ck_assert_int_eq(read(ends[0], &got, sizeof got), sizeof got);
    return got;
}

START_TEST(b4_instruction_sets_give_the_same_bits) {
    const uint64_t want = trained_at("v4");
    ck_assert_uint_eq(trained_at("v3"), want);
    ck_assert_uint_eq(trained_at("v2"), want);
}
END_TEST

START_TEST(b8_a_training_run_has_a_constant_digest) {
    const uint64_t want = 0x36559cebee41d79f;
    const uint64_t eager = trained(SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    ck_assert_msg(eager == want, "eager: 0x%016llx", (unsigned long long)eager);
    ck_assert_uint_eq(trained(NULL), want);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        b1_moving_ops_keep_payloads_and_zero_signs,
        b2_order_never_depends_on_strides,
        b2_orders_print_in_the_ir,
        b3_edges_of_primitives,
        b3_float_to_narrow_ints_goes_through_i32,
        b3_numbers_become_ints_as_elements_do,
        b3_the_control_register_is_checked,
        b3_integer_division_by_zero_is_a_value_error,
        b5_half_values_are_rounded_where_eager_stores_them,
        b5_half_addends_are_stored_first,
        b6_a_random_op_takes_one_number,
        b6_elements_are_logical_and_errors_take_nothing,
        b7_a_row_does_not_depend_on_its_batch,
        b7_threads_change_nothing,
        b4_instruction_sets_give_the_same_bits,
        b8_a_training_run_has_a_constant_digest,
    };
    return contract_main("test_contract_b", tests, (int)(sizeof tests / sizeof *tests));
}
