/* profile.h: what a profile (sinter/profile.h) writes down while a program runs: spans of time, by thread, one in the
 * other. What is read out of them is made in frontend/profile*.c.
 *
 *   if (profile_is_on()) span = profile_begin(PROFILE_step, name, function);      one branch where nobody profiles
 *   ...
 *   profile_end(&span);                                                           from any place: an empty one is none
 *
 *   log of a state   | call f        |     spans in the order in which they began; a span knows which was open
 *                    |   kernel k0   |     around it. One writer, the thread that has the state; a reader sees
 *                    |   kernel k1   |     those that are published (n), each with its end or still open.
 *                    | aten::add     |
 *
 * One profile at a time. A log belongs to its profile, to its state and to the spans that are open in it, and goes with
 * the last of them, so that a profile can end within an op. */
#ifndef SINTER_RUNTIME_PROFILE_H
#define SINTER_RUNTIME_PROFILE_H
#include <stdatomic.h>

#include "ir/op.h"
#include "runtime/base/clock.h"
#include "runtime/core/user_stack.h"

typedef enum ProfileKind {
    PROFILE_op,    /* a call of the dispatcher */
    PROFILE_copy,  /* the same of an op that copies */
    PROFILE_call,  /* of a compiled function */
    PROFILE_step,  /* of a plan: a kernel, a native op, a copy */
    PROFILE_rule,  /* a node's turn in a backward */
    PROFILE_range, /* sn_profile_range */
    PROFILE_stage, /* of compiling */
    PROFILE_wait,  /* for a device */
    PROFILE_KINDS
} ProfileKind;

enum { PROFILE_SHAPES = 6 };

/* What is asked for beside names and times. */
typedef struct ProfileMore {
    const Meta *shapes[PROFILE_SHAPES]; /* of the tensors among the arguments; the log retains them */
    int n_shapes;
    int64_t bytes, flops; /* read and written; arithmetic on floats; 0: not known */
    int64_t memory;       /* bytes that ProfileOptions.memory_now gained; while open: what it was */
    UserStack stack;
} ProfileMore;

typedef struct ProfileEvent {
    const char *name;           /* as long as the profile */
    const char *owner;          /* whose step it is: a compiled function; NULL: nobody's */
    struct ProfileEvent *outer; /* open around it when it began */
    ProfileMore *more;          /* NULL: nothing is asked for */
    int64_t from;               /* clock_ns() */
    _Atomic int64_t to;         /* 0: still open */
    ProfileKind kind;
} ProfileEvent;

typedef struct ProfileSpan {
    struct ProfileLog *log;
    ProfileEvent *event; /* NULL: nothing is written down */
} ProfileSpan;

/* Where a step of a device begins: its names, and the span that launches it (NULL: none). */
typedef struct ProfileOrigin {
    uint64_t profile;
    const char *name, *owner;
    const ProfileEvent *launched_in;
} ProfileOrigin;

/* A step of a device whose work goes on after its call. */
typedef struct ProfileWork {
    ProfileOrigin place;
    Device device;
    const void *stream;
    int64_t from, ns; /* on the host's clock; ns -1: not measured */
} ProfileWork;

typedef struct ProfileOptions {
    bool shapes, stacks;
    int64_t (*memory_now)(void); /* bytes in use; NULL: not asked for */
    int64_t most_events;         /* of all threads; what comes then is counted alone */
    /* Beside writing it down; NULL: nobody. A span is told as it begins and as it ends, on its thread, which must not
     * call Sinter then. */
    void (*seen)(void *context, const ProfileEvent *event, bool begins);
    void *context;
} ProfileOptions;

typedef struct Profile Profile;

extern _Atomic bool profile_on;
static inline bool profile_is_on(void) { return UNLIKELY(atomic_load_explicit(&profile_on, memory_order_relaxed)); }

/* ST_STATE: there is one. */
Status profile_start(const ProfileOptions *options, Profile **out);
void profile_pause(Profile *profile); /* no more spans; devices' work that is told later is written down */
void profile_stop(Profile *profile);  /* what is open stays so; again: nothing */
void profile_free(Profile *profile);  /* stops it; NULL allowed */
bool profile_is_recording(const Profile *profile);

/* A span of this thread. name lives as long as the profile. */
ProfileSpan profile_begin(ProfileKind kind, const char *name, const char *owner);
/* The same with texts that need not: the log that the span is in keeps them, whichever that is by now (another thread
 * may end a profile and begin one at any time). */
ProfileSpan profile_begin_named(ProfileKind kind, const char *name, const char *owner);
void profile_end(ProfileSpan *span); /* also where the profile has ended meanwhile; the span is empty then */
/* One that is over, in what is open now: as much of it as is behind the spans before. */
void profile_record(ProfileKind kind, const char *name, const char *owner, int64_t from, int64_t to);
/* The same of a stage of compiling that ends now. */
static inline void profile_record_stage(const char *name, int64_t from) {
    if (profile_is_on()) profile_record(PROFILE_stage, name, NULL, from, clock_ns());
}
/* Of an op: what its arguments and results are, where options ask for it; behind profile_begin, before profile_end. */
void profile_record_arguments(const ProfileSpan *span, const OpRow *row, const Arg *args);
void profile_record_results(const ProfileSpan *span, const OpRow *row, const Arg *args, sn_tensor *const *outs, int n);
static inline bool profile_asks_more(const ProfileSpan *span) { return span->event && span->event->more; }
void profile_record_bytes(const ProfileSpan *span, int64_t bytes, int64_t flops);
/* By who measures devices' steps: what a step that begins now has, of one profile, as long as that; profile 0: of none.
 * Later, its work, under a lock of its own; dropped where that profile is over. */
ProfileOrigin profile_origin(const char *name, const char *owner);
void profile_record_work(const ProfileWork *work);

/* Ranges end with the scope that is the innermost now. ST_STATE: no scope is open. */
Status profile_range(sn_state *state, const char *name);
void profile_ranges_end(sn_state *state, uint32_t n_scopes); /* those of scopes beyond so many */
uint32_t profile_range_region(const sn_state *state); /* 1 + the scopes where the newest began; 0: none is open */
void profile_state_free(sn_state *state);

/* reading: of a profile that is stopped ---------------------------------------------------------- */

typedef struct ProfileThread {
    const struct ProfileLog *log;
    int64_t n_events;
} ProfileThread;
int profile_threads(const Profile *profile);
ProfileThread profile_thread(const Profile *profile, int i); /* in the order in which they came */
/* In the order of `from`... of profile_begin; next to be passed on, NULL at first. */
typedef struct ProfileIterator {
    const struct ProfileChunk *chunk;
    int64_t at, n;
} ProfileIterator;
ProfileIterator profile_iterate(const ProfileThread *thread);
const ProfileEvent *profile_next(ProfileIterator *iterator); /* NULL: the end */
const ProfileWork *profile_work(const Profile *profile, int64_t *n);
int64_t profile_dropped(const Profile *profile);
int64_t profile_began(const Profile *profile); /* clock_ns() */
int64_t profile_ended(const Profile *profile);

#endif
