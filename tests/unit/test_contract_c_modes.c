/* test_contract_c_modes.c: the contract's rules of capture, second half [semantics C6 to C14]:
 * replay mode, value errors, pointers, bounds, nested calls, custom ops, threads, counting. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>

#include "runtime/core/dispatch.h"
#include "runtime/device/execute.h"
#include "runtime/capture/function/function.h"
#include "tests/unit/contract.h"

typedef struct Host {
    int runs, branch, depth;
    sn_tensor *w, *kept;
    sn_function *callee;
    int32_t ids[4];
    float seen[8];
} Host;

/* C6: replay mode ----------------------------------------------------------------------------- */

static sn_status affine(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    return sn_out(f, 0, sn_add(sn_mul(sn_in(f, 0), host->w), host->w));
}

static sn_status works_outside(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const to = sn_full(SN_INTS(1), sn_float(1), SN_F32);
    host->runs++;
    return sn_out(f, 0, sn_exp_out(to, sn_in(f, 0))); /* resized: in no segment */
}

static sn_status reads_first(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    const double first = sn_item(sn_in(f, 1));
    return sn_out(f, 0, first > 0 ? sn_neg(x) : sn_exp(x));
}

#define REPLAY(...) SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, __VA_ARGS__)

/* One segment is not all of a call that also runs ops or reads values outside of it. */
START_TEST(c6_what_runs_outside_of_segments_is_not_replayed) {
    Host fast = {0}, slow = {0};
    const Twin twin = twin_new(works_outside, &fast, &slow, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY)),
               reads = twin_new(reads_first, NULL, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 6; i++) {
        TWIN_CALL(twin, F32(i, 10));
        TWIN_CALL(reads, F32(i, 10), sn_full(SN_INTS(1), sn_float(i % 2 ? 1 : -1), SN_F32));
    }
    ck_assert_int_eq(fast.runs, 6);
    twin_free(twin);
    twin_free(reads);
}
END_TEST

START_TEST(c6_replay_does_not_run_the_body) {
    Host host = {.w = F32(1, 10)}, slow = {.w = host.w};
    const Twin twin = twin_new(affine, &host, &slow, REPLAY(.full_graph = true));
    for (int i = 0; i < 10; i++) TWIN_CALL(twin, F32(i, 10));
    ck_assert_int_le(host.runs, 2);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

START_TEST(c6_closed_over_tensors_are_bound_by_identity) {
    Host host = {.w = F32(1, 10)};
    sn_function *const fn = sn_compile(affine, &host, REPLAY(0));
    sn_tensor *const x = F32(3, 10);
    for (int i = 0; i < 3; i++) SN_CALL(fn, x);
    sn_tensor *const bound = host.w;
    sn_fill_tensor_(bound, sn_scalar_tensor(sn_float(2), SN_F32)); /* a write is seen */
    ck_assert(same_bits(SN_CALL(fn, x), sn_add_scalar(sn_mul_scalar(x, sn_float(2)), sn_float(2))));
    host.w = F32(9, 10); /* rebinding the field is not */
    ck_assert(same_bits(SN_CALL(fn, x), sn_add(sn_mul(x, bound), bound)));
    sn_function_free(fn);
}
END_TEST

static sn_status by_size(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mul_scalar(x, sn_float(1.0 / (double)sn_size(x, 0))));
}

START_TEST(c6_plain_getters_specialise) {
    Host fast = {0}, slow = {0};
    const Twin twin = twin_new(by_size, &fast, &slow, REPLAY(0));
    static const int64_t sizes[] = {8, 16, 16, 8, 4, 16, 4, 4, 32, 64, 32, 8};
    for (int i = 0; i < 12; i++) TWIN_CALL(twin, F32(i, sizes[i]));
    twin_free(twin);
}
END_TEST

static sn_status two_inputs(sn_frame *f) {
    return sn_out(f, 0, sn_add(sn_in(f, 0), sn_mul_scalar(sn_in(f, 1), sn_float(2))));
}

START_TEST(c6_replay_guards_which_inputs_are_one_tensor) {
    const Twin twin = twin_new(two_inputs, NULL, NULL, REPLAY(0));
    sn_tensor *const x = F32(1, 10), *const y = F32(2, 10);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, x, x);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, x, y);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, y, y);
    twin_free(twin);
}
END_TEST

static sn_status writes_first(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_add_scalar_(x, sn_float(1));
    return sn_out(f, 0, sn_mul(sn_in(f, 1), x));
}

START_TEST(c6_replay_guards_aliases_of_what_is_written) {
    const Twin twin = twin_new(writes_first, NULL, NULL, REPLAY(0));
    for (int i = 0; i < 8; i++) {
        sn_tensor *const a = F32(i, 10), *const b = sn_clone(a);
        if (i % 4 < 2)
            twin_call(twin, SN_TENSORS(a, F32(2, 10)), SN_TENSORS(b, F32(2, 10)));
        else /* a view of the memory that is written */
            twin_call(twin, SN_TENSORS(a, sn_alias(a)), SN_TENSORS(b, sn_alias(b)));
        ck_assert(same_bits(a, b));
    }
    twin_free(twin);
}
END_TEST

