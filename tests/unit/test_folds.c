/* test_folds.c: reductions, losses and norms, and their gradients, beside exact results [B9]: tests/oracle/folds.txt
 * (torch_folds.py) has numbers of moderate size and at both ends of the range. An error is counted in units of the last
 * place of the exact result, or of what its arguments add by their own size, where that is larger (the column SIZE).
 * It stays within the row's bound (gradients: that of
 * `folds`) and, where that is above 1, below the largest of PyTorch's. Compiled,
 * with eager's bits. */
#include <math.h>
#include <stdio.h>

#include "ir/loop.h"
#include "ir/op_ids.h"
#include "tests/unit/contract.h"

enum { N = 5, RESULTS = 2 * N };
static const double weights[N] = {1, -0.5, 0.25, 2, -1.25};

typedef sn_tensor *Run(sn_tensor *x, sn_tensor *y);
#define RUN(name, call)                                                                                                \
    static sn_tensor *run_##name(sn_tensor *x, sn_tensor *y) {                                                         \
        (void)y;                                                                                                       \
        return call;                                                                                                   \
    }
static const sn_ints none = {NULL, 0};

static sn_tensor *class_of(void) { return sn_from_data(&(int64_t){2}, none, SN_I64); }
static sn_tensor *column_normed(sn_tensor *x) {
    return sn_select(sn_batch_norm(sn_unsqueeze(x, 1), NULL, NULL, NULL, NULL, true, 0.1, 1e-5), 1, 0);
}
RUN(sum, sn_sum(x))
RUN(mean, sn_mean(x))
RUN(var, sn_var(x))
RUN(std, sn_std(x))
RUN(logsumexp, sn_logsumexp(x, SN_INTS(0), false))
RUN(softmax, sn_softmax(x, 0))
RUN(log_softmax, sn_log_softmax(x, 0))
RUN(norm_1, sn_linalg_vector_norm(x, sn_int(1), none, false))
RUN(norm_2, sn_linalg_vector_norm(x, sn_int(2), none, false))
RUN(norm_3, sn_linalg_vector_norm(x, sn_int(3), none, false))
RUN(norm_half, sn_linalg_vector_norm(x, sn_float(0.5), none, false))
RUN(cosine_similarity, sn_cosine_similarity(x, y, 0, 0))
RUN(mse_loss, sn_mse_loss(x, y))
RUN(l1_loss, sn_l1_loss(x, y))
RUN(smooth_l1_loss, sn_smooth_l1_loss(x, y, 1, 0.5))
RUN(huber_loss, sn_huber_loss(x, y, 1, 0.5))
RUN(soft_margin_loss, sn_soft_margin_loss(x, y))
RUN(binary_cross_entropy, sn_binary_cross_entropy(x, y))
RUN(with_logits, sn_binary_cross_entropy_with_logits(x, y))
RUN(cross_entropy, sn_cross_entropy(x, class_of()))
RUN(layer_norm, sn_layer_norm_ex(x, SN_INTS(N), NULL, NULL, 1e-5, true))
RUN(rms_norm, sn_rms_norm(x, SN_INTS(N), NULL, sn_float(1e-5)))
RUN(batch_norm, column_normed(x))

