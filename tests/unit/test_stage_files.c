/* test_stage_files.c: the setting trace: which files there are of what is compiled, that names are safe, that threads
 * and further graphs get folders of their own, and that a folder that cannot be written changes no result. */
#define _GNU_SOURCE /* mkdtemp */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/contract.h"
#include "tests/unit/explained.h"

static char root[64];

static void begin_trace(void) {
    snprintf(root, sizeof root, "/tmp/sinter-trace-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(sn_setting_set("trace", root), SN_OK);
}

static void end_trace(void) {
    char command[128];
    sn_setting_set("trace", "");
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static int is_named(const struct dirent *entry) { return strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."); }

/* The names in a folder of root, in order, with a blank behind each. */
static const char *names_in(const char *folder) {
    static char all[8192];
    char path[512];
    struct dirent **entries = NULL;
    snprintf(path, sizeof path, "%s/%s", root, folder);
    const int n = scandir(path, &entries, is_named, by_name);
    all[0] = '\0';
    for (int i = 0; i < n; i++) {
        strcat(strcat(all, entries[i]->d_name), " ");
        free(entries[i]);
    }
    free(entries);
    return all;
}

static const char *content_of(const char *name) {
    static char content[1 << 16];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *const file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "there is no %s", path);
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    return content;
}

static sn_status softmax_of_scaled(sn_frame *f) {
    const float *const scale = sn_closure(f);
    return sn_out(f, 0, sn_softmax(sn_mul_scalar(sn_in(f, 0), sn_float(*scale)), -1));
}

static sn_function *named(const char *name, float *scale) {
    return sn_compile(softmax_of_scaled, scale, SN_COMPILE_OPTIONS(.name = name));
}

static float two = 2;

#define FEW   "00-capture.sn 01-functional.sn 02-joint.sn 03-decomposed.sn "
#define PLANS "07-loops.txt 08-memory.txt 09-shapes.txt 10-llvm.ll 11-asm.s 13-guards.txt about.txt "

START_TEST(each_stage_is_a_file_and_explain_names_the_folder) {
    begin_trace();
    sn_function *const fn = named("f", &two);
    char folder[128];
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 3, 4));
    ck_assert_str_eq(names_in(""), "0001-f ");
    ck_assert_str_eq(names_in("0001-f"), FEW "04-fused.sn " PLANS);
    ck_assert_str_eq(content_of("0001-f/about.txt"),
                     "function: \"f\"\ngraph: 0\nops: 2\ncompiled: the first call of this path\n");
    const char *const capture = sn_dump(fn, "capture"); /* "# graph 0" stands before it */
    ck_assert_str_eq(content_of("0001-f/00-capture.sn"), strchr(capture, '\n') + 1);
    ck_assert_str_eq(content_of("0001-f/07-loops.txt"), strchr(sn_dump(fn, "loops"), '\n') + 1);
    snprintf(folder, sizeof folder, "stages in %s/0001-f\n", root);
    expect_explained(fn, folder);
    snprintf(folder, sizeof folder, "\"stages\": \"%s/0001-f\"", root);
    ck_assert_ptr_nonnull(strstr(sn_explain_json(fn), folder));
    sn_function_free(fn);
    end_trace();
}
END_TEST

START_TEST(off_there_are_none) {
    begin_trace();
    sn_setting_set("trace", "");
    sn_function *const fn = named("f", &two);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 3, 4));
    ck_assert_str_eq(names_in(""), "");
    ck_assert_ptr_null(strstr(sn_explain(fn), "stages in"));
    sn_function_free(fn);
    end_trace();
}
END_TEST

START_TEST(a_recompile_is_a_folder_of_its_own_that_says_why) {
    begin_trace();
    sn_function *const fn = named("f", &two);
    for (int i = 0; i < 4; i++) SN_CALL(fn, F32(i, 3 + i / 2, 4));
    ck_assert_str_eq(names_in(""), "0001-f 0002-f ");
    ck_assert_ptr_nonnull(strstr(content_of("0002-f/about.txt"), "graph: 1\n"));
    ck_assert_ptr_nonnull(strstr(content_of("0002-f/about.txt"), "compiled: argument 0: f32[3,4], now f32[4,4]\n"));
    ck_assert_ptr_nonnull(strstr(content_of("0002-f/00-capture.sn"), "f32[s0,4]"));
    sn_function_free(fn);
    end_trace();
}
END_TEST

/* Of any text. */
static const char *const odd_names[] = {"../../etc/passwd",
                                        "a b/c\nd",
                                        "",
                                        ".",
                                        "\xc3\xa4\xff",
                                        "x*?$(rm -rf /)'\"\\",
                                        "0000000000111111111122222222223333333333444444444455555555556666666666"};
