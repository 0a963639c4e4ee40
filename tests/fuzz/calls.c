/* calls.c: fuzz --calls N: single ops with wild arguments (call_make.c), boxed: eagerly, then in a compiled function,
 * interpreted or as generated code, in mode VERIFY or REPLAY, with the backward of what can be differentiated. None may
 * crash or run on and on; results, inputs afterwards, gradients and errors are eager's. What asks for more than
 * MOST_BYTES in one block is out of memory, which is an error like any other; where either side meets it, nothing is
 * compared. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/core/dispatch.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/run.h"
#include "tests/ref/nan.h"

enum {
    BATCH = 400,
    MOST_BYTES = 16 << 20,
    GENERATED_EVERY = 16, /* makes code: a few milliseconds each */
    SHOWN_RESULTS = 64,
    CPU_SECONDS = 20,
    SECONDS = 120,
    STACKED = 1024
};

/* One run ----------------------------------------------------------------------------------------- */

typedef struct Seen {
    Text text;
    bool failed, memory;
    int n_out;
} Seen;

typedef struct Trial {
    WildCall call;
    int n_out;     /* results that the function gives */
    bool backward; /* in the body, else after the call */
    Text *numbers;
} Trial;

static sn_value list_in_frame(sn_frame *f, const WildCall *call, sn_value v);

static sn_tensor *tensor_in_frame(sn_frame *f, const WildCall *call, sn_tensor *t) {
    for (int i = 0; f && i < call->n_tensors; i++)
        if (call->tensors[i] == t) return sn_in(f, i);
    return t;
}

/* The argument, of the frame's inputs. */
static sn_value in_frame(sn_frame *f, const WildCall *call, sn_value v) {
    if (v.kind == SN_KIND_TENSORS) return list_in_frame(f, call, v);
    return v.kind == SN_KIND_TENSOR ? sn_val(tensor_in_frame(f, call, v.tensor)) : v;
}

static sn_value list_in_frame(sn_frame *f, const WildCall *call, sn_value v) {
    sn_tensor **const list = ARENA_ARRAY(call->arena, sn_tensor *, v.n + 1);
    for (int i = 0; i < v.n; i++) list[i] = tensor_in_frame(f, call, v.tensors[i]);
    return sn_tensors_value((sn_tensors){list, v.n});
}

static sn_status backward_of(sn_tensor *const *outs, int n) {
    sn_tensor *roots[SHOWN_RESULTS], *ones[SHOWN_RESULTS];
    int n_roots = 0;
    for (int i = 0; i < n; i++) {
        if (!sn_requires_grad(outs[i])) continue;
        roots[n_roots] = outs[i];
        ones[n_roots++] = sn_ones_like(sn_detach(outs[i]));
    }
    if (!n_roots || sn_check()) return sn_check();
    return sn_backward_ex((sn_tensors){roots, n_roots}, (sn_tensors){ones, n_roots}, 0);
}

/* The call itself; f NULL: outside of a function. Returns how many results are tensors. */
static int call_op(Trial *trial, sn_frame *f, sn_tensor **outs) {
    static sn_value found[MAX_LIST];
    const WildCall *const call = &trial->call;
    sn_value in[COUNT_OF(call->in)];
    int n = MAX_LIST, n_outs = 0;
    for (int i = 0; i < call->n_in; i++) in[i] = in_frame(f, call, call->in[i]);
    sn_op_call(call->op, in, call->n_in, found, &n);
    text_free(trial->numbers);
    if (n > 8) text_printf(trial->numbers, "%d results\n", n);
    for (int i = 0; i < n; i++) {
        const sn_value *const v = &found[i];
        if (v->kind == SN_KIND_TENSOR && v->tensor && n_outs < SHOWN_RESULTS) outs[n_outs++] = v->tensor;
        if (v->kind == SN_KIND_INT || v->kind == SN_KIND_BOOL)
            text_printf(trial->numbers, "number %" PRId64 "\n",
                        v->kind == SN_KIND_INT ? sn_sym_value((sn_sym){v->i}) : v->i);
        if (v->kind == SN_KIND_FLOAT) text_printf(trial->numbers, "number %a\n", v->f);
    }
    return n_outs;
}

static sn_status body(sn_frame *f) {
    Trial *const trial = sn_closure(f);
    sn_tensor *outs[SHOWN_RESULTS];
    const int n = call_op(trial, f, outs);
    if (!sn_check() && trial->backward) backward_of(outs, n);
    for (int i = 0; i < n && i < trial->n_out; i++) sn_out(f, i, outs[i]);
    return sn_check();
}

/* What is seen of it ------------------------------------------------------------------------------ */

