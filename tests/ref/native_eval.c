/* native_eval.c: native ops by plain loops over doubles: scatters in ascending index order, rows added up, parts of
 * memory replaced, products of matrices. */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "ir/op_ids.h"
#include "runtime/base/error.h"
#include "tests/ref/native_window.h"

static int64_t place(const WideTensor *t, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < t->rank; d++) at += index[d] * t->strides[d];
    return at * dtype_bytes(t->dtype);
}

/* Halves go through the library's own casts; the rest is C's. */
static double half_get(DType dtype, const void *at) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    if (dtype == DT_bf16) {
        const uint32_t wide = (uint32_t)bits << 16;
        float value;
        memcpy(&value, &wide, sizeof value);
        return value;
    }
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void half_set(DType dtype, void *at, double value) {
    if (dtype == DT_f16) {
        const _Float16 half = (_Float16)value;
        memcpy(at, &half, sizeof half);
        return;
    }
    const float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    const uint16_t high = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    memcpy(at, &high, sizeof high);
}

#define EACH_PLAIN(X)                                                                                                  \
    X(f64, double)                                                                                                     \
    X(f32, float)                                                                                                      \
    X(i64, int64_t) X(i32, int32_t) X(i16, int16_t) X(i8, int8_t) X(u8, uint8_t) X(bool, bool)

double wide_get(const WideTensor *t, const int64_t *index) {
    const char *const at = (const char *)t->data + place(t, index);
    switch (t->dtype) {
#define X(name, type)                                                                                                  \
    case DT_##name:                                                                                                    \
        return (double)*(const type *)at;
        EACH_PLAIN(X)
#undef X
    default:
        return half_get(t->dtype, at);
    }
}

void wide_set(const WideTensor *t, const int64_t *index, double value) {
    char *const at = (char *)t->data + place(t, index);
    switch (t->dtype) {
    case DT_f64:
        *(double *)at = value;
        break;
    case DT_f32:
        *(float *)at = (float)value;
        break;
    case DT_bool:
        *(bool *)at = value != 0;
        break;
    case DT_f16:
    case DT_bf16:
        half_set(t->dtype, at, value);
        break;
    default: { /* ints wrap: little-endian low bytes */
        const int64_t whole = (int64_t)value;
        memcpy(at, &whole, (size_t)dtype_bytes(t->dtype));
    }
    }
}

int64_t wide_numel(const WideTensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->sizes[d];
    return n;
}

void wide_index(const WideTensor *t, int64_t number, int64_t *index) {
    for (int d = t->rank - 1; d >= 0; d--) {
        index[d] = t->sizes[d] ? number % t->sizes[d] : 0;
        number = t->sizes[d] ? number / t->sizes[d] : 0;
    }
}

static void copy_all(const WideTensor *from, const WideTensor *to) {
    int64_t index[MAX_RANK];
    for (int64_t i = 0; i < wide_numel(to); i++) {
        wide_index(to, i, index);
        wide_set(to, index, wide_get(from, index));
    }
}

static int64_t wrapped(int64_t i, int64_t n) { return i < 0 ? i + n : i; }

/* Sums stay double until all contributions are in. */
typedef struct Sums {
    double *at;
    const WideTensor *out;
} Sums;

static int64_t number_of(const WideTensor *t, const int64_t *index) {
    int64_t n = 0;
    for (int d = 0; d < t->rank; d++) n = n * t->sizes[d] + index[d];
    return n;
}

static bool sums_new(Sums *sums, const WideTensor *start, const WideTensor *out) {
    int64_t index[MAX_RANK];
    *sums = (Sums){mem_zero((size_t)(wide_numel(out) + 1) * sizeof(double)), out};
    for (int64_t i = 0; sums->at && start->data && i < wide_numel(out); i++) {
        wide_index(out, i, index);
        sums->at[i] = wide_get(start, index);
    }
    return sums->at != NULL;
}

static void sums_end(Sums *sums) {
    int64_t index[MAX_RANK];
    for (int64_t i = 0; i < wide_numel(sums->out); i++) {
        wide_index(sums->out, i, index);
        wide_set(sums->out, index, sums->at[i]);
    }
    mem_free(sums->at);
}

/* A number is cast to self's dtype before it is used. */
static double in_dtype_of(const WideTensor *self, double value) {
    if (self->dtype == DT_bool) return value != 0;
    return dtype_is_float(self->dtype) ? value : trunc(value);
}

