/* cpu_code.c: see cpu_code.h. */
#include "runtime/cpu/cpu_code.h"

#include "runtime/base/alloc.h"
#include "runtime/device/launch.h"

static Status code_for(const Kernel *kernel, const Nest *nest, const NativeCode *native, void *context,
                       NestCode *code) {
    code->native = native ? native->take(context, nest) : NULL;
    if (code->native) return ST_OK;
    BlockProgram *program;
    TRY(block_compile(nest, kernel->bufs, &program));
    code->program = program;
    return ST_OK;
}

static Status make_step(const Kernel *kernel, const NativeCode *native, void *context, void **out) {
    const size_t n = (size_t)kernel->n_nests;
    CpuStep *const code = *out = mem_zero(sizeof *code + n * sizeof *code->nests);
    if (!code) return ST_MEMORY;
    code->give = native ? native->give : NULL;
    code->n_nests = kernel->n_nests;
    for (int k = 0; k < kernel->n_nests; k++)
        TRY(code_for(kernel, &kernel->nests[k], native, context, &code->nests[k]));
    return ST_OK;
}

Status cpu_make_code(const DeviceRow *row, Executable *e, const NativeCode *native, void *context) {
    for (int s = 0; s < e->plan->steps.n; s++) {
        const Step *const step = &e->plan->steps.at[s];
        if (step->kind == STEP_kernel && e->rows[s] == row) TRY(make_step(step->kernel, native, context, &e->codes[s]));
    }
    return ST_OK;
}

void cpu_drop_code(void *step) {
    CpuStep *const code = step;
    for (int k = 0; k < code->n_nests; k++) {
        mem_free((void *)(uintptr_t)code->nests[k].program);
        if (code->nests[k].native) code->give(code->nests[k].native);
    }
    mem_free(code);
}

size_t cpu_code_bytes(const void *step) {
    const CpuStep *const code = step;
    size_t bytes = sizeof *code + (size_t)code->n_nests * sizeof *code->nests;
    for (int k = 0; k < code->n_nests; k++)
        bytes += code->nests[k].program ? block_program_bytes(code->nests[k].program) : 0;
    return bytes;
}
