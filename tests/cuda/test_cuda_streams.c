/* test_cuda_streams.c: streams, events and pinned memory on a CUDA device [acceptance 7.09, 7.10]. On the emulated
 * device work runs when it is waited for, no more than that needs, so a test sees what has not run; the tests that
 * are repeated let it run by chance, in another order each time. On a GPU the same programs run, without what only
 * the emulator tells. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <sinter/sinter.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/api/dlpack.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/public_check.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0), NEXT = SN_CUDA(1), ORDERS = 12 };

static sn_tensor *there(sn_tensor *x) { return sn_to_device(x, GPU); }
static sn_tensor *here(sn_tensor *x) { return sn_to_device(x, SN_CPU); }
static sn_tensor *places(int64_t at) { return there(sn_full(SN_INTS(2), sn_int(at), SN_I64)); }
static sn_tensor *numbers(int n) { return sn_randn(SN_INTS(n), SN_F32); }

static bool same(sn_tensor *a, sn_tensor *b) {
    expect_ok();
    return sn_equal(a, b);
}

/* Work by chance; 0: no more than is waited for. */
static void reorder(int seed) {
    char how[32];
    snprintf(how, sizeof how, "reorder=%d", seed);
    setenv("EMULATED_CUDA", how, 1);
}

static sn_scope use(sn_stream *stream) {
    const sn_scope scope = sn_scope_begin();
    ck_assert_int_eq(sn_stream_use(stream), SN_OK);
    return scope;
}

/* What comes on `stream` waits for what `before` has. */
static void follow(sn_stream *stream, sn_stream *before) {
    sn_event *const event = sn_event_new(sn_stream_device(stream));
    ck_assert_int_eq(sn_event_record(event, before), SN_OK);
    ck_assert_int_eq(sn_stream_wait(stream, event), SN_OK);
    sn_event_free(event);
}

/* 7.09 ----------------------------------------------------------------------------------------- */

START_TEST(a7_09_events_have_times) {
    sn_event *const from = sn_event_new(GPU), *const to = sn_event_new(GPU);
    sn_stream *const own = sn_stream_own(GPU);
    sn_tensor *x = there(numbers(1 << 12));
    sn_exp(x); /* its program is there */
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    const int64_t before = emulated().launches;
    ck_assert(sn_event_query(from)); /* never recorded */
    ck_assert(isnan(sn_event_elapsed(from, to)));
    expect_error(SN_ERR_STATE, "cuda:0: an event was never recorded");
    ck_assert_int_eq(sn_event_record(from, own), SN_OK);
    for (int i = 0; i < 8; i++) x = sn_exp(x);
    ck_assert_int_eq(sn_event_record(to, own), SN_OK);
    if (is_emulated()) { /* the host is here, and nothing has run */
        ck_assert_int_eq(emulated().launches, before);
        ck_assert(isnan(sn_event_elapsed(from, to)));
        expect_error(SN_ERR_STATE, "cuda:0: work has not passed both events");
        ck_assert(!sn_event_query(to));
    }
    ck_assert_int_eq(sn_event_synchronize(to), SN_OK);
    ck_assert(sn_event_query(to));
    ck_assert_double_gt(sn_event_elapsed(from, to), 0);
    ck_assert_double_lt(sn_event_elapsed(to, from), 0);
    if (is_emulated()) ck_assert_int_eq(emulated().launches, before + 8);
    sn_event_free(from), sn_event_free(to);
    expect_ok();
}
END_TEST

START_TEST(a7_09_copies_and_kernels_overlap) {
    sn_stream *const side = sn_stream_new(GPU);
    sn_event *const copied = sn_event_new(GPU);
    sn_tensor *const x = numbers(1000), *const pinned = sn_pin(x, GPU), *const y = there(x);
    const sn_scope scope = use(side);
    sn_tensor *const next = sn_keep(sn_to_device_async(pinned, GPU));
    ck_assert_int_eq(sn_event_record(copied, side), SN_OK);
    sn_scope_end(scope);
    ck_assert(same(here(sn_exp(y)), sn_exp(x))); /* computed and read while the copy is under way */
    if (is_emulated()) ck_assert(!sn_event_query(copied));
    ck_assert_int_eq(sn_stream_wait(sn_stream_own(GPU), copied), SN_OK);
    ck_assert_int_eq(sn_record_stream(next, sn_stream_own(GPU)), SN_OK);
    ck_assert(same(here(sn_neg(next)), sn_neg(x)));
    sn_release(next);
    sn_event_free(copied), sn_stream_free(side);
}
END_TEST

/* 7.10 ----------------------------------------------------------------------------------------- */

