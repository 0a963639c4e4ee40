/* test_code_disk.c: code on disk [5.24]: a second process runs what a first one compiled, without LLVM, and whatever is
 * wrong with the folder or a file of it costs a compile and nothing else. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/file.h"
#include "runtime/capture/function/function.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/base/log.h"
#include "tests/unit/process.h"

enum { NOBODY = 65534 };

/* What processes do ------------------------------------------------------------------------------ */

static sn_status scaled(sn_frame *f) { /* code of its own by number */
    const double *const number = sn_closure(f);
    sn_tensor *const h = sn_mul_scalar(sn_gelu(sn_in(f, 0)), sn_float(*number));
    return sn_out(f, 0, sn_softmax(sn_add(h, sn_in(f, 0)), -1));
}

static void compile_number(Seen *seen, double number) {
    const Twin twin = twin_new(scaled, &number, &number, NULL);
    sn_tensor *const x = F32(7, 9, 70);
    sn_tensor *const got = sn_call1(twin.fast, SN_TENSORS(x));
    seen->right = same_bits(got, sn_call1(twin.eager, SN_TENSORS(x)));
    seen->right &= same_bits(sn_call1(twin.fast, SN_TENSORS(x)), got) && got;
    const CompileReport *const info = &twin.fast->variants.at[0]->info;
    seen->generated += info->generated;
    seen->loaded += info->loaded;
    seen->interpreted |= info->interpreted;
    twin_free(twin);
}

static void compiles(Seen *seen, const void *failpoints) {
    if (failpoints) failpoint_set(failpoints);
    compile_number(seen, 0.75);
}

static void compiles_without_llvm(Seen *seen, const void *unused) {
    setenv("SINTER_LLVM_MODULE", "/nowhere", 1);
    compile_number(seen, 0.75);
}

static void compiles_two(Seen *seen, const void *failpoints) {
    failpoint_set(failpoints);
    compile_number(seen, 0.5);
    const bool first = seen->right;
    compile_number(seen, 0.25);
    seen->right &= first;
}

static void expect_compiled(const Seen *seen) {
    ck_assert(seen->right && !seen->interpreted);
    ck_assert_int_gt(seen->generated, 0);
    ck_assert_int_eq(seen->loaded, 0);
}

static void expect_loaded(const Seen *seen) {
    ck_assert(seen->right && !seen->interpreted);
    ck_assert_int_eq(seen->generated, 0);
    ck_assert_int_gt(seen->loaded, 0);
    ck_assert_int_eq(seen->counts[DISK_hits], 1);
}

static void expect_stored(int64_t n) {
    const Seen seen = run_process(compiles, NULL);
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_stored], n);
    ck_assert_int_eq(seen.counts[DISK_not_stored], 1 - n);
}

/* The files of the folder ------------------------------------------------------------------------ */

static int count_files(const char *end) {
    DIR *const dir = opendir(process_folder);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        const size_t length = strlen(entry->d_name), tail = strlen(end);
        n += length > tail && !strcmp(entry->d_name + length - tail, end);
    }
    closedir(dir);
    return n;
}

/* The one entry there is. */
static void entry_path(char path[512]) {
    DIR *const dir = opendir(process_folder);
    path[0] = '\0';
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (strstr(entry->d_name, ".code")) snprintf(path, 512, "%s/%.100s", process_folder, entry->d_name);
    closedir(dir);
    ck_assert(path[0]);
}

static char *entry_read(const char *path, size_t *n) {
    char *content;
    ck_assert_int_eq(file_read(path, &content, n), ST_OK);
    return content;
}

static void entry_write(const char *path, const char *content, size_t n) {
    FILE *const file = fopen(path, "wb");
    ck_assert(file && fwrite(content, 1, n, file) == n && !fclose(file));
}

/* Tests ------------------------------------------------------------------------------------------ */

START_TEST(a5_24_a_second_process_compiles_nothing) {
    folder_begin();
    expect_stored(1);
    for (int i = 0; i < 2; i++) {
        const Seen seen = run_process(compiles_without_llvm, NULL);
        expect_loaded(&seen);
        ck_assert_int_eq(seen.counts[DISK_stored], 0);
    }
    ck_assert_int_eq(count_files(".code"), 1);
    ck_assert_int_eq(count_files(".tmp"), 0);
    folder_end();
}
END_TEST

