/* test_optim_layouts.c: steps of optimizers over parameters that do not lie row-major: the bits are those of a
 * row-major one, eagerly, in a function that is the whole step, and behind one that is the forward alone; .grad and the
 * moments lie as those of torch do (as the parameter, row-major where that has gaps), the numbers are those of
 * torch.optim (2.15). */
#include <math.h>
#include <string.h>

#include <sinter/nn.h>

#include "tests/unit/contract.h"

enum { ITEMS = 24, STEPS = 3 };

static const struct Rule {
    const char *name;
    float want[5]; /* of elements 0, 5, 11, 12, 23 after the steps */
} rules[] = {
    {"sgd", {-2.2487664F, -1.420717F, -0.446105F, -0.2683143F, 1.9427648F}},
    {"adam", {-2.7004869F, -1.4516592F, -0.5460433F, -0.2980646F, 2.4503031F}},
    {"adamw", {-2.6573131F, -1.4274341F, -0.541613F, -0.2968218F, 2.4107904F}},
};

static sn_optim *optim_of(int rule, sn_dict *d) {
    return rule == 0 ? sn_sgd(d, 0.1, 0.9) : rule == 1 ? sn_adam(d, 0.1, 0.05) : sn_adamw(d, 0.1, 0.05);
}

static const struct Lay {
    const char *name;
    int64_t strides[4], grad[4]; /* of the parameter [1,2,3,4]; of its gradient and moments */
} lays[] = {
    {"row-major", {24, 12, 4, 1}, {24, 12, 4, 1}},
    {"channels last", {24, 1, 8, 2}, {24, 1, 8, 2}},
    {"transposed", {24, 12, 1, 3}, {24, 12, 1, 3}},
    {"with gaps", {96, 48, 16, 2}, {24, 12, 4, 1}},
};

static sn_tensor *laid_out(int lay) {
    float values[ITEMS];
    for (int i = 0; i < ITEMS; i++) values[i] = 0.25F * (float)i - 3;
    sn_tensor *const to =
        sn_as_strided(sn_zeros(SN_INTS(100), SN_F32), SN_INTS(1, 2, 3, 4), (sn_ints){lays[lay].strides, 4}, 0);
    return sn_detach(sn_copy_(to, sn_from_data(values, SN_INTS(1, 2, 3, 4), SN_F32)));
}

typedef struct Step {
    sn_dict *d;
    sn_optim *o;
    sn_tensor *w;
} Step;

static sn_tensor *loss_of(sn_tensor *w) {
    return sn_add(sn_sum(sn_mul_scalar(sn_mul(w, w), sn_float(0.25))),
                  sn_sum(sn_tanh(sn_mul_scalar(w, sn_float(0.5)))));
}
static sn_status forward(sn_frame *f) { return sn_out(f, 0, loss_of(((const Step *)sn_closure(f))->w)); }
static sn_status whole(sn_frame *f) {
    const Step *const s = sn_closure(f);
    sn_optim_zero_grad(s->o);
    sn_tensor *const loss = loss_of(s->w);
    sn_backward(loss);
    sn_optim_step(s->o);
    return sn_out(f, 0, loss);
}

enum { WAY_eager, WAY_whole, WAY_symbolic, WAY_forward, WAYS };

static void run_step(const Step *s, sn_function *fn, int way) {
    const sn_scope scope = sn_scope_begin();
    if (way == WAY_forward) sn_optim_zero_grad(s->o);
    sn_tensor *loss = NULL;
    ck_assert_msg(sn_call(fn, NULL, 0, &loss, 1) == SN_OK, "%s", sn_error_take()->message);
    if (way == WAY_forward) {
        sn_backward(loss);
        sn_optim_step(s->o);
    }
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    sn_scope_end(scope);
}

static void lies_so(sn_tensor *t, const int64_t *strides, const char *what, int lay, int way) {
    ck_assert_msg(t && !memcmp(sn_strides(t).data, strides, 4 * sizeof *strides), "%s, way %d: strides of %s",
                  lays[lay].name, way, what);
}

static void moments_lie_so(sn_dict *state, int rule, int lay, int way) {
    static const char *const names[][2] = {
        {"momentum.w", "momentum.w"}, {"exp_avg.w", "exp_avg_sq.w"}, {"exp_avg.w", "exp_avg_sq.w"}};
    for (int i = 0; i < 2; i++) lies_so(sn_dict_get(state, names[rule][i]), lays[lay].grad, names[rule][i], lay, way);
}

/* The parameter's values after the steps. */
static void train(int rule, int lay, int way, float *values) {
    Step s = {.d = sn_dict_new()};
    s.w = sn_param(s.d, "w", laid_out(lay));
    s.o = optim_of(rule, s.d);
    const sn_compile_options *const options =
        way == WAY_eager ? SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)
                         : SN_COMPILE_OPTIONS(.dynamic = way == WAY_symbolic ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_AUTO);
    sn_function *const fn = sn_compile(way == WAY_forward ? forward : whole, &s, options);
    for (int i = 0; i < STEPS; i++) run_step(&s, fn, way);
    lies_so(s.w, lays[lay].strides, "the parameter", lay, way);
    lies_so(sn_grad(s.w), lays[lay].grad, "its gradient", lay, way);
    moments_lie_so(sn_optim_dict(s.o), rule, lay, way);
    ck_assert_msg(sn_read(sn_contiguous(sn_detach(s.w)), values, ITEMS * sizeof *values) == SN_OK, "%s",
                  sn_error_take()->message);
    sn_function_free(fn);
    sn_optim_free(s.o);
    sn_dict_free(s.d);
}

START_TEST(a_step_has_the_bits_of_a_row_major_one) {
    static const int shown[] = {0, 5, 11, 12, 23};
    for (int rule = 0; rule < 3; rule++) {
        float want[ITEMS], got[ITEMS];
        train(rule, 0, WAY_eager, want);
        for (int i = 0; i < 5; i++)
            ck_assert_msg(fabsf(want[shown[i]] - rules[rule].want[i]) < 1e-6F, "%s [%d]: %.8g", rules[rule].name,
                          shown[i], (double)want[shown[i]]);
        for (int lay = 0; lay < 4; lay++)
            for (int way = 0; way < WAYS; way++) {
                train(rule, lay, way, got);
                ck_assert_msg(!memcmp(want, got, sizeof got), "%s, %s, way %d: other bits", rules[rule].name,
                              lays[lay].name, way);
            }
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a_step_has_the_bits_of_a_row_major_one,
    };
    return contract_main("test_optim_layouts", tests, (int)(sizeof tests / sizeof *tests));
}
