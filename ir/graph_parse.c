/* graph_parse.c: reads graph text. Values get their metadata from the meta rules; annotations are checked against them.
 *
 *   graph  = "graph" name [ "[" symbol... [ ";" guard... ] "]" ] "(" input... [ "|" input... ] ")" "{" line... "}"
 *   symbol = "s0=8" [ ">=2" ] [ "<=64" ]                  a hint, and the bounds of what calls may have
 *   guard  = "s0==s1*2", "(s0%8)==0"                      what must hold of a call's sizes
 *   input  = "%x: f32[s0,768]" | "s1: int"                    an int is the symbol that the lines have it as
 *   line   = results "=" op "(" args ")" attribute...     %0 = aten::add.Tensor(%x, 2.0, alpha=3) no_grad at='a.c:3'
 *          | op "(" args ")" attribute...                 a call without results
 *          | "random" "seed=" sym "sequence=" sym "count=" n
 *          | "write" %input "=" %value
 *          | "return" output {"," output} ["|" [output {"," output}]]
 *   results = %value {"," %value} ["," symbol] | symbol   a symbol is the number that only values give: a size of the
 *                                                         first result, or of what has none: s1 = aten::item(%0)
 *   output = "None" | %value ["kept" ["of" %input] ["checked" {place}]] ["held"] [memory]
 *   memory = "is" %input | "views" place ["at" sym]
 *   place  = %input | "output" n
 *   arg    = %value | None | True | False | number | sym | 'text' | "text" | [list] | name
 *          | "runtime(" n "," hint ")"
 * Bars, "kept" and "held" are of joint graphs: what stands behind a bar belongs to the backward. Text after # or // is
 * a comment. Errors name line and column. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/graph.h"
#include "ir/schema.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/base/text_reader.h"

enum { MAX_TEXT_RESULTS = 1024, MAX_TEXT_LIST = 4096 };

typedef struct Parser {
    TextReader in;
    Arena *arena;
    Graph *graph;
    Map values; /* hash of a name -> GVal */
} Parser;

/* tokens -------------------------------------------------------------------------------------- */

static Status expect_token(Parser *p, const char *token) {
    if (reader_eat(&p->in, token)) return ST_OK;
    return reader_fail(&p->in, "expected '%s'", token);
}

static Status read_word(Parser *p, const char **word, size_t *n) {
    return reader_word(&p->in, word, n) ? ST_OK : reader_fail(&p->in, "expected a name");
}

static Status read_count(Parser *p, int *out) {
    char *end;
    reader_skip(&p->in);
    const long value = strtol(p->in.at, &end, 10);
    if (end == p->in.at || value < 0 || value > 1 << 28) return reader_fail(&p->in, "expected a count");
    *out = (int)value;
    p->in.at = end;
    return ST_OK;
}

static Status read_sym(Parser *p, int64_t *out) {
    const char *end = NULL;
    reader_skip(&p->in);
    if (sym_parse(p->graph->env, p->in.at, &end, out) != ST_OK) return reader_fail_again(&p->in);
    p->in.at = end;
    return ST_OK;
}

/* 'text' or "text" */
static bool at_string(const Parser *p) { return *p->in.at == '\'' || *p->in.at == '"'; }

static Status read_string(Parser *p, const char **out) { return reader_string(&p->in, p->arena, out); }

/* values -------------------------------------------------------------------------------------- */

static Status read_value_name(Parser *p, const char **name, size_t *n) {
    reader_skip(&p->in);
    if (*p->in.at != '%') return reader_fail(&p->in, "expected a value like %%0");
    p->in.at++;
    return read_word(p, name, n);
}

static Status read_value(Parser *p, GVal **out) {
    const char *name;
    size_t n;
    TRY(read_value_name(p, &name, &n));
    *out = map_get(&p->values, hash_bytes(3, name, n));
    if (*out) return ST_OK;
    p->in.at = name;
    return reader_fail(&p->in, "%%%.*s is not defined above", (int)n, name);
}

