/* specialized_call.c: see specialized_call.h. A specialized call never changes but for its cache entries, which are
 * added under the function's lock and read without it, and its counts. */
#include "runtime/capture/replay/replay_parts.h"

#include "runtime/capture/replay/call_results.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/small_array.h"
#include "runtime/core/debug_print.h"
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/variant/case_text.h"
#include "runtime/capture/variant/guard.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/core/breaks.h"

SpecializedCall **specialized_next(SpecializedCall *specialized) { return &specialized->next; }
bool specialized_prints(const SpecializedCall *p) { return p->n_prints > 0; }

/* Results of the call, and what it prints. */
static int shown_results(const SpecializedCall *p) { return p->n_out + p->n_prints; }

void specialized_count(const SpecializedCall *p, sn_stats *stats) {
    const int64_t generated = atomic_load(&p->hits[0]), interpreted = atomic_load(&p->hits[1]);
    stats->calls += generated + interpreted;
    const int64_t alone[] = {atomic_load(&p->alone[0]), atomic_load(&p->alone[1])};
    stats->ops_generated += generated * p->n_ops - alone[0];
    stats->ops_interpreted += interpreted * p->n_ops - alone[1];
    stats->ops_eager += alone[0] + alone[1];
}

/* Lines --------------------------------------------------------------------------------------- */

static CallSignatureSpec key_spec(const SpecializedCall *p) {
    return (CallSignatureSpec){.guards = p->guards, .read = p->read, .writes = p->writes};
}

/* NULL: there is none yet, and match->key is what it would have. */
static const CallCacheEntry *find_cache_entry(const SpecializedCall *p, const Arg *in, SpecializedMatch *match) {
    const CallSignatureSpec spec = key_spec(p);
    const CallCacheEntry *entry = atomic_load_explicit(&p->entries, memory_order_acquire);
    const bool distinct = call_signature_distinct(p->guards, match->at);
    while (distinct && entry && !call_signature_is(&spec, in, match->at, entry->key)) entry = entry->next;
    if (LIKELY(distinct && entry)) return entry;
    call_signature_make(&spec, in, match->at, match->key);
    const size_t bytes = call_signature_bytes(p->guards->n_slots);
    while (entry && memcmp(entry->key, match->key, bytes) != 0) entry = entry->next;
    return entry;
}

static bool add_cache_entry(SpecializedCall *p, const CallSignature *key, const BoundLaunch *launch) {
    CallCacheEntry *const entry = ARENA_NEW(p->arena, CallCacheEntry);
    const CallSignature *const kept = arena_copy(p->arena, key, call_signature_bytes(p->guards->n_slots));
    if (!entry || !kept) return false;
    for (int i = 0; i < p->guards->n_slots; i++) meta_stay(kept->slots[i].meta);
    *entry = (CallCacheEntry){atomic_load_explicit(&p->entries, memory_order_relaxed), kept, *launch};
    atomic_store_explicit(&p->entries, entry, memory_order_release);
    return true;
}

/* A copy in its own arena of what was bound in that of a call. */
static bool keep_launch(const SpecializedCall *p, BoundLaunch *launch) {
    const Variant *const v = launch->variant;
    launch->source = arena_copy(p->arena, launch->source, sizeof(int) * (size_t)v->n_graph_inputs);
    launch->result = arena_copy(p->arena, launch->result, sizeof(int) * (size_t)shown_results(p));
    launch->symbols = arena_copy(p->arena, launch->symbols, sizeof(int64_t) * (size_t)v->symbols.n_bindings);
    launch->floats = arena_copy(p->arena, launch->floats, sizeof(double) * (size_t)v->attributes.n_runtime_floats);
    launch->numbers =
        v->aliasing.n_views ? arena_copy(p->arena, launch->numbers, sizeof(int64_t) * (size_t)p->n_numbers) : NULL;
    return launch->source && launch->result && launch->symbols && launch->floats &&
           (launch->numbers || !v->aliasing.n_views);
}

bool specialized_cache(const SpecializedMatch *match) {
    BoundLaunch launch = *match->launch;
    return keep_launch(match->specialized, &launch) && add_cache_entry(match->specialized, match->key, &launch);
}

