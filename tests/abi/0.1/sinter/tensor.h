/* tensor.h: dtypes, lists, values, lifetime, metadata, memory. A tensor is a handle on a typed, strided part of a
   storage; views share their storage. Sizes, strides and offsets count elements; all sizes are >= 0, any rank up to 64
   is possible. */
#ifndef SINTER_TENSOR_H
#define SINTER_TENSOR_H
#include <sinter/base.h>
SN_BEGIN
typedef enum sn_dtype {
    SN_DTYPE_DEFAULT,
    SN_F64,
    SN_F32,
    SN_F16,
    SN_BF16,
    SN_I64,
    SN_I32,
    SN_I16,
    SN_I8,
    SN_U8,
    SN_BOOL
} sn_dtype;
/* SN_CPU, SN_META (metadata only), SN_CUDA(0)..., and what sn_device_register gives (device.h) */
typedef int32_t sn_device;
#define SN_CPU         0
#define SN_META        64
#define SN_CUDA(index) (256 + (index))
/* data NULL: None */
typedef struct sn_ints {
    const int64_t *data;
    int64_t n;
} sn_ints;
typedef struct sn_tensors {
    sn_tensor *const *data;
    int64_t n;
} sn_tensors;
#define SN_NO_INT INT64_MIN /* None for int? */
#ifndef __cplusplus
#define SN_COUNT(type, ...) ((int64_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type)))
#define SN_INTS(...)        ((sn_ints){(const int64_t[]){__VA_ARGS__}, SN_COUNT(int64_t, __VA_ARGS__)})
#define SN_TENSORS(...)     ((sn_tensors){(sn_tensor *const[]){__VA_ARGS__}, SN_COUNT(sn_tensor *, __VA_ARGS__)})
#endif

/* Any argument or result, 16 bytes; a Scalar is one of kind int, float, bool */
enum {
    SN_KIND_DEFAULT,
    SN_KIND_NONE,
    SN_KIND_TENSOR,
    SN_KIND_INT,
    SN_KIND_FLOAT,
    SN_KIND_BOOL,
    SN_KIND_STRING,
    SN_KIND_INTS,
    SN_KIND_FLOATS,
    SN_KIND_TENSORS
};
typedef struct sn_value {
    int32_t kind, n; /* n: of a list */
    union {
        sn_tensor *tensor;
        int64_t i;
        double f;
        const char *string;
        const int64_t *ints;
        const double *floats;
        sn_tensor *const *tensors;
    };
} sn_value;
typedef sn_value sn_scalar;
static inline sn_value sn_val(sn_tensor *t) {
    sn_value v;
    v.kind = SN_KIND_TENSOR;
    v.n = 0;
    v.tensor = t;
    return v;
}
static inline sn_value sn_int(int64_t i) {
    sn_value v;
    v.kind = SN_KIND_INT;
    v.n = 0;
    v.i = i;
    return v;
}
static inline sn_value sn_float(double f) {
    sn_value v;
    v.kind = SN_KIND_FLOAT;
    v.n = 0;
    v.f = f;
    return v;
}
static inline sn_value sn_bool(bool b) {
    sn_value v;
    v.kind = SN_KIND_BOOL;
    v.n = 0;
    v.i = b;
    return v;
}
static inline sn_value sn_none(void) {
    sn_value v;
    v.kind = SN_KIND_NONE;
    v.n = 0;
    v.i = 0;
    return v;
}
/* text lives as long as the call. NULL: None. */
static inline sn_value sn_str(const char *text) {
    sn_value v = sn_none();
    if (!text) return v;
    v.kind = SN_KIND_STRING;
    v.string = text;
    return v;
}
/* The list lives as long as the call; one of more than 2^31 - 1 is refused by what takes it. */
static inline sn_value sn_ints_value(sn_ints list) {
    sn_value v = sn_none();
    v.kind = SN_KIND_INTS;
    v.n = list.n < 0 || list.n > INT32_MAX ? INT32_MIN : (int32_t)list.n;
    v.ints = list.data;
    return v;
}
static inline sn_value sn_tensors_value(sn_tensors list) {
    sn_value v = sn_none();
    v.kind = SN_KIND_TENSORS;
    v.n = list.n < 0 || list.n > INT32_MAX ? INT32_MIN : (int32_t)list.n;
    v.tensors = list.data;
    return v;
}
/* Values of the arguments memory_format and layout: sn_int(SN_CHANNELS_LAST). */
typedef enum sn_memory_format {
    SN_CONTIGUOUS_FORMAT,
    SN_PRESERVE_FORMAT,
    SN_CHANNELS_LAST,
    SN_CHANNELS_LAST_3D
} sn_memory_format;
typedef enum sn_layout { SN_STRIDED, SN_SPARSE_COO, SN_SPARSE_CSR } sn_layout;

/* Lifetime [event]. Results belong to the innermost scope (base.h); these give references of your own, to release. All
   three accept NULL; the first two return their argument. */
/* Takes the innermost scope's reference if it has one, else makes a new one. */
sn_tensor *sn_keep(sn_tensor *t);
/* Always a new one. */
sn_tensor *sn_retain(sn_tensor *t);
/* From any thread. */
void sn_release(sn_tensor *t);

/* Metadata [meta]: plain numbers, known before the value is; replay specialises on them. NULL and handles of failed ops
   are errors and give 0 (SN_DTYPE_DEFAULT, device -1, no list). */