static Status define(Parser *p, const char *name, size_t n, GVal *value) {
    const uint64_t key = hash_bytes(3, name, n);
    if (map_get(&p->values, key)) {
        p->in.at = name;
        return reader_fail(&p->in, "%%%.*s is defined twice", (int)n, name);
    }
    return map_set(&p->values, key, value) ? ST_OK : ST_MEMORY;
}

/* No tensor has a size or a stride below 0: neither a number, nor an expression that is below whatever a call has. */
static Status check_positive(Graph *graph, const char *what, const int64_t *numbers, int rank) {
    for (int d = 0; d < rank; d++) {
        if (sym_is(numbers[d]) ? !sym_surely_at_most(graph->env, numbers[d], -1) : numbers[d] >= 0) continue;
        Text text = {0};
        sym_print(graph->env, &text, numbers[d]);
        const Status status = error_raise(ST_PARSE, "%s %s of dim %d is negative", what, text_str(&text), d);
        text_free(&text);
        return status;
    }
    return ST_OK;
}

Status graph_type_parse(Graph *graph, const char *text, const char **end, Meta **out) {
    TRY(meta_parse(graph->arena, graph->env, text, end, out));
    TRY(check_positive(graph, "size", (*out)->sizes, (*out)->rank));
    return check_positive(graph, "stride", (*out)->strides, (*out)->rank);
}

static Status read_meta(Parser *p, Meta **out) {
    const char *end = NULL;
    reader_skip(&p->in);
    if (graph_type_parse(p->graph, p->in.at, &end, out) != ST_OK) return reader_fail_again(&p->in);
    p->in.at = end;
    return ST_OK;
}

/* arguments ----------------------------------------------------------------------------------- */

static bool is_value_list(ParamType type) { return type == PT_tensors || type == PT_tensors_opt; }

static Status read_list_item(Parser *p, ParamType type, void *at) {
    if (is_value_list(type)) {
        GVal *value = NULL;
        if (!reader_eat(&p->in, "None")) TRY(read_value(p, &value));
        *(Val **)at = value ? &value->base : NULL;
        return ST_OK;
    }
    if (type != PT_floats_opt) { /* a mask's items are bools */
        const bool yes = reader_eat(&p->in, "True");
        if (!yes && !reader_eat(&p->in, "False")) return read_sym(p, at);
        *(int64_t *)at = yes;
        return ST_OK;
    }
    char *end;
    reader_skip(&p->in);
    *(double *)at = strtod(p->in.at, &end);
    if (end == p->in.at) return reader_fail(&p->in, "expected a number");
    p->in.at = end;
    return ST_OK;
}

/* Numbers of either kind: floats where one has a point, an exponent or a name. */
static ParamType kind_of_numbers(const Parser *p) {
    return strcspn(p->in.at, ".eni") < strcspn(p->in.at, "]") ? PT_floats_opt : PT_ints;
}

static Status read_list(Parser *p, ParamType type, Arg *out) {
    if (type == PT_scalars) type = kind_of_numbers(p);
    VEC(int64_t) items = {0}; /* ints, floats and pointers have one size */
    while (!reader_eat(&p->in, "]")) {
        int64_t item;
        if (items.n && !reader_eat(&p->in, ",")) return reader_fail(&p->in, "expected ',' or ']'");
        if (items.n == MAX_TEXT_LIST) return reader_fail(&p->in, "the list is too long");
        TRY(read_list_item(p, type, &item));
        VEC_PUSH(p->arena, &items, item);
    }
    if (!items.at && !(items.at = arena_alloc(p->arena, 8))) return ST_MEMORY;
    out->kind = is_value_list(type) ? ARG_tensors : type == PT_floats_opt ? ARG_floats : ARG_ints;
    out->n = items.n;
    out->ints = items.at;
    return ST_OK;
}

static Status read_device(Parser *p, Arg *out) {
    const char *end;
    Device device;
    reader_skip(&p->in);
    if (!device_parse(p->in.at, &end, &device)) return reader_fail(&p->in, "expected the name of a device");
    p->in.at = end;
    *out = A_INT(device);
    return ST_OK;
}

