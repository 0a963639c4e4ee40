/* gemm.cuh: products C = A B of any strides, each element one fma chain from +0 over ascending k, cut every 4,096: the
 * first chunk's sum stands, later ones are added [B2.3]. A block of 256 threads has a tile of 64 x 64, a thread 4 x 4 of
 * it; 16 columns of A and rows of B are in shared memory at a time. What lies outside of C is computed and not stored;
 * what lies beyond k is left out of the chain (a product with 0 would turn -0 into +0). GEMM(D, T) is the body for
 * operands of dtype D, computed in T: `wide` results are T's, others rounded to D. */
enum { GEMM_TILE = 64, GEMM_K = 16, GEMM_CHUNK = 4096 };

struct Gemm {
    int64_t m, n, k;
    int64_t a_batch, a_row, a_col, b_batch, b_row, b_col, c_batch, c_row, c_col;
};

#define GEMM(D, T)                                                                                                     \
    INLINE void gemm_##D(const memory_##D *a, const memory_##D *b, void *c, Gemm g, int wide) {                        \
        __shared__ v_##T left[GEMM_K][GEMM_TILE + 4], right[GEMM_K][GEMM_TILE + 4];                                    \
        const int64_t rows = (g.m + GEMM_TILE - 1) / GEMM_TILE, columns = (g.n + GEMM_TILE - 1) / GEMM_TILE;           \
        int64_t w = blockIdx.x;                                                                                        \
        const int64_t j0 = GEMM_TILE * remainder_of(&w, columns), i0 = GEMM_TILE * remainder_of(&w, rows);             \
        a += w * g.a_batch, b += w * g.b_batch;                                                                         \
        const int t = threadIdx.x, ti = t / 16 * 4, tj = t % 16 * 4;                                                   \
        v_##T sum[4][4], total[4][4];                                                                                  \
        _Pragma("unroll") for (int x = 0; x < 4; x++)                                                                  \
            _Pragma("unroll") for (int y = 0; y < 4; y++) sum[x][y] = total[x][y] = 0;                                 \
        _Pragma("unroll 1") for (int64_t p = 0; p < g.k; p += GEMM_K) {                                                \
            _Pragma("unroll") for (int e = 0; e < 4; e++) {                                                            \
                const int at = t + 256 * e;                                                                            \
                const int q = g.a_col == 1 ? at % GEMM_K : at / GEMM_TILE;                                             \
                const int i = g.a_col == 1 ? at / GEMM_K : at % GEMM_TILE;                                             \
                const bool there = i0 + i < g.m && p + q < g.k;                                                        \
                left[q][i] = there ? get_##D(a, (i0 + i) * g.a_row + (p + q) * g.a_col) : (v_##T)0;                    \
                const int r = g.b_row == 1 ? at % GEMM_K : at / GEMM_TILE;                                             \
                const int j = g.b_row == 1 ? at / GEMM_K : at % GEMM_TILE;                                             \
                const bool here = j0 + j < g.n && p + r < g.k;                                                         \
                right[r][j] = here ? get_##D(b, (p + r) * g.b_row + (j0 + j) * g.b_col) : (v_##T)0;                    \
            }                                                                                                          \
            __syncthreads();                                                                                           \
            const int there = (int)least_of(GEMM_K, g.k - p);                                                          \
            _Pragma("unroll 4") for (int q = 0; q < there; q++) {                                                      \
                v_##T x[4], y[4];                                                                                      \
                _Pragma("unroll") for (int u = 0; u < 4; u++) x[u] = left[q][ti + u], y[u] = right[q][tj + u];         \
                _Pragma("unroll") for (int u = 0; u < 4; u++)                                                          \
                    _Pragma("unroll") for (int v = 0; v < 4; v++) sum[u][v] = chain_##T(x[u], y[v], sum[u][v]);        \
            }                                                                                                          \
            __syncthreads();                                                                                           \
            if ((p + GEMM_K) % GEMM_CHUNK && p + GEMM_K < g.k) continue;                                               \
            _Pragma("unroll") for (int u = 0; u < 4; u++) _Pragma("unroll") for (int v = 0; v < 4; v++) {              \
                total[u][v] = p < GEMM_CHUNK ? sum[u][v] : vec_add_##T(total[u][v], sum[u][v]);                        \
                sum[u][v] = 0;                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("unroll") for (int u = 0; u < 4; u++) _Pragma("unroll") for (int v = 0; v < 4; v++)                    \
            if (i0 + ti + u < g.m && j0 + tj + v < g.n) {                                                              \
                const int64_t at = w * g.c_batch + (i0 + ti + u) * g.c_row + (j0 + tj + v) * g.c_col;                  \
                if (wide)                                                                                              \
                    ((v_##T *)c)[at] = total[u][v];                                                                    \
                else                                                                                                   \
                    put_##D((memory_##D *)c, at, total[u][v]);                                                         \
            }                                                                                                          \
    }
