/* array_results.c: the results of a call on arrays (array.h): each is told, or copied, once.
 *
 *     with room                      lies there already, or is copied
 *     views an argument_tensor or result    shows that one's memory
 *     else                           is copied into memory of the program's allocator, or lent by the library
 */
#include "frontend/api/array.h"

#include "runtime/base/small_array.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/memory.h"

/* What it shows ------------------------------------------------------------------------------- */

static sn_tensor *argument_tensor(const ArrayCall *call, int i) {
    return call->args[i].kind == ARG_tensor ? tensor_of(call->args[i].val) : NULL;
}

/* An argument itself, or an earlier result. */
static bool is_same_handle(const ArrayCall *call, int i) {
    const sn_tensor *const t = call->results[i];
    for (int k = 0; k < call->n_in; k++)
        if (argument_tensor(call, k) == t) return true;
    for (int k = 0; k < i; k++)
        if (call->results[k] == t) return true;
    return false;
}

/* A storage that nobody else has a reference of shows no other memory. */
static bool is_alone(const ArrayCall *call, int i) {
    const Storage *const s = call->results[i]->storage;
    const bool alone = s && atomic_load_explicit(&s->refs, memory_order_relaxed) == 1 + (s == call->places[i]);
    return alone && !is_same_handle(call, i);
}

static int64_t bytes_behind(const sn_tensor *t, const sn_tensor *base) {
    return (char *)tensor_data(t) - (char *)tensor_data(base);
}

static void tell(sn_array *out, sn_array_alias alias, int of, const sn_tensor *t, const sn_tensor *base) {
    out->alias = alias;
    out->alias_of = of;
    out->alias_bytes = bytes_behind(t, base);
}

static void find_alias(const ArrayCall *call, int i) {
    sn_tensor *const t = call->results[i];
    sn_array *const out = &call->out[i];
    if (!t->base.meta->numel || is_alone(call, i)) return; /* without elements it shows nothing */
    int held = (t->storage == call->places[i]), shared = 0;
    for (int k = 0; k < call->n_in; k++) {
        const sn_tensor *const a = argument_tensor(call, k);
        if (a && a->storage == t->storage) {
            tell(out, SN_ALIAS_INPUT, k, t, a);
            return;
        }
    }
    for (int k = 0; k < call->n_out; k++) {
        const sn_tensor *const r = call->results[k];
        if (!r || r->storage != t->storage) continue;
        if (k < i && r->base.meta->numel) { /* one without elements has no memory to show */
            tell(out, SN_ALIAS_RESULT, k, t, r);
            return;
        }
        bool counted = false; /* one handle may be several results */
        for (int j = 0; j < k; j++) counted = counted || call->results[j] == r;
        shared += !counted;
        held += call->places[k] == t->storage && k != i;
    }
    const int refs = atomic_load_explicit(&t->storage->refs, memory_order_relaxed);
    if (refs > held + shared) out->alias = SN_ALIAS_OTHER;
}

/* Copies -------------------------------------------------------------------------------------- */

static bool is_dense(const Meta *meta) { return meta_bytes(meta) == (size_t)(meta->numel * dtype_bytes(meta->dtype)); }

static bool lies_there(const ArrayCall *call, int i) {
    const sn_tensor *const t = call->results[i];
    return t->storage && (t->storage == call->places[i] ||
                          (tensor_data(t) == call->out[i].data && meta_same_layout(t->base.meta, call->rooms[i])));
}

static Status copy_to(ArrayCall *call, int i, sn_tensor *from) {
    const Meta *const to = call->rooms[i];
    if (!to->numel) return ST_OK;
    call->out[i].flags |= SN_ARRAY_COPIED;
    const Memory *const memory = from->storage->memory;
    if (meta_same_layout(to, from->base.meta) && is_dense(to))
        return memory_copy(memory, call->out[i].data, memory, tensor_data(from), meta_bytes(to));
    sn_tensor *const t = tensor_lent(to, call->out[i].data, meta_bytes(to), false);
    return t && sn_copy_(t, from) ? ST_OK : error_pending();
}

/* What lies in memory that results are copied to is read before. */
static Status save_sources(ArrayCall *call) {
    for (int i = 0; i < call->n_out; i++) {
        sn_tensor *const t = call->copies[i] = call->results[i];
        if (!t || !call->rooms[i] || lies_there(call, i)) continue;
        const uintptr_t from = (uintptr_t)t->storage->data;
        if (spans_find(call->spans, call->n_spans, from, from + t->storage->bytes) < 0) continue;
        if (!(call->copies[i] = sn_clone(t))) return error_pending();
    }
    return ST_OK;
}

static Status copy_all(ArrayCall *call) {
    TRY(save_sources(call));
    for (int i = 0; i < call->n_out; i++)
        if (call->results[i] && call->rooms[i] && !lies_there(call, i)) TRY(copy_to(call, i, call->copies[i]));
    return ST_OK;
}

