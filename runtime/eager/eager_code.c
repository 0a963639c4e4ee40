/* eager_code.c: see eager_code.h. The state's thread shapes the plan and gives it away; from then on both threads only
 * read it. The worker makes an executable beside the interpreter's and says so by one store, and the state's thread
 * takes it at its next call.
 *
 *   interpreter -- EAGER_CODE_NS --> asked -> made by the worker -> taken: coded
 *                                         \-> not made: the interpreter stays, and nothing asks again
 *
 * A forked child has no thread that it did not start itself, so it asks for none; what was made before the fork it
 * takes. */
#include "runtime/eager/eager_code.h"

#include <stdatomic.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/bail.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/compile/compile.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/core/background.h"
#include "runtime/core/state.h"
#include "runtime/device/launch.h"

typedef enum CodeState { CODE_waits, CODE_ready, CODE_failed } CodeState;

struct EagerCode {
    BackgroundJob job;
    CompileReport info; /* the plan names parts of it */
    Plan *plan;         /* the program's, which is not freed before its code */
    Executable *run;
    const char *op; /* a row's name */
    _Atomic int state;
    _Atomic int holders; /* the program and the job */
};

static const CompileRequest request = {.function = "", .optional = true};
static _Atomic int64_t asked, ready, failed;
static pid_t first_process;

EagerCodeCounts eager_code_counts(void) {
    return (EagerCodeCounts){atomic_load(&asked), atomic_load(&ready), atomic_load(&failed)};
}

void eager_code_start(void) { first_process = getpid(); }

static void eager_code_drop(EagerCode *code) {
    if (atomic_fetch_sub(&code->holders, 1) > 1) return;
    executable_free(code->run);
    mem_free(code);
}

static void drop_job(BackgroundJob *job) { eager_code_drop((EagerCode *)job); }

static void eager_code_make(BackgroundJob *job) {
    EagerCode *const code = (EagerCode *)job;
    const int64_t start = clock_ns();
    const bool made = compile_plan(code->plan, &code->info, &code->run) == ST_OK && !code->info.interpreted;
    atomic_fetch_add(made ? &ready : &failed, 1);
    if (made)
        LOG(compile, INFO, "eager: code of %s after %.1f ms", code->op, (double)(clock_ns() - start) / 1e6);
    else
        LOG(compile, INFO, "eager: no code of %s: %s", code->op, code->info.reason);
    atomic_store_explicit(&code->state, made ? CODE_ready : CODE_failed, memory_order_release);
}

static EagerCode *code_new(Plan *plan, const char *op) {
    EagerCode *const code = mem_zero(sizeof *code);
    if (!code) return NULL;
    code->job = (BackgroundJob){.owner = background_owner(), .make = eager_code_make, .drop = drop_job};
    code->info.request = &request;
    code->plan = plan;
    code->op = op;
    code->holders = 1;
    if (compile_prepare_plan(plan, &code->info) == ST_OK) return code;
    eager_code_drop(code);
    return NULL;
}

/* Where there is no worker, in a forked child or while the program ends, nothing is made; but code that must be there
 * is made here. */
static void give_away(EagerCode *code, bool must) {
    atomic_fetch_add(&code->holders, 1);
    llvm_module_before_worker();
    if (getpid() == first_process && background_run(&code->job)) {
        if (must) background_wait(code->job.owner);
        return;
    }
    if (must)
        eager_code_make(&code->job);
    else
        atomic_store(&code->state, CODE_failed);
    eager_code_drop(code);
}

/* Out of memory: the interpreter needs none, and the next call asks again. */
static void eager_code_ask(EagerProgram *program, const char *op, bool must) {
    program->code = code_new(program->run->plan, op);
    if (!program->code) {
        error_clear();
        return;
    }
    atomic_fetch_add(&asked, 1);
    give_away(program->code, must);
}

void eager_program_look(EagerProgram *program) {
    const Plan *const plan = program->run->plan;
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        program->has_nests |= step->kind == STEP_kernel && device_is_host(step->device) && step->kernel->n_nests;
    }
}

static void eager_code_take(EagerProgram *program) {
    if (atomic_load_explicit(&program->code->state, memory_order_acquire) == CODE_ready)
        program->coded = program->code->run;
}

Executable *eager_program_ready(EagerProgram *program, const char *op) {
    const int64_t when = setting_number(SET_eager_compile);
    if (when == EAGER_COMPILE_never) return program->run;
    if (LIKELY(program->coded != NULL)) return program->coded;
    if (!program->code && program->has_nests && when == EAGER_COMPILE_always) eager_code_ask(program, op, true);
    if (program->code) eager_code_take(program);
    return program->coded ? program->coded : program->run;
}

void eager_program_spent(EagerProgram *program, const char *op, int64_t ns) {
    program->ns += ns;
    const bool enough = program->ns > EAGER_CODE_NS || (UNLIKELY(failpoints_set()) && failpoint("eager_costs"));
    if (enough) eager_code_ask(program, op, false);
}

void eager_program_free(EagerProgram *program) {
    if (program->code) {
        background_withdraw(program->code->job.owner);
        eager_code_drop(program->code);
    }
    executable_free(program->run);
    *program = (EagerProgram){0};
}
