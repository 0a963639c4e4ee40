/* training_checked.c: which memory a backward has checked for writes before it reads a value that the tape would save
 * [semantics G3]. It runs eager's nodes newest first, and each checks the versions of what it holds. So a memory has
 * been checked when a step runs that holds it, or one to which gradients come by such steps alone. What only those
 * steps hold may be computed again from the memory where it lies:
 *
 *     y = x * sigmoid(x)           a gradient comes to sigmoid by mul alone, which holds x and sigmoid(x)
 *     cos(x);  y = sin(2 * x)      none comes to cos, whose result is dropped: x may be written, 2 * x is saved */
#include "runtime/capture/training/training_parts.h"

static bool step_saves(const TapeTable *p, const TapeRecord *step, int check) {
    bool any = false;
    for (int i = 0; i < step->n_saves; i++) any |= version_check_at(p, step->first_save + i) == check;
    return any;
}

/* The arguments of a step that its rule passes gradients to. */
static void reach_args(const TapeRecord *step, bool *reached) {
    const Node *const node = step->node;
    uint32_t results = 0;
    for (int i = 0; i < node->n_outs && i < 32; i++) results |= (uint32_t)reached[node->outs[i].id] << i;
    for (int i = 0; i < node->row->n_params; i++) {
        const Arg *const a = &node->args[i];
        if (!(step->needs >> i & 1) || !deriv_reaches(node->row, node->args, i, results)) continue;
        if (a->kind == ARG_tensor) reached[gval(a->val)->id] = true;
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) reached[gval(a->vals[k])->id] = true;
    }
}

void tape_table_reach(const TapeTable *p, int check, bool *reached, bool *ran) {
    for (int s = p->steps.n - 1; s >= 0; s--) {
        const TapeRecord *const step = &p->steps.at[s];
        bool any = false;
        for (int i = 0; i < step->node->n_outs; i++) any |= reached[step->node->outs[i].id];
        if (!any || (check != NO_VERSION_CHECK && step_saves(p, step, check))) continue;
        ran[s] = true;
        reach_args(step, reached);
    }
}

typedef struct NeedBuffers { /* by value id, by step, by tape-saved value */
    bool *reached, *ran, *checked;
} NeedBuffers;

/* By tape-saved value: no step that may run before this memory is checked holds it. */
static const bool *find_checked(const Training *t, int check, const NeedBuffers *buffer) {
    const TapeTable *const p = &t->tape;
    memset(buffer->reached, false, sizeof(bool) * (size_t)p->functional->n_vals);
    memset(buffer->ran, false, sizeof(bool) * (size_t)p->steps.n);
    memset(buffer->checked, true, sizeof(bool) * (size_t)p->tape_saved.n);
    for (int i = 0; i < t->n_user; i++)
        if (t->out_tracked[i]) buffer->reached[p->functional->outputs.at[i].value->id] = true;
    tape_table_reach(p, check, buffer->reached, buffer->ran);
    for (int s = 0; s < p->steps.n; s++)
        for (int i = 0; buffer->ran[s] && i < p->steps.at[s].n_saves; i++)
            buffer->checked[p->step_saves.at[p->steps.at[s].first_save + i]] = false;
    return buffer->checked;
}

static const GVal *memory_at(const TapeTable *p, bool output, int index) {
    const GVal *const value = output ? p->functional->outputs.at[index].value : p->functional->inputs.at[index];
    return value ? tape_table_memory(value) : NULL;
}

/* The version check of a forward input (from 0) or output (from n_inputs) of the joint graph; -1: none. */
static int version_check_place(const TapeTable *p, int n_inputs, int place) {
    const bool output = place >= n_inputs;
    const GVal *const memory = memory_at(p, output, output ? place - n_inputs : place);
    for (int w = 0; w < p->checks.n; w++) {
        const VersionCheck *const check = &p->checks.at[w];
        if (check->output == output && memory_at(p, output, check->index) == memory) return w;
    }
    return -1;
}

Status tape_table_check(const Training *t, Graph *joint) {
    const int n_tape_saved = t->tape.tape_saved.n, n_inputs = joint->n_forward_inputs;
    const int n_places = n_inputs + joint->n_forward_outputs, n_cells = n_tape_saved * n_places;
    bool *const table = ARENA_ARRAY(joint->arena, bool, n_cells + 1);
    const NeedBuffers buffer = {ARENA_ARRAY(joint->arena, bool, t->tape.functional->n_vals + 1),
                                ARENA_ARRAY(joint->arena, bool, t->tape.steps.n + 1),
                                ARENA_ARRAY(joint->arena, bool, n_tape_saved + 1)};
    if (!table || !buffer.reached || !buffer.ran || !buffer.checked) return ST_MEMORY;
    for (int place = 0; place < n_places; place++) {
        const int check = version_check_place(&t->tape, n_inputs, place);
        const bool *const checked = check < 0 ? NULL : find_checked(t, check, &buffer);
        for (int i = 0; checked && i < n_tape_saved; i++) table[i * n_places + place] = checked[i];
    }
    for (int i = 0; i < n_tape_saved; i++)
        joint->outputs.at[joint->outputs.n - n_tape_saved + i].checked = table + i * n_places;
    return ST_OK;
}
