/* windows.cuh: pools [B2.9]. A thread has one element of what is made: a window's elements are taken row-major, padded
 * ones left out; gradients go back by the windows over an element, ascending. Nothing is written once a check of the
 * stream has failed, as outputs may be memory that others see. */
struct Window {
    int64_t lo[3], hi[3];
};

/* *lo <= i < *hi are the elements of window `at` of dim d, dilation apart; how many there are with padding. */
INLINE int64_t window_reach(const CudaWindows &w, int d, int64_t at, int64_t *lo, int64_t *hi) {
    const int64_t in = w.in[d];
    if (w.adaptive) {
        *lo = at * in / w.out[d];
        *hi = ((at + 1) * in + w.out[d] - 1) / w.out[d];
        return *hi - *lo;
    }
    const int64_t first = at * w.stride[d] - w.padding[d], end = first + (w.kernel[d] - 1) * w.dilation[d] + 1;
    *lo = first < 0 ? first + (w.dilation[d] - 1 - first) / w.dilation[d] * w.dilation[d] : first;
    *hi = least_of(end, in);
    return least_of(end, in + w.padding[d]) - first;
}

/* What a mean is divided by; 0: the window has no elements. */
INLINE int64_t window_divisor(const CudaWindows &w, const int64_t *at, Window *window) {
    int64_t n = 1;
#pragma unroll
    for (int d = 0; d < 3; d++) {
        const int64_t whole = window_reach(w, d, at[d], &window->lo[d], &window->hi[d]);
        const int64_t inside = window->hi[d] - window->lo[d];
        n *= inside <= 0 ? 0 : w.padded ? whole : inside;
    }
    return n && w.divisor ? w.divisor : n;
}

INLINE v_f32 quotient_f32(v_f32 a, int64_t n) { return a / (v_f32)n; }
INLINE v_f64 quotient_f64(v_f64 a, int64_t n) { return a / (v_f64)n; }
INLINE v_i32 quotient_i32(v_i32 a, int64_t n) { return (v_i32)(a / n); }
INLINE v_i64 quotient_i64(v_i64 a, int64_t n) { return n == -1 ? vec_mul_i64(a, n) : a / n; }
#define divided WORDS(quotient_, TYPE)

/* Takes element number t apart: at[0..2] of the spatial sizes; where its plane begins is the result. */
struct Place {
    int64_t at[3], image, channel;
};
INLINE Place place_of(int64_t t, const int64_t *sizes, int64_t channels) {
    Place p;
#pragma unroll
    for (int d = 2; d >= 0; d--) p.at[d] = remainder_of(&t, sizes[d]);
    p.channel = remainder_of(&t, channels);
    p.image = t;
    return p;
}
INLINE int64_t plane_at(const CudaPlanes &s, const Place &p) { return p.image * s.image + p.channel * s.channel; }
INLINE int64_t element_at(const CudaPlanes &s, const Place &p) {
    return plane_at(s, p) + p.at[0] * s.at[0] + p.at[1] * s.at[1] + p.at[2] * s.at[2];
}
INLINE int64_t count_of(const CudaWindows &w, const int64_t *sizes) {
    return w.images * w.channels * sizes[0] * sizes[1] * sizes[2];
}

KERNEL max_pool(const Element *x, Element *y, int64_t *index, CudaWindows w, const Failed *failed) {
    const int64_t t = thread_number();
    if (t >= count_of(w, w.out) || failed->launch >= 0) return;
    const Place p = place_of(t, w.out, w.channels);
    int64_t lo[3], hi[3];
#pragma unroll
    for (int d = 0; d < 3; d++) window_reach(w, d, p.at[d], &lo[d], &hi[d]);
    x += plane_at(w.from, p);
    Number most = WORDS(start_max_, TYPE)();
    int64_t where = (least_of(lo[0], w.in[0] - 1) * w.in[1] + least_of(lo[1], w.in[1] - 1)) * w.in[2] +
                    least_of(lo[2], w.in[2] - 1);
#pragma unroll 1
    for (int64_t i = lo[0]; i < hi[0]; i += w.dilation[0])
#pragma unroll 1
        for (int64_t j = lo[1]; j < hi[1]; j += w.dilation[1])
#pragma unroll 1
            for (int64_t k = lo[2]; k < hi[2]; k += w.dilation[2]) {
                const Number value = read_element(x, i * w.from.at[0] + j * w.from.at[1] + k * w.from.at[2]);
                if (value > most || is_nan(value)) most = value, where = (i * w.in[1] + j) * w.in[2] + k;
            }
    write_element(y, element_at(w.to, p), most);
    index[element_at(w.index, p)] = where;
}

