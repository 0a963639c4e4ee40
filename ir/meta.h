/* meta.h: what is known of a tensor without its data: dtype, device, sizes, strides.
 *
 * In the runtime a Meta is immutable, interned and never symbolic: "same metadata" is a pointer compare. In a graph it
 * lives in the graph's arena and its sizes and strides may be symbolic. `Val` is what an op argument points at: the
 * first member of a runtime tensor and of a graph value alike, so that meta rules, derivatives and decompositions are
 * written once for both. */
#ifndef SINTER_IR_META_H
#define SINTER_IR_META_H
#include "ir/device.h"
#include "ir/dtype.h"
#include "ir/sym.h"

enum { MAX_RANK = 64 }; /* as PyTorch */

typedef struct Meta {
    DType dtype;
    Device device;
    int rank;
    bool contiguous; /* row-major without gaps; unguarded */
    bool wrapped;    /* 0-dim made from a scalar: weaker in promotion (PyTorch's wrapped number) */
    int64_t numel;
    const int64_t *sizes, *strides; /* rank of each; strides in elements */
} Meta;

typedef struct Val {
    const Meta *meta;
} Val;

/* A dim that the meta rules let pass, counted from the front; a tensor of rank 0 is spoken of as if it had one dim. */
static inline int64_t dim_wrap(int64_t dim, int rank) { return dim < 0 ? dim + (rank ? rank : 1) : dim; }

/* Row-major strides of sizes into strides[rank]. Size-0 and size-1 dims as PyTorch's (stride of max(size, 1)
 * products). */
void meta_contiguous_strides(SymEnv *env, const int64_t *sizes, int rank, int64_t *strides);
/* Every element has a place of its own, and these are all the places from the first to the last: the strides are a
 * permutation of row-major ones. By structure alone, without guards. */
bool meta_is_dense(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank);
/* Plain sizes and strides: row-major to the last stride, also of dims of size 1. */
bool meta_is_row_major(const Meta *meta);
bool meta_is_contiguous(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank);
/* Where structure leaves it open (symbolic strides): by hints, with guards. What a result's strides depend on asks
 * this. */
bool meta_decide_contiguous(SymEnv *env, const Meta *meta);
bool meta_is_channels_last(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank);
/* Whether contiguous() of that memory format (not preserve_format) is the tensor itself. */
bool meta_is_in_format(SymEnv *env, const Meta *meta, int64_t format);
/* PyTorch's suggest_memory_format: strides in the order of channels_last (of 4 or 5 dims), dense or not; a layout that
 * is also contiguous is not meant. */
bool meta_suggests_channels_last(SymEnv *env, const Meta *meta);
/* The strides with which `in` shows itself in other sizes; false where only a copy can. A tensor without elements
 * can. */
bool meta_view_strides(SymEnv *env, const Meta *in, const int64_t *sizes, int rank, int64_t *strides);
/* Elements from the first to past the last, 0 where there are none; false: that does not fit. Plain numbers only. */
bool meta_span(const int64_t *sizes, const int64_t *strides, int rank, int64_t *span);
/* Same sizes without adding guards. */
bool meta_same_sizes(const Meta *a, const Meta *b);
/* Same dtype, sizes and strides. Plain numbers only. */
bool meta_same_layout(const Meta *a, const Meta *b);
/* A copy in the arena with contiguous and numel filled in. */
Meta *meta_new(Arena *arena, SymEnv *env, DType dtype, Device device, const int64_t *sizes, const int64_t *strides,
               int rank);
/* "f32[2,3]"; with strides where they are not contiguous: "f32[2,3]{1,2}"; device appended if not cpu: "@meta". */
void meta_print(const SymEnv *env, Text *text, const Meta *meta);
/* Of the elements, for costs and messages (sym_hint). */
static inline int64_t meta_hint_bytes(const SymEnv *env, const Meta *meta) {
    return sym_hint(env, meta->numel) * dtype_bytes(meta->dtype);
}
Status meta_parse(Arena *arena, SymEnv *env, const char *text, const char **end, Meta **out);
/* "[2, 3]" as PyTorch prints sizes in messages. */
void sizes_print(const SymEnv *env, Text *text, const int64_t *sizes, int n);

#endif
