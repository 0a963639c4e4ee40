/* bench_attention.c: rows attn/...: scaled dot product attention. As many queries as keys: causal, or within a window;
 * fewer: of all keys, as in decoding. */
#include "frontend/tool/bench_make.h"

enum { HEAD_DIM = 64 };

static sn_status attended(sn_frame *f) {
    sn_tensor *const q = sn_in(f, 0), *const k = sn_in(f, 1);
    sn_tensor *const mask = sn_in_count(f) > 3 ? sn_in(f, 3) : NULL;
    const bool causal = !mask && sn_size(q, 2) == sn_size(k, 2), grouped = sn_size(q, 1) != sn_size(k, 1);
    return sn_out(f, 0, sn_scaled_dot_product_attention_ex(q, k, sn_in(f, 2), mask, 0, causal, (sn_value){0}, grouped));
}

/* True where a query sees a key: itself and the window - 1 keys before it. */
static sn_tensor *window_mask(int64_t n, int64_t window) {
    sn_tensor *const seen = sn_tril(sn_ones(SN_INTS(n, n), SN_F32), 0);
    sn_tensor *const before = sn_tril(sn_ones(SN_INTS(n, n), SN_F32), -window);
    return sn_gt_scalar(sn_sub(seen, before), sn_float(0));
}

void bench_make_attention(Work *w, const int64_t *s) {
    sn_tensor *(*const input)(Work * work, sn_ints sizes) = s[5] ? leaf : normal;
    w->kind = s[5] ? WORK_backward : WORK_forward;
    w->body = attended;
    input(w, SN_INTS(1, s[0], s[2], HEAD_DIM));
    input(w, SN_INTS(1, s[1], s[3], HEAD_DIM));
    input(w, SN_INTS(1, s[1], s[3], HEAD_DIM));
    if (s[4]) keep(w, window_mask(s[3], s[4]));
}
