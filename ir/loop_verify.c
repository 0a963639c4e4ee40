/* loop_verify.c: what a kernel must satisfy before an executor sees it: operands before uses,
 * types, places in range of the dims, phases that cover the instructions in order. Each check is
 * one small function that names the instruction. */
#include "ir/loop.h"

#include <stdio.h>

#include "runtime/base/error.h"

typedef struct NestCheck {
    const Kernel *kernel;
    const Nest *nest;
    int nest_number, inst_number;
} NestCheck;

static Status refuse_nest(const NestCheck *c, const char *what) {
    char where[64] = ""; /* within the kernel */
    if (c->inst_number >= 0)
        snprintf(where, sizeof where, ", nest %d, instruction %%%d", c->nest_number, c->inst_number);
    else if (c->nest)
        snprintf(where, sizeof where, ", nest %d", c->nest_number);
    return error_raise(ST_INTERNAL, "kernel %s%s: %s", c->kernel->name ? c->kernel->name : "?", where, what);
}

#define NEED(condition, what)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) return refuse_nest(c, what);                                                                 \
    } while (0)

static bool int_ok(const Kernel *k, int64_t v) {
    if (!sym_is(v)) return true;
    return sym_id(v) < k->n_params && !(k->param_is_float && k->param_is_float[sym_id(v)]);
}

static bool size_ok(const Kernel *k, int64_t v) { return int_ok(k, v) && (sym_is(v) || v >= 0); }

static Status check_place(const NestCheck *c, const Inst *inst, bool over_outer) {
    const Nest *const nest = c->nest;
    const int n_dims = nest->n_outer + nest->n_inner;
    NEED(inst->at, "no place");
    NEED(int_ok(c->kernel, inst->at->offset), "offset names no int parameter");
    for (int i = 0; i < MAX_LOOP_DIMS; i++) {
        NEED(int_ok(c->kernel, inst->at->coef[i]), "coefficient names no int parameter");
        NEED(i < n_dims || inst->at->coef[i] == 0, "coefficient of a dim that is not there");
        NEED(!over_outer || i < nest->n_outer || inst->at->coef[i] == 0, "inner dim in a phase over outer");
    }
    return ST_OK;
}

static Status check_buffer(const NestCheck *c, const Inst *inst) {
    NEED(inst->buf >= 0 && inst->buf < c->kernel->n_bufs, "no such buffer");
    NEED(inst->type == dtype_compute(c->kernel->bufs[inst->buf].dtype), "type is not the buffer's compute type");
    return ST_OK;
}

static Status check_store(const NestCheck *c, const Inst *inst) {
    TRY(check_buffer(c, inst));
    const BufRole role = c->kernel->bufs[inst->buf].role;
    NEED(role != BUF_in && role != BUF_tile, "store to a buffer that is only read");
    NEED(inst->a >= 0 && c->nest->insts[inst->a].type == inst->type, "stored value has another type");
    return ST_OK;
}

static Status check_gather(const NestCheck *c, const Inst *inst) {
    TRY(check_buffer(c, inst));
    NEED(inst->a >= 0 && c->nest->insts[inst->a].type == S_i64, "index is not i64");
    NEED(int_ok(c->kernel, inst->scale) && size_ok(c->kernel, inst->bound), "bad scale or bound");
    return ST_OK;
}

static Status check_prim(const NestCheck *c, const Inst *inst) {
    NEED(inst->prim < PRIM_COUNT, "no such primitive");
    const int16_t operand[3] = {inst->a, inst->b, inst->c};
    const bool is_select = inst->prim == PRIM_select;
    const Inst *const insts = c->nest->insts;
    const int arity = prim_arity((Prim)inst->prim);
    for (int i = 0; i < 3; i++) NEED((operand[i] >= 0) == (i < arity), "wrong number of operands");
    const SType type = (SType)insts[is_select ? inst->b : inst->a].type;
    for (int i = is_select ? 1 : 0; i < arity; i++) NEED(insts[operand[i]].type == type, "operands of different types");
    NEED(!is_select || insts[inst->a].type == S_b, "condition is not a bool");
    NEED(prim_has_type((Prim)inst->prim, type), "primitive does not exist for this type");
    NEED(inst->type == (prim_returns_bool((Prim)inst->prim) ? S_b : type), "wrong result type");
    return ST_OK;
}

