/* test_failing.c: failing is normal: at every stage of a compile, at every op of a mismatch, when a
 * guard fails, when memory is out. The bits stay eager's, the reason is coded and counted, nothing
 * is left behind. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "passes/passes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/capture/variant/guard.h"
#include "tests/unit/contract.h"

typedef struct Host {
    double number;
    int64_t position;
    int branch;
    sn_tensor *w, *kept;
} Host;

/* Stages -------------------------------------------------------------------------------------- */

static sn_status numbered(sn_frame *f) { /* code of its own by number: nothing is found compiled */
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(host->number));
    return sn_out(f, 0, sn_softmax(sn_add(h, sn_in(f, 0)), -1));
}

/* Three calls with a failing point: the bits of eager, and what sn_explain says. */
static void fails_at(const char *point, double number, const char *code) {
    Host host = {.number = number};
    const Twin twin = twin_new(numbered, &host, &host, NULL);
    failpoint_set(point);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 5, 40));
    failpoint_set(NULL);
    const sn_stats stats = stats_of(twin.fast);
    ck_assert_msg(stats.ops_generated == 0, "%s: generated code ran", point);
    ck_assert_msg(stats.ops_eager + stats.ops_interpreted == 6, "%s: %lld + %lld ops", point,
                  (long long)stats.ops_eager, (long long)stats.ops_interpreted);
    ck_assert_int_ne(last_path(), SN_PATH_COMPILED);
    const char *const text = sn_explain(twin.fast);
    ck_assert_msg(strstr(text, code) != NULL, "%s: '%s' is not in: %s", point, code, text);
    ck_assert_msg(*last_reason() && strstr(text, last_reason()), "%s: the call says '%s'", point, last_reason());
    ck_assert_int_eq(sn_check(), SN_OK);
    twin_free(twin);
}

START_TEST(capture_may_fail) { fails_at("capture", 0.2, "failpoint: failpoint capture"); }
END_TEST

START_TEST(every_pass_may_fail) {
    PassList passes;
    ck_assert_int_eq(passes_list("compile", &passes), ST_OK);
    ck_assert_int_ge(passes.n, 10);
    for (int i = 0; i < passes.n; i++) {
        char point[64];
        snprintf(point, sizeof point, "pass:%s", passes.at[i]->name);
        fails_at(point, 0.3 + i, "failpoint");
    }
}
END_TEST

START_TEST(every_stage_of_code_generation_may_fail) {
    fails_at("codegen", 10.1, "codegen");
    fails_at("llvm_verify", 10.2, "llvm_verify");
    fails_at("emit", 10.3, "emit");
    fails_at("load", 10.4, "load");
    fails_at("exec_memory", 10.5, "exec_memory");
}
END_TEST

START_TEST(replay_says_that_it_is_interpreted) {
    Host host = {.number = 12.5};
    sn_function *const fn = sn_compile(numbered, &host, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    failpoint_set("codegen");
    for (int i = 0; i < 6; i++) { /* one size, then any */
        SN_CALL(fn, F32(i, i < 3 ? 5 : 5 + i, 40));
        if (i == 0 || i == 3) continue;
        ck_assert_int_eq(last_path(), SN_PATH_INTERPRETED);
        ck_assert_msg(*last_reason() && strstr(sn_explain(fn), last_reason()), "%s", last_reason());
    }
    failpoint_set(NULL);
    sn_function_free(fn);
}
END_TEST

START_TEST(without_llvm_the_interpreter_runs) {
    setenv("SINTER_LLVM_MODULE", "/nonexistent", 1);
    fails_at("", 11.1, "llvm_absent");
}
END_TEST

static sn_tensor *gradient_of(sn_function *fn, uint64_t seed) {
    sn_tensor *const x = LEAF(seed, 5, 40);
    sn_tensor *const y = SN_CALL(fn, x);
    ck_assert_msg(sn_backward(sn_sum(sn_mul(y, y))) == SN_OK, "%s", sn_error_take()->message);
    return sn_grad(x);
}

START_TEST(a_failing_compile_leaves_gradients_right) {
    static const char *const points[] = {"capture",       "pass:functionalize", "pass:decompose", "pass:partition",
                                         "pass:schedule", "pass:memory",        "codegen",        "exec_memory"};
    for (int i = 0; i < COUNT_OF(points); i++) {
        Host host = {.number = 20.5 + i};
        const Twin twin = twin_new(numbered, &host, &host, NULL);
        failpoint_set(points[i]);
        for (int k = 0; k < 3; k++) ck_assert(same_bits(gradient_of(twin.fast, 3), gradient_of(twin.eager, 3)));
        failpoint_set(NULL);
        ck_assert_int_eq(stats_of(twin.fast).ops_generated, 0);
        twin_free(twin);
    }
}
END_TEST

START_TEST(full_graph_says_what_failed) {
    Host host = {.number = 30.25};
    sn_function *const fn = sn_compile(numbered, &host, SN_COMPILE_OPTIONS(.full_graph = true));
    failpoint_set("pass:cse");
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 5, 40)));
    expect_error(SN_ERR_STRICT, "cse");
    failpoint_set(NULL);
    sn_function_free(fn);
}
END_TEST

