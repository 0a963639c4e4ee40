/* explain.c: see explain.h: what both forms share, and the text. Everything printed comes from the
 * function's own tables, under its lock; bytes of symbolic sizes are those of the sizes that the
 * graph was captured with. */
#include "runtime/capture/function/explain.h"

#include "runtime/base/alloc.h"
#include "runtime/capture/function/captured_graph.h"
#include "runtime/capture/function/explain_summary.h"
#include "runtime/capture/training/training.h"
#include "runtime/capture/replay/replay.h"
#include "runtime/core/site.h"
#include "runtime/core/breaks.h"

static double ms(int64_t ns) { return (double)ns * 1e-6; }

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

double explain_share(const sn_stats *s) {
    const int64_t all = s->ops_generated + s->ops_interpreted + s->ops_eager;
    return all ? (double)s->ops_generated / (double)all : 0.0;
}

/* Plans --------------------------------------------------------------------------------------- */

static int64_t native_bytes(const Plan *plan, const Step *step) {
    int64_t bytes = 0;
    for (int i = 0; i < step_args(step); i++) {
        const Arg *const a = &step->args[i];
        if (a->kind == ARG_tensor && a->val) bytes += meta_hint_bytes(plan->env, a->val->meta);
        for (int k = 0; a->kind == ARG_tensors && k < a->n; k++)
            if (a->vals[k]) bytes += meta_hint_bytes(plan->env, a->vals[k]->meta);
    }
    for (int i = 0; i < step_outs(step); i++) bytes += meta_hint_bytes(plan->env, step->outs[i]->base.meta);
    return bytes;
}

int64_t plan_step_bytes(const Plan *plan, const Step *step) {
    if (step->kind != STEP_kernel) return native_bytes(plan, step);
    int64_t bytes = 0;
    for (int i = 0; i < step->kernel->n_bufs; i++) {
        const int times = step->kernel->bufs[i].role == BUF_inout ? 2 : 1;
        if (step->bufs[i] >= 0) bytes += times * meta_hint_bytes(plan->env, plan->slots.at[step->bufs[i]].meta);
    }
    return bytes;
}

int64_t plan_moved_bytes(const Plan *plan) {
    int64_t bytes = 0;
    for (int i = 0; i < plan->steps.n; i++) bytes += plan_step_bytes(plan, &plan->steps.at[i]);
    return bytes;
}

int64_t plan_arena_bytes(const Plan *plan) {
    int64_t bytes = 0;
    for (int i = 0; i < plan->arenas.n; i++)
        bytes += plan->by_step ? plan->arenas.at[i].most : sym_hint(plan->env, plan->arenas.at[i].bytes);
    return bytes;
}

static bool step_remark(const Step *step, Text *text) {
    const DeviceRow *const row = step->kind == STEP_kernel ? device_row(step->device) : NULL;
    return row && row->remark && row->remark(step->kernel, text);
}

/* Steps of one kind are remarked on alike. */
char *plan_step_remark(const Plan *plan, int i) {
    Text text = {0}, before = {0};
    bool says = step_remark(&plan->steps.at[i], &text);
    for (int k = 0; k < i && says; k++) {
        before.n = 0;
        says = !step_remark(&plan->steps.at[k], &before) || strcmp(text_str(&before), text_str(&text)) != 0;
    }
    text_free(&before);
    if (says) return text.at;
    text_free(&text);
    return NULL;
}

const OpRow *plan_step_op(const Plan *plan, const Step *step, int i) {
    const PlanOp *const op = plan_op(plan, step->ops[i]);
    return op ? op->row : NULL;
}

const char *plan_part_name(const Variant *v, int i) {
    return v->info.n_plans < 2 ? "graph" : i ? "backward" : "forward";
}

const char *plan_part_stage(const Variant *v, int i) {
    return v->info.n_plans < 2 ? dump_row(DUMP_fused)->name : plan_part_name(v, i);
}

