/* dispatch.c: the table and the traversal of a call's keys.
 *
 *   sn_add(x, y)   keys {cpu, autograd}   x requires grad; thread state adds or takes keys away
 *     autograd     the tape's fallback    records a node, redispatches to {cpu}
 *     cpu          eager's fallback       runs the op's one-node program
 *
 * What a call's arguments need before they say which keys it has stands in the table, too, at KEY_none: a few forms of
 * rows (OpRow.prepares) begin there.
 *
 * Composite rows have one entry more: at capture, autograd and every backend they expand into their
 * parts, each dispatched from the top, so the highest of those keys decides where. */
#include "runtime/core/dispatch.h"

#include <stdio.h>

#include "ir/meta_rules.h"
#include "passes/passes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/small_array.h"
#include "runtime/core/override.h"
#include "runtime/core/profile.h"
#include "runtime/core/tracer.h"
#include "runtime/core/tracking.h"

enum { MAX_DYNAMIC = 4096 };
typedef _Atomic(OpKernel *) Entry;

_Atomic uint32_t dispatch_epoch = 1;
static Entry table[OP_IDS][KEY_COUNT];
static _Atomic(Entry *) dynamic[MAX_DYNAMIC]; /* KEY_COUNT of each row made at run time */
static Entry fallbacks[KEY_COUNT];

static const char *const key_names[KEY_COUNT] = {
#define KEY(name, public_id, doc) #name,
#include "runtime/core/keys.def"
#undef KEY
};
static const int public_ids[KEY_COUNT] = {
#define KEY(name, public_id, doc) public_id,
#include "runtime/core/keys.def"
#undef KEY
};

/* A registered device's key is called as the device is. */
const char *key_name(Key key) {
    const Device device = DEV_spare + (Device)key - KEY_spare;
    return device_is_spare(device) && device_exists(device) ? DEVICE_TEXT(device) : key_names[key];
}

void keys_print(Text *text, uint64_t keys) {
    const char *between = "";
    for (int key = KEY_COUNT - 1; key > KEY_none; key--) {
        if (!(keys >> key & 1)) continue;
        text_printf(text, "%s%s", between, key_name((Key)key));
        between = ", ";
    }
}

static const char *const key_docs[KEY_COUNT] = {
#define KEY(name, public_id, doc) doc,
#include "runtime/core/keys.def"
#undef KEY
};

/* The first spare key has a public name; the others are what registered devices have. */
static bool is_free(int key) {
    return KEYS_SPARE >> key & 1 && key != KEY_spare && !device_exists(DEV_spare + key - KEY_spare);
}

int key_of_public(sn_key key) {
    for (int i = 1; i < KEY_COUNT; i++)
        if (public_ids[i] && public_ids[i] == (int)key) return is_free(i) ? -1 : i;
    return -1;
}

bool key_is_reserved(Key key) { return !strncmp(key_docs[key], "reserved", 8); }

int key_public(Key key) { return public_ids[key]; }

uint64_t key_of_device(Device device) {
    return device == DEV_cpu    ? KEY_BIT(cpu)
           : device == DEV_meta ? KEY_BIT(meta)
           : device >= DEV_cuda ? KEY_BIT(cuda)
                                : KEY_BIT(spare) << (device - DEV_spare);
}

/* the table ----------------------------------------------------------------------------------- */

static Entry *entries_of(const OpRow *row) {
    if (LIKELY(!op_is_made(row))) return table[row->id];
    return atomic_load_explicit(&dynamic[row->id - OP_IDS], memory_order_acquire);
}

static inline OpKernel *entry_at(Entry *entries, Key key) {
    OpKernel *const kernel = entries ? atomic_load_explicit(&entries[key], memory_order_relaxed) : NULL;
    return kernel ? kernel : atomic_load_explicit(&fallbacks[key], memory_order_relaxed);
}

void dispatch_composites(uint64_t keys, OpKernel *kernel) {
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *const row = op_row_at(i);
        for (int key = 0; key < KEY_COUNT && row->kind == KIND_composite && !row->alias_of; key++)
            if (keys >> key & 1) atomic_store(&table[row->id][key], kernel);
    }
}

static Status expand_eagerly(OpCall *call) { return composite_expand(call, call->args, NULL, NULL); }

