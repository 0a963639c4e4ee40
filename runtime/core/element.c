/* element.c: see element.h. Conversions here are exact, so they do not depend on the instruction
 * set. */
#include "runtime/core/element.h"

static float half_to_float(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    float value;
    if (!exponent) {
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    const uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    memcpy(&value, &bits, 4);
    return value;
}

double element_double(DType dtype, const void *at) {
    double f64;
    float f32;
    uint16_t u16;
    uint32_t u32;
    switch (dtype) {
    case DT_f64:
        memcpy(&f64, at, 8);
        return f64;
    case DT_f32:
        memcpy(&f32, at, 4);
        return f32;
    case DT_f16:
        memcpy(&u16, at, 2);
        return half_to_float(u16);
    case DT_bf16:
        memcpy(&u16, at, 2);
        u32 = (uint32_t)u16 << 16;
        memcpy(&f32, &u32, 4);
        return f32;
    default:
        return (double)element_int(dtype, at);
    }
}

int64_t element_int(DType dtype, const void *at) {
    int64_t i64 = 0;
    int32_t i32 = 0;
    int16_t i16 = 0;
    switch (dtype) {
    case DT_i64:
        memcpy(&i64, at, 8);
        return i64;
    case DT_i32:
        memcpy(&i32, at, 4);
        return i32;
    case DT_i16:
        memcpy(&i16, at, 2);
        return i16;
    case DT_i8:
        return *(const int8_t *)at;
    case DT_u8:
        return *(const uint8_t *)at;
    case DT_bool:
        return *(const uint8_t *)at != 0;
    default:
        return double_to_i64(element_double(dtype, at));
    }
}

void each_element(const sn_tensor *t, EachElement *visit, void *context) {
    const Meta *const meta = t->base.meta;
    const size_t bytes = (size_t)dtype_bytes(meta->dtype);
    int64_t at[MAX_RANK] = {0};
    const char *from = tensor_data(t);
    for (int64_t n = 0; n < meta->numel; n++) {
        visit(context, from, bytes);
        for (int d = meta->rank - 1; d >= 0; d--) {
            from += meta->strides[d] * (int64_t)bytes;
            if (++at[d] < meta->sizes[d]) break;
            from -= meta->strides[d] * (int64_t)bytes * meta->sizes[d];
            at[d] = 0;
        }
    }
}
