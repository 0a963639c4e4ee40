/* test_no_memory.c: memory that runs out, in whole workloads: each allocation fails once, and from it on for ever. The
 * workload ends with SN_ERR_MEMORY or the right result; no scope, node or memory is left behind, and the next run is
 * right. A sample of the allocations is tried; NO_MEMORY=all tries each. An argument names one workload. */
#include <sinter/amp.h>
#include <sinter/graph.h>
#include <sinter/inspect.h>
#include <sinter/memory.h>
#include <sinter/plan.h>
#include <sinter/sparse.h>
#include <sinter/transform.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/alloc_fail.h"
#include "runtime/core/state.h"
#include "tests/unit/contract.h"

enum { SAMPLES = 24, MOST_ALLOCATIONS = 100000 };

/* Inputs that outlive the runs; more than 512 bytes each, so that memory counts them. */
static sn_tensor *x, *w;

/* Makes, runs and frees all that it needs; NULL: an error is pending. */
typedef sn_tensor *Workload(void);

/* eager --------------------------------------------------------------------------------------- */

static sn_tensor *net(sn_tensor *in, sn_tensor *weight) {
    return sn_layer_norm(sn_gelu(sn_linear(in, weight, NULL)), SN_INTS(sn_size(weight, 0)), NULL, NULL);
}

static sn_tensor *fresh_weight(void) { return sn_requires_grad_(sn_clone(w), true); }

static sn_tensor *forward_and_backward(void) {
    sn_tensor *const weight = fresh_weight();
    sn_backward(sn_sum(net(x, weight)));
    return sn_grad(weight);
}

static sn_tensor *writes_and_views(void) {
    sn_tensor *const weight = fresh_weight(), *const h = sn_mul(weight, weight);
    sn_mul_scalar_(sn_narrow(h, 0, 0, 4), sn_float(2));
    sn_add_(sn_t(h), sn_t(weight));
    sn_backward(sn_sum(sn_cat(SN_TENSORS(h, sn_index_select(h, 0, sn_arange(sn_int(3), SN_I64))), 0)));
    return sn_grad(weight);
}

static sn_tensor *second_derivatives(void) {
    sn_tensor *const weight = fresh_weight(), *first = NULL;
    sn_gradients(SN_TENSORS(sn_sum(sn_tanh(weight))), SN_TENSORS(weight), (sn_tensors){0}, SN_CREATE_GRAPH, &first);
    sn_backward(sn_sum(sn_mul(first, first)));
    return sn_grad(weight);
}

static sn_tensor *under_autocast(void) {
    sn_tensor *const weight = fresh_weight();
    const sn_scope scope = sn_scope_begin();
    sn_autocast_set(SN_CPU, SN_BF16);
    sn_backward(sn_sum(net(x, weight)));
    sn_scope_end(scope);
    return sn_grad(weight);
}

static sn_tensor *lists_and_products(void) {
    sn_tensor *parts[3] = {0};
    sn_split(x, 4, 0, parts, 3);
    sn_tensor *const joined = sn_stack(SN_TENSORS(parts[0], parts[1], parts[2]), 0);
    return sn_matmul(joined, sn_softmax(w, 1));
}

static sn_tensor *sums_of_sparse(void) {
    sn_tensor *const s = sn_to_sparse(sn_relu(x));
    return sn_to_dense(sn_add(s, s));
}

/* compiled ------------------------------------------------------------------------------------ */

static sn_status body(sn_frame *f) { return sn_out(f, 0, net(sn_in(f, 0), sn_in(f, 1))); }

static sn_tensor *calls_of(sn_body fn_body, const sn_compile_options *options) {
    sn_function *const fn = sn_compile(fn_body, NULL, options);
    sn_tensor *out = NULL;
    for (int i = 0; i < 3 && fn && !sn_check(); i++) sn_call(fn, (sn_tensor *[]){x, w}, 2, &out, 1);
    sn_function_free(fn);
    return out;
}
static sn_tensor *compiled(void) { return calls_of(body, NULL); }
static sn_tensor *replayed(void) { return calls_of(body, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY)); }

