/* array.c: calls on plain arrays (sinter/array.h).
 *
 *     arguments   each a tensor of the program's memory for this call (tensor_lent)
 *     call        function_call_into: a call without a body asks `place_result` for the memory of new results
 *     results     what lies there already is done; the rest is described, or copied, once; array_results.c
 */
#include "frontend/api/array.h"

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/base/small_array.h"
#include "runtime/core/tracer.h"
#include "runtime/device/device.h"

/* Arguments ----------------------------------------------------------------------------------- */

Status array_error(const ArrayCall *call, Status status, const char *list, int i, const char *why) {
    return error_raise(status, "%s: %s[%d] %s", call->what, list, i, why);
}

static Status check_array_layout(const ArrayCall *call, const char *list, int i, const sn_array *a) {
    if ((int)a->dtype <= DT_default || (int)a->dtype >= DT_COUNT)
        return error_raise(ST_DTYPE, "%s: %s[%d] has no dtype %d", call->what, list, i, (int)a->dtype);
    if (a->rank < 0 || a->rank > MAX_RANK)
        return error_raise(ST_SHAPE, "%s: %s[%d] has a rank of %d", call->what, list, i, (int)a->rank);
    if (a->rank && !a->sizes) return array_error(call, ST_ARGUMENT, list, i, "has no sizes");
    for (int d = 0; d < a->rank; d++) {
        if (a->sizes[d] < 0 || sym_is(a->sizes[d]))
            return error_raise(ST_SHAPE, "%s: %s[%d] has size %lld in dim %d", call->what, list, i,
                               (long long)a->sizes[d], d);
        if (a->strides && (a->strides[d] < 0 || sym_is(a->strides[d])))
            return error_raise(ST_ARGUMENT, "%s: %s[%d] has stride %lld in dim %d", call->what, list, i,
                               (long long)a->strides[d], d);
    }
    return ST_OK;
}

static Status check_array_device(const ArrayCall *call, const char *list, int i, Device device) {
    if (LIKELY(device == DEV_cpu)) return ST_OK;
    if (!device_exists(device))
        return error_raise(ST_ARGUMENT, "%s: %s[%d] is on %d, which is no device", call->what, list, i, (int)device);
    if (device_is_host(device)) return ST_OK;
    if (device < DEV_cuda) return array_error(call, ST_DEVICE, list, i, "is neither on the CPU nor on a CUDA device");
    return device_open(device);
}

static Status check_memory(const ArrayCall *call, const char *list, int i, const sn_array *a, const Meta *meta) {
    const size_t bytes = meta_bytes(meta);
    if (meta->numel && !a->data) return array_error(call, ST_ARGUMENT, list, i, "has no data");
    if (a->bytes && a->bytes < bytes)
        return error_raise(ST_ARGUMENT, "%s: %s[%d] has %zu bytes, its sizes and strides reach %zu", call->what, list,
                           i, a->bytes, bytes);
    if ((uintptr_t)a->data % (size_t)dtype_bytes(meta->dtype))
        return error_raise(ST_ARGUMENT, "%s: %s[%d] is not aligned to its elements of %d bytes", call->what, list, i,
                           (int)dtype_bytes(meta->dtype));
    return ST_OK;
}

Status array_meta(const ArrayCall *call, const char *list, int i, const sn_array *a, const Meta **out) {
    TRY(check_array_layout(call, list, i, a));
    TRY(check_array_device(call, list, i, a->device));
    *out = a->strides ? meta_intern((DType)a->dtype, a->device, a->sizes, a->strides, a->rank, false)
                      : meta_intern_contiguous((DType)a->dtype, a->device, a->sizes, a->rank);
    if (!*out) return error_set_op(call->what), error_pending();
    return call->fake ? ST_OK : check_memory(call, list, i, a, *out);
}

