/* phase.c: loops over elements and the phases in them. */
#include "codegen/cuda/source.h"

static bool is_root_of(const Inst *inst, const Phase *phase) {
    return inst->op == (phase->kind == PHASE_reduce ? LI_reduce : LI_store);
}

void print_needed(CudaSource *s, const Phase *phase, LoopLevel loop_level) {
    s->traversal++;
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *const inst = &s->nest->insts[i];
        if (!is_root_of(inst, phase)) continue;
        print_value(s, inst->a, loop_level), print_value(s, inst->b, loop_level);
    }
}

/* quads ----------------------------------------------------------------------------------------- */

static int64_t quad_stride(const CudaSource *s, const Inst *inst) {
    return inst->at->coef[s->mapping->group[cuda_mapping_quad_group(s->mapping)].coef];
}

/* The loads that `i` needs of a quad, each of four elements. */
static void print_quad_loads(CudaSource *s, int i) {
    if (i < 0 || s->done[i] || s->visited_by[i] == s->traversal || s->loop_level[i] != LOOP_quad) return;
    const Inst *const inst = &s->nest->insts[i];
    s->visited_by[i] = s->traversal;
    if (inst->op == LI_reduce) return;
    print_quad_loads(s, inst->a), print_quad_loads(s, inst->b), print_quad_loads(s, inst->c);
    if (inst->op != LI_load) return;
    CExpr expr, stride;
    s->loaded[i] = true;
    print_line(s, "const Four<memory_%s> l%d = load_four(b%d + (%s), %s, left);", dtype_name(s->bufs[inst->buf].dtype),
               i, s->buf_number[inst->buf], expr_affine(&expr, s, inst->at), expr_int(&stride, quad_stride(s, inst)));
}

void print_quad_open(CudaSource *s, const Phase *phase) {
    memset(s->loaded, 0, (size_t)s->nest->n_insts * sizeof *s->loaded);
    s->traversal++;
    for (int i = phase->first; i < phase->first + phase->n && cuda_mapping_quad_group(s->mapping) >= 0; i++) {
        const Inst *const inst = &s->nest->insts[i];
        if (is_root_of(inst, phase)) print_quad_loads(s, inst->a), print_quad_loads(s, inst->b);
    }
    print_line(s, "#pragma unroll");
    print_open(s, "for (int u = 0; u < %d; u++) {", CUDA_QUAD);
    s->in_quad = true;
    const int l = s->mapping->n_outer_groups + s->mapping->n_s_groups;
    if (cuda_mapping_quad_group(s->mapping) < 0) print_indices(s, l, s->mapping->n_groups, "u < left ? i + u : 0");
    print_needed(s, phase, LOOP_quad);
}

void print_quad_close(CudaSource *s) {
    print_close(s);
    s->in_quad = false;
    forget(s, LOOP_quad);
}

/* maps ------------------------------------------------------------------------------------------ */

static void print_store(CudaSource *s, int i, const char *condition) {
    const Inst *const inst = &s->nest->insts[i];
    CExpr expr;
    print_line(s, "%sput_%s(b%d, %s, v%d);", condition, dtype_name(s->bufs[inst->buf].dtype), s->buf_number[inst->buf],
               expr_affine(&expr, s, inst->at), inst->a);
}

/* What one thread of a row writes in place the others read as well: all of them before it does. */
static void print_meeting(CudaSource *s, const Phase *phase, LoopLevel loop_level) {
    if (s->mapping->mode != CUDA_rows || s->part->task != CUDA_whole) return;
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *const inst = &s->nest->insts[i];
        if (inst->op != LI_store || s->loop_level[i] > loop_level || !nest_loads_from(s->nest, inst->buf)) continue;
        print_line(s, "__syncwarp();");
        return;
    }
}

/* Stores of elements that do not differ along the quad group are one thread's. */
static void print_stores(CudaSource *s, const Phase *phase, LoopLevel loop_level, const char *condition) {
    print_meeting(s, phase, loop_level);
    for (int i = phase->first; i < phase->first + phase->n; i++)
        if (s->nest->insts[i].op == LI_store && s->loop_level[i] <= loop_level) print_store(s, i, condition);
}