/* The same pair is tried again when its neighbours have changed. */
static bool is_said(const Plan *plan, int i) {
    const PlanMerge *const merge = &plan->merges[i];
    for (int k = i - 1; k >= 0 && k > i - 16; k--) {
        const PlanMerge *const before = &plan->merges[k];
        if (before->from_id == merge->from_id && before->to_id == merge->to_id && before->bytes == merge->bytes &&
            before->why == merge->why)
            return true;
    }
    return false;
}

bool plan_merge_next(const Plan *plan, bool refused, int *i, Text *line) {
    line->n = 0;
    for (; *i < plan->n_merges; ++*i) {
        if ((plan->merges[*i].why != NULL) != refused || is_said(plan, *i)) continue;
        plan_merge_print(&plan->merges[(*i)++], line);
        return true;
    }
    return false;
}

int64_t variant_arena_bytes(const Variant *v) {
    int64_t most = 0;
    for (int i = 0; i < v->info.n_plans; i++) {
        const Plan *const plan = v->info.plans[i];
        most = max_i64(most, plan_arena_bytes(plan));
    }
    return most;
}

/* Text ---------------------------------------------------------------------------------------- */

static void print_indented(Text *text, const char *indent, const char *lines) {
    while (*lines) {
        const size_t n = strcspn(lines, "\n");
        text_printf(text, "%s%.*s\n", indent, (int)n, lines);
        lines += n + (lines[n] == '\n');
    }
}

static void step_text(const Plan *plan, int i, Text *text) {
    const Step *const step = &plan->steps.at[i];
    text_printf(text, "    %s: ", step_name(step));
    for (int k = 0; k < step->n_ops; k++) {
        const OpRow *const row = plan_step_op(plan, step, k);
        text_printf(text, "%s%s", k ? ", " : "", row ? row->name : "?");
    }
    text_printf(text, "%s%lld bytes\n", step->n_ops ? "; " : "a copy; ", (long long)plan_step_bytes(plan, step));
    if (step->kind == STEP_eager) text_printf(text, "      runs by itself, as in eager: %s\n", step->why);
    char *const remark = plan_step_remark(plan, i);
    if (remark) text_printf(text, "      %s\n", remark);
    mem_free(remark);
}

bool plan_part_repeats(const Variant *v, int part, RepeatReport *out) {
    return executable_repeats(part ? training_backward(v) : variant_code(v), out);
}

static void repeat_text(const Variant *v, int part, Text *text) {
    RepeatReport report;
    if (!plan_part_repeats(v, part, &report)) return;
    if (report.why[0])
        text_printf(text, "    preset reduce-overhead changes nothing: %s\n", report.why);
    else
        text_printf(text, "    one launch a call, %s: %lld time%s\n",
                    report.of_host ? "in memory that stays" : "of a recorded graph", (long long)report.launches,
                    plural(report.launches));
}

static void plan_text(const Variant *v, int part, Text *text) {
    const Plan *const plan = v->info.plans[part];
    text_printf(text, "  kernels of %s:\n", v->info.n_plans < 2 ? "the graph" : plan_part_name(v, part));
    for (int i = 0; i < plan->steps.n; i++) step_text(plan, i, text);
    text_printf(text, "    %lld bytes moved, %lld saved by fusion, arena %lld\n", (long long)plan_moved_bytes(plan),
                (long long)plan->saved_bytes, (long long)plan_arena_bytes(plan));
    if (plan->n_again)
        text_printf(text, "    %d op%s computed again for a backward: %lld bytes that are not saved\n", plan->n_again,
                    plural(plan->n_again), (long long)plan->again_bytes);
    repeat_text(v, part, text);
}

