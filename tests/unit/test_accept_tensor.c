/* test_accept_tensor.c: rows of the acceptance list about tensors, storage and layout, one test each, named
 * by its number. Row 1.09 has another one in test_eager.c; 1.16 has its own in test_dispatch.c,
 * 1.01 to 1.03 and 1.11 in test_accept_inspect.c. */
#include "tests/unit/contract.h"

static void expect_layout(sn_tensor *t, sn_ints sizes, sn_ints strides, int64_t offset) {
    ck_assert_msg(t != NULL, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_rank(t), sizes.n);
    for (int i = 0; i < sizes.n; i++) {
        ck_assert_int_eq(sn_sizes(t).data[i], sizes.data[i]);
        ck_assert_int_eq(sn_strides(t).data[i], strides.data[i]);
    }
    ck_assert_int_eq(sn_storage_offset(t), offset);
}

static sn_storage storage_of(sn_tensor *t) {
    sn_storage storage = {.size = sizeof storage};
    ck_assert_int_eq(sn_storage_of(t, &storage), SN_OK);
    return storage;
}
static bool share(sn_tensor *a, sn_tensor *b) { return storage_of(a).id == storage_of(b).id; }

static int given_back;
static void give_back(void *data, void *context) {
    (void)data, (void)context;
    given_back++;
}

START_TEST(out_forms_grow_own_storage_only) {
    sn_tensor *const x = F32(1, 2, 3), *const small = sn_empty(SN_INTS(0), SN_F32);
    ck_assert_int_eq(storage_of(small).bytes, 0);
    ck_assert_ptr_eq(sn_add_out(small, x, x), small);
    expect_layout(small, SN_INTS(2, 3), SN_INTS(3, 1), 0);
    ck_assert_int_ge(storage_of(small).bytes, 6 * (int64_t)sizeof(float));
    static float memory[2] = {5, 6};
    sn_tensor *const theirs = sn_wrap(
        SN_BLOB(.data = memory, .bytes = sizeof memory, .dtype = SN_F32, .sizes = SN_INTS(2), .free = give_back));
    ck_assert_str_eq(storage_of(theirs).allocator, "program");
    ck_assert_ptr_null(sn_add_out(theirs, x, x));
    ck_assert_int_ne(sn_error_take()->status, SN_OK);
    ck_assert(memory[0] == 5 && memory[1] == 6);
    ck_assert_int_eq(given_back, 0);
}
END_TEST

/* A layout of up to 4 dims, by chance. Strides are free: 0, odd, overlapping. */
typedef struct Layout {
    int rank;
    int64_t sizes[4], strides[4], offset, capacity; /* room: elements up to the last one */
} Layout;
static int64_t draw(uint64_t *state, int64_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(*state >> 33) % n;
}
static Layout random_layout(uint64_t *state) {
    Layout l = {.rank = 1 + (int)draw(state, 4), .offset = draw(state, 5)};
    l.capacity = l.offset;
    for (int d = 0; d < l.rank; d++) {
        l.sizes[d] = 1 + draw(state, 4), l.strides[d] = draw(state, 7);
        l.capacity += (l.sizes[d] - 1) * l.strides[d];
    }
    return l;
}

/* Element k in row-major order: its handle, dim by dim, and the address that strides give. */
static void expect_element(sn_tensor *v, const Layout *l, int64_t k, const float *memory) {
    int64_t at[4], place = l->offset;
    for (int d = l->rank - 1; d >= 0; k /= l->sizes[d], d--) {
        at[d] = k % l->sizes[d];
        place += at[d] * l->strides[d];
    }
    for (int d = 0; d < l->rank; d++) v = sn_select(v, 0, at[d]);
    ck_assert_ptr_eq(sn_data_raw(v), memory + place);
    ck_assert_int_eq(sn_storage_offset(v), place);
    ck_assert(sn_item(v) == (double)memory[place]);
}

START_TEST(a1_05_an_elements_address_follows_from_offset_and_strides) {
    uint64_t state = 11;
    for (int round = 0; round < 200; round++) {
        const sn_scope scope = sn_scope_begin();
        const Layout l = random_layout(&state);
        sn_tensor *const base = F32((uint64_t)round, l.capacity + 1);
        sn_tensor *const v = sn_as_strided(base, (sn_ints){l.sizes, l.rank}, (sn_ints){l.strides, l.rank}, l.offset);
        ck_assert_msg(v != NULL, "%s", sn_error_take()->message);
        const float *const memory = sn_data_raw(base);
        ck_assert_ptr_eq(sn_data_raw(v), memory + l.offset);
        for (int64_t k = 0; k < sn_numel(v); k++) expect_element(v, &l, k, memory);
        sn_scope_end(scope);
    }
}
END_TEST

