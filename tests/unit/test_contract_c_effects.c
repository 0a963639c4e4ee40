/* test_contract_c_effects.c: what a body does besides computing [semantics C3, C9, C12]: memory of the host, users' ops
 * with effects, and that these keep their order, their number and their times. */
#include <pthread.h>
#include <stdio.h>

#include "runtime/base/bail.h"
#include "tests/unit/contract.h"

typedef struct Host {
    float memory[6];
    char said[64];
    int kernels, branch;
    const sn_op *first, *second;
    float seen[6];
} Host;

/* C9: memory of the host that is wrapped in the body */
static sn_status wraps(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const mine =
        sn_wrap(SN_BLOB(.data = host->memory, .bytes = sizeof host->memory, .sizes = SN_INTS(6), .dtype = SN_F32));
    sn_tensor *const y = sn_mul(sn_in(f, 0), mine);
    sn_add_(mine, y); /* done when the call returns */
    return sn_out(f, 0, y);
}

START_TEST(c9_wrapped_memory_is_an_input_and_written) {
    Host fast = {.memory = {1, 2, 3, 4, 5, 6}}, slow = fast;
    const Twin twin = twin_new(wraps, &fast, &slow, NULL);
    for (int i = 0; i < 5; i++) {
        fast.memory[0] = slow.memory[0] = (float)i; /* nothing is kept of the last call's */
        TWIN_CALL(twin, F32(i, 6));
        ck_assert(!memcmp(fast.memory, slow.memory, sizeof fast.memory));
    }
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(twin.fast).compiles, 1);
    twin_free(twin);
}
END_TEST

static sn_status inner_adds(sn_frame *f) {
    sn_add_scalar_(sn_in(f, 0), sn_float(1));
    return SN_OK;
}
static sn_status calls_and_looks(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    if (sn_call(*(sn_function **)sn_closure(f), &x, 1, NULL, 0) != SN_OK) return sn_check();
    const float *const at = sn_data(x, SN_F32); /* pending until here: the call was inlined */
    const double now = at ? (double)at[0] : 0;
    return sn_out(f, 0, sn_mul_scalar(x, sn_float(now)));
}

START_TEST(c9_data_sees_what_an_inner_call_wrote) {
    sn_function *inner = sn_compile(inner_adds, NULL, NULL);
    const Twin twin = twin_new(calls_and_looks, &inner, &inner, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const a = F32(i, 6), *const b = sn_clone(a);
        twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
        ck_assert(same_bits(a, b));
    }
    twin_free(twin);
    sn_function_free(inner);
}
END_TEST

/* C12: ordered ops */
static Host *speaker;
static void say(char letter) {
    const size_t n = strlen(speaker->said);
    if (n + 1 < sizeof speaker->said) speaker->said[n] = letter;
    speaker->kernels++;
}
static sn_status says_a(sn_frame *f) {
    say('a');
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}
static sn_status says_b(sn_frame *f) {
    say('b');
    return sn_out(f, 0, sn_neg(sn_in(f, 0)));
}
static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status negates_grad(sn_frame *f) { return sn_set_grad_of(f, 0, sn_neg(sn_grad_of(f, 0))); }

static const sn_op *ordered(const char *schema, sn_body kernel) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = schema, .flags = SN_OP_ORDERED, .meta = like,
                                                      .cpu = kernel, .derivative = negates_grad, .saves = ""));
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    return op;
}

static sn_tensor *speak(const sn_op *op, sn_tensor *x) { return sn_op_call1(op, (sn_value[]){sn_val(x)}, 1); }

/* On independent values, one of them twice, one unused: any order would compute the same. */
static sn_status speaks(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    speak(host->second, x);
    sn_tensor *const b = speak(host->second, y), *const a = speak(host->first, x);
    sn_tensor *const c = speak(host->second, y);
    return sn_out(f, 0, sn_add(sn_add(a, b), c));
}

static sn_status speaks_and_breaks(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const a = speak(host->first, sn_in(f, 0)), *const h = sn_exp(a);
    sn_item(sn_sum(sn_in(f, 1)));
    sn_graph_break("ends the segment");
    if (host->branch) sn_read(h, host->seen, sizeof host->seen); /* needs a's value, not a again */
    return sn_out(f, 0, sn_add(h, sn_in(f, 1)));
}

