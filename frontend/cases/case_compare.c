/* case_compare.c: whether a result is what the case file says. Values are compared in double, which holds every dtype
 * but large i64 exactly; those are compared as ints. */
#include <math.h>
#include <stdlib.h>

#include "frontend/cases/cases.h"

static double half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == 31) return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double bf16_value(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* A bool's byte is true where it is not 0 [semantics B1]. */
static int64_t int_at(DType dtype, const char *at) {
    int64_t wide;
    int32_t i32;
    int16_t i16;
    switch (dtype) {
    case DT_i64:
        return memcpy(&wide, at, sizeof wide), wide;
    case DT_i32:
        return memcpy(&i32, at, sizeof i32), i32;
    case DT_i16:
        return memcpy(&i16, at, sizeof i16), i16;
    case DT_i8:
        return *(const int8_t *)at;
    case DT_bool:
        return *at != 0;
    default:
        return *(const uint8_t *)at;
    }
}

static double value_at(DType dtype, const char *at) {
    double wide;
    float single;
    uint16_t half;
    switch (dtype) {
    case DT_f64:
        return memcpy(&wide, at, sizeof wide), wide;
    case DT_f32:
        return memcpy(&single, at, sizeof single), single;
    case DT_f16:
        return memcpy(&half, at, sizeof half), half_value(half);
    case DT_bf16:
        return memcpy(&half, at, sizeof half), bf16_value(half);
    default:
        return (double)int_at(dtype, at);
    }
}

CaseTolerance case_tolerance(const Json *spec, sn_tensor *exact) {
    const Json *tol = json_get(spec, "tol");
    const bool given = tol && tol->kind == JSON_list && tol->n == 2;
    return (CaseTolerance){
        .rtol = given ? tol->items[0].number : 0, .atol = given ? tol->items[1].number : 0, .exact = exact};
}

/* As the spec says, else 1e-5, or the dtype's usual tolerance where that is looser. */
CaseTolerance case_tolerance_of_dtype(const Json *spec, sn_tensor *exact) {
    if (json_get(spec, "tol")) return case_tolerance(spec, exact);
    const char *name = json_string(json_get(spec, "dtype"));
    const double rtol = name && !strcmp(name, "bf16") ? 1.6e-2 : name && !strcmp(name, "f16") ? 1e-3 : 1e-5;
    return (CaseTolerance){.rtol = rtol, .atol = 1e-5, .exact = exact};
}

/* "sizes [2, 3], not [2, 4]"; false. */
static bool other_numbers(const char *what, const sn_ints *got, const Json *want, Text *why) {
    text_printf(why, "%s ", what);
    sizes_print(NULL, why, got->data, (int)got->n);
    text_puts(why, ", not [");
    for (int i = 0; i < want->n; i++) text_printf(why, i ? ", %lld" : "%lld", (long long)want->items[i].i);
    text_puts(why, "]");
    return false;
}

bool case_alike(sn_tensor *got, const Json *spec, Text *why) {
    const char *name = json_string(json_get(spec, "dtype"));
    const Json *size = json_get(spec, "size");
    if (!got) return text_puts(why, "a result is missing"), false;
    if (!name || !size) return text_puts(why, "the case's tensor is incomplete"), false;
    const sn_ints sizes = sn_sizes(got);
    if (strcmp(dtype_name((DType)sn_dtype_of(got)), name))
        return text_printf(why, "dtype %s, not %s", dtype_name((DType)sn_dtype_of(got)), name), false;
    bool same = sizes.n == size->n;
    for (int i = 0; same && i < size->n; i++) same = sizes.data[i] == size->items[i].i;
    if (same) return true;
    return other_numbers("sizes", &sizes, size, why);
}

/* Of dims that have several elements; a tensor without elements has no layout. */
static bool same_strides(const Json *size, const Json *stride, const sn_ints *got) {
    bool same = true;
    for (int d = 0; d < size->n; d++) {
        if (!size->items[d].i) return true;
        same = same && (size->items[d].i == 1 || stride->items[d].i == got->data[d]);
    }
    return same;
}

bool case_laid_out(sn_tensor *got, const Json *spec, Text *why) {
    const Json *const size = json_get(spec, "size"), *const stride = json_get(spec, "stride");
    const sn_ints strides = sn_strides(got);
    if (!size || !stride || stride->n != size->n || strides.n != size->n)
        return text_puts(why, "the case's tensor is incomplete"), false;
    const Json *const any = json_get(spec, "any_layout");
    if ((any && any->i) || same_strides(size, stride, &strides)) return true;
    return other_numbers("strides", &strides, stride, why);
}

static void *read_all(sn_tensor *t, size_t *bytes) {
    *bytes = (size_t)sn_numel(t) * (size_t)dtype_bytes((DType)sn_dtype_of(t));
    void *data = malloc(*bytes ? *bytes : 1);
    if (data && sn_read(t, data, *bytes) == SN_OK) return data;
    free(data);
    return NULL;
}

static bool is_within(double got, double want, const CaseTolerance *tolerance) {
    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want);
    return got == want || fabs(got - want) <= tolerance->atol + tolerance->rtol * fabs(want);
}

