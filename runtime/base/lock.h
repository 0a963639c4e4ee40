/* lock.h: locks around a few words, which cost nothing while the process has one thread. Nothing between the two may
 * start a thread or call user code:
 *
 *   const bool locked = lock_shared(&fn->lock);
 *   fn->calls++;
 *   unlock_shared(&fn->lock, locked); */
#ifndef SINTER_RUNTIME_BASE_LOCK_H
#define SINTER_RUNTIME_BASE_LOCK_H
#include <pthread.h>
#include <stdbool.h>
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#else
#define __libc_single_threaded 0
#endif

static inline bool lock_shared(pthread_mutex_t *mutex) {
    if (__libc_single_threaded) return false;
    pthread_mutex_lock(mutex);
    return true;
}
static inline void unlock_shared(pthread_mutex_t *mutex, bool locked) {
    if (locked) pthread_mutex_unlock(mutex);
}

#endif
