/* test_forms.c: forms of rows that the generic tests of forms cannot judge by the functional row alone: out forms of
 * creation, whose tensor decides dtype and device; in-place forms of views, which change a handle. Eagerly and
 * compiled. */
#include "tests/unit/contract.h"

static int64_t version_of(sn_tensor *t) {
    sn_storage storage = {.size = sizeof storage};
    ck_assert_int_eq(sn_storage_of(t, &storage), SN_OK);
    return storage.version;
}

/* The forms that write into tensors of several dtypes and sizes. */
static sn_status create_into(sn_frame *f) {
    sn_tensor *const whole = sn_in(f, 0), *const wide = sn_in(f, 1), *const half = sn_in(f, 2);
    sn_out(f, 0, sn_full_out(whole, SN_INTS(2, 3), sn_float(1.75)));
    sn_out(f, 1, sn_arange_step_out(wide, sn_int(0), sn_float(1.5), sn_float(0.25)));
    return sn_out(f, 2, sn_ones_like_out(half, whole));
}

static void check_created(sn_function *fn) {
    sn_tensor *const whole = sn_zeros(SN_INTS(2, 3), SN_I64), *const wide = sn_zeros(SN_INTS(6), SN_F64),
                     *const half = sn_zeros(SN_INTS(2, 3), SN_BF16);
    sn_tensor *in[] = {whole, wide, half}, *out[3];
    ck_assert_int_eq(sn_call(fn, in, 3, out, 3), SN_OK);
    for (int i = 0; i < 3; i++) ck_assert_ptr_eq(out[i], in[i]);
    ck_assert(same_bits(whole, sn_full(SN_INTS(2, 3), sn_int(1), SN_I64)));
    const double steps[] = {0, 0.25, 0.5, 0.75, 1, 1.25};
    ck_assert(same_bits(wide, sn_from_data(steps, SN_INTS(6), SN_F64)));
    ck_assert(same_bits(half, sn_ones(SN_INTS(2, 3), SN_BF16)));
}

START_TEST(creation_takes_the_dtype_of_what_it_writes) {
    const Twin twin = twin_new(create_into, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        check_created(twin.eager);
        check_created(twin.fast);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* As PyTorch: row-major, though like's own result would be transposed as self is. */
START_TEST(what_like_resizes_is_contiguous) {
    sn_tensor *const out = sn_empty(SN_INTS(0), SN_F32);
    ck_assert_ptr_eq(sn_zeros_like_out(out, sn_t(F32(1, 2, 3))), out);
    ck_assert_int_eq(sn_size(out, 0), 3);
    ck_assert_int_eq(sn_strides(out).data[0], 2);
}
END_TEST

/* Without the options, which stand before memory_format in the functional schema. */
START_TEST(boxed_calls_follow_the_schema_of_the_form) {
    sn_tensor *const out = sn_empty(SN_INTS(1, 2, 2, 2), SN_F64);
    const sn_value channels_last = sn_int(2);
    const sn_value in[] = {
        {.kind = SN_KIND_INTS, .n = 4, .ints = (const int64_t[]){1, 2, 2, 2}}, channels_last, sn_val(out)};
    ck_assert_ptr_eq(sn_op_call1(sn_op_find("aten::empty.out"), in, 3), out);
    const sn_value more[] = {in[0], sn_int(SN_F64), sn_int(0), sn_int(0), sn_bool(false), sn_val(out)};
    ck_assert_ptr_null(sn_op_call1(sn_op_find("aten::empty.out"), more, 6));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "aten::empty.out: 2 arguments at most"));
}
END_TEST

/* The sums of halves before they are rounded. */
START_TEST(products_may_keep_what_halves_would_round) {
    sn_tensor *const a = sn_to(F32(1, 4, 9), SN_BF16), *const b = sn_to(F32(2, 9, 5), SN_BF16);
    sn_tensor *const wide = sn_mm_dtype(a, b, SN_F32);
    ck_assert(same_bits(wide, sn_mm(sn_to(a, SN_F32), sn_to(b, SN_F32))));
    ck_assert(same_bits(sn_to(wide, SN_BF16), sn_mm(a, b)));
}
END_TEST

/* Numbers that stand for lists in the schema (stride=1) are defaults of the short functions, too. */
START_TEST(defaults_of_lists_are_numbers) {
    sn_tensor *const x = F32(1, 2, 3, 5, 6), *const w = F32(2, 4, 3, 2, 2), *const bias = F32(3, 4);
    const sn_ints one = SN_INTS(1, 1), none = SN_INTS(0, 0), two = SN_INTS(2, 2);
    ck_assert(same_bits(sn_conv2d(x, w, bias), sn_conv2d_ex(x, w, bias, one, none, one, 1)));
    ck_assert(same_bits(sn_max_pool2d(x, two, two, none), sn_max_pool2d_ex(x, two, two, none, one, false)));
}
END_TEST

