/* random_nest.c: see random_nest.h. A pool of values grows by random steps; then some are reduced,
 * combined again and stored. All randomness comes from one counter-based stream. */
#include "tests/ref/random_nest.h"

#include <math.h>

#include "runtime/base/hash.h"
#include "tests/ref/nan.h"

enum { MAX_POOL = 64 };

typedef struct Maker {
    Arena *arena;
    uint64_t state;
    RandomNest *out;
    LoopBuilder *b;
    int n_outer, n_inner, n_s;
    int64_t extent[MAX_LOOP_DIMS]; /* plain */
    int64_t given[MAX_LOOP_DIMS];  /* plain or parameters */
    Buf bufs[RANDOM_MAX_BUFS];
    int n_bufs, n_params;
    int pool[MAX_POOL], n_pool;
    Affine inplace_at; /* of the buffer that may be stored to again */
    int inplace;       /* buffer, or -1 */
} Maker;

static uint64_t next(Maker *m) {
    const uint64_t count = m->state++;
    return hash_mix(hash_mix(count, 0x9e37), count + 1);
}
static int below(Maker *m, int n) { return (int)((next(m) >> 33) % (uint64_t)n); }
static bool chance(Maker *m, int percent) { return below(m, 100) < percent; }

/* shape --------------------------------------------------------------------------------------- */

static int64_t some_extent(Maker *m) {
    static const int64_t extents[] = {1,  2,  3,  4,   5,   7,   8,    16,   17,   31,
                                      63, 64, 65, 100, 129, 257, 1000, 1024, 1030, 2500};
    if (chance(m, 2)) return 0;
    return chance(m, 60) ? extents[below(m, 11)] : extents[below(m, COUNT_OF(extents))];
}

static void choose_shape(Maker *m) {
    const int kind = below(m, 4); /* map, L, S, LS */
    m->n_outer = below(m, kind ? 3 : 4);
    m->n_inner = kind ? 1 + below(m, 2) : 0;
    if (kind == 3) m->n_inner = 2 + below(m, 2);
    m->n_s = kind == 2 ? m->n_inner : kind == 3 ? 1 + below(m, m->n_inner - 1) : 0;
    int64_t total = 1;
    for (int i = 0; i < m->n_outer + m->n_inner; i++) {
        m->extent[i] = some_extent(m);
        while (total * m->extent[i] > 12000) m->extent[i] = 1 + m->extent[i] / 3;
        total *= max_i64(m->extent[i], 1);
        m->given[i] = m->extent[i];
        if (m->n_params < 2 && chance(m, 10)) {
            m->out->params[m->n_params] = m->extent[i];
            m->given[i] = sym_make(m->n_params++);
        }
    }
}

/* places -------------------------------------------------------------------------------------- */

typedef struct Layout {
    Affine at;
    int64_t low, high; /* smallest and largest element */
} Layout;

static Layout some_layout(Maker *m, int n_dims, bool injective) {
    Layout l = {0};
    int order[MAX_LOOP_DIMS];
    for (int i = 0; i < n_dims; i++) order[i] = i;
    if (chance(m, 40))
        for (int i = n_dims - 1; i > 0; i--) {
            const int k = below(m, i + 1), t = order[i];
            order[i] = order[k];
            order[k] = t;
        }
    int64_t step = chance(m, 15) ? 2 : 1;
    for (int i = n_dims - 1; i >= 0; i--) {
        const int dim = order[i];
        const bool negative = chance(m, 8), broadcast = !injective && chance(m, 15);
        l.at.coef[dim] = broadcast ? 0 : negative ? -step : step;
        const int64_t reach = l.at.coef[dim] * max_i64(m->extent[dim] - 1, 0);
        *(reach < 0 ? &l.low : &l.high) += reach;
        if (!broadcast) step *= max_i64(m->extent[dim], 1) + (chance(m, 10) ? 3 : 0);
    }
    l.at.offset = chance(m, 20) ? below(m, 5) : 0;
    l.low += min_i64(l.at.offset, 0);
    l.high += l.at.offset;
    return l;
}

static int new_buffer(Maker *m, DType dtype, BufRole role, int64_t low, int64_t high) {
    const int buf = m->n_bufs++;
    m->bufs[buf] = (Buf){dtype, role};
    m->out->origin[buf] = -low;
    m->out->elements[buf] = high - low + 1;
    return buf;
}

static DType some_dtype(Maker *m) { return chance(m, 45) ? DT_f32 : (DType)(1 + below(m, DT_COUNT - 1)); }

static void push(Maker *m, int inst) {
    if (m->n_pool < MAX_POOL)
        m->pool[m->n_pool++] = inst;
    else
        m->pool[below(m, MAX_POOL)] = inst;
}

static int n_dims(const Maker *m) { return m->n_outer + m->n_inner; }

