/* gemm.c: GEMM for the level in use: how a call is blocked (cpu/gemm.h), and which level runs it. The
 * plan depends on the call alone, so a workspace asked for once serves every call of the same shape and strides. */
#include "kernels/levels.h"

static const GemmLevel *level(void) {
    static const GemmLevel *const levels[ISA_COUNT] = {&gemm_level_v2, &gemm_level_v3,
                                                       &gemm_level_v4};
    return levels[isa_used()];
}

enum { SLAB_BYTES = 4 << 20 }; /* of packed panels at once, if one panel is not more */

static size_t take(size_t *bytes, int64_t need) {
    const size_t at = *bytes;
    *bytes += (size_t)round_up(need, 64);
    return at;
}

static GemmPlan plan_of(const GemmCall *call) {
    const SType compute = dtype_compute(call->dtype);
    const int64_t size = stype_bytes(compute);
    const bool native = dtype_bytes(call->dtype) == size;
    const int64_t rows = call->row_end - call->row_begin, block = min_i64(rows, BLOCK_ROWS);
    GemmPlan plan = {.panel = PANEL_BYTES / size};
    const bool spread = native && call->b_col == 1 && call->b_row * size % 4096 != 0;
    plan.thin = rows <= (spread ? THIN_ROWS_SPREAD : THIN_ROWS) && !call->packed_b;
    plan.pack_a = !native || call->a_col != 1;
    plan.a_ld = round_up(call->k, 16) + 16;
    const int64_t panels = max_i64(1, ceil_div(call->n, plan.panel));
    const int64_t panel_bytes = max_i64(1, call->k) * PANEL_BYTES;
    plan.slab_panels = plan.thin || call->packed_b
                           ? panels
                           : max_i64(1, min_i64(panels, SLAB_BYTES / panel_bytes));
    plan.at_total = take(&plan.bytes, block * PANEL_BYTES);
    plan.at_part = take(&plan.bytes, call->k > CHUNK_K ? block * PANEL_BYTES : 0);
    plan.at_a = take(&plan.bytes, plan.pack_a ? block * plan.a_ld * size : 0);
    const int64_t packed = plan.thin ? min_i64(BLOCK_K, max_i64(1, call->k)) * PANEL_BYTES
                                     : plan.slab_panels * panel_bytes;
    plan.at_b = take(&plan.bytes, call->packed_b ? 0 : packed);
    return plan;
}

size_t gemm_workspace(const GemmCall *call) { return plan_of(call).bytes; }

size_t gemm_packed_bytes(const GemmCall *call) {
    const GemmPlan plan = plan_of(call);
    return (size_t)(ceil_div(call->n, plan.panel) * call->k) * PANEL_BYTES;
}

void gemm_pack_b(const GemmCall *call, void *packed) {
    const GemmPlan plan = plan_of(call);
    level()->pack_b(call, &plan, packed);
}

void gemm(const GemmCall *call) {
    const GemmPlan plan = plan_of(call);
    level()->run(call, &plan);
}
