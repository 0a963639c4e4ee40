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

/* A block that goes at the end of its scope, also where a callback does not return: ROOM_KEPT kept = {few, at}; */
typedef struct RoomKept {
    const void *usual;
    void *taken;
} RoomKept;
static inline void room_kept_give(const RoomKept *kept) { room_give(kept->usual, kept->taken); }
#define ROOM_KEPT __attribute__((cleanup(room_kept_give))) const RoomKept

#endif
