/* test_symbolic_sizes.c: programs with all sizes symbolic, at sizes that break what the first ones had in common: equal
 * and then not, 0 and 1, sums, products, quotients, negative pads, slices that end late, loops. Compiled, with
 * backward, and by a saved plan that was loaded, against eager. */
#include <unistd.h>

#include "tests/unit/contract.h"

/* Sums, products and a quotient of sizes, by -1 and by views of what was joined. */
static sn_status joins(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_tensor *const both = sn_cat(SN_TENSORS(x, y), 0);
    sn_tensor *const flat = sn_reshape(both, SN_INTS(-1));
    sn_tensor *const ends = sn_cat(SN_TENSORS(flat, sn_reshape(x, SN_INTS(-1))), 0);
    return sn_out(f, 0, sn_mul(sn_cumsum(ends, 0, SN_F32), sn_sin(ends)));
}

/* Halves by floor, that lie on one another where the size is odd. */
static sn_status halves(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_tensor *const rolled = sn_roll(x, SN_INTS(3), SN_INTS(0));
    sn_tensor *const sums = sn_add(sn_sum_dim(rolled, SN_INTS(1), true), sn_mean_dim(x, SN_INTS(1), true));
    return sn_out(f, 0, sn_mul(sn_mul(sums, rolled), sn_sum(y)));
}

/* Elements are taken away before and put behind. */
static sn_status pads(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_tensor *const shifted = sn_constant_pad_nd(x, SN_INTS(-1, 2), sn_float(0.5));
    sn_tensor *const late = sn_slice(shifted, 1, 1, INT64_MAX, 2);
    return sn_out(f, 0, sn_add(sn_tanh(late), sn_mean(y)));
}

/* Sizes that are the same in one call, broadcast or meet in a product. */
static sn_status meets(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    sn_tensor *const outer = sn_matmul(x, sn_transpose(y, 0, 1));
    sn_tensor *const soft = sn_softmax(outer, 1);
    return sn_out(f, 0, sn_add(sn_matmul(soft, y), sn_sum_dim(x, SN_INTS(0), true)));
}

/* As many rounds as the program says, of a size that stays. */
static sn_status loops(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0), *const y = sn_in(f, 1);
    for (int i = 0; i < 3; i++) x = sn_add(sn_mul(x, sn_roll(x, SN_INTS(1), SN_INTS(1))), sn_mean(y));
    return sn_out(f, 0, x);
}

static const sn_body bodies[] = {joins, halves, pads, meets, loops};
enum { BODIES = sizeof bodies / sizeof *bodies };

/* Of x [rows, columns] and y [others, columns]. */
static const int64_t sizes[][3] = {{4, 4, 4}, {4, 4, 6}, {6, 4, 4}, {5, 7, 5},   {2, 9, 3}, {1, 4, 4},  {4, 4, 1},
                                   {3, 2, 2}, {0, 4, 3}, {3, 4, 0}, {17, 5, 12}, {4, 4, 4}, {16, 8, 2}, {8, 16, 4}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static sn_tensor *made(uint64_t seed, int64_t rows, int64_t columns, bool leaf) {
    sn_seed(seed);
    return sn_requires_grad_(sn_rand(SN_INTS(rows, columns), SN_F32), leaf);
}

/* One call of each, with what flows back. */
static void check_sizes(Twin twin, const int64_t *s, bool backward, const char *what) {
    sn_tensor *grads[2][2] = {{NULL}}, *results[2];
    for (int i = 0; i < 2; i++) {
        sn_tensor *const x = made(1, s[0], s[1], backward), *const y = made(2, s[2], s[1], backward);
        results[i] = sn_call1(i ? twin.fast : twin.eager, SN_TENSORS(x, y));
        if (backward && results[i]) sn_backward(sn_sum(sn_mul(results[i], results[i])));
        grads[i][0] = sn_grad(x), grads[i][1] = sn_grad(y);
        ck_assert_msg(sn_check() == SN_OK, "%s, %s, [%d,%d,%d]: %s", what, i ? "compiled" : "eager", (int)s[0],
                      (int)s[1], (int)s[2], sn_error_take()->message);
    }
    const bool same =
        same_bits(results[0], results[1]) && same_bits(grads[0][0], grads[1][0]) && same_bits(grads[0][1], grads[1][1]);
    ck_assert_msg(same, "%s, [%d,%d,%d]: compiled and eager differ", what, (int)s[0], (int)s[1], (int)s[2]);
}

static void check_all(Twin twin, int first, bool backward, const char *what) {
    for (int i = 0; i < SIZES; i++) {
        const sn_scope scope = sn_scope_begin();
        check_sizes(twin, sizes[(first + i) % SIZES], backward, what);
        sn_scope_end(scope);
    }
}

/* Whichever sizes come first. */
START_TEST(any_sizes_after_any) {
    for (int first = 0; first < SIZES; first += 4)
        for (int backward = 0; backward < 2; backward++) {
            const Twin twin = twin_new(bodies[_i], NULL, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS));
            check_all(twin, first, backward, "compiled");
            twin_free(twin);
        }
}
END_TEST

/* Of the sizes that it was taught, and others. */
START_TEST(a_saved_plan_has_them) {
    char path[] = "/tmp/symbolic_sizes_XXXXXX";
    close(mkstemp(path));
    Twin twin =
        twin_new(bodies[_i], NULL, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .dynamic = SN_DYNAMIC_ALWAYS));
    for (int i = 0; i < 2 * SIZES; i++) check_sizes(twin, sizes[i % SIZES], false, "replay"); /* other tensors */
    ck_assert_msg(sn_plan_save(twin.fast, path, NULL) == SN_OK, "%s", sn_error_take()->message);
    sn_function_free(twin.fast);
    twin.fast = sn_plan_load(path, NULL);
    ck_assert_msg(twin.fast != NULL, "%s", sn_error_take()->message);
    for (int i = SIZES - 1; i >= 0; i--) check_sizes(twin, sizes[i], false, "loaded");
    unlink(path);
    twin_free(twin);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("symbolic_sizes");
    tcase_set_timeout(tests, 120); /* compiles a case for each size of 0 and 1 */
    tcase_add_loop_test(tests, any_sizes_after_any, 0, BODIES);
    tcase_add_loop_test(tests, a_saved_plan_has_them, 0, BODIES);
    return suite_run("symbolic_sizes", tests);
}