static sn_tensor *scatter_reduce(sn_tensor *self, sn_tensor *index, sn_tensor *src, const char *how) {
    const sn_value in[] = {
        sn_val(self), sn_int(0), sn_val(index), sn_val(src), {.kind = SN_KIND_STRING, .string = how}};
    return sn_op_call1(sn_op_find("aten::scatter.reduce"), in, 5);
}

static sn_status multiply_in(sn_frame *f) {
    return sn_out(f, 0, scatter_reduce(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2), "multiply"));
}

/* Linear in self; in src it has no derivative, as in PyTorch, and says so. */
START_TEST(scattered_products_and_their_gradients) {
    const Twin twin = twin_new(multiply_in, NULL, NULL, NULL);
    sn_tensor *const index = sn_from_data((const int64_t[]){0, 2, 0}, SN_INTS(3), SN_I64);
    sn_tensor *const src = sn_from_data((const float[]){2, 3, 5}, SN_INTS(3), SN_F32);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = sn_requires_grad_(sn_ones(SN_INTS(3), SN_F32), true);
        sn_tensor *const y = SN_CALL(twin.fast, x, index, src);
        ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
        ck_assert(same_bits(sn_grad(x), sn_from_data((const float[]){10, 1, 3}, SN_INTS(3), SN_F32)));
        sn_tensor *const s = sn_requires_grad_(sn_clone(src), true);
        ck_assert_int_ne(sn_backward(sn_sum(SN_CALL(twin.fast, x, index, s))), SN_OK);
        ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "derivative of scatter.reduce"));
    }
    twin_free(twin);
}
END_TEST

/* in-place forms of views: the handle changes ------------------------------------------------- */

static sn_status mutate_result(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const h = sn_mul_scalar(x, sn_float(2));
    sn_tensor *const row = sn_select(h, 0, 1);
    if (sn_t_(h) != h) return sn_check();
    sn_unsqueeze_(h, 0);
    sn_add_(row, sn_select(sn_select(h, 0, 0), 1, 0)); /* through the older view */
    sn_tensor *const w = sn_add(h, h);
    sn_transpose_(w, 0, 2);
    sn_squeeze_(w);
    sn_out(f, 1, w);
    sn_out(f, 2, row);
    return sn_out(f, 0, h);
}

START_TEST(a_result_changes_its_layout_compiled) {
    const Twin twin = twin_new(mutate_result, NULL, NULL, SN_COMPILE_OPTIONS(.full_graph = true));
    for (int i = 0; i < 3; i++) {
        sn_tensor *in[] = {F32((uint64_t)i, 2, 3)}, *want[3], *got[3];
        ck_assert_int_eq(sn_call(twin.eager, in, 1, want, 3), SN_OK);
        ck_assert_int_eq(sn_call(twin.fast, in, 1, got, 3), SN_OK);
        for (int k = 0; k < 3; k++) ck_assert(same_bits(got[k], want[k]));
        ck_assert_int_eq(sn_rank(got[0]), 3);
        ck_assert_int_eq(sn_strides(got[0]).data[1], 1);
        sn_zero_(got[0]);
        ck_assert(same_bits(got[2], sn_zeros(SN_INTS(3), SN_F32))); /* it still shares memory */
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

static sn_status mutate_input(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_exp(x);
    sn_t_(x);
    return sn_out(f, 0, sn_mm(x, y));
}

/* An older tensor breaks the graph: what was made of it before keeps its sizes, the caller's handle has the new
 * ones. */
START_TEST(an_input_changes_its_layout_after_a_break) {
    const Twin twin = twin_new(mutate_input, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const a = F32((uint64_t)i, 2, 3), *const b = F32((uint64_t)i, 2, 3);
        ck_assert(same_bits(SN_CALL(twin.eager, a), SN_CALL(twin.fast, b)));
        ck_assert(same_bits(a, b) && sn_size(b, 0) == 3 && version_of(b) == 1);
    }
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "the layout of an older tensor changes in place"));
    twin_free(twin);
}
END_TEST

static sn_status mutate_tracked(sn_frame *f) {
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(2));
    sn_tensor *const row = sn_select(h, 0, 0);
    sn_t_(h);
    sn_mul_(row, sn_in(f, 1)); /* a view of what h was; h sees it */
    return sn_out(f, 0, sn_mul(h, sn_in(f, 2)));
}

