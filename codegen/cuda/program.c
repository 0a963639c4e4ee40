/* program.c: the functions of a program: parameters, where a thread is, phases. A function is printed without its name
 * first, so that equal ones are found. */
#include <stdarg.h>
#include <stdio.h>

#include "codegen/cuda/source.h"

void put_line(CudaSource *s, const char *format, ...) {
    char line[1200];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    text_printf(s->text, "%*s%s\n", line[0] == '#' ? 0 : 4 * s->indent, "", line);
}

void put_open(CudaSource *s, const char *format, ...) {
    char line[1200];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    text_printf(s->text, "%*s%s\n", 4 * s->indent++, "", line);
}

void put_close(CudaSource *s) { text_printf(s->text, "%*s}\n", 4 * --s->indent, ""); }

/* what a nest uses ------------------------------------------------------------------------------ */

typedef struct Uses {
    bool *buf, *written, *param;
} Uses;

static void use_int(const Uses *uses, int64_t value) {
    if (sym_is(value)) uses->param[sym_id(value)] = true;
}

static void use_inst(const Nest *nest, const Inst *inst, const Uses *uses) {
    const bool accesses = inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store;
    if (accesses) uses->buf[inst->buf] = true;
    if (inst->op == LI_store) uses->written[inst->buf] = true;
    if (inst->op == LI_param) uses->param[inst->param] = true;
    if (inst->op == LI_gather) use_int(uses, inst->scale), use_int(uses, inst->bound);
    if (!inst->at) return;
    use_int(uses, inst->at->offset);
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) use_int(uses, inst->at->coef[d]);
}

static Uses find_uses(Arena *arena, const CudaNest *of) {
    const Kernel *const kernel = of->kernel;
    Uses uses = {ARENA_ARRAY(arena, bool, kernel->n_bufs + 1), ARENA_ARRAY(arena, bool, kernel->n_bufs + 1),
                 ARENA_ARRAY(arena, bool, kernel->n_params + 1)};
    if (!uses.buf || !uses.written || !uses.param) return uses;
    for (int d = 0; d < of->nest->n_outer + of->nest->n_inner; d++) use_int(&uses, of->nest->extent[d]);
    for (int i = 0; i < of->nest->n_insts; i++) use_inst(of->nest, &of->nest->insts[i], &uses);
    return uses;
}

static const int *list_used(Arena *arena, const bool *used, int n, int *n_used) {
    int *const list = ARENA_ARRAY(arena, int, n + 1);
    for (int i = 0; list && i < n; i++)
        if (used[i]) list[(*n_used)++] = i;
    return list;
}

const char *cuda_refusal(const CudaNest *of) {
    int n_values = 2; /* of 8 bytes: launch and failed */
    for (int b = 0; b < of->kernel->n_bufs; b++) n_values++;
    for (int p = 0; p < of->kernel->n_params; p++) n_values++;
    if (n_values * 8 > CUDA_ARGUMENT_BYTES) return "more buffers than a launch takes";
    return NULL;
}

/* functions ------------------------------------------------------------------------------------- */

static void put_parameters(CudaSource *s, const CudaFunction *function, const bool *written) {
    text_puts(s->text, "(");
    for (int i = 0; i < function->n_bufs; i++) {
        const int b = function->bufs[i];
        text_printf(s->text, "%smemory_%s *b%d, ", written[b] ? "" : "const ", dtype_name(s->bufs[b].dtype), b);
    }
    for (int i = 0; i < function->n_params; i++) text_printf(s->text, "int64_t p%d, ", function->params[i]);
    text_puts(s->text, "int32_t launch, Failed *failed) {\n");
}

/* One thread, or all of a block that meet later, do nothing. */
static void put_guard(CudaSource *s, bool visible) {
    if (!visible) return;
    if (s->shape->mode == CUDA_rows)
        put_line(s, "if (__syncthreads_or(failed->launch >= 0)) return;");
    else
        put_line(s, "if (failed->launch >= 0) return;");
}

static void put_place_of_map(CudaSource *s) {
    Words words;
    const int last = s->shape->n_outer_groups - 1;
    put_line(s, "const int64_t n_last = %s;", words_extent(&words, s, last, last + 1));
    if (last == 0) {
        put_line(s, "const int64_t i = 4 * thread_number();");
        put_line(s, "if (i >= n_last) return;");
    } else {
        put_line(s, "int64_t w = thread_number();");
        put_line(s, "const int64_t i = 4 * remainder_of(&w, (n_last + 3) / 4);");
        put_line(s, "if (w >= %s) return;", words_extent(&words, s, 0, last));
        put_indices(s, 0, last, "w");
    }
    put_line(s, "const int left = quad_of(n_last - i);");
}

