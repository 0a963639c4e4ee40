/* saved_small.h: what a function that is to be saved has not been called with: 1 and 0 where a size is free. Code is
 * made for sizes from 2 on, since 1 and 0 are cases of their own; a server that learnt with batches of 8 and 16 is
 * asked for one row all the same. */
#ifndef SINTER_RUNTIME_SAVED_SMALL_H
#define SINTER_RUNTIME_SAVED_SMALL_H
#include "runtime/capture/function/function.h"

/* Calls fn with tensors of zeros, of 1 and of 0 in each size that a case has free, where nothing is compiled for it:
 * the body runs. Only what leaves no trace but the case: no function that writes what it closes over, or has ordered
 * effects; an error, a break or anything else that a call does makes no case, and no difference. Raises nothing. */
void saved_small_learn(sn_function *fn);

#endif
