/* bench_array.c: what a replayed call of many small tensors costs by arrays (sinter/array.h), beside sn_call of handles
 * that are there, and of handles wrapped for the call whose results are copied out. Not a test: it asserts nothing.
 *   build/bin/bench_array [ROUNDS] */
#include <sinter/sinter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 512, ITEMS = 160 }; /* beyond what lies in a handle's block */

static int n_in, n_out;
static float memory[MOST][ITEMS], results[MOST][ITEMS];
static sn_function *fn;
static sn_tensor *kept[MOST];
static sn_array in[MOST], out[MOST];

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other programs do not count */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Result i: the sum of every n_out-th argument. */
static sn_status sums(sn_frame *f) {
    for (int i = 0; i < n_out; i++) {
        sn_tensor *sum = sn_in(f, i);
        for (int k = i + n_out; k < n_in; k += n_out) sum = sn_add(sum, sn_in(f, k));
        sn_out(f, i, sn_neg(sum));
    }
    return sn_check();
}

static sn_tensor *wrapped(int i) {
    return sn_wrap(SN_BLOB(.data = memory[i], .bytes = sizeof memory[i], .sizes = SN_INTS(ITEMS), .dtype = SN_F32));
}

static void by_handles(void) {
    sn_tensor *got[MOST];
    const sn_scope scope = sn_scope_begin();
    sn_call(fn, kept, n_in, got, n_out);
    sn_scope_end(scope);
}

static void by_wrapping(void) {
    sn_tensor *all[MOST], *got[MOST];
    const sn_scope scope = sn_scope_begin();
    for (int i = 0; i < n_in; i++) all[i] = wrapped(i);
    sn_call(fn, all, n_in, got, n_out);
    for (int i = 0; i < n_out; i++) sn_read(got[i], results[i], sizeof results[i]);
    sn_scope_end(scope);
}

static void by_arrays(void) { sn_call_arrays(fn, in, n_in, out, n_out, NULL); }

static void by_lent_results(void) {
    for (int i = 0; i < n_out; i++) out[i].data = NULL;
    sn_call_arrays(fn, in, n_in, out, n_out, NULL);
    for (int i = 0; i < n_out; i++) sn_release(out[i].owner);
}

static double best_us(void (*call)(void), int rounds) {
    double best = 1e30;
    for (int repeat = 0; repeat < 20; repeat++) {
        const double start = now_ns();
        for (int i = 0; i < rounds; i++) call();
        const double each = (now_ns() - start) / rounds;
        if (each < best) best = each;
    }
    return best / 1e3;
}

static void row(int arguments, int given, int rounds) {
    static const int64_t sizes[] = {ITEMS};
    n_in = arguments, n_out = given;
    fn = sn_compile(sums, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .name = "sums"));
    for (int i = 0; i < n_in; i++) {
        kept[i] = sn_keep(wrapped(i));
        in[i] = (sn_array){.dtype = SN_F32, .rank = 1, .data = memory[i], .sizes = sizes};
        out[i] = (sn_array){.dtype = SN_F32, .rank = 1, .data = results[i], .sizes = sizes};
    }
    for (int i = 0; i < 3; i++) by_wrapping();
    const double handles = best_us(by_handles, rounds), wrapping = best_us(by_wrapping, rounds),
                 arrays = best_us(by_arrays, rounds), lent = best_us(by_lent_results, rounds);
    printf("array/%d_to_%d\thandles %.2f us\twrap, call, read %.2f us\tarrays into buffers %.2f us\tresults lent %.2f "
           "us\n",
           n_in, n_out, handles, wrapping, arrays, lent);
    for (int i = 0; i < n_in; i++) sn_release(kept[i]);
    sn_function_free(fn);
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 2000;
    memset(memory, 0, sizeof memory);
    row(16, 1, rounds);
    row(16, 4, rounds);
    row(200, 1, rounds);
    row(200, 50, rounds);
    const sn_error *const error = sn_error_take();
    if (error->status) fprintf(stderr, "%s\n", error->message);
    return error->status || sn_finish();
}
