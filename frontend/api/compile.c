/* compile.c: the public functions of <sinter/compile.h>, thin over runtime/. */
#include <sinter/compile.h>
#include <sinter/memory.h>

#include "frontend/api/enter.h"
#include "frontend/api/backends.h"
#include "frontend/api/report_page.h"
#include "frontend/lib/options.h"
#include "runtime/autograd/dynamic_mark.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/compile/tuning.h"
#include "runtime/capture/function/explain.h"
#include "runtime/core/background.h"
#include "runtime/core/frame.h"
#include "runtime/capture/replay/replay.h"
#include "runtime/core/tracer.h"
#include "runtime/capture/function/function.h"

static Status out_of_range(const char *option, long long value) {
    return error_raise(ST_ARGUMENT, "sn_compile: %s has no value %lld", option, value);
}

/* No option is accepted and then does nothing. */
static Status check_options(const sn_compile_options *o) {
    if ((unsigned)o->mode > SN_COMPILE_EAGER) return out_of_range("mode", o->mode);
    if ((unsigned)o->numerics > SN_FAST) return out_of_range("numerics", o->numerics);
    if ((unsigned)o->dynamic > SN_DYNAMIC_NEVER) return out_of_range("dynamic", o->dynamic);
    if ((unsigned)o->preset > SN_PRESET_MAX_AUTOTUNE) return out_of_range("preset", o->preset);
    if (o->check_every < 0) return out_of_range("check_every", o->check_every);
    if (o->recompile_limit < 0) return out_of_range("recompile_limit", o->recompile_limit);
    return ST_OK;
}

sn_function *sn_compile(sn_body body, void *closure, const sn_compile_options *options) {
    if (error_pending()) return NULL;
    if (!body) {
        error_raise(ST_ARGUMENT, "sn_compile: body is NULL");
        return NULL;
    }
    sn_compile_options known = {0};
    if (options_copy_in(&known, sizeof known, options, "sn_compile") != ST_OK) return NULL;
    const Backend *const backend = check_options(&known) == ST_OK ? backend_named(known.backend) : NULL;
    sn_function *const fn = backend ? function_new(body, closure, &known) : NULL;
    if (fn) fn->backend = backend, fn->page = sn_report_save;
    return fn;
}

void sn_function_free(sn_function *fn) {
    API_ENTER(sn_function_free);
    if (fn && atomic_load(&fn->running)) scope_leave_left(state_get());
    if (fn && atomic_load(&fn->running)) {
        error_raise(ST_STATE, "sn_function_free: function '%s' is running", fn->name);
        return;
    }
    function_free(fn);
}

sn_status sn_mark_dynamic(sn_tensor *t, int64_t dim, int64_t min, int64_t max) {
    if (tensor_valid(t, "sn_mark_dynamic") != ST_OK) return (sn_status)error_pending();
    const int rank = t->base.meta->rank;
    if (dim < -rank || dim >= rank)
        return (sn_status)error_raise(ST_SHAPE, "sn_mark_dynamic: dim %lld is out of range for a tensor of rank %d",
                                      (long long)dim, rank);
    if (min < 0 || max < 0 || (max && min > max))
        return (sn_status)error_raise(ST_ARGUMENT, "sn_mark_dynamic: sizes from %lld to %lld (0: any)", (long long)min,
                                      (long long)max);
    const DynamicMark mark = {.least = min, .most = max ? max : INT64_MAX};
    return (sn_status)dynamic_mark_set(t, (int)dim_wrap(dim, rank), mark);
}

sn_status sn_function_wait(sn_function *fn) {
    if (!fn) return (sn_status)error_raise(ST_ARGUMENT, "sn_function_wait: the function is NULL");
    if (fn->background) background_wait(fn->background);
    return sn_check();
}

static bool is_of_host(const Plan *plan) {
    for (int i = 0; i < plan->slots.n; i++)
        if (!device_is_host(plan->slots.at[i].meta->device)) return false;
    return true;
}

static Status tune_variant(const Variant *v, int *tried, int *faster) {
    for (int i = 0; variant_code(v) && i < v->info.n_plans; i++) {
        Plan *const plan = v->info.plans[i];
        if (!plan->front && is_of_host(plan)) TRY(tuning_measure(plan, tried, faster));
    }
    return ST_OK;
}

