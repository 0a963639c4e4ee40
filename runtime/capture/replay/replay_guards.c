/* replay_guards.c: see replay_guards.h. */
#include "runtime/capture/replay/replay_guards.h"

#include <pthread.h>

#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/core/user_guard.h"
#include "runtime/core/autocast.h"
#include "runtime/core/breaks.h"

/* Making one ---------------------------------------------------------------------------------- */

typedef struct ReplayGuardsBuild {
    ReplayGuards *guards;
    const Arg *in;
    const Symbols *symbols;
} ReplayGuardsBuild;

static sn_tensor *argument(const Arg *in, int i) {
    return in[i].kind == ARG_tensor && in[i].val ? tensor_of(in[i].val) : NULL;
}

static sn_tensor *slot_tensor(const ReplayGuardsBuild *m, int slot) {
    if (slot < m->guards->n_in) return argument(m->in, slot);
    const FoundTensor *const found = &m->guards->found[slot - m->guards->n_in];
    return found->bound ? found->bound : tape_grad(slot_tensor(m, found->owner));
}

/* Whose .grad the body has asked for and got this tensor; NULL: it did not come so. */
static sn_tensor *owner_of(const Symbols *s, const sn_tensor *t) {
    for (int i = 0; i < s->asked.n; i++) {
        const Asked *const a = &s->asked.at[i];
        if (a->query == QUERY_grad && a->answer && tape_grad(a->tensor) == t) return a->tensor;
    }
    return NULL;
}

/* -1: there is no room for it. */
static int slot_of(ReplayGuardsBuild *m, sn_tensor *t) {
    ReplayGuards *const w = m->guards;
    for (int i = 0; i < w->n_slots; i++)
        if (slot_tensor(m, i) == t) return i;
    sn_tensor *const owner = owner_of(m->symbols, t);
    const int of = owner && owner != t ? slot_of(m, owner) : -1;
    if ((owner && of < 0) || w->n_slots == MAX_SLOTS) return -1;
    w->found[w->n_slots - w->n_in] = owner ? (FoundTensor){.owner = of} : (FoundTensor){.bound = t};
    if (!owner) tensor_retain(t);
    return w->n_slots++;
}

static bool add_inputs(ReplayGuardsBuild *m, const Trace *trace) {
    for (int i = 0; i < trace->inputs.n; i++)
        if ((m->guards->source[i] = slot_of(m, trace->inputs.at[i].tensor)) < 0) return false;
    return true;
}

static bool add_answers(ReplayGuardsBuild *m, bool of_layout) {
    ReplayGuards *const w = m->guards;
    for (int i = 0; i < m->symbols->asked.n; i++) {
        const Asked *const a = &m->symbols->asked.at[i];
        if (query_of_layout(a->query) != of_layout) continue;
        const int slot = a->tensor ? slot_of(m, a->tensor) : -1;
        if (a->tensor && slot < 0) return false;
        w->answers[w->n_answers++] = (Answer){a->query, slot, a->at, a->answer};
    }
    return true;
}

#define NO_NUMBER UINT32_MAX /* of a handle of a level, or of what came after all numbers: no tensor has it */

/* Threads may learn the same tensor at once. */
static uint32_t learnt_number(sn_tensor *t) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint32_t last;
    uint32_t number = NO_NUMBER;
    pthread_mutex_lock(&lock);
    if (!tensor_is_batched(t) && !(atomic_load(&t->flags) & TF_learnt) && last < NO_NUMBER - 1) {
        t->learnt = ++last;
        atomic_fetch_or(&t->flags, TF_learnt);
    }
    if (atomic_load(&t->flags) & TF_learnt) number = t->learnt;
    pthread_mutex_unlock(&lock);
    return number;
}

static void record_slot(ReplayGuardsBuild *m, int slot) {
    sn_tensor *const t = slot_tensor(m, slot);
    const bool may_be_meant = t && !(atomic_load(&t->flags) & TF_lent);
    atomic_store(&m->guards->given[slot], may_be_meant ? learnt_number(t) : 0);
}

static void add_given(ReplayGuardsBuild *m) {
    ReplayGuards *const w = m->guards;
    for (int i = 0; i < w->n_inputs; i++) record_slot(m, w->source[i]);
    for (int i = 0; i < w->n_answers; i++)
        if (w->answers[i].slot >= 0) record_slot(m, w->answers[i].slot);
}

