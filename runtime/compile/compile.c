/* compile.c: the compile driver, see compile.h. One setjmp guards passes and lowering, which work
 * in the graph's arena only; code generation and loading own things outside it and return Status
 * instead. */
#include "runtime/compile/compile.h"

#include <stdio.h>
#include <string.h>

#include "codegen/cuda/cuda.h"
#include "codegen/cuda/plan_mappings.h"
#include "codegen/shape/plan_shapes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/compile/code_cache.h"
#include "runtime/compile/llvm_module.h"
#include "runtime/compile/tuning.h"
#include "runtime/core/breaks.h"
#include "runtime/core/profile.h"

static void arena_bail(void *context) { bail(context, BAIL_memory, "out of memory while compiling"); }

void compile_name(CompileRequest *request, const char *function) {
    enum { HASH = sizeof "_01234567" - 1 };
    const size_t n = strlen(function), most = sizeof request->function - 1;
    size_t kept = n <= most ? n : most - HASH;
    while (n > most && kept && ((unsigned char)function[kept] & 0xC0) == 0x80) kept--; /* no half of a character */
    memcpy(request->function, function, kept);
    request->function[kept] = '\0';
    if (n <= most) return;
    const uint32_t hash = (uint32_t)hash_bytes(0, function, n);
    snprintf(request->function + kept, sizeof request->function - kept, "_%08x", hash);
}

static void set_failure(CompileReport *info, BailCode code, const char *text) {
    info->failure = code;
    snprintf(info->reason, sizeof info->reason, "%.*s", (int)sizeof info->reason - 1, text);
    LOG(compile, INFO, "%s: %s", bail_name(code), text);
}

/* An error that a pass raised instead of bailing ends here too: nothing stays pending after a
 * compile. */
static Status end_report(Status status, CompileReport *info) {
    if (status == ST_OK) return ST_OK;
    if (info->failure == BAIL_none)
        set_failure(info, status == ST_MEMORY ? BAIL_memory : BAIL_unsupported, error_slot()->message);
    error_clear();
    return status;
}

void compile_arm(Graph *graph, Bail *exit) {
    graph->bail = exit;
    arena_on_failure(graph->arena, exit ? arena_bail : NULL, exit);
}

Bail *compile_disarm(Graph *graph) {
    Bail *const exit = graph->bail;
    compile_arm(graph, NULL);
    return exit;
}

Status compile_exit(Graph *graph, Status (*step)(void *context), void *context, Bail *exit) {
    exit->code = BAIL_none;
    exit->scratch = NULL;
    compile_arm(graph, exit);
    Status status;
    if (setjmp(exit->exit) == 0) {
        status = step(context);
    } else {
        error_clear();
        arena_free(exit->scratch);
        status = exit->code == BAIL_memory ? ST_MEMORY : ST_UNSUPPORTED;
    }
    compile_arm(graph, NULL);
    return status;
}

Status compile_guarded(Graph *graph, Status (*step)(void *context), void *context, CompileReport *info) {
    Bail exit;
    const Status status = compile_exit(graph, step, context, &exit);
    if (exit.code == BAIL_none) return end_report(status, info);
    set_failure(info, exit.code, exit.message);
    return status;
}

/* Times, for explain -------------------------------------------------------------------------- */

/* The two parts of a joint graph run the same passes: their times add up. */
void compile_record_time(CompileReport *info, const char *name, int64_t ns) {
    for (int i = 0; i < info->n_pass_times; i++)
        if (!strcmp(info->pass_times[i].name, name)) {
            info->pass_times[i].ns += ns;
            return;
        }
    if (info->n_pass_times == MAX_PASS_TIMES) return;
    info->pass_times[info->n_pass_times++] = (PassTime){name, ns};
}

/* Stages without a text are not kept. */
static void keep_stage(CompileReport *report, Stage stage, Graph *graph) {
    if (!report->keeps_stages) return;
    const int64_t start = clock_ns();
    if (stage == STAGE_scheduled)
        report->stages[stage] = graph;
    else if (stage == STAGE_functional || stage == STAGE_joint || stage == STAGE_decomposed)
        report->stages[stage] = graph_copy(graph, graph->arena);
    if (error_pending()) error_clear(); /* it is only shown */
    report->passes_ns += clock_ns() - start;
}

static void record_pass(void *context, const PassRow *pass, Graph *graph, int64_t ns) {
    CompileReport *const info = context;
    compile_record_time(info, pass->name, ns);
    keep_stage(info, pass->out, graph);
    *(pass_plans(pass) ? &info->lower_ns : &info->passes_ns) += ns;
    if (profile_is_on()) profile_record(PROFILE_stage, pass->name, NULL, clock_ns() - ns, clock_ns());
}

