/* compare.c: one program, eager against compiled in every mode, call by call. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/bail.h"
#include "runtime/base/json.h"
#include "runtime/core/state.h"
#include "runtime/eager/eager.h"
#include "tests/cuda/emulated_control.h"
#include "tests/fuzz/compare.h"
#include "tests/fuzz/extend.h"

/* A A B B, then both again by what was compiled, eleven times: the compiled share is that of a function in use, of
 * whose calls few are first ones. The variant takes its own way twice, and the program goes on as before. */
typedef struct Call {
    bool variant;
    int setting;
} Call;
static const Call calls[] = {{false, 0}, {false, 0}, {false, 1}, {false, 1}, {false, 0}, {false, 1},
                             {false, 0}, {false, 1}, {false, 0}, {false, 1}, {false, 0}, {false, 1},
                             {false, 0}, {false, 1}, {false, 0}, {false, 1}, {false, 0}, {false, 1},
                             {false, 0}, {false, 1}, {false, 0}, {false, 1}, {false, 0}, {false, 1},
                             {false, 0}, {false, 1}, {true, 0},  {true, 0},  {false, 0}, {true, 1}};
enum { PLAIN_CALLS = 26, ALL_CALLS = sizeof calls / sizeof *calls };

typedef struct ModeRow {
    const char *name;
    sn_compile_mode mode;
    const char *failpoint, *other; /* other: with every second seed; NULL: none */
    bool saved;                    /* later calls are those of a plan that was saved and loaded */
    bool one_launch;               /* on a device beside the CPU: where a plan can be one launch it is (sn_preset) */
    bool arrays;                   /* by sn_call_arrays; of every third program (arrays.c) */
    bool coded;                    /* eager's programs have code; of every fourth program */
    bool extended;                 /* with what a program adds: passes, backends, stances (extend.c) */
    sn_dynamic dynamic;
    bool background; /* code comes when it comes, at the latest before the calls that repeat settings; on the CPU, where
                        they are exact, too, numerics fast */
} ModeRow;
/* Eager's programs that take sizes as parameters, against those of one size each. */
static const ModeRow modes[] = {
    {"eager at any size", SN_COMPILE_EAGER, "one_size", NULL},
    {"eager by code", SN_COMPILE_EAGER, "", "one_size", .coded = true},
    {"interpreted", SN_COMPILE_VERIFY, "codegen,verify_passes", "codegen,verify_passes,small_nests"},
    /* All sizes are symbols; and ops that do not lower, which eager runs. */
    {"symbolic", SN_COMPILE_VERIFY, "codegen,verify_passes", "codegen,verify_passes,some_alone",
     .dynamic = SN_DYNAMIC_ALWAYS},
    /* Before the next one, so that it is the one that makes code. */
    {"background", SN_COMPILE_VERIFY, "", NULL, .background = true},
    {"verify", SN_COMPILE_VERIFY, "", NULL},
    {"replay", SN_COMPILE_REPLAY, "", NULL},
    {"one launch", SN_COMPILE_VERIFY, "", NULL, .one_launch = true},
    {"extended", SN_COMPILE_VERIFY, "", NULL, .extended = true},
    {"extended replay", SN_COMPILE_REPLAY, "", NULL, .extended = true},
    {"arrays", SN_COMPILE_VERIFY, "", NULL, .arrays = true},
    {"arrays replayed", SN_COMPILE_REPLAY, "", NULL, .arrays = true},
    {"saved", SN_COMPILE_REPLAY, "", "some_alone", .saved = true}};
enum { TAUGHT_CALLS = 6 };

static int call_count(const FzProgram *variant) { return variant ? ALL_CALLS : PLAIN_CALLS; }

static bool is_attribute(const FzArg *a) { return a->kind == FZ_int || a->kind == FZ_float; }

static bool varies(const FzArg *a) {
    if (is_attribute(a) && a->i.var >= 0) return true;
    for (int i = 0; a->kind == FZ_ints && i < a->n; i++)
        if (a->ints[i].var >= 0) return true;
    return false;
}

static bool sizes_change(const FzProgram *p) { return memcmp(p->sizes[0], p->sizes[1], sizeof p->sizes[0]) != 0; }

/* Replay binds closed-over tensors by identity and does not run the body [semantics C6]: programs that close over fresh
 * tensors or compute attributes from anything but what they ask are outside its promise. */
