/* program.c: kernels as the functions of a program. A kernel's nests are the parts of one launch, as far as its words
 * have room and its blocks may count themselves; functions and kinds of parts are printed without their names first,
 * so that equal ones are found. */
#include <stdarg.h>
#include <stdio.h>

#include "codegen/cuda/source.h"

void print_line(CudaSource *s, const char *format, ...) {
    char line[1200];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    text_printf(s->text, "%*s%s\n", line[0] == '#' ? 0 : 4 * s->indent, "", line);
}

void print_open(CudaSource *s, const char *format, ...) {
    char line[1200];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    text_printf(s->text, "%*s%s\n", 4 * s->indent++, "", line);
}

void print_close(CudaSource *s) { text_printf(s->text, "%*s}\n", 4 * --s->indent, ""); }

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

const char *cuda_refusal(const CudaKernel *kernel) {
    const Kernel *const k = kernel->kernel;
    for (int i = 0; i < k->n_nests; i++)
        if (part_words(k, &k->nests[i], CUDA_all) > CUDA_MOST_WORDS) return "more buffers than a launch takes";
    return NULL;
}

/* functions of a kernel --------------------------------------------------------------------------- */

static int64_t hint_of(const CudaKernel *of, int64_t value) {
    return !sym_is(value) ? value : of->hint ? of->hint[sym_id(value)] : 1;
}

static void hint_extents(const CudaKernel *of, const Nest *nest, int64_t *extent) {
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) extent[d] = hint_of(of, nest->extent[d]);
}

static int64_t blocks_of(const CudaKernel *of, const CudaPart *part) {
    const Nest *const nest = &of->kernel->nests[part->nest];
    int64_t extent[MAX_LOOP_DIMS];
    hint_extents(of, nest, extent);
    return cuda_blocks(part, nest, extent);
}

static int nest_parts(const CudaKernel *of, const CudaPart *at, CudaPart *parts) {
    const Nest *const nest = &of->kernel->nests[at->nest];
    int64_t extent[MAX_LOOP_DIMS], blocks = 0;
    CudaPart whole = *at;
    int n = 1;
    hint_extents(of, nest, extent);
    cuda_shape(nest, &whole.shape);
    if (split_wanted(of, nest, &whole.shape, extent)) {
        split_nest(of, &whole, parts, &n);
        for (int p = 0; p < n; p++) blocks += cuda_blocks(&parts[p], nest, extent);
        if (blocks <= CUDA_ORDERED_BLOCKS && n * part_words(of->kernel, nest, CUDA_chunks) <= CUDA_MOST_WORDS) return n;
    }
    parts[0] = whole;
    return 1;
}

/* Each sees what earlier ones stored, unless the kernel says that there is nothing to see. */
static CudaPart *parts_of(Arena *arena, const CudaKernel *of, int *n) {
    const Kernel *const kernel = of->kernel;
    CudaPart *parts = NULL;
    int check = 0, level = 0, room = 0;
    *n = 0;
    for (int k = 0; k < kernel->n_nests; k++) room += 3 * kernel->nests[k].n_phases;
    if (!(parts = ARENA_ARRAY(arena, CudaPart, room + 1))) return NULL;
    for (int k = 0; k < kernel->n_nests; k++) {
        *n += nest_parts(of, &(CudaPart){.nest = k, .level = level, .check = check}, parts + *n);
        check += kernel->nests[k].n_insts;
        if (!kernel->independent) level = parts[*n - 1].level + 1;
    }
    return parts;
}

