/* vmap_own.c: batching rules of rows that no kind's rule serves, as the examples' dim has to go to a place of its own:
 *
 *   mv            of a common vector: the examples' rows are more rows; of each example's: sn::row_dots
 *   dot           sn::row_dots, and this of one dim more
 *   index_select  at positions of each example: gather, whose positions have all dims
 *   attention     of more heads
 *   convolution   of common weights: more images; of each example's: its channels are groups of their own
 *
 * A call is made where its meta rule gives the order of additions of one example's; else the op runs example by
 * example. */
#include "passes/passes.h"
#include "runtime/transform/vmap.h"

typedef struct OwnCall {
    OpCall *call;
    const Level *level;
    const MetaCall *one; /* one example's */
} OwnCall;

static Val *example_of(const OwnCall *c, int i) {
    Val *const val = c->call->args[i].kind == ARG_tensor ? c->call->args[i].val : NULL;
    sn_tensor *const inner = val ? level_inner(c->level, val) : NULL;
    return inner ? &inner->base : NULL;
}

static Val *all_of(const OwnCall *c, int i) {
    Val *const inner = example_of(c, i), *const val = c->call->args[i].val;
    return inner || !val ? inner : vmap_repeat(c->level, val);
}

static const Meta *one_of(const OwnCall *c, int i) { return c->call->args[i].val->meta; }

/* sizes with those of meta from dim `from` on behind the n that are there; how many they are. */
static int with_rest(int64_t *sizes, int n, const Meta *meta, int from) {
    for (int d = from; d < meta->rank; d++) sizes[n++] = meta->sizes[d];
    return n;
}

/* A call of the row, in the place of each example's. */
static bool row_adds_alike(const OwnCall *c, const OpRow *row, const Arg *args) {
    MetaOut outs[MAX_OUTS];
    for (int i = 0; i < MAX_OUTS; i++) outs[i] = (MetaOut){.alias = -1};
    MetaCall all = {.row = row, .form = FORM_functional, .args = args, .out = outs, .n_out = row->n_out};
    if (op_meta(&all) == ST_OK) return all.order == c->one->order;
    error_clear();
    return false;
}

static bool adds_alike(const OwnCall *c, const Arg *args) { return row_adds_alike(c, c->call->row, args); }

/* True: the call was made, or failed. */
static bool set_result(const OwnCall *c, Val *z, Status *status) {
    *status = z ? vmap_set_results(c->call, c->level, (sn_tensor *const[]){tensor_of(z)}, 1) : error_pending();
    return true;
}

/* dot and mv ------------------------------------------------------------------------------------------- */

/* A row of self, or all of them, with a vector of each example. */
static bool run_dots(const OwnCall *c, Status *status) {
    const bool matrix = one_of(c, 0)->rank > one_of(c, 1)->rank;
    Val *const self = all_of(c, 0), *other = self ? all_of(c, 1) : NULL;
    if (other && matrix) other = E(eager_builder(), unsqueeze, V(other), I(1));
    if (other && matrix) other = E(eager_builder(), expand, V(other), A_INTS(self->meta->sizes, self->meta->rank));
    const Arg args[] = {V(self), V(other)};
    if (!other || !row_adds_alike(c, op_row(OP_ID(row_dots)), args)) return other ? false : set_result(c, NULL, status);
    return set_result(c, E(eager_builder(), row_dots, args[0], args[1]), status);
}

static bool run_matrix(const OwnCall *c, Status *status) {
    Val *const matrix = example_of(c, 0);
    if (!matrix || example_of(c, 1)) return run_dots(c, status);
    const int64_t *const sizes = matrix->meta->sizes, rows[] = {sizes[0] * sizes[1], sizes[2]};
    Val *const flat = E(eager_builder(), reshape, V(matrix), A_INTS(rows, 2));
    const Arg args[] = {V(flat), c->call->args[1]};
    if (!flat || !adds_alike(c, args)) return flat ? false : set_result(c, NULL, status);
    Val *const z = emit1(eager_builder(), c->call->row->id, args, 2);
    return set_result(c, z ? E(eager_builder(), reshape, V(z), A_INTS(sizes, 2)) : NULL, status);
}

/* index_select --------------------------------------------------------------------------------- */

static bool run_positions(const OwnCall *c, Status *status) {
    Val *const index = example_of(c, 2), *const self = index ? all_of(c, 0) : NULL;
    if (!index || one_of(c, 2)->rank != 1 || !one_of(c, 0)->rank || index->meta->dtype != DT_i64) return false;
    if (!self) return set_result(c, NULL, status);
    const int rank = self->meta->rank, dim = (int)dim_wrap(c->call->args[1].i, rank - 1) + 1;
    int64_t one[MAX_RANK], wide[MAX_RANK];
    for (int d = 0; d < rank; d++) one[d] = 1, wide[d] = self->meta->sizes[d];
    one[0] = wide[0], one[dim] = wide[dim] = index->meta->sizes[1];
    Val *const narrow = E(eager_builder(), reshape, V(index), A_INTS(one, rank));
    Val *const places = narrow ? E(eager_builder(), expand, V(narrow), A_INTS(wide, rank)) : NULL;
    return set_result(c, places ? E(eager_builder(), gather, V(self), I(dim), V(places)) : NULL, status);
}

/* convolution ---------------------------------------------------------------------------------- */

enum { CONV_input, CONV_weight, CONV_bias, CONV_groups = 8 };

/* The first two dims of all examples as one. */
static Val *merged_pair(Val *x) {
    int64_t sizes[MAX_RANK] = {x->meta->sizes[0] * x->meta->sizes[1]};
    return E(eager_builder(), reshape, V(x), A_INTS(sizes, with_rest(sizes, 1, x->meta, 2)));
}

