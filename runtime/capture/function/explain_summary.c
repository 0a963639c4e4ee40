/* explain_summary.c: the ten lines that an explained function begins with: what ran where, what its graphs come to, and
 * the first of each thing that stands below. There are always ten, so that a reader knows where to look. */
#include "runtime/capture/function/explain_summary.h"

#include "runtime/capture/replay/replay.h"
#include "runtime/capture/training/training.h"
#include "runtime/core/breaks.h"

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* Over all graphs. */
typedef struct GraphSums {
    int64_t nodes, alone, interpreted, symbolic; /* ops of graphs; of them those that eager runs; graphs */
    int64_t loops, products, native, copies;     /* steps of call sequences */
    int64_t nests, generated, reused, loaded;
    int64_t moved, saved_by_fusion, arena, saved; /* bytes */
    int64_t trace_ns, passes_ns, codegen_ns, load_ns;
    const Step *largest;
    int64_t largest_bytes;
} GraphSums;

static void add_step(GraphSums *sums, const Plan *plan, const Step *step) {
    const int64_t bytes = plan_step_bytes(plan, step);
    sums->copies += step->kind == STEP_copy;
    sums->native += step->kind == STEP_native;
    sums->products += step->kind == STEP_kernel && step->kernel->template;
    sums->loops += step->kind == STEP_kernel && !step->kernel->template;
    if (bytes <= sums->largest_bytes) return;
    sums->largest = step;
    sums->largest_bytes = bytes;
}

static void add_plan(GraphSums *sums, const Plan *plan) {
    for (int i = 0; i < plan->steps.n; i++) add_step(sums, plan, &plan->steps.at[i]);
    sums->moved += plan_moved_bytes(plan);
    sums->saved_by_fusion += plan->saved_bytes;
}

static void add_saved(GraphSums *sums, const Variant *v) {
    SavedValue saved;
    for (int i = 0; training_saved_at(v, i, &saved); i++) sums->saved += meta_hint_bytes(saved.env, saved.meta);
}

static void add_graph(GraphSums *sums, const Variant *v) {
    const CompileReport *const info = &v->info;
    sums->nodes += v->segment.n_ops;
    sums->alone += variant_code(v) ? info->alone : v->segment.n_ops;
    sums->interpreted += info->interpreted;
    sums->symbolic += v->symbols.dynamic;
    sums->nests += info->nests, sums->generated += info->generated;
    sums->reused += info->reused, sums->loaded += info->loaded;
    sums->arena = max_i64(sums->arena, variant_arena_bytes(v));
    sums->trace_ns += v->origin.trace_ns, sums->passes_ns += info->passes_ns + info->lower_ns;
    sums->codegen_ns += info->codegen_ns, sums->load_ns += info->load_ns;
    for (int i = 0; i < info->n_plans; i++) add_plan(sums, info->plans[i]);
    add_saved(sums, v);
}

static double in_ms(int64_t ns) { return (double)ns * 1e-6; }

static void graphs_lines(const GraphSums *s, Text *text) {
    text_printf(text,
                "nodes of the graphs: %lld, %lld compiled, %lld run by themselves; symbolic sizes in %lld graph%s\n",
                (long long)s->nodes, (long long)(s->nodes - s->alone), (long long)s->alone, (long long)s->symbolic,
                plural(s->symbolic));
    text_printf(text, "kernels: %lld of loops, %lld product%s, %lld native, %lld cop%s; interpreted in %lld graph%s\n",
                (long long)s->loops, (long long)s->products, plural(s->products), (long long)s->native,
                (long long)s->copies, s->copies == 1 ? "y" : "ies", (long long)s->interpreted, plural(s->interpreted));
    text_printf(text,
                "bytes of a run of each graph: %lld moved, %lld saved by fusion, arena %lld, kept for backward %lld\n",
                (long long)s->moved, (long long)s->saved_by_fusion, (long long)s->arena, (long long)s->saved);
    text_printf(text, "ms to compile: %.3f: trace %.3f, passes %.3f, codegen %.3f, load %.3f\n",
                in_ms(s->trace_ns + s->passes_ns + s->codegen_ns + s->load_ns), in_ms(s->trace_ns), in_ms(s->passes_ns),
                in_ms(s->codegen_ns), in_ms(s->load_ns));
    text_printf(text, "loop nests: %lld, %lld generated, %lld had code already, %lld taken from the disk\n",
                (long long)s->nests, (long long)s->generated, (long long)s->reused, (long long)s->loaded);
    if (s->largest)
        text_printf(text, "largest step: %s, %lld bytes\n", step_name(s->largest), (long long)s->largest_bytes);
    else
        text_puts(text, "largest step: none\n");
}

static void first_break(const sn_function *fn, Text *text) {
    char where[256];
    int64_t count;
    if (!fn->breaks.n || !explain_break(fn, 0, where, sizeof where, &count)) {
        text_puts(text, "first break: none\n");
        return;
    }
    text_printf(text, "first break: %s: %s\n", where, fn->breaks.at[0].reason);
}

/* What kept most ops, or whole calls, from compiled code. */
static void first_fallback(const sn_function *fn, Text *text) {
    const FallbackRow *most = NULL;
    for (int i = 0; i < fn->fallbacks.n; i++) {
        const FallbackRow *const row = &fn->fallbacks.at[i];
        if (!most || row->ops + row->calls > most->ops + most->calls) most = row;
    }
    if (fn->failures.n)
        text_printf(text, "why not compiled: %s: %s\n", bail_name(fn->failures.at[0].code), fn->failures.at[0].text);
    else
        text_printf(text, "why not compiled: %s\n", most ? most->reason : "nothing was not");
}

void explain_summary(const sn_function *fn, const sn_stats *s, Text *text) {
    GraphSums sums = {0};
    const int breaks = explain_breaks(fn);
    for (int i = 0; i < fn->variants.n; i++) add_graph(&sums, fn->variants.at[i]);
    text_printf(text,
                "%s: %lld call%s, %d graph%s, %lld compile%s, %lld recompile%s, %d break%s, compiled share %.4f\n"
                "ops after the first call: %lld compiled, %lld interpreted, %lld eager%s\n",
                fn->name, (long long)s->calls, plural(s->calls), fn->variants.n, plural(fn->variants.n),
                (long long)s->compiles, plural(s->compiles), (long long)s->recompiles, plural(s->recompiles), breaks,
                plural(breaks), explain_share(s), (long long)s->ops_generated, (long long)s->ops_interpreted,
                (long long)s->ops_eager, s->ops_waiting ? ", others waited for code" : "");
    graphs_lines(&sums, text);
    first_break(fn, text);
    first_fallback(fn, text);
}