static Status tune(sn_function *fn) {
    int tried = 0, faster = 0, compiled = 0;
    const char *path = NULL;
    Status status = ST_OK;
    pthread_mutex_lock(&fn->compiling);
    for (int i = 0; status == ST_OK && i < fn->variants.n; i++) {
        compiled += variant_code(fn->variants.at[i]) != NULL;
        status = tune_variant(fn->variants.at[i], &tried, &faster);
    }
    pthread_mutex_unlock(&fn->compiling);
    TRY(status);
    if (!tried)
        return error_raise(ST_STATE, "sn_tune: function '%s' %s", fn->name,
                           compiled ? "has nothing to measure: " TUNING_NO_LOOPS : "has no loops that are compiled");
    TRY(tuning_save(&path));
    LOG(compile, INFO, "%s: %d of %d loop nests are faster in another shape: %s", fn->name, faster, tried, path);
    return ST_OK;
}

sn_status sn_tune(sn_function *fn) {
    API_ENTER(sn_tune);
    if (error_pending()) return (sn_status)error_pending();
    if (!fn) return (sn_status)error_raise(ST_ARGUMENT, "sn_tune: the function is NULL");
    if (entered.refused) return (sn_status)error_pending();
    if (fn->background) background_wait(fn->background);
    return (sn_status)tune(fn);
}

sn_stance sn_stance_set(sn_stance stance) {
    API_ENTER(sn_stance_set);
    sn_state *const state = state_get();
    const sn_stance before = state->stance;
    if ((unsigned)stance > SN_STANCE_FAIL_ON_RECOMPILE)
        error_raise(ST_ARGUMENT, "sn_stance_set: there is no stance %d", (int)stance);
    else if (!entered.refused)
        state->stance = stance;
    api_changed(&entered);
    return before;
}

static Status check_lists(const Arg *in, int n_in, sn_tensor **out, int n_out) {
    if (n_in < 0 || n_out < 0)
        return error_raise(ST_ARGUMENT, "sn_call: n_in is %d and n_out %d: neither is negative", n_in, n_out);
    if ((n_in && !in) || (n_out && !out))
        return error_raise(ST_ARGUMENT, "sn_call: the list of %d %s is NULL", n_in && !in ? n_in : n_out,
                           n_in && !in ? "inputs" : "outputs");
    return ST_OK;
}

static Status check_numbers(const Arg *in, int n_in) {
    for (int i = 0; in && i < n_in; i++)
        if (in[i].kind == ARG_int && !tracer_knows(in[i].i))
            return error_raise(ST_ARGUMENT, "sn_call: input %d, %lld, stands for no symbolic int of this call", i,
                               (long long)in[i].i);
    return ST_OK;
}

static sn_status call(sn_function *fn, const Arg *in, int n_in, sn_tensor **out, int n_out) {
    const void *const site = state_get()->site;
    Status status = check_lists(in, n_in, out, n_out);
    if (status == ST_OK) status = function_call(fn, in, n_in, out, n_out);
    if (status != ST_OK) error_set_site(site);
    return (sn_status)status;
}

enum { MAX_STACK_ARGS = 64 };

static sn_status call_args(sn_function *fn, sn_tensors in, Arg *args, sn_tensor **out, int n_out) {
    const int n_in = (int)in.n;
    for (int i = 0; i < n_in; i++) {
        sn_tensor *const t = in.data ? in.data[i] : NULL;
        if (!t && !error_pending()) error_raise(ST_ARGUMENT, "sn_call: argument %d is NULL", i);
        args[i] = A_VAL(t ? &t->base : NULL);
    }
    return call(fn, args, n_in, out, n_out);
}

static sn_status call_tensors(sn_function *fn, sn_tensors in, sn_tensor **out, int n_out) {
    Arg few[MAX_STACK_ARGS];
    if (in.n < 0 || in.n > INT32_MAX)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_call: the list of inputs has %lld of them", (long long)in.n);
    if (in.n <= MAX_STACK_ARGS) return call_args(fn, in, few, out, n_out);
    Arg *const many = mem_alloc((size_t)in.n * sizeof *many);
    const sn_status status = many ? call_args(fn, in, many, out, n_out) : SN_ERR_MEMORY;
    mem_free(many);
    return status;
}

sn_status sn_call(sn_function *fn, sn_tensor *const *in, int n_in, sn_tensor **out, int n_out) {
    API_ENTER(sn_call);
    return call_tensors(fn, (sn_tensors){in, n_in}, out, n_out);
}

