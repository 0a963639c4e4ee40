/* cases.h: replays recorded op cases (oracle/cases.md): every case eagerly against PyTorch's results, then inside a
 * compiled function against the eager bits. Public API only, but for parameter types of the op's schema.
 *
 * PyTorch's results in f32 and the half types have rounding of their own, which may be more than the tolerance (halves
 * rounded after every step, cancelled sums). So a case outside of the tolerance is called again with its floats in f64,
 * and an element passes that is no farther from that result than PyTorch's is (sums, which may cancel: than PyTorch's is
 * anywhere in that tensor); such cases are counted as `nearer`. The f64 calls are held to PyTorch's f64 results by cases
 * of their own. */
#ifndef SINTER_FRONTEND_CASES_CASES_H
#define SINTER_FRONTEND_CASES_CASES_H
#include <sinter/sinter.h>

#include "ir/op.h"
#include "runtime/base/text.h"
#include "runtime/safetensors.h"

typedef struct CaseCounts {
    int64_t passed, failed, unsupported, compiled, compiled_differing;
    int64_t nearer; /* of passed: outside of the tolerance, but nearer to the f64 result */
    int64_t ops_generated, ops_interpreted, ops_eager; /* of compiled calls, first ones left out */
} CaseCounts;

typedef struct CaseOptions {
    bool compiled;  /* also inside a compiled function */
    const char *op; /* only this overload, or NULL */
    void (*failure)(void *context, const char *file, const char *op, const char *note,
                    const char *why);
    void (*counted)(void *context, const char *op, const CaseCounts *counts); /* one case's */
    void *context;
} CaseOptions;

/* Replays one file, adding to totals. A file that can't be read raises. */
Status cases_replay(const char *path, const CaseOptions *options, CaseCounts *totals);

/* One call of a case, ready to be made. */
enum { MAX_CASE_INPUTS = 256 };
typedef struct CaseInput {
    sn_tensor *tensor;
    const Json *spec;
} CaseInput;
typedef struct CaseCall {
    Arena *arena;
    const SafeFile *file;
    const sn_op *op;
    const OpRow *row;
    OpForm form;
    bool widen; /* floats become f64 */
    sn_value args[MAX_ARGS + MAX_OUTS];
    int n_args;
    CaseInput inputs[MAX_CASE_INPUTS]; /* in the order of args, then kwargs, lists flattened */
    int n_inputs;
} CaseCall;

/* Makes the inputs and arguments of a case; raises what is wrong with it. */
Status case_call_make(CaseCall *call, const Json *spec);
/* A tensor of its own memory with the spec's sizes, strides and values; `widen`: floats as f64. */
sn_tensor *case_tensor(const SafeFile *file, const Json *spec, bool widen);

typedef struct CaseTolerance {
    double rtol, atol;
    sn_tensor *exact; /* NULL, or the f64 result of the same call on f64 inputs: an element may also
                         differ by what PyTorch's own rounding is off by, */
    bool sums;        /* anywhere in the tensor: the op adds up */
} CaseTolerance;
/* Whether `got` has dtype, sizes and values of the spec; else says why. */
bool case_close(const SafeFile *file, sn_tensor *got, const Json *spec,
                const CaseTolerance *tolerance, Text *why);
/* Only dtype and sizes: random ops. */
bool case_alike(sn_tensor *got, const Json *spec, Text *why);
CaseTolerance case_tolerance(const Json *spec, sn_tensor *exact);
CaseTolerance case_tolerance_of_dtype(const Json *spec,
                                      sn_tensor *exact); /* for mutated tensors and gradients */
/* Equal bits; NaN equals NaN [semantics B1]. */
bool case_same_bits(sn_tensor *a, sn_tensor *b, Text *why);

#endif
