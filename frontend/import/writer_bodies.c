/* writer_bodies.c: nodes of higher order. Regions (no_grad, autocast) are written in place, their ops in the region's
 * mode; control flow becomes an op whose bodies are graphs of their own, as texts (ir/ops/flow.def). */
#include "frontend/import/writer.h"
#include "runtime/base/error.h"

enum { MOST_BODY_DEPTH = 16 };

/* The arguments of a node of higher order have no names. */
typedef struct HigherArgs {
    const Json *at; /* list of {arg} */
    int n;
} HigherArgs;

static const Json *higher_arg(const HigherArgs *args, int i) {
    return i < args->n ? writer_union(json_get(&args->at[i], "arg")) : NULL;
}

static Status higher_wrong(const char *name) {
    return error_raise(ST_PARSE, "model.json: %s has other arguments than it takes", name);
}

static const Json *body_at(const HigherArgs *args, int i) {
    const Json *const member = higher_arg(args, i);
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

static const Json *list_of(const Json *graph, const char *key, int *n) {
    const Json *const list = json_get(graph, key);
    *n = list && list->kind == JSON_list ? list->n : -1;
    return list;
}

/* Its results by the names that the node gives them outside. */
static Status pass_results(NodeWriter *w, const Json *body, const Json *node, int inner, int outer) {
    int n, wanted;
    const Json *const from = list_of(body, "outputs", &n), *const to = list_of(node, "outputs", &wanted);
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
    const Json *const body = body_at(args, at);
    int n;
    const Json *const inputs = list_of(body, "inputs", &n);
    const int outer = w->scope, inner = ++w->scopes;
    if (n < 0 || n != args->n - at - 1) return higher_wrong("a region");
    if (inner - outer > MOST_BODY_DEPTH * 1024) return higher_wrong("a region");
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
    const Json *const on = higher_arg(args, 0);
    const bool before = w->no_grad;
    if (!writer_union_is(on, "as_bool")) return higher_wrong("wrap_with_set_grad_enabled");
    w->no_grad = !on->i || w->m->joint;
    TRY(inline_body(w, node, args, 1));
    w->no_grad = before;
    return ST_OK;
}

/* (device, dtype or None, enabled, cache, body, inputs...). Without a dtype a device has its own. */
static Status write_autocast_region(NodeWriter *w, const Json *node, const HigherArgs *args) {
    const Json *const device = higher_arg(args, 0), *const dtype = higher_arg(args, 1), *const on = higher_arg(args, 2);
    const DType cast_to = w->cast_to;
    const bool as_cpu = w->casts_as_cpu;
    if (!writer_union_is(device, "as_string") || device->kind != JSON_string || !writer_union_is(on, "as_bool"))
        return higher_wrong("wrap_with_autocast");
    const bool of_cpu = !strcmp(device->string, "cpu");
    const DType own = of_cpu ? DT_bf16 : DT_f16;
    w->cast_to = !on->i ? DT_default : writer_union_is(dtype, "as_scalar_type") ? model_dtype(dtype->i) : own;
    w->casts_as_cpu = of_cpu;
    TRY(inline_body(w, node, args, 4));
    w->cast_to = cast_to, w->casts_as_cpu = as_cpu;
    return ST_OK;
}

/* Control flow --------------------------------------------------------------------------------- */

/* A body as a graph of its own: its inputs are %x0, %x1... in the order of the operands. */
static Status write_body(NodeWriter *outer, const Json *body, Text *out) {
    Text lines = {0};
    NodeWriter w = {.m = outer->m,
                    .graph = body,
                    .text = &lines,
                    .is_body = true,
                    .found = -1,
                    .no_grad = outer->no_grad,
                    .cast_to = outer->cast_to,
                    .casts_as_cpu = outer->casts_as_cpu,
                    .place = outer->place};
    int n, n_out;
    const Json *const inputs = list_of(body, "inputs", &n), *const outputs = list_of(body, "outputs", &n_out);
    Status status = n < 0 || n_out < 0 ? higher_wrong("control flow") : ST_OK;
    text_puts(out, "graph body(");
    for (int i = 0; status == ST_OK && i < n; i++) {
        const char *const name = json_string(json_get(json_get(&inputs->items[i], "as_tensor"), "name"));
        char *const own = arena_printf(w.m->arena, "x%d", i);
        if (!name) status = error_raise(ST_UNSUPPORTED, "a body of control flow has an input that is no tensor");
        text_printf(out, "%s%%%s: ", i ? ", " : "", own);
        if (status == ST_OK) status = writer_type(w.m, model_meta(body, name), name, out);
        if (status == ST_OK) status = writer_set(&w, name, arena_printf(w.m->arena, "%%%s", writer_new_name(&w, own)));
    }
    text_puts(out, ") {\n");
    if (status == ST_OK) status = writer_nodes(&w, body);
    text_printf(out, "%s  return ", text_str(&lines));
    for (int i = 0; status == ST_OK && i < n_out; i++) {
        if (i) text_puts(out, ", ");
        status = writer_arg(&w, &outputs->items[i], out);
    }
    text_puts(out, "\n}\n");
    text_free(&lines);
    writer_free(&w);
    return status;
}

static Status put_body(NodeWriter *w, const Json *body, Text *line) {
    Text text = {0};
    const Status status = write_body(w, body, &text);
    text_puts(line, ", '");
    for (const char *c = text_str(&text); *c; c++) {
        if (*c == '\\' || *c == '\'') text_puts(line, "\\");
        text_put(line, *c == '\n' ? "\\n" : c, *c == '\n' ? 2 : 1);
    }
    text_puts(line, "'");
    text_free(&text);
    return status;
}

/* The values of lists of operands, one behind the other. */
static Status put_operands(NodeWriter *w, const Json *const *lists, int n_lists, Text *line, int *count) {
    *count = 0;
    text_puts(line, "[");
    for (int k = 0; k < n_lists; k++) {
        if (!writer_union_is(lists[k], "as_tensors") || lists[k]->kind != JSON_list)
            return error_raise(ST_UNSUPPORTED, "control flow is given something else than tensors");
        for (int i = 0; i < lists[k]->n; i++, ++*count) {
            const char *value;
            TRY(writer_tensor(w, &lists[k]->items[i], &value));
            text_printf(line, "%s%s", *count ? ", " : "", value);
        }
    }
    text_puts(line, "]");
    return ST_OK;
}

static Status end_call(NodeWriter *w, const Json *node, const Text *call) {
    Text line = {0};
    Text end = {0};
    const Status status = writer_results(w, json_get(node, "outputs"), &line);
    writer_attributes(w, &end);
    if (status == ST_OK) text_printf(w->text, "  %s%s)%s\n", text_str(&line), text_str(call), text_str(&end));
    text_free(&line);
    text_free(&end);
    return status;
}

/* (pred, if_true, if_false, operands) */
static Status put_cond(NodeWriter *w, const HigherArgs *args, Text *call) {
    const Json *const operands[] = {higher_arg(args, 3)}, *const pred = higher_arg(args, 0);
    const char *value;
    int n;
    if (!body_at(args, 1) || !body_at(args, 2)) return higher_wrong("cond");
    if (!writer_union_is(pred, "as_tensor")) return error_raise(ST_UNSUPPORTED, "cond by something else than a tensor");
    TRY(writer_tensor(w, pred, &value));
    text_printf(call, "sn::cond(%s, ", value);
    TRY(put_operands(w, operands, 1, call, &n));
    text_printf(call, ", %d", n);
    TRY(put_body(w, body_at(args, 1), call));
    return put_body(w, body_at(args, 2), call);
}

/* (condition, body, carried, additional): each of both bodies is given what is carried, then the additional ones, which
 * it has as its own. */
static Status put_while(NodeWriter *w, const HigherArgs *args, Text *call) {
    const Json *const more = higher_arg(args, 3), *const lists[] = {higher_arg(args, 2), more, more};
    int n;
    if (!body_at(args, 0) || !body_at(args, 1) || !lists[0] || !more) return higher_wrong("while_loop");
    text_puts(call, "sn::while_loop(");
    TRY(put_operands(w, lists, 3, call, &n));
    text_printf(call, ", %d, 0", lists[0]->n);
    TRY(put_body(w, body_at(args, 0), call));
    return put_body(w, body_at(args, 1), call);
}

/* (body, [init], [xs], [additional]) */
static Status put_scan(NodeWriter *w, const HigherArgs *args, Text *call) {
    const Json *const lists[] = {higher_arg(args, 1), higher_arg(args, 2), higher_arg(args, 3)};
    int n;
    if (!body_at(args, 0) || !lists[0] || !lists[1] || !lists[2]) return higher_wrong("scan");
    text_puts(call, "sn::scan(");
    TRY(put_operands(w, lists, 3, call, &n));
    text_printf(call, ", %d, %d, 0, False", lists[0]->n + lists[1]->n, lists[0]->n);
    return put_body(w, body_at(args, 0), call);
}

typedef struct HigherOp {
    const char *name;
    Status (*put)(NodeWriter *w, const HigherArgs *args, Text *call);
} HigherOp;
static const HigherOp flows[] = {{"cond", put_cond}, {"while_loop", put_while}, {"scan", put_scan}};

static Status write_flow(NodeWriter *w, const Json *node, const HigherArgs *args, const HigherOp *op) {
    Text call = {0};
    Status status = op->put(w, args, &call);
    if (status == ST_OK) status = end_call(w, node, &call);
    text_free(&call);
    return status;
}

Status writer_higher_order(NodeWriter *w, const Json *node, const char *name) {
    const Json *const inputs = json_get(node, "inputs");
    const HigherArgs args = {inputs->items, inputs->n};
    if (!strcmp(name, "wrap_with_set_grad_enabled")) return write_grad_region(w, node, &args);
    if (!strcmp(name, "wrap_with_autocast")) return write_autocast_region(w, node, &args);
    for (int i = 0; i < COUNT_OF(flows); i++)
        if (!strcmp(name, flows[i].name)) return write_flow(w, node, &args, &flows[i]);
    return error_raise(ST_UNSUPPORTED, "there is no op of higher order '%.60s' here", name);
}
