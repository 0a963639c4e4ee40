/* positions.c: see positions.h. */
#include "runtime/device/positions.h"

/* Text graphs can say anything. The end is a double, as in eager's check of as_strided. */
Status view_scatter_check(const OpCall *call) {
    const sn_tensor *const out = call->outs[0];
    const Meta *const part = tensor_of(call->args[1].val)->base.meta;
    int64_t span;
    const double bytes = dtype_bytes(part->dtype), capacity = (double)out->storage->bytes;
    if (!part->numel) return ST_OK;
    const bool fits = meta_span(part->sizes, call->args[3].ints, part->rank, &span) &&
                      ((double)out->offset + (double)call->args[4].i) >= 0 &&
                      ((double)out->offset + (double)call->args[4].i + (double)span) * bytes <= capacity;
    return fits ? ST_OK : error_raise(ST_VALUE, "%s: the view leaves self's memory", call->row->name);
}

Status raise_position(const OpRow *row, int64_t index, int64_t size, int dim) {
    return error_raise(ST_VALUE, "%s: %s %lld is out of range for %lld elements of dim %d", row->name, row->check.param,
                       (long long)index, (long long)size, dim);
}

Status raise_index_position(int64_t index, int64_t size, int64_t dim) {
    const Status status = error_raise(ST_VALUE, "aten::index: index %lld is out of range for %lld elements of dim %lld",
                                      (long long)index, (long long)size, (long long)dim);
    error_set_op("aten::index");
    return status;
}

JoinKind joining_of(const char *word) {
    static const struct {
        const char *word;
        JoinKind kind;
    } rows[] = {{"add", JOINING_add},      {"sum", JOINING_add},  {"mean", JOINING_add}, {"prod", JOINING_mul},
                {"multiply", JOINING_mul}, {"amax", JOINING_max}, {"amin", JOINING_min}};
    int i = 0;
    while (i < COUNT_OF(rows) - 1 && strcmp(rows[i].word, word) != 0) i++;
    return rows[i].kind;
}

bool joining_is_mean(const char *word) { return !strcmp(word, "mean"); }
