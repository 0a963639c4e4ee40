/* vmap.c: a level of sn_vmap: which calls it changes, one run of a body. The rules are in vmap_rules.c. */
#include "runtime/transform/vmap.h"

#include "runtime/base/alloc.h"
#include "runtime/core/autocast.h"
#include "runtime/core/breaks.h"
#include "runtime/core/frame.h"
#include "runtime/transform/level_flow.h"
#include "runtime/core/tracer.h"

/* writing ------------------------------------------------------------------------------------- */

static Status check_same_sizes(const OpCall *call, const Meta *to, const Meta *from) {
    bool same = to->rank == from->rank;
    for (int d = 0; same && d < to->rank; d++) same = to->sizes[d] == from->sizes[d];
    if (same) return ST_OK;
    return error_raise(ST_SHAPE, "%s: inside of sn_vmap what is written keeps its sizes",
                       op_form_name(call->row, call->form));
}

/* The functional form's results are copied into what is written. */
static Status write_through(OpCall *call) {
    sn_tensor *outs[MAX_OUTS] = {0};
    TRY(dispatch(call->row, FORM_functional, call->args, NULL, outs));
    for (int i = 0; i < level_n_written(call); i++) {
        sn_tensor *const to = call_written(call, i);
        if (call->form == FORM_out) TRY(check_same_sizes(call, to->base.meta, outs[i]->base.meta));
        const Arg args[] = {A_VAL(&to->base), A_VAL(&outs[i]->base), A_BOOL(0)};
        TRY(dispatch(OP_ROW(copy), FORM_inplace, args, NULL, &call->outs[i]));
    }
    return ST_OK;
}

/* unsqueeze_ and the like: the handle becomes what the view is. */
static Status mutate_handle(OpCall *call) {
    sn_tensor *view = NULL, *const self = tensor_of(call->args[0].val);
    TRY(dispatch(call->row, FORM_functional, call->args, NULL, &view));
    tensor_batched_become(self, view);
    call->outs[0] = self;
    return ST_OK;
}

/* a call ------------------------------------------------------------------------------------------ */

/* Ops of the rule are temporaries, a level further out. */
static Status run_at(OpCall *call, const Level *level, bool here) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    level_leave(state, level);
    const Status status = call->row->flags & OPF_flow     ? vmap_flow(call, level)
                          : call->row->flags & OPF_random ? vmap_random(call, level)
                          : here                          ? vmap_rule(call, level)
                                                          : level_pass(call);
    scope_pop_passing(state, depth, call->outs, status == ST_OK ? call->n_outs : 0);
    return status;
}

/* What runs in place as it runs else: rules align arguments with self. */
static bool writes_itself(const OpCall *call) {
    return call->row->kind == KIND_pointwise && !vmap_names_dims(call->row);
}

static Status run_written(OpCall *call, const Level *level) {
    TRY(level_check_targets(call, level));
    const bool later = call->row->flags & OPF_random && level->start;
    if (call->form == FORM_functional || (call->form == FORM_inplace && writes_itself(call) && !later))
        return run_at(call, level, true);
    return write_through(call);
}

Status vmap_op(OpCall *call, const Level *level) {
    if (call->form == FORM_inplace && call->row->kind == KIND_view && tensor_is_batched(tensor_of(call->args[0].val)))
        return mutate_handle(call);
    return level_has(call, level) ? run_written(call, level) : run_at(call, level, false);
}

/* one run of a body --------------------------------------------------------------------------- */

/* Dim `from` of t at place `to`. */
static sn_tensor *move_dim(sn_tensor *t, int64_t from, int64_t to) {
    const int rank = t->base.meta->rank;
    int64_t dims[MAX_RANK];
    from = dim_wrap(from, rank), to = dim_wrap(to, rank);
    if (from == to) return t;
    for (int d = 0, next = 0; d < rank; d++) {
        next += next == from;
        dims[d] = d == to ? from : next++;
    }
    return tensor_of(E(eager_builder(), permute, V(&t->base), A_INTS(dims, rank)));
}

static sn_tensor *part_of(sn_tensor *t, int64_t dim, const Level *level, int64_t all) {
    if (level->size == all) return t;
    const int64_t end = level->start + level->size;
    return tensor_of(E(eager_builder(), slice_Tensor, V(&t->base), I(dim), I(level->start), I(end)));
}

static Status wrap_input(const VmapSpec *spec, const Level *level, int64_t all, int i, Arg *arg) {
    sn_tensor *t = spec->in[i];
    const int64_t dim = spec->in_dims ? spec->in_dims[i] : 0;
    *arg = arg_tensor_opt(t);
    if (!t || dim == SN_NO_INT) return ST_OK;
    if ((t = part_of(t, dim, level, all)) && (t = move_dim(t, dim, 0))) t = tensor_batched(t, level->id);
    if (!t) return error_pending();
    *arg = A_VAL(&t->base);
    return ST_OK;
}

