/* capture_input.c: inputs of the current trace, found by their storage: a map from a storage to its
 * number and the newest input of it; older ones follow by `same_storage`. */
#include "runtime/capture/record/capture_input.h"

#include "runtime/base/hash.h"
#include "runtime/autograd/tape.h"
#include "runtime/capture/record/trace_views.h"

static inline StorageSlot *map_slot(const Capture *c, const Storage *storage) {
    uint32_t i = (uint32_t)hash_mix(0, (uint64_t)(uintptr_t)storage) & (c->map_capacity - 1);
    while (c->map[i].stamp == c->stamp && c->map[i].storage != storage) i = (i + 1) & (c->map_capacity - 1);
    return &c->map[i];
}

COLD static bool map_grow(Capture *c) {
    const uint32_t capacity = c->map_capacity ? c->map_capacity * 2 : 64, old = c->map_capacity;
    StorageSlot *const before = c->map, *const fresh = arena_alloc(c->arena, sizeof *fresh * capacity);
    if (!fresh) return false;
    c->map = fresh;
    c->map_capacity = capacity;
    for (uint32_t i = 0; i < old; i++)
        if (before[i].stamp == c->stamp) *map_slot(c, before[i].storage) = before[i];
    return true;
}

COLD static void find_maker(const Capture *c, TraceInput *input) {
    for (int t = 0; t < c->traces.n - 1; t++) {
        const Trace *const trace = c->traces.at[t];
        for (int v = 0; v < trace->values.n; v++)
            if (trace->values.at[v] == input->tensor) { /* NULL: dropped */
                input->maker = c->traces.at[t];
                input->maker_value = v;
                return;
            }
    }
}

static int find_input(const Trace *trace, int newest, const sn_tensor *t) {
    while (newest >= 0 && trace->inputs.at[newest].tensor != t) newest = trace->inputs.at[newest].same_storage;
    return newest;
}

/* Field by field, like trace_own_place. */
static inline void fill_input(TraceInput *input, sn_tensor *t, int storage_number, int same_storage) {
    const bool plain = LIKELY(!t->autograd), tracks = !plain && tape_tracks(t), leaf = plain || tape_is_leaf(t);
    input->tensor = t;
    input->meta = t->base.meta;
    input->storage = t->storage;
    input->offset = t->offset;
    input->storage_number = storage_number;
    input->same_storage = same_storage;
    input->inference = t->flags & TF_inference;
    input->requires_grad = tracks;
    input->is_leaf = leaf;
    input->maker = NULL;
    input->maker_value = 0;
}

Status capture_input(Capture *c, sn_tensor *t, Operand *out) {
    Trace *const trace = c->trace;
    const int n = trace->inputs.n;
    if (UNLIKELY((uint32_t)n * 2 >= c->map_capacity) && !map_grow(c)) return ST_MEMORY;
    StorageSlot *const slot = map_slot(c, t->storage);
    const int older = UNLIKELY(slot->stamp == c->stamp) ? slot->newest_input : -1;
    const int found = older >= 0 ? find_input(trace, older, t) : -1;
    if (found >= 0) {
        *out = -1 - found;
        return ST_OK;
    }
    TraceInput *const input = VEC_NEXT(c->arena, &trace->inputs);
    if (UNLIKELY(!input)) return ST_MEMORY;
    const int number = older >= 0 ? slot->number : trace->n_storages++;
    slot->storage = t->storage;
    slot->number = number;
    slot->newest_input = n;
    slot->stamp = c->stamp;
    fill_input(input, t, number, older);
    trace_record_input(trace, input, n);
    tensor_retain(t);
    if (UNLIKELY(c->traces.n > 1)) find_maker(c, input);
    trace->inputs.n = n + 1;
    *out = -1 - n;
    return ST_OK;
}

void capture_drop_inputs(Capture *c, int n) {
    Trace *const trace = c->trace;
    while (trace->inputs.n > n) {
        const TraceInput *const input = &trace->inputs.at[--trace->inputs.n];
        trace_forget_input(trace, trace->inputs.n);
        map_slot(c, input->storage)->newest_input = input->same_storage;
        trace->n_storages -= input->same_storage < 0;
        tensor_release(input->tensor);
    }
}