void dispatch_start(void) {
    dispatch_composites(KEYS_KERNEL | KEY_BIT(functionalize) | KEY_BIT(autograd), expand_eagerly);
    for (int key = 0; key < KEY_COUNT; key++)
        if (KEYS_SLOT >> key & 1) dispatch_fallback((Key)key, dispatch_nothing_there);
}

OpKernel *dispatch_entry(const OpRow *row, Key key) { return entry_at(entries_of(row), key); }

void dispatch_fallback(Key key, OpKernel *kernel) {
    atomic_store(&fallbacks[key], kernel);
    atomic_fetch_add(&dispatch_epoch, 1);
}

OpKernel *dispatch_fallback_of(Key key) { return atomic_load(&fallbacks[key]); }

OpKernel *dispatch_own(const OpRow *row, Key key) {
    Entry *const entries = entries_of(row);
    return entries ? atomic_load(&entries[key]) : NULL;
}

void dispatch_register(const OpRow *row, Key key, OpKernel *kernel) {
    Entry *entries = entries_of(row);
    if (!entries) { /* a row made at run time, before anybody can call it */
        if (!kernel || !(entries = mem_zero(KEY_COUNT * sizeof *entries))) return;
        atomic_store_explicit(&dynamic[row->id - OP_IDS], entries, memory_order_release);
    }
    atomic_store(&entries[key], kernel);
    atomic_fetch_add(&dispatch_epoch, 1);
}

/* key sets ------------------------------------------------------------------------------------ */

static Status null_argument(const OpCall *call, int i) {
    return error_raise(ST_ARGUMENT, "%s: %s is missing", call->row->name, call->row->params[i].name);
}

static Status failed_argument(const OpCall *call, int i, const sn_tensor *t) {
    TRY(tracking_error(t, call->row->params[i].name));
    return error_raise(ST_STATE, "argument '%s' is the result of an op that failed", call->row->params[i].name);
}

static Status unusable(const OpCall *call, int i, const sn_tensor *t) {
    if (t) return failed_argument(call, i, t);
    return call->row->params[i].type == PT_tensor_opt ? ST_OK : null_argument(call, i);
}

static inline Status add_tensor(const OpCall *call, int i, Val *val, uint64_t *keys) {
    sn_tensor *const t = (sn_tensor *)val;
    if (UNLIKELY(!t || t->flags & TF_error)) return unusable(call, i, t);
    if (UNLIKELY(t->placeholder != NULL)) TRY(tracer_make_foreign(t));
    *keys |= t->keys;
    return ST_OK;
}

static Status add_list(const OpCall *call, int i, uint64_t *keys) {
    const Arg *const arg = &call->args[i];
    for (int k = 0; k < arg->n; k++)
        if (arg->vals[k] || call->row->params[i].type == PT_tensors) TRY(add_tensor(call, i, arg->vals[k], keys));
    return ST_OK;
}

static Status add_outs(const OpCall *call, uint64_t *keys) {
    for (int i = 0; i < call->row->n_out; i++) {
        sn_tensor *const out = call->out_args[i];
        if (!out) return error_raise(ST_ARGUMENT, "argument 'out' is NULL");
        if (UNLIKELY(out->placeholder != NULL)) TRY(tracer_make_foreign(out));
        *keys |= out->keys;
    }
    return ST_OK;
}

static inline Status union_of_keys(const OpCall *call, uint64_t *keys) {
    const Arg *const args = call->args;
    for (int i = 0, n = call->row->n_params; i < n; i++) {
        if (args[i].kind == ARG_tensor)
            TRY(add_tensor(call, i, args[i].val, keys));
        else if (UNLIKELY(args[i].kind == ARG_tensors))
            TRY(add_list(call, i, keys));
    }
    return LIKELY(!call->out_args) ? ST_OK : add_outs(call, keys);
}

/* A device argument decides what the results are on, whatever the tensors are on. */
static uint64_t keys_at_device(const OpCall *call, uint64_t keys) {
    const Arg *const given = &call->args[call->row->device];
    if (given->kind != ARG_int) return keys;
    return (keys & ~KEYS_BACKEND) | key_of_device((Device)given->i);
}

/* The first tensor that says which device a call is on. */
typedef struct DeviceSource {
    const sn_tensor *tensor;
    const char *name;
} DeviceSource;

