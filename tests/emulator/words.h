/* words.h: what clang sees before a CUDA program: the words of CUDA C++ that need no header of NVIDIA's, in terms of
 * the emulated device (gpu.h). libemulated_nvrtc puts it before each source. Threads of a block are fibers of one
 * thread, so that atomics are plain code, and a __shared__ variable is a static one in a section of its own;
 * `extern __shared__` comes here as __launch__, a weak symbol that loading gives the address of the launch's own
 * bytes. */
#define EMULATED_PLAIN   __attribute__((no_sanitize("thread"), noinline, unused))
#define EMULATED_MEETING __attribute__((convergent))
#define EMULATED_INLINE  static inline __attribute__((always_inline, unused))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};
struct EmulatedPlace {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
};
extern "C" {
/* In an address space of its own, which looks like any other: no reads of memory to look at. */
extern const EmulatedPlace __attribute__((address_space(1))) emulated_place;
unsigned long long emulated_barrier(int site, bool predicate) EMULATED_MEETING;
unsigned long long emulated_warp(int site, int kind, unsigned mask, unsigned long long value,
                                 int from) EMULATED_MEETING;
unsigned emulated_lane(void);
unsigned emulated_active(void);
void emulated_atomic(const volatile void *at, unsigned bytes);
[[noreturn]] void emulated_trap(void);
}
enum { EMULATED_sync, EMULATED_shuffle, EMULATED_ballot };

#define threadIdx      (emulated_place.thread)
#define blockIdx       (emulated_place.block)
#define blockDim       (emulated_place.block_dim)
#define gridDim        (emulated_place.grid_dim)
#define warpSize       32
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__  800
#define __global__     __attribute__((noinline))
#define __device__
#define __host__
#define __constant__    static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __shared__      static __attribute__((section(".lbss.emulated_shared")))
#define __launch__      extern __attribute__((weak))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

/* Small products stop at k, or up to three behind it, so that what is computed there is seen to change nothing. */
#define PRODUCTS_OF(k_left) ((k_left) < TILE_K ? ((int)(k_left) + 3) / 4 * 4 : TILE_K)

/* vectors: aligned as NVIDIA's are */
#define EMULATED_VECTOR(name, type)                                                                                    \
    struct __align__(2 * sizeof(type)) name##2 {                                                                       \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    struct name##3 {                                                                                                   \
        type x, y, z;                                                                                                  \
    };                                                                                                                 \
    struct __align__(sizeof(type) < 4 ? 4 * sizeof(type) : 16) name##4 {                                               \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    EMULATED_INLINE name##2 make_##name##2(type x, type y) { return {x, y}; }                                          \
    EMULATED_INLINE name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                               \
    EMULATED_INLINE name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define uint3 uint3_made /* it is above */
EMULATED_VECTOR(uint, unsigned)
#undef uint3
EMULATED_VECTOR(int, int)
EMULATED_VECTOR(float, float)
EMULATED_VECTOR(double, double)
EMULATED_VECTOR(char, signed char)
EMULATED_VECTOR(uchar, unsigned char)
EMULATED_VECTOR(short, short)
EMULATED_VECTOR(ushort, unsigned short)
EMULATED_VECTOR(longlong, long long)
EMULATED_VECTOR(ulonglong, unsigned long long)

/* barriers and fences: each call has a number, by which threads that meet know that they are in the same one */
#define EMULATED_WORD          EMULATED_INLINE EMULATED_MEETING
#define __syncthreads()        ((void)emulated_barrier(__COUNTER__, false))
#define __syncthreads_count(p) ((int)emulated_barrier(__COUNTER__, (p) != 0))
#define __syncthreads_or(p)    ((int)(emulated_barrier(__COUNTER__, (p) != 0) != 0))
#define __syncthreads_and(p)   ((int)(emulated_barrier(__COUNTER__, (p) == 0) == 0))
EMULATED_INLINE void __threadfence() { __asm__ volatile("" ::: "memory"); }
EMULATED_INLINE void __threadfence_block() { __asm__ volatile("" ::: "memory"); }
EMULATED_INLINE void __threadfence_system() { __asm__ volatile("" ::: "memory"); }

