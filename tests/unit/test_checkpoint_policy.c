/* test_checkpoint_policy.c: of which ops a checkpoint's policy is asked under autocast, eagerly and in a compiled
 * function [semantics T6, T8]: of the casts too, one for each use, as PyTorch's with cache_enabled=False (by 2.15:
 * _to_copy, _to_copy, mm, _to_copy, mm, sin). With its cache PyTorch asks of no cast that was there before the region,
 * and fails in the backward, where it is not. */
#include <string.h>

#include "tests/unit/contract.h"

typedef struct Asking {
    bool before, saves; /* the leaf's cast is there before the region; what the policy says */
    char asked[256];
} Asking;

static sn_checkpoint_choice ask(void *context, const char *op) {
    Asking *const a = context;
    strncat(a->asked, op, sizeof a->asked - strlen(a->asked) - 1);
    strncat(a->asked, " ", sizeof a->asked - strlen(a->asked) - 1);
    return a->saves ? SN_CHECKPOINT_SAVE : SN_CHECKPOINT_RECOMPUTE;
}

static sn_status region(sn_frame *f) {
    sn_tensor *const w = sn_in(f, 1);
    return sn_out(f, 0, sn_sin(sn_mm(sn_mm(sn_in(f, 0), w), w)));
}

static sn_status body(sn_frame *f) {
    Asking *const a = sn_closure(f);
    sn_tensor *in[] = {sn_in(f, 0), sn_in(f, 1)}, *out = NULL;
    sn_autocast_set(SN_CPU, SN_BF16);
    sn_tensor *const first = a->before ? sn_mm(in[0], in[1]) : NULL;
    sn_checkpoint(region, NULL, SN_CHECKPOINT_OPTIONS(.policy = ask, .context = a), (sn_tensors){in, 2}, &out, 1);
    sn_autocast_set(SN_CPU, SN_F32);
    sn_tensor *const sum = sn_sum(sn_to(out, SN_F32));
    return sn_out(f, 0, first ? sn_add(sum, sn_sum(sn_to(first, SN_F32))) : sum);
}

/* The gradient of w. */
static sn_tensor *gradient(Asking *a, sn_compile_mode mode) {
    sn_function *const fn = sn_compile(body, a, SN_COMPILE_OPTIONS(.mode = mode));
    sn_tensor *const w = LEAF(2, 4, 4), *in[] = {LEAF(1, 2, 4), w}, *out = NULL;
    a->asked[0] = 0;
    ck_assert_msg(sn_call(fn, in, 2, &out, 1) == SN_OK, "%s", sn_error_take()->message);
    sn_backward(out);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    sn_function_free(fn);
    return sn_grad(w);
}

START_TEST(t8_a_policy_is_asked_of_each_cast) {
    for (int way = 0; way < 4; way++) {
        Asking eager = {.before = way & 1, .saves = way & 2}, fast = eager;
        sn_tensor *const want = gradient(&eager, SN_COMPILE_EAGER), *const got = gradient(&fast, SN_COMPILE_VERIFY);
        ck_assert_str_eq(eager.asked, "aten::_to_copy aten::_to_copy aten::mm aten::_to_copy aten::mm aten::sin ");
        ck_assert_str_eq(fast.asked, eager.asked);
        ck_assert(same_bits(want, got));
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        t8_a_policy_is_asked_of_each_cast,
    };
    return contract_main("test_checkpoint_policy", tests, (int)(sizeof tests / sizeof *tests));
}
