/* collective.c: see collective.h. Every rank computes what it wants of the others' memory by itself, with the ops that
 * one process would use: a sum is a copy of rank 0's share, to which the other shares are added in their order.
 *
 *   reduce    out = ((t0 + t1) + t2) ...                      gradient: the same of gradients
 *   gather    out = t0 above t1 above t2 ...                  gradient: scatter
 *   scatter   out = the rank's part of rows of that sum       gradient: gather */
#include "runtime/transform/collective.h"

#include "runtime/autograd/custom_function.h"
#include "runtime/base/alloc.h"
#include "runtime/base/small_array.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/memory.h"

static const char *const names[] = {"sn_all_reduce", "sn_all_gather", "sn_reduce_scatter"};

/* Do all ranks mean the same? ------------------------------------------------------------------ */

static void offer_print(const RankOffer *offer, int i, Text *text) {
    text_printf(text, "%s%s of %d tensor%s", offer->what, offer->mean ? " (mean)" : "", offer->n,
                offer->n == 1 ? "" : "s");
    if (i >= offer->n) return;
    text_printf(text, ", %d of them ", i);
    meta_print(NULL, text, offer->tensors[i]->base.meta);
}

static bool same_tensor(const sn_tensor *a, const sn_tensor *b) {
    const Meta *const x = a->base.meta, *const y = b->base.meta;
    return x->dtype == y->dtype && x->device == y->device && meta_same_sizes(x, y);
}

static int first_difference(const RankOffer *a, const RankOffer *b) {
    int i = 0;
    while (i < a->n && i < b->n && same_tensor(a->tensors[i], b->tensors[i])) i++;
    return i;
}

static Status offers_differ(const RankMeeting *m, int rank) {
    Text own = {0}, first = {0};
    const int i = first_difference(m->offers[0], m->offers[rank]);
    offer_print(m->offers[rank], i, &own);
    offer_print(m->offers[0], i, &first);
    error_raise(ST_ARGUMENT, "%s: rank %d calls %s; rank 0 calls %s", m->offers[m->rank]->what, rank, text_str(&own),
                text_str(&first));
    text_free(&own);
    text_free(&first);
    return ST_ARGUMENT;
}

/* Checks that all ranks called the same op alike; if not, each rank gets the same error. */
static Status check_offers(const RankMeeting *m) {
    for (int k = 1; k < m->n_ranks; k++) {
        const RankOffer *const a = m->offers[0], *const b = m->offers[k];
        if (strcmp(a->what, b->what) != 0 || a->mean != b->mean || a->n != b->n || first_difference(a, b) < a->n)
            return offers_differ(m, k);
    }
    return ST_OK;
}

/* One tensor of each rank ---------------------------------------------------------------------- */

static Status in_place(OpId op, sn_tensor *t, Arg with, Arg more) {
    sn_tensor *written;
    return tape_dispatch(op_row(op), FORM_inplace, (const Arg[]){V(&t->base), with, more}, &written);
}

static sn_tensor *sum_of(sn_tensor *const *shares, int n, bool mean) {
    sn_tensor *const sum = tape_clone(shares[0], NULL);
    for (int k = 1; sum && k < n; k++)
        if (in_place(OP_ID(add_Tensor), sum, V(&shares[k]->base), A_INT(1)) != ST_OK) return NULL;
    if (sum && mean && in_place(OP_ID(div_Tensor), sum, A_INT(n), A_NONE) != ST_OK) return NULL;
    return sum;
}

static sn_tensor *share_rows(sn_tensor *t, int64_t first, int64_t n) {
    const Arg args[] = {V(&t->base), A_INT(0), A_INT(first), A_INT(first + n), A_INT(1)};
    sn_tensor *rows = NULL;
    return tape_dispatch(OP_ROW(slice_Tensor), FORM_functional, args, &rows) == ST_OK ? rows : NULL;
}

static sn_tensor *part_of_sum(const RankMeeting *m, sn_tensor **shares, bool mean) {
    const int64_t rows = shares[0]->base.meta->sizes[0] / m->n_ranks;
    for (int k = 0; k < m->n_ranks; k++)
        if (!(shares[k] = share_rows(shares[k], rows * m->rank, rows))) return NULL;
    return sum_of(shares, m->n_ranks, mean);
}

static sn_tensor *all_rows(const RankMeeting *m, sn_tensor *const *shares) {
    Val *few[16], **const vals = SMALL_ARRAY(few, m->n_ranks);
    SMALL_ARRAY_OWNER kept = {few, vals};
    for (int k = 0; vals && k < m->n_ranks; k++) vals[k] = &shares[k]->base;
    const Arg args[] = {A_VALS(vals, m->n_ranks), A_INT(0)};
    sn_tensor *all = NULL;
    return vals && tape_dispatch(OP_ROW(cat), FORM_functional, args, &all) == ST_OK ? all : NULL;
}

static Status each_tensor(const RankMeeting *m, CollectiveKind kind) {
    TRY(check_offers(m));
    const RankOffer *const own = m->offers[m->rank];
    sn_tensor *few[16], **const shares = SMALL_ARRAY(few, m->n_ranks);
    SMALL_ARRAY_OWNER kept = {few, shares};
    if (!shares) return ST_MEMORY;
    for (int i = 0; i < own->n; i++) {
        for (int k = 0; k < m->n_ranks; k++) shares[k] = m->offers[k]->tensors[i];
        m->outs[i] = kind == COLLECTIVE_reduce   ? sum_of(shares, m->n_ranks, own->mean)
                     : kind == COLLECTIVE_gather ? all_rows(m, shares)
                                                 : part_of_sum(m, shares, own->mean);
        if (!m->outs[i]) return error_pending();
        memory_drain(m->outs[i]->storage->memory); /* before others may write what was read */
    }
    return ST_OK;
}

