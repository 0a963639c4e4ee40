/* vmap_rules.c: batching rules by kind [semantics T5]; few are written for an op (vmap_own.c):
 *
 *   pointwise      dims aligned behind the batch's; the op
 *   view           dims named by arguments one further, or strides over all examples' memory
 *   reduction      the same dims, one further; all dims: merged behind the batch's
 *   decomposition  dims one further where it names some, else its parts
 *   product        of matrices: a product of batches, or of more rows
 *   else           example by example, which is said once
 *
 * A call on all examples is one of these where the meta rule gives it one example's dims, dtype and order of additions
 * behind the batch's dim; else it is not made. */
#include "passes/passes.h"
#include "runtime/base/log.h"
#include "runtime/transform/vmap.h"

typedef struct Rule {
    OpCall *call;
    const Level *level;
    MetaCall one; /* one example's call */
    MetaOut outs[MAX_OUTS];
} Rule;

/* attempts ------------------------------------------------------------------------------------ */

typedef enum Way {
    WAY_plain,
    WAY_shift = 1,   /* dims are one further */
    WAY_enlarge = 2, /* the batch before sizes */
    WAY_front = 4,   /* a list of all dims */
    WAY_expand = 8,  /* all tensors are batched */
    WAY_pad = 16     /* all have as many dims */
} Way;

static bool prepare(VmapArgs *a, int way) {
    if (way & WAY_shift && !vmap_args_shift(a)) return false;
    if (way & WAY_front && !vmap_args_keep_front(a)) return false;
    return !(way & WAY_enlarge) || vmap_args_enlarge(a);
}

/* True: it ran, or failed, as *status says. */
static bool attempt_of(Rule *r, int way, int rank, Status *status) {
    __attribute__((cleanup(vmap_args_end))) VmapArgs a = {0};
    *status = vmap_args_align(&a, r->level, r->call, rank, way & WAY_expand);
    if (*status != ST_OK) return true;
    if (!prepare(&a, way) || !vmap_args_fit(&a, &r->one)) return false;
    *status = vmap_args_run(&a, r->call);
    return true;
}

static bool attempt(Rule *r, int way, Status *status) {
    return attempt_of(r, way, way & WAY_pad ? vmap_rank(r->call) : 0, status);
}

/* what tensors are ---------------------------------------------------------------------------- */

static bool first_has_dims(const OpCall *call) {
    const Arg *const self = &call->args[0];
    if (self->kind == ARG_tensors) return self->n && self->vals[0] && self->vals[0]->meta->rank;
    return self->kind == ARG_tensor && self->val && self->val->meta->rank;
}

/* kinds --------------------------------------------------------------------------------------- */

static Status run_loop(Rule *r) { return vmap_loop(r->call, r->level, false); }

static Status run_dims(Rule *r) {
    Status status;
    if (!first_has_dims(r->call)) return run_loop(r);
    if (attempt(r, WAY_shift, &status) || attempt(r, WAY_shift | WAY_enlarge, &status) ||
        attempt(r, WAY_shift | WAY_expand, &status) || attempt(r, WAY_shift | WAY_enlarge | WAY_expand, &status))
        return status;
    return run_loop(r);
}

static Status run_pointwise(Rule *r) {
    Status status;
    if (attempt(r, WAY_pad, &status) || attempt(r, WAY_pad | WAY_enlarge, &status) ||
        attempt(r, WAY_pad | WAY_expand, &status))
        return status;
    return run_loop(r);
}