/* A mismatch at op k -------------------------------------------------------------------------- */

static sn_status six_ops(sn_frame *f) {
    const int other = ((const Host *)sn_closure(f))->branch;
    sn_tensor *x = sn_in(f, 0);
    for (int k = 0; k < 6; k++) x = k == other ? sn_tanh(x) : sn_add(sn_sin(x), x);
    return sn_out(f, 0, x);
}

START_TEST(a_mismatch_at_any_op_keeps_the_bits) {
    for (int k = 0; k < 6; k++) {
        Host host = {.branch = -1};
        const Twin twin = twin_new(six_ops, &host, &host, NULL);
        for (int i = 0; i < 5; i++) {
            host.branch = i == 1 || i == 3 ? k : -1;
            TWIN_CALL(twin, F32(i, 21));
            ck_assert_int_eq(last_path(), i < 2 ? SN_PATH_EAGER : SN_PATH_COMPILED);
        }
        ck_assert_int_eq(stats_of(twin.fast).graphs, 2);
        twin_free(twin);
    }
}
END_TEST

/* Forced, the op finds no edge though the path is known: the rest of the call is new, then all is as before. */
START_TEST(a_forced_mismatch_takes_a_new_path) {
    Host host = {.branch = -1};
    for (int k = 0; k < 6; k++) {
        const Twin twin = twin_new(six_ops, &host, &host, NULL);
        char point[32];
        snprintf(point, sizeof point, "mismatch:%d", k);
        for (int i = 0; i < 5; i++) {
            failpoint_set(i == 2 ? point : "");
            TWIN_CALL(twin, F32(i, 21));
            ck_assert_int_eq(last_path(), i == 0 || i == 2 ? SN_PATH_EAGER : SN_PATH_COMPILED);
        }
        ck_assert_int_eq(stats_of(twin.fast).graphs, 2);
        twin_free(twin);
    }
}
END_TEST

/* Guards: each row has a program that goes wrong without it ----------------------------------- */

static sn_status doubled(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(host->number));
    if (host->branch) ((Host *)host)->kept = sn_keep(h);
    return sn_out(f, 0, sn_sin(h));
}
static sn_status product(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 1))); }
static sn_status writes_then_reads(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_add_scalar_(x, sn_float(1));
    return sn_out(f, 0, sn_mul(x, sn_in(f, 1)));
}
static sn_status powers(sn_frame *f) {
    return sn_out(f, 0, sn_pow_scalar(sn_in(f, 0), sn_float(((Host *)sn_closure(f))->number)));
}
static sn_status squeezed(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_squeeze(sn_in(f, 0)))); }
static sn_status first_ten(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_slice(sn_in(f, 0), 0, 0, 10, 1))); }
static sn_status rectified(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_in(f, 0))); }

static sn_dynamic guard_dynamic = SN_DYNAMIC_NEVER;

/* One call of both: the same error or the same bits, history and kept value. */
static bool alike(Twin twin, Host *fast, Host *slow, sn_tensors a, sn_tensors b) {
    sn_tensor *const want = sn_call1(twin.eager, b);
    const sn_status status = sn_error_take()->status;
    sn_tensor *const got = sn_call1(twin.fast, a);
    if (sn_error_take()->status != status) return false;
    if (!want || !got) return want == got;
    if (!same_bits(got, want) || sn_requires_grad(got) != sn_requires_grad(want)) return false;
    return !fast->kept || same_bits(fast->kept, slow->kept);
}

