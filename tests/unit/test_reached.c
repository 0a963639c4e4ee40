/* test_reached.c: which tensors a backward gives gradients to, and which it leaves without, where results and what is
 * asked for (output_mask) decide it. The table is PyTorch's (2.15: None, not zeros, for what the results whose
 * gradients there are do not depend on); eagerly, in a compiled function, and behind one. */
#include <string.h>

#include "runtime/base/bail.h"
#include "tests/unit/contract.h"

enum { GRAD = 1, INPUT = 2, WEIGHT = 4 };

typedef struct ReachRow {
    const char *op;
    bool train;
    int by[3]; /* by result: what its gradient leads to */
} ReachRow;
static const ReachRow rows[] = {
    {"aten::native_batch_norm_backward", false, {GRAD | WEIGHT, GRAD | INPUT, GRAD}},
    {"aten::native_batch_norm_backward", true, {GRAD | INPUT | WEIGHT, GRAD | INPUT, GRAD}},
    {"aten::convolution_backward", false, {GRAD | WEIGHT, GRAD | INPUT, GRAD}},
};

typedef struct Reached {
    const ReachRow *row;
    int asked, roots; /* bits of results */
    bool inside;      /* the backward is in the function */
} Reached;

static sn_tensor *some(sn_ints sizes) { return sn_add_scalar(sn_rand(sizes, SN_F32), sn_float(0.5)); }

static int norm_args(const Reached *r, sn_frame *f, const int64_t *mask, sn_value *in) {
    const sn_value args[] = {sn_val(sn_in(f, 0)), sn_val(sn_in(f, 1)),
                             sn_val(sn_in(f, 2)), sn_val(sn_in(f, 3)),
                             sn_val(sn_in(f, 4)), sn_val(sn_in(f, 3)),
                             sn_val(sn_in(f, 4)), sn_bool(r->row->train),
                             sn_float(1e-5),      {.kind = SN_KIND_INTS, .n = 3, .ints = mask}};
    memcpy(in, args, sizeof args);
    return 10;
}

static int convolution_args(sn_frame *f, const int64_t *mask, sn_value *in) {
    static const int64_t one = 1, zero = 0, channels = 3;
    const sn_value list = {.kind = SN_KIND_INTS, .n = 1, .ints = &one};
    const sn_value args[] = {sn_val(sn_in(f, 0)),
                             sn_val(sn_in(f, 1)),
                             sn_val(sn_in(f, 2)),
                             {.kind = SN_KIND_INTS, .n = 1, .ints = &channels},
                             list,
                             {.kind = SN_KIND_INTS, .n = 1, .ints = &zero},
                             list,
                             sn_bool(false),
                             {.kind = SN_KIND_INTS, .n = 1, .ints = &zero},
                             sn_int(1),
                             {.kind = SN_KIND_INTS, .n = 3, .ints = mask}};
    memcpy(in, args, sizeof args);
    return 11;
}

static sn_status body(sn_frame *f) {
    const Reached *const r = sn_closure(f);
    const int64_t mask[] = {r->asked & 1, r->asked >> 1 & 1, r->asked >> 2 & 1};
    sn_value in[16], out[3];
    int n_out = 3;
    const bool norm = r->row != &rows[2];
    const int n = norm ? norm_args(r, f, mask, in) : convolution_args(f, mask, in);
    if (sn_op_call(sn_op_find(r->row->op), in, n, out, &n_out) != SN_OK) return sn_check();
    sn_tensor *sum = NULL;
    for (int i = 0; i < 3; i++) {
        if (!(r->roots >> i & 1)) continue;
        sn_tensor *const part = sn_sum(out[i].tensor);
        sum = sum ? sn_add(sum, part) : part;
    }
    if (r->inside) sn_backward(sum);
    return sn_out(f, 0, sum);
}

static int wanted(const Reached *r) {
    int reached = 0;
    for (int i = 0; i < 3; i++)
        if (r->roots >> i & 1) reached |= r->row->by[i];
    return reached;
}

static void call_once(const Reached *r, sn_function *fn, sn_compile_mode mode) {
    const sn_scope scope = sn_scope_begin();
    const bool norm = r->row != &rows[2];
    sn_tensor *in[] = {some(SN_INTS(2, 3, 4)), some(SN_INTS(2, 3, 4)), norm ? some(SN_INTS(3)) : some(SN_INTS(3, 3, 1)),
                       some(SN_INTS(3)), some(SN_INTS(3))};
    sn_tensor *sum = NULL;
    int reached = 0;
    for (int i = 0; i < 3; i++) sn_requires_grad_(in[i], true);
    ck_assert_msg(sn_call(fn, in, 5, &sum, 1) == SN_OK, "%s: %s", r->row->op, sn_error_take()->message);
    if (!r->inside) sn_backward(sum);
    ck_assert_int_eq(sn_check(), SN_OK);
    for (int i = 0; i < 3; i++) reached |= sn_grad(in[i]) ? 1 << i : 0;
    ck_assert_msg(reached == wanted(r), "%s, train %d, asked for %d, roots %d, inside %d, mode %d: %d, not %d",
                  r->row->op, r->row->train, r->asked, r->roots, r->inside, (int)mode, reached, wanted(r));
    sn_scope_end(scope);
}

