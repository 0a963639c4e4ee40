/* cpu_window_type.h: loops over the windows of one plane, in row-major order of window and element. Included once per
 * compute type: TYPE, LOWEST, NAME(word). No guard. */
static void NAME(max_plane)(const Windows *w, int64_t plane) {
    const Axis *const a = w->axis;
    const TYPE *const x = (const TYPE *)w->from + plane * w->in;
    TYPE *y = (TYPE *)w->to + plane * w->out;
    int64_t *at = w->index + plane * w->out;
    for (int64_t i = 0; i < a[0].out; i++)
        for (int64_t j = 0; j < a[1].out; j++)
            for (int64_t k = 0; k < a[2].out; k++) {
                TYPE most = LOWEST;
                int64_t where =
                    (min_i64(a[0].lo[i], a[0].in - 1) * a[1].in + min_i64(a[1].lo[j], a[1].in - 1)) * a[2].in +
                    min_i64(a[2].lo[k], a[2].in - 1);
                for (int64_t d = a[0].lo[i]; d < a[0].hi[i]; d += a[0].step)
                    for (int64_t r = a[1].lo[j]; r < a[1].hi[j]; r += a[1].step)
                        for (int64_t c = a[2].lo[k]; c < a[2].hi[k]; c += a[2].step) {
                            const int64_t here = (d * a[1].in + r) * a[2].in + c;
                            const TYPE value = x[here];
                            if (value > most || isnan((double)value)) most = value, where = here;
                        }
                *y++ = most;
                *at++ = where;
            }
}

static void NAME(max_back)(const Windows *w, int64_t plane) {
    const TYPE *const grad = (const TYPE *)w->from + plane * w->out;
    TYPE *const x = (TYPE *)w->to + plane * w->in;
    const int64_t *const at = w->index + plane * w->out;
    for (int64_t i = 0; i < w->out; i++) x[at[i]] += grad[i];
}

static void NAME(mean_plane)(const Windows *w, int64_t plane) {
    const Axis *const a = w->axis;
    const TYPE *const x = (const TYPE *)w->from + plane * w->in;
    TYPE *y = (TYPE *)w->to + plane * w->out;
    for (int64_t i = 0; i < a[0].out; i++)
        for (int64_t j = 0; j < a[1].out; j++)
            for (int64_t k = 0; k < a[2].out; k++) {
                const int64_t divisor = window_divisor(w, i, j, k);
                TYPE sum = 0;
                for (int64_t d = a[0].lo[i]; d < a[0].hi[i]; d++)
                    for (int64_t r = a[1].lo[j]; r < a[1].hi[j]; r++)
                        for (int64_t c = a[2].lo[k]; c < a[2].hi[k]; c++) sum += x[(d * a[1].in + r) * a[2].in + c];
                *y++ = divisor ? sum / (TYPE)divisor : 0;
            }
}

static void NAME(mean_back)(const Windows *w, int64_t plane) {
    const Axis *const a = w->axis;
    const TYPE *grad = (const TYPE *)w->from + plane * w->out;
    TYPE *const x = (TYPE *)w->to + plane * w->in;
    for (int64_t i = 0; i < a[0].out; i++)
        for (int64_t j = 0; j < a[1].out; j++)
            for (int64_t k = 0; k < a[2].out; k++) {
                const int64_t divisor = window_divisor(w, i, j, k);
                const TYPE part = divisor ? *grad / (TYPE)divisor : 0;
                grad++;
                for (int64_t d = a[0].lo[i]; d < a[0].hi[i]; d++)
                    for (int64_t r = a[1].lo[j]; r < a[1].hi[j]; r++)
                        for (int64_t c = a[2].lo[k]; c < a[2].hi[k]; c++) x[(d * a[1].in + r) * a[2].in + c] += part;
            }
}
