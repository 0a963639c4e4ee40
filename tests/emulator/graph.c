/* graph.c: graphs of the emulated driver. While a stream is captured its work goes to a graph and runs nowhere; an exec
 * is a copy of it whose nodes can be given other arguments, and a launch puts copies of these into a stream.
 *
 * As a driver, and a little stricter: a call that could wait for the device or change memory (driver.c names them) is
 * refused to a thread that captures and ends the capture, as does a wait for the captured stream; an exec runs once at
 * a time, in whatever streams it is launched; a node keeps its function. One stream makes a graph: its nodes are a
 * chain, and copies from or to pageable memory are none of them. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/gpu.h"
#include "tests/emulator/planted.h"

enum { NODES = 1 << 12, GRAPHS = 1 << 10, MODE_GLOBAL = 0, MODE_RELAXED = 2 };

typedef struct GpuNode {
    GpuWork work;
} GpuNode;

struct GpuGraph {
    Gpu *gpu;
    GpuNode *nodes[NODES];
    int n;
};

struct GpuExec {
    Gpu *gpu;
    GpuNode *of[NODES]; /* the graph's nodes, by which its own are named */
    GpuWork works[NODES];
    int n;
    GpuRecord *last; /* of the newest launch's end; NULL: none yet */
};

struct GpuCapture {
    GpuStream *stream;
    GpuGraph *graph;
    CuCaptureMode mode;
    pthread_t thread;
    bool spoiled;
};

static GpuGraph *graphs[GRAPHS];
static GpuExec *execs[GRAPHS];
static GpuCapture *captures[16];

static void *put(void **places, int capacity, void *what) {
    for (int i = 0; what && i < capacity; i++)
        if (!places[i]) return places[i] = what;
    free(what);
    return NULL;
}

static void **place(void **places, int capacity, const void *what) {
    for (int i = 0; what && i < capacity; i++)
        if (places[i] == what) return &places[i];
    return NULL;
}

static GpuGraph *graph_of(CuGraph handle) {
    void **const at = place((void **)graphs, GRAPHS, handle);
    return at ? *at : NULL;
}

static GpuExec *exec_of(CuGraphExec handle) {
    void **const at = place((void **)execs, GRAPHS, handle);
    return at ? *at : NULL;
}

/* A launch of its own, with the same arguments. */
static CuResult copy_work(const GpuWork *from, GpuWork *to) {
    *to = *from;
    if (!from->launch) return CU_success;
    GpuLaunch request = *from->launch;
    request.arguments = NULL;
    return launch_new(request, from->launch->arguments, &to->launch);
}

static void drop_work(GpuWork *work) {
    if (work->launch) launch_free(work->launch);
}

/* capturing -------------------------------------------------------------------------------------- */

bool capture_refuses(void) {
    bool refused = false;
    for (int i = 0; i < (int)(sizeof captures / sizeof *captures); i++) {
        GpuCapture *const c = captures[i];
        if (!c || c->mode == MODE_RELAXED) continue;
        if (c->mode == MODE_GLOBAL || pthread_equal(c->thread, pthread_self())) c->spoiled = refused = true;
    }
    if (refused) emulator_tell("a call that is not permitted while a stream is captured");
    return refused;
}

CuResult capture_spoil(GpuCapture *capture) {
    emulator_tell("a call that a captured stream does not take: a wait, an event, or a copy of pageable memory");
    capture->spoiled = true;
    return CU_capture_unsupported;
}

CuResult capture_begin(GpuStream *stream, Gpu *gpu, CuCaptureMode mode) {
    if (*stream_capture(stream) || mode < 0 || mode > MODE_RELAXED) return CU_invalid_value;
    GpuCapture *const capture = put((void **)captures, sizeof captures / sizeof *captures, calloc(1, sizeof *capture));
    if (!capture) return CU_out_of_memory;
    *capture = (GpuCapture){.stream = stream, .mode = mode, .thread = pthread_self()};
    capture->graph = put((void **)graphs, GRAPHS, calloc(1, sizeof *capture->graph));
    if (capture->graph) capture->graph->gpu = gpu, emulator_counts.held_graphs++;
    capture->spoiled = !capture->graph;
    *stream_capture(stream) = capture;
    return CU_success;
}

CuResult capture_end(GpuStream *stream, CuGraph *graph) {
    GpuCapture *const capture = *stream_capture(stream);
    *graph = NULL;
    if (!capture) return CU_invalid_value;
    if (capture->mode != MODE_RELAXED && !pthread_equal(capture->thread, pthread_self())) return GPU_wrong_thread;
    const bool spoiled = capture->spoiled;
    if (!spoiled)
        *graph = (CuGraph)capture->graph;
    else if (capture->graph)
        graph_destroy((CuGraph)capture->graph);
    *stream_capture(stream) = NULL;
    *place((void **)captures, sizeof captures / sizeof *captures, capture) = NULL;
    free(capture);
    return spoiled ? CU_capture_invalidated : CU_success;
}

CuResult capture_push(GpuCapture *capture, GpuWork *work) {
    GpuGraph *const graph = capture->graph;
    GpuNode *const node = !capture->spoiled && graph->n < NODES ? calloc(1, sizeof *node) : NULL;
    if (!node) {
        drop_work(work);
        return CU_capture_invalidated;
    }
    node->work = *work;
    graph->nodes[graph->n++] = node;
    return CU_success;
}

