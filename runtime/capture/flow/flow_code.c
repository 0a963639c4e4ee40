/* flow_code.c: bodies of control flow as texts, as graphs and as code, one of each for bodies that are the same. What a
 * capture has recorded names its texts, which are kept as long as the process lives; of others, which eager calls have
 * made, the last ones are. Code is for the launches of compiled functions, made at the first one:
 *
 *   step of a plan  ->  scan: for each round  ->  the body's plan: its nests, fused, as of any graph
 *
 * Eager control flow, and what the tape records, runs a body's graph op by op; so does a launch where code cannot be
 * made, or where user code stands in for an op. */
#include <pthread.h>

#include "ir/flow_text.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/capture/record/tape_limits.h"
#include "runtime/compile/compile.h"
#include "runtime/core/override.h"

/* The gradients of a body's inputs as a graph of their own: of its inputs, the sums so far, the results' gradients. */
typedef struct FlowJoint {
    struct FlowJoint *next;
    FlowJointSignature key;
    Graph *graph;
    Executable *run; /* NULL: it cannot be made */
} FlowJoint;

struct FlowCode {
    const char *text;
    Graph *graph; /* of it, made when it first runs */
    Arena *arena;
    Executable *run; /* made at its first launch */
    bool tried;
    FlowJoint *joints;
    uint64_t hash, used; /* when, by `uses` */
    int bodies;          /* that hold it */
    bool kept;           /* a capture names its text */
    FlowCode *next;      /* in its bucket */
};

enum { BUCKETS = 1024, MOST_LOOSE = 256 };
static pthread_mutex_t codes_lock = PTHREAD_MUTEX_INITIALIZER;
static FlowCode *buckets[BUCKETS];
static uint64_t uses;
static int n_loose; /* not kept */

/* Under the lock, as the next ones. */
static FlowCode *find_text(const char *text, uint64_t hash) {
    FlowCode *code = buckets[hash % BUCKETS];
    while (code && (code->hash != hash || strcmp(code->text, text))) code = code->next;
    return code;
}

static FlowCode *oldest_loose(void) {
    FlowCode *oldest = NULL;
    for (int i = 0; i < BUCKETS; i++)
        for (FlowCode *code = buckets[i]; code; code = code->next)
            if (!code->kept && !code->bodies && (!oldest || code->used < oldest->used)) oldest = code;
    return oldest;
}

static void drop_code(FlowCode *code) {
    FlowCode **at = &buckets[code->hash % BUCKETS];
    while (*at != code) at = &(*at)->next;
    *at = code->next;
    n_loose--;
    for (FlowJoint *joint = code->joints; joint; joint = joint->next) executable_free(joint->run);
    executable_free(code->run);
    arena_free(code->arena);
}

static FlowCode *add_text(const char *text, uint64_t hash) {
    FlowCode *const old = n_loose >= MOST_LOOSE ? oldest_loose() : NULL;
    if (old) drop_code(old);
    Arena *const arena = arena_new();
    FlowCode *const code = arena ? ARENA_NEW(arena, FlowCode) : NULL;
    if (code) *code = (FlowCode){.text = arena_strdup(arena, text), .arena = arena, .hash = hash};
    if (!code || !code->text) {
        arena_free(arena);
        return NULL;
    }
    code->next = buckets[hash % BUCKETS];
    buckets[hash % BUCKETS] = code;
    n_loose++;
    return code;
}

/* The body holds it, until it is freed. */
static FlowCode *code_of(FlowBody *body, const char *text) {
    const uint64_t hash = hash_bytes(11, text, strlen(text));
    FlowCode *code = find_text(text, hash);
    if (!code && !(code = add_text(text, hash))) return NULL;
    code->used = ++uses;
    code->bodies++;
    if (body->held) body->held->bodies--;
    return body->held = code;
}

static void keep_code(FlowCode *code) {
    n_loose -= !code->kept;
    code->kept = true;
}

void flow_code_leave(FlowBody *body) {
    if (!body->held) return;
    pthread_mutex_lock(&codes_lock);
    body->held->bodies--;
    pthread_mutex_unlock(&codes_lock);
    body->held = NULL;
}

static Status read_text(FlowCode *code, Graph **out) {
    Graph *graph;
    TRY(graph_parse(code->arena, code->text, strlen(code->text), &graph));
    if (!flow_text_has_numbers(graph))
        return error_raise(ST_UNSUPPORTED,
                           "a body of control flow has symbols, whose numbers only sn_graph_compile gives");
    graph_number(graph);
    *out = graph;
    return ST_OK;
}

