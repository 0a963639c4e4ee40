/* region.c: see region.h. Regions whose body runs at once.
 *
 * The forward runs the body as ever; its ops are seen by the key `checkpoint`, and its nodes take their places on the
 * tape. But what they save of values that the region made is packed as a slot of the region, empty once the body has
 * returned. The first backward that needs a slot runs the body again, under the forward's modes and generator, whose
 * ops save in the same order: the k-th value fills slot k. The nodes of that run are thrown away.
 *
 *   forward   exp(x) -> %0, slot 0 = result   mul(%0, y) -> slot 1 = %0, y is kept as it is     slots: -  -
 *   backward  of mul: slot 1 is empty: again  exp(x) -> slot 0   mul -> slot 1, all are full    slots: %0 %0
 *
 * Memory that the region did not make is kept, with its version when it was first read; a write since is an error.
 * Regions lie in each other: what the inner one keeps of values of the outer one is packed by that one. */
#include "runtime/autograd/region_parts.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/core/site.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/tracer.h"

/* life ------------------------------------------------------------------------------------------------------------- */

static void region_release(Region *r) {
    if (!refs_drop(&r->refs)) return;
    for (int i = 0; i < r->outside.n; i++) tape_saved_drop(&r->outside.at[i].saved);
    for (int i = 0; i < r->kept.n; i++) tensor_release(r->kept.at[i].tensor);
    for (int i = 0; i < r->slots.n; i++) tensor_release(r->slots.at[i].tensor);
    for (int i = 0; r->in && i < r->call.n_in; i++) tape_edge_drop(&r->in[i].edge);
    const sn_free_fn closure_free = r->call.closure_free;
    void *const closure = r->call.closure;
    arena_free(r->arena);
    closure_free_run(closure_free, closure);
}

bool region_runs_again(void) {
    const RegionRun *run = region_innermost(state_get()->saved_hooks);
    while (run && !run->again) run = region_outer_run(run);
    return run != NULL;
}

static RegionRun *run_new(Region *region, bool again) {
    RegionRun *const run = mem_alloc(sizeof *run);
    if (!run) return NULL;
    *run = (RegionRun){.saved_hooks.class = &region_run_class, .region = region, .again = again};
    refs_add(&region->refs, 1);
    return run;
}

static void run_end(struct SavedHooks *hooks) {
    RegionRun *const run = (RegionRun *)hooks;
    map_free(&run->known);
    region_release(run->region);
    mem_free(run);
}

Status region_refusal(const char *what) {
    return error_raise(ST_STATE, "%s: not in the body of sn_checkpoint, whose second run would do it again", what);
}

Status region_refuse(const char *what) {
    TRY(tracer_effect((TracerEffect){.kind = EFFECT_once, .what = reason_called(what)}));
    return UNLIKELY(region_innermost(state_get()->saved_hooks) != NULL) ? region_refusal(what) : ST_OK;
}

Status region_run_body(const RegionCall *call, const Arg *in, sn_tensor **out) {
    sn_frame frame = {.what = "the body of sn_checkpoint",
                      .closure = call->closure,
                      .in = in,
                      .n_in = call->n_in,
                      .out = out,
                      .n_out = call->n_out};
    return frame_run(&frame, call->body);
}

/* slots ------------------------------------------------------------------------------------------------------------ */

static void slot_set(SlotValue *slot, sn_tensor *t) {
    tensor_release(slot->tensor);
    *slot = (SlotValue){t ? tensor_retained(t) : NULL, t ? tensor_version(t) : 0, slot->kept};
}

static void slot_release(TapePacked *packed) {
    RegionSlot *const slot = (RegionSlot *)packed;
    Region *const r = slot->region;
    slot_set(&r->slots.at[slot->slot], NULL);
    mem_free(slot);
    region_release(r);
}

static const TapePackedClass slot_class;

static Status new_slot(Region *r, sn_tensor *t, TapePacked **packed) {
    RegionSlot *const slot = VEC_GROW(r->arena, &r->slots) ? mem_alloc(sizeof *slot) : NULL;
    if (!slot) return ST_MEMORY;
    *slot = (RegionSlot){.packed.class = &slot_class, .region = r, .slot = r->slots.n};
    r->slots.at[r->slots.n] = (SlotValue){0};
    slot_set(&r->slots.at[r->slots.n++], t);
    refs_add(&r->refs, 1);
    *packed = &slot->packed;
    return ST_OK;
}

/* The node, which is thrown away, has it meanwhile. */
static Status fill_slot(RegionRun *run, sn_tensor *t) {
    Region *const r = run->region;
    if (run->slot >= r->slots.n) return ST_OK; /* the op that was the last one saves no more than the forward's */
    slot_set(&r->slots.at[run->slot++], t);
    return ST_OK;
}

