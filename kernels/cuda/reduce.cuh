/* reduce.cuh: what generated CUDA kernels need beside the primitives: elements of every dtype in memory, the canonical
 * reductions [B2.1] on 64 lanes that 16 threads hold, 4 each, and checked indices. */
#define KERNEL    extern "C" __global__ void
#define ALL_LANES 0xffffffffu

/* elements: get_<dtype> gives the compute type, put_<dtype> rounds to the dtype */
#define MEMORY_OF(D, E, T, get, put)                                                                                   \
    typedef E memory_##D;                                                                                              \
    INLINE v_##T of_##D(E x) { return get; }                                                                           \
    INLINE E to_##D(v_##T x) { return put; }                                                                           \
    INLINE v_##T get_##D(const E *p, int64_t i) { return of_##D(p[i]); }                                               \
    INLINE void put_##D(E *p, int64_t i, v_##T x) { p[i] = to_##D(x); }
MEMORY_OF(f32, float, f32, x, x)
MEMORY_OF(f64, double, f64, x, x)
MEMORY_OF(i32, int32_t, i32, x, x)
MEMORY_OF(i64, int64_t, i64, x, x)
MEMORY_OF(bool, uint8_t, b, x != 0, (uint8_t)x)
MEMORY_OF(f16, uint16_t, f32, f32_of_f16(x), f16_of_f32(x))
MEMORY_OF(bf16, uint16_t, f32, f32_of_bf16(x), bf16_of_f32(x))
MEMORY_OF(i16, int16_t, i32, x, (int16_t)x)
MEMORY_OF(i8, int8_t, i32, x, (int8_t)x)
MEMORY_OF(u8, uint8_t, i32, x, (uint8_t)x)

/* Four elements at once, at an address that 4 elements' bytes divide. */
template <class E> struct __align__(4 * sizeof(E)) Four { E at[4]; };
template <> struct __align__(16) Four<double> { /* an access has 16 bytes at most */
    double at[4];
};
template <> struct __align__(16) Four<int64_t> { int64_t at[4]; };

/* Of the four elements at p, `stride` apart, those that exist; 0 for others. */
template <class E> INLINE Four<E> load_four(const E *p, int64_t stride, int left) {
    enum { BYTES = 4 * sizeof(E) < 16 ? 4 * sizeof(E) : 16 };
    if (stride == 1 && left == 4 && (uint64_t)p % BYTES == 0) return *(const Four<E> *)p;
    Four<E> four;
#pragma unroll
    for (int u = 0; u < 4; u++) four.at[u] = u < left ? p[u * stride] : (E)0;
    return four;
}
template <class E> INLINE void store_four(E *p, int64_t stride, int left, Four<E> four) {
    enum { BYTES = 4 * sizeof(E) < 16 ? 4 * sizeof(E) : 16 };
    if (stride == 1 && left == 4 && (uint64_t)p % BYTES == 0) {
        *(Four<E> *)p = four;
        return;
    }
#pragma unroll
    for (int u = 0; u < 4; u++)
        if (u < left) p[u * stride] = four.at[u];
}

INLINE int64_t thread_of(int64_t block) { return block * blockDim.x + threadIdx.x; }
INLINE int64_t thread_number() { return thread_of(blockIdx.x); }
INLINE int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
/* How many of four exist where n are left; none where n is negative. */
INLINE int quad_of(int64_t n) { return n < 4 ? n < 0 ? 0 : (int)n : 4; }
/* *w % n, and *w is divided by n; both are not negative. A quotient of 64 bits takes a hundred instructions. */
INLINE int64_t remainder_of(int64_t *w, int64_t n) {
    const int64_t a = *w;
    *w = (uint64_t)(a | n) >> 32 ? a / n : (int64_t)((uint32_t)a / (uint32_t)n);
    return a - *w * n;
}

INLINE float from_xor(float v, int n) { return __shfl_xor_sync(ALL_LANES, v, n); }
INLINE int32_t from_xor(int32_t v, int n) { return __shfl_xor_sync(ALL_LANES, v, n); }
INLINE double from_xor(double v, int n) { return __shfl_xor_sync(ALL_LANES, v, n); }
INLINE int64_t from_xor(int64_t v, int n) { return __shfl_xor_sync(ALL_LANES, v, n); }
INLINE v_b from_xor(v_b v, int n) { return (v_b)__shfl_xor_sync(ALL_LANES, (int)v, n); }

/* tree_: thread t of 16 has lanes 4t..4t+3 in a..d; pairs 1, 2, 4, 8, 16, 32 lanes apart meet, and all threads get the
 * result. Both halves of a warp call it together. */
#define TREE(name, R)                                                                                                  \
    INLINE R tree_##name(R a, R b, R c, R d) {                                                                         \
        R s = join_##name(join_##name(a, b), join_##name(c, d));                                                       \
        s = join_##name(s, far_##name(s, 1));                                                                          \
        s = join_##name(s, far_##name(s, 2));                                                                          \
        s = join_##name(s, far_##name(s, 4));                                                                          \
        return join_##name(s, far_##name(s, 8));                                                                       \
    }