/* Strides and an offset over the memory of all. */
static Status run_strided(Rule *r) {
    sn_tensor *const inner = level_inner(r->level, r->call->args[0].val), *outs[MAX_OUTS];
    if (r->one.n_out > MAX_OUTS || inner->placeholder || tensor_is_batched(inner)) return run_loop(r);
    for (int i = 0; i < r->one.n_out; i++) {
        const MetaOut *const one = &r->outs[i];
        int64_t sizes[MAX_RANK + 1] = {r->level->size}, strides[MAX_RANK + 1] = {inner->base.meta->strides[0]};
        if (one->rank == MAX_RANK || one->alias != 0 || one->dtype != inner->base.meta->dtype) return run_loop(r);
        memcpy(sizes + 1, one->sizes, sizeof *sizes * (size_t)one->rank);
        memcpy(strides + 1, one->strides, sizeof *strides * (size_t)one->rank);
        outs[i] = tensor_of(E(eager_builder(), as_strided, V(&inner->base), A_INTS(sizes, one->rank + 1),
                              A_INTS(strides, one->rank + 1), I(inner->offset + one->offset)));
        if (!outs[i]) return error_pending();
    }
    return vmap_set_results(r->call, r->level, outs, r->one.n_out);
}

/* Which of self's dims is each of the result's; false: it is another view than one that puts dims in another order. */
static bool find_order(const Rule *r, int64_t *dims) {
    const Meta *const self = r->call->args[0].val->meta;
    const MetaOut *const one = &r->outs[0];
    uint32_t taken = 0;
    if (r->one.n_out != 1 || one->rank != self->rank || one->alias != 0 || one->offset || one->dtype != self->dtype)
        return false;
    dims[0] = 0;
    for (int d = 0; d < one->rank; d++) {
        int from = 0;
        while (from < self->rank &&
               (taken >> from & 1 || self->sizes[from] != one->sizes[d] || self->strides[from] != one->strides[d]))
            from++;
        if (from == self->rank) return false;
        taken |= 1u << from;
        dims[d + 1] = from + 1;
    }
    return true;
}

static Status run_unnamed_view(Rule *r) {
    int64_t dims[MAX_RANK + 1];
    if (!find_order(r, dims)) return run_strided(r);
    sn_tensor *const inner = level_inner(r->level, r->call->args[0].val);
    sn_tensor *const out = tensor_of(E(eager_builder(), permute, V(&inner->base), A_INTS(dims, r->outs[0].rank + 1)));
    return out ? vmap_set_results(r->call, r->level, &out, 1) : error_pending();
}

static Status run_view(Rule *r) {
    Status status;
    const int wide = r->one.n_out ? r->outs[0].rank : 0;
    if (attempt(r, WAY_plain, &status) || attempt(r, WAY_shift, &status) ||
        attempt(r, WAY_shift | WAY_front, &status) || attempt(r, WAY_enlarge, &status) ||
        attempt_of(r, WAY_enlarge, wide, &status) || attempt(r, WAY_shift | WAY_enlarge, &status))
        return status;
    return run_unnamed_view(r);
}

/* The row of the same reduction that names dims. */
static const OpRow *row_of_dims(const OpRow *row) {
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *const other = op_row_at(i);
        if (other->alias_of || other->kind != row->kind || body_rule(other) != body_rule(row)) continue;
        if (vmap_names_dims(other) && other->meta == row->meta && other->n_out == 1) return other;
    }
    return NULL;
}

/* Arguments of `to` as those of the same name in `from`; the dim is 1. */
static Status args_of_dim(const OpCall *from, const OpRow *to, Val *self, const int64_t *dim, Arg *full) {
    Arg given[MAX_ARGS];
    for (int i = 0; i < to->n_params; i++) {
        const int at = op_param_find(from->row, to->params[i].name);
        const ParamType type = to->params[i].type;
        given[i] = at >= 0 ? from->args[at] : A_DEFAULT;
        if (!strcmp(to->params[i].name, "keepdim")) given[i] = A_BOOL(false); /* of none */
        if (!strcmp(to->params[i].name, "dim")) given[i] = type == PT_int || type == PT_int_opt ? I(1) : A_INTS(dim, 1);
    }
    given[0] = V(self);
    return op_args_normalize(to, given, to->n_params, full);
}

