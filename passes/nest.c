/* nest.c: one cluster of nodes becomes one nest, in the manner of Inductor's inner functions: every
 * value that must be stored is evaluated backwards at its position; what the cluster defines is
 * computed on the way, everything else is loaded. Views and broadcasts only change positions.
 *
 *   store y at full:  y = e / s        e at full, s at full read through [rows, 1] = outer: the
 *                                      reduction
 *                     e = exp(x - m)   x: a load, m at outer: another reduction over the same rows
 *
 * Between ops values are rounded as eager would have stored them, so the bits are those of one
 * kernel per node. If a position is not affine the writer stops, the domain's var is split, and it
 * starts again. Where nothing tells how to split a symbolic extent, a single op is tried with a var for each dim of its
 * result, too; of several the scheduler then makes several nests. */
#include "passes/template.h"

typedef struct Memo {
    struct Memo *next;
    int result; /* which result of the node */
    Pos pos;
    int inst;
} Memo;

typedef struct Writer {
    Draft *draft;
    Lower *l;
    const Cluster *cluster;
    LoopBuilder *lb;
    Domain domain;
    Memo **memo; /* by place of the node in the cluster */
    VarSplit split;
    const char *why; /* set once: the nest cannot be written */
    bool elsewhere;  /* a body asked for elements at positions of its own */
} Writer;

/* One op call being written. */
typedef struct BodyFrame {
    BodyCall call; /* first: its context is the frame */
    Writer *w;
    Node *node;
    const Meta *space; /* the element's position is in this value's sizes: the result's; reductions:
                          the input's */
    Pos pos;
} BodyFrame;

static int load_element(Writer *w, const GVal *v, const Pos *pos);

static const char not_affine[] = "an index that is not affine";

static bool stopped(const Writer *w) { return w->why || w->split.wanted; }

/* Gives up; the instruction returned only keeps the caller going until it looks. */
static int stop(Writer *w, const char *why, SType type) {
    if (!stopped(w)) w->why = why;
    return loop_const(w->lb, type, 0, 0);
}

static Affine encoded(Writer *w, const Affine *at) {
    Affine out = {.offset = draft_int(w->draft, at->offset)};
    for (int i = 0; i < w->domain.n_vars; i++) out.coef[i] = draft_int(w->draft, at->coef[i]);
    return out;
}

/* The position read with other strides; false after stopping. */
static NOINLINE bool moved(Writer *w, const Pos *pos, const Meta *space, const int64_t *strides, Pos *out) {
    VarSplit split = {0};
    *out = *pos;
    if (!address_gather(&w->domain, pos, space->sizes, strides, space->rank, &out->at, &out->stride, &split)) {
        if (split.wanted && !stopped(w)) w->split = split;
        if (!stopped(w)) w->why = not_affine;
        return false;
    }
    if (out->stride == 0) out->gather = -1;
    return true;
}

/* Apart from what calls it, a recursion as deep as the chain of ops: threads may have small stacks. */
static NOINLINE bool broadcast(Writer *w, const Pos *pos, const Meta *space, const Meta *to, Pos *out) {
    *out = *pos;
    if (meta_same_sizes(space, to)) return true;
    int64_t own[MAX_RANK], strides[MAX_RANK] = {0};
    row_major(w->l->env, to->sizes, to->rank, own);
    const int skip = space->rank - to->rank;
    for (int d = 0; d < to->rank && skip >= 0; d++) strides[skip + d] = to->sizes[d] == 1 ? 0 : own[d];
    return moved(w, pos, space, strides, out);
}

static int load_value(Writer *w, const GVal *v, const Pos *pos) {
    const ValInfo *const info = val_info(w->l, v);
    const Meta *const meta = v->base.meta;
    Pos at;
    if (!moved(w, pos, meta, info->strides, &at)) return stop(w, "", dtype_compute(meta->dtype));
    at.at.offset = sym_add(w->l->env, at.at.offset, info->offset);
    const int buf = draft_buf(w->draft, info->base, false);
    const Affine where = encoded(w, &at.at);
    if (at.gather < 0) return loop_load(w->lb, buf, meta->dtype, &where);
    loop_source(w->lb, at.by); /* not the op that is computed there */
    return loop_gather(w->lb, buf, meta->dtype, &where, at.gather, draft_int(w->draft, at.stride),
                       draft_int(w->draft, at.bound), at.wrap);
}

/* callbacks of bodies ------------------------------------------------------------------------- */

