/* test_devices.c: ops that go from one device to another: the device argument chooses the backend, what a tensor on the
 * Meta device has not is never read, and what is written is on the device of what is read. Each row runs eagerly and
 * inside a compiled function. */
#include "tests/unit/contract.h"

enum { CPU = SN_CPU, META = SN_META, CUDA = SN_CUDA(0) }; /* the numbers of a device argument */

static sn_tensor *on(int64_t device) {
    const sn_value none = {0};
    return sn_zeros_like_ex(F32(1, 2, 3), SN_F32, none, sn_int(device), none, none);
}

static sn_tensor *call(const char *op, const sn_value *in, int n) { return sn_op_call1(sn_op_find(op), in, n); }
#define NONE          ((sn_value){.kind = SN_KIND_NONE})
#define CALL(op, ...) call(op, (sn_value[]){__VA_ARGS__}, sizeof((sn_value[]){__VA_ARGS__}) / sizeof(sn_value))

typedef sn_tensor *Attempt(sn_tensor *x, sn_tensor *m); /* x: f32[2,3], m: the same on the Meta device */
#define TRIAL(name, expression)                                                                                        \
    static sn_tensor *name(sn_tensor *x, sn_tensor *m) {                                                               \
        (void)x, (void)m;                                                                                              \
        return expression;                                                                                             \
    }

TRIAL(copy_there, sn_to_copy_ex(x, SN_F64, NONE, sn_int(META), NONE, false, NONE))
TRIAL(to_there, CALL("aten::to.device", sn_val(x), sn_int(META), sn_int(SN_F64)))
TRIAL(zeros_there, sn_zeros_like_ex(x, SN_F64, NONE, sn_int(META), NONE, NONE))
TRIAL(full_there, CALL("aten::full_like", sn_val(x), sn_int(3), sn_int(SN_F64), NONE, sn_int(META)))
TRIAL(rand_there, CALL("aten::rand_like", sn_val(x), sn_int(SN_F64), NONE, sn_int(META)))
TRIAL(empty_there, CALL("aten::empty_like", sn_val(x), sn_int(SN_F64), NONE, sn_int(META)))
TRIAL(new_there,
      CALL("aten::new_zeros", sn_val(x), ((sn_value){.kind = SN_KIND_INTS, .n = 2, .ints = (int64_t[]){2, 3}}),
           sn_int(SN_F64), NONE, sn_int(META)))

static Attempt *const there[] = {copy_there, to_there, zeros_there, full_there, rand_there, empty_there, new_there};
enum { THERE = sizeof there / sizeof *there };

static sn_status attempt_body(sn_frame *f) {
    Attempt *const *const attempt = sn_closure(f);
    return sn_out(f, 0, (*attempt)(sn_relu(sn_in(f, 0)), on(META)));
}

static sn_tensor *inside(Attempt *const *attempt) {
    sn_function *const fn = sn_compile(attempt_body, (void *)(uintptr_t)attempt, NULL);
    sn_tensor *const x = F32(1, 2, 3), *const result = sn_call1(fn, SN_TENSORS(x));
    sn_function_free(fn);
    return result;
}

static void expect_meta(sn_tensor *t) {
    ck_assert_msg(t != NULL, "%s", sn_error_take()->message);
    ck_assert_str_eq(sn_repr(t), "tensor(..., device='meta', size=(2, 3), dtype=torch.float64)");
}

START_TEST(to_the_meta_device) {
    Attempt *const *const attempt = &there[_i];
    expect_meta((*attempt)(F32(1, 2, 3), NULL));
    expect_meta(inside(attempt));
}
END_TEST

TRIAL(zeros_back, sn_zeros_like_ex(m, SN_F32, NONE, sn_int(CPU), NONE, NONE))
TRIAL(full_back, CALL("aten::full_like", sn_val(m), sn_int(0), NONE, NONE, sn_int(CPU)))
TRIAL(new_back, CALL("aten::new_zeros", sn_val(m),
                     ((sn_value){.kind = SN_KIND_INTS, .n = 2, .ints = (int64_t[]){2, 3}}), NONE, NONE, sn_int(CPU)))
TRIAL(empty_back, sn_zero_(CALL("aten::empty_like", sn_val(m), NONE, NONE, sn_int(CPU))))
TRIAL(rand_back, sn_mul_scalar(CALL("aten::rand_like", sn_val(m), NONE, NONE, sn_int(CPU)), sn_int(0)))

static Attempt *const back[] = {zeros_back, full_back, new_back, empty_back, rand_back};
enum { BACK = sizeof back / sizeof *back };

