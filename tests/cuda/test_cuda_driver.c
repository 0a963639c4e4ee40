/* test_cuda_driver.c: drivers that are absent, too old or broken: each says what is missing; nothing else suffers.
 * Every test is a process of its own, in which no driver was opened before. */
#include <check.h>
#include <sinter/sinter.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/suite.h"

static const char *emulator;

/* What a use of cuda:0 says; the CPU goes on. */
static void expect(const char *driver, const char *emulated, const char *says) {
    setenv("SINTER_CUDA_DRIVER", driver, 1);
    if (emulated) setenv("EMULATED_CUDA", emulated, 1);
    for (int again = 0; again < 2; again++) {
        ck_assert_ptr_null(sn_to_device(sn_ones(SN_INTS(2), SN_F32), SN_CUDA(0)));
        const sn_error *const error = sn_error_take();
        ck_assert_msg(error->status == SN_ERR_DEVICE && strstr(error->message, says), "%s", error->message);
    }
    ck_assert_int_eq(sn_device_count(SN_KEY_CUDA), 0);
    ck_assert(sn_item(sn_sum(sn_ones(SN_INTS(2), SN_F32))) == 2);
}

START_TEST(none) {
    expect("/nonexistent/libcuda.so.1", NULL, "there is no NVIDIA driver (/nonexistent/libcuda.so.1: cannot open");
}
END_TEST
START_TEST(no_driver_at_all) { expect("libm.so.6", NULL, "the NVIDIA driver is too old: it has CUDA 0.0; install"); }
END_TEST
START_TEST(old) { expect(emulator, "version=11080", "the NVIDIA driver is too old: it has CUDA 11.8; install"); }
END_TEST
START_TEST(lacking) { expect(emulator, "lacks=MemAlloc", "the NVIDIA driver has no cuMemAlloc; install"); }
END_TEST
START_TEST(without_a_gpu) { expect(emulator, "devices=0", "there is no cuda:0: this machine has 0 CUDA devices"); }
END_TEST

START_TEST(one_gpu) {
    setenv("EMULATED_CUDA", "devices=1", 1);
    ck_assert_int_eq(sn_device_count(SN_KEY_CUDA), 1);
    ck_assert_ptr_nonnull(sn_to_device(sn_ones(SN_INTS(2), SN_F32), SN_CUDA(0)));
    ck_assert_ptr_null(sn_to_device(sn_ones(SN_INTS(2), SN_F32), SN_CUDA(1)));
    ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "there is no cuda:1: this machine has 1 CUDA device"));
}
END_TEST

int main(void) {
    emulator = getenv("SINTER_CUDA_DRIVER");
    if (!emulator) return 77; /* skipped: on a real driver there is nothing to see */
    TCase *const tests = tcase_create("cuda_driver");
    tcase_add_test(tests, none);
    tcase_add_test(tests, no_driver_at_all);
    tcase_add_test(tests, old);
    tcase_add_test(tests, lacking);
    tcase_add_test(tests, without_a_gpu);
    tcase_add_test(tests, one_gpu);
    return suite_run("cuda_driver", tests);
}
