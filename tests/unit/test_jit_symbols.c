/* test_jit_symbols.c: generated code told to perf and gdb (setting jit_symbols): a reader of perf's files finds by the
 * address that a signal interrupted which kernel of which function ran there. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <ucontext.h>

#include "runtime/compile/compile.h"
#include "runtime/core/jit_symbols.h"
#include "tests/unit/jit_files.h"
#include "tests/unit/process.h"

static JitFiles map, dump;
static char map_path[64];

static void tell(const char *words) {
    snprintf(map_path, sizeof map_path, "/tmp/perf-%d.map", (int)getpid());
    sn_setting_set("threads", "1");
    ck_assert_int_eq(sn_setting_set("jit_dump_dir", process_folder), SN_OK);
    ck_assert_int_eq(sn_setting_set("jit_symbols", words), SN_OK);
}

static void remove_map(void) {
    if (map_path[0]) remove(map_path);
}

static void both_read(void) {
    ck_assert(read_perf_map(getpid(), &map));
    ck_assert(read_jitdump(process_folder, getpid(), &dump));
    ck_assert_int_eq(map.n, dump.n);
    for (int i = 0; i < map.n; i++) {
        ck_assert_str_eq(map.named[i].name, dump.named[i].name);
        ck_assert_uint_eq(map.named[i].at, dump.named[i].at);
        ck_assert_uint_eq(map.named[i].bytes, dump.named[i].bytes);
    }
}

static sn_status wave(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_tanh(sn_in(f, 0)), sn_in(f, 0))); }
static const sn_compile_options named_wave = {.size = sizeof named_wave, .name = "wave"};

/* What a profiler sees ----------------------------------------------------------------------------- */

enum { MOST_SEEN = 4096 };
static volatile uint64_t seen_at[MOST_SEEN];
static volatile int n_seen;

static void note_place(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    const ucontext_t *const interrupted = context;
    if (n_seen < MOST_SEEN) seen_at[n_seen++] = (uint64_t)interrupted->uc_mcontext.gregs[REG_RIP];
}

static void interrupt_every_millisecond(bool on) {
    struct sigaction action = {.sa_sigaction = note_place, .sa_flags = SA_SIGINFO | SA_RESTART};
    const struct itimerval often = {{0, on ? 1000 : 0}, {0, on ? 1000 : 0}};
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
}

static const NamedCode *seen_code(const JitFiles *files) {
    for (int i = 0; i < n_seen; i++)
        if (named_at(files, seen_at[i])) return named_at(files, seen_at[i]);
    return NULL;
}

START_TEST(code_that_runs_has_its_name_in_both_files) {
    tell("perf-map,jitdump");
    const Twin twin = twin_new(wave, NULL, NULL, &named_wave);
    TWIN_CALL(twin, F32(1, 64, 64));
    both_read();
    sn_tensor *const x = F32(2, 512, 512);
    sn_call1(twin.fast, SN_TENSORS(x));
    both_read();
    interrupt_every_millisecond(true);
    const clock_t begun = clock();
    while (!seen_code(&map) && clock() - begun < 20 * CLOCKS_PER_SEC) sn_call1(twin.fast, SN_TENSORS(x));
    interrupt_every_millisecond(false);
    const NamedCode *const found = seen_code(&map);
    ck_assert_msg(found, "none of %d places is generated code", n_seen);
    ck_assert_msg(!strncmp(found->name, "k0_tanh_mul.wave.graph", 22), "it is %s", found->name);
    const NamedCode *const copy = named_at(&dump, found->at);
    ck_assert_mem_eq(copy->code, (const void *)(uintptr_t)found->at, found->bytes);
    twin_free(twin);
}
END_TEST

/* Names -------------------------------------------------------------------------------------------- */

static sn_status trained(sn_frame *f) { return sn_out(f, 0, sn_sum(sn_mul(sn_sin(sn_in(f, 0)), sn_in(f, 1)))); }

