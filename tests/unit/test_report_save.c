/* test_report_save.c: the page of a function from within a program (sn_report_save), and from outside of it
 * (SINTER_REPORT=html:FILE), of functions that are freed and of those that still live at the end. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "tests/unit/contract.h"

static sn_status square(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_mul(sn_in(f, 0), sn_in(f, 0)))); }

static sn_status stops(sn_frame *f) {
    sn_tensor *const x = sn_exp(sn_in(f, 0));
    if (sn_item(sn_sum(x)) > 0) return sn_out(f, 0, sn_neg(x));
    return sn_out(f, 0, x);
}

static char folder[64];

static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* mem_free */
static char *page_of(const char *name) {
    char *text = NULL;
    size_t n;
    ck_assert_msg(file_read(path_of(name), &text, &n) == ST_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(strncmp(text, "<!DOCTYPE html>", 15), 0);
    ck_assert_ptr_nonnull(strstr(text, "</body></html>\n"));
    return text;
}

static void expect_in(const char *name, const char *const *parts, int n) {
    char *const text = page_of(name);
    for (int i = 0; i < n; i++) ck_assert_msg(strstr(text, parts[i]) != NULL, "%s is not in %s", parts[i], name);
    mem_free(text);
}

static sn_function *called(sn_body body, const char *name) {
    sn_function *const fn = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.name = name));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 4, 5));
    return fn;
}

static void make_folder(void) {
    snprintf(folder, sizeof folder, "/tmp/sinter-page-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_pages(const char *const *names, int n) {
    for (int i = 0; i < n; i++) unlink(path_of(names[i]));
    ck_assert_int_eq(rmdir(folder), 0);
}

START_TEST(a_program_saves_the_page_of_its_function) {
    make_folder();
    sn_function *const fn = called(square, "square"), *const broken = called(stops, "stops");
    ck_assert_int_eq(sn_report_save(fn, path_of("a.html")), SN_OK);
    expect_in("a.html",
              (const char *const[]){"<title>square</title>", "3 calls, 1 compile", "k0_mul_relu", "LLVM",
                                    "checked at each call", "Memory of cpu", "test_report_save.c:"},
              7);
    ck_assert_int_eq(sn_report_save(broken, path_of("b.html")), SN_OK);
    expect_in("b.html", (const char *const[]){"<summary>1 break</summary>", "a value is needed on the host"}, 2);
    ck_assert_int_eq(sn_report_save(fn, "/no/such/folder/a.html"), SN_ERR_IO);
    expect_error(SN_ERR_IO, "cannot write '/no/such/folder/a.html'");
    ck_assert_int_eq(sn_report_save(NULL, path_of("a.html")), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_report_save: the function is NULL");
    ck_assert_int_eq(sn_report_save(fn, NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_report_save: the path is NULL");
    sn_function_free(fn);
    sn_function_free(broken);
    remove_pages((const char *const[]){"a.html", "b.html"}, 2);
}
END_TEST

/* In a child: one function is freed with an error pending, two never, of which one has not been called. They stay in
 * reach, so that a checker of leaks knows them. */
static void run_program(void) {
    static sn_function *kept[2];
    char report[160];
    snprintf(report, sizeof report, "html:%s", path_of("p.html"));
    setenv("SINTER_REPORT", report, 1);
    sn_function *const fn = called(square, "freed");
    kept[0] = called(stops, "alive");
    kept[1] = sn_compile(square, NULL, SN_COMPILE_OPTIONS(.name = "uncalled"));
    sn_mm(sn_ones(SN_INTS(2), SN_F32), sn_ones(SN_INTS(3), SN_F32));
    sn_function_free(fn);
    exit(kept[0] && kept[1] && sn_error_take()->status == SN_ERR_SHAPE ? 0 : 9);
}

START_TEST(the_environment_asks_for_the_pages_of_a_program) {
    make_folder();
    fflush(NULL);
    const pid_t child = fork();
    if (!child) run_program();
    int status = -1;
    waitpid(child, &status, 0);
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the program ended with %d", status);
    expect_in("p.html", (const char *const[]){"<title>freed</title>", "k0_mul_relu", "assembly"}, 3);
    expect_in("p-2.html", (const char *const[]){"<title>alive</title>", "<summary>1 break</summary>", "assembly"}, 3);
    ck_assert_int_ne(access(path_of("p-3.html"), F_OK), 0);
    remove_pages((const char *const[]){"p.html", "p-2.html"}, 2);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a_program_saves_the_page_of_its_function,
                                  the_environment_asks_for_the_pages_of_a_program};
    return contract_main("report_save", tests, COUNT_OF(tests));
}
