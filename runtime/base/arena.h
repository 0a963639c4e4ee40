/* arena.h: bump allocation with one free at the end; everything made while compiling lives in one.
 *
 * An arena that runs out of memory raises ST_MEMORY and returns NULL, unless a bail-out is set: then it calls that
 * instead and never returns NULL (runtime/compile/compile.c sets one around a compile, see codegen and passes). */
#ifndef SINTER_RUNTIME_BASE_ARENA_H
#define SINTER_RUNTIME_BASE_ARENA_H
#include "runtime/base/base.h"

typedef void ArenaBail(void *context); /* must not return */
typedef struct ArenaChunk ArenaChunk;
typedef struct Arena { /* fields are arena.c's; here so that taking a block is inline */
    char *at, *end;    /* what is left of the newest chunk; at is 16-byte aligned */
    ArenaChunk *chunks;
    size_t total;
    ArenaBail *bail;
    void *bail_context;
} Arena;

Arena *arena_new(void); /* NULL on failure */
void arena_free(Arena *arena);
void arena_reset(Arena *arena); /* everything made so far is gone; memory is kept for reuse */
void arena_on_failure(Arena *arena, ArenaBail *bail, void *context);
void *arena_alloc(Arena *arena, size_t bytes); /* zeroed, 16-byte aligned */
void *arena_grow(Arena *arena, size_t bytes);  /* for arena_alloc_raw: a block of a new chunk */
/* Uninitialised, 16-byte aligned. */
static inline void *arena_alloc_raw(Arena *arena, size_t bytes) {
    const size_t rounded = (bytes + 15) & ~(size_t)15;
    char *const block = arena->at;
    if (UNLIKELY((size_t)(arena->end - block) < rounded)) return arena_grow(arena, rounded);
    arena->at = block + rounded;
    return block;
}
void *arena_copy(Arena *arena, const void *from, size_t bytes);
char *arena_strdup(Arena *arena, const char *text);
char *arena_printf(Arena *arena, const char *format, ...) PRINTF_LIKE(2, 3);
size_t arena_bytes(const Arena *arena);

#define ARENA_NEW(arena, type)      ((type *)arena_alloc((arena), sizeof(type)))
#define ARENA_ARRAY(arena, type, n) ((type *)arena_alloc((arena), sizeof(type) * (size_t)(n)))

/* A growable array in an arena: `VEC(Node *) nodes;` then VEC_PUSH(arena, &nodes, node); old storage is simply left
 * behind. Zero-initialised means empty. */
#define VEC(type)                                                                                                      \
    struct {                                                                                                           \
        type *at;                                                                                                      \
        int n, capacity;                                                                                               \
    }
#define VEC_PUSH(arena, vec, item) (VEC_GROW(arena, vec) ? (void)((vec)->at[(vec)->n++] = (item)) : (void)0)
/* Room for one more item; false when memory is out. */
#define VEC_GROW(arena, vec)                                                                                           \
    (LIKELY((vec)->n < (vec)->capacity) ||                                                                             \
     vec_reserve((arena), (void **)&(vec)->at, (vec)->n, &(vec)->capacity, sizeof *(vec)->at))
/* The place of the next item, to be filled there and then counted (n++); NULL: memory is out. */
#define VEC_NEXT(arena, vec) (VEC_GROW(arena, vec) ? &(vec)->at[(vec)->n] : NULL)
/* Room for n items in an empty array, where that many are likely; does nothing when memory is out. */
#define VEC_START(arena, vec, count)                                                                                   \
    ((vec)->at = arena_alloc_raw((arena), sizeof *(vec)->at * (count)), (vec)->capacity = (vec)->at ? (count) : 0)
/* Makes room for one more; false when memory is out. */
bool vec_reserve(Arena *arena, void **at, int n, int *capacity, size_t item_bytes);

#endif