static bool replayable(const FzProgram *p) {
    if (!fz_all_given(p)) return false;
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].closed && !p->inputs[i].held) return false;
    for (int i = 0; i < p->n_steps; i++) {
        for (int k = 0; k < p->steps[i].n_args; k++)
            if (sizes_change(p) && varies(&p->steps[i].args[k])) return false;
    }
    return true;
}

static bool any_failed(const FzSeen *seen) {
    for (int i = 0; i < PLAIN_CALLS; i++)
        if (seen[i].failed) return true;
    return false;
}

/* mode NULL: eager, beside a plan. Every other plan is taken without generated code. False: there is none. */
static bool take_plan(FzRun *run, const ModeRow *mode, uint64_t seed) {
    const FzPlanWay way = (FzPlanWay)(seed / 20 % FZ_PLAN_WAYS);
    const bool saved = !mode || fz_run_save(run, way);
    if (mode && seed / 10 % 2) failpoint_set("codegen");
    if (saved) fz_run_freeze(run, way);
    if (saved && mode) fz_run_load(run, way, seed / 80 % 2);
    if (mode) failpoint_set("");
    return saved;
}

typedef struct Calls {
    const FzProgram *p, *variant;
    const ModeRow *mode; /* NULL: eager */
    bool saved;          /* later ones are those of a plan, or of eager beside one */
    uint64_t seed;
    bool arrays;    /* by sn_call_arrays, or of eager beside it */
    FzWatch *watch; /* of the first calls, or NULL */
} Calls;

enum { SHOWN_EVERY = 3, WATCHED_CALLS = 4, ARRAYS_EVERY = 3, CODED_EVERY = 4 };

/* After a call that failed the tensors that are held are others. A plan has no body, which says of which op an error
 * is. */
/* An array has no handle that could get other sizes. */
static bool changes_a_handle(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++) {
        OpForm form;
        const OpRow *const row =
            p->steps[i].kind == FZ_op ? op_find(p->steps[i].op, strlen(p->steps[i].op), &form) : NULL;
        const bool resizes = row && (form == FORM_out || row->role == ROLE_resizes);
        if (resizes || (row && row->kind == KIND_view && form == FORM_inplace)) return true;
    }
    return false;
}

static bool takes_mode(const ModeRow *mode, const Calls *c, const FzSeen *want) {
    const FzProgram *const p = c->p, *const variant = c->variant;
    if (mode->arrays &&
        (fz_device != SN_CPU || c->seed % ARRAYS_EVERY != 1 || fz_has_state(p) || p->api_mode || changes_a_handle(p)))
        return false;
    if (mode->one_launch && fz_device == SN_CPU) return false;
    if (mode->coded && (fz_device != SN_CPU || c->seed / 2 % CODED_EVERY)) return false;
    if (mode->mode != SN_COMPILE_REPLAY) return true;
    if (variant || !replayable(p) || (fz_has_state(p) && any_failed(want))) return false;
    return !mode->saved || (fz_can_be_saved(p) && !any_failed(want));
}

