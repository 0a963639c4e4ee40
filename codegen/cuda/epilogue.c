/* epilogue.c: the nest of a template (its hole) as a kernel like any other: the tile that it goes over is the whole
 * result, which the template leaves in workspace. */
#include "codegen/cuda/cuda.h"

/* The nest reads the tile by its last two dims, a row of `ld` elements each: here row-major [b, m, n], where a batch's
 * distance is a parameter that this device adds. */
static void place_tile(const Kernel *kernel, Nest *nest) {
    const TemplateUse *const use = kernel->template;
    const int rows = nest->n_outer - 2, last = template_size(use->row, use->row->hole[strlen(use->row->hole) - 1]);
    for (int i = 0; i < nest->n_insts; i++) {
        Inst *const inst = &nest->insts[i];
        if (inst->op != LI_load || inst->buf != use->tile) continue;
        inst->at->coef[rows] = use->size[last];
        if (rows) inst->at->coef[0] = sym_make(kernel->n_params);
    }
}

static Nest *copy_nest(Arena *arena, const Nest *from) {
    Nest *const nest = arena_copy(arena, from, sizeof *from);
    if (!nest) return NULL;
    nest->insts = arena_copy(arena, from->insts, (size_t)from->n_insts * sizeof *from->insts);
    for (int i = 0; nest->insts && i < nest->n_insts; i++)
        if (nest->insts[i].at && !(nest->insts[i].at = arena_copy(arena, nest->insts[i].at, sizeof(Affine))))
            return NULL;
    return nest->insts ? nest : NULL;
}

static int64_t *longer(Arena *arena, const int64_t *from, int n) {
    int64_t *const list = from ? ARENA_ARRAY(arena, int64_t, n + 1) : NULL;
    if (list) memcpy(list, from, (size_t)n * sizeof *list);
    return list;
}

/* addmm's alpha and beta are for what is not rounded yet. */
bool cuda_narrow_tile(const Plan *plan, const Kernel *kernel) {
    const Nest *const nest = &kernel->nests[0];
    int i = 0;
    while (i < nest->n_insts && (nest->insts[i].op != LI_load || nest->insts[i].buf != kernel->template->tile)) i++;
    const PlanOp *const op = i < nest->n_insts ? plan_op(plan, nest->insts[i].source) : NULL;
    return op && op_is_product(op->row) && op->row->product.self < 0;
}

static bool narrow_tile(Arena *arena, Kernel *kernel) {
    Buf *const bufs = arena_copy(arena, kernel->bufs, (size_t)kernel->n_bufs * sizeof *bufs);
    if (bufs) bufs[kernel->template->tile].dtype = kernel->template->dtype;
    kernel->bufs = bufs;
    return bufs != NULL;
}

const Kernel *cuda_epilogue(Arena *arena, const Plan *plan, const Kernel *kernel) {
    Kernel *const copy = arena_copy(arena, kernel, sizeof *kernel);
    Nest *const nest = copy ? copy_nest(arena, &kernel->nests[0]) : NULL;
    bool *const is_float = ARENA_ARRAY(arena, bool, kernel->n_params + 1);
    if (!nest || !is_float) return NULL;
    if (kernel->param_is_float) memcpy(is_float, kernel->param_is_float, (size_t)kernel->n_params * sizeof *is_float);
    place_tile(kernel, nest);
    copy->nests = nest;
    if (cuda_narrow_tile(plan, kernel) && !narrow_tile(arena, copy)) return NULL;
    copy->params = longer(arena, kernel->params, kernel->n_params);
    copy->param_is_float = is_float;
    copy->n_params++;
    return copy;
}
