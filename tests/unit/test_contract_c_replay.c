/* test_contract_c_replay.c: numbers that follow from sizes and scalars, in replay [semantics C4 to C6]: what came
 * through sn_sym_* or a meta rule stays free, so that other sizes need neither the body nor a compile; what a plain
 * getter showed specialises. Each test compares bits with eager and counts runs of the body and compiles. */
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

typedef struct Host {
    int runs;
    sn_tensor *w, *cache;
} Host;

#define REPLAY(...) SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, __VA_ARGS__)

typedef struct Case {
    Host fast, slow;
    Twin twin;
} Case;

static void case_begin(Case *c, sn_body body, const sn_compile_options *options) {
    c->twin = twin_new(body, &c->fast, &c->slow, options);
}

/* After so many calls: how often the body ran, and at most two compiles. */
static void case_end(Case *c, int runs) {
    ck_assert_msg(c->fast.runs == runs, "%d runs of the body, not %d", c->fast.runs, runs);
    ck_assert_int_le(stats_of(c->twin.fast).compiles, 2);
    ck_assert_int_eq(stats_of(c->twin.fast).calls, c->slow.runs);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(c->twin);
}

static const int64_t batches[] = {8, 16, 5, 33, 3, 64, 16, 7, 8, 100};
enum { BATCHES = sizeof batches / sizeof *batches };

/* Two batch sizes are captured; every other one is replayed, and one of a single row, where rules branch, is not. */
static void batches_replay(sn_body body) {
    Case c = {.fast.w = F32(90, 6, 4)};
    c.slow.w = c.fast.w;
    case_begin(&c, body, REPLAY(.full_graph = true));
    for (int i = 0; i < BATCHES; i++) TWIN_CALL(c.twin, F32(i, batches[i], 6));
    ck_assert_int_eq(c.fast.runs, 2);
    ck_assert_int_le(stats_of(c.twin.fast).compiles, 2);
    TWIN_CALL(c.twin, F32(7, 1, 6));
    ck_assert_int_eq(c.fast.runs, 3);
    TWIN_CALL(c.twin, F32(7, 21, 6));
    ck_assert_int_eq(c.fast.runs, 3);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(c.twin.fast).calls, BATCHES + 2);
    twin_free(c.twin);
}

static sn_sym sym(int64_t value) { return sn_sym_int(value); }
static int64_t batch_of(sn_tensor *t) { return sn_sym_arg(sn_sym_size(t, 0)); }

static sn_status views(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    const sn_sym n = sn_sym_size(x, 0);
    const int64_t total = sn_sym_arg(sn_sym_op(n, '*', sn_sym_size(x, -1)));
    sn_tensor *const flat = sn_view(sn_mul(x, x), SN_INTS(total));
    return sn_out(f, 0, sn_view(sn_exp(flat), SN_INTS(sn_sym_arg(n), 2, 3)));
}

static sn_status expands(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0), *const row = sn_slice(((Host *)sn_closure(f))->w, 1, 0, 1, 1);
    return sn_out(f, 0, sn_add(x, sn_expand(sn_t(row), SN_INTS(batch_of(x), 6))));
}

static sn_status counts_up(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const at = sn_arange(sn_int(batch_of(x)), SN_F32);
    return sn_out(f, 0, sn_mul(x, sn_unsqueeze(at, 1)));
}

static sn_status slices(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    const sn_sym last = sn_sym_op(sn_sym_size(x, 0), '-', sym(1));
    sn_tensor *const head = sn_slice(x, 0, 0, sn_sym_arg(last), 1);
    return sn_out(f, 0, sn_sub(sn_slice(x, 0, 1, batch_of(x), 1), head));
}

/* The size of a result, which a composite's meta rules made. */
static sn_status of_results(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    sn_tensor *const x = sn_in(f, 0), *const h = sn_relu(sn_matmul(x, host->w));
    sn_tensor *const flat = sn_reshape(h, SN_INTS(-1));
    return sn_out(f, 0, sn_view(sn_add(flat, flat), SN_INTS(batch_of(h), 4)));
}