/* The layout of a tensor without data is enough for one of zeros. */
START_TEST(like_a_tensor_of_the_meta_device) {
    sn_tensor *const zeros = sn_zeros(SN_INTS(2, 3), SN_F32);
    ck_assert(same_bits(back[_i](NULL, on(META)), zeros));
    ck_assert(same_bits(inside(&back[_i]), zeros));
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

static sn_tensor *number(int64_t device) { return sn_empty_ex((sn_ints){0}, SN_F32, NONE, sn_int(device), NONE, NONE); }

TRIAL(copy_back, sn_to_copy_ex(m, SN_F32, NONE, sn_int(CPU), NONE, false, NONE))
TRIAL(to_back, CALL("aten::to.device", sn_val(m), sn_int(CPU), sn_int(SN_F32)))
TRIAL(out_here, sn_add_out(x, m, m))
TRIAL(out_there, sn_add_out(m, x, x))
TRIAL(out_of_a_scalar, sn_add_out(x, number(CPU), m))
TRIAL(zeros_out, CALL("aten::zeros_like.out", sn_val(m), NONE, sn_val(x)))
TRIAL(into_a_scalar, sn_copy_(number(CPU), number(META)))
TRIAL(added_to_a_scalar, sn_add_(number(CPU), number(META)))
TRIAL(filled_scalar, CALL("aten::fill.Tensor", sn_val(number(CPU)), sn_val(number(META))))
TRIAL(both_devices, sn_add(x, m))
TRIAL(no_driver, sn_to_copy_ex(x, SN_F32, NONE, sn_int(CUDA), NONE, false, NONE))
TRIAL(no_device, CALL("aten::_to_copy", sn_val(x), NONE, NONE, sn_int(3)))
TRIAL(not_registered, CALL("aten::_to_copy", sn_val(x), NONE, NONE, sn_int(META + 1)))
TRIAL(as_dtype, sn_to(x, (sn_dtype)META))
TRIAL(negative_device, CALL("aten::zeros_like", sn_val(m), NONE, NONE, sn_int(-1)))
TRIAL(wide_device, sn_zeros_like_ex(x, SN_F32, NONE, sn_int(INT64_C(1) << 32), NONE, NONE))
TRIAL(gradient_back, (x = LEAF(1, 2, 3), sn_backward(sn_sum(copy_there(x, m))) ? NULL : x))

typedef struct Bad {
    Attempt *attempt;
    sn_status status;
    const char *says;
} Bad;

static const Bad bad[] = {
    {copy_back, SN_ERR_DEVICE, "aten::_to_copy: a tensor on the meta device has no data"},
    {to_back, SN_ERR_DEVICE, "a tensor on the meta device has no data"},
    {out_here, SN_ERR_DEVICE, "aten::add.out: all tensors must be on one device: 'self' is on meta"},
    {out_there, SN_ERR_DEVICE, "'self' is on cpu, 'out' on meta"},
    {out_of_a_scalar, SN_ERR_DEVICE, "'other' is on meta, 'out' on cpu"},
    {zeros_out, SN_ERR_DEVICE, "'self' is on meta, 'out' on cpu"},
    {into_a_scalar, SN_ERR_DEVICE, "'self' is on cpu, 'src' on meta"},
    {added_to_a_scalar, SN_ERR_DEVICE, "'self' is on cpu, 'other' on meta"},
    {filled_scalar, SN_ERR_DEVICE, "aten::fill.Tensor: a tensor on the meta device has no data"},
    {both_devices, SN_ERR_DEVICE, "'self' is on cpu, 'other' on meta"},
    {no_driver, SN_ERR_DEVICE, "aten::_to_copy: there is no NVIDIA driver"},
    {no_device, SN_ERR_ARGUMENT, "aten::_to_copy: device is no device: 3"},
    {not_registered, SN_ERR_ARGUMENT, "aten::_to_copy: device is no device: 65"},
    {as_dtype, SN_ERR_ARGUMENT, "aten::to.dtype: dtype is no dtype: 64"},
    {negative_device, SN_ERR_ARGUMENT, "aten::zeros_like: device is no device: -1"},
    {wide_device, SN_ERR_ARGUMENT, "aten::zeros_like: device is no device: 4294967296"},
    {gradient_back, SN_ERR_DEVICE, "aten::_to_copy: a tensor on the meta device has no data"},
};
enum { ROWS = sizeof bad / sizeof *bad };

START_TEST(what_no_device_can_do) {
    const Bad *const row = &bad[_i];
    ck_assert_ptr_null(row->attempt(F32(1, 2, 3), on(META)));
    expect_error(row->status, row->says);
    ck_assert_ptr_null(inside(&row->attempt));
    expect_error(row->status, row->says);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("devices");
    tcase_add_loop_test(tests, to_the_meta_device, 0, THERE);
    tcase_add_loop_test(tests, like_a_tensor_of_the_meta_device, 0, BACK);
    tcase_add_loop_test(tests, what_no_device_can_do, 0, ROWS);
    return suite_run("devices", tests);
}
