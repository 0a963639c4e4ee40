/* attention_type.h: a row of scores of one type; a template, included by attention.c with T (f32, f64) defined. A row
 * is walked in the 64 lanes of L, four or more vectors at once, so that the steps of exp overlap; the last ones, which
 * are not whole, vector by vector. */
#define N(name)     PASTE(PASTE(name, _), T)
#define E           PASTE(e_, T)
#define V           PASTE(v_, T)
#define GET         PASTE(get_, T)
#define PUT         PASTE(put_, T)
#define GET_PART    PASTE(get_part_, T)
#define PUT_PART    PASTE(put_part_, T)
#define VEC(name)   PASTE(PASTE(PASTE(vec_, name), _), T)
#define CHOOSE      VEC(select)
#define IN_LANES(i) UNROLL for (int i = 0; i < RED_VECTORS; i++)

/* What is the same for all elements of a row. */
typedef struct N(RowScores) {
    E *at;
    const E *added;
    const uint8_t *kept;
    V scale;
} N(RowScores);

/* The scores of a vector that begins at i; n: how many of it there are. */
INLINE V N(scores_at)(const N(RowScores) * r, int64_t i, int64_t n, bool whole) {
    V s = (whole ? GET(r->at, i) : GET_PART(r->at, i, n)) * r->scale;
    if (r->added) s = s + (whole ? GET(r->added, i) : GET_PART(r->added, i, n));
    if (r->kept) s = CHOOSE(whole ? get_b(r->kept, i) : get_part_b(r->kept, i, n), s, (V)-__builtin_inff());
    return s;
}

/* Writes the scores; their maximum. */
static __attribute__((noinline)) E N(scores_max)(const N(RowScores) * given, int64_t n) {
    const N(RowScores) r = *given;
    V most[RED_VECTORS];
    IN_LANES(v) most[v] = N(start_max)();
    int64_t i = 0;
    for (; i + RED_LANES <= n; i += RED_LANES) IN_LANES(v) {
            const V s = N(scores_at)(&r, i + v * LANES, LANES, true);
            PUT(r.at, i + v * LANES, s);
            most[v] = VEC(max)(most[v], s);
        }
    for (; i < n; i += LANES) {
        const int64_t left = n - i < LANES ? n - i : LANES;
        const V s = N(scores_at)(&r, i, left, false);
        PUT_PART(r.at, i, left, s);
        most[0] = CHOOSE(first_lanes(left), VEC(max)(most[0], s), most[0]);
    }
    return N(tree_max)(most);
}

/* Chunks' results to one. */
static E N(join_chunks)(E *chunks, int64_t n) {
    for (int64_t count; n > 1; n = count) {
        count = (n + CHUNK_L - 1) / CHUNK_L;
        for (int64_t c = 0; c < count; c++) N(reduce_sum)
        (&chunks[c], chunks + c * CHUNK_L, NULL, n - c * CHUNK_L < CHUNK_L ? n - c * CHUNK_L : CHUNK_L);
    }
    return n ? chunks[0] : (E)0;
}

/* One chunk: e = exp(s - max), added up in L. */
static __attribute__((noinline)) E N(chunk_exp)(E *at, E max, int64_t n) {
    V sum[RED_VECTORS];
    IN_LANES(v) sum[v] = (V)0;
    int64_t i = 0;
    for (; i + RED_LANES <= n; i += RED_LANES) IN_LANES(v) {
            const V e = VEC(exp)(GET(at, i + v * LANES) - (V)max);
            PUT(at, i + v * LANES, e);
            sum[v] += e;
        }
    for (int v = 0; i < n; v++, i += LANES) {
        const int64_t left = n - i < LANES ? n - i : LANES;
        const V e = VEC(exp)(GET_PART(at, i, left) - (V)max);
        PUT_PART(at, i, left, e);
        sum[v] = CHOOSE(first_lanes(left), sum[v] + e, sum[v]);
    }
    return N(tree_sum)(sum);
}

static void N(divide_row)(E *at, E by, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) PUT(at, i, GET(at, i) / (V)by);
    if (i < n) PUT_PART(at, i, n - i, GET_PART(at, i, n - i) / (V)by);
}