START_TEST(a7_10_pinned_copies_go_on_by_themselves) {
    sn_event *const copied = sn_event_new(GPU);
    sn_tensor *const x = numbers(300), *const pinned = sn_pin(x, GPU);
    ck_assert(sn_is_pinned(pinned) && !sn_is_pinned(x));
    ck_assert_ptr_eq(sn_pin(pinned, GPU), pinned);
    ck_assert_ptr_eq(sn_pin(x, SN_CPU), x);
    sn_tensor *const there = sn_to_device_async(pinned, GPU);
    ck_assert_int_eq(sn_event_record(copied, sn_stream_own(GPU)), SN_OK);
    if (is_emulated()) {
        ck_assert_int_gt(emulated().queued, 0);
        ck_assert(!sn_event_query(copied) || emulated().queued == 0);
    }
    ck_assert_int_eq(sn_event_synchronize(copied), SN_OK);
    sn_fill_(pinned, sn_int(0)); /* the copy has read it */
    sn_tensor *const back = sn_to_device_async(there, SN_CPU);
    ck_assert(sn_is_pinned(back));
    ck_assert_int_eq(sn_event_record(copied, sn_stream_own(GPU)), SN_OK);
    ck_assert_int_eq(sn_event_synchronize(copied), SN_OK);
    ck_assert(same(back, x));
    sn_copy_ex_(pinned, there, true); /* into a tensor that there is */
    ck_assert_int_eq(sn_stream_synchronize(sn_stream_own(GPU)), SN_OK);
    ck_assert(same(pinned, x));
    sn_event_free(copied);
}
END_TEST

/* The emulator shows that nobody waits: what is written too early is what the copy reads. */
START_TEST(a_source_that_is_written_too_early) {
    if (!is_emulated()) return;
    sn_tensor *const pinned = sn_pin(sn_ones(SN_INTS(5), SN_F32), GPU), *const pageable = sn_ones(SN_INTS(5), SN_F32);
    sn_tensor *const late = sn_to_device_async(pinned, GPU);
    sn_fill_(pinned, sn_int(2));
    sn_tensor *const safe = sn_to_device_async(pageable, GPU);
    sn_fill_(pageable, sn_int(2));
    ck_assert(same(here(late), sn_full(SN_INTS(5), sn_int(2), SN_F32)));
    ck_assert(same(here(safe), sn_ones(SN_INTS(5), SN_F32)));
}
END_TEST

START_TEST(pinned_memory_is_given_out_again_after_its_copies) {
    const void *memory[3];
    sn_tensor *copies[3];
    for (int i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const pinned = sn_pin(sn_full(SN_INTS(100), sn_int(i), SN_F32), GPU);
        memory[i] = sn_data_raw(pinned);
        copies[i] = sn_keep(sn_to_device_async(pinned, GPU));
        if (i == 1) ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
        sn_scope_end(scope);
    }
    if (is_emulated()) ck_assert_ptr_ne(memory[0], memory[1]); /* its copy waited in the stream */
    ck_assert(memory[2] == memory[0] || memory[2] == memory[1]);
    for (int i = 0; i < 3; i++) {
        ck_assert(same(here(copies[i]), sn_full(SN_INTS(100), sn_int(i), SN_F32)));
        sn_release(copies[i]);
    }
    ck_assert_ptr_null(sn_pin(there(sn_zeros(SN_INTS(3), SN_F32)), GPU));
    expect_error(SN_ERR_DEVICE, "sn_pin: the tensor is on cuda:0: only the CPU's memory is pinned");
}
END_TEST

START_TEST(pinned_memory_may_be_out) {
    if (!is_emulated()) return;
    sn_tensor *const x = numbers(3);
    there(x);
    fail_next("MemHostAlloc", 2, 0);
    ck_assert_ptr_null(sn_pin(x, GPU));
    expect_error(SN_ERR_MEMORY, "cuda:0: no memory can be pinned: 4096 bytes asked for");
    ck_assert(same(sn_pin(x, GPU), x));
}
END_TEST

/* which stream --------------------------------------------------------------------------------- */

START_TEST(scopes_put_the_stream_back) {
    sn_stream *const own = sn_stream_own(GPU), *const a = sn_stream_new(GPU), *const b = sn_stream_new(GPU);
    ck_assert_ptr_eq(sn_stream_current(GPU), own);
    const sn_scope outer = use(a);
    sn_stream_use(b);
    ck_assert_ptr_eq(sn_stream_current(GPU), b);
    sn_stream_use(a);
    const sn_scope inner = use(own);
    ck_assert_ptr_eq(sn_stream_current(GPU), own);
    sn_stream_use(sn_stream_own(SN_CPU));
    ck_assert_ptr_eq(sn_stream_current(GPU), own);
    sn_scope_end(inner);
    ck_assert_ptr_eq(sn_stream_current(GPU), a);
    sn_scope_end(outer);
    ck_assert_ptr_eq(sn_stream_current(GPU), own);
    sn_stream_use(b); /* of the state, with no scope */
    ck_assert_ptr_eq(sn_stream_current(GPU), b);
    sn_state *const other = sn_state_new(), *const before = sn_state_use(other);
    ck_assert_ptr_eq(sn_stream_current(GPU), own);
    sn_state_use(before);
    sn_state_free(other);
    ck_assert_ptr_eq(sn_stream_current(GPU), b);
    sn_stream_free(a);
    ck_assert_ptr_eq(sn_stream_new(GPU), a); /* the same order of work, given out again */
    expect_ok();
}
END_TEST

