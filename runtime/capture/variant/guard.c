/* guard.c: see guard.h and guard.def.
 *
 * Static guards are pointer compares of interned metadata; where pointers differ, the parts tell
 * which guard failed. Dynamic ones bind the free symbols first, then compare sizes, strides and
 * numbers with their expressions and evaluate the recorded guards. */

#include "runtime/capture/variant/guard.h"

#include <stdlib.h>

#include "runtime/base/small_array.h"
#include "runtime/capture/variant/guards_text.h"
#include "runtime/capture/record/trace_views.h"
#include "runtime/capture/variant/variant_views.h"
#include "runtime/capture/variant/dynamic.h"
#include "runtime/capture/variant/reason_text.h"
#include "runtime/capture/variant/variant.h"

enum { FEW_SYMBOLS = 64 };

static uint32_t disabled;

void guard_disable(uint32_t guards) { disabled = guards; }

const char *guard_name(GuardId guard) {
    static const char *const names[] = {
#define GUARD(name, doc) #name,
#include "runtime/capture/variant/guard.def"
#undef GUARD
    };
    return names[guard];
}

/* Has a test turned the guard off? */
static bool is_off(GuardId guard) { return disabled >> guard & 1; }

typedef struct GuardedInput {
    const Variant *variant;
    const Trace *trace;
    int i;
} GuardedInput;

static bool differ(Text *why, GuardId guard, GuardedInput of, int64_t want, int64_t got) {
    if (is_off(guard)) return true;
    if (!why) return false;
    text_printf(why, "%s of ", guard_name(guard));
    reason_input(why, of.variant, of.trace, of.i);
    text_printf(why, ": %lld, now %lld", (long long)want, (long long)got);
    return false;
}

/* Metadata ------------------------------------------------------------------------------------ */

typedef struct GuardCheck {
    const Variant *variant;
    const Trace *trace;
    const int64_t *symbols;
    Text *why;
} GuardCheck;

static bool expect_number(const GuardCheck *c, int64_t want, int64_t got) {
    return sym_is(want) ? sym_eval(c->variant->symbols.env, want, c->symbols) == got : want == got;
}

static bool same_meta(const GuardCheck *c, const Meta *want, const Meta *got) {
    if ((want->dtype != got->dtype || want->device != got->device) && !is_off(GUARD_dtype)) return false;
    if (want->wrapped != got->wrapped && !is_off(GUARD_wrapped)) return false;
    if (want->rank != got->rank) return is_off(GUARD_rank);
    for (int d = 0; d < want->rank; d++) {
        if (!expect_number(c, want->sizes[d], got->sizes[d]) && !is_off(GUARD_size)) return false;
        if (!expect_number(c, want->strides[d], got->strides[d]) && !is_off(GUARD_stride)) return false;
    }
    return true;
}

static bool other_meta_fits(const GuardCheck *c, int input) {
    const Meta *const want = c->variant->inputs[input].meta, *const got = c->trace->inputs.at[input].meta;
    if (same_meta(c, want, got)) return true;
    if (!c->why) return false;
    reason_input(c->why, c->variant, c->trace, input);
    text_puts(c->why, ": ");
    meta_print(c->variant->symbols.env, c->why, want);
    text_puts(c->why, ", now ");
    meta_print(NULL, c->why, got);
    return false;
}

/* The rest of an input ------------------------------------------------------------------------ */

static inline bool same_flags(const InputGuard *guard, const TraceInput *input) {
    return guard->requires_grad == input->requires_grad && guard->is_leaf == input->is_leaf &&
           guard->inference == input->inference && guard->storage == input->storage_number;
}

bool guard_flags_fit(const Variant *variant, const Trace *trace, int i, Text *why) {
    const InputGuard *const guard = &variant->inputs[i];
    const TraceInput *const input = &trace->inputs.at[i];
    const GuardedInput of = {variant, trace, i};
    if (guard->requires_grad != input->requires_grad &&
        !differ(why, GUARD_requires_grad, of, guard->requires_grad, input->requires_grad))
        return false;
    if (guard->is_leaf != input->is_leaf && !differ(why, GUARD_is_leaf, of, guard->is_leaf, input->is_leaf))
        return false;
    if (guard->inference != input->inference && !differ(why, GUARD_inference, of, guard->inference, input->inference))
        return false;
    if (guard->storage == input->storage_number || is_off(GUARD_aliasing)) return true;
    if (why) reason_aliasing(why, variant, trace, i);
    return false;
}

