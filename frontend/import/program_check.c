/* program_check.c: what the symbols are in a call, and whether ranges, fixed sizes, expressions and guards hold: the
 * file's, in its words. A symbol is what the first size that it is alone says; one that stands only inside of
 * expressions ("2*s39") is solved from a size that is linear in it. */
#include <stdio.h>

#include "frontend/import/program.h"
#include "runtime/base/error.h"

typedef struct Solver {
    const ProgramCall *call;
    bool *known; /* by symbol */
} Solver;

/* With the file's names of symbols. */
static void put_sympy(const Model *m, const SizeExpr *e, Text *out) {
    static const char *const infix[] = {
        [SIZE_add] = " + ",   [SIZE_mul] = "*",   [SIZE_floordiv] = "//", [SIZE_mod] = " % ",
        [SIZE_eq] = " == ",   [SIZE_ne] = " != ", [SIZE_lt] = " < ",      [SIZE_le] = " <= ",
        [SIZE_and] = " and ", [SIZE_or] = " or ", [SIZE_power] = "**",    [SIZE_truediv] = " / "};
    static const char *const names[] = {
        [SIZE_max] = "max",     [SIZE_min] = "min",    [SIZE_ceildiv] = "ceildiv", [SIZE_not] = "not ",
        [SIZE_float] = "float", [SIZE_sqrt] = "sqrt",  [SIZE_trunc] = "trunc",     [SIZE_floor] = "floor",
        [SIZE_ceil] = "ceil",   [SIZE_round] = "round"};
    const char *const between = (int)e->op < COUNT_OF(infix) ? infix[e->op] : NULL;
    const char *const name = !between && (int)e->op < COUNT_OF(names) ? names[e->op] : NULL;
    if (e->op == SIZE_number) text_printf(out, "%lld", (long long)e->value);
    if (e->op == SIZE_real) text_double(out, e->real);
    if (e->op == SIZE_symbol) text_puts(out, m->symbols.list.at[e->value].name);
    if (e->op == SIZE_dim) text_printf(out, "%s.size(%d)", m->inputs.at[e->value].name, e->dim);
    if (e->op == SIZE_given) text_puts(out, m->inputs.at[e->value].name);
    if (!e->n || out->n > 400) return;
    text_printf(out, "%s(", name ? name : "");
    for (int i = 0; i < e->n; i++) {
        if (i) text_puts(out, between ? between : ", ");
        put_sympy(m, e->parts[i], out);
    }
    text_puts(out, ")");
}

static Status wrong_size(const Solver *s, const ModelInput *in, int dim, const SizeExpr *want, int64_t got) {
    Text text = {0};
    put_sympy(s->call->m, want, &text);
    const Status status =
        dim < 0 ? error_raise(ST_VALUE, "input '%s' is %lld, %s is wanted", in->name, (long long)got, text_str(&text))
                : error_raise(ST_SHAPE, "input '%s': the size of dim %d is %lld, %s is wanted", in->name, dim,
                              (long long)got, text_str(&text));
    text_free(&text);
    return status;
}

static Status bind_symbol(Solver *s, const ModelInput *in, int dim, const SizeExpr *want, int64_t got) {
    const SizeSymbol *const symbol = &s->call->m->symbols.list.at[want->value];
    int64_t *const value = &s->call->symbols[want->value];
    if (s->known[want->value] && *value != got)
        return error_raise(ST_SHAPE, "input '%s': %s is %lld, %lld is wanted: other inputs say %s = %lld", in->name,
                           dim < 0 ? "it" : "a size", (long long)got, (long long)*value, symbol->name,
                           (long long)*value);
    s->known[want->value] = true;
    *value = got;
    return ST_OK;
}

typedef Status SizeVisit(Solver *s, const ModelInput *in, int dim, const SizeExpr *want, int64_t got);
static Status each_size(Solver *s, SizeVisit *visit) {
    const Model *const m = s->call->m;
    for (int i = 0; i < m->inputs.n; i++) {
        const ModelInput *const in = &m->inputs.at[i];
        if (!input_is_given(in->kind)) continue;
        const ProgramGiven *const given = &s->call->given[in->number];
        if (given->is_int) TRY(visit(s, in, -1, in->number_expr, given->number));
        for (int d = 0; !given->is_int && d < in->type.rank; d++)
            TRY(visit(s, in, d, in->type.sizes[d], given->sizes[d]));
    }
    return ST_OK;
}

