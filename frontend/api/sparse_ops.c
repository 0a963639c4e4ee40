/* sparse_ops.c: what sparse tensors compute that is no op of the table: registered as a program's are, so that capture
 * and the tape know them. As such they are open to everyone by name: a result is made only of arguments that fit.
 * Columns and row starts are checked where they are used: their memory can be written. */
#include <math.h>
#include <sinter/sinter.h>

#include "frontend/api/sparse.h"
#include "runtime/core/custom_op.h"

typedef struct Csr {
    const int64_t *rows, *columns;
    int64_t n_rows, n_columns, n, width; /* of the dense operand */
} Csr;

#define TYPE       float
#define NAME(word) word##_f32
#define FMA        fmaf
#include "frontend/api/sparse_products.h"
#undef TYPE
#undef NAME
#undef FMA
#define TYPE       double
#define NAME(word) word##_f64
#define FMA        fma
#include "frontend/api/sparse_products.h"

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
static sn_status run_csr(sn_frame *f, int64_t n_columns, sn_tensor *out, OnF32 *on_f32, OnF64 *on_f64) {
    Csr a;
    const sn_status status = read_csr(f, n_columns, sn_size(sn_in(f, 3), 1), &a);
    if (status != SN_OK) return status;
    sn_tensor *const x = sn_contiguous(sn_in(f, 2)), *const y = sn_contiguous(sn_in(f, 3));
    const sn_dtype dtype = sn_dtype_of(x);
    const void *const xs = sn_data(x, dtype), *const ys = sn_data(y, dtype);
    void *const to = sn_data_mut(out, dtype);
    if (sn_check() != SN_OK) return sn_check();
    if (dtype == SN_F32)
        on_f32(&a, xs, ys, to);
    else
        on_f64(&a, xs, ys, to);
    return sn_out(f, 0, out);
}

/* what may come as arguments ------------------------------------------------------------------ */

static Status check_places(const char *op, const char *name, sn_tensor *t) {
    if (sn_rank(t) != 1)
        return error_raise(ST_SHAPE, "%s: '%s' has %lld dims, where it must have 1", op, name, (long long)sn_rank(t));
    if (sn_dtype_of(t) == SN_I64) return ST_OK;
    return error_raise(ST_DTYPE, "%s: '%s' is %s, where it must be i64", op, name, dtype_name(t->base.meta->dtype));
}

static Status check_rows_columns(sn_frame *f, const char *op) {
    TRY(check_places(op, "rows", sn_in(f, 0)));
    TRY(check_places(op, "columns", sn_in(f, 1)));
    return sn_numel(sn_in(f, 0)) ? ST_OK : error_raise(ST_SHAPE, "%s: 'rows' is empty, where it begins with a 0", op);
}

typedef struct SparseOperand {
    const char *name;
    int rank;
    int64_t size; /* of dim 0; -1: any, columns are checked against it */
} SparseOperand;

static Status check_operand(const char *op, const SparseOperand *want, sn_tensor *t) {
    const sn_dtype dtype = sn_dtype_of(t);
    if (sn_rank(t) != want->rank)
        return error_raise(ST_SHAPE, "%s: '%s' has %lld dims, where it must have %d", op, want->name,
                           (long long)sn_rank(t), want->rank);
    if (want->size >= 0 && sn_size(t, 0) != want->size)
        return error_raise(ST_SHAPE, "%s: '%s' has size %lld in dim 0, where rows and columns ask for %lld", op,
                           want->name, (long long)sn_size(t, 0), (long long)want->size);
    if (dtype == SN_F32 || dtype == SN_F64) return ST_OK;
    return error_raise(ST_DTYPE, "%s: '%s' is %s, where it must be f32 or f64", op, want->name,
                       dtype_name(t->base.meta->dtype));
}

/* Inputs 2 and 3. */
static Status check_operands(sn_frame *f, const char *op, SparseOperand x, SparseOperand y) {
    sn_tensor *const a = sn_in(f, 2), *const b = sn_in(f, 3);
    TRY(check_operand(op, &x, a));
    TRY(check_operand(op, &y, b));
    if (sn_dtype_of(a) == sn_dtype_of(b)) return ST_OK;
    return error_raise(ST_DTYPE, "%s: '%s' is %s and '%s' is %s, where they must be the same", op, x.name,
                       dtype_name(a->base.meta->dtype), y.name, dtype_name(b->base.meta->dtype));
}

static Status check_count(const char *op, const char *name, int64_t n) {
    if (n >= 0 && n < INT64_MAX) return ST_OK;
    return error_raise(ST_VALUE, "%s: '%s' is %lld, where it counts rows", op, name, (long long)n);
}

static Status check_product(sn_frame *f) {
    static const char *const op = "sparse::product";
    TRY(check_rows_columns(f, op));
    return check_operands(f, op, (SparseOperand){"values", 1, sn_numel(sn_in(f, 1))}, (SparseOperand){"dense", 2, -1});
}