/* All of one example's elements: its dims are merged, which keeps the order of their addition. */
static Status reduce_all(Rule *r) {
    const OpRow *const row = vmap_names_dims(r->call->row) ? r->call->row : row_of_dims(r->call->row);
    const sn_tensor *const inner = level_inner(r->level, r->call->args[0].val);
    if (!row || !inner || r->outs[0].rank || row->n_out != 1) return run_loop(r);
    const int64_t sizes[] = {r->level->size, r->call->args[0].val->meta->numel}, dim[] = {1};
    Val *const flat = E(eager_builder(), reshape, V((Val *)(uintptr_t)&inner->base), A_INTS(sizes, 2));
    sn_tensor *out = NULL;
    Arg args[MAX_ARGS];
    if (!flat) return error_pending();
    TRY(args_of_dim(r->call, row, flat, dim, args));
    TRY(dispatch(row, FORM_functional, args, NULL, &out));
    return vmap_set_results(r->call, r->level, &out, 1);
}

static bool names_a_dim(const OpCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (strncmp(call->row->params[i].name, "dim", 3) == 0 &&
            (arg->kind == ARG_int || (arg->kind == ARG_ints && arg->n)))
            return true;
    }
    return false;
}

static int count_tensors(const OpRow *row) {
    int n = 0;
    for (int i = 0; i < row->n_params; i++) n += row->params[i].type <= PT_tensors;
    return n;
}

static Status run_reduction(Rule *r) {
    if (names_a_dim(r->call)) return run_dims(r);
    return count_tensors(r->call->row) == 1 ? reduce_all(r) : run_loop(r);
}

/* Parts are called at this level again. */
static Status run_parts(Rule *r) {
    sn_state *const state = state_get();
    level_enter(state, (Level *)(uintptr_t)r->level);
    return composite_expand(r->call, r->call->args, NULL, NULL);
}

static Status run_decomposition(Rule *r) {
    Status status;
    const bool shifts = vmap_names_dims(r->call->row) && first_has_dims(r->call);
    if (shifts && (attempt(r, WAY_shift, &status) || attempt(r, WAY_shift | WAY_expand, &status))) return status;
    return decomp_rule(r->call->row) ? run_parts(r) : run_loop(r);
}

/* products ------------------------------------------------------------------------------------ */

static Val *merged(Val *x) { /* the first two dims */
    int64_t sizes[MAX_RANK];
    const Meta *const meta = x->meta;
    sizes[0] = meta->sizes[0] * meta->sizes[1];
    for (int d = 2; d < meta->rank; d++) sizes[d - 1] = meta->sizes[d];
    return E(eager_builder(), reshape, V(x), A_INTS(sizes, meta->rank - 1));
}

/* An addend as wide as the result, all examples; one that is the same for all rows stays. */
static Val *addend(const Rule *r, Val *self, int rank, bool rows) {
    sn_tensor *const inner = level_inner(r->level, self);
    if (!inner && (rows ? self->meta->rank < 2 : self->meta->rank < 3)) return self;
    int64_t sizes[MAX_RANK + 1] = {r->level->size};
    Val *all = inner ? &inner->base : self;
    for (int d = self->meta->rank; d < rank && all && inner; d++) all = E(eager_builder(), unsqueeze, V(all), I(1));
    memcpy(sizes + 1, r->outs[0].sizes, sizeof *sizes * (size_t)rank);
    return all ? E(eager_builder(), expand, V(all), A_INTS(sizes, rank + 1)) : NULL;
}

static Val *all_of(const Rule *r, Val *val) {
    sn_tensor *const inner = level_inner(r->level, val);
    if (inner) return &inner->base;
    int64_t sizes[MAX_RANK + 1] = {r->level->size};
    memcpy(sizes + 1, val->meta->sizes, sizeof *sizes * (size_t)val->meta->rank);
    return E(eager_builder(), expand, V(val), A_INTS(sizes, val->meta->rank + 1));
}

