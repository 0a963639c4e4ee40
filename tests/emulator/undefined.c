/* undefined.c: arithmetic that C leaves open, and that a GPU's compiler may fold to anything: an int that overflows, a
 * shift by too much, a number that no int holds, a division by 0, an index outside of an array. Clang looks for each
 * (as its sanitizer of undefined behaviour does, of which these are the functions) and the kernel ends there. The CPU's
 * kernels and NVRTC's code might agree by luck; that is what this takes away. */
#include <string.h>

#include "tests/emulator/gpu.h"

/* What clang gives each of them first begins so. */
typedef struct Place {
    const char *file;
    uint32_t line, column;
} Place;

#define UNDEFINED(name, what)                                                                                          \
    __attribute__((noreturn)) static void name(const Place *at) {                                                      \
        fiber_fault(CU_illegal_instruction, what " at %s:%u:%u", at->file, at->line, at->column);                      \
    }
UNDEFINED(overflows, "an int overflows")
UNDEFINED(divides, "divides an int by 0, or the least one by -1")
UNDEFINED(shifts, "shifts an int by too much, or bits out of it")
UNDEFINED(converts, "converts a number to an int that cannot hold it")
UNDEFINED(indexes, "indexes outside of an array")

void *undefined_import(const char *name) {
    static const struct {
        const char *name;
        void (*at)(const Place *);
    } rows[] = {
        {"__ubsan_handle_add_overflow", overflows},       {"__ubsan_handle_sub_overflow", overflows},
        {"__ubsan_handle_mul_overflow", overflows},       {"__ubsan_handle_negate_overflow", overflows},
        {"__ubsan_handle_divrem_overflow", divides},      {"__ubsan_handle_shift_out_of_bounds", shifts},
        {"__ubsan_handle_float_cast_overflow", converts}, {"__ubsan_handle_out_of_bounds", indexes},
    };
    for (int i = 0; i < COUNT_OF(rows); i++)
        if (!strcmp(rows[i].name, name)) return (void *)rows[i].at;
    return NULL;
}
