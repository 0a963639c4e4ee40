/* test_indices.c: positions given by data are checked, eagerly and compiled, where what is read is the same at each,
 * and where nothing is read. Rows that data names are read as rows, and lines from their end, to the last element. */
#include "tests/unit/contract.h"

/* Reads of what is the same at every index, of rows without elements, and at an index that is computed. */
static sn_status reads(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const index = sn_in(f, 1);
    sn_tensor *const wide = sn_expand(x, SN_INTS(3)), *const seven = sn_full(SN_INTS(3), sn_float(7), SN_F32);
    sn_tensor *const none = sn_expand(sn_narrow(x, 0, 0, 0), SN_INTS(3, 0));
    switch (*(const int *)sn_closure(f)) {
    case 0:
        return sn_out(f, 0, sn_index_select(wide, 0, index));
    case 1:
        return sn_out(f, 0, sn_gather(sn_exp(wide), 0, index));
    case 2:
        return sn_out(f, 0, sn_embedding(sn_expand(x, SN_INTS(3, 1)), index));
    case 3:
        return sn_out(f, 0, sn_mul(x, sn_index_select(seven, 0, index)));
    case 4:
        return sn_out(f, 0, sn_mul(x, sn_gather(sn_arange(sn_int(3), SN_F32), 0, index)));
    case 5:
        return sn_out(f, 0, sn_index_select(wide, 0, sn_add_scalar(index, sn_int(0))));
    case 6:
        return sn_out(f, 0, sn_nll_loss(sn_expand(sn_exp(x), SN_INTS(1, 3)), index));
    case 7:
        sn_embedding(none, index); /* nobody reads it */
        return sn_out(f, 0, sn_exp(x));
    default:
        return sn_out(f, 0, sn_index_select(none, 0, index));
    }
}
enum { READS = 9 };

static void check_misses(sn_function *fn, int64_t at) {
    ck_assert(!SN_CALL(fn, F32(1, 1), sn_from_data(&at, SN_INTS(1), SN_I64)));
    expect_error(SN_ERR_VALUE, "is out of range for 3");
}

START_TEST(an_index_is_checked_where_it_moves_nothing) {
    for (int which = 0; which < READS; which++) {
        const Twin twin = twin_new(reads, &which, &which, NULL);
        for (int64_t i = 0; i < 4; i++) {
            const int64_t at = i % 3;
            TWIN_CALL(twin, F32(1, 1), sn_from_data(&at, SN_INTS(1), SN_I64));
        }
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        check_misses(twin.eager, 3);
        check_misses(twin.fast, 3);
        check_misses(twin.eager, -1);
        check_misses(twin.fast, -1);
        twin_free(twin);
    }
}
END_TEST

enum { ROWS = 7, TAKEN = 40, LONGEST = 131 };

/* Rows by an index and by the next one, of i32; columns and rows from their end, that of an inner part as well. */
static sn_status taken(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const index = sn_in(f, 1);
    sn_tensor *const next = sn_to(sn_add_scalar(sn_to(index, SN_I32), sn_int(1)), SN_I64);
    sn_out(f, 0, sn_index_select(x, 0, index));
    sn_out(f, 1, sn_neg(sn_index_select(x, 0, next)));
    sn_out(f, 2, sn_flip(x, SN_INTS(1)));
    return sn_out(f, 3, sn_neg(sn_flip(sn_narrow(x, 0, 1, 5), SN_INTS(0, 1))));
}

static void expect_elements(sn_tensor *t, const double *want, int64_t n) {
    static double got[TAKEN * LONGEST];
    ck_assert_int_eq(sn_read(sn_to(t, SN_F64), got, (size_t)n * sizeof *got), SN_OK);
    for (int64_t i = 0; i < n; i++) ck_assert_msg(got[i] == want[i], "element %ld of %ld", (long)i, (long)n);
}

static void expect_taken(sn_tensor *const out[4], const double *x, const int64_t *at, int64_t n) {
    static double want[4][TAKEN * LONGEST];
    for (int64_t k = 0; k < n; k++) {
        for (int r = 0; r < TAKEN; r++)
            want[0][r * n + k] = x[at[r] * n + k], want[1][r * n + k] = -x[(at[r] + 1) * n + k];
        for (int r = 0; r < ROWS; r++) want[2][r * n + k] = x[r * n + n - 1 - k];
        for (int r = 0; r < 5; r++) want[3][r * n + k] = -x[(5 - r) * n + n - 1 - k];
    }
    const int64_t rows[4] = {TAKEN, TAKEN, ROWS, 5};
    for (int i = 0; i < 4; i++) expect_elements(out[i], want[i], rows[i] * n);
}

START_TEST(rows_and_lines_to_their_last_element) {
    static const sn_dtype dtypes[] = {SN_F32, SN_F64, SN_BF16, SN_I64, SN_I8};
    static const int64_t lengths[] = {1, 2, 7, 15, 16, 17, 33, 64, LONGEST};
    static double x[ROWS * LONGEST];
    int64_t at[TAKEN];
    for (int i = 0; i < (int)(sizeof dtypes / sizeof *dtypes * sizeof lengths / sizeof *lengths); i++) {
        const int64_t n = lengths[i / 5];
        const Twin twin = twin_new(taken, NULL, NULL, NULL);
        for (int64_t k = 0; k < ROWS * n; k++) x[k] = (double)(k * 37 % 113 - 50);
        for (int r = 0; r < TAKEN; r++) at[r] = (r * 5 + i) % (ROWS - 1);
        sn_tensor *in[] = {sn_to(sn_from_data(x, SN_INTS(ROWS, n), SN_F64), dtypes[i % 5]),
                           sn_from_data(at, SN_INTS(TAKEN), SN_I64)};
        sn_tensor *out[4];
        for (int call = 0; call < 3; call++) {
            ck_assert_int_eq(sn_call(call ? twin.fast : twin.eager, in, 2, out, 4), SN_OK);
            expect_taken(out, x, at, n);
        }
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        at[TAKEN - 1] = ROWS - 1; /* whose next row there is none of */
        in[1] = sn_from_data(at, SN_INTS(TAKEN), SN_I64);
        ck_assert_int_ne(sn_call(twin.fast, in, 2, out, 4), SN_OK);
        expect_error(SN_ERR_VALUE, "index 7 is out of range for 7");
        twin_free(twin);
    }
}
END_TEST

/* Its result's layout is known without a copy of what it writes. */
START_TEST(index_put_takes_the_memory_of_its_result) {
    keep_no_handles();
    sn_tensor *const x = F32(1, 1024, 256), *const v = F32(2, 2, 256);
    sn_tensor *const at = sn_from_data(((int64_t[]){3, 5}), SN_INTS(2), SN_I64);
    sn_memory before = {.size = sizeof before}, after = before;
    sn_memory_get(SN_CPU, &before);
    sn_memory_reset_peak(SN_CPU);
    ck_assert_ptr_nonnull(sn_index_put(x, SN_TENSORS(at), v));
    sn_memory_get(SN_CPU, &after);
    const int64_t more = after.peak - before.current, once = 1024 * 256 * 4;
    ck_assert_msg(more < once + once / 2, "%ld bytes for a result of %ld", (long)more, (long)once);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {an_index_is_checked_where_it_moves_nothing, rows_and_lines_to_their_last_element,
                                  index_put_takes_the_memory_of_its_result};
    return contract_main("test_indices", tests, (int)(sizeof tests / sizeof *tests));
}