/* A number in arithmetic: the mean's divisor. */
static sn_status divides(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0), *const sum = sn_sum_dim(x, SN_INTS(0), true);
    return sn_out(f, 0, sn_div_scalar(sum, sn_int(batch_of(x))));
}

/* No sn_sym at all: composites work their sizes out themselves. */
static sn_status composites(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    sn_tensor *const h = sn_linear(sn_in(f, 0), sn_t(host->w), NULL);
    return sn_out(f, 0, sn_flatten(sn_softmax(sn_layer_norm(h, SN_INTS(4), NULL, NULL), -1), 0, -1));
}

static const sn_body bodies[] = {views, expands, counts_up, slices, of_results, divides, composites};
enum { BODIES = sizeof bodies / sizeof *bodies };

START_TEST(c6_symbolic_sizes_stay_free) { batches_replay(bodies[_i]); }
END_TEST

/* Scalars ------------------------------------------------------------------------------------- */

/* A cache that is written at a moving position and read up to it. */
static sn_status decodes(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    const sn_sym at = sn_in_sym(f, 1), seen = sn_sym_op(at, '+', sym(1));
    sn_copy_(sn_narrow(host->cache, 0, sn_sym_arg(at), 1), sn_in(f, 0));
    sn_tensor *const k = sn_narrow(host->cache, 0, 0, sn_sym_arg(seen));
    return sn_out(f, 0, sn_matmul(sn_softmax(sn_matmul(sn_in(f, 0), sn_t(k)), -1), k));
}

static sn_tensor *call_with(sn_function *fn, sn_tensor *x, sn_value value) {
    sn_tensor *y = NULL;
    sn_call_values(fn, (sn_value[]){sn_val(x), value}, 2, &y, 1);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    return y;
}

static void both_with(Case *c, sn_tensor *x, sn_value value) {
    sn_tensor *const want = call_with(c->twin.eager, x, value);
    ck_assert(same_bits(call_with(c->twin.fast, x, value), want));
}

START_TEST(c4_a_position_is_replayed) {
    Case c = {.fast.cache = sn_zeros(SN_INTS(64, 6), SN_F32), .slow.cache = sn_zeros(SN_INTS(64, 6), SN_F32)};
    case_begin(&c, decodes, REPLAY(0));
    for (int i = 0; i < 64; i++) {
        both_with(&c, F32(i, 1, 6), sn_int(i));
        ck_assert(same_bits(c.fast.cache, c.slow.cache));
    }
    ck_assert_msg(c.fast.runs <= 4, "%d runs", c.fast.runs);
    ck_assert_int_le(stats_of(c.twin.fast).compiles, 4); /* lengths 1 and 2 are cases of their own */
    twin_free(c.twin);
}
END_TEST

/* Where a number comes from is known, so the first compile serves all. */
START_TEST(c4_positions_compile_once) {
    for (int always = 0; always < 2; always++) {
        Case c = {.fast.cache = sn_zeros(SN_INTS(64, 6), SN_F32), .slow.cache = sn_zeros(SN_INTS(64, 6), SN_F32)};
        case_begin(
            &c, decodes,
            SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .dynamic = always ? SN_DYNAMIC_ALWAYS : SN_DYNAMIC_AUTO));
        for (int i = 6; i < 60; i++) both_with(&c, F32(i, 1, 6), sn_int(i));
        ck_assert_int_eq(stats_of(c.twin.fast).compiles, 1);
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        ck_assert(same_bits(c.fast.cache, c.slow.cache));
        twin_free(c.twin);
    }
}
END_TEST

static sn_status passes_on(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_in_value(f, 1)));
}

START_TEST(c4_scalars_that_are_passed_on_stay_free) {
    for (int kind = 0; kind < 2; kind++) {
        Case c = {0};
        case_begin(&c, passes_on, REPLAY(0));
        for (int i = 0; i < 8; i++) both_with(&c, F32(i, 10), kind ? sn_float(0.3 + i * 0.7) : sn_int(3 + 5 * i));
        case_end(&c, 2);
    }
}
END_TEST

