/* plan_text.c: a plan as text, which plan_parse.c reads back to the same plan: what a call gives and gets, its kernels
 * (loop IR), the call sequence, the memory table, the ops that it came from.
 *
 *   symbols s0=8>=2, s1=5, s2=0                 hints and bounds, where there are any
 *   random seed=s1 sequence=s2 count=3
 *   floats 0.5, 2.0
 *   guards s0*4 != 3
 *   kernels
 *   kernel k0_add_gelu(...) { ... }
 *   steps
 *     0  k0_add_gelu(in0, in1, arena0)  p0 = s0, p1 = float 0  2 ops
 *     1  out0 = aten::cat([in0, in1 as f32[8]{2} at 1], 0)  workspace arena1  1 op, writes back
 *     2  out1 = copy(out0) to board  1 op
 *     3  arena1 = aten::flip(arena0, [0]) by eager (an index that is not affine)  1 op
 *   memory
 *     arena0  f32[8,768]  at 0, 24576 bytes, steps 0..1
 *   arena 24576 bytes
 *   arena board 64 bytes
 *   inputs %x, %w written
 *   outputs f32[8,768], f32[8]{2} views input 0 at 1, is input 1, None
 *   ops
 *     3  step 0  aten::add.Tensor
 *     4  step 0  aten::erf of aten::gelu
 *   checks
 *     step 0 nest 0 %5 is 3                     what a failed check is an error of
 *
 * Values that are not laid out as their slots say their metadata and where they begin, in elements. The stage "memory"
 * is the part from that word to the arenas. */
#include "ir/plan.h"
#include "runtime/base/alloc.h"

static void print_slot_name(const Plan *plan, Text *text, int slot) {
    static const char *const prefix[] = {"in", "out", "arena"};
    const Slot *const s = &plan->slots.at[slot];
    text_printf(text, "%s%d", prefix[s->kind], s->index);
}

/* the head ------------------------------------------------------------------------------------ */

static void print_symbols(const SymEnv *env, Text *text) {
    for (int i = 0; i < sym_free_count(env); i++) {
        const SymExpr *const e = sym_expr(env, sym_free_at(env, i));
        text_printf(text, "%ss%d=%lld", i ? ", " : "symbols ", i, (long long)e->hint);
        if (e->b != SYM_LEAST) text_printf(text, ">=%lld", (long long)e->b);
    }
    if (sym_free_count(env)) text_puts(text, "\n");
}

static void print_random(const Plan *plan, Text *text) {
    if (!plan->seed) return;
    text_puts(text, "random seed=");
    sym_print(plan->env, text, plan->seed);
    text_puts(text, " sequence=");
    sym_print(plan->env, text, plan->sequence);
    text_printf(text, " count=%d\n", plan->n_random);
}

static void print_floats(const Plan *plan, Text *text) {
    for (int i = 0; i < plan->floats.n; i++) {
        text_puts(text, i ? ", " : "floats ");
        text_double(text, plan->floats.at[i]);
    }
    if (plan->floats.n) text_puts(text, "\n");
}

static void print_guards(const SymEnv *env, Text *text) {
    static const char *const rel[] = {"==", "!=", "<", "<="};
    for (int i = 0; i < sym_guard_count(env); i++) {
        const SymGuard *const guard = sym_guard_at(env, i);
        text_puts(text, i ? ", " : "guards ");
        sym_print(env, text, guard->a);
        text_printf(text, " %s ", rel[guard->rel]);
        sym_print(env, text, guard->b);
    }
    if (sym_guard_count(env)) text_puts(text, "\n");
}

/* steps --------------------------------------------------------------------------------------- */

static bool lies_as_its_slot(const Meta *meta, const Meta *slot) {
    if (meta->rank != slot->rank || meta->dtype != slot->dtype || meta->wrapped != slot->wrapped) return false;
    for (int d = 0; d < meta->rank; d++)
        if (meta->sizes[d] != slot->sizes[d] || meta->strides[d] != slot->strides[d]) return false;
    return true;
}

