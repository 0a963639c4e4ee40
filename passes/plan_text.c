/* plan_text.c: a plan as text: its kernels (loop IR, which parses back), the call sequence, the
 * memory table.
 *
 *   kernels
 *   kernel k0_add_gelu(...) { ... }
 *   steps
 *     0  k0_add_gelu(in0, in1, arena0)  2 ops
 *   memory
 *     arena0  f32[8,768]  at 0, 24576 bytes, steps 0..1
 *   arena 24576 bytes */
#include "ir/plan.h"

static void print_slot_name(const Plan *plan, Text *text, int slot) {
    static const char *const prefix[] = {"in", "out", "arena"};
    if (slot < 0) {
        text_puts(text, "tile");
        return;
    }
    const Slot *const s = &plan->slots.at[slot];
    int number = s->index;
    if (s->kind == SLOT_arena) {
        number = 0;
        for (int i = 0; i < slot; i++) number += plan->slots.at[i].kind == SLOT_arena;
    }
    text_printf(text, "%s%d", prefix[s->kind], number);
}

static void print_native(Plan *plan, Text *text, const Step *step) {
    for (int r = 0; r < step->row->n_out; r++) {
        if (r) text_puts(text, ", ");
        print_slot_name(plan, text, plan->places[step->outs[r]->id].slot);
    }
    text_printf(text, " = %s(", step->row->name);
    for (int a = 0; a < step->row->n_params; a++) {
        const Arg *const arg = &step->args[a];
        if (a) text_puts(text, ", ");
        if (arg->kind == ARG_tensor && arg->val)
            print_slot_name(plan, text, plan->places[gval(arg->val)->id].slot);
        else
            arg_print(text, plan->graph, arg, step->row->params[a].type);
    }
    text_puts(text, ")");
}

static void print_kernel_step(const Plan *plan, Text *text, const Step *step) {
    text_printf(text, "%s(", step->kernel->name);
    for (int b = 0; b < step->kernel->n_bufs; b++) {
        if (b) text_puts(text, ", ");
        print_slot_name(plan, text, step->bufs[b]);
    }
    text_puts(text, ")");
    for (int i = 0; i < step->kernel->n_params; i++) {
        text_puts(text, i ? ", p" : "  p");
        text_printf(text, "%d = ", i);
        if (step->kernel->gemm && step->kernel->gemm->tile_ld == i)
            text_puts(text, "tile row");
        else if (step->kernel->param_is_float[i])
            text_printf(text, "float %d", (int)step->kernel->params[i]);
        else
            sym_print(plan->graph->env, text, step->kernel->params[i]);
    }
}

static void print_steps(Plan *plan, Text *text) {
    text_puts(text, "steps\n");
    for (int i = 0; i < plan->steps.n; i++) {
        const Step *const step = &plan->steps.at[i];
        text_printf(text, "  %d  ", i);
        if (step->kind == STEP_kernel)
            print_kernel_step(plan, text, step);
        else
            print_native(plan, text, step);
        text_printf(text, "  %d op%s%s\n", step->n_ops, step->n_ops == 1 ? "" : "s",
                    step->write_back ? ", writes back" : "");
    }
}

void plan_print_memory(const Plan *plan, Text *text) {
    const SymEnv *const env = plan->graph->env;
    text_puts(text, "memory\n");
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        text_puts(text, "  ");
        print_slot_name(plan, text, i);
        text_puts(text, "  ");
        meta_print(env, text, slot->meta);
        if (slot->kind == SLOT_arena) {
            text_puts(text, "  at ");
            sym_print(env, text, slot->offset);
            text_puts(text, ", ");
            sym_print(env, text, slot->bytes);
            text_puts(text, " bytes");
        }
        if (slot->first >= 0) text_printf(text, ", steps %d..%d", slot->first, slot->last);
        text_puts(text, "\n");
    }
    text_puts(text, "arena ");
    sym_print(env, text, plan->arena_bytes);
    text_puts(text, " bytes\n");
}

void plan_print(Plan *plan, Text *text) {
    text_puts(text, "kernels\n");
    for (int i = 0; i < plan->steps.n; i++)
        if (plan->steps.at[i].kind == STEP_kernel) kernel_print(plan->steps.at[i].kernel, text);
    print_steps(plan, text);
    plan_print_memory(plan, text);
}
