/* sharded.c: see sharded.h. A call is a node that makes whole parameters of parts, and the body's ops on top of it.
 *
 *   parts (leaves) -> ShardedBackward -> whole parameters -> the body's nodes -> results
 *
 * What those save of the whole parameters, views and autocast's casts included, is packed as "this part of parameter i,
 * in that dtype": the first one that the backward unpacks gathers all of them, and the node, the last one of the call,
 * lets go of them and scatters their gradients. So whole parameters are there in the body, and from the first to the
 * last node of it. */
#include "runtime/transform/sharded.h"

#include "runtime/autograd/custom_function.h"
#include "runtime/autograd/saved_hooks.h"
#include "runtime/base/alloc.h"
#include "runtime/base/refs.h"
#include "runtime/base/small_array.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/frame.h"
#include "runtime/transform/collective.h"

typedef struct ShardedParam {
    sn_tensor *part;   /* a leaf, owned */
    const Meta *whole; /* layout, kept for ever */
} ShardedParam;

struct sn_sharded {
    _Atomic int32_t refs; /* the program's, and calls */
    sn_comm *rank;
    sn_sharded_options options;
    int n;
    ShardedParam params[];
};

typedef struct ShardedCall { /* one call, as long as its nodes */
    _Atomic int32_t refs;
    sn_sharded *of;
    bool gathered;
    sn_tensor **whole;  /* owned while they are gathered, else NULL */
    sn_tensor **casts;  /* of those, made again for the backward: owned, or NULL */
    uint32_t *versions; /* of the parts in the forward */
} ShardedCall;

static void sharded_release(sn_sharded *s) {
    if (!refs_drop(&s->refs)) return;
    for (int i = 0; i < s->n; i++) tensor_release(s->params[i].part);
    rank_release(s->rank);
    mem_free(s);
}

static void let_go(ShardedCall *c) {
    for (int i = 0; i < c->of->n; i++) {
        tensor_release(c->whole[i]);
        tensor_release(c->casts[i]);
        c->whole[i] = c->casts[i] = NULL;
    }
    c->gathered = false;
}

static void call_release(ShardedCall *c) {
    if (!refs_drop(&c->refs)) return;
    let_go(c);
    sharded_release(c->of);
    mem_free(c->whole);
    mem_free(c);
}

static ShardedCall *call_new(sn_sharded *s) {
    ShardedCall *const c = mem_zero(sizeof *c);
    const size_t n = (size_t)s->n + 1;
    sn_tensor **const whole = c ? mem_zero(n * (2 * sizeof *whole + sizeof(uint32_t))) : NULL;
    if (!whole) {
        mem_free(c);
        return NULL;
    }
    *c = (ShardedCall){.refs = 1, .of = s, .whole = whole, .casts = whole + n, .versions = (uint32_t *)(whole + 2 * n)};
    refs_add(&s->refs, 1);
    for (int i = 0; i < s->n; i++) c->versions[i] = tensor_version(s->params[i].part);
    return c;
}

typedef struct Moved {
    const sn_sharded_options *options;
    sn_shard_move move;
} Moved;

static void run_moved(void *argument) {
    const Moved *const m = argument;
    m->options->moved(m->options->context, m->move);
}

static Status report_move(const ShardedCall *c, sn_shard_move move) {
    Moved moved = {&c->of->options, move};
    return moved.options->moved ? callback_run("`moved` of sn_sharded_new", run_moved, &moved) : ST_OK;
}

/* parts and wholes ------------------------------------------------------------------------------- */

static sn_tensor *flat_op(OpId op, const Arg *args) {
    sn_tensor *out = NULL;
    return tape_dispatch(op_row(op), FORM_functional, args, &out) == ST_OK ? out : NULL;
}

/* Row-major elements of t, with zeros behind them up to n. */
static sn_tensor *flat_padded(sn_tensor *t, int64_t n) {
    const int64_t sizes[] = {t->base.meta->numel}, pads[] = {0, n - t->base.meta->numel};
    sn_tensor *const dense = tape_clone(t, NULL);
    if (!dense) return NULL;
    sn_tensor *const flat = flat_op(OP_ID(view), (const Arg[]){V(&dense->base), A_INTS(sizes, 1)});
    if (!flat || !pads[1]) return flat;
    return flat_op(OP_ID(constant_pad_nd), (const Arg[]){V(&flat->base), A_INTS(pads, 2), A_INT(0)});
}

static int64_t part_size(const sn_comm *rank, int64_t numel) {
    return (numel + rank_count(rank) - 1) / rank_count(rank);
}

