/* decomp_batch.c: batch, instance and group norm and their backward, in the canonical sums [B2.8] as layer norm has
 * them: moments_over all dims but the channels', or over (channel in group, position). Where running statistics follow
 * the batch's, the composites write them as ops of their own. */
#include "passes/rules/decomp.h"
#include "ir/op_ids.h"

DecompFn decomp_native_batch_norm, decomp_native_batch_norm_functional, decomp_batch_norm_with_update;
DecompFn decomp_batch_norm, decomp_instance_norm, decomp_group_norm;

static const Arg *named(const OpRow *row, const Arg *args, const char *name) {
    static const Arg none = {.kind = ARG_none};
    const int i = op_param_find(row, name);
    return i < 0 ? &none : &args[i];
}

/* [C] as it lies beside x: [C, 1, 1...] */
static Val *per_channel(Builder *b, Val *v, int rank) {
    if (!v || rank == 2) return v;
    int64_t sizes[MAX_RANK] = {v->meta->sizes[0]};
    for (int d = 1; d < rank - 1; d++) sizes[d] = 1;
    return E(b, view, V(v), A_INTS(sizes, rank - 1));
}

/* y weight + bias, either of which may be absent. */
static Val *affine(Builder *b, Val *y, Val *weight, Val *bias) {
    if (weight) y = E(b, mul_Tensor, V(y), V(weight));
    return bias ? E(b, add_Tensor, V(y), V(bias)) : y;
}

/* One value per channel, of [1, C, 1...]. */
static Val *channels_of(Builder *b, Val *v) { return v ? E(b, view, V(v), A_INTS(&v->meta->sizes[1], 1)) : NULL; }

typedef struct Beside { /* the dims that are not the channels' */
    int64_t dims[MAX_RANK], count;
    int n;
} Beside;

static Beside beside_channels(Builder *b, const Meta *x) {
    Beside beside = {.count = 1};
    for (int d = 0; d < x->rank; d++) {
        if (d == 1) continue;
        beside.dims[beside.n++] = d;
        beside.count = sym_mul(b->env, beside.count, x->sizes[d]);
    }
    return beside;
}

static bool is_f32(const Val *v) { return v && v->meta->dtype == DT_f32; }

static Val *no_values(Builder *b, const Meta *like, DType dtype) {
    const int64_t none = 0;
    return E(b, zeros, A_INTS(&none, 1), I(dtype), A_NONE, I(like->device));
}

/* batch norm ---------------------------------------------------------------------------------- */

/* (input, weight, bias, eps) -> (output, mean, rstd, var) */
Status decomp_batch_norm_stats(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = widened(b, args[0].val), *const weight = optional(&args[1]), *const bias = optional(&args[2]);
    if (!x) return error_pending();
    const int rank = x->meta->rank;
    const Beside over = beside_channels(b, x->meta);
    const Moments m = moments_over(b, x, A_INTS(over.dims, over.n), I(over.count), A_BOOL(true));
    Val *const var = E(b, div_Tensor, V(m.squares), I(over.count));
    Val *const rstd = E(b, rsqrt, V(E(b, add_Tensor, V(var), real_number(&args[3]))));
    Val *const y = affine(b, E(b, mul_Tensor, V(m.away), V(rstd)), per_channel(b, widened(b, weight), rank),
                          per_channel(b, widened(b, bias), rank));
    Val *const values[] = {in_dtype(b, y, args[0].val->meta->dtype), channels_of(b, m.mean), channels_of(b, rstd),
                           channels_of(b, var)};
    return decomp_done(outs, 4, values);
}