/* What the body gave, as it is outside: all examples. */
static Status unwrap_output(const VmapSpec *spec, const Level *level, int i, sn_tensor **out) {
    sn_tensor *const t = *out, *inner = level_inner(level, &t->base);
    const int64_t dim = spec->out_dims ? spec->out_dims[i] : 0, rank = t->base.meta->rank + 1;
    if (dim == SN_NO_INT)
        return inner ? error_raise(ST_ARGUMENT,
                                   "sn_vmap: output %d differs from example to example; out_dims[%d] says "
                                   "that it does not",
                                   i, i)
                     : ST_OK;
    if (dim < -rank || dim >= rank)
        return error_raise(ST_SHAPE, "sn_vmap: out_dims[%d] is %lld; output %d has %lld dims with that of the examples",
                           i, (long long)dim, i, (long long)rank);
    sn_tensor *const all = inner ? inner : tensor_of(vmap_repeat(level, &t->base));
    *out = all ? move_dim(all, 0, dim) : NULL;
    return *out ? level_adopt(*out) : error_pending();
}

/* The body, with its level entered. A handle that came out of it is no example any more. */
static Status run_level(const VmapSpec *spec, Level *level, Arg *args, sn_tensor **outs) {
    sn_state *const state = state_get();
    sn_frame frame = {
        .what = "sn_vmap", .closure = spec->closure, .in = args, .n_in = spec->n_in, .out = outs, .n_out = spec->n_out};
    return level_run(state, level, &frame, spec->body);
}

static Status run_chunk(const VmapSpec *spec, Level *level, int64_t all, sn_tensor **outs) {
    Arg *const args = mem_alloc(sizeof *args * (size_t)(spec->n_in + 1));
    Status status = args ? ST_OK : ST_MEMORY;
    for (int i = 0; i < spec->n_in && status == ST_OK; i++) status = wrap_input(spec, level, all, i, &args[i]);
    if (status == ST_OK) status = run_level(spec, level, args, outs);
    mem_free(args);
    for (int i = 0; i < spec->n_out && status == ST_OK; i++) status = unwrap_output(spec, level, i, &outs[i]);
    return status;
}

/* Results of all parts, of which each has n_out. */
static Status join_parts(const VmapSpec *spec, Val **parts, int n_parts, Val **buffer) {
    for (int i = 0; i < spec->n_out; i++) {
        const int64_t dim = spec->out_dims ? spec->out_dims[i] : 0;
        for (int k = 0; k < n_parts; k++) buffer[k] = parts[k * spec->n_out + i];
        const bool one = n_parts == 1 || dim == SN_NO_INT;
        spec->out[i] = tensor_of(one ? buffer[0] : E(eager_builder(), cat, A_VALS(buffer, n_parts), I(dim)));
        if (!spec->out[i]) return error_pending();
    }
    return ST_OK;
}

/* Each part draws the numbers that it would among all. */
static Status rewind_generator(const sn_state *state, uint64_t sequence) {
    if (state->sequence == sequence) return ST_OK;
    return tracer_set_generator(state->seed, sequence, BREAK_REASON(vmap_chunks), BREAK_REASON(vmap_chunks));
}

static Status run_parts(const VmapSpec *spec, int64_t size, int n_parts, Val **parts) {
    sn_state *const state = state_get();
    Level level = level_new(state, LEVEL_vmap);
    level.random = spec->random;
    const uint64_t sequence = state->sequence;
    for (int k = 0; k < n_parts; k++) {
        level.start = k * spec->chunk;
        level.size = n_parts == 1 ? size : size - level.start < spec->chunk ? size - level.start : spec->chunk;
        if (k) TRY(rewind_generator(state, sequence));
        TRY(run_chunk(spec, &level, size, (sn_tensor **)parts + (ptrdiff_t)k * spec->n_out));
    }
    return join_parts(spec, parts, n_parts, parts + (ptrdiff_t)n_parts * spec->n_out);
}

Status vmap_run(const VmapSpec *spec, int64_t size) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    const int64_t n_parts = spec->chunk && spec->chunk < size ? (size + spec->chunk - 1) / spec->chunk : 1;
    if (n_parts > MAX_LIST)
        return error_raise(ST_ARGUMENT, "sn_vmap: %lld examples in chunks of %lld: more than %d chunks",
                           (long long)size, (long long)spec->chunk, MAX_LIST);
    Val **const parts = mem_zero(sizeof *parts * (size_t)(n_parts * (spec->n_out + 1) + 1));
    if (!parts) return ST_MEMORY;
    Status status = scope_push(state, false);
    if (status == ST_OK) {
        status = run_parts(spec, size, (int)n_parts, parts);
        scope_pop_passing(state, depth, spec->out, status == ST_OK ? spec->n_out : 0);
    }
    mem_free(parts);
    return status;
}
