/* memory_symbolic.c: places of slots whose sizes are symbolic, first fit as for plain sizes, in units.
 *
 * Sizes that are multiples of one expression are counted in a unit that is that expression in whole lines of 64 bytes:
 *
 *     s0*s1*4, s0*s1*8      1 and 2 units of ((s0*s1*4+63)//64)*64
 *     s0*256, s0*1024       1 and 4 units of s0*256, which needs no rounding
 *     s0*4                  a unit of its own: as 1/64 of s0*256 it would be rounded too often
 *
 * An offset is a number for each unit; the sum of these multiples is the expression. One such sum is at most another
 * where none of its numbers is larger, or where what is more of one unit is covered by what is less of others:
 * how many of one unit surely fit in another is found out once (`covers`). What is decided holds for all values of the
 * symbols, so no guard is added. Rounding costs a slot less than LARGEST_COUNT lines. */
#include <stdlib.h>

#include "passes/calendar.h"
#include "passes/internal.h"

enum { LARGEST_COUNT = 8, MOST_COMPARED = 16, LARGEST_ENDS = 4 };

typedef struct SizeUnit {
    int64_t base;  /* an expression whose terms have no common divisor */
    int64_t times; /* sizes are multiples of this many */
    int64_t bytes; /* expression, a multiple of the alignment */
} SizeUnit;

typedef struct SymbolicSlot {
    int unit;
    int64_t count;
    int64_t *offset, *end; /* by unit */
} SymbolicSlot;

typedef struct Packing {
    Plan *plan;
    VEC(SizeUnit) units;
    int64_t *covers;      /* [a * units + b]: how many of b surely fit in one of a */
    SymbolicSlot *placed; /* by slot */
    Calendar calendar;
} Packing;

/* units --------------------------------------------------------------------------------------- */

typedef struct Multiple {
    int64_t base, times;
    int slot;
} Multiple;

static bool is_aligned(const Multiple *m) { return m->times % SLOT_ALIGNMENT == 0; }

