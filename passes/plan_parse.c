/* plan_parse.c: reads what plan_text.c prints, strictly: kernels must verify, steps must name
 * kernels above them (in order) or ops of the table, slots must be in the memory table, lifetimes
 * within the steps. */
#include <stdlib.h>

#include "passes/plan_text.h"
#include "runtime/base/error.h"

typedef struct Reader {
    const char *start, *at;
    int next_kernel;
    PlanLines lines;
} Reader;

static Status expected(const Reader *r, const char *what) {
    int line = 1;
    for (const char *p = r->start; p < r->at; p++) line += *p == '\n';
    return error_raise(ST_PARSE, "plan text, line %d: expected %s at \"%.16s\"", line, what, r->at);
}

static bool eat(Reader *r, const char *word) {
    const size_t n = strlen(word);
    if (strncmp(r->at, word, n)) return false;
    r->at += n;
    return true;
}

#define EAT(r, word)                                                                               \
    do {                                                                                           \
        if (!eat((r), (word))) return expected((r), "\"" word "\"");                               \
    } while (0)

static Status read_count(Reader *r, int *out) {
    char *end;
    const long value = strtol(r->at, &end, 10);
    if (end == r->at || value < 0 || value > INT32_MAX || *r->at == ' ')
        return expected(r, "a count");
    r->at = end;
    *out = (int)value;
    return ST_OK;
}

static const char *copy(Reader *r, const char *from, const char *to) {
    return arena_printf(r->lines.arena, "%.*s", (int)(to - from), from);
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':' || c == '.';
}

static Status read_word(Reader *r, const char **out) {
    const char *const from = r->at;
    while (is_word(*r->at)) r->at++;
    if (r->at == from) return expected(r, "a name");
    *out = copy(r, from, r->at);
    return *out ? ST_OK : ST_MEMORY;
}

/* One argument: up to a comma or the closing parenthesis outside brackets and quotes. */
static Status read_arg(Reader *r, const char **out) {
    const char *const from = r->at;
    int depth = 0;
    for (bool quoted = false; *r->at && *r->at != '\n'; r->at++) {
        if (*r->at == '\'') quoted = !quoted;
        if (quoted) continue;
        if (depth == 0 && (*r->at == ',' || *r->at == ')')) break;
        depth += (*r->at == '[' || *r->at == '(') - (*r->at == ']' || *r->at == ')');
    }
    if (r->at == from) return expected(r, "an argument");
    *out = copy(r, from, r->at);
    return *out ? ST_OK : ST_MEMORY;
}

static Status read_args(Reader *r, StepLine *step) {
    EAT(r, "(");
    while (!eat(r, ")")) {
        const char *arg = NULL;
        if (step->args.n) EAT(r, ", ");
        TRY(read_arg(r, &arg));
        VEC_PUSH(r->lines.arena, &step->args, arg);
    }
    return ST_OK;
}

static Status read_params(Reader *r, StepLine *step) {
    while (!strncmp(r->at, step->params.n ? ", p" : "  p", 3)) {
        ParamLine param = {PARAM_int, 0};
        int number, index;
        r->at += 3;
        TRY(read_count(r, &number));
        if (number != step->params.n) return expected(r, "the next parameter before this");
        EAT(r, " = ");
        if (eat(r, "tile row")) {
            param.kind = PARAM_tile;
        } else if (eat(r, "float ")) {
            TRY(read_count(r, &index));
            param = (ParamLine){PARAM_float, index};
        } else {
            TRY(sym_parse(r->lines.env, r->at, &r->at, &param.value));
        }
        VEC_PUSH(r->lines.arena, &step->params, param);
    }
    return ST_OK;
}

static Status check_kernel(Reader *r, const StepLine *step) {
    const Kernel *const kernel =
        r->next_kernel < r->lines.kernels.n ? r->lines.kernels.at[r->next_kernel++] : NULL;
    if (!kernel || strcmp(kernel->name, step->name))
        return expected(r, "a call of the next kernel before this");
    if (step->args.n != kernel->n_bufs || step->params.n != kernel->n_params)
        return expected(r, "the kernel's buffers and parameters before this");
    return ST_OK;
}

static Status check_native(Reader *r, const StepLine *step) {
    OpForm form;
    const OpRow *const row = op_find(step->name, strlen(step->name), &form);
    if (!row || row->n_params != step->args.n || row->n_out != step->outs.n)
        return expected(r, "a known op with its arguments and results before this");
    return ST_OK;
}