static Status check_transposed(sn_frame *f) {
    static const char *const op = "sparse::transposed";
    TRY(check_rows_columns(f, op));
    TRY(check_operands(f, op, (SparseOperand){"values", 1, sn_numel(sn_in(f, 1))},
                       (SparseOperand){"grad", 2, sn_numel(sn_in(f, 0)) - 1}));
    return check_count(op, "n", sn_in_int(f, 4));
}

static Status check_sampled(sn_frame *f) {
    static const char *const op = "sparse::sampled";
    TRY(check_rows_columns(f, op));
    TRY(check_operands(f, op, (SparseOperand){"grad", 2, sn_numel(sn_in(f, 0)) - 1}, (SparseOperand){"dense", 2, -1}));
    const int64_t width = sn_size(sn_in(f, 2), 1), other = sn_size(sn_in(f, 3), 1);
    if (width == other) return ST_OK;
    return error_raise(ST_SHAPE, "%s: 'grad' has size %lld in dim 1 and 'dense' %lld, where they must be the same", op,
                       (long long)width, (long long)other);
}

static Status check_starts(sn_frame *f) {
    TRY(check_places("sparse::row_starts", "row", sn_in(f, 0)));
    return check_count("sparse::row_starts", "rows", sn_in_int(f, 1));
}

/* results: zeros, or NULL: an argument does not fit -------------------------------------------- */

static sn_tensor *product_result(sn_frame *f) {
    if (check_product(f) != ST_OK) return NULL;
    return sn_new_zeros(sn_in(f, 2), SN_INTS(sn_numel(sn_in(f, 0)) - 1, sn_size(sn_in(f, 3), 1)));
}
static sn_tensor *transposed_result(sn_frame *f) {
    if (check_transposed(f) != ST_OK) return NULL;
    return sn_new_zeros(sn_in(f, 2), SN_INTS(sn_in_int(f, 4), sn_size(sn_in(f, 3), 1)));
}
static sn_tensor *sampled_result(sn_frame *f) {
    if (check_sampled(f) != ST_OK) return NULL;
    return sn_new_zeros(sn_in(f, 2), SN_INTS(sn_numel(sn_in(f, 1))));
}
static sn_tensor *starts_result(sn_frame *f) {
    if (check_starts(f) != ST_OK) return NULL;
    return sn_new_zeros(sn_in(f, 0), SN_INTS(sn_in_int(f, 1) + 1));
}
static sn_tensor *each_result(sn_frame *f) {
    if (check_rows_columns(f, "sparse::row_of_each") != ST_OK) return NULL;
    return sn_new_zeros(sn_in(f, 1), SN_INTS(sn_numel(sn_in(f, 1))));
}

static sn_status gives(sn_frame *f, sn_tensor *out) { return out ? sn_out(f, 0, out) : sn_check(); }

static sn_status product_meta(sn_frame *f) { return gives(f, product_result(f)); }
static sn_status transposed_meta(sn_frame *f) { return gives(f, transposed_result(f)); }
static sn_status sampled_meta(sn_frame *f) { return gives(f, sampled_result(f)); }
static sn_status starts_meta(sn_frame *f) { return gives(f, starts_result(f)); }
static sn_status each_meta(sn_frame *f) { return gives(f, each_result(f)); }

/* Kernels ask for their result first: eagerly no meta rule has run before. */
static sn_status product_cpu(sn_frame *f) {
    sn_tensor *const out = product_result(f);
    return out ? run_csr(f, sn_size(sn_in(f, 3), 0), out, product_f32, product_f64) : sn_check();
}
static sn_status transposed_cpu(sn_frame *f) {
    sn_tensor *const out = transposed_result(f);
    return out ? run_csr(f, sn_in_int(f, 4), out, transposed_f32, transposed_f64) : sn_check();
}
static sn_status sampled_cpu(sn_frame *f) {
    sn_tensor *const out = sampled_result(f);
    return out ? run_csr(f, sn_size(sn_in(f, 3), 0), out, sampled_f32, sampled_f64) : sn_check();
}

static sn_status starts_cpu(sn_frame *f) {
    sn_tensor *const out = starts_result(f);
    if (!out) return sn_check();
    const int64_t *const row = sn_data(sn_contiguous(sn_in(f, 0)), SN_I64), n = sn_numel(sn_in(f, 0));
    int64_t *const starts = sn_data_mut(out, SN_I64), rows = sn_in_int(f, 1);
    for (int64_t e = 0; starts && row && e < n; e++)
        if (row[e] < (e ? row[e - 1] : 0) || row[e] >= rows)
            return sn_fail(SN_ERR_VALUE,
                           "sparse::row_starts: rows of entries do not ascend inside of the matrix any more");
    for (int64_t e = 0, r = 0; starts && row && r <= rows; r++) {
        while (e < n && row[e] < r) e++;
        starts[r] = e;
    }
    return sn_check() == SN_OK ? sn_out(f, 0, out) : sn_check();
}

