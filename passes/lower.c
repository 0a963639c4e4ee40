/* lower.c: the pass `lower`: a scheduled graph becomes a call sequence: where values live, then the steps, group by
 * group. A write-back goes straight to the input's memory where nothing reads the old contents later and no check comes
 * after [C8] (order.c decided that); else it is a copy at the end. */
#include "passes/lower.h"
#include "ir/flow_text.h"

#include "passes/internal.h"
#include "runtime/base/error.h"

_Noreturn void lower_bail(const Lower *l, const Node *node, const char *why) {
    bail(l->graph->bail, BAIL_lower, "%s: %s", node ? node->row->name : "copy", why);
}

/* where values live --------------------------------------------------------------------------- */

/* A permutation of row-major strides, by structure. */
static bool has_no_gaps(SymEnv *env, const Meta *meta) {
    bool used[MAX_RANK] = {false};
    int64_t step = 1;
    for (int round = 0, d; round < meta->rank; round++) {
        for (d = meta->rank - 1; d >= 0; d--)
            if (!used[d] && (meta->sizes[d] == 1 || meta->strides[d] == step)) break;
        if (d < 0) return false;
        used[d] = true;
        step = sym_mul(env, step, meta->sizes[d]);
    }
    return true;
}

/* Elements from the first one to past the last: more than there are where the layout has gaps, as
 * that of a written value whose input was a slice: sn::view_scatter's places count them. */
static int64_t elements_spanned(SymEnv *env, const Meta *meta) {
    if (meta->contiguous || has_no_gaps(env, meta)) return meta->numel;
    int64_t span = 1;
    for (int d = 0; d < meta->rank; d++)
        span = sym_add(env, span, sym_mul(env, meta->strides[d], sym_sub(env, meta->sizes[d], 1)));
    return sym_max(env, span, meta->numel);
}

int new_slot(Lower *l, SlotKind kind, int index, const Meta *meta) {
    if (kind == SLOT_arena) index = l->n_arena_slots++;
    const Slot slot = {.kind = kind, .index = index, .meta = meta, .first = -1, .last = -1};
    VEC_PUSH(l->arena, &l->plan->slots, slot);
    l->plan->slots.at[l->plan->slots.n - 1].bytes =
        sym_mul(l->env, elements_spanned(l->env, meta), dtype_bytes(meta->dtype));
    return l->plan->slots.n - 1;
}

static Group *copy_group(Lower *l, const Copy *copy) {
    Group *const group = ARENA_NEW(l->arena, Group);
    Cluster *const cluster = ARENA_NEW(l->arena, Cluster);
    cluster->kind = VAL_pointwise;
    cluster->copy = copy;
    cluster->group = group;
    group->write_back = copy->write;
    VEC_PUSH(l->arena, &group->clusters, cluster);
    VEC_PUSH(l->arena, &l->groups, group);
    return group;
}

/* At the end, value goes to memory that is not its own. */
static void add_copy(Lower *l, GVal *from, int slot, const int64_t *strides, bool write) {
    Copy *const copy = ARENA_NEW(l->arena, Copy);
    const Meta *const meta = from->base.meta;
    *copy = (Copy){.from = from, .slot = slot, .sizes = meta->sizes, .rank = meta->rank, .strides = strides};
    copy->dtype = l->plan->slots.at[slot].meta->dtype;
    copy->write = write;
    copy_group(l, copy);
}

/* Every place of a block of memory once: row-major but for the order of the dims. */
static bool is_packed(SymEnv *env, const Meta *meta) {
    bool used[MAX_RANK] = {false};
    int64_t step = 1;
    for (int left = meta->rank; left; left--) {
        int found = -1;
        for (int d = 0; d < meta->rank && found < 0; d++)
            if (!used[d] && (sym_identical(meta->sizes[d], 1) || sym_identical(meta->strides[d], step))) found = d;
        if (found < 0) return false;
        used[found] = true;
        step = sym_mul(env, step, meta->sizes[found]);
    }
    return true;
}