/* Bound for a trace, in an arena. False: memory is out, or the variant does not give a result. */
static bool bind_launch(const SpecializedCall *p, Variant *v, const Trace *trace, Arena *arena, BoundLaunch *bound) {
    int *const source = ARENA_ARRAY(arena, int, v->n_graph_inputs), *const result =
                                                                        ARENA_ARRAY(arena, int, shown_results(p));
    *bound = (BoundLaunch){.variant = v,
                           .source = source,
                           .result = result,
                           .symbols = ARENA_ARRAY(arena, int64_t, v->symbols.n_bindings),
                           .floats = ARENA_ARRAY(arena, double, v->attributes.n_runtime_floats),
                           .numbers = trace->numbers.at};
    if (!source || !result || !bound->symbols || !bound->floats) return false;
    for (int i = 0; i < v->n_graph_inputs; i++) source[i] = p->guards->source[v->graph_inputs[i].captured];
    for (int i = 0; i < shown_results(p); i++) {
        result[i] = p->result[i] < 0 ? p->result[i] : variant_output_of(v, p->result[i]);
        if (p->result[i] >= 0 && result[i] < 0) return false;
    }
    variant_bind(v, trace, bound->symbols);
    variant_bind_floats(v, trace, bound->floats);
    return true;
}

/* Does a call fit? ---------------------------------------------------------------------------- */

static bool size_fits(const SymEnv *env, int64_t want, int64_t got) {
    return sym_is(want) ? got >= sym_expr(env, want)->b : got == want;
}

/* Does a contiguous tensor have these strides? A stride that is an expression must be the product of the sizes behind
 * it. */
static bool row_major_fits(const Meta *want, const Meta *got) {
    uint64_t step = 1; /* of what is empty it may be beyond any memory */
    for (int d = want->rank - 1; d >= 0; d--) {
        if (got->strides[d] != (sym_is(want->strides[d]) ? (int64_t)step : want->strides[d])) return false;
        step *= (uint64_t)max_i64(got->sizes[d], 1);
    }
    return true;
}

static bool tensor_fits(const Symbols *s, const Meta *want, const sn_tensor *t) {
    if (!t || !want) return !t && !want;
    const Meta *const got = t->base.meta;
    if (want->dtype != got->dtype || want->device != got->device || want->rank != got->rank ||
        want->wrapped != got->wrapped || want->contiguous != got->contiguous)
        return false;
    for (int d = 0; d < want->rank; d++) {
        if (!size_fits(s->env, want->sizes[d], got->sizes[d])) return false;
        if (!want->contiguous && !size_fits(s->env, want->strides[d], got->strides[d])) return false;
    }
    return !want->contiguous || row_major_fits(want, got);
}

static const sn_tensor *tensor_at(const Arg *in, int i) {
    return in[i].kind == ARG_tensor && in[i].val ? tensor_of(in[i].val) : NULL;
}

static bool is_unread(const Symbols *s, int i) {
    return (s->in[i].kind == ARG_int || s->in[i].kind == ARG_float) && !s->read[i];
}

static bool input_fits(const Symbols *s, const Arg *in, int i) {
    const Arg *const want = &s->in[i];
    if (want->kind != in[i].kind) return false;
    if (is_unread(s, i)) return true;
    switch (want->kind) {
    case ARG_tensor:
        return tensor_fits(s, s->metas[i], tensor_at(in, i));
    case ARG_int:
        return size_fits(s->env, s->ints[i], in[i].i);
    case ARG_float:
        return !s->pinned[i] || want->i == in[i].i; /* by bits */
    case ARG_bool:
        return want->i == in[i].i;
    default:
        return want->kind == ARG_none || want->kind == ARG_default;
    }
}

/* Strides may be free, but what they make overlap must not be written: the body says which op would. */
static bool overlaps(const sn_tensor *t) { return t && !t->base.meta->contiguous && meta_overlaps(t->base.meta); }

/* May the call write the slot's memory? A saved plan knows which inputs it writes. */
static bool may_write(const SpecializedCall *p, int slot) { return p->written ? p->written[slot] : p->writes; }

static bool slot_fits(const SpecializedCall *p, const Arg *in, const SpecializedMatch *match, int i) {
    const SlotSignature *const now = &match->key->slots[i], *const first = &p->first->slots[i];
    const bool argument = i < p->guards->n_in;
    const bool fits = argument ? input_fits(p->symbols, in, i) : now->meta == first->meta;
    return fits && now->alias == first->alias && !(argument && may_write(p, i) && overlaps(match->at[i]));
}