static void register_speakers(Host *host) {
    static const sn_op *first, *second;
    if (!first) first = ordered("effects::a(Tensor x) -> Tensor", says_a);
    if (!second) second = ordered("effects::b(Tensor x) -> Tensor", says_b);
    host->first = first;
    host->second = second;
}

static void speaks_alike(sn_body body, int late) {
    Host fast = {0}, slow = {0};
    register_speakers(&fast);
    register_speakers(&slow);
    const Twin twin = twin_new(body, &fast, &slow, NULL);
    for (int i = 0; i < 5; i++) {
        fast.branch = slow.branch = late && i > 2;
        memset(fast.said, 0, sizeof fast.said);
        memset(slow.said, 0, sizeof slow.said);
        sn_tensor *const in[] = {F32(i, 6), F32(i + 9, 6)};
        sn_tensor *want, *got;
        speaker = &slow;
        ck_assert_int_eq(sn_call(twin.eager, in, 2, &want, 1), SN_OK);
        speaker = &fast;
        ck_assert_int_eq(sn_call(twin.fast, in, 2, &got, 1), SN_OK);
        ck_assert(same_bits(got, want));
        ck_assert_msg(!strcmp(fast.said, slow.said), "call %d: '%s', not '%s'", i, fast.said, slow.said);
        ck_assert(!memcmp(fast.seen, slow.seen, sizeof fast.seen));
    }
    twin_free(twin);
}

START_TEST(c12_ordered_ops_keep_program_order) { speaks_alike(speaks, 0); }
END_TEST

START_TEST(c12_ordered_ops_are_never_recomputed) { speaks_alike(speaks_and_breaks, 1); }
END_TEST

/* C12: once, whatever is asked for later, and by whom -------------------------------------------- */

static sn_status writes_between(sn_frame *f) { /* nobody wants what is said */
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    speak(host->second, sn_sin(x));
    speak(host->first, sn_sin(x));
    sn_add_scalar_(x, sn_int(1));
    speak(host->first, x);
    return sn_out(f, 0, sn_exp(x));
}

static sn_status asks_after_a_write(sn_frame *f) {
    Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const said = speak(host->first, sn_sin(x));
    sn_add_scalar_(x, sn_int(1));
    host->seen[0] = (float)sn_item(sn_sum(said));
    return sn_out(f, 0, sn_exp(x));
}

static sn_status asks_at_times(sn_frame *f) { /* for what no variant gave until then */
    Host *const host = sn_closure(f);
    sn_tensor *const h = sn_sin(sn_in(f, 0)), *const g = sn_exp(speak(host->first, h));
    sn_graph_break("ends the segment");
    if (host->branch == 3) sn_read(h, host->seen, sizeof host->seen);
    if (host->branch == 4) sn_read(g, host->seen, sizeof host->seen);
    return sn_out(f, 0, sn_neg(sn_in(f, 1)));
}

static sn_status checks_after(sn_frame *f) { /* the check of a later segment fails */
    const Host *const host = sn_closure(f);
    sn_tensor *const said = speak(host->first, sn_sin(sn_in(f, 0)));
    const int64_t at = host->branch == 3 ? 99 : 1;
    sn_tensor *const row = sn_index_select(said, 0, sn_from_data(&at, SN_INTS(1), SN_I64));
    return sn_out(f, 0, sn_add(row, sn_in(f, 1)));
}

static sn_status checks_before(sn_frame *f) { /* eager does not come to the effect */
    const Host *const host = sn_closure(f);
    const int64_t at = host->branch == 3 ? 99 : 1;
    sn_tensor *const row = sn_index_select(sn_in(f, 0), 0, sn_from_data(&at, SN_INTS(1), SN_I64));
    return sn_out(f, 0, speak(host->first, row));
}

static void *reads_sum(void *tensor) {
    static double sum;
    sum = sn_item(sn_sum(tensor));
    return &sum;
}
static float sum_elsewhere(sn_tensor *t) {
    pthread_t thread;
    void *sum;
    ck_assert_int_eq(pthread_create(&thread, NULL, reads_sum, t), 0);
    pthread_join(thread, &sum);
    return (float)*(double *)sum;
}
static sn_status shows_another_thread(sn_frame *f) { /* of an ended segment, and pending */
    Host *const host = sn_closure(f);
    sn_tensor *const h = sn_sin(sn_in(f, 0));
    speak(host->first, h);
    sn_graph_break("ends the segment");
    host->seen[0] = sum_elsewhere(h);
    sn_tensor *const said = speak(host->second, sn_in(f, 1));
    host->seen[1] = sum_elsewhere(said);
    return sn_out(f, 0, sn_neg(said));
}

