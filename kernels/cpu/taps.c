/* taps.c: sums over the taps of a kernel for one instruction set, as kernels.h says what they add up in which order:
 * the same loops (taps_type.h) for f32 and f64. Exports taps_level_<level>. */
#include "kernels/cpu/math_f64.h"
#include "kernels/levels.h"

#define PASTE_(a, b) a##b
#define PASTE(a, b)  PASTE_(a, b)

enum {
    LINE_VECTORS = 8, /* of a line at once: as many chains as hide the latency of fma */
    PIXELS = 6,       /* positions that share the weights of a vector of channels */
    TAPS = 9,         /* accumulators of a weight's gradient */
};

#define T f32
#include "kernels/cpu/taps_type.h"
#undef T
#define T f64
#include "kernels/cpu/taps_type.h"
#undef T

extern const TapsLevel PASTE(taps_level_, KERNEL_LEVEL);
const TapsLevel PASTE(taps_level_, KERNEL_LEVEL) = {{tap_rows_f32, tap_rows_f64},
                                                    {tap_pixels_f32, tap_pixels_f64},
                                                    {tap_weights_f32, tap_weights_f64},
                                                    {take_steps_f32, take_steps_f64}};
