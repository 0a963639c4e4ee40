/* repeat.c: see repeat.h: which plans can be one launch, and the memory that stays with what is recorded. */
#include "runtime/device/repeat.h"

#include <stdarg.h>
#include <stdio.h>

#include "runtime/base/alloc.h"
#include "runtime/core/custom_op.h"

void repeat_never(Repeat *repeat, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(repeat->why, sizeof repeat->why, format, arguments);
    va_end(arguments);
    repeat->row = NULL;
}

/* A number of the host's to where no one else sees it: its bytes are an argument. */
static bool is_number_copy(const Plan *plan, const Step *step) {
    const Meta *const from = step->args[0].val->meta, *const to = step->outs[0]->base.meta;
    return device_is_host(from->device) && !from->rank && !to->rank && from->dtype == to->dtype &&
           plan->slots.at[step->outs[0]->slot].kind != SLOT_input;
}

/* Step s copies a number of the caller's, which a step of the host behind it may write: they all run before. */
static bool is_written_behind(const Plan *plan, int s) {
    const PlanValue *const from = plan_value(plan->steps.at[s].args[0].val);
    if (plan->slots.at[from->slot].kind == SLOT_arena) return false;
    for (int i = s + 1; i < plan->steps.n; i++)
        if (plan->steps.at[i].write_back && device_is_host(plan->steps.at[i].device)) return true;
    return false;
}

/* Why the step can be no part of a launch that is recorded; false: it can. */
static bool step_refused(Repeat *repeat, const Executable *e, int s) {
    const Step *const step = &e->plan->steps.at[s];
    if (step->kind == STEP_native && op_dynamic(step->row))
        repeat_never(repeat, "%s is an op of the program, whose body runs on the host", step->row->name);
    else if (step->kind == STEP_native && step->row->flags & OPF_flow)
        repeat_never(repeat, "%s goes through its rounds on the host", step->row->name);
    else if (step->kind == STEP_eager)
        repeat_never(repeat, "%s runs by itself: %s", step->row->name, step->why);
    else if (step->kind == STEP_copy && device_is_host(step->device))
        repeat_never(repeat, "a value is copied to the host");
    else if (step->kind == STEP_copy && !is_number_copy(e->plan, step))
        repeat_never(repeat, "a tensor is copied from %s to %s", DEVICE_TEXT(step->args[0].val->meta->device),
                     DEVICE_TEXT(step->device));
    else if (step->kind == STEP_copy && is_written_behind(e->plan, s))
        repeat_never(repeat, "a number is copied to %s, and then written", DEVICE_TEXT(step->device));
    else if (!device_is_host(step->device) && repeat->row && e->rows[s] != repeat->row)
        repeat_never(repeat, "it has steps on %s and on %s", repeat->row->name, e->rows[s]->name);
    else
        return false;
    return true;
}

/* On the host nothing is recorded: the steps are called one behind the other, in arenas that stay. */
static bool is_of_host(const Executable *e) {
    const Plan *const plan = e->plan;
    bool host = plan->steps.n > 0;
    for (int s = 0; s < plan->steps.n; s++) host = host && device_is_host(plan->steps.at[s].device);
    return host && e->rows[0]->repeat;
}

static void choose_row(Repeat *repeat, const Executable *e) {
    repeat->of_host = is_of_host(e);
    if (repeat->of_host) {
        repeat->row = e->rows[0];
        return;
    }
    for (int s = 0; s < e->plan->steps.n; s++) {
        if (step_refused(repeat, e, s)) return;
        if (!device_is_host(e->plan->steps.at[s].device)) repeat->row = e->rows[s];
    }
    if (!repeat->row)
        repeat_never(repeat, "it has no steps");
    else if (!repeat->row->repeat)
        repeat_never(repeat, "%s launches nothing as one", repeat->row->name);
}

Status executable_repeat(Executable *e) {
    Repeat *const repeat = e->repeat = mem_zero(sizeof *repeat);
    if (!repeat) return ST_MEMORY;
    pthread_mutex_init(&repeat->lock, NULL);
    choose_row(repeat, e);
    return ST_OK;
}

void repeat_free(Repeat *repeat) {
    if (!repeat) return;
    if (repeat->recorded) repeat->drop(repeat->recorded);
    for (int i = 0; i < PLAN_DEVICES; i++)
        if (repeat->arenas[i]) storage_release(repeat->arenas[i]);
    pthread_mutex_destroy(&repeat->lock);
    mem_free(repeat);
}

/* What was launched before may still use the smaller one, in whatever stream. */
static Status replace_arena(Repeat *repeat, int i, Device device, size_t bytes) {
    if (repeat->arenas[i]) TRY(device_synchronize(device));
    Storage *const larger = storage_new(device, bytes);
    if (!larger) return ST_MEMORY;
    if (repeat->arenas[i]) storage_release(repeat->arenas[i]);
    repeat->arenas[i] = larger;
    return ST_OK;
}

Status repeat_arenas(Repeat *repeat, Launch *launch) {
    const Plan *const plan = launch->e->plan;
    for (int i = 0; i < plan->arenas.n; i++) {
        const size_t bytes = (size_t)launch_int(launch, plan->arenas.at[i].bytes);
        if (!bytes) continue;
        if (!repeat->arenas[i] || repeat->arenas[i]->bytes < bytes)
            TRY(replace_arena(repeat, i, plan->arenas.at[i].device, bytes));
        storage_retain(repeat->arenas[i]);
        launch->arenas[i] = repeat->arenas[i];
    }
    return ST_OK;
}

bool executable_repeats(const Executable *e, RepeatReport *out) {
    if (!e || !e->repeat) return false;
    *out = (RepeatReport){e->repeat->row ? "" : e->repeat->why, atomic_load(&e->repeat->launches), e->repeat->of_host};
    return true;
}
