/* query.c: see query.h. */
#include "runtime/capture/record/query.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/hash.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/capture_events.h"
#include "runtime/capture/record/user_guard.h"

static uint64_t setting_hash(SettingId setting) {
    const char *const text = setting_text(state_get(), setting);
    return hash_bytes(1, text, strlen(text));
}

int64_t query_now(QueryId query, const sn_tensor *t, int64_t at) {
    switch (query) {
#define QUERY(name, kind, now)                                                                                         \
    case QUERY_##name:                                                                                                 \
        return now;
#include "runtime/capture/record/query.def"
#undef QUERY
    default:
        return 0;
    }
}

enum { KIND_layout_, KIND_state_ };

bool query_of_layout(QueryId query) {
    static const bool of_layout[] = {
#define QUERY(name, kind, now) KIND_##kind##_ == KIND_layout_,
#include "runtime/capture/record/query.def"
#undef QUERY
    };
    return of_layout[query];
}

const char *query_name(QueryId query) {
    static const char *const names[] = {
#define QUERY(name, kind, now) #name,
#include "runtime/capture/record/query.def"
#undef QUERY
    };
    return names[query];
}

/* A result's contiguity follows from all of its sizes and strides, where it is not so for any; an argument's is
 * compared. */
static void specialise_layout(sn_tensor *t) {
    const struct Placeholder *const p = t->placeholder;
    if (!p || !p->symbolic || p->symbolic->contiguous) return;
    symbols_show_sizes(t, 0, t->base.meta->rank);
    symbols_show_strides(t, 0, t->base.meta->rank);
}

/* Sizes and strides that follow from the arguments' are what they are now. */
static void specialise(sn_tensor *t, QueryId query, int64_t at) {
    if (query == QUERY_size) symbols_show_sizes(t, (int)at, 1);
    if (query == QUERY_stride) symbols_show_strides(t, (int)at, 1);
    if (query == QUERY_contiguous) specialise_layout(t);
}

static bool is_known(const Symbols *s, QueryId query, const sn_tensor *t, int64_t at) {
    for (int i = 0; i < s->asked.n; i++) {
        const Asked *const a = &s->asked.at[i];
        if (a->query == query && a->tensor == t && a->at == at) return true;
    }
    return false;
}

void query_showed(QueryId query, sn_tensor *t, int64_t at, int64_t answer) {
    Symbols *const s = symbols_asked();
    if (!s || (t && !t->placeholder && !t->storage)) return; /* a traced body's handle is what it is */
    if (t) specialise(t, query, at);
    if ((t && t->placeholder) || is_known(s, query, t, at)) return;
    if (!VEC_GROW(s->arena, &s->asked)) {
        error_clear();
        capture_record_event(BREAK_TEXT(asked_memory));
        return;
    }
    if (t) tensor_retain(t);
    s->asked.at[s->asked.n++] = (Asked){query, t, at, answer};
}

/* One example's layout is that of all without the batch dim. */
static int64_t ask_inner(QueryId query, sn_tensor *t, int64_t at) {
    if (query != QUERY_keys && tensor_is_wrapped(t)) return query_ask(query, t->inner, at);
    if (query == QUERY_rank) return query_ask(query, t->inner, at) - 1;
    if (query == QUERY_size || query == QUERY_stride) return query_ask(query, t->inner, at + 1);
    if (query == QUERY_keys) return query_ask(query, t->inner, at) | (int64_t)KEY_BIT(vmap);
    if (query != QUERY_contiguous) return query_ask(query, t->inner, at);
    for (int d = 0; d < t->base.meta->rank; d++) ask_inner(QUERY_size, t, d), ask_inner(QUERY_stride, t, d);
    return query_now(query, t, at);
}

int64_t query_ask(QueryId query, sn_tensor *t, int64_t at) {
    if (UNLIKELY(t && tensor_is_batched(t))) return ask_inner(query, t, at);
    const int64_t answer = query_now(query, t, at);
    query_showed(query, t, at, answer);
    return answer;
}
