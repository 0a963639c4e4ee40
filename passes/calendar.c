/* calendar.c: see calendar.h. */
#include "passes/calendar.h"

#include <stdlib.h>

void calendar_init(Calendar *calendar, Arena *arena, int n_steps) {
    *calendar = (Calendar){.arena = arena, .n_steps = n_steps};
    calendar->alive = ARENA_ARRAY(arena, Slots, 2 * n_steps + 2);
    calendar->starts = ARENA_ARRAY(arena, Slots, n_steps + 1);
}

static int by_offset(const void *a, const void *b) {
    const Slot *const x = *(Slot *const *)a, *const y = *(Slot *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

void calendar_place(Calendar *calendar, Slot *slot) {
    VEC_PUSH(calendar->arena, &calendar->all, slot);
    VEC_PUSH(calendar->arena, &calendar->starts[slot->first], slot);
    int low = slot->first + calendar->n_steps, high = slot->last + calendar->n_steps;
    for (; low <= high; low = (low + 1) / 2, high = (high - 1) / 2) {
        if (low & 1) VEC_PUSH(calendar->arena, &calendar->alive[low], slot);
        if (!(high & 1)) VEC_PUSH(calendar->arena, &calendar->alive[high], slot);
    }
}

static void alloc_memory(Calendar *calendar, const Slots *slots) {
    for (int i = 0; i < slots->n; i++) VEC_PUSH(calendar->arena, &calendar->found, slots->at[i]);
}

static int number_together(const Calendar *calendar, const Slot *slot) {
    int n = 0;
    for (int i = slot->first + calendar->n_steps; i > 0; i /= 2) n += calendar->alive[i].n;
    for (int step = slot->first + 1; step <= slot->last; step++) n += calendar->starts[step].n;
    return n;
}

static const Slots *all_sorted(Calendar *calendar) {
    Slots *const all = &calendar->all;
    for (; calendar->n_sorted < all->n; calendar->n_sorted++) {
        Slot *const slot = all->at[calendar->n_sorted];
        int i = calendar->n_sorted;
        for (; i > 0 && by_offset(&all->at[i - 1], &slot) > 0; i--) all->at[i] = all->at[i - 1];
        all->at[i] = slot;
        calendar->work += calendar->n_sorted - i + 1;
    }
    return all;
}

const Slots *calendar_together(Calendar *calendar, const Slot *slot) {
    if (number_together(calendar, slot) > calendar->all.n / 16) return all_sorted(calendar);
    calendar->found.n = 0;
    for (int i = slot->first + calendar->n_steps; i > 0; i /= 2) alloc_memory(calendar, &calendar->alive[i]);
    for (int step = slot->first + 1; step <= slot->last; step++) alloc_memory(calendar, &calendar->starts[step]);
    if (calendar->found.n > 1) qsort(calendar->found.at, (size_t)calendar->found.n, sizeof(Slot *), by_offset);
    return &calendar->found;
}
