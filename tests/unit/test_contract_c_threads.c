/* test_contract_c_threads.c: a placeholder in another thread's hands, and bodies that do not return [semantics C13].
 * Run under the tsan preset to look for races; bits and counts are compared in every build. */
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <unwind.h>

#include "runtime/core/state.h"
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

typedef struct Host {
    sn_tensor *shown; /* what the body lets the other thread see */
    sn_function *other;
    double item;
    float values[6];
    sn_error error;
    int flag;
} Host;

static void run_on_other_thread(void *(*work)(void *), Host *host) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, work, host), 0);
    pthread_join(thread, NULL);
}

/* Values -------------------------------------------------------------------------------------- */

static void *reads(void *context) {
    Host *const host = context;
    host->item = sn_item(sn_sum(host->shown)); /* an op, then a value */
    sn_read(host->shown, host->values, sizeof host->values);
    host->flag = sn_error_take()->status;
    return NULL;
}

static sn_status shows_pending(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const before = sn_neg(sn_in(f, 0));
    host->shown = sn_exp(before);
    run_on_other_thread(reads, host);
    sn_tensor *const y = sn_add(sn_mul(host->shown, before), before);
    return sn_out(f, 0, y);
}

static sn_status shows_earlier(sn_frame *f) { /* a value that its segment did not store */
    Host *const host = sn_closure(f);
    host->shown = sn_exp(sn_in(f, 0));
    sn_tensor *const sum = sn_sum(host->shown);
    sn_graph_break("ends the segment");
    run_on_other_thread(reads, host);
    return sn_out(f, 0, sn_add(sum, sum));
}

static sn_status shows_after_a_write(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const old = sn_mul_scalar(x, sn_float(3));
    sn_add_scalar_(x, sn_float(1));
    host->shown = sn_mul(old, x);
    run_on_other_thread(reads, host);
    return sn_out(f, 0, sn_add(old, x));
}

START_TEST(c13_another_thread_gets_the_value) {
    static const sn_body bodies[] = {shows_pending, shows_earlier, shows_after_a_write};
    Host fast = {0}, slow = {0};
    const Twin twin = twin_new(bodies[_i], &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const a = F32(i, 6), *const b = sn_clone(a);
        twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
        ck_assert(same_bits(a, b));
        ck_assert_int_eq(fast.flag, SN_OK);
        ck_assert(fast.item == slow.item);
        ck_assert(!memcmp(fast.values, slow.values, sizeof fast.values));
    }
    if (bodies[_i] == shows_pending) {
        ck_assert_int_eq(stats_of(twin.fast).breaks, 1);
        ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "another thread asks for a value"));
    }
    twin_free(twin);
}
END_TEST

static sn_status squares(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const shown = ((Host *)sn_closure(f))->shown;
    return sn_out(f, 0, sn_sum(sn_add(sn_mul(x, shown), x)));
}

static void *calls_with_it(void *context) { /* the other thread is inside a compiled function of its own */
    Host *const host = context;
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const y = SN_CALL(host->other, sn_ones(SN_INTS(6), SN_F32));
    host->item = y ? sn_item(y) : -1;
    sn_scope_end(scope);
    host->flag = sn_error_take()->status;
    return NULL;
}

static sn_status lends(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->shown = sn_exp(sn_in(f, 0));
    run_on_other_thread(calls_with_it, host);
    return sn_out(f, 0, sn_add(host->shown, host->shown));
}

START_TEST(c13_a_placeholder_of_one_call_is_an_input_of_another) {
    Host host = {0};
    host.other = sn_compile(squares, &host, NULL);
    sn_function *const fn = sn_compile(lends, &host, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = F32(i, 6), *const e = sn_exp(x), *const one = sn_ones(SN_INTS(6), SN_F32);
        ck_assert(same_bits(SN_CALL(fn, x), sn_add(e, e)));
        ck_assert_int_eq(host.flag, SN_OK);
        ck_assert(host.item == sn_item(sn_sum(sn_add(sn_mul(one, e), one))));
    }
    ck_assert_int_eq(stats_of(host.other).compiles, 1);
    sn_function_free(fn);
    sn_function_free(host.other);
}
END_TEST

static sn_status writes_it(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const e = sn_exp(x), *const n = sn_neg(x);
    sn_add_out(((Host *)sn_closure(f))->shown, x, x);
    return sn_out(f, 0, sn_sum(sn_add(sn_mul(e, n), n)));
}

