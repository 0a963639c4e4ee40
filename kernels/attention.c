/* attention.c: rows of attention (kernels.h) by the level in use. */
#include <assert.h>

#include "kernels/levels.h"

static const AttentionLevel *attention_level(void) {
    static const AttentionLevel *const levels[ISA_COUNT] = {&attention_level_v2, &attention_level_v3,
                                                            &attention_level_v4};
    return levels[isa_used()];
}

static int attention_type(SType type) {
    assert(type == S_f32 || type == S_f64);
    return type == S_f64;
}

void attention_softmax(SType type, const AttentionRow *row) { attention_level()->softmax[attention_type(type)](row); }
void attention_slope(SType type, const AttentionSlope *row) { attention_level()->slope[attention_type(type)](row); }
void attention_add(SType type, void *to, const void *from, int64_t n) {
    attention_level()->add[attention_type(type)](to, from, n);
}
bool attention_finite(SType type, const void *from, int64_t n) {
    return attention_level()->finite[attention_type(type)](from, n);
}