/* The parameter that a number is which is not known; -1: it is. */
static int number_param(const Writer *w, const Arg *a) {
    if (a->kind == ARG_runtime) return loop_param(w->lb, S_f64, draft_param(w->draft, a->i, true));
    if (a->kind == ARG_int && sym_is(a->i)) return loop_param(w->lb, S_i64, draft_param(w->draft, a->i, false));
    return -1;
}

static int call_number(BodyCall *call, int arg, SType type) {
    const BodyFrame *const frame = call->context;
    const Arg *const a = &call->args[arg];
    const int param = number_param(frame->w, a);
    return param < 0 ? loop_number(call->lb, type, a) : loop_cast(call->lb, type, param);
}

int loop_number(LoopBuilder *lb, SType type, const Arg *a) {
    if (a->kind == ARG_float || type == S_f64) return loop_double(lb, type, arg_double(a));
    if (type == S_f32) return loop_const(lb, type, arg_single(a), 0);
    return loop_const(lb, type, 0, type == S_i32 ? (int32_t)a->i : type == S_i64 ? a->i : a->i != 0);
}

static int call_element(BodyCall *call, int arg) {
    BodyFrame *const frame = call->context;
    const Arg *const a = &call->args[arg];
    if (arg_is_number(a)) return call->number(call, arg, call->type);
    if (a->kind != ARG_tensor) return stop(frame->w, "a missing tensor is read", call->type);
    const GVal *const v = gval(a->val);
    Pos pos;
    if (!broadcast(frame->w, &frame->pos, frame->space, v->base.meta, &pos))
        return stop(frame->w, "", dtype_compute(v->base.meta->dtype));
    const int inst = load_element(frame->w, v, &pos);
    loop_source(call->lb, frame->node->id);
    return inst;
}

static int position_inst(Writer *w, const Pos *pos) {
    const Affine at = encoded(w, &pos->at);
    const int index = loop_index(w->lb, &at);
    if (pos->gather < 0) return index;
    int stride = loop_const(w->lb, S_i64, 0, pos->stride);
    if (sym_is(pos->stride)) stride = loop_param(w->lb, S_i64, draft_param(w->draft, pos->stride, false));
    return loop_prim(w->lb, PRIM_add, index, loop_prim(w->lb, PRIM_mul, pos->gather, stride, -1), -1);
}

static int call_position(BodyCall *call) {
    BodyFrame *const frame = call->context;
    return position_inst(frame->w, &frame->pos);
}

int body_index_inst(BodyCall *call, const Pos *pos) { return position_inst(((BodyFrame *)call->context)->w, pos); }

int body_count(BodyCall *call, SType type) {
    Writer *const w = ((BodyFrame *)call->context)->w;
    const int64_t count = sym_mul(w->l->env, w->domain.s_numel, w->domain.l_numel);
    if (!sym_is(count)) return loop_const(w->lb, type, (double)count, count);
    return loop_cast(w->lb, type, loop_param(w->lb, S_i64, draft_param(w->draft, count, false)));
}

static int call_random(BodyCall *call, int which) {
    BodyFrame *const frame = call->context;
    const Graph *const graph = frame->w->l->graph;
    const int64_t value = which == 0 ? graph->seed : sym_add(graph->env, graph->sequence, frame->node->random);
    if (!sym_is(value)) return loop_const(call->lb, S_i64, 0, value);
    return loop_param(call->lb, S_i64, draft_param(frame->w->draft, value, false));
}

int body_element_at(BodyCall *call, int arg, const Pos *pos) {
    BodyFrame *const frame = call->context;
    frame->w->elsewhere = true;
    const int inst = load_element(frame->w, gval(call->args[arg].val), pos);
    loop_source(call->lb, frame->node->id);
    return inst;
}

int body_stop(BodyCall *call, const char *why) { return stop(((BodyFrame *)call->context)->w, why, call->type); }

/* The load that an index comes from, through the cast to i64; NULL: it is computed. */
static const Inst *loaded(const LoopBuilder *lb, int index) {
    const Inst *inst = loop_inst(lb, index);
    if (inst->op == LI_cast) inst = loop_inst(lb, inst->a);
    return inst->op == LI_load ? inst : NULL;
}

/* An element that no read at `index` is part of (it is the same at every index: expanded, or a number) is checked
 * by a read that the index does not move: of the index itself. */