/* Ints that are written as names. */
static Status read_named(Parser *p, ParamType type, Arg *out) {
    const char *word;
    size_t n;
    if (type == PT_device_opt) return read_device(p, out);
    TRY(read_word(p, &word, &n));
    int64_t value = 0;
    if (type == PT_layout_opt)
        value = n == 7 && !memcmp(word, "strided", 7) ? 0 : -1;
    else if (type == PT_memory_format_opt)
        value = memory_format_find(word, n);
    else if (n != 7 || memcmp(word, "default", 7)) {
        value = dtype_find(word, n);
        if (value == DT_default) value = -1;
    }
    *out = A_INT(value);
    if (value >= 0) return ST_OK;
    p->in.at = word;
    return reader_fail(&p->in, "no %s is called '%.*s'", param_type_name(type), (int)n, word);
}

static Status read_runtime(Parser *p, Arg *out) {
    int index = 0;
    char *end;
    TRY(read_count(p, &index));
    TRY(expect_token(p, ","));
    reader_skip(&p->in);
    const double hint = strtod(p->in.at, &end);
    if (end == p->in.at || index > p->graph->runtime_floats.n + MAX_TEXT_LIST)
        return reader_fail(&p->in, "expected the hint of a runtime float");
    p->in.at = end;
    while (p->graph->runtime_floats.n <= index) VEC_PUSH(p->arena, &p->graph->runtime_floats, hint);
    p->graph->runtime_floats.at[index] = hint;
    *out = (Arg){.kind = ARG_runtime, .i = index};
    return expect_token(p, ")");
}

/* A float has a point, an exponent or letters (inf, nan); all else is an int or an expression. */
static Status number_literal(Parser *p, Arg *out) {
    char *end;
    const double value = strtod(p->in.at, &end);
    bool is_float = false;
    for (const char *c = p->in.at; c < end; c++) is_float = is_float || strchr(".eEinfa", *c);
    if (is_float) {
        p->in.at = end;
        *out = A_FLOAT(value);
        return ST_OK;
    }
    out->kind = ARG_int;
    return read_sym(p, &out->i);
}

static bool is_named(ParamType type) {
    return type == PT_dtype || type == PT_dtype_opt || type == PT_device_opt || type == PT_layout_opt ||
           type == PT_memory_format_opt;
}

static Status read_arg(Parser *p, ParamType type, Arg *out) {
    *out = (Arg){0};
    if (reader_eat(&p->in, "None")) return *out = A_NONE, ST_OK;
    if (reader_eat(&p->in, "True")) return *out = A_BOOL(1), ST_OK;
    if (reader_eat(&p->in, "False")) return *out = A_BOOL(0), ST_OK;
    if (reader_eat(&p->in, "default")) return *out = A_DEFAULT, ST_OK;
    if (reader_eat(&p->in, "[")) return read_list(p, type, out);
    if (reader_eat(&p->in, "runtime(")) return read_runtime(p, out);
    if (at_string(p)) {
        out->kind = ARG_string;
        return read_string(p, &out->string);
    }
    if (*p->in.at == '%') {
        GVal *value;
        TRY(read_value(p, &value));
        *out = A_VAL(&value->base);
        return ST_OK;
    }
    return is_named(type) ? read_named(p, type, out) : number_literal(p, out);
}

Status arg_parse(Graph *graph, ParamType type, TextReader *in, Arg *out) {
    Parser p = {.in = *in, .arena = graph->arena, .graph = graph};
    p.in.between = BETWEEN_blanks;
    const Status status = read_arg(&p, type, out);
    in->at = p.in.at;
    return status;
}

/* One call in the making. */
typedef struct CallText {
    const OpRow *row;
    OpForm form;
    Arg given[MAX_ARGS], out[MAX_OUTS];
    int n_outs;
} CallText;

/* "name=" before an argument; the parameter's index, -1: none, or n_params + k for out tensors. */
static Status read_keyword(Parser *p, const CallText *call, int *index) {
    const char *at = p->in.at, *word = at;
    while (is_word_char(*at)) at++;
    *index = -1;
    if (at == word || *at != '=') return ST_OK;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(at - word), word);
    *index = op_param_find(call->row, name);
    if (*index < 0 && call->form == FORM_out && !strncmp(name, "out", 3)) {
        const int k = name[3] ? atoi(name + 3) : 0;
        if (k >= 0 && k < call->row->n_out) *index = call->row->n_params + k;
    }
    if (*index < 0) return reader_fail(&p->in, "%s has no argument '%s'", op_form_name(call->row, call->form), name);
    p->in.at = at + 1;
    return ST_OK;
}

