/* ends.h: what a layer above keeps in a thread's state or at a tensor begins with one of these heads: the object
 * carries the function that ends it, and core, which has only a pointer to it, calls that.
 *
 *   state->parts        StateExtension    the eager cache, the tape's free blocks   the state dies
 *   state->saved_hooks  SavedHooks   regions, hooks of saved tensors           a scope ends
 *   state->streams      StreamList   which stream is in use, by device         a scope ends
 *   t->autograd         HistoryHead  history, gradient, view                   the tensor dies, or is no view */
#ifndef SINTER_RUNTIME_ENDS_H
#define SINTER_RUNTIME_ENDS_H
#include "runtime/core/dispatch.h"

/* A module's part of a thread's state. */
struct StateExtension {
    StateExtension *next; /* made before it */
    void (*end)(sn_state *state, StateExtension *part);
};
void state_extension_add(sn_state *state, StateExtension *part);
void state_extension_end(sn_state *state, StateExtension *part);
void state_extensions_end(sn_state *state); /* the newest first, those too that are added meanwhile */

/* Who keeps what tape nodes save (autograd/saved_hooks.h): a stack, innermost first. */
struct TapeEdge;
struct TapePacked;
typedef struct SavedHooks {
    struct SavedHooks *outer;
    const struct SavedHooksClass *class;
} SavedHooks;
typedef struct SavedHooksClass {
    /* A tensor that a node saves, owned: *packed stays NULL where it is kept as it is, or by hooks further out.
     * `from` is its history, which it does not have itself; NULL: none, or not known. */
    Status (*pack)(SavedHooks *hooks, sn_tensor *t, const struct TapeEdge *from, struct TapePacked **packed);
    void (*end)(SavedHooks *hooks); /* its scope has ended: frees it */
    /* What will be packed next is a copy of t, which is about to be overwritten; or NULL. */
    Status (*copied)(SavedHooks *hooks, const sn_tensor *t, const sn_tensor *copy);
    /* `made` is what the row gives for t, perhaps since before the hooks were there: no op is called; or NULL. */
    Status (*shared)(SavedHooks *hooks, const OpRow *row, sn_tensor *t, const sn_tensor *made);
    /* Does it choose what is kept by the op that makes it, so that nothing may be shared? NULL: it does not. */
    bool (*chooses)(const SavedHooks *hooks);
} SavedHooksClass;
/* So that `until` is the innermost one; by the ends of scopes. */
void saved_hooks_pop_to(sn_state *state, SavedHooks *until);

/* A list of streams in use (device/stream.h). */
typedef struct StreamList {
    void (*replace)(sn_state *state, struct StreamUse *uses); /* `uses`, retained, becomes the state's list */
} StreamList;
/* The same of any two, also of none. */
static inline void stream_list_set(sn_state *state, struct StreamUse *uses) {
    const StreamList *const list = (const StreamList *)(state->streams ? state->streams : uses);
    if (list) list->replace(state, uses);
}

/* A tensor's history (autograd/tape.h). */
typedef struct HistoryClass {
    void (*free)(struct AutogradMeta *history); /* of a tensor that is gone */
    void (*end_view)(sn_tensor *t);             /* t is laid out anew: no view any more */
} HistoryClass;
typedef struct HistoryHead {
    const HistoryClass *class;
} HistoryHead;
static inline const HistoryClass *history_class(const struct AutogradMeta *history) {
    return ((const HistoryHead *)history)->class;
}

#endif
