/* test_op_infer.c: sn_op_infer of described arguments: symbols, lists, forms that write, views, errors. That it says of
 * every row's samples what eager makes is a mode of test_ops (infer). */
#include <stdio.h>

#include "tests/unit/contract.h"

#define INFER(op, ...)                                                                                                 \
    infer(op, (const sn_value[]){__VA_ARGS__}, (int)(sizeof((sn_value[]){__VA_ARGS__}) / sizeof(sn_value)))
#define TYPE(text) sn_str(text)

static sn_inferred said[8];
static const char *assumed;

/* How many results; -1: an error is pending. */
static int infer(const char *op, const sn_value *in, int n) {
    int n_out = 8;
    return sn_op_infer(sn_op_find(op), in, n, said, &n_out, &assumed) == SN_OK ? n_out : -1;
}

static void expect(int n, const char *type, int alias_of) {
    ck_assert_msg(n == 1, "%d: %s", n, sn_error_take()->message);
    ck_assert_str_eq(said[0].type, type);
    ck_assert_int_eq(said[0].alias_of, alias_of);
}

START_TEST(sizes_are_expressions) {
    const sn_scope scope = sn_scope_begin();
    expect(INFER("aten::mm", TYPE("f32[s0,4]"), TYPE("f32[4,s1]")), "f32[s0,s1]", -1);
    ck_assert(said[0].rank == 2 && said[0].sizes[0] == -1 && said[0].strides[1] == 1 && said[0].dtype == SN_F32);
    ck_assert_str_eq(assumed, "");
    expect(INFER("aten::cat", TYPE("[f32[s0,4], f32[3,4], f32[s0,4]]"), sn_int(0)), "f32[s0*2+3,4]", -1);
    expect(INFER("aten::add.Tensor", TYPE("f16[s0,1]"), TYPE("f32[4]")), "f32[s0,4]", -1);
    expect(INFER("aten::sum.dim_IntList", TYPE("i32[s0,s1]"), sn_ints_value(SN_INTS(0))), "i64[s1]", -1);
    expect(INFER("aten::linear", TYPE("f32[s0,7,4]"), TYPE("f32[3,4]"), TYPE("f32[3]")), "f32[s0,7,3]", -1);
    expect(INFER("aten::zeros_like", TYPE("bf16[s0,2]@meta")), "bf16[s0,2]@meta", -1);
    /* two symbols that must be equal are taken to be, and that is said */
    expect(INFER("aten::add.Tensor", TYPE("f32[s0]"), TYPE("f32[s1]")), "f32[s0]", -1);
    ck_assert(strstr(assumed, "s0") && strstr(assumed, "s1") && strstr(assumed, "=="));
    sn_scope_end(scope);
}
END_TEST

START_TEST(views_and_writes_tell_whose_memory) {
    const sn_scope scope = sn_scope_begin();
    expect(INFER("aten::view", TYPE("f32[s0,4]"), TYPE("[4*s0]")), "f32[s0*4]", 0);
    expect(INFER("aten::slice.Tensor", TYPE("f32[10,4]"), sn_int(0), sn_int(2), sn_int(5)), "f32[3,4]", 0);
    ck_assert_int_eq(said[0].offset, 8);
    expect(INFER("aten::transpose.int", TYPE("f32[s0,4]"), sn_int(0), sn_int(1)), "f32[4,s0]{1,4}", 0);
    expect(INFER("aten::add_.Tensor", TYPE("f32[s0,4]"), TYPE("f32[4]")), "f32[s0,4]", 0);
    expect(INFER("aten::mul.out", TYPE("f32[3]"), TYPE("f32[3]"), TYPE("f32[3]")), "f32[3]", 2);
    expect(INFER("aten::add.out", TYPE("f32[3]"), TYPE("f32[3]"), TYPE("f32[s0]")), "f32[3]",
           2); /* alpha is left out */
    ck_assert_int_eq(INFER("aten::max.dim_max", TYPE("f32[3,4]"), sn_int(1), TYPE("f32[3]"), TYPE("i64[3]")), 2);
    ck_assert(said[0].alias_of == 2 && said[1].alias_of == 3);
    ck_assert_int_eq(INFER("aten::split.Tensor", TYPE("f32[10,2]"), sn_int(4)), 3);
    for (int i = 0; i < 3; i++) ck_assert(said[i].alias_of == 0 && said[i].offset == 8 * i);
    ck_assert_int_eq(said[2].sizes[0], 2);
    sn_scope_end(scope);
}
END_TEST

