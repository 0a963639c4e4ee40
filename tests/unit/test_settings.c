/* test_settings.c: every row of settings.def reads its environment variable and takes effect. Each row gets a process
 * that has read no setting yet. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "runtime/base/bail.h"
#include "runtime/base/log.h"
#include "runtime/core/disk_folder.h"
#include "runtime/core/jit_symbols.h"
#include "runtime/core/settings.h"
#include "runtime/core/state.h"
#include "runtime/core/pool.h"
#include "tests/unit/contract.h"

/* What the rest of the library sees of a setting, where that is not the number itself. */
static bool has_threads(void) { return pool_threads() == 3; }
static bool logs_compiles(void) { return log_on(LOG_compile, LOG_INFO) && !log_on(LOG_dispatch, LOG_INFO); }
static bool logs_to_a_file(void) {
    char line[64] = "";
    sn_logging_set(NULL, NULL, NULL);
    LOG(compile, WARNING, "for the file");
    FILE *const file = fopen("log_file_of_test_settings", "r");
    const bool read = file && fgets(line, sizeof line, file) != NULL;
    if (file) fclose(file);
    remove("log_file_of_test_settings");
    return read && !strcmp(line, "sinter warning: compile: for the file\n");
}
static bool logs_one_function(void) { return log_functions_chosen; }
static bool logs_dispatch(void) { return log_on(LOG_dispatch, LOG_INFO); }
static bool is_v2(void) { return isa_used() == ISA_v2; }
static bool fails(void) { return failpoint("load") && !failpoint("emit"); }

static int64_t reserved(void) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(SN_CPU, &memory);
    return memory.reserved;
}

static bool keeps_three_mib(void) {
    sn_release(sn_keep(sn_zeros(SN_INTS(2 << 20), SN_U8)));
#ifdef SINTER_PLAIN_MALLOC /* a build that keeps nothing */
    const bool kept = true;
#else
    const bool kept = reserved() >= 2 << 20;
#endif
    sn_release(sn_keep(sn_zeros(SN_INTS(8 << 20), SN_U8)));
    return kept && reserved() < 8 << 20;
}

static bool tracks_tensors(void) {
    return strstr(sn_tensor_report(F32(1, 2), NULL, NULL), "of an open scope: f32[2], itself, made at") != NULL;
}

static bool knows_ended_handles(void) {
    sn_tensor *const t = sn_keep(F32(1, 2));
    sn_release(t);
    sn_rank(t);
    return strstr(sn_error_take()->message, "has ended, made at") != NULL;
}

static bool is_plain(void) {
    sn_release(sn_keep(sn_zeros(SN_INTS(2 << 20), SN_U8)));
    return reserved() < 2 << 20;
}

static sn_status negated(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }
static bool runs_eagerly(void) {
    sn_function *const fn = sn_compile(negated, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(1, 4));
    const bool eager = stats_of(fn).graphs == 0;
    sn_function_free(fn);
    return eager;
}

static bool has_code_of_all(void) { return setting_number(SET_eager_compile) == EAGER_COMPILE_always; }
static bool tunes_all(void) {
    sn_function *const fn = sn_compile(negated, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(1, 4));
    const bool tunes = strstr(sn_explain(fn), "preset max-autotune") != NULL;
    sn_function_free(fn);
    return tunes;
}
static bool tunes_nowhere(void) {
    sn_function *const fn = sn_compile(negated, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(1, 4));
    sn_tune(fn);
    const sn_error *const error = sn_error_take();
    const bool nowhere = error->status == SN_ERR_IO && strstr(error->message, "/nowhere/tuning");
    sn_function_free(fn);
    return nowhere;
}

static bool is_nowhere(void) { return !strcmp(setting_text(state_get(), SET_dump_dir), "/nowhere"); }

static void hear_no_folder(void *context, int level, const char *topic, const char *line) {
    *(bool *)context |=
        level >= 0 && topic && strstr(line, "cannot make the folder '/dev/null/trace': Not a directory");
}
static bool traces_nowhere(void) {
    bool heard = false;
    sn_logging_set(hear_no_folder, &heard, NULL);
    sn_function *const fn = sn_compile(negated, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(1, 4));
    sn_function_free(fn);
    return heard && sn_check() == SN_OK;
}

static bool compiles_nowhere(void) { return !strcmp(setting_text(state_get(), SET_plugin_compiler), "/nowhere"); }
static bool includes_nowhere(void) { return !strcmp(setting_text(state_get(), SET_plugin_include), "/nowhere"); }

static bool keeps_seven_mib(void) { return disk_bytes_most() == 7 << 20; }
static bool keeps_code_nowhere(void) {
    DiskFolder folder;
    return !disk_folder_open(false, &folder) && !strcmp(folder.path, "/nowhere/code");
}

static bool tells_gdb(void) { return jit_symbols_on() && sn_setting_set("jit_symbols", "none") == SN_ERR_ARGUMENT; }
static bool dumps_nowhere(void) { return !strcmp(setting_text(state_get(), SET_jit_dump_dir), "/nowhere"); }

/* What a GPU makes of it: tests/cuda/test_cuda_memory.c. */
static bool is_expandable(void) {
    return !strcmp(setting_text(state_get(), SET_alloc_conf), "expandable_segments:True");
}

