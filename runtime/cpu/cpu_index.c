/* cpu_index.c: native kernels that write at positions given by data. Additions happen one by one in
 * ascending row-major position of the index, in the compute type, rounded once at the end
 * [semantics B2]; threads split columns, which never meet. A position out of range is an error
 * before anything visible is written. */
#include <stdatomic.h>

#include "ir/loop.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/element.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/cpu/cpu_index_lines.h"
#include "runtime/core/pool.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/device/positions.h"

typedef struct IndexBounds { /* what an index may say */
    int dim;
    int64_t size, allowed; /* of dim; and this one value that means none */
} IndexBounds;
static const int64_t nothing_else = INT64_MIN;

static int wrap_index_dim(int64_t dim, int rank) { return (int)dim_wrap(dim, rank); }

static const sn_tensor *tensor_arg(const OpCall *call, int i) { return tensor_of(call->args[i].val); }

/* rows: acc[o, index[n], :] += alpha * source[o, n, :] -------------------------------------------- */

typedef struct IndexRows {
    SType type;
    char *acc;          /* [outer, targets, inner] */
    const char *source; /* [outer, n, inner] */
    const int64_t *index;
    int64_t outer, targets, n, inner;
    int64_t skip;          /* an index that adds nothing, or -1 */
    const Arg *alpha;      /* NULL: 1 */
    const int64_t *counts; /* scale by 1 / counts[index]; NULL: not */
    int64_t columns;       /* of inner, per part; in lines: of outer */
} IndexRows;

static void scale(const IndexRows *rows, const Arg *by, char *block, const char *from, int64_t n) {
    _Alignas(64) char splat[BLOCK * 8];
    number_to_block(rows->type, by, splat, (int)n);
    kernel_table()->prim(rows->type == S_b ? PRIM_and : PRIM_mul, rows->type)(block, from, splat, NULL, n);
}

static void add_run(const IndexRows *rows, char *to, const char *from, int64_t n, int64_t target) {
    _Alignas(64) char scaled[BLOCK * 8];
    const Arg inverse = A_FLOAT(rows->counts ? (double)(1.0f / (float)rows->counts[target]) : 1);
    const Arg *const by = rows->counts ? &inverse : rows->alpha;
    if (by) scale(rows, by, scaled, from, n);
    const Prim join = rows->type == S_b ? PRIM_or : PRIM_add; /* bools add as or */
    kernel_table()->prim(join, rows->type)(to, to, by ? scaled : from, NULL, n);
}

static void add_columns(void *context, int part) {
    const IndexRows *const rows = context;
    const int64_t first = rows->columns * part, last = min_i64(first + rows->columns, rows->inner);
    const int64_t bytes = stype_bytes(rows->type);
    for (int64_t o = 0; o < rows->outer; o++)
        for (int64_t i = 0; i < rows->n; i++) {
            const int64_t target = rows->index[i];
            if (target == rows->skip) continue;
            char *const to = rows->acc + (o * rows->targets + target) * rows->inner * bytes;
            const char *const from = rows->source + (o * rows->n + i) * rows->inner * bytes;
            for (int64_t c = first; c < last; c += BLOCK)
                add_run(rows, to + c * bytes, from + c * bytes, min_i64(BLOCK, last - c), target);
        }
}

/* Where inner is one element: a row of the source is a line. */
static void add_lines(void *context, int part) {
    const IndexRows *const rows = context;
    const int64_t first = rows->columns * part, last = min_i64(first + rows->columns, rows->outer);
    const int64_t bytes = stype_bytes(rows->type);
    IndexLineFn *const add = cpu_index_lines_add(rows->type);
    for (int64_t o = first; o < last; o++)
        add((IndexLine){.to = rows->acc + o * rows->targets * bytes,
                        .from = rows->source + o * rows->n * bytes,
                        .target = rows->index,
                        .n = rows->n,
                        .target_step = 1,
                        .from_step = 1});
}

static bool are_lines(const IndexRows *rows) {
    return rows->inner == 1 && !rows->alpha && !rows->counts && rows->skip < 0 && cpu_index_lines_add(rows->type);
}