static int warnings;
static char warned[512];
static void count_warnings(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)topic, (void)level;
    if (!strstr(line, "turned into verify")) return;
    warnings++;
    snprintf(warned, sizeof warned, "%s", line);
}

static sn_status breaks(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    sn_tensor *const y = sn_relu(sn_in(f, 0));
    sn_item(sn_sum(y));
    return sn_out(f, 0, sn_add(y, y));
}

START_TEST(c6_a_break_turns_replay_into_verify_said_once) {
    Host host = {0}, slow = {0};
    sn_logging_set(count_warnings, NULL, "");
    const Twin twin = twin_new(breaks, &host, &slow, REPLAY(.name = "breaks"));
    for (int i = 0; i < 6; i++) TWIN_CALL(twin, F32(i, 10));
    ck_assert_int_eq(host.runs, 6);
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warned, "breaks"));
    twin_free(twin);
    sn_function *const strict = sn_compile(breaks, &host, REPLAY(.full_graph = true));
    ck_assert_ptr_null(SN_CALL(strict, F32(1, 10)));
    expect_error(SN_ERR_STRICT, "full_graph");
    sn_function_free(strict);
}
END_TEST

START_TEST(c6_every_nth_call_is_verified) {
    Host host = {.w = F32(1, 10)};
    sn_function *const fn = sn_compile(affine, &host, REPLAY(.check_every = 5));
    sn_tensor *const x = F32(1, 10);
    for (int i = 0; i < 3; i++) SN_CALL(fn, x);
    const int learnt = host.runs;
    for (int i = 0; i < 50; i++) SN_CALL(fn, x);
    ck_assert_int_eq(host.runs - learnt, 10);
    sn_function_free(fn);
}
END_TEST

static sn_status keeps(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    host->kept = sn_keep(h);
    return sn_out(f, 0, sn_add(h, h));
}

START_TEST(c6_keeping_in_a_body_is_not_replayed) {
    Host host = {0};
    sn_function *const fn = sn_compile(keeps, &host, REPLAY(0));
    for (int i = 0; i < 5; i++) {
        sn_tensor *const x = F32(i, 10);
        ck_assert_ptr_nonnull(SN_CALL(fn, x));
        ck_assert(same_bits(host.kept, sn_exp(x))); /* what the caller holds is this call's */
        sn_release(host.kept);
    }
    ck_assert_int_eq(host.runs, 5);
    sn_function_free(fn);
}
END_TEST

/* C8: errors that depend on values ------------------------------------------------------------ */

static sn_status looks_up(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_add_scalar_(x, sn_float(1));
    sn_tensor *const rows = sn_index_select(x, 0, sn_in(f, 1));
    sn_mul_scalar_(x, sn_float(2));
    return sn_out(f, 0, rows);
}

static sn_tensor *indices(int64_t a, int64_t b) { return sn_from_data((int64_t[]){a, b}, SN_INTS(2), SN_I64); }

START_TEST(c8_a_failed_check_commits_what_eager_would) {
    const Twin twin = twin_new(looks_up, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const a = F32(i, 5, 3), *const b = sn_clone(a);
        twin_call(twin, SN_TENSORS(a, indices(1, 4)), SN_TENSORS(b, indices(1, 4)));
        ck_assert(same_bits(a, b));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_tensor *const a = F32(7, 5, 3), *const b = sn_clone(a), *const bad = indices(1, 5);
    ck_assert_ptr_null(SN_CALL(twin.eager, b, bad));
    expect_error(SN_ERR_VALUE, "5");
    ck_assert_ptr_null(SN_CALL(twin.fast, a, bad));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_VALUE);
    ck_assert_ptr_nonnull(strstr(error->op, "index_select"));
    ck_assert_ptr_nonnull(strstr(error->message, "5"));
    ck_assert(same_bits(a, b));                                  /* the first write happened once, the second did not */
    ck_assert_ptr_nonnull(SN_CALL(twin.fast, a, indices(0, 0))); /* and it works again */
    twin_free(twin);
}
END_TEST

static sn_status looks_up_for_nobody(sn_frame *f) {
    sn_tensor *const row = sn_embedding(sn_reshape(sn_in(f, 1), SN_INTS(5, 1)), sn_in(f, 2));
    return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_reshape(row, SN_INTS(1))));
}

