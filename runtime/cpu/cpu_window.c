/* cpu_window.c: pools: the largest element or the mean of each window, and their gradients. Everything goes plane by
 * plane (the dims before the spatial ones) over row-major buffers in the compute type, so that neither layout nor
 * threads, which share out planes, enter the bits [B2.9]. */
#include "runtime/cpu/cpu_window.h"

#include <math.h>
#include <string.h>

#include "runtime/core/pool.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/device/spatial.h"

WindowBuffer buffer_read(const sn_tensor *t) {
    WindowBuffer buffer;
    buffer.at = compute_buffer(t, &buffer.owned_bytes);
    return buffer;
}

static size_t buffer_bytes(const sn_tensor *of) {
    const Meta *const meta = of->base.meta;
    return (size_t)max_i64(meta->numel, 1) * (size_t)dtype_bytes(compute_dtype(meta->dtype));
}

WindowBuffer buffer_write(const sn_tensor *out) {
    const Meta *const meta = out->base.meta;
    if (meta->contiguous && compute_dtype(meta->dtype) == meta->dtype) return (WindowBuffer){tensor_data(out), 0};
    const size_t bytes = buffer_bytes(out);
    void *const at = cpu_alloc(bytes);
    return (WindowBuffer){at, at ? bytes : 0};
}

void buffer_zero(WindowBuffer buffer, const sn_tensor *of) {
    if (of->base.meta->numel) memset(buffer.at, 0, buffer_bytes(of));
}

void buffer_free(WindowBuffer buffer) {
    if (buffer.owned_bytes) cpu_free(buffer.at, buffer.owned_bytes);
}

void buffer_store(WindowBuffer buffer, sn_tensor *out) {
    if (!buffer.owned_bytes) return;
    const Meta *const meta = out->base.meta;
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    const StridedSpan from = {buffer.at, compute_dtype(meta->dtype), strides}, to = span_of(out);
    span_copy(&to, &from, meta->sizes, meta->rank);
}

/* windows ------------------------------------------------------------------------------------- */

static int64_t window_divisor(const Windows *w, int64_t i, int64_t j, int64_t k) {
    const int64_t at[3] = {i, j, k};
    int64_t n = 1;
    for (int d = 0; d < 3; d++) {
        const Axis *const a = &w->axis[d];
        const int64_t inside = max_i64(a->hi[at[d]] - a->lo[at[d]], 0);
        if (!inside) return 0; /* nothing to divide */
        n *= w->padded ? a->whole[at[d]] : inside;
    }
    return w->divisor ? w->divisor : n;
}

#define TYPE       float
#define LOWEST     (-INFINITY)
#define NAME(word) word##_f32
#include "runtime/cpu/cpu_window_type.h"
#undef TYPE
#undef NAME
#define TYPE       double
#define NAME(word) word##_f64
#include "runtime/cpu/cpu_window_type.h"
#undef TYPE
#undef LOWEST
#undef NAME
#define TYPE       int32_t
#define LOWEST     INT32_MIN
#define NAME(word) word##_i32
#include "runtime/cpu/cpu_window_type.h"
#undef TYPE
#undef LOWEST
#undef NAME
#define TYPE       int64_t
#define LOWEST     INT64_MIN
#define NAME(word) word##_i64
#include "runtime/cpu/cpu_window_type.h"

static float rounded_to(DType dtype, float value) {
    const KernelTable *const table = kernel_table();
    char element[8];
    float back;
    table->store(dtype)(element, 1, &value, 1);
    table->load(dtype)(&back, element, 1, 1);
    return back;
}

/* PyTorch's 3-D adaptive means of f16 and bf16 keep their sum in that dtype and divide by one dim after the other. */
static void narrow_plane(const Windows *w, int64_t plane) {
    const Axis *const a = w->axis;
    const float *const x = (const float *)w->from + plane * w->in;
    float *y = (float *)w->to + plane * w->out;
    for (int64_t i = 0; i < w->out; i++) {
        const int64_t at[3] = {i / (a[1].out * a[2].out), i / a[2].out % a[1].out, i % a[2].out};
        float sum = 0;
        for (int64_t d = a[0].lo[at[0]]; d < a[0].hi[at[0]]; d++)
            for (int64_t r = a[1].lo[at[1]]; r < a[1].hi[at[1]]; r++)
                for (int64_t c = a[2].lo[at[2]]; c < a[2].hi[at[2]]; c++)
                    sum = rounded_to(w->narrow, sum + x[(d * a[1].in + r) * a[2].in + c]);
        for (int d = 0; d < 3; d++) sum = rounded_to(w->narrow, sum / (float)(a[d].hi[at[d]] - a[d].lo[at[d]]));
        y[i] = sum;
    }
}

