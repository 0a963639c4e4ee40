/* sample_peak.c: of each sample in a folder (samples/work.h), the memory that a call takes at most, eagerly and
 * compiled: compiled it is no more than eager's, and SLOT_BYTES for each slot of the plans, whose places are whole
 * lines [semantics G5]. Bytes are counted as they are asked for, by one thread. Usage: sample_peak FOLDER NAME... */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "samples/work.h"

enum { CALLS = 4, RESULTS = 4, SLOT_BYTES = 64 };

typedef void WorkFn(SampleWork *work);

static int64_t memory_now(int64_t *most) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(SN_CPU, &memory);
    if (most) *most = memory.peak;
    return memory.current;
}

static void backward(const SampleWork *work, sn_tensor *result) {
    for (int i = 0; i < work->n_in; i++) sn_grad_set(work->in[i], NULL);
    sn_backward(result);
}

/* Of the last call: others compiled it. */
static int64_t peak_of(const SampleWork *work, sn_function *fn) {
    int64_t peak = 0;
    const sn_grad_mode mode = sn_grad_mode_set(work->kind == SAMPLE_FORWARD ? SN_GRAD_OFF : SN_GRAD_ON);
    for (int i = 0; i < CALLS && !sn_check(); i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *in[4] = {work->in[0], work->in[1], work->in[2], work->in[3]}, *out[RESULTS] = {NULL};
        sn_memory_trim(SN_CPU);
        sn_memory_reset_peak(SN_CPU);
        const int64_t before = memory_now(NULL);
        sn_call(fn, in, work->n_in, out, work->n_out);
        if (work->kind == SAMPLE_BACKWARD) backward(work, out[0]);
        memory_now(&peak);
        peak -= before;
        sn_scope_end(scope);
    }
    sn_grad_mode_set(mode);
    return peak;
}

static sn_function *compiled(const SampleWork *work, sn_compile_mode mode) {
    const sn_compile_options options = {.size = sizeof options, .mode = mode};
    return work->graph ? sn_graph_compile(work->graph, &options) : sn_compile(work->body, work->closure, &options);
}

static int count_slots(sn_function *fn) {
    int n = 0;
    const char *at = sn_dump(fn, "memory");
    while (at && (at = strstr(at, "\n  arena"))) n++, at++;
    return n;
}

typedef struct Seen {
    int64_t peak;
    int slots;
    bool done;
} Seen;

static WorkFn *work_of(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    void *const module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *const symbol = module ? dlsym(module, "sample_work") : NULL;
    WorkFn *make = NULL;
    if (!symbol) fprintf(stderr, "%s: %s\n", name, dlerror());
    memcpy(&make, &symbol, sizeof make);
    return make;
}

static Seen look(WorkFn *make, sn_compile_mode mode) {
    SampleWork work = {0};
    Seen seen = {0};
    sn_seed(1);
    make(&work);
    sn_function *const fn = compiled(&work, mode);
    seen.peak = peak_of(&work, fn);
    seen.slots = count_slots(fn);
    seen.done = sn_finish() == 0;
    return seen;
}

/* In a process of its own: a step changes what a sample holds, and it registers its ops once. */
static Seen look_apart(const char *folder, const char *name, sn_compile_mode mode) {
    int pipes[2];
    Seen seen = {0};
    fflush(stdout);
    if (pipe(pipes)) return seen;
    const pid_t child = fork();
    if (child == 0) {
        WorkFn *const make = work_of(folder, name);
        if (make) seen = look(make, mode);
        _exit(write(pipes[1], &seen, sizeof seen) != sizeof seen);
    }
    close(pipes[1]);
    if (child < 0 || read(pipes[0], &seen, sizeof seen) != sizeof seen) seen.done = false;
    close(pipes[0]);
    if (child > 0) waitpid(child, NULL, 0);
    return seen;
}

static bool check_sample(const char *folder, const char *name) {
    const Seen eager = look_apart(folder, name, SN_COMPILE_EAGER), fast = look_apart(folder, name, SN_COMPILE_VERIFY);
    const bool good = eager.done && fast.done && fast.peak <= eager.peak + SLOT_BYTES * fast.slots;
    printf("%s: eager %lld bytes, compiled %lld in %d slots%s\n", name, (long long)eager.peak, (long long)fast.peak,
           fast.slots, good ? "" : ": not as it should be");
    return good;
}

int main(int n, char **words) {
    bool good = n > 2;
    setenv("SINTER_PLAIN_MALLOC", "1", 1), setenv("SINTER_THREADS", "1", 1);
    for (int i = 2; i < n; i++) good &= check_sample(words[1], words[i]);
    return !good;
}
