/* tuning_parts.h: what tuning.c and tuning_measure.c share. */
#ifndef SINTER_RUNTIME_TUNING_PARTS_H
#define SINTER_RUNTIME_TUNING_PARTS_H
#include "codegen/shape/shape.h"
#include "runtime/compile/tuning.h"

/* From now on a nest like this one has this shape. */
Status tuning_record(const Nest *nest, const Buf *bufs, const NestMapping *shape);
/* What code of this shape is known by, beside its nest; never 0. */
uint64_t tuning_id(const Nest *nest, const NestMapping *shape);

#endif