#define BY_TYPE(word)                                                                                                  \
    { [S_f32] = word##_f32, [S_f64] = word##_f64, [S_i32] = word##_i32, [S_i64] = word##_i64 }
static PlaneFn *const max_planes[S_COUNT] = BY_TYPE(max_plane), *const max_backs[S_COUNT] = BY_TYPE(max_back);
static PlaneFn *const mean_planes[S_COUNT] = BY_TYPE(mean_plane), *const mean_backs[S_COUNT] = BY_TYPE(mean_back);
static PlaneFn *const narrow_planes[S_COUNT] = {[S_f32] = narrow_plane};

static bool axis_new(Axis *a, int64_t in, int64_t out) {
    *a = (Axis){in, out, 1, NULL, NULL, NULL};
    a->lo = cpu_alloc((size_t)(3 * out + 1) * sizeof *a->lo);
    if (!a->lo) return false;
    a->hi = a->lo + out;
    a->whole = a->hi + out;
    return true;
}

static void windows_free(Windows *w) {
    for (int d = 0; d < 3; d++)
        if (w->axis[d].lo) cpu_free(w->axis[d].lo, (size_t)(3 * w->axis[d].out + 1) * sizeof(int64_t));
}

/* Dims that are not there. */
static bool axis_one(Axis *a) {
    if (!axis_new(a, 1, 1)) return false;
    a->lo[0] = 0;
    a->hi[0] = a->whole[0] = 1;
    return true;
}

static void axis_pool(Axis *a, PoolReach r) {
    a->step = r.dilation;
    for (int64_t i = 0; i < a->out; i++) {
        const int64_t start = i * r.stride - r.padding, end = start + (r.kernel - 1) * r.dilation + 1;
        a->lo[i] = start < 0 ? start + ceil_div(-start, r.dilation) * r.dilation : start;
        a->hi[i] = min_i64(end, a->in);
        a->whole[i] = min_i64(end, a->in + r.padding) - start;
    }
}

static void axis_adaptive(Axis *a) {
    for (int64_t i = 0; i < a->out; i++) {
        a->lo[i] = i * a->in / a->out;
        a->hi[i] = ceil_div((i + 1) * a->in, a->out);
        a->whole[i] = a->hi[i] - a->lo[i];
    }
}

static const sn_tensor *tensor_arg(const OpCall *call, int i) { return tensor_of(call->args[i].val); }

/* From the sizes of what is read and what is made by the forward op, of n spatial dims; adaptive: those that
 * no list speaks of. */
static bool windows_of(const OpCall *call, const Meta *in, const Meta *out, int n, bool adaptive, Windows *w) {
    *w = (Windows){.planes = 0};
    if (!out->numel) return true; /* no window: sizes beside a 0 may be any */
    w->planes = w->in = w->out = 1;
    for (int d = 0; d < in->rank - n; d++) w->planes *= in->sizes[d];
    for (int d = 0; d < 3; d++) {
        Axis *const a = &w->axis[d];
        const int spatial = d - (3 - n), at = in->rank - 3 + d;
        if (!(spatial < 0 ? axis_one(a) : axis_new(a, in->sizes[at], out->sizes[at]))) return false;
        w->in *= a->in;
        w->out *= a->out;
        if (spatial < 0) continue;
        if (adaptive)
            axis_adaptive(a);
        else
            axis_pool(a, pool_reach(call, spatial));
    }
    w->divisor = pool_divisor(call);
    w->padded = pool_is_padded(call);
    return true;
}

typedef struct Planes {
    const Windows *w;
    PlaneFn *plane;
    int64_t each; /* planes of a part */
} Planes;

static void run_part(void *context, int part) {
    const Planes *const p = context;
    const int64_t first = p->each * part, last = min_i64(first + p->each, p->w->planes);
    for (int64_t plane = first; plane < last; plane++) p->plane(p->w, plane);
}

static void run_planes(const Windows *w, PlaneFn *plane) {
    if (!w->planes) return;
    const bool large = w->planes * max_i64(w->in, w->out) >= 1 << 15;
    const int64_t parts = large ? min_i64(pool_threads(), w->planes) : 1;
    Planes planes = {w, plane, ceil_div(w->planes, parts)};
    pool_run((int)ceil_div(w->planes, planes.each), run_part, &planes);
}

/* from -> to by the plane function of to's compute type; zeroed: it adds. */
static Status run_windows(Windows *w, const sn_tensor *from, sn_tensor *to, PlaneFn *const *planes, bool zeroed) {
    const WindowBuffer x = buffer_read(from), y = x.at ? buffer_write(to) : (WindowBuffer){NULL, 0};
    if (y.at) {
        w->from = x.at;
        w->to = y.at;
        if (zeroed) buffer_zero(y, to);
        run_planes(w, planes[dtype_compute(to->base.meta->dtype)]);
        buffer_store(y, to);
    }
    buffer_free(y);
    buffer_free(x);
    return y.at ? ST_OK : ST_MEMORY;
}

/* rows ---------------------------------------------------------------------------------------- */

Status cpu_max_pool(OpCall *call) {
    const sn_tensor *const self = tensor_arg(call, 0);
    sn_tensor *const out = call->outs[0], *const index = call->outs[1];
    Windows w;
    Status status = ST_MEMORY;
    if (windows_of(call, self->base.meta, out->base.meta, pool_dims(call, 1), false, &w)) {
        const WindowBuffer at = buffer_write(index);
        w.index = at.at;
        if (at.at) status = run_windows(&w, self, out, max_planes, false);
        if (status == ST_OK) buffer_store(at, index);
        buffer_free(at);
    }
    windows_free(&w);
    return status;
}

static Status indices_fit(const OpCall *call, const Windows *w) {
    for (int64_t i = 0; i < w->planes * w->out; i++)
        if (w->index[i] < 0 || w->index[i] >= w->in)
            return error_raise(ST_VALUE, "%s: indices %lld is out of range for %lld elements of a plane",
                               call->row->name, (long long)w->index[i], (long long)w->in);
    return ST_OK;
}

Status cpu_max_pool_backward(OpCall *call) {
    const sn_tensor *const grad = tensor_arg(call, 0);
    sn_tensor *const out = call->outs[0];
    Windows w;
    Status status = ST_MEMORY;
    if (windows_of(call, out->base.meta, grad->base.meta, pool_dims(call, 2), false, &w)) {
        const WindowBuffer at = buffer_read(tensor_arg(call, 7));
        w.index = at.at;
        if (at.at) status = indices_fit(call, &w);
        if (at.at && status == ST_OK) status = run_windows(&w, grad, out, max_backs, true);
        buffer_free(at);
    }
    windows_free(&w);
    return status;
}

static Status mean(OpCall *call, int n, bool adaptive) {
    const sn_tensor *const self = tensor_arg(call, 0);
    sn_tensor *const out = call->outs[0];
    const DType dtype = out->base.meta->dtype;
    const bool narrow = adaptive && n == 3 && (dtype == DT_f16 || dtype == DT_bf16);
    Windows w;
    Status status = ST_MEMORY;
    const bool ready = windows_of(call, self->base.meta, out->base.meta, n, adaptive, &w);
    w.narrow = dtype;
    if (ready) status = run_windows(&w, self, out, narrow ? narrow_planes : mean_planes, false);
    windows_free(&w);
    return status;
}
Status cpu_avg_pool(OpCall *call) { return mean(call, pool_dims(call, 1), false); }
Status cpu_adaptive_avg_pool(OpCall *call) { return mean(call, pool_dims(call, 1), true); }

static Status mean_backward(OpCall *call, int n, bool adaptive) {
    const sn_tensor *const grad = tensor_arg(call, 0);
    sn_tensor *const out = call->outs[0];
    Windows w;
    Status status = ST_MEMORY;
    if (windows_of(call, out->base.meta, grad->base.meta, n, adaptive, &w))
        status = run_windows(&w, grad, out, mean_backs, true);
    windows_free(&w);
    return status;
}
Status cpu_avg_pool_backward(OpCall *call) { return mean_backward(call, pool_dims(call, 2), false); }
Status cpu_adaptive_avg_pool2d_backward(OpCall *call) { return mean_backward(call, 2, true); }
Status cpu_adaptive_avg_pool3d_backward(OpCall *call) { return mean_backward(call, 3, true); }