static sn_status trains(sn_frame *f) { /* what the tape has is asked for after its launch */
    Host *const host = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_in(f, 0)), *const said = speak(host->first, sn_mul(h, h));
    sn_graph_break("ends the segment");
    if (host->branch > 2) sn_read(h, host->seen, sizeof host->seen);
    return sn_out(f, 0, sn_mul(said, said));
}

static const struct Effects {
    sn_body body;
    bool leaf, by_hand; /* by_hand: some of it runs eagerly as the rules want it */
} effects[] = {{writes_between, false, false}, {asks_after_a_write, false, false}, {asks_at_times, false, false},
               {checks_after, false, true},    {checks_before, false, true},       {shows_another_thread, false, true},
               {trains, true, false}};
enum { EFFECTS = sizeof effects / sizeof *effects };

static sn_tensor *call_speaking(sn_function *fn, Host *host, sn_tensor *const *in) {
    memset(host->said, 0, sizeof host->said);
    speaker = host;
    sn_tensor *const got = SN_CALL(fn, in[0], in[1]);
    if (got && sn_requires_grad(got)) sn_backward(sn_sum(got));
    if (!got) expect_error(SN_ERR_VALUE, "index");
    return got;
}

static sn_stats effects_alike(const struct Effects *now, int mode) {
    Host fast = {0}, slow = {0};
    register_speakers(&fast);
    register_speakers(&slow);
    const Twin twin = twin_new(now->body, &fast, &slow, SN_COMPILE_OPTIONS(.mode = mode));
    for (int i = 0; i < 6; i++) {
        fast.branch = slow.branch = i;
        sn_tensor *const a[] = {F32(i, 6), F32(i + 9, 6)}, *const b[] = {F32(i, 6), F32(i + 9, 6)};
        if (now->leaf) sn_requires_grad_(a[0], true), sn_requires_grad_(b[0], true);
        sn_tensor *const want = call_speaking(twin.eager, &slow, a);
        sn_tensor *const got = call_speaking(twin.fast, &fast, b);
        ck_assert(same_bits(got, want) && same_bits(a[0], b[0]));
        ck_assert(same_bits(sn_grad(a[0]), sn_grad(b[0])));
        ck_assert_msg(!strcmp(fast.said, slow.said), "body %d, call %d: '%s', not '%s'", (int)(now - effects), i,
                      fast.said, slow.said);
        ck_assert(!memcmp(fast.seen, slow.seen, sizeof fast.seen));
    }
    const sn_stats stats = stats_of(twin.fast);
    twin_free(twin);
    return stats;
}

START_TEST(c12_effects_happen_once) {
    const struct Effects *const now = &effects[_i / 2];
    const sn_stats stats = effects_alike(now, _i % 2 ? SN_COMPILE_REPLAY : SN_COMPILE_VERIFY);
    ck_assert_int_gt(stats.ops_generated, 0);
    if (now->by_hand) return;
    ck_assert_int_eq(stats.ops_eager, 0); /* C14 */
    ck_assert_int_eq(stats.recompiles, 0);
}
END_TEST

START_TEST(c12_effects_happen_once_where_a_step_fails) {
    static const char *const points[] = {"capture", "backward", "mismatch:1", "pass:schedule"};
    failpoint_set(points[_i / EFFECTS]);
    effects_alike(&effects[_i % EFFECTS], SN_COMPILE_VERIFY);
    failpoint_set(NULL);
}
END_TEST

/* C12: in program order, where fused ops run earlier or later than they were called */
static sn_status speaks_beside_a_fused_op(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_sin(sn_in(f, 0)), *const a = speak(host->first, h);
    sn_tensor *const b = speak(host->second, sn_in(f, 1));
    return sn_out(f, 0, sn_add(sn_add(sn_exp(h), a), b)); /* exp could share h's nest: b came first */
}
static sn_status speaks_across_a_fused_op(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_sin(sn_in(f, 0)), *const a = speak(host->first, h);
    sn_tensor *const b = speak(host->second, sn_in(f, 1));
    return sn_out(f, 0, sn_mul(sn_add(h, b), a)); /* h in one nest with the sum would wait for b */
}

START_TEST(c12_fused_ops_leave_effects_in_order) {
    speaks_alike(speaks_beside_a_fused_op, 0);
    speaks_alike(speaks_across_a_fused_op, 0);
}
END_TEST