static Status make_argument(const ArrayCall *call, int i, Arg *arg) {
    const sn_array *const a = &call->in[i];
    const Meta *meta;
    switch (a->kind) {
    case SN_KIND_DEFAULT:
        TRY(array_meta(call, "in", i, a, &meta));
        const bool read_only = a->flags & SN_ARRAY_READ_ONLY;
        sn_tensor *const t = call->fake && call->runs
                                 ? tensor_fake(meta)
                                 : tensor_lent(meta, a->data, a->data ? meta_bytes(meta) : 0, read_only);
        *arg = t ? A_VAL(&t->base) : A_NONE;
        return t ? ST_OK : error_pending();
    case SN_KIND_TENSOR:
        if (!a->tensor) return array_error(call, ST_ARGUMENT, "in", i, "is a tensor that is NULL");
        *arg = A_VAL(&a->tensor->base);
        return ST_OK;
    case SN_KIND_NONE:
        *arg = A_NONE;
        return ST_OK;
    case SN_KIND_INT:
    case SN_KIND_FLOAT:
    case SN_KIND_BOOL:
        *arg = (Arg){.kind = a->kind, .i = a->kind == SN_KIND_BOOL ? a->i != 0 : a->i};
        return a->kind == SN_KIND_INT && sym_is(a->i) ? array_error(call, ST_ARGUMENT, "in", i, "is beyond all ints")
                                                      : ST_OK;
    default:
        return error_raise(ST_ARGUMENT, "%s: in[%d] has kind %d", call->what, i, (int)a->kind);
    }
}

static Status make_arguments(ArrayCall *call) {
    for (int i = 0; i < call->n_in; i++) TRY(make_argument(call, i, &call->args[i]));
    return error_pending();
}

/* Memory for results that a call makes -------------------------------------------------------- */

static bool same_layout(const Meta *a, const Meta *b) {
    for (int d = 0; d < a->rank; d++)
        if (a->sizes[d] > 1 && a->strides[d] != b->strides[d]) return false;
    return true;
}

static COLD Status refuse_result(const ArrayCall *call, int i, const Meta *room, const Meta *meta) {
    Text text = {0};
    text_printf(&text, "%s: out[%d] has room for ", call->what, i);
    meta_print(NULL, &text, room);
    text_puts(&text, ", the result is ");
    meta_print(NULL, &text, meta);
    const bool dtype = room->dtype != meta->dtype;
    const Status status = error_raise(dtype                          ? ST_DTYPE
                                      : room->device != meta->device ? ST_DEVICE
                                                                     : ST_SHAPE,
                                      "%s", text_str(&text));
    text_free(&text);
    return status;
}

Status array_check_result(const ArrayCall *call, int i, const Meta *meta) {
    const Meta *const room = call->rooms[i];
    const bool fits = room->dtype == meta->dtype && room->device == meta->device && room->rank == meta->rank &&
                      !memcmp(room->sizes, meta->sizes, sizeof *meta->sizes * (size_t)meta->rank);
    return LIKELY(fits) ? ST_OK : refuse_result(call, i, room, meta);
}

/* In the middle of a call. */
static Status ask_program(const ArrayCall *call, int i, sn_array *wanted) {
    const sn_state *const state = state_get();
    const uint32_t handles = state->handles.n, scopes = state->n_scopes;
    const Status before = error_pending();
    wanted->data = call->options.allocate(call->options.context, i, wanted);
    call->out[i].data = wanted->data; /* the program's, whatever follows */
    if (state_get() == state && state->handles.n == handles && state->n_scopes == scopes && error_pending() == before)
        return ST_OK;
    return error_raise(ST_STATE, "%s: what allocates out[%d] calls Sinter", call->what, i);
}

/* It is result i's from here on: no other one's, given or allocated, shares bytes with it. */
static Status take_memory(ArrayCall *call, int i, const sn_array *wanted) {
    const uintptr_t from = (uintptr_t)wanted->data;
    const int of = spans_find(call->spans, call->n_spans, from, from + wanted->bytes);
    if (of >= 0)
        return error_raise(ST_ARGUMENT, "%s: the memory allocated for out[%d] is, in part, that of out[%d]", call->what,
                           i, call->spans[of].of);
    if (!wanted->bytes) return ST_OK;
    int at = call->n_spans++;
    for (; at > 0 && call->spans[at - 1].from > from; at--) call->spans[at] = call->spans[at - 1];
    call->spans[at] = (Span){from, from + wanted->bytes, i};
    return ST_OK;
}

