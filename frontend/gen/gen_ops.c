/* gen_ops.c: writes the public header sinter/ops.h and its C file from the op table, at build time.
 *
 *   gen_ops header PATH | gen_ops documented PATH | gen_ops source PATH
 *
 * The documented header is the one to install; the tree itself is built against the bare declarations, so that an
 * edited doc compiles nothing else. A file is written only where it changes: what includes it is rebuilt only then.
 *
 * A row with a C name gives sn_<name>(its first parameters, as many as the row shows), sn_<name>_ex(all), sn_<name>_
 * in place, sn_<name>_out(out, the same parameters) and sn_<name>_out_ex(out, all). Further results come by trailing
 * nullable pointers, Tensor[] results fill an array. The C functions build normalised arguments where their types
 * allow it, so that a call costs one table load. */
#include <stdio.h>
#include <stdlib.h>

#include "ir/schema.h"
#include "ir/op_ids.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

typedef enum Style { STYLE_short, STYLE_ex, STYLE_inplace, STYLE_ex_inplace, STYLE_out, STYLE_out_ex } Style;

static bool writes_out(Style style) { return style == STYLE_out || style == STYLE_out_ex; }
static bool takes_all(Style style) { return style == STYLE_ex || style == STYLE_ex_inplace || style == STYLE_out_ex; }

/* How a parameter looks in C, and how its Arg is made: %s is its name. */
typedef struct CType {
    ParamType type;
    const char *declared, *made;
    bool plain;         /* its Arg needs no check */
    const char *absent; /* how to say None, for the docs */
} CType;
static const CType ctypes[] = {
    {PT_tensor, "sn_tensor *", "A_VAL((Val *)%s)", true, NULL},
    {PT_tensor_opt, "sn_tensor *", "OPTIONAL_TENSOR(%s)", true, "NULL: absent"},
    {PT_tensors, "sn_tensors ", "TENSORS(%s)", false, NULL},
    {PT_tensors_opt, "sn_tensors ", "TENSORS(%s)", false, NULL},
    {PT_scalar, "sn_scalar ", "VALUE(%s)", false, NULL},
    {PT_scalar_opt, "sn_scalar ", "VALUE(%s)", false, "{0}: absent"},
    {PT_int, "int64_t ", "A_INT(%s)", true, NULL},
    {PT_int_opt, "int64_t ", "OPTIONAL_INT(%s)", true, "SN_NO_INT: absent"},
    {PT_ints, "sn_ints ", "INTS(%s)", true, NULL},
    {PT_ints_opt, "sn_ints ", "OPTIONAL_INTS(%s)", true, "{0}: absent"},
    {PT_int1, "sn_ints ", "INTS(%s)", true, NULL},
    {PT_int1_opt, "sn_ints ", "OPTIONAL_INTS(%s)", true, "{0}: absent"},
    {PT_float, "double ", "A_FLOAT(%s)", true, NULL},
    {PT_bool, "bool ", "A_BOOL(%s)", true, NULL},
    {PT_string, "const char *", "A_STR(%s)", true, NULL},
    {PT_string_opt, "const char *", "TEXT(%s)", true, "NULL: absent"},
    {PT_dtype, "sn_dtype ", "A_INT(%s)", false, NULL},
    {PT_dtype_opt, "sn_dtype ", "A_INT(%s)", false, "SN_DTYPE_DEFAULT: the op's own"},
};
static const CType boxed = {PT_float_opt, "sn_value ", "VALUE(%s)", false, "{0}: absent"};

static const CType *ctype(ParamType type) {
    for (int i = 0; i < COUNT_OF(ctypes); i++)
        if (ctypes[i].type == type) return &ctypes[i];
    return &boxed;
}

