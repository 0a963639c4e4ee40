/* profile.c: profiles (sinter/profile.h). The first question ends a profile and makes its timeline, of which all
 * answers are. */
#include <sinter/profile.h>

#include <stdio.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "frontend/api/profile.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/core/state.h"
#include "runtime/device/alloc_cpu.h"
#include "runtime/device/watch.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), "the public enum mirrors the internal one")
SAME(SN_PROFILE_OP, PROFILE_op);
SAME(SN_PROFILE_WAIT, PROFILE_wait);

enum { MOST_SPANS = 1 << 20 };

struct sn_profile {
    Profile *recorded;
    ProfileOptions options;
    void (*seen)(void *context, const sn_profile_span *span, bool begins);
    void *context;
    Arena *arena; /* of the timeline; NULL: nobody has asked yet */
    Timeline timeline;
};

static int64_t memory_now(void) {
    int64_t now, most, held;
    cpu_alloc_stats(&now, &most, &held);
    return now;
}

static void notify_program(void *context, const ProfileEvent *event, bool begins) {
    const sn_profile *const p = context;
    sn_profile_span span = {.kind = (sn_profile_kind)event->kind,
                            .name = event->name,
                            .function = event->owner,
                            .from = event->from,
                            .to = atomic_load(&event->to)};
    for (const ProfileEvent *outer = event->outer; outer; outer = outer->outer) span.depth++;
    p->seen(p->context, &span, begins);
}

static Status begin_profile(sn_profile *p, const sn_profile_options *o) {
    p->seen = o->seen, p->context = o->context;
    p->options = (ProfileOptions){.shapes = o->shapes,
                                  .stacks = o->stacks,
                                  .memory_now = o->memory ? memory_now : NULL,
                                  .most_events = o->most ? o->most : MOST_SPANS,
                                  .seen = o->seen ? notify_program : NULL,
                                  .context = p};
    if (o->most < 0)
        return error_raise(ST_ARGUMENT,
                           "sn_profile_start: most is %lld: it says how many spans are kept, and 0 is the default",
                           (long long)o->most);
    TRY(watch_profile());
    const Status status = profile_start(&p->options, &p->recorded);
    if (status != ST_OK) watch_end();
    return status;
}

sn_profile *sn_profile_start(const sn_profile_options *options) {
    API_ENTER(sn_profile_start);
    sn_profile_options o = {0};
    if (entered.refused || error_pending()) return NULL;
    if (options_copy_in(&o, sizeof o, options, "sn_profile_start") != ST_OK) return NULL;
    sn_profile *const p = mem_zero(sizeof *p);
    if (p && begin_profile(p, &o) == ST_OK) return p;
    mem_free(p);
    return NULL;
}

/* Spans first, then what devices have still to do. */
static void stop(sn_profile *p) {
    if (!profile_is_recording(p->recorded)) return;
    profile_pause(p->recorded);
    watch_end();
    profile_stop(p->recorded);
}

sn_status sn_profile_stop(sn_profile *p) {
    if (!p)
        return (sn_status)(error_pending() ? error_pending()
                                           : error_raise(ST_ARGUMENT, "sn_profile_stop: NULL argument"));
    stop(p);
    return sn_check();
}

void sn_profile_free(sn_profile *p) {
    if (!p) return;
    stop(p);
    timeline_end(&p->timeline);
    arena_free(p->arena);
    profile_free(p->recorded);
    mem_free(p);
}

sn_status sn_profile_range(const char *name) {
    API_ENTER(sn_profile_range);
    if (error_pending()) return (sn_status)error_pending();
    if (!name) return (sn_status)error_raise(ST_ARGUMENT, "sn_profile_range: the name is NULL");
    return (sn_status)profile_range(state_get(), name);
}

/* what is asked of it --------------------------------------------------------------------------- */

static Status make_timeline(sn_profile *p) {
    Arena *const arena = arena_new();
    const Status status = arena ? timeline_of(p->recorded, &p->options, arena, &p->timeline) : ST_MEMORY;
    if (status == ST_OK)
        p->arena = arena;
    else
        arena_free(arena);
    return status;
}

static const Timeline *timeline(sn_profile *p, const char *what) {
    if (error_pending()) return NULL;
    if (!p) error_raise(ST_ARGUMENT, "%s: NULL argument", what);
    if (!p) return NULL;
    stop(p);
    return p->arena || make_timeline(p) == ST_OK ? &p->timeline : NULL;
}

static const char *borrowed_text_or_error(Text *text) {
    if (!error_pending()) return state_text(state_get(), text->at);
    text_free(text);
    return "";
}

static Status check_table(const sn_profile_table_options *o) {
    if ((unsigned)o->sort > SN_PROFILE_BY_NAME)
        return error_raise(ST_ARGUMENT, "sn_profile_table: sort %d is unknown", (int)o->sort);
    if (o->rows < -1)
        return error_raise(ST_ARGUMENT, "sn_profile_table: rows is %d: -1 is all of them, and 0 the default", o->rows);
    if (!(o->peak_gflops >= 0) || !(o->peak_gbs >= 0))
        return error_raise(ST_ARGUMENT, "sn_profile_table: a peak is negative or no number");
    return ST_OK;
}

const char *sn_profile_table(sn_profile *p, const sn_profile_table_options *options) {
    API_ENTER(sn_profile_table);
    const Timeline *const t = timeline(p, "sn_profile_table");
    sn_profile_table_options o = {0};
    Text text = {0};
    if (!t || options_copy_in(&o, sizeof o, options, "sn_profile_table") != ST_OK || check_table(&o) != ST_OK)
        return "";
    profile_table(t, &o, &text);
    return borrowed_text_or_error(&text);
}

const char *sn_profile_hints(sn_profile *p) {
    API_ENTER(sn_profile_hints);
    const Timeline *const t = timeline(p, "sn_profile_hints");
    Text text = {0};
    if (t) profile_hints(t, &text);
    return borrowed_text_or_error(&text);
}

const char *sn_profile_trace(sn_profile *p) {
    API_ENTER(sn_profile_trace);
    const Timeline *const t = timeline(p, "sn_profile_trace");
    Text text = {0};
    if (t) profile_trace(t, &text);
    return borrowed_text_or_error(&text);
}

sn_status sn_profile_trace_save(sn_profile *p, const char *path) {
    const Timeline *const t = timeline(p, "sn_profile_trace_save");
    Text text = {0};
    if (!t) return sn_check();
    if (!path) return (sn_status)error_raise(ST_ARGUMENT, "sn_profile_trace_save: the path is NULL");
    profile_trace(t, &text);
    const FileSpan part = {text_str(&text), text.n};
    if (!error_pending()) file_replace(path, &part, 1);
    text_free(&text);
    return sn_check();
}
