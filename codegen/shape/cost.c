/* cost.c: what a body costs, in simple instructions of one vector: loads, stores and constants are free beside what is
 * weighed here (copies of a body against the time to compile them). */
#include "codegen/shape/parts.h"

enum { CALL_COST = 12, GATHER_COST = 12 };

static int inst_cost(const Decider *d, const Inst *inst) {
    if (inst->op == LI_gather) return GATHER_COST;
    if (inst->op != LI_prim) return 0;
    return machine_calls(d->machine, inst->prim, (SType)inst->type) ? CALL_COST : 1;
}

int nest_cost(const Decider *d) {
    int cost = 0;
    for (int i = 0; i < d->nest->n_insts; i++) cost += inst_cost(d, &d->nest->insts[i]);
    return cost;
}

static int cost_below(const Decider *d, int i, int phase) {
    if (i < 0 || d->seen[i] || !d->nest->insts[i].inner) return 0;
    const int kept_in = d->shape->inst[i].kept_in;
    if (kept_in >= 0 && kept_in < phase) return 0;
    d->seen[i] = true;
    const Inst *const inst = &d->nest->insts[i];
    return inst_cost(d, inst) + cost_below(d, inst->a, phase) + cost_below(d, inst->b, phase) +
           cost_below(d, inst->c, phase);
}

int phase_cost(const Decider *d, int number) {
    const Phase *const phase = &d->nest->phases[number];
    int cost = 0;
    memset(d->seen, 0, sizeof *d->seen * (size_t)d->nest->n_insts);
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *const inst = &d->nest->insts[i];
        if (is_root(inst)) cost += cost_below(d, inst->a, number) + cost_below(d, inst->b, number);
    }
    return cost;
}
