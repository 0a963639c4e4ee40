/* plan_mappings.c: see plan_mappings.h. A kernel of a GPU is printed as it runs there: a template's nest goes over the
 * whole result. Sizes that are parameters have hints, by which the mapping was decided:
 *
 *   machine sm_90: threads 128, few 65536, ordered 32768, words 510
 *   kernel k0_sum(...) params(p0) {...}
 *   hints p0 64
 *   shape k0_sum_n0 {...} */
#include "codegen/cuda/plan_mappings.h"

#include <inttypes.h>

#include "codegen/cuda/cuda.h"
#include "codegen/shape/plan_shapes.h"
#include "runtime/base/error.h"

static bool is_size(const Kernel *kernel, int p) { return !kernel->param_is_float || !kernel->param_is_float[p]; }

static void print_hints(const CudaKernel *of, Text *text) {
    int n = 0;
    for (int p = 0; of->hint && p < of->kernel->n_params; p++)
        if (is_size(of->kernel, p)) text_printf(text, "%sp%d %" PRId64, n++ ? ", " : "hints ", p, of->hint[p]);
    if (n) text_puts(text, "\n");
}

static void print_kernel_mapping(const CudaKernel *of, Text *text) {
    kernel_print(of->kernel, text);
    print_hints(of, text);
    cuda_mapping_print(of->mapping, of->kernel, text);
}

static Status print_mappings(Arena *arena, const Plan *plan, const Machine *machine, Text *text) {
    for (int s = 0; s < plan->steps.n; s++) {
        const Step *const step = &plan->steps.at[s];
        CudaKernel of;
        if (step->kind != STEP_kernel) continue;
        TRY(cuda_plan_kernel(arena, plan, step, machine, &of));
        print_kernel_mapping(&of, text);
    }
    return ST_OK;
}

void mappings_print(const Plan *plan, const Machine *machine, Text *text) {
    machine_print(machine, text);
    if (!machine_is_gpu(machine)) {
        shapes_print(plan, machine, text);
        return;
    }
    Arena *const arena = arena_new();
    if (arena && print_mappings(arena, plan, machine, text) != ST_OK) {
        text_printf(text, "# no code: %s\n", error_slot()->message);
        error_clear();
    }
    arena_free(arena);
}

/* reading ----------------------------------------------------------------------------------------- */

static Status read_hint(TextReader *in, const Kernel *kernel, int64_t *hint) {
    int p;
    reader_skip(in);
    if (*in->at != 'p') return reader_expected(in, "a parameter");
    in->at++;
    TRY(reader_count(in, &p));
    if (p >= kernel->n_params || !is_size(kernel, p)) return reader_expected(in, "a size of the kernel before this");
    TRY(reader_int(in, &hint[p]));
    return hint[p] < 0 ? reader_expected(in, "a hint that is not negative before this") : ST_OK;
}

static Status read_hints(Arena *arena, TextReader *in, CudaKernel *of) {
    if (!reader_eat(in, "hints")) return ST_OK;
    int64_t *const hint = ARENA_ARRAY(arena, int64_t, of->kernel->n_params + 1);
    if (!hint) return ST_MEMORY;
    do TRY(read_hint(in, of->kernel, hint));
    while (reader_eat(in, ","));
    of->hint = hint;
    return ST_OK;
}

typedef struct KernelRecord { /* one of both, by the kind of machine */
    CudaKernel of;
    NestMapping **shapes;
} KernelRecord;

static Status read_record(Arena *arena, TextReader *in, const Machine *given, KernelRecord *out) {
    Kernel *kernel;
    CudaMapping *mapping = NULL;
    TRY(kernel_parse(arena, in->at, &in->at, &kernel));
    TRY(kernel_verify(kernel));
    *out = (KernelRecord){.of.kernel = kernel};
    if (!machine_is_gpu(given)) return shapes_parse(arena, in, kernel, given, &out->shapes);
    TRY(read_hints(arena, in, &out->of));
    TRY(cuda_mapping_parse(arena, in, kernel, &mapping));
    out->of.mapping = mapping;
    return cuda_mapping_verify(mapping, kernel, given);
}

static Status decide_record(Arena *arena, const Machine *machine, KernelRecord *record) {
    CudaKernel *const of = &record->of;
    if (!machine_is_gpu(machine))
        return (record->shapes = shapes_decide(arena, of->kernel, machine)) ? ST_OK : ST_MEMORY;
    const char *const why = cuda_refusal(of);
    if (why) return error_raise(ST_UNSUPPORTED, "%s: %s", of->kernel->name, why);
    return (of->mapping = cuda_mapping_decide(arena, of, machine)) ? ST_OK : ST_MEMORY;
}

static void print_record(const KernelRecord *record, const Machine *machine, Text *out) {
    const Kernel *const kernel = record->of.kernel;
    if (machine_is_gpu(machine)) {
        print_kernel_mapping(&record->of, out);
        return;
    }
    kernel_print(kernel, out);
    for (int k = 0; k < kernel->n_nests; k++) shape_print(record->shapes[k], &kernel->nests[k], out);
}

static Status reprint_all(Arena *arena, TextReader *in, const Machine *wanted, Text *out) {
    Machine given;
    TRY(machine_parse(in, &given));
    const Machine *const machine = wanted ? wanted : &given;
    machine_print(machine, out);
    for (;;) {
        KernelRecord record;
        reader_skip(in);
        if (strncmp(in->at, "kernel ", 7)) return ST_OK;
        TRY(read_record(arena, in, &given, &record));
        if (wanted) TRY(decide_record(arena, wanted, &record));
        print_record(&record, machine, out);
    }
}

Status mappings_reprint(const char *text, const char **end, const Machine *machine, Text *out) {
    TextReader in = {.what = "shapes", .between = BETWEEN_comments, .start = text, .at = text};
    Arena *const arena = arena_new();
    const Status status = arena ? reprint_all(arena, &in, machine, out) : ST_MEMORY;
    if (status == ST_OK) *end = in.at;
    arena_free(arena);
    return status;
}
