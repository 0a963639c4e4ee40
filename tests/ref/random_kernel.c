/* random_kernel.c: see random_kernel.h. Numbers of buffers and parameters are moved up by those of the nests before. */
#include "tests/ref/random_kernel.h"

typedef struct Offset {
    int buf, param;
} Offset;

static int64_t move_int(int64_t value, const Offset *by) {
    return sym_is(value) ? sym_make(sym_id(value) + by->param) : value;
}

static Affine *move_place(Arena *arena, const Affine *from, const Offset *by) {
    Affine *const at = arena_copy(arena, from, sizeof *from);
    if (!at) return NULL;
    at->offset = move_int(at->offset, by);
    for (int d = 0; d < MAX_LOOP_DIMS; d++) at->coef[d] = move_int(at->coef[d], by);
    return at;
}

static bool move_nest(Arena *arena, const Nest *from, const Offset *by, Nest *to) {
    *to = *from;
    to->insts = arena_copy(arena, from->insts, (size_t)from->n_insts * sizeof *from->insts);
    for (int d = 0; d < MAX_LOOP_DIMS; d++) to->extent[d] = move_int(to->extent[d], by);
    for (int i = 0; to->insts && i < to->n_insts; i++) {
        Inst *const inst = &to->insts[i];
        if (inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store) inst->buf += (int16_t)by->buf;
        if (inst->op == LI_param) inst->param += (int16_t)by->param;
        if (inst->op == LI_gather) inst->scale = move_int(inst->scale, by), inst->bound = move_int(inst->bound, by);
        if (inst->at && !(inst->at = move_place(arena, inst->at, by))) return false;
    }
    return to->insts != NULL;
}

static void add_memory(RandomKernel *out, const RandomNest *nest) {
    Kernel *const k = &out->kernel;
    memcpy(k->bufs + k->n_bufs, nest->kernel.bufs, (size_t)nest->kernel.n_bufs * sizeof *k->bufs);
    for (int p = 0; p < nest->kernel.n_params; p++) {
        out->params[k->n_params + p] = nest->params[p];
        k->param_is_float[k->n_params + p] = nest->kernel.param_is_float[p];
    }
    k->n_bufs += nest->kernel.n_bufs, k->n_params += nest->kernel.n_params;
}

RandomKernel *random_kernel(Arena *arena, uint64_t seed, int n, bool independent) {
    RandomKernel *const out = ARENA_NEW(arena, RandomKernel);
    if (!out) return NULL;
    Kernel *const k = &out->kernel;
    *k = (Kernel){.name = arena_printf(arena, "random_%llu", (unsigned long long)seed),
                  .nests = ARENA_ARRAY(arena, Nest, n),
                  .n_nests = n,
                  .independent = independent,
                  .bufs = ARENA_ARRAY(arena, Buf, RANDOM_KERNEL_NESTS * RANDOM_MAX_BUFS),
                  .param_is_float = ARENA_ARRAY(arena, bool, RANDOM_KERNEL_NESTS *RANDOM_MAX_PARAMS)};
    if (!k->name || !k->nests || !k->bufs || !k->param_is_float) return NULL;
    for (; out->n < n; out->n++) {
        const RandomNest *const nest = random_nest(arena, seed + (uint64_t)out->n);
        const Offset by = {k->n_bufs, k->n_params};
        if (!nest || !move_nest(arena, nest->kernel.nests, &by, &k->nests[out->n])) return NULL;
        out->nest[out->n] = nest, out->first_buf[out->n] = k->n_bufs;
        add_memory(out, nest);
    }
    return out;
}
