/* symbols_shown.c: what host code was told in the body of a replay function (runtime/autograd/query.h): it is kept, for
 * the guards of the replayed call, or specialises what stands for an expression. */
#include "runtime/capture/record/symbols.h"

#include "runtime/capture/record/capture_events.h"
#include "runtime/core/breaks.h"

static void show_all(const Symbols *s, const int64_t *numbers, int n) {
    for (int i = 0; i < n; i++) sym_concrete(s->env, numbers[i]);
}

/* A result's contiguity follows from all of its sizes and strides, where it is not so for any; an argument's is
 * compared. */
static void specialise_layout(const Symbols *s, const sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    if (!p || !p->symbolic || p->symbolic->contiguous) return;
    show_all(s, p->symbolic->sizes, p->symbolic->rank);
    show_all(s, p->symbolic->strides, p->symbolic->rank);
}

/* Sizes and strides that follow from the arguments' are what they are now. */
static void specialise(const Symbols *s, const Asked *shown) {
    const Meta *const meta = symbols_meta(s, shown->tensor);
    if (shown->query == QUERY_size) show_all(s, &meta->sizes[shown->at], 1);
    if (shown->query == QUERY_stride) show_all(s, &meta->strides[shown->at], 1);
    if (shown->query == QUERY_contiguous) specialise_layout(s, shown->tensor);
}

static bool is_known(const Symbols *s, const Asked *shown) {
    for (int i = 0; i < s->asked.n; i++) {
        const Asked *const a = &s->asked.at[i];
        if (a->query == shown->query && a->tensor == shown->tensor && a->at == shown->at) return true;
    }
    return false;
}

void symbols_shown(Symbols *s, const Asked *shown) {
    sn_tensor *const t = shown->tensor;
    if (t && !t->placeholder && !t->storage) return; /* a traced body's handle is what it is */
    if (t) specialise(s, shown);
    if ((t && t->placeholder) || is_known(s, shown)) return;
    if (!VEC_GROW(s->arena, &s->asked)) {
        error_clear();
        capture_record_event(BREAK_REASON(asked_memory));
        return;
    }
    if (t) tensor_retain(t);
    s->asked.at[s->asked.n++] = *shown;
}
