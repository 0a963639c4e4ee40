/* test_plugin_scale.c: the plug-in of samples/plugin, built at run time: its kernel on a CUDA device has the CPU's
 * bits, eagerly and in compiled functions. */
#include <check.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <string.h>

#include "tests/cuda/emulated_control.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

static sn_tensor *scale(sn_tensor *x, double by) {
    const sn_value in[] = {sn_val(x), sn_float(by)};
    return sn_op_call1(sn_op_find("my::scale"), in, 2);
}

static sn_status body(sn_frame *f) { return sn_out(f, 0, sn_relu(scale(sn_sin(sn_in(f, 0)), 0.3))); }

static void runs_on_both(void) {
    sn_function *const fn = sn_compile(body, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = sn_randn(SN_INTS(7, 50), SN_F32), *const far = sn_to_device(x, SN_CUDA(0));
        ck_assert(sn_equal(sn_to_device(scale(far, 1.7), SN_CPU), scale(x, 1.7)));
        sn_tensor *const turned = sn_transpose(far, 0, 1); /* not contiguous */
        ck_assert(sn_equal(sn_to_device(scale(turned, 1.7), SN_CPU), scale(sn_transpose(x, 0, 1), 1.7)));
        ck_assert(sn_equal(sn_to_device(SN_CALL(fn, far), SN_CPU), SN_CALL(fn, x)));
        expect_ok();
    }
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    ck_assert_int_eq(stats.breaks, 0);
    sn_tensor *const leaf = sn_requires_grad_(sn_to_device(sn_randn(SN_INTS(5), SN_F32), SN_CUDA(0)), true);
    sn_backward(sn_sum(scale(leaf, 3)));
    ck_assert(sn_equal(sn_to_device(sn_grad(leaf), SN_CPU), sn_full(SN_INTS(5), sn_int(3), SN_F32)));
    ck_assert_ptr_null(scale(sn_to_device(sn_zeros(SN_INTS(2), SN_F64), SN_CUDA(0)), 2));
    expect_error(SN_ERR_DTYPE, "x must be f32");
    expect_ok();
    sn_function_free(fn);
}

#define SCALE_C  SINTER_SOURCE_DIR "/samples/plugin/scale.c"
#define SCALE_CU SINTER_SOURCE_DIR "/samples/plugin/scale.cu"

START_TEST(a6_05_scale_runs_on_the_cpu_and_on_cuda) {
    static const char *const sources[] = {SCALE_C, SCALE_CU};
    sn_setting_set("plugin_include", SINTER_HEADERS);
    ck_assert_msg(sn_plugin_build(sources, 2) == SN_OK, "%s", sn_error_take()->message);
    runs_on_both();
}
END_TEST

static char *text_of(const char *path) {
    static char texts[2][1 << 14];
    static int n;
    char *const text = texts[n++ % 2];
    FILE *const file = fopen(path, "r");
    ck_assert(file && fread(text, 1, sizeof texts[0] - 1, file) > 0);
    fclose(file);
    return text;
}

/* The same from strings: of C, and of CUDA C. */
START_TEST(a9_13_strings_of_c_and_cuda_c_become_an_op) {
    sn_setting_set("plugin_include", SINTER_HEADERS);
    const char *const c = text_of(SCALE_C), *const cuda = text_of(SCALE_CU);
    ck_assert_msg(sn_plugin_build_text("scale", c, cuda) == SN_OK, "%s", sn_error_take()->message);
    runs_on_both();
}
END_TEST

int main(void) {
    if (lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("plugin_scale");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a6_05_scale_runs_on_the_cpu_and_on_cuda);
    tcase_add_test(tests, a9_13_strings_of_c_and_cuda_c_become_an_op);
    return suite_run("plugin_scale", tests);
}
