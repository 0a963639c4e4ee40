/* plan_parse.c: reads what plan_text.c prints, strictly, to a plan that runs: kernels must verify, steps must name
 * kernels above them (in order) or ops of the table, whose arguments and results are what their rules say, slots must
 * be in the memory table, which comes after the steps: what a step says of them is looked up at the end. */
#include <stdlib.h>

#include "ir/plan.h"
#include "ir/schema.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

enum { MAX_OP_ID = 1 << 20 };

typedef struct SlotName {
    SlotKind kind;
    int number; /* of its kind */
    int *slot;
} SlotName;

typedef struct PlanReader {
    TextReader in;
    Arena *arena;
    Plan *plan;
    Graph *numbers; /* where arguments that are no tensors are read: its symbols, its runtime floats */
    VEC(Kernel *) kernels;
    int next_kernel;
    VEC(SlotName) names;      /* in the steps so far, looked up when the slots are known */
    VEC(PlanValue *) plain;   /* values that lie as their slots do */
    VEC(int *) workspaces;    /* by step; NULL: none */
    VEC(int) outputs, arenas; /* slots, by their numbers */
} PlanReader;

static Status read_sym(PlanReader *r, int64_t *out) { return sym_parse(r->plan->env, r->in.at, &r->in.at, out); }

static bool is_name_char(char c) { return is_word_char(c) || c == ':' || c == '.'; }

static Status read_name(PlanReader *r, const char **at, size_t *n) {
    *at = r->in.at;
    while (is_name_char(*r->in.at)) r->in.at++;
    *n = (size_t)(r->in.at - *at);
    return *n ? ST_OK : reader_expected(&r->in, "a name");
}

static Status read_meta(PlanReader *r, const Meta **out) {
    Meta *meta;
    TRY(meta_parse(r->arena, r->plan->env, r->in.at, &r->in.at, &meta));
    for (int d = 0; d < meta->rank; d++)
        if (!sym_is(meta->sizes[d]) && meta->sizes[d] < 0) return reader_expected(&r->in, "sizes before this");
    *out = meta;
    return ST_OK;
}

static const OpRow *row_of(const char *name, size_t n) {
    OpForm form;
    const OpRow *const row = op_find(name, n, &form);
    return row && form == FORM_functional ? row : NULL;
}

/* A device has kernels of the rows that aliases stand for. */
static bool has_kernel(const OpRow *row) { return row->kind == KIND_kernel && !row->alias_of; }

/* the head ------------------------------------------------------------------------------------ */

static Status read_number(PlanReader *r, double *out) {
    char *end;
    *out = strtod(r->in.at, &end);
    if (end == r->in.at || *r->in.at == ' ') return reader_expected(&r->in, "a number");
    r->in.at = end;
    return ST_OK;
}

static Status read_symbols(PlanReader *r) {
    if (!reader_eat(&r->in, "symbols ")) return ST_OK;
    do {
        int number;
        int64_t hint, bound = SYM_LEAST;
        EAT(&r->in, "s");
        TRY(reader_count(&r->in, &number));
        if (number != sym_free_count(r->plan->env)) return reader_expected(&r->in, "the next symbol before this");
        EAT(&r->in, "=");
        TRY(reader_int(&r->in, &hint));
        if (reader_eat(&r->in, ">=")) TRY(reader_int(&r->in, &bound));
        if (sym_is(hint) || sym_is(bound) || hint < bound)
            return reader_expected(&r->in, "a hint in bounds before this");
        sym_free(r->plan->env, hint, bound);
    } while (reader_eat(&r->in, ", "));
    EAT(&r->in, "\n");
    return ST_OK;
}

static bool is_symbol(const PlanReader *r, int64_t value) {
    return sym_is(value) && sym_expr(r->plan->env, value)->op == SYM_free;
}

