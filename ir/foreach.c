/* foreach.c: see foreach.h. */
#include "ir/foreach.h"

#include "ir/dtype.h"
#include "ir/op_ids.h"

/* By what stands behind "_foreach_", without the _ of those in place. Numbers stand for tensors. */
/* What is else than the list's own arguments in order. */
typedef enum EachForm {
    EACH_plain,
    EACH_norm, /* (self, ord, dtype): of all elements */
    EACH_whole /* a float for ints is taken without its fraction, as PyTorch's lists take it, though not its addcmul */
} EachForm;

static const struct {
    const char *name;
    OpId op;
    EachForm form;
} each[] = {{"abs", OP_abs},
            {"acos", OP_acos},
            {"add", OP_add_Tensor},
            {"addcdiv", OP_addcdiv},
            {"addcmul", OP_addcmul, EACH_whole},
            {"asin", OP_asin},
            {"atan", OP_atan},
            {"ceil", OP_ceil},
            {"clamp_max", OP_clamp_max_Tensor},
            {"clamp_min", OP_clamp_min_Tensor},
            {"clone", OP_clone},
            {"copy", OP_copy},
            {"cos", OP_cos},
            {"cosh", OP_cosh},
            {"div", OP_div_Tensor},
            {"erf", OP_erf},
            {"erfc", OP_erfc},
            {"exp", OP_exp},
            {"expm1", OP_expm1},
            {"floor", OP_floor},
            {"frac", OP_frac},
            {"lerp", OP_lerp_Tensor},
            {"log", OP_log},
            {"log10", OP_log10},
            {"log1p", OP_log1p},
            {"log2", OP_log2},
            {"max", OP_max},
            {"maximum", OP_maximum},
            {"minimum", OP_minimum},
            {"mm", OP_mm},
            {"mul", OP_mul_Tensor},
            {"neg", OP_neg},
            {"norm", OP_linalg_vector_norm, EACH_norm},
            {"pow", OP_pow_Tensor_Tensor},
            {"reciprocal", OP_reciprocal},
            {"round", OP_round},
            {"rsqrt", OP_rsqrt},
            {"sigmoid", OP_sigmoid},
            {"sign", OP_sign},
            {"sin", OP_sin},
            {"sinh", OP_sinh},
            {"sqrt", OP_sqrt},
            {"sub", OP_sub_Tensor},
            {"tan", OP_tan},
            {"tanh", OP_tanh},
            {"trunc", OP_trunc},
            {"zero", OP_zero}};

/* The place in the table. */
static int foreach_place(const OpRow *row) {
    const char *const name = row->base + strlen("_foreach_");
    const size_t n = strlen(name) - (name[strlen(name) - 1] == '_');
    for (int i = 0; i < COUNT_OF(each); i++)
        if (strlen(each[i].name) == n && !memcmp(each[i].name, name, n)) return i;
    return -1;
}

bool foreach_is_list(const Param *param) { return param->type == PT_tensors || param->type == PT_scalars; }

int foreach_count(const OpRow *row, const Arg *args) {
    for (int i = 0; i < row->n_params; i++)
        if (foreach_is_list(&row->params[i])) return args[i].n;
    return 0;
}

static Arg element_of(const Arg *list, int i) {
    return list->kind == ARG_tensors ? A_VAL(list->vals[i])
           : list->kind == ARG_ints  ? A_INT(list->ints[i])
                                     : A_FLOAT(list->floats[i]);
}

Val *foreach_factors(const OpRow *row, const Arg *args) {
    const bool last = row->n_params == 4 && !strcmp(row->params[3].name, "scalars") && args[3].kind == ARG_tensor;
    return last ? args[3].val : NULL;
}

static Arg without_fraction(DType dtype, Arg factor) {
    return factor.kind == ARG_float && !dtype_is_float(dtype) ? A_INT(double_to_i64(factor.f)) : factor;
}

const OpRow *foreach_each(const OpRow *row, const Arg *args, int i, Arg *one, int *n) {
    const int place = foreach_place(row);
    *n = 0;
    for (int k = 0; k < row->n_params; k++)
        one[(*n)++] = foreach_is_list(&row->params[k]) ? element_of(&args[k], i) : args[k];
    if (each[place].form == EACH_norm) {
        one[4] = one[2];
        one[2] = A_NONE, one[3] = A_BOOL(false);
        *n = 5;
    }
    if (foreach_factors(row, args)) *n = 3; /* the factor is another op */
    if (each[place].form == EACH_whole && *n == 4) one[3] = without_fraction(one[0].val->meta->dtype, one[3]);
    return op_row(each[place].op);
}
