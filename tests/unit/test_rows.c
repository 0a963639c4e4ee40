/* test_rows.c: the op table's rows by their parts: schemas as text, every form of a row on one set of arguments. What
 * programs see of both is in test_accept_dispatch.c. */
#include <stdio.h>

#include "ir/schema.h"
#include "runtime/core/dispatch.h"
#include "tests/unit/contract.h"

/* Reads a schema, prints it, and compares the bytes. */
static Schema round_trip(const char *text, Param *params, char *buffer) {
    Schema schema = {.params = params, .text = buffer};
    Text printed = {0};
    ck_assert_msg(schema_parse(text, &schema) == ST_OK, "%s: %s", text, sn_error_take()->message);
    schema_print(&printed, &schema);
    ck_assert_str_eq(text_str(&printed), text);
    text_free(&printed);
    return schema;
}

/* As PyTorch prints its own. */
START_TEST(pytorchs_schemas_keep_every_byte) {
    static const char *const texts[] = {
        "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
        "aten::max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) "
        "max_values) -> (Tensor(a!) values, Tensor(b!) indices)",
        "aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
        "aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, "
        "Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, "
        "Tensor)",
        "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? "
        "bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
        "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=[0, "
        "0], "
        "int[2] dilation=[1, 1], bool ceil_mode=False) -> Tensor",
        "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
        "SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
        "aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool "
        "accumulate=False) -> Tensor(a!)",
        "aten::native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] "
        "normalized_shape, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] "
        "output_mask) -> (Tensor, Tensor, Tensor)",
        "aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? "
        "scale_factors) -> Tensor",
        "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
        "device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? "
        "memory_format=None) -> Tensor",
        "aten::to.device(Tensor(a) self, Device device, ScalarType dtype, bool "
        "non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
        "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
        "aten::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool "
        "training=False, Generator? generator=None) -> Tensor",
        "aten::dropout(Tensor input, float p, bool train) -> Tensor",
        "aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
        "attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool "
        "enable_gqa=False) -> Tensor"};
    Param params[MAX_ARGS];
    char buffer[1024];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) round_trip(texts[i], params, buffer);
    const Schema schema = round_trip(texts[1], params, buffer);
    ck_assert_str_eq(params[3].alias, "a!");
    ck_assert_str_eq(schema.results[1].alias, "b!");
    ck_assert_str_eq(schema.results[1].name, "indices");
}
END_TEST

START_TEST(every_schema_parses_and_marks_what_it_writes) {
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        for (int form = 0; form < FORM_COUNT; form++) {
            const bool exists =
                form == FORM_functional || (form == FORM_inplace && row->inplace) || (form == FORM_out && row->out);
            if (!exists) continue;
            const char *const text = op_form_schema(row, (OpForm)form);
            Param params[MAX_ARGS + MAX_OUTS];
            char *const buffer = malloc(strlen(text) + 64);
            const Schema schema = round_trip(text, params, buffer);
            const int n_params = op_form_params(row, (OpForm)form);
            ck_assert_int_eq(schema.n_params, n_params + (form == FORM_out ? row->n_out : 0));
            for (int i = 0; i < n_params; i++) {
                const Param *const of = &row->params[op_form_param(row, (OpForm)form, i)];
                ck_assert_msg(params[i].type == of->type && !strcmp(params[i].name, of->name), "%s: parameter %d", text,
                              i);
            }
            /* a composite's parts may write what its functional form names */
            if (form != FORM_functional || row->kind != KIND_composite)
                ck_assert_msg((form != FORM_functional) == (strstr(text, "!)") != NULL), "%s", text);
            free(buffer);
        }
    }
}
END_TEST