static void print_value(const Plan *plan, Text *text, const Val *val) {
    const PlanValue *const value = plan_value(val);
    if (!val) {
        text_puts(text, "None");
        return;
    }
    print_slot_name(plan, text, value->slot);
    if (!value->offset && lies_as_its_slot(val->meta, plan->slots.at[value->slot].meta)) return;
    text_puts(text, " as ");
    meta_print(plan->env, text, val->meta);
    text_puts(text, " at ");
    sym_print(plan->env, text, value->offset);
}

static void print_arg(const Plan *plan, Text *text, const Arg *arg, ParamType type) {
    const Graph env = {.env = plan->env, .runtime_floats.at = plan->floats.at, .runtime_floats.n = plan->floats.n};
    if (arg->kind == ARG_tensor) {
        print_value(plan, text, arg->val);
    } else if (arg->kind == ARG_tensors) {
        text_puts(text, "[");
        for (int i = 0; i < arg->n; i++) {
            text_puts(text, i ? ", " : "");
            print_value(plan, text, arg->vals[i]);
        }
        text_puts(text, "]");
    } else {
        arg_print(text, &env, arg, type);
    }
}

static void print_native(const Plan *plan, Text *text, const Step *step) {
    for (int r = 0; r < step_outs(step); r++) {
        text_puts(text, r ? ", " : "");
        print_value(plan, text, &step->outs[r]->base);
    }
    text_printf(text, " = %s(", step->row ? step->row->name : "copy");
    for (int a = 0; a < step_args(step); a++) {
        text_puts(text, a ? ", " : "");
        print_arg(plan, text, &step->args[a], step->row ? step->row->params[a].type : PT_tensor);
    }
    text_puts(text, ")");
    if (step->kind == STEP_copy) text_printf(text, " to %s", DEVICE_TEXT(step->device));
    if (step->kind == STEP_eager) text_printf(text, " by eager (%s)", step->why);
    if (step->workspace < 0) return;
    text_puts(text, "  workspace ");
    print_slot_name(plan, text, step->workspace);
}

static void print_kernel(const Plan *plan, Text *text, const Step *step) {
    const Kernel *const kernel = step->kernel;
    text_printf(text, "%s(", kernel->name);
    for (int b = 0; b < kernel->n_bufs; b++) {
        text_puts(text, b ? ", " : "");
        if (step->bufs[b] < 0)
            text_puts(text, "tile");
        else
            print_slot_name(plan, text, step->bufs[b]);
    }
    text_puts(text, ")");
    for (int i = 0; i < kernel->n_params; i++) {
        text_printf(text, "%sp%d = ", i ? ", " : "  ", i);
        if (kernel->template && kernel->template->tile_ld == i)
            text_puts(text, "tile row");
        else if (kernel->param_is_float && kernel->param_is_float[i])
            text_printf(text, "float %d", (int)kernel->params[i]);
        else
            sym_print(plan->env, text, kernel->params[i]);
    }
}

static void print_step(const Plan *plan, Text *text, int number) {
    const Step *const step = &plan->steps.at[number];
    text_printf(text, "  %d  ", number);
    (step->kind == STEP_kernel ? print_kernel : print_native)(plan, text, step);
    text_printf(text, "  %d op%s%s\n", step->n_ops, step->n_ops == 1 ? "" : "s",
                step->write_back ? ", writes back" : "");
}

/* memory -------------------------------------------------------------------------------------- */

static void print_slot(const Plan *plan, Text *text, int number) {
    const Slot *const slot = &plan->slots.at[number];
    text_puts(text, "  ");
    print_slot_name(plan, text, number);
    text_puts(text, "  ");
    meta_print(plan->env, text, slot->meta);
    if (slot->kind == SLOT_arena) {
        text_puts(text, "  at ");
        sym_print(plan->env, text, slot->offset);
        text_puts(text, ", ");
        sym_print(plan->env, text, slot->bytes);
        text_puts(text, " bytes");
    }
    if (slot->first >= 0) text_printf(text, ", steps %d..%d", slot->first, slot->last);
    text_puts(text, "\n");
}

