/* guards_text.c: see guards_text.h. Printing goes from a view that both a variant and the parser
 * fill, so that what is parsed is what was printed.
 *
 * A fixed number whose bits are those of an ordinary float prints as one ("0.5", "1.0"): ints of
 * that size do not occur as attributes, and either form reads back to the same bits. */
#include "runtime/capture/variant/guards_text.h"
#include "runtime/capture/variant/variant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

typedef struct GuardView {
    SymEnv *env;
    uint32_t epoch;
    bool writes;
    VEC(SymBinding) bindings;
    VEC(InputName) sources;      /* of sizes and strides, by free symbol */
    VEC(int64_t) bounds;         /* by free symbol */
    VEC(const char *) solutions; /* by free symbol, of what is read: where times and rest stand, or NULL */
    VEC(InputGuard) inputs;
    VEC(int64_t) numbers;
    VEC(const char *) names; /* of the numbers */
    VEC(uint8_t) rules;
    VEC(bool) guarded;
    VEC(const FloatLimit *) limits; /* of floats that vary; NULL: none */
    VEC(SymGuard) relations;
    VEC(int64_t) outputs;
} GuardView;

static const char *const relation_names[] = {[SYM_eq] = "==", [SYM_ne] = "!=", [SYM_lt] = "<", [SYM_le] = "<="};
static const char *const binding_names[] = {"size", "stride", "number", "seed", "sequence", "no size"};

/* Printing ------------------------------------------------------------------------------------ */

/* Of a size that is s0*2+s1: "s0 >= 2: size 0 of argument 0 less s1 over 2 in round 1". */
static void print_solution(const SymEnv *env, const SymBinding *b, Text *text) {
    text_puts(text, " less ");
    sym_print(env, text, b->rest);
    text_puts(text, " over ");
    sym_print(env, text, b->times);
    text_printf(text, " in round %d", b->round);
}

static void print_symbols(const GuardView *g, Text *text) {
    for (int i = 0; i < g->bindings.n; i++) {
        const SymBinding *const b = &g->bindings.at[i];
        text_printf(text, "  s%d >= %lld: %s", i, (long long)g->bounds.at[i], binding_names[b->kind]);
        if (b->kind == BIND_number) text_printf(text, " %d", b->input);
        if (b->kind <= BIND_stride) {
            text_printf(text, " %d of ", b->dim);
            input_name_print(text, g->sources.at[i]);
        }
        if (b->times) print_solution(g->env, b, text);
        text_puts(text, "\n");
    }
}

static void print_input(const GuardView *g, int i, Text *text) {
    const InputGuard *const in = &g->inputs.at[i];
    text_puts(text, "  ");
    input_name_print(text, in->name);
    text_puts(text, ": ");
    meta_print(g->env, text, in->meta);
    text_printf(text, "%s%s%s%s storage %d", in->requires_grad ? " requires_grad" : "", in->is_leaf ? " leaf" : "",
                in->inference ? " inference" : "", in->wrapped ? " wrapped" : "", in->storage);
    if (g->writes && in->alias_offset) text_printf(text, " offset %lld", (long long)in->alias_offset);
    text_puts(text, "\n");
}

/* A number's kind is not kept: these bits are a float's in all likelihood, where those of others would be an int's. */
static const struct {
    const char *name;
    uint64_t bits;
} special_floats[] = {
    {"inf", 0x7ff0000000000000},  {"-inf", 0xfff0000000000000}, {"nan", 0x7ff8000000000000},
    {"-nan", 0xfff8000000000000}, {"-0.0", 0x8000000000000000},
};

void guard_number_print(Text *text, int64_t bits) {
    for (size_t i = 0; i < sizeof special_floats / sizeof *special_floats; i++)
        if (special_floats[i].bits == (uint64_t)bits) {
            text_puts(text, special_floats[i].name);
            return;
        }
    double value;
    memcpy(&value, &bits, sizeof value);
    const int exponent = (int)((uint64_t)bits >> 52 & 0x7ff);
    if (exponent > 0 && exponent < 0x7ff && !(bits < 0 && exponent > 0x7f0)) {
        text_double(text, value);
    } else {
        text_printf(text, "%lld", (long long)bits);
    }
}

