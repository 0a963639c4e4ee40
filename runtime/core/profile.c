/* profile.c: see profile.h. Spans are written into chunks of their thread's log without a lock; a chunk never moves,
 * and its fill is published after what is in it. Where memory is out, spans are counted and not written, and nothing is
 * raised. */
#include "runtime/core/profile.h"

#include <pthread.h>

#include "runtime/base/alloc.h"
#include "runtime/base/arena.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/core/meta_intern.h"
#include "runtime/core/tensor.h"

enum { CHUNK_EVENTS = 512, NAMES_NEAR = 64 };

typedef struct ProfileChunk {
    _Atomic(struct ProfileChunk *) next;
    ProfileMore *more; /* by event; NULL: nothing is asked for */
    ProfileEvent events[CHUNK_EVENTS];
} ProfileChunk;

typedef struct ProfileLog {
    struct ProfileLog *next; /* of the profile's */
    _Atomic int refs;        /* of the profile, and of the state or the spans that were open when that left it */
    uint64_t generation;     /* of the profile */
    ProfileChunk *first, *last;
    _Atomic int64_t n;
    int capacity;       /* left in the last chunk */
    ProfileEvent *open; /* the innermost */
    int64_t latest;     /* when a span began or ended last */
    int n_open;
    bool is_left; /* by its state */
    ProfileOptions options;
    Arena *names; /* texts, by hash in `known`; NULL: none yet */
    Map known;
    const char *near[NAMES_NEAR]; /* given lately, by where they were */
} ProfileLog;

struct Profile {
    ProfileOptions options;
    ProfileLog *logs, **end;
    int n_logs;
    ProfileWork *work;
    int64_t n_work, work_capacity;
    int64_t began, ended, dropped;
};

typedef struct OpenRange {
    struct OpenRange *next;
    ProfileSpan span;
    uint32_t n_scopes; /* that were open */
} OpenRange;

_Atomic bool profile_on;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Profile *recording; /* under the lock */
static _Atomic uint64_t generation;
static _Atomic int64_t capacity_left, dropped;

/* Nothing that fails here is the program's. */
typedef struct Unraised {
    ErrorSlot mine, *before;
} Unraised;

static void unraised_begin(Unraised *u) {
    u->mine.status = ST_OK;
    u->before = error_slot_use(&u->mine);
}

static void unraised_end(const Unraised *u) { error_slot_use(u->before); }

/* logs ------------------------------------------------------------------------------------------ */

static void chunk_free(ProfileChunk *chunk) {
    for (int i = 0; chunk->more && i < CHUNK_EVENTS; i++)
        for (int k = 0; k < chunk->more[i].n_shapes; k++) meta_release(chunk->more[i].shapes[k]);
    mem_free(chunk->more);
    mem_free(chunk);
}

static void log_release(ProfileLog *log) {
    if (atomic_fetch_sub(&log->refs, 1) != 1) return;
    for (ProfileChunk *chunk = log->first, *next; chunk; chunk = next) {
        next = atomic_load(&chunk->next);
        chunk_free(chunk);
    }
    map_free(&log->known);
    arena_free(log->names);
    mem_free(log);
}

static ProfileChunk *chunk_new(const ProfileOptions *o) {
    ProfileChunk *const chunk = mem_zero(sizeof *chunk);
    const bool more = o->shapes || o->stacks || o->memory_now;
    if (chunk && more && !(chunk->more = mem_zero(CHUNK_EVENTS * sizeof *chunk->more))) {
        mem_free(chunk);
        return NULL;
    }
    return chunk;
}

/* Spans that are open hold what their state has left. */
static void leave_log(ProfileLog *log) {
    log->is_left = true;
    if (!log->n_open) log_release(log);
}

static ProfileLog *join_profile(ProfileLog *log) {
    pthread_mutex_lock(&lock);
    const bool is_wanted = recording != NULL;
    if (is_wanted) {
        log->generation = atomic_load(&generation);
        log->options = recording->options;
        *recording->end = log, recording->end = &log->next;
        recording->n_logs++;
    }
    pthread_mutex_unlock(&lock);
    if (is_wanted) return log;
    mem_free(log);
    return NULL;
}

static COLD ProfileLog *log_new(sn_state *state) {
    Unraised u;
    unraised_begin(&u);
    ProfileLog *log = mem_zero(sizeof *log);
    if (log) atomic_store(&log->refs, 2);
    if (log) log = join_profile(log);
    unraised_end(&u);
    if (!log) return NULL;
    if (state->profile.log) leave_log(state->profile.log);
    return state->profile.log = log;
}