#define REDUCTION(name, T, start, join)                                                                                \
    typedef v_##T red_##name;                                                                                          \
    INLINE v_##T start_##name() { return (v_##T)(start); }                                                             \
    INLINE v_##T join_##name(v_##T a, v_##T b) { return join; }                                                        \
    INLINE v_##T far_##name(v_##T a, int n) { return from_xor(a, n); }                                                 \
    INLINE v_##T result_##name(v_##T a) { return a; }                                                                  \
    TREE(name, v_##T)
#define REDUCTIONS(T, low, high)                                                                                       \
    REDUCTION(sum_##T, T, 0, vec_add_##T(a, b))                                                                        \
    REDUCTION(dot_##T, T, 0, vec_add_##T(a, b))                                                                        \
    REDUCTION(prod_##T, T, 1, vec_mul_##T(a, b))                                                                       \
    REDUCTION(max_##T, T, low, vec_max_##T(a, b))                                                                      \
    REDUCTION(min_##T, T, high, vec_min_##T(a, b))
REDUCTIONS(f32, -__builtin_inff(), __builtin_inff())
REDUCTIONS(f64, -__builtin_inf(), __builtin_inf())
REDUCTIONS(i32, INT32_MIN, INT32_MAX)
REDUCTIONS(i64, INT64_MIN, INT64_MAX)
REDUCTION(any_b, b, 0, (v_b)(a | b))
REDUCTION(all_b, b, 1, (v_b)(a &b))

/* One step of a dot's chain. */
INLINE v_f32 chain_f32(v_f32 x, v_f32 y, v_f32 acc) { return vec_fma_f32(x, y, acc); }
INLINE v_f64 chain_f64(v_f64 x, v_f64 y, v_f64 acc) { return vec_fma_f64(x, y, acc); }
INLINE v_i32 chain_i32(v_i32 x, v_i32 y, v_i32 acc) { return vec_add_i32(vec_mul_i32(x, y), acc); }
INLINE v_i64 chain_i64(v_i64 x, v_i64 y, v_i64 acc) { return vec_add_i64(vec_mul_i64(x, y), acc); }

/* The first of the largest (smallest): NaN beyond all, -0 equal to +0; position -1: none yet. */
#define POSITION(name, T, wins)                                                                                        \
    struct red_##name {                                                                                                \
        v_##T value;                                                                                                   \
        int64_t at;                                                                                                    \
    };                                                                                                                 \
    INLINE red_##name start_##name() {                                                                                 \
        red_##name none;                                                                                               \
        none.value = 0, none.at = -1;                                                                                  \
        return none;                                                                                                   \
    }                                                                                                                  \
    INLINE red_##name element_##name(v_##T value, int64_t at) {                                                        \
        red_##name one;                                                                                                \
        one.value = value, one.at = at;                                                                                \
        return one;                                                                                                    \
    }                                                                                                                  \
    INLINE red_##name join_##name(red_##name a, red_##name b) {                                                        \
        if (b.at < 0) return a;                                                                                        \
        if (a.at < 0) return b;                                                                                        \
        const bool a_nan = a.value != a.value, b_nan = b.value != b.value;                                             \
        if (a_nan != b_nan) return a_nan ? a : b;                                                                      \
        if (!a_nan && a.value != b.value) return a.value wins b.value ? a : b;                                         \
        return a.at < b.at ? a : b;                                                                                    \
    }                                                                                                                  \
    INLINE red_##name far_##name(red_##name a, int n) {                                                                \
        return element_##name(from_xor(a.value, n), from_xor(a.at, n));                                                \
    }                                                                                                                  \
    INLINE int64_t result_##name(red_##name a) { return a.at < 0 ? 0 : a.at; }                                         \
    TREE(name, red_##name)
#define POSITIONS(T) POSITION(argmax_##T, T, >) POSITION(argmin_##T, T, <)
POSITIONS(f32)
POSITIONS(f64)
POSITIONS(i32)
POSITIONS(i64)
POSITIONS(b)

/* The first index that was out of bounds since the stream was last waited for: the launch, the instruction of its
 * kernel; -1: none. Whoever comes first writes the rest. */
struct Failed {
    int32_t launch, inst;
    int64_t index, bound;
};
INLINE int64_t checked(int64_t i, int64_t bound, bool wraps, bool counts, int launch, int inst, Failed *failed) {
    if (wraps && i < 0) i += bound;
    if ((uint64_t)i < (uint64_t)bound) return i;
    if (counts && atomicCAS(&failed->launch, -1, launch) == -1)
        failed->inst = inst, failed->index = i, failed->bound = bound;
    return -1;
}

/* parts: a launch's blocks are those of one part after another. */
#define METHOD __device__ __forceinline__
template <class Part, int n> struct Several { /* parts of one kind */
    Part at[n];
    METHOD int first() const { return at[0].first; }
    METHOD int end() const { return at[n - 1].end; }
    METHOD void run(int block, int32_t launch, Failed *failed) const {
        int k = 0;
#pragma unroll 1
        while (k + 1 < n && block >= at[k].end) k++;
        at[k].run(block - at[k].first, launch, failed);
    }
};

/* Where some parts wait for others: a block's number is how many began before it, so that what it waits for has begun,
 * and goes on. Behind the stream's word; all 0 between launches. */
struct Order {
    int32_t begun, done;
};
INLINE Order *order_of(Failed *failed) { return (Order *)(failed + 1); }
INLINE int block_in_order(Failed *failed) {
    __shared__ int number;
    if (threadIdx.x == 0) number = atomicAdd(&order_of(failed)->begun, 1);
    __syncthreads();
    return number;
}
/* For the first n blocks: what they have written is seen from then on. */
INLINE void wait_for(int n, Failed *failed) {
    if (threadIdx.x == 0) {
        const volatile int32_t *const done = &order_of(failed)->done;
        while (*done < n) {}
        __threadfence();
    }
    __syncthreads();
}
INLINE void block_done(Failed *failed) {
    Order *const order = order_of(failed);
    __syncthreads();
    if (threadIdx.x) return;
    __threadfence();
    if (atomicAdd(&order->done, 1) + 1 == (int)gridDim.x) order->begun = 0, order->done = 0;
}
