/* test_memory.c: what the library keeps does not grow with what a program calls: numbers and sizes that change with
 * every call, functions that come and go. Bytes of our own allocators are counted; the process' memory is looked at
 * once. */
#include "runtime/capture/function/function.h"
#include "tests/unit/contract.h"

static double host_number;

/* A number that is known to the host only. */
static sn_status scaled_by_host(sn_frame *f) {
    return sn_out(f, 0, sn_add_scalar(sn_mul_scalar(sn_in(f, 0), sn_float(host_number)), sn_float(1 / host_number)));
}

static sn_status scaled_by_input(sn_frame *f) {
    return sn_out(f, 0, sn_add_scalar(sn_mul_scalar(sn_in(f, 0), sn_float(sn_in_float(f, 1))), sn_float(4)));
}

static void call_once(sn_function *fn, sn_tensor *x, double number) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *out[1] = {0};
    host_number = number;
    ck_assert_int_eq(sn_call_values(fn, (sn_value[]){sn_val(x), sn_float(number)}, 2, out, 1), SN_OK);
    sn_scope_end(scope);
}

/* In use, not the room of chunks. */
static size_t bytes_of(const sn_function *fn) { return fn->arena->total - (size_t)(fn->arena->end - fn->arena->at); }

static const struct {
    sn_body body;
    sn_compile_mode mode;
} numbers[] = {
    {scaled_by_host, SN_COMPILE_VERIFY}, {scaled_by_input, SN_COMPILE_VERIFY}, {scaled_by_input, SN_COMPILE_REPLAY}};

START_TEST(a_number_that_changes_takes_no_memory) {
    sn_function *const fn = sn_compile(numbers[_i].body, NULL, SN_COMPILE_OPTIONS(.mode = numbers[_i].mode));
    sn_tensor *const x = F32(1, 16);
    int call = 0;
    while (call < 200) call_once(fn, x, 1.25 + call++);
    const size_t before = bytes_of(fn);
    while (call < 5000) call_once(fn, x, 1.25 + call++);
    ck_assert_uint_eq(bytes_of(fn), before);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("memory");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_number_that_changes_takes_no_memory, 0, sizeof numbers / sizeof *numbers);
    return suite_run("test_memory", tests);
}
