/* gpu.h: what the parts of the emulated driver share.
 *
 *   driver.c     the functions that a driver exports; contexts
 *   stream.c     streams as queues, events, pinned host memory
 *   graph.c      what streams do while they are captured; graphs
 *   memory.c     a device's memory: blocks in a window of addresses
 *   mapping.c    addresses apart from memory: reserved, mapped, unmapped
 *   code.c       libraries: objects of libemulated_nvrtc, mapped and linked
 *   launch.c     limits of a launch, the order of its blocks
 *   fiber.c      the threads of one block: fibers, barriers, warps
 *   access.c     every access of a kernel's code to memory, before it is made
 *   undefined.c  arithmetic of a kernel's code that C leaves undefined
 *
 * One lock (driver.c) covers all of it: one kernel runs at a time, on the thread that waits for its stream. */
#ifndef SINTER_TESTS_EMULATOR_GPU_H
#define SINTER_TESTS_EMULATOR_GPU_H
#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/driver.h"
#include "tests/emulator/emulator.h"

/* Results that a driver gives and Sinter does not ask for by name. */
enum { GPU_invalid_image = 200, GPU_out_of_resources = 701, GPU_wrong_thread = 908 };
enum { GPU_BLOCKS = 1 << 14, GPU_GRAIN = 512 };

__attribute__((format(printf, 1, 2))) void emulator_tell(const char *format, ...); /* what emulator_said gives */
long gpu_option(const char *name, long otherwise); /* of EMULATED_CUDA: gpu_option("mib=", 64) */

/* memory.c ------------------------------------------------------------------------------------- */

typedef struct GpuBlock {
    size_t at, bytes; /* in the window */
} GpuBlock;

/* Addresses, behind those of blocks. */
typedef struct GpuReserved {
    size_t at, bytes;
} GpuReserved;

typedef struct GpuMapping {
    size_t at, bytes;
    int handle;
    bool may; /* be accessed */
} GpuMapping;

/* Memory of cuMemCreate: it goes when its handle is given up and nothing maps it. */
typedef struct GpuHandle {
    size_t bytes; /* 0: no handle */
    int mapped;
    bool released;
} GpuHandle;

enum { GPU_RESERVED = 64, GPU_MAPPINGS = 1 << 10, GPU_PAGE = 2 << 20 };

typedef struct Gpu {
    char *window, *bytes; /* the same memory: as kernels see it, and as the emulator does */
    uint16_t *valid;      /* of each GPU_GRAIN bytes of the window: how many, from its start, lie in a block */
    GpuBlock blocks[GPU_BLOCKS];
    int n_blocks;
    size_t next; /* where the next block is looked for: freed places come again late */
    size_t used;
    GpuReserved reserved[GPU_RESERVED];
    int n_reserved;
    GpuMapping mappings[GPU_MAPPINGS];
    int n_mappings;
    GpuHandle handles[GPU_MAPPINGS];
    CuResult lost;
    int retained;
    struct GpuStream *usual; /* CUDA's default stream; NULL: nobody has asked for it */
} Gpu;

size_t gpu_capacity(void);
size_t gpu_blocks_size(void); /* of addresses for blocks: the gaps between them need room */
size_t gpu_window_size(void); /* these, and those that can be reserved */
void gpu_map(Gpu *gpu);
/* While it is open the window can be followed: by kernels, that is. */
void gpu_open_window(Gpu *gpu, bool open);
CuResult gpu_allocate(Gpu *gpu, CuAddress *address, size_t bytes);
CuResult gpu_free(Gpu *gpu, CuAddress address, size_t *bytes);
size_t gpu_place(const Gpu *gpu, CuAddress address);
GpuBlock *gpu_block_at(Gpu *gpu, CuAddress address, size_t n); /* the one that holds all n bytes, or NULL */
bool gpu_may_access(Gpu *gpu, CuAddress address, size_t n);    /* all of them: in a block, or mapped */
void gpu_set_valid(Gpu *gpu, size_t at, size_t bytes, bool valid);

/* mapping.c ------------------------------------------------------------------------------------ */