static Status read_args(Parser *p, CallText *call) {
    int position = 0;
    while (!reader_eat(&p->in, ")")) {
        int index;
        reader_skip(&p->in);
        TRY(read_keyword(p, call, &index));
        if (index >= call->row->n_params) {
            TRY(read_arg(p, PT_tensor, &call->out[index - call->row->n_params]));
        } else {
            if (index < 0) index = position++;
            if (index >= call->row->n_params)
                return reader_fail(&p->in, "%s takes %d arguments", op_form_name(call->row, call->form),
                                   call->row->n_params);
            if (call->given[index].kind != ARG_default)
                return reader_fail(&p->in, "'%s' is given twice", call->row->params[index].name);
            TRY(read_arg(p, call->row->params[index].type, &call->given[index]));
        }
        if (!reader_eat(&p->in, ",")) return expect_token(p, ")");
    }
    return ST_OK;
}

/* Attributes that new nodes do not take from the graph. */
typedef struct NodeText {
    int random, kernel; /* -1: not given */
    bool merged;
} NodeText;

enum { MAX_REGIONS = 1 << 20 };

/* Its number, and those of the ones that it lies in, from the inside out, which are smaller. */
static Status read_region(Parser *p) {
    int inner, outer = 0;
    TRY(read_count(p, &p->graph->region));
    for (inner = p->graph->region; reader_eat(&p->in, "<"); inner = outer) {
        TRY(read_count(p, &outer));
        if (inner > MAX_REGIONS || outer >= inner || outer < 1) break;
        graph_region(p->graph, inner, outer);
    }
    if (inner < 1 || inner > MAX_REGIONS || (outer && outer != inner))
        return reader_fail(&p->in, "region %d in region %d: numbers are from 1 to %d, an outer one's is smaller", inner,
                           outer, MAX_REGIONS);
    graph_region(p->graph, inner, 0);
    return ST_OK;
}

static Status read_again(Parser *p) {
    TRY(read_count(p, &p->graph->again));
    if (p->graph->again > p->graph->n_again) p->graph->n_again = p->graph->again;
    return ST_OK;
}

static Status read_attributes(Parser *p, NodeText *out) {
    Graph *graph = p->graph;
    graph->modes = 0;
    graph->region = graph->again = 0;
    graph->where = NULL;
    for (;;) {
        const char *word;
        size_t n;
        if (reader_eat(&p->in, "no_grad"))
            graph->modes |= NODE_no_grad;
        else if (reader_eat(&p->in, "inference"))
            graph->modes |= NODE_inference;
        else if (reader_eat(&p->in, "no_autocast"))
            graph->modes |= NODE_no_autocast;
        else if (reader_eat(&p->in, "puts"))
            graph->modes |= NODE_puts;
        else if (reader_eat(&p->in, "saved"))
            graph->modes |= NODE_saved;
        else if (reader_eat(&p->in, "rest"))
            graph->modes |= NODE_rest;
        else if (reader_eat(&p->in, "region="))
            TRY(read_region(p));
        else if (reader_eat(&p->in, "again="))
            TRY(read_again(p));
        else if (reader_eat(&p->in, "merged"))
            out->merged = true;
        else if (reader_eat(&p->in, "order="))
            TRY(read_word(p, &word, &n)); /* the meta rule's; the verifier compares */
        else if (reader_eat(&p->in, "random="))
            TRY(read_count(p, &out->random));
        else if (reader_eat(&p->in, "kernel="))
            TRY(read_count(p, &out->kernel));
        else if (reader_eat(&p->in, "at=")) {
            reader_skip(&p->in);
            if (!at_string(p)) return reader_fail(&p->in, "expected a quoted place");
            TRY(read_string(p, &graph->where));
        } else
            return ST_OK;
    }
}

