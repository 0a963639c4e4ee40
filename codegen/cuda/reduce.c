/* reduce.c: reductions in the canonical orders [B2.1, B2.2].
 *
 *   L  16 threads a row, thread t has lanes 4t..4t+3 in a<r>_1[4]; a chunk of 1,024 elements ends in a tree that gives
 *      all 16 threads the result (x<r>_1). Results of chunks are elements of the next level, lane = chunk mod 64, by
 *      the same rule (a<r>_2[4], x<r>_2...), as many levels as the row may need. Where order means nothing there is one
 *      chunk.
 *   S  one element after another: q<r>_0; after 64 of them it goes to q<r>_1, after 64 of those to q<r>_2...
 *
 * What is left alone at a level stands as it is: nothing is added to it. */
#include <stdio.h>

#include "codegen/cuda/source.h"

enum { MOST_L_LEVELS = 4 }; /* of which the first is that of elements: 2^40 of them, more than a device has */

typedef struct CudaReds {
    const Phase *phase;
    int n, inst[MAX_PHASE_REDS];
    char name[MAX_PHASE_REDS][24]; /* "sum_f32" */
    int l_levels, s_levels;
    const char *count; /* elements of L, in the text */
    bool listed;       /* they are results that lie in workspaces of this stage, from `base` on */
    CudaStage stage;
} CudaReds;

static int64_t total_of_groups(const CudaNestMapping *mapping, int first, int last) {
    int64_t total = 1;
    for (int g = first; g < last; g++)
        if (total < 0 || mapping->group[g].extent < 0 || !mul_ok(total, mapping->group[g].extent, &total)) total = -1;
    return total;
}

static void find_reds(const CudaSource *s, const Phase *phase, CudaReds *reds) {
    const CudaNestMapping *const mapping = s->mapping;
    const int l = mapping->n_outer_groups + mapping->n_s_groups;
    bool ordered = false;
    *reds = (CudaReds){.phase = phase, .count = "n_l"};
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *const inst = &s->nest->insts[i];
        if (inst->op != LI_reduce) continue;
        ordered |= red_is_ordered(s->nest, inst);
        snprintf(reds->name[reds->n], sizeof reds->name[0], "%s_%s", red_name((RedKind)inst->prim),
                 stype_name((SType)s->nest->insts[inst->a].type));
        reds->inst[reds->n++] = i;
    }
    const int64_t n_l = ordered ? total_of_groups(mapping, l, mapping->n_groups) : 0;
    const int64_t n_s = ordered ? total_of_groups(mapping, mapping->n_outer_groups, l) : 0;
    reds->l_levels = order_levels(n_l, CHUNK_L_BITS, MOST_L_LEVELS);
    reds->s_levels = order_levels(n_s, CHUNK_S_BITS, S_LEVELS);
}

/* acc = acc with this element. */
static void print_step(CudaSource *s, const CudaReds *reds, int r, const char *condition, const char *acc,
                       const char *position) {
    const Inst *const inst = &s->nest->insts[reds->inst[r]];
    const char *const name = reds->name[r];
    const RedKind kind = (RedKind)inst->prim;
    if (kind == RED_dot)
        print_line(s, "%s%s = chain_%s(v%d, v%d, %s);", condition, acc, stype_name((SType)s->nest->insts[inst->a].type),
                   inst->a, inst->b, acc);
    else if (kind == RED_argmax || kind == RED_argmin)
        print_line(s, "%s%s = join_%s(%s, element_%s(v%d, %s));", condition, acc, name, acc, name, inst->a, position);
    else
        print_line(s, "%s%s = join_%s(%s, v%d);", condition, acc, name, acc, inst->a);
}

/* order L --------------------------------------------------------------------------------------- */

static void print_lanes(CudaSource *s, const CudaReds *reds, int level) {
    for (int r = 0; r < reds->n; r++)
        print_line(s, "red_%s a%d_%d[4] = {start_%s(), start_%s(), start_%s(), start_%s()};", reds->name[r],
                   reds->inst[r], level, reds->name[r], reds->name[r], reds->name[r], reds->name[r]);
}

