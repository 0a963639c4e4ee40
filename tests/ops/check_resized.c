/* check_resized.c: one function, compiled with all sizes symbolic, takes the same call of a row at other sizes without
 * compiling again, with eager's results and gradients: each size of the tensors that eager lets vary alone, and all
 * together. Two reasons are not the row's: a size of 0 or 1, and a number of the sample that equals a size. Rows whose
 * nature asks for another graph are listed in symbolic.c. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/bail.h"
#include "runtime/base/error.h"
#include "tests/ops/ops.h"
#include "tests/ops/symbolic.h"

/* The closure of the function: gradients of all results for all float tensors, where there are any. */
typedef struct Resized {
    const SampleCall *call;
    bool backward;
    int n_out;
} Resized;

static sn_status body(sn_frame *f) {
    const Resized *const resized = sn_closure(f);
    sn_tensor *in[SAMPLE_TENSORS], *outs[MAX_LIST];
    int n;
    SampleCall call;
    for (int i = 0; i < resized->call->n_tensors; i++) in[i] = sn_in(f, i);
    sample_with(resized->call, in, &call);
    if (sample_run(&call, outs, &n) != ST_OK) return sn_check();
    sn_tensor *root = NULL;
    for (int i = 0; i < n; i++) {
        if (!resized->backward) {
            sn_out(f, i, outs[i]);
        } else if (outs[i] && sn_requires_grad(outs[i])) {
            sn_tensor *const sum = sn_sum(outs[i]);
            root = root ? sn_add(root, sum) : sum;
        }
    }
    if (root) sn_backward(root);
    return sn_check();
}

/* One call at the sizes of `resize`; text gets what it gave. False: it is an error. */
static bool see_call(const Case *c, const Resize *resize, sn_function *fn, Resized *resized, Text *text) {
    const sn_scope scope = sn_scope_begin();
    Case with = *c;
    SampleCall call;
    sn_tensor *out[MAX_LIST] = {NULL};
    with.style.resize = resize;
    with.style.leaves = resized->backward;
    resized->call = &call;
    sn_seed(3);
    if (sample_make(c->row, c->line, &with.style, &call) == ST_OK &&
        sn_call(fn, call.tensors, call.n_tensors, out, resized->backward ? 0 : resized->n_out) == SN_OK) {
        for (int i = 0; i < resized->n_out && !resized->backward; i++) ops_show(text, out[i]);
        for (int i = 0; i < call.n_tensors && resized->backward; i++) ops_show(text, sn_grad(call.tensors[i]));
    }
    const bool fine = sn_check() == SN_OK;
    if (!fine) sn_error_take();
    sn_scope_end(scope);
    return fine;
}

static int64_t compiles_of(sn_function *fn) {
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    return stats.compiles + stats.recompiles;
}

static bool runs_alone(sn_function *fn) {
    const char *const said = sn_explain(fn);
    return strstr(said, "runs by itself") || strstr(said, "\nnot compiled: ");
}

static const char *recompile_of(sn_function *fn) {
    const char *const said = strstr(sn_explain(fn), "recompile: ");
    return said ? said : sn_explain(fn);
}

static bool says(const char *line, size_t n, const char *words) { return memmem(line, n, words, strlen(words)); }

/* A size of 0 or 1 that only one of the calls has is a case of its own [semantics C5]. */
static bool is_small(const char *line, size_t n) {
    static const char *const words[] = {" < 2 (",    " <= 0 (",   " == 1 (",   " == 0 (",
                                        " != 1 (",   " != 0 (",   " 2 <= ",    ": 0, now ",
                                        ": 1, now ", ", now 0\n", ", now 1\n", ", now 0 and 0\n"};
    for (int i = 0; i < COUNT_OF(words); i++)
        if (says(line, n, words[i])) return true;
    return false;
}

/* A number of the sample that equals a size (or a product of two) follows it until it is seen not to. */
static bool is_guess(const char *line, size_t n) {
    const char *const now = memmem(line, n, ", now ", 6), *at = now;
    while (at && at > line && at[-1] != ' ') at--;
    return now && !says(line, n, "guard ") && memchr(at, 's', (size_t)(now - at));
}

static bool is_excused(sn_function *fn) {
    const char *const line = recompile_of(fn);
    const size_t n = strcspn(line, "\n") + 1;
    return !strncmp(line, "recompile: ", 11) && (is_small(line, n) || is_guess(line, n));
}

