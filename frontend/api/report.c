/* report.c: sn_tensor_report (sinter/inspect.h): a tensor, its storage and who keeps them, as text. */
#include <sinter/dispatch.h>
#include <sinter/inspect.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/base/text.h"
#include "runtime/core/tracer.h"
#include "runtime/core/site.h"
#include "runtime/core/tensor_names.h"
#include "runtime/core/tracking.h"

typedef struct SeenTensor {
    const sn_tensor *tensor;
    const int64_t *kind; /* the count that it is part of */
} SeenTensor;

typedef struct Report {
    const sn_tensor *t;
    Text nodes;  /* of the tape that hold it */
    Text places; /* of tensors of the storage, where they are tracked */
    sn_keepers n;
    SeenTensor *seen; /* tensors of the storage, each once */
    int n_seen, capacity;
    bool full; /* memory ran out */
} Report;

/* Counts a tensor of the storage into *kind, once. */
static void see(Report *r, const sn_tensor *t, int64_t *kind) {
    if (!t || t->storage != r->t->storage) return;
    for (int i = 0; i < r->n_seen; i++)
        if (r->seen[i].tensor == t) return;
    if (r->n_seen == r->capacity) {
        const int capacity = r->capacity ? 2 * r->capacity : 32;
        SeenTensor *const bigger = mem_resize(r->seen, (size_t)capacity * sizeof *bigger);
        if (!bigger) {
            r->full = true;
            return;
        }
        r->seen = bigger, r->capacity = capacity;
    }
    r->seen[r->n_seen++] = (SeenTensor){t, kind};
    ++*kind;
}

static void print_node(Report *r, const TapeNode *node, const char *how, int i) {
    text_printf(&r->nodes, "  #%llu ", (unsigned long long)node->sequence);
    node->class->name(node, &r->nodes);
    text_puts(&r->nodes, how);
    if (i >= 0) tape_saved_name(node, i, &r->nodes);
    text_puts(&r->nodes, "\n");
}

static void look_at_node(void *context, const TapeNode *node) {
    Report *const r = context;
    int n;
    const TapeSaved *const saved = tape_node_saved(node, &n);
    for (int i = 0; i < n; i++) {
        r->n.by_tape += (saved[i].tensor == r->t) + (saved[i].memory == r->t);
        see(r, saved[i].memory, &r->n.saved_values);
        see(r, saved[i].tensor, &r->n.saved_values);
        if (saved[i].tensor && saved[i].tensor->storage == r->t->storage) print_node(r, node, " has saved it as ", i);
    }
    for (int i = 0; i < node->n_edges; i++) {
        if (!node->edges[i].leaf || node->edges[i].target != r->t) continue;
        r->n.by_tape++;
        print_node(r, node, " adds to its .grad", -1);
    }
}

/* Handles first: a leaf that is saved is one of them. Views of t hold it as their base. */
static void look_at_scopes(Report *r) {
    const sn_state *const state = state_get();
    for (uint32_t i = 0; i < state->handles.n; i++) {
        const sn_tensor *const t = state->handles.at[i];
        if (t && t->storage) see(r, t, &r->n.scope_handles);
        if (t && t->autograd && t->autograd->base == r->t) r->n.by_tape++;
    }
}

static const char *kind_name(const Report *r, const sn_tensor *t) {
    for (int i = 0; i < r->n_seen; i++)
        if (r->seen[i].tensor == t)
            return r->seen[i].kind == &r->n.scope_handles ? "of an open scope" : "saved by the tape";
    return "another";
}

static void print_site(Text *text, const char *how, const void *site) {
    char name[128];
    if (!site) return;
    site_name(site, name, sizeof name);
    text_printf(text, "%s%s", how, name);
}

static void put_tracked(void *context, const TrackedTensor *tracked) {
    Report *const r = context;
    const sn_tensor *const t = tracked->tensor;
    char name[64];
    if (t->storage != r->t->storage) return;
    text_printf(&r->places, "  %s: ", kind_name(r, t));
    meta_print(NULL, &r->places, t->base.meta);
    if (t == r->t) text_puts(&r->places, ", itself");
    print_site(&r->places, ", made at ", tracked->made);
    print_site(&r->places, ", kept at ", tracked->kept);
    if (tensor_name(t, name, sizeof name)) text_printf(&r->places, ", '%s' of a dictionary", name);
    text_puts(&r->places, "\n");
}

static void count(Report *r) {
    const sn_tensor *const t = r->t;
    r->n.references = atomic_load_explicit(&t->refs, memory_order_acquire) - tracer_references(t);
    r->n.by_scopes = tensor_in_scope(t);
    if (t->storage) {
        look_at_scopes(r);
        tape_live_each(look_at_node, r);
        if (tracking_is_on()) tracking_each(put_tracked, r);
        r->n.tensors = atomic_load_explicit(&t->storage->refs, memory_order_acquire);
    }
    r->n.by_others = r->n.references - r->n.by_scopes - r->n.by_tape;
    r->n.other_tensors = r->n.tensors - r->n.scope_handles - r->n.saved_values;
}