void compile_record_extension(void *context, const char *kind, const char *name, const char *version) {
    CompileReport *const info = context;
    char line[sizeof info->extensions];
    const size_t n = strlen(info->extensions);
    const int more = snprintf(line, sizeof line, "%s %s %s\n", kind, name, version ? version : "-");
    info->unversioned |= !version;
    if (strstr(info->extensions, line)) return;
    if (n + (size_t)more < sizeof info->extensions)
        memcpy(info->extensions + n, line, (size_t)more + 1);
    else
        info->unversioned = true;
}

PassOptions compile_pass_options(const PassOptions *base, CompileReport *info) {
    const CompileRequest *const request = compile_request(info);
    PassOptions options = base ? *base : (PassOptions){0};
    if (!options.trace) {
        options.trace = record_pass;
        options.trace_context = info;
    }
    options.verify |= failpoint("verify_passes");
    options.fast |= request->fast;
    options.unfused |= request->backend && request->backend->kind == BACK_unfused;
    options.took_part = compile_record_extension;
    options.took_part_context = info;
    if (request->backend && request->backend->kind == BACK_called) {
        options.computes = backend_code;
        options.computes_context = info;
    }
    return options;
}

typedef struct PassRun {
    Graph *graph;
    CompileReport *info;
} PassRun;

static Status run_passes(void *context) {
    const PassRun *const job = context;
    const PassOptions options = compile_pass_options(NULL, job->info);
    return passes_run(job->graph, "compile", &options);
}

static NestFn *acquire_code(void *context, const Nest *nest) {
    const Plan *const plan = context;
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        const Kernel *const kernel = step->kernel;
        if (kernel && nest >= kernel->nests && nest < kernel->nests + kernel->n_nests)
            return code_acquire(nest, kernel->bufs, step->tuned ? step->tuned[nest - kernel->nests] : 0);
    }
    return NULL;
}

static Status finish_executable(Executable *e, const CompileReport *info) {
    const CompileRequest *const request = compile_request(info);
    TRY(executable_name(e, request->function));
    return request->repeat ? executable_repeat(e) : ST_OK;
}

static void record_alone(const Plan *plan, CompileReport *info) {
    const Step *first;
    info->alone = plan_eager_steps(plan, &first);
    if (!first) return;
    snprintf(info->alone_why, sizeof info->alone_why, BREAK_TEXT(alone), first->row->name, first->why);
    LOG(compile, INFO, "%s", info->alone_why);
}

Status compile_plan(Plan *plan, CompileReport *info, Executable **out) {
    info->kernels += plan->steps.n;
    if (!info->n_plans) record_alone(plan, info);
    plan->extensions = info->extensions, plan->unversioned = info->unversioned;
    if (info->n_plans < MAX_PLANS) info->plans[info->n_plans++] = plan;
    /* Without generated code the interpreter runs the same kernels with the same bits: slower,
     * never wrong. */
    static const NativeCode native = {.take = acquire_code, .give = code_release};
    const CompileRequest *const request = compile_request(info);
    if (request->autotune && compile_prepare_plan(plan, info) != ST_OK)
        error_clear(); /* said where code is generated */
    const bool wanted = !request->backend || request->backend->kind != BACK_interpreter;
    if (!wanted) snprintf(info->reason, sizeof info->reason, "the backend is %s", request->backend->name);
    code_hold(); /* what is there or made now is there for the executable */
    const bool interpreted = !wanted || code_generate(plan, info) != ST_OK;
    info->interpreted |= interpreted;
    Status status = executable_new(plan, false, interpreted ? NULL : &native, plan, out);
    if (status == ST_OK) status = finish_executable(*out, info);
    if (status != ST_OK) {
        executable_free(*out);
        *out = NULL;
    }
    code_let_go();
    return end_report(status, info);
}

Status compile_prepare_plan(Plan *plan, CompileReport *info) {
    if (plan->machine != code_machine()) TRY(plan_shape(plan, code_machine()));
    if (compile_request(info)->autotune) tuning_apply(plan, info);
    return ST_OK;
}

Status compile_passes(Graph *graph, CompileReport *info) {
    PassRun job = {graph, info};
    TRY(compile_guarded(graph, run_passes, &job, info));
    info->graph = graph;
    return ST_OK;
}