bool mapping_covers(const Gpu *gpu, size_t at, size_t n);
CuResult mapping_reserve(Gpu *gpu, CuAddress *address, size_t bytes);
CuResult mapping_unreserve(Gpu *gpu, CuAddress address, size_t bytes);
CuResult mapping_create(Gpu *gpu, CuMemHandle *handle, size_t bytes);
CuResult mapping_release(Gpu *gpu, CuMemHandle handle);
CuResult mapping_map(Gpu *gpu, CuAddress address, size_t bytes, CuMemHandle handle);
CuResult mapping_unmap(Gpu *gpu, CuAddress address, size_t bytes);
CuResult mapping_allow(Gpu *gpu, CuAddress address, size_t bytes);

/* code.c --------------------------------------------------------------------------------------- */

/* What words.h makes of each __global__ function. */
typedef struct GpuEntry {
    void (*enter)(void *const *arguments);
    const char *name;
    const int *sizes; /* of the parameters, then 0 */
    int most_threads; /* __launch_bounds__, 0: none */
} GpuEntry;

typedef struct GpuKernel {
    const GpuEntry *entry;
    struct GpuLibrary *library;
    int n_parameters;
    int fixed_shared; /* bytes of __shared__ variables with a size */
    int most_dynamic; /* bytes that a launch may ask for beside them */
    int queued;       /* launches that have not run */
} GpuKernel;

typedef struct GpuLibrary {
    char *image;
    size_t bytes, code_bytes;
    char *shared; /* where the __shared__ variables of all its kernels lie */
    size_t shared_bytes;
    GpuKernel *kernels;
    int n_kernels;
    struct GpuLibrary *next;
} GpuLibrary;

CuResult code_load(const void *object, GpuLibrary **out);
CuResult code_unload(GpuLibrary *library);
GpuKernel *code_find(GpuLibrary *library, const char *name);
GpuLibrary *code_library(CuLibrary handle); /* NULL: not one that is loaded */
GpuKernel *code_kernel(const void *handle); /* a CuKernel's or a CuFunction's; NULL: of no loaded library */

/* launch.c ------------------------------------------------------------------------------------- */

typedef struct Dim3 {
    unsigned x, y, z;
} Dim3;

enum { LAUNCH_THREADS = 1024, LAUNCH_SHARED = 48 << 10, LAUNCH_SHARED_OPT_IN = 163 << 10, LAUNCH_PARAMETERS = 4096 };

typedef struct GpuLaunch {
    GpuKernel *kernel;
    Dim3 grid, block;
    unsigned dynamic;
    void **arguments; /* copies */
} GpuLaunch;

CuResult launch_new(GpuLaunch request, void **arguments, GpuLaunch **out);
CuResult launch_run(Gpu *gpu, GpuLaunch *launch);
void launch_free(GpuLaunch *launch);

/* stream.c ------------------------------------------------------------------------------------- */

typedef struct GpuStream GpuStream;

typedef struct GpuRecord { /* of an event in a stream; a wait is for the newest one there is when it is asked for */
    int refs;
    bool done;
    double at; /* milliseconds, when it was done */
    GpuStream *stream;
} GpuRecord;

typedef struct GpuEvent {
    Gpu *gpu;
    bool timed;
    GpuRecord *last; /* NULL: never recorded */
} GpuEvent;

typedef enum GpuWorkKind {
    WORK_from_host,
    WORK_to_host,
    WORK_within,
    WORK_fill,
    WORK_kernel,
    WORK_record,
    WORK_wait
} GpuWorkKind;
typedef struct GpuWork {
    GpuWorkKind kind;
    bool pinned; /* the host's memory */
    CuAddress to, from;
    unsigned char byte;
    size_t n;
    void *staged; /* what a copy from pageable memory reads: as that was when the copy was asked for */
    GpuLaunch *launch;
    GpuRecord *record;
} GpuWork;

extern EmulatorCounts emulator_counts;

bool gpu_is_host(CuAddress address);             /* of no device's window */
GpuStream *stream_new(Gpu *gpu);                 /* NULL: there are too many */
GpuStream *stream_of(Gpu *gpu, CuStream handle); /* NULL: none of this device */
/* The same, and a handle of NULL is CUDA's default stream: for what goes between libraries. Work of Sinter's own there
 * would be a mistake. */