static sn_status each_cpu(sn_frame *f) {
    Csr a;
    sn_tensor *const out = each_result(f);
    if (!out) return sn_check();
    int64_t *const row = sn_data_mut(out, SN_I64);
    const sn_status status = read_csr(f, INT64_MAX, 0, &a);
    for (int64_t r = 0; status == SN_OK && r < a.n_rows; r++)
        for (int64_t e = a.rows[r]; e < a.rows[r + 1]; e++) row[e] = r;
    return status == SN_OK ? sn_out(f, 0, out) : status;
}

enum { OF_product, OF_transposed, OF_sampled, OF_starts, OF_each, SPARSE_OPS };
static const DynamicOp *ops[SPARSE_OPS];

/* The meta rules where sizes are symbols, as the count of entries may be: what fits has been seen to fit. */

static int64_t size_of(const MetaCall *call, int arg, int d) { return call->args[arg].val->meta->sizes[d]; }
static int64_t rows_of(const MetaCall *call) { return sym_sub(call->env, size_of(call, 0, 0), 1); }

static Status infer_one_output(MetaCall *call, int like, int64_t first, int64_t second, bool fits) {
    MetaOut *const out = &call->out[0];
    *out = (MetaOut){.dtype = call->args[like].val->meta->dtype, .device = DEV_cpu, .alias = -1};
    out->sizes[0] = first, out->sizes[1] = second;
    out->rank = second < 0 && !sym_is(second) ? 1 : 2;
    meta_contiguous_strides(call->env, out->sizes, out->rank, out->strides);
    call->n_out = 1;
    return fits ? ST_OK : error_raise(ST_SHAPE, "%s: the arguments' sizes do not fit together", call->row->name);
}

static Status product_sizes(MetaCall *call) {
    const bool fits = sym_same(call->env, size_of(call, 1, 0), size_of(call, 2, 0));
    return infer_one_output(call, 2, rows_of(call), size_of(call, 3, 1), fits);
}
static Status transposed_sizes(MetaCall *call) {
    const bool fits = sym_same(call->env, size_of(call, 1, 0), size_of(call, 2, 0)) &&
                      sym_same(call->env, size_of(call, 3, 0), rows_of(call));
    return infer_one_output(call, 2, call->args[4].i, size_of(call, 3, 1), fits);
}
static Status sampled_sizes(MetaCall *call) {
    const bool fits = sym_same(call->env, size_of(call, 2, 0), rows_of(call)) &&
                      sym_same(call->env, size_of(call, 2, 1), size_of(call, 3, 1));
    return infer_one_output(call, 2, size_of(call, 1, 0), -1, fits);
}
static Status starts_sizes(MetaCall *call) {
    return infer_one_output(call, 0, sym_add(call->env, call->args[1].i, 1), -1, true);
}
static Status each_sizes(MetaCall *call) { return infer_one_output(call, 1, size_of(call, 1, 0), -1, true); }

static MetaFn *const symbolic[SPARSE_OPS] = {[OF_product] = product_sizes,
                                             [OF_transposed] = transposed_sizes,
                                             [OF_sampled] = sampled_sizes,
                                             [OF_starts] = starts_sizes,
                                             [OF_each] = each_sizes};

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

static Status emit_op(Deriv *d, int op, const Arg *args, int of) {
    Val *outs[MAX_OUTS] = {0};
    if (!d->needs[of]) return ST_OK;
    TRY(d->b->emit(d->b, &ops[op]->row, args, outs));
    d->grad_in[of] = outs[0];
    return ST_OK;
}

static Status product_gradient(Deriv *d) {
    const Arg *const a = d->args, grad = V(d->grad_out[0]);
    TRY(emit_op(d, OF_sampled, (const Arg[]){a[0], a[1], grad, a[3]}, 2));
    return emit_op(d, OF_transposed, (const Arg[]){a[0], a[1], a[2], grad, I(d->arg_meta[3]->sizes[0])}, 3);
}

void sparse_ops_start(void) {
    static const sn_op_desc descs[SPARSE_OPS] = {
        [OF_product] = {.schema = "sparse::product(Tensor rows, Tensor columns, Tensor values, Tensor dense) -> Tensor",
                        .meta = product_meta,
                        .cpu = product_cpu,
                        .saves = "rows, columns, values, dense"},
        [OF_transposed] = {.schema = "sparse::transposed(Tensor rows, Tensor columns, Tensor values, Tensor grad, "
                                     "SymInt n) -> Tensor",
                           .meta = transposed_meta,
                           .cpu = transposed_cpu},
        [OF_sampled] = {.schema = "sparse::sampled(Tensor rows, Tensor columns, Tensor grad, Tensor dense) -> Tensor",
                        .meta = sampled_meta,
                        .cpu = sampled_cpu},
        [OF_starts] = {.schema = "sparse::row_starts(Tensor row, SymInt rows) -> Tensor",
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
        if (ops[i]) custom_op_own(ops[i], symbolic[i], i == OF_product ? product_gradient : NULL);
    }
}