static void place_outputs(Lower *l) {
    for (int i = 0; i < l->graph->outputs.n; i++) {
        const Output *const out = &l->graph->outputs.at[i];
        if (out->kind != OUT_new || !out->value) continue;
        ValInfo *const info = val_info(l, out->value), *const base = val_info(l, info->base);
        const bool whole = out->value == base->val || (info->offset == 0 && is_packed(l->env, out->value->base.meta) &&
                                                       out->value->base.meta->numel == base->val->base.meta->numel);
        if (base->kind != VAL_input && base->slot < 0 && base->home == base->val && whole &&
            keeps_layout(l, base->val)) {
            base->slot = new_slot(l, SLOT_output, i, base->val->base.meta);
            continue;
        }
        const Meta *const meta = out->value->base.meta; /* eager's strides, those of an expanded view too */
        add_copy(l, out->value, new_slot(l, SLOT_output, i, meta), meta->strides, false);
    }
}

/* Write-backs that were not done in place. */
static void place_writes(Lower *l) {
    for (int i = 0; i < l->graph->writes.n; i++) {
        const Write *const write = &l->graph->writes.at[i];
        if (val_info(l, write->value)->base == write->value && val_info(l, write->value)->home == write->input)
            continue;
        if (write->value == write->input) continue;
        add_copy(l, write->value, write->input->index, write->input->base.meta->strides, true);
    }
}

static void place_rest(Lower *l) {
    for (int i = 0; i < l->graph->n_vals; i++) {
        ValInfo *const info = &l->vals[i];
        if (!info->val || info->kind == VAL_view || info->slot >= 0 || info->home != info->val) continue;
        const Cluster *const cluster = l->cluster[info->val->def->id];
        const bool native = info->kind == VAL_native;
        if (native || needs_memory(l, cluster, info->val))
            info->slot = new_slot(l, SLOT_arena, -1, info->val->base.meta);
    }
}

/* Values that overwrite an input took its layout; so do their views. */
static void look_again(Lower *l) {
    for (int i = 0; i < l->graph->n_vals; i++) {
        ValInfo *const info = &l->vals[i];
        if (info->val && info->kind == VAL_view && val_info(l, info->base)->home != info->base)
            look_at_view(l, info, info->val);
    }
}

/* The value's metadata with the strides that it has in its slot. */
static const Meta *meta_in_slot(const Lower *l, const ValInfo *info) {
    const Meta *const meta = info->val->base.meta;
    bool same = true;
    for (int d = 0; d < meta->rank; d++) same &= sym_identical(meta->strides[d], info->strides[d]);
    if (same) return meta;
    Meta *const moved = arena_copy(l->arena, meta, sizeof *meta);
    moved->strides = info->strides;
    moved->contiguous = meta_is_contiguous(l->env, moved->sizes, moved->strides, moved->rank);
    return moved;
}

static Val *value_in_slot(void *context, Val *val) {
    Lower *const l = context;
    if (!val) return NULL;
    const ValInfo *const info = val_info(l, gval(val));
    PlanValue *const value = ARENA_NEW(l->arena, PlanValue);
    *value = (PlanValue){.base.meta = meta_in_slot(l, info),
                         .slot = val_info(l, val_info(l, info->base)->home)->slot,
                         .offset = info->offset};
    return &value->base;
}

/* steps --------------------------------------------------------------------------------------- */

/* Where it runs: what has all its values. */
static void check_executor(const Lower *l, const Node *node, Step *step) {
    if (device_has_executor(step->device)) return;
    bail(l->graph->bail, BAIL_unsupported, "%s on %s: this device has no executor of plans",
         node ? node->row->name : "a copy", DEVICE_TEXT(step->device));
}

static _Noreturn void two_devices(const Lower *l, const Node *node, Device a, Device b) {
    bail(l->graph->bail, BAIL_unsupported, "%s: values on %s and %s", node ? node->row->name : "a copy", DEVICE_TEXT(a),
         DEVICE_TEXT(b));
}

