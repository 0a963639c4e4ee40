/* test_host_ops.c: ops that no graph holds: numbers by boxed calls (sym_size and its kind, _local_scalar_dense), and
 * resize_, which changes what a handle stands for. */
#include "tests/unit/contract.h"

static sn_value number_of(const char *op, sn_tensor *t, int64_t dim) {
    const sn_value in[] = {sn_val(t), sn_int(dim)};
    sn_value out = {.kind = SN_KIND_NONE};
    int n = 1;
    const bool has_dim = strstr(op, ".int") != NULL;
    ck_assert_msg(sn_op_call(sn_op_find(op), in, 1 + has_dim, &out, &n) == SN_OK, "%s: %s", op,
                  sn_error_take()->message);
    ck_assert_int_eq(n, 1);
    return out;
}

static sn_tensor *resized(sn_tensor *t, sn_ints sizes) {
    const sn_value in[] = {sn_val(t), {.kind = SN_KIND_INTS, .n = (int)sizes.n, .ints = sizes.data}};
    return sn_op_call1(sn_op_find("aten::resize_"), in, 2);
}

/* numbers ------------------------------------------------------------------------------------- */

START_TEST(numbers_come_from_metadata) {
    sn_tensor *const x = sn_narrow(F32(1, 6, 4), 0, 2, 3), *const turned = sn_t(x);
    ck_assert_int_eq(number_of("aten::sym_size.int", x, -1).i, 4);
    ck_assert_int_eq(number_of("aten::sym_stride.int", turned, 1).i, 4);
    ck_assert_int_eq(number_of("aten::sym_numel", x, 0).i, 12);
    ck_assert_int_eq(number_of("aten::sym_storage_offset", x, 0).i, 8);
    ck_assert_int_eq(number_of("aten::sym_size.int", x, 0).kind, SN_KIND_INT);
    ck_assert(number_of("aten::sym_is_contiguous", x, 0).i && !number_of("aten::sym_is_contiguous", turned, 0).i);
}
END_TEST

START_TEST(values_come_in_their_kind) {
    sn_tensor *const number = sn_full(SN_INTS(1, 1), sn_float(2.5), SN_F32);
    ck_assert(number_of("aten::_local_scalar_dense", number, 0).f == 2.5);
    ck_assert_int_eq(number_of("aten::item", sn_to(number, SN_I32), 0).kind, SN_KIND_INT);
    ck_assert_int_eq(number_of("aten::item", sn_to(number, SN_I32), 0).i, 2);
    ck_assert_int_eq(number_of("aten::item", sn_to(number, SN_BOOL), 0).kind, SN_KIND_BOOL);
}
END_TEST

START_TEST(what_gives_no_number_is_an_error) {
    const sn_value in[] = {sn_val(F32(1, 2, 3)), sn_int(2)};
    sn_value out;
    int n = 1;
    ck_assert_int_ne(sn_op_call(sn_op_find("aten::sym_size.int"), in, 2, &out, &n), SN_OK);
    expect_error(SN_ERR_SHAPE, "dim 2");
    ck_assert_int_ne(sn_op_call(sn_op_find("aten::item"), in, 1, &out, &n), SN_OK);
    expect_error(SN_ERR_SHAPE, "6 elements");
    ck_assert_ptr_null(sn_op_call1(sn_op_find("aten::sym_numel"), in, 1));
    expect_error(SN_ERR_ARGUMENT, "is a number");
    ck_assert_ptr_null(sn_op_override(sn_op_find("aten::sym_numel"), SN_KEY_CPU, NULL, NULL));
    expect_error(SN_ERR_UNSUPPORTED, "gives a number");
}
END_TEST

typedef struct Host {
    int runs;
} Host;

static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};

/* All rows but the first, once for each row: by numbers that stay free. */
static sn_status reshapes(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    ((Host *)sn_closure(f))->runs++;
    const int64_t rows = number_of("aten::sym_size.int", x, 0).i, all = number_of("aten::sym_numel", x, 0).i;
    sn_tensor *const flat = sn_view(sn_exp(x), SN_INTS(all));
    sn_tensor *const rest = sn_slice(flat, 0, number_of("aten::sym_stride.int", x, 0).i, all, 1);
    return sn_out(f, 0, sn_expand(sn_unsqueeze(rest, 0), SN_INTS(rows, -1)));
}

START_TEST(numbers_of_captured_tensors_stay_free) {
    for (int m = 0; m < 2; m++) {
        Host fast = {0}, eager = {0};
        const Twin twin = twin_new(reshapes, &fast, &eager, SN_COMPILE_OPTIONS(.mode = modes[m]));
        for (int i = 0; i < 8; i++) TWIN_CALL(twin, F32(i, 2 + i, 3));
        ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
        if (modes[m] == SN_COMPILE_REPLAY) ck_assert_int_le(fast.runs, 3);
        twin_free(twin);
    }
}
END_TEST

/* Of an argument, a view of it, a result and a view of that. */
static sn_status asks_places(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_exp(x);
    sn_tensor *const asked[] = {x, sn_narrow(x, 0, 1, 2), y, sn_select(y, 0, 2)};
    int64_t places = 0;
    for (int i = 0; i < 4; i++) places = places * 100 + number_of("aten::sym_storage_offset", asked[i], 0).i;
    ((Host *)sn_closure(f))->runs++;
    return sn_out(f, 0, sn_mul_scalar(sn_add(y, asked[3]), sn_int(places)));
}

