/* meta_recurrent.c: sizes of recurrent layers and cells (ops/recurrent.def). */
#include "ir/meta_rules.h"

static Status recurrent_sizes(const MetaCall *call, const Meta *meta, const char *what, const int64_t *sizes,
                              int rank) {
    if (meta->rank == rank && all_same(call->env, meta->sizes, sizes, rank)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s must have sizes %s, not %s", what, sizes_text(call, sizes, rank).at,
                     SIZES(call, meta));
}

static Status recurrent_like(const MetaCall *call, const Meta *meta, const char *what) {
    const Meta *const input = tensor_meta(call, 0);
    if (meta->dtype != input->dtype)
        return meta_fail(call, ST_DTYPE, "%s is %s, but input is %s", what, dtype_name(meta->dtype),
                         dtype_name(input->dtype));
    return same_device(call, input, meta);
}

/* A layer: state and memory sizes, what is given for one direction and how many there are. */
typedef struct RecurrentSizes {
    int hx; /* where hx stands among the arguments: behind input, or behind batch_sizes, too */
    int64_t steps, batch, state, memory;
    int gates, layers, directions, each; /* each: parameters of one layer and direction */
    bool projects;
} RecurrentSizes;

static Status check_weights(const MetaCall *call, const RecurrentSizes *r) {
    const Arg *const params = &call->args[r->hx + 1];
    const Meta *const input = tensor_meta(call, 0);
    const bool has_biases = call->args[r->hx + 2].i;
    const int n = r->layers * r->directions;
    const int64_t rows = sym_mul(call->env, r->memory, r->gates);
    for (int k = 0; k < n; k++) {
        Val *const *const at = params->vals + (ptrdiff_t)k * r->each;
        const bool first = k < r->directions;
        const int64_t in = first ? input->sizes[input->rank - 1] : sym_mul(call->env, r->state, r->directions);
        const int64_t ih[2] = {rows, in}, hh[2] = {rows, r->state}, hr[2] = {r->state, r->memory};
        for (int i = 0; i < r->each; i++) TRY(recurrent_like(call, at[i]->meta, "a parameter"));
        TRY(recurrent_sizes(call, at[0]->meta, "w_ih", ih, 2));
        TRY(recurrent_sizes(call, at[1]->meta, "w_hh", hh, 2));
        for (int i = 2; has_biases && i < 4; i++) TRY(recurrent_sizes(call, at[i]->meta, "a bias", &rows, 1));
        if (r->projects) TRY(recurrent_sizes(call, at[r->each - 1]->meta, "w_hr", hr, 2));
    }
    return ST_OK;
}

static Status check_numbers(const MetaCall *call, const RecurrentSizes *r) {
    const int64_t layers = call->args[r->hx + 3].i;
    if (layers < 1 || layers > 1000)
        return meta_fail(call, ST_ARGUMENT, "num_layers must be 1 to 1000, not %lld", (long long)layers);
    const double p = arg_double(&call->args[r->hx + 4]);
    if (!(p >= 0 && p <= 1)) return meta_fail(call, ST_VALUE, "dropout must be from 0 to 1, but is %g", p);
    return ST_OK;
}

/* Steps and batch are set; the rest is checked and set here. */
static Status check_layer(const MetaCall *call, const Meta *state, const Meta *memory, RecurrentSizes *r) {
    const Meta *const input = tensor_meta(call, 0);
    TRY(check_numbers(call, r));
    r->state = state->sizes[2];
    r->memory = memory->sizes[memory->rank - 1];
    r->layers = (int)call->args[r->hx + 3].i;
    r->directions = call->args[r->hx + 6].i ? 2 : 1;
    r->projects = !sym_same(call->env, r->state, r->memory);
    r->each = 2 + (call->args[r->hx + 2].i ? 2 : 0) + r->projects;
    if (sym_same(call->env, r->steps, 0)) return meta_fail(call, ST_SHAPE, "input %s has no step", SIZES(call, input));
    if (call->args[r->hx + 1].n != r->layers * r->directions * r->each)
        return meta_fail(call, ST_ARGUMENT, "%d params, but %d layers of %d directions with %d each",
                         call->args[r->hx + 1].n, r->layers, r->directions, r->each);
    const int64_t n = (int64_t)r->layers * r->directions;
    const int64_t states[3] = {n, r->batch, r->state}, memories[3] = {n, r->batch, r->memory};
    TRY(recurrent_sizes(call, state, "hx", states, 3));
    TRY(recurrent_sizes(call, memory, "hx[1]", memories, 3));
    TRY(recurrent_like(call, state, "hx"));
    TRY(recurrent_like(call, memory, "hx[1]"));
    return check_weights(call, r);
}

static Status states_out(MetaCall *call, const Meta *state, const Meta *memory) {
    const Meta *const input = tensor_meta(call, 0);
    out_plain(call, 1, input->dtype, input->device, state->sizes, 3);
    if (call->row->n_out > 2) out_plain(call, 2, input->dtype, input->device, memory->sizes, 3);
    return ST_OK;
}

static Status input_fits(const MetaCall *call, const Meta *state, int rank) {
    const Meta *const input = tensor_meta(call, 0);
    if (!dtype_is_float(input->dtype))
        return meta_fail(call, ST_DTYPE, "input must be floating point, not %s", dtype_name(input->dtype));
    if (input->rank == rank && state->rank == 3) return ST_OK;
    if (rank == 3)
        return meta_fail(call, ST_SHAPE, "input %s and hx %s must have 3 dims", SIZES(call, input), SIZES(call, state));
    return meta_fail(call, ST_SHAPE, "data %s must have 2 dims and hx %s must have 3", SIZES(call, input),
                     SIZES(call, state));
}

