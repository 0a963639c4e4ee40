/* writer_flow.c: control flow becomes an op whose bodies are graphs of their own, as texts (ir/ops/flow.def):
 *
 *     %y = sn::cond(%p, [%x], 1, 'graph body(%x0: f32[4], s0: int) {...}', '...', ints=[s0, s0])
 *
 * Operands that are numbers are none of the op: a body has the expressions that they are outside. What symbols it has,
 * and no size of its inputs says, are its ints. Numbers that are carried are tensors (writer_numbers.c), which the
 * graph reads behind the loop: s1 = aten::item(%i). */
#include <stdio.h>

#include "frontend/import/writer_higher.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

/* As the text around has it: a tensor is "%x". */
typedef struct FlowOperand {
    const char *value;
    bool is_tensor;
} FlowOperand;

typedef struct WrittenFlow {
    NodeWriter *w;
    const HigherArgs *args;
    const char *name;
    VEC(FlowOperand) operands; /* as a body is given them */
    bool twice;                /* a body's results are what it carries and what it gives */
    Text line, ints;
} WrittenFlow;

/* Operands ------------------------------------------------------------------------------------- */

/* Of {"as_sym_ints": [...]} the item as {"as_sym_int": ...}. */
static Status list_item(NodeWriter *w, const Json *list, int i, const char **out) {
    Json *const inner = arena_copy(w->m->arena, &list->items[i], sizeof *inner);
    if (!inner) return ST_MEMORY;
    inner->key = arena_printf(w->m->arena, "%.*s", (int)strlen(list->key) - 1, list->key);
    const Json item = {.kind = JSON_object, .n = 1, .items = inner};
    Text text = {0};
    const Status status = inner->key ? writer_arg(w, &item, &text) : ST_MEMORY;
    *out = status == ST_OK ? arena_printf(w->m->arena, "%s", text_str(&text)) : NULL;
    text_free(&text);
    return status == ST_OK && !*out ? ST_MEMORY : status;
}

/* So many of the list's are tensors. */
static Status take_operands(WrittenFlow *f, int arg, bool carried, int *tensors) {
    const Json *const list = writer_higher_arg(f->args, arg);
    const size_t n = list && list->kind == JSON_list ? strlen(list->key) : 0;
    *tensors = 0;
    if (!n || list->key[n - 1] != 's') return writer_higher_wrong(f->name);
    for (int i = 0; i < list->n; i++) {
        FlowOperand operand;
        TRY(list_item(f->w, list, i, &operand.value));
        operand.is_tensor = operand.value[0] == '%';
        *tensors += operand.is_tensor;
        if (carried && !operand.is_tensor) {
            TRY(writer_as_tensor(f->w, operand.value, "i64", &operand.value));
            operand.is_tensor = true;
            *tensors += 1;
        }
        VEC_PUSH(f->w->m->arena, &f->operands, operand);
    }
    return error_pending();
}

/* The tensors from the operand `from` on; `more`: others are before. */
static void put_tensors(WrittenFlow *f, int from, bool more) {
    for (int i = from; i < f->operands.n; i++) {
        if (!f->operands.at[i].is_tensor) continue;
        text_printf(&f->line, "%s%s", more ? ", " : "", f->operands.at[i].value);
        more = true;
    }
}

/* Bodies --------------------------------------------------------------------------------------- */

typedef enum SymbolUse { SYMBOL_free, SYMBOL_of_sizes, SYMBOL_asked } SymbolUse;

typedef struct WrittenBody {
    NodeWriter w;
    const Json *graph;
    int inputs;         /* so many tensors so far */
    SymbolUse *symbols; /* by place in the model's list, of those that are known outside */
    int n_symbols;
    Text header, lines, returned;
} WrittenBody;

static void use_symbol(WrittenBody *b, int64_t symbol, SymbolUse use) {
    if (symbol < b->n_symbols && b->symbols[symbol] == SYMBOL_free) b->symbols[symbol] = use;
}

static void ask_symbols(WrittenBody *b, const SizeExpr *e) {
    if (e->op == SIZE_symbol) use_symbol(b, e->value, SYMBOL_asked);
    for (int i = 0; i < e->n; i++) ask_symbols(b, e->parts[i]);
}

