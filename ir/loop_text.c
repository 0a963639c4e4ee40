/* loop_text.c: kernels as text. print -> parse -> print gives the same bytes.
 *
 *   kernel k0_norm(b0: in f32, b1: in i64, b2: out f32) params(p0, p1: float) {
 *     nest k0_norm_n0 outer(p0) inner(4; 768) order LS {
 *       reduce inner:
 *         %0 = load f32 b0[3072*i0 + 768*j0 + j1]
 *         %1 = reduce sum.f32 %0
 *       map inner:
 *         %2 = const f32 768.0
 *         %3 = div.f32 %1, %2
 *         %4 = load i64 b1[j1]
 *         %5 = gather f32 b0[j1 + 768*%4] below 1000 wrap
 *         %6 = add.f32 %3, %5
 *         store b2[3072*i0 + 768*j0 + j1], %6
 *     }
 *   }
 *
 * Instructions are numbered as they lie in the nest, stores included. i0, i1... are outer dims, j0,
 * j1... inner ones; before the ';' are S dims. A primitive's suffix is its operands' type. Nests
 * without inner dims have one phase, `map:`. A kernel with a template begins
 * with its line (ir/template.h). */
#include "ir/loop.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/base/text_reader.h"

/* printing ------------------------------------------------------------------------------------ */

static void print_int(Text *text, int64_t v) {
    if (sym_is(v))
        text_printf(text, "p%d", sym_id(v));
    else
        text_printf(text, "%lld", (long long)v);
}

static void print_ints(Text *text, const int64_t *list, int n) {
    for (int i = 0; i < n; i++) {
        if (i) text_puts(text, ", ");
        print_int(text, list[i]);
    }
}

static void print_term(Text *text, bool *some, int64_t factor, const char *name, int number) {
    if (factor == 0) return;
    if (*some) text_puts(text, " + ");
    *some = true;
    if (factor != 1) {
        print_int(text, factor);
        text_puts(text, "*");
    }
    text_printf(text, "%s%d", name, number);
}

static void print_place(Text *text, const Nest *nest, const Inst *inst) {
    bool some = false;
    text_puts(text, "[");
    for (int i = 0; i < nest->n_outer + nest->n_inner; i++) {
        const bool outer = i < nest->n_outer;
        print_term(text, &some, inst->at->coef[i], outer ? "i" : "j", outer ? i : i - nest->n_outer);
    }
    if (inst->op == LI_gather) {
        if (some) text_puts(text, " + ");
        print_int(text, inst->scale);
        text_printf(text, "*%%%d", inst->a);
        some = true;
    }
    if (!some || inst->at->offset != 0) {
        if (some) text_puts(text, " + ");
        print_int(text, inst->at->offset);
    }
    text_puts(text, "]");
}

/* Floats read back to the same bits; NaNs other than the default one print theirs. */
static void print_constant(Text *text, const Inst *inst) {
    const bool is_float = inst->type == S_f32 || inst->type == S_f64;
    int64_t quiet;
    const double nan_value = NAN;
    memcpy(&quiet, &nan_value, sizeof quiet);
    if (!is_float)
        text_printf(text, "%lld", (long long)inst->i);
    else if (isnan(inst->f) && inst->i != quiet)
        text_printf(text, "bits %lld", (long long)inst->i);
    else
        text_double(text, inst->f);
}

static void print_operands(Text *text, const Inst *inst) {
    const int16_t operand[3] = {inst->a, inst->b, inst->c};
    for (int i = 0; i < 3 && operand[i] >= 0; i++) text_printf(text, "%s%%%d", i ? ", " : " ", operand[i]);
}