static void print_float(Text *text, double value) {
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    guard_number_print(text, bits);
}

void guard_limit_print(Text *text, const FloatLimit *limit) {
    text_puts(text, " from ");
    print_float(text, limit->least);
    text_puts(text, " to ");
    print_float(text, limit->most);
    text_printf(text, "%s%s", limit->infinite ? " or inf" : "", limit->nan ? " or nan" : "");
}

static void print_number(const GuardView *g, int k, Text *text) {
    const int rule = g->rules.at[k];
    text_printf(text, "  %s", g->names.at[k]);
    if (rule == NUMBER_runtime_int || rule == NUMBER_runtime_float) {
        text_printf(text, ": any %s", rule == NUMBER_runtime_int ? "int" : "float");
    } else {
        text_puts(text, " == ");
        if (sym_is(g->numbers.at[k]))
            sym_print(g->env, text, g->numbers.at[k]);
        else
            guard_number_print(text, g->numbers.at[k]);
    }
    if (g->limits.at[k]) guard_limit_print(text, g->limits.at[k]);
    text_puts(text, g->guarded.at[k] && rule != NUMBER_fixed ? " but special ones\n" : "\n");
}

void guard_relation_print(SymEnv *env, Text *text, const SymGuard *relation) {
    sym_print(env, text, relation->a);
    text_printf(text, " %s ", relation_names[relation->rel]);
    sym_print(env, text, relation->b);
}

static void print_view(const GuardView *g, Text *text) {
    text_printf(text, "guards {\n  dispatch table %u\n", g->epoch);
    if (g->writes) text_puts(text, "  writes memory\n");
    print_symbols(g, text);
    for (int i = 0; i < g->inputs.n; i++) print_input(g, i, text);
    for (int k = 0; k < g->numbers.n; k++) print_number(g, k, text);
    for (int i = 0; i < g->relations.n; i++) {
        text_puts(text, "  ");
        guard_relation_print(g->env, text, &g->relations.at[i]);
        text_puts(text, "\n");
    }
    for (int i = 0; i < g->outputs.n; i++)
        text_printf(text, "%s%%%lld", i ? ", " : "  outputs ", (long long)g->outputs.at[i]);
    text_puts(text, g->outputs.n ? "\n}\n" : "}\n");
}

static void view_numbers(const Variant *v, Arena *arena, GuardView *g) {
    for (int k = 0; k < v->attributes.n; k++) {
        VEC_PUSH(arena, &g->numbers, v->attributes.at[k]);
        VEC_PUSH(arena, &g->names, v->origin.number_names[k]);
        VEC_PUSH(arena, &g->rules, v->attributes.rules ? v->attributes.rules[k] : (uint8_t)NUMBER_fixed);
        VEC_PUSH(arena, &g->guarded, v->attributes.rules && v->attributes.guarded[k]);
        const bool varies = v->attributes.rules && v->attributes.rules[k] == NUMBER_runtime_float;
        VEC_PUSH(arena, &g->limits, varies ? float_limits_find(sym_floats(v->symbols.env), v->attributes.at[k]) : NULL);
    }
}

static GuardView view_of_variant(const Variant *v, Arena *arena, const InputName *names) {
    GuardView g = {.env = v->symbols.env, .epoch = v->epoch, .writes = v->segment.writes};
    for (int i = 0; i < v->n_inputs; i++) {
        VEC_PUSH(arena, &g.inputs, v->inputs[i]);
        if (names && g.inputs.n > i) g.inputs.at[i].name = names[i];
    }
    for (int i = 0; i < v->symbols.n_bindings; i++) {
        const bool sized = v->symbols.bindings[i].kind <= BIND_stride && g.inputs.n == v->n_inputs;
        VEC_PUSH(arena, &g.bindings, v->symbols.bindings[i]);
        VEC_PUSH(arena, &g.sources, sized ? g.inputs.at[v->symbols.bindings[i].input].name : (InputName){0});
        VEC_PUSH(arena, &g.bounds, sym_expr(v->symbols.env, sym_free_at(v->symbols.env, i))->b);
    }
    view_numbers(v, arena, &g);
    for (int i = 0; v->symbols.env && i < sym_guard_count(v->symbols.env); i++)
        VEC_PUSH(arena, &g.relations, *sym_guard_at(v->symbols.env, i));
    return g;
}