/* The seed of a call's inputs: those that repeat a setting get other data. */
static void run_calls(const Calls *c, FzSeen *seen, FzResult *result) {
    const FzProgram *const p = c->p, *const variant = c->variant;
    const ModeRow *const mode = c->mode;
    const bool background = mode && mode->background;
    const bool one_launch = mode && (mode->one_launch || (mode->extended && c->seed % 3 == 0));
    const sn_compile_options options = {.size = sizeof options,
                                        .mode = mode ? mode->mode : SN_COMPILE_EAGER,
                                        .background = background,
                                        .dynamic = mode ? mode->dynamic : SN_DYNAMIC_AUTO,
                                        .numerics = background && fz_device == SN_CPU ? SN_FAST : SN_EXACT,
                                        .preset = one_launch ? SN_PRESET_REDUCE_OVERHEAD : SN_PRESET_DEFAULT,
                                        .backend = mode && mode->extended ? fz_backend(c->seed) : NULL};
    FzRun *const run = fz_run_new(p, &options);
    const bool counted = mode && !*mode->failpoint && !mode->one_launch && !background && !mode->extended &&
                         mode->mode == SN_COMPILE_VERIFY && !fz_has_state(p) &&
                         !p->n_varies; /* beyond the limit of variants */
    /* Not where the number of ops is told: by an API mode, or what hooks of saved tensors count. */
    if (c->arrays) fz_run_arrays(run, mode ? FZ_by_arrays : FZ_as_arrays);
    fz_func_at_once(mode && mode->mode == SN_COMPILE_VERIFY && !background && !p->api_mode && !p->packs);
    failpoint_set(!mode ? "any_size" : mode->other && c->seed % 2 ? mode->other : mode->failpoint);
    if (mode && mode->extended) fz_passes_begin(c->seed);
    if (mode && mode->coded) sn_setting_set("eager_compile", "always");
    if (options.mode == SN_COMPILE_EAGER) eager_cache_free(state_get()); /* what is there is found first */
    for (int i = 0; i < call_count(variant); i++) {
        if (fz_only_eager && i >= WATCHED_CALLS) break;
        if (i == TAUGHT_CALLS && options.background) fz_run_wait(run);
        if (i == TAUGHT_CALLS && c->saved) result->saved = take_plan(run, mode, c->seed);
        if (i == PLAIN_CALLS && counted) fz_run_share(run, &result->ops_generated, &result->ops);
        fz_run_program(run, calls[i].variant ? variant : p);
        fz_run_watch(run, i < WATCHED_CALLS || calls[i].variant ? c->watch : NULL);
        if (mode && mode->extended) sn_stance_set(fz_stance(c->seed, i));
        fz_run_call(run, calls[i].setting, c->seed + (uint64_t)i, &seen[i]);
        fz_run_program(run, p);
    }
    if (!variant && counted) fz_run_share(run, &result->ops_generated, &result->ops);
    const bool looks = mode && mode->extended && c->seed % SHOWN_EVERY == 0;
    const uint64_t shown = looks ? fz_run_shown(run) : 0;
    failpoint_set("");
    if (mode && mode->coded) sn_setting_set("eager_compile", "never");
    sn_stance_set(SN_STANCE_DEFAULT);
    if (mode && mode->extended) fz_passes_end();
    if (looks) result->untold |= !shown || fz_run_shown(run) != shown;
    result->refused |= fz_run_refused(run);
    if (mode && !c->saved) result->replayed |= fz_run_bodies(run) < PLAIN_CALLS;
    fz_run_free(run);
}

static bool begins_with(const Text *text, const Text *head) {
    return text->n >= head->n && (!head->n || !memcmp(text->at, head->at, head->n));
}

static bool same_text(const Text *want, const Text *got) { return want->n == got->n && begins_with(got, want); }

/* Where eager ended at an op, compiled host code may have read more before the error came up. What a body keeps for
 * itself is not the same in a replayed call, which does not run it. A device tells a wrong value at the next wait, from
 * when on what both had written differs: eager wrote op by op, a segment nothing. What stays is that both tell. */
static bool same(const FzSeen *want, const FzSeen *got, sn_compile_mode mode) {
    if (fz_device != SN_CPU && want->failed) return got->failed;
    return same_text(&want->bytes, &got->bytes) && (mode == SN_COMPILE_REPLAY || same_text(&want->kept, &got->kept)) &&
           (want->items.n == got->items.n || want->call_failed) && begins_with(&got->items, &want->items);
}

static const char *line_end(const char *at) { return at + strcspn(at, "\n"); }
static const char *next_line(const char *at) { return line_end(at) + (*line_end(at) != 0); }

static const char *compared_line(const char *at, const ModeRow *mode) {
    while (mode->mode == SN_COMPILE_REPLAY && !strncmp(at, "kept ", 5)) at = next_line(at);
    return at;
}

/* The first lines that differ. */
static void explain(Text *out, const ModeRow *mode, int call, const FzSeen *want, const FzSeen *got) {
    const char *a = compared_line(text_str(&want->story), mode), *b = compared_line(text_str(&got->story), mode);
    while (*a && *b && line_end(a) - a == line_end(b) - b && !memcmp(a, b, (size_t)(line_end(a) - a)))
        a = compared_line(next_line(a), mode), b = compared_line(next_line(b), mode);
    text_printf(out, "%s, call %d (%s%c):\n  eager    %.*s\n  compiled %.*s\n", mode->name, call + 1,
                calls[call].variant ? "variant " : "", 'A' + calls[call].setting, (int)(line_end(a) - a), a,
                (int)(line_end(b) - b), b);
}

static void free_seen(FzSeen *seen, int n) {
    for (int i = 0; i < n; i++) fz_seen_free(&seen[i]);
}

static void record_error(const FzSeen *seen, FzResult *result) {
    const char *const at = strstr(text_str(&seen->story), ": error ");
    if (!seen->failed || result->errors) return;
    result->errors = true;
    if (at) snprintf(result->error, sizeof result->error, "%.*s", (int)(line_end(at) - at), at);
}

