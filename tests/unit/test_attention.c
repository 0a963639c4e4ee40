/* test_attention.c: sn::attention and its backward, bit for bit against the rule [B2.14] written out element by
 * element: chains of fma over width, keys and queries, cut every 4,096, sums in 64 lanes and chunks of 1,024, keys left
 * out. At every instruction set, with one thread and two; then training through scaled_dot_product_attention, compiled
 * as eager, and its memory. */
#include <sinter/ops.h>
#include <stdio.h>

#include "ir/op_ids.h"
#include "ir/order.h"
#include "kernels/kernels.h"
#include "ir/loop.h"
#include "runtime/core/dispatch.h"
#include "runtime/core/pool.h"
#include "tests/unit/contract.h"

typedef enum MaskKind { NO_MASK, CAUSAL, BOOLS, BOOL_ROW, ADDED, ADDED_ROW, CAUSAL_BOOLS } MaskKind;
typedef enum LayoutKind {
    PLAIN,
    HEADS_INSIDE,
    STEPS
} LayoutKind; /* [b,h,t,d]; [b,t,h,d] turned; every second element */

typedef struct Case {
    int64_t batch, heads, kept, rows, keys, width, value_width; /* kept: heads of key */
    MaskKind mask;
    LayoutKind layout;
    sn_dtype dtype;
    bool special; /* numbers that are not finite, rows without keys */
} Case;

/* the rule in plain numbers: doubles that hold the type's ------------------------------------------------------ */

static bool wide; /* f64 */

static double rounded(double x) { return wide ? x : (double)(float)x; }
static double plus(double x, double y) { return wide ? x + y : (double)((float)x + (float)y); }
static double minus(double x, double y) { return wide ? x - y : (double)((float)x - (float)y); }
static double times(double x, double y) { return wide ? x * y : (double)((float)x * (float)y); }
static double over(double x, double y) { return wide ? x / y : (double)((float)x / (float)y); }
static double chained(double x, double y, double sum) {
    return wide ? fma(x, y, sum) : (double)fmaf((float)x, (float)y, (float)sum);
}
static double exponential(double x) {
    double out64;
    float in = (float)x, out;
    const SType type = wide ? S_f64 : S_f32;
    kernel_table()->prim(PRIM_exp, type)(wide ? (void *)&out64 : &out, wide ? (void *)&x : &in, NULL, NULL, 1);
    return wide ? out64 : (double)out;
}

/* A chain that is cut: the first chunk's sum stands, later ones are added. */
typedef struct Chain {
    double total, sum;
    int64_t n;
} Chain;
static void chain_cut(Chain *c) {
    c->total = c->n > 0 ? plus(c->total, c->sum) : c->sum;
    c->sum = 0, c->n++;
}
static double chain_end(Chain *c) { return chain_cut(c), c->total; }

static double sum_L(const double *x, int64_t n) {
    if (n <= CHUNK_L) {
        double lanes[LANES_L] = {0};
        for (int64_t i = 0; i < n; i++) lanes[i % LANES_L] = plus(lanes[i % LANES_L], x[i]);
        for (int apart = 1; apart < LANES_L; apart *= 2)
            for (int k = 0; k < LANES_L; k += 2 * apart) lanes[k] = plus(lanes[k], lanes[k + apart]);
        return lanes[0];
    }
    const int64_t chunks = (n + CHUNK_L - 1) / CHUNK_L;
    double *const sums = malloc((size_t)chunks * sizeof *sums);
    for (int64_t i = 0; i < chunks; i++) sums[i] = sum_L(x + i * CHUNK_L, i + 1 < chunks ? CHUNK_L : n - i * CHUNK_L);
    const double sum = sum_L(sums, chunks);
    free(sums);
    return sum;
}

typedef struct Rule {
    const Case *c;
    double *query, *key, *value, *mask, *grad;                    /* row-major; mask: [b,h,t,s] or NULL */
    double *out, *max, *sum, *query_grad, *key_grad, *value_grad; /* what the rule gives */
    double *p, *ds;                                               /* [b,h,t,s] */
} Rule;

