/* cuda_code.c: the code of a plan's kernels: one program, compiled by NVRTC and loaded, which equal plans share.
 *
 *   kernels -> cuda_print -> text -> a program with that text, or NVRTC -> cubin -> library -> a function per launch
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

static CudaProgram *acquire_program(const CudaDevice *device, uint64_t hash, const char *source) {
    pthread_mutex_lock(&lock);
    CudaProgram *const found = find_locked(device, hash, source);
    if (found && found->users++ == 0) unused_remove(found);
    counts.reused += found != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

void cuda_program_release(CudaProgram *program) {
    pthread_mutex_lock(&lock);
    if (--program->users == 0) {
        unused_add(program);
        shrink_locked();
    }
    pthread_mutex_unlock(&lock);
}

static Status enter_program(CudaProgram *program, bool cached) {
    pthread_mutex_lock(&lock);
    program->next = map_get(&by_hash, program->hash);
    const bool entered = map_set(&by_hash, program->hash, program);
    counts.programs += entered;
    counts.compiled += entered && !cached;
    counts.loaded += entered && cached;
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
static bool load_cached(CudaDevice *device, const DiskSignature *key, CuLibrary *library) {
    CudaCode code;
    if (!cuda_disk_load(key, &code)) return false;
    const bool loaded = load_code(device, &code, library) == ST_OK;
    cuda_code_free(&code);
    if (loaded) return true;
    if (!device->lost) disk_unloadable(key, error_slot()->message);
    error_clear();
    return false;
}

static Status load_compiled(CudaDevice *device, const char *name, const Text *source, const DiskSignature *key,
                            CuLibrary *library) {
    CudaCode code;
    TRY(compile_source(device, name, source->at, &code));
    const Status status = load_code(device, &code, library);
    if (status == ST_OK && key) cuda_disk_store(key, &code);
    cuda_code_free(&code);
    return status;
}

typedef struct WantedProgram {
    const char *name;
    const Text *source;
    bool stored; /* on disk, and looked for there */
} WantedProgram;

static Status load_program(CudaDevice *device, const WantedProgram *wanted, CuLibrary *library, bool *cached) {
    const char *const name = wanted->name;
    const Text *const source = wanted->source;
    DiskSignature key = {0};
    const bool has_key = wanted->stored && cuda_disk_signature(device->arch, name, source, &key);
    *cached = has_key && load_cached(device, &key, library);
    const Status status = *cached ? ST_OK : load_compiled(device, name, source, has_key ? &key : NULL, library);
    disk_signature_free(&key);
    return status;
}

static Status make_program(CudaDevice *device, uint64_t hash, const WantedProgram *wanted, CudaProgram **out) {
    bool cached;
    CudaProgram *const program = mem_zero(sizeof *program);
    char *const text = mem_strdup(wanted->source->at);
    Status status = program && text ? load_program(device, wanted, &program->library, &cached) : ST_MEMORY;
    if (status != ST_OK) {
        mem_free(program);
        mem_free(text);
        return status;
    }
    program->hash = hash, program->device = device, program->source = text, program->users = 1;
    if ((status = enter_program(program, cached)) != ST_OK) unload(program);
    *out = program;
    return status;
}

static Status find_wanted(CudaDevice *device, const WantedProgram *wanted, CudaProgram **out) {
    const uint64_t hash = hash_of(device, wanted->source);
    *out = acquire_program(device, hash, wanted->source->at);
    return *out ? ST_OK : make_program(device, hash, wanted, out);
}

Status cuda_program(CudaDevice *device, const char *name, const Text *source, CudaProgram **out) {
    return find_wanted(device, &(WantedProgram){name, source, true}, out);
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
    CudaKernel *kernels; /* of all steps that have nests, in order */
    CudaText *code;      /* likewise */
    Text source;
    CudaProgram *program;
} CudaJob;

static bool is_mine(const CudaJob *job, int s) {
    return job->e->plan->steps.at[s].kind == STEP_kernel && job->e->rows[s] == &job->device->row;
}

static Status list_kernels(CudaJob *job) {
    const Plan *const plan = job->e->plan;
    const Machine *const machine = machine_of_capability(job->device->arch);
    job->kernels = ARENA_ARRAY(job->arena, CudaKernel, plan->steps.n + 1);
    job->code = ARENA_ARRAY(job->arena, CudaText, plan->steps.n + 1);
    if (!job->kernels || !job->code) return ST_MEMORY;
    for (int s = 0; s < plan->steps.n; s++)
        if (is_mine(job, s) && plan->steps.at[s].kernel->n_nests)
            TRY(cuda_plan_kernel(job->arena, plan, &plan->steps.at[s], machine, &job->kernels[job->n++]));
    return ST_OK;
}