static sn_status broken(sn_frame *f) {
    sn_tensor *const h = net(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, sn_item(sn_sum(h)) > 1e9 ? h : sn_exp(h));
}
static sn_tensor *with_a_break(void) { return calls_of(broken, NULL); }

static sn_tensor *of_several_sizes(void) {
    sn_function *const fn = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_AUTO));
    sn_tensor *out = NULL;
    for (int n = 12; n > 7 && fn && !sn_check(); n--)
        sn_call(fn, (sn_tensor *[]){sn_narrow(x, 0, 0, n), w}, 2, &out, 1);
    sn_function_free(fn);
    return out;
}

static sn_tensor *compiled_training(void) {
    sn_function *const fn = sn_compile(body, NULL, NULL);
    sn_tensor *const weight = fresh_weight(), *out;
    for (int i = 0; i < 3 && fn && !sn_check(); i++) {
        sn_grad_set(weight, NULL);
        if (sn_call(fn, (sn_tensor *[]){x, weight}, 2, &out, 1) == SN_OK) sn_backward(sn_sum(out));
    }
    sn_function_free(fn);
    return sn_grad(weight);
}

static sn_tensor *told_about(void) {
    sn_function *const fn = sn_compile(body, NULL, NULL);
    sn_tensor *out = NULL;
    for (int i = 0; i < 2 && fn && !sn_check(); i++) sn_call(fn, (sn_tensor *[]){x, w}, 2, &out, 1);
    if (out) sn_explain(fn), sn_explain_json(fn), sn_dump(fn, "loops"), sn_repr(out);
    sn_function_free(fn);
    return out;
}

/* files and graphs ---------------------------------------------------------------------------- */

static const char *file_name(const char *kind) {
    static char path[96];
    snprintf(path, sizeof path, "/tmp/sinter-no-memory.%ld.%s", (long)getpid(), kind);
    return path;
}

static sn_tensor *plan_saved_and_loaded(void) {
    sn_function *const fn = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    sn_tensor *out = NULL;
    for (int i = 0; i < 3 && fn && !sn_check(); i++) sn_call(fn, (sn_tensor *[]){sn_clone(x), sn_clone(w)}, 2, &out, 1);
    sn_function *loaded = NULL;
    if (fn && !sn_check() && sn_plan_save(fn, file_name("plan"), NULL) == SN_OK)
        loaded = sn_plan_load(file_name("plan"), NULL);
    out = NULL;
    if (loaded) sn_call(loaded, (sn_tensor *[]){x, w}, 2, &out, 1);
    sn_function_free(loaded);
    sn_function_free(fn);
    unlink(file_name("plan"));
    return out;
}

static sn_tensor *tensors_saved_and_loaded(void) {
    sn_dict *const d = sn_dict_new();
    sn_dict *loaded = NULL;
    sn_tensor *out = NULL;
    if (d) sn_dict_set(d, "layer.weight", w), sn_dict_set(d, "x", x);
    if (d && !sn_check() && sn_dict_save(d, file_name("safetensors")) == SN_OK)
        loaded = sn_dict_load(file_name("safetensors"));
    if (loaded) out = sn_neg(sn_dict_get(loaded, "layer.weight"));
    sn_dict_free(loaded);
    sn_dict_free(d);
    unlink(file_name("safetensors"));
    return out;
}

static sn_tensor *graph_run(void) {
    sn_function *const fn = sn_compile(body, NULL, NULL), *again = NULL;
    sn_graph *const g = fn ? sn_graph_capture(fn, (const sn_value[]){sn_val(x), sn_val(w)}, 2) : NULL;
    const char *const text = g ? sn_graph_text(g) : NULL;
    sn_graph *const parsed = text && !sn_check() ? sn_graph_parse(text, strlen(text)) : NULL;
    sn_tensor *out = NULL;
    if (parsed && sn_graph_run(parsed, "decompose,cse,dce") == SN_OK) again = sn_graph_compile(parsed, NULL);
    if (again) sn_call(again, (sn_tensor *[]){x, w}, 2, &out, 1);
    sn_function_free(again);
    sn_graph_free(parsed);
    sn_graph_free(g);
    sn_function_free(fn);
    return out;
}