/* "  0  [outs = ]name(args)[  p0 = ...]  2 ops[, writes back]" */
static Status read_step(Reader *r) {
    StepLine step = {0};
    int number;
    TRY(read_count(r, &number));
    if (number != r->lines.steps.n) return expected(r, "the next step before this");
    EAT(r, "  ");
    for (;;) {
        const char *name = NULL;
        TRY(read_word(r, &name));
        if (*r->at == '(') {
            step.name = name;
            break;
        }
        VEC_PUSH(r->lines.arena, &step.outs, name);
        if (!eat(r, ", ") && !eat(r, " = ")) return expected(r, "\" = \"");
    }
    step.native = strstr(step.name, "::") != NULL;
    TRY(read_args(r, &step));
    TRY(read_params(r, &step));
    EAT(r, "  ");
    TRY(read_count(r, &step.n_ops));
    if (!eat(r, step.n_ops == 1 ? " op" : " ops")) return expected(r, "\"ops\"");
    step.write_back = eat(r, ", writes back");
    EAT(r, "\n");
    TRY((step.native ? check_native : check_kernel)(r, &step));
    VEC_PUSH(r->lines.arena, &r->lines.steps, step);
    return ST_OK;
}

static Status read_slot(Reader *r) {
    SlotLine line = {.slot = {.first = -1}};
    Meta *meta;
    TRY(read_word(r, &line.name));
    EAT(r, "  ");
    TRY(meta_parse(r->lines.arena, r->lines.env, r->at, &r->at, &meta));
    line.slot.meta = meta;
    line.slot.kind = !strncmp(line.name, "in", 2)    ? SLOT_input
                     : !strncmp(line.name, "out", 3) ? SLOT_output
                                                     : SLOT_arena;
    if (line.slot.kind == SLOT_arena) {
        EAT(r, "  at ");
        TRY(sym_parse(r->lines.env, r->at, &r->at, &line.slot.offset));
        EAT(r, ", ");
        TRY(sym_parse(r->lines.env, r->at, &r->at, &line.slot.bytes));
        EAT(r, " bytes");
    }
    if (eat(r, ", steps ")) {
        TRY(read_count(r, &line.slot.first));
        EAT(r, "..");
        TRY(read_count(r, &line.slot.last));
        if (line.slot.last < line.slot.first ||
            (!r->lines.memory_only && line.slot.last >= r->lines.steps.n))
            return expected(r, "steps of the list before this");
    }
    EAT(r, "\n");
    VEC_PUSH(r->lines.arena, &r->lines.slots, line);
    return ST_OK;
}

static bool is_slot(const Reader *r, const char *name) {
    if (!strcmp(name, "tile")) return true;
    for (int i = 0; i < r->lines.slots.n; i++)
        if (!strcmp(r->lines.slots.at[i].name, name)) return true;
    return false;
}

static Status check_slots(const Reader *r) {
    for (int i = 0; i < r->lines.steps.n; i++) {
        const StepLine *const step = &r->lines.steps.at[i];
        for (int k = 0; k < step->outs.n; k++)
            if (!is_slot(r, step->outs.at[k]))
                return error_raise(ST_PARSE, "step %d: no slot '%s'", i, step->outs.at[k]);
        for (int k = 0; !step->native && k < step->args.n; k++)
            if (!is_slot(r, step->args.at[k]))
                return error_raise(ST_PARSE, "step %d: no slot '%s'", i, step->args.at[k]);
    }
    return ST_OK;
}

static Status read_kernels_and_steps(Reader *r) {
    EAT(r, "kernels\n");
    while (!strncmp(r->at, "kernel ", 7)) {
        Kernel *kernel;
        TRY(kernel_parse(r->lines.arena, r->at, &r->at, &kernel));
        TRY(kernel_verify(kernel));
        while (*r->at == '\n') r->at++;
        VEC_PUSH(r->lines.arena, &r->lines.kernels, kernel);
    }
    EAT(r, "steps\n");
    while (eat(r, "  ")) TRY(read_step(r));
    return r->next_kernel == r->lines.kernels.n ? ST_OK : expected(r, "a step for every kernel");
}

static Status read_plan(Reader *r) {
    if (!r->lines.memory_only) TRY(read_kernels_and_steps(r));
    EAT(r, "memory\n");
    while (eat(r, "  ")) TRY(read_slot(r));
    EAT(r, "arena ");
    TRY(sym_parse(r->lines.env, r->at, &r->at, &r->lines.arena_bytes));
    EAT(r, " bytes\n");
    return check_slots(r);
}

Status plan_reprint(const char *text, const char **end, Text *out) {
    Reader r = {.start = text, .at = text, .lines.arena = arena_new()};
    r.lines.memory_only = !strncmp(text, "memory\n", 7);
    r.lines.env = r.lines.arena ? sym_env_new(r.lines.arena) : NULL;
    const Status status = r.lines.env ? read_plan(&r) : ST_MEMORY;
    if (status == ST_OK) {
        plan_lines_print(&r.lines, out);
        *end = r.at;
    }
    arena_free(r.lines.arena);
    return status;
}