/* Dumps -------------------------------------------------------------------------------------- */

Dump dump_of(DumpId id) { return (Dump){.id = id, .machine = code_machine()}; }

GraphNotes dump_notes(const Dump *dump, PlaceName *place) {
    return (GraphNotes){.types = dump->types, .place = dump->lines ? place : NULL};
}

static Status parse_machine(const char *name, size_t n, Dump *dump) {
    const DumpRow *const row = dump_row(dump->id);
    if (!(row->traits & (DUMP_machine | DUMP_gpu)))
        return error_raise(ST_ARGUMENT, "stage '%s' is the same on every machine", row->name);
    const Machine *const machine = machine_find(name, n);
    if (!machine) return error_pending();
    if (!(row->traits & (machine_is_gpu(machine) ? DUMP_gpu : DUMP_machine)))
        return error_raise(ST_ARGUMENT, "stage '%s' is of a %s, but machine '%s' is a %s", row->name,
                           machine_is_gpu(machine) ? "CPU" : "GPU", machine->name,
                           machine_is_gpu(machine) ? "GPU" : "CPU");
    dump->machine = machine;
    return ST_OK;
}

static Status parse_beside(const char *name, size_t n, Dump *dump) {
    if (dump_row(dump->id)->traits & DUMP_plan || dump->id == DUMP_guards)
        return error_raise(ST_ARGUMENT, "stage '%s' is no graph: it has no types and lines beside it",
                           dump_row(dump->id)->name);
    if (n == 5 && !strncmp(name, "types", n)) {
        dump->types = true;
    } else if (n == 5 && !strncmp(name, "lines", n)) {
        dump->lines = true;
    } else {
        return error_raise(ST_ARGUMENT, "stage '%s' may have types and lines beside it, but not '%.*s'",
                           dump_row(dump->id)->name, (int)n, name);
    }
    return ST_OK;
}

Status dump_parse(const char *stage, Dump *dump) {
    size_t n = strcspn(stage, "@+");
    const DumpId id = dump_find(stage, n);
    if (id == DUMP_COUNT) return dump_unknown(stage);
    *dump = dump_of(id);
    for (const char *at = stage + n; *at; at += n + 1) {
        n = strcspn(at + 1, "@+");
        TRY((*at == '@' ? parse_machine : parse_beside)(at + 1, n, dump));
    }
    return ST_OK;
}

static void print_code(const Plan *plan, const Machine *machine, bool assembly, Text *text) {
    const LlvmModuleTable *const llvm = llvm_module();
    if (!llvm) {
        text_printf(text, "; no code: %s\n", llvm_module_reason());
        return;
    }
    Arena *const arena = arena_new();
    for (int i = 0; i < plan->steps.n; i++) {
        const Kernel *const kernel = plan->steps.at[i].kernel;
        if (kernel && !device_is_host(plan->steps.at[i].device)) {
            text_printf(text, "; %s is no code of LLVM's: it runs on %s\n", kernel->name,
                        DEVICE_TEXT(plan->steps.at[i].device));
            continue;
        }
        for (int k = 0; arena && kernel && k < kernel->n_nests; k++) {
            const Nest *const nest = &kernel->nests[k];
            const Buf *const bufs = kernel->bufs;
            const NestMapping *const shape = plan_shape_of(plan, &plan->steps.at[i], k, machine, arena);
            if (!shape) continue;
            const CodegenRequest request = {.n_nests = 1,
                                            .nests = &nest,
                                            .bufs = &bufs,
                                            .shapes = &shape,
                                            .names = &kernel->name,
                                            .machine = machine};
            char *const code = llvm->text(&request, assembly);
            text_puts(text, code ? code : "; no code\n");
            if (code) llvm->free_bytes(code);
        }
    }
    arena_free(arena);
}

void compile_dump_plan(Plan *plan, const Dump *dump, Text *text) {
    switch (dump->id) {
    case DUMP_memory:
        plan_print_memory(plan, text);
        return;
    case DUMP_shapes:
        mappings_print(plan, dump->machine, text);
        return;
    case DUMP_llvm:
    case DUMP_asm:
        print_code(plan, dump->machine, dump->id == DUMP_asm, text);
        return;
    case DUMP_cuda:
        cuda_dump(plan, machine_is_gpu(dump->machine) ? dump->machine : machine_gpu(), text);
        return;
    default:
        plan_print(plan, text);
    }
}

void dump_sites(Graph *graph, const void *const *sites) {
    for (Node *node = graph->first; sites && node; node = node->next) node->site = *sites++;
}
