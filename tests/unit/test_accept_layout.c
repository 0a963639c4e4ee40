/* test_accept_layout.c: lines 1.12 and 1.13 of the acceptance list by public headers: copies that nobody asked for, and
 * images whose channels lie together. */
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { N = 2, C = 3, H = 4, W = 5 };

static sn_tensor *images(sn_memory_format format) {
    sn_tensor *const x = sn_reshape(range(N * C * H * W), SN_INTS(N, C, H, W));
    return sn_contiguous_ex(x, sn_int(format));
}

static void expect_strides(sn_tensor *t, sn_ints strides) {
    expect_ok();
    ck_assert_int_eq(sn_strides(t).n, strides.n);
    ck_assert_mem_eq(sn_strides(t).data, strides.data, (size_t)strides.n * sizeof *strides.data);
}

static bool is_channels_last(sn_tensor *t) {
    return sn_is_contiguous_as(t, SN_CHANNELS_LAST) && !sn_is_contiguous_as(t, SN_CONTIGUOUS_FORMAT) &&
           !sn_is_contiguous(t);
}

START_TEST(a1_13_strides_and_formats) {
    sn_tensor *const rows = images(SN_CONTIGUOUS_FORMAT), *const x = images(SN_CHANNELS_LAST);
    expect_strides(x, SN_INTS(H * W * C, 1, W * C, C));
    ck_assert(is_channels_last(x));
    ck_assert(sn_is_contiguous(rows) && !sn_is_contiguous_as(rows, SN_CHANNELS_LAST));
    ck_assert(sn_equal(x, rows)); /* the same elements: a layout is no value */
    ck_assert_ptr_ne(sn_data(rows, SN_F32), NULL);
    expect_strides(sn_permute(x, SN_INTS(0, 2, 3, 1)), SN_INTS(H * W * C, W * C, C, 1));
    ck_assert(sn_is_contiguous(sn_permute(x, SN_INTS(0, 2, 3, 1))));
    expect_strides(sn_contiguous(x), SN_INTS(C * H * W, H * W, W, 1));
}
END_TEST

static sn_status net(sn_frame *f) {
    sn_tensor *const *const w = sn_closure(f);
    sn_tensor *const y = sn_conv2d(sn_in(f, 0), w[0], w[1]);
    sn_out(f, 0, y);
    return sn_out(f, 1, sn_add(sn_relu(y), y));
}

/* What a convolution gives keeps the format, and what follows, too; the values are those of row-major images. */
START_TEST(a1_13_a_convolution_keeps_the_format) {
    sn_tensor *w[] = {sn_reshape(range(6 * C * 2 * 2), SN_INTS(6, C, 2, 2)), range(6)}, *out[2], *plain[2];
    sn_function *const eager = sn_compile(net, w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const fast = sn_compile(net, w, NULL);
    sn_tensor *const x = images(SN_CHANNELS_LAST), *const rows = images(SN_CONTIGUOUS_FORMAT);
    sn_call(eager, &rows, 1, plain, 2);
    expect_ok();
    ck_assert(sn_is_contiguous(plain[0]));
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(sn_call(i ? fast : eager, &x, 1, out, 2), SN_OK);
        for (int k = 0; k < 2; k++) {
            ck_assert(is_channels_last(out[k]));
            expect_strides(out[k], SN_INTS(3 * 4 * 6, 1, 4 * 6, 6));
            ck_assert(sn_equal(out[k], plain[k]));
        }
    }
    sn_function_free(fast);
    sn_function_free(eager);
}
END_TEST

/* Hidden copies ------------------------------------------------------------------------------------ */

static sn_status flattened(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_reshape(sn_t(sn_in(f, 0)), SN_INTS(12)))); }

static void expect_copies(const char *op, int64_t copies, int64_t bytes) {
    sn_copy_count all[8];
    const int n = sn_hidden_copies(all, 8);
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i].op, op)) continue;
        ck_assert_msg(all[i].copies == copies && all[i].bytes == bytes, "%s: %d copies, %d bytes", op,
                      (int)all[i].copies, (int)all[i].bytes);
        return;
    }
    ck_assert_msg(!copies, "%s is not among %d ops", op, n);
}

/* Each is put down to the op that the program called; what a view can show is none. */
START_TEST(a1_12_a_counter_names_who_copied) {
    sn_tensor *const x = sn_reshape(range(12), SN_INTS(3, 4)), *const w = sn_reshape(range(6), SN_INTS(2, 3));
    ck_assert_int_eq(sn_hidden_copies(NULL, 0), 0);
    sn_view(x, SN_INTS(12));
    sn_reshape(sn_narrow(x, 0, 1, 2), SN_INTS(8));
    sn_contiguous(x);
    sn_clone(sn_t(x)); /* asked for */
    sn_add(sn_t(x), sn_t(x));
    ck_assert_int_eq(sn_hidden_copies(NULL, 0), 0);
    for (int i = 0; i < 3; i++) sn_reshape(sn_t(x), SN_INTS(12));
    sn_contiguous(sn_t(x));
    sn_flatten(images(SN_CHANNELS_LAST), 1, -1);
    sn_linear(sn_transpose(sn_reshape(range(24), SN_INTS(2, 3, 4)), 1, 2), w, NULL); /* merges the first two dims */
    expect_ok();
    expect_copies("aten::reshape", 3, 3 * 48);
    expect_copies("aten::contiguous", 1, 48);
    expect_copies("aten::flatten.using_ints", 1, N * C * H * W * 4);
    expect_copies("aten::linear", 1, 96);
    ck_assert_int_eq(sn_hidden_copies(NULL, 0), 4);
    sn_hidden_copies_reset();
    ck_assert_int_eq(sn_hidden_copies(NULL, 0), 0);
    sn_function *const fn = sn_compile(flattened, NULL, NULL); /* one kernel, which reads through the strides */
    sn_tensor *const want = sn_relu(sn_clone(sn_view(sn_clone_ex(sn_t(x), sn_int(SN_CONTIGUOUS_FORMAT)), SN_INTS(12))));
    for (int i = 0; i < 3; i++) ck_assert(sn_equal(SN_CALL(fn, x), want));
    expect_copies("aten::reshape", 0, 0);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("layouts");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a1_12_a_counter_names_who_copied);
    tcase_add_test(tests, a1_13_strides_and_formats);
    tcase_add_test(tests, a1_13_a_convolution_keeps_the_format);
    return suite_run("acceptance: layouts", tests);
}