static void add_rows(IndexRows *rows) {
    const bool large = rows->outer * rows->n * rows->inner >= 1 << 16;
    if (are_lines(rows)) {
        rows->columns = max_i64(large ? ceil_div(rows->outer, pool_threads()) : rows->outer, 1);
        pool_run((int)ceil_div(rows->outer, rows->columns), add_lines, rows);
        return;
    }
    const int parts = large ? (int)min_i64(pool_threads(), ceil_div(rows->inner, 64)) : 1;
    rows->columns = parts > 1 ? round_up(ceil_div(rows->inner, parts), 64) : max_i64(rows->inner, 1);
    pool_run((int)ceil_div(max_i64(rows->inner, 1), rows->columns), add_columns, rows);
}

/* The index as i64, row-major, checked; NULL raises. */
static int64_t *read_index(const OpRow *row, const sn_tensor *index, IndexBounds of, size_t *bytes) {
    const Meta *const meta = index->base.meta;
    *bytes = (size_t)max_i64(meta->numel, 1) * sizeof(int64_t);
    int64_t *const values = cpu_alloc(*bytes);
    if (!values) return NULL;
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    const StridedSpan to = {(char *)values, DT_i64, strides}, from = span_of(index);
    span_copy(&to, &from, meta->sizes, meta->rank);
    for (int64_t i = 0; i < meta->numel; i++) {
        if (values[i] >= 0 && (values[i] < of.size || values[i] == of.allowed)) continue;
        raise_position(row, values[i], of.size, of.dim);
        cpu_free(values, *bytes);
        return NULL;
    }
    return values;
}

/* acc is out's own memory where that is row-major in the compute type, else a buffer stored at the
 * end. */
static Status run_rows(IndexRows *rows, const sn_tensor *source, sn_tensor *out) {
    size_t source_bytes, acc_bytes;
    rows->type = dtype_compute(out->base.meta->dtype);
    rows->source = compute_buffer(source, &source_bytes);
    rows->acc = rows->source ? compute_buffer(out, &acc_bytes) : NULL;
    if (!rows->acc) {
        if (rows->source && source_bytes) cpu_free((void *)(uintptr_t)rows->source, source_bytes);
        return ST_MEMORY;
    }
    add_rows(rows);
    if (source_bytes) cpu_free((void *)(uintptr_t)rows->source, source_bytes);
    if (!acc_bytes) return ST_OK;
    const Meta *const meta = out->base.meta;
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    const StridedSpan from = {rows->acc, compute_dtype(meta->dtype), strides}, to = span_of(out);
    span_copy(&to, &from, meta->sizes, meta->rank);
    cpu_free(rows->acc, acc_bytes);
    return ST_OK;
}

static int64_t product_between(const int64_t *sizes, int first, int last) {
    int64_t n = 1;
    for (int d = first; d < last; d++) n *= sizes[d];
    return n;
}

Status cpu_index_add(OpCall *call) {
    sn_tensor *const out = call->outs[0];
    const sn_tensor *const index = tensor_arg(call, 2), *const source = tensor_arg(call, 3);
    const Meta *const meta = out->base.meta;
    const int dim = wrap_index_dim(call->args[1].i, meta->rank);
    const int64_t size = meta->rank ? meta->sizes[dim] : 1;
    size_t bytes;
    int64_t *const values = read_index(call->row, index, (IndexBounds){dim, size, nothing_else}, &bytes);
    if (!values) return error_pending();
    tensor_copy_into(out, tensor_arg(call, 0));
    const Arg *const alpha = &call->args[4];
    IndexRows rows = {.index = values,
                      .outer = product_between(meta->sizes, 0, dim),
                      .targets = size,
                      .n = index->base.meta->numel,
                      .inner = product_between(meta->sizes, dim + 1, meta->rank),
                      .skip = -1,
                      .alpha = arg_double(alpha) == 1 ? NULL : alpha};
    const Status status = run_rows(&rows, source, out);
    cpu_free(values, bytes);
    return status;
}