START_TEST(names_say_variant_and_part) {
    tell("perf-map");
    sn_function *const fn = sn_compile(trained, NULL, SN_COMPILE_OPTIONS(.name = "two words'\n"));
    sn_tensor *const leaf = LEAF(1, 40);
    sn_backward(sn_call1(fn, SN_TENSORS(leaf, F32(2, 40))));
    sn_call1(fn, SN_TENSORS(F32(1, 40), F32(2, 40)));
    ck_assert_msg(!sn_check(), "%s", sn_error_take()->message);
    ck_assert(read_perf_map(getpid(), &map));
    static const char *const wanted[] = {".two_words__.graph0.forward", ".two_words__.graph0.backward"};
    for (int i = 0; i < 2; i++) {
        int n = 0;
        for (int k = 0; k < map.n; k++) n += strstr(map.named[k].name, wanted[i]) != NULL;
        ck_assert_msg(n > 0, "none of %d names has %s", map.n, wanted[i]);
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(long_names_differ_and_say_variant_and_part) {
    static const char *const names[] = {"a_function_of_a_name_so_long_that_there_is_no_room_for_it_one",
                                        "a_function_of_a_name_so_long_that_there_is_no_room_for_it_two"};
    static const char *const parts[] = {".graph0.forward", ".graph0.backward"};
    tell("perf-map");
    for (int i = 0; i < 2; i++) {
        sn_function *const fn = sn_compile(trained, NULL, SN_COMPILE_OPTIONS(.name = names[i]));
        sn_backward(sn_call1(fn, SN_TENSORS(LEAF(1, 40 + i), F32(2, 40 + i))));
        ck_assert_msg(!sn_check(), "%s", sn_error_take()->message);
        sn_function_free(fn);
    }
    ck_assert(read_perf_map(getpid(), &map));
    for (int i = 0; i < 4; i++) {
        CompileRequest info = {0};
        char end[128];
        int n = 0;
        compile_name(&info, names[i / 2]);
        snprintf(end, sizeof end, ".%s%s", info.function, parts[i % 2]);
        for (int k = 0; k < map.n; k++) n += strstr(map.named[k].name, end) != NULL;
        ck_assert_msg(n > 0, "none of %d names has %s", map.n, end);
    }
}
END_TEST

/* Room for 47 bytes: none is cut in two, and what fits stays as it is. */
START_TEST(names_are_cut_between_characters) {
    CompileRequest info = {0}, other = {0};
    compile_name(&info, "12345678901234567890123456789012345678901234567");
    ck_assert_str_eq(info.function, "12345678901234567890123456789012345678901234567");
    for (int ahead = 0; ahead < 3; ahead++) {
        char name[64] = {0};
        memset(name, 'x', (size_t)ahead);
        for (int i = 0; i < 17; i++) strcat(name, "\xe2\x82\xac");
        compile_name(&info, name);
        name[strlen(name) - 1] ^= 1; /* where it is cut */
        compile_name(&other, name);
        ck_assert_str_ne(info.function, other.function);
        const size_t kept = strlen(info.function) - 9;
        ck_assert_uint_eq((kept - (size_t)ahead) % 3, 0);
        ck_assert_uint_gt(kept, 35);
        ck_assert(info.function[kept] == '_');
    }
}
END_TEST

static void finds_wave(Seen *seen, const void *words) {
    tell(words);
    sn_function *const fn = sn_compile(wave, NULL, &named_wave);
    sn_call1(fn, SN_TENSORS(F32(1, 64, 64)));
    seen->loaded = disk_count(DISK_hits);
    const bool read = read_perf_map(getpid(), &map);
    seen->right = read && named_so(&map, "k0_tanh_mul.wave.graph0");
    remove_map();
    sn_function_free(fn);
}

START_TEST(code_from_the_disk_is_told) {
    const Seen first = run_process(finds_wave, "perf-map"), second = run_process(finds_wave, "perf-map");
    ck_assert(first.right && second.right);
    ck_assert_int_eq(first.loaded, 0);
    ck_assert_int_eq(second.loaded, 1);
}
END_TEST

static void loads_wave(Seen *seen, const void *path) {
    tell("perf-map");
    sn_function *const fn = sn_plan_load(path, NULL);
    seen->right = fn && sn_call1(fn, SN_TENSORS(F32(1, 64, 64))) && read_perf_map(getpid(), &map) &&
                  named_so(&map, "k0_tanh_mul.wave.graph0");
    remove_map();
    sn_function_free(fn);
}

static void saves_wave(Seen *seen, const void *path) {
    sn_function *const fn = sn_compile(wave, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .name = "wave"));
    for (int i = 0; i < 3; i++) sn_call1(fn, SN_TENSORS(F32(1, 64, 64)));
    seen->right = sn_plan_save(fn, path, NULL) == SN_OK;
    sn_function_free(fn);
}

START_TEST(code_of_a_saved_plan_is_told) {
    char path[128];
    snprintf(path, sizeof path, "%s/wave.plan", process_folder);
    ck_assert(run_process(saves_wave, path).right);
    ck_assert(run_process(loads_wave, path).right);
}
END_TEST

START_TEST(nobody_is_told_without_the_setting) {
    tell("");
    const Twin twin = twin_new(wave, NULL, NULL, &named_wave);
    TWIN_CALL(twin, F32(1, 64, 64));
    ck_assert(!read_perf_map(getpid(), &map));
    ck_assert(!read_jitdump(process_folder, getpid(), &dump));
    twin_free(twin);
}
END_TEST

START_TEST(a_dump_ends_where_the_setting_does) {
    tell("jitdump");
    const Twin twin = twin_new(wave, NULL, NULL, &named_wave);
    TWIN_CALL(twin, F32(1, 64, 64));
    ck_assert(read_jitdump(process_folder, getpid(), &dump));
    const int n = dump.n;
    ck_assert(n > 0 && !dump.closed);
    ck_assert_int_eq(sn_setting_set("jit_symbols", "gdb"), SN_OK);
    ck_assert(read_jitdump(process_folder, getpid(), &dump));
    ck_assert(dump.n == n && dump.closed);
    ck_assert_int_eq(sn_setting_set("jit_symbols", "gdb,map"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "'map' is none of perf-map, jitdump, gdb");
    ck_assert_str_eq(sn_setting_get("jit_symbols"), "gdb");
    twin_free(twin);
}
END_TEST

/* Processes and threads ---------------------------------------------------------------------------- */

static void ended_well(pid_t child) {
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "a child ended with status %d", status);
}

START_TEST(a_child_has_files_of_its_own) {
    tell("perf-map,jitdump");
    sn_function *const fn = sn_compile(wave, NULL, &named_wave);
    sn_call1(fn, SN_TENSORS(F32(1, 64, 64)));
    both_read();
    const int n = map.n;
    const NamedCode parents = *named_so(&map, "k0_tanh_mul.wave.graph0");
    const pid_t child = fork();
    if (!child) {
        sn_function *const more = sn_compile(trained, NULL, SN_COMPILE_OPTIONS(.name = "more"));
        sn_call1(more, SN_TENSORS(F32(1, 40), F32(2, 40)));
        exit(0); /* which ends its dump */
    }
    ended_well(child);
    both_read();
    ck_assert(map.n == n && !dump.closed);
    ck_assert(read_perf_map(child, &map) && read_jitdump(process_folder, child, &dump));
    ck_assert(map.n > n && dump.n == map.n && dump.closed);
    ck_assert_uint_eq(named_so(&map, "k0_tanh_mul.wave.graph0")->at, parents.at);
    ck_assert_mem_eq(named_at(&dump, parents.at)->code, (const void *)(uintptr_t)parents.at, parents.bytes);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)child);
    ck_assert_int_eq(remove(path), 0);
    sn_function_free(fn);
}
END_TEST