static void check_devices(const Lower *l, const Node *node, const Step *step) {
    if (step->row->flags & OPF_flow) return; /* its bodies' ops are on whatever device */
    for (int a = 0; a < step->row->n_params; a++) {
        const Arg *const arg = &step->args[a];
        const int n = arg->kind == ARG_tensors ? arg->n : arg->kind == ARG_tensor;
        for (int i = 0; i < n; i++) {
            const Val *const val = arg->kind == ARG_tensors ? arg->vals[i] : arg->val;
            if (val && val->meta->device != step->device) two_devices(l, node, val->meta->device, step->device);
        }
    }
}

static int workspace_slot(Lower *l, const Step *step) {
    int64_t bytes = workspace_bytes(l->env, step->row, step->args);
    if (sym_identical(bytes, 0)) return -1;
    const Meta *const meta = meta_new(l->arena, l->env, DT_u8, step->device, &bytes, &(int64_t){1}, 1);
    return new_slot(l, SLOT_arena, -1, meta);
}

/* Control flow draws from a generator that is made of the call's seed and its own number. */
static void set_flow_generator(const Lower *l, const Node *node, Step *step) {
    if (!(node->row->flags & OPF_flow) || !(node->row->flags & OPF_random)) return;
    step->args[op_param_find(node->row, "seed")] = A_INT(l->graph->seed);
    step->args[op_param_find(node->row, "number")] = A_INT(sym_add(l->env, l->graph->sequence, node->random));
}

static bool is_plain_meta(const Val *val) {
    bool plain = true;
    for (int d = 0; val && plain && d < val->meta->rank; d++)
        plain = !sym_is(val->meta->sizes[d]) && !sym_is(val->meta->strides[d]);
    return plain;
}

/* Bodies with symbols, of operands without, get their numbers here, and not at each launch. */
static void put_flow_numbers(const Lower *l, const Node *node, Step *step) {
    bool plain = node->row->flags & OPF_flow && !flow_args_are_plain(node->row, node->args);
    for (int i = 0; plain && i < node->n_args; i++) {
        const Arg *const a = &node->args[i];
        for (int k = 0; plain && a->kind == ARG_tensors && k < a->n; k++) plain = is_plain_meta(a->vals[k]);
        for (int k = 0; plain && a->kind == ARG_ints && k < a->n; k++) plain = !sym_is(a->ints[k]);
    }
    Arg args[MAX_ARGS];
    memcpy(args, step->args, sizeof *args * (size_t)node->n_args);
    if (!plain) return;
    if (flow_args_plain(l->arena, node->row, args, NULL) == ST_OK)
        memcpy(step->args, args, sizeof *args * (size_t)node->n_args);
    else
        error_clear(); /* the launch will say so */
}

/* Gradients of control flow in a body: as many as it has operands. */
static void check_list(const Lower *l, const Node *node) {
    if (node->n_outs > MAX_OUTS)
        bail(l->graph->bail, BAIL_unsupported, "%s: %d results, of at most %d in a plan", node->row->name, node->n_outs,
             MAX_OUTS);
}

void call_step(Lower *l, Node *node, StepKind kind, Step *step) {
    check_list(l, node);
    *step = (Step){.kind = kind, .row = node->row, .workspace = -1};
    step->n_outs = node->n_outs;
    step->device = node->outs[0].base.meta->device;
    step->outs = ARENA_ARRAY(l->arena, PlanValue *, node->n_outs + 1);
    for (int r = 0; r < node->n_outs; r++) step->outs[r] = plan_value(value_in_slot(l, &node->outs[r].base));
    step->ops = ARENA_ARRAY(l->arena, int, 1);
    step->ops[0] = node->id;
    step->n_ops = 1;
    Val *const moved = node_moves(node);
    if (moved) {
        step->kind = STEP_copy;
        step->row = NULL;
        step->args = ARENA_NEW(l->arena, Arg);
        *step->args = A_VAL(value_in_slot(l, moved));
        return;
    }
    step->args = ARENA_ARRAY(l->arena, Arg, node->n_args + 1);
    for (int i = 0; i < node->n_args; i++) step->args[i] = arg_map_vals(l->arena, node->args[i], value_in_slot, l);
    put_flow_numbers(l, node, step);
    set_flow_generator(l, node, step);
    check_executor(l, node, step);
    check_devices(l, node, step);
    if (step->kind == STEP_native) step->workspace = workspace_slot(l, step);
}

