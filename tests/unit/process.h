/* process.h: tests whose subject is another process: it has compiled nothing, shares a folder of the code cache with
 * others, and says what it saw in memory of both.
 *
 *   Seen seen = run_process(compiles_one, NULL);
 *   ck_assert_int_eq(seen.loaded, 1);
 *
 * The one that starts them must have compiled nothing itself. */
#ifndef SINTER_TESTS_UNIT_PROCESS_H
#define SINTER_TESTS_UNIT_PROCESS_H
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/core/disk_cache.h"
#include "tests/unit/contract.h"

typedef struct Seen {
    int64_t counts[DISK_COUNTS];
    int64_t generated, loaded; /* nests */
    int warnings;
    bool right, interpreted;
} Seen;

static char process_folder[64];

/* An empty folder for the cache, which goes with folder_end. */
static inline void folder_begin(void) {
    snprintf(process_folder, sizeof process_folder, "/tmp/sinter-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(process_folder));
}
static inline void folder_end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", process_folder);
    ck_assert_int_eq(system(command), 0);
}

static inline Seen *seen_new(int n) {
    return mmap(NULL, (size_t)n * sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static inline pid_t start_process(void (*work)(Seen *seen, const void *argument), const void *argument, Seen *seen) {
    const pid_t child = fork();
    if (child) return child;
    sn_setting_set("cache_dir", process_folder);
    work(seen, argument);
    for (int i = 0; i < DISK_COUNTS; i++) seen->counts[i] = disk_count((DiskCount)i);
    _exit(sn_check() ? 1 : 0);
}

static inline void end_process(pid_t child) {
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "a process ended with status %d", status);
}

static inline Seen run_process(void (*work)(Seen *seen, const void *argument), const void *argument) {
    Seen *const shared = seen_new(1);
    end_process(start_process(work, argument, shared));
    const Seen seen = *shared;
    munmap(shared, sizeof seen);
    return seen;
}

#endif