static void print_inst(Text *text, const Kernel *kernel, const Nest *nest, int number) {
    const Inst *const inst = &nest->insts[number];
    const char *const type = stype_name((SType)inst->type);
    text_puts(text, "      ");
    if (inst->op != LI_store) text_printf(text, "%%%d = ", number);
    switch ((LoopOp)inst->op) {
    case LI_const:
        text_printf(text, "const %s ", type);
        print_constant(text, inst);
        break;
    case LI_param:
        text_printf(text, "param %s p%d", type, inst->param);
        break;
    case LI_index:
        text_puts(text, "index ");
        print_place(text, nest, inst);
        break;
    case LI_load:
    case LI_gather:
        text_printf(text, "%s %s b%d", inst->op == LI_load ? "load" : "gather",
                    dtype_name(kernel->bufs[inst->buf].dtype), inst->buf);
        print_place(text, nest, inst);
        if (inst->op == LI_load) break;
        text_puts(text, " below ");
        print_int(text, inst->bound);
        if (inst->wrap_negative) text_puts(text, " wrap");
        break;
    case LI_prim: {
        const int16_t typed = inst->prim == PRIM_select ? inst->b : inst->a;
        text_printf(text, "%s.%s", prim_name((Prim)inst->prim), stype_name((SType)nest->insts[typed].type));
        print_operands(text, inst);
        break;
    }
    case LI_cast:
        text_printf(text, "cast.%s", type);
        print_operands(text, inst);
        break;
    case LI_reduce:
        text_printf(text, "reduce %s.%s", red_name((RedKind)inst->prim), stype_name((SType)nest->insts[inst->a].type));
        print_operands(text, inst);
        break;
    case LI_store:
        text_printf(text, "store b%d", inst->buf);
        print_place(text, nest, inst);
        text_printf(text, ", %%%d", inst->a);
        break;
    }
    text_puts(text, "\n");
}

static void print_inner_dims(Text *text, const Nest *nest) {
    const int64_t *const inner = nest->extent + nest->n_outer;
    const int n_l = nest->n_inner - nest->n_s;
    if (!nest->n_inner) return;
    text_puts(text, " inner(");
    print_ints(text, inner, nest->n_s);
    if (nest->n_s && n_l) text_puts(text, "; ");
    print_ints(text, inner + nest->n_s, n_l);
    text_printf(text, ") order %s", !nest->n_s ? "L" : n_l ? "LS" : "S");
}

static void print_nest(Text *text, const Kernel *kernel, const Nest *nest) {
    text_puts(text, "  nest ");
    if (nest->name) text_printf(text, "%s ", nest->name);
    text_puts(text, "outer(");
    print_ints(text, nest->extent, nest->n_outer);
    text_puts(text, ")");
    print_inner_dims(text, nest);
    text_puts(text, " {\n");
    for (int i = 0; i < nest->n_phases; i++) {
        const Phase *const phase = &nest->phases[i];
        text_puts(text, phase->kind == PHASE_reduce ? "    reduce inner:\n"
                        : !nest->n_inner            ? "    map:\n"
                        : phase->over_outer         ? "    map outer:\n"
                                                    : "    map inner:\n");
        for (int k = 0; k < phase->n; k++) print_inst(text, kernel, nest, phase->first + k);
    }
    text_puts(text, "  }\n");
}

static void print_template(Text *text, const TemplateUse *use) {
    const Template *const row = use->row;
    text_printf(text, "  %s %s%s [", row->name, dtype_name(use->dtype), use->fast ? " fast" : "");
    print_ints(text, use->size, (int)strlen(row->sizes));
    text_puts(text, "]");
    for (int i = 0; i < TEMPLATE_OPERANDS && row->operands[i].name; i++) {
        const TemplateOperand *const operand = &use->operand[i];
        if (operand->buf < 0) continue;
        text_printf(text, " %s=b%d[", row->operands[i].name, operand->buf);
        print_int(text, operand->offset);
        text_puts(text, "; ");
        print_ints(text, operand->stride, (int)strlen(row->operands[i].dims));
        text_puts(text, "]");
    }
    if (use->tile >= 0) text_printf(text, " tile=b%d", use->tile);
    if (use->tile_ld >= 0) text_printf(text, " ld=p%d", use->tile_ld);
    text_puts(text, "\n");
}