/* The passes work on a graph of their own. */
static Status compile_body(FlowCode *code) {
    CompileReport info = {0};
    Graph *graph;
    code->tried = true;
    TRY(read_text(code, &graph));
    if (compile_passes(graph, &info) == ST_OK) compile_plan(graph->plan, &info, &code->run);
    if (!code->run) LOG(graph_breaks, INFO, "a body of control flow runs op by op: %s", info.reason);
    return error_pending();
}

/* Results that the op clones (flow_body.c) are cloned here, in that order: so sums have eager's order [G1]. */
static Status append_clones(Graph *graph) {
    bool cloned[FLOW_RESULTS];
    for (int i = 0; i < graph->outputs.n; i++) cloned[i] = flow_output_is_cloned(graph, i);
    for (int i = 0; i < graph->outputs.n; i++) {
        if (!cloned[i]) continue;
        Val *const clone = E(&graph->builder, clone, V(&graph->outputs.at[i].value->base), A_NONE);
        if (!clone) return error_pending();
        graph->outputs.at[i].value = gval(clone);
    }
    graph_number(graph);
    return ST_OK;
}

static void spread(uint64_t bits, int n, bool *to) {
    for (int i = 0; i < n; i++) to[i] = bits >> i & 1;
}

typedef struct JointMaking {
    FlowJoint *joint;
    CompileReport *info;
} JointMaking;

/* What eager's tape does of a body that no graph does: an error at what was written since it was saved, or was made in
 * inference mode; a write that the history does not see. */
static Status check_tape(Graph *graph, const bool *want) {
    for (const Node *node = graph->first; node; node = node->next)
        if (node->modes & NODE_inference) return error_raise(ST_UNSUPPORTED, "an op in inference mode");
    uint32_t *const needs = ARENA_ARRAY(graph->arena, uint32_t, graph->n_nodes + 1);
    if (!needs) return ST_MEMORY;
    TRY(flow_graph_needs(graph, want, needs));
    const Reason why = tape_limits_refusal(graph, &(TapeNeeds){want, needs}, NULL, NULL);
    return why ? error_raise(ST_UNSUPPORTED, "%s", reason_text(why)) : ST_OK;
}

/* The forward's results are nobody's: what remains of it is what the rules read. */
static Status append_gradients(void *context) {
    const JointMaking *const m = context;
    Graph *const graph = m->joint->graph;
    const FlowJointSignature *const key = &m->joint->key;
    bool want[FLOW_OPERANDS], partial[FLOW_OPERANDS], defined[FLOW_RESULTS];
    const PassOptions options = compile_pass_options(NULL, m->info);
    spread(key->want, graph->inputs.n, want);
    spread(key->partial, graph->inputs.n, partial);
    spread(key->defined, graph->outputs.n, defined);
    TRY(append_clones(graph));
    TRY(check_tape(graph, want));
    TRY(passes_run(graph, "functionalize", &options));
    TRY(joint_append(graph, &(JointSpec){.want = want, .grad_defined = defined, .partial = partial}));
    const int n = graph->n_forward_outputs;
    graph->outputs.n -= n;
    memmove(graph->outputs.at, graph->outputs.at + n, sizeof *graph->outputs.at * (size_t)graph->outputs.n);
    graph->n_forward_inputs = graph->n_forward_outputs = 0;
    return ST_OK;
}

static Status compile_joint(FlowCode *code, FlowJoint *joint) {
    CompileReport info = {0};
    JointMaking making = {joint, &info};
    TRY(read_text(code, &joint->graph));
    if (compile_guarded(joint->graph, append_gradients, &making, &info) == ST_OK &&
        compile_passes(joint->graph, &info) == ST_OK)
        compile_plan(joint->graph->plan, &info, &joint->run);
    if (!joint->run) LOG(graph_breaks, INFO, "gradients of a body of control flow run op by op: %s", info.reason);
    return error_pending();
}

static Status find_joint(FlowCode *code, const FlowJointSignature *key, FlowJoint **out) {
    FlowJoint *joint = code->joints;
    while (joint && memcmp(&joint->key, key, sizeof *key)) joint = joint->next;
    if (!joint) {
        if (!(joint = ARENA_NEW(code->arena, FlowJoint))) return ST_MEMORY;
        *joint = (FlowJoint){.next = code->joints, .key = *key};
        TRY(compile_joint(code, joint));
        code->joints = joint;
    }
    *out = joint;
    return ST_OK;
}

