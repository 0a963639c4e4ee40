/* test_tensor.c: metadata, storage, user memory, values, text [acceptance 1.01
 * to 1.05, 1.08, 1.09, 1.11, 1.19]. */
#include <math.h>
#include <stdlib.h>

#include "frontend/api/dlpack.h"
#include "runtime/base/alloc.h"
#include "runtime/core/tensor.h"
#include "runtime/device/alloc_cpu.h"
#include <sinter/memory.h>

#include "tests/unit/suite.h"

#define SIZES(...) ((sn_ints){(int64_t[]){__VA_ARGS__}, COUNT_OF(((int64_t[]){__VA_ARGS__}))})

START_TEST(equal_metadata_is_one_object) {
    sn_tensor *const a = sn_from_data((float[6]){0}, SIZES(2, 3), SN_F32);
    sn_tensor *const b = sn_from_data((float[6]){1}, SIZES(2, 3), SN_F32);
    ck_assert_ptr_eq(a->base.meta, b->base.meta);
    ck_assert_ptr_ne(a->base.meta, sn_from_data((float[6]){0}, SIZES(3, 2), SN_F32)->base.meta);
    ck_assert_int_eq(sn_strides(a).data[0], 3);
    ck_assert_int_eq(sn_size(a, -1), 3);
    for (int64_t n = 1; n < 3000; n++) ck_assert_ptr_nonnull(meta_intern_contiguous(DT_f32, DEV_cpu, &n, 1));
    ck_assert_ptr_eq(meta_intern_contiguous(DT_f32, DEV_cpu, (int64_t[]){2, 3}, 2), a->base.meta); /* the table grew */
}
END_TEST

START_TEST(views_share_storage_and_version) {
    sn_tensor *const a = sn_from_data((float[6]){0, 1, 2, 3, 4, 5}, SIZES(2, 3), SN_F32);
    const Meta *const column = meta_intern(DT_f32, DEV_cpu, (int64_t[]){2}, (int64_t[]){3}, 1, false);
    sn_tensor *const v = tensor_view(a, column, 1);
    ck_assert_ptr_eq(tensor_data(v), (float *)tensor_data(a) + 1);
    float got[2];
    ck_assert_int_eq(sn_read(v, got, sizeof got), SN_OK);
    ck_assert(got[0] == 1 && got[1] == 4);
    const uint32_t version = tensor_version(a);
    sn_touch(v);
    ck_assert_uint_eq(tensor_version(a), version + 1);
    ck_assert_ptr_null(sn_data(v, SN_F32)); /* not contiguous */
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "contiguous"));
    ck_assert_ptr_null(sn_data(a, SN_I32));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_DTYPE);
}
END_TEST

START_TEST(a_view_outlives_its_base) {
    for (int64_t n = 4; n < 100000; n *= 10) { /* small payloads in the block, large ones outside */
        float *const data = calloc((size_t)n, sizeof *data);
        data[3] = 7;
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const base = sn_from_data(data, SIZES(n), SN_F32);
        sn_tensor *const v = sn_keep(tensor_view(base, meta_intern_contiguous(DT_f32, DEV_cpu, (int64_t[]){1}, 1), 3));
        sn_scope_end(scope);
        for (int i = 0; i < 50; i++) sn_from_data(data, SIZES(n), SN_F32); /* would reuse a freed block */
        ck_assert(sn_item(v) == 7);
        sn_release(v);
        free(data);
    }
}
END_TEST

START_TEST(addresses_follow_strides) {
    srand(11);
    for (int round = 0; round < 200; round++) {
        const int rank = 1 + rand() % 4;
        int64_t sizes[4], strides[4], at[4], offset = rand() % 5, capacity = offset;
        for (int d = 0; d < rank; d++) {
            sizes[d] = 1 + rand() % 4, strides[d] = rand() % 7, at[d] = rand() % sizes[d];
            capacity += (sizes[d] - 1) * strides[d];
        }
        float *const memory = malloc((size_t)(capacity + 1) * sizeof *memory);
        for (int64_t i = 0; i <= capacity; i++) memory[i] = (float)i;
        sn_tensor *const base = sn_from_data(memory, SIZES(capacity + 1), SN_F32);
        sn_tensor *const v = tensor_view(base, meta_intern(DT_f32, DEV_cpu, sizes, strides, rank, false), offset);
        float got[256];
        ck_assert_int_eq(sn_read(v, got, (size_t)sn_numel(v) * 4), SN_OK);
        int64_t logical = 0, physical = offset;
        for (int d = 0; d < rank; d++) logical = logical * sizes[d] + at[d], physical += at[d] * strides[d];
        ck_assert(got[logical] == (float)physical);
        free(memory);
    }
}
END_TEST