enum { TELLERS = 4, TOLD = 100 };
static void *tell_many(void *number) {
    JitCode *codes[TOLD];
    char name[64];
    for (int i = 0; i < TOLD; i++) {
        const JitSymbol symbol = {name, (const char *)(uintptr_t)tell_many + i % 8, 8};
        snprintf(name, sizeof name, "f%d.%d", *(int *)number, i);
        codes[i] = jit_code_register(&symbol, 1);
        if (i >= 8) jit_code_forget(codes[i - 8]);
    }
    for (int i = TOLD - 8; i < TOLD; i++) jit_code_forget(codes[i]);
    return NULL;
}

START_TEST(threads_write_whole_records) {
    tell("perf-map,jitdump,gdb");
    pthread_t threads[TELLERS];
    int numbers[TELLERS];
    for (int i = 0; i < TELLERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, tell_many, &numbers[i]), 0);
    }
    for (int i = 0; i < TELLERS; i++) pthread_join(threads[i], NULL);
    both_read();
    ck_assert_int_eq(map.n, TELLERS * TOLD);
    for (int i = 0; i < TELLERS * TOLD; i++) {
        char name[64];
        snprintf(name, sizeof name, "f%d.%d", i / TOLD, i % TOLD);
        ck_assert_msg(named_so(&map, name), "%s is missing", name);
    }
}
END_TEST

