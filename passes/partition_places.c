/* partition_places.c: which of the caller's memory the backward may read where it lies.
 *
 * Where the joint graph says what eager's tape holds (OUT_kept), that is memory that the tape holds too: other memory
 * may be written before the backward without eager's version check failing [semantics G3]. And only ops that eager runs
 * after that check (Output.checked) may use a value that is computed again from it; for others the value is saved. A
 * value that passes made one with an input or a result (a clone, a common subexpression) is saved as a copy; so is a
 * result that a derivative rule made again for an op that does not hold it. */
#include "passes/partition.h"

/* Which inputs' memory eager's tape holds. */
static bool find_eager(JointSplit *split) {
    const Graph *const joint = split->joint;
    for (int i = 0; i < joint->outputs.n; i++) {
        if (!is_kept(&joint->outputs.at[i])) continue;
        if (!split->eager) split->eager = ARENA_ARRAY(joint->arena, bool, joint->n_vals + 1);
        if (!split->eager) return false;
        const int input = joint->outputs.at[i].base;
        if (input >= 0) split->eager[joint->inputs.at[input]->id] = true;
    }
    return true;
}

int tape_saved_output(const JointSplit *split, const GVal *value) {
    if (split->eager && value->def && value->def->merged) return -1;
    for (int i = 0; i < split->n_user; i++) {
        const Output *const output = &split->joint->outputs.at[i];
        if (output->value == value && output->kind == OUT_new && (output->tape_saved || !split->eager)) return i;
    }
    return -1;
}

bool stays_in_place(const JointSplit *split, const GVal *value) {
    return !value->def && !graph_writes(split->joint, value) && (!split->eager || split->eager[value->id]);
}

/* Number of the forward input or (after those) output whose memory a value may be read in; -1: none. */
static int place_of(const JointSplit *split, const GVal *value) {
    if (stays_in_place(split, value)) return value->index;
    const int output = tape_saved_output(split, value);
    return output < 0 ? -1 : split->joint->n_forward_inputs + output;
}

/* A kept value that is a caller's memory itself, which is not checked before it is read, is saved as a copy. This is
 * decided for all kept values before the first one asks for places. */
static void leave_place(JointSplit *split, const Output *kept) {
    const GVal *const root = view_root(kept->value);
    for (int at = place_of(split, root); at >= 0 && !kept->checked[at]; at = place_of(split, root)) {
        if (at < split->joint->n_forward_inputs)
            split->eager[root->id] = false;
        else
            split->joint->outputs.at[at - split->joint->n_forward_inputs].tape_saved = false;
    }
}

typedef struct Cone { /* of nodes that a kept value may be recomputed by */
    JointSplit *split;
    const Output *kept;
    int *seen, stamp; /* by node id */
    Node **stack;
    int n;
    const Node *user; /* NULL: the kept value itself */
} Cone;

static void enter_cone(void *context, GVal *value) {
    Cone *const cone = context;
    const JointSplit *const split = cone->split;
    GVal *const root = view_root(value);
    const int at = place_of(split, root);
    if (at >= 0 && cone->user) split->fixed[cone->user->id] |= !cone->kept->checked[at];
    Node *const node = root->def;
    if (!node || split->backward[root->id] || !can_recompute(node)) return;
    if (split->fixed[node->id] || cone->seen[node->id] == cone->stamp) return;
    cone->seen[node->id] = cone->stamp;
    cone->stack[cone->n++] = node;
}

static void fix_cone(Cone *cone) {
    cone->stamp++;
    cone->user = NULL;
    enter_cone(cone, cone->kept->value);
    while (cone->n) {
        Node *const node = cone->stack[--cone->n];
        cone->user = node;
        each_use(node, enter_cone, cone);
    }
}

static bool find_fixed(JointSplit *split) {
    Graph *const joint = split->joint;
    split->fixed = ARENA_ARRAY(joint->arena, bool, joint->n_nodes + 1);
    Cone cone = {.split = split,
                 .seen = ARENA_ARRAY(joint->arena, int, joint->n_nodes + 1),
                 .stack = ARENA_ARRAY(joint->arena, Node *, joint->n_nodes + 1)};
    if (!split->fixed || !cone.seen || !cone.stack) return false;
    for (int i = 0; i < joint->outputs.n; i++)
        if (is_kept(&joint->outputs.at[i])) leave_place(split, &joint->outputs.at[i]);
    for (int i = 0; i < joint->outputs.n; i++) {
        if (!is_kept(&joint->outputs.at[i])) continue;
        cone.kept = &joint->outputs.at[i];
        fix_cone(&cone);
    }
    return true;
}

bool partition_places(JointSplit *split) { return find_eager(split) && find_fixed(split); }