void guards_print(const Variant *v, Text *text) {
    Arena *const arena = arena_new();
    if (!arena) return;
    GuardView g = view_of_variant(v, arena, NULL);
    for (int i = 0; i < v->segment.n_values; i++)
        if (v->segment.provides[i]) VEC_PUSH(arena, &g.outputs, (int64_t)v->origin.value_ids[i]);
    print_view(&g, text);
    arena_free(arena);
}

void guards_print_saved(const Variant *v, const InputName *names, Text *text) {
    Arena *const arena = arena_new();
    if (!arena) return;
    GuardView g = view_of_variant(v, arena, names);
    g.epoch = 0; /* of another process */
    for (int i = 0; i < g.inputs.n; i++) g.inputs.at[i].requires_grad = g.inputs.at[i].is_leaf = false;
    print_view(&g, text);
    arena_free(arena);
}

/* Parsing ------------------------------------------------------------------------------------- */

typedef struct GuardReader {
    Arena *arena;
    TextReader in;
    GuardView view;
    bool known; /* the free symbols are those of view.env */
} GuardReader;

static Status read_index(GuardReader *r, int want) {
    int64_t number;
    TRY(reader_int(&r->in, &number));
    return number == want ? ST_OK : reader_expected(&r->in, "the next number before this");
}

/* s0 >= 2: size 0 of argument 1 */
static Status read_symbol(GuardReader *r) {
    SymBinding binding = {0};
    InputName source = {0};
    int64_t bound, input = 0, dim = 0;
    TRY(read_index(r, r->view.bindings.n));
    EAT(&r->in, " >= ");
    TRY(reader_int(&r->in, &bound));
    EAT(&r->in, ": ");
    int kind = 0;
    while (kind < COUNT_OF(binding_names) && !reader_eat(&r->in, binding_names[kind])) kind++;
    if (kind == COUNT_OF(binding_names)) return reader_expected(&r->in, "where the symbol comes from");
    binding.kind = kind;
    if (kind <= BIND_number) {
        EAT(&r->in, " ");
        TRY(reader_int(&r->in, kind == BIND_number ? &input : &dim));
    }
    if (kind <= BIND_stride) {
        EAT(&r->in, " of ");
        if (!input_name_read(&r->in, &source)) return reader_expected(&r->in, "an input");
    }
    const char *const solution = kind <= BIND_number && reader_eat(&r->in, " less ") ? r->in.at : NULL;
    if (solution) r->in.at += strcspn(r->in.at, "\n"); /* other symbols may come behind it */
    binding.input = (int)input;
    binding.dim = (int)dim;
    const int symbol = r->view.bindings.n;
    if (!r->known)
        sym_free(r->view.env, max_i64(bound, 2), bound);
    else if (symbol >= sym_free_count(r->view.env) ||
             sym_expr(r->view.env, sym_free_at(r->view.env, symbol))->b != bound)
        return reader_expected(&r->in, "a symbol as it is declared before this");
    VEC_PUSH(r->arena, &r->view.bindings, binding);
    VEC_PUSH(r->arena, &r->view.sources, source);
    VEC_PUSH(r->arena, &r->view.bounds, bound);
    VEC_PUSH(r->arena, &r->view.solutions, solution);
    return ST_OK;
}

/* Those in it are known in an earlier round. */
static bool is_known_before(const GuardReader *r, int64_t v, int round) {
    if (!sym_is(v)) return true;
    const SymExpr *const e = sym_expr(r->view.env, v);
    if (e->op != SYM_free) return is_known_before(r, e->a, round) && is_known_before(r, e->b, round);
    return e->a < r->view.bindings.n && r->view.bindings.at[e->a].round < round;
}

