/* plan_eval.c: see plan_eval.h. Every slot gets memory of its own; steps run in order. */
#include "tests/ref/plan_eval.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/base/error.h"
#include "tests/ref/ref_eval.h"

enum { MOST = 256 };
typedef struct Eval {
    const Plan *plan;
    const int64_t *symbols;
    void **slots;
    char *owned; /* by slot */
    int64_t params[MOST];
    void *bufs[MOST];
} Eval;

static int64_t plain(const Eval *eval, int64_t v) {
    return sym_is(v) ? sym_eval(eval->plan->env, v, eval->symbols) : v;
}

static int64_t kernel_int(const Eval *eval, int64_t v) { return sym_is(v) ? eval->params[sym_id(v)] : v; }

static void run_nest(const Eval *eval, const Kernel *kernel, const Nest *nest, NestError *error) {
    int64_t lo[MAX_LOOP_DIMS] = {0}, hi[MAX_LOOP_DIMS] = {0};
    for (int d = 0; d < nest->n_outer; d++) hi[d] = kernel_int(eval, nest->extent[d]);
    ref_double(nest, kernel->bufs, eval->bufs, eval->params, lo, hi, error);
}

/* templates: each by its definition, eval_<name> -------------------------------------------------- */

typedef void EvalTemplate(Eval *eval, const Kernel *kernel, NestError *error);
#define TEMPLATE(name, ...) static EvalTemplate eval_##name;
#include "ir/templates.def"
#undef TEMPLATE

/* Matrix products: the operands as [batch, row, column]. */

static WideTensor matrix(const Eval *eval, DType dtype, const TemplateOperand *operand, int64_t *strides) {
    for (int i = 0; i < 3; i++) strides[i] = kernel_int(eval, operand->stride[i]);
    char *const at = eval->bufs[operand->buf];
    return (WideTensor){dtype, 3, NULL, strides, at + kernel_int(eval, operand->offset) * dtype_bytes(dtype)};
}

static double product(const WideTensor *a, const WideTensor *b, int64_t batch, int64_t row, int64_t column, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum += wide_get(a, (int64_t[]){batch, row, i}) * wide_get(b, (int64_t[]){batch, i, column});
    return sum;
}

static DType tile_dtype(DType dtype) {
    switch (dtype_compute(dtype)) {
    case S_f64:
        return DT_f64;
    case S_f32:
        return DT_f32;
    case S_i64:
        return DT_i64;
    default:
        return DT_i32;
    }
}

static void eval_gemm(Eval *eval, const Kernel *kernel, NestError *error) {
    const TemplateUse *const use = kernel->template;
    int64_t sizes[4], strides[3][3] = {{0}};
    for (int i = 0; i < 4; i++) sizes[i] = kernel_int(eval, use->size[i]);
    const WideTensor a = matrix(eval, use->dtype, &use->operand[0], strides[0]),
                     b = matrix(eval, use->dtype, &use->operand[1], strides[1]);
    strides[2][1] = sizes[2], strides[2][2] = 1;
    WideTensor c = {tile_dtype(use->dtype), 3, sizes, strides[2], NULL};
    if (use->tile < 0) c = matrix(eval, use->dtype, &use->operand[2], strides[2]);
    void *const tile = use->tile < 0 ? NULL : calloc((size_t)(sizes[1] * sizes[2]) + 1, 8);
    for (int64_t batch = 0; batch < sizes[0]; batch++) {
        if (tile) c.data = tile;
        for (int64_t row = 0; row < sizes[1]; row++)
            for (int64_t column = 0; column < sizes[2]; column++)
                wide_set(&c, (int64_t[]){tile ? 0 : batch, row, column}, product(&a, &b, batch, row, column, sizes[3]));
        if (!tile) continue;
        const Nest *const nest = &kernel->nests[0];
        const bool batched = nest->n_outer == 3;
        int64_t lo[3] = {batched ? batch : 0}, hi[3] = {batched ? batch + 1 : sizes[1], sizes[2 - batched], sizes[2]};
        eval->bufs[use->tile] = tile;
        if (use->tile_ld >= 0) eval->params[use->tile_ld] = sizes[2];
        ref_double(nest, kernel->bufs, eval->bufs, eval->params, lo, hi, error);
    }
    free(tile);
}

static void run_template(Eval *eval, const Kernel *kernel, NestError *error) {
    static EvalTemplate *const evals[TEMPLATE_COUNT] = {
#define TEMPLATE(name, ...) [TEMPLATE_##name] = eval_##name,
#include "ir/templates.def"
#undef TEMPLATE
    };
    evals[template_id(kernel->template->row)](eval, kernel, error);
}