static Status layer_out(MetaCall *call, int gates, const Meta *state, const Meta *memory) {
    const Meta *const input = tensor_meta(call, 0);
    const bool batch_first = call->args[8].i;
    TRY(input_fits(call, state, 3));
    RecurrentSizes r = {
        .hx = 1, .gates = gates, .steps = input->sizes[batch_first], .batch = input->sizes[!batch_first]};
    TRY(check_layer(call, state, memory, &r));
    const int64_t width = sym_mul(call->env, r.state, r.directions);
    const int64_t sizes[3] = {r.steps, r.batch, width}, turned[3] = {r.batch, r.steps, width};
    out_plain(call, 0, input->dtype, input->device, sizes, 3);
    if (call->args[8].i) { /* a transpose of what the steps gave */
        MetaOut *const out = &call->out[0];
        const int64_t step = out->strides[0];
        memcpy(out->sizes, turned, sizeof turned);
        out->strides[0] = out->strides[1], out->strides[1] = step;
    }
    return states_out(call, state, memory);
}

/* (data, batch_sizes, hx, ...): hx says how many sequences there are; batch_sizes are checked as it runs. */
static Status packed_out(MetaCall *call, int gates, const Meta *state, const Meta *memory) {
    const Meta *const data = tensor_meta(call, 0), *const left = tensor_meta(call, 1);
    TRY(input_fits(call, state, 2));
    if (left->rank != 1 || left->dtype != DT_i64 || left->device != DEV_cpu)
        return meta_fail(call, left->rank != 1 ? ST_SHAPE : ST_DTYPE,
                         "batch_sizes must be i64[steps] on the CPU, not %s%s", dtype_name(left->dtype),
                         SIZES(call, left));
    RecurrentSizes r = {.hx = 2, .gates = gates, .steps = left->sizes[0], .batch = state->sizes[1]};
    TRY(check_layer(call, state, memory, &r));
    const int64_t sizes[2] = {data->sizes[0], sym_mul(call->env, r.state, r.directions)};
    out_plain(call, 0, data->dtype, data->device, sizes, 2);
    return states_out(call, state, memory);
}

static Status two_states(const MetaCall *call, const Arg *hx) {
    return hx->n == 2 ? ST_OK : meta_fail(call, ST_ARGUMENT, "hx has %d tensors, not 2", hx->n);
}

/* (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first) */
Status meta_lstm(MetaCall *call) {
    TRY(two_states(call, &call->args[1]));
    return layer_out(call, 4, call->args[1].vals[0]->meta, call->args[1].vals[1]->meta);
}
Status meta_lstm_data(MetaCall *call) {
    TRY(two_states(call, &call->args[2]));
    return packed_out(call, 4, call->args[2].vals[0]->meta, call->args[2].vals[1]->meta);
}
Status meta_gru_data(MetaCall *call) { return packed_out(call, 3, tensor_meta(call, 2), tensor_meta(call, 2)); }
Status meta_rnn_data(MetaCall *call) { return packed_out(call, 1, tensor_meta(call, 2), tensor_meta(call, 2)); }
Status meta_gru(MetaCall *call) { return layer_out(call, 3, tensor_meta(call, 1), tensor_meta(call, 1)); }
Status meta_rnn(MetaCall *call) { return layer_out(call, 1, tensor_meta(call, 1), tensor_meta(call, 1)); }

static Status check_cell(const MetaCall *call, int gates, const Meta *state) {
    const Meta *const input = tensor_meta(call, 0);
    if (!dtype_is_float(input->dtype))
        return meta_fail(call, ST_DTYPE, "input must be floating point, not %s", dtype_name(input->dtype));
    if (input->rank != 2 || state->rank != 2)
        return meta_fail(call, ST_SHAPE, "input %s and hx %s must have 2 dims", SIZES(call, input), SIZES(call, state));
    const int64_t rows = sym_mul(call->env, state->sizes[1], gates);
    const int64_t ih[2] = {rows, input->sizes[1]}, hh[2] = {rows, state->sizes[1]};
    TRY(recurrent_sizes(call, state, "hx", (const int64_t[]){input->sizes[0], state->sizes[1]}, 2));
    TRY(recurrent_sizes(call, tensor_meta(call, 2), "w_ih", ih, 2));
    TRY(recurrent_sizes(call, tensor_meta(call, 3), "w_hh", hh, 2));
    TRY(recurrent_like(call, state, "hx"));
    for (int i = 2; i < 6; i++) {
        if (!arg_given(call, i)) continue;
        TRY(recurrent_like(call, tensor_meta(call, i), arg_name(call, i)));
        if (i > 3) TRY(recurrent_sizes(call, tensor_meta(call, i), arg_name(call, i), &rows, 1));
    }
    return ST_OK;
}

/* (input, hx, w_ih, w_hh, b_ih, b_hh) */
Status meta_lstm_cell(MetaCall *call) {
    TRY(two_states(call, &call->args[1]));
    const Meta *const state = call->args[1].vals[0]->meta, *const memory = call->args[1].vals[1]->meta;
    TRY(check_cell(call, 4, state));
    TRY(recurrent_sizes(call, memory, "hx[1]", state->sizes, 2));
    TRY(recurrent_like(call, memory, "hx[1]"));
    for (int i = 0; i < 2; i++) out_plain(call, i, state->dtype, state->device, state->sizes, 2);
    return ST_OK;
}
static Status cell_out(MetaCall *call, int gates) {
    const Meta *const state = tensor_meta(call, 1);
    TRY(check_cell(call, gates, state));
    out_plain(call, 0, state->dtype, state->device, state->sizes, 2);
    return ST_OK;
}
Status meta_gru_cell(MetaCall *call) { return cell_out(call, 3); }
Status meta_rnn_cell(MetaCall *call) { return cell_out(call, 1); }
