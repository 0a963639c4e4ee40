/* variant_background.c: code of a variant that calls do not wait for. Passes and lowering have run in the call that
 * recorded the segment, and its plans change no more. The worker makes what runs them beside the variant, in a job of
 * its own, and puts it in its place by one store: calls before that find a variant that waits and run eagerly, calls
 * after it launch the code. */
#include "runtime/base/alloc.h"
#include "runtime/capture/variant/variant.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/core/background.h"

typedef struct VariantJob {
    BackgroundJob job;
    sn_function *fn;    /* is not freed before its jobs */
    Variant *variant;   /* retained */
    CompileReport info; /* the variant's, which others read, with what the code adds */
} VariantJob;

static void put_in_place(sn_function *fn, Variant *v, const CompileReport *info, Executable *run) {
    if (!run) function_record_failure(fn, v->end, info->failure, info->reason);
    pthread_mutex_lock(&fn->lock);
    v->info = *info;
    v->info.interpreted &= run != NULL;
    v->code.run = run;
    if (!run) atomic_fetch_add(&v->end->failures, 1);
    atomic_store_explicit(&v->code.waits, false, memory_order_release);
    pthread_mutex_unlock(&fn->lock);
    if (run) variant_report_ready(fn, v);
}

static void make_code(BackgroundJob *job) {
    VariantJob *const later = (VariantJob *)job;
    Executable *run = NULL;
    if (later->variant->kind->make_code(later->variant, &later->info, &run) != ST_OK) run = NULL;
    put_in_place(later->fn, later->variant, &later->info, run);
}

static void drop_job(BackgroundJob *job) {
    variant_free(((VariantJob *)job)->variant);
    mem_free(job);
}

static bool hand_to_worker(sn_function *fn, Variant *v) {
    VariantJob *const later = mem_alloc(sizeof *later);
    if (!later) {
        error_clear();
        return false;
    }
    *later = (VariantJob){{.owner = v->code.background, .make = make_code, .drop = drop_job}, fn, v, v->info};
    variant_retain(v);
    llvm_module_before_worker();
    if (background_run(&later->job)) return true;
    drop_job(&later->job);
    return false;
}

void variant_finish(sn_function *fn, Variant *v) {
    if (hand_to_worker(fn, v)) return;
    CompileReport info = v->info;
    Executable *run = NULL;
    if (v->kind->make_code(v, &info, &run) != ST_OK) run = NULL;
    put_in_place(fn, v, &info, run);
}
