/* cuda_graph.c: see cuda_graph.h. A step is compared by its key: addresses of its buffers and its numbers, of a copy
 * the bytes. Launches of one graph run one after another in whatever streams, so its arena and workspace serve all. */
#include "runtime/cuda/cuda_graph.h"

#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/cuda/cuda_code.h"
#include "runtime/device/launch_bind.h"
#include "runtime/device/repeat.h"
#include "runtime/device/watch.h"

enum { MOST_FAILURES = 2, MANY_CAPTURES = 64, FEW_WORDS = 1024 };

typedef struct GraphNode {
    CuGraphNode node;
    CuFunction function;
    int32_t check; /* kept for it; -1: none */
} GraphNode;

typedef struct GraphBlock { /* workspace */
    void *at;
    size_t bytes;
} GraphBlock;

typedef struct CudaGraph {
    CudaDevice *device;
    int n_steps;
    CuGraph graph; /* has the nodes; NULL: not captured */
    CuGraphExec exec;
    bool measured, foreign; /* foreign: it has nodes that are not in the list */
    int captures, failures;
    GraphNode *nodes;
    GraphBlock *blocks;
    int n_nodes, node_capacity, n_blocks, block_capacity;
    int *first_node, *first_block; /* by step, and behind the last one */
    /* What the nodes have now. */
    CuAddress word;
    int64_t *keys;
    int *key_at;              /* by step: where its part begins; the end behind the last one */
    CudaProgram *set_program; /* writes a number of the host's */
    CuFunction set_number;
} CudaGraph;

typedef enum RecordMode {
    RECORD_measure, /* launches are launches; what workspace they take is noted */
    RECORD_capture,
    RECORD_patch /* launches are arguments of nodes */
} RecordMode;

typedef struct CudaRecording {
    CudaGraph *graph;
    RecordMode mode;
    int node, block; /* the next ones */
    int32_t check;   /* of the next launch; -1: none */
    bool differs;    /* what is launched is not what was captured, or takes more workspace */
} CudaRecording;

HOT_THREAD_LOCAL CudaRecording *cuda_recording;
/* Over a device's `recorded` stream: its capture, and the word that launches on it are given. */
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

/* what a thread that records is asked ------------------------------------------------------------- */

CudaStream *cuda_recorded_stream(const CudaDevice *device) {
    const CudaRecording *const r = cuda_recording;
    return r && r->mode != RECORD_measure && r->graph->device == device ? &r->graph->device->recorded : NULL;
}

static bool record_block(CudaGraph *g, size_t bytes) {
    if (g->n_blocks == g->block_capacity) {
        const int capacity = 2 * g->block_capacity + 8;
        GraphBlock *const grown = mem_resize(g->blocks, (size_t)capacity * sizeof *grown);
        if (!grown) return false;
        g->blocks = grown, g->block_capacity = capacity;
    }
    g->blocks[g->n_blocks++] = (GraphBlock){NULL, bytes};
    return true;
}

bool cuda_recorded_block(const CudaDevice *device, size_t bytes, void **block) {
    CudaRecording *const r = cuda_recording;
    if (LIKELY(!r) || r->graph->device != device) return false;
    CudaGraph *const g = r->graph;
    *block = NULL;
    if (r->mode == RECORD_measure) return !record_block(g, bytes);
    if (r->block < g->n_blocks && g->blocks[r->block].at && bytes <= g->blocks[r->block].bytes)
        *block = g->blocks[r->block++].at;
    else {
        g->measured = false, r->differs = true;
        error_raise(ST_INTERNAL, "a launch that is recorded takes %zu bytes that the call before did not", bytes);
    }
    return true;
}

bool cuda_recorded_owns(const CudaDevice *device, const void *block) {
    const CudaRecording *const r = cuda_recording;
    if (LIKELY(!r) || r->graph->device != device || r->mode == RECORD_measure) return false;
    for (int i = 0; i < r->graph->n_blocks; i++)
        if (r->graph->blocks[i].at == block) return true;
    return false;
}

