/* gemm.c: GEMM for the level in use: how a call is blocked (cpu/gemm.h), and which level runs it. The plan is made
 * for part_rows, never for the rows from row_begin to row_end, so that all parts of a product follow one plan and a
 * workspace asked for once serves each of them: a part of fewer rows that chose for itself could pack what the others
 * read in place.
 *
 * B is packed in panels of 256 bytes per k (64 f32 or 32 f64 columns, one format for all levels). A is read in place
 * when its k stride is 1 and it needs no conversion. Tiles are 6 x 64 (v4) and 6 x 16 (v3) f32. All panels pass over
 * one block of k before the next begins, so that a block of A stays in L2. Where B's k stride is 1 (a linear layer)
 * and A has fewer rows than B has columns, C^T = B^T A^T is computed instead: A is packed, B is read in place, and
 * tiles are transposed back at the end (64x768x3072 takes half the time of packing B). With at most 24 rows (96 where B
 * can be walked in place) B is read in place or packed on the way, in pieces of L1, or of L2 where its stride is a
 * multiple of 4 KiB. While a panel is walked its tiles ask for the next one, line by line, so that it is in L2 when
 * its turn comes (5 % on a Xeon whose L3 is far). Up to 8 rows read a B of contiguous columns once: squares of it turn
 * in registers (1x3072x768 from 150 to 115 us, 8x768x3072 from 349 to 233, on a Zen 5 core). packed_b serves every row
 * split and thread; it holds one B (batch 1, or b_batch 0).
 *
 * On a Zen 5 core products of 1024^3, NN and NT, reach 88 to 92 % of the FMA probe, on a Xeon (model 207) 88 %, and
 * 70 % while the other half of that core is busy; 4x4x4 takes 50 to 100 ns. */
#include <assert.h>

#include "kernels/levels.h"

static const GemmLevel *level(void) {
    static const GemmLevel *const levels[ISA_COUNT] = {&gemm_level_v2, &gemm_level_v3, &gemm_level_v4};
    return levels[isa_used()];
}

enum { SLAB_BYTES = 4 << 20 }; /* of packed panels at once, if one panel is not more */

static size_t reserve_bytes(size_t *bytes, int64_t need) {
    const size_t at = *bytes;
    *bytes += (size_t)round_up(need, 64);
    return at;
}

static GemmBlocking block_straight(const GemmCall *call) {
    const SType compute = dtype_compute(call->dtype);
    const int64_t size = stype_bytes(compute);
    const bool native = dtype_bytes(call->dtype) == size;
    const int64_t rows = call->part_rows;
    GemmBlocking plan = {.panel = PANEL_BYTES / size};
    const bool spread = native && call->b_col == 1 && call->b_row * size % 4096 != 0;
    plan.thin = rows <= (spread ? THIN_ROWS_SPREAD : THIN_ROWS) && !call->packed_b;
    plan.pack_a = !native || call->a_col != 1;
    plan.a_ld = round_up(call->k, 16) + 16;
    plan.rows = min_i64(rows, BLOCK_ROWS);
    const int64_t panels = max_i64(1, ceil_div(call->n, plan.panel));
    const int64_t panel_bytes = max_i64(1, call->k) * PANEL_BYTES;
    plan.slab_panels = plan.thin ? panels : max_i64(1, min_i64(panels, SLAB_BYTES / panel_bytes));
    const int64_t carried = call->k > BLOCK_K && !plan.thin ? plan.slab_panels : 1;
    plan.at_total = reserve_bytes(&plan.bytes, plan.rows * carried * PANEL_BYTES);
    plan.at_part = reserve_bytes(&plan.bytes, call->k > CHUNK_K ? plan.rows * carried * PANEL_BYTES : 0);
    plan.at_a = reserve_bytes(&plan.bytes, plan.pack_a ? plan.rows * plan.a_ld * size : 0);
    const int64_t packed =
        plan.thin ? min_i64(BLOCK_K, max_i64(1, call->k)) * PANEL_BYTES : plan.slab_panels * panel_bytes;
    plan.at_b = reserve_bytes(&plan.bytes, call->packed_b ? 0 : packed);
    return plan;
}

/* Packing the rows of A instead of B, which is read in place, where they are fewer and fill registers. */
static bool wants_transpose(const GemmCall *call) {
    const int64_t rows = call->part_rows;
    const int64_t lanes = 4 * isa_lanes(isa_used()) / stype_bytes(dtype_compute(call->dtype));
    return call->b_row == 1 && call->b_col != 1 && !call->packed_b && rows > THIN_ROWS && rows < call->n &&
           round_up(rows, lanes) * 8 <= rows * 9;
}

/* C^T = B^T A^T for `rows` of the call from row_begin on. */
static GemmCall transposed_call(const GemmCall *call, int64_t rows) {
    const int64_t bytes = dtype_bytes(call->dtype), begin = call->row_begin;
    GemmCall transposed = *call;
    transposed.m = transposed.part_rows = transposed.row_end = call->n, transposed.row_begin = 0, transposed.n = rows;
    transposed.a = call->b, transposed.b = (const char *)call->a + begin * call->a_row * bytes;
    transposed.a_row = call->b_col, transposed.a_col = call->b_row, transposed.a_batch = call->b_batch;
    transposed.b_row = call->a_col, transposed.b_col = call->a_row, transposed.b_batch = call->a_batch;
    transposed.c = call->c ? (char *)call->c + begin * call->c_row * bytes : NULL;
    transposed.c_row = call->c_col, transposed.c_col = call->c_row;
    return transposed;
}

static GemmBlocking plan_of(const GemmCall *call) {
    if (!wants_transpose(call)) return block_straight(call);
    const GemmCall transposed = transposed_call(call, call->part_rows);
    GemmBlocking plan = block_straight(&transposed);
    plan.transposed = true;
    plan.row = call->row_begin;
    plan.at_transposed =
        reserve_bytes(&plan.bytes, plan.panel * transposed_ld(&plan) * stype_bytes(dtype_compute(call->dtype)));
    return plan;
}

size_t gemm_workspace(const GemmCall *call) { return plan_of(call).bytes; }

size_t gemm_packed_bytes(const GemmCall *call) {
    const GemmBlocking plan = block_straight(call);
    return (size_t)(ceil_div(call->n, plan.panel) * call->k) * PANEL_BYTES;
}

void gemm_pack_b(const GemmCall *call, void *packed) {
    const GemmBlocking plan = block_straight(call);
    level()->pack_b(call, &plan, packed);
}

void gemm(const GemmCall *call) {
    const int64_t rows = call->row_end - call->row_begin;
    assert(rows <= call->part_rows);
    const GemmBlocking plan = plan_of(call);
    const GemmCall planned = plan.transposed ? transposed_call(call, rows) : *call;
    level()->run(&planned, &plan);
}

void gemm_offsets(SType type, const OffsetProduct *product) {
    assert(type == S_f32 || type == S_f64);
    level()->offset_product[type == S_f64](product);
}

void kernel_transpose(int bytes, const void *from, int64_t from_ld, void *to, int64_t to_ld, int64_t rows,
                      int64_t columns) {
    assert(bytes == 4 || bytes == 8);
    level()->transpose(bytes, from, from_ld, to, to_ld, rows, columns);
}
