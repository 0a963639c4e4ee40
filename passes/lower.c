/* lower.c: plan_build: the decomposed graph becomes a call sequence.
 *
 *   look at values -> schedule (groups of clusters) -> decide where values live -> lower groups in
 * order -> memory plan
 *
 * What a value is (view, loop, reduction, product, native) is asked of its row's kind and the rule
 * tables. A write-back goes straight to the input's memory where nothing reads the old contents
 * later and no check comes after [C8]; else it is a copy at the end. */
#include "passes/lower.h"

_Noreturn void lower_bail(const Lower *l, const Node *node, const char *why) {
    bail(l->graph->bail, BAIL_lower, "%s: %s", node ? node->row->name : "copy", why);
}

/* values
 * -----------------------------------------------------------------------------------------------------------
 */

static ValKind kind_of(const Lower *l, const Node *node) {
    if (gemm_known(node)) return VAL_gemm;
    if (pieces_known(node)) return VAL_pieces;
    switch (node->row->kind) {
    case KIND_view:
        return VAL_view;
    case KIND_pointwise:
        return VAL_pointwise;
    case KIND_reduction:
        return VAL_reduction;
    case KIND_kernel:
        return VAL_native;
    default:
        break;
    }
    bail(l->graph->bail, BAIL_unsupported, "%s must be decomposed before lowering",
         node->row->name);
}

/* The strides of view `v` of a tensor whose sizes are of's and whose strides and offset are given.
 */
static bool view_strides(Lower *l, const GVal *v, const Meta *of, int64_t offset,
                         int64_t *out_offset, int64_t *strides) {
    const Node *const node = v->def;
    Arg *const args = arena_copy(l->arena, node->args, sizeof(Arg) * (size_t)node->n_args);
    Val *const base = ARENA_NEW(l->arena, Val);
    base->meta = of;
    for (int i = 0; i < node->n_args; i++)
        if (args[i].kind == ARG_tensor && args[i].val) {
            args[i].val = base;
            break;
        }
    MetaOut *const outs = ARENA_ARRAY(l->arena, MetaOut, max_i64(node->n_outs, MAX_OUTS));
    MetaCall call = {
        .row = node->row, .args = args, .env = l->env, .base_offset = offset, .out = outs};
    call.n_out = node->n_outs;
    if (op_meta(&call) != ST_OK) return false;
    *out_offset = sym_add(l->env, offset, outs[v->index].offset);
    for (int d = 0; d < v->base.meta->rank; d++) strides[d] = outs[v->index].strides[d];
    return true;
}

static const GVal *view_argument(const Node *node) {
    for (int i = 0; i < node->n_args; i++)
        if (node->args[i].kind == ARG_tensor && node->args[i].val) return gval(node->args[i].val);
    return NULL;
}

static void look_at_view(Lower *l, ValInfo *info, GVal *v) {
    const Meta *const meta = v->base.meta;
    info->of = (GVal *)view_argument(v->def);
    const ValInfo *const of = val_info(l, info->of);
    info->base = of->base;
    const Meta *const of_meta = info->of->base.meta;
    Meta placed = *of_meta;
    placed.strides = of->strides;
    int64_t *const strides = ARENA_ARRAY(l->arena, int64_t, meta->rank + 1);
    if (!view_strides(l, v, &placed, of->offset, &info->offset, strides))
        lower_bail(l, v->def, "its stride rule failed");
    info->strides = strides;
    if (!strcmp(v->def->row->base, "as_strided")) return; /* speaks of memory, not of elements */
    int64_t *const dense = ARENA_ARRAY(l->arena, int64_t, of_meta->rank + 1);
    int64_t *const relative = ARENA_ARRAY(l->arena, int64_t, meta->rank + 1);
    row_major(l->env, of_meta->sizes, of_meta->rank, dense);
    placed.strides = dense;
    placed.contiguous = true;
    if (view_strides(l, v, &placed, 0, &info->relative_offset, relative)) info->relative = relative;
}

