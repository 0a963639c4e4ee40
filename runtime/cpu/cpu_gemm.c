/* cpu_gemm.c: see cpu_gemm.h. Each output element is one chain over k, so any split
 * gives the same bits [semantics B2, B7]: many rows in multiples of the largest tile's, few of them (which read B once)
 * by batches or by columns. */
#include "runtime/cpu/cpu_gemm.h"

#include "runtime/base/log.h"
#include "runtime/cpu/template.h"

#include <stdatomic.h>

#include "runtime/device/alloc_cpu.h"
#include "runtime/core/pool.h"

enum { TILE_ROWS = 6, PARTS_PER_THREAD = 2, FEW_BYTES = 8 << 10, PANEL_COLUMNS = 64 };
enum { FEW_ROWS = 24, READ_ROWS = 8 }; /* to read B costs as much as so many rows of work */
static const double PART_FLOPS = 1e6;  /* below this a part is not worth a thread */

typedef struct GemmTasks {
    GemmCall call;
    int64_t columns, batches; /* of a part; its rows are call.part_rows */
    int column_parts, row_parts;
    size_t workspace; /* bytes for each */
    _Atomic bool no_memory;
} GemmTasks;

/* Tiles of a part as the whole product's. */
typedef struct PartTile {
    const GemmCall *whole;
    int64_t batch, column;
} PartTile;

static void pass_part_tile(void *context, const GemmTile *tile) {
    const PartTile *const part = context;
    GemmTile moved = *tile;
    moved.batch += part->batch, moved.column += part->column;
    part->whole->tile(part->whole->context, &moved);
}

/* Part i: batches, rows of them, columns of these. */
static GemmCall part_call(const GemmTasks *parts, int i, PartTile *tile) {
    GemmCall call = parts->call;
    const int column = i % parts->column_parts, row = i / parts->column_parts % parts->row_parts;
    const int64_t bytes = dtype_bytes(call.dtype);
    *tile = (PartTile){&parts->call, parts->batches * (i / parts->column_parts / parts->row_parts),
                       parts->columns * column};
    call.row_begin = call.part_rows * row;
    call.row_end = min_i64(call.row_begin + call.part_rows, call.m);
    call.n = min_i64(parts->columns, call.n - tile->column);
    call.batch = min_i64(parts->batches, call.batch - tile->batch);
    call.a = (const char *)call.a + tile->batch * call.a_batch * bytes;
    call.b = (const char *)call.b + (tile->batch * call.b_batch + tile->column * call.b_col) * bytes;
    if (call.c) call.c = (char *)call.c + (tile->batch * call.c_batch + tile->column * call.c_col) * bytes;
    if (call.tile && (tile->batch || tile->column)) call.tile = pass_part_tile, call.context = tile;
    return call;
}

static void run_part(void *context, int i) {
    GemmTasks *const parts = context;
    PartTile tile;
    GemmCall call = part_call(parts, i, &tile);
    char few[FEW_BYTES] __attribute__((aligned(64))); /* spares tiny products the allocator */
    const bool fits = parts->workspace <= sizeof few;
    call.workspace = fits ? few : cpu_alloc(parts->workspace);
    if (!call.workspace) {
        atomic_store(&parts->no_memory, true);
        return;
    }
    gemm(&call);
    if (!fits) cpu_free(call.workspace, parts->workspace);
}

static int64_t parts_wanted(const GemmCall *call, int64_t rows) {
    const double flops = 2.0 * (double)rows * (double)call->n * (double)call->k * (double)call->batch;
    const int64_t most = double_to_i64(flops / PART_FLOPS);
    return pool_threads() == 1 ? 1 : min_i64(most, PARTS_PER_THREAD * pool_threads());
}

/* Parts of few rows read B once, all together. */
static void split(GemmTasks *parts) {
    GemmCall *const call = &parts->call;
    const bool few = call->m <= FEW_ROWS;
    const int64_t most = parts_wanted(call, few ? max_i64(call->m, READ_ROWS) : call->m);
    if (most < 2) return;
    if (!few)
        call->part_rows = round_up(ceil_div(call->m, most), TILE_ROWS);
    else if (call->batch >= most)
        parts->batches = ceil_div(call->batch, most);
    else
        parts->columns = round_up(ceil_div(call->n, most), PANEL_COLUMNS);
}

Status gemm_run(const GemmCall *call) {
    if (!call->m || !call->n || !call->batch) return ST_OK;
    LOG(dispatch, INFO, "product %s: gemm of %s: M=%lld N=%lld K=%lld batches=%lld", dtype_name(call->dtype),
        isa_name(isa_used()), (long long)call->m, (long long)call->n, (long long)call->k, (long long)call->batch);
    GemmTasks parts = {.call = *call, .columns = call->n, .batches = call->batch};
    parts.call.part_rows = call->m;
    split(&parts);
    parts.row_parts = (int)ceil_div(call->m, parts.call.part_rows);
    parts.column_parts = (int)ceil_div(call->n, parts.columns);
    const size_t packed_bytes = parts.row_parts > 1 && call->batch == 1 && call->k ? gemm_packed_bytes(call) : 0;
    void *packed = NULL;
    if (packed_bytes) {
        if (!(packed = cpu_alloc(packed_bytes))) return ST_MEMORY;
        gemm_pack_b(call, packed);
        parts.call.packed_b = packed;
    }
    GemmCall largest = parts.call;
    largest.n = parts.columns, largest.batch = parts.batches;
    parts.workspace = gemm_workspace(&largest);
    pool_run(parts.column_parts * parts.row_parts * (int)ceil_div(call->batch, parts.batches), run_part, &parts);
    cpu_free(packed, packed_bytes);
    return parts.no_memory
               ? error_raise(ST_MEMORY, "out of memory for a product's workspace of %zu bytes", parts.workspace)
               : ST_OK;
}

/* the template -------------------------------------------------------------------------------- */

static void pass_tile(void *context, const GemmTile *tile) {
    const TemplateRun *const run = context;
    const TemplateTile whole = {.at = tile->at,
                                .ld = tile->ld,
                                .lo = {tile->batch, tile->row, tile->column},
                                .hi = {tile->batch + 1, tile->row + tile->rows, tile->column + tile->columns}};
    run->tile(run->context, &whole);
}

Status template_run_gemm(const TemplateRun *run) {
    const int64_t *const a = run->operand[0].stride, *const b = run->operand[1].stride,
                         *const c = run->operand[2].stride;
    const GemmCall call = {.dtype = run->dtype,
                           .batch = run->size[0],
                           .m = run->size[1],
                           .n = run->size[2],
                           .k = run->size[3],
                           .a = run->operand[0].at,
                           .b = run->operand[1].at,
                           .c = run->operand[2].at,
                           .a_batch = a[0],
                           .a_row = a[1],
                           .a_col = a[2],
                           .b_batch = b[0],
                           .b_row = b[1],
                           .b_col = b[2],
                           .c_batch = c[0],
                           .c_row = c[1],
                           .c_col = c[2],
                           .tile = run->tile ? pass_tile : NULL,
                           .context = (void *)(uintptr_t)run};
    return gemm_run(&call);
}
