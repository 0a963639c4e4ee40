/* How files are written (runtime/base/file_write.c): beside their name, without a way for others to be in between. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "tests/unit/process.h"

static char path_buffer[4][512];

static const char *in_folder(int slot, const char *name) {
    snprintf(path_buffer[slot], sizeof path_buffer[slot], "%s/%s", process_folder, name);
    return path_buffer[slot];
}

static void expect_content(const char *path, const char *content) {
    char *read;
    size_t bytes;
    ck_assert_int_eq(file_read(path, &read, &bytes), ST_OK);
    ck_assert_str_eq(read, content);
    mem_free(read);
}

static void write_text(const char *path, const char *text) {
    ck_assert_int_eq(file_write(path, text, strlen(text)), ST_OK);
}

static int files_in_folder(void) {
    DIR *const dir = opendir(process_folder);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void expect_refused(const char *path, int error) {
    ck_assert_int_eq(file_can_write(path), ST_IO);
    error_clear();
    ck_assert_int_eq(file_write(path, "x", 1), ST_IO);
    ck_assert_ptr_nonnull(strstr(error_slot()->message, strerror(error)));
    error_clear();
}

START_TEST(a_link_stays_and_what_it_leads_to_is_replaced) {
    folder_begin();
    const char *const target = in_folder(0, "target"), *const link = in_folder(1, "link"),
                      *const chain = in_folder(2, "chain");
    struct stat at;
    write_text(target, "before");
    ck_assert_int_eq(symlink("target", link), 0);
    ck_assert_int_eq(symlink(link, chain), 0);
    write_text(chain, "after");
    expect_content(target, "after");
    ck_assert(!lstat(link, &at) && S_ISLNK(at.st_mode) && !lstat(chain, &at) && S_ISLNK(at.st_mode));
    unlink(target); /* and one that leads nowhere yet */
    ck_assert_int_eq(file_can_write(link), ST_OK);
    write_text(link, "made");
    expect_content(target, "made");
    ck_assert_int_eq(files_in_folder(), 3);
    unlink(target);
    ck_assert_int_eq(symlink("chain", target), 0);
    expect_refused(chain, ELOOP);
    folder_end();
}
END_TEST

START_TEST(what_is_no_regular_file_is_written_in_place) {
    folder_begin();
    int ends[2];
    char open_file[64], read_back[8] = "";
    ck_assert_int_eq(pipe(ends), 0);
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", ends[1]);
    write_text(open_file, "piped");
    ck_assert_int_eq(read(ends[0], read_back, 5), 5);
    ck_assert_str_eq(read_back, "piped");
    write_text("/dev/null", "nothing");
    expect_refused(process_folder, EISDIR);
    ck_assert_int_eq(file_write("/dev/full", "x", 1), ST_IO);
    error_clear();
    folder_end();
}
END_TEST

/* A link that is found by way of /proc is a link. */
START_TEST(a_link_behind_proc_is_no_open_file) {
    folder_begin();
    char link[600];
    write_text(in_folder(0, "real"), "before");
    ck_assert_int_eq(symlink("real", in_folder(1, "link")), 0);
    snprintf(link, sizeof link, "/proc/self/root%s", path_buffer[1]);
    write_text(link, "after");
    expect_content(path_buffer[0], "after");
    folder_end();
}
END_TEST

/* What a shell's `>` made stays the file that is written to. */
START_TEST(an_open_file_goes_on_where_it_is) {
    folder_begin();
    const char *const path = in_folder(0, "out");
    char open_file[64];
    const int fd = open(path, O_RDWR | O_CREAT, 0644);
    ck_assert_int_eq(write(fd, "first ", 6), 6);
    snprintf(open_file, sizeof open_file, "/proc/self/fd/%d", fd);
    write_text(open_file, "second");
    close(fd);
    expect_content(path, "first second");
    folder_end();
}
END_TEST

START_TEST(a_file_keeps_its_mode_and_a_new_one_has_that_of_umask) {
    folder_begin();
    const char *const path = in_folder(0, "file");
    struct stat at;
    const mode_t before = umask(027);
    write_text(path, "new");
    ck_assert(!stat(path, &at) && (at.st_mode & 0777) == 0640);
    chmod(path, 0604);
    write_text(path, "again");
    ck_assert(!stat(path, &at) && (at.st_mode & 0777) == 0604);
    umask(before);
    folder_end();
}
END_TEST

/* The name of what is written beside the file is another one each time, and never one that is there. */
START_TEST(nobody_foresees_what_is_written_beside) {
    folder_begin();
    const char *const path = in_folder(0, "file"), *const victim = in_folder(1, "victim");
    char old[64];
    write_text(victim, "precious");
    snprintf(old, sizeof old, "file.%ld.tmp", (long)getpid()); /* what earlier versions took */
    ck_assert_int_eq(symlink("victim", in_folder(2, old)), 0);
    write_text(path, "mine");
    expect_content(victim, "precious");
    ck_assert_int_eq(files_in_folder(), 3);
    ck_assert(file_is_half_written("a.0123456789abcdef.tmp"));
    ck_assert(!file_is_half_written(old) && !file_is_half_written("0123456789abcdef.code") &&
              !file_is_half_written(""));
    folder_end();
}
END_TEST

