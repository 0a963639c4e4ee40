/* text.c: a shape as text. print -> parse -> print gives the same bytes; what is the usual case has no line.
 *
 *   shape k0_softmax_n0 {
 *     rows lanes 16
 *     dims (i0) (i1) L (j0 j1)
 *     phase 0 registers
 *     phase 1 copies 4
 *     keep %4 phase 0, %2 phase 0
 *     ahead %0 phase 1 near
 *     stream %9 ragged when bytes > 16777216
 *   }
 *
 * Other modes: `columns lanes 16 copies 4 masked`, with `shared %3 %5`; `panels lanes 16 columns 1024 rows 4`; rows
 * whose L dims are several loops, `rows lanes 16 index 32`. Dims in one pair of parentheses run as one loop; S and L
 * begin the inner ones. */
#include "codegen/shape/parts.h"

static const char *const mode_names[] = {"columns", "panels", "rows"};
static const char *const strategy_names[] = {[STRATEGY_copies] = "copies",
                                             [STRATEGY_masked] = "masked",
                                             [STRATEGY_registers] = "registers",
                                             [STRATEGY_memory] = "memory"};

/* printing ------------------------------------------------------------------------------------ */

static void print_strategies(const NestMapping *shape, Text *text) {
    for (int p = 0; p < shape->n_phases; p++) {
        if (shape->phase[p].strategy == STRATEGY_none) continue;
        text_printf(text, "  phase %d %s", p, strategy_names[shape->phase[p].strategy]);
        if (shape->phase[p].strategy == STRATEGY_copies) text_printf(text, " %d", shape->phase[p].copies);
        text_puts(text, "\n");
    }
}

static void print_rows(const NestMapping *shape, Text *text) {
    for (int k = 0; k < shape->n_kept; k++) {
        const int i = shape->kept[k];
        text_printf(text, "%s%%%d phase %d", k ? ", " : "  keep ", i, shape->inst[i].kept_in);
    }
    if (shape->n_kept) text_puts(text, "\n");
    int n = 0;
    for (int i = 0; i < shape->n_insts; i++)
        if (shape->inst[i].prefetch_in >= 0)
            text_printf(text, "%s%%%d phase %d", n++ ? ", " : "  ahead ", i, shape->inst[i].prefetch_in);
    if (n) text_puts(text, shape->near ? " near\n" : "\n");
}

static void print_stream(const NestMapping *shape, Text *text) {
    if (shape->stream == STREAM_never) return;
    text_puts(text, "  stream");
    for (int i = 0; i < shape->n_insts; i++)
        if (shape->inst[i].streams) text_printf(text, " %%%d", i);
    if (shape->ragged) text_puts(text, " ragged");
    if (shape->stream == STREAM_when) text_printf(text, " when bytes > %lld", (long long)shape->stream_bytes);
    text_puts(text, "\n");
}

static void print_shared(const NestMapping *shape, Text *text) {
    bool some = false;
    for (int i = 0; i < shape->n_insts; i++) {
        if (!shape->inst[i].shared) continue;
        text_printf(text, "%s %%%d", some ? "" : "  shared", i);
        some = true;
    }
    if (some) text_puts(text, "\n");
}

void shape_print(const NestMapping *shape, const Nest *nest, Text *text) {
    text_printf(text, "shape %s%s{\n", nest->name ? nest->name : "", nest->name ? " " : "");
    text_printf(text, "  %s lanes %d", mode_names[shape->mode], shape->lanes);
    if (shape->mode == SHAPE_columns) text_printf(text, " copies %d", shape->copies);
    if (shape->mode == SHAPE_panels) text_printf(text, " columns %d rows %d", shape->panel_columns, shape->panel_rows);
    if (shape->index_bits) text_printf(text, " index %d", shape->index_bits);
    text_puts(text, shape->masked ? " masked\n" : "\n");
    const DimGroups dims = {shape->n_groups, shape->n_outer_groups, shape->n_s_groups, shape->group};
    dims_print(&dims, nest, text);
    print_strategies(shape, text);
    print_rows(shape, text);
    print_stream(shape, text);
    print_shared(shape, text);
    text_puts(text, "}\n");
}

/* parsing ------------------------------------------------------------------------------------- */

static Status read_inst(TextReader *in, const NestMapping *shape, int *out) {
    EAT(in, "%");
    TRY(reader_count(in, out));
    return *out < shape->n_insts ? ST_OK : reader_expected(in, "an instruction of the nest before this");
}

