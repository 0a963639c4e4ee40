/* compile.c: the compile driver, see compile.h. One setjmp guards passes and lowering, which work
 * in the graph's arena only; code generation and loading own things outside it and return Status
 * instead. */
#include "runtime/compile/compile.h"

#include <stdio.h>

#include "codegen/shape/plan_shapes.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/compile/code_cache.h"
#include "runtime/compile/llvm_module.h"

static void arena_bail(void *context) { bail(context, BAIL_memory, "out of memory while compiling"); }

static void note(CompileInfo *info, BailCode code, const char *text) {
    info->failure = code;
    snprintf(info->reason, sizeof info->reason, "%.*s", (int)sizeof info->reason - 1, text);
    LOG(compile, INFO, "%s: %s", bail_name(code), text);
}

/* An error that a pass raised instead of bailing ends here too: nothing stays pending after a
 * compile. */
static Status settle_info(Status status, CompileInfo *info) {
    if (status == ST_OK) return ST_OK;
    if (info->failure == BAIL_none)
        note(info, status == ST_MEMORY ? BAIL_memory : BAIL_unsupported, error_slot()->message);
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

Status compile_guarded(Graph *graph, Status (*step)(void *context), void *context, CompileInfo *info) {
    Bail exit;
    const Status status = compile_exit(graph, step, context, &exit);
    if (exit.code == BAIL_none) return settle_info(status, info);
    note(info, exit.code, exit.message);
    return status;
}

/* Times, for explain -------------------------------------------------------------------------- */

/* The two parts of a joint graph run the same passes: their times add up. */
void compile_note_time(CompileInfo *info, const char *name, int64_t ns) {
    for (int i = 0; i < info->n_pass_times; i++)
        if (!strcmp(info->pass_times[i].name, name)) {
            info->pass_times[i].ns += ns;
            return;
        }
    if (info->n_pass_times == MAX_PASS_TIMES) return;
    info->pass_times[info->n_pass_times++] = (PassTime){name, ns};
}

static void note_pass(void *context, const PassRow *pass, Graph *graph, int64_t ns) {
    (void)graph;
    CompileInfo *const info = context;
    compile_note_time(info, pass->name, ns);
    *(pass_plans(pass) ? &info->lower_ns : &info->passes_ns) += ns;
}

PassOptions compile_pass_options(const PassOptions *base, CompileInfo *info) {
    PassOptions options = base ? *base : (PassOptions){0};
    if (!options.trace) {
        options.trace = note_pass;
        options.trace_context = info;
    }
    return options;
}

typedef struct PassRun {
    Graph *graph;
    const char *passes;
    const PassOptions *options;
    CompileInfo *info;
} PassRun;

static Status run_passes(void *context) {
    const PassRun *const job = context;
    const PassOptions options = compile_pass_options(job->options, job->info);
    return passes_run(job->graph, job->passes, &options);
}

static NestFn *take_code(void *context, const Nest *nest) {
    const Plan *const plan = context;
    for (int i = 0; i < plan->steps.n; i++) {
        const Kernel *const kernel = plan->steps.at[i].kernel;
        if (kernel && nest >= kernel->nests && nest < kernel->nests + kernel->n_nests)
            return code_take(nest, kernel->bufs);
    }
    return NULL;
}

static int count_kernels(const Plan *plan) {
    int n = 0;
    for (int i = 0; i < plan->steps.n; i++) n += plan->steps.at[i].kernel || plan->steps.at[i].row;
    return n;
}

Status compile_plan(Plan *plan, CompileInfo *info, Executable **out) {
    info->kernels += count_kernels(plan);
    if (info->n_plans < MAX_PLANS) info->plans[info->n_plans++] = plan;
    /* Without generated code the interpreter runs the same kernels with the same bits: slower,
     * never wrong. */
    static const NativeCode native = {.take = take_code, .give = code_give};
    code_hold(); /* what is there or made now is there for the executable */
    const bool interpreted = code_generate(plan, info) != ST_OK;
    info->interpreted |= interpreted;
    const Status status = executable_new(plan, false, interpreted ? NULL : &native, plan, out);
    code_let_go();
    return settle_info(status, info);
}

Status compile_graph(Graph *graph, const PassOptions *options, Executable **out, CompileInfo *info) {
    PassRun job = {.graph = graph, .passes = COMPILE_PASSES, .options = options, .info = info};
    TRY(compile_guarded(graph, run_passes, &job, info));
    return compile_plan(graph->plan, info, out);
}

/* Stage texts --------------------------------------------------------------------------------- */

typedef struct StageRow {
    const char *name, *passes;
    enum {
        TEXT_graph,
        TEXT_plan,
        TEXT_memory,
        TEXT_shapes,
        TEXT_llvm,
        TEXT_asm
    } kind; /* from shapes on: of a machine */
} StageRow;

static const StageRow stages[] = {
    {"capture", "", TEXT_graph},
    {"functional", "functionalize", TEXT_graph},
    {"joint", "functionalize,joint", TEXT_graph},
    {"decomposed", "functionalize,joint,decompose", TEXT_graph},
    {"fused", GRAPH_PASSES ",schedule", TEXT_graph},
    {"forward", GRAPH_PASSES ",schedule", TEXT_graph},
    {"backward", GRAPH_PASSES ",schedule", TEXT_graph},
    {"loops", COMPILE_PASSES, TEXT_plan},
    {"memory", COMPILE_PASSES, TEXT_memory},
    {"shapes", COMPILE_PASSES, TEXT_shapes},
    {"llvm", COMPILE_PASSES, TEXT_llvm},
    {"asm", COMPILE_PASSES, TEXT_asm},
};

const char *compile_stage_name(int i) { return i >= 0 && i < COUNT_OF(stages) ? stages[i].name : NULL; }

static const StageRow *row_of(const char *stage, size_t n) {
    for (int i = 0; i < COUNT_OF(stages); i++)
        if (strlen(stages[i].name) == n && !memcmp(stages[i].name, stage, n)) return &stages[i];
    return NULL;
}

/* "shapes" is of the machine that runs, "shapes@v3" of a named one. */
static const StageRow *find_stage(const char *stage, const Machine **machine) {
    const size_t n = strcspn(stage, "@");
    const StageRow *const row = row_of(stage, n);
    if (row && !stage[n]) {
        *machine = code_machine();
        return row;
    }
    if (row && row->kind >= TEXT_shapes)
        return (*machine = machine_find(stage + n + 1, strlen(stage + n + 1))) ? row : NULL;
    if (row) {
        error_raise(ST_ARGUMENT, "stage '%s' is the same on every machine", row->name);
        return NULL;
    }
    Text list = {0};
    for (int i = 0; i < COUNT_OF(stages); i++) text_printf(&list, "%s%s", i ? ", " : "", stages[i].name);
    error_raise(ST_ARGUMENT, "stage '%s' is unknown; stages: %s", stage, text_str(&list));
    text_free(&list);
    return NULL;
}

Status compile_stage_check(const char *stage) {
    const Machine *machine;
    return find_stage(stage, &machine) ? ST_OK : error_pending();
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
        for (int k = 0; arena && kernel && k < kernel->n_nests; k++) {
            const Nest *const nest = &kernel->nests[k];
            const Buf *const bufs = kernel->bufs;
            const NestShape *const shape = plan_shape_of(plan, &plan->steps.at[i], k, machine, arena);
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

static bool plan_stage(Plan *plan, const StageRow *row, const Machine *machine, Text *text) {
    switch (row->kind) {
    case TEXT_plan:
        plan_print(plan, text);
        return true;
    case TEXT_memory:
        plan_print_memory(plan, text);
        return true;
    case TEXT_shapes:
        shapes_print(plan, machine, text);
        return true;
    case TEXT_llvm:
    case TEXT_asm:
        print_code(plan, machine, row->kind == TEXT_asm, text);
        return true;
    default:
        return false;
    }
}

bool compile_plan_text(Plan *plan, const char *stage, Text *text) {
    const Machine *machine;
    const StageRow *const row = find_stage(stage, &machine);
    return row && plan_stage(plan, row, machine, text);
}

typedef struct StageText {
    const StageRow *row;
    const Machine *machine;
    Graph *graph;
    Text *text;
} StageText;

static Status print_stage(void *context) {
    const StageText *const job = context;
    if (*job->row->passes) TRY(passes_run(job->graph, job->row->passes, NULL));
    if (!strcmp(job->row->name, "backward")) {
        text_puts(job->text, "# no backward of its own: gradients do not flow out of this segment\n");
        return ST_OK;
    }
    if (job->row->kind == TEXT_graph) {
        graph_print(job->graph, job->text);
        return ST_OK;
    }
    plan_stage(job->graph->plan, job->row, job->machine, job->text);
    return ST_OK;
}

char *compile_stage_text(const char *graph_text, const char *stage) {
    const Machine *machine;
    const StageRow *const row = find_stage(stage, &machine);
    Arena *const arena = row ? arena_new() : NULL;
    if (!arena) return NULL;
    Graph *graph;
    Text text = {0};
    if (graph_parse(arena, graph_text, strlen(graph_text), &graph) == ST_OK) {
        CompileInfo info = {0};
        StageText job = {.row = row, .machine = machine, .graph = graph, .text = &text};
        if (compile_guarded(graph, print_stage, &job, &info) != ST_OK)
            text_printf(&text, "# %s: %s\n", bail_name(info.failure), info.reason);
    }
    arena_free(arena);
    if (!text.at) return error_pending() ? NULL : mem_strdup("");
    return text.at;
}
