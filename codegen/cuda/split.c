/* split.c: a nest of few long rows or columns as several parts, one after another: for each reduction its chunks, by
 * tasks that find a partial result each, then the parts that join those in the canonical order; what is stored along
 * rows by chunks, too. Values of earlier phases are made again, results of reductions are read where they were left.
 *
 *   softmax of 4 rows of 100,000:  chunks of the maximum | join_l | chunks of the sum | join_l | elements
 *   sums of 768 columns of 8,192:  chunks of 64 rows     | join_s
 *   of an outer dim, S and L:      chunks of L           | join_l, for each index of S | join_s */
#include <stdio.h>

#include "codegen/cuda/source.h"

/* which parts ------------------------------------------------------------------------------------- */

static void add_part(CudaPart *parts, int *n, const CudaPart *like, CudaTask task, int phase) {
    CudaPart *const part = &parts[*n];
    *part = *like;
    part->task = task, part->phase = phase;
    part->level = like->level + (*n)++;
}

static void add_reduction(const Nest *nest, const CudaPart *like, CudaPart *parts, int *n, int phase) {
    add_part(parts, n, like, CUDA_chunks, phase);
    if (like->shape.mode == CUDA_rows) add_part(parts, n, like, CUDA_join_l, phase);
    if (nest->n_s) add_part(parts, n, like, CUDA_join_s, phase);
    parts[*n - 1].last = true;
}

void split_nest(const CudaKernel *of, const CudaPart *like, CudaPart *parts, int *n) {
    const Nest *const nest = &of->kernel->nests[like->nest];
    *n = 0;
    for (int p = 0; p < nest->n_phases; p++) {
        const Phase *const phase = &nest->phases[p];
        if (phase->kind == PHASE_reduce)
            add_reduction(nest, like, parts, n, p);
        else if (!phase->over_outer)
            add_part(parts, n, like, CUDA_elements, p);
        else if (*n && parts[*n - 1].last)
            parts[*n - 1].n_after++;
        else
            add_part(parts, n, like, CUDA_once, p);
    }
}

static int64_t product(const int64_t *extent, int first, int last) {
    int64_t total = 1;
    for (int d = first; d < last; d++) total *= extent[d];
    return total;
}

static bool reduces(const Nest *nest) {
    for (int p = 0; p < nest->n_phases; p++)
        if (nest->phases[p].kind == PHASE_reduce) return true;
    return false;
}

bool split_wanted(const CudaKernel *of, const Nest *nest, const CudaShape *shape, const int64_t *extent) {
    const int64_t outer = product(extent, 0, nest->n_outer);
    const int64_t inner = product(extent, nest->n_outer, nest->n_outer + nest->n_inner);
    if (!reduces(nest) || of->split == CUDA_split_none) return false;
    if (of->split == CUDA_split_all) return true;
    if (shape->mode == CUDA_rows) return inner > CHUNK_L && outer * CUDA_ROW_THREADS < CUDA_FEW_THREADS;
    return inner > 2 * CHUNK_S && outer < CUDA_FEW_THREADS;
}

/* spaces ------------------------------------------------------------------------------------------ */

static bool is_position(const Inst *inst) { return inst->prim == RED_argmax || inst->prim == RED_argmin; }

void space_name(const SpaceUse *use, char name[32]) {
    static const char *const words[] = {"chunks", "sums", "whole"};
    snprintf(name, 32, "%s%d", words[use->stage], use->inst);
}

int space_bytes_of(const Nest *nest, const SpaceUse *use) {
    const Inst *const inst = &nest->insts[use->inst];
    if (use->stage == CUDA_results) return (int)stype_bytes((SType)inst->type);
    return is_position(inst) ? 16 : (int)stype_bytes((SType)nest->insts[inst->a].type);
}

void space_type(const Nest *nest, const SpaceUse *use, char type[32]) {
    const Inst *const inst = &nest->insts[use->inst];
    if (use->stage == CUDA_results)
        snprintf(type, 32, "%s", type_words((SType)inst->type));
    else
        snprintf(type, 32, "red_%s_%s", red_name((RedKind)inst->prim), stype_name((SType)nest->insts[inst->a].type));
}

static void use_phase(const Nest *nest, int phase, CudaStage stage, SpaceUse *out, int *n) {
    const Phase *const of = &nest->phases[phase];
    for (int i = of->first; i < of->first + of->n; i++)
        if (nest->insts[i].op == LI_reduce) out[(*n)++] = (SpaceUse){i, stage};
}

int split_spaces(const Nest *nest, const CudaPart *part, SpaceUse *out) {
    int n = 0;
    const bool rows = part->shape.mode == CUDA_rows;
    for (int p = 0; p < part->phase; p++) use_phase(nest, p, CUDA_results, out, &n);
    if (part->task == CUDA_chunks || part->task == CUDA_join_l || (part->task == CUDA_join_s && !rows))
        use_phase(nest, part->phase, CUDA_of_chunks, out, &n);
    if (rows && (part->task == CUDA_join_s || (part->task == CUDA_join_l && !part->last)))
        use_phase(nest, part->phase, CUDA_of_l, out, &n);
    if (part->last) use_phase(nest, part->phase, CUDA_results, out, &n);
    return n;
}