static Status check_device(DeviceSource *first, const sn_tensor *t, const char *name) {
    if (!first->tensor) *first = (DeviceSource){t, name};
    if (first->tensor->base.meta->device == t->base.meta->device) return ST_OK;
    return error_raise(ST_DEVICE, "all tensors must be on one device: '%s' is on %s, '%s' on %s", first->name,
                       DEVICE_TEXT(first->tensor->base.meta->device), name, DEVICE_TEXT(t->base.meta->device));
}

static bool is_cpu_scalar(const sn_tensor *t) { return t->base.meta->device == DEV_cpu && !t->base.meta->rank; }

/* Tensors on different devices; 0-dim CPU tensors that are only read go with any device. Copies to and from a
 * device beside the CPU are served at its key. */
static Status check_devices(OpCall *call) {
    if (call->row->flags & OPF_across && call->keys & KEYS_BESIDE) return ST_OK;
    DeviceSource first = {0};
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        const int n = arg->kind == ARG_tensor ? 1 : arg->kind == ARG_tensors ? arg->n : 0;
        const bool written = call->form == FORM_inplace && i == 0;
        for (int k = 0; k < n; k++) {
            const sn_tensor *const t = tensor_of(arg->kind == ARG_tensor ? arg->val : arg->vals[k]);
            if (t && (written || !is_cpu_scalar(t))) TRY(check_device(&first, t, call->row->params[i].name));
        }
    }
    for (int i = 0; call->out_args && i < call->row->n_out; i++) TRY(check_device(&first, call->out_args[i], "out"));
    call->keys &= ~KEY_BIT(cpu); /* what is left besides CPU scalars */
    return ST_OK;
}

/* traversal ------------------------------------------------------------------------------------ */

static Status no_kernel(const OpCall *call, uint64_t keys) {
    const char *const name = op_form_name(call->row, call->form);
    if (!keys) return error_raise(ST_UNSUPPORTED, "%s: it has no key below %s", name, key_name(call->key));
    Text list = {0};
    keys_print(&list, keys);
    const Status status = error_raise(ST_UNSUPPORTED, "%s: it is not implemented for key %s", name, text_str(&list));
    text_free(&list);
    return status;
}

Status dispatch_nothing_there(OpCall *call) { return no_kernel(call, UINT64_C(1) << call->key); }

/* Runs the highest key of `keys` that has a kernel. */
static inline Status run_highest(OpCall *call, uint64_t keys) {
    Entry *const entries = entries_of(call->row);
    for (uint64_t left = keys; left;) {
        const Key key = (Key)(63 - __builtin_clzll(left));
        left &= ~(UINT64_C(1) << key);
        OpKernel *const kernel = entry_at(entries, key);
        if (!kernel) continue;
        call->keys = left;
        call->key = key;
        LOG(dispatch, INFO, "%s: %s", op_form_name(call->row, call->form), key_name(key));
        return kernel(call);
    }
    return no_kernel(call, keys);
}

Status redispatch(OpCall *call) { return run_highest(call, call->keys); }
Status redispatch_excluding(OpCall *call, uint64_t keys) { return run_highest(call, call->keys & ~keys); }

static Status start(OpCall *call) {
    sn_state *const state = state_get();
    if (UNLIKELY(state->error.status != ST_OK)) return state->error.status;
    uint64_t keys = 0;
    TRY(union_of_keys(call, &keys));
    if (UNLIKELY(!keys)) keys = KEY_BIT(cpu) | KEY_BIT(autograd);
    const uint64_t backends = keys & KEYS_BACKEND;
    if (UNLIKELY((backends & (backends - 1)) | (backends & KEY_BIT(cuda)))) { /* one key for all of cuda:0, cuda:1... */
        call->keys = keys;
        TRY(check_devices(call));
        keys = call->keys;
    }
    if (UNLIKELY(call->row->device >= 0)) keys = keys_at_device(call, keys);
    return run_highest(call, (keys | state->include) & ~state->exclude);
}

static Status finish_call(OpCall *call, Status status) {
    if (LIKELY(status == ST_OK)) return ST_OK;
    error_set_op(op_form_name(call->row, call->form));
    error_set_site(state_get()->site);
    for (int i = 0; i < call->row->n_out; i++) call->outs[i] = NULL;
    call->n_outs = 0;
    return error_pending() ? error_pending() : status; /* the first one raised is the call's */
}

