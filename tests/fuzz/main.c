/* main.c: fuzz --graphs N --seed S [--device=cuda] [--stateful] [--json] [--seconds T] [--save DIR] [--record DIR]
 * [--dump DIR] [--replay FILE...], --peak (peak.c: nets, whose memory is compared), --cache N (cache.c), or --calls N
 * [--row OP] (calls.c), or --headers N (headers.c); [--eager] [--quick]
 *
 * Programs are written here and run in batches by forked children, so that a crash costs one
 * program: the child says which program it begins and what came of it. A failing one is shrunk,
 * each attempt in a child of its own, and saved as text.
 *
 * A program runs eagerly, by programs of one size and of any, and compiled: interpreted, generated code, replay, on a
 * GPU by graphs of launches; the same calls in the same order, every fourth program with a variant that leaves the
 * known path at op k. Values, dtypes, sizes, strides, shared memory, requires_grad and is_leaf of results, inputs
 * afterwards, gradients and errors are compared, all exactly; with --device=cuda what the emulated driver finds wrong
 * with a call counts as a difference, too.
 *
 *   generate.c, propose.c   write programs by the op table and the meta rules; patterns.c adds groups of steps that
 *                           single proposals rarely make together (views used after a write)
 *   weave.c                 pointwise ops around native ones over the same sizes: graphs of several nests that share
 *                           values; every second program also runs with nests of four buffers (failpoint
 *                           small_nests), and all with sizes that are all symbols, every second of these with a third
 *                           of the ops run by eager in the middle of the plan (failpoint some_alone)
 *   vary.c                  numbers, lists, dims, flags and words that differ between the calls of every third
 *                           program, whose inputs may share memory at changing offsets
 *   state.c                 beside every fifth program (--stateful: these alone): held tensors that change between
 *                           calls, as do their gradients and an optimizer of them, stepped plainly or by a scaler,
 *                           queries whose answers are factors, callees in mode EAGER
 *   build.c                 the graphs of every second program are built once more by the public functions: the same
 *                           texts, the same calls
 *   import.c, export.c      and written as .pt2 files, which sn_import reads
 *   watch.c                 sn_op_infer of each op that eager runs; which forms really ran
 *   arrays.c                calls by sn_call_arrays: into given memory, of an allocator, lent
 *   plan.c                  what can be saved is: later calls are those of the loaded plan
 *   user_ops.c              ops of the program's own, by a scalar expression, and that write an argument
 *   extend.c                runs programs once more, verified and replayed, with what a program adds: passes that
 *                           rewrite to the same bits, backends (op by op; one that fails), stances, presets; asks a
 *                           third of them for their stages, with and without those (shown.c)
 *   features.c              what programs are made of besides ops
 *
 * Sizes of every seventh program are marked (sn_mark_dynamic), every eighth runs under a profile. `fuzz.1000` fails
 * where anything differs or crashes, 5 % of the programs (of fewer than 1,000: 10 %) end in an error, less than 0.78 of
 * the ops ran as generated code, fewer than 4 % were saved as plans, a form or a feature was used less than 5 times, or
 * a form never ran. A failing program lies in open/ until it is mended, then in found/, which the tests replay.
 *
 * What eager and compiled get wrong alike is seen beside PyTorch: `--record DIR` writes each program and all that
 * eager gave, oracle/torch_programs.py DIR runs them in PyTorch and prints what differs, smallest first; what is
 * known to differ is named there.
 *
 * With --eager programs run eagerly alone, watched: thousands in a minute, of which each form must have run
 * (`fuzz.ran`); --quick: what fails is not shrunk. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/fuzz/cache.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/headers.h"
#include "tests/fuzz/compare.h"

enum {
    BATCH = 20,
    STATEFUL_EVERY = 5,
    CPU_SECONDS = 30,
    SECONDS = 300,
    SLOWER = 4,
    ENOUGH_USES = 5,
    FULL_CAMPAIGN = 1000,
    MOST_OF_ALL = 200 /* programs from which on shares say something */
};

typedef struct Case {
    FzProgram p, variant;
    bool has_variant, stateful, peak, symbolic;
    uint64_t seed;
} Case;

