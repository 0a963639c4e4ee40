/* ref_eval.c: see ref_eval.h. Per outer position: phases in order; per inner position: all
 * instructions of the phases so far, in order, then the stores. Values of instructions that do not
 * vary inside are computed once. */
#include "tests/ref/ref_eval.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/kernels.h"

typedef union Value { /* exact: the compute type; double mode: d for floats, l for ints and bools */
    float f;
    double d;
    int32_t i;
    int64_t l;
    uint8_t b;
} Value;

typedef struct Run Run;
typedef struct Mode {
    void (*constant)(const Inst *inst, Value *out);
    void (*load)(DType dtype, const void *from, Value *out);
    void (*store)(DType dtype, void *to, const Value *value);
    void (*prim)(const Inst *inst, SType type, const Value *a, const Value *b, const Value *c, Value *out);
    void (*cast)(SType from, SType to, const Value *a, Value *out);
    void (*reduce)(Run *run, const Inst *inst, SType type, const Value *a, const Value *b, Value *out);
} Mode;

struct Run {
    const Mode *mode;
    const Nest *nest;
    const Buf *bufs;
    void *const *memory;
    const int64_t *params;
    int64_t extent[MAX_LOOP_DIMS], index[MAX_LOOP_DIMS];
    int64_t n_s, n_l; /* elements of the S and the L dims */
    Value *value;
    bool *known;
    NestError *error;
};

static int64_t plain(const Run *run, int64_t v) { return sym_is(v) ? run->params[sym_id(v)] : v; }

static int64_t place(const Run *run, const Affine *at) {
    int64_t sum = plain(run, at->offset);
    for (int i = 0; i < run->nest->n_outer + run->nest->n_inner; i++) sum += plain(run, at->coef[i]) * run->index[i];
    return sum;
}

static char *address(const Run *run, const Inst *inst, int64_t element) {
    return (char *)run->memory[inst->buf] + element * dtype_bytes(run->bufs[inst->buf].dtype);
}

static bool gather_offset(Run *run, const Inst *inst, int64_t *offset) {
    const int64_t given = run->value[inst->a].l, bound = plain(run, inst->bound);
    const int64_t index = given < 0 && inst->wrap_negative ? given + bound : given;
    if (index < 0 || index >= bound) {
        *run->error = (NestError){(int32_t)(inst - run->nest->insts), given, bound};
        return false;
    }
    *offset = index * plain(run, inst->scale);
    return true;
}

static bool compute(Run *run, int number) {
    const Inst *const inst = &run->nest->insts[number];
    Value *const out = &run->value[number];
    const Value *const a = inst->a >= 0 ? &run->value[inst->a] : NULL,
                       *const b = inst->b >= 0 ? &run->value[inst->b] : NULL,
                       *const c = inst->c >= 0 ? &run->value[inst->c] : NULL;
    int64_t offset = 0;
    switch ((LoopOp)inst->op) {
    case LI_const:
        run->mode->constant(inst, out);
        break;
    case LI_param:
        out->l = run->params[inst->param];
        break;
    case LI_index:
        out->l = place(run, inst->at);
        break;
    case LI_gather:
        if (!gather_offset(run, inst, &offset)) return false;
        run->mode->load(run->bufs[inst->buf].dtype, address(run, inst, place(run, inst->at) + offset), out);
        break;
    case LI_load:
        run->mode->load(run->bufs[inst->buf].dtype, address(run, inst, place(run, inst->at)), out);
        break;
    case LI_prim:
        run->mode->prim(inst, (SType)run->nest->insts[inst->prim == PRIM_select ? inst->b : inst->a].type, a, b, c,
                        out);
        break;
    case LI_cast:
        run->mode->cast((SType)run->nest->insts[inst->a].type, (SType)inst->type, a, out);
        break;
    case LI_reduce:
    case LI_store:
        break;
    }
    return true;
}

/* Everything before `end` that is not known for this outer position; inner values anew when
 * `inside`. */
static bool compute_all(Run *run, int end, bool inside) {
    for (int i = 0; i < end; i++) {
        const Inst *const inst = &run->nest->insts[i];
        if (run->known[i] || inst->op == LI_reduce || inst->op == LI_store || (inst->inner && !inside)) continue;
        if (!compute(run, i)) return false;
        run->known[i] = !inst->inner;
    }
    return true;
}

static void set_inner(Run *run, int64_t position) {
    for (int i = run->nest->n_outer + run->nest->n_inner - 1; i >= run->nest->n_outer; i--) {
        run->index[i] = position % run->extent[i];
        position /= run->extent[i];
    }
}

