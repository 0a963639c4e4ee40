/* test_saved_mutated.c: saved plans with something in them changed at random [8.05]. As files, all of them are refused:
 * 1,000 never crash, and none gives a wrong result. With a digest that fits they are other plans: these are refused
 * too, or stay in their memory, or fit no call. SINTER_TEST_PLANS=N tries N, SINTER_TEST_SEED=N that one alone. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/capture/function/saved.h"
#include "runtime/core/bundle.h"
#include "tests/unit/contract.h"
#include "tests/unit/mutated_text.h"

typedef struct Host {
    sn_tensor *w, *b;
} Host;

static sn_status layer(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const y = sn_softmax(sn_gelu(sn_linear(x, h->w, h->b)), -1);
    sn_out(f, 1, sn_sum_dim(y, SN_INTS(0), false));
    return sn_out(f, 0, sn_mul_scalar(y, sn_in_value(f, 1)));
}

static sn_status steps(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *both = sn_cat(SN_TENSORS(x, h->w), 0);
    sn_tensor *const noisy = sn_dropout(sn_exp(both), 0.5, true);
    sn_add_(h->w, sn_mul_scalar(h->w, sn_in_value(f, 1)));
    sn_out(f, 1, sn_cumsum(noisy, 0, SN_DTYPE_DEFAULT));
    return sn_out(f, 0, sn_view(noisy, SN_INTS(-1)));
}

/* Views of an argument, of what is closed over and of a result, with writes. */
static sn_status views(sn_frame *f) {
    const Host *const h = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const y = sn_mul_scalar(x, sn_in_value(f, 1)), *const v = sn_select(y, 1, 0);
    sn_add_(v, sn_sum(h->b));
    sn_neg_(v);
    sn_out(f, 1, sn_transpose(sn_narrow(x, 1, 1, 3), 0, 1));
    sn_out(f, 2, sn_expand(sn_unsqueeze(h->w, 0), SN_INTS(2, -1, -1)));
    sn_out(f, 3, y);
    return sn_out(f, 0, v);
}

/* A graph, whose header has sizes that are solved for symbols, and which returns arguments. */
static const char solved[] = "graph f(%x: f32[2*s0+2,6], %y: f32[s0+s1]) {\n"
                             "  %0 = aten::view(%x, [s0+1, 12])\n"
                             "  %1 = aten::slice.Tensor(%y, 0, s0)\n"
                             "  return %0, %1, %y, %x\n}\n";
static sn_function *solved_new(void) {
    sn_graph *const g = sn_graph_parse(solved, strlen(solved));
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_graph_free(g);
    return fn;
}

static const sn_body bodies[] = {layer, steps, views, NULL};
enum { BODIES = sizeof bodies / sizeof *bodies, CALLS = 4, RESULTS = 4 };

typedef struct Base { /* a saved plan, and what it gives */
    Text file;
    Bundle bundle;
    char name[64];
    sn_body body;
} Base;

/* A history that is wrong may give an error, but no more. */
static void use_history(sn_tensor **out) {
    sn_tensor *const w = sn_requires_grad_(F32(5, 1), true), *sum = sn_mul(w, w);
    for (int i = 0; i < RESULTS && !error_pending(); i++) {
        sn_mul_(out[i], w);
        error_clear();
        sum = sn_add(sum, sn_sum(sn_mul(out[i], out[i])));
    }
    sn_backward(sn_sum(sum));
    error_clear();
}

static void call_it(sn_function *fn, sn_body body, int i, sn_tensor **out) {
    const int n = body == views ? RESULTS : 2;
    if (!body) {
        sn_call(fn, (sn_tensor *[]){F32(i, 4 + 2 * i, 6), F32(i, 6 + i)}, 2, out, RESULTS);
        return;
    }
    sn_call_values(fn, (sn_value[]){sn_val(F32(i, 4 + 2 * i, 6)), sn_float(0.25 * (i + 1))}, 2, out, n);
    if (body == views && i == CALLS - 1 && !error_pending()) use_history(out);
}

static void base_make(Base *base, int i) {
    Host h = {F32(1, 4, 6), F32(2, 4)};
    sn_tensor *out[RESULTS];
    char *content;
    size_t bytes;
    snprintf(base->name, sizeof base->name, "test_saved_mutated.%d.%d", (int)getpid(), i);
    sn_function *const fn =
        bodies[i] ? sn_compile(bodies[i], &h, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY)) : solved_new();
    base->body = bodies[i];
    for (int k = 0; k < CALLS; k++) call_it(fn, bodies[i], k % (CALLS - 1), out); /* their histories are not used */
    sn_plan_save(fn, base->name, SN_PLAN_OPTIONS(.embed = true));
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(file_read(base->name, &content, &bytes), ST_OK);
    text_put(&base->file, content, bytes);
    mem_free(content);
    /* not the file, which is written over */
    ck_assert_int_eq(bundle_view(base->file.at, base->file.n, base->name, "plan", &base->bundle), ST_OK);
    sn_function_free(fn);
}

static void base_free(Base *base) {
    remove(base->name);
    text_free(&base->file);
    bundle_close(&base->bundle);
}