/* A check is made though all that reads the value has no elements. */
START_TEST(c8_a_value_for_no_elements_is_checked) {
    sn_function *const fn = sn_compile(looks_up_for_nobody, NULL, NULL);
    sn_tensor *const none = F32(1, 0), *const table = F32(2, 5);
    for (int64_t i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(SN_CALL(fn, none, table, sn_from_data(&i, SN_INTS(1), SN_I64)));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_ptr_null(SN_CALL(fn, none, table, sn_from_data((int64_t[]){9}, SN_INTS(1), SN_I64)));
    expect_error(SN_ERR_VALUE, "9 is out of range");
    sn_function_free(fn);
}
END_TEST

static sn_status doubles_in_place(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_exp(x);
    if (!sn_mul_scalar_(x, sn_float(2))) ((Host *)sn_closure(f))->branch++;
    return sn_check() ? sn_check() : sn_out(f, 0, y);
}

static sn_tensor *wrapped(float *data, int64_t stride, bool read_only) {
    return sn_wrap(SN_BLOB(.data = data, .bytes = 64, .sizes = SN_INTS(2, 3), .strides = SN_INTS(stride, 2),
                           .dtype = SN_F32, .read_only = read_only));
}

/* Code exists for these sizes and strides when memory comes that must not be written so. */
START_TEST(c8_what_may_not_be_written_is_refused_by_compiled_code_too) {
    float data[16] = {1, 2, 3, 4}, kept[16];
    for (int replay = 0; replay < 2; replay++) {
        Host host = {0};
        sn_function *const fn = sn_compile(doubles_in_place, &host,
                                           SN_COMPILE_OPTIONS(.mode = replay ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY));
        for (int i = 0; i < 4; i++) ck_assert_ptr_nonnull(SN_CALL(fn, wrapped(data, 6 + i % 2, false)));
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        memcpy(kept, data, sizeof data);
        ck_assert_ptr_null(SN_CALL(fn, wrapped(data, 6, true)));
        expect_error(SN_ERR_STATE, "read-only");
        ck_assert_ptr_null(SN_CALL(fn, wrapped(data, 4, false))); /* (0, 2) is (1, 0) */
        expect_error(SN_ERR_VALUE, "at one place in memory; clone() it first");
        ck_assert_int_eq(host.branch, 2); /* both at the call */
        ck_assert(!memcmp(kept, data, sizeof data));
        sn_function_free(fn);
    }
}
END_TEST

static sn_status writes_by_a_view(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_mul_scalar_(sn_select(x, 0, 0), sn_float(2));
    return sn_out(f, 0, sn_exp(x));
}

START_TEST(c8_read_only_memory_is_not_written_by_a_pending_view) {
    float data[16] = {1, 2, 3, 4}, kept[16];
    sn_function *const fn = sn_compile(writes_by_a_view, NULL, NULL);
    for (int i = 0; i < 3; i++) ck_assert_ptr_nonnull(SN_CALL(fn, wrapped(data, 6, false)));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    memcpy(kept, data, sizeof data);
    ck_assert_ptr_null(SN_CALL(fn, wrapped(data, 6, true)));
    expect_error(SN_ERR_STATE, "read-only");
    ck_assert(!memcmp(kept, data, sizeof data));
    sn_function_free(fn);
}
END_TEST

static sn_status holds_the_failed(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    sn_tensor *const rows = sn_index_select(x, 0, sn_in(f, 1));
    host->branch = rows != NULL;
    host->kept = sn_keep(rows);
    sn_graph_break("look at it");
    return sn_out(f, 0, x);
}

START_TEST(c8_handles_of_failed_ops_become_error_tensors) {
    Host host = {0};
    sn_function *const fn = sn_compile(holds_the_failed, &host, NULL);
    sn_tensor *const x = F32(1, 5, 3);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(SN_CALL(fn, x, indices(0, 9)));
        expect_error(SN_ERR_VALUE, "9");
        ck_assert_int_eq(host.branch, 1); /* the one documented difference */
        ck_assert(!sn_ok(host.kept));
        ck_assert_ptr_null(sn_relu(host.kept)); /* treated as NULL */
        ck_assert_int_ne(sn_error_take()->status, SN_OK);
        sn_release(host.kept);
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(c8_eager_checks_answer_at_the_op) {
    Host host = {0};
    sn_function *const fn = sn_compile(holds_the_failed, &host, SN_COMPILE_OPTIONS(.eager_checks = true));
    sn_tensor *const x = F32(1, 5, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_null(SN_CALL(fn, x, indices(0, 9)));
        expect_error(SN_ERR_VALUE, "9");
        ck_assert_int_eq(host.branch, 0); /* as in eager */
        ck_assert_ptr_nonnull(SN_CALL(fn, x, indices(0, 4)));
        sn_release(host.kept);
    }
    sn_function_free(fn);
}
END_TEST

/* C9: pointers -------------------------------------------------------------------------------- */

static sn_status from_host_memory(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const ids = sn_from_data(host->ids, SN_INTS(4), SN_I32);
    host->ids[0] = -1; /* copied: what follows is not seen */
    return sn_out(f, 0, sn_mul(sn_in(f, 0), ids));
}

START_TEST(c9_creation_from_host_memory_is_an_input) {
    Host host = {0};
    sn_function *const fn = sn_compile(from_host_memory, &host, NULL);
    sn_tensor *const x = F32(1, 4);
    for (int32_t i = 0; i < 4; i++) {
        const int32_t ids[4] = {i, i + 1, 7, 100 - i};
        memcpy(host.ids, ids, sizeof ids);
        sn_tensor *const y = SN_CALL(fn, x);
        ck_assert(same_bits(y, sn_mul(x, sn_from_data(ids, SN_INTS(4), SN_I32))));
    }
    ck_assert_int_eq(stats_of(fn).compiles, 1);
    sn_function_free(fn);
}
END_TEST

static sn_status reads_and_writes(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const y = sn_add(x, x);
    memcpy(host->seen, sn_data(y, SN_F32), sizeof host->seen); /* flushes */
    float *const at = sn_data_mut(x, SN_F32);
    for (int i = 0; i < 8; i++) at[i] += host->seen[i];
    return sn_out(f, 0, sn_mul(x, y));
}

START_TEST(c9_data_flushes_and_writes_are_seen) {
    Host fast = {0}, slow = {0};
    const Twin twin = twin_new(reads_and_writes, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const a = F32(i, 8), *const b = sn_clone(a);
        const uint32_t version = tensor_version(a);
        twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
        ck_assert(same_bits(a, b));
        ck_assert(!memcmp(fast.seen, slow.seen, sizeof fast.seen));
        ck_assert_uint_gt(tensor_version(a), version);
    }
    twin_free(twin);
}
END_TEST

static sn_status own_pointer(sn_frame *f) {
    float *const memory = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const before = sn_add_scalar(x, sn_float(1));
    sn_touch(x); /* about to write: what is pending has read the old value */
    memory[0] += 10;
    sn_touch(x);
    return sn_out(f, 0, sn_mul(before, x));
}

START_TEST(c9_touch_announces_writes_by_own_pointers) {
    float a[4] = {1, 2, 3, 4}, b[4] = {1, 2, 3, 4};
    const Twin twin = twin_new(own_pointer, a, b, NULL);
    const sn_blob blobs[] = {
        {.size = sizeof *blobs, .data = a, .bytes = sizeof a, .sizes = SN_INTS(4), .dtype = SN_F32},
        {.size = sizeof *blobs, .data = b, .bytes = sizeof b, .sizes = SN_INTS(4), .dtype = SN_F32}};
    sn_tensor *const x = sn_wrap(&blobs[0]), *const y = sn_wrap(&blobs[1]);
    for (int i = 0; i < 4; i++) twin_call(twin, SN_TENSORS(x), SN_TENSORS(y));
    ck_assert(a[0] == 41);
    twin_free(twin);
}
END_TEST

static sn_status adds_one(sn_frame *f) {
    sn_add_scalar_(sn_in(f, 0), sn_float(1));
    return SN_OK;
}

START_TEST(c9_writes_are_done_when_the_call_returns) {
    float memory[4] = {0, 0, 0, 0};
    sn_tensor *const x = sn_wrap(SN_BLOB(.data = memory, .bytes = sizeof memory, .sizes = SN_INTS(4), .dtype = SN_F32));
    sn_function *const fn = sn_compile(adds_one, NULL, NULL);
    for (int i = 1; i <= 4; i++) {
        ck_assert_int_eq(sn_call(fn, &x, 1, NULL, 0), SN_OK);
        ck_assert(memory[3] == (float)i);
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

/* C10: pending work is bounded ---------------------------------------------------------------- */

static sn_status long_chain(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < 100; i++) x = sn_mul_scalar(x, sn_float(1.01));
    return sn_out(f, 0, x);
}

START_TEST(c10_a_segment_ends_at_the_op_bound) {
    ck_assert_int_eq(sn_setting_set("pending_ops", "30"), SN_OK);
    const Twin twin = twin_new(long_chain, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 16));
    const sn_stats stats = stats_of(twin.fast);
    ck_assert_int_eq(stats.graphs, 2); /* three of 30 ops, which are one segment, and one of 10 */
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "pending"));
    twin_free(twin);
}
END_TEST