static Val *swapped(Val *x) { /* the first two dims */
    int64_t dims[MAX_RANK] = {1, 0};
    for (int d = 2; d < x->meta->rank; d++) dims[d] = d;
    return E(eager_builder(), permute, V(x), A_INTS(dims, x->meta->rank));
}

static Val *split_dim(Val *x, int dim, int64_t first) {
    int64_t sizes[MAX_RANK];
    for (int d = 0; d < dim; d++) sizes[d] = x->meta->sizes[d];
    sizes[dim] = first, sizes[dim + 1] = x->meta->sizes[dim] / first;
    return E(eager_builder(), reshape, V(x), A_INTS(sizes, with_rest(sizes, dim + 2, x->meta, dim + 1)));
}

static Val *more_images(const OwnCall *c, Arg *args) {
    Val *const images = merged_pair(example_of(c, CONV_input));
    if (!images) return NULL;
    args[CONV_input] = V(images);
    if (!adds_alike(c, args)) return NULL;
    Val *const z = emit1(eager_builder(), c->call->row->id, args, c->call->row->n_params);
    return z ? split_dim(z, 0, c->level->size) : NULL;
}

static Val *groups_of_examples(const OwnCall *c, Arg *args) {
    const bool bias = args[CONV_bias].kind == ARG_tensor && args[CONV_bias].val;
    Val *const input = all_of(c, CONV_input), *const turned = input ? swapped(input) : NULL; /* [N, examples, C, ...] */
    Val *const weight = turned ? all_of(c, CONV_weight) : NULL, *const plus =
                                                                    bias && weight ? all_of(c, CONV_bias) : NULL;
    if (!weight || (bias && !plus)) return NULL;
    int64_t sizes[MAX_RANK] = {turned->meta->sizes[0], turned->meta->sizes[1] * turned->meta->sizes[2]};
    Val *const channels = E(eager_builder(), reshape, V(turned), A_INTS(sizes, with_rest(sizes, 2, turned->meta, 3)));
    Val *const kernels = channels ? merged_pair(weight) : NULL, *const added =
                                                                    plus && kernels ? merged_pair(plus) : NULL;
    if (!kernels || (bias && !added)) return NULL;
    args[CONV_input] = V(channels), args[CONV_weight] = V(kernels);
    if (bias) args[CONV_bias] = V(added);
    args[CONV_groups] = I(args[CONV_groups].i * c->level->size);
    if (!adds_alike(c, args)) return NULL;
    Val *const z = emit1(eager_builder(), c->call->row->id, args, c->call->row->n_params);
    Val *const apart = z ? split_dim(z, 1, c->level->size) : NULL;
    return apart ? swapped(apart) : NULL;
}

static bool run_images(const OwnCall *c, Status *status) {
    Arg args[MAX_ARGS];
    const bool own = example_of(c, CONV_weight) || example_of(c, CONV_bias);
    if (one_of(c, CONV_input)->rank != one_of(c, CONV_weight)->rank || one_of(c, CONV_input)->rank + 1 > MAX_RANK)
        return false; /* one image without a dim for more */
    memcpy(args, c->call->args, sizeof *args * (size_t)c->call->row->n_params);
    Val *const z = own ? groups_of_examples(c, args) : more_images(c, args);
    return z || error_pending() != ST_OK ? set_result(c, z, status) : false;
}

/* attention ------------------------------------------------------------------------------------ */

/* Dims of size 1 behind the first one, up to `rank` of them. */
static Val *with_dims(Val *x, int rank) {
    int64_t sizes[MAX_RANK] = {x->meta->sizes[0]};
    const int more = rank - x->meta->rank;
    for (int d = 1; d <= more; d++) sizes[d] = 1;
    return more > 0 ? E(eager_builder(), reshape, V(x), A_INTS(sizes, with_rest(sizes, 1 + more, x->meta, 1))) : x;
}

/* Examples are one more leading dim of all operands. */
static bool run_more_heads(const OwnCall *c, Status *status) {
    const OpRow *const row = c->call->row;
    const int query = op_param_find(row, "query"), mask = op_param_find(row, "attn_mask");
    const int rank = one_of(c, query)->rank + 1;
    Arg args[MAX_ARGS];
    Val *outs[MAX_OUTS];
    sn_tensor *results[MAX_OUTS];
    if (rank > MAX_RANK) return false;
    memcpy(args, c->call->args, sizeof *args * (size_t)row->n_params);
    for (int i = 0; i < row->n_params; i++) {
        if (args[i].kind != ARG_tensor || !args[i].val) continue;
        Val *const all = all_of(c, i), *const fits = all && i == mask ? with_dims(all, rank) : all;
        if (!fits) return *status = error_pending(), true;
        args[i] = V(fits);
    }
    *status = emit(eager_builder(), row->id, args, row->n_params, outs);
    for (int i = 0; i < row->n_out; i++) results[i] = *status == ST_OK ? tensor_of(outs[i]) : NULL;
    if (*status == ST_OK) *status = vmap_set_results(c->call, c->level, results, row->n_out);
    return true;
}

/* the rows ------------------------------------------------------------------------------------- */

bool vmap_own_rule(OpCall *call, const Level *level, const MetaCall *one, Status *status) {
    const OwnCall c = {call, level, one};
    const OpId id = call->row->id;
    if (!level->size || call->form == FORM_inplace) return false;
    if (id == OP_ID(mv)) return run_matrix(&c, status);
    if (id == OP_ID(dot) || id == OP_ID(row_dots)) return run_dots(&c, status);
    if (id == OP_ID(index_select)) return run_positions(&c, status);
    if (id == OP_ID(attention) || id == OP_ID(attention_backward)) return run_more_heads(&c, status);
    return id == OP_ID(convolution) && run_images(&c, status);
}