static void put_place(CudaSource *s) {
    Words words;
    const int outer = s->shape->n_outer_groups, l = outer + s->shape->n_s_groups;
    if (s->shape->mode == CUDA_map) {
        put_place_of_map(s);
        return;
    }
    if (s->shape->mode == CUDA_rows) {
        put_line(s, "const int t = threadIdx.x & 15;");
        put_line(s, "const int64_t me = thread_number() >> 4;");
        put_line(s, "const bool live = me < %s;", words_extent(&words, s, 0, outer));
        put_line(s, "const int64_t n_l = %s;", words_extent(&words, s, l, s->shape->n_groups));
    } else {
        put_line(s, "const int64_t me = thread_number();");
        put_line(s, "if (me >= %s) return;", words_extent(&words, s, 0, outer));
    }
    if (l > outer) put_line(s, "const int64_t n_s = %s;", words_extent(&words, s, outer, l));
    put_indices(s, 0, outer, s->shape->mode == CUDA_rows ? "live ? me : 0" : "me");
}

static Status print_function(Arena *arena, const CudaNest *of, CudaFunction *function, Text *text) {
    const size_t n = (size_t)of->nest->n_insts;
    const Uses uses = find_uses(arena, of);
    CudaSource s = {.text = text, .nest = of->nest, .bufs = of->kernel->bufs, .shape = &function->shape, .indent = 1};
    s.turn = ARENA_ARRAY(arena, Turn, n + 1);
    s.done = ARENA_ARRAY(arena, bool, n + 1), s.loaded = ARENA_ARRAY(arena, bool, n + 1);
    if (!uses.buf || !uses.written || !uses.param || !s.turn || !s.done || !s.loaded) return ST_MEMORY;
    function->bufs = list_used(arena, uses.buf, of->kernel->n_bufs, &function->n_bufs);
    function->params = list_used(arena, uses.param, of->kernel->n_params, &function->n_params);
    if (!function->bufs || !function->params) return ST_MEMORY;
    for (size_t i = 0; i < n; i++) function->checks |= of->nest->insts[i].op == LI_gather;
    turns_find(&s);
    put_parameters(&s, function, uses.written);
    put_guard(&s, of->visible);
    put_place(&s);
    put_phases(&s);
    text_puts(text, "}\n");
    return ST_OK;
}

/* A name of its own. */
static const char *name_for(Arena *arena, const CudaFunction *functions, int n, const Nest *nest) {
    const char *const wanted = nest->name ? nest->name : "nest";
    for (int i = 0; i < n; i++)
        if (!strcmp(functions[i].name, wanted)) return arena_printf(arena, "%s_%d", wanted, n);
    return wanted;
}

/* The loop IR of a nest's kernel, before its first function. */
static void put_comment(const Kernel *kernel, Text *text) {
    text_puts(text, "\n/*\n");
    kernel_print(kernel, text);
    text_puts(text, "*/\n");
}

Status cuda_print(Arena *arena, const CudaNest *nests, int n, CudaFunction *functions, Text *text) {
    const char **const bodies = ARENA_ARRAY(arena, const char *, n + 1);
    if (!bodies) return ST_MEMORY;
    for (int k = 0; k < n; k++) {
        Text body = {0};
        functions[k] = (CudaFunction){0};
        cuda_shape(nests[k].nest, &functions[k].shape);
        const Status status = print_function(arena, &nests[k], &functions[k], &body);
        bodies[k] = status == ST_OK ? arena_printf(arena, "%s", text_str(&body)) : NULL;
        text_free(&body);
        if (!bodies[k]) return ST_MEMORY;
        for (int i = 0; i < k && !functions[k].name; i++)
            if (!strcmp(bodies[i], bodies[k])) functions[k].name = functions[i].name;
        if (functions[k].name) continue;
        functions[k].name = name_for(arena, functions, k, nests[k].nest);
        if (!functions[k].name) return ST_MEMORY;
        if (k == 0 || nests[k].kernel != nests[k - 1].kernel) put_comment(nests[k].kernel, text);
        text_printf(text, "KERNEL %s%s", functions[k].name, bodies[k]);
    }
    return ST_OK;
}
