/* arena.c: chunks of doubling size, up to one huge page, in a list; freeing walks the list. */
#include "runtime/base/arena.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/alloc.h"

enum { FIRST_CHUNK = 16 << 10, ALIGNMENT = 16 };

struct ArenaChunk {
    ArenaChunk *next;
    size_t capacity;
};
_Static_assert(sizeof(ArenaChunk) % ALIGNMENT == 0, "blocks begin behind the header");
static const size_t LARGEST_CHUNK = HUGE_PAGE - sizeof(ArenaChunk);

Arena *arena_new(void) {
    Arena *const arena = mem_zero(sizeof *arena);
    if (arena) arena->at = arena->end = (char *)(arena + 1); /* no room, but not NULL */
    return arena;
}

void arena_free(Arena *arena) {
    if (!arena) return;
    for (ArenaChunk *chunk = arena->chunks; chunk;) {
        ArenaChunk *const next = chunk->next;
        mem_free(chunk);
        chunk = next;
    }
    mem_free(arena);
}

void arena_on_failure(Arena *arena, ArenaBail *bail, void *context) {
    arena->bail = bail;
    arena->bail_context = context;
}

/* Blocks come from the newest chunk only. */
static void open_chunk(Arena *arena, ArenaChunk *chunk) {
    arena->chunks = chunk;
    arena->at = (char *)(chunk + 1);
    arena->end = arena->at + chunk->capacity;
}

void *arena_grow(Arena *arena, size_t bytes) {
    size_t capacity = arena->chunks ? arena->chunks->capacity * 2 : FIRST_CHUNK;
    if (capacity > LARGEST_CHUNK) capacity = LARGEST_CHUNK;
    if (capacity < bytes) capacity = bytes;
    const size_t whole = sizeof(ArenaChunk) + capacity;
    ArenaChunk *const chunk = whole < HUGE_PAGE ? mem_alloc(whole) : mem_huge(whole);
    if (!chunk) {
        if (arena->bail) arena->bail(arena->bail_context);
        return NULL;
    }
    *chunk = (ArenaChunk){.next = arena->chunks, .capacity = capacity};
    open_chunk(arena, chunk);
    arena->total += capacity;
    return arena_alloc_raw(arena, bytes);
}

void *arena_alloc(Arena *arena, size_t bytes) {
    void *const block = arena ? arena_alloc_raw(arena, bytes) : NULL; /* none where memory was out */
    return block ? memset(block, 0, bytes) : NULL;
}

/* Keeps the newest chunk, the largest: an arena that is reset for every call stops allocating. */
void arena_reset(Arena *arena) {
    ArenaChunk *const kept = arena->chunks;
    if (!kept) return;
    for (ArenaChunk *chunk = kept->next; chunk;) {
        ArenaChunk *const next = chunk->next;
        arena->total -= chunk->capacity;
        mem_free(chunk);
        chunk = next;
    }
    kept->next = NULL;
    open_chunk(arena, kept);
}

void *arena_copy(Arena *arena, const void *from, size_t bytes) {
    void *const to = arena_alloc_raw(arena, bytes);
    if (to && bytes) memcpy(to, from, bytes);
    return to;
}

char *arena_strdup(Arena *arena, const char *text) { return arena_copy(arena, text, strlen(text) + 1); }

char *arena_printf(Arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *const text = arena_alloc(arena, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

size_t arena_bytes(const Arena *arena) { return arena->total; }

bool vec_reserve(Arena *arena, void **at, int n, int *capacity, size_t item_bytes) {
    if (n < *capacity) return true;
    const int more = *capacity ? *capacity * 2 : 8;
    void *const block = arena_alloc_raw(arena, item_bytes * (size_t)more);
    if (!block) return false;
    if (n) memcpy(block, *at, item_bytes * (size_t)n);
    *at = block;
    *capacity = more;
    return true;
}
