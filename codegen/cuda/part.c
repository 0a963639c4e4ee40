/* part.c: a part as text: the arguments that it takes, where a thread is in it, its phases. A nest's buffers are
 * numbered among themselves, so that nests that differ in nothing but which buffers they have are one text. */
#include <stdarg.h>
#include <stdio.h>

#include "codegen/cuda/source.h"

/* what a nest uses ------------------------------------------------------------------------------ */

typedef struct Uses {
    bool *buf, *written, *param;
} Uses;

static void use_int(const Uses *uses, int64_t value) {
    if (sym_is(value)) uses->param[sym_id(value)] = true;
}

static bool accesses_buf(const Inst *inst) {
    return inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store;
}

static void use_inst(const Nest *nest, const Inst *inst, const Uses *uses) {
    if (accesses_buf(inst)) uses->buf[inst->buf] = true;
    if (inst->op == LI_store) uses->written[inst->buf] = true;
    if (inst->op == LI_param) uses->param[inst->param] = true;
    if (inst->op == LI_gather) use_int(uses, inst->scale), use_int(uses, inst->bound);
    if (!inst->at) return;
    use_int(uses, inst->at->offset);
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) use_int(uses, inst->at->coef[d]);
}

static Uses find_uses(Arena *arena, const Kernel *kernel, const Nest *nest) {
    Uses uses = {ARENA_ARRAY(arena, bool, kernel->n_bufs + 1), ARENA_ARRAY(arena, bool, kernel->n_bufs + 1),
                 ARENA_ARRAY(arena, bool, kernel->n_params + 1)};
    if (!uses.buf || !uses.written || !uses.param) return uses;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) use_int(&uses, nest->extent[d]);
    for (int i = 0; i < nest->n_insts; i++) use_inst(nest, &nest->insts[i], &uses);
    return uses;
}

static bool has_gathers(const Nest *nest) {
    for (int i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].op == LI_gather) return true;
    return false;
}

/* arguments -------------------------------------------------------------------------------------- */

typedef struct PartArgs {
    KernelArg *at;
    int n, n_workspaces;
    WorkspaceUse *workspaces;
} PartArgs;

/* "const memory_f32 *b0" as a parameter, or a line of its own. */
static void print_kernel_arg(CudaSource *s, PartArgs *args, KernelArgKind kind, int at, const char *format, ...)
    PRINTF_LIKE(5, 6);
static void print_kernel_arg(CudaSource *s, PartArgs *args, KernelArgKind kind, int at, const char *format, ...) {
    char arg[96];
    va_list list;
    va_start(list, format);
    vsnprintf(arg, sizeof arg, format, list);
    va_end(list);
    args->at[args->n++] = (KernelArg){.kind = kind, .at = at};
    text_printf(s->text, s->alone ? "%s, " : "    %s;\n", arg);
}

static void print_bufs(CudaSource *s, const Uses *uses, PartArgs *args) {
    for (int number = 0; number < s->n_bufs; number++)
        for (int b = 0; b < s->n_bufs; b++)
            if (uses->buf[b] && s->buf_number[b] == number)
                print_kernel_arg(s, args, CUDA_buf, b, "%smemory_%s *b%d", uses->written[b] ? "" : "const ",
                                 dtype_name(s->bufs[b].dtype), number);
}

static void print_workspaces(CudaSource *s, PartArgs *args) {
    const WorkspaceUse *const uses = args->workspaces;
    for (int i = 0; i < args->n_workspaces; i++) {
        char name[32], type[32];
        workspace_name(&uses[i], name), workspace_type(s->nest, &uses[i], type);
        print_kernel_arg(s, args, CUDA_workspace, i, "%s *%s", type, name);
    }
}

static void print_kernel_args(CudaSource *s, const Uses *uses, int n_params, PartArgs *args) {
    print_bufs(s, uses, args);
    for (int p = 0; p < n_params; p++)
        if (uses->param[p]) print_kernel_arg(s, args, CUDA_param, p, "int64_t p%d", p);
    print_workspaces(s, args);
    if (cuda_mapping_is_flat(s->mapping)) print_kernel_arg(s, args, CUDA_count, 0, "int64_t n_last");
    if (s->alone) return;
    if (has_gathers(s->nest)) print_kernel_arg(s, args, CUDA_check, 0, "int64_t check");
    print_kernel_arg(s, args, CUDA_range, 0, "int32_t first, end");
}

