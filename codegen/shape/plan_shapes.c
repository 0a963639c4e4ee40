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

#include "runtime/base/error.h"

Status plan_shape(Plan *plan, const Machine *machine) {
    for (int i = 0; i < plan->steps.n; i++) {
        Step *const step = &plan->steps.at[i];
        const Kernel *const kernel = step->kernel;
        if (step->kind != STEP_kernel || !kernel->n_nests) continue;
        step->shapes = ARENA_ARRAY(plan->arena, const NestShape *, kernel->n_nests);
        if (!step->shapes) return ST_MEMORY;
        for (int k = 0; k < kernel->n_nests; k++)
            if (!(step->shapes[k] = shape_decide(plan->arena, &kernel->nests[k], kernel->bufs, machine)))
                return ST_MEMORY;
    }
    plan->machine = machine;
    return ST_OK;
}

const NestShape *plan_shape_of(const Plan *plan, const Step *step, int nest, const Machine *machine, Arena *arena) {
    if (plan->machine == machine) return step->shapes[nest];
    return shape_decide(arena, &step->kernel->nests[nest], step->kernel->bufs, machine);
}

void shapes_print(const Plan *plan, const Machine *machine, Text *text) {
    Arena *const arena = arena_new();
    machine_print(machine, text);
    for (int i = 0; arena && i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        if (step->kind != STEP_kernel) continue;
        kernel_print(step->kernel, text);
        for (int k = 0; k < step->kernel->n_nests; k++) {
            const NestShape *const shape = plan_shape_of(plan, step, k, machine, arena);
            if (shape) shape_print(shape, &step->kernel->nests[k], text);
        }
    }
    arena_free(arena);
}

static Status reprint_kernel(Arena *arena, TextReader *in, const Machine *given, const Machine *wanted, Text *out) {
    Kernel *kernel;
    TRY(kernel_parse(arena, in->at, &in->at, &kernel));
    TRY(kernel_verify(kernel));
    kernel_print(kernel, out);
    for (int k = 0; k < kernel->n_nests; k++) {
        const Nest *const nest = &kernel->nests[k];
        NestShape *shape;
        TRY(shape_parse(arena, in, nest, &shape));
        TRY(shape_verify(shape, nest, kernel->bufs, given));
        if (wanted && !(shape = shape_decide(arena, nest, kernel->bufs, wanted))) return ST_MEMORY;
        shape_print(shape, nest, out);
    }
    return ST_OK;
}

static Status reprint(Arena *arena, TextReader *in, const Machine *wanted, Text *out) {
    Machine given;
    TRY(machine_parse(in, &given));
    machine_print(wanted ? wanted : &given, out);
    for (;;) {
        reader_skip(in);
        if (strncmp(in->at, "kernel ", 7)) return ST_OK;
        TRY(reprint_kernel(arena, in, &given, wanted, out));
    }
}

Status shapes_reprint(const char *text, const char **end, const Machine *machine, Text *out) {
    TextReader in = {.what = "shapes", .between = BETWEEN_comments, .start = text, .at = text};
    Arena *const arena = arena_new();
    const Status status = arena ? reprint(arena, &in, machine, out) : ST_MEMORY;
    if (status == ST_OK) *end = in.at;
    arena_free(arena);
    return status;
}