typedef struct Options {
    int64_t graphs, seconds, cache, calls, headers;
    uint64_t seed;
    bool json, verbose, stateful, peak, symbolic, quick;
    const char *save, *record, *dump, *row;
    int first_file;
} Options;

typedef struct Totals {
    int64_t graphs, stateful, differing, crashed, errors, saved, replayed, built, ops_generated, ops;
    int64_t inferred, symbolic, imported;
    int64_t *ran; /* by form: programs in which it ran without an error */
    /* programs: all, those that take more than eager, and more than epilogues may; bytes of all */
    int64_t trained, above, waiting, peak, eager_peak;
    int64_t *uses; /* by form */
    int64_t *stateful_uses;
    int64_t *features; /* programs by feature */
    int end;           /* of the last process: as waitpid says */
    bool verbose;
} Totals;

static void run_case(const Case *c, FzResult *result, Text *story) {
    if (c->peak)
        fz_peak(&c->p, c->seed, c->symbolic, result, story);
    else
        fz_compare(&c->p, c->has_variant ? &c->variant : NULL, c->seed, result, story);
}

/* Files --------------------------------------------------------------------------------------- */

static void print_case(const Case *c, Text *text) {
    text_printf(text, "# seed %llu\n", (unsigned long long)c->seed);
    fz_print(&c->p, text);
    if (!c->has_variant) return;
    text_puts(text, "---\n");
    fz_print(&c->variant, text);
}

static bool parse_case(char *text, Case *c) {
    int line = 0;
    unsigned long long seed = 1;
    char *const second = strstr(text, "---\n");
    if (sscanf(text, "# seed %llu", &seed) == 1) c->seed = seed;
    if (second) *second = 0;
    if (!fz_parse(text, &c->p, &line)) return fprintf(stderr, "line %d is wrong\n", line), false;
    if (!second) return true;
    c->has_variant = fz_parse(second + 4, &c->variant, &line);
    if (!c->has_variant) fprintf(stderr, "line %d of the variant is wrong\n", line);
    return c->has_variant;
}

static char *read_all(const char *path) {
    FILE *const file = fopen(path, "rb");
    char *const text = file ? calloc(1, 1 << 20) : NULL;
    if (text && !fread(text, 1, (1 << 20) - 1, file)) *text = 0;
    if (file) fclose(file);
    return text;
}

static void save(const Options *o, const Case *c, const char *story) {
    char path[512];
    Text text = {0};
    print_case(c, &text);
    fprintf(stderr, "%s\n%s", text_str(&text), story);
    snprintf(path, sizeof path, "%s/%llu%s.fz", o->save ? o->save : ".", (unsigned long long)c->seed,
             c->stateful ? "s" : "");
    FILE *const file = o->save ? fopen(path, "wb") : NULL;
    if (file) {
        fputs(text_str(&text), file);
        fclose(file);
        fprintf(stderr, "saved as %s\n", path);
    }
    text_free(&text);
}

/* Children ------------------------------------------------------------------------------------ */

typedef struct Message { /* sent before a program (done false) and after it */
    int index;
    bool done;
    FzResult result;
} Message;

static void send(int to, Message m) {
    if (write(to, &m, sizeof m) != sizeof m) _exit(3);
}

/* A program that runs on and on, or waits for ever, is a crash; a busy machine is none, nor is a device that is
 * emulated, whose kernels are compiled meanwhile. */
static void limit_time(void) {
    const int times = fz_device == SN_CPU ? 1 : SLOWER;
    const struct itimerval cpu = {.it_value.tv_sec = times * CPU_SECONDS};
    setitimer(ITIMER_PROF, &cpu, NULL);
    alarm((unsigned)(times * SECONDS));
}

static void run_batch(const Case *cases, int n, int to) {
    for (int i = 0; i < n; i++) {
        Message m = {.index = i};
        send(to, m);
        limit_time();
        run_case(&cases[i], &m.result, NULL);
        m.done = true;
        send(to, m);
    }
    _exit(0);
}

typedef enum Outcome { FINE, DIFFERS, CRASHED } Outcome;