static Status run_kernel(Eval *eval, const Step *step) {
    const Kernel *const kernel = step->kernel;
    NestError error = {.inst = -1};
    if (kernel->n_params > MOST || kernel->n_bufs > MOST) return error_raise(ST_UNSUPPORTED, "too large");
    for (int i = 0; i < kernel->n_bufs; i++) eval->bufs[i] = step->bufs[i] < 0 ? NULL : eval->slots[step->bufs[i]];
    for (int i = 0; i < kernel->n_params; i++)
        eval->params[i] = kernel->template && kernel->template->tile_ld == i ? 0 : plain(eval, kernel->params[i]);
    if (kernel->template) {
        run_template(eval, kernel, &error);
    } else {
        for (int i = 0; i < kernel->n_nests; i++) run_nest(eval, kernel, &kernel->nests[i], &error);
    }
    if (error.inst != -1)
        return error_raise(ST_VALUE, "index %lld of %lld", (long long)error.index, (long long)error.bound);
    return ST_OK;
}

/* native ops ---------------------------------------------------------------------------------- */

static WideTensor at_place(const Eval *eval, const PlanValue *value) {
    const Meta *const meta = value->base.meta;
    char *const base = eval->slots[value->slot];
    return (WideTensor){meta->dtype, meta->rank, meta->sizes, meta->strides,
                        base + value->offset * dtype_bytes(meta->dtype)};
}

static Status run_native(const Eval *eval, const Step *step) {
    WideTensor in[MAX_ARGS] = {{0}}, out[MAX_OUTS];
    for (int i = 0; i < step->row->n_params; i++)
        if (step->args[i].kind == ARG_tensor && step->args[i].val)
            in[i] = at_place(eval, plan_value(step->args[i].val));
    for (int i = 0; i < step->row->n_out; i++) out[i] = at_place(eval, step->outs[i]);
    return native_eval(step->row, step->args, in, out);
}

/* slots --------------------------------------------------------------------------------------- */

static int64_t slot_bytes(const Eval *eval, const Slot *slot) {
    int64_t last = 1;
    for (int d = 0; slot->meta && d < slot->meta->rank; d++)
        last += max_i64(slot->meta->sizes[d] - 1, 0) * slot->meta->strides[d];
    const int64_t by_meta = slot->meta ? last * dtype_bytes(slot->meta->dtype) : 0;
    return max_i64(by_meta, plain(eval, slot->bytes)) + 64;
}

static Status make_slots(Eval *eval, sn_tensor *const *inputs) {
    const int n = eval->plan->slots.n;
    eval->slots = calloc((size_t)n + 1, sizeof *eval->slots);
    eval->owned = calloc((size_t)n + 1, 1);
    if (!eval->slots || !eval->owned) return ST_MEMORY;
    for (int i = 0; i < n; i++) {
        const Slot *const slot = &eval->plan->slots.at[i];
        eval->owned[i] = slot->kind != SLOT_input;
        eval->slots[i] = eval->owned[i] ? calloc((size_t)slot_bytes(eval, slot), 1) : tensor_data(inputs[slot->index]);
    }
    return ST_OK;
}

static void free_slots(Eval *eval) {
    for (int i = 0; i < eval->plan->slots.n; i++)
        if (eval->owned[i]) free(eval->slots[i]);
    free(eval->slots);
    free(eval->owned);
}

/* Where an output lies. */
static PlanValue output_value(const Plan *plan, int i) {
    const PlanOutput *const out = &plan->outputs.at[i];
    PlanValue value = {.base.meta = out->meta, .offset = out->offset};
    if (out->kind == OUT_input || out->kind == OUT_view_of_input) {
        value.slot = out->base;
        return value;
    }
    const int of = out->kind == OUT_new ? i : out->base;
    while (plan->slots.at[value.slot].kind != SLOT_output || plan->slots.at[value.slot].index != of) value.slot++;
    return value;
}

static sn_tensor *copy_out(const Eval *eval, const PlanValue *value) {
    const WideTensor from = at_place(eval, value);
    const Meta *const meta = meta_intern_contiguous(from.dtype, DEV_cpu, from.sizes, from.rank);
    sn_tensor *const t = meta ? tensor_new_zero(meta) : NULL;
    const int bytes = dtype_bytes(from.dtype);
    int64_t index[MAX_RANK];
    for (int64_t i = 0; t && i < wide_numel(&from); i++) {
        int64_t at = 0;
        wide_index(&from, i, index);
        for (int d = 0; d < from.rank; d++) at += index[d] * from.strides[d];
        memcpy((char *)tensor_data(t) + i * bytes, (char *)from.data + at * bytes, (size_t)bytes);
    }
    return t;
}

static Status run_steps(Eval *eval) {
    for (int i = 0; i < eval->plan->steps.n; i++) {
        const Step *const step = &eval->plan->steps.at[i];
        TRY(step->kind == STEP_kernel ? run_kernel(eval, step) : run_native(eval, step));
    }
    return ST_OK;
}

Status plan_eval(const Plan *plan, sn_tensor *const *inputs, const int64_t *symbols, sn_tensor **outs) {
    Eval eval = {.plan = plan, .symbols = symbols};
    TRY(make_slots(&eval, inputs));
    const Status status = run_steps(&eval);
    for (int i = 0; status == ST_OK && i < plan->outputs.n; i++) {
        const PlanValue value = plan->outputs.at[i].meta ? output_value(plan, i) : (PlanValue){.slot = -1};
        outs[i] = value.slot >= 0 ? copy_out(&eval, &value) : NULL;
    }
    free_slots(&eval);
    return status;
}
