/* taps_type.h: the loops of taps.c for one compute type; a template, included with T (f32, f64) defined. A chain is
 * fma(weight, source, chain) over ascending taps. What a call does not fill of a vector is done by a vector that ends
 * where the call ends (it computes some elements a second time), or, in a call shorter than a vector, by a part. */
#define N(name) PASTE(PASTE(name, _), T)
#define E       PASTE(e_, T)
#define V       PASTE(v_, T)
#define GET     PASTE(get_, T)
#define PUT     PASTE(put_, T)

/* rows ------------------------------------------------------------------------------------------------------------ */

INLINE void N(line)(const TapRows *p, int vectors, int64_t at, E *to, V bias) {
    const E *const weight = p->weight;
    V acc[LINE_VECTORS];
    UNROLL for (int j = 0; j < vectors; j++) acc[j] = (V)0;
    for (int64_t t = 0; t < p->taps; t++) {
        const V w = (V)weight[t];
        const E *const from = (const E *)p->source[t] + at;
        UNROLL for (int j = 0; j < vectors; j++) acc[j] = PASTE(vec_fma_, T)(w, GET(from, j * LANES), acc[j]);
    }
    UNROLL for (int j = 0; j < vectors; j++) PUT(to, j * LANES, acc[j] + bias);
}

static void N(tap_rows)(const TapRows *p) {
    const V bias = (V)(*(const E *)p->bias);
    for (int64_t row = 0; row < p->rows; row++) {
        const int64_t from = row * p->source_ld;
        E *const to = (E *)p->to + row * p->to_ld;
        int64_t i = 0;
        for (; i + 8 * LANES <= p->n; i += 8 * LANES) N(line)(p, 8, from + i, to + i, bias);
        if (i + 4 * LANES <= p->n) N(line)(p, 4, from + i, to + i, bias), i += 4 * LANES;
        if (i + 2 * LANES <= p->n) N(line)(p, 2, from + i, to + i, bias), i += 2 * LANES;
        for (; i < p->n; i += LANES) {
            const int64_t at = min_i64(i, p->n - LANES);
            N(line)(p, 1, from + at, to + at, bias);
        }
    }
}

/* pixels ---------------------------------------------------------------------------------------------------------- */

INLINE V N(get_channels)(const void *from, int64_t at, int64_t n) {
    return n < LANES ? PASTE(get_part_, T)(from, at, n) : GET(from, at);
}

/* A vector of channels from c on of `pixels` positions from `first` on; n < LANES of them, or a whole vector. */
INLINE void N(channels)(const TapPixels *p, int pixels, int64_t first, int64_t c, int64_t n) {
    V acc[PIXELS];
    UNROLL for (int j = 0; j < pixels; j++) acc[j] = (V)0;
    for (int64_t t = 0; t < p->taps; t++) {
        const V w = N(get_channels)(p->weight[t], c, n);
        const E *const from = (const E *)p->source[t] + first * p->source_step + c;
        UNROLL for (int j = 0; j < pixels; j++) acc[j] =
            PASTE(vec_fma_, T)(w, N(get_channels)(from, j * p->source_step, n), acc[j]);
    }
    const V bias = N(get_channels)(p->bias, c, n);
    E *const to = (E *)p->to + first * p->to_step + c;
    UNROLL for (int j = 0; j < pixels; j++) {
        if (n < LANES)
            PASTE(put_part_, T)(to, j * p->to_step, n, acc[j] + bias);
        else
            PUT(to, j * p->to_step, acc[j] + bias);
    }
}

INLINE void N(all_channels)(const TapPixels *p, int pixels, int64_t first) {
    if (p->n < LANES) {
        N(channels)(p, pixels, first, 0, p->n);
        return;
    }
    for (int64_t c = 0; c < p->n; c += LANES) N(channels)(p, pixels, first, min_i64(c, p->n - LANES), LANES);
}

