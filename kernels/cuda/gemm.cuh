/* gemm.cuh: a core of products C = A B of any strides: each element is one fma chain from +0 over ascending k, cut every
 * 4,096: the first chunk's sum stands, later ones are added [B2.3]. So a tile's size changes no bit. Before this text
 * stands what the core is for (runtime/cuda/cuda_gemm_core.c):
 *
 *   Element, Value               the operands' type in memory, and the one that is computed in
 *   VALUE_OF ELEMENT_OF          from one to the other;  CHAIN ADD: a step of the chain, the sum of two chunks
 *   TILE_M TILE_N TILE_K         a block's part of C, and the depth of A and B that is in shared memory at a time
 *   THREAD_M THREAD_N            a thread's part of it
 *   LEFT RIGHT                   how A and B lie, an enum Lies
 *
 * The next TILE_K is on its way from memory to registers while the last is multiplied; shared memory holds two, so one
 * barrier a step is enough. A warp is 4 x 8 threads, each of which has pieces of up to 4 x 4 elements: its reads of
 * shared memory are of 16 bytes, a quarter of a warp or more shares each. What lies outside of the operands counts as -0
 * in A and +0 in B: their product, -0, changes no sum. */
enum { CHUNK = 4096, THREADS = TILE_M / THREAD_M * (TILE_N / THREAD_N) };
/* Of an operand: x is its row of C (A's) or its column (B's). ALONG_K, ALONG_X: four elements along k or x are side by
 * side, aligned, and all of them exist or none. */
enum Lies { ALONG_K, ALONG_X, ANYHOW };

struct Gemm {
    int64_t m, n, k;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row, c_col;
};

struct Place {
    int x, k;
};
/* An operand's part of the tile, and what this thread holds of its next TILE_K: ITEMS quads, or single elements, each as
 * far from the one before. Neighbouring threads have neighbouring elements, anyhow as well. */
template <int LIES, int TILE> struct Side {
    enum { WIDTH = LIES == ANYHOW ? 1 : 4, ITEMS = TILE * TILE_K / WIDTH / THREADS };
    static_assert(ITEMS * WIDTH * THREADS == TILE * TILE_K, "each thread holds as much");
    const Element *from;  /* the first item */
    int64_t hop, step;    /* to the next one; to the first one of the next TILE_K */
    Place first, next;    /* in the tile: where the first item is, and how far the next */
    int x_left;           /* how many x exist, at most TILE */
    Element nothing, held[ITEMS][WIDTH];
};

template <int LIES, int TILE>
INLINE Side<LIES, TILE> side_of(const Element *from, int64_t x, int64_t x_count, int64_t x_step, int64_t k_step,
                                Element nothing) {
    const int along_x = LIES == ALONG_X ? 4 : 1, along_k = LIES == ALONG_K ? 4 : 1;
    const bool k_first = LIES == ALONG_K || (LIES == ANYHOW && k_step == 1);
    const int per_row = k_first ? TILE_K / along_k : TILE / along_x; /* items until the other index goes on */
    const int major = threadIdx.x / per_row, minor = threadIdx.x % per_row, rows = THREADS / per_row;
    Side<LIES, TILE> side;
    side.first.x = k_first ? major : minor * along_x, side.next.x = k_first ? rows : 0;
    side.first.k = k_first ? minor * along_k : major, side.next.k = k_first ? 0 : rows;
    side.from = from + (x + side.first.x) * x_step + side.first.k * k_step;
    side.hop = side.next.x * x_step + side.next.k * k_step, side.step = TILE_K * k_step;
    side.x_left = (int)least_of(TILE, x_count - x), side.nothing = nothing;
    return side;
}

template <int N> struct alignas(N * sizeof(Element) < 16 ? N * sizeof(Element) : 16) Item {
    Element at[N];
};

template <int LIES, int TILE> INLINE void fetch(Side<LIES, TILE> &side, int64_t k_left) {
    const int k_count = (int)least_of(TILE_K, k_left);
#pragma unroll
    for (int i = 0; i < side.ITEMS; i++) {
        const bool there = side.first.x + i * side.next.x < side.x_left && side.first.k + i * side.next.k < k_count;
        Item<Side<LIES, TILE>::WIDTH> item;
        if (there) item = *(const Item<Side<LIES, TILE>::WIDTH> *)(side.from + i * side.hop);
#pragma unroll
        for (int u = 0; u < side.WIDTH; u++) side.held[i][u] = there ? item.at[u] : side.nothing;
    }
    side.from += side.step;
}

