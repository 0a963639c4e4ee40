/* custom_op.c: see custom_op.h. A body is called through a frame whose inputs are the op's arguments in schema order.
 *
 * The meta rule of a user's op is its meta body on tensors of the Meta device; without one, the op's results are known
 * only after it ran, and capture breaks there [semantics C12]. */
#include "runtime/core/custom_op.h"

#include <pthread.h>
#include <stdio.h>

#include "ir/saves.h"
#include "ir/schema.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/small_array.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_results.h"
#include "runtime/core/custom_write.h"
#include "runtime/core/tracer.h"
#include "runtime/core/override.h"

enum { MAX_OPS = 4096 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(DynamicOp *) ops[MAX_OPS];
static _Atomic int n_ops;

const DynamicOp *custom_op_at(int i) { return i >= 0 && i < atomic_load(&n_ops) ? atomic_load(&ops[i]) : NULL; }

const DynamicOp *op_dynamic(const OpRow *row) { return op_is_made(row) ? (const DynamicOp *)row : NULL; }

static const OpRow *find_dynamic(const char *name, size_t n) {
    const DynamicOp *op;
    for (int i = 0; (op = custom_op_at(i)); i++)
        if (!atomic_load(&op->withdrawn) && strlen(op->row.name) == n && !memcmp(op->row.name, name, n))
            return &op->row;
    return NULL;
}

void custom_op_start(void) { op_find_made = find_dynamic; }

/* rules --------------------------------------------------------------------------------------- */

/* The argument whose memory a result has, or -1. */
static int argument_shared(const OpCall *call, const sn_tensor *result) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        const int n = arg->kind == ARG_tensor ? 1 : arg->kind == ARG_tensors ? arg->n : 0;
        for (int k = 0; k < n; k++) {
            const sn_tensor *const t = tensor_of(arg->kind == ARG_tensor ? arg->val : arg->vals[k]);
            if (t && t->storage && t->storage == result->storage) return i;
        }
    }
    return -1;
}

static uint64_t hash_arg(uint64_t hash, const Arg *arg) {
    hash = hash_mix(hash, (uint64_t)arg->kind);
    if (arg->kind == ARG_tensor) return hash_mix(hash, arg->val ? (uintptr_t)arg->val->meta : 0); /* interned */
    if (arg->kind == ARG_string) return hash_bytes(hash, arg->string, strlen(arg->string));
    if (arg->kind == ARG_ints || arg->kind == ARG_floats)
        return hash_bytes(hash, arg->ints, (size_t)arg->n * sizeof *arg->ints);
    for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
        hash = hash_mix(hash, arg->vals[k] ? (uintptr_t)arg->vals[k]->meta : 0);
    return arg->kind == ARG_tensors ? hash : hash_mix(hash, (uint64_t)arg->i);
}

uint64_t custom_op_hash(const OpRow *row, const Arg *args) {
    uint64_t hash = 1;
    for (int i = 0; i < row->n_params; i++) hash = hash_arg(hash, &args[i]);
    return hash;
}

/* Layouts, and numbers, which the meta rule may have said. */
static uint64_t hash_call(const OpCall *call) {
    uint64_t hash = custom_op_hash(call->row, call->args);
    Arg number;
    for (int i = 0; i < call->n_outs; i++) {
        hash = hash_mix(hash, (uintptr_t)call->outs[i]->base.meta);
        if (custom_result_is_number(call->row, i, call->n_outs) && custom_number_read(call->outs[i], &number))
            hash = hash_mix(hash, (uint64_t)number.i);
    }
    return hash | 1;
}

static Status count_differs(const OpRow *row, int made, int said) {
    const Status status =
        error_raise(ST_SHAPE, "%s: its kernel returned %d results, where its meta rule said %d", row->name, made, said);
    error_set_op(row->name);
    return status;
}