/* Part of the source, which is what code on disk is known by. */
static void print_extensions(CudaJob *job) {
    for (const char *line = job->e->plan->extensions; line && *line;) {
        const size_t n = strcspn(line, "\n");
        text_printf(&job->source, "/* %.*s */\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
}

static Status find_program(CudaJob *job) {
    print_extensions(job);
    TRY(cuda_print(job->arena, job->kernels, job->n, job->code, &job->source));
    if (!job->n) return ST_OK; /* cores alone */
    const WantedProgram wanted = {job->code[0].functions[0].name, &job->source, !job->e->plan->unversioned};
    return job->source.at ? find_wanted(job->device, &wanted, &job->program) : ST_MEMORY;
}

static int count_checks(const Kernel *kernel, const CudaFunction *text) {
    int n = 0;
    for (int p = 0; p < text->n_parts; p++) {
        const Nest *const nest = &kernel->nests[text->parts[p].nest];
        for (int i = 0; i < nest->n_insts; i++) n += nest->insts[i].op == LI_gather;
    }
    return n;
}

static void add_checks(const Plan *plan, const Nest *nest, int first, CudaChecked *checked) {
    for (int i = 0; i < nest->n_insts; i++) {
        if (nest->insts[i].op != LI_gather) continue;
        checked->at[checked->n].inst = first + i;
        checked->at[checked->n++].row = checked_op(plan, nest, i).row;
    }
}

static Status find_checks(const CudaJob *job, const Kernel *kernel, const CudaFunction *text, CudaStepLaunch *launch) {
    const int n = count_checks(kernel, text);
    if (!n) return ST_OK;
    CudaChecked *const checked = mem_zero(sizeof *checked + (size_t)n * sizeof checked->at[0]);
    if (!checked) return ST_MEMORY;
    checked->refs = 1;
    snprintf(checked->kernel, sizeof checked->kernel, "%s", kernel->name);
    for (int p = 0; p < text->n_parts; p++)
        add_checks(job->e->plan, &kernel->nests[text->parts[p].nest], text->parts[p].check, checked);
    launch->checked = checked;
    return ST_OK;
}

/* One block of memory. */
static CudaFunction *keep_text(const CudaFunction *from) {
    const size_t parts = (size_t)from->n_parts * sizeof *from->parts, words = (size_t)from->n_args * sizeof *from->args;
    const size_t workspaces = (size_t)from->n_workspaces * sizeof *from->workspaces;
    const size_t arguments = (size_t)from->n_arguments * sizeof *from->arguments;
    CudaFunction *const to = mem_alloc(sizeof *to + parts + words + workspaces + arguments);
    if (!to) return NULL;
    char *const at = (char *)(to + 1);
    *to = *from;
    to->name = NULL;
    to->parts = memcpy(at, from->parts, parts);
    to->args = memcpy(at + parts, from->args, words);
    to->workspaces = workspaces ? memcpy(at + parts + words, from->workspaces, workspaces) : NULL;
    to->arguments = memcpy(at + parts + words + workspaces, from->arguments, arguments);
    return to;
}

static Status fill_launch(const CudaJob *job, const Kernel *kernel, const CudaFunction *text, CudaStepLaunch *launch) {
    launch->text = keep_text(text);
    if (!launch->text) return ST_MEMORY;
    TRY(find_checks(job, kernel, text, launch));
    return cuda_program_function(job->device, job->program, text->name, &launch->function);
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

static Status fill_step(CudaJob *job, int s, int *next) {
    const Step *const step = &job->e->plan->steps.at[s];
    const int at = step->kernel->n_nests ? (*next)++ : -1;
    const int n = at < 0 ? 0 : job->code[at].n;
    CudaStep *const code = mem_zero(sizeof *code + (size_t)n * sizeof *code->launches);
    if (!code) return ST_MEMORY;
    job->e->codes[s] = code;
    code->n = n;
    if (n) hold(code->program = job->program);
    TRY(fill_core(job, step, code));
    for (int k = 0; k < n; k++)
        TRY(fill_launch(job, job->kernels[at].kernel, &job->code[at].functions[k], &code->launches[k]));
    return ST_OK;
}

static Status fill_steps(CudaJob *job) {
    int next = 0;
    for (int s = 0; s < job->e->plan->steps.n; s++)
        if (is_mine(job, s)) TRY(fill_step(job, s, &next));
    return ST_OK;
}

Status cuda_make_code(const DeviceRow *row, Executable *e, const NativeCode *native, void *context) {
    (void)native, (void)context;
    CudaJob job = {.device = cuda_device_of(row), .e = e, .arena = arena_new()};
    if (!job.arena) return ST_MEMORY;
    Status status = cuda_enter(job.device);
    if (status == ST_OK) {
        status = list_kernels(&job);
        if (status == ST_OK) status = find_program(&job);
        if (status == ST_OK) status = fill_steps(&job);
        cuda_leave(job.device);
    }
    if (job.program) cuda_program_release(job.program); /* its steps hold it */
    text_free(&job.source);
    arena_free(job.arena);
    return status;
}

void cuda_drop_code(void *step) {
    CudaStep *const code = step;
    for (int k = 0; k < code->n; k++) {
        mem_free((void *)(uintptr_t)code->launches[k].text);
        cuda_checked_drop(code->launches[k].checked);
    }
    if (code->program) cuda_program_release(code->program);
    if (code->core_program) cuda_program_release(code->core_program);
    mem_free(code);
}

size_t cuda_code_bytes(const void *step) {
    const CudaStep *const code = step;
    size_t bytes = sizeof *code;
    for (int k = 0; k < code->n; k++) {
        const CudaFunction *const text = code->launches[k].text;
        bytes += sizeof *code->launches + sizeof *text + (size_t)text->n_parts * sizeof *text->parts +
                 (size_t)text->n_args * sizeof *text->args;
    }
    return bytes;
}
