/* stage_files.h: the setting trace: every stage of what is compiled, as files that parse back.
 *
 *   DIR/0001-f/about.txt           the function, which of its graphs, why it was compiled
 *             00-capture.sn        stages of stages.def, numbered in their order: of a function whose results carry
 *             07-loops.txt ...     gradients 05-forward.sn and 06-backward.sn, else 04-fused.sn
 *             06-backward-1.sn ... a backward of other gradients, when it is compiled
 *
 * A folder is one compiled graph. Its number is the next one that is free in DIR, and who makes the folder has it:
 * threads and processes never write into each other's. What cannot be written is a warning, once for each DIR, and
 * changes nothing else: no call fails by it. */
#ifndef SINTER_RUNTIME_STAGE_FILES_H
#define SINTER_RUNTIME_STAGE_FILES_H
#include "runtime/capture/variant/variant.h"

/* Sets the stage_folder of variants that are made. */
extern const VariantWatcher stage_files_watcher;

#endif