static Status make_node(Parser *p, CallText *call, int random, Node **out) {
    Arg args[MAX_ARGS + MAX_OUTS];
    const OpRow *row = call->row;
    graph_take_random(p->graph, row, random);
    if (op_args_normalize(row, call->given, row->n_params, args) != ST_OK) return reader_fail_again(&p->in);
    if (call->form == FORM_out) memcpy(args + row->n_params, call->out, sizeof *args * (size_t)row->n_out);
    *out = graph_append(p->graph, row, call->form, args);
    return *out ? ST_OK : reader_fail_again(&p->in);
}

static Status read_call(Parser *p, Node **out) {
    CallText call = {0};
    NodeText text = {-1, -1, false};
    reader_skip(&p->in);
    const char *name = p->in.at;
    while (is_word_char(*p->in.at) || *p->in.at == ':' || *p->in.at == '.') p->in.at++;
    const size_t n = (size_t)(p->in.at - name);
    call.row = op_find(name, n, &call.form);
    if (!call.row && n > strlen(".default") && !memcmp(name + n - strlen(".default"), ".default", strlen(".default")))
        call.row = op_find(name, n - strlen(".default"), &call.form); /* as PyTorch writes an overload without a name */
    if (!call.row) {
        p->in.at = name;
        Text near = {0};
        op_unknown_hint(&near, name, n);
        const Status status = reader_fail(&p->in, "no op is called '%.*s'%.300s", (int)n, name, text_str(&near));
        text_free(&near);
        return status;
    }
    TRY(expect_token(p, "("));
    TRY(read_args(p, &call));
    TRY(read_attributes(p, &text));
    const char *end = p->in.at;
    p->in.at = name; /* errors of the op point at its name */
    TRY(make_node(p, &call, text.random, out));
    (*out)->kernel = text.kernel + 1;
    (*out)->merged = text.merged;
    (*out)->line = reader_count_lines(&p->in);
    p->in.at = end;
    return ST_OK;
}

/* lines --------------------------------------------------------------------------------------- */

typedef struct ResultText {
    const char *name;
    size_t n;
    Meta *meta; /* NULL: not annotated */
} ResultText;

/* A dim of size 1 is never stepped along, and neither is one of what has no elements. */
static bool same_strides(const Meta *a, const Meta *b) {
    for (int d = 0; d < a->rank; d++)
        if (a->sizes[d] != 1 && a->numel && !sym_identical(a->strides[d], b->strides[d])) return false;
    return true;
}

static Status bind_result(Parser *p, const ResultText *result, GVal *value) {
    const Meta *meta = value->base.meta;
    if (result->meta && (meta->dtype != result->meta->dtype || !meta_same_sizes(meta, result->meta) ||
                         !same_strides(meta, result->meta))) {
        Text text = {0};
        meta_print(p->graph->env, &text, meta);
        p->in.at = result->name;
        const Status status = reader_fail(&p->in, "%%%.*s is %s", (int)result->n, result->name, text_str(&text));
        text_free(&text);
        return status;
    }
    return define(p, result->name, result->n, value);
}

/* Does an input or a node above have it? */
static bool is_known_symbol(const Graph *graph, int64_t symbol) {
    bool known = false;
    for (int i = 0; i < graph->inputs.n; i++)
        for (int d = 0; d < graph->inputs.at[i]->base.meta->rank; d++)
            known |= sym_mentions(graph->env, graph->inputs.at[i]->base.meta->sizes[d], symbol);
    for (int i = 0; i < graph->int_inputs.n; i++) known |= graph->int_inputs.at[i].symbol == symbol;
    for (const Node *node = graph->first; node; node = node->next) known |= node->unbacked == symbol;
    return known;
}

/* The first size that is a symbol which nothing above has is what the values of the call give. */
static int64_t unbacked_symbol(const Graph *graph, const Meta *meta) {
    for (int d = 0; meta && d < meta->rank; d++) {
        const int64_t size = meta->sizes[d];
        if (sym_is(size) && sym_expr(graph->env, size)->op == SYM_free && !is_known_symbol(graph, size)) return size;
    }
    return 0;
}

/* A number that only values give, as the text has it. */
typedef struct NumberText {
    const char *at;
    int number; /* -1: there is none */
} NumberText;