START_TEST(what_does_not_fit) {
    ck_assert_int_ne(sn_stream_use(NULL), SN_OK);
    expect_error(SN_ERR_ARGUMENT, "sn_stream_use: the stream is NULL");
    ck_assert_ptr_null(sn_stream_new((sn_device)-5));
    expect_error(SN_ERR_ARGUMENT, "sn_stream_new: -5 is no device");
    ck_assert_ptr_null(sn_event_new(SN_CUDA(7)));
    expect_error(SN_ERR_DEVICE, "there is no cuda:7");
    if (sn_device_count(SN_KEY_CUDA) < 2) return;
    sn_event *const event = sn_event_new(GPU), *const other = sn_event_new(NEXT);
    ck_assert_int_ne(sn_event_record(event, sn_stream_own(NEXT)), SN_OK);
    expect_error(SN_ERR_DEVICE, "sn_event_record: the event is of cuda:0, the stream of cuda:1");
    ck_assert_int_ne(sn_record_stream(there(numbers(2)), sn_stream_own(NEXT)), SN_OK);
    expect_error(SN_ERR_DEVICE, "sn_record_stream: the tensor is on cuda:0, the stream of cuda:1");
    ck_assert(isnan(sn_event_elapsed(event, other)));
    expect_error(SN_ERR_DEVICE, "sn_event_elapsed: the first event is of cuda:0, the second event of cuda:1");
    sn_event_free(event), sn_event_free(other);
}
END_TEST

START_TEST(the_cpu_has_streams_by_name) {
    sn_stream *const stream = sn_stream_new(SN_CPU);
    sn_event *const from = sn_event_new(SN_CPU), *const to = sn_event_new(SN_CPU);
    const sn_scope scope = use(stream);
    ck_assert_ptr_eq(sn_stream_current(SN_CPU), stream);
    ck_assert(isnan(sn_event_elapsed(from, to)));
    expect_error(SN_ERR_STATE, "the event was never recorded");
    ck_assert_int_eq(sn_event_record(from, stream), SN_OK);
    sn_tensor *const y = sn_exp(sn_pin(numbers(100), SN_CPU));
    ck_assert_int_eq(sn_event_record(to, stream), SN_OK);
    ck_assert_int_eq(sn_stream_wait(stream, to), SN_OK);
    ck_assert(sn_event_query(to) && sn_stream_query(stream));
    ck_assert_double_ge(sn_event_elapsed(from, to), 0);
    ck_assert_int_eq(sn_record_stream(y, stream), SN_OK);
    ck_assert_ptr_eq(sn_to_device_async(y, SN_CPU), y);
    sn_scope_end(scope);
    ck_assert_ptr_eq(sn_stream_current(SN_CPU), sn_stream_own(SN_CPU));
    sn_event_free(from), sn_event_free(to), sn_stream_free(stream);
    expect_ok();
}
END_TEST

/* order ---------------------------------------------------------------------------------------- */

/* A chain over three streams with the waits that it needs has the CPU's bits in every order. */
START_TEST(waits_make_an_order) {
    reorder(_i);
    sn_stream *const a = sn_stream_new(GPU), *const b = sn_stream_new(GPU), *const own = sn_stream_own(GPU);
    sn_tensor *const x = numbers(500), *const pinned = sn_pin(x, GPU);
    for (int round = 0; round < 3; round++) {
        const sn_scope first = use(a);
        sn_tensor *const p = sn_exp(sn_to_device_async(pinned, GPU));
        follow(b, a);
        const sn_scope second = use(b);
        sn_tensor *const q = sn_mul(p, p);
        sn_record_stream(p, b);
        sn_sub_(p, q);
        follow(own, b);
        const sn_scope third = use(own);
        sn_tensor *const y = sn_add(p, q), *const e = sn_exp(x), *const ee = sn_mul(e, e);
        sn_record_stream(p, own), sn_record_stream(q, own);
        ck_assert(same(here(y), sn_add(sn_sub(e, ee), ee)));
        sn_scope_end(third), sn_scope_end(second), sn_scope_end(first);
    }
    sn_stream_free(a), sn_stream_free(b);
}
END_TEST