static Status read_random(PlanReader *r) {
    Plan *const plan = r->plan;
    if (!reader_eat(&r->in, "random seed=")) return ST_OK;
    TRY(read_sym(r, &plan->seed));
    EAT(&r->in, " sequence=");
    TRY(read_sym(r, &plan->sequence));
    if (!is_symbol(r, plan->seed) || !is_symbol(r, plan->sequence))
        return reader_expected(&r->in, "symbols before this");
    EAT(&r->in, " count=");
    TRY(reader_count(&r->in, &plan->n_random));
    EAT(&r->in, "\n");
    return ST_OK;
}

static Status read_floats(PlanReader *r) {
    if (!reader_eat(&r->in, "floats ")) return ST_OK;
    do {
        double hint;
        TRY(read_number(r, &hint));
        VEC_PUSH(r->arena, &r->numbers->runtime_floats, hint);
    } while (reader_eat(&r->in, ", "));
    EAT(&r->in, "\n");
    return ST_OK;
}

static Status read_guards(PlanReader *r) {
    static const char *const rel[] = {" == ", " != ", " <= ", " < "};
    static const SymRel rels[] = {SYM_eq, SYM_ne, SYM_le, SYM_lt};
    if (!reader_eat(&r->in, "guards ")) return ST_OK;
    do {
        int64_t a, b;
        int i = 0;
        TRY(read_sym(r, &a));
        while (i < COUNT_OF(rel) && !reader_eat(&r->in, rel[i])) i++;
        if (i == COUNT_OF(rel)) return reader_expected(&r->in, "a comparison");
        TRY(read_sym(r, &b));
        sym_require(r->plan->env, rels[i], a, b);
    } while (reader_eat(&r->in, ", "));
    EAT(&r->in, "\n");
    return ST_OK;
}

/* Floats are the plan's when all are read: an op's text has their hints, too. */
static Status read_head(PlanReader *r) {
    TRY(read_symbols(r));
    TRY(read_random(r));
    TRY(read_floats(r));
    r->plan->floats.at = r->numbers->runtime_floats.at;
    r->plan->floats.n = r->plan->floats.capacity = r->numbers->runtime_floats.n;
    return read_guards(r);
}

/* kernels ------------------------------------------------------------------------------------- */

static Status read_kernels(PlanReader *r) {
    EAT(&r->in, "kernels\n");
    while (!strncmp(r->in.at, "kernel ", 7)) {
        Kernel *kernel;
        const TextReader first = r->in; /* errors name the kernel's first line */
        TRY(kernel_parse(r->arena, r->in.at, &r->in.at, &kernel));
        /* what a verifier refuses of our own making is a bug; of a text, what the text says */
        if (kernel_verify(kernel) != ST_OK) return reader_fail_again(&first);
        while (*r->in.at == '\n') r->in.at++;
        VEC_PUSH(r->arena, &r->kernels, kernel);
    }
    return ST_OK;
}

/* steps --------------------------------------------------------------------------------------- */

static const char *const prefixes[] = {[SLOT_input] = "in", [SLOT_output] = "out", [SLOT_arena] = "arena"};

static Status read_slot_name(PlanReader *r, SlotKind *kind, int *number) {
    for (*kind = SLOT_input; *kind <= SLOT_arena; (*kind)++)
        if (reader_eat(&r->in, prefixes[*kind])) return reader_count(&r->in, number);
    return reader_expected(&r->in, "a slot");
}

static Status read_slot_later(PlanReader *r, int *slot) {
    SlotName name = {.slot = slot};
    TRY(read_slot_name(r, &name.kind, &name.number));
    VEC_PUSH(r->arena, &r->names, name);
    return ST_OK;
}

static Status read_value(PlanReader *r, PlanValue **out) {
    PlanValue *const value = *out = ARENA_NEW(r->arena, PlanValue);
    if (!value) return ST_MEMORY;
    TRY(read_slot_later(r, &value->slot));
    if (!reader_eat(&r->in, " as ")) {
        VEC_PUSH(r->arena, &r->plain, value);
        return ST_OK;
    }
    TRY(read_meta(r, &value->base.meta));
    EAT(&r->in, " at ");
    return read_sym(r, &value->offset);
}

