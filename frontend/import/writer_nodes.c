/* writer_nodes.c: nodes as lines. A target is an op of ATen ("torch.ops.aten.add.Tensor"), arithmetic of sizes
 * ("_operator.mul"), or of higher order, with bodies. */
#include <stdio.h>

#include "frontend/import/size_make.h"
#include "frontend/import/writer.h"
#include "runtime/base/error.h"

static const char *target_of(const Json *node) {
    const char *const target = json_string(json_get(node, "target"));
    return target ? target : "";
}

static bool starts(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

/* The same with the user's line behind it. */
static Status at_place(const NodeWriter *w, Status status) {
    if (status != ST_OK && status != ST_MEMORY && w->place) {
        ErrorSlot *const slot = error_slot();
        if (!strstr(slot->message, w->place)) error_append(slot, " (%s)", w->place);
    }
    return status;
}

static bool only_sizes(const Json *outputs) {
    bool all = outputs && outputs->n > 0;
    for (int i = 0; all && i < outputs->n; i++) {
        const Json *const member = writer_union(&outputs->items[i]);
        all = writer_union_is(member, "as_sym_int") || writer_union_is(member, "as_sym_bool") ||
              writer_union_is(member, "as_sym_float");
    }
    return all;
}

/* Ops ------------------------------------------------------------------------------------------ */

/* "torch.ops.aten.add_.Tensor" as "aten::add_.Tensor"; the overload "default" has no name. */
static const char *op_name(Arena *arena, const char *target) {
    const char *const space = target + strlen("torch.ops."), *const dot = strchr(space, '.');
    if (!dot) return NULL;
    const size_t n = strlen(dot + 1), suffix = strlen(".default");
    const bool plain = n > suffix && !strcmp(dot + 1 + n - suffix, ".default");
    return arena_printf(arena, "%.*s::%.*s", (int)(dot - space), space, (int)(plain ? n - suffix : n), dot + 1);
}

/* An in-place form of a view changes the handle, which no graph knows: it is the view, and its name from then on. */
typedef struct Called {
    const OpRow *row;
    OpForm form;
    bool handle;
} Called;

static bool find_op(const char *name, Called *out) {
    char base[128];
    *out = (Called){NULL};
    out->row = op_find(name, strlen(name), &out->form);
    if (out->row && (out->form != FORM_inplace || out->row->kind != KIND_view)) return true;
    const size_t n = strcspn(name, ".");
    if (n < 2 || n >= sizeof base || name[n - 1] != '_') return out->row != NULL;
    const int wrote = snprintf(base, sizeof base, "%.*s%s", (int)n - 1, name, name + n);
    const OpRow *const view = wrote < (int)sizeof base ? op_find(base, strlen(base), &out->form) : NULL;
    if (!view || view->kind != KIND_view) return out->row != NULL;
    *out = (Called){view, FORM_functional, true};
    return true;
}

/* Ops that there are none of: all of a program in one error, each once, with the line that called it first. */
typedef struct UnknownOps {
    Arena *arena;
    VEC(const char *) names;
    Text list;
} UnknownOps;
enum { MOST_UNKNOWN = 12, MOST_GRAPH_DEPTH = 16 };

static bool is_unknown_listed(const UnknownOps *all, const char *name) {
    for (int i = 0; i < all->names.n; i++)
        if (!strcmp(all->names.at[i], name)) return true;
    return false;
}

static Status list_unknown(UnknownOps *all, const Json *node) {
    const char *const target = target_of(node), *const place = writer_place(all->arena, node);
    const char *const name = starts(target, "torch.ops.") ? op_name(all->arena, target) : NULL;
    Called called;
    if (!name || starts(target, "torch.ops.higher_order.") || only_sizes(json_get(node, "outputs")) ||
        find_op(name, &called) || is_unknown_listed(all, name))
        return ST_OK;
    if (all->names.n < MOST_UNKNOWN) {
        text_printf(&all->list, "%s'%.100s'%s%s%s", all->names.n ? ", " : "", name, place ? " (" : "",
                    place ? place : "", place ? ")" : "");
        if (!all->names.n) op_unknown_hint(&all->list, name, strlen(name));
    }
    VEC_PUSH(all->arena, &all->names, name);
    return error_pending();
}

static Status find_unknown(UnknownOps *all, const Json *graph, int depth) {
    const Json *const nodes = json_get(graph, "nodes");
    for (int i = 0; nodes && nodes->kind == JSON_list && depth < MOST_GRAPH_DEPTH && i < nodes->n; i++) {
        const Json *const inputs = json_get(&nodes->items[i], "inputs");
        TRY(list_unknown(all, &nodes->items[i]));
        for (int k = 0; inputs && inputs->kind == JSON_list && k < inputs->n; k++)
            TRY(find_unknown(all, json_get(json_get(json_get(&inputs->items[k], "arg"), "as_graph"), "graph"),
                             depth + 1));
    }
    return ST_OK;
}

Status writer_check_ops(Model *m) {
    UnknownOps all = {.arena = m->arena};
    Status status = find_unknown(&all, m->graph, 0);
    if (status == ST_OK && all.names.n)
        status = error_raise(ST_UNSUPPORTED, "%s called %.800s%s", all.names.n == 1 ? "no op is" : "no ops are",
                             text_str(&all.list), all.names.n > MOST_UNKNOWN ? "..." : "");
    text_free(&all.list);
    return status;
}

static bool takes_tensor(ParamType type) {
    return type == PT_tensor || type == PT_tensor_opt || type == PT_tensors || type == PT_tensors_opt;
}

/* "%x", or in a list "[s0, %x]": no rest of a division. */
static bool has_value(const char *text) {
    bool any = *text == '%';
    for (const char *c = text; *c && !any; c++) any = c[0] == '%' && (c[-1] == '[' || c[-1] == ' ');
    return any;
}

/* A number that is a tensor here is one to the op, too. */
static Status put_arg(NodeWriter *w, const Called *called, int at, const Json *arg, Text *line) {
    const Json *const member = writer_union(arg);
    const size_t from = line->n;
    TRY(writer_arg(w, arg, line));
    const bool number = member && starts(member->key, "as_sym_") && at >= 0;
    if (!number || takes_tensor(called->row->params[at].type) || !has_value(text_str(line) + from)) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "%s has a number that values give for '%s', which is no tensor",
                       called->row->name, called->row->params[at].name);
}