static int freed;
static void count_free(void *data, void *context) { freed += data == context; }

START_TEST(user_memory_is_freed_once) {
    static float memory[6] = {1, 2, 3, 4, 5, 6};
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t =
        sn_wrap(SN_BLOB(.data = memory, .bytes = sizeof memory, .sizes = SIZES(2, 2), .strides = SIZES(3, 1),
                        .dtype = SN_F32, .free = count_free, .context = memory));
    ck_assert_ptr_eq(sn_data_raw(t), memory);
    float got[4];
    sn_read(t, got, sizeof got);
    ck_assert(got[2] == 4);
    ck_assert_int_eq(freed, 0);
    sn_scope_end(scope);
    ck_assert_int_eq(freed, 1);
    ck_assert_ptr_null(sn_wrap(SN_BLOB(.data = memory, .bytes = 8, .sizes = SIZES(3), .dtype = SN_F32,
                                       .free = count_free, .context = memory)));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "12 bytes"));
    ck_assert_int_eq(freed, 1); /* a failed wrap takes nothing over */
}
END_TEST

START_TEST(read_only_memory_is_not_handed_out) {
    static const float memory[2] = {1, 2};
    sn_tensor *const t = sn_wrap(SN_BLOB(.data = (void *)(uintptr_t)memory, .bytes = sizeof memory, .sizes = SIZES(2),
                                         .dtype = SN_F32, .read_only = true));
    ck_assert_ptr_nonnull(sn_data(t, SN_F32));
    ck_assert_ptr_null(sn_data_mut(t, SN_F32));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_STATE);
}
END_TEST

START_TEST(items) {
    ck_assert(sn_item(sn_from_data((double[]){0.1}, (sn_ints){NULL, 0}, SN_F64)) == 0.1);
    ck_assert_int_eq(sn_item_int(sn_from_data((int64_t[]){INT64_MAX - 1}, SIZES(1), SN_I64)), INT64_MAX - 1);
    ck_assert(sn_item(sn_from_data((uint16_t[]){0xC248}, SIZES(1), SN_BF16)) == -50.0);
    ck_assert(sn_item(sn_from_data((uint16_t[]){0x0001}, SIZES(1), SN_F16)) == 0x1p-24);
    ck_assert(isnan(sn_item(sn_from_data((float[]){1, 2}, SIZES(2), SN_F32))));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_SHAPE);
    ck_assert_int_eq(sn_item_int(sn_from_data((float[]){1.5f}, SIZES(1), SN_F32)), 0);
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_VALUE);
}
END_TEST

START_TEST(bad_sizes_are_errors) {
    ck_assert_ptr_null(sn_from_data(NULL, SIZES(-1), SN_F32));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_SHAPE);
    ck_assert_ptr_null(sn_from_data(NULL, SIZES(INT64_MAX, 4), SN_F32));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_SHAPE);
    ck_assert_ptr_null(sn_from_data(NULL, SIZES(1), SN_F32));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_ARGUMENT);
}
END_TEST

START_TEST(running_out_of_memory_is_an_error) {
    float *const data = calloc(100000, sizeof *data);
    sn_memory_trim(SN_CPU);
    for (int n = 0; n < 4; n++) {
        mem_fail_after(n);
        sn_tensor *const t = sn_from_data(data, SIZES(77777 + n), SN_F32);
        mem_fail_after(-1);
        ck_assert(t || sn_check() == SN_ERR_MEMORY);
        sn_error_take();
    }
    free(data);
}
END_TEST

START_TEST(the_allocator_reuses_and_trims) {
    sn_memory before = {.size = sizeof before}, after = before;
    sn_memory_trim(SN_CPU);
    sn_memory_get(SN_CPU, &before);
    void *const block = cpu_alloc(5 << 20);
    ck_assert_uint_eq((uintptr_t)block % 64, 0);
    cpu_free(block, 5 << 20);
    sn_memory_get(SN_CPU, &after);
    ck_assert_int_eq(after.current, before.current);
    ck_assert_int_ge(after.peak, before.current + (5 << 20));
#ifndef SINTER_PLAIN_MALLOC
    if (setting_initial(SET_plain_malloc)) return;
    ck_assert_int_ge(after.reserved, before.reserved + (5 << 20));
    ck_assert_ptr_eq(cpu_alloc(5 << 20), block);
    cpu_free(block, 5 << 20);
#endif
    sn_memory_trim(SN_CPU);
    sn_memory_get(SN_CPU, &after);
    ck_assert_int_eq(after.reserved, before.reserved);
}
END_TEST

