/* plan.c: a function saved and loaded between two calls: the first calls teach it, later ones are those of the plan. It
 * has no body and records no gradients: of a function whose results carry some it is the forward, and later calls, also
 * eager's beside it, are given tensors that require none. What it closes over is stored in the file, or given to the
 * load: the same tensors, or others. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/fuzz/run.h"

static bool asks_for_gradients(const FzStep *step) {
    return step->kind == FZ_optim_step || step->how == FZ_of_grad ||
           (step->how == FZ_asking && fz_query_of_gradients(step->query));
}

static bool any_grad(const FzProgram *p) {
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].grad) return true;
    return false;
}

static bool sets_grad_mode(const FzProgram *p) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == FZ_grad_mode) return true;
    return false;
}

/* What a plan guards would be otherwise where later calls have no leaves. */
bool fz_can_be_saved(const FzProgram *p) {
    if (p->given) return false; /* it has cases for the numbers that it was taught */
    for (int i = 0; i < p->n_steps && any_grad(p); i++)
        if (asks_for_gradients(&p->steps[i])) return false;
    return true;
}

static const char *plan_path(void) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/fuzz.%ld.plan", (long)getpid());
    return path;
}

static sn_dict *held_by_name(const FzRun *run) {
    sn_dict *const names = sn_dict_new();
    for (int i = 0; i < run->p->n_inputs; i++)
        if (run->p->inputs[i].held) sn_dict_set(names, (char[]){'h', (char)('0' + i), 0}, run->inputs[i]);
    return names;
}

bool fz_run_save(FzRun *run, FzPlanWay way) {
    sn_dict *const names = held_by_name(run);
    const bool embed = way == FZ_plan_embedded || way == FZ_plan_replaced;
    const sn_status status = sn_plan_save(run->fn, plan_path(), SN_PLAN_OPTIONS(.embed = embed, .tensors = names));
    sn_dict_free(names);
    if (status == SN_OK) return true;
    const sn_error *const e = sn_error_take();
    if (e->status != SN_ERR_UNSUPPORTED) fprintf(stderr, "%s\n", e->message);
    return e->status != SN_ERR_UNSUPPORTED; /* there is no file then, which fails the calls that follow */
}

/* From memory that is gone when the plan runs. */
static sn_function *load_from_memory(const sn_plan_options *options) {
    FILE *const file = fopen(plan_path(), "rb");
    const long n = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    char *const bytes = malloc((size_t)n + 1);
    if (file) rewind(file);
    const size_t got = file ? fread(bytes, 1, (size_t)n, file) : 0;
    if (file) fclose(file);
    sn_function *const fn = sn_plan_load_memory(bytes, got, options);
    memset(bytes, 0x5a, got);
    free(bytes);
    return fn;
}

void fz_run_load(FzRun *run, FzPlanWay way, bool memory) {
    sn_dict *const names = way == FZ_plan_embedded ? NULL : held_by_name(run);
    const sn_plan_options *const options = SN_PLAN_OPTIONS(.tensors = names);
    sn_function_free(run->fn); /* a NULL fails the calls that follow */
    run->fn = memory ? load_from_memory(options) : sn_plan_load(plan_path(), options);
    if (!run->fn) fprintf(stderr, "%s\n", sn_error_take()->message);
    if (run->fn && sn_function_result_count(run->fn) != fz_result_count(run->p)) {
        fprintf(stderr, "a plan of %d results says %d\n", fz_result_count(run->p), sn_function_result_count(run->fn));
        sn_function_free(run->fn);
        run->fn = NULL;
    }
    sn_dict_free(names);
    remove(plan_path());
}

/* The same, or another one of the same metadata, which a plan asks for. */
static void freeze_held(FzRun *run, int i, bool replace) {
    uint64_t s = 77 + (uint64_t)i;
    if (run->no_leaves && run->p->inputs[i].grad) sn_requires_grad_(run->inputs[i], false);
    if (!replace) return;
    sn_release(run->inputs[i]);
    run->inputs[i] = sn_keep(fz_make_input(run, i, &s));
}

void fz_run_freeze(FzRun *run, FzPlanWay way) {
    const sn_scope scope = sn_scope_begin();
    run->frozen = true;
    run->no_leaves = !run->p->no_grad || sets_grad_mode(run->p);
    run->apart = way == FZ_plan_embedded;
    for (int i = 0; i < run->p->n_inputs; i++)
        if (run->p->inputs[i].held) freeze_held(run, i, way == FZ_plan_given_others || way == FZ_plan_replaced);
    sn_scope_end(scope);
}
