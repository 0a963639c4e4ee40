/* test_accumulate.c: gradients of several parts of a batch added up in one compiled function: the memory of one part
 * is free before the next one begins, as in eager, in the first call and in compiled ones. */
#include "tests/unit/contract.h"

enum { LAYERS = 6, WIDTH = 64, ROWS = 512, PARAMS_BYTES = LAYERS * WIDTH * WIDTH * 4 };

typedef struct Parts {
    int n;
    sn_tensor *weights[LAYERS];
} Parts;

static sn_tensor *part_loss(const Parts *parts, sn_tensor *x) {
    const sn_scope scope = sn_scope_begin();
    for (int i = 0; i < LAYERS; i++) x = sn_tanh(sn_linear(x, parts->weights[i], NULL));
    return sn_scope_return(scope, sn_mean(sn_mul(x, x)));
}

static sn_status accumulate(sn_frame *f) {
    const Parts *const parts = sn_closure(f);
    sn_tensor *total = NULL;
    for (int i = 0; i < LAYERS; i++) sn_grad_set(parts->weights[i], NULL);
    for (int i = 0; i < parts->n; i++) {
        sn_tensor *const loss = part_loss(parts, sn_narrow(sn_in(f, 0), 0, i * ROWS, ROWS));
        sn_backward(loss);
        total = total ? sn_add(total, sn_detach(loss)) : sn_detach(loss);
    }
    return sn_out(f, 0, total);
}

static void parts_new(Parts *parts, int n) {
    parts->n = n;
    for (int i = 0; i < LAYERS; i++) parts->weights[i] = sn_keep(LEAF((uint64_t)i, WIDTH, WIDTH));
}

static void parts_free(Parts *parts) {
    for (int i = 0; i < LAYERS; i++) sn_release(parts->weights[i]);
}

/* Bytes that one call holds beyond what was there. */
static int64_t peak_of(sn_function *fn, sn_tensor *x) {
    sn_memory before = {.size = sizeof before}, after = {.size = sizeof after};
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(sn_memory_reset_peak(SN_CPU), SN_OK);
    ck_assert_int_eq(sn_memory_get(SN_CPU, &before), SN_OK);
    ck_assert_ptr_nonnull(SN_CALL(fn, x));
    ck_assert_int_eq(sn_memory_get(SN_CPU, &after), SN_OK);
    sn_scope_end(scope);
    return after.peak - before.current;
}

START_TEST(parts_of_a_batch_are_not_alive_at_once) {
    sn_tensor *const x = F32(9, 4 * ROWS, WIDTH);
    int64_t eager[5], first[5], later[5], arena[5];
    for (int n = 1; n <= 4; n += 3) {
        Parts parts;
        parts_new(&parts, n);
        sn_function *const plain = sn_compile(accumulate, &parts, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
        sn_function *const fast = sn_compile(accumulate, &parts, NULL);
        eager[n] = peak_of(plain, x);
        first[n] = peak_of(fast, x);
        later[n] = peak_of(fast, x);
        const sn_stats stats = stats_of(fast);
        ck_assert(stats.graphs == 1 && stats.breaks == 0);
        arena[n] = stats.arena_bytes;
        sn_function_free(plain), sn_function_free(fast);
        parts_free(&parts);
    }
    /* Beside a part's activations: the gradients so far; a call's old ones, which its ops might still read. */
    const int64_t slack = 2 * PARAMS_BYTES;
    ck_assert_int_le(first[4], eager[4] + slack);
    ck_assert_int_le(later[4], eager[4] + slack);
    ck_assert_int_le(arena[4], arena[1] + 2 * slack);
    ck_assert_int_le(first[4], first[1] + slack);
    ck_assert_int_gt(arena[1], LAYERS * ROWS * WIDTH * 4); /* a second part would be seen */
}
END_TEST

START_TEST(parts_have_the_bits_of_eager) {
    sn_tensor *const x = F32(9, 4 * ROWS, WIDTH);
    Parts fast, plain;
    parts_new(&fast, 4), parts_new(&plain, 4);
    const Twin twin = twin_new(accumulate, &fast, &plain, NULL);
    for (int call = 0; call < 3; call++) {
        ck_assert_ptr_nonnull(TWIN_CALL(twin, x));
        for (int i = 0; i < LAYERS; i++) ck_assert(same_bits(sn_grad(fast.weights[i]), sn_grad(plain.weights[i])));
    }
    twin_free(twin);
    parts_free(&fast), parts_free(&plain);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {parts_of_a_batch_are_not_alive_at_once, parts_have_the_bits_of_eager};
    return contract_main("accumulate", tests, sizeof tests / sizeof *tests);
}
