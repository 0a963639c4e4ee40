/* fake_mode.h: tensors without values that claim a device, and the mode that makes them. */
#ifndef SINTER_RUNTIME_FAKE_MODE_H
#define SINTER_RUNTIME_FAKE_MODE_H
#include "runtime/core/dispatch.h"

void fake_mode_start(void);

#endif
