/* mapping_text.c: a mapping as text, nest by nest. print -> parse -> print gives the same bytes.
 *
 *   shape k0_softmax_n0 {
 *     rows launch 0 threads 128
 *     dims (i0) L (j0)
 *     level 0 chunks phase 0
 *     level 1 join_l phase 0
 *     level 2 chunks phase 1
 *     level 3 join_l phase 1 after 1
 *     level 4 elements phase 3
 *   }
 *
 * A nest that is not split has `level 0 whole`. `after 1`: the next phase, a map over the outer dims, is done by those
 * that have the results. `unroll 4`: an iteration of the task's innermost loop does so
 * many elements; without it one. */
#include "codegen/cuda/mapping.h"

static const char *const mode_names[] = {"map", "rows", "columns"};
static const char *const task_names[CUDA_TASKS] = {"whole", "chunks", "join_l", "join_s", "once", "elements"};

/* printing ---------------------------------------------------------------------------------------- */

static int parts_of_nest(const CudaMapping *mapping, int first) {
    int end = first;
    while (end < mapping->n && mapping->parts[end].nest == mapping->parts[first].nest) end++;
    return end - first;
}

static void print_task_line(const CudaPart *part, Text *text) {
    text_printf(text, "  level %d %s", part->level, task_names[part->task]);
    if (part->task != CUDA_whole) text_printf(text, " phase %d", part->phase);
    if (part->n_after) text_printf(text, " after %d", part->n_after);
    if (part->unroll != 1) text_printf(text, " unroll %d", part->unroll);
    text_puts(text, "\n");
}

static void print_nest(const CudaPart *parts, int n, const Nest *nest, Text *text) {
    const CudaNestMapping *const m = &parts->mapping;
    const DimGroups dims = {m->n_groups, m->n_outer_groups, m->n_s_groups, m->group};
    text_printf(text, "shape %s%s{\n", nest->name ? nest->name : "", nest->name ? " " : "");
    text_printf(text, "  %s launch %d threads %d\n", mode_names[m->mode], m->launch, m->threads);
    dims_print(&dims, nest, text);
    for (int k = 0; k < n; k++) print_task_line(&parts[k], text);
    text_puts(text, "}\n");
}

void cuda_mapping_print(const CudaMapping *mapping, const Kernel *kernel, Text *text) {
    for (int first = 0; first < mapping->n;) {
        const CudaPart *const parts = &mapping->parts[first];
        const int n = parts_of_nest(mapping, first);
        print_nest(parts, n, &kernel->nests[parts->nest], text);
        first += n;
    }
}

/* parsing ----------------------------------------------------------------------------------------- */

static Status read_mode(TextReader *in, CudaMode *out) {
    for (int m = 0; m < COUNT_OF(mode_names); m++)
        if (reader_eat(in, mode_names[m])) {
            *out = (CudaMode)m;
            return ST_OK;
        }
    return reader_expected(in, "map, rows or columns");
}

static Status read_task(TextReader *in, const Nest *nest, CudaPart *out) {
    int task = 0;
    while (task < CUDA_TASKS && !reader_eat(in, task_names[task])) task++;
    if (task == CUDA_TASKS) return reader_expected(in, "whole, chunks, join_l, join_s, once or elements");
    out->task = (CudaTask)task;
    if (task == CUDA_whole) return ST_OK;
    EAT(in, "phase");
    TRY(reader_count(in, &out->phase));
    if (out->phase >= nest->n_phases) return reader_expected(in, "a phase of the nest before this");
    return reader_eat(in, "after") ? reader_count(in, &out->n_after) : ST_OK;
}

static Status read_unroll(TextReader *in, CudaPart *out) {
    out->unroll = 1;
    return reader_eat(in, "unroll") ? reader_count(in, &out->unroll) : ST_OK;
}

/* No nest has more than three tasks a phase, for which there is room. */
static Status read_parts(TextReader *in, const Nest *nest, const CudaPart *like, CudaMapping *out) {
    int n = 0;
    while (reader_eat(in, "level")) {
        CudaPart part = *like;
        if (n++ == 3 * nest->n_phases) return reader_expected(in, "at most three tasks a phase");
        TRY(reader_count(in, &part.level));
        TRY(read_task(in, nest, &part));
        TRY(read_unroll(in, &part));
        out->parts[out->n++] = part;
    }
    return n ? ST_OK : reader_expected(in, "\"level\"");
}

static Status read_nest(TextReader *in, const Nest *nest, CudaPart *like, CudaMapping *out) {
    CudaNestMapping *const m = &like->mapping;
    DimGroups dims;
    EAT(in, "shape");
    if (nest->name && !reader_eat(in, nest->name)) return reader_expected(in, "the name of the next nest");
    EAT(in, "{");
    TRY(read_mode(in, &m->mode));
    EAT(in, "launch");
    TRY(reader_count(in, &m->launch));
    EAT(in, "threads");
    TRY(reader_count(in, &m->threads));
    TRY(dims_parse(in, nest, m->group, &dims));
    m->n_groups = dims.n, m->n_outer_groups = dims.n_outer, m->n_s_groups = dims.n_s;
    TRY(read_parts(in, nest, like, out));
    EAT(in, "}");
    return ST_OK;
}

Status cuda_mapping_parse(Arena *arena, TextReader *in, const Kernel *kernel, CudaMapping **out) {
    CudaMapping *const mapping = cuda_mapping_new(arena, kernel);
    int check = 0;
    if (!mapping) return ST_MEMORY;
    for (int k = 0; k < kernel->n_nests; k++) {
        CudaPart like = {.nest = k, .check = check};
        TRY(read_nest(in, &kernel->nests[k], &like, mapping));
        check += kernel->nests[k].n_insts;
    }
    *out = mapping;
    return ST_OK;
}