typedef struct Fold {
    const char *name;
    Run *run;
    OpId id;           /* whose bound (ir/ops/bounds.def) the results have */
    double slope_ulps; /* of gradients */
} Fold;
static const Fold folds[] = {
#define FOLD(name, id, slope_ulps)                                                                                     \
    { #name, run_##name, OP_##id, slope_ulps }
    FOLD(sum, sum, 1),
    FOLD(mean, mean, 1),
    FOLD(var, var_correction, 2),
    FOLD(std, std_correction, 2),
    FOLD(logsumexp, logsumexp, 2),
    FOLD(softmax, _softmax, 2),
    FOLD(log_softmax, _log_softmax, 2),
    FOLD(norm_1, linalg_vector_norm, 1),
    FOLD(norm_2, linalg_vector_norm, 2),
    FOLD(norm_3, linalg_vector_norm, 3),
    FOLD(norm_half, linalg_vector_norm, 3),
    FOLD(cosine_similarity, cosine_similarity, 3),
    FOLD(mse_loss, mse_loss, 2),
    FOLD(l1_loss, l1_loss, 1),
    FOLD(smooth_l1_loss, smooth_l1_loss, 2),
    FOLD(huber_loss, huber_loss, 2),
    FOLD(soft_margin_loss, soft_margin_loss, 2),
    FOLD(binary_cross_entropy, binary_cross_entropy, 2),
    FOLD(with_logits, binary_cross_entropy_with_logits, 3),
    FOLD(cross_entropy, cross_entropy_loss, 2),
    FOLD(layer_norm, native_layer_norm, 6),
    FOLD(rms_norm, _fused_rms_norm, 4),
    FOLD(batch_norm, batch_norm, 6),
#undef FOLD
};

/* What is further off than PyTorch's by some roundings: sums of more terms (gradients), a rounded rstd. Nothing else
 * may be. */
static const struct {
    const char *name;
    sn_dtype dtype;
    int part;
    double ulps;
} behind[] = {{"with_logits", SN_F32, 1, 2.2},
              {"rms_norm", SN_F64, 1, 2.3},
              {"batch_norm", SN_F32, 0, 1.8},
              {"batch_norm", SN_F64, 0, 1.2},
              {"batch_norm", SN_F32, 1, 4.9}};

static double allowed(const Fold *fold, sn_dtype dtype, int part, double torch) {
    for (int i = 0; i < COUNT_OF(behind); i++)
        if (!strcmp(behind[i].name, fold->name) && behind[i].dtype == dtype && behind[i].part == part)
            return behind[i].ulps;
    return fmax(1, torch * 1.01); /* recorded with 3 digits */
}

/* One line of the file. */
typedef struct Case {
    char name[32];
    sn_dtype dtype;
    double x[N], y[N];
    int m;
    long double exact[RESULTS], size[RESULTS]; /* m results, then the gradient */
    double torch[2];
} Case;

static long double next_number(FILE *file) {
    char word[64];
    ck_assert_int_eq(fscanf(file, "%63s", word), 1);
    return strtold(word, NULL);
}
static void read_numbers(FILE *file, int n, long double *out) {
    for (int i = 0; i < n; i++) out[i] = next_number(file);
}

static bool read_case(FILE *file, Case *c) {
    char dtype[8];
    int n;
    if (fscanf(file, "%31s %7s %d", c->name, dtype, &n) != 3) return false;
    ck_assert_int_eq(n, N);
    c->dtype = !strcmp(dtype, "f32") ? SN_F32 : SN_F64;
    for (int i = 0; i < N; i++) c->x[i] = (double)next_number(file);
    for (int i = 0; i < N; i++) c->y[i] = (double)next_number(file);
    ck_assert_int_eq(fscanf(file, "%d", &c->m), 1);
    read_numbers(file, c->m, c->exact);
    read_numbers(file, c->m, c->size);
    read_numbers(file, N, c->exact + c->m);
    read_numbers(file, N, c->size + c->m);
    for (int i = 0; i < 2; i++) c->torch[i] = (double)next_number(file);
    return true;
}

/* In units of the last place of the larger of exact and size, as torch_folds.py has it. */
static double error_of(sn_dtype dtype, double got, long double exact, long double size) {
    const SType type = dtype == SN_F32 ? S_f32 : S_f64;
    const int most = type == S_f32 ? 128 : 1024, least = type == S_f32 ? -149 : -1074, digits = type == S_f32 ? 24 : 53;
    if (isnan(got)) return 1e30;
    const long double beyond = ldexpl(1, most), held = fmaxl(-beyond, fminl(beyond, exact));
    const long double given = isinf(got) ? copysignl(beyond, got) : got;
    int exponent = least + digits;
    const long double large = fminl(fmaxl(fabsl(exact), size), beyond / 2);
    if (large > 0) frexpl(large, &exponent);
    const int place = exponent - digits > least ? exponent - digits : least;
    return (double)ldexpl(fabsl(given - held), -place);
}

static sn_tensor *numbers(const double *values, sn_dtype dtype) {
    return sn_to(sn_from_data(values, SN_INTS(N), SN_F64), dtype);
}

static sn_status body(sn_frame *frame) {
    const Fold *const fold = sn_closure(frame);
    return sn_out(frame, 0, fold->run(sn_in(frame, 0), sn_in(frame, 1)));
}

/* Results and gradient, as f64. */
static void take(const Case *c, sn_tensor *x, sn_tensor *y, double *out) {
    sn_tensor *const flat = sn_reshape(y, SN_INTS(-1)), *const w = sn_slice(numbers(weights, c->dtype), 0, 0, c->m, 1);
    sn_tensor *slope = NULL;
    sn_gradients((sn_tensors){&flat, 1}, (sn_tensors){&x, 1}, (sn_tensors){&w, 1}, 0, &slope);
    ck_assert_msg(slope && !sn_check(), "%s: %s", c->name, sn_check() ? sn_error_take()->message : "no gradient");
    sn_read(sn_to(flat, SN_F64), out, (size_t)c->m * sizeof *out);
    sn_read(sn_to(slope, SN_F64), out + c->m, N * sizeof *out);
}

/* Eagerly and by a compiled function, which give the same bits. */
static void run_case(const Case *c, const Fold *fold, sn_function *fn, double *out) {
    double compiled[RESULTS];
    sn_tensor *const x = sn_requires_grad_(numbers(c->x, c->dtype), true), *const y = numbers(c->y, c->dtype);
    take(c, x, fold->run(x, y), out);
    for (int i = 0; i < 2; i++) {
        take(c, x, sn_call1(fn, SN_TENSORS(x, y)), compiled);
        for (int k = 0; k < c->m + N; k++)
            ck_assert_msg(out[k] == compiled[k] || (isnan(out[k]) && isnan(compiled[k])), "%s: %d: %a, compiled %a",
                          c->name, k, out[k], compiled[k]);
    }
}

/* A gradient that is made of a denormal result has no more digits than that. */
static double digits_lost(const Case *c) {
    int exponent = 0;
    const int first = c->dtype == SN_F32 ? -149 + 24 : -1074 + 53;
    if (c->m > 1 || c->exact[0] == 0) return 0;
    frexpl(c->exact[0], &exponent);
    return exponent < first ? first - exponent : 0;
}

typedef struct Worst { /* of results and of gradients */
    double ours[2], torch[2];
    Case at[2];
} Worst;

static void note_errors(const Case *c, const double *out, Worst *worst) {
    for (int k = 0; k < c->m + N; k++) {
        const int part = k >= c->m;
        const double ulps = error_of(c->dtype, out[k], c->exact[k], c->size[k]) * (part ? exp2(-digits_lost(c)) : 1);
        if (ulps > worst->ours[part]) worst->ours[part] = ulps, worst->at[part] = *c;
    }
    for (int part = 0; part < 2; part++) worst->torch[part] = fmax(worst->torch[part], c->torch[part]);
}

static void expect_bounds(const Fold *fold, sn_dtype dtype, const Worst *worst) {
    const double bounds[2] = {op_row(fold->id)->bound.ulps, fold->slope_ulps};
    for (int part = 0; part < 2; part++) {
        const double *const x = worst->at[part].x;
        const double most = fmin(bounds[part], allowed(fold, dtype, part, worst->torch[part]));
        ck_assert_msg(worst->ours[part] <= most, "%s%s of %s: %.3g ulp, PyTorch %.3g, bound %g, at %a %a %a %a %a",
                      part ? "gradient of " : "", fold->name, dtype == SN_F32 ? "f32" : "f64", worst->ours[part],
                      worst->torch[part], bounds[part], x[0], x[1], x[2], x[3], x[4]);
    }
}

START_TEST(folds_are_within_their_bounds_and_no_worse_than_pytorch) {
    const Fold *const fold = &folds[_i];
    FILE *const file = fopen(SINTER_ORACLE "/folds.txt", "r");
    ck_assert_ptr_nonnull(file);
    Worst worst[2] = {{{0}}};
    int n = 0;
    sn_function *const fn = sn_compile(body, (void *)fold, NULL);
    for (Case c; read_case(file, &c);) {
        if (strcmp(c.name, fold->name)) continue;
        const sn_scope scope = sn_scope_begin();
        double out[RESULTS];
        run_case(&c, fold, fn, out);
        note_errors(&c, out, &worst[c.dtype == SN_F64]);
        sn_scope_end(scope);
        n++;
    }
    fclose(file);
    sn_function_free(fn);
    ck_assert_int_ge(n, 8);
    expect_bounds(fold, SN_F32, &worst[0]);
    expect_bounds(fold, SN_F64, &worst[1]);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("folds");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, folds_are_within_their_bounds_and_no_worse_than_pytorch, 0, COUNT_OF(folds));
    return suite_run("folds", tests);
}
