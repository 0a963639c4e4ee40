/* test_op_check.c: sn_op_check: good ops pass, and each of these wrong ones fails with its reason. */
#include "tests/unit/contract.h"

static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_contiguous(sn_in(f, 0)))); }
static sn_status doubled(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_contiguous(sn_in(f, 0)), sn_int(2))); }
static sn_status doubled_derivative(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_int(2)));
}
static sn_status cubed(sn_frame *f) {
    sn_tensor *const x = sn_contiguous(sn_in(f, 0));
    return sn_out(f, 0, sn_mul(sn_mul(x, x), x));
}
static sn_status cubed_derivative(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_mul_scalar(sn_mul(x, x), sn_int(3))));
}

static void expect_passes(const sn_op *op, const sn_op_sample *samples, int n) {
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    const sn_status status = sn_op_check(op, samples, n);
    ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
}
static void passes(const sn_op_desc *desc) { expect_passes(sn_op_register(desc), NULL, 0); }

static void fails(const sn_op_desc *desc, const char *says) {
    const sn_op *const op = sn_op_register(desc);
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    ck_assert_msg(sn_op_check(op, NULL, 0) != SN_OK, "%s passes", desc->schema);
    const sn_error *const error = sn_error_take();
    ck_assert_msg(strstr(error->message, says) != NULL, "'%s' is not in: %s", says, error->message);
}
#define PASSES(...)      passes(SN_OP_DESC(__VA_ARGS__))
#define FAILS(says, ...) fails(SN_OP_DESC(__VA_ARGS__), says)

/* good ones ----------------------------------------------------------------------------------- */

static sn_status add_into(sn_frame *f) { return sn_add_(sn_in(f, 0), sn_in(f, 1)) ? SN_OK : sn_check(); }
static sn_status in_parts(sn_frame *f) { return sn_out(f, 0, sn_sigmoid(sn_mul(sn_in(f, 0), sn_in(f, 1)))); }
static sn_status gate_derivative(sn_frame *f) { /* x y + by */
    sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_in(f, 1)));
    return sn_set_grad_of(f, 1, sn_mul(sn_grad_of(f, 0), sn_in(f, 0)));
}

static sn_status triple_in_place(sn_frame *f) {
    return sn_mul_scalar_(sn_in(f, 0), sn_int(3)) ? sn_out(f, 0, sn_in(f, 0)) : sn_check();
}
static sn_status triple_derivative(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_int(3)));
}

START_TEST(a6_09_good_ops_pass) {
    PASSES(.schema = "good::triple_(Tensor(a!) x) -> Tensor(a!)", .flags = SN_OP_PURE, .cpu = triple_in_place,
           .derivative = triple_derivative);
    PASSES(.schema = "good::cube(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = like, .cpu = cubed,
           .derivative = cubed_derivative, .saves = "x");
    PASSES(.schema = "good::twice(Tensor x) -> Tensor", .cpu = doubled, .derivative = doubled_derivative,
           .autocast = SN_CAST_LOWER);
    PASSES(.schema = "good::parts(Tensor x, Tensor y) -> Tensor", .decomposition = in_parts);
    PASSES(.schema = "good::into_(Tensor(a!) x, Tensor y) -> ()", .flags = SN_OP_PURE, .cpu = add_into);
    PASSES(.schema = "good::gate(Tensor x, Tensor y, float by=0.5) -> Tensor", .scalar = "x * y + by",
           .derivative = gate_derivative, .saves = "x, y");
    const sn_value in[] = {sn_val(F32(1, 4, 5)), sn_val(F32(2, 5, 3))};
    const sn_op_sample sample = {in, 2};
    expect_passes(sn_op_find("aten::mm"), &sample, 1);
}
END_TEST

/* wrong ones ---------------------------------------------------------------------------------- */

