/* ways.c: see ways.h. */
#include "frontend/tool/ways.h"

#include <stdio.h>
#include <string.h>

#include "frontend/api/graph_handle.h"
#include "frontend/tool/crash.h"
#include "frontend/tool/inputs.h"
#include "frontend/tool/sample.h"
#include "frontend/tool/unset.h"
#include "ir/graph.h"
#include "runtime/base/alloc.h"
#include "runtime/base/text.h"
#include "runtime/core/tensor.h"

const char *way_name(Way way, const TargetOptions *o) {
    static const char *const names[WAY_COUNT] = {"eager", "unfused", "fused", "f64"};
    return way == WAY_fused && o->compile.backend ? o->compile.backend : names[way];
}

sn_compile_options way_options(const TargetOptions *o, Way way) {
    sn_compile_options options = o->compile;
    options.size = sizeof options;
    if (way == WAY_eager || way == WAY_f64) options.mode = SN_COMPILE_EAGER;
    if (way != WAY_fused) options.backend = way == WAY_unfused ? "unfused" : NULL;
    return options;
}

bool way_has(const TargetOptions *o, Way way) {
    return way == WAY_eager || way == WAY_fused || !target_is_plan(o->name);
}

void way_value_name(const WayValues *v, int i, char *out, size_t capacity) {
    const int input = (i - v->n_results) % (v->n_inputs + !v->n_inputs);
    if (i < v->n_results)
        snprintf(out, capacity, "result %d", i);
    else if (i < v->n_results + v->n_inputs)
        snprintf(out, capacity, "gradient of argument %d", input);
    else
        snprintf(out, capacity, "argument %d afterwards", input);
}

/* Targets ------------------------------------------------------------------------------------- */

/* A sample's ops are registered where its work is made: once, unless what it does changes what it holds. */
static Target kept;
static bool is_kept;

static bool open_sample(const char *name, Target *t) {
    if (is_kept) return *t = kept, true;
    if (!target_open_sample(name, t)) return false;
    if (!sn_check() && !t->step) kept = *t, is_kept = true;
    return true;
}

/* Code is not checked by itself. */
bool way_open(const TargetOptions *o, Target *t) {
    if (sn_setting_set("eager_compile", "never") != SN_OK) return false;
    sn_seed(0);
    if (!strcmp(o->name, "-")) rewind_stdin();
    return target_is_file(o->name) ? target_open(o, t) : open_sample(o->name, t);
}

void way_close(Target *t) {
    if (!is_kept) target_close(t);
}

sn_graph *way_captured(const TargetOptions *o, const Target *t) {
    sn_value in[TARGET_INPUTS + TARGET_NUMBERS];
    const int n = call_values(t->in, t->n_in, &t->numbers, in);
    sn_function *const fn = target_compile(t, o, SN_COMPILE_VERIFY);
    sn_graph *const graph = !fn ? NULL : t->step ? graph_capture_step(fn, in, n) : sn_graph_capture(fn, in, n);
    sn_function_free(fn);
    return graph;
}

sn_graph *way_graph(const TargetOptions *o, Target *t, sn_tensor **in, int *n_in) {
    sn_graph *const graph = t->graph ? t->graph : way_captured(o, t);
    const int most = graph ? sn_graph_count(graph) : 0;
    *n_in = 0;
    for (int i = 0, given = 0; i < most; i++) {
        sn_node *const node = sn_graph_node(graph, i);
        if (strcmp(sn_node_op(node), "input")) break;
        sn_tensor *const closed = sn_node_tensor(node);
        if (*n_in == TARGET_INPUTS || (!closed && given == t->n_in)) {
            error_raise(ST_UNSUPPORTED, "its graph has more than %d inputs", *n_in);
            way_graph_free(t, graph);
            return NULL;
        }
        in[(*n_in)++] = closed ? closed : t->in[given++];
    }
    return graph;
}

void way_graph_free(const Target *t, sn_graph *graph) {
    if (graph != t->graph) sn_graph_free(graph);
}

/* f64 ----------------------------------------------------------------------------------------- */

static bool is_narrow(int64_t dtype) { return dtype == DT_f32 || dtype == DT_f16 || dtype == DT_bf16; }

static Status widen_inputs(Graph *graph, bool *changed) {
    for (int i = 0; i < graph->inputs.n; i++) {
        Val *const input = &graph->inputs.at[i]->base;
        const Meta *const m = input->meta;
        if (!is_narrow(m->dtype)) continue;
        input->meta = meta_new(graph->arena, graph->env, DT_f64, m->device, m->sizes, m->strides, m->rank);
        if (!input->meta) return ST_MEMORY;
        *changed = true;
    }
    return ST_OK;
}