static bool inputs_fit(const SpecializedCall *p, const Arg *in, const SpecializedMatch *match) {
    for (int i = 0; i < p->guards->n_slots; i++)
        if (!slot_fits(p, in, match, i)) return false;
    return true;
}

static void bind_symbols(const SpecializedCall *p, const Arg *in, int64_t *values) {
    for (int i = 0; i < p->symbols->frees.n; i++) {
        const SymSource *const source = &p->symbols->frees.at[i];
        const Arg *const arg = &in[source->input];
        values[i] = source->kind == SOURCE_scalar ? arg->i
                    : source->kind == SOURCE_size ? arg->val->meta->sizes[source->dim]
                                                  : arg->val->meta->strides[source->dim];
    }
}

static bool guards_hold(const SpecializedCall *p, const int64_t *values) {
    const SymEnv *const env = p->symbols->env;
    for (int i = 0; i < sym_guard_count(env); i++)
        if (!sym_guard_holds(env, sym_guard_at(env, i), values)) return false;
    return true;
}

/* The trace that the body would make ---------------------------------------------------------- */

static int storage_number(Trace *trace, int input) {
    for (int k = 0; k < input; k++)
        if (trace->inputs.at[k].storage == trace->inputs.at[input].storage) return trace->inputs.at[k].storage_number;
    return trace->n_storages++;
}

/* A saved plan records no gradients: it runs where eager would record none (mode_refusal), and then nothing else
 * depends on them. */
static void set_input(const SpecializedCall *p, Trace *trace, int i, sn_tensor *t, const SlotSignature *key) {
    const int flags = p->saved ? 0 : key->flags;
    trace->inputs.at[i] = (TraceInput){.tensor = t,
                                       .meta = key->meta,
                                       .storage = t->storage,
                                       .offset = t->offset,
                                       .requires_grad = flags & SLOT_requires_grad,
                                       .is_leaf = flags & SLOT_is_leaf,
                                       .inference = flags & SLOT_inference};
    trace->inputs.at[i].storage_number = storage_number(trace, i);
}

static int64_t number_now(const SpecializedCall *p, int k, const Arg *in, const int64_t *values) {
    const struct NumberSource *const source = &p->numbers[k];
    if (source->input >= 0) return in[source->input].i; /* a float, by bits */
    return sym_eval(p->symbols->env, source->value, values);
}

/* False: memory is out, which is raised, or a tensor has no data. */
static bool make_trace(const SpecializedCall *p, const ReplayCall *call, const SpecializedMatch *match,
                       const int64_t *values, Trace *trace) {
    const int n_inputs = p->guards->n_inputs;
    *trace = (Trace){.end = p->end,
                     .marks = p->marks,
                     .n_random = p->n_random,
                     .seed = state_get()->seed,
                     .sequence = state_get()->sequence,
                     .writes = p->writes};
    trace->inputs.at = ARENA_ARRAY(call->arena, TraceInput, n_inputs);
    trace->numbers.at = ARENA_ARRAY(call->arena, int64_t, p->n_numbers);
    if (!trace->inputs.at || !trace->numbers.at) return false;
    for (int i = 0; i < n_inputs; i++) {
        const int slot = p->guards->source[i];
        if (!match->at[slot]->storage) return false;
        set_input(p, trace, i, match->at[slot], &match->key->slots[slot]);
    }
    for (int k = 0; k < p->n_numbers; k++) trace->numbers.at[k] = number_now(p, k, call->in, values);
    trace->inputs.n = n_inputs;
    trace->numbers.n = p->n_numbers;
    return true;
}

/* Host code may have looked into a value that it passed on (sn_in_value): where scalars are free, a number that has
 * been seen to vary is known only if it comes from the inputs. */
static bool numbers_known(const SpecializedCall *p, const Variant *v) {
    if (!p->free_scalars) return true;
    for (int k = 0; v->attributes.rules && k < v->attributes.n; k++) {
        const struct NumberSource *const source = &p->numbers[k];
        if (v->attributes.rules[k] == NUMBER_runtime_float && source->input < 0) return false;
        if (v->attributes.rules[k] == NUMBER_runtime_int && !sym_is(source->value)) return false;
    }
    return true;
}

static bool is_replayable(const SpecializedCall *p, const Variant *v) {
    if (!variant_code(v) || (v->training && !p->forward)) return false;
    for (int i = 0; i < v->n_graph_inputs; i++)
        if (v->graph_inputs[i].base) return false;
    return true;
}