/* By place as long as none is left out, then by name. to_f32: dtype is f32, where the file has None, too. */
static Status put_args(NodeWriter *w, const Called *called, const Json *inputs, bool to_f32, Text *line) {
    int next = 0;
    bool first = true;
    for (int i = 0; i < inputs->n; i++, first = false) {
        const char *const name = json_string(json_get(&inputs->items[i], "name"));
        const int at = name ? op_param_find(called->row, name) : -1;
        const bool is_out = at < 0 && called->form == FORM_out && name && starts(name, "out");
        if (to_f32 && name && !strcmp(name, "dtype")) continue;
        if (at < 0 && !is_out)
            return error_raise(ST_UNSUPPORTED, "%s has no argument '%.60s'", called->row->name, name ? name : "");
        if (!first) text_puts(line, ", ");
        if (at != next || is_out) text_printf(line, "%s=", name);
        next = at == next ? next + 1 : -1;
        TRY(put_arg(w, called, at, json_get(&inputs->items[i], "arg"), line));
    }
    return ST_OK;
}

static Status rename_handle(NodeWriter *w, const Json *inputs, const Json *outputs) {
    const Json *const self = inputs->n ? json_get(json_get(&inputs->items[0], "arg"), "as_tensor") : NULL;
    const Json *const result = outputs->n ? json_get(&outputs->items[0], "as_tensor") : NULL;
    const char *value, *const name = json_string(json_get(self, "name"));
    if (!name || !result) return ST_OK;
    TRY(writer_tensor(w, result, &value));
    return writer_set(w, name, value);
}

static Status write_call(NodeWriter *w, const Called *called, const Json *inputs, const Json *outputs) {
    Text call = {0}, line = {0};
    WriterCasts casts;
    Status status = writer_casts(w, called->row, inputs, &casts);
    text_printf(&call, "%s(", op_form_name(called->row, called->form));
    if (status == ST_OK) status = put_args(w, called, inputs, casts.to_f32, &call);
    if (casts.to_f32) text_printf(&call, "%sdtype=f32", inputs->n ? ", " : "");
    text_puts(&call, ")");
    writer_attributes(w, &call);
    if (status == ST_OK) status = writer_casts_end(w, &casts);
    if (status == ST_OK) status = writer_results(w, outputs, &line);
    if (status == ST_OK) text_printf(w->text, "  %s%s\n", text_str(&line), text_str(&call));
    text_free(&call);
    text_free(&line);
    return status;
}

