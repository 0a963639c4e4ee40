/* step_cost.h: what a step of a plan reads, writes and computes in one launch, for a profile: as many bytes as its
 * tensors have (what it reads twice counts once), and twice the terms of a product's sums. */
#ifndef SINTER_RUNTIME_STEP_COST_H
#define SINTER_RUNTIME_STEP_COST_H
#include "runtime/device/launch.h"

typedef struct StepCost {
    int64_t bytes, flops; /* 0: none, or not known: of fused pointwise code nobody counts */
} StepCost;
StepCost step_cost(const Launch *launch, const Step *step);

#endif
