/* compare.c: one program, eager against compiled in every mode, call by call. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/bail.h"
#include "runtime/core/state.h"
#include "runtime/eager/eager.h"
#include "tests/fuzz/compare.h"

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
    const char *failpoint;
    bool saved; /* later calls are those of a plan that was saved and loaded */
} ModeRow;
/* Eager's programs that take sizes as parameters, against those of one size each. */
static const ModeRow modes[] = {{"eager at any size", SN_COMPILE_EAGER, "one_size"},
                                {"interpreted", SN_COMPILE_VERIFY, "codegen"},
                                {"verify", SN_COMPILE_VERIFY, ""},
                                {"replay", SN_COMPILE_REPLAY, ""},
                                {"saved", SN_COMPILE_REPLAY, "", true}};
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

/* Replay binds closed-over tensors by identity and does not run the body [semantics C6]: programs
 * that close over fresh tensors, keep values or compute attributes from anything but the sizes of
 * inputs are outside its promise. */
static bool replayable(const FzProgram *p) {
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].closed) return false;
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].kind != FZ_op && p->steps[i].kind != FZ_loop) return false;
        for (int k = 0; k < p->steps[i].n_args; k++)
            if (sizes_change(p) && varies(&p->steps[i].args[k])) return false;
    }
    return true;
}

/* A plan has no body, which says of which op an error is, and records no gradients. */
static bool can_be_saved(const FzProgram *p, const FzSeen *want) {
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].grad) return false;
    for (int i = 0; i < PLAIN_CALLS; i++)
        if (want[i].failed) return false;
    return true;
}

/* Every other one without generated code. False: no such plan. */
static bool take_plan(FzRun *run, uint64_t seed) {
    if (seed % 2) failpoint_set("codegen");
    const bool taken = fz_run_saved(run);
    failpoint_set("");
    return taken;
}

/* The seed of a call's inputs: those that repeat a setting get other data. */
static void run_calls(const FzProgram *p, const FzProgram *variant, const ModeRow *mode, uint64_t seed, FzSeen *seen,
                      FzResult *result) {
    const sn_compile_options options = {.size = sizeof options, .mode = mode ? mode->mode : SN_COMPILE_EAGER};
    FzRun *const run = fz_run_new(p, &options);
    failpoint_set(mode ? mode->failpoint : "any_size");
    if (options.mode == SN_COMPILE_EAGER) eager_cache_free(state_get()); /* what is there is found first */
    for (int i = 0; i < call_count(variant); i++) {
        if (i == TAUGHT_CALLS && mode && mode->saved) result->saved = take_plan(run, seed);
        if (i == PLAIN_CALLS && mode && !*mode->failpoint && mode->mode == SN_COMPILE_VERIFY)
            fz_run_share(run, &result->ops_generated, &result->ops);
        fz_run_program(run, calls[i].variant ? variant : p);
        fz_run_call(run, calls[i].setting, seed + (uint64_t)i, &seen[i]);
        fz_run_program(run, p);
    }
    if (!variant && mode && !*mode->failpoint && mode->mode == SN_COMPILE_VERIFY)
        fz_run_share(run, &result->ops_generated, &result->ops);
    failpoint_set("");
    fz_run_free(run);
}

static bool begins_with(const Text *text, const Text *head) {
    return text->n >= head->n && (!head->n || !memcmp(text->at, head->at, head->n));
}

/* Where eager ended at an op, compiled host code may have read more before the error came up. */
static bool same(const FzSeen *want, const FzSeen *got) {
    return want->bytes.n == got->bytes.n && begins_with(&got->bytes, &want->bytes) &&
           (want->items.n == got->items.n || want->call_failed) && begins_with(&got->items, &want->items);
}

static const char *line_end(const char *at) { return at + strcspn(at, "\n"); }

/* The first lines that differ. */
static void explain(Text *out, const char *mode, int call, const FzSeen *want, const FzSeen *got) {
    const char *a = text_str(&want->story), *b = text_str(&got->story);
    while (*a && *b && line_end(a) - a == line_end(b) - b && !memcmp(a, b, (size_t)(line_end(a) - a))) {
        a = line_end(a), b = line_end(b);
        if (*a) a++;
        if (*b) b++;
    }
    text_printf(out, "%s, call %d (%s%c):\n  eager    %.*s\n  compiled %.*s\n", mode, call + 1,
                calls[call].variant ? "variant " : "", 'A' + calls[call].setting, (int)(line_end(a) - a), a,
                (int)(line_end(b) - b), b);
}

static void free_seen(FzSeen *seen, int n) {
    for (int i = 0; i < n; i++) fz_seen_free(&seen[i]);
}

static void note_error(const FzSeen *seen, FzResult *result) {
    const char *const at = strstr(text_str(&seen->story), ": error ");
    if (!seen->failed || result->errors) return;
    result->errors = true;
    if (at) snprintf(result->error, sizeof result->error, "%.*s", (int)(line_end(at) - at), at);
}

void fz_compare(const FzProgram *p, const FzProgram *variant, uint64_t seed, FzResult *result, Text *story) {
    FzSeen want[ALL_CALLS], got[ALL_CALLS];
    const int n = call_count(variant);
    *result = (FzResult){.differs = false};
    run_calls(p, variant, NULL, seed, want, result);
    for (int i = 0; i < n; i++) note_error(&want[i], result);
    for (int m = 0; m < (int)(sizeof modes / sizeof *modes); m++) {
        if (modes[m].mode == SN_COMPILE_REPLAY && (variant || !replayable(p))) continue;
        if (modes[m].saved && !can_be_saved(p, want)) continue;
        run_calls(p, variant, &modes[m], seed, got, result);
        for (int i = 0; i < n && !result->differs; i++)
            if (!same(&want[i], &got[i])) {
                result->differs = true;
                if (story) explain(story, modes[m].name, i, &want[i], &got[i]);
            }
        free_seen(got, n);
    }
    if (story && result->errors)
        for (int i = 0; i < n; i++)
            if (want[i].failed) {
                text_printf(story, "eager call %d ends in an error\n%s", i + 1, text_str(&want[i].story));
                break;
            }
    free_seen(want, n);
}