/* Of the profile that is on; NULL: memory is out, or it is over just now. */
static inline ProfileLog *log_of(sn_state *state) {
    ProfileLog *const log = state->profile.log;
    const bool fits = log && log->generation == atomic_load_explicit(&generation, memory_order_relaxed);
    return LIKELY(fits) ? log : log_new(state);
}

static COLD bool add_chunk(ProfileLog *log) {
    Unraised u;
    if (atomic_fetch_sub(&capacity_left, CHUNK_EVENTS) < CHUNK_EVENTS) return false;
    unraised_begin(&u);
    ProfileChunk *const chunk = chunk_new(&log->options);
    unraised_end(&u);
    if (!chunk) return false;
    if (log->last)
        atomic_store_explicit(&log->last->next, chunk, memory_order_release);
    else
        log->first = chunk;
    log->last = chunk;
    log->capacity = CHUNK_EVENTS;
    return true;
}

/* Not seen before it is published. */
static inline ProfileEvent *reserve_event(ProfileLog *log) {
    if (UNLIKELY(!log->capacity) && !add_chunk(log)) {
        atomic_fetch_add(&dropped, 1);
        return NULL;
    }
    const int at = CHUNK_EVENTS - log->capacity;
    ProfileEvent *const event = &log->last->events[at];
    event->more = log->last->more ? &log->last->more[at] : NULL;
    return event;
}

static inline void publish(ProfileLog *log) {
    log->capacity--;
    atomic_store_explicit(&log->n, atomic_load_explicit(&log->n, memory_order_relaxed) + 1, memory_order_release);
}

/* names ----------------------------------------------------------------------------------------- */

typedef struct KnownName {
    struct KnownName *next; /* of the same hash */
    char text[];
} KnownName;

static const char *find_name(ProfileLog *log, const char *name) {
    const size_t n = strlen(name);
    const uint64_t hash = hash_bytes(0, name, n) | 1;
    KnownName *const first = map_get(&log->known, hash);
    for (const KnownName *known = first; known; known = known->next)
        if (!strcmp(known->text, name)) return known->text;
    if (!log->names && !(log->names = arena_new())) return NULL;
    KnownName *const made = arena_alloc(log->names, sizeof *made + n + 1);
    if (!made) return NULL;
    memcpy(made->text, name, n + 1);
    made->next = first;
    return map_set(&log->known, hash, made) ? made->text : NULL;
}

/* The same text for as long as the log; NULL: none, or memory is out. */
static const char *log_name(ProfileLog *log, const char *name) {
    if (!name) return NULL;
    const char **const near = &log->near[(uintptr_t)name / 16 % NAMES_NEAR];
    if (LIKELY(*near != NULL) && !strcmp(*near, name)) return *near;
    Unraised u;
    unraised_begin(&u);
    *near = find_name(log, name);
    unraised_end(&u);
    return *near;
}

/* spans ----------------------------------------------------------------------------------------- */

static COLD void begin_more(ProfileMore *more, const sn_state *state, const ProfileOptions *o) {
    if (o->stacks) user_stack_capture(state, &more->stack);
    if (o->memory_now) more->memory = o->memory_now();
}

static COLD void end_more(ProfileMore *more, const ProfileOptions *o) {
    if (o->memory_now) more->memory = o->memory_now() - more->memory;
}

static COLD void notify_seen(const ProfileLog *log, const ProfileEvent *event, bool begins) {
    if (profile_is_on() && log->generation == atomic_load(&generation))
        log->options.seen(log->options.context, event, begins);
}

static ProfileSpan begin_in(sn_state *state, ProfileLog *log, ProfileKind kind, const char *name, const char *owner) {
    ProfileEvent *const event = LIKELY(log != NULL) && name ? reserve_event(log) : NULL;
    if (UNLIKELY(!event)) return (ProfileSpan){0};
    event->name = name;
    event->owner = owner;
    event->outer = log->open;
    event->kind = kind;
    if (UNLIKELY(event->more != NULL)) begin_more(event->more, state, &log->options);
    log->open = event;
    log->n_open++;
    event->from = log->latest = clock_ns();
    publish(log);
    if (UNLIKELY(log->options.seen != NULL)) notify_seen(log, event, true);
    return (ProfileSpan){log, event};
}

ProfileSpan profile_begin(ProfileKind kind, const char *name, const char *owner) {
    sn_state *const state = state_get();
    return begin_in(state, log_of(state), kind, name, owner);
}

ProfileSpan profile_begin_named(ProfileKind kind, const char *name, const char *owner) {
    sn_state *const state = state_get();
    ProfileLog *const log = log_of(state);
    return log ? begin_in(state, log, kind, log_name(log, name), log_name(log, owner)) : (ProfileSpan){0};
}

