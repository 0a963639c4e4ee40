/* sparse_ops.c: what sparse tensors compute that is no op of the table: registered as a program's are, so that capture
 * and the tape know them. Columns and row starts are checked where they are used: their memory can be written. */
#include <math.h>
#include <sinter/sinter.h>

#include "frontend/sparse.h"
#include "runtime/core/custom_op.h"

typedef struct Csr {
    const int64_t *rows, *columns;
    int64_t n_rows, n_columns, n, width; /* of the dense operand */
} Csr;

#define TYPE       float
#define NAME(word) word##_f32
#define FMA        fmaf
#include "frontend/sparse_products.h"
#undef TYPE
#undef NAME
#undef FMA
#define TYPE       double
#define NAME(word) word##_f64
#define FMA        fma
#include "frontend/sparse_products.h"

static sn_status check_csr(const Csr *a) {
    for (int64_t r = 0; r < a->n_rows; r++)
        if (a->rows[r] < 0 || a->rows[r] > a->rows[r + 1] || a->rows[r + 1] > a->n)
            return sn_fail(SN_ERR_VALUE, "a sparse product: its rows do not ascend to its entries any more");
    for (int64_t e = 0; e < a->n; e++)
        if (a->columns[e] < 0 || a->columns[e] >= a->n_columns)
            return sn_fail(SN_ERR_VALUE, "a sparse product: a column is outside of it");
    return SN_OK;
}

/* Inputs 0 and 1 are rows and columns. */
static sn_status read_csr(sn_frame *f, int64_t n_columns, int64_t width, Csr *a) {
    *a = (Csr){.rows = sn_data(sn_contiguous(sn_in(f, 0)), SN_I64),
               .columns = sn_data(sn_contiguous(sn_in(f, 1)), SN_I64),
               .n_rows = sn_numel(sn_in(f, 0)) - 1,
               .n_columns = n_columns,
               .n = sn_numel(sn_in(f, 1)),
               .width = width};
    return sn_check() == SN_OK ? check_csr(a) : sn_check();
}

typedef void OnF32(const Csr *a, const float *x, const float *y, float *out);
typedef void OnF64(const Csr *a, const double *x, const double *y, double *out);

/* out is zeros; x and y inputs 2 and 3. */
static sn_status run_csr(sn_frame *f, const Csr *a, sn_tensor *out, OnF32 *on_f32, OnF64 *on_f64) {
    sn_tensor *const x = sn_contiguous(sn_in(f, 2)), *const y = sn_contiguous(sn_in(f, 3));
    const sn_dtype dtype = sn_dtype_of(x);
    const void *const xs = sn_data(x, dtype), *const ys = sn_data(y, dtype);
    void *const to = sn_data_mut(out, dtype);
    if (sn_check() != SN_OK) return sn_check();
    if (dtype == SN_F32)
        on_f32(a, xs, ys, to);
    else
        on_f64(a, xs, ys, to);
    return sn_out(f, 0, out);
}

static sn_tensor *product_result(sn_frame *f) {
    return sn_new_zeros(sn_in(f, 2), SN_INTS(sn_numel(sn_in(f, 0)) - 1, sn_size(sn_in(f, 3), 1)));
}
static sn_tensor *transposed_result(sn_frame *f) {
    return sn_new_zeros(sn_in(f, 2), SN_INTS(sn_in_int(f, 4), sn_size(sn_in(f, 3), 1)));
}
static sn_tensor *sampled_result(sn_frame *f) { return sn_new_zeros(sn_in(f, 2), SN_INTS(sn_numel(sn_in(f, 1)))); }
static sn_tensor *starts_result(sn_frame *f) { return sn_new_zeros(sn_in(f, 0), SN_INTS(sn_in_int(f, 1) + 1)); }
static sn_tensor *each_result(sn_frame *f) { return sn_new_zeros(sn_in(f, 1), SN_INTS(sn_numel(sn_in(f, 1)))); }

static sn_status product_meta(sn_frame *f) { return sn_out(f, 0, product_result(f)); }
static sn_status transposed_meta(sn_frame *f) { return sn_out(f, 0, transposed_result(f)); }
static sn_status sampled_meta(sn_frame *f) { return sn_out(f, 0, sampled_result(f)); }
static sn_status starts_meta(sn_frame *f) { return sn_out(f, 0, starts_result(f)); }
static sn_status each_meta(sn_frame *f) { return sn_out(f, 0, each_result(f)); }

static sn_status product_cpu(sn_frame *f) {
    Csr a;
    const sn_status status = read_csr(f, sn_size(sn_in(f, 3), 0), sn_size(sn_in(f, 3), 1), &a);
    return status == SN_OK ? run_csr(f, &a, product_result(f), product_f32, product_f64) : status;
}
static sn_status transposed_cpu(sn_frame *f) {
    Csr a;
    const sn_status status = read_csr(f, sn_in_int(f, 4), sn_size(sn_in(f, 3), 1), &a);
    return status == SN_OK ? run_csr(f, &a, transposed_result(f), transposed_f32, transposed_f64) : status;
}
static sn_status sampled_cpu(sn_frame *f) {
    Csr a;
    const sn_status status = read_csr(f, sn_size(sn_in(f, 3), 0), sn_size(sn_in(f, 3), 1), &a);
    return status == SN_OK ? run_csr(f, &a, sampled_result(f), sampled_f32, sampled_f64) : status;
}

