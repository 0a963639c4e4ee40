/* plan_text.c: a plan as text that parses back to the same bytes: its kernels (loop IR), the call
 * sequence, the memory table.
 *
 *   kernels
 *   kernel k0_add_gelu(...) { ... }
 *   steps
 *     0  k0_add_gelu(in0, in1, arena0)  p0 = s0, p1 = float 0  2 ops
 *     1  out0 = aten::cat([in0, in1], 0)  1 op, writes back
 *   memory
 *     arena0  f32[8,768]  at 0, 24576 bytes, steps 0..1
 *   arena 24576 bytes
 *
 * Printing and parsing (plan_parse.c) share the lines of plan_text.h. */
#include "passes/plan_text.h"

#include "runtime/base/alloc.h"

static const char *slot_name(Arena *arena, const Plan *plan, int slot) {
    static const char *const prefix[] = {"in", "out", "arena"};
    if (slot < 0) return "tile";
    const Slot *const s = &plan->slots.at[slot];
    int number = s->index;
    if (s->kind == SLOT_arena) {
        number = 0;
        for (int i = 0; i < slot; i++) number += plan->slots.at[i].kind == SLOT_arena;
    }
    return arena_printf(arena, "%s%d", prefix[s->kind], number);
}

/* Lines of a plan ----------------------------------------------------------------------------- */

static const char *native_arg(Arena *arena, const Plan *plan, const Step *step, int a) {
    const Arg *const arg = &step->args[a];
    if (arg->kind == ARG_tensor && arg->val) return slot_name(arena, plan, plan->places[gval(arg->val)->id].slot);
    Text text = {0};
    if (arg->kind == ARG_tensors) {
        for (int i = 0; i < arg->n; i++)
            text_printf(&text, "%s%s", i ? ", " : "[",
                        arg->vals[i] ? slot_name(arena, plan, plan->places[gval(arg->vals[i])->id].slot) : "None");
        text_puts(&text, arg->n ? "]" : "[]");
    } else {
        arg_print(&text, plan->graph, arg, step->row->params[a].type);
    }
    const char *const copy = arena_strdup(arena, text_str(&text));
    text_free(&text);
    return copy;
}

static void native_line(PlanLines *lines, const Plan *plan, const Step *step, StepLine *line) {
    line->name = step->row->name;
    line->native = true;
    for (int r = 0; r < step->row->n_out; r++)
        VEC_PUSH(lines->arena, &line->outs, slot_name(lines->arena, plan, plan->places[step->outs[r]->id].slot));
    for (int a = 0; a < step->row->n_params; a++)
        VEC_PUSH(lines->arena, &line->args, native_arg(lines->arena, plan, step, a));
}

static void kernel_line(PlanLines *lines, const Plan *plan, const Step *step, StepLine *line) {
    const Kernel *const kernel = step->kernel;
    line->name = kernel->name;
    for (int b = 0; b < kernel->n_bufs; b++)
        VEC_PUSH(lines->arena, &line->args, slot_name(lines->arena, plan, step->bufs[b]));
    for (int i = 0; i < kernel->n_params; i++) {
        const bool tile = kernel->template && kernel->template->tile_ld == i;
        const ParamLine param = {tile                        ? PARAM_tile
                                 : kernel->param_is_float[i] ? PARAM_float
                                                             : PARAM_int,
                                 kernel->params[i]};
        VEC_PUSH(lines->arena, &line->params, param);
    }
    VEC_PUSH(lines->arena, &lines->kernels, kernel);
}

static void add_steps(PlanLines *lines, const Plan *plan) {
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        StepLine line = {.n_ops = step->n_ops, .write_back = step->write_back};
        (step->kind == STEP_kernel ? kernel_line : native_line)(lines, plan, step, &line);
        VEC_PUSH(lines->arena, &lines->steps, line);
    }
}

static void add_memory(PlanLines *lines, const Plan *plan) {
    for (int i = 0; i < plan->slots.n; i++)
        VEC_PUSH(lines->arena, &lines->slots, ((SlotLine){slot_name(lines->arena, plan, i), plan->slots.at[i]}));
    lines->arena_bytes = plan->arena_bytes;
}

/* Printing ------------------------------------------------------------------------------------ */

static void print_names(Text *text, const char *const *names, int n) {
    for (int i = 0; i < n; i++) text_printf(text, "%s%s", i ? ", " : "", names[i]);
}

static void print_param(const PlanLines *lines, Text *text, int i, const ParamLine *param) {
    text_printf(text, "%sp%d = ", i ? ", " : "  ", i);
    if (param->kind == PARAM_tile)
        text_puts(text, "tile row");
    else if (param->kind == PARAM_float)
        text_printf(text, "float %d", (int)param->value);
    else
        sym_print(lines->env, text, param->value);
}

static void print_step(const PlanLines *lines, Text *text, int number) {
    const StepLine *const step = &lines->steps.at[number];
    text_printf(text, "  %d  ", number);
    print_names(text, step->outs.at, step->outs.n);
    text_printf(text, "%s%s(", step->outs.n ? " = " : "", step->name);
    print_names(text, step->args.at, step->args.n);
    text_puts(text, ")");
    for (int i = 0; i < step->params.n; i++) print_param(lines, text, i, &step->params.at[i]);
    text_printf(text, "  %d op%s%s\n", step->n_ops, step->n_ops == 1 ? "" : "s",
                step->write_back ? ", writes back" : "");
}

static void print_slot(const PlanLines *lines, Text *text, const SlotLine *line) {
    const Slot *const slot = &line->slot;
    text_printf(text, "  %s  ", line->name);
    meta_print(lines->env, text, slot->meta);
    if (slot->kind == SLOT_arena) {
        text_puts(text, "  at ");
        sym_print(lines->env, text, slot->offset);
        text_puts(text, ", ");
        sym_print(lines->env, text, slot->bytes);
        text_puts(text, " bytes");
    }
    if (slot->first >= 0) text_printf(text, ", steps %d..%d", slot->first, slot->last);
    text_puts(text, "\n");
}

void plan_lines_print(const PlanLines *lines, Text *text) {
    if (!lines->memory_only) {
        text_puts(text, "kernels\n");
        for (int i = 0; i < lines->kernels.n; i++) kernel_print(lines->kernels.at[i], text);
        text_puts(text, "steps\n");
        for (int i = 0; i < lines->steps.n; i++) print_step(lines, text, i);
    }
    text_puts(text, "memory\n");
    for (int i = 0; i < lines->slots.n; i++) print_slot(lines, text, &lines->slots.at[i]);
    text_puts(text, "arena ");
    sym_print(lines->env, text, lines->arena_bytes);
    text_puts(text, " bytes\n");
}

static void print(const Plan *plan, bool memory_only, Text *text) {
    PlanLines lines = {.arena = arena_new(), .env = plan->graph->env, .memory_only = memory_only};
    if (!lines.arena) return;
    if (!memory_only) add_steps(&lines, plan);
    add_memory(&lines, plan);
    plan_lines_print(&lines, text);
    arena_free(lines.arena);
}

void plan_print_memory(const Plan *plan, Text *text) { print(plan, true, text); }

void plan_print(Plan *plan, Text *text) { print(plan, false, text); }