static Status add_shard(sn_sharded *s, sn_tensor *param) {
    TRY(tensor_valid(param, "sn_sharded_new"));
    TRY(tensor_alone(param, "sn_sharded_new"));
    TRY(tensor_ready(param, "sn_sharded_new"));
    const Meta *const meta = param->base.meta;
    if (!dtype_is_float(meta->dtype))
        return error_raise(ST_DTYPE, "sn_sharded_new: parameter %d is %s; gradients need a float dtype", s->n,
                           dtype_name(meta->dtype));
    const int64_t n = part_size(s->rank, meta->numel), first = n * rank_index(s->rank);
    sn_tensor *const flat = flat_padded(param, n * rank_count(s->rank));
    if (!flat) return error_pending();
    sn_tensor *const rows =
        flat_op(OP_ID(slice_Tensor), (const Arg[]){V(&flat->base), A_INT(0), A_INT(first), A_INT(first + n), A_INT(1)});
    sn_tensor *const part = rows ? tape_clone(rows, NULL) : NULL;
    if (!part) return error_pending();
    ShardedParam *const to = &s->params[s->n++];
    to->part = tensor_retained(part);
    to->whole = meta_intern_contiguous(meta->dtype, meta->device, meta->sizes, meta->rank);
    if (!to->whole) return ST_MEMORY;
    meta_stay(to->whole);
    return tape_requires_grad(part, true);
}

/* All of a parameter in what was gathered. */
static sn_tensor *whole_of(const ShardedParam *param, sn_tensor *gathered) {
    return tensor_from_storage(gathered->storage, param->whole, gathered->offset);
}

/* Parameters from `first` on, in the innermost scope. */
static Status gather_parts(sn_sharded *s, int first, int n, sn_tensor **whole) {
    sn_tensor *few[16], **const parts = SMALL_ARRAY(few, n);
    SMALL_ARRAY_OWNER kept = {few, parts};
    if (!parts) return ST_MEMORY;
    for (int i = 0; i < n; i++) parts[i] = s->params[first + i].part;
    TRY(collective_run(s->rank, COLLECTIVE_gather, parts, n, false, whole));
    for (int i = 0; i < n; i++)
        if (!(whole[i] = whole_of(&s->params[first + i], whole[i]))) return ST_MEMORY;
    return ST_OK;
}

static Status gather_plainly(sn_sharded *s, int first, int n, sn_tensor **whole) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_library);
    const Status status = gather_parts(s, first, n, whole);
    scope_pop_passing(state, depth, whole, status == ST_OK ? n : 0);
    return status;
}

/* packed values ---------------------------------------------------------------------------------- */

typedef struct ShardedHooks {
    struct SavedHooks saved_hooks;
    ShardedCall *call;
} ShardedHooks;

typedef struct ShardedPacked {
    TapePacked packed;
    ShardedCall *call;
    int param;
    bool cast;      /* of a cast of it */
    int64_t offset; /* from its first element */
} ShardedPacked;

/* The backward's: all of them, and none was written. */
static Status gather_again(ShardedCall *c, const char *node) {
    sn_sharded *const s = c->of;
    for (int i = 0; i < s->n; i++) {
        const uint32_t now = tensor_version(s->params[i].part);
        if (now != c->versions[i]) return tape_saved_error(s->params[i].part->base.meta, node, now, c->versions[i]);
    }
    TRY(gather_plainly(s, 0, s->n, c->whole));
    for (int i = 0; i < s->n; i++) tape_own(state_get(), c->whole[i]);
    c->gathered = true;
    return report_move(c, SN_UNSHARD_BACKWARD);
}

/* The parameter in that dtype, as the forward's cast laid it out. */
static sn_tensor *cast_again(ShardedCall *c, int param, DType dtype) {
    sn_tensor **const kept = &c->casts[param];
    if (*kept && (*kept)->base.meta->dtype == dtype) return *kept;
    const Arg given[] = {V(&c->whole[param]->base), A_INT(dtype)};
    Arg args[MAX_ARGS];
    if (op_args_normalize(OP_ROW(_to_copy), given, COUNT_OF(given), args) != ST_OK) return NULL;
    sn_tensor *const cast = flat_op(OP_ID(_to_copy), args);
    if (!cast || *kept) return cast;
    tape_own(state_get(), cast);
    return *kept = cast;
}

static sn_tensor *unpack_part(TapePacked *packed, const Meta *meta, const char *node) {
    const ShardedPacked *const p = (const ShardedPacked *)packed;
    if (!p->call->gathered && gather_again(p->call, node) != ST_OK) return NULL;
    sn_tensor *const whole = p->cast ? cast_again(p->call, p->param, meta->dtype) : p->call->whole[p->param];
    return whole ? tensor_from_storage(whole->storage, meta, whole->offset + p->offset) : NULL;
}

static void sharded_packed_release(TapePacked *packed) {
    call_release(((ShardedPacked *)packed)->call);
    mem_free(packed);
}

static const TapePackedClass sharded_packed_class = {
    .name = "sharded", .unpack = unpack_part, .release = sharded_packed_release};

