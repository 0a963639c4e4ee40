/* writer.c: names, arguments and types. What the unions of arguments may be: torch/_export/serde/schema.py, class
 * Argument. */
#include "frontend/import/writer.h"

#include <stdio.h>

#include "ir/schema.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

const Json *writer_union(const Json *u) { return u && u->kind == JSON_object && u->n == 1 ? &u->items[0] : NULL; }

void writer_free(NodeWriter *w) {
    map_free(&w->values);
    map_free(&w->taken);
    map_free(&w->carried);
}

/* Names ---------------------------------------------------------------------------------------- */

static uint64_t name_key(int scope, const char *name) { return hash_bytes((uint64_t)scope + 5, name, strlen(name)); }

const char *writer_new_name(NodeWriter *w, const char *name) {
    char *const base = arena_printf(w->m->arena, "%s", *name ? name : "v"), *own = base;
    for (char *c = base; c && *c; c++)
        if (!is_word_char(*c)) *c = '_';
    for (int i = 2; own && map_get(&w->taken, name_key(0, own)); i++) own = arena_printf(w->m->arena, "%s_%d", base, i);
    return own && map_set(&w->taken, name_key(0, own), own) ? own : NULL;
}

Status writer_set(NodeWriter *w, const char *name, const char *value) {
    return value && map_set(&w->values, name_key(w->scope, name), (void *)(uintptr_t)value) ? ST_OK : ST_MEMORY;
}

const char *writer_get(const NodeWriter *w, const char *name) { return map_get(&w->values, name_key(w->scope, name)); }

Status writer_tensor(const NodeWriter *w, const Json *tensor, const char **out) {
    const Json *const inner = json_get(tensor, "as_tensor");
    const char *const name = json_string(json_get(inner ? inner : tensor, "name"));
    *out = name ? writer_get(w, name) : NULL;
    if (*out) return ST_OK;
    return error_raise(ST_PARSE, "model.json: no value before it is called '%.200s'", name ? name : "");
}

/* Sizes ---------------------------------------------------------------------------------------- */

/* {"as_int": 3}, {"as_name": "sym_size_int"}, or a plain number. */
Status writer_size(NodeWriter *w, const Json *sym, const char **out) {
    const Json *const number = json_get(sym, "as_int");
    const char *const name = json_string(json_get(sym, "as_name"));
    if (number && number->is_int) {
        *out = arena_printf(w->m->arena, "%lld", (long long)number->i);
        return *out ? ST_OK : ST_MEMORY;
    }
    *out = name ? writer_get(w, name) : NULL;
    if (*out) return ST_OK;
    return error_raise(ST_UNSUPPORTED, "the size '%.200s' follows from values, or is no expression of sizes",
                       name ? name : "");
}

/* Arguments ------------------------------------------------------------------------------------ */

static Status refuse_arg(const char *kind) {
    return error_raise(ST_UNSUPPORTED, "arguments of the kind '%.60s' there are none of here", kind);
}

static void put_string(Text *out, const char *string) {
    text_puts(out, "'");
    for (const char *c = string; *c; c++) {
        if (*c == '\\' || *c == '\'') text_puts(out, "\\");
        text_put(out, *c == '\n' ? "\\n" : c, *c == '\n' ? 2 : 1);
    }
    text_puts(out, "'");
}

/* JSON has no infinities: these are texts. */
static Status put_float(const Json *value, Text *out) {
    const char *const word = json_string(value);
    if (!word && value->kind != JSON_number) return error_raise(ST_PARSE, "model.json: a float is no number");
    if (!word) return text_double(out, value->number), ST_OK;
    const bool less = *word == '-';
    if (strcmp(word + less, "Infinity") && strcmp(word, "NaN"))
        return error_raise(ST_PARSE, "model.json: '%.40s' is no number", word);
    text_puts(out, *word == 'N' ? "nan" : less ? "-inf" : "inf");
    return ST_OK;
}

static Status put_int(const Json *value, Text *out) {
    if (!value->is_int) return error_raise(ST_PARSE, "model.json: an int is none, or too large");
    text_printf(out, "%lld", (long long)value->i);
    return ST_OK;
}

static Status put_bool(const Json *value, Text *out) {
    text_puts(out, value->i ? "True" : "False");
    return ST_OK;
}