bool cuda_recorded_check(const CudaChecked *checked, int32_t *number) {
    CudaRecording *const r = cuda_recording;
    if (LIKELY(!r) || r->mode == RECORD_measure) return false;
    if (r->mode == RECORD_capture) r->check = cuda_checks_keep(checked);
    if (r->mode == RECORD_patch && r->node < r->graph->n_nodes) r->check = r->graph->nodes[r->node].check;
    *number = r->check;
    return true;
}

bool cuda_recorded_foreign(const CudaDevice *device) {
    CudaRecording *const r = cuda_recording;
    if (LIKELY(!r) || r->graph->device != device || r->mode != RECORD_patch) return true;
    r->differs = true;
    return false;
}

static GraphNode *add_node(CudaGraph *g) {
    if (g->n_nodes == g->node_capacity) {
        const int capacity = 2 * g->node_capacity + 16;
        GraphNode *const grown = mem_resize(g->nodes, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        g->nodes = grown, g->node_capacity = capacity;
    }
    return &g->nodes[g->n_nodes++];
}

/* The launch is the newest thing in the captured stream, which says its node. */
static Status record_launch(CudaRecording *r, const CudaStart *start) {
    CudaDevice *const device = r->graph->device;
    CuCaptureStatus state = 0;
    const CuGraphNode *last = NULL;
    size_t n = 0;
    TRY(cuda_answer(device, "capturing",
                    device->driver->StreamGetCaptureInfo(device->recorded.handle, &state, NULL, NULL, &last, &n)));
    if (state != CU_capture_active || n != 1) return error_raise(ST_INTERNAL, "the capture of a stream has ended");
    GraphNode *const node = add_node(r->graph);
    if (!node) return ST_MEMORY;
    *node = (GraphNode){*last, start->function, r->check};
    r->check = -1;
    return ST_OK;
}

static Status patch_node(CudaRecording *r, const CudaStart *start) {
    CudaGraph *const g = r->graph;
    const GraphNode *const node = r->node < g->n_nodes ? &g->nodes[r->node] : NULL;
    r->differs |= !node || node->function != start->function;
    r->node++;
    if (r->differs) return ST_OK;
    const CuKernelNode given = {.func = start->function,
                                .gridDimX = start->blocks,
                                .gridDimY = 1,
                                .gridDimZ = 1,
                                .blockDimX = start->threads,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .sharedMemBytes = start->shared_bytes,
                                .kernelParams = start->values};
    const CuResult result = g->device->driver->GraphExecKernelNodeSetParams(g->exec, node->node, &given);
    return cuda_answer(g->device, "a graph's arguments", result);
}

Status cuda_recorded_launch(CudaDevice *device, const CudaStart *start) {
    CudaRecording *const r = cuda_recording;
    if (r->mode == RECORD_patch) return patch_node(r, start);
    TRY(cuda_launch_now(device, start));
    return r->mode == RECORD_capture ? record_launch(r, start) : ST_OK;
}

/* keys ------------------------------------------------------------------------------------------ */

static bool is_mine(const Launch *launch, const CudaGraph *g, int s) { return launch->e->rows[s] == &g->device->row; }

static void *value_address(const Launch *launch, const PlanValue *value) {
    char *const at = launch->slots[value->slot];
    return at ? at + launch_int(launch, value->offset) * dtype_bytes(value->base.meta->dtype) : NULL;
}

/* Where it goes, and its bytes. */
static void number_key(const Launch *launch, const Step *step, int64_t *key) {
    const PlanValue *const from = plan_value(step->args[0].val);
    key[0] = (int64_t)(intptr_t)value_address(launch, step->outs[0]);
    key[1] = 0;
    memcpy(&key[1], value_address(launch, from), (size_t)dtype_bytes(from->base.meta->dtype));
}

static int key_words(const Launch *launch, int s) {
    const Plan *const plan = launch->e->plan;
    const Step *const step = &plan->steps.at[s];
    if (step->kind == STEP_kernel) return step->kernel->n_bufs + step->kernel->n_params;
    return step->kind == STEP_copy ? 2 : plan->slots.n + sym_free_count(plan->env) + plan->floats.n;
}

/* A native step's is all that a call has. */
static void native_key(const Launch *launch, int64_t *key) {
    const Plan *const plan = launch->e->plan;
    const int n_symbols = sym_free_count(plan->env);
    memcpy(key, launch->slots, (size_t)plan->slots.n * sizeof *key);
    if (n_symbols) memcpy(key + plan->slots.n, launch->symbols, (size_t)n_symbols * sizeof *key);
    if (plan->floats.n) memcpy(key + plan->slots.n + n_symbols, launch->floats, (size_t)plan->floats.n * sizeof *key);
}

static Status fill_key(const Launch *launch, int s, int64_t *key) {
    const Step *const step = &launch->e->plan->steps.at[s];
    if (step->kind == STEP_copy)
        number_key(launch, step, key);
    else if (step->kind == STEP_native)
        native_key(launch, key);
    if (step->kind != STEP_kernel) return ST_OK;
    Bound bound;
    const bool made = bound_begin(&bound, step->kernel);
    if (made) {
        bound_fill(launch, step, &bound);
        memcpy(key, bound.bufs, (size_t)step->kernel->n_bufs * sizeof *key);
        memcpy(key + step->kernel->n_bufs, bound.params, (size_t)step->kernel->n_params * sizeof *key);
    }
    bound_end(&bound);
    return made ? ST_OK : ST_MEMORY;
}

/* Writes the call's key over the one before. *changed: they differ. */
static Status renew_key(const Launch *launch, CudaGraph *g, int s, bool *changed) {
    int64_t few[FEW_WORDS];
    const int n = g->key_at[s + 1] - g->key_at[s];
    int64_t *const now = n <= FEW_WORDS ? few : mem_alloc((size_t)n * sizeof *now), *const old = g->keys + g->key_at[s];
    Status status = now ? fill_key(launch, s, now) : ST_MEMORY;
    if (status == ST_OK && (*changed = memcmp(now, old, (size_t)n * sizeof *now) != 0))
        memcpy(old, now, (size_t)n * sizeof *now);
    if (now != few) mem_free(now);
    return status;
}

/* watched steps ------------------------------------------------------------------------------------- */

static StepWatch watch_step_of(const Launch *launch, const CudaGraph *g, int s) {
    return watch_step_begin(launch->e->function, step_name(&launch->e->plan->steps.at[s]), &g->device->row);
}

static StepWatch watch_graph(const Launch *launch, const CudaGraph *g) {
    char name[40];
    int n = 0;
    for (int s = 0; s < g->n_steps; s++) n += is_mine(launch, g, s);
    snprintf(name, sizeof name, "graph of %d steps", n);
    return watch_step_begin(launch->e->function, name, &g->device->row);
}

/* steps ----------------------------------------------------------------------------------------- */

static Status set_number(const Launch *launch, CudaGraph *g, const Step *step) {
    int64_t key[2];
    int bytes = dtype_bytes(step->outs[0]->base.meta->dtype);
    number_key(launch, step, key);
    const CudaStart start = {g->set_number, 1, 1, 0, (void *[]){&key[0], &key[1], &bytes}};
    return cuda_launch_function(g->device, &start);
}

static Status run_step(Launch *launch, CudaGraph *g, int s) {
    const Step *const step = &launch->e->plan->steps.at[s];
    if (step->kind == STEP_kernel) return cuda_launch(launch, s);
    return step->kind == STEP_copy ? set_number(launch, g, step) : launch_native(launch, step);
}

/* Runs one step of a call that is no single launch, and times it where somebody watches. */
static Status run_measured(Launch *launch, CudaGraph *g, int s) {
    __attribute__((cleanup(watch_step_end))) StepWatch watched =
        watch_is_on() ? watch_step_of(launch, g, s) : (StepWatch){0};
    return run_step(launch, g, s);
}

static Status run_all(Launch *launch, CudaRecording *r) {
    Status status = ST_OK;
    CudaGraph *const g = r->graph;
    cuda_recording = r;
    for (int s = 0; s < g->n_steps && status == ST_OK; s++) {
        g->first_node[s] = g->n_nodes, g->first_block[s] = r->block;
        if (!is_mine(launch, g, s)) continue;
        status = r->mode == RECORD_measure ? run_measured(launch, g, s) : run_step(launch, g, s);
    }
    g->first_node[g->n_steps] = g->n_nodes;
    cuda_recording = NULL;
    return status;
}

static void drop_blocks(CudaGraph *g) {
    for (int i = 0; i < g->n_blocks; i++)
        if (g->blocks[i].at) g->device->row.memory.free(&g->device->row.memory, g->blocks[i].at, g->blocks[i].bytes);
    g->n_blocks = 0;
}

/* The call runs, and its workspace is taken for good. */
static Status measure(Launch *launch, CudaGraph *g) {
    CudaRecording r = {.graph = g, .mode = RECORD_measure, .check = -1};
    drop_blocks(g);
    TRY(run_all(launch, &r));
    for (int i = 0; i < g->n_blocks; i++) {
        g->blocks[i].at = g->device->row.memory.allocate(&g->device->row.memory, g->blocks[i].bytes);
        if (!g->blocks[i].at) return error_pending();
    }
    g->measured = true;
    return ST_OK;
}

/* capturing ------------------------------------------------------------------------------------- */

static void forget_nodes(CudaGraph *g) {
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].check >= 0) cuda_checks_unkeep(g->nodes[i].check);
    g->n_nodes = 0;
}

