/* loop_build.c: writing nests: instructions are appended as a dag, loop_finish sorts them into
 * phases.
 *
 * Equal instructions are shared while appending. loop_finish drops what no store needs, gives each
 * reduction its round (1 + the largest round among what its operand needs), makes one reduce phase
 * per round, holding the reductions of that round and the operands not placed earlier, then one map
 * phase with all stores over the inner dims, then one with the stores over the outer dims: as few
 * passes over the inner dims as the dag allows. */
#include "ir/loop.h"

struct LoopBuilder {
    Arena *arena;
    int n_outer, n_inner, n_s;
    int64_t extent[MAX_LOOP_DIMS];
    VEC(Inst) insts;
    VEC(bool) over_outer; /* by instruction: a store over the outer dims */
    int source;
    bool ill_typed;
};

LoopBuilder *loop_new(Arena *arena, int n_outer, int n_inner, int n_s, const int64_t *extent) {
    LoopBuilder *const b = ARENA_NEW(arena, LoopBuilder);
    if (!b) return NULL;
    b->arena = arena;
    b->n_outer = n_outer;
    b->n_inner = n_inner;
    b->n_s = n_s;
    b->source = -1;
    memcpy(b->extent, extent, sizeof *extent * (size_t)(n_outer + n_inner));
    return b;
}

void loop_source(LoopBuilder *b, int node) { b->source = node; }
SType loop_type(const LoopBuilder *b, int inst) { return (SType)b->insts.at[inst].type; }

static bool same_place(const Affine *x, const Affine *y) { return x == y || (x && y && !memcmp(x, y, sizeof *x)); }

static bool same_inst(const Inst *x, const Inst *y) {
    return x->op == y->op && x->type == y->type && x->prim == y->prim && x->a == y->a && x->b == y->b && x->c == y->c &&
           x->buf == y->buf && x->param == y->param && x->i == y->i && x->scale == y->scale && x->bound == y->bound &&
           x->wrap_negative == y->wrap_negative && same_place(x->at, y->at);
}

static int find_same(const LoopBuilder *b, const Inst *inst) {
    for (int i = b->insts.n - 1; i >= 0; i--)
        if (same_inst(&b->insts.at[i], inst)) return i;
    return -1;
}

static bool operand_inner(const LoopBuilder *b, int inst) { return inst >= 0 && b->insts.at[inst].inner; }

static bool place_inner(const LoopBuilder *b, const Affine *at) {
    for (int i = b->n_outer; at && i < b->n_outer + b->n_inner; i++)
        if (at->coef[i] != 0) return true;
    return false;
}

static int append_inst(LoopBuilder *b, Inst inst, bool over_outer) {
    Affine place = {0};
    if (inst.at) { /* coefficients past the last dim are not part of the place */
        place.offset = inst.at->offset;
        memcpy(place.coef, inst.at->coef, sizeof(int64_t) * (size_t)(b->n_outer + b->n_inner));
        inst.at = &place;
    }
    const bool is_store = inst.op == LI_store;
    const int same = is_store ? -1 : find_same(b, &inst);
    if (same >= 0) return same;
    if (inst.op == LI_reduce)
        inst.inner = false;
    else if (is_store)
        inst.inner = !over_outer && b->n_inner > 0;
    else
        inst.inner =
            operand_inner(b, inst.a) || operand_inner(b, inst.b) || operand_inner(b, inst.c) || place_inner(b, inst.at);
    if (inst.at) inst.at = arena_copy(b->arena, &place, sizeof place);
    inst.source = b->source;
    VEC_PUSH(b->arena, &b->insts, inst);
    VEC_PUSH(b->arena, &b->over_outer, over_outer);
    return b->insts.n - 1;
}

#define BLANK .a = -1, .b = -1, .c = -1, .buf = -1, .param = -1

int loop_const(LoopBuilder *b, SType type, double f, int64_t i) {
    Inst inst = {.op = LI_const, .type = (uint8_t)type, BLANK};
    if (type == S_f32 || type == S_f64)
        inst.f = f;
    else
        inst.i = i;
    return append_inst(b, inst, false);
}

int loop_double(LoopBuilder *b, SType type, double value) {
    const int64_t as_int = type == S_i64 ? double_to_i64(value) : type == S_i32 ? double_to_i32(value) : value != 0;
    return loop_const(b, type, type == S_f32 ? (float)value : value, as_int);
}

int loop_param(LoopBuilder *b, SType type, int param) {
    Inst inst = {.op = LI_param, .type = (uint8_t)type, BLANK};
    inst.param = (int16_t)param;
    return append_inst(b, inst, false);
}

