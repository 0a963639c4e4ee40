/* check_takes.c: a backward takes what its forward returns: where a call is accepted, no rule of its derivative refuses
 * what the call saved. Each call is made with leaves that require gradients, one alone and all, by each choice of what
 * it is asked for (output_mask), in the sample's layout and in channels_last, with each of its sizes as it is, 0 and 1,
 * in tensors alone and in lists of ints, too; the gradients of each set of results run, and the gradients of those.
 * What PyTorch refuses likewise is listed with its reason (takes.c). */
#include <stdio.h>

#include "runtime/base/error.h"
#include "runtime/core/tensor.h"
#include "tests/ops/ops.h"
#include "tests/ops/takes.h"

/* Results of which each set is taken; of more each alone, and all. */
enum { FEW_RESULTS = 3, MOST_RESULTS = 8 };

typedef struct Taking {
    const Case *c;
    const char *how; /* the call differs from the sample's so */
    const SampleCall *call;
    uint32_t wanted; /* bits of its tensors, the leaves */
    sn_tensor *leaves[SAMPLE_TENSORS];
    int n_leaves;
    sn_tensor *roots[MOST_RESULTS]; /* results with a history */
    int n_roots;
} Taking;

static bool is_float(const sn_tensor *t) { return t && dtype_is_float(t->base.meta->dtype); }

static bool same_kind(const sn_tensor *a, const sn_tensor *b) {
    const Meta *const x = a->base.meta, *const y = b->base.meta;
    return x->dtype == y->dtype && x->rank == y->rank &&
           !memcmp(x->sizes, y->sizes, sizeof *x->sizes * (size_t)x->rank);
}

/* The pending error as a failure, unless it is listed. */
static void look_at_error(const Taking *taking, const char *order, uint32_t set) {
    const sn_error *const error = sn_error_take();
    if (takes_listed(taking->c->row, error->message)) return;
    ops_fail(taking->c, "%s: the %s gradient of results %#x for tensors %#x refuses what the call returned: %s: %s",
             taking->how, order, set, taking->wanted, status_name((Status)error->status), error->message);
}

/* As the backward of a sum has it: one element, seen everywhere. */
static sn_tensor *incoming(sn_tensor *t) {
    return sn_expand(sn_full((sn_ints){sn_sizes(t).data, 0}, sn_int(1), sn_dtype_of(t)), sn_sizes(t));
}

/* Gradients of the tensors `ys` of the set; one of no use is NULL. False: an error, which is looked at. */
static bool run_set(const Taking *taking, const char *order, sn_tensor *const *ys, uint32_t set, uint32_t flags,
                    sn_tensor **grads) {
    sn_tensor *roots[SAMPLE_TENSORS], *by[SAMPLE_TENSORS];
    int n = 0;
    for (int i = 0; set >> i; i++) {
        if (!(set >> i & 1)) continue;
        roots[n] = ys[i];
        by[n++] = incoming(ys[i]);
    }
    const sn_tensors xs = {taking->leaves, taking->n_leaves};
    if (sn_gradients((sn_tensors){roots, n}, xs, (sn_tensors){by, n}, flags | SN_ALLOW_UNUSED, grads) != SN_OK)
        return look_at_error(taking, order, set), false;
    for (int i = 0; i < xs.n; i++)
        if (grads[i] && !same_kind(grads[i], xs.data[i]))
            ops_fail(taking->c, "%s: the %s gradient of results %#x for leaf %d is of other sizes or dtype",
                     taking->how, order, set, i);
    return true;
}

static void take_set(const Taking *taking, uint32_t set) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *grads[SAMPLE_TENSORS] = {NULL}, *second[SAMPLE_TENSORS] = {NULL};
    uint32_t tracked = 0;
    ops_now("its gradient");
    if (run_set(taking, "first", taking->roots, set, SN_CREATE_GRAPH, grads)) {
        for (int i = 0; i < taking->n_leaves; i++)
            if (grads[i] && sn_requires_grad(grads[i])) tracked |= 1u << i;
        ops_now("the gradient of its gradient");
        if (tracked && !ops_first_only(taking->c->row))
            run_set(taking, "second", grads, tracked, SN_RETAIN_GRAPH, second);
    }
    ops_now(NULL);
    sn_scope_end(scope);
}

static void take_sets(const Taking *taking) {
    const uint32_t all = (1u << taking->n_roots) - 1;
    for (uint32_t set = 1; set <= all; set++)
        if (taking->n_roots <= FEW_RESULTS || set == all || !(set & (set - 1))) take_set(taking, set);
}