/* Files that cannot be written --------------------------------------------------------------------- */

static int warnings;
static char last_warning[1024];
static void count_warnings(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)topic;
    warnings += level >= 2;
    if (level >= 2) snprintf(last_warning, sizeof last_warning, "%s", line);
}

static void computes_with_a_warning(const char *text) {
    sn_logging_set(count_warnings, NULL, NULL);
    const Twin twin = twin_new(wave, NULL, NULL, &named_wave);
    TWIN_CALL(twin, F32(1, 64, 64));
    TWIN_CALL(twin, F32(1, 9, 33));
    twin_free(twin);
    ck_assert_int_eq(warnings, 1);
    ck_assert_msg(strstr(last_warning, text), "it says: %s", last_warning);
}

START_TEST(a_folder_that_is_not_there) {
    tell("jitdump");
    ck_assert_int_eq(sn_setting_set("jit_dump_dir", "/nowhere"), SN_OK);
    computes_with_a_warning("jitdump: '/nowhere/jit-");
}
END_TEST

START_TEST(a_full_disk_leaves_files_that_can_be_read) {
    tell("perf-map,jitdump");
    const Twin twin = twin_new(trained, NULL, NULL, NULL);
    TWIN_CALL(twin, F32(1, 64), F32(2, 64));
    static const char much[1 << 20]; /* more than Check's own file of messages has, which the limit is for, too */
    jit_code_forget(jit_code_register(&(JitSymbol){"much", much, sizeof much}, 1));
    both_read();
    const int n = map.n;
    struct stat is;
    char path[128];
    snprintf(path, sizeof path, "%s/jit-%d.dump", process_folder, (int)getpid());
    ck_assert_int_eq(stat(path, &is), 0);
    const struct rlimit most = {(rlim_t)is.st_size + 100, (rlim_t)is.st_size + 100};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &most), 0);
    computes_with_a_warning("jit-"); /* lines of the map are shorter */
    ck_assert(read_perf_map(getpid(), &map) && map.n > n);
    ck_assert(read_jitdump(process_folder, getpid(), &dump) && dump.n == n);
    twin_free(twin);
}
END_TEST

START_TEST(a_link_in_the_place_of_a_file_is_left_alone) {
    char target[128];
    size_t n;
    snprintf(target, sizeof target, "%s/precious", process_folder);
    FILE *const file = fopen(target, "w");
    ck_assert(file && fputs("mine", file) >= 0 && !fclose(file));
    tell("perf-map");
    ck_assert_int_eq(symlink(target, map_path), 0);
    computes_with_a_warning("it is a link");
    char *const content = read_all(target, &n);
    ck_assert_str_eq(content, "mine");
    free(content);
}
END_TEST

