/* custom_write.c: see custom_write.h. */
#include "runtime/core/custom_write.h"

#include <stdio.h>

#include "ir/builder.h"
#include "runtime/base/alloc.h"
#include "runtime/base/small_array.h"
#include "runtime/core/custom_results.h"

/* The argument that a result is, by the letter that both have; -1: it is new. */
static int argument_written(const Schema *schema, const Param *result) {
    for (int i = 0; result->alias && *result->alias && i < schema->n_params; i++)
        if (param_is_written(&schema->params[i]) && !strcmp(schema->params[i].alias, result->alias)) return i;
    return -1;
}

void custom_write_find(DynamicOp *op, const Schema *schema) {
    for (int i = 0; i < schema->n_params; i++)
        if (param_is_written(&schema->params[i])) op->written[op->n_written++] = (int8_t)i;
    for (int i = 0; i < schema->n_out; i++) {
        op->result_of[i] = (int8_t)argument_written(schema, &schema->results[i]);
        op->n_fresh += op->result_of[i] < 0;
    }
}

void custom_write_record(const OpCall *call, const DynamicOp *op, const Meta **metas) {
    for (int i = 0; i < op->n_written; i++) {
        const Val *const val = call->args[op->written[i]].val; /* of an op with a functional: a tensor, or absent */
        metas[i] = val ? val->meta : NULL;
    }
}

/* A kernel may not change the layout of what it writes: a graph hands it a copy, which could not pass a new layout
 * on. */
static Status check_layout(const OpCall *call, const DynamicOp *op, int arg, const Meta *before) {
    const Val *const val = call->args[arg].val;
    if (!val || val->meta == before) return ST_OK;
    Text texts[2] = {0};
    meta_print(NULL, &texts[0], before);
    meta_print(NULL, &texts[1], val->meta);
    const Status status = error_raise(
        ST_CALLBACK, "%s: its kernel made %s of argument '%s', which is %s: it may write its elements alone",
        call->row->name, text_str(&texts[1]), op->params[arg].name, text_str(&texts[0]));
    text_free(&texts[0]);
    text_free(&texts[1]);
    return status;
}

Status custom_write_check(const OpCall *call, const DynamicOp *op, const Meta *const *metas) {
    for (int i = 0; i < op->n_written; i++) TRY(check_layout(call, op, op->written[i], metas[i]));
    for (int i = 0; i < call->row->n_out && !call->row->returns_list; i++) {
        const int arg = op->result_of[i];
        if (arg < 0 || call->args[arg].kind != ARG_tensor || tensor_of(call->args[arg].val) == call->outs[i]) continue;
        return error_raise(ST_CALLBACK, "%s: its kernel returned another tensor as result %d, which is argument '%s'",
                           call->row->name, i, op->params[arg].name);
    }
    return ST_OK;
}

/* As `meta`, in memory of its own as far as the rule's caller knows. */
static MetaOut out_like(const Meta *meta) {
    MetaOut out = {.dtype = meta->dtype, .device = meta->device, .rank = meta->rank, .alias = -1};
    memcpy(out.sizes, meta->sizes, sizeof *meta->sizes * (size_t)meta->rank);
    memcpy(out.strides, meta->strides, sizeof *meta->strides * (size_t)meta->rank);
    return out;
}

Status custom_write_metas(MetaCall *call) {
    const DynamicOp *const op = op_dynamic(call->row);
    for (int i = 0; i < op->row.n_out; i++) {
        const Arg *const arg = &call->args[op->result_of[i]];
        if (arg->kind != ARG_tensor || !arg->val)
            return error_raise(ST_UNSUPPORTED, "%s: result %d is argument '%s', which is no tensor here", op->row.name,
                               i, op->params[op->result_of[i]].name);
        call->out[i] = out_like(arg->val->meta);
    }
    call->n_out = op->row.n_out;
    return ST_OK;
}