START_TEST(a1_06_views_have_the_listed_layouts) {
    sn_tensor *const x = F32(1, 2, 3, 4);
    expect_layout(x, SN_INTS(2, 3, 4), SN_INTS(12, 4, 1), 0);
    sn_tensor *const views[] = {sn_transpose(x, 0, 2), sn_narrow(x, 1, 1, 2), sn_unsqueeze(x, 0), sn_unsqueeze(x, 3)};
    expect_layout(views[0], SN_INTS(4, 3, 2), SN_INTS(1, 4, 12), 0);
    expect_layout(views[1], SN_INTS(2, 2, 4), SN_INTS(12, 4, 1), 4);
    expect_layout(views[2], SN_INTS(1, 2, 3, 4), SN_INTS(24, 12, 4, 1), 0);
    expect_layout(views[3], SN_INTS(2, 3, 4, 1), SN_INTS(12, 4, 1, 1), 0);
    for (int i = 0; i < 4; i++) ck_assert(share(views[i], x));
}
END_TEST

START_TEST(a1_07_view_refuses_what_reshape_copies) {
    sn_tensor *const x = F32(1, 2, 3), *const v = sn_transpose(x, 0, 1);
    ck_assert_ptr_null(sn_view(v, SN_INTS(6)));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_SHAPE);
    ck_assert_msg(strstr(error->message, "contiguous") != NULL, "%s", error->message);
    sn_tensor *const copy = sn_reshape(v, SN_INTS(6));
    ck_assert(!share(copy, x));
    ck_assert(same_bits(copy, sn_view(sn_contiguous(v), SN_INTS(6))));
    ck_assert(share(sn_reshape(x, SN_INTS(6)), x));
}
END_TEST

START_TEST(a1_08_contiguous_copies_only_what_is_not) {
    sn_tensor *const x = F32(1, 2, 3);
    ck_assert_ptr_eq(sn_data(sn_contiguous(x), SN_F32), sn_data(x, SN_F32));
    sn_tensor *const v = sn_transpose(x, 0, 1), *const copy = sn_contiguous(v);
    ck_assert_ptr_ne(sn_data(copy, SN_F32), sn_data(x, SN_F32));
    ck_assert(sn_is_contiguous(copy) && same_bits(copy, v));
}
END_TEST

START_TEST(a1_09_plus_is_new_memory_and_plus_in_place_is_not) {
    sn_tensor *const x = F32(1, 4), *const view = sn_slice(x, 0, 1, 3, 1), *const y = F32(2, 4);
    const void *const at = sn_data(x, SN_F32);
    sn_tensor *const sum = sn_add(x, y);
    ck_assert_ptr_ne(sn_data(sum, SN_F32), at);
    ck_assert_ptr_eq(sn_add_(x, y), x);
    ck_assert_ptr_eq(sn_data(x, SN_F32), at);
    ck_assert(same_bits(x, sum));
    ck_assert(same_bits(view, sn_slice(sum, 0, 1, 3, 1)));
}
END_TEST

START_TEST(a1_10_to_the_same_place_is_the_same_tensor) {
    sn_tensor *const x = F32(1, 4);
    sn_tensor *const same = sn_to(x, SN_F32);
    ck_assert(share(same, x));
    ck_assert_ptr_eq(sn_data(same, SN_F32), sn_data(x, SN_F32));
    sn_tensor *const wide = sn_to(x, SN_F64);
    ck_assert(!share(wide, x));
    ck_assert(same_bits(sn_to(wide, SN_F32), x));
}
END_TEST

/* Pointwise and reduction kernels take contiguous blocks, the copy walks strides, sn_read goes element by
 * element: all see the same numbers. */
START_TEST(a1_17_access_patterns_agree) {
    sn_tensor *const x = F32(1, 37, 53), *const v = sn_slice(sn_transpose(x, 0, 1), 0, 3, 50, 1);
    sn_tensor *const copy = sn_contiguous(v);
    ck_assert(!sn_is_contiguous(v) && same_bits(copy, v));
    ck_assert(same_bits(sn_exp(copy), sn_exp(v)));
    ck_assert(same_bits(sn_add(copy, v), sn_add(v, copy)));
    ck_assert(same_bits(sn_sum(copy), sn_sum(v)));
    ck_assert(same_bits(sn_mm(sn_t(copy), copy), sn_mm(sn_t(v), v)));
    const float *const at = (const float *)sn_data_raw(v), *const flat = sn_data(copy, SN_F32);
    for (int64_t i = 0; i < sn_size(v, 0); i++)
        for (int64_t k = 0; k < sn_size(v, 1); k++)
            ck_assert(at[i * sn_strides(v).data[0] + k * sn_strides(v).data[1]] == flat[i * sn_size(v, 1) + k]);
}
END_TEST

START_TEST(a1_19_stride_sleuthing) {
    sn_tensor *const v = sn_permute(F32(1, 3, 4, 5), SN_INTS(2, 0, 1));
    expect_layout(v, SN_INTS(5, 3, 4), SN_INTS(1, 20, 5), 0);
    ck_assert(!sn_is_contiguous(v));
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        out_forms_grow_own_storage_only,
        a1_05_an_elements_address_follows_from_offset_and_strides,
        a1_06_views_have_the_listed_layouts,
        a1_07_view_refuses_what_reshape_copies,
        a1_08_contiguous_copies_only_what_is_not,
        a1_09_plus_is_new_memory_and_plus_in_place_is_not,
        a1_10_to_the_same_place_is_the_same_tensor,
        a1_17_access_patterns_agree,
        a1_19_stride_sleuthing,
    };
    return contract_main("test_accept_tensor", tests, (int)(sizeof tests / sizeof *tests));
}