static double joined(const OpRow *row, const Arg *args, const WideTensor *out, double to, double value) {
    const bool reduces = row->id == OP_scatter_reduce || row->id == OP_scatter_value_reduce;
    const bool multiplies = reduces && !strcmp(args[4].string, "multiply");
    if (multiplies) return to * value;
    if (!reduces && row->id != OP_scatter_add) return value;
    return out->dtype == DT_bool ? to != 0 || value != 0 : to + value;
}

/* scatter_add, scatter.src, .value, .reduce, .value_reduce: (self, dim, index, src or value, how) */
static Status eval_scatter(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const WideTensor *const index = &in[2], *const src = &in[3];
    const int64_t dim = wrapped(args[1].i, in[0].rank);
    Sums sums;
    int64_t at[MAX_RANK];
    if (!sums_new(&sums, &in[0], out)) return ST_MEMORY;
    for (int64_t i = 0; i < wide_numel(index); i++) {
        wide_index(index, i, at);
        const double value = src->data ? wide_get(src, at) : in_dtype_of(&in[0], arg_double(&args[3]));
        const int64_t to = (int64_t)wide_get(index, at);
        if (out->rank) at[dim] = to;
        double *const sum = &sums.at[number_of(out, at)];
        *sum = joined(row, args, out, *sum, value);
    }
    sums_end(&sums);
    return ST_OK;
}

/* (self, dim, index, source, alpha) */
static Status eval_index_add(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const WideTensor *const index = &in[2], *const source = &in[3];
    const int64_t dim = wrapped(args[1].i, in[0].rank);
    Sums sums;
    int64_t at[MAX_RANK];
    if (!sums_new(&sums, &in[0], out)) return ST_MEMORY;
    for (int64_t i = 0; i < wide_numel(source); i++) {
        wide_index(source, i, at);
        const double value = wide_get(source, at) * arg_double(&args[4]);
        at[dim] = (int64_t)wide_get(index, (int64_t[]){at[dim]});
        sums.at[number_of(out, at)] += value;
    }
    sums_end(&sums);
    return ST_OK;
}

/* (grad_output, indices, num_weights, padding_idx, scale) */
static Status eval_embedding_backward(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const WideTensor none = {0};
    Sums sums;
    int64_t at[MAX_RANK];
    if (!sums_new(&sums, &none, out)) return ST_MEMORY;
    for (int64_t i = 0; i < wide_numel(&in[0]); i++) {
        wide_index(&in[0], i, at);
        const int64_t to = (int64_t)wide_get(&in[1], at);
        if (to != args[3].i) sums.at[to * out->sizes[1] + at[in[0].rank - 1]] += wide_get(&in[0], at);
    }
    sums_end(&sums);
    return ST_OK;
}

/* (self, src, size, stride, offset) */
static Status eval_view_scatter(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    WideTensor view = *out;
    int64_t index[MAX_RANK];
    copy_all(&in[0], out);
    view.rank = args[2].n;
    view.sizes = args[2].ints;
    view.strides = args[3].ints;
    view.data = (char *)out->data + args[4].i * dtype_bytes(out->dtype);
    for (int64_t i = 0; i < wide_numel(&view); i++) {
        wide_index(&view, i, index);
        wide_set(&view, index, wide_get(&in[1], index));
    }
    return ST_OK;
}

/* scatter_reduce.two: (self, dim, index, src, reduce, include_self) */
static double reduced(const char *how, double a, double b) {
    if (!strcmp(how, "prod")) return a * b;
    if (!strcmp(how, "amax")) return isnan(a) || a > b ? a : b;
    if (!strcmp(how, "amin")) return isnan(a) || a < b ? a : b;
    return a + b;
}

static Status eval_scatter_reduce_two(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const char *const how = args[4].string;
    const int64_t dim = wrapped(args[1].i, in[0].rank), n = wide_numel(out);
    Sums sums;
    int64_t at[MAX_RANK], *const counts = mem_zero((size_t)(n + 1) * sizeof *counts);
    if (!sums_new(&sums, &in[0], out) || !counts) return ST_MEMORY;
    for (int64_t i = 0; i < n; i++) counts[i] = args[5].i != 0;
    for (int64_t i = 0; i < wide_numel(&in[2]); i++) {
        wide_index(&in[2], i, at);
        const double value = wide_get(&in[3], at);
        const int64_t to = (int64_t)wide_get(&in[2], at);
        if (out->rank) at[dim] = to;
        const int64_t number = number_of(out, at);
        sums.at[number] = counts[number]++ ? reduced(how, sums.at[number], value) : value;
    }
    for (int64_t i = 0; i < n && !strcmp(how, "mean"); i++) {
        if (counts[i]) sums.at[i] /= (double)counts[i];
        if (!dtype_is_float(out->dtype)) sums.at[i] = out->dtype == DT_bool ? sums.at[i] != 0 : floor(sums.at[i]);
    }
    mem_free(counts);
    sums_end(&sums);
    return ST_OK;
}