static uint64_t data_hash(sn_tensor *t) {
    const DType dtype = (DType)sn_dtype_of(t);
    const size_t item = (size_t)dtype_bytes(dtype), bytes = (size_t)sn_numel(t) * item;
    unsigned char *const data = calloc(bytes + 1, 1);
    if (sn_read(t, data, bytes) != SN_OK) return free(data), 0;
    for (size_t i = 0; i < bytes; i += item) {
        if (is_nan_at(dtype, data + i)) memset(data + i, 0xff, item);
        if (dtype == DT_bool) data[i] = data[i] != 0;
    }
    const uint64_t hash = hash_bytes(0, data, bytes);
    free(data);
    return hash;
}

/* More than one block holds it under stride 0, and takes long to look at. */
static bool is_long(sn_tensor *t) { return sn_numel(t) > MOST_BYTES / 8; }

/* unset: its elements are anything. */
static void see(Seen *seen, const char *what, int i, sn_tensor *t, bool unset) {
    text_printf(&seen->text, "%s %d: ", what, i);
    if (!t || !sn_ok(t)) {
        text_puts(&seen->text, "none\n");
        return;
    }
    sn_numel(t); /* of a placeholder: what it is */
    meta_print(NULL, &seen->text, t->base.meta);
    if (sn_requires_grad(t)) text_puts(&seen->text, " grad");
    const bool without_data = unset || is_long(t) || sn_is_fake(t) || sn_device_of(t) == SN_META;
    if (!without_data) text_printf(&seen->text, " = %016" PRIx64, data_hash(t));
    text_puts(&seen->text, "\n");
}

static void see_error(Seen *seen) {
    const sn_error *const e = sn_error_take();
    if (!e->status) return;
    seen->failed = true;
    seen->memory |= e->status == SN_ERR_MEMORY;
    text_free(&seen->text); /* how far it came is not asked */
    text_printf(&seen->text, "error %d %s: %s\n", (int)e->status, e->op, e->message);
}

static void see_all(Seen *seen, const Trial *trial, sn_tensor *const *outs) {
    const WildCall *const call = &trial->call;
    const bool unset = call->row->flags & OPF_unset || call->row->role == ROLE_resizes;
    text_puts(&seen->text, text_str(trial->numbers));
    for (int i = 0; i < trial->n_out; i++) see(seen, "result", i, outs[i], unset);
    for (int i = 0; i < call->n_tensors; i++) see(seen, "input", i, call->tensors[i], unset);
    for (int i = 0; i < call->n_tensors && !unset; i++)
        if (sn_grad(call->tensors[i])) see(seen, "gradient", i, sn_grad(call->tensors[i]), false);
    see_error(seen);
}

static void run_eagerly(uint64_t seed, Trial *trial, Seen *seen) {
    sn_tensor *outs[SHOWN_RESULTS];
    sn_seed(seed);
    seen->n_out = trial->n_out = call_op(trial, NULL, outs);
    if (!sn_check()) backward_of(outs, trial->n_out);
    see_error(seen);
    if (!seen->failed) see_all(seen, trial, outs);
}

static void run_function(uint64_t seed, sn_function *fn, Trial *trial, Seen *seen) {
    sn_tensor *outs[SHOWN_RESULTS] = {0};
    sn_seed(seed);
    sn_call(fn, trial->call.tensors, trial->call.n_tensors, outs, trial->n_out);
    if (!sn_check() && !trial->backward) backward_of(outs, trial->n_out);
    see_error(seen);
    if (!seen->failed) see_all(seen, trial, outs);
}

/* A call, eagerly and compiled -------------------------------------------------------------------- */

typedef enum CallEnd { CALL_same, CALL_failed, CALL_memory, CALL_differs, CALL_crashed, CALL_ENDS } CallEnd;

static void describe(const Trial *trial, Text *story) {
    text_free(story);
    fz_call_print(&trial->call, story);
}

static CallEnd compare(const Seen *want, const Seen *got, const char *how, Text *story) {
    if (want->memory || got->memory) return CALL_memory;
    if (!strcmp(text_str(&want->text), text_str(&got->text))) return want->failed ? CALL_failed : CALL_same;
    text_printf(story, "eager:\n%s%s:\n%s", text_str(&want->text), how, text_str(&got->text));
    return CALL_differs;
}

static CallEnd compare_compiled(uint64_t seed, const char *row, const Seen *want, Text *story) {
    const bool replayed = seed % 2 != 0;
    Text numbers = {0};
    Trial trial = {.n_out = want->n_out, .backward = seed % 4 >= 2, .numbers = &numbers};
    failpoint_set(seed % GENERATED_EVERY ? "codegen" : "");
    sn_function *const fn =
        sn_compile(body, &trial, SN_COMPILE_OPTIONS(.mode = replayed ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY));
    CallEnd end = CALL_same;
    for (int i = 0; i < 3 && end <= CALL_memory; i++) {
        Seen got = {.n_out = 0};
        char how[32];
        Arena *const arena = arena_new();
        const sn_scope scope = sn_scope_begin();
        fz_call_make(&trial.call, seed, row, arena);
        run_function(seed, fn, &trial, &got);
        snprintf(how, sizeof how, "%s, call %d", replayed ? "replay" : "verify", i);
        const CallEnd now = compare(want, &got, how, story);
        end = now > end ? now : end;
        sn_scope_end(scope);
        arena_free(arena);
        text_free(&got.text);
    }
    sn_function_free(fn);
    failpoint_set(NULL);
    text_free(&numbers);
    return end;
}

