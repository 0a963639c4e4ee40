/* region_ops.c: what a region that runs has of its ops: what they make, read and write, which results it keeps, and in
 * a second run whether they are the forward's. The key `checkpoint` sees them, once composites are their parts. */
#include "runtime/autograd/region_parts.h"
#include "runtime/base/hash.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/site.h"
#include "runtime/core/tracer.h"

static char made_inside; /* a value of RegionRun.known */

/* what a run has made, and what it reads --------------------------------------------------------------------------- */

static uint64_t storage_key(const Storage *storage) { return (uint64_t)(uintptr_t)storage; }
bool region_has_made(const RegionRun *run, const Storage *storage) {
    return map_get(&run->known, storage_key(storage)) == &made_inside;
}

Status region_record_made(RegionRun *run, const sn_tensor *t) {
    if (!t || !t->storage || map_get(&run->known, storage_key(t->storage))) return ST_OK;
    return map_set(&run->known, storage_key(t->storage), &made_inside) ? ST_OK : ST_MEMORY;
}

void region_made(sn_tensor *t) {
    tracer_effect((TracerEffect){.kind = EFFECT_made, .tensor = t});
    for (RegionRun *run = region_innermost(state_get()->saved_hooks); run; run = region_outer_run(run))
        region_record_made(run, t);
}

Status region_keep_outside(RegionRun *run, sn_tensor *t) {
    Region *const r = run->region;
    if (!VEC_GROW(r->arena, &r->outside)) return ST_MEMORY;
    Outside *const outside = &r->outside.at[r->outside.n];
    *outside = (Outside){.saved = {.arg = -1, .item = -1, .result = -1}};
    TRY(tape_save(&outside->saved, t));
    r->outside.n++;
    return saved_hooks_pack(run->saved_hooks.outer, &outside->saved, 1, NULL);
}

Status region_enter_outside(RegionRun *run, sn_tensor *t) {
    TRY(region_keep_outside(run, t));
    void *const place = (void *)(uintptr_t)run->region->outside.n; /* 1 + where it is */
    if (!t->storage || map_get(&run->known, storage_key(t->storage))) return ST_OK;
    return map_set(&run->known, storage_key(t->storage), place) ? ST_OK : ST_MEMORY;
}

/* The forward reads t, memory from outside of the region. A second run need not note that: what it reads from outside
 * was checked before it began. */
Status region_record_read(RegionRun *run, const OpRow *reader, sn_tensor *t) {
    if (run->again || !t->storage || region_has_made(run, t->storage)) return ST_OK;
    const uintptr_t known = (uintptr_t)map_get(&run->known, storage_key(t->storage));
    if (!known) TRY(region_enter_outside(run, t));
    Outside *const outside = &run->region->outside.at[known ? (int)known - 1 : run->region->outside.n - 1];
    if (!outside->reader) outside->reader = reader, outside->site = state_get()->site;
    return ST_OK;
}

Status region_each_read(const OpCall *call, RegionVisit *visit, void *region) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val) TRY(visit(region, call, tensor_of(a->val)));
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) TRY(visit(region, call, tensor_of(a->vals[k])));
    }
    return ST_OK;
}

static Status record_read(void *run, const OpCall *call, sn_tensor *t) { return region_record_read(run, call->row, t); }

/* writes ----------------------------------------------------------------------------------------------------------- */

const sn_tensor *region_kept_with(const Region *r, const Storage *storage) {
    for (int i = 0; i < r->kept.n; i++)
        if (r->kept.at[i].tensor && r->kept.at[i].tensor->storage == storage) return r->kept.at[i].tensor;
    return NULL;
}

static RegionOrigin origin_of(const void *region_run, const sn_tensor *t) {
    const RegionRun *const run = region_run;
    if (!t->storage) return ORIGIN_made;
    if (!region_has_made(run, t->storage)) return ORIGIN_outside;
    return region_kept_with(run->region, t->storage) ? ORIGIN_saved : ORIGIN_made;
}

static Status check_write(const OpCall *call, const sn_tensor *t, RegionOriginOf *origin, const void *region) {
    const RegionOrigin from = origin(region, t);
    if (LIKELY(from == ORIGIN_made)) return ST_OK;
    return error_raise(ST_STATE,
                       from == ORIGIN_saved
                           ? "%s: it would write a result that the policy of sn_checkpoint saves"
                           : "%s: in the body of sn_checkpoint it would write a tensor from outside of that, which a "
                             "second run would do again",
                       op_form_name(call->row, call->form));
}