/* p from the maximum and the sum as they were. */
static __attribute__((noinline)) void N(p_again)(const N(RowScores) * given, E max, E sum, int64_t n) {
    const N(RowScores) r = *given;
    int64_t i = 0;
    for (; i + RED_LANES <= n; i += RED_LANES) IN_LANES(v) {
            const V s = N(scores_at)(&r, i + v * LANES, LANES, true);
            PUT(r.at, i + v * LANES, VEC(exp)(s - (V)max) / (V)sum);
        }
    for (; i < n; i += LANES) {
        const int64_t left = n - i < LANES ? n - i : LANES;
        PUT_PART(r.at, i, left, VEC(exp)(N(scores_at)(&r, i, left, false) - (V)max) / (V)sum);
    }
}

static void N(attention_softmax)(const AttentionRow *row) {
    const N(RowScores) r = {row->scores, row->added, row->kept, (V)(E)row->scale};
    E *const max = row->max, *const sum = row->sum, *const chunks = row->chunks;
    const int64_t n = row->n;
    if (!row->given) *max = N(scores_max)(&r, n);
    if (*max == -__builtin_inff()) {
        memset(r.at, 0, (size_t)n * sizeof(E));
        if (!row->given) *sum = 0;
        return;
    }
    if (row->given) {
        N(p_again)(&r, *max, *sum, n);
        return;
    }
    for (int64_t i = 0; i < n; i += CHUNK_L)
        chunks[i / CHUNK_L] = N(chunk_exp)(r.at + i, *max, n - i < CHUNK_L ? n - i : CHUNK_L);
    *sum = N(join_chunks)(chunks, (n + CHUNK_L - 1) / CHUNK_L);
    N(divide_row)(r.at, *sum, n);
}

/* One chunk of p g, added up in L. */
static __attribute__((noinline)) E N(chunk_product)(const E *p, const E *g, int64_t n) {
    V sum[RED_VECTORS];
    IN_LANES(v) sum[v] = (V)0;
    int64_t i = 0;
    for (; i + RED_LANES <= n; i += RED_LANES) IN_LANES(v) {
            const V product = GET(p, i + v * LANES) * GET(g, i + v * LANES);
            sum[v] += product;
        }
    for (int v = 0; i < n; v++, i += LANES) {
        const int64_t left = n - i < LANES ? n - i : LANES;
        const V product = GET_PART(p, i, left) * GET_PART(g, i, left);
        sum[v] = CHOOSE(first_lanes(left), sum[v] + product, sum[v]);
    }
    return N(tree_sum)(sum);
}

static void N(attention_slope)(const AttentionSlope *row) {
    E *const g = row->gradient, *const chunks = row->chunks;
    const E *const p = row->p;
    const V scale = (V)(E)row->scale;
    const int64_t n = row->n;
    for (int64_t i = 0; i < n; i += CHUNK_L)
        chunks[i / CHUNK_L] = N(chunk_product)(p + i, g + i, n - i < CHUNK_L ? n - i : CHUNK_L);
    const V whole = (V)N(join_chunks)(chunks, (n + CHUNK_L - 1) / CHUNK_L);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) PUT(g, i, (GET(g, i) - whole) * GET(p, i) * scale);
    if (i < n) PUT_PART(g, i, n - i, (GET_PART(g, i, n - i) - whole) * GET_PART(p, i, n - i) * scale);
}

static void N(attention_add)(void *to, const void *from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) PUT(to, i, GET(to, i) + (from ? GET(from, i) : (V)0));
    if (i < n) PUT_PART(to, i, n - i, GET_PART(to, i, n - i) + (from ? GET_PART(from, i, n - i) : (V)0));
}

/* A number less itself is 0 where it is finite, else NaN. */
static bool N(attention_finite)(const void *from, int64_t n) {
    V sum = (V)0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) sum += GET(from, i) - GET(from, i);
    if (i < n) sum += GET_PART(from, i, n - i) - GET_PART(from, i, n - i);
    E all = 0;
    UNROLL for (int v = 0; v < LANES; v++) all += sum[v];
    return all == 0;
}

#undef N
#undef E
#undef V
#undef GET
#undef PUT
#undef GET_PART
#undef PUT_PART
#undef VEC
#undef CHOOSE
#undef IN_LANES
