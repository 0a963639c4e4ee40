/* base.h: what every file may count on: fixed-width types, Status and TRY, checked sizes, small helpers.
 *
 * Conventions of the whole code base (said once, here and in README.md):
 *   - a fallible internal function returns Status; it has raised the thread's error (error.h) unless ST_OK;
 *   - internal out parameters are written only on success;
 *   - create = you own it; getters = borrowed; whoever stores it retains. */
#ifndef SINTER_RUNTIME_BASE_BASE_H
#define SINTER_RUNTIME_BASE_BASE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Same values as sn_status in the public header (asserted in frontend/). */
typedef enum Status {
    ST_OK,
    ST_ARGUMENT,
    ST_SHAPE,
    ST_DTYPE,
    ST_DEVICE,
    ST_VALUE,
    ST_MEMORY,
    ST_UNSUPPORTED,
    ST_STATE,
    ST_PARSE,
    ST_IO,
    ST_STRICT,
    ST_CALLBACK,
    ST_INTERNAL
} Status;

#define TRY(expr)                                                                                                      \
    do {                                                                                                               \
        const Status try_status_ = (expr);                                                                             \
        if (try_status_ != ST_OK) return try_status_;                                                                  \
    } while (0)

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))
#define LIKELY(x)       __builtin_expect(!!(x), 1)
#define UNLIKELY(x)     __builtin_expect(!!(x), 0)
#define HIDDEN          __attribute__((visibility("hidden"))) /* of extern declarations, which -fvisibility skips */
#define COLD            __attribute__((noinline, cold))
#define NOINLINE        __attribute__((noinline))
/* A static function that costs as much to call as to run, where a compiler would not think so. */
#define ALWAYS_INLINE           inline __attribute__((always_inline))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
/* A frame of its own, whoever compiles: not inlined and not copied (clang does not copy and does not know the word). */
#ifdef __clang__
#define OWN_FRAME __attribute__((noinline))
#else
#define OWN_FRAME __attribute__((noinline, noclone))
#endif
/* A thread-local that every call reads: reached without asking the loader. Such a variable puts all of its library's
 * thread-locals into memory that a program has little of for libraries it opens late (dlopen: plugins, bindings):
 * pointers and counts only, nothing large, here and beside it. The LLVM module is always opened late and does
 * without. */
#ifdef SINTER_OPENED_LATE
#define HOT_THREAD_LOCAL _Thread_local
#else
#define HOT_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#endif
#define NO_INT INT64_MIN /* None for an optional int; the public SN_NO_INT */

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
/* The greatest, never negative; of 0 and a it is |a|. */
static inline int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a < 0 ? -a : a;
}
/* False when the product or sum does not fit; *out is then undefined. */
static inline bool mul_ok(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool add_ok(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }

#endif