/* warps */
#define __syncwarp(...)       emulated_syncwarp(__COUNTER__, ##__VA_ARGS__)
#define __ballot_sync(...)    emulated_ballot(__COUNTER__, __VA_ARGS__)
#define __any_sync(...)       ((int)(emulated_ballot(__COUNTER__, __VA_ARGS__) != 0))
#define __all_sync(mask, p)   ((int)(emulated_ballot(__COUNTER__, mask, (p) == 0) == 0))
#define __shfl_sync(...)      emulated_shfl(__COUNTER__, __VA_ARGS__)
#define __shfl_xor_sync(...)  emulated_shfl_xor(__COUNTER__, __VA_ARGS__)
#define __shfl_down_sync(...) emulated_shfl_down(__COUNTER__, __VA_ARGS__)
#define __shfl_up_sync(...)   emulated_shfl_up(__COUNTER__, __VA_ARGS__)
EMULATED_WORD void emulated_syncwarp(int site, unsigned mask = ~0u) { emulated_warp(site, EMULATED_sync, mask, 0, 0); }
EMULATED_WORD unsigned emulated_ballot(int site, unsigned mask, int p) {
    return (unsigned)emulated_warp(site, EMULATED_ballot, mask, p != 0, 0);
}
EMULATED_INLINE unsigned __activemask() { return emulated_active(); }
template <class T> EMULATED_WORD T emulated_shuffle(int site, unsigned mask, T value, int from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "a shuffle is of 4 or 8 bytes");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    bits = emulated_warp(site, EMULATED_shuffle, mask, bits, from);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}
template <class T> EMULATED_WORD T emulated_shfl(int site, unsigned mask, T value, int from, int width = 32) {
    const int lane = (int)emulated_lane();
    return emulated_shuffle(site, mask, value, (lane & ~(width - 1)) | (from & (width - 1)));
}
template <class T> EMULATED_WORD T emulated_shfl_xor(int site, unsigned mask, T value, int bits, int width = 32) {
    const int lane = (int)emulated_lane(), from = lane ^ bits;
    return emulated_shuffle(site, mask, value, from > (lane | (width - 1)) ? lane : from);
}
template <class T> EMULATED_WORD T emulated_shfl_down(int site, unsigned mask, T value, unsigned n, int width = 32) {
    const int lane = (int)emulated_lane(), from = lane + (int)n;
    return emulated_shuffle(site, mask, value, from > (lane | (width - 1)) ? lane : from);
}
template <class T> EMULATED_WORD T emulated_shfl_up(int site, unsigned mask, T value, unsigned n, int width = 32) {
    const int lane = (int)emulated_lane(), from = lane - (int)n;
    return emulated_shuffle(site, mask, value, from < (lane & ~(width - 1)) ? lane : from);
}

/* atomics: each gives what was there */
#define EMULATED_ATOMIC(name, type, next)                                                                              \
    EMULATED_PLAIN static type name(type *at, type v) {                                                                \
        emulated_atomic(at, sizeof(type));                                                                             \
        const type old = *(volatile type *)at;                                                                         \
        *(volatile type *)at = next;                                                                                   \
        return old;                                                                                                    \
    }
#define EMULATED_ATOMICS(type)                                                                                         \
    EMULATED_ATOMIC(atomicExch, type, v)                                                                               \
    EMULATED_ATOMIC(atomicMax, type, old > v ? old : v)                                                                \
    EMULATED_ATOMIC(atomicMin, type, old < v ? old : v)                                                                \
    EMULATED_ATOMIC(atomicAnd, type, old &v)                                                                           \
    EMULATED_ATOMIC(atomicOr, type, old | v)                                                                           \
    EMULATED_ATOMIC(atomicXor, type, old ^ v)                                                                          \
    EMULATED_PLAIN static type atomicCAS(type *at, type expected, type v) {                                            \
        emulated_atomic(at, sizeof(type));                                                                             \
        const type old = *(volatile type *)at;                                                                         \
        if (old == expected) *(volatile type *)at = v;                                                                 \
        return old;                                                                                                    \
    }