static void count_indices(const IndexRows *rows, int64_t *counts) {
    for (int64_t i = 0; i < rows->n; i++) counts[rows->index[i]] += rows->index[i] != rows->skip;
}

Status cpu_embedding_dense_backward(OpCall *call) {
    sn_tensor *const out = call->outs[0];
    const sn_tensor *const grad = tensor_arg(call, 0), *const index = tensor_arg(call, 1);
    const int64_t size = call->args[2].i, padding = call->args[3].i;
    size_t bytes, counts_bytes = 0;
    int64_t *const values = read_index(call->row, index, (IndexBounds){0, size, padding < 0 ? nothing_else : padding},
                                       &bytes),
                   *counts = NULL;
    if (!values) return error_pending();
    if (call->args[4].i && (counts = cpu_alloc(counts_bytes = (size_t)(size + 1) * sizeof *counts)))
        memset(counts, 0, counts_bytes);
    span_fill(&(StridedSpan){tensor_data(out), out->base.meta->dtype, out->base.meta->strides}, &A_INT(0),
              out->base.meta->sizes, out->base.meta->rank);
    IndexRows rows = {.index = values,
                      .outer = 1,
                      .targets = size,
                      .n = index->base.meta->numel,
                      .inner = out->base.meta->sizes[1],
                      .skip = padding < 0 ? -1 : padding,
                      .counts = counts};
    if (counts) count_indices(&rows, counts);
    const Status status = counts_bytes && !counts ? ST_MEMORY : run_rows(&rows, grad, out);
    cpu_free(counts, counts_bytes);
    cpu_free(values, bytes);
    return status;
}

/* elements: out[.., index[i], ..] =, += or *= source[i] --------------------------------------- */

typedef struct Elements {
    const Meta *index; /* sizes walked, row-major */
    const int64_t *values;
    char *to; /* memory written, with strides */
    const int64_t *strides;
    int dim, bytes;
    bool bools;       /* moved as 0 or 1 */
    const char *from; /* source elements, with strides; NULL: `value` */
    const int64_t *from_strides;
    const void *value;
    BlockFn *join;         /* NULL: moves */
    IndexLineFn *by_lines; /* the same along the last dim; NULL: one by one */
    int64_t *counts;       /* by element of `to`: how many came in, of ops that ask */
    bool alone;            /* the first one that comes in stands in the place of what was there */
} Elements;

static void write_element(const Elements *e, const int64_t *at, int64_t target) {
    int64_t to = 0, from = 0;
    for (int d = 0; d < e->index->rank || d <= e->dim; d++) { /* a missing dim is one of size 1 */
        const int64_t i = d < e->index->rank ? at[d] : 0, place = d == e->dim ? target : i;
        if (place) to += place * e->strides[d];
        if (e->from && i) from += i * e->from_strides[d];
    }
    char *const element = e->to + to * e->bytes;
    const void *const source = e->from ? e->from + from * e->bytes : e->value;
    const bool first = e->counts && e->counts[to]++ == 0;
    if (e->join && !(first && e->alone))
        e->join(element, element, source, NULL, 1);
    else if (e->bools)
        *element = *(const char *)source != 0;
    else
        memcpy(element, source, (size_t)e->bytes);
}

/* The next place of the first `rank` dims, row-major. */
static void step_on(const Elements *e, int64_t *at, int rank) {
    for (int d = rank - 1; d >= 0; d--) {
        if (++at[d] < e->index->sizes[d]) break;
        at[d] = 0;
    }
}

/* The line along the last dim where the others are at `at`. */
static void write_line(const Elements *e, const int64_t *at, const int64_t *targets) {
    const int last = e->index->rank - 1;
    int64_t to = 0, from = 0;
    for (int d = 0; d < last; d++) {
        if (d != e->dim) to += at[d] * e->strides[d];
        from += at[d] * e->from_strides[d];
    }
    e->by_lines((IndexLine){.to = e->to + to * e->bytes,
                            .from = e->from + from * e->bytes,
                            .target = targets,
                            .n = e->index->sizes[last],
                            .to_step = e->dim == last ? 0 : e->strides[last],
                            .target_step = e->strides[e->dim],
                            .from_step = e->from_strides[last]});
}

