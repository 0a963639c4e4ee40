/* loop.c: tables of the scalar primitives and reductions, and the structure of kernels, as words and as a hash.
 *
 * Both cover what an executor can see: dims, phases, instructions, buffer dtypes and roles; not names, sources, or the
 * expressions behind parameters. A hash narrows a search; nests are equal where their words are. */
#include "ir/loop.h"

#include "runtime/base/hash.h"

enum {
    TYPES_F = 1 << S_f32 | 1 << S_f64,
    TYPES_I = 1 << S_i32 | 1 << S_i64,
    TYPES_FI = TYPES_F | TYPES_I,
    TYPES_IB = TYPES_I | 1 << S_b,
    TYPES_FIB = TYPES_FI | 1 << S_b,
    RESULT_T = 0,
    RESULT_B = 1
};

typedef struct PrimRow {
    const char *name;
    int arity, types, result;
    double ulps[2]; /* of f32, f64 */
} PrimRow;

#define EXACT                                                                                                          \
    { 0.5, 0.5 }
#define ULP(f, d)                                                                                                      \
    { f, d }
static const PrimRow rows[PRIM_COUNT] = {
#define SCALAR(name, arity, types, result, llvm, bound, doc) {#name, arity, TYPES_##types, RESULT_##result, bound},
#include "ir/scalar.def"
#undef SCALAR
};
#undef EXACT
#undef ULP

/* The rows whose text says "only": one type of their class. */
static const int only[PRIM_COUNT] = {
    [PRIM_philox] = 1 << S_i64,   [PRIM_round_f16] = 1 << S_f32, [PRIM_round_bf16] = 1 << S_f32,
    [PRIM_wrap_i16] = 1 << S_i32, [PRIM_wrap_i8] = 1 << S_i32,   [PRIM_wrap_u8] = 1 << S_i32,
};

const char *prim_name(Prim prim) { return rows[prim].name; }
int prim_arity(Prim prim) { return rows[prim].arity; }
double prim_ulps(Prim prim, SType type) { return rows[prim].ulps[type == S_f64]; }
bool prim_returns_bool(Prim prim) { return rows[prim].result == RESULT_B; }
bool prim_has_type(Prim prim, SType type) { return ((only[prim] ? only[prim] : rows[prim].types) >> type) & 1; }

int prim_find(const char *name, size_t n) {
    for (int i = 0; i < PRIM_COUNT; i++)
        if (strlen(rows[i].name) == n && !memcmp(rows[i].name, name, n)) return i;
    return -1;
}

const char *red_name(RedKind kind) {
    static const char *const names[RED_COUNT] = {"sum", "dot", "prod", "max", "min", "any", "all", "argmax", "argmin"};
    return names[kind];
}

/* structure ----------------------------------------------------------------------------------- */

typedef struct WordList {
    int64_t *at; /* NULL: they are only counted and hashed */
    int n;
    uint64_t hash;
} WordList;

static void put(WordList *words, int64_t value) {
    if (words->at) words->at[words->n] = value;
    words->n++;
    words->hash = hash_mix(words->hash, (uint64_t)value);
}

static void put_list(WordList *words, const int64_t *list, int n) {
    for (int i = 0; i < n; i++) put(words, list[i]);
    put(words, n);
}

static int64_t two(int high, int low) { return (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low); }

static void put_inst(WordList *words, const Inst *inst, const Buf *bufs, int n_dims) {
    put(words, inst->op | inst->type << 8 | inst->prim << 16 | (inst->wrap_negative ? 1 << 24 : 0));
    put(words, two(inst->a, inst->b));
    put(words, two(inst->c, inst->param));
    put(words, inst->buf);
    put(words, inst->i);
    if (inst->op == LI_gather) put(words, inst->scale);
    if (inst->op == LI_gather) put(words, inst->bound);
    if (inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store)
        put(words, bufs[inst->buf].dtype << 8 | bufs[inst->buf].role);
    put(words, inst->at != NULL);
    if (!inst->at) return;
    put(words, inst->at->offset);
    put_list(words, inst->at->coef, n_dims);
}

static void put_nest(WordList *words, const Nest *nest, const Buf *bufs) {
    const int n_dims = nest->n_outer + nest->n_inner;
    put(words, two(nest->n_outer, nest->n_s));
    put_list(words, nest->extent, n_dims);
    for (int i = 0; i < nest->n_phases; i++) {
        const Phase *const phase = &nest->phases[i];
        put(words, two(phase->kind << 1 | (phase->over_outer ? 1 : 0), phase->n));
    }
    put(words, nest->n_phases);
    for (int i = 0; i < nest->n_insts; i++) put_inst(words, &nest->insts[i], bufs, n_dims);
}

int nest_words(const Nest *nest, const Buf *bufs, int64_t *words, uint64_t *hash) {
    WordList list = {.at = words, .hash = 0x5e57};
    put_nest(&list, nest, bufs);
    if (hash) *hash = list.hash;
    return list.n;
}

static uint64_t mix(uint64_t h, int64_t value) { return hash_mix(h, (uint64_t)value); }

static uint64_t mix_list(uint64_t h, const int64_t *list, int n) {
    for (int i = 0; i < n; i++) h = mix(h, list[i]);
    return mix(h, n);
}

static uint64_t hash_template(uint64_t h, const TemplateUse *use) {
    h = mix(mix(mix(mix(mix(h, template_id(use->row)), use->dtype), use->fast), use->tile), use->tile_ld);
    h = mix_list(h, use->size, (int)strlen(use->row->sizes));
    for (int i = 0; i < TEMPLATE_OPERANDS && use->row->operands[i].name; i++) {
        const TemplateOperand *const operand = &use->operand[i];
        h = mix(mix(h, operand->buf), operand->offset);
        h = mix_list(h, operand->stride, (int)strlen(use->row->operands[i].dims));
    }
    return h;
}

bool nest_loads_from(const Nest *nest, int buf) {
    for (int i = 0; i < nest->n_insts; i++) {
        const Inst *const inst = &nest->insts[i];
        if ((inst->op == LI_load || inst->op == LI_gather) && inst->buf == buf) return true;
    }
    return false;
}

uint64_t kernel_hash(const Kernel *kernel) {
    uint64_t h = mix(mix(0xce11, kernel->template != NULL), kernel->independent);
    for (int i = 0; i < kernel->n_bufs; i++) h = mix(h, kernel->bufs[i].dtype << 8 | kernel->bufs[i].role);
    for (int i = 0; i < kernel->n_params; i++) h = mix(h, kernel->param_is_float && kernel->param_is_float[i]);
    h = mix(mix(h, kernel->n_bufs), kernel->n_params);
    if (kernel->template) h = hash_template(h, kernel->template);
    for (int i = 0; i < kernel->n_nests; i++) {
        uint64_t nest;
        nest_words(&kernel->nests[i], kernel->bufs, NULL, &nest);
        h = hash_mix(h, nest);
    }
    return h;
}