START_TEST(c13_a_placeholder_of_one_call_is_written_by_another) {
    Host host = {0};
    host.other = sn_compile(writes_it, &host, NULL);
    sn_function *const fn = sn_compile(lends, &host, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const one = sn_ones(SN_INTS(6), SN_F32), *const n = sn_neg(one);
        ck_assert(same_bits(SN_CALL(fn, F32(i, 6)), sn_full(SN_INTS(6), sn_float(4), SN_F32)));
        ck_assert_int_eq(host.flag, SN_OK);
        ck_assert(host.item == sn_item(sn_sum(sn_add(sn_mul(sn_exp(one), n), n))));
    }
    sn_function_free(fn);
    sn_function_free(host.other);
}
END_TEST

static void *goes_backward(void *context) { /* an op on it is recorded, and it has its history */
    Host *const host = context;
    const bool tracks = sn_requires_grad(host->shown);
    sn_backward(sn_sum(sn_mul(host->shown, host->shown)));
    host->flag = tracks && sn_error_take()->status == SN_OK;
    return NULL;
}

static sn_status shows_tracked(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->shown = sn_exp(sn_in(f, 0));
    run_on_other_thread(goes_backward, host);
    return sn_out(f, 0, sn_detach(host->shown));
}

START_TEST(c13_another_thread_gets_the_history) {
    Host host = {0};
    const Twin twin = twin_new(shows_tracked, &host, &host, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const a = LEAF(i, 6), *const b = LEAF(i, 6);
        twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
        ck_assert_int_eq(host.flag, 1);
        ck_assert(sn_grad(b) && same_bits(sn_grad(a), sn_grad(b)));
    }
    twin_free(twin);
}
END_TEST

static sn_status random_body(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->shown = sn_add(sn_in(f, 0), sn_rand(SN_INTS(6), SN_F32));
    run_on_other_thread(reads, host);
    return sn_out(f, 0, sn_add(host->shown, sn_rand(SN_INTS(6), SN_F32)));
}

START_TEST(c13_random_numbers_are_the_owners) {
    Host fast = {0}, slow = {0};
    sn_function *const fn = sn_compile(random_body, &fast, NULL);
    sn_function *const eager = sn_compile(random_body, &slow, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const x = F32(1, 6);
    for (uint64_t i = 0; i < 3; i++) {
        sn_seed(70 + i);
        sn_tensor *const want = SN_CALL(eager, x);
        sn_seed(70 + i);
        ck_assert(same_bits(SN_CALL(fn, x), want));
        ck_assert(!memcmp(fast.values, slow.values, sizeof fast.values));
    }
    sn_function_free(fn);
    sn_function_free(eager);
}
END_TEST

static sn_status looks_up(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->shown = sn_index_select(sn_in(f, 0), 0, sn_in(f, 1));
    run_on_other_thread(reads, host);
    return sn_out(f, 0, sn_relu(host->shown));
}

START_TEST(c13_an_error_reaches_both_threads) {
    Host host = {0};
    sn_function *const fn = sn_compile(looks_up, &host, NULL);
    sn_tensor *const x = F32(1, 4), *const bad = sn_full(SN_INTS(2), sn_int(9), SN_I64);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(SN_CALL(fn, x, bad));
        ck_assert_int_eq(host.flag, SN_ERR_VALUE);
        expect_error(SN_ERR_VALUE, "9");
    }
    sn_function_free(fn);
}
END_TEST

/* A kernel of the segment that runs waits for a thread that asks for a value of the same segment. */
static Host *kernel_host;
static sn_status waiting_kernel(sn_frame *f) {
    run_on_other_thread(reads, kernel_host);
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}
static sn_status waiting_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }

static sn_status runs_waiting_kernel(sn_frame *f) {
    const sn_value in[] = {sn_val(sn_relu(sn_in(f, 0)))};
    sn_tensor *const y = sn_op_call1(sn_op_find("contract::waits"), in, 1);
    kernel_host->shown = sn_exp(y);
    return sn_out(f, 0, kernel_host->shown);
}

START_TEST(c13_a_value_that_is_being_computed_is_an_error_not_a_deadlock) {
    Host host = {0};
    kernel_host = &host;
    ck_assert_ptr_nonnull(sn_op_register(SN_OP_DESC(.schema = "contract::waits(Tensor x) -> Tensor",
                                                    .flags = SN_OP_PURE, .meta = waiting_meta, .cpu = waiting_kernel)));
    sn_function *const fn = sn_compile(runs_waiting_kernel, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 6), *const y = SN_CALL(fn, x);
        ck_assert(same_bits(y, sn_exp(sn_neg(sn_relu(x)))));
        ck_assert_int_eq(host.flag, SN_ERR_STATE);
    }
    sn_function_free(fn);
}
END_TEST