static Status visit_alone(Solver *s, const ModelInput *in, int dim, const SizeExpr *want, int64_t got) {
    return want->op == SIZE_symbol ? bind_symbol(s, in, dim, want, got) : ST_OK;
}

/* The one symbol of an expression that is not known; -1: none, -2: several. */
static int unknown_in(const Solver *s, const SizeExpr *e) {
    if (e->op == SIZE_symbol) return s->known[e->value] ? -1 : (int)e->value;
    int found = -1;
    for (int i = 0; i < e->n; i++) {
        const int one = unknown_in(s, e->parts[i]);
        if (one != -1) found = found == -1 || found == one ? one : -2;
    }
    return found;
}

static Status visit_inside(Solver *s, const ModelInput *in, int dim, const SizeExpr *want, int64_t got) {
    const int symbol = unknown_in(s, want);
    int64_t value;
    (void)in, (void)dim;
    if (symbol < 0 || !size_solve(want, symbol, got, s->call->symbols, &value)) return ST_OK;
    s->call->symbols[symbol] = value;
    s->known[symbol] = true;
    return ST_OK;
}

static Status visit_compare(Solver *s, const ModelInput *in, int dim, const SizeExpr *want, int64_t got) {
    const SizeValues values = (SizeValues){.symbols = s->call->symbols};
    int64_t value;
    return size_eval(want, &values, &value) && value == got ? ST_OK : wrong_size(s, in, dim, want, got);
}

/* The input that is the symbol, or has a size that is. */
static void put_origin(const Model *m, int symbol, Text *out) {
    for (int i = 0; i < m->inputs.n; i++) {
        const ModelInput *const in = &m->inputs.at[i];
        const bool is_int = in->kind == INPUT_int && in->number_expr->op == SIZE_symbol;
        if (is_int && in->number_expr->value == symbol) return text_printf(out, "input '%s' has", in->name);
        for (int d = 0; in->kind == INPUT_tensor && d < in->type.rank; d++)
            if (in->type.sizes[d]->op == SIZE_symbol && in->type.sizes[d]->value == symbol)
                return text_printf(out, "dim %d of input '%s' has", d, in->name);
    }
    text_puts(out, "the inputs have");
}

static Status out_of_range(const Model *m, int i, int64_t value) {
    const SizeSymbol *const symbol = &m->symbols.list.at[i];
    Text origin = {0};
    char upper[32] = "";
    if (symbol->min == symbol->max)
        return error_raise(ST_VALUE, "%s is %lld, %lld is wanted: the export fixed it", symbol->name, (long long)value,
                           (long long)symbol->min);
    if (symbol->max != INT64_MAX) snprintf(upper, sizeof upper, " <= %lld", (long long)symbol->max);
    put_origin(m, i, &origin);
    const Status status =
        error_raise(ST_SHAPE, "%s %s = %lld, but %lld <= %s%s", text_str(&origin), symbol->name, (long long)value,
                    (long long)(symbol->min == INT64_MIN ? 0 : symbol->min), symbol->name, upper);
    text_free(&origin);
    return status;
}

static Status check_ranges(const Solver *s) {
    const Model *const m = s->call->m;
    for (int i = 0; i < m->symbols.list.n; i++) {
        const SizeSymbol *const symbol = &m->symbols.list.at[i];
        const int64_t value = s->call->symbols[i];
        if (symbol->number < 0 || symbol->number >= m->n_symbols || (value >= symbol->min && value <= symbol->max))
            continue;
        return s->known[i] ? out_of_range(m, i, value)
                           : error_raise(ST_UNSUPPORTED, "the sizes of the inputs do not say what %s is", symbol->name);
    }
    return ST_OK;
}

