/* test_cuda_inspect.c: what can be seen of tensors, calls and the tape on a GPU
 * (unit/test_accept_inspect.c, test_api_mode.c). */
#include "tests/unit/contract.h"

static sn_storage storage_of(sn_tensor *t) {
    sn_storage s = {.size = sizeof s};
    ck_assert_msg(sn_storage_of(t, &s) == SN_OK, "%s", sn_error_take()->message);
    return s;
}
static sn_tensor *there(sn_tensor *t) { return sn_to_device(t, SN_CUDA(0)); }

static sn_status asks(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0)), *const part = sn_narrow(y, 0, 1, 2);
    const sn_storage s = storage_of(part);
    sn_tensor *const copy = sn_retain(y);
    const int64_t said[] = {s.bytes, s.device, s.resizable, s.id == storage_of(y).id, sn_use_count(y)};
    sn_release(copy);
    return sn_out(f, 0, there(sn_from_data(said, SN_INTS(5), SN_I64)));
}

START_TEST(a1_01_handles_are_counted) {
    sn_tensor *const x = there(F32(1, 4)), *const copy = sn_retain(x);
    ck_assert(sn_use_count(x) == 2 && storage_of(x).bytes == 16 && storage_of(x).id == storage_of(copy).id);
    sn_release(copy);
    ck_assert_int_eq(sn_use_count(x), 1);
    const Twin twin = twin_new(asks, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, there(F32(1, 4)));
    twin_free(twin);
}
END_TEST

START_TEST(a1_02_fields_are_the_devices) {
    sn_tensor *const x = there(F32(1, 2, 5, 6, 3)), *const images = sn_permute(x, SN_INTS(0, 3, 1, 2));
    ck_assert(sn_device_of(images) == SN_CUDA(0) && sn_layout_of(images) == SN_STRIDED);
    ck_assert(sn_is_contiguous_as(images, SN_CHANNELS_LAST) && !sn_is_contiguous(images));
    ck_assert_str_eq(sn_keys(sn_requires_grad_(x, true)), "autograd, cuda");
}
END_TEST

static sn_status grows(sn_frame *f) { return sn_out(f, 0, sn_resize_(sn_mul(sn_in(f, 0), sn_in(f, 0)), SN_INTS(2))); }

static sn_status squares(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 0))); }

START_TEST(a1_03_own_storage_grows) {
    sn_tensor *const x = there(F32(1, 4));
    ck_assert(storage_of(x).resizable && storage_of(x).device == SN_CUDA(0));
    ck_assert_ptr_eq(sn_resize_(x, SN_INTS(100)), x);
    ck_assert_int_ge(storage_of(x).bytes, 400);
    const Twin twin = twin_new(grows, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, there(F32((uint64_t)i, 4)));
    twin_free(twin);
}
END_TEST

/* One does not send to the other: there is nothing to measure, and both say so. */
START_TEST(what_has_one_shape_is_not_tuned) {
    const Twin twin = twin_new(squares, NULL, NULL, SN_COMPILE_OPTIONS(.preset = SN_PRESET_MAX_AUTOTUNE));
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, there(F32((uint64_t)i, 4)));
    ck_assert_int_eq(sn_tune(twin.fast), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "no loop of it runs on the CPU, and others have one shape");
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "no loop of it runs on the CPU"));
    twin_free(twin);
}
END_TEST

START_TEST(a1_11_a_slice_keeps_the_whole_storage) {
    enum { MIB = 1 << 20 };
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const slice = sn_keep(sn_slice(there(F32(1, MIB / 4)), 0, 7, 8, 1));
    sn_scope_end(scope);
    ck_assert_int_ge(storage_of(slice).bytes, MIB);
    sn_memory before = {.size = sizeof before}, after = before;
    sn_memory_get(SN_CUDA(0), &before);
    sn_tensor *const copy = sn_clone(slice);
    sn_release(slice);
    sn_memory_get(SN_CUDA(0), &after);
    ck_assert_int_le(after.current, before.current - MIB + 4096);
    ck_assert_int_le(storage_of(copy).bytes, 512);
}
END_TEST

static sn_status layer(sn_frame *f) {
    sn_tensor *const *const p = sn_closure(f);
    return sn_out(f, 0, sn_sum(sn_relu(sn_linear(sn_in(f, 0), p[0], p[1]))));
}

START_TEST(a3_03_the_tape_is_walked) {
    sn_tensor *p[] = {sn_requires_grad_(there(F32(1, 3, 4)), true), sn_requires_grad_(there(F32(2, 3)), true)};
    sn_function *const functions[] = {sn_compile(layer, p, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                      sn_compile(layer, p, NULL)};
    for (int i = 0; i < 4; i++) {
        sn_tensor *const loss = SN_CALL(functions[i > 0], there(F32(3, 2, 4)));
        sn_grad_node *const n = sn_grad_fn(loss);
        sn_grad_info info = {.size = sizeof info};
        sn_grad_edge edge = {.size = sizeof edge};
        ck_assert_int_eq(sn_grad_node_get(n, &info), SN_OK);
        ck_assert_str_eq(info.name, "SumBackward");
        ck_assert_int_eq(sn_grad_node_edge(n, 0, &edge), SN_OK);
        ck_assert_int_eq(sn_grad_node_get(edge.node, &info), SN_OK);
        ck_assert_str_eq(info.name, "ReluBackward");
        sn_grad_saved saved = {.size = sizeof saved};
        ck_assert_int_eq(sn_grad_node_saved(edge.node, 0, &saved), SN_OK);
        ck_assert_int_eq(sn_device_of(saved.tensor), SN_CUDA(0));
        sn_grad_node_free(n);
    }
    for (int k = 0; k < 2; k++) sn_function_free(functions[k]);
}
END_TEST

static int linears;
static sn_status counts_linears(sn_frame *f) {
    linears += strstr(sn_op_name(sn_frame_op(f)), "::linear") != NULL;
    return sn_redispatch(f);
}

START_TEST(a2_17_a_linear_is_seen_as_linear) {
    sn_tensor *p[] = {there(F32(1, 3, 4)), there(F32(2, 3))};
    const Twin twin = twin_new(layer, p, p, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 6; i++) {
        linears = 0;
        if (i % 2) sn_api_mode_push(counts_linears, NULL);
        TWIN_CALL(twin, there(F32((uint64_t)i, 2, 4)));
        if (i % 2) sn_api_mode_pop();
        ck_assert_int_eq(linears, i % 2 ? 2 : 0);
    }
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a1_01_handles_are_counted,       a1_02_fields_are_the_devices,
        a1_03_own_storage_grows,         a1_11_a_slice_keeps_the_whole_storage,
        a3_03_the_tape_is_walked,        a2_17_a_linear_is_seen_as_linear,
        what_has_one_shape_is_not_tuned,
    };
    return contract_main("test_cuda_inspect", tests, (int)(sizeof tests / sizeof *tests));
}