static bool is_result(const OpCall *call, const sn_tensor *t) {
    if (!call || call->form != FORM_functional || !region_is_fresh(call, t)) return false;
    for (int i = 0; i < call->n_outs; i++)
        if (call->outs[i] && call->outs[i]->storage == t->storage) return true;
    return false;
}

static Status run_pack(struct SavedHooks *hooks, sn_tensor *t, const TapeEdge *from, TapePacked **packed) {
    RegionRun *const run = (RegionRun *)hooks;
    if (!t->storage || !(region_has_made(run, t->storage) || is_result(run->call, t))) return ST_OK;
    return run->again ? fill_slot(run, t) : new_slot(run->region, t, packed);
}

static Status run_copied(struct SavedHooks *hooks, const sn_tensor *t, const sn_tensor *copy) {
    RegionRun *const run = (RegionRun *)hooks;
    return t->storage && region_has_made(run, t->storage) ? region_record_made(run, copy) : ST_OK;
}

/* A kept cast counts as one that the region makes: the second run makes it of the leaf, which it reads. */
static Status run_shared(struct SavedHooks *hooks, const OpRow *row, sn_tensor *t, const sn_tensor *made) {
    RegionRun *const run = (RegionRun *)hooks;
    if (run->call) return ST_OK; /* a program's kernel has it, like all that it calls */
    TRY(region_record_read(run, row, t));
    return region_record_made(run, made);
}

static bool run_chooses(const struct SavedHooks *hooks) {
    return ((const RegionRun *)hooks)->region->call.policy.saves;
}

const SavedHooksClass region_run_class = {
    .pack = run_pack, .end = run_end, .copied = run_copied, .shared = run_shared, .chooses = run_chooses};

/* the second run --------------------------------------------------------------------------------------------------- */

void region_print_name(Text *text, const OpRow *reader, const void *site) {
    char place[256];
    text_puts(text, "sn_checkpoint");
    if (!reader) return;
    site_name(site, place, sizeof place);
    text_printf(text, ": %s at %s", reader->name, place);
}

static Status check_outside(const Region *r) {
    for (int i = 0; i < r->outside.n; i++) {
        const Outside *const o = &r->outside.at[i];
        if (!o->reader || o->saved.is_packed || tape_saved_version(&o->saved) == o->saved.version) continue;
        Text name = {0};
        region_print_name(&name, o->reader, o->site);
        const Status status = tape_saved_error(o->saved.tensor->base.meta, text_str(&name),
                                               tape_saved_version(&o->saved), o->saved.version);
        text_free(&name);
        return status;
    }
    for (int i = 0; i < r->kept.n; i++) {
        const KeptResult *const kept = &r->kept.at[i];
        if (!kept->tensor || tensor_version(kept->tensor) == kept->version) continue;
        return tape_saved_error(kept->tensor->base.meta, "sn_checkpoint", tensor_version(kept->tensor), kept->version);
    }
    return ST_OK;
}

/* Inputs that share memory share its copy. NULL: out of memory, or an error is pending. */
static Storage *copied_storage(RegionRun *run, Storage *of) {
    for (int i = 0; i < run->copies.n; i++)
        if (run->copies.at[i].of == of) return run->copies.at[i].copy;
    const Meta *const bytes = meta_intern_contiguous(DT_u8, of->device, (const int64_t[]){(int64_t)of->bytes}, 1);
    sn_tensor *const whole = bytes ? tensor_from_storage(of, bytes, 0) : NULL;
    sn_tensor *const copy = whole ? tape_clone(whole, NULL) : NULL;
    if (!copy || !VEC_GROW(run->region->arena, &run->copies)) return NULL;
    run->copies.at[run->copies.n++] = (MadeCopy){of, copy->storage};
    return copy->storage;
}

/* Replaces a tensor that an earlier part of the region made by a copy. */
static Status copy_made(RegionRun *run, sn_tensor **t) {
    Storage *const copy = copied_storage(run, (*t)->storage);
    *t = copy ? tensor_from_storage(copy, (*t)->base.meta, (*t)->offset) : NULL;
    return *t ? ST_OK : error_pending() ? error_pending() : ST_MEMORY;
}