static Status set_product(Rule *r, Val *z) {
    if (!z) return error_pending();
    int64_t sizes[MAX_RANK + 1] = {r->level->size};
    memcpy(sizes + 1, r->outs[0].sizes, sizeof *sizes * (size_t)r->outs[0].rank);
    if (z->meta->rank == r->outs[0].rank) z = E(eager_builder(), reshape, V(z), A_INTS(sizes, r->outs[0].rank + 1));
    return z ? vmap_set_results(r->call, r->level, (sn_tensor *const[]){tensor_of(z)}, 1) : error_pending();
}

/* The numbers beta and alpha, which follow the operands. */
static Val *product_of(const Rule *r, OpId plain, OpId adds, Val *self, Val *a, Val *b) {
    if (!a || !b || (r->call->row->product.self >= 0 && !self)) return NULL;
    if (r->call->row->product.self < 0) return emit1(eager_builder(), plain, (const Arg[]){V(a), V(b)}, 2);
    return emit1(eager_builder(), adds, (const Arg[]){V(self), V(a), V(b), r->call->args[3], r->call->args[4]}, 5);
}

static Status run_product(Rule *r) {
    const OpRow *const row = r->call->row;
    Val *const a = r->call->args[row->product.a].val, *const b = r->call->args[row->product.b].val;
    Val *const self = row->product.self >= 0 ? r->call->args[row->product.self].val : NULL;
    const int rank = a->meta->rank;
    if (rank == 3) {
        Val *const x = all_of(r, a), *const y = all_of(r, b);
        Val *plus = self ? addend(r, self, 3, false) : NULL;
        if (plus && plus->meta->rank == 4) plus = merged(plus);
        return set_product(r, !x || !y ? NULL : product_of(r, OP_ID(bmm), OP_ID(baddbmm), plus, merged(x), merged(y)));
    }
    if (rank != 2) return run_loop(r);
    if (!level_inner(r->level, b) && (!self || (self->meta->rank < 2 && !level_inner(r->level, self))) &&
        level_inner(r->level, a))
        return set_product(r, product_of(r, OP_ID(mm), OP_ID(addmm), self, merged(all_of(r, a)), b));
    Val *const plus = self ? addend(r, self, 2, true) : NULL;
    return set_product(r, product_of(r, OP_ID(bmm), OP_ID(baddbmm), plus, all_of(r, a), all_of(r, b)));
}

/* the rule of a row --------------------------------------------------------------------------- */

static bool has_rows_product(const OpRow *row) { return row->kind == KIND_kernel && op_is_product(row); }

static Status run_kind(Rule *r) {
    const OpRow *const row = r->call->row;
    if (has_rows_product(row)) return run_product(r);
    switch (row->kind) {
    case KIND_view:
        return run_view(r);
    case KIND_pointwise:
        return vmap_names_dims(row) ? run_dims(r) : run_pointwise(r);
    case KIND_reduction:
        return run_reduction(r);
    case KIND_decomposition:
        return run_decomposition(r);
    default:
        return vmap_names_dims(row) ? run_dims(r) : run_loop(r);
    }
}

/* The results of one example's call, or its error. */
static Status ask_one(Rule *r) {
    for (int i = 0; i < MAX_OUTS; i++) r->outs[i] = (MetaOut){.alias = -1};
    r->one = (MetaCall){.row = r->call->row,
                        .form = r->call->form == FORM_inplace ? FORM_inplace : FORM_functional,
                        .args = r->call->args,
                        .out = r->outs,
                        .n_out = r->call->row->returns_list ? MAX_OUTS : r->call->row->n_out};
    return op_meta(&r->one);
}

static Status refuse_values(const OpRow *row) {
    return error_raise(ST_UNSUPPORTED,
                       "%s: inside of sn_vmap: the sizes of its results depend on values, which differ "
                       "from example to example",
                       row->name);
}

Status vmap_rule(OpCall *call, const Level *level) {
    Rule r = {.call = call, .level = level};
    if (call->row->flags & OPF_host) return refuse_values(call->row);
    if (!call->row->meta) return run_loop(&r);
    TRY(ask_one(&r));
    Status status;
    return vmap_own_rule(call, level, &r.one, &status) ? status : run_kind(&r);
}

