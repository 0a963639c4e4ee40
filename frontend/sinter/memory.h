/* memory.h: what is known of a device's memory.

   Tensors on the CPU and on GPUs get theirs from caching allocators, which keep what is freed for the next tensor. On a
   GPU freed memory belongs to the stream that it was asked for on, and is used again there in the order of its work,
   so that a free waits for nothing. Where a GPU has no more, what is kept goes back to the driver and it is asked once
   more; SN_ERR_MEMORY then says what was in use, kept and free, and what would help. Nothing is known of devices that
   a program has registered: SN_ERR_DEVICE. SINTER_PLAIN_MALLOC=1 keeps nothing. */
#ifndef SINTER_MEMORY_H
#define SINTER_MEMORY_H
#include <sinter/tensor.h>
SN_BEGIN
/* Bytes: in use now, the most in use so far, held from the system. A program's own memory does not count. */
typedef struct sn_memory {
    size_t size;
    int64_t current, peak, reserved;
} sn_memory;
/* [neutral] */
sn_status sn_memory_get(sn_device device, sn_memory *out);
/* From now on the peak is that of what is in use now. [neutral] */
sn_status sn_memory_reset_peak(sn_device device);
/* Gives back to the system what is kept and free; a GPU, if anything is, is waited for. [neutral] */
sn_status sn_memory_trim(sn_device device);
SN_END
#endif
