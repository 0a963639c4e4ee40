/* verify.c: what emitters rely on. A shape may have been read from an edited text: whatever passes here gives the right
 * bits, if not the best speed; whatever does not is refused by the part of the shape that does not fit. */
#include "codegen/shape/parts.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"

typedef struct ShapeCheck {
    const NestMapping *shape;
    const Nest *nest;
    const Buf *bufs;
    const Machine *machine;
} ShapeCheck;

static Status refuse_shape(const ShapeCheck *c, const char *part, int number, const char *why) {
    const char *const name = c->nest->name ? c->nest->name : "?";
    if (number < 0) return error_raise(ST_INTERNAL, "shape of %s: %s: %s", name, part, why);
    return error_raise(ST_INTERNAL, "shape of %s: %s%d: %s", name, part, number, why);
}

#define NEED(condition, part, number, why)                                                                             \
    do {                                                                                                               \
        if (!(condition)) return refuse_shape(c, part, number, why);                                                   \
    } while (0)

static Status check_dims(const ShapeCheck *c) {
    const NestMapping *const s = c->shape;
    const DimGroups dims = {s->n_groups, s->n_outer_groups, s->n_s_groups, s->group};
    return dims_verify(&dims, c->nest, s->n_outer_groups - !shape_is_rows(s));
}

static bool copies_ok(int copies) { return copies == 1 || copies == 2 || copies == SHAPE_COPIES; }

static Status check_panels(const ShapeCheck *c) {
    const NestMapping *const s = c->shape;
    if (s->mode != SHAPE_panels) {
        NEED(s->panel_columns == 0 && s->panel_rows == 0, "panels", -1, "a size, but no panels");
        return ST_OK;
    }
    NEED(panels_may(c->nest, s), "panels", -1, "not a reduction along the rows of memory");
    NEED(s->panel_columns > 0 && s->panel_columns <= PANEL_COLUMNS && s->panel_columns % s->lanes == 0,
         "panels, columns", -1, "not whole vectors, 1024 columns at most");
    NEED(s->panel_rows > 0 && s->panel_rows <= PANEL_ROWS, "panels, rows", -1, "not 1 to 4");
    return ST_OK;
}

static Status check_index(const ShapeCheck *c) {
    const int bits = c->shape->index_bits;
    if (!shape_splits_rows(c->shape)) {
        NEED(bits == 0, "index", -1, "no position is taken apart");
        return ST_OK;
    }
    NEED(bits == 64 || (bits == 32 && narrow_may(c->shape)), "index", -1, "not 64 bits, or 32 that hold all positions");
    return ST_OK;
}

static Status check_mode(const ShapeCheck *c) {
    const NestMapping *const s = c->shape;
    NEED(s->n_phases == c->nest->n_phases && s->n_insts == c->nest->n_insts, "nest", -1, "another number of phases");
    NEED(s->lanes == c->machine->lanes, "lanes", -1, "not those of the machine");
    NEED(shape_is_rows(s) == (c->nest->n_s < c->nest->n_inner), "mode", -1,
         "L dims run as rows, all others as columns or panels");
    NEED(copies_ok(s->copies), "copies", -1, "not 1, 2 or 4");
    const bool plain = s->mode == SHAPE_columns && s->n_outer_groups > 0;
    NEED(plain || (s->copies == 1 && !s->masked), "copies", -1, "only columns stand side by side");
    NEED(!s->masked || c->nest->n_inner == 0, "masked", -1, "columns with inner dims need a loop of whole vectors");
    return ST_OK;
}

static Status check_strategies(const ShapeCheck *c) {
    for (int p = 0; p < c->nest->n_phases; p++) {
        const PhaseShape *const strategy = &c->shape->phase[p];
        const bool along = shape_is_rows(c->shape) && !c->nest->phases[p].over_outer;
        const bool stores = strategy->strategy == STRATEGY_copies || strategy->strategy == STRATEGY_masked;
        const bool reduces = strategy->strategy == STRATEGY_registers || strategy->strategy == STRATEGY_memory;
        NEED((stores || reduces) == along, "phase ", p, along ? "goes along a row, in one way" : "has no row");
        NEED(!along || reduces == (c->nest->phases[p].kind == PHASE_reduce), "phase ", p,
             "stores go in copies or masked, reductions in registers or memory");
        NEED(strategy->strategy == STRATEGY_copies ? copies_ok(strategy->copies) : strategy->copies == 0, "phase ", p,
             "wrong copies");
    }
    return ST_OK;
}