static const char *const role_names[] = {"in", "out", "inout", "temp", "tile"};

void kernel_print(const Kernel *kernel, Text *text) {
    text_printf(text, "kernel %s(", kernel->name ? kernel->name : "k");
    for (int i = 0; i < kernel->n_bufs; i++)
        text_printf(text, "%sb%d: %s %s", i ? ", " : "", i, role_names[kernel->bufs[i].role],
                    dtype_name(kernel->bufs[i].dtype));
    text_puts(text, ")");
    for (int i = 0; i < kernel->n_params; i++) {
        const bool is_float = kernel->param_is_float && kernel->param_is_float[i];
        text_printf(text, "%sp%d%s", i ? ", " : " params(", i, is_float ? ": float" : "");
    }
    text_puts(text, kernel->n_params ? ")" : "");
    text_puts(text, kernel->independent ? " independent {\n" : " {\n");
    if (kernel->template) print_template(text, kernel->template);
    for (int i = 0; i < kernel->n_nests; i++) print_nest(text, kernel, &kernel->nests[i]);
    text_puts(text, "}\n");
}

/* parsing ------------------------------------------------------------------------------------- */

enum { MAX_ITEMS = 64 };

typedef struct LoopReader {
    Arena *arena;
    TextReader in;
    Kernel *kernel;
    VEC(Buf) bufs;
    VEC(bool) floats;
    VEC(Nest) nests;
    VEC(Inst) insts;
    VEC(Phase) phases;
    Nest nest; /* the one being read */
} LoopReader;

static Status read_word(LoopReader *r, const char **word, size_t *n) {
    return reader_word(&r->in, word, n) ? ST_OK : reader_expected(&r->in, "a word");
}

/* A prefix and a number, like b3, p0, %12, i1. */
static Status read_numbered(LoopReader *r, char prefix, int limit, int *number) {
    reader_skip(&r->in);
    const char what[] = {prefix, '<', 'n', '>', '\0'};
    if (*r->in.at != prefix || r->in.at[1] < '0' || r->in.at[1] > '9') return reader_expected(&r->in, what);
    char *end;
    const long value = strtol(r->in.at + 1, &end, 10);
    if (value >= limit) return reader_expected(&r->in, "a smaller number");
    r->in.at = end;
    *number = (int)value;
    return ST_OK;
}

static Status read_int(LoopReader *r, int64_t *out) {
    reader_skip(&r->in);
    if (*r->in.at == 'p') {
        int param;
        TRY(read_numbered(r, 'p', r->floats.n, &param));
        *out = sym_make(param);
        return ST_OK;
    }
    return reader_int(&r->in, out);
}

static Status read_ints(LoopReader *r, int64_t *list, int n) {
    for (int i = 0; i < n; i++) {
        if (i) EAT(&r->in, ",");
        TRY(read_int(r, &list[i]));
    }
    return ST_OK;
}

static Status read_dtype(LoopReader *r, DType *out) {
    const char *word;
    size_t n;
    TRY(read_word(r, &word, &n));
    *out = dtype_find(word, n);
    return *out == DT_default ? reader_expected(&r->in, "a dtype before this") : ST_OK;
}

static Status read_stype(LoopReader *r, SType *out) {
    const char *word;
    size_t n;
    TRY(read_word(r, &word, &n));
    for (int i = 0; i < S_COUNT; i++) {
        if (strlen(stype_name((SType)i)) != n || memcmp(stype_name((SType)i), word, n)) continue;
        *out = (SType)i;
        return ST_OK;
    }
    return reader_expected(&r->in, "a type before this");
}

static Status read_operand(LoopReader *r, int16_t *out) {
    int number;
    TRY(read_numbered(r, '%', r->insts.n, &number));
    *out = (int16_t)number;
    return ST_OK;
}