int loop_index(LoopBuilder *b, const Affine *at) {
    return append_inst(b, (Inst){.op = LI_index, .type = S_i64, BLANK, .at = (Affine *)at}, false);
}

int loop_load(LoopBuilder *b, int buf, DType dtype, const Affine *at) {
    Inst inst = {.op = LI_load, .type = (uint8_t)dtype_compute(dtype), BLANK, .at = (Affine *)at};
    inst.buf = (int16_t)buf;
    return append_inst(b, inst, false);
}

int loop_gather(LoopBuilder *b, int buf, DType dtype, const Affine *at, int index, int64_t scale, int64_t bound,
                bool wrap) {
    Inst inst = {.op = LI_gather, .type = (uint8_t)dtype_compute(dtype), BLANK, .at = (Affine *)at};
    inst.a = (int16_t)index;
    inst.buf = (int16_t)buf;
    inst.scale = scale;
    inst.bound = bound;
    inst.wrap_negative = wrap;
    return append_inst(b, inst, false);
}

int loop_prim(LoopBuilder *b, Prim prim, int x, int y, int z) {
    Inst inst = {.op = LI_prim, .prim = (uint8_t)prim, BLANK};
    inst.a = (int16_t)x;
    inst.b = (int16_t)y;
    inst.c = (int16_t)z;
    if (!prim_has_type(prim, loop_type(b, prim == PRIM_select ? y : x))) b->ill_typed = true;
    inst.type = prim_returns_bool(prim) ? S_b : (uint8_t)loop_type(b, prim == PRIM_select ? y : x);
    return append_inst(b, inst, false);
}

int loop_count(const LoopBuilder *b) { return b->insts.n; }
const Inst *loop_inst(const LoopBuilder *b, int inst) { return &b->insts.at[inst]; }

/* Operands come before what uses them. */
bool loop_gathers(const LoopBuilder *b, int inst, int index, int64_t bound) {
    bool *const needed = ARENA_ARRAY(b->arena, bool, inst + 1);
    needed[inst] = true;
    for (int i = inst; i >= 0; i--) {
        const Inst *const at = &b->insts.at[i];
        const int operands[] = {at->a, at->b, at->c};
        if (!needed[i]) continue;
        if (at->op == LI_gather && at->a == index && at->bound == bound) return true;
        for (int k = 0; k < COUNT_OF(operands); k++)
            if (operands[k] >= 0) needed[operands[k]] = true;
    }
    return false;
}

bool loop_ill_typed(const LoopBuilder *b) { return b->ill_typed; }

int loop_cast(LoopBuilder *b, SType to, int x) {
    if (loop_type(b, x) == to) return x;
    Inst inst = {.op = LI_cast, .type = (uint8_t)to, BLANK};
    inst.a = (int16_t)x;
    return append_inst(b, inst, false);
}

int loop_reduce(LoopBuilder *b, RedKind kind, int x, int y) {
    Inst inst = {.op = LI_reduce, .prim = (uint8_t)kind, BLANK};
    inst.a = (int16_t)x;
    inst.b = (int16_t)y;
    const bool position = kind == RED_argmax || kind == RED_argmin;
    inst.type = position ? S_i64 : (uint8_t)loop_type(b, x);
    return append_inst(b, inst, false);
}

void loop_store(LoopBuilder *b, int buf, DType dtype, const Affine *at, int x, bool over_outer) {
    Inst inst = {.op = LI_store, .type = (uint8_t)dtype_compute(dtype), BLANK, .at = (Affine *)at};
    inst.a = (int16_t)x;
    inst.buf = (int16_t)buf;
    append_inst(b, inst, over_outer && b->n_inner > 0);
}

/* phases -------------------------------------------------------------------------------------- */

typedef struct Sorter {
    LoopBuilder *b;
    Nest *out;
    int *round;     /* reductions: their reduce phase from 1; others: the phase after which they can be
                   computed */
    int16_t *place; /* new number, -1: not placed */
} Sorter;

static void set_rounds(Sorter *s) {
    const Inst *const insts = s->b->insts.at;
    for (int i = 0; i < s->b->insts.n; i++) {
        const int operand[3] = {insts[i].a, insts[i].b, insts[i].c};
        for (int k = 0; k < 3; k++)
            if (operand[k] >= 0 && s->round[operand[k]] > s->round[i]) s->round[i] = s->round[operand[k]];
        if (insts[i].op == LI_reduce) s->round[i]++;
    }
}