static Status put_dtype(const Json *code, Text *out) {
    const DType dtype = model_dtype(code->is_int ? code->i : 0);
    if (dtype == DT_default)
        return error_raise(ST_DTYPE,
                           "a dtype that there is none of here (complex, float8 or unsigned; ScalarType %lld)",
                           (long long)code->i);
    text_puts(out, dtype_name(dtype));
    return ST_OK;
}

static Status put_memory_format(const Json *code, Text *out) {
    static const int formats[] = {
        [1] = MF_contiguous, [2] = MF_channels_last, [3] = MF_channels_last_3d, [4] = MF_preserve};
    if (!code->is_int || code->i < 1 || code->i >= COUNT_OF(formats)) return refuse_arg("as_memory_format");
    text_puts(out, memory_format_name(formats[code->i]));
    return ST_OK;
}

static Status put_device(const Json *value, Text *out) {
    Device device;
    TRY(model_device(value, &device));
    text_puts(out, DEVICE_TEXT(device));
    return ST_OK;
}

static Status put_layout(const Json *code, Text *out) {
    if (!code->is_int || code->i != 7) return refuse_arg("as_layout");
    text_puts(out, "strided");
    return ST_OK;
}

static Status put_text(const Json *value, Text *out) {
    if (value->kind != JSON_string) return refuse_arg("as_string");
    put_string(out, value->string);
    return ST_OK;
}

static Status put_none(const Json *value, Text *out) {
    (void)value;
    text_puts(out, "None");
    return ST_OK;
}

/* What needs no names. */
typedef struct PlainKind {
    const char *kind;
    Status (*put)(const Json *value, Text *out);
    bool list;
} PlainKind;
static const PlainKind plain_kinds[] = {
    {"as_int", put_int, false},       {"as_ints", put_int, true},
    {"as_float", put_float, false},   {"as_floats", put_float, true},
    {"as_bool", put_bool, false},     {"as_bools", put_bool, true},
    {"as_none", put_none, false},     {"as_string", put_text, false},
    {"as_device", put_device, false}, {"as_scalar_type", put_dtype, false},
    {"as_layout", put_layout, false}, {"as_memory_format", put_memory_format, false},
};

static Status put_list(const Json *list, Status (*put)(const Json *value, Text *out), Text *out) {
    if (list->kind != JSON_list) return error_raise(ST_PARSE, "model.json: a list is none");
    text_puts(out, "[");
    for (int i = 0; i < list->n; i++) {
        if (i) text_puts(out, ", ");
        TRY(put(&list->items[i], out));
    }
    text_puts(out, "]");
    return ST_OK;
}

static Status put_value(NodeWriter *w, const Json *tensor, Text *out) {
    const char *value;
    if (json_get(tensor, "as_none")) return put_none(tensor, out);
    TRY(writer_tensor(w, tensor, &value));
    text_puts(out, value);
    return ST_OK;
}

static Status put_size(NodeWriter *w, const Json *sym, Text *out) {
    const char *value;
    TRY(writer_size(w, sym, &value));
    text_puts(out, value);
    return ST_OK;
}

/* as_sym_float: {"as_float": 0.5} or a name. */
static Status put_known(NodeWriter *w, const Json *sym, Text *out) {
    const Json *const member = writer_union(sym);
    if (writer_union_is(member, "as_float")) return put_float(member, out);
    if (writer_union_is(member, "as_bool")) return put_bool(member, out);
    return put_size(w, sym, out);
}

static Status put_named_list(NodeWriter *w, const Json *list, Status (*put)(NodeWriter *w, const Json *item, Text *out),
                             Text *out) {
    if (list->kind != JSON_list) return error_raise(ST_PARSE, "model.json: a list is none");
    text_puts(out, "[");
    for (int i = 0; i < list->n; i++) {
        if (i) text_puts(out, ", ");
        TRY(put(w, &list->items[i], out));
    }
    text_puts(out, "]");
    return ST_OK;
}

typedef struct NamedKind {
    const char *kind;
    Status (*put)(NodeWriter *w, const Json *item, Text *out);
    bool list;
} NamedKind;
static const NamedKind named_kinds[] = {
    {"as_tensor", put_value, false},          {"as_tensors", put_value, true},
    {"as_optional_tensor", put_value, false}, {"as_optional_tensors", put_value, true},
    {"as_sym_int", put_size, false},          {"as_sym_ints", put_size, true},
    {"as_sym_float", put_known, false},       {"as_sym_bool", put_known, false},
};