static sn_status computes_with(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    const double number = sn_in_float(f, 1);
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(number * 2)));
}
static sn_status computes_with_value(sn_frame *f) { /* the number itself, though passed-on */
    ((Host *)sn_closure(f))->runs++;
    sn_value v = sn_in_value(f, 1);
    v.f *= 2;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), v));
}

START_TEST(c6_scalars_that_host_code_reads_specialise) {
    static const sn_body reading[] = {computes_with, computes_with_value};
    for (int k = 0; k < 2; k++) {
        Case c = {0};
        case_begin(&c, reading[k], REPLAY(0));
        for (int i = 0; i < 8; i++) both_with(&c, F32(i, 10), sn_float(0.3 + i * 0.7));
        ck_assert_int_eq(c.fast.runs, 8);
        for (int i = 0; i < 8; i++) both_with(&c, F32(i, 10), sn_float(0.3 + i * 0.7));
        ck_assert_int_eq(c.fast.runs, 8); /* each number is a case */
        twin_free(c.twin);
    }
}
END_TEST

/* What specialises ---------------------------------------------------------------------------- */

static sn_status shows_one_size(sn_frame *f) { /* the columns' number; the rows stay free */
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mul_scalar(x, sn_float(1.0 / (double)sn_size(sn_relu(x), 1))));
}

START_TEST(c6_a_plain_getter_specialises_what_it_shows) {
    Case c = {0};
    case_begin(&c, shows_one_size, REPLAY(0));
    static const int64_t rows[] = {8, 16, 5, 9}, columns[] = {4, 4, 4, 4};
    for (int i = 0; i < 4; i++) TWIN_CALL(c.twin, F32(i, rows[i], columns[i]));
    ck_assert_int_eq(c.fast.runs, 2);
    TWIN_CALL(c.twin, F32(1, 8, 6));
    ck_assert_int_eq(c.fast.runs, 3);
    TWIN_CALL(c.twin, F32(1, 30, 6));
    TWIN_CALL(c.twin, F32(1, 31, 4));
    ck_assert_int_eq(c.fast.runs, 3);
    twin_free(c.twin);
}
END_TEST

static sn_status shows_numel(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mul_scalar(x, sn_float(1.0 / (double)sn_numel(x))));
}
static sn_status shows_sizes(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mul_scalar(x, sn_float((double)sn_sizes(x).data[0])));
}
static sn_status shows_strides(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mul_scalar(x, sn_float((double)sn_strides(sn_t(x)).data[1])));
}
static sn_status shows_value(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    const sn_sym half = sn_sym_op(sn_sym_size(x, 0), '/', sym(2));
    return sn_out(f, 0, sn_mul_scalar(x, sn_float((double)sn_sym_value(half))));
}

START_TEST(c6_every_plain_getter_counts) {
    static const sn_body getters[] = {shows_numel, shows_sizes, shows_strides, shows_value};
    for (int k = 0; k < 4; k++) {
        Case c = {0};
        case_begin(&c, getters[k], REPLAY(0));
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < 5; i++) TWIN_CALL(c.twin, F32(i, 4 + 3 * i, 5 + i));
        ck_assert_msg(c.fast.runs == 5, "getter %d: %d runs", k, c.fast.runs);
        twin_free(c.twin);
    }
}
END_TEST

static sn_status two_halves(sn_frame *f) { /* a rule decides: an even number of rows */
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    const sn_sym half = sn_sym_op(sn_sym_size(x, 0), '/', sym(2));
    return sn_out(f, 0, sn_mul_scalar(sn_view(x, SN_INTS(2, sn_sym_arg(half))), sn_float(3)));
}

START_TEST(c5_what_rules_decided_is_a_guard_of_the_replay) {
    Case c = {0};
    case_begin(&c, two_halves, REPLAY(0));
    for (int i = 0; i < 6; i++) TWIN_CALL(c.twin, F32(i, 6 + 2 * i));
    ck_assert_int_eq(c.fast.runs, 2);
    ck_assert_ptr_null(SN_CALL(c.twin.fast, F32(1, 9)));
    expect_error(SN_ERR_SHAPE, "view");
    TWIN_CALL(c.twin, F32(1, 40));
    twin_free(c.twin);
}
END_TEST