static Status read_operands(LoopReader *r, Inst *inst) {
    TRY(read_operand(r, &inst->a));
    if (!reader_eat(&r->in, ",")) return ST_OK;
    TRY(read_operand(r, &inst->b));
    return reader_eat(&r->in, ",") ? read_operand(r, &inst->c) : ST_OK;
}

/* One summand of a place: [factor*]i<n>, [factor*]j<n>, factor*%<n>, or the offset. */
static Status read_summand(LoopReader *r, Inst *inst) {
    int64_t factor = 1;
    int dim;
    reader_skip(&r->in);
    if (*r->in.at != 'i' && *r->in.at != 'j') {
        TRY(read_int(r, &factor));
        if (!reader_eat(&r->in, "*")) {
            inst->at->offset = factor;
            return ST_OK;
        }
        reader_skip(&r->in);
    }
    if (*r->in.at == '%') {
        inst->scale = factor;
        return read_operand(r, &inst->a);
    }
    const bool outer = *r->in.at == 'i';
    TRY(read_numbered(r, outer ? 'i' : 'j', outer ? r->nest.n_outer : r->nest.n_inner, &dim));
    inst->at->coef[outer ? dim : r->nest.n_outer + dim] = factor;
    return ST_OK;
}

static Status read_place(LoopReader *r, Inst *inst) {
    inst->at = ARENA_NEW(r->arena, Affine);
    if (!inst->at) return ST_MEMORY;
    EAT(&r->in, "[");
    do TRY(read_summand(r, inst));
    while (reader_eat(&r->in, "+"));
    EAT(&r->in, "]");
    return ST_OK;
}

static Status read_buffer(LoopReader *r, Inst *inst) {
    int buf;
    TRY(read_numbered(r, 'b', r->bufs.n, &buf));
    inst->buf = (int16_t)buf;
    inst->type = (uint8_t)dtype_compute(r->bufs.at[buf].dtype);
    return read_place(r, inst);
}

static Status read_load(LoopReader *r, Inst *inst) {
    DType dtype;
    TRY(read_dtype(r, &dtype));
    TRY(read_buffer(r, inst));
    if (r->bufs.at[inst->buf].dtype != dtype) return reader_expected(&r->in, "the buffer's dtype before this");
    if (inst->op == LI_load) return ST_OK;
    if (inst->a < 0) return reader_expected(&r->in, "an index instruction before this");
    EAT(&r->in, "below");
    TRY(read_int(r, &inst->bound));
    inst->wrap_negative = reader_eat(&r->in, "wrap");
    return ST_OK;
}

static Status read_constant(LoopReader *r, Inst *inst) {
    SType type;
    TRY(read_stype(r, &type));
    inst->type = (uint8_t)type;
    const bool bits = reader_eat(&r->in, "bits");
    char *end;
    reader_skip(&r->in);
    if (!bits && (type == S_f32 || type == S_f64))
        inst->f = *r->in.at == 'n' ? NAN : strtod(r->in.at, &end);
    else
        inst->i = strtoll(r->in.at, &end, 10);
    if (*r->in.at == 'n') end = (char *)r->in.at + (strncmp(r->in.at, "nan", 3) ? 0 : 3);
    if (end == r->in.at) return reader_expected(&r->in, "a number");
    r->in.at = end;
    return ST_OK;
}

static Status read_param(LoopReader *r, Inst *inst) {
    SType type;
    int param;
    TRY(read_stype(r, &type));
    TRY(read_numbered(r, 'p', r->floats.n, &param));
    inst->type = (uint8_t)type;
    inst->param = (int16_t)param;
    return ST_OK;
}

static Status read_index(LoopReader *r, Inst *inst) {
    inst->type = S_i64;
    return read_place(r, inst);
}

static Status read_cast(LoopReader *r, Inst *inst) {
    SType type;
    EAT(&r->in, ".");
    TRY(read_stype(r, &type));
    inst->type = (uint8_t)type;
    return read_operand(r, &inst->a);
}