static void saved_text(const Variant *v, Text *text) {
    SavedValue saved;
    int n = 0;
    int64_t all = 0;
    for (; training_saved_at(v, n, &saved); n++) {
        const int64_t bytes = meta_hint_bytes(saved.env, saved.meta);
        if (!n) text_puts(text, "  saved for backward:\n");
        text_printf(text, "    %s%s ", saved.name ? "%" : "result of ", saved.name ? saved.name : saved.op->name);
        meta_print(saved.env, text, saved.meta);
        text_printf(text, ", %lld bytes\n", (long long)bytes);
        all += bytes;
    }
    if (n) text_printf(text, "    %d tensor%s, %lld bytes\n", n, plural(n), (long long)all);
    int kernels;
    const int keys = training_signatures(v, &kernels);
    if (keys)
        text_printf(text, "  backward compiled for %d other key%s: %d kernel%s\n", keys, plural(keys), kernels,
                    plural(kernels));
    const char *why;
    for (int i = 0; (why = training_signatures_refused(v, i, &n)); i++)
        text_printf(text, "  backward runs as eager's nodes for %d other key%s: %s\n", n, plural(n), why);
}

static void merges_text(const Variant *v, int part, bool refused, Text *text) {
    const Plan *const plan = v->info.plans[part];
    Text line = {0};
    for (int i = 0, n = 0; plan_merge_next(plan, refused, &i, &line); n++) {
        if (!n)
            text_printf(text, "  %sfused in %s%s, by the numbers of stage %s:\n", refused ? "not " : "",
                        v->info.n_plans < 2 ? "the " : "", plan_part_name(v, part), plan_part_stage(v, part));
        text_printf(text, "    %s\n", text_str(&line));
    }
    text_free(&line);
}

static void times_text(const Variant *v, Text *text) {
    const CompileReport *const info = &v->info;
    text_printf(text, "  ms: trace %.3f, passes %.3f, lower %.3f (", ms(v->origin.trace_ns), ms(info->passes_ns),
                ms(info->lower_ns));
    for (int i = 0; i < info->n_pass_times; i++)
        text_printf(text, "%s%s %.3f", i ? ", " : "", info->pass_times[i].name, ms(info->pass_times[i].ns));
    text_printf(text, "), codegen %.3f (build %.3f, optimise %.3f, emit %.3f), load %.3f\n", ms(info->codegen_ns),
                ms(info->build_ns), ms(info->optimise_ns), ms(info->emit_ns), ms(info->load_ns));
    text_printf(text, "  %d loop nest%s: %d generated, %d had code already", info->nests, plural(info->nests),
                info->generated, info->reused);
    if (info->loaded) text_printf(text, ", %d taken from the disk", info->loaded);
    text_puts(text, "\n");
}

int plan_fast_steps(const Plan *plan) {
    int n = 0;
    for (int i = 0; i < plan->steps.n; i++) {
        const Kernel *const kernel = plan->steps.at[i].kernel;
        n += kernel && kernel->template && kernel->template->fast;
    }
    return n;
}

/* [numerics fast] */
static void fast_text(const CompileReport *info, Text *text) {
    int n = 0;
    for (int i = 0; i < info->n_plans; i++) n += plan_fast_steps(info->plans[i]);
    if (n)
        text_printf(text, "  numerics fast: %d kernel%s may round otherwise than eager\n", n, plural(n));
    else
        text_puts(text, "  numerics fast changes nothing: all kernels of this graph are exact, as on cpu all are\n");
}

static void backend_text(const Variant *v, Text *text) {
    const Backend *const row = v->request.backend;
    if (!row) return;
    text_printf(text, "  backend %s", row->name);
    if (v->info.codes) text_printf(text, ", version %s: its bits are its own", row->version ? row->version : "none");
    text_puts(text, "\n");
    backend_print_failures(&v->info, text);
}

