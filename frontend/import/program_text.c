/* program_text.c: the graph around a program's nodes: its header, what is written at its end, its results. */
#include "frontend/import/program.h"
#include "frontend/import/writer.h"
#include "ir/sym.h"
#include "runtime/base/error.h"

/* Symbols -------------------------------------------------------------------------------------- */

static void number_symbol(Model *m, const SizeExpr *e) {
    SizeSymbol *const symbol = &m->symbols.list.at[e->value];
    if (symbol->number < 0 && symbol->name[0] != 'u') symbol->number = m->n_symbols++;
}

static void number_all(Model *m, const SizeExpr *e) {
    if (e->op == SIZE_symbol) number_symbol(m, e);
    for (int i = 0; i < e->n; i++) number_all(m, e->parts[i]);
}

/* Those that a size is alone, or an int, come first: calls give them. */
static void number_given(Model *m, bool alone) {
    for (int i = 0; i < m->inputs.n; i++) {
        const ModelInput *const in = &m->inputs.at[i];
        const ModelType *const type = &in->type;
        const SizeExpr *const number = in->kind == INPUT_int ? in->number_expr : NULL;
        for (int d = 0; in->kind == INPUT_tensor && d < type->rank; d++) {
            if (!alone || type->sizes[d]->op == SIZE_symbol) number_all(m, type->sizes[d]);
            if (!alone) number_all(m, type->strides[d]);
        }
        if (number && (!alone || number->op == SIZE_symbol)) number_all(m, number);
    }
}

/* An int of a call that the export fixed, by how the program uses it, is a symbol that has one value. */
static Status fix_ints(Model *m) {
    for (int i = 0; i < m->inputs.n; i++) {
        ModelInput *const in = &m->inputs.at[i];
        if (in->kind != INPUT_int || !size_is_number(in->number_expr)) continue;
        const int64_t only = in->number_expr->value;
        const SizeSymbol symbol = {arena_printf(m->arena, "input '%s'", in->name), only, only, only, -1};
        const SizeExpr e = {.op = SIZE_symbol, .value = m->symbols.list.n};
        VEC_PUSH(m->arena, &m->symbols.list, symbol);
        in->number_expr = arena_copy(m->arena, &e, sizeof e);
        if (!symbol.name || !in->number_expr) return ST_MEMORY;
    }
    return error_pending();
}

static Status number_symbols(Model *m) {
    TRY(fix_ints(m));
    number_given(m, true);
    number_given(m, false);
    return ST_OK;
}

/* Numbers that values give are the graph's alone: calls are not asked. */
static bool is_of_values(const Model *m, const SizeExpr *e) {
    bool any = e->op == SIZE_symbol && m->symbols.list.at[e->value].number >= m->n_symbols;
    for (int i = 0; i < e->n; i++) any = any || is_of_values(m, e->parts[i]);
    return any;
}

typedef struct HeaderGuards {
    Model *m;
    Text *out;
    bool any;
} HeaderGuards;

static bool put_relation(HeaderGuards *g, SizeOp op, const SizeExpr *a, const SizeExpr *b) {
    static const char *const relations[] = {[SIZE_eq] = "==", [SIZE_ne] = "!=", [SIZE_lt] = "<", [SIZE_le] = "<="};
    Text text = {0};
    bool printed = size_print(&g->m->symbols, a, &text);
    text_puts(&text, relations[op]);
    printed = printed && size_print(&g->m->symbols, b, &text);
    if (printed) text_printf(g->out, "%s%s", g->any ? ", " : "; ", text_str(&text));
    g->any = g->any || printed;
    text_free(&text);
    return printed;
}

