/* training_saved.c: what eager's tape would hold of a segment [semantics G3]. The functional graph's
 * ops are those that the tape records; which arguments and results a node saves is in the op's row.
 * The version of a value that the tape would save is checked if it is memory that the caller has: an input, or what a
 * result of the segment is made of, also where an op wrote it there in place. What an in-place op overwrites the tape
 * saves as a copy, so an input that the segment writes is not checked for its old value. Nor is what a region
 * (autograd/region.h) computes again, whatever a caller that has it as a result writes there: what its policy saves
 * is. */
#include "runtime/capture/training/training_parts.h"

#include "runtime/base/alloc.h"

typedef struct RegionRead { /* from outside of a region */
    const GVal *value;
    const Node *reader;
} RegionRead;
typedef VEC(RegionRead) RegionReads;

typedef struct RegionTraversal {
    TapeTable *plan;
    const Training *training;
    RegionReads *reads; /* by region */
    const Node *node;
    int region; /* that the node is in, or one around that */
} RegionTraversal;

/* The node that puts what a written form made into its target's memory; NULL: it is that memory. */
static const Node *put_by(const GVal *value) {
    for (const Node *node = value->def ? value->def->next : NULL; node; node = node->next)
        if (node_put(node) == value) return node;
    return NULL;
}

const GVal *tape_table_memory(const GVal *value) {
    const GVal *memory = view_root(value);
    for (const Node *put = put_by(memory); put; put = put_by(memory)) memory = &put->outs[0];
    return memory;
}

static int add_version_check(TapeTable *p, bool output, int index) {
    for (int i = 0; i < p->checks.n; i++)
        if (p->checks.at[i].output == output && p->checks.at[i].index == index) return i;
    const VersionCheck check = {output, index};
    VEC_PUSH(p->functional->arena, &p->checks, check);
    return p->checks.n - 1;
}

static int version_check_of(TapeTable *p, const Training *t, const GVal *value) {
    const Graph *const g = p->functional;
    const GVal *const root = tape_table_memory(value);
    for (int i = 0; i < g->writes.n; i++)
        if (view_root(g->writes.at[i].value) == root) return add_version_check(p, false, g->writes.at[i].input->index);
    if (!root->def) return t->written[root->index] ? -1 : add_version_check(p, false, root->index);
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.at[i].value && view_root(g->outputs.at[i].value) == root) return add_version_check(p, true, i);
    return -1;
}

static const Meta *meta_where_put(TapeTable *p, const GVal *value) {
    const Meta *meta = value->base.meta;
    for (const Node *put = put_by(value); put; put = put_by(&put->outs[0])) {
        const Arg *const sizes = &put->args[2], *const strides = &put->args[3];
        if (put->row->role == ROLE_puts)
            return meta_new(p->functional->arena, p->functional->env, meta->dtype, meta->device, sizes->ints,
                            strides->ints, sizes->n);
        meta = put->outs[0].base.meta;
    }
    return meta;
}

/* Does the region that the step is in? */
static bool is_again(const TapeTable *p, const TapeRecord *step, const GVal *value) {
    const int top = graph_top_region(p->functional, step->node);
    const Node *const maker = top ? tape_table_memory(value)->def : NULL;
    return maker && graph_top_region(p->functional, maker) == top && !node_kept_by_region(maker);
}

static TapeSavedValue *tape_saved_value(TapeTable *p, const GVal *value) {
    int *const number = &p->tape_saved_of[value->id];
    if (*number < 0) {
        const TapeSavedValue tape_saved = {.value = value, .meta = meta_where_put(p, value), .check = -1};
        *number = p->tape_saved.n;
        VEC_PUSH(p->functional->arena, &p->tape_saved, tape_saved);
    }
    return &p->tape_saved.at[*number];
}

static void save(TapeTable *p, const Training *t, TapeRecord *step, const GVal *value, const Node *reader) {
    const bool again = !reader && is_again(p, step, value);
    TapeSavedValue *const tape_saved = tape_saved_value(p, value);
    tape_saved->again |= again;
    if (!again && tape_saved->check < 0) tape_saved->check = version_check_of(p, t, value);
    VEC_PUSH(p->functional->arena, &p->step_saves, p->tape_saved_of[value->id]);
    VEC_PUSH(p->functional->arena, &p->readers, reader);
    VEC_PUSH(p->functional->arena, &p->again, again);
    step->n_saves++;
}

/* Does the step hold the value's memory already, because an inner region reads it? */
static bool is_saved_for(const TapeTable *p, const TapeRecord *step, const GVal *value) {
    for (int i = 0; i < step->n_saves; i++) {
        const TapeSavedValue *const tape_saved = &p->tape_saved.at[p->step_saves.at[step->first_save + i]];
        if (p->readers.at[step->first_save + i] && tape_table_memory(tape_saved->value) == tape_table_memory(value))
            return true;
    }
    return false;
}