static Status read_reduce(LoopReader *r, Inst *inst) {
    const char *word;
    size_t n;
    SType type;
    int kind = 0;
    TRY(read_word(r, &word, &n));
    while (kind < RED_COUNT && (strlen(red_name((RedKind)kind)) != n || memcmp(red_name((RedKind)kind), word, n)))
        kind++;
    if (kind == RED_COUNT) return reader_expected(&r->in, "a reduction before this");
    EAT(&r->in, ".");
    TRY(read_stype(r, &type));
    inst->prim = (uint8_t)kind;
    inst->type = kind == RED_argmax || kind == RED_argmin ? S_i64 : (uint8_t)type;
    return read_operands(r, inst);
}

static Status read_prim(LoopReader *r, Inst *inst) {
    const char *word;
    size_t n;
    SType type;
    TRY(read_word(r, &word, &n));
    const int prim = prim_find(word, n);
    if (prim < 0) return reader_expected(&r->in, "an instruction before this");
    EAT(&r->in, ".");
    TRY(read_stype(r, &type));
    inst->prim = (uint8_t)prim;
    inst->type = prim_returns_bool((Prim)prim) ? S_b : (uint8_t)type;
    return read_operands(r, inst);
}

static Status read_store(LoopReader *r, Inst *inst) {
    TRY(read_buffer(r, inst));
    EAT(&r->in, ",");
    return read_operand(r, &inst->a);
}

static const struct {
    const char *word;
    LoopOp op;
    Status (*read)(LoopReader *r, Inst *inst);
} kinds[] = {
    {"const", LI_const, read_constant}, {"param", LI_param, read_param},  {"index", LI_index, read_index},
    {"load", LI_load, read_load},       {"gather", LI_gather, read_load}, {"cast", LI_cast, read_cast},
    {"reduce", LI_reduce, read_reduce}, {"store", LI_store, read_store},
};

static bool reads_inner(const LoopReader *r, const Inst *inst) {
    const int16_t operand[3] = {inst->a, inst->b, inst->c};
    for (int i = 0; i < 3; i++)
        if (operand[i] >= 0 && r->insts.at[operand[i]].inner) return inst->op != LI_reduce;
    for (int i = r->nest.n_outer; inst->at && i < r->nest.n_outer + r->nest.n_inner; i++)
        if (inst->at->coef[i] != 0) return true;
    return false;
}

static Status read_inst(LoopReader *r, const Phase *phase) {
    Inst inst = {.op = LI_prim, .a = -1, .b = -1, .c = -1, .buf = -1, .param = -1, .source = -1};
    int number;
    if (*r->in.at == '%') {
        TRY(read_numbered(r, '%', INT16_MAX, &number));
        if (number != r->insts.n) return reader_expected(&r->in, "the next number before this");
        EAT(&r->in, "=");
    }
    size_t kind = 0;
    while (kind < COUNT_OF(kinds) && !reader_eat(&r->in, kinds[kind].word)) kind++;
    if (kind < COUNT_OF(kinds)) inst.op = (uint8_t)kinds[kind].op;
    TRY(kind < COUNT_OF(kinds) ? kinds[kind].read(r, &inst) : read_prim(r, &inst));
    inst.inner = inst.op == LI_store ? !phase->over_outer && r->nest.n_inner > 0 : reads_inner(r, &inst);
    VEC_PUSH(r->arena, &r->insts, inst);
    return ST_OK;
}

static bool read_phase_head(LoopReader *r, Phase *phase) {
    *phase = (Phase){.first = r->insts.n};
    if (reader_eat(&r->in, "reduce inner:"))
        phase->kind = PHASE_reduce;
    else if (reader_eat(&r->in, "map outer:"))
        phase->over_outer = true;
    else if (!reader_eat(&r->in, "map inner:") && !reader_eat(&r->in, "map:"))
        return false;
    return true;
}