static bool at_symbol(const char *at) { return at[0] == 's' && at[1] >= '0' && at[1] <= '9'; }

/* One of the header that nothing above has, or the next one, which the op makes. */
static Status read_unbacked(Parser *p, NumberText *out) {
    const int n = sym_free_count(p->graph->env);
    out->at = p->in.at++;
    TRY(read_count(p, &out->number));
    const char *const end = p->in.at;
    p->in.at = out->at;
    if (out->number > n) return reader_fail(&p->in, "symbols are numbered in order: the next one is s%d", n);
    p->graph->unbacked.symbol = out->number < n ? sym_free_at(p->graph->env, out->number) : 0;
    if (p->graph->unbacked.symbol && is_known_symbol(p->graph, p->graph->unbacked.symbol))
        return reader_fail(&p->in, "s%d has its value from above", out->number);
    p->in.at = end;
    return ST_OK;
}

static Status check_number(Parser *p, const NumberText *number, const Node *node) {
    const char *const op = op_form_name(node->row, node->form);
    const bool there = number->number < sym_free_count(p->graph->env);
    if (number->number < 0 || (there && node->unbacked == sym_free_at(p->graph->env, number->number))) return ST_OK;
    p->in.at = number->at;
    return reader_fail(&p->in, "%s gives no number s%d that only values say", op, number->number);
}

static Status wrong_count(Parser *p, const char *at, const Node *node, int n) {
    const char *const op = op_form_name(node->row, node->form);
    p->in.at = at;
    if (node_is_number(node))
        return reader_fail(&p->in, "%s gives a number, which is a symbol: s%lld = %s(...)", op,
                           (long long)sym_expr(p->graph->env, node->unbacked)->a, op);
    return reader_fail(&p->in, "%s has %d results, not %d", op, node->n_outs, n);
}

static Status read_assignment(Parser *p) {
    const char *const line = p->in.at;
    VEC(ResultText) results = {0};
    NumberText number = {.number = -1};
    p->graph->unbacked.symbol = 0;
    do {
        ResultText result = {0};
        reader_skip(&p->in);
        if (at_symbol(p->in.at)) {
            TRY(read_unbacked(p, &number));
            break;
        }
        TRY(read_value_name(p, &result.name, &result.n));
        if (reader_eat(&p->in, ":")) TRY(read_meta(p, &result.meta));
        if (results.n == MAX_TEXT_RESULTS) return reader_fail(&p->in, "too many results");
        VEC_PUSH(p->arena, &results, result);
    } while (reader_eat(&p->in, ","));
    TRY(expect_token(p, "="));
    Node *node;
    if (number.number < 0) p->graph->unbacked.symbol = unbacked_symbol(p->graph, results.at[0].meta);
    TRY(read_call(p, &node));
    TRY(check_number(p, &number, node));
    if (node->n_outs != results.n) return wrong_count(p, line, node, results.n);
    for (int i = 0; i < results.n; i++) TRY(bind_result(p, &results.at[i], &node->outs[i]));
    return ST_OK;
}

static Status read_random(Parser *p) {
    Graph *graph = p->graph;
    TRY(expect_token(p, "seed="));
    TRY(read_sym(p, &graph->seed));
    TRY(expect_token(p, "sequence="));
    TRY(read_sym(p, &graph->sequence));
    TRY(expect_token(p, "count="));
    return read_count(p, &graph->n_random);
}

static Status read_write(Parser *p) {
    GVal *input, *value;
    TRY(read_value(p, &input));
    if (input->def) return reader_fail(&p->in, "only inputs can be written");
    TRY(expect_token(p, "="));
    TRY(read_value(p, &value));
    graph_write(p->graph, input, value);
    return ST_OK;
}

static Status read_input_number(Parser *p, int *number) {
    GVal *input;
    TRY(read_value(p, &input));
    if (input->def) return reader_fail(&p->in, "no input");
    *number = input->index;
    return ST_OK;
}