static int checked(Writer *w, BodyCall *call, int element, int index, int64_t bound) {
    LoopBuilder *const lb = call->lb;
    if (stopped(w) || loop_gathers(lb, element, index, bound)) return element;
    const Inst *const load = loaded(lb, index);
    if (!load) return body_stop(call, "no memory at hand to check an index with");
    const DType dtype = w->draft->bufs.at[load->buf].dtype;
    const int got = loop_gather(lb, load->buf, dtype, load->at, index, 0, bound, false);
    const int missed = loop_prim(lb, PRIM_lt, index, loop_const(lb, S_i64, 0, 0), -1);
    return loop_prim(lb, PRIM_select, missed, loop_cast(lb, loop_type(lb, element), got), element);
}

int body_gathered(BodyCall *call, int arg, Pos rest, int index, int dim) {
    Writer *const w = ((BodyFrame *)call->context)->w;
    const Meta *const meta = call->args[arg].val->meta;
    if (rest.gather >= 0) return stop(w, "rows given by data within rows given by data", call->type);
    rest.gather = index;
    rest.by = ((BodyFrame *)call->context)->node->id;
    rest.stride = sym_product(w->l->env, meta->sizes + dim + 1, meta->rank > dim ? meta->rank - 1 - dim : 0);
    rest.bound = meta->rank ? meta->sizes[dim] : 1;
    rest.wrap = false;
    const int64_t bound = draft_int(w->draft, rest.bound);
    return checked(w, call, body_element_at(call, arg, &rest), index, bound);
}

bool body_address(BodyCall *call, const int64_t *strides, Pos *out) {
    BodyFrame *const frame = call->context;
    return moved(frame->w, &frame->pos, frame->space, strides, out);
}

SymEnv *body_env(BodyCall *call) { return ((BodyFrame *)call->context)->w->l->env; }

/* What a check reads where all is well; buf -1: there is nothing to read. */
typedef struct CheckRead {
    int buf;
    Affine at;
} CheckRead;

static bool may_be_empty(const Writer *w, int64_t count) { return !sym_known(w->l->env, SYM_lt, 0, count); }

static bool has_element(const Writer *w, int buf) {
    const Draft *const draft = w->draft;
    const GVal *const home = draft->homes.at[buf];
    if (draft->bufs.at[buf].role == BUF_tile) return false;
    const Meta *const meta = home ? home->base.meta : w->l->plan->slots.at[draft->slots.at[buf]].meta;
    return !may_be_empty(w, meta->numel);
}

/* Is what is read at `at` read wherever the op has an element, and nowhere else? What an inner dim does not move is
 * read before its loop, also where that has no iterations. */
static bool runs_with(const Writer *w, const Pos *pos, const Affine *at) {
    const Domain *const domain = &w->domain;
    for (int d = domain->n_outer; d < domain->n_vars; d++)
        if (may_be_empty(w, domain->extent[d]) && (pos->gather >= 0 || !pos->at.coef[d] != !at->coef[d])) return false;
    return true;
}

/* Memory that holds an element whenever the check at `pos` is made: the first element of a buffer that has one whatever
 * the sizes are, or else what the nest loads there anyhow. */
static CheckRead check_read(const Writer *w, const Pos *pos) {
    const Affine first = {0};
    for (int buf = 0; buf < w->draft->bufs.n && runs_with(w, pos, &first); buf++)
        if (has_element(w, buf)) return (CheckRead){buf, first};
    for (int i = 0; i < loop_count(w->lb); i++) {
        const Inst *const inst = loop_inst(w->lb, i);
        if (inst->op == LI_load && w->draft->bufs.at[inst->buf].role != BUF_tile && runs_with(w, pos, inst->at))
            return (CheckRead){inst->buf, *inst->at};
    }
    return (CheckRead){.buf = -1};
}

/* A check is a gather whose index misses where the value is bad. */
int body_checked(BodyCall *call, int value, int bad, int index) {
    const BodyFrame *const frame = call->context;
    LoopBuilder *const lb = call->lb;
    const CheckRead read = check_read(frame->w, &frame->pos);
    if (read.buf < 0) return body_stop(call, "no memory at hand to check a value with");
    const int at = loop_prim(lb, PRIM_select, bad, index, loop_const(lb, S_i64, 0, 0));
    const int got = loop_gather(lb, read.buf, frame->w->draft->bufs.at[read.buf].dtype, &read.at, at, 1, 1, false);
    return loop_prim(lb, PRIM_select, bad, loop_cast(lb, loop_type(lb, value), got), value);
}