START_TEST(a5_24_a_corrupt_entry_is_ignored) {
    char path[512];
    size_t n;
    folder_begin();
    expect_stored(1);
    entry_path(path);
    char *const whole = entry_read(path, &n);
    for (int i = 0; i < 12; i++) {
        char *const copy = memcpy(malloc(n), whole, n);
        const size_t at = n * (size_t)i / 12;
        copy[at] ^= 0x10;
        entry_write(path, copy, i % 3 ? n : at); /* changed, or torn */
        free(copy);
        Seen seen = run_process(compiles, NULL);
        expect_compiled(&seen);
        ck_assert_int_eq(seen.counts[DISK_damaged], 1);
        ck_assert_int_eq(seen.counts[DISK_stored], 1);
        seen = run_process(compiles_without_llvm, NULL);
        expect_loaded(&seen);
    }
    mem_free(whole);
    folder_end();
}
END_TEST

static void compiles_for(Seen *seen, const void *isa) {
    setenv("SINTER_ISA", isa, 1);
    compile_number(seen, 0.75);
}

START_TEST(a5_24_the_key_has_level_version_and_settings) {
    folder_begin();
    Seen seen = run_process(compiles_for, "v2");
    expect_compiled(&seen);
    seen = run_process(compiles_for, "v3"); /* another level, or on a machine that has none another warning */
    if (count_files(".code") == 2) expect_compiled(&seen);
    const int n = count_files(".code");
    seen = run_process(compiles_for, "v2");
    expect_loaded(&seen);
    setenv("SINTER_ISA", "v2", 1);
    seen = run_process(compiles, "code_version");
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_absent], 1);
    ck_assert_int_eq(count_files(".code"), n + 1);
    folder_end();
}
END_TEST

START_TEST(a5_24_two_keys_of_one_hash_are_told_apart) {
    folder_begin();
    Seen seen = run_process(compiles_two, "one_hash");
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_absent], 1);
    ck_assert_int_eq(seen.counts[DISK_other], 1);
    ck_assert_int_eq(count_files(".code"), 1);
    seen = run_process(compiles_two, "one_hash");
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_other], 2);
    folder_end();
}
END_TEST

/* Whole, of this key, and no object: only its digest was made right again. */
START_TEST(an_entry_that_does_not_load_is_made_anew) {
    char path[512], line[BUNDLE_LINE];
    folder_begin();
    expect_stored(1);
    entry_path(path);
    Bundle b;
    ck_assert_int_eq(bundle_open(path, "code", &b), ST_OK);
    FileSpan *const object = &b.parts[BUNDLE_objects];
    char *const broken = memcpy(malloc(object->bytes), object->at, object->bytes);
    memset(broken + object->bytes - 512, 0, 512); /* the section headers */
    object->at = broken;
    const FileSpan all[] = {{line, bundle_line("code", b.parts, line)}, b.parts[BUNDLE_text], *object};
    ck_assert_int_eq(file_replace(path, all, 3), ST_OK);
    bundle_close(&b), free(broken);
    Seen seen = run_process(compiles, NULL);
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_unloadable], 1);
    seen = run_process(compiles_without_llvm, NULL);
    expect_loaded(&seen);
    folder_end();
}
END_TEST

static void compiles_many(Seen *seen, const void *unused) {
    bool right = true;
    for (int i = 1; i <= 4; i++) compile_number(seen, i * 0.125), right &= seen->right;
    seen->right = right;
}

START_TEST(eight_processes_at_once) {
    enum { PROCESSES = 8 };
    pid_t children[PROCESSES];
    folder_begin();
    Seen *const seen = seen_new(PROCESSES);
    for (int i = 0; i < PROCESSES; i++) children[i] = start_process(compiles_many, NULL, &seen[i]);
    for (int i = 0; i < PROCESSES; i++) end_process(children[i]);
    for (int i = 0; i < PROCESSES; i++) {
        ck_assert(seen[i].right && !seen[i].interpreted);
        ck_assert_int_eq(seen[i].counts[DISK_hits] + seen[i].counts[DISK_stored], 4);
        ck_assert_int_eq(seen[i].counts[DISK_damaged], 0);
    }
    ck_assert_int_eq(count_files(".code"), 4);
    ck_assert_int_eq(count_files(".tmp"), 0);
    folder_end();
}
END_TEST