/* A value of the region that the step is in is computed again, once, from what that read. */
static void save_again(TapeTable *p, const Training *t, TapeRecord *step, const GVal *value,
                       const RegionReads *regions) {
    const int top = regions ? graph_top_region(p->functional, step->node) : 0;
    if (!top || graph_top_region(p->functional, tape_table_memory(value)->def) != top) return;
    for (int i = 0; i < step->n_saves; i++)
        if (p->readers.at[step->first_save + i]) return;
    for (int r = step->node->region; r;
         r = regions_outer(&p->functional->regions, r)) /* eager runs the innermost one first */
        for (int i = 0; i < regions[r].n; i++)
            if (!is_saved_for(p, step, regions[r].at[i].value))
                save(p, t, step, regions[r].at[i].value, regions[r].at[i].reader);
}

static void save_with_region(TapeTable *p, const Training *t, TapeRecord *step, const GVal *value,
                             const RegionReads *regions) {
    save_again(p, t, step, value, regions);
    save(p, t, step, value, NULL);
}

static void save_all(TapeTable *p, const Training *t, TapeRecord *step, const RegionReads *regions) {
    const Node *const node = step->node;
    for (int i = 0; i < node->row->n_params; i++) {
        const Arg *const a = &node->args[i];
        if (!tape_row_saves(node->row, i, -1, step->needs)) continue;
        if (a->kind == ARG_tensor && a->val) save_with_region(p, t, step, gval(a->val), regions);
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) save_with_region(p, t, step, gval(a->vals[k]), regions);
    }
    for (int i = 0; i < node->n_outs; i++)
        if (tape_row_saves(node->row, -1, i, step->needs)) save_with_region(p, t, step, &node->outs[i], regions);
}

/* The first node of a region that reads memory from outside of it which a caller has. */
static void record_outside_read(void *context, GVal **slot) {
    RegionTraversal *const traversal = context;
    TapeTable *const p = traversal->plan;
    if (!*slot) return;
    const GVal *const memory = tape_table_memory(*slot);
    if (graph_top_region(p->functional, memory->def) == graph_top_region(p->functional, traversal->node)) return;
    if (version_check_of(p, traversal->training, *slot) < 0) return;
    RegionReads *const reads = &traversal->reads[traversal->region];
    for (int i = 0; i < reads->n; i++)
        if (tape_table_memory(reads->at[i].value) == memory) return;
    const RegionRead read = {*slot, traversal->node};
    VEC_PUSH(p->functional->arena, reads, read);
}

/* What a region has saved by a policy and a caller has, too. */
static void record_kept_results(const RegionTraversal *traversal) {
    TapeTable *const p = traversal->plan;
    for (int i = 0; node_kept_by_region(traversal->node) && i < traversal->node->n_outs; i++) {
        const GVal *const value = &traversal->node->outs[i];
        if (version_check_of(p, traversal->training, value) < 0) continue;
        const RegionRead read = {value, traversal->node};
        VEC_PUSH(p->functional->arena, &traversal->reads[traversal->region], read);
    }
}

/* By region; NULL: there are none. What it reads is checked before what it has saved. */
static RegionReads *find_reads(TapeTable *p, const Training *t) {
    Graph *const g = p->functional;
    RegionReads *const reads = g->regions.n ? ARENA_ARRAY(g->arena, RegionReads, g->regions.n + 1) : NULL;
    for (Node *node = g->first; reads && node; node = node->next) {
        RegionTraversal traversal = {p, t, reads, node, node->region};
        for (; traversal.region; traversal.region = regions_outer(&g->regions, traversal.region))
            node_each_input(node, record_outside_read, &traversal);
    }
    for (Node *node = g->first; reads && node; node = node->next) {
        RegionTraversal traversal = {p, t, reads, node, node->region};
        for (; traversal.region; traversal.region = regions_outer(&g->regions, traversal.region))
            record_kept_results(&traversal);
    }
    return reads;
}

static void mark_live(void *context, GVal **slot) {
    if (*slot) ((bool *)context)[(*slot)->id] = true;
}

/* through: only by values that are marked there; NULL: by all. */
static bool is_live(const bool *live, const bool *through, const Node *node) {
    for (int i = 0; i < node->n_outs; i++)
        if (live[node->outs[i].id] && (!through || through[node->outs[i].id])) return true;
    return false;
}

/* And what those come from. */
static void mark_behind(bool *live, const bool *through, const Graph *g) {
    for (Node *node = g->last; node; node = node->prev)
        if (is_live(live, through, node)) node_each_input(node, mark_live, live);
}

bool *training_needed(const Training *t, const bool *ran, const bool *used) {
    const TapeTable *const p = &t->tape;
    const Graph *const restore = t->partition ? t->partition->restore : NULL;
    bool *const needed = mem_zero((size_t)(restore ? restore->n_vals : 0) + 1);
    for (int s = 0; needed && restore && s < p->steps.n; s++) {
        const TapeRecord *const step = &p->steps.at[s];
        for (int i = 0; (!ran || ran[s]) && !(used && used[s]) && i < step->n_saves; i++)
            mark_live(needed, &restore->outputs.at[p->step_saves.at[step->first_save + i]].value);
    }
    if (needed && restore) mark_behind(needed, NULL, restore);
    return needed;
}

