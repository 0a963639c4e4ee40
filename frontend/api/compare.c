/* compare.c: whole tensors compared on the host: sn_equal, sn_allclose (sinter/tensor.h). */
#include <math.h>
#include <sinter/tensor.h>

#include "frontend/api/enter.h"
#include "runtime/base/alloc.h"
#include "runtime/core/element.h"
#include "runtime/core/state.h"

typedef struct Tolerance {
    double rtol, atol;
    bool exact;
} Tolerance;

/* Integers may lie apart where their doubles are one. */
static bool close_ints(int64_t x, int64_t y, const Tolerance *by) {
    if (x == y || by->exact) return x == y;
    const uint64_t apart = x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
    return (double)apart <= by->atol + by->rtol * fabs((double)y);
}

static bool close_at(DType dtype, const char *a, const char *b, const Tolerance *by) {
    if (!dtype_is_float(dtype)) return close_ints(element_int(dtype, a), element_int(dtype, b), by);
    const double x = element_double(dtype, a), y = element_double(dtype, b);
    if (x == y) return true;
    return !by->exact && isfinite(x) && isfinite(y) && fabs(x - y) <= by->atol + by->rtol * fabs(y);
}

static bool alike(sn_tensor *a, sn_tensor *b) {
    const Meta *const x = a->base.meta, *const y = b->base.meta;
    return x->dtype == y->dtype && meta_same_sizes(x, y);
}

/* Both row-major, one behind the other. */
static bool compare_read(sn_tensor *a, sn_tensor *b, const Tolerance *by) {
    const DType dtype = a->base.meta->dtype;
    const size_t item = (size_t)dtype_bytes(dtype), bytes = (size_t)a->base.meta->numel * item;
    char *const x = mem_alloc(2 * bytes + 1);
    if (!x) return false;
    bool same = sn_read(a, x, bytes) == SN_OK && sn_read(b, x + bytes, bytes) == SN_OK;
    for (size_t at = 0; at < bytes && same; at += item) same = close_at(dtype, x + at, x + bytes + at, by);
    mem_free(x);
    return same;
}

static bool compare_tensors(sn_tensor *a, sn_tensor *b, const Tolerance *by, const char *who) {
    if (tensor_ready(a, who) != ST_OK || tensor_ready(b, who) != ST_OK) return false;
    return alike(a, b) && compare_read(a, b, by);
}

bool sn_equal(sn_tensor *a, sn_tensor *b) {
    API_ENTER(sn_equal);
    return compare_tensors(a, b, &(Tolerance){.exact = true}, "sn_equal");
}

bool sn_allclose(sn_tensor *a, sn_tensor *b, double rtol, double atol) {
    API_ENTER(sn_allclose);
    return compare_tensors(a, b, &(Tolerance){rtol, atol, false}, "sn_allclose");
}
