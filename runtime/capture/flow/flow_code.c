/* flow_code.c: bodies of control flow as texts, as graphs and as code, one of each for bodies that are the same. What a
 * capture has recorded names its texts, which are kept as long as the process lives; of others, which eager calls have
 * made, the last ones are. Code is for the launches of compiled functions, made at the first one:
 *
 *   step of a plan  ->  scan: for each round  ->  the body's plan: its nests, fused, as of any graph
 *
 * Eager control flow, and what the tape records, runs a body's graph op by op; so does a launch where code cannot be
 * made, or where user code stands in for an op.
 *
 * A text with symbols (ir/flow_text.h) gets code for all that they may be. It runs with the numbers of a launch, as a
 * text of its own, which is so one of many that share this code: those of which its guards hold. */
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
    Executable *run;      /* NULL: it cannot be made */
    bool shares;          /* it is the general text's */
    const Meta **layouts; /* by input */
} FlowJoint;

struct FlowCode {
    const char *text;
    Graph *graph; /* of it, made when it first runs */
    Arena *arena;
    Executable *run; /* made at its first launch */
    bool tried;
    /* Of a text with numbers in the place of symbols, or NULL: that one, and the numbers, by its free symbols. */
    FlowCode *general;
    const int64_t *values;
    Graph
        *compiled; /* what became of the graph that `run` is made of; of a general one: its guards, and its generator */
    bool shares;   /* `run` is the general one's */
    FlowJoint *joints;
    uint64_t hash, used; /* when, by `uses` */
    int n_values;        /* of a general text: its symbols */
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
    for (FlowJoint *joint = code->joints; joint; joint = joint->next)
        if (!joint->shares) executable_free(joint->run);
    if (!code->shares) executable_free(code->run);
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

static Status read_text(FlowCode *code, bool general, Graph **out) {
    Graph *graph;
    TRY(graph_parse(code->arena, code->text, strlen(code->text), &graph));
    if (!general && !flow_text_has_numbers(graph))
        return error_raise(ST_UNSUPPORTED,
                           "a body of control flow has symbols, whose numbers only sn_graph_compile gives");
    graph_number(graph);
    *out = graph;
    return ST_OK;
}

static bool draws(const Graph *graph, int64_t symbol) {
    return graph->seed && (symbol == graph->seed || symbol == graph->sequence);
}

/* Rules branch by the hint: multiples of the launch's sizes are neither small nor alike by chance, and have in common
 * what those have to. */
static void think_of_sizes(const Graph *graph, const int64_t *values, int64_t times) {
    for (int i = 0; i < sym_free_count(graph->env); i++) {
        const int64_t symbol = sym_free_at(graph->env, i);
        const SymExpr *const s = sym_expr(graph->env, symbol);
        const int64_t hint = values[i] < (1 << 20) ? values[i] * times : values[i];
        if (!draws(graph, symbol) && s->b <= hint && hint <= s->most) sym_free_hint(graph->env, symbol, hint);
    }
}

/* A text with symbols is read twice: for their names, then with what they are thought to be. */
static Status read_general(FlowCode *code, const FlowCode *of, int64_t times, Graph **out) {
    Text text = {0};
    Graph *graph;
    TRY(read_text(code, true, &graph));
    think_of_sizes(graph, of->values, times);
    graph_print(graph, &text);
    Status status = error_pending();
    if (status == ST_OK) status = graph_parse(code->arena, text_str(&text), text.n, out);
    if (status == ST_OK) graph_number(*out);
    text_free(&text);
    return status;
}

/* of: one with numbers, whose general text `code` is; NULL: code has numbers itself. */
static Status read_to_compile(FlowCode *code, const FlowCode *of, int64_t times, Graph **out) {
    return of ? read_general(code, of, times, out) : read_text(code, false, out);
}

/* What a general text's code was compiled for holds of these numbers. */
static bool graph_serves(const Graph *graph, const int64_t *values, int n) {
    const SymEnv *const env = graph->env;
    if (sym_free_count(env) != n) return false; /* the passes asked for more */
    for (int i = 0; i < n; i++) {
        const int64_t symbol = sym_free_at(env, i);
        const SymExpr *const s = sym_expr(env, symbol);
        if (!draws(graph, symbol) && (values[i] < s->b || values[i] > s->most)) return false;
    }
    for (int i = 0; i < sym_guard_count(env); i++)
        if (!sym_guard_holds(env, sym_guard_at(env, i), values)) return false;
    return true;
}

/* The passes work on a graph of their own. */
static Status compile_as(FlowCode *code, const FlowCode *of, int64_t times) {
    CompileReport info = {0};
    code->tried = true;
    TRY(read_to_compile(code, of, times, &code->compiled));
    LOG(compile, INFO, "code of a body of control flow, for %s sizes", of ? "any" : "these");
    if (compile_passes(code->compiled, &info) == ST_OK) compile_plan(code->compiled->plan, &info, &code->run);
    if (!code->run) LOG(graph_breaks, INFO, "a body of control flow runs op by op: %s", info.reason);
    return error_pending();
}

static const int64_t thought[] = {17, 1}; /* times the sizes of the launch */

/* Of sizes that have more in common than factors there is no code but with them. */
static void compile_general(FlowCode *general, const FlowCode *of) {
    for (int k = 0; k < COUNT_OF(thought) && !general->run; k++)
        if (compile_as(general, of, thought[k]) != ST_OK) error_clear();
}

static Status compile_body(FlowCode *code) {
    FlowCode *const general = code->general;
    if (general && !general->tried) compile_general(general, code);
    if (!general || !general->run || !graph_serves(general->compiled, code->values, general->n_values))
        return compile_as(code, NULL, 1);
    code->tried = code->shares = true;
    code->run = general->run;
    return ST_OK;
}

static Status link_text(const char *text, const char *general, const int64_t *values, int n) {
    const uint64_t hash = hash_bytes(11, text, strlen(text)), of = hash_bytes(11, general, strlen(general));
    FlowCode *code = find_text(text, hash), *all = find_text(general, of);
    if (!all && !(all = add_text(general, of))) return ST_MEMORY;
    keep_code(all);
    if (!code && !(code = add_text(text, hash))) return ST_MEMORY;
    if (code->general || code->tried) return ST_OK;
    int64_t *const own = ARENA_ARRAY(code->arena, int64_t, n + 1);
    if (!own) return ST_MEMORY;
    memcpy(own, values, sizeof *own * (size_t)n);
    code->values = own;
    code->general = all;
    all->n_values = n;
    return ST_OK;
}

Status flow_code_share(const char *text, const char *general, const int64_t *values, int n) {
    if (n > FLOW_SYMBOLS) return ST_OK;
    pthread_mutex_lock(&codes_lock);
    const Status status = link_text(text, general, values, n);
    pthread_mutex_unlock(&codes_lock);
    return status;
}

/* The symbols of a launch: of a shared code the numbers, with the generator in its place. */
static void launch_symbols(const FlowCode *code, const Graph *graph, bool shares, uint64_t seed, uint64_t sequence,
                           int64_t *out) {
    out[0] = (int64_t)seed, out[1] = (int64_t)sequence;
    if (!shares) return;
    memcpy(out, code->values, sizeof *out * (size_t)code->general->n_values);
    if (!graph->seed) return;
    out[sym_expr(graph->env, graph->seed)->a] = (int64_t)seed;
    out[sym_expr(graph->env, graph->sequence)->a] = (int64_t)sequence;
}

/* Results that the op clones (flow_body.c) are cloned here, in that order: so sums have eager's order [G1]. */
static Status append_clones(Graph *graph, const Graph *plain) {
    bool cloned[FLOW_RESULTS];
    for (int i = 0; i < graph->outputs.n; i++) cloned[i] = flow_output_is_cloned(plain, i);
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
    const Graph *plain; /* the body with numbers */
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
    TRY(append_clones(graph, m->plain));
    TRY(check_tape(graph, want));
    TRY(passes_run(graph, "functionalize", &options));
    TRY(joint_append(graph, &(JointSpec){.want = want, .grad_defined = defined, .partial = partial}));
    const int n = graph->n_forward_outputs;
    graph->outputs.n -= n;
    memmove(graph->outputs.at, graph->outputs.at + n, sizeof *graph->outputs.at * (size_t)graph->outputs.n);
    graph->n_forward_inputs = graph->n_forward_outputs = 0;
    return ST_OK;
}

/* The inputs' layouts with numbers. */
static Status joint_layouts(const FlowCode *code, const Graph *graph, FlowJoint *joint) {
    const int n = graph->inputs.n;
    int64_t symbols[FLOW_SYMBOLS + 2] = {0}, sizes[MAX_RANK], strides[MAX_RANK];
    if (!(joint->layouts = ARENA_ARRAY(code->arena, const Meta *, n + 1))) return ST_MEMORY;
    launch_symbols(code, graph, joint->shares, 0, 0, symbols);
    for (int i = 0; i < n; i++) {
        const Meta *const meta = graph->inputs.at[i]->base.meta;
        for (int d = 0; d < meta->rank; d++) sizes[d] = sym_eval(graph->env, meta->sizes[d], symbols);
        for (int d = 0; d < meta->rank; d++) strides[d] = sym_eval(graph->env, meta->strides[d], symbols);
        joint->layouts[i] = meta_new(code->arena, NULL, meta->dtype, meta->device, sizes, strides, meta->rank);
        if (!joint->layouts[i]) return ST_MEMORY;
    }
    return ST_OK;
}

/* of: as in read_to_compile. */
static Status make_joint(FlowCode *code, const FlowCode *of, int64_t times, const Graph *plain, FlowJoint *joint) {
    CompileReport info = {0};
    JointMaking making = {joint, plain, &info};
    TRY(read_to_compile(code, of, times, &joint->graph));
    LOG(compile, INFO, "code of the gradients of a body of control flow, for %s sizes", of ? "any" : "these");
    if (compile_guarded(joint->graph, append_gradients, &making, &info) == ST_OK &&
        compile_passes(joint->graph, &info) == ST_OK)
        compile_plan(joint->graph->plan, &info, &joint->run);
    if (!joint->run) LOG(graph_breaks, INFO, "gradients of a body of control flow run op by op: %s", info.reason);
    return error_pending();
}

static FlowJoint *known_joint(const FlowCode *code, const FlowJointSignature *key) {
    FlowJoint *joint = code->joints;
    while (joint && memcmp(&joint->key, key, sizeof *key)) joint = joint->next;
    return joint;
}

static FlowJoint *add_joint(FlowCode *code, const FlowJointSignature *key) {
    FlowJoint *const joint = ARENA_NEW(code->arena, FlowJoint);
    if (joint) *joint = (FlowJoint){.next = code->joints, .key = *key};
    return joint;
}

/* The general text's. */
static FlowJoint *general_joint(const FlowCode *code, const FlowJointSignature *key) {
    FlowCode *const general = code->general;
    FlowJoint *joint = known_joint(general, key);
    if (joint || !(joint = add_joint(general, key))) return joint;
    for (int k = 0; k < COUNT_OF(thought) && !joint->run; k++)
        if (make_joint(general, code, thought[k], code->graph, joint) != ST_OK) error_clear();
    return general->joints = joint;
}

/* It, where it serves. */
static void share_joint(const FlowCode *code, const FlowJointSignature *key, FlowJoint *joint) {
    const FlowJoint *const all = code->shares ? general_joint(code, key) : NULL;
    if (!all || !all->run || !graph_serves(all->graph, code->values, code->general->n_values)) return;
    joint->shares = true;
    joint->run = all->run;
    joint->graph = all->graph;
}

static Status find_joint(FlowCode *code, const FlowJointSignature *key, FlowJoint **out) {
    FlowJoint *joint = known_joint(code, key);
    if (!joint) {
        if (!(joint = add_joint(code, key))) return ST_MEMORY;
        share_joint(code, key, joint);
        if (!joint->run) TRY(make_joint(code, NULL, 1, code->graph, joint));
        TRY(joint_layouts(code, joint->graph, joint));
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
    if (code && !code->graph) status = read_text(code, false, &code->graph);
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
    int64_t symbols[FLOW_SYMBOLS + 2];
    launch_symbols(code, code->shares ? code->general->compiled : NULL, code->shares, state->seed, state->sequence,
                   symbols);
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
        if (!(to[i] = flow_laid_out(joint->layouts[i], to[i]))) return error_pending();
    return ST_OK;
}

Status flow_code_back(const FlowCode *code, FlowBack *back, bool *done) {
    const FlowJointSignature key = joint_key(code, back);
    sn_tensor *in[2 * FLOW_OPERANDS + FLOW_RESULTS], *got[FLOW_OPERANDS] = {NULL};
    int64_t symbols[FLOW_SYMBOLS + 2];
    FlowJoint *joint = NULL;
    int at = 0;
    pthread_mutex_lock(&codes_lock);
    const Status status = find_joint((FlowCode *)code, &key, &joint);
    pthread_mutex_unlock(&codes_lock);
    *done = status == ST_OK && joint->run;
    if (!*done) return status;
    TRY(fill_inputs(joint, back, in));
    launch_symbols(code, joint->graph, joint->shares, back->seed, back->sequence, symbols);
    TRY(execute(joint->run, in, symbols, NULL, got));
    for (int i = 0; i < code->graph->inputs.n; i++) back->got[i] = back->want[i] ? got[at++] : NULL;
    return ST_OK;
}