static void N(tap_pixels)(const TapPixels *p) {
    int64_t j = 0;
    for (; j + PIXELS <= p->pixels; j += PIXELS) N(all_channels)(p, PIXELS, j);
    if (j + 3 <= p->pixels) N(all_channels)(p, 3, j), j += 3;
    for (; j < p->pixels; j++) N(all_channels)(p, 1, j);
}

/* weights --------------------------------------------------------------------------------------------------------- */

/* Which channels a vector of chains has: n from c on, the first `skip` of which others have. */
typedef struct N(Channels) {
    int64_t c, n, skip;
} N(Channels);

INLINE void N(put_channels)(void *to, const N(Channels) * of, V chains) {
    E all[LANES];
    if (of->n == LANES && !of->skip) {
        PUT(to, of->c, chains);
        return;
    }
    PUT(all, 0, chains);
    memcpy((E *)to + of->c + of->skip, all + of->skip, (size_t)(of->n - of->skip) * sizeof(E));
}

/* `taps` chains from tap `first` on, over all positions. */
INLINE void N(chains)(const TapWeights *p, int taps, int64_t first, const N(Channels) * of, bool whole) {
    const int64_t n = whole ? LANES : of->n;
    V acc[TAPS];
    const E *from[TAPS];
    const E *left = (const E *)p->left + of->c;
    UNROLL for (int t = 0; t < taps; t++) {
        from[t] = (const E *)p->source[first + t] + of->c;
        acc[t] = N(get_channels)(p->to[first + t], of->c, n);
    }
    for (int64_t j = 0; j < p->pixels; j++) {
        const V by = N(get_channels)(left, j * p->left_step, n);
        UNROLL for (int t = 0; t < taps; t++) acc[t] =
            PASTE(vec_fma_, T)(by, N(get_channels)(from[t], j * p->source_step, n), acc[t]);
    }
    UNROLL for (int t = 0; t < taps; t++) N(put_channels)(p->to[first + t], of, acc[t]);
}

#define CASE(k)                                                                                                        \
    case k:                                                                                                            \
        N(chains)(p, k, first, of, true);                                                                              \
        return;
static void N(some_chains)(const TapWeights *p, int64_t taps, int64_t first, const N(Channels) * of) {
    switch (taps) { CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) }
}
#undef CASE

static void N(tap_weights)(const TapWeights *p) {
    const int64_t groups = (p->taps + TAPS - 1) / TAPS;
    for (int64_t c = 0; c < p->n && p->n >= LANES; c += LANES) {
        const int64_t at = min_i64(c, p->n - LANES);
        const N(Channels) of = {at, LANES, c - at};
        for (int64_t g = 0; g < groups; g++) {
            const int64_t first = p->taps * g / groups;
            N(some_chains)(p, p->taps * (g + 1) / groups - first, first, &of);
        }
    }
    for (int64_t t = 0; t < p->taps && p->n < LANES; t++) N(chains)(p, 1, t, &(N(Channels)){0, p->n, 0}, false);
}

/* steps ----------------------------------------------------------------------------------------------------------- */

#if defined(__AVX512F__)
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#elif defined(__AVX2__)
#define EVEN_LANES 0, 2, 4, 6, 8, 10, 12, 14
#else
#define EVEN_LANES 0, 2, 4, 6
#endif

/* to[i] = from[i * step] */
static void N(take_steps)(void *to, const void *from, int64_t step, int64_t n) {
    int64_t i = 0;
    for (; step == 2 && i + LANES < n; i += LANES) {
        const V low = GET(from, 2 * i), high = GET(from, 2 * i + LANES);
        PUT(to, i, __builtin_shufflevector(low, high, EVEN_LANES));
    }
    for (; i < n; i++) ((E *)to)[i] = ((const E *)from)[i * step];
}

#undef EVEN_LANES
#undef N
#undef E
#undef V
#undef GET
#undef PUT
