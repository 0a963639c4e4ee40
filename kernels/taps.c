/* taps.c: sums over taps (kernels.h) by the level in use. */
#include <assert.h>

#include "kernels/levels.h"

static const TapsLevel *taps_level(void) {
    static const TapsLevel *const levels[ISA_COUNT] = {&taps_level_v2, &taps_level_v3, &taps_level_v4};
    return levels[isa_used()];
}

static int index_of(SType type) {
    assert(type == S_f32 || type == S_f64);
    return type == S_f64;
}

int taps_lanes(void) { return isa_lanes(isa_used()); }
void taps_rows(SType type, const TapRows *call) { taps_level()->rows[index_of(type)](call); }
void taps_pixels(SType type, const TapPixels *call) { taps_level()->pixels[index_of(type)](call); }
void taps_weights(SType type, const TapWeights *call) { taps_level()->weights[index_of(type)](call); }
void taps_take_steps(SType type, void *to, const void *from, int64_t step, int64_t n) {
    taps_level()->take_steps[index_of(type)](to, from, step, n);
}
