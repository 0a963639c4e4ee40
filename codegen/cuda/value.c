/* value.c: instructions as text. What a value needs of outer loop levels is in scope before it (print_needed); of the
 * four elements of a quad, loads came at once (phase.c), the rest is computed for each. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "codegen/cuda/source.h"

/* ints ------------------------------------------------------------------------------------------ */

static size_t add_expr(CExpr *expr, size_t at, const char *format, ...) PRINTF_LIKE(3, 4);
static size_t add_expr(CExpr *expr, size_t at, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(expr->at + at, sizeof expr->at - at, format, list);
    va_end(list);
    return at + (size_t)n;
}

const char *expr_int(CExpr *expr, int64_t value) {
    if (sym_is(value))
        add_expr(expr, 0, "p%d", sym_id(value));
    else
        add_expr(expr, 0, "%" PRId64 "%s", value, value == (int32_t)value ? "" : "LL");
    return expr->at;
}

/* An index variable: of the quad group the first of four, or this one of them. */
static const char *expr_index(CExpr *expr, const CudaSource *s, int group) {
    if (group != cuda_mapping_quad_group(s->mapping))
        add_expr(expr, 0, "d%d", group);
    else
        add_expr(expr, 0, "%s", s->in_quad ? "(i + u)" : "i");
    return expr->at;
}

const char *expr_affine(CExpr *expr, const CudaSource *s, const Affine *at) {
    CExpr part;
    size_t n = 0;
    if (at->offset) n = add_expr(expr, n, "%s", expr_int(&part, at->offset));
    for (int g = 0; g < s->mapping->n_groups; g++) {
        const int64_t coefficient = at->coef[s->mapping->group[g].coef];
        if (!coefficient) continue;
        n = add_expr(expr, n, "%s", n ? " + " : "");
        if (coefficient != 1) n = add_expr(expr, n, "%s * ", expr_int(&part, coefficient));
        n = add_expr(expr, n, "%s", expr_index(&part, s, g));
    }
    if (!n) add_expr(expr, n, "0");
    return expr->at;
}

const char *expr_extent(CExpr *expr, const CudaSource *s, int first, int last) {
    CExpr part;
    size_t n = 0;
    for (int g = first; g < last; g++) {
        const DimGroup *const group = &s->mapping->group[g];
        for (int d = group->first; d < group->first + group->n; d++) {
            if (s->nest->extent[d] == 1) continue;
            const bool wide = n || sym_is(s->nest->extent[d]);
            n = add_expr(expr, n, "%s%s%s", n ? " * " : "", wide ? "" : "(int64_t)",
                         expr_int(&part, s->nest->extent[d]));
        }
    }
    if (!n) add_expr(expr, n, "(int64_t)1");
    return expr->at;
}

/* loop levels ----------------------------------------------------------------------------------- */

static LoopLevel inner_level(LoopLevel a, LoopLevel b) { return a > b ? a : b; }

static LoopLevel loop_level_of_group(const CudaNestMapping *mapping, int g) {
    if (g < mapping->n_outer_groups)
        return mapping->mode == CUDA_map && g == mapping->n_outer_groups - 1 ? LOOP_quad : LOOP_outer;
    return g < mapping->n_outer_groups + mapping->n_s_groups ? LOOP_s : LOOP_quad;
}

static LoopLevel loop_level_of_affine(const CudaNestMapping *mapping, const Affine *at) {
    LoopLevel loop_level = LOOP_outer;
    for (int g = 0; at && g < mapping->n_groups; g++)
        if (at->coef[mapping->group[g].coef]) loop_level = inner_level(loop_level, loop_level_of_group(mapping, g));
    return loop_level;
}

void loop_levels_find(CudaSource *s) {
    for (int i = 0; i < s->nest->n_insts; i++) {
        const Inst *const inst = &s->nest->insts[i];
        const int operand[3] = {inst->a, inst->b, inst->c};
        LoopLevel loop_level = loop_level_of_affine(s->mapping, inst->at);
        for (int k = 0; k < 3; k++)
            if (operand[k] >= 0 && inst->op != LI_reduce)
                loop_level = inner_level(loop_level, s->loop_level[operand[k]]);
        s->loop_level[i] = loop_level;
    }
}

void forget(CudaSource *s, LoopLevel from) {
    for (int i = 0; i < s->nest->n_insts; i++)
        if (s->loop_level[i] >= from) s->done[i] = false;
}

/* instructions ---------------------------------------------------------------------------------- */

static void print_float(Text *text, SType type, double value) {
    if (type == S_f32 && isfinite(value)) {
        text_printf(text, "%af", (double)(float)value);
    } else if (isfinite(value)) {
        text_printf(text, "%a", value);
    } else if (type == S_f32) {
        const float narrow = (float)value;
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        text_printf(text, "float_of((int32_t)0x%08" PRIx32 "u)", bits);
    } else {
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        text_printf(text, "double_of((int64_t)0x%016" PRIx64 "ull)", bits);
    }
}

static void print_const(CudaSource *s, const Inst *inst) {
    const SType type = (SType)inst->type;
    if (type == S_f32 && isfinite(inst->f) && !isfinite((float)inst->f))
        print_float(s->text, type, (double)(float)inst->f);
    else if (type == S_f32 || type == S_f64)
        print_float(s->text, type, inst->f);
    else if (type == S_b)
        text_printf(s->text, "%d", inst->i != 0);
    else if (inst->i == INT64_MIN)
        text_puts(s->text, "INT64_MIN");
    else
        text_printf(s->text, "(%s)%" PRId64 "LL", type_text(type), inst->i);
}