static int64_t heads_of(const Case *c) { return c->batch * c->heads; }
static int64_t kept_of(const Case *c, int64_t head) {
    return head / c->heads * c->kept + head % c->heads / (c->heads / c->kept);
}
static bool is_causal(const Case *c) { return c->mask == CAUSAL || c->mask == CAUSAL_BOOLS; }
static int64_t limit_of(const Case *c, int64_t t) { return is_causal(c) && t + 1 < c->keys ? t + 1 : c->keys; }

static double product(const double *x, const double *y, int64_t n) {
    Chain chain = {0};
    for (int64_t i = 0; i < n; i++) {
        if (i && i % 4096 == 0) chain_cut(&chain);
        chain.sum = chained(x[i], y[i], chain.sum);
    }
    return chain_end(&chain);
}

static double larger(double x, double y) { return isnan(x) ? x : isnan(y) || y > x ? y : x; }

static void rule_scores(Rule *r, int64_t head, int64_t t, double *s) {
    const Case *const c = r->c;
    const double scale = rounded(1 / sqrt((double)c->width));
    const double *const keys = r->key + kept_of(c, head) * c->keys * c->width;
    for (int64_t j = 0; j < limit_of(c, t); j++) {
        s[j] = times(product(r->query + (head * c->rows + t) * c->width, keys + j * c->width, c->width), scale);
        if (!r->mask) continue;
        const double by = r->mask[(head * c->rows + t) * c->keys + j];
        s[j] = c->mask == ADDED || c->mask == ADDED_ROW ? plus(s[j], by) : by != 0 ? s[j] : -INFINITY;
    }
}

static void rule_row(Rule *r, int64_t head, int64_t t) {
    const Case *const c = r->c;
    const int64_t row = head * c->rows + t, n = limit_of(c, t);
    double *const p = r->p + row * c->keys, max = -INFINITY;
    const double *const values = r->value + kept_of(c, head) * c->keys * c->value_width;
    rule_scores(r, head, t, p);
    for (int64_t j = 0; j < n; j++) max = larger(max, p[j]);
    const bool nothing = max == -INFINITY;
    for (int64_t j = 0; j < n; j++) p[j] = nothing ? 0 : exponential(minus(p[j], max));
    r->max[row] = max, r->sum[row] = sum_L(p, n);
    for (int64_t j = 0; j < n && !nothing; j++) p[j] = over(p[j], r->sum[row]);
    for (int64_t i = 0; i < c->value_width; i++) {
        Chain chain = {0};
        for (int64_t j = 0; j < n && !nothing; j++) {
            if (j && j % 4096 == 0) chain_cut(&chain);
            chain.sum = chained(p[j], values[j * c->value_width + i], chain.sum);
        }
        r->out[row * c->value_width + i] = plus(chain_end(&chain), 0);
    }
}

static void rule_slopes(Rule *r, int64_t head, int64_t t) {
    const Case *const c = r->c;
    const int64_t row = head * c->rows + t, n = limit_of(c, t);
    double *const ds = r->ds + row * c->keys, *const p = r->p + row * c->keys;
    double *const products = malloc((size_t)(n + 1) * sizeof *products);
    const double *const values = r->value + kept_of(c, head) * c->keys * c->value_width;
    const double *const keys = r->key + kept_of(c, head) * c->keys * c->width;
    for (int64_t j = 0; j < n; j++) {
        ds[j] = product(r->grad + row * c->value_width, values + j * c->value_width, c->value_width);
        products[j] = times(p[j], ds[j]);
    }
    const double whole = sum_L(products, n);
    for (int64_t j = 0; j < n; j++)
        ds[j] = times(times(minus(ds[j], whole), p[j]), rounded(1 / sqrt((double)c->width)));
    for (int64_t i = 0; i < c->width; i++) {
        Chain chain = {0};
        for (int64_t j = 0; j < n; j++) {
            if (j && j % 4096 == 0) chain_cut(&chain);
            chain.sum = chained(ds[j], keys[j * c->width + i], chain.sum);
        }
        r->query_grad[row * c->width + i] = plus(chain_end(&chain), 0);
    }
    free(products);
}

