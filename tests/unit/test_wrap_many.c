/* test_wrap_many.c: many tensors of one block of memory: its parts, when it is given back, errors that leave it
 * alone. */
#include "runtime/core/tensor.h"
#include "tests/unit/contract.h"

enum { FLOATS = 600, BYTES = FLOATS * sizeof(float) };
static int given_back;
static void give_back(void *data, void *context) {
    ck_assert_ptr_eq(context, &given_back);
    given_back++;
    free(data);
}

static sn_blob block_of(float *data) {
    return (sn_blob){.size = sizeof(sn_blob), .data = data, .bytes = BYTES, .free = give_back, .context = &given_back};
}

static float *filled(void) {
    float *const data = malloc(BYTES);
    fill_floats(data, FLOATS, 3);
    return data;
}

START_TEST(parts_are_tensors_of_the_block) {
    float *const data = filled();
    const sn_blob block = block_of(data);
    const sn_part parts[] = {{.offset = 0, .sizes = SN_INTS(2, 3), .dtype = SN_F32},
                             {.offset = 24, .sizes = SN_INTS(3, 2), .strides = SN_INTS(1, 3), .dtype = SN_F32},
                             {.offset = 48, .sizes = SN_INTS(4), .dtype = SN_U8},
                             {.offset = BYTES, .sizes = SN_INTS(0, 7), .dtype = SN_F64}};
    sn_tensor *out[4];
    given_back = 0;
    const sn_scope outer = sn_scope_begin(), scope = sn_scope_begin();
    ck_assert_msg(sn_wrap_many(&block, parts, 4, out) == SN_OK, "%s", sn_error_take()->message);
    ck_assert(same_bits(out[0], sn_from_data(data, SN_INTS(2, 3), SN_F32)));
    ck_assert(same_bits(out[1], sn_t(sn_from_data(data + 6, SN_INTS(2, 3), SN_F32))));
    ck_assert(same_bits(out[2], sn_from_data(data + 12, SN_INTS(4), SN_U8)));
    ck_assert_int_eq(sn_numel(out[3]), 0);
    sn_fill_(out[0], sn_float(5)); /* in place, in the caller's memory, and nowhere else */
    ck_assert(data[0] == 5 && data[5] == 5 && data[6] != 5);
    sn_tensor *const view = sn_scope_return(scope, sn_narrow(out[1], 0, 1, 1));
    ck_assert_int_eq(given_back, 0); /* one view of one part holds the block */
    ck_assert(((const float *)sn_data_raw(view))[0] == data[7]);
    sn_scope_end(outer);
    ck_assert_int_eq(given_back, 1);
}
END_TEST

START_TEST(a_block_without_parts_is_given_back) {
    const sn_blob block = block_of(filled());
    given_back = 0;
    ck_assert_int_eq(sn_wrap_many(&block, NULL, 0, NULL), SN_OK);
    ck_assert_int_eq(given_back, 1);
}
END_TEST

START_TEST(an_error_leaves_the_block_alone) {
    float *const data = filled();
    const sn_blob block = block_of(data);
    const sn_part good = {.offset = 0, .sizes = SN_INTS(2), .dtype = SN_F32};
    const struct {
        sn_part part;
        const char *says;
    } rows[] = {
        {{.offset = BYTES - 4, .sizes = SN_INTS(2), .dtype = SN_F32}, "part 1: sn_wrap: sizes and strides need 8"},
        {{.offset = BYTES + 1, .sizes = SN_INTS(0), .dtype = SN_F32}, "byte 2401 of 2400"},
        {{.offset = 2, .sizes = SN_INTS(2), .dtype = SN_F32}, "not aligned"},
        {{.offset = SIZE_MAX, .sizes = SN_INTS(2), .dtype = SN_F32}, "of 2400"},
        {{.offset = 0, .sizes = SN_INTS(2), .dtype = SN_DTYPE_DEFAULT}, "part 1"},
        {{.offset = 0, .sizes = SN_INTS(-2), .dtype = SN_F32}, "-2"},
        {{.offset = 8, .sizes = SN_INTS(2), .strides = SN_INTS(-1), .dtype = SN_F32}, "stride -1"}};
    given_back = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const sn_part parts[] = {good, rows[i].part};
        sn_tensor *out[2] = {(sn_tensor *)data, (sn_tensor *)data};
        ck_assert_int_ne(sn_wrap_many(&block, parts, 2, out), SN_OK);
        const sn_error *const error = sn_error_take();
        ck_assert_msg(strstr(error->message, rows[i].says) != NULL, "%s", error->message);
        ck_assert(!out[0] && !out[1]);
    }
    ck_assert_int_ne(sn_wrap_many(&block, &good, 1, NULL), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "NULL");
    ck_assert_int_ne(sn_wrap_many(NULL, &good, 1, (sn_tensor *[1]){0}), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "block");
    ck_assert_int_eq(given_back, 0);
    free(data);
}
END_TEST

static sn_status sums(sn_frame *f) { return sn_out(f, 0, sn_add(sn_mul(sn_in(f, 0), sn_in(f, 1)), sn_in(f, 2))); }