START_TEST(names_are_safe) {
    begin_trace();
    for (int i = 0; i < (int)(sizeof odd_names / sizeof *odd_names); i++) {
        sn_function *const fn = named(odd_names[i], &two);
        for (int k = 0; k < 2; k++) SN_CALL(fn, F32(k, 3, 4));
        sn_function_free(fn);
    }
    ck_assert_str_eq(names_in(""), "0001-.._.._etc_passwd 0002-a_b_c_d 0003-fn 0004-. 0005-___ "
                                   "0006-x____rm_-rf______ "
                                   "0007-0000000000111111111122222222223333333333444444444455555555556666 ");
    ck_assert_str_eq(names_in("0001-.._.._etc_passwd"), FEW "04-fused.sn " PLANS);
    ck_assert_ptr_nonnull(strstr(content_of("0002-a_b_c_d/about.txt"), "function: \"a b/c\\nd\"\n"));
    end_trace();
}
END_TEST

/* What a program left there before stays. */
START_TEST(numbers_go_on_behind_what_is_there) {
    char path[128];
    begin_trace();
    snprintf(path, sizeof path, "%s/0041-old", root);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    sn_function *const fn = named("old", &two);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 3, 4));
    sn_function_free(fn);
    ck_assert_str_eq(names_in(""), "0041-old 0042-old ");
    ck_assert_str_eq(names_in("0041-old"), "");
    end_trace();
}
END_TEST

static sn_status two_results(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 0, sn_sigmoid(x));
    return sn_out(f, 1, sn_mul(sn_tanh(x), x));
}

/* Beside the usual backward: of a sum the gradient has strides 0; and then one result has none. */
START_TEST(a_training_function_has_its_parts_and_each_further_backward) {
    begin_trace();
    sn_function *const fn = sn_compile(two_results, NULL, SN_COMPILE_OPTIONS(.name = "t"));
    sn_tensor *const x = LEAF(1, 3, 4);
    for (int i = 0; i < 4; i++) {
        sn_tensor *out[2];
        ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
        sn_backward(i < 2 ? sn_sum(sn_add(out[0], out[1])) : sn_sum(out[1]));
    }
    ck_assert_str_eq(names_in(""), "0001-t ");
    ck_assert_str_eq(names_in("0001-t"),
                     FEW "05-forward.sn 06-backward-1.sn 06-backward-2.sn 06-backward.sn "
                         "07-loops-1.txt 07-loops-2.txt 07-loops.txt 08-memory-1.txt 08-memory-2.txt 08-memory.txt "
                         "09-shapes-1.txt 09-shapes-2.txt 09-shapes.txt 10-llvm-1.ll 10-llvm-2.ll 10-llvm.ll "
                         "11-asm-1.s 11-asm-2.s 11-asm.s 13-guards.txt about.txt ");
    ck_assert_ptr_nonnull(strstr(content_of("0001-t/02-joint.sn"), "sigmoid_backward"));
    ck_assert_ptr_null(strstr(content_of("0001-t/06-backward-2.sn"), "sigmoid_backward"));
    ck_assert_ptr_nonnull(strstr(content_of("0001-t/07-loops.txt"), "# backward\n"));
    sn_function_free(fn);
    end_trace();
}
END_TEST

START_TEST(what_fails_to_compile_leaves_the_stages_that_were_reached) {
    begin_trace();
    sn_setting_set("failpoints", "pass:decompose");
    sn_function *const fn = named("f", &two);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 3, 4));
    sn_setting_set("failpoints", "");
    ck_assert_str_eq(names_in("0001-f"), "00-capture.sn 01-functional.sn 02-joint.sn about.txt ");
    ck_assert_ptr_nonnull(strstr(content_of("0001-f/about.txt"), "failed: failpoint pass:decompose\n"));
    sn_function_free(fn);
    end_trace();
}
END_TEST

START_TEST(code_of_the_background_has_its_files_too) {
    begin_trace();
    sn_function *const fn =
        sn_compile(softmax_of_scaled, &two, SN_COMPILE_OPTIONS(.name = "later", .background = true));
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 3, 4));
    ck_assert_str_eq(names_in("0001-later"), FEW "04-fused.sn " PLANS);
    ck_assert_int_eq(sn_function_wait(fn), SN_OK);
    sn_function_free(fn);
    end_trace();
}
END_TEST

enum { THREADS = 4, FUNCTIONS = 4 };

static void *compile_some(void *context) {
    sn_setting_set("trace", root);
    for (int i = 0; i < FUNCTIONS; i++) {
        sn_function *const fn = named("same", context);
        for (int k = 0; k < 2; k++) SN_CALL(fn, F32(k, 3, 4));
        sn_function_free(fn);
    }
    return NULL;
}