static Variant *find_variant(const SpecializedCall *p, const Trace *trace) {
    Variant *v = atomic_load_explicit(&p->end->variants, memory_order_acquire);
    while (v && (!is_replayable(p, v) || !numbers_known(p, v) || !variant_fits(v, trace, NULL))) v = v->next;
    return v;
}

/* Binds a launch for a call that no entry knows. */
static bool bind_anew(const SpecializedCall *p, ReplayCall *call, SpecializedMatch *match) {
    if (!p->symbols || !inputs_fit(p, call->in, match)) return false;
    int64_t few[FEW_SLOTS], *const values = SMALL_ARRAY(few, p->symbols->frees.n);
    SMALL_ARRAY_OWNER kept = {few, values};
    if (!values) return false;
    bind_symbols(p, call->in, values);
    if (!guards_hold(p, values)) return false;
    if (!call->arena && !(call->arena = function_arena_acquire(call->fn))) return false;
    Trace trace;
    if (!make_trace(p, call, match, values, &trace)) return false;
    Variant *const v = find_variant(p, &trace);
    match->launch = &match->bound;
    if (!v || !bind_launch(p, v, &trace, call->arena, &match->bound)) return false;
    return !p->saved || case_reaches(v, match->bound.symbols) == ST_OK;
}

bool specialized_match_grow(SpecializedMatch *match, int n_slots) {
    const size_t tensors = sizeof *match->at * (size_t)n_slots;
    match_end(match);
    match_begin(match);
    char *const block = mem_alloc(tensors + call_signature_bytes(n_slots));
    if (!block) return false;
    match->block = block;
    match->at = (sn_tensor **)block;
    match->key = (CallSignature *)(block + tensors);
    match->capacity = n_slots;
    return true;
}

/* Why a saved plan does not take its inputs in the calling thread's grad mode, of slot *slot; NULL: it does. */
static const char *mode_refusal(const SpecializedCall *p, const SpecializedMatch *match, int *slot) {
    const sn_grad_mode mode = state_get()->grad_mode;
    for (int i = 0; i < p->guards->n_inputs; i++) {
        const sn_tensor *const t = match->at[ *slot = p->guards->source[i]];
        if (mode == SN_GRAD_ON && t->autograd && tape_tracks(t))
            return " requires gradients, which a plan does not record: call it inside of sn_no_grad_begin";
        if (mode != SN_INFERENCE && t->flags & TF_inference && may_write(p, *slot))
            return " was made in inference mode and would be written outside of it";
    }
    return NULL;
}

static bool mode_fits(const SpecializedCall *p, const SpecializedMatch *match) {
    int slot;
    return !p->saved || !mode_refusal(p, match, &slot);
}

static bool is_asked(const SpecializedCall *p, const ReplayCall *call) {
    return p->forward == call->forward && p->n_out == call->n_out && p->guards->n_in == call->n_in &&
           (!p->saved || (p->guards->context.grad_mode != state_get()->grad_mode) == call->of_other_mode);
}

bool specialized_match(SpecializedCall *p, ReplayCall *call, SpecializedMatch *match) {
    if (!is_asked(p, call) || !match_has_room(match, p->guards->n_slots) ||
        !replay_guards_hold(p->guards, call->in, call->n_in, match->at, NULL) || !mode_fits(p, match))
        return false;
    match->specialized = p;
    const CallCacheEntry *const entry = find_cache_entry(p, call->in, match);
    if (UNLIKELY(!entry)) return bind_anew(p, call, match);
    match->launch = &entry->launch;
    return true;
}

/* Launch -------------------------------------------------------------------------------------- */

/* The generator's numbers are those of this launch. */
static const int64_t *symbols_now(const BoundLaunch *l, int64_t *buffer) {
    const Variant *const v = l->variant;
    if (!v->segment.n_random) return l->symbols;
    memcpy(buffer, l->symbols, sizeof *buffer * (size_t)v->symbols.n_bindings);
    for (int i = 0; i < v->symbols.n_bindings; i++) {
        if (v->symbols.bindings[i].kind == BIND_seed) buffer[i] = (int64_t)state_get()->seed;
        if (v->symbols.bindings[i].kind == BIND_sequence) buffer[i] = (int64_t)state_get()->sequence;
    }
    return buffer;
}

