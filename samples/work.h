/* work.h: what a sample gives `sinter bench SAMPLE` to time and `sinter run SAMPLE --json` to call. The tool opens
 * lib/samples/SAMPLE.so, made of the same file as the program, and calls its sample_work; main uses the same one, so
 * that what is timed is what runs. */
#ifndef SINTER_SAMPLES_WORK_H
#define SINTER_SAMPLES_WORK_H
#include <sinter/sinter.h>

typedef enum SampleKind {
    SAMPLE_FORWARD,  /* the function, gradients off */
    SAMPLE_BACKWARD, /* the function and the gradients of its inputs */
    SAMPLE_STEP      /* a whole training step */
} SampleKind;

typedef struct SampleWork {
    SampleKind kind;
    sn_body body; /* with its closure, or a graph, which the caller frees */
    void *closure;
    sn_graph *graph;
    sn_tensor *in[4]; /* the scope's, as everything that the closure holds */
    int n_in, n_out;
} SampleWork;

/* Errors are left pending. */
__attribute__((visibility("default"))) void sample_work(SampleWork *work);

/* What the program takes, "[--json] [--steps N]"; without this one it takes nothing, and `sinter run` refuses the rest.
 * With --json it prints its results as one JSON object. */
__attribute__((visibility("default"))) extern const char sample_arguments[];

#endif