/* Over the queries of a group's heads that have the key: sum of by[t][j] rows[t][i] */
static double rule_key_sum(const Rule *r, int64_t kept, int64_t j, const double *by, const double *rows, int64_t width,
                           int64_t i) {
    const Case *const c = r->c;
    const int64_t group = c->heads / c->kept, first = kept / c->kept * c->heads + kept % c->kept * group;
    Chain chain = {0};
    for (int64_t g = 0; g < group; g++)
        for (int64_t t = 0; t < c->rows; t++) {
            const int64_t row = (first + g) * c->rows + t;
            if ((g || t) && t % 4096 == 0) chain_cut(&chain);
            if (j < limit_of(c, t)) chain.sum = chained(rows[row * width + i], by[row * c->keys + j], chain.sum);
        }
    return plus(chain_end(&chain), 0);
}

static void rule_keys(Rule *r) {
    const Case *const c = r->c;
    for (int64_t kept = 0; kept < c->batch * c->kept; kept++)
        for (int64_t j = 0; j < c->keys; j++) {
            for (int64_t i = 0; i < c->width; i++)
                r->key_grad[(kept * c->keys + j) * c->width + i] =
                    rule_key_sum(r, kept, j, r->ds, r->query, c->width, i);
            for (int64_t i = 0; i < c->value_width; i++)
                r->value_grad[(kept * c->keys + j) * c->value_width + i] =
                    rule_key_sum(r, kept, j, r->p, r->grad, c->value_width, i);
        }
}

/* inputs --------------------------------------------------------------------------------------------------------- */

/* [b, h, n, d] in the case's layout. */
static sn_tensor *laid_out(const Case *c, uint64_t seed, int64_t heads, int64_t n, int64_t d) {
    const sn_ints plain = SN_INTS(c->batch, heads, n, d), inside = SN_INTS(c->batch, n, heads, d);
    const sn_ints steps = SN_INTS(c->batch, heads, n, 2 * d);
    sn_tensor *x = make_f32(c->layout == PLAIN ? plain : c->layout == STEPS ? steps : inside, seed);
    if (c->special && n > 2 && d > 1) { /* behind the first rows' keys, and -0 */
        sn_tensor *const last = sn_select(sn_narrow(x, c->layout == HEADS_INSIDE ? 1 : 2, n - 1, 1), 3, 0);
        sn_fill_(last, sn_float(seed % 2 ? INFINITY : NAN));
        sn_fill_(sn_select(x, 3, 1), sn_float(-0.0));
    }
    x = sn_to(x, c->dtype);
    if (c->layout == HEADS_INSIDE) x = sn_transpose(x, 1, 2);
    return c->layout == STEPS ? sn_slice(x, 3, 0, 2 * d, 2) : x;
}

static sn_tensor *make_mask(const Case *c) {
    if (c->mask == NO_MASK || c->mask == CAUSAL) return NULL;
    const bool row = c->mask == BOOL_ROW || c->mask == ADDED_ROW;
    sn_tensor *x = row ? F32(9, c->batch, 1, 1, c->keys) : F32(9, c->heads, c->rows, c->keys);
    if (c->mask == ADDED || c->mask == ADDED_ROW) {
        x = sn_where(sn_gt_scalar(x, sn_float(-1.5)), x, sn_full(SN_INTS(), sn_float(-INFINITY), SN_F32));
        if (c->special) x = sn_mul(x, sn_full(SN_INTS(), sn_float(1), SN_F32));
        return sn_to(x, c->dtype);
    }
    sn_tensor *const kept = sn_gt_scalar(x, sn_float(-1));
    if (c->special && !row) sn_fill_(sn_select(kept, 1, 0), sn_bool(false)); /* the first query has no key */
    return kept;
}

static double *numbers_of(sn_tensor *t) {
    sn_tensor *const x = sn_contiguous(sn_to(t, SN_F64));
    double *const at = malloc((size_t)(sn_numel(x) + 1) * sizeof *at);
    ck_assert_int_eq(sn_read(x, at, (size_t)sn_numel(x) * sizeof *at), SN_OK);
    return at;
}