static void graph_text(const Variant *v, Text *text) {
    const CompileReport *const info = &v->info;
    text_printf(text, "graph %d: %d op%s, %d kernel%s%s%s, hit %lld time%s\n", v->id, v->segment.n_ops,
                plural(v->segment.n_ops), info->kernels, plural(info->kernels),
                v->symbols.dynamic ? ", symbolic sizes" : "", info->interpreted ? ", interpreted" : "",
                (long long)atomic_load(&v->hits), plural(atomic_load(&v->hits)));
    if (v->origin.stage_folder) text_printf(text, "  stages in %s\n", v->origin.stage_folder);
    if (variant_waits(v)) text_printf(text, "  %s\n", BREAK_TEXT(waits));
    if (info->interpreted && info->failure != BAIL_none)
        text_printf(text, "  no generated code: %s: %s\n", bail_name(info->failure), info->reason);
    if (v->request.autotune)
        text_printf(text, "  preset max-autotune: %d of %d loop nests as measured%s%s\n", info->tuned, info->nests,
                    *info->untuned ? ": " : "", info->untuned);
    backend_text(v, text);
    for (const char *line = info->extensions; *line; line += strcspn(line, "\n") + 1)
        text_printf(text, "  took part: %.*s\n", (int)strcspn(line, "\n"), line);
    if (v->request.fast) fast_text(info, text);
    for (int i = 0; i < info->n_plans; i++) plan_text(v, i, text);
    saved_text(v, text);
    times_text(v, text);
    for (int i = 0; i < info->n_plans; i++) {
        merges_text(v, i, false, text);
        merges_text(v, i, true, text);
    }
    text_puts(text, "  checked at each call, by the numbers of stage capture:\n");
    Text guards = {0};
    guards_print(v, &guards);
    print_indented(text, "  ", text_str(&guards));
    text_free(&guards);
}

static void fallbacks_text(const sn_function *fn, Text *text) {
    for (int i = 0; i < fn->fallbacks.n; i++) {
        const FallbackRow *const row = &fn->fallbacks.at[i];
        if (row->ops)
            text_printf(text, "not from a compiled call sequence: %lld op%s: %s\n", (long long)row->ops,
                        plural(row->ops), row->reason);
        if (row->calls)
            text_printf(text, "eager as a whole: %lld call%s: %s\n", (long long)row->calls, plural(row->calls),
                        row->reason);
    }
}

/* Calls of one line have addresses of their own. */
static bool same_break(const BreakRow *row, const char *where, const BreakRow *other) {
    char there[256];
    if (strcmp(row->reason, other->reason) != 0) return false;
    site_name(other->site, there, sizeof there);
    return !strcmp(where, there);
}

bool explain_break(const sn_function *fn, int i, char *where, size_t capacity, int64_t *count) {
    const BreakRow *const row = &fn->breaks.at[i];
    site_name(row->site, where, capacity);
    for (int k = 0; k < i; k++)
        if (same_break(row, where, &fn->breaks.at[k])) return false;
    *count = row->count;
    for (int k = i + 1; k < fn->breaks.n; k++)
        if (same_break(row, where, &fn->breaks.at[k])) *count += fn->breaks.at[k].count;
    return true;
}

int explain_breaks(const sn_function *fn) {
    char where[256];
    int64_t count;
    int n = 0;
    for (int i = 0; i < fn->breaks.n; i++) n += explain_break(fn, i, where, sizeof where, &count);
    return n;
}

static void breaks_text(const sn_function *fn, Text *text) {
    char where[256];
    int64_t count;
    for (int i = 0; i < fn->breaks.n; i++)
        if (explain_break(fn, i, where, sizeof where, &count))
            text_printf(text, "break at %s: %s (%lld time%s)\n", where, fn->breaks.at[i].reason, (long long)count,
                        plural(count));
    for (int i = 0; i < fn->recompiles.n; i++) text_printf(text, "recompile: %s\n", fn->recompiles.at[i].text);
    for (int i = 0; i < fn->failures.n; i++)
        text_printf(text, "not compiled: %s: %s\n", bail_name(fn->failures.at[i].code), fn->failures.at[i].text);
    if (fn->limit_hits)
        text_printf(text, "recompile limit: %lld call%s ran eagerly\n", (long long)fn->limit_hits,
                    plural(fn->limit_hits));
}

