/* interp.c: runs block programs: resolves the dims of this run, cuts the outer positions into
 * tiles, runs the phases.
 *
 * A tile is as many outer positions as fit one block: whole short rows (order L), columns (order
 * S), or just positions (maps). If all its inner positions fit the block too, values stay in their
 * slots between phases (`keep`); else the inner positions come block by block, again for every
 * phase. One-op programs over small contiguous tensors, eager's daily bread, take a straight line
 * through the kernels instead. */
#include "runtime/cpu/interp_frame.h"

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/base/alloc.h"

enum { SCRATCH_ALIGN = 64, LONG_RUN = 256, NARROW_ROWS = 32 };

/* kernels, resolved --------------------------------------------------------------------------- */

static Kernels resolved[ISA_COUNT];
static atomic_bool is_resolved[ISA_COUNT];
static pthread_mutex_t resolving = PTHREAD_MUTEX_INITIALIZER;

static void resolve_kernels(Kernels *to, const KernelTable *table) {
    for (int type = 0; type < S_COUNT; type++) {
        for (int prim = 0; prim < PRIM_COUNT; prim++) to->prim[prim][type] = table->prim(prim, (SType)type);
        for (int from = 0; from < S_COUNT; from++) to->cast[from][type] = table->cast((SType)from, (SType)type);
        for (int red = 0; red < RED_argmax; red++) {
            to->reduce[red][type] = table->reduce_L(red, (SType)type);
            to->accumulate[red][type] = table->accumulate(red, (SType)type);
        }
    }
    for (int dtype = DT_default + 1; dtype < DT_COUNT; dtype++) {
        to->load[dtype] = table->load((DType)dtype);
        to->store[dtype] = table->store((DType)dtype);
    }
}

static const Kernels *kernels_now(void) {
    const KernelTable *const table = kernel_table();
    Kernels *const kernels = &resolved[table->isa];
    if (LIKELY(atomic_load_explicit(&is_resolved[table->isa], memory_order_acquire))) return kernels;
    pthread_mutex_lock(&resolving);
    if (!atomic_load(&is_resolved[table->isa])) resolve_kernels(kernels, table);
    atomic_store_explicit(&is_resolved[table->isa], true, memory_order_release);
    pthread_mutex_unlock(&resolving);
    return kernels;
}

/* scratch memory: one growing block per thread, freed with it --------------------------------- */

typedef struct InterpScratch {
    char *at;
    size_t capacity;
    bool busy; /* a run inside a run takes a block of its own */
} InterpScratch;

static HOT_THREAD_LOCAL InterpScratch scratch;
static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void scratch_free(void *block) { mem_free(block); }
static void scratch_key_make(void) { pthread_key_create(&scratch_key, scratch_free); }

static char *scratch_alloc(size_t bytes) {
    if (scratch.busy) return mem_aligned(SCRATCH_ALIGN, bytes);
    if (UNLIKELY(bytes > scratch.capacity)) {
        char *const block = mem_aligned(SCRATCH_ALIGN, bytes);
        if (!block) return NULL;
        mem_free(scratch.at);
        scratch.at = block;
        scratch.capacity = bytes;
        pthread_once(&scratch_once, scratch_key_make);
        pthread_setspecific(scratch_key, block);
    }
    scratch.busy = true;
    return scratch.at;
}

static void scratch_release(char *block) {
    if (block == scratch.at)
        scratch.busy = false;
    else
        mem_free(block);
}

/* the straight line --------------------------------------------------------------------------- */

static int64_t resolve(const int64_t *params, int64_t v) { return sym_is(v) ? params[sym_id(v)] : v; }

static bool is_whole(const BlockProgram *p, const int64_t *params, const int64_t *lo, const int64_t *hi) {
    if (!lo) return true;
    for (int i = 0; i < p->n_outer; i++)
        if (lo[i] != 0 || hi[i] != resolve(params, p->extent[i])) return false;
    return true;
}

/* Elements of this run, 0: too many, or some place is not contiguous. */
static int64_t count_of_run(const BlockProgram *p, const int64_t *params) {
    const BlockAccess *const accesses = block_accesses(p);
    int64_t n = 1;
    for (int d = p->n_outer - 1; d >= 0; d--) {
        const int64_t extent = resolve(params, p->extent[d]);
        if (extent == 1) continue;
        for (int i = 0; i < p->n_accesses; i++)
            if (resolve(params, accesses[i].at.coef[d]) != n) return 0;
        if (extent > p->fast.n || (n *= extent) > p->fast.n) return 0;
    }
    return n;
}