static int param_at(const ShardedCall *c, const Storage *storage) {
    int i = 0;
    while (i < c->of->n && !(c->gathered && c->whole[i]->storage == storage)) i++;
    return i;
}

static bool is_cast_of(const ShardedCall *c, int i, const TapeNode *node) {
    const AutogradMeta *const from = c->gathered ? c->whole[i]->autograd : NULL;
    const TapeEdge *const edge = &node->edges[0];
    if (!from || edge->leaf || edge->target != from->node || edge->output != from->output) return false;
    const Meta *const meta = c->whole[i]->base.meta, *const cast = node->out_meta[0];
    return cast->device == meta->device && !memcmp(cast->strides, meta->strides, sizeof(int64_t) * (size_t)meta->rank);
}

/* The parameter that t is a cast of, or a view of a cast, that was not written: its history says so. */
static int param_cast_to(const ShardedCall *c, const sn_tensor *t, const TapeEdge *from) {
    const TapeNode *node = from && !from->leaf && !tensor_version(t) ? from->target : NULL;
    const OpRow *row = node ? tape_node_row(node) : NULL;
    while (row && row->kind == KIND_view && !node->edges[0].leaf) {
        node = node->edges[0].target;
        row = node ? tape_node_row(node) : NULL;
    }
    int i = row == OP_ROW(_to_copy) ? 0 : c->of->n;
    while (i < c->of->n && !is_cast_of(c, i, node)) i++;
    return i;
}

static Status pack_part(struct SavedHooks *hooks, sn_tensor *t, const TapeEdge *from, TapePacked **packed) {
    ShardedCall *const c = ((ShardedHooks *)hooks)->call;
    int i = param_at(c, t->storage);
    const bool cast = i == c->of->n;
    if (cast && (i = param_cast_to(c, t, from)) == c->of->n) return ST_OK;
    ShardedPacked *const made = mem_alloc(sizeof *made);
    if (!made) return ST_MEMORY;
    *made = (ShardedPacked){.packed.class = &sharded_packed_class,
                            .call = c,
                            .param = i,
                            .cast = cast,
                            .offset = cast ? t->offset : t->offset - c->whole[i]->offset};
    refs_add(&c->refs, 1);
    *packed = &made->packed;
    return ST_OK;
}

static void sharded_hooks_end(struct SavedHooks *hooks) {
    call_release(((ShardedHooks *)hooks)->call);
    mem_free(hooks);
}

static const SavedHooksClass sharded_hooks_class = {.pack = pack_part, .end = sharded_hooks_end};

static Status push_sharded_hooks(ShardedCall *c) {
    ShardedHooks *const made = mem_alloc(sizeof *made);
    if (!made) return ST_MEMORY;
    *made = (ShardedHooks){.saved_hooks.class = &sharded_hooks_class, .call = c};
    refs_add(&c->refs, 1);
    saved_hooks_push(&made->saved_hooks);
    return ST_OK;
}

/* the node --------------------------------------------------------------------------------------- */

static sn_status make_whole(sn_frame *f) {
    ShardedCall *const c = f->closure;
    const Status status = gather_plainly(c->of, 0, c->of->n, f->out);
    if (status != ST_OK) return (sn_status)status;
    for (int i = 0; i < c->of->n; i++) {
        tensor_retain(f->out[i]); /* the frame's, and the call's until the body has ended */
        tensor_retain(c->whole[i] = f->out[i]);
    }
    c->gathered = true;
    return SN_OK;
}

/* A parameter that the body did not use has zeros. */
static Status flat_gradients(const ShardedCall *c, sn_frame *f, sn_tensor **grads) {
    const sn_sharded *const s = c->of;
    for (int i = 0; i < s->n; i++) {
        sn_tensor *grad = custom_grad_of(f, i);
        if (!grad && !(grad = tensor_new_zero(s->params[i].whole))) return ST_MEMORY;
        grads[i] = flat_padded(grad, s->params[i].part->base.meta->numel * rank_count(s->rank));
        if (!grads[i]) return error_pending();
    }
    return ST_OK;
}

static sn_status scatter_gradients(sn_frame *f) {
    ShardedCall *const c = f->closure;
    const int n = c->of->n;
    sn_tensor *few[32], **const grads = SMALL_ARRAY(few, 2 * n), **const parts = grads + n;
    SMALL_ARRAY_OWNER kept = {few, grads};
    if (!grads) return SN_ERR_MEMORY;
    if (state_get()->grad_mode == SN_GRAD_ON)
        return (sn_status)error_raise(ST_UNSUPPORTED, "sn_sharded_call: gradients of gradients (SN_CREATE_GRAPH)");
    Status status = ST_OK;
    if (c->gathered) {
        status = report_move(c, SN_RESHARD_BACKWARD);
        let_go(c);
    }
    if (status == ST_OK) status = flat_gradients(c, f, grads);
    if (status == ST_OK) status = collective_run(c->of->rank, COLLECTIVE_scatter, grads, n, true, parts);
    for (int i = 0; i < n && status == ST_OK; i++) status = custom_set_grad_of(f, i, parts[i]);
    return (sn_status)status;
}

