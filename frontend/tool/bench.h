/* bench.h: the benchmark: rows of fully defined work, timed eagerly and compiled, beside the probes
 * of the same run.
 *
 * A row makes a Work: a body, its inputs, and how it is run. Adding a row: a function that fills a
 * Work, and its line in bench_rows.c, or in bench_peers.def where other systems are measured on it. */
#ifndef SINTER_TOOL_BENCH_H
#define SINTER_TOOL_BENCH_H
#include <sinter/sinter.h>

#include "frontend/tool/bench_stats.h"
#include "frontend/tool/target.h"
#include "runtime/base/text.h"

enum { WORK_INPUTS = 176, WORK_OUTPUTS = 16, BENCH_SIZES = 8 };

typedef enum WorkKind {
    WORK_overhead, /* ns per op of an eager loop */
    WORK_forward,  /* gradients off */
    WORK_backward, /* forward and backward with a given output gradient, to every input that
                      requires one */
    WORK_step,     /* the body is a whole training step */
    WORK_call,     /* ns per compiled call: verify and replay */
    WORK_compile   /* ms from loop IR to a callable kernel; the closure is a double, another one each time */
} WorkKind;

typedef struct Work {
    WorkKind kind;
    sn_graph *graph;  /* borrowed; the work is this text graph, not `body` */
    const char *plan; /* or this file's saved plan, which does not run eagerly */
    sn_body body;
    void *closure;
    sn_program *program; /* in the place of graph and body; NULL: none */
    void (*closure_free)(void *closure);
    sn_dynamic dynamic;
    sn_tensor *in[WORK_INPUTS]; /* kept by the work */
    CallNumbers numbers;        /* among them */
    int n_in, n_out;            /* outputs; 0: what the kind of work gives; -1: none */
    sn_dict *params;            /* borrowed from the closure: what a step changes; NULL: none */
    int ops;                    /* overhead: ops in one run of the body; of calls: times are per op, eager's too */
    sn_grad_mode mode;          /* of its runs; SN_GRAD_ON: what the kind of work has */
} Work;

typedef struct BenchRow {
    const char *name;
    void (*make)(Work *work, const int64_t *sizes);
    int64_t sizes[BENCH_SIZES];
    double flops;   /* of its products, by which the FMA probe is put beside it; 0: not counted */
    int streams;    /* device/...: tensors read and written, of sizes[1] columns and as many rows as --bytes says; they
                       are run where they are named or a device is */
    sn_dtype dtype; /* of inputs that are floats; SN_DTYPE_DEFAULT: as they are made, f32 */
    bool warm;      /* warm/...: what code costs a process where another one left it on disk */
    bool nvrtc;     /* nvrtc/...: what NVRTC takes for the text of its kernels */
} BenchRow;
extern const BenchRow bench_rows[]; /* ends with a NULL name */

/* How a variant is timed: so many runs before, then samples for about `seconds`, or exactly `repeats`, if not 0. */
typedef struct BenchHow {
    double seconds;
    int warmup, repeats;
} BenchHow;

/* bench_device.c: where a row's inputs are. */
typedef struct BenchDevice {
    sn_device device;
    sn_dtype dtype; /* of those that are floats; SN_DTYPE_DEFAULT: as they are */
} BenchDevice;
void bench_place(Work *work, const char *row, const BenchDevice *place);
int64_t bench_rows_of(const BenchRow *row, int64_t bytes); /* of a row with streams */
double bench_copy_gbs(sn_device device, int64_t bytes);    /* read and written by a copy within the device */

/* Runs a program of this tool and reads all that it prints. False: it could not be started, or failed. */
bool bench_spawn(const char *program, char **argv, Text *out);

/* bench_warm.c: what a row's function costs until it has code, in ms: made by the first process, found on disk by later
 * ones (their median and minimum). device: its name, or NULL. An error is raised. */
typedef struct BenchWarm {
    double cold_ms, ms, min_ms;
} BenchWarm;
BenchWarm bench_warm(const char *row, const char *device);

/* bench_nvrtc.c: what NVRTC takes for the stage "cuda" of a function, in ms. An error is raised. */
typedef struct BenchNvrtc {
    double ms, min_ms;
    int programs;
} BenchNvrtc;
BenchNvrtc bench_nvrtc(const char *text);

/* bench_against.c: two builds in turn. */
typedef struct Against {
    const char *program; /* the other build: its folder or its program; NULL: none */
    double seconds;
    int rounds;
    bool json;
} Against;
int bench_against(Against *a, char **names, int n);

/* bench_compare.c: two runs that were saved as JSON. */
int bench_compare(const char *old_path, const char *new_path, bool json);

#endif
