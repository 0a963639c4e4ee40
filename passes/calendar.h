/* calendar.h: slots of one arena that have their place, by the time in which they are alive, for the two that pack
 * arenas: memory.c and memory_symbolic.c. */
#ifndef SINTER_PASSES_CALENDAR_H
#define SINTER_PASSES_CALENDAR_H
#include "ir/plan.h"

enum { SLOT_ALIGNMENT = 64 };

typedef VEC(Slot *) Slots;

/* The placed slots by their time. What overlaps with [first, last] is alive at `first` or starts later within it: the
 * former are in the ranges of a tree over the steps that `first` lies in, the latter in the steps' lists. */
typedef struct Calendar {
    Arena *arena;
    int n_steps;
    Slots *alive;  /* tree: node i has the children 2i and 2i+1, step s is leaf n_steps + s */
    Slots *starts; /* by step */
    Slots all;     /* by offset; those from `n_sorted` on as they were placed */
    int n_sorted;
    int64_t work; /* slots looked at and moved */
    Slots found;
} Calendar;

void calendar_init(Calendar *calendar, Arena *arena, int n_steps);
void calendar_place(Calendar *calendar, Slot *slot);
/* Placed slots by offset: those that are alive together with `slot`, or, where these are many, all. */
const Slots *calendar_together(Calendar *calendar, const Slot *slot);

typedef struct SlotList {
    Slot **at;
    int n;
} SlotList;
/* All slots of a device's arena, whose lifetimes are known; `order` has room for them. The arena's size. */
int64_t pack_arena(Plan *plan, Device device, Slot **order, int64_t *work);
/* Those whose sizes are symbolic, behind `end` (memory_symbolic.c). The arena's size. */
int64_t pack_symbolic(Plan *plan, SlotList slots, int64_t end, int64_t *work);

static inline bool overlap_in_time(const Slot *a, const Slot *b) { return a->first <= b->last && b->first <= a->last; }

#endif
