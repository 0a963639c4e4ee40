/* capture_step.c: a step gives its results placeholders, and notes what the op writes, draws and may
 * fail at. First what every step does, then the quick way there: a call that the newest child with
 * its newest metadata expects, which is compared as the dispatcher hands it over. */
#include "runtime/capture/record/capture_step.h"

#include "ir/saves.h"
#include "runtime/autograd/tape.h"
#include "runtime/base/log.h"
#include "runtime/core/override.h"
#include "runtime/eager/eager.h"
#include "runtime/capture/record/capture_bound.h"
#include "runtime/capture/record/capture_facts.h"
#include "runtime/capture/record/capture_split.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/capture/record/capture_input.h"
#include "runtime/capture/record/segment.h"
#include "runtime/capture/record/trace_views.h"

/* Room for one more value, and its place: the two grow together. */
static inline bool value_capacity(Capture *c, Trace *trace) {
    return LIKELY(trace->values.n < trace->values.capacity) ||
           (VEC_GROW(c->arena, &trace->places) && VEC_GROW(c->arena, &trace->values));
}

static ALWAYS_INLINE sn_tensor *placeholder_new(Capture *c, sn_state *state, const Meta *meta, uint8_t modes) {
    Trace *const trace = c->trace;
    struct Placeholder *const p = arena_alloc_raw(c->arena, sizeof *p);
    if (UNLIKELY(!p || !value_capacity(c, trace))) return NULL;
    *p = (struct Placeholder){.tracer = &c->tracer, .trace = trace, .value = trace->values.n};
    const bool inference = modes & NODE_inference;
    const uint64_t backend = LIKELY(meta->device == DEV_cpu) ? KEY_BIT(cpu) : key_of_device(meta->device);
    const uint64_t keys = backend | (inference ? 0 : KEY_BIT(autograd));
    sn_tensor *const t = tensor_pending(state, meta, inference, keys, p);
    if (LIKELY(t != NULL)) trace->values.at[trace->values.n++] = t;
    return t;
}

Status capture_check_written(const Trace *trace, const TraceOp *op) {
    const int n = op->form == FORM_out ? op->row->n_out : 1, first = op->form == FORM_out ? op->n_operands - n : 0;
    for (int i = first; i < first + n && op->row->kind != KIND_view && !(op->modes & NODE_inference); i++)
        if (trace_is_inference(trace, op->operands[i])) return dispatch_inference_error(op->row, op->form);
    if (op->form == FORM_out || !trace_needs(trace, op)) return ST_OK;
    return trace_check_inplace(trace, op->operands[0]);
}

/* Results of a functional op are new placeholders. */
static ALWAYS_INLINE Status make_placeholders(Capture *c, sn_state *state, const OpCall *call, const TraceOp *op,
                                              const FreshResults *results, bool recorded) {
    Trace *const trace = c->trace;
    trace->mutates_metadata |= op->mutates_metadata;
    for (int i = 0, n = op->n_outs; i < n; i++) {
        const Meta *const meta = results->metas[i];
        sn_tensor *const t = placeholder_new(c, state, meta, op->modes);
        if (UNLIKELY(!t)) return ST_MEMORY;
        call->outs[i] = t;
        TraceMemory *const place = &trace->places.at[trace->places.n];
        trace_own_place(trace, op, place);
        if (UNLIKELY(results->alias && results->alias[i].arg >= 0)) {
            *place = trace_place(trace, op, &results->alias[i]);
            trace->views = true;
        }
        if (UNLIKELY(recorded) && result_has_gradient(meta)) place->history.since = trace->ops.n + 1;
        trace->places.n++;
    }
    return ST_OK;
}

/* The other forms return what they write. */
static Status set_written(Capture *c, const OpCall *call, const TraceOp *op, bool recorded) {
    TRY(eager_check_written(call));
    c->trace->writes = true;
    c->trace->tracked_writes |= recorded && !(op->row->flags & OPF_nodiff);
    if (recorded && op->form == FORM_inplace && dtype_is_float(call->args[0].val->meta->dtype))
        trace_record_write(c->trace, op->operands[0]);
    for (int i = 0; i < call->row->n_out; i++) call->outs[i] = call_written(call, i);
    return ST_OK;
}

static void advance_sequence(Capture *c) {
    sn_state *const state = state_get();
    Trace *const trace = c->trace;
    if (!trace->n_random) {
        trace->seed = state->seed;
        trace->sequence = state->sequence;
    }
    state->sequence++;
    if (++trace->random > trace->n_random) trace->n_random = trace->random;
}

static void record_flags(Capture *c, const OpRow *row) {
    if (row->flags & OPF_random) advance_sequence(c);
    if (row->flags & OPF_ordered)
        c->trace->ordered = true;
    else
        c->trace->fallible |= (row->flags & OPF_may_fail) != 0;
}

/* One step along the trie, to `node`. */
static ALWAYS_INLINE Status advance(Capture *c, sn_state *state, const OpCall *call, TrieNode *node,
                                    const int64_t *numbers, const FreshResults *results) {
    Trace *const trace = c->trace;
    if (UNLIKELY(!VEC_GROW(c->arena, &trace->ops))) return ST_MEMORY;
    const uint32_t needs = trace_needs(trace, &node->op);
    TRY(LIKELY(call->form == FORM_functional) ? make_placeholders(c, state, call, &node->op, results, needs != 0)
                                              : set_written(c, call, &node->op, needs != 0));
    for (int i = 0, n = node->op.n_numbers; i < n; i++) VEC_PUSH(c->arena, &trace->numbers, numbers[i]);
    trace->ops.at[trace->ops.n++] = (TracedOp){&node->op, state->site, needs, trace->random};
    if (UNLIKELY(call->row->flags & (OPF_random | OPF_may_fail))) record_flags(c, call->row);
    c->cursor = node;
    return ST_OK;
}

