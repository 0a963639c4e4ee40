/* explain_log.c: what the log topics graph, guards, aot_graphs, fusion and output_code say when a
 * variant was compiled: one log line per line of text. Nothing is made for topics that are off. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/capture/function/captured_graph.h"
#include "runtime/capture/function/explain.h"
#include "runtime/capture/training/training.h"

static void log_lines(LogTopic topic, const sn_function *fn, int id, const char *lines) {
    while (*lines) {
        const size_t n = strcspn(lines, "\n");
        log_line(topic, LOG_INFO, "%s graph %d: %.*s", fn->name, id, (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

static void log_text(LogTopic topic, const sn_function *fn, const Variant *v, Text *text) {
    log_lines(topic, fn, v->id, text_str(text));
    text_free(text);
}

static void log_fusion(const sn_function *fn, const Variant *v) {
    Text text = {0};
    for (int i = 0; i < v->info.n_plans; i++) {
        const Plan *const plan = v->info.plans[i];
        for (int k = 0; k < plan->steps.n; k++) {
            const Step *const step = &plan->steps.at[k];
            text_printf(&text, "%s fuses", step_name(step));
            for (int o = 0; o < step->n_ops; o++) {
                const OpRow *const row = plan_step_op(plan, step, o);
                text_printf(&text, "%s %s", o ? "," : "", row ? row->name : "?");
            }
            text_puts(&text, "\n");
        }
        text_printf(&text, "%s: %d kernels, %lld bytes moved, %lld saved\n", plan_part_name(v, i), plan->steps.n,
                    (long long)plan_moved_bytes(plan), (long long)plan->saved_bytes);
        Text line = {0};
        for (int k = 0; plan_merge_next(plan, true, &k, &line);)
            text_printf(&text, "not fused in stage %s: %s\n", plan_part_stage(v, i), text_str(&line));
        text_free(&line);
    }
    log_text(LOG_fusion, fn, v, &text);
}

static void log_aot_graphs(const sn_function *fn, const Variant *v) {
    Text text = {0};
    if (v->training) {
        static const DumpId parts[] = {DUMP_forward, DUMP_backward};
        training_print_joint(v, &text);
        for (int i = 0; i < COUNT_OF(parts); i++) {
            const Dump part = dump_of(parts[i]);
            explain_variant(v, &part, &text);
        }
    } else if (v->info.graph) {
        graph_print(v->info.graph, &text);
    }
    log_text(LOG_aot_graphs, fn, v, &text);
}

static void log_code(const sn_function *fn, const Variant *v) {
    Text text = {0};
    const Dump llvm = dump_of(DUMP_llvm);
    for (int i = 0; i < v->info.n_plans; i++) compile_dump_plan(v->info.plans[i], &llvm, &text);
    log_text(LOG_output_code, fn, v, &text);
}

static void log_ready(const sn_function *fn, const Variant *v) {
    if (log_on(LOG_graph, LOG_INFO)) {
        Text text = {0};
        captured_text(v, &(Dump){.id = DUMP_capture}, &text);
        log_text(LOG_graph, fn, v, &text);
    }
    if (log_on(LOG_guards, LOG_INFO)) {
        Text guards = {0};
        guards_print(v, &guards);
        log_text(LOG_guards, fn, v, &guards);
    }
    if (log_on(LOG_aot_graphs, LOG_INFO)) log_aot_graphs(fn, v);
    if (log_on(LOG_fusion, LOG_INFO)) log_fusion(fn, v);
    if (log_on(LOG_output_code, LOG_INFO)) log_code(fn, v);
}

const VariantWatcher explain_watcher = {.ready = log_ready};
