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

void case_tolerance(const Json *spec, double *rtol, double *atol) {
    const Json *tol = json_get(spec, "tol");
    const bool given = tol && tol->kind == JSON_list && tol->n == 2;
    *rtol = given ? tol->items[0].number : 0;
    *atol = given ? tol->items[1].number : 0;
}

/* 1e-5, or the dtype's usual tolerance where that is looser. */
void case_tolerance_of_dtype(const Json *spec, double *rtol, double *atol) {
    const char *name = json_string(json_get(spec, "dtype"));
    *rtol = name && !strcmp(name, "bf16") ? 1.6e-2 : name && !strcmp(name, "f16") ? 1e-3 : 1e-5;
    *atol = 1e-5;
}

bool case_alike(sn_tensor *got, const Json *spec, Text *why) {
    const char *name = json_string(json_get(spec, "dtype"));
    const Json *size = json_get(spec, "size");
    if (!got) return text_puts(why, "a result is missing"), false;
    if (!name || !size) return text_puts(why, "the case's tensor is incomplete"), false;
    const sn_ints sizes = sn_sizes(got);
    if (strcmp(dtype_name((DType)sn_dtype_of(got)), name))
        return text_printf(why, "dtype %s, not %s", dtype_name((DType)sn_dtype_of(got)), name),
               false;
    bool same = sizes.n == size->n;
    for (int i = 0; same && i < size->n; i++) same = sizes.data[i] == size->items[i].i;
    if (same) return true;
    text_puts(why, "sizes ");
    sizes_print(NULL, why, sizes.data, (int)sizes.n);
    text_puts(why, ", not [");
    for (int i = 0; i < size->n; i++)
        text_printf(why, i ? ", %lld" : "%lld", (long long)size->items[i].i);
    text_puts(why, "]");
    return false;
}

static void *read_all(sn_tensor *t, size_t *bytes) {
    *bytes = (size_t)sn_numel(t) * (size_t)dtype_bytes((DType)sn_dtype_of(t));
    void *data = malloc(*bytes ? *bytes : 1);
    if (data && sn_read(t, data, *bytes) == SN_OK) return data;
    free(data);
    return NULL;
}

static bool number_close(DType dtype, const char *got, const char *want, double rtol, double atol) {
    if (!dtype_is_float(dtype) && rtol == 0 && atol == 0)
        return int_at(dtype, got) == int_at(dtype, want);
    const double a = value_at(dtype, got), b = value_at(dtype, want);
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= atol + rtol * fabs(b);
}

/* Walks the spec's strides in row-major order beside the dense result. */
static bool values_close(const SafeTensor *span, const char *got, const Json *spec,
                         const double tol[2], Text *why) {
    const Json *size = json_get(spec, "size"), *stride = json_get(spec, "stride");
    const int width = dtype_bytes(span->dtype);
    int64_t index[MAX_RANK] = {0}, numel = 1, at = 0;
    for (int i = 0; i < size->n; i++) numel *= size->items[i].i;
    for (int64_t e = 0; e < numel; e++) {
        const char *want = (const char *)span->data + at * width;
        if (!number_close(span->dtype, got + e * width, want, tol[0], tol[1])) {
            text_printf(why, "element %lld is %.9g, not %.9g", (long long)e,
                        value_at(span->dtype, got + e * width), value_at(span->dtype, want));
            return false;
        }
        for (int d = size->n - 1; d >= 0; d--) {
            at += stride->items[d].i;
            if (++index[d] < size->items[d].i) break;
            at -= stride->items[d].i * index[d];
            index[d] = 0;
        }
    }
    return true;
}

bool case_close(const SafeFile *file, sn_tensor *got, const Json *spec, double rtol, double atol,
                Text *why) {
    if (!case_alike(got, spec, why)) return false;
    const char *name = json_string(json_get(spec, "t"));
    const SafeTensor *span = name ? safetensors_find(file, name) : NULL;
    const Json *stride = json_get(spec, "stride");
    if (!span || !stride || stride->n != json_get(spec, "size")->n)
        return text_puts(why, "the case's tensor is incomplete"), false;
    size_t bytes;
    char *data = read_all(got, &bytes);
    if (!data) return text_puts(why, "the result could not be read"), false;
    const bool close = values_close(span, data, spec, (const double[]){rtol, atol}, why);
    free(data);
    return close;
}

static bool bits_same(DType dtype, const char *a, const char *b, int64_t n, Text *why) {
    const size_t width = (size_t)dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++, a += width, b += width) {
        if (!memcmp(a, b, width)) continue;
        if (dtype_is_float(dtype) && isnan(value_at(dtype, a)) && isnan(value_at(dtype, b)))
            continue;
        text_printf(why, "element %lld is %.17g compiled, %.17g eager", (long long)i,
                    value_at(dtype, b), value_at(dtype, a));
        return false;
    }
    return true;
}

bool case_same_bits(sn_tensor *a, sn_tensor *b, Text *why) {
    if (!a || !b) return !a && !b ? true : (text_puts(why, "a result is missing"), false);
    const sn_ints left = sn_sizes(a), right = sn_sizes(b);
    if (sn_dtype_of(a) != sn_dtype_of(b) || left.n != right.n ||
        (left.n && memcmp(left.data, right.data, sizeof *left.data * (size_t)left.n)))
        return text_puts(why, "dtype or sizes differ between eager and compiled"), false;
    size_t bytes;
    char *x = read_all(a, &bytes), *y = read_all(b, &bytes);
    const bool same = x && y && bits_same((DType)sn_dtype_of(a), x, y, sn_numel(a), why);
    if (!x || !y) text_puts(why, "a result could not be read");
    free(x);
    free(y);
    return same;
}