static void add_load(Maker *m) {
    if (m->n_bufs >= RANDOM_MAX_BUFS - 4) return;
    const bool outer_only = m->n_inner && chance(m, 20);
    const bool inplace = m->inplace < 0 && !outer_only && chance(m, 15);
    const Layout l = some_layout(m, outer_only ? m->n_outer : n_dims(m), inplace);
    const DType dtype = some_dtype(m);
    const int buf = new_buffer(m, dtype, inplace ? BUF_inout : BUF_in, l.low, l.high);
    if (inplace) {
        m->inplace = buf;
        m->inplace_at = l.at;
    }
    push(m, loop_load(m->b, buf, dtype, &l.at));
}

static void add_gather(Maker *m) {
    if (m->n_bufs >= RANDOM_MAX_BUFS - 4) return;
    const int64_t bound = 1 + below(m, 50), scale = 1 + below(m, 3);
    const bool wrap = chance(m, 50), miss = chance(m, 4);
    const Layout at_index = some_layout(m, n_dims(m), false), at = some_layout(m, n_dims(m), false);
    const int indices = new_buffer(m, DT_i64, BUF_in, at_index.low, at_index.high);
    m->out->index_bound[indices] = miss ? bound + 1 : bound;
    m->out->may_miss |= miss;
    int index = loop_load(m->b, indices, DT_i64, &at_index.at);
    if (!wrap && !miss) index = loop_prim(m->b, PRIM_max, index, loop_const(m->b, S_i64, 0, 0), -1);
    const bool misses_below = !wrap && miss;
    m->out->may_miss |= misses_below;
    const DType dtype = some_dtype(m);
    const int buf = new_buffer(m, dtype, BUF_in, at.low, at.high + bound * scale);
    push(m, loop_gather(m->b, buf, dtype, &at.at, index, scale, bound, wrap));
}

static void add_leaf(Maker *m) {
    const int kind = below(m, 10);
    const SType type = (SType)below(m, S_COUNT);
    static const double floats[] = {0.0, -0.0, 1.0, -1.5, 0.25, 1e-3, 3.0, 100.0};
    if (kind < 6)
        add_load(m);
    else if (kind < 7)
        add_gather(m);
    else if (kind < 8)
        push(m,
             loop_const(m->b, type, floats[below(m, COUNT_OF(floats))], type == S_b ? below(m, 2) : below(m, 20) - 5));
    else if (kind < 9) {
        const Layout l = some_layout(m, n_dims(m), false);
        push(m, loop_index(m->b, &l.at));
    } else if (m->n_params < RANDOM_MAX_PARAMS) {
        const double value = floats[below(m, COUNT_OF(floats))];
        m->out->kernel.param_is_float[m->n_params] = true;
        memcpy(&m->out->params[m->n_params], &value, sizeof value);
        push(m, loop_param(m->b, S_f64, m->n_params++));
    }
}

/* values -------------------------------------------------------------------------------------- */

static int some_value(Maker *m, SType type) {
    if (!m->n_pool) return loop_const(m->b, type, 1.0, 1);
    return loop_cast(m->b, type, m->pool[below(m, m->n_pool)]);
}

static void add_prim(Maker *m) {
    const Prim prim = (Prim)below(m, PRIM_COUNT);
    const SType type = chance(m, 45) && prim_has_type(prim, S_f32) ? S_f32 : (SType)below(m, S_COUNT);
    if (!prim_has_type(prim, type)) return;
    const int arity = prim_arity(prim);
    const int x = some_value(m, prim == PRIM_select ? S_b : type);
    const int y = arity > 1 ? some_value(m, type) : -1, z = arity > 2 ? some_value(m, type) : -1;
    push(m, loop_prim(m->b, prim, x, y, z));
}

static void add_reduction(Maker *m) {
    const SType type = chance(m, 60) ? S_f32 : (SType)below(m, S_COUNT);
    static const RedKind kinds[] = {RED_sum, RED_sum, RED_dot, RED_prod, RED_max, RED_min, RED_argmax, RED_argmin};
    const RedKind kind = type == S_b ? (chance(m, 50) ? RED_any : RED_all) : kinds[below(m, COUNT_OF(kinds))];
    const int x = some_value(m, type), y = kind == RED_dot ? some_value(m, type) : -1;
    push(m, loop_reduce(m->b, kind, x, y));
}

static void add_store(Maker *m, bool over_outer) {
    const DType dtype = some_dtype(m);
    const Layout l = some_layout(m, over_outer ? m->n_outer : n_dims(m), true);
    const int value = m->pool[m->n_pool - 1 - below(m, (int)min_i64(m->n_pool, 3))];
    if (!over_outer && m->inplace >= 0) {
        const DType there = m->bufs[m->inplace].dtype;
        loop_store(m->b, m->inplace, there, &m->inplace_at, loop_cast(m->b, dtype_compute(there), value), false);
        m->inplace = -1;
        return;
    }
    if (m->n_bufs >= RANDOM_MAX_BUFS) return;
    const int buf = new_buffer(m, dtype, BUF_out, l.low, l.high);
    loop_store(m->b, buf, dtype, &l.at, loop_cast(m->b, dtype_compute(dtype), value), over_outer);
}