/* Both at once: the owner goes on recording while the other one takes what it finds. */
enum { ROUNDS = 60, OPS = 40 };
typedef struct Slot {
    pthread_mutex_t lock;
    sn_tensor *tensor;
    float want;
    bool done;
    int taken, wrong;
} Slot;

static void put(Slot *slot, sn_tensor *t, float want) {
    pthread_mutex_lock(&slot->lock);
    sn_release(slot->tensor);
    slot->tensor = sn_retain(t);
    slot->want = want;
    pthread_mutex_unlock(&slot->lock);
}

static void *takes(void *context) {
    Slot *const slot = context;
    for (bool done = false; !done;) {
        pthread_mutex_lock(&slot->lock);
        sn_tensor *const t = slot->tensor;
        const float want = slot->want;
        slot->tensor = NULL;
        done = slot->done;
        pthread_mutex_unlock(&slot->lock);
        if (!t) continue;
        float got[6] = {0};
        const sn_scope scope = sn_scope_begin();
        slot->wrong += sn_read(sn_add(t, t), got, sizeof got) != SN_OK || got[5] != 2 * want;
        slot->wrong += sn_read(t, got, sizeof got) != SN_OK || got[0] != want;
        sn_error_take();
        sn_scope_end(scope);
        sn_release(t);
        slot->taken++;
    }
    return NULL;
}

static sn_status counts(sn_frame *f) {
    Slot *const slot = sn_closure(f);
    sn_tensor *x = sn_in(f, 0);
    for (int i = 1; i <= OPS; i++) {
        x = sn_add_scalar(x, sn_float(1));
        put(slot, x, (float)i);
    }
    return sn_out(f, 0, x);
}

static sn_tensor *noted_leaf;

/* What is noted at once beside pending ops, and layouts that change by name: each looks at the segment that the other
 * thread may just be ending. */
static sn_status notes(sn_frame *f) {
    Slot *const slot = sn_closure(f);
    sn_tensor *x = sn_in(f, 0);
    for (int i = 1; i <= OPS; i++) {
        x = sn_add_scalar(x, sn_float(1));
        put(slot, x, (float)i);
        if (i % 4 == 0) sn_seed(i);
        if (i % 4 == 1) sn_grad_set(noted_leaf, i % 8 == 1 ? sn_in(f, 0) : NULL);
        if (i % 4 == 2) sn_squeeze_(sn_unsqueeze(x, 0));
    }
    return sn_out(f, 0, x);
}

static void run_both(sn_body body) {
    Slot slot = {.lock = PTHREAD_MUTEX_INITIALIZER};
    sn_function *const fn = sn_compile(body, &slot, SN_COMPILE_OPTIONS(.recompile_limit = 2));
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, takes, &slot), 0);
    for (int i = 0; i < ROUNDS; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const y = SN_CALL(fn, sn_zeros(SN_INTS(6), SN_F32));
        ck_assert_msg(y && sn_item(sn_select(y, 0, 3)) == OPS, "%s", sn_error_take()->message);
        sn_scope_end(scope);
    }
    pthread_mutex_lock(&slot.lock);
    slot.done = true;
    pthread_mutex_unlock(&slot.lock);
    pthread_join(thread, NULL);
    ck_assert_int_eq(slot.wrong, 0);
    ck_assert_int_gt(slot.taken, 0);
    sn_release(slot.tensor);
    sn_function_free(fn);
}

START_TEST(c13_owner_and_other_at_once) { run_both(counts); }
END_TEST

START_TEST(c13_owner_notes_events_as_the_other_ends_segments) {
    noted_leaf = sn_requires_grad_(sn_keep(F32(1, 6)), true);
    run_both(notes);
    sn_release(noted_leaf);
}
END_TEST

/* Bodies that do not return ------------------------------------------------------------------- */

static int warnings;
static void count_warnings(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic;
    warnings += strstr(line, "did not return") != NULL;
}

