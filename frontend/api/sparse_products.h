/* sparse_products.h: products of a CSR matrix, each result one fma chain. Included once per dtype: TYPE, NAME(word),
 * FMA. No guard. */

/* out [rows, n] = a dense: over the entries of a row, in their order. */
static void NAME(product)(const Csr *a, const TYPE *values, const TYPE *dense, TYPE *out) {
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t e = a->rows[r]; e < a->rows[r + 1]; e++)
            for (int64_t i = 0; i < a->width; i++)
                out[r * a->width + i] = FMA(values[e], dense[a->columns[e] * a->width + i], out[r * a->width + i]);
}

/* out [columns, n] = a^T grad: over the entries of a column, in ascending row. */
static void NAME(transposed)(const Csr *a, const TYPE *values, const TYPE *grad, TYPE *out) {
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t e = a->rows[r]; e < a->rows[r + 1]; e++) {
            TYPE *const to = out + a->columns[e] * a->width;
            for (int64_t i = 0; i < a->width; i++) to[i] = FMA(values[e], grad[r * a->width + i], to[i]);
        }
}

/* out [entries] = the elements of grad dense^T that a has: over n, ascending. */
static void NAME(sampled)(const Csr *a, const TYPE *grad, const TYPE *dense, TYPE *out) {
    for (int64_t r = 0; r < a->n_rows; r++)
        for (int64_t e = a->rows[r]; e < a->rows[r + 1]; e++) {
            TYPE sum = 0;
            for (int64_t i = 0; i < a->width; i++)
                sum = FMA(grad[r * a->width + i], dense[a->columns[e] * a->width + i], sum);
            out[e] = sum;
        }
}
