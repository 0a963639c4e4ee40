/* hidden_copy.c: see hidden_copy.h. */
#include "runtime/core/hidden_copy.h"

#include "ir/op.h"
#include "runtime/base/alloc.h"
#include "runtime/core/meta_intern.h"
#include "runtime/core/state.h"
#include "runtime/core/tensor.h"
#include "runtime/core/tracer.h"

const OpRow *hidden_copy_begin(sn_state *state, const OpRow *row) {
    HiddenCopies *const h = &state->hidden;
    const OpRow *const before = h->outermost && h->depth < state->n_scopes ? h->outermost : NULL;
    if (!before) h->outermost = row, h->depth = state->n_scopes;
    return before;
}

void hidden_copy_end(sn_state *state, const OpRow *before) {
    if (!before) state->hidden.outermost = NULL;
}

static HiddenCopy *copies_of(HiddenCopies *h, const OpRow *row, const void *site) {
    for (int i = 0; i < h->n; i++)
        if (h->at[i].row == row && h->at[i].site == site) return &h->at[i];
    if (h->n == h->capacity) {
        const int capacity = h->capacity ? 2 * h->capacity : 8;
        HiddenCopy *const at = mem_resize(h->at, (size_t)capacity * sizeof *at);
        if (!at) return error_clear(), NULL;
        h->at = at, h->capacity = capacity;
    }
    h->at[h->n] = (HiddenCopy){.row = row, .site = site};
    return &h->at[h->n++];
}

/* In its own dtype and on its own device, from other strides to row-major ones. */
static bool only_strides(const Meta *from, const Meta *to) {
    return from->dtype == to->dtype && from->device == to->device && !from->contiguous && to->contiguous;
}

void hidden_copies_free(HiddenCopies *h) {
    mem_free(h->at);
    *h = (HiddenCopies){0};
}

void hidden_copy_record(const sn_tensor *from, const sn_tensor *to) {
    sn_state *const state = state_get();
    HiddenCopies *const h = &state->hidden;
    if (!h->outermost || tracer_recording(state) || !only_strides(from->base.meta, to->base.meta)) return;
    HiddenCopy *const copy = copies_of(h, h->outermost, state->site);
    if (!copy) return;
    copy->copies++;
    copy->bytes += (int64_t)meta_bytes(to->base.meta);
}
