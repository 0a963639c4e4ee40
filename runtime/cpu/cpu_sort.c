/* cpu_sort.c: sort.stable, topk; nonzero. An element's key is an int64 in its order: -0 as 0, NaN above all numbers,
 * complemented to descend. Pairs of key and place are merged, the left one first where keys are equal, so that equal
 * elements keep their order in both directions [B2.6]; so do long lines, which are dealt out by each byte of the keys,
 * the lowest first. Of topk's few the best so far are kept in order instead. */
#include "runtime/core/dispatch.h"
#include "runtime/core/element.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/alloc_cpu.h"

typedef struct SortKey {
    int64_t key, place;
} SortKey;

enum { LONG_LINE = 256, BYTE_VALUES = 256 };
enum { FEW_KEYS = 64 }; /* that are put in place one by one: in the worst order each of a line moves half of them */

static int64_t float_key(double x) {
    int64_t bits;
    if (x != x) return INT64_MAX;
    if (x == 0) return 0;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? INT64_MIN - bits : bits;
}

static int64_t key_of(DType dtype, const void *at, bool descending) {
    const int64_t key = dtype_is_float(dtype) ? float_key(element_double(dtype, at))
                        : dtype == DT_bool    ? *(const char *)at != 0
                                              : element_int(dtype, at);
    return descending ? ~key : key;
}

/* The keys of a line. Of f32 they are those of its own bits, in the same order. */
static void fill_keys(DType dtype, const char *from, int64_t stride, bool descending, int64_t n, SortKey *pairs) {
    for (int64_t i = 0; i < n && dtype != DT_f32; i++)
        pairs[i] = (SortKey){key_of(dtype, from + i * stride, descending), i};
    for (int64_t i = 0; i < n && dtype == DT_f32; i++) {
        int32_t bits;
        memcpy(&bits, from + i * stride, sizeof bits);
        const int64_t number = bits < 0 ? (int64_t)INT32_MIN - bits : bits;
        const int64_t key = (bits & INT32_MAX) > 0x7f800000 ? INT32_MAX : number; /* narrow: fewer bytes differ */
        pairs[i] = (SortKey){descending ? ~key : key, i};
    }
}

/* The first few in order, of equal ones the earlier, which most others are not among. */
static SortKey *first_keys(const SortKey *from, SortKey *to, int64_t n, int64_t kept) {
    for (int64_t i = 0; i < n; i++) {
        if (LIKELY(i >= kept && from[i].key >= to[kept - 1].key)) continue;
        int64_t at = min_i64(i, kept - 1);
        for (; at > 0 && to[at - 1].key > from[i].key; at--) to[at] = to[at - 1];
        to[at] = from[i];
    }
    return to;
}

static void merge_runs(const SortKey *left, int64_t n_left, const SortKey *right, int64_t n_right, SortKey *to) {
    for (; n_left && n_right; to++) {
        const bool first = left->key <= right->key;
        *to = first ? *left : *right;
        left += first, n_left -= first, right += !first, n_right -= !first;
    }
    memcpy(to, left, sizeof *to * (size_t)n_left);
    memcpy(to + n_left, right, sizeof *to * (size_t)n_right);
}

/* By one byte of what the keys are above the least one, in the order that they have. */
static void deal_keys(const SortKey *from, SortKey *to, int64_t n, int64_t least, int shift) {
    int64_t at[BYTE_VALUES] = {0}, before = 0;
    for (int64_t i = 0; i < n; i++) at[((uint64_t)from[i].key - (uint64_t)least) >> shift & 0xff]++;
    for (int value = 0; value < BYTE_VALUES; value++) {
        const int64_t count = at[value];
        at[value] = before, before += count;
    }
    for (int64_t i = 0; i < n; i++) to[at[((uint64_t)from[i].key - (uint64_t)least) >> shift & 0xff]++] = from[i];
}

/* As many bytes as the largest key is above the least one; which of the two buffers has the result. */
static SortKey *sort_long(SortKey *from, SortKey *to, int64_t n) {
    int64_t least = from->key, most = from->key;
    for (int64_t i = 1; i < n; i++) least = min_i64(least, from[i].key), most = max_i64(most, from[i].key);
    const uint64_t span = (uint64_t)most - (uint64_t)least;
    for (int shift = 0; shift < 64 && span >> shift; shift += 8) {
        deal_keys(from, to, n, least, shift);
        SortKey *const swap = from;
        from = to, to = swap;
    }
    return from;
}

/* Runs of 1, 2, 4...; which of the two buffers has the result. */
static SortKey *sort_keys(SortKey *from, SortKey *to, int64_t n) {
    if (n >= LONG_LINE) return sort_long(from, to, n);
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            const int64_t left = min_i64(run, n - i), right = min_i64(run, n - i - left);
            merge_runs(from + i, left, from + i + left, right, to + i);
        }
        SortKey *const swap = from;
        from = to, to = swap;
    }
    return from;
}

/* One dim of a tensor: where a line begins, by the number of the line. */
typedef struct SortLine {
    const Meta *meta;
    char *data;
    int dim;
    int64_t stride; /* bytes along the dim */
} SortLine;