ReplayGuards *replay_guards_new(Arena *arena, const Capture *c, const Trace *trace, const Arg *in, int n_in,
                                Reason *why) {
    ReplayGuards *const w = ARENA_NEW(arena, ReplayGuards);
    if (!w) return NULL;
    const int n_asked = c->symbols->asked.n, capacity = trace->inputs.n + n_asked;
    *w = (ReplayGuards){.n_in = n_in,
                        .n_slots = n_in,
                        .n_inputs = trace->inputs.n,
                        .found = ARENA_ARRAY(arena, FoundTensor, capacity),
                        .given = ARENA_ARRAY(arena, GivenTensor, n_in + capacity),
                        .answers = ARENA_ARRAY(arena, Answer, n_asked),
                        .source = ARENA_ARRAY(arena, int, trace->inputs.n),
                        .context = state_get()->context};
    if (!w->found || !w->given || !w->answers || !w->source) return NULL;
    ReplayGuardsBuild m = {w, in, c->symbols};
    bool fine = n_in <= MAX_SLOTS && add_inputs(&m, trace) && add_answers(&m, false);
    w->n_asked = w->n_answers;
    fine = fine && add_answers(&m, true);
    if (fine) {
        add_given(&m);
        return w;
    }
    *why = BREAK_REASON(many_tensors);
    replay_guards_free(w);
    return NULL;
}

void replay_guards_free(ReplayGuards *w) {
    for (int i = 0; i < w->n_slots - w->n_in; i++) tensor_release(w->found[i].bound);
}

/* A call -------------------------------------------------------------------------------------- */

void replay_slot_print(const ReplayGuards *w, int slot, Text *text) {
    int closed = 0;
    if (slot < w->n_in) {
        text_printf(text, "argument %d", slot);
        return;
    }
    const FoundTensor *const found = &w->found[slot - w->n_in];
    for (int i = w->n_in; i < slot; i++) closed += w->found[i - w->n_in].bound != NULL;
    if (found->bound) {
        text_printf(text, "closed over %d", closed);
        return;
    }
    text_puts(text, ".grad of ");
    replay_slot_print(w, found->owner, text);
}

static bool differs(const ReplayGuards *w, int slot, Text *why, const char *what) {
    if (!why) return false;
    replay_slot_print(w, slot, why);
    text_puts(why, what);
    return false;
}

static bool answer_differs(const ReplayGuards *w, const Answer *a, int64_t now, Text *why) {
    if (!why) return false;
    if (a->query == QUERY_guard)
        text_printf(why, "guard '%s'", user_guard_at(a->at)->name);
    else
        text_puts(why, query_name(a->query));
    if (a->slot >= 0) {
        text_puts(why, " of ");
        replay_slot_print(w, a->slot, why);
    }
    text_printf(why, ": %lld, now %lld", (long long)a->answer, (long long)now);
    return false;
}

static bool is_given(const ReplayGuards *w, int slot, sn_tensor *const *at) {
    const uint32_t only = atomic_load_explicit(&w->given[slot], memory_order_relaxed);
    return !only || (at[slot] && at[slot]->flags & TF_learnt && at[slot]->learnt == only);
}

static bool answers_hold(const ReplayGuards *w, sn_tensor *const *at, Text *why) {
    for (int i = 0; i < w->n_asked; i++) {
        const Answer *const a = &w->answers[i];
        const sn_tensor *const t = a->slot >= 0 ? at[a->slot] : NULL;
        if (a->slot >= 0 && !t) return differs(w, a->slot, why, ": there is none now");
        const int64_t now = query_now(a->query, t, a->at);
        if (now != a->answer) return answer_differs(w, a, now, why);
    }
    return true;
}

const char *grad_mode_word(sn_grad_mode mode) {
    static const char *const words[] = {[SN_GRAD_ON] = "on", [SN_GRAD_OFF] = "off", [SN_INFERENCE] = "inference"};
    return words[mode];
}

static void print_autocast(const ReplayGuards *w, const sn_state *state, Text *why) {
    text_puts(why, "autocast: ");
    autocast_print(w->context.autocast, why);
    text_puts(why, ", now ");
    autocast_print(state->autocast, why);
}