/* Gradients are those of the functional program [G5]; the figures are PyTorch's. */
START_TEST(gradients_go_through_a_changed_layout) {
    const Twin twin = twin_new(mutate_tracked, NULL, NULL, NULL);
    const float weights[] = {0, 1, 2, 3, 4, 5}, expected[] = {0, 12, 24, 2, 6, 10};
    sn_tensor *const three = sn_full(SN_INTS(), sn_float(3), SN_F32);
    sn_tensor *const w = sn_from_data(weights, SN_INTS(3, 2), SN_F32);
    sn_function *const both[] = {twin.eager, twin.fast, twin.fast, twin.fast};
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = LEAF(1, 2, 3);
        ck_assert_int_eq(sn_backward(sn_sum(SN_CALL(both[i], x, three, w))), SN_OK);
        ck_assert(same_bits(sn_grad(x), sn_from_data(expected, SN_INTS(2, 3), SN_F32)));
    }
    twin_free(twin);
}
END_TEST

START_TEST(leaves_and_saved_values_are_protected) {
    sn_tensor *const leaf = LEAF(1, 2, 3), *const part = sn_select(leaf, 0, 0);
    ck_assert_ptr_null(sn_t_(leaf));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "a leaf that requires gradients"));
    ck_assert_ptr_null(sn_unsqueeze_(part, 0));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "a view of a leaf"));
    const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
    ck_assert_ptr_eq(sn_t_(leaf), leaf);
    sn_grad_mode_set(mode);
    ck_assert(sn_requires_grad(leaf) && sn_size(leaf, 0) == 3);
    sn_tensor *const h = sn_exp(leaf), *const loss = sn_sum(h);
    sn_t_(h); /* exp saved its result */
    ck_assert_int_ne(sn_backward(loss), SN_OK);
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "writes in place"));
    ck_assert_ptr_null(sn_unsqueeze_(sn_exp(leaf), 5));
    ck_assert_str_eq(sn_error_take()->op, "aten::unsqueeze");
}
END_TEST

/* The history that was is still that of what was saved. */
START_TEST(detach_in_place_keeps_older_histories) {
    sn_tensor *const x = LEAF(1, 4), *const h = sn_mul(x, x), *const y = sn_sum(sn_mul(h, h));
    ck_assert_ptr_eq(sn_detach_(h), h);
    ck_assert(!sn_requires_grad(h) && version_of(h) == 0);
    sn_tensor *grad[1], *again[1], *roots[] = {y}, *leaves[] = {x};
    const sn_tensors of = {leaves, 1};
    ck_assert_int_eq(sn_gradients((sn_tensors){roots, 1}, of, (sn_tensors){0}, SN_CREATE_GRAPH, grad), SN_OK);
    roots[0] = sn_sum(grad[0]);
    ck_assert_int_eq(sn_gradients((sn_tensors){roots, 1}, of, (sn_tensors){0}, 0, again), SN_OK);
    sn_tensor *const want = sn_mul_scalar(sn_mul(sn_detach(x), sn_detach(x)), sn_float(12));
    ck_assert(sn_item(sn_amax(sn_abs(sn_sub(again[0], want)))) < 1e-4);
    sn_detach_(x);
    ck_assert(!sn_requires_grad(x));
}
END_TEST

/* other forms of views ------------------------------------------------------------------------- */

static sn_status read_bits(sn_frame *f) {
    sn_tensor *const x = sn_mul_scalar(sn_in(f, 0), sn_float(2));
    sn_tensor *const bits = sn_view_dtype(x, SN_I32);
    sn_bitwise_and_scalar_(bits, sn_int(0x7fffffff)); /* the absolute value */
    sn_out(f, 1, sn_view_dtype(bits, SN_U8));
    return sn_out(f, 0, sn_add_scalar(x, sn_float(1)));
}

START_TEST(memory_is_read_as_another_dtype) {
    const Twin twin = twin_new(read_bits, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *in[] = {F32((uint64_t)i, 3, 2)}, *want[2], *got[2];
        ck_assert_int_eq(sn_call(twin.eager, in, 1, want, 2), SN_OK);
        ck_assert_int_eq(sn_call(twin.fast, in, 1, got, 2), SN_OK);
        ck_assert(same_bits(got[0], want[0]) && same_bits(got[1], want[1]));
        sn_tensor *const twice = sn_abs(sn_mul_scalar(in[0], sn_float(2)));
        ck_assert(same_bits(got[0], sn_add_scalar(twice, sn_float(1))));
        ck_assert_int_eq(sn_size(got[1], 1), 8);
    }
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "a view in another dtype"));
    sn_tensor *const x = LEAF(1, 2, 4), *const bits = sn_view_dtype(x, SN_I32);
    ck_assert(!sn_requires_grad(bits) && version_of(bits) == 0);
    sn_tensor *const odd = sn_slice(sn_reshape(F32(1, 9), SN_INTS(9)), 0, 1, 9, 1);
    ck_assert_ptr_null(sn_view_dtype(odd, SN_F64));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "storage offset 1"));
    twin_free(twin);
}
END_TEST

