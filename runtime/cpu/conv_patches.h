/* conv_patches.h: the patches under the kernel of a convolution as the rows of a matrix that is never whole: a row is
 * one (channel, kernel position), a column one (image, output position). Column x of dim d reads the source at
 * x * step + offset[tap]; what lies outside of the source is padding, and 0 in the row.
 *
 *     source [N, channels, 5], step 2, offsets -1 0 1        column:   0    1    2
 *                                                          tap 0 (-1): 0    s[1] s[3]
 *                                                          tap 1 ( 0): s[0] s[2] s[4]
 *                                                          tap 2 (+1): s[1] s[3] 0
 */
#ifndef SINTER_RUNTIME_CPU_CONV_PATCHES_H
#define SINTER_RUNTIME_CPU_CONV_PATCHES_H
#include "kernels/kernels.h"
#include "runtime/device/spatial.h"

enum { CONV_DIMS = SPATIAL_DIMS };

typedef struct Patches {
    const char *source;                          /* row-major [.., channel, spatial] of the compute type */
    int bytes;                                   /* of an element: 4 or 8 */
    int64_t batch_stride, channel_stride;        /* in elements */
    int64_t size[CONV_DIMS], columns[CONV_DIMS]; /* of one image: source positions, columns */
    int64_t step[CONV_DIMS];
    int taps[CONV_DIMS];
    const int64_t *offset[CONV_DIMS]; /* by tap */
} Patches;

static inline int64_t patches_per_image(const Patches *p) { return p->columns[0] * p->columns[1] * p->columns[2]; }
static inline int64_t patches_taps(const Patches *p) { return (int64_t)p->taps[0] * p->taps[1] * p->taps[2]; }
/* One or two dims: the first one has one position, which the one tap reads. */
static inline bool patches_are_flat(const Patches *p) {
    return p->columns[0] == 1 && p->taps[0] == 1 && p->size[0] == 1 && p->offset[0][0] == 0;
}
/* Columns first .. first + n of row (channel, tap), tap row-major. */
void patches_row(const Patches *p, int64_t channel, int64_t tap, int64_t first, int64_t n, char *to);

/* Columns first .. first + n of one line: positions x * step + offset of `source` in the innermost dim, 0 outside of
 * it; source NULL: zeros. */
void conv_patches_line(const Patches *p, const char *source, int64_t offset, int64_t first, int64_t n, char *to);
/* The columns from *lo on and before *hi that read inside a dim of `size` at x * step + offset. */
void conv_patches_inside(int64_t offset, int64_t step, int64_t size, int64_t *lo, int64_t *hi);

#endif