/* What a header can't say stays with the call's check (program_check.c). */
static bool put_guard(HeaderGuards *g, const SizeExpr *e) {
    static const SizeOp opposite[] = {
        [SIZE_eq] = SIZE_ne, [SIZE_ne] = SIZE_eq, [SIZE_lt] = SIZE_le, [SIZE_le] = SIZE_lt};
    if (size_is_relation(e->op)) return put_relation(g, e->op, e->parts[0], e->parts[1]);
    const SizeExpr *const inner = e->op == SIZE_not ? e->parts[0] : NULL;
    if (inner && size_is_relation(inner->op)) {
        const bool swaps = inner->op == SIZE_lt || inner->op == SIZE_le;
        return put_relation(g, opposite[inner->op], inner->parts[swaps], inner->parts[!swaps]);
    }
    bool all = e->op == SIZE_and;
    for (int i = 0; i < e->n && e->op == SIZE_and; i++) all &= put_guard(g, e->parts[i]);
    return all;
}

static void put_symbol(const SizeSymbol *symbol, bool of_values, Text *out) {
    const int64_t min = of_values                  ? SYM_LEAST /* what is asserted of it stands in the graph */
                        : symbol->min == INT64_MIN ? 2
                                                   : max_i64(symbol->min, SYM_LEAST);
    const int64_t hint = min_i64(max_i64(symbol->hint ? symbol->hint : 2, min), max_i64(symbol->max, min));
    text_printf(out, "s%d=%lld>=%lld", symbol->number, (long long)hint, (long long)min);
    if (symbol->max < INT64_C(1) << 60 && !of_values) text_printf(out, "<=%lld", (long long)max_i64(symbol->max, min));
}

/* "[s0=8>=2<=64, s1=3>=0; s1==s0*2]" */
static void put_symbols(Model *m, Text *out) {
    const int n = m->n_symbols + m->n_found;
    for (int number = 0; number < n; number++)
        for (int i = 0; i < m->symbols.list.n; i++) {
            if (m->symbols.list.at[i].number != number) continue;
            text_puts(out, number ? ", " : "[");
            put_symbol(&m->symbols.list.at[i], number >= m->n_symbols, out);
        }
    HeaderGuards guards = {m, out, false};
    for (int i = 0; n && i < m->checks.n; i++) {
        ModelCheck *const check = &m->checks.at[i];
        check->of_values = is_of_values(m, check->holds);
        if (!put_guard(&guards, check->holds) && !check->of_values) m->asks_sizes = true;
    }
    if (n) text_puts(out, "]");
}

/* Inputs --------------------------------------------------------------------------------------- */

static Status put_tensor(NodeWriter *w, const ModelInput *in, Text *out) {
    const char *const own = writer_new_name(w, in->value), *const value =
                                                               own ? arena_printf(w->m->arena, "%%%s", own) : NULL;
    if (!value) return ST_MEMORY;
    text_printf(out, "%s: ", value);
    TRY(writer_set(w, in->value, value));
    return writer_type(w->m, model_meta(w->m->graph, in->value), in->name, out);
}

static Status put_int_input(NodeWriter *w, const ModelInput *in, Text *out) {
    const SizeExpr *const e = in->number_expr;
    if (e->op != SIZE_symbol || w->m->symbols.list.at[e->value].number < 0)
        return error_raise(ST_UNSUPPORTED, "the int '%.200s' is no symbol", in->name);
    const char *const value = arena_printf(w->m->arena, "s%d", w->m->symbols.list.at[e->value].number);
    text_printf(out, "%s: int", value);
    return writer_set(w, in->value, value);
}

static Status put_inputs(NodeWriter *w, Text *out) {
    Model *const m = w->m;
    bool first = true;
    for (int i = 0; i < m->inputs.n; i++) {
        const ModelInput *const in = &m->inputs.at[i];
        if (in->kind == INPUT_fixed) continue;
        if (!first) text_puts(out, ", ");
        first = false;
        TRY(in->kind == INPUT_int ? put_int_input(w, in, out) : put_tensor(w, in, out));
    }
    return ST_OK;
}

/* Results -------------------------------------------------------------------------------------- */