static void fill_param(void *block, int64_t value, int64_t n) {
    for (int64_t i = 0; i < n; i++) ((int64_t *)block)[i] = value; /* f64 or i64, by its bits */
}

static bool run_fast(const BlockProgram *p, const Kernels *k, void *const *bufs, const int64_t *params) {
    const BlockFastPath *const fast = &p->fast;
    const int64_t n = fast->any_size ? count_of_run(p, params) : fast->n;
    void *at[BLOCK_FAST_PTRS];
    if (!n) return false;
    for (int i = 0; i < fast->n_places; i++) at[i] = (char *)bufs[fast->place[i].buf] + fast->place[i].offset;
    char *block = NULL;
    if (fast->n_scratch && !(block = scratch_alloc((size_t)fast->n_scratch * BLOCK * 8))) return false;
    char *next = block;
    for (int i = fast->n_places; i < fast->n_ptrs; i++) {
        at[i] = fast->constant[i] ? (char *)p + fast->constant[i] : next;
        if (!fast->constant[i]) next += BLOCK * 8;
        if (fast->param[i]) fill_param(at[i], params[fast->param[i] - 1], n);
    }
    for (int i = 0; i < fast->n_steps; i++) {
        const BlockFast *const s = &fast->step[i];
        BlockFn *const fn = s->op == BO_prim ? k->prim[s->prim][s->from] : k->cast[s->from][s->type];
        fn(at[s->out], at[s->a], at[s->b], at[s->c], n);
    }
    if (block) scratch_release(block);
    return true;
}

/* resolving dims and places ------------------------------------------------------------------- */

typedef struct NestDims { /* of the nest, before merging */
    int n;
    int64_t extent[MAX_LOOP_DIMS], low[MAX_LOOP_DIMS];
} NestDims;

static NestDims resolve_dims(const InterpFrame *f, const int64_t *lo, const int64_t *hi) {
    const BlockProgram *const p = f->program;
    NestDims dims = {.n = p->n_outer + p->n_inner};
    for (int i = 0; i < dims.n; i++) {
        const bool bounded = lo && i < p->n_outer;
        dims.low[i] = bounded ? lo[i] : 0;
        dims.extent[i] = bounded ? hi[i] - lo[i] : resolve(f->params, p->extent[i]);
    }
    return dims;
}

static void resolve_place(InterpFrame *f, const NestDims *dims, int number, void *const *bufs) {
    const BlockAccess *const access = &block_accesses(f->program)[number];
    AccessAddress *const place = &f->places[number];
    *place = (AccessAddress){
        .dtype = (DType)access->dtype, .bytes = access->bytes, .offset = resolve(f->params, access->at.offset)};
    place->base = access->buf >= 0 ? bufs[access->buf] : NULL;
    for (int i = 0; i < dims->n; i++) {
        const int64_t coef = resolve(f->params, access->at.coef[i]);
        const bool outer = i < f->program->n_outer;
        place->stride[outer ? GROUP_outer : GROUP_inner][outer ? i : i - f->program->n_outer] = coef;
        place->offset += dims->low[i] * coef;
    }
}

static bool steps_evenly(const AccessAddress *place, int g, int slow, int fast, int64_t extent) {
    return place->stride[g][slow] == place->stride[g][fast] * extent;
}

static bool all_step_evenly(const InterpFrame *f, int g, int slow, int fast, int64_t extent) {
    for (int i = 0; i < f->program->n_accesses; i++)
        if (!steps_evenly(&f->places[i], g, slow, fast, extent)) return false;
    return true;
}

static void move_dim(InterpFrame *f, int g, int to, int from) {
    for (int i = 0; i < f->program->n_accesses; i++) f->places[i].stride[g][to] = f->places[i].stride[g][from];
}