/* The input with the history of the call. */
static Status again_input(RegionRun *run, const RegionInput *in, Arg *arg) {
    *arg = in->arg;
    if (in->outside < 0) return ST_OK;
    const TapeSaved *const saved = &run->region->outside.at[in->outside].saved;
    const TapeEdge *const edge = &in->edge;
    TapeSaved value = *saved;
    if (saved->is_packed) TRY(saved_hooks_unpack(saved, "sn_checkpoint", &value));
    sn_tensor *t = value.tensor;
    if (in->made) {
        TRY(copy_made(run, &t)); /* the run may write it, and another one comes after */
        TRY(region_record_made(run, t));
    } else if (!edge->leaf && t->storage && !(t = tensor_from_storage(t->storage, t->base.meta, t->offset)))
        return ST_MEMORY;
    if (edge->target && !edge->leaf) TRY(tape_attach(t, edge->target, edge->output));
    arg->val = &t->base;
    return ST_OK;
}

static Status again_frame(RegionRun *run, Arg *in, sn_tensor **out) {
    Region *const r = run->region;
    for (int i = 0; i < r->call.n_in; i++) TRY(again_input(run, &r->in[i], &in[i]));
    const Status status = region_run_body(&r->call, in, out);
    if (run->enough) {
        error_clear();
        return ST_OK;
    }
    return status;
}

static Status check_filled(const RegionRun *run, const char *node) {
    const Region *const r = run->region;
    if (run->slot == r->slots.n) return ST_OK;
    if (run->op >= r->ops.n)
        return error_raise(ST_STATE,
                           "sn_checkpoint: the second run saves %d values where the forward saved %d; a tensor "
                           "requires gradients no more, which did, or the other way round",
                           run->slot, r->slots.n);
    char site[256];
    const RegionOp *const op = &r->ops.at[run->op];
    site_name(op->site, site, sizeof site);
    return error_raise(ST_STATE,
                       "sn_checkpoint: the second run, for %s, ends after %d ops; the forward went on with %s at %s",
                       node, run->op, op_form_name(op->row, op->form), site);
}

/* As they were for the forward; the end of the scope puts back the caller's. */
static void enter_modes(sn_state *state, const Region *r) {
    scope_keep_generator(state);
    state->seed = r->seed;
    state->sequence = r->sequence;
    scope_enter_modes(state, &r->context);
    context_key_set(state, KEY_BIT(checkpoint), true);
    autocast_set(state, r->context.autocast);
}

static Status run_again_inside(Region *r, RegionRun *run, const char *node) {
    sn_state *const state = state_get();
    memset(r->again_out, 0, (size_t)r->call.n_out * sizeof(sn_tensor *));
    enter_modes(state, r);
    saved_hooks_push(&run->saved_hooks);
    TRY(again_frame(run, r->again_in, r->again_out));
    return check_filled(run, node);
}

static Status run_again(Region *r, const char *node) {
    sn_state *const state = state_get();
    if (!r->finished) return error_raise(ST_STATE, "sn_checkpoint: a value of a region whose forward failed");
    TRY(check_outside(r));
    __attribute__((cleanup(context_leave), unused)) const ContextSaved saved = context_enter(state, CONTEXT_eager);
    const uint64_t sequence = state->tape.sequence;
    TRY(scope_push(state, false));
    context_enter_scope(state,
                        CONTEXT_again); /* the thread may be in another region's forward: it has no part in this */
    RegionRun *const run = run_new(r, true);
    const Status status = run ? run_again_inside(r, run, node) : ST_MEMORY;
    scope_pop(state);
    state->tape.sequence = sequence; /* of nodes that are gone */
    return status;
}

static sn_tensor *slot_unpack(TapePacked *packed, const Meta *meta, const char *node) {
    const RegionSlot *const slot = (RegionSlot *)packed;
    Region *const r = slot->region;
    SlotValue *const at = &r->slots.at[slot->slot];
    if (!at->tensor && run_again(r, node) != ST_OK) return NULL;
    const Meta *const now = at->tensor->base.meta;
    if (!meta_same_sizes(now, meta) || now->dtype != meta->dtype) {
        error_raise(ST_STATE, "sn_checkpoint: the second run saves another value for %s than the forward did", node);
        return NULL;
    }
    if (tensor_version(at->tensor) != at->version) { /* written since, in the body */
        tape_saved_error(now, node, tensor_version(at->tensor), at->version);
        return NULL;
    }
    sn_tensor *const t = tensor_from_storage(at->tensor->storage, now, at->tensor->offset);
    if (r->finished) slot_set(at, NULL);
    return t;
}

static const sn_tensor *slot_kept(const TapePacked *packed) {
    const RegionSlot *const slot = (const RegionSlot *)packed;
    const SlotValue *const at = &slot->region->slots.at[slot->slot];
    return at->kept ? at->kept : at->tensor;
}

static const TapePackedClass slot_class = {
    .name = "checkpoint", .unpack = slot_unpack, .release = slot_release, .kept = slot_kept};

/* the forward ------------------------------------------------------------------------------------------------------ */