sn_status sn_call_values(sn_function *fn, const sn_value *in, int n_in, sn_tensor **out, int n_out) {
    API_ENTER(sn_call_values);
    const void *const site = state_get()->site;
    const Status status = check_numbers((const Arg *)in, n_in);
    if (status == ST_OK) return call(fn, (const Arg *)in, n_in, out, n_out);
    error_set_site(site);
    return (sn_status)status;
}

sn_tensor *sn_call1(sn_function *fn, sn_tensors in) {
    API_ENTER(sn_call1);
    sn_tensor *out = NULL;
    call_tensors(fn, in, &out, 1);
    return out;
}

sn_status sn_graph_break(const char *reason) {
    API_ENTER(sn_graph_break);
    if (state_untraced("sn_graph_break") != ST_OK) return sn_check();
    if (error_pending()) return sn_check();
    return (sn_status)tracer_effect((TracerEffect){.kind = EFFECT_break,
                                                   .what = reason ? reason_from(reason) : REASON_CALLED(sn_graph_break),
                                                   .breaks = REASON_CALLED(sn_graph_break)});
}

int sn_function_result_count(sn_function *fn) {
    if (!fn) return error_raise(ST_ARGUMENT, "sn_function_result_count: the function is NULL"), -1;
    return fn->n_results;
}

/* What happened ------------------------------------------------------------------------------- */

sn_status sn_function_stats(sn_function *fn, sn_stats *out) {
    if (!fn || !out) return (sn_status)error_raise(ST_ARGUMENT, "sn_function_stats: NULL argument");
    if (!out->size) return (sn_status)error_raise(ST_ARGUMENT, "sn_function_stats: its size is 0");
    pthread_mutex_lock(&fn->lock);
    sn_stats stats = fn->stats;
    replay_count(fn, &stats);
    stats.graphs = fn->variants.n;
    for (int i = 0; i < fn->variants.n; i++) {
        const Variant *const v = fn->variants.at[i];
        stats.kernels += v->info.kernels;
        stats.trace_ns += v->origin.trace_ns;
        stats.passes_ns += v->info.passes_ns + v->info.lower_ns;
        stats.codegen_ns += v->info.codegen_ns + v->info.load_ns;
        const int64_t arena = variant_arena_bytes(v);
        if (arena > stats.arena_bytes) stats.arena_bytes = arena;
    }
    pthread_mutex_unlock(&fn->lock);
    options_copy_out(&stats, sizeof stats, out);
    return SN_OK;
}

sn_status sn_last_call(sn_call_report *out) {
    if (!out) return (sn_status)error_raise(ST_ARGUMENT, "sn_last_call: NULL argument");
    if (!out->size) return (sn_status)error_raise(ST_ARGUMENT, "sn_last_call: its size is 0");
    const sn_state *const state = state_get();
    const sn_call_report report = {.path = (sn_path)state->last_call.path,
                                   .reason = state->last_call.reason ? state->last_call.reason : ""};
    options_copy_out(&report, sizeof report, out);
    return SN_OK;
}

static const char *borrowed_text(Text *text) {
    if (!text->at) return "";
    return state_text(state_get(), text->at);
}

static bool require_argument(const void *argument, const char *what) {
    if (!argument) error_raise(ST_ARGUMENT, "%s is NULL", what);
    return argument != NULL;
}

const char *sn_explain(sn_function *fn) {
    API_ENTER(sn_explain);
    Text text = {0};
    if (require_argument(fn, "sn_explain: the function")) explain_text(fn, &text);
    return borrowed_text(&text);
}

const char *sn_explain_json(sn_function *fn) {
    API_ENTER(sn_explain_json);
    Text text = {0};
    if (require_argument(fn, "sn_explain_json: the function")) explain_json(fn, &text);
    return borrowed_text(&text);
}

const char *sn_dump(sn_function *fn, const char *stage) {
    API_ENTER(sn_dump);
    Text text = {0};
    if (require_argument(fn, "sn_dump: the function") && require_argument(stage, "sn_dump: the stage"))
        explain_dump(fn, stage, &text);
    return borrowed_text(&text);
}

sn_status sn_report_save(sn_function *fn, const char *path) {
    API_ENTER(sn_report_save);
    if (!require_argument(fn, "sn_report_save: the function") || !require_argument(path, "sn_report_save: the path"))
        return sn_check();
    char *const memory = mem_strdup(sn_memory_snapshot(SN_CPU));
    if (!sn_check()) report_page_write(fn, &(ReportSeen){.memory = memory}, path);
    mem_free(memory);
    return sn_check();
}

const char *sn_stage_name(int i) { return dump_row(i) ? dump_row(i)->name : NULL; }