static void print_trees(CudaSource *s, const CudaReds *reds, int level) {
    for (int r = 0; r < reds->n; r++) {
        const int i = reds->inst[r];
        if (level == 1)
            print_line(s, "x%d_1 = tree_%s(a%d_1[0], a%d_1[1], a%d_1[2], a%d_1[3]);", i, reds->name[r], i, i, i, i);
        else
            print_line(s,
                       "x%d_%d = %s > (int64_t)1 << %d ? tree_%s(a%d_%d[0], a%d_%d[1], a%d_%d[2], a%d_%d[3]) : x%d_%d;",
                       i, level, reds->count, CHUNK_L_BITS * (level - 1), reds->name[r], i, level, i, level, i, level,
                       i, level, i, level - 1);
    }
}

/* The result of the chunk at c<level - 1> is an element of this level. */
static void print_lane_of_chunk(CudaSource *s, const CudaReds *reds, int level) {
    const int bits = CHUNK_L_BITS * (level - 1);
    print_open(s, "if (%s > (int64_t)1 << %d && t == (int)(c%d >> %d & 15)) {", reds->count, bits, level - 1, bits + 2);
    print_line(s, "#pragma unroll");
    print_open(s, "for (int u = 0; u < 4; u++) {");
    print_open(s, "if (u == (int)(c%d >> %d & 3)) {", level - 1, bits);
    for (int r = 0; r < reds->n; r++)
        print_line(s, "a%d_%d[u] = join_%s(a%d_%d[u], x%d_%d);", reds->inst[r], level, reds->name[r], reds->inst[r],
                   level, reds->inst[r], level - 1);
    print_close(s), print_close(s), print_close(s);
}

/* Four elements of a list that lies in a workspace. */
static void print_listed(CudaSource *s, const CudaReds *reds) {
    print_line(s, "#pragma unroll");
    print_open(s, "for (int u = 0; u < 4; u++) {");
    for (int r = 0; r < reds->n; r++) {
        char name[32];
        const int i = reds->inst[r];
        workspace_name(&(WorkspaceUse){i, reds->stage}, name);
        print_line(s, "if (u < left) a%d_1[u] = join_%s(a%d_1[u], %s[base + i + u]);", i, reds->name[r], i, name);
    }
    print_close(s);
}

static void print_elements(CudaSource *s, const CudaReds *reds) {
    print_quad_open(s, reds->phase);
    for (int r = 0; r < reds->n; r++) {
        char acc[32];
        snprintf(acc, sizeof acc, "a%d_1[u]", reds->inst[r]);
        print_step(s, reds, r, "if (u < left) ", acc, s->mapping->n_s_groups ? "s * n_l + i + u" : "i + u");
    }
    print_quad_close(s);
}

static void print_chunk(CudaSource *s, const CudaReds *reds, const char *from, const char *to) {
    print_lanes(s, reds, 1);
    print_unroll(s, s->part->unroll);
    print_open(s, "for (int64_t i = %s + %d * t; i < %s; i += %d) {", from, CUDA_QUAD, to, LANES_L);
    print_line(s, "const int left = quad_of(%s - i);", to);
    if (reds->listed)
        print_listed(s, reds);
    else
        print_elements(s, reds);
    print_close(s);
    print_trees(s, reds, 1);
}

/* The elements from..to-1, which are one of this level. */
static void print_level(CudaSource *s, const CudaReds *reds, int level, const char *from, const char *to) {
    char chunk[16], end[16];
    if (level == 1) {
        print_chunk(s, reds, from, to);
        return;
    }
    snprintf(chunk, sizeof chunk, "c%d", level - 1);
    snprintf(end, sizeof end, "e%d", level - 1);
    print_lanes(s, reds, level);
    print_unroll(s, 1);
    print_open(s, "for (int64_t %s = %s; %s < %s; %s += (int64_t)1 << %d) {", chunk, from, chunk, to, chunk,
               CHUNK_L_BITS * (level - 1));
    print_line(s, "const int64_t %s = least_of(%s + ((int64_t)1 << %d), %s);", end, chunk, CHUNK_L_BITS * (level - 1),
               to);
    print_level(s, reds, level - 1, chunk, end);
    print_lane_of_chunk(s, reds, level);
    print_close(s);
    print_trees(s, reds, level);
}

static void print_order_l(CudaSource *s, const CudaReds *reds) {
    for (int r = 0; r < reds->n; r++)
        for (int level = 1; level <= reds->l_levels; level++)
            print_line(s, "red_%s x%d_%d = start_%s();", reds->name[r], reds->inst[r], level, reds->name[r]);
    print_level(s, reds, reds->l_levels, "(int64_t)0", reds->count);
}