/* By base; of one base the aligned ones first, then the largest. */
static int by_multiple(const void *a, const void *b) {
    const Multiple *const x = a, *const y = b;
    if (x->base != y->base) return x->base < y->base ? -1 : 1;
    if (is_aligned(x) != is_aligned(y)) return is_aligned(x) ? -1 : 1;
    if (x->times != y->times) return x->times > y->times ? -1 : 1;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

/* How many from the first on have one unit: all that are aligned, or those that it divides in few. */
static int unit_members(const Multiple *from, int n, int64_t *times) {
    int i = 1;
    *times = from->times;
    for (; i < n && from[i].base == from->base && is_aligned(from) == is_aligned(&from[i]); i++) {
        const int64_t common = common_divisor(*times, from[i].times);
        if (!is_aligned(from) && from->times / common > LARGEST_COUNT) break;
        *times = common;
    }
    return i;
}

static int64_t whole_lines(SymEnv *env, int64_t bytes) {
    const int64_t lines = sym_div(env, sym_add(env, bytes, SLOT_ALIGNMENT - 1), SLOT_ALIGNMENT);
    return sym_mul(env, lines, SLOT_ALIGNMENT);
}

static void add_unit(Packing *p, const Multiple *members, int n, int64_t times) {
    SymEnv *const env = p->plan->env;
    SizeUnit unit = {.base = members->base, .times = times};
    unit.bytes = whole_lines(env, sym_mul(env, unit.base, times));
    for (int i = 0; i < n; i++)
        p->placed[members[i].slot] = (SymbolicSlot){.unit = p->units.n, .count = members[i].times / times};
    VEC_PUSH(p->plan->arena, &p->units, unit);
}

static void find_units(Packing *p, const SlotList *slots) {
    SymEnv *const env = p->plan->env;
    Multiple *const sizes = ARENA_ARRAY(p->plan->arena, Multiple, slots->n);
    for (int i = 0; i < slots->n; i++) {
        const int64_t bytes = slots->at[i]->bytes, times = sym_content(env, bytes);
        sizes[i] = (Multiple){sym_div(env, bytes, times), times, (int)(slots->at[i] - p->plan->slots.at)};
    }
    qsort(sizes, (size_t)slots->n, sizeof *sizes, by_multiple);
    for (int i = 0, n; i < slots->n; i += n) {
        int64_t times;
        n = unit_members(&sizes[i], slots->n - i, &times);
        add_unit(p, &sizes[i], n, times);
    }
}

/* The most by the hints, or half of it, and so on, of which it is known. */
static int64_t surely_covers(SymEnv *env, int64_t large, int64_t small) {
    const int64_t of_small = sym_hint(env, small);
    int64_t n = of_small > 0 ? sym_hint(env, large) / of_small : 0;
    while (n > 0 && !sym_surely_at_most(env, sym_mul(env, small, n), large)) n /= 2;
    return n;
}

static void compare_units(Packing *p) {
    const int n = p->units.n;
    if (n > MOST_COMPARED) return;
    p->covers = ARENA_ARRAY(p->plan->arena, int64_t, n * n);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (a != b) p->covers[a * n + b] = surely_covers(p->plan->env, p->units.at[a].bytes, p->units.at[b].bytes);
}

/* sums of units ------------------------------------------------------------------------------- */

/* Whether what is left of the others holds `missing` of one unit. */
static bool cover(const Packing *p, int64_t *left, int unit, int64_t missing) {
    const int n = p->units.n;
    for (int i = 0; i < n && missing > 0; i++) {
        const int64_t each = p->covers[i * n + unit];
        if (left[i] <= 0 || !each) continue;
        const int64_t taken = min_i64(left[i], (missing + each - 1) / each);
        left[i] -= taken, missing -= taken * each;
    }
    return missing <= 0;
}

static bool at_most(const Packing *p, const int64_t *a, const int64_t *b) {
    const int n = p->units.n;
    int64_t left[MOST_COMPARED];
    bool lacks = false;
    for (int i = 0; i < n; i++) lacks |= a[i] > b[i];
    if (!lacks || !p->covers) return !lacks;
    for (int i = 0; i < n; i++) left[i] = b[i] - a[i];
    for (int i = 0; i < n; i++)
        if (left[i] < 0 && !cover(p, left, i, -left[i])) return false;
    return true;
}

static void at_least_both(const Packing *p, int64_t *a, const int64_t *b) {
    const bool behind = at_most(p, a, b), before = !behind && at_most(p, b, a);
    for (int i = 0; i < p->units.n; i++) a[i] = behind ? b[i] : before ? a[i] : max_i64(a[i], b[i]);
}

static int64_t hinted_bytes(const Packing *p, const int64_t *counts) {
    int64_t bytes = 0;
    for (int i = 0; i < p->units.n; i++) bytes += counts[i] * sym_hint(p->plan->env, p->units.at[i].bytes);
    return bytes;
}

static int64_t counted_bytes(const Packing *p, const int64_t *counts) {
    SymEnv *const env = p->plan->env;
    int64_t bytes = 0;
    for (int i = 0; i < p->units.n; i++)
        if (counts[i]) bytes = sym_add(env, bytes, sym_mul(env, p->units.at[i].bytes, counts[i]));
    return bytes;
}

/* places -------------------------------------------------------------------------------------- */

static void move_to(Packing *p, SymbolicSlot *slot, const int64_t *offset) {
    for (int i = 0; i < p->units.n; i++) slot->offset[i] = slot->end[i] = offset[i];
    slot->end[slot->unit] += slot->count;
}

/* Puts `slot` behind the first of the others that it is not known to be apart from; false: there is none. */
static bool move_behind(Packing *p, const Slot *slot, const Slots *others) {
    SymbolicSlot *const placed = &p->placed[slot - p->plan->slots.at];
    for (int i = 0; i < others->n; i++) {
        const SymbolicSlot *const other = &p->placed[others->at[i] - p->plan->slots.at];
        p->calendar.work++;
        if (!overlap_in_time(slot, others->at[i]) || at_most(p, other->end, placed->offset) ||
            at_most(p, placed->end, other->offset))
            continue;
        at_least_both(p, placed->offset, other->end);
        move_to(p, placed, placed->offset);
        return true;
    }
    return false;
}

static void place(Packing *p, Slot *slot) {
    SymbolicSlot *const placed = &p->placed[slot - p->plan->slots.at];
    placed->offset = ARENA_ARRAY(p->plan->arena, int64_t, 2 * p->units.n);
    placed->end = placed->offset + p->units.n;
    move_to(p, placed, placed->offset);
    const Slots *const others = calendar_together(&p->calendar, slot);
    while (move_behind(p, slot, others)) continue;
    slot->offset = hinted_bytes(p, placed->offset); /* the calendar's order */
    calendar_place(&p->calendar, slot);
}

/* Largest first by the hints, then in order. */
typedef struct Sized {
    int64_t bytes;
    Slot *slot;
} Sized;

static int by_sized(const void *a, const void *b) {
    const Sized *const x = a, *const y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : (x->slot > y->slot) - (x->slot < y->slot);
}

static void place_all(Packing *p, const SlotList *slots) {
    Sized *const order = ARENA_ARRAY(p->plan->arena, Sized, slots->n);
    for (int i = 0; i < slots->n; i++) {
        const SymbolicSlot *const placed = &p->placed[slots->at[i] - p->plan->slots.at];
        const int64_t unit = sym_hint(p->plan->env, p->units.at[placed->unit].bytes);
        order[i] = (Sized){unit * placed->count, slots->at[i]};
    }
    qsort(order, (size_t)slots->n, sizeof *order, by_sized);
    for (int i = 0; i < slots->n; i++) place(p, order[i].slot);
}

/* The arena's size: the largest of the ends that are not known to be before another; of many a sum that is no less. */
static int64_t arena_end(const Packing *p, const SlotList *slots) {
    int64_t *ends[LARGEST_ENDS] = {NULL};
    int n = 0;
    for (int i = 0; i < slots->n; i++) {
        const int64_t *const end = p->placed[slots->at[i] - p->plan->slots.at].end;
        int kept = 0;
        bool inside = false;
        for (int k = 0; k < n && !inside; k++) inside = at_most(p, end, ends[k]);
        if (inside) continue;
        for (int k = 0; k < n; k++)
            if (!at_most(p, ends[k], end)) ends[kept++] = ends[k];
        if (kept == LARGEST_ENDS) {
            at_least_both(p, ends[kept - 1], end);
        } else {
            ends[kept] = ARENA_ARRAY(p->plan->arena, int64_t, p->units.n);
            memcpy(ends[kept++], end, sizeof *end * (size_t)p->units.n);
        }
        n = kept;
    }
    int64_t bytes = counted_bytes(p, ends[0]);
    for (int k = 1; k < n; k++) bytes = sym_max(p->plan->env, bytes, counted_bytes(p, ends[k]));
    return bytes;
}

int64_t pack_symbolic(Plan *plan, SlotList slots, int64_t end, int64_t *work) {
    Packing packing = {.plan = plan, .placed = ARENA_ARRAY(plan->arena, SymbolicSlot, plan->slots.n)};
    find_units(&packing, &slots);
    compare_units(&packing);
    calendar_init(&packing.calendar, plan->arena, plan->steps.n);
    place_all(&packing, &slots);
    for (int i = 0; i < slots.n; i++) {
        const int64_t *const offset = packing.placed[slots.at[i] - plan->slots.at].offset;
        slots.at[i]->offset = sym_add(plan->env, end, counted_bytes(&packing, offset));
    }
    *work += packing.calendar.work;
    return sym_add(plan->env, end, arena_end(&packing, &slots));
}