/* What the meta rules promise, said once per rule. */
typedef struct RuleDoc {
    const char *meta, *doc;
} RuleDoc;
static const RuleDoc rule_docs[] = {
    {"binary", "Sizes broadcast, dtypes promote (PyTorch's rules)."},
    {"binary_no_bool", "Sizes broadcast, dtypes promote; bool is a dtype error."},
    {"rsub", "Sizes broadcast, dtypes promote; bool is a dtype error."},
    {"clamp_min", "Sizes broadcast, dtypes promote; a number above all of an int dtype is a value error."},
    {"clamp_max", "Sizes broadcast, dtypes promote; a number below all of an int dtype is a value error."},
    {"modulo", "Sizes broadcast, dtypes promote; bools alone are a dtype error."},
    {"binary_float", "Sizes broadcast; ints and bools give f32."},
    {"compare", "Sizes broadcast; the result is bool."},
    {"logical", "Sizes broadcast; the result is bool."},
    {"bitwise", "Sizes broadcast; floats are a dtype error."},
    {"unary", "Sizes and dtype of self."},
    {"unary_no_bool", "Sizes and dtype of self; bool is a dtype error."},
    {"hardtanh", "Sizes and dtype of self; bool is a dtype error."},
    {"unary_float", "Sizes of self; ints and bools give f32."},
    {"unary_float_only", "Sizes and dtype of self; only floats, else a dtype error."},
    {"log_sigmoid", "Sizes and dtype of self; only floats, else a dtype error."},
    {"bernoulli", "Sizes and dtype of self; only floats, else a dtype error."},
    {"sum", "Reduced dims go away unless keepdim; ints give i64."},
    {"mean", "Reduced dims go away unless keepdim; only floats, else a dtype error."},
    {"amax", "Reduced dims go away unless keepdim; no elements along one is a shape error."},
    {"argmax", "i64; no elements along the dim is a shape error."},
    {"any", "Reduced dims go away unless keepdim; the result is bool."},
    {"view", "Shares memory; sizes that the strides can't express are a shape error."},
    {"expand", "Shares memory; only dims of size 1 can grow."},
    {"slice", "Shares memory; positions count from the end if negative, and are clipped."},
    {"select", "Shares memory; an index out of range is a value error."},
    {"mm", "2-D operands of one dtype; inner sizes must agree."},
    {"bmm", "3-D operands of one dtype; inner and batch sizes must agree."},
    {"addmm", "2-D mat1 and mat2 of one dtype; self broadcasts to the product."},
    {"int_mm", "2-D operands, i8 or u8 by i8; inner sizes must agree; the result is i32."},
    {"fake_quantize",
     "Sizes and dtype of self, which must be a float; a zero point outside of the range is a value error."},
    {"quantize",
     "Sizes of input, which must be a float; a range beyond dtype's, or a zero point outside, is a value error."},
    {"dequantize", "Sizes of input, which must have dtype, an int one."},
    {"embedding", "Sizes of indices, then weight's second; an index out of range is a value error."},
    {"gather", "Sizes of index; a position out of range is a value error."},
};

static const char *rule_doc(const OpRow *row) {
    const char *const rule = row->alias_of ? row->alias_of->meta_rule : row->meta_rule;
    for (int i = 0; i < COUNT_OF(rule_docs); i++)
        if (!strcmp(rule_docs[i].meta, rule)) return rule_docs[i].doc;
    return NULL;
}

static int shown(const OpRow *row, Style style) {
    return takes_all(style) || row->c.shown > row->n_params ? row->n_params : row->c.shown;
}

/* Parameters that this function's form does not have. */
static bool hidden(const OpRow *row, Style style, int i) {
    return writes_out(style) && row->options && i >= row->options && i < row->options + N_OPTIONS;
}

static bool shows_all(const OpRow *row, Style style) {
    for (int i = shown(row, style); i < row->n_params; i++)
        if (!hidden(row, style, i)) return false;
    return true;
}

static void name_print(Text *text, const OpRow *row, Style style) {
    static const char *const suffix[] = {"", "_ex", "_", "_ex_", "_out", "_out_ex"};
    text_printf(text, "sn_%s%s", row->c.name, suffix[style]);
}

/* The name of result i in the schema ("(Tensor values, Tensor indices)"), or result<i>. */
static void result_name(Text *text, const OpRow *row, int i) {
    Param params[MAX_ARGS];
    char *const buffer = mem_alloc(strlen(row->schema) + 64);
    Schema schema = {.params = params, .text = buffer};
    if (!buffer || schema_parse(row->schema, &schema) != ST_OK) exit(1);
    if (*schema.results[i].name)
        text_puts(text, schema.results[i].name);
    else
        text_printf(text, "result%d", i);
    mem_free(buffer);
}

