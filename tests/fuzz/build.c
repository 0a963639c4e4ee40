/* build.c: the graphs that calls of a program capture, built once more by <sinter/graph.h>, node by node: the text is
 * the same, byte for byte, and both, compiled, give the same bits, or the same error, and write the same into their
 * inputs. Each is a .pt2 file, too (import.c). Lists come as they are, or as values one by one (sn_values), by turns.
 * What only captures and passes make (regions, joint graphs, numbers of a call) is left out, and counted. */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/api/graph_handle.h"
#include "runtime/base/hash.h"
#include "tests/fuzz/export.h"
#include "tests/fuzz/run.h"
#include "tests/ref/nan.h"

typedef struct Rebuild {
    const Graph *from;
    sn_graph *to;
    sn_value *values; /* by value id */
    uint64_t turn;
} Rebuild;

/* An op that was removed has left its number behind. */
static bool lacks_random(const Graph *graph) {
    int n = 0;
    bool any = false;
    for (const Node *node = graph->first; node; node = node->next)
        if (node->row->flags & OPF_random) any |= node->random != n++;
    return any || n != graph->n_random;
}

static bool is_left_out(const Graph *graph) {
    bool left = graph->writes.n || graph->n_forward_inputs || graph->n_forward_outputs || graph->runtime_floats.n;
    left |= lacks_random(graph);
    for (const Node *node = graph->first; node; node = node->next)
        left |= node->region || node->again || node->merged || node->kernel || node->row->role == ROLE_gradients ||
                node->modes & ~(NODE_no_grad | NODE_inference) || node->where;
    for (int i = 0; i < graph->outputs.n; i++)
        left |= graph->outputs.at[i].kind != OUT_new && graph->outputs.at[i].kind != OUT_none;
    return left;
}

/* The hints and bounds of the header; there is nothing yet that mentions them. */
static void build_symbols(const Rebuild *b) {
    const SymEnv *const env = b->from->env;
    for (int i = 0; i < sym_free_count(env); i++) {
        const SymExpr *const e = sym_expr(env, sym_free_at(env, i));
        const int64_t made = sym_free(b->to->graph->env, e->hint, e->b);
        if (sym_free_at(env, i) == b->from->seed) b->to->graph->seed = made;
        if (sym_free_at(env, i) == b->from->sequence) b->to->graph->sequence = made;
    }
}

static void type_text(const Rebuild *b, const Meta *meta, Text *out) { meta_print(b->from->env, out, meta); }

static void build_inputs(const Rebuild *b) {
    const Graph *const from = b->from;
    for (int i = 0, k = 0; i < from->inputs.n || k < from->int_inputs.n;) {
        Text text = {0};
        if (k < from->int_inputs.n && from->int_inputs.at[k].before == i) {
            sym_print(from->env, &text, from->int_inputs.at[k++].symbol);
            sn_graph_input(b->to, text_str(&text), "int");
        } else {
            const GVal *const input = from->inputs.at[i++];
            type_text(b, input->base.meta, &text);
            b->values[input->id] = sn_node_result(sn_graph_input(b->to, input->name, text_str(&text)), 0);
        }
        text_free(&text);
    }
}

static sn_value build_int(const Rebuild *b, int64_t v) {
    if (!sym_is(v)) return sn_int(v);
    Text text = {0};
    sym_print(b->from->env, &text, v);
    const sn_value made = sn_graph_sym(b->to, text_str(&text));
    text_free(&text);
    return made;
}

static sn_value build_tensor(const Rebuild *b, Val *val) { return val ? b->values[gval(val)->id] : sn_none(); }

static sn_value build_list(Rebuild *b, const Arg *a) {
    sn_value *const list = ARENA_ARRAY(b->to->arena, sn_value, a->n + 1);
    bool symbolic = false;
    for (int i = 0; a->kind == ARG_ints && i < a->n; i++) symbolic |= sym_is(a->ints[i]);
    for (int i = 0; i < a->n; i++)
        list[i] = a->kind == ARG_tensors  ? build_tensor(b, a->vals[i])
                  : a->kind == ARG_floats ? sn_float(a->floats[i])
                                          : build_int(b, a->ints[i]);
    sn_value plain;
    memcpy(&plain, a, sizeof plain);
    return a->kind == ARG_tensors || symbolic || b->turn++ % 2 ? sn_values(list, a->n) : plain;
}

static sn_value build_arg(Rebuild *b, const Arg *a) {
    sn_value plain;
    memcpy(&plain, a, sizeof plain);
    if (a->kind == ARG_tensor) return build_tensor(b, a->val);
    if (a->kind == ARG_int) return build_int(b, a->i);
    return a->kind == ARG_tensors || a->kind == ARG_ints || a->kind == ARG_floats ? build_list(b, a) : plain;
}