static void drop_graph(CudaGraph *g) {
    const Driver *const driver = g->device->driver;
    if (g->exec) driver->GraphExecDestroy(g->exec);
    if (g->graph) driver->GraphDestroy(g->graph);
    g->exec = NULL, g->graph = NULL;
}

/* None of the device's list: nobody waits for it. */
static Status open_recorded(CudaDevice *device) {
    CudaStream *const stream = &device->recorded;
    if (stream->handle) return ST_OK;
    stream->base.row = &device->row, stream->device = device;
    return cuda_answer(device, "a stream", device->driver->StreamCreate(&stream->handle, CU_stream_non_blocking));
}

static Status capture_locked(Launch *launch, CudaGraph *g, CuAddress word, CuGraph *out) {
    CudaDevice *const device = g->device;
    const Driver *const driver = device->driver;
    CudaRecording r = {.graph = g, .mode = RECORD_capture, .check = -1};
    TRY(open_recorded(device));
    device->recorded.checks.word = word;
    TRY(cuda_answer(device, "capturing", driver->StreamBeginCapture(device->recorded.handle, CU_capture_thread_local)));
    const Status status = run_all(launch, &r);
    const CuResult ended = driver->StreamEndCapture(device->recorded.handle, out);
    TRY(status);
    return cuda_answer(device, "capturing", ended);
}

