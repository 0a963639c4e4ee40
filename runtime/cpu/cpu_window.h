/* cpu_window.h: what native kernels over planes share: results in the compute type, windows along a dim, typed loops
 * in cpu_window_type.h, once for each compute type. */
#ifndef SINTER_RUNTIME_CPU_WINDOW_H
#define SINTER_RUNTIME_CPU_WINDOW_H
#include "runtime/core/dispatch.h"
#include "runtime/cpu/cpu_copy.h"

/* Row-major elements of the compute type: a tensor's own memory where it is that, else a buffer. */
typedef struct WindowBuffer {
    void *at;
    size_t owned_bytes;
} WindowBuffer;
WindowBuffer buffer_read(const sn_tensor *t);               /* .at NULL: raised */
WindowBuffer buffer_write(const sn_tensor *out);            /* elements are not set */
void buffer_zero(WindowBuffer buffer, const sn_tensor *of); /* all of them 0 */
void buffer_store(WindowBuffer buffer, sn_tensor *out);     /* rounds into out where the buffer is not its own memory */
void buffer_free(WindowBuffer buffer);

/* Where the windows of one dim lie: window i reads lo[i], lo[i] + step ... below hi[i]. */
typedef struct Axis {
    int64_t in, out, step;
    int64_t *lo, *hi, *whole; /* whole: elements of the window with its padding, for the divisor */
} Axis;

typedef struct Windows {
    Axis axis[3];            /* the last is the fastest; dims that are not there have one window of one element */
    int64_t planes, in, out; /* elements of a plane, before and after */
    int64_t divisor;         /* of a mean; 0: the window's size, with its padding where `padded` */
    bool padded;
    DType narrow; /* of narrow_plane: what each step is rounded to */
    const void *from;
    void *to;
    int64_t *index; /* in the plane */
} Windows;
typedef void PlaneFn(const Windows *w, int64_t plane);
#endif
