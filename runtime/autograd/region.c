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
#include "runtime/autograd/region.h"

#include <stdio.h>

#include "runtime/autograd/saved_hooks.h"
#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/core/site.h"
#include "runtime/core/autocast.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/tracer.h"

typedef struct RegionOp {
    const OpRow *row;
    OpForm form;
    uint64_t shape; /* hash of the call but for values */
    const void *site;
    int kept;       /* where its results are in Region.kept; none: -1 */
    uint64_t drawn; /* of the generator's sequence, by what is kept: the ops behind it have the numbers that they had */
} RegionOp;

typedef struct Outside { /* a tensor that the region did not make */
    TapeSaved saved;
    const OpRow *reader; /* the first; NULL: an input that nobody has read */
    const void *site;
} Outside;

typedef struct KeptResult { /* a result that is not computed again */
    sn_tensor *tensor;
    uint32_t version;
} KeptResult;

typedef struct SlotValue {
    sn_tensor *tensor;     /* owned; NULL: empty */
    uint32_t version;      /* when a node saved it */
    const sn_tensor *kept; /* the region's, whose memory has it all the time; or NULL */
} SlotValue;

typedef struct Region {
    _Atomic int32_t refs; /* runs, slots */
    Arena *arena;
    RegionCall call; /* without its outputs, and: */
    Arg *in;         /* by input; a tensor's is NULL: */
    bool *made;      /* `in_outside` has a copy */
    int *in_outside; /* where it is in `outside`, or -1 */
    TapeEdge *edges; /* its history */
    Arg *again_in;   /* of the run that goes on */
    sn_tensor **again_out;
    Context context;         /* of the forward */
    uint64_t seed, sequence; /* the generator then */
    VEC(RegionOp) ops;
    VEC(Outside) outside;
    VEC(KeptResult) kept;
    VEC(SlotValue) slots;
    bool finished; /* the forward has returned */
} Region;

typedef struct MadeCopy {
    const Storage *of;
    Storage *copy; /* a tensor has it */
} MadeCopy;

typedef struct RegionRun { /* the forward, or a run for the slots */
    struct SavedHooks saved_hooks;
    Region *region;
    bool again;
    bool enough;          /* all slots are full: the body is to end */
    Map known;            /* storages: made inside, or a place in `outside` */
    VEC(MadeCopy) copies; /* of inputs that the region made */
    int op, slot;         /* again: the next ones */
    const OpCall *call;   /* that runs: its node saves results which are not known yet */
} RegionRun;

typedef struct RegionSlot {
    TapePacked packed;
    Region *region;
    int slot;
} RegionSlot;

static char made_inside; /* a value of RegionRun.known */

/* life ------------------------------------------------------------------------------------------------------------- */

static void region_release(Region *r) {
    if (!refs_drop(&r->refs)) return;
    for (int i = 0; i < r->outside.n; i++) tape_saved_drop(&r->outside.at[i].saved);
    for (int i = 0; i < r->kept.n; i++) tensor_release(r->kept.at[i].tensor);
    for (int i = 0; i < r->slots.n; i++) tensor_release(r->slots.at[i].tensor);
    for (int i = 0; r->edges && i < r->call.n_in; i++) tape_edge_drop(&r->edges[i]);
    const sn_free_fn closure_free = r->call.closure_free;
    void *const closure = r->call.closure;
    arena_free(r->arena);
    closure_free_run(closure_free, closure);
}

static const SavedHooksClass run_class;

/* The innermost region that this thread is in; those of hooks lie between. */
static RegionRun *innermost(struct SavedHooks *hooks) {
    while (hooks && hooks->class != &run_class) hooks = hooks->outer;
    return (RegionRun *)hooks;
}
static RegionRun *outer_of(const RegionRun *run) { return innermost(run->saved_hooks.outer); }

bool region_runs_again(void) {
    const RegionRun *run = innermost(state_get()->saved_hooks);
    while (run && !run->again) run = outer_of(run);
    return run != NULL;
}