static void print_arena(const Plan *plan, Text *text, const PlanArena *arena) {
    text_puts(text, "arena ");
    if (!device_is_host(arena->device)) text_printf(text, "%s ", DEVICE_TEXT(arena->device));
    sym_print(plan->env, text, arena->bytes);
    text_puts(text, " bytes");
    if (plan->by_step) text_printf(text, ", by step %lld", (long long)arena->most);
    text_puts(text, "\n");
}

void plan_print_memory(const Plan *plan, Text *text) {
    text_puts(text, "memory\n");
    for (int i = 0; i < plan->slots.n; i++) print_slot(plan, text, i);
    if (!plan->arenas.n) print_arena(plan, text, &(PlanArena){.device = DEV_host}); /* not packed yet */
    for (int i = 0; i < plan->arenas.n; i++) print_arena(plan, text, &plan->arenas.at[i]);
}

/* the call ------------------------------------------------------------------------------------ */

static void print_inputs(const Plan *plan, Text *text) {
    text_puts(text, "inputs");
    for (int i = 0; i < plan->inputs.n; i++)
        text_printf(text, "%s%%%s%s", i ? ", " : " ", plan->inputs.at[i].name,
                    plan->inputs.at[i].written ? " written" : "");
    text_puts(text, "\n");
}

static void print_output(const Plan *plan, Text *text, const PlanOutput *out) {
    if (out->kind == OUT_none) {
        text_puts(text, "None");
        return;
    }
    meta_print(plan->env, text, out->meta);
    if (out->kind == OUT_new) return;
    if (out->kind == OUT_input) {
        text_printf(text, " is input %d", out->base);
        return;
    }
    text_printf(text, " views %s %d at ", out->kind == OUT_view_of_input ? "input" : "output", out->base);
    sym_print(plan->env, text, out->offset);
}

static void print_outputs(const Plan *plan, Text *text) {
    text_puts(text, "outputs");
    for (int i = 0; i < plan->outputs.n; i++) {
        text_puts(text, i ? ", " : " ");
        print_output(plan, text, &plan->outputs.at[i]);
    }
    text_puts(text, "\n");
}

/* where it came from -------------------------------------------------------------------------- */

static void print_ops(const Plan *plan, Text *text) {
    text_puts(text, "ops\n");
    for (int s = 0; s < plan->steps.n; s++)
        for (int i = 0; i < plan->steps.at[s].n_ops; i++) {
            const int id = plan->steps.at[s].ops[i];
            const PlanOp *const op = &plan->ops[id];
            text_printf(text, "  %d  step %d  %s", id, s, op->row->name);
            if (op->of) text_printf(text, " of %s", op->of->name);
            if (op->says) text_puts(text, " says "), text_quoted(text, op->says);
            text_puts(text, "\n");
        }
}

static void print_checks(const Plan *plan, Text *text) {
    text_puts(text, "checks\n");
    for (int s = 0; s < plan->steps.n; s++) {
        const Kernel *const kernel = plan->steps.at[s].kernel;
        for (int k = 0; kernel && k < kernel->n_nests; k++)
            for (int i = 0; i < kernel->nests[k].n_insts; i++) {
                const Inst *const inst = &kernel->nests[k].insts[i];
                if (inst->op == LI_gather && plan_op(plan, inst->source))
                    text_printf(text, "  step %d nest %d %%%d is %d\n", s, k, i, inst->source);
            }
    }
}

void plan_print(const Plan *plan, Text *text) {
    print_symbols(plan->env, text);
    print_random(plan, text);
    print_floats(plan, text);
    print_guards(plan->env, text);
    text_puts(text, "kernels\n");
    for (int i = 0; i < plan->steps.n; i++)
        if (plan->steps.at[i].kernel) kernel_print(plan->steps.at[i].kernel, text);
    text_puts(text, "steps\n");
    for (int i = 0; i < plan->steps.n; i++) print_step(plan, text, i);
    plan_print_memory(plan, text);
    print_inputs(plan, text);
    print_outputs(plan, text);
    print_ops(plan, text);
    print_checks(plan, text);
}
