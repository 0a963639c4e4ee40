/* gemm_type.h: GEMM for one compute type; a template, included by gemm.c with T (f32, f64, i32, i64) and WIDTH
 * (elements of a register) defined. The path of a call, outermost first:
 *
 *   run     small problems go to a plain loop; else batches, slabs of packed panels, blocks of rows, blocks of k that
 *           never cross a chunk of the order
 *   panel   one panel x one block of rows over a block of k
 *   tile    1-6 rows x up to TILE_VECTORS registers: the fma chains
 *   finish  hands a finished tile (if transposed: the transposed panel) to the caller's function or stores it */
#define N(name) PASTE(PASTE(name, _), T)
#define E       PASTE(e_, T)
#define V       PASTE(r_, T)

INLINE V N(fetch)(const E *p) {
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* acc += a[i, 0] * b[0, j] */
INLINE void N(step)(int rows, int vectors, V acc[TILE_ROWS][TILE_VECTORS], const E *a, int64_t a_ld, const E *b,
                    int64_t b_step) {
    const int ahead = rows < 3 ? 24 : 8;
    V row[TILE_VECTORS];
    UNROLL for (int j = 0; j < vectors; j++) row[j] = N(fetch)(b + j * WIDTH);
    UNROLL for (int j = 0; j < vectors; j++) __builtin_prefetch(b + ahead * b_step + j * WIDTH);
    UNROLL for (int i = 0; i < rows; i++) {
        const V scalar = (V)a[i * a_ld];
        UNROLL for (int j = 0; j < vectors; j++) acc[i][j] = N(mac)(scalar, row[j], acc[i][j]);
    }
}

/* c = c or 0, then += a[i, p] * b[p, j] in ascending p; b_step elements from one k to the next. On the way a share of
 * the next panel, from `soon` on, comes into L2: a line per SOON_K, so that the loads are spread. One or two rows wait
 * for nothing but B as it is. */
INLINE void N(tile)(int rows, int vectors, int64_t k, const E *a, int64_t a_ld, const E *b, int64_t b_step, E *c,
                    int64_t ld, bool carried, const char *soon) {
    V acc[TILE_ROWS][TILE_VECTORS];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++) acc[i][j] =
        carried ? N(fetch)(c + i * ld + j * WIDTH) : (V)0;
    int64_t p = 0;
    for (; rows >= 3 && p + SOON_K <= k; p += SOON_K) {
        __builtin_prefetch(soon, 0, 2);
        soon += LINE_BYTES;
        _Pragma("clang loop unroll_count(2)") for (int q = 0; q < SOON_K; q++) {
            N(step)(rows, vectors, acc, a + p + q, a_ld, b, b_step);
            b += b_step;
        }
    }
    _Pragma("clang loop unroll_count(2)") for (; p < k; p++) {
        N(step)(rows, vectors, acc, a + p, a_ld, b, b_step);
        b += b_step;
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vectors; j++)
        memcpy(c + i * ld + j * WIDTH, &acc[i][j], sizeof(V));
}

#define TILE_ARGS                                                                                                      \
    int64_t k, const E *a, int64_t a_ld, const E *b, int64_t b_step, E *c, int64_t ld, bool carried, const char *soon
#define TILE(r, v)                                                                                                     \
    static __attribute__((noinline)) void N(tile_##r##_##v)(TILE_ARGS) {                                               \
        N(tile)(r, v, k, a, a_ld, b, b_step, c, ld, carried, soon);                                                    \
    }
