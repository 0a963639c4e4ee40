/* bench_images.c: rows conv/...: a convolution, forward and backward, plain or of one channel a group. */
#include <stdlib.h>
#include <string.h>

#include "frontend/tool/bench_make.h"

enum { BATCH = 8 };

typedef struct ConvShape {
    int64_t in, out, kernel, stride, side, channels_last, groups;
} ConvShape;

static sn_status convolved(sn_frame *f) {
    const ConvShape *const c = sn_closure(f);
    const int64_t half = c->kernel / 2;
    return sn_out(f, 0,
                  sn_conv2d_ex(sn_in(f, 0), sn_in(f, 1), NULL, SN_INTS(c->stride, c->stride), SN_INTS(half, half),
                               SN_INTS(1, 1), c->groups));
}

static void image_leaf(Work *w, int64_t n, int64_t channels, int64_t side, bool channels_last) {
    sn_tensor *const t = channels_last
                             ? sn_permute(sn_randn(SN_INTS(n, side, side, channels), SN_F32), SN_INTS(0, 3, 1, 2))
                             : sn_randn(SN_INTS(n, channels, side, side), SN_F32);
    sn_requires_grad_(keep(w, t), true);
}

void bench_make_convolution(Work *w, const int64_t *s) {
    ConvShape *const c = calloc(1, sizeof *c);
    *c = (ConvShape){s[0], s[1], s[2], s[3], s[4], s[5], s[6]};
    w->kind = WORK_backward;
    w->body = convolved;
    w->closure = c;
    w->closure_free = free;
    image_leaf(w, BATCH, c->in, c->side, c->channels_last);
    image_leaf(w, c->out, c->in / c->groups, c->kernel, c->channels_last);
}
