/* query.c: see query.h. */
#include "runtime/autograd/query.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/hash.h"
#include "runtime/core/tracer.h"
#include "runtime/core/user_guard.h"

static uint64_t setting_hash(SettingId setting) {
    const char *const text = setting_text(state_get(), setting);
    return hash_bytes(1, text, strlen(text));
}

int64_t query_now(QueryId query, const sn_tensor *t, int64_t at) {
    switch (query) {
#define QUERY(name, kind, now)                                                                                         \
    case QUERY_##name:                                                                                                 \
        return now;
#include "runtime/autograd/query.def"
#undef QUERY
    default:
        return 0;
    }
}

enum { KIND_layout_, KIND_state_ };

bool query_of_layout(QueryId query) {
    static const bool of_layout[] = {
#define QUERY(name, kind, now) KIND_##kind##_ == KIND_layout_,
#include "runtime/autograd/query.def"
#undef QUERY
    };
    return of_layout[query];
}

const char *query_name(QueryId query) {
    static const char *const names[] = {
#define QUERY(name, kind, now) #name,
#include "runtime/autograd/query.def"
#undef QUERY
    };
    return names[query];
}

void query_showed(QueryId query, sn_tensor *t, int64_t at, int64_t answer) {
    if (LIKELY(!tracer_learning())) return;
    tracer_tell(&(TracerQuery){.asked = ASKED_shown, .shown = &(Asked){query, t, at, answer}});
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

/* As one example's tensor is. Another thread's, or an outer call's, has its value then. */
static bool would_track(sn_tensor *t) {
    while (UNLIKELY(tensor_is_batched(t)) && !tensor_is_wrapped(t)) t = t->inner;
    TracerQuery query = {.asked = ASKED_requires_grad, .tensor = t};
    if (tracer_ask(&query)) return query.answer != 0;
    return tracer_make_foreign(t) == ST_OK && tape_tracks(t);
}

bool query_requires_grad(sn_tensor *t) {
    const bool tracks = would_track(t);
    query_showed(QUERY_requires_grad, t, 0, tracks);
    return tracks;
}
