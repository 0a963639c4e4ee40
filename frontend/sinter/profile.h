/* profile.h: where the time goes: every call of an op, those inside of ops and backwards among them, every step of a
   compiled function, what compiling does, on each thread and on each device.

       sn_profile *p = sn_profile_start(NULL);
       train(10);
       puts(sn_profile_table(p, NULL));              where the time went, by name
       puts(sn_profile_hints(p));                    what that looks like, and what helps
       sn_profile_trace_save(p, "trace.json");       for Perfetto or chrome://tracing
       sn_profile_free(p);

   One profile at a time, of the whole process. Ops that a compiled function records are its own: what shows is the call
   and its kernels. Without a profile an op pays for one branch. */
#ifndef SINTER_PROFILE_H
#define SINTER_PROFILE_H
#include <sinter/base.h>
SN_BEGIN
typedef struct sn_profile sn_profile;
typedef enum sn_profile_kind {
    SN_PROFILE_OP,    /* a call of an op */
    SN_PROFILE_COPY,  /* of one that copies */
    SN_PROFILE_CALL,  /* of a compiled function */
    SN_PROFILE_STEP,  /* of a compiled function: a kernel, an op with native code, a copy */
    SN_PROFILE_RULE,  /* of a backward: a node's turn */
    SN_PROFILE_RANGE, /* sn_profile_range */
    SN_PROFILE_STAGE, /* of compiling: trace, each pass, codegen, load */
    SN_PROFILE_WAIT   /* the host waits for a device */
} sn_profile_kind;
/* A span: from and to are nanoseconds of a clock that only goes forward; to is 0 when it begins. function: whose step
   it is, or NULL. depth: how many are open around it on its thread. */
typedef struct sn_profile_span {
    sn_profile_kind kind;
    const char *name, *function;
    int64_t from, to;
    int depth;
} sn_profile_span;
typedef struct sn_profile_options {
    size_t size;
    /* Beside names and times: sizes and dtypes of tensor arguments, with the bytes that an op reads and writes and the
       arithmetic of products; by how many bytes the CPU memory in use grew; the lines of the program that led there. */
    bool shapes, memory, stacks;
    int64_t most; /* spans that are kept, of all threads; those beyond are counted. 0: 1,048,576, some 70 MB */
    /* Called as each span begins (begins true) and ends, on its thread; it must not call Sinter. */
    void (*seen)(void *context, const sn_profile_span *span, bool begins);
    void *context;
} sn_profile_options;
#define SN_PROFILE_OPTIONS(...) SN_STRUCT(sn_profile_options, __VA_ARGS__)
/* Begins. options NULL: names and times. SN_ERR_STATE: a profile is being made already. Ends by sn_profile_stop, or by
   the first question below; it is yours until sn_profile_free, which ends it as well. [refused] */
sn_profile *sn_profile_start(const sn_profile_options *options);
/* Ends it, having waited for devices; again: nothing. [neutral] */
sn_status sn_profile_stop(sn_profile *p);
void sn_profile_free(sn_profile *p);
/* A named span on this thread until the innermost open scope ends; without a profile nothing. SN_ERR_STATE: no scope is
   open. In a compiled function it is around what the body does in a call, not around the kernels that run later.
   [neutral] */
sn_status sn_profile_range(const char *name);

typedef enum sn_profile_sort {
    SN_PROFILE_BY_SELF, /* time in the spans without those inside of them, on the host and devices */
    SN_PROFILE_BY_TOTAL,
    SN_PROFILE_BY_DEVICE, /* time that devices took for what was launched in them */
    SN_PROFILE_BY_CALLS,
    SN_PROFILE_BY_BYTES,
    SN_PROFILE_BY_MEMORY,
    SN_PROFILE_BY_NAME
} sn_profile_sort;
typedef struct sn_profile_table_options {
    size_t size;
    sn_profile_sort sort;
    int rows;                 /* at most; 0: 30, -1: all */
    bool by_shapes, by_stack; /* spans of other arguments, from other places, are rows of their own */
    bool json;
    /* What the machine can do: GFLOP/s and GB/s of bytes read and written; rows then say how near they come, of the
       nearer one. 0: not known. */
    double peak_gflops, peak_gbs;
} sn_profile_table_options;
#define SN_PROFILE_TABLE_OPTIONS(...) SN_STRUCT(sn_profile_table_options, __VA_ARGS__)
/* Spans of one name together: calls, self and total time (a span inside of one of its own name counts once), on the
   host and on devices, then what the profile was asked for. options NULL: by self, 30 rows. With .json one object:
   rows, span_ns (of the whole), dropped. [neutral] */
const char *sn_profile_table(sn_profile *p, const sn_profile_table_options *options);
/* One line each, of what bounds the program: launches, copies, kernels, the host that prepares while nothing runs,
   compiling. Says so where nothing does. [neutral] */
const char *sn_profile_hints(sn_profile *p);
/* All spans in Chrome's trace format, JSON: threads, streams of devices, and an arrow from each launch to what ran
   there. [neutral] */
const char *sn_profile_trace(sn_profile *p);
/* The same into a file. SN_ERR_IO names it. [neutral] */
sn_status sn_profile_trace_save(sn_profile *p, const char *path);
SN_END
#endif