/* As an op's rule reads an operand: what its sizes are alone first, then the expressions. */
static void note_symbols(WrittenBody *b, const ModelType *type) {
    for (int d = 0; d < type->rank; d++)
        if (type->sizes[d]->op == SIZE_symbol) use_symbol(b, type->sizes[d]->value, SYMBOL_of_sizes);
    for (int d = 0; d < type->rank; d++) ask_symbols(b, type->sizes[d]), ask_symbols(b, type->strides[d]);
}

static Status put_tensor_input(WrittenBody *b, const char *name) {
    NodeWriter *const w = &b->w;
    const char *const own = writer_new_name(w, arena_printf(w->m->arena, "x%d", b->inputs++));
    const Json *const meta = model_meta(b->graph, name);
    ModelType type;
    if (!own) return ST_MEMORY;
    TRY(model_type(w->m, meta, name, &type));
    note_symbols(b, &type);
    text_printf(&b->header, "%s%%%s: ", b->header.n ? ", " : "", own);
    TRY(writer_type(w->m, meta, name, &b->header));
    return writer_set(w, name, arena_printf(w->m->arena, "%%%s", own));
}

static Status put_number_input(WrittenBody *b, const char *name) {
    NodeWriter *const w = &b->w;
    const char *const own = writer_new_name(w, arena_printf(w->m->arena, "x%d", b->inputs++));
    if (!own) return ST_MEMORY;
    text_printf(&b->header, "%s%%%s: i64[]", b->header.n ? ", " : "", own);
    return writer_carry(w, name, arena_printf(w->m->arena, "%%%s", own));
}

static Status put_body_inputs(WrittenFlow *f, WrittenBody *b) {
    int n;
    const Json *const inputs = writer_higher_list(b->graph, "inputs", &n);
    if (n != f->operands.n) return writer_higher_wrong(f->name);
    for (int i = 0; i < n; i++) {
        const Json *const member = writer_union(&inputs->items[i]);
        const char *const tensor = json_string(json_get(member, "name"));
        const char *const number = json_string(json_get(member, "as_name"));
        const bool is_tensor = writer_union_is(member, "as_tensor") && tensor;
        const bool is_number = writer_union_is(member, "as_sym_int") && number && f->operands.at[i].is_tensor;
        if (is_tensor != f->operands.at[i].is_tensor && !is_number) return writer_higher_wrong(f->name);
        if (is_tensor) TRY(put_tensor_input(b, tensor));
        if (is_number) TRY(put_number_input(b, number));
        if (number && !is_number) TRY(writer_set(&b->w, number, f->operands.at[i].value));
    }
    return ST_OK;
}

/* A number is a tensor of no dims. */
static Status put_body_result(WrittenFlow *f, WrittenBody *b, const Json *output) {
    const Json *const member = writer_union(output);
    const bool is_int = writer_union_is(member, "as_sym_int") || writer_union_is(member, "as_int");
    const bool is_truth = writer_union_is(member, "as_sym_bool") || writer_union_is(member, "as_bool");
    const char *value;
    Text text = {0};
    if (writer_union_is(member, "as_tensor")) return writer_arg(&b->w, output, &b->returned);
    if (!is_int && !is_truth)
        return error_raise(ST_UNSUPPORTED, "a body of %s gives something else than tensors and numbers", f->name);
    Status status = writer_arg(&b->w, output, &text);
    value = text_str(&text);
    if (status == ST_OK && *value != '%') status = writer_as_tensor(&b->w, value, is_int ? "i64" : "bool", &value);
    if (status == ST_OK) text_puts(&b->returned, value);
    text_free(&text);
    return status;
}

static Status put_body_results(WrittenFlow *f, WrittenBody *b) {
    int n;
    const Json *const outputs = writer_higher_list(b->graph, "outputs", &n);
    if (n < 0) return writer_higher_wrong(f->name);
    for (int i = 0; i < (f->twice ? 2 * n : n); i++) {
        if (i) text_puts(&b->returned, ", ");
        TRY(put_body_result(f, b, &outputs->items[i % n]));
    }
    return ST_OK;
}

