/* places.cuh: where an element lies, for kernels over tensors of any dims (lines.h). */
template <int N> INLINE void place_in(const CudaDims &dims, int64_t i, int64_t *at) {
#pragma unroll
    for (int k = 0; k < N; k++) at[k] = 0;
#pragma unroll 1
    for (int d = (int)dims.n - 1; d >= 0; d--) {
        const int64_t r = d ? remainder_of(&i, dims.size[d]) : i;
#pragma unroll
        for (int k = 0; k < N; k++) at[k] += r * dims.stride[k][d];
    }
}