static Status count_foreign(CudaGraph *g, CuGraph graph) {
    size_t n = 0;
    TRY(cuda_answer(g->device, "a graph", g->device->driver->GraphGetNodes(graph, NULL, &n)));
    g->foreign = n != (size_t)g->n_nodes;
    return ST_OK;
}

/* Where a step failed there may be a graph of those before it. */
static Status capture(Launch *launch, CudaGraph *g, CuAddress word, CuGraph *out) {
    *out = NULL;
    forget_nodes(g);
    g->captures++;
    pthread_mutex_lock(&recording);
    Status status = capture_locked(launch, g, word, out);
    pthread_mutex_unlock(&recording);
    if (status == ST_OK) status = count_foreign(g, *out);
    if (status != ST_OK && *out) g->device->driver->GraphDestroy(*out);
    return status;
}

/* A graph with the same nodes gives the exec its arguments; another one takes its place. */
static Status update_exec(CudaGraph *g, CuGraph graph) {
    const Driver *const driver = g->device->driver;
    CuGraphUpdate update;
    if (g->exec && driver->GraphExecUpdate(g->exec, graph, &update) == CU_success) {
        driver->GraphDestroy(graph);
        return ST_OK;
    }
    drop_graph(g);
    g->graph = graph;
    return cuda_answer(g->device, "a graph", driver->GraphInstantiateWithFlags(&g->exec, graph, 0));
}

