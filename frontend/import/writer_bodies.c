/* writer_bodies.c: nodes of higher order. Regions (no_grad, autocast) are written in place, their ops in the region's
 * mode; control flow becomes an op (writer_flow.c). */
#include "frontend/import/writer_higher.h"
#include "runtime/base/error.h"

enum { MOST_BODY_DEPTH = 16 };

const Json *writer_higher_arg(const HigherArgs *args, int i) {
    return i < args->n ? writer_union(json_get(&args->at[i], "arg")) : NULL;
}

Status writer_higher_wrong(const char *name) {
    return error_raise(ST_PARSE, "model.json: %s has other arguments than it takes", name);
}

const Json *writer_higher_body(const HigherArgs *args, int i) {
    const Json *const member = writer_higher_arg(args, i);
    return writer_union_is(member, "as_graph") ? json_get(member, "graph") : NULL;
}

/* Regions -------------------------------------------------------------------------------------- */

/* What an argument is in the text: a value or a size. */
static Status value_of_arg(NodeWriter *w, const Json *arg, const char **out) {
    Text text = {0};
    const Status status = writer_arg(w, arg, &text);
    *out = status == ST_OK ? arena_printf(w->m->arena, "%s", text_str(&text)) : NULL;
    text_free(&text);
    return status == ST_OK && !*out ? ST_MEMORY : status;
}

static const char *member_name(const Json *member) {
    const char *const tensor = json_string(json_get(member, "name"));
    return tensor ? tensor : json_string(json_get(member, "as_name"));
}

const Json *writer_higher_list(const Json *graph, const char *key, int *n) {
    const Json *const list = json_get(graph, key);
    *n = list && list->kind == JSON_list ? list->n : -1;
    return list;
}

/* Its results by the names that the node gives them outside. */
static Status pass_results(NodeWriter *w, const Json *body, const Json *node, int inner, int outer) {
    int n, wanted;
    const Json *const from = writer_higher_list(body, "outputs", &n), *const to =
                                                                          writer_higher_list(node, "outputs", &wanted);
    if (n < 0 || n != wanted) return error_raise(ST_PARSE, "model.json: a body has %d results, not %d", n, wanted);
    for (int i = 0; i < n; i++) {
        const char *value, *const name = member_name(writer_union(&to->items[i]));
        if (!name) continue; /* None */
        w->scope = inner;
        TRY(value_of_arg(w, &from->items[i], &value));
        w->scope = outer;
        TRY(writer_set(w, name, value));
    }
    return ST_OK;
}

static Status inline_body(NodeWriter *w, const Json *node, const HigherArgs *args, int at) {
    const Json *const body = writer_higher_body(args, at);
    int n;
    const Json *const inputs = writer_higher_list(body, "inputs", &n);
    const int outer = w->scope, inner = ++w->scopes;
    if (n < 0 || n != args->n - at - 1) return writer_higher_wrong("a region");
    if (inner - outer > MOST_BODY_DEPTH * 1024) return writer_higher_wrong("a region");
    for (int i = 0; i < n; i++) {
        const char *value, *const name = member_name(writer_union(&inputs->items[i]));
        TRY(value_of_arg(w, json_get(&args->at[at + 1 + i], "arg"), &value));
        w->scope = inner;
        if (name) TRY(writer_set(w, name, value));
        w->scope = outer;
    }
    w->scope = inner;
    TRY(writer_nodes(w, body));
    w->scope = outer;
    return pass_results(w, body, node, inner, outer);
}

static Status write_grad_region(NodeWriter *w, const Json *node, const HigherArgs *args) {
    const Json *const on = writer_higher_arg(args, 0);
    const bool before = w->no_grad;
    if (!writer_union_is(on, "as_bool")) return writer_higher_wrong("wrap_with_set_grad_enabled");
    w->no_grad = !on->i || w->m->joint;
    TRY(inline_body(w, node, args, 1));
    w->no_grad = before;
    return ST_OK;
}

/* (device, dtype or None, enabled, cache, body, inputs...). Without a dtype a device has its own. */
static Status write_autocast_region(NodeWriter *w, const Json *node, const HigherArgs *args) {
    const Json *const device = writer_higher_arg(args, 0), *const dtype = writer_higher_arg(args, 1),
                      *const on = writer_higher_arg(args, 2);
    const DType cast_to = w->cast_to;
    const bool as_cpu = w->casts_as_cpu;
    if (!writer_union_is(device, "as_string") || device->kind != JSON_string || !writer_union_is(on, "as_bool"))
        return writer_higher_wrong("wrap_with_autocast");
    const bool of_cpu = !strcmp(device->string, "cpu");
    const DType own = of_cpu ? DT_bf16 : DT_f16;
    w->cast_to = !on->i ? DT_default : writer_union_is(dtype, "as_scalar_type") ? model_dtype(dtype->i) : own;
    w->casts_as_cpu = of_cpu;
    TRY(inline_body(w, node, args, 4));
    w->cast_to = cast_to, w->casts_as_cpu = as_cpu;
    return ST_OK;
}

Status writer_higher_order(NodeWriter *w, const Json *node, const char *name) {
    const Json *const inputs = json_get(node, "inputs");
    const HigherArgs args = {inputs->items, inputs->n};
    if (!strcmp(name, "wrap_with_set_grad_enabled")) return write_grad_region(w, node, &args);
    if (!strcmp(name, "wrap_with_autocast")) return write_autocast_region(w, node, &args);
    return writer_flow(w, node, &args, name);
}