static Status read_values(PlanReader *r, Arg *out) {
    VEC(Val *) vals = {0};
    EAT(&r->in, "[");
    while (!reader_eat(&r->in, "]")) {
        PlanValue *value = NULL;
        if (vals.n) EAT(&r->in, ", ");
        if (!reader_eat(&r->in, "None")) TRY(read_value(r, &value));
        VEC_PUSH(r->arena, &vals, value ? &value->base : NULL);
    }
    *out = A_VALS(vals.at, vals.n);
    return ST_OK;
}

static Status read_tensor(PlanReader *r, Arg *out) {
    PlanValue *value;
    if (reader_eat(&r->in, "None")) return *out = A_NONE, ST_OK;
    TRY(read_value(r, &value));
    *out = A_VAL(&value->base);
    return ST_OK;
}

/* Of a pointwise op that eager runs an operand may be a number. */
static bool is_slot_name(const PlanReader *r) {
    for (SlotKind kind = SLOT_input; kind <= SLOT_arena; kind++) {
        const size_t n = strlen(prefixes[kind]);
        if (!strncmp(r->in.at, prefixes[kind], n) && r->in.at[n] >= '0' && r->in.at[n] <= '9') return true;
    }
    return !strncmp(r->in.at, "None", 4);
}

static Status read_arg(PlanReader *r, ParamType type, Arg *out) {
    const bool tensor = type == PT_tensor || type == PT_tensor_opt;
    if (type == PT_tensors || type == PT_tensors_opt) return read_values(r, out);
    if (tensor && is_slot_name(r)) return read_tensor(r, out);
    if (tensor) type = PT_scalar;
    const int known = r->numbers->runtime_floats.n;
    TRY(arg_parse(r->numbers, type, &r->in, out));
    if (r->numbers->runtime_floats.n == known) return ST_OK;
    return reader_expected(&r->in, "a runtime float of the list before this");
}

static Status read_reason(PlanReader *r, Step *step) {
    const size_t n = strcspn(r->in.at, ")\n");
    char *const why = arena_copy(r->arena, r->in.at, n + 1);
    if (!why) return ST_MEMORY;
    why[n] = '\0';
    step->kind = STEP_eager;
    step->why = why;
    r->in.at += n;
    EAT(&r->in, ")");
    return ST_OK;
}

static Status read_native(PlanReader *r, Step *step) {
    step->args = ARENA_ARRAY(r->arena, Arg, step_args(step) + 1);
    if (!step->args) return ST_MEMORY;
    for (int a = 0; a < step_args(step); a++) {
        if (a) EAT(&r->in, ", ");
        TRY(read_arg(r, step->row ? step->row->params[a].type : PT_tensor, &step->args[a]));
    }
    EAT(&r->in, ")");
    if (step->kind == STEP_copy) {
        EAT(&r->in, " to ");
        if (!device_parse(r->in.at, &r->in.at, &step->device)) return reader_expected(&r->in, "a device");
    }
    if (step->row && reader_eat(&r->in, " by eager (")) return read_reason(r, step);
    if (!reader_eat(&r->in, "  workspace ")) return ST_OK;
    return read_slot_later(r, r->workspaces.at[r->plan->steps.n] = ARENA_NEW(r->arena, int));
}

static Status read_param(PlanReader *r, Kernel *kernel, int i) {
    const bool is_float = kernel->param_is_float && kernel->param_is_float[i];
    int number;
    EAT(&r->in, "p");
    TRY(reader_count(&r->in, &number));
    if (number != i) return reader_expected(&r->in, "the next parameter before this");
    EAT(&r->in, " = ");
    if (kernel->template && kernel->template->tile_ld == i) {
        EAT(&r->in, "tile row");
        return ST_OK;
    }
    if (!is_float) return read_sym(r, &kernel->params[i]);
    EAT(&r->in, "float ");
    TRY(reader_count(&r->in, &number));
    kernel->params[i] = number;
    return ST_OK;
}