/* Strides that put every element in a place of its own within numel: a permutation of row-major. */
static bool is_dense(SymEnv *env, const Meta *meta) {
    bool used[MAX_RANK] = {false};
    int64_t step = 1;
    for (int round = 0; round < meta->rank; round++)
        for (int d = meta->rank - 1; d >= 0; d--)
            if (!used[d] && meta->sizes[d] != 1 && meta->strides[d] == step) {
                used[d] = true;
                step = sym_mul(env, step, meta->sizes[d]);
                break;
            }
    for (int d = 0; d < meta->rank; d++)
        if (!used[d] && meta->sizes[d] != 1 && meta->sizes[d] != 0) return false;
    return true;
}

/* Rows that name parts of self's memory by strides and offset. */
static bool speaks_of_memory(const Node *node) {
    return node->row->id == OP_view_scatter || node->row->id == OP_view_of ||
           node->row->id == OP_as_strided;
}

static bool keeps_layout(const Lower *l, const GVal *v) {
    const Meta *const meta = v->base.meta;
    const int64_t *const strides = val_info(l, v)->strides;
    for (int d = 0; d < meta->rank; d++)
        if (meta->sizes[d] != 1 && strides[d] != meta->strides[d]) return false;
    return true;
}

/* What they name is where the graph says only if self was not laid out anew. */
static void check_memory(Lower *l, const Node *node) {
    if (!speaks_of_memory(node)) return;
    if (!keeps_layout(l, view_argument(node)))
        lower_bail(l, node, "a part of memory that is laid out anew");
}

static void look_at_value(Lower *l, GVal *v) {
    ValInfo *const info = val_info(l, v);
    const Meta *const meta = v->base.meta;
    *info = (ValInfo){.val = v, .base = v, .home = v, .slot = -1, .strides = meta->strides};
    info->kind = v->def ? kind_of(l, v->def) : VAL_input;
    if (info->kind == VAL_view) {
        look_at_view(l, info, v);
    } else if (v->def && v->def->row->id != OP_view_scatter && !is_dense(l->env, meta)) {
        int64_t *const strides = ARENA_ARRAY(l->arena, int64_t, meta->rank + 1);
        row_major(l->env, meta->sizes, meta->rank, strides);
        info->strides = strides;
    }
}

typedef struct UseVisit {
    Lower *l;
    int node;
} UseVisit;

static void add_user(void *context, GVal **slot) {
    const UseVisit *const visit = context;
    Lower *const l = visit->l;
    if (!*slot) return;
    ValInfo *const base = val_info(l, val_info(l, *slot)->base);
    VEC_PUSH(l->arena, &base->users, visit->node);
}

/* A check whose result nobody uses is still made: its result gets memory. */
static void see_checks(Lower *l) {
    for (const Node *node = l->graph->first; node; node = node->next) {
        if (!(node->row->flags & OPF_check) || !node->n_outs) continue;
        ValInfo *const base = val_info(l, val_info(l, &node->outs[0])->base);
        if (!base->users.n) base->visible = true;
    }
}

static void look_at_graph(Lower *l) {
    Graph *const graph = l->graph;
    l->vals = ARENA_ARRAY(l->arena, ValInfo, graph->n_vals + 1);
    for (int i = 0; i < graph->inputs.n; i++) look_at_value(l, graph->inputs.at[i]);
    for (Node *node = graph->first; node; node = node->next) {
        for (int r = 0; r < node->n_outs; r++) look_at_value(l, &node->outs[r]);
        check_memory(l, node);
        UseVisit visit = {l, node->id};
        if (node->row->kind != KIND_view) node_each_input(node, add_user, &visit);
    }
    for (int i = 0; i < graph->outputs.n; i++) {
        const Output *const out = &graph->outputs.at[i];
        if (out->value && out->kind != OUT_none)
            val_info(l, val_info(l, out->value)->base)->visible = true;
    }
    for (int i = 0; i < graph->writes.n; i++)
        val_info(l, val_info(l, graph->writes.at[i].value)->base)->visible = true;
    see_checks(l);
}

bool cluster_has(const Lower *l, const Cluster *cluster, const GVal *base) {
    if (!base->def) return false;
    const Cluster *const own = l->cluster[base->def->id];
    return own == cluster;
}