Status capture_step(Capture *c, sn_state *state, const OpCall *call, TrieNode *node, const int64_t *numbers,
                    const FreshResults *results) {
    return advance(c, state, call, node, numbers, results);
}

/* The expected step: the newest child with its newest metadata -------------------------------- */

/* Operands are numbered by first use, so the expected one says where t must be. */
static inline bool match_tensor(Capture *c, Operand want, const Meta *meta, sn_tensor *t) {
    if (UNLIKELY(!t)) return want == OPERAND_ABSENT;
    if (t->base.meta != meta) return false;
    const Trace *const trace = c->trace;
    if (want >= 0) return trace->values.at[want] == t;
    const int input = operand_input(want);
    if (UNLIKELY(tape_view_is_due(t))) return false;
    if (input < trace->inputs.n) return trace->inputs.at[input].tensor == t;
    Operand found;
    return !t->placeholder && !(t->flags & TF_error) && !(t->keys & KEYS_UNCAPTURED) &&
           capture_input(c, t, &found) == ST_OK && found == want;
}

/* Lists, and what is of one kind only. */
static bool match_items(Capture *c, const TraceOp *op, const MetaEntry *entry, const ExpectedArg *want, const Arg *a) {
    if (!a->val) return !a->n && a->kind != ARG_string;
    if (a->kind == ARG_string) return capture_string_word(a) == want->word;
    for (int i = 0; i < a->n; i++) {
        const int k = want->first + i;
        if (a->kind == ARG_tensors ? !match_tensor(c, op->operands[k], entry->in[k], tensor_of(a->vals[i]))
                                   : a->ints[i] != entry->numbers[k])
            return false;
    }
    return true;
}

static inline bool match(Capture *c, const OpCall *call, const TraceOp *op, const MetaEntry *entry) {
    const ExpectedArg *want = entry->args;
    const Arg *a = call->args;
    for (const Arg *const end = a + call->row->n_params; a < end; a++, want++) {
        if (UNLIKELY(a->head != want->head)) return false;
        const bool fits = LIKELY(a->kind == ARG_tensor) ? match_tensor(c, want->operand, want->meta, tensor_of(a->val))
                          : a->kind >= ARG_int && a->kind <= ARG_bool ? a->i == want->word
                                                                      : match_items(c, op, entry, want, a);
        if (UNLIKELY(!fits)) return false;
    }
    for (int i = 0; call->form == FORM_out && i < call->row->n_out; i++, want++)
        if (!match_tensor(c, want->operand, want->meta, call->out_args[i])) return false;
    return true;
}

/* Whether all is as ever around a call: what the dispatcher and capture_call would ask before they record it. Only what
 * the owner alone writes: no lock is held yet. */
static inline bool is_plain(const Capture *c, const sn_state *state, const OpCall *call) {
    const uint64_t asked = KEY_BIT(capture) | KEYS_OF_CALLS | KEY_BIT(vmap);
    const uint64_t keys = state->include & ((~state->exclude & asked) | KEY_BIT(anomaly)); /* is_watched */
    const uintptr_t special =
        (uintptr_t)state->modes | (uintptr_t)state->saved_hooks | (uintptr_t)c->symbols | (uintptr_t)c->region;
    return keys == KEY_BIT(capture) && !special && state->error.status == ST_OK && !capture_was_left(c) &&
           !(call->row->flags & OPF_check && (c->eager_checks || c->device_asserts)) && !override_covers(call->row) &&
           !log_on(LOG_dispatch, LOG_INFO) && !failpoints_set();
}

/* The rest of it: what another thread that runs the segment changes, under the lock [semantics C13]. */
static inline bool is_undisturbed(const Capture *c, const sn_state *state) {
    return !c->failed_elsewhere && !capture_bound_is_near(c->trace, state);
}

/* Under the lock, if there is one. */
static ALWAYS_INLINE bool follow_expected(Capture *c, OpCall *call, sn_state *state, Status *status) {
    TrieNode *const node = trie_newest(c->cursor);
    const MetaEntry *const entry = node ? trie_newest_metas(node) : NULL;
    const uint32_t manner = trie_manner(call->form, capture_modes(state), c->mutates_metadata);
    if (UNLIKELY(!entry || !is_undisturbed(c, state) || node->op.row != call->row || node->manner != manner ||
                 (call->row->flags & OPF_random && node->op.random != c->trace->random) || !entry->args ||
                 (call->form == FORM_out && capture_out_tracks(c, call, state))))
        return false;
    const int captured = c->trace->inputs.n;
    if (UNLIKELY(!match(c, call, &node->op, entry))) {
        capture_drop_inputs(c, captured);
        return false;
    }
    *status = capture_check_recorded(c->trace, &node->op);
    if (LIKELY(*status == ST_OK))
        *status = advance(c, state, call, node, entry->numbers, &(FreshResults){entry->out, entry->alias});
    if (UNLIKELY(call->row->returns_list)) call->n_outs = node->op.n_outs;
    if (LIKELY(*status == ST_OK)) return true;
    capture_drop_inputs(c, captured);
    error_set_op(op_form_name(call->row, call->form));
    error_set_site(state->site);
    return true;
}

bool capture_follow(Tracer *self, sn_state *state, OpCall *call, Status *status) {
    Capture *const c = (Capture *)self;
    if (UNLIKELY(!is_plain(c, state, call))) return false;
    const bool entered = UNLIKELY(!__libc_single_threaded) && capture_enter(c);
    const bool followed = follow_expected(c, call, state, status);
    if (UNLIKELY(entered)) capture_leave(c, entered);
    return followed;
}