static sn_status starts_cpu(sn_frame *f) {
    const int64_t *const row = sn_data(sn_contiguous(sn_in(f, 0)), SN_I64), n = sn_numel(sn_in(f, 0));
    sn_tensor *const out = starts_result(f);
    int64_t *const starts = sn_data_mut(out, SN_I64), rows = sn_in_int(f, 1);
    for (int64_t e = 0, r = 0; starts && r <= rows; r++) {
        while (e < n && row[e] < r) e++;
        starts[r] = e;
    }
    return sn_check() == SN_OK ? sn_out(f, 0, out) : sn_check();
}

static sn_status each_cpu(sn_frame *f) {
    Csr a;
    sn_tensor *const out = each_result(f);
    int64_t *const row = sn_data_mut(out, SN_I64);
    const sn_status status = read_csr(f, INT64_MAX, 0, &a);
    for (int64_t r = 0; status == SN_OK && r < a.n_rows; r++)
        for (int64_t e = a.rows[r]; e < a.rows[r + 1]; e++) row[e] = r;
    return status == SN_OK ? sn_out(f, 0, out) : status;
}

enum { OF_product, OF_transposed, OF_sampled, OF_starts, OF_each, SPARSE_OPS };
static const DynamicOp *ops[SPARSE_OPS];

static sn_tensor *call(int op, const Arg *args) {
    sn_tensor *out = NULL;
    if (!ops[op]) return error_raise(ST_MEMORY, "sparse tensors: their ops could not be registered"), NULL;
    return dispatch(&ops[op]->row, FORM_functional, args, NULL, &out) == ST_OK ? out : NULL;
}

sn_tensor *sparse_product(sn_tensor *rows, sn_tensor *columns, sn_tensor *values, sn_tensor *dense) {
    return call(OF_product, (const Arg[]){V(&rows->base), V(&columns->base), V(&values->base), V(&dense->base)});
}
sn_tensor *sparse_row_starts(sn_tensor *rows_of_entries, int64_t rows) {
    return call(OF_starts, (const Arg[]){V(&rows_of_entries->base), I(rows)});
}
sn_tensor *sparse_row_of_each(sn_tensor *rows, sn_tensor *columns) {
    return call(OF_each, (const Arg[]){V(&rows->base), V(&columns->base)});
}

static sn_status product_gradient(sn_frame *f) {
    sn_tensor *const rows = sn_in(f, 0), *const columns = sn_in(f, 1), *const values = sn_in(f, 2);
    sn_tensor *const dense = sn_in(f, 3), *const grad = sn_grad_of(f, 0);
    const Arg sampled[] = {V(&rows->base), V(&columns->base), V(&grad->base), V(&dense->base)};
    const Arg transposed[] = {V(&rows->base), V(&columns->base), V(&values->base), V(&grad->base),
                              I(sn_size(dense, 0))};
    if (sn_needs_grad(f, 2)) sn_set_grad_of(f, 2, call(OF_sampled, sampled));
    if (sn_needs_grad(f, 3)) sn_set_grad_of(f, 3, call(OF_transposed, transposed));
    return sn_check();
}

void sparse_ops_start(void) {
    static const sn_op_desc descs[SPARSE_OPS] = {
        [OF_product] = {.schema = "sparse::product(Tensor rows, Tensor columns, Tensor values, Tensor dense) -> Tensor",
                        .meta = product_meta,
                        .cpu = product_cpu,
                        .derivative = product_gradient,
                        .saves = "rows, columns, values, dense"},
        [OF_transposed] = {.schema = "sparse::transposed(Tensor rows, Tensor columns, Tensor values, Tensor grad, "
                                     "int n) -> Tensor",
                           .meta = transposed_meta,
                           .cpu = transposed_cpu},
        [OF_sampled] = {.schema = "sparse::sampled(Tensor rows, Tensor columns, Tensor grad, Tensor dense) -> Tensor",
                        .meta = sampled_meta,
                        .cpu = sampled_cpu},
        [OF_starts] = {.schema = "sparse::row_starts(Tensor row, int rows) -> Tensor",
                       .meta = starts_meta,
                       .cpu = starts_cpu},
        [OF_each] = {.schema = "sparse::row_of_each(Tensor rows, Tensor columns) -> Tensor",
                     .meta = each_meta,
                     .cpu = each_cpu},
    };
    for (int i = 0; i < SPARSE_OPS; i++) {
        sn_op_desc desc = descs[i];
        desc.size = sizeof desc;
        desc.flags = SN_OP_PURE;
        ops[i] = custom_op_register(&desc);
    }
}
