/* autocast.c: what a region of autocast makes of a step's arguments, so that proposals know the dtypes that follow. */
#include "tests/fuzz/gen.h"

static const DType dtypes[] = {DT_default, DT_bf16, DT_f16};

static bool is_cast(const Arg *arg, DType to) {
    if (arg->kind != ARG_tensor || !arg->val) return false;
    const DType dtype = arg->val->meta->dtype;
    return dtype_is_float(dtype) && dtype != DT_f64 && dtype != to;
}

static DType target(const OpRow *row, const Arg *args, DType lower) {
    if (row->autocast == CAST_lower) return lower;
    if (row->autocast != CAST_promote) return DT_f32;
    for (int i = 0; i < row->n_params; i++)
        if (is_cast(&args[i], lower)) return DT_f32;
    return lower;
}

static void name_dtype(const OpRow *row, Arg *args) {
    if (!is_cast(&args[0], DT_f32)) return;
    for (int i = 0; i < row->n_params; i++)
        if (row->params[i].type == PT_dtype_opt && args[i].kind == ARG_none) args[i] = A_INT(DT_f32);
}

void gen_autocast(const Gen *g, const OpRow *row, Arg *args, GenCasts *buffer) {
    if (!g->autocast || row->autocast == CAST_none) return;
    if (row->autocast == CAST_f32_dtype) return name_dtype(row, args);
    const DType to = target(row, args, dtypes[g->autocast]);
    for (int i = 0; i < row->n_params; i++) {
        if (!is_cast(&args[i], to)) continue;
        buffer->metas[i] = *args[i].val->meta;
        buffer->metas[i].dtype = to;
        buffer->vals[i] = (Val){.meta = &buffer->metas[i]};
        args[i].val = &buffer->vals[i];
    }
}
