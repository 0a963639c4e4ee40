/* writer_numbers.c: numbers that a body carries from step to step: tensors of no dims, in i64, as what is computed of
 * them is.
 *
 *     %float = aten::full([], s0, dtype=i64)
 *     %i_lt = aten::lt.Tensor(%x0, %float)
 *
 * Sizes are no such numbers: an op that has one for a size is refused. x[i] is read as index_select does it. */
#include "frontend/import/writer.h"
#include "runtime/base/error.h"

static uint64_t symbol_key(int64_t symbol) { return (uint64_t)symbol + 1; }

Status writer_carry(NodeWriter *w, const char *name, const char *tensor) {
    const Json *const size = json_get(json_get(w->graph, "sym_int_values"), name);
    const SizeExpr *e;
    TRY(writer_set(w, name, tensor));
    if (!size) return ST_OK;
    TRY(model_size(w->m, size, &e));
    if (e->op != SIZE_symbol || w->m->symbols.list.at[e->value].number >= 0) return ST_OK;
    return map_set(&w->carried, symbol_key(e->value), (void *)(uintptr_t)tensor) ? ST_OK : ST_MEMORY;
}

Status writer_as_tensor(NodeWriter *w, const char *number, const char *dtype, const char **out) {
    const char *const own = writer_new_name(w, "number");
    if (!own) return ST_MEMORY;
    text_printf(w->text, "  %%%s = aten::full([], %s, dtype=%s)", own, number, dtype);
    writer_attributes(w, w->text);
    text_puts(w->text, "\n");
    *out = arena_printf(w->m->arena, "%%%s", own);
    return *out ? ST_OK : ST_MEMORY;
}

static const char *const number_ops[] = {
    [SIZE_add] = "aten::add.Tensor",        [SIZE_mul] = "aten::mul.Tensor",
    [SIZE_floordiv] = "aten::floor_divide", [SIZE_mod] = "aten::remainder.Tensor",
    [SIZE_ceildiv] = "aten::floor_divide",  [SIZE_max] = "aten::maximum",
    [SIZE_min] = "aten::minimum",           [SIZE_power] = "aten::pow.Tensor_Tensor",
    [SIZE_eq] = "aten::eq.Tensor",          [SIZE_ne] = "aten::ne.Tensor",
    [SIZE_lt] = "aten::lt.Tensor",          [SIZE_le] = "aten::le.Tensor",
    [SIZE_and] = "aten::logical_and",       [SIZE_or] = "aten::logical_or",
    [SIZE_not] = "aten::logical_not"};

/* b: NULL: an op of one operand. */
static Status number_line(NodeWriter *w, const char *op, const char *a, const char *b, const char **out) {
    const char *const own = writer_new_name(w, "number");
    if (!own) return ST_MEMORY;
    text_printf(w->text, "  %%%s = %s(%s%s%s)", own, op, a, b ? ", " : "", b ? b : "");
    writer_attributes(w, w->text);
    text_puts(w->text, "\n");
    *out = arena_printf(w->m->arena, "%%%s", own);
    return *out ? ST_OK : ST_MEMORY;
}

static bool has_carried(const NodeWriter *w, const SizeExpr *e) {
    bool any = e->op == SIZE_symbol && map_get(&w->carried, symbol_key(e->value));
    for (int i = 0; i < e->n; i++) any = any || has_carried(w, e->parts[i]);
    return any;
}

/* Of sizes alone. */
static Status put_sizes(NodeWriter *w, const SizeExpr *e, const char **out) {
    Text text = {0};
    const bool printed = size_print(&w->m->symbols, e, &text);
    const Status status = printed
                              ? writer_as_tensor(w, text_str(&text), "i64", out)
                              : error_raise(ST_UNSUPPORTED, "a number beside a carried one is no expression of sizes");
    text_free(&text);
    return status;
}

static Status carried_value(NodeWriter *w, const SizeExpr *e, const char **out) {
    const char *next;
    if (e->op == SIZE_symbol && (*out = map_get(&w->carried, symbol_key(e->value)))) return ST_OK;
    if (!has_carried(w, e)) return put_sizes(w, e, out);
    TRY(carried_value(w, e->parts[0], out));
    if (e->op == SIZE_not) return number_line(w, number_ops[e->op], *out, NULL, out);
    if (e->op == SIZE_ceildiv) TRY(number_line(w, "aten::neg", *out, NULL, out)); /* -(-a // b) */
    for (int i = 1; i < e->n; i++) {
        TRY(carried_value(w, e->parts[i], &next));
        TRY(number_line(w, number_ops[e->op], *out, next, out));
    }
    return e->op == SIZE_ceildiv ? number_line(w, "aten::neg", *out, NULL, out) : ST_OK;
}

Status writer_carried(NodeWriter *w, const SizeExpr *e, const char *name) {
    const char *value;
    if (!has_carried(w, e)) return ST_OK;
    TRY(carried_value(w, e, &value));
    return writer_set(w, name, value);
}

/* select.int(self, dim, index) of a carried index: a copy, since no view in a graph begins where a value says. */
Status writer_carried_select(NodeWriter *w, const Json *inputs, const Json *outputs, bool *written) {
    const Json *const index = inputs->n == 3 ? json_get(&inputs->items[2], "arg") : NULL;
    const char *const name = json_string(json_get(json_get(index, "as_sym_int"), "as_name"));
    const char *const at = name ? writer_get(w, name) : NULL, *self, *row;
    const Json *const dim = !at ? NULL : json_get(json_get(&inputs->items[1], "arg"), "as_int");
    Text result = {0};
    *written = at && *at == '%' && dim && dim->is_int;
    if (!*written) return ST_OK;
    TRY(writer_tensor(w, json_get(&inputs->items[0], "arg"), &self));
    TRY(number_line(w, "aten::reshape", at, "[1]", &row));
    TRY(number_line(w, "aten::index_select", self, arena_printf(w->m->arena, "%lld, %s", (long long)dim->i, row),
                    &row));
    const Status status = writer_results(w, outputs, &result);
    text_printf(w->text, "  %saten::squeeze.dim(%s, %lld)", text_str(&result), row, (long long)dim->i);
    writer_attributes(w, w->text);
    text_puts(w->text, "\n");
    text_free(&result);
    return status;
}