void explain_text(sn_function *fn, Text *text) {
    pthread_mutex_lock(&fn->lock);
    sn_stats stats = fn->stats, *const s = &stats;
    replay_count(fn, s);
    explain_summary(fn, s, text);
    text_puts(text, "\n");
    if (s->ops_waiting)
        text_printf(text, "%lld op%s ran eagerly while code was made\n", (long long)s->ops_waiting,
                    plural(s->ops_waiting));
    fallbacks_text(fn, text);
    breaks_text(fn, text);
    for (int i = 0; i < fn->variants.n; i++) graph_text(fn->variants.at[i], text);
    pthread_mutex_unlock(&fn->lock);
}

/* Stages -------------------------------------------------------------------------------------- */

/* Why the graph is not there as a stage leaves it. */
static void print_missing(const Variant *v, Text *text) {
    if (v->request.backend && v->request.backend->kind == BACK_eager)
        text_puts(text, "# nothing is compiled: the backend is eager, each op runs by itself\n");
    else if (v->info.failure != BAIL_none)
        text_printf(text, "# %s: %s\n", bail_name(v->info.failure), v->info.reason);
    else
        text_puts(text, "# not kept: memory was out while it was compiled\n");
}

static void print_stage(const Variant *v, const Dump *dump, Text *text) {
    const Stage stage = dump_row(dump->id)->stage;
    Graph *const graph = v->training && stage == STAGE_scheduled ? NULL : v->info.stages[stage];
    if (!graph)
        print_missing(v, text);
    else if (dump->id == DUMP_backward)
        text_puts(text, "# no backward of its own: gradients do not flow out of this segment\n");
    else
        graph_print_notes(graph, dump_notes(dump, site_name), text);
}

/* Where the plan, or the code for this machine that is shown, is not what runs. */
static void print_remark(const Variant *v, const Dump *dump, Text *text) {
    const unsigned traits = dump_row(dump->id)->traits;
    const char *const mark = dump_mark(dump);
    if (!variant_waits(v) && !v->code.run)
        text_printf(text, "%s no call runs this: %s: %s\n", mark, bail_name(v->info.failure), v->info.reason);
    else if (v->info.interpreted && traits & DUMP_machine && dump->machine == dump_of(dump->id).machine)
        text_printf(text, "%s the interpreter runs these loops: %s\n", mark, v->info.reason);
}

static bool has_plan(const Variant *v) {
    Plan *plans[MAX_PLANS] = {NULL};
    if (v->training) training_plans(v, plans);
    return !v->text || v->info.graph || plans[0];
}

Status explain_variant(const Variant *v, const Dump *dump, Text *text) {
    const bool of_plan = dump_row(dump->id)->traits & DUMP_plan;
    if (dump->id == DUMP_guards) {
        guards_print(v, text);
        return ST_OK;
    }
    if (!v->text && !of_plan)
        return error_raise(ST_UNSUPPORTED, "stage '%s': a plan of a file has no graph", dump_row(dump->id)->name);
    if (dump->id == DUMP_capture) return captured_text(v, dump, text);
    if (of_plan && has_plan(v)) print_remark(v, dump, text);
    if (v->training && training_dump(v, dump, text)) return ST_OK;
    if (!of_plan)
        print_stage(v, dump, text);
    else if (has_plan(v))
        compile_dump_plan(v->text ? v->info.graph->plan : v->info.plans[0], dump, text);
    else
        print_missing(v, text);
    return error_pending();
}

Status explain_dump(sn_function *fn, const char *stage, Text *text) {
    Dump dump;
    TRY(dump_parse(stage, &dump));
    Status status = ST_OK;
    pthread_mutex_lock(&fn->lock);
    for (int i = 0; i < fn->variants.n && status == ST_OK; i++) {
        text_printf(text, "# graph %d\n", fn->variants.at[i]->id);
        status = explain_variant(fn->variants.at[i], &dump, text);
    }
    pthread_mutex_unlock(&fn->lock);
    return status;
}
