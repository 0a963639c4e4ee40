/* test_checkpoint_refused.c: what the body of a checkpoint may not do, since a second run would do it again, or since
 * its policy saves what it writes [semantics T6], is the same error where the body runs at once and where it is
 * recorded; and nothing of it has happened. */
#include <string.h>

#include "tests/unit/contract.h"

typedef struct Refused {
    const char *name;
    sn_body body;
    const char *says;
} Refused;

typedef struct Call {
    sn_tensor *leaf, *other; /* closed over */
    const Refused *row;
    bool saves; /* the policy */
} Call;

static sn_tensor *square(sn_frame *f) {
    const Call *const c = sn_closure(f);
    return sn_exp(sn_mul(sn_in(f, 0), c->leaf));
}

static sn_status writes_outside(sn_frame *f) {
    const Call *const c = sn_closure(f);
    sn_add_(c->other, sn_detach(square(f)));
    return sn_out(f, 0, square(f));
}

static sn_status writes_outside_by_out(sn_frame *f) {
    const Call *const c = sn_closure(f);
    sn_exp_out(c->other, sn_detach(sn_in(f, 0)));
    return sn_out(f, 0, square(f));
}

static sn_status writes_saved(sn_frame *f) { return sn_out(f, 0, sn_sin(sn_relu_(square(f)))); }

static sn_status goes_back(sn_frame *f) {
    sn_backward(sn_sum(square(f)));
    return sn_out(f, 0, square(f));
}

static sn_status sets_a_gradient(sn_frame *f) {
    const Call *const c = sn_closure(f);
    sn_grad_set(c->leaf, c->other);
    return sn_out(f, 0, square(f));
}

static const Refused rows[] = {
    {"in place", writes_outside,
     "aten::add_.Tensor: in the body of sn_checkpoint it would write a tensor from outside"},
    {"out form", writes_outside_by_out, "in the body of sn_checkpoint it would write a tensor from outside of that"},
    {"saved", writes_saved, "aten::relu_: it would write a result that the policy of sn_checkpoint saves"},
    {"backward", goes_back, "sn_backward: not in the body of sn_checkpoint, whose second run would do it again"},
    {"gradient", sets_a_gradient, "sn_grad_set: not in the body of sn_checkpoint, whose second run would do it again"},
};

static sn_checkpoint_choice save_all(void *context, const char *op) { return SN_CHECKPOINT_SAVE; }

static sn_status checkpoint(sn_frame *f) {
    Call *const c = sn_closure(f);
    sn_tensor *in[] = {sn_in(f, 0)}, *out = NULL;
    sn_checkpoint(c->row->body, c, SN_CHECKPOINT_OPTIONS(.policy = c->saves ? save_all : NULL), (sn_tensors){in, 1},
                  &out, 1);
    return sn_out(f, 0, out);
}

static void call(sn_function *fn, Call *c, const Refused *row, bool allowed) {
    sn_tensor *in[] = {F32(3, 2, 4)}, *out = NULL, *const before = sn_clone(c->other);
    c->row = row;
    c->saves = !strcmp(row->name, "saved") && !allowed;
    const sn_status status = sn_call(fn, in, 1, &out, 1);
    if (allowed) {
        ck_assert_msg(status == SN_OK, "%s: %s", row->name, sn_error_take()->message);
        return;
    }
    ck_assert_int_eq(status, SN_ERR_STATE);
    expect_error(SN_ERR_STATE, row->says);
    ck_assert(same_bits(c->other, before) && !sn_grad(c->leaf));
}

START_TEST(t6_what_a_second_run_would_do_again_is_the_same_error_at_once_and_recorded) {
    for (int k = 0; k < (int)(sizeof rows / sizeof *rows); k++)
        for (int mode = 0; mode < 3; mode++) {
            static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
            Call c = {.leaf = LEAF(1, 2, 4), .other = F32(2, 2, 4)};
            sn_function *const fn = sn_compile(checkpoint, &c, SN_COMPILE_OPTIONS(.mode = modes[mode]));
            for (int i = 0; i < 3; i++) call(fn, &c, &rows[k], false);
            sn_function_free(fn);
        }
}
END_TEST

START_TEST(t6_what_no_policy_saves_the_body_may_write) {
    Call c = {.leaf = LEAF(1, 2, 4), .other = F32(2, 2, 4)};
    sn_function *const fn = sn_compile(checkpoint, &c, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_VERIFY));
    for (int i = 0; i < 3; i++) call(fn, &c, &rows[2], true);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        t6_what_a_second_run_would_do_again_is_the_same_error_at_once_and_recorded,
        t6_what_no_policy_saves_the_body_may_write,
    };
    return contract_main("test_checkpoint_refused", tests, (int)(sizeof tests / sizeof *tests));
}
