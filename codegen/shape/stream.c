/* stream.c: what is stored past the caches. An ordinary store reads its line first, so an array that leaves the caches
 * before anybody reads it costs twice its bytes. A nest that stores more than `stream` bytes to buffers that it does
 * not load stores them past the caches, where addresses are aligned to whole vectors, which the call finds out. Not for
 * a product's tiles, of which each call stores little. */
#include "codegen/shape/parts.h"

static bool has_tile(const Nest *nest, const Buf *bufs) {
    for (int i = 0; i < nest->n_insts; i++)
        if (is_access(&nest->insts[i]) && bufs[nest->insts[i].buf].role == BUF_tile) return true;
    return false;
}

bool stream_may_at_all(const Nest *nest, const Buf *bufs) { return !has_tile(nest, bufs); }

bool stream_may(const Nest *nest, const Buf *bufs, const NestMapping *shape, int i) {
    const Inst *const inst = &nest->insts[i];
    if (inst->op != LI_store || bufs[inst->buf].role != BUF_out || nest_loads_from(nest, inst->buf)) return false;
    const int along = lane_group(shape, nest);
    return along >= 0 && inst->at->coef[shape->group[along].coef] == 1;
}

/* Bytes that one store writes, if no extent is a parameter. */
static bool inst_bytes(const Nest *nest, const Buf *bufs, const Inst *inst, uint64_t *bytes) {
    *bytes = (uint64_t)dtype_bytes(bufs[inst->buf].dtype);
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) {
        if (!inst->at->coef[d]) continue;
        if (sym_is(nest->extent[d])) return false;
        *bytes *= (uint64_t)nest->extent[d];
    }
    return true;
}

static StreamWhen when(const Decider *d) {
    uint64_t sum = 0, bytes;
    for (int i = 0; i < d->nest->n_insts; i++) {
        if (!stream_may(d->nest, d->bufs, d->shape, i)) continue;
        if (!inst_bytes(d->nest, d->bufs, &d->nest->insts[i], &bytes)) return STREAM_when;
        sum += bytes;
    }
    return (int64_t)sum > d->machine->stream_bytes ? STREAM_always : STREAM_never;
}

void stream_decide(Decider *d) {
    NestMapping *const shape = d->shape;
    if (!d->machine->stream_bytes || !stream_may_at_all(d->nest, d->bufs)) return;
    shape->stream = when(d);
    if (shape->stream == STREAM_never) return;
    if (shape->stream == STREAM_when) shape->stream_bytes = d->machine->stream_bytes;
    for (int i = 0; i < d->nest->n_insts; i++) shape->inst[i].streams = stream_may(d->nest, d->bufs, shape, i);
    const int64_t row = shape_L_total(shape);
    shape->ragged = shape_is_rows(shape) && (row < 0 || row % shape->lanes);
}