static sn_status drops_inputs(sn_frame *f) {
    sn_tensor *sum = sn_in(f, 0);
    for (int i = 0; i < 64; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const big = F32(i, 1 << 16); /* 256 KiB that only pending work will hold */
        sum = sn_scope_return(scope, sn_add(sum, sn_sum(big)));
    }
    return sn_out(f, 0, sum);
}

START_TEST(c10_a_segment_ends_at_the_byte_bound) {
    ck_assert_int_eq(sn_setting_set("pending_mib", "2"), SN_OK);
    const Twin twin = twin_new(drops_inputs, NULL, NULL, NULL);
    for (int i = 0; i < 2; i++) TWIN_CALL(twin, F32(i, 4));
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "pending"));
    ck_assert_int_ge(stats_of(twin.fast).breaks, 1);
    twin_free(twin);
}
END_TEST

/* C11: nested calls --------------------------------------------------------------------------- */

static sn_status inner(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_neg(sn_in(f, 0)))); }

static sn_status outer(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const y = SN_CALL(host->callee, sn_relu(x));
    return sn_out(f, 0, sn_add(y, x));
}

START_TEST(c11_nested_calls_inline) {
    Host host = {.callee = sn_compile(inner, NULL, NULL)};
    const Twin twin = twin_new(outer, &host, &host, SN_COMPILE_OPTIONS(.full_graph = true));
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 12);
        sn_tensor *const want = sn_add(sn_exp(sn_neg(sn_relu(x))), x);
        ck_assert(same_bits(SN_CALL(twin.fast, x), want));
    }
    ck_assert_int_eq(stats_of(twin.fast).graphs, 1);
    ck_assert_int_eq(stats_of(twin.fast).kernels, 1);
    ck_assert_int_eq(stats_of(host.callee).compiles, 0);
    twin_free(twin);
    sn_function_free(host.callee);
}
END_TEST

