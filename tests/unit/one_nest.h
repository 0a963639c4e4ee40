/* one_nest.h: the request for code of one nest, in the shape that is decided for it. It points into `one`, which
 * outlives it. */
#ifndef SINTER_TESTS_UNIT_ONE_NEST_H
#define SINTER_TESTS_UNIT_ONE_NEST_H
#include "codegen/codegen.h"
#include "codegen/shape/shape.h"

typedef struct OneNest {
    const Nest *nest;
    const Buf *bufs;
    const char *name;
    Arena *arena; /* of the shape */
    const NestMapping *shape;
    Machine machine;
} OneNest;

static inline CodegenRequest one_nest_on(OneNest *one, Machine machine) {
    one->machine = machine;
    one->shape = shape_decide(one->arena, one->nest, one->bufs, &one->machine);
    return (CodegenRequest){.n_nests = 1,
                            .nests = &one->nest,
                            .bufs = &one->bufs,
                            .shapes = &one->shape,
                            .names = &one->name,
                            .machine = &one->machine};
}

/* Nothing streams. */
static inline CodegenRequest one_nest_request(OneNest *one, int isa) {
    Machine machine = *machine_at(isa);
    machine.stream_bytes = 0;
    return one_nest_on(one, machine);
}

#endif