/* With memory of the caller's for results. */
static COLD Status execute_placed(const SpecializedMatch *match, sn_tensor *const *inputs, const int64_t *symbols,
                                  sn_tensor **outs) {
    Variant *const v = match->launch->variant;
    Storage *few[FEW_SLOTS], **const given = SMALL_ARRAY(few, v->n_outputs);
    SMALL_ARRAY_OWNER kept = {few, given};
    if (!given) return ST_MEMORY;
    memset(given, 0, sizeof *given * (size_t)v->n_outputs);
    TRY(call_results_place(match, inputs, symbols, given));
    return variant_execute(v, inputs, symbols, match->launch->floats, given, outs);
}

static inline Status execute_bound(const SpecializedMatch *match, sn_tensor *const *inputs, const int64_t *symbols,
                                   sn_tensor **outs) {
    const BoundLaunch *const l = match->launch;
    if (UNLIKELY(match->sink != NULL)) return execute_placed(match, inputs, symbols, outs);
    return variant_execute(l->variant, inputs, symbols, l->floats, NULL, outs);
}

/* What a plan closes over goes with it: who is given it has a handle of its own. */
static Status slot_of_result(const SpecializedMatch *match, int slot, sn_tensor **out) {
    const SpecializedCall *const p = match->specialized;
    if (!p->saved || slot < p->guards->n_in) return *out = match->at[slot], ST_OK;
    sn_tensor *const own = tensor_alias(match->at[slot]);
    *out = own ? tensor_adopt(state_get(), own) : NULL;
    return *out ? ST_OK : ST_MEMORY;
}

static Status launch_quietly(const SpecializedMatch *match, sn_tensor **outs, sn_tensor **out) {
    const BoundLaunch *const l = match->launch;
    Variant *const v = l->variant;
    sn_tensor *few[FEW_SLOTS], **const inputs = SMALL_ARRAY(few, v->n_graph_inputs);
    SMALL_ARRAY_OWNER kept = {few, inputs};
    int64_t few_symbols[FEW_SLOTS], *const buffer =
                                        SMALL_ARRAY(few_symbols, v->segment.n_random ? v->symbols.n_bindings : 0);
    SMALL_ARRAY_OWNER kept_symbols = {few_symbols, buffer};
    if (!inputs || !buffer) return ST_MEMORY;
    for (int i = 0; i < v->n_graph_inputs; i++) inputs[i] = match->at[l->source[i]];
    TRY(execute_bound(match, inputs, symbols_now(l, buffer), outs));
    TRY(variant_record_views(v, l->numbers, inputs, outs));
    state_get()->sequence += (uint64_t)v->segment.n_random;
    for (int i = 0; i < match->specialized->n_out; i++) {
        out[i] = l->result[i] >= 0 ? outs[l->result[i]] : NULL;
        if (is_slot_result(l->result[i])) TRY(slot_of_result(match, result_slot(l->result[i]), &out[i]));
    }
    return ST_OK;
}

/* What is printed has a scope of its own, for nobody else has it. */
static COLD Status launch_and_print(const SpecializedMatch *match, sn_tensor **outs, sn_tensor **out) {
    const SpecializedCall *const p = match->specialized;
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    TRY(scope_push(state, false));
    const Status status = launch_quietly(match, outs, out);
    for (int k = 0; status == ST_OK && k < p->n_prints; k++)
        debug_print_line(p->labels[k], outs[match->launch->result[p->n_out + k]]);
    scope_pop_passing(state, depth, out, status == ST_OK ? p->n_out : 0);
    return status;
}

static Status launch(const SpecializedMatch *match, sn_tensor **out) {
    sn_tensor *few[FEW_SLOTS], **const outs = SMALL_ARRAY(few, match->launch->variant->n_outputs);
    SMALL_ARRAY_OWNER kept = {few, outs};
    if (!outs) return ST_MEMORY;
    return UNLIKELY(match->specialized->n_prints) ? launch_and_print(match, outs, out)
                                                  : launch_quietly(match, outs, out);
}

static COLD void count_alone(SpecializedCall *p, const CompileReport *info, sn_state *state) {
    const int64_t n = min_i64(info->alone, p->n_ops);
    atomic_fetch_add_explicit(&p->alone[info->interpreted], n, memory_order_relaxed);
    state->last_call.path = SN_PATH_MIXED;
    if (!info->interpreted) state->last_call.reason = info->alone_why;
}

