/* lines.c: lines of a program, indented, and names of types in them. */
#include <stdarg.h>
#include <stdio.h>

#include "codegen/cuda/source.h"

static void print_at(CudaSource *s, int column, const char *format, va_list list) {
    char line[1200];
    vsnprintf(line, sizeof line, format, list);
    text_printf(s->text, "%*s%s\n", line[0] == '#' ? 0 : column, "", line);
}

void print_line(CudaSource *s, const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_at(s, 4 * s->indent, format, list);
    va_end(list);
}

void print_open(CudaSource *s, const char *format, ...) {
    va_list list;
    va_start(list, format);
    print_at(s, 4 * s->indent++, format, list);
    va_end(list);
}

void print_close(CudaSource *s) { text_printf(s->text, "%*s}\n", 4 * --s->indent, ""); }

const char *type_text(SType type) {
    static const char *const args[S_COUNT] = {"v_f32", "v_f64", "v_i32", "v_i64", "v_b"};
    return args[type];
}

void print_unroll(CudaSource *s, int n) { print_line(s, "#pragma unroll %d", n); }