static sn_status recursive(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_mul_scalar(sn_in(f, 0), sn_float(0.9));
    if (host->depth-- <= 0) return sn_out(f, 0, x);
    return sn_out(f, 0, sn_add(SN_CALL(host->callee, x), x));
}

START_TEST(c11_recursion_is_inlining) {
    Host host = {0};
    host.callee = sn_compile(recursive, &host, NULL);
    sn_tensor *want = NULL;
    for (int i = 0; i < 3; i++) {
        host.depth = 5;
        sn_tensor *const y = SN_CALL(host.callee, F32(1, 9));
        ck_assert_ptr_nonnull(y);
        if (want) ck_assert(same_bits(y, want));
        want = y;
    }
    ck_assert_int_eq(stats_of(host.callee).graphs, 1);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(host.callee);
}
END_TEST

/* A callee as a segment of its own: the caller's graph ends before it, and it runs as it is. */
START_TEST(c11_an_eager_callee_runs_as_it_is) {
    Host host = {.callee = sn_compile(inner, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER))};
    sn_function *const fn = sn_compile(outer, &host, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 12), *const y = SN_CALL(fn, x);
        ck_assert(same_bits(y, sn_add(sn_exp(sn_neg(sn_relu(x))), x)));
    }
    ck_assert_int_eq(stats_of(fn).graphs, 2); /* relu; add */
    ck_assert_int_eq(stats_of(fn).breaks, 1);
    ck_assert_ptr_nonnull(strstr(sn_explain(fn), "SN_COMPILE_EAGER"));
    sn_function_free(fn);
    sn_function_free(host.callee);
}
END_TEST

static sn_status picks(sn_frame *f) { return sn_out(f, 0, sn_index_select(sn_in(f, 0), 0, sn_in(f, 1))); }
static sn_status outer_picks(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const y = SN_CALL(host->callee, sn_relu(x), sn_in(f, 1));
    return sn_out(f, 0, sn_index_select(sn_add(y, y), 0, sn_in(f, 1)));
}

START_TEST(c11_demands_of_a_callee_hold_for_its_ops) {
    Host host = {.callee = sn_compile(picks, NULL, SN_COMPILE_OPTIONS(.eager_checks = true))};
    sn_function *const fn = sn_compile(outer_picks, &host, NULL);
    sn_tensor *const x = F32(1, 5, 3), *const at = indices(1, 0);
    for (int i = 0; i < 2; i++) ck_assert_ptr_nonnull(SN_CALL(fn, x, at));
    ck_assert_int_eq(stats_of(fn).breaks, 1); /* at the callee's op, not at the caller's */
    sn_function_free(host.callee);
    host.callee =
        sn_compile(picks, NULL, SN_COMPILE_OPTIONS(.eager_checks = true, .name = "picks", .full_graph = true));
    ck_assert_ptr_null(SN_CALL(fn, x, at));
    expect_error(SN_ERR_STRICT, "picks");
    sn_function_free(host.callee);
    sn_function_free(fn);
}
END_TEST

static void expect_refused(const sn_compile_options *options, sn_status status, const char *text) {
    ck_assert_ptr_null(sn_compile(inner, NULL, options));
    expect_error(status, text);
}

START_TEST(c11_options_without_effect_are_refused) {
    expect_refused(SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)7), SN_ERR_ARGUMENT, "mode");
    expect_refused(SN_COMPILE_OPTIONS(.numerics = (sn_numerics)9), SN_ERR_ARGUMENT, "numerics");
    expect_refused(SN_COMPILE_OPTIONS(.dynamic = (sn_dynamic)3), SN_ERR_ARGUMENT, "dynamic");
    expect_refused(SN_COMPILE_OPTIONS(.check_every = -1), SN_ERR_ARGUMENT, "check_every");
    expect_refused(SN_COMPILE_OPTIONS(.recompile_limit = -1), SN_ERR_ARGUMENT, "recompile_limit");
}
END_TEST

/* C12: custom ops ----------------------------------------------------------------------------- */

static int kernel_runs;

static sn_status twice_cpu(sn_frame *f) {
    kernel_runs++;
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2)));
}

static sn_status like_meta(sn_frame *f) { return sn_out(f, 0, tensor_without_data(sn_in(f, 0)->base.meta)); }

static const sn_op *pure_op, *plain_op, *ordered_op;

static sn_status uses_ops(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_relu(sn_in(f, 0)))};
    const sn_op *const op = *(const sn_op **)sn_closure(f);
    sn_op_call1(op, in, 1); /* the result is not used */
    sn_tensor *const y = sn_op_call1(op, in, 1);
    return sn_out(f, 0, sn_add(y, y));
}