/* Whether a tensor of this graph has the symbol among its sizes. */
static Status has_symbol(NodeWriter *w, const Json *tensor, int symbol, bool *out) {
    const Json *const sizes = json_get(model_meta(w->graph, json_string(json_get(tensor, "name"))), "sizes");
    for (int d = 0; sizes && sizes->kind == JSON_list && d < sizes->n; d++) {
        const SizeExpr *size;
        TRY(model_size(w->m, &sizes->items[d], &size));
        *out = *out || size_one_symbol(size) == symbol;
    }
    return ST_OK;
}

/* Or one of the arguments, an int among them. */
static Status is_given_size(NodeWriter *w, const Json *inputs, int symbol, bool *out) {
    for (int i = 0; i < inputs->n && !*out; i++) {
        const Json *const member = writer_union(json_get(&inputs->items[i], "arg"));
        const bool list = member && member->kind == JSON_list;
        for (int k = 0; k < (list ? member->n : 1) && member; k++) {
            const Json *const item = list ? &member->items[k] : member;
            const char *const number = json_string(json_get(item, "as_name"));
            const Json *const size = number ? json_get(json_get(w->graph, "sym_int_values"), number) : NULL;
            const SizeExpr *e;
            TRY(has_symbol(w, json_get(item, "as_tensor") ? json_get(item, "as_tensor") : item, symbol, out));
            if (!size) continue;
            TRY(model_size(w->m, size, &e));
            *out = *out || size_one_symbol(e) == symbol;
        }
    }
    return ST_OK;
}

/* The number of the symbol that only values say: the header's next one. least: what the op cannot go below. */
static int number_symbol(NodeWriter *w, int symbol, int64_t least) {
    SizeSymbol *const s = &w->m->symbols.list.at[symbol];
    s->number = w->m->n_symbols + w->m->n_found++;
    s->min = max_i64(s->min, least);
    return s->number;
}

static bool is_unbacked(const Model *m, const SizeExpr *e) {
    return e->op == SIZE_symbol && m->symbols.list.at[e->value].name[0] == 'u';
}

/* A size that only values say (of nonzero, of x[mask]) is a symbol of the graph where the op stands. *out: -1: none. */
static Status number_found(NodeWriter *w, const Json *inputs, const Json *outputs, int *out) {
    const Json *const result = outputs->n ? json_get(&outputs->items[0], "as_tensor") : NULL;
    const Json *const sizes = json_get(model_meta(w->graph, json_string(json_get(result, "name"))), "sizes");
    *out = -1;
    for (int d = 0; sizes && sizes->kind == JSON_list && d < sizes->n && !w->is_body; d++) {
        const SizeExpr *size;
        bool given = false;
        TRY(model_size(w->m, &sizes->items[d], &size));
        if (!is_unbacked(w->m, size) || w->m->symbols.list.at[size->value].number >= 0) continue;
        TRY(is_given_size(w, inputs, (int)size->value, &given));
        if (given) continue;
        *out = number_symbol(w, (int)size->value, 0);
        return ST_OK;
    }
    return ST_OK;
}

static bool is_filled(const char *name) {
    return !strcmp(name, "aten::full") || !strcmp(name, "aten::new_full") || !strcmp(name, "aten::scalar_tensor");
}

static Status write_op(NodeWriter *w, const Json *node, const Json *inputs, const Json *outputs) {
    const char *const name = op_name(w->m->arena, target_of(node));
    Called called;
    WriterCasts floats;
    bool filled = false;
    if (!name) return error_raise(ST_PARSE, "model.json: the target '%.200s' is no op", target_of(node));
    if (!find_op(name, &called)) return error_raise(ST_UNSUPPORTED, "no op is called '%.100s'", name);
    if (is_filled(name)) TRY(writer_filled(w, inputs, outputs, &filled));
    if (!strcmp(name, "aten::select.int")) TRY(writer_carried_select(w, inputs, outputs, &filled));
    if (filled) return ST_OK;
    if (called.form == FORM_functional) called.row = writer_row_of_tensors(w, called.row, inputs);
    TRY(writer_floats(w, called.row, inputs, outputs, &floats));
    TRY(number_found(w, inputs, outputs, &w->found));
    TRY(write_call(w, &called, inputs, outputs));
    TRY(writer_casts_end(w, &floats));
    return called.handle ? rename_handle(w, inputs, outputs) : ST_OK;
}

/* Sizes ---------------------------------------------------------------------------------------- */

/* {"as_int": 3} or {"as_expr": {"expr_str": ...}} of a value of the kind; NULL: there is none. */
static const Json *sym_value(const NodeWriter *w, const char *kind, const char *name) {
    return json_get(json_get(w->graph, kind), name);
}

