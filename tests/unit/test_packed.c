/* test_packed.c: recurrent layers over packed sequences: each sequence has the bits that it has alone, in both
 * directions and through several layers, eagerly and compiled; what batch_sizes must say. */
#include <sinter/ops.h>

#include "tests/unit/contract.h"

enum { LONGEST = 5, BATCH = 3, SIZE = 3, STATE = 4, LAYERS = 2, DIRECTIONS = 2, EACH = 4 };
static const int64_t lengths[BATCH] = {5, 3, 1}, left_at[LONGEST] = {3, 2, 2, 1, 1};
enum { ROWS = 9 };

typedef struct Recurrent {
    int gates;
    sn_tensor *data, *h, *c, *params[LAYERS * DIRECTIONS * EACH];
} Recurrent;

static Recurrent recurrent_of(int gates) {
    Recurrent r = {.gates = gates, .data = F32(1, ROWS, SIZE)};
    r.h = F32(2, LAYERS * DIRECTIONS, BATCH, STATE), r.c = F32(3, LAYERS * DIRECTIONS, BATCH, STATE);
    for (int k = 0; k < LAYERS * DIRECTIONS; k++) {
        const int64_t width = k < DIRECTIONS ? SIZE : STATE * DIRECTIONS, rows = gates * STATE;
        r.params[k * EACH] = F32(10 + k, rows, width), r.params[k * EACH + 1] = F32(20 + k, rows, STATE);
        r.params[k * EACH + 2] = F32(30 + k, rows), r.params[k * EACH + 3] = F32(40 + k, rows);
    }
    return r;
}

static sn_tensor *sizes_of(const int64_t *sizes, int64_t n) { return sn_from_data(sizes, SN_INTS(n), SN_I64); }
#define PARAMS(r) ((sn_tensors){(r)->params, LAYERS * DIRECTIONS * EACH})

enum { Y, H, C, RESULTS };

static void packed(const Recurrent *r, sn_tensor *left, sn_tensor **out) {
    out[C] = r->c;
    if (r->gates == 4)
        out[Y] = sn_lstm_data(r->data, left, SN_TENSORS(r->h, r->c), PARAMS(r), true, LAYERS, 0, false, true, &out[H],
                              &out[C]);
    else if (r->gates == 3)
        out[Y] = sn_gru_data(r->data, left, r->h, PARAMS(r), true, LAYERS, 0, false, true, &out[H]);
    else
        out[Y] = sn_rnn_tanh_data(r->data, left, r->h, PARAMS(r), true, LAYERS, 0, false, true, &out[H]);
}

static void alone(const Recurrent *r, sn_tensor *steps, int k, sn_tensor **out) {
    sn_tensor *const h = sn_narrow(r->h, 1, k, 1), *const c = sn_narrow(r->c, 1, k, 1);
    out[C] = c;
    if (r->gates == 4)
        out[Y] = sn_lstm(steps, SN_TENSORS(h, c), PARAMS(r), true, LAYERS, 0, false, true, false, &out[H], &out[C]);
    else if (r->gates == 3)
        out[Y] = sn_gru(steps, h, PARAMS(r), true, LAYERS, 0, false, true, false, &out[H]);
    else
        out[Y] = sn_rnn_tanh(steps, h, PARAMS(r), true, LAYERS, 0, false, true, false, &out[H]);
}

/* One sequence of [steps, 1, size] from data, or of what was made of it. */
static sn_tensor *sequence(sn_tensor *rows, int k) {
    sn_tensor *steps[LONGEST];
    int64_t at = 0;
    for (int t = 0; t < lengths[k]; at += left_at[t++]) steps[t] = sn_narrow(rows, 0, at + k, 1);
    return sn_unsqueeze(sn_cat((sn_tensors){steps, lengths[k]}, 0), 1);
}

static const int gates_of[] = {4, 3, 1};