static double *room(int64_t n) { return calloc((size_t)(n + 1), sizeof(double)); }

/* Each as the dtype holds it. */
static void expect_numbers(const Case *c, const char *what, sn_tensor *got, const double *want) {
    sn_tensor *const rounded_want =
        sn_to(sn_from_data(want, sn_sizes(got), SN_F64), sn_dtype_of(got) == SN_F64 ? SN_F64 : SN_F32);
    sn_tensor *const expected = sn_to(rounded_want, sn_dtype_of(got));
    const sn_dtype shown = sn_dtype_of(got) == SN_F64 ? SN_F64 : SN_F32; /* in which NaN is known */
    ck_assert_msg(
        same_bits(sn_to(sn_contiguous(got), shown), sn_to(expected, shown)),
        "%s differs at %s with %d threads: %ld, %ld of %ld heads, %ld x %ld, %ld %ld, mask %d layout %d dtype %d "
        "special %d",
        what, isa_name(isa_used()), pool_threads(), (long)c->batch, (long)c->kept, (long)c->heads, (long)c->rows,
        (long)c->keys, (long)c->width, (long)c->value_width, c->mask, c->layout, c->dtype, c->special);
}

/* the op --------------------------------------------------------------------------------------------------------- */

static void run_op(const Case *c, const Rule *r, sn_tensor *const *in, sn_tensor *mask, sn_tensor *grad) {
    const Arg none = A_NONE, by = mask ? A_VAL(&mask->base) : none;
    const Arg args[] = {A_VAL(&in[0]->base), A_VAL(&in[1]->base), A_VAL(&in[2]->base), by, A_BOOL(is_causal(c)), none};
    Val *outs[3], *grads[3];
    ck_assert_int_eq(emit(eager_builder(), OP_attention, args, 6, outs), ST_OK);
    expect_numbers(c, "out", tensor_of(outs[0]), r->out);
    expect_numbers(c, "max", tensor_of(outs[1]), r->max);
    expect_numbers(c, "sum", tensor_of(outs[2]), r->sum);
    const Arg back[] = {A_VAL(&grad->base), args[0], args[1], args[2], A_VAL(outs[1]),
                        A_VAL(outs[2]),     by,      args[4], none};
    ck_assert_int_eq(emit(eager_builder(), OP_attention_backward, back, 9, grads), ST_OK);
    expect_numbers(c, "the gradient of query", tensor_of(grads[0]), r->query_grad);
    expect_numbers(c, "the gradient of key", tensor_of(grads[1]), r->key_grad);
    expect_numbers(c, "the gradient of value", tensor_of(grads[2]), r->value_grad);
}

static void check_case(const Case *c) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const in[] = {laid_out(c, 1, c->heads, c->rows, c->width), laid_out(c, 2, c->kept, c->keys, c->width),
                             laid_out(c, 3, c->kept, c->keys, c->value_width)};
    sn_tensor *const mask = make_mask(c), *const grad = laid_out(c, 4, c->heads, c->rows, c->value_width);
    const int64_t scores = heads_of(c) * c->rows * c->keys;
    wide = c->dtype == SN_F64;
    Rule r = {.c = c,
              .query = numbers_of(in[0]),
              .key = numbers_of(in[1]),
              .value = numbers_of(in[2]),
              .grad = numbers_of(grad),
              .p = room(scores),
              .ds = room(scores)};
    if (mask) r.mask = numbers_of(sn_expand(mask, SN_INTS(c->batch, c->heads, c->rows, c->keys)));
    r.out = room(sn_numel(grad)), r.query_grad = room(sn_numel(in[0])), r.key_grad = room(sn_numel(in[1]));
    r.value_grad = room(sn_numel(in[2])), r.max = room(heads_of(c) * c->rows), r.sum = room(heads_of(c) * c->rows);
    for (int64_t i = 0; i < heads_of(c) * c->rows; i++) {
        rule_row(&r, i / c->rows, i % c->rows);
        rule_slopes(&r, i / c->rows, i % c->rows);
    }
    rule_keys(&r);
    for (int threads = 1; threads <= 2; threads++) {
        pool_threads_set(threads);
        for (int isa = 0; isa <= (int)isa_host(); isa++) {
            isa_force(isa);
            run_op(c, &r, in, mask, grad);
        }
    }
    isa_force(-1);
    pool_threads_set(1);
    double *const owned[] = {r.query, r.key,        r.value,    r.grad,       r.p,   r.ds, r.mask,
                             r.out,   r.query_grad, r.key_grad, r.value_grad, r.max, r.sum};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
    sn_scope_end(scope);
}