static void fail(const Case *c, const Resize *from, const Resize *to, const Resized *resized, const char *format, ...) {
    const Resize *const other = from ? from : to;
    char text[9000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ops_fail(c, "%ssizes %s %lld*s+%lld%s%s: %s", resized->backward ? "backward, " : "", from ? "from" : "to",
             (long long)other->times, (long long)other->plus, other->only ? " where s is " : "",
             other->only ? (char[]){(char)('0' + other->only % 10), 0} : "", text);
}

/* A function that has seen the sizes of `from` alone, with those of `to`. False: it compiles again for a reason that
 * is not the row's. */
static bool check_resize(const Case *c, const Resize *from, const Resize *to, Resized *resized) {
    sn_function *const eager = sn_compile(body, resized, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const fn = sn_compile(body, resized, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS));
    Text first = {0}, want = {0}, got = {0};
    bool counts = true;
    if (see_call(c, to, eager, resized, &want) && see_call(c, from, fn, resized, &first)) {
        const int64_t compiles = compiles_of(fn);
        see_call(c, from, fn, resized, &first);
        if (compiles_of(fn) != compiles)
            fail(c, from, to, resized, "compiled again at the same sizes: %.300s", recompile_of(fn));
        const int64_t before = compiles_of(fn);
        see_call(c, to, fn, resized, &got);
        if (strcmp(text_str(&want), text_str(&got)))
            fail(c, from, to, resized, "\n  eager    %.4000s\n  compiled %.4000s", text_str(&want), text_str(&got));
        counts = compiles_of(fn) == before || !is_excused(fn);
        if (compiles_of(fn) != before && counts && !symbolic_listed(c->row, SYMBOLIC_resized))
            fail(c, from, to, resized, "compiled again: %.300s", recompile_of(fn));
        if (runs_alone(fn)) fail(c, from, to, resized, "not compiled: %.300s", sn_explain(fn));
        if (counts) ops_count();
    }
    text_free(&first);
    text_free(&want);
    text_free(&got);
    sn_function_free(eager);
    sn_function_free(fn);
    return counts;
}

/* From the larger sizes, which fewer of the sample's numbers equal; else from the sample's. */
static void check_both(const Case *c, const Resize *resize, Resized *resized) {
    if (!check_resize(c, resize, NULL, resized)) check_resize(c, NULL, resize, resized);
}

/* Each size above 1 of the call's tensors, once. */
static int distinct_sizes(const SampleCall *call, int64_t *sizes, int capacity) {
    int n = 0;
    for (int i = 0; i < call->n_tensors; i++) {
        const Meta *const meta = call->tensors[i]->base.meta;
        for (int d = 0; d < meta->rank; d++) {
            int k = 0;
            while (k < n && sizes[k] != meta->sizes[d]) k++;
            if (meta->sizes[d] > 1 && k == n && n < capacity) sizes[n++] = meta->sizes[d];
        }
    }
    return n;
}

/* Strides of a slice are no sizes: they are symbols from the second ones on. */
static bool is_usual(const Case *c) {
    if (c->style.layout == LAYOUT_sliced) return false;
    return c->style.dtype == DT_f32 || (c->style.layout == LAYOUT_contiguous && c->number == 0);
}

void check_resized(const Case *c) {
    enum { MOST_SIZES = 12 };
    static const Resize all[] = {{.times = 1, .plus = 1}, {.times = 2}};
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int64_t sizes[MOST_SIZES];
    Resized resized = {0};
    if (c->row->flags & OPF_internal) ops_count(); /* only graphs have them */
    if (c->row->flags & OPF_internal || !is_usual(c) || !ops_run(c, &call, outs, &resized.n_out)) return;
    const int n = distinct_sizes(&call, sizes, MOST_SIZES);
    const bool differentiable = c->row->derivative && c->style.dtype == DT_f32;
    failpoint_set("codegen");
    for (resized.backward = false;; resized.backward = true) {
        for (int i = 0; i < COUNT_OF(all); i++) check_both(c, &all[i], &resized);
        for (int i = 0; i < n && n > 1; i++)
            check_both(c, &(Resize){.only = sizes[i], .times = 2, .plus = 7}, &resized);
        if (resized.backward || !differentiable) break;
    }
    failpoint_set("");
}