static Status check_reduce(const NestCheck *c, const Inst *inst) {
    NEED(inst->prim < RED_COUNT, "no such reduction");
    NEED(inst->a >= 0 && (inst->b >= 0) == (inst->prim == RED_dot) && inst->c < 0, "wrong number of operands");
    const Inst *const insts = c->nest->insts;
    const SType type = (SType)insts[inst->a].type;
    const bool position = inst->prim == RED_argmax || inst->prim == RED_argmin;
    const bool logical = inst->prim == RED_any || inst->prim == RED_all;
    NEED(inst->type == (position ? S_i64 : type), "wrong result type");
    NEED(logical == (type == S_b), "bools have any and all, others do not");
    NEED(inst->prim != RED_dot || insts[inst->b].type == type, "operands of different types");
    return ST_OK;
}

static Status check_leaf(const NestCheck *c, const Inst *inst) {
    NEED(inst->a < 0 && inst->b < 0 && inst->c < 0, "a leaf with operands");
    if (inst->op == LI_index) {
        NEED(inst->type == S_i64, "an index is i64");
        return ST_OK;
    }
    if (inst->op == LI_load) return check_buffer(c, inst);
    if (inst->op == LI_const) return ST_OK;
    NEED(inst->param >= 0 && inst->param < c->kernel->n_params, "no such parameter");
    const bool wants_float = c->kernel->param_is_float && c->kernel->param_is_float[inst->param];
    NEED(inst->type == (wants_float ? S_f64 : S_i64), "parameter of another type");
    return ST_OK;
}

static Status check_kind(const NestCheck *c, const Inst *inst) {
    switch ((LoopOp)inst->op) {
    case LI_const:
    case LI_param:
    case LI_index:
    case LI_load:
        return check_leaf(c, inst);
    case LI_gather:
        return check_gather(c, inst);
    case LI_prim:
        return check_prim(c, inst);
    case LI_reduce:
        return check_reduce(c, inst);
    case LI_store:
        return check_store(c, inst);
    case LI_cast:
        NEED(inst->a >= 0 && inst->b < 0 && inst->c < 0, "a cast has one operand");
        NEED(c->nest->insts[inst->a].type != inst->type, "a cast to the type that it has");
        return ST_OK;
    }
    return refuse_nest(c, "unknown kind of instruction");
}

static bool varies_inside(const Nest *nest, const Inst *inst) {
    const int16_t operand[3] = {inst->a, inst->b, inst->c};
    if (inst->op == LI_reduce) return false;
    for (int i = 0; i < 3; i++)
        if (operand[i] >= 0 && nest->insts[operand[i]].inner) return true;
    for (int i = nest->n_outer; inst->at && i < nest->n_outer + nest->n_inner; i++)
        if (inst->at->coef[i] != 0) return true;
    return false;
}

static bool is_placed(const Inst *inst) {
    return inst->op == LI_index || inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store;
}

static Status check_inst(const NestCheck *c, const Phase *phase, bool *ended) {
    const Inst *const inst = &c->nest->insts[c->inst_number];
    const int16_t operand[3] = {inst->a, inst->b, inst->c};
    NEED(inst->type < S_COUNT, "unknown type");
    for (int i = 0; i < 3; i++) {
        NEED(operand[i] < c->inst_number, "uses a later instruction");
        NEED(operand[i] < 0 || c->nest->insts[operand[i]].op != LI_store, "uses a store");
        NEED(operand[i] < phase->first || phase->kind == PHASE_map || c->nest->insts[operand[i]].op != LI_reduce,
             "uses a reduction of its own phase");
    }
    TRY(check_kind(c, inst));
    if (is_placed(inst))
        TRY(check_place(c, inst, phase->over_outer));
    else
        NEED(!inst->at, "a place where none belongs");
    const bool is_end = inst->op == (phase->kind == PHASE_reduce ? LI_reduce : LI_store);
    NEED(is_end || (inst->op != LI_reduce && inst->op != LI_store), "a store or reduction in the wrong kind of phase");
    NEED(is_end || !*ended, "a phase ends in its stores or reductions");
    *ended = is_end;
    if (inst->op == LI_store)
        NEED(inst->inner == (!phase->over_outer && c->nest->n_inner > 0), "wrong inner flag");
    else
        NEED(inst->inner == varies_inside(c->nest, inst), "wrong inner flag");
    NEED(!phase->over_outer || (inst->a < 0 || !c->nest->insts[inst->a].inner), "inner value over outer");
    return ST_OK;
}

