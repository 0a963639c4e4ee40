/* test_contract_c.c: the contract's rules of capture [semantics C1 to C14]; each test's name begins
 * with its rule. Bodies are small programs of a user; what happened is read from sn_function_stats,
 * sn_last_call, sn_explain, and where a rule speaks of the trie, from the function itself. */
#include <pthread.h>
#include <stdio.h>

#include "runtime/device/execute.h"
#include "runtime/capture/function/function.h"
#include "tests/unit/contract.h"

typedef struct Host { /* a closure: what host code sees and does */
    int rounds, runs, branch;
    int64_t position;
    sn_function *self;
    double number;
    sn_tensor *w, *kept;
    sn_tensor *table[4];
    float seen[8];
} Host;

/* C1: one trie, segments are shared ----------------------------------------------------------- */

static sn_status halving(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < host->rounds; i++) {
        x = sn_add_scalar(sn_mul_scalar(x, sn_float(0.5)), sn_float(1));
        if (!(sn_item(sn_amax(x)) < 1e9)) break;
    }
    return sn_out(f, 0, x);
}

START_TEST(c1_loop_reuses_one_segment) {
    Host host = {.rounds = 3};
    const Twin twin = twin_new(halving, &host, &host, NULL);
    sn_tensor *const x = F32(1, 40);
    TWIN_CALL(twin, x);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    ck_assert_int_eq(stats_of(twin.fast).graphs, 1);
    host.rounds = 30;
    TWIN_CALL(twin, x);
    TWIN_CALL(twin, x);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

static sn_status compiling_waits(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const y = sn_relu(sn_in(f, 0));
    sn_item(sn_sum(y));
    sn_item(sn_amax(y));
    host->rounds = (int)stats_of(host->self).compiles;
    return sn_out(f, 0, sn_mul(y, y));
}

START_TEST(c1_segments_are_compiled_at_the_return) {
    Host host = {0};
    sn_function *const fn = host.self = sn_compile(compiling_waits, &host, NULL);
    host.rounds = -1;
    sn_tensor *const y = SN_CALL(fn, F32(1, 8));
    ck_assert_ptr_nonnull(y);
    ck_assert_int_eq(stats_of(fn).compiles, 3);
    ck_assert_int_eq(stats_of(fn).breaks, 2);
    ck_assert_int_eq(host.rounds, 0);
    sn_function_free(fn);
}
END_TEST

static sn_status branching(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_neg(sn_in(f, 0)));
    return sn_out(f, 0, host->branch ? sn_tanh(h) : sn_relu(h));
}

START_TEST(c1_mismatch_shares_the_beginning) {
    Host host = {0};
    const Twin twin = twin_new(branching, &host, &host, NULL);
    sn_tensor *const x = F32(2, 33);
    for (int i = 0; i < 6; i++) {
        host.branch = i & 1;
        TWIN_CALL(twin, x);
        if (i >= 2) ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    }
    ck_assert_int_eq(twin.fast->n_nodes, 4); /* neg, exp, relu, tanh */
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
    twin_free(twin);
}
END_TEST

static sn_status mismatch_counts(sn_frame *f) {
    Host *const host = sn_closure(f);
    const int64_t before = execute_counts()->launches;
    sn_tensor *y = sn_exp(sn_neg(sn_in(f, 0)));
    y = host->branch ? sn_tanh(y) : sn_relu(y); /* differs from the known edge */
    y = sn_mul(y, y);
    host->position = execute_counts()->launches - before;
    return sn_out(f, 0, y);
}

START_TEST(c1_mismatch_runs_nothing) {
    Host host = {0};
    sn_function *const fn = sn_compile(mismatch_counts, &host, NULL);
    sn_tensor *const x = F32(2, 33);
    SN_CALL(fn, x);
    host.branch = 1;
    host.position = -1;
    ck_assert_ptr_nonnull(SN_CALL(fn, x));
    ck_assert_int_eq(host.position, 0);
    sn_function_free(fn);
}
END_TEST

