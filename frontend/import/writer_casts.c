/* writer_casts.c: autocast as casts in the graph. A TRAINING program has a region as a body whose ops are as the user
 * wrote them; what PyTorch's autocast does above them is by the same table as ours (ir/ops/autocast.def), for tensors
 * of the CPU by the list that PyTorch has for it. */
#include "frontend/import/writer.h"
#include "runtime/base/error.h"

typedef struct CastJob {
    NodeWriter *w;
    WriterCasts *out;
    DType to;
} CastJob;

/* DT_default: it is none of a tensor. */
static DType cast_dtype_of(const NodeWriter *w, const Json *tensor) {
    const Json *const code = json_get(model_meta(w->graph, json_string(json_get(tensor, "name"))), "dtype");
    return code && code->is_int ? model_dtype(code->i) : DT_default;
}

static bool is_cast(DType dtype) { return dtype == DT_f32 || dtype == DT_f16 || dtype == DT_bf16; }

static Status cast_one(CastJob *job, const Json *tensor) {
    NodeWriter *const w = job->w;
    const char *value;
    const DType dtype = cast_dtype_of(w, tensor);
    if (!is_cast(dtype) || dtype == job->to) return ST_OK;
    TRY(writer_tensor(w, tensor, &value));
    const char *const name = json_string(json_get(tensor, "name"));
    const char *const own = writer_new_name(w, arena_printf(w->m->arena, "%s_%s", name, dtype_name(job->to)));
    if (!own) return ST_MEMORY;
    for (int i = 0; i < job->out->list.n; i++)
        if (!strcmp(job->out->list.at[i].name, name)) return ST_OK; /* it is cast already */
    text_printf(w->text, "  %%%s = aten::to.dtype(%s, %s)", own, value, dtype_name(job->to));
    writer_attributes(w, w->text);
    text_puts(w->text, "\n");
    VEC_PUSH(w->m->arena, &job->out->list, ((CastValue){name, value}));
    TRY(error_pending());
    return writer_set(w, name, arena_printf(w->m->arena, "%%%s", own));
}

typedef Status CastVisit(void *context, const Json *tensor);
static Status each_tensor(const Json *inputs, CastVisit *visit, void *context) {
    for (int i = 0; i < inputs->n; i++) {
        const Json *const member = writer_union(json_get(&inputs->items[i], "arg"));
        if (writer_union_is(member, "as_tensor")) TRY(visit(context, member));
        const bool list = writer_union_is(member, "as_tensors") && member->kind == JSON_list;
        for (int k = 0; list && k < member->n; k++) TRY(visit(context, &member->items[k]));
    }
    return ST_OK;
}

static Status cast_visit(void *context, const Json *tensor) { return cast_one(context, tensor); }

typedef struct Widest {
    const NodeWriter *w;
    DType dtype;
} Widest;
static Status widen_visit(void *context, const Json *tensor) {
    Widest *const widest = context;
    const DType dtype = cast_dtype_of(widest->w, tensor);
    if (dtype == DT_f32) widest->dtype = DT_f32;
    return ST_OK;
}

static bool names_dtype(const Json *inputs) {
    for (int i = 0; i < inputs->n; i++) {
        const char *const name = json_string(json_get(&inputs->items[i], "name"));
        if (name && !strcmp(name, "dtype")) return !json_get(json_get(&inputs->items[i], "arg"), "as_none");
    }
    return false;
}

/* As fp32_set_opt_dtype (ATen/autocast_mode.h): of a first tensor that a region casts, where no dtype is asked for. */
static bool asks_for_f32(const NodeWriter *w, const Json *inputs) {
    const Json *const first = inputs->n ? writer_union(json_get(&inputs->items[0], "arg")) : NULL;
    return writer_union_is(first, "as_tensor") && is_cast(cast_dtype_of(w, first)) && !names_dtype(inputs);
}

Status writer_casts(NodeWriter *w, const OpRow *row, const Json *inputs, WriterCasts *out) {
    const CastPolicy policy = w->casts_as_cpu ? row->autocast_list : row->autocast;
    Widest widest = {w, w->cast_to};
    *out = (WriterCasts){.to_f32 = false};
    if (w->cast_to == DT_default || policy == CAST_none) return ST_OK;
    if (policy == CAST_f32_dtype) return out->to_f32 = asks_for_f32(w, inputs), ST_OK;
    if (policy == CAST_promote) TRY(each_tensor(inputs, widen_visit, &widest));
    CastJob job = {w, out, policy == CAST_lower ? w->cast_to : policy == CAST_f32 ? DT_f32 : widest.dtype};
    return each_tensor(inputs, cast_visit, &job);
}

Status writer_casts_end(NodeWriter *w, const WriterCasts *casts) {
    for (int i = 0; i < casts->list.n; i++) TRY(writer_set(w, casts->list.at[i].name, casts->list.at[i].before));
    return ST_OK;
}
