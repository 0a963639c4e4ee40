/* flow_code.c: bodies of control flow as texts, as graphs and as code, one of each for bodies that are the same. They
 * are kept as long as the process lives: what is recorded names them. Code is for the launches of compiled functions,
 * made at the first one:
 *
 *   step of a plan  ->  scan: for each round  ->  the body's plan: its nests, fused, as of any graph
 *
 * Eager control flow, and what the tape records, runs a body's graph op by op; so does a launch where code cannot be
 * made, or where user code stands in for an op. */
#include <pthread.h>

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/capture/flow/flow.h"
#include "runtime/compile/compile.h"
#include "runtime/core/override.h"

struct FlowCode {
    const char *text;
    Graph *graph; /* of it, made when it first runs */
    Arena *arena;
    Executable *run; /* made at its first launch */
    bool tried;
    struct FlowCode *same_hash;
};

static pthread_mutex_t codes_lock = PTHREAD_MUTEX_INITIALIZER;
static Map codes;

/* Under the lock, as the next ones. */
static FlowCode *code_of(const char *text) {
    const uint64_t hash = hash_bytes(11, text, strlen(text));
    FlowCode *const first = map_get(&codes, hash);
    for (FlowCode *code = first; code; code = code->same_hash)
        if (!strcmp(code->text, text)) return code;
    Arena *const arena = arena_new();
    FlowCode *const code = arena ? ARENA_NEW(arena, FlowCode) : NULL;
    if (code) *code = (FlowCode){.text = arena_strdup(arena, text), .arena = arena, .same_hash = first};
    if (code && code->text && map_set(&codes, hash, code)) return code;
    arena_free(arena);
    return NULL;
}

static Status read_text(FlowCode *code, Graph **out) {
    TRY(graph_parse(code->arena, code->text, strlen(code->text), out));
    graph_number(*out);
    return ST_OK;
}

/* The passes work on a graph of their own. */
static Status compile_body(FlowCode *code) {
    CompileInfo info = {.function = ""};
    Graph *graph;
    code->tried = true;
    TRY(read_text(code, &graph));
    if (compile_passes(graph, &info) == ST_OK) compile_plan(graph->plan, &info, &code->run);
    if (!code->run) LOG(graph_breaks, INFO, "a body of control flow runs op by op: %s", info.reason);
    return error_pending();
}

const char *flow_text(FlowBody *body) {
    Text text = {0};
    graph_print(body->graph, &text);
    pthread_mutex_lock(&codes_lock);
    const FlowCode *const code = error_pending() == ST_OK ? code_of(text_str(&text)) : NULL;
    pthread_mutex_unlock(&codes_lock);
    text_free(&text);
    return code ? code->text : NULL;
}

static Status find_code(FlowBody *body, const char *text, bool compiled) {
    pthread_mutex_lock(&codes_lock);
    FlowCode *const code = code_of(text);
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
        TRY(tensor_ready(t, body->op));
        if (!VEC_ROOM(body->arena, &body->closed)) return ST_MEMORY;
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

/* Its random ops draw what they would one by one. */
Status flow_code_run(const FlowCode *code, sn_tensor *const *in, sn_tensor **out) {
    sn_state *const state = state_get();
    const int64_t symbols[] = {(int64_t)state->seed, (int64_t)state->sequence};
    TRY(execute(code->run, in, symbols, NULL, out));
    state->sequence += (uint64_t)code->graph->n_random;
    return ST_OK;
}