START_TEST(c6_other_kinds_of_inputs_do_not_fit) {
    Case c = {0};
    case_begin(&c, slices, REPLAY(0));
    for (int i = 0; i < 3; i++) TWIN_CALL(c.twin, F32(i, 8 + i, 6));
    TWIN_CALL(c.twin, sn_to(F32(1, 12, 6), SN_F64));
    TWIN_CALL(c.twin, sn_t(F32(1, 6, 14)));
    TWIN_CALL(c.twin, F32(1, 12, 6, 2));
    TWIN_CALL(c.twin, sn_slice(F32(1, 12, 9), 1, 0, 6, 1));
    TWIN_CALL(c.twin, F32(1, 19, 6));
    twin_free(c.twin);
}
END_TEST

static sn_status strides_itself(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_exp(sn_as_strided(x, SN_INTS(2, 3), SN_INTS(6, 1), 7)));
}

START_TEST(c6_an_offset_in_the_storage_is_no_program) {
    Case c = {0};
    case_begin(&c, strides_itself, REPLAY(0));
    sn_tensor *const all = F32(3, 40, 6);
    for (int i = 0; i < 8; i++) {
        TWIN_CALL(c.twin, i % 2 ? sn_narrow(all, 0, 0, 8 + i) : sn_narrow(all, 0, i % 4 / 2, 9 + i));
        TWIN_CALL(c.twin, F32(i, 12 + i, 6));
    }
    twin_free(c.twin);
}
END_TEST

/* Memory that inputs share ---------------------------------------------------------------------- */

/* Writes both, and reads each after the other was written. */
static sn_status writes_two(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    sn_tensor *const a = sn_in(f, 0), *const b = host->w ? host->w : sn_in(f, 1);
    sn_add_(a, b);
    sn_tensor *const product = sn_mul(b, a);
    sn_mul_scalar_(b, sn_int(3));
    return sn_out(f, 0, sn_add(product, a));
}

/* How the second of two tensors lies to the first one, which is at element 6 of its memory. */
typedef enum Lying { THE_SAME, SAME_PLACE, FAR, BEFORE, HALF_OVER, OTHER_MEMORY, LYINGS } Lying;

static sn_tensor *lying(sn_tensor *memory, sn_tensor *first, Lying how) {
    static const int64_t at[LYINGS] = {[SAME_PLACE] = 6, [FAR] = 12, [BEFORE] = 0, [HALF_OVER] = 9};
    if (how == THE_SAME) return first;
    return how == OTHER_MEMORY ? F32(77, 6) : sn_narrow(memory, 0, at[how], 6);
}

/* One call on fresh memory, or on what the function closed over. */
static void call_lying(sn_function *fn, sn_tensor *memory, sn_tensor *bound, Lying how, sn_tensor **out) {
    sn_tensor *const first = bound ? bound : sn_narrow(memory, 0, 6, 6);
    sn_tensor *const second = lying(memory, first, how), *in[2] = {first, second};
    if (bound) in[0] = second;
    ck_assert_int_eq(sn_call(fn, in, bound ? 1 : 2, out, 1), SN_OK);
}

static void both_lying(Case *c, const Lying *order, int n) {
    const bool is_bound = c->fast.w != NULL;
    sn_tensor *const fast = is_bound ? c->fast.cache : F32(5, 20);
    sn_tensor *const slow = is_bound ? c->slow.cache : F32(5, 20);
    for (int i = 0; i < n; i++) {
        sn_tensor *want, *got;
        call_lying(c->twin.eager, slow, c->slow.w, order[i], &want);
        call_lying(c->twin.fast, fast, c->fast.w, order[i], &got);
        ck_assert_msg(same_bits(got, want) && same_bits(fast, slow), "call %d, as %d after %d: replay and eager differ",
                      i, order[i], order[i ? i - 1 : 0]);
    }
}