/* Of a list as many as the rule says. */
static int results_capacity(const OpCall *call) { return call->row->returns_list ? call->n_outs : call->row->n_out; }

/* Strides of dims without neighbours may be any: the caller sees those that the rule says, as in compiled code. */
static Status take_layout(OpCall *call, int i, const Meta *said, bool *relaid) {
    sn_tensor *const made = call->outs[i];
    if (meta_same_layout(made->base.meta, said)) return ST_OK;
    *relaid = true;
    return (call->outs[i] = tensor_view(made, said, made->offset)) ? ST_OK : error_pending();
}

static Status check_layouts(OpCall *call, const DynamicOp *op, bool *relaid) {
    int n = results_capacity(call);
    MetaOut few[2], *const said = SMALL_ARRAY(few, n);
    if (!said) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, said};
    TRY(call_metas(call, 0, said, &n));
    if (n != results_capacity(call)) return count_differs(call->row, call->n_outs, n);
    for (int i = 0; i < n; i++) {
        if (!op->row.returns_list && op->result_of[i] >= 0) continue;
        const Meta *const meta = meta_intern_out(&said[i]);
        TRY(meta ? custom_op_check_result(&op->row, i, call->outs[i]->base.meta, meta) : error_pending());
        TRY(take_layout(call, i, meta, relaid));
    }
    return ST_OK;
}

static Status check_numbers(const OpCall *call, const DynamicOp *op) {
    Arg few[MAX_OUTS], *const said = SMALL_ARRAY(few, call->n_outs);
    if (!said) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, said};
    if (!op->numbers) return ST_OK;
    TRY(custom_numbers_said(op, call->args, said, call->n_outs));
    for (int i = 0; i < call->n_outs; i++) TRY(custom_numbers_agree(call->row, i, call->outs[i], &said[i]));
    return ST_OK;
}

/* A node of graphs gives what its meta rule says, in memory of its own: what compiled code relies on, eager asks too,
 * the rule once for a call of the same kind. */
static Status check_results(OpCall *call, DynamicOp *op) {
    for (int i = 0; i < call->n_outs; i++) {
        const bool is_new = op->row.returns_list || op->result_of[i] < 0;
        const int shared = is_new ? argument_shared(call, call->outs[i]) : -1;
        if (shared >= 0)
            return error_raise(ST_CALLBACK,
                               "%s: its kernel returned the memory of argument '%s' as result %d; sn_clone it",
                               op->row.name, op->params[shared].name, i);
    }
    const uint64_t hash = hash_call(call);
    _Atomic uint64_t *const agreed = &op->agreed[hash >> 1 & (COUNT_OF(op->agreed) - 1)];
    if (atomic_load_explicit(agreed, memory_order_relaxed) == hash) return ST_OK;
    bool relaid = false;
    TRY(check_layouts(call, op, &relaid));
    TRY(check_numbers(call, op));
    if (!relaid) atomic_store_explicit(agreed, hash, memory_order_relaxed);
    return ST_OK;
}

Status custom_op_kernel(OpCall *call) {
    DynamicOp *const op = (DynamicOp *)(uintptr_t)op_dynamic(call->row);
    const Meta *metas[MAX_ARGS]; /* of what it writes */
    if (op->functional) custom_write_record(call, op, metas);
    TRY(body_kernel(call, call->key == KEY_cuda ? op->cuda : op->cpu, op->closure));
    if (op->functional) TRY(custom_write_check(call, op, metas));
    const bool is_node = op->flags && (!op->n_written || (op->functional && op->n_fresh));
    return op->meta && is_node ? check_results(call, op) : ST_OK;
}

static Status run_meta(OpCall *call) {
    const DynamicOp *const op = op_dynamic(call->row);
    TRY(body_kernel(call, op->meta, op->closure));
    custom_write_count(call, op);
    return ST_OK;
}

