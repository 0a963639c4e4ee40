/* cache.c: fuzz --cache N: entries of the code cache on disk, changed at random, half of them with a digest that is
 * right again (the code's own bytes stay as they are then: what they say is trusted once the digest fits). Each is met
 * by a process of its own, which has neither code nor, mostly, LLVM: it must give eager's bits, and take no entry that
 * is not byte for byte the one that was written. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/core/disk_cache.h"
#include "tests/fuzz/cache.h"
#include "tests/fuzz/run.h"

enum { LLVM_EVERY = 50, MOST_CHANGES = 4, SECONDS = 60 };

/* Functions --------------------------------------------------------------------------------------- */

static sn_status normalises(sn_frame *f) {
    return sn_out(f, 0, sn_softmax(sn_gelu(sn_add(sn_in(f, 0), sn_in(f, 1))), -1));
}
static sn_status gathers(sn_frame *f) {
    sn_tensor *const rows = sn_argmax(sn_in(f, 0), 1, false);
    return sn_out(f, 0, sn_exp(sn_index_select(sn_in(f, 1), 0, rows)));
}
static sn_status narrows(sn_frame *f) {
    sn_tensor *const h = sn_to(sn_mul(sn_in(f, 0), sn_in(f, 1)), SN_BF16);
    return sn_out(f, 0, sn_sum_dim(sn_to(sn_tanh(h), SN_F32), SN_INTS(0), false));
}
static sn_status multiplies(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_mm(sn_in(f, 0), sn_t(sn_in(f, 1))))); }

typedef struct CachedCase {
    sn_body body;
    sn_tensor *want;            /* eager's */
    char folder[64], path[128]; /* of the cache, and in it the one entry */
    char *entry;
    size_t bytes;
} CachedCase;
static CachedCase cases[] = {{normalises}, {gathers}, {narrows}, {multiplies}};

static sn_tensor *inputs[2];

static sn_tensor *call_case(const CachedCase *c, sn_compile_mode mode) {
    sn_function *const fn = sn_compile(c->body, NULL, SN_COMPILE_OPTIONS(.mode = mode));
    sn_tensor *const result = sn_call1(fn, SN_TENSORS(inputs[0], inputs[1]));
    sn_function_free(fn);
    return result;
}

static bool same_as_eager(const CachedCase *c, sn_tensor *got) {
    static char a[1 << 16], b[1 << 16];
    const size_t bytes = (size_t)sn_numel(c->want) * 4;
    return got && bytes <= sizeof a && sn_numel(got) == sn_numel(c->want) && sn_read(got, a, bytes) == SN_OK &&
           sn_read(c->want, b, bytes) == SN_OK && !memcmp(a, b, bytes);
}

/* Processes --------------------------------------------------------------------------------------- */

typedef enum CacheEnd { END_missed, END_taken, END_wrong, END_crashed, CACHE_ENDS } CacheEnd;

static void run_case(const CachedCase *c, bool llvm) {
    alarm(SECONDS);
    if (!llvm) setenv("SINTER_LLVM_MODULE", "/nowhere", 1);
    sn_setting_set("logs", "-compile"); /* that there is no LLVM */
    sn_setting_set("cache_dir", c->folder);
    const bool same = same_as_eager(c, call_case(c, SN_COMPILE_VERIFY));
    _exit(!same ? END_wrong : disk_count(DISK_hits) > disk_count(DISK_unloadable) ? END_taken : END_missed);
}

static CacheEnd process_end(const CachedCase *c, bool llvm) {
    fflush(NULL);
    const pid_t child = fork();
    if (!child) run_case(c, llvm);
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) > END_wrong)
        return END_crashed;
    return (CacheEnd)WEXITSTATUS(status);
}

static bool begin_case(CachedCase *c) {
    DiskFolder folder;
    DiskFile *files;
    int n;
    c->want = call_case(c, SN_COMPILE_EAGER);
    snprintf(c->folder, sizeof c->folder, "/tmp/sinter-fuzz-XXXXXX");
    if (!c->want || !mkdtemp(c->folder) || process_end(c, true) != END_missed) return false;
    sn_setting_set("cache_dir", c->folder);
    if (!disk_folder_open(false, &folder) || !disk_folder_list(&folder, &files, &n) || n != 1) return false;
    snprintf(c->path, sizeof c->path, "%s/%s", c->folder, files[0].name);
    mem_free(files);
    disk_folder_close(&folder);
    return file_read(c->path, &c->entry, &c->bytes) == ST_OK && process_end(c, false) == END_taken;
}

static void end_case(CachedCase *c) {
    unlink(c->path);
    rmdir(c->folder);
    mem_free(c->entry);
}

/* Changes ----------------------------------------------------------------------------------------- */

static uint64_t dice;
static size_t roll(size_t n) { return n ? (size_t)(fz_next(&dice) >> 16) % n : 0; }

