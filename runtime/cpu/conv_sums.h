/* conv_sums.h: what convolutions and their gradient for the weight share: the dims of a call, operands in the compute
 * type, one chunk of sums as a product of matrices, and the same with padding left out. */
#ifndef SINTER_RUNTIME_CPU_CONV_SUMS_H
#define SINTER_RUNTIME_CPU_CONV_SUMS_H
#include <stdatomic.h>

#include "runtime/cpu/conv_patches.h"
#include "runtime/device/spatial.h"

enum {
    CONV_CHUNK = 4096,          /* of the order */
    CONV_BLOCK_BYTES = 2 << 20, /* of patches at once */
};

int64_t conv_plane(const Meta *meta, int64_t *sizes); /* its spatial sizes, and their product */
static inline int64_t product3(const int64_t *n) { return n[0] * n[1] * n[2]; }
static inline int64_t kernel_size(const ConvGeometry *g) { return product3(g->kernel); }

/* A tensor's elements row-major in the compute type. */
typedef struct DenseData {
    char *at;
    size_t owned;
} DenseData;
Status plain_begin(const sn_tensor *t, DenseData *p);
void plain_end(DenseData *p);
bool all_finite(const char *at, SType type, int64_t n);

/* result[n, m, x] = sum over (r, tap) of weight[m, r, tap] * source[n, r, x * step + offset of tap], which the head of
 * cpu_convolution.c explains, for one phase of the result. */
typedef struct ConvSum {
    const ConvGeometry *g;
    Patches patches;
    const sn_tensor *source; /* what the patches show, as it came */
    bool by_pixel; /* conv_pixels.c reads it so; else it is dense, and a weight that is not finite has `ones` */
    int64_t rows, channels; /* m and r of one group */
    const char *weight;     /* [groups][rows][channels][taps] */
    const int64_t *whole;   /* by tap: its number in the whole kernel */
    const char *bias;       /* [groups * rows], no -0 among them; NULL */
    const char *ones;       /* one plane of the source, where weight is not finite */
    sn_tensor *out;
    int64_t first[CONV_DIMS], step[CONV_DIMS]; /* column x is position x * step + first of the result */
    int64_t block;                             /* columns at once */
    _Atomic bool no_memory;
} ConvSum;
int64_t conv_sums_chunk_end(const ConvSum *s, int64_t q); /* of the chunk that row q is in */
int64_t conv_sums_apart(const ConvSum *s, int d);         /* elements of the result between its neighbours in dim d */
/* + 0 + bias, which is one addition: bias has no -0. */
void conv_sums_add_bias(const ConvSum *s, int64_t channel, char *sums, int64_t n);
/* n columns of all rows of sums, `ld` elements from one row to the next, to the result from element `at` on, where
 * columns are `apart`. */
void conv_sums_store(const ConvSum *s, int64_t at, int64_t apart, const char *sums, int64_t ld, int64_t n);

/* Where channels lie beside each other: elements from one image, line and position to the next. */
typedef struct PixelStrides {
    int64_t image, line, pixel;
} PixelStrides;

/* The gradient of weight: result[m, r, tap] = chain over (image, x) of left[image, m, x] * source[image, r, x * step +
 * offset of tap], which the head of cpu_convolution_weight.c explains. */
typedef struct ConvWeightSum {
    const ConvGeometry *g;
    Patches patches;
    const char *left; /* [image][groups * rows][positions] */
    bool by_position; /* a kernel of one position, and those of all images follow each other: the same */
    bool by_pixel;    /* left and source are read by these strides instead */
    PixelStrides left_pixels, source_pixels;
    int64_t rows, channels;
    const char *ones; /* one plane of the source, where left is not finite */
    char *to;         /* [groups * rows][channels][taps] */
    int64_t block;    /* rows of patches at once */
    _Atomic bool no_memory;
} ConvWeightSum;

/* One chunk: to[m][i] = chain over k of left[m][k] * patch[k][i]; strides in elements. */
typedef struct Chunk {
    const ConvGeometry *g;
    int64_t m, n, k;
    const char *left, *patch;
    int64_t left_row, left_column, patch_row, patch_column;
    char *to;
    int64_t to_ld;
} Chunk;
Status conv_multiply(const Chunk *c);

/* A block of the compute type. */
typedef struct BlockBuffer {
    _Alignas(64) char at[BLOCK * 8];
} BlockBuffer;
void conv_splat(char *to, const char *value, int bytes, int64_t n);
/* sum = fma(*value, patch, sum) where the mask is not 0. */
void add_left_out(const ConvGeometry *g, const char *value, const char *patch, const char *mask, char *sum, int64_t n);
void add_elements(const ConvGeometry *g, char *to, const char *from, int64_t n); /* to += from */
void add_number(const ConvGeometry *g, char *to, const char *number, int64_t n); /* to += *number */
void fill_ones(const ConvGeometry *g, char *to, int64_t n);

#endif