/* Also where it does not come again, by itself: SIGPROF and SIGALRM are those of limit_time. */
static void say_end(const Case *c, int status) {
    const bool by_signal = WIFSIGNALED(status);
    fprintf(stderr, "fuzz: seed %llu%s: the process ended by %s %d\n", (unsigned long long)c->seed,
            c->stateful ? " with state" : "", by_signal ? "signal" : "status",
            by_signal ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* A campaign that cannot run its programs has found nothing out. */
static pid_t start_child(int *pipes) {
    fflush(NULL);
    const pid_t child = pipe(pipes) == 0 ? fork() : -1;
    if (child >= 0) return child;
    perror("fuzz: cannot start a process");
    exit(2);
}

static void tell_error(const Case *c, const FzResult *result) {
    Text text = {0};
    print_case(c, &text);
    fprintf(stderr, "%sends%s in an error%s\n\n", text_str(&text), c->stateful ? " with state" : "", result->error);
    text_free(&text);
}

/* Runs cases from the first on; returns how many ended, at least one, and what became of each. */
static int run_some(const Case *cases, int n, Outcome *outcomes, Totals *totals) {
    int pipes[2], ended = 0;
    const pid_t child = start_child(pipes);
    if (child == 0) run_batch(cases, n, pipes[1]);
    close(pipes[1]);
    Message m;
    int begun = 0;
    while (read(pipes[0], &m, sizeof m) == sizeof m) {
        if (!m.done) {
            begun = m.index;
            continue;
        }
        outcomes[ended++] = m.result.differs ? DIFFERS : FINE;
        totals->errors += m.result.errors;
        totals->saved += m.result.saved;
        totals->replayed += m.result.replayed;
        totals->built += m.result.built.built;
        totals->imported += m.result.built.imported;
        totals->inferred += m.result.watch.inferred;
        totals->symbolic += m.result.watch.symbolic;
        for (int i = 0; totals->ran && i < fz_form_count(); i++)
            totals->ran[i] += fz_form_has_run(m.result.watch.ran, i);
        if (m.result.errors && totals->verbose) tell_error(&cases[m.index], &m.result);
        totals->ops += m.result.ops;
        totals->ops_generated += m.result.ops_generated;
        totals->trained += m.result.trained;
        totals->above += m.result.above;
        totals->waiting += m.result.waits;
        if (totals->verbose && m.result.above)
            fprintf(stderr, "seed %llu: eager %lld bytes, compiled %lld%s\n", (unsigned long long)cases[m.index].seed,
                    (long long)m.result.eager_peak, (long long)m.result.peak, m.result.waits ? ", by joins" : "");
        totals->peak += m.result.peak, totals->eager_peak += m.result.eager_peak;
    }
    close(pipes[0]);
    waitpid(child, &totals->end, 0);
    if (begun >= ended) outcomes[ended++] = CRASHED;
    return ended;
}

static Outcome run_quietly(const Case *c, bool *errors) {
    Outcome outcome = FINE;
    Totals totals = {0};
    run_some(c, 1, &outcome, &totals);
    *errors = totals.errors != 0;
    return outcome;
}

static Outcome run_one(const Case *c, Text *story) {
    int pipes[2];
    const pid_t child = start_child(pipes);
    if (child == 0) {
        FzResult result;
        Text text = {0};
        limit_time();
        run_case(c, &result, &text);
        if (write(pipes[1], text_str(&text), strlen(text_str(&text))) < 0) _exit(2);
        _exit(result.differs);
    }
    close(pipes[1]);
    char part[512];
    for (ssize_t n; (n = read(pipes[0], part, sizeof part)) > 0;) text_put(story, part, (size_t)n);
    close(pipes[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) text_printf(story, "crash: signal %d\n", WTERMSIG(status));
    return WIFSIGNALED(status) ? CRASHED : WEXITSTATUS(status) ? DIFFERS : FINE;
}

/* Shrinking ----------------------------------------------------------------------------------- */

typedef struct Want {
    uint64_t seed;
    Outcome outcome;
    bool peak, symbolic;
    bool errors; /* of the whole program: a smaller one must not add some */
    time_t until;
} Want;

static bool still_fails(void *context, const FzProgram *p, const FzProgram *variant) {
    const Want *const want = context;
    static Case c;
    if (time(NULL) > want->until) return false;
    c = (Case){
        .p = *p, .has_variant = variant != NULL, .seed = want->seed, .peak = want->peak, .symbolic = want->symbolic};
    if (variant) c.variant = *variant;
    bool errors;
    return run_quietly(&c, &errors) == want->outcome && (!errors || want->errors);
}

static void report(const Options *o, const Case *c, Outcome outcome) {
    static Case small;
    Text story = {0};
    Want want = {
        .seed = c->seed, .outcome = outcome, .peak = c->peak, .symbolic = c->symbolic, .until = time(NULL) + 20};
    small = *c;
    run_quietly(c, &want.errors);
    if (!small.has_variant) small.variant = (FzProgram){.n_steps = 0};
    if (!o->quick) fz_shrink(&small.p, &small.variant, still_fails, &want);
    small.has_variant = small.variant.n_steps || small.variant.n_returns;
    run_one(&small, &story);
    save(o, &small, text_str(&story));
    text_free(&story);
}

/* Campaigns ----------------------------------------------------------------------------------- */

static void write_variant(Case *c, int64_t *uses) {
    c->has_variant = true;
    fz_variant(&c->p, (int)(c->seed / 4 % (uint64_t)(c->p.n_steps + 1)), c->seed ^ 0x5bd1e995, uses, &c->variant);
}

static void write_case(Case *c, uint64_t seed, int64_t *uses) {
    *c = (Case){.seed = seed};
    fz_generate(&c->p, seed, uses);
    if (seed % 4 == 0) write_variant(c, uses);
}

/* Few have variants: with one a program is not replayed. */
static void write_stateful(Case *c, uint64_t seed, int64_t *uses) {
    *c = (Case){.seed = seed, .stateful = true};
    fz_generate_stateful(&c->p, seed, uses);
    if (seed % 8 == 0) write_variant(c, uses);
}

/* The programs of n seeds: the usual one of each, and of some one with state, beside it and not in its place: what it
 * draws is counted apart. */
static int write_cases(const Options *o, int64_t first, int n, Totals *totals, Case *cases) {
    int written = 0;
    for (int64_t i = first; i < first + n; i++) {
        if (o->peak) {
            Case *const c = &cases[written++];
            *c = (Case){.seed = o->seed + (uint64_t)i, .peak = true, .symbolic = o->symbolic};
            fz_generate_net(&c->p, c->seed);
            continue;
        }
        if (!o->stateful) write_case(&cases[written++], o->seed + (uint64_t)i, totals->uses);
        if (o->stateful || i % STATEFUL_EVERY == 0)
            write_stateful(&cases[written++], o->seed + (uint64_t)i, totals->stateful_uses);
    }
    return written;
}

static void note_features(const FzProgram *p, Totals *totals) {
    for (int i = 0; i < fz_feature_count(); i++) totals->features[i] += fz_has_feature(p, i);
}

static void run_all(const Options *o, const Case *cases, int n, Totals *totals) {
    Outcome outcomes[2 * BATCH];
    for (int i = 0; i < n;) {
        const int ended = run_some(&cases[i], n - i, outcomes, totals);
        for (int k = 0; k < ended; k++) {
            note_features(&cases[i + k].p, totals);
            totals->graphs += !cases[i + k].stateful;
            totals->stateful += cases[i + k].stateful;
            totals->differing += outcomes[k] == DIFFERS;
            totals->crashed += outcomes[k] == CRASHED;
            if (outcomes[k] == CRASHED) say_end(&cases[i + k], totals->end);
            if (outcomes[k] != FINE) report(o, &cases[i + k], outcomes[k]);
        }
        i += ended;
    }
}

static void campaign(const Options *o, Totals *totals) {
    Case *const cases = calloc(2 * BATCH, sizeof *cases);
    const time_t start = time(NULL);
    totals->uses = calloc((size_t)fz_form_count(), sizeof *totals->uses);
    totals->ran = calloc((size_t)fz_form_count(), sizeof *totals->ran);
    totals->stateful_uses = calloc((size_t)fz_form_count(), sizeof *totals->stateful_uses);
    totals->features = calloc((size_t)fz_feature_count(), sizeof *totals->features);
    for (int64_t done = 0; done < o->graphs; done += BATCH) {
        if (o->seconds && time(NULL) - start >= o->seconds) break;
        const int n = (int)(o->graphs - done < BATCH ? o->graphs - done : BATCH);
        run_all(o, cases, write_cases(o, done, n, totals, cases), totals);
    }
    free(cases);
}

/* The campaign's programs (without variants) are not compared but recorded: here, since what eager crashes at is
 * found by a campaign. */
static bool record_all(const Options *o) {
    static Case c;
    int64_t *const uses = calloc((size_t)fz_form_count(), sizeof *uses);
    bool good = true;
    for (int64_t i = 0; i < o->graphs && good; i++) {
        write_case(&c, o->seed + (uint64_t)i, uses);
        good = o->dump ? fz_dump(&c.p, c.seed, o->dump) : fz_record(&c.p, c.seed, o->record);
    }
    if (!good) fprintf(stderr, "cannot write to '%s': %s\n", o->dump ? o->dump : o->record, strerror(errno));
    free(uses);
    return good;
}

static int count_at_least(const int64_t *uses, int n, int64_t least) {
    int found = 0;
    for (int i = 0; i < n; i++) found += uses[i] >= least;
    return found;
}
static int count_used(const int64_t *uses, int n) { return count_at_least(uses, n, ENOUGH_USES); }

static double compiled_share(const Totals *t) { return t->ops ? (double)t->ops_generated / (double)t->ops : 0; }

/* The rest of the object: how many programs have each. */
static void print_uses(const Totals *t) {
    printf(", \"uses\": {");
    for (int i = 0; i < fz_feature_count(); i++)
        printf("%s\"%s\": %lld", i ? ", " : "", fz_feature_name(i), (long long)t->features[i]);
    printf("}}\n");
}

static void print_totals(const Options *o, const Totals *t) {
    printf(o->json
               ? "{\"graphs\": %lld, \"stateful\": %lld, \"differing\": %lld, \"crashed\": %lld, \"errors\": %lld, "
                 "\"replayed\": %lld, \"saved\": %lld, \"built\": %lld, \"imported\": %lld, \"inferred\": %lld, "
                 "\"inferred_by_symbols\": %lld, \"rows_run\": %d, "
                 "\"compiled_share\": %.3f, \"rows_used\": %d, \"rows\": %d, "
                 "\"features_used\": %d, \"features\": %d"
               : "%lld graphs and %lld with state: %lld differing, %lld crashed, %lld end in an error, %lld replayed, "
                 "%lld saved as plans, %lld graphs built, %lld imported, %lld ops inferred, %lld by symbols; %d forms "
                 "ran; compiled share %.3f; %d of %d forms and %d of %d features used at least 5 times\n",
           (long long)t->graphs, (long long)t->stateful, (long long)t->differing, (long long)t->crashed,
           (long long)t->errors, (long long)t->replayed, (long long)t->saved, (long long)t->built,
           (long long)t->imported, (long long)t->inferred, (long long)t->symbolic,
           count_at_least(t->ran, fz_form_count(), 1), compiled_share(t), count_used(t->uses, fz_form_count()),
           fz_form_count(), count_used(t->features, fz_feature_count()), fz_feature_count());
    if (o->json) print_uses(t);
    for (int i = 0; o->verbose && i < fz_form_count(); i++)
        if (!t->ran[i]) fprintf(stderr, "%s: proposed %lld times, never ran\n", fz_form_name(i), (long long)t->uses[i]);
    for (int i = 0; o->verbose && i < fz_feature_count(); i++)
        fprintf(stderr, "%s: %lld\n", fz_feature_name(i), (long long)t->features[i]);
}

static void print_peaks(const Options *o, const Totals *t) {
    printf(o->json ? "{\"graphs\": %lld, \"trained\": %lld, \"differing\": %lld, \"crashed\": %lld, \"above\": %lld, "
                     "\"waiting\": %lld, "
                     "\"peak\": %lld, \"eager_peak\": %lld}\n"
                   : "%lld graphs, %lld trained: %lld take too much memory, %lld crashed, %lld more by epilogues, %lld "
                     "by joins; %lld "
                     "bytes in all, eager %lld\n",
           (long long)t->graphs, (long long)t->trained, (long long)t->differing, (long long)t->crashed,
           (long long)t->above, (long long)t->waiting, (long long)t->peak, (long long)t->eager_peak);
}

static bool never_ran(int form) {
    fprintf(stderr, "fuzz: %s was proposed and never ran without an error\n", fz_form_name(form));
    return false;
}

static bool missed(const char *what) { return fprintf(stderr, "fuzz: %s\n", what), false; }

/* What a campaign must reach, besides that nothing differs; fewer graphs cannot. */
static bool is_thorough(const Totals *t) {
    bool good = true;
    if (t->graphs < MOST_OF_ALL || fz_device != SN_CPU) return true;
    const int errors_in = t->graphs < 1000 ? 10 : 20; /* of few programs as many may end so by chance */
    if (t->errors * errors_in > t->graphs + t->stateful) good = missed("too many of the programs end in an error");
    for (int i = 0; i < fz_form_count(); i++)
        if (t->uses[i] && !t->ran[i] && t->graphs >= FULL_CAMPAIGN) good = never_ran(i);
    if (fz_only_eager) return good;
    if (t->inferred < t->graphs) good = missed("sn_op_infer is asked of fewer ops than there are programs");
    if (t->imported * 4 < t->graphs) good = missed("fewer .pt2 files than a quarter of the programs");
    if (t->graphs < FULL_CAMPAIGN) return good;
    /* Each row is used as often as the others, also those whose sizes depend on values, which end a segment. */
    if (compiled_share(t) < 0.78) good = missed("the compiled share is below 0.78");
    if (t->built * 2 < t->graphs) good = missed("fewer graphs are built again than half of the programs");
    if (t->saved * 25 < t->graphs) good = missed("fewer than 4 % of the programs are saved as plans");
    for (int i = 0; i < fz_form_count(); i++)
        if (t->uses[i] < ENOUGH_USES) good = missed(fz_form_name(i));
    for (int i = 0; i < fz_feature_count(); i++)
        if (t->features[i] < ENOUGH_USES) good = missed(fz_feature_name(i));
    return good;
}

/* 61 to 64 % as it is; 5 % more where a call has all of its memory from its start, and 5 % again where a backward makes
 * all of what it recomputes at its top. More than eager's is for epilogues and joins alone, which are few. */
static bool peaks_are_low(const Totals *t) {
    if (t->above * 80 > t->trained) return missed("more than 1.25 % of the nets take more memory than eager");
    if (t->waiting * 100 > t->trained) return missed("more than 1 % of the nets take more memory, by joins");
    if (t->trained * 2 < t->graphs) return missed("fewer than half of the nets are trained");
    return t->peak * 100 <= 65 * t->eager_peak || missed("all nets take more than 65 % of eager's memory");
}

static Outcome replay(const Options *o, const Case *c, Text *story) {
    if (!o->record) return run_one(c, story);
    return fz_record(&c->p, c->seed, o->record) ? FINE : CRASHED;
}

static bool is_device(const char *word) { return !strncmp(word, "--device=cuda", 14); }

static int replay_files(const Options *o, int n, char **files) {
    static Case c;
    int failed = 0;
    for (int i = o->first_file; i < n; i++) {
        if (is_device(files[i])) continue;
        char *const text = read_all(files[i]);
        if (!text) fprintf(stderr, "cannot open '%s': %s\n", files[i], strerror(errno));
        Text story = {0};
        c = (Case){.seed = 1, .peak = o->peak, .symbolic = o->symbolic};
        const bool parsed = text && parse_case(text, &c);
        const Outcome outcome = parsed ? replay(o, &c, &story) : CRASHED;
        printf("%s: %s\n%s", files[i], outcome == FINE ? "same" : "FAILS", text_str(&story));
        failed += outcome != FINE;
        text_free(&story);
        free(text);
    }
    return failed != 0;
}

/* A whole number of 0 or more. */
static bool whole(const char *word, uint64_t *out) {
    char *end;
    *out = strtoull(word, &end, 10);
    return word[0] >= '0' && word[0] <= '9' && !*end;
}

static bool parse_options(Options *o, int n, char **words) {
    for (int i = 1; i < n; i++) {
        const char *const value = i + 1 < n ? words[i + 1] : NULL;
        uint64_t number = 0;
        const bool counted = value && whole(value, &number);
        if (!strcmp(words[i], "--json")) {
            o->json = true;
        } else if (!strcmp(words[i], "--verbose")) {
            o->verbose = true;
        } else if (!strcmp(words[i], "--peak")) {
            o->peak = true;
        } else if (!strcmp(words[i], "--symbolic")) {
            o->symbolic = true;
        } else if (!strcmp(words[i], "--eager")) {
            fz_only_eager = true;
        } else if (!strcmp(words[i], "--quick")) {
            o->quick = true;
        } else if (!strcmp(words[i], "--stateful")) {
            o->stateful = true;
        } else if (is_device(words[i])) {
            fz_device = SN_CUDA(0);
        } else if (!strcmp(words[i], "--replay") && value) {
            o->first_file = i + 1;
            for (int k = i + 1; k < n; k++)
                if (is_device(words[k])) fz_device = SN_CUDA(0);
            return true;
        } else if (counted && !strcmp(words[i], "--graphs")) {
            o->graphs = (int64_t)number, i++;
        } else if (counted && !strcmp(words[i], "--cache")) {
            o->cache = (int64_t)number, i++;
        } else if (counted && !strcmp(words[i], "--calls")) {
            o->calls = (int64_t)number, i++;
        } else if (counted && !strcmp(words[i], "--headers")) {
            o->headers = (int64_t)number, i++;
        } else if (value && !strcmp(words[i], "--row")) {
            o->row = words[++i];
        } else if (counted && !strcmp(words[i], "--seed")) {
            o->seed = number, i++;
        } else if (counted && !strcmp(words[i], "--seconds")) {
            o->seconds = (int64_t)number, i++;
        } else if (value && !strcmp(words[i], "--save")) {
            o->save = words[++i];
        } else if (value && !strcmp(words[i], "--record")) {
            o->record = words[++i];
        } else if (value && !strcmp(words[i], "--dump")) {
            o->dump = words[++i];
        } else {
            fprintf(stderr, "fuzz: unexpected '%s%s%s'\n", words[i], value ? " " : "", value ? value : "");
            return false;
        }
    }
    return true;
}

/* The whole name of a row that programs may call, as calls.c compares them. */
static bool is_callable(const char *name) {
    for (int i = 0; i < op_row_count(); i++)
        if (!strcmp(op_row_at(i)->name, name)) return !(op_row_at(i)->flags & OPF_internal);
    return false;
}

int main(int n, char **words) {
    Options o = {.graphs = 1000, .seed = 1};
    Totals totals = {.graphs = 0};
    if (!parse_options(&o, n, words)) {
        fprintf(stderr,
                "fuzz --graphs N --seed S [--device=cuda] [--stateful] [--eager] [--quick] [--json] [--verbose] "
                "[--seconds T] "
                "[--save DIR] "
                "[--record DIR] [--dump DIR] [--replay FILE...] | --peak [--symbolic] ... | --cache N [--seed S] "
                "[--json] | "
                "--calls "
                "N [--row OP] "
                "[--seed S] [--json] [--verbose] | --headers N [--seed S] [--verbose]\n");
        return 2;
    }
    setenv("SINTER_EAGER_COMPILE", "never", 1); /* generated code is not checked by itself, but in a mode of its own */
    setenv("SINTER_CACHE_DIR", "off", 1);       /* what is found does not depend on what was compiled before */
    if (o.peak) setenv("SINTER_PLAIN_MALLOC", "1", 1), setenv("SINTER_THREADS", "1", 1);
    if (!o.record && !o.dump && !fz_user_ops_register()) return 2; /* PyTorch and the tool have none of them */
    if (o.row && !is_callable(o.row)) {
        fprintf(stderr, "fuzz: no program calls a row '%s'\n", o.row);
        return 2;
    }
    if (o.cache) return fz_cache(o.cache, o.seed, o.json);
    if (o.calls) return fz_calls(o.calls, o.seed, o.row, o.json, o.verbose);
    if (o.headers) return fz_headers(o.headers, o.seed, o.verbose);
    if (o.first_file) return replay_files(&o, n, words);
    if (o.record || o.dump) return !record_all(&o);
    totals.verbose = o.verbose;
    campaign(&o, &totals);
    if (o.peak)
        print_peaks(&o, &totals);
    else
        print_totals(&o, &totals);
    const bool good = (o.peak ? peaks_are_low(&totals) : is_thorough(&totals)) && !totals.differing && !totals.crashed;
    free(totals.uses);
    free(totals.ran);
    free(totals.stateful_uses);
    free(totals.features);
    return !good;
}