static Status read_phase(TextReader *in, const NestMapping *shape, int *out) {
    EAT(in, "phase");
    TRY(reader_count(in, out));
    return *out < shape->n_phases ? ST_OK : reader_expected(in, "a phase of the nest before this");
}

static bool begins(TextReader *in, const char *token) {
    reader_skip(in);
    return !strncmp(in->at, token, strlen(token));
}

static Status read_mode(TextReader *in, NestMapping *shape) {
    int mode = 0;
    while (mode < COUNT_OF(mode_names) && !reader_eat(in, mode_names[mode])) mode++;
    if (mode == COUNT_OF(mode_names)) return reader_expected(in, "columns, panels or rows");
    shape->mode = (ShapeMode)mode;
    EAT(in, "lanes");
    TRY(reader_count(in, &shape->lanes));
    switch (shape->mode) {
    case SHAPE_columns:
        EAT(in, "copies");
        TRY(reader_count(in, &shape->copies));
        shape->masked = reader_eat(in, "masked");
        return ST_OK;
    case SHAPE_panels:
        EAT(in, "columns");
        TRY(reader_count(in, &shape->panel_columns));
        EAT(in, "rows");
        return reader_count(in, &shape->panel_rows);
    default:
        return reader_eat(in, "index") ? reader_count(in, &shape->index_bits) : ST_OK;
    }
}

static Status read_strategies(TextReader *in, NestMapping *shape) {
    while (begins(in, "phase")) {
        int p, strategy = STRATEGY_copies;
        TRY(read_phase(in, shape, &p));
        while (strategy < COUNT_OF(strategy_names) && !reader_eat(in, strategy_names[strategy])) strategy++;
        if (strategy == COUNT_OF(strategy_names)) return reader_expected(in, "copies, masked, registers or memory");
        shape->phase[p].strategy = (LoopStrategy)strategy;
        if (strategy == STRATEGY_copies) TRY(reader_count(in, &shape->phase[p].copies));
    }
    return ST_OK;
}

static Status read_kept(TextReader *in, NestMapping *shape) {
    if (!reader_eat(in, "keep")) return ST_OK;
    do {
        int i, p;
        TRY(read_inst(in, shape, &i));
        TRY(read_phase(in, shape, &p));
        if (shape->inst[i].kept_in >= 0) return reader_expected(in, "each value once before this");
        shape->inst[i].kept_in = (int16_t)p;
        shape->kept[shape->n_kept++] = (int16_t)i;
    } while (reader_eat(in, ","));
    return ST_OK;
}

static Status read_prefetch(TextReader *in, NestMapping *shape) {
    if (!reader_eat(in, "ahead")) return ST_OK;
    do {
        int i, p;
        TRY(read_inst(in, shape, &i));
        TRY(read_phase(in, shape, &p));
        shape->inst[i].prefetch_in = (int16_t)p;
    } while (reader_eat(in, ","));
    shape->near = reader_eat(in, "near");
    return ST_OK;
}

static Status read_stream(TextReader *in, NestMapping *shape) {
    if (!reader_eat(in, "stream")) return ST_OK;
    while (begins(in, "%")) {
        int i;
        TRY(read_inst(in, shape, &i));
        shape->inst[i].streams = true;
    }
    shape->ragged = reader_eat(in, "ragged");
    shape->stream = STREAM_always;
    if (!reader_eat(in, "when bytes >")) return ST_OK;
    shape->stream = STREAM_when;
    return reader_int(in, &shape->stream_bytes);
}

static Status read_shared(TextReader *in, NestMapping *shape) {
    if (!reader_eat(in, "shared")) return ST_OK;
    while (begins(in, "%")) {
        int i;
        TRY(read_inst(in, shape, &i));
        shape->inst[i].shared = true;
    }
    return ST_OK;
}

Status shape_parse(Arena *arena, TextReader *in, const Nest *nest, NestMapping **out) {
    NestMapping *const shape = shape_new(arena, nest);
    if (!shape) return ST_MEMORY;
    EAT(in, "shape");
    if (nest->name && !reader_eat(in, nest->name)) return reader_expected(in, "the name of the next nest");
    EAT(in, "{");
    TRY(read_mode(in, shape));
    DimGroups dims;
    TRY(dims_parse(in, nest, shape->group, &dims));
    shape->n_groups = dims.n, shape->n_outer_groups = dims.n_outer, shape->n_s_groups = dims.n_s;
    TRY(read_strategies(in, shape));
    TRY(read_kept(in, shape));
    TRY(read_prefetch(in, shape));
    TRY(read_stream(in, shape));
    TRY(read_shared(in, shape));
    EAT(in, "}");
    *out = shape;
    return ST_OK;
}