bool needs_memory(const Lower *l, const Cluster *cluster, const GVal *base) {
    const ValInfo *const info = val_info(l, base);
    if (info->visible) return true;
    for (int i = 0; i < info->users.n; i++)
        if (l->cluster[info->users.at[i]] != cluster) return true;
    return false;
}

bool reduced_dims(const Node *node, bool *reduced) {
    if (node->args[0].kind != ARG_tensor) return false;
    const Meta *const input = node->args[0].val->meta;
    const int dim = op_param_find(node->row, "dim");
    const Arg *const a = dim >= 0 ? &node->args[dim] : NULL;
    int n = 0;
    memset(reduced, 0, sizeof(bool) * MAX_RANK);
    if (a && a->kind == ARG_ints) n = a->n;
    for (int i = 0; i < n; i++)
        reduced[a->ints[i] < 0 ? a->ints[i] + input->rank : a->ints[i]] = input->rank > 0;
    if (n) return true;
    if (a && a->kind == ARG_int) {
        if (input->rank) reduced[a->i < 0 ? a->i + input->rank : a->i] = true;
        return true;
    }
    const int kept =
        dim >= 0 ? 0
                 : node->outs[0].base.meta->rank; /* mv, dot and whole reductions: the last dims */
    for (int d = kept; d < input->rank; d++) reduced[d] = true;
    return true;
}

/* where values live
 * --------------------------------------------------------------------------------------------------
 */

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

static int new_slot(Lower *l, SlotKind kind, int index, const Meta *meta) {
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
    *copy = (Copy){
        .from = from, .slot = slot, .sizes = meta->sizes, .rank = meta->rank, .strides = strides};
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
            if (!used[d] &&
                (sym_identical(meta->sizes[d], 1) || sym_identical(meta->strides[d], step)))
                found = d;
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
        const bool whole = out->value == base->val ||
                           (info->offset == 0 && is_packed(l->env, out->value->base.meta) &&
                            out->value->base.meta->numel == base->val->base.meta->numel);
        if (base->kind != VAL_input && base->slot < 0 && base->home == base->val && whole &&
            keeps_layout(l, base->val)) {
            base->slot = new_slot(l, SLOT_output, i, base->val->base.meta);
            continue;
        }
        const Meta *const meta =
            out->value->base.meta; /* eager's strides, those of an expanded view too */
        add_copy(l, out->value, new_slot(l, SLOT_output, i, meta), meta->strides, false);
    }
}

/* Write-backs that were not done in place. */
static void place_writes(Lower *l) {
    for (int i = 0; i < l->graph->writes.n; i++) {
        const Write *const write = &l->graph->writes.at[i];
        if (val_info(l, write->value)->base == write->value &&
            val_info(l, write->value)->home == write->input)
            continue;
        if (write->value == write->input) continue;
        add_copy(l, write->value, write->input->index, write->input->base.meta->strides, true);
    }
}

