/* explain_json.c: explain as one JSON object. The keys are stable: new ones may come, none goes
 * (listed by `sinter help explain`: frontend/tool/notes.def). */
#include "runtime/base/alloc.h"
#include "runtime/capture/function/explain.h"
#include "runtime/capture/training/training.h"
#include "runtime/capture/replay/replay.h"
#include "runtime/core/site.h"

static double ms(int64_t ns) { return (double)ns * 1e-6; }

static void print_key(Text *text, const char *key, const char *value) {
    text_printf(text, "\"%s\": ", key);
    text_json_string(text, value);
}

static void print_number(Text *text, const char *key, int64_t value) {
    text_printf(text, ", \"%s\": %lld", key, (long long)value);
}

static void print_ms(Text *text, const char *key, int64_t ns) { text_printf(text, ", \"%s\": %.4f", key, ms(ns)); }

/* What was fused, or not, of all parts: "forward: mm (%2) with sum (%3): no loop program; 64 bytes would be saved". */
static void print_merges(const Variant *v, bool refused, Text *text) {
    bool first = true;
    Text line = {0}, one = {0};
    text_puts(text, "[");
    for (int p = 0; p < v->info.n_plans; p++)
        for (int i = 0; plan_merge_next(v->info.plans[p], refused, &i, &line);) {
            one.n = 0;
            text_printf(&one, "%s: %s", plan_part_stage(v, p), text_str(&line));
            text_puts(text, first ? "" : ", ");
            text_json_string(text, text_str(&one));
            first = false;
        }
    text_puts(text, "]");
    text_free(&line);
    text_free(&one);
}

static void kernel_json(const Plan *plan, int at, Text *text) {
    const Step *const step = &plan->steps.at[at];
    text_puts(text, "{");
    print_key(text, "name", step_name(step));
    text_printf(text, ", \"kind\": \"%s\", \"ops\": [",
                step->kind == STEP_copy     ? "copy"
                : step->kind == STEP_native ? "native"
                : step->kind == STEP_eager  ? "eager"
                : step->kernel->template    ? step->kernel->template->row->name
                                            : "loops");
    for (int i = 0; i < step->n_ops; i++) {
        const OpRow *const row = plan_step_op(plan, step, i);
        text_puts(text, i ? ", " : "");
        text_json_string(text, row ? row->name : "?");
    }
    text_puts(text, "]");
    print_number(text, "bytes", plan_step_bytes(plan, step));
    char *const remark = plan_step_remark(plan, at);
    if (remark) text_puts(text, ", "), print_key(text, "remark", remark);
    mem_free(remark);
    text_puts(text, "}");
}

static void part_json(const Variant *v, int i, Text *text) {
    const Plan *const plan = v->info.plans[i];
    text_puts(text, "{");
    print_key(text, "part", plan_part_name(v, i));
    text_puts(text, ", \"kernels\": [");
    for (int k = 0; k < plan->steps.n; k++) {
        text_puts(text, k ? ", " : "");
        kernel_json(plan, k, text);
    }
    text_puts(text, "]");
    print_number(text, "moved_bytes", plan_moved_bytes(plan));
    print_number(text, "saved_bytes", plan->saved_bytes);
    print_number(text, "arena_bytes", plan_arena_bytes(plan));
    if (plan->n_again) {
        print_number(text, "recomputed_ops", plan->n_again);
        print_number(text, "recomputed_bytes", plan->again_bytes);
    }
    if (v->request.fast) print_number(text, "fast_kernels", plan_fast_steps(plan));
    RepeatReport report;
    if (plan_part_repeats(v, i, &report)) {
        print_number(text, "graph_launches", report.launches);
        text_puts(text, ", ");
        print_key(text, "not_one_launch", report.why);
    }
    text_puts(text, "}");
}

static void saved_json(const Variant *v, Text *text) {
    SavedValue saved;
    text_puts(text, ", \"saved_tensors\": [");
    for (int i = 0; training_saved_at(v, i, &saved); i++) {
        Text type = {0};
        meta_print(saved.env, &type, saved.meta);
        text_puts(text, i ? ", {" : "{");
        print_key(text, saved.name ? "input" : "op", saved.name ? saved.name : saved.op->name);
        text_puts(text, ", ");
        print_key(text, "type", text_str(&type));
        print_number(text, "bytes", meta_hint_bytes(saved.env, saved.meta));
        text_puts(text, "}");
        text_free(&type);
    }
    text_puts(text, "]");
}

static void times_json(const Variant *v, Text *text) {
    const CompileReport *const info = &v->info;
    print_ms(text, "trace_ms", v->origin.trace_ns);
    print_ms(text, "passes_ms", info->passes_ns);
    print_ms(text, "lower_ms", info->lower_ns);
    print_ms(text, "codegen_ms", info->codegen_ns);
    print_ms(text, "codegen_build_ms", info->build_ns);
    print_ms(text, "codegen_optimise_ms", info->optimise_ns);
    print_ms(text, "codegen_emit_ms", info->emit_ns);
    print_ms(text, "load_ms", info->load_ns);
    text_puts(text, ", \"passes\": [");
    for (int i = 0; i < info->n_pass_times; i++) {
        text_puts(text, i ? ", {" : "{");
        print_key(text, "name", info->pass_times[i].name);
        print_ms(text, "ms", info->pass_times[i].ns);
        text_puts(text, "}");
    }
    text_puts(text, "]");
}

