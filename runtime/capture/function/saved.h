/* saved.h: a compiled function as text, which becomes a function that runs without the body.
 *
 *     plan NAME
 *     closed over f32[128,64] embedded: fc1.weight     what it closes over, by name
 *     extension pass fuse 3                            what of the program's took part, by name and version
 *     segment inputs 3, numbers 1                      an op sequence, with the cases compiled for it,
 *     case ...                                         oldest first (case_text.h)
 *     program of segment 0 ...                         calls that are this segment (specialized_text.h)
 *     end
 *
 * A function of mode replay has such a text if each of its calls was one segment that could be learnt; of one whose
 * results carry gradients it is the forward. How tensors are stored and files are read is its caller's
 * (frontend/api/plan.c). */
#ifndef SINTER_RUNTIME_SAVED_H
#define SINTER_RUNTIME_SAVED_H
#include "runtime/capture/replay/specialized_text.h"
#include "runtime/capture/function/function.h"

typedef struct SavedTensor {
    const char *name;
    const Meta *meta;
    sn_tensor *tensor; /* borrowed */
    bool embedded;
} SavedTensor;

typedef struct SavedPlan {
    Arena *arena;
    const char *name;
    VEC(SavedTensor) closed;
    VEC(const char *) extensions; /* of a text: "pass fuse 3" */
    TextReader rest;              /* of a text: behind what is above */
} SavedPlan;

/* One that can be saved is called with small sizes (saved_small.h), in the caller's context. */
void saved_prepare(sn_function *fn);
/* What fn closes over, named closed0, closed1... in the plan's arena; or why it cannot be saved (ST_UNSUPPORTED). Names
 * and `embedded` may be changed then: a name has no line end. */
Status saved_collect(sn_function *fn, SavedPlan *plan);
/* An error also where fn has been called since, by another thread, and closes over more now. */
Status saved_print(sn_function *fn, const SavedPlan *plan, Text *text);

/* The first lines of a text: the name and what it closes over, whose tensors are not set. */
Status saved_parse_head(Arena *arena, const char *text, SavedPlan *plan);
/* The rest, once each tensor is set, which has the plan's metadata: a function that the caller owns. */
Status saved_parse(SavedPlan *plan, sn_function **out);

/* The calls of a loaded one run the ops of its graphs one by one from here on. Raises where its file has none. */
Status saved_run_by_ops(sn_function *fn);

#endif
