/* training_minded.c: whose memory a backward has looked at before it reads a held value [semantics G3]. It meets
 * eager's nodes newest first, and each looks at the versions of what it holds. So some memory is minded for a step that
 * holds it, and for one to which gradients come by such steps alone. What only those steps hold may be made again from
 * the memory where it lies:
 *
 *     y = x * sigmoid(x)           a gradient comes to sigmoid by mul alone, which holds x and sigmoid(x)
 *     cos(x);  y = sin(2 * x)      none comes to cos, whose result is dropped: x may be written, 2 * x is saved
 */
#include "runtime/capture/training_parts.h"

static bool holds(const TapePlan *p, const TapeStep *step, int watch) {
    bool any = false;
    for (int i = 0; i < step->n_holds; i++)
        any |= p->held.at[p->holds.at[step->first_hold + i]].watch == watch;
    return any;
}

/* By value: a gradient may come to it before the watched memory was looked at. */
static void open_args(const TapeStep *step, bool *open) {
    const Node *const node = step->node;
    for (int i = 0; i < node->row->n_params; i++) {
        const Arg *const a = &node->args[i];
        if (!(step->needs >> i & 1)) continue;
        if (a->kind == ARG_tensor) open[gval(a->val)->id] = true;
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) open[gval(a->vals[k])->id] = true;
    }
}

/* Clears `minded` of the held values that a step may read before the memory was looked at. open: room, by value id. */
static void follow(const Training *t, int watch, bool *open, bool *minded) {
    const TapePlan *const p = &t->tape;
    memset(open, false, sizeof *open * (size_t)p->functional->n_vals);
    for (int i = 0; i < t->n_user; i++)
        if (t->out_tracked[i]) open[p->functional->outputs.at[i].value->id] = true;
    for (int s = p->steps.n - 1; s >= 0; s--) {
        const TapeStep *const step = &p->steps.at[s];
        bool any = false;
        for (int i = 0; i < step->node->n_outs; i++) any |= open[step->node->outs[i].id];
        if (!any || holds(p, step, watch)) continue;
        open_args(step, open);
        for (int i = 0; i < step->n_holds; i++) minded[p->holds.at[step->first_hold + i]] = false;
    }
}

static const GVal *memory_at(const TapePlan *p, bool output, int index) {
    const GVal *const value =
        output ? p->functional->outputs.at[index].value : p->functional->inputs.at[index];
    return value ? tape_plan_memory(value) : NULL;
}

/* The watch of a forward input (from 0) or output (from n_inputs) of the joint graph; -1: none. */
static int watch_at(const TapePlan *p, int n_inputs, int place) {
    const bool output = place >= n_inputs;
    const GVal *const memory = memory_at(p, output, output ? place - n_inputs : place);
    for (int w = 0; w < p->watches.n; w++) {
        const Watch *const watch = &p->watches.at[w];
        if (watch->output == output && memory_at(p, output, watch->index) == memory) return w;
    }
    return -1;
}

Status tape_plan_mind(const Training *t, Graph *joint) {
    const int n_held = t->tape.held.n, n_inputs = joint->n_forward_inputs;
    const int n_places = n_inputs + joint->n_forward_outputs, n_cells = n_held * n_places;
    bool *const table = ARENA_ARRAY(joint->arena, bool, n_cells + 1);
    bool *const minded = ARENA_ARRAY(joint->arena, bool, n_held + 1);
    bool *const open = ARENA_ARRAY(joint->arena, bool, t->tape.functional->n_vals + 1);
    if (!table || !minded || !open) return ST_MEMORY;
    for (int place = 0; place < n_places; place++) {
        const int watch = watch_at(&t->tape, n_inputs, place);
        if (watch < 0) continue;
        memset(minded, true, (size_t)n_held);
        follow(t, watch, open, minded);
        for (int i = 0; i < n_held; i++) table[i * n_places + place] = minded[i];
    }
    for (int i = 0; i < n_held; i++)
        joint->outputs.at[joint->outputs.n - n_held + i].minded = table + i * n_places;
    return ST_OK;
}