static sn_status writes_x(sn_frame *f) { return sn_out(f, 0, sn_clone(sn_add_scalar_(sn_in(f, 0), sn_int(1)))); }
static sn_status shows_x(sn_frame *f) { return sn_out(f, 0, sn_view(sn_in(f, 0), SN_INTS(-1))); }
static sn_status gives_one_twice(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    sn_out(f, 0, y);
    return sn_out(f, 1, sn_view(y, SN_INTS(-1)));
}
static sn_status meta_of_doubles(sn_frame *f) { return sn_out(f, 0, sn_to_copy(sn_in(f, 0), SN_F64)); }
static sn_status meta_flat(sn_frame *f) { return sn_out(f, 0, sn_view(sn_empty_like(sn_in(f, 0)), SN_INTS(-1))); }
static sn_status half_derivative(sn_frame *f) { return sn_set_grad_of(f, 0, sn_grad_of(f, 0)); }
static sn_status detached_derivative(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_detach(sn_grad_of(f, 0)), sn_float(2)));
}
static sn_status constant_derivative(sn_frame *f) { /* right once, but x is no longer part of it */
    sn_tensor *const x = sn_detach(sn_in(f, 0));
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_mul_scalar(sn_mul(x, x), sn_int(3))));
}
static sn_status counts(sn_frame *f) {
    static int calls;
    return sn_out(f, 0, sn_add_scalar(sn_contiguous(sn_in(f, 0)), sn_int(++calls)));
}
/* By address, in the order of memory. */
static sn_status copy_flat(sn_frame *f, bool (*refuses)(sn_tensor *x)) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_empty(sn_sizes(x), SN_F32);
    if (refuses(x)) return sn_fail(SN_ERR_UNSUPPORTED, "not in this layout");
    memcpy(sn_data_raw(y), sn_data_raw(x), (size_t)sn_numel(x) * sizeof(float));
    return sn_out(f, 0, y);
}
static bool is_dense(sn_tensor *x) { /* each element of the numel behind the first */
    int64_t reach = 0;
    for (int d = 0; d < sn_rank(x); d++) reach += (sn_size(x, d) - 1) * sn_strides(x).data[d];
    return reach == sn_numel(x) - 1;
}
static bool refuses_gaps(sn_tensor *x) { return !is_dense(x); }
static bool refuses_exchanged(sn_tensor *x) { return sn_rank(x) < 4 && is_dense(x) && !sn_is_contiguous(x); }
static bool refuses_all_but_gaps(sn_tensor *x) {
    return !sn_is_contiguous(x) && !(sn_rank(x) == 1 && sn_strides(x).data[0] == 2);
}
static bool refuses_all_but_channels_last(sn_tensor *x) {
    return !sn_is_contiguous(x) && (sn_rank(x) < 4 || sn_strides(x).data[1] != 1);
}
static bool refuses_all_but_overlap(sn_tensor *x) { return !sn_is_contiguous(x) && sn_strides(x).data[0] != 0; }
static sn_status of_gaps(sn_frame *f) { return copy_flat(f, refuses_all_but_gaps); }
static sn_status of_channels_last(sn_frame *f) { return copy_flat(f, refuses_all_but_channels_last); }
static sn_status of_overlap(sn_frame *f) { return copy_flat(f, refuses_all_but_overlap); }
static sn_status refuses_both(sn_frame *f) {
    return refuses_exchanged(sn_in(f, 0)) ? sn_fail(SN_ERR_UNSUPPORTED, "exchanged") : copy_flat(f, refuses_gaps);
}
static sn_status ignores_offset(sn_frame *f) { /* it walks the storage, not the tensor */
    sn_tensor *const x = sn_contiguous(sn_in(f, 0)), *const y = sn_empty(sn_sizes(x), SN_F32);
    const float *const start = (const float *)sn_data_raw(x) - sn_storage_offset(x);
    memcpy(sn_data_raw(y), start, (size_t)sn_numel(x) * sizeof(float));
    return sn_out(f, 0, y);
}

