/* room.h: an array whose length a call tells: the caller's own while it is long enough, else the heap. */
#ifndef SINTER_RUNTIME_BASE_ROOM_H
#define SINTER_RUNTIME_BASE_ROOM_H
#include "runtime/base/alloc.h"

/* `usual` or a block of n items; NULL raises ST_MEMORY. */
#define ROOM(usual, n) ((__typeof__(&(usual)[0]))room_take(usual, sizeof(usual), (size_t)(n) * sizeof *(usual)))
static inline void *room_take(void *usual, size_t usual_bytes, size_t bytes) {
    return bytes <= usual_bytes ? usual : mem_alloc(bytes);
}
static inline void room_give(const void *usual, void *taken) {
    if (taken != usual) mem_free(taken);
}

#endif
