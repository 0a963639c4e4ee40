/* variants.c: other shapes of a nest, to be measured: the decided one with one decision made another way. Each is
 * checked as an edited text is, so that all give the same bits. */
#include "codegen/shape/parts.h"
#include "runtime/base/error.h"

/* Changes the shape; false: there is nothing of the kind, or it is so already. */
typedef bool ShapeEdit(NestMapping *shape, int value);

static bool set_copies(NestMapping *shape, int value) {
    if (shape->mode != SHAPE_columns || shape->copies == value) return false;
    shape->copies = value;
    return true;
}

static bool set_masked(NestMapping *shape, int value) {
    if (shape->mode != SHAPE_columns || shape->masked == (value != 0)) return false;
    shape->masked = value != 0;
    return true;
}

static bool set_panel_rows(NestMapping *shape, int value) {
    if (shape->mode != SHAPE_panels || shape->panel_rows == value) return false;
    shape->panel_rows = value;
    return true;
}

static bool set_panel_columns(NestMapping *shape, int value) {
    if (shape->mode != SHAPE_panels || shape->panel_columns == value) return false;
    shape->panel_columns = value;
    return true;
}

static bool leave_panels(NestMapping *shape, int value) {
    if (shape->mode != SHAPE_panels) return false;
    shape->mode = SHAPE_columns;
    shape->panel_rows = shape->panel_columns = 0;
    shape->copies = value;
    return true;
}

static bool set_strategy_copies(NestMapping *shape, int value) {
    bool changed = false;
    for (int p = 0; p < shape->n_phases; p++) {
        PhaseShape *const phase = &shape->phase[p];
        if (phase->strategy != STRATEGY_copies && phase->strategy != STRATEGY_masked) continue;
        changed |= phase->strategy != STRATEGY_copies || phase->copies != value;
        *phase = (PhaseShape){STRATEGY_copies, value};
    }
    return changed;
}

static bool set_strategy_masked(NestMapping *shape, int value) {
    (void)value;
    bool changed = false;
    for (int p = 0; p < shape->n_phases; p++) {
        if (shape->phase[p].strategy != STRATEGY_copies) continue;
        shape->phase[p] = (PhaseShape){STRATEGY_masked, 0};
        changed = true;
    }
    return changed;
}

static bool set_sums(NestMapping *shape, int value) {
    bool changed = false;
    for (int p = 0; p < shape->n_phases; p++) {
        PhaseShape *const phase = &shape->phase[p];
        if ((phase->strategy != STRATEGY_registers && phase->strategy != STRATEGY_memory) ||
            phase->strategy == (LoopStrategy)value)
            continue;
        phase->strategy = (LoopStrategy)value;
        changed = true;
    }
    return changed;
}

static bool drop_stream(NestMapping *shape, int value) {
    (void)value;
    if (shape->stream == STREAM_never) return false;
    for (int i = 0; i < shape->n_insts; i++) shape->inst[i].streams = false;
    shape->stream = STREAM_never, shape->stream_bytes = 0, shape->ragged = false;
    return true;
}

static bool drop_prefetch(NestMapping *shape, int value) {
    (void)value;
    bool changed = false;
    for (int i = 0; i < shape->n_insts; i++) {
        changed |= shape->inst[i].prefetch_in >= 0;
        shape->inst[i].prefetch_in = -1;
    }
    shape->near = false;
    return changed;
}

static const struct {
    ShapeEdit *edit;
    int value;
} edits[] = {
    {set_copies, 1},
    {set_copies, 2},
    {set_copies, 4},
    {set_masked, 0},
    {set_masked, 1},
    {set_panel_rows, 1},
    {set_panel_rows, 2},
    {set_panel_columns, 256},
    {set_panel_columns, 512},
    {leave_panels, 4},
    {set_strategy_copies, 1},
    {set_strategy_copies, 2},
    {set_strategy_copies, 4},
    {set_strategy_masked, 0},
    {drop_stream, 0},
    {drop_prefetch, 0},
    {set_sums, STRATEGY_memory},
    {set_sums, STRATEGY_registers},
};

static NestMapping *copy_shape(Arena *arena, const Nest *nest, const NestMapping *from) {
    NestMapping *const to = shape_new(arena, nest);
    if (!to) return NULL;
    PhaseShape *const phase = to->phase;
    InstShape *const inst = to->inst;
    int16_t *const kept = to->kept;
    *to = *from;
    to->phase = memcpy(phase, from->phase, sizeof *phase * (size_t)from->n_phases);
    to->inst = memcpy(inst, from->inst, sizeof *inst * (size_t)from->n_insts);
    to->kept = memcpy(kept, from->kept, sizeof *kept * (size_t)from->n_kept);
    return to;
}

/* Which primitives are one function for all copies follows from how many there are. */
static void refresh_shared(NestMapping *shape, const Nest *nest, const Machine *machine) {
    for (int i = 0; i < shape->n_insts; i++) shape->inst[i].shared = shared_may(nest, shape, machine, i);
}

int shape_variants(Arena *arena, const Nest *nest, const Buf *bufs, const Machine *machine, const NestMapping *decided,
                   NestMapping **out, int capacity) {
    int n = 0;
    for (int i = 0; i < COUNT_OF(edits) && n < capacity; i++) {
        NestMapping *const shape = copy_shape(arena, nest, decided);
        if (!shape) return n;
        if (!edits[i].edit(shape, edits[i].value)) continue;
        refresh_shared(shape, nest, machine);
        if (shape_verify(shape, nest, bufs, machine) == ST_OK)
            out[n++] = shape;
        else
            error_clear();
    }
    return n;
}