static Status widen_node(const Node *node, bool *changed) {
    if (node->row->flags & OPF_random)
        return error_raise(ST_UNSUPPORTED, "%s draws other numbers in f64", node->row->name);
    for (int i = 0; i < node->row->n_params; i++) {
        const ParamType type = node->row->params[i].type;
        if ((type != PT_dtype && type != PT_dtype_opt) || node->args[i].kind != ARG_int) continue;
        if (!is_narrow(node->args[i].i)) continue;
        node->args[i] = A_INT(DT_f64);
        *changed = true;
    }
    return ST_OK;
}

static Status widen_graph(Arena *arena, const char *text, Text *out) {
    Graph *graph;
    bool changed = false;
    TRY(graph_parse(arena, text, strlen(text), &graph));
    TRY(widen_inputs(graph, &changed));
    for (const Node *node = graph->first; node; node = node->next) TRY(widen_node(node, &changed));
    if (!changed) return error_raise(ST_UNSUPPORTED, "it has no floats that are narrower");
    graph_print(graph, out);
    return ST_OK;
}

static sn_graph *widened(sn_graph *graph) {
    Arena *const arena = arena_new();
    Text text = {0};
    const Status status = arena ? widen_graph(arena, sn_graph_text(graph), &text) : ST_MEMORY;
    sn_graph *const made = status == ST_OK ? sn_graph_parse(text_str(&text), text.n) : NULL;
    text_free(&text);
    arena_free(arena);
    return made;
}

static sn_tensor *widened_input(sn_tensor *t) {
    return input_copy(t, is_narrow(sn_dtype_of(t)) ? SN_F64 : sn_dtype_of(t));
}

/* A target of its own: the graph in f64 with inputs of f64. */
static void make_reference(const TargetOptions *o, Target *t, Target *out) {
    sn_tensor *in[TARGET_INPUTS];
    int n = 0;
    sn_graph *const graph = way_graph(o, t, in, &n);
    *out = (Target){.graph = graph ? widened(graph) : NULL,
                    .n_out = t->n_out,
                    .backward = t->backward,
                    .asks_gradients = t->asks_gradients};
    for (int i = 0; i < n && out->graph; i++) out->in[out->n_in++] = widened_input(in[i]);
    if (graph == t->graph) out->numbers = t->numbers; /* what is captured has them as constants */
    if (graph) way_graph_free(t, graph);
}

/* Calls --------------------------------------------------------------------------------------- */

static void compute_gradients(const Target *t, sn_tensor *const *results, WayValues *out) {
    sn_tensor *leaves[TARGET_INPUTS], *got[TARGET_INPUTS] = {NULL}, *roots[TARGET_OUTPUTS], *seeds[TARGET_OUTPUTS];
    int places[TARGET_INPUTS], n = 0, n_roots = 0;
    for (int i = 0; i < t->n_in; i++)
        if (sn_requires_grad(t->in[i])) places[n] = i, leaves[n++] = t->in[i];
    for (int i = 0; i < t->n_out; i++) {
        if (!results[i] || !sn_requires_grad(results[i])) continue;
        roots[n_roots] = results[i];
        seeds[n_roots++] = sn_ones_like(sn_detach(results[i]));
    }
    if (!n || !n_roots || t->asks_gradients || sn_check()) return; /* what was saved is gone then */
    sn_gradients((sn_tensors){roots, n_roots}, (sn_tensors){leaves, n}, (sn_tensors){seeds, n_roots}, SN_ALLOW_UNUSED,
                 got);
    out->gradients = true;
    for (int i = 0; i < n; i++) out->at[out->n_results + places[i]] = host_value(got[i]);
}

static void call_target(const Target *t, sn_function *fn, WayValues *out) {
    sn_tensor *results[TARGET_OUTPUTS] = {NULL};
    *out = (WayValues){.n_results = t->n_out, .n_inputs = t->n_in};
    out->at = mem_zero((size_t)(way_values_count(out) + 1) * sizeof *out->at);
    out->before = mem_zero((size_t)(t->n_in + 1) * sizeof *out->before);
    const sn_scope scope = sn_scope_begin();
    for (int i = 0; i < t->n_in && out->before; i++) out->before[i] = host_value(t->in[i]);
    if (out->at && target_call(t, fn, results) == SN_OK) {
        for (int i = 0; i < t->n_out; i++) out->at[i] = host_value(results[i]);
        compute_gradients(t, results, out);
        for (int i = 0; i < t->n_in; i++) out->at[t->n_out + t->n_in + i] = host_value(t->in[i]);
    }
    sn_scope_end(scope);
}

static void record_path(WayRun *run) {
    sn_call_report report = {.size = sizeof report};
    if (sn_last_call(&report) != SN_OK) return;
    run->path = report.path;
    snprintf(run->reason, sizeof run->reason, "%s", report.reason);
}