static bool mode_differs(const ReplayGuards *w, const sn_state *state, Text *why) {
    const Context *const then = &w->context;
    if (!why) return false;
    if (state->grad_mode != then->grad_mode && !w->bodyless)
        text_printf(why, "grad mode: %s, now %s", grad_mode_word(then->grad_mode), grad_mode_word(state->grad_mode));
    else if (state->autocast != then->autocast)
        print_autocast(w, state, why);
    else if (state->device != then->device)
        text_printf(why, "default device: %s, now %s", DEVICE_TEXT(then->device), DEVICE_TEXT(state->device));
    else
        text_puts(why, state->api_modes ? "an API mode is active" : "a mode of the thread");
    return false;
}

#define HOLDS_same(name)     &&now->name == then->name
#define HOLDS_keys(name)     &&(now->name & ~(bodyless ? KEY_BIT(api) : 0)) == then->name
#define HOLDS_none(name)     &&!now->name
#define HOLDS_unseen(name)   &&(bodyless || !now->name)
#define HOLDS_excluded(name) &&((now->name ^ then->name) & ~(bodyless ? KEYS_OF_GRADIENTS : 0)) == 0
#define HOLDS_asked(name)    &&(bodyless || now->name == then->name)
#define HOLDS_any(name)

static inline bool context_holds(const Context *then, const Context *now, bool bodyless) {
#define MODE(type, name, at_end, replay) HOLDS_##replay(name)
    return true
#include "runtime/core/context.def"
        ;
}

bool replay_guards_hold(const ReplayGuards *w, const Arg *in, int n_in, sn_tensor **at, Text *why) {
    const sn_state *const state = state_get();
    if (n_in != w->n_in) return false;
    if (!context_holds(&w->context, &state->context, w->bodyless)) return mode_differs(w, state, why);
    for (int i = 0; i < n_in; i++) at[i] = argument(in, i);
    for (int i = n_in; i < w->n_slots; i++) {
        const FoundTensor *const found = &w->found[i - n_in];
        at[i] = found->bound ? found->bound : at[found->owner] ? tape_grad(at[found->owner]) : NULL;
        if (!at[i]) return differs(w, i, why, ": there is none now");
    }
    for (int i = 0; i < w->n_slots; i++)
        if (!is_given(w, i, at)) return differs(w, i, why, ": another tensor, and the body may mean that one");
    return answers_hold(w, at, why);
}

/* Slots that are meant ------------------------------------------------------------------------ */

static bool same_slot(const ReplayGuards *a, const ReplayGuards *b, int slot) {
    if (slot < a->n_in) return true;
    const FoundTensor *const x = &a->found[slot - a->n_in], *const y = &b->found[slot - b->n_in];
    return x->bound == y->bound && (x->bound || (x->owner == y->owner && same_slot(a, b, x->owner)));
}

/* Used for the same by both. */
static bool same_use(const ReplayGuards *a, const ReplayGuards *b, int slot) {
    for (int i = 0; i < a->n_inputs; i++)
        if ((a->source[i] == slot) != (b->source[i] == slot)) return false;
    for (int i = 0; i < a->n_answers; i++) {
        const Answer *const x = &a->answers[i], *const y = &b->answers[i];
        if ((x->slot == slot) != (y->slot == slot)) return false;
        if (x->slot == slot && (x->query != y->query || x->at != y->at)) return false;
    }
    return true;
}

void replay_guards_widen(ReplayGuards *newer, ReplayGuards *older) {
    if (newer->n_in != older->n_in || newer->n_inputs != older->n_inputs || newer->n_answers != older->n_answers)
        return;
    const int n = newer->n_slots < older->n_slots ? newer->n_slots : older->n_slots;
    for (int i = 0; i < n; i++) {
        const bool bound = i >= newer->n_in && newer->found[i - newer->n_in].bound;
        if (bound || !same_slot(newer, older, i) || !same_use(newer, older, i)) continue;
        if (atomic_load(&newer->given[i]) == atomic_load(&older->given[i])) continue;
        atomic_store(&newer->given[i], 0);
        atomic_store(&older->given[i], 0);
    }
}
