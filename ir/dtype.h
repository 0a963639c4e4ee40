/* dtype.h: element types of tensors and scalar types of loop IR. Kernels may include this and ir/scalar.def only. */
#ifndef SINTER_IR_DTYPE_H
#define SINTER_IR_DTYPE_H
#include "runtime/base/base.h"

/* Values equal the public sn_dtype (asserted in frontend/). */
typedef enum DType {
    DT_default,
#define DTYPE(name, bytes, category, compute) DT_##name,
#include "ir/dtype.def"
#undef DTYPE
    DT_COUNT
} DType;

typedef enum DCategory { CAT_bool, CAT_int, CAT_float } DCategory;

/* What loop IR computes in: two floats, two ints, and booleans (one byte each in a block, i1 in LLVM). */
typedef enum SType { S_f32, S_f64, S_i32, S_i64, S_b, S_COUNT } SType;

const char *dtype_name(DType dtype);          /* "f32"; "default" for DT_default */
DType dtype_find(const char *name, size_t n); /* DT_default when unknown */
int dtype_bytes(DType dtype);
DCategory dtype_category(DType dtype);
SType dtype_compute(DType dtype);
const char *stype_name(SType type); /* "f32", "f64", "i32", "i64", "b" */
int stype_bytes(SType type);        /* of one element of an interpreter block */

static inline bool dtype_is_float(DType dtype) { return dtype_category(dtype) == CAT_float; }
static inline bool dtype_is_int(DType dtype) { return dtype_category(dtype) == CAT_int; }

/* Of an int dtype: its least and its largest value. */
int64_t dtype_least(DType dtype);
int64_t dtype_largest(DType dtype);
double dtype_largest_float(DType dtype); /* of a float dtype: its largest finite value */

/* A float as an int [semantics B3], as casts of loop IR have it: cut towards 0, saturated, NaN 0. Never a cast of C,
 * which is undefined for what does not fit. Elements of i8, i16 and u8 are the low bits of an i32. */
static inline int64_t double_to_i64(double value) {
    if (value >= -0x1p63 && value < 0x1p63) return (int64_t)value;
    return value > 0 ? INT64_MAX : value < 0 ? INT64_MIN : 0;
}
static inline int32_t double_to_i32(double value) {
    if (value > -0x1p31 - 1 && value < 0x1p31) return (int32_t)value;
    return value > 0 ? INT32_MAX : value < 0 ? INT32_MIN : 0;
}
static inline bool double_is_i64(double value) { return value == (double)double_to_i64(value) && value < 0x1p63; }

/* PyTorch's promotion of two dtypes (torch.promote_types): f16 with bf16 gives f32, u8 with i8 gives i16. */
DType dtype_promote(DType a, DType b);

#endif
