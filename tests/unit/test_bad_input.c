/* test_bad_input.c: wrong shapes, dtypes, NULLs, sizes that do not fit, indices out of range, text
 * that does not parse: a clear error that names op, argument and values; never an abort. Each row
 * runs eagerly and inside a compiled function. */
#include <stdio.h>

#include "ir/op.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/state.h"
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

typedef sn_tensor *Attempt(sn_tensor *x); /* x: f32[4,6] */

typedef struct Bad {
    const char *name;
    Attempt *attempt;
    sn_status status;
    const char *op, *says; /* parts of the error's op, and of its message */
} Bad;

#define BAD(name, expression)                                                                                          \
    static sn_tensor *name(sn_tensor *x) {                                                                             \
        (void)x;                                                                                                       \
        return expression;                                                                                             \
    }
enum { HUGE_SIZE = 1 << 30 };
#define WIDE (INT64_C(1) << 62)
static sn_tensor *ids(int64_t value) { return sn_from_data(&value, SN_INTS(1), SN_I64); }

BAD(shapes_differ, sn_add(x, F32(1, 4, 5)))
BAD(inner_sizes, sn_mm(x, x))
BAD(mm_rank, sn_mm(x, F32(1, 6)))
BAD(linear_sizes, sn_linear(x, F32(1, 3, 5), NULL))
BAD(view_sizes, sn_view(x, SN_INTS(5, 5)))
BAD(two_unknown, sn_view(x, SN_INTS(-1, -1)))
BAD(negative_view, sn_view(x, SN_INTS(-2, 12)))
BAD(dim_range, sn_sum_dim(x, SN_INTS(2), false))
BAD(dim_twice, sn_sum_dim(x, SN_INTS(0, 0), false))
BAD(softmax_dim, sn_softmax(x, -3))
BAD(transpose_dim, sn_transpose(x, 0, 7))
BAD(permute_twice, sn_permute(x, SN_INTS(1, 1)))
BAD(select_range, sn_select(x, 0, 4))
BAD(narrow_range, sn_narrow(x, 1, 4, 3))
BAD(slice_step, sn_slice(x, 0, 0, 4, 0))
BAD(expand_sizes, sn_expand(x, SN_INTS(5, 6)))
BAD(cat_sizes, sn_cat(SN_TENSORS(x, F32(1, 3, 5)), 0))
BAD(cat_nothing, sn_cat((sn_tensors){0}, 0))
BAD(null_second, sn_add(x, NULL))
BAD(null_first, sn_mul(NULL, x))
BAD(null_in_list, sn_cat(SN_TENSORS(x, NULL), 0))
BAD(index_dtype, sn_index_select(x, 0, F32(1, 2)))
BAD(mm_dtype, sn_mm(x, sn_to(F32(1, 6, 2), SN_F64)))
BAD(bits_of_float, sn_bitwise_and(x, x))
BAD(index_range, sn_index_select(x, 0, ids(4)))
BAD(index_negative, sn_index_select(x, 1, ids(-1)))
BAD(embedding_range, sn_embedding(x, ids(100)))
BAD(class_range, sn_nll_loss(sn_narrow(x, 0, 0, 1), ids(6)))
BAD(index_add_range, sn_index_add(x, 0, ids(9), sn_narrow(x, 0, 0, 1)))
BAD(in_place_shape, sn_add_(sn_clone(F32(1, 6)), x))
BAD(in_place_dtype, sn_add_(sn_zeros(SN_INTS(4, 6), SN_I64), x))
BAD(addcdiv_ints, sn_addcdiv(x, sn_zeros(SN_INTS(4, 6), SN_I64), sn_ones(SN_INTS(4, 6), SN_I32)))
BAD(norm_shape, sn_layer_norm(x, SN_INTS(5), NULL, NULL))
BAD(dropout_p, sn_dropout(x, 1.5, true))
BAD(gelu_mode, sn_gelu_ex(x, "sideways"))
BAD(huge_expand, sn_expand(sn_view(sn_full(SN_INTS(1), sn_float(1), SN_F32), SN_INTS(1, 1, 1)),
                           SN_INTS(HUGE_SIZE, HUGE_SIZE, HUGE_SIZE)))