static Status check_phases(NestCheck *c) {
    const Nest *const nest = c->nest;
    int next = 0;
    for (int i = 0; i < nest->n_phases; i++) {
        const Phase *const phase = &nest->phases[i];
        c->inst_number = next;
        NEED(phase->first == next && phase->n > 0 && phase->first + phase->n <= nest->n_insts,
             "phases do not cover the instructions");
        NEED(!phase->over_outer || (phase->kind == PHASE_map && nest->n_inner > 0), "a reduction over outer");
        NEED(phase->kind == PHASE_map || nest->n_inner > 0, "a reduction without inner dims");
        next += phase->n;
        bool ended = false;
        for (c->inst_number = phase->first; c->inst_number < next; c->inst_number++) TRY(check_inst(c, phase, &ended));
        NEED(ended, "a phase without stores or reductions");
    }
    NEED(next == nest->n_insts && next > 0, "phases do not cover the instructions");
    return ST_OK;
}

static Status check_nest(NestCheck *c) {
    const Nest *const nest = c->nest;
    const int n_dims = nest->n_outer + nest->n_inner;
    NEED(nest->n_outer >= 0 && nest->n_inner >= 0 && n_dims <= MAX_LOOP_DIMS, "too many dims");
    NEED(nest->n_s >= 0 && nest->n_s <= nest->n_inner, "more S dims than inner dims");
    for (int i = 0; i < n_dims; i++) NEED(size_ok(c->kernel, nest->extent[i]), "bad extent");
    return check_phases(c);
}

static Status refuse_template(const NestCheck *c, const char *what) {
    char text[128];
    snprintf(text, sizeof text, "%s: %s", c->kernel->template->row->name, what);
    return refuse_nest(c, text);
}

#define FITS(condition, what)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) return refuse_template(c, what);                                                             \
    } while (0)

static Status check_operand(NestCheck *c, const TemplateUse *use, int number) {
    const Kernel *const k = c->kernel;
    const TemplateOperand *const operand = &use->operand[number];
    const bool result = use->row->operands[number].result;
    FITS(operand->buf < k->n_bufs && (operand->buf >= 0 || result), "no such buffer");
    FITS(result || k->bufs[operand->buf].dtype == use->dtype, "operands of another dtype");
    FITS(int_ok(k, operand->offset), "bad offset");
    for (int i = 0; use->row->operands[number].dims[i]; i++) FITS(int_ok(k, operand->stride[i]), "bad stride");
    return ST_OK;
}

/* The nest over its tiles has the hole's sizes; the first may be left out. */
static Status check_hole(NestCheck *c, const TemplateUse *use) {
    const Nest *const nest = &c->kernel->nests[0];
    const int rank = (int)strlen(use->row->hole), skip = rank - nest->n_outer;
    FITS(nest->n_inner == 0 && (skip == 0 || skip == 1), "an epilogue runs over other dims than the hole");
    for (int i = skip; i < rank; i++)
        FITS(i == 0 || nest->extent[i - skip] == use->size[template_size(use->row, use->row->hole[i])],
             "the epilogue has another size");
    return ST_OK;
}

static Status check_template(NestCheck *c) {
    const Kernel *const k = c->kernel;
    const TemplateUse *const use = k->template;
    bool stores = false;
    FITS(k->n_nests <= 1, "it has at most one nest");
    for (int i = 0; i < TEMPLATE_OPERANDS && use->row->operands[i].name; i++) {
        TRY(check_operand(c, use, i));
        stores |= use->row->operands[i].result && use->operand[i].buf >= 0;
    }
    FITS((use->tile >= 0) == (k->n_nests == 1), "an epilogue needs a tile");
    FITS(use->tile >= 0 || stores, "nothing is stored");
    FITS(!use->fast || use->dtype == use->row->fast, "no faster way for operands of this dtype");
    FITS(use->tile < k->n_bufs && (use->tile < 0 || k->bufs[use->tile].role == BUF_tile), "the tile is no tile buffer");
    for (int i = 0; use->row->sizes[i]; i++) FITS(size_ok(k, use->size[i]), "bad size");
    return use->tile < 0 ? ST_OK : check_hole(c, use);
}

Status kernel_verify(const Kernel *kernel) {
    NestCheck check = {.kernel = kernel, .inst_number = -1};
    for (int i = 0; i < kernel->n_bufs; i++)
        if (kernel->bufs[i].dtype <= DT_default || kernel->bufs[i].dtype >= DT_COUNT)
            return refuse_nest(&check, "a buffer without dtype");
    if (kernel->template)
        TRY(check_template(&check));
    else if (kernel->n_nests < 1)
        return refuse_nest(&check, "no nest");
    for (int i = 0; i < kernel->n_nests; i++) {
        check = (NestCheck){kernel, &kernel->nests[i], i, -1};
        TRY(check_nest(&check));
    }
    return ST_OK;
}