/* A constant other than 0 in the type that it is stored in. */
static bool is_nonzero(const LoopBuilder *lb, int divisor) {
    const Inst *const inst = loop_inst(lb, divisor), *const of = inst->op == LI_prim ? loop_inst(lb, inst->a) : inst;
    if (of->op != LI_const) return false;
    if (inst == of) return of->i != 0;
    if (inst->prim == PRIM_wrap_i16) return (int16_t)of->i != 0;
    return (inst->prim == PRIM_wrap_i8 || inst->prim == PRIM_wrap_u8) && (uint8_t)of->i != 0;
}

int body_nonzero(BodyCall *call, int divisor) {
    const BodyFrame *const frame = call->context;
    LoopBuilder *const lb = call->lb;
    if (is_nonzero(lb, divisor) && check_read(frame->w, &frame->pos).buf < 0) return divisor;
    const int is_zero = loop_prim(lb, PRIM_eq, divisor, loop_const(lb, call->type, 0, 0), -1);
    return body_checked(call, divisor, is_zero, loop_const(lb, S_i64, 0, -1));
}

/* The dtype that an op's operands have in common: its result's, or where that is bool, what those that it reads promote
 * to. */
static DType common_dtype(const Node *node, DType out) {
    const bool operands = out == DT_bool && !(node->row->flags & OPF_fresh);
    const DType common = operands ? operands_promoted(node->row, node->args) : out;
    return common == DT_default ? DT_bool : common;
}

static BodyFrame frame_of(Writer *w, const GVal *v, const Meta *space, const Pos *pos) {
    Node *const node = v->def;
    const OpRow *const row = node->row;
    const DType out = v->base.meta->dtype, common = common_dtype(node, out);
    return (BodyFrame){.w = w,
                       .node = node,
                       .space = space,
                       .pos = *pos,
                       .call = {.lb = w->lb,
                                .row = row,
                                .args = node->args,
                                .type = dtype_compute(common),
                                .out_dtype = out,
                                .common = common,
                                .element = call_element,
                                .number = call_number,
                                .position = call_position,
                                .random = call_random}};
}

/* kinds of values ----------------------------------------------------------------------------- */

/* The part of an outer, S or L position that the input's dims of that class make, in the input's
 * row-major space. */
static bool class_position(Writer *w, const Affine *at, const Meta *input, const bool *mine, Affine *sum) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    row_major(w->l->env, input->sizes, input->rank, strides);
    for (int d = 0; d < input->rank; d++) sizes[d] = mine[d] ? input->sizes[d] : 1;
    Affine part;
    VarSplit split = {0};
    if (!address(&w->domain, at, sizes, strides, input->rank, &part, &split)) {
        if (split.wanted && !stopped(w)) w->split = split;
        if (!stopped(w)) w->why = "rows that are not affine";
        return false;
    }
    affine_add(w->l->env, sum, &part, 1);
    return true;
}

static bool same_structure(const Domain *a, const Domain *b) {
    const int a_l = a->n_vars - a->n_outer - a->n_s, b_l = b->n_vars - b->n_outer - b->n_s;
    return a->has_inner && a->outer_numel == b->outer_numel && a->s_numel == b->s_numel && a->l_numel == b->l_numel &&
           (a->n_s > 0) == (b->n_s > 0) && (a_l > 0) == (b_l > 0);
}

static bool operand_position(Writer *w, const Meta *input, const bool *reduced, Pos *pos) {
    bool kept[MAX_RANK], s[MAX_RANK], last[MAX_RANK], trailing = true;
    for (int d = input->rank - 1; d >= 0; d--) {
        trailing = trailing && reduced[d];
        kept[d] = !reduced[d];
        s[d] = reduced[d] && !trailing;
        last[d] = trailing;
    }
    *pos = (Pos){.gather = -1};
    return class_position(w, &w->domain.outer, input, kept, &pos->at) &&
           class_position(w, &w->domain.s, input, s, &pos->at) &&
           class_position(w, &w->domain.l, input, last, &pos->at);
}

static NOINLINE int reduction(Writer *w, const GVal *v, const Pos *pos) {
    const SType type = dtype_compute(v->base.meta->dtype);
    bool reduced[MAX_RANK];
    Domain own;
    const Meta *const input = v->def->args[0].val->meta;
    if (!reduced_dims(v->def, reduced) || !domain_reduction(&own, w->l->env, input, reduced) ||
        !same_structure(&w->domain, &own))
        return stop(w, "reductions over different dims", type);
    if (pos->gather >= 0 || !affine_equal(&pos->at, &w->domain.outer))
        return stop(w, "a row's result is needed at another row", type);
    Pos operand;
    if (!operand_position(w, input, reduced, &operand)) return stop(w, "", type);
    BodyFrame frame = frame_of(w, v, input, &operand);
    frame.call.context = &frame;
    return body_rule(v->def->row)(&frame.call);
}

