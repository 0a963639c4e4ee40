/* test_dispatch_cost.c: what 10,000 ops of a forward cost by counts, not by a clock: how often a key is entered,
 * eagerly, in verify mode and in replay, and how many launches and bodies there are [acceptance 9.21]. The nanoseconds
 * are those of `sinter bench call/10000ops`. */
#include "tests/unit/contract.h"

enum { OPS = 10000, GROUP = 10 };

static int bodies;
static sn_status forward(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0), *const b = sn_in(f, 1);
    bodies++;
    for (int i = 0; i < OPS / GROUP; i++) {
        x = sn_mm(sn_relu(sn_add(x, b)), b);
        x = sn_transpose(sn_sub(sn_tanh(x), b), 0, 1);
        x = sn_transpose(sn_neg(sn_sigmoid(sn_mul(x, b))), 0, 1);
    }
    return sn_out(f, 0, x);
}

static int64_t entered, by_key[4];
static void count_keys(void *context, int level, const char *topic, const char *line) {
    static const char *const keys[] = {": capture", ": autograd", ": cpu"};
    if (strcmp(topic, "dispatch") || !strncmp(line, "product ", 8)) return; /* which kernel a product has is no key */
    entered++;
    for (int i = 0; i < 3; i++) by_key[i] += strstr(line, keys[i]) != NULL;
}

static sn_tensor *counted(sn_function *fn, sn_tensor *x, sn_tensor *b) {
    entered = 0;
    memset(by_key, 0, sizeof by_key);
    sn_setting_set("dispatch_trace", "1");
    sn_tensor *const y = SN_CALL(fn, x, b);
    sn_setting_set("dispatch_trace", "0");
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    return y;
}

START_TEST(a9_21_eagerly_each_op_enters_two_keys) {
    sn_function *const fn = sn_compile(forward, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_logging_set(count_keys, NULL, NULL);
    counted(fn, F32(1, 4, 4), F32(2, 4, 4));
    ck_assert_int_eq(by_key[1], OPS);
    ck_assert_int_eq(by_key[2], OPS);
    ck_assert_int_eq(entered, 2 * OPS);
    sn_logging_set(NULL, NULL, NULL);
    sn_function_free(fn);
}
END_TEST

/* Matching enters one key an op, and nothing is computed by eager; launches are those of the kernels. */
START_TEST(a9_21_verified_each_op_enters_one) {
    sn_function *const fn = sn_compile(forward, NULL, NULL), *const eager = sn_compile(
                                                                 forward, NULL,
                                                                 SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const x = F32(1, 4, 4), *const b = F32(2, 4, 4), *const want = SN_CALL(eager, x, b);
    sn_logging_set(count_keys, NULL, NULL);
    for (int i = 0; i < 2; i++) ck_assert(same_bits(SN_CALL(fn, x, b), want));
    ck_assert(same_bits(counted(fn, x, b), want));
    ck_assert_int_eq(by_key[0], OPS);
    ck_assert_int_eq(entered, OPS);
    const sn_stats stats = stats_of(fn);
    ck_assert_int_eq(stats.ops_eager, 0);
    ck_assert_int_le(stats.kernels, 3 * OPS / GROUP);
    ck_assert_int_le(stats.graphs, 1 + OPS / 4096); /* setting pending_ops */
    sn_logging_set(NULL, NULL, NULL);
    sn_function_free(fn);
    sn_function_free(eager);
}
END_TEST

/* Neither body nor dispatcher: a call's cost is that of its launches. */
START_TEST(a9_21_replayed_none_enters_any) {
    sn_setting_set("pending_ops", "20000");
    sn_function *const fn = sn_compile(forward, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *const b = F32(2, 4, 4);
    sn_logging_set(count_keys, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 4, 4), b);
    const int ran = bodies;
    sn_tensor *const y = counted(fn, F32(1, 4, 4), b);
    ck_assert_int_eq(bodies, ran);
    ck_assert_int_eq(entered, 0);
    sn_function *const eager = sn_compile(forward, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    ck_assert(same_bits(y, SN_CALL(eager, F32(1, 4, 4), b)));
    sn_logging_set(NULL, NULL, NULL);
    sn_function_free(fn);
    sn_function_free(eager);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a9_21_eagerly_each_op_enters_two_keys, a9_21_verified_each_op_enters_one,
                                  a9_21_replayed_none_enters_any};
    return contract_main("dispatch_cost", tests, sizeof tests / sizeof *tests);
}