static Status read_kernel_call(PlanReader *r, Step *step) {
    Kernel *const kernel = step->kernel;
    step->bufs = ARENA_ARRAY(r->arena, int, kernel->n_bufs + 1);
    kernel->params = ARENA_ARRAY(r->arena, int64_t, kernel->n_params + 1);
    if (!step->bufs || !kernel->params) return ST_MEMORY;
    for (int b = 0; b < kernel->n_bufs; b++) {
        if (b) EAT(&r->in, ", ");
        step->bufs[b] = -1;
        if (!reader_eat(&r->in, "tile")) TRY(read_slot_later(r, &step->bufs[b]));
    }
    EAT(&r->in, ")");
    for (int i = 0; i < kernel->n_params; i++) {
        if (!reader_eat(&r->in, i ? ", " : "  ")) return reader_expected(&r->in, "a parameter");
        TRY(read_param(r, kernel, i));
    }
    return ST_OK;
}

/* A kernel's call begins the line; all others' results do. */
static bool is_kernel_call(const PlanReader *r) {
    const char *at = r->in.at;
    while (is_name_char(*at)) at++;
    return *at == '(';
}

static Status read_kernel_name(PlanReader *r, Step *step) {
    const char *name;
    size_t n;
    const TextReader at = r->in;
    TRY(read_name(r, &name, &n));
    Kernel *const kernel = r->next_kernel < r->kernels.n ? r->kernels.at[r->next_kernel++] : NULL;
    if (!kernel || strlen(kernel->name) != n || memcmp(kernel->name, name, n))
        return reader_expected(&at, "a call of the next kernel");
    step->kernel = kernel;
    EAT(&r->in, "(");
    return read_kernel_call(r, step);
}

static Status read_results(PlanReader *r, Step *step, int *n) {
    VEC(PlanValue *) outs = {0};
    do {
        PlanValue *value;
        TRY(read_value(r, &value));
        VEC_PUSH(r->arena, &outs, value);
    } while (reader_eat(&r->in, ", "));
    EAT(&r->in, " = ");
    step->outs = outs.at;
    *n = outs.n;
    return ST_OK;
}

/* A copy, or a native op. */
static Status read_op(PlanReader *r, Step *step) {
    const char *name;
    size_t n;
    int n_outs = 0;
    TRY(read_results(r, step, &n_outs));
    const TextReader at = r->in;
    TRY(read_name(r, &name, &n));
    step->kind = n == 4 && !memcmp(name, "copy", n) ? STEP_copy : STEP_native;
    step->row = step->kind == STEP_native ? row_of(name, n) : NULL;
    step->n_outs = n_outs;
    if ((step->kind == STEP_native && !step->row) || step_outs(step) != n_outs)
        return reader_expected(&at, "an op that is a step, with its results");
    EAT(&r->in, "(");
    TRY(read_native(r, step));
    return step->kind == STEP_native && !has_kernel(step->row) ? reader_expected(&at, "an op with a kernel") : ST_OK;
}

/* "  0  [outs = ]name(args)[  p0 = ...]  2 ops[, writes back]" */
static Status read_step(PlanReader *r) {
    Step step = {.workspace = -1};
    int number;
    TRY(reader_count(&r->in, &number));
    if (number != r->plan->steps.n) return reader_expected(&r->in, "the next step before this");
    EAT(&r->in, "  ");
    VEC_PUSH(r->arena, &r->workspaces, NULL);
    TRY(error_pending());
    TRY((is_kernel_call(r) ? read_kernel_name : read_op)(r, &step));
    EAT(&r->in, "  ");
    TRY(reader_count(&r->in, &step.n_ops));
    if (!reader_eat(&r->in, step.n_ops == 1 ? " op" : " ops")) return reader_expected(&r->in, "\"ops\"");
    step.write_back = reader_eat(&r->in, ", writes back");
    EAT(&r->in, "\n");
    VEC_PUSH(r->arena, &r->plan->steps, step);
    return ST_OK;
}