static NOINLINE int tile_element(Writer *w, const GVal *v, const Pos *pos) {
    const SType type = dtype_compute(v->base.meta->dtype);
    if (pos->gather >= 0 || !affine_equal(&pos->at, &w->domain.full))
        return stop(w, "the product is needed at another index than its tile's", type);
    const int m = w->domain.n_vars - 2;
    Affine at = {0};
    at.coef[m] = sym_make(w->draft->tile_param);
    at.coef[m + 1] = 1;
    /* The tile holds the compute type: f32 or f64, or i32, i64. */
    const DType dtype = w->draft->bufs.at[w->draft->tile].dtype;
    const int tile = loop_load(w->lb, w->draft->tile, dtype, &at);
    BodyFrame frame = frame_of(w, v, v->base.meta, pos);
    frame.call.context = &frame;
    return template_rule(v->def)->body(&frame.call, tile);
}

static int computed(Writer *w, const GVal *v, const Pos *pos) {
    const ValInfo *const info = val_info(w->l, v);
    if (info->kind == VAL_reduction) return reduction(w, v, pos);
    if (info->kind == VAL_template) return tile_element(w, v, pos);
    if (info->kind != VAL_pointwise) return stop(w, "it is no loop", dtype_compute(v->base.meta->dtype));
    BodyFrame frame = frame_of(w, v, v->base.meta, pos);
    frame.call.context = &frame;
    const int result = body_rule(v->def->row)(&frame.call);
    if (loop_ill_typed(w->lb)) lower_bail(w->l, v->def, "it is not defined for this dtype");
    return result;
}

static int cluster_index(const Cluster *cluster, const Node *node) {
    int low = 0, high = cluster->nodes.n - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (cluster->nodes.at[middle]->id < node->id)
            low = middle + 1;
        else
            high = middle;
    }
    const int again = again_at(cluster, node);
    return again < 0 ? low : cluster->nodes.n + again;
}

static bool pos_equal(const Pos *a, const Pos *b) {
    if (!affine_equal(&a->at, &b->at) || a->gather != b->gather) return false;
    return a->gather < 0 || (a->stride == b->stride && a->bound == b->bound && a->wrap == b->wrap);
}

/* The value as its op computed it, in any compute type, before the store's rounding. */
static int raw(Writer *w, const GVal *v, const Pos *pos) {
    Memo **const list = &w->memo[cluster_index(w->cluster, v->def)];
    for (const Memo *m = *list; m; m = m->next)
        if (m->result == v->index && pos_equal(&m->pos, pos)) return m->inst;
    loop_source(w->lb, v->def->id);
    const int inst = computed(w, v, pos);
    Memo *const memo = ARENA_NEW(w->draft->arena, Memo);
    *memo = (Memo){*list, v->index, *pos, inst};
    *list = memo;
    return inst;
}

static int stored_type(LoopBuilder *lb, DType dtype, int inst) {
    const SType type = dtype_compute(dtype);
    return loop_type(lb, inst) == type ? inst : loop_cast(lb, type, inst);
}

int loop_stored(LoopBuilder *lb, DType dtype, int inst) {
    inst = stored_type(lb, dtype, inst);
    switch (dtype) {
    case DT_f16:
        return loop_prim(lb, PRIM_round_f16, inst, -1, -1);
    case DT_bf16:
        return loop_prim(lb, PRIM_round_bf16, inst, -1, -1);
    case DT_i16:
        return loop_prim(lb, PRIM_wrap_i16, inst, -1, -1);
    case DT_i8:
        return loop_prim(lb, PRIM_wrap_i8, inst, -1, -1);
    case DT_u8:
        return loop_prim(lb, PRIM_wrap_u8, inst, -1, -1);
    default:
        return inst;
    }
}

static int load_element(Writer *w, const GVal *v, const Pos *pos) {
    const ValInfo *const info = val_info(w->l, v);
    const DType dtype = v->base.meta->dtype;
    if (stopped(w)) return loop_const(w->lb, dtype_compute(dtype), 0, 0);
    if (!cluster_has(w->l, w->cluster, info->base)) return load_value(w, v, pos);
    if (info->kind != VAL_view) {
        const int inst = raw(w, v, pos);
        loop_source(w->lb, v->def->id);
        return loop_stored(w->lb, dtype, inst);
    }
    Pos at;
    if (!info->relative) return stop(w, "a view by strides of a value that has none yet", dtype_compute(dtype));
    if (!moved(w, pos, v->base.meta, info->relative, &at)) return stop(w, "", dtype_compute(dtype));
    at.at.offset = sym_add(w->l->env, at.at.offset, info->relative_offset);
    return load_element(w, info->of, &at);
}