KERNEL mean_pool(const Element *x, Element *y, CudaWindows w, const Failed *failed) {
    const int64_t t = thread_number();
    if (t >= count_of(w, w.out) || failed->launch >= 0) return;
    const Place p = place_of(t, w.out, w.channels);
    Window window;
    const int64_t divisor = window_divisor(w, p.at, &window);
    x += plane_at(w.from, p);
    Number sum = 0;
#pragma unroll 1
    for (int64_t i = window.lo[0]; i < window.hi[0]; i++)
#pragma unroll 1
        for (int64_t j = window.lo[1]; j < window.hi[1]; j++)
#pragma unroll 1
            for (int64_t k = window.lo[2]; k < window.hi[2]; k++) {
                sum = add_numbers(sum, read_element(x, i * w.from.at[0] + j * w.from.at[1] + k * w.from.at[2]));
                if (w.narrow) sum = rounded_number(sum);
            }
    if (!w.narrow) sum = divisor ? divided(sum, divisor) : 0;
#pragma unroll
    for (int d = 0; d < 3; d++)
        if (w.narrow) sum = rounded_number(divided(sum, window.hi[d] - window.lo[d]));
    write_element(y, element_at(w.to, p), sum);
}

/* The windows that may reach element `at` of dim d: *lo <= window < *hi. */
INLINE void windows_over(const CudaWindows &w, int d, int64_t at, int64_t *lo, int64_t *hi) {
    if (w.adaptive) {
        *lo = at * w.out[d] / w.in[d];
        *hi = ((at + 1) * w.out[d] - 1) / w.in[d] + 1;
        return;
    }
    const int64_t last = at + w.padding[d], first = last - (w.kernel[d] - 1) * w.dilation[d];
    *lo = first <= 0 ? 0 : (first + w.stride[d] - 1) / w.stride[d];
    *hi = least_of(last / w.stride[d] + 1, w.out[d]);
}

KERNEL mean_pool_back(const Element *grad, Element *x, CudaWindows w, const Failed *failed) {
    const int64_t t = thread_number();
    if (t >= count_of(w, w.in) || failed->launch >= 0) return;
    const Place p = place_of(t, w.in, w.channels);
    int64_t lo[3], hi[3], at[3];
#pragma unroll
    for (int d = 0; d < 3; d++) windows_over(w, d, p.at[d], &lo[d], &hi[d]);
    grad += plane_at(w.from, p);
    Number sum = 0;
#pragma unroll 1
    for (at[0] = lo[0]; at[0] < hi[0]; at[0]++)
#pragma unroll 1
        for (at[1] = lo[1]; at[1] < hi[1]; at[1]++)
#pragma unroll 1
            for (at[2] = lo[2]; at[2] < hi[2]; at[2]++) {
                Window window;
                const int64_t divisor = window_divisor(w, at, &window);
                const Number part =
                    read_element(grad, at[0] * w.from.at[0] + at[1] * w.from.at[1] + at[2] * w.from.at[2]);
                if (divisor) sum = add_numbers(sum, divided(part, divisor));
            }
    write_element(x, element_at(w.to, p), sum);
}

KERNEL max_pool_check(const int64_t *index, CudaWindows w, int launch, Failed *failed) {
    const int64_t t = thread_number();
    if (t >= count_of(w, w.out)) return;
    const Place p = place_of(t, w.out, w.channels);
    checked(index[element_at(w.index, p)], w.in[0] * w.in[1] * w.in[2], false, true, launch, 0, failed);
}

