/* capture_hooks.c: the table of capture_hooks.h; start.c fills it. */
#include "runtime/capture/record/capture_hooks.h"

CaptureHooks capture_hooks;
