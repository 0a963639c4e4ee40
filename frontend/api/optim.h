/* optim.h: the optimizer behind sn_optim, for the scaler (scaler.c), which unscales its gradients and may keep a
 * step from changing anything. */
#ifndef SINTER_FRONTEND_OPTIM_H
#define SINTER_FRONTEND_OPTIM_H
#include "frontend/api/dict.h"
#include "runtime/core/tracer.h"

typedef Status StepFn(sn_optim *o);

/* Where the optimizer stands in a scaler's round, which ends with sn_scaler_update. */
typedef union Scaling {
    struct {
        uint64_t scaler;            /* number of the scaler that unscaled or stepped last; 0: none */
        uint64_t unscaled, stepped; /* the round in which it did */
        uint64_t empty;             /* 1: and there was no gradient to unscale */
    };
    uint64_t words[EFFECT_WORDS]; /* what an op that failed before takes back */
} Scaling;

struct sn_optim {
    StepFn *step;
    const char *maker;           /* the function that made it, for errors */
    sn_dict *params;             /* its own dictionary of the same tensors */
    sn_dict *state;              /* lr, step, and per parameter what the formula keeps */
    sn_tensor *lr, *count;       /* borrowed from state */
    sn_tensor **first, **second; /* by parameter, borrowed from state; NULL: not kept */
    double momentum, weight_decay;
    bool decays_gradient; /* Adam: weight decay is a part of the gradient */
    Scaling scaling;
    sn_tensor *found_inf; /* of the scaler that unscaled: 0-dim bool, owned; on the first parameter's device */
    sn_tensor *keep;      /* during a scaler's step: 0-dim bool, true: nothing changes */
};

/* A step that changes no bit where keep is true; NULL: a plain one. */
sn_status optim_step(sn_optim *o, sn_tensor *keep);
/* t where it is on that device already, else a copy there. */
sn_tensor *optim_on_device_of(sn_tensor *t, sn_tensor *like);

#endif