/* Stores of values over the outer dims alone are made of reductions and constants only. */
static void store_over_outer(Maker *m, int reduction) {
    m->pool[0] = reduction;
    m->n_pool = 1;
    m->pool[m->n_pool++] = loop_const(m->b, S_f32, 2.0, 2);
    for (int i = below(m, 3); i > 0; i--) add_prim(m);
    add_store(m, true);
}

static void make(Maker *m) {
    m->inplace = -1;
    add_load(m);
    for (int i = below(m, 4); i > 0; i--) add_leaf(m);
    for (int i = below(m, 8); i > 0; i--) add_prim(m);
    int reductions[4], n_reductions = 0;
    for (int round = m->n_inner ? 1 + below(m, 2) : 0; round > 0; round--) {
        for (int k = 1 + below(m, 2); k > 0; k--) {
            add_reduction(m);
            reductions[n_reductions++] = m->pool[m->n_pool - 1];
        }
        for (int i = below(m, 4); i > 0; i--) add_prim(m);
    }
    if (!n_reductions || chance(m, 60)) {
        add_store(m, false);
        if (chance(m, 30)) add_store(m, false);
    }
    for (int i = 0; i < n_reductions; i++) store_over_outer(m, reductions[i]);
}

RandomNest *random_nest(Arena *arena, uint64_t seed) {
    RandomNest *const out = ARENA_NEW(arena, RandomNest);
    Nest *const nest = ARENA_NEW(arena, Nest);
    if (!out || !nest) return NULL;
    Maker m = {.arena = arena, .state = seed * 1000003, .out = out};
    out->seed = seed;
    out->kernel =
        (Kernel){.name = arena_printf(arena, "random_%llu", (unsigned long long)seed), .nests = nest, .n_nests = 1};
    out->kernel.param_is_float = ARENA_ARRAY(arena, bool, RANDOM_MAX_PARAMS);
    choose_shape(&m);
    m.b = loop_new(arena, m.n_outer, m.n_inner, m.n_s, m.given);
    if (!m.b) return NULL;
    make(&m);
    loop_finish(m.b, nest);
    out->kernel.bufs = arena_copy(arena, m.bufs, sizeof m.bufs);
    out->kernel.n_bufs = m.n_bufs;
    out->kernel.n_params = m.n_params;
    return out;
}

/* memory -------------------------------------------------------------------------------------- */

static void fill_ints(Maker *m, DType dtype, char *at, int64_t bound) {
    const int64_t small = below(m, 13) - 4, large = (int64_t)next(m);
    const int64_t value = bound ? (int64_t)(next(m) >> 8) % (2 * bound) - bound : chance(m, 90) ? small : large;
    const int64_t stored = dtype == DT_bool ? value & 1 : value;
    memcpy(at, &stored, (size_t)dtype_bytes(dtype));
}

static double some_double(Maker *m) {
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 1e30, -1.0};
    if (chance(m, 3)) return special[below(m, COUNT_OF(special))];
    return ((double)(next(m) >> 11) / 4503599627370496.0 - 1.0) * (chance(m, 10) ? 100 : 2);
}

static void fill_floats(Maker *m, DType dtype, char *at) {
    const double value = some_double(m);
    const float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    if (dtype == DT_f64)
        memcpy(at, &value, 8);
    else if (dtype == DT_f32)
        memcpy(at, &single, 4);
    else if (dtype == DT_bf16)
        memcpy(at, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
    else
        memcpy(at, &(uint16_t){(uint16_t)(next(m) >> 9)}, 2); /* any f16 is a fine f16 */
}

void **random_memory(Arena *arena, const RandomNest *nest, char **blocks) {
    Maker m = {.state = nest->seed * 7919 + 13};
    void **const memory = ARENA_ARRAY(arena, void *, RANDOM_MAX_BUFS);
    for (int i = 0; memory && i < nest->kernel.n_bufs; i++) {
        const DType dtype = nest->kernel.bufs[i].dtype;
        const int bytes = dtype_bytes(dtype);
        blocks[i] = arena_alloc(arena, (size_t)(nest->elements[i] * bytes));
        if (!blocks[i]) return NULL;
        for (int64_t e = 0; e < nest->elements[i]; e++) {
            if (dtype_is_float(dtype))
                fill_floats(&m, dtype, blocks[i] + e * bytes);
            else
                fill_ints(&m, dtype, blocks[i] + e * bytes, nest->index_bound[i]);
        }
        memory[i] = blocks[i] + nest->origin[i] * bytes;
    }
    return memory;
}

bool random_same(const RandomNest *nest, char *const *a, char *const *b, int *buf, int64_t *element) {
    for (*buf = 0; *buf < nest->kernel.n_bufs; ++*buf) {
        const DType dtype = nest->kernel.bufs[*buf].dtype;
        const int64_t bytes = dtype_bytes(dtype);
        for (*element = 0; *element < nest->elements[*buf]; ++*element) {
            const char *const x = a[*buf] + *element * bytes, *const y = b[*buf] + *element * bytes;
            if (memcmp(x, y, (size_t)bytes) && !(is_nan_at(dtype, x) && is_nan_at(dtype, y))) return false;
        }
    }
    return true;
}