START_TEST(every_mask_layout_and_dtype_follows_the_rule) {
    static const sn_dtype dtypes[] = {SN_F32, SN_F64, SN_BF16, SN_F16};
    for (int mask = NO_MASK; mask <= CAUSAL_BOOLS; mask++)
        for (int layout = PLAIN; layout <= STEPS; layout++)
            for (int d = 0; d < 4; d++)
                for (int special = 0; special < 2; special++) {
                    check_case(&(Case){2, 4, 2, 13, 17, 9, 5, (MaskKind)mask, (LayoutKind)layout, dtypes[d], special});
                    check_case(
                        &(Case){1, 2, 2, 70, 70, 16, 64, (MaskKind)mask, (LayoutKind)layout, dtypes[d], special});
                }
}
END_TEST

START_TEST(sizes_of_one_and_none_follow_the_rule) {
    static const int64_t sizes[] = {0, 1, 2, 65};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int mask = NO_MASK; mask <= BOOLS; mask++)
                check_case(&(Case){1, 3, 3, sizes[i], sizes[j], j == 1 ? 1 : 7, i == 1 ? 1 : 16, (MaskKind)mask, PLAIN,
                                   SN_F32, false});
    check_case(&(Case){1, 6, 2, 1, 300, 8, 16, CAUSAL, HEADS_INSIDE, SN_F32, false});
    check_case(&(Case){3, 6, 2, 1, 300, 8, 16, BOOL_ROW, HEADS_INSIDE, SN_F32, false});
    check_case(&(Case){1, 1, 1, 3, 3, 4100, 3, CAUSAL, PLAIN, SN_F32, false}); /* a chain over width that is cut */
    check_case(&(Case){1, 1, 1, 3, 3, 3, 4100, CAUSAL, PLAIN, SN_F32, false});
}
END_TEST

START_TEST(chains_and_sums_are_cut_where_the_rule_says) {
    check_case(&(Case){1, 1, 1, 1200, 1200, 4, 3, CAUSAL, PLAIN, SN_F32, false});
    check_case(&(Case){1, 2, 1, 40, 2100, 4, 16, NO_MASK, HEADS_INSIDE, SN_F32, true});
    check_case(&(Case){1, 2, 1, 7, 4200, 5, 16, BOOLS, PLAIN, SN_F32, false});
    check_case(&(Case){1, 2, 1, 1, 9000, 5, 3, NO_MASK, PLAIN, SN_F64, false});
    check_case(&(Case){1, 2, 1, 4200, 5, 3, 4, NO_MASK, PLAIN, SN_F32, false});
    check_case(&(Case){1, 2, 1, 8200, 7, 3, 2, CAUSAL, PLAIN, SN_F32, false});
    check_case(&(Case){1, 1, 1, 4300, 4300, 1, 1, CAUSAL, PLAIN, SN_F32, false});
}
END_TEST

/* A row of the mask is read in the compute type: integers and f64 beside f32 are refused. */
START_TEST(masks_of_other_dtypes_are_refused) {
    static const sn_dtype wrong[] = {SN_I64, SN_I32, SN_U8, SN_F64, SN_BF16};
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = F32(1, 2, 5, 8), *const mask = F32(2, 5, 5);
    const Arg none = A_NONE, of = A_VAL(&x->base);
    Val *outs[3];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const Arg args[] = {of, of, of, A_VAL(&sn_to(mask, wrong[i])->base), A_BOOL(false), none};
        ck_assert_int_eq(emit(eager_builder(), OP_attention, args, 6, outs), ST_DTYPE);
        ck_assert(strstr(sn_error_take()->message, "attn_mask must be bool or f32, not"));
    }
    sn_scope_end(scope);
}
END_TEST