/* Whose memory is checked before a kept value is read, by forward input, then by forward output. */
static Status read_checked(Parser *p, Output *output) {
    const int inputs = p->graph->n_forward_inputs, outputs = p->graph->n_forward_outputs;
    bool *const checked = ARENA_ARRAY(p->arena, bool, inputs + outputs + 1);
    if (!checked) return ST_MEMORY;
    output->checked = checked;
    for (reader_skip(&p->in); *p->in.at == '%' || !strncmp(p->in.at, "output ", 7); reader_skip(&p->in)) {
        const bool of_output = reader_eat(&p->in, "output");
        int number = 0;
        TRY(of_output ? read_count(p, &number) : read_input_number(p, &number));
        if (number >= (of_output ? outputs : inputs)) return reader_fail(&p->in, "not before the bar");
        checked[of_output ? inputs + number : number] = true;
    }
    return ST_OK;
}

static Status read_kept(Parser *p, Output *output) {
    if (!p->graph->n_forward_outputs) return reader_fail(&p->in, "what is kept stands behind a bar");
    output->kind = OUT_kept;
    output->base = -1;
    if (reader_eat(&p->in, "of")) TRY(read_input_number(p, &output->base));
    return reader_eat(&p->in, "checked") ? read_checked(p, output) : ST_OK;
}

/* "is" or "views": whose memory a result is. */
static Status read_memory(Parser *p, Output *output) {
    if (reader_eat(&p->in, "is")) {
        output->kind = OUT_input;
        return read_input_number(p, &output->base);
    }
    if (!reader_eat(&p->in, "views")) return ST_OK;
    const bool of_output = reader_eat(&p->in, "output");
    output->kind = of_output ? OUT_view_of_output : OUT_view_of_input;
    TRY(of_output ? read_count(p, &output->base) : read_input_number(p, &output->base));
    return reader_eat(&p->in, "at") ? read_sym(p, &output->offset) : ST_OK;
}

static Status read_output(Parser *p) {
    Output output = {.kind = OUT_none};
    if (!reader_eat(&p->in, "None")) {
        TRY(read_value(p, &output.value));
        output.kind = OUT_new;
        if (reader_eat(&p->in, "kept")) TRY(read_kept(p, &output));
        output.tape_saved = reader_eat(&p->in, "held");
    }
    if (output.kind != OUT_kept) TRY(read_memory(p, &output));
    VEC_PUSH(p->arena, &p->graph->outputs, output);
    return ST_OK;
}

static Status read_return(Parser *p) {
    for (;;) {
        TRY(read_output(p));
        if (reader_eat(&p->in, ",")) continue;
        if (!reader_eat(&p->in, "|")) return ST_OK;
        if (p->graph->n_forward_outputs) return reader_fail(&p->in, "a second bar");
        p->graph->n_forward_outputs = p->graph->outputs.n;
        reader_skip(&p->in);
        if (*p->in.at == '}') return ST_OK;
    }
}

static Status read_line(Parser *p) {
    if (*p->in.at == '%' || at_symbol(p->in.at)) return read_assignment(p);
    if (reader_eat(&p->in, "random")) return read_random(p);
    if (reader_eat(&p->in, "write")) return read_write(p);
    if (reader_eat(&p->in, "return")) return read_return(p);
    Node *node;
    const char *line = p->in.at;
    TRY(read_call(p, &node));
    if (!node->n_outs) return ST_OK;
    p->in.at = line;
    return reader_fail(&p->in, "%s has %d results, not 0", op_form_name(node->row, node->form), node->n_outs);
}

/* header -------------------------------------------------------------------------------------- */

static Status read_symbol(Parser *p) {
    int number = 0;
    int64_t hint = 2, low = 2, most = SYM_MOST;
    reader_skip(&p->in);
    if (*p->in.at != 's') return reader_fail(&p->in, "expected a symbol like s0");
    p->in.at++;
    TRY(read_count(p, &number));
    if (number != sym_free_count(p->graph->env)) return reader_fail(&p->in, "symbols are listed in order, s0 first");
    TRY(expect_token(p, "="));
    TRY(reader_int(&p->in, &hint));
    const bool least = reader_eat(&p->in, ">=");
    if (least) TRY(reader_int(&p->in, &low));
    const bool bounded = reader_eat(&p->in, "<=");
    if (bounded) TRY(reader_int(&p->in, &most));
    if (low > most || low < SYM_LEAST || most > SYM_MOST)
        return reader_fail(&p->in, "no number is from %lld to %lld", (long long)low, (long long)most);
    const int64_t symbol = sym_free(p->graph->env, hint, low);
    if (least || bounded) sym_free_give(p->graph->env, symbol, hint, low, most);
    return ST_OK;
}