/* (input, weight, bias, running_mean, running_var, momentum, eps) */
Status decomp_batch_norm_eval(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const x = widened(b, args[0].val), *const weight = optional(&args[1]), *const bias = optional(&args[2]);
    Val *const mean = widened(b, args[3].val), *const var = widened(b, args[4].val);
    if (!x) return error_pending();
    const int rank = x->meta->rank;
    Val *const rstd = E(b, rsqrt, V(E(b, add_Tensor, V(var), real_number(&args[6]))));
    Val *const away = E(b, sub_Tensor, V(x), V(per_channel(b, mean, rank)));
    Val *const y = affine(b, E(b, mul_Tensor, V(away), V(per_channel(b, rstd, rank))),
                          per_channel(b, widened(b, weight), rank), per_channel(b, widened(b, bias), rank));
    const Meta *const meta = args[0].val->meta;
    const bool mixed = is_f32(weight) || is_f32(bias) || is_f32(args[3].val) || is_f32(args[4].val);
    const DType kept = mixed ? DT_f32 : meta->dtype;
    Val *const values[] = {in_dtype(b, y, meta->dtype), no_values(b, meta, kept), no_values(b, meta, kept)};
    return decomp_done(outs, 3, values);
}

typedef struct BatchNorm { /* a call, by the names of its parameters */
    Val *input, *weight, *bias, *mean, *var;
    bool training;
    double momentum, eps;
} BatchNorm;

static BatchNorm batch_norm_of(const OpRow *row, const Arg *args) {
    const Arg *training = named(row, args, "training");
    if (training->kind == ARG_none) training = named(row, args, "use_input_stats");
    return (BatchNorm){.input = args[0].val,
                       .weight = optional(named(row, args, "weight")),
                       .bias = optional(named(row, args, "bias")),
                       .mean = optional(named(row, args, "running_mean")),
                       .var = optional(named(row, args, "running_var")),
                       .training = training->kind != ARG_bool || training->i,
                       .momentum = arg_double(named(row, args, "momentum")),
                       .eps = arg_double(named(row, args, "eps"))};
}

static Arg maybe(Val *v) { return v ? V(v) : A_NONE; }

/* Old statistics moved towards new ones, in their own dtype. */
static Val *moved(Builder *b, const BatchNorm *n, Val *old, Val *new) {
    if (!old) return NULL;
    Val *const kept = E(b, mul_Tensor, V(widened(b, old)), F(1 - n->momentum));
    Val *const added = E(b, mul_Tensor, V(widened(b, new)), F(n->momentum));
    return in_dtype(b, E(b, add_Tensor, V(kept), V(added)), old->meta->dtype);
}

/* (output, mean, rstd), and what the running statistics become: NULL where they stay. Only the output has a
 * gradient. */
static Status normalise(Builder *b, const BatchNorm *n, Val *outs[3], Val *running[2]) {
    running[0] = running[1] = NULL;
    if (!n->training && n->mean && n->var) {
        const Arg args[] = {V(n->input), maybe(n->weight), maybe(n->bias), V(n->mean),
                            V(n->var),   F(n->momentum),   F(n->eps)};
        return emit(b, OP__native_batch_norm_legit_no_training, args, COUNT_OF(args), outs);
    }
    Val *all[4] = {0};
    const Arg args[] = {V(n->input), maybe(n->weight), maybe(n->bias), F(n->eps)};
    TRY(emit(b, OP_batch_norm_stats, args, COUNT_OF(args), all));
    outs[0] = all[0];
    for (int i = 1; i < 4; i++) all[i] = E(b, detach, V(all[i]));
    const bool mixed = is_f32(n->weight) || is_f32(n->bias) || is_f32(n->mean) || is_f32(n->var);
    for (int i = 1; i < 3; i++) outs[i] = in_dtype(b, all[i], mixed ? DT_f32 : n->input->meta->dtype);
    if (!outs[1] || !n->training || builder_identical(b, n->input->meta->numel, 0)) return error_pending();
    const int64_t count = beside_channels(b, n->input->meta).count;
    Val *const sum = E(b, mul_Tensor, V(all[3]), I(count));
    running[0] = moved(b, n, n->mean, all[1]);
    running[1] = moved(b, n, n->var, E(b, div_Tensor, V(sum), I(sym_sub(b->env, count, 1))));
    return error_pending();
}

static Status write_running(Builder *b, const BatchNorm *n, Val *const running[2]) {
    if (running[0]) TRY(emit_write(b, n->mean, running[0]));
    return running[1] ? emit_write(b, n->var, running[1]) : ST_OK;
}

