/* Preset max-autotune [acceptance 5.18, 7.16]: what sn_tune measures is a file, which functions compiled later take;
 * damaged and foreign files are ignored; bits are the same whatever they say. TUNING_MUTATIONS=N tries N files. */
#define _GNU_SOURCE /* mkdtemp */
#include "tests/unit/mutated_text.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/compile/tuning.h"
#include "tests/unit/contract.h"

enum { MUTATIONS = 10000 };

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

static sn_status loops(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_out(f, 0, sn_softmax(sn_gelu(sn_mul_scalar(x, sn_float(1.5))), -1));
    return sn_out(f, 1, sn_sum_dim(sn_tanh(x), SN_INTS(0), false));
}

static void call_loops(sn_function *fn, uint64_t seed, sn_tensor **out) {
    sn_tensor *x = F32(seed, 40, 70);
    ck_assert_msg(sn_call(fn, &x, 1, out, 2) == SN_OK, "%s", sn_error_take()->message);
}

static sn_function *compiled(sn_preset preset) {
    sn_tensor *out[2];
    sn_function *const fn = sn_compile(loops, NULL, SN_COMPILE_OPTIONS(.preset = preset));
    for (uint64_t i = 0; i < 3; i++) call_loops(fn, i, out);
    return fn;
}

static void expect_eagers_bits(sn_function *fn) {
    sn_function *const eager = sn_compile(loops, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (uint64_t i = 0; i < 4; i++) {
        sn_tensor *got[2], *want[2];
        call_loops(fn, i, got);
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        call_loops(eager, i, want);
        ck_assert(same_bits(got[0], want[0]) && same_bits(got[1], want[1]));
    }
    sn_function_free(eager);
}

static char folder[64], file[96];

static void use_folder(void) {
    snprintf(folder, sizeof folder, "tuning_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/choices", folder);
    ck_assert_int_eq(sn_setting_set("tuning_file", file), SN_OK);
}

static void drop_folder(void) {
    unlink(file);
    rmdir(folder);
}

START_TEST(a5_18_max_autotune_takes_what_sn_tune_has_measured) {
    use_folder();
    sn_function *const before = compiled(SN_PRESET_MAX_AUTOTUNE);
    ck_assert_msg(has(sn_explain(before), "preset max-autotune: 0 of 2 loop nests as measured: nothing is measured"),
                  "%s", sn_explain(before));
    expect_eagers_bits(before);
    ck_assert_msg(sn_tune(before) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(tuning_count(), 2);
    ck_assert_int_eq(access(file, R_OK), 0);
    sn_function *const after = compiled(SN_PRESET_MAX_AUTOTUNE);
    ck_assert_msg(has(sn_explain(after), "preset max-autotune: 2 of 2 loop nests as measured"), "%s",
                  sn_explain(after));
    expect_eagers_bits(after);
    sn_function *const plain = compiled(SN_PRESET_DEFAULT);
    ck_assert(!has(sn_explain(plain), "autotune"));
    sn_function_free(before);
    sn_function_free(after);
    sn_function_free(plain);
    drop_folder();
}
END_TEST

/* Another process finds the file: here, what is known is forgotten by naming another one. */
START_TEST(a5_18_the_file_is_read_back) {
    use_folder();
    sn_function *const fn = compiled(SN_PRESET_DEFAULT);
    ck_assert_int_eq(sn_tune(fn), SN_OK);
    sn_setting_set("tuning_file", "/nonexistent/choices");
    sn_function *const other = compiled(SN_PRESET_MAX_AUTOTUNE);
    ck_assert(has(sn_explain(other), "0 of 2 loop nests as measured"));
    sn_setting_set("tuning_file", file);
    sn_function *const again = compiled(SN_PRESET_MAX_AUTOTUNE);
    ck_assert(has(sn_explain(again), "2 of 2 loop nests as measured"));
    sn_function_free(fn);
    sn_function_free(other);
    sn_function_free(again);
    drop_folder();
}
END_TEST

START_TEST(a7_16_max_autotune_is_a_setting) {
    use_folder();
    sn_function *const fn = compiled(SN_PRESET_DEFAULT);
    ck_assert_int_eq(sn_tune(fn), SN_OK);
    sn_setting_set("max_autotune", "1");
    sn_function *const all = compiled(SN_PRESET_DEFAULT);
    ck_assert(has(sn_explain(all), "preset max-autotune: 2 of 2 loop nests as measured"));
    expect_eagers_bits(all);
    sn_function_free(fn);
    sn_function_free(all);
    drop_folder();
}
END_TEST

static sn_status gradients(sn_frame *f) {
    return sn_out(f, 0, sn_sum(sn_mul(sn_tanh(sn_in(f, 0)), sn_exp(sn_in(f, 0)))));
}

START_TEST(a5_18_forwards_and_backwards_are_measured) {
    use_folder();
    for (int round = 0; round < 2; round++) {
        const Twin twin = twin_new(gradients, NULL, NULL, SN_COMPILE_OPTIONS(.preset = SN_PRESET_MAX_AUTOTUNE));
        for (int i = 0; i < 3; i++) {
            sn_tensor *const a = LEAF(i, 30, 50), *const b = LEAF(i, 30, 50);
            sn_backward(SN_CALL(twin.fast, a));
            sn_backward(SN_CALL(twin.eager, b));
            ck_assert(same_bits(sn_grad(a), sn_grad(b)));
        }
        ck_assert_int_eq(has(sn_explain(twin.fast), "preset max-autotune: 0 of"), !round);
        if (!round) ck_assert_msg(sn_tune(twin.fast) == SN_OK, "%s", sn_error_take()->message);
        twin_free(twin);
    }
    drop_folder();
}
END_TEST

START_TEST(a5_18_there_must_be_something_to_measure_and_a_file) {
    use_folder();
    sn_function *const fn = sn_compile(loops, NULL, NULL);
    sn_tune(fn);
    expect_error(SN_ERR_STATE, "sn_tune: function 'fn' has no loops that are compiled");
    sn_tune(NULL);
    expect_error(SN_ERR_ARGUMENT, "sn_tune: the function is NULL");
    sn_function *const ready = compiled(SN_PRESET_DEFAULT);
    sn_setting_set("tuning_file", "");
    sn_setting_set("cache_dir", "off");
    sn_tune(ready);
    expect_error(SN_ERR_STATE, "set tuning_file or cache_dir");
    sn_setting_set("tuning_file", "/nonexistent/choices");
    sn_tune(ready);
    expect_error(SN_ERR_IO, "/nonexistent/choices");
    sn_function_free(fn);
    sn_function_free(ready);
    drop_folder();
}
END_TEST

/* Files that are wrong --------------------------------------------------------------------------- */

static void write_file(const char *text, size_t n) {
    const FileSpan part = {text, n};
    ck_assert_int_eq(file_replace(file, &part, 1), ST_OK);
    sn_setting_set("tuning_file", "/nonexistent/choices");
    sn_function_free(compiled(SN_PRESET_MAX_AUTOTUNE)); /* so that the file is read anew */
    sn_setting_set("tuning_file", file);
}

static char said[4096];
static void note_line(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic;
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", line);
}

static void expect_ignored(const char *text, size_t n, const char *why) {
    write_file(text, n);
    *said = 0;
    sn_function *const fn = compiled(SN_PRESET_MAX_AUTOTUNE);
    ck_assert_msg(has(said, why), "'%s' is not in '%s'", why, said);
    ck_assert(has(sn_explain(fn), "0 of 2 loop nests as measured"));
    expect_eagers_bits(fn);
    sn_function_free(fn);
}

START_TEST(a5_18_damaged_and_foreign_files_are_said_and_ignored) {
    use_folder();
    sn_function *const fn = compiled(SN_PRESET_DEFAULT);
    ck_assert_int_eq(sn_tune(fn), SN_OK);
    sn_logging_set(note_line, NULL, NULL);
    Text text = {0};
    tuning_print(&text);
    expect_ignored("", 0, "it is no tuning file");
    expect_ignored("\0\0\0", 3, "it is no tuning file");
    expect_ignored(text.at, text.n / 2, "is ignored: tuning text, line");
    char *const other = mem_strdup(text.at);
    strstr(other, "machine ")[9] = '9';
    expect_ignored(other, text.n, "another version of Sinter or another machine made it");
    memcpy(other, text.at, text.n);
    strstr(other, "words ")[6] ^= 1;
    expect_ignored(other, text.n, "it is damaged");
    mem_free(other);
    text_free(&text);
    sn_function_free(fn);
    drop_folder();
}
END_TEST

/* A text with its own sum again: then only what is in it can be wrong. */
static void print_sum(Text *text) {
    char *const last = strstr(text_str(text), "\nsum ");
    if (!last) return;
    text->n = (size_t)(last + 1 - text->at);
    text->at[text->n] = '\0';
    text_printf(text, "sum %016llx\n", (unsigned long long)hash_bytes(17, text->at, text->n));
}

/* How many copies the sums of columns have, in a text of shapes. */
static char *copies_of_columns(const char *shapes) {
    const char *const columns = strstr(shapes, "\n  columns lanes ");
    ck_assert_msg(columns, "%s", shapes);
    return strstr(columns, "copies ") + strlen("copies ");
}

/* A choice that nobody would decide is shown as it runs, and changes nothing of what another function shows. */
START_TEST(c16_shapes_are_those_that_run) {
    use_folder();
    sn_function *const plain = compiled(SN_PRESET_DEFAULT);
    ck_assert_int_eq(sn_tune(plain), SN_OK);
    const char decided = *copies_of_columns(sn_dump(plain, "shapes")), other = decided == '2' ? '1' : '2';
    Text text = {0};
    tuning_print(&text);
    *copies_of_columns(text_str(&text)) = other;
    print_sum(&text);
    ck_assert_int_eq(tuning_read(text.at, text.n), ST_OK);
    sn_function *const tuned = compiled(SN_PRESET_MAX_AUTOTUNE);
    ck_assert(has(sn_explain(tuned), "2 of 2 loop nests as measured"));
    ck_assert_int_eq(*copies_of_columns(sn_dump(tuned, "shapes")), other);
    ck_assert_int_eq(*copies_of_columns(sn_dump(plain, "shapes")), decided);
    expect_eagers_bits(tuned);
    text_free(&text);
    sn_function_free(plain);
    sn_function_free(tuned);
    drop_folder();
}
END_TEST

START_TEST(a5_18_mutated_files_are_ignored_or_give_eagers_bits) {
    const char *const asked = getenv("TUNING_MUTATIONS");
    const int n = asked ? atoi(asked) : MUTATIONS;
    int taken = 0;
    use_folder();
    sn_logging_set(note_line, NULL, "-compile");
    sn_function *const fn = compiled(SN_PRESET_DEFAULT);
    ck_assert_int_eq(sn_tune(fn), SN_OK);
    Text text = {0};
    tuning_print(&text);
    for (int i = 0; i < n; i++) {
        const sn_scope scope = sn_scope_begin();
        Text changed = {0};
        random_state = (uint64_t)i;
        change(text.at, &changed);
        if (i % 4) print_sum(&changed);
        const bool read = changed.at && tuning_read(changed.at, changed.n) == ST_OK;
        error_clear();
        taken += read;
        if (read && i % 50 == 1) { /* code takes milliseconds */
            sn_function *const tuned = compiled(SN_PRESET_MAX_AUTOTUNE);
            expect_eagers_bits(tuned);
            sn_function_free(tuned);
        }
        text_free(&changed);
        sn_scope_end(scope);
    }
    ck_assert_int_gt(taken, n / 10);
    text_free(&text);
    sn_function_free(fn);
    drop_folder();
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a5_18_max_autotune_takes_what_sn_tune_has_measured,
        a5_18_the_file_is_read_back,
        a7_16_max_autotune_is_a_setting,
        a5_18_forwards_and_backwards_are_measured,
        a5_18_there_must_be_something_to_measure_and_a_file,
        a5_18_damaged_and_foreign_files_are_said_and_ignored,
        c16_shapes_are_those_that_run,
        a5_18_mutated_files_are_ignored_or_give_eagers_bits,
    };
    return contract_main("tuning", tests, sizeof tests / sizeof *tests);
}