static Status record(Launch *launch, CudaGraph *g, CuAddress word) {
    CuGraph graph;
    bool changed;
    if (g->exec && word != g->word) /* of one exec the launches are ordered, not of two */
        TRY(cuda_answer(g->device, "the wait", g->device->driver->CtxSynchronize()));
    TRY(capture(launch, g, word, &graph));
    if (!g->foreign) drop_graph(g); /* its nodes are named by the graph that it was made of */
    TRY(update_exec(g, graph));
    for (int s = 0; s < g->n_steps; s++)
        if (is_mine(launch, g, s)) TRY(renew_key(launch, g, s, &changed));
    g->word = word;
    return ST_OK;
}

/* patching -------------------------------------------------------------------------------------- */

/* The step with the addresses and numbers of this call. *same: it launches what was captured. */
static Status patch_step(Launch *launch, CudaGraph *g, int s, bool *same) {
    CudaRecording r = {
        .graph = g, .mode = RECORD_patch, .node = g->first_node[s], .block = g->first_block[s], .check = -1};
    cuda_recording = &r;
    const Status status = run_step(launch, g, s);
    cuda_recording = NULL;
    *same = !r.differs && r.node == g->first_node[s + 1];
    if (g->measured) return status;
    error_clear(); /* it takes more workspace: this call says how much */
    return ST_OK;
}

static Status patch_locked(Launch *launch, CudaGraph *g, CuAddress word, bool *same) {
    const bool all = word != g->word; /* nearly all nodes have it */
    g->device->recorded.checks.word = word;
    for (int s = 0; s < g->n_steps && *same; s++) {
        bool changed = false;
        if (!is_mine(launch, g, s)) continue;
        TRY(renew_key(launch, g, s, &changed));
        if (!changed && !all) continue;
        if (g->foreign)
            *same = false;
        else
            TRY(patch_step(launch, g, s, same));
    }
    if (*same) g->word = word;
    return ST_OK;
}

static Status patch(Launch *launch, CudaGraph *g, CuAddress word, bool *same) {
    *same = true;
    pthread_mutex_lock(&recording);
    const Status status = patch_locked(launch, g, word, same);
    pthread_mutex_unlock(&recording);
    return status;
}

/* calls ----------------------------------------------------------------------------------------- */

static void drop(void *recorded) {
    CudaGraph *const g = recorded;
    CudaDevice *const device = g->device;
    if (!device->lost && device->driver->CtxPushCurrent(device->context) == CU_success) {
        device->driver->CtxSynchronize();
        drop_graph(g);
        cuda_leave(device);
    }
    forget_nodes(g);
    drop_blocks(g);
    if (g->set_program) cuda_program_release(g->set_program);
    mem_free(g->nodes);
    mem_free(g->blocks);
    mem_free(g->first_node);
    mem_free(g->first_block);
    mem_free(g->keys);
    mem_free(g->key_at);
    mem_free(g);
}

static const char *const set_source = "KERNEL set_number(unsigned char *to, unsigned long long bits, int n) {\n"
                                      "    for (int i = 0; i < n; i++) to[i] = (unsigned char)(bits >> 8 * i);\n"
                                      "}\n";