static void register_ops(void) {
    if (pure_op) return;
    pure_op = sn_op_register(SN_OP_DESC(.schema = "contract::pure(Tensor x) -> Tensor", .flags = SN_OP_PURE,
                                        .meta = like_meta, .cpu = twice_cpu));
    plain_op = sn_op_register(SN_OP_DESC(.schema = "contract::plain(Tensor x) -> Tensor", .cpu = twice_cpu));
    ordered_op = sn_op_register(SN_OP_DESC(.schema = "contract::ordered(Tensor x) -> Tensor", .flags = SN_OP_ORDERED,
                                           .meta = like_meta, .cpu = twice_cpu));
    ck_assert(pure_op && plain_op && ordered_op);
}

static int runs_of_third_call(const sn_op *op, int64_t *breaks) {
    sn_function *const fn = sn_compile(uses_ops, &op, NULL);
    sn_tensor *const x = F32(1, 6);
    sn_tensor *const want = sn_mul_scalar(sn_relu(x), sn_float(4));
    for (int i = 0; i < 3; i++) {
        kernel_runs = 0;
        sn_tensor *const y = SN_CALL(fn, x);
        ck_assert_msg(y && same_bits(y, want), "%s", sn_error_take()->message);
    }
    *breaks = stats_of(fn).breaks;
    sn_function_free(fn);
    return kernel_runs;
}

START_TEST(c12_pure_ops_with_a_meta_rule_are_captured) {
    register_ops();
    int64_t breaks;
    ck_assert_int_le(runs_of_third_call(pure_op, &breaks), 1); /* merged */
    ck_assert_int_eq(breaks, 0);
}
END_TEST

START_TEST(c12_other_ops_flush_and_run_at_once) {
    register_ops();
    int64_t breaks;
    ck_assert_int_eq(runs_of_third_call(plain_op, &breaks), 2);
    ck_assert_int_gt(breaks, 0);
}
END_TEST

START_TEST(c12_ordered_ops_are_never_merged_or_removed) {
    register_ops();
    int64_t breaks;
    ck_assert_int_eq(runs_of_third_call(ordered_op, &breaks), 2);
}
END_TEST

/* cube(x, k) = x^3 with the derivative k x^2 g: its rules are written with ops. */
static sn_status cube_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status cube_cpu(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mul(sn_mul(x, x), x));
}
static sn_status cube_derivative(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const square = sn_mul(x, x);
    sn_tensor *const slope = sn_mul_scalar(square, sn_in_value(f, 1));
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), slope));
}
static sn_status host_derivative(sn_frame *f) { /* no graph can say it */
    sn_tensor *const x = sn_in(f, 0);
    const float *const from = sn_data(x, SN_F32);
    if (!from) return sn_check();
    sn_tensor *const slope = sn_full_like(x, sn_float(3 * from[0] * from[0]));
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), slope));
}

static sn_status sum_of_op(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_relu(sn_in(f, 0))), sn_float(3)};
    return sn_out(f, 0, sn_sum(sn_op_call1(*(const sn_op **)sn_closure(f), in, 2)));
}

static sn_status step_of_op(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_relu(sn_in(f, 0))), sn_float(3)};
    sn_tensor *const y = sn_sum(sn_op_call1(*(const sn_op **)sn_closure(f), in, 2));
    sn_backward(y);
    return sn_out(f, 0, y);
}

static sn_tensor *grad_by(sn_function *fn, sn_tensor *x, bool inside) {
    sn_grad_set(x, NULL);
    sn_tensor *const y = SN_CALL(fn, x);
    if (!inside) sn_backward(y);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    return sn_clone(sn_grad(x)); /* the next call drops it */
}

static void compare_gradients(const sn_op *op, sn_body body, bool inside) {
    sn_tensor *const x = LEAF(1, 6);
    const Twin twin = twin_new(body, &op, &op, NULL);
    sn_tensor *const want = grad_by(twin.eager, x, inside);
    ck_assert_ptr_nonnull(want);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(grad_by(twin.fast, x, inside), want));
    twin_free(twin);
}

START_TEST(c12_derivatives_of_users_ops_are_compiled) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "contract::cube(Tensor x, float k) -> Tensor", .flags = SN_OP_PURE,
                                  .meta = cube_meta, .cpu = cube_cpu, .derivative = cube_derivative, .saves = "x"));
    compare_gradients(op, sum_of_op, false);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    compare_gradients(op, step_of_op, true);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
}
END_TEST

START_TEST(c12_derivatives_that_no_graph_can_say_run_eagerly) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "contract::host(Tensor x, float k) -> Tensor", .flags = SN_OP_PURE,
                                  .meta = cube_meta, .cpu = cube_cpu, .derivative = host_derivative, .saves = "x"));
    compare_gradients(op, sum_of_op, false);
    ck_assert_int_ne(last_path(), SN_PATH_COMPILED);
    compare_gradients(op, step_of_op, true);
}
END_TEST