static Status read_guards(Parser *p) {
    const int n = sym_free_count(p->graph->env);
    do {
        SymGuard guard;
        reader_skip(&p->in);
        if (sym_guard_parse(p->graph->env, p->in.at, &p->in.at, &guard) != ST_OK) return reader_fail_again(&p->in);
        if (sym_free_count(p->graph->env) != n)
            return reader_fail(&p->in, "s%d is not in the list of symbols", sym_free_count(p->graph->env) - 1);
        graph_assume(p->graph, guard);
    } while (reader_eat(&p->in, ","));
    return ST_OK;
}

static Status read_symbols(Parser *p) {
    if (!reader_eat(&p->in, "[")) return ST_OK;
    do TRY(read_symbol(p));
    while (reader_eat(&p->in, ","));
    if (reader_eat(&p->in, ";")) TRY(read_guards(p));
    return expect_token(p, "]");
}

static Status read_int_input(Parser *p) {
    int number = 0;
    p->in.at++;
    TRY(read_count(p, &number));
    if (number > MAX_INT_INPUT) return reader_fail(&p->in, "there is no s%d", number);
    TRY(expect_token(p, ":"));
    TRY(expect_token(p, "int"));
    graph_int_input(p->graph, graph_int_symbol(p->graph, number));
    return ST_OK;
}

static Status read_input(Parser *p) {
    reader_skip(&p->in);
    if (at_symbol(p->in.at)) return read_int_input(p);
    const char *name;
    size_t n;
    Meta *meta;
    TRY(read_value_name(p, &name, &n));
    TRY(expect_token(p, ":"));
    TRY(read_meta(p, &meta));
    const char *own = arena_printf(p->arena, "%.*s", (int)n, name);
    GVal *input = own ? graph_input(p->graph, own, meta) : NULL;
    if (!input) return ST_MEMORY;
    if (strcmp(input->name, own)) return reader_fail(&p->in, "an input can't be called %%%s here", own);
    return define(p, name, n, input);
}

static Status read_header(Parser *p) {
    const char *name;
    size_t n;
    TRY(expect_token(p, "graph"));
    TRY(read_word(p, &name, &n));
    const char *own = arena_printf(p->arena, "%.*s", (int)n, name);
    p->graph = own ? graph_new(p->arena, own) : NULL;
    if (!p->graph) return ST_MEMORY;
    TRY(read_symbols(p));
    TRY(expect_token(p, "("));
    while (!reader_eat(&p->in, ")")) {
        TRY(read_input(p));
        if (reader_eat(&p->in, ",")) continue;
        if (p->graph->n_forward_inputs || !p->graph->inputs.n || !reader_eat(&p->in, "|")) {
            TRY(expect_token(p, ")"));
            break;
        }
        p->graph->n_forward_inputs = p->graph->inputs.n;
    }
    return expect_token(p, "{");
}

static Status read_graph(Parser *p) {
    TRY(read_header(p));
    for (;;) {
        reader_skip(&p->in);
        if (reader_eat(&p->in, "}")) break;
        if (!*p->in.at) return reader_fail(&p->in, "expected '}'");
        TRY(read_line(p));
    }
    reader_skip(&p->in);
    p->graph->modes = 0;
    p->graph->where = NULL;
    p->graph->random = 0;
    p->graph->region = p->graph->again = 0;
    return *p->in.at ? reader_fail(&p->in, "text after the graph's end") : ST_OK;
}

Status graph_parse(Arena *arena, const char *text, size_t n, Graph **out) {
    char *copy = arena_alloc(arena, n + 1);
    if (!copy) return ST_MEMORY;
    memcpy(copy, text, n);
    Parser p = {.in = {NULL, BETWEEN_comments, copy, copy}, .arena = arena};
    const Status status = read_graph(&p);
    map_free(&p.values);
    if (status == ST_OK) *out = p.graph;
    return status;
}