/* Behind a text in quotes. */
static const char *skip_quoted(const char *at) {
    const char quote = *at++;
    for (; *at && *at != quote; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

/* Whether ops have "s3": no part of a value's name, nor of a text. */
static bool mentions_symbol(const char *lines, int number) {
    char word[16];
    const size_t n = (size_t)snprintf(word, sizeof word, "s%d", number);
    for (const char *at = lines; *at;) {
        const char *const from = at;
        if (*at == '\'') {
            at = skip_quoted(at);
            continue;
        }
        while (is_word_char(*at) || *at == '%' || *at == ':' || *at == '.') at++;
        if ((size_t)(at - from) == n && !memcmp(from, word, n)) return true;
        at += at == from;
    }
    return false;
}

/* Ints of a body stand behind its inputs, and their values, one body's behind the other's, in the call. */
static void put_ints(WrittenFlow *f, WrittenBody *b) {
    const SizeSymbols *const all = &f->w->m->symbols;
    for (int i = 0; i < b->n_symbols; i++) {
        const int number = all->list.at[i].number;
        const bool free = b->symbols[i] == SYMBOL_free && number >= 0;
        if (b->symbols[i] != SYMBOL_asked && !(free && mentions_symbol(text_str(&b->lines), number))) continue;
        text_printf(&b->header, "%ss%d: int", b->header.n ? ", " : "", number);
        text_printf(&f->ints, "%ss%d", f->ints.n ? ", " : "", number);
    }
}

static void quote(const WrittenBody *b, Text *out) {
    Text text = {0};
    text_printf(&text, "graph body(%s) {\n%s  return %s\n}\n", text_str(&b->header), text_str(&b->lines),
                text_str(&b->returned));
    text_puts(out, ", '");
    for (const char *c = text_str(&text); *c; c++) {
        if (*c == '\\' || *c == '\'') text_puts(out, "\\");
        text_put(out, *c == '\n' ? "\\n" : c, *c == '\n' ? 2 : 1);
    }
    text_puts(out, "'");
    text_free(&text);
}

static Status write_body(WrittenFlow *f, WrittenBody *b) {
    TRY(put_body_inputs(f, b));
    TRY(writer_nodes(&b->w, b->graph));
    TRY(put_body_results(f, b));
    put_ints(f, b);
    return ST_OK;
}

static Status put_body(WrittenFlow *f, int arg) {
    const NodeWriter *const outer = f->w;
    const int n_symbols = outer->m->symbols.list.n;
    WrittenBody b = {.graph = writer_higher_body(f->args, arg),
                     .symbols = ARENA_ARRAY(outer->m->arena, SymbolUse, n_symbols + 1),
                     .n_symbols = n_symbols};
    b.w = (NodeWriter){.m = outer->m,
                       .is_body = true,
                       .found = -1,
                       .graph = b.graph,
                       .text = &b.lines,
                       .no_grad = outer->no_grad,
                       .cast_to = outer->cast_to,
                       .casts_as_cpu = outer->casts_as_cpu,
                       .place = outer->place};
    Status status = !b.graph ? writer_higher_wrong(f->name) : b.symbols ? ST_OK : ST_MEMORY;
    if (status == ST_OK) status = write_body(f, &b);
    if (status == ST_OK) quote(&b, &f->line);
    text_free(&b.header), text_free(&b.lines), text_free(&b.returned);
    writer_free(&b.w);
    return status;
}

/* Ops ------------------------------------------------------------------------------------------ */

/* A predicate of sizes is a tensor like any other. */
static Status put_predicate(WrittenFlow *f) {
    NodeWriter *const w = f->w;
    const Json *const arg = f->args->n ? json_get(&f->args->at[0], "arg") : NULL, *const member = writer_union(arg);
    Text value = {0};
    if (!member) return writer_higher_wrong(f->name);
    Status status = writer_arg(w, arg, &value);
    const char *pred = text_str(&value);
    if (status == ST_OK && *pred != '%') status = writer_as_tensor(w, pred, "bool", &pred);
    if (status == ST_OK) text_printf(&f->line, "sn::cond(%s, [", pred);
    text_free(&value);
    return status;
}

/* (pred, if_true, if_false, operands) */
static Status put_cond(WrittenFlow *f) {
    int n;
    TRY(put_predicate(f));
    TRY(take_operands(f, 3, false, &n));
    put_tensors(f, 0, false);
    text_printf(&f->line, "], %d", n);
    TRY(put_body(f, 1));
    return put_body(f, 2);
}

/* (condition, body, carried, additional): each of both bodies is given what is carried, then the additional ones, which
 * it has as its own. */
static Status put_while(WrittenFlow *f) {
    int carried, more;
    TRY(take_operands(f, 2, true, &carried));
    TRY(take_operands(f, 3, false, &more));
    text_puts(&f->line, "sn::while_loop([");
    put_tensors(f, 0, false);
    put_tensors(f, carried, carried + more > 0);
    text_printf(&f->line, "], %d, 0", carried);
    TRY(put_body(f, 0));
    return put_body(f, 1);
}

static Status put_scan_of(WrittenFlow *f, int carried, int slices) {
    text_puts(&f->line, "sn::scan([");
    put_tensors(f, 0, false);
    text_printf(&f->line, "], %d, %d, 0, False", carried + slices, carried);
    return put_body(f, 0);
}

/* (body, [init], [xs], [additional]) */
static Status put_scan(WrittenFlow *f) {
    int carried, slices, more;
    TRY(take_operands(f, 1, true, &carried));
    TRY(take_operands(f, 2, true, &slices));
    TRY(take_operands(f, 3, false, &more));
    return put_scan_of(f, carried, slices);
}

/* (body, [xs], [additional]): a scan that carries nothing. */
static Status put_map(WrittenFlow *f) {
    int slices, more;
    TRY(take_operands(f, 1, true, &slices));
    TRY(take_operands(f, 2, false, &more));
    return put_scan_of(f, 0, slices);
}

/* "%a, %b = ": a number is a tensor first. */
static Status put_flow_results(WrittenFlow *f, const Json *outputs, Text *out) {
    NodeWriter *const w = f->w;
    for (int i = 0; i < outputs->n; i++) {
        const Json *const member = writer_union(&outputs->items[i]);
        const char *const number = json_string(json_get(member, "as_name"));
        const char *const name = number ? number : json_string(json_get(member, "name"));
        const char *const own = name ? writer_new_name(w, name) : NULL;
        const bool is_number = writer_union_is(member, "as_sym_int") && number;
        if (!is_number && (!writer_union_is(member, "as_tensor") || !name))
            return error_raise(ST_UNSUPPORTED, "%s has a result of the kind '%.60s'", f->name,
                               member ? member->key : "?");
        if (!own) return ST_MEMORY;
        text_printf(out, "%s%%%s", i ? ", " : "", own);
        TRY(writer_set(w, name, arena_printf(w->m->arena, "%%%s", own)));
    }
    text_puts(out, outputs->n ? " = " : "");
    return ST_OK;
}

static Status read_carried(WrittenFlow *f, const Json *outputs) {
    for (int i = 0; i < outputs->n; i++) {
        const char *const name = json_string(json_get(json_get(&outputs->items[i], "as_sym_int"), "as_name"));
        const char *const tensor = name ? writer_get(f->w, name) : NULL;
        if (tensor) TRY(f->w->is_body ? writer_carry(f->w, name, tensor) : writer_item(f->w, name, tensor));
    }
    return ST_OK;
}

/* The call that stands in f->line, with these results. */
static void put_call(WrittenFlow *f, const char *results) {
    if (f->ints.n) text_printf(&f->line, ", ints=[%s]", text_str(&f->ints));
    text_puts(&f->line, ")");
    writer_attributes(f->w, &f->line);
    text_printf(f->w->text, "  %s%s\n", results, text_str(&f->line));
}

static Status end_call(WrittenFlow *f, const Json *node) {
    const Json *const outputs = json_get(node, "outputs");
    Text results = {0};
    const Status status = put_flow_results(f, outputs, &results);
    if (status == ST_OK) put_call(f, text_str(&results));
    text_free(&results);
    return status == ST_OK ? read_carried(f, outputs) : status;
}

/* Scans without a first carry ------------------------------------------------------------------ */

/* "  %name = " and the value "%name". */
static Status begin_line(WrittenFlow *f, const char *name, const char **out) {
    const char *const own = writer_new_name(f->w, name);
    *out = own ? arena_printf(f->w->m->arena, "%%%s", own) : NULL;
    if (!*out) return ST_MEMORY;
    text_printf(f->w->text, "  %s = ", *out);
    return ST_OK;
}

static void end_line(const WrittenFlow *f) {
    writer_attributes(f->w, f->w->text);
    text_puts(f->w->text, "\n");
}

/* Operands become: the first slice of each, which is carried, then what is behind it. */
static Status split_first(WrittenFlow *f, int n) {
    Arena *const arena = f->w->m->arena;
    const char *rest;
    for (int i = 0; i < n; i++) {
        FlowOperand *const all = &f->operands.at[i];
        const char *const whole = all->value;
        TRY(begin_line(f, "first", &all->value));
        text_printf(f->w->text, "aten::select.int(%s, 0, 0)", whole);
        end_line(f);
        TRY(begin_line(f, "rest", &rest));
        text_printf(f->w->text, "aten::slice.Tensor(%s, 0, 1)", whole);
        end_line(f);
        VEC_PUSH(arena, &f->operands, ((FlowOperand){rest, true}));
    }
    return error_pending();
}

/* A result is the first slice, then what the scan gave for the others. */
static Status join_first(WrittenFlow *f, const Json *outputs, const FlowOperand *first, const char *const *rest) {
    const char *value;
    for (int i = 0; i < outputs->n; i++) {
        const char *const name = json_string(json_get(json_get(&outputs->items[i], "as_tensor"), "name"));
        const char *row;
        if (!name) return writer_higher_wrong(f->name);
        TRY(begin_line(f, "row", &row));
        text_printf(f->w->text, "aten::unsqueeze(%s, 0)", first[i].value);
        end_line(f);
        TRY(begin_line(f, name, &value));
        text_printf(f->w->text, "aten::cat([%s, %s], 0)", row, rest[i]);
        end_line(f);
        TRY(writer_set(f->w, name, value));
    }
    return ST_OK;
}

/* (combine, [xs], [additional]): what was combined so far is carried, and is what each step gives. */
static Status put_associative(WrittenFlow *f) {
    int n, more;
    TRY(take_operands(f, 1, true, &n));
    TRY(split_first(f, n));
    TRY(take_operands(f, 2, false, &more));
    f->twice = true;
    return put_scan_of(f, n, n);
}

static Status end_associative(WrittenFlow *f, const Json *node) {
    const Json *const outputs = json_get(node, "outputs");
    Arena *const arena = f->w->m->arena;
    const int n = outputs->n;
    const char **const rest = ARENA_ARRAY(arena, const char *, n + 1);
    Text results = {0};
    if (!rest) return ST_MEMORY;
    if (2 * n > f->operands.n) return writer_higher_wrong(f->name);
    for (int i = 0; i < 2 * n; i++) {
        const char *const own = writer_new_name(f->w, i < n ? "last" : "scanned");
        if (own) text_printf(&results, "%s%%%s", i ? ", " : "", own);
        if (own && i >= n) rest[i - n] = arena_printf(arena, "%%%s", own);
    }
    text_puts(&results, " = ");
    put_call(f, text_str(&results));
    text_free(&results);
    return error_pending() ? error_pending() : join_first(f, outputs, f->operands.at, rest);
}

typedef struct FlowOp {
    const char *name;
    Status (*put)(WrittenFlow *f);
    Status (*end)(WrittenFlow *f, const Json *node);
} FlowOp;
static const FlowOp flows[] = {{"cond", put_cond, end_call},
                               {"while_loop", put_while, end_call},
                               {"scan", put_scan, end_call},
                               {"map_impl", put_map, end_call},
                               {"associative_scan", put_associative, end_associative}};

Status writer_flow(NodeWriter *w, const Json *node, const HigherArgs *args, const char *name) {
    WrittenFlow f = {.w = w, .args = args, .name = name};
    const FlowOp *op = NULL;
    for (int i = 0; i < COUNT_OF(flows) && !op; i++) op = strcmp(name, flows[i].name) ? NULL : &flows[i];
    if (!op) return error_raise(ST_UNSUPPORTED, "there is no op of higher order '%.60s' here", name);
    Status status = op->put(&f);
    if (status == ST_OK) status = op->end(&f, node);
    text_free(&f.line), text_free(&f.ints);
    return status;
}
