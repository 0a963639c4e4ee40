/* pool.h: the fork-join pool of threads. */
#ifndef SINTER_RUNTIME_POOL_H
#define SINTER_RUNTIME_POOL_H

/* Calls body(context, i) for i < n on `threads` (setting) threads; nested calls run serially. */
void pool_run(int n, void (*body)(void *context, int i), void *context);
int pool_threads(void);
void pool_threads_set(int threads); /* 0: all cores */

#endif