#define TILES(r) TILE(r, 1) TILE(r, 2) TILE_WIDE(r)
#define NAMES(r)                                                                                                       \
    { N(tile_##r##_1), N(tile_##r##_2) NAMES_WIDE(r) }
#if defined(__AVX512F__)
#define TILE_WIDE(r)  TILE(r, 3) TILE(r, 4)
#define NAMES_WIDE(r) , N(tile_##r##_3), N(tile_##r##_4)
#else
#define TILE_WIDE(r)
#define NAMES_WIDE(r)
#endif
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6) typedef void N(TileFn)(TILE_ARGS);
static N(TileFn) *const
    N(tiles)[TILE_ROWS][TILE_VECTORS] = {NAMES(1), NAMES(2), NAMES(3), NAMES(4), NAMES(5), NAMES(6)};

/* A row of tiles that covers `columns` of a panel. */
static void N(tile_row)(int64_t rows, int64_t columns, TILE_ARGS) {
    for (int64_t j = 0; j < columns; j += TILE_VECTORS * WIDTH) {
        const int64_t left = columns - j;
        const int64_t vectors = left >= TILE_VECTORS * WIDTH ? TILE_VECTORS : (left + WIDTH - 1) / WIDTH;
        N(tiles)[rows - 1][vectors - 1](k, a, a_ld, b + j, b_step, c + j, ld, carried, soon);
    }
}

/* to[c * to_ld + r] = from[r * from_ld + c]; whole squares of WIDTH in registers. */
static void N(transpose)(const E *from, int64_t from_ld, E *to, int64_t to_ld, int64_t rows, int64_t columns) {
    int64_t r = 0;
    for (; r + WIDTH <= rows; r += WIDTH) {
        int64_t c = 0;
        for (; c + WIDTH <= columns; c += WIDTH) {
            V square[WIDTH];
            UNROLL for (int i = 0; i < WIDTH; i++) square[i] = N(fetch)(from + (r + i) * from_ld + c);
            PASTE(TRANSPOSE_, WIDTH)
            (square, WIDTH) UNROLL for (int i = 0; i < WIDTH; i++)
                memcpy(to + (c + i) * to_ld + r, &square[i], sizeof(V));
        }
        for (; c < columns; c++)
            for (int64_t i = r; i < r + WIDTH; i++) to[c * to_ld + i] = from[i * from_ld + c];
    }
    for (; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[c * to_ld + r] = from[r * from_ld + c];
}

/* k rows of one panel of B, zeros behind its columns. `from` is B[k0, j0]. */
static void N(pack_panel)(const GemmCall *call, const char *from, int64_t k, int64_t columns, int64_t panel, E *to) {
    const int64_t bytes = element_bytes[call->dtype];
    LoadFn *const load = PASTE(kernel_table_, KERNEL_LEVEL).load(call->dtype);
    const bool native = (size_t)bytes == sizeof(E);
    if (columns < panel) memset(to, 0, (size_t)(k * panel) * sizeof(E));
    if (call->b_row == 1 && call->b_col != 1 && native) {
        N(transpose)((const E *)from, call->b_col, to, panel, columns, k);
    } else if (call->b_row == 1 && call->b_col != 1) {
        E converted[PANEL_BYTES / sizeof(E) * THIN_K];
        for (int64_t p = 0; p < k; p += THIN_K) {
            const int64_t part = k - p < THIN_K ? k - p : THIN_K;
            for (int64_t j = 0; j < columns; j++)
                load(converted + j * THIN_K, from + (j * call->b_col + p) * bytes, 1, part);
            N(transpose)(converted, THIN_K, to + p * panel, panel, columns, part);
        }
    } else if (call->b_col == 1 && native && columns == panel) {
        for (int64_t p = 0; p < k; p++) memcpy(to + p * panel, (const E *)from + p * call->b_row, PANEL_BYTES);
    } else {
        for (int64_t p = 0; p < k; p++) load(to + p * panel, from + p * call->b_row * bytes, call->b_col, columns);
    }
}

/* Tiles of a B whose columns are contiguous in k, read once: squares of it turn in registers, k by k in ascending order
 * for each of `rows`. */
INLINE void N(turned_step)(int rows, const V square[WIDTH], V *acc, const E *a, int64_t a_ld) {
    UNROLL for (int q = 0; q < WIDTH; q++) UNROLL for (int i = 0; i < rows; i++) acc[i] =
        N(mac)((V)a[i * a_ld + q], square[q], acc[i]);
}

INLINE void N(turned_tile)(int rows, int squares, int64_t k, const E *a, int64_t a_ld, const E *b, int64_t b_ld, E *c,
                           int64_t ld, bool carried) {
    V acc[TURNED_MOST][TURNED_ROWS];
    UNROLL for (int g = 0; g < squares; g++) UNROLL for (int i = 0; i < rows; i++) acc[g][i] =
        carried ? N(fetch)(c + i * ld + g * WIDTH) : (V)0;
    int64_t p = 0;
    for (; p + WIDTH <= k; p += WIDTH) UNROLL for (int g = 0; g < squares; g++) {
            const E *const from = b + g * WIDTH * b_ld + p;
            V square[WIDTH];
            UNROLL for (int i = 0; i < WIDTH; i++) {
                square[i] = N(fetch)(from + i * b_ld);
                __builtin_prefetch(from + i * b_ld + TURNED_AHEAD / (int)sizeof(E));
            }
            PASTE(TRANSPOSE_, WIDTH)(square, WIDTH) N(turned_step)(rows, square, acc[g], a + p, a_ld);
        }
    for (; p < k; p++) UNROLL for (int g = 0; g < squares; g++) {
            V row;
            UNROLL for (int i = 0; i < WIDTH; i++) row[i] = b[(g * WIDTH + i) * b_ld + p];
            UNROLL for (int i = 0; i < rows; i++) acc[g][i] = N(mac)((V)a[i * a_ld + p], row, acc[g][i]);
        }
    UNROLL for (int g = 0; g < squares; g++) UNROLL for (int i = 0; i < rows; i++)
        memcpy(c + i * ld + g * WIDTH, &acc[g][i], sizeof(V));
}

#define TURNED_ARGS                                                                                                    \
    int64_t columns, int64_t k, const E *a, int64_t a_ld, const E *b, int64_t b_ld, E *c, int64_t ld, bool carried
/* As many squares at once as keep the chains of few rows going. */
#define TURNED(r)                                                                                                      \
    static __attribute__((noinline)) void N(turned_##r)(TURNED_ARGS) {                                                 \
        enum { SQUARES = (r) < 2 ? TURNED_MOST : 1 };                                                                  \
        int64_t j = 0;                                                                                                 \
        for (; j + SQUARES * WIDTH <= columns; j += SQUARES * WIDTH)                                                   \
            N(turned_tile)(r, SQUARES, k, a, a_ld, b + j * b_ld, b_ld, c + j, ld, carried);                            \
        for (; j < columns; j += WIDTH) N(turned_tile)(r, 1, k, a, a_ld, b + j * b_ld, b_ld, c + j, ld, carried);      \
    }
TURNED(1) TURNED(2) TURNED(3) TURNED(4) TURNED(5) TURNED(6) TURNED(7) TURNED(8) typedef void N(TurnedFn)(TURNED_ARGS);
static N(TurnedFn) *const N(turned)[TURNED_ROWS] = {N(turned_1), N(turned_2), N(turned_3), N(turned_4),
                                                    N(turned_5), N(turned_6), N(turned_7), N(turned_8)};

/* Rows of A, k contiguous in each. `from` is A[i0, 0]. */
static void N(pack_a)(const GemmCall *call, const char *from, int64_t rows, int64_t ld, E *to) {
    const int64_t bytes = element_bytes[call->dtype];
    LoadFn *const load = PASTE(kernel_table_, KERNEL_LEVEL).load(call->dtype);
    if (call->a_row == 1 && (size_t)bytes == sizeof(E)) {
        N(transpose)((const E *)from, call->a_col, to, ld, call->k, rows);
        return;
    }
    for (int64_t i = 0; i < rows; i++) load(to + i * ld, from + i * call->a_row * bytes, call->a_col, call->k);
}

static void N(pack_all)(const GemmCall *call, const GemmBlocking *plan, void *packed) {
    const int64_t bytes = element_bytes[call->dtype];
    for (int64_t j = 0; j < call->n; j += plan->panel) N(pack_panel)
    (call, (const char *)call->b + j * call->b_col * bytes, call->k, min_i64(plan->panel, call->n - j), plan->panel,
     (E *)packed + j * call->k);
}

/* One panel of columns for one block of rows. */
typedef struct N(Panel) {
    const GemmCall *call;
    const GemmBlocking *plan;
    const E *a; /* first row of the block */
    int64_t a_ld, row, rows, column, columns, batch;
    const char *b;             /* B[0, column] as the caller has it */
    const E *packed;           /* the packed panel, or NULL */
    const E *next;             /* that which is walked after it */
    E *total, *part, *scratch; /* accumulators; scratch for a k block of B */
    int64_t ld;                /* of total; part's is the panel */
    bool direct;               /* total is C itself */
} N(Panel);

/* Rows (or, transposed, columns) of B fall into the same few cache sets. */
static bool N(crowded)(const GemmCall *call) {
    const int64_t stride = call->b_row == 1 ? call->b_col : call->b_row;
    return stride * (int64_t)sizeof(E) % 4096 == 0;
}

/* B is walked where it lies if each element is used once, or its rows spread over the cache. */
static bool N(in_place)(const N(Panel) * p) {
    const GemmCall *const call = p->call;
    const bool native = (size_t)element_bytes[call->dtype] == sizeof(E);
    return call->b_col == 1 && native && p->columns == p->plan->panel && (p->rows <= TILE_ROWS || !N(crowded)(call));
}

/* B's columns are contiguous in k, and each square of it serves all rows at once. */
static bool N(is_turned)(const N(Panel) * p) {
    const GemmCall *const call = p->call;
    return !p->packed && call->b_row == 1 && call->b_col != 1 && (size_t)element_bytes[call->dtype] == sizeof(E) &&
           p->rows <= TURNED_ROWS && p->columns % WIDTH == 0;
}

/* k that is walked at once: packing on the way stays in L1, but long streams help where sets are crowded. */
static int64_t N(block_k)(const N(Panel) * p) {
    return p->packed || N(in_place)(p) || N(is_turned)(p) || N(crowded)(p->call) ? BLOCK_K : THIN_K;
}

/* The block of B that starts at k0: packed, in place, or packed now. */
static const E *N(b_block)(const N(Panel) * p, int64_t k0, int64_t k, int64_t *step) {
    *step = p->plan->panel;
    if (p->packed) return p->packed + k0 * p->plan->panel;
    const GemmCall *const call = p->call;
    const int64_t bytes = element_bytes[call->dtype];
    const char *const from = p->b + k0 * call->b_row * bytes;
    if (N(in_place)(p) || N(is_turned)(p)) {
        *step = N(is_turned)(p) ? call->b_col : call->b_row;
        return (const E *)from;
    }
    N(pack_panel)(call, from, k, p->columns, p->plan->panel, p->scratch);
    return p->scratch;
}

/* A finished part of C, as the caller sees C, to the caller's function or to memory. */
static void N(deliver)(const N(Panel) * p, const GemmTile *tile) {
    const GemmCall *const call = p->call;
    if (call->tile) {
        call->tile(call->context, tile);
        return;
    }
    const int64_t bytes = element_bytes[call->dtype];
    const int64_t c_row = p->plan->transposed ? call->c_col : call->c_row;
    const int64_t c_col = p->plan->transposed ? call->c_row : call->c_col;
    StoreFn *const store = PASTE(kernel_table_, KERNEL_LEVEL).store(call->dtype);
    char *const c = (char *)call->c + (tile->batch * call->c_batch + tile->column * c_col) * bytes;
    for (int64_t i = 0; i < tile->rows; i++)
        store(c + (tile->row - p->plan->row + i) * c_row * bytes, c_col, (const E *)tile->at + i * tile->ld,
              tile->columns);
}

static void N(finish)(const N(Panel) * p, int64_t first, int64_t rows) {
    const E *const at = p->total + first * p->ld;
    const GemmTile tile = {at, p->ld, p->row + first, p->column, rows, p->columns, p->batch};
    N(deliver)(p, &tile);
}

/* The rows of a panel become columns, in C itself where its rows are contiguous. */
static void N(finish_transposed)(const N(Panel) * p) {
    const GemmCall *const call = p->call;
    if (!call->tile && (size_t)element_bytes[call->dtype] == sizeof(E) && call->c_row == 1) {
        E *const c = (E *)call->c + p->batch * call->c_batch + p->row;
        N(transpose)
        (p->total, p->ld, c + p->column * call->c_col, call->c_col, p->rows, p->columns);
        return;
    }
    const int64_t ld = transposed_ld(p->plan), row = p->plan->row + p->column;
    E *const at = (E *)((char *)call->workspace + p->plan->at_transposed);
    N(transpose)(p->total, p->ld, at, ld, p->rows, p->columns);
    N(deliver)(p, &(GemmTile){at, ld, row, p->row, p->columns, p->rows, p->batch});
}

static void N(add_part)(const N(Panel) * p, int64_t first, int64_t rows) {
    for (int64_t i = first; i < first + rows; i++)
        for (int64_t j = 0; j < p->columns; j++) p->total[i * p->ld + j] += p->part[i * p->plan->panel + j];
}

/* k from `from` up to `until`: one block of packed panels, or all of it. */
static void N(panel)(const N(Panel) * p, int64_t from, int64_t until) {
    const int64_t k = p->call->k, block = N(block_k)(p);
    const bool turned = N(is_turned)(p);
    const int64_t tiles = turned ? 1 : ceil_div(p->rows, TILE_ROWS);
    int64_t k0 = from;
    do {
        const int64_t now = min_i64(block, until - k0), end = k0 + now;
        const bool first_chunk = k0 < CHUNK_K, last = end == k;
        int64_t step;
        const E *const b = N(b_block)(p, k0, now, &step);
        const char *const soon = (const char *)(p->packed ? p->next + k0 * p->plan->panel : b);
        for (int64_t t = 0; t < tiles; t++) {
            const int64_t i = p->rows * t / tiles, rows = p->rows * (t + 1) / tiles - i;
            const int64_t ld = first_chunk ? p->ld : p->plan->panel;
            E *const acc = (first_chunk ? p->total : p->part) + i * ld;
            const E *const a = p->a + i * p->a_ld + k0;
            const bool carried = k0 % CHUNK_K != 0;
            if (turned)
                N(turned)[rows - 1](p->columns, now, a, p->a_ld, b, step, acc, ld, carried);
            else
                N(tile_row)
            (rows, p->columns, now, a, p->a_ld, b, step, acc, ld, carried, soon + t * (now / SOON_K) * LINE_BYTES);
            if (!first_chunk && (last || end % CHUNK_K == 0)) N(add_part)(p, i, rows);
            if (last && !p->direct && !p->plan->transposed) N(finish)(p, i, rows);
        }
        if (last && !p->direct && p->plan->transposed) N(finish_transposed)(p);
        k0 = end;
    } while (k0 < until);
}

/* Few enough operations that blocking costs more than it gives: plain chains, native types, one chunk of k. */
static void N(small)(const GemmCall *call, int64_t batch) {
    const E *const a = (const E *)call->a + batch * call->a_batch, *const b =
                                                                       (const E *)call->b + batch * call->b_batch;
    E *const c = (E *)call->c + batch * call->c_batch;
    for (int64_t i = call->row_begin; i < call->row_end; i++)
        for (int64_t j = 0; j < call->n; j++) {
            E sum = 0;
            for (int64_t p = 0; p < call->k; p++)
                sum = N(mac_one)(a[i * call->a_row + p * call->a_col], b[p * call->b_row + j * call->b_col], sum);
            c[i * call->c_row + j * call->c_col] = sum;
        }
}

/* Blocks of equal length up to BLOCK_K, none across the end of a chunk. */
static int64_t N(block_end)(int64_t k, int64_t k0) {
    const int64_t left = min_i64(k, (k0 / CHUNK_K + 1) * CHUNK_K) - k0;
    return k0 + ceil_div(left, max_i64(1, ceil_div(left, BLOCK_K)));
}

/* A block of rows for the panels of a slab: what is the same for all of them is in `block`. */
static void N(rows)(const N(Panel) * block, int64_t first, int64_t end) {
    const GemmCall *const call = block->call;
    const int64_t bytes = element_bytes[call->dtype], panel = block->plan->panel;
    const bool to_c = !call->tile && (size_t)bytes == sizeof(E) && call->c_col == 1;
    E *const c = (E *)call->c + block->batch * call->c_batch + block->row * call->c_row;
    int64_t k0 = 0;
    do {
        const int64_t until = block->packed ? N(block_end)(call->k, k0) : call->k;
        for (int64_t j = first; j < end; j += panel) {
            const int64_t columns = min_i64(panel, call->n - j);
            const bool carried = block->packed && call->k > BLOCK_K;
            const int64_t carry = carried ? (j - first) * block->plan->rows : 0;
            N(Panel) p = *block;
            p.column = j, p.columns = columns;
            p.b = block->b + j * call->b_col * bytes;
            if (block->packed) p.packed += (j - first) * call->k;
            if (j + panel < end && block->packed) p.next = p.packed + panel * call->k;
            p.direct = to_c && columns == panel;
            p.total = p.direct ? c + j : block->total + carry;
            p.ld = p.direct ? call->c_row : panel;
            p.part = block->part + carry;
            N(panel)(&p, k0, until);
        }
        k0 = until;
    } while (k0 < call->k);
}

/* All rows of the call for the panels of one slab; `packed` is its first panel or NULL. */
static void N(slab)(const GemmCall *call, const GemmBlocking *plan, int64_t batch, int64_t first, int64_t end,
                    const E *packed) {
    const int64_t bytes = element_bytes[call->dtype];
    char *const workspace = call->workspace;
    const char *const a = (const char *)call->a + batch * call->a_batch * bytes;
    for (int64_t row = call->row_begin; row < call->row_end; row += plan->rows) {
        const int64_t rows = min_i64(plan->rows, call->row_end - row);
        const char *const a_rows = a + row * call->a_row * bytes;
        if (plan->pack_a) N(pack_a)(call, a_rows, rows, plan->a_ld, (E *)(workspace + plan->at_a));
        N(rows)
        (&(N(Panel)){.call = call,
                     .plan = plan,
                     .row = row,
                     .rows = rows,
                     .batch = batch,
                     .a = plan->pack_a ? (const E *)(workspace + plan->at_a) : (const E *)a_rows,
                     .a_ld = plan->pack_a ? plan->a_ld : call->a_row,
                     .b = (const char *)call->b + batch * call->b_batch * bytes,
                     .packed = packed,
                     .next = packed,
                     .total = (E *)(workspace + plan->at_total),
                     .part = (E *)(workspace + plan->at_part),
                     .scratch = (E *)(workspace + plan->at_b)},
         first, end);
    }
}

static void N(run)(const GemmCall *call, const GemmBlocking *plan) {
    const int64_t rows = call->row_end - call->row_begin, bytes = element_bytes[call->dtype];
    const bool small = !call->tile && !call->packed_b && (size_t)bytes == sizeof(E) &&
                       rows * call->n * call->k <= 512 && rows * call->n <= 512 && call->k <= 512;
    const int64_t width = plan->slab_panels * plan->panel;
    const E *const given = call->packed_b;
    E *const packed = (E *)((char *)call->workspace + plan->at_b);
    for (int64_t batch = 0; batch < call->batch; batch++) {
        if (small) {
            N(small)(call, batch);
            continue;
        }
        const char *const b = (const char *)call->b + batch * call->b_batch * bytes;
        const bool kept = batch > 0 && call->b_batch == 0 && width >= call->n; /* the last batch's panels serve again */
        for (int64_t j = 0; j < call->n; j += width) {
            const int64_t end = min_i64(j + width, call->n);
            for (int64_t p = j; p < end && !plan->thin && !given && !kept; p += plan->panel) N(pack_panel)
            (call, b + p * call->b_col * bytes, call->k, min_i64(plan->panel, call->n - p), plan->panel,
             packed + (p - j) * call->k);
            N(slab)
            (call, plan, batch, j, end, given ? given + j * call->k : plan->thin ? NULL : packed);
        }
    }
}

#undef N
#undef E
#undef V
#undef TILE_ARGS
#undef TURNED_ARGS
#undef TURNED
#undef TILE
#undef TILES
#undef NAMES
#undef TILE_WIDE
#undef NAMES_WIDE