Status specialized_launch(const SpecializedMatch *match, sn_tensor **out, bool *ran) {
    SpecializedCall *const p = match->specialized;
    Variant *const v = match->launch->variant;
    const Status status = launch(match, out);
    const bool checks = status == ST_VALUE || v->info.codes; /* a failed check or backend: the body says which op */
    *ran = status == ST_OK || !checks || p->ordered || p->saved;
    if (!*ran) error_clear();
    if (status != ST_OK) return *ran ? status : ST_OK;
    sn_state *const state = state_get();
    state->last_call.path = v->info.interpreted ? SN_PATH_INTERPRETED : SN_PATH_COMPILED;
    state->last_call.reason = v->info.interpreted ? v->info.reason : "";
    atomic_fetch_add_explicit(&p->hits[v->info.interpreted], 1, memory_order_relaxed);
    if (UNLIKELY(v->info.alone)) count_alone(p, &v->info, state);
    atomic_fetch_add_explicit(&v->hits, 1, memory_order_relaxed);
    return ST_OK;
}

/* Making one ---------------------------------------------------------------------------------- */

/* -1: it is none of the call's values and tensors. */
static int find_result(const SpecializedCall *p, const Trace *trace, const Arg *in, const sn_tensor *t) {
    for (int v = trace->values.n - 1; v >= 0; v--)
        if (trace->values.at[v] == t) return v;
    for (int i = 0; i < p->guards->n_in; i++)
        if (tensor_at(in, i) == t) return slot_result(i);
    for (int i = 0; i < trace->inputs.n; i++)
        if (trace->inputs.at[i].tensor == t) return slot_result(p->guards->source[i]);
    return -1;
}

static bool find_results(SpecializedCall *p, const Trace *trace, const Arg *in, sn_tensor *const *out) {
    for (int i = 0; i < p->n_out; i++) {
        p->result[i] = out[i] ? find_result(p, trace, in, out[i]) : -1;
        if (out[i] && p->result[i] == -1) return false;
    }
    for (int k = 0; k < p->n_prints; k++) p->result[p->n_out + k] = trace->prints.at[k].value;
    return true;
}

/* Values that outlive the call are results, one each; false: others are kept too. */
static bool keeps_results_only(const SpecializedCall *p, const Trace *trace) {
    int results = 0;
    for (int i = 0; i < shown_results(p); i++) results += p->result[i] >= 0;
    for (int k = 0; k < trace->values.n; k++) results -= trace->marks[k] & VALUE_needed;
    return results >= 0;
}

static bool keep_labels(SpecializedCall *p, const Trace *trace) {
    p->labels = ARENA_ARRAY(p->arena, const char *, p->n_prints);
    for (int k = 0; p->labels && k < p->n_prints; k++) {
        const char *const label = trace->prints.at[k].label;
        if (label && !(p->labels[k] = arena_strdup(p->arena, label))) return false;
    }
    return p->labels != NULL;
}

static SpecializedCall *specialized_alloc(Arena *arena, const Capture *c, const Trace *trace, ReplayGuards *guards,
                                          int n_out) {
    SpecializedCall *const p = ARENA_NEW(arena, SpecializedCall);
    if (!p) return NULL;
    p->arena = arena;
    p->guards = guards;
    p->end = trace->end;
    p->n_out = n_out;
    p->n_ops = trace->ops.n;
    p->n_random = trace->n_random;
    p->writes = trace->writes;
    p->ordered = trace->ordered;
    p->n_numbers = trace->numbers.n;
    p->n_sources = trace->sources.n;
    p->n_values = trace->values.n;
    p->read = arena_copy(arena, c->symbols->read, sizeof(bool) * (size_t)guards->n_in);
    p->numbers = arena_copy(arena, trace->sources.at, sizeof *p->numbers * (size_t)trace->sources.n);
    p->first_numbers = arena_copy(arena, trace->numbers.at, sizeof *p->first_numbers * (size_t)trace->numbers.n);
    p->marks = arena_copy(arena, trace->marks, (size_t)p->n_values);
    p->n_prints = trace->prints.n;
    p->result = ARENA_ARRAY(arena, int, shown_results(p));
    return p->read && p->numbers && p->first_numbers && p->marks && p->result && keep_labels(p, trace) ? p : NULL;
}