static void declaration(Text *text, const OpRow *row, Style style) {
    const char *separator = "";
    text_puts(text, row->returns_list ? "int64_t " : "sn_tensor *");
    name_print(text, row, style);
    text_puts(text, "(");
    if (writes_out(style)) {
        for (int i = 0; i < row->n_out; i++, separator = ", ")
            text_printf(text, row->n_out == 1 ? "%ssn_tensor *out" : "%ssn_tensor *out%d", separator, i);
    }
    for (int i = 0; i < shown(row, style); i++) {
        if (hidden(row, style, i)) continue;
        text_printf(text, "%s%s%s", separator, ctype(row->params[i].type)->declared, row->params[i].name);
        separator = ", ";
    }
    for (int i = 1; !writes_out(style) && !row->returns_list && i < row->n_out; i++) {
        text_printf(text, "%ssn_tensor **", separator);
        result_name(text, row, i);
    }
    if (row->returns_list) text_printf(text, "%ssn_tensor **out, int64_t capacity", separator);
    if (!*separator && !row->returns_list) text_puts(text, "void");
    text_puts(text, ")");
}

static void doc_print(Text *text, const OpRow *row) {
    const char *more = rule_doc(row);
    text_printf(text, "\n/* %s%s%s\n", row->doc, more ? "\n   " : "", more ? more : "");
    for (int i = 0; i < row->n_params; i++) {
        const char *absent = ctype(row->params[i].type)->absent;
        if (absent && i < row->c.shown) text_printf(text, "   %s %s.\n", row->params[i].name, absent);
    }
    if (row->n_out > 1) text_puts(text, "   Pointers to further results may be NULL.\n");
    if (row->returns_list) text_puts(text, "   Fills out, which has this room; returns the count, -1 on error.\n");
    text_printf(text, "   %s */\n", row->schema);
}

/* source -------------------------------------------------------------------------------------- */

static void default_print(Text *text, const Param *param) {
    const Arg *arg = &param->fallback;
    const bool to_float = param->type == PT_float;
    switch (arg->kind) {
    case ARG_int:
        text_printf(text, to_float ? "A_FLOAT(%lld)" : "A_INT(%lld)", (long long)arg->i);
        break;
    case ARG_bool:
        text_printf(text, "A_BOOL(%d)", (int)arg->i);
        break;
    case ARG_string:
        text_printf(text, "A_STR(\"%s\")", arg->string);
        break;
    case ARG_float:
        text_puts(text, "A_FLOAT(");
        text_double(text, arg->f);
        text_puts(text, ")");
        break;
    case ARG_ints:
        if (!arg->n)
            text_puts(text, "A_INTS(NULL, 0)");
        else
            text_puts(text, "A_DEFAULT");
        break;
    case ARG_none:
        text_puts(text, "A_NONE");
        break;
    default:
        text_puts(text, param_type_optional(param->type) ? "A_NONE" : "A_DEFAULT");
    }
}

/* As a list of this length: an int where the schema takes a list is none yet. */
static bool is_spelled(const Param *param) {
    const bool one = param->type == PT_int1 || param->type == PT_int1_opt;
    return param->fallback.kind == ARG_ints ? !param->fallback.n : !one || param->fallback.kind != ARG_int;
}

/* Whether the arguments as written need no op_args_normalize: plain types, and defaults that can be
 * spelled. */
static bool is_plain(const OpRow *row, Style style) {
    for (int i = 0; i < row->n_params; i++) {
        const Param *param = &row->params[i];
        const bool given = i < shown(row, style) && !hidden(row, style, i);
        if (given ? !ctype(param->type)->plain : !is_spelled(param)) return false;
    }
    return true;
}

static void args_print(Text *text, const OpRow *row, Style style) {
    text_printf(text, "    const Arg args[%d] = {", row->n_params ? row->n_params : 1);
    for (int i = 0; i < row->n_params; i++) {
        const Param *param = &row->params[i];
        text_puts(text, i ? ", " : "");
        if (i < shown(row, style) && !hidden(row, style, i))
            text_printf(text, ctype(param->type)->made, param->name);
        else
            default_print(text, param);
    }
    if (!row->n_params) text_puts(text, "{0}");
    text_puts(text, "};\n");
}

