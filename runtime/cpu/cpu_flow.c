/* cpu_flow.c: control flow as a step of a plan on the CPU: what stands above the tape runs its graphs. */
#include "runtime/core/dispatch.h"
#include "runtime/core/hooks.h"

OpKernel cpu_flow;

Status cpu_flow(OpCall *call) { return runtime_hooks.flow_launch(call); }
