/* scatter.cuh: writes and reductions at positions given by data [B2.7]. A thread has one element of the result and
 * walks the sources of its position in ascending order: all of its line where these are few, else a run of the index
 * in order (sorts.cuh), which it finds by bisection. So no two threads write one element, and which way is taken never
 * enters the bits. Positions are checked by a launch of its own before. */
INLINE v_f32 number_f32(CudaNumber n) { return (float)n.f; }
INLINE v_f64 number_f64(CudaNumber n) { return n.f; }
INLINE v_i32 number_i32(CudaNumber n) { return (int32_t)n.i; }
INLINE v_i64 number_i64(CudaNumber n) { return n.i; }
INLINE v_b number_b(CudaNumber n) { return n.f != 0; }
INLINE Number number_of(CudaNumber n) { return WORDS(number_, TYPE)(n); }

INLINE v_f32 mean_f32(v_f32 sum, int64_t n) { return sum / (float)n; }
INLINE v_f64 mean_f64(v_f64 sum, int64_t n) { return sum / (double)n; }
INLINE v_i64 mean_i64(v_i64 sum, int64_t n) { return sum / n - (sum % n < 0); }
INLINE v_i32 mean_i32(v_i32 sum, int64_t n) { return (v_i32)mean_i64(sum, n); }
INLINE v_b mean_b(v_b sum, int64_t n) { return sum; }

KERNEL check_positions(const void *index, CudaDims dims, int64_t n, int64_t bound, int64_t allowed, int dim, int wide,
                       int launch, Failed *failed) {
    int64_t at[1];
    if (thread_number() >= n) return;
    place_in<1>(dims, thread_number(), at);
    const int64_t position = read_index(index, at[0], wide);
    if (position != allowed || position < 0) checked(position, bound, false, true, launch, dim, failed);
}

/* An element of the result: its position along dim s.at, and where it lies in each tensor. */
struct Target {
    int64_t position, to, self, source, index;
    bool has_sources;
};
INLINE Target target_of(const CudaScatter &s, int64_t i) {
    Target t;
    t.position = t.to = t.self = t.source = t.index = 0;
    t.has_sources = true;
#pragma unroll 1
    for (int d = (int)s.dims.n - 1; d >= 0; d--) {
        const int64_t r = d ? remainder_of(&i, s.dims.size[d]) : i;
        t.to += r * s.dims.stride[0][d], t.self += r * s.dims.stride[1][d];
        t.source += r * s.dims.stride[2][d], t.index += r * s.dims.stride[3][d];
        if (d == s.at)
            t.position = r;
        else
            t.has_sources &= r < s.limit[d];
    }
    t.has_sources &= t.position != s.skip;
    return t;
}

/* Walks the sources of a target, ascending. */
struct Sources {
    const void *index;
    const int32_t *places;
    int64_t at, position, k, end;
    bool sorted, wide;
};
INLINE int64_t index_at(const CudaScatter &s, const void *index, const Target &t, int64_t k) {
    return read_index(index, t.index + k * s.index, s.wide);
}
/* The first of a sorted line that is not below the position. */
INLINE int64_t first_source(const CudaScatter &s, const void *index, const Target &t) {
    int64_t low = 0, n = t.has_sources ? s.n : 0;
#pragma unroll 1
    while (n > 0 && s.sorted) {
        const int64_t half = n / 2;
        const bool before = index_at(s, index, t, low + half) < t.position;
        low = before ? low + half + 1 : low;
        n = before ? n - half - 1 : half;
    }
    return low;
}
/* *k of the next source from *k on; false: there is none. */
INLINE bool next_source(const CudaScatter &s, const void *index, const Target &t, int64_t *k) {
    if (!t.has_sources) return false;
#pragma unroll 1
    for (; *k < s.n; ++*k) {
        if (index_at(s, index, t, *k) == t.position) return true;
        if (s.sorted) return false;
    }
    return false;
}
INLINE int64_t source_at(const CudaScatter &s, const int32_t *places, const Target &t, int64_t k) {
    return t.source + (s.sorted ? places[t.index + k] : k) * s.source;
}

/* The last one stands. */
KERNEL scatter_moves(Element *to, const Element *self, const Element *source, const void *index, const int32_t *places,
                     CudaNumber value, CudaScatter s, const Failed *failed) {
    if (thread_number() >= s.all || failed->launch >= 0) return;
    const Target t = target_of(s, thread_number());
    int64_t last = -1;
#pragma unroll 1
    for (int64_t k = first_source(s, index, t); next_source(s, index, t, &k); k++) last = k;
    if (last < 0)
        to[t.to] = moved_element(self[t.self]);
    else
        to[t.to] = source ? moved_element(source[source_at(s, places, t, last)]) : WORDS(to_, DTYPE)(number_of(value));
}

INLINE Number joined_numbers(int how, Number a, Number b) {
    if (how == JOIN_add) return add_numbers(a, b);
    if (how == JOIN_mul) return mul_numbers(a, b);
    return how == JOIN_max ? WORDS(vec_max_, TYPE)(a, b) : WORDS(vec_min_, TYPE)(a, b);
}

INLINE int64_t count_sources(const CudaScatter &s, const void *index, const Target &t) {
    int64_t n = 0;
#pragma unroll 1
    for (int64_t k = first_source(s, index, t); next_source(s, index, t, &k); k++) n++;
    return n;
}

/* One by one in the compute type, rounded once. */
KERNEL scatter_joins(Element *to, const Element *self, const Element *source, const void *index, const int32_t *places,
                     CudaNumber value, CudaNumber by, CudaScatter s, const Failed *failed) {
    if (thread_number() >= s.all || failed->launch >= 0) return;
    const Target t = target_of(s, thread_number());
    int64_t k = first_source(s, index, t), n = 0;
    if (!next_source(s, index, t, &k)) {
        to[t.to] = self ? moved_element(self[t.self]) : WORDS(to_, DTYPE)(0);
        return;
    }
    if (s.by_count) by.f = 1.0f / (float)count_sources(s, index, t), by.i = by.f == 1;
    const Number given = rounded_number(number_of(value)), factor = number_of(by);
    Number joined = self ? read_element(self, t.self) : (Number)0;
#pragma unroll 1
    for (; next_source(s, index, t, &k); k++) {
        Number x = source ? read_element(source, source_at(s, places, t, k)) : given;
        if (s.scaled || s.by_count) x = mul_numbers(x, factor);
        joined = n++ || !s.alone ? joined_numbers(s.how, joined, x) : x;
    }
    n += !s.alone;
    if (s.mean && n > 1) joined = WORDS(mean_, TYPE)(joined, n);
    write_element(to, t.to, joined);
}