/* stores -------------------------------------------------------------------------------------- */

static bool uses_inner(const Domain *domain, const Affine *at) {
    for (int i = domain->n_outer; i < domain->n_vars; i++)
        if (at->coef[i]) return true;
    return false;
}

/* Where a value that must be stored is evaluated: where a consumer already did, if that covers it;
 * else in its own order. */
static bool store_position(Writer *w, const GVal *v, Pos *pos) {
    const int64_t numel = v->base.meta->numel;
    *pos = (Pos){.gather = -1};
    for (const Memo *m = w->memo[cluster_index(w->cluster, v->def)]; m; m = m->next)
        if (m->result == v->index && m->pos.gather < 0 && affine_is_bijection(&w->domain, &m->pos.at, numel)) {
            *pos = m->pos;
            return true;
        }
    if (val_info(w->l, v)->kind != VAL_reduction && numel == w->domain.full_numel)
        pos->at = w->domain.full;
    else if (numel == w->domain.outer_numel)
        pos->at = w->domain.outer;
    else
        return false;
    return true;
}

static void put_store(Writer *w, int buf, DType dtype, Affine at, int64_t offset, int inst) {
    at.offset = sym_add(w->l->env, at.offset, offset);
    const bool over_outer = w->domain.has_inner && !uses_inner(&w->domain, &at);
    const Affine where = encoded(w, &at);
    loop_store(w->lb, buf, dtype, &where, inst, over_outer);
}

static void store(Writer *w, const GVal *v) {
    const ValInfo *const info = val_info(w->l, v);
    const Meta *const meta = v->base.meta;
    Pos pos, at;
    if (!store_position(w, v, &pos)) {
        stop(w, "results of different sizes", S_f32);
        return;
    }
    const int inst = stored_type(w->lb, meta->dtype, raw(w, v, &pos));
    if (stopped(w) || !moved(w, &pos, meta, info->strides, &at)) return;
    put_store(w, draft_buf(w->draft, v, true), meta->dtype, at.at, info->offset, inst);
}

/* The fill value in the type, rounded from f64 whether it is a constant or a parameter. */
static int fill_value(const Writer *w, const Arg *fill, SType type) {
    const int param = number_param(w, fill);
    if (param < 0) return loop_double(w->lb, type, arg_double(fill));
    return loop_cast(w->lb, type, loop_cast(w->lb, S_f64, param));
}

static void store_copy(Writer *w, const Copy *copy) {
    const Meta *const like = copy->from ? copy->from->base.meta : NULL;
    const Meta space = {.rank = copy->rank, .sizes = copy->sizes};
    const Pos pos = {.at = w->domain.full, .gather = -1};
    const SType type = dtype_compute(copy->dtype);
    Pos at, from = pos;
    if (copy->from_strides && !moved(w, &pos, &space, copy->from_strides, &from)) return;
    from.at.offset = sym_add(w->l->env, from.at.offset, copy->from_offset);
    const int inst = like ? load_element(w, copy->from, &from) : fill_value(w, &copy->fill, type);
    if (stopped(w) || !moved(w, &pos, &space, copy->strides, &at)) return;
    int buf = w->draft->bufs.n;
    if (copy->to) {
        buf = draft_buf(w->draft, copy->to, true);
    } else {
        VEC_PUSH(w->draft->arena, &w->draft->homes, NULL);
        VEC_PUSH(w->draft->arena, &w->draft->slots, copy->slot);
        VEC_PUSH(w->draft->arena, &w->draft->bufs, ((Buf){copy->dtype, BUF_out}));
    }
    put_store(w, buf, copy->dtype, at.at, copy->offset, stored_type(w->lb, copy->dtype, inst));
}

/* cost ---------------------------------------------------------------------------------------- */

/* What is not exact takes a polynomial; of the rest these take as long. */
static bool is_dear(Prim prim) {
    static const bool dear[PRIM_COUNT] = {
        [PRIM_ipow] = true, [PRIM_idiv] = true, [PRIM_imod] = true, [PRIM_fmod] = true, [PRIM_philox] = true};
    return dear[prim] || prim_ulps(prim, S_f32) > 0.5;
}

static bool node_is_dear(const Nest *nest, const Node *node) {
    for (int i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].source == node->id && nest->insts[i].op == LI_prim && is_dear(nest->insts[i].prim))
            return true;
    return false;
}

