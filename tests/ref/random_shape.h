/* random_shape.h: other shapes of a nest than the decided one, from a seed: every part of the record may change, as far
 * as shape_verify lets it. All of them give the same bits. */
#ifndef SINTER_TESTS_RANDOM_SHAPE_H
#define SINTER_TESTS_RANDOM_SHAPE_H
#include "codegen/shape/shape.h"

/* The decided shape with some changes; NULL when memory is out. */
NestMapping *random_shape(Arena *arena, const Nest *nest, const Buf *bufs, const Machine *machine, uint64_t seed);

#endif