/* transforms ---------------------------------------------------------------------------------- */

static sn_status row(sn_frame *f) { return sn_out(f, 0, sn_softmax(sn_mul(sn_in(f, 0), sn_sin(sn_in(f, 0))), 0)); }
static sn_status total(sn_frame *f) { return sn_out(f, 0, sn_sum(sn_tanh(sn_mul(sn_in(f, 0), sn_in(f, 0))))); }
static sn_status curve(sn_frame *f) { return sn_out(f, 0, sn_tanh(sn_mul(sn_in(f, 0), sn_in(f, 0)))); }

static sn_tensor *mapped(void) {
    sn_tensor *out = NULL;
    sn_vmap(row, NULL, NULL, SN_TENSORS(x), &out, 1);
    return out;
}
static sn_tensor *function_gradient(void) {
    sn_tensor *out = NULL;
    sn_func_grad(total, NULL, NULL, SN_TENSORS(x), &out, 1);
    return out;
}
static sn_tensor *vector_jacobian(void) {
    sn_tensor *out = NULL;
    sn_func_vjp(curve, NULL, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(x)), SN_TENSORS(x), &out, 1);
    return out;
}
static sn_tensor *tangents(void) {
    sn_tensor *out = NULL;
    sn_func_jvp(curve, NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(x)), SN_TENSORS(x), &out, 1);
    return out;
}
static sn_tensor *hessian(void) {
    sn_tensor *out = NULL;
    sn_hessian(total, NULL, NULL, SN_TENSORS(sn_select(x, 0, 0)), &out, 1);
    return out;
}
static sn_tensor *jacobian(void) {
    sn_tensor *out = NULL;
    sn_jacobian(curve, NULL, NULL, SN_TENSORS(sn_select(x, 0, 0)), &out, 1);
    return out;
}

static sn_tensor *checkpointed(void) {
    sn_tensor *const weight = fresh_weight(), *out = NULL;
    if (sn_checkpoint(body, NULL, NULL, SN_TENSORS(x, weight), &out, 1) == SN_OK) sn_backward(sn_sum(out));
    return sn_grad(weight);
}

/* control flow -------------------------------------------------------------------------------- */

static sn_tensor *branches(void) {
    sn_tensor *const weight = fresh_weight(), *out = NULL;
    sn_cond(sn_gt_scalar(sn_sum(x), sn_float(0)), curve, row, NULL, NULL,
            SN_TENSORS(sn_sum_dim(weight, SN_INTS(0), false)), &out, 1);
    sn_backward(sn_sum(sn_mul(out, out)));
    return sn_grad(weight);
}

static sn_status step(sn_frame *f) {
    sn_tensor *const next = sn_tanh(sn_add(sn_in(f, 0), sn_in(f, 1)));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_mul(next, next));
}
static sn_tensor *scanned(void) {
    sn_tensor *const weight = fresh_weight(), *out[2] = {0};
    sn_scan(step, NULL, NULL, SN_TENSORS(sn_zeros_like(sn_select(w, 0, 0)), weight), out, 2);
    sn_backward(sn_sum(out[1]));
    return sn_grad(weight);
}
static sn_tensor *rows_mapped(void) {
    sn_tensor *out = NULL;
    sn_map(row, NULL, NULL, SN_TENSORS(x), &out, 1);
    return out;
}
static sn_status few(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_in(f, 0), sn_int(5))); }
static sn_status one_more(sn_frame *f) {
    sn_out(f, 0, sn_add_scalar(sn_in(f, 0), sn_int(1)));
    return sn_out(f, 1, sn_sin(sn_in(f, 1)));
}
static sn_tensor *loops(void) {
    sn_tensor *out[2] = {0};
    sn_while_loop(few, one_more, NULL, NULL, SN_TENSORS(sn_full(SN_INTS(), sn_int(0), SN_I64), x), out, 2);
    return out[1];
}