static bool run_reduce(Run *run, const Phase *phase) {
    const int64_t n = run->n_s * run->n_l;
    const int end = phase->first + phase->n;
    Value *const kept = malloc(sizeof(Value) * (size_t)(n * run->nest->n_insts + 1));
    bool ok = compute_all(run, end, false);
    for (int64_t p = 0; ok && p < n; p++) {
        set_inner(run, p);
        ok = compute_all(run, end, true);
        for (int i = 0; i < end; i++) kept[i * n + p] = run->value[i];
    }
    for (int i = phase->first; ok && i < end; i++) {
        const Inst *const inst = &run->nest->insts[i];
        if (inst->op != LI_reduce) continue;
        const Value *const b = inst->b >= 0 ? kept + inst->b * n : NULL;
        run->mode->reduce(run, inst, (SType)run->nest->insts[inst->a].type, kept + inst->a * n, b, &run->value[i]);
        run->known[i] = true;
    }
    free(kept);
    return ok;
}

static void store_all(Run *run, const Phase *phase) {
    for (int i = phase->first; i < phase->first + phase->n; i++) {
        const Inst *const inst = &run->nest->insts[i];
        if (inst->op == LI_store)
            run->mode->store(run->bufs[inst->buf].dtype, address(run, inst, place(run, inst->at)),
                             &run->value[inst->a]);
    }
}

static bool run_map(Run *run, const Phase *phase) {
    const int64_t n = phase->over_outer ? 1 : run->n_s * run->n_l;
    const int end = phase->first + phase->n;
    for (int64_t p = 0; p < n; p++) {
        if (!phase->over_outer) set_inner(run, p);
        if (!compute_all(run, end, !phase->over_outer)) return false;
        store_all(run, phase);
    }
    return true;
}

static bool run_phases(Run *run) {
    memset(run->known, 0, sizeof *run->known * (size_t)run->nest->n_insts);
    for (int i = 0; i < run->nest->n_phases; i++) {
        const Phase *const phase = &run->nest->phases[i];
        if (!(phase->kind == PHASE_reduce ? run_reduce(run, phase) : run_map(run, phase))) return false;
    }
    return true;
}

static void run_nest(Run *run, const int64_t *lo, const int64_t *hi) {
    const Nest *const nest = run->nest;
    int64_t total = 1, low[MAX_LOOP_DIMS] = {0}, size[MAX_LOOP_DIMS];
    run->n_s = run->n_l = 1;
    for (int i = 0; i < nest->n_outer + nest->n_inner; i++) {
        run->extent[i] = plain(run, nest->extent[i]);
        if (i >= nest->n_outer)
            *(i < nest->n_outer + nest->n_s ? &run->n_s : &run->n_l) *= run->extent[i];
        else
            low[i] = lo ? lo[i] : 0, size[i] = lo ? hi[i] - lo[i] : run->extent[i], total *= size[i];
    }
    run->value = calloc((size_t)nest->n_insts, sizeof(Value));
    run->known = calloc((size_t)nest->n_insts, sizeof(bool));
    for (int64_t p = 0; p < total; p++) {
        int64_t rest = p;
        for (int i = nest->n_outer - 1; i >= 0; i--) {
            run->index[i] = low[i] + rest % size[i];
            rest /= size[i];
        }
        if (!run_phases(run)) break;
    }
    free(run->value);
    free(run->known);
}

/* positions: the same in both modes, by way of double or int64 -------------------------------- */

static bool beats(SType type, bool largest, Value x, Value best, bool wide) {
    if (type == S_f32 || type == S_f64) {
        const double a = type == S_f32 && !wide ? x.f : x.d, b = type == S_f32 && !wide ? best.f : best.d;
        if (isnan(b)) return false;
        return isnan(a) || (largest ? a > b : a < b);
    }
    const int64_t a = type == S_i32 && !wide ? x.i : x.l, b = type == S_i32 && !wide ? best.i : best.l;
    return largest ? a > b : a < b;
}

static int64_t position_of(const Inst *inst, SType type, const Value *a, int64_t n, bool wide) {
    int64_t best = 0; /* of nothing too: an op refuses that before */
    for (int64_t i = 1; i < n; i++)
        if (beats(type, inst->prim == RED_argmax, a[i], a[best], wide)) best = i;
    return best;
}

/* exact --------------------------------------------------------------------------------------- */

