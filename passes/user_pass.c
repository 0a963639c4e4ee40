/* user_pass.c: see user_pass.h. What a pass of the program's leaves is verified, and so are the graph's ends: which
 * inputs there are and which are written, what each result is and whose memory it shows. What a call was told of them
 * before any pass ran stays true so. */
#include "passes/user_pass.h"

#include <pthread.h>
#include <stdio.h>

#include "passes/internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

PassFn pass_user_captured, pass_user_joint, pass_user_decomposed;

enum { MAX_USER_PASSES = 64 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static UserPass passes[MAX_USER_PASSES];
static int n_passes;

/* Under the lock. */
static UserPass *find_user_pass(const char *name) {
    for (int i = 0; i < n_passes; i++)
        if (!strcmp(passes[i].name, name)) return &passes[i];
    return NULL;
}

Status user_pass_add(const UserPass *pass) {
    Status status = ST_OK;
    pthread_mutex_lock(&lock);
    if (find_user_pass(pass->name))
        status = error_raise(ST_ARGUMENT, "there is a pass '%s' already", pass->name);
    else if (n_passes == MAX_USER_PASSES)
        status = error_raise(ST_UNSUPPORTED, "more than %d passes", MAX_USER_PASSES);
    else
        passes[n_passes++] = *pass;
    pthread_mutex_unlock(&lock);
    return status;
}

/* Under the lock. */
static void remove_pass(UserPass *pass) {
    for (UserPass *at = pass; at + 1 < passes + n_passes; at++) at[0] = at[1];
    n_passes--;
}

bool user_pass_remove(const char *name) {
    pthread_mutex_lock(&lock);
    UserPass *const pass = find_user_pass(name);
    if (pass) remove_pass(pass);
    pthread_mutex_unlock(&lock);
    return pass != NULL;
}

void user_pass_withdraw(int batch) {
    pthread_mutex_lock(&lock);
    for (int i = n_passes - 1; i >= 0; i--)
        if (passes[i].batch == batch) remove_pass(&passes[i]);
    pthread_mutex_unlock(&lock);
}

bool user_pass_version(const char *name, char version[USER_PASS_TEXT]) {
    pthread_mutex_lock(&lock);
    const UserPass *const pass = find_user_pass(name);
    if (pass) memcpy(version, pass->version, USER_PASS_TEXT);
    pthread_mutex_unlock(&lock);
    return pass != NULL;
}

/* A copy: others come and go meanwhile. */
static bool pass_at(int i, UserPass *out) {
    pthread_mutex_lock(&lock);
    const bool is_there = i < n_passes;
    if (is_there) *out = passes[i];
    pthread_mutex_unlock(&lock);
    return is_there;
}

/* The graph's ends ----------------------------------------------------------------------------- */

typedef struct EndFacts { /* of an output or a write */
    const Meta *meta;     /* NULL: none */
    OutKind kind;
    int root; /* the input whose memory it shows; -1 - i: that of output i, the first such; itself: its own */
} EndFacts;

typedef struct GraphFacts {
    int n_inputs, n_ints, n_outputs, n_writes, n_random;
    GVal **inputs;
    bool *written; /* by input: a form writes it, or memory that shows it */
    EndFacts *outputs, *writes;
} GraphFacts;

static const GVal *memory_root(const GVal *value) {
    for (const GVal *of; (of = value_memory(value));) value = of;
    return value;
}

static void record_written(const Node *node, bool *written) {
    const int first = node->form == FORM_out ? node->row->n_params : 0;
    const int end = node->form == FORM_out ? node->n_args : node->form == FORM_inplace;
    for (int i = first; i < end; i++) {
        const GVal *const root = node->args[i].val ? memory_root(gval(node->args[i].val)) : NULL;
        if (root && !root->def) written[root->index] = true;
    }
}

static EndFacts facts_of(const Graph *graph, int i) {
    const Output *const output = &graph->outputs.at[i];
    EndFacts facts = {.kind = output->kind, .root = -1 - i};
    if (!output->value) return facts;
    const GVal *const root = memory_root(output->value);
    facts.meta = output->value->base.meta;
    if (!root->def) facts.root = root->index;
    for (int k = 0; root->def && k < i; k++)
        if (graph->outputs.at[k].value && memory_root(graph->outputs.at[k].value) == root) {
            facts.root = -1 - k;
            break;
        }
    return facts;
}

static bool record_facts(const Graph *graph, GraphFacts *facts) {
    Arena *const arena = graph->arena;
    *facts = (GraphFacts){.n_inputs = graph->inputs.n,
                          .n_ints = graph->int_inputs.n,
                          .n_outputs = graph->outputs.n,
                          .n_writes = graph->writes.n,
                          .n_random = graph->n_random,
                          .inputs = arena_copy(arena, graph->inputs.at, sizeof(GVal *) * (size_t)graph->inputs.n),
                          .written = ARENA_ARRAY(arena, bool, graph->inputs.n + 1),
                          .outputs = ARENA_ARRAY(arena, EndFacts, graph->outputs.n + 1),
                          .writes = ARENA_ARRAY(arena, EndFacts, graph->writes.n + 1)};
    if (!facts->inputs || !facts->written || !facts->outputs || !facts->writes) return false;
    for (const Node *node = graph->first; node; node = node->next) record_written(node, facts->written);
    for (int i = 0; i < graph->outputs.n; i++) facts->outputs[i] = facts_of(graph, i);
    for (int i = 0; i < graph->writes.n; i++)
        facts->writes[i] =
            (EndFacts){.meta = graph->writes.at[i].value->base.meta, .root = graph->writes.at[i].input->index};
    return true;
}

static bool same_end(const EndFacts *a, const EndFacts *b, bool roots) {
    if (!a->meta != !b->meta || a->kind != b->kind || (roots && a->root != b->root)) return false;
    return !a->meta || meta_equal(a->meta, b->meta);
}

static bool same_inputs(const GraphFacts *a, const GraphFacts *b) {
    if (a->n_inputs != b->n_inputs || a->n_ints != b->n_ints) return false;
    for (int i = 0; i < a->n_inputs; i++)
        if (a->inputs[i] != b->inputs[i] || a->written[i] != b->written[i]) return false;
    return true;
}

/* roots: whose memory results show is asked of them; later stages say it by their kinds. */
static Status check_facts(const GraphFacts *before, const GraphFacts *now, bool roots) {
    if (!same_inputs(before, now)) return error_raise(ST_ARGUMENT, "it has other inputs, or writes others");
    if (before->n_outputs != now->n_outputs || before->n_writes != now->n_writes)
        return error_raise(ST_ARGUMENT, "it has other results");
    if (before->n_random != now->n_random) return error_raise(ST_ARGUMENT, "it draws other random numbers");
    for (int i = 0; i < now->n_outputs; i++)
        if (!same_end(&before->outputs[i], &now->outputs[i], roots))
            return error_raise(ST_ARGUMENT, "result %d has another type, or shows other memory", i);
    for (int i = 0; i < now->n_writes; i++)
        if (!same_end(&before->writes[i], &now->writes[i], true))
            return error_raise(ST_ARGUMENT, "what is written %d has another type", i);
    return ST_OK;
}

/* Running -------------------------------------------------------------------------------------- */

static int count_random(const Graph *graph) {
    int n = 0;
    for (const Node *node = graph->first; node; node = node->next) n += (node->row->flags & OPF_random) != 0;
    return n;
}

static Status check_graph(Graph *graph, Stage stage, const GraphFacts *before, int n_random) {
    GraphFacts now;
    graph_number(graph);
    TRY(graph_verify(graph, stage));
    if (!record_facts(graph, &now)) return ST_MEMORY;
    if (count_random(graph) > n_random) now.n_random = -1;
    return check_facts(before, &now, stage == STAGE_capture);
}

static Status blame(const UserPass *pass, const char *what, Status status) {
    char said[400];
    snprintf(said, sizeof said, "%.399s", error_slot()->message);
    error_clear();
    return error_raise(status == ST_MEMORY ? status : ST_UNSUPPORTED, "pass '%s' %s: %s", pass->name, what, said);
}

static Status run_pass(const UserPass *pass, Graph *graph, const PassOptions *options, bool *changed) {
    GraphFacts before;
    const uint64_t hash = graph_hash(graph);
    const int n_random = count_random(graph);
    if (!record_facts(graph, &before)) return ST_MEMORY;
    Status status = pass->run(pass, graph);
    if (status == ST_OK) status = error_pending();
    if (status != ST_OK) return blame(pass, "failed", status);
    status = check_graph(graph, pass->stage, &before, n_random);
    if (status != ST_OK) return blame(pass, "broke the graph", status);
    if (graph_hash(graph) == hash) return ST_OK;
    *changed = true;
    const char *const version = *pass->version ? pass->version : NULL;
    if (options->took_part) options->took_part(options->took_part_context, "pass", pass->name, version);
    return ST_OK;
}

static bool run_passes_at(Graph *graph, const PassOptions *options, Stage stage) {
    bool changed = false;
    UserPass pass;
    for (int i = 0; pass_at(i, &pass); i++) {
        if (pass.stage == stage && run_pass(&pass, graph, options, &changed) != ST_OK) return changed;
    }
    if (changed && stage != STAGE_capture) own_outputs(graph);
    return changed;
}

bool pass_user_captured(Graph *graph, const PassOptions *options) {
    return run_passes_at(graph, options, STAGE_capture);
}
bool pass_user_joint(Graph *graph, const PassOptions *options) { return run_passes_at(graph, options, STAGE_joint); }
bool pass_user_decomposed(Graph *graph, const PassOptions *options) {
    return run_passes_at(graph, options, STAGE_decomposed);
}
