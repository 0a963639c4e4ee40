/* cpu_gemm.c: see cpu_gemm.h. Each output element is one chain over k, so any split of the rows
 * gives the same bits [semantics B2, B7]; rows are split in multiples of the largest tile's. */
#include "runtime/cpu/cpu_gemm.h"

#include "runtime/base/log.h"
#include "runtime/cpu/template.h"

#include <stdatomic.h>

#include "runtime/device/alloc_cpu.h"
#include "runtime/core/pool.h"

enum { TILE_ROWS = 6, PARTS_PER_THREAD = 2, FEW_BYTES = 8 << 10 };
static const double PART_FLOPS = 1e6; /* below this a part is not worth a thread */

typedef struct GemmTasks {
    GemmCall call;
    size_t workspace; /* bytes for each */
    _Atomic bool no_memory;
} GemmTasks;

static void run_part(void *context, int i) {
    GemmTasks *const parts = context;
    GemmCall call = parts->call;
    call.row_begin = call.part_rows * i;
    call.row_end = min_i64(call.row_begin + call.part_rows, call.m);
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

static int64_t rows_of_part(const GemmCall *call) {
    const double flops = 2.0 * (double)call->m * (double)call->n * (double)call->k * (double)call->batch;
    const int64_t most = double_to_i64(flops / PART_FLOPS);
    if (most < 2 || call->m <= TILE_ROWS || pool_threads() == 1) return call->m;
    return round_up(ceil_div(call->m, min_i64(most, PARTS_PER_THREAD * pool_threads())), TILE_ROWS);
}

Status gemm_run(const GemmCall *call) {
    if (!call->m || !call->n || !call->batch) return ST_OK;
    LOG(dispatch, INFO, "product %s: gemm of %s: M=%lld N=%lld K=%lld batches=%lld", dtype_name(call->dtype),
        isa_name(isa_used()), (long long)call->m, (long long)call->n, (long long)call->k, (long long)call->batch);
    GemmTasks parts = {.call = *call};
    parts.call.part_rows = rows_of_part(call);
    const int n = (int)ceil_div(call->m, parts.call.part_rows);
    const size_t packed_bytes = n > 1 && call->batch == 1 && call->k ? gemm_packed_bytes(call) : 0;
    void *packed = NULL;
    if (packed_bytes) {
        if (!(packed = cpu_alloc(packed_bytes))) return ST_MEMORY;
        gemm_pack_b(call, packed);
        parts.call.packed_b = packed;
    }
    parts.workspace = gemm_workspace(&parts.call);
    pool_run(n, run_part, &parts);
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