START_TEST(c12_a_missing_meta_rule_breaks_with_its_reason) {
    const sn_op *const op = sn_op_register(
        SN_OP_DESC(.schema = "contract::unknown(Tensor x, float k) -> Tensor", .flags = SN_OP_PURE, .cpu = cube_cpu));
    sn_function *const fn = sn_compile(sum_of_op, (void *)&op, NULL);
    for (int i = 0; i < 3; i++) ck_assert_ptr_nonnull(SN_CALL(fn, F32(1, 6)));
    ck_assert_int_ge(stats_of(fn).breaks, 1);
    ck_assert_ptr_nonnull(strstr(sn_explain(fn), "an op without a meta rule"));
    sn_function *const strict = sn_compile(sum_of_op, (void *)&op, SN_COMPILE_OPTIONS(.full_graph = true));
    ck_assert_ptr_null(SN_CALL(strict, F32(1, 6)));
    expect_error(SN_ERR_STRICT, "an op without a meta rule");
    sn_function_free(strict);
    sn_function_free(fn);
}
END_TEST

START_TEST(c12_a_decomposition_is_captured_as_its_parts) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "contract::parts(Tensor x, float k) -> Tensor", .decomposition = cube_cpu));
    compare_gradients(op, sum_of_op, false);
    compare_gradients(op, step_of_op, true);
    sn_function *const fn = sn_compile(sum_of_op, (void *)&op, SN_COMPILE_OPTIONS(.full_graph = true));
    for (int i = 0; i < 2; i++) ck_assert_msg(SN_CALL(fn, F32(1, 6)) != NULL, "%s", sn_error_take()->message);
    ck_assert_ptr_null(strstr(sn_dump(fn, "capture"), "contract::parts"));
    sn_function_free(fn);
}
END_TEST

/* C13: threads and unwinding ------------------------------------------------------------------ */

static sn_status leaves_scopes_open(sn_frame *f) {
    sn_scope_begin();
    sn_scope_begin();
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

START_TEST(c13_scopes_left_open_are_closed) {
    sn_function *const fn = sn_compile(leaves_scopes_open, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        const sn_scope outside = sn_scope_begin();
        sn_tensor *const x = F32(i, 6);
        ck_assert(same_bits(SN_CALL(fn, x), sn_relu(x)));
        ck_assert_int_eq(sn_scope_end(outside), SN_OK);
    }
    sn_function_free(fn);
}
END_TEST

static jmp_buf jump_out;

static sn_status jumps(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_add_scalar_(x, sn_float(1));
    if (sn_in_int(f, 1)) longjmp(jump_out, 1);
    return sn_out(f, 0, sn_relu(x));
}

static float first_of(sn_tensor *t) {
    float values[3] = {0};
    sn_read(t, values, sizeof values);
    return values[0];
}

START_TEST(c13_a_body_left_by_a_jump_is_flushed) {
    sn_function *const fn = sn_compile(jumps, NULL, NULL);
    sn_tensor *const x = sn_keep(sn_full(SN_INTS(3), sn_float(2), SN_F32)), *y;
    for (int i = 0; i < 3; i++) {
        const sn_scope outside = sn_scope_begin();
        if (!setjmp(jump_out)) sn_call_values(fn, (sn_value[]){sn_val(x), sn_int(1)}, 2, &y, 1);
        ck_assert_float_eq(first_of(x), (float)(3 + 2 * i)); /* what was pending has run */
        ck_assert_int_eq(sn_scope_end(outside), SN_OK);
        sn_call_values(fn, (sn_value[]){sn_val(x), sn_int(0)}, 2, &y, 1);
        ck_assert_float_eq(first_of(y), (float)(4 + 2 * i));
    }
    sn_function_free(fn);
    sn_release(x);
}
END_TEST

typedef struct Worker {
    sn_function *fn;
    float data[64], result[64];
    bool ok;
} Worker;

static void *work(void *context) {
    Worker *const w = context;
    w->ok = true;
    for (int i = 0; i < 200 && w->ok; i++) {
        const sn_scope scope = sn_scope_begin();
        const int64_t n = 2 + (i % 7) * 9;
        sn_tensor *const y = SN_CALL(w->fn, sn_from_data(w->data, SN_INTS(n), SN_F32));
        w->ok = y && sn_read(y, w->result, (size_t)n * sizeof(float)) == SN_OK;
        for (int64_t k = 0; k < n; k++) w->ok &= w->result[k] == w->data[k] * 2 + w->data[k] * 2;
        w->ok &= sn_scope_end(scope) == SN_OK;
    }
    return NULL;
}

static sn_status four_times(sn_frame *f) {
    sn_tensor *const y = sn_mul_scalar(sn_in(f, 0), sn_float(2));
    return sn_out(f, 0, sn_add(y, y));
}

START_TEST(c13_one_function_on_many_threads) {
    Worker workers[4];
    pthread_t threads[4];
    sn_function *const fn = sn_compile(four_times, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        workers[i].fn = fn;
        fill_floats(workers[i].data, 64, (uint64_t)i);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) ck_assert_msg(workers[i].ok, "thread %d", i);
    ck_assert_int_eq(stats_of(fn).calls, 800);
    sn_function_free(fn);
}
END_TEST

/* C14: falling back is counted ---------------------------------------------------------------- */

START_TEST(c14_every_call_says_its_path) {
    Host host = {0};
    sn_function *const fn = sn_compile(breaks, &host, NULL);
    sn_tensor *const x = F32(1, 10);
    SN_CALL(fn, x);
    ck_assert_int_eq(last_path(), SN_PATH_EAGER);
    ck_assert_str_ne(last_reason(), "");
    SN_CALL(fn, x);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_str_eq(last_reason(), "");
    const sn_stats stats = stats_of(fn);
    ck_assert_int_eq(stats.calls, 2);
    ck_assert_int_eq(stats.ops_generated, 3); /* the first call is left out */
    ck_assert_int_eq(stats.ops_eager, 0);
    ck_assert_ptr_nonnull(strstr(sn_explain(fn), "compiled share 1.00"));
    ck_assert_ptr_nonnull(strstr(sn_explain(fn), "a value is needed on the host"));
    ck_assert_ptr_nonnull(strstr(sn_explain_json(fn), "\"compiled_share\": 1.0000"));
    sn_function_free(fn);
}
END_TEST

START_TEST(c14_the_recompile_limit_is_counted_and_said) {
    sn_function *const fn =
        sn_compile(four_times, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER, .recompile_limit = 3));
    for (int64_t n = 2; n < 9; n++) {
        sn_tensor *const x = F32(1, n);
        ck_assert(same_bits(SN_CALL(fn, x), sn_mul_scalar(x, sn_float(4))));
    }
    ck_assert_int_eq(stats_of(fn).compiles, 3);
    ck_assert_int_eq(last_path(), SN_PATH_EAGER);
    ck_assert_ptr_nonnull(strstr(last_reason(), "limit"));
    ck_assert_ptr_nonnull(strstr(sn_explain(fn), "recompile limit: 4 calls"));
    SN_CALL(fn, F32(1, 2)); /* old entries stay */
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(fn);
}
END_TEST

