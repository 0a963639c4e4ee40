/* flow.c: Dinic's maximum flow: breadth-first levels from the source, then blocking flows along
 * rising levels, until the sink is out of reach; the minimum cut lies around what still reaches the
 * sink. Edges are kept in adjacency order of insertion, so the result is deterministic. Paths are
 * walked with an explicit stack: chains may be long. */
#include "passes/flow.h"

typedef struct Edge {
    int to, next;     /* next edge of the same vertex, -1: none */
    int64_t capacity; /* residual; the reverse edge is index ^ 1 */
} Edge;

struct Flow {
    Arena *arena;
    int n;
    int *head, *tail, *level, *cursor, *path;
    VEC(Edge) edges;
};

Flow *flow_new(Arena *arena, int n_vertices) {
    Flow *const flow = ARENA_NEW(arena, Flow);
    if (!flow) return NULL;
    *flow = (Flow){.arena = arena, .n = n_vertices};
    int **const tables[] = {&flow->head, &flow->tail, &flow->level, &flow->cursor, &flow->path};
    for (int i = 0; i < COUNT_OF(tables); i++)
        if (!(*tables[i] = ARENA_ARRAY(arena, int, n_vertices + 1))) return NULL;
    for (int i = 0; i < n_vertices; i++) flow->head[i] = flow->tail[i] = -1;
    return flow;
}

static void half_edge(Flow *flow, int from, int to, int64_t capacity) {
    const int index = flow->edges.n;
    const Edge edge = {to, -1, capacity};
    VEC_PUSH(flow->arena, &flow->edges, edge);
    if (flow->tail[from] < 0)
        flow->head[from] = index;
    else
        flow->edges.at[flow->tail[from]].next = index;
    flow->tail[from] = index;
}

void flow_edge(Flow *flow, int from, int to, int64_t capacity) {
    half_edge(flow, from, to, capacity);
    half_edge(flow, to, from, 0);
}

/* Distances from the source along edges with room; true if the sink is reached. */
static bool find_levels(Flow *flow, int source, int sink) {
    for (int i = 0; i < flow->n; i++) flow->level[i] = -1;
    int *const queue = flow->path;
    int n = 0;
    queue[n++] = source;
    flow->level[source] = 0;
    for (int i = 0; i < n; i++)
        for (int e = flow->head[queue[i]]; e >= 0; e = flow->edges.at[e].next) {
            const Edge *const edge = &flow->edges.at[e];
            if (edge->capacity <= 0 || flow->level[edge->to] >= 0) continue;
            flow->level[edge->to] = flow->level[queue[i]] + 1;
            queue[n++] = edge->to;
        }
    return flow->level[sink] >= 0;
}

/* Pushes what the path's edges can carry; returns how much of the path stays usable. */
static int push(Flow *flow, int n) {
    int64_t most = FLOW_MANY;
    for (int i = 0; i < n; i++) most = min_i64(most, flow->edges.at[flow->path[i]].capacity);
    int keep = n;
    for (int i = n - 1; i >= 0; i--) {
        Edge *const edge = &flow->edges.at[flow->path[i]];
        edge->capacity -= most;
        flow->edges.at[flow->path[i] ^ 1].capacity += most;
        if (edge->capacity <= 0) keep = i;
    }
    return keep;
}

static bool usable(const Flow *flow, int from, int e) {
    const Edge *const edge = &flow->edges.at[e];
    return edge->capacity > 0 && flow->level[edge->to] == flow->level[from] + 1;
}

static void block(Flow *flow, int source, int sink) {
    memcpy(flow->cursor, flow->head, sizeof(int) * (size_t)flow->n);
    for (int n = 0;;) {
        const int at = n ? flow->edges.at[flow->path[n - 1]].to : source;
        if (at == sink) {
            n = push(flow, n);
            continue;
        }
        int *const cursor = &flow->cursor[at];
        while (*cursor >= 0 && !usable(flow, at, *cursor)) *cursor = flow->edges.at[*cursor].next;
        if (*cursor >= 0) {
            flow->path[n++] = *cursor;
            continue;
        }
        if (!n) return;
        flow->level[at] = -1; /* a dead end */
        n--;
    }
}

/* What still reaches the sink is beyond the cut nearest to the sink: ties save the later value,
 * which recomputes less. */
const bool *flow_cut(Flow *flow, int source, int sink) {
    while (find_levels(flow, source, sink)) block(flow, source, sink);
    bool *const side = ARENA_ARRAY(flow->arena, bool, flow->n + 1);
    if (!side) return NULL;
    for (int i = 0; i < flow->n; i++) side[i] = true;
    int *const queue = flow->path;
    int n = 0;
    queue[n++] = sink;
    side[sink] = false;
    for (int i = 0; i < n; i++)
        for (int e = flow->head[queue[i]]; e >= 0; e = flow->edges.at[e].next) {
            const int from = flow->edges.at[e].to; /* the reverse of e leads from there to here */
            if (flow->edges.at[e ^ 1].capacity <= 0 || !side[from]) continue;
            side[from] = false;
            queue[n++] = from;
        }
    return side;
}