static Status read_steps(PlanReader *r) {
    EAT(&r->in, "steps\n");
    while (reader_eat(&r->in, "  ")) TRY(read_step(r));
    return r->next_kernel == r->kernels.n ? ST_OK : reader_expected(&r->in, "a step for every kernel");
}

/* memory -------------------------------------------------------------------------------------- */

static Status read_lifetime(PlanReader *r, Slot *slot) {
    if (!reader_eat(&r->in, ", steps ")) return ST_OK;
    TRY(reader_count(&r->in, &slot->first));
    EAT(&r->in, "..");
    TRY(reader_count(&r->in, &slot->last));
    const bool known = slot->last >= slot->first && (!r->plan->steps.n || slot->last < r->plan->steps.n);
    return known ? ST_OK : reader_expected(&r->in, "steps of the list before this");
}

static int64_t bytes_spanned(SymEnv *env, const Meta *meta) {
    int64_t span = 1;
    for (int d = 0; d < meta->rank; d++)
        span = sym_add(env, span, sym_mul(env, meta->strides[d], sym_sub(env, meta->sizes[d], 1)));
    return sym_mul(env, span, dtype_bytes(meta->dtype));
}

static Status read_slot(PlanReader *r) {
    Slot slot = {.first = -1, .last = -1};
    int number;
    TRY(read_slot_name(r, &slot.kind, &number));
    slot.index = number;
    EAT(&r->in, "  ");
    TRY(read_meta(r, &slot.meta));
    if (slot.kind == SLOT_arena) {
        EAT(&r->in, "  at ");
        TRY(read_sym(r, &slot.offset));
        EAT(&r->in, ", ");
        TRY(read_sym(r, &slot.bytes));
        EAT(&r->in, " bytes");
        if (number != r->arenas.n) return reader_expected(&r->in, "the next slot of the arena before this");
        VEC_PUSH(r->arena, &r->arenas, r->plan->slots.n);
    } else {
        slot.bytes = bytes_spanned(r->plan->env, slot.meta);
    }
    TRY(read_lifetime(r, &slot));
    EAT(&r->in, "\n");
    if (slot.kind == SLOT_output) {
        while (r->outputs.n <= number && r->outputs.n <= r->plan->slots.n + MAX_OP_ID)
            VEC_PUSH(r->arena, &r->outputs, -1);
        if (number >= r->outputs.n) return reader_expected(&r->in, "an output of a smaller number before this");
        r->outputs.at[number] = r->plan->slots.n;
    }
    VEC_PUSH(r->arena, &r->plan->slots, slot);
    return error_pending();
}

/* Of all arenas or of none. */
static Status read_by_step(PlanReader *r, int64_t *most) {
    const bool by_step = reader_eat(&r->in, ", by step ");
    if (r->plan->arenas.n && by_step != r->plan->by_step) return reader_expected(&r->in, "what the arena before says");
    r->plan->by_step = by_step;
    return by_step ? reader_int(&r->in, most) : ST_OK;
}

static Status read_memory(PlanReader *r) {
    EAT(&r->in, "memory\n");
    while (reader_eat(&r->in, "  ")) TRY(read_slot(r));
    while (reader_eat(&r->in, "arena ")) {
        Device device = DEV_host;
        int64_t bytes, most = 0;
        const TextReader at = r->in;
        const char *end;
        if (device_parse(r->in.at, &end, &device)) {
            r->in.at = end;
            EAT(&r->in, " ");
        }
        if (device < 0) device = DEV_host;
        TRY(read_sym(r, &bytes));
        EAT(&r->in, " bytes");
        TRY(read_by_step(r, &most));
        EAT(&r->in, "\n");
        const int known = r->plan->arenas.n, arena = plan_arena(r->plan, device);
        if (arena != known || (known == 0) != device_is_host(device)) return reader_expected(&at, "the next device");
        r->plan->arenas.at[arena].bytes = bytes, r->plan->arenas.at[arena].most = most;
    }
    return r->plan->arenas.n ? ST_OK : reader_expected(&r->in, "\"arena \"");
}

