/* loop.c: tables of the scalar primitives and reductions, and the structural hash of kernels.
 *
 * The hash covers what an executor can see: dims, phases, instructions, buffer dtypes and roles;
 * not names, sources, or the expressions behind parameters. Equal hashes are taken for equal
 * kernels (64 bits). */
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
} PrimRow;

static const PrimRow rows[PRIM_COUNT] = {
#define SCALAR(name, arity, types, result, llvm, doc) {#name, arity, TYPES_##types, RESULT_##result},
#include "ir/scalar.def"
#undef SCALAR
};

/* The rows whose text says "only": one type of their class. */
static const int only[PRIM_COUNT] = {
    [PRIM_philox] = 1 << S_i64,   [PRIM_round_f16] = 1 << S_f32, [PRIM_round_bf16] = 1 << S_f32,
    [PRIM_wrap_i16] = 1 << S_i32, [PRIM_wrap_i8] = 1 << S_i32,   [PRIM_wrap_u8] = 1 << S_i32,
};

const char *prim_name(Prim prim) { return rows[prim].name; }
int prim_arity(Prim prim) { return rows[prim].arity; }
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

/* hash ---------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, int64_t value) { return hash_mix(h, (uint64_t)value); }

static uint64_t mix_list(uint64_t h, const int64_t *list, int n) {
    for (int i = 0; i < n; i++) h = mix(h, list[i]);
    return mix(h, n);
}

static uint64_t hash_inst(uint64_t h, const Inst *inst, const Buf *bufs, int n_dims) {
    h = mix(h, inst->op | inst->type << 8 | inst->prim << 16 | (inst->wrap_negative ? 1 << 24 : 0));
    h = mix(mix(mix(h, inst->a), inst->b), inst->c);
    h = mix(mix(h, inst->buf), inst->param);
    h = mix(h, inst->i);
    if (inst->op == LI_gather) h = mix(mix(h, inst->scale), inst->bound);
    if (inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store)
        h = mix(h, bufs[inst->buf].dtype << 8 | bufs[inst->buf].role);
    return inst->at ? mix_list(mix(h, inst->at->offset), inst->at->coef, n_dims) : h;
}

uint64_t nest_hash(const Nest *nest, const Buf *bufs) {
    const int n_dims = nest->n_outer + nest->n_inner;
    uint64_t h = mix(mix(mix(0x5e57, nest->n_outer), nest->n_inner), nest->n_s);
    h = mix_list(h, nest->extent, n_dims);
    for (int i = 0; i < nest->n_phases; i++) {
        const Phase *const phase = &nest->phases[i];
        h = mix(mix(h, phase->kind << 1 | (phase->over_outer ? 1 : 0)), phase->n);
    }
    for (int i = 0; i < nest->n_insts; i++) h = hash_inst(h, &nest->insts[i], bufs, n_dims);
    return h;
}

static uint64_t hash_template(uint64_t h, const TemplateUse *use) {
    h = mix(mix(mix(mix(h, template_id(use->row)), use->dtype), use->tile), use->tile_ld);
    h = mix_list(h, use->size, (int)strlen(use->row->sizes));
    for (int i = 0; i < TEMPLATE_OPERANDS && use->row->operands[i].name; i++) {
        const TemplateOperand *const operand = &use->operand[i];
        h = mix(mix(h, operand->buf), operand->offset);
        h = mix_list(h, operand->stride, (int)strlen(use->row->operands[i].dims));
    }
    return h;
}

uint64_t kernel_hash(const Kernel *kernel) {
    uint64_t h = mix(mix(0xce11, kernel->template != NULL), kernel->independent);
    for (int i = 0; i < kernel->n_bufs; i++) h = mix(h, kernel->bufs[i].dtype << 8 | kernel->bufs[i].role);
    for (int i = 0; i < kernel->n_params; i++) h = mix(h, kernel->param_is_float && kernel->param_is_float[i]);
    h = mix(mix(h, kernel->n_bufs), kernel->n_params);
    if (kernel->template) h = hash_template(h, kernel->template);
    for (int i = 0; i < kernel->n_nests; i++) h = hash_mix(h, nest_hash(&kernel->nests[i], kernel->bufs));
    return h;
}