/* random ops ---------------------------------------------------------------------------------- */

static Status refuse_random(const OpCall *call) {
    return error_raise(ST_STATE,
                       "%s: a random op inside of sn_vmap: options.randomness says whether its numbers are "
                       "the same or different for all examples",
                       op_form_name(call->row, call->form));
}

static Status pass_out(OpCall *call) { return dispatch(call->row, call->form, call->args, call->out_args, call->outs); }

/* Before this chunk's examples stand as many others, so that each draws the numbers of its place among all. */
static Val *behind_others(const Level *level, Val *val) {
    int64_t sizes[MAX_RANK];
    const Meta *const meta = val->meta;
    if (!meta->rank || meta->sizes[0] != level->size) return val;
    memcpy(sizes, meta->sizes, sizeof *sizes * (size_t)meta->rank);
    Val *const first = E(eager_builder(), slice_Tensor, V(val), I(0), I(0), I(1));
    sizes[0] = level->start;
    Val *const others = first ? E(eager_builder(), expand, V(first), A_INTS(sizes, meta->rank)) : NULL;
    return others ? E(eager_builder(), cat, A_VALS(((Val *const[]){others, val}), 2), I(0)) : NULL;
}

static Status place_chunk(VmapArgs *a) {
    for (int i = 0; i < a->call->row->n_params && a->level->start; i++) {
        Arg *const arg = &a->args[i];
        if (arg->kind == ARG_tensor && arg->val && !(arg->val = behind_others(a->level, arg->val)))
            return error_pending();
    }
    return ST_OK;
}

static Status release_chunk(OpCall *call, const Level *level, sn_tensor **outs) {
    for (int i = 0; i < call->row->n_out && level->start; i++) {
        const int64_t end = level->start + level->size;
        outs[i] = tensor_of(E(eager_builder(), slice_Tensor, V(&outs[i]->base), I(0), I(level->start), I(end)));
        if (!outs[i]) return error_pending();
    }
    return vmap_set_results(call, level, outs, call->row->n_out);
}

static Status draw_all(Rule *r) {
    __attribute__((cleanup(vmap_args_end))) VmapArgs a = {0};
    OpCall *const call = r->call;
    sn_tensor *outs[MAX_OUTS] = {0};
    TRY(vmap_args_align(&a, r->level, call, vmap_rank(call), true));
    TRY(place_chunk(&a));
    a.rows += r->level->start;
    vmap_args_enlarge(&a);
    if (call->row->returns_list || !vmap_args_fit(&a, &r->one))
        return error_raise(ST_UNSUPPORTED, "%s: inside of sn_vmap it does not draw different numbers for all examples",
                           op_form_name(call->row, call->form));
    if (call->form == FORM_inplace) return vmap_args_run(&a, call);
    TRY(dispatch(call->row, FORM_functional, a.args, NULL, outs));
    return release_chunk(call, r->level, outs);
}

static bool has_examples(const Rule *r) {
    for (int i = 0; i < r->call->row->n_params; i++)
        if (r->call->args[i].kind == ARG_tensor && level_inner(r->level, r->call->args[i].val)) return true;
    return false;
}

Status vmap_random(OpCall *call, const Level *level) {
    Rule r = {.call = call, .level = level};
    if (level->random == VMAP_error) return refuse_random(call);
    const bool some = has_examples(&r);
    if (level->random == VMAP_same) return some ? vmap_loop(call, level, true) : pass_out(call);
    if (call->form == FORM_out) return refuse_random(call);
    if (call->form == FORM_inplace && !some)
        return error_raise(ST_STATE,
                           "%s: sn_vmap: different numbers for each example would be written into one tensor, "
                           "which is not batched",
                           op_form_name(call->row, call->form));
    TRY(ask_one(&r));
    return draw_all(&r);
}