Status region_check_writes(const OpCall *call, RegionOriginOf *origin, const void *region) {
    const OpRow *const row = call->row;
    const int n = call->form == FORM_inplace ? 1 : call->form == FORM_out ? row->n_out : 0;
    for (int i = 0; i < n; i++) TRY(check_write(call, call_written(call, i), origin, region));
    for (int i = 0; UNLIKELY(row->flags & OPF_user) && i < row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (param_is_written(&row->params[i]) && a->kind == ARG_tensor && a->val)
            TRY(check_write(call, tensor_of(a->val), origin, region));
    }
    return ST_OK;
}

/* ops -------------------------------------------------------------------------------------------------------------- */

static uint64_t mix_tensor(uint64_t h, const Val *val) {
    if (!val) return hash_mix(h, 1);
    h = hash_mix(h, (uint64_t)val->meta->dtype << 8 | (uint64_t)val->meta->rank);
    for (int d = 0; d < val->meta->rank; d++) h = hash_mix(h, (uint64_t)val->meta->sizes[d]);
    return h;
}

static uint64_t shape_of(const OpCall *call) {
    uint64_t h = (uint64_t)call->form;
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        h = hash_mix(h, (uint64_t)a->head);
        if (a->kind == ARG_tensor) h = mix_tensor(h, a->val);
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++) h = mix_tensor(h, a->vals[k]);
        for (int k = 0; (a->kind == ARG_ints || a->kind == ARG_floats) && k < a->n; k++)
            h = hash_mix(h, (uint64_t)a->ints[k]);
        if (a->kind == ARG_int || a->kind == ARG_bool || a->kind == ARG_float) h = hash_mix(h, (uint64_t)a->i);
        if (a->kind == ARG_string) h = hash_bytes(h, a->string, strlen(a->string));
    }
    return h;
}

static Status op_differs(const RegionRun *run, const OpCall *call) {
    char now[256], then[256] = "";
    const RegionOp *const op = run->op < run->region->ops.n ? &run->region->ops.at[run->op] : NULL;
    site_name(state_get()->site, now, sizeof now);
    if (op) site_name(op->site, then, sizeof then);
    if (!op)
        return error_raise(ST_STATE, "sn_checkpoint: op %d of the second run is %s at %s; the forward had ended",
                           run->op, op_form_name(call->row, call->form), now);
    return error_raise(ST_STATE,
                       "sn_checkpoint: op %d of the second run is %s at %s; that of the forward was %s at %s%s",
                       run->op, op_form_name(call->row, call->form), now, op_form_name(op->row, op->form), then,
                       op->row == call->row && op->form == call->form ? ", with other sizes or numbers" : "");
}

/* A forward's op is noted, one of a run again is to be the same. *kept: the place of its results, which are not
 * computed; -1. */
static Status record_one_op(RegionRun *run, const OpCall *call, int *kept) {
    Region *const r = run->region;
    *kept = -1;
    const uint64_t shape = shape_of(call);
    if (run->again) {
        if (run->op >= r->ops.n) return op_differs(run, call);
        const RegionOp *const op = &r->ops.at[run->op];
        if (op->row != call->row || op->shape != shape) return op_differs(run, call);
        if (op->kept >= 0) *kept = op->kept;
        run->op++;
        return ST_OK;
    }
    if (!VEC_GROW(r->arena, &r->ops)) return ST_MEMORY;
    r->ops.at[r->ops.n++] = (RegionOp){call->row, call->form, shape, state_get()->site, -1, 0};
    return ST_OK;
}

bool region_policy_saves(const RegionPolicy *policy, const OpCall *call) {
    if (call->form != FORM_functional || call->row->kind == KIND_view || call->row->returns_list) return false;
    return policy->saves && policy->saves(policy->context, call->row->name);
}

/* Effects happen once [C12]. Control flow in the body is one op, which a graph has in the place of its bodies' ops;
 * where a body is traced its ops make nothing, and a result kept of them would be something to close over when it is
 * traced again. */
static bool wants_kept(const Region *r, const OpCall *call) {
    if (tracer_refuses(state_get())) return false;
    if (call->row->flags & OPF_ordered) return true;
    return state_get()->flows == r->context.flows && region_policy_saves(&r->call.policy, call);
}

