/* size_real.c: floats in expressions of sizes, as Python computes them: in f64. A graph's sizes are ints: what makes an
 * int of a float (trunc, floor, ceil) is a quotient of ints there, where the float's constants are. */
#include <math.h>

#include "frontend/import/size_make.h"

bool size_is_real(const SizeExpr *e) {
    if (size_is_whole(e->op) || size_is_relation(e->op)) return false;
    bool any = e->op == SIZE_real || e->op == SIZE_float || e->op == SIZE_truediv || e->op == SIZE_sqrt;
    for (int i = 0; i < e->n && !any; i++) any = size_is_real(e->parts[i]);
    return any;
}

static bool real_apply(SizeOp op, double a, double b, double *out) {
    *out = op == SIZE_add       ? a + b
           : op == SIZE_mul     ? a * b
           : op == SIZE_truediv ? a / b
           : op == SIZE_max     ? fmax(a, b)
           : op == SIZE_min     ? fmin(a, b)
                                : pow(a, b);
    return (op != SIZE_truediv || b != 0) && op <= SIZE_truediv && op != SIZE_floordiv && op != SIZE_mod &&
           op != SIZE_ceildiv;
}

bool size_eval_real(const SizeExpr *e, const SizeValues *values, double *out) {
    int64_t whole;
    double next;
    if (e->op == SIZE_real) return *out = e->real, true;
    if (!size_is_real(e)) return size_eval(e, values, &whole) ? (*out = (double)whole, true) : false;
    if (!size_eval_real(e->parts[0], values, out)) return false;
    if (e->op == SIZE_sqrt) return *out = sqrt(*out), *out >= 0;
    for (int i = 1; i < e->n; i++)
        if (!size_eval_real(e->parts[i], values, &next) || !real_apply(e->op, *out, next, out)) return false;
    return true;
}

bool size_eval_whole(const SizeExpr *e, const SizeValues *values, int64_t *out) {
    double value;
    if (!size_eval_real(e->parts[0], values, &value)) return false;
    value = e->op == SIZE_trunc   ? trunc(value)
            : e->op == SIZE_floor ? floor(value)
            : e->op == SIZE_ceil  ? ceil(value)
                                  : nearbyint(value);
    if (!(fabs(value) < 0x1p62)) return false;
    *out = (int64_t)value;
    return true;
}

/* Quotients ------------------------------------------------------------------------------------ */

enum { MOST_BINARY_DIGITS = 20 };
typedef struct SizeRatio {
    const SizeExpr *above;
    int64_t below;
} SizeRatio;

static bool ratio_of_real(Arena *arena, double real, SizeRatio *out) {
    for (int digits = 0; digits <= MOST_BINARY_DIGITS; digits++) {
        const double above = ldexp(real, digits);
        if (above != trunc(above) || fabs(above) >= 0x1p31) continue;
        *out = (SizeRatio){size_number(arena, (int64_t)above), INT64_C(1) << digits};
        return out->above != NULL;
    }
    return false;
}

static bool ratio_join(Arena *arena, SizeOp op, SizeRatio *a, const SizeRatio *b) {
    const int64_t below = a->below;
    if (!mul_ok(a->below, b->below, &a->below) || a->below > INT64_C(1) << 31) return false;
    if (op == SIZE_mul) return (a->above = size_pair(arena, SIZE_mul, a->above, b->above)) != NULL;
    a->above = size_pair(arena, SIZE_add, size_pair(arena, SIZE_mul, a->above, size_number(arena, b->below)),
                         size_pair(arena, SIZE_mul, b->above, size_number(arena, below)));
    return a->above != NULL;
}

static bool ratio_of(Arena *arena, const SizeExpr *e, SizeRatio *out) {
    SizeRatio next;
    if (e->op == SIZE_real) return ratio_of_real(arena, e->real, out);
    if (!size_is_real(e)) return *out = (SizeRatio){e, 1}, true;
    if (!ratio_of(arena, e->parts[0], out)) return false;
    if (e->op == SIZE_truediv) {
        const SizeExpr *const by = e->parts[1];
        const bool number = by->op == SIZE_number && by->value > 0 && by->value < INT64_C(1) << 31;
        return number && mul_ok(out->below, by->value, &out->below);
    }
    bool all = e->op == SIZE_float || e->op == SIZE_add || e->op == SIZE_mul;
    for (int i = 1; i < e->n && all; i++)
        all = ratio_of(arena, e->parts[i], &next) && ratio_join(arena, e->op, out, &next);
    return all;
}

static bool is_not_negative(const SizeSymbols *all, const SizeExpr *e) {
    bool positive = e->op == SIZE_number   ? e->value >= 0
                    : e->op == SIZE_symbol ? all->list.at[e->value].min >= 0
                                           : e->op == SIZE_add || e->op == SIZE_mul;
    for (int i = 0; i < e->n && positive; i++) positive = is_not_negative(all, e->parts[i]);
    return positive;
}

const SizeExpr *size_whole(const SizeSymbols *all, const SizeExpr *e) {
    SizeRatio ratio;
    if (e->op == SIZE_round || !ratio_of(all->arena, e->parts[0], &ratio)) return NULL;
    if (e->op == SIZE_trunc && !is_not_negative(all, ratio.above)) return NULL;
    return size_pair(all->arena, e->op == SIZE_ceil ? SIZE_ceildiv : SIZE_floordiv, ratio.above,
                     size_number(all->arena, ratio.below));
}