typedef struct Inputs {
    sn_tensor *at[2];
    int n;
} Inputs;
typedef Inputs MakeInputs(int step); /* called once for each twin */

/* Four calls; from the third on with what the guard is for. */
static bool right(sn_body body, MakeInputs *make, double before, double after, int keep) {
    Host fast = {0}, slow = {0};
    const Twin twin = twin_new(body, &fast, &slow, SN_COMPILE_OPTIONS(.dynamic = guard_dynamic));
    bool all = true;
    for (int step = 0; step < 4 && all; step++) {
        fast.number = slow.number = step < 2 ? before + (guard_dynamic ? 0 : step) : after;
        fast.branch = slow.branch = keep && step >= 2;
        const Inputs a = make(step), b = make(step);
        all = alike(twin, &fast, &slow, (sn_tensors){a.at, a.n}, (sn_tensors){b.at, b.n});
    }
    return all;
}

#define INPUTS(name, ...)                                                                                              \
    static Inputs name(int step) {                                                                                     \
        const bool late = step >= 2;                                                                                   \
        (void)late;                                                                                                    \
        return (Inputs)__VA_ARGS__;                                                                                    \
    }
INPUTS(plain, {{F32(1, 24)}, 1})
INPUTS(other_dtype, {{late ? sn_to(F32(1, 24), SN_F64) : F32(1, 24)}, 1})
INPUTS(other_rank, {{late ? F32(1, 24, 2) : F32(1, 24)}, 1})
INPUTS(other_size, {{late ? F32(1, 30) : F32(1, 24)}, 1})
INPUTS(other_stride, {{late ? sn_t(F32(1, 6, 6)) : F32(1, 6, 6)}, 1})
INPUTS(grad_later, {{late ? LEAF(1, 24) : F32(1, 24)}, 1})
INPUTS(small_batch, {{F32(1, late ? 1 : 8 << step, 4)}, 1})
INPUTS(short_later, {{F32(1, late ? 6 : 16 << step)}, 1})

static Inputs inference_later(int step) {
    const sn_grad_mode before = sn_grad_mode_set(step >= 2 ? SN_INFERENCE : SN_GRAD_ON);
    sn_tensor *const x = F32(1, 24);
    sn_grad_mode_set(before);
    return (Inputs){{x, LEAF(2, 24)}, 2};
}
static Inputs alias_later(int step) {
    sn_tensor *const x = F32(1, 24);
    return (Inputs){{x, step >= 2 ? sn_alias(x) : F32(2, 24)}, 2};
}
static Inputs nearer_later(int step) {
    sn_tensor *const base = F32(1, 24);
    return (Inputs){{sn_narrow(base, 0, 0, 8), sn_narrow(base, 0, step >= 2 ? 3 : 12, 8)}, 2};
}
static Inputs wrapped_later(int step) {
    const Arg two = A_FLOAT(2.1);
    sn_tensor *const number = step >= 2 ? sn_scalar_tensor(sn_float(2.1), SN_F64) : tensor_scalar(&two, DT_f64);
    return (Inputs){{sn_scalar_tensor(sn_float(0.7), SN_F32), number}, 2};
}
static Inputs overlapping_later(int step) {
    static float pool[32][64];
    static int next;
    float *const memory = pool[next++];
    fill_floats(memory, 64, 1);
    sn_blob one = {.size = sizeof one, .data = memory, .bytes = 32, .dtype = SN_F32}, two = one;
    one.sizes = two.sizes = SN_INTS(8);
    two.data = memory + (step >= 2 ? 3 : 16);
    return (Inputs){{sn_wrap(&one), sn_wrap(&two)}, 2};
}

static sn_status zero_kernel(sn_frame *f) { return sn_out(f, 0, sn_zeros_like(sn_in(f, 0))); }

static bool right_with_override(sn_body body, const char *op, sn_key key) {
    Host host = {0};
    const Twin twin = twin_new(body, &host, &host, NULL);
    bool all = true;
    for (int step = 0; step < 5; step++) {
        if (step == 2) sn_op_override(sn_op_find(op), key, zero_kernel, NULL);
        sn_tensor *const x = F32(1, 24);
        all &= alike(twin, &host, &host, SN_TENSORS(x), SN_TENSORS(x));
    }
    twin_free(twin);
    return all;
}