/* Places what `inst` needs, then itself. Depth is bounded by the dag's, which lowering keeps to
 * some hundreds. */
static void place_inst(Sorter *s, int inst) {
    if (inst < 0 || s->place[inst] >= 0) return;
    Inst copy = s->b->insts.at[inst];
    place_inst(s, copy.a);
    place_inst(s, copy.b);
    place_inst(s, copy.c);
    if (copy.a >= 0) copy.a = s->place[copy.a];
    if (copy.b >= 0) copy.b = s->place[copy.b];
    if (copy.c >= 0) copy.c = s->place[copy.c];
    s->place[inst] = (int16_t)s->out->n_insts;
    s->out->insts[s->out->n_insts++] = copy;
}

static void place_operands(Sorter *s, int inst) {
    const Inst *const i = &s->b->insts.at[inst];
    place_inst(s, i->a);
    place_inst(s, i->b);
    place_inst(s, i->c);
}

typedef bool Chosen(const Sorter *s, int inst, int round);
static bool is_reduction(const Sorter *s, int inst, int round) {
    return s->b->insts.at[inst].op == LI_reduce && s->round[inst] == round;
}
static bool is_inner_store(const Sorter *s, int inst, int round) {
    return s->b->insts.at[inst].op == LI_store && !s->b->over_outer.at[inst];
}
static bool is_outer_store(const Sorter *s, int inst, int round) {
    return s->b->insts.at[inst].op == LI_store && s->b->over_outer.at[inst];
}

/* One phase that ends in the chosen live instructions; none if there are none. */
static void add_phase(Sorter *s, Phase phase, Chosen *chosen, int round, const bool *live) {
    phase.first = s->out->n_insts;
    for (int i = 0; i < s->b->insts.n; i++)
        if (live[i] && chosen(s, i, round)) place_operands(s, i);
    for (int i = 0; i < s->b->insts.n; i++)
        if (live[i] && chosen(s, i, round)) place_inst(s, i);
    phase.n = s->out->n_insts - phase.first;
    if (phase.n) s->out->phases[s->out->n_phases++] = phase;
}

static void mark_live(const LoopBuilder *b, bool *live) {
    for (int i = b->insts.n - 1; i >= 0; i--) {
        const Inst *const inst = &b->insts.at[i];
        if (inst->op == LI_store) live[i] = true;
        if (!live[i]) continue;
        if (inst->a >= 0) live[inst->a] = true;
        if (inst->b >= 0) live[inst->b] = true;
        if (inst->c >= 0) live[inst->c] = true;
    }
}

/* A nest whose reductions all died, with no store over the outer dims alone, is a plain map over
 * all dims. */
static void flatten_without_reductions(LoopBuilder *b, const bool *live) {
    for (int i = 0; i < b->insts.n; i++)
        if (live[i] && (b->insts.at[i].op == LI_reduce || b->over_outer.at[i])) return;
    b->n_outer += b->n_inner;
    b->n_inner = b->n_s = 0;
    for (int i = 0; i < b->insts.n; i++) b->insts.at[i].inner = false;
}

void loop_finish(LoopBuilder *b, Nest *out) {
    const int n = b->insts.n;
    bool *const live = ARENA_ARRAY(b->arena, bool, n + 1);
    Sorter s = {b, out, ARENA_ARRAY(b->arena, int, n + 1), ARENA_ARRAY(b->arena, int16_t, n + 1)};
    *out = (Nest){0};
    out->insts = ARENA_ARRAY(b->arena, Inst, n + 1);
    out->phases = ARENA_ARRAY(b->arena, Phase, n + 2);
    if (!live || !s.round || !s.place || !out->insts || !out->phases) return;
    mark_live(b, live);
    flatten_without_reductions(b, live);
    set_rounds(&s);
    int last_round = 0;
    for (int i = 0; i < n; i++) {
        s.place[i] = -1;
        if (live[i] && s.round[i] > last_round) last_round = s.round[i];
    }
    for (int round = 1; round <= last_round; round++)
        add_phase(&s, (Phase){.kind = PHASE_reduce}, is_reduction, round, live);
    add_phase(&s, (Phase){.kind = PHASE_map}, is_inner_store, 0, live);
    add_phase(&s, (Phase){.kind = PHASE_map, .over_outer = true}, is_outer_store, 0, live);
    out->n_outer = b->n_outer;
    out->n_inner = b->n_inner;
    out->n_s = b->n_s;
    memcpy(out->extent, b->extent, sizeof out->extent);
}
