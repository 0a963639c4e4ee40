/* test_check_handles.c: the setting check_handles: what is done to a handle that has ended is an error that names the
 * line where it was made and the line where it ended; what is done rightly is as without it. */
#include <stdio.h>

#include <sinter/transform.h>

#include "tests/unit/contract.h"

static int made_at, ended_at; /* lines */
#define MADE(call)  (made_at = __LINE__, (call))
#define ENDED(call) (ended_at = __LINE__, (void)(call))

static sn_tensor *x;

static sn_tensor *after_scope(void) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const y = MADE(sn_add(x, x));
    ENDED(sn_scope_end(scope));
    return y;
}

static sn_tensor *large_after_scope(void) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const y = MADE(sn_zeros(SN_INTS(300, 300), SN_F32));
    ENDED(sn_scope_end(scope));
    return y;
}

static sn_tensor *released(void) {
    sn_tensor *const y = MADE(sn_add(x, x));
    sn_keep(y);
    ENDED(sn_release(y));
    return y;
}

/* Its memory lives on, by a view. */
static sn_tensor *viewed(void) {
    sn_tensor *const y = MADE(sn_add(x, x));
    sn_keep(y);
    sn_keep(sn_detach(y));
    ENDED(sn_release(y));
    return y;
}

static sn_tensor *view(void) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const y = MADE(sn_narrow(x, 0, 0, 2));
    ENDED(sn_scope_end(scope));
    return y;
}

static sn_tensor *leaked;
static sn_status leaks(sn_frame *f) {
    leaked = MADE(sn_exp(sn_in(f, 0)));
    return sn_out(f, 0, sn_neg(leaked));
}

static sn_tensor *out_of_body(void) {
    sn_function *const fn = sn_compile(leaks, NULL, NULL);
    for (int i = 0; i < 3; i++) ENDED(SN_CALL(fn, x));
    sn_function_free(fn);
    return leaked;
}

static sn_tensor *out_of_vmap(void) {
    sn_tensor *out = NULL;
    ENDED(sn_vmap(leaks, NULL, NULL, SN_TENSORS(x), &out, 1));
    return leaked;
}

static sn_tensor *out_of_cond(void) {
    sn_tensor *out = NULL, *const yes = sn_gt_scalar(sn_sum(x), sn_float(-1e9));
    ENDED(sn_cond(yes, leaks, leaks, NULL, NULL, SN_TENSORS(x), &out, 1));
    return leaked;
}

typedef sn_tensor *Ends(void);
static Ends *const ends[] = {after_scope, large_after_scope, released,    viewed,
                             view,        out_of_body,       out_of_vmap, out_of_cond};
enum { ENDS = sizeof ends / sizeof *ends };

/* uses -------------------------------------------------------------------------------------------- */

static void adds(sn_tensor *y) { ck_assert_ptr_null(sn_add(y, x)); }
static void stacks(sn_tensor *y) { ck_assert_ptr_null(sn_stack(SN_TENSORS(x, y), 0)); }
static void writes(sn_tensor *y) { ck_assert_ptr_null(sn_add_(x, y)); }
static void reads(sn_tensor *y) { sn_item(y); }
static void asks_rank(sn_tensor *y) { sn_rank(y); }
static void asks_data(sn_tensor *y) { ck_assert_ptr_null(sn_data(y, SN_F32)); }
static void keeps(sn_tensor *y) { ck_assert_ptr_null(sn_keep(y)); }
static void retains(sn_tensor *y) { ck_assert_ptr_null(sn_retain(y)); }
static void releases(sn_tensor *y) { sn_release(y); }
static void prints(sn_tensor *y) { sn_repr(y); }
static void goes_back(sn_tensor *y) { sn_backward(y); }
static sn_status takes(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_in(f, 0))); }
static void calls(sn_tensor *y) {
    sn_function *const fn = sn_compile(takes, NULL, NULL);
    ck_assert_ptr_null(SN_CALL(fn, y));
    sn_function_free(fn);
}

static void returns(sn_tensor *y) { ck_assert_ptr_null(sn_scope_return(sn_scope_begin(), y)); }

typedef void Use(sn_tensor *y);
static Use *const uses[] = {adds,    stacks,   writes, reads,     asks_rank, asks_data, keeps,
                            retains, releases, prints, goes_back, calls,     returns};
enum { USES = sizeof uses / sizeof *uses };

static void expect_lines(void) {
    char made[40], ended[40];
    const sn_error *const error = sn_error_take();
    snprintf(made, sizeof made, "test_check_handles.c:%d, ended at", made_at);
    snprintf(ended, sizeof ended, "test_check_handles.c:%d", ended_at);
    ck_assert_int_eq(error->status, SN_ERR_STATE);
    ck_assert_msg(strstr(error->message, "has ended") != NULL, "%s", error->message);
    ck_assert_msg(strstr(error->message, made) != NULL, "%s, not %s", error->message, made);
    ck_assert_msg(strstr(error->message, ended) != NULL, "%s, not %s", error->message, ended);
}

START_TEST(a_handle_that_has_ended_names_its_lines) {
    ck_assert_int_eq(sn_setting_set("check_handles", "1"), SN_OK);
    x = sn_keep(F32(1, 4));
    for (int i = 0; i < ENDS; i++) {
        sn_tensor *const y = ends[i]();
        ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
        uses[_i](y);
        expect_lines();
    }
    ck_assert(sn_item(sn_sum(sn_sub(sn_add(x, x), sn_mul_scalar(x, sn_float(2))))) == 0);
}
END_TEST

/* More bytes than are kept for such errors; then nothing is kept. */
START_TEST(what_is_done_rightly_is_as_without_it) {
    x = sn_keep(F32(1, 4));
    for (int on = 1; on >= 0; on--) {
        ck_assert_int_eq(sn_setting_set("check_handles", on ? "1" : "0"), SN_OK);
        for (int i = 0; i < 200000; i++) {
            const sn_scope scope = sn_scope_begin();
            sn_tensor *const y = sn_add(x, x), *const z = sn_narrow(y, 0, 1, 2);
            if (i % 20000 == 0) ck_assert(sn_item(sn_select(z, 0, 0)) == 2 * sn_item(sn_select(x, 0, 1)));
            sn_scope_end(scope);
        }
    }
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("check handles");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_handle_that_has_ended_names_its_lines, 0, USES);
    tcase_add_test(tests, what_is_done_rightly_is_as_without_it);
    return suite_run("test_check_handles", tests);
}