/* Whether phase `number` makes instruction `wanted`, rather than reading it back or not needing it. Operands come
 * before their users, so one sweep from the last instruction down finds all that is needed. */
static bool phase_makes(const ShapeCheck *c, int number, int wanted, bool *needed) {
    const Phase *const phase = &c->nest->phases[number];
    memset(needed, 0, sizeof *needed * (size_t)c->nest->n_insts);
    for (int i = phase->first + phase->n - 1; i >= wanted; i--) {
        const Inst *const inst = &c->nest->insts[i];
        const int16_t operand[3] = {inst->a, inst->b, inst->c};
        const int kept_in = c->shape->inst[i].kept_in;
        const bool made = needed[i] && inst->inner && (kept_in < 0 || kept_in >= number);
        if (made && i == wanted) return true;
        for (int k = 0; k < 3 && (made || (is_root(inst) && i >= phase->first)); k++)
            if (operand[k] >= 0) needed[operand[k]] = true;
    }
    return false;
}

static Status check_kept(const ShapeCheck *c, bool *buffer) {
    int64_t bytes = 0;
    int n = 0;
    for (int i = 0; i < c->nest->n_insts; i++) n += c->shape->inst[i].kept_in >= 0;
    NEED(n == c->shape->n_kept, "keep", -1, "one value twice");
    for (int k = 0; k < n; k++) {
        const int i = c->shape->kept[k];
        const int phase = c->shape->inst[i].kept_in;
        NEED(row_may_keep(c->shape), "keep %", i, "only rows of one known length are kept");
        NEED(c->nest->insts[i].inner && !is_root(&c->nest->insts[i]), "keep %", i, "not a value of a row");
        NEED(phase < c->nest->n_phases && phase_makes(c, phase, i, buffer), "keep %", i, "that phase does not make it");
        bytes += row_bytes(c->shape, &c->nest->insts[i]);
    }
    NEED(bytes <= c->machine->keep_bytes, "keep", -1, "more bytes than the machine keeps");
    return ST_OK;
}

static Status check_insts(const ShapeCheck *c) {
    bool prefetch = false, streams = false;
    for (int i = 0; i < c->nest->n_insts; i++) {
        const InstShape *const inst = &c->shape->inst[i];
        if (inst->prefetch_in >= 0) {
            NEED(prefetch_may(c->nest, c->shape, i), "ahead %", i, "not a load along rows that have a next one");
            NEED(inst->prefetch_in < c->nest->n_phases && !c->nest->phases[inst->prefetch_in].over_outer, "ahead %", i,
                 "not a phase that goes along a row");
        }
        NEED(!inst->streams || stream_may(c->nest, c->bufs, c->shape, i), "stream %", i,
             "not a store of whole vectors to memory that is not read");
        NEED(!inst->shared || shared_may(c->nest, c->shape, c->machine, i), "shared %", i,
             "not a library primitive of 4-byte elements, for vectors side by side without inner dims");
        prefetch |= inst->prefetch_in >= 0, streams |= inst->streams;
    }
    NEED(prefetch || !c->shape->near, "ahead", -1, "nothing is fetched");
    NEED(streams == (c->shape->stream != STREAM_never), "stream", -1, "no store, or no condition");
    return ST_OK;
}

static Status check_stream(const ShapeCheck *c) {
    const NestMapping *const s = c->shape;
    if (s->stream == STREAM_never) {
        NEED(!s->ragged && s->stream_bytes == 0, "stream", -1, "no store");
        return ST_OK;
    }
    NEED(stream_may_at_all(c->nest, c->bufs), "stream", -1, "a product's tile is stored through the caches");
    NEED((s->stream == STREAM_when) == (s->stream_bytes > 0), "stream", -1, "wrong number of bytes");
    NEED(!s->ragged || shape_is_rows(s), "stream", -1, "only rows begin between vectors");
    return ST_OK;
}

Status shape_verify(const NestMapping *shape, const Nest *nest, const Buf *bufs, const Machine *machine) {
    const ShapeCheck check = {shape, nest, bufs, machine}, *const c = &check;
    TRY(check_mode(c));
    TRY(check_dims(c));
    TRY(check_panels(c));
    TRY(check_index(c));
    TRY(check_strategies(c));
    bool *const buffer = mem_zero((size_t)nest->n_insts + 1);
    const Status kept = buffer ? check_kept(c, buffer) : ST_MEMORY;
    mem_free(buffer);
    TRY(kept);
    TRY(check_insts(c));
    return check_stream(c);
}