START_TEST(lines_of_others_of_this_process_stay) {
    tell("");
    FILE *const file = fopen(map_path, "w");
    ck_assert(file && fputs("10 8 another\n", file) >= 0 && !fclose(file));
    tell("perf-map");
    jit_code_forget(jit_code_register(&(JitSymbol){"ours", (const void *)(uintptr_t)tell, 16}, 1));
    ck_assert(read_perf_map(getpid(), &map) && map.n == 2 && named_so(&map, "another"));
    tell("");
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}}; /* of an earlier process of this number */
    ck_assert_int_eq(utimensat(AT_FDCWD, map_path, old, 0), 0);
    tell("perf-map");
    jit_code_forget(jit_code_register(&(JitSymbol){"ours", (const void *)(uintptr_t)tell, 16}, 1));
    ck_assert(read_perf_map(getpid(), &map) && map.n == 1);
}
END_TEST

/* gdb ---------------------------------------------------------------------------------------------- */

typedef struct DebuggedCode {
    struct DebuggedCode *next, *previous;
    const char *image;
    uint64_t bytes;
} DebuggedCode;
extern struct {
    uint32_t version, action;
    DebuggedCode *relevant, *first;
} __jit_debug_descriptor;

static int count_debugged(void) {
    int n = 0;
    const DebuggedCode *before = NULL;
    for (const DebuggedCode *code = __jit_debug_descriptor.first; code; before = code, code = code->next) {
        ck_assert_ptr_eq(code->previous, before);
        n++;
    }
    return n;
}

static const Elf64_Sym *symbol_so(const char *image, const char *name) {
    const Elf64_Ehdr *const header = (const void *)image;
    const Elf64_Shdr *const sections = (const void *)(image + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) continue;
        const char *const names = image + sections[sections[i].sh_link].sh_offset;
        const Elf64_Sym *const symbols = (const void *)(image + sections[i].sh_offset);
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; k++)
            if (!strcmp(names + symbols[k].st_name, name)) return &symbols[k];
    }
    return NULL;
}

START_TEST(debuggers_have_a_list_of_what_is_mapped) {
    tell("gdb");
    ck_assert_uint_eq(__jit_debug_descriptor.version, 1);
    ck_assert_int_eq(count_debugged(), 0);
    const JitSymbol symbols[2] = {{"first", (const void *)(uintptr_t)0x1000, 64}, {"other", (const void *)0x2000, 5}};
    JitCode *const one = jit_code_register(symbols, 2), *const two = jit_code_register(symbols, 1);
    ck_assert_int_eq(count_debugged(), 2);
    const DebuggedCode *const of_one = __jit_debug_descriptor.first->next;
    const Elf64_Sym *const other = symbol_so(of_one->image, "other");
    ck_assert(other && other->st_value == 0x2000 && other->st_size == 5);
    ck_assert_ptr_null(symbol_so(__jit_debug_descriptor.first->image, "other"));
    jit_code_forget(one);
    ck_assert_int_eq(count_debugged(), 1);
    jit_code_forget(two);
    ck_assert_int_eq(count_debugged(), 0);
    ck_assert_ptr_null(__jit_debug_descriptor.relevant);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {code_that_runs_has_its_name_in_both_files,
                                  names_say_variant_and_part,
                                  long_names_differ_and_say_variant_and_part,
                                  names_are_cut_between_characters,
                                  code_from_the_disk_is_told,
                                  code_of_a_saved_plan_is_told,
                                  nobody_is_told_without_the_setting,
                                  a_dump_ends_where_the_setting_does,
                                  a_child_has_files_of_its_own,
                                  threads_write_whole_records,
                                  a_folder_that_is_not_there,
                                  a_full_disk_leaves_files_that_can_be_read,
                                  a_link_in_the_place_of_a_file_is_left_alone,
                                  lines_of_others_of_this_process_stay,
                                  debuggers_have_a_list_of_what_is_mapped};
    TCase *const tcase = tcase_create("jit_symbols");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, folder_begin, folder_end);
    tcase_add_checked_fixture(tcase, NULL, remove_map);
    for (int i = 0; i < (int)(sizeof tests / sizeof *tests); i++) tcase_add_test(tcase, tests[i]);
    return suite_run("test_jit_symbols", tcase);
}