/* the public op -------------------------------------------------------------------------------------------------- */

typedef struct Trained {
    bool causal, masked, grouped;
} Trained;

static sn_status trained_step(sn_frame *f) {
    const Trained *const by = sn_closure(f);
    sn_tensor *const out =
        sn_scaled_dot_product_attention_ex(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2), by->masked ? sn_in(f, 3) : NULL, 0,
                                           by->causal, (sn_value){0}, by->grouped);
    return sn_out(f, 0, sn_sum(sn_mul(out, out)));
}

static void train_both(Trained *by, int64_t heads, int64_t kept) {
    const Twin twin = twin_new(trained_step, by, by, NULL);
    for (int step = 0; step < 3; step++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *fast[4], *eager[4];
        const int n = by->masked ? 4 : 3;
        for (int side = 0; side < 2; side++) {
            sn_tensor **const in = side ? eager : fast;
            in[0] = LEAF(1, 2, heads, 33, 8), in[1] = LEAF(2, 2, kept, 33, 8), in[2] = LEAF(3, 2, kept, 33, 8);
            in[3] = LEAF(4, heads, 33, 33);
        }
        sn_tensor *const got = sn_call1(twin.fast, (sn_tensors){fast, n});
        sn_tensor *const want = sn_call1(twin.eager, (sn_tensors){eager, n});
        ck_assert(same_bits(got, want));
        ck_assert_int_eq(sn_backward(got), SN_OK);
        ck_assert_int_eq(sn_backward(want), SN_OK);
        for (int i = 0; i < n; i++) ck_assert_msg(same_bits(sn_grad(fast[i]), sn_grad(eager[i])), "gradient %d", i);
        sn_scope_end(scope);
    }
    twin_free(twin);
}

START_TEST(compiled_training_has_eager_bits) {
    train_both(&(Trained){.causal = true}, 3, 3);
    train_both(&(Trained){.causal = true, .grouped = true}, 6, 2);
    train_both(&(Trained){.masked = true}, 3, 3);
    train_both(&(Trained){.masked = true, .grouped = true}, 4, 1);
}
END_TEST

static sn_memory memory_now(void) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(SN_CPU, &memory);
    return memory;
}

/* What a forward and backward take at most, beyond their inputs: of n queries and keys. */
static int64_t peak_of(int64_t n) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const q = LEAF(1, 1, 1, n, 8), *const k = LEAF(2, 1, 1, n, 8), *const v = LEAF(3, 1, 1, n, 8);
    sn_memory_trim(SN_CPU);
    sn_memory_reset_peak(SN_CPU);
    const int64_t before = memory_now().current;
    sn_tensor *const out = sn_scaled_dot_product_attention_ex(q, k, v, NULL, 0, true, (sn_value){0}, false);
    ck_assert_int_eq(sn_backward(sn_sum(out)), SN_OK);
    const int64_t peak = memory_now().peak - before;
    sn_scope_end(scope);
    return peak;
}

START_TEST(memory_grows_with_the_length_not_with_its_square) {
    keep_no_handles();
    const int64_t once = peak_of(2048), twice = peak_of(4096), scores = INT64_C(4096) * 4096 * 4;
    ck_assert_msg(twice <= 2 * once + (256 << 10), "%ld bytes of 2,048 keys, %ld of 4,096", (long)once, (long)twice);
    ck_assert_msg(twice < scores / 16, "%ld bytes", (long)twice);
}
END_TEST

int main(void) {
    static const TTest *tests[7];
    int n = 0;
    tests[n++] = every_mask_layout_and_dtype_follows_the_rule;
    tests[n++] = sizes_of_one_and_none_follow_the_rule;
    tests[n++] = chains_and_sums_are_cut_where_the_rule_says;
    tests[n++] = masks_of_other_dtypes_are_refused;
    tests[n++] = compiled_training_has_eager_bits;
    tests[n++] = memory_grows_with_the_length_not_with_its_square;
    return contract_main("attention", tests, n);
}