/* As PyTorch: the last dim grows or shrinks, the other strides with it. */
START_TEST(elements_of_another_size) {
    sn_tensor *const x = sn_narrow(F32(1, 3, 8), 1, 2, 4), *const wide = sn_view_dtype(x, SN_F64),
                     *const narrow = sn_view_dtype(x, SN_I16);
    ck_assert(sn_size(wide, 1) == 2 && sn_strides(wide).data[0] == 4);
    ck_assert(sn_size(narrow, 1) == 8 && sn_strides(narrow).data[0] == 16);
    ck_assert_ptr_eq(sn_data_raw(wide), sn_data_raw(x));
    ck_assert_ptr_eq(sn_data_raw(narrow), sn_data_raw(x));
    ck_assert(same_bits(sn_view_dtype(sn_contiguous(wide), SN_F32), sn_contiguous(x)));
    ck_assert_int_eq(sn_size(sn_view_dtype(sn_zeros(SN_INTS(0, 4), SN_F32), SN_F64), 1), 2);
    sn_tensor *const refused[] = {sn_t(x), sn_narrow(x, 1, 0, 3), sn_as_strided(x, SN_INTS(2, 2), SN_INTS(3, 1), 0)};
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(sn_view_dtype(refused[i], SN_F64));
        ck_assert_int_eq(sn_error_take()->status, SN_ERR_SHAPE);
    }
}
END_TEST

static sn_status narrow_at(sn_frame *f) {
    sn_tensor *const start = sn_argmax(sn_in(f, 0), SN_NO_INT, false);
    return sn_out(f, 0, sn_mul_scalar(sn_narrow_tensor(sn_in(f, 0), 0, start, 1), sn_float(2)));
}

START_TEST(narrow_reads_where_it_starts) {
    const Twin twin = twin_new(narrow_at, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = F32((uint64_t)i, 9), *const y = SN_CALL(twin.fast, x);
        ck_assert(same_bits(y, SN_CALL(twin.eager, x)));
        ck_assert(sn_item(y) == 2 * sn_item(sn_amax(x)));
    }
    ck_assert_ptr_null(sn_narrow_tensor(F32(1, 3), 0, F32(1, 1), 1));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "start must be a 0-dim tensor of ints"));
    ck_assert_ptr_null(sn_narrow_tensor(F32(1, 3), 0, NULL, 1));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_ARGUMENT);
    twin_free(twin);
}
END_TEST

/* Where values decide the sizes: in a compiled function after a break. */
static sn_status positions(sn_frame *f) {
    sn_tensor *at[2];
    if (sn_where_positions(sn_gt_scalar(sn_in(f, 0), sn_float(0)), at, 2) != 2) return sn_check();
    sn_out(f, 1, at[1]);
    return sn_out(f, 0, sn_sum(at[0]));
}

START_TEST(where_finds_positions) {
    const Twin twin = twin_new(positions, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *in[] = {F32((uint64_t)i, 3, 4)}, *want[2], *got[2];
        ck_assert_int_eq(sn_call(twin.eager, in, 1, want, 2), SN_OK);
        ck_assert_int_eq(sn_call(twin.fast, in, 1, got, 2), SN_OK);
        ck_assert(same_bits(got[0], want[0]) && same_bits(got[1], want[1]));
    }
    sn_tensor *at[2];
    const float values[] = {0, 3, NAN, 0, -0.0f, -1};
    sn_tensor *const x = sn_t(sn_from_data(values, SN_INTS(2, 3), SN_F32));
    ck_assert_int_eq(sn_where_positions(x, at, 2), 2); /* row-major in 3 x 2 */
    ck_assert(same_bits(at[0], sn_from_data((const int64_t[]){1, 2, 2}, SN_INTS(3), SN_I64)));
    ck_assert(same_bits(at[1], sn_from_data((const int64_t[]){0, 0, 1}, SN_INTS(3), SN_I64)));
    ck_assert_int_eq(sn_where_positions(sn_full(SN_INTS(), sn_float(2), SN_F32), at, 2), 1);
    ck_assert_int_eq(sn_size(at[0], 0), 1);
    ck_assert_int_eq(sn_where_positions(sn_zeros(SN_INTS(0, 2), SN_BOOL), at, 2), 2);
    ck_assert_int_eq(sn_size(at[1], 0), 0);
    ck_assert_int_eq(sn_where_positions(sn_to(x, SN_F32), at, 1), -1); /* no room */
    ck_assert_int_ne(sn_error_take()->status, SN_OK);
    twin_free(twin);
}
END_TEST