START_TEST(threads_write_folders_of_their_own) {
    float scales[THREADS];
    pthread_t threads[THREADS];
    char folder[32];
    begin_trace();
    for (int i = 0; i < THREADS; i++) {
        scales[i] = (float)i + 2;
        pthread_create(&threads[i], NULL, compile_some, &scales[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    int seen[THREADS] = {0};
    for (int i = 1; i <= THREADS * FUNCTIONS; i++) {
        char path[64];
        snprintf(folder, sizeof folder, "%04d-same", i);
        ck_assert_str_eq(names_in(folder), FEW "04-fused.sn " PLANS);
        snprintf(path, sizeof path, "%s/00-capture.sn", folder);
        const char *const factor = strstr(content_of(path), "%x0, ");
        ck_assert_ptr_nonnull(factor);
        seen[(int)atof(factor + 5) - 2]++;
    }
    for (int i = 0; i < THREADS; i++) ck_assert_int_eq(seen[i], FUNCTIONS);
    end_trace();
}
END_TEST

typedef struct Heard {
    int n;
    char last[1024];
} Heard;

static void hear(void *context, int level, const char *topic, const char *line) {
    Heard *const heard = context;
    if (strcmp(topic, "general") || level < 2) return;
    heard->n++;
    snprintf(heard->last, sizeof heard->last, "%s", line);
}

/* Two functions run compiled, with eager's bits and one warning. NULL, or what is wrong. */
static const char *unwritten(const char *what, const char *why) {
    static Heard heard;
    const char *wrong = NULL;
    heard = (Heard){0};
    sn_logging_set(hear, &heard, NULL);
    sn_function *const eager = sn_compile(softmax_of_scaled, &two, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < 2; i++) {
        sn_function *const fn = named("f", &two);
        for (int k = 0; k < 2; k++)
            if (!same_bits(SN_CALL(fn, F32(i, 30, 40)), SN_CALL(eager, F32(i, 30, 40)))) wrong = "the bits differ";
        if (last_path() != SN_PATH_COMPILED) wrong = last_reason();
        sn_function_free(fn);
    }
    if (sn_check() != SN_OK) wrong = sn_error_take()->message;
    sn_logging_set(NULL, NULL, NULL);
    if (heard.n != 1) wrong = "not one warning";
    if (!strstr(heard.last, what) || !strstr(heard.last, why)) wrong = heard.last;
    sn_function_free(eager);
    return wrong;
}

static void expect_unwritten(const char *what, const char *why) {
    const char *const wrong = unwritten(what, why);
    ck_assert_msg(wrong == NULL, "%s", wrong);
}

START_TEST(a_folder_that_cannot_be_made_is_a_warning_once) {
    begin_trace();
    char path[128];
    snprintf(path, sizeof path, "%s/file", root);
    fclose(fopen(path, "w"));
    sn_setting_set("trace", path);
    expect_unwritten(path, "Not a directory");
    strcat(path, "/below");
    sn_setting_set("trace", path);
    expect_unwritten(path, "Not a directory");
    end_trace();
}
END_TEST

/* As on a full disk: the larger files are not there, the smaller ones are whole. In a process of its own, since Check
 * writes files, too. */
START_TEST(a_file_that_cannot_be_written_is_named_and_not_left_half) {
    begin_trace();
    const struct rlimit limit = {.rlim_cur = 180, .rlim_max = RLIM_INFINITY};
    const pid_t child = fork();
    if (!child) {
        const bool limited = !setrlimit(RLIMIT_FSIZE, &limit);
        const char *const wrong = limited ? unwritten("0001-f/03-decomposed.sn'", "File too large") : "no limit";
        if (wrong) fprintf(stderr, "%s\n", wrong);
        _exit(wrong != NULL);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_str_eq(names_in("0001-f"), "00-capture.sn 01-functional.sn 02-joint.sn about.txt ");
    end_trace();
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        each_stage_is_a_file_and_explain_names_the_folder,
        off_there_are_none,
        a_recompile_is_a_folder_of_its_own_that_says_why,
        names_are_safe,
        numbers_go_on_behind_what_is_there,
        a_training_function_has_its_parts_and_each_further_backward,
        what_fails_to_compile_leaves_the_stages_that_were_reached,
        code_of_the_background_has_its_files_too,
        threads_write_folders_of_their_own,
        a_folder_that_cannot_be_made_is_a_warning_once,
        a_file_that_cannot_be_written_is_named_and_not_left_half,
    };
    return contract_main("test_stage_files", tests, (int)(sizeof tests / sizeof *tests));
}
