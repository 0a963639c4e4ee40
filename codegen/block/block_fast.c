/* block_fast.c: decides whether a nest can run as a straight line of block kernels, see
 * BlockFastPath.
 *
 * Every load must be a whole contiguous block, every store too; the pointer table begins with the
 * buffers' places, so a run is: add the offsets, call the kernels. Constants are blocks of the
 * program, numbers of the call blocks of scratch memory that a run fills. */
#include "codegen/block/block.h"

typedef struct FastBuilder {
    const Nest *nest;
    const Buf *bufs;
    BlockFastPath *fast;
    int64_t n;
    int pointer[64]; /* by instruction: pointer index */
} FastBuilder;

static bool compute_sized(DType dtype) { return dtype_bytes(dtype) == stype_bytes(dtype_compute(dtype)); }

/* Do positions follow the order of the elements? A plan for any size leaves that to be checked when it runs. */
static bool is_contiguous(const FastBuilder *p, const Affine *at) {
    const Nest *const nest = p->nest;
    int64_t expected = 1;
    if (sym_is(at->offset)) return false;
    if (p->fast->any_size) return true;
    for (int i = nest->n_outer - 1; i >= 0; i--) {
        if (nest->extent[i] == 1) continue;
        if (at->coef[i] != expected) return false;
        expected *= nest->extent[i];
    }
    return true;
}

static bool count_elements(FastBuilder *p) {
    const Nest *const nest = p->nest;
    p->n = 1;
    for (int i = 0; i < nest->n_outer; i++) {
        if (sym_is(nest->extent[i])) {
            p->fast->any_size = true;
            p->n = BLOCK_ELEMENTS;
            return true;
        }
        if (nest->extent[i] > BLOCK_ELEMENTS) return false;
        p->n *= nest->extent[i];
    }
    return p->n > 0 && p->n <= BLOCK_ELEMENTS;
}

static bool place_ok(const FastBuilder *p, const Inst *inst) {
    return compute_sized(p->bufs[inst->buf].dtype) && is_contiguous(p, inst->at);
}

static int add_place(FastBuilder *p, const Inst *inst) {
    BlockFastPath *const f = p->fast;
    const int64_t offset = inst->at->offset * dtype_bytes(p->bufs[inst->buf].dtype);
    for (int i = 0; i < f->n_places; i++)
        if (f->place[i].buf == inst->buf && f->place[i].offset == offset) return i;
    f->place[f->n_places].buf = inst->buf;
    f->place[f->n_places].offset = offset;
    return f->n_places++;
}

/* One store, at the end, of a prim or cast; at most as many instructions as the tables hold. */
static bool shape_ok(const FastBuilder *p) {
    const Nest *const nest = p->nest;
    const int last = nest->n_insts - 1;
    if (nest->n_inner || nest->n_phases != 1 || nest->n_insts > BLOCK_FAST_INSTS || last < 1) return false;
    for (int i = 0; i < nest->n_insts; i++) {
        const Inst *const inst = &nest->insts[i];
        if (inst->op == LI_load && place_ok(p, inst)) continue;
        if (inst->op == LI_prim || inst->op == LI_cast || inst->op == LI_const || inst->op == LI_param) continue;
        if (inst->op == LI_store && i == last && place_ok(p, inst)) continue;
        return false;
    }
    const Inst *const value = &nest->insts[nest->insts[last].a];
    return nest->insts[last].a == last - 1 && (value->op == LI_prim || value->op == LI_cast);
}

static void add_step(FastBuilder *p, int number) {
    const Inst *const inst = &p->nest->insts[number];
    const int typed = inst->op == LI_prim && inst->prim == PRIM_select ? inst->b : inst->a;
    BlockFast *const step = &p->fast->step[p->fast->n_steps++];
    *step = (BlockFast){.op = inst->op == LI_prim ? BO_prim : BO_cast, .type = inst->type, .prim = inst->prim};
    step->from = p->nest->insts[typed].type;
    step->out = (uint8_t)p->pointer[number];
    step->a = (uint8_t)p->pointer[inst->a];
    step->b = (uint8_t)(inst->b >= 0 ? p->pointer[inst->b] : 0);
    step->c = (uint8_t)(inst->c >= 0 ? p->pointer[inst->c] : 0);
}

void block_fast_plan(const Nest *nest, const Buf *bufs, BlockFastPath *fast) {
    FastBuilder p = {.nest = nest, .bufs = bufs, .fast = fast};
    *fast = (BlockFastPath){0};
    if (!count_elements(&p) || !shape_ok(&p)) return;
    for (int i = 0; i < nest->n_insts; i++) {
        const Inst *const inst = &nest->insts[i];
        if (inst->op == LI_load || inst->op == LI_store) p.pointer[i] = add_place(&p, inst);
    }
    fast->n_ptrs = fast->n_places;
    const int last = nest->n_insts - 1;
    for (int i = 0; i < last; i++) {
        const Inst *const inst = &nest->insts[i];
        if (inst->op == LI_load) continue;
        p.pointer[i] = i == last - 1 ? p.pointer[last] : fast->n_ptrs++;
        if (inst->op == LI_const)
            fast->constant[p.pointer[i]] = i + 1; /* the instruction, until it has a block */
        else if (inst->op == LI_param)
            fast->param[p.pointer[i]] = (int16_t)(1 + inst->param);
        else
            add_step(&p, i);
    }
    for (int i = fast->n_places; i < fast->n_ptrs; i++) fast->n_scratch += !fast->constant[i];
    fast->n = (int32_t)p.n;
}

static void fill_block(const Inst *inst, char *block, int64_t n) {
    const int size = stype_bytes((SType)inst->type);
    char value[8];
    if (inst->type == S_f32)
        memcpy(value, &(float){(float)inst->f}, 4);
    else if (inst->type == S_i32)
        memcpy(value, &(int32_t){(int32_t)inst->i}, 4);
    else if (inst->type == S_b)
        value[0] = inst->i != 0;
    else
        memcpy(value, &inst->i, 8);
    for (int64_t i = 0; i < n; i++) memcpy(block + i * size, value, (size_t)size);
}

size_t block_fast_constants(const Nest *nest, BlockFastPath *fast, size_t offset, BlockProgram *program) {
    const size_t first = offset;
    for (int i = fast->n_places; i < fast->n_ptrs; i++) {
        if (!fast->constant[i]) continue;
        const Inst *const inst = &nest->insts[fast->constant[i] - 1];
        if (program) {
            fill_block(inst, (char *)program + offset, fast->n);
            fast->constant[i] = (int32_t)offset;
        }
        offset += ((size_t)fast->n * (size_t)stype_bytes((SType)inst->type) + 63) / 64 * 64;
    }
    return offset - first;
}