static Status find_slot(const PlanReader *r, const SlotName *name) {
    const int n = name->kind == SLOT_input ? r->plan->slots.n : name->kind == SLOT_output ? r->outputs.n : r->arenas.n;
    *name->slot = name->number >= n           ? -1
                  : name->kind == SLOT_input  ? name->number
                  : name->kind == SLOT_output ? r->outputs.at[name->number]
                                              : r->arenas.at[name->number];
    if (*name->slot >= 0 && r->plan->slots.at[*name->slot].kind == name->kind) return ST_OK;
    return error_raise(ST_PARSE, "%s: no slot '%s%d'", r->in.what, prefixes[name->kind], name->number);
}

static Status find_slots(PlanReader *r) {
    for (int i = 0; i < r->names.n; i++) TRY(find_slot(r, &r->names.at[i]));
    for (int i = 0; i < r->plain.n; i++) r->plain.at[i]->base.meta = r->plan->slots.at[r->plain.at[i]->slot].meta;
    for (int s = 0; s < r->plan->steps.n; s++) {
        Step *const step = &r->plan->steps.at[s];
        if (r->workspaces.at[s]) step->workspace = *r->workspaces.at[s];
        if (step->row) step->device = step->outs[0]->base.meta->device;
        for (int b = 0; step->kernel && b < step->kernel->n_bufs; b++)
            if (step->bufs[b] >= 0) step->device = r->plan->slots.at[step->bufs[b]].meta->device;
    }
    return ST_OK;
}

/* the call ------------------------------------------------------------------------------------ */

static Status read_inputs(PlanReader *r) {
    EAT(&r->in, "inputs");
    while (reader_eat(&r->in, r->plan->inputs.n ? ", %" : " %")) {
        const char *const name = r->in.at;
        while (is_word_char(*r->in.at)) r->in.at++;
        if (r->in.at == name) return reader_expected(&r->in, "a name");
        const PlanInput input = {.name = arena_printf(r->arena, "%.*s", (int)(r->in.at - name), name),
                                 .written = reader_eat(&r->in, " written")};
        if (!input.name) return ST_MEMORY;
        VEC_PUSH(r->arena, &r->plan->inputs, input);
    }
    EAT(&r->in, "\n");
    return ST_OK;
}

static Status read_output(PlanReader *r, PlanOutput *out) {
    if (reader_eat(&r->in, "None")) return out->kind = OUT_none, ST_OK;
    TRY(read_meta(r, &out->meta));
    if (reader_eat(&r->in, " is input ")) {
        out->kind = OUT_input;
        return reader_count(&r->in, &out->base);
    }
    if (!reader_eat(&r->in, " views ")) return ST_OK;
    out->kind = reader_eat(&r->in, "input ") ? OUT_view_of_input : OUT_view_of_output;
    if (out->kind == OUT_view_of_output) EAT(&r->in, "output ");
    TRY(reader_count(&r->in, &out->base));
    EAT(&r->in, " at ");
    return read_sym(r, &out->offset);
}

static Status read_outputs(PlanReader *r) {
    EAT(&r->in, "outputs");
    while (reader_eat(&r->in, r->plan->outputs.n ? ", " : " ")) {
        PlanOutput out = {.kind = OUT_new};
        TRY(read_output(r, &out));
        VEC_PUSH(r->arena, &r->plan->outputs, out);
    }
    EAT(&r->in, "\n");
    return ST_OK;
}

/* where it came from -------------------------------------------------------------------------- */

typedef struct OpLine {
    int id;
    PlanOp op;
} OpLine;

static Status read_row(PlanReader *r, const OpRow **out) {
    const char *name;
    size_t n;
    const TextReader at = r->in;
    TRY(read_name(r, &name, &n));
    OpForm form;
    *out = op_find(name, n, &form);
    return *out ? ST_OK : reader_expected(&at, "an op of the table");
}

