/* import.c: a graph that calls of a program captured as a .pt2 file (export.c), imported and called: the results, what
 * is written into inputs, and weights afterwards are those of the graph itself, bit for bit, or both end in an error.
 * Some of its inputs are parameters, buffers or constants of the file: there the graph has tensors bound. What the
 * format has no word for is counted. */
#include <sinter/import.h>
#include <stdio.h>
#include <unistd.h>

#include "frontend/api/graph_handle.h"
#include "runtime/base/hash.h"
#include "tests/fuzz/export.h"

enum { MOST_INPUTS = 64, CALLS = 3 };

typedef struct Imports {
    const Graph *graph;
    FzWeight weights[MOST_INPUTS];
    sn_tensor *tensors[MOST_INPUTS]; /* weights, kept */
    uint64_t seed;
} Imports;

typedef struct ImportSeen {
    uint64_t hash;
    sn_status status;
    char error[200];
} ImportSeen;

/* A weight has sizes that are numbers, and an element for each of its places. */
static bool may_be_weight(const Meta *meta) {
    for (int d = 0; d < meta->rank; d++)
        if (sym_is(meta->sizes[d]) || sym_is(meta->strides[d]) || !meta->strides[d]) return false;
    return true;
}

/* The same at an offset in its storage. */
static sn_tensor *placed(sn_tensor *t, int64_t offset) {
    int64_t span = 1;
    for (int d = 0; t && d < sn_rank(t); d++) span += (sn_size(t, d) - 1) * sn_strides(t).data[d];
    if (!t || !offset || !sn_numel(t)) return t;
    sn_tensor *const block = sn_zeros(SN_INTS(span + offset), sn_dtype_of(t));
    return sn_copy_(sn_as_strided(block, sn_sizes(t), sn_strides(t), offset), t);
}

/* Every second input whose sizes are numbers. Only floats are parameters. */
static void choose_weights(Imports *m) {
    for (int i = 0; i < m->graph->inputs.n; i++) {
        const Meta *const meta = m->graph->inputs.at[i]->base.meta;
        uint64_t s = hash_mix(m->seed, (uint64_t)i + 1);
        m->weights[i] = !may_be_weight(meta) || s % 2 ? FZ_no_weight : (FzWeight)(1 + s / 2 % 3);
        if (m->weights[i] == FZ_parameter && !dtype_is_float(meta->dtype)) m->weights[i] = FZ_buffer;
        if (m->weights[i]) m->tensors[i] = sn_keep(placed(fz_make_argument(m->graph->env, meta, &s), s % 4));
        if (!m->tensors[i]) m->weights[i] = FZ_no_weight;
    }
}

/* The graph's own call: its weights are copies of the file's. */
static sn_function *compile_itself(const Imports *m, sn_graph *g, sn_tensor **weights) {
    for (int i = 0; i < m->graph->inputs.n; i++) {
        sn_tensor *const t = m->tensors[i];
        weights[i] = t ? sn_copy_(sn_empty_strided(sn_sizes(t), sn_strides(t), sn_dtype_of(t)), t) : NULL;
        if (t) sn_node_bind(graph_handle(g, NULL, m->graph->inputs.at[i]), weights[i]);
    }
    return sn_graph_compile(g, NULL);
}

static int make_inputs(const Imports *m, uint64_t s, sn_value *in) {
    const Graph *const g = m->graph;
    int n = 0;
    for (int i = 0, k = 0; i <= g->inputs.n; i++) {
        for (; k < g->int_inputs.n && g->int_inputs.at[k].before <= i; k++)
            in[n++] = sn_int(sym_hint(g->env, g->int_inputs.at[k].symbol));
        if (i == g->inputs.n) break;
        sn_tensor *const t = fz_make_argument(g->env, g->inputs.at[i]->base.meta, &s); /* drawn in any case */
        if (!m->weights[i]) in[n++] = sn_val(t);
    }
    return n;
}