/* The call with those leaves alone; what it refuses is another mode's question. */
static void take_call(const Case *c, const char *how, const SampleCall *call, uint32_t wanted) {
    const sn_scope scope = sn_scope_begin();
    Taking taking = {.c = c, .how = how, .call = call, .wanted = wanted};
    sn_tensor *outs[MAX_LIST];
    int n;
    for (int i = 0; i < call->n_tensors; i++) {
        if (is_float(call->tensors[i])) sn_requires_grad_(call->tensors[i], wanted >> i & 1);
        if (wanted >> i & 1) taking.leaves[taking.n_leaves++] = call->tensors[i];
    }
    if (sample_run(call, outs, &n) != ST_OK)
        sn_error_take();
    else
        for (int i = 0; i < n && taking.n_roots < MOST_RESULTS; i++)
            if (is_float(outs[i]) && sn_requires_grad(outs[i])) taking.roots[taking.n_roots++] = outs[i];
    if (taking.n_roots) take_sets(&taking);
    sn_scope_end(scope);
}

/* Each float alone, and all. */
static void take_leaves(const Case *c, const char *how, const SampleCall *call) {
    uint32_t all = 0;
    for (int i = 0; i < call->n_tensors; i++) all |= (uint32_t)is_float(call->tensors[i]) << i;
    for (int i = 0; i < call->n_tensors; i++)
        if (all >> i & 1) take_call(c, how, call, 1u << i);
    if (all & (all - 1)) take_call(c, how, call, all);
}

/* By each choice of what is asked for. */
static void take_masks(const Case *c, const char *how, SampleCall *call) {
    const OpRow *const row = c->row;
    const int mask = op_param_find(row, "output_mask"), n = mask < 0 ? 0 : call->args[mask].n;
    int64_t asked[MAX_OUTS];
    for (int choice = 0; choice < 1 << n; choice++) {
        for (int i = 0; i < n; i++) asked[i] = choice >> i & 1;
        if (n) call->args[mask].ints = asked;
        take_leaves(c, how, call);
    }
}

static void take_channels_last(const Case *c, SampleCall *call) {
    sn_tensor *turned[SAMPLE_TENSORS];
    SampleCall other;
    bool any = false;
    for (int i = 0; i < call->n_tensors; i++) {
        sn_tensor *const t = sn_detach(call->tensors[i]);
        const bool fits = t->base.meta->rank == 4;
        turned[i] = fits ? sn_contiguous_ex(t, sn_int(SN_CHANNELS_LAST)) : t;
        any |= fits;
    }
    if (!any) return;
    sample_with(call, turned, &other);
    take_masks(c, "channels_last", &other);
}

/* sizes ------------------------------------------------------------------------------------------ */

static void take_resized(const Case *c, int64_t only, int64_t to, bool ints) {
    const sn_scope scope = sn_scope_begin();
    const Resize resize = {.only = only, .times = 0, .plus = to};
    Case with = *c;
    SampleCall call;
    with.style.resize = &resize;
    if (sample_make(c->row, c->line, &with.style, &call) == ST_OK) {
        for (int i = 0; ints && i < call.n_ints; i++)
            if (call.ints[i] == only) call.ints[i] = to;
        char how[64];
        snprintf(how, sizeof how, "sizes%s of %lld are %lld", ints ? " and ints" : "", (long long)only, (long long)to);
        take_masks(c, how, &call);
    }
    sn_error_take();
    sn_scope_end(scope);
}

/* Sizes above 1 of the call's tensors, each once. */
static int sizes_of(const SampleCall *call, int64_t *sizes, int capacity) {
    int n = 0;
    for (int i = 0; i < call->n_tensors; i++) {
        const Meta *const meta = call->tensors[i]->base.meta;
        for (int d = 0; d < meta->rank; d++) {
            bool is_new = meta->sizes[d] > 1 && n < capacity;
            for (int k = 0; k < n; k++) is_new = is_new && sizes[k] != meta->sizes[d];
            if (is_new) sizes[n++] = meta->sizes[d];
        }
    }
    return n;
}

static void consume_sizes(const Case *c, const SampleCall *call) {
    int64_t sizes[MAX_RANK];
    const int n = sizes_of(call, sizes, MAX_RANK);
    for (int i = 0; i < n; i++)
        for (int way = 0; way < 4; way++) take_resized(c, sizes[i], way & 1, way >> 1);
}

static bool is_taken(const OpRow *row) {
    return !row->alias_of && (deriv_rule(row) || (row->kind == KIND_composite && !(row->flags & OPF_nodiff)));
}

void check_takes(const Case *c) {
    SampleCall call;
    if (!is_taken(c->row) || !ops_make(c, &call)) return;
    ops_count();
    take_masks(c, "as it is", &call);
    if (c->style.layout != LAYOUT_contiguous) return;
    take_channels_last(c, &call);
    consume_sizes(c, &call);
}