static Status read_solution(GuardReader *r, int i) {
    SymBinding *const b = &r->view.bindings.at[i];
    TextReader in = r->in;
    const int n = sym_free_count(r->view.env);
    in.at = r->view.solutions.at[i];
    TRY(sym_parse(r->view.env, in.at, &in.at, &b->rest));
    EAT(&in, " over ");
    TRY(sym_parse(r->view.env, in.at, &in.at, &b->times));
    EAT(&in, " in round ");
    TRY(reader_count(&in, &b->round));
    if (*in.at != '\n' || sym_free_count(r->view.env) > n) return reader_expected(&in, "symbols that are listed");
    return b->times && b->round >= 1 && b->round <= n ? ST_OK
                                                      : reader_expected(&in, "another round or divisor before this");
}

static Status read_solutions(GuardReader *r) {
    for (int i = 0; i < r->view.bindings.n; i++)
        if (r->view.solutions.at[i]) TRY(read_solution(r, i));
    for (int i = 0; i < r->view.bindings.n; i++) {
        const SymBinding *const b = &r->view.bindings.at[i];
        if (!is_known_before(r, b->rest, b->round) || !is_known_before(r, b->times, b->round))
            return reader_expected(&r->in, "before this symbols that are known when another is solved for");
    }
    return ST_OK;
}

static const InputGuard *find_input(const GuardView *g, InputName name) {
    for (int i = 0; i < g->inputs.n; i++)
        if (g->inputs.at[i].name.kind == name.kind && g->inputs.at[i].name.index == name.index) return &g->inputs.at[i];
    return NULL;
}

/* A symbol names its input before that is listed. */
static Status check_sources(GuardReader *r) {
    for (int i = 0; i < r->view.bindings.n; i++) {
        const SymBinding *const b = &r->view.bindings.at[i];
        if (b->kind > BIND_stride) continue;
        const InputGuard *const in = find_input(&r->view, r->view.sources.at[i]);
        if (!in || b->dim < 0 || b->dim >= in->meta->rank)
            return reader_expected(&r->in, "before this the input of each symbol, with that dim");
    }
    return ST_OK;
}

static Status read_input(GuardReader *r, InputName name) {
    InputGuard in = {.name = name};
    Meta *meta;
    int64_t storage;
    if (find_input(&r->view, name)) return reader_expected(&r->in, "an input that is not listed yet");
    EAT(&r->in, ": ");
    TRY(meta_parse(r->arena, r->view.env, r->in.at, &r->in.at, &meta));
    in.meta = meta;
    in.requires_grad = reader_eat(&r->in, " requires_grad");
    in.is_leaf = reader_eat(&r->in, " leaf");
    in.inference = reader_eat(&r->in, " inference");
    in.wrapped = reader_eat(&r->in, " wrapped");
    EAT(&r->in, " storage ");
    TRY(reader_int(&r->in, &storage));
    in.storage = (int)storage;
    if (reader_eat(&r->in, " offset ")) TRY(reader_int(&r->in, &in.alias_offset));
    VEC_PUSH(r->arena, &r->view.inputs, in);
    return ST_OK;
}

/* A float has a point or an exponent; symbols and operators have neither. */
Status guard_number_read(TextReader *in, SymEnv *env, int64_t *value) {
    const size_t n = strcspn(in->at, ", \n");
    for (size_t i = 0; i < sizeof special_floats / sizeof *special_floats; i++)
        if (strlen(special_floats[i].name) == n && !strncmp(in->at, special_floats[i].name, n)) {
            *value = (int64_t)special_floats[i].bits;
            in->at += n;
            return ST_OK;
        }
    const bool is_float = strspn(in->at, "+-.0123456789e") == n && strcspn(in->at, ".e") < n;
    if (!is_float) return sym_parse(env, in->at, &in->at, value);
    char *end;
    const double number = strtod(in->at, &end);
    if (end != in->at + n) return reader_expected(in, "a number");
    in->at = end;
    memcpy(value, &number, sizeof number);
    return ST_OK;
}

