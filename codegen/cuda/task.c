/* task.c: what a part does: a whole nest, phase after phase, or one task of a nest that is split (mapping.h). */
#include "codegen/cuda/source.h"

/* a whole nest ------------------------------------------------------------------------------------ */

static const char *block_text(const CudaSource *s) { return s->alone ? "blockIdx.x" : "block"; }

static void print_place_of_map(CudaSource *s) {
    CExpr expr;
    const int last = s->mapping->n_outer_groups - 1;
    if (last == 0) {
        print_line(s, "const int64_t i = 4 * thread_of(%s);", block_text(s));
        print_line(s, "if (i >= n_last) return;");
    } else {
        print_line(s, "const int64_t n_last = %s;", expr_extent(&expr, s, last, last + 1));
        print_line(s, "int64_t w = thread_of(%s);", block_text(s));
        print_line(s, "const int64_t i = 4 * remainder_of(&w, (n_last + 3) / 4);");
        print_line(s, "if (w >= %s) return;", expr_extent(&expr, s, 0, last));
        print_indices(s, 0, last, "w");
    }
    print_line(s, "const int left = quad_of(n_last - i);");
}

static void print_place_of_nest(CudaSource *s) {
    CExpr expr;
    const int outer = s->mapping->n_outer_groups, l = outer + s->mapping->n_s_groups;
    if (s->mapping->mode == CUDA_map) {
        print_place_of_map(s);
        return;
    }
    if (s->mapping->mode == CUDA_rows) {
        print_line(s, "const int t = threadIdx.x & 15;");
        print_line(s, "const int64_t me = thread_of(%s) >> 4;", block_text(s));
        print_line(s, "const bool live = me < %s;", expr_extent(&expr, s, 0, outer));
        print_line(s, "const int64_t n_l = %s;", expr_extent(&expr, s, l, s->mapping->n_groups));
    } else {
        print_line(s, "const int64_t me = thread_of(%s);", block_text(s));
        print_line(s, "if (me >= %s) return;", expr_extent(&expr, s, 0, outer));
    }
    if (l > outer) print_line(s, "const int64_t n_s = %s;", expr_extent(&expr, s, outer, l));
    print_indices(s, 0, outer, s->mapping->mode == CUDA_rows ? "live ? me : 0" : "me");
}

static void print_phases(CudaSource *s) {
    for (int p = 0; p < s->nest->n_phases; p++) {
        const Phase *const phase = &s->nest->phases[p];
        if (phase->kind == PHASE_reduce)
            print_reductions(s, phase);
        else
            print_map(s, phase);
    }
}

/* a task ------------------------------------------------------------------------------------------ */

static void print_sizes(CudaSource *s) {
    CExpr expr;
    const int outer = s->mapping->n_outer_groups, l = outer + s->mapping->n_s_groups;
    print_line(s, "const int64_t n_outer = %s;", expr_extent(&expr, s, 0, outer));
    const char *const n_s = l > outer && s->part->task != CUDA_once ? expr_extent(&expr, s, outer, l) : NULL;
    if (n_s && s->part->task == CUDA_join_s && s->mapping->mode == CUDA_columns)
        print_line(s, "const int64_t n_s = (%s + %d) >> %d;", n_s, CHUNK_S - 1, CHUNK_S_BITS);
    else if (n_s)
        print_line(s, "const int64_t n_s = %s;", n_s);
    if (l < s->mapping->n_groups && s->part->task != CUDA_once && s->part->task != CUDA_join_s)
        print_line(s, "const int64_t n_l = %s, n_list = (n_l + %d) >> %d;",
                   expr_extent(&expr, s, l, s->mapping->n_groups), CHUNK_L - 1, CHUNK_L_BITS);
}