/* Nothing is computed on the Meta device. */
static Status run_without_values(OpCall *call) {
    custom_write_set_results(call, op_dynamic(call->row), call->row->n_out);
    custom_write_count(call, op_dynamic(call->row));
    return ST_OK;
}

static Status run_decomposition(OpCall *call) {
    const DynamicOp *const op = op_dynamic(call->row);
    return body_kernel(call, op->decomposition, op->closure);
}

/* A tensor of the Meta device like `val`; its sizes are specialised where they are symbolic. */
static Val *on_meta(const MetaCall *call, const Val *val) {
    const Meta *const meta = val->meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = sym_is(meta->sizes[d]) ? sym_concrete(call->env, meta->sizes[d]) : meta->sizes[d];
        strides[d] = sym_is(meta->strides[d]) ? sym_concrete(call->env, meta->strides[d]) : meta->strides[d];
    }
    const Meta *const copy = meta_intern(meta->dtype, DEV_meta, sizes, strides, meta->rank, false);
    return copy ? (Val *)tensor_without_data(copy) : NULL;
}

/* What a meta body sees: the arguments on the Meta device. The items of its lists are freed at the end. */
typedef struct AskedArgs {
    Arg args[MAX_ARGS];
    Device device; /* of all tensors but the CPU's numbers */
    Val **items;
} AskedArgs;

static void asked_free(AskedArgs *asked) { mem_free(asked->items); }

static Status asked_tensor(const MetaCall *call, AskedArgs *asked, Val **val) {
    if (!*val) return ST_OK;
    if (!device_is_host((*val)->meta->device)) asked->device = (*val)->meta->device;
    return (*val = on_meta(call, *val)) ? ST_OK : error_pending();
}

static Status asked_args(const MetaCall *call, AskedArgs *asked) {
    int n = 0;
    for (int i = 0; i < call->row->n_params; i++) n += call->args[i].kind == ARG_tensors ? call->args[i].n : 0;
    asked->device = DEV_cpu;
    if (n && !(asked->items = mem_zero(sizeof *asked->items * (size_t)n))) return ST_MEMORY;
    Val **items = asked->items;
    for (int i = 0; i < call->row->n_params; i++) {
        Arg *const arg = &asked->args[i];
        *arg = call->args[i];
        if (arg->kind == ARG_tensor) TRY(asked_tensor(call, asked, &arg->val));
        if (arg->kind != ARG_tensors) continue;
        for (int k = 0; k < arg->n; k++) {
            items[k] = arg->vals[k];
            TRY(asked_tensor(call, asked, &items[k]));
        }
        arg->vals = items;
        items += arg->n;
    }
    return ST_OK;
}

static void fill_out(MetaOut *out, const Meta *meta, Device device) {
    out->dtype = meta->dtype;
    out->device = device;
    out->rank = meta->rank;
    out->alias = -1;
    out->wrapped = false;
    out->offset = 0;
    memcpy(out->sizes, meta->sizes, (size_t)meta->rank * sizeof(int64_t));
    memcpy(out->strides, meta->strides, (size_t)meta->rank * sizeof(int64_t));
}

/* What is made of the results that the body has set, whose tensors go as its scope ends. */
typedef Status TakeResults(MetaCall *call, sn_tensor *const *outs, int n, Device device, Arg *said);

static Status take_metas(MetaCall *call, sn_tensor *const *outs, int n, Device device, Arg *said) {
    (void)said;
    for (int i = 0; i < n && i < call->n_out; i++) {
        const bool number = custom_result_is_number(call->row, i, n);
        fill_out(&call->out[i], outs[i]->base.meta, number ? DEV_cpu : device);
        call->out[i].wrapped = number;
    }
    call->n_out = n;
    return ST_OK;
}

static Status take_numbers(MetaCall *call, sn_tensor *const *outs, int n, Device device, Arg *said) {
    (void)device;
    for (int i = 0; i < n && i < call->n_out; i++)
        if (!custom_result_is_number(call->row, i, n) || !custom_number_read(outs[i], &said[i])) said[i] = A_NONE;
    return ST_OK;
}