/* training ------------------------------------------------------------------------------------ */

static sn_tensor *optimized(bool scaled) {
    sn_dict *const params = sn_dict_new();
    sn_tensor *const weight = fresh_weight();
    if (params) sn_dict_set(params, "w", weight);
    sn_optim *const optim = params && !sn_check() ? sn_adamw(params, 0.01, 0.1) : NULL;
    sn_scaler *const scaler = scaled && optim ? sn_scaler_new(NULL) : NULL;
    for (int i = 0; i < 3 && optim && !sn_check(); i++) {
        sn_optim_zero_grad(optim);
        sn_tensor *const loss = sn_sum(net(x, weight));
        sn_backward(scaler ? sn_scaler_scale(scaler, loss) : loss);
        if (!scaler) sn_optim_step(optim);
        if (scaler) sn_scaler_step(scaler, optim), sn_scaler_update(scaler);
    }
    sn_scaler_free(scaler);
    sn_optim_free(optim);
    sn_dict_free(params);
    return sn_detach(weight);
}
static sn_tensor *optimizer_steps(void) { return optimized(false); }
static sn_tensor *scaled_steps(void) { return optimized(true); }

/* the sweep ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    Workload *run;
} workloads[] = {
#define WORKLOAD(name) {#name, name},
    WORKLOAD(forward_and_backward) WORKLOAD(writes_and_views) WORKLOAD(second_derivatives) WORKLOAD(under_autocast)
        WORKLOAD(lists_and_products) WORKLOAD(sums_of_sparse) WORKLOAD(compiled) WORKLOAD(replayed)
            WORKLOAD(with_a_break) WORKLOAD(of_several_sizes) WORKLOAD(compiled_training) WORKLOAD(told_about)
                WORKLOAD(plan_saved_and_loaded) WORKLOAD(tensors_saved_and_loaded) WORKLOAD(graph_run) WORKLOAD(mapped)
                    WORKLOAD(function_gradient) WORKLOAD(vector_jacobian) WORKLOAD(tangents) WORKLOAD(hessian)
                        WORKLOAD(jacobian) WORKLOAD(checkpointed) WORKLOAD(branches) WORKLOAD(scanned)
                            WORKLOAD(rows_mapped) WORKLOAD(loops) WORKLOAD(optimizer_steps) WORKLOAD(scaled_steps)
#undef WORKLOAD
};
enum { WORKLOADS = sizeof workloads / sizeof *workloads };

static int64_t bytes_in_use(void) {
    sn_memory memory = {.size = sizeof memory};
    ck_assert_int_eq(sn_memory_get(SN_CPU, &memory), SN_OK);
    return memory.current;
}

typedef struct Left {
    int64_t bytes, nodes;
    uint32_t scopes;
} Left;
static Left what_is_left(void) { return (Left){bytes_in_use(), sn_live_nodes(NULL, 0), state_get()->n_scopes}; }

static void right_run(int i, sn_tensor *want, const char *when) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const got = workloads[i].run();
    ck_assert_msg(got && !sn_check(), "%s, %s: %s", workloads[i].name, when, sn_error_take()->message);
    ck_assert_msg(same_bits(got, want), "%s, %s: wrong result", workloads[i].name, when);
    ck_assert_int_eq(sn_scope_end(scope), SN_OK);
}

typedef struct FailingRun {
    int i;
    int64_t n;
    bool once, cold; /* cold: on a thread of its own, whose state knows no signature yet */
    sn_tensor *want;
    bool reached, right, settled; /* reached: the run has so many allocations */
    sn_status status;
    char message[200];
} FailingRun;

static void *run_failing(void *context) {
    FailingRun *const run = context;
    const sn_scope scope = sn_scope_begin();
    const int64_t before = mem_count();
    if (run->once)
        mem_fail_once(run->n);
    else
        mem_fail_after(run->n);
    sn_tensor *const got = workloads[run->i].run();
    mem_fail_after(-1);
    run->reached = mem_count() - before > run->n;
    const sn_error *const error = sn_error_take();
    run->status = error->status;
    snprintf(run->message, sizeof run->message, "%s", error->message);
    run->right = error->status == SN_OK ? same_bits(got, run->want) : error->status == SN_ERR_MEMORY;
    run->settled = !state_get()->tracer && sn_scope_end(scope) == SN_OK;
    return NULL;
}