static Status check_guards(const Solver *s) {
    const Model *const m = s->call->m;
    const SizeValues values = (SizeValues){.symbols = s->call->symbols};
    for (int i = 0; i < m->checks.n; i++) {
        int64_t holds;
        if (m->checks.at[i].of_values) continue;
        if (size_eval(m->checks.at[i].holds, &values, &holds) && holds) continue;
        return error_raise(ST_SHAPE, "the sizes of the inputs do not satisfy %.400s", m->checks.at[i].text);
    }
    return ST_OK;
}

static Status check_kinds(const ProgramCall *call) {
    const Model *const m = call->m;
    for (int i = 0; i < m->inputs.n; i++) {
        const ModelInput *const in = &m->inputs.at[i];
        if (!input_is_given(in->kind)) continue;
        const ProgramGiven *const given = &call->given[in->number];
        if ((in->kind == INPUT_int) != given->is_int)
            return error_raise(ST_ARGUMENT, "input '%s' is a%s", in->name, given->is_int ? " tensor" : "n int");
        if (given->is_int) continue;
        if (given->rank != in->type.rank)
            return error_raise(ST_SHAPE, "input '%s' has %d dims, not %d", in->name, in->type.rank, given->rank);
        if (given->dtype != in->type.dtype)
            return error_raise(ST_DTYPE, "input '%s' is %s, not %s", in->name, dtype_name(in->type.dtype),
                               dtype_name(given->dtype));
    }
    return ST_OK;
}

Status program_check(const ProgramCall *call) {
    const int n = call->m->symbols.list.n;
    Arena *const arena = arena_new();
    Solver s = {call, arena ? ARENA_ARRAY(arena, bool, n + 1) : NULL};
    Status status = s.known ? check_kinds(call) : ST_MEMORY;
    if (status == ST_OK) status = each_size(&s, visit_alone);
    if (status == ST_OK) status = each_size(&s, visit_inside);
    if (status == ST_OK) status = each_size(&s, visit_compare);
    if (status == ST_OK) status = check_ranges(&s);
    if (status == ST_OK) status = check_guards(&s);
    arena_free(arena);
    return status;
}

static void put_fixed(const Json *fixed, Text *out) {
    const Json *const value = fixed->kind == JSON_object && fixed->n == 1 ? &fixed->items[0] : fixed;
    const bool none = value->key && !strcmp(value->key, "as_none");
    if (value->kind == JSON_number && value->is_int)
        text_printf(out, "%lld", (long long)value->i);
    else if (value->kind == JSON_number)
        text_double(out, value->number);
    else
        text_puts(out, value->kind == JSON_string ? value->string : none ? "None" : value->i ? "True" : "False");
}

static void put_tensor_type(const Model *m, const ModelType *type, Text *out) {
    text_printf(out, "%s[", dtype_name(type->dtype));
    for (int d = 0; d < type->rank; d++) {
        if (d) text_puts(out, ",");
        put_sympy(m, type->sizes[d], out);
    }
    text_puts(out, "]");
}

void program_input_type(const Model *m, const ModelInput *in, Text *out) {
    if (in->kind == INPUT_int)
        text_puts(out, "int");
    else if (in->kind == INPUT_fixed)
        put_fixed(in->fixed, out);
    else
        put_tensor_type(m, &in->type, out);
}

Status program_output_type(Model *m, const ModelOutput *o, Text *out) {
    const Json *const value = o->arg->kind == JSON_object && o->arg->n == 1 ? &o->arg->items[0] : NULL;
    const char *const kind = value ? value->key : "", *const name = json_string(json_get(value, "name"));
    ModelType type;
    if (!strncmp(kind, "as_sym_", 7)) return text_puts(out, kind + 7), ST_OK;
    if (!strcmp(kind, "as_string"))
        return text_printf(out, "'%s'", json_string(value) ? json_string(value) : ""), ST_OK;
    if (strcmp(kind, "as_tensor") || !name) return put_fixed(o->arg, out), ST_OK;
    TRY(model_type(m, model_meta(m->graph, name), o->name, &type));
    put_tensor_type(m, &type, out);
    return ST_OK;
}