/* The second one shows that what is given is not closed over; but the same tensor may be both. */
static int runs_of(Lying how, bool bound) { return bound && how == THE_SAME ? 1 : 2; }

/* An entry that was learnt with any of these is not taken for another one; but it is for the same. */
START_TEST(c7_replay_knows_how_written_inputs_lie) {
    const bool bound = _i / (LYINGS * LYINGS);
    const Lying learnt = _i / LYINGS % LYINGS, other = _i % LYINGS;
    Case c = {0};
    if (bound) {
        c.fast.cache = F32(5, 20), c.slow.cache = F32(5, 20);
        c.fast.w = sn_narrow(c.fast.cache, 0, 6, 6), c.slow.w = sn_narrow(c.slow.cache, 0, 6, 6);
    }
    case_begin(&c, writes_two, REPLAY(0));
    both_lying(&c, (Lying[]){learnt, learnt, other, learnt, other}, 5);
    const bool grouped[LYINGS] = {[SAME_PLACE] = 1, [FAR] = 1, [BEFORE] = 1, [HALF_OVER] = 1};
    if (!grouped[learnt] && !grouped[other])
        ck_assert_int_eq(c.fast.runs, runs_of(learnt, bound) + (other == learnt ? 0 : runs_of(other, bound)));
    twin_free(c.twin);
}
END_TEST

static sn_status random_rows(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_add(x, sn_randn(SN_INTS(batch_of(x), 6), SN_F32)));
}

START_TEST(c6_random_numbers_of_other_sizes) {
    Case c = {0};
    case_begin(&c, random_rows, REPLAY(0));
    for (int i = 0; i < BATCHES; i++) {
        sn_tensor *const x = F32(i, batches[i], 6);
        sn_seed(5);
        for (int k = 0; k < i % 3; k++) sn_rand(SN_INTS(3), SN_F32);
        sn_tensor *const want = SN_CALL(c.twin.eager, x);
        sn_tensor *const after = sn_rand(SN_INTS(3), SN_F32);
        sn_seed(5);
        for (int k = 0; k < i % 3; k++) sn_rand(SN_INTS(3), SN_F32);
        ck_assert(same_bits(SN_CALL(c.twin.fast, x), want));
        ck_assert(same_bits(sn_rand(SN_INTS(3), SN_F32), after));
    }
    ck_assert_int_eq(c.fast.runs, 2);
    twin_free(c.twin);
}
END_TEST

START_TEST(c6_verified_calls_keep_their_share) {
    Case c = {0};
    case_begin(&c, slices, REPLAY(.check_every = 4));
    for (int i = 0; i < 2; i++) TWIN_CALL(c.twin, F32(i, 8 + i, 6));
    const int learnt = c.fast.runs;
    for (int i = 0; i < 40; i++) TWIN_CALL(c.twin, F32(i, 12 + i, 6));
    ck_assert_int_eq(c.fast.runs - learnt, 10);
    twin_free(c.twin);
}
END_TEST

/* What an entry looks at besides sizes ---------------------------------------------------------- */

static sn_status rectifies(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

static sn_status zeros_instead(sn_frame *f) { return sn_out(f, 0, sn_zeros_like(sn_in(f, 0))); }

START_TEST(c6_an_override_is_seen_by_what_was_learnt_before) {
    Case c = {0};
    case_begin(&c, rectifies, REPLAY(0));
    sn_tensor *const x = F32(3, 10);
    for (int i = 0; i < 4; i++) TWIN_CALL(c.twin, x);
    const int learnt = c.fast.runs;
    ck_assert_int_lt(learnt, 4);
    sn_override *const zero = sn_op_override(sn_op_find("aten::relu"), SN_KEY_CPU, zeros_instead, NULL);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(TWIN_CALL(c.twin, x), sn_zeros_like(x)));
    ck_assert_int_gt(c.fast.runs, learnt);
    sn_override_free(zero);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(TWIN_CALL(c.twin, x), sn_relu(x)));
    twin_free(c.twin);
}
END_TEST