/* weights: by input, as they are after each call; constants are no part of a program's dictionary. */
static void see(const Imports *m, sn_function *fn, sn_tensor *const *weights, ImportSeen *seen) {
    *seen = (ImportSeen){.hash = 11};
    for (int call = 0; call < CALLS && fn && !sn_check(); call++) {
        sn_value in[MOST_INPUTS];
        sn_tensor *out[MOST_INPUTS] = {NULL};
        const sn_scope scope = sn_scope_begin();
        const int n = make_inputs(m, m->seed + (uint64_t)call, in);
        sn_seed(m->seed);
        if (sn_call_values(fn, in, n, out, m->graph->outputs.n) == SN_OK)
            for (int i = 0; i < m->graph->outputs.n; i++) seen->hash = fz_see_tensor(seen->hash, out[i]);
        for (int i = 0; i < n && !sn_check(); i++)
            if (in[i].kind == SN_KIND_TENSOR) seen->hash = fz_see_tensor(seen->hash, in[i].tensor);
        for (int i = 0; i < m->graph->inputs.n && !sn_check(); i++)
            if (m->weights[i] && m->weights[i] != FZ_constant) seen->hash = fz_see_tensor(seen->hash, weights[i]);
        sn_scope_end(scope);
    }
    if (sn_check()) {
        const sn_error *const e = sn_error_take();
        seen->status = e->status;
        snprintf(seen->error, sizeof seen->error, "%.190s", e->message);
    }
}

static sn_tensor *find_weight(sn_dict *dict, const char *name) {
    char full[160];
    snprintf(full, sizeof full, "w.%s", name);
    for (int i = 0; i < sn_dict_count(dict); i++)
        if (!strcmp(sn_dict_name(dict, i), full)) return sn_dict_at(dict, i);
    return NULL;
}

static void see_imported(const Imports *m, sn_program *p, ImportSeen *seen) {
    sn_tensor *weights[MOST_INPUTS] = {NULL};
    for (int i = 0; i < m->graph->inputs.n; i++)
        if (m->weights[i]) weights[i] = find_weight(sn_program_dict(p), m->graph->inputs.at[i]->name);
    see(m, sn_program_function(p), weights, seen);
}

static bool told(const char *what, const ImportSeen *want, const ImportSeen *got, sn_graph *g, Text *story) {
    if (story)
        text_printf(story, "imported: %s: graph '%s', file '%s'\n%s", what, want->error, got->error, sn_graph_text(g));
    return false;
}

static bool same_program(const Imports *m, sn_graph *parsed, const char *path, Text *story) {
    static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    sn_tensor *weights[MOST_INPUTS] = {NULL};
    ImportSeen want, got = {.hash = 0};
    const sn_scope scope = sn_scope_begin();
    sn_program *const p =
        sn_import(path, SN_IMPORT_OPTIONS(.compile = SN_COMPILE_OPTIONS(.mode = modes[m->seed / 2 % 3])));
    if (!p) snprintf(got.error, sizeof got.error, "%.190s", sn_error_take()->message);
    if (p) see_imported(m, p, &got);
    sn_program_free(p);
    sn_function *const fn = compile_itself(m, parsed, weights);
    see(m, fn, weights, &want);
    sn_function_free(fn);
    sn_scope_end(scope);
    if (!p) return want.status ? true : told("the file is refused", &want, &got, parsed, story);
    if (want.status || got.status)
        return want.status == got.status || told("another error", &want, &got, parsed, story);
    return want.hash == got.hash || told("another result", &want, &got, parsed, story);
}

bool fz_imported(sn_graph *parsed, uint64_t seed, Text *story, FzBuilt *count) {
    Imports m = {.graph = parsed->graph, .seed = seed};
    char path[64];
    const char *why;
    if (fz_draws_unset(m.graph)) return true;
    if (m.graph->inputs.n > MOST_INPUTS || m.graph->outputs.n > MOST_INPUTS || m.graph->int_inputs.n > 8) return true;
    snprintf(path, sizeof path, "/tmp/fuzz.%ld.pt2", (long)getpid());
    choose_weights(&m);
    const bool written = fz_export(m.graph, m.weights, m.tensors, path, &why);
    const bool same = !written || same_program(&m, parsed, path, story);
    count->imported += written;
    count->unworded += !written;
    for (int i = 0; i < m.graph->inputs.n; i++) sn_release(m.tensors[i]);
    remove(path);
    return same;
}