/* 16 threads a task: `row`, `s`; of chunks from..to-1 of L, of a list where it begins. */
static void print_place_of_rows(CudaSource *s) {
    const bool chunks = s->part->task != CUDA_join_l, has_s = s->mapping->n_s_groups > 0;
    print_line(s, "const int t = threadIdx.x & 15;");
    print_line(s, "const int64_t me = thread_of(block) >> 4;");
    print_line(s, "const bool live = me < n_outer%s%s;", has_s ? " * n_s" : "", chunks ? " * n_list" : "");
    print_line(s, "int64_t w = live ? me : 0;");
    if (chunks)
        print_line(s, "const int64_t from = remainder_of(&w, n_list) << %d, to = least_of(from + %d, n_l);",
                   CHUNK_L_BITS, CHUNK_L);
    else
        print_line(s, "const int64_t base = w * n_list;");
    if (has_s) print_line(s, "const int64_t s = remainder_of(&w, n_s);");
    print_line(s, "const int64_t row = w;");
}

/* A thread a task: `row`; of chunks from..to-1 of S, of a list where it begins and how far its elements are apart. */
static void print_place_of_threads(CudaSource *s) {
    const bool chunks = s->part->task == CUDA_chunks || s->part->task == CUDA_elements;
    print_line(s, "const int64_t me = thread_of(block);");
    if (chunks)
        print_line(s, "if (me >= n_outer * ((n_s + %d) >> %d)) return;", CHUNK_S - 1, CHUNK_S_BITS);
    else
        print_line(s, "if (me >= n_outer) return;");
    print_line(s, chunks ? "int64_t w = me;" : "const int64_t row = me;");
    if (chunks) {
        print_line(s, "const int64_t row = remainder_of(&w, n_outer);");
        print_line(s, "const int64_t from = w << %d, to = least_of(from + %d, n_s);", CHUNK_S_BITS, CHUNK_S);
    } else if (s->part->task == CUDA_join_s) {
        const bool rows = s->mapping->mode == CUDA_rows;
        print_line(s, "const int64_t base = %s, step = %s;", rows ? "row * n_s" : "row", rows ? "1" : "n_outer");
    }
}

static void print_after(CudaSource *s) {
    for (int p = s->part->phase + 1; p <= s->part->phase + s->part->n_after; p++) print_once(s, &s->nest->phases[p]);
}

static void print_elements_of_s(CudaSource *s, const Phase *phase) {
    const int outer = s->mapping->n_outer_groups;
    print_needed(s, phase, LOOP_outer);
    print_unroll(s, s->part->unroll);
    print_open(s, "for (int64_t s = from; s < to; s++) {");
    print_indices(s, outer, s->mapping->n_groups, "s");
    print_needed(s, phase, LOOP_s);
    print_s_stores(s, phase);
    print_close(s);
}

static void print_of_rows(CudaSource *s, const Phase *phase) {
    const int outer = s->mapping->n_outer_groups;
    print_needed(s, phase, LOOP_outer);
    if (s->mapping->n_s_groups) print_indices(s, outer, outer + s->mapping->n_s_groups, "s");
    print_needed(s, phase, LOOP_s);
    if (s->part->task == CUDA_chunks)
        print_chunk_of_l(s, phase);
    else
        print_row_stores(s, phase, "from + ", "to", "if (live && t == 0 && from == 0) ");
}

static void print_one_task(CudaSource *s) {
    const CudaTask task = s->part->task;
    const Phase *const phase = &s->nest->phases[s->part->phase];
    print_sizes(s);
    if (s->shared)
        print_place_of_rows(s);
    else
        print_place_of_threads(s);
    print_indices(s, 0, s->mapping->n_outer_groups, "row");
    if (task == CUDA_join_l)
        print_join_l(s, phase);
    else if (task == CUDA_join_s)
        print_join_s(s, phase);
    else if (task == CUDA_once)
        print_once(s, phase);
    else if (s->shared)
        print_of_rows(s, phase);
    else if (task == CUDA_chunks)
        print_chunk_of_s(s, phase);
    else
        print_elements_of_s(s, phase);
    print_after(s);
}

void print_task(CudaSource *s) {
    if (s->part->task == CUDA_whole) {
        print_place_of_nest(s);
        print_phases(s);
    } else {
        print_one_task(s);
    }
}
