/* gemm_offsets.h: a product whose B is read where it lies by a table: row p of B begins offset[p] elements behind a
 * panel's first place. So a convolution's lines serve all taps, and no patch is copied. A template, included by gemm.c
 * with T (f32, f64) and WIDTH (elements of a register) defined; the order is a product's. */
#define N(name) PASTE(PASTE(name, _), T)
#define E       PASTE(e_, T)
#define V       PASTE(r_, T)

/* c = c or 0, then += a[i, p] * b[offset[p] + j] in ascending p. */
INLINE void N(offset_tile)(int rows, int vectors, int64_t k, const E *a, int64_t a_ld, const E *b,
                           const int64_t *offset, E *c, int64_t ld, bool carried) {
    V acc[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) acc[i][j] =
        carried ? N(fetch)(c + i * ld + j * WIDTH) : (V)0;
    _Pragma("clang loop unroll_count(2)") for (int64_t p = 0; p < k; p++) {
        V row[TILE_VECTORS];
        UNROLL for (int j = 0; j < vectors; j++) row[j] = N(fetch)(b + offset[p] + j * WIDTH);
        UNROLL for (int i = 0; i < rows; i++) {
            const V scalar = (V)a[i * a_ld + p];
            UNROLL for (int j = 0; j < vectors; j++) acc[i][j] = N(mac)(scalar, row[j], acc[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++)
        memcpy(c + i * ld + j * WIDTH, &acc[i][j], sizeof(V));
}

#define OFFSET_ARGS                                                                                                    \
    int64_t k, const E *a, int64_t a_ld, const E *b, const int64_t *offset, E *c, int64_t ld, bool carried
#define TILE(r, v)                                                                                                     \
    static __attribute__((noinline)) void N(offset_tile_##r##_##v)(OFFSET_ARGS) {                                      \
        N(offset_tile)(r, v, k, a, a_ld, b, offset, c, ld, carried);                                                   \
    }
#define TILES(r) TILE(r, 1) TILE(r, 2) TILE_WIDE(r)
#define NAMES(r)                                                                                                       \
    { N(offset_tile_##r##_1), N(offset_tile_##r##_2) NAMES_WIDE(r) }
#if defined(__AVX512F__)
#define TILE_WIDE(r)  TILE(r, 3) TILE(r, 4)
#define NAMES_WIDE(r) , N(offset_tile_##r##_3), N(offset_tile_##r##_4)
#else
#define TILE_WIDE(r)
#define NAMES_WIDE(r)
#endif
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6) typedef void N(OffsetTileFn)(OFFSET_ARGS);
static N(OffsetTileFn) *const
    N(offset_tiles)[TILE_ROWS][TILE_VECTORS] = {NAMES(1), NAMES(2), NAMES(3), NAMES(4), NAMES(5), NAMES(6)};

/* All rows for the columns of a tile. */
static void N(offset_panel)(const OffsetProduct *p, int64_t k0, int64_t k, const OffsetRun *run, int64_t j) {
    const int64_t tiles = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t vectors = min_i64((run->n - j + WIDTH - 1) / WIDTH, TILE_VECTORS);
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t i = p->m * t / tiles, rows = p->m * (t + 1) / tiles - i;
        N(offset_tiles)
        [rows - 1][vectors - 1](k, (const E *)p->a + i * p->a_ld + k0, p->a_ld, (const E *)run->b + j, p->offset + k0,
                                (E *)run->c + i * run->ld + j, run->ld, k0 > 0 || p->continues);
    }
}

/* What a tile's columns read of B for a block of k stays in L1 while all rows of A pass by. */
static void N(offset_product)(const OffsetProduct *p) {
    for (int64_t k0 = 0; k0 < p->k; k0 += OFFSET_K)
        for (int64_t r = 0; r < p->runs; r++)
            for (int64_t j = 0; j < p->run[r].n; j += TILE_VECTORS * WIDTH)
                N(offset_panel)(p, k0, min_i64(OFFSET_K, p->k - k0), &p->run[r], j);
}

#undef N
#undef E
#undef V
#undef OFFSET_ARGS
#undef TILE
#undef TILES
#undef NAMES
#undef TILE_WIDE
#undef NAMES_WIDE
