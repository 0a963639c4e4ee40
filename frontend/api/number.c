/* number.c: numbers of tensors: sn_sym_* (sinter/compile.h), and the rows of KIND_number, which boxed calls reach:
 * number_<body> answers from metadata, or waits for the value. */
#include "frontend/api/enter.h"
#include "frontend/api/number.h"
#include "ir/op_ids.h"

#include <sinter/compile.h>
#include <sinter/inspect.h>

#include "runtime/core/tracer.h"
#include "runtime/autograd/query.h"
#include "runtime/core/element.h"

/* Symbolic ints: while the body of a replay function is captured, `bits` may stand for an expression of the call's
 * inputs (runtime/core/tracer.h); everywhere else it is the number itself, since verify mode compares every
 * attribute. */

/* The dim from the front; -1 raises. */
static int dim_asked(sn_tensor *t, int64_t dim, const char *what) {
    if (tensor_valid(t, what) != ST_OK) return -1;
    const int rank = t->base.meta->rank;
    query_ask(QUERY_rank, t, 0);
    if (dim >= -rank && dim < rank) return (int)(dim < 0 ? dim + rank : dim);
    error_raise(ST_SHAPE, "%s: dim %lld is out of range for a tensor of rank %d", what, (long long)dim, rank);
    return -1;
}

static sn_sym size_of(sn_tensor *t, int64_t dim, const char *what) {
    const int at = dim_asked(t, dim, what);
    if (at < 0) return (sn_sym){0};
    query_ask(QUERY_sym_size, t, at);
    return (sn_sym){tracer_meta(t)->sizes[at]};
}

static sn_sym stride_of(sn_tensor *t, int64_t dim, const char *what) {
    const int at = dim_asked(t, dim, what);
    if (at < 0) return (sn_sym){0};
    query_ask(QUERY_sym_stride, t, at);
    return (sn_sym){tracer_meta(t)->strides[at]};
}

static sn_sym numel_of(sn_tensor *t, const char *what) {
    if (tensor_valid(t, what) != ST_OK) return (sn_sym){0};
    query_ask(QUERY_sym_numel, t, 0);
    return (sn_sym){tracer_meta(t)->numel};
}

static sn_sym offset_of(sn_tensor *t, const char *what) {
    if (tensor_valid(t, what) != ST_OK) return (sn_sym){0};
    return (sn_sym){tracer_storage_offset(t, what)};
}

sn_sym sn_sym_size(sn_tensor *t, int64_t dim) {
    API_ENTER(sn_sym_size);
    return size_of(t, dim, "sn_sym_size");
}
sn_sym sn_sym_stride(sn_tensor *t, int64_t dim) {
    API_ENTER(sn_sym_stride);
    return stride_of(t, dim, "sn_sym_stride");
}
sn_sym sn_sym_numel(sn_tensor *t) {
    API_ENTER(sn_sym_numel);
    return numel_of(t, "sn_sym_numel");
}
sn_sym sn_sym_storage_offset(sn_tensor *t) {
    API_ENTER(sn_sym_storage_offset);
    return offset_of(t, "sn_sym_storage_offset");
}

sn_sym sn_sym_int(int64_t value) {
    API_ENTER(sn_sym_int);
    if (tracer_knows(value)) return (sn_sym){value};
    error_raise(ST_ARGUMENT, "sn_sym_int: %lld stands for no symbolic int of this call", (long long)value);
    return (sn_sym){0};
}
int64_t sn_sym_arg(sn_sym s) {
    API_ENTER(sn_sym_arg);
    return s.bits;
}

static bool is_known(sn_sym s, const char *what) {
    if (LIKELY(tracer_has_value(s.bits))) return true;
    error_raise(ST_STATE, "%s: a symbolic int outlived the call that made it", what);
    return false;
}

int64_t sn_sym_value(sn_sym s) {
    API_ENTER(sn_sym_value);
    return is_known(s, "sn_sym_value") ? tracer_concrete(s.bits) : 0;
}

static int64_t (*const sym_ops[128])(SymEnv *env, int64_t a, int64_t b) = {
    ['+'] = sym_add, ['-'] = sym_sub, ['*'] = sym_mul, ['/'] = sym_div, ['%'] = sym_mod};