/* Stores one entry after the other until it is killed. */
static void stores_for_ever(Seen *seen, const void *unused) {
    char *const code = malloc(1 << 18);
    memset(code, 'x', 1 << 18);
    for (int i = 0;; i = (i + 1) % 8) {
        DiskSignature key = {0};
        text_printf(&key.text, "entry %d\n", i);
        if (disk_signature_done(&key)) disk_store(&key, &(FileSpan){code, 1 << 18});
        disk_signature_free(&key);
        if (disk_count(DISK_stored) == 1) seen->generated = 1;
    }
}

static void takes_all(Seen *seen, const void *unused) {
    for (int i = 0; i < 8; i++) {
        DiskCode code;
        DiskSignature key = {0};
        text_printf(&key.text, "entry %d\n", i);
        ck_assert(disk_signature_done(&key));
        if (disk_load(&key, &code)) {
            seen->loaded += code.bytes == 1 << 18 && code.at[0] == 'x' && !memcmp(code.at, code.at + 1, code.bytes - 1);
            mem_free(code.at);
        }
        disk_signature_free(&key);
    }
}

START_TEST(killed_at_any_write) {
    folder_begin();
    for (int i = 0; i < 40; i++) {
        Seen *const seen = seen_new(1);
        const pid_t child = start_process(stores_for_ever, NULL, seen);
        while (!*(volatile int64_t *)&seen->generated) usleep(50);
        usleep((unsigned)(i * 37 % 400));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        munmap(seen, sizeof *seen);
    }
    const Seen seen = run_process(takes_all, NULL);
    ck_assert_int_ge(seen.loaded, 1);
    ck_assert_int_eq(seen.counts[DISK_hits], seen.loaded);
    ck_assert_int_eq(seen.counts[DISK_hits] + seen.counts[DISK_absent], 8);
    folder_end();
}
END_TEST

/* What they left half written goes an hour later, or where the clock was set back. */
START_TEST(half_written_files_go_when_they_are_old) {
#define HALF(letters) "0123456789abcdef.code.00000000000000" letters ".tmp"
    folder_begin();
    static const struct {
        const char *name;
        int hours;
        bool stays;
    } rows[] = {{HALF("0a"), -2, false}, {HALF("0b"), 2, false}, {HALF("0c"), 0, true}, {"notes", -9, true}};
    char path[512];
    for (int i = 0; i < COUNT_OF(rows); i++) {
        snprintf(path, sizeof path, "%s/%s", process_folder, rows[i].name);
        entry_write(path, "x", 1);
        const struct timespec at = {.tv_sec = time(NULL) + 3600 * rows[i].hours};
        ck_assert_int_eq(utimensat(AT_FDCWD, path, (struct timespec[]){at, at}, 0), 0);
    }
    expect_stored(1);
    for (int i = 0; i < COUNT_OF(rows); i++) {
        snprintf(path, sizeof path, "%s/%s", process_folder, rows[i].name);
        ck_assert_msg((access(path, F_OK) == 0) == rows[i].stays, "%s", rows[i].name);
    }
    folder_end();
}
END_TEST

/* The folder's trouble ---------------------------------------------------------------------------- */

static void compiles_within_limit(Seen *seen, const void *unused) {
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000});
    compile_number(seen, 0.75);
}

START_TEST(a_full_disk_costs_nothing_but_the_entry) {
    folder_begin();
    Seen seen = run_process(compiles, "disk_full");
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_not_stored], 1);
    seen = run_process(compiles_within_limit, NULL); /* whose signal would end the process */
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_not_stored], 1);
    ck_assert_int_eq(count_files(".code") + count_files(".tmp"), 0);
    expect_stored(1);
    folder_end();
}
END_TEST

static void expect_refused_folder(void) {
    const Seen seen = run_process(compiles, NULL);
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_refused], 1);
    ck_assert_int_eq(seen.counts[DISK_not_stored], 1);
}