static Status read_phases(LoopReader *r) {
    Phase phase, next;
    if (!read_phase_head(r, &phase)) return reader_expected(&r->in, "a phase");
    for (;;) {
        reader_skip(&r->in);
        const bool end = *r->in.at == '}';
        const bool head = !end && read_phase_head(r, &next);
        if (end || head) {
            phase.n = r->insts.n - phase.first;
            VEC_PUSH(r->arena, &r->phases, phase);
            phase = next;
        }
        if (end) return ST_OK;
        if (!head) TRY(read_inst(r, &phase));
    }
}

static Status read_extents(LoopReader *r, int64_t *list, int *n, int *before_semicolon) {
    EAT(&r->in, "(");
    while (!reader_eat(&r->in, ")")) {
        if (*n && reader_eat(&r->in, ";"))
            *before_semicolon = *n;
        else if (*n)
            EAT(&r->in, ",");
        if (*n == MAX_LOOP_DIMS) return reader_expected(&r->in, "fewer dims");
        TRY(read_int(r, &list[(*n)++]));
    }
    return ST_OK;
}

static Status read_dims(LoopReader *r) {
    Nest *const nest = &r->nest;
    int64_t inner[MAX_LOOP_DIMS];
    int before = 0;
    EAT(&r->in, "outer");
    TRY(read_extents(r, nest->extent, &nest->n_outer, &before));
    if (!reader_eat(&r->in, "inner")) return ST_OK;
    before = 0;
    TRY(read_extents(r, inner, &nest->n_inner, &before));
    if (nest->n_outer + nest->n_inner > MAX_LOOP_DIMS) return reader_expected(&r->in, "fewer dims before this");
    memcpy(nest->extent + nest->n_outer, inner, sizeof *inner * (size_t)nest->n_inner);
    EAT(&r->in, "order");
    nest->n_s = before;
    if (reader_eat(&r->in, "L") || reader_eat(&r->in, "LS")) return ST_OK;
    nest->n_s = nest->n_inner;
    EAT(&r->in, "S");
    return ST_OK;
}

static char *copy_word(LoopReader *r, const char *word, size_t n) {
    char *const copy = arena_alloc(r->arena, n + 1);
    if (copy) memcpy(copy, word, n);
    return copy;
}

static Status read_nest(LoopReader *r) {
    r->nest = (Nest){0};
    r->insts.n = r->phases.n = 0;
    reader_skip(&r->in);
    if (strncmp(r->in.at, "outer(", 6)) {
        const char *word;
        size_t n;
        TRY(read_word(r, &word, &n));
        r->nest.name = copy_word(r, word, n);
    }
    TRY(read_dims(r));
    EAT(&r->in, "{");
    TRY(read_phases(r));
    EAT(&r->in, "}");
    r->nest.n_insts = r->insts.n;
    r->nest.n_phases = r->phases.n;
    r->nest.insts = arena_copy(r->arena, r->insts.at, sizeof(Inst) * (size_t)r->insts.n);
    r->nest.phases = arena_copy(r->arena, r->phases.at, sizeof(Phase) * (size_t)r->phases.n);
    VEC_PUSH(r->arena, &r->nests, r->nest);
    return ST_OK;
}

static Status read_matrix(LoopReader *r, TemplateOperand *operand, const char *dims) {
    EAT(&r->in, "=");
    TRY(read_numbered(r, 'b', r->bufs.n, &operand->buf));
    EAT(&r->in, "[");
    TRY(read_int(r, &operand->offset));
    EAT(&r->in, ";");
    TRY(read_ints(r, operand->stride, (int)strlen(dims)));
    EAT(&r->in, "]");
    return ST_OK;
}