/* The divisor is not 0, now and (as a guard) on every replay. */
static Status check_divisor(SymEnv *env, sn_sym a, char op, sn_sym b) {
    if ((op != '/' && op != '%') || !sym_same(env, b.bits, 0)) return ST_OK;
    return error_raise(ST_VALUE, "sn_sym_op: %lld %c 0", (long long)(env ? sym_hint(env, a.bits) : a.bits), op);
}

sn_sym sn_sym_op(sn_sym a, char op, sn_sym b) {
    API_ENTER(sn_sym_op);
    SymEnv *const env = tracer_symbols();
    if (op < 0 || !sym_ops[(int)op]) {
        error_raise(ST_ARGUMENT, "sn_sym_op: operator '%c' is none of + - * / %%", op);
        return (sn_sym){0};
    }
    if (!is_known(a, "sn_sym_op") || !is_known(b, "sn_sym_op")) return (sn_sym){0};
    if (!env) a.bits = tracer_concrete(a.bits), b.bits = tracer_concrete(b.bits); /* numbers of a body are plain */
    if (check_divisor(env, a, op, b) != ST_OK) return (sn_sym){0};
    return (sn_sym){sym_ops[(int)op](env, a.bits, b.bits)};
}

/* Rows of numbers ----------------------------------------------------------------------------- */

typedef Status NumberFn(const OpRow *row, const Arg *args, sn_value *out);

static int64_t dim_given(const Arg *arg) {
    tracer_give_number(arg);
    return tracer_int(arg);
}

static Status symbolic(sn_sym number, sn_value *out) {
    *out = sn_int(sn_sym_arg(number));
    return error_pending();
}

static Status number_sym_size(const OpRow *row, const Arg *args, sn_value *out) {
    return symbolic(size_of(tensor_of(args[0].val), dim_given(&args[1]), row->name), out);
}
static Status number_sym_stride(const OpRow *row, const Arg *args, sn_value *out) {
    return symbolic(stride_of(tensor_of(args[0].val), dim_given(&args[1]), row->name), out);
}
static Status number_sym_numel(const OpRow *row, const Arg *args, sn_value *out) {
    return symbolic(numel_of(tensor_of(args[0].val), row->name), out);
}
static Status number_sym_storage_offset(const OpRow *row, const Arg *args, sn_value *out) {
    return symbolic(offset_of(tensor_of(args[0].val), row->name), out);
}

static Status number_sym_is_contiguous(const OpRow *row, const Arg *args, sn_value *out) {
    *out = sn_bool(sn_is_contiguous_as(tensor_of(args[0].val), (sn_memory_format)args[1].i));
    return error_pending();
}

Status number_item(const OpRow *row, const Arg *args, sn_value *out) {
    sn_tensor *const item = tensor_item(tensor_of(args[0].val), row->name);
    if (!item) return error_pending();
    const DType dtype = item->base.meta->dtype;
    const void *const at = tensor_data(item);
    *out = dtype_is_float(dtype) ? sn_float(element_double(dtype, at))
           : dtype == DT_bool    ? sn_bool(element_int(dtype, at) != 0)
                                 : sn_int(element_int(dtype, at));
    tensor_release(item);
    return ST_OK;
}

#define NUMBER_pointwise(meta, body)     NULL
#define NUMBER_reduction(meta, body)     NULL
#define NUMBER_decomposition(meta, body) NULL
#define NUMBER_composite(meta, body)     NULL
#define NUMBER_kernel(meta, body)        NULL
#define NUMBER_view(meta)                NULL
#define NUMBER_number(meta, body)        number_##body
#define ALIAS(...)
#define OP(id, schema, doc, kind, ...) [OP_##id] = NUMBER_##kind,
static NumberFn *const numbers[OP_IDS] = {
#include "ir/ops.def"
};
#undef OP
#undef ALIAS

Status number_call(const OpRow *row, const Arg *args, sn_value *out) {
    const Status status = numbers[row->id](row, args, out);
    if (status != ST_OK) error_set_op(row->name);
    return status;
}