/* What a kind of numbers is called as a result, and where the graph says what they are. */
typedef struct SymKind {
    const char *kind, *values, *plain;
} SymKind;
static const SymKind sym_kinds[] = {{"as_sym_int", "sym_int_values", "as_int"},
                                    {"as_sym_bool", "sym_bool_values", "as_bool"},
                                    {"as_sym_float", "sym_float_values", "as_float"}};

static Status sym_expr_of(NodeWriter *w, const SymKind *kind, const Json *value, const SizeExpr **out) {
    const char *const text = json_string(json_get(json_get(value, "as_expr"), "expr_str"));
    *out = NULL;
    if (kind == sym_kinds) return model_size(w->m, value, out);
    return text && kind == sym_kinds + 1 ? size_parse_sympy(&w->m->symbols, text, out) : ST_OK;
}

/* A number of sizes is its expression from here on, a truth as one that is 1 or 0. What is none, or has a symbol that
 * only values say, has no text: who uses it says so. */
static Status bind_number(NodeWriter *w, const SymKind *kind, const char *name) {
    const Json *const value = sym_value(w, kind->values, name), *const plain = json_get(value, kind->plain);
    const SizeExpr *e = NULL;
    Text text = {0};
    if (!value) return ST_OK;
    Status status = plain ? writer_arg(w, value, &text) : sym_expr_of(w, kind, value, &e);
    if (status == ST_OK && (plain || (e && size_print(&w->m->symbols, e, &text))))
        status = writer_set(w, name, arena_printf(w->m->arena, "%s", text_str(&text)));
    text_free(&text);
    return status == ST_OK && e && !writer_get(w, name) ? writer_carried(w, e, name) : status;
}

static Status bind_numbers(NodeWriter *w, const Json *node, const Json *outputs) {
    for (int i = 0; i < outputs->n; i++)
        for (int k = 0; k < COUNT_OF(sym_kinds); k++) {
            const char *const name = json_string(json_get(json_get(&outputs->items[i], sym_kinds[k].kind), "as_name"));
            if (!name) continue;
            TRY(bind_number(w, &sym_kinds[k], name));
            if (!strcmp(sym_kinds[k].kind, "as_sym_float") && !writer_get(w, name)) TRY(writer_float(w, node, name));
        }
    return ST_OK;
}

/* aten::item of an int: "u0", or an expression that the program has checked it to be: then a symbol as large. */
static Status item_symbol(NodeWriter *w, const char *name, int *out) {
    Model *const m = w->m;
    const Json *const size = sym_value(w, "sym_int_values", name);
    const SizeExpr *e;
    if (!size) return error_raise(ST_PARSE, "model.json: nothing says what '%.200s' is", name);
    TRY(model_size(m, size, &e));
    const bool own = is_unbacked(m, e) && m->symbols.list.at[e->value].number < 0;
    const char *const made = own ? "" : arena_printf(m->arena, "u_%s", name);
    const int symbol = own ? (int)e->value : made ? size_symbol(&m->symbols, made, strlen(made)) : -1;
    if (symbol < 0) return ST_MEMORY;
    *out = number_symbol(w, symbol, INT64_MIN);
    if (own) return ST_OK;
    const ModelCheck check = {
        .holds =
            size_pair(m->arena, SIZE_eq, size_make(m->arena, (SizeExpr){.op = SIZE_symbol, .value = symbol}, NULL), e),
        .text = made};
    VEC_PUSH(m->arena, &m->checks, check);
    return check.holds ? error_pending() : ST_MEMORY;
}

Status writer_item(NodeWriter *w, const char *name, const char *tensor) {
    Text at = {0};
    int number = -1;
    TRY(item_symbol(w, name, &number));
    writer_attributes(w, &at);
    text_printf(w->text, "  s%d = aten::item(%s)%s\n", number, tensor, text_str(&at));
    text_free(&at);
    return bind_number(w, sym_kinds, name);
}

static bool is_item(const char *target, const Json *outputs) {
    const bool reads = starts(target, "torch.ops.aten.item.") || starts(target, "torch.ops.aten._local_scalar_dense.");
    return reads && outputs->n == 1 &&
           (json_get(&outputs->items[0], "as_sym_int") || json_get(&outputs->items[0], "as_sym_float"));
}

static Status write_item(NodeWriter *w, const Json *inputs, const Json *outputs) {
    const char *const real = json_string(json_get(json_get(&outputs->items[0], "as_sym_float"), "as_name"));
    const char *value, *const name = json_string(json_get(json_get(&outputs->items[0], "as_sym_int"), "as_name"));
    if (!inputs->n || (!name && !real))
        return error_raise(ST_PARSE, "model.json: aten::item has no input, or no result");
    if (w->is_body && name)
        return error_raise(ST_UNSUPPORTED, "aten::item in a body of control flow: no graph reads values there");
    TRY(writer_tensor(w, json_get(&inputs->items[0], "arg"), &value));
    return real ? writer_float_item(w, real, value) : writer_item(w, name, value);
}