/* An op for its effect alone has no results, and no place in a graph. */
static sn_status says_only(sn_frame *f) {
    (void)f;
    say('c');
    return SN_OK;
}
static sn_status returns_nothing(sn_frame *f) {
    (void)f;
    return SN_OK;
}
static sn_status speaks_for_the_effect(sn_frame *f) {
    const Host *const host = sn_closure(f);
    const sn_value in[] = {sn_val(sn_exp(speak(host->first, sn_in(f, 0))))};
    sn_op_call(sn_op_find("effects::only"), in, 1, NULL, 0);
    return sn_out(f, 0, sn_add(speak(host->second, sn_in(f, 0)), sn_in(f, 1)));
}

START_TEST(c12_an_op_without_results_breaks) {
    ck_assert_ptr_nonnull(sn_op_register(SN_OP_DESC(.schema = "effects::only(Tensor x) -> ()", .flags = SN_OP_ORDERED,
                                                    .meta = returns_nothing, .cpu = says_only)));
    speaks_alike(speaks_for_the_effect, 0);
}
END_TEST

/* A backward is cut, pruned and made per key: one with effects is eager's. */
static sn_status says_its_grad(sn_frame *f) {
    speak(sn_closure(f), sn_grad_of(f, 0)); /* for the effect alone */
    return sn_set_grad_of(f, 0, sn_neg(sn_grad_of(f, 0)));
}
static sn_status speaks_backward(sn_frame *f) {
    return sn_out(f, 0, sn_mul(speak(sn_op_find("effects::back"), sn_in(f, 0)), sn_in(f, 1)));
}

START_TEST(c12_a_derivative_keeps_its_effects) {
    Host host = {0};
    register_speakers(&host);
    ck_assert_ptr_nonnull(sn_op_register(SN_OP_DESC(.schema = "effects::back(Tensor x) -> Tensor", .flags = SN_OP_PURE,
                                                    .meta = like, .cpu = says_b, .derivative = says_its_grad,
                                                    .saves = "", .closure = (void *)(uintptr_t)host.first)));
    sn_function *const fn = sn_compile(speaks_backward, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const in[] = {LEAF(i, 6), F32(i + 9, 6)};
        ck_assert_ptr_nonnull(call_speaking(fn, &host, in));
        ck_assert_str_eq(host.said, "ba");
    }
    ck_assert_ptr_nonnull(strstr(sn_explain(fn), "a derivative with an op that has effects"));
    sn_function_free(fn);
}
END_TEST

/* An op that writes an argument, as its schema says, and is pure else. */
static sn_status adds_into(sn_frame *f) {
    sn_add_(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 1)));
}
static sn_status writes_its_argument(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0), *const before = sn_exp(x);
    const sn_value in[] = {sn_val(x), sn_val(before)};
    sn_tensor *const y = sn_op_call1(host->first, in, 2), *const z = sn_op_call1(host->first, in, 2);
    return sn_out(f, 0, sn_add(sn_sub(x, before), sn_mul(y, z)));
}

START_TEST(c12_mutated_arguments_are_written_in_order) {
    Host host = {0};
    host.first = sn_op_register(SN_OP_DESC(.schema = "effects::into(Tensor(a!) x, Tensor y) -> Tensor",
                                           .flags = SN_OP_PURE, .meta = like, .cpu = adds_into));
    ck_assert_msg(host.first != NULL, "%s", sn_error_take()->message);
    const Twin twin = twin_new(writes_its_argument, &host, &host, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const a = F32(i, 6), *const b = sn_clone(a);
        twin_call(twin, SN_TENSORS(a), SN_TENSORS(b));
        ck_assert(same_bits(a, b));
    }
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
}
END_TEST

/* C3: what changes how ops are recorded acts between the ops before it and those after it */
static sn_status penalty(sn_frame *f) { /* a leaf that the body makes of its own result */
    sn_tensor *const x = sn_requires_grad_(sn_detach(sn_mul(sn_in(f, 0), sn_in(f, 0))), true);
    sn_tensor *grad;
    sn_gradients(SN_TENSORS(sn_sum(sn_exp(x))), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &grad);
    return sn_out(f, 0, sn_sum(sn_mul(grad, grad)));
}

