/* test_corners.c: what single ops do in the corners that the tables of samples don't reach: rows
 * with nothing to attend to, views in place, layouts named by hand. Eagerly and compiled. */
#include "tests/unit/contract.h"

static sn_status attend(sn_frame *f) {
    sn_tensor *const q = sn_in(f, 0), *const mask = sn_in(f, 1);
    return sn_out(f, 0,
                  sn_scaled_dot_product_attention_ex(q, q, q, mask, 0, false,
                                                     (sn_value){.kind = SN_KIND_NONE}, false));
}

static bool all_are(sn_tensor *t, double value) {
    return sn_item(sn_amax(t)) == value && sn_item(sn_amin(t)) == value;
}

/* PyTorch's attention gives 0 there (_safe_softmax), its softmax NaN. */
START_TEST(rows_without_keys_attend_to_nothing) {
    const Twin twin = twin_new(attend, NULL, NULL, NULL);
    const bool keep[4][4] = {{1, 1, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 1}};
    sn_tensor *const mask = sn_from_data(keep, SN_INTS(4, 4), SN_BOOL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const q = LEAF((uint64_t)i, 4, 8);
        TWIN_CALL(twin, q, mask);
        sn_tensor *const y = SN_CALL(twin.fast, q, mask);
        ck_assert(all_are(sn_select(y, 0, 1), 0));
        ck_assert_int_eq(sn_backward(sn_sum(sn_mul(y, y))), SN_OK);
        ck_assert(sn_item(sn_all(sn_isfinite(sn_grad(q)))) == 1);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_tensor *const minus = sn_full(SN_INTS(2, 3), sn_float(-INFINITY), SN_F32);
    ck_assert(sn_item(sn_all(sn_isnan(sn_softmax(minus, 1)))) == 1);
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {rows_without_keys_attend_to_nothing};
    return contract_main("test_corners", tests, (int)(sizeof tests / sizeof *tests));
}