static sn_tensor *written_at(OpForm form, const Arg *args, sn_tensor *const *out_args, int i) {
    if (form == FORM_out) return out_args[i];
    return args[0].kind == ARG_tensor ? tensor_of(args[0].val) : NULL;
}

Status dispatch_inference_error(const OpRow *row, OpForm form) {
    return error_raise(ST_STATE,
                       "%s: a tensor made in inference mode would be written outside of it; sn_clone it first",
                       op_form_name(row, form));
}

/* What is pending its capture asks about where the op is recorded; not of one that other ops stand for there. */
static bool is_inference(const OpRow *row, sn_tensor *t) {
    if (LIKELY(!t->placeholder)) return t->flags & TF_inference;
    return (row->alias_of || row->kind == KIND_composite) && tracer_is_inference(t);
}

/* Who reads a tensor of inference mode relies on its never changing: it has no version that could tell. */
static Status check_inference(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args) {
    if (state_get()->grad_mode == SN_INFERENCE) return ST_OK;
    for (int i = 0; i < (form == FORM_inplace ? 1 : row->n_out); i++) {
        sn_tensor *const t = written_at(form, args, out_args, i);
        if (LIKELY(!t || !is_inference(row, t))) continue;
        /* What is wrong with the arguments comes first, as where the op is recorded. */
        const OpCall call = op_call(row, form, args, out_args, NULL);
        uint64_t keys = 0;
        if (union_of_keys(&call, &keys) == ST_OK) dispatch_inference_error(row, form);
        error_set_op(op_form_name(row, form)), error_set_site(state_get()->site);
        return error_pending();
    }
    return ST_OK;
}

Status dispatch_check_inference(const OpCall *call) {
    if (call->form == FORM_functional || call->row->kind == KIND_view) return ST_OK;
    return check_inference(call->row, call->form, call->args, call->out_args);
}

static ALWAYS_INLINE Status call_at_keys(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args,
                                         sn_tensor **outs) {
    OpCall call = op_call(row, form, args, out_args, outs);
    Status status;
    sn_state *const state = state_get();
    if (!tracer_follow(state, &call, &status)) status = start(&call);
    return LIKELY(status == ST_OK) ? ST_OK : finish_call(&call, status);
}

COLD Status dispatch_at_keys(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args,
                             sn_tensor **outs) {
    return call_at_keys(row, form, args, out_args, outs);
}

static COLD Status call_prepared(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args,
                                 sn_tensor **outs) {
    OpCall call = {.row = row, .form = form, .args = args, .out_args = out_args, .outs = outs, .n_outs = row->n_out};
    return dispatch_entry(row, KEY_none)(&call);
}

static ALWAYS_INLINE Status dispatch_call(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args,
                                          sn_tensor **outs) {
    if (form != FORM_functional && row->kind != KIND_view) TRY(check_inference(row, form, args, out_args));
    if (UNLIKELY(row->prepares >> form & 1)) return call_prepared(row, form, args, out_args, outs);
    return call_at_keys(row, form, args, out_args, outs);
}

/* What a body records or matches runs with its segment. */
static ProfileSpan profile_op(const OpRow *row, OpForm form, const Arg *args) {
    if (LIKELY(!profile_is_on()) || tracer_recording(state_get())) return (ProfileSpan){0};
    const ProfileKind kind = row->flags & (OPF_copy | OPF_across) ? PROFILE_copy : PROFILE_op;
    const ProfileSpan span = profile_begin(kind, op_form_name(row, form), NULL);
    profile_record_arguments(&span, row, args);
    return span;
}

/* Not inline, so that a call that nobody profiles pays for a branch alone. */
static COLD Status dispatch_profiled(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args,
                                     sn_tensor **outs) {
    __attribute__((cleanup(profile_end))) ProfileSpan span = profile_op(row, form, args);
    const Status status = dispatch_call(row, form, args, out_args, outs);
    if (status == ST_OK) profile_record_results(&span, row, args, outs, row->n_out);
    return status;
}