static bool goes_by_lines(const Elements *e) {
    return e->by_lines && e->from && !e->counts && !e->bools && e->index->rank > e->dim && e->index->numel;
}

static void write_elements(const Elements *e) {
    int64_t at[MAX_RANK] = {0};
    const int rank = e->index->rank;
    const int64_t run = goes_by_lines(e) ? e->index->sizes[rank - 1] : 1;
    for (int64_t i = 0; i < e->index->numel; i += run) {
        if (goes_by_lines(e))
            write_line(e, at, e->values + i);
        else
            write_element(e, at, e->values[i]);
        step_on(e, at, goes_by_lines(e) ? rank - 1 : rank);
    }
}

typedef struct Scatter {
    int dim;
    int64_t *values;
    size_t bytes;
} Scatter;

static Status scatter_begin(OpCall *call, Scatter *s) {
    const Meta *const meta = call->outs[0]->base.meta;
    s->dim = wrap_index_dim(call->args[1].i, meta->rank);
    const IndexBounds of = {s->dim, meta->rank ? meta->sizes[s->dim] : 1, nothing_else};
    s->values = read_index(call->row, tensor_arg(call, 2), of, &s->bytes);
    if (!s->values) return error_pending();
    tensor_copy_into(call->outs[0], tensor_arg(call, 0));
    return ST_OK;
}

static Elements elements_of(const OpCall *call, const Scatter *s) {
    const sn_tensor *const out = call->outs[0];
    return (Elements){.index = tensor_arg(call, 2)->base.meta,
                      .values = s->values,
                      .to = tensor_data(out),
                      .strides = out->base.meta->strides,
                      .dim = s->dim,
                      .bytes = dtype_bytes(out->base.meta->dtype),
                      .bools = out->base.meta->dtype == DT_bool};
}

Status cpu_scatter(OpCall *call) {
    Scatter s;
    TRY(scatter_begin(call, &s));
    Elements e = elements_of(call, &s);
    e.from = tensor_data(tensor_arg(call, 3));
    e.from_strides = tensor_arg(call, 3)->base.meta->strides;
    e.by_lines = cpu_index_lines_move(e.bytes);
    write_elements(&e);
    cpu_free(s.values, s.bytes);
    return ST_OK;
}

Status cpu_scatter_value(OpCall *call) {
    Scatter s;
    TRY(scatter_begin(call, &s));
    Elements e = elements_of(call, &s);
    char element[8];
    span_fill(&(StridedSpan){element, call->outs[0]->base.meta->dtype, NULL}, &call->args[3], NULL, 0);
    e.value = element;
    write_elements(&e);
    cpu_free(s.values, s.bytes);
    return ST_OK;
}

/* args[3] as elements of the compute type: a tensor's, row-major, or a number rounded to out's dtype. */
typedef struct Joined {
    char number[8], *at;
    size_t owned_bytes;
    int64_t strides[MAX_RANK];
} Joined;

static Status joined_begin(const OpCall *call, Joined *from) {
    const DType dtype = call->outs[0]->base.meta->dtype;
    *from = (Joined){.at = from->number};
    if (call->args[3].kind == ARG_tensor) {
        const Meta *const meta = tensor_arg(call, 3)->base.meta;
        meta_contiguous_strides(NULL, meta->sizes, meta->rank, from->strides);
        from->at = compute_buffer(tensor_arg(call, 3), &from->owned_bytes);
        return from->at ? ST_OK : ST_MEMORY;
    }
    char element[8];
    const StridedSpan own = {element, dtype, NULL}, wide = {from->number, compute_dtype(dtype), NULL};
    span_fill(&own, &call->args[3], NULL, 0);
    span_copy(&wide, &own, NULL, 0);
    return ST_OK;
}