static bool stores_quads(const CudaSource *s, const Phase *phase) {
    bool some = false;
    for (int i = phase->first; i < phase->first + phase->n; i++)
        some |= s->nest->insts[i].op == LI_store && s->loop_level[i] == LOOP_quad;
    return some;
}

static bool is_quad_store(const CudaSource *s, int i) {
    return s->nest->insts[i].op == LI_store && s->loop_level[i] == LOOP_quad;
}

/* Four results at a time, where they lie along one group; else one by one. */
static void print_quad_stores(CudaSource *s, const Phase *phase, const char *live) {
    const int end = phase->first + phase->n, group = cuda_mapping_quad_group(s->mapping);
    for (int i = phase->first; i < end && group >= 0; i++)
        if (is_quad_store(s, i))
            print_line(s, "Four<memory_%s> r%d;", dtype_name(s->bufs[s->nest->insts[i].buf].dtype), i);
    print_quad_open(s, phase);
    for (int i = phase->first; i < end; i++) {
        const Inst *const inst = &s->nest->insts[i];
        if (!is_quad_store(s, i)) continue;
        if (group >= 0)
            print_line(s, "r%d.at[u] = to_%s(v%d);", i, dtype_name(s->bufs[inst->buf].dtype), inst->a);
        else
            print_store(s, i, s->mapping->mode == CUDA_rows ? "if (live && u < left) " : "if (u < left) ");
    }
    print_quad_close(s);
    for (int i = phase->first; i < end && group >= 0; i++) {
        const Inst *const inst = &s->nest->insts[i];
        CExpr expr, stride;
        if (is_quad_store(s, i))
            print_line(s, "%sstore_four(b%d + (%s), %s, left, r%d);", live, s->buf_number[inst->buf],
                       expr_affine(&expr, s, inst->at), expr_int(&stride, quad_stride(s, inst)), i);
    }
}

/* In the loop over S, if there is one. */
void print_row_stores(CudaSource *s, const Phase *phase, const char *from, const char *to, const char *once) {
    print_stores(s, phase, LOOP_s, once);
    if (!stores_quads(s, phase)) return;
    print_unroll(s, s->part->unroll);
    print_open(s, "for (int64_t i = %s%d * t; i < %s; i += %d) {", from, CUDA_QUAD, to, LANES_L);
    print_line(s, "const int left = quad_of(%s - i);", to);
    print_quad_stores(s, phase, "if (live) ");
    print_close(s);
}

void print_s_open(CudaSource *s) {
    const int first = s->mapping->n_outer_groups;
    if (!s->mapping->n_s_groups) return;
    print_unroll(s, s->mapping->mode == CUDA_columns ? s->part->unroll : 1); /* rows have an inner loop */
    print_open(s, "for (int64_t s = 0; s < n_s; s++) {");
    print_indices(s, first, first + s->mapping->n_s_groups, "s");
}

void print_s_close(CudaSource *s) {
    if (s->mapping->n_s_groups) print_close(s);
    forget(s, LOOP_s);
}

static void print_inner_map(CudaSource *s, const Phase *phase) {
    print_s_open(s);
    print_needed(s, phase, LOOP_s);
    if (s->mapping->mode == CUDA_rows)
        print_row_stores(s, phase, "", "n_l", once_condition(s));
    else
        print_stores(s, phase, LOOP_s, "");
    print_s_close(s);
}

void print_s_stores(CudaSource *s, const Phase *phase) { print_stores(s, phase, LOOP_s, ""); }

void print_once(CudaSource *s, const Phase *phase) {
    print_needed(s, phase, LOOP_outer);
    print_stores(s, phase, LOOP_outer, once_condition(s));
}

void print_map(CudaSource *s, const Phase *phase) {
    print_needed(s, phase, LOOP_outer);
    if (s->mapping->mode == CUDA_map) {
        print_stores(s, phase, LOOP_s, "if (i == 0) ");
        if (stores_quads(s, phase)) print_quad_stores(s, phase, "");
    } else if (phase->over_outer || !s->nest->n_inner) {
        print_stores(s, phase, LOOP_outer, once_condition(s));
    } else {
        print_inner_map(s, phase);
    }
}
