/* capture_record.c: the step is an edge of the trie, followed or added. Result metadata comes from
 * the edge's cache where operand metadata and numbers were seen before, else from the meta rule:
 * errors in shapes are therefore raised at the call, exactly as in eager. */
#include "runtime/capture/record/capture_record.h"

#include <stdio.h>

#include "runtime/base/clock.h"
#include "runtime/capture/record/capture_arguments.h"
#include "runtime/capture/record/capture_split.h"
#include "runtime/capture/record/capture_step.h"
#include "runtime/capture/record/capture_input.h"
#include "runtime/capture/record/captured_region.h"
#include "runtime/capture/record/function_state.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/trace_graph.h"

/* Failpoint "mismatch:3": the op after three of a segment finds no edge, as if it were new there. */
static bool mismatch_forced(const Capture *c) {
    if (LIKELY(!failpoints_set())) return false;
    char point[32];
    snprintf(point, sizeof point, "mismatch:%d", c->cursor->depth);
    return failpoint(point);
}

static TrieNode *known_child(const Capture *c, const TraceOp *op, uint64_t hash) {
    return mismatch_forced(c) ? NULL : trie_find(c->cursor, op, hash);
}

static inline int random_of(const Capture *c, const OpCall *call) {
    return call->row->flags & OPF_random ? c->trace->random : 0;
}

/* *full: the op is new here, and the function has no room for new paths; NULL: it is recorded in any case. */
static TrieNode *follow(Capture *c, const OpCall *call, const OpSplit *s, bool *full) {
    const OpRegion place = captured_region_place(c, call);
    const TraceOp op = {.row = call->row,
                        .form = call->form,
                        .modes = capture_modes(state_get()) | place.modes,
                        .mutates_metadata = c->mutates_metadata,
                        .region = place.region,
                        .random = random_of(c, call),
                        .args = call->args,
                        .operands = s->operands,
                        .n_operands = s->n_operands,
                        .fixed = s->fixed,
                        .n_fixed = s->n_fixed,
                        .n_numbers = s->n_numbers};
    const uint64_t hash = trie_hash(&op);
    TrieNode *child = known_child(c, &op, hash);
    if (child) return child;
    if (full && (*full = function_is_full(c->fn))) return NULL;
    if (!c->trace->started_ns) c->trace->started_ns = clock_ns();
    pthread_mutex_lock(&c->fn->lock);
    child = known_child(c, &op, hash); /* another thread may have been first */
    if (!child) child = trie_add(c->fn->arena, c->cursor, &op, hash, ++c->fn->n_nodes);
    pthread_mutex_unlock(&c->fn->lock);
    return child;
}

/* Under the lock. */
static void set_outs(TrieNode *node, int n) {
    if (node->op.n_outs != n) node->op.n_outs = n; /* others read it once it is so */
}

static void know_outs(Capture *c, TrieNode *node, int n) {
    pthread_mutex_lock(&c->fn->lock);
    set_outs(node, n);
    pthread_mutex_unlock(&c->fn->lock);
}

typedef struct InferredResults {
    const Meta *metas[MAX_OUTS];
    AliasFact alias[MAX_OUTS];
} InferredResults;

/* The results as the rule gives them. */
static Status infer_anew(const OpCall *call, InferredResults *buffer, FreshResults *out, int *n) {
    MetaOut metas[MAX_OUTS];
    *n = call->row->returns_list ? MAX_OUTS : call->row->n_out;
    TRY(call_metas(call, 0, metas, n));
    *out = (FreshResults){.metas = buffer->metas};
    for (int i = 0; i < *n; i++) {
        if (!(buffer->metas[i] = meta_intern_out(&metas[i]))) return ST_MEMORY;
        buffer->alias[i] = (AliasFact){metas[i].alias, metas[i].offset};
        if (metas[i].alias >= 0) out->alias = buffer->alias;
    }
    return ST_OK;
}

/* From the edge, or by the meta rule. */
static Status infer(Capture *c, TrieNode *node, const OpCall *call, const OpSplit *s, InferredResults *buffer,
                    FreshResults *out) {
    const MetaEntry *const seen = trie_metas(node, s->metas, s->numbers);
    if (seen) {
        *out = (FreshResults){seen->out, seen->alias};
        return ST_OK;
    }
    int n;
    TRY(infer_anew(call, buffer, out, &n));
    pthread_mutex_lock(&c->fn->lock);
    set_outs(node, call->form == FORM_functional ? n : 0);
    if (trie_metas_fit(node)) {
        const ExpectedArg *const args = capture_expected_args(c->fn->arena, call, s);
        metas_stay(s->metas, node->op.n_operands);
        metas_stay(out->metas, node->op.n_outs);
        trie_metas_add(
            c->fn->arena, node,
            &(MetaEntry){.in = s->metas, .numbers = s->numbers, .out = out->metas, .alias = out->alias, .args = args});
    }
    pthread_mutex_unlock(&c->fn->lock);
    return ST_OK;
}

/* *full: see follow. */
static Status record_touching(Capture *c, const OpCall *call, const Arg *symbolic, const Meta *const *given,
                              bool *full) {
    OpSplit s;
    TRY(capture_split(c, call, &s));
    TrieNode *const node = follow(c, call, &s, full);
    if (!node) return full && *full ? ST_OK : ST_MEMORY;
    TRY(capture_check_recorded(c->trace, &node->op));
    FreshResults results = {.metas = given};
    InferredResults buffer;
    if (!given)
        TRY(infer(c, node, call, &s, &buffer, &results));
    else
        know_outs(c, node, call->n_outs);
    TRY(capture_step(c, state_get(), call, node, s.numbers, &results));
    return c->symbols ? symbols_record(c, call, symbolic, &node->op) : ST_OK;
}

Status capture_record(Capture *c, const OpCall *call, const Arg *symbolic, const Meta *const *given, bool *full) {
    if (UNLIKELY(c->traces.n > 1)) TRY(capture_make_earlier_arguments(c, call));
    const int captured = c->trace->inputs.n;
    const Status status = record_touching(c, call, symbolic, given, full);
    if (status != ST_OK || (full && *full)) capture_drop_inputs(c, captured);
    return status;
}