static Status keep_results(RegionRun *run, const OpCall *call, uint64_t drawn) {
    Region *const r = run->region;
    RegionOp *const op = &r->ops.at[r->ops.n - 1];
    op->kept = r->kept.n, op->drawn = drawn;
    for (int i = 0; i < call->n_outs; i++) {
        if (!VEC_GROW(r->arena, &r->kept)) return ST_MEMORY;
        sn_tensor *const alias = call->outs[i] ? tensor_alias(call->outs[i]) : NULL;
        if (call->outs[i] && !alias) return ST_MEMORY;
        r->kept.at[r->kept.n++] = (KeptResult){alias, alias ? tensor_version(alias) : 0};
    }
    return ST_OK;
}

/* In place of the op: handles of what it gave, and its node, whose values go into slots like those of others. */
static Status release_kept(const RegionRun *run, OpCall *call, int kept) {
    const Region *const r = run->region;
    state_get()->sequence += r->ops.at[run->op - 1].drawn;
    for (int i = 0; i < call->n_outs; i++) {
        sn_tensor *const t = r->kept.at[kept + i].tensor;
        call->outs[i] = t ? tensor_from_storage(t->storage, t->base.meta, t->offset) : NULL;
        if (t && !call->outs[i]) return ST_MEMORY;
    }
    sn_state *const state = state_get();
    if (state->grad_mode != SN_GRAD_ON || call->row->flags & OPF_nodiff) return ST_OK;
    return tape_record(call->row, call->args, call->outs, call->n_outs, ++state->tape.sequence);
}

/* What the forward saved is there. A body passes errors on, and has ended soon. */
static Status end_early(RegionRun *run) {
    run->enough = true;
    return error_raise(ST_CALLBACK, "sn_checkpoint: all that the backward needs is there");
}

static bool is_full(const RegionRun *run) { return run->again && run->slot == run->region->slots.n; }

/* Shows memory of an argument, or was there before. */
bool region_is_fresh(const OpCall *call, const sn_tensor *out) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val && tensor_of(a->val)->storage == out->storage) return false;
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k] && tensor_of(a->vals[k])->storage == out->storage) return false;
    }
    return true;
}

static Status before_op(OpCall *call, RegionRun *first, const RegionRun **gives, int *kept) {
    *gives = NULL;
    for (RegionRun *run = first; run; run = region_outer_run(run)) {
        int at;
        if (is_full(run)) return end_early(run);
        TRY(record_one_op(run, call, &at));
        TRY(region_each_read(call, record_read, run));
        TRY(region_check_writes(call, origin_of, run));
        if (at >= 0) *gives = run, *kept = at;
    }
    return ST_OK;
}

static Status after_op(OpCall *call, RegionRun *first, uint64_t drawn) {
    for (RegionRun *run = first; run; run = region_outer_run(run)) {
        for (int i = 0; call->form == FORM_functional && i < call->n_outs; i++)
            if (call->outs[i] && region_is_fresh(call, call->outs[i])) TRY(region_record_made(run, call->outs[i]));
        if (!run->again && wants_kept(run->region, call)) TRY(keep_results(run, call, drawn));
    }
    return ST_OK;
}

/* The key's kernel: every op of a region, once composites are their parts. */
static Status see_op(OpCall *call) {
    RegionRun *const first = region_innermost(state_get()->saved_hooks);
    if (!first || call->row->kind == KIND_composite) return redispatch(call);
    const RegionRun *gives;
    int kept;
    TRY(before_op(call, first, &gives, &kept));
    /* What a program's kernel calls is its own; what an op calls, too. */
    sn_state *const state = state_get();
    const uint64_t sequence = state->sequence;
    const ContextSaved saved = context_enter(state, CONTEXT_below_checkpoint);
    for (RegionRun *run = first; run; run = region_outer_run(run)) run->call = call;
    const Status status = gives ? release_kept(gives, call, kept) : redispatch(call);
    context_leave(&saved);
    for (RegionRun *run = first; run; run = region_outer_run(run)) run->call = NULL;
    return status == ST_OK ? after_op(call, first, state->sequence - sequence) : status;
}

void region_start(void) { dispatch_fallback(KEY_checkpoint, see_op); }