BAD(huge_zeros, sn_zeros(SN_INTS(HUGE_SIZE, HUGE_SIZE, HUGE_SIZE), SN_F32))
BAD(huge_bytes, sn_zeros(SN_INTS(INT64_MAX / 2), SN_F32))
BAD(huge_strides, sn_zeros(SN_INTS(0, WIDE, WIDE), SN_F32))
BAD(huge_empty_expand, sn_expand(sn_zeros(SN_INTS(0, 1, 1), SN_F32), SN_INTS(0, WIDE, WIDE)))
BAD(huge_empty_product, sn_bmm(sn_zeros(SN_INTS(0, WIDE, 0), SN_F32), sn_zeros(SN_INTS(0, 0, WIDE), SN_F32)))
BAD(huge_repeat, sn_repeat(x, SN_INTS(WIDE, WIDE)))
BAD(long_sizes, sn_zeros((sn_ints){SN_INTS(1).data, INT64_C(1) << 33}, SN_F32))
BAD(long_dims, sn_sum_dim(x, (sn_ints){SN_INTS(1).data, INT64_C(1) << 33}, false))
BAD(long_tensors, sn_cat((sn_tensors){&x, INT64_C(1) << 33}, 0))
BAD(negative_size, sn_zeros(SN_INTS(3, -2), SN_F32))
BAD(unknown_dtype, sn_to(x, (sn_dtype)99))
static sn_tensor *number_as_self(const char *op) {
    const sn_value numbers[] = {sn_float(1.5), sn_float(2)};
    return sn_op_call1(sn_op_find(op), numbers, strstr(op, "add") ? 2 : 1);
}
BAD(written_number, number_as_self("aten::relu_"))
BAD(written_number_of_two, number_as_self("aten::add_.Tensor"))
BAD(bits_of_no_dtype, sn_view_dtype(x, SN_DTYPE_DEFAULT))
BAD(far_view, sn_as_strided(x, SN_INTS(4), SN_INTS(1), INT64_MAX - 3))
BAD(far_element, sn_as_strided(x, SN_INTS(1), SN_INTS(1), INT64_C(1) << 62))
BAD(far_out, sn_add_out(sn_as_strided(sn_clone(x), SN_INTS(0), SN_INTS(1), INT64_MAX - 3), x, x))
BAD(gelu_null, sn_gelu_ex(x, NULL))
BAD(huge_step, sn_slice(x, 0, 1, INT64_MAX, INT64_MAX - 1))
BAD(huge_unfold, sn_unfold(x, 0, 1, INT64_MAX))
BAD(huge_length, sn_narrow(x, 0, 3, INT64_MAX))
BAD(huge_start, sn_narrow(x, 0, INT64_MAX, 2))
BAD(huge_pad, sn_constant_pad_nd(x, SN_INTS(INT64_MAX, INT64_MAX), sn_int(0)))
BAD(huge_cut, sn_constant_pad_nd(x, SN_INTS(1, -1, INT64_MAX, -INT64_MAX), sn_int(0)))
BAD(cut_past_the_end, sn_constant_pad_nd(x, SN_INTS(3, -7), sn_int(0)))
BAD(unknown_format, sn_contiguous_ex(x, sn_int(77)))
BAD(unknown_kind, sn_add_scalar(x, (sn_scalar){.kind = 99}))
BAD(graph_kind, sn_add_scalar(x, (sn_scalar){.kind = SN_KIND_TENSORS + 1}))

