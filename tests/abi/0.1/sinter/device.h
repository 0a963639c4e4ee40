/* device.h: devices: how many there are, moving tensors to them, waiting for them; and those that a program adds.

   SN_CUDA(0), SN_CUDA(1)... need NVIDIA's driver (CUDA 12.0 or newer) and NVRTC, which are opened at their first use.
   Ops run there eagerly and compiled, with the CPU's bits; nothing moves by itself but 0-dim CPU operands, and ops
   whose results have sizes that values decide (sn_nonzero) wait for the device. Kernels run while the program goes on:
   what one finds wrong in values (an index out of range) is the error of the next call that waits for
   the device (reading a tensor, sn_device_synchronize), and nothing is written in place after it until then. Where
   a kernel or the hardware has failed so that a GPU's memory is gone, each use of it is SN_ERR_DEVICE from then on, and
   the CPU and other GPUs go on. A process that was forked after the first use cannot use CUDA.

   A program's device is a few functions on its memory; its ops are what is registered at
   its key. Views, copies and empty tensors need no op of its own, and where it has none, the CPU's can serve it:

       const sn_device mine =
           sn_device_register(SN_DEVICE_DESC(.name = "mine", .allocate = ..., .free = ..., .copy = ...));
       sn_fallback_set(sn_device_key(mine), sn_run_on_cpu, NULL);
       sn_tensor *y = sn_relu(sn_to_device(x, mine)); */
#ifndef SINTER_DEVICE_H
#define SINTER_DEVICE_H
#include <sinter/dispatch.h>
SN_BEGIN
/* Which of the two addresses is the host's. */
typedef enum sn_copy_way { SN_COPY_FROM_HOST, SN_COPY_TO_HOST, SN_COPY_WITHIN } sn_copy_way;
/* Memory is what allocate says: Sinter adds offsets in bytes to it and follows none of these addresses, so it may be a
   number of the device's own (never 0). Any thread, also several at once; they may not call Sinter. A status other than
   SN_OK is SN_ERR_DEVICE with the device's name. bytes is never 0. */
typedef struct sn_device_desc {
    size_t size;
    /* For texts of graphs and tensors, and as the name of its key: letters, digits, '_'; at most 31. Copied. */
    const char *name;
    /* Aligned to 64 bytes; NULL: SN_ERR_MEMORY. */
    void *(*allocate)(void *context, size_t bytes);
    /* bytes as given to allocate. */
    void (*free)(void *context, void *memory, size_t bytes);
    /* Done when it returns, for what the host reads; ranges do not overlap. */
    sn_status (*copy)(void *context, void *to, const void *from, size_t bytes, sn_copy_way way);
    /* byte in each; NULL: copies from the host. */
    sn_status (*fill)(void *context, void *memory, int byte, size_t bytes);
    /* Waits for all that was begun; NULL: nothing outlives its call. */
    sn_status (*synchronize)(void *context);
    /* Given to each; lives as long as the process. */
    void *context;
} sn_device_desc;
#define SN_DEVICE_DESC(...) SN_STRUCT(sn_device_desc, __VA_ARGS__)
/* For the process and for good, at most 8; its number, or -1 and an error. Each has a key of its own, the first
   SN_KEY_SPARE. [refused in bodies] */
sn_device sn_device_register(const sn_device_desc *desc);
/* "cpu", "meta", "cuda:1", a registered one's name; another number is an error and "". Lives until the state makes
   another text. [neutral] */
const char *sn_device_name(sn_device device);
/* Whose kernels run on it; an error and 0 for what is no device. [neutral] */
sn_key sn_device_key(sn_device device);
/* How many devices the key has: GPUs that the driver shows for SN_KEY_CUDA, which opens it (0 without a driver, which
   is no error), 1 for the CPU's and a registered device's, 0 for a key without memory. [neutral] */
int sn_device_count(sn_key key);
/* What a device is. */
typedef struct sn_device_properties {
    size_t size;
    /* A GPU's product, else sn_device_name; ends in 0. */
    char name[128];
    /* All of its memory, in bytes; 0: unknown, as is what follows. */
    int64_t memory;
    /* A GPU's multiprocessors, the CPU's cores. */
    int32_t processors;
    /* A GPU's compute capability: 9 and 0 for sm_90. */
    int32_t major, minor;
} sn_device_properties;
/* Fills what *out has room for by its size, which is set before; opens a GPU. [neutral] */
sn_status sn_device_properties_of(sn_device device, sn_device_properties *out);
/* Where factories (sn_zeros, sn_randn, sn_arange, sn_from_data...) that are told no device make their results, until
   the innermost scope ends: SN_CPU until it is set. What has a tensor argument (sn_zeros_like) goes by that. A mode of
   the thread: graphs hold the device itself, and a replayed function is compiled for each. Returns the one before.
   [event] */
sn_device sn_default_device_set(sn_device device);
/* A replayed call has what it was at the call for a guard. [neutral] */
sn_device sn_default_device(void);
/* Waits for the device: for what has begun on it; raises what kernels have found wrong since the last wait. [flush] */
sn_status sn_device_synchronize(sn_device device);

/* x itself where it is there already, else a copy on that device, in x's dtype and, where it is dense, its strides
   (aten::_to_copy); the gradient is copied back. [op] */
sn_tensor *sn_to_device(sn_tensor *x, sn_device device);
/* A body for sn_fallback_set at a registered device's key: the same call on the CPU, on copies of the tensors; results
   and what is written go back to the device. The bits are the CPU's. [op] */
sn_status sn_run_on_cpu(sn_frame *f);
SN_END
#endif