static void expect_layouts(void) {
    FAILS("strides (sample 1): result 0 has other bits for the same values with gaps between them",
          .schema = "bad::gaps(Tensor x) -> Tensor", .cpu = of_gaps);
    FAILS("strides (sample 4): result 0 has other bits for the same values in channels_last",
          .schema = "bad::channels(Tensor x) -> Tensor", .cpu = of_channels_last);
    FAILS("strides (sample 0): result 0 has other bits for the same values where rows share their memory",
          .schema = "bad::overlap(Tensor x) -> Tensor", .cpu = of_overlap);
    FAILS("strides (sample 4)", .schema = "bad::both(Tensor x) -> Tensor", .cpu = refuses_both);
    FAILS("strides (sample 0): result 0 has other bits for the same values behind others in their storage",
          .schema = "bad::offset(Tensor x) -> Tensor", .cpu = ignores_offset);
}

static sn_status ignores_strides(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_empty(sn_sizes(x), SN_F32);
    const float *const from = sn_data_raw(x);
    float *const to = sn_data_mut(y, SN_F32);
    for (int64_t i = 0; from && to && i < sn_numel(x); i++) to[i] = 2 * from[i];
    return sn_out(f, 0, y);
}
static sn_status for_f32_only(sn_frame *f) {
    SN_REQUIRE(sn_dtype_of(sn_in(f, 0)) == SN_F32, SN_ERR_DTYPE, "x must be f32");
    return doubled(f);
}
static sn_status adds_into_a_copy(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 1))); }
static sn_status sets_nothing(sn_frame *f) { return f ? SN_OK : SN_ERR_INTERNAL; }
static sn_status tripled(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_int(3))); }

START_TEST(a6_09_ten_wrong_ops_fail_with_their_reason) {
    FAILS("bad::writes: mutation (sample 0): argument 'x' was written, which the schema does not say: Tensor(a!) x",
          .schema = "bad::writes(Tensor x) -> Tensor", .cpu = writes_x);
    FAILS("bad::view: aliasing (sample 0): result 0 shows the memory of argument 'x'",
          .schema = "bad::view(Tensor x) -> Tensor", .cpu = shows_x);
    FAILS("bad::pair: aliasing (sample 0): results 0 and 1 show the same memory",
          .schema = "bad::pair(Tensor x) -> (Tensor, Tensor)", .cpu = gives_one_twice);
    FAILS("bad::into_: aliasing (sample 0): result 0 is not argument 'x', as the schema says",
          .schema = "bad::into_(Tensor(a!) x, Tensor y) -> Tensor(a!)", .cpu = adds_into_a_copy);
    FAILS("bad::dtype: meta (sample 0): the meta rule says something else: bad::dtype: its kernel returned f32[3,4]",
          .schema = "bad::dtype(Tensor x) -> Tensor", .meta = meta_of_doubles, .cpu = doubled);
    FAILS("where its meta rule said f32[12]", .schema = "bad::sizes(Tensor x) -> Tensor", .meta = meta_flat,
          .cpu = doubled);
    FAILS("bad::slope: derivative (sample 0): the gradient of 'x' is", .schema = "bad::slope(Tensor x) -> Tensor",
          .cpu = doubled, .derivative = half_derivative);
    FAILS("bad::steep_: derivative (sample 0): the gradient of 'x' is", .flags = SN_OP_PURE, .cpu = triple_in_place,
          .schema = "bad::steep_(Tensor(a!) x) -> Tensor(a!)", .derivative = half_derivative);
    FAILS(
        "bad::cut: second derivative (sample 0): the derivative's own gradient along the gradients that come in is 0, "
        "and not the derivative, which is linear in them: ",
        .schema = "bad::cut(Tensor x) -> Tensor", .cpu = doubled, .derivative = detached_derivative);
    FAILS("bad::once: second derivative (sample 0): the derivative's own gradient of 'x' is 0, by central differences",
          .schema = "bad::once(Tensor x) -> Tensor", .cpu = cubed, .derivative = constant_derivative, .saves = "x");
    FAILS("bad::counts: pure (sample 0): result 0 has other bits in a second call", .flags = SN_OP_PURE,
          .schema = "bad::counts(Tensor x) -> Tensor", .meta = like, .cpu = counts);
    expect_layouts();
    FAILS("bad::strides: strides (sample 0): result 0 has other bits for the same values in other strides",
          .schema = "bad::strides(Tensor x) -> Tensor", .cpu = ignores_strides);
    FAILS("bad::cast: autocast (sample 0): the kernel refuses what the policy casts to: bad::cast: x must be f32",
          .schema = "bad::cast(Tensor x) -> Tensor", .cpu = for_f32_only, .autocast = SN_CAST_LOWER);
    FAILS("bad::parts: parts (sample 0): result 0 has other bits by the kernel than by the decomposition",
          .schema = "bad::parts(Tensor x) -> Tensor", .cpu = doubled, .decomposition = tripled);
    FAILS("bad::call: call (sample 0): the call failed: bad::call: the callback set no output 0",
          .schema = "bad::call(Tensor x) -> Tensor", .cpu = sets_nothing);
}
END_TEST