static Region *region_new(const RegionCall *call) {
    Arena *const arena = arena_new();
    Region *const r = arena ? ARENA_NEW(arena, Region) : NULL;
    if (!r) {
        arena_free(arena);
        closure_free_run(call->closure_free, call->closure);
        return NULL;
    }
    const sn_state *const state = state_get();
    *r = (Region){.refs = 1,
                  .arena = arena,
                  .call = *call,
                  .in = ARENA_ARRAY(arena, RegionInput, call->n_in + 1),
                  .again_in = ARENA_ARRAY(arena, Arg, call->n_in + 1),
                  .again_out = ARENA_ARRAY(arena, sn_tensor *, call->n_out + 1),
                  .seed = state->seed,
                  .sequence = state->sequence,
                  .context = state->context};
    r->call.in = NULL, r->call.made = NULL, r->call.out = NULL;
    if (r->in && r->again_in && r->again_out) return r;
    region_release(r);
    return NULL;
}

static Status keep_input(RegionRun *run, RegionInput *in, sn_tensor *t) {
    in->arg.val = NULL;
    TRY(tape_edge_set(&in->edge, t));
    if (in->made) {
        TRY(region_record_made(run, t));
        TRY(copy_made(run, &t));
        TRY(region_keep_outside(run, t));
    } else
        TRY(region_enter_outside(run, t));
    in->outside = run->region->outside.n - 1;
    return ST_OK;
}

/* The inputs are what is kept first. */
static Status keep_inputs(RegionRun *run, const RegionCall *call) {
    for (int i = 0; i < call->n_in; i++) {
        const Arg *const arg = &call->in[i];
        RegionInput *const in = &run->region->in[i];
        sn_tensor *const t = arg->kind == ARG_tensor && arg->val ? tensor_of(arg->val) : NULL;
        *in = (RegionInput){.arg = *arg, .outside = -1, .made = t && t->storage && call->made && call->made[i]};
        if (t) TRY(keep_input(run, in, t));
    }
    return ST_OK;
}

/* Ends the forward: it keeps only what must not be computed again. */
static void finish(Region *r) {
    for (int i = 0; i < r->slots.n; i++) {
        SlotValue *const at = &r->slots.at[i];
        at->kept = at->tensor ? region_kept_with(r, at->tensor->storage) : NULL;
        slot_set(at, NULL);
    }
    r->finished = true;
}

static Status run_forward(Region *r, const RegionCall *call) {
    sn_state *const state = state_get();
    RegionRun *const run = run_new(r, false);
    region_release(r); /* the run's, which ends with the scope: a body need not return */
    if (!run) return ST_MEMORY;
    saved_hooks_push(&run->saved_hooks);
    TRY(keep_inputs(run, call));
    context_key_set(state, KEY_BIT(checkpoint), true);
    TRY(region_run_body(call, call->in, call->out));
    finish(r);
    return ST_OK;
}

/* It has the closure, also where it fails. */
static Status call_eagerly(sn_state *state, const RegionCall *call) {
    Region *const r = region_new(call);
    if (!r) return ST_MEMORY;
    const uint32_t depth = state->n_scopes;
    if (scope_push(state, false) != ST_OK) {
        region_release(r);
        return ST_MEMORY;
    }
    const Status status = run_forward(r, call);
    scope_pop_passing(state, depth, call->out, status == ST_OK ? call->n_out : 0);
    for (int i = 0; status != ST_OK && i < call->n_out; i++) call->out[i] = NULL;
    return status;
}

/* Inside of transforms the tapes are the levels', and their handles have no memory that could be freed; and a mode's
 * handler, which the second run would need, may be gone by then. So the body runs, and what any op keeps is kept. */
static bool keeps_all(const sn_state *state) {
    static _Atomic bool said;
    if (!state->level && !state->modes && !state->api_modes) return false;
    if (!atomic_exchange(&said, true))
        LOG(vmap, WARNING,
            "sn_checkpoint: inside of sn_vmap, sn_func_grad and their like, and where a user mode is active, nothing "
            "is computed again: what a backward needs is kept");
    return true;
}

static bool call_recorded(const sn_state *state, const RegionCall *call, Status *status) {
    Tracer *const recording = tracer_recording(state);
    return recording && recording->is->region(recording, call, status);
}

Status region_call(const RegionCall *call) {
    sn_state *const state = state_get();
    Status status;
    if (keeps_all(state))
        status = region_run_body(call, call->in, call->out);
    else if (!call_recorded(state, call, &status)) {
        if (state->grad_mode == SN_GRAD_ON) return call_eagerly(state, call);
        status = region_run_body(call, call->in, call->out);
    }
    closure_free_run(call->closure_free, call->closure);
    return status;
}
