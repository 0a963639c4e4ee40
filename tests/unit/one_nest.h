/* one_nest.h: the request for code of one nest. It points into `one`, which outlives it. */
#ifndef SINTER_TESTS_UNIT_ONE_NEST_H
#define SINTER_TESTS_UNIT_ONE_NEST_H
#include "codegen/codegen.h"

typedef struct OneNest {
    const Nest *nest;
    const Buf *bufs;
    const char *name;
} OneNest;

static inline CodegenRequest one_nest_request(const OneNest *one, int isa) {
    return (CodegenRequest){
        .n_nests = 1, .nests = &one->nest, .bufs = &one->bufs, .names = &one->name, .isa = isa, .stack_bytes = 65536};
}

#endif