static void place_rest(Lower *l) {
    for (int i = 0; i < l->graph->n_vals; i++) {
        ValInfo *const info = &l->vals[i];
        if (!info->val || info->kind == VAL_view || info->slot >= 0 || info->home != info->val)
            continue;
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

static void fill_places(Lower *l) {
    Plan *const plan = l->plan;
    plan->places = ARENA_ARRAY(l->arena, Place, l->graph->n_vals + 1);
    for (int i = 0; i < l->graph->n_vals; i++) {
        const ValInfo *const info = &l->vals[i];
        plan->places[i].slot = -1;
        if (!info->val) continue;
        const ValInfo *const base = val_info(l, info->base);
        plan->places[i] = (Place){val_info(l, base->home)->slot, info->offset, info->strides};
    }
}

/* steps
 * -------------------------------------------------------------------------------------------------------------
 */

static void native_step(Lower *l, const Group *group, Step *step) {
    Node *const node = group->clusters.at[0]->nodes.at[0];
    *step = (Step){
        .kind = STEP_native, .row = node->row, .args = node->args, .write_back = group->write_back};
    step->outs = ARENA_ARRAY(l->arena, GVal *, node->n_outs + 1);
    for (int r = 0; r < node->n_outs; r++) step->outs[r] = &node->outs[r];
    step->ops = ARENA_ARRAY(l->arena, int, 1);
    step->ops[0] = node->id;
    step->n_ops = 1;
}

static void lower_steps(Lower *l) {
    for (int i = 0; i < l->groups.n; i++) {
        const Group *const group = l->groups.at[i];
        Step step;
        if (group->clusters.at[0]->kind == VAL_native)
            native_step(l, group, &step);
        else
            lower_group(l, group, &step);
        VEC_PUSH(l->arena, &l->plan->steps, step);
    }
}

/* bytes saved ------------------------------------------------------------------------------------
 */

static int64_t bytes_of(const SymEnv *env, const Meta *meta) {
    return sym_hint(env, meta->numel) * dtype_bytes(meta->dtype);
}

typedef struct Traffic {
    const Lower *l;
    int64_t bytes;
} Traffic;

static void add_read(void *context, GVal **slot) {
    Traffic *const traffic = context;
    if (!*slot) return;
    const Meta *const base =
        val_info(traffic->l, *slot)->base->base.meta; /* expanded views read less */
    const int64_t whole = bytes_of(traffic->l->env, base);
    traffic->bytes += min_i64(whole, bytes_of(traffic->l->env, (*slot)->base.meta));
}

/* What one kernel per node would move less what the steps move, by the sizes' hints. */
static int64_t saved_bytes(const Lower *l) {
    Traffic traffic = {l, 0};
    for (Node *node = l->graph->first; node; node = node->next) {
        if (node->row->kind == KIND_view) continue;
        node_each_input(node, add_read, &traffic);
        for (int r = 0; r < node->n_outs; r++)
            traffic.bytes += bytes_of(l->env, node->outs[r].base.meta);
    }
    for (int i = 0; i < l->plan->steps.n; i++) {
        const Step *const step = &l->plan->steps.at[i];
        if (step->kind == STEP_native) {
            Node *const node = step->outs[0]->def;
            Traffic native = {l, 0};
            node_each_input(node, add_read, &native);
            for (int r = 0; r < node->n_outs; r++)
                native.bytes += bytes_of(l->env, node->outs[r].base.meta);
            traffic.bytes -= native.bytes;
            continue;
        }
        for (int b = 0; b < step->kernel->n_bufs; b++) {
            const int both = step->kernel->bufs[b].role == BUF_inout ? 2 : 1;
            if (step->bufs[b] >= 0)
                traffic.bytes -= both * bytes_of(l->env, l->plan->slots.at[step->bufs[b]].meta);
        }
    }
    return traffic.bytes > 0 ? traffic.bytes : 0;
}

static void scratch_failed(void *context) {
    const Lower *const l = context;
    arena_free(l->scratch);
    bail(l->graph->bail, BAIL_memory, "scheduling");
}

Plan *plan_build(Graph *graph, const LowerOptions *options) {
    Arena *const arena = graph->arena;
    Lower l = {.graph = graph, .env = graph->env, .arena = arena, .fuse = options->fuse};
    l.plan = ARENA_NEW(arena, Plan);
    l.plan->arena = arena;
    l.plan->graph = graph;
    graph_number(graph);
    look_at_graph(&l);
    for (int i = 0; i < graph->inputs.n; i++)
        val_info(&l, graph->inputs.at[i])->slot =
            new_slot(&l, SLOT_input, i, graph->inputs.at[i]->base.meta);
    l.scratch = arena_new();
    if (!l.scratch) bail(graph->bail, BAIL_memory, "scheduling");
    arena_on_failure(l.scratch, scratch_failed, &l);
    schedule(&l);
    order_groups(&l);
    arena_free(l.scratch);
    look_again(&l);
    place_outputs(&l);
    place_writes(&l);
    place_rest(&l);
    fill_places(&l);
    lower_steps(&l);
    memory_plan(l.plan);
    l.plan->saved_bytes = saved_bytes(&l);
    l.plan->refusals = l.refusals.at;
    l.plan->n_refusals = l.refusals.n;
    return l.plan;
}

const char *plan_refusals(Plan *plan) {
    const char *text = "";
    for (int i = 0; i < plan->n_refusals; i++)
        text = arena_printf(plan->arena, "%s%s\n", text, plan->refusals[i]);
    return text;
}
