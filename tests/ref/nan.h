/* nan.h: is an element a NaN? By its bits, so that no conversion comes between. Tests that compare
 * bits take any NaN for any other [semantics B1]. */
#ifndef SINTER_TESTS_REF_NAN_H
#define SINTER_TESTS_REF_NAN_H
#include <string.h>

#include "ir/dtype.h"

static inline bool is_nan_at(DType dtype, const void *at) {
    uint64_t bits = 0;
    memcpy(&bits, at, (size_t)dtype_bytes(dtype));
    switch (dtype) {
    case DT_f64:
        return (bits & INT64_MAX) > UINT64_C(0x7ff0000000000000);
    case DT_f32:
        return (bits & INT32_MAX) > 0x7f800000;
    case DT_f16:
        return (bits & INT16_MAX) > 0x7c00;
    case DT_bf16:
        return (bits & INT16_MAX) > 0x7f80;
    default:
        return false;
    }
}

#endif