EMULATED_ATOMICS(int)
EMULATED_ATOMICS(unsigned)
EMULATED_ATOMICS(long long)
EMULATED_ATOMICS(unsigned long long)
EMULATED_ATOMIC(atomicAdd, int, (int)((unsigned)old + (unsigned)v))
EMULATED_ATOMIC(atomicAdd, unsigned, old + v)
EMULATED_ATOMIC(atomicAdd, unsigned long long, old + v)
EMULATED_ATOMIC(atomicAdd, float, old + v)
EMULATED_ATOMIC(atomicAdd, double, old + v)
EMULATED_ATOMIC(atomicSub, int, (int)((unsigned)old - (unsigned)v))
EMULATED_ATOMIC(atomicSub, unsigned, old - v)
EMULATED_ATOMIC(atomicInc, unsigned, old >= v ? 0 : old + 1)
EMULATED_ATOMIC(atomicExch, float, v)

/* bits and numbers */
#define EMULATED_BITS(name, to, from)                                                                                  \
    EMULATED_INLINE to name(from v) { return __builtin_bit_cast(to, v); }
EMULATED_BITS(__float_as_int, int, float)
EMULATED_BITS(__float_as_uint, unsigned, float)
EMULATED_BITS(__int_as_float, float, int)
EMULATED_BITS(__uint_as_float, float, unsigned)
EMULATED_BITS(__double_as_longlong, long long, double)
EMULATED_BITS(__longlong_as_double, double, long long)
EMULATED_INLINE int __double2hiint(double v) { return (int)(__double_as_longlong(v) >> 32); }
EMULATED_INLINE int __double2loint(double v) { return (int)__double_as_longlong(v); }
EMULATED_INLINE double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
#define EMULATED_MATH(name, type, parameters, value)                                                                   \
    EMULATED_INLINE type name parameters { return value; }
