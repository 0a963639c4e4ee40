/* plan_parse.c: reads what plan_text.c prints, strictly: kernels must verify, steps must name
 * kernels above them (in order) or ops of the table, slots must be in the memory table, lifetimes
 * within the steps. */
#include "passes/plan_text.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

typedef struct PlanReader {
    TextReader in;
    int next_kernel;
    PlanLines lines;
} PlanReader;

static const char *copy_text(PlanReader *r, const char *from, const char *to) {
    return arena_printf(r->lines.arena, "%.*s", (int)(to - from), from);
}

static bool is_name_char(char c) { return is_word_char(c) || c == ':' || c == '.'; }

static Status read_word(PlanReader *r, const char **out) {
    const char *const from = r->in.at;
    while (is_name_char(*r->in.at)) r->in.at++;
    if (r->in.at == from) return reader_expected(&r->in, "a name");
    *out = copy_text(r, from, r->in.at);
    return *out ? ST_OK : ST_MEMORY;
}

/* One argument: up to a comma or the closing parenthesis outside brackets and quotes. */
static Status read_arg(PlanReader *r, const char **out) {
    const char *const from = r->in.at;
    int depth = 0;
    for (bool quoted = false; *r->in.at && *r->in.at != '\n'; r->in.at++) {
        if (*r->in.at == '\'') quoted = !quoted;
        if (quoted) continue;
        if (depth == 0 && (*r->in.at == ',' || *r->in.at == ')')) break;
        depth += (*r->in.at == '[' || *r->in.at == '(') - (*r->in.at == ']' || *r->in.at == ')');
    }
    if (r->in.at == from) return reader_expected(&r->in, "an argument");
    *out = copy_text(r, from, r->in.at);
    return *out ? ST_OK : ST_MEMORY;
}

static Status read_args(PlanReader *r, StepLine *step) {
    EAT(&r->in, "(");
    while (!reader_eat(&r->in, ")")) {
        const char *arg = NULL;
        if (step->args.n) EAT(&r->in, ", ");
        TRY(read_arg(r, &arg));
        VEC_PUSH(r->lines.arena, &step->args, arg);
    }
    return ST_OK;
}

static Status read_params(PlanReader *r, StepLine *step) {
    while (!strncmp(r->in.at, step->params.n ? ", p" : "  p", 3)) {
        ParamLine param = {PARAM_int, 0};
        int number, index;
        r->in.at += 3;
        TRY(reader_count(&r->in, &number));
        if (number != step->params.n) return reader_expected(&r->in, "the next parameter before this");
        EAT(&r->in, " = ");
        if (reader_eat(&r->in, "tile row")) {
            param.kind = PARAM_tile;
        } else if (reader_eat(&r->in, "float ")) {
            TRY(reader_count(&r->in, &index));
            param = (ParamLine){PARAM_float, index};
        } else {
            TRY(sym_parse(r->lines.env, r->in.at, &r->in.at, &param.value));
        }
        VEC_PUSH(r->lines.arena, &step->params, param);
    }
    return ST_OK;
}

static Status check_kernel(PlanReader *r, const StepLine *step) {
    const Kernel *const kernel = r->next_kernel < r->lines.kernels.n ? r->lines.kernels.at[r->next_kernel++] : NULL;
    if (!kernel || strcmp(kernel->name, step->name))
        return reader_expected(&r->in, "a call of the next kernel before this");
    if (step->args.n != kernel->n_bufs || step->params.n != kernel->n_params)
        return reader_expected(&r->in, "the kernel's buffers and parameters before this");
    return ST_OK;
}

static Status check_native(PlanReader *r, const StepLine *step) {
    OpForm form;
    const OpRow *const row = op_find(step->name, strlen(step->name), &form);
    if (!row || row->n_params != step->args.n || row->n_out != step->outs.n)
        return reader_expected(&r->in, "a known op with its arguments and results before this");
    return ST_OK;
}

/* "  0  [outs = ]name(args)[  p0 = ...]  2 ops[, writes back]" */
static Status read_step(PlanReader *r) {
    StepLine step = {0};
    int number;
    TRY(reader_count(&r->in, &number));
    if (number != r->lines.steps.n) return reader_expected(&r->in, "the next step before this");
    EAT(&r->in, "  ");
    for (;;) {
        const char *name = NULL;
        TRY(read_word(r, &name));
        if (*r->in.at == '(') {
            step.name = name;
            break;
        }
        VEC_PUSH(r->lines.arena, &step.outs, name);
        if (!reader_eat(&r->in, ", ") && !reader_eat(&r->in, " = ")) return reader_expected(&r->in, "\" = \"");
    }
    step.native = strstr(step.name, "::") != NULL;
    TRY(read_args(r, &step));
    TRY(read_params(r, &step));
    EAT(&r->in, "  ");
    TRY(reader_count(&r->in, &step.n_ops));
    if (!reader_eat(&r->in, step.n_ops == 1 ? " op" : " ops")) return reader_expected(&r->in, "\"ops\"");
    step.write_back = reader_eat(&r->in, ", writes back");
    EAT(&r->in, "\n");
    TRY((step.native ? check_native : check_kernel)(r, &step));
    VEC_PUSH(r->lines.arena, &r->lines.steps, step);
    return ST_OK;
}