/* "  3  step 0  aten::add.Tensor[ of aten::layer_norm][ says 'text']" */
static Status read_op_line(PlanReader *r, OpLine *line) {
    TRY(reader_count(&r->in, &line->id));
    EAT(&r->in, "  step ");
    TRY(reader_count(&r->in, &line->op.step));
    EAT(&r->in, "  ");
    TRY(read_row(r, &line->op.row));
    if (reader_eat(&r->in, " of ")) TRY(read_row(r, &line->op.of));
    if (reader_eat(&r->in, " says ")) TRY(reader_string(&r->in, r->arena, &line->op.says));
    EAT(&r->in, "\n");
    if (line->id < MAX_OP_ID && line->op.step < r->plan->steps.n) return ST_OK;
    return reader_expected(&r->in, "a smaller number before this");
}

/* The steps' ops come in the order of the steps. */
static Status set_step_ops(PlanReader *r, const OpLine *lines, int n) {
    int next = 0;
    for (int s = 0; s < r->plan->steps.n; s++) {
        Step *const step = &r->plan->steps.at[s];
        int count = 0;
        while (next + count < n && lines[next + count].op.step == s) count++;
        if (count != step->n_ops) return error_raise(ST_PARSE, "%s: step %d has %d ops", r->in.what, s, count);
        step->ops = ARENA_ARRAY(r->arena, int, count + 1);
        if (!step->ops) return ST_MEMORY;
        for (int i = 0; i < count; i++) step->ops[i] = lines[next + i].id;
        next += count;
    }
    return next == n ? ST_OK : error_raise(ST_PARSE, "%s: ops out of the order of the steps", r->in.what);
}

static Status read_ops(PlanReader *r) {
    VEC(OpLine) lines = {0};
    int n = 0;
    EAT(&r->in, "ops\n");
    while (reader_eat(&r->in, "  ")) {
        OpLine line = {0};
        TRY(read_op_line(r, &line));
        VEC_PUSH(r->arena, &lines, line);
        if (line.id >= n) n = line.id + 1;
    }
    r->plan->n_ops = n;
    r->plan->ops = ARENA_ARRAY(r->arena, PlanOp, n + 1);
    if (!r->plan->ops) return ST_MEMORY;
    for (int i = 0; i < lines.n; i++) r->plan->ops[lines.at[i].id] = lines.at[i].op;
    return set_step_ops(r, lines.at, lines.n);
}

static Status read_check(PlanReader *r) {
    int step, nest, inst, source;
    EAT(&r->in, "step ");
    TRY(reader_count(&r->in, &step));
    EAT(&r->in, " nest ");
    TRY(reader_count(&r->in, &nest));
    EAT(&r->in, " %");
    TRY(reader_count(&r->in, &inst));
    EAT(&r->in, " is ");
    TRY(reader_count(&r->in, &source));
    EAT(&r->in, "\n");
    const Kernel *const kernel = step < r->plan->steps.n ? r->plan->steps.at[step].kernel : NULL;
    if (!kernel || nest >= kernel->n_nests || inst >= kernel->nests[nest].n_insts || !plan_op(r->plan, source))
        return reader_expected(&r->in, "an instruction and an op before this");
    kernel->nests[nest].insts[inst].source = source;
    return ST_OK;
}

static Status read_checks(PlanReader *r) {
    EAT(&r->in, "checks\n");
    while (reader_eat(&r->in, "  ")) TRY(read_check(r));
    return ST_OK;
}

/* what rules say ------------------------------------------------------------------------------ */

