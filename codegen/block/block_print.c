/* block_print.c: a block program as text, for dumps: one line a step, slots as v<n>. */
#include "codegen/block/block.h"

static void print_operands(Text *text, const BlockInst *step) {
    const int16_t operands[3] = {step->a, step->b, step->c};
    for (int i = 0; i < 3 && operands[i] >= 0; i++) text_printf(text, "%sv%d", i ? ", " : " ", operands[i]);
}

static void print_step(const BlockProgram *p, Text *text, const BlockInst *step) {
    static const char *const names[] = {"const", "param", "index",  "load",   "gather",
                                        "prim",  "cast",  "expand", "reduce", "store"};
    text_puts(text, "    ");
    if (step->out >= 0) text_printf(text, "v%d@%d = ", step->out, block_slots(p)[step->out].offset);
    if (step->op == BO_prim)
        text_printf(text, "%s.%s", prim_name((Prim)step->prim), stype_name((SType)step->from));
    else if (step->op == BO_reduce)
        text_printf(text, "reduce %s.%s", red_name((RedKind)step->prim), stype_name((SType)step->from));
    else
        text_printf(text, "%s.%s", names[step->op], stype_name((SType)step->type));
    print_operands(text, step);
    if (step->access >= 0) {
        const BlockAccess *const access = &block_accesses(p)[step->access];
        text_printf(text, " place %d", step->access);
        if (access->buf >= 0) text_printf(text, " (b%d %s)", access->buf, dtype_name((DType)access->dtype));
    }
    if (step->alias) text_puts(text, " alias");
    if (step->direct >= 0) text_printf(text, " direct %d", step->direct);
    text_puts(text, "\n");
}

static void print_steps(const BlockProgram *p, Text *text, const char *title, int first, int n) {
    if (!n) return;
    text_printf(text, "  %s:\n", title);
    for (int i = 0; i < n; i++) print_step(p, text, &block_insts(p)[first + i]);
}

void block_print(const BlockProgram *p, Text *text) {
    static const char *const variants[VARIANT_COUNT] = {"keep", "again"};
    text_printf(text, "block outer %d inner %d s %d scratch %lld%s\n", p->n_outer, p->n_inner, p->n_s,
                (long long)p->scratch_bytes, p->fast.n ? " fast" : "");
    print_steps(p, text, "start", 0, p->n_init);
    for (int variant = 0; variant < VARIANT_COUNT; variant++) {
        for (int i = 0; i < p->n_phases; i++) {
            const BlockPhase *const phase = &block_phases(p, variant)[i];
            text_printf(text, " %s phase %d, %s\n", variants[variant], i,
                        phase->reduce       ? "reduce"
                        : phase->over_outer ? "map outer"
                                            : "map");
            print_steps(p, text, "head", phase->head, phase->n_head);
            print_steps(p, text, "body", phase->body, phase->n_body);
        }
    }
}
