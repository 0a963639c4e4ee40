/* record.c: programs and what eager gives for them, as files. Eager is the fuzzer's reference; what it gets wrong
 * itself is seen only beside another implementation. And the graphs that are captured of programs, for what runs texts:
 * `sinter verify`. */
#include <stdio.h>

#include "tests/fuzz/run.h"

static bool write_file(const char *dir, uint64_t seed, const char *ending, const Text *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%llu.%s", dir, (unsigned long long)seed, ending);
    FILE *const file = fopen(path, "wb");
    if (!file) return false;
    const bool written = fputs(text_str(text), file) >= 0;
    return fclose(file) == 0 && written;
}

/* PyTorch has another list for the CPU. */
static bool fz_casts(const FzProgram *p) {
    bool any = p->region;
    for (int i = 0; i < p->n_steps; i++) any |= p->steps[i].kind == FZ_autocast;
    return any;
}

/* What differs between calls, and memory in blocks, its reader has no words for. */
static bool differs_between_calls(const FzProgram *p) {
    bool any = p->n_varies;
    for (int i = 0; i < p->n_inputs; i++) any |= p->inputs[i].shifted;
    return any;
}

bool fz_record(const FzProgram *p, uint64_t seed, const char *dir) {
    const sn_compile_options options = {.size = sizeof options, .mode = SN_COMPILE_EAGER};
    FzRun *const run = fz_run_new(p, &options);
    FzSeen seen;
    Text program = {0};
    fz_run_whole(run);
    fz_run_call(run, 0, seed, &seen);
    text_printf(&program, "# seed %llu\n", (unsigned long long)seed);
    fz_print(p, &program);
    const bool good = seen.random || fz_casts(p) || differs_between_calls(p) ||
                      (write_file(dir, seed, "fz", &program) && write_file(dir, seed, "txt", &seen.story));
    text_free(&program);
    fz_seen_free(&seen);
    fz_run_free(run);
    return good;
}

/* Two calls: sizes that differ are symbols. */
bool fz_dump(const FzProgram *p, uint64_t seed, const char *dir) {
    const sn_compile_options options = {.size = sizeof options};
    FzRun *const run = fz_run_new(p, &options);
    Text text = {0};
    for (int i = 0; i < 2; i++) {
        FzSeen seen;
        fz_run_call(run, i, seed + (uint64_t)i, &seen);
        fz_seen_free(&seen);
    }
    text_puts(&text, sn_dump(run->fn, "capture"));
    if (sn_check() != SN_OK) sn_error_take(); /* nothing was captured */
    const bool good = write_file(dir, seed, "txt", &text);
    text_free(&text);
    fz_run_free(run);
    return good;
}
