/* program.c: kernels as the functions of a program, one for each launch of the mapping. Functions and kinds of parts
 * are printed without their names first, so that equal ones are found. */
#include "codegen/cuda/source.h"

typedef struct Printed { /* what follows a name in the program */
    const char *name, *text;
} Printed;

typedef struct CudaPrinter {
    Arena *arena;
    Text *text;
    VEC(Printed) all;
    const Kernel *commented; /* whose loop IR was printed last */
} CudaPrinter;

/* One function of a kernel. */
typedef struct PartList {
    const CudaKernel *of;
    int n;
    CudaPart *at;
} PartList;

/* text --------------------------------------------------------------------------------------------- */

static bool is_taken(const CudaPrinter *p, const char *name) {
    for (int i = 0; i < p->all.n; i++)
        if (!strcmp(p->all.at[i].name, name)) return true;
    return false;
}

/* The name under which this text stands in the program, where it is put if it does not. NULL: memory is out. */
static const char *print_named(CudaPrinter *p, const char *head, const char *wanted, const char *text) {
    for (int i = 0; i < p->all.n; i++)
        if (!strcmp(p->all.at[i].text, text)) return p->all.at[i].name;
    const char *const name = is_taken(p, wanted) ? arena_printf(p->arena, "%s_%d", wanted, p->all.n) : wanted;
    if (!name) return NULL;
    VEC_PUSH(p->arena, &p->all, ((Printed){name, text}));
    text_printf(p->text, "%s %s%s", head, name, text);
    return name;
}

/* The loop IR of a kernel, before its first text. */
static void print_comment(CudaPrinter *p, const Kernel *kernel) {
    if (p->commented == kernel) return;
    p->commented = kernel;
    text_puts(p->text, "\n/*\n");
    kernel_print(kernel, p->text);
    text_puts(p->text, "*/\n");
}

static const char *nest_name(const CudaKernel *of, const CudaPart *part) {
    const char *const name = of->kernel->nests[part->nest].name;
    return name ? name : "nest";
}

static Status print_alone(CudaPrinter *p, const PartList *list, CudaFunction *out) {
    PartText part;
    list->at[0].check = 0; /* no other nest is there */
    TRY(part_print(p->arena, list->of, &list->at[0], true, &part));
    int *const arguments = ARENA_ARRAY(p->arena, int, part.n_args + 1);
    if (!arguments) return ST_MEMORY;
    for (int i = 0; i < part.n_args; i++) arguments[i] = i;
    print_comment(p, list->of->kernel);
    *out = (CudaFunction){.name = print_named(p, "KERNEL", nest_name(list->of, &list->at[0]), part.at),
                          .threads = list->at[0].mapping.threads,
                          .n_parts = 1,
                          .parts = list->at,
                          .n_args = part.n_args,
                          .args = part.args,
                          .n_arguments = part.n_args,
                          .arguments = arguments};
    return out->name ? ST_OK : ST_MEMORY;
}

/* Parts of one text and level are rows of a table. */
typedef struct PartTable {
    const char *name;
    int level, n;
} PartTable;

typedef struct TableList {
    int n;
    PartTable *at;
    CudaPart *parts; /* by table */
    PartText *texts; /* likewise */
} TableList;

static int levels_of(const PartList *list) {
    int n = 0;
    for (int k = 0; k < list->n; k++) n = list->at[k].level >= n ? list->at[k].level + 1 : n;
    return n;
}

/* By level. */
static Status find_tables(CudaPrinter *p, const PartList *list, TableList *out) {
    const size_t n = (size_t)list->n + 1;
    PartText *const texts = ARENA_ARRAY(p->arena, PartText, n);
    bool *const done = ARENA_ARRAY(p->arena, bool, n);
    *out = (TableList){0, ARENA_ARRAY(p->arena, PartTable, n), ARENA_ARRAY(p->arena, CudaPart, n),
                       ARENA_ARRAY(p->arena, PartText, n)};
    if (!texts || !done || !out->at || !out->parts || !out->texts) return ST_MEMORY;
    for (int k = 0; k < list->n; k++) TRY(part_print(p->arena, list->of, &list->at[k], false, &texts[k]));
    int next = 0;
    for (int step = 0; step < list->n * levels_of(list); step++) {
        const int k = step % list->n;
        if (done[k] || list->at[k].level != step / list->n) continue;
        PartTable *const table = &out->at[out->n++];
        *table =
            (PartTable){print_named(p, "struct", nest_name(list->of, &list->at[k]), texts[k].at), list->at[k].level, 0};
        if (!table->name) return ST_MEMORY;
        for (int i = k; i < list->n; i++) {
            if (done[i] || list->at[i].level != table->level || strcmp(texts[i].at, texts[k].at)) continue;
            done[i] = true, table->n++;
            out->parts[next] = list->at[i], out->texts[next++] = texts[i];
        }
    }
    return ST_OK;
}

