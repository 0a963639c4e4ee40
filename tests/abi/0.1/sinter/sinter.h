/* sinter.h: everything. True of every function unless its line says otherwise:
   - makers return NULL on error, actions a status, questions 0, -1, false or NaN, texts "", never NULL.
   - the first error stays pending, like an exception in flight: until sn_error_take(), ops and actions do nothing.
     NULL in, NULL out; a NULL that no pending error explains is an error itself. Frees and ends always work.
   - tensors and texts you get belong to the innermost scope; getters and arguments are borrowed; any other object is
     yours until _free. Free and release accept NULL.
   - out parameters are always written: NULL on error. Structs begin with their size.
   - functions and ops: any thread; tensors: many readers or one writer, and a compiled call reads until it ends; the
     rest: one thread at a time.
   - C evaluates arguments in any order: random ops, writes, and three uses of one tensor get a statement each.
   - [class] says what capture does inside a compiled function: op (recorded, runs with its segment), event (happens at
     the call; the ops that follow remember it), meta (answered from metadata), flush (what is pending runs first),
     neutral (does not matter to it), refused (an error there). frontend/capture_class.def lists every function. */
#ifndef SINTER_H
#define SINTER_H
#include <sinter/base.h>
#include <sinter/tensor.h>
#include <sinter/ops.h>
#include <sinter/autograd.h>
#include <sinter/amp.h>
#include <sinter/compile.h>
#include <sinter/graph.h>
#include <sinter/quant.h>
#include <sinter/dispatch.h>
#include <sinter/device.h>
#include <sinter/cuda.h>
#include <sinter/memory.h>
#include <sinter/stream.h>
#include <sinter/nn.h>
#include <sinter/plan.h>
#include <sinter/inspect.h>
#include <sinter/transform.h>
#include <sinter/sparse.h>
#include <sinter/debug.h>
#include <sinter/parallel.h>
#endif