/* Without one, the emulated device shows it. */
START_TEST(a_missing_wait_is_seen) {
    if (!is_emulated()) return;
    sn_stream *const side = sn_stream_new(GPU);
    sn_tensor *const x = there(sn_zeros(SN_INTS(5), SN_F32));
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    const sn_scope scope = use(side);
    sn_exp_(x);
    sn_scope_end(scope);
    ck_assert(same(here(x), sn_zeros(SN_INTS(5), SN_F32)));
    follow(sn_stream_own(GPU), side);
    ck_assert(same(here(x), sn_ones(SN_INTS(5), SN_F32)));
}
END_TEST

START_TEST(the_device_is_waited_for_with_all_its_streams) {
    sn_stream *const side = sn_stream_new(GPU);
    sn_tensor *const x = there(numbers(100));
    const sn_scope scope = use(side);
    follow(side, sn_stream_own(GPU));
    sn_exp(x);
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    ck_assert(sn_stream_query(side) && sn_stream_query(sn_stream_own(GPU)));
    if (is_emulated()) ck_assert_int_eq(emulated().queued, 0);
    sn_scope_end(scope);
}
END_TEST

static sn_status chain(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_sub(sn_in(f, 0), sn_in(f, 1)))); }

START_TEST(compiled_functions_run_on_the_current_stream) {
    sn_stream *const side = sn_stream_new(GPU);
    sn_function *const fn = sn_compile(chain, NULL, NULL);
    sn_tensor *const x = numbers(200), *const y = numbers(200);
    for (int call = 0; call < 3; call++) {
        sn_tensor *const in[] = {there(x), there(y)};
        follow(side, sn_stream_own(GPU));
        const sn_scope scope = use(side);
        sn_tensor *const out = sn_keep(sn_call1(fn, (sn_tensors){(sn_tensor **)in, 2}));
        sn_scope_end(scope);
        if (call && is_emulated()) ck_assert(!sn_stream_query(side));
        follow(sn_stream_own(GPU), side);
        ck_assert(same(here(out), sn_exp(sn_sub(x, y))));
        sn_release(out);
    }
    sn_function_free(fn);
    sn_stream_free(side);
}
END_TEST

typedef struct Switching {
    sn_stream *side;
    bool scoped;
} Switching;

/* Ops before and after the change of streams are on their own streams, compiled or not. */
static sn_status switching(sn_frame *f) {
    const Switching *const s = sn_closure(f);
    sn_tensor *const x = sn_exp(sn_in(f, 0));
    const sn_scope scope = s->scoped ? sn_scope_begin() : SN_SCOPE_ROOT;
    follow(s->side, sn_stream_current(GPU));
    sn_stream_use(s->side);
    sn_tensor *const y = sn_keep(sn_mul(x, x));
    sn_event *const done = sn_event_new(GPU);
    sn_event_record(done, s->side);
    if (s->scoped) sn_scope_end(scope);
    sn_stream_wait(sn_stream_own(GPU), done);
    sn_event_free(done);
    const sn_status status = sn_out(f, 0, sn_neg(y));
    sn_release(y);
    return status;
}

START_TEST(streams_change_inside_of_compiled_functions) {
    reorder(_i / 2);
    Switching closure = {.side = sn_stream_new(GPU), .scoped = _i % 2};
    sn_function *const fn = sn_compile(switching, &closure, NULL);
    for (int call = 0; call < 3; call++) {
        sn_tensor *const x = numbers(50), *const out = sn_call1(fn, SN_TENSORS(there(x))), *const e = sn_exp(x);
        ck_assert_ptr_eq(sn_stream_current(GPU), sn_stream_own(GPU));
        follow(sn_stream_own(GPU), closure.side);
        ck_assert(same(here(out), sn_neg(sn_mul(e, e))));
    }
    sn_function_free(fn);
}
END_TEST

/* gradients ------------------------------------------------------------------------------------ */

/* b = tanh(w * x) on a stream, exp of it on another, what both give on the device's own. */
static sn_tensor *spread_loss(sn_tensor *x, sn_tensor *w, sn_stream *a, sn_stream *b) {
    sn_stream *const own = sn_stream_own(sn_device_of(x));
    follow(a, own);
    sn_scope scope = use(a);
    sn_tensor *const p = sn_keep(sn_tanh(sn_mul(w, x)));
    sn_scope_end(scope);
    follow(b, a);
    scope = use(b);
    sn_tensor *const q = sn_keep(sn_exp(sn_mul(p, w)));
    sn_record_stream(p, b), sn_record_stream(w, b);
    sn_scope_end(scope);
    follow(own, a), follow(own, b);
    sn_tensor *const loss = sn_sum(sn_mul(p, q));
    sn_record_stream(p, own), sn_record_stream(q, own);
    sn_release(p), sn_release(q);
    return loss;
}