static Status ask_body(MetaCall *call, TakeResults *take, Arg *said) {
    const DynamicOp *const op = op_dynamic(call->row);
    __attribute__((cleanup(asked_free))) AskedArgs asked = {.items = NULL};
    TRY(asked_args(call, &asked));
    const int capacity = op->row.returns_list ? MAX_LIST : op->row.n_out;
    sn_tensor *few[MAX_OUTS], **const outs = SMALL_ARRAY(few, capacity);
    if (!outs) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, outs};
    memset(outs, 0, sizeof *outs * (size_t)capacity);
    sn_frame frame = {.what = op->row.name,
                      .closure = op->closure,
                      .in = asked.args,
                      .n_in = op->row.n_params,
                      .out = outs,
                      .n_out = capacity,
                      .outs_optional = op->row.returns_list,
                      .meta_of = op};
    int n;
    frame.passed_on = custom_write_hold(&op->row, asked.args, outs);
    TRY(frame_run(&frame, op->meta));
    TRY(custom_results_check(op, outs, frame.none, capacity, &n));
    return take(call, outs, n, asked.device, said);
}

/* In a scope of its own, as a part of nobody's graph. */
static Status custom_ask(MetaCall *call, TakeResults *take, Arg *said) {
    sn_state *const state = state_get();
    const ContextSaved saved = context_enter(state, CONTEXT_meta_rule); /* ops of the body are none of the function's */
    Status status = scope_push(state, false);
    if (status == ST_OK) {
        status = ask_body(call, take, said);
        scope_pop(state);
    }
    context_leave(&saved);
    return status;
}

Status custom_op_ask_numbers(MetaCall *call, Arg *said) { return custom_ask(call, take_numbers, said); }

static bool has_symbols(const MetaCall *call) {
    bool any = false;
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        const Meta *const meta = arg->kind == ARG_tensor && arg->val ? arg->val->meta : NULL;
        any |= arg->kind == ARG_int && sym_is(arg->i);
        for (int d = 0; meta && d < meta->rank; d++) any |= sym_is(meta->sizes[d]);
    }
    return any;
}

void custom_op_own(const DynamicOp *op, MetaFn *symbolic, DerivFn *derivative) {
    DynamicOp *const own = (DynamicOp *)op;
    own->symbolic = symbolic;
    own->rule = derivative;
    if (derivative) own->row.derivative = op->row.base;
}

/* Nothing is to be known of such results but which they are. */
static bool gives_arguments(const DynamicOp *op) { return !op->n_fresh && !op->row.returns_list; }

static Status meta_rule(MetaCall *call) {
    MetaFn *const symbolic = op_dynamic(call->row)->symbolic;
    if (symbolic && has_symbols(call)) return symbolic(call);
    if (!op_dynamic(call->row)->meta && gives_arguments(op_dynamic(call->row))) return custom_write_metas(call);
    if (!op_dynamic(call->row)->meta)
        return error_raise(ST_UNSUPPORTED, "%s has no meta rule: its results are known only when it runs",
                           call->row->name);
    return custom_ask(call, take_metas, NULL);
}

/* Of what has elements, along dims that have several. */
static bool same_strides(const Meta *a, const Meta *b) {
    for (int d = 0; a->numel && d < a->rank; d++)
        if (a->sizes[d] > 1 && a->strides[d] != b->strides[d]) return false;
    return true;
}

Status custom_op_check_result(const OpRow *row, int result, const Meta *made, const Meta *said) {
    if (meta_same_sizes(made, said) && made->dtype == said->dtype && same_strides(made, said)) return ST_OK;
    Text texts[2] = {0};
    meta_print(NULL, &texts[0], made);
    meta_print(NULL, &texts[1], said);
    const Status status = error_raise(ST_SHAPE, "%s: its kernel returned %s as result %d, where its meta rule said %s",
                                      row->name, text_str(&texts[0]), result, text_str(&texts[1]));
    error_set_op(row->name);
    text_free(&texts[0]);
    text_free(&texts[1]);
    return status;
}