Status writer_arg(NodeWriter *w, const Json *arg, Text *out) {
    const Json *const member = writer_union(arg);
    for (int i = 0; i < COUNT_OF(plain_kinds); i++)
        if (writer_union_is(member, plain_kinds[i].kind))
            return plain_kinds[i].list ? put_list(member, plain_kinds[i].put, out) : plain_kinds[i].put(member, out);
    for (int i = 0; i < COUNT_OF(named_kinds); i++)
        if (writer_union_is(member, named_kinds[i].kind))
            return named_kinds[i].list ? put_named_list(w, member, named_kinds[i].put, out)
                                       : named_kinds[i].put(w, member, out);
    return refuse_arg(member ? member->key : "?");
}

/* Lines ---------------------------------------------------------------------------------------- */

static Status put_result(NodeWriter *w, const char *name, bool first, Text *out) {
    const char *const own = writer_new_name(w, name), *const value =
                                                          own ? arena_printf(w->m->arena, "%%%s", own) : NULL;
    if (!value) return ST_MEMORY;
    text_printf(out, "%s%s", first ? "" : ", ", value);
    return writer_set(w, name, value);
}

Status writer_results(NodeWriter *w, const Json *outputs, Text *out) {
    bool first = true;
    for (int i = 0; i < outputs->n; i++, first = false) {
        const Json *const member = writer_union(&outputs->items[i]);
        const char *const name = json_string(json_get(member, "name"));
        if (writer_union_is(member, "as_tensors") && member->kind == JSON_list) {
            for (int k = 0; k < member->n; k++) {
                const char *const item = json_string(json_get(&member->items[k], "name"));
                TRY(put_result(w, item ? item : "v", first && !k, out));
            }
        } else if (writer_union_is(member, "as_tensor") && name) {
            TRY(put_result(w, name, first, out));
        } else if (writer_union_is(member, "as_none")) {
            TRY(put_result(w, "none", first, out));
        } else {
            return error_raise(ST_UNSUPPORTED, "a result of the kind '%.60s'", member ? member->key : "?");
        }
    }
    if (w->found >= 0) text_printf(out, ", s%d", w->found);
    w->found = -1;
    if (!first) text_puts(out, " = ");
    return ST_OK;
}

void writer_attributes(const NodeWriter *w, Text *out) {
    if (w->no_grad) text_puts(out, " no_grad");
    if (!w->place) return;
    text_puts(out, " at=");
    put_string(out, w->place);
}

static bool row_major(const ModelType *type) {
    int64_t expected = 1;
    for (int d = type->rank - 1; d >= 0; d--) {
        const SizeExpr *const size = type->sizes[d], *const stride = type->strides[d];
        if (size_is_number(size) && size->value == 1) continue;
        if (!size_is_number(stride) || stride->value != expected) return false;
        if (!size_is_number(size) && d > 0) return false;
        if (size_is_number(size) && !mul_ok(expected, size->value, &expected)) return false;
    }
    return true;
}

static Status put_expr(const Model *m, const SizeExpr *e, const char *what, Text *out) {
    Text one = {0};
    const bool printed = size_print(&m->symbols, e, &one);
    if (printed) text_puts(out, text_str(&one));
    text_free(&one);
    return printed ? ST_OK : error_raise(ST_UNSUPPORTED, "a size of %.200s is not one of the call's inputs", what);
}

Status writer_type(Model *m, const Json *meta, const char *what, Text *out) {
    ModelType type;
    TRY(model_type(m, meta, what, &type));
    text_printf(out, "%s[", dtype_name(type.dtype));
    for (int d = 0; d < type.rank; d++) {
        if (d) text_puts(out, ",");
        TRY(put_expr(m, type.sizes[d], what, out));
    }
    text_puts(out, "]");
    if (!row_major(&type)) {
        text_puts(out, "{");
        for (int d = 0; d < type.rank; d++) {
            if (d) text_puts(out, ",");
            TRY(put_expr(m, type.strides[d], what, out));
        }
        text_puts(out, "}");
    }
    if (type.device != DEV_cpu) text_printf(out, "@%s", DEVICE_TEXT(type.device));
    return ST_OK;
}
