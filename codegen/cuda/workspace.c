/* workspace.c: where the results of tasks lie: a piece of workspace for each reduction and stage. */
#include <stdio.h>

#include "codegen/cuda/source.h"

static bool is_position(const Inst *inst) { return inst->prim == RED_argmax || inst->prim == RED_argmin; }

void workspace_name(const WorkspaceUse *use, char name[32]) {
    static const char *const args[] = {"chunks", "sums", "whole"};
    snprintf(name, 32, "%s%d", args[use->stage], use->inst);
}

int workspace_element_bytes(const Nest *nest, const WorkspaceUse *use) {
    const Inst *const inst = &nest->insts[use->inst];
    if (use->stage == CUDA_results) return (int)stype_bytes((SType)inst->type);
    return is_position(inst) ? 16 : (int)stype_bytes((SType)nest->insts[inst->a].type);
}

void workspace_type(const Nest *nest, const WorkspaceUse *use, char type[32]) {
    const Inst *const inst = &nest->insts[use->inst];
    if (use->stage == CUDA_results)
        snprintf(type, 32, "%s", type_text((SType)inst->type));
    else
        snprintf(type, 32, "red_%s_%s", red_name((RedKind)inst->prim), stype_name((SType)nest->insts[inst->a].type));
}

static void use_phase(const Nest *nest, int phase, CudaStage stage, WorkspaceUse *out, int *n) {
    const Phase *const of = &nest->phases[phase];
    for (int i = of->first; i < of->first + of->n; i++)
        if (nest->insts[i].op == LI_reduce) out[(*n)++] = (WorkspaceUse){i, stage};
}

int workspace_uses(const Nest *nest, const CudaPart *part, WorkspaceUse *out) {
    int n = 0;
    const bool rows = part->mapping.mode == CUDA_rows;
    for (int p = 0; p < part->phase; p++) use_phase(nest, p, CUDA_results, out, &n);
    if (part->task == CUDA_chunks || part->task == CUDA_join_l || (part->task == CUDA_join_s && !rows))
        use_phase(nest, part->phase, CUDA_of_chunks, out, &n);
    if (rows && (part->task == CUDA_join_s || (part->task == CUDA_join_l && !cuda_part_has_results(part, nest))))
        use_phase(nest, part->phase, CUDA_of_l, out, &n);
    if (cuda_part_has_results(part, nest)) use_phase(nest, part->phase, CUDA_results, out, &n);
    return n;
}
