/* eager.c: the CPU backend of the dispatcher: its fallback runs any op that has no entry of its
 * own. */
#include "runtime/dispatch.h"

void eager_start(void) {}
void eager_cache_free(sn_state *state) { (void)state; }
