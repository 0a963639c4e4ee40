/* cases.h: replays recorded op cases (oracle/cases.md): every case eagerly against PyTorch's results, then inside a
 * compiled function against the eager bits. Public API only, but for parameter types of the op's schema.
 *
 * Values are held to |got - want| <= atol + rtol |want|, and nothing else is a pass. A few recorded results are off by
 * more than that themselves (a cancelled sum, x rstd - mean rstd in a row of one element). So a case outside of the
 * tolerance is called again with its floats in f64; where PyTorch's elements that differ are outside of the tolerance
 * around that result and ours are inside, the case counts as `off_reference`: neither passed nor failed. So does an
 * element of a matrix product that is a small difference of large terms, where ours is within the tolerance's share of
 * these (the same call on the inputs' magnitudes): no order of the sum is held to more. The f64 calls are held to
 * PyTorch's f64 results by cases of their own. */
#ifndef SINTER_FRONTEND_CASES_CASES_H
#define SINTER_FRONTEND_CASES_CASES_H
#include <sinter/sinter.h>

#include "ir/op.h"
#include "runtime/base/text.h"
#include "runtime/core/safetensors.h"

typedef struct CaseCounts {
    int64_t passed, failed, unsupported, compiled, compiled_differing;
    int64_t off_reference;                             /* the recorded result or the tolerance around it is not right */
    int64_t ops_generated, ops_interpreted, ops_eager; /* of compiled calls, first ones left out */
    int64_t mapped, mapped_differing, mapped_ways; /* under sn_vmap beside a loop; ways to batch that were compared */
    int64_t unmapped_ways, alone_ways;             /* that sn_vmap refuses; that the op refuses without it */
    int64_t not_mapped;                            /* not called so: random numbers, memory that is not set, out */
} CaseCounts;

typedef struct CaseFinding { /* a case that did not pass, or differs compiled */
    const char *file, *op, *note, *why;
    bool failed;      /* else it is off_reference */
    const char *part; /* of a case of edges: "result", "mutated", "grad", "second", "refused", "accepted"; "zero" and
                        "further": elements of a result or gradient that differ so; "none": gradients that are zeros
                        where none is recorded, or the other way round, "strides": those with others */
    int64_t count;    /* elements that differ, or 1 */
} CaseFinding;

typedef struct CaseOptions {
    bool compiled;  /* also inside a compiled function */
    bool mapped;    /* also under sn_vmap */
    bool edges;     /* each element is held to the file, zeros to their sign; what differs is found by part */
    const char *op; /* only this overload, or NULL */
    void (*found)(void *context, const CaseFinding *finding);
    void (*counted)(void *context, const char *op, const CaseCounts *counts); /* one case's */
    void *context;
} CaseOptions;

void case_counts_add(CaseCounts *to, const CaseCounts *more);
/* Replays one file, adding to totals. A file that can't be read raises. */
Status cases_replay(const char *path, const CaseOptions *options, CaseCounts *totals);

/* One call of a case, ready to be made. */
typedef enum CaseFloats { FLOATS_recorded, FLOATS_wide, FLOATS_magnitudes } CaseFloats; /* the latter in f64 */
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
    CaseFloats floats;
    sn_value args[MAX_ARGS + MAX_OUTS];
    int n_args;
    CaseInput inputs[MAX_CASE_INPUTS]; /* in the order of args, then kwargs, lists flattened */
    int n_inputs;
} CaseCall;

/* Makes the inputs and arguments of a case; raises what is wrong with it. */
Status case_call_make(CaseCall *call, const Json *spec);
/* The call's tensors in the order of its arguments, lists flattened, absent ones left out; how many. */
int case_inputs(const CaseCall *call, sn_tensor **inputs);
/* The arguments with others in their places; room for those of lists. */
void case_args_with(const CaseCall *call, sn_tensor *const *tensors, sn_value *args, sn_tensor **lists);
/* The call under sn_vmap, beside a loop (case_vmap.c): what came of the ways to batch it; says what differs. False: it
 * is none that is compared. */
typedef struct CaseMapped {
    int same, differing, refused, alone;
} CaseMapped;
bool case_vmap(const CaseCall *call, CaseMapped *mapped, Text *why);
/* {"i": 3} and its kind. */
Status case_number(const Json *spec, sn_value *out);
/* A tensor of its own memory with the spec's sizes, strides and values. */
sn_tensor *case_tensor(const SafeFile *file, const Json *spec, CaseFloats floats);

typedef struct CaseDiffs { /* elements: not as recorded; recorded further from the exact value; zeros by their sign */
    int64_t wrong, off, signs;
    int64_t none, strides; /* gradients: of zeros where none is recorded, or the other way round; that lie otherwise */
    int shown;             /* how many the text tells */
} CaseDiffs;
typedef struct CaseTolerance {
    double rtol, atol;
    CaseDiffs *diffs; /* NULL: the first that is wrong ends it */
    sn_tensor *exact; /* NULL, or the f64 result of the same call on f64 inputs: stands in for
                         recorded elements that are outside of the tolerance around it */
    sn_tensor *terms; /* NULL, or the sums of the magnitudes of an element's terms, in f64 */
} CaseTolerance;
/* Whether `got` has dtype, sizes and values of the spec; else says why. */
bool case_close(const SafeFile *file, sn_tensor *got, const Json *spec, const CaseTolerance *tolerance, Text *why);
/* Whether all elements of the spec are 0. */
bool case_zeros(const SafeFile *file, const Json *spec);
/* Only dtype and sizes: random ops. */
bool case_alike(sn_tensor *got, const Json *spec, Text *why);
/* Whether a result of the spec's sizes has its strides too, but those that reach no second element. */
bool case_laid_out(sn_tensor *got, const Json *spec, Text *why);
CaseTolerance case_tolerance(const Json *spec, sn_tensor *exact);
/* for mutated tensors and gradients */
CaseTolerance case_tolerance_of_dtype(const Json *spec, sn_tensor *exact);
/* Equal bits and strides; NaN equals NaN [semantics B1]. */
bool case_same_bits(sn_tensor *a, sn_tensor *b, Text *why);

#endif
