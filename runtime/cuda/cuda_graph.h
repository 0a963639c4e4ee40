/* cuda_graph.h: the steps of a plan as one launch, a CUDA graph (runtime/device/repeat.h has when).
 *
 *   call 1   runs step by step; the workspace that steps take is noted, and such blocks are the graph's from then on
 *   call 2   a stream of the device's own is captured while the steps run on it, as on any; the graph is launched
 *   call n   steps whose addresses or numbers changed run again, with cuda_launch_function giving their nodes the new
 *            arguments instead of launching; nothing changed: the launch alone
 *
 * While a thread records, cuda_stream gives it the captured stream, launches go through cuda_launch_function, and
 * workspace and numbers of checks are those of the graph: the functions below, asked in these places. What launches by
 * other means (a library) is captured as well, and then every change captures the plan anew. */
#ifndef SINTER_RUNTIME_CUDA_GRAPH_H
#define SINTER_RUNTIME_CUDA_GRAPH_H
#include "runtime/cuda/cuda_internal.h"

struct CudaRecording;
extern HOT_THREAD_LOCAL struct CudaRecording *cuda_recording; /* NULL: this thread records nothing */

/* The stream that the thread captures; NULL: none of this device. */
CudaStream *cuda_recorded_stream(const CudaDevice *device);
/* Workspace: the block, or NULL and an error; false: it is the allocator's to give. */
bool cuda_recorded_block(const CudaDevice *device, size_t bytes, void **block);
bool cuda_recorded_owns(const CudaDevice *device, const void *block); /* true: it stays the graph's */
/* The number of the checks of the launch that comes next. False: it is the stream's to give. */
bool cuda_recorded_check(const CudaChecked *checked, int32_t *number);
/* Before what is launched by other means. False: it is not to be launched, as the thread gives nodes their arguments;
 * the plan is captured anew. */
bool cuda_recorded_foreign(const CudaDevice *device);
/* cuda_launch_function, for a thread that records. */
Status cuda_recorded_launch(CudaDevice *device, const CudaStart *start);

/* The row's. */
Status cuda_repeat(struct Launch *launch, struct Repeat *repeat);

#endif