static Status read_slot(PlanReader *r) {
    SlotLine line = {.slot = {.first = -1}};
    Meta *meta;
    TRY(read_word(r, &line.name));
    EAT(&r->in, "  ");
    TRY(meta_parse(r->lines.arena, r->lines.env, r->in.at, &r->in.at, &meta));
    line.slot.meta = meta;
    line.slot.kind = !strncmp(line.name, "in", 2)    ? SLOT_input
                     : !strncmp(line.name, "out", 3) ? SLOT_output
                                                     : SLOT_arena;
    if (line.slot.kind == SLOT_arena) {
        EAT(&r->in, "  at ");
        TRY(sym_parse(r->lines.env, r->in.at, &r->in.at, &line.slot.offset));
        EAT(&r->in, ", ");
        TRY(sym_parse(r->lines.env, r->in.at, &r->in.at, &line.slot.bytes));
        EAT(&r->in, " bytes");
    }
    if (reader_eat(&r->in, ", steps ")) {
        TRY(reader_count(&r->in, &line.slot.first));
        EAT(&r->in, "..");
        TRY(reader_count(&r->in, &line.slot.last));
        if (line.slot.last < line.slot.first || (!r->lines.memory_only && line.slot.last >= r->lines.steps.n))
            return reader_expected(&r->in, "steps of the list before this");
    }
    EAT(&r->in, "\n");
    VEC_PUSH(r->lines.arena, &r->lines.slots, line);
    return ST_OK;
}

static bool is_slot(const PlanReader *r, const char *name) {
    if (!strcmp(name, "tile")) return true;
    for (int i = 0; i < r->lines.slots.n; i++)
        if (!strcmp(r->lines.slots.at[i].name, name)) return true;
    return false;
}

static Status check_slots(const PlanReader *r) {
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

/* What a verifier refuses of our own making is a bug; of a text, what the text says. */
static Status verify_read(const TextReader *in, const Kernel *kernel) {
    if (kernel_verify(kernel) == ST_OK) return ST_OK;
    char said[sizeof error_slot()->message];
    memcpy(said, error_slot()->message, sizeof said);
    error_clear();
    return error_raise(ST_PARSE, "%s, line %d: %s", in->what, reader_line(in, NULL), said);
}

static Status read_kernels_and_steps(PlanReader *r) {
    EAT(&r->in, "kernels\n");
    while (!strncmp(r->in.at, "kernel ", 7)) {
        Kernel *kernel;
        const TextReader first = r->in; /* errors name the kernel's first line */
        TRY(kernel_parse(r->lines.arena, r->in.at, &r->in.at, &kernel));
        TRY(verify_read(&first, kernel));
        while (*r->in.at == '\n') r->in.at++;
        VEC_PUSH(r->lines.arena, &r->lines.kernels, kernel);
    }
    EAT(&r->in, "steps\n");
    while (reader_eat(&r->in, "  ")) TRY(read_step(r));
    return r->next_kernel == r->lines.kernels.n ? ST_OK : reader_expected(&r->in, "a step for every kernel");
}

static Status read_plan(PlanReader *r) {
    if (!r->lines.memory_only) TRY(read_kernels_and_steps(r));
    EAT(&r->in, "memory\n");
    while (reader_eat(&r->in, "  ")) TRY(read_slot(r));
    EAT(&r->in, "arena ");
    TRY(sym_parse(r->lines.env, r->in.at, &r->in.at, &r->lines.arena_bytes));
    EAT(&r->in, " bytes\n");
    return check_slots(r);
}

Status plan_reprint(const char *text, const char **end, Text *out) {
    PlanReader r = {.in = {.what = "plan text", .start = text, .at = text}, .lines.arena = arena_new()};
    r.lines.memory_only = !strncmp(text, "memory\n", 7);
    r.lines.env = r.lines.arena ? sym_env_new(r.lines.arena) : NULL;
    const Status status = r.lines.env ? read_plan(&r) : ST_MEMORY;
    if (status == ST_OK) {
        plan_lines_print(&r.lines, out);
        *end = r.in.at;
    }
    arena_free(r.lines.arena);
    return status;
}
