/* host_value.c: see host_value.h. */
#include "frontend/tool/host_value.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "runtime/core/element.h"

HostValue host_value(sn_tensor *t) {
    HostValue value = {.dtype = DT_default};
    if (!t || sn_check()) return value;
    const sn_ints sizes = sn_sizes(t), strides = sn_strides(t);
    value.dtype = (DType)sn_dtype_of(t);
    value.rank = (int)sizes.n;
    value.n = sn_numel(t);
    memcpy(value.sizes, sizes.data, (size_t)sizes.n * sizeof *value.sizes);
    memcpy(value.strides, strides.data, (size_t)strides.n * sizeof *value.strides);
    const size_t bytes = (size_t)value.n * (size_t)dtype_bytes(value.dtype);
    value.bytes = mem_alloc(bytes + 1);
    if (value.bytes) sn_read(t, value.bytes, bytes);
    return value;
}

void host_value_free(HostValue *value) {
    mem_free(value->bytes);
    mem_free(value->unset);
    *value = (HostValue){.dtype = DT_default};
}

/* Strides of dims that nothing is stepped along are any. */
static bool steps_alike(const HostValue *a, const HostValue *b) {
    for (int d = 0; d < a->rank && a->n; d++)
        if (a->sizes[d] != 1 && a->strides[d] != b->strides[d]) return false;
    return true;
}

static bool same_type(const HostValue *a, const HostValue *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes) && steps_alike(a, b);
}

static bool same_at(const HostValue *a, const HostValue *b, int64_t i) {
    const size_t item = (size_t)dtype_bytes(a->dtype), at = (size_t)i * item;
    if (!memcmp(a->bytes + at, b->bytes + at, item)) return true;
    if (!dtype_is_float(a->dtype)) return false;
    return isnan(element_double(a->dtype, a->bytes + at)) && isnan(element_double(b->dtype, b->bytes + at));
}

static bool is_unset(const HostValue *value, int64_t i) { return value->unset && value->unset[i]; }

void host_value_mark(HostValue *value, const HostValue *other) {
    value->any_type |= !same_type(value, other);
    for (int64_t i = 0; value->dtype && !value->any_type && i < value->n; i++) {
        if (same_at(value, other, i)) continue;
        if (!value->unset) value->unset = mem_zero((size_t)value->n);
        if (value->unset) value->unset[i] = true;
    }
}

bool host_values_same(const HostValue *a, const HostValue *b, int64_t *element, int64_t *n) {
    *element = -1, *n = 0;
    if (a->any_type || b->any_type) return true;
    if (!same_type(a, b)) return false;
    for (int64_t i = 0; a->dtype && i < a->n; i++) {
        if (is_unset(a, i) || is_unset(b, i) || same_at(a, b, i)) continue;
        if (!(*n)++) *element = i;
    }
    return !*n;
}

void host_value_type(const HostValue *value, Text *text) {
    if (!value->dtype) {
        text_puts(text, "none");
        return;
    }
    text_printf(text, "%s[", dtype_name(value->dtype));
    for (int d = 0; d < value->rank; d++) text_printf(text, "%s%lld", d ? "," : "", (long long)value->sizes[d]);
    text_puts(text, "]");
}

static void print_types(const HostValue *got, const HostValue *eager, Text *text) {
    host_value_type(got, text);
    text_puts(text, ", eager ");
    host_value_type(eager, text);
    if (got->dtype != eager->dtype || got->rank != eager->rank ||
        memcmp(got->sizes, eager->sizes, (size_t)got->rank * sizeof *got->sizes))
        return;
    text_puts(text, ", of strides ");
    sizes_print(NULL, text, got->strides, got->rank);
    text_puts(text, " and ");
    sizes_print(NULL, text, eager->strides, eager->rank);
}

static void print_element(const HostValue *value, int64_t i, Text *text) {
    const char *const at = value->bytes + (size_t)i * (size_t)dtype_bytes(value->dtype);
    if (dtype_is_float(value->dtype))
        text_printf(text, value->dtype == DT_f64 ? "%.17g" : "%.9g", element_double(value->dtype, at));
    else
        text_printf(text, "%lld", (long long)element_int(value->dtype, at));
}

static void print_index(const HostValue *value, int64_t i, Text *text) {
    int64_t index[MAX_RANK];
    for (int d = value->rank - 1; d >= 0; d--) index[d] = i % value->sizes[d], i /= value->sizes[d];
    sizes_print(NULL, text, index, value->rank);
}

void host_values_print(const HostValue *got, const HostValue *eager, Text *text) {
    int64_t element, n;
    host_values_same(got, eager, &element, &n);
    if (element < 0) {
        print_types(got, eager, text);
        return;
    }
    text_printf(text, "element %lld ", (long long)element);
    print_index(got, element, text);
    text_puts(text, ": ");
    print_element(got, element, text);
    text_puts(text, ", eager ");
    print_element(eager, element, text);
    text_printf(text, "; %lld of %lld differ", (long long)n, (long long)got->n);
}

/* Errors -------------------------------------------------------------------------------------- */

/* Bits of the fraction, and the exponent of the least normal number. */
static void format_of(DType dtype, int *bits, int *least) {
    *bits = dtype == DT_f64 ? 52 : dtype == DT_f32 ? 23 : dtype == DT_f16 ? 10 : 7;
    *least = dtype == DT_f64 ? -1022 : dtype == DT_f16 ? -14 : -126;
}

double host_last_place(DType dtype, double exact) {
    int bits, least, exponent;
    format_of(dtype, &bits, &least);
    frexp(exact, &exponent); /* of [0.5, 1) */
    return ldexp(1, (exponent - 1 < least || exact == 0 ? least : exponent - 1) - bits);
}

/* Beyond the largest number of a narrow dtype there is only infinity. */
static bool rounds_to_infinity(DType dtype, double exact) {
    const double largest = dtype == DT_f16 ? 65504 : dtype == DT_f64 ? DBL_MAX : FLT_MAX;
    return fabs(exact) > largest;
}

HostError host_element_error(DType dtype, double value, double exact) {
    if (value == exact || (isnan(value) && isnan(exact))) return (HostError){0};
    if (isinf(value) && rounds_to_infinity(dtype, exact) && signbit(value) == signbit(exact)) return (HostError){0};
    if (!isfinite(value) || !isfinite(exact)) return (HostError){INFINITY, INFINITY};
    const double apart = fabs(value - exact);
    return (HostError){apart, apart / host_last_place(dtype, exact)};
}

bool host_value_measured(const HostValue *value, const HostValue *exact) {
    return value->dtype && exact->dtype && dtype_is_float(value->dtype) && exact->dtype == DT_f64 &&
           value->dtype != DT_f64 && value->rank == exact->rank &&
           !memcmp(value->sizes, exact->sizes, (size_t)value->rank * sizeof *value->sizes);
}

HostError host_value_error(const HostValue *value, const HostValue *exact) {
    HostError all = {0};
    const size_t item = (size_t)dtype_bytes(value->dtype);
    for (int64_t i = 0; i < value->n; i++) {
        if (is_unset(value, i)) continue;
        const HostError one =
            host_element_error(value->dtype, element_double(value->dtype, value->bytes + (size_t)i * item),
                               element_double(DT_f64, exact->bytes + (size_t)i * sizeof(double)));
        all.most = fmax(all.most, one.most);
        all.ulps = fmax(all.ulps, one.ulps);
    }
    return all;
}
