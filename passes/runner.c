/* runner.c: runs a comma list of passes over a graph, one after the other:
 *
 *   names --> skip? limit? failpoint? --> verify(in) --> pass --> verify(out)
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
#undef PASS

static const PassRow rows[] = {
#define PASS(name, in, out, doc) {#name, doc, pass_##name, STAGE_##in, STAGE_##out},
#include "passes/passes.def"
#undef PASS
};

static const PassRow *find_pass(const char *name, size_t n) {
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (strlen(rows[i].name) == n && !memcmp(rows[i].name, name, n)) return &rows[i];
    return NULL;
}

static Status unknown_pass(const char *name, size_t n) {
    Text list = {0};
    for (int i = 0; i < COUNT_OF(rows); i++) text_printf(&list, "%s%s", i ? ", " : "", rows[i].name);
    const Status status = error_raise(ST_ARGUMENT, "pass '%.*s' is unknown; passes: %s", (int)n, name, text_str(&list));
    text_free(&list);
    return status;
}

/* Whether `name` is an item of a comma list. */
static bool listed(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *p = list; p && *p;) {
        const size_t length = strcspn(p, ",");
        if (length == n && !memcmp(p, name, n)) return true;
        p += length + (p[length] == ',');
    }
    return false;
}

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

Status passes_check(const char *names) {
    for (const char *p = names; *p;) {
        const size_t length = strcspn(p, ",");
        if (length && !find_pass(p, length)) return unknown_pass(p, length);
        p += length + (p[length] == ',');
    }
    return ST_OK;
}

static Status run_list(Graph *graph, const char *names, const PassOptions *options, Stage stage, int done) {
    for (const char *p = names; *p;) {
        const size_t length = strcspn(p, ",");
        const PassRow *const row = find_pass(p, length);
        if (length && !row) return unknown_pass(p, length);
        p += length + (p[length] == ',');
        if (!row || listed(options->skip, row->name)) continue;
        if (options->limit && done++ >= options->limit) continue;
        TRY(run_one(graph, row, options, &stage));
        if (!graph->parts) continue;
        TRY(run_list(graph->parts->forward, p, options, stage, done));
        return run_list(graph->parts->backward, p, options, stage, done);
    }
    return ST_OK;
}

Status passes_run(Graph *graph, const char *names, const PassOptions *options) {
    static const PassOptions defaults = {0};
    Status status = error_pending();
    if (status == ST_OK) status = run_list(graph, names, options ? options : &defaults, STAGE_COUNT, 0);
    if (status == ST_OK || !graph->bail) return status;
    char message[sizeof error_slot()->message];
    memcpy(message, error_slot()->message, sizeof message);
    error_clear();
    const bool injected = !strncmp(message, "failpoint", 9);
    bail(graph->bail,
         injected                   ? BAIL_failpoint
         : status == ST_UNSUPPORTED ? BAIL_unsupported
                                    : BAIL_verify,
         "%s", message);
}