Status dispatch(const OpRow *row, OpForm form, const Arg *args, sn_tensor *const *out_args, sn_tensor **outs) {
    if (profile_is_on()) return dispatch_profiled(row, form, args, out_args, outs);
    return dispatch_call(row, form, args, out_args, outs);
}

Status dispatch_list(const OpRow *row, const Arg *args, sn_tensor **outs, int *n_outs) {
    __attribute__((cleanup(profile_end))) ProfileSpan span = profile_op(row, FORM_functional, args);
    OpCall call = op_call(row, FORM_functional, args, NULL, outs);
    TRY(finish_call(&call, start(&call)));
    profile_record_results(&span, row, args, outs, call.n_outs);
    *n_outs = call.n_outs;
    return ST_OK;
}

/* eager as a builder -------------------------------------------------------------------------- */

static Status emit_eagerly(Builder *self, const OpRow *row, const Arg *args, Val **outs) {
    (void)self;
    const Status status = dispatch(row, FORM_functional, args, NULL, (sn_tensor **)outs);
    if (UNLIKELY(row->flags & OPF_copy) && status == ST_OK && args[0].kind == ARG_tensor)
        hidden_copy_record(tensor_of(args[0].val), tensor_of(*outs));
    return status;
}

static Status write_eagerly(Builder *self, Val *to, Val *from) {
    (void)self;
    sn_tensor *written;
    return dispatch(OP_ROW(copy), FORM_inplace, (const Arg[]){A_VAL(to), A_VAL(from), A_BOOL(0)}, NULL, &written);
}

Builder *eager_builder(void) {
    static Builder builder = {.emit = emit_eagerly, .write = write_eagerly};
    return &builder;
}

/* Out forms pass what they write behind the arguments. */
Status call_metas(const OpCall *call, int64_t base_offset, MetaOut *out, int *n) {
    Arg args[MAX_ARGS + MAX_OUTS];
    MetaCall meta = {
        .row = call->row, .form = call->form, .args = call->args, .base_offset = base_offset, .out = out, .n_out = *n};
    if (call->form == FORM_out) {
        memcpy(args, call->args, sizeof *args * (size_t)call->row->n_params);
        for (int i = 0; i < call->row->n_out; i++) args[call->row->n_params + i] = A_VAL(&call->out_args[i]->base);
        meta.args = args;
    }
    for (int i = 0; i < *n; i++) out[i].alias = -1, out[i].offset = 0, out[i].wrapped = false;
    TRY(op_meta(&meta));
    *n = meta.n_out;
    return ST_OK;
}

const Meta *meta_intern_out(const MetaOut *out) {
    return meta_intern(out->dtype, out->device, out->sizes, out->strides, out->rank, out->wrapped);
}

/* The meta rule says what is wrong with the arguments, and how many results a Tensor[] has. */
static Status check_composite(OpCall *call, const Arg *plain) {
    const OpForm form = call->form == FORM_inplace ? FORM_inplace : FORM_functional;
    const int capacity = call->row->returns_list ? 1 : call->row->n_out;
    MetaOut few[2], *const outs = SMALL_ARRAY(few, capacity);
    if (!outs) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, outs};
    MetaCall meta = {.row = call->row, .form = form, .args = plain, .out = outs, .n_out = capacity};
    TRY(op_meta(&meta));
    if (meta.n_out > MAX_LIST)
        return error_raise(ST_UNSUPPORTED, "%s: %d results; at most %d", call->row->name, meta.n_out, MAX_LIST);
    call->n_outs = meta.n_out;
    return ST_OK;
}

/* In place: the expansion's result is copied into self. */
static Status write_composite(OpCall *call) {
    const Arg args[3] = {call->args[0], A_VAL(&call->outs[0]->base), A_BOOL(0)};
    return dispatch(OP_ROW(copy), FORM_inplace, args, NULL, call->outs);
}

/* Out: into the given tensors, resized where needed. */
static Status write_outs(OpCall *call) {
    for (int i = 0; i < call->row->n_out; i++) {
        const Arg args[2] = {A_VAL(&call->outs[i]->base), A_NONE};
        TRY(dispatch(OP_ROW(clone), FORM_out, args, &call->out_args[i], &call->outs[i]));
    }
    return ST_OK;
}