/* Drops dims of one and merges neighbours that every place walks evenly. */
static void make_group(InterpFrame *f, int g, const int64_t *extent, int n) {
    GroupDims *const group = &f->group[g];
    *group = (GroupDims){.total = 1};
    for (int i = 0; i < n; i++) {
        group->total *= extent[i];
        if (extent[i] == 1) continue;
        const int last = group->n - 1;
        if (last >= 0 && all_step_evenly(f, g, last, i, extent[i])) {
            group->extent[last] *= extent[i];
            move_dim(f, g, last, i);
            continue;
        }
        move_dim(f, g, group->n, i);
        group->extent[group->n++] = extent[i];
    }
}

static void find_flat(const GroupDims *group, AccessAddress *place, int g) {
    place->flat[g] = true;
    place->flat_stride[g] = group->n ? place->stride[g][group->n - 1] : 0;
    for (int i = 0; i + 1 < group->n; i++)
        if (!steps_evenly(place, g, i, i + 1, group->extent[i + 1])) place->flat[g] = false;
}

static void resolve_frame(InterpFrame *f, const int64_t *lo, const int64_t *hi, void *const *bufs) {
    const BlockProgram *const p = f->program;
    const NestDims dims = resolve_dims(f, lo, hi);
    for (int i = 0; i < p->n_accesses; i++) resolve_place(f, &dims, i, bufs);
    make_group(f, GROUP_outer, dims.extent, p->n_outer);
    make_group(f, GROUP_inner, dims.extent + p->n_outer, p->n_inner);
    for (int i = 0; i < p->n_accesses; i++)
        for (int g = GROUP_outer; g <= GROUP_inner; g++) find_flat(&f->group[g], &f->places[i], g);
    f->n_l = 1;
    for (int i = p->n_outer + p->n_s; i < dims.n; i++) f->n_l *= dims.extent[i];
    f->columns = p->n_inner && p->n_s == p->n_inner;
}

/* the scratch memory of a run ----------------------------------------------------------------- */

static size_t round64(size_t bytes) { return (bytes + 63) / 64 * 64; }

static void *cut_block(char **at, size_t bytes) {
    void *const block = *at;
    *at += round64(bytes);
    return block;
}

static size_t reduction_bytes(const BlockProgram *p) {
    if (!p->n_reductions) return 0;
    return round64(sizeof(Reduction) * (size_t)p->n_reductions) +
           (size_t)p->n_reductions * (S_LEVELS + L_LEVELS + 2) * BLOCK * 8;
}

static size_t frame_bytes(const BlockProgram *p) {
    return round64(sizeof(AccessAddress) * (size_t)p->n_accesses) + 2 * round64(sizeof(void *) * (size_t)p->n_slots) +
           round64((size_t)p->scratch_bytes) + 2 * BLOCK * 8 + reduction_bytes(p) + 256;
}

static void layout_reductions(InterpFrame *f, char **at) {
    const BlockProgram *const p = f->program;
    if (!p->n_reductions) return;
    f->reductions = cut_block(at, sizeof(Reduction) * (size_t)p->n_reductions);
    for (int i = 0; i < p->n_reductions; i++) {
        Reduction *const r = &f->reductions[i];
        *r = (Reduction){0};
        r->partial = cut_block(at, (size_t)L_LEVELS * BLOCK * 8);
        r->sums = cut_block(at, (size_t)S_LEVELS * BLOCK * 8);
        r->best = cut_block(at, (size_t)BLOCK * 8);
        r->position = cut_block(at, (size_t)BLOCK * 8);
    }
    for (int i = 0; i < p->n_steps; i++) {
        if (f->steps[i].op != BO_reduce) continue;
        f->reductions[f->steps[i].number].kind = (RedKind)f->steps[i].prim;
        f->reductions[f->steps[i].number].type = (SType)f->steps[i].type;
    }
}

static void layout_frame(InterpFrame *f, char *at) {
    const BlockProgram *const p = f->program;
    f->places = cut_block(&at, sizeof(AccessAddress) * (size_t)p->n_accesses);
    f->slot = cut_block(&at, sizeof(void *) * (size_t)p->n_slots);
    f->home = cut_block(&at, sizeof(void *) * (size_t)p->n_slots);
    f->offsets = cut_block(&at, (size_t)BLOCK * 8);
    f->raw = cut_block(&at, (size_t)BLOCK * 8);
    layout_reductions(f, &at);
    const BlockSlot *const slots = block_slots(p);
    for (int i = 0; i < p->n_slots; i++) f->slot[i] = f->home[i] = at + slots[i].offset;
}

/* steps --------------------------------------------------------------------------------------- */

