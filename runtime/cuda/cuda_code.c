/* cuda_code.c: the code of a plan's kernels: one program, compiled by NVRTC and loaded, which equal plans share.
 *
 *   kernels -> cuda_print -> text -> a program with that text, or NVRTC -> cubin -> library -> a function per nest
 *
 * A program stays while a step uses it, then among the unused ones, of which the longest unused go first. */
#include <stdio.h>

#include "codegen/cuda/cuda.h"
#include "kernels/cuda/prelude.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"
#include "runtime/cuda/cuda_code.h"
#include "runtime/cuda/cuda_disk.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/device/launch_bind.h"

enum { MOST_UNUSED = 512 }; /* programs */

struct CudaProgram {
    uint64_t hash;
    CudaDevice *device;
    char *source; /* after the prelude */
    CuLibrary library;
    int users;
    CudaProgram *next;          /* of the same hash */
    CudaProgram *newer, *older; /* while there is no user */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Map by_hash; /* -> CudaProgram */
static CudaProgram *newest, *oldest;
static int n_unused;
static CudaCodeCounts counts;

CudaCodeCounts cuda_code_counts(void) {
    pthread_mutex_lock(&lock);
    const CudaCodeCounts now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}

/* programs ------------------------------------------------------------------------------------ */

static void unused_add(CudaProgram *program) {
    program->newer = NULL;
    program->older = newest;
    *(newest ? &newest->newer : &oldest) = program;
    newest = program;
    n_unused++;
}

static void unused_remove(CudaProgram *program) {
    *(program->newer ? &program->newer->older : &newest) = program->older;
    *(program->older ? &program->older->newer : &oldest) = program->newer;
    n_unused--;
}

static uint64_t hash_of(const CudaDevice *device, const Text *source) {
    return hash_mix(hash_bytes(0, source->at, source->n), (uint64_t)(uintptr_t)device);
}

static CudaProgram *find_locked(const CudaDevice *device, uint64_t hash, const char *source) {
    CudaProgram *at = map_get(&by_hash, hash);
    while (at && (at->device != device || strcmp(at->source, source))) at = at->next;
    return at;
}

static void remove_locked(CudaProgram *program) {
    CudaProgram *const first = map_get(&by_hash, program->hash);
    if (first == program) map_set(&by_hash, program->hash, program->next);
    for (CudaProgram *at = first; at; at = at->next)
        if (at->next == program) at->next = program->next;
}

static void free_program(CudaProgram *program) {
    mem_free(program->source);
    mem_free(program);
}

/* What was launched of it may still run. A device that is lost has unloaded it. */
static void unload(CudaProgram *program) {
    CudaDevice *const device = program->device;
    if (!device->lost && device->driver->CtxPushCurrent(device->context) == CU_success) {
        if (device->driver->CtxSynchronize() == CU_success) device->driver->LibraryUnload(program->library);
        cuda_leave(device);
    }
    free_program(program);
}

static void shrink_locked(void) {
    while (n_unused > MOST_UNUSED) {
        CudaProgram *const program = oldest;
        unused_remove(program);
        remove_locked(program);
        unload(program);
        counts.programs--;
    }
}

static CudaProgram *take_program(const CudaDevice *device, uint64_t hash, const char *source) {
    pthread_mutex_lock(&lock);
    CudaProgram *const found = find_locked(device, hash, source);
    if (found && found->users++ == 0) unused_remove(found);
    counts.reused += found != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

void cuda_program_give(CudaProgram *program) {
    pthread_mutex_lock(&lock);
    if (--program->users == 0) {
        unused_add(program);
        shrink_locked();
    }
    pthread_mutex_unlock(&lock);
}

static Status enter_program(CudaProgram *program, bool kept) {
    pthread_mutex_lock(&lock);
    program->next = map_get(&by_hash, program->hash);
    const bool entered = map_set(&by_hash, program->hash, program);
    counts.programs += entered;
    counts.compiled += entered && !kept;
    counts.loaded += entered && kept;
    pthread_mutex_unlock(&lock);
    return entered ? ST_OK : ST_MEMORY;
}

static Status compile_source(const CudaDevice *device, const char *name, const char *source, CudaCode *code) {
    Text whole = {0};
    text_puts(&whole, cuda_prelude);
    text_puts(&whole, source);
    const Status status = whole.at ? cuda_compile(whole.at, name, device->arch, code) : ST_MEMORY;
    text_free(&whole);
    return status;
}

static Status load_code(CudaDevice *device, const CudaCode *code, CuLibrary *library) {
    TRY(cuda_enter(device));
    const CuResult result = device->driver->LibraryLoadData(library, code->bytes, NULL, NULL, 0, NULL, NULL, 0);
    const Status status = cuda_answer(device, "loading a program", result);
    cuda_leave(device);
    return status;
}

/* What is there but does not load goes, unless it was the device that failed. */
static bool load_kept(CudaDevice *device, const DiskKey *key, CuLibrary *library) {
    CudaCode code;
    if (!cuda_disk_take(key, &code)) return false;
    const bool loaded = load_code(device, &code, library) == ST_OK;
    cuda_code_free(&code);
    if (loaded) return true;
    if (!device->lost) disk_unloadable(key, error_slot()->message);
    error_clear();
    return false;
}

static Status load_compiled(CudaDevice *device, const char *name, const Text *source, const DiskKey *key,
                            CuLibrary *library) {
    CudaCode code;
    TRY(compile_source(device, name, source->at, &code));
    const Status status = load_code(device, &code, library);
    if (status == ST_OK && key) cuda_disk_store(key, &code);
    cuda_code_free(&code);
    return status;
}

static Status load_program(CudaDevice *device, const char *name, const Text *source, CuLibrary *library, bool *kept) {
    DiskKey key;
    const bool has_key = cuda_disk_key(device->arch, name, source, &key);
    *kept = has_key && load_kept(device, &key, library);
    const Status status = *kept ? ST_OK : load_compiled(device, name, source, has_key ? &key : NULL, library);
    disk_key_free(&key);
    return status;
}

static Status make_program(CudaDevice *device, uint64_t hash, const char *name, const Text *source, CudaProgram **out) {
    bool kept;
    CudaProgram *const program = mem_zero(sizeof *program);
    char *const text = mem_strdup(source->at);
    Status status = program && text ? load_program(device, name, source, &program->library, &kept) : ST_MEMORY;
    if (status != ST_OK) {
        mem_free(program);
        mem_free(text);
        return status;
    }
    program->hash = hash, program->device = device, program->source = text, program->users = 1;
    if ((status = enter_program(program, kept)) != ST_OK) unload(program);
    *out = program;
    return status;
}

Status cuda_program(CudaDevice *device, const char *name, const Text *source, CudaProgram **out) {
    const uint64_t hash = hash_of(device, source);
    *out = take_program(device, hash, source->at);
    return *out ? ST_OK : make_program(device, hash, name, source, out);
}

Status cuda_program_function(CudaDevice *device, const CudaProgram *program, const char *name, CuFunction *out) {
    CuKernel kernel;
    TRY(cuda_answer(device, "finding a kernel", device->driver->LibraryGetKernel(&kernel, program->library, name)));
    return cuda_answer(device, "finding a kernel", device->driver->KernelGetFunction(out, kernel));
}

/* steps --------------------------------------------------------------------------------------- */

typedef struct CudaJob {
    CudaDevice *device;
    Executable *e;
    Arena *arena;
    int n;
    const CudaNest *nests; /* of all steps, in order */
    CudaFunction *functions;
    Text source;
    CudaProgram *program;
} CudaJob;

static bool is_mine(const CudaJob *job, int s) {
    return job->e->plan->steps.at[s].kind == STEP_kernel && job->e->rows[s] == &job->device->row;
}

static Status list_nests(CudaJob *job) {
    bool *const mine = ARENA_ARRAY(job->arena, bool, job->e->plan->steps.n + 1);
    if (!mine) return ST_MEMORY;
    for (int s = 0; s < job->e->plan->steps.n; s++) mine[s] = is_mine(job, s);
    TRY(cuda_plan_nests(job->arena, job->e->plan, mine, &job->nests, &job->n));
    job->functions = ARENA_ARRAY(job->arena, CudaFunction, job->n + 1);
    return job->functions ? ST_OK : ST_MEMORY;
}

static Status find_program(CudaJob *job) {
    TRY(cuda_print(job->arena, job->nests, job->n, job->functions, &job->source));
    if (!job->n) return ST_OK; /* cores alone */
    return job->source.at ? cuda_program(job->device, job->functions[0].name, &job->source, &job->program) : ST_MEMORY;
}

static Status find_checks(const CudaJob *job, const CudaNest *of, CudaStepNest *nest) {
    int n = 0;
    for (int i = 0; i < of->nest->n_insts; i++) n += of->nest->insts[i].op == LI_gather;
    if (!n) return ST_OK;
    CudaChecked *const checked = mem_zero(sizeof *checked + (size_t)n * sizeof checked->at[0]);
    if (!checked) return ST_MEMORY;
    checked->refs = 1;
    snprintf(checked->kernel, sizeof checked->kernel, "%s", of->kernel->name);
    for (int i = 0; i < of->nest->n_insts; i++) {
        if (of->nest->insts[i].op != LI_gather) continue;
        checked->at[checked->n].inst = i;
        checked->at[checked->n++].row = checked_op(job->e->plan, of->nest, i);
    }
    nest->checked = checked;
    return ST_OK;
}

static int *copy_ints(const int *from, int n) {
    int *const copy = mem_alloc(((size_t)n + 1) * sizeof *copy);
    if (copy) memcpy(copy, from, (size_t)n * sizeof *copy);
    return copy;
}

static Status fill_nest(const CudaJob *job, int n, CudaStepNest *nest) {
    const CudaFunction *const from = &job->functions[n];
    nest->shape = from->shape;
    nest->n_bufs = from->n_bufs, nest->n_params = from->n_params;
    nest->bufs = copy_ints(from->bufs, from->n_bufs), nest->params = copy_ints(from->params, from->n_params);
    if (!nest->bufs || !nest->params) return ST_MEMORY;
    TRY(find_checks(job, &job->nests[n], nest));
    return cuda_program_function(job->device, job->program, from->name, &nest->function);
}

static void hold(CudaProgram *program) {
    pthread_mutex_lock(&lock);
    program->users++;
    pthread_mutex_unlock(&lock);
}

static Status fill_core(const CudaJob *job, const Step *step, CudaStep *code) {
    const TemplateUse *const use = step->kernel->template;
    if (!use) return ST_OK;
    code->core_visible = use->tile < 0 && cuda_stores_input(job->e->plan, step, use->operand[2].buf);
    const CudaTemplate *const row = cuda_template_of(step->kernel);
    code->core_narrow = use->tile >= 0 && cuda_narrow_tile(job->e->plan, step->kernel);
    return row->core ? row->core(job->device, step->kernel, &code->core_program, &code->core) : ST_OK;
}

static Status fill_steps(CudaJob *job) {
    int n = 0;
    for (int s = 0; s < job->e->plan->steps.n; s++) {
        if (!is_mine(job, s)) continue;
        const int n_nests = job->e->plan->steps.at[s].kernel->n_nests;
        CudaStep *const code = mem_zero(sizeof *code + (size_t)n_nests * sizeof *code->nests);
        if (!code) return ST_MEMORY;
        job->e->codes[s] = code;
        code->n = n_nests;
        if (n_nests) hold(code->program = job->program);
        TRY(fill_core(job, &job->e->plan->steps.at[s], code));
        for (int k = 0; k < n_nests; k++) TRY(fill_nest(job, n++, &code->nests[k]));
    }
    return ST_OK;
}

Status cuda_make_code(const DeviceRow *row, Executable *e, const NativeCode *native, void *context) {
    (void)native, (void)context;
    CudaJob job = {.device = cuda_device_of(row), .e = e, .arena = arena_new()};
    if (!job.arena) return ST_MEMORY;
    Status status = cuda_enter(job.device);
    if (status == ST_OK) {
        status = list_nests(&job);
        if (status == ST_OK) status = find_program(&job);
        if (status == ST_OK) status = fill_steps(&job);
        cuda_leave(job.device);
    }
    if (job.program) cuda_program_give(job.program); /* its steps hold it */
    text_free(&job.source);
    arena_free(job.arena);
    return status;
}

void cuda_drop_code(void *step) {
    CudaStep *const code = step;
    for (int k = 0; k < code->n; k++) {
        mem_free(code->nests[k].bufs);
        mem_free(code->nests[k].params);
        cuda_checked_drop(code->nests[k].checked);
    }
    if (code->program) cuda_program_give(code->program);
    if (code->core_program) cuda_program_give(code->core_program);
    mem_free(code);
}

size_t cuda_code_bytes(const void *step) {
    const CudaStep *const code = step;
    size_t bytes = sizeof *code;
    for (int k = 0; k < code->n; k++)
        bytes += sizeof *code->nests + (size_t)(code->nests[k].n_bufs + code->nests[k].n_params) * sizeof(int);
    return bytes;
}