static void compare_mode(const Calls *calls_of, const FzSeen *want, FzResult *result, Text *story) {
    FzSeen got[ALL_CALLS], beside[ALL_CALLS];
    const int n = call_count(calls_of->variant);
    run_calls(calls_of, got, result);
    if (result->refused && !result->differs && story)
        text_printf(story, "%s: the verifier refuses a graph\n", calls_of->mode->name);
    if (result->untold && !result->differs && story)
        text_printf(story, "%s: what is shown is not what runs\n", calls_of->mode->name);
    result->differs |= result->refused || result->untold;
    const bool saved = calls_of->saved && result->saved, other = saved || calls_of->arrays;
    Calls eager = *calls_of;
    eager.mode = NULL, eager.saved = saved;
    if (other) run_calls(&eager, beside, result);
    for (int i = 0; i < n && !result->differs; i++) {
        const FzSeen *const wanted = other ? &beside[i] : &want[i];
        if (calls_of->arrays && strstr(text_str(&got[i].story), "that the program owns cannot be resized")) break;
        if (same(wanted, &got[i], calls_of->mode->mode)) continue;
        result->differs = true;
        if (story) explain(story, calls_of->mode, i, wanted, &got[i]);
    }
    free_seen(got, n);
    if (other) free_seen(beside, n);
}

static void compare_mode_of(const Calls *c, const FzSeen *want, FzResult *result, Text *story) {
    if (takes_mode(c->mode, c, want)) compare_mode(c, want, result, story);
}

/* What is wrong with calls of the driver, as the emulated one says, is a finding whatever the bits are. */
static void note_misuse(int64_t said_before, FzResult *result, Text *story) {
    if (emulated().said == said_before) return;
    result->differs = true;
    if (story) text_puts(story, "the emulated driver found calls of it wrong (see stderr)\n");
}

enum { PROFILED_EVERY = 8, BUILT_EVERY = 2 };

/* Some programs run under a profile, which changes nothing, and whose trace the strict reader takes. */
static sn_profile *begin_profile(uint64_t seed) {
    if (seed % PROFILED_EVERY != 6) return NULL;
    const bool more = seed / PROFILED_EVERY % 2;
    return sn_profile_start(SN_PROFILE_OPTIONS(.shapes = more, .memory = more, .stacks = more, .most = 1 << 14));
}

static void end_profile(sn_profile *profile, FzResult *result, Text *story) {
    Arena *const arena = profile ? arena_new() : NULL;
    const char *const trace = profile ? sn_profile_trace(profile) : "";
    const Json *root;
    if (arena && json_parse(arena, trace, strlen(trace), &root) != ST_OK) {
        result->differs = true;
        if (story) text_printf(story, "the trace of its profile: %s\n", sn_error_take()->message);
    }
    arena_free(arena);
    sn_profile_free(profile);
}

bool fz_only_eager;

void fz_compare(const FzProgram *p, const FzProgram *variant, uint64_t seed, FzResult *result, Text *story) {
    FzSeen want[ALL_CALLS] = {{.failed = false}};
    const int n = call_count(variant);
    const int64_t said = fz_device == SN_CPU ? 0 : emulated().said;
    sn_profile *const profile = begin_profile(seed);
    *result = (FzResult){.differs = false};
    result->watch.infers = true, result->watch.memory = !p->functional && !p->api_mode;
    run_calls(&(Calls){p, variant, .seed = seed, .watch = &result->watch}, want, result);
    result->differs = result->watch.story.n != 0;
    if (story) text_puts(story, text_str(&result->watch.story));
    text_free(&result->watch.story);
    for (int i = 0; i < n; i++) record_error(&want[i], result);
    for (int m = 0; m < (int)(sizeof modes / sizeof *modes) && !fz_only_eager; m++)
        compare_mode_of(&(Calls){p, variant, &modes[m], modes[m].saved, seed, .arrays = modes[m].arrays}, want, result,
                        story);
    if (fz_device == SN_CPU && !fz_only_eager && !result->differs && seed % BUILT_EVERY == 0)
        result->differs = !fz_built(p, seed, story, &result->built);
    end_profile(profile, result, story);
    if (fz_device != SN_CPU) note_misuse(said, result, story);
    if (story && result->errors)
        for (int i = 0; i < n; i++)
            if (want[i].failed) {
                text_printf(story, "eager call %d ends in an error\n%s", i + 1, text_str(&want[i].story));
                break;
            }
    free_seen(want, n);
}
