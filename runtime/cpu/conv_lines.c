/* conv_lines.c: see conv_lines.h. */
#include "runtime/cpu/conv_lines.h"

enum { VECTOR_BYTES = 64 };

static TapWindow window_of(const Patches *p, int d) {
    int64_t low = p->offset[d][0], high = low;
    for (int t = 1; t < p->taps[d]; t++) {
        low = min_i64(low, p->offset[d][t]);
        high = max_i64(high, p->offset[d][t]);
    }
    return (TapWindow){low, (high - low) / p->step[d], min_i64(p->step[d], high - low + 1)};
}

bool conv_lines_serve(const ConvSum *s) {
    const Patches *const p = &s->patches;
    return patches_are_flat(p) && s->channels > 0 && !s->ones && patches_taps(p) > 0 &&
           (s->g->type == S_f32 || s->g->type == S_f64);
}

/* Zeros behind a line that may be those before the next one. */
static int64_t shared_zeros(const ConvLines *b) {
    const Patches *const p = b->p;
    const int64_t before = -b->x.low, behind = b->x.low + b->columns + b->x.reach - p->size[2];
    if (p->step[2] != 1 || b->columns < p->columns[2]) return 0;
    return min_i64(max_i64(min_i64(before, behind), 0), b->x.reach);
}

ConvLines conv_lines_of(const Patches *p, int64_t channels, int64_t bytes, int64_t most_columns) {
    ConvLines b = {.p = p, .channels = channels, .y = window_of(p, 1), .x = window_of(p, 2)};
    const int64_t each = b.y.phases * b.x.phases * channels * p->bytes; /* bytes of a position of all planes */
    const int64_t fits = bytes / (each * (b.y.reach + 1)) - b.x.reach;
    b.columns = min_i64(p->columns[2], max_i64(min_i64(most_columns, fits), VECTOR_BYTES));
    b.shared = shared_zeros(&b);
    b.pitch = b.columns + b.x.reach - b.shared;
    const int64_t lines = min_i64(bytes / (each * b.pitch) - b.y.reach, most_columns / b.pitch);
    b.lines = min_i64(p->columns[1], max_i64(lines, min_i64(4 * (b.y.reach + 1), ceil_div(most_columns, b.pitch))));
    b.plane = (b.lines + b.y.reach) * b.pitch;
    b.whole = b.y.phases * b.x.phases * b.plane;
    return b;
}

int64_t conv_lines_run(const ConvLines *b, int64_t lines, int64_t columns) { return (lines - 1) * b->pitch + columns; }

int64_t conv_lines_elements(const ConvLines *b) {
    return b->channels * b->whole + b->x.reach + 2 * VECTOR_BYTES / b->p->bytes + VECTOR_BYTES;
}

void conv_lines_offsets(const ConvLines *b, int64_t *offsets) {
    const Patches *const p = b->p;
    for (int64_t r = 0; r < b->channels; r++)
        for (int i = 0; i < p->taps[1]; i++)
            for (int j = 0; j < p->taps[2]; j++) {
                const int64_t y = p->offset[1][i] - b->y.low, x = p->offset[2][j] - b->x.low;
                const int64_t phase = y % p->step[1] * b->x.phases + x % p->step[2];
                *offsets++ = r * b->whole + phase * b->plane + y / p->step[1] * b->pitch + x / p->step[2];
            }
}

/* One phase of one channel. */
static void fill_plane(const ConvLines *b, const char *source, int64_t phase, int64_t y, int64_t lines, int64_t x,
                       char *line) {
    const Patches *const p = b->p;
    const int64_t down = phase / b->x.phases + b->y.low, right = phase % b->x.phases + b->x.low;
    for (int64_t i = y; i < y + lines + b->y.reach; i++, line += b->pitch * p->bytes) {
        const int64_t from = i * p->step[1] + down;
        const bool inside = from >= 0 && from < p->size[1];
        conv_patches_line(p, inside ? source + from * p->size[2] * p->bytes : NULL, right, x, b->pitch, line);
    }
    memset(line, 0, (size_t)(b->shared * p->bytes));
}

void conv_lines_fill(const ConvLines *b, const char *source, int64_t y, int64_t lines, int64_t x, char *to) {
    const Patches *const p = b->p;
    for (int64_t r = 0; r < b->channels; r++)
        for (int64_t phase = 0; phase < b->y.phases * b->x.phases; phase++)
            fill_plane(b, source + r * p->channel_stride * p->bytes, phase, y, lines, x,
                       to + (r * b->whole + phase * b->plane) * p->bytes);
}