Status array_allocate(ArrayCall *call, int i, const Meta *meta) {
    sn_array *const out = &call->out[i];
    sn_array wanted = {.kind = SN_KIND_DEFAULT,
                       .dtype = (sn_dtype)meta->dtype,
                       .device = meta->device,
                       .rank = meta->rank,
                       .sizes = meta->sizes,
                       .strides = meta->strides,
                       .bytes = meta->numel ? meta_bytes(meta) : 0};
    TRY(ask_program(call, i, &wanted));
    if (!wanted.data && wanted.bytes)
        return error_raise(ST_MEMORY, "%s: there is no memory for out[%d], %zu bytes", call->what, i, wanted.bytes);
    TRY(check_memory(call, "allocated", i, &wanted, meta));
    TRY(take_memory(call, i, &wanted));
    array_describe_layout(out, meta, call->n_out);
    out->data = wanted.data;
    call->rooms[i] = meta;
    return ST_OK;
}

static Status place_result(ResultSink *sink, int i, const Meta *meta, Storage **out) {
    ArrayCall *const call = (ArrayCall *)sink;
    if (call->rooms[i])
        TRY(array_check_result(call, i, meta));
    else if (call->options.allocate)
        TRY(array_allocate(call, i, meta));
    if (!call->rooms[i] || !meta->numel || !same_layout(call->rooms[i], meta)) return ST_OK;
    if (!call->places[i]) call->places[i] = storage_wrap(meta->device, call->out[i].data, meta_bytes(meta), NULL, NULL);
    *out = call->places[i];
    return *out ? ST_OK : ST_MEMORY;
}

/* Nothing yet of any result, so that a call that fails at one has none of the others' behind it. */
static void begin_results(ArrayCall *call) {
    for (int i = 0; i < call->n_out; i++) {
        sn_array *const out = &call->out[i];
        out->owner = NULL, out->alias = SN_ALIAS_NONE, out->alias_of = 0, out->alias_bytes = 0;
        out->flags &= ~(uint32_t)SN_ARRAY_COPIED;
        call->rooms[i] = NULL;
        call->places[i] = NULL;
    }
}

/* What each result has room for: rooms, and its memory in spans. */
static Status read_results(ArrayCall *call) {
    begin_results(call);
    for (int i = 0; i < call->n_out && !call->fake; i++) {
        const sn_array *const out = &call->out[i];
        if (!out->data) continue;
        TRY(array_meta(call, "out", i, out, &call->rooms[i]));
        if (meta_overlaps(call->rooms[i])) return array_error(call, ST_ARGUMENT, "out", i, "overlaps itself");
        const uintptr_t from = (uintptr_t)out->data;
        call->spans[call->n_spans++] = (Span){from, from + meta_bytes(call->rooms[i]), i};
    }
    spans_sort(call->spans, call->n_spans);
    const int at = spans_overlap(call->spans, call->n_spans);
    return at < 0 ? ST_OK
                  : array_error(call, ST_ARGUMENT, "out", call->spans[at].of, "shares memory with another result");
}

/* A call -------------------------------------------------------------------------------------- */

static Status check_lists(const ArrayCall *call) {
    TRY(error_pending());
    if (!call->fn) return error_raise(ST_ARGUMENT, "%s: the function is NULL", call->what);
    if (call->n_in < 0 || call->n_out < 0)
        return error_raise(ST_ARGUMENT, "%s: n_in is %d and n_out %d: neither is negative", call->what, call->n_in,
                           call->n_out);
    if ((call->n_in && !call->in) || (call->n_out && !call->out))
        return error_raise(ST_ARGUMENT, "%s: the list of %s is NULL", call->what,
                           call->n_in && !call->in ? "arguments" : "results");
    return ST_OK;
}

enum { FEW_ARRAYS = 32 };

/* Room for the call's lists, which goes where a body does not return, too. */
typedef struct ArrayRoom {
    void *block, *few[FEW_ARRAYS * (sizeof(Arg) + sizeof(Span) + 4 * sizeof(void *)) / sizeof(void *)];
} ArrayRoom;