static const char *native_step(Lower *l, const Group *group, Step *step) {
    call_step(l, group->clusters.at[0]->nodes.at[0], STEP_native, step);
    step->write_back = group->write_back;
    return NULL;
}

static const char *kernel_step(Lower *l, const Group *group, Step *step) {
    const Cluster *const first = group->clusters.at[0];
    const Node *const node = first->nodes.n ? first->nodes.at[0] : NULL;
    const char *const why = lower_group(l, group, step);
    if (why) return why;
    bool known = false;
    for (int b = 0; b < step->kernel->n_bufs; b++) {
        if (step->bufs[b] < 0) continue;
        const Device device = l->plan->slots.at[step->bufs[b]].meta->device;
        if (known && device != step->device) two_devices(l, node, step->device, device);
        step->device = device;
        known = true;
    }
    check_executor(l, node, step);
    return NULL;
}

void lower_to_step(Lower *l, const Group *group) {
    Step step;
    const bool native = group->clusters.at[0]->kind == VAL_native;
    const char *const why = (native ? native_step : kernel_step)(l, group, &step);
    if (why)
        lower_alone(l, group, why);
    else
        VEC_PUSH(l->arena, &l->plan->steps, step);
}

/* An op that a decomposition made of one that takes no number itself (dropout, in a body of control flow). */
static void check_generator(const Lower *l) {
    for (const Node *node = l->graph->first; node && !l->graph->seed; node = node->next)
        if (node->row->flags & OPF_random)
            bail(l->graph->bail, BAIL_unsupported, "%s in a graph that draws no random numbers",
                 (node->origin ? node->origin : node->row)->name);
}

static void lower_steps(Lower *l) {
    check_generator(l);
    for (int i = 0; i < l->groups.n; i++) lower_to_step(l, l->groups.at[i]);
}

/* the rest of the plan: from here on it stands without the graph ------------------------------- */

static void fill_call(Lower *l) {
    const Graph *const graph = l->graph;
    Plan *const plan = l->plan;
    for (int i = 0; i < graph->inputs.n; i++)
        VEC_PUSH(l->arena, &plan->inputs, ((PlanInput){.name = graph->inputs.at[i]->name}));
    for (int i = 0; i < graph->writes.n; i++) plan->inputs.at[graph->writes.at[i].input->index].written = true;
    for (int i = 0; i < graph->outputs.n; i++) {
        const Output *const out = &graph->outputs.at[i];
        const Meta *const meta = out->kind == OUT_none ? NULL : out->value->base.meta;
        VEC_PUSH(l->arena, &plan->outputs, ((PlanOutput){out->kind, out->base, out->offset, meta}));
    }
    plan->front = graph->front;
    plan->floats.at = graph->runtime_floats.at;
    plan->floats.n = plan->floats.capacity = graph->runtime_floats.n;
    plan->seed = graph->seed;
    plan->sequence = graph->sequence;
    plan->n_random = graph->n_random;
}

/* The string argument of a row whose check has one; it lives as long as the graph's arena, which the plan keeps. */
static const char *text_of_check(const Node *node) {
    return node->row->check.kind == CHECK_true ? node->args[1].string : NULL;
}

