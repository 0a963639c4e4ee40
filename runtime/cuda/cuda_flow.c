/* cuda_flow.c: control flow as a step of a plan on a CUDA device: the host goes through the rounds and launches what is
 * in them; a predicate is read from the device, for which the host waits. */
#include "runtime/core/hooks.h"
#include "runtime/cuda/cuda_native.h"

Status cuda_flow(OpCall *call) { return runtime_hooks.flow_launch(call); }
