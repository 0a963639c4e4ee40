/* profile_timeline.c: see profile.h. A log has a span before those inside of it, and says of each which was open. */
#include "frontend/api/profile.h"

#include "runtime/base/hash.h"
#include "runtime/core/site.h"

static const char *const kind_names[PROFILE_KINDS] = {
    [PROFILE_op] = "op",     [PROFILE_copy] = "copy",   [PROFILE_call] = "call",   [PROFILE_step] = "step",
    [PROFILE_rule] = "rule", [PROFILE_range] = "range", [PROFILE_stage] = "stage", [PROFILE_wait] = "wait"};

const char *profile_kind_name(ProfileKind kind) { return kind_names[kind]; }

void profile_print_shapes(const ProfileMore *more, Text *out) {
    for (int i = 0; more && i < more->n_shapes; i++) {
        const Meta *const meta = more->shapes[i];
        text_printf(out, "%s%s[", i ? ", " : "", dtype_name(meta->dtype));
        for (int d = 0; d < meta->rank; d++) text_printf(out, "%s%lld", d ? ", " : "", (long long)meta->sizes[d]);
        text_puts(out, "]");
    }
}

/* Names of places are looked up once: each costs a search of the debug information. */
struct SiteNames {
    Arena *arena;
    Map by_address;
};

static const char *name_of_site(SiteNames *places, const void *address) {
    const char *name = map_get(&places->by_address, (uint64_t)(uintptr_t)address);
    char text[256];
    if (name) return name;
    site_name(address, text, sizeof text);
    if (!(name = arena_strdup(places->arena, text))) return "";
    map_set(&places->by_address, (uint64_t)(uintptr_t)address, (void *)(uintptr_t)name);
    return name;
}

void profile_print_stack(const Timeline *t, const ProfileMore *more, Text *out) {
    for (int i = 0; more && t->places && i < more->stack.n; i++)
        text_printf(out, "%s%s", i ? " < " : "", name_of_site(t->places, more->stack.frames[i]));
}

/* reading --------------------------------------------------------------------------------------- */

typedef struct TimelineReader {
    Timeline *t;
    Map places; /* of spans by their events, 1 + the index */
    const void **streams;
    int capacity; /* for spans: as many events as there were when they were counted */
} TimelineReader;

static int event_number(const TimelineReader *r, const ProfileEvent *event) {
    return event ? (int)(intptr_t)map_get(&r->places, (uint64_t)(uintptr_t)event) - 1 : -1;
}

/* Who is still open ends with the profile, or with what it is in, where that was left by a jump. */
static int64_t end_of(const Timeline *t, const ProfileEvent *event, int parent) {
    const int64_t ended = atomic_load_explicit(&event->to, memory_order_acquire);
    const int64_t to = ended ? ended : t->to;
    const int64_t last = parent < 0 ? to : min_i64(to, t->spans[parent].to);
    return max_i64(last, event->from);
}

static Status read_event(TimelineReader *r, const ProfileEvent *event, int thread) {
    Timeline *const t = r->t;
    const int parent = event_number(r, event->outer);
    TimelineSpan *const span = &t->spans[t->n_spans++];
    *span = (TimelineSpan){.name = event->name,
                           .owner = event->owner,
                           .kind = event->kind,
                           .thread = thread,
                           .parent = parent,
                           .from = event->from,
                           .to = end_of(t, event, parent),
                           .more = atomic_load(&event->to) ? event->more : NULL};
    return map_set(&r->places, (uint64_t)(uintptr_t)event, (void *)(intptr_t)t->n_spans) ? ST_OK : ST_MEMORY;
}

static Status read_threads(TimelineReader *r, const Profile *p) {
    for (int i = 0; i < r->t->n_threads; i++) {
        const ProfileThread thread = profile_thread(p, i);
        ProfileIterator iterator = profile_iterate(&thread);
        for (const ProfileEvent *event; (event = profile_next(&iterator));)
            if (r->t->n_spans < r->capacity) TRY(read_event(r, event, i)); /* threads go on meanwhile */
    }
    return ST_OK;
}

static int stream_number(TimelineReader *r, const void *stream) {
    for (int i = 0; i < r->t->n_streams; i++)
        if (r->streams[i] == stream) return i;
    r->streams[r->t->n_streams] = stream;
    return r->t->n_streams++;
}

static void read_work(TimelineReader *r, const ProfileWork *work, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (!work[i].place.name || work[i].ns < 0) continue;
        r->t->work[r->t->n_work++] = (TimelineWork){.name = work[i].place.name,
                                                    .owner = work[i].place.owner,
                                                    .device = work[i].device,
                                                    .stream = stream_number(r, work[i].stream),
                                                    .launched = event_number(r, work[i].place.launched_in),
                                                    .from = work[i].from,
                                                    .to = work[i].from + work[i].ns};
    }
}

static Status read_profile(TimelineReader *r, const Profile *p, Arena *arena) {
    Timeline *const t = r->t;
    int64_t n_spans = 0, n_work;
    const ProfileWork *const work = profile_work(p, &n_work);
    t->n_threads = profile_threads(p);
    for (int i = 0; i < t->n_threads; i++) n_spans += profile_thread(p, i).n_events;
    r->capacity = (int)min_i64(n_spans, INT32_MAX);
    t->spans = ARENA_ARRAY(arena, TimelineSpan, n_spans + 1);
    t->work = ARENA_ARRAY(arena, TimelineWork, n_work + 1);
    r->streams = ARENA_ARRAY(arena, const void *, n_work + 1);
    if (!t->spans || !t->work || !r->streams) return ST_MEMORY;
    TRY(read_threads(r, p));
    read_work(r, work, n_work);
    return ST_OK;
}

Status timeline_of(const Profile *profile, const ProfileOptions *options, Arena *arena, Timeline *out) {
    *out = (Timeline){.from = profile_began(profile),
                      .to = profile_ended(profile),
                      .dropped = profile_dropped(profile),
                      .has_shapes = options->shapes,
                      .has_memory = options->memory_now != NULL,
                      .has_stacks = options->stacks};
    if (options->stacks && !(out->places = ARENA_NEW(arena, SiteNames))) return ST_MEMORY;
    if (out->places) out->places->arena = arena;
    TimelineReader reader = {.t = out};
    const Status status = read_profile(&reader, profile, arena);
    map_free(&reader.places);
    if (status == ST_OK) timeline_sum(out);
    return status;
}

void timeline_end(Timeline *t) {
    if (t->places) map_free(&t->places->by_address);
}

/* sums ------------------------------------------------------------------------------------------ */

void timeline_sum(Timeline *t) {
    for (int i = 0; i < t->n_spans; i++) {
        TimelineSpan *const span = &t->spans[i];
        span->self = span->to - span->from;
        span->device_self = span->device_total = 0;
        if (span->parent >= 0) t->spans[span->parent].self -= span->to - span->from;
    }
    for (int i = 0; i < t->n_work; i++)
        if (t->work[i].launched >= 0) t->spans[t->work[i].launched].device_self += t->work[i].to - t->work[i].from;
    for (int i = t->n_spans - 1; i >= 0; i--) { /* what is inside comes first */
        TimelineSpan *const span = &t->spans[i];
        span->device_total += span->device_self;
        if (span->parent >= 0) t->spans[span->parent].device_total += span->device_total;
    }
}