Status decomp_native_batch_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const BatchNorm n = batch_norm_of(row, args);
    Val *values[3] = {0}, *running[2];
    TRY(normalise(b, &n, values, running));
    TRY(write_running(b, &n, running));
    return decomp_done(outs, 3, values);
}

Status decomp_native_batch_norm_functional(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const BatchNorm n = batch_norm_of(row, args);
    Val *values[5] = {0}, *running[2];
    TRY(normalise(b, &n, values, running));
    values[3] = running[0] ? running[0] : E(b, clone, V(E(b, detach, V(n.mean))), I(0));
    values[4] = running[1] ? running[1] : E(b, clone, V(E(b, detach, V(n.var))), I(0));
    return decomp_done(outs, 5, values);
}

Status decomp_batch_norm_with_update(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const BatchNorm n = batch_norm_of(row, args);
    Val *values[4] = {0}, *running[2];
    TRY(normalise(b, &n, values, running));
    TRY(write_running(b, &n, running));
    values[3] = no_values(b, n.input->meta, DT_u8);
    return decomp_done(outs, 4, values);
}

Status decomp_batch_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const BatchNorm n = batch_norm_of(row, args);
    Val *values[3] = {0}, *running[2];
    TRY(normalise(b, &n, values, running));
    TRY(write_running(b, &n, running));
    return done1(outs, values[0]);
}

static Val *repeated(Builder *b, Val *v, int64_t times) { return v ? E(b, repeat, V(v), A_INTS(&times, 1)) : NULL; }

/* The mean over samples of what each has made of the running statistics. */
static Val *over_samples(Builder *b, Val *v, const int64_t sizes[2]) {
    const int64_t first = 0;
    return v ? E(b, mean_dim, V(E(b, view, V(v), A_INTS(sizes, 2))), A_INTS(&first, 1)) : NULL;
}

/* [N, C, ...] as the N C channels of one sample. */
Status decomp_instance_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const BatchNorm given = batch_norm_of(row, args);
    const Meta *const x = given.input->meta;
    int64_t sizes[MAX_RANK] = {1, sym_mul(b->env, x->sizes[0], x->sizes[1])};
    for (int d = 2; d < x->rank; d++) sizes[d] = x->sizes[d];
    BatchNorm n = given;
    n.input = E(b, view, V(E(b, contiguous, V(given.input))), A_INTS(sizes, x->rank));
    n.weight = repeated(b, given.weight, x->sizes[0]), n.bias = repeated(b, given.bias, x->sizes[0]);
    n.mean = repeated(b, given.mean, x->sizes[0]), n.var = repeated(b, given.var, x->sizes[0]);
    if (error_pending()) return error_pending();
    Val *values[3] = {0}, *running[2];
    TRY(normalise(b, &n, values, running));
    for (int i = 0; i < 2; i++) running[i] = over_samples(b, running[i], x->sizes);
    TRY(write_running(b, &given, running));
    return done1(outs, E(b, view, V(values[0]), A_INTS(x->sizes, x->rank)));
}

/* backward ------------------------------------------------------------------------------------ */

typedef struct BatchBackward { /* all as they lie beside each other; h = (x - mean) rstd */
    Val *grad, *weight, *h, *rstd;
    Arg dims; /* under one mean; none: the statistics are constants */
    int64_t count;
} BatchBackward;

/* rstd (g - (sum(g) + h sum(g h)) / n), with g = grad weight; rstd g where the statistics are constants. */
static Val *to_input(Builder *b, const BatchBackward *p) {
    Val *const g = p->weight ? E(b, mul_Tensor, V(p->grad), V(p->weight)) : p->grad;
    if (p->dims.kind == ARG_none) return E(b, mul_Tensor, V(g), V(p->rstd));
    Val *const s1 = E(b, sum_dim_IntList, V(g), p->dims, A_BOOL(true));
    Val *const s2 = E(b, sum_dim_IntList, V(E(b, mul_Tensor, V(g), V(p->h))), p->dims, A_BOOL(true));
    Val *const along = E(b, add_Tensor, V(s1), V(E(b, mul_Tensor, V(p->h), V(s2))));
    return E(b, mul_Tensor, V(E(b, sub_Tensor, V(g), V(E(b, div_Tensor, V(along), I(p->count))))), V(p->rstd));
}