/* By the meta rule, but for strides: lowering lays out values anew. */
static Status check_results(const PlanReader *r, const Step *step) {
    const int n = step_outs(step);
    MetaOut *const outs = ARENA_ARRAY(r->arena, MetaOut, n + 1);
    MetaCall call = {.row = step->row, .args = step->args, .env = r->plan->env, .out = outs, .n_out = n};
    if (!outs) return ST_MEMORY;
    TRY(op_meta(&call));
    if (call.n_out != n) return error_raise(ST_PARSE, "%d results, its rule says %d", n, call.n_out);
    for (int i = 0; i < n; i++) {
        const Meta *const meta = step->outs[i]->base.meta;
        const size_t bytes = sizeof *meta->sizes * (size_t)meta->rank;
        meta_specialize_small(r->plan->env, &outs[i]);
        if (meta->dtype != outs[i].dtype || meta->device != outs[i].device || meta->rank != outs[i].rank ||
            (bytes && memcmp(meta->sizes, outs[i].sizes, bytes)))
            return error_raise(ST_PARSE, "result %d is not what its rule says", i);
    }
    return ST_OK;
}

static Status check_call(const PlanReader *r, const Step *step) {
    Arg normal[MAX_ARGS];
    TRY(op_args_normalize(step->row, step->args, step->row->n_params, normal));
    for (int i = 0; i < step->row->n_params; i++)
        if (!arg_equal(&normal[i], &step->args[i]))
            return error_raise(ST_PARSE, "argument %s is not as a plan has it", step->row->params[i].name);
    return check_results(r, step);
}

static Status check_calls(const PlanReader *r) {
    for (int s = 0; s < r->plan->steps.n; s++) {
        const Step *const step = &r->plan->steps.at[s];
        if (!step->row || check_call(r, step) == ST_OK) continue;
        char said[sizeof error_slot()->message];
        if (error_pending() == ST_MEMORY) return ST_MEMORY;
        memcpy(said, error_slot()->message, sizeof said);
        error_clear();
        return error_raise(ST_PARSE, "%s: step %d, %s: %.800s", r->in.what, s, step->row->name, said);
    }
    return ST_OK;
}

/* all ----------------------------------------------------------------------------------------- */

static Status read_plan(PlanReader *r) {
    TRY(read_head(r));
    TRY(read_kernels(r));
    TRY(read_steps(r));
    TRY(read_memory(r));
    TRY(find_slots(r));
    TRY(read_inputs(r));
    TRY(read_outputs(r));
    TRY(read_ops(r));
    TRY(read_checks(r));
    TRY(error_pending());
    TRY(check_calls(r)); /* whose arguments the verifier relies on */
    return plan_verify(r->plan, true) == ST_OK ? ST_OK : reader_fail_again(&r->in);
}

static Status reader_new(Arena *arena, const char *text, PlanReader *r) {
    *r = (PlanReader){.in = {.what = "plan text", .start = text, .at = text}, .arena = arena};
    r->plan = ARENA_NEW(arena, Plan);
    r->numbers = graph_new(arena, "numbers");
    if (!r->plan || !r->numbers) return ST_MEMORY;
    r->plan->arena = arena;
    r->plan->env = r->numbers->env;
    return ST_OK;
}

Status plan_parse(Arena *arena, const char *text, const char **end, Plan **out) {
    PlanReader r;
    TRY(reader_new(arena, text, &r));
    TRY(read_plan(&r));
    *end = r.in.at;
    *out = r.plan;
    return ST_OK;
}

static Status reprint_memory(Arena *arena, const char *text, const char **end, Text *out) {
    PlanReader r;
    TRY(reader_new(arena, text, &r));
    TRY(read_memory(&r));
    plan_print_memory(r.plan, out);
    *end = r.in.at;
    return error_pending();
}

static Status reprint_plan(Arena *arena, const char *text, const char **end, Text *out) {
    Plan *plan;
    if (!strncmp(text, "memory\n", 7)) return reprint_memory(arena, text, end, out);
    TRY(plan_parse(arena, text, end, &plan));
    plan_print(plan, out);
    return error_pending();
}

Status plan_reprint(const char *text, const char **end, Text *out) {
    Arena *const arena = arena_new();
    const Status status = arena ? reprint_plan(arena, text, end, out) : ST_MEMORY;
    arena_free(arena);
    return status;
}