static Status make_set(CudaGraph *g) {
    Text source = {0};
    text_puts(&source, set_source);
    Status status = source.at ? cuda_program(g->device, "set_number", &source, &g->set_program) : ST_MEMORY;
    text_free(&source);
    if (status != ST_OK) return status;
    return cuda_program_function(g->device, g->set_program, "set_number", &g->set_number);
}

static Status make_keys(const Launch *launch, CudaGraph *g) {
    bool copies = false;
    for (int s = 0; s < g->n_steps; s++) {
        const bool mine = is_mine(launch, g, s);
        g->key_at[s + 1] = g->key_at[s] + (mine ? key_words(launch, s) : 0);
        copies |= mine && launch->e->plan->steps.at[s].kind == STEP_copy;
    }
    g->keys = mem_zero(((size_t)g->key_at[g->n_steps] + 1) * sizeof *g->keys);
    if (!g->keys) return ST_MEMORY;
    return copies ? make_set(g) : ST_OK;
}

static Status make(const Launch *launch, Repeat *repeat, CudaGraph **out) {
    CudaGraph *const g = *out = repeat->recorded = mem_zero(sizeof *g);
    if (!g) return ST_MEMORY;
    repeat->drop = drop;
    g->device = cuda_device_of(repeat->row);
    g->n_steps = launch->e->plan->steps.n;
    const size_t n = (size_t)g->n_steps + 1;
    g->first_node = mem_zero(n * sizeof *g->first_node);
    g->first_block = mem_zero(n * sizeof *g->first_block);
    g->key_at = mem_zero(n * sizeof *g->key_at);
    return g->first_node && g->first_block && g->key_at ? make_keys(launch, g) : ST_MEMORY;
}

static bool has_checks(const CudaGraph *g) {
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].check >= 0) return true;
    return false;
}

static Status launch_graph(const Launch *launch, CudaGraph *g, CudaStream *stream, Repeat *repeat) {
    __attribute__((cleanup(watch_step_end))) StepWatch watched =
        watch_is_on() ? watch_graph(launch, g) : (StepWatch){0};
    if (has_checks(g)) cuda_checks_may_fail(stream);
    TRY(cuda_answer(g->device, "a graph's launch", g->device->driver->GraphLaunch(g->exec, stream->handle)));
    execute_counts()->launches++;
    atomic_fetch_add(&repeat->launches, 1);
    return cuda_launched(stream);
}

/* What cannot be captured has run nothing: the call runs step by step, and so do all after the second time. */
static Status not_recorded(Launch *launch, CudaGraph *g, Repeat *repeat) {
    if (g->device->lost) return error_pending();
    drop_graph(g);
    g->failures += g->measured; /* else it took more workspace than before */
    if (g->failures == MOST_FAILURES) repeat_never(repeat, "recording it failed: %s", error_slot()->message);
    error_clear();
    g->measured = false;
    return measure(launch, g);
}

static Status repeat_entered(Launch *launch, CudaGraph *g, Repeat *repeat) {
    CudaStream *const stream = cuda_stream(g->device);
    bool same = false;
    if (!g->measured) return measure(launch, g);
    if (g->exec) TRY(patch(launch, g, stream->checks.word, &same));
    if (!g->measured) return measure(launch, g);
    if (!same && record(launch, g, stream->checks.word) != ST_OK) return not_recorded(launch, g, repeat);
    if (!g->foreign && g->captures > MANY_CAPTURES && 2 * g->captures > atomic_load(&repeat->launches))
        repeat_never(repeat, "what it launches differs from call to call: it was recorded %d times", g->captures);
    return launch_graph(launch, g, stream, repeat);
}

Status cuda_repeat(Launch *launch, Repeat *repeat) {
    CudaGraph *g = repeat->recorded;
    CudaDevice *const device = cuda_device_of(repeat->row);
    TRY(cuda_enter(device));
    Status status = g ? ST_OK : make(launch, repeat, &g);
    if (status == ST_OK) status = repeat_entered(launch, g, repeat);
    cuda_leave(device);
    return status;
}