SpecializedCall *specialized_new(Arena *arena, const Capture *c, const Trace *trace, Variant *v, ReplayGuards *guards,
                                 sn_tensor *const *out, int n_out, Reason *why) {
    SpecializedCall *const p = specialized_alloc(arena, c, trace, guards, n_out);
    if (!p) return NULL;
    p->forward = v->training != NULL;
    MATCH(match);
    if (!match_has_room(&match, guards->n_slots)) return NULL;
    match.specialized = p, match.launch = &match.bound;
    if (!find_results(p, trace, c->in, out))
        *why = BREAK_REASON(returns_input);
    else if (!keeps_results_only(p, trace))
        *why = BREAK_REASON(keeps_tensors);
    else if (!replay_guards_hold(guards, c->in, guards->n_in, match.at, NULL))
        *why = BREAK_REASON(changes_answer);
    if (*why) return NULL;
    const CallSignatureSpec spec = key_spec(p);
    call_signature_make(&spec, c->in, match.at, match.key);
    if (!bind_launch(p, v, trace, arena, &match.bound) || !specialized_cache(&match)) return NULL;
    p->first = atomic_load_explicit(&p->entries, memory_order_relaxed)->key;
    return p;
}

static bool mentions(const SymEnv *env, int64_t value, int64_t symbol) {
    if (value == symbol || !sym_is(value)) return value == symbol;
    const SymExpr *const e = sym_expr(env, value);
    return e->op != SYM_free && (mentions(env, e->a, symbol) || mentions(env, e->b, symbol));
}

static bool is_passed_on(const SpecializedCall *p, int input) {
    const Symbols *const s = p->symbols;
    for (int k = 0; k < p->n_numbers; k++)
        if (p->numbers[k].input == input ||
            (sym_is(s->ints[input]) && mentions(s->env, p->numbers[k].value, s->ints[input])))
            return true;
    return false;
}

/* A scalar that the body read and gave to no op is not known to be without effect. */
static void pin_scalars(SpecializedCall *p) {
    Symbols *const s = p->symbols;
    for (int i = 0; i < s->n_in; i++) {
        const int kind = s->in[i].kind;
        if ((kind != ARG_int && kind != ARG_float) || is_unread(s, i)) continue;
        const bool passed_on = is_passed_on(p, i);
        if (!passed_on) s->pinned[i] = true;
        if (!passed_on && kind == ARG_int) s->ints[i] = s->in[i].i;
        p->free_scalars |= kind == ARG_int ? sym_is(s->ints[i]) : !s->pinned[i];
    }
}

void specialized_adopt_symbols(SpecializedCall *p, Capture *c) {
    Symbols *const s = c->symbols;
    if (s->lost || s->frees.n > MAX_CASE_SYMBOLS || p->n_numbers != p->n_sources) return;
    p->symbols = s;
    pin_scalars(p);
    symbols_forget_asked(s);
    c->symbols = NULL;
}

void specialized_widen(SpecializedCall *newer, SpecializedCall *older) {
    if (newer->end == older->end) replay_guards_widen(newer->guards, older->guards);
}

void specialized_free(SpecializedCall *p) {
    replay_guards_free(p->guards);
    symbols_free(p->symbols);
    arena_free(p->arena);
}

/* Why a call does not fit --------------------------------------------------------------------- */

/* The first slot that differs from the newest entry's; n_slots: none. */
static int first_miss(const SpecializedCall *p, const CallSignature *now, int from) {
    const CallSignature *const want = atomic_load(&p->entries)->key;
    while (from < p->guards->n_slots && slot_signature_same(&want->slots[from], &now->slots[from])) from++;
    return from;
}

void specialized_print_miss(const SpecializedCall *p, const Arg *in, int n_in, Text *text) {
    const ReplayGuards *const w = p->guards;
    if (n_in != w->n_in) {
        text_printf(text, "%d arguments, now %d", w->n_in, n_in);
        return;
    }
    MATCH(match);
    if (!match_has_room(&match, w->n_slots)) return;
    memset(match.at, 0, sizeof *match.at * (size_t)w->n_slots);
    for (int i = 0; i < n_in; i++) match.at[i] = in[i].kind == ARG_tensor && in[i].val ? tensor_of(in[i].val) : NULL;
    Text why = {0};
    const bool fits = replay_guards_hold(w, in, n_in, match.at, &why);
    ReplayGuards arguments = *w;
    if (!fits) arguments.n_slots = n_in; /* only these are known */
    const CallSignatureSpec spec = {.guards = &arguments, .read = p->read, .writes = p->writes};
    call_signature_make(&spec, in, match.at, match.key);
    const int miss = first_miss(p, match.key, 0);
    if (miss < arguments.n_slots) {
        replay_slot_print(w, miss, text);
        text_puts(text, ": ");
        slot_signature_print(&atomic_load(&p->entries)->key->slots[miss], text);
        text_puts(text, ", now ");
        slot_signature_print(&match.key->slots[miss], text);
    } else {
        text_puts(text, fits ? "which tensors are the same, share memory or overlap" : text_str(&why));
    }
    text_free(&why);
}