Status custom_op_check_results(const OpRow *row, sn_tensor *const *made, int n, sn_tensor *const *said, int n_said) {
    if (n != n_said) return count_differs(row, n, n_said);
    for (int i = 0; i < n; i++) TRY(custom_op_check_result(row, i, made[i]->base.meta, said[i]->base.meta));
    return ST_OK;
}

/* registration -------------------------------------------------------------------------------- */

static Status full_name(const Schema *schema, char *name, size_t capacity) {
    const bool overloaded = schema->overload[0] != '\0';
    const int n = snprintf(name, capacity, "%s::%s%s%s", schema->name_space, schema->base, overloaded ? "." : "",
                           schema->overload);
    return n > 0 && (size_t)n < capacity ? ST_OK
                                         : error_raise(ST_ARGUMENT, "the name of op %s is too long", schema->base);
}

static Status check_schema(const Schema *schema, const char *text, const char *name) {
    if (!memchr(text, ':', strcspn(text, "(")))
        return error_raise(ST_ARGUMENT, "schema \"%s\": the name needs a namespace, as in my::%s", text, schema->base);
    for (int i = 0; i < schema->n_params; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(schema->params[i].name, schema->params[k].name))
                return error_raise(ST_ARGUMENT, "%s: two parameters are called %s", name, schema->params[i].name);
    return ST_OK;
}

static Status parse(DynamicOp *op, const sn_op_desc *desc, Schema *schema) {
    const size_t n = strlen(desc->schema), name_capacity = 256;
    op->text = mem_zero(2 * n + 65 + name_capacity);
    if (!op->text) return ST_MEMORY;
    char *const copy = op->text, *const name = copy + n + 1;
    memcpy(copy, desc->schema, n + 1);
    *schema = (Schema){.params = op->params, .text = name + name_capacity};
    TRY(schema_parse(copy, schema));
    TRY(full_name(schema, name, name_capacity));
    op->row = (OpRow){.name = name,
                      .base = schema->base,
                      .overload = schema->overload,
                      .schema = copy,
                      .kind = KIND_kernel,
                      .meta = meta_rule,
                      .body = "custom",
                      .saves = desc->saves ? desc->saves : "",
                      .samples = "",
                      .doc = "A user's op.",
                      .derivative = desc->derivative ? "custom" : NULL,
                      .flags = OPF_user,
                      .n_params = schema->n_params,
                      .n_out = schema->returns_list ? 1 : schema->n_out,
                      .returns_list = schema->returns_list,
                      .shares = op_shares(schema->params, schema->n_params),
                      .params = op->params};
    op->row.device = op_device_param(&op->row);
    TRY(check_schema(schema, copy, name));
    TRY(custom_results_find(op, schema, name));
    custom_write_find(op, schema);
    return saves_check(&op->row);
}

static void register_kernels(const DynamicOp *op) {
    const OpRow *const row = &op->row;
    if (op->decomposition && !op->derivative) dispatch_register(row, KEY_autograd, run_decomposition);
    if (op->decomposition && !op->derivative && !op->cpu) { /* its parts are captured, and batched */
        dispatch_register(row, KEY_capture, run_decomposition);
        dispatch_register(row, KEY_vmap, run_decomposition);
    }
    if (op->decomposition) dispatch_register(row, KEY_cpu, run_decomposition);
    if (op->decomposition) dispatch_register(row, KEY_meta, run_decomposition);
    if (op->decomposition) dispatch_register(row, KEY_spare, run_decomposition);
    if (op->cpu) dispatch_register(row, KEY_cpu, custom_op_kernel);
    if (op->cuda) dispatch_register(row, KEY_cuda, custom_op_kernel);
    if (op->meta) dispatch_register(row, KEY_meta, run_meta);
    if (!op->meta && !op->decomposition && gives_arguments(op)) dispatch_register(row, KEY_meta, run_without_values);
}