START_TEST(c14_the_setting_of_the_limit_counts) {
    ck_assert_int_eq(sn_setting_set("recompile_limit", "2"), SN_OK);
    sn_function *const fn = sn_compile(four_times, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    for (int64_t n = 2; n < 7; n++) SN_CALL(fn, F32(1, n));
    ck_assert_int_eq(stats_of(fn).compiles, 2);
    sn_function_free(fn);
}
END_TEST

START_TEST(c14_the_compile_setting_switches_off) {
    ck_assert_int_eq(sn_setting_set("compile", "0"), SN_OK);
    sn_function *const fn = sn_compile(four_times, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(1, 5);
        ck_assert(same_bits(SN_CALL(fn, x), sn_mul_scalar(x, sn_float(4))));
    }
    ck_assert_int_eq(stats_of(fn).compiles, 0);
    ck_assert_int_eq(last_path(), SN_PATH_EAGER);
    sn_function_free(fn);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        c6_what_runs_outside_of_segments_is_not_replayed,
        c6_replay_does_not_run_the_body,
        c6_closed_over_tensors_are_bound_by_identity,
        c6_plain_getters_specialise,
        c6_replay_guards_which_inputs_are_one_tensor,
        c6_replay_guards_aliases_of_what_is_written,
        c6_a_break_turns_replay_into_verify_said_once,
        c6_every_nth_call_is_verified,
        c6_keeping_in_a_body_is_not_replayed,
        c8_a_failed_check_commits_what_eager_would,
        c8_a_value_for_no_elements_is_checked,
        c8_what_may_not_be_written_is_refused_by_compiled_code_too,
        c8_read_only_memory_is_not_written_by_a_pending_view,
        c8_handles_of_failed_ops_become_error_tensors,
        c8_eager_checks_answer_at_the_op,
        c9_creation_from_host_memory_is_an_input,
        c9_data_flushes_and_writes_are_seen,
        c9_touch_announces_writes_by_own_pointers,
        c9_writes_are_done_when_the_call_returns,
        c10_a_segment_ends_at_the_op_bound,
        c10_a_segment_ends_at_the_byte_bound,
        c11_nested_calls_inline,
        c11_recursion_is_inlining,
        c11_an_eager_callee_runs_as_it_is,
        c11_demands_of_a_callee_hold_for_its_ops,
        c11_options_without_effect_are_refused,
        c12_pure_ops_with_a_meta_rule_are_captured,
        c12_other_ops_flush_and_run_at_once,
        c12_ordered_ops_are_never_merged_or_removed,
        c12_derivatives_of_users_ops_are_compiled,
        c12_derivatives_that_no_graph_can_say_run_eagerly,
        c12_a_missing_meta_rule_breaks_with_its_reason,
        c12_a_decomposition_is_captured_as_its_parts,
        c13_scopes_left_open_are_closed,
        c13_a_body_left_by_a_jump_is_flushed,
        c13_one_function_on_many_threads,
        c14_every_call_says_its_path,
        c14_the_recompile_limit_is_counted_and_said,
        c14_the_setting_of_the_limit_counts,
        c14_the_compile_setting_switches_off,
    };
    return contract_main("test_contract_c_modes", tests, (int)(sizeof tests / sizeof *tests));
}