START_TEST(where_a_pending_tensor_begins_is_known) {
    for (int m = 0; m < 2; m++) {
        Host fast = {0}, eager = {0};
        const Twin twin = twin_new(asks_places, &fast, &eager, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const all = F32(1, 9, 4);
        for (int i = 0; i < 12; i++) TWIN_CALL(twin, sn_narrow(all, 0, i / 2 % 3, 5 - i / 6));
        if (modes[m] == SN_COMPILE_VERIFY) ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
        twin_free(twin);
    }
}
END_TEST

static sn_status asks_order(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_exp(x);
    const bool plain = number_of("aten::sym_is_contiguous", x, 0).i,
               made = number_of("aten::sym_is_contiguous", y, 0).i;
    ((Host *)sn_closure(f))->runs++;
    return sn_out(f, 0, sn_mul_scalar(y, sn_int(plain + 2 * made + 1)));
}

START_TEST(the_order_of_a_pending_tensor_is_known) {
    for (int m = 0; m < 2; m++) {
        Host fast = {0}, eager = {0};
        const Twin twin = twin_new(asks_order, &fast, &eager, SN_COMPILE_OPTIONS(.mode = modes[m]));
        sn_tensor *const x = F32(1, 5, 5);
        for (int i = 0; i < 12; i++) TWIN_CALL(twin, i % 3 == 1 ? sn_t(x) : x);
        ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
        twin_free(twin);
    }
}
END_TEST

static sn_status branches(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_exp(x);
    const bool large = number_of("aten::_local_scalar_dense", sn_sum(x), 0).f > 0;
    return sn_out(f, 0, large ? sn_add(y, x) : sn_mul(y, x));
}

START_TEST(a_value_that_is_read_breaks) {
    const Twin twin = twin_new(branches, NULL, NULL, NULL);
    for (int i = 0; i < 6; i++) TWIN_CALL(twin, F32(i, 3));
    ck_assert_int_eq(stats_of(twin.fast).breaks, 1);
    ck_assert_msg(strstr(sn_explain(twin.fast), "aten::_local_scalar_dense"), "%s", sn_explain(twin.fast));
    twin_free(twin);
}
END_TEST

/* resize_ ------------------------------------------------------------------------------------- */

START_TEST(memory_keeps_what_it_has) {
    sn_tensor *const x = F32(1, 2, 3), *const first = sn_clone(x), *const view = sn_select(x, 0, 0);
    ck_assert_ptr_eq(resized(x, SN_INTS(4, 5)), x);
    ck_assert_int_eq(sn_numel(x), 20);
    ck_assert(same_bits(sn_view(sn_slice(sn_view(x, SN_INTS(20)), 0, 0, 6, 1), SN_INTS(2, 3)), first));
    ck_assert(sn_item(sn_sum(sn_abs(sn_slice(sn_view(x, SN_INTS(20)), 0, 6, 20, 1)))) == 0);
    sn_add_scalar_(sn_mul_scalar_(x, sn_float(0)), sn_float(7)); /* the view is still one */
    ck_assert(sn_item(sn_sum(view)) == 21);
    resized(x, SN_INTS(3));
    ck_assert_int_eq(sn_numel(x), 3);
    sn_tensor *const turned = sn_t(F32(2, 3, 4));
    resized(turned, SN_INTS(4, 3));
    ck_assert_int_eq(sn_strides(turned).data[0], 1); /* its own sizes: nothing changes */
    ck_assert_int_eq(sn_strides(resized(turned, SN_INTS(2, 6))).data[0], 6);
}
END_TEST

START_TEST(a_copy_in_other_sizes) {
    sn_tensor *const x = F32(1, 4);
    const sn_value in[] = {sn_val(x), {.kind = SN_KIND_INTS, .n = 2, .ints = (const int64_t[]){2, 3}}};
    sn_tensor *const y = sn_op_call1(sn_op_find("aten::resize"), in, 2);
    ck_assert_int_eq(sn_numel(x), 4);
    ck_assert_int_eq(sn_size(y, 1), 3);
    ck_assert(same_bits(sn_slice(sn_view(y, SN_INTS(6)), 0, 0, 4, 1), x));
}
END_TEST

START_TEST(what_cannot_be_resized_says_so) {
    sn_tensor *const leaf = LEAF(1, 3);
    ck_assert_ptr_null(resized(leaf, SN_INTS(2)));
    expect_error(SN_ERR_UNSUPPORTED, "requires gradients");
    static float memory[4];
    sn_tensor *const own = sn_wrap(SN_BLOB(.data = memory, .bytes = 16, .sizes = SN_INTS(4), .dtype = SN_F32));
    ck_assert_ptr_eq(resized(own, SN_INTS(2)), own);
    ck_assert_ptr_null(resized(own, SN_INTS(5)));
    expect_error(SN_ERR_UNSUPPORTED, "owns");
}
END_TEST

static sn_status resizes(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const h = sn_exp(x);
    if (!resized(h, SN_INTS(2, 2))) return sn_check();
    return sn_out(f, 0, sn_add(h, h));
}

START_TEST(a_segment_ends_where_memory_is_resized) {
    const Twin twin = twin_new(resizes, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) TWIN_CALL(twin, F32(i, 2, 3));
    ck_assert_msg(strstr(sn_explain(twin.fast), "memory is resized"), "%s", sn_explain(twin.fast));
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {numbers_come_from_metadata,
                                  values_come_in_their_kind,
                                  what_gives_no_number_is_an_error,
                                  numbers_of_captured_tensors_stay_free,
                                  where_a_pending_tensor_begins_is_known,
                                  the_order_of_a_pending_tensor_is_known,
                                  a_value_that_is_read_breaks,
                                  memory_keeps_what_it_has,
                                  a_copy_in_other_sizes,
                                  what_cannot_be_resized_says_so,
                                  a_segment_ends_where_memory_is_resized};
    return contract_main("host_ops", tests, sizeof tests / sizeof *tests);
}