static Status read_template(LoopReader *r, const Template *row) {
    TemplateUse *const use = ARENA_NEW(r->arena, TemplateUse);
    if (!use) return ST_MEMORY;
    *use = template_use(row);
    TRY(read_dtype(r, &use->dtype));
    use->fast = reader_eat(&r->in, "fast");
    EAT(&r->in, "[");
    TRY(read_ints(r, use->size, (int)strlen(row->sizes)));
    EAT(&r->in, "]");
    for (int i = 0; i < TEMPLATE_OPERANDS && row->operands[i].name; i++) {
        const bool given = reader_eat(&r->in, row->operands[i].name);
        if (!given && !row->operands[i].result) return reader_expected(&r->in, row->operands[i].name);
        if (given) TRY(read_matrix(r, &use->operand[i], row->operands[i].dims));
    }
    if (reader_eat(&r->in, "tile=")) TRY(read_numbered(r, 'b', r->bufs.n, &use->tile));
    if (reader_eat(&r->in, "ld=")) TRY(read_numbered(r, 'p', r->floats.n, &use->tile_ld));
    r->kernel->template = use;
    return ST_OK;
}

static Status read_templates(LoopReader *r) {
    for (int i = 0; i < TEMPLATE_COUNT; i++)
        if (reader_eat(&r->in, templates[i].name)) return read_template(r, &templates[i]);
    return ST_OK;
}

static Status read_buf(LoopReader *r) {
    int number;
    Buf buf;
    TRY(read_numbered(r, 'b', INT16_MAX, &number));
    if (number != r->bufs.n) return reader_expected(&r->in, "the next buffer before this");
    EAT(&r->in, ":");
    int role = 0;
    while (role < COUNT_OF(role_names) && !reader_eat(&r->in, role_names[role])) role++;
    if (role == COUNT_OF(role_names)) return reader_expected(&r->in, "a role");
    buf.role = (BufRole)role;
    TRY(read_dtype(r, &buf.dtype));
    VEC_PUSH(r->arena, &r->bufs, buf);
    return ST_OK;
}

static Status read_parameter(LoopReader *r) {
    int number;
    TRY(read_numbered(r, 'p', INT16_MAX, &number));
    if (number != r->floats.n) return reader_expected(&r->in, "the next parameter before this");
    const bool is_float = reader_eat(&r->in, ":");
    if (is_float) EAT(&r->in, "float");
    VEC_PUSH(r->arena, &r->floats, is_float);
    return ST_OK;
}

static Status loop_list(LoopReader *r, Status (*read)(LoopReader *)) {
    EAT(&r->in, "(");
    if (reader_eat(&r->in, ")")) return ST_OK;
    do TRY(read(r));
    while (reader_eat(&r->in, ","));
    EAT(&r->in, ")");
    return ST_OK;
}

static Status read_kernel(LoopReader *r) {
    const char *word;
    size_t n;
    EAT(&r->in, "kernel");
    TRY(read_word(r, &word, &n));
    r->kernel->name = copy_word(r, word, n);
    TRY(loop_list(r, read_buf));
    if (reader_eat(&r->in, "params")) TRY(loop_list(r, read_parameter));
    r->kernel->independent = reader_eat(&r->in, "independent");
    EAT(&r->in, "{");
    TRY(read_templates(r));
    while (reader_eat(&r->in, "nest")) TRY(read_nest(r));
    EAT(&r->in, "}");
    return ST_OK;
}

Status kernel_parse(Arena *arena, const char *text, const char **end, Kernel **out) {
    LoopReader r = {
        .in = {"kernel text", BETWEEN_blanks, text, text}, .arena = arena, .kernel = ARENA_NEW(arena, Kernel)};
    if (!r.kernel) return ST_MEMORY;
    TRY(read_kernel(&r));
    r.kernel->n_bufs = r.bufs.n;
    r.kernel->bufs = r.bufs.at;
    r.kernel->n_params = r.floats.n;
    r.kernel->param_is_float = r.floats.at;
    r.kernel->n_nests = r.nests.n;
    r.kernel->nests = r.nests.at;
    if (*r.in.at == '\n') r.in.at++;
    if (end) *end = r.in.at;
    *out = r.kernel;
    return ST_OK;
}