static void exact_constant(const Inst *inst, Value *out) {
    if (inst->type == S_f32)
        out->f = (float)inst->f;
    else if (inst->type == S_f64)
        out->d = inst->f;
    else if (inst->type == S_i32)
        out->i = (int32_t)inst->i;
    else if (inst->type == S_b)
        out->b = inst->i != 0;
    else
        out->l = inst->i;
}

static void exact_load(DType dtype, const void *from, Value *out) { kernel_table()->load(dtype)(out, from, 1, 1); }
static void exact_store(DType dtype, void *to, const Value *value) { kernel_table()->store(dtype)(to, 1, value, 1); }
static void exact_prim(const Inst *inst, SType type, const Value *a, const Value *b, const Value *c, Value *out) {
    kernel_table()->prim(inst->prim, type)(out, a, b, c, 1);
}
static void exact_cast(SType from, SType to, const Value *a, Value *out) {
    if (from == to)
        *out = *a;
    else
        kernel_table()->cast(from, to)(out, a, NULL, NULL, 1);
}

static void identity(RedKind kind, SType type, Value *out) {
    const bool is_int = type == S_i32 || type == S_i64;
    *out = (Value){.l = 0};
    double start = kind == RED_prod ? 1 : kind == RED_max ? -INFINITY : kind == RED_min ? INFINITY : 0;
    if (kind == RED_all)
        out->b = 1;
    else if (type == S_f32)
        out->f = (float)start;
    else if (type == S_f64)
        out->d = start;
    else if (is_int && kind == RED_max)
        *out = type == S_i32 ? (Value){.i = INT32_MIN} : (Value){.l = INT64_MIN};
    else if (is_int && kind == RED_min)
        *out = type == S_i32 ? (Value){.i = INT32_MAX} : (Value){.l = INT64_MAX};
    else if (is_int)
        out->l = (int64_t)start;
}

/* acc op a (op b): one step of a lane or of a row chain. */
static void join(RedKind kind, SType type, Value *acc, const Value *a, const Value *b) {
    static const int prims[] = {[RED_sum] = PRIM_add, [RED_prod] = PRIM_mul, [RED_max] = PRIM_max,
                                [RED_min] = PRIM_min, [RED_any] = PRIM_or,   [RED_all] = PRIM_and};
    const KernelTable *const table = kernel_table();
    Value out;
    if (kind != RED_dot)
        table->prim(prims[kind], type)(&out, acc, a, NULL, 1);
    else if (type == S_f32 || type == S_f64)
        table->prim(PRIM_fma, type)(&out, a, b, acc, 1);
    else {
        Value product;
        table->prim(PRIM_mul, type)(&product, a, b, NULL, 1);
        table->prim(PRIM_add, type)(&out, acc, &product, NULL, 1);
    }
    *acc = out;
}

static RedKind plain_kind(RedKind kind) { return kind == RED_dot ? RED_sum : kind; }

static Value chunk_L(RedKind kind, SType type, const Value *a, const Value *b, int64_t n) {
    Value lane[LANES_L];
    for (int i = 0; i < LANES_L; i++) identity(kind, type, &lane[i]);
    for (int64_t i = 0; i < n; i++) join(kind, type, &lane[i % LANES_L], &a[i], b ? &b[i] : NULL);
    for (int apart = 1; apart < LANES_L; apart *= 2)
        for (int i = 0; i < LANES_L; i += 2 * apart) join(plain_kind(kind), type, &lane[i], &lane[i + apart], NULL);
    return lane[0];
}

static Value chunk_S(RedKind kind, SType type, const Value *a, const Value *b, int64_t n) {
    Value sum;
    identity(kind, type, &sum);
    for (int64_t i = 0; i < n; i++) join(kind, type, &sum, &a[i], b ? &b[i] : NULL);
    return sum;
}

typedef Value ChunkFn(RedKind kind, SType type, const Value *a, const Value *b, int64_t n);

static Value by_chunks(ChunkFn *chunk, int64_t size, RedKind kind, SType type, const Value *a, const Value *b,
                       int64_t n) {
    if (n <= size) return chunk(kind, type, a, b, n);
    const int64_t n_chunks = (n + size - 1) / size;
    Value *const results = malloc(sizeof(Value) * (size_t)n_chunks);
    for (int64_t i = 0; i < n_chunks; i++)
        results[i] =
            chunk(kind, type, a + i * size, b ? b + i * size : NULL, n - i * size < size ? n - i * size : size);
    const Value whole = by_chunks(chunk, size, plain_kind(kind), type, results, NULL, n_chunks);
    free(results);
    return whole;
}