static void print_prim(CudaSource *s, const Inst *inst) {
    const int typed = inst->prim == PRIM_select ? inst->b : inst->a;
    text_printf(s->text, "vec_%s_%s(v%d", prim_name((Prim)inst->prim), stype_name((SType)s->nest->insts[typed].type),
                inst->a);
    if (inst->b >= 0) text_printf(s->text, ", v%d", inst->b);
    if (inst->c >= 0) text_printf(s->text, ", v%d", inst->c);
    text_puts(s->text, ")");
}

static const char *dtype_at(const CudaSource *s, const Inst *inst) { return dtype_name(s->bufs[inst->buf].dtype); }

static void print_load(CudaSource *s, const Inst *inst, int i) {
    CExpr expr;
    if (s->in_quad && cuda_mapping_quad_group(s->mapping) >= 0)
        text_printf(s->text, "of_%s(l%d.at[u])", dtype_at(s, inst), i);
    else
        text_printf(s->text, "get_%s(b%d, %s)", dtype_at(s, inst), s->buf_number[inst->buf],
                    expr_affine(&expr, s, inst->at));
}

/* The index as it is used, or -1: it is out of bounds, or the element does not exist. */
static void print_index(CudaSource *s, const Inst *inst, int i) {
    CExpr bound;
    print_line(s, "const int64_t x%d = %schecked(v%d, %s, %s, %s, launch, %s%d, failed)%s;", i,
               s->in_quad ? "u < left ? " : "", inst->a, expr_int(&bound, inst->bound),
               inst->wrap_negative ? "true" : "false", live_condition(s), s->alone ? "" : "(int)check + ", i,
               s->in_quad ? " : -1" : "");
}

static void print_gather(CudaSource *s, const Inst *inst, int i) {
    CExpr expr, scale;
    text_printf(s->text, "x%d < 0 ? (%s)0 : get_%s(b%d, %s + %s * x%d)", i, type_text((SType)inst->type),
                dtype_at(s, inst), s->buf_number[inst->buf], expr_affine(&expr, s, inst->at),
                expr_int(&scale, inst->scale), i);
}

static void print_expression(CudaSource *s, const Inst *inst, int i) {
    CExpr expr;
    switch ((LoopOp)inst->op) {
    case LI_const:
        print_const(s, inst);
        break;
    case LI_param:
        text_printf(s->text, inst->type == S_f64 ? "double_of(p%d)" : "p%d", inst->param);
        break;
    case LI_index:
        text_puts(s->text, expr_affine(&expr, s, inst->at));
        break;
    case LI_load:
        print_load(s, inst, i);
        break;
    case LI_gather:
        print_gather(s, inst, i);
        break;
    case LI_cast:
        if (s->nest->insts[inst->a].type == inst->type)
            text_printf(s->text, "v%d", inst->a);
        else
            text_printf(s->text, "cast_%s_%s(v%d)", stype_name((SType)s->nest->insts[inst->a].type),
                        stype_name((SType)inst->type), inst->a);
        break;
    case LI_prim:
        print_prim(s, inst);
        break;
    case LI_reduce:
    case LI_store:
        break;
    }
}

/* Operands have been put. */
static void print_one(CudaSource *s, int i) {
    const Inst *const inst = &s->nest->insts[i];
    s->done[i] = true;
    if (inst->op == LI_gather) print_index(s, inst, i);
    text_printf(s->text, "%*sconst %s v%d = ", 4 * s->indent, "", type_text((SType)inst->type), i);
    print_expression(s, inst, i);
    text_puts(s->text, ";\n");
}

/* The result of a reduction that another part has made. */
static void print_result(CudaSource *s, int i) {
    char name[32];
    workspace_name(&(WorkspaceUse){i, CUDA_results}, name);
    s->done[i] = true;
    print_line(s, "const %s v%d = %s[row];", type_text((SType)s->nest->insts[i].type), i, name);
}

void print_value(CudaSource *s, int i, LoopLevel loop_level) {
    if (i < 0 || s->done[i] || s->visited_by[i] == s->traversal) return;
    const Inst *const inst = &s->nest->insts[i];
    s->visited_by[i] = s->traversal;
    if (inst->op == LI_reduce) {
        if (s->part->task != CUDA_whole) print_result(s, i);
        return;
    }
    print_value(s, inst->a, loop_level), print_value(s, inst->b, loop_level), print_value(s, inst->c, loop_level);
    if (s->loop_level[i] <= loop_level && inst->op != LI_store) print_one(s, i);
}

void print_indices(CudaSource *s, int first, int last, const char *from) {
    CExpr expr;
    if (first == last) return;
    if (last - first > 1) print_line(s, "int64_t w%d = %s;", first, from);
    for (int g = last - 1; g > first; g--) {
        print_line(s, "const int64_t n%d = %s, d%d = remainder_of(&w%d, n%d);", g, expr_extent(&expr, s, g, g + 1), g,
                   first, g);
    }
    if (last - first > 1)
        print_line(s, "const int64_t d%d = w%d;", first, first);
    else
        print_line(s, "const int64_t d%d = %s;", first, from);
}