/* Whether position `where` of the plane lies under window p. */
INLINE bool is_under(const CudaWindows &w, const Place &p, int64_t where) {
    bool under = true;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
        int64_t lo, hi;
        windows_over(w, d, remainder_of(&where, w.in[d]), &lo, &hi);
        under &= p.at[d] >= lo && p.at[d] < hi;
    }
    return under;
}

/* An element's sum over the windows above it. */
INLINE Number sum_over_windows(const Element *grad, const int64_t *index, const CudaWindows &w, int64_t e, Place p) {
    int64_t lo[3], hi[3];
    Number sum = 0;
#pragma unroll
    for (int d = 0; d < 3; d++) windows_over(w, d, p.at[d], &lo[d], &hi[d]);
#pragma unroll 1
    for (p.at[0] = lo[0]; p.at[0] < hi[0]; p.at[0]++)
#pragma unroll 1
        for (p.at[1] = lo[1]; p.at[1] < hi[1]; p.at[1]++)
#pragma unroll 1
            for (p.at[2] = lo[2]; p.at[2] < hi[2]; p.at[2]++)
                if (index[element_at(w.index, p)] == e)
                    sum = add_numbers(sum, read_element(grad, element_at(w.from, p)));
    return sum;
}

/* Sums of a block's elements from `first` on, from all windows: a warp has a share of them and takes 32 windows at a
 * time, whose lanes add one after another. */
INLINE void sum_anywhere(const Element *grad, const int64_t *index, const CudaWindows &w, int64_t plane, int64_t first,
                         Number *sums) {
    const int64_t out = w.out[0] * w.out[1] * w.out[2];
    const int lane = (int)threadIdx.x % 32, size = CUDA_POOL_PART * 32 / (int)blockDim.x;
    const int share = (int)threadIdx.x / 32 * size;
#pragma unroll 1
    for (int i = lane; i < size; i += 32) sums[share + i] = 0;
    __syncwarp();
#pragma unroll 1
    for (int64_t start = 0; start < out; start += 32) {
        const Place p = place_of(plane * out + least_of(start + lane, out - 1), w.out, w.channels);
        const int64_t at = index[element_at(w.index, p)] - first - share;
        const bool is_mine = start + lane < out && at >= 0 && at < size;
#pragma unroll 1
        for (unsigned waiting = __ballot_sync(0xffffffffu, is_mine); waiting; waiting &= waiting - 1) {
            if (lane == __ffs((int)waiting) - 1)
                sums[share + at] = add_numbers(sums[share + at], read_element(grad, element_at(w.from, p)));
            __syncwarp();
        }
    }
}

/* A block has CUDA_POOL_PART elements of one plane. Positions come from the user: where one lies outside of its window,
 * which no pool makes, all windows of the plane are looked at. */
KERNEL max_pool_back(const Element *grad, const int64_t *index, Element *x, CudaWindows w, const Failed *failed) {
    __shared__ Number sums[CUDA_POOL_PART];
    const int64_t in = w.in[0] * w.in[1] * w.in[2], out = w.out[0] * w.out[1] * w.out[2];
    int64_t plane = blockIdx.x;
    const int64_t first = CUDA_POOL_PART * remainder_of(&plane, (in + CUDA_POOL_PART - 1) / CUDA_POOL_PART);
    if (__syncthreads_or(failed->launch >= 0)) return;
    bool astray = false;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < out; i += blockDim.x) {
        const Place p = place_of(plane * out + i, w.out, w.channels);
        astray |= !is_under(w, p, index[element_at(w.index, p)]);
    }
    const bool anywhere = __syncthreads_or(astray);
    if (anywhere) {
        sum_anywhere(grad, index, w, plane, first, sums);
        __syncthreads();
    }
#pragma unroll 1
    for (int64_t e = first + threadIdx.x; e < least_of(first + CUDA_POOL_PART, in); e += blockDim.x) {
        const Place p = place_of(plane * in + e, w.in, w.channels);
        write_element(x, element_at(w.to, p), anywhere ? sums[e - first] : sum_over_windows(grad, index, w, e, p));
    }
}