static void fill_uniform(InterpFrame *f, const BlockInst *step, int64_t n) {
    char value[8] __attribute__((aligned(8)));
    if (step->op == BO_param)
        memcpy(value, &f->params[step->number], 8);
    else if (step->type == S_f32)
        memcpy(value, &(float){(float)step->f}, 4);
    else if (step->type == S_i32)
        memcpy(value, &(int32_t){(int32_t)step->i}, 4);
    else if (step->type == S_b)
        value[0] = step->i != 0;
    else
        memcpy(value, &step->i, 8);
    f->kernels->load[dtype_of((SType)step->type)](f->home[step->out], value, 0, n);
}

/* Rows: each value as often as its row is long; columns: all values once per row. */
static void run_expand(InterpFrame *f, const BlockInst *step, int64_t n) {
    const int size = stype_bytes((SType)step->type);
    const char *const from = f->slot[step->a];
    char *const out = f->home[step->out];
    const int64_t tile = f->narrow.n, each = n / tile;
    LoadFn *const load = f->kernels->load[dtype_of((SType)step->type)];
    if (f->columns)
        for (int64_t r = 0; r < each; r++) memcpy(out + r * tile * size, from, (size_t)(tile * size));
    else
        for (int64_t r = 0; r < tile; r++) load(out + r * each * size, from + r * size, 0, each);
}

static void run_compute(InterpFrame *f, const BlockInst *step, const Shape *shape) {
    void *out = f->home[step->out];
    if (step->direct >= 0) {
        void *const there = frame_contiguous(f, step->direct, shape);
        if (there) out = there;
    }
    BlockFn *const fn =
        step->op == BO_prim ? f->kernels->prim[step->prim][step->from] : f->kernels->cast[step->from][step->type];
    fn(out, step->a >= 0 ? f->slot[step->a] : NULL, step->b >= 0 ? f->slot[step->b] : NULL,
       step->c >= 0 ? f->slot[step->c] : NULL, shape->n);
    f->slot[step->out] = out;
}

/* False: a gather missed. */
static bool run_steps(InterpFrame *f, int first, int n) {
    for (const BlockInst *step = f->steps + first; step < f->steps + first + n; step++) {
        const Shape *const shape = step->wide ? &f->wide : &f->narrow;
        if (UNLIKELY(shape->n == 0)) continue; /* rows without elements */
        switch ((BlockOp)step->op) {
        case BO_prim:
        case BO_cast:
            run_compute(f, step, shape);
            break;
        case BO_load:
            frame_load(f, step, shape);
            break;
        case BO_store:
            frame_store(f, step, shape);
            break;
        case BO_index:
            frame_index(f, step, shape);
            break;
        case BO_expand:
            run_expand(f, step, shape->n);
            break;
        case BO_reduce:
            reduction_step(f, step);
            break;
        case BO_gather:
            if (!frame_gather(f, step, shape)) return false;
            break;
        case BO_const:
        case BO_param:
            break; /* filled at the start */
        }
    }
    return true;
}

/* blocks -------------------------------------------------------------------------------------- */

/* Sets the wide shape to the block of inner positions that begins at `start`; returns its length in
 * inner positions. */
static int64_t set_block(InterpFrame *f, int64_t start) {
    const GroupSpan tile = f->narrow.fast;
    const int64_t inner = f->group[GROUP_inner].total;
    int64_t n;
    if (!f->program->n_inner) {
        f->wide = f->narrow;
        return 1;
    }
    if (f->columns)
        n = min_i64(inner - start, BLOCK / tile.n);
    else if (f->keep)
        n = inner;
    else if (f->n_l > CHUNK_L)
        n = min_i64(CHUNK_L, f->n_l - start % f->n_l);
    else
        n = min_i64(inner - start, CHUNK_L / f->n_l * f->n_l);
    const GroupSpan inside = {GROUP_inner, start, n};
    f->wide = f->columns ? (Shape){inside, tile, n * tile.n} : (Shape){tile, inside, n * tile.n};
    f->row_ends = (start + n) % f->n_l == 0;
    return n;
}

static bool run_body(InterpFrame *f, const BlockPhase *phase) {
    const int64_t inner = f->group[GROUP_inner].total;
    for (int64_t start = 0; start < inner;) {
        start += set_block(f, start);
        if (!run_steps(f, phase->body, phase->n_body)) return false;
    }
    return true;
}

