/* profile.h: what is read out of a profile (runtime/core/profile.h): spans and devices' work in arrays, with the sums
 * that the table, the trace and the hints are made of. Tests make timelines by hand. */
#ifndef SINTER_FRONTEND_PROFILE_H
#define SINTER_FRONTEND_PROFILE_H
#include <sinter/profile.h>

#include "runtime/base/arena.h"
#include "runtime/base/text.h"
#include "runtime/core/profile.h"

typedef struct TimelineSpan {
    const char *name, *owner; /* owner: the compiled function whose step it is; NULL: nobody's */
    ProfileKind kind;
    int thread;
    int parent; /* -1: none; else before it in the array */
    int64_t from, to;
    const ProfileMore *more; /* NULL: not asked for */
    /* timeline_sum: */
    int64_t self;                      /* without what is inside */
    int64_t device_self, device_total; /* of the work launched in it; of that inside as well */
} TimelineSpan;

typedef struct TimelineWork { /* on a device */
    const char *name, *owner;
    Device device;
    int stream;   /* of all devices, in the order in which they were used */
    int launched; /* the span; -1: none that is known */
    int64_t from, to;
} TimelineWork;

typedef struct SiteNames SiteNames;

typedef struct Timeline {
    TimelineSpan *spans; /* a thread's behind each other, each before what is inside of it */
    TimelineWork *work;
    int n_spans, n_work, n_threads, n_streams;
    int64_t from, to; /* of the whole profile */
    int64_t dropped;
    bool has_shapes, has_memory, has_stacks;
    SiteNames *places; /* of frames, as they are asked for; NULL: there are none */
} Timeline;

/* Of a profile that is stopped; in the arena. */
Status timeline_of(const Profile *profile, const ProfileOptions *options, Arena *arena, Timeline *out);
void timeline_sum(Timeline *t); /* the spans' sums */
void timeline_end(Timeline *t);
static inline bool timeline_copies(const char *name, ProfileKind kind) {
    return kind == PROFILE_copy || (kind == PROFILE_step && !strncmp(name, "copy", 4));
}
const char *profile_kind_name(ProfileKind kind);

Status profile_table(const Timeline *t, const sn_profile_table_options *options, Text *out);
void profile_trace(const Timeline *t, Text *out);
void profile_hints(const Timeline *t, Text *out);
/* "f32[3, 4], i64[]"; "main.c:3 < main.c:9" */
void profile_print_shapes(const ProfileMore *more, Text *out);
void profile_print_stack(const Timeline *t, const ProfileMore *more, Text *out);

#endif