START_TEST(parts_go_into_compiled_functions) {
    enum { MANY = 100 };
    float *const data = filled();
    const sn_blob block = block_of(data);
    sn_part parts[MANY];
    for (int i = 0; i < MANY; i++) parts[i] = (sn_part){.offset = 24 * i, .sizes = SN_INTS(6), .dtype = SN_F32};
    const int64_t six = 6;
    for (int i = 0; i < MANY; i++) parts[i].sizes = (sn_ints){&six, 1};
    sn_tensor *out[MANY], *result;
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(sn_wrap_many(&block, parts, MANY, out), SN_OK);
    sn_function *const fn = sn_compile(sums, NULL, NULL);
    for (int i = 0; i + 3 <= MANY; i++) {
        ck_assert_int_eq(sn_call(fn, out + i, 3, &result, 1), SN_OK);
        ck_assert(same_bits(result, sn_add(sn_mul(out[i], out[i + 1]), out[i + 2])));
    }
    ck_assert_int_eq(stats_of(fn).compiles, 1); /* the parts are no views of each other */
    sn_function_free(fn);
    sn_scope_end(scope);
}
END_TEST

/* Tied weights: a write through one has the other's version, and an alias is one for guards and gradients. */
START_TEST(parts_that_share_bytes_share_a_storage) {
    float *const data = filled();
    const sn_blob block = block_of(data);
    const sn_part parts[] = {{.offset = 400, .sizes = SN_INTS(10), .dtype = SN_F32},
                             {.offset = 0, .sizes = SN_INTS(10), .dtype = SN_F32},
                             {.offset = 408, .sizes = SN_INTS(2, 2), .strides = SN_INTS(1, 4), .dtype = SN_F32},
                             {.offset = 400, .sizes = SN_INTS(10), .dtype = SN_F32},
                             {.offset = 401, .sizes = SN_INTS(6), .dtype = SN_U8},
                             {.offset = 436, .sizes = SN_INTS(3), .dtype = SN_F32},
                             {.offset = 432, .sizes = SN_INTS(1), .dtype = SN_F64}};
    sn_tensor *out[7];
    given_back = 0;
    const sn_scope scope = sn_scope_begin();
    ck_assert_msg(sn_wrap_many(&block, parts, 7, out) == SN_OK, "%s", sn_error_take()->message);
    static const int64_t offsets[] = {0, 0, 2, 0, 1, 9, 4};
    for (int i = 0; i < 7; i++) {
        ck_assert((out[i]->storage == out[0]->storage) == (i != 1));
        ck_assert_int_eq(sn_storage_offset(out[i]), offsets[i]);
        ck_assert_ptr_eq(sn_data_raw(out[i]), (char *)data + parts[i].offset);
    }
    const uint32_t before = tensor_version(out[3]), other = tensor_version(out[1]);
    sn_fill_(out[0], sn_float(3));
    ck_assert(tensor_version(out[3]) == before + 1 && tensor_version(out[1]) == other);
    ck_assert(sn_item(sn_select(out[3], 0, 9)) == 3 && sn_item(sn_select(out[5], 0, 0)) == 3);
    sn_scope_end(scope);
    ck_assert_int_eq(given_back, 1);
}
END_TEST

/* The first element lies behind the storage's start, which as_strided counts from. */
START_TEST(a_blob_with_an_offset) {
    float data[12];
    for (int i = 0; i < 12; i++) data[i] = (float)i;
    sn_blob blob = {.size = sizeof blob, .data = data, .bytes = sizeof data, .sizes = SN_INTS(2, 3), .dtype = SN_F32};
    const sn_scope scope = sn_scope_begin();
    blob.offset = 5;
    sn_tensor *const t = sn_wrap(&blob);
    ck_assert_int_eq(sn_storage_offset(t), 5);
    ck_assert_ptr_eq(sn_data_raw(t), data + 5);
    ck_assert(sn_item(sn_as_strided(t, SN_INTS(1), SN_INTS(1), 3)) == 3);
    sn_fill_(t, sn_float(-1));
    ck_assert(data[4] == 4 && data[5] == -1 && data[10] == -1 && data[11] == 11);
    static const int64_t wrong[] = {7, -1, INT64_MAX, INT64_MIN, 13};
    for (int i = 0; i < 5; i++) {
        blob.offset = wrong[i];
        ck_assert_ptr_null(sn_wrap(&blob));
        expect_error(SN_ERR_ARGUMENT, "sn_wrap: sizes and strides need 24 bytes behind");
    }
    blob.size = offsetof(sn_blob, offset); /* an older program's: what is behind is not looked at */
    sn_tensor *const old = sn_wrap(&blob);
    ck_assert(old && sn_storage_offset(old) == 0);
    sn_scope_end(scope);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {parts_are_tensors_of_the_block,         a_block_without_parts_is_given_back,
                                  an_error_leaves_the_block_alone,        parts_go_into_compiled_functions,
                                  parts_that_share_bytes_share_a_storage, a_blob_with_an_offset};
    return contract_main("test_wrap_many", tests, (int)(sizeof tests / sizeof *tests));
}