/* Results without room ------------------------------------------------------------------------ */

void array_describe_layout(sn_array *out, const Meta *meta, int n_out) {
    if (n_out > LENT_METAS / 4)
        meta_stay(meta);
    else
        meta_linger(meta);
    out->kind = SN_KIND_DEFAULT;
    out->dtype = (sn_dtype)meta->dtype;
    out->device = meta->device;
    out->rank = meta->rank;
    out->sizes = meta->sizes;
    out->strides = meta->strides;
    out->bytes = meta->numel ? meta_bytes(meta) : 0;
}

static void lend_result(ArrayCall *call, int i) {
    if (!call->results[i]->base.meta->numel) return;
    call->out[i].data = tensor_data(call->results[i]);
    call->out[i].owner = tensor_retained(call->results[i]);
}

/* In the memory where the earlier result that it views lies now. False: it is not all there. */
static bool show_result(ArrayCall *call, int i) {
    sn_array *const out = &call->out[i];
    const sn_array *const base = &call->out[out->alias_of];
    const Meta *const meta = call->results[i]->base.meta, *const of = call->results[out->alias_of]->base.meta;
    if (base->owner) return lend_result(call, i), true;
    const bool moved = base->flags & SN_ARRAY_COPIED;
    const bool same = !moved || meta_same_layout(of, call->rooms[out->alias_of]);
    const bool inside = out->alias_bytes >= 0 && (size_t)out->alias_bytes + meta_bytes(meta) <= meta_bytes(of);
    if (!same || (moved && !(inside && is_dense(of)))) return false;
    out->data = (char *)base->data + out->alias_bytes;
    return true;
}

static Status find_memory(ArrayCall *call, int i) {
    sn_array *const out = &call->out[i];
    sn_tensor *const t = call->results[i];
    array_describe_layout(out, t->base.meta, call->n_out);
    if (out->alias == SN_ALIAS_INPUT) return out->data = tensor_data(t), ST_OK;
    if (out->alias == SN_ALIAS_RESULT && show_result(call, i)) return ST_OK;
    if (!call->options.allocate) return lend_result(call, i), ST_OK;
    TRY(array_allocate(call, i, t->base.meta));
    return copy_to(call, i, t);
}

static Status make_ready(ArrayCall *call) {
    for (int i = 0; i < call->n_out; i++) {
        sn_tensor *const t = call->results[i];
        if (!t) continue;
        TRY(tensor_ready(t, call->what));
        if (call->rooms[i] && !call->places[i]) TRY(array_check_result(call, i, t->base.meta));
    }
    return ST_OK;
}

static void be_absent(sn_array *out) {
    out->kind = SN_KIND_NONE;
    out->data = NULL;
}

static Status finish_results(ArrayCall *call) {
    TRY(make_ready(call));
    for (int i = 0; i < call->n_out; i++)
        if (call->results[i]) find_alias(call, i);
    TRY(copy_all(call));
    for (int i = 0; i < call->n_out; i++) {
        call->out[i].kind = SN_KIND_DEFAULT;
        if (!call->results[i])
            be_absent(&call->out[i]);
        else if (!call->rooms[i])
            TRY(find_memory(call, i));
    }
    return ST_OK;
}

Status array_results(ArrayCall *call) {
    const sn_scope scope = scope_begin_library();
    const Status status = finish_results(call);
    sn_scope_end(scope);
    return status;
}

void array_forget_owners(ArrayCall *call) {
    for (int i = 0; i < call->n_out; i++) {
        tensor_release(call->out[i].owner);
        call->out[i].owner = NULL;
    }
}

/* Asked beforehand ---------------------------------------------------------------------------- */

static void describe_result(ArrayCall *call, int i, const CallResult *result) {
    sn_array *const out = &call->out[i];
    const bool of_input = result->kind == OUT_input || result->kind == OUT_view_of_input;
    array_describe_layout(out, result->meta, call->n_out);
    if (!result->meta->numel) return;
    if (of_input)
        out->alias = result->base < 0 ? SN_ALIAS_OTHER : SN_ALIAS_INPUT;
    else if (result->kind == OUT_view_of_output && result->base >= 0)
        out->alias = SN_ALIAS_RESULT;
    if (out->alias == SN_ALIAS_NONE || result->base < 0) return;
    out->alias_of = result->base;
    out->alias_bytes = result->offset * dtype_bytes(result->meta->dtype);
}

Status array_describe(ArrayCall *call, const CallResult *results) {
    for (int i = 0; i < call->n_out; i++)
        if (results[i].kind == OUT_none)
            call->out[i].kind = SN_KIND_NONE;
        else
            describe_result(call, i, &results[i]);
    return error_pending();
}