/* The argument that result i of n is, -1: it is new, as all of a list are. */
static int argument_given(const DynamicOp *op, int i, int n) {
    const int after = n - (op->n_results - op->list_at) + 1; /* the first one behind the list */
    if (op->list_at < 0 || i < op->list_at) return op->result_of[i];
    return i < after ? -1 : op->result_of[i - after + op->list_at + 1];
}

void custom_write_set_results(const OpCall *call, const DynamicOp *op, int n) {
    for (int i = 0; i < n; i++) {
        const int arg = argument_given(op, i, n);
        if (arg >= 0) call->outs[i] = tensor_of(call->args[arg].val);
    }
}

void custom_write_count(const OpCall *call, const DynamicOp *op) {
    for (int i = 0; i < op->n_written; i++) {
        const Arg *const arg = &call->args[op->written[i]];
        if (arg->kind == ARG_tensor && arg->val) tensor_written(tensor_of(arg->val));
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (arg->vals[k]) tensor_written(tensor_of(arg->vals[k]));
    }
}

bool custom_write_hold(const OpRow *row, const Arg *args, sn_tensor **outs) {
    const DynamicOp *const op = op_dynamic(row);
    bool any = false;
    const int known = !op ? 0 : op->list_at >= 0 ? op->list_at : op->n_results; /* behind a list: where, it says */
    for (int i = 0; i < known; i++) {
        const int arg = op->result_of[i];
        if (arg < 0 || args[arg].kind != ARG_tensor || !args[arg].val) continue;
        outs[i] = tensor_retained(tensor_of(args[arg].val));
        any = true;
    }
    return any;
}

/* the functional op's rules -------------------------------------------------------------------- */

/* An error names the op that the program knows. */
static Status said_by(const DynamicOp *op) {
    error_set_op(op->row.name);
    return error_pending();
}

/* Those of the op's results that are new, then what was written. */
static Status functional_metas(MetaCall *call) {
    const DynamicOp *const self = op_dynamic(call->row), *const op = self->functional_of;
    MetaOut few[2], *const own = SMALL_ARRAY(few, op->row.n_out);
    if (!own) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, own};
    if (op->n_fresh) {
        MetaCall of_op = *call;
        of_op.row = &op->row;
        of_op.out = own;
        of_op.n_out = op->row.n_out;
        if (op->row.meta(&of_op) != ST_OK) return said_by(op);
    }
    int n = 0;
    for (int i = 0; i < op->row.n_out; i++)
        if (op->result_of[i] < 0) call->out[n++] = own[i];
    for (int i = 0; i < op->n_written; i++) call->out[n++] = out_like(call->args[op->written[i]].val->meta);
    call->n_out = n;
    return ST_OK;
}

static sn_status keep_out(sn_frame *frame, int i, sn_tensor *t) {
    tensor_retain(t);
    frame->out[i] = t;
    return SN_OK;
}

/* The op's kernel on copies of what it writes; in the scope of the functional op's. */
static sn_status run_on_copies(sn_frame *frame) {
    const DynamicOp *const op = op_dynamic(frame->call->row)->functional_of;
    Arg args[MAX_ARGS];
    sn_tensor *outs[MAX_OUTS] = {0};
    memcpy(args, frame->in, sizeof *args * (size_t)frame->n_in);
    for (int i = 0; i < op->n_written; i++) {
        Arg *const arg = &args[op->written[i]];
        if (!(arg->val = E(eager_builder(), clone, V(arg->val)))) return (sn_status)error_pending();
    }
    OpCall call = *frame->call;
    call.row = &op->row;
    call.args = args;
    call.outs = outs;
    call.n_outs = op->row.n_out;
    if (custom_op_kernel(&call) != ST_OK) return (sn_status)said_by(op);
    int n = 0;
    for (int i = 0; i < op->row.n_out; i++)
        if (op->result_of[i] < 0) keep_out(frame, n++, outs[i]);
    for (int i = 0; i < op->n_written; i++) keep_out(frame, n++, tensor_of(args[op->written[i]].val));
    return SN_OK;
}

