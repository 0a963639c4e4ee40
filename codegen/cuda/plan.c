/* plan.c: a plan's kernels as nests for a program, and their text for people. */
#include "codegen/cuda/cuda.h"
#include "runtime/base/error.h"

bool cuda_stores_input(const Plan *plan, const Step *step, int buf) {
    return buf >= 0 && step->bufs[buf] >= 0 && plan->slots.at[step->bufs[buf]].kind == SLOT_input;
}

static bool writes_input(const Plan *plan, const Step *step, const Nest *nest) {
    for (int i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].op == LI_store && cuda_stores_input(plan, step, nest->insts[i].buf)) return true;
    return false;
}

/* Symbols by their hints; floats have none. */
static const int64_t *hints_of(Arena *arena, const Plan *plan, const Kernel *kernel, int n_params) {
    int64_t *const hint = ARENA_ARRAY(arena, int64_t, n_params + 1);
    for (int p = 0; hint && p < n_params; p++)
        if (!kernel->param_is_float || !kernel->param_is_float[p]) hint[p] = sym_hint(plan->env, kernel->params[p]);
    return hint;
}

Status cuda_plan_kernel(Arena *arena, const Plan *plan, const Step *step, const Machine *machine, CudaKernel *out) {
    const Kernel *const given = step->kernel;
    const Kernel *const kernel = given->template && given->n_nests ? cuda_epilogue(arena, plan, given) : given;
    bool *const visible = ARENA_ARRAY(arena, bool, given->n_nests + 1);
    if (!kernel || !visible) return ST_MEMORY;
    for (int k = 0; k < kernel->n_nests; k++) visible[k] = writes_input(plan, step, &kernel->nests[k]);
    *out = (CudaKernel){kernel, visible, hints_of(arena, plan, kernel, given->n_params)};
    if (!out->hint) return ST_MEMORY;
    const char *const why = cuda_refusal(out);
    if (why) return error_raise(ST_UNSUPPORTED, "%s: %s", kernel->name, why);
    out->mapping = cuda_mapping_decide(arena, out, machine);
    return out->mapping ? ST_OK : ST_MEMORY;
}

static Status print_all(Arena *arena, const Plan *plan, const Machine *machine, Text *text) {
    CudaKernel *const kernels = ARENA_ARRAY(arena, CudaKernel, plan->steps.n + 1);
    CudaText *const code = ARENA_ARRAY(arena, CudaText, plan->steps.n + 1);
    int n = 0;
    if (!kernels || !code) return ST_MEMORY;
    for (int s = 0; s < plan->steps.n; s++) {
        const Step *const step = &plan->steps.at[s];
        if (step->kind == STEP_kernel && step->kernel->n_nests)
            TRY(cuda_plan_kernel(arena, plan, step, machine, &kernels[n++]));
    }
    if (!n) text_puts(text, "// no kernel of it is made of loops\n");
    return cuda_print(arena, kernels, n, code, text);
}

void cuda_dump(const Plan *plan, const Machine *machine, Text *text) {
    Arena *const arena = arena_new();
    if (arena && print_all(arena, plan, machine, text) != ST_OK) {
        text_printf(text, "// no code: %s\n", error_slot()->message);
        error_clear();
    }
    arena_free(arena);
}