static Status use_reduce(const RankMeeting *m) { return each_tensor(m, COLLECTIVE_reduce); }
static Status use_gather(const RankMeeting *m) { return each_tensor(m, COLLECTIVE_gather); }
static Status use_scatter(const RankMeeting *m) { return each_tensor(m, COLLECTIVE_scatter); }

/* A call --------------------------------------------------------------------------------------- */

static Status check_tensor(const sn_comm *rank, CollectiveKind kind, sn_tensor *t, bool mean) {
    const char *const what = names[kind];
    TRY(tensor_valid(t, what));
    TRY(tensor_alone(t, what));
    TRY(tensor_ready(t, what));
    const Meta *const meta = t->base.meta;
    if (!t->storage || meta->device == DEV_meta)
        return error_raise(ST_UNSUPPORTED, "%s: the tensor has no memory of its own", what); /* meta, fake, sparse */
    if (t->keys & KEYS_UNCAPTURED)
        return error_raise(ST_UNSUPPORTED, "%s: the tensor's kernels are a program's", what); /* no user code meets */
    if (mean && !dtype_is_float(meta->dtype))
        return error_raise(ST_DTYPE, "%s: a mean of %s: only floats have one", what, dtype_name(meta->dtype));
    if (kind != COLLECTIVE_reduce && !meta->rank) return error_raise(ST_SHAPE, "%s: a tensor without dims", what);
    if (kind == COLLECTIVE_scatter && meta->sizes[0] % rank_count(rank) != 0)
        return error_raise(ST_SHAPE, "%s: %lld rows do not go to %d ranks evenly", what, (long long)meta->sizes[0],
                           rank_count(rank));
    memory_drain(t->storage->memory); /* others read it by their own streams */
    return ST_OK;
}

static Status run_outside(sn_comm *rank, CollectiveKind kind, const RankOffer *offer, sn_tensor **outs) {
    static Status (*const uses[])(const RankMeeting *m) = {use_reduce, use_gather, use_scatter};
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_unwatched); /* modes see the program's ops */
    const Status status = rank_meet(rank, offer, outs, uses[kind]);
    scope_pop_passing(state, depth, outs, status == ST_OK ? offer->n : 0);
    return status;
}

Status collective_run(sn_comm *rank, CollectiveKind kind, sn_tensor *const *tensors, int n, bool mean,
                      sn_tensor **outs) {
    for (int i = 0; i < n; i++) outs[i] = NULL;
    TRY(tracer_leave_graph(names[kind]));
    if (!rank) return error_raise(ST_ARGUMENT, "%s: comm is NULL", names[kind]);
    for (int i = 0; i < n; i++) TRY(check_tensor(rank, kind, tensors[i], mean));
    const ContextSaved saved = context_enter(state_get(), CONTEXT_eager);
    const RankOffer offer = {.what = names[kind], .tensors = tensors, .n = n, .mean = mean};
    const Status status = run_outside(rank, kind, &offer, outs);
    for (int i = 0; status != ST_OK && i < n; i++) outs[i] = NULL;
    context_leave(&saved);
    return status;
}

/* Its node ------------------------------------------------------------------------------------- */

typedef struct Collective {
    sn_comm *rank;
    CollectiveKind kind;
    bool mean;
} Collective;

static sn_status collective_forward(sn_frame *f) {
    const Collective *const c = f->closure;
    sn_tensor *const in = tensor_of(f->in[0].val);
    sn_tensor *out;
    const Status status = collective_run(c->rank, c->kind, &in, 1, c->mean, &out);
    if (status != ST_OK) return (sn_status)status;
    tensor_retain(f->out[0] = out);
    return SN_OK;
}

static sn_status collective_backward(sn_frame *f) {
    static const CollectiveKind turned[] = {COLLECTIVE_reduce, COLLECTIVE_scatter, COLLECTIVE_gather};
    const Collective *const c = f->closure;
    sn_tensor *const grad = custom_grad_of(f, 0);
    const bool divides = c->mean && c->kind == COLLECTIVE_scatter;
    sn_tensor *out = collective_call(c->rank, turned[c->kind], grad, c->mean && !divides);
    if (out && divides) out = tensor_of(E(eager_builder(), div_Tensor, V(&out->base), I(rank_count(c->rank))));
    return (sn_status)(out ? custom_set_grad_of(f, 0, out) : error_pending());
}

static void closure_free(void *closure, void *context) {
    (void)context;
    rank_release(((Collective *)closure)->rank);
    mem_free(closure);
}

sn_tensor *collective_call(sn_comm *rank, CollectiveKind kind, sn_tensor *t, bool mean) {
    static const char *const node_names[] = {"AllReduce", "AllGather", "ReduceScatter"};
    if (!rank) error_raise(ST_ARGUMENT, "%s: comm is NULL", names[kind]);
    if (!rank || state_outside_vmap(names[kind]) != ST_OK || tracer_leave_graph(names[kind]) != ST_OK ||
        check_tensor(rank, kind, t, mean) != ST_OK)
        return NULL;
    Collective *const c = mem_alloc(sizeof *c);
    if (!c) return NULL;
    *c = (Collective){rank, kind, mean};
    rank_retain(rank);
    const sn_custom fn = {.size = sizeof fn,
                          .name = node_names[kind],
                          .forward = collective_forward,
                          .backward = collective_backward,
                          .closure_free = closure_free};
    sn_tensor *out = NULL;
    return custom_function_call(&fn, c, &t, 1, &out, 1) == ST_OK ? out : NULL;
}
