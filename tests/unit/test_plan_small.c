/* test_plan_small.c: what a server asks of a plan: sizes that it has not learnt, any grad mode, weights that are read
 * where they lie in the file, a file that is in memory. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/contract.h"

static char path[64];
static const char *file_name(void) {
    snprintf(path, sizeof path, "test_plan_small.%d.plan", (int)getpid());
    return path;
}

static int bodies;

typedef struct Weights {
    sn_tensor *w, *b;
} Weights;

static sn_status net(sn_frame *f) {
    const Weights *const m = sn_closure(f);
    bodies++;
    return sn_out(f, 0, sn_softmax(sn_linear(sn_in(f, 0), m->w, m->b), -1));
}

/* Two free sizes, which ops mix; a mask that has the batch size, too. */
static sn_status mixes(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0); /* f32[s0,s1,4] */
    sn_tensor *const scores = sn_matmul(x, sn_transpose(x, 1, 2));
    return sn_out(f, 0, sn_sum_dim(sn_mul(scores, sn_in(f, 1)), SN_INTS(2), false));
}

static sn_function *saved_and_loaded(sn_function *fn, const sn_plan_options *options) {
    ck_assert_msg(sn_plan_save(fn, file_name(), options) == SN_OK, "%s", sn_error_take()->message);
    sn_function *const plan = sn_plan_load(path, NULL);
    ck_assert_msg(plan != NULL, "%s", sn_error_take()->message);
    return plan;
}

/* Learnt with batches of 8 and 16 in one grad mode, asked for 0 to 9 rows in each. */
START_TEST(one_row_and_none_in_any_grad_mode) {
    static const sn_dynamic kinds[] = {SN_DYNAMIC_AUTO, SN_DYNAMIC_ALWAYS};
    for (int round = 0; round < 4; round++) {
        const bool leaves = round & 1;
        Weights m = {leaves ? LEAF(1, 3, 4) : F32(1, 3, 4), leaves ? LEAF(2, 3) : F32(2, 3)};
        const sn_scope scope = leaves ? sn_no_grad_begin() : sn_scope_begin();
        sn_function *const fn =
            sn_compile(net, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .dynamic = kinds[round / 2]));
        for (int i = 1; i < 4; i++) SN_CALL(fn, F32((uint64_t)i, 8 * i, 4));
        sn_function *const plan = saved_and_loaded(fn, SN_PLAN_OPTIONS(.embed = true));
        sn_scope_end(scope);
        const int before = bodies;
        for (int mode = SN_GRAD_ON; mode <= SN_INFERENCE; mode++) {
            for (int rows = 0; rows < 10; rows++) {
                const sn_scope inner = sn_scope_begin();
                sn_grad_mode_set((sn_grad_mode)mode);
                sn_tensor *const x = F32(7, rows, 4), *const got = SN_CALL(plan, x);
                ck_assert_msg(got != NULL, "%d rows: %s", rows, sn_error_take()->message);
                ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
                ck_assert(same_bits(got, sn_softmax(sn_linear(x, m.w, m.b), -1)));
                sn_scope_end(inner);
            }
        }
        ck_assert_int_eq(bodies, before);
        sn_function_free(plan);
        sn_function_free(fn);
        remove(path);
    }
}
END_TEST