int64_t trace_alias_offset(const Trace *trace, int input) {
    const TraceInput *const in = &trace->inputs.at[input];
    for (int k = 0; k < input; k++)
        if (trace->inputs.at[k].storage_number == in->storage_number) return in->offset - trace->inputs.at[k].offset;
    return 0;
}

static int compare_places(const void *a, const void *b) {
    const uintptr_t x = (uintptr_t)(*(const Storage *const *)a)->data,
                    y = (uintptr_t)(*(const Storage *const *)b)->data;
    return (x > y) - (x < y);
}

static uintptr_t storage_end(const Storage *s) { return (uintptr_t)s->data + s->bytes; }

bool storages_overlap(const Storage **list, int n) {
    int n_owned = 0;
    for (int i = 0; i < n; i++) n_owned += list[i]->user_owned;
    if (!n_owned) return false;
    qsort(list, (size_t)n, sizeof *list, compare_places);
    const Storage *before = list[0]; /* of those so far the one that reaches furthest */
    for (int i = 1; i < n; i++) {
        const Storage *const s = list[i];
        const bool reached = s != before && s->bytes && (uintptr_t)s->data < storage_end(before);
        if (reached && (s->user_owned || before->user_owned)) return true;
        if (storage_end(s) > storage_end(before)) before = s;
    }
    return false;
}

enum { FEW_STORAGES = 64 };

/* True also where memory is out, which is raised. */
static bool inputs_overlap(const Trace *trace) {
    const Storage *few[FEW_STORAGES], **const list = SMALL_ARRAY(few, trace->inputs.n);
    SMALL_ARRAY_OWNER kept = {few, list};
    int n = 0;
    for (int i = 0; list && i < trace->inputs.n; i++)
        if (trace->inputs.at[i].storage) list[n++] = trace->inputs.at[i].storage;
    return !list || storages_overlap(list, n);
}

static bool offset_fits(const GuardCheck *c, int i) {
    const int64_t want = c->variant->inputs[i].alias_offset;
    const int64_t offset = trace_alias_offset(c->trace, i);
    return want == offset || differ(c->why, GUARD_offset, (GuardedInput){c->variant, c->trace, i}, want, offset);
}

static bool inputs_fit(const GuardCheck *c) {
    const Variant *const v = c->variant;
    for (int i = 0; i < v->n_inputs; i++) {
        const InputGuard *const guard = &v->inputs[i];
        const TraceInput *const input = &c->trace->inputs.at[i];
        if (UNLIKELY(guard->meta != input->meta) && !other_meta_fits(c, i)) return false;
        if (UNLIKELY(!same_flags(guard, input)) && !guard_flags_fit(v, c->trace, i, c->why)) return false;
        if (v->segment.writes && !offset_fits(c, i)) return false;
    }
    if (!v->segment.writes || !inputs_overlap(c->trace) || is_off(GUARD_overlap)) return true;
    if (c->why) text_puts(c->why, "written memory lies in two wrapped blocks");
    return false;
}

/* Numbers and symbols ------------------------------------------------------------------------- */

/* Of a number that an op would refuse, or takes in a way of its own. */
static bool float_fits(const GuardCheck *c, int k, int64_t now) {
    const FloatLimit *const limit =
        float_limits_find(sym_floats(c->variant->symbols.env), c->variant->attributes.at[k]);
    double value;
    memcpy(&value, &now, sizeof value);
    if (!limit || float_limit_holds(limit, value) || is_off(GUARD_limit)) return true;
    if (!c->why) return false;
    reason_number(c->why, c->variant, c->trace, k);
    guard_limit_print(c->why, limit);
    text_puts(c->why, ", now ");
    guard_number_print(c->why, now);
    return false;
}

static bool number_fits(const GuardCheck *c, int k) {
    const Variant *const v = c->variant;
    const int rule = v->attributes.rules ? v->attributes.rules[k] : NUMBER_fixed;
    const int64_t now = c->trace->numbers.at[k];
    if (rule != NUMBER_fixed && v->attributes.guarded[k] && number_is_special(rule == NUMBER_runtime_float, now) &&
        !is_off(GUARD_special)) {
        if (c->why) {
            reason_number(c->why, v, c->trace, k);
            text_puts(c->why, ": any but those with code of their own, now ");
            guard_number_print(c->why, now);
        }
        return false;
    }
    if (rule == NUMBER_runtime_float) return float_fits(c, k, now);
    if (rule == NUMBER_runtime_int) return true;
    if (expect_number(c, v->attributes.at[k], now) || is_off(GUARD_number)) return true;
    if (!c->why) return false;
    reason_number(c->why, v, c->trace, k);
    text_puts(c->why, ": ");
    if (sym_is(v->attributes.at[k]))
        sym_print(v->symbols.env, c->why, v->attributes.at[k]);
    else
        guard_number_print(c->why, v->attributes.at[k]);
    text_puts(c->why, ", now ");
    guard_number_print(c->why, now);
    return false;
}