/* order S --------------------------------------------------------------------------------------- */

static void print_sums(CudaSource *s, const CudaReds *reds) {
    for (int r = 0; r < reds->n; r++)
        for (int level = 0; level < reds->s_levels; level++)
            print_line(s, "red_%s q%d_%d = start_%s();", reds->name[r], reds->inst[r], level, reds->name[r]);
}

/* After element s of S: full sums go up, unless they are the last. */
static void print_carry(CudaSource *s, const CudaReds *reds) {
    if (reds->s_levels == 1) return;
    for (int level = 1; level < reds->s_levels; level++) {
        const int64_t mask = order_S_elements(level) - 1;
        print_open(s, "if ((s & %lld) == %lld%s) {", (long long)mask, (long long)mask,
                   level == 1 ? " && s + 1 < n_s" : "");
        for (int r = 0; r < reds->n; r++)
            print_line(s, "q%d_%d = join_%s(q%d_%d, q%d_%d), q%d_%d = start_%s();", reds->inst[r], level, reds->name[r],
                       reds->inst[r], level, reds->inst[r], level - 1, reds->inst[r], level - 1, reds->name[r]);
    }
    for (int level = 1; level < reds->s_levels; level++) print_close(s);
}

static void print_sums_end(CudaSource *s, const CudaReds *reds) {
    for (int r = 0; r < reds->n; r++)
        for (int level = 1; level < reds->s_levels; level++)
            print_line(s, "if (n_s > %lld) q%d_0 = join_%s(q%d_%d, q%d_0);", (long long)order_S_elements(level),
                       reds->inst[r], reds->name[r], reds->inst[r], level, reds->inst[r]);
}

/* An element of S: of columns a value, of rows the result of L. */
static void print_s_step(CudaSource *s, const CudaReds *reds) {
    for (int r = 0; r < reds->n; r++) {
        const int i = reds->inst[r];
        char acc[32];
        snprintf(acc, sizeof acc, "q%d_0", i);
        if (s->mapping->mode == CUDA_rows)
            print_line(s, "q%d_0 = n_s > 1 ? join_%s(q%d_0, x%d_%d) : x%d_%d;", i, reds->name[r], i, i, reds->l_levels,
                       i, reds->l_levels);
        else
            print_step(s, reds, r, "", acc, "s");
    }
    print_carry(s, reds);
}

/* "q3_0", "x3_1": where a reduction's result is when it is done. */
static void result_text(const CudaReds *reds, int r, bool of_s, char expr[32]) {
    if (of_s)
        snprintf(expr, 32, "q%d_0", reds->inst[r]);
    else
        snprintf(expr, 32, "x%d_%d", reds->inst[r], reds->l_levels);
}

static void print_results(CudaSource *s, const CudaReds *reds, bool of_s) {
    for (int r = 0; r < reds->n; r++) {
        const int i = reds->inst[r];
        char value[32];
        result_text(reds, r, of_s, value);
        print_line(s, "const %s v%d = result_%s(%s);", type_text((SType)s->nest->insts[i].type), i, reds->name[r],
                   value);
        s->done[i] = true;
    }
}

void print_reductions(CudaSource *s, const Phase *phase) {
    CudaReds reds;
    find_reds(s, phase, &reds);
    print_needed(s, phase, LOOP_outer);
    if (s->mapping->n_s_groups) print_sums(s, &reds);
    print_s_open(s);
    print_needed(s, phase, LOOP_s);
    if (s->mapping->mode == CUDA_rows) print_order_l(s, &reds);
    if (s->mapping->n_s_groups) print_s_step(s, &reds);
    print_s_close(s);
    if (s->mapping->n_s_groups) print_sums_end(s, &reds);
    print_results(s, &reds, s->mapping->n_s_groups > 0);
}

/* parts of a reduction ---------------------------------------------------------------------------- */

/* What a task has found goes to its place in the stage's workspaces. */
static void print_left(CudaSource *s, const CudaReds *reds, bool of_s, CudaStage stage) {
    for (int r = 0; r < reds->n; r++) {
        char value[32], name[32];
        result_text(reds, r, of_s, value);
        workspace_name(&(WorkspaceUse){reds->inst[r], stage}, name);
        print_line(s, "%s%s[me] = %s;", once_condition(s), name, value);
    }
}

