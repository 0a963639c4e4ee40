/* conv_patches.c: see conv_patches.h. A row is filled line by line of the innermost dim: zeros, a run of the source,
 * zeros. */
#include "runtime/cpu/conv_patches.h"

/* The columns x of a line, from lo on and before hi, that read inside the source. */
static void taps_inside(int64_t offset, int64_t step, int64_t size, int64_t *lo, int64_t *hi) {
    const int64_t first = offset >= 0 ? 0 : ceil_div(-offset, step);
    const int64_t last = offset >= size ? 0 : ceil_div(size - offset, step);
    *lo = max_i64(*lo, first);
    *hi = min_i64(*hi, last);
}

static void copy_steps(char *to, const char *from, int64_t step, int64_t n, int bytes) {
    if (step == 1) {
        memcpy(to, from, (size_t)(n * bytes));
    } else if (bytes == 4) {
        for (int64_t i = 0; i < n; i++) memcpy(to + i * 4, from + i * step * 4, 4);
    } else {
        for (int64_t i = 0; i < n; i++) memcpy(to + i * 8, from + i * step * 8, 8);
    }
}

typedef struct PatchLine {
    int64_t offset, first, n; /* of the tap in the innermost dim; columns of the line */
} PatchLine;

/* source NULL: a line of padding. */
static void fill_line(const Patches *p, const char *source, const PatchLine *line, char *to) {
    const int64_t step = p->step[2];
    int64_t lo = line->first, hi = line->first + line->n;
    if (source) taps_inside(line->offset, step, p->size[2], &lo, &hi);
    if (!source || lo >= hi) {
        memset(to, 0, (size_t)(line->n * p->bytes));
        return;
    }
    const int64_t before = (lo - line->first) * p->bytes, run = (hi - lo) * p->bytes;
    const int64_t after = line->n * p->bytes - before - run;
    if (before) memset(to, 0, (size_t)before);
    copy_steps(to + before, source + (lo * step + line->offset) * p->bytes, step, hi - lo, p->bytes);
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
        fill_line(p, reads ? source : NULL, &(PatchLine){offset, x, some}, to);
        if (++y == p->columns[1] && (y = 0, ++z == p->columns[0])) z = 0, image++;
    }
}