/* A program that was built before a field was added has none. */
#define HAS(desc, field) ((desc)->size >= offsetof(sn_op_desc, field) + sizeof(desc)->field)
static sn_cast cast_of(const sn_op_desc *desc) { return HAS(desc, autocast) ? desc->autocast : SN_CAST_NONE; }
static const char *scalar_of(const sn_op_desc *desc) { return HAS(desc, scalar) ? desc->scalar : NULL; }
static sn_expr_fn scalar_body_of(const sn_op_desc *desc) { return HAS(desc, scalar_body) ? desc->scalar_body : NULL; }

/* Its kernels, meta rule and parts follow from the expression. */
static Status check_scalar(const sn_op_desc *desc) {
    if (scalar_of(desc) && scalar_body_of(desc))
        return error_raise(ST_ARGUMENT, "%s: scalar and scalar_body are two expressions", desc->schema);
    if (desc->cpu || desc->cuda || desc->meta || desc->decomposition)
        return error_raise(ST_ARGUMENT, "%s: an op with a scalar expression has no kernel, meta rule or decomposition",
                           desc->schema);
    if (!(desc->flags & SN_OP_ORDERED)) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: an op with a scalar expression has no effect: it is SN_OP_PURE", desc->schema);
}

static Status check_desc(const sn_op_desc *desc) {
    if (!desc || desc->size < offsetof(sn_op_desc, autocast) || !desc->schema)
        return error_raise(ST_ARGUMENT, "sn_op_register: the description is NULL, or has no size or schema");
    if (desc->flags > SN_OP_ORDERED)
        return error_raise(ST_ARGUMENT, "%s: flags are SN_OP_PURE, SN_OP_ORDERED or 0, not 0x%x", desc->schema,
                           desc->flags);
    if ((int)cast_of(desc) < SN_CAST_NONE || cast_of(desc) > SN_CAST_PROMOTE)
        return error_raise(ST_ARGUMENT, "%s: there is no autocast policy %d", desc->schema, (int)cast_of(desc));
    if (scalar_of(desc) || scalar_body_of(desc)) return check_scalar(desc);
    if (desc->cpu || desc->cuda || desc->decomposition) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: an op needs a kernel, a decomposition or a scalar expression", desc->schema);
}

static Status build_expression(Expression *e, const sn_op_desc *desc) {
    e->root = scalar_body_of(desc)((sn_expr *)e, desc->closure);
    if (e->root >= 0 || error_pending() != ST_OK) return error_pending();
    return error_raise(ST_CALLBACK, "%s: scalar_body returned %d, no part", e->row->name, e->root);
}

/* The row becomes one of the table's kind: every layer serves it as it does these. */
static Status set_expression(DynamicOp *op, const sn_op_desc *desc) {
    const char *const text = scalar_of(desc);
    if (!text && !scalar_body_of(desc)) return ST_OK;
    op->expression = mem_zero(sizeof *op->expression);
    if (!op->expression || (text && !(op->scalar = mem_strdup(text)))) return ST_MEMORY;
    Expression *const e = op->expression;
    e->row = &op->row;
    TRY(text ? expression_parse(e, op->scalar) : build_expression(e, desc));
    TRY(expression_check(e));
    op->row.expression = e;
    op->row.kind = KIND_pointwise;
    op->row.meta = expression_meta;
    op->row.flags = 0;
    op->row.doc = "A user's op, by its scalar expression.";
    op->flags = SN_OP_PURE;
    return ST_OK;
}

static Status check_new(const DynamicOp *op) {
    if (op_find(op->row.name, strlen(op->row.name), NULL))
        return error_raise(ST_ARGUMENT, "op %s exists already", op->row.name);
    if (atomic_load(&n_ops) < MAX_OPS - 1) return ST_OK; /* and one more, which it may come with */
    return error_raise(ST_UNSUPPORTED, "more than %d user's ops", MAX_OPS);
}

