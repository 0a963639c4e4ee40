/* saved_hooks.c: see saved_hooks.h. */
#include "runtime/autograd/saved_hooks.h"

void saved_hooks_push(struct SavedHooks *hooks) {
    sn_state *const state = state_get();
    hooks->outer = state->saved_hooks;
    state->saved_hooks = hooks;
}

/* A custom function's saved values have theirs with them. */
static Status adopt_history(sn_tensor *to, const sn_tensor *from) {
    const AutogradMeta *const meta = from->autograd;
    return meta && meta->node ? tape_attach(to, meta->node, meta->output) : ST_OK;
}

static Status pack_one(struct SavedHooks *hooks, TapeSaved *saved, const TapeEdge *from) {
    TapePacked *packed = NULL;
    for (struct SavedHooks *p = hooks; p && !packed; p = p->outer) TRY(p->class->pack(p, saved->tensor, from, &packed));
    if (!packed) return ST_OK;
    sn_tensor *const bare = tensor_without_data(saved->tensor->base.meta);
    if (!bare || adopt_history(bare, saved->tensor) != ST_OK) {
        packed->class->release(packed);
        return ST_MEMORY;
    }
    tape_own(state_get(), bare);
    tensor_release(saved->tensor);
    saved->tensor = bare;
    saved->packed = packed;
    saved->is_packed = true;
    return ST_OK;
}

Status saved_hooks_pack(struct SavedHooks *hooks, TapeSaved *saved, int n, const TapeNode *node) {
    for (int i = 0; i < n; i++) {
        const bool argument = node && saved[i].arg >= 0 && saved[i].item < 0;
        const TapeEdge *const from = argument ? &node->edges[saved[i].arg] : NULL;
        if (!saved[i].is_packed && !saved[i].memory) TRY(pack_one(hooks, &saved[i], from));
    }
    return ST_OK;
}

Status saved_hooks_copied(const sn_tensor *t, const sn_tensor *copy) {
    for (struct SavedHooks *p = state_get()->saved_hooks; p; p = p->outer)
        if (p->class->copied) TRY(p->class->copied(p, t, copy));
    return ST_OK;
}

Status saved_hooks_shared(const OpRow *row, sn_tensor *t, const sn_tensor *made) {
    for (struct SavedHooks *p = state_get()->saved_hooks; p; p = p->outer)
        if (p->class->shared) TRY(p->class->shared(p, row, t, made));
    return ST_OK;
}

bool saved_hooks_choose(void) {
    bool any = false;
    for (const struct SavedHooks *p = state_get()->saved_hooks; p; p = p->outer)
        any |= p->class->chooses && p->class->chooses(p);
    return any;
}

Status saved_hooks_unpack(const TapeSaved *packed, const char *node, TapeSaved *out) {
    *out = *packed;
    out->is_packed = false;
    out->packed = NULL;
    out->tensor = packed->packed->class->unpack(packed->packed, packed->tensor->base.meta, node);
    if (out->tensor) out->version = tensor_version(out->tensor);
    return out->tensor ? adopt_history(out->tensor, packed->tensor) : error_pending();
}

void tape_saved_drop(TapeSaved *saved) {
    tensor_release(saved->tensor);
    if (UNLIKELY(saved->is_packed))
        saved->packed->class->release(saved->packed);
    else
        tensor_release(saved->memory);
}
