/* planes.h: what kernels written by hand are told, in C and in CUDA C alike (a part of both texts): pools,
 * convolutions, bags, moves. Strides are in elements; spatial dims are 3, missing ones of size 1 in front. */
#ifndef SINTER_KERNELS_CUDA_PLANES_H
#define SINTER_KERNELS_CUDA_PLANES_H
#include <stdint.h>

/* Where elements of [image, channel, 3 spatial dims] lie. */
typedef struct CudaPlanes {
    int64_t image, channel, at[3];
} CudaPlanes;

enum { CUDA_POOL_PART = 1024 }; /* elements of a plane that a block of max_pool_back has */

/* windows.cuh: a pool from `in` to `out`. */
typedef struct CudaWindows {
    int64_t images, channels, in[3], out[3];
    int64_t kernel[3], stride[3], padding[3], dilation[3];
    int64_t divisor; /* of a mean; 0: the window's size, with its padding where `padded` */
    int padded, adaptive;
    int narrow;                 /* each step of a mean is rounded to the dtype */
    CudaPlanes from, to, index; /* of what is read and written; a maximum's positions */
} CudaWindows;

/* convolution.cuh: to[m, column] = chain over `places` of left[m, place] * source[column, place]. Columns and places
 * are (outer, 3 dims): the source is read at column * by_column + place * by_place + start in each dim. Where `stride`
 * is not 0 (the transposed form) columns are positions of the result, places kernel positions, and the source is read
 * at (column + padding - place * dilation) / stride where that leaves no rest. */
typedef struct CudaConvolution {
    int64_t groups, rows; /* m of one group */
    int64_t outer_columns, columns[3];
    int64_t outer_places, places[3];
    int64_t size[3]; /* of the source */
    int64_t by_column[3], by_place[3], start[3];
    int64_t stride[3], padding[3], dilation[3], place_step[3]; /* of places with equal rests */
    int64_t left_group, left_row, left_outer, left[3];
    int64_t source_group, source_column, source_place, source[3]; /* outer ones */
    int64_t to_group, to_row, to_outer, to[3];
    int64_t bias;                    /* its stride */
    int64_t row_tiles, column_tiles; /* of a group, of a phase */
    int64_t first_chunk, n_chunks;   /* of this launch: their sums go to workspace; none: whole chains */
} CudaConvolution;

/* bags.cuh */
typedef struct CudaBags {
    int64_t rows, length, n, count, n_offsets, padding, mode, n_bag_of,
        n_sizes;                                          /* of the table; of indices, bags, offsets */
    int64_t weight_row, weight_column, index, offset, by; /* strides */
    int64_t out_row, out_column, bag_of, sizes, from_row, from_column;
    int wide_indices, wide_offsets, wide_results; /* i64, not i32 */
} CudaBags;

/* products.cuh: `rows` x `columns` of each batch are written, those beyond from_rows and from_columns with 0. */
typedef struct CudaMove {
    int64_t batches, rows, columns, from_rows, from_columns;
    int64_t from_batch, from_row, from_column, to_batch, to_row, to_column;
} CudaMove;

#endif