/* Behind all ops, so that what is returned is what was computed. */
static Status put_writes(NodeWriter *w) {
    for (int i = 0; i < w->m->outputs.n; i++) {
        const ModelOutput *const out = &w->m->outputs.at[i];
        const char *to, *from;
        if (out->kind != OUTPUT_write) continue;
        TRY(writer_tensor(w, out->arg, &from));
        to = writer_get(w, out->name);
        if (!to) return error_raise(ST_PARSE, "model.json: '%.200s' is written, and no input", out->name);
        text_printf(w->text, "  %%%s = aten::copy_(%s, %s) no_grad\n", writer_new_name(w, "written"), to, from);
    }
    return ST_OK;
}

/* A number among the results is a tensor of no dims. */
static Status put_number(NodeWriter *w, const Json *member, Text *returned) {
    static const struct {
        const char *kind, *dtype;
    } kinds[] = {
        {"as_int", "i64"}, {"as_sym_int", "i64"}, {"as_float", "f64"}, {"as_sym_float", "f64"}, {"as_bool", "bool"}};
    const Json arg = {.kind = JSON_object, .n = 1, .items = member};
    Text value = {0};
    for (int i = 0; i < COUNT_OF(kinds); i++) {
        if (!writer_union_is(member, kinds[i].kind)) continue;
        const Status status = writer_arg(w, &arg, &value);
        const bool is_value = status == ST_OK && text_str(&value)[0] == '%'; /* a float of sizes */
        const char *const own = is_value ? text_str(&value) + 1 : writer_new_name(w, "number");
        if (status == ST_OK && !is_value)
            text_printf(w->text, "  %%%s = aten::full([], %s, dtype=%s)\n", own, text_str(&value), kinds[i].dtype);
        if (status == ST_OK) text_printf(returned, "%%%s", own);
        text_free(&value);
        return status;
    }
    return error_raise(ST_UNSUPPORTED, "a result of the kind '%.60s'", member ? member->key : "?");
}

static Status put_result(NodeWriter *w, const ModelOutput *out, Text *returned) {
    const Json *const member = writer_union(out->arg);
    const char *value;
    if (writer_union_is(member, "as_none") || writer_union_is(member, "as_string"))
        return text_puts(returned, "None"), ST_OK;
    if (!writer_union_is(member, "as_tensor")) return put_number(w, member, returned);
    TRY(writer_tensor(w, out->arg, &value));
    text_puts(returned, value);
    return ST_OK;
}

static Status put_results(NodeWriter *w, Text *returned) {
    bool first = true;
    for (int i = 0; i < w->m->outputs.n; i++) {
        if (w->m->outputs.at[i].kind == OUTPUT_write) continue;
        if (!first) text_puts(returned, ", ");
        first = false;
        TRY(put_result(w, &w->m->outputs.at[i], returned));
    }
    return first ? error_raise(ST_UNSUPPORTED, "the program has no results") : ST_OK;
}

/* -------------------------------------------------------------------------------------------------- */

typedef struct TextParts {
    Text lines, inputs, returned;
} TextParts;

static Status put_program(NodeWriter *w, TextParts *parts) {
    TRY(writer_check_ops(w->m));
    TRY(number_symbols(w->m));
    TRY(put_inputs(w, &parts->inputs));
    TRY(writer_nodes(w, w->m->graph));
    TRY(put_writes(w));
    return put_results(w, &parts->returned);
}

Status program_text(Model *m, Text *out) {
    TextParts parts = {.lines = {0}};
    NodeWriter w = {.m = m, .graph = m->graph, .text = &parts.lines, .no_grad = m->joint, .found = -1};
    const Status status = put_program(&w, &parts);
    if (status == ST_OK) {
        text_puts(out, "graph program");
        put_symbols(m, out);
        text_printf(out, "(%s) {\n%s  return %s\n}\n", text_str(&parts.inputs), text_str(&parts.lines),
                    text_str(&parts.returned));
    }
    text_free(&parts.lines), text_free(&parts.inputs), text_free(&parts.returned);
    writer_free(&w);
    return status == ST_OK ? error_pending() : status;
}
