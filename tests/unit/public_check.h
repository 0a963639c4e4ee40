/* public_check.h: for test programs that know the public headers only, as one outside of the tree would. */
#ifndef SINTER_TESTS_UNIT_PUBLIC_CHECK_H
#define SINTER_TESTS_UNIT_PUBLIC_CHECK_H
#include <check.h>
#include <sinter/sinter.h>
#include <string.h>

static inline void expect_error(sn_status status, const char *says) {
    const sn_error *const error = sn_error_take();
    ck_assert_msg(error->status == status && strstr(error->message, says), "%d: %s", (int)error->status,
                  error->message);
}

static inline void expect_ok(void) { ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message); }

/* f32[n]: -2.5, -1.5, ... */
static inline sn_tensor *range(int64_t n) {
    float values[256];
    ck_assert_int_le(n, (int64_t)(sizeof values / sizeof *values));
    for (int i = 0; i < n; i++) values[i] = (float)i - 2.5f;
    return sn_from_data(values, SN_INTS(n), SN_F32);
}

#endif