/* Of a function by itself the kernel's own numbers, else in the order in which instructions name them. */
static int *number_bufs(Arena *arena, const Nest *nest, int n, bool alone) {
    int *const numbers = ARENA_ARRAY(arena, int, n + 1), next = 0;
    for (int b = 0; numbers && b < n; b++) numbers[b] = alone ? b : -1;
    for (int i = 0; numbers && i < nest->n_insts; i++)
        if (accesses_buf(&nest->insts[i]) && numbers[nest->insts[i].buf] < 0) numbers[nest->insts[i].buf] = next++;
    return numbers;
}

/* text ------------------------------------------------------------------------------------------- */

/* One thread, or all of a block that meet later, do nothing. */
static void print_guard(CudaSource *s, bool visible) {
    if (!visible) return;
    if (s->shared)
        print_line(s, "if (__syncthreads_or(failed->launch >= 0)) return;");
    else
        print_line(s, "if (failed->launch >= 0) return;");
}

static bool part_stores(const CudaPart *part) {
    return part->task == CUDA_whole || part->task == CUDA_elements || part->task == CUDA_once || part->n_after;
}

static void print_part(CudaSource *s, const Uses *uses, int n_params, bool visible, PartArgs *args) {
    text_puts(s->text, s->alone ? "(" : " {\n");
    print_kernel_args(s, uses, n_params, args);
    if (s->alone)
        text_puts(s->text, "int32_t launch, Failed *failed) {\n");
    else
        print_open(s, "METHOD void run(int block, int32_t launch, Failed *failed) const {");
    if (s->alone) s->indent = 1;
    print_guard(s, visible && part_stores(s->part));
    print_task(s);
    print_close(s);
    if (!s->alone) text_puts(s->text, "};\n");
}

Status part_print(Arena *arena, const CudaKernel *of, const CudaPart *part, bool alone, PartText *out) {
    const Kernel *const kernel = of->kernel;
    const Nest *const nest = &kernel->nests[part->nest];
    const size_t n = (size_t)nest->n_insts;
    const Uses uses = find_uses(arena, kernel, nest);
    Text text = {0};
    CudaSource s = {.text = &text,
                    .nest = nest,
                    .bufs = kernel->bufs,
                    .n_bufs = kernel->n_bufs,
                    .mapping = &part->mapping,
                    .part = part,
                    .shared = cuda_part_is_shared(part),
                    .indent = 1,
                    .alone = alone};
    const int n_workspaces = part->task == CUDA_whole ? 0 : 3 * nest->n_insts;
    PartArgs args = {ARENA_ARRAY(arena, KernelArg, kernel->n_bufs + kernel->n_params + 4 + n_workspaces),
                     .workspaces = ARENA_ARRAY(arena, WorkspaceUse, n_workspaces + 1)};
    s.loop_level = ARENA_ARRAY(arena, LoopLevel, n + 1);
    s.done = ARENA_ARRAY(arena, bool, n + 1), s.loaded = ARENA_ARRAY(arena, bool, n + 1);
    s.visited_by = ARENA_ARRAY(arena, int, n + 1);
    if (!uses.buf || !uses.written || !uses.param || !args.at || !args.workspaces || !s.loop_level || !s.done ||
        !s.loaded || !s.visited_by)
        return ST_MEMORY;
    s.buf_number = number_bufs(arena, nest, kernel->n_bufs, alone);
    if (!s.buf_number) return ST_MEMORY;
    if (n_workspaces) args.n_workspaces = workspace_uses(nest, part, args.workspaces);
    loop_levels_find(&s);
    print_part(&s, &uses, kernel->n_params, of->visible && of->visible[part->nest], &args);
    *out = (PartText){text.at ? arena_printf(arena, "%s", text.at) : NULL, args.n, args.at, args.workspaces};
    text_free(&text);
    return out->at ? ST_OK : ST_MEMORY;
}