/* By value id: does a gradient come to it from a result, or a write? Other nodes of eager's tape are gone with their
 * results when the body returns, also those whose results are read where none flows. NULL raises. */
static const bool *find_live(const Graph *g, const bool *marks) {
    bool *const live = ARENA_ARRAY(g->arena, bool, g->n_vals + 1);
    for (int i = 0; live && i < g->outputs.n; i++) mark_live(live, &g->outputs.at[i].value);
    for (int i = 0; live && i < g->writes.n; i++) mark_live(live, &g->writes.at[i].value);
    if (live) mark_behind(live, marks, g);
    return live;
}

Status tape_table_make(Training *t, Graph *forward) {
    TapeTable *const p = &t->tape;
    Graph *const g = p->functional = graph_copy(forward, forward->arena);
    if (g) g->bail = NULL; /* it outlives the compile */
    p->marks = g ? joint_marks(g, t->want) : NULL;
    p->tape_saved_of = p->marks ? ARENA_ARRAY(g->arena, int, g->n_vals + 1) : NULL;
    const bool *const live = p->tape_saved_of ? find_live(g, p->marks) : NULL;
    if (!live) return error_pending() ? error_pending() : ST_MEMORY;
    memset(p->tape_saved_of, -1, sizeof *p->tape_saved_of * (size_t)g->n_vals);
    const RegionReads *const regions = find_reads(p, t);
    for (const Node *node = g->first; node; node = node->next) {
        TapeRecord step = {.node = node, .needs = joint_needs(p->marks, node)};
        if (!step.needs) continue;
        step.number = p->n_recorded++;
        if (!is_live(live, p->marks, node)) continue;
        step.first_save = p->step_saves.n;
        save_all(p, t, &step, regions);
        VEC_PUSH(g->arena, &p->steps, step);
    }
    return error_pending();
}

/* A value that eager's tape holds, and whose memory that is: passes may make one value of it and of an input or a
 * result that are other tensors in eager, with writes of their own. */
static Output kept_output(Graph *joint, GVal *tape_saved) {
    const GVal *const root = view_root(tape_saved);
    for (int i = 0; i < joint->n_forward_outputs; i++) {
        Output *const output = &joint->outputs.at[i];
        output->tape_saved |= output->value && view_root(output->value) == root;
    }
    return (Output){.value = tape_saved, .kind = OUT_kept, .base = root->def ? -1 : root->index};
}

Status tape_table_keep(const Training *t, Graph *joint, GVal *const *values) {
    for (int i = 0; i < t->tape.tape_saved.n; i++) {
        const Output kept = kept_output(joint, values[t->tape.tape_saved.at[i].value->id]);
        VEC_PUSH(joint->arena, &joint->outputs, kept);
    }
    return error_pending() ? error_pending() : tape_table_check(t, joint);
}

/* A copy of the functional graph's symbols for a trial; symbols: of a call, or NULL: as at capture. */
static SymEnv *trial_env(const TapeTable *p, Arena *arena, const int64_t *symbols) {
    const SymEnv *const env = p->functional->env;
    int64_t *const hints = ARENA_ARRAY(arena, int64_t, sym_free_count(env) + 1);
    for (int i = 0; hints && i < sym_free_count(env); i++)
        hints[i] = symbols ? symbols[i] : sym_hint(env, sym_free_at(env, i));
    return hints ? sym_env_copy(env, arena, hints) : NULL;
}

bool *tape_table_by_step(const TapeTable *p, Arena *arena, const bool *by_node) {
    bool *const steps = by_node ? ARENA_ARRAY(arena, bool, p->steps.n + 1) : NULL;
    for (int s = 0; steps && s < p->steps.n; s++) steps[s] = by_node[p->steps.at[s].node->id];
    return steps;
}

bool *tape_table_ran(const Training *t, Arena *arena, const BackwardSpecialization *c, const int64_t *symbols) {
    const TapeTable *const p = &t->tape;
    Arena *const trial = arena_new();
    SymEnv *const env = trial ? trial_env(p, trial, symbols) : NULL;
    JointSpec spec;
    const bool known = env && training_specialization_spec(t, c, trial, &spec) == ST_OK;
    spec.grad_meta = spec.sum_meta = NULL;
    bool *const ran = tape_table_by_step(p, arena, known ? joint_ran(p->functional, trial, env, &spec) : NULL);
    arena_free(trial);
    return ran;
}

bool *tape_table_used(const TapeTable *p, Arena *arena) {
    Arena *const trial = arena_new();
    SymEnv *const env = trial ? trial_env(p, trial, NULL) : NULL;
    bool *const used = tape_table_by_step(p, arena, env ? joint_ran(p->functional, trial, env, NULL) : NULL);
    arena_free(trial);
    return used;
}