/* Nothing compiled today goes wrong without these three alone: the segment is a case of its own. */
static sn_tensor *not_a_leaf(void) {
    sn_tensor *const leaf = LEAF(1, 24);
    return sn_mul(leaf, leaf);
}
static sn_tensor *normal(void) { return F32(1, 24); }
static sn_tensor *leaf(void) { return LEAF(1, 24); }
static sn_tensor *of_inference(void) { return inference_later(2).at[0]; }
static sn_tensor *with_another_table(void) {
    sn_op_override(sn_op_find("aten::exp"), SN_KEY_CPU, zero_kernel, NULL);
    return F32(1, 24);
}

static bool told_apart(sn_tensor *before(void), sn_tensor *after(void)) {
    sn_function *const fn = sn_compile(rectified, NULL, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, before());
    const bool compiled = last_path() == SN_PATH_COMPILED;
    return compiled && SN_CALL(fn, after()) && last_path() == SN_PATH_EAGER;
}

/* What is kept would be recomputed without it: right, but each time. */
static bool keeping_is_told_apart(void) {
    Host host = {.number = 2};
    sn_function *const fn = sn_compile(doubled, &host, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(1, 24));
    const bool compiled = last_path() == SN_PATH_COMPILED;
    host.branch = 1;
    SN_CALL(fn, F32(1, 24));
    return compiled && last_path() == SN_PATH_EAGER;
}

static sn_status limited(sn_frame *f) { return sn_out(f, 0, sn_clamp_min(sn_in(f, 0), sn_in_value(f, 1))); }

