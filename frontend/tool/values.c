/* values.c: see values.h. */
#include "frontend/tool/values.h"

#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/ways.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/core/tensor.h"

uint64_t values_digest(sn_tensor *t) {
    const size_t n = (size_t)sn_numel(t) * (size_t)dtype_bytes(t->base.meta->dtype);
    unsigned char *const bytes = mem_zero(n ? n : 1);
    uint64_t h = 0xcbf29ce484222325u;
    if (bytes && sn_read(t, bytes, n) == SN_OK)
        for (size_t i = 0; i < n; i++) h = (h ^ bytes[i]) * 0x100000001b3u;
    mem_free(bytes);
    return h;
}

/* Writing -------------------------------------------------------------------------------------- */

/* The name of the graph's input i, which the text has behind a "%". */
static const char *input_name(sn_graph *graph, int i) { return sn_node_name(sn_graph_node(graph, i)); }

static sn_status save_inputs(sn_graph *graph, sn_tensor *const *in, int n, const char *path) {
    sn_dict *const dict = sn_dict_new();
    for (int i = 0; i < n && !sn_check(); i++) sn_dict_set(dict, input_name(graph, i), in[i]);
    if (!sn_check()) sn_dict_save(dict, path);
    sn_dict_free(dict);
    return sn_check();
}

static void print_flags(sn_graph *graph, sn_tensor *const *in, int n, Text *text) {
    const char *between = "# requires_grad ";
    for (int i = 0; i < n; i++) {
        if (!sn_requires_grad(in[i])) continue;
        text_printf(text, "%s%s", between, input_name(graph, i));
        between = ", ";
    }
    if (*between == ',') text_puts(text, "\n");
}

/* What the target itself gives from here on, eagerly. */
static void print_results(const TargetOptions *o, const Target *t, Text *text) {
    sn_tensor *out[TARGET_OUTPUTS] = {NULL};
    sn_function *const fn = target_compile(t, o, SN_COMPILE_EAGER);
    if (fn) target_call(t, fn, out);
    for (int i = 0; i < t->n_out && !sn_check(); i++) {
        if (!out[i]) continue;
        text_printf(text, "# result %d: ", i);
        meta_print(NULL, text, out[i]->base.meta);
        text_printf(text, " %016llx\n", (unsigned long long)values_digest(out[i]));
    }
    sn_function_free(fn);
}

static Status print_with_values(const TargetOptions *o, const Target *t, sn_graph *graph, sn_tensor *const *in, int n,
                                const char *path, Text *text) {
    const char *const slash = strrchr(path, '/');
    if (save_inputs(graph, in, n, path) != SN_OK) return error_pending();
    const sn_rng rng = sn_rng_get();
    char *const body = mem_strdup(sn_graph_text(graph));
    text_printf(text, "# values %s\n", slash ? slash + 1 : path);
    print_flags(graph, in, n, text);
    text_printf(text, "# random %llu %llu\n", (unsigned long long)rng.seed, (unsigned long long)rng.sequence);
    print_results(o, t, text);
    text_puts(text, body ? body : "");
    mem_free(body);
    return error_pending();
}

Status values_dump(const TargetOptions *o, Target *t, const char *path, Text *text) {
    sn_tensor *in[TARGET_INPUTS];
    int n = 0;
    sn_graph *const graph = way_graph(o, t, in, &n);
    if (!graph) return error_pending();
    const Status status = print_with_values(o, t, graph, in, n, path, text);
    way_graph_free(t, graph);
    return status;
}

/* Reading -------------------------------------------------------------------------------------- */

/* Behind "# KEY " of a line at the head of the text; NULL: there is none. */
static const char *head_of(const char *text, const char *key) {
    const size_t n = strlen(key);
    for (; *text == '#'; text += *text == '\n') {
        if (!strncmp(text + 1, " ", 1) && !strncmp(text + 2, key, n) && text[2 + n] == ' ') return text + 3 + n;
        text += strcspn(text, "\n");
    }
    return NULL;
}

/* Among names with ", " between them, to the line's end. */
static bool names_input(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = list; at && *at && *at != '\n'; at += strspn(at, ", ")) {
        const size_t length = strcspn(at, ",\n");
        if (length == n && !memcmp(at, name, n)) return true;
        at += length;
    }
    return false;
}

static bool is_alike(sn_tensor *a, sn_tensor *b) {
    const sn_ints x = sn_sizes(a), y = sn_sizes(b);
    return sn_dtype_of(a) == sn_dtype_of(b) && x.n == y.n &&
           (!x.n || !memcmp(x.data, y.data, (size_t)x.n * sizeof *x.data));
}

static sn_status wrong_values(sn_tensor *want, sn_tensor *got, const char *name) {
    Text types = {0};
    meta_print(NULL, &types, want->base.meta);
    text_puts(&types, ", its values are ");
    meta_print(NULL, &types, got->base.meta);
    error_raise(ST_SHAPE, "input '%s' is %s", name, text_str(&types));
    text_free(&types);
    return sn_check();
}

static sn_status fill_input(sn_tensor *to, sn_dict *dict, const char *name, bool tracked) {
    sn_tensor *const from = sn_dict_get(dict, name);
    if (from && !is_alike(to, from)) return wrong_values(to, from, name);
    const sn_scope scope = sn_no_grad_begin();
    if (from) {
        sn_requires_grad_(to, false);
        sn_copy_(to, from);
        sn_requires_grad_(to, tracked);
    }
    sn_scope_end(scope);
    return sn_check();
}

static sn_status fill_inputs(Target *t, sn_dict *dict, const char *text) {
    const char *const tracked = head_of(text, "requires_grad");
    for (int i = 0; i < t->n_in && !sn_check(); i++) {
        const char *const name = input_name(t->graph, i);
        fill_input(t->in[i], dict, name, names_input(tracked, name));
    }
    return sn_check();
}

static void set_generator(const char *text) {
    const char *const random = head_of(text, "random");
    unsigned long long seed, sequence;
    if (random && sscanf(random, "%llu %llu", &seed, &sequence) == 2)
        sn_rng_set((sn_rng){.seed = seed, .sequence = sequence});
}

Status values_read(Target *t, const char *text, const char *text_path) {
    const char *const name = head_of(text, "values"), *const slash = strrchr(text_path, '/');
    Text path = {0};
    if (!name || sn_check()) return ST_OK;
    if (slash) text_put(&path, text_path, (size_t)(slash - text_path) + 1);
    text_put(&path, name, strcspn(name, "\n"));
    sn_dict *const dict = sn_dict_load(text_str(&path));
    if (dict && fill_inputs(t, dict, text) == SN_OK) set_generator(text);
    sn_dict_free(dict);
    text_free(&path);
    return error_pending();
}
