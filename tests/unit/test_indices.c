/* test_indices.c: positions given by data are checked, eagerly and compiled, where what is read is the same at each,
 * and where nothing is read. */
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

int main(void) {
    const TTest *const tests[] = {an_index_is_checked_where_it_moves_nothing};
    return contract_main("test_indices", tests, (int)(sizeof tests / sizeof *tests));
}