static bool number_close(DType dtype, const char *got, const char *want, const CaseTolerance *tolerance) {
    if (!dtype_is_float(dtype) && tolerance->rtol == 0 && tolerance->atol == 0)
        return int_at(dtype, got) == int_at(dtype, want);
    return is_within(value_at(dtype, got), value_at(dtype, want), tolerance);
}

static bool zeros_differ(DType dtype, const char *got, const char *want) {
    if (!dtype_is_float(dtype)) return false;
    const double x = value_at(dtype, got), y = value_at(dtype, want);
    return x == 0 && y == 0 && signbit(x) != signbit(y);
}

/* Elements in row-major order of the spec's strided tensor: offsets into its span. */
static int64_t *row_major_offsets(const Json *spec, int64_t numel) {
    const Json *size = json_get(spec, "size"), *stride = json_get(spec, "stride");
    int64_t *offsets = malloc((size_t)(numel + 1) * sizeof *offsets);
    int64_t index[MAX_RANK] = {0}, at = 0;
    for (int64_t e = 0; offsets && e < numel; e++) {
        offsets[e] = at;
        for (int d = size->n - 1; d >= 0; d--) {
            at += stride->items[d].i;
            if (++index[d] < size->items[d].i) break;
            at -= stride->items[d].i * index[d];
            index[d] = 0;
        }
    }
    return offsets;
}

enum { MOST_SHOWN = 6 }; /* elements of one result that a finding tells */

typedef struct Values { /* two dense views of a result */
    DType dtype;
    const char *got, *span;
    const int64_t *offsets; /* of PyTorch's elements in span */
    const double *exact;    /* or NULL, as the next */
    const double *terms;
    int64_t numel;
} Values;

static const char *want_at(const Values *v, int64_t e) { return v->span + v->offsets[e] * dtype_bytes(v->dtype); }
static const char *got_at(const Values *v, int64_t e) { return v->got + e * dtype_bytes(v->dtype); }

/* Of two roundings of one formula that lie on either side of the exact value, ours is within the tolerance of it and
 * the recorded one is no nearer. The exact value is what the op gives in f64, so this holds only as far as that is
 * right: f64 results are never excused, and PyTorch's f64 samples of the same op are what vouches for it. */
static bool is_off_reference(const Values *v, int64_t e, const CaseTolerance *tolerance) {
    const double want = value_at(v->dtype, want_at(v, e)), got = value_at(v->dtype, got_at(v, e)), exact = v->exact[e];
    if (v->dtype == DT_f64 || !is_within(got, exact, tolerance)) return false;
    return !is_within(want, exact, tolerance) || fabs(got - exact) <= fabs(want - exact);
}

/* As near to PyTorch's as is allowed of the terms that both are the small difference of. */
static bool is_cancelled(const Values *v, int64_t e, const CaseTolerance *tolerance) {
    return v->terms && fabs(value_at(v->dtype, got_at(v, e)) - value_at(v->dtype, want_at(v, e))) <=
                           tolerance->atol + tolerance->rtol * v->terms[e];
}

static void print_element(const Values *v, int64_t e, Text *why) {
    text_printf(why, "element %lld is %.9g, not %.9g", (long long)e, value_at(v->dtype, got_at(v, e)),
                value_at(v->dtype, want_at(v, e)));
    if (v->exact) text_printf(why, " (%.9g in f64)", v->exact[e]);
}

static void add_difference(const Values *v, int64_t e, CaseDiffs *diffs, Text *why) {
    if (diffs->shown++ >= MOST_SHOWN) return;
    if (diffs->shown > 1) text_puts(why, "; ");
    print_element(v, e, why);
}

