/* mapping.c: the mapping of a kernel. Nests are decided one by one: groups of dims, the mode, whether the nest is
 * split. Then the parts get levels, as each nest sees what earlier ones stored, and launches, as far as the arguments
 * of one have room and its blocks may count themselves. Sizes that are parameters count by their hints. */
#include "codegen/cuda/mapping.h"

/* a nest ------------------------------------------------------------------------------------------ */

static void decide_nest(const Nest *nest, const Machine *machine, CudaNestMapping *out) {
    const int inner = nest->n_outer, l = inner + nest->n_s, end = inner + nest->n_inner;
    *out = (CudaNestMapping){.mode = cuda_mode_of(nest), .threads = machine->threads};
    out->n_outer_groups = out->n_groups = dims_merge(nest, 0, inner, out->group);
    out->n_s_groups = dims_merge(nest, inner, l, out->group + out->n_groups);
    out->n_groups += out->n_s_groups;
    out->n_groups += dims_merge(nest, l, end, out->group + out->n_groups);
}

/* A thread that reads columns, or the results of chunks, has several loads on their way; elsewhere 16 threads have. */
static int unroll_of(CudaMode mode, CudaTask task) {
    if (task == CUDA_join_s) return 8;
    return task == CUDA_chunks && mode == CUDA_columns ? 4 : 1;
}

static void add_part(CudaPart *parts, int *n, const CudaPart *like, CudaTask task, int phase) {
    CudaPart *const part = &parts[*n];
    *part = *like;
    part->task = task, part->phase = phase;
    part->unroll = unroll_of(like->mapping.mode, task);
    part->level = like->level + (*n)++;
}

static void add_reduction(const Nest *nest, const CudaPart *like, CudaPart *parts, int *n, int phase) {
    add_part(parts, n, like, CUDA_chunks, phase);
    if (like->mapping.mode == CUDA_rows) add_part(parts, n, like, CUDA_join_l, phase);
    if (nest->n_s) add_part(parts, n, like, CUDA_join_s, phase);
}

static int split_nest(const Nest *nest, const CudaPart *like, CudaPart *parts) {
    int n = 0;
    for (int p = 0; p < nest->n_phases; p++) {
        const Phase *const phase = &nest->phases[p];
        if (phase->kind == PHASE_reduce)
            add_reduction(nest, like, parts, &n, p);
        else if (!phase->over_outer)
            add_part(parts, &n, like, CUDA_elements, p);
        else if (n && cuda_part_has_results(&parts[n - 1], nest))
            parts[n - 1].n_after++;
        else
            add_part(parts, &n, like, CUDA_once, p);
    }
    return n;
}

/* sizes by their hints */

static int64_t hint_of(const CudaKernel *of, int64_t value) {
    return !sym_is(value) ? value : of->hint ? of->hint[sym_id(value)] : 1;
}

static void hint_extents(const CudaKernel *of, const Nest *nest, int64_t *extent) {
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) extent[d] = hint_of(of, nest->extent[d]);
}

static int64_t count_blocks_of(const CudaKernel *of, const CudaPart *parts, int n) {
    int64_t extent[MAX_LOOP_DIMS], blocks = 0;
    for (int p = 0; p < n; p++) {
        const Nest *const nest = &of->kernel->nests[parts[p].nest];
        hint_extents(of, nest, extent);
        blocks += cuda_blocks(&parts[p], nest, extent);
    }
    return blocks;
}

static bool split_pays(const CudaKernel *of, const Nest *nest, const CudaPart *whole, const Machine *machine) {
    int64_t extent[MAX_LOOP_DIMS];
    if (of->split == CUDA_split_all) return true;
    hint_extents(of, nest, extent);
    const int64_t outer = cuda_extent_product(extent, 0, nest->n_outer);
    const int64_t inner = cuda_extent_product(extent, nest->n_outer, nest->n_outer + nest->n_inner);
    if (whole->mapping.mode == CUDA_rows) return inner > CHUNK_L && outer * CUDA_ROW_THREADS < machine->few_threads;
    return inner > 2 * CHUNK_S && outer < machine->few_threads;
}

static int decide_parts(const CudaKernel *of, const CudaPart *whole, const Machine *machine, CudaPart *parts) {
    const Nest *const nest = &of->kernel->nests[whole->nest];
    if (of->split != CUDA_split_none && cuda_may_split(nest) && split_pays(of, nest, whole, machine)) {
        const int n = split_nest(nest, whole, parts);
        if (count_blocks_of(of, parts, n) <= machine->ordered_blocks &&
            n * cuda_mapping_args(of->kernel, nest, CUDA_chunks) <= machine->words)
            return n;
    }
    parts[0] = *whole;
    return 1;
}

/* a kernel ---------------------------------------------------------------------------------------- */

/* Each nest sees what earlier ones stored, unless the kernel says that there is nothing to see. */
static void decide_nests(const CudaKernel *of, const Machine *machine, CudaMapping *out) {
    const Kernel *const kernel = of->kernel;
    int check = 0, level = 0;
    for (int k = 0; k < kernel->n_nests; k++) {
        CudaPart whole = {.nest = k, .level = level, .unroll = 1, .check = check};
        decide_nest(&kernel->nests[k], machine, &whole.mapping);
        out->n += decide_parts(of, &whole, machine, out->parts + out->n);
        check += kernel->nests[k].n_insts;
        if (!kernel->independent) level = out->parts[out->n - 1].level + 1;
    }
}

/* How many of n parts are one launch: at least one. Those of a nest stay together. */
static int parts_together(const CudaKernel *of, const Machine *machine, const CudaPart *parts, int n) {
    int64_t blocks = 0;
    int args = 0, nest = 0, k = 0; /* nest: where the last one begins */
    for (; k < n; k++) {
        if (parts[k].nest != parts[nest].nest) nest = k;
        args += cuda_mapping_args(of->kernel, &of->kernel->nests[parts[k].nest], parts[k].task);
        blocks += count_blocks_of(of, &parts[k], 1);
        const bool waits = parts[k].level != parts[0].level;
        if (nest && (args > machine->words || (waits && blocks > machine->ordered_blocks))) return nest;
    }
    return k;
}

static void decide_launches(const CudaKernel *of, const Machine *machine, CudaMapping *mapping) {
    for (int first = 0, launch = 0; first < mapping->n; launch++) {
        CudaPart *const parts = mapping->parts + first;
        const int n = parts_together(of, machine, parts, mapping->n - first), level = parts[0].level;
        for (int k = 0; k < n; k++) parts[k].mapping.launch = launch, parts[k].level -= level;
        first += n;
    }
}

CudaMapping *cuda_mapping_decide(Arena *arena, const CudaKernel *of, const Machine *machine) {
    CudaMapping *const mapping = cuda_mapping_new(arena, of->kernel);
    if (!mapping) return NULL;
    decide_nests(of, machine, mapping);
    decide_launches(of, machine, mapping);
    return mapping;
}