/* How elements join. counts (of out's elements) where it matters how many came in. */
typedef struct Joining {
    Prim prim;
    int64_t *counts;
    bool alone, mean;
} Joining;

static int64_t floor_quotient(int64_t a, int64_t n) { return a / n - (a % n < 0); }

/* Sums to means over what came in and, unless `alone`, what was there; ints round down. */
static void divide_sums(const Joining *how, SType type, void *sums, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t count = how->counts[i] + !how->alone;
        if (count < 2) continue;
        if (type == S_f32)
            ((float *)sums)[i] /= (float)count;
        else if (type == S_f64)
            ((double *)sums)[i] /= (double)count;
        else if (type == S_i64)
            ((int64_t *)sums)[i] = floor_quotient(((int64_t *)sums)[i], count);
        else if (type == S_i32)
            ((int32_t *)sums)[i] = (int32_t)floor_quotient(((int32_t *)sums)[i], count);
    }
}

/* In the compute type: narrow dtypes are joined in a wide copy of out and rounded once. */
static Status join_into(OpCall *call, const Scatter *s, const Joined *from, const Joining *how) {
    const sn_tensor *const out = call->outs[0];
    const Meta *const meta = out->base.meta;
    size_t acc_bytes = 0;
    char *const acc = compute_buffer(out, &acc_bytes);
    if (!acc) return ST_MEMORY;
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    Elements e = elements_of(call, s);
    e.to = acc, e.strides = strides, e.value = from->number;
    e.from = from->at == from->number ? NULL : from->at, e.from_strides = from->strides;
    e.bytes = stype_bytes(dtype_compute(meta->dtype));
    e.join = kernel_table()->prim(how->prim, dtype_compute(meta->dtype));
    e.by_lines = how->prim == PRIM_add ? cpu_index_lines_add(dtype_compute(meta->dtype)) : NULL;
    e.counts = how->counts, e.alone = how->alone;
    write_elements(&e);
    if (how->mean) divide_sums(how, dtype_compute(meta->dtype), acc, meta->numel);
    if (!acc_bytes) return ST_OK;
    const StridedSpan wide = {acc, compute_dtype(meta->dtype), strides}, to = span_of(out);
    span_copy(&to, &wide, meta->sizes, meta->rank);
    cpu_free(acc, acc_bytes);
    return ST_OK;
}

static Status scatter_joining(OpCall *call, const Joining *how) {
    Scatter s;
    Joined from;
    TRY(scatter_begin(call, &s));
    Status status = joined_begin(call, &from);
    if (status == ST_OK) status = join_into(call, &s, &from, how);
    if (from.owned_bytes) cpu_free(from.at, from.owned_bytes);
    cpu_free(s.values, s.bytes);
    return status;
}

/* Bools add as or and multiply as and; the larger of two is or, the smaller one and. */
static Prim joining_prim(const OpCall *call, const char *word) {
    static const Prim prims[] = {PRIM_add, PRIM_mul, PRIM_max, PRIM_min},
                      bools[] = {PRIM_or, PRIM_and, PRIM_or, PRIM_and};
    return (call->outs[0]->base.meta->dtype == DT_bool ? bools : prims)[joining_of(word)];
}

Status cpu_scatter_add(OpCall *call) {
    return scatter_joining(call, &(const Joining){.prim = joining_prim(call, "add")});
}

Status cpu_scatter_reduce(OpCall *call) {
    return scatter_joining(call, &(const Joining){.prim = joining_prim(call, call->args[4].string)});
}

Status cpu_scatter_reduce_two(OpCall *call) {
    const size_t bytes = (size_t)max_i64(call->outs[0]->base.meta->numel, 1) * sizeof(int64_t);
    Joining how = {.prim = joining_prim(call, call->args[4].string),
                   .counts = cpu_alloc(bytes),
                   .alone = !call->args[5].i,
                   .mean = joining_is_mean(call->args[4].string)};
    if (!how.counts) return error_pending();
    memset(how.counts, 0, bytes);
    const Status status = scatter_joining(call, &how);
    cpu_free(how.counts, bytes);
    return status;
}