static SortLine line_along(const sn_tensor *t, int dim) {
    const Meta *const meta = t->base.meta;
    return (SortLine){meta, tensor_data(t), dim, meta->rank ? meta->strides[dim] * dtype_bytes(meta->dtype) : 0};
}

static char *line_start(const SortLine *line, int64_t number) {
    int64_t at = 0;
    for (int d = line->meta->rank - 1; d >= 0; d--) {
        if (d == line->dim) continue;
        at += number % line->meta->sizes[d] * line->meta->strides[d];
        number /= line->meta->sizes[d];
    }
    return line->data + at * dtype_bytes(line->meta->dtype);
}

typedef struct Sorting {
    SortLine self, values, indices;
    int64_t n, kept, lines; /* elements of a line; how many come out */
    bool descending;
    SortKey *pairs; /* 2 n */
} Sorting;

static void move_element(DType dtype, char *to, const char *from) {
    if (dtype == DT_bool)
        *to = *from != 0;
    else
        memcpy(to, from, (size_t)dtype_bytes(dtype));
}

static void sort_line(const Sorting *s, int64_t number) {
    const DType dtype = s->self.meta->dtype;
    const char *const from = line_start(&s->self, number);
    char *const values = line_start(&s->values, number), *const indices = line_start(&s->indices, number);
    fill_keys(dtype, from, s->self.stride, s->descending, s->n, s->pairs);
    const bool few = s->kept <= FEW_KEYS && s->kept < s->n;
    const SortKey *const sorted =
        few ? first_keys(s->pairs, s->pairs + s->n, s->n, s->kept) : sort_keys(s->pairs, s->pairs + s->n, s->n);
    for (int64_t i = 0; i < s->kept; i++) {
        move_element(dtype, values + i * s->values.stride, from + sorted[i].place * s->self.stride);
        memcpy(indices + i * s->indices.stride, &sorted[i].place, sizeof(int64_t));
    }
}

static Status sort_along(OpCall *call, int64_t dim, bool descending) {
    const sn_tensor *const self = tensor_of(call->args[0].val);
    const Meta *const meta = self->base.meta, *const out = call->outs[0]->base.meta;
    const int at = meta->rank ? (int)dim_wrap(dim, meta->rank) : 0;
    Sorting s = {
        line_along(self, at), line_along(call->outs[0], at), line_along(call->outs[1], at), 1, 1, 1, descending, NULL};
    if (meta->rank) s.n = meta->sizes[at], s.kept = out->sizes[at];
    if (!meta->rank && out->numel == 0) s.kept = 0;
    if (!out->numel) return ST_OK;
    s.lines = meta->numel / s.n;
    const size_t bytes = (size_t)s.n * 2 * sizeof *s.pairs;
    s.pairs = call->workspace ? call->workspace : cpu_alloc(bytes);
    if (!s.pairs) return error_pending();
    for (int64_t i = 0; i < s.lines; i++) sort_line(&s, i);
    if (!call->workspace) cpu_free(s.pairs, bytes);
    return ST_OK;
}

/* (self, stable, dim, descending) */
Status cpu_sort(OpCall *call) { return sort_along(call, call->args[2].i, call->args[3].i); }
/* (self, k, dim, largest, sorted) */
Status cpu_topk(OpCall *call) { return sort_along(call, call->args[2].i, call->args[3].i); }

/* nonzero ------------------------------------------------------------------------------------- */

typedef struct NonzeroRows {
    const Meta *meta;
    int64_t n, number; /* rows so far; of the element, row-major */
    int64_t apart;     /* from one dim's positions to the next's */
    int64_t *at;       /* NULL: they are counted only */
} NonzeroRows;

static void look_at(void *context, const char *element, size_t bytes) {
    NonzeroRows *const rows = context;
    const Meta *const meta = rows->meta;
    int64_t rest = rows->number++;
    (void)bytes;
    if (element_double(meta->dtype, element) == 0) return;
    for (int d = meta->rank - 1; d >= 0 && rows->at; d--) {
        rows->at[d * rows->apart + rows->n] = rest % meta->sizes[d];
        rest /= meta->sizes[d];
    }
    rows->n++;
}

/* A row for each position; those of one dim lie side by side, as in PyTorch. */
static const Meta *positions_meta(int64_t n, int rank) {
    const int64_t sizes[2] = {n, rank}, strides[2] = {1, n > 1 ? n : 1};
    return meta_intern(DT_i64, DEV_cpu, sizes, strides, 2, false);
}

/* The key's own entry, as where's: its sizes are known from the values only. */
Status cpu_nonzero(OpCall *call) {
    sn_tensor *const self = tensor_of(call->args[0].val);
    TRY(tensor_ready(self, call->row->name));
    NonzeroRows rows = {.meta = self->base.meta};
    each_element(self, look_at, &rows);
    const Meta *const meta = positions_meta(rows.n, rows.meta->rank);
    call->outs[0] = meta ? tensor_new(meta) : NULL;
    if (!call->outs[0]) return error_pending();
    rows.at = tensor_data(call->outs[0]);
    rows.apart = rows.n, rows.n = rows.number = 0;
    if (meta->numel) each_element(self, look_at, &rows);
    return ST_OK;
}