template <int LIES, int TILE> INLINE void stage(const Side<LIES, TILE> &side, Value (*shared)[TILE + 4]) {
#pragma unroll
    for (int i = 0; i < side.ITEMS; i++)
#pragma unroll
        for (int u = 0; u < side.WIDTH; u++) {
            const int x = side.first.x + i * side.next.x, k = side.first.k + i * side.next.k;
            shared[LIES == ALONG_K ? k + u : k][LIES == ALONG_X ? x + u : x] = VALUE_OF(side.held[i][u]);
        }
}

/* A thread's rows (columns): pieces of up to four side by side; those of a warp's threads lie side by side, too. */
template <int COUNT, int THREADS_ACROSS> struct Pieces {
    enum { SIZE = COUNT < 4 ? COUNT : 4, DISTANCE = SIZE * THREADS_ACROSS, WARP = COUNT * THREADS_ACROSS };
};
typedef Pieces<THREAD_M, 4> Rows;
typedef Pieces<THREAD_N, 8> Columns;
template <class P> INLINE int offset_of(int u) { return u / P::SIZE * P::DISTANCE + u % P::SIZE; }

template <int N> struct alignas(N * sizeof(Value) < 16 ? N * sizeof(Value) : 16) Few {
    Value at[N];
};
template <class P, int COUNT> INLINE void read_pieces(const Value *shared, Value (&out)[COUNT]) {
#pragma unroll
    for (int u = 0; u < COUNT; u += P::SIZE) {
        const Few<P::SIZE> few = *(const Few<P::SIZE> *)(shared + offset_of<P>(u));
#pragma unroll
        for (int v = 0; v < P::SIZE; v++) out[u + v] = few.at[v];
    }
}

typedef Value Sums[THREAD_M][THREAD_N];

INLINE void clear(Sums &sums) {
#pragma unroll
    for (int u = 0; u < THREAD_M; u++)
#pragma unroll
        for (int v = 0; v < THREAD_N; v++) sums[u][v] = 0;
}

/* Of a tile's TILE_K products, all are computed, in one run of code: those behind the last k change no sum. A device on
 * which each costs (the tests' emulated one) says before this text how many it computes, at least k_left. */
#ifndef PRODUCTS_OF
#define PRODUCTS_OF(k_left) TILE_K
#endif
INLINE void multiply(const Value (*left)[TILE_M + 4], const Value (*right)[TILE_N + 4], int i, int j, int64_t k_left,
                     Sums &sums) {
#pragma unroll
    for (int q = 0; q < PRODUCTS_OF(k_left); q++) {
        Value x[THREAD_M], y[THREAD_N];
        read_pieces<Rows>(&left[q][i], x);
        read_pieces<Columns>(&right[q][j], y);
#pragma unroll
        for (int u = 0; u < THREAD_M; u++)
#pragma unroll
            for (int v = 0; v < THREAD_N; v++) sums[u][v] = CHAIN(x[u], y[v], sums[u][v]);
    }
}

/* Where a block's part of C lies, and how much of it exists. */
struct Corner {
    int64_t at, row, col;
    int m_left, n_left;
};
/* The first row (column) of a thread's part. */
INLINE int row_of(int thread) { return thread / 32 / (TILE_N / Columns::WARP) * Rows::WARP + thread % 32 / 8 * Rows::SIZE; }
INLINE int column_of(int thread) {
    return thread / 32 % (TILE_N / Columns::WARP) * Columns::WARP + thread % 8 * Columns::SIZE;
}

/* Large tiles have no registers for a second sum: each chunk is a launch, and what stands of the earlier ones is C. One
 * row of each thread at a time goes through shared memory, so that a row of C is stored by neighbours. */
INLINE void store_chunk(Value *c, Corner corner, bool later, const Sums &sums, Value *shared) {
    const int rows = TILE_M / THREAD_M, thread = threadIdx.x;
    const int mine = row_of(thread) / Rows::WARP * 4 + thread % 32 / 8; /* of the rows that are stored together */
#pragma unroll
    for (int u = 0; u < THREAD_M; u++) {
        __syncthreads();
#pragma unroll
        for (int v = 0; v < THREAD_N; v++) shared[mine * TILE_N + column_of(thread) + offset_of<Columns>(v)] = sums[u][v];
        __syncthreads();
#pragma unroll 1
        for (int e = thread; e < rows * TILE_N; e += THREADS) {
            const int i = e / TILE_N / 4 * Rows::WARP + e / TILE_N % 4 * Rows::SIZE + offset_of<Rows>(u), j = e % TILE_N;
            Value *const at = c + corner.at + i * corner.row + j * corner.col;
            if (i < corner.m_left && j < corner.n_left) *at = later ? ADD(*at, shared[e]) : shared[e];
        }
    }
}