static bool numbers_fit(const GuardCheck *c) {
    const Variant *const v = c->variant;
    for (int k = 0; k < v->attributes.n; k++) {
        if (!v->attributes.rules && v->attributes.at[k] == c->trace->numbers.at[k]) continue;
        if (!number_fits(c, k)) return false;
    }
    return true;
}

static bool ranges_fit(const GuardCheck *c) {
    const Variant *const v = c->variant;
    for (int i = 0; i < v->symbols.n_bindings; i++) {
        const SymExpr *const s = sym_expr(v->symbols.env, sym_free_at(v->symbols.env, i));
        if (v->symbols.bindings[i].kind >= BIND_seed || c->symbols[i] >= s->b || is_off(GUARD_range)) continue;
        if (!c->why) return false;
        reason_symbol(c->why, v, c->trace, i);
        text_printf(c->why, ": at least %lld, now %lld", (long long)s->b, (long long)c->symbols[i]);
        return false;
    }
    return true;
}

static bool symbols_fit(const GuardCheck *c) {
    const SymEnv *const env = c->variant->symbols.env;
    for (int i = 0; i < sym_guard_count(env); i++) {
        const SymGuard *const guard = sym_guard_at(env, i);
        if (sym_guard_holds(env, guard, c->symbols) || is_off(GUARD_symbol)) continue;
        if (!c->why) return false;
        text_puts(c->why, "guard ");
        reason_relation(c->why, c->variant, c->trace, guard);
        text_printf(c->why, ", now %lld and %lld", (long long)sym_eval(env, guard->a, c->symbols),
                    (long long)sym_eval(env, guard->b, c->symbols));
        return false;
    }
    return true;
}

static uint64_t header_bits(const Variant *v, int64_t a) {
    if (!sym_is(a)) return 0;
    const SymExpr *const e = sym_expr(v->symbols.env, a);
    if (e->op != SYM_free) return header_bits(v, e->a) | header_bits(v, e->b);
    const int header = e->a < v->symbols.n_bindings ? v->symbols.bindings[e->a].header : 0;
    return header ? UINT64_C(1) << min_i64(header - 1, 63) : 0;
}

uint64_t variant_unfit_symbols(const Variant *variant, const Trace *trace) {
    const SymEnv *const env = variant->symbols.env;
    int64_t few[FEW_SYMBOLS], *const symbols = SMALL_ARRAY(few, variant->symbols.n_bindings);
    SMALL_ARRAY_OWNER kept = {few, symbols};
    uint64_t bits = 0;
    if (!symbols || !variant->symbols.n_bindings) return 0;
    variant_bind(variant, trace, symbols);
    for (int i = 0; i < sym_guard_count(env); i++) {
        const SymGuard *const guard = sym_guard_at(env, i);
        if (!sym_guard_holds(env, guard, symbols))
            bits |= header_bits(variant, guard->a) | header_bits(variant, guard->b);
    }
    return bits;
}

/* All ----------------------------------------------------------------------------------------- */

bool guard_outputs_fit(const Variant *variant, const Trace *trace, Text *why) {
    for (int v = 0; v < variant->segment.n_values; v++)
        if (((trace->marks[v] & VALUE_output && !variant->segment.provides[v]) ||
             (trace->views && trace_lacks_view(trace, variant, v))) &&
            !is_off(GUARD_output)) {
            if (why) reason_value(why, trace, v), text_puts(why, " is needed now");
            return false;
        }
    return true;
}

bool variant_fits(const Variant *variant, const Trace *trace, Text *why) {
    if (variant->epoch != atomic_load_explicit(&dispatch_epoch, memory_order_relaxed) && !is_off(GUARD_epoch)) {
        if (why) text_puts(why, "the dispatch table was changed");
        return false;
    }
    int64_t few[FEW_SYMBOLS], *const symbols = SMALL_ARRAY(few, variant->symbols.n_bindings);
    SMALL_ARRAY_OWNER kept = {few, symbols};
    if (!symbols) return false;
    if (variant->symbols.n_bindings) variant_bind(variant, trace, symbols);
    const GuardCheck check = {variant, trace, symbols, why};
    return inputs_fit(&check) && numbers_fit(&check) &&
           (!variant->symbols.n_bindings || (ranges_fit(&check) && symbols_fit(&check))) &&
           guard_outputs_fit(variant, trace, why);
}