/* How many of the parts are one launch: at least one. */
static int parts_together(const CudaKernel *of, const CudaPart *parts, int n) {
    int64_t blocks = 0;
    int words = 0, nest = 0, k = 0; /* nest: where the last one begins, whose parts stay together */
    for (; k < n; k++) {
        if (parts[k].nest != parts[nest].nest) nest = k;
        words += part_words(of->kernel, &of->kernel->nests[parts[k].nest], parts[k].task);
        blocks += blocks_of(of, &parts[k]);
        const bool waits = parts[k].level != parts[0].level;
        if (nest && (words > CUDA_MOST_WORDS || (waits && blocks > CUDA_ORDERED_BLOCKS))) return nest;
    }
    return k;
}

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
    list->at[0].check = 0;
    TRY(part_print(p->arena, list->of, &list->at[0], true, &part));
    int *const arguments = ARENA_ARRAY(p->arena, int, part.n_words + 1);
    if (!arguments) return ST_MEMORY;
    for (int i = 0; i < part.n_words; i++) arguments[i] = i;
    print_comment(p, list->of->kernel);
    *out = (CudaFunction){.name = print_named(p, "KERNEL", nest_name(list->of, &list->at[0]), part.at),
                          .n_parts = 1,
                          .parts = list->at,
                          .n_words = part.n_words,
                          .words = part.words,
                          .n_arguments = part.n_words,
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
static int add_space(const CudaKernel *of, CudaFunction *out, CudaSpace *spaces, const SpaceUse *use, int nest) {
    for (int i = 0; i < out->n_spaces; i++)
        if (spaces[i].nest == nest && spaces[i].inst == use->inst && spaces[i].stage == use->stage) return i;
    spaces[out->n_spaces] = (CudaSpace){nest, use->inst, use->stage, space_bytes_of(&of->kernel->nests[nest], use)};
    return out->n_spaces++;
}

static Status list_words(Arena *arena, const CudaKernel *of, const TableList *tables, CudaFunction *out) {
    int n = 0, part = 0;
    for (int k = 0; k < out->n_parts; k++) n += tables->texts[k].n_words;
    CudaWord *const words = ARENA_ARRAY(arena, CudaWord, n + 1);
    int *const arguments = ARENA_ARRAY(arena, int, tables->n + 1);
    CudaSpace *const spaces = ARENA_ARRAY(arena, CudaSpace, n + 1);
    if (!words || !arguments || !spaces) return ST_MEMORY;
    for (int t = 0; t < tables->n; t++) {
        arguments[t] = out->n_words;
        for (int k = 0; k < tables->at[t].n; k++, part++)
            for (int i = 0; i < tables->texts[part].n_words; i++) {
                words[out->n_words] = tables->texts[part].words[i];
                CudaWord *const word = &words[out->n_words++];
                word->part = part;
                if (word->kind == CUDA_space)
                    word->at = add_space(of, out, spaces, &tables->texts[part].spaces[word->at], out->parts[part].nest);
            }
    }
    out->words = words, out->spaces = spaces, out->arguments = arguments, out->n_arguments = tables->n;
    return ST_OK;
}

static Status print_several(CudaPrinter *p, const PartList *list, CudaFunction *out) {
    TableList tables;
    Text text = {0};
    const int level = list->at[0].level;
    for (int k = 0; k < list->n; k++) list->at[k].level -= level;
    print_comment(p, list->of->kernel);
    TRY(find_tables(p, list, &tables));
    *out = (CudaFunction){.n_parts = list->n, .parts = tables.parts};
    TRY(list_words(p->arena, list->of, &tables, out));
    print_table_arguments(&text, &tables);
    print_tables(&(CudaSource){.text = &text, .indent = 1}, &tables);
    const char *const body = text.at ? arena_printf(p->arena, "%s", text.at) : NULL;
    text_free(&text);
    out->name = body ? print_named(p, "KERNEL", list->of->kernel->name, body) : NULL;
    return out->name ? ST_OK : ST_MEMORY;
}

static Status print_kernel(CudaPrinter *p, const CudaKernel *of, CudaText *out) {
    int left = 0;
    CudaPart *parts = parts_of(p->arena, of, &left);
    *out = (CudaText){0, ARENA_ARRAY(p->arena, CudaFunction, of->kernel->n_nests + 1)};
    if (!parts || !out->functions) return ST_MEMORY;
    while (left) {
        const PartList list = {of, parts_together(of, parts, left), parts};
        CudaFunction *const function = &out->functions[out->n++];
        TRY(list.n == 1 ? print_alone(p, &list, function) : print_several(p, &list, function));
        parts += list.n, left -= list.n;
    }
    return ST_OK;
}

Status cuda_print(Arena *arena, const CudaKernel *kernels, int n, CudaText *code, Text *text) {
    CudaPrinter p = {.arena = arena, .text = text};
    for (int k = 0; k < n; k++) TRY(print_kernel(&p, &kernels[k], &code[k]));
    return ST_OK;
}
