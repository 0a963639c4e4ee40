/* cpu_index_lines.c: see cpu_index_lines.h. */
#include "runtime/cpu/cpu_index_lines.h"

#include <stddef.h>

/* By value: a store to an element might else be one to the line. */
#define LINES(name, type, join)                                                                                        \
    static void name(IndexLine line) {                                                                                 \
        type *const to = line.to;                                                                                      \
        const type *const from = line.from;                                                                            \
        for (int64_t i = 0; i < line.n; i++)                                                                           \
            to[i * line.to_step + line.target[i] * line.target_step] join from[i * line.from_step];                    \
    }

LINES(move_1, uint8_t, =)
LINES(move_2, uint16_t, =)
LINES(move_4, uint32_t, =)
LINES(move_8, uint64_t, =)
LINES(add_f32, float, +=)
LINES(add_f64, double, +=)
LINES(add_i32, uint32_t, +=) /* ints wrap */
LINES(add_i64, uint64_t, +=)

IndexLineFn *cpu_index_lines_move(int bytes) {
    return bytes == 1 ? move_1 : bytes == 2 ? move_2 : bytes == 4 ? move_4 : bytes == 8 ? move_8 : NULL;
}

IndexLineFn *cpu_index_lines_add(SType type) {
    return type == S_f32 ? add_f32 : type == S_f64 ? add_f64 : type == S_i32 ? add_i32 : type == S_i64 ? add_i64 : NULL;
}