Status decomp_native_batch_norm_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const input = args[1].val, *const weight = optional(&args[2]);
    Val *const x = widened(b, input), *const grad = widened(b, args[0].val);
    const bool train = args[7].i;
    if (!x || !grad) return error_pending();
    const int rank = x->meta->rank;
    const Beside over = beside_channels(b, x->meta);
    Val *const mean = widened(b, args[train ? 5 : 3].val);
    Val *rstd = widened(b, args[train ? 6 : 4].val);
    if (!train) rstd = E(b, rsqrt, V(E(b, add_Tensor, V(rstd), real_number(&args[8]))));
    rstd = per_channel(b, rstd, rank);
    Val *const away = E(b, sub_Tensor, V(x), V(per_channel(b, mean, rank)));
    const BatchBackward p = {.grad = grad,
                             .weight = per_channel(b, widened(b, weight), rank),
                             .h = E(b, mul_Tensor, V(away), V(rstd)),
                             .rstd = rstd,
                             .dims = train ? A_INTS(over.dims, over.n) : A_NONE,
                             .count = over.count};
    const int64_t *const mask = args[9].ints;
    const DType dtype = weight ? weight->meta->dtype : input->meta->dtype;
    Val *values[3] = {0};
    if (mask[0]) values[0] = in_dtype(b, to_input(b, &p), input->meta->dtype);
    if (mask[1])
        values[1] = in_dtype(b, sum_over(b, E(b, mul_Tensor, V(grad), V(p.h)), over.dims, over.n, false), dtype);
    if (mask[2]) values[2] = in_dtype(b, sum_over(b, grad, over.dims, over.n, false), dtype);
    for (int i = 0; i < 3; i++)
        if (!mask[i]) values[i] = no_values(b, input->meta, i ? dtype : input->meta->dtype);
    return decomp_done(outs, 3, values);
}

/* group norm ---------------------------------------------------------------------------------- */

typedef struct ChannelGroups { /* [N, G, C/G, ...]: a view of [N, C, ...] whatever its strides are */
    int64_t sizes[MAX_RANK + 1], dims[MAX_RANK], count, channels;
    int rank, n; /* dims: of one group */
} ChannelGroups;

static ChannelGroups groups_of(Builder *b, const Meta *x, int64_t groups) {
    ChannelGroups g = {.rank = x->rank + 1, .count = 1, .channels = x->sizes[1]};
    g.sizes[0] = x->sizes[0], g.sizes[1] = groups, g.sizes[2] = sym_div(b->env, x->sizes[1], groups);
    for (int d = 3; d < g.rank; d++) g.sizes[d] = x->sizes[d - 1];
    for (int d = 2; d < g.rank; d++) {
        g.dims[g.n++] = d;
        g.count = sym_mul(b->env, g.count, g.sizes[d]);
    }
    return g;
}

static Val *grouped(Builder *b, const ChannelGroups *g, Val *x) { return E(b, view, V(x), A_INTS(g->sizes, g->rank)); }

/* A value per channel as [G, C/G, 1...], per sample and group as [N, G, 1, 1...]. */
static Val *channels_grouped(Builder *b, const ChannelGroups *g, Val *v) {
    int64_t sizes[MAX_RANK] = {g->sizes[1], g->sizes[2]};
    for (int d = 2; d < g->rank - 1; d++) sizes[d] = 1;
    return v ? E(b, view, V(v), A_INTS(sizes, g->rank - 1)) : NULL;
}
static Val *statistics_grouped(Builder *b, const ChannelGroups *g, Val *v) {
    int64_t sizes[MAX_RANK] = {g->sizes[0], g->sizes[1]};
    for (int d = 2; d < g->rank; d++) sizes[d] = 1;
    return E(b, view, V(v), A_INTS(sizes, g->rank));
}