static void room_free(ArrayRoom *room) { small_array_free(room->few, room->block); }

static Status make_room(ArrayCall *call, ArrayRoom *room) {
    const size_t in = (size_t)call->n_in, out = (size_t)call->n_out;
    room->block =
        small_array_alloc(room->few, sizeof room->few, in * sizeof(Arg) + out * (sizeof(Span) + 4 * sizeof(void *)));
    if (!room->block) return ST_MEMORY;
    call->args = room->block;
    call->spans = (Span *)(call->args + in);
    call->rooms = (const Meta **)(call->spans + out);
    call->places = (Storage **)(call->rooms + out);
    call->results = (sn_tensor **)(call->places + out);
    call->copies = call->results + out;
    return ST_OK;
}

static Status run_arrays(ArrayCall *call, const void *site) {
    TRY(read_results(call));
    TRY(make_arguments(call));
    Status status = function_call_into(call->fn, call->args, call->n_in, call->results, call->n_out, &call->sink);
    if (status == ST_OK) status = array_results(call);
    if (status != ST_OK) error_set_site(site);
    return status;
}

static void drop_places(const ArrayCall *call) {
    for (int i = 0; call->places && i < call->n_out; i++)
        if (call->places[i]) storage_release(call->places[i]);
}

sn_status sn_call_arrays(sn_function *fn, const sn_array *in, int n_in, sn_array *out, int n_out,
                         const sn_array_options *options) {
    API_ENTER(sn_call_arrays);
    __attribute__((cleanup(room_free))) ArrayRoom room;
    ArrayCall call = {.sink.place = place_result,
                      .what = "sn_call_arrays",
                      .fn = fn,
                      .in = in,
                      .n_in = n_in,
                      .out = out,
                      .n_out = n_out};
    room.block = room.few;
    if (entered.refused || check_lists(&call) != ST_OK) return sn_check();
    if (options && options_copy_in(&call.options, sizeof call.options, options, "sn_call_arrays") != ST_OK)
        return sn_check();
    if (make_room(&call, &room) != ST_OK) return sn_check();
    const sn_scope scope = scope_begin_own();
    const Status status = run_arrays(&call, state_get()->site);
    drop_places(&call);
    sn_scope_end(scope);
    if (status != ST_OK) array_forget_owners(&call);
    return sn_check();
}

/* Asked beforehand ---------------------------------------------------------------------------- */

static Status infer(ArrayCall *call) {
    CallResult few[FEW_ARRAYS], *const results = SMALL_ARRAY(few, call->n_out);
    SMALL_ARRAY_OWNER kept = {few, results};
    bool known = false;
    if (!results) return ST_MEMORY;
    TRY(read_results(call));
    TRY(make_arguments(call));
    TRY(function_describe(call->fn, call->args, call->n_in, results, call->n_out, &known));
    if (known) return array_describe(call, results);
    call->runs = true;
    TRY(make_arguments(call));
    sn_fake_mode_set(true);
    TRY(function_call(call->fn, call->args, call->n_in, call->results, call->n_out));
    for (int i = 0; i < call->n_out; i++) {
        const sn_tensor *const t = call->results[i];
        results[i] = (CallResult){.kind = t ? OUT_new : OUT_none, .base = -1, .meta = t ? t->base.meta : NULL};
    }
    return array_describe(call, results);
}

sn_status sn_call_infer(sn_function *fn, const sn_array *in, int n_in, sn_array *out, int n_out) {
    API_ENTER(sn_call_infer);
    __attribute__((cleanup(room_free))) ArrayRoom room;
    ArrayCall call = {
        .what = "sn_call_infer", .fn = fn, .in = in, .n_in = n_in, .out = out, .n_out = n_out, .fake = true};
    room.block = room.few;
    if (entered.refused || check_lists(&call) != ST_OK || make_room(&call, &room) != ST_OK) return sn_check();
    const sn_scope scope = scope_begin_own();
    infer(&call);
    sn_scope_end(scope);
    return sn_check();
}