static sn_stream *side_of(sn_device device) { return sn_stream_new(device); }

/* Nodes run on the streams of their forward ops, each after what was begun before it, and the caller's waits for all:
 * the CPU's gradients in every order. */
START_TEST(backward_runs_on_the_streams_of_forward) {
    reorder(_i);
    const bool hold = _i % 2;
    sn_stream *const a = side_of(GPU), *const b = side_of(GPU), *const c = side_of(SN_CPU), *const d = side_of(SN_CPU);
    sn_tensor *const x = numbers(300), *const w = numbers(300);
    for (int round = 0; round < 3; round++) {
        sn_tensor *const wc = sn_requires_grad_(sn_clone(w), true), *const wg = sn_requires_grad_(there(w), true);
        sn_tensor *const loss = spread_loss(x, wc, c, d), *const far = spread_loss(there(x), wg, a, b);
        sn_tensor *grad[2];
        if (hold) {
            sn_gradients(SN_TENSORS(loss), SN_TENSORS(wc), (sn_tensors){NULL, 0}, 0, &grad[0]);
            sn_gradients(SN_TENSORS(far), SN_TENSORS(wg), (sn_tensors){NULL, 0}, 0, &grad[1]);
        } else {
            sn_backward(loss), sn_backward(far);
            grad[0] = sn_grad(wc), grad[1] = sn_grad(wg);
        }
        ck_assert_ptr_eq(sn_stream_current(GPU), sn_stream_own(GPU));
        ck_assert(same(here(grad[1]), grad[0]));
    }
    sn_stream_free(a), sn_stream_free(b);
}
END_TEST

static void note_stream(sn_stream **at, sn_tensor *grad) { *at = sn_stream_current(sn_device_of(grad)); }
static sn_status hear(sn_frame *f) { return note_stream(sn_closure(f), sn_in(f, 0)), SN_OK; }

/* A hook sees the stream of its op; what it uses there ends with it. */
START_TEST(hooks_run_on_the_stream_of_their_op) {
    sn_stream *const side = side_of(GPU), *seen = NULL;
    sn_tensor *const w = sn_requires_grad_(there(numbers(10)), true);
    follow(side, sn_stream_own(GPU));
    const sn_scope scope = use(side);
    sn_tensor *const p = sn_keep(sn_exp(w));
    sn_scope_end(scope);
    sn_hook_add(p, hear, &seen);
    follow(sn_stream_own(GPU), side);
    sn_record_stream(p, sn_stream_own(GPU));
    sn_backward(sn_sum(p));
    sn_release(p);
    ck_assert_ptr_eq(seen, side);
    ck_assert_ptr_eq(sn_stream_current(GPU), sn_stream_own(GPU));
    sn_stream_free(side);
    expect_ok();
}
END_TEST

/* memory of other libraries ---------------------------------------------------------------------- */

static sn_status note_handle(sn_frame *f) {
    *(void **)sn_closure(f) = sn_cuda_stream(f);
    return sn_out(f, 0, sn_in(f, 0));
}

/* What another library would know the stream by. */
static void *handle_of(sn_stream *stream) {
    static const sn_op *op;
    static void *handle;
    if (!op)
        op = sn_op_register(
            SN_OP_DESC(.schema = "own::handle(Tensor x) -> Tensor", .cuda = note_handle, .closure = &handle));
    const sn_value in[] = {sn_val(there(numbers(1)))};
    const sn_scope scope = use(stream);
    sn_op_call1(op, in, 1);
    sn_scope_end(scope);
    expect_ok();
    return handle;
}

/* No wait but the one that comes with the memory, either way. */
START_TEST(dlpack_goes_with_its_stream) {
    reorder(_i);
    sn_stream *const theirs = sn_stream_new(GPU);
    void *const handle = handle_of(theirs);
    sn_tensor *const x = numbers(400), *const e = sn_exp(x);
    for (int round = 0; round < 3; round++) {
        sn_tensor *const mine = sn_exp(there(x));
        struct DLManagedTensorVersioned *const out = sn_to_dlpack_on(mine, handle);
        ck_assert_ptr_eq(out->dl_tensor.data, sn_data_raw(mine));
        ck_assert(out->dl_tensor.device.device_type == DLPACK_CUDA && out->dl_tensor.device.device_id == 0);
        const sn_scope scope = use(theirs);
        sn_tensor *const there_now =
            sn_keep(sn_mul(sn_from_dlpack(out), sn_from_data((float[]){2}, SN_INTS(), SN_F32)));
        sn_scope_end(scope);
        sn_tensor *const back = sn_from_dlpack_on(sn_to_dlpack_on(there_now, handle), handle);
        ck_assert_ptr_eq(sn_data_raw(back), sn_data_raw(there_now));
        ck_assert(same(here(sn_sub(back, mine)), sn_sub(sn_add(e, e), e)));
        sn_release(there_now);
    }
    expect_ok();
}
END_TEST