START_TEST(a5_24_a_foreign_folder_is_refused) {
    folder_begin();
    if (geteuid() == 0)
        ck_assert_int_eq(chown(process_folder, NOBODY, NOBODY), 0);
    else
        snprintf(process_folder, sizeof process_folder, "/usr");
    expect_refused_folder();
    if (geteuid() == 0) folder_end();
}
END_TEST

START_TEST(a_folder_that_others_may_write_to_is_refused) {
    folder_begin();
    ck_assert_int_eq(chmod(process_folder, 0777), 0);
    expect_refused_folder();
    ck_assert_int_eq(chmod(process_folder, 0755), 0);
    expect_stored(1);
    folder_end();
}
END_TEST

START_TEST(a5_24_a_symbolic_link_is_refused) {
    char target[80], path[512], moved[600];
    folder_begin();
    snprintf(target, sizeof target, "%s-target", process_folder);
    ck_assert_int_eq(rename(process_folder, target), 0);
    ck_assert_int_eq(symlink(target, process_folder), 0);
    expect_refused_folder();
    strcat(process_folder, "/"); /* which would follow it */
    expect_refused_folder();
    process_folder[strlen(process_folder) - 1] = '\0';
    ck_assert_int_eq(unlink(process_folder), 0);
    ck_assert_int_eq(rename(target, process_folder), 0);
    expect_stored(1); /* and one in the place of an entry */
    entry_path(path);
    snprintf(moved, sizeof moved, "%s.moved", path);
    ck_assert_int_eq(rename(path, moved), 0);
    ck_assert_int_eq(symlink(moved, path), 0);
    const Seen seen = run_process(compiles, NULL);
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_refused], 1);
    folder_end();
}
END_TEST

static void count_warning(void *seen, int level, const char *topic, const char *line) {
    ((Seen *)seen)->warnings += level == LOG_WARNING && strstr(line, "no code is kept on disk") != NULL;
}

/* What generates code is loaded first: it may lie in a folder that nobody may not enter. */
static void compiles_as_nobody(Seen *seen, const void *unused) {
    Seen before = {.right = true};
    sn_setting_set("cache_dir", "off");
    compile_number(&before, 0.5);
    ck_assert(before.right && !before.interpreted);
    sn_setting_set("cache_dir", process_folder);
    if (geteuid() == 0) ck_assert_int_eq(seteuid(NOBODY), 0);
    log_handler_set(count_warning, seen);
    compile_number(seen, 0.75);
    compile_number(seen, 0.25);
    log_handler_set(NULL, NULL);
}

START_TEST(a_read_only_folder_is_no_failure) {
    folder_begin();
    if (geteuid() == 0) ck_assert_int_eq(chown(process_folder, NOBODY, NOBODY), 0);
    ck_assert_int_eq(chmod(process_folder, 0500), 0);
    const Seen seen = run_process(compiles_as_nobody, NULL);
    expect_compiled(&seen);
    ck_assert_int_eq(seen.counts[DISK_absent], 2);
    ck_assert_int_eq(seen.counts[DISK_not_stored], 2);
    ck_assert_int_eq(seen.warnings, 1);
    ck_assert_int_eq(chmod(process_folder, 0700), 0);
    folder_end();
}
END_TEST

static void compiles_switched_off(Seen *seen, const void *value) {
    sn_setting_set("cache_dir", value);
    compile_number(seen, 0.75);
}

START_TEST(it_is_off_where_the_setting_says_so) {
    static const char *const values[] = {"", "off"};
    folder_begin();
    for (int i = 0; i < COUNT_OF(values); i++) {
        const Seen seen = run_process(compiles_switched_off, values[i]);
        expect_compiled(&seen);
        for (int k = 0; k < DISK_COUNTS; k++) ck_assert_int_eq(seen.counts[k], 0);
    }
    folder_end();
}
END_TEST

/* The bound --------------------------------------------------------------------------------------- */