static void check_call(Reached *r) {
    static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY, SN_COMPILE_VERIFY};
    for (int m = 0; m < 3; m++) {
        const sn_dynamic dynamic = m == 2 ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_AUTO;
        sn_function *const fn = sn_compile(body, r, SN_COMPILE_OPTIONS(.mode = modes[m], .dynamic = dynamic));
        for (int i = 0; i < 2; i++) call_once(r, fn, modes[m]);
        sn_function_free(fn);
    }
}

START_TEST(gradients_come_by_some_results_alone) {
    failpoint_set("codegen");
    for (int row = 0; row < 3; row++)
        for (int asked = 1; asked < 8; asked++)
            for (int roots = asked; roots; roots = (roots - 1) & asked)
                for (int inside = 0; inside < 2; inside++) check_call(&(Reached){&rows[row], asked, roots, inside});
    failpoint_set("");
}
END_TEST

/* rules of the program's own --------------------------------------------------------------------- */

static sn_tensor *doubled(sn_frame *f) { return sn_mul_scalar(sn_grad_of(f, 0), sn_int(2)); }
static sn_status steer_derivative(sn_frame *f) { return sn_set_grad_of(f, 0, doubled(f)); }
/* Reads a value, which a graph cannot. */
static sn_status asks_derivative(sn_frame *f) {
    return sn_item(sn_sum(sn_grad_of(f, 0))) > -1e30 ? sn_set_grad_of(f, 1, doubled(f)) : sn_check();
}

/* A number decides. */
static sn_status either_derivative(sn_frame *f) { return sn_set_grad_of(f, (int)sn_in_int(f, 2), doubled(f)); }

typedef struct OwnRule {
    const char *op;
    int leaf; /* the one that gets a gradient */
    bool inside;
} OwnRule;

/* What leads to no gradient is not checked for writes either, nor used up. */
static sn_status own_body(sn_frame *f) {
    const OwnRule *const rule = sn_closure(f);
    sn_value in[] = {sn_val(sn_mul_scalar(sn_in(f, 0), sn_float(3))), sn_val(sn_mul_scalar(sn_in(f, 1), sn_float(3))),
                     sn_int(rule->leaf)};
    in[1 - rule->leaf] = sn_val(sn_sin(in[1 - rule->leaf].tensor));
    sn_tensor *const sum = sn_sum(sn_op_call1(sn_op_find(rule->op), in, 2 + !strcmp(rule->op, "reached::either")));
    if (rule->inside) sn_backward(sum);
    return sn_out(f, 0, sum);
}

static void call_rule(const OwnRule *rule, sn_function *fn, int way) {
    const sn_scope scope = sn_scope_begin();
    const int64_t n = 3 + way % 2;
    sn_tensor *in[] = {sn_requires_grad_(some(SN_INTS(n)), true), sn_requires_grad_(some(SN_INTS(n)), true)};
    sn_tensor *sum = NULL;
    ck_assert_msg(sn_call(fn, in, 2, &sum, 1) == SN_OK, "%s: %s", rule->op, sn_error_take()->message);
    if (!rule->inside) sn_backward(sum);
    ck_assert_msg(sn_check() == SN_OK, "%s, way %d: %s", rule->op, way, sn_error_take()->message);
    ck_assert_msg(sn_grad(in[rule->leaf]) && !sn_grad(in[1 - rule->leaf]), "%s, inside %d, way %d", rule->op,
                  rule->inside, way);
    ck_assert(same_bits(sn_grad(in[rule->leaf]), sn_full(SN_INTS(n), sn_float(6), SN_F32)));
    sn_scope_end(scope);
}

START_TEST(a_rule_of_the_programs_leaves_an_argument_without) {
    sn_op_register(SN_OP_DESC(.schema = "reached::steer(Tensor x, Tensor y) -> Tensor", .scalar = "x * 2 + floor(y)",
                              .derivative = steer_derivative));
    sn_op_register(SN_OP_DESC(.schema = "reached::asks(Tensor x, Tensor y) -> Tensor", .scalar = "y * 2 + floor(x)",
                              .derivative = asks_derivative));
    sn_op_register(SN_OP_DESC(.schema = "reached::either(Tensor x, Tensor y, int which) -> Tensor",
                              .scalar = "x * 2 + floor(y)", .derivative = either_derivative));
    ck_assert_int_eq(sn_check(), SN_OK);
    for (int way = 0; way < 24; way++) {
        const char *const own = way % 2 ? "reached::asks" : "reached::steer";
        OwnRule rule = {way < 12 ? own : "reached::either", way % 2, way / 2 % 2};
        const sn_compile_mode mode = way / 4 % 3 ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER;
        sn_function *const fn = sn_compile(
            own_body, &rule,
            SN_COMPILE_OPTIONS(.mode = mode, .dynamic = way / 4 % 3 == 2 ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_AUTO));
        for (int i = 0; i < 3; i++) call_rule(&rule, fn, way);
        if (way < 12 && way / 4 && !(way % 2))
            ck_assert_ptr_null(strstr(sn_explain(fn), "a backward that reaches outside"));
        sn_function_free(fn);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        gradients_come_by_some_results_alone,
        a_rule_of_the_programs_leaves_an_argument_without,
    };
    return contract_main("test_reached", tests, (int)(sizeof tests / sizeof *tests));
}