CuResult capture_info(GpuCapture *capture, CuCaptureStatus *status, const CuGraphNode **last, size_t *n) {
    *status = !capture ? 0 : capture->spoiled ? 2 : CU_capture_active;
    if (*status != CU_capture_active) return CU_success;
    const GpuGraph *const graph = capture->graph;
    *n = graph->n > 0;
    *last = graph->n ? (const CuGraphNode *)&graph->nodes[graph->n - 1] : NULL;
    return CU_success;
}

/* graphs ----------------------------------------------------------------------------------------- */

CuResult graph_nodes(CuGraph handle, CuGraphNode *nodes, size_t *n) {
    const GpuGraph *const graph = graph_of(handle);
    if (!graph) return CU_invalid_value;
    for (size_t i = 0; nodes && i < *n; i++) nodes[i] = i < (size_t)graph->n ? (CuGraphNode)graph->nodes[i] : NULL;
    if (!nodes || *n > (size_t)graph->n) *n = (size_t)graph->n;
    return CU_success;
}

CuResult graph_destroy(CuGraph handle) {
    GpuGraph *const graph = graph_of(handle);
    if (!graph) return CU_invalid_value;
    for (int i = 0; i < graph->n; i++) {
        drop_work(&graph->nodes[i]->work);
        free(graph->nodes[i]);
    }
    *place((void **)graphs, GRAPHS, graph) = NULL;
    emulator_counts.held_graphs--;
    free(graph);
    return CU_success;
}

CuResult graph_instantiate(CuGraph handle, CuGraphExec *out) {
    const GpuGraph *const graph = graph_of(handle);
    if (!graph) return CU_invalid_value;
    GpuExec *const exec = put((void **)execs, GRAPHS, calloc(1, sizeof *exec));
    if (!exec) return CU_out_of_memory;
    emulator_counts.held_graphs++;
    exec->gpu = graph->gpu, exec->n = graph->n;
    for (int i = 0; i < graph->n; i++) {
        exec->of[i] = graph->nodes[i];
        copy_work(&graph->nodes[i]->work, &exec->works[i]);
    }
    *out = (CuGraphExec)exec;
    return CU_success;
}

CuResult graph_set_kernel(CuGraphExec handle, CuGraphNode node, const CuKernelNode *k) {
    GpuExec *const exec = exec_of(handle);
    int at = 0;
    while (exec && at < exec->n && (CuGraphNode)exec->of[at] != node) at++;
    if (!exec || at == exec->n || exec->works[at].kind != WORK_kernel || k->extra) return CU_invalid_value;
    const GpuLaunch request = {.kernel = code_kernel(k->func),
                               .grid = {k->gridDimX, k->gridDimY, k->gridDimZ},
                               .block = {k->blockDimX, k->blockDimY, k->blockDimZ},
                               .dynamic = k->sharedMemBytes};
    if (request.kernel != exec->works[at].launch->kernel) return CU_invalid_value;
    if (planted(PLANTED_graph_stale)) return CU_success;
    GpuLaunch *launch;
    const CuResult result = launch_new(request, k->kernelParams, &launch);
    if (result != CU_success) return result;
    launch_free(exec->works[at].launch);
    exec->works[at].launch = launch;
    return CU_success;
}

static bool same_kind(const GpuWork *a, const GpuWork *b) {
    return a->kind == b->kind && (!a->launch || a->launch->kernel == b->launch->kernel);
}

CuResult graph_update(CuGraphExec handle, CuGraph from, CuGraphUpdate *update) {
    GpuExec *const exec = exec_of(handle);
    const GpuGraph *const graph = graph_of(from);
    if (!exec || !graph) return CU_invalid_value;
    bool same = exec->n == graph->n;
    for (int i = 0; same && i < exec->n; i++) same = same_kind(&exec->works[i], &graph->nodes[i]->work);
    *update = (CuGraphUpdate){.result = !same};
    for (int i = 0; same && i < exec->n; i++) {
        drop_work(&exec->works[i]);
        copy_work(&graph->nodes[i]->work, &exec->works[i]);
    }
    return same ? CU_success : CU_graph_update_failure;
}

CuResult graph_launch(CuGraphExec handle, GpuStream *stream) {
    GpuExec *const exec = exec_of(handle);
    if (!exec) return CU_invalid_value;
    if (*stream_capture(stream)) return capture_spoil(*stream_capture(stream));
    CuResult result = record_wait(exec->last, stream);
    for (int i = 0; i < exec->n && result == CU_success; i++) {
        GpuWork work;
        result = copy_work(&exec->works[i], &work);
        if (result == CU_success) result = stream_push(stream, work);
    }
    emulator_counts.graphs++;
    return result == CU_success ? record_push(&exec->last, stream) : result;
}

/* What was launched of it runs to its end. */
CuResult graph_exec_destroy(CuGraphExec handle) {
    GpuExec *const exec = exec_of(handle);
    if (!exec) return CU_invalid_value;
    for (int i = 0; i < exec->n; i++) drop_work(&exec->works[i]);
    record_release(exec->last);
    *place((void **)execs, GRAPHS, exec) = NULL;
    emulator_counts.held_graphs--;
    free(exec);
    return CU_success;
}