static int deleted;
static void note_deleted(struct DLManagedTensorVersioned *self) {
    deleted++;
    if (is_emulated()) ck_assert_int_eq(emulated().queued, 0); /* nothing reads it any more */
    (void)self;
}

START_TEST(dlpack_of_somebody_else) {
    sn_tensor *const memory = there(sn_reshape(numbers(6), SN_INTS(2, 3)));
    int64_t sizes[] = {3, 2}, strides[] = {1, 3};
    struct DLManagedTensorVersioned given = {.version = {1, 0}, .deleter = note_deleted};
    given.dl_tensor = (DLTensor){.data = sn_data_raw(memory),
                                 .device = {DLPACK_CUDA, 0},
                                 .ndim = 2,
                                 .dtype = {DLPACK_FLOAT, 32, 1},
                                 .shape = sizes,
                                 .strides = strides};
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t = sn_from_dlpack_on(&given, NULL);
    expect_ok();
    sn_tensor *const y = sn_keep(sn_exp(t));
    sn_add_(t, t);
    ck_assert_int_eq(deleted, 0);
    sn_scope_end(scope);
    ck_assert_int_eq(deleted, 1);
    ck_assert(same(sn_log(y), sn_log(sn_exp(sn_t(sn_mul(memory, there(sn_full(SN_INTS(), sn_float(0.5), SN_F32))))))));
    sn_release(y);
    given.dl_tensor.device.device_id = sn_device_count(SN_KEY_CUDA);
    ck_assert_ptr_null(sn_from_dlpack(&given));
    expect_error(SN_ERR_DEVICE, "there is no cuda:");
    given.dl_tensor.device = (DLDevice){7, 0};
    ck_assert_ptr_null(sn_from_dlpack(&given));
    expect_error(SN_ERR_DEVICE, "device type 7, number 0 is neither the CPU nor a CUDA device");
    ck_assert_int_eq(deleted, 1); /* still the giver's */
}
END_TEST

/* Without a stream the host waits, and what is wrong is said before anybody sees it. */
START_TEST(dlpack_of_what_is_done) {
    void *const handle = handle_of(sn_stream_own(GPU));
    sn_tensor *const x = numbers(5), *const e = sn_exp(there(x));
    struct DLManagedTensorVersioned *const out = sn_to_dlpack(e);
    if (is_emulated()) ck_assert_int_eq(emulated().queued, 0);
    out->deleter(out);
    sn_tensor *const wrong = sn_index_select(e, 0, places(9));
    ck_assert_ptr_null(sn_to_dlpack_on(wrong, handle));
    expect_error(SN_ERR_VALUE, "index 9 is out of range for 5 elements");
    ck_assert(same(here(e), sn_exp(x)));
}
END_TEST

/* failed checks -------------------------------------------------------------------------------- */

/* A stream that waits for an event takes over what went wrong before it, writes nothing, and says it itself. */
START_TEST(failed_checks_go_with_events) {
    reorder(_i);
    sn_stream *const side = sn_stream_new(GPU), *const own = sn_stream_own(GPU);
    sn_tensor *const x = there(numbers(4)), *const sum = there(sn_zeros(SN_INTS(2), SN_F32)), *const wrong = places(9);
    sn_tensor *const out = there(sn_zeros(SN_INTS(2), SN_F32));
    follow(side, own);
    const sn_scope scope = use(side);
    sn_tensor *const rows = sn_keep(sn_index_select(x, 0, wrong));
    sn_scope_end(scope);
    follow(own, side);
    sn_add_(sum, rows);
    sn_exp_out(out, rows);
    expect_ok();
    ck_assert_int_eq(sn_stream_synchronize(own), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "aten::index_select: index 9 is out of range for 4 elements");
    ck_assert_int_eq(sn_stream_synchronize(own), SN_OK);
    ck_assert(same(here(sum), sn_zeros(SN_INTS(2), SN_F32)));
    ck_assert(same(here(out), sn_zeros(SN_INTS(2), SN_F32)));
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE); /* the stream where it went wrong says it, too */
    expect_error(SN_ERR_VALUE, "index 9 is out of range");
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
    sn_add_(sum, sn_index_select(x, 0, places(1)));
    ck_assert(same(here(sum), sn_index_select(here(x), 0, here(places(1)))));
    sn_release(rows);
}
END_TEST