/* (input, weight, bias, N, C, HxW, group, eps) -> (output, mean, rstd) */
Status decomp_native_group_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    Val *const input = widened(b, args[0].val), *const weight = optional(&args[1]), *const bias = optional(&args[2]);
    if (!input) return error_pending();
    const ChannelGroups g = groups_of(b, input->meta, args[6].i);
    const Moments m = moments_over(b, grouped(b, &g, input), A_INTS(g.dims, g.n), I(g.count), A_BOOL(true));
    Val *const var = E(b, div_Tensor, V(m.squares), I(g.count));
    Val *const rstd = E(b, rsqrt, V(E(b, add_Tensor, V(var), real_number(&args[7]))));
    Val *const y = affine(b, E(b, mul_Tensor, V(m.away), V(rstd)), channels_grouped(b, &g, widened(b, weight)),
                          channels_grouped(b, &g, widened(b, bias)));
    const Meta *const meta = args[0].val->meta;
    const DType kept = is_f32(weight) || is_f32(bias) ? DT_f32 : meta->dtype;
    const Arg statistics = A_INTS(g.sizes, 2);
    Val *const values[] = {reshaped(b, in_dtype(b, y, meta->dtype), meta->sizes, meta->rank),
                           in_dtype(b, E(b, view, V(m.mean), statistics), kept),
                           in_dtype(b, E(b, view, V(rstd), statistics), kept)};
    return decomp_done(outs, 3, values);
}

/* Sums over samples and positions: [C] */
static Val *over_positions(Builder *b, const ChannelGroups *g, Val *v) {
    int64_t dims[MAX_RANK] = {0};
    for (int d = 3; d < g->rank; d++) dims[d - 2] = d;
    return E(b, view, V(sum_over(b, v, dims, g->rank - 2, false)), A_INTS(&g->channels, 1));
}

/* (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask) */
Status decomp_native_group_norm_backward(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const meta = args[1].val->meta;
    Val *const weight = optional(&args[4]), *const x = widened(b, args[1].val);
    const ChannelGroups g = groups_of(b, meta, args[8].i);
    Val *const grad = grouped(b, &g, widened(b, args[0].val));
    Val *const rstd = statistics_grouped(b, &g, widened(b, args[3].val));
    Val *const away = E(b, sub_Tensor, V(grouped(b, &g, x)), V(statistics_grouped(b, &g, widened(b, args[2].val))));
    const BatchBackward p = {.grad = grad,
                             .weight = channels_grouped(b, &g, widened(b, weight)),
                             .h = E(b, mul_Tensor, V(away), V(rstd)),
                             .rstd = rstd,
                             .dims = A_INTS(g.dims, g.n),
                             .count = g.count};
    const int64_t *const mask = args[9].ints;
    const DType dtype = weight ? weight->meta->dtype : meta->dtype;
    Val *values[3] = {0};
    if (mask[0]) values[0] = reshaped(b, in_dtype(b, to_input(b, &p), meta->dtype), meta->sizes, meta->rank);
    if (mask[1]) values[1] = in_dtype(b, over_positions(b, &g, E(b, mul_Tensor, V(grad), V(p.h))), dtype);
    if (mask[2]) values[2] = in_dtype(b, over_positions(b, &g, grad), dtype);
    for (int i = 0; i < 3; i++)
        if (!mask[i]) values[i] = no_values(b, meta, i ? dtype : meta->dtype);
    return decomp_done(outs, 3, values);
}

Status decomp_group_norm(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    const Meta *const x = args[0].val->meta;
    int64_t positions = 1;
    for (int d = 2; d < x->rank; d++) positions = sym_mul(b->env, positions, x->sizes[d]);
    const Arg all[] = {args[0], args[2], args[3], I(x->sizes[0]), I(x->sizes[1]), I(positions), args[1], args[4]};
    Val *values[3] = {0};
    TRY(emit(b, OP_native_group_norm, all, COUNT_OF(all), values));
    return done1(outs, values[0]);
}
