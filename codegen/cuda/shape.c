/* shape.c: what a thread is, and how many blocks a part needs. */
#include "codegen/cuda/cuda.h"

void cuda_shape(const Nest *nest, CudaShape *shape) {
    const int inner = nest->n_outer, l = inner + nest->n_s, end = inner + nest->n_inner;
    DimGroup *const group = shape->group;
    *shape = (CudaShape){.mode = CUDA_columns};
    shape->n_outer_groups = shape->n_groups = dims_merge(nest, 0, inner, group);
    shape->n_s_groups = dims_merge(nest, inner, l, group + shape->n_groups);
    shape->n_groups += shape->n_s_groups;
    shape->n_groups += dims_merge(nest, l, end, group + shape->n_groups);
    if (l < end)
        shape->mode = CUDA_rows;
    else if (!nest->n_inner && nest->n_outer)
        shape->mode = CUDA_map;
}

bool cuda_is_flat(const CudaShape *shape) { return shape->mode == CUDA_map && shape->n_outer_groups == 1; }

static int64_t product(const int64_t *extent, int first, int last) {
    int64_t total = 1;
    for (int d = first; d < last; d++) total *= extent[d];
    return total;
}

static int64_t threads_of(const CudaShape *shape, const Nest *nest, const int64_t *extent) {
    const int64_t all = product(extent, 0, nest->n_outer);
    if (!all || shape->mode == CUDA_columns) return all;
    if (shape->mode == CUDA_rows) return all * CUDA_ROW_THREADS;
    const int64_t last = product(extent, shape->group[shape->n_outer_groups - 1].first, nest->n_outer);
    return all / last * ceil_div(last, CUDA_QUAD);
}

static int64_t n_s_of(const Nest *nest, const int64_t *extent) {
    return product(extent, nest->n_outer, nest->n_outer + nest->n_s);
}

static int64_t chunks_of(const CudaShape *shape, const Nest *nest, const int64_t *extent) {
    const int64_t n_s = n_s_of(nest, extent);
    if (shape->mode == CUDA_columns) return ceil_div(n_s, CHUNK_S);
    return n_s * ceil_div(product(extent, nest->n_outer + nest->n_s, nest->n_outer + nest->n_inner), CHUNK_L);
}

int64_t cuda_space_count(const CudaShape *shape, const Nest *nest, const int64_t *extent, CudaStage stage) {
    const int64_t outer = product(extent, 0, nest->n_outer);
    if (stage == CUDA_results) return outer;
    return outer * (stage == CUDA_of_l ? n_s_of(nest, extent) : chunks_of(shape, nest, extent));
}

static int64_t task_threads(const CudaPart *part, const Nest *nest, const int64_t *extent) {
    const int64_t group = part->shape.mode == CUDA_rows ? CUDA_ROW_THREADS : 1;
    if (part->task == CUDA_all) return threads_of(&part->shape, nest, extent);
    if (part->task == CUDA_join_l) return cuda_space_count(&part->shape, nest, extent, CUDA_of_l) * group;
    if (part->task == CUDA_join_s || part->task == CUDA_once) return product(extent, 0, nest->n_outer);
    return cuda_space_count(&part->shape, nest, extent, CUDA_of_chunks) * group;
}

int64_t cuda_blocks(const CudaPart *part, const Nest *nest, const int64_t *extent) {
    return ceil_div(task_threads(part, nest, extent), CUDA_THREADS);
}