static sn_tensor *gradient_of(sn_function *fn, uint64_t seed) {
    sn_tensor *const x = LEAF(seed, 10), *const y = SN_CALL(fn, x);
    ck_assert(sn_requires_grad(y));
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(y, y))), SN_OK);
    return sn_grad(x);
}

START_TEST(c6_a_leaf_does_not_fit_what_was_learnt_without_gradients) {
    Case c = {0};
    case_begin(&c, rectifies, REPLAY(0));
    for (int i = 0; i < 3; i++) TWIN_CALL(c.twin, F32(i, 10));
    for (int i = 0; i < 3; i++) ck_assert(same_bits(gradient_of(c.twin.fast, i), gradient_of(c.twin.eager, i)));
    const int runs = c.fast.runs;
    for (int i = 0; i < 3; i++) ck_assert(!sn_requires_grad(TWIN_CALL(c.twin, F32(i, 10))));
    ck_assert_int_eq(c.fast.runs, runs); /* the entry is still there */
    twin_free(c.twin);
}
END_TEST

static sn_status views_a_part(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    return sn_out(f, 0, sn_narrow(sn_in(f, 0), 0, 1, 2));
}

/* A view of a tensor of inference mode is one too, and ops on it are not recorded. */
START_TEST(c6_tensors_of_inference_mode_do_not_fit_what_was_learnt_without) {
    for (int first = 0; first < 2; first++) {
        Case c = {0};
        case_begin(&c, views_a_part, REPLAY(0));
        for (int i = 0; i < 8; i++) {
            const bool inference = first ^ (i >= 4);
            const sn_grad_mode before = sn_grad_mode_set(inference ? SN_INFERENCE : SN_GRAD_ON);
            sn_tensor *const x = F32(i, 4);
            sn_grad_mode_set(before);
            ck_assert_str_eq(sn_keys(TWIN_CALL(c.twin, x)), inference ? "cpu" : "autograd, cpu");
        }
        ck_assert_int_lt(c.fast.runs, 8); /* each kind has its entry */
        twin_free(c.twin);
    }
}
END_TEST

static sn_status wrong_arithmetic(sn_frame *f) {
    const sn_sym n = sn_sym_size(sn_in(f, 0), 0);
    sn_sym_op(n, '%', sn_sym_op(n, '-', n));
    return sn_check();
}
static sn_status symbolic_data(sn_frame *f) {
    static const float data[64];
    return sn_out(f, 0, sn_from_data(data, SN_INTS(batch_of(sn_in(f, 0))), SN_F32));
}

START_TEST(c5_misuse_of_symbols_is_an_error) {
    sn_function *fn = sn_compile(wrong_arithmetic, NULL, REPLAY(0));
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 8)));
    expect_error(SN_ERR_VALUE, "8 % 0");
    sn_function_free(fn);
    fn = sn_compile(symbolic_data, NULL, REPLAY(0));
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 8)));
    expect_error(SN_ERR_ARGUMENT, "sn_sym_value");
    sn_function_free(fn);
}
END_TEST

static sn_status sets_gradients(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    sn_tensor *const y = sn_mul(sn_in(f, 0), host->w);
    sn_backward(sn_sum(y));
    sn_out(f, 0, sn_detach(y));
    return sn_out(f, 1, sn_exp(sn_in(f, 0)));
}
static sn_status wants_gradients(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    sn_out(f, 0, sn_mul(sn_in(f, 0), host->w));
    return sn_out(f, 1, sn_exp(sn_in(f, 0)));
}

static sn_status mutates_a_view(sn_frame *f) { /* a write of the input, for versions */
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const view = sn_unsqueeze(sn_in(f, 0), 0);
    sn_t_(view);
    sn_out(f, 0, sn_exp(view));
    return sn_out(f, 1, sn_exp(sn_in(f, 0)));
}

static const struct Verified {
    sn_body body;
    const char *why;
} verified[] = {
    {sets_gradients, "sn_backward"}, {wants_gradients, "gradients flow out"}, {mutates_a_view, "changes its layout"}};
enum { VERIFIED = sizeof verified / sizeof *verified };