static void failing_run(FailingRun *run) {
    pthread_t thread;
    if (!run->cold) {
        run_failing(run);
    } else {
        ck_assert_int_eq(pthread_create(&thread, NULL, run_failing, run), 0);
        pthread_join(thread, NULL);
    }
    ck_assert_msg(run->right && run->settled, "%s, allocation %lld %s%s: %s%s, status %d: %s", workloads[run->i].name,
                  (long long)run->n, run->once ? "once" : "for ever", run->cold ? " on a new thread" : "",
                  run->right ? "" : "wrong", run->settled ? "" : "left in a function", run->status, run->message);
}

static void sweep(int i, bool once, bool cold, sn_tensor *want, int64_t stride) {
    const Left before = what_is_left();
    FailingRun run = {.reached = true};
    for (int64_t n = stride > 1 ? i % stride : 0; run.reached; n += stride) {
        char when[64];
        run = (FailingRun){.i = i, .n = n, .once = once, .cold = cold, .want = want};
        snprintf(when, sizeof when, "after allocation %lld %s", (long long)n, once ? "once" : "for ever");
        ck_assert_int_lt(n, MOST_ALLOCATIONS);
        failing_run(&run);
        right_run(i, want, when);
        const Left left = what_is_left();
        ck_assert_msg(left.scopes == before.scopes && left.nodes == before.nodes && left.bytes == before.bytes,
                      "%s, %s: %d scopes, %lld nodes and %lld bytes are left", workloads[i].name, when,
                      (int)(left.scopes - before.scopes), (long long)(left.nodes - before.nodes),
                      (long long)(left.bytes - before.bytes));
    }
}

static void *count_cold(void *context) {
    FailingRun *const run = context;
    const int64_t before = mem_count();
    right_run(run->i, run->want, "on a new thread");
    run->n = mem_count() - before;
    return NULL;
}

static int64_t allocations(int i, bool cold, sn_tensor *want) {
    FailingRun run = {.i = i, .want = want};
    pthread_t thread;
    if (!cold) return count_cold(&run), run.n;
    ck_assert_int_eq(pthread_create(&thread, NULL, count_cold, &run), 0);
    pthread_join(thread, NULL);
    return run.n;
}

START_TEST(a_workload_survives) {
    x = sn_keep(F32(1, 12, 16));
    w = sn_keep(F32(2, 16, 16));
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const first = workloads[_i].run();
    ck_assert_msg(first != NULL, "%s: %s", workloads[_i].name, sn_error_take()->message);
    sn_tensor *const want = sn_keep(sn_clone(sn_detach(first)));
    ck_assert_int_eq(sn_scope_end(scope), SN_OK);
    right_run(_i, want, "at first");
    const char *const asked = getenv("NO_MEMORY");
    for (int way = 0; way < 4; way++) {
        const bool cold = way >= 2;
        const int64_t made = allocations(_i, cold, want);
        sweep(_i, way % 2 != 0, cold, want, (asked && !strcmp(asked, "all")) || made < SAMPLES ? 1 : made / SAMPLES);
        if (asked)
            printf("%s: %lld allocations%s\n", workloads[_i].name, (long long)made, cold ? " on a new thread" : "");
    }
    sn_release(want);
    sn_release(w);
    sn_release(x);
}
END_TEST

int main(int n, char **words) {
    int first = 0, end = WORKLOADS;
    for (int i = 0; n > 1 && i < WORKLOADS; i++)
        if (!strcmp(words[1], workloads[i].name)) first = i, end = i + 1;
    TCase *const tcase = tcase_create("test_no_memory");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, a_workload_survives, first, end);
    return suite_run("test_no_memory", tcase);
}
