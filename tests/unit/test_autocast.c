/* test_autocast.c: autocast by public functions alone [semantics T8, G6]: rows 2.16, 4.01, 4.02, 4.04 and 4.05 of the
 * acceptance list, and what regions, their casts and compiled functions owe each other. Eager and compiled each. */
#include <sinter/transform.h>
#include <stdio.h>

#include "tests/unit/contract.h"

static char trace[16384];
static void log_into_trace(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    if (strcmp(topic, "dispatch") != 0) return;
    strncat(trace, line, sizeof trace - strlen(trace) - 2);
    strcat(trace, ";");
}

static sn_autocast_stats counts(void) {
    sn_autocast_stats stats = {.size = sizeof stats};
    ck_assert_int_eq(sn_autocast_stats_get(&stats), SN_OK);
    return stats;
}

static sn_scope region(sn_dtype dtype) {
    const sn_scope mark = sn_scope_begin();
    sn_autocast_set(SN_CPU, dtype);
    return mark;
}

static void is_dtype(sn_tensor *t, sn_dtype want) {
    ck_assert_msg(t != NULL, "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_dtype_of(t), want);
}

/* Each of `lines` is in the trace, behind the one before. */
static void in_order(const char *const *lines, int n) {
    const char *at = trace;
    for (int i = 0; i < n; i++) {
        const char *const found = strstr(at, lines[i]);
        ck_assert_msg(found != NULL, "'%s' is not behind what comes before it in:\n%s", lines[i], trace);
        at = found;
    }
}
#define IN_ORDER(...)                                                                                                  \
    in_order((const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

/* 2.16 ---------------------------------------------------------------------------------------- */

static sn_status matmul(sn_frame *f) { return sn_out(f, 0, sn_matmul(sn_in(f, 0), sn_in(f, 1))); }

static void begin_trace(void) {
    sn_setting_set("dispatch_trace", "1");
    sn_logging_set(log_into_trace, NULL, "");
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_autocast_set(SN_CPU, SN_BF16);
    trace[0] = '\0';
}

static sn_tensor *product_in_bf16(sn_tensor *x, sn_tensor *w) { return sn_mm(sn_to(x, SN_BF16), sn_to(w, SN_BF16)); }

START_TEST(a2_16_matmul_under_autocast_and_no_grad) {
    sn_tensor *const x = F32(1, 2, 3), *const w = LEAF(2, 3, 4);
    begin_trace();
    sn_tensor *const y = sn_matmul(x, w);
    IN_ORDER("aten::matmul: autocast;", "aten::_to_copy: autograd;", "aten::_to_copy: cpu;", "aten::matmul: autograd;",
             "aten::mm: autograd;", "aten::mm: cpu;");
    puts(trace);
    is_dtype(y, SN_BF16);
    ck_assert(!sn_requires_grad(y));
    ck_assert(same_bits(y, product_in_bf16(x, w)));
}
END_TEST

START_TEST(a2_16_the_same_compiled) {
    sn_tensor *const x = F32(1, 2, 3), *const w = LEAF(2, 3, 4);
    sn_function *const fn = sn_compile(matmul, NULL, NULL);
    begin_trace();
    sn_tensor *const want = sn_matmul(x, w);
    for (int i = 0; i < 3; i++) {
        trace[0] = '\0';
        sn_tensor *const y = SN_CALL(fn, x, w);
        IN_ORDER("aten::matmul: autocast;", "aten::_to_copy: capture;", "aten::_to_copy: capture;",
                 "aten::matmul: capture;", "aten::mm: capture;");
        is_dtype(y, SN_BF16);
        ck_assert(!sn_requires_grad(y) && same_bits(y, want));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

/* 4.01 ---------------------------------------------------------------------------------------- */

/* {"name": "aten::mm", ..., "autocast": "lower", ...} */
static void listed(const char *name, const char *policy) {
    char want[64];
    snprintf(want, sizeof want, "{\"name\": \"%s\"", name);
    const char *const row = strstr(sn_op_list(), want);
    ck_assert_msg(row != NULL, "%s", name);
    snprintf(want, sizeof want, "\"autocast\": \"%s\"", policy);
    const char *const found = strstr(row, want), *const end = strchr(row, '\n');
    ck_assert_msg(found && (!end || found < end), "%s is not %s", name, policy);
}

enum { RESULTS = 8 };
static const sn_dtype wanted[RESULTS] = {SN_BF16, SN_F32, SN_F32, SN_BF16, SN_F32, SN_F32, SN_F32, SN_F64};

static sn_status policies(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const w = sn_in(f, 1), *const y = sn_matmul(x, w);
    sn_out(f, 0, y);                                          /* lower */
    sn_out(f, 1, sn_softmax(y, 1));                           /* f32, by dtype */
    sn_out(f, 2, sn_add(y, w));                               /* none: types promote, bf16 and f32 */
    sn_out(f, 3, sn_relu(y));                                 /* none */
    sn_out(f, 4, sn_exp(y));                                  /* f32 */
    sn_out(f, 5, sn_addcmul(x, y, w));                        /* promote: f32 is among them */
    sn_out(f, 6, sn_sum(y));                                  /* f32, by dtype */
    return sn_out(f, 7, sn_matmul(sn_in(f, 2), sn_in(f, 2))); /* f64 stays */
}

static void call_policies(sn_function *fn, sn_tensor **out) {
    sn_tensor *const in[] = {F32(1, 4, 4), F32(2, 4, 4), sn_to(F32(3, 4, 4), SN_F64)};
    const sn_scope mark = region(SN_BF16);
    ck_assert_msg(sn_call(fn, in, 3, out, RESULTS) == SN_OK, "%s", sn_error_take()->message);
    for (int i = 0; i < RESULTS; i++) out[i] = sn_keep(out[i]);
    sn_scope_end(mark);
}

START_TEST(a4_01_policies_print_and_hold) {
    listed("aten::matmul", "lower");
    listed("aten::softmax.int", "f32_dtype");
    listed("aten::exp", "f32");
    listed("aten::addcmul", "promote");
    listed("aten::add.Tensor", "none");
    const Twin twin = twin_new(policies, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *want[RESULTS], *got[RESULTS];
        call_policies(twin.eager, want);
        call_policies(twin.fast, got);
        for (int k = 0; k < RESULTS; k++) {
            is_dtype(want[k], wanted[k]);
            ck_assert_msg(same_bits(got[k], want[k]), "result %d of call %d", k, i);
            sn_release(want[k]), sn_release(got[k]);
        }
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* 4.02 ---------------------------------------------------------------------------------------- */

static sn_tensor *three_products(sn_tensor *const *x, sn_tensor *w) {
    sn_tensor *y = sn_mm(x[0], w);
    y = sn_add(y, sn_mm(x[1], w));
    return sn_add(y, sn_mm(x[2], w));
}

static sn_status three(sn_frame *f) {
    sn_tensor *const x[] = {sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)};
    return sn_out(f, 0, three_products(x, sn_closure(f)));
}

START_TEST(a4_02_a_weight_is_cast_once_per_region) {
    sn_tensor *const w = LEAF(1, 4, 4);
    sn_tensor *x[3];
    for (uint64_t i = 0; i < 3; i++) x[i] = sn_to(F32(i + 2, 4, 4), SN_BF16);
    for (int round = 1; round <= 2; round++) {
        const sn_autocast_stats before = counts();
        const sn_scope mark = region(SN_BF16);
        three_products(x, w);
        ck_assert_int_eq(counts().casts, before.casts + 1);
        ck_assert_int_eq(counts().shared, before.shared + 2);
        ck_assert_int_eq(counts().kept, 1);
        ck_assert_int_eq(counts().kept_bytes, 32);
        sn_scope_end(mark);
        ck_assert_int_eq(counts().kept, 0);
    }
}
END_TEST

static int occurrences(const char *text, const char *what) {
    int n = 0;
    while ((text = strstr(text, what))) n++, text++;
    return n;
}

/* Its graph has a cast for each use, and one once equal ones are merged. */
START_TEST(a4_02_the_same_compiled) {
    sn_tensor *const w = LEAF(1, 4, 4);
    const Twin twin = twin_new(three, w, w, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *in[3];
        for (uint64_t k = 0; k < 3; k++) in[k] = sn_to(F32(k + 2, 4, 4), SN_BF16);
        const sn_scope mark = region(SN_BF16);
        twin_call(twin, (sn_tensors){in, 3}, (sn_tensors){in, 3});
        sn_scope_end(mark);
    }
    ck_assert_int_eq(occurrences(sn_dump(twin.fast, "capture"), "_to_copy"), 3);
    ck_assert_msg(occurrences(sn_dump(twin.fast, "forward"), "_to_copy") == 1, "%s", sn_dump(twin.fast, "forward"));
    twin_free(twin);
}
END_TEST

/* T8, G6: casts that are shared --------------------------------------------------------------- */

/* Uses have gradients of 256 and three times 1: bf16 would add them to 256. */
static sn_tensor *uses(sn_tensor *w) {
    static const float factors[] = {256, 1, 1, 1};
    sn_tensor *sum = NULL;
    for (int i = 0; i < 4; i++) {
        sn_tensor *const y = sn_mm(sn_full(SN_INTS(1, 1), sn_float(factors[i]), SN_BF16), w);
        sum = sum ? sn_add(sum, sn_to(y, SN_F32)) : sn_to(y, SN_F32);
    }
    return sn_sum(sum);
}

static sn_status uses_in_body(sn_frame *f) { return sn_out(f, 0, uses(sn_in(f, 0))); }

START_TEST(t8_gradients_of_several_uses_add_in_f32) {
    sn_function *const fn = sn_compile(uses_in_body, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const w = sn_requires_grad_(sn_full(SN_INTS(1, 1), sn_float(2), SN_F32), true);
        const sn_scope mark = region(SN_BF16);
        sn_tensor *const loss = sn_keep(i ? SN_CALL(fn, w) : uses(w));
        sn_scope_end(mark);
        ck_assert_int_eq(sn_backward(loss), SN_OK);
        is_dtype(sn_grad(w), SN_F32);
        ck_assert_double_eq(sn_item(sn_sum(sn_grad(w))), 259);
        sn_release(loss);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

START_TEST(t8_what_was_written_since_is_cast_again) {
    sn_tensor *const w = LEAF(1, 4, 4), *const x = sn_to(F32(2, 4, 4), SN_BF16);
    const sn_autocast_stats before = counts();
    const sn_scope mark = region(SN_BF16);
    sn_mm(x, w);
    const sn_scope still = sn_no_grad_begin();
    sn_mul_scalar_(w, sn_float(2));
    sn_scope_end(still);
    sn_tensor *const y = sn_mm(x, w);
    ck_assert_int_eq(counts().casts, before.casts + 2);
    ck_assert_int_eq(counts().kept, 1);
    sn_autocast_set(SN_CPU, SN_F32); /* the same scope: the region is over */
    ck_assert_int_eq(counts().kept, 0);
    ck_assert(same_bits(y, sn_mm(x, sn_to(w, SN_BF16))));
    sn_scope_end(mark);
}
END_TEST

/* A kernel of the program's own, below autocast. */
static sn_status doubles_its_weight(sn_frame *f) {
    sn_mul_scalar_(sn_in(f, 1), sn_float(2));
    return sn_redispatch(f);
}

START_TEST(t8_what_a_weight_was_cast_to_is_made_again_where_it_was_written) {
    sn_tensor *const w = LEAF(1, 4, 4), *const x = sn_to(F32(2, 4, 4), SN_BF16);
    const sn_scope mark = region(SN_BF16);
    sn_override *const own = sn_op_override(sn_op_find("aten::mm"), SN_KEY_AUTOGRAD, doubles_its_weight, NULL);
    sn_tensor *const doubled = sn_mm(x, w);
    sn_override_free(own);
    sn_tensor *const y = sn_mm(x, w);
    sn_autocast_set(SN_CPU, SN_F32);
    ck_assert(same_bits(y, sn_mm(x, sn_to(w, SN_BF16))));
    ck_assert(same_bits(doubled, sn_mm(x, sn_mul_scalar(sn_to(w, SN_BF16), sn_float(2)))));
    sn_scope_end(mark);
}
END_TEST

/* A part that is off, and one in f16, belong to the region around them. */
START_TEST(t8_parts_of_a_region_keep_its_casts) {
    sn_tensor *const w = LEAF(1, 4, 4), *const x = F32(2, 4, 4);
    const sn_scope outer = region(SN_BF16);
    is_dtype(sn_mm(x, w), SN_BF16);
    const sn_scope off = region(SN_F32);
    is_dtype(sn_mm(x, w), SN_F32);
    sn_scope_end(off);
    ck_assert_int_eq(sn_autocast_get(SN_CPU), SN_BF16);
    ck_assert_int_eq(counts().kept, 1);
    const sn_scope half = region(SN_F16);
    is_dtype(sn_mm(x, w), SN_F16);
    sn_scope_end(half);
    ck_assert_int_eq(counts().kept, 2);
    const sn_autocast_stats before = counts();
    is_dtype(sn_mm(x, w), SN_BF16);
    ck_assert_int_eq(counts().shared, before.shared + 1);
    sn_scope_end(outer);
    ck_assert_int_eq(counts().kept, 0);
    ck_assert_int_eq(sn_autocast_get(SN_CPU), SN_F32);
    is_dtype(sn_mm(x, w), SN_F32);
}
END_TEST

START_TEST(t8_set_names_what_is_wrong) {
    ck_assert_int_eq(sn_autocast_set(SN_CPU, SN_BF16), SN_F32);
    ck_assert_int_eq(sn_autocast_set(SN_CPU, SN_I64), SN_BF16);
    expect_error(SN_ERR_DTYPE, "sn_autocast_set: dtype i64 (5): it is bf16 or f16, or f32 for off");
    ck_assert_int_eq(sn_autocast_set(SN_CPU, (sn_dtype)77), SN_BF16);
    expect_error(SN_ERR_DTYPE, "no dtype (77)");
    ck_assert_int_eq(sn_autocast_set((sn_device)-7, SN_F16), SN_F32);
    expect_error(SN_ERR_ARGUMENT, "sn_autocast_set: -7 is no device");
    ck_assert_int_eq(sn_autocast_get(SN_CPU), SN_BF16);
    ck_assert_int_eq(sn_autocast_get(SN_META), SN_F32);
    ck_assert_int_eq(sn_autocast_stats_get(NULL), SN_ERR_ARGUMENT);
    sn_error_take();
}
END_TEST

/* In place and out forms decide their dtype themselves; a rule's ops run below. */
START_TEST(t8_what_writes_casts_nothing) {
    sn_tensor *const x = F32(1, 4, 4), *const w = F32(2, 4, 4), *const out = sn_zeros(SN_INTS(4, 4), SN_F32);
    sn_tensor *const want = sn_mm(x, w), *const sum = sn_addmm(x, x, w);
    const sn_scope mark = region(SN_BF16);
    is_dtype(sn_mm_out(out, x, w), SN_F32);
    ck_assert(same_bits(out, want));
    ck_assert(same_bits(sn_addmm_(x, x, w), sum));
    sn_scope_end(mark);
}
END_TEST

/* T8: compiled functions ---------------------------------------------------------------------- */

typedef struct Layers {
    sn_tensor *w1, *b1, *w2, *b2;
    int runs;
} Layers;

static Layers layers_new(void) { return (Layers){LEAF(1, 8, 6), LEAF(2, 8), LEAF(3, 5, 8), LEAF(4, 5), 0}; }

static sn_tensor *forward(const Layers *m, sn_tensor *x) {
    sn_tensor *const h = sn_gelu(sn_layer_norm(sn_linear(x, m->w1, m->b1), SN_INTS(8), NULL, NULL));
    return sn_linear(h, m->w2, m->b2);
}

static sn_status loss_of(sn_frame *f) {
    return sn_out(f, 0, sn_cross_entropy(forward(sn_closure(f), sn_in(f, 0)), sn_in(f, 1)));
}

/* A region of its own in the body, a part of which is off. */
static sn_status regions_inside(sn_frame *f) {
    const Layers *const m = sn_closure(f);
    sn_autocast_set(SN_CPU, SN_BF16);
    sn_tensor *h = sn_linear(sn_in(f, 0), m->w1, m->b1);
    const sn_scope off = region(SN_F32);
    h = sn_keep(sn_matmul(sn_to(h, SN_F32), m->w1));
    sn_scope_end(off);
    sn_tensor *const y = sn_linear(sn_gelu(sn_linear(h, m->w1, m->b1)), m->w2, m->b2);
    sn_release(h);
    return sn_out(f, 0, sn_cross_entropy(y, sn_in(f, 1)));
}

/* Loss and all gradients. */
static void train_both(Twin twin, const Layers *fast, const Layers *slow, sn_dtype mode) {
    sn_tensor *const x = F32(9, 3, 6), *const target = sn_from_data((const int64_t[]){1, 4, 0}, SN_INTS(3), SN_I64);
    const sn_scope mark = region(mode);
    sn_tensor *const want = sn_keep(SN_CALL(twin.eager, x, target)), *const loss =
                                                                         sn_keep(SN_CALL(twin.fast, x, target));
    sn_scope_end(mark);
    ck_assert(same_bits(loss, want));
    ck_assert_int_eq(sn_backward(loss), SN_OK);
    ck_assert_int_eq(sn_backward(want), SN_OK);
    sn_tensor *const got[] = {fast->w1, fast->b1, fast->w2, fast->b2}, *const by[] = {slow->w1, slow->b1, slow->w2,
                                                                                      slow->b2};
    for (int i = 0; i < 4; i++) {
        is_dtype(sn_grad(got[i]), SN_F32);
        ck_assert_msg(same_bits(sn_grad(got[i]), sn_grad(by[i])), "gradient %d", i);
        sn_grad_set(got[i], NULL), sn_grad_set(by[i], NULL);
    }
    sn_release(loss), sn_release(want);
}

static void modes_alternate(sn_body body, const sn_compile_options *options) {
    static const sn_dtype modes[] = {SN_F32, SN_BF16, SN_BF16, SN_F32, SN_F16, SN_BF16, SN_F16, SN_F32, SN_BF16};
    Layers fast = layers_new(), slow = layers_new();
    const Twin twin = twin_new(body, &fast, &slow, options);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        train_both(twin, &fast, &slow, modes[i]);
        ck_assert(i < 5 || last_path() == SN_PATH_COMPILED);
    }
    twin_free(twin);
}

START_TEST(t8_compiled_training_has_eagers_bits_in_every_mode) {
    modes_alternate(loss_of, NULL);
    modes_alternate(regions_inside, NULL);
}
END_TEST

static sn_status infers(sn_frame *f) {
    Layers *const m = sn_closure(f);
    m->runs++;
    sn_tensor *const y = forward(m, sn_in(f, 0));
    const sn_scope off = region(SN_F32); /* of a part */
    sn_tensor *const z = sn_keep(sn_matmul(y, sn_to(m->w2, sn_dtype_of(y))));
    sn_scope_end(off);
    sn_out(f, 0, sn_exp(z));
    return sn_release(z), sn_check();
}

/* The mode is a guard: a call in another one runs the body, and never a program with other casts. */
START_TEST(t8_replay_follows_the_mode_of_its_call) {
    static const sn_dtype modes[] = {SN_BF16, SN_BF16, SN_BF16, SN_BF16, SN_F32, SN_F16, SN_F32, SN_F16, SN_BF16};
    Layers fast = layers_new(), slow = layers_new();
    const Twin twin = twin_new(infers, &fast, &slow, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .full_graph = true));
    sn_grad_mode_set(SN_GRAD_OFF);
    for (size_t i = 0; i < 3 * sizeof modes / sizeof *modes; i++) {
        const sn_scope mark = region(modes[i % (sizeof modes / sizeof *modes)]);
        TWIN_CALL(twin, F32(i, 3, 6));
        sn_scope_end(mark);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_msg(fast.runs < 12 && slow.runs == 27, "the body ran %d times", fast.runs);
    twin_free(twin);
}
END_TEST

typedef struct Runs {
    int n;
} Runs;

static sn_status counted(sn_frame *f) {
    ((Runs *)sn_closure(f))->n++;
    return sn_out(f, 0, sn_relu(sn_mm(sn_in(f, 0), sn_in(f, 1))));
}

START_TEST(t8_each_mode_is_learnt_once) {
    Runs fast = {0}, slow = {0};
    const Twin twin = twin_new(counted, &fast, &slow, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 12; i++) {
        const sn_scope mark = region(i % 2 ? SN_BF16 : SN_F32);
        is_dtype(TWIN_CALL(twin, F32((uint64_t)i, 3, 4), F32(50, 4, 2)), i % 2 ? SN_BF16 : SN_F32);
        sn_scope_end(mark);
    }
    ck_assert_int_le(fast.n, 6);
    ck_assert_int_eq(slow.n, 12);
    twin_free(twin);
}
END_TEST

/* A plan's cases have the mode that they were learnt in. */
START_TEST(t8_a_saved_plan_keeps_the_mode) {
    static const char path[] = "autocast_test.plan";
    Runs runs = {0};
    sn_tensor *const x = F32(1, 3, 4), *const w = F32(2, 4, 2);
    sn_function *const fn = sn_compile(counted, &runs, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    const sn_scope mark = region(SN_BF16);
    sn_tensor *const want = sn_keep(SN_CALL(fn, x, w));
    SN_CALL(fn, F32(3, 3, 4), F32(4, 4, 2));
    ck_assert_msg(sn_plan_save(fn, path, NULL) == SN_OK, "%s", sn_error_take()->message);
    sn_function *const plan = sn_plan_load(path, NULL);
    ck_assert_msg(plan != NULL, "%s", sn_error_take()->message);
    ck_assert(same_bits(SN_CALL(plan, x, w), want));
    is_dtype(want, SN_BF16);
    sn_scope_end(mark);
    ck_assert_ptr_null(SN_CALL(plan, x, w));
    expect_error(SN_ERR_ARGUMENT, "no case fits this call: autocast: cpu bf16, now off");
    sn_release(want);
    sn_function_free(plan);
    sn_function_free(fn);
    remove(path);
}
END_TEST

/* The casts that autocast makes, by hand. */
static sn_tensor *lower(sn_tensor *t) { return sn_to(t, SN_BF16); }
static sn_tensor *wide(sn_tensor *t) { return sn_to(t, SN_F32); }
static sn_status loss_by_hand(sn_frame *f) {
    const Layers *const m = sn_closure(f);
    sn_tensor *const h = sn_linear(lower(sn_in(f, 0)), lower(m->w1), lower(m->b1));
    sn_tensor *const g = sn_gelu(sn_layer_norm(wide(h), SN_INTS(8), NULL, NULL));
    sn_tensor *const y = sn_linear(lower(g), lower(m->w2), lower(m->b2));
    return sn_out(f, 0, sn_cross_entropy(wide(y), sn_in(f, 1)));
}

static int64_t kernels_of(sn_body body, Layers *m, sn_dtype mode, sn_tensor **loss) {
    sn_tensor *const x = F32(9, 3, 6), *const target = sn_from_data((const int64_t[]){1, 4, 0}, SN_INTS(3), SN_I64);
    sn_function *const fn = sn_compile(body, m, NULL);
    for (int i = 0; i < 3; i++) {
        const sn_scope mark = region(mode);
        sn_release(*loss);
        *loss = sn_keep(SN_CALL(fn, x, target));
        sn_scope_end(mark);
        ck_assert_int_eq(sn_backward(*loss), SN_OK);
    }
    const int64_t kernels = stats_of(fn).kernels;
    sn_function_free(fn);
    return kernels;
}

START_TEST(t8_autocast_adds_no_kernel_that_casts_by_hand_would_not_have) {
    Layers a = layers_new(), b = layers_new();
    sn_tensor *by_mode = NULL, *by_hand = NULL;
    const int64_t n = kernels_of(loss_of, &a, SN_BF16, &by_mode), m = kernels_of(loss_by_hand, &b, SN_F32, &by_hand);
    ck_assert_int_eq(n, m);
    ck_assert_int_gt(n, 0);
    ck_assert(same_bits(by_mode, by_hand));
    ck_assert(same_bits(sn_grad(a.w1), sn_grad(b.w1)));
    ck_assert(same_bits(sn_grad(a.b2), sn_grad(b.b2)));
    sn_release(by_mode), sn_release(by_hand);
}
END_TEST

/* T7, T8: callbacks --------------------------------------------------------------------------- */

static sn_dtype seen_forward, seen_backward, seen_hook;

static sn_status square_forward(sn_frame *f) {
    seen_forward = sn_autocast_get(SN_CPU);
    sn_save(f, sn_in(f, 0));
    return sn_out(f, 0, sn_mm(sn_in(f, 0), sn_in(f, 0)));
}

static sn_status square_backward(sn_frame *f) {
    seen_backward = sn_autocast_get(SN_CPU);
    sn_tensor *const g = sn_grad_of(f, 0), *const x = sn_saved(f, 0);
    sn_tensor *const left = sn_mm(g, sn_t(x)), *const right = sn_mm(sn_t(x), g); /* bf16 each, in the forward's mode */
    return sn_set_grad_of(f, 0, sn_to(sn_add(left, right), SN_F32));
}

static sn_status notes_mode(sn_frame *f) {
    seen_hook = sn_autocast_get(SN_CPU);
    return SN_OK;
}

static sn_status calls_square(sn_frame *f) {
    const sn_custom square = {
        .size = sizeof square, .name = "square", .forward = square_forward, .backward = square_backward};
    sn_tensor *const in[] = {sn_in(f, 0)};
    sn_tensor *y = NULL;
    sn_custom_call(&square, NULL, in, 1, &y, 1);
    return sn_out(f, 0, y);
}

static sn_tensor *gradient_of_square(sn_function *fn) {
    sn_tensor *const x = LEAF(1, 3, 3);
    const sn_scope mark = region(SN_BF16);
    sn_tensor *const y = sn_keep(SN_CALL(fn, x));
    sn_scope_end(mark);
    is_dtype(y, SN_BF16);
    sn_hook_add(y, notes_mode, NULL);
    sn_tensor *const ones = sn_ones(SN_INTS(3, 3), SN_BF16), *const roots[] = {y};
    const sn_scope other = region(SN_F16);
    ck_assert_int_eq(sn_backward_ex((sn_tensors){roots, 1}, SN_TENSORS(ones), 0), SN_OK);
    sn_scope_end(other);
    ck_assert_int_eq(seen_forward, SN_BF16);
    ck_assert_int_eq(seen_backward, SN_BF16);
    ck_assert_int_eq(seen_hook, SN_F16);
    sn_release(y);
    return sn_grad(x);
}

START_TEST(t8_a_custom_backward_has_its_forwards_mode_and_hooks_the_backwards) {
    const Twin twin = twin_new(calls_square, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(gradient_of_square(twin.eager), gradient_of_square(twin.fast)));
    twin_free(twin);
}
END_TEST

/* 4.04 ---------------------------------------------------------------------------------------- */

/* Two classes of points, by the sign of a sum of squares less its mean. */
static void make_points(sn_tensor **x, sn_tensor **target) {
    float points[64 * 6];
    int64_t classes[64];
    fill_floats(points, 64 * 6, 5);
    for (int i = 0; i < 64; i++) {
        float sum = 0;
        for (int k = 0; k < 6; k++) sum += points[6 * i + k] * points[6 * i + k];
        classes[i] = sum > 8;
    }
    *x = sn_from_data(points, SN_INTS(64, 6), SN_F32);
    *target = sn_from_data(classes, SN_INTS(64), SN_I64);
}

static sn_status in_bf16(sn_frame *f) {
    sn_autocast_set(SN_CPU, SN_BF16);
    return loss_of(f);
}

/* The losses of 150 steps. */
static void train(sn_function *fn, Layers *m, double *losses) {
    sn_dict *const params = sn_dict_new();
    sn_dict_set(params, "w1", m->w1), sn_dict_set(params, "b1", m->b1);
    sn_dict_set(params, "w2", m->w2), sn_dict_set(params, "b2", m->b2);
    sn_optim *const optim = sn_adamw(params, 0.02, 0);
    sn_tensor *x, *target;
    make_points(&x, &target);
    for (int i = 0; i < 150; i++) {
        const sn_scope mark = sn_scope_begin();
        sn_tensor *const loss = SN_CALL(fn, x, target);
        is_dtype(loss, SN_F32);
        ck_assert_int_eq(sn_backward(loss), SN_OK);
        ck_assert_int_eq(sn_optim_step(optim), SN_OK);
        sn_optim_zero_grad(optim);
        losses[i] = sn_item(loss);
        sn_scope_end(mark);
    }
    sn_optim_free(optim);
    sn_dict_free(params);
}

START_TEST(a4_04_a_loop_converges_in_bf16_without_a_scaler) {
    Layers fast = layers_new(), slow = layers_new();
    const Twin twin = twin_new(in_bf16, &fast, &slow, NULL);
    double got[150], want[150];
    train(twin.eager, &slow, want);
    train(twin.fast, &fast, got);
    for (int i = 0; i < 150; i++) ck_assert_msg(got[i] == want[i], "step %d: %g, not %g", i, got[i], want[i]);
    ck_assert_msg(want[0] > 0.5 && want[149] < 0.15 * want[0], "%g, then %g", want[0], want[149]);
    is_dtype(fast.w1, SN_F32);
    ck_assert(same_bits(fast.w2, slow.w2));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* 4.05 ---------------------------------------------------------------------------------------- */

static sn_dtype kernel_got, kernel_mode;

static sn_status product_kernel(sn_frame *f) {
    kernel_got = sn_dtype_of(sn_in(f, 0));
    kernel_mode = sn_autocast_get(SN_CPU);
    return sn_out(f, 0, sn_mm(sn_in(f, 0), sn_in(f, 1)));
}
static sn_status product_meta(sn_frame *f) {
    sn_tensor *const a = sn_in(f, 0);
    return sn_out(f, 0, sn_new_empty(a, SN_INTS(sn_size(a, 0), sn_size(sn_in(f, 1), 1))));
}

static const sn_op *product_op(const char *schema, sn_cast cast) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = schema, .flags = SN_OP_PURE, .meta = product_meta,
                                                      .cpu = product_kernel, .autocast = cast));
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    return op;
}

static sn_status call_product(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_in(f, 0)), sn_val(sn_in(f, 1))};
    return sn_out(f, 0, sn_op_call1(sn_closure(f), in, 2));
}

/* In a region of bf16 on a and b; `want`: what its kernel gets. */
static sn_tensor *custom_product(const sn_op *op, sn_tensor *a, sn_tensor *b, sn_dtype want) {
    const Twin twin = twin_new(call_product, (void *)(uintptr_t)op, (void *)(uintptr_t)op, NULL);
    sn_tensor *y = NULL;
    for (int i = 0; i < 3; i++) {
        const sn_scope mark = region(SN_BF16);
        sn_release(y);
        kernel_got = SN_BOOL;
        y = sn_keep(TWIN_CALL(twin, a, b));
        sn_scope_end(mark);
        ck_assert_int_eq(kernel_got, want);
        ck_assert_int_eq(kernel_mode, SN_F32);
        is_dtype(y, want);
    }
    twin_free(twin);
    return y;
}

START_TEST(a4_05_a_custom_op_has_its_policy) {
    sn_tensor *const x = F32(1, 3, 4), *const w = F32(2, 4, 2), *const low = sn_to(x, SN_BF16);
    const sn_op *const lowered = product_op("amp::lower(Tensor a, Tensor b) -> Tensor", SN_CAST_LOWER);
    const sn_op *const widened = product_op("amp::f32(Tensor a, Tensor b) -> Tensor", SN_CAST_F32);
    const sn_op *const widest = product_op("amp::promote(Tensor a, Tensor b) -> Tensor", SN_CAST_PROMOTE);
    const sn_op *const plain = product_op("amp::none(Tensor a, Tensor b) -> Tensor", SN_CAST_NONE);
    sn_tensor *const y[] = {custom_product(lowered, x, w, SN_BF16),
                            custom_product(widened, low, sn_to(w, SN_BF16), SN_F32),
                            custom_product(widest, low, w, SN_F32),
                            custom_product(widest, low, sn_to(w, SN_BF16), SN_BF16),
                            custom_product(plain, low, sn_to(w, SN_BF16), SN_BF16),
                            custom_product(plain, x, w, SN_F32)};
    ck_assert(same_bits(y[0], product_in_bf16(x, w)));
    ck_assert(same_bits(y[5], sn_mm(x, w)));
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) sn_release(y[i]);
}
END_TEST

START_TEST(a4_05_a_policy_that_cannot_be_is_refused) {
    ck_assert_ptr_null(sn_op_register(
        SN_OP_DESC(.schema = "amp::w_(Tensor(a!) x) -> Tensor(a!)", .cpu = product_kernel, .autocast = SN_CAST_LOWER)));
    expect_error(SN_ERR_ARGUMENT, "amp::w_: it writes an argument");
    ck_assert_ptr_null(sn_op_register(
        SN_OP_DESC(.schema = "amp::k(Tensor x) -> Tensor", .cpu = product_kernel, .autocast = (sn_cast)9)));
    expect_error(SN_ERR_ARGUMENT, "there is no autocast policy 9");
}
END_TEST

/* 1,024 products of 1: sums in bf16 stop at 256. */
START_TEST(a4_05_products_of_bf16_add_in_f32) {
    sn_tensor *const a = sn_ones(SN_INTS(1, 1024), SN_F32), *const b = sn_ones(SN_INTS(1024, 1), SN_F32);
    const sn_op *const lowered = product_op("amp::sum(Tensor a, Tensor b) -> Tensor", SN_CAST_LOWER);
    sn_tensor *const y = custom_product(lowered, a, b, SN_BF16);
    ck_assert_double_eq(sn_item(sn_sum(y)), 1024);
    sn_release(y);
    sn_function *const fn = sn_compile(matmul, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        const sn_scope mark = region(SN_BF16);
        sn_tensor *const eager = sn_matmul(a, b), *const compiled = SN_CALL(fn, a, b);
        is_dtype(compiled, SN_BF16);
        ck_assert_double_eq(sn_item(sn_sum(eager)), 1024);
        ck_assert_double_eq(sn_item(sn_sum(compiled)), 1024);
        sn_scope_end(mark);
    }
    sn_function_free(fn);
    sn_tensor *sum = sn_zeros(SN_INTS(1), SN_BF16);
    for (int i = 0; i < 1024; i++) sum = sn_add(sum, sn_ones(SN_INTS(1), SN_BF16));
    ck_assert_double_eq(sn_item(sn_sum(sum)), 256);
}
END_TEST

/* transforms ----------------------------------------------------------------------------------- */

static sn_status squares(sn_frame *f) { /* w is used twice */
    sn_tensor *const x = sn_unsqueeze(sn_in(f, 0), 0), *const w = sn_in(f, 1);
    return sn_out(f, 0, sn_sum(sn_mul(sn_linear(x, w, NULL), sn_tanh(sn_linear(x, w, NULL)))));
}
static sn_status of_w(sn_frame *f) {
    sn_tensor *g = NULL;
    sn_func_grad(squares, NULL, SN_FUNC_GRAD_OPTIONS(.argnums = SN_INTS(1)), SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &g,
                 1);
    return sn_out(f, 0, g);
}
static sn_status by_example(sn_frame *f) {
    sn_tensor *g = NULL;
    const sn_scope mark = region(SN_BF16);
    sn_vmap(of_w, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT)), SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &g, 1);
    sn_out(f, 0, g);
    sn_scope_end(mark);
    return sn_check();
}

/* What a body is given in a transform is a leaf there, but has no memory whose cast could be kept. */
START_TEST(t8_a_transform_in_a_region_has_the_tapes_gradients) {
    sn_tensor *const xs = sn_sub_scalar(F32(3, 3, 4), sn_float(0.5)), *const w = LEAF(4, 5, 4), *parts[3];
    for (int i = 0; i < 3; i++) {
        const sn_scope mark = region(SN_BF16);
        sn_tensor *out = NULL, *const in[] = {sn_select(xs, 0, i), w};
        sn_function *const fn = sn_compile(squares, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
        ck_assert_int_eq(sn_call(fn, in, 2, &out, 1), SN_OK);
        ck_assert_int_eq(sn_gradients(SN_TENSORS(out), SN_TENSORS(w), (sn_tensors){0}, 0, &parts[i]), SN_OK);
        sn_keep(parts[i]);
        sn_scope_end(mark);
        sn_function_free(fn);
    }
    sn_tensor *const want = sn_stack((sn_tensors){parts, 3}, 0);
    for (int mode = 0; mode < 2; mode++) {
        sn_function *const fn =
            sn_compile(by_example, NULL, SN_COMPILE_OPTIONS(.mode = mode ? SN_COMPILE_VERIFY : SN_COMPILE_EAGER));
        for (int call = 0; call < 3; call++) {
            sn_tensor *const got = SN_CALL(fn, xs, sn_detach(w));
            ck_assert_msg(got && same_bits(got, want), "%s", got ? sn_repr(got) : sn_error_take()->message);
        }
        sn_function_free(fn);
    }
    for (int i = 0; i < 3; i++) sn_release(parts[i]);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a2_16_matmul_under_autocast_and_no_grad,
        a2_16_the_same_compiled,
        a4_01_policies_print_and_hold,
        a4_02_a_weight_is_cast_once_per_region,
        a4_02_the_same_compiled,
        a4_04_a_loop_converges_in_bf16_without_a_scaler,
        a4_05_a_custom_op_has_its_policy,
        a4_05_a_policy_that_cannot_be_is_refused,
        a4_05_products_of_bf16_add_in_f32,
        t8_gradients_of_several_uses_add_in_f32,
        t8_what_was_written_since_is_cast_again,
        t8_what_a_weight_was_cast_to_is_made_again_where_it_was_written,
        t8_parts_of_a_region_keep_its_casts,
        t8_set_names_what_is_wrong,
        t8_what_writes_casts_nothing,
        t8_compiled_training_has_eagers_bits_in_every_mode,
        t8_replay_follows_the_mode_of_its_call,
        t8_each_mode_is_learnt_once,
        t8_a_saved_plan_keeps_the_mode,
        t8_autocast_adds_no_kernel_that_casts_by_hand_would_not_have,
        t8_a_custom_backward_has_its_forwards_mode_and_hooks_the_backwards,
        t8_a_transform_in_a_region_has_the_tapes_gradients,
    };
    return contract_main("autocast", tests, (int)(sizeof tests / sizeof *tests));
}
