/* reason_text.c: see reason_text.h. */
#include "runtime/capture/variant/reason_text.h"

#include "runtime/capture/record/capture.h"
#include "runtime/core/site.h"
#include "runtime/capture/variant/guards_text.h"
#include "runtime/core/tensor_names.h"

static void print_op(Text *why, const TracedOp *step) {
    char where[256];
    site_name(step->site, where, sizeof where);
    text_printf(why, "%s at %s", trace_op_name(step->op), where);
}

static const TracedOp *first_user(const Trace *trace, int input) {
    for (int o = 0; o < trace->ops.n; o++)
        for (int k = 0; k < trace->ops.at[o].op->n_operands; k++)
            if (trace->ops.at[o].op->operands[k] == -1 - input) return &trace->ops.at[o];
    return NULL;
}

static void print_closed_over(Text *why, const Trace *trace, int i) {
    char name[128];
    const TracedOp *const user = first_user(trace, i);
    text_puts(why, "closed over");
    if (tensor_name(trace->inputs.at[i].tensor, name, sizeof name)) {
        text_printf(why, ": %s", name);
    } else if (user) {
        text_puts(why, " by ");
        print_op(why, user);
    }
}

void reason_value(Text *why, const Trace *trace, int value) {
    if (value >= trace->places.n) { /* a call without a body */
        text_puts(why, "another result");
        return;
    }
    text_puts(why, "the result of ");
    print_op(why, &trace->ops.at[trace->places.at[value].op]);
}

void reason_input(Text *why, const Variant *variant, const Trace *trace, int i) {
    const InputName name = trace->capture ? input_name(trace, i) : variant->inputs[i].name;
    const TraceInput *const in = &trace->inputs.at[i];
    if (trace->capture && name.kind == INPUT_closed_over)
        print_closed_over(why, trace, i);
    else if (trace->capture && name.kind == INPUT_earlier)
        reason_value(why, in->maker, in->maker_value);
    else
        input_name_print(why, name);
}

static void print_shared(Text *why, const Variant *variant, const Trace *trace, int with) {
    text_puts(why, with < 0 ? "memory of its own" : "the memory of ");
    if (with >= 0) reason_input(why, variant, trace, with);
}

void reason_aliasing(Text *why, const Variant *variant, const Trace *trace, int i) {
    int before = i, now = i;
    while (--before >= 0 && variant->inputs[before].storage != variant->inputs[i].storage) {}
    while (--now >= 0 && trace->inputs.at[now].storage_number != trace->inputs.at[i].storage_number) {}
    reason_input(why, variant, trace, i);
    text_puts(why, ": ");
    print_shared(why, variant, trace, before);
    text_puts(why, ", now ");
    print_shared(why, variant, trace, now);
}

void reason_number(Text *why, const Variant *variant, const Trace *trace, int k) {
    int o = 0;
    while (o < trace->ops.n && k >= trace->ops.at[o].op->first_number + trace->ops.at[o].op->n_numbers) o++;
    if (!trace->capture || o == trace->ops.n) { /* a call without a body has no lines */
        text_puts(why, variant->origin.number_names[k]);
        return;
    }
    const NumberParam place = trace_number_param(trace->ops.at[o].op, k);
    print_op(why, &trace->ops.at[o]);
    text_printf(why, ", %s", place.param->name);
    if (place.item >= 0) text_printf(why, "[%d]", place.item);
}

void reason_symbol(Text *why, const Variant *variant, const Trace *trace, int i) {
    const SymBinding *const b = &variant->symbols.bindings[i];
    if (b->kind == BIND_number) {
        reason_number(why, variant, trace, b->input);
    } else if (b->kind <= BIND_stride) {
        text_printf(why, "%s %d of ", b->kind == BIND_size ? "size" : "stride", b->dim);
        reason_input(why, variant, trace, b->input);
    } else {
        text_puts(why, b->kind == BIND_unused ? "no size" : "the generator");
    }
}

static bool depends_on(const SymEnv *env, int64_t a, int64_t symbol) {
    if (a == symbol || !sym_is(a)) return a == symbol;
    const SymExpr *const e = sym_expr(env, a);
    return e->op != SYM_free && (depends_on(env, e->a, symbol) || depends_on(env, e->b, symbol));
}

void reason_relation(Text *why, const Variant *variant, const Trace *trace, const SymGuard *relation) {
    const SymEnv *const env = variant->symbols.env;
    const char *between = " (";
    guard_relation_print(variant->symbols.env, why, relation);
    for (int i = 0; i < variant->symbols.n_bindings; i++) {
        const int64_t symbol = sym_free_at(env, i);
        if (!depends_on(env, relation->a, symbol) && !depends_on(env, relation->b, symbol)) continue;
        text_printf(why, "%ss%d: ", between, i);
        reason_symbol(why, variant, trace, i);
        between = ", ";
    }
    if (between[0] == ',') text_puts(why, ")");
}