void profile_end(ProfileSpan *span) {
    ProfileLog *const log = span->log;
    ProfileEvent *const event = span->event;
    if (LIKELY(!event)) return;
    *span = (ProfileSpan){0};
    if (UNLIKELY(event->more != NULL)) end_more(event->more, &log->options);
    log->latest = clock_ns();
    atomic_store_explicit(&event->to, log->latest, memory_order_release);
    if (UNLIKELY(log->options.seen != NULL)) notify_seen(log, event, false);
    log->open = event->outer;
    if (--log->n_open == 0 && UNLIKELY(log->is_left)) log_release(log);
}

void profile_record(ProfileKind kind, const char *name, const char *owner, int64_t from, int64_t to) {
    ProfileLog *const log = log_of(state_get());
    ProfileEvent *const event = log && name ? reserve_event(log) : NULL;
    if (!event) return;
    event->name = name, event->owner = owner, event->outer = log->open, event->kind = kind;
    event->from = max_i64(from, log->latest);
    log->latest = max_i64(to, event->from);
    atomic_store_explicit(&event->to, log->latest, memory_order_relaxed);
    publish(log);
}

ProfileOrigin profile_origin(const char *name, const char *owner) {
    ProfileLog *const log = profile_is_on() ? log_of(state_get()) : NULL;
    if (!log) return (ProfileOrigin){0};
    return (ProfileOrigin){log->generation, log_name(log, name), log_name(log, owner), log->open};
}

/* what is asked for ----------------------------------------------------------------------------- */

static void record_shape(ProfileMore *more, const Val *val) {
    if (!val || more->n_shapes == PROFILE_SHAPES) return;
    meta_retain(val->meta);
    more->shapes[more->n_shapes++] = val->meta;
}

static int64_t val_bytes(const Val *val) { return val ? (int64_t)meta_bytes(val->meta) : 0; }

static bool moves_nothing(const OpRow *row) { return row->kind == KIND_view || row->kind == KIND_composite; }

static ProfileMore *wanted_shapes(const ProfileSpan *span) {
    return span->event && span->log->options.shapes ? span->event->more : NULL;
}

void profile_record_arguments(const ProfileSpan *span, const OpRow *row, const Arg *args) {
    ProfileMore *const more = wanted_shapes(span);
    if (LIKELY(!more)) return;
    for (int i = 0; i < row->n_params; i++) {
        if (args[i].kind == ARG_tensor) record_shape(more, args[i].val);
        if (args[i].kind == ARG_tensor && !moves_nothing(row)) more->bytes += val_bytes(args[i].val);
        for (int k = 0; args[i].kind == ARG_tensors && k < args[i].n; k++) {
            record_shape(more, args[i].vals[k]);
            if (!moves_nothing(row)) more->bytes += val_bytes(args[i].vals[k]);
        }
    }
}

/* Twice the terms of a product's sums; one for each element of what is computed one by one. */
static int64_t flops_of(const OpRow *row, const Arg *args, const sn_tensor *out) {
    const Meta *const meta = out->base.meta;
    if (!dtype_is_float(meta->dtype)) return 0;
    if (op_is_product(row)) {
        const Meta *const a = args[row->product.a].val->meta;
        return a->rank ? 2 * meta->numel * a->sizes[a->rank - 1] : 0;
    }
    if (row->kind == KIND_reduction && args[0].kind == ARG_tensor) return args[0].val->meta->numel;
    return row->kind == KIND_pointwise ? meta->numel : 0;
}

void profile_record_results(const ProfileSpan *span, const OpRow *row, const Arg *args, sn_tensor *const *outs, int n) {
    ProfileMore *const more = wanted_shapes(span);
    if (LIKELY(!more) || moves_nothing(row)) return;
    for (int i = 0; i < n; i++) more->bytes += outs[i] ? val_bytes(&outs[i]->base) : 0;
    if (n && outs[0]) more->flops = flops_of(row, args, outs[0]);
}

void profile_record_bytes(const ProfileSpan *span, int64_t bytes, int64_t flops) {
    ProfileMore *const more = wanted_shapes(span);
    if (more) more->bytes = bytes, more->flops = flops;
}

/* work of devices ------------------------------------------------------------------------------- */

static bool grow_work(Profile *p) {
    const int64_t capacity = p->work_capacity ? 2 * p->work_capacity : 256;
    ProfileWork *const work =
        p->n_work < p->options.most_events ? mem_resize(p->work, (size_t)capacity * sizeof *work) : NULL;
    if (!work) return false;
    p->work = work;
    p->work_capacity = capacity;
    return true;
}

void profile_record_work(const ProfileWork *work) {
    Unraised u;
    unraised_begin(&u);
    pthread_mutex_lock(&lock);
    Profile *const p = recording && work->place.profile == atomic_load(&generation) ? recording : NULL;
    if (p && (p->n_work < p->work_capacity || grow_work(p)))
        p->work[p->n_work++] = *work;
    else
        atomic_fetch_add(&dropped, 1);
    pthread_mutex_unlock(&lock);
    unraised_end(&u);
}