static sn_status tries_first(sn_frame *f) {
    const Host *const host = sn_closure(f);
    if (host->branch) {
        if (sn_add(sn_in(f, 1), sn_in(f, 0))) return SN_ERR_INTERNAL;
        sn_error_take();
    }
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

/* What only a failed op touched is no input of the segment. */
START_TEST(c1_failed_op_leaves_no_trace) {
    Host host = {.branch = 1};
    const Twin twin = twin_new(tries_first, &host, &host, NULL);
    sn_tensor *const x = F32(2, 33), *const w = F32(1, 32);
    for (int i = 0; i < 3; i++) {
        TWIN_CALL(twin, x, w);
        host.branch = 0;
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* C2: what a segment stores ------------------------------------------------------------------- */

static sn_status one_result(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    sn_tensor *const y = sn_add(sn_mul(h, h), h);
    if (host->branch) host->kept = sn_keep(h);
    return sn_out(f, 0, y);
}

START_TEST(c2_only_what_survives_is_an_output) {
    Host host = {0};
    sn_function *const fn = sn_compile(one_result, &host, NULL);
    sn_tensor *const x = F32(3, 100);
    SN_CALL(fn, x);
    ck_assert_int_eq(fn->variants.n, 1);
    ck_assert_int_eq(fn->variants.at[0]->n_outputs, 1);
    const int64_t before = execute_counts()->allocations;
    SN_CALL(fn, x);
    ck_assert_int_eq(execute_counts()->allocations - before, 1);
    sn_function_free(fn);
}
END_TEST

START_TEST(c2_kept_values_are_outputs) {
    Host host = {.branch = 1};
    sn_function *const fn = sn_compile(one_result, &host, NULL);
    sn_tensor *const x = F32(3, 100), *const want = sn_exp(x);
    for (int i = 0; i < 3; i++) {
        sn_scope scope = sn_scope_begin();
        ck_assert_ptr_nonnull(SN_CALL(fn, x));
        ck_assert_int_eq(sn_scope_end(scope), SN_OK);
        ck_assert(same_bits(host.kept, want));
        sn_release(host.kept);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(fn->variants.at[0]->n_outputs, 2);
    sn_function_free(fn);
}
END_TEST

static sn_status asks_late(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_exp(x), *const s = sn_sum(h);
    sn_graph_break("here"); /* h is not stored: nothing needs it yet */
    if (host->branch) sn_read(h, host->seen, sizeof host->seen);
    return sn_out(f, 0, sn_add(s, s));
}

START_TEST(c2_a_handle_in_scope_is_recomputed_exactly) {
    Host fast = {0}, slow = {0};
    const Twin twin = twin_new(asks_late, &fast, &slow, NULL);
    sn_tensor *const x = F32(4, 8);
    for (int i = 0; i < 5; i++) {
        fast.branch = slow.branch = i > 1;
        memset(fast.seen, 0, sizeof fast.seen);
        TWIN_CALL(twin, x);
        if (i > 1) ck_assert(!memcmp(fast.seen, slow.seen, sizeof fast.seen));
    }
    twin_free(twin);
}
END_TEST

static sn_status written_after(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_mul_scalar(x, sn_float(3));
    sn_tensor *const s = sn_sum(h);
    sn_item(s);
    if (host->branch)
        ((float *)sn_data_mut(x, SN_F32))[0] = 77; /* the host writes what h depends on */
    else
        sn_add_scalar_(x, sn_float(1));
    sn_read(h, host->seen, sizeof host->seen);
    return sn_out(f, 0, sn_add(h, x));
}

START_TEST(c2_values_are_made_before_what_they_depend_on_is_written) {
    for (int by_host = 0; by_host < 2; by_host++) {
        Host fast = {.branch = by_host}, slow = {.branch = by_host};
        const Twin twin = twin_new(written_after, &fast, &slow, NULL);
        for (int i = 0; i < 4; i++) {
            sn_tensor *const a = F32(5 + i, 8), *const b = sn_clone(a);
            twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
            ck_assert(same_bits(a, b));
            ck_assert(!memcmp(fast.seen, slow.seen, sizeof fast.seen));
        }
        twin_free(twin);
    }
}
END_TEST

static sn_status writes_itself(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_mul_scalar(x, sn_float(3));
    sn_add_(x, h); /* the segment's own write-back */
    sn_graph_break("written");
    sn_read(h, host->seen, sizeof host->seen);
    return sn_out(f, 0, sn_clone(x));
}

START_TEST(c2_the_segments_own_write_back_counts) {
    Host fast = {0}, slow = {0};
    const Twin twin = twin_new(writes_itself, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const a = F32(9 + i, 8), *const b = sn_clone(a);
        twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
        ck_assert(same_bits(a, b));
        ck_assert(!memcmp(fast.seen, slow.seen, sizeof fast.seen));
    }
    twin_free(twin);
}
END_TEST

/* Something writes the memory that h depends on, in a call whose beginning was compiled without h. */
static sn_status written_late(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_mul_scalar(x, sn_float(3));
    sn_graph_break("here");
    if (host->branch == 1) sn_add_scalar_(x, sn_float(1)); /* an op, recorded for the first time */
    if (host->branch == 2) sn_exp_out(x, sn_sum(h));       /* resizes x: outside of a segment */
    if (host->branch == 3) sn_backward(host->kept);        /* x is the gradient that it adds to */
    if (host->branch) sn_read(h, host->seen, sizeof host->seen);
    return sn_out(f, 0, sn_clone(x));
}

static void call_written_late(sn_function *fn, Host *host, int branch) {
    sn_tensor *const w = LEAF(11, 8);
    sn_grad_set(w, F32(12, 8));
    host->branch = branch;
    host->kept = sn_sum(sn_mul(w, w));
    memset(host->seen, 0, sizeof host->seen);
    ck_assert_ptr_nonnull(SN_CALL(fn, sn_grad(w)));
}

START_TEST(c2_whatever_writes_later_finds_earlier_values_made) {
    for (int branch = 1; branch <= 3; branch++) {
        Host fast = {0}, slow = {0};
        const Twin twin = twin_new(written_late, &fast, &slow, NULL);
        for (int i = 0; i < 5; i++) {
            call_written_late(twin.fast, &fast, i > 1 ? branch : 0);
            call_written_late(twin.eager, &slow, i > 1 ? branch : 0);
            ck_assert_msg(!memcmp(fast.seen, slow.seen, sizeof fast.seen), "branch %d", branch);
        }
        twin_free(twin);
    }
}
END_TEST

/* C3: classes of public functions; modes belong to nodes -------------------------------------- */

static sn_status half_without_grad(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const a = sn_mul(x, x);
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const b = sn_mul(x, x);
    sn_grad_mode_set(before);
    return sn_out(f, 0, sn_add(sn_mul_scalar(a, sn_float(3)), b));
}

static sn_tensor *gradient_through(sn_function *fn, uint64_t seed) {
    sn_tensor *const x = LEAF(seed, 12);
    ck_assert_int_eq(sn_backward(sn_sum(SN_CALL(fn, x))), SN_OK);
    return sn_grad(x);
}

START_TEST(c3_grad_mode_belongs_to_each_node) {
    const Twin twin = twin_new(half_without_grad, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const want = gradient_through(twin.eager, 20 + i), *const got = gradient_through(twin.fast, 20 + i);
        ck_assert(same_bits(got, want));
        sn_tensor *const six = sn_mul_scalar(F32(20 + i, 12), sn_float(6));
        ck_assert(same_bits(got, six)); /* 3 * 2x: the half without gradients adds nothing */
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

static sn_status frees_itself(sn_frame *f) {
    sn_function_free(((Host *)sn_closure(f))->kept ? NULL : *(sn_function **)sn_closure(f));
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

START_TEST(c3_freeing_the_running_function_is_refused) {
    struct {
        sn_function *self;
        Host rest;
    } closure = {0};
    sn_function *const fn = closure.self = sn_compile(frees_itself, &closure, NULL);
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 4)));
    expect_error(SN_ERR_STATE, "running");
    sn_function_free(fn);
}
END_TEST

typedef struct Freeing {
    sn_function *callee, *freed;
} Freeing;
static sn_status frees(sn_frame *f) {
    Freeing *const nest = sn_closure(f);
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    sn_function_free(nest->freed);
    ck_assert_int_eq(sn_error_take()->status, SN_ERR_STATE);
    return sn_out(f, 0, sn_add(y, y));
}
static sn_status calls_the_callee(sn_frame *f) {
    Freeing *const nest = sn_closure(f);
    return sn_out(f, 0, sn_neg(SN_CALL(nest->callee, sn_neg(sn_in(f, 0)))));
}

static void free_in_the_callee(sn_compile_mode outer, sn_compile_mode inner, bool itself) {
    Freeing nest = {0};
    nest.callee = sn_compile(frees, &nest, SN_COMPILE_OPTIONS(.mode = inner));
    sn_function *const fn = sn_compile(calls_the_callee, &nest, SN_COMPILE_OPTIONS(.mode = outer));
    nest.freed = itself ? nest.callee : fn;
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32((uint64_t)i, 4), *const y = sn_exp(sn_neg(x));
        ck_assert(same_bits(SN_CALL(fn, x), sn_neg(sn_add(y, y))));
    }
    sn_function_free(nest.callee);
    sn_function_free(fn);
    ck_assert_int_eq(sn_check(), SN_OK); /* none runs any more */
}

/* In every mode of an outer function and its callee, of both. */
START_TEST(c3_freeing_a_function_whose_body_runs_is_refused) {
    for (int i = 0; i < 18; i++) free_in_the_callee((sn_compile_mode)(i % 3), (sn_compile_mode)(i / 3 % 3), i < 9);
}
END_TEST

/* The closure is the number of the refused function. */
static sn_status calls_refused(sn_frame *f) {
    sn_tensor *const h = sn_relu(sn_in(f, 0));
    switch (*(const int *)sn_closure(f)) {
    case 0:
        return sn_init(SN_INIT_OPTIONS(.threads = 1)) ? sn_check() : sn_out(f, 0, h);
    case 1:
        return sn_shutdown() ? sn_check() : sn_out(f, 0, h);
    case 2:
        return sn_finish() ? sn_check() : sn_out(f, 0, h);
    case 3:
        return !sn_state_use(NULL) ? sn_check() : sn_out(f, 0, h);
    default:
        return !sn_op_register(
                   SN_OP_DESC(.schema = "contract::late(Tensor x) -> Tensor", .decomposition = frees_itself))
                   ? sn_check()
                   : sn_out(f, 0, h);
    }
}

START_TEST(c3_process_wide_calls_are_refused_in_bodies) {
    static const char *const names[] = {"sn_init", "sn_shutdown", "sn_finish", "sn_state_use", "sn_op_register"};
    int which = 0;
    sn_function *const fn = sn_compile(calls_refused, &which, NULL);
    for (which = 0; which < 5; which++) {
        ck_assert_ptr_null(SN_CALL(fn, F32(1, 4)));
        expect_error(SN_ERR_STATE, names[which]);
    }
    ck_assert_ptr_null(sn_op_find("contract::late"));
    expect_error(SN_ERR_ARGUMENT, "contract::late");
    sn_function_free(fn);
}
END_TEST

static sn_status metadata_only(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const h = sn_transpose(sn_mul(x, x), 0, 1);
    Host *const host = sn_closure(f);
    host->position = sn_size(h, 0) * 100 + sn_size(h, 1) * 10 + sn_rank(h);
    host->branch = sn_dtype_of(h) == SN_F32 && sn_device_of(h) == SN_CPU && !sn_is_contiguous(h);
    return sn_out(f, 0, sn_add(h, h));
}

START_TEST(c3_metadata_is_answered_at_once) {
    Host host = {0};
    sn_function *const fn = sn_compile(metadata_only, &host, SN_COMPILE_OPTIONS(.full_graph = true));
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(SN_CALL(fn, F32(1, 3, 5)));
        ck_assert_int_eq(host.position, 532);
        ck_assert_int_eq(host.branch, 1);
    }
    ck_assert_int_eq(stats_of(fn).breaks, 0);
    sn_function_free(fn);
}
END_TEST

static sn_status seeds_itself(sn_frame *f) {
    ((Host *)sn_closure(f))->runs++;
    sn_tensor *const a = sn_rand(SN_INTS(6), SN_F32);
    sn_seed(7);
    sn_tensor *const b = sn_rand(SN_INTS(6), SN_F32);
    return sn_out(f, 0, sn_add(sn_mul(a, sn_in(f, 0)), b));
}

START_TEST(c3_a_seed_in_the_body_is_in_order) {
    for (int replay = 0; replay < 2; replay++) {
        Host host = {0}, slow = {0};
        const Twin twin = twin_new(seeds_itself, &host, &slow,
                                   SN_COMPILE_OPTIONS(.mode = replay ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY));
        sn_tensor *const x = F32(1, 6);
        for (uint64_t i = 0; i < 4; i++) {
            sn_seed(90 + i);
            sn_tensor *const want = SN_CALL(twin.eager, x), *const then = sn_rand(SN_INTS(6), SN_F32);
            sn_seed(90 + i);
            ck_assert(same_bits(SN_CALL(twin.fast, x), want));
            ck_assert(same_bits(sn_rand(SN_INTS(6), SN_F32), then));
        }
        ck_assert_int_eq(host.runs, 4);
        twin_free(twin);
    }
}
END_TEST

/* C4, C5: values that change from call to call ------------------------------------------------ */

static sn_status scaled(sn_frame *f) {
    const Host *const host = sn_closure(f);
    return sn_out(f, 0, sn_add_scalar(sn_mul_scalar(sn_in(f, 0), sn_float(host->number)), sn_float(0.25)));
}

START_TEST(c4_a_float_that_differs_is_a_runtime_value) {
    Host host = {0};
    const Twin twin = twin_new(scaled, &host, &host, NULL);
    sn_tensor *const x = F32(1, 50);
    static const double numbers[] = {0.1, 1.0 / 3, -0.0, 1e-42, 3e38, 0.7, 1.0, 0.0};
    for (int i = 0; i < 8; i++) {
        host.number = numbers[i];
        TWIN_CALL(twin, x);
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

static sn_status powers(sn_frame *f) {
    const Host *const host = sn_closure(f);
    return sn_out(f, 0, sn_pow_scalar(sn_in(f, 0), sn_float(host->number)));
}

START_TEST(c4_a_rule_that_branches_on_a_number_is_guarded) {
    Host host = {0};
    const Twin twin = twin_new(powers, &host, &host, NULL);
    sn_tensor *const x = F32(1, 64);
    static const double numbers[] = {2.5, 3.5, 2.0, 1.0, 0.0, 0.5, -1.0, 2.0, 3.0, 7.25};
    for (int i = 0; i < 10; i++) {
        host.number = numbers[i];
        TWIN_CALL(twin, x);
    }
    twin_free(twin);
}
END_TEST

static sn_status normed(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const y = sn_layer_norm_ex(x, SN_INTS(6), NULL, NULL, host->number, false);
    return sn_out(f, 0, sn_sum_dim(y, SN_INTS(host->position), true));
}

START_TEST(c4_what_rules_read_as_constants_specialises) {
    Host host = {0};
    const Twin twin = twin_new(normed, &host, &host, NULL);
    static const double epsilons[] = {1e-5, 1e-3, 0.1, 0.5, 2.0};
    for (int i = 0; i < 5; i++) {
        host.number = epsilons[i];
        host.position = i % 2;
        TWIN_CALL(twin, F32(1, 6, 6));
    }
    twin_free(twin);
}
END_TEST

static sn_status alphas(sn_frame *f) {
    const Host *const host = sn_closure(f);
    return sn_out(f, 0, sn_add_ex(sn_in(f, 0), sn_in(f, 1), sn_float(host->number)));
}

START_TEST(c4_alpha_one_is_guarded) {
    Host host = {0};
    const Twin twin = twin_new(alphas, &host, &host, NULL);
    static const double numbers[] = {0.3, 0.7, 1.0, -1.0, 0.1, 1.0};
    for (int i = 0; i < 6; i++) {
        host.number = numbers[i];
        TWIN_CALL(twin, F32(1, 31), F32(2, 31));
    }
    twin_free(twin);
}
END_TEST

static sn_status window(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const rows = sn_narrow(sn_in(f, 0), 0, host->position, 4);
    return sn_out(f, 0, sn_mul(rows, rows));
}

START_TEST(c4_a_position_never_costs_a_recompile) {
    Host host = {0};
    const Twin twin = twin_new(window, &host, &host, NULL);
    sn_tensor *const x = F32(1, 120, 6);
    for (int i = 0; i < 100; i++) {
        host.position = i;
        TWIN_CALL(twin, x);
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
    twin_free(twin);
}
END_TEST

/* A part of the input, by `branch`, at a position; its gradient is put back at the same one, inside (`rounds`) or by
 * the caller. */
static sn_status part_with_gradient(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    const int64_t at = host->position;
    sn_tensor *part = host->branch == 0   ? sn_narrow(x, 0, at, 4)
                      : host->branch == 1 ? sn_select(x, 0, at)
                      : host->branch == 2 ? sn_slice(x, 0, at, at + 7, 2)
                                          : sn_select(x, 0, at - 120);
    sn_tensor *const loss = sn_sum(sn_exp(part));
    if (!host->rounds) return sn_out(f, 0, loss);
    sn_backward(loss);
    return sn_out(f, 0, sn_detach(loss));
}

static void positions_with_gradients(Host *host) {
    const Twin twin = twin_new(part_with_gradient, host, host, NULL);
    for (int i = 0; i < 100; i++) {
        host->position = i;
        sn_tensor *const fast = LEAF(i, 120, 3), *const slow = LEAF(i, 120, 3);
        sn_tensor *const want = sn_call1(twin.eager, SN_TENSORS(slow)), *const got =
                                                                            sn_call1(twin.fast, SN_TENSORS(fast));
        ck_assert_msg(i < 2 || last_path() == SN_PATH_COMPILED, "form %d, call %d: %s", host->branch, i, last_reason());
        if (!host->rounds) sn_backward(want), sn_backward(got);
        ck_assert(same_bits(got, want));
        ck_assert(same_bits(sn_grad(fast), sn_grad(slow)));
    }
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
    twin_free(twin);
}

START_TEST(c4_nor_does_one_where_gradients_flow) {
    for (int i = 0; i < 8; i++) {
        Host host = {.branch = i % 4, .rounds = i / 4};
        positions_with_gradients(&host);
    }
}
END_TEST

static sn_status scalar_input(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_in_value(f, 1))); }

START_TEST(c4_scalar_inputs_are_runtime_values) {
    sn_function *const fn = sn_compile(scalar_input, NULL, NULL);
    sn_tensor *const x = F32(1, 20);
    for (int i = 0; i < 10; i++) {
        const sn_value in[] = {sn_val(x), sn_float(0.5 + i * 0.37)};
        sn_tensor *y;
        ck_assert_int_eq(sn_call_values(fn, in, 2, &y, 1), SN_OK);
        ck_assert(same_bits(y, sn_mul_scalar(x, sn_float(0.5 + i * 0.37))));
    }
    ck_assert_int_le(stats_of(fn).compiles, 2);
    sn_function_free(fn);
}
END_TEST

typedef struct Scaling {
    double other, alpha;
} Scaling;

static sn_status scaled_sums(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const Scaling *const by = sn_closure(f);
    const sn_scalar other = sn_float(by->other), alpha = sn_float(by->alpha);
    sn_out(f, 0, sn_add_scalar_ex(x, other, alpha));
    sn_out(f, 1, sn_sub_scalar_ex(x, other, alpha));
    return sn_out(f, 2, sn_rsub_scalar_ex(x, other, alpha));
}

/* Constants at first, then runtime numbers. Zeros of both signs show what is left out or folded. */
START_TEST(c4_numbers_and_their_alpha_keep_the_bits_of_eager) {
    static const sn_dtype dtypes[] = {SN_F32, SN_F64, SN_F16, SN_BF16};
    static const double others[] = {0, -0.0, 1, 0.3, 1e-9}, alphas[] = {-0.5, 1, 0.7, -0.0, 3};
    for (int d = 0; d < 4; d++) {
        Scaling by;
        sn_function *const fast = sn_compile(scaled_sums, &by, NULL);
        sn_tensor *const x = sn_to(sn_mul_scalar(F32(1, 20), sn_float(0)), dtypes[d]);
        for (int i = 0; i < 75; i++) {
            by = (Scaling){others[i / 3 % 5], alphas[i / 15]};
            const sn_scalar other = sn_float(by.other), alpha = sn_float(by.alpha);
            sn_tensor *y[3];
            const sn_value in[] = {sn_val(x)};
            ck_assert_int_eq(sn_call_values(fast, in, 1, y, 3), SN_OK);
            ck_assert(same_bits(y[0], sn_add_scalar_ex(x, other, alpha)));
            ck_assert(same_bits(y[1], sn_sub_scalar_ex(x, other, alpha)));
            ck_assert(same_bits(y[2], sn_rsub_scalar_ex(x, other, alpha)));
        }
        ck_assert_int_le(stats_of(fast).compiles, 8);
        sn_function_free(fast);
    }
}
END_TEST

static sn_status row_means(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_sub(x, sn_mean_dim(x, SN_INTS(1), true)));
}

START_TEST(c5_sizes_below_two_specialise) {
    const Twin twin = twin_new(row_means, NULL, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS));
    static const int64_t rows[] = {8, 16, 1, 32, 0, 5, 2}, columns[] = {7, 9, 9, 1, 4, 64, 2};
    for (int i = 0; i < 7; i++) TWIN_CALL(twin, F32(i, rows[i], columns[i]));
    ck_assert_int_eq(stats_of(twin.fast).compiles, 4); /* any, 1 row, 1 column, no row */
    ck_assert_ptr_nonnull(strstr(sn_dump(twin.fast, "guards"), "s0"));
    twin_free(twin);
}
END_TEST

static sn_status halves(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_view(sn_mul(x, x), SN_INTS(sn_size(x, 0) / 2, 2)));
}

