/* cpu_scan.c: cumsum, cumprod. The order of a scan [B2.5]: a dim is cut in chunks of SCAN_CHUNK; within one each
 * element joins what its chunk has so far, and that joins the last result of the chunk before. In the compute type,
 * rounded once at the store. */
#include "runtime/core/dispatch.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/alloc_cpu.h"

enum { SCAN_CHUNK = 1024 };

typedef struct Scan {
    int64_t outer, n, inner; /* of the dim, of those around it */
    bool multiplies;
    void *at;  /* [outer, n, inner], in place */
    void *run; /* [inner]: of the running chunk */
} Scan;

#define JOIN(s, a, b) ((s)->multiplies ? (a) * (b) : (a) + (b))
#define SCAN(name, type)                                                                                               \
    static void scan_##name(const Scan *s) {                                                                           \
        type *const run = s->run;                                                                                      \
        for (int64_t o = 0; o < s->outer; o++)                                                                         \
            for (int64_t k = 0; k < s->n; k++) {                                                                       \
                type *const row = (type *)s->at + (o * s->n + k) * s->inner;                                           \
                const type *const before = k >= SCAN_CHUNK ? row - (k % SCAN_CHUNK + 1) * s->inner : NULL;             \
                for (int64_t i = 0; i < s->inner; i++) {                                                               \
                    run[i] = k % SCAN_CHUNK ? (type)JOIN(s, run[i], row[i]) : row[i];                                  \
                    row[i] = before ? (type)JOIN(s, before[i], run[i]) : run[i];                                       \
                }                                                                                                      \
            }                                                                                                          \
    }
SCAN(f32, float)
SCAN(f64, double)
SCAN(i32, uint32_t) /* ints wrap */
SCAN(i64, uint64_t)

/* Of the last dim: lines, several at a time, as each waits for its own last element. n: of one chunk each. */
enum { SCAN_LINES = 8 };
#define SCAN_LAST(name, type)                                                                                          \
    static ALWAYS_INLINE void chunks_##name(type *at, int64_t apart, bool first, int64_t n, int lines,                 \
                                            bool multiplies) {                                                         \
        const Scan how = {.multiplies = multiplies};                                                                   \
        type run[SCAN_LINES], before[SCAN_LINES] = {0};                                                                \
        for (int r = 0; r < lines; r++) run[r] = at[r * apart], before[r] = first ? 0 : at[r * apart - 1];             \
        for (int64_t k = 0; k < n; k++)                                                                                \
            for (int r = 0; r < lines; r++) {                                                                          \
                type *const here = &at[r * apart + k];                                                                 \
                if (k) run[r] = (type)JOIN(&how, run[r], *here);                                                       \
                *here = first ? run[r] : (type)JOIN(&how, before[r], run[r]);                                          \
            }                                                                                                          \
    }                                                                                                                  \
    static void lines_##name(const Scan *s) {                                                                          \
        for (int64_t o = 0; o < s->outer; o += SCAN_LINES)                                                             \
            for (int64_t first = 0; first < s->n; first += SCAN_CHUNK) {                                               \
                type *const at = (type *)s->at + o * s->n + first;                                                     \
                const int64_t n = min_i64(SCAN_CHUNK, s->n - first);                                                   \
                const bool whole = o + SCAN_LINES <= s->outer;                                                         \
                if (whole && !s->multiplies)                                                                           \
                    chunks_##name(at, s->n, !first, n, SCAN_LINES, false);                                             \
                else                                                                                                   \
                    chunks_##name(at, s->n, !first, n, whole ? SCAN_LINES : (int)(s->outer - o), s->multiplies);       \
            }                                                                                                          \
    }
SCAN_LAST(f32, float)
SCAN_LAST(f64, double)
SCAN_LAST(i32, uint32_t)
SCAN_LAST(i64, uint64_t)

static void scan_lines_as(SType type, const Scan *scan) {
    if (type == S_f32)
        lines_f32(scan);
    else if (type == S_f64)
        lines_f64(scan);
    else if (type == S_i64)
        lines_i64(scan);
    else
        lines_i32(scan);
}

static void scan_as(SType type, const Scan *scan) {
    if (scan->inner == 1) {
        scan_lines_as(type, scan);
        return;
    }
    if (type == S_f32)
        scan_f32(scan);
    else if (type == S_f64)
        scan_f64(scan);
    else if (type == S_i64)
        scan_i64(scan);
    else
        scan_i32(scan);
}

static int64_t sizes_product(const Meta *meta, int first, int last) {
    int64_t n = 1;
    for (int d = first; d < last; d++) n *= meta->sizes[d];
    return n;
}

static Status run_scan(OpCall *call, bool multiplies) {
    sn_tensor *const out = call->outs[0];
    const Meta *const meta = out->base.meta;
    const SType type = dtype_compute(meta->dtype);
    size_t owned = 0;
    tensor_copy_into(out, tensor_of(call->args[0].val));
    if (!meta->numel || !meta->rank) return ST_OK;
    const int dim = (int)dim_wrap(call->args[1].i, meta->rank);
    Scan scan = {sizes_product(meta, 0, dim),
                 meta->sizes[dim],
                 sizes_product(meta, dim + 1, meta->rank),
                 multiplies,
                 compute_buffer(out, &owned),
                 NULL};
    if (!scan.at) return error_pending();
    const size_t run_bytes = (size_t)(scan.inner * stype_bytes(type));
    scan.run = cpu_alloc(run_bytes);
    if (scan.run) scan_as(type, &scan);
    if (scan.run && owned) {
        int64_t strides[MAX_RANK];
        meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
        const StridedSpan from = {scan.at, compute_dtype(meta->dtype), strides}, to = span_of(out);
        span_copy(&to, &from, meta->sizes, meta->rank);
    }
    if (owned) cpu_free(scan.at, owned);
    if (!scan.run) return error_pending();
    cpu_free(scan.run, run_bytes);
    return ST_OK;
}

Status cpu_cumsum(OpCall *call) { return run_scan(call, false); }
Status cpu_cumprod(OpCall *call) { return run_scan(call, true); }