/* All elements, counted by how they differ. */
static bool count_values(const Values *v, const CaseTolerance *tolerance, Text *why) {
    CaseDiffs *const diffs = tolerance->diffs;
    const int64_t wrong = diffs->wrong;
    for (int64_t e = 0; e < v->numel; e++) {
        const bool close = number_close(v->dtype, got_at(v, e), want_at(v, e), tolerance);
        const bool sign = close && zeros_differ(v->dtype, got_at(v, e), want_at(v, e));
        if (close && !sign) continue;
        const bool off = !close && v->exact && (is_off_reference(v, e, tolerance) || is_cancelled(v, e, tolerance));
        *(sign ? &diffs->signs : off ? &diffs->off : &diffs->wrong) += 1;
        add_difference(v, e, diffs, why);
    }
    return diffs->wrong == wrong;
}

static bool values_close(const Values *v, const CaseTolerance *tolerance, Text *why) {
    if (tolerance->diffs) return count_values(v, tolerance, why);
    for (int64_t e = 0; e < v->numel; e++) {
        if (number_close(v->dtype, got_at(v, e), want_at(v, e), tolerance)) continue;
        if (v->exact && (is_off_reference(v, e, tolerance) || is_cancelled(v, e, tolerance))) continue;
        print_element(v, e, why);
        return false;
    }
    return true;
}

/* The values of the same call in f64, where it gave such. */
static double *read_f64(sn_tensor *t, sn_tensor *like) {
    size_t bytes;
    if (!t || sn_dtype_of(t) != SN_F64 || sn_numel(t) != sn_numel(like)) return NULL;
    return read_all(t, &bytes);
}

bool case_zeros(const SafeFile *file, const Json *spec) {
    const char *name = json_string(json_get(spec, "t"));
    const SafeTensor *span = name ? safetensors_find(file, name) : NULL;
    const size_t width = span ? (size_t)dtype_bytes(span->dtype) : 1;
    for (size_t at = 0; span && at < span->bytes; at += width)
        if (value_at(span->dtype, (const char *)span->data + at) != 0) return false;
    return span != NULL;
}

bool case_close(const SafeFile *file, sn_tensor *got, const Json *spec, const CaseTolerance *tolerance, Text *why) {
    if (!case_alike(got, spec, why)) return false;
    const char *name = json_string(json_get(spec, "t"));
    const SafeTensor *span = name ? safetensors_find(file, name) : NULL;
    const Json *stride = json_get(spec, "stride");
    if (!span || !span->dtype || !stride || stride->n != json_get(spec, "size")->n)
        return text_puts(why, "the case's tensor is incomplete"), false;
    size_t bytes;
    char *data = read_all(got, &bytes);
    if (!data) return text_puts(why, "the result could not be read"), false;
    double *exact = read_f64(tolerance->exact, got), *terms = read_f64(tolerance->terms, got);
    int64_t *offsets = row_major_offsets(spec, sn_numel(got));
    const Values values = {.dtype = span->dtype,
                           .got = data,
                           .span = span->data,
                           .offsets = offsets,
                           .exact = exact,
                           .terms = exact ? terms : NULL,
                           .numel = sn_numel(got)};
    const bool close = offsets && values_close(&values, tolerance, why);
    free(offsets);
    free(exact);
    free(terms);
    free(data);
    return close;
}

static bool bits_same(DType dtype, const char *a, const char *b, int64_t n, Text *why) {
    const size_t width = (size_t)dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++, a += width, b += width) {
        if (!memcmp(a, b, width)) continue;
        if (dtype_is_float(dtype) && isnan(value_at(dtype, a)) && isnan(value_at(dtype, b))) continue;
        text_printf(why, "element %lld is %.17g compiled, %.17g eager", (long long)i, value_at(dtype, b),
                    value_at(dtype, a));
        return false;
    }
    return true;
}

static bool same_list(sn_ints a, sn_ints b) {
    return a.n == b.n && (!a.n || !memcmp(a.data, b.data, sizeof *a.data * (size_t)a.n));
}

bool case_same_bits(sn_tensor *a, sn_tensor *b, Text *why) {
    if (!a || !b) return !a && !b ? true : (text_puts(why, "a result is missing"), false);
    if (sn_dtype_of(a) != sn_dtype_of(b) || !same_list(sn_sizes(a), sn_sizes(b)))
        return text_puts(why, "dtype or sizes differ between eager and compiled"), false;
    if (!same_list(sn_strides(a), sn_strides(b)))
        return text_puts(why, "strides differ between eager and compiled"), false;
    size_t bytes;
    char *x = read_all(a, &bytes), *y = read_all(b, &bytes);
    const bool same = x && y && bits_same((DType)sn_dtype_of(a), x, y, sn_numel(a), why);
    if (!x || !y) text_puts(why, "a result could not be read");
    free(x);
    free(y);
    return same;
}
