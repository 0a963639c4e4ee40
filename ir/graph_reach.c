/* graph_reach.c: views by numbers (sn::view_of, sn::view_scatter) stay in the memory that they speak of.
 *
 * Every value is followed to what it is a view of: its root and the elements from the root's first to its own, which
 * may be symbolic. The memory of a result is known: it is as long as its layout says. That of an input is the caller's:
 * the verifier leaves it open (`memory` NULL), a call says how much there is before and behind the input's first
 * element. What follows from symbols is checked at the call, too.
 * Who makes inputs asks how much is wanted. */
#include <stdio.h>

#include "ir/alias.h"
#include "runtime/base/error.h"

typedef struct RootOffset {
    const GVal *root; /* NULL: unknown, it may be a copy */
    int64_t offset;
} RootOffset;

typedef struct Reaching {
    Graph *graph;
    const GraphMemory *memory;
    Arena *arena;
    RootOffset *places; /* by value id */
    const Node *node;
    int64_t *before, *behind; /* by input: what is wanted of its memory; NULL: it is checked */
} Reaching;

static bool names_memory(const OpRow *row) { return row->flags & OPF_places; }

bool graph_names_memory(const Graph *graph) {
    const Node *node = graph->first;
    while (node && !names_memory(node->row)) node = node->next;
    return node != NULL;
}

static RootOffset place_of(const Reaching *r, const Val *val) { return r->places[((const GVal *)val)->id]; }

static RootOffset place_of_result(const Reaching *r, const GVal *value) {
    const GVal *const memory = value_memory(value);
    if (value->def->row->flags & OPF_maybe_copy) return (RootOffset){0};
    if (!memory) return (RootOffset){value, 0};
    const RootOffset of = place_of(r, &memory->base);
    return (RootOffset){of.root, of.root ? sym_add(r->graph->env, of.offset, value->offset) : 0};
}

/* The number that a size, stride or offset is; false: it is not known yet. */
static bool known_number(const Reaching *r, int64_t v, int64_t *out) {
    *out = v;
    if (!sym_is(v)) return true;
    if (!r->memory) return false;
    *out = sym_eval(r->graph->env, v, r->memory->symbols);
    return true;
}

static bool numbers(const Reaching *r, const int64_t *list, int n, int64_t *out) {
    for (int i = 0; i < n; i++)
        if (!known_number(r, list[i], &out[i])) return false;
    return true;
}

/* Elements that a layout takes; -1: they do not fit. */
static int64_t span_of(const int64_t *sizes, const int64_t *strides, int rank) {
    int64_t span;
    for (int i = 0; i < rank; i++)
        if (sizes[i] < 0 || strides[i] < 0) return -1;
    return meta_span(sizes, strides, rank, &span) && span >= 0 ? span : -1;
}

/* How much memory there is before and behind the root's first element. */
static bool extent_around(const Reaching *r, const GVal *root, int64_t *before, int64_t *behind) {
    const Meta *const meta = root->base.meta;
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    *before = 0;
    if (!root->def && !r->memory) return false;
    if (!root->def) {
        *before = r->memory->before[root->index];
        *behind = r->memory->behind[root->index];
        return true;
    }
    if (!numbers(r, meta->sizes, meta->rank, sizes) || !numbers(r, meta->strides, meta->rank, strides)) return false;
    *behind = span_of(sizes, strides, meta->rank);
    return true;
}

static Status outside(const Reaching *r, int64_t from, int64_t span, int64_t before, int64_t behind) {
    return error_raise(ST_VALUE, "%s: elements %lld to %lld lie outside of the memory, which has %lld to %lld",
                       op_form_name(r->node->row, r->node->form), (long long)from, (long long)(from + span - 1),
                       (long long)-before, (long long)(behind - 1));
}

static void want_memory(const Reaching *r, int input, int64_t from, int64_t span) {
    if (-from > r->before[input]) r->before[input] = -from;
    if (from + span > r->behind[input]) r->behind[input] = from + span;
}

/* The view of this size, stride and offset from `place` on. */
static Status check_view(const Reaching *r, RootOffset place, const Arg *size, const Arg *stride, int64_t offset) {
    const char *const name = op_form_name(r->node->row, r->node->form);
    int64_t sizes[MAX_RANK], strides[MAX_RANK], from, before, behind;
    if (!numbers(r, size->ints, size->n, sizes) || !numbers(r, stride->ints, stride->n, strides)) return ST_OK;
    const int64_t span = span_of(sizes, strides, size->n);
    if (span < 0) return error_raise(ST_VALUE, "%s: no memory has such sizes and strides", name);
    if (!span) return ST_OK;
    if (!place.root && r->memory)
        return error_raise(ST_UNSUPPORTED, "%s: what self is a view of depends on its strides", name);
    if (!place.root || !known_number(r, sym_add(r->graph->env, place.offset, offset), &from)) return ST_OK;
    if (r->before && !place.root->def) return want_memory(r, place.root->index, from, span), ST_OK;
    if (!extent_around(r, place.root, &before, &behind)) return ST_OK;
    const bool fits = from >= -before && from <= behind && span <= behind - from;
    return fits ? ST_OK : outside(r, from, span, before, behind);
}

static Status check_node(const Reaching *r) {
    const Node *const node = r->node;
    const Arg *const args = node->args;
    if (!names_memory(node->row)) return ST_OK;
    const RootOffset self = args[0].kind == ARG_tensor ? place_of(r, args[0].val) : (RootOffset){0};
    if (node->row->role == ROLE_puts) {
        const RootOffset result = node->form == FORM_inplace ? self : (RootOffset){&node->outs[0], 0};
        return check_view(r, result, &args[2], &args[3], args[4].i);
    }
    return check_view(r, self, &args[1], &args[2], args[3].i);
}

static Status follow(Reaching *r) {
    const Node *const node = r->node;
    for (int i = 0; i < node->n_outs; i++) r->places[node->outs[i].id] = place_of_result(r, &node->outs[i]);
    return check_node(r);
}

static Status follow_all(Reaching *r, const Node **at) {
    if (!graph_names_memory(r->graph)) return ST_OK;
    r->arena = arena_new();
    r->places = r->arena ? ARENA_ARRAY(r->arena, RootOffset, r->graph->n_vals + 1) : NULL;
    Status status = r->places ? ST_OK : ST_MEMORY;
    for (int i = 0; status == ST_OK && i < r->graph->inputs.n; i++)
        r->places[r->graph->inputs.at[i]->id] = (RootOffset){r->graph->inputs.at[i], 0};
    for (r->node = r->graph->first; r->node && status == ST_OK; r->node = r->node->next) {
        *at = r->node;
        status = follow(r);
    }
    arena_free(r->arena);
    return status;
}

Status graph_check_reach(Graph *graph, const GraphMemory *memory, const Node **at) {
    return follow_all(&(Reaching){.graph = graph, .memory = memory}, at);
}

Status graph_find_reach(Graph *graph, const int64_t *symbols, int64_t *before, int64_t *behind) {
    const GraphMemory memory = {symbols, before, behind};
    const Node *at;
    return follow_all(&(Reaching){.graph = graph, .memory = &memory, .before = before, .behind = behind}, &at);
}