/* Tensors beside texts: of these the layout counts, and no values are read. */
START_TEST(tensors_and_texts_together) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = sn_t(F32(1, 3, 4));
    expect(INFER("aten::relu", sn_val(x)), "f32[4,3]{1,4}", -1);
    /* as_strided's offset counts from the storage's first element, whatever self's is */
    sn_tensor *const behind = sn_slice(F32(1, 3, 4), 0, 1, 3, 1);
    const sn_value places[] = {TYPE("[2]"), TYPE("[4]")};
    expect(INFER("aten::as_strided", sn_val(behind), places[0], places[1], sn_int(1)), "f32[2]{4}", 0);
    ck_assert_int_eq(said[0].offset, -3);
    expect(INFER("aten::as_strided", sn_val(behind), places[0], places[1]), "f32[2]{4}", 0);
    ck_assert_int_eq(said[0].offset, 0);
    /* rows and columns of none or one: strides that say nothing stay as PyTorch 2.15 has them */
    expect(INFER("aten::eye.m", sn_int(0), sn_int(1)), "f32[0,1]", -1);
    expect(INFER("aten::clone", TYPE("f32[1,1,1,4]{1,1,1,1}")), "f32[1,1,1,4]{1,1,1,1}", -1);
    /* class probabilities: products of all three */
    expect(INFER("aten::cross_entropy_loss", TYPE("bf16[s0,3]"), TYPE("bf16[s0,3]"), TYPE("f32[3]"), sn_int(0)),
           "f32[s0]", -1);
    expect(INFER("aten::cross_entropy_loss", TYPE("f16[4,3]"), TYPE("bf16[4,3]")), "f32[]", -1);
    expect(INFER("aten::einsum", sn_str("tanh"), TYPE("[f32[s0,1,1,1]]")), "f32[1,1,1,s0]{1,1,1,1}", -1);
    ck_assert_int_eq(
        INFER("aten::_prelu_kernel_backward", TYPE("f32[2,1]{1,2}"), TYPE("f32[2,1]{1,2}"), TYPE("f32[1]")), 2);
    ck_assert(!strcmp(said[0].type, "f32[2,1]{1,2}") && !strcmp(said[1].type, "f32[2,1]{1,2}"));
    ck_assert_int_eq(INFER("aten::binary_cross_entropy_backward", TYPE("f32[2]"), TYPE("i64[2]"), TYPE("i64[2]"),
                           sn_none(), sn_int(1)),
                     -1);
    expect_error(SN_ERR_DTYPE, "self must be floating point, not i64");
    expect(INFER("aten::mm", TYPE("f32[s0,4]"), sn_val(x)), "f32[s0,3]", -1);
    sn_tensor *const list[] = {x, x};
    expect(INFER("aten::stack", sn_tensors_value((sn_tensors){list, 2}), sn_int(0)), "f32[2,4,3]", -1);
    /* a number that was made a tensor is weaker in promotion */
    expect(INFER("aten::add.Tensor", TYPE("f16[2]"), sn_val(F32(1, 1))), "f32[2]", -1);
    expect(INFER("aten::index.Tensor", TYPE("f32[5,4]"), TYPE("[None, i64[3]]")), "f32[5,3]", -1);
    sn_scope_end(scope);
}
END_TEST

START_TEST(errors_are_the_ops) {
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(INFER("aten::mm", TYPE("f32[s0,4]"), TYPE("f32[5,3]")), -1);
    ck_assert_int_eq(sn_check(), SN_ERR_SHAPE);
    ck_assert(strstr(sn_error_take()->message, "mm"));
    ck_assert_int_eq(INFER("aten::mm", TYPE("f32[3,4]"), TYPE("i64[4,3]")), -1);
    ck_assert(strstr(sn_error_take()->message, "mm"));
    ck_assert_int_eq(INFER("aten::mm", TYPE("f32[3,4"), TYPE("f32[4,3]")), -1);
    expect_error(SN_ERR_ARGUMENT, "self is 'f32[3,4'");
    ck_assert_int_eq(INFER("aten::mm", TYPE("f32[3,4]")), -1);
    expect_error(SN_ERR_ARGUMENT, "mat2");
    ck_assert_int_eq(INFER("aten::view", TYPE("f32[3,4]"), TYPE("[3*]")), -1);
    expect_error(SN_ERR_ARGUMENT, "size is '3*'");
    ck_assert_int_eq(INFER("aten::view", TYPE("f32[3,4]"), TYPE("[2, 6]]")), -1);
    sn_error_take();
    ck_assert_int_eq(INFER("aten::cat", TYPE("[f32[2,3], int]"), sn_int(0)), -1);
    sn_error_take();
    int n = 2;
    const sn_value in[] = {sn_str("f32[10,2]"), sn_int(4)};
    ck_assert_int_ne(sn_op_infer(sn_op_find("aten::split.Tensor"), in, 2, said, &n, NULL), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "gives 3 results, there is room for 2");
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(sn_op_infer(NULL, in, 2, said, &n, NULL), SN_ERR_ARGUMENT);
    sn_error_take();
    ck_assert_int_eq(sn_op_infer(sn_op_find("aten::relu"), in, 1, said, NULL, NULL), SN_ERR_ARGUMENT);
    sn_error_take();
    ck_assert_int_eq(INFER("aten::item", TYPE("f32[1]")), -1);
    expect_error(SN_ERR_DTYPE, "aten::item: a graph has ints alone as numbers, and self is f32");
    ck_assert_int_eq(INFER("aten::item", TYPE("i64[1]")), -1);
    expect_error(SN_ERR_UNSUPPORTED, "sn_op_infer: aten::item: its number follows from values");
    ck_assert_int_eq(INFER("aten::nonzero", TYPE("f32[s0,4]")), -1);
    expect_error(SN_ERR_UNSUPPORTED, "aten::nonzero: sizes of its results follow from values");
    ck_assert_int_eq(INFER("aten::masked_select", TYPE("f32[6]"), TYPE("bool[6]")), -1);
    expect_error(SN_ERR_UNSUPPORTED, "aten::masked_select: sizes of its results follow from values");
    sn_scope_end(scope);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        sizes_are_expressions,
        views_and_writes_tell_whose_memory,
        tensors_and_texts_together,
        errors_are_the_ops,
    };
    return contract_main("test_op_infer", tests, (int)(sizeof tests / sizeof *tests));
}