/* registration --------------------------------------------------------------------------------- */

/* "my::add_", "functional" or "my::add_.x", "x_functional" */
static const char *functional_overload(const DynamicOp *op, char *text, size_t capacity) {
    snprintf(text, capacity, "%s%sfunctional", op->row.overload, *op->row.overload ? "_" : "");
    return text;
}

static bool is_functional(const DynamicOp *op) {
    if (!op->n_written || op->row.returns_list || !(op->flags & SN_OP_PURE) || (!op->cpu && !op->cuda) ||
        op->decomposition)
        return false;
    if ((op->n_fresh && !op->meta) || op->n_fresh + op->n_written > MAX_OUTS) return false;
    for (int i = 0; i < op->row.n_out; i++)
        if (op->derivative && op->result_of[i] >= 0) return false; /* results have other numbers there */
    for (int i = 0; i < op->n_written; i++)
        if (op->params[op->written[i]].type != PT_tensor) return false;
    return true;
}

/* Without the letters of what shares memory. */
static Schema functional_schema(const DynamicOp *op, const Schema *schema, Param *params, char *overload,
                                size_t capacity) {
    Schema own = {.name_space = schema->name_space,
                  .base = schema->base,
                  .overload = functional_overload(op, overload, capacity),
                  .n_params = schema->n_params,
                  .params = params};
    for (int i = 0; i < schema->n_params; i++) {
        params[i] = schema->params[i];
        params[i].alias = "";
    }
    const Param result = {.name = "", .word = "Tensor", .alias = "", .suffix = "", .type = PT_tensor};
    for (int i = 0; i < schema->n_out; i++)
        if (op->result_of[i] < 0) own.results[own.n_out++] = schema->results[i];
    for (int i = 0; i < own.n_out; i++) own.results[i].alias = "";
    while (own.n_out < op->n_fresh + op->n_written) own.results[own.n_out++] = result;
    return own;
}

/* name, schema and overload, one behind the other; the other texts are the op's, which lives as long. */
static Status name_row(DynamicOp *self, const Schema *schema) {
    Text text = {0};
    schema_print(&text, schema);
    const size_t n = text.n, base = strlen(schema->name_space) + 2 + strlen(schema->base) + 1;
    const size_t whole = base + strlen(schema->overload);
    self->text = error_pending() == ST_OK ? mem_zero(n + 1 + whole + 1) : NULL;
    if (self->text) {
        memcpy(self->text, text_str(&text), n);
        memcpy(self->text + n + 1, text_str(&text), whole); /* the schema begins with the name */
        self->row.schema = self->text;
        self->row.name = self->text + n + 1;
        self->row.overload = self->row.name + base;
    }
    text_free(&text);
    return self->text ? ST_OK : ST_MEMORY;
}

Status custom_write_functional(const DynamicOp *op, const Schema *schema, DynamicOp **out) {
    char overload[64];
    *out = NULL;
    if (!is_functional(op)) return ST_OK;
    DynamicOp *const self = mem_zero(sizeof *self);
    if (!self) return ST_MEMORY;
    *self = *op;
    const Schema own = functional_schema(op, schema, self->params, overload, sizeof overload);
    self->functional_of = op;
    self->row.params = self->params;
    self->row.n_out = own.n_out;
    self->row.meta = functional_metas;
    self->row.flags |= OPF_internal;
    self->row.shares = false;
    self->meta = NULL;
    self->n_written = 0;
    self->n_fresh = own.n_out;
    memset(self->result_of, -1, sizeof self->result_of);
    custom_results_find(self, &own, op->row.name); /* types that the op's own schema has */
    self->cpu = op->cpu ? run_on_copies : NULL;
    self->cuda = op->cuda ? run_on_copies : NULL;
    self->row.doc = "A user's op on copies of what it writes, which are results.";
    const Status status = name_row(self, &own);
    if (status != ST_OK) {
        mem_free(self);
        return status;
    }
    *out = self;
    return ST_OK;
}