static const Bad rows[] = {
    {"shapes differ", shapes_differ, SN_ERR_SHAPE, "add", "5"},
    {"inner sizes of mm", inner_sizes, SN_ERR_SHAPE, "mm", "6"},
    {"rank of mm", mm_rank, SN_ERR_SHAPE, "mm", "2"},
    {"sizes of linear", linear_sizes, SN_ERR_SHAPE, "", "5"},
    {"sizes of view", view_sizes, SN_ERR_SHAPE, "view", "5"},
    {"two unknown sizes", two_unknown, SN_ERR_ARGUMENT, "view", "-1"},
    {"a negative size of view", negative_view, SN_ERR_ARGUMENT, "view", "-2"},
    {"a dim of sum", dim_range, SN_ERR_ARGUMENT, "sum", "2"},
    {"a dim twice", dim_twice, SN_ERR_ARGUMENT, "sum", "0"},
    {"a dim of softmax", softmax_dim, SN_ERR_ARGUMENT, "softmax", "-3"},
    {"a dim of transpose", transpose_dim, SN_ERR_ARGUMENT, "transpose", "7"},
    {"permute with a dim twice", permute_twice, SN_ERR_ARGUMENT, "permute", "1"},
    {"an index of select", select_range, SN_ERR_VALUE, "select", "4"},
    {"a range of narrow", narrow_range, SN_ERR_VALUE, "narrow", "3"},
    {"a step of 0", slice_step, SN_ERR_VALUE, "slice", "0"},
    {"sizes of expand", expand_sizes, SN_ERR_SHAPE, "expand", "5"},
    {"sizes of cat", cat_sizes, SN_ERR_SHAPE, "cat", "5"},
    {"cat of nothing", cat_nothing, SN_ERR_ARGUMENT, "cat", "tensors"},
    {"NULL for other", null_second, SN_ERR_ARGUMENT, "add", "other"},
    {"NULL for self", null_first, SN_ERR_ARGUMENT, "mul", "self"},
    {"NULL in a list", null_in_list, SN_ERR_ARGUMENT, "cat", "tensors"},
    {"float indices", index_dtype, SN_ERR_DTYPE, "index_select", "f32"},
    {"dtypes of mm", mm_dtype, SN_ERR_DTYPE, "mm", "f64"},
    {"bits of floats", bits_of_float, SN_ERR_DTYPE, "bitwise_and", "f32"},
    {"an index out of range", index_range, SN_ERR_VALUE, "index_select",
     "aten::index_select: index 4 is out of range for 4 elements"},
    {"a negative index", index_negative, SN_ERR_VALUE, "index_select", "index -1 is"},
    {"an embedding out of range", embedding_range, SN_ERR_VALUE, "embedding",
     "aten::embedding: indices 100 is out of range for 4 elements"},
    {"a class out of range", class_range, SN_ERR_VALUE, "nll_loss",
     "aten::nll_loss_forward: target 6 is out of range for 6 classes"},
    {"rows of index_add", index_add_range, SN_ERR_VALUE, "index_add",
     "aten::index_add: index 9 is out of range for 4 elements of dim 0"},
    {"in place, a larger result", in_place_shape, SN_ERR_SHAPE, "add_", "4"},
    {"in place, floats to ints", in_place_dtype, SN_ERR_DTYPE, "add_", "i64"},
    {"addcdiv of ints", addcdiv_ints, SN_ERR_DTYPE, "addcdiv", "tensor1 and tensor2 are i64 and i32"},
    {"a normalized shape", norm_shape, SN_ERR_SHAPE, "layer_norm", "5"},
    {"a probability of 1.5", dropout_p, SN_ERR_VALUE, "dropout", "1.5"},
    {"an unknown approximation", gelu_mode, SN_ERR_ARGUMENT, "gelu", "sideways"},
    {"an expand that overflows", huge_expand, SN_ERR_SHAPE, "expand", "1073741824"},
    {"zeros that overflow", huge_zeros, SN_ERR_SHAPE, "zeros", "1073741824"},
    {"bytes that overflow", huge_bytes, SN_ERR_SHAPE, "zeros", "4611686018427387903"},
    {"strides that overflow", huge_strides, SN_ERR_SHAPE, "zeros",
     "the strides of [0, 4611686018427387904, 4611686018427387904] overflow"},
    {"strides of an expand", huge_empty_expand, SN_ERR_SHAPE, "expand",
     "the strides of [0, 4611686018427387904, 4611686018427387904] overflow"},
    {"strides of a product", huge_empty_product, SN_ERR_SHAPE, "bmm",
     "[0,4611686018427387904,4611686018427387904] does not fit"},
    {"repeats that overflow", huge_repeat, SN_ERR_SHAPE, "repeat",
     "aten::repeat: repeats [4611686018427387904, 4611686018427387904] of self [4, 6]"},
    {"a size list of 2^33", long_sizes, SN_ERR_ARGUMENT, "zeros", "size is a list whose count does not fit 32 bits"},
    {"a dim list of 2^33", long_dims, SN_ERR_ARGUMENT, "sum", "dim is a list whose count does not fit 32 bits"},
    {"a tensor list of 2^33", long_tensors, SN_ERR_ARGUMENT, "cat",
     "tensors is a list whose count does not fit 32 bits"},
    {"a negative size", negative_size, SN_ERR_SHAPE, "zeros", "-2"},
    {"an unknown dtype", unknown_dtype, SN_ERR_ARGUMENT, "to", "99"},
    {"a number that would be written", written_number, SN_ERR_ARGUMENT, "relu_", "self must be a Tensor"},
    {"a number that would be added to", written_number_of_two, SN_ERR_ARGUMENT, "add_.Tensor", "self"},
    {"bits as no dtype", bits_of_no_dtype, SN_ERR_ARGUMENT, "view.dtype", "dtype is no dtype: 0"},
    {"a view past any address", far_view, SN_ERR_VALUE, "as_strided",
     "the view ends 36893488147419103232 bytes into a storage"},
    {"an element past any address", far_element, SN_ERR_VALUE, "as_strided",
     "the view ends 18446744073709551616 bytes into a storage"},
    {"an out tensor past any address", far_out, SN_ERR_VALUE, "add", "9223372036854775804"},
    {"a NULL string", gelu_null, SN_ERR_ARGUMENT, "gelu", "aten::gelu: approximate is missing"},
    {"a step that overflows", huge_step, SN_ERR_VALUE, "slice", "step 9223372036854775806"},
    {"windows that overflow", huge_unfold, SN_ERR_VALUE, "unfold", "step 9223372036854775807"},
    {"a length that overflows", huge_length, SN_ERR_VALUE, "narrow",
     "start 3 and length 9223372036854775807 exceed dim 0 of size 4"},
    {"a start that overflows", huge_start, SN_ERR_VALUE, "narrow", "start 9223372036854775807"},
    {"pads that overflow", huge_pad, SN_ERR_SHAPE, "constant_pad_nd",
     "pad [9223372036854775807, 9223372036854775807] makes self [4, 6] larger"},
    {"pads that cut too much", huge_cut, SN_ERR_SHAPE, "constant_pad_nd", "leaves nothing"},
    {"a cut of what is padded", cut_past_the_end, SN_ERR_SHAPE, "constant_pad_nd", "[3, -7]"},
    {"an unknown memory format", unknown_format, SN_ERR_ARGUMENT, "contiguous", "format: 77"},
    {"an unknown kind", unknown_kind, SN_ERR_ARGUMENT, "add.Scalar",
     "aten::add.Scalar: other is a value of unknown kind 99"},
    {"a kind of graphs", graph_kind, SN_ERR_ARGUMENT, "add.Scalar", "unknown kind 10"},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void check(const Bad *row, const char *how) {
    const sn_error *const error = sn_error_take();
    ck_assert_msg(error->status != SN_OK, "%s, %s: no error", row->name, how);
    ck_assert_msg(error->status == row->status, "%s, %s: status %d: %s: %s", row->name, how, error->status, error->op,
                  error->message);
    ck_assert_msg(strstr(error->op, row->op) != NULL, "%s, %s: op '%s' lacks '%s': %s", row->name, how, error->op,
                  row->op, error->message);
    ck_assert_msg(strstr(error->message, row->says) != NULL, "%s, %s: '%s' is not in: %s", row->name, how, row->says,
                  error->message);
}

START_TEST(eagerly) {
    ck_assert_ptr_null(rows[_i].attempt(F32(1, 4, 6)));
    check(&rows[_i], "eager");
}
END_TEST

static sn_status body(sn_frame *f) {
    const Bad *const row = sn_closure(f);
    sn_tensor *const x = sn_relu(sn_in(f, 0));
    sn_tensor *const y = row->attempt(x);
    return sn_out(f, 0, sn_add(y, y));
}

START_TEST(inside_a_compiled_function) {
    sn_function *const fn = sn_compile(body, (void *)&rows[_i], NULL);
    for (int i = 0; i < 3; i++) {
        const uint32_t scopes = state_get()->n_scopes;
        ck_assert_ptr_null(SN_CALL(fn, F32(1, 4, 6)));
        check(&rows[_i], "compiled");
        ck_assert_uint_eq(state_get()->n_scopes, scopes);
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(memory_from_outside) {
    float data[4] = {0};
    ck_assert_ptr_null(sn_from_data(NULL, SN_INTS(4), SN_F32));
    expect_error(SN_ERR_ARGUMENT, "NULL");
    ck_assert_ptr_null(sn_from_data(data, SN_INTS(-4), SN_F32));
    expect_error(SN_ERR_SHAPE, "-4");
    ck_assert_ptr_null(sn_from_data(data, SN_INTS(4), (sn_dtype)77));
    expect_error(SN_ERR_DTYPE, "77");
    ck_assert_ptr_null(sn_from_data(data, SN_INTS(INT64_MAX, 8), SN_F32));
    expect_error(SN_ERR_SHAPE, "9223372036854775807");
    ck_assert_ptr_null(sn_wrap(SN_BLOB(.data = data, .bytes = sizeof data, .sizes = SN_INTS(5), .dtype = SN_F32)));
    expect_error(SN_ERR_ARGUMENT, "20");
    ck_assert_ptr_null(sn_wrap(NULL));
    expect_error(SN_ERR_ARGUMENT, "sn_wrap");
}
END_TEST

START_TEST(questions_about_nothing) {
    ck_assert_int_eq(sn_size(F32(1, 3), 4), 0);
    expect_error(SN_ERR_SHAPE, "4");
    ck_assert_int_eq(sn_rank(NULL), 0);
    expect_error(SN_ERR_ARGUMENT, "sn_rank");
    ck_assert(isnan(sn_item(F32(1, 3))));
    expect_error(SN_ERR_SHAPE, "3");
    float buffer[2];
    ck_assert_int_ne(sn_read(F32(1, 3), buffer, sizeof buffer), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "12");
    ck_assert_ptr_null(sn_data(F32(1, 3), SN_F64));
    expect_error(SN_ERR_DTYPE, "f32");
    ck_assert_ptr_null(sn_data(sn_t(F32(1, 3, 2)), SN_F32));
    expect_error(SN_ERR_SHAPE, "contiguous");
    ck_assert_int_ne(sn_backward(F32(1, 3)), SN_OK);
    sn_error_take();
    sn_release(NULL);
    sn_function_free(NULL);
    sn_graph_free(NULL);
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

START_TEST(texts_of_nothing) {
    ck_assert_str_eq(sn_op_schema(NULL), "");
    expect_error(SN_ERR_ARGUMENT, "sn_op_schema: the op is NULL");
    ck_assert_str_eq(sn_dispatch_dump(NULL), "");
    expect_error(SN_ERR_ARGUMENT, "sn_dispatch_dump: the op is NULL");
    ck_assert_str_eq(sn_graph_text(NULL), "");
    expect_error(SN_ERR_ARGUMENT, "sn_graph_text: the graph is NULL");
    ck_assert_str_eq(sn_node_op(NULL), "");
    expect_error(SN_ERR_ARGUMENT, "sn_node_op: the node is NULL");
    ck_assert_str_eq(sn_setting_get(NULL), "");
    expect_error(SN_ERR_ARGUMENT, "sn_setting_get: the name is NULL");
}
END_TEST

/* Messages of functions that are no ops begin with their name. */
START_TEST(errors_name_their_function) {
    ck_assert_ptr_null(sn_requires_grad_(ids(1), true));
    expect_error(SN_ERR_DTYPE, "sn_requires_grad_: ");
    const float one = 1;
    ck_assert_ptr_null(sn_from_data(&one, SN_INTS(HUGE_SIZE, HUGE_SIZE, HUGE_SIZE), SN_F32));
    expect_error(SN_ERR_SHAPE, "sn_from_data: a tensor of sizes [1073741824,");
    ck_assert_int_ne(sn_hook_add(F32(1, 2), body, NULL), 1);
    expect_error(SN_ERR_STATE, "sn_hook_add: ");
    sn_dict *const d = sn_dict_new();
    ck_assert_ptr_null(sn_dict_get(d, "w"));
    expect_error(SN_ERR_ARGUMENT, "sn_dict_get: the dictionary has no 'w'");
    ck_assert_str_eq(sn_dict_name(d, 3), "");
    expect_error(SN_ERR_ARGUMENT, "sn_dict_name: the dictionary has no entry 3");
    ck_assert_ptr_null(sn_sgd(d, 0.1, 0));
    expect_error(SN_ERR_ARGUMENT, "sn_sgd: no tensor");
    ck_assert_ptr_null(sn_adamw(d, -1, 0));
    expect_error(SN_ERR_ARGUMENT, "sn_adamw: lr is -1");
    sn_dict_free(d);
    ck_assert_ptr_null(sn_op_find("my::none"));
    expect_error(SN_ERR_ARGUMENT, "sn_op_find: op 'my::none' is unknown");
    const sn_scope scope = sn_scope_begin();
    sn_scope_end(scope);
    ck_assert_int_ne(sn_scope_end(scope), SN_OK);
    expect_error(SN_ERR_STATE, "sn_scope_end: the scope has ended already");
}
END_TEST

START_TEST(functions_and_calls) {
    ck_assert_ptr_null(sn_compile(NULL, NULL, NULL));
    expect_error(SN_ERR_ARGUMENT, "body");
    sn_tensor *x = F32(1, 3), *none = NULL, *out;
    ck_assert_int_ne(sn_call(NULL, &x, 1, &out, 1), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "NULL");
    sn_function *const fn = sn_compile(body, (void *)&rows[0], NULL);
    ck_assert_int_ne(sn_call(fn, &none, 1, &out, 1), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "argument 0");
    ck_assert_int_ne(sn_call(fn, &x, -1, &out, 1), SN_OK);
    sn_error_take();
    ck_assert_int_ne(sn_call(fn, NULL, 1, &out, 1), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "argument 0");
    ck_assert_int_ne(sn_call(fn, &x, 1, NULL, 1), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "list of 1 outputs is NULL");
    ck_assert_int_ne(sn_call_values(fn, NULL, 2, &out, 1), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "list of 2 inputs is NULL");
    ck_assert_str_eq(sn_dump(fn, "nonsense"), "");
    expect_error(SN_ERR_ARGUMENT, "stages: capture, ");
    ck_assert_str_eq(sn_dump(NULL, "capture"), "");
    expect_error(SN_ERR_ARGUMENT, "sn_dump: the function is NULL");
    ck_assert_str_eq(sn_explain(NULL), "");
    expect_error(SN_ERR_ARGUMENT, "sn_explain: the function is NULL");
    sn_function_free(fn);
    ck_assert_int_ne(sn_setting_set("no_such_setting", "1"), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "no_such_setting");
    ck_assert_int_ne(sn_setting_set("threads", "many"), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "many");
    ck_assert_ptr_null(sn_op_find("aten::no_such_op"));
    sn_error_take();
}
END_TEST

START_TEST(options_without_effect) {
    static char long_path[5000];
    memset(long_path, 'x', sizeof long_path - 1);
    ck_assert_int_eq(sn_init(SN_INIT_OPTIONS(.cache_dir = long_path)), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "setting cache_dir: a path of more than");
    ck_assert_int_eq(sn_init(SN_INIT_OPTIONS(.threads = 1, .cache_dir = "/var/cache/x")), SN_OK);
    ck_assert_str_eq(sn_setting_get("cache_dir"), "/var/cache/x");
    ck_assert_int_eq(sn_init(SN_INIT_OPTIONS(.threads = 1, .cache_dir = "")), SN_OK);
    ck_assert_int_eq(sn_init(&(sn_init_options){.size = 3}), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_init: options of size 3");
}
END_TEST

START_TEST(lists_of_nothing) {
    const sn_ints two = {NULL, 2}, negative = {(const int64_t[]){1}, -2};
    ck_assert_ptr_null(sn_empty(two, SN_F32));
    expect_error(SN_ERR_ARGUMENT, "size is a NULL list of 2");
    ck_assert_ptr_null(sn_empty(negative, SN_F32));
    expect_error(SN_ERR_ARGUMENT, "size is a list of -2");
    ck_assert_ptr_null(sn_permute(F32(1, 2, 3), two));
    expect_error(SN_ERR_ARGUMENT, "dims is a NULL list of 2");
    ck_assert_ptr_null(sn_cat((sn_tensors){NULL, 3}, 0));
    expect_error(SN_ERR_ARGUMENT, "tensors is a NULL list of 3");
    const sn_tensors nothing = {NULL, 1};
    ck_assert_int_ne(sn_backward_ex(nothing, (sn_tensors){0}, 0), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "list of tensors is NULL");
    ck_assert_int_ne(sn_gradients(nothing, nothing, (sn_tensors){0}, 0, NULL), SN_OK);
    sn_error_take();
}
END_TEST

START_TEST(gradients_name_their_call) {
    sn_tensor *const x = LEAF(1, 2), *grad;
    sn_gradients(SN_TENSORS(sn_exp(x)), SN_TENSORS(x), (sn_tensors){0}, 0, &grad);
    ck_assert_str_eq(sn_error_take()->op, "sn_gradients");
    sn_backward(sn_exp(x));
    ck_assert_str_eq(sn_error_take()->op, "sn_backward");
}
END_TEST

static sn_status custom_body(sn_frame *f) { return sn_out(f, 0, F32(1, 1)); }

START_TEST(a_custom_function_without_its_lists) {
    const sn_custom fn = {.size = sizeof fn, .name = "mine", .forward = custom_body, .backward = custom_body};
    sn_tensor *x = F32(1, 1), *out = x;
    ck_assert_int_eq(sn_custom_call(&fn, NULL, NULL, 1, &out, 1), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "mine: the list of 1 inputs is NULL");
    ck_assert_ptr_null(out);
    ck_assert_int_eq(sn_custom_call(&fn, NULL, &x, 1, NULL, 2), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "mine: the list of 2 outputs is NULL");
    ck_assert_int_eq(sn_custom_call(&fn, NULL, NULL, 0, &out, 1), SN_OK);
}
END_TEST

static void count_free(void *closure, void *context) {
    (void)context;
    ++*(int *)closure;
}
static sn_status calls_custom(sn_frame *f) {
    const sn_custom fn = {
        .size = sizeof fn, .forward = custom_body, .backward = custom_body, .closure_free = count_free};
    sn_tensor *in = sn_in(f, 0), *out;
    if (sn_custom_call(&fn, sn_closure(f), &in, 1, &out, 1) != SN_OK) return sn_check();
    return sn_out(f, 0, out);
}

/* As one that fails in its body, or ends with its node. */
START_TEST(a_custom_call_that_is_refused_frees_its_closure) {
    int freed = 0;
    sn_custom fn = {.size = sizeof fn, .forward = custom_body, .backward = custom_body, .closure_free = count_free};
    sn_tensor *x = F32(1, 1), *out;
    sn_custom_call(&fn, &freed, NULL, 1, &out, 1);
    ck_assert_int_eq(freed, 1);
    sn_custom_call(&fn, &freed, &x, 1, &out, 1); /* an error is there already */
    ck_assert_int_eq(freed, 2);
    sn_error_take();
    ck_assert_int_eq(sn_vmap(calls_custom, &freed, NULL, (sn_tensors){&x, 1}, &out, 1), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "sn_custom_call: not inside of sn_vmap");
    ck_assert_int_eq(freed, 3);
    fn.size = 1; /* where closure_free is, is not known */
    sn_custom_call(&fn, &freed, &x, 1, &out, 1);
    expect_error(SN_ERR_ARGUMENT, "sn_custom_call: the function needs its size");
    ck_assert_int_eq(freed, 3);
}
END_TEST

/* Optional: None; else an error. */
START_TEST(null_strings) {
    sn_tensor *const x = F32(1, 2, 2), *const ids = sn_zeros(SN_INTS(2, 2), SN_I64);
    const sn_value null = {.kind = SN_KIND_STRING};
    const sn_value divided[] = {sn_val(x), sn_val(x), null};
    ck_assert(same_bits(sn_op_call1(sn_op_find("aten::div.Tensor_mode"), divided, 3), sn_div(x, x)));
    const sn_value scattered[] = {sn_val(x), sn_int(0), sn_val(ids), sn_val(x), null};
    ck_assert_ptr_null(sn_op_call1(sn_op_find("aten::scatter.reduce"), scattered, 5));
    expect_error(SN_ERR_ARGUMENT, "aten::scatter.reduce: reduce is missing");
    const sn_value gelu[] = {sn_val(x), null};
    ck_assert_ptr_null(sn_op_call1(sn_op_find("aten::gelu"), gelu, 2));
    expect_error(SN_ERR_ARGUMENT, "aten::gelu: approximate is missing");
    const sn_value of_graphs[] = {sn_val(x), {.kind = SN_KIND_TENSORS + 1}};
    ck_assert_ptr_null(sn_op_call1(sn_op_find("aten::add.Scalar"), of_graphs, 2));
    expect_error(SN_ERR_ARGUMENT, "aten::add.Scalar: other is a value of unknown kind 10");
}
END_TEST

START_TEST(flags_and_numbers_out_of_range) {
    sn_tensor *const x = LEAF(1, 2), *grad;
    const sn_tensors xs = SN_TENSORS(x), ys = SN_TENSORS(sn_sum(x)), none = {0};
    ck_assert_int_eq(sn_gradients(ys, xs, none, 0xff00, &grad), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_gradients: flags 0xff00");
    ck_assert_int_eq(sn_backward_ex(ys, none, 8), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_backward: flags 0x8");
    ck_assert_int_eq(sn_backward_ex(ys, none, SN_RETAIN_GRAPH | SN_ALLOW_UNUSED), SN_OK);
    sn_function *const fn = sn_compile(body, (void *)&rows[0], NULL);
    sn_stats unsized = {0};
    ck_assert_int_eq(sn_function_stats(fn, &unsized), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_function_stats: its size is 0");
    sn_function_free(fn);
    ck_assert_int_eq(sn_setting_set("threads", "257"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "setting threads: '257' is not a number from 0 to 256");
    ck_assert_int_eq(sn_setting_set("compile", "2"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "from 0 to 1");
    ck_assert_int_eq(sn_setting_set("threads", "256"), SN_OK);
}
END_TEST

/* Every op with the number 5 for each tensor, and a size, a dim or a list of one where it wants them: an error, or the
 * result of a wrapped number. */
static sn_value odd_value(const Param *param) {
    static const int64_t one[] = {1};
    switch (param->type) {
    case PT_tensor:
        return sn_int(5);
    case PT_int:
        return sn_int(0);
    case PT_ints:
        return (sn_value){.kind = SN_KIND_INTS, .n = 1, .ints = one};
    case PT_scalar:
        return sn_float(2);
    case PT_dtype:
        return sn_int(SN_F32);
    default:
        return (sn_value){.kind = SN_KIND_DEFAULT};
    }
}

START_TEST(numbers_for_tensors) {
    const sn_scope scope = sn_scope_begin();
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        sn_value in[MAX_ARGS], out[MAX_LIST];
        for (int i = 0; i < row->n_params; i++) in[i] = odd_value(&row->params[i]);
        int n_out = MAX_LIST;
        sn_op_call(sn_op_find(row->name), in, row->n_params, out, &n_out);
        const sn_error *const error = sn_error_take();
        ck_assert_msg(error->status == SN_OK || strchr(error->message, ':'), "%s: %s", row->name, error->message);
    }
    sn_value gather[] = {sn_int(5), sn_int(0), sn_val(sn_zeros(SN_INTS(3), SN_I64))};
    ck_assert_ptr_null(sn_op_call1(sn_op_find("aten::gather"), gather, 3));
    expect_error(SN_ERR_ARGUMENT, "self must be Tensor, not int");
    sn_scope_end(scope);
}
END_TEST

/* What a body hands to calls that are no ops: the error is at the call, in eager and compiled. */
static sn_tensor *leaf;
static sn_tensor *root(void) { return sn_sum(sn_exp(leaf)); }
static sn_status backward_of(sn_tensors roots, sn_tensors grads) { return sn_backward_ex(roots, grads, 0); }
static sn_status gradients_by(sn_tensors xs) {
    sn_tensor *out[2];
    return sn_gradients(SN_TENSORS(root()), xs, (sn_tensors){0}, 0, out);
}
static sn_status bad_calls(sn_frame *f) {
    sn_tensor *const x = sn_relu(sn_in(f, 0));
    ck_assert_int_ne(gradients_by(SN_TENSORS(NULL)), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "sn_gradients: the tensor is NULL");
    ck_assert_int_ne(gradients_by((sn_tensors){&leaf, -1}), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "no tensors");
    ck_assert_int_ne(backward_of((sn_tensors){&leaf, -1}, (sn_tensors){0}), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "the list of tensors has -1 of them");
    ck_assert_int_ne(backward_of(SN_TENSORS(root()), SN_TENSORS(F32(1, 3))), SN_OK);
    expect_error(SN_ERR_SHAPE, "gradient 0 does not have the sizes");
    ck_assert_int_ne(backward_of(SN_TENSORS(root()), SN_TENSORS(sn_to(root(), SN_F64))), SN_OK);
    expect_error(SN_ERR_DTYPE, "gradient 0 is f64");
    return sn_out(f, 0, sn_mul(x, x));
}

START_TEST(calls_in_a_body) {
    leaf = LEAF(1, 4, 6);
    const Twin twin = twin_new(bad_calls, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 4, 6));
    twin_free(twin);
}
END_TEST

START_TEST(lists_that_are_too_long_or_absent) {
    sn_tensor *const x = F32(1, 3);
    sn_function *const fn = sn_compile(body, (void *)&rows[0], NULL);
    ck_assert_ptr_null(sn_call1(fn, (sn_tensors){&x, (INT64_C(1) << 32) + 1}));
    expect_error(SN_ERR_ARGUMENT, "the list of inputs has 4294967297 of them");
    ck_assert_ptr_null(sn_graph_capture(fn, NULL, 1));
    expect_error(SN_ERR_ARGUMENT, "the list of 1 inputs is NULL");
    ck_assert_ptr_null(sn_graph_capture(fn, NULL, -1));
    expect_error(SN_ERR_ARGUMENT, "the list of -1 inputs is none");
    sn_function_free(fn);
}
END_TEST

START_TEST(dictionaries_and_optimizers) {
    sn_dict *const d = sn_dict_new();
    ck_assert_int_ne(sn_dict_copy(NULL, d), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "sn_dict_copy");
    sn_dict_set(d, "w", LEAF(1, 3));
    ck_assert_ptr_null(sn_sgd(d, 0.1, -1));
    expect_error(SN_ERR_ARGUMENT, "sn_sgd: momentum is -1: it must be finite and at least 0");
    ck_assert_ptr_null(sn_adam(d, INFINITY, 0));
    expect_error(SN_ERR_ARGUMENT, "sn_adam: lr is inf: it must be finite and at least 0");
    ck_assert_ptr_null(sn_adamw(d, 0.1, NAN));
    expect_error(SN_ERR_ARGUMENT, "sn_adamw: weight_decay is nan: it must be finite and at least 0");
    sn_dict_free(d);
}
END_TEST

START_TEST(files_that_are_none) {
    ck_assert_ptr_null(sn_dict_load("/nowhere/x"));
    expect_error(SN_ERR_IO, "/nowhere/x': No such file");
    ck_assert_ptr_null(sn_dict_load("/"));
    expect_error(SN_ERR_IO, "cannot read '/'");
    ck_assert_ptr_null(sn_dict_load("/bin/sh"));
    expect_error(SN_ERR_PARSE, "in '/bin/sh'");
}
END_TEST

START_TEST(text_that_does_not_parse) {
    static const char *const texts[] = {
        "",
        "graph",
        "graph f(%x: f32[2,3]) { return %x",
        "graph f(%x: f99[2]) {\n  return %x\n}",
        "graph f(%x: f32[2) {\n  return %x\n}",
        "graph f(%x: f32[2]) {\n  %0 = aten::nothing(%x)\n  return %0\n}",
        "graph f(%x: f32[2]) {\n  %0 = aten::relu(%y)\n  return %0\n}",
        "graph f(%x: f32[2]) {\n  %0 = aten::relu(%x, %x, %x)\n  return %0\n}",
        "graph f(%x: f32[2]) {\n  %0 = aten::mm(%x, %x)\n  return %0\n}",
        "graph f(%x: f32[-2]) {\n  return %x\n}",
        "graph f(%x: f32[99999999999999999999]) {\n  return %x\n}",
        "graph f(%x: f32[2], %x: f32[2]) {\n  return %x\n}",
        "\x01\x02\xff{}[]()%%%%",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sn_graph *const g = sn_graph_parse(texts[i], strlen(texts[i]));
        const sn_error *const error = sn_error_take();
        ck_assert_msg(!g && error->status != SN_OK, "text %zu was taken", i);
        ck_assert_msg(error->message[0] != '\0', "text %zu", i);
    }
}
END_TEST

/* Every prefix of a graph, and the graph with every byte replaced: an error or a graph. */
START_TEST(damaged_text) {
    const char *const text = "graph f[s0=4](%x: f32[s0,3], %w: f32[3]) {\n"
                             "  %0 = aten::add.Tensor(%x, %w, alpha=0.5)\n"
                             "  %1 = aten::sum.dim_IntList(%0, [1], true) order=L\n"
                             "  return %1\n}\n";
    const size_t n = strlen(text);
    char copy[512];
    for (size_t i = 0; i <= n; i++) {
        sn_graph_free(sn_graph_parse(text, i));
        sn_error_take();
        for (int k = 0; k < 6 && i < n; k++) {
            memcpy(copy, text, n + 1);
            copy[i] = "0%]\xff(-"[k];
            sn_graph_free(sn_graph_parse(copy, n));
            sn_error_take();
        }
    }
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("rows");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, eagerly, 0, ROWS);
    tcase_add_loop_test(tests, inside_a_compiled_function, 0, ROWS);
    tcase_add_test(tests, memory_from_outside);
    tcase_add_test(tests, questions_about_nothing);
    tcase_add_test(tests, texts_of_nothing);
    tcase_add_test(tests, errors_name_their_function);
    tcase_add_test(tests, functions_and_calls);
    tcase_add_test(tests, options_without_effect);
    tcase_add_test(tests, lists_of_nothing);
    tcase_add_test(tests, a_custom_function_without_its_lists);
    tcase_add_test(tests, a_custom_call_that_is_refused_frees_its_closure);
    tcase_add_test(tests, gradients_name_their_call);
    tcase_add_test(tests, null_strings);
    tcase_add_test(tests, flags_and_numbers_out_of_range);
    tcase_add_test(tests, numbers_for_tensors);
    tcase_add_test(tests, calls_in_a_body);
    tcase_add_test(tests, lists_that_are_too_long_or_absent);
    tcase_add_test(tests, dictionaries_and_optimizers);
    tcase_add_test(tests, files_that_are_none);
    tcase_add_test(tests, text_that_does_not_parse);
    tcase_add_test(tests, damaged_text);
    return suite_run("bad input", tests);
}
