/* alone.h: a function with one op in its middle that has no loop program where all sizes are symbols, for test_alone.c
 * and cuda/test_cuda_alone.c: of one input every second column is taken and of the other every third, which are as
 * many: a guard that says of no size what it is ((s1+1)//2 == (s2+2)//3).
 *
 *     exp . (by eager: add) . sigmoid, mul */
#ifndef SINTER_TESTS_UNIT_ALONE_H
#define SINTER_TESTS_UNIT_ALONE_H
#include <stdio.h>

#include "tests/unit/contract.h"

enum { ALONE_ROWS = 6 };

static inline sn_status alone_body(sn_frame *f) {
    sn_tensor *const x = sn_exp(sn_in(f, 0)), *const y = sn_in(f, 1);
    sn_tensor *const sum = sn_add(sn_slice(x, 1, 0, INT64_MAX, 2), sn_slice(y, 1, 0, INT64_MAX, 3));
    return sn_out(f, 0, sn_mul_scalar(sn_sigmoid(sum), sn_float(2.0)));
}

/* Of n columns taken. */
static inline sn_tensor *alone_input(int i, int n, uint64_t seed, sn_device device) {
    sn_tensor *const t = F32(seed + (uint64_t)i, ALONE_ROWS, i ? 3 * n - 2 : 2 * n - 1);
    return sn_to_device(t, device);
}

/* How many steps of this kind there are in all plans. */
static inline int alone_steps(sn_function *fn, const char *kind) {
    char key[64];
    int n = 0;
    snprintf(key, sizeof key, "\"kind\": \"%s\"", kind);
    for (const char *at = sn_explain_json(fn); (at = strstr(at, key)); at++) n++;
    return n;
}

/* Results, and gradients of both inputs where they are asked for, for two sizes. */
static inline void alone_expect_eager(sn_function *fn, sn_device device, bool grad) {
    sn_function *const eager = sn_compile(alone_body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int call = 0; call < 6; call++) {
        const sn_scope scope = sn_scope_begin();
        sn_function *const fns[] = {eager, fn};
        sn_tensor *out[2], *in[2][2];
        for (int way = 0; way < 2; way++) {
            for (int i = 0; i < 2; i++) {
                in[way][i] = alone_input(i, 4 + call % 2, (uint64_t)call, device);
                sn_requires_grad_(in[way][i], grad);
            }
            out[way] = SN_CALL(fns[way], in[way][0], in[way][1]);
            ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
            if (grad) ck_assert_int_eq(sn_backward(sn_sum(sn_mul(out[way], out[way]))), SN_OK);
        }
        ck_assert(same_bits(out[0], out[1]));
        for (int i = 0; grad && i < 2; i++) ck_assert(same_bits(sn_grad(in[0][i]), sn_grad(in[1][i])));
        sn_scope_end(scope);
    }
    sn_function_free(eager);
}

#endif
