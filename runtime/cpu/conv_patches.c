/* conv_patches.c: see conv_patches.h. A row is filled line by line of the innermost dim: zeros, a run of the source,
 * zeros. */
#include "runtime/cpu/conv_patches.h"

void conv_patches_inside(int64_t offset, int64_t step, int64_t size, int64_t *lo, int64_t *hi) {
    const int64_t first = offset >= 0 ? 0 : ceil_div(-offset, step);
    const int64_t last = offset >= size ? 0 : ceil_div(size - offset, step);
    *lo = max_i64(*lo, first);
    *hi = min_i64(*hi, last);
}

void conv_patches_line(const Patches *p, const char *source, int64_t offset, int64_t first, int64_t n, char *to) {
    const int64_t step = p->step[2];
    int64_t lo = first, hi = first + n;
    if (source) conv_patches_inside(offset, step, p->size[2], &lo, &hi);
    if (!source || lo >= hi) {
        memset(to, 0, (size_t)(n * p->bytes));
        return;
    }
    const int64_t before = (lo - first) * p->bytes, run = (hi - lo) * p->bytes, after = n * p->bytes - before - run;
    const char *const from = source + (lo * step + offset) * p->bytes;
    if (before) memset(to, 0, (size_t)before);
    if (step == 1)
        memcpy(to + before, from, (size_t)run);
    else
        taps_take_steps(p->bytes == 4 ? S_f32 : S_f64, to + before, from, step, hi - lo);
    if (after) memset(to + before + run, 0, (size_t)after);
}

static bool is_inside(int64_t at, int64_t size) { return at >= 0 && at < size; }

void patches_row(const Patches *p, int64_t channel, int64_t tap, int64_t first, int64_t n, char *to) {
    const int64_t width = p->columns[2], offset = p->offset[2][tap % p->taps[2]];
    const int64_t down = p->offset[1][tap / p->taps[2] % p->taps[1]], in = p->offset[0][tap / p->taps[2] / p->taps[1]];
    int64_t x = first % width, y = first / width % p->columns[1], z = first / width / p->columns[1] % p->columns[0];
    int64_t image = first / patches_per_image(p);
    for (int64_t some; n > 0; n -= some, to += some * p->bytes, x = 0) {
        some = min_i64(n, width - x);
        const int64_t from_y = y * p->step[1] + down, from_z = z * p->step[0] + in;
        const bool reads = is_inside(from_y, p->size[1]) && is_inside(from_z, p->size[0]);
        const char *const source = p->source + (image * p->batch_stride + channel * p->channel_stride +
                                                (from_z * p->size[1] + from_y) * p->size[2]) *
                                                   p->bytes;
        conv_patches_line(p, reads ? source : NULL, offset, x, some, to);
        if (++y == p->columns[1] && (y = 0, ++z == p->columns[0])) z = 0, image++;
    }
}
