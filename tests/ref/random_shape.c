/* random_shape.c: see random_shape.h. Changes are tried one by one: one that the verifier refuses is taken back. */
#include "tests/ref/random_shape.h"

#include "runtime/base/error.h"

typedef struct Dice {
    uint64_t state;
} Dice;

static int roll(Dice *dice, int n) {
    dice->state = dice->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return n > 0 ? (int)((dice->state >> 33) % (uint64_t)n) : 0;
}

static int some_copies(Dice *dice) { return 1 << roll(dice, 3); }

static void change_columns(NestMapping *shape, Dice *dice) {
    shape->mode = roll(dice, 2) ? SHAPE_panels : SHAPE_columns;
    shape->copies = shape->mode == SHAPE_panels ? 1 : some_copies(dice);
    shape->masked = shape->mode == SHAPE_columns && roll(dice, 2);
    shape->panel_columns =
        shape->mode == SHAPE_panels ? shape->lanes * (1 + roll(dice, PANEL_COLUMNS / shape->lanes)) : 0;
    shape->panel_rows = shape->mode == SHAPE_panels ? 1 + roll(dice, PANEL_ROWS) : 0;
}

static void change_index(NestMapping *shape, Dice *dice) { shape->index_bits = 32 * roll(dice, 3); }

static void change_strategy(NestMapping *shape, Dice *dice) {
    PhaseShape *const phase = &shape->phase[roll(dice, shape->n_phases)];
    phase->strategy = (LoopStrategy)roll(dice, STRATEGY_memory + 1);
    phase->copies = phase->strategy == STRATEGY_copies ? some_copies(dice) : 0;
}

static void change_kept(NestMapping *shape, Dice *dice) {
    const int i = roll(dice, shape->n_insts);
    if (shape->inst[i].kept_in < 0) {
        shape->inst[i].kept_in = (int16_t)roll(dice, shape->n_phases);
        shape->kept[shape->n_kept++] = (int16_t)i;
        return;
    }
    shape->inst[i].kept_in = -1;
    int n = 0;
    for (int k = 0; k < shape->n_kept; k++)
        if (shape->kept[k] != i) shape->kept[n++] = shape->kept[k];
    shape->n_kept = n;
}

static void change_prefetch(NestMapping *shape, Dice *dice) {
    shape->inst[roll(dice, shape->n_insts)].prefetch_in = (int16_t)(roll(dice, shape->n_phases + 1) - 1);
    shape->near = roll(dice, 2);
}

static void change_stream(NestMapping *shape, Dice *dice) {
    InstShape *const inst = &shape->inst[roll(dice, shape->n_insts)];
    inst->streams = !inst->streams;
    shape->stream = (StreamWhen)roll(dice, 3);
    shape->stream_bytes = shape->stream == STREAM_when ? 1 + roll(dice, 4096) : 0;
    shape->ragged = shape->stream != STREAM_never && roll(dice, 2);
}

static void change_shared(NestMapping *shape, Dice *dice) {
    InstShape *const inst = &shape->inst[roll(dice, shape->n_insts)];
    inst->shared = !inst->shared;
}

/* A group of several dims as two; their extents are filled in by printing and parsing. */
static void split_group(NestMapping *shape, Dice *dice) {
    const int g = roll(dice, shape->n_groups);
    if (shape->n_groups == 0 || shape->group[g].n < 2) return;
    memmove(&shape->group[g + 1], &shape->group[g], sizeof *shape->group * (size_t)(shape->n_groups - g));
    shape->group[g].n = 1;
    shape->group[g + 1].first++, shape->group[g + 1].n--;
    if (g < shape->n_outer_groups)
        shape->n_outer_groups++;
    else if (g < shape_L_first(shape))
        shape->n_s_groups++;
    shape->n_groups++;
    if (shape_splits_rows(shape)) shape->index_bits = roll(dice, 2) ? 32 : 64;
}

typedef void Change(NestMapping *shape, Dice *dice);
static Change *const changes[] = {change_columns,  change_index,  change_strategy, change_kept,
                                  change_prefetch, change_stream, change_shared,   split_group};

static NestMapping *copy(Arena *arena, const Nest *nest, const NestMapping *shape) {
    Text text = {0};
    shape_print(shape, nest, &text);
    TextReader in = {.what = "shape", .between = BETWEEN_comments, .start = text_str(&text), .at = text_str(&text)};
    NestMapping *made = NULL;
    if (shape_parse(arena, &in, nest, &made) != ST_OK) made = NULL;
    text_free(&text);
    return made;
}

NestMapping *random_shape(Arena *arena, const Nest *nest, const Buf *bufs, const Machine *machine, uint64_t seed) {
    Dice dice = {seed};
    NestMapping *shape = shape_decide(arena, nest, bufs, machine);
    for (int k = 0; shape && k < 40; k++) {
        NestMapping *const other = copy(arena, nest, shape);
        if (!other) return NULL;
        changes[roll(&dice, COUNT_OF(changes))](other, &dice);
        NestMapping *const whole = copy(arena, nest, other);
        if (whole && shape_verify(whole, nest, bufs, machine) == ST_OK) shape = whole;
        error_clear();
    }
    return shape;
}