static void move_error(WayRun *run, int exit_code) {
    run->error = *error_slot();
    run->exit_code = exit_code;
    error_clear();
}

/* A call that ends the process is in no table. */
static void record_call(const TargetOptions *o, Way way, int call) {
    char doing[96];
    snprintf(doing, sizeof doing, "in call %d of the way '%.48s'", call + 1, way_name(way, o));
    crash_record("verify", doing);
}

/* Positions that a program writes begin each call within their bounds. */
typedef struct FirstInts {
    sn_tensor *values[TARGET_INPUTS]; /* kept; NULL: no ints */
    uint32_t version[TARGET_INPUTS];
} FirstInts;

static void first_ints_drop(FirstInts *first) {
    for (int i = 0; i < TARGET_INPUTS; i++) sn_release(first->values[i]);
    *first = (FirstInts){.values = {NULL}};
}

static void first_ints_record(FirstInts *first, const Target *t) {
    first_ints_drop(first);
    for (int i = 0; i < t->n_in; i++) {
        const sn_dtype dtype = sn_dtype_of(t->in[i]);
        if (!dtype_is_int((DType)dtype)) continue;
        first->values[i] = input_copy(t->in[i], dtype);
        first->version[i] = tensor_version(t->in[i]);
    }
}

static void first_ints_put(const FirstInts *first, const Target *t) {
    for (int i = 0; i < t->n_in; i++)
        if (first->values[i] && tensor_version(t->in[i]) != first->version[i]) sn_copy_(t->in[i], first->values[i]);
}

static void make_calls(const TargetOptions *o, Way way, Target *t, WayRun *run) {
    FirstInts first = {.values = {NULL}};
    Target reference = {0}, *const called = way == WAY_f64 ? &reference : t;
    sn_function *fn = NULL;
    for (int i = 0; i < WAY_CALLS && !sn_check(); i++) {
        record_call(o, way, i);
        if (i && o->vary) target_inputs(o, t, DEFAULT_SIZE * (i + 1));
        if (way == WAY_f64 && (!i || o->vary) && !sn_check()) {
            sn_function_free(fn);
            fn = NULL;
            target_close(&reference);
            make_reference(o, t, &reference);
        }
        TargetOptions options = *o;
        options.compile = way_options(o, way);
        if (!fn && !sn_check()) fn = target_compile(called, &options, options.compile.mode);
        if (called->plan && sn_check() == SN_ERR_IO) t->exit_code = EXIT_environment;
        if (sn_check()) break;
        if (!i || o->vary)
            first_ints_record(&first, called);
        else
            first_ints_put(&first, called);
        call_target(called, fn, &run->calls[i]);
        run->n_calls += !sn_check();
        if (!sn_check()) record_path(run);
    }
    if (sn_check()) move_error(run, t->exit_code);
    sn_function_free(fn);
    first_ints_drop(&first);
    if (way == WAY_f64) target_close(&reference);
    crash_record("verify", NULL);
}

static void run_once(const TargetOptions *o, Way way, WayRun *run) {
    Target t;
    way_open(o, &t); /* found before */
    make_calls(o, way, &t, run);
    way_close(&t);
}

/* Whether it had memory to fill. */
static bool run_filled(const TargetOptions *o, unsigned char byte, WayRun *run) {
    UnsetFill fill;
    unset_fill_begin(&fill, byte);
    run_once(o, WAY_eager, run);
    unset_fill_end(&fill);
    return fill.made;
}

static void mark_unset(WayRun *run, const WayRun *other) {
    for (int call = 0; call < run->n_calls && call < other->n_calls; call++)
        for (int i = 0; i < way_values_count(&run->calls[call]); i++)
            host_value_mark(&run->calls[call].at[i], &other->calls[call].at[i]);
}

static void run_eagerly(const TargetOptions *o, WayRun *run) {
    if (!run_filled(o, unset_bytes[0], run)) return;
    for (int i = 1; i < UNSET_FILLS; i++) {
        WayRun other = {0};
        run_filled(o, unset_bytes[i], &other);
        mark_unset(run, &other);
        way_free(&other);
    }
}

void way_run(const TargetOptions *o, Way way, WayRun *run) {
    *run = (WayRun){0};
    if (!way_has(o, way)) return;
    if (way == WAY_eager)
        run_eagerly(o, run);
    else
        run_once(o, way, run);
}

void way_free(WayRun *run) {
    for (int i = 0; i < WAY_CALLS; i++) {
        WayValues *const v = &run->calls[i];
        for (int k = 0; v->at && k < way_values_count(v); k++) host_value_free(&v->at[k]);
        for (int k = 0; v->before && k < v->n_inputs; k++) host_value_free(&v->before[k]);
        mem_free(v->at);
        mem_free(v->before);
    }
}