START_TEST(each_free_size_may_be_one) {
    sn_function *const fn = sn_compile(mixes, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_function *const eager = sn_compile(mixes, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32((uint64_t)i, 3 + i, 5 + 2 * i, 4), F32(9, 3 + i, 1, 1));
    sn_function *const plan = saved_and_loaded(fn, NULL);
    static const int sizes[][2] = {{4, 7}, {1, 7}, {4, 1}, {0, 7}, {4, 0}, {9, 12}};
    for (int i = 0; i < 6; i++) {
        sn_tensor *const x = F32(3, sizes[i][0], sizes[i][1], 4), *const mask = F32(4, sizes[i][0], 1, 1);
        sn_tensor *const got = SN_CALL(plan, x, mask);
        ck_assert_msg(got != NULL, "%d, %d: %s", sizes[i][0], sizes[i][1], sn_error_take()->message);
        ck_assert(same_bits(got, SN_CALL(eager, x, mask)));
    }
    sn_function_free(plan);
    sn_function_free(fn);
    sn_function_free(eager);
    remove(path);
}
END_TEST

static sn_status fussy(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    bodies++;
    if (sn_sym_value(sn_sym_size(x, 0)) < 2) return sn_fail(SN_ERR_VALUE, "one row is not enough");
    return sn_out(f, 0, sn_dropout(x, 0.5, true));
}

/* What goes wrong in such a call is no error, the generator is as before, and the function goes on; and there is a
   way to do without. */
START_TEST(small_calls_leave_nothing_behind) {
    sn_function *const fn = sn_compile(fussy, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(1, 6 + i, 3));
    const sn_rng before = sn_rng_get();
    sn_function_free(saved_and_loaded(fn, NULL));
    const sn_rng after = sn_rng_get();
    ck_assert(!memcmp(&before, &after, sizeof before) && sn_check() == SN_OK);
    const int runs = bodies;
    sn_function_free(saved_and_loaded(fn, SN_PLAN_OPTIONS(.as_called = true)));
    ck_assert_int_eq(bodies, runs);
    ck_assert_ptr_nonnull(SN_CALL(fn, F32(1, 9, 3)));
    sn_function_free(fn);
    remove(path);
}
END_TEST

START_TEST(a_tensor_that_requires_gradients_is_an_error_where_they_are_recorded) {
    Weights m = {F32(1, 3, 4), F32(2, 3)};
    const sn_scope off = sn_no_grad_begin();
    sn_function *const fn = sn_compile(net, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 1; i < 4; i++) SN_CALL(fn, F32((uint64_t)i, 8 * i, 4));
    sn_function *const plan = saved_and_loaded(fn, SN_PLAN_OPTIONS(.embed = true));
    sn_tensor *const x = LEAF(4, 5, 4);
    for (int i = 0; i < 3; i++) ck_assert_ptr_nonnull(SN_CALL(plan, x)); /* an entry of its cache by now */
    sn_grad_mode_set(SN_GRAD_ON);
    ck_assert_ptr_null(SN_CALL(plan, x));
    expect_error(SN_ERR_ARGUMENT, "argument 0 requires gradients, which a plan does not record: call it inside of");
    ck_assert_ptr_nonnull(SN_CALL(plan, sn_detach(x)));
    sn_scope_end(off);
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

/* Weights in the file --------------------------------------------------------------------------- */

enum { WIDE = 2000 }; /* f32[2000,2000]: 15 MiB */

static sn_status wide(sn_frame *f) {
    const Weights *const m = sn_closure(f);
    return sn_out(f, 0, sn_add(sn_mm(sn_in(f, 0), m->w), m->b));
}

/* In kB, of this process, since what was reset last. */
static long peak_kb(void) {
    char line[256];
    long kb = -1;
    FILE *const status = fopen("/proc/self/status", "r");
    while (status && kb < 0 && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &kb);
    if (status) fclose(status);
    return kb;
}

static bool reset_peak(void) {
    const int file = open("/proc/self/clear_refs", O_WRONLY);
    const bool done = file >= 0 && write(file, "5", 1) == 1;
    if (file >= 0) close(file);
    return done;
}

static int load_in_child(long file_kb) {
    if (!reset_peak()) return 0; /* a system that does not say */
    const long before = peak_kb();
    sn_function *const plan = sn_plan_load(path, NULL);
    sn_tensor *const y = plan ? SN_CALL(plan, F32(3, 2, WIDE)) : NULL;
    const long more = peak_kb() - before;
    sn_function_free(plan);
    if (!y) return 1;
    if (more > file_kb + file_kb / 4 + 2048) fprintf(stderr, "%ld kB more for a file of %ld kB\n", more, file_kb);
    return more > file_kb + file_kb / 4 + 2048 ? 2 : 0;
}

/* Weights are written from where they lie: saving takes no memory for them. */
static int save_in_child(sn_function *fn, long file_kb) {
    if (!reset_peak()) return 0;
    const long before = peak_kb();
    const sn_status status = sn_plan_save(fn, path, SN_PLAN_OPTIONS(.embed = true, .as_called = true));
    const long more = peak_kb() - before;
    if (more > file_kb / 4 + 2048) fprintf(stderr, "%ld kB more to save a file of %ld kB\n", more, file_kb);
    return status ? 1 : more > file_kb / 4 + 2048 ? 2 : 0;
}

static char *read_file(size_t *n) {
    FILE *const file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    *n = (size_t)ftell(file);
    rewind(file);
    char *const content = malloc(*n + 1);
    ck_assert_uint_eq(fread(content, 1, *n, file), *n);
    fclose(file);
    return content;
}

START_TEST(weights_are_read_where_they_lie) {
    Weights m = {F32(1, WIDE, WIDE), sn_to(sn_from_data("\3\4\5", SN_INTS(1), SN_U8), SN_U8)};
    sn_function *const fn = sn_compile(wide, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32((uint64_t)i, 2 + i, WIDE));
    ck_assert_int_eq(sn_plan_save(fn, file_name(), SN_PLAN_OPTIONS(.embed = true)), SN_OK);
    struct stat about;
    ck_assert_int_eq(stat(path, &about), 0);
    for (int loads = 0; loads < 2; loads++) {
        const pid_t child = fork();
        if (!child) _exit(loads ? load_in_child(about.st_size / 1024) : save_in_child(fn, about.st_size / 1024));
        int status;
        waitpid(child, &status, 0);
        ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "the child that %s: %x", loads ? "loads" : "saves",
                      status);
    }
    sn_tensor *const x = F32(8, 3, WIDE), *const want = SN_CALL(fn, x);
    /* from memory, which goes at once, at any address */
    size_t n;
    char *const content = read_file(&n);
    for (int shift = 0; shift < 2; shift++) {
        char *const other = malloc(n + 1);
        memcpy(other + shift, content, n);
        sn_function *const plan = sn_plan_load_memory(other + shift, n, NULL);
        free(other);
        ck_assert_msg(plan != NULL, "%s", sn_error_take()->message);
        ck_assert(same_bits(SN_CALL(plan, x), want));
        sn_function_free(plan);
    }
    for (size_t cut = 0; cut < n; cut = cut * 2 + 1) {
        ck_assert_ptr_null(sn_plan_load_memory(content, cut, NULL));
        expect_error(SN_ERR_PARSE, "memory");
    }
    content[n - 5] ^= 1;
    ck_assert_ptr_null(sn_plan_load_memory(content, n, NULL));
    expect_error(SN_ERR_PARSE, "damaged");
    ck_assert_ptr_null(sn_plan_load_memory(NULL, n, NULL));
    expect_error(SN_ERR_ARGUMENT, "NULL");
    free(content);
    sn_function_free(fn);
    remove(path);
}
END_TEST

static sn_status counts(sn_frame *f) {
    const Weights *const m = sn_closure(f);
    sn_add_(m->w, sn_in(f, 0));
    return sn_out(f, 0, sn_mul_scalar(m->w, sn_float(2)));
}

/* What a plan writes of its file stays with it, also when the file is gone. */
START_TEST(the_file_stays_as_it_was) {
    Weights m = {F32(1, 40, 40), NULL};
    sn_function *const fn = sn_compile(counts, &m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32((uint64_t)i, 40, 40));
    ck_assert_int_eq(sn_plan_save(fn, file_name(), SN_PLAN_OPTIONS(.embed = true)), SN_OK);
    size_t n[2];
    char *const before = read_file(&n[0]);
    sn_function *const a = sn_plan_load(path, NULL), *const b = sn_plan_load(path, NULL);
    sn_tensor *const x = F32(5, 40, 40), *const first = SN_CALL(a, x);
    ck_assert(!same_bits(SN_CALL(a, x), first)); /* it counts */
    ck_assert(same_bits(SN_CALL(b, x), first));  /* each for itself */
    char *const after = read_file(&n[1]);
    ck_assert(n[0] == n[1] && !memcmp(before, after, n[0]));
    remove(path);
    ck_assert_ptr_nonnull(SN_CALL(a, x));
    sn_function_free(a);
    sn_function_free(b);
    sn_function_free(fn);
    free(before);
    free(after);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        one_row_and_none_in_any_grad_mode, each_free_size_may_be_one,
        small_calls_leave_nothing_behind,  a_tensor_that_requires_gradients_is_an_error_where_they_are_recorded,
        weights_are_read_where_they_lie,   the_file_stays_as_it_was,
    };
    return contract_main("test_plan_small", tests, (int)(sizeof tests / sizeof *tests));
}
