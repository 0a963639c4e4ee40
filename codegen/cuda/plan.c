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

static int nests_of(const Plan *plan, const bool *mine, int s) {
    const Step *const step = &plan->steps.at[s];
    return step->kind == STEP_kernel && (!mine || mine[s]) ? step->kernel->n_nests : 0;
}

static Status add_nests(Arena *arena, const Plan *plan, const Step *step, CudaNest *nests) {
    const Kernel *const kernel = step->kernel->template ? cuda_epilogue(arena, plan, step->kernel) : step->kernel;
    if (!kernel) return ST_MEMORY;
    for (int k = 0; k < kernel->n_nests; k++) {
        const Nest *const nest = &kernel->nests[k];
        nests[k] = (CudaNest){kernel, nest, writes_input(plan, step, nest)};
        const char *const why = cuda_refusal(&nests[k]);
        if (why) return error_raise(ST_UNSUPPORTED, "%s: %s", kernel->name, why);
    }
    return ST_OK;
}

Status cuda_plan_nests(Arena *arena, const Plan *plan, const bool *mine, const CudaNest **out, int *n) {
    *n = 0;
    for (int s = 0; s < plan->steps.n; s++) *n += nests_of(plan, mine, s);
    CudaNest *nests = ARENA_ARRAY(arena, CudaNest, *n + 1);
    *out = nests;
    if (!nests) return ST_MEMORY;
    for (int s = 0; s < plan->steps.n; s++) {
        const int k = nests_of(plan, mine, s);
        if (k) TRY(add_nests(arena, plan, &plan->steps.at[s], nests));
        nests += k;
    }
    return ST_OK;
}

static Status print_all(Arena *arena, const Plan *plan, Text *text) {
    const CudaNest *nests;
    int n;
    TRY(cuda_plan_nests(arena, plan, NULL, &nests, &n));
    CudaFunction *const functions = ARENA_ARRAY(arena, CudaFunction, n + 1);
    if (!functions) return ST_MEMORY;
    if (!n) text_puts(text, "// no kernel of it is made of loops\n");
    return cuda_print(arena, nests, n, functions, text);
}

void cuda_dump(const Plan *plan, Text *text) {
    Arena *const arena = arena_new();
    if (arena && print_all(arena, plan, text) != ST_OK) {
        text_printf(text, "// no code: %s\n", error_slot()->message);
        error_clear();
    }
    arena_free(arena);
}
