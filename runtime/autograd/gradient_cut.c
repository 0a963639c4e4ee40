/* gradient_cut.c: see gradient_cut.h. The lists are kept with the tracked tensors (runtime/core/tracking.h), which know
 * when a tensor's block goes; a cut is a value, so that lists are copied from arguments to results. */
#include "runtime/autograd/gradient_cut.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/core/site.h"
#include "runtime/core/state.h"
#include "runtime/core/tracking.h"

enum { MOST_VISITS = 4096 };

static _Thread_local const void *mode_site;

void gradient_cut_mode(const void *site) { mode_site = site; }

/* Leaves --------------------------------------------------------------------------------------- */

typedef struct LeafWalk {
    GradientCut *cut;
    const sn_tensor *wanted; /* or: is this one reached? */
    bool reached;
    int visits;
} LeafWalk;

static void meet_leaf(LeafWalk *walk, const sn_tensor *leaf) {
    walk->reached |= leaf == walk->wanted;
    if (!walk->cut) return;
    const uint64_t number = tracking_number(leaf);
    for (int i = 0; i < walk->cut->n_leaves; i++)
        if (walk->cut->leaves[i] == number) return;
    if (walk->cut->n_leaves < CUT_LEAVES)
        walk->cut->leaves[walk->cut->n_leaves++] = number;
    else
        walk->cut->more_leaves = true;
}

static void walk_node(LeafWalk *walk, const TapeNode *node) {
    if (walk->visits++ >= MOST_VISITS) {
        if (walk->cut) walk->cut->more_leaves = true;
        return;
    }
    for (int i = 0; i < node->n_edges; i++) {
        const TapeEdge *const edge = tape_edge_now(&node->edges[i]);
        if (edge->target && edge->leaf) meet_leaf(walk, edge->target);
        if (edge->target && !edge->leaf) walk_node(walk, edge->target);
    }
}

static void walk_tensor(LeafWalk *walk, const sn_tensor *t) {
    if (!tape_tracks(t)) return;
    if (t->autograd && t->autograd->node)
        walk_node(walk, t->autograd->node);
    else
        meet_leaf(walk, t);
}

/* A call --------------------------------------------------------------------------------------- */

typedef void VisitArgument(void *context, int param, const sn_tensor *t);

static void each_argument(const OpCall *call, VisitArgument *visit, void *context) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor && arg->val) visit(context, i, tensor_of(arg->val));
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (arg->vals[k]) visit(context, i, tensor_of(arg->vals[k]));
    }
}

static void mark_tracked(void *context, int param, const sn_tensor *t) {
    CutWatch *const watch = context;
    if (tape_tracks(t)) watch->tracked |= 1u << (param & 31);
}

CutWatch gradient_cut_before(const OpCall *call) {
    CutWatch watch = {.grad_on = state_get()->grad_mode == SN_GRAD_ON};
    each_argument(call, mark_tracked, &watch);
    return watch;
}

typedef struct CutList {
    GradientCuts cuts;
    GradientCut made; /* its leaves, while arguments are visited */
} CutList;

static void add_cut(GradientCuts *list, const GradientCut *cut) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i].site == cut->site && list->at[i].row == cut->row) return;
    if (list->n < CUTS) list->at[list->n++] = *cut;
}

static void inherit(void *context, int param, const sn_tensor *t) {
    CutList *const list = context;
    GradientCuts before;
    (void)param;
    if (t->flags & TF_inference) { /* its ops entered no key that could note them */
        GradientCut cut = list->made;
        cut.reason = CUT_of_inference;
        cut.more_leaves = true;
        add_cut(&list->cuts, &cut);
    }
    if (!tracking_cuts(t, &before)) return;
    for (int i = 0; i < before.n; i++) add_cut(&list->cuts, &before.at[i]);
}

static void find_leaves(void *context, int param, const sn_tensor *t) {
    CutList *const list = context;
    LeafWalk walk = {.cut = &list->made};
    (void)param;
    walk_tensor(&walk, t);
}