static void print_whole(CudaSource *s, const CudaReds *reds, bool of_s) {
    print_results(s, reds, of_s);
    for (int r = 0; r < reds->n; r++) {
        char name[32];
        workspace_name(&(WorkspaceUse){reds->inst[r], CUDA_results}, name);
        print_line(s, "%s%s[row] = v%d;", once_condition(s), name, reds->inst[r]);
    }
}

void print_chunk_of_l(CudaSource *s, const Phase *phase) {
    CudaReds reds;
    find_reds(s, phase, &reds);
    reds.l_levels = 1;
    for (int r = 0; r < reds.n; r++)
        print_line(s, "red_%s x%d_1 = start_%s();", reds.name[r], reds.inst[r], reds.name[r]);
    print_needed(s, phase, LOOP_s);
    print_chunk(s, &reds, "from", "to");
    print_left(s, &reds, false, CUDA_of_chunks);
}

void print_chunk_of_s(CudaSource *s, const Phase *phase) {
    CudaReds reds;
    find_reds(s, phase, &reds);
    reds.s_levels = 1;
    print_needed(s, phase, LOOP_outer);
    print_sums(s, &reds);
    print_unroll(s, s->part->unroll);
    print_open(s, "for (int64_t s = from; s < to; s++) {");
    print_indices(s, s->mapping->n_outer_groups, s->mapping->n_groups, "s");
    print_needed(s, phase, LOOP_s);
    for (int r = 0; r < reds.n; r++) {
        char acc[32];
        snprintf(acc, sizeof acc, "q%d_0", reds.inst[r]);
        print_step(s, &reds, r, "", acc, "s");
    }
    print_close(s);
    print_left(s, &reds, true, CUDA_of_chunks);
}

static int64_t chunks_at_most(int64_t n, int64_t each) { return n < 0 ? -1 : ceil_div(n, each); }

/* A list of one stands as it is. */
static void print_single(CudaSource *s, const CudaReds *reds, bool of_s) {
    for (int r = 0; r < reds->n; r++) {
        char value[32], name[32];
        result_text(reds, r, of_s, value);
        workspace_name(&(WorkspaceUse){reds->inst[r], reds->stage}, name);
        print_line(s, "if (%s == 1) %s = %s[base];", reds->count, value, name);
    }
}

void print_join_l(CudaSource *s, const Phase *phase) {
    CudaReds reds;
    const int l = s->mapping->n_outer_groups + s->mapping->n_s_groups;
    find_reds(s, phase, &reds);
    reds.l_levels = order_levels(chunks_at_most(total_of_groups(s->mapping, l, s->mapping->n_groups), CHUNK_L),
                                 CHUNK_L_BITS, MOST_L_LEVELS - 1);
    reds.listed = true, reds.stage = CUDA_of_chunks, reds.count = "n_list";
    print_order_l(s, &reds);
    print_single(s, &reds, false);
    if (cuda_part_has_results(s->part, s->nest))
        print_whole(s, &reds, false);
    else
        print_left(s, &reds, false, CUDA_of_l);
}

void print_join_s(CudaSource *s, const Phase *phase) {
    CudaReds reds;
    const bool rows = s->mapping->mode == CUDA_rows;
    const int64_t n =
        total_of_groups(s->mapping, s->mapping->n_outer_groups, s->mapping->n_outer_groups + s->mapping->n_s_groups);
    find_reds(s, phase, &reds);
    reds.s_levels = order_levels(rows ? n : chunks_at_most(n, CHUNK_S), CHUNK_S_BITS, S_LEVELS);
    reds.stage = rows ? CUDA_of_l : CUDA_of_chunks, reds.count = "n_s";
    print_sums(s, &reds);
    print_unroll(s, s->part->unroll);
    print_open(s, "for (int64_t s = 0; s < n_s; s++) {");
    for (int r = 0; r < reds.n; r++) {
        char name[32];
        const int i = reds.inst[r];
        workspace_name(&(WorkspaceUse){i, reds.stage}, name);
        print_line(s, "q%d_0 = join_%s(q%d_0, %s[base + s * step]);", i, reds.name[r], i, name);
    }
    print_carry(s, &reds);
    print_close(s);
    print_sums_end(s, &reds);
    print_single(s, &reds, true);
    print_whole(s, &reds, true);
}