INLINE void add_to_total(Sums &total, bool first, const Sums &sums) {
#pragma unroll
    for (int u = 0; u < THREAD_M; u++)
#pragma unroll
        for (int v = 0; v < THREAD_N; v++) total[u][v] = first ? sums[u][v] : ADD(total[u][v], sums[u][v]);
}

INLINE void store_total(void *c, Corner corner, bool wide, const Sums &total) {
    const int i0 = row_of(threadIdx.x), j0 = column_of(threadIdx.x);
#pragma unroll
    for (int u = 0; u < THREAD_M; u++)
#pragma unroll
        for (int v = 0; v < THREAD_N; v++) {
            const int i = i0 + offset_of<Rows>(u), j = j0 + offset_of<Columns>(v);
            const int64_t at = corner.at + i * corner.row + j * corner.col;
            if (i >= corner.m_left || j >= corner.n_left) continue;
            if (wide)
                ((Value *)c)[at] = total[u][v];
            else
                ((Element *)c)[at] = ELEMENT_OF(total[u][v]);
        }
}

/* What a block does. `wide` results are Values, others Elements. Large tiles give Values, of one chunk: g.k is at most
 * CHUNK, `later` says that it is not the first. What is needed behind the loop is computed there: no register is to hold
 * it meanwhile. */
INLINE void product(const Element *__restrict__ a, const Element *__restrict__ b, void *__restrict__ c, const Gemm &g,
                    bool wide, bool later) {
    __shared__ __align__(16) Value left[2][TILE_K][TILE_M + 4], right[2][TILE_K][TILE_N + 4];
    constexpr bool large = THREAD_M * THREAD_N > 16, late = large && (LEFT == ANYHOW || RIGHT == ANYHOW);
    const unsigned columns = (unsigned)((g.n + TILE_N - 1) / TILE_N), rows = (unsigned)((g.m + TILE_M - 1) / TILE_M);
    const unsigned tile_j = blockIdx.x % columns, tile_i = blockIdx.x / columns % rows;
    const int64_t batch = blockIdx.x / columns / rows, i0 = (int64_t)TILE_M * tile_i, j0 = (int64_t)TILE_N * tile_j;
    const int i = row_of(threadIdx.x), j = column_of(threadIdx.x);
    Side<LEFT, TILE_M> a_side =
        side_of<LEFT, TILE_M>(a + batch * g.a_batch, i0, g.m, g.a_row, g.a_col, ELEMENT_OF(-(Value)0));
    Side<RIGHT, TILE_N> b_side =
        side_of<RIGHT, TILE_N>(b + batch * g.b_batch, j0, g.n, g.b_col, g.b_row, (Element)0);
    const int steps = g.k ? (int)((g.k + TILE_K - 1) / TILE_K) : 1;
    Sums sums, total;
    clear(sums);
    if (!large) clear(total);
    if (!late) fetch(a_side, g.k), fetch(b_side, g.k);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        const int64_t k_left = g.k - (int64_t)TILE_K * step;
        if (late) fetch(a_side, k_left), fetch(b_side, k_left);
        stage(a_side, left[step & 1]), stage(b_side, right[step & 1]);
        __syncthreads();
        if (!late && step + 1 < steps) fetch(a_side, k_left - TILE_K), fetch(b_side, k_left - TILE_K);
        multiply(left[step & 1], right[step & 1], i, j, k_left, sums);
        if (large || (TILE_K * (int64_t)(step + 1) % CHUNK && step + 1 < steps)) continue;
        add_to_total(total, TILE_K * (int64_t)step < CHUNK, sums);
        clear(sums);
    }
    Corner corner;
    corner.at = batch * g.c_batch + i0 * g.c_row + j0 * g.c_col, corner.row = g.c_row, corner.col = g.c_col;
    corner.m_left = (int)least_of(TILE_M, g.m - i0), corner.n_left = (int)least_of(TILE_N, g.n - j0);
    if (large)
        store_chunk((Value *)c, corner, later, sums, left[0][0]);
    else
        store_total(c, corner, wide, total);
}
