/* hooks.c: the table of hooks.h; start.c fills it. */
#include "runtime/core/hooks.h"

RuntimeHooks runtime_hooks;
