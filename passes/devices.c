/* devices.c: a 0-dim value on the CPU is an operand of any device's ops, as in PyTorch; their kernels read their own
 * device's memory. So it is copied there, once for all its users: a step of the plan. */
#include "passes/internal.h"
#include "runtime/base/error.h"

PassFn pass_devices;

typedef struct Devices {
    Graph *graph;
    GVal **there; /* by value id: its last copy, or NULL */
} Devices;

static bool is_beside(const Node *node) { return node->n_outs && !device_is_host(node->outs[0].base.meta->device); }

static GVal *copy_there(Devices *d, Node *node, GVal *value) {
    const Device device = node->outs[0].base.meta->device;
    GVal **const known = &d->there[value->id];
    if (*known && (*known)->base.meta->device == device) return *known;
    const NewNodes saved = nodes_like(d->graph, node, node);
    Val *const made = E(&d->graph->builder, _to_copy, V(&value->base), A_NONE, A_NONE, I(device));
    nodes_restore(d->graph, saved);
    return made ? *known = gval(made) : NULL;
}

static bool is_number_here(const Val *val) { return val && !val->meta->rank && device_is_host(val->meta->device); }

static bool has_number_here(const Arg *arg) {
    Val *const *const vals = arg->kind == ARG_tensors ? arg->vals : &arg->val;
    const int n = arg->kind == ARG_tensors ? arg->n : arg->kind == ARG_tensor;
    bool some = false;
    for (int i = 0; i < n; i++) some |= is_number_here(vals[i]);
    return some;
}

typedef struct Placing {
    Devices *d;
    Node *node;
} Placing;

static Val *there_or_same(void *context, Val *val) {
    const Placing *const placing = context;
    GVal *const there = is_number_here(val) ? copy_there(placing->d, placing->node, gval(val)) : NULL;
    return there ? &there->base : val;
}

static bool place_arg(Devices *d, Node *node, Arg *arg) {
    Placing placing = {d, node};
    if (!has_number_here(arg)) return false;
    *arg = arg_map_vals(d->graph->arena, *arg, there_or_same, &placing);
    return true;
}

bool pass_devices(Graph *graph, const PassOptions *options) {
    Devices d = {.graph = graph};
    bool changed = false;
    for (Node *node = graph->first; node; node = node->next) {
        if (!is_beside(node) || node->row->flags & (OPF_across | OPF_flow)) continue; /* bodies have their own */
        if (!d.there) {
            graph_number(graph);
            d.there = ARENA_ARRAY(graph->arena, GVal *, graph->n_vals + 1);
            if (!d.there) return false;
        }
        for (int i = 0; i < node->n_args; i++) changed |= place_arg(&d, node, &node->args[i]);
        if (error_pending() != ST_OK) return false;
    }
    return changed;
}
