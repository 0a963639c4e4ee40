/* positions.cuh: where elements are not 0, in row-major order: a thread counts a part, a block makes the parts' sums,
 * the thread lists its part. And indices of a dim, checked and counted from its end where they are negative. */
enum { POSITION_PART = 64, POSITION_THREADS = 256 };

KERNEL count_true(const Element *from, int64_t *counts, CudaPositions p, const Failed *failed) {
    const int64_t part = thread_number(), first = part * POSITION_PART, end = least_of(first + POSITION_PART, p.n);
    int64_t n = 0, at[1];
    if (first >= p.n || failed->launch >= 0) return;
#pragma unroll 1
    for (int64_t i = first; i < end; i++) {
        place_in<1>(p.dims, i, at);
        n += read_element(from, at[0]) != 0;
    }
    counts[part] = n;
}

/* One block: how many come before each part, and behind the last one how many there are. */
KERNEL __launch_bounds__(256) sum_counts(int64_t *counts, int64_t parts, const Failed *failed) {
    __shared__ int64_t sums[POSITION_THREADS];
    if (__syncthreads_or(failed->launch >= 0)) return;
    const int64_t each = (parts + blockDim.x - 1) / blockDim.x, first = least_of(threadIdx.x * each, parts);
    const int64_t end = least_of(first + each, parts);
    int64_t sum = 0;
#pragma unroll 1
    for (int64_t i = first; i < end; i++) sum += counts[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll 1
    for (unsigned t = 0; t < threadIdx.x; t++) sum += sums[t];
#pragma unroll 1
    for (int64_t i = first; i < end; i++) {
        const int64_t n = counts[i];
        counts[i] = sum;
        sum += n;
    }
    if (threadIdx.x == blockDim.x - 1) counts[parts] = sum;
}

KERNEL list_true(const Element *from, const int64_t *counts, CudaPositions p, const Failed *failed) {
    const int64_t part = thread_number(), first = part * POSITION_PART, end = least_of(first + POSITION_PART, p.n);
    int64_t at[1];
    if (first >= p.n || failed->launch >= 0) return;
    int64_t row = counts[part];
#pragma unroll 1
    for (int64_t i = first; i < end; i++) {
        place_in<1>(p.dims, i, at);
        if (read_element(from, at[0]) == 0) continue;
        int64_t rest = i;
#pragma unroll 1
        for (int d = (int)p.rank - 1; d >= 0; d--) p.to[d][row] = remainder_of(&rest, p.size[d]);
        row++;
    }
}

INLINE int64_t position_of(const void *index, const CudaDims &dims, int64_t i, int wide, int64_t *to) {
    int64_t at[2];
    place_in<2>(dims, i, at);
    *to = at[1];
    return read_index(index, at[0], wide);
}

KERNEL check_wrapped(const void *index, CudaDims dims, int64_t n, int64_t size, int dim, int wide, int launch,
                     Failed *failed) {
    int64_t to;
    if (thread_number() >= n) return;
    const int64_t given = position_of(index, dims, thread_number(), wide, &to), at = given < 0 ? given + size : given;
    if ((uint64_t)at >= (uint64_t)size && atomicCAS(&failed->launch, -1, launch) == -1)
        failed->inst = dim, failed->index = given, failed->bound = size;
}

KERNEL wrap_positions(const void *index, int64_t *out, CudaDims dims, int64_t n, int64_t size, int wide,
                      const Failed *failed) {
    int64_t to;
    if (thread_number() >= n || failed->launch >= 0) return;
    const int64_t given = position_of(index, dims, thread_number(), wide, &to);
    out[to] = given < 0 ? given + size : given;
}