/* Only the lines of numbers name an op. */
static bool is_number_line(const GuardReader *r) {
    const char *const colons = strstr(r->in.at, "::");
    return colons && colons < r->in.at + strcspn(r->in.at, " \n");
}

/* Up to " == " or ": any". */
static Status read_name(GuardReader *r) {
    const size_t line = strcspn(r->in.at, "\n");
    for (size_t n = 0; n < line; n++) {
        if (strncmp(r->in.at + n, " == ", 4) && strncmp(r->in.at + n, ": any ", 6)) continue;
        char *const name = arena_copy(r->arena, r->in.at, n + 1);
        if (!name) return ST_MEMORY;
        name[n] = '\0';
        VEC_PUSH(r->arena, &r->view.names, (const char *)name);
        r->in.at += n;
        return ST_OK;
    }
    return reader_expected(&r->in, "a number's op and argument");
}

static Status read_float(GuardReader *r, double *value) {
    int64_t bits = 0;
    TRY(guard_number_read(&r->in, r->view.env, &bits));
    memcpy(value, &bits, sizeof bits);
    return ST_OK;
}

/* *limit: NULL where the line has none. */
static Status read_limit(GuardReader *r, const FloatLimit **limit) {
    *limit = NULL;
    if (!reader_eat(&r->in, " from ")) return ST_OK;
    FloatLimit *const read = ARENA_NEW(r->arena, FloatLimit);
    if (!read) return ST_MEMORY;
    TRY(read_float(r, &read->least));
    EAT(&r->in, " to ");
    TRY(read_float(r, &read->most));
    read->infinite = reader_eat(&r->in, " or inf");
    read->nan = reader_eat(&r->in, " or nan");
    *limit = read;
    return ST_OK;
}

static Status guard_number(GuardReader *r) {
    int64_t value = 0;
    uint8_t rule;
    TRY(read_name(r));
    if (reader_eat(&r->in, ": any int"))
        rule = NUMBER_runtime_int;
    else if (reader_eat(&r->in, ": any float"))
        rule = NUMBER_runtime_float;
    else {
        EAT(&r->in, " == ");
        TRY(guard_number_read(&r->in, r->view.env, &value));
        rule = sym_is(value) ? NUMBER_expr : NUMBER_fixed;
    }
    const FloatLimit *limit = NULL;
    if (rule == NUMBER_runtime_float) TRY(read_limit(r, &limit));
    VEC_PUSH(r->arena, &r->view.limits, limit);
    const bool guarded = reader_eat(&r->in, " but special ones");
    if (guarded && rule == NUMBER_fixed) return reader_expected(&r->in, "the end of the line before this");
    VEC_PUSH(r->arena, &r->view.numbers, value);
    VEC_PUSH(r->arena, &r->view.rules, rule);
    VEC_PUSH(r->arena, &r->view.guarded, guarded);
    return ST_OK;
}

Status guard_relation_read(TextReader *in, SymEnv *env, SymGuard *out) {
    TRY(sym_parse(env, in->at, &in->at, &out->a));
    EAT(in, " ");
    int rel = COUNT_OF(relation_names) - 1; /* "<=" before "<" */
    while (rel >= 0 && !reader_eat(in, relation_names[rel])) rel--;
    if (rel < 0) return reader_expected(in, "==, !=, < or <=");
    EAT(in, " ");
    out->rel = (SymRel)rel;
    return sym_parse(env, in->at, &in->at, &out->b);
}

static Status read_relation(GuardReader *r) {
    SymGuard guard;
    TRY(guard_relation_read(&r->in, r->view.env, &guard));
    VEC_PUSH(r->arena, &r->view.relations, guard);
    return ST_OK;
}

static Status read_outputs(GuardReader *r) {
    do {
        int64_t value;
        EAT(&r->in, "%");
        TRY(reader_int(&r->in, &value));
        VEC_PUSH(r->arena, &r->view.outputs, value);
    } while (reader_eat(&r->in, ", "));
    return ST_OK;
}