static void fill_ops(Lower *l) {
    Plan *const plan = l->plan;
    plan->ops = ARENA_ARRAY(l->arena, PlanOp, l->graph->n_nodes + 1);
    plan->n_ops = l->graph->n_nodes;
    for (const Node *node = l->graph->first; node; node = node->next)
        plan->ops[node->id] = (PlanOp){node->row, node->origin, -1, text_of_check(node)};
    for (int s = 0; s < plan->steps.n; s++)
        for (int i = 0; i < plan->steps.at[s].n_ops; i++) plan->ops[plan->steps.at[s].ops[i]].step = s;
}

/* bytes saved --------------------------------------------------------------------------------- */

static void count_again(const Lower *l) {
    Plan *const plan = l->plan;
    for (const Node *node = l->graph->first; node; node = node->next) {
        if (!node->again || node->row->kind == KIND_view) continue;
        plan->n_again++;
        for (int i = 0; i < node->n_outs; i++) plan->again_bytes += meta_hint_bytes(l->env, node->outs[i].base.meta);
    }
}

typedef struct Traffic {
    const Lower *l;
    int64_t bytes;
} Traffic;

static void add_read(void *context, GVal **slot) {
    Traffic *const traffic = context;
    if (!*slot) return;
    const Meta *const base = val_info(traffic->l, *slot)->base->base.meta; /* expanded views read less */
    const int64_t whole = meta_hint_bytes(traffic->l->env, base);
    traffic->bytes += min_i64(whole, meta_hint_bytes(traffic->l->env, (*slot)->base.meta));
}

/* What one kernel per node would move less what the steps move, by the sizes' hints. */
static int64_t saved_bytes(const Lower *l) {
    Traffic traffic = {l, 0};
    Node **const nodes = ARENA_ARRAY(l->arena, Node *, l->graph->n_nodes + 1);
    for (Node *node = l->graph->first; node; node = node->next) {
        nodes[node->id] = node;
        if (node->row->kind == KIND_view) continue;
        node_each_input(node, add_read, &traffic);
        for (int r = 0; r < node->n_outs; r++) traffic.bytes += meta_hint_bytes(l->env, node->outs[r].base.meta);
    }
    for (int i = 0; i < l->plan->steps.n; i++) {
        const Step *const step = &l->plan->steps.at[i];
        if (step->kind != STEP_kernel) {
            Node *const node = nodes[step->ops[0]];
            Traffic native = {l, 0};
            node_each_input(node, add_read, &native);
            for (int r = 0; r < node->n_outs; r++) native.bytes += meta_hint_bytes(l->env, node->outs[r].base.meta);
            traffic.bytes -= native.bytes;
            continue;
        }
        for (int b = 0; b < step->kernel->n_bufs; b++) {
            const int both = step->kernel->bufs[b].role == BUF_inout ? 2 : 1;
            if (step->bufs[b] >= 0)
                traffic.bytes -= both * meta_hint_bytes(l->env, l->plan->slots.at[step->bufs[b]].meta);
        }
    }
    return traffic.bytes > 0 ? traffic.bytes : 0;
}

bool pass_lower(Graph *graph, const PassOptions *options) {
    (void)options;
    Lower *const l = graph->lowering;
    if (!l) {
        error_raise(ST_ARGUMENT, "lower: the graph is not scheduled");
        return false;
    }
    look_again(l);
    place_outputs(l);
    place_writes(l);
    place_rest(l);
    lower_steps(l);
    fill_call(l);
    fill_ops(l);
    l->plan->saved_bytes = saved_bytes(l);
    count_again(l);
    l->plan->merges = l->merges.at;
    l->plan->n_merges = l->merges.n;
    graph->plan = l->plan;
    return true;
}

const char *plan_refusals(Plan *plan) {
    Text text = {0};
    for (int i = 0; i < plan->n_merges; i++) {
        if (!plan->merges[i].why) continue;
        plan_merge_print(&plan->merges[i], &text);
        text_puts(&text, "\n");
    }
    const char *const all = arena_strdup(plan->arena, text_str(&text));
    text_free(&text);
    return all;
}
