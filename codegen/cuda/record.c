/* record.c: what follows from a kernel and its mapping: what a part takes, how many blocks it needs, how much it leaves
 * in workspace. Decides nothing. */
#include "codegen/cuda/mapping.h"

CudaMapping *cuda_mapping_new(Arena *arena, const Kernel *kernel) {
    CudaMapping *const mapping = ARENA_NEW(arena, CudaMapping);
    int most = 0;
    for (int k = 0; k < kernel->n_nests; k++) most += 3 * kernel->nests[k].n_phases;
    if (mapping) mapping->parts = ARENA_ARRAY(arena, CudaPart, most + 1);
    return mapping && mapping->parts ? mapping : NULL;
}

CudaMode cuda_mode_of(const Nest *nest) {
    if (nest->n_s < nest->n_inner) return CUDA_rows;
    return nest->n_inner || !nest->n_outer ? CUDA_columns : CUDA_map;
}

bool cuda_may_split(const Nest *nest) {
    for (int p = 0; p < nest->n_phases; p++)
        if (nest->phases[p].kind == PHASE_reduce) return true;
    return false;
}

static bool accesses_buf(const Inst *inst) {
    return inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store;
}

int cuda_mapping_args(const Kernel *kernel, const Nest *nest, CudaTask task) {
    int n = kernel->n_params + 2;
    bool gathers = false;
    for (int i = 0; i < nest->n_insts; i++) {
        const Inst *const inst = &nest->insts[i];
        n += accesses_buf(inst) + (task == CUDA_whole || inst->op != LI_reduce ? 0 : 3);
        gathers |= inst->op == LI_gather;
    }
    return n + gathers;
}

const char *cuda_refusal(const CudaKernel *kernel) {
    const Kernel *const k = kernel->kernel;
    for (int i = 0; i < k->n_nests; i++)
        if (cuda_mapping_args(k, &k->nests[i], CUDA_whole) > KERNEL_MOST_ARGS)
            return "more buffers than a launch takes";
    return NULL;
}

/* parts ------------------------------------------------------------------------------------------- */

bool cuda_part_is_shared(const CudaPart *part) {
    return part->mapping.mode == CUDA_rows && part->task != CUDA_join_s && part->task != CUDA_once;
}

bool cuda_part_has_results(const CudaPart *part, const Nest *nest) {
    return part->task == CUDA_join_s || (part->task == CUDA_join_l && !nest->n_s);
}

bool cuda_part_loops(const CudaPart *part) { return part->mapping.mode != CUDA_map && part->task != CUDA_once; }

int cuda_mapping_quad_group(const CudaNestMapping *mapping) {
    const int l = mapping->n_outer_groups + mapping->n_s_groups;
    if (mapping->mode == CUDA_map) return mapping->n_outer_groups - 1;
    return mapping->mode == CUDA_rows && mapping->n_groups == l + 1 ? l : -1;
}

bool cuda_mapping_is_flat(const CudaNestMapping *mapping) {
    return mapping->mode == CUDA_map && mapping->n_outer_groups == 1;
}

int cuda_mapping_launch_parts(const CudaMapping *mapping, int first) {
    int end = first;
    while (end < mapping->n && mapping->parts[end].mapping.launch == mapping->parts[first].mapping.launch) end++;
    return end - first;
}

/* by the values of extents ------------------------------------------------------------------------ */

int64_t cuda_extent_product(const int64_t *extent, int first, int last) {
    int64_t total = 1;
    for (int d = first; d < last; d++) total *= extent[d];
    return total;
}

static int64_t threads_of(const CudaNestMapping *mapping, const Nest *nest, const int64_t *extent) {
    const int64_t all = cuda_extent_product(extent, 0, nest->n_outer);
    if (!all || mapping->mode == CUDA_columns) return all;
    if (mapping->mode == CUDA_rows) return all * CUDA_ROW_THREADS;
    const int64_t last = cuda_extent_product(extent, mapping->group[mapping->n_outer_groups - 1].first, nest->n_outer);
    return all / last * ceil_div(last, CUDA_QUAD);
}

static int64_t n_s_of(const Nest *nest, const int64_t *extent) {
    return cuda_extent_product(extent, nest->n_outer, nest->n_outer + nest->n_s);
}

static int64_t chunks_of(const CudaNestMapping *mapping, const Nest *nest, const int64_t *extent) {
    const int64_t n_s = n_s_of(nest, extent);
    if (mapping->mode == CUDA_columns) return ceil_div(n_s, CHUNK_S);
    return n_s *
           ceil_div(cuda_extent_product(extent, nest->n_outer + nest->n_s, nest->n_outer + nest->n_inner), CHUNK_L);
}

int64_t cuda_workspace_count(const CudaNestMapping *mapping, const Nest *nest, const int64_t *extent, CudaStage stage) {
    const int64_t outer = cuda_extent_product(extent, 0, nest->n_outer);
    if (stage == CUDA_results) return outer;
    return outer * (stage == CUDA_of_l ? n_s_of(nest, extent) : chunks_of(mapping, nest, extent));
}

static int64_t task_threads(const CudaPart *part, const Nest *nest, const int64_t *extent) {
    const int64_t group = cuda_part_is_shared(part) ? CUDA_ROW_THREADS : 1;
    if (part->task == CUDA_whole) return threads_of(&part->mapping, nest, extent);
    if (part->task == CUDA_join_l) return cuda_workspace_count(&part->mapping, nest, extent, CUDA_of_l) * group;
    if (part->task == CUDA_join_s || part->task == CUDA_once) return cuda_extent_product(extent, 0, nest->n_outer);
    return cuda_workspace_count(&part->mapping, nest, extent, CUDA_of_chunks) * group;
}

int64_t cuda_blocks(const CudaPart *part, const Nest *nest, const int64_t *extent) {
    return ceil_div(task_threads(part, nest, extent), part->mapping.threads);
}
