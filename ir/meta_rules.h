/* meta_rules.h: what meta rules share: reading arguments, PyTorch's promotion, broadcasting, TensorIterator's strides.
 * A rule reads call->args, writes call->out[0..n_out) and call->order, and raises errors that name op and argument.
 * Only ir/meta_*.c and ir/op_meta.c include this. */
#ifndef SINTER_IR_META_RULES_H
#define SINTER_IR_META_RULES_H
#include "ir/schema.h"
#include "runtime/base/error.h"

/* Raises "aten::mm: <message>"; returns status. */
Status meta_fail(const MetaCall *call, Status status, const char *format, ...) PRINTF_LIKE(3, 4);
/* "[2, 3]"; what SIZES points to lives until the end of the full expression, so it can be an argument of meta_fail. */
typedef struct SizesText {
    char at[160];
} SizesText;
SizesText sizes_text(const MetaCall *call, const int64_t *sizes, int n);
#define SIZES(call, meta) (sizes_text((call), (meta)->sizes, (meta)->rank).at)

/* Arguments. Tensor arguments that hold a number give a 0-dim wrapped meta in *number. */
const Meta *arg_meta(const MetaCall *call, int i, Meta *number);
const Meta *tensor_meta(const MetaCall *call, int i);         /* NULL: None */
const Arg *arg_named(const MetaCall *call, const char *name); /* NULL: the row has no such parameter */
/* Of "int[2]": 2 */
static inline int list_length(const MetaCall *call, int i) { return call->row->params[i].suffix[1] - '0'; }
static inline bool arg_given(const MetaCall *call, int i) { return call->args[i].kind != ARG_none; }
DType number_dtype(const Arg *number); /* f32, i64 or bool */
/* An argument that is a number becomes one of a dtype only within its range (of u8 also as -1 to -255: the low bits;
 * infinities and NaN are numbers of float dtypes), as in PyTorch; other arguments pass. */
Status number_fits(const MetaCall *call, int arg, DType dtype);
/* A number within limits, of which `what` tells the user: "from 0 to 1". What is bound at the call is guarded. */
Status number_within(const MetaCall *call, int arg, FloatLimit limit, const char *what);
/* By the row's column .limit, for a result of this dtype. */
Status numbers_limited(const MetaCall *call, DType result);
DType dtype_arg(const MetaCall *call, const char *name, DType fallback);
DType default_float(DType dtype); /* itself, or f32 for ints and bool */

/* Results. */
/* strides left alone */
void out_set(MetaOut *out, DType dtype, Device device, const int64_t *sizes, int rank);
void out_contiguous(const MetaCall *call, MetaOut *out);    /* fills strides from sizes */
void out_channels_last(const MetaCall *call, MetaOut *out); /* dim 1 fastest, then the last, and so on */
void out_plain(const MetaCall *call, int i, DType dtype, Device device, const int64_t *sizes, int rank);
void out_like(const MetaCall *call, int i, const Meta *meta, DType dtype); /* preserve_format */
/* Row-major, or in the order of channels_last where `like` suggests it. */
void out_suggested(MetaCall *call, int i, const Meta *like, DType dtype, const int64_t *sizes, int rank);
MetaOut *out_list(MetaCall *call, int i); /* the i-th of a Tensor[] result, NULL past the room */
/* sizes >= 0, at most MAX_RANK of them, product fits */
Status check_numel(const MetaCall *call, const int64_t *sizes, int n);
/* Equal one by one; where structure leaves it open, by a guard. */
bool all_same(SymEnv *env, const int64_t *a, const int64_t *b, int n);
/* Strides that preserve_format gives: own ones if dense and non-overlapping, else by permutation. */
void preserved_strides(SymEnv *env, const Meta *meta, int64_t *strides);
/* As meta_is_dense, but for symbols it decides, which guards. */
bool dense_non_overlapping(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank);
/* Each element has a place of its own: from one dim to the next, by stride, each steps over all that is before it. */
bool apart(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank);

/* Elementwise ops over several operands. */
enum { MAX_OPERANDS = 8 };
typedef struct Elementwise {
    int n;
    const Meta *in[MAX_OPERANDS];
    int arg[MAX_OPERANDS]; /* argument indices, for messages */
    Meta numbers[MAX_OPERANDS];
    DType common; /* promoted dtype */
} Elementwise;
void elementwise_add(const MetaCall *call, Elementwise *e, int arg);
DType promoted(const Elementwise *e);
/* Strides of out[0], whose sizes the operands broadcast to: dims in the order that these ask for, the first first. */
void iterated_strides(MetaCall *call, const Meta *const *operands, int n);
/* Broadcasts, checks devices, sets out[0] with dtype and TensorIterator's strides. */
Status elementwise_out(MetaCall *call, Elementwise *e, DType dtype);
/* Operands are all tensor (or number-for-tensor) arguments in order. */
Status elementwise(MetaCall *call, Elementwise *e);
/* The size that only values give: a symbol where there may be one, else the call is refused. */
Status meta_unbacked_size(MetaCall *call, int64_t *size);
/* The same of any number from `least` on. */
Status meta_unbacked(MetaCall *call, int64_t least, int64_t *number);
/* One is 1 and the other a size of a header that may be 1: they count as different where only the stride of a dim of
 * size 1 depends on it, which no call is asked about. */
bool meta_beside_one(SymEnv *env, int64_t a, int64_t b);
/* Joins sizes b into a (in place, rank updated); false where they do not broadcast. */
bool broadcast_into(SymEnv *env, int64_t *sizes, int *rank, const int64_t *other, int other_rank);

/* Dims. */
/* rank 0 counts as 1 */
Status wrap_dim(const MetaCall *call, int64_t dim, int rank, const char *name, int *out);
/* The set of reduced dims of an int list (None or empty: all); duplicates are errors. */
Status wrap_dims(const MetaCall *call, const Arg *dims, int rank, bool reduced[MAX_RANK]);
/* Sizes after reducing; the canonical order by B2. */
void reduced_out(MetaCall *call, int i, const Meta *in, const bool *reduced, bool keepdim, DType dtype);
Order reduction_order(const Meta *in, const bool *reduced);

bool can_cast(DType from, DType to);
Status same_device(const MetaCall *call, const Meta *a, const Meta *b);
const char *arg_name(const MetaCall *call, int i);

#endif