typedef struct Exit {
    jmp_buf by_jump;
    struct _Unwind_Exception exception;
    const char *target; /* frames above it stay */
    sn_scope outside;
} Exit;
static Exit out;

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
                                struct _Unwind_Exception *exception, struct _Unwind_Context *context, void *to) {
    (void)version, (void)class, (void)exception;
    Exit *const there = to;
    if ((const char *)_Unwind_GetCFA(context) < there->target && !(actions & _UA_END_OF_STACK)) return _URC_NO_REASON;
    longjmp(there->by_jump, 1); /* all cleanups below have run: as a catch clause does */
}

enum { RETURNS, JUMPS, THROWS, EXITS };
static sn_status leaves(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_add_scalar_(x, sn_float(1));
    sn_scope_begin();
    sn_grad_mode_set(SN_GRAD_OFF);
    switch (*(const int *)sn_closure(f)) {
    case JUMPS:
        longjmp(out.by_jump, 1);
    case THROWS:
        _Unwind_ForcedUnwind(&out.exception, stop, &out);
        break;
    case EXITS:
        pthread_exit(NULL);
    }
    return sn_out(f, 0, sn_relu(y));
}

static sn_tensor *on_memory(float *memory) {
    return sn_wrap(SN_BLOB(.data = memory, .bytes = 16, .sizes = SN_INTS(4), .dtype = SN_F32));
}

static sn_status calls_other(sn_frame *f) {
    const Host *const host = sn_closure(f);
    return sn_out(f, 0, SN_CALL(host->other, sn_in(f, 0)));
}

/* At once, before anything else is called: memory is written, scopes and modes are the caller's. */
START_TEST(c13_an_exception_flushes_as_it_passes) {
    sn_logging_set(count_warnings, NULL, "");
    int how = RETURNS;
    float memory[4] = {1, 2, 3, 4};
    sn_tensor *const x = on_memory(memory);
    sn_function *const fn = sn_compile(leaves, &how, NULL);
    const uint32_t scopes = state_get()->n_scopes;
    for (volatile int i = 0; i < 6; i++) {
        how = i % 2 ? THROWS : RETURNS;
        out.target = (const char *)__builtin_frame_address(0);
        if (!setjmp(out.by_jump)) SN_CALL(fn, x);
        ck_assert(memory[0] == (float)(2 + i)); /* flushed as it passed */
        ck_assert_ptr_null(state_get()->tracer);
        ck_assert_int_eq(sn_check(), SN_OK); /* the next call */
        ck_assert_uint_eq(state_get()->n_scopes, scopes);
        ck_assert_int_eq(state_get()->grad_mode, SN_GRAD_ON);
    }
    ck_assert_int_eq(warnings, 3);
    sn_function_free(fn);
}
END_TEST

static void *calls_and_exits(void *context) {
    SN_CALL(((Host *)context)->other, ((Host *)context)->shown);
    return context;
}

START_TEST(c13_a_thread_that_ends_in_a_body_flushes) {
    sn_logging_set(count_warnings, NULL, "");
    int how = EXITS;
    float memory[4] = {1, 2, 3, 4};
    Host host = {.other = sn_compile(leaves, &how, NULL), .shown = on_memory(memory)};
    for (int i = 0; i < 3; i++) {
        run_on_other_thread(calls_and_exits, &host);
        ck_assert(memory[3] == (float)(5 + i));
    }
    ck_assert_int_eq(warnings, 3);
    how = RETURNS;
    sn_tensor *const y = SN_CALL(host.other, host.shown);
    ck_assert(y && memory[3] == 8);
    sn_function_free(host.other);
}
END_TEST

/* Goes so deep, over memory that it leaves alone, that no cheap sign of the jump is overwritten. */
__attribute__((noinline)) static double deep_work(sn_tensor *x) {
    volatile char buffer[1 << 16];
    buffer[0] = 1;
    return sn_item(sn_sum(sn_mul_scalar(x, sn_float(2)))) + buffer[0];
}

/* What is called in between gets the right values, the mark of a scope outside ends it exactly. */
START_TEST(c13_marks_end_what_a_jump_left) {
    sn_logging_set(count_warnings, NULL, "");
    int how = JUMPS;
    float memory[4] = {1, 2, 3, 4};
    sn_tensor *const x = on_memory(memory);
    sn_function *const fn = sn_compile(leaves, &how, NULL);
    for (volatile int i = 0; i < 3; i++) {
        out.outside = sn_scope_begin();
        if (!setjmp(out.by_jump)) SN_CALL(fn, x);
        ck_assert(deep_work(x) == 2 * (10 + 4 * (i + 1)) + 1);
        ck_assert_int_eq(sn_scope_end(out.outside), SN_OK);
        ck_assert_ptr_null(state_get()->tracer);
        ck_assert_int_eq(warnings, i + 1);
        ck_assert(memory[0] == (float)(2 + i));
    }
    if (!setjmp(out.by_jump)) SN_CALL(fn, x);
    sn_function_free(fn); /* it does not run */
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert(memory[0] == 5);
}
END_TEST

