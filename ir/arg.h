/* arg.h: one argument or result of an op, 16 bytes: layout and kinds of the public sn_value (asserted in runtime/).
 * dtypes, devices, layouts and memory formats travel as ints. Ints may be symbolic (sym.h) in graphs. */
#ifndef SINTER_IR_ARG_H
#define SINTER_IR_ARG_H
#include "ir/meta.h"

typedef enum ArgKind {
    ARG_default, /* the schema's default */
    ARG_none,
    ARG_tensor,
    ARG_int,
    ARG_float,
    ARG_bool,
    ARG_string,
    ARG_ints,
    ARG_floats,
    ARG_tensors,
    ARG_runtime /* graphs only: a float bound at the call [semantics C4]: i = index into the graph's runtime floats */
} ArgKind;

typedef struct Arg {
    union {
        struct {
            int32_t kind, n; /* n: of a list */
        };
        int64_t head; /* both: written and compared as one word */
    };
    union {
        Val *val;
        int64_t i;
        double f;
        const char *string;
        const int64_t *ints;
        const double *floats;
        Val *const *vals;
    };
} Arg;

/* n of a list whose public count does not fit it. */
#define LIST_TOO_LONG INT32_MIN
/* n of a float that a composite computed of sizes while a capture learns (ir/builder.h). */
#define FLOAT_FROM_SIZES (-1)

#define A_VAL(v)         ((Arg){.head = ARG_tensor, .val = (v)})
#define A_INT(x)         ((Arg){.head = ARG_int, .i = (x)})
#define A_FLOAT(x)       ((Arg){.head = ARG_float, .f = (x)})
#define A_BOOL(x)        ((Arg){.head = ARG_bool, .i = (x)})
#define A_STR(s)         ((Arg){.head = ARG_string, .string = (s)})
#define A_INTS(p, count) ((Arg){.kind = ARG_ints, .n = (int32_t)(count), .ints = (p)})
#define A_VALS(p, count) ((Arg){.kind = ARG_tensors, .n = (int32_t)(count), .vals = (p)})
#define A_NONE           ((Arg){.head = ARG_none})
#define A_DEFAULT        ((Arg){.head = ARG_default})

static inline bool arg_is_number(const Arg *a) {
    return a->kind == ARG_int || a->kind == ARG_float || a->kind == ARG_bool || a->kind == ARG_runtime;
}
static inline double arg_double(const Arg *a) { return a->kind == ARG_float ? a->f : (double)a->i; }
/* Rounded once, an int too. */
static inline float arg_single(const Arg *a) { return a->kind == ARG_float ? (float)a->f : (float)a->i; }
/* As a value of the int type that a dtype computes in; an int wraps where it is stored. */
static inline int64_t arg_int(const Arg *a, SType type) {
    return a->kind != ARG_float ? a->i : type == S_i64 ? double_to_i64(a->f) : double_to_i32(a->f);
}
/* A symbolic int as it is now, by a guard. */
static inline double arg_double_now(SymEnv *env, const Arg *a) {
    return a->kind == ARG_int ? (double)sym_concrete(env, a->i) : arg_double(a);
}
/* A position as Python slices it: negative from the end, limited to 0..size. None: `fallback`. */
int64_t slice_position(SymEnv *env, const Arg *given, int64_t fallback, int64_t size);
/* The whole part of size * factor as a double: an expression where the factor is a few halves (2, 0.5, 1.25), which a
 * double has exactly; else size as it is now, by a guard. */
int64_t meta_resample_size(SymEnv *env, int64_t size, double factor);

#endif