/* A value evaluated at several positions, at one for many elements of the nest, or in another nest, too, is computed
 * several times; once per row of a reduction is free, and so are a few additions. */
static const char *recomputed(const Writer *w, const Nest *nest) {
    const Domain *const domain = &w->domain;
    for (int i = 0; i < w->cluster->nodes.n; i++) {
        int times = 0;
        bool repeats = false;
        const Node *const node = w->cluster->nodes.at[i];
        for (const Memo *m = w->memo[i]; m; m = m->next) {
            if (domain->has_inner && !uses_inner(domain, &m->pos.at)) continue;
            const int64_t numel = node->outs[m->result].base.meta->numel;
            times++;
            repeats |= sym_hint(w->l->env, numel) < sym_hint(w->l->env, domain->full_numel);
        }
        if ((times > node->n_outs || repeats) && node_is_dear(nest, node)) return node->row->base;
    }
    for (int i = 0; i < w->cluster->again.n; i++)
        if (node_is_dear(nest, w->cluster->again.at[i])) return w->cluster->again.at[i]->row->base;
    return NULL;
}

/* the nest ------------------------------------------------------------------------------------ */

static const Node *first_of_kind(const Lower *l, const Cluster *cluster, ValKind kind) {
    for (int i = 0; i < cluster->nodes.n; i++)
        if (l->vals[cluster->nodes.at[i]->outs[0].id].kind == kind) return cluster->nodes.at[i];
    return NULL;
}

/* The last value stored gives a pointwise nest its size. */
const GVal *cluster_last_stored(const Lower *l, const Cluster *cluster) {
    for (int i = cluster->nodes.n - 1; i >= 0; i--) {
        Node *const node = cluster->nodes.at[i];
        for (int r = node->n_outs - 1; r >= 0; r--)
            if (needs_memory(l, cluster, &node->outs[r])) return &node->outs[r];
    }
    return NULL;
}

static bool first_domain(Writer *w) {
    const Lower *const l = w->l;
    const Cluster *const cluster = w->cluster;
    if (cluster->copy) {
        domain_pointwise(&w->domain, l->env, dim_product(l->env, cluster->copy->sizes, cluster->copy->rank));
        return true;
    }
    const Node *const template = first_of_kind(l, cluster, VAL_template);
    const Node *const reduction_node = first_of_kind(l, cluster, VAL_reduction);
    if (template) {
        const Meta *const meta = template->outs[0].base.meta;
        domain_template(&w->domain, l->env, meta->sizes, meta->rank);
        return reduction_node == NULL;
    }
    if (reduction_node) {
        bool reduced[MAX_RANK];
        return reduced_dims(reduction_node, reduced) &&
               domain_reduction(&w->domain, l->env, reduction_node->args[0].val->meta, reduced);
    }
    const GVal *const last = cluster_last_stored(l, cluster);
    if (!last) return false;
    domain_pointwise(&w->domain, l->env, last->base.meta->numel);
    return true;
}

/* A var for each dim of what it stores. */
static void domain_of_dims(Writer *w) {
    const Lower *const l = w->l;
    const Copy *const copy = w->cluster->copy;
    const Meta *const meta = copy ? NULL : cluster_last_stored(l, w->cluster)->base.meta;
    domain_dims(&w->domain, l->env, copy ? copy->sizes : meta->sizes, copy ? copy->rank : meta->rank);
}

static void write_once(Writer *w) {
    const Domain *const domain = &w->domain;
    int64_t extent[MAX_LOOP_DIMS];
    for (int i = 0; i < domain->n_vars; i++) extent[i] = draft_int(w->draft, domain->extent[i]);
    w->lb = loop_new(w->draft->arena, domain->n_outer, domain->n_vars - domain->n_outer, domain->n_s, extent);
    w->memo = ARENA_ARRAY(w->draft->arena, Memo *, w->cluster->nodes.n + w->cluster->again.n + 1);
    w->split = (VarSplit){0};
    if (w->cluster->copy) {
        store_copy(w, w->cluster->copy);
        return;
    }
    for (int i = w->cluster->nodes.n - 1; i >= 0 && !stopped(w); i--) { /* consumers first: they say where */
        Node *const node = w->cluster->nodes.at[i];
        for (int r = node->n_outs - 1; r >= 0 && !stopped(w); r--)
            if (needs_memory(w->l, w->cluster, &node->outs[r])) {
                loop_source(w->lb, node->id);
                store(w, &node->outs[r]);
            }
    }
}