static void exact_reduce(Run *run, const Inst *inst, SType type, const Value *a, const Value *b, Value *out) {
    const RedKind kind = (RedKind)inst->prim;
    const Nest *const nest = run->nest;
    if (kind == RED_argmax || kind == RED_argmin) {
        out->l = position_of(inst, type, a, run->n_s * run->n_l, false);
        return;
    }
    if (nest->n_s == nest->n_inner) {
        *out = by_chunks(chunk_S, CHUNK_S, kind, type, a, b, run->n_s);
        return;
    }
    Value *const rows = malloc(sizeof(Value) * (size_t)(run->n_s + 1));
    for (int64_t s = 0; s < run->n_s; s++)
        rows[s] = by_chunks(chunk_L, CHUNK_L, kind, type, a + s * run->n_l, b ? b + s * run->n_l : NULL, run->n_l);
    *out = nest->n_s ? by_chunks(chunk_S, CHUNK_S, plain_kind(kind), type, rows, NULL, run->n_s) : rows[0];
    free(rows);
}

static const Mode exact = {exact_constant, exact_load, exact_store, exact_prim, exact_cast, exact_reduce};

void ref_exact(const Nest *nest, const Buf *bufs, void *const *memory, const int64_t *params, const int64_t *lo,
               const int64_t *hi, NestError *error) {
    Run run = {.mode = &exact, .nest = nest, .bufs = bufs, .memory = memory, .params = params, .error = error};
    run_nest(&run, lo, hi);
}

/* double -------------------------------------------------------------------------------------- */

static bool is_float(SType type) { return type == S_f32 || type == S_f64; }

static void double_constant(const Inst *inst, Value *out) {
    if (is_float((SType)inst->type))
        out->d = inst->type == S_f32 ? (float)inst->f : inst->f;
    else
        out->l = inst->i;
}

static void widen(SType type, Value *v) {
    if (type == S_f32)
        v->d = v->f;
    else if (type == S_i32)
        v->l = v->i;
    else if (type == S_b)
        v->l = v->b;
}

static void narrow(SType type, Value *v) {
    if (type == S_f32)
        v->f = (float)v->d;
    else if (type == S_i32)
        v->i = (int32_t)v->l;
    else if (type == S_b)
        v->b = v->l != 0;
}

static void double_load(DType dtype, const void *from, Value *out) {
    exact_load(dtype, from, out);
    widen(dtype_compute(dtype), out);
}

static void double_store(DType dtype, void *to, const Value *value) {
    Value copy = *value;
    narrow(dtype_compute(dtype), &copy);
    exact_store(dtype, to, &copy);
}

static double pick(bool first, double a, double b) { return isnan(a) || isnan(b) ? NAN : first ? a : b; }

static double sigmoid(double a) { return 1 / (1 + exp(-a)); }

static double gelu(double a) { return isinf(a) ? fmax(a, 0) : a / 2 * erfc(-a * M_SQRT1_2); }
static double gelu_slope(double a) {
    return isinf(a) ? a > 0 : erfc(-a * M_SQRT1_2) / 2 + a * exp(-a * a / 2) * M_SQRT1_2 / 2 * M_2_SQRTPI;
}

/* Elementary functions by libm. */
static double (*const of_one[PRIM_COUNT])(double) = {
    [PRIM_exp] = exp,     [PRIM_exp2] = exp2,       [PRIM_expm1] = expm1,   [PRIM_log] = log,
    [PRIM_log2] = log2,   [PRIM_log10] = log10,     [PRIM_log1p] = log1p,   [PRIM_sin] = sin,
    [PRIM_cos] = cos,     [PRIM_tan] = tan,         [PRIM_asin] = asin,     [PRIM_acos] = acos,
    [PRIM_atan] = atan,   [PRIM_sinh] = sinh,       [PRIM_cosh] = cosh,     [PRIM_tanh] = tanh,
    [PRIM_asinh] = asinh, [PRIM_acosh] = acosh,     [PRIM_atanh] = atanh,   [PRIM_erf] = erf,
    [PRIM_erfc] = erfc,   [PRIM_sigmoid] = sigmoid, [PRIM_gelu_erf] = gelu, [PRIM_gelu_erf_slope] = gelu_slope};
static double (*const of_two[PRIM_COUNT])(double, double) = {
    [PRIM_pow] = pow, [PRIM_atan2] = atan2, [PRIM_hypot] = hypot, [PRIM_fmod] = fmod};