/* told: what is called, before it is. */
static CallEnd compare_call(uint64_t seed, const char *row, bool told, Text *story) {
    Arena *const arena = arena_new();
    Seen want = {.n_out = 0};
    Text numbers = {0};
    Trial trial = {.numbers = &numbers};
    const sn_scope scope = sn_scope_begin();
    fz_call_make(&trial.call, seed, row, arena);
    describe(&trial, story);
    if (told) fputs(text_str(story), stderr);
    run_eagerly(seed, &trial, &want);
    sn_scope_end(scope);
    arena_free(arena);
    const CallEnd end = compare_compiled(seed, row, &want, story);
    text_free(&want.text);
    text_free(&numbers);
    return end;
}

/* Processes --------------------------------------------------------------------------------------- */

/* A call that runs on and on, or waits for ever, is a crash. */
static void limit_time(void) {
    const struct itimerval cpu = {.it_value.tv_sec = CPU_SECONDS};
    setitimer(ITIMER_PROF, &cpu, NULL);
    alarm(SECONDS);
}

/* Beside the limit of one block: of all that a call holds. Sanitizers map all memory. */
static void limit_memory(void) {
    mem_fail_above(MOST_BYTES);
#ifndef SINTER_PLAIN_MALLOC
    const rlim_t most = (rlim_t)8 << 30;
    setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
#endif
}

typedef struct Report { /* sent when a call has ended */
    uint64_t seed;
    CallEnd end;
} Report;

static void run_batch(uint64_t first, int64_t n, const char *row, bool told, int to) {
    sn_setting_set("logs", "-all"); /* that a function is not replayed, say */
    limit_memory();
    for (int64_t i = 0; i < n; i++) {
        Text story = {0};
        limit_time();
        const Report report = {first + (uint64_t)i, compare_call(first + (uint64_t)i, row, told, &story)};
        if (report.end == CALL_differs)
            fprintf(stderr, "fuzz: call %" PRIu64 " differs: %s", report.seed, text_str(&story));
        text_free(&story);
        if (write(to, &report, sizeof report) != sizeof report) _exit(3);
    }
    _exit(0);
}

/* Runs calls from `first` on in a process; returns how many ended, at least one. */
static int64_t run_some(uint64_t first, int64_t n, const char *row, bool told, int64_t *ends) {
    int pipes[2], status = 0;
    fflush(NULL);
    const pid_t child = pipe(pipes) == 0 ? fork() : -1;
    if (child < 0) {
        perror("fuzz: cannot start a process");
        exit(2);
    }
    if (child == 0) run_batch(first, n, row, told, pipes[1]);
    close(pipes[1]);
    int64_t ended = 0;
    for (Report r; read(pipes[0], &r, sizeof r) == sizeof r; ended++) ends[r.end]++;
    close(pipes[0]);
    waitpid(child, &status, 0);
    if (ended == n && !status) return n;
    ends[CALL_crashed]++;
    fprintf(stderr, "fuzz: call %" PRIu64 ": the process ended by %s %d: ", first + (uint64_t)ended,
            WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return ended + 1;
}

/* What a call was that ended its process: made, not run, in another one. */
static void tell_call(uint64_t seed, const char *row) {
    const pid_t child = fork();
    if (child == 0) {
        Text text = {0};
        WildCall call;
        limit_time();
        fz_call_make(&call, seed, row, arena_new());
        fz_call_print(&call, &text);
        fputs(text_str(&text), stderr);
        _exit(0);
    }
    waitpid(child, &(int){0}, 0);
}

int fz_calls(int64_t n, uint64_t seed, const char *row, bool json, bool told) {
    int64_t ends[CALL_ENDS] = {0};
    for (int64_t done = 0; done < n;) {
        const int64_t crashed = ends[CALL_crashed];
        done += run_some(seed + (uint64_t)done, n - done < BATCH ? n - done : BATCH, row, told, ends);
        if (ends[CALL_crashed] > crashed) tell_call(seed + (uint64_t)done - 1, row);
    }
    printf(json ? "{\"calls\": %" PRId64 ", \"same\": %" PRId64 ", \"errors\": %" PRId64 ", \"out_of_memory\": %" PRId64
                  ", \"differing\": %" PRId64 ", \"crashed\": %" PRId64 "}\n"
                : "%" PRId64 " calls: %" PRId64 " with equal results, %" PRId64 " with equal errors, %" PRId64
                  " out of memory, %" PRId64 " differing, %" PRId64 " crashed\n",
           n, ends[CALL_same], ends[CALL_failed], ends[CALL_memory], ends[CALL_differs], ends[CALL_crashed]);
    return ends[CALL_differs] || ends[CALL_crashed];
}
