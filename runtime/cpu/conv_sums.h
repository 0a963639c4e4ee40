/* conv_sums.h: what convolutions and their gradient for the weight share: the dims of a call, operands in the compute
 * type, one chunk of sums as a product of matrices, and the same with padding left out. */
#ifndef SINTER_RUNTIME_CPU_CONV_SUMS_H
#define SINTER_RUNTIME_CPU_CONV_SUMS_H
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

/* One chunk: to[m][i] = chain over k of left[m][k] * patch[k][i] (patch[i][k] if by_column) */
typedef struct Chunk {
    const ConvGeometry *g;
    const char *left;
    int64_t left_ld, m, n, k;
    const char *patch; /* dense */
    bool by_column;
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
