/* grad_node.c: the tape, to walk along and to list (sinter/inspect.h). A sn_grad_node is a TapeNode. */
#include <sinter/inspect.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/text.h"
#include "runtime/core/tracer.h"

static TapeNode *tape_of(sn_grad_node *n) { return (TapeNode *)(void *)n; }

/* t's history as eager's: what is pending has run. */
static Status history_ready(sn_tensor *t, const char *what) {
    TRY(tensor_valid(t, what));
    TRY(tracer_make(t, reason_called(what)));
    return tensor_handle_materialize(t, what);
}

sn_grad_node *sn_grad_fn(sn_tensor *t) {
    API_ENTER(sn_grad_fn);
    TapeNode *node = NULL;
    if (history_ready(t, "sn_grad_fn") != ST_OK || tape_node_of(t, &node) != ST_OK) return NULL;
    return (sn_grad_node *)(void *)node;
}

void sn_grad_node_free(sn_grad_node *n) { tape_node_release(tape_of(n)); }

static Status check(const void *n, const void *out, size_t size, const char *what) {
    TRY(error_pending());
    if (!n) return error_raise(ST_ARGUMENT, "%s: the node is NULL", what);
    return out && size ? ST_OK : error_raise(ST_ARGUMENT, "%s: out is NULL, or its size is 0", what);
}

static Status check_index(int i, int n, const char *what, const char *of) {
    if (i >= 0 && i < n) return ST_OK;
    return error_raise(ST_ARGUMENT, "%s: there is no %s %d; the node has %d", what, of, i, n);
}

static const char *node_name(const TapeNode *node) {
    Text text = {0};
    node->class->name(node, &text);
    return state_text(state_get(), text.at);
}

static sn_grad_info info_of(const TapeNode *node) {
    int n;
    const TapeSaved *const saved = tape_node_saved(node, &n);
    sn_grad_info info = {.name = node_name(node),
                         .sequence = (int64_t)node->sequence,
                         .edges = node->n_edges,
                         .outputs = node->n_outs,
                         .saved = n,
                         .freed = node->dropped && node->saves};
    for (int i = 0; i < n; i++) info.saved_bytes += tape_saved_bytes(&saved[i]);
    return info;
}

sn_status sn_grad_node_get(sn_grad_node *n, sn_grad_info *out) {
    API_ENTER(sn_grad_node_get);
    const Status status = check(n, out, out ? out->size : 0, "sn_grad_node_get");
    if (status != ST_OK) return (sn_status)status;
    const sn_grad_info info = info_of(tape_of(n));
    options_copy_out(&info, sizeof info, out);
    return SN_OK;
}

sn_status sn_grad_node_edge(sn_grad_node *n, int i, sn_grad_edge *out) {
    API_ENTER(sn_grad_node_edge);
    static const char what[] = "sn_grad_node_edge";
    sn_grad_edge known = {0};
    const TapeEdge *edge = NULL;
    Status status = check(n, out, out ? out->size : 0, what);
    if (status != ST_OK) return (sn_status)status;
    status = check_index(i, tape_of(n)->n_edges, what, "input");
    if (status == ST_OK) status = tape_edge_follow(&tape_of(n)->edges[i], &edge);
    if (status == ST_OK && edge->leaf) known.leaf = edge->target;
    if (status == ST_OK && !edge->leaf && edge->target) {
        known.node = (sn_grad_node *)edge->target;
        known.output = edge->output;
    }
    options_copy_out(&known, sizeof known, out);
    return (sn_status)status;
}

static Status saved_at(const TapeNode *node, int i, sn_grad_saved *known) {
    int n;
    const TapeSaved *const saved = tape_node_saved(node, &n);
    Text name = {0};
    TRY(check_index(i, n, "sn_grad_node_saved", "saved value"));
    tape_saved_name(node, i, &name);
    known->name = state_text(state_get(), name.at);
    known->bytes = tape_saved_bytes(&saved[i]);
    if (!saved[i].tensor || saved[i].is_packed) return ST_OK;
    known->version = saved[i].version;
    known->version_now = tape_saved_version(&saved[i]);
    sn_tensor *const handle = tensor_alias(saved[i].tensor);
    if (!handle || !scope_adopt(state_get(), handle)) return ST_MEMORY;
    known->tensor = handle;
    return ST_OK;
}

sn_status sn_grad_node_saved(sn_grad_node *n, int i, sn_grad_saved *out) {
    API_ENTER(sn_grad_node_saved);
    sn_grad_saved known = {0};
    Status status = check(n, out, out ? out->size : 0, "sn_grad_node_saved");
    if (status != ST_OK) return (sn_status)status;
    status = saved_at(tape_of(n), i, &known);
    options_copy_out(&known, sizeof known, out);
    return (sn_status)status;
}

const char *sn_grad_text(sn_tensor *t) {
    API_ENTER(sn_grad_text);
    Text text = {0};
    if (history_ready(t, "sn_grad_text") != ST_OK) return "";
    if (tape_view_is_due(t) && tape_view_refresh(t) != ST_OK) return "";
    if (tape_print_expanded(&text, t) != ST_OK) return text_free(&text), "";
    return state_text(state_get(), text.at);
}

const char *sn_saved_text(sn_tensor *t) {
    API_ENTER(sn_saved_text);
    Text text = {0};
    if (error_pending() ||
        (t ? history_ready(t, "sn_saved_text") : tensor_materialize_all(REASON_CALLED(sn_saved_text))) != ST_OK)
        return "";
    if (t && tape_view_is_due(t) && tape_view_refresh(t) != ST_OK) return "";
    if (tape_print_saved(&text, t) != ST_OK) return text_free(&text), "";
    return state_text(state_get(), text.at);
}

typedef struct Listing {
    sn_grad_info *at;
    int64_t n, capacity;
    size_t size; /* of one, as the program has it */
} Listing;

static void list_node(void *context, const TapeNode *node) {
    Listing *const list = context;
    const int64_t i = list->n++;
    if (i >= list->capacity) return;
    const sn_grad_info info = info_of(node);
    char *const to = (char *)list->at + (size_t)i * list->size;
    memcpy(to, &list->size, sizeof list->size);
    options_copy_out(&info, sizeof info, to);
}

int64_t sn_live_nodes(sn_grad_info *nodes, int64_t capacity) {
    API_ENTER(sn_live_nodes);
    Listing list = {
        .at = nodes, .capacity = nodes ? capacity : 0, .size = nodes && capacity > 0 ? nodes[0].size : sizeof *nodes};
    if (error_pending() != ST_OK) return 0;
    if (capacity < 0 || !list.size) {
        error_raise(ST_ARGUMENT, "sn_live_nodes: room for %lld nodes of %zu bytes", (long long)capacity, list.size);
        return 0;
    }
    tape_live_each(list_node, &list);
    return list.n;
}