static bool keeps(int i, bool store) {
    DiskCode code = {0};
    DiskSignature key = {0};
    static char buffer[100000];
    text_printf(&key.text, "entry %d\n", i);
    ck_assert(disk_signature_done(&key));
    const bool taken = !store && disk_load(&key, &code);
    if (store) disk_store(&key, &(FileSpan){buffer, sizeof buffer});
    mem_free(code.at);
    disk_signature_free(&key);
    return taken;
}

/* 10 entries fit. Entry 0 is used again and again. */
static void stores_more_than_fits(Seen *seen, const void *set_back) {
    ck_assert_int_eq(sn_setting_set("cache_mib", "1"), SN_OK);
    for (int i = 0; i < 40; i++) {
        keeps(i, true);
        usleep(2000); /* the clock of files is coarse */
        keeps(0, false);
        if (!set_back || i % 7) continue;
        char name[DISK_NAME], path[512];
        DiskSignature key = {0};
        text_printf(&key.text, "entry %d\n", i);
        if (disk_signature_done(&key)) disk_file_name(key.hash, name);
        disk_signature_free(&key);
        snprintf(path, sizeof path, "%s/%s", process_folder, name);
        const struct timespec at = {.tv_sec = time(NULL) + (i % 2 ? 100000 : -100000)};
        utimensat(AT_FDCWD, path, (struct timespec[]){at, at}, 0);
    }
    seen->right = keeps(0, false) && keeps(39, false);
    for (int i = 1; i < 20; i++) seen->loaded += keeps(i, false);
}

START_TEST(what_was_not_used_for_longest_goes_first) {
    folder_begin();
    Seen seen = run_process(stores_more_than_fits, NULL);
    ck_assert(seen.right);
    ck_assert_int_eq(seen.loaded, 0);
    ck_assert_int_ge(seen.counts[DISK_evicted], 28);
    ck_assert_int_le(count_files(".code"), 11);
    folder_end();
    folder_begin();
    seen = run_process(stores_more_than_fits, "clock set back");
    ck_assert_int_ge(seen.counts[DISK_evicted], 28);
    ck_assert_int_le(count_files(".code"), 11);
    folder_end();
}
END_TEST

/* Memory ------------------------------------------------------------------------------------------ */

static void runs_out_of_memory(Seen *seen, const void *unused) {
    seen->right = true;
    for (int store = 1; store >= 0; store--)
        for (int n = 0; n < 30; n++) {
            DiskSignature key = {0};
            DiskCode code = {0};
            text_puts(&key.text, "entry\n");
            mem_fail_after(n);
            const bool done = disk_signature_done(&key);
            if (done && store) disk_store(&key, &(FileSpan){"code", 4});
            if (done && !store) seen->loaded += disk_load(&key, &code);
            mem_fail_after(-1);
            seen->right &= sn_check() == SN_OK && (!code.at || !memcmp(code.at, "code", 4));
            mem_free(code.at);
            disk_signature_free(&key);
        }
}

START_TEST(memory_that_is_out_is_a_miss) {
    folder_begin();
    const Seen seen = run_process(runs_out_of_memory, NULL);
    ck_assert(seen.right);
    ck_assert_int_gt(seen.loaded, 0);
    ck_assert_int_lt(seen.loaded, 30);
    ck_assert_int_gt(seen.counts[DISK_stored], 0);
    folder_end();
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a5_24_a_second_process_compiles_nothing,
                                  a5_24_a_corrupt_entry_is_ignored,
                                  a5_24_the_key_has_level_version_and_settings,
                                  a5_24_two_keys_of_one_hash_are_told_apart,
                                  an_entry_that_does_not_load_is_made_anew,
                                  eight_processes_at_once,
                                  killed_at_any_write,
                                  half_written_files_go_when_they_are_old,
                                  a_full_disk_costs_nothing_but_the_entry,
                                  a5_24_a_foreign_folder_is_refused,
                                  a_folder_that_others_may_write_to_is_refused,
                                  a5_24_a_symbolic_link_is_refused,
                                  a_read_only_folder_is_no_failure,
                                  it_is_off_where_the_setting_says_so,
                                  what_was_not_used_for_longest_goes_first,
                                  memory_that_is_out_is_a_miss};
    return contract_main("test_code_disk", tests, COUNT_OF(tests));
}