/* text -------------------------------------------------------------------------------------------- */

static void print_sizes(CudaSource *s) {
    Words words;
    const int outer = s->shape->n_outer_groups, l = outer + s->shape->n_s_groups;
    print_line(s, "const int64_t n_outer = %s;", words_extent(&words, s, 0, outer));
    if (l > outer && s->part->task != CUDA_once)
        print_line(s,
                   s->part->task == CUDA_join_s && s->shape->mode == CUDA_columns
                       ? "const int64_t n_s = (%s + 63) >> 6;"
                       : "const int64_t n_s = %s;",
                   words_extent(&words, s, outer, l));
    if (l < s->shape->n_groups && s->part->task != CUDA_once && s->part->task != CUDA_join_s)
        print_line(s, "const int64_t n_l = %s, n_list = (n_l + 1023) >> 10;",
                   words_extent(&words, s, l, s->shape->n_groups));
}

/* 16 threads a task: `row`, `s`; of chunks from..to-1 of L, of a list where it begins. */
static void print_place_of_rows(CudaSource *s) {
    const bool chunks = s->part->task != CUDA_join_l, has_s = s->shape->n_s_groups > 0;
    print_line(s, "const int t = threadIdx.x & 15;");
    print_line(s, "const int64_t me = thread_of(block) >> 4;");
    print_line(s, "const bool live = me < n_outer%s%s;", has_s ? " * n_s" : "", chunks ? " * n_list" : "");
    print_line(s, "int64_t w = live ? me : 0;");
    if (chunks)
        print_line(s, "const int64_t from = remainder_of(&w, n_list) << 10, to = least_of(from + 1024, n_l);");
    else
        print_line(s, "const int64_t base = w * n_list;");
    if (has_s) print_line(s, "const int64_t s = remainder_of(&w, n_s);");
    print_line(s, "const int64_t row = w;");
}

/* A thread a task: `row`; of chunks from..to-1 of S, of a list where it begins and how far its elements are apart. */
static void print_place_of_threads(CudaSource *s) {
    const bool chunks = s->part->task == CUDA_chunks || s->part->task == CUDA_elements;
    print_line(s, "const int64_t me = thread_of(block);");
    print_line(s, "if (me >= n_outer%s) return;", chunks ? " * ((n_s + 63) >> 6)" : "");
    print_line(s, chunks ? "int64_t w = me;" : "const int64_t row = me;");
    if (chunks) {
        print_line(s, "const int64_t row = remainder_of(&w, n_outer);");
        print_line(s, "const int64_t from = w << 6, to = least_of(from + 64, n_s);");
    } else if (s->part->task == CUDA_join_s) {
        const bool rows = s->shape->mode == CUDA_rows;
        print_line(s, "const int64_t base = %s, step = %s;", rows ? "row * n_s" : "row", rows ? "1" : "n_outer");
    }
}

static void print_after(CudaSource *s) {
    for (int p = s->part->phase + 1; p <= s->part->phase + s->part->n_after; p++) print_once(s, &s->nest->phases[p]);
}

static void print_elements_of_s(CudaSource *s, const Phase *phase) {
    const int outer = s->shape->n_outer_groups;
    print_needed(s, phase, TURN_outer);
    print_line(s, "#pragma unroll 1");
    print_open(s, "for (int64_t s = from; s < to; s++) {");
    print_indices(s, outer, s->shape->n_groups, "s");
    print_needed(s, phase, TURN_s);
    print_s_stores(s, phase);
    print_close(s);
}

static void print_of_rows(CudaSource *s, const Phase *phase) {
    const int outer = s->shape->n_outer_groups;
    print_needed(s, phase, TURN_outer);
    if (s->shape->n_s_groups) print_indices(s, outer, outer + s->shape->n_s_groups, "s");
    print_needed(s, phase, TURN_s);
    if (s->part->task == CUDA_chunks)
        print_chunk_of_l(s, phase);
    else
        print_row_stores(s, phase, "from + ", "to", "if (live && t == 0 && from == 0) ");
}

void print_task(CudaSource *s) {
    const CudaTask task = s->part->task;
    const Phase *const phase = &s->nest->phases[s->part->phase];
    const bool rows = s->shape->mode == CUDA_rows && task != CUDA_join_s && task != CUDA_once;
    print_sizes(s);
    if (rows)
        print_place_of_rows(s);
    else
        print_place_of_threads(s);
    print_indices(s, 0, s->shape->n_outer_groups, "row");
    if (task == CUDA_join_l)
        print_join_l(s, phase);
    else if (task == CUDA_join_s)
        print_join_s(s, phase);
    else if (task == CUDA_once)
        print_once(s, phase);
    else if (rows)
        print_of_rows(s, phase);
    else if (task == CUDA_chunks)
        print_chunk_of_s(s, phase);
    else
        print_elements_of_s(s, phase);
    print_after(s);
}