static const struct {
    const char *value;
    bool (*effect)(void);
} wanted[SET_COUNT] = {
    [SET_threads] = {"3", has_threads},
    [SET_logs] = {"compile", logs_compiles},
    [SET_logs_file] = {"log_file_of_test_settings", logs_to_a_file},
    [SET_logs_function] = {"f", logs_one_function},
    [SET_dispatch_trace] = {"1", logs_dispatch},
    [SET_isa] = {"v2", is_v2},
    [SET_memory_retain_mib] = {"3", keeps_three_mib},
    [SET_track_tensors] = {"1", tracks_tensors},
    [SET_check_handles] = {"1", knows_ended_handles},
    [SET_plain_malloc] = {"1", is_plain},
    [SET_failpoints] = {"load", fails},
    [SET_compile] = {"0", runs_eagerly},
    [SET_eager_compile] = {"always", has_code_of_all},
    [SET_dump_dir] = {"/nowhere", is_nowhere},
    [SET_trace] = {"/dev/null/trace", traces_nowhere},
    [SET_cache_mib] = {"7", keeps_seven_mib},
    [SET_cache_dir] = {"/nowhere/code", keeps_code_nowhere},
    [SET_max_autotune] = {"1", tunes_all},
    [SET_tuning_file] = {"/nowhere/tuning", tunes_nowhere},
    [SET_alloc_conf] = {"expandable_segments:True", is_expandable},
    [SET_memory_sites] = {"1"},
    [SET_launch_blocking] = {"1"},
    [SET_plugin_compiler] = {"/nowhere", compiles_nowhere},
    [SET_plugin_include] = {"/nowhere", includes_nowhere},
    [SET_device_asserts] = {"1"},
    [SET_jit_symbols] = {"gdb", tells_gdb},
    [SET_jit_dump_dir] = {"/nowhere", dumps_nowhere},
};

static const struct {
    const char *name, *fallback, *doc;
} rows[SET_COUNT] = {
#define SETTING(name, kind, value, doc) {#name, value, doc},
#include "runtime/core/settings.def"
#undef SETTING
};

enum { FINE, NOT_READ, NO_EFFECT };
static int look(int row, const char *value) {
    char variable[64] = "SINTER_";
    for (int i = 0; rows[row].name[i]; i++)
        variable[7 + i] = (char)(rows[row].name[i] == '_' ? '_' : rows[row].name[i] - 32), variable[8 + i] = 0;
    setenv(variable, value, 1);
    if (strcmp(sn_setting_get(rows[row].name), value)) return NOT_READ;
    if (!wanted[row].effect) return setting_number((SettingId)row) == atoll(value) ? FINE : NO_EFFECT;
    return wanted[row].effect() ? FINE : NO_EFFECT;
}

START_TEST(every_setting_reads_its_variable) {
    const bool elsewhere = strstr(rows[_i].doc, "process-wide") || strstr(rows[_i].doc, "read once");
    ck_assert_msg(!elsewhere || wanted[_i].effect, "%s: its effect is to be looked at here", rows[_i].name);
    const char *const value = wanted[_i].value ? wanted[_i].value : "77";
    ck_assert_str_ne(value, rows[_i].fallback);
    const pid_t child = fork();
    if (!child) _exit(look(_i, value));
    int status;
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status));
    ck_assert_msg(WEXITSTATUS(status) == FINE, "SINTER_ of %s: %s", rows[_i].name,
                  WEXITSTATUS(status) == NOT_READ ? "not read" : "no effect");
}
END_TEST

static void count_heard(void *context, int level, const char *topic, const char *line) {
    *(int *)context += level >= 0 && topic && line;
}

START_TEST(a_wrong_topic_leaves_the_log_as_it_was) {
    int before = 0, after = 0;
    ck_assert_int_eq(sn_logging_set(count_heard, &before, "recompiles"), SN_OK);
    ck_assert_int_eq(sn_logging_set(count_heard, &after, "-recompiles,+compile,nope"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "log topic 'nope' is unknown");
    ck_assert(log_on(LOG_recompiles, LOG_INFO) && !log_on(LOG_compile, LOG_INFO));
    LOG(recompiles, INFO, "heard by the first one");
    ck_assert(before == 1 && after == 0);
    ck_assert_int_eq(sn_setting_set("logs", "+compile,nope"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "log topic 'nope' is unknown");
    ck_assert(!log_on(LOG_compile, LOG_INFO));
    ck_assert_int_eq(sn_setting_set("logs", "+"), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "log topic '' is unknown");
    ck_assert_int_eq(sn_logging_set(NULL, NULL, "-recompiles"), SN_OK);
}
END_TEST

/* Nothing that was to be said is lost: it and the reason are on stderr. */
START_TEST(a_full_log_file_is_told_of_once) {
    char said[600];
    FILE *const to = tmpfile();
    const int before = dup(STDERR_FILENO);
    ck_assert_int_eq(sn_setting_set("logs_file", "/dev/full"), SN_OK);
    fflush(stderr);
    dup2(fileno(to), STDERR_FILENO);
    LOG(general, WARNING, "first");
    LOG(general, WARNING, "second");
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(to);
    said[fread(said, 1, sizeof said - 1, to)] = '\0';
    fclose(to);
    ck_assert_str_eq(said, "sinter warning: general: the log file cannot be written: No space left on device: from "
                           "here on stderr\nsinter warning: general: first\nsinter warning: general: second\n");
    ck_assert_int_eq(sn_setting_set("logs_file", ""), SN_OK);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("settings");
    tcase_add_loop_test(tests, every_setting_reads_its_variable, 0, SET_COUNT);
    tcase_add_test(tests, a_wrong_topic_leaves_the_log_as_it_was);
    tcase_add_test(tests, a_full_log_file_is_told_of_once);
    return suite_run("test_settings", tests);
}
