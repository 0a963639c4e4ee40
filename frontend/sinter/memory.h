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
/* What is counted, in bytes and in blocks, on the CPU only of blocks of 2 MiB and more: what tensors have; that and
   what is freed but used by another stream's work, which has not been seen to end; what was asked for, before it was
   rounded; what is held from the driver or system (its blocks are segments); what is free in segments that are in use
   in part, so that it cannot go back. */
typedef enum sn_memory_measure {
    SN_MEMORY_ALLOCATED,
    SN_MEMORY_ACTIVE,
    SN_MEMORY_REQUESTED,
    SN_MEMORY_RESERVED,
    SN_MEMORY_NON_RELEASABLE,
    SN_MEMORY_MEASURES
} sn_memory_measure;
/* total: all that came, freed: all that went. */
typedef struct sn_memory_stat {
    int64_t current, peak, total, freed;
} sn_memory_stat;
/* Bytes: in use now, the most in use so far, held from the system. A program's own memory does not count. Below: each
   measure; allocations that first gave back what was kept, and those that failed; what the device itself has and has
   left, for anybody. */
typedef struct sn_memory {
    size_t size;
    int64_t current, peak, reserved;
    sn_memory_stat bytes[SN_MEMORY_MEASURES], blocks[SN_MEMORY_MEASURES];
    int64_t retries, failures;
    int64_t device_free, device_total;
} sn_memory;
/* [neutral] */
sn_status sn_memory_get(sn_device device, sn_memory *out);
/* The same as a table of text, by large and small blocks; of the CPU those below 2 MiB by their size: in use now,
   most so far, all that were given, kept for later. Tensors of up to 512 bytes are part of their handles and count
   nowhere. [neutral] */
const char *sn_memory_summary(sn_device device);
/* A device's memory as JSON: the statistics, and each segment with its blocks: state, bytes, what was asked for, which
   streams it waits for, and, where the setting memory_sites is on, the line that asked for it. Of the CPU also size
   classes, and, with that setting, who asked for what is in use: sums by stack of lines. `sinter memory FILE` reads it.
   [neutral] */
const char *sn_memory_snapshot(sn_device device);
/* From now on the peak is that of what is in use now. [neutral] */
sn_status sn_memory_reset_peak(sn_device device);
/* Gives back to the system what is kept and free; a GPU, if anything is, is waited for. [neutral] */
sn_status sn_memory_trim(sn_device device);
SN_END
#endif
