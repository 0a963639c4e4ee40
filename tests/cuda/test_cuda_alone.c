/* test_cuda_alone.c: unit/test_alone.c on a CUDA device: the op runs by the device's eager kernels, the rest as
 * compiled kernels; a function that is to be one launch says that it is none. */
#include "tests/unit/alone.h"

START_TEST(on_a_device) {
    sn_function *const fn = sn_compile(alone_body, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS));
    alone_expect_eager(fn, SN_CUDA(0), _i == 1);
    ck_assert_int_ge(alone_steps(fn, "eager"), 1);
    ck_assert_int_ge(alone_steps(fn, "loops"), 2);
    sn_function_free(fn);
}

START_TEST(no_part_of_one_launch) {
    sn_function *const fn = sn_compile(
        alone_body, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS, .preset = SN_PRESET_REDUCE_OVERHEAD));
    alone_expect_eager(fn, SN_CUDA(0), false);
    ck_assert(strstr(sn_explain(fn), "aten::add.Tensor runs by itself"));
    sn_function_free(fn);
}

int main(void) {
    TCase *const tests = tcase_create("cuda_alone");
    tcase_add_loop_test(tests, on_a_device, 0, 2);
    tcase_add_test(tests, no_part_of_one_launch);
    return suite_run("cuda_alone", tests);
}