START_TEST(names_may_be_as_long_as_names_get) {
    folder_begin();
    char name[256], longer[257];
    memset(name, 'n', sizeof name - 1), name[255] = '\0';
    memset(longer, 'n', sizeof longer - 1), longer[256] = '\0';
    write_text(in_folder(0, name), "long");
    expect_content(in_folder(0, name), "long");
    ck_assert_int_eq(file_write(in_folder(1, longer), "x", 1), ST_IO);
    error_clear();
    ck_assert_int_eq(files_in_folder(), 1);
    folder_end();
}
END_TEST

/* Folders in folders, so that the file's path has `bytes` bytes. Where its last folder ends. */
static size_t make_deep(char path[PATH_MAX + 1], size_t bytes) {
    size_t n = strlen(strcpy(path, process_folder));
    while (bytes - n > 250) {
        memset(path + n, 'd', 200), path[n] = '/', path[n + 200] = '\0', n += 200;
        ck_assert(mkdir(path, 0700) == 0 || errno == EEXIST);
    }
    memset(path + n, 'f', bytes - n), path[n] = '/', path[bytes] = '\0';
    return n;
}

START_TEST(paths_may_be_as_long_as_paths_get) {
    folder_begin();
    char path[PATH_MAX + 1];
    for (size_t bytes = PATH_MAX - 25; bytes < PATH_MAX; bytes += 4) {
        make_deep(path, bytes);
        write_text(path, "before");
        write_text(path, "deep");
        ck_assert_int_eq(file_can_write(path), ST_OK);
        expect_content(path, "deep");
        ck_assert_int_eq(unlink(path), 0);
    }
    path[make_deep(path, PATH_MAX - 1)] = '\0';
    ck_assert_int_eq(rmdir(path), 0); /* nothing else was left in it */
    make_deep(path, PATH_MAX);
    expect_refused(path, ENAMETOOLONG);
    folder_end();
}
END_TEST

enum { WRITES = 100, LETTERS = 4000 };

static void *write_many(void *letter) {
    char text[LETTERS];
    intptr_t failed = 0;
    memset(text, *(const char *)letter, sizeof text);
    for (int i = 0; i < WRITES; i++) failed += file_write(path_buffer[0], text, sizeof text) != ST_OK;
    return (void *)failed;
}

static void expect_whole(void) {
    char *text;
    size_t bytes;
    ck_assert_int_eq(file_read(path_buffer[0], &text, &bytes), ST_OK);
    ck_assert_uint_eq(bytes, LETTERS);
    ck_assert_uint_eq(strspn(text, text[0] == 'a' ? "a" : "b"), LETTERS);
    mem_free(text);
}

START_TEST(two_writers_of_one_path_both_succeed) {
    folder_begin();
    char a = 'a', b = 'b';
    pthread_t threads[2];
    void *failed[2];
    in_folder(0, "file");
    write_many(&a);
    pthread_create(&threads[0], NULL, write_many, &a);
    pthread_create(&threads[1], NULL, write_many, &b);
    for (int i = 0; i < WRITES; i++) expect_whole();
    for (int i = 0; i < 2; i++) pthread_join(threads[i], &failed[i]);
    ck_assert(!failed[0] && !failed[1]);
    ck_assert_int_eq(files_in_folder(), 1);
    folder_end();
}
END_TEST

/* The folder is root's (or takes no writes), the file is ours. */
START_TEST(a_file_in_a_folder_that_takes_none_is_written_over) {
    enum { NOBODY = 65534 };
    folder_begin();
    const bool is_root = geteuid() == 0;
    const char *const path = in_folder(0, "file"), *const absent = in_folder(1, "absent");
    write_text(path, "longer before");
    chmod(process_folder, 0555);
    if (is_root) ck_assert(!chown(path, NOBODY, NOBODY) && !seteuid(NOBODY));
    ck_assert_int_eq(file_can_write(path), ST_OK);
    write_text(path, "after");
    expect_content(path, "after");
    expect_refused(absent, EACCES);
    chmod(path, 0444);
    expect_refused(path, EACCES);
    if (is_root) ck_assert_int_eq(seteuid(0), 0);
    chmod(process_folder, 0755);
    folder_end();
}
END_TEST

int main(void) {
    TCase *const all = tcase_create("file");
    tcase_add_test(all, a_link_stays_and_what_it_leads_to_is_replaced);
    tcase_add_test(all, what_is_no_regular_file_is_written_in_place);
    tcase_add_test(all, a_link_behind_proc_is_no_open_file);
    tcase_add_test(all, an_open_file_goes_on_where_it_is);
    tcase_add_test(all, a_file_keeps_its_mode_and_a_new_one_has_that_of_umask);
    tcase_add_test(all, nobody_foresees_what_is_written_beside);
    tcase_add_test(all, names_may_be_as_long_as_names_get);
    tcase_add_test(all, paths_may_be_as_long_as_paths_get);
    tcase_add_test(all, a_file_in_a_folder_that_takes_none_is_written_over);
    tcase_add_test(all, two_writers_of_one_path_both_succeed);
    return suite_run("file", all);
}