static void build_node(Rebuild *b, const Node *node) {
    const OpRow *const row = node->row;
    const int n = op_form_params(row, node->form), n_outs = node->form == FORM_out ? row->n_out : 0;
    sn_value args[MAX_ARGS + MAX_OUTS];
    for (int i = 0; i < n; i++) args[i] = build_arg(b, &node->args[op_form_param(row, node->form, i)]);
    for (int i = 0; i < n_outs; i++) args[n + i] = build_arg(b, &node->args[row->n_params + i]);
    sn_graph_grad_mode_set(b->to, node->modes & NODE_inference ? SN_INFERENCE
                                  : node->modes & NODE_no_grad ? SN_GRAD_OFF
                                                               : SN_GRAD_ON);
    sn_node *const made = sn_graph_op(b->to, op_form_name(row, node->form), args, n + n_outs);
    for (int i = 0; i < node->n_outs; i++) b->values[node->outs[i].id] = sn_node_result(made, i);
}

static sn_graph *build_graph(Graph *from, uint64_t seed) {
    sn_graph *const to = sn_graph_new(from->name);
    if (!to) return NULL;
    graph_number(from);
    Rebuild b = {.from = from, .to = to, .turn = seed};
    b.values = ARENA_ARRAY(to->arena, sn_value, from->n_vals + 1);
    build_symbols(&b);
    build_inputs(&b);
    for (const Node *node = from->first; node; node = node->next) build_node(&b, node);
    sn_value *const results = ARENA_ARRAY(to->arena, sn_value, from->outputs.n + 1);
    for (int i = 0; i < from->outputs.n; i++) {
        GVal *const value = from->outputs.at[i].value;
        results[i] = build_tensor(&b, value ? &value->base : NULL);
    }
    sn_graph_return(to, results, from->outputs.n);
    return to;
}

/* Calls --------------------------------------------------------------------------------------- */

/* As the header says it by its hints; of ints 0 or 1, which are positions nearly everywhere. */
sn_tensor *fz_make_argument(const SymEnv *env, const Meta *meta, uint64_t *s) {
    int64_t sizes[MAX_RANK], strides[MAX_RANK], own[MAX_RANK], n = 1;
    for (int d = 0; d < meta->rank; d++) {
        sizes[d] = sym_hint(env, meta->sizes[d]);
        strides[d] = sym_hint(env, meta->strides[d]);
        own[d] = strides[d] || !sizes[d] ? sizes[d] : 1; /* before it is expanded */
        n *= own[d];
    }
    sn_tensor *const t =
        sn_empty_strided((sn_ints){own, meta->rank}, (sn_ints){strides, meta->rank}, (sn_dtype)meta->dtype);
    double *const data = calloc((size_t)n + 1, sizeof *data);
    const bool floats = dtype_is_float(meta->dtype);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = fz_next(s);
        data[i] = floats ? (double)(bits % 4096) / 1024 - 2 : (double)(bits % 2);
    }
    sn_copy_(t, sn_from_data(data, (sn_ints){own, meta->rank}, SN_F64));
    free(data);
    return memcmp(own, sizes, sizeof *own * (size_t)meta->rank) ? sn_expand(t, (sn_ints){sizes, meta->rank}) : t;
}

enum { MOST_VALUES = 64 };
typedef struct BuiltSeen {
    uint64_t hash;
    char error[200];
} BuiltSeen;

uint64_t fz_see_tensor(uint64_t hash, sn_tensor *t) {
    if (!t) return hash_bytes(hash, "none", 4);
    const size_t bytes = (size_t)sn_numel(t) * (size_t)dtype_bytes((DType)sn_dtype_of(t));
    const sn_ints sizes = sn_sizes(t), strides = sn_strides(t);
    unsigned char *const data = calloc(bytes + 1, 1);
    const size_t item = (size_t)dtype_bytes((DType)sn_dtype_of(t));
    const bool read = sn_read(t, data, bytes) == SN_OK;
    for (size_t i = 0; read && i < bytes; i += item) /* a NaN is a NaN */
        if (is_nan_at((DType)sn_dtype_of(t), data + i)) memset(data + i, 0xff, item);
    if (read) hash = hash_bytes(hash, data, bytes);
    free(data);
    hash = hash_bytes(hash, sizes.data, (size_t)sizes.n * sizeof *sizes.data);
    return hash_bytes(hash, strides.data, (size_t)strides.n * sizeof *strides.data);
}

