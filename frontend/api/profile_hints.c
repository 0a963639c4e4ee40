/* profile_hints.c: what bounds a program, by where its time went between the first span and the last.
 *
 *   host    | f |##| f |####| f |           ## inside of spans, between them the program prepares
 *   device      |k0|   |k0|    |k0|         gaps: launches that come too slowly, or nothing to launch
 *
 * With devices the shares are of their time: at work, copying, idle while the host launches, idle while it does not.
 * Without any the host is what works: copies, kernels, ops so short that the calls are what costs, and nothing. */
#include "frontend/api/profile.h"

#include <stdlib.h>

#include "runtime/base/hash.h"

static const int64_t SHORT_NS = 2000; /* an op that takes less is mostly its call */
enum { MANY = 100, IDLE = 20, COPIES = 40, LAUNCHES = 40, KERNELS = 70, COMPILING = 30 /* percent */ };

typedef struct Stretch {
    int64_t from, to;
} Stretch;

typedef struct Stretches { /* apart, in order */
    Stretch *at;
    int n;
} Stretches;

typedef struct HintFacts {
    const Timeline *t;
    Arena *arena;
    Text *out;
    int64_t from, to; /* first span to last */
    Stretches host, device, copies;
    bool any;
} HintFacts;

static int by_begin(const void *a, const void *b) {
    const Stretch *const x = a, *const y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Those that touch become one. */
static void join_stretches(Stretches *s) {
    int n = 0;
    if (s->n) qsort(s->at, (size_t)s->n, sizeof *s->at, by_begin);
    for (int i = 0; i < s->n; i++) {
        if (n && s->at[i].from <= s->at[n - 1].to)
            s->at[n - 1].to = max_i64(s->at[n - 1].to, s->at[i].to);
        else
            s->at[n++] = s->at[i];
    }
    s->n = n;
}

static int64_t length_of(const Stretches *s) {
    int64_t sum = 0;
    for (int i = 0; i < s->n; i++) sum += s->at[i].to - s->at[i].from;
    return sum;
}

/* Of the gaps between a's stretches what lies in one of b's. */
static int64_t gaps_within(const Stretches *a, const Stretches *b) {
    int64_t sum = 0;
    for (int i = 0, k = 0; i + 1 < a->n; i++) {
        const int64_t from = a->at[i].to, to = a->at[i + 1].from;
        while (k < b->n && b->at[k].to <= from) k++;
        for (int m = k; m < b->n && b->at[m].from < to; m++)
            sum += min_i64(to, b->at[m].to) - max_i64(from, b->at[m].from);
    }
    return sum;
}

static void add_stretch(Stretches *s, int64_t from, int64_t to) { s->at[s->n++] = (Stretch){from, to}; }

/* Waiting for a device is no work; a range is a name for a part of the program. */
static bool is_host_work(const TimelineSpan *span) { return span->kind != PROFILE_wait && span->kind != PROFILE_range; }

static bool is_copy_work(const Timeline *t, const TimelineWork *work) {
    if (!strncmp(work->name, "copy", 4)) return true;
    return work->launched >= 0 && t->spans[work->launched].kind == PROFILE_copy;
}

static bool grow_capacity(HintFacts *f) {
    f->host.at = ARENA_ARRAY(f->arena, Stretch, f->t->n_spans + 1);
    f->device.at = ARENA_ARRAY(f->arena, Stretch, f->t->n_work + 1);
    f->copies.at = ARENA_ARRAY(f->arena, Stretch, f->t->n_work + 1);
    return f->host.at && f->device.at && f->copies.at;
}

static void collect_times(HintFacts *f) {
    const Timeline *const t = f->t;
    f->from = INT64_MAX, f->to = INT64_MIN;
    for (int i = 0; i < t->n_spans; i++) {
        const TimelineSpan *const span = &t->spans[i];
        if (is_host_work(span)) add_stretch(&f->host, span->from, span->to);
        f->from = min_i64(f->from, span->from), f->to = max_i64(f->to, span->to);
    }
    for (int i = 0; i < t->n_work; i++) {
        const TimelineWork *const work = &t->work[i];
        add_stretch(is_copy_work(t, work) ? &f->copies : &f->device, work->from, work->to);
        f->from = min_i64(f->from, work->from), f->to = max_i64(f->to, work->to);
    }
    join_stretches(&f->host);
    join_stretches(&f->copies);
    join_stretches(&f->device);
}

static double share(int64_t part, int64_t whole) { return whole > 0 ? 100.0 * (double)part / (double)whole : 0; }

static Text *hint(HintFacts *f, const char *name) {
    text_printf(f->out, "%s: ", name);
    f->any = true;
    return f->out;
}

/* names by their time ------------------------------------------------------------------------------- */

typedef struct NameTime {
    const char *name;
    int64_t ns;
} NameTime;

/* Names of equal hashes are one here: a hint only says which is the heaviest. */
static void add_time(const HintFacts *f, Map *times, NameTime *most, const char *name, int64_t ns) {
    const uint64_t hash = hash_bytes(0, name, strlen(name)) | 1;
    NameTime *time = map_get(times, hash);
    if (!time && (time = ARENA_NEW(f->arena, NameTime)) && map_set(times, hash, time)) time->name = name;
    if (!time) return;
    time->ns += ns;
    if (time->ns > most->ns) *most = *time;
}

static NameTime heaviest_span(const HintFacts *f) {
    Map times = {0};
    NameTime most = {"nothing", 0};
    for (int i = 0; i < f->t->n_spans; i++)
        if (is_host_work(&f->t->spans[i])) add_time(f, &times, &most, f->t->spans[i].name, f->t->spans[i].self);
    map_free(&times);
    return most;
}

static NameTime heaviest_work(const HintFacts *f) {
    Map times = {0};
    NameTime most = {"nothing", 0};
    for (int i = 0; i < f->t->n_work; i++)
        add_time(f, &times, &most, f->t->work[i].name, f->t->work[i].to - f->t->work[i].from);
    map_free(&times);
    return most;
}

/* with devices -------------------------------------------------------------------------------------- */

/* What computes and what copies, as one. */
static bool busy_stretches(const HintFacts *f, Stretches *busy) {
    busy->at = ARENA_ARRAY(f->arena, Stretch, f->device.n + f->copies.n + 1);
    if (!busy->at) return false;
    for (int i = 0; i < f->device.n; i++) add_stretch(busy, f->device.at[i].from, f->device.at[i].to);
    for (int i = 0; i < f->copies.n; i++) add_stretch(busy, f->copies.at[i].from, f->copies.at[i].to);
    join_stretches(busy);
    return true;
}

static void hint_devices(HintFacts *f) {
    Stretches busy = {0};
    if (!busy_stretches(f, &busy)) return;
    const int64_t whole = busy.at[busy.n - 1].to - busy.at[0].from, works = length_of(&busy);
    const int64_t launching = gaps_within(&busy, &f->host), idle = whole - works - launching;
    const double copying = share(length_of(&f->copies), works), working = share(works, whole);
    if (share(idle, whole) >= IDLE)
        text_printf(hint(f, "idle while the host prepares"),
                    "devices have nothing to do for %.0f %% of the time, while no op is called; prepare the next input "
                    "meanwhile (sn_to_device_async from pinned memory)\n",
                    share(idle, whole));
    if (share(launching, whole) >= LAUNCHES)
        text_printf(
            hint(f, "launch-bound"),
            "devices wait for launches %.0f %% of the time; sn_compile fuses ops, and its preset reduce-overhead "
            "makes a call one launch\n",
            share(launching, whole));
    if (copying >= COPIES)
        text_printf(
            hint(f, "copy-bound"),
            "%.0f %% of what devices do is copying; keep tensors there, or copy from pinned memory beside other "
            "work\n",
            copying);
    const NameTime most = heaviest_work(f);
    if (working >= KERNELS && copying < COPIES)
        text_printf(hint(f, "kernel-bound"), "devices compute %.0f %% of the time, %.0f %% of that in %s\n", working,
                    share(most.ns, works), most.name);
}

/* the host alone ------------------------------------------------------------------------------------ */

typedef struct HostTimes {
    int64_t copying, compiling, in_short, kernels; /* kernels: of ops and steps that are not short */
    int n_short;
} HostTimes;

/* Passes and code generation are inside of a stage or by themselves: each counts its self time. */
static HostTimes host_times(const Timeline *t) {
    HostTimes h = {0};
    for (int i = 0; i < t->n_spans; i++) {
        const TimelineSpan *const span = &t->spans[i];
        const bool computes = span->kind == PROFILE_op || span->kind == PROFILE_step;
        if (span->kind == PROFILE_stage) h.compiling += span->self;
        if (timeline_copies(span->name, span->kind))
            h.copying += span->self;
        else if (computes && span->self < SHORT_NS)
            h.in_short += span->self, h.n_short++;
        else if (computes)
            h.kernels += span->self;
    }
    return h;
}

static void hint_host(HintFacts *f) {
    const HostTimes h = host_times(f->t);
    const int64_t whole = f->to - f->from, active = length_of(&f->host);
    const NameTime most = heaviest_span(f);
    if (share(whole - active, whole) >= IDLE)
        text_printf(hint(f, "idle while the host prepares"),
                    "no op runs for %.0f %% of the time: the program does something else between its calls\n",
                    share(whole - active, whole));
    if (h.n_short >= MANY && share(h.in_short, active) >= LAUNCHES)
        text_printf(hint(f, "launch-bound"),
                    "%d ops take %.0f ns each, %.0f %% of the time, of which most is the call; sn_compile fuses them\n",
                    h.n_short, (double)h.in_short / h.n_short, share(h.in_short, active));
    if (share(h.copying, active) >= COPIES)
        text_printf(hint(f, "copy-bound"), "%.0f %% of the time is copying; most of it in %s\n",
                    share(h.copying, active), most.name);
    if (share(h.kernels, active) >= KERNELS)
        text_printf(hint(f, "kernel-bound"), "%.0f %% of the time is in kernels, %.0f %% in %s\n",
                    share(h.kernels, active), share(most.ns, active), most.name);
}

static void hint_all(HintFacts *f) {
    if (!grow_capacity(f)) return;
    collect_times(f);
    const HostTimes h = host_times(f->t);
    if (f->device.n + f->copies.n)
        hint_devices(f);
    else if (f->t->n_spans)
        hint_host(f);
    if (share(h.compiling, length_of(&f->host)) >= COMPILING)
        text_printf(hint(f, "compiling"),
                    "%.0f %% of the time goes into compiling, which is done once: profile later calls, or keep code "
                    "(setting cache_dir)\n",
                    share(h.compiling, length_of(&f->host)));
    if (!f->any) text_puts(f->out, "nothing stands out\n");
}

void profile_hints(const Timeline *t, Text *out) {
    HintFacts facts = {.t = t, .arena = arena_new(), .out = out};
    if (facts.arena) hint_all(&facts);
    arena_free(facts.arena);
}