int64_t sn_rank(sn_tensor *t);
/* dim from -rank to rank - 1, else SN_ERR_SHAPE. */
int64_t sn_size(sn_tensor *t, int64_t dim);
/* Elements: the product of the sizes. */
int64_t sn_numel(sn_tensor *t);
/* Borrowed: as long as t. */
sn_ints sn_sizes(sn_tensor *t);
sn_ints sn_strides(sn_tensor *t);
sn_dtype sn_dtype_of(sn_tensor *t);
sn_device sn_device_of(sn_tensor *t);
/* Row-major without gaps; dims of size 1 do not count. */
bool sn_is_contiguous(sn_tensor *t);

/* Values [flush]: in a compiled function what is pending runs first. Pointers are to the first element and live until
   the next call of Sinter there, elsewhere as long as the storage. */
/* Not NULL, and not the handle of an op that failed; raises no error. */
bool sn_ok(sn_tensor *t);
/* The place of the first element, in elements from the storage's start (Tensor.storage_offset); 0 on error. A
   compiled function serves every offset, so what asks for one waits for the tensor. */
int64_t sn_storage_offset(sn_tensor *t);
/* Of one element, any dtype; else SN_ERR_SHAPE and NaN. */
double sn_item(sn_tensor *t);
/* Exact: a fraction is SN_ERR_VALUE; 0 on error. */
int64_t sn_item_int(sn_tensor *t);
/* Of a contiguous tensor of this dtype on the CPU, else an error and NULL. What reads values (sn_item, sn_read,
 * sn_repr...) reads those of any device. */
const void *sn_data(sn_tensor *t, sn_dtype expected);
/* The same, and counts as a write; read-only memory is an error, and so is a tensor of inference mode outside of it. */
void *sn_data_mut(sn_tensor *t, sn_dtype expected);
/* Any dtype and layout: mind sn_strides; announce writes by sn_touch. Of a tensor on a registered device its address
 * there, for the device's own functions. */
void *sn_data_raw(sn_tensor *t);
/* "I am about to write through a pointer of my own", before the write: in a compiled function what is pending reads the
   old values; t has a new version. */
sn_status sn_touch(sn_tensor *t);
/* Copies row-major; bytes must be those of all elements. */
sn_status sn_read(sn_tensor *t, void *to, size_t bytes);
/* The same dtype and sizes, and equal elements (torch.equal: NaN equals nothing, -0 equals 0). false on error. */
bool sn_equal(sn_tensor *a, sn_tensor *b);
/* Of the same dtype and sizes, else false: everywhere |a - b| <= atol + rtol * |b|, or both are the same infinity. NaN
   is close to nothing. */
bool sn_allclose(sn_tensor *a, sn_tensor *b, double rtol, double atol);
/* As PyTorch prints: 4 digits, summarised above 1,000 elements. "" on error; lives until the state makes another
 * text. */
const char *sn_repr(sn_tensor *t);

/* Tensors from memory [op]: inside a compiled function they are inputs of its graph, never constants. */
/* Copies row-major elements, to the default device (device.h). A function in mode SN_COMPILE_REPLAY copies when its
 * body runs: what the memory holds at a replayed call is host state, which it does not look at. */
sn_tensor *sn_from_data(const void *data, sn_ints sizes, sn_dtype dtype);
typedef struct sn_blob {
    size_t size;
    /* Still yours if sn_wrap fails. */
    void *data;
    size_t bytes;
    /* In elements; strides may be absent: row-major. */
    sn_ints sizes, strides;
    sn_dtype dtype;
    sn_device device;
    bool read_only;
    /* free(data, context), once, on any thread; it may not call Sinter. NULL: none. */
    sn_free_fn free;
    void *context;
} sn_blob;
#define SN_BLOB(...) SN_STRUCT(sn_blob, __VA_ARGS__)
/* No copy: the memory must be aligned to its elements and outlive the tensor and its views, which call free when the
   last one is gone. It is never resized; written where an op writes the tensor, unless read_only. On a CUDA
   device the memory is that device's (what cuMemAlloc gave); work on the current stream may use it at once, and free is
   called when all that was begun on the device is done. */
sn_tensor *sn_wrap(const sn_blob *blob);
/* One tensor of a block, `offset` bytes from the block's start. */
typedef struct sn_part {
    size_t offset;
    /* strides may be absent: row-major. */
    sn_ints sizes, strides;
    sn_dtype dtype;
} sn_part;
/* Many tensors of one block of memory (a mapped file of weights) in one call: parts[i] becomes out[i], as by sn_wrap.
   block: its data, bytes, device, read_only; free is called once, when the last of the tensors and their views is gone.
   On an error there are none, and the block is still yours. */
sn_status sn_wrap_many(const sn_blob *block, const sn_part *parts, int64_t n, sn_tensor **out);
struct DLManagedTensorVersioned;
/* DLPack 1.x, CPU or CUDA: shares memory. m is taken over on success; its deleter is called when the last tensor of it
   is gone and the device is done with it. On CUDA what m's giver began on the memory must be done. */
sn_tensor *sn_from_dlpack(struct DLManagedTensorVersioned *m);
/* The same, where it need not be done: the current stream waits for `stream`, a CUstream or cudaStream_t on which the
   giver works (NULL: CUDA's default stream; on the CPU it is not looked at). */
sn_tensor *sn_from_dlpack_on(struct DLManagedTensorVersioned *m, void *stream);
/* Yours: call its deleter when nobody uses the memory any more. It holds a reference to t. On CUDA it waits until what
   the current stream has begun is done. [flush] */
struct DLManagedTensorVersioned *sn_to_dlpack(sn_tensor *t);
/* The same, but `stream`, on which the taker works, waits for the current one, and the host goes on (it waits where a
   check of values is still open, whose error this raises). [flush] */
struct DLManagedTensorVersioned *sn_to_dlpack_on(sn_tensor *t, void *stream);
SN_END
#endif