static RegionRun *run_new(Region *region, bool again) {
    RegionRun *const run = mem_alloc(sizeof *run);
    if (!run) return NULL;
    *run = (RegionRun){.saved_hooks.class = &run_class, .region = region, .again = again};
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
    TRY(tracer_effect((TracerEffect){.kind = EFFECT_once, .what = what}));
    return UNLIKELY(innermost(state_get()->saved_hooks) != NULL) ? region_refusal(what) : ST_OK;
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

/* what a run has made, and what it reads --------------------------------------------------------------------------- */

static uint64_t storage_key(const Storage *storage) { return (uint64_t)(uintptr_t)storage; }
static bool made_inside_of(const RegionRun *run, const Storage *storage) {
    return map_get(&run->known, storage_key(storage)) == &made_inside;
}

static Status record_made(RegionRun *run, const sn_tensor *t) {
    if (!t || !t->storage || map_get(&run->known, storage_key(t->storage))) return ST_OK;
    return map_set(&run->known, storage_key(t->storage), &made_inside) ? ST_OK : ST_MEMORY;
}

void region_made(sn_tensor *t) {
    tracer_effect((TracerEffect){.kind = EFFECT_made, .tensor = t});
    for (RegionRun *run = innermost(state_get()->saved_hooks); run; run = outer_of(run)) record_made(run, t);
}

/* KeptResult as what a node saves: packed by a region further out, where that made it. */
static Status keep_outside(RegionRun *run, sn_tensor *t) {
    Region *const r = run->region;
    if (!VEC_GROW(r->arena, &r->outside)) return ST_MEMORY;
    Outside *const outside = &r->outside.at[r->outside.n];
    *outside = (Outside){.saved = {.arg = -1, .item = -1, .result = -1}};
    TRY(tape_save(&outside->saved, t));
    r->outside.n++;
    return saved_hooks_pack(run->saved_hooks.outer, &outside->saved, 1, NULL);
}

static Status enter_outside(RegionRun *run, sn_tensor *t) {
    TRY(keep_outside(run, t));
    void *const place = (void *)(uintptr_t)run->region->outside.n; /* 1 + where it is */
    return map_set(&run->known, storage_key(t->storage), place) ? ST_OK : ST_MEMORY;
}

/* The forward reads t, memory from outside of the region. A second run need not note that: what it reads from outside
 * was checked before it began. */
static Status record_read(RegionRun *run, const OpRow *reader, sn_tensor *t) {
    if (run->again || !t->storage || made_inside_of(run, t->storage)) return ST_OK;
    const uintptr_t known = (uintptr_t)map_get(&run->known, storage_key(t->storage));
    if (!known) TRY(enter_outside(run, t));
    Outside *const outside = &run->region->outside.at[known ? (int)known - 1 : run->region->outside.n - 1];
    if (!outside->reader) outside->reader = reader, outside->site = state_get()->site;
    return ST_OK;
}

static Status record_reads(RegionRun *run, const OpCall *call) {
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const a = &call->args[i];
        if (a->kind == ARG_tensor && a->val) TRY(record_read(run, call->row, tensor_of(a->val)));
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) TRY(record_read(run, call->row, tensor_of(a->vals[k])));
    }
    return ST_OK;
}

/* writes ----------------------------------------------------------------------------------------------------------- */

static const sn_tensor *kept_with(const Region *r, const Storage *storage) {
    for (int i = 0; i < r->kept.n; i++)
        if (r->kept.at[i].tensor && r->kept.at[i].tensor->storage == storage) return r->kept.at[i].tensor;
    return NULL;
}