/* ranges ---------------------------------------------------------------------------------------- */

Status profile_range(sn_state *state, const char *name) {
    if (!state->n_scopes) return error_raise(ST_STATE, "sn_profile_range: no scope is open whose end would end it");
    if (!profile_is_on()) return ST_OK;
    OpenRange *const range = mem_alloc(sizeof *range);
    if (!range) return ST_MEMORY;
    *range = (OpenRange){state->profile.ranges, profile_begin_named(PROFILE_range, name, NULL), state->n_scopes};
    state->profile.ranges = range;
    scope_region_record(state);
    return ST_OK;
}

void profile_ranges_end(sn_state *state, uint32_t n_scopes) {
    while (state->profile.ranges && state->profile.ranges->n_scopes > n_scopes) {
        OpenRange *const range = state->profile.ranges;
        state->profile.ranges = range->next;
        profile_end(&range->span);
        mem_free(range);
    }
}

uint32_t profile_range_region(const sn_state *state) {
    return state->profile.ranges ? state->profile.ranges->n_scopes + 1 : 0;
}

void profile_state_free(sn_state *state) {
    profile_ranges_end(state, 0);
    if (state->profile.log) leave_log(state->profile.log);
    state->profile.log = NULL;
}

/* a profile ------------------------------------------------------------------------------------- */

static Profile *profile_new(const ProfileOptions *wanted) {
    Profile *const p = mem_zero(sizeof *p);
    if (!p) return NULL;
    p->options = *wanted;
    p->end = &p->logs;
    return p;
}

static bool begin_recording(Profile *p) {
    pthread_mutex_lock(&lock);
    const bool free = !recording;
    if (free) {
        recording = p;
        atomic_fetch_add(&generation, 1);
        atomic_store(&capacity_left, p->options.most_events);
        atomic_store(&dropped, 0);
        p->began = clock_ns();
        atomic_store(&profile_on, true);
    }
    pthread_mutex_unlock(&lock);
    return free;
}

Status profile_start(const ProfileOptions *wanted, Profile **out) {
    Profile *const p = profile_new(wanted);
    if (!p) return ST_MEMORY;
    if (begin_recording(p)) {
        *out = p;
        return ST_OK;
    }
    profile_free(p);
    return error_raise(ST_STATE, "a profile is being made already");
}

bool profile_is_recording(const Profile *p) {
    pthread_mutex_lock(&lock);
    const bool is_on = recording == p;
    pthread_mutex_unlock(&lock);
    return is_on;
}

void profile_pause(Profile *p) {
    pthread_mutex_lock(&lock);
    if (recording == p && atomic_exchange(&profile_on, false)) p->ended = clock_ns();
    pthread_mutex_unlock(&lock);
}

void profile_stop(Profile *p) {
    profile_pause(p);
    pthread_mutex_lock(&lock);
    if (recording == p) {
        p->dropped = atomic_load(&dropped);
        recording = NULL;
    }
    pthread_mutex_unlock(&lock);
}

void profile_free(Profile *p) {
    if (!p) return;
    profile_stop(p);
    for (ProfileLog *log = p->logs, *next; log; log = next) {
        next = log->next;
        log_release(log);
    }
    mem_free(p->work);
    mem_free(p);
}

/* reading --------------------------------------------------------------------------------------- */

int profile_threads(const Profile *p) { return p->n_logs; }

ProfileThread profile_thread(const Profile *p, int i) {
    const ProfileLog *log = p->logs;
    while (i-- > 0) log = log->next;
    return (ProfileThread){log, atomic_load_explicit(&log->n, memory_order_acquire)};
}

ProfileIterator profile_iterate(const ProfileThread *thread) {
    /* Of a log without events its thread may make the first chunk just now. */
    return (ProfileIterator){.chunk = thread->n_events ? thread->log->first : NULL, .n = thread->n_events};
}

const ProfileEvent *profile_next(ProfileIterator *iterator) {
    if (!iterator->n) return NULL;
    if (iterator->at == CHUNK_EVENTS) {
        iterator->chunk = atomic_load_explicit(&iterator->chunk->next, memory_order_acquire);
        iterator->at = 0;
    }
    iterator->n--;
    return &iterator->chunk->events[iterator->at++];
}

const ProfileWork *profile_work(const Profile *p, int64_t *n) {
    *n = p->n_work;
    return p->work;
}

int64_t profile_dropped(const Profile *p) { return p->dropped; }
int64_t profile_began(const Profile *p) { return p->began; }
int64_t profile_ended(const Profile *p) { return p->ended; }