/* What a body asks of the numbers that it carries. */
static Status write_assert(NodeWriter *w, const Json *inputs, bool *written) {
    const Json *const given = inputs->n ? json_get(json_get(&inputs->items[0], "arg"), "as_sym_bool") : NULL;
    const char *const name = json_string(json_get(given, "as_name")), *const value = name ? writer_get(w, name) : NULL;
    *written = value && *value == '%' && inputs->n > 1;
    if (!*written) return ST_OK;
    text_printf(w->text, "  aten::_assert_async.msg(%s, ", value);
    TRY(writer_arg(w, json_get(&inputs->items[1], "arg"), w->text));
    text_puts(w->text, ")");
    writer_attributes(w, w->text);
    text_puts(w->text, "\n");
    return ST_OK;
}

/* What is known before the first op. */
static bool is_of_inputs(const SizeSymbols *symbols, const SizeExpr *e) {
    bool all = e->op != SIZE_symbol || symbols->list.at[e->value].name[0] != 'u';
    for (int i = 0; i < e->n; i++) all = all && is_of_inputs(symbols, e->parts[i]);
    return all;
}

/* _assert_scalar(bool, message): what must hold of the inputs' sizes is checked with each call (*is_check); what values
 * say, and what a body asks, is asked where it stands, as by any op. */
static Status add_check(NodeWriter *w, const Json *inputs, bool *is_check) {
    const Json *const given = inputs->n ? json_get(json_get(&inputs->items[0], "arg"), "as_sym_bool") : NULL;
    const char *const name = json_string(json_get(given, "as_name"));
    const Json *const value = name ? sym_value(w, "sym_bool_values", name) : NULL;
    const char *const text = json_string(json_get(json_get(value, "as_expr"), "expr_str"));
    const char *const message =
        inputs->n > 1 ? json_string(json_get(json_get(&inputs->items[1], "arg"), "as_string")) : NULL;
    ModelCheck check = {.text = message ? message : text};
    *is_check = false;
    if (!text || w->graph != w->m->graph) return ST_OK;
    TRY(size_parse_sympy(&w->m->symbols, text, &check.holds));
    if (!is_of_inputs(&w->m->symbols, check.holds)) return ST_OK;
    *is_check = true;
    VEC_PUSH(w->m->arena, &w->m->checks, check);
    return error_pending();
}

/* Nodes ---------------------------------------------------------------------------------------- */

static Status write_node(NodeWriter *w, const Json *node) {
    const char *const target = target_of(node);
    const Json *const inputs = json_get(node, "inputs"), *const outputs = json_get(node, "outputs");
    if (!inputs || !outputs || inputs->kind != JSON_list || outputs->kind != JSON_list)
        return error_raise(ST_PARSE, "model.json: a node has no inputs or outputs");
    bool is_check = false;
    if (is_item(target, outputs)) return write_item(w, inputs, outputs);
    if (starts(target, "torch.ops.higher_order."))
        return writer_higher_order(w, node, target + strlen("torch.ops.higher_order."));
    if (only_sizes(outputs)) return bind_numbers(w, node, outputs);
    if (starts(target, "torch.ops.aten._assert_scalar")) {
        TRY(add_check(w, inputs, &is_check));
        if (!is_check) TRY(write_assert(w, inputs, &is_check));
    }
    if (is_check) return ST_OK;
    if (starts(target, "torch.ops.")) return write_op(w, node, inputs, outputs);
    return error_raise(ST_UNSUPPORTED,
                       "the program calls '%.200s', which is no op: run_decompositions() leaves ops alone", target);
}

Status writer_nodes(NodeWriter *w, const Json *graph) {
    const Json *const nodes = json_get(graph, "nodes"), *const outer = w->graph;
    if (!nodes || nodes->kind != JSON_list) return error_raise(ST_PARSE, "model.json: a graph has no nodes");
    w->graph = graph;
    for (int i = 0; i < nodes->n; i++) {
        const char *const place = writer_place(w->m->arena, &nodes->items[i]), *const before = w->place;
        if (place) w->place = place;
        TRY(at_place(w, write_node(w, &nodes->items[i])));
        w->place = before;
    }
    w->graph = outer;
    return ST_OK;
}