static void graph_json(const Variant *v, Text *text) {
    const CompileReport *const info = &v->info;
    int kernels;
    const int keys = training_signatures(v, &kernels);
    text_printf(text, "{\"id\": %d, \"ops\": %d, \"kernels\": %d, \"dynamic\": %s, \"interpreted\": %s", v->id,
                v->segment.n_ops, info->kernels, v->symbols.dynamic ? "true" : "false",
                info->interpreted ? "true" : "false");
    text_printf(text, ", \"other_keys\": {\"n\": %d, \"kernels\": %d}", keys, kernels);
    text_puts(text, ", ");
    print_key(text, "extensions", info->extensions);
    text_puts(text, ", ");
    print_key(text, "back_end", v->request.backend ? v->request.backend->name : "generated");
    text_puts(text, ", ");
    print_key(text, "stages", v->origin.stage_folder ? v->origin.stage_folder : "");
    text_printf(text, ", \"waits\": %s", variant_waits(v) ? "true" : "false");
    print_number(text, "hits", atomic_load(&v->hits));
    print_number(text, "nests", info->nests);
    print_number(text, "generated", info->generated);
    print_number(text, "loaded", info->loaded);
    print_number(text, "reused", info->reused);
    print_number(text, "arena_bytes", variant_arena_bytes(v));
    times_json(v, text);
    text_puts(text, ", ");
    print_key(text, "reason", info->reason);
    text_puts(text, ", \"parts\": [");
    for (int i = 0; i < info->n_plans; i++) {
        text_puts(text, i ? ", " : "");
        part_json(v, i, text);
    }
    text_puts(text, "]");
    saved_json(v, text);
    text_puts(text, ", \"not_fused\": ");
    print_merges(v, true, text);
    text_puts(text, ", \"fused\": ");
    print_merges(v, false, text);
    text_puts(text, ", \"guards\": ");
    Text guards = {0};
    guards_print(v, &guards);
    text_json_string(text, text_str(&guards));
    text_free(&guards);
    text_puts(text, "}");
}

static void print_code(Text *text, BreakId id) {
    text_puts(text, ", ");
    print_key(text, "code", break_code(id).text);
}

static void breaks_json(const sn_function *fn, Text *text) {
    text_puts(text, "\"breaks\": [");
    for (int i = 0; i < fn->breaks.n; i++) {
        char where[256];
        int64_t count;
        if (!explain_break(fn, i, where, sizeof where, &count)) continue;
        text_puts(text, i ? ", {" : "{");
        print_key(text, "where", where);
        text_puts(text, ", ");
        print_key(text, "reason", fn->breaks.at[i].reason);
        print_code(text, fn->breaks.at[i].id);
        print_number(text, "count", count);
        text_puts(text, "}");
    }
    text_puts(text, "], \"recompiles\": [");
    for (int i = 0; i < fn->recompiles.n; i++) {
        text_puts(text, i ? ", " : "");
        text_json_string(text, fn->recompiles.at[i].text);
    }
    text_puts(text, "], \"failures\": [");
    for (int i = 0; i < fn->failures.n; i++) {
        text_puts(text, i ? ", {" : "{");
        print_key(text, "code", bail_name(fn->failures.at[i].code));
        text_puts(text, ", ");
        print_key(text, "reason", fn->failures.at[i].text);
        text_puts(text, "}");
    }
    text_puts(text, "], \"fallbacks\": [");
    for (int i = 0; i < fn->fallbacks.n; i++) {
        text_puts(text, i ? ", {" : "{");
        print_key(text, "reason", fn->fallbacks.at[i].reason);
        print_code(text, break_find(fn->fallbacks.at[i].reason));
        print_number(text, "ops", fn->fallbacks.at[i].ops);
        print_number(text, "calls", fn->fallbacks.at[i].calls);
        text_puts(text, "}");
    }
    text_puts(text, "]");
}

void explain_json(sn_function *fn, Text *text) {
    pthread_mutex_lock(&fn->lock);
    sn_stats stats = fn->stats, *const s = &stats;
    replay_count(fn, s);
    text_puts(text, "{");
    print_key(text, "name", fn->name);
    print_number(text, "calls", s->calls);
    print_number(text, "compiles", s->compiles);
    print_number(text, "recompiles_count", s->recompiles);
    print_number(text, "limit_hits", fn->limit_hits);
    text_printf(text, ", \"compiled_share\": %.4f", explain_share(s));
    print_number(text, "ops_generated", s->ops_generated);
    print_number(text, "ops_interpreted", s->ops_interpreted);
    print_number(text, "ops_eager", s->ops_eager);
    print_number(text, "ops_waiting", s->ops_waiting);
    text_puts(text, ", \"graphs\": [");
    for (int i = 0; i < fn->variants.n; i++) {
        text_puts(text, i ? ", " : "");
        graph_json(fn->variants.at[i], text);
    }
    text_puts(text, "], ");
    breaks_json(fn, text);
    text_puts(text, "}");
    pthread_mutex_unlock(&fn->lock);
}