/* cumsum, cumprod: (self, dim, dtype), one after another */
static Status eval_scan(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const int64_t dim = wrapped(args[1].i, in[0].rank);
    int64_t at[MAX_RANK];
    for (int64_t i = 0; i < wide_numel(out); i++) {
        wide_index(out, i, at);
        const int64_t last = out->rank ? at[dim] : 0;
        double all = row->id == OP_cumsum ? 0 : 1;
        for (int64_t k = 0; k <= last; k++) {
            if (out->rank) at[dim] = k;
            all = row->id == OP_cumsum ? all + wide_get(&in[0], at) : all * wide_get(&in[0], at);
        }
        wide_set(out, at, all);
    }
    return ST_OK;
}

/* a before b: NaN is above all numbers */
static bool comes_before(double a, double b, bool descending) {
    if (descending) return !isnan(b) && (isnan(a) || a > b);
    return !isnan(a) && (isnan(b) || a < b);
}

/* sort.stable and topk: each element goes to the place that is the number of those before it. */
static Status eval_sort(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const bool descending = args[3].i;
    const int64_t dim = wrapped(args[2].i, in[0].rank), n = in[0].rank ? in[0].sizes[dim] : 1;
    int64_t at[MAX_RANK], other[MAX_RANK];
    for (int64_t i = 0; i < wide_numel(&in[0]); i++) {
        wide_index(&in[0], i, at);
        const int64_t own = in[0].rank ? at[dim] : 0;
        const double value = wide_get(&in[0], at);
        int64_t place = 0;
        memcpy(other, at, sizeof at);
        for (int64_t k = 0; k < n; k++) {
            if (in[0].rank) other[dim] = k;
            const double rival = wide_get(&in[0], other);
            place += comes_before(rival, value, descending) || (k < own && !comes_before(value, rival, descending));
        }
        if (place >= (out[0].rank ? out[0].sizes[dim] : wide_numel(&out[0]))) continue;
        if (in[0].rank) at[dim] = place;
        wide_set(&out[0], at, value);
        wide_set(&out[1], at, (double)own);
    }
    return ST_OK;
}

/* (index, size, dim) */
static Status eval_index_positions(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    int64_t at[MAX_RANK];
    for (int64_t i = 0; i < wide_numel(out); i++) {
        wide_index(out, i, at);
        wide_set(out, at, (double)wrapped((int64_t)wide_get(&in[0], at), args[1].i));
    }
    return ST_OK;
}

static double list_at(const WideTensor *t, int64_t i) { return wide_get(t, (const int64_t[MAX_RANK]){i}); }

/* One element of a bag; *size: how many indices it has, *from: where a maximum came from. */
static double bag_element(const Arg *args, const WideTensor *in, const int64_t span[2], int64_t column, int64_t *size,
                          int64_t *from) {
    double joined = 0;
    *size = *from = 0;
    for (int64_t i = span[0]; i < span[1]; i++) {
        const int64_t at[2] = {(int64_t)list_at(&in[1], i), column};
        const double value = wide_get(&in[0], at) * (args[6].kind == ARG_tensor ? list_at(&in[6], i) : 1);
        if (at[0] == args[8].i) continue;
        if (args[4].i < 2) joined += value;
        if (args[4].i == 2 && (!*size || value > joined)) joined = value, *from = at[0];
        ++*size;
    }
    return args[4].i == 1 && *size ? joined / (double)*size : joined;
}