/* The caller's modes are not the check's, and are as they were behind it. */
START_TEST(a6_09_an_op_is_checked_in_modes_of_the_checks_own) {
    static const sn_grad_mode modes[2] = {SN_GRAD_OFF, SN_INFERENCE};
    for (int i = 0; i < 2; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_grad_mode_set(modes[i]);
        sn_autocast_set(SN_CPU, SN_BF16);
        sn_stance_set(i ? SN_STANCE_FORCE_EAGER : SN_STANCE_FAIL_ON_RECOMPILE);
        const sn_value in[] = {sn_val(F32(i, 3, 4))};
        const sn_op_sample sample = {in, 1};
        expect_passes(sn_op_find("aten::silu"), &sample, 1);
        expect_passes(sn_op_find("aten::silu"), NULL, 0);
        ck_assert_int_eq(sn_autocast_get(SN_CPU), SN_BF16);
        ck_assert_int_eq(sn_stance_set(SN_STANCE_DEFAULT), i ? SN_STANCE_FORCE_EAGER : SN_STANCE_FAIL_ON_RECOMPILE);
        ck_assert_int_eq(sn_grad_mode_set(SN_GRAD_ON), modes[i]);
        sn_scope_end(scope);
    }
}
END_TEST

static sn_status counts_and_writes(sn_frame *f) {
    sn_add_scalar_(sn_in(f, 0), sn_int(1));
    return counts(f);
}

/* But its other rules hold. */
START_TEST(a6_09_an_op_with_a_state_is_not_held_to_its_bits) {
    expect_passes(sn_op_register(SN_OP_DESC(.schema = "state::ordered(Tensor x) -> Tensor", .flags = SN_OP_ORDERED,
                                            .meta = like, .cpu = counts)),
                  NULL, 0);
    expect_passes(sn_op_register(SN_OP_DESC(.schema = "state::plain(Tensor x) -> Tensor", .cpu = counts)), NULL, 0);
    FAILS("state::writes: mutation (sample 0): argument 'x' was written", .flags = SN_OP_ORDERED,
          .schema = "state::writes(Tensor x) -> Tensor", .meta = like, .cpu = counts_and_writes);
}
END_TEST

START_TEST(a6_09_wrong_arguments_are_told) {
    ck_assert_int_eq(sn_op_check(NULL, NULL, 0), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_op_check: the op or its samples are NULL");
    ck_assert_int_eq(sn_op_check(sn_op_find("aten::add_.Tensor"), NULL, 0), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "no functional op");
    ck_assert_int_eq(sn_op_check(sn_op_find("aten::cat"), NULL, 0), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "give samples: there is none for 'tensors'");
    sn_value in[20] = {{0}};
    const sn_op_sample sample = {in, 20};
    ck_assert_int_eq(sn_op_check(sn_op_find("aten::relu"), &sample, 1), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sample 0 has 20 values for 1 parameters");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a6_09_good_ops_pass,
        a6_09_ten_wrong_ops_fail_with_their_reason,
        a6_09_an_op_is_checked_in_modes_of_the_checks_own,
        a6_09_an_op_with_a_state_is_not_held_to_its_bits,
        a6_09_wrong_arguments_are_told,
    };
    return contract_main("test_op_check", tests, (int)(sizeof tests / sizeof *tests));
}