static void count_reason(void *context, int level, const char *topic, const char *line) {
    const struct Verified *const v = &verified[*(int *)context];
    if (strstr(line, "turned into verify") && strstr(line, v->why)) ++((int *)context)[1];
}

/* As the comment of SN_COMPILE_REPLAY lists them; breaks and kept tensors are in test_contract_c_modes.c. */
START_TEST(c6_what_replay_cannot_repeat_is_verified) {
    static int said[2];
    said[0] = _i, said[1] = 0;
    sn_logging_set(count_reason, said, "");
    Host host = {.w = sn_requires_grad_(F32(90, 6), true)};
    sn_function *const fn = sn_compile(verified[_i].body, &host, REPLAY(0));
    for (int i = 0; i < 5; i++) {
        sn_tensor *x = F32(i, 6), *out[2];
        ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
    }
    ck_assert_int_eq(host.runs, 5);
    ck_assert_int_eq(said[1], 1);
    sn_function_free(fn);
}
END_TEST

/* An argument and what is closed over: the very tensors, written ones as they are by then. */
static sn_status returns_tensors(sn_frame *f) {
    Host *const h = sn_closure(f);
    h->runs++;
    sn_add_(sn_in(f, 0), sn_in(f, 1));
    sn_out(f, 0, sn_in(f, 1));
    sn_out(f, 2, h->w);
    sn_out(f, 3, sn_in(f, 0));
    return sn_out(f, 1, sn_mul(sn_in(f, 0), h->w));
}

START_TEST(c6_results_that_are_inputs_are_replayed) {
    Host host = {.w = F32(90, 6)}, eager_host = host;
    const Twin twin = twin_new(returns_tensors, &host, &eager_host, REPLAY(0));
    for (int i = 0; i < 5; i++) {
        sn_tensor *in[] = {F32(i, 6), F32(i + 9, 6)}, *again[] = {F32(i, 6), F32(i + 9, 6)}, *out[4], *want[4];
        ck_assert_int_eq(sn_call(twin.fast, in, 2, out, 4), SN_OK);
        ck_assert_int_eq(sn_call(twin.eager, again, 2, want, 4), SN_OK);
        ck_assert(out[0] == in[1] && out[2] == host.w && out[3] == in[0]);
        for (int k = 0; k < 4; k++) ck_assert(same_bits(out[k], want[k]));
    }
    ck_assert_int_eq(host.runs, 2);
    twin_free(twin);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("replay");
    tcase_add_test(tests, c6_results_that_are_inputs_are_replayed);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, c6_symbolic_sizes_stay_free, 0, BODIES);
    tcase_add_test(tests, c4_a_position_is_replayed);
    tcase_add_test(tests, c4_positions_compile_once);
    tcase_add_test(tests, c4_scalars_that_are_passed_on_stay_free);
    tcase_add_test(tests, c6_scalars_that_host_code_reads_specialise);
    tcase_add_test(tests, c6_a_plain_getter_specialises_what_it_shows);
    tcase_add_test(tests, c6_every_plain_getter_counts);
    tcase_add_test(tests, c5_what_rules_decided_is_a_guard_of_the_replay);
    tcase_add_test(tests, c6_other_kinds_of_inputs_do_not_fit);
    tcase_add_test(tests, c6_an_offset_in_the_storage_is_no_program);
    tcase_add_loop_test(tests, c7_replay_knows_how_written_inputs_lie, 0, 2 * LYINGS * LYINGS);
    tcase_add_test(tests, c6_random_numbers_of_other_sizes);
    tcase_add_test(tests, c6_verified_calls_keep_their_share);
    tcase_add_test(tests, c6_an_override_is_seen_by_what_was_learnt_before);
    tcase_add_test(tests, c6_a_leaf_does_not_fit_what_was_learnt_without_gradients);
    tcase_add_test(tests, c6_tensors_of_inference_mode_do_not_fit_what_was_learnt_without);
    tcase_add_test(tests, c5_misuse_of_symbols_is_an_error);
    tcase_add_loop_test(tests, c6_what_replay_cannot_repeat_is_verified, 0, VERIFIED);
    return suite_run("test_contract_c_replay", tests);
}