/* A default is the number that its digits say, or none. */
START_TEST(defaults_are_exact_or_refused) {
    static const struct {
        const char *text;
        Arg value; /* ARG_default: refused */
    } defaults[] = {
        {"int n=9223372036854775807", A_INT(INT64_MAX)},        {"int n=-9223372036854775808", A_INT(INT64_MIN)},
        {"Scalar n=9007199254740993", A_INT(9007199254740993)}, {"Scalar n=1e30", A_FLOAT(1e30)},
        {"float n=99999999999999999999", A_FLOAT(1e20)},        {"int n=9223372036854775808", A_DEFAULT},
        {"Scalar n=-99999999999999999999", A_DEFAULT}};
    for (int i = 0; i < COUNT_OF(defaults); i++) {
        char text[128], buffer[256];
        Param params[2];
        Schema schema = {.params = params, .text = buffer};
        snprintf(text, sizeof text, "own::f(%s) -> Tensor", defaults[i].text);
        const Status status = schema_parse(text, &schema);
        const Arg *const want = &defaults[i].value, *const got = &params[0].fallback;
        ck_assert_msg((status == ST_OK) == (want->kind != ARG_default), "%s", text);
        ck_assert_msg(status == ST_OK || strstr(sn_error_take()->message, "64 bits"), "%s", text);
        ck_assert_msg(status != ST_OK || (got->kind == want->kind && got->i == want->i), "%s: %lld", text,
                      (long long)got->i);
    }
}
END_TEST

/* A row's forms on one set of arguments. All pointwise rows whose arguments are float tensors. */
static bool is_tensor(ParamType type) { return type == PT_tensor || type == PT_tensor_opt; }

static bool takes_tensors_only(const OpRow *row) {
    for (int i = 0; i < row->n_params; i++)
        if (row->params[i].type != PT_tensor && row->params[i].fallback.kind == ARG_default) return false;
    return row->n_params <= MAX_ARGS;
}

static sn_tensor *call_form(const OpRow *row, OpForm form, sn_tensor *first, sn_tensor *out) {
    Arg given[MAX_ARGS], args[MAX_ARGS];
    int n = 0;
    for (; n < row->n_params && is_tensor(row->params[n].type); n++)
        given[n] = A_VAL(&(n ? F32((uint64_t)n + 5, 2, 3) : first)->base);
    ck_assert_int_eq(op_args_normalize(row, given, n, args), ST_OK);
    sn_tensor *outs[MAX_OUTS] = {0}, *const written[] = {out};
    return dispatch(row, form, args, out ? written : NULL, outs) == ST_OK ? outs[0] : NULL;
}

START_TEST(every_form_of_a_row_agrees) {
    int checked = 0;
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        if (row->alias_of || row->kind != KIND_pointwise || !row->inplace || !row->out || row->flags & OPF_random ||
            !takes_tensors_only(row))
            continue;
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const want = call_form(row, FORM_functional, F32(1, 2, 3), NULL);
        if (!want) { /* floats are not its dtype, or an argument has to be 0-dim */
            const sn_status status = sn_error_take()->status;
            ck_assert_msg(status == SN_ERR_DTYPE || status == SN_ERR_SHAPE, "%s", row->name);
            sn_scope_end(scope);
            continue;
        }
        sn_tensor *const out = sn_empty_like(want), *const self = F32(1, 2, 3);
        ck_assert_msg(call_form(row, FORM_out, F32(1, 2, 3), out) == out, "%s: %s", row->name,
                      sn_error_take()->message);
        ck_assert_msg(same_bits(out, want), "%s: out", row->name);
        sn_tensor *const in_place = call_form(row, FORM_inplace, self, NULL);
        ck_assert_msg(in_place == self, "%s: %s", row->name, sn_error_take()->message);
        ck_assert_msg(same_bits(self, sn_to(want, sn_dtype_of(self))), "%s: in place", row->name);
        sn_scope_end(scope);
        checked++;
    }
    ck_assert_int_gt(checked, 30);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        pytorchs_schemas_keep_every_byte,
        every_schema_parses_and_marks_what_it_writes,
        defaults_are_exact_or_refused,
        every_form_of_a_row_agrees,
    };
    return contract_main("test_rows", tests, (int)(sizeof tests / sizeof *tests));
}