static void print_table_arguments(Text *text, const TableList *tables) {
    text_puts(text, "(");
    for (int t = 0; t < tables->n; t++)
        text_printf(text, "const __grid_constant__ Several<%s, %d> n%d,\n    ", tables->at[t].name, tables->at[t].n, t);
    text_puts(text, "int32_t launch, Failed *failed) {\n");
}

static void print_tables(CudaSource *s, const TableList *tables) {
    const int last = tables->at[tables->n - 1].level;
    print_line(s, last ? "const int block = block_in_order(failed);" : "const int block = blockIdx.x;");
    for (int t = 0, first = 0; t < tables->n; t++) {
        if (tables->at[t].level != tables->at[first].level) first = t;
        print_open(s, "%sif (block < n%d.end()) {", t ? "else " : "", t);
        if (tables->at[t].level) print_line(s, "wait_for(n%d.first(), failed);", first);
        print_line(s, "n%d.run(block, launch, failed);", t);
        print_close(s);
    }
    if (last) print_line(s, "block_done(failed);");
    print_close(s);
}

/* Parts of a nest share it. */
static int add_workspace(const CudaKernel *of, CudaFunction *out, CudaWorkspace *workspaces, const WorkspaceUse *use,
                         int nest) {
    for (int i = 0; i < out->n_workspaces; i++)
        if (workspaces[i].nest == nest && workspaces[i].inst == use->inst && workspaces[i].stage == use->stage)
            return i;
    workspaces[out->n_workspaces] =
        (CudaWorkspace){nest, use->inst, use->stage, workspace_element_bytes(&of->kernel->nests[nest], use)};
    return out->n_workspaces++;
}

static Status list_kernel_args(Arena *arena, const CudaKernel *of, const TableList *tables, CudaFunction *out) {
    int n = 0, part = 0;
    for (int k = 0; k < out->n_parts; k++) n += tables->texts[k].n_args;
    KernelArg *const args = ARENA_ARRAY(arena, KernelArg, n + 1);
    int *const arguments = ARENA_ARRAY(arena, int, tables->n + 1);
    CudaWorkspace *const workspaces = ARENA_ARRAY(arena, CudaWorkspace, n + 1);
    if (!args || !arguments || !workspaces) return ST_MEMORY;
    for (int t = 0; t < tables->n; t++) {
        arguments[t] = out->n_args;
        for (int k = 0; k < tables->at[t].n; k++, part++)
            for (int i = 0; i < tables->texts[part].n_args; i++) {
                args[out->n_args] = tables->texts[part].args[i];
                KernelArg *const arg = &args[out->n_args++];
                arg->part = part;
                if (arg->kind == CUDA_workspace)
                    arg->at = add_workspace(of, out, workspaces, &tables->texts[part].workspaces[arg->at],
                                            out->parts[part].nest);
            }
    }
    out->args = args, out->workspaces = workspaces, out->arguments = arguments, out->n_arguments = tables->n;
    return ST_OK;
}

static Status print_several(CudaPrinter *p, const PartList *list, CudaFunction *out) {
    TableList tables;
    Text text = {0};
    print_comment(p, list->of->kernel);
    TRY(find_tables(p, list, &tables));
    *out = (CudaFunction){.threads = list->at[0].mapping.threads, .n_parts = list->n, .parts = tables.parts};
    TRY(list_kernel_args(p->arena, list->of, &tables, out));
    print_table_arguments(&text, &tables);
    print_tables(&(CudaSource){.text = &text, .indent = 1}, &tables);
    const char *const body = text.at ? arena_printf(p->arena, "%s", text.at) : NULL;
    text_free(&text);
    out->name = body ? print_named(p, "KERNEL", list->of->kernel->name, body) : NULL;
    return out->name ? ST_OK : ST_MEMORY;
}

static Status print_kernel(CudaPrinter *p, const CudaKernel *of, CudaText *out) {
    const CudaMapping *const mapping = of->mapping;
    CudaPart *const parts = arena_copy(p->arena, mapping->parts, (size_t)mapping->n * sizeof *parts);
    *out = (CudaText){0, ARENA_ARRAY(p->arena, CudaFunction, of->kernel->n_nests + 1)};
    if (!parts || !out->functions) return ST_MEMORY;
    for (int first = 0; first < mapping->n;) {
        const PartList list = {of, cuda_mapping_launch_parts(mapping, first), parts + first};
        CudaFunction *const function = &out->functions[out->n++];
        TRY(list.n == 1 ? print_alone(p, &list, function) : print_several(p, &list, function));
        first += list.n;
    }
    return ST_OK;
}

Status cuda_print(Arena *arena, const CudaKernel *kernels, int n, CudaText *code, Text *text) {
    CudaPrinter p = {.arena = arena, .text = text};
    for (int k = 0; k < n; k++) TRY(print_kernel(&p, &kernels[k], &code[k]));
    return ST_OK;
}