/* A symbol's line is told from a relation's by its source. */
static bool is_symbol_line(const GuardReader *r) {
    const size_t n = strcspn(r->in.at, "\n:");
    return r->in.at[0] == 's' && r->in.at[n] == ':';
}

static Status read_line(GuardReader *r) {
    InputName name;
    EAT(&r->in, "  ");
    if (input_name_read(&r->in, &name)) return read_input(r, name);
    if (reader_eat(&r->in, "outputs ")) return read_outputs(r);
    if (is_number_line(r)) return guard_number(r);
    if (is_symbol_line(r) && reader_eat(&r->in, "s")) return read_symbol(r);
    return read_relation(r);
}

static Status read_view(GuardReader *r) {
    int64_t epoch;
    EAT(&r->in, "guards {\n  dispatch table ");
    TRY(reader_int(&r->in, &epoch));
    r->view.epoch = (uint32_t)epoch;
    EAT(&r->in, "\n");
    r->view.writes = reader_eat(&r->in, "  writes memory\n");
    while (!reader_eat(&r->in, "}\n")) {
        TRY(read_line(r));
        EAT(&r->in, "\n");
    }
    TRY(read_solutions(r));
    return check_sources(r);
}

Status guards_reprint(const char *text, const char **end, Text *out) {
    Arena *const arena = arena_new();
    GuardReader r = {.arena = arena, .in = {.what = "guards text", .start = text, .at = text}};
    r.view.env = arena ? sym_env_new(arena) : NULL;
    Status status = r.view.env ? read_view(&r) : ST_MEMORY;
    if (status == ST_OK) {
        print_view(&r.view, out);
        *end = r.in.at;
    }
    arena_free(arena);
    return status;
}

/* Into a variant ------------------------------------------------------------------------------ */

static int index_of_input(const GuardView *g, InputName name) {
    const InputGuard *const in = find_input(g, name);
    return in ? (int)(in - g->inputs.at) : -1;
}

/* check_sources has found what they name. */
static Status set_bindings(const GuardReader *r, Variant *v) {
    for (int i = 0; i < r->view.bindings.n; i++) {
        SymBinding *const b = &r->view.bindings.at[i];
        if (b->kind <= BIND_stride) b->input = index_of_input(&r->view, r->view.sources.at[i]);
        if (b->kind == BIND_number && (b->input < 0 || b->input >= r->view.numbers.n))
            return reader_expected(&r->in, "before this the number of each symbol");
    }
    v->symbols.bindings = r->view.bindings.at;
    v->symbols.n_bindings = r->view.bindings.n;
    return v->symbols.n_bindings == sym_free_count(v->symbols.env)
               ? ST_OK
               : reader_expected(&r->in, "every symbol before this");
}

/* Floats that vary are the plan's, in their order. */
static void set_numbers(const GuardReader *r, Variant *v) {
    v->attributes.n = r->view.numbers.n;
    v->attributes.at = r->view.numbers.at;
    v->attributes.rules = r->view.rules.at;
    v->attributes.guarded = r->view.guarded.at;
    v->origin.number_names = r->view.names.at;
    for (int k = 0; k < v->attributes.n; k++)
        if (v->attributes.rules[k] == NUMBER_runtime_float) {
            v->attributes.at[k] = v->attributes.n_runtime_floats++;
            if (r->view.limits.at[k])
                float_limits_add(sym_floats(v->symbols.env), v->attributes.at[k], *r->view.limits.at[k]);
        }
}

Status guards_read(TextReader *in, Variant *v) {
    GuardReader r = {.arena = v->arena, .in = *in, .view.env = v->symbols.env, .known = true};
    TRY(read_view(&r));
    TRY(error_pending());
    *in = r.in;
    v->segment.writes = r.view.writes;
    v->inputs = r.view.inputs.at;
    v->n_inputs = r.view.inputs.n;
    set_numbers(&r, v);
    for (int i = 0; i < r.view.relations.n; i++) {
        const SymGuard *const g = &r.view.relations.at[i];
        sym_require(v->symbols.env, g->rel, g->a, g->b);
    }
    return set_bindings(&r, v);
}
