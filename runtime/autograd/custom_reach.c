/* custom_reach.c: which tensors the derivative body of a program's op gives gradients to. A backward that is captured
 * sets .grad before any rule has run [semantics G4], so the body runs once on handles without data, for a call like
 * the recorded one:
 *
 *     my::f(x, y), both wanted  ->  body: sn_set_grad_of(f, 0, ...) alone  ->  x is reached, y is not
 *
 * The op keeps the answers, by hashes of what a body can ask: which arguments are wanted, which results have gradients,
 * layouts of the arguments, and numbers. */
#include "runtime/autograd/tape.h"
#include "runtime/base/bail.h"
#include "runtime/base/hash.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/custom_op.h"
#include "runtime/core/tracer.h"

enum { KEY_BITS = 20 };
#define ANSWERED (1ull << 63)
#define UNKNOWN  (1ull << 62)

/* The key of a cached answer: all of it but the bits of the arguments that are reached. */
static uint64_t reach_key(const OpRow *row, const Arg *args, uint32_t needs, uint32_t results) {
    const uint64_t hash = hash_mix(custom_op_hash(row, args), (uint64_t)needs << 32 | results);
    return ANSWERED | (hash << KEY_BITS & ~(ANSWERED | UNKNOWN));
}

/* The call as a node, whose tensors are inputs; NULL raises. */
static Node *node_of(Graph *graph, const OpRow *row, const Arg *args) {
    Arg own[MAX_ARGS];
    for (int i = 0; i < row->n_params; i++) {
        own[i] = args[i];
        if (args[i].kind != ARG_tensor || !args[i].val) continue;
        GVal *const input = graph_input(graph, arena_printf(graph->arena, "x%d", i), args[i].val->meta);
        if (!input) return NULL;
        own[i].val = &input->base;
    }
    return graph_append(graph, row, FORM_functional, own);
}

static Status run_probe(Graph *graph, const Node *node, uint32_t needs, uint32_t results, uint32_t *reached) {
    bool wanted[MAX_ARGS] = {false};
    const Meta *arg_meta[MAX_ARGS] = {NULL}, *result_meta[MAX_OUTS] = {NULL};
    Val *grad_in[MAX_ARGS] = {NULL}, *values[MAX_OUTS] = {NULL}, *grads[MAX_OUTS] = {NULL};
    for (int i = 0; i < node->row->n_params; i++) {
        wanted[i] = needs >> i & 1;
        if (node->args[i].kind == ARG_tensor && node->args[i].val) arg_meta[i] = node->args[i].val->meta;
    }
    if (node->n_outs > MAX_OUTS) return error_raise(ST_UNSUPPORTED, "%s: a long list", node->row->name);
    for (int i = 0; i < node->n_outs; i++) {
        values[i] = &node->outs[i].base;
        result_meta[i] = values[i]->meta;
        GVal *const grad =
            results >> i & 1 ? graph_input(graph, arena_printf(graph->arena, "g%d", i), result_meta[i]) : NULL;
        grads[i] = grad ? &grad->base : NULL;
    }
    Deriv d = {.b = &graph->builder,
               .row = node->row,
               .args = node->args,
               .results = values,
               .grad_out = grads,
               .needs = wanted,
               .arg_meta = arg_meta,
               .result_meta = result_meta,
               .grad_in = grad_in,
               .n_results = node->n_outs};
    TRY(error_pending());
    TRY(deriv_rule(node->row)(&d));
    for (int i = 0; i < node->row->n_params; i++) *reached |= grad_in[i] && wanted[i] ? 1u << i : 0;
    return ST_OK;
}

static bool ask_rule(const OpRow *row, const Arg *args, uint32_t needs, uint32_t results, uint32_t *reached) {
    Arena *const arena = arena_new();
    const ContextSaved saved = context_enter(state_get(), CONTEXT_unrecorded);
    Graph *const graph = arena ? graph_new(arena, row->base) : NULL;
    Node *const node = graph ? node_of(graph, row, args) : NULL;
    const bool known = node && run_probe(graph, node, needs, results, reached) == ST_OK;
    context_leave(&saved);
    error_clear(); /* a backward that runs says it */
    arena_free(arena);
    return known;
}

bool custom_derivative_reaches(const OpRow *row, const Arg *args, uint32_t needs, uint32_t results, uint32_t *reached) {
    DynamicOp *const op = (DynamicOp *)(uintptr_t)op_dynamic(row);
    *reached = needs;
    if (!op || !op->derivative || op->rule || op->n_written || row->n_params > KEY_BITS) return true;
    const uint64_t key = reach_key(row, args, needs, results), all = (1ull << KEY_BITS) - 1;
    _Atomic uint64_t *const cached = &op->reached[key >> KEY_BITS & (COUNT_OF(op->reached) - 1)];
    uint64_t answer = atomic_load(cached);
    if ((answer & ~(UNKNOWN | all)) != key) {
        uint32_t set = 0;
        answer = key | (ask_rule(row, args, needs, results, &set) ? set : UNKNOWN);
        atomic_store(cached, answer);
    }
    *reached = (uint32_t)(answer & all);
    return !(answer & UNKNOWN);
}
