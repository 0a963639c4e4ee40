/* fpenv.h: the floating-point control register. Every computing entry runs under the default (round
 * to nearest, no flushing of denormals, no traps), whatever the program has set, and puts the
 * program's back [semantics B3]. */
#ifndef SINTER_RUNTIME_FPENV_H
#define SINTER_RUNTIME_FPENV_H
#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
enum { FP_DEFAULT = 0x1f80, FP_CONTROL = 0xffc0 }; /* the low six bits are sticky exception flags */
static inline uint32_t fp_get(void) { return _mm_getcsr(); }
static inline void fp_set(uint32_t value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
enum { FP_DEFAULT = 0, FP_CONTROL = 0x7ffff00 };
static inline uint32_t fp_get(void) {
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return (uint32_t)value;
}
static inline void fp_set(uint32_t value) { __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)value)); }
#else
enum { FP_DEFAULT = 0, FP_CONTROL = 0 };
static inline uint32_t fp_get(void) { return 0; }
static inline void fp_set(uint32_t value) { (void)value; }
#endif

/* const uint32_t fp = fp_enter(); ... fp_leave(fp); */
static inline uint32_t fp_enter(void) {
    const uint32_t before = fp_get();
    if ((before & FP_CONTROL) != (FP_DEFAULT & FP_CONTROL)) fp_set(FP_DEFAULT);
    return before;
}
static inline void fp_leave(uint32_t before) {
    if ((before & FP_CONTROL) != (FP_DEFAULT & FP_CONTROL)) fp_set(before);
}

#endif