START_TEST(retention_is_bounded) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_trim(SN_CPU);
    sn_memory_get(SN_CPU, &memory);
    const int64_t base = memory.reserved;
    sn_setting_set("memory_retain_mib", "4");
    void *blocks[8];
    for (int i = 0; i < 8; i++) blocks[i] = cpu_alloc(1 << 20);
    for (int i = 0; i < 8; i++) cpu_free(blocks[i], 1 << 20);
    sn_memory_get(SN_CPU, &memory);
    ck_assert_int_le(memory.reserved, base + (4 << 20));
    sn_setting_set("memory_retain_mib", "1024");
}
END_TEST

START_TEST(dlpack_lends_and_takes_back) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t = sn_keep(sn_from_data((float[]){1, 2, 3, 4}, SIZES(2, 2), SN_F32));
    DLManagedTensorVersioned *const lent = sn_to_dlpack(t);
    ck_assert_int_eq(atomic_load(&t->refs), 2);
    sn_tensor *const back = sn_from_dlpack(lent);
    ck_assert_ptr_eq(sn_data_raw(back), sn_data_raw(t));
    ck_assert(sn_dtype_of(back) == SN_F32 && sn_size(back, 1) == 2);
    sn_scope_end(scope); /* the taker's last handle calls the deleter */
    ck_assert_int_eq(atomic_load(&t->refs), 1);
    DLManagedTensorVersioned strange = {.version = {1, 0}, .dl_tensor = {.device = {4, 0}}};
    ck_assert_ptr_null(sn_from_dlpack(&strange));
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_DEVICE);
    sn_release(t);
}
END_TEST

typedef struct ReprCase {
    DType dtype;
    int rank;
    int64_t sizes[4];
    double values[40];
    double step; /* not 0: values are step * i */
    const char *text;
} ReprCase;
#include "repr_cases.h"

static void put(const ReprCase *c, int64_t i, double value, void *data) {
    if (c->dtype == DT_f64)
        ((double *)data)[i] = value;
    else if (c->dtype == DT_f32)
        ((float *)data)[i] = (float)value;
    else if (c->dtype == DT_f16)
        ((uint16_t *)data)[i] = value == 0.5 ? 0x3800 : 0x4000;
    else if (c->dtype == DT_i64)
        ((int64_t *)data)[i] = (int64_t)value;
    else if (c->dtype == DT_i32)
        ((int32_t *)data)[i] = (int32_t)value;
    else
        ((bool *)data)[i] = value != 0;
}

START_TEST(text_is_pytorchs) {
    const ReprCase *const c = &repr_cases[_i];
    static char data[16384];
    int64_t n = 1;
    for (int d = 0; d < c->rank; d++) n *= c->sizes[d];
    for (int64_t i = 0; i < n; i++) put(c, i, c->step != 0 ? c->step * (double)i : c->values[i], data);
    ck_assert_str_eq(sn_repr(sn_from_data(data, (sn_ints){c->sizes, c->rank}, (sn_dtype)c->dtype)), c->text);
}
END_TEST

int main(void) {
    TCase *const tc = tcase_create("tensor");
    tcase_add_test(tc, equal_metadata_is_one_object);
    tcase_add_test(tc, views_share_storage_and_version);
    tcase_add_test(tc, a_view_outlives_its_base);
    tcase_add_test(tc, addresses_follow_strides);
    tcase_add_test(tc, user_memory_is_freed_once);
    tcase_add_test(tc, read_only_memory_is_not_handed_out);
    tcase_add_test(tc, items);
    tcase_add_test(tc, bad_sizes_are_errors);
    tcase_add_test(tc, running_out_of_memory_is_an_error);
    tcase_add_test(tc, the_allocator_reuses_and_trims);
    tcase_add_test(tc, retention_is_bounded);
    tcase_add_test(tc, dlpack_lends_and_takes_back);
    tcase_add_loop_test(tc, text_is_pytorchs, 0, COUNT_OF(repr_cases));
    return suite_run("tensor", tc);
}
