/* runner.c: runs a list of passes over a graph, one after the other:
 *
 *   names --pipelines--> passes --> skip? limit? failpoint? --> verify(in) --> pass --> verify(out)
 *         --> log "cse: 41 -> 36 nodes" --> trace
 *
 * A pass that fails raises the thread's error; here, in one place, that becomes a bail where the
 * graph has one. */
#include "passes/internal.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

#define PASS(name, in, out, doc) PassFn pass_##name;
#include "passes/passes.def"

static const PassRow rows[] = {
#define PASS(name, in, out, doc) {#name, doc, pass_##name, STAGE_##in, STAGE_##out},
#include "passes/passes.def"
};

static const PipelineRow pipelines[] = {
#define PIPELINE(name, passes, doc) {#name, passes, doc},
#include "passes/passes.def"
};

const PassRow *pass_row(int i) { return i >= 0 && i < COUNT_OF(rows) ? &rows[i] : NULL; }
const PipelineRow *pipeline_row(int i) { return i >= 0 && i < COUNT_OF(pipelines) ? &pipelines[i] : NULL; }

/* Lists --------------------------------------------------------------------------------------- */

static bool is_called(const char *row, const char *name, size_t n) { return strlen(row) == n && !memcmp(row, name, n); }

static const PassRow *find_pass(const char *name, size_t n) {
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (is_called(rows[i].name, name, n)) return &rows[i];
    return NULL;
}

static const PipelineRow *find_pipeline(const char *name, size_t n) {
    for (int i = 0; i < COUNT_OF(pipelines); i++)
        if (is_called(pipelines[i].name, name, n)) return &pipelines[i];
    return NULL;
}

static Status unknown_pass(const char *name, size_t n) {
    Text list = {0};
    for (int i = 0; i < COUNT_OF(rows); i++) text_printf(&list, "%s%s", i ? ", " : "", rows[i].name);
    for (int i = 0; i < COUNT_OF(pipelines); i++)
        text_printf(&list, "%s%s", i ? ", " : "; pipelines: ", pipelines[i].name);
    const Status status = error_raise(ST_ARGUMENT, "pass '%.*s' is unknown; passes: %s", (int)n, name, text_str(&list));
    text_free(&list);
    return status;
}

/* Adds the passes of a comma list. */
static Status add_passes(PassList *list, const char *names) {
    for (const char *p = names; *p;) {
        const size_t length = strcspn(p, ",");
        const PassRow *const pass = find_pass(p, length);
        const PipelineRow *const pipeline = pass ? NULL : find_pipeline(p, length);
        if (length && !pass && !pipeline) return unknown_pass(p, length);
        if (pass && list->n == MAX_LISTED) return error_raise(ST_ARGUMENT, "a list of more than %d passes", MAX_LISTED);
        if (pass) list->at[list->n++] = pass;
        if (pipeline) TRY(add_passes(list, pipeline->passes));
        p += length + (p[length] == ',');
    }
    return ST_OK;
}

Status passes_list(const char *names, PassList *list) {
    list->n = 0;
    return add_passes(list, names);
}

static bool listed(const PassList *list, const PassRow *row) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == row) return true;
    return false;
}

/* Running ------------------------------------------------------------------------------------- */

static Status verify(Graph *graph, const PassRow *row, Stage stage, const char *when) {
    if (stage == STAGE_COUNT || graph_verify(graph, stage) == ST_OK) return ST_OK;
    ErrorSlot *const slot = error_slot();
    const Status status = slot->status;
    char message[sizeof slot->message];
    memcpy(message, slot->message, sizeof message);
    error_clear();
    return error_raise(status, "the verifier refused the graph %s pass '%s': %.800s", when, row->name, message);
}

/* A graph that changed has to be scheduled again. */
static void unschedule(Graph *graph) {
    if (!graph->lowering) return;
    graph->lowering = NULL;
    graph->plan = NULL;
    for (Node *node = graph->first; node; node = node->next) node->kernel = 0;
}

/* The stage that the runner knows the graph to be in; STAGE_COUNT: not known yet. */
static Status run_one(Graph *graph, const PassRow *row, const PassOptions *options, Stage *stage) {
    char point[64] = "pass:";
    strncat(point, row->name, sizeof point - 6);
    if (!options->must_run && failpoint(point)) return error_raise(ST_INTERNAL, "failpoint %s", point);
    if (options->verify) TRY(verify(graph, row, row->in, "before"));
    const int before = node_count(graph);
    const int64_t start = clock_ns();
    const bool changed = row->run(graph, options);
    const int64_t ns = clock_ns() - start;
    TRY(error_pending());
    graph_number(graph);
    if (row->out != STAGE_COUNT) *stage = row->out;
    if (changed && !pass_plans(row)) unschedule(graph);
    if (options->verify) TRY(verify(graph, row, *stage == STAGE_COUNT ? STAGE_capture : *stage, "after"));
    if (changed)
        LOG(passes, INFO, "%s: %d -> %d nodes", row->name, before, graph->n_nodes);
    else
        LOG(passes, INFO, "%s: unchanged", row->name);
    if (options->trace) options->trace(options->trace_context, row, graph, ns);
    return ST_OK;
}

typedef struct ListRun {
    PassList passes, skip;
    const PassOptions *options;
} ListRun;

/* The passes from number `at` on; after a partition, on both parts. done: how many of the limit have run. */
static Status run_from(const ListRun *run, Graph *graph, int at, Stage stage, int done) {
    for (; at < run->passes.n; at++) {
        const PassRow *const row = run->passes.at[at];
        if (listed(&run->skip, row)) continue;
        if (run->options->limit && done++ >= run->options->limit) continue;
        TRY(run_one(graph, row, run->options, &stage));
        if (!graph->parts) continue;
        TRY(run_from(run, graph->parts->forward, at + 1, stage, done));
        return run_from(run, graph->parts->backward, at + 1, stage, done);
    }
    return ST_OK;
}

static int count_to(const PassList *list, Stage stage) {
    if (stage == STAGE_capture) return 0;
    for (int i = 0; i < list->n && stage != STAGE_COUNT; i++)
        if (list->at[i]->out == stage) return i + 1;
    return list->n;
}

static Status run_list(Graph *graph, const char *names, Stage to, const PassOptions *options) {
    static const PassOptions defaults = {0};
    ListRun run = {.options = options ? options : &defaults};
    TRY(error_pending());
    TRY(passes_list(names, &run.passes));
    TRY(passes_list(run.options->skip ? run.options->skip : "", &run.skip));
    run.passes.n = count_to(&run.passes, to);
    return run_from(&run, graph, 0, STAGE_COUNT, 0);
}

Status passes_run(Graph *graph, const char *names, const PassOptions *options) {
    return passes_run_to(graph, names, STAGE_COUNT, options);
}

Status passes_run_to(Graph *graph, const char *names, Stage stage, const PassOptions *options) {
    const Status status = run_list(graph, names, stage, options);
    if (status == ST_OK || !graph->bail) return status;
    char message[sizeof error_slot()->message];
    memcpy(message, error_slot()->message, sizeof message);
    error_clear();
    const bool injected = !strncmp(message, "failpoint", 9);
    bail(graph->bail,
         injected                   ? BAIL_failpoint
         : status == ST_MEMORY      ? BAIL_memory
         : status == ST_UNSUPPORTED ? BAIL_unsupported
                                    : BAIL_verify,
         "%s", message);
}