/* In `at`, which has room for twice its bytes. */
static size_t change_once(char *at, size_t n) {
    const size_t from = roll(n), length = roll(n - from < 64 ? n - from : 64), to = roll(n + 1);
    static const char *const words[] = {"0", "-1", "999999999999", "words 8\n", "\n", "18446744073709551615", "%s"};
    const char *const word = words[roll(COUNT_OF(words))];
    switch (roll(8)) {
    case 0:
        if (n) at[from] = (char)(at[from] ^ (1 << roll(8)));
        return n;
    case 1:
        return from; /* torn */
    case 2:
        memmove(at + from, at + from + length, n - from - length);
        return n - length;
    case 3: /* twice */
        memmove(at + from + length, at + from, n - from);
        return n + length;
    case 4:
        memset(at + from, roll(2) ? 0 : 0xff, length);
        return n;
    case 5:
        memmove(at + to + strlen(word), at + to, n - to);
        memcpy(at + to, word, strlen(word));
        return n + strlen(word);
    case 6:
        for (size_t i = 0; i < length; i++) at[from + i] = (char)roll(256);
        return n;
    default:
        memmove(at + roll(n - length + 1), at + from, length);
        return n;
    }
}

static size_t change(char *at, size_t n) {
    for (size_t times = 1 + roll(MOST_CHANGES); times; times--) n = change_once(at, n);
    return n;
}

/* The text or the key's words are changed, and the first line is made to fit. */
static bool change_and_sign(const CachedCase *c, char *buffer) {
    char line[BUNDLE_LINE], *const copy = mem_alloc(c->bytes);
    Bundle b;
    size_t words = 0;
    memcpy(copy, c->entry, c->bytes);
    if (bundle_adopt(copy, c->bytes, "entry", "code", NULL, &b) != ST_OK) return false;
    const char *const last = strstr(b.text, "\nwords ");
    if (last) sscanf(last, "\nwords %zu", &words);
    FileSpan *const text = &b.parts[BUNDLE_text], *const objects = &b.parts[BUNDLE_objects];
    if (roll(2)) {
        memcpy(buffer, text->at, text->bytes);
        *text = (FileSpan){buffer, change(buffer, text->bytes)};
    } else {
        memcpy(buffer, objects->at, words);
        const size_t changed = change(buffer, words);
        memcpy(buffer + changed, (const char *)objects->at + words, objects->bytes - words);
        *objects = (FileSpan){buffer, changed + objects->bytes - words};
    }
    const FileSpan all[] = {{line, bundle_line("code", b.parts, line)}, *text, *objects};
    const bool written = file_replace(c->path, all, COUNT_OF(all)) == ST_OK;
    bundle_close(&b);
    return written;
}

static bool change_blindly(const CachedCase *c, char *buffer) {
    memcpy(buffer, c->entry, c->bytes);
    const FileSpan all = {buffer, change(buffer, c->bytes)};
    return file_replace(c->path, &all, 1) == ST_OK;
}

/* A change may undo another one. */
static bool is_as_written(const CachedCase *c) {
    char *now;
    size_t bytes;
    if (file_read(c->path, &now, &bytes) != ST_OK) return false;
    const bool same = bytes == c->bytes && !memcmp(now, c->entry, bytes);
    mem_free(now);
    return same;
}

static CacheEnd meet_changed(const CachedCase *c, int64_t i, char *buffer) {
    if (!(i % 2 ? change_and_sign(c, buffer) : change_blindly(c, buffer))) return END_crashed;
    const bool as_written = is_as_written(c);
    const CacheEnd end = process_end(c, i % LLVM_EVERY == 0);
    if (end == END_taken && !as_written) return END_wrong;
    return end;
}

static void keep_changed(const CachedCase *c, int64_t i, CacheEnd end) {
    char kept[64];
    snprintf(kept, sizeof kept, "/tmp/sinter-fuzz-%lld.code", (long long)i);
    fprintf(stderr, "fuzz: entry %lld: %s; it is %s\n", (long long)i,
            end == END_wrong ? "wrong, or taken though it was changed" : "the process ended", kept);
    if (rename(c->path, kept)) perror("fuzz");
}

static void print_ends(int64_t n, const int64_t *ends, bool json) {
    printf(json ? "{\"entries\": %lld, \"missed\": %lld, \"unchanged\": %lld, \"wrong\": %lld, \"crashed\": %lld}\n"
                : "%lld changed entries: %lld missed, %lld as they were, %lld wrong, %lld crashed\n",
           (long long)n, (long long)ends[END_missed], (long long)ends[END_taken], (long long)ends[END_wrong],
           (long long)ends[END_crashed]);
}

int fz_cache(int64_t n, uint64_t seed, bool json) {
    int64_t ends[CACHE_ENDS] = {0};
    dice = seed * 2654435761u + 1;
    for (int i = 0; i < 2; i++) inputs[i] = sn_keep(sn_randn(SN_INTS(40, 40), SN_F32));
    size_t most = 0;
    for (int k = 0; k < COUNT_OF(cases); k++) {
        if (!begin_case(&cases[k])) return fprintf(stderr, "fuzz: no entry of function %d\n", k), 2;
        most = cases[k].bytes > most ? cases[k].bytes : most;
    }
    char *const buffer = calloc(2 * most + 4096, MOST_CHANGES);
    for (int64_t i = 0; i < n; i++) {
        const CachedCase *const c = &cases[roll(COUNT_OF(cases))];
        const CacheEnd end = meet_changed(c, i, buffer);
        ends[end]++;
        if (end >= END_wrong) keep_changed(c, i, end);
    }
    for (int k = 0; k < COUNT_OF(cases); k++) end_case(&cases[k]);
    free(buffer);
    print_ends(n, ends, json);
    return ends[END_wrong] || ends[END_crashed];
}