static void call_print(Text *text, const OpRow *row, Style style, const char *id) {
    const char *form = writes_out(style)                                     ? "out"
                       : style == STYLE_inplace || style == STYLE_ex_inplace ? "inplace"
                                                                             : "functional";
    if (writes_out(style)) {
        text_printf(text, "    sn_tensor *const written[] = {");
        for (int i = 0; i < row->n_out; i++) text_printf(text, row->n_out == 1 ? "out" : "%sout%d", i ? ", " : "", i);
        text_puts(text, "};\n");
    }
    if (row->returns_list) {
        text_printf(text, "    OPS_SITE();\n    return ops_list(OP_%s, args, out, capacity);\n", id);
    } else if (row->n_out == 1 || writes_out(style)) {
        text_printf(text, "    OPS_SITE();\n    return ops_call1(OP_%s, FORM_%s, args, %s, %s);\n", id, form,
                    is_plain(row, style) ? "true" : "false", writes_out(style) ? "written" : "NULL");
    } else {
        text_puts(text, "    sn_tensor **const more[] = {");
        for (int i = 1; i < row->n_out; i++) {
            text_puts(text, i > 1 ? ", " : "");
            result_name(text, row, i);
        }
        text_printf(text, "};\n    OPS_SITE();\n    return ops_call(OP_%s, args, more);\n", id);
    }
}

static const char *op_ids[OP_IDS] = {
#define ID(id, _) [OP_##id] = #id,
#include "ir/op_ids.def"
#undef ID
};

static void function_print(Text *text, const OpRow *row, Style style, bool source) {
    declaration(text, row, style);
    if (!source) {
        text_puts(text, ";\n");
        return;
    }
    text_puts(text, " {\n");
    args_print(text, row, style);
    call_print(text, row, style, op_ids[row->id]);
    text_puts(text, "}\n");
}

typedef enum GenOutput { OUTPUT_header, OUTPUT_documented, OUTPUT_source, OUTPUT_COUNT } GenOutput;
static const char *const output_names[] = {"header", "documented", "source"};

static void row_print(Text *text, const OpRow *row, GenOutput output) {
    const bool source = output == OUTPUT_source;
    if (!row->c.name || row->flags & OPF_internal) return;
    if (output == OUTPUT_documented) doc_print(text, row);
    function_print(text, row, STYLE_short, source);
    if (!shows_all(row, STYLE_short)) function_print(text, row, STYLE_ex, source);
    if (row->inplace) function_print(text, row, STYLE_inplace, source);
    if (row->inplace && !shows_all(row, STYLE_inplace)) function_print(text, row, STYLE_ex_inplace, source);
    if (!row->out) return;
    function_print(text, row, STYLE_out, source);
    if (!shows_all(row, STYLE_out)) function_print(text, row, STYLE_out_ex, source);
}

static const char header_head[] =
    "/* ops.h: generated from the op table [op]. sn_X takes the usual arguments, sn_X_ex all; sn_X_ "
    "works in place and returns\n"
    "   self, sn_X_ex_ too with all arguments, sn_X_out writes to out, sn_X_out_ex with all "
    "arguments. The first result is "
    "returned, "
    "NULL on error. */\n"
    "#ifndef SINTER_OPS_H\n#define SINTER_OPS_H\n#include <sinter/tensor.h>\nSN_BEGIN\n";
static const char source_head[] =
    "/* ops_api.c: generated from the op table: the functions of sinter/ops.h. */\n"
    "#include <sinter/ops.h>\n\n#include \"frontend/api/ops_call.h\"\n#include \"ir/op_ids.h\"\n\n";

static bool holds_already(const char *path, const Text *text) {
    FILE *const file = fopen(path, "r");
    if (!file) return false;
    size_t n = 0;
    int c;
    while ((c = fgetc(file)) != EOF && n < text->n && c == (unsigned char)text->at[n]) n++;
    fclose(file);
    return c == EOF && n == text->n;
}

static bool write_file(const char *path, const Text *text) {
    FILE *const file = fopen(path, "w");
    return file && fwrite(text->at, 1, text->n, file) == text->n && !fclose(file);
}

int main(int argc, char **argv) {
    GenOutput output = OUTPUT_header;
    while (argc == 3 && output < OUTPUT_COUNT && strcmp(argv[1], output_names[output])) output++;
    if (argc != 3 || output == OUTPUT_COUNT)
        return fprintf(stderr, "usage: gen_ops header|documented|source PATH\n"), 2;
    const bool source = output == OUTPUT_source;
    Text text = {0};
    text_puts(&text, source ? source_head : header_head);
    for (int i = 0; i < op_row_count(); i++) {
        const OpRow *row = op_row_at(i);
        if (!row->name) return fprintf(stderr, "gen_ops: row %s: %s\n", op_ids[row->id], error_slot()->message), 1;
        row_print(&text, row, output);
    }
    if (!source) text_puts(&text, "SN_END\n#endif\n");
    if (!holds_already(argv[2], &text) && !write_file(argv[2], &text)) return perror(argv[2]), 1;
    text_free(&text);
    return 0;
}
