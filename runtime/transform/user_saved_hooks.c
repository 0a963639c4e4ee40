/* user_saved_hooks.c: see user_saved_hooks.h. Hooks run outside of everything: no saved-tensor hooks, no gradients, no
 * capture. */
#include "runtime/transform/user_saved_hooks.h"

#include "runtime/autograd/saved_hooks.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/record/segment.h"
#include "runtime/core/context_enter.h"

typedef struct UserSavedHooks {
    struct SavedHooks saved_hooks;
    sn_body pack, unpack;
    void *closure;
} UserSavedHooks;

typedef struct UserPacked {
    TapePacked packed;
    TapeSaved kept; /* what the hook gave */
    sn_body unpack;
    void *closure;
} UserPacked;

static Status run_hook(const char *what, sn_body body, void *closure, sn_tensor *in, sn_tensor **out) {
    const Arg arg = A_VAL(&in->base);
    sn_frame frame = {.what = what, .closure = closure, .in = &arg, .n_in = 1, .out = out, .n_out = 1};
    sn_state *const state = state_get();
    context_enter_scope(state, CONTEXT_hook); /* which the caller opened */
    __attribute__((cleanup(context_leave), unused)) const ContextSaved saved = context_enter(state, CONTEXT_eager);
    return frame_run(&frame, body);
}

static const TapePackedClass user_packed_class;

static Status pack_by_hook(const UserSavedHooks *h, sn_tensor *t, TapePacked **packed) {
    sn_tensor *out = NULL;
    TRY(run_hook("the pack hook of saved tensors", h->pack, h->closure, t, &out));
    UserPacked *const made = mem_alloc(sizeof *made);
    if (!made) return ST_MEMORY;
    *made = (UserPacked){.packed.class = &user_packed_class,
                         .kept = {.arg = -1, .item = -1, .result = -1},
                         .unpack = h->unpack,
                         .closure = h->closure};
    if (tape_save(&made->kept, out) != ST_OK) {
        mem_free(made);
        return error_pending();
    }
    *packed = &made->packed;
    return ST_OK;
}

static Status hook_pack(struct SavedHooks *hooks, sn_tensor *t, const TapeEdge *from, TapePacked **packed) {
    sn_state *const state = state_get();
    if (tape_is_wanted_leaf(t) || !t->storage) return ST_OK;
    TRY(scope_push(state, false));
    const Status status = pack_by_hook((UserSavedHooks *)hooks, t, packed);
    scope_pop(state);
    return status;
}

static void hook_end(struct SavedHooks *hooks) { mem_free(hooks); }

static const SavedHooksClass user_hooks_class = {.pack = hook_pack, .end = hook_end};

static void hook_release(TapePacked *packed) {
    tape_saved_drop(&((UserPacked *)packed)->kept);
    mem_free(packed);
}

static Status check_unpacked(const sn_tensor *t, const Meta *meta, const char *node) {
    const Meta *const now = t->base.meta;
    if (now->dtype == meta->dtype && now->device == meta->device && meta_same_sizes(now, meta)) return ST_OK;
    Text text = {0};
    meta_print(NULL, &text, now);
    text_puts(&text, ", not ");
    meta_print(NULL, &text, meta);
    error_raise(ST_CALLBACK, "the unpack hook of saved tensors gives %s %s", node, text_str(&text));
    text_free(&text);
    return ST_CALLBACK;
}

static sn_tensor *hook_unpack(TapePacked *packed, const Meta *meta, const char *node) {
    const UserPacked *const p = (const UserPacked *)packed;
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    sn_tensor *out = NULL;
    if (tape_saved_check(&p->kept, node) != ST_OK || scope_push(state, false) != ST_OK) return NULL;
    Status status = run_hook("the unpack hook of saved tensors", p->unpack, p->closure, p->kept.tensor, &out);
    if (status == ST_OK) status = check_unpacked(out, meta, node);
    /* It may be the program's: another handle, whose history can be what it was. */
    sn_tensor *handle = status == ST_OK ? tensor_from_storage(out->storage, out->base.meta, out->offset) : NULL;
    scope_pop_passing(state, depth, &handle, handle ? 1 : 0);
    return handle;
}

static const sn_tensor *hook_kept(const TapePacked *packed) { return ((const UserPacked *)packed)->kept.tensor; }

static const TapePackedClass user_packed_class = {
    .name = "hooks", .unpack = hook_unpack, .release = hook_release, .kept = hook_kept};

Status user_saved_hooks_push(sn_body pack, sn_body unpack, void *closure) {
    UserSavedHooks *const made = mem_alloc(sizeof *made);
    if (!made) return ST_MEMORY;
    *made =
        (UserSavedHooks){.saved_hooks.class = &user_hooks_class, .pack = pack, .unpack = unpack, .closure = closure};
    saved_hooks_push(&made->saved_hooks);
    return ST_OK;
}