/* Masks stand for positions: reads and writes at them break, and say why. */
static sn_status at_mask(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const mask = sn_gt_scalar(x, sn_float(0));
    sn_tensor *const row_mask = sn_any_dim(mask, 1, false);
    sn_out(f, 0, sn_sum(sn_index(x, SN_TENSORS(mask))));
    sn_out(f, 1, sn_index(x, SN_TENSORS(row_mask, sn_full(SN_INTS(), sn_int(-1), SN_I64))));
    sn_out(f, 2, sn_index_put(x, SN_TENSORS(mask), sn_full(SN_INTS(), sn_float(7), SN_F32)));
    return sn_out(f, 3, sn_index(x, (sn_tensors){(sn_tensor *const[]){NULL, sn_any_dim(mask, 0, false)}, 2}));
}

START_TEST(masks_index_after_a_break) {
    const Twin twin = twin_new(at_mask, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *in[] = {F32((uint64_t)i, 3, 4)}, *want[4], *got[4];
        ck_assert_int_eq(sn_call(twin.eager, in, 1, want, 4), SN_OK);
        ck_assert_int_eq(sn_call(twin.fast, in, 1, got, 4), SN_OK);
        for (int k = 0; k < 4; k++) ck_assert(same_bits(got[k], want[k]));
    }
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "a value is needed on the host"));
    const float values[] = {1, 2, 3, 4, 5, 6};
    const bool marks[] = {false, true, true, true, false, true};
    sn_tensor *const x = sn_from_data(values, SN_INTS(2, 3), SN_F32);
    sn_tensor *const mask = sn_from_data(marks, SN_INTS(2, 3), SN_BOOL);
    ck_assert(same_bits(sn_index(x, SN_TENSORS(mask)), sn_from_data((const float[]){2, 3, 4, 6}, SN_INTS(4), SN_F32)));
    ck_assert(same_bits(sn_index_put_ex(x, SN_TENSORS(mask), sn_ones(SN_INTS(), SN_F32), true),
                        sn_from_data((const float[]){1, 3, 4, 5, 5, 7}, SN_INTS(2, 3), SN_F32)));
    ck_assert_ptr_null(sn_index(x, SN_TENSORS(sn_select(mask, 1, 0), mask)));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "indices"));
    twin_free(twin);
}
END_TEST

/* In place with all arguments. */
static sn_status scaled_in_place(sn_frame *f) {
    sn_tensor *const x = sn_clone(sn_in(f, 0)), *const y = sn_in(f, 1);
    sn_tensor *const z = sn_add_ex_(x, y, sn_float(0.25));
    if (z != x) return sn_fail(SN_ERR_STATE, "in place returns self");
    sn_sub_ex_(x, sn_exp(y), sn_int(3));
    return sn_out(f, 0, sn_gelu_ex_(x, "tanh"));
}

START_TEST(in_place_forms_take_all_arguments) {
    const Twin twin = twin_new(scaled_in_place, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 7), *const y = F32(i + 9, 7);
        sn_tensor *const want = sn_gelu_ex(sn_sub_ex(sn_add_ex(x, y, sn_float(0.25)), sn_exp(y), sn_int(3)), "tanh");
        ck_assert(same_bits(TWIN_CALL(twin, x, y), want));
    }
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {creation_takes_the_dtype_of_what_it_writes,
                                  what_like_resizes_is_contiguous,
                                  boxed_calls_follow_the_schema_of_the_form,
                                  products_may_keep_what_halves_would_round,
                                  defaults_of_lists_are_numbers,
                                  scattered_products_and_their_gradients,
                                  a_result_changes_its_layout_compiled,
                                  an_input_changes_its_layout_after_a_break,
                                  gradients_go_through_a_changed_layout,
                                  leaves_and_saved_values_are_protected,
                                  detach_in_place_keeps_older_histories,
                                  memory_is_read_as_another_dtype,
                                  narrow_reads_where_it_starts,
                                  elements_of_another_size,
                                  masks_index_after_a_break,
                                  where_finds_positions,
                                  in_place_forms_take_all_arguments};
    return contract_main("test_forms", tests, (int)(sizeof tests / sizeof *tests));
}
