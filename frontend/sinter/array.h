/* array.h: calls on plain arrays, for bindings of other languages and programs that have their own memory.

   sn_call_arrays(fn, in, n_in, out, n_out, NULL) is sn_call without tensors to make, keep and free: arguments are used
   where they lie, results go where the caller has room. Nothing is copied that a call of tensors would not copy; a
   result that needs one copy more has SN_ARRAY_COPIED.

       float x[8 * 4], y[8 * 3];
       sn_array in = SN_ARRAY(x, SN_F32, 8, 4), out = SN_ARRAY(y, SN_F32, 8, 3);
       sn_call_arrays(fn, &in, 1, &out, 1, NULL);

   Parameters that stay the same are best wrapped once (tensor.h) and given as SN_KIND_TENSOR: of 200 arguments a
   handle that is there costs a third of what an array does. */
#ifndef SINTER_ARRAY_H
#define SINTER_ARRAY_H
#include <sinter/compile.h>
SN_BEGIN
enum {
    SN_ARRAY_READ_ONLY = 1, /* argument: writing it is an error */
    SN_ARRAY_COPIED = 2     /* result: it was computed elsewhere and copied here */
};
/* What memory a result shows: its own; that of an argument, or of an earlier result; that of what fn closes over, or of
   what somebody else holds, as the history of a view does what it is a view of. */
typedef enum sn_array_alias { SN_ALIAS_NONE, SN_ALIAS_INPUT, SN_ALIAS_RESULT, SN_ALIAS_OTHER } sn_array_alias;
/* An argument or a result. Zero is no array: SN_ARRAY, or set data, dtype, rank, sizes. */
typedef struct sn_array {
    /* SN_KIND_DEFAULT: memory. Of arguments also SN_KIND_INT, SN_KIND_FLOAT, SN_KIND_BOOL: a number, in i or f;
       SN_KIND_NONE: absent; SN_KIND_TENSOR: `tensor`, which the program has (a parameter). Of results SN_KIND_NONE: fn
       gave none, data is NULL. */
    int32_t kind;
    sn_dtype dtype;
    sn_device device;
    int32_t rank;
    /* The first element. Of a result NULL: see sn_call_arrays. */
    union {
        void *data;
        int64_t i;
        double f;
        sn_tensor *tensor;
    };
    /* In elements; strides NULL: row-major. Of results without room they are the library's: copy them before the
       thread's next call of Sinter. */
    const int64_t *sizes, *strides;
    /* From data to the end of its memory, to be checked; 0: as far as sizes and strides reach. */
    size_t bytes;
    uint32_t flags; /* SN_ARRAY_ */
    /* Results: which argument or result, and how many bytes behind its first element this begins. */
    sn_array_alias alias;
    int32_t alias_of;
    int64_t alias_bytes;
    /* Results that lie in memory of the library: who holds it, yours to sn_release; else NULL. */
    sn_tensor *owner;
} sn_array;
#ifndef __cplusplus
/* Row-major memory of the sizes behind the dtype. */
#define SN_ARRAY(memory, type, ...)                                                                                    \
    ((sn_array){.dtype = (type),                                                                                       \
                .rank = (int32_t)SN_COUNT(int64_t, __VA_ARGS__),                                                       \
                .data = (memory),                                                                                      \
                .sizes = (const int64_t[]){__VA_ARGS__}})
#endif
typedef struct sn_array_options {
    size_t size;
    /* Memory for a result without room: *wanted has its dtype, device, sizes, strides and bytes, for the call. It is
       the program's from then on, also if the call fails. May not call Sinter. NULL, where bytes is not 0: the call is
       SN_ERR_MEMORY; memory that another result has: SN_ERR_ARGUMENT, which names both. */
    void *(*allocate)(void *context, int result, const sn_array *wanted);
    void *context;
} sn_array_options;
#define SN_ARRAY_OPTIONS(...) SN_STRUCT(sn_array_options, __VA_ARGS__)
/* sn_call, in any mode, of plans and graphs too. The memory of arguments must be aligned to its elements, and lives
   until the call ends, or as long as fn keeps what its body kept. Functions in mode SN_COMPILE_REPLAY are replayed from
   the second call of a case on, whatever handles say: memory is no object that a body could close over.

   A result with data: its dtype, device and sizes must be the result's, else SN_ERR_SHAPE or SN_ERR_DTYPE names both
   before anything is written, where it is known before (replay), else without it. A replayed call, and one of a plan,
   computes straight into it. It is copied there once, with SN_ARRAY_COPIED: in a call that runs the body; where its
   strides are not the result's, it shares memory with what the call reads, or the result is a view of something.
   Results may not overlap each other: SN_ERR_ARGUMENT. They may lie in an argument's memory, which then has their
   values when the call ends.

   A result with data NULL: what views an argument or an earlier result gets the pointer there, and alias says so. What
   is new lies in memory of options->allocate, or, without it, of the library: owner holds it; so does that of a result
   that views other memory (SN_ALIAS_OTHER), which with allocate is copied. One without elements has no memory: data
   and owner are NULL, alias SN_ALIAS_NONE.
   On an error nothing is to be released, and what memory of results holds is unspecified. Results have no history; an
   argument requires no gradients (but one of SN_KIND_TENSOR may). [refused] */
sn_status sn_call_arrays(sn_function *fn, const sn_array *in, int n_in, sn_array *out, int n_out,
                         const sn_array_options *options);
/* What sn_call_arrays would give: kind, dtype, device, sizes, strides and bytes of each result, and, of a call that
   would be replayed and of a plan, alias; data stays as it is. Nothing is computed, written or compiled; arguments need
   no data. Otherwise the body runs as in fake mode (dispatch.h), which shows no alias: a value that host code asks for
   is an error. [refused] */
sn_status sn_call_infer(sn_function *fn, const sn_array *in, int n_in, sn_array *out, int n_out);
SN_END
#endif