GpuStream *stream_of_any(Gpu *gpu, CuStream handle);
/* Behind all that is in the stream; a copy to pageable memory is done when it returns. */
CuResult stream_push(GpuStream *stream, GpuWork work);
CuResult stream_drain(GpuStream *stream);
CuResult stream_query(GpuStream *stream);
CuResult streams_drain(Gpu *gpu); /* all of the device */
/* Where streams are reordered: some work of any, by chance. */
void streams_stir(void);

/* The newest record of an event or a graph's end: a new one, a wait for it. */
CuResult record_push(GpuRecord **last, GpuStream *stream);
CuResult record_wait(GpuRecord *last, GpuStream *stream);
void record_release(GpuRecord *record);
GpuEvent *event_new(Gpu *gpu, bool timed);
void event_free(GpuEvent *event);
GpuEvent *event_of(CuEvent handle);
CuResult event_record(GpuEvent *event, GpuStream *stream);
CuResult event_wait(GpuEvent *event, GpuStream *stream);
CuResult event_query(GpuEvent *event);
CuResult event_synchronize(GpuEvent *event);
CuResult event_elapsed(const GpuEvent *from, const GpuEvent *to, float *milliseconds);

CuResult pinned_allocate(void **memory, size_t bytes);
CuResult pinned_free(void *memory);

/* graph.c -------------------------------------------------------------------------------------- */

typedef struct GpuGraph GpuGraph;
typedef struct GpuExec GpuExec;
typedef struct GpuCapture GpuCapture;

GpuCapture **stream_capture(GpuStream *stream); /* stream.c: where its capture is; NULL: none */
/* A call that no thread may make while it captures, a GLOBAL capture: none at all. True: it has ended the capture. */
bool capture_refuses(void);
CuResult capture_begin(GpuStream *stream, Gpu *gpu, CuCaptureMode mode);
CuResult capture_end(GpuStream *stream, CuGraph *graph);
CuResult capture_push(GpuCapture *capture, GpuWork *work); /* takes the work */
CuResult capture_spoil(GpuCapture *capture);               /* a call that a captured stream does not take */
CuResult capture_info(GpuCapture *capture, CuCaptureStatus *status, const CuGraphNode **last, size_t *n);
CuResult graph_nodes(CuGraph graph, CuGraphNode *nodes, size_t *n);
CuResult graph_instantiate(CuGraph graph, CuGraphExec *exec);
CuResult graph_set_kernel(CuGraphExec exec, CuGraphNode node, const CuKernelNode *kernel);
CuResult graph_update(CuGraphExec exec, CuGraph graph, CuGraphUpdate *update);
CuResult graph_launch(CuGraphExec exec, GpuStream *stream);
CuResult graph_destroy(CuGraph graph);
CuResult graph_exec_destroy(CuGraphExec exec);

/* fiber.c -------------------------------------------------------------------------------------- */

/* What words.h reads: blockIdx, threadIdx... */
typedef struct EmulatedPlace {
    Dim3 thread, block, block_dim, grid_dim;
} EmulatedPlace;
extern EmulatedPlace emulated_place;

extern char emulated_dynamic_shared[LAUNCH_SHARED_OPT_IN];

/* One block, from the first thread's start to the last one's end. A result that is none (fiber_fault): the threads are
 * abandoned where they stand. */
CuResult fiber_block(const GpuLaunch *launch, Dim3 block, uint64_t seed);
uint64_t fiber_random(uint64_t *state);
enum { FIBER_STACK = 256 << 10 };
extern uintptr_t fiber_stack; /* of the running thread: where its FIBER_STACK bytes begin */
/* Ends the block with this result, as the running thread; the text says why, as emulator_said does. */
__attribute__((noreturn)) void fiber_fault(CuResult result, const char *format, ...) PRINTF_LIKE(2, 3);
uint64_t emulated_barrier(int site, bool predicate);
uint64_t emulated_warp(int site, int kind, unsigned mask, uint64_t value, int from);
unsigned emulated_lane(void);
unsigned emulated_active(void);

/* access.c ------------------------------------------------------------------------------------- */

void access_begin(Gpu *gpu, const GpuLaunch *launch);
/* What an object asks for by name; NULL: nothing that there is. */
void *access_import(const char *name);

/* undefined.c ---------------------------------------------------------------------------------- */

/* What it calls where arithmetic is undefined; NULL: that is no such name. */
void *undefined_import(const char *name);

#endif