/* A function runs no more that a jump or an exception has left, called in whatever mode, or by another one. */
START_TEST(c13_a_function_that_was_left_can_be_freed) {
    sn_logging_set(count_warnings, NULL, "");
    int how = JUMPS;
    float memory[4] = {1, 2, 3, 4};
    for (volatile int i = 0; i < 6; i++) {
        how = i < 3 ? JUMPS : THROWS;
        sn_function *const fn =
            sn_compile(leaves, &how, SN_COMPILE_OPTIONS(.mode = i % 3 ? SN_COMPILE_EAGER : SN_COMPILE_VERIFY));
        Host host = {.other = fn};
        sn_function *const outer = sn_compile(calls_other, &host, NULL);
        out.target = (const char *)__builtin_frame_address(0);
        if (!setjmp(out.by_jump)) SN_CALL(i % 3 == 2 ? outer : fn, on_memory(memory));
        sn_function_free(fn);
        sn_function_free(outer);
        ck_assert_int_eq(sn_check(), SN_OK);
    }
    sn_scope_end(SN_SCOPE_ROOT);
}
END_TEST

static sn_status ends_outer(sn_frame *f) {
    sn_scope_end(out.outside);
    return sn_out(f, 0, sn_relu(sn_in(f, 0)));
}

/* A body that runs is never taken for one that was left. */
START_TEST(c13_a_running_body_may_not_end_a_scope_outside) {
    sn_function *const fn = sn_compile(ends_outer, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        out.outside = i == 2 ? SN_SCOPE_ROOT : sn_scope_begin();
        ck_assert_ptr_null(SN_CALL(fn, F32(1, 4)));
        expect_error(SN_ERR_STATE, i == 2 ? "scope" : "outside the running callback");
        if (i < 2) ck_assert_int_eq(sn_scope_end(out.outside), SN_OK);
    }
    sn_function_free(fn);
}
END_TEST

static sn_status kernel_that_jumps(sn_frame *f) {
    if (sn_in_float(f, 1) > 0) longjmp(out.by_jump, 1);
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}

/* Other callbacks: eager kernels, modes, hooks. */
START_TEST(c13_a_kernel_left_by_a_jump_holds_no_scope_open) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "contract::jumps(Tensor x, float by) -> Tensor", .cpu = kernel_that_jumps));
    sn_tensor *const x = sn_keep(F32(1, 4));
    for (volatile int i = 0; i < 2; i++) {
        out.outside = sn_scope_begin();
        if (!setjmp(out.by_jump)) sn_op_call1(op, (sn_value[]){sn_val(x), sn_float(1)}, 2);
        ck_assert_int_eq(sn_scope_end(out.outside), SN_OK);
    }
    ck_assert_uint_eq(state_get()->n_scopes, 0);
    sn_release(x);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("threads");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, c13_another_thread_gets_the_value, 0, 3);
    tcase_add_test(tests, c13_a_placeholder_of_one_call_is_an_input_of_another);
    tcase_add_test(tests, c13_a_placeholder_of_one_call_is_written_by_another);
    tcase_add_test(tests, c13_another_thread_gets_the_history);
    tcase_add_test(tests, c13_random_numbers_are_the_owners);
    tcase_add_test(tests, c13_an_error_reaches_both_threads);
    tcase_add_test(tests, c13_a_value_that_is_being_computed_is_an_error_not_a_deadlock);
    tcase_add_test(tests, c13_owner_and_other_at_once);
    tcase_add_test(tests, c13_owner_notes_events_as_the_other_ends_segments);
    tcase_add_test(tests, c13_an_exception_flushes_as_it_passes);
    tcase_add_test(tests, c13_a_thread_that_ends_in_a_body_flushes);
    tcase_add_test(tests, c13_marks_end_what_a_jump_left);
    tcase_add_test(tests, c13_a_function_that_was_left_can_be_freed);
    tcase_add_test(tests, c13_a_running_body_may_not_end_a_scope_outside);
    tcase_add_test(tests, c13_a_kernel_left_by_a_jump_holds_no_scope_open);
    return suite_run("test_contract_c_threads", tests);
}