static void seed_random(uint64_t seed) {
    random_state = seed * 0x9E3779B97F4A7C15u;
    next_random(1);
}

/* Without waiting for the disk. */
static void write_file(const char *name, const FileSpan *parts, int n) {
    FILE *const file = fopen(name, "wb");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < n; i++)
        if (parts[i].bytes) ck_assert(fwrite(parts[i].at, 1, parts[i].bytes, file) == parts[i].bytes);
    fclose(file);
}

/* A byte, a bit, the end gone, a byte more. */
static void damage(const Text *file, Text *to) {
    const size_t at = next_random((uint32_t)file->n);
    text_put(to, file->at, file->n);
    switch (next_random(4)) {
    case 0:
        to->at[at] = (char)(to->at[at] ^ 1 << next_random(8));
        break;
    case 1:
        to->at[at] = (char)(to->at[at] + 1 + (int)next_random(255));
        break;
    case 2:
        to->n = at;
        break;
    default:
        text_put(to, "\n", 1);
        memmove(to->at + at + 1, to->at + at, file->n - at);
        break;
    }
}

static void refuse_damaged(const Base *base, uint64_t seed) {
    Text text = {0};
    seed_random(seed);
    damage(&base->file, &text);
    const bool same = text.n == base->file.n && !memcmp(text.at, base->file.at, text.n);
    write_file(base->name, &(FileSpan){text.at, text.n}, 1);
    sn_function *const plan = sn_plan_load(base->name, NULL);
    ck_assert_msg(same || !plan, "seed %d: a damaged file was taken", (int)seed);
    if (!same) expect_error(SN_ERR_PARSE, base->name);
    sn_function_free(plan);
    text_free(&text);
}

typedef struct Counts {
    int refused, unfit, ran, by_ops;
} Counts;

static void run_changed(const Base *base, uint64_t seed, Counts *counts) {
    Text text = {0}, twice = {0};
    seed_random(seed);
    change(base->bundle.text, &text);
    if (next_random(3) == 0) change(text_str(&text), &twice);
    char line[BUNDLE_LINE];
    FileSpan all[1 + BUNDLE_SECTIONS], *const parts = all + 1;
    memcpy(parts, base->bundle.parts, sizeof base->bundle.parts);
    const Text *const changed = twice.at ? &twice : &text;
    parts[BUNDLE_text] = (FileSpan){text_str(changed), changed->n};
    all[0] = (FileSpan){line, bundle_line("plan", parts, line)};
    write_file(base->name, all, COUNT_OF(all));
    sn_function *const plan = sn_plan_load(base->name, NULL);
    counts->refused += !plan;
    for (int i = 0; plan && i < CALLS; i++) {
        sn_tensor *out[RESULTS];
        error_clear();
        call_it(plan, base->body, i, out);
        *(error_pending() ? &counts->unfit : &counts->ran) += 1;
    }
    error_clear();
    if (plan && saved_run_by_ops(plan) == ST_OK) { /* of a graph that may be another one by now */
        sn_tensor *out[RESULTS];
        call_it(plan, base->body, 0, out);
        counts->by_ops++;
    }
    error_clear();
    sn_function_free(plan);
    text_free(&text);
    text_free(&twice);
}

static void each_seed(void (*one)(const Base *base, uint64_t seed, Counts *counts), Counts *counts, int *n) {
    const char *const many = getenv("SINTER_TEST_PLANS"), *const only = getenv("SINTER_TEST_SEED");
    Base bases[BODIES] = {{.name = ""}};
    *n = many ? atoi(many) : 1000;
    for (int i = 0; i < BODIES; i++) base_make(&bases[i], i);
    for (int seed = only ? atoi(only) : 0; seed < (only ? atoi(only) + 1 : *n); seed++) {
        if (getenv("SINTER_TEST_SAY")) fprintf(stderr, "%d\n", seed);
        const sn_scope scope = sn_scope_begin();
        one(&bases[seed % BODIES], (uint64_t)seed, counts);
        sn_scope_end(scope);
    }
    for (int i = 0; i < BODIES; i++) base_free(&bases[i]);
}

static void damaged(const Base *base, uint64_t seed, Counts *counts) {
    refuse_damaged(base, seed);
    counts->refused++;
}

START_TEST(damaged_files_are_refused) {
    Counts counts = {0};
    int n;
    each_seed(damaged, &counts, &n);
    ck_assert(getenv("SINTER_TEST_SEED") || counts.refused == n);
}
END_TEST

START_TEST(changed_plans_never_crash) {
    Counts counts = {0};
    int n;
    moderate_numbers = true;
    setenv("SINTER_LLVM_MODULE", "/nowhere", 1); /* code for them is not what is tried */
    each_seed(run_changed, &counts, &n);
    if (!getenv("SINTER_TEST_SEED")) /* all three ways are taken */
        ck_assert_msg(counts.refused > n / 4 && counts.unfit > n / 25 && counts.ran > n / 20 && counts.by_ops > n / 20,
                      "%d %d %d", counts.refused, counts.unfit, counts.ran);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {damaged_files_are_refused, changed_plans_never_crash};
    return contract_main("test_saved_mutated", tests, COUNT_OF(tests));
}
