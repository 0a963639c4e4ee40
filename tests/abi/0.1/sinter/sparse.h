/* sparse.h: matrices and tensors of which only some elements are there, as handles of several tensors.

   COO: positions, i64 [dims, n], a column for each entry, and values [n]; entries at one position count as their sum.
   CSR, of 2 dims: where each row begins among the entries, i64 [rows + 1], ascending; their columns, i64 [n]; values.

       sn_tensor *a = sn_sparse_coo(positions, values, SN_INTS(3, 4));
       sn_tensor *y = sn_mm(a, dense);                         dense; gradients go to values and dense

   On a sparse tensor work: sn_mm and sn_mv by a dense one (and sn_matmul, where it is one of these), sn_addmm with a
   dense first and last argument, sn_add of two sparse tensors (their entries, one after the other) or of one to a dense
   tensor, and what is declared here. Any other op is SN_ERR_UNSUPPORTED, "not implemented for key sparse"
   (sparse_csr), also sn_detach, in-place and out forms; so is a handle's memory (sn_data, sn_read...). Gradients belong
   to values: sn_requires_grad_ them, not the handle. On the CPU; products in f32 and f64.
   An element of a product is one fma chain from +0 over its row's entries in ascending column; entries at one position
   are added in the order of their positions in the list, first. In a compiled function products and sums are captured
   as ops on the parts (kernels of their own that nothing fuses with), under SN_COMPILE_VERIFY; one that is called with
   a sparse tensor is not replayed. What asks for values (sn_sparse_coo and sn_sparse_csr for their checks, sn_coalesce,
   a product of entries that are not coalesced, sn_to_sparse) breaks the graph. Products have no second derivatives.
   As torch.sparse. */
#ifndef SINTER_SPARSE_H
#define SINTER_SPARSE_H
#include <sinter/tensor.h>
SN_BEGIN
/* Shares both tensors. Positions outside of sizes are SN_ERR_VALUE. [flush] */
sn_tensor *sn_sparse_coo(sn_tensor *positions, sn_tensor *values, sn_ints sizes);
/* The same of CSR: rows that do not ascend from 0 to n, or columns outside of sizes or not ascending within their row,
   are SN_ERR_VALUE. [flush] */
sn_tensor *sn_sparse_csr(sn_tensor *rows, sn_tensor *columns, sn_tensor *values, sn_ints sizes);
/* Of COO and CSR: the values, with their history. The parts of the other layout, or of a dense tensor, are an error.
   Borrowed: as long as t. [neutral] */
sn_tensor *sn_sparse_values(sn_tensor *t);
sn_tensor *sn_sparse_positions(sn_tensor *t);
sn_tensor *sn_sparse_rows(sn_tensor *t);
sn_tensor *sn_sparse_columns(sn_tensor *t);
/* Row-major and each position once: CSR always, COO by sn_coalesce and sn_to_sparse. [neutral] */
bool sn_is_coalesced(sn_tensor *t);
/* Entries of one position added, row-major; t itself where it is so. [op] */
sn_tensor *sn_coalesce(sn_tensor *t);
/* t itself where it is dense; duplicates are added one by one, from +0. [op] */
sn_tensor *sn_to_dense(sn_tensor *t);
/* COO of all that is not 0 in a dense tensor, of CSR's entries; t itself where it is COO. [op] */
sn_tensor *sn_to_sparse(sn_tensor *t);
/* The same as CSR, of 2 dims. [op] */
sn_tensor *sn_to_sparse_csr(sn_tensor *t);
SN_END
#endif