static RegionOrigin origin_of(const void *region_run, const sn_tensor *t) {
    const RegionRun *const run = region_run;
    if (!t->storage) return ORIGIN_made;
    if (!made_inside_of(run, t->storage)) return ORIGIN_outside;
    return kept_with(run->region, t->storage) ? ORIGIN_saved : ORIGIN_made;
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
static bool is_fresh(const OpCall *call, const sn_tensor *out) {
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
    for (RegionRun *run = first; run; run = outer_of(run)) {
        int at;
        if (is_full(run)) return end_early(run);
        TRY(record_one_op(run, call, &at));
        TRY(record_reads(run, call));
        TRY(region_check_writes(call, origin_of, run));
        if (at >= 0) *gives = run, *kept = at;
    }
    return ST_OK;
}

static Status after_op(OpCall *call, RegionRun *first, uint64_t drawn) {
    for (RegionRun *run = first; run; run = outer_of(run)) {
        for (int i = 0; call->form == FORM_functional && i < call->n_outs; i++)
            if (call->outs[i] && is_fresh(call, call->outs[i])) TRY(record_made(run, call->outs[i]));
        if (!run->again && wants_kept(run->region, call)) TRY(keep_results(run, call, drawn));
    }
    return ST_OK;
}

/* The key's kernel: every op of a region, once composites are their parts. */
static Status see_op(OpCall *call) {
    RegionRun *const first = innermost(state_get()->saved_hooks);
    if (!first || call->row->kind == KIND_composite) return redispatch(call);
    const RegionRun *gives;
    int kept;
    TRY(before_op(call, first, &gives, &kept));
    /* What a program's kernel calls is its own; what an op calls, too. */
    sn_state *const state = state_get();
    const uint64_t sequence = state->sequence;
    const ContextSaved saved = context_enter(state, CONTEXT_below_checkpoint);
    for (RegionRun *run = first; run; run = outer_of(run)) run->call = call;
    const Status status = gives ? release_kept(gives, call, kept) : redispatch(call);
    context_leave(&saved);
    for (RegionRun *run = first; run; run = outer_of(run)) run->call = NULL;
    return status == ST_OK ? after_op(call, first, state->sequence - sequence) : status;
}

void region_start(void) { dispatch_fallback(KEY_checkpoint, see_op); }

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
    if (!call || call->form != FORM_functional || !is_fresh(call, t)) return false;
    for (int i = 0; i < call->n_outs; i++)
        if (call->outs[i] && call->outs[i]->storage == t->storage) return true;
    return false;
}

static Status run_pack(struct SavedHooks *hooks, sn_tensor *t, const TapeEdge *from, TapePacked **packed) {
    RegionRun *const run = (RegionRun *)hooks;
    if (!t->storage || !(made_inside_of(run, t->storage) || is_result(run->call, t))) return ST_OK;
    return run->again ? fill_slot(run, t) : new_slot(run->region, t, packed);
}

static Status run_copied(struct SavedHooks *hooks, const sn_tensor *t, const sn_tensor *copy) {
    RegionRun *const run = (RegionRun *)hooks;
    return t->storage && made_inside_of(run, t->storage) ? record_made(run, copy) : ST_OK;
}

/* A kept cast counts as one that the region makes: the second run makes it of the leaf, which it reads. */
static Status run_shared(struct SavedHooks *hooks, const OpRow *row, sn_tensor *t, const sn_tensor *made) {
    RegionRun *const run = (RegionRun *)hooks;
    if (run->call) return ST_OK; /* a program's kernel has it, like all that it calls */
    TRY(record_read(run, row, t));
    return record_made(run, made);
}

static bool run_chooses(const struct SavedHooks *hooks) {
    return ((const RegionRun *)hooks)->region->call.policy.saves;
}

static const SavedHooksClass run_class = {
    .pack = run_pack, .end = run_end, .copied = run_copied, .shared = run_shared, .chooses = run_chooses};

/* the second run --------------------------------------------------------------------------------------------------- */

