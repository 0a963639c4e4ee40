/* cpu_launch.h: the CPU's launch of one kernel of a plan, for its row in the table of devices. */
#ifndef SINTER_RUNTIME_CPU_LAUNCH_H
#define SINTER_RUNTIME_CPU_LAUNCH_H
#include "runtime/device/launch.h"

Status cpu_launch(Launch *launch, int step);
/* All steps of a call whose arenas stay (repeat.h). */
Status cpu_repeat(Launch *launch, struct Repeat *repeat);

#endif