/* One that does not wait is not concerned. */
START_TEST(failed_checks_stay_on_their_stream) {
    sn_stream *const side = sn_stream_new(GPU), *const own = sn_stream_own(GPU);
    sn_event *const before = sn_event_new(GPU), *const after = sn_event_new(GPU);
    sn_tensor *const x = there(numbers(4)), *const sum = there(sn_zeros(SN_INTS(4), SN_F32)), *const wrong = places(-9);
    follow(side, own);
    const sn_scope scope = use(side);
    sn_event_record(before, side);
    sn_index_select(x, 0, wrong);
    sn_event_record(after, side);
    sn_scope_end(scope);
    ck_assert_int_eq(sn_stream_wait(own, before), SN_OK);
    sn_add_(sum, x);
    ck_assert_int_eq(sn_stream_synchronize(own), SN_OK);
    ck_assert(same(here(sum), here(x)));
    ck_assert_int_eq(sn_event_synchronize(before), SN_OK);
    ck_assert_int_eq(sn_event_synchronize(after), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "index -9 is out of range");
    ck_assert_int_eq(sn_event_synchronize(after), SN_OK);
    ck_assert_int_eq(sn_stream_synchronize(side), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "index -9 is out of range");
    ck_assert_int_eq(sn_stream_synchronize(side), SN_OK);
    sn_event_free(before), sn_event_free(after);
}
END_TEST

/* A later record has a word of its own: who waited for the first one has the first one's. */
/* Reductions into what the caller has are kernels of another form, and wait for nothing else. */
START_TEST(rows_write_nothing_after_a_failed_check) {
    sn_tensor *const x = there(sn_reshape(numbers(600), SN_INTS(4, 150))), *const sums =
                                                                               there(sn_zeros(SN_INTS(4), SN_F32));
    sn_index_select(x, 0, places(4));
    sn_sum_dim_out(sums, x, SN_INTS(1), false);
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "index 4 is out of range for 4 elements");
    ck_assert(same(here(sums), sn_zeros(SN_INTS(4), SN_F32)));
    sn_sum_dim_out(sums, x, SN_INTS(1), false);
    ck_assert(same(here(sums), sn_sum_dim(here(x), SN_INTS(1), false)));
}
END_TEST

/* 7.16: the call that launches is the one that says what is wrong, and writes nothing. */
START_TEST(a7_16_launch_blocking) {
    sn_tensor *const x = there(numbers(5)), *const wrong = places(7), *const y = there(sn_zeros(SN_INTS(2), SN_F32));
    ck_assert_int_eq(sn_setting_set("launch_blocking", "0"), SN_OK);
    sn_index_select(x, 0, wrong);
    expect_ok();
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "index 7 is out of range for 5 elements");
    ck_assert_int_eq(sn_setting_set("launch_blocking", "1"), SN_OK);
    ck_assert_ptr_null(sn_index_select(x, 0, wrong));
    expect_error(SN_ERR_VALUE, "aten::index_select: index 7 is out of range for 5 elements");
    ck_assert_ptr_null(sn_index_select(x, 0, places(-1)));
    expect_error(SN_ERR_VALUE, "aten::index_select: index -1 is out of range for 5 elements");
    sn_add_(y, sn_exp(y));
    if (is_emulated()) ck_assert_int_eq(emulated().queued, 0);
    ck_assert(same(here(y), sn_ones(SN_INTS(2), SN_F32)));
}
END_TEST

static sn_status selects(sn_frame *f) {
    sn_tensor *const x = sn_exp(sn_in(f, 0)), *const part = sn_index_select(x, 0, sn_in(f, 1));
    return sn_out(f, 0, sn_mul(part, part));
}

enum { LINE_OF_SELECTS = __LINE__ - 4 };

/* Eager, compiled, and compiled before the setting was made. */
START_TEST(a7_16_device_asserts) {
    char line[64];
    sn_function *const fn = sn_compile(
        selects, NULL, &(sn_compile_options){.size = sizeof(sn_compile_options), .mode = _i ? 0 : SN_COMPILE_EAGER});
    snprintf(line, sizeof line, "test_cuda_streams.c:%d", LINE_OF_SELECTS);
    for (int call = 0; call < 3; call++) {
        if (call || _i < 2) ck_assert_int_eq(sn_setting_set("device_asserts", "1"), SN_OK);
        sn_call1(fn, SN_TENSORS(there(numbers(5)), places(call ? 5 + call : 1)));
        sn_device_synchronize(GPU);
        if (!call) {
            expect_ok();
            continue;
        }
        const sn_error *const e = sn_error_take();
        ck_assert_int_eq(e->status, SN_ERR_VALUE);
        ck_assert_msg(strstr(e->where, line) != NULL, "'%s' of '%s'", e->where, e->message);
        ck_assert_msg(strstr(e->message, call == 1 ? "index_select: index 6 is out of range for 5 elements"
                                                   : "index_select: index 7 is out of range for 5 elements") != NULL,
                      "%s", e->message);
    }
    sn_function_free(fn);
}
END_TEST