START_TEST(c5_guards_hold_and_are_kept) {
    const Twin twin = twin_new(halves, NULL, NULL, NULL);
    static const int64_t sizes[] = {8, 16, 10, 40, 4, 2};
    for (int i = 0; i < 6; i++) TWIN_CALL(twin, F32(i, sizes[i]));
    ck_assert_int_le(stats_of(twin.fast).compiles, 3); /* any, and half of 2: one row */
    ck_assert_ptr_null(SN_CALL(twin.fast, F32(1, 9))); /* as in eager: 9 is no multiple of 2 */
    expect_error(SN_ERR_SHAPE, "view");
    twin_free(twin);
}
END_TEST

static sn_status joins(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 1))); }

START_TEST(c5_broadcasting_is_a_branch_on_sizes) {
    const Twin twin = twin_new(joins, NULL, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_ALWAYS));
    TWIN_CALL(twin, F32(1, 6), F32(2, 6));
    TWIN_CALL(twin, F32(1, 9), F32(2, 9));
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    TWIN_CALL(twin, F32(1, 9), F32(2, 1));
    ck_assert_int_eq(stats_of(twin.fast).compiles, 2);
    ck_assert_ptr_null(SN_CALL(twin.fast, F32(1, 9), F32(2, 6)));
    expect_error(SN_ERR_SHAPE, "9");
    twin_free(twin);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        c1_loop_reuses_one_segment,
        c1_segments_are_compiled_at_the_return,
        c1_mismatch_shares_the_beginning,
        c1_mismatch_runs_nothing,
        c1_failed_op_leaves_no_trace,
        c2_only_what_survives_is_an_output,
        c2_kept_values_are_outputs,
        c2_a_handle_in_scope_is_recomputed_exactly,
        c2_values_are_made_before_what_they_depend_on_is_written,
        c2_the_segments_own_write_back_counts,
        c2_whatever_writes_later_finds_earlier_values_made,
        c3_grad_mode_belongs_to_each_node,
        c3_freeing_the_running_function_is_refused,
        c3_freeing_a_function_whose_body_runs_is_refused,
        c3_process_wide_calls_are_refused_in_bodies,
        c3_metadata_is_answered_at_once,
        c3_a_seed_in_the_body_is_in_order,
        c4_a_float_that_differs_is_a_runtime_value,
        c4_a_rule_that_branches_on_a_number_is_guarded,
        c4_what_rules_read_as_constants_specialises,
        c4_alpha_one_is_guarded,
        c4_a_position_never_costs_a_recompile,
        c4_nor_does_one_where_gradients_flow,
        c4_scalar_inputs_are_runtime_values,
        c4_numbers_and_their_alpha_keep_the_bits_of_eager,
        c5_sizes_below_two_specialise,
        c5_guards_hold_and_are_kept,
        c5_broadcasting_is_a_branch_on_sizes,
    };
    return contract_main("test_contract_c", tests, (int)(sizeof tests / sizeof *tests));
}