/* (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx) */
static Status eval_bags(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const int64_t n = in[1].sizes[0], count = out[0].sizes[0];
    int64_t at[MAX_RANK] = {0}, size, from;
    for (at[0] = 0; at[0] < count; at[0]++) {
        const int64_t span[2] = {(int64_t)list_at(&in[2], at[0]),
                                 at[0] + 1 < count ? (int64_t)list_at(&in[2], at[0] + 1) : n};
        for (int64_t i = span[0]; i < span[1] && out[1].sizes[0]; i++)
            wide_set(&out[1], (const int64_t[MAX_RANK]){i}, (double)at[0]);
        for (at[1] = 0; at[1] < out[0].sizes[1]; at[1]++) {
            wide_set(&out[0], at, bag_element(args, in, span, at[1], &size, &from));
            if (out[3].rank == 2) wide_set(&out[3], at, (double)from);
        }
        bag_element(args, in, span, 0, &size, &from);
        wide_set(&out[2], at, args[4].i ? (double)size : 0);
        if (out[3].rank == 1) wide_set(&out[3], at, args[4].i ? (double)size : 0);
    }
    for (at[0] = count; at[0] < out[2].sizes[0]; at[0]++) wide_set(&out[2], at, 0), wide_set(&out[3], at, 0);
    return ST_OK;
}

/* mm, bmm (a, b) and addmm, baddbmm (self, a, b, beta, alpha) */
static Status eval_product(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const int first = row->n_params > 2;
    const WideTensor *const a = &in[first], *const b = &in[first + 1];
    const int r = out->rank;
    int64_t at[3], left[3], right[3], self[3] = {0};
    for (int64_t i = 0; i < wide_numel(out); i++) {
        double sum = 0;
        wide_index(out, i, at);
        memcpy(left, at, sizeof at);
        memcpy(right, at, sizeof at);
        for (int64_t k = 0; k < a->sizes[r - 1]; k++) {
            left[r - 1] = right[r - 2] = k;
            sum += wide_get(a, left) * wide_get(b, right);
        }
        if (first) {
            for (int d = 0; d < in[0].rank; d++) self[d] = in[0].sizes[d] == 1 ? 0 : at[r - in[0].rank + d];
            const double beta = arg_double(&args[3]);
            sum = arg_double(&args[4]) * sum + (beta != 0 ? beta * wide_get(&in[0], self) : 0);
        }
        wide_set(out, at, sum);
    }
    return ST_OK;
}

Status native_eval(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    static const struct {
        OpId id;
        Status (*eval)(const OpRow *, const Arg *, const WideTensor *, const WideTensor *);
    } table[] = {{OP_scatter_add, eval_scatter},
                 {OP_scatter_src, eval_scatter},
                 {OP_scatter_value, eval_scatter},
                 {OP_scatter_reduce, eval_scatter},
                 {OP_scatter_value_reduce, eval_scatter},
                 {OP_index_add, eval_index_add},
                 {OP_embedding_dense_backward, eval_embedding_backward},
                 {OP_scatter_reduce_two, eval_scatter_reduce_two},
                 {OP_cumsum, eval_scan},
                 {OP_cumprod, eval_scan},
                 {OP_sort_stable, eval_sort},
                 {OP_topk, eval_sort},
                 {OP_index_positions, eval_index_positions},
                 {OP_view_scatter, eval_view_scatter},
                 {OP_mm, eval_product},
                 {OP_bmm, eval_product},
                 {OP_addmm, eval_product},
                 {OP_baddbmm, eval_product},
                 {OP_max_pool2d_with_indices, eval_pool},
                 {OP_max_pool3d_with_indices, eval_pool},
                 {OP_max_pool2d_with_indices_backward, eval_pool_backward},
                 {OP_max_pool3d_with_indices_backward, eval_pool_backward},
                 {OP_avg_pool2d, eval_pool},
                 {OP_avg_pool3d, eval_pool},
                 {OP_avg_pool2d_backward, eval_pool_backward},
                 {OP_avg_pool3d_backward, eval_pool_backward},
                 {OP__adaptive_avg_pool2d, eval_pool},
                 {OP__adaptive_avg_pool3d, eval_pool},
                 {OP__adaptive_avg_pool2d_backward, eval_pool_backward},
                 {OP__adaptive_avg_pool3d_backward, eval_pool_backward},
                 {OP__embedding_bag, eval_bags},
                 {OP__embedding_bag_forward_only, eval_bags},
                 {OP_attention, attention_eval},
                 {OP_attention_backward, attention_backward_eval},
                 {OP_convolution, conv_eval},
                 {OP_convolution_input, conv_eval},
                 {OP_convolution_weight, conv_eval}};
    for (int i = 0; i < COUNT_OF(table); i++)
        if (table[i].id == row->id) return table[i].eval(row, args, in, out);
    return error_raise(ST_UNSUPPORTED, "no reference of %s", row->name);
}
