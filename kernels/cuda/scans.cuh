/* scans.cuh: sums and products of all elements up to each along a dim [B2.5]: a thread has a chunk of 1,024 of a line.
 * Where lines have more, a launch before takes the chunks' own results and another joins them in order, a line a
 * thread. Elements are cast to the dtype of the result first. */
enum { SCAN_CHUNK = 1024 };

#define SAME_CAST(T)                                                                                                   \
    INLINE v_##T cast_##T##_##T(v_##T a) { return a; }
SAME_CAST(f32)
SAME_CAST(f64)
SAME_CAST(i32)
SAME_CAST(i64)
SAME_CAST(b)
#define CASE(D, T)                                                                                                     \
    case CUDA_##D: return rounded_number(WORDS(cast_##T##_, TYPE)(get_##D((const memory_##D *)from, i)));
/* Rounded, as a copy in that dtype would be. */
INLINE Number read_cast(const void *from, int64_t i, int dtype) {
    switch (dtype) {
        CASE(f32, f32)
        CASE(f64, f64)
        CASE(f16, f32)
        CASE(bf16, f32)
        CASE(i64, i64)
        CASE(i32, i32)
        CASE(i16, i32)
        CASE(i8, i32)
        CASE(u8, i32)
    default: return rounded_number(WORDS(cast_b_, TYPE)(get_bool((const uint8_t *)from, i)));
    }
}

INLINE Number scan_joined(const CudaScan &s, Number a, Number b) {
    return s.multiplies ? mul_numbers(a, b) : add_numbers(a, b);
}

/* Chunk *chunk of line *line; false: there is none. */
INLINE bool scan_chunk(const CudaScan &s, const Failed *failed, int64_t *line, int64_t *chunk, int64_t *at) {
    *line = thread_number();
    *chunk = remainder_of(line, s.chunks);
    if (*line >= s.lines || failed->launch >= 0) return false;
    place_in<2>(s.dims, *line, at);
    return true;
}

/* The result of each chunk by itself. */
KERNEL scan_chunks(const void *from, Number *results, CudaScan s, const Failed *failed) {
    int64_t line, chunk, at[2];
    if (!scan_chunk(s, failed, &line, &chunk, at)) return;
    const int64_t end = least_of(s.n, (chunk + 1) * SCAN_CHUNK);
    Number run = read_cast(from, at[0] + chunk * SCAN_CHUNK * s.from, s.dtype);
#pragma unroll 1
    for (int64_t k = chunk * SCAN_CHUNK + 1; k < end; k++)
        run = scan_joined(s, run, read_cast(from, at[0] + k * s.from, s.dtype));
    results[line * s.chunks + chunk] = run;
}

/* Those up to each chunk. */
KERNEL scan_results(Number *results, CudaScan s, const Failed *failed) {
    const int64_t line = thread_number();
    if (line >= s.lines || failed->launch >= 0) return;
    Number *const of_line = results + line * s.chunks;
#pragma unroll 1
    for (int64_t c = 1; c < s.chunks; c++) of_line[c] = scan_joined(s, of_line[c - 1], of_line[c]);
}

/* results: NULL where a line is one chunk. */
KERNEL scan_elements(const void *from, Element *to, const Number *results, CudaScan s, const Failed *failed) {
    int64_t line, chunk, at[2];
    if (!scan_chunk(s, failed, &line, &chunk, at)) return;
    const int64_t end = least_of(s.n, (chunk + 1) * SCAN_CHUNK);
    const Number before = chunk ? results[line * s.chunks + chunk - 1] : (Number)0;
    Number run = 0;
#pragma unroll 1
    for (int64_t k = chunk * SCAN_CHUNK; k < end; k++) {
        const Number x = read_cast(from, at[0] + k * s.from, s.dtype);
        run = k % SCAN_CHUNK ? scan_joined(s, run, x) : x;
        write_element(to, at[1] + k * s.to, chunk ? scan_joined(s, before, run) : run);
    }
}