OpBatch custom_op_begin(void) {
    static _Atomic int batches;
    const OpBatch batch = {.number = atomic_fetch_add(&batches, 1) + 1, .before = override_batch};
    override_batch = batch.number;
    return batch;
}

static _Atomic(BatchWithdraw *) withdrawers[8]; /* one for each kind of what a program registers */

int custom_op_batch(BatchWithdraw *withdraw) {
    for (int i = 0; override_batch && i < COUNT_OF(withdrawers); i++) {
        BatchWithdraw *there = NULL;
        if (atomic_compare_exchange_strong(&withdrawers[i], &there, withdraw) || there == withdraw) break;
    }
    return override_batch;
}

void custom_op_end(OpBatch batch, bool failed) {
    DynamicOp *op;
    override_batch = batch.before;
    if (failed) override_withdraw(batch.number);
    for (int i = 0; failed && i < COUNT_OF(withdrawers); i++) {
        BatchWithdraw *const withdraw = atomic_load(&withdrawers[i]);
        if (withdraw) withdraw(batch.number);
    }
    for (int i = 0; failed && i < atomic_load(&n_ops); i++)
        if ((op = atomic_load(&ops[i]))->batch == batch.number) atomic_store(&op->withdrawn, true);
}

static void publish_op(DynamicOp *op) {
    op->batch = override_batch;
    const int i = atomic_load(&n_ops);
    op->row.id = OP_IDS + i;
    register_kernels(op);
    atomic_store(&ops[i], op);
    atomic_store(&n_ops, i + 1);
}

static void free_op(DynamicOp *op) {
    if (!op) return;
    mem_free(op->expression);
    mem_free(op->scalar);
    mem_free(op->text);
    mem_free(op);
}

static Status set_policy(DynamicOp *op, sn_cast cast) {
    static const CastPolicy policies[] = {CAST_none, CAST_lower, CAST_f32, CAST_promote};
    op->row.autocast = op->row.autocast_list = policies[cast];
    if (cast == SN_CAST_NONE || !op->n_written) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: it writes an argument, and autocast would have it write a cast", op->row.name);
}

static Status publish_both(DynamicOp *op, const Schema *schema) {
    DynamicOp *functional;
    TRY(check_new(op));
    TRY(custom_write_functional(op, schema, &functional));
    const Status status = functional ? check_new(functional) : ST_OK;
    if (status != ST_OK) {
        free_op(functional);
        return status;
    }
    if (functional) publish_op(functional); /* first: who finds the other one finds it */
    op->functional = functional;
    publish_op(op);
    return ST_OK;
}

const DynamicOp *custom_op_register(const sn_op_desc *desc) {
    if (error_pending() != ST_OK || check_desc(desc) != ST_OK) return NULL;
    DynamicOp *const op = mem_zero(sizeof *op);
    if (!op) return NULL;
    *op = (DynamicOp){.flags = desc->flags,
                      .meta = desc->meta,
                      .cpu = desc->cpu,
                      .cuda = desc->cuda,
                      .decomposition = desc->decomposition,
                      .derivative = desc->derivative,
                      .closure = desc->closure};
    Schema schema;
    Status status = parse(op, desc, &schema);
    if (!(desc->flags & SN_OP_PURE)) op->row.flags |= OPF_ordered;
    if (status == ST_OK) status = set_expression(op, desc); /* calls the program, which may register another op */
    if (status == ST_OK) status = set_policy(op, cast_of(desc));
    if (status == ST_OK) {
        pthread_mutex_lock(&lock);
        status = publish_both(op, &schema);
        pthread_mutex_unlock(&lock);
    }
    if (status == ST_OK) return op;
    free_op(op);
    return NULL;
}
