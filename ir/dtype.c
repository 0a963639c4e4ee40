/* dtype.c: tables projected from dtype.def, and promotion. */
#include "ir/dtype.h"

typedef struct DTypeRow {
    const char *name;
    int bytes;
    DCategory category;
    SType compute;
} DTypeRow;

static const DTypeRow rows[DT_COUNT] = {
    [DT_default] = {"default", 0, CAT_float, S_f32},
#define DTYPE(name, bytes, category, compute) [DT_##name] = {#name, bytes, CAT_##category, S_##compute},
#include "ir/dtype.def"
#undef DTYPE
};

const char *dtype_name(DType dtype) { return rows[dtype].name; }
int dtype_bytes(DType dtype) { return rows[dtype].bytes; }
DCategory dtype_category(DType dtype) { return rows[dtype].category; }
SType dtype_compute(DType dtype) { return rows[dtype].compute; }

DType dtype_find(const char *name, size_t n) {
    for (int i = DT_default + 1; i < DT_COUNT; i++)
        if (strlen(rows[i].name) == n && !memcmp(rows[i].name, name, n)) return (DType)i;
    return DT_default;
}

int64_t dtype_largest(DType dtype) {
    if (dtype == DT_u8) return UINT8_MAX;
    return INT64_MAX >> (64 - 8 * rows[dtype].bytes);
}
int64_t dtype_least(DType dtype) { return dtype == DT_u8 ? 0 : -dtype_largest(dtype) - 1; }

double dtype_largest_float(DType dtype) {
    return dtype == DT_f16    ? 65504
           : dtype == DT_bf16 ? 0x1.fep127
           : dtype == DT_f32  ? 0x1.fffffep127
                              : 0x1.fffffffffffffp1023;
}

const char *stype_name(SType type) {
    static const char *const names[S_COUNT] = {"f32", "f64", "i32", "i64", "b"};
    return names[type];
}

int stype_bytes(SType type) {
    static const int bytes[S_COUNT] = {4, 8, 4, 8, 1};
    return bytes[type];
}

/* Wider of two ints; u8 with a signed type needs a signed type that holds 0..255. */
static DType promote_ints(DType a, DType b) {
    if (a == b) return a;
    if (a == DT_u8 || b == DT_u8) {
        const DType other = a == DT_u8 ? b : a;
        return other == DT_i8 ? DT_i16 : other;
    }
    return rows[a].bytes >= rows[b].bytes ? a : b;
}

DType dtype_promote(DType a, DType b) {
    if (a == b) return a;
    const DCategory ca = rows[a].category, cb = rows[b].category;
    if (ca != cb) return ca > cb ? a : b;
    if (ca == CAT_int) return promote_ints(a, b);
    if (rows[a].bytes == rows[b].bytes) return DT_f32; /* f16 with bf16 */
    return rows[a].bytes > rows[b].bytes ? a : b;
}