START_TEST(c3_a_result_becomes_a_leaf) {
    const Twin twin = twin_new(penalty, NULL, NULL, NULL);
    for (int i = 0; i < 4; i++) {
        TWIN_CALL(twin, F32(i, 6));
        ck_assert(sn_requires_grad(SN_CALL(twin.fast, F32(i, 6))));
    }
    ck_assert_ptr_nonnull(strstr(sn_explain(twin.fast), "sn_requires_grad_ changes a tensor"));
    twin_free(twin);
}
END_TEST

static sn_status freezes(sn_frame *f) { /* half of the uses of a closed-over leaf count */
    sn_tensor *const a = *(sn_tensor **)sn_closure(f);
    sn_tensor *const y = sn_mm(sn_in(f, 0), a);
    sn_requires_grad_(a, false);
    sn_tensor *const z = sn_mm(sn_exp(sn_in(f, 0)), a);
    sn_requires_grad_(a, true);
    sn_out(f, 1, z);
    return sn_out(f, 0, sn_sum(sn_mul(y, z)));
}

START_TEST(c3_a_leaf_switched_off_and_on) {
    sn_tensor *fast = LEAF(1, 4, 4), *slow = LEAF(1, 4, 4);
    const Twin twin = twin_new(freezes, &fast, &slow, NULL);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const x = F32(i, 4, 4), *got[2], *want[2];
        ck_assert_int_eq(sn_call(twin.fast, &x, 1, got, 2), SN_OK);
        ck_assert_int_eq(sn_call(twin.eager, &x, 1, want, 2), SN_OK);
        ck_assert(!sn_requires_grad(got[1]) && same_bits(got[1], want[1]));
        ck_assert_int_eq(sn_backward(got[0]), SN_OK);
        ck_assert_int_eq(sn_backward(want[0]), SN_OK);
        ck_assert(same_bits(sn_grad(fast), sn_grad(slow)));
    }
    twin_free(twin);
}
END_TEST

static sn_status counts_ops(sn_frame *f) {
    ++*(int *)sn_closure(f);
    return sn_redispatch(f);
}
static sn_status under_a_mode(sn_frame *f) {
    sn_tensor *const a = sn_exp(sn_in(f, 0)); /* not the mode's business */
    sn_user_mode_push(counts_ops, sn_closure(f));
    sn_tensor *const b = sn_mul(a, sn_in(f, 0));
    sn_user_mode_pop();
    return sn_out(f, 0, sn_sub(b, a));
}

START_TEST(c3_a_user_mode_sees_what_comes_after_it) {
    int fast = 0, slow = 0;
    const Twin twin = twin_new(under_a_mode, &fast, &slow, NULL);
    for (int i = 1; i < 4; i++) {
        TWIN_CALL(twin, F32(i, 6));
        ck_assert_int_eq(fast, i);
        ck_assert_int_eq(slow, i);
    }
    twin_free(twin);
}
END_TEST

/* B6: an op that eager would not have reached draws no random numbers */
static sn_status draws_after_a_check(sn_frame *f) {
    sn_tensor *const rows = sn_index_select(sn_in(f, 0), 0, sn_in(f, 1));
    return sn_out(f, 0, sn_add(rows, sn_rand(SN_INTS(3), SN_F32)));
}

static sn_tensor *draw(sn_function *fn, int64_t index) {
    sn_tensor *const y = SN_CALL(fn, F32(1, 4, 3), sn_from_data(&index, SN_INTS(1), SN_I64));
    if (index > 3) expect_error(SN_ERR_VALUE, "index");
    return y;
}

START_TEST(b6_a_failed_check_draws_nothing) {
    const Twin twin = twin_new(draws_after_a_check, NULL, NULL, NULL);
    sn_tensor *want[4], *got[4];
    sn_seed(5);
    for (int i = 0; i < 4; i++) want[i] = draw(twin.eager, i == 2 ? 9 : i);
    sn_seed(5);
    for (int i = 0; i < 4; i++) got[i] = draw(twin.fast, i == 2 ? 9 : i);
    for (int i = 0; i < 4; i++) ck_assert(same_bits(got[i], want[i]));
    twin_free(twin);
}
END_TEST

/* C12, G1: kernels on the host that call ops themselves ------------------------------------------ */

typedef struct Kernel {
    int form;
    sn_tensor *w;    /* a leaf that the kernel reads without having been given it */
    sn_function *fn; /* compiled */
} Kernel;
static Kernel kernel;

static sn_status triple(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(3))); }

