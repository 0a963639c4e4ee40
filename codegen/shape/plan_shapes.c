/* plan_shapes.c: see plan_shapes.h. The stage's text holds the kernels, too: a shape means nothing without its nest,
 * and an edited one is checked against it.
 *
 *   machine v4: lanes 16, near 16384, ahead 262144, keep 65536, stream 16777216, fma
 *   kernel k0_add(...) {
 *     nest k0_add_n0 ...
 *   }
 *   shape k0_add_n0 {...}
 *
 * A kernel without nests, a product that stores its tile, has no shape. */
#include "codegen/shape/plan_shapes.h"

Status plan_shape(Plan *plan, const Machine *machine) {
    for (int i = 0; i < plan->steps.n; i++) {
        Step *const step = &plan->steps.at[i];
        const Kernel *const kernel = step->kernel;
        if (step->kind != STEP_kernel || !kernel->n_nests) continue;
        step->shapes = ARENA_ARRAY(plan->arena, const NestMapping *, kernel->n_nests);
        if (!step->shapes) return ST_MEMORY;
        for (int k = 0; k < kernel->n_nests; k++)
            if (!(step->shapes[k] = shape_decide(plan->arena, &kernel->nests[k], kernel->bufs, machine)))
                return ST_MEMORY;
    }
    plan->machine = machine;
    return ST_OK;
}

const NestMapping *plan_shape_of(const Plan *plan, const Step *step, int nest, const Machine *machine, Arena *arena) {
    if (plan->machine == machine) return step->shapes[nest];
    return shape_decide(arena, &step->kernel->nests[nest], step->kernel->bufs, machine);
}

void shapes_print(const Plan *plan, const Machine *machine, Text *text) {
    Arena *const arena = arena_new();
    for (int i = 0; arena && i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        if (step->kind != STEP_kernel) continue;
        kernel_print(step->kernel, text);
        for (int k = 0; k < step->kernel->n_nests; k++) {
            const NestMapping *const shape = plan_shape_of(plan, step, k, machine, arena);
            if (shape) shape_print(shape, &step->kernel->nests[k], text);
        }
    }
    arena_free(arena);
}

NestMapping **shapes_decide(Arena *arena, const Kernel *kernel, const Machine *machine) {
    NestMapping **const shapes = ARENA_ARRAY(arena, NestMapping *, kernel->n_nests + 1);
    for (int k = 0; shapes && k < kernel->n_nests; k++)
        if (!(shapes[k] = shape_decide(arena, &kernel->nests[k], kernel->bufs, machine))) return NULL;
    return shapes;
}

Status shapes_parse(Arena *arena, TextReader *in, const Kernel *kernel, const Machine *machine, NestMapping ***out) {
    NestMapping **const shapes = ARENA_ARRAY(arena, NestMapping *, kernel->n_nests + 1);
    if (!shapes) return ST_MEMORY;
    for (int k = 0; k < kernel->n_nests; k++) {
        TRY(shape_parse(arena, in, &kernel->nests[k], &shapes[k]));
        TRY(shape_verify(shapes[k], &kernel->nests[k], kernel->bufs, machine));
    }
    *out = shapes;
    return ST_OK;
}
