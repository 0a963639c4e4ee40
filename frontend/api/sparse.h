/* sparse.h: sparse tensors: a handle without memory whose storage holds others. Ops on it come to its key, above
 * capture, and become ops on these, which the tape and graphs see. */
#ifndef SINTER_FRONTEND_SPARSE_H
#define SINTER_FRONTEND_SPARSE_H
#include <sinter/sparse.h>

#include "runtime/core/dispatch.h"
#include "runtime/core/repr.h"

typedef struct SparseFields {
    sn_tensor *values;
    sn_tensor *positions;      /* COO */
    sn_tensor *rows, *columns; /* CSR */
    bool coalesced;
} SparseFields;

/* NULL: t is not sparse. */
static inline const SparseFields *sparse_fields(const sn_tensor *t) {
    return t && t->keys & KEYS_SPARSE ? t->storage->data : NULL;
}
/* Retains the parts; the scope's. NULL raises. */
sn_tensor *sparse_new(const SparseFields *parts, const int64_t *sizes, int rank);
sn_tensor *sparse_dense(sn_tensor *t);
/* As tensor_print. */
Status sparse_print(sn_tensor *t, const char *gradient, Text *text);
sn_tensor *sparse_coalesced(sn_tensor *t);
sn_tensor *sparse_to_csr(sn_tensor *t); /* coalesces; of 2 dims */
sn_tensor *sparse_to_coo(sn_tensor *t);
/* The place of each entry in the dense tensor, [n]. */
sn_tensor *sparse_places(sn_tensor *t);
/* Of positions [dims, n] or columns [n] on the host. */
int64_t sparse_element(const sn_tensor *t, int64_t dim, int64_t entry);
/* Of dims from `first` on, whose sizes are given; noun: what an element of t is. */
Status sparse_check_range(sn_tensor *t, const char *noun, int64_t first, sn_ints sizes, const char *what);
void sparse_start(void); /* once, before the first sparse tensor */

/* Ops of their own (sparse_ops.c); NULL raises. */
sn_tensor *sparse_product(sn_tensor *rows, sn_tensor *columns, sn_tensor *values, sn_tensor *dense);
sn_tensor *sparse_row_starts(sn_tensor *rows_of_entries, int64_t rows); /* of ascending ones */
sn_tensor *sparse_row_of_each(sn_tensor *rows, sn_tensor *columns);
void sparse_ops_start(void);

#endif
