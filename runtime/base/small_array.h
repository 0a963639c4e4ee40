/* small_array.h: an array whose length a call tells: the caller's own while it is long enough, else the heap. */
#ifndef SINTER_RUNTIME_BASE_SMALL_ARRAY_H
#define SINTER_RUNTIME_BASE_SMALL_ARRAY_H
#include "runtime/base/alloc.h"

/* `few` or a block of n items; NULL raises ST_MEMORY. */
#define SMALL_ARRAY(few, n) ((__typeof__(&(few)[0]))small_array_alloc(few, sizeof(few), (size_t)(n) * sizeof *(few)))
static inline void *small_array_alloc(void *few, size_t few_bytes, size_t bytes) {
    return bytes <= few_bytes ? few : mem_alloc(bytes);
}
static inline void small_array_free(const void *few, void *at) {
    if (at != few) mem_free(at);
}

/* A block that goes at the end of its scope, also where a callback does not return: SMALL_ARRAY_OWNER kept = {few,
 * at}; */
typedef struct SmallArrayOwner {
    const void *few;
    void *at;
} SmallArrayOwner;
static inline void small_array_owner_free(const SmallArrayOwner *kept) { small_array_free(kept->few, kept->at); }
#define SMALL_ARRAY_OWNER __attribute__((cleanup(small_array_owner_free))) const SmallArrayOwner

#endif