static sn_status kernel_of_ops(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    switch (kernel.form) {
    case 0:
        return triple(f);
    case 1:
        return sn_out(f, 0, sn_mul(x, kernel.w));
    case 2:
        return sn_out(f, 0, sn_add_(sn_clone(x), kernel.w));
    case 3:
        return sn_out(f, 0, sn_call1(kernel.fn, SN_TENSORS(x)));
    default:
        return sn_out(f, 0, sn_mul_scalar(x, sn_float(sn_item(sn_sum(sn_mul(x, x))))));
    }
}
enum { KERNEL_FORMS = 5 };

static sn_status hundredfold(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_float(100)));
}

static sn_tensor *host_op_loss(sn_frame *f) {
    const sn_op *const op = *(const sn_op **)sn_closure(f);
    const sn_value in[] = {sn_val(sn_exp(sn_in(f, 0)))};
    return sn_sum(sn_op_call1(op, in, 1));
}
static sn_status loss_of_host_op(sn_frame *f) { return sn_out(f, 0, host_op_loss(f)); }
static sn_status step_of_host_op(sn_frame *f) {
    sn_tensor *const loss = host_op_loss(f);
    sn_backward(loss);
    return sn_out(f, 0, sn_detach(loss));
}

static sn_tensor *gradient_of(sn_function *fn, bool inside, sn_tensor **loss, sn_tensor **of_w) {
    sn_tensor *const x = LEAF(7, 6);
    kernel.w = LEAF(8, 6);
    *loss = SN_CALL(fn, x);
    ck_assert_msg(*loss != NULL, "%s", sn_error_take()->message);
    if (!inside) sn_backward(*loss);
    *of_w = sn_grad(kernel.w);
    ck_assert_ptr_nonnull(sn_grad(x));
    return sn_grad(x);
}

/* The op's own derivative counts, not those of what its kernel calls. */
static void compare_kernels(const sn_op *op, bool inside) {
    const Twin twin = twin_new(inside ? step_of_host_op : loss_of_host_op, &op, &op, NULL);
    kernel.fn = sn_compile(triple, NULL, NULL);
    for (int i = 0; i < 3 * KERNEL_FORMS; i++) {
        kernel.form = i % KERNEL_FORMS;
        sn_tensor *loss[2], *of_w[2];
        sn_tensor *const want = gradient_of(twin.eager, inside, &loss[0], &of_w[0]);
        ck_assert_msg(same_bits(gradient_of(twin.fast, inside, &loss[1], &of_w[1]), want), "form %d, call %d",
                      kernel.form, i);
        ck_assert(same_bits(loss[1], loss[0]) && same_bits(of_w[1], of_w[0]));
    }
    sn_function_free(kernel.fn);
    twin_free(twin);
}

START_TEST(c12_what_a_kernel_calls_is_not_differentiated) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "effects::host(Tensor x) -> Tensor",
                                                      .cpu = kernel_of_ops, .derivative = hundredfold, .saves = ""));
    const sn_op *const relu = sn_op_find("aten::relu");
    for (int inside = 0; inside < 2; inside++) {
        compare_kernels(op, inside);
        sn_override *const override = sn_op_override(relu, SN_KEY_CPU, kernel_of_ops, NULL);
        compare_kernels(relu, inside);
        sn_override_free(override);
    }
}
END_TEST

int main(void) {
    TCase *const tcase = tcase_create("test_contract_c_effects");
    tcase_set_timeout(tcase, 60);
    const TTest *const tests[] = {
        c9_wrapped_memory_is_an_input_and_written,
        c9_data_sees_what_an_inner_call_wrote,
        c12_ordered_ops_keep_program_order,
        c12_ordered_ops_are_never_recomputed,
        c12_fused_ops_leave_effects_in_order,
        c12_an_op_without_results_breaks,
        c12_a_derivative_keeps_its_effects,
        c12_mutated_arguments_are_written_in_order,
        c12_what_a_kernel_calls_is_not_differentiated,
        c3_a_result_becomes_a_leaf,
        c3_a_leaf_switched_off_and_on,
        c3_a_user_mode_sees_what_comes_after_it,
        b6_a_failed_check_draws_nothing,
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) tcase_add_test(tcase, tests[i]);
    tcase_add_loop_test(tcase, c12_effects_happen_once, 0, 2 * EFFECTS);
    tcase_add_loop_test(tcase, c12_effects_happen_once_where_a_step_fails, 0, 4 * EFFECTS);
    return suite_run("test_contract_c_effects", tcase);
}