static Status check_outside(const Region *r) {
    for (int i = 0; i < r->outside.n; i++) {
        const Outside *const o = &r->outside.at[i];
        if (!o->reader || o->saved.is_packed || tape_saved_version(&o->saved) == o->saved.version) continue;
        char site[256], what[512];
        site_name(o->site, site, sizeof site);
        snprintf(what, sizeof what, "sn_checkpoint: %s at %s", o->reader->name, site);
        return tape_saved_error(o->saved.tensor->base.meta, what, tape_saved_version(&o->saved), o->saved.version);
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
static Status again_input(RegionRun *run, int i, Arg *arg) {
    const Region *const r = run->region;
    if (r->in_outside[i] < 0) return ST_OK;
    const TapeSaved *const saved = &r->outside.at[r->in_outside[i]].saved;
    const TapeEdge *const edge = &r->edges[i];
    TapeSaved value = *saved;
    if (saved->is_packed) TRY(saved_hooks_unpack(saved, "sn_checkpoint", &value));
    sn_tensor *t = value.tensor;
    if (r->made[i]) {
        TRY(copy_made(run, &t)); /* the run may write it, and another one comes after */
        TRY(record_made(run, t));
    } else if (!edge->leaf && t->storage && !(t = tensor_from_storage(t->storage, t->base.meta, t->offset)))
        return ST_MEMORY;
    if (edge->target && !edge->leaf) TRY(tape_attach(t, edge->target, edge->output));
    arg->val = &t->base;
    return ST_OK;
}

static Status again_frame(RegionRun *run, Arg *in, sn_tensor **out) {
    Region *const r = run->region;
    for (int i = 0; i < r->call.n_in; i++) {
        in[i] = r->in[i];
        TRY(again_input(run, i, &in[i]));
    }
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

static void resume_capture(Tracer *const *paused) { tracer_unpause(*paused); }

static Status run_again(Region *r, const char *node) {
    sn_state *const state = state_get();
    if (!r->finished) return error_raise(ST_STATE, "sn_checkpoint: a value of a region whose forward failed");
    TRY(check_outside(r));
    __attribute__((cleanup(resume_capture), unused)) Tracer *const paused = tracer_pause();
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
    const int n_in = call->n_in;
    *r = (Region){.refs = 1,
                  .arena = arena,
                  .call = *call,
                  .in = ARENA_ARRAY(arena, Arg, n_in + 1),
                  .made = ARENA_ARRAY(arena, bool, n_in + 1),
                  .in_outside = ARENA_ARRAY(arena, int, n_in + 1),
                  .edges = ARENA_ARRAY(arena, TapeEdge, n_in + 1),
                  .again_in = ARENA_ARRAY(arena, Arg, n_in + 1),
                  .again_out = ARENA_ARRAY(arena, sn_tensor *, call->n_out + 1),
                  .seed = state->seed,
                  .sequence = state->sequence,
                  .context = state->context};
    if (r->edges) memset(r->edges, 0, sizeof *r->edges * (size_t)(n_in + 1));
    if (call->made && r->made) memcpy(r->made, call->made, sizeof *r->made * (size_t)n_in);
    r->call.in = r->in, r->call.made = r->made, r->call.out = NULL; /* those were the caller's */
    if (r->in && r->made && r->in_outside && r->edges && r->again_in && r->again_out) return r;
    region_release(r);
    return NULL;
}

static Status keep_input(RegionRun *run, int i, sn_tensor *t) {
    if (!run->region->made[i]) return keep_outside(run, t);
    TRY(record_made(run, t));
    TRY(copy_made(run, &t));
    return keep_outside(run, t);
}

/* The inputs are what is kept first. */
static Status record_inputs(RegionRun *run, const Arg *in) {
    Region *const r = run->region;
    for (int i = 0; i < r->call.n_in; i++) {
        r->in[i] = in[i];
        r->in_outside[i] = -1;
        if (in[i].kind != ARG_tensor || !in[i].val) continue;
        sn_tensor *const t = tensor_of(in[i].val);
        r->in[i].val = NULL;
        r->made[i] &= t->storage != NULL;
        TRY(tape_edge_set(&r->edges[i], t));
        TRY(keep_input(run, i, t));
        r->in_outside[i] = r->outside.n - 1;
        void *const place = (void *)(uintptr_t)r->outside.n;
        if (t->storage && !map_get(&run->known, storage_key(t->storage)) &&
            !map_set(&run->known, storage_key(t->storage), place))
            return ST_MEMORY;
    }
    return ST_OK;
}

/* Ends the forward: it keeps only what must not be computed again. */
static void finish(Region *r) {
    for (int i = 0; i < r->slots.n; i++) {
        SlotValue *const at = &r->slots.at[i];
        at->kept = at->tensor ? kept_with(r, at->tensor->storage) : NULL;
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
    TRY(record_inputs(run, call->in));
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