EMULATED_MATH(__fadd_rn, float, (float a, float b), a + b)
EMULATED_MATH(__fsub_rn, float, (float a, float b), a - b)
EMULATED_MATH(__fmul_rn, float, (float a, float b), a *b)
EMULATED_MATH(__fdiv_rn, float, (float a, float b), a / b)
EMULATED_MATH(__fsqrt_rn, float, (float a), __builtin_sqrtf(a))
EMULATED_MATH(__fmaf_rn, float, (float a, float b, float c), __builtin_fmaf(a, b, c))
EMULATED_MATH(__dadd_rn, double, (double a, double b), a + b)
EMULATED_MATH(__dsub_rn, double, (double a, double b), a - b)
EMULATED_MATH(__dmul_rn, double, (double a, double b), a *b)
EMULATED_MATH(__ddiv_rn, double, (double a, double b), a / b)
EMULATED_MATH(__dsqrt_rn, double, (double a), __builtin_sqrt(a))
EMULATED_MATH(__fma_rn, double, (double a, double b, double c), __builtin_fma(a, b, c))
#define EMULATED_MATH_1(name)                                                                                          \
    EMULATED_MATH(name##f, float, (float a), __builtin_##name##f(a))                                                   \
    EMULATED_MATH(name, double, (double a), __builtin_##name(a))                                                       \
    EMULATED_MATH(name, float, (float a), __builtin_##name##f(a))
#define EMULATED_MATH_2(name)                                                                                          \
    EMULATED_MATH(name##f, float, (float a, float b), __builtin_##name##f(a, b))                                       \
    EMULATED_MATH(name, double, (double a, double b), __builtin_##name(a, b))                                          \
    EMULATED_MATH(name, float, (float a, float b), __builtin_##name##f(a, b))
EMULATED_MATH_1(sqrt)
EMULATED_MATH_1(fabs)
EMULATED_MATH_1(floor)
EMULATED_MATH_1(ceil)
EMULATED_MATH_1(trunc)
EMULATED_MATH_1(rint)
EMULATED_MATH_2(copysign)
EMULATED_MATH_2(fmin)
EMULATED_MATH_2(fmax)
EMULATED_MATH_2(fmod)
EMULATED_MATH(fmaf, float, (float a, float b, float c), __builtin_fmaf(a, b, c))
EMULATED_MATH(fma, double, (double a, double b, double c), __builtin_fma(a, b, c))
EMULATED_MATH(fma, float, (float a, float b, float c), __builtin_fmaf(a, b, c))
EMULATED_MATH(isnan, bool, (double a), a != a)
EMULATED_MATH(abs, int, (int a), a < 0 ? -a : a)
EMULATED_MATH(min, int, (int a, int b), a < b ? a : b)
EMULATED_MATH(max, int, (int a, int b), a > b ? a : b)
EMULATED_MATH(min, unsigned, (unsigned a, unsigned b), a < b ? a : b)
EMULATED_MATH(max, unsigned, (unsigned a, unsigned b), a > b ? a : b)
EMULATED_MATH(min, long long, (long long a, long long b), a < b ? a : b)
EMULATED_MATH(max, long long, (long long a, long long b), a > b ? a : b)
EMULATED_MATH(__clz, int, (int a), a ? __builtin_clz((unsigned)a) : 32)
EMULATED_MATH(__clzll, int, (long long a), a ? __builtin_clzll((unsigned long long)a) : 64)
EMULATED_MATH(__ffs, int, (int a), __builtin_ffs(a))
EMULATED_MATH(__ffsll, int, (long long a), __builtin_ffsll(a))
EMULATED_MATH(__popc, int, (unsigned a), __builtin_popcount(a))
EMULATED_MATH(__popcll, int, (unsigned long long a), __builtin_popcountll(a))
EMULATED_MATH(__brev, unsigned, (unsigned a), __builtin_bitreverse32(a))
EMULATED_MATH(__mulhi, int, (int a, int b), (int)((long long)a *b >> 32))
EMULATED_MATH(__umulhi, unsigned, (unsigned a, unsigned b), (unsigned)((unsigned long long)a *b >> 32))
EMULATED_MATH(__umul64hi, unsigned long long, (unsigned long long a, unsigned long long b),
              (unsigned long long)((unsigned __int128)a *b >> 64))
EMULATED_MATH(__mul64hi, long long, (long long a, long long b), (long long)((__int128)a *b >> 64))
template <class T> EMULATED_INLINE T __ldg(const T *at) { return *at; }
template <class T> EMULATED_INLINE T __ldcg(const T *at) { return *at; }
template <class T> EMULATED_INLINE T __ldcs(const T *at) { return *at; }
template <class T> EMULATED_INLINE void __stcs(T *at, T v) { *at = v; }
#define memcpy __builtin_memcpy
EMULATED_INLINE void __trap() { emulated_trap(); }

/* How a launch enters a kernel: libemulated_nvrtc adds EMULATED_KERNEL(name, bound) for each at the source's end. */
struct EmulatedKernel {
    void (*enter)(void *const *arguments);
    const char *name;
    const int *sizes;
    int most_threads;
};
template <int... I> struct EmulatedNumbers {};
template <class T, T... I> using EmulatedSequence = EmulatedNumbers<I...>;
template <class... A> struct EmulatedCall {
    static constexpr int sizes[] = {(int)sizeof(A)..., 0};
    template <void (*f)(A...), int... I> EMULATED_PLAIN static void at(void *const *a, EmulatedNumbers<I...>) {
        f(*(A *)a[I]...);
    }
    template <void (*f)(A...)> EMULATED_PLAIN static void enter(void *const *a) {
        at<f>(a, __make_integer_seq<EmulatedSequence, int, sizeof...(A)>());
    }
};
template <class... A> constexpr EmulatedCall<A...> emulated_call(void (*)(A...)) { return {}; }
#define EMULATED_KERNEL(f, bound)                                                                                      \
    extern "C" __attribute__((used)) const EmulatedKernel emulated_kernel_##f = {                                      \
        &decltype(emulated_call(f))::template enter<f>, #f, decltype(emulated_call(f))::sizes, bound};
