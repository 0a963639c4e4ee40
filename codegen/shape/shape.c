/* shape.c: the record, and the order in which its parts are decided: each part reads those before it. */
#include "codegen/shape/parts.h"

NestMapping *shape_new(Arena *arena, const Nest *nest) {
    const size_t n = (size_t)nest->n_insts, phases = sizeof(PhaseShape) * (size_t)nest->n_phases;
    const size_t insts = sizeof(InstShape) * n, kept = sizeof(int16_t) * n;
    char *const block = arena_alloc(arena, sizeof(NestMapping) + phases + insts + kept);
    if (!block) return NULL;
    NestMapping *const shape = (NestMapping *)block;
    shape->copies = 1;
    shape->n_phases = nest->n_phases, shape->n_insts = nest->n_insts;
    shape->phase = (PhaseShape *)(block + sizeof *shape);
    shape->inst = (InstShape *)(block + sizeof *shape + phases);
    shape->kept = (int16_t *)(block + sizeof *shape + phases + insts);
    for (int i = 0; i < nest->n_insts; i++) shape->inst[i] = (InstShape){.kept_in = -1, .prefetch_in = -1};
    return shape;
}

static int64_t total_of(const NestMapping *shape, int first, int last) {
    int64_t total = 1;
    for (int g = first; g < last; g++)
        if (total < 0 || shape->group[g].extent < 0 || !mul_ok(total, shape->group[g].extent, &total)) total = -1;
    return total;
}

int64_t shape_L_total(const NestMapping *shape) { return total_of(shape, shape_L_first(shape), shape->n_groups); }
int64_t shape_S_total(const NestMapping *shape) { return total_of(shape, shape->n_outer_groups, shape_L_first(shape)); }

bool red_is_ordered(const Nest *nest, const Inst *red) {
    const bool adds = red->prim == RED_sum || red->prim == RED_dot || red->prim == RED_prod;
    const SType type = (SType)nest->insts[red->a].type;
    return adds && (type == S_f32 || type == S_f64);
}

int shape_S_levels(const NestMapping *shape, const Nest *nest, const Phase *phase) {
    const int64_t rows = shape_S_total(shape);
    bool some = false;
    for (int i = phase->first; i < phase->first + phase->n; i++)
        some |= nest->insts[i].op == LI_reduce && red_is_ordered(nest, &nest->insts[i]);
    if (!some) return 1;
    return order_levels(rows, CHUNK_S_BITS, S_LEVELS);
}

int shape_next_dim(const Nest *nest) {
    int d = nest->n_outer - 1;
    while (d >= 0 && nest->extent[d] == 1) d--;
    return d;
}

NestMapping *shape_decide(Arena *arena, const Nest *nest, const Buf *bufs, const Machine *machine) {
    Decider d = {.nest = nest, .bufs = bufs, .machine = machine, .shape = shape_new(arena, nest)};
    const size_t n = (size_t)nest->n_insts;
    char *const buffer = d.shape ? arena_alloc(arena, n * (2 * sizeof(int) + sizeof(bool)) + 1) : NULL;
    if (!buffer) return NULL;
    d.cost = (int *)buffer, d.first_phase = d.cost + n, d.seen = (bool *)(d.first_phase + n);
    d.shape->lanes = machine->lanes;
    groups_decide(nest, d.shape);
    kept_decide(&d);
    prefetch_decide(&d);
    stream_decide(&d);
    columns_decide(&d);
    strategies_decide(&d);
    return d.shape;
}