START_TEST(sequences_have_the_bits_they_have_alone) {
    const Recurrent r = recurrent_of(gates_of[_i]);
    sn_tensor *all[RESULTS], *one[RESULTS];
    packed(&r, sizes_of(left_at, LONGEST), all);
    for (int k = 0; k < BATCH; k++) {
        alone(&r, sequence(r.data, k), k, one);
        ck_assert(same_bits(sequence(all[Y], k), one[Y]));
        ck_assert(same_bits(sn_narrow(all[H], 1, k, 1), one[H]));
        ck_assert(same_bits(sn_narrow(all[C], 1, k, 1), one[C]));
    }
}
END_TEST

/* Steps that a sequence does not have read the first row of data, whose gradient knows nothing of it. */
START_TEST(gradients_stay_in_their_sequence) {
    Recurrent r = recurrent_of(gates_of[_i]);
    sn_tensor *all[RESULTS];
    sn_requires_grad_(r.data, true);
    packed(&r, sizes_of(left_at, LONGEST), all);
    ck_assert_int_eq(sn_backward(sn_sum(sequence(all[Y], 1))), SN_OK);
    sn_tensor *const grad = sn_grad(r.data);
    for (int k = 0; k < BATCH; k++)
        ck_assert_int_eq(sn_item(sn_any(sn_ne(sequence(grad, k), sn_zeros_like(sequence(grad, k))))), k == 1);
}
END_TEST

static sn_status packed_body(sn_frame *f) {
    const Recurrent *const r = sn_closure(f);
    sn_tensor *out[RESULTS];
    Recurrent given = *r;
    given.data = sn_in(f, 0);
    packed(&given, sn_in(f, 1), out);
    for (int k = 0; k < RESULTS; k++) sn_out(f, k, out[k]);
    return sn_check();
}

/* Other lengths of as many steps are other values: one compiled function serves them. */
START_TEST(compiled_has_the_same_bits) {
    Recurrent r = recurrent_of(gates_of[_i]);
    sn_function *const fast = sn_compile(packed_body, &r, NULL);
    static const int64_t others[][LONGEST] = {{3, 2, 2, 1, 1}, {3, 3, 1, 1, 1}, {3, 2, 2, 1, 1}};
    for (int i = 0; i < 3; i++) {
        sn_tensor *const left = sizes_of(others[i], LONGEST), *want[RESULTS], *got[RESULTS];
        packed(&r, left, want);
        ck_assert_int_eq(sn_call(fast, (sn_tensor *[]){r.data, left}, 2, got, RESULTS), SN_OK);
        for (int k = 0; k < RESULTS; k++) ck_assert(same_bits(got[k], want[k]));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_tensor *none[RESULTS];
    static const int64_t wrong[LONGEST] = {3, 2, 2, 1, 0};
    ck_assert_int_ne(sn_call(fast, (sn_tensor *[]){r.data, sizes_of(wrong, LONGEST)}, 2, none, RESULTS), SN_OK);
    expect_error(SN_ERR_VALUE, "batch_sizes must fall");
    sn_function_free(fast);
}
END_TEST

START_TEST(wrong_batch_sizes_are_errors) {
    const Recurrent r = recurrent_of(4);
    static const int64_t wrong[][LONGEST] = {
        {3, 2, 3, 1, 0}, {2, 2, 2, 2, 1}, {3, 2, 2, 2, 1}, {3, 3, 3, 0, 0}, {3, 1, 2, 2, 1}};
    for (int i = 0; i < 5; i++) {
        sn_tensor *out[RESULTS];
        packed(&r, sizes_of(wrong[i], LONGEST), out);
        ck_assert_ptr_null(out[Y]);
        expect_error(SN_ERR_VALUE, "batch_sizes must fall");
    }
    sn_tensor *out[RESULTS];
    packed(&r, sn_to(sizes_of(left_at, LONGEST), SN_I32), out);
    ck_assert_ptr_null(out[Y]);
    expect_error(SN_ERR_DTYPE, "i64[steps] on the CPU");
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("packed");
    tcase_add_loop_test(tests, sequences_have_the_bits_they_have_alone, 0, 3);
    tcase_add_loop_test(tests, gradients_stay_in_their_sequence, 0, 3);
    tcase_add_loop_test(tests, compiled_has_the_same_bits, 0, 3);
    tcase_add_test(tests, wrong_batch_sizes_are_errors);
    return suite_run("packed", tests);
}