static bool float_prim(int prim, double a, double b, double c, double *out) {
    switch (prim) {
    case PRIM_add:
        *out = a + b;
        break;
    case PRIM_sub:
        *out = a - b;
        break;
    case PRIM_mul:
        *out = a * b;
        break;
    case PRIM_div:
        *out = a / b;
        break;
    case PRIM_fma:
        *out = fma(a, b, c);
        break;
    case PRIM_neg:
        *out = -a;
        break;
    case PRIM_abs:
        *out = fabs(a);
        break;
    case PRIM_sqrt:
        *out = sqrt(a);
        break;
    case PRIM_max:
        *out = pick(a > b || (a == b && !signbit(a)), a, b);
        break;
    case PRIM_min:
        *out = pick(a < b || (a == b && signbit(a)), a, b);
        break;
    case PRIM_floor:
        *out = floor(a);
        break;
    case PRIM_ceil:
        *out = ceil(a);
        break;
    case PRIM_trunc:
        *out = trunc(a);
        break;
    case PRIM_rint:
        *out = rint(a);
        break;
    default:
        if (of_one[prim]) *out = of_one[prim](a);
        if (of_two[prim]) *out = of_two[prim](a, b);
        return of_one[prim] || of_two[prim];
    }
    return true;
}

static bool compare(int prim, int order, bool unordered) {
    switch (prim) {
    case PRIM_lt:
        return !unordered && order < 0;
    case PRIM_le:
        return !unordered && order <= 0;
    case PRIM_gt:
        return !unordered && order > 0;
    case PRIM_ge:
        return !unordered && order >= 0;
    case PRIM_eq:
        return !unordered && order == 0;
    default:
        return unordered || order != 0;
    }
}

static void double_prim(const Inst *inst, SType type, const Value *a, const Value *b, const Value *c, Value *out) {
    if (inst->prim == PRIM_select) {
        *out = a->l ? *b : *c;
    } else if (prim_returns_bool((Prim)inst->prim)) {
        const bool floats = is_float(type);
        const int order = floats ? (a->d > b->d) - (a->d < b->d) : (a->l > b->l) - (a->l < b->l);
        out->l = compare(inst->prim, order, floats && (isnan(a->d) || isnan(b->d)));
    } else if (!is_float(type) || !float_prim(inst->prim, a->d, b ? b->d : 0, c ? c->d : 0, &out->d)) {
        Value x = *a, y = b ? *b : *a, z = c ? *c : *a; /* ints and roundings are exact: no other reference is needed */
        narrow(type, &x);
        narrow(type, &y);
        narrow(type, &z);
        exact_prim(inst, type, &x, &y, &z, out);
        widen(type, out);
    }
}

static void double_cast(SType from, SType to, const Value *a, Value *out) {
    if (is_float(from) && is_float(to)) {
        *out = *a;
        return;
    }
    Value x = *a;
    narrow(from, &x);
    exact_cast(from, to, &x, out);
    widen(to, out);
}

static void double_reduce(Run *run, const Inst *inst, SType type, const Value *a, const Value *b, Value *out) {
    const RedKind kind = (RedKind)inst->prim;
    const int64_t n = run->n_s * run->n_l;
    if (kind == RED_argmax || kind == RED_argmin) {
        out->l = position_of(inst, type, a, n, true);
        return;
    }
    identity(kind, type, out);
    widen(type, out);
    for (int64_t i = 0; i < n; i++) {
        if (!is_float(type)) {
            Value x = a[i], y = b ? b[i] : a[i];
            narrow(type, &x);
            narrow(type, &y);
            narrow(type, out);
            join(kind, type, out, &x, &y);
            widen(type, out);
        } else if (kind == RED_sum)
            out->d += a[i].d;
        else if (kind == RED_dot)
            out->d += a[i].d * b[i].d;
        else if (kind == RED_prod)
            out->d *= a[i].d;
        else
            float_prim(kind == RED_max ? PRIM_max : PRIM_min, out->d, a[i].d, 0, &out->d);
    }
}

static const Mode in_double = {double_constant, double_load, double_store, double_prim, double_cast, double_reduce};

void ref_double(const Nest *nest, const Buf *bufs, void *const *memory, const int64_t *params, const int64_t *lo,
                const int64_t *hi, NestError *error) {
    Run run = {.mode = &in_double, .nest = nest, .bufs = bufs, .memory = memory, .params = params, .error = error};
    run_nest(&run, lo, hi);
}