const char *flow_text(FlowBody *body) {
    const sn_state *const state = state_get();
    Text text = {0};
    graph_print(body->graph, &text);
    pthread_mutex_lock(&codes_lock);
    FlowCode *const code = error_pending() == ST_OK ? code_of(body, text_str(&text)) : NULL;
    if (code && tracer_recording(state)) keep_code(code); /* what is traced has copies */
    pthread_mutex_unlock(&codes_lock);
    text_free(&text);
    return code ? code->text : NULL;
}

static Status find_code(FlowBody *body, const char *text, bool compiled) {
    pthread_mutex_lock(&codes_lock);
    FlowCode *const code = code_of(body, text);
    Status status = code ? ST_OK : ST_MEMORY;
    if (code && !code->graph) status = read_text(code, &code->graph);
    if (status == ST_OK && compiled && !code->tried) status = compile_body(code);
    if (status == ST_OK) body->graph = code->graph;
    if (status == ST_OK && compiled && code->run) body->code = code;
    pthread_mutex_unlock(&codes_lock);
    return status;
}

Status flow_body_read(FlowBody *body, const char *text, bool compiled, Val *const **closed) {
    TRY(find_code(body, text, compiled));
    if (!(body->arena = arena_new())) return ST_MEMORY;
    body->n_out = body->graph->outputs.n;
    for (int i = body->n_in; i < body->graph->inputs.n; i++) {
        sn_tensor *const t = tensor_of(*(*closed)++);
        TRY(flow_ready(body->op, t));
        if (!VEC_GROW(body->arena, &body->closed)) return ST_MEMORY;
        body->closed.at[body->closed.n++] = tensor_retained(t);
    }
    return ST_OK;
}

bool flow_code_serves(const FlowCode *code) {
    if (state_get()->modes) return false;
    for (const Node *node = code->graph->first; node; node = node->next)
        if (override_covers(node->row)) return false;
    return true;
}

/* Runs the code. Its random ops draw the numbers that they would draw one by one. */
Status flow_code_run(const FlowCode *code, sn_tensor *const *in, sn_tensor **out) {
    sn_state *const state = state_get();
    const int64_t symbols[] = {(int64_t)state->seed, (int64_t)state->sequence};
    TRY(execute(code->run, in, symbols, NULL, out));
    state->sequence += (uint64_t)code->graph->n_random;
    return ST_OK;
}

static FlowJointSignature joint_key(const FlowCode *code, const FlowBack *back) {
    FlowJointSignature key = {0};
    for (int i = 0; i < code->graph->inputs.n; i++) {
        key.want |= (uint64_t)back->want[i] << i;
        key.partial |= (uint64_t)(back->want[i] && back->sums[i]) << i;
    }
    for (int i = 0; i < code->graph->outputs.n; i++) key.defined |= (uint64_t)(back->grads[i] != NULL) << i;
    return key;
}

/* The inputs in the order that joint_append gives them, in the layouts that it expects. */
static Status fill_inputs(const FlowJoint *joint, const FlowBack *back, sn_tensor **to) {
    const Graph *const graph = joint->graph;
    const int n_sums = __builtin_popcountll(joint->key.partial), n_grads = __builtin_popcountll(joint->key.defined);
    const int n = graph->inputs.n - n_sums - n_grads;
    int at = 0;
    for (int i = 0; i < n; i++) to[at++] = back->in[i];
    for (int i = 0; i < n; i++)
        if (joint->key.partial >> i & 1) to[at++] = back->sums[i];
    for (int i = 0; at < graph->inputs.n; i++)
        if (joint->key.defined >> i & 1) to[at++] = back->grads[i];
    for (int i = 0; i < at; i++)
        if (!(to[i] = flow_laid_out(graph->inputs.at[i]->base.meta, to[i]))) return error_pending();
    return ST_OK;
}

Status flow_code_back(const FlowCode *code, FlowBack *back, bool *done) {
    const FlowJointSignature key = joint_key(code, back);
    sn_tensor *in[2 * FLOW_OPERANDS + FLOW_RESULTS], *got[FLOW_OPERANDS] = {NULL};
    const int64_t symbols[] = {(int64_t)back->seed, (int64_t)back->sequence};
    FlowJoint *joint = NULL;
    int at = 0;
    pthread_mutex_lock(&codes_lock);
    const Status status = find_joint((FlowCode *)code, &key, &joint);
    pthread_mutex_unlock(&codes_lock);
    *done = status == ST_OK && joint->run;
    if (!*done) return status;
    TRY(fill_inputs(joint, back, in));
    TRY(execute(joint->run, in, symbols, NULL, got));
    for (int i = 0; i < code->graph->inputs.n; i++) back->got[i] = back->want[i] ? got[at++] : NULL;
    return ST_OK;
}