/* Three calls: the first is eager, later ones are compiled. */
static void see_calls(sn_graph *g, const Graph *like, uint64_t seed, BuiltSeen *seen) {
    sn_function *const fn = sn_graph_compile(g, NULL);
    *seen = (BuiltSeen){.hash = 7};
    for (int call = 0; call < 3 && fn; call++) {
        const sn_scope scope = sn_scope_begin();
        sn_value in[MOST_VALUES];
        sn_tensor *out[MOST_VALUES] = {NULL};
        uint64_t s = seed + (uint64_t)call;
        int n = 0;
        for (int i = 0, k = 0; i < like->inputs.n || k < like->int_inputs.n;)
            in[n++] = k < like->int_inputs.n && like->int_inputs.at[k].before == i
                          ? sn_int(sym_hint(like->env, like->int_inputs.at[k++].symbol))
                          : sn_val(fz_make_argument(like->env, like->inputs.at[i++]->base.meta, &s));
        sn_seed(seed);
        if (sn_call_values(fn, in, n, out, like->outputs.n) == SN_OK)
            for (int i = 0; i < like->outputs.n; i++) seen->hash = fz_see_tensor(seen->hash, out[i]);
        for (int i = 0; i < n && !sn_check(); i++)
            if (in[i].kind == SN_KIND_TENSOR) seen->hash = fz_see_tensor(seen->hash, in[i].tensor);
        sn_scope_end(scope);
        if (!sn_check()) continue;
        snprintf(seen->error, sizeof seen->error, "%.190s", sn_error_take()->message);
        break;
    }
    if (sn_check()) snprintf(seen->error, sizeof seen->error, "%.190s", sn_error_take()->message);
    sn_function_free(fn);
}

bool fz_draws_unset(const Graph *graph) {
    bool any = false;
    for (const Node *node = graph->first; node; node = node->next) any |= (node->row->flags & OPF_unset) != 0;
    return any;
}

static bool same_calls(sn_graph *parsed, sn_graph *built, uint64_t seed, Text *story) {
    const Graph *const graph = parsed->graph;
    if (graph->inputs.n + graph->int_inputs.n > MOST_VALUES || graph->outputs.n > MOST_VALUES || fz_draws_unset(graph))
        return true;
    BuiltSeen want, got;
    see_calls(parsed, graph, seed, &want);
    see_calls(built, graph, seed, &got);
    const bool same = want.hash == got.hash && !strcmp(want.error, got.error);
    if (!same && story)
        text_printf(story, "a built graph gives other results: '%s', and '%s' of its text\n%s", got.error, want.error,
                    sn_graph_text(parsed));
    return same;
}

/* One graph of a dump. */
static bool same_built(const char *text, size_t n, uint64_t seed, Text *story, FzBuilt *count) {
    sn_graph *const parsed = sn_graph_parse(text, n);
    if (!parsed) return sn_error_take(), true; /* a comment has the word */
    if (is_left_out(parsed->graph)) {
        count->left_out++;
        sn_graph_free(parsed);
        return true;
    }
    count->built++;
    sn_graph *const built = build_graph(parsed->graph, seed);
    const bool failed = sn_check() != SN_OK;
    const char *const own = failed ? sn_error_take()->message : sn_graph_text(built);
    const bool same_text = !failed && !strcmp(own, sn_graph_text(parsed));
    if (!same_text && story) text_printf(story, "a graph is built as\n%s\nits text is\n%s", own, sn_graph_text(parsed));
    const bool same = same_text && same_calls(parsed, built, seed, story) && fz_imported(parsed, seed, story, count);
    sn_graph_free(built);
    sn_graph_free(parsed);
    return same;
}

bool fz_built(const FzProgram *p, uint64_t seed, Text *story, FzBuilt *count) {
    FzRun *const run = fz_run_new(p, NULL);
    for (int i = 0; i < FZ_SETTINGS; i++) {
        FzSeen seen;
        fz_run_call(run, i, seed + (uint64_t)i, &seen);
        fz_seen_free(&seen);
    }
    const char *const dump = sn_dump(run->fn, "capture");
    char *const text = sn_check() ? NULL : strdup(dump);
    if (sn_check()) sn_error_take(); /* nothing was captured */
    bool same = true;
    for (const char *at = text; at && same && (at = strstr(at, "graph ")); at++) {
        const char *const end = strstr(at, "\n}\n");
        if (!end) break;
        if (at == text || at[-1] == '\n') same = same_built(at, (size_t)(end + 3 - at), seed, story, count);
    }
    free(text);
    fz_run_free(run);
    return same;
}