static bool run_phase(InterpFrame *f, const BlockPhase *phase) {
    f->wide.n = 0;                                    /* no inner positions: expansions fill nothing */
    if (f->group[GROUP_inner].total) set_block(f, 0); /* the longest block: expansions fill it */
    if (!run_steps(f, phase->head, phase->n_head)) return false;
    if (!phase->reduce) return run_body(f, phase);
    const BlockInst *const body = f->steps + phase->body;
    for (int i = 0; i < phase->n_body; i++)
        if (body[i].op == BO_reduce) reduction_begin(f, &f->reductions[body[i].number]);
    if (!run_body(f, phase)) return false;
    for (int i = 0; i < phase->n_body; i++)
        if (body[i].op == BO_reduce) reduction_end(f, &body[i]);
    return true;
}

/* tiles --------------------------------------------------------------------------------------- */

static bool all_flat(const InterpFrame *f) {
    for (int i = 0; i < f->program->n_accesses; i++)
        if (!f->places[i].flat[GROUP_outer]) return false;
    return true;
}

/* Outer positions from `start` for one tile: up to `most`; runs that some place breaks are kept
 * whole: long ones are tiles of their own, short ones come several to a tile. */
static int64_t even_tile(const InterpFrame *f, int64_t start, int64_t most) {
    const GroupDims *const outer = &f->group[GROUP_outer];
    const int64_t left = min_i64(outer->total - start, most);
    if (outer->n < 2 || all_flat(f)) return left;
    const int64_t run = outer->extent[outer->n - 1];
    if (run >= LONG_RUN) return min_i64(left, run - start % run);
    return run <= left ? left / run * run : left;
}

static int64_t tile_size(InterpFrame *f, int64_t start) {
    const int64_t inner = f->group[GROUP_inner].total, outer = f->group[GROUP_outer].total;
    if (!f->program->n_inner) return even_tile(f, start, BLOCK);
    if (f->columns) {
        const bool short_columns = inner <= NARROW_ROWS && f->program->n_phases > 2;
        return even_tile(f, start, short_columns ? BLOCK / max_i64(inner, 1) : BLOCK);
    }
    return inner > BLOCK ? 1 : min_i64(outer - start, BLOCK / max_i64(inner, 1));
}

static void run_tiles(InterpFrame *f) {
    const BlockProgram *const p = f->program;
    const int64_t outer = f->group[GROUP_outer].total, inner = f->group[GROUP_inner].total;
    for (int64_t start = 0; start < outer;) {
        const int64_t n = tile_size(f, start);
        f->narrow = (Shape){{GROUP_none, 0, 1}, {GROUP_outer, start, n}, n};
        f->keep = inner * n <= BLOCK;
        const BlockPhase *const phases = block_phases(p, f->keep ? VARIANT_keep : VARIANT_again);
        for (int i = 0; i < p->n_phases; i++)
            if (!run_phase(f, &phases[i])) return;
        start += n;
    }
}

/* Constants fill as much of their blocks as any shape of this run can use. */
static void fill_uniforms(InterpFrame *f) {
    const __int128 positions = (__int128)f->group[GROUP_outer].total * max_i64(f->group[GROUP_inner].total, 1);
    const int64_t n = positions < BLOCK ? (int64_t)positions : BLOCK;
    for (int i = 0; i < f->program->n_init; i++) fill_uniform(f, &f->steps[i], n);
}

void interp_run(const BlockProgram *program, void *const *bufs, const int64_t *params, const int64_t *lo,
                const int64_t *hi, NestError *error) {
    const Kernels *const kernels = kernels_now();
    if (program->fast.n && is_whole(program, params, lo, hi) && run_fast(program, kernels, bufs, params)) return;
    char *const block = scratch_alloc(frame_bytes(program));
    if (!block) {
        error->inst = INTERP_NO_MEMORY;
        return;
    }
    InterpFrame f;
    f.program = program;
    f.params = params;
    f.kernels = kernels;
    f.error = error;
    f.steps = block_insts(program);
    layout_frame(&f, block);
    resolve_frame(&f, lo, hi, bufs);
    if (f.group[GROUP_outer].total > 0) {
        fill_uniforms(&f);
        run_tiles(&f);
    }
    scratch_release(block);
}