static bool evaluated_whole(const Writer *w, int place) {
    const Node *const node = w->cluster->nodes.at[place];
    for (const Memo *m = w->memo[place]; m; m = m->next)
        if (m->pos.gather < 0 && affine_is_bijection(&w->domain, &m->pos.at, node->outs[m->result].base.meta->numel))
            return true;
    return false;
}

/* Of pointwise rows: an index, or a divisor of ints. */
static bool may_fail(const Node *node) {
    if (!(node->row->flags & OPF_check) || node->row->kind != KIND_pointwise) return false;
    return node->row->check.kind != CHECK_divisor || !dtype_is_float(node->outs[0].base.meta->dtype);
}

/* A check is made of every element [semantics C8], also of those that no reader asks for: a slice's base, a gather's
 * rows. (A nest without elements has no check of any: is_empty in schedule.c.) */
static bool checks_in_part(const Writer *w) {
    for (int i = 0; i < w->cluster->nodes.n; i++)
        if (may_fail(w->cluster->nodes.at[i]) && !evaluated_whole(w, i)) return true;
    return false;
}

static bool crowded(const Nest *nest) {
    for (int p = 0; p < nest->n_phases; p++) {
        int reductions = 0;
        for (int i = 0; i < nest->phases[p].n; i++)
            reductions += nest->insts[nest->phases[p].first + i].op == LI_reduce;
        if (reductions > MAX_PHASE_REDS) return true;
    }
    return false;
}

static bool is_single(const Cluster *c) { return c->kind == VAL_pointwise && c->nodes.n <= 1 && c->again.n == 0; }

/* From the writer's domain on; why not, or NULL. */
static const char *write_split(Writer *w) {
    Draft *const draft = w->draft;
    const int n_bufs = draft->bufs.n, n_params = draft->params.n;
    for (;;) {
        w->why = NULL;
        write_once(w);
        if (!w->why && !w->split.wanted) return NULL;
        draft->bufs.n = draft->homes.n = draft->slots.n = n_bufs;
        draft->params.n = draft->is_float.n = n_params;
        if (w->why) return w->why;
        if (!domain_split(&w->domain, &w->split)) return "too many dims";
    }
}

Nest *nest_build(Draft *draft, const Cluster *cluster, const char **why, NestCost *cost) {
    Writer w = {.draft = draft, .l = draft->l, .cluster = cluster};
    *why = "no loop program";
    if (!first_domain(&w)) return NULL;
    *why = write_split(&w);
    if (*why == not_affine && is_single(cluster)) {
        domain_of_dims(&w);
        *why = write_split(&w);
    }
    if (*why) return NULL;
    Nest *const nest = ARENA_NEW(draft->arena, Nest);
    loop_finish(w.lb, nest);
    if (crowded(nest)) {
        *why = "too many reductions in one phase";
        return NULL;
    }
    if (checks_in_part(&w)) {
        *why = "a check would see a part of the elements";
        return NULL;
    }
    if (cost) {
        *cost = (NestCost){.full = w.domain.full_numel,
                           .outer = w.domain.outer_numel,
                           .recomputed = recomputed(&w, nest),
                           .elsewhere = w.elsewhere,
                           .n_vars = w.domain.n_vars};
        memcpy(cost->extent, w.domain.extent, sizeof cost->extent);
    }
    return nest;
}

/* Does the nest come to this element once only? Not where a dim that it runs over does not move it. */
static bool visited_once(const Nest *nest, const Affine *at, bool inner) {
    for (int d = 0; d < nest->n_outer + (inner ? nest->n_inner : 0); d++)
        if (at->coef[d] == 0 && nest->extent[d] != 1) return false;
    return true;
}

/* In place is right where each element is read only at the index where it is written, and once:
 * then it is read first. */
const char *nest_overwrites(const Nest *nest, int buf) {
    const Inst *first = NULL;
    bool loaded = false, inner = false; /* inner: stored while the inner dims are run over */
    for (int i = 0; i < nest->n_insts; i++) {
        const Inst *const inst = &nest->insts[i];
        if ((inst->op != LI_load && inst->op != LI_store && inst->op != LI_gather) || inst->buf != buf) continue;
        if (inst->op == LI_gather) return "rows given by data are read from memory that is written";
        if (!first) first = inst;
        loaded |= inst->op == LI_load;
        inner |= inst->op == LI_store && inst->inner;
        if (!affine_equal(first->at, inst->at)) return "memory is read at another index than it is written";
    }
    if (loaded && !visited_once(nest, first->at, inner)) return "memory is read and written more than once";
    return NULL;
}