static void print_place(Text *text, const sn_tensor *t) {
    const Storage *const s = t->storage;
    meta_print(NULL, text, t->base.meta);
    if (t->keys & KEYS_SPARSE) {
        text_printf(text, " on %s, sparse\nstorage: those of its parts, which are tensors\n",
                    DEVICE_TEXT(t->base.meta->device));
        return;
    }
    text_printf(text, " on %s, offset %lld%s\n", DEVICE_TEXT(t->base.meta->device), (long long)t->offset,
                t->base.meta->contiguous ? ", contiguous" : "");
    if (!s) {
        text_puts(text, "storage: none\n");
        return;
    }
    text_printf(text, "storage: %zu bytes, version %u, %s%s\n", s->bytes,
                atomic_load_explicit(&s->version, memory_order_relaxed), s->user_owned ? "the program's" : "resizable",
                s->read_only ? ", read-only" : "");
}

static void print_keepers(Text *text, const sn_keepers *n) {
    text_printf(text,
                "references: %lld: %lld of a scope, %lld of the tape, %lld of others (kept, dictionaries, "
                "functions, other threads)\n",
                (long long)n->references, (long long)n->by_scopes, (long long)n->by_tape, (long long)n->by_others);
    text_printf(
        text, "tensors of the storage: %lld: %lld handles of open scopes, %lld saved by the tape, %lld others\n",
        (long long)n->tensors, (long long)n->scope_handles, (long long)n->saved_values, (long long)n->other_tensors);
}

static void print_maker(Text *text, const sn_tensor *t) {
    const TapeNode *const node = t->autograd ? t->autograd->node : NULL;
    if (!node) {
        text_puts(text, tape_tracks(t) ? "a leaf that requires gradients\n" : "requires no gradients\n");
        return;
    }
    text_printf(text, "result %d of #%llu ", t->autograd->output, (unsigned long long)node->sequence);
    node->class->name(node, text);
    text_puts(text, "\n");
}

/* Up to the first key that does not pass the call on: a backend, or what expands a composite. */
static void print_path(Text *text, const sn_tensor *t, const sn_op *op) {
    const sn_state *const state = state_get();
    OpForm form;
    const char *const name = sn_op_name(op);
    const OpRow *row = op_find(name, strlen(name), &form);
    const uint64_t keys = (t->keys | state->include) & ~state->exclude;
    const char *between = " ";
    text_printf(text, "%s:", name);
    if (row && row->alias_of) row = row->alias_of;
    for (int key = KEY_COUNT - 1; row && key > KEY_none; key--) {
        OpKernel *const kernel = keys >> key & 1 ? dispatch_entry(row, (Key)key) : NULL;
        if (kernel == dispatch_nothing_there) break;
        if (!kernel) continue;
        const bool own = dispatch_own(row, (Key)key) != NULL;
        text_printf(text, "%s%s (%s)", between, key_name((Key)key), own ? "kernel of the op" : "fallback");
        between = ", then ";
        if (KEYS_KERNEL >> key & 1 || (own && row->kind == KIND_composite)) return;
    }
    text_printf(text, "%snot implemented", between);
}

static Status ready_to_report(sn_tensor *t) {
    TRY(tensor_valid(t, "sn_tensor_report"));
    TRY(tensor_materialize_all(REASON_CALLED(sn_tensor_report)));
    return tensor_handle_materialize(t, "sn_tensor_report");
}

const char *sn_tensor_report(sn_tensor *t, const sn_op *op, sn_keepers *keepers) {
    API_ENTER(sn_tensor_report);
    Report r = {.t = t};
    Text text = {0};
    if (keepers && !keepers->size) return error_raise(ST_ARGUMENT, "sn_tensor_report: the size of keepers is 0"), "";
    if (keepers) options_copy_out(&r.n, sizeof r.n, keepers);
    if (ready_to_report(t) != ST_OK) return "";
    count(&r);
    mem_free(r.seen);
    print_place(&text, t);
    print_keepers(&text, &r.n);
    print_maker(&text, t);
    if (r.places.n) text_printf(&text, "tensors of the storage, oldest first:\n%s", text_str(&r.places));
    text_free(&r.places);
    if (r.nodes.n) text_printf(&text, "nodes of the tape that hold it:\n%s", text_str(&r.nodes));
    text_free(&r.nodes);
    text_printf(&text, "keys: %s\n", sn_keys(t));
    if (op) print_path(&text, t, op), text_puts(&text, "\n");
    if (r.full) return text_free(&text), error_raise(ST_MEMORY, "sn_tensor_report: memory is out"), "";
    if (keepers) options_copy_out(&r.n, sizeof r.n, keepers);
    return state_text(state_get(), text.at);
}
