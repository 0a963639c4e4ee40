/* attention_eval.c: sn::attention and its backward by plain loops over doubles, for native_eval.c: scores with scale
 * and mask, keys left out by is_causal skipped, p = exp(score - max) / sum. */
#include <math.h>
#include <string.h>

#include "runtime/base/alloc.h"
#include "tests/ref/native_window.h"

typedef struct AttentionEval {
    const WideTensor *query, *key, *value, *mask;
    bool causal;
    double scale;
    int rank;
    int64_t rows, keys, heads; /* of query */
} AttentionEval;

static AttentionEval attention_read(const OpRow *row, const Arg *args, const WideTensor *in, int at) {
    const int last = row->n_params - 1;
    AttentionEval a = {.query = &in[at], .key = &in[at + 1], .value = &in[at + 2], .mask = &in[last - 2]};
    a.rank = a.query->rank, a.rows = a.query->sizes[a.rank - 2], a.keys = a.key->sizes[a.rank - 2];
    a.causal = args[last - 1].i != 0;
    a.scale = args[last].kind == ARG_none ? 1 / sqrt((double)a.query->sizes[a.rank - 1]) : arg_double(&args[last]);
    a.heads = 1;
    for (int d = 0; d < a.rank - 2; d++) a.heads *= a.query->sizes[d];
    return a;
}

static int64_t limit_of(const AttentionEval *a, int64_t t) { return a->causal && t + 1 < a->keys ? t + 1 : a->keys; }

/* Element (row, column) of a tensor's head, whose number is one of query's. */
static void head_index(const AttentionEval *a, const WideTensor *t, int64_t head, int64_t row, int64_t column,
                       int64_t *index) {
    for (int d = a->rank - 3; d >= 0; head /= a->query->sizes[d--])
        index[d] = head % a->query->sizes[d] / (d == a->rank - 3 ? a->query->sizes[d] / t->sizes[d] : 1);
    index[a->rank - 2] = row, index[a->rank - 1] = column;
}

static double element(const AttentionEval *a, const WideTensor *t, int64_t head, int64_t row, int64_t column) {
    int64_t index[MAX_RANK];
    head_index(a, t, head, row, column, index);
    return wide_get(t, index);
}

static void add_element(const AttentionEval *a, const WideTensor *t, double *sums, int64_t head, int64_t row,
                        int64_t column, double more) {
    int64_t index[MAX_RANK], n = 0;
    head_index(a, t, head, row, column, index);
    for (int d = 0; d < t->rank; d++) n = n * t->sizes[d] + index[d];
    sums[n] += more;
}

static double score_of(const AttentionEval *a, int64_t head, int64_t t, int64_t j) {
    double sum = 0;
    int64_t whole[MAX_RANK], index[MAX_RANK];
    for (int64_t c = 0; c < a->query->sizes[a->rank - 1]; c++)
        sum += element(a, a->query, head, t, c) * element(a, a->key, head, j, c);
    sum *= a->scale;
    if (!a->mask->data) return sum;
    head_index(a, a->query, head, t, j, whole);
    for (int d = 0; d < a->mask->rank; d++) index[d] = a->mask->sizes[d] == 1 ? 0 : whole[a->rank - a->mask->rank + d];
    const double by = wide_get(a->mask, index);
    return a->mask->dtype == DT_bool ? by != 0 ? sum : -INFINITY : sum + by;
}

static void store_row(const AttentionEval *a, const WideTensor *t, int64_t head, int64_t row, double value) {
    int64_t index[MAX_RANK];
    head_index(a, a->query, head, row, 0, index);
    wide_set(t, index, value);
}

static double row_number(const AttentionEval *a, const WideTensor *t, int64_t head, int64_t row) {
    int64_t index[MAX_RANK];
    head_index(a, a->query, head, row, 0, index);
    return wide_get(t, index);
}