static CutReason reason_of_cut(const OpCall *call, const CutWatch *before, const sn_tensor *out) {
    if (!before->grad_on) return state_get()->grad_mode == SN_INFERENCE ? CUT_inference : CUT_no_grad;
    if (out && !dtype_is_float(out->base.meta->dtype)) return CUT_dtype;
    return call->row->kind == KIND_view || call->row->kind == KIND_composite ? CUT_detached : CUT_not_differentiable;
}

static void set_cuts(const OpCall *call, const CutWatch *before, bool recorded, CutList *list, const sn_tensor *out) {
    GradientCuts cuts = list->cuts;
    const bool is_cut = before->tracked && (!recorded || !dtype_is_float(out->base.meta->dtype));
    if (is_cut) {
        list->made.reason = reason_of_cut(call, before, out);
        list->made.dtype = out->base.meta->dtype;
        add_cut(&cuts, &list->made);
    }
    if (cuts.n) tracking_set_cuts(out, &cuts);
}

void gradient_cut_after(const OpCall *call, const CutWatch *before, bool recorded) {
    CutList list = {.made = {.row = call->row, .form = call->form, .site = state_get()->site, .mode_site = mode_site}};
    each_argument(call, inherit, &list);
    if (before->tracked) each_argument(call, find_leaves, &list);
    for (int i = 0; i < call->n_outs; i++)
        if (call->outs[i]) set_cuts(call, before, recorded, &list, call->outs[i]);
}

/* Telling -------------------------------------------------------------------------------------- */

static void print_site_of(Text *text, const void *site) {
    char name[256];
    if (!site) return;
    site_name(site, name, sizeof name);
    text_printf(text, " at %s", name);
}

static void print_cut(const GradientCut *cut, Text *text) {
    const char *const name = op_form_name(cut->row, cut->form);
    if (cut->reason == CUT_detached) text_puts(text, "detached by ");
    text_puts(text, name);
    print_site_of(text, cut->site);
    switch (cut->reason) {
    case CUT_detached:
        text_puts(text, ": its result has no history");
        break;
    case CUT_no_grad:
    case CUT_inference:
        text_printf(text, " ran with %s", cut->reason == CUT_inference ? "inference mode on" : "gradients off");
        if (cut->mode_site) text_puts(text, ", set"), print_site_of(text, cut->mode_site);
        break;
    case CUT_dtype:
        text_printf(text, " is not differentiable: its result is %s", dtype_name(cut->dtype));
        break;
    case CUT_not_differentiable:
        text_puts(text, " is not differentiable: the op has no derivative");
        break;
    case CUT_of_inference:
        text_puts(text, " was given a tensor that was made in inference mode, which records nothing");
        break;
    }
    text_puts(text, "\n");
}

static bool is_about(const GradientCut *cut, uint64_t leaf) {
    for (int i = 0; i < cut->n_leaves; i++)
        if (cut->leaves[i] == leaf) return true;
    return cut->more_leaves;
}

void gradient_cut_print(const sn_tensor *from, const sn_tensor *to, Text *text) {
    LeafWalk walk = {.wanted = to};
    GradientCuts cuts = {0};
    int n = 0;
    walk_tensor(&walk, from);
    if (!tape_tracks(to)) {
        text_puts(text, "it requires no gradients: sn_requires_grad_ makes a leaf that does\n");
        return;
    }
    if (walk.reached) {
        text_puts(text, "a gradient flows\n");
        return;
    }
    if (from->flags & TF_inference) {
        text_puts(text, "it was made in inference mode, which records nothing\n");
        return;
    }
    const bool known = tracking_cuts(from, &cuts);
    const uint64_t leaf = tracking_number(to);
    for (int i = 0; i < cuts.n; i++)
        if (is_about(&cuts.at[i], leaf)) print_cut(&cuts.at[i], text), n++;
    if (!n && cuts.n == CUTS)
        text_printf(text, "it was cut at more than %d places, none of which is known of it\n", CUTS);
    if (!n && known)
        text_puts(text, "no op that it was computed by was given that leaf, or what came from it, outside of inference "
                        "mode\n");
    if (!n && !known)
        text_puts(text, "not known: it was made before track_tensors was on, by a compiled function (which the setting "
                        "compile=0 runs op by op), or from numbers of the host\n");
}