static Status expand_parts(OpCall *call, CompositeParts *parts, void *context) {
    Val *few[MAX_OUTS], **const outs = SMALL_ARRAY(few, call->n_outs);
    if (!outs) return ST_MEMORY;
    SMALL_ARRAY_OWNER kept = {few, outs};
    memset(outs, 0, sizeof *outs * (size_t)call->n_outs);
    Status status =
        parts ? parts(context, call, outs) : decomp_rule(call->row)(eager_builder(), call->row, call->args, outs);
    for (int i = 0; i < call->n_outs; i++) call->outs[i] = status == ST_OK ? tensor_of(outs[i]) : NULL;
    if (status == ST_OK && call->form == FORM_inplace) status = write_composite(call);
    if (status == ST_OK && call->form == FORM_out) status = write_outs(call);
    return status;
}

/* Parts are temporaries of a scope of their own; results pass to the caller's. */
static Status expand_scoped(OpCall *call, const Arg *plain, CompositeParts *parts, void *context) {
    sn_state *const state = state_get();
    TRY(check_composite(call, plain));
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    const char *const outer = state->composite;
    if (!outer && tracer_recording(state)) state->composite = op_form_name(call->row, call->form);
    const OpRow *const whole = hidden_copy_begin(state, call->row);
    const Status status = expand_parts(call, parts, context);
    hidden_copy_end(state, whole);
    state->composite = outer;
    scope_pop_passing(state, depth, call->outs, call->n_outs);
    return status == ST_OK ? error_pending() : status;
}

/* *told: the offset in its first tensor's storage that the call gives, from that one's first element on. A self whose
 * elements share places is copied to memory that begins with it. */
static Status report_place(const OpCall *call, const Arg *given, Arg *told) {
    sn_tensor *const self = tensor_of(call->args[0].val);
    const Meta *const meta = self ? self->base.meta : NULL;
    const int64_t at = tracer_int(given);
    if (!meta || at < 0 || !apart(NULL, meta->sizes, meta->strides, meta->rank)) return ST_OK;
    const int64_t begin = tracer_storage_offset(self, call->row->name);
    TRY(error_pending());
    if (at < begin && call->args[1].val && call->args[1].val->meta->numel)
        return error_raise(ST_VALUE, "%s: storage_offset %lld lies before self's first element, at %lld",
                           op_form_name(call->row, call->form), (long long)at, (long long)begin);
    *told = A_INT(max_i64(at - begin, 0));
    return ST_OK;
}

/* The last argument is told from the first one's first element on. */
static Status expand_resolved(OpCall *call, const Arg *plain, CompositeParts *parts, void *context) {
    const int last = call->row->n_params - 1;
    if (plain[last].kind != ARG_int) return expand_scoped(call, plain, parts, context);
    OpCall told = *call;
    Arg args[MAX_ARGS], plain_args[MAX_ARGS];
    memcpy(args, call->args, sizeof *args * (size_t)call->row->n_params);
    memcpy(plain_args, plain, sizeof *plain * (size_t)call->row->n_params);
    TRY(report_place(call, &call->args[last], &plain_args[last]));
    args[last] = plain_args[last];
    told.args = args;
    const Status status = expand_scoped(&told, plain_args, parts, context);
    call->n_outs = told.n_outs;
    return status;
}

Status composite_expand(OpCall *call, const Arg *plain, CompositeParts *parts, void *context) {
    if (!decomp_rule(call->row)) return no_kernel(call, KEY_BIT(autograd));
    const bool placed = call->row->role == ROLE_told_place;
    return (placed ? expand_resolved : expand_scoped)(call, plain, parts, context);
}

static bool is_there(const OpCall *call, const Val *val) {
    return val && key_of_device(val->meta->device) >> call->key & 1;
}

Device call_device(const OpCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor && is_there(call, arg->val)) return arg->val->meta->device;
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (is_there(call, arg->vals[k])) return arg->vals[k]->meta->device;
    }
    for (int i = 0; call->out_args && i < call->row->n_out; i++)
        if (is_there(call, &call->out_args[i]->base)) return call->out_args[i]->base.meta->device;
    const Arg *const named = call->row->device >= 0 ? &call->args[call->row->device] : NULL;
    return named && named->kind == ARG_int ? (Device)named->i : DEV_cpu;
}