/* Says in what a call differs from what it takes. The steps are those of bind_anew. */

static void differs_by_input(const SpecializedCall *p, const Arg *in, const SpecializedMatch *match, int i, Text *why) {
    const ReplayGuards *const w = p->guards;
    replay_slot_print(w, i, why);
    if (match->key->slots[i].alias != p->first->slots[i].alias) {
        text_puts(why, match->key->slots[i].alias != i ? ": the same tensor as another one" : ": another tensor");
        return;
    }
    text_puts(why, ": ");
    if (i < w->n_in && p->symbols->metas[i])
        meta_print(p->symbols->env, why, p->symbols->metas[i]);
    else if (i < w->n_in && p->symbols->in[i].kind == ARG_int)
        sym_print(p->symbols->env, why, p->symbols->ints[i]);
    else
        slot_signature_print(&p->first->slots[i], why);
    text_puts(why, ", now ");
    slot_signature_print(&match->key->slots[i], why);
    if (i < w->n_in && may_write(p, i) && overlaps(match->at[i]))
        text_puts(why, ", which overlaps itself and is written");
}

static bool inputs_differ(const SpecializedCall *p, const Arg *in, const SpecializedMatch *match, Text *why) {
    for (int i = 0; i < p->guards->n_slots; i++) {
        if (slot_fits(p, in, match, i)) continue;
        differs_by_input(p, in, match, i, why);
        return true;
    }
    return false;
}

static bool guards_differ(const SpecializedCall *p, const int64_t *values, Text *why) {
    static const char *const rel[] = {"==", "!=", "<", "<="};
    const SymEnv *const env = p->symbols->env;
    for (int i = 0; i < sym_guard_count(env); i++) {
        const SymGuard *const guard = sym_guard_at(env, i);
        if (sym_guard_holds(env, guard, values)) continue;
        text_puts(why, "guard ");
        sym_print(env, why, guard->a);
        text_printf(why, " %s ", rel[guard->rel]);
        sym_print(env, why, guard->b);
        text_printf(why, ", now %lld and %lld", (long long)sym_eval(env, guard->a, values),
                    (long long)sym_eval(env, guard->b, values));
        return true;
    }
    return false;
}

static void cases_differ(const SpecializedCall *p, const Trace *trace, Text *why) {
    const char *between = "";
    for (const Variant *v = atomic_load(&p->end->variants); v; v = v->next, between = "; or ") {
        text_puts(why, between);
        if (variant_fits(v, trace, why)) text_puts(why, "a number that the case does not know");
    }
}

void specialized_print_refusal(const SpecializedCall *p, ReplayCall *call, Text *why) {
    MATCH(match);
    int64_t few[FEW_SLOTS], *const values = SMALL_ARRAY(few, p->symbols->frees.n);
    SMALL_ARRAY_OWNER kept = {few, values};
    Trace trace;
    if (!values) return;
    if (call->n_in != p->guards->n_in || call->n_out != p->n_out) {
        text_printf(why, "%d arguments and %d results, now %d and %d", p->guards->n_in, p->n_out, call->n_in,
                    call->n_out);
        return;
    }
    if (!match_has_room(&match, p->guards->n_slots) ||
        !replay_guards_hold(p->guards, call->in, call->n_in, match.at, why))
        return;
    int slot;
    const char *const refused = mode_refusal(p, &match, &slot);
    if (refused) {
        replay_slot_print(p->guards, slot, why);
        text_puts(why, refused);
        return;
    }
    const CallSignatureSpec spec = key_spec(p);
    call_signature_make(&spec, call->in, match.at, match.key);
    if (inputs_differ(p, call->in, &match, why)) return;
    bind_symbols(p, call->in, values);
    if (guards_differ(p, values, why)) return;
    if (make_trace(p, call, &match, values, &trace))
        cases_differ(p, &trace, why);
    else
        text_puts(why, "a tensor without data");
}