START_TEST(an_event_that_moves_on_leaves_its_word) {
    reorder(_i);
    sn_stream *const side = sn_stream_new(GPU), *const own = sn_stream_own(GPU);
    sn_event *const event = sn_event_new(GPU);
    sn_tensor *const x = there(numbers(4)), *const fine = places(1), *const wrong = places(5);
    sn_tensor *const sum = there(sn_zeros(SN_INTS(2), SN_F32));
    follow(side, own);
    for (int round = 0; round < 300; round++) { /* more words than are made at once */
        const sn_scope scope = use(side);
        sn_tensor *const rows = sn_index_select(x, 0, fine);
        sn_event_record(event, side);
        ck_assert_int_eq(sn_stream_wait(own, event), SN_OK);
        if (round % 100 == 99) ck_assert_int_eq(sn_stream_synchronize(own), SN_OK);
        ck_assert_ptr_nonnull(rows);
        sn_scope_end(scope);
    }
    const sn_scope scope = use(side);
    sn_index_select(x, 0, wrong);
    sn_event_record(event, side);
    sn_scope_end(scope);
    sn_add_(sum, sn_ones_like(sum));
    ck_assert_int_eq(sn_stream_synchronize(own), SN_OK);
    ck_assert(same(here(sum), sn_ones(SN_INTS(2), SN_F32)));
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "index 5 is out of range");
    sn_event_free(event);
}
END_TEST

/* threads -------------------------------------------------------------------------------------- */

static void *launching(void *unused) {
    (void)unused;
    sn_stream *const mine = sn_stream_new(GPU);
    const sn_scope outer = use(mine);
    for (int i = 0; i < 30; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = sn_full(SN_INTS(64), sn_float(i + 0.5), SN_F32);
        sn_tensor *const y = sn_exp(sn_to_device_async(sn_pin(x, GPU), GPU));
        ck_assert(same(here(sn_index_select(y, 0, places(3))), sn_index_select(sn_exp(x), 0, here(places(3)))));
        sn_scope_end(scope);
    }
    sn_scope_end(outer);
    sn_stream_free(mine);
    expect_ok();
    return NULL;
}

START_TEST(several_threads_launch) {
    reorder(_i);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, launching, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_OK);
}
END_TEST

int main(void) {
    if (lacks_compiler()) return skip_without_compiler();
    TCase *const tests = tcase_create("cuda_streams");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a7_09_events_have_times);
    tcase_add_test(tests, a7_09_copies_and_kernels_overlap);
    tcase_add_test(tests, a7_10_pinned_copies_go_on_by_themselves);
    tcase_add_test(tests, a_source_that_is_written_too_early);
    tcase_add_test(tests, pinned_memory_is_given_out_again_after_its_copies);
    tcase_add_test(tests, pinned_memory_may_be_out);
    tcase_add_test(tests, scopes_put_the_stream_back);
    tcase_add_test(tests, what_does_not_fit);
    tcase_add_test(tests, the_cpu_has_streams_by_name);
    tcase_add_loop_test(tests, waits_make_an_order, 0, ORDERS);
    tcase_add_test(tests, a_missing_wait_is_seen);
    tcase_add_test(tests, the_device_is_waited_for_with_all_its_streams);
    tcase_add_test(tests, compiled_functions_run_on_the_current_stream);
    tcase_add_loop_test(tests, streams_change_inside_of_compiled_functions, 0, 6);
    tcase_add_loop_test(tests, backward_runs_on_the_streams_of_forward, 0, ORDERS);
    tcase_add_test(tests, hooks_run_on_the_stream_of_their_op);
    tcase_add_loop_test(tests, dlpack_goes_with_its_stream, 0, ORDERS);
    tcase_add_test(tests, dlpack_of_somebody_else);
    tcase_add_test(tests, dlpack_of_what_is_done);
    tcase_add_loop_test(tests, failed_checks_go_with_events, 0, ORDERS);
    tcase_add_test(tests, failed_checks_stay_on_their_stream);
    tcase_add_test(tests, rows_write_nothing_after_a_failed_check);
    tcase_add_test(tests, a7_16_launch_blocking);
    tcase_add_loop_test(tests, a7_16_device_asserts, 0, 3);
    tcase_add_loop_test(tests, an_event_that_moves_on_leaves_its_word, 0, 3);
    tcase_add_loop_test(tests, several_threads_launch, 0, 3);
    return suite_run("cuda_streams", tests);
}