static void attend(const AttentionEval *a, const WideTensor *out, int64_t head, int64_t t, double *p) {
    const int64_t n = limit_of(a, t), width = a->value->sizes[a->rank - 1];
    double max = -INFINITY, sum = 0;
    int64_t index[MAX_RANK];
    for (int64_t j = 0; j < n; j++) {
        p[j] = score_of(a, head, t, j);
        max = isnan(p[j]) || p[j] > max ? p[j] : max;
    }
    const bool nothing = max == -INFINITY;
    for (int64_t j = 0; j < n; j++) sum += p[j] = nothing ? 0 : exp(p[j] - max);
    for (int64_t c = 0; c < width; c++) {
        double total = 0;
        for (int64_t j = 0; j < n && !nothing; j++) total += p[j] / sum * element(a, a->value, head, j, c);
        head_index(a, a->query, head, t, c, index);
        wide_set(&out[0], index, total);
    }
    store_row(a, &out[1], head, t, max);
    store_row(a, &out[2], head, t, sum);
}

/* p and ds of a row */
static void slope_row(const AttentionEval *a, const WideTensor *in, int64_t head, int64_t t, double *p, double *ds) {
    const double max = row_number(a, &in[4], head, t), sum = row_number(a, &in[5], head, t);
    double whole = 0;
    for (int64_t j = 0; j < limit_of(a, t); j++) {
        p[j] = max == -INFINITY ? 0 : exp(score_of(a, head, t, j) - max) / sum;
        ds[j] = 0;
        for (int64_t c = 0; c < a->value->sizes[a->rank - 1]; c++)
            ds[j] += element(a, &in[0], head, t, c) * element(a, a->value, head, j, c);
        whole += p[j] * ds[j];
    }
    for (int64_t j = 0; j < limit_of(a, t); j++) ds[j] = (ds[j] - whole) * p[j] * a->scale;
}

static void add_row(const AttentionEval *a, const WideTensor *in, int64_t head, int64_t t, const double *p,
                    const double *ds, double **sums) {
    for (int64_t j = 0; j < limit_of(a, t); j++) {
        for (int64_t c = 0; c < a->query->sizes[a->rank - 1]; c++) {
            add_element(a, a->query, sums[0], head, t, c, ds[j] * element(a, a->key, head, j, c));
            add_element(a, a->key, sums[1], head, j, c, ds[j] * element(a, a->query, head, t, c));
        }
        for (int64_t c = 0; c < a->value->sizes[a->rank - 1]; c++)
            add_element(a, a->value, sums[2], head, j, c, p[j] * element(a, &in[0], head, t, c));
    }
}

static void store_sums(const WideTensor *out, double *sums) {
    int64_t index[MAX_RANK];
    for (int64_t i = 0; i < wide_numel(out); i++) {
        wide_index(out, i, index);
        wide_set(out, index, sums[i]);
    }
    mem_free(sums);
}

Status attention_eval(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const AttentionEval a = attention_read(row, args, in, 0);
    double *const p = mem_zero((size_t)(a.keys + 1) * sizeof *p);
    if (!p) return ST_MEMORY;
    for (int64_t i = 0; i < a.heads * a.rows; i++) attend(&a, out, i / a.rows, i % a.rows, p);
    mem_free(p);
    return ST_OK;
}

Status attention_backward_eval(const OpRow *row, const Arg *args, const WideTensor *in, const WideTensor *out) {
    const AttentionEval a = attention_read(row, args, in, 1);
    double *const p = mem_zero((size_t)(2 * a.keys + 1) * sizeof *p), *sums[3];
    for (int i = 0; i < 3; i++) sums[i] = mem_zero((size_t)(wide_numel(&out[i]) + 1) * sizeof(double));
    if (!p || !sums[0] || !sums[1] || !sums[2]) return ST_MEMORY;
    for (int64_t i = 0; i < a.heads * a.rows; i++) {
        slope_row(&a, in, i / a.rows, i % a.rows, p, p + a.keys);
        add_row(&a, in, i / a.rows, i % a.rows, p, p + a.keys, sums);
    }
    for (int i = 0; i < 3; i++) store_sums(&out[i], sums[i]);
    mem_free(p);
    return ST_OK;
}