/* Not run again, the op would not see that f32 has no such number. */
static bool refuses_what_no_f32_is(void) {
    static const double numbers[] = {1.25, 2.25, 3.25, 4.25, 1e39};
    sn_function *const fn = sn_compile(limited, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *y = NULL;
    for (int i = 0; i < COUNT_OF(numbers); i++) {
        if (sn_check() != SN_OK) return false;
        sn_call_values(fn, (sn_value[]){sn_val(F32(1, 24)), sn_float(numbers[i])}, 2, &y, 1);
    }
    return sn_error_take()->status == SN_ERR_VALUE;
}

static bool guarded_program(GuardId guard) {
    guard_dynamic =
        guard == GUARD_range || guard == GUARD_symbol || guard == GUARD_special ? SN_DYNAMIC_AUTO : SN_DYNAMIC_NEVER;
    switch (guard) {
    case GUARD_epoch:
        return told_apart(normal, with_another_table);
    case GUARD_dtype:
        return right(doubled, other_dtype, 2, 2, 0);
    case GUARD_rank:
        return right(doubled, other_rank, 2, 2, 0);
    case GUARD_wrapped:
        return right(product, wrapped_later, 2, 2, 0);
    case GUARD_size:
        return right(doubled, other_size, 2, 2, 0);
    case GUARD_stride:
        return right(doubled, other_stride, 2, 2, 0);
    case GUARD_requires_grad:
        return right(doubled, grad_later, 2, 2, 0);
    case GUARD_is_leaf:
        return told_apart(not_a_leaf, leaf);
    case GUARD_inference:
        return told_apart(normal, of_inference);
    case GUARD_aliasing:
        return right(writes_then_reads, alias_later, 2, 2, 0);
    case GUARD_offset:
        return right(writes_then_reads, nearer_later, 2, 2, 0);
    case GUARD_overlap:
        return right(writes_then_reads, overlapping_later, 2, 2, 0);
    case GUARD_number:
        return right(doubled, plain, 2, 3, 0);
    case GUARD_special:
        return right(powers, plain, 2.5, 3.0, 0);
    case GUARD_limit:
        return refuses_what_no_f32_is();
    case GUARD_range:
        return right(squeezed, small_batch, 2, 2, 0);
    case GUARD_symbol:
        return right(first_ten, short_later, 2, 2, 0);
    case GUARD_output:
        return keeping_is_told_apart();
    default:
        return false;
    }
}

static sn_status softmaxed(sn_frame *f) { return sn_out(f, 0, sn_softmax(sn_in(f, 0), 0)); }

START_TEST(overrides_are_heard) {
    ck_assert(right_with_override(rectified, "aten::relu", SN_KEY_CPU));
    ck_assert(right_with_override(rectified, "aten::relu", SN_KEY_AUTOGRAD));
    ck_assert(right_with_override(softmaxed, "aten::softmax.int", SN_KEY_AUTOGRAD));
}
END_TEST

/* In a process of its own: a program without its guard may crash. */
static bool passes_without(uint32_t off, GuardId guard) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        guard_disable(off);
        _exit(guarded_program(guard) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

START_TEST(c7_each_guard_keeps_a_program_right) {
    for (int guard = 0; guard < GUARD_COUNT; guard++)
        ck_assert_msg(passes_without(0, (GuardId)guard), "wrong with guard %s", guard_name((GuardId)guard));
}
END_TEST

START_TEST(c7_each_guard_is_needed) {
    for (int guard = 0; guard < GUARD_COUNT; guard++)
        ck_assert_msg(!passes_without(1u << guard, (GuardId)guard), "right without guard %s",
                      guard_name((GuardId)guard));
}
END_TEST

/* Memory that runs out ------------------------------------------------------------------------ */

static sn_status small_net(sn_frame *f) {
    const Host *const host = sn_closure(f);
    return sn_out(f, 0, sn_sum(sn_gelu(sn_matmul(sn_in(f, 0), host->w))));
}

typedef bool Action(void *context, sn_tensor **out); /* false: an error is pending */

/* The action with its n-th allocation failing, for every n that it reaches: an error or the right
 * result, and as many open scopes as before. */
static void sweep(Action *action, void *context, sn_tensor *want) {
    for (int64_t n = 0;; n++) {
        sn_state *const state = state_get();
        const sn_scope scope = sn_scope_begin();
        const uint32_t scopes = state->n_scopes;
        const int64_t before = mem_count();
        sn_tensor *got = NULL;
        mem_fail_after(n);
        const bool ok = action(context, &got);
        mem_fail_after(-1);
        const bool reached = mem_count() - before > n;
        ck_assert_uint_eq(state->n_scopes, scopes);
        ck_assert_ptr_null(state->tracer);
        const sn_status status = sn_error_take()->status;
        ck_assert_msg(ok == (status == SN_OK), "allocation %lld: %d and status %d", (long long)n, ok, status);
        if (ok) ck_assert_msg(same_bits(got, want), "allocation %lld: wrong result", (long long)n);
        if (!ok) ck_assert_msg(status == SN_ERR_MEMORY, "allocation %lld: %d", (long long)n, status);
        ck_assert_int_eq(sn_scope_end(scope), SN_OK);
        if (!reached) break;
        ck_assert_int_lt(n, 20000);
    }
}

typedef struct Trial {
    sn_tensor *x, *w;
    sn_function *fn;
    Host host;
} Trial;

static bool eager_step(void *context, sn_tensor **out) {
    const Trial *const s = context;
    sn_tensor *const w = sn_requires_grad_(sn_clone(s->w), true);
    if (sn_backward(sn_sum(sn_gelu(sn_matmul(s->x, w)))) == SN_OK) *out = sn_grad(w);
    return *out != NULL;
}

START_TEST(an_eager_step_survives_any_failing_allocation) {
    Trial s = {.x = F32(1, 6, 7), .w = F32(2, 7, 5)};
    sn_tensor *want = NULL;
    ck_assert(eager_step(&s, &want));
    sweep(eager_step, &s, want);
}
END_TEST

static bool compiles_and_calls(void *context, sn_tensor **out) {
    Trial *const s = context;
    s->host.w = s->w;
    sn_function *const fn = sn_compile(small_net, &s->host, NULL);
    for (int i = 0; i < 2 && fn && !sn_check(); i++) *out = SN_CALL(fn, s->x);
    sn_function_free(fn);
    return !sn_check();
}

START_TEST(a_capture_and_a_compile_survive) {
    Trial s = {.x = F32(1, 6, 7), .w = F32(2, 7, 5)};
    sn_tensor *const want = sn_sum(sn_gelu(sn_matmul(s.x, s.w)));
    sweep(compiles_and_calls, &s, want);
}
END_TEST

static bool calls(void *context, sn_tensor **out) {
    Trial *const s = context;
    *out = SN_CALL(s->fn, s->x);
    return *out != NULL;
}

static void call_survives(void) {
    Trial s = {.x = F32(1, 6, 7), .w = F32(2, 7, 5)};
    s.host.w = s.w;
    s.fn = sn_compile(small_net, &s.host, NULL);
    sn_tensor *const want = sn_sum(sn_gelu(sn_matmul(s.x, s.w)));
    for (int i = 0; i < 2; i++) ck_assert_ptr_nonnull(SN_CALL(s.fn, s.x));
    sweep(calls, &s, want);
    sn_function_free(s.fn);
}

START_TEST(a_compiled_call_survives) { call_survives(); }
END_TEST

/* What it notes of each tensor needs memory, too. */
START_TEST(a_compiled_call_survives_with_handles_checked) {
    ck_assert_int_eq(sn_setting_set("check_handles", "1"), SN_OK);
    call_survives();
}
END_TEST

static bool trains(void *context, sn_tensor **out) {
    Trial *const s = context;
    s->host.w = sn_requires_grad_(sn_clone(s->w), true);
    sn_function *const fn = sn_compile(small_net, &s->host, NULL);
    for (int i = 0; i < 2 && fn && !sn_check(); i++) {
        sn_grad_set(s->host.w, NULL);
        sn_backward(SN_CALL(fn, s->x));
    }
    sn_function_free(fn);
    if (!sn_check()) *out = sn_grad(s->host.w);
    return !sn_check();
}

START_TEST(a_compiled_training_step_survives) {
    Trial s = {.x = F32(1, 6, 7), .w = F32(2, 7, 5)};
    sn_tensor *want = NULL;
    ck_assert(eager_step(&s, &want));
    sweep(trains, &s, want);
}
END_TEST

static sn_status two_products(sn_frame *f) {
    const Host *const host = sn_closure(f);
    sn_tensor *const h = sn_relu(sn_matmul(sn_in(f, 0), host->w));
    return sn_out(f, 0, sn_matmul(h, sn_t(host->w)));
}

START_TEST(a_failing_quant_prepare_leaves_its_graph) {
    Host host = {.w = F32(1, 6, 4)};
    sn_function *const fn = sn_compile(two_products, &host, NULL);
    sn_graph *const g = sn_graph_capture(fn, (const sn_value[]){sn_val(F32(2, 3, 6))}, 1);
    char *const before = strdup(sn_graph_text(g));
    sn_graph *const other = sn_graph_parse(before, strlen(before));
    sn_quantizer_free(sn_quant_prepare(other, NULL)); /* the op of observers is there from now on */
    sn_graph_free(other);
    sn_quantizer *q = NULL;
    int n_failed = 0;
    for (int64_t n = 0; !q; n++) {
        mem_fail_after(n);
        q = sn_quant_prepare(g, NULL);
        mem_fail_after(-1);
        const sn_status status = sn_error_take()->status;
        if (q) break;
        n_failed++;
        ck_assert_int_eq(status, SN_ERR_MEMORY);
        ck_assert_str_eq(sn_graph_text(g), before);
        ck_assert_int_eq(sn_graph_check(g), SN_OK);
    }
    ck_assert_int_ge(n_failed, 3);
    ck_assert_int_eq(sn_quant_count(q), 2);
    sn_quantizer_free(q);
    sn_graph_free(g);
    sn_function_free(fn);
    free(before);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        capture_may_fail,
        every_pass_may_fail,
        every_stage_of_code_generation_may_fail,
        replay_says_that_it_is_interpreted,
        without_llvm_the_interpreter_runs,
        a_failing_compile_leaves_gradients_right,
        full_graph_says_what_failed,
        a_mismatch_at_any_op_keeps_the_bits,
        a_forced_mismatch_takes_a_new_path,
        overrides_are_heard,
        c7_each_guard_keeps_a_program_right,
        c7_each_guard_is_needed,
        an_eager_step_survives_any_failing_allocation,
        a_capture_and_a_compile_survive,
        a_compiled_call_survives,
        a_compiled_call_survives_with_handles_checked,
        a_compiled_training_step_survives,
        a_failing_quant_prepare_leaves_its_graph,
    };
    return contract_main("test_failing", tests, (int)(sizeof tests / sizeof *tests));
}