static void node_ends(void *closure, void *context) {
    (void)context;
    call_release(closure);
}

static Status unshard(ShardedCall *c, sn_tensor **whole) {
    sn_sharded *const s = c->of;
    sn_tensor *few[16], **const parts = SMALL_ARRAY(few, s->n);
    SMALL_ARRAY_OWNER kept = {few, parts};
    if (!parts) return ST_MEMORY;
    for (int i = 0; i < s->n; i++) parts[i] = s->params[i].part;
    const sn_custom fn = {.size = sizeof fn,
                          .name = "Sharded",
                          .forward = make_whole,
                          .backward = scatter_gradients,
                          .closure_free = node_ends};
    refs_add(&c->refs, 1);
    TRY(custom_function_call(&fn, c, parts, s->n, whole, s->n));
    TRY(report_move(c, SN_UNSHARD_FORWARD));
    return push_sharded_hooks(c);
}

/* calls ------------------------------------------------------------------------------------------ */

/* What is gathered goes again: a write to it would be lost. */
static Status check_unwritten(sn_tensor *const *whole, const uint32_t *versions, int n) {
    for (int i = 0; i < n; i++)
        if (tensor_version(whole[i]) != versions[i])
            return error_raise(ST_STATE, "sn_sharded_call: the body writes parameter %d", i);
    return ST_OK;
}

static Status call_inside(ShardedCall *c, sn_frame *frame, sn_body body, sn_tensors in) {
    const int n = c->of->n;
    sn_tensor *few_whole[16], **const whole = SMALL_ARRAY(few_whole, n);
    SMALL_ARRAY_OWNER kept_whole = {few_whole, whole};
    Arg few[16], *const args = SMALL_ARRAY(few, in.n + n);
    SMALL_ARRAY_OWNER kept = {few, args};
    uint32_t few_versions[16], *const versions = SMALL_ARRAY(few_versions, n);
    SMALL_ARRAY_OWNER kept_versions = {few_versions, versions};
    if (!whole || !args || !versions) return ST_MEMORY;
    TRY(unshard(c, whole));
    for (int64_t i = 0; i < in.n; i++) args[i] = arg_tensor_opt(in.data[i]);
    for (int i = 0; i < n; i++) args[in.n + i] = A_VAL(&whole[i]->base), versions[i] = tensor_version(whole[i]);
    frame->in = args, frame->n_in = (int)in.n + n;
    Status status = frame_run(frame, body);
    if (status == ST_OK) status = check_unwritten(whole, versions, n);
    const Status told = report_move(c, SN_RESHARD_FORWARD);
    let_go(c);
    return status == ST_OK ? told : status;
}

Status sharded_call(sn_sharded *s, sn_body body, void *closure, sn_tensors in, sn_tensor **out, int n_out) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    ShardedCall *const c = call_new(s);
    if (!c) return ST_MEMORY;
    sn_frame frame = {.what = "the body of sn_sharded_call", .closure = closure, .out = out, .n_out = n_out};
    Status status = scope_push(state, false);
    if (status == ST_OK) {
        status = call_inside(c, &frame, body, in);
        scope_pop_passing(state, depth, out, status == ST_OK ? n_out : 0);
    }
    for (int i = 0; status != ST_OK && i < n_out; i++) out[i] = NULL;
    call_release(c);
    return status;
}

sn_tensor *sharded_at(sn_sharded *s, int i) { return i >= 0 && i < s->n ? s->params[i].part : NULL; }

sn_tensor *sharded_whole(sn_sharded *s, int i) {
    sn_tensor *whole = NULL;
    return gather_plainly(s, i, 1, &whole) == ST_OK ? whole : NULL;
}

static Status add_shards(sn_sharded *s, sn_tensors params) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_library);
    Status status = ST_OK;
    for (int64_t i = 0; i < params.n && status == ST_OK; i++) status = add_shard(s, params.data[i]);
    scope_pop(state);
    return status;
}

sn_sharded *sharded_new(sn_comm *rank, sn_tensors params, const sn_sharded_options *options) {
    sn_sharded *const s = mem_zero(sizeof *s + (size_t)params.n * sizeof *s->params);
    if (!s) return NULL;
    atomic_init(&s->refs, 1);
    s->rank = rank, s->options = *options;
    rank_retain(rank);
    if (add_shards(s, params) == ST_OK) return s;
    sharded_release(s);
    return NULL;
}

void sharded_free(sn_sharded *s) { sharded_release(s); }
