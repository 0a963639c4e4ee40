/* loop.h: loop IR: a fused kernel as data.
 *
 *   kernel k0_gelu_layer_norm(b0: in f32, b1: in f32, b2: out f32) params(p0) {
 *     nest outer(p0) inner(768) order L {
 *       reduce inner:
 *         %0 = load f32 b0[768*i0 + j0]
 *         %1 = gelu...                          a primitive of scalar.def on compute types
 *         %2 = sum.f32 %1
 *       map inner:
 *         %3 = div.f32 %2, 768.0:f32
 *         store b2[768*i0 + j0], %1
 *     }
 *   }
 *
 * A kernel is one entry of the call sequence: nests in order (each sees what earlier ones stored), or a template with
 * an epilogue nest. A nest is a pure dag of instructions over outer and inner index variables, arranged in phases:
 *   - a `reduce` phase ends in one or more reductions over all inner dims, whose results vary with the outer dims only;
 *   - a `map` phase ends in stores, over (outer, inner) or, `over outer`, over the outer dims alone;
 *   - a later phase may use any earlier instruction: at the same index if it varies with the inner dims (the executor
 *     recomputes or keeps it, the bits are the same), else the value of the outer index.
 * Inner dims are the S dims, then the L dims (dims of a sequence are merged row-major) [semantics B2]: for each S index
 * the L sequence is reduced by order L, the results by order S. Nests with only stores have no inner dims.
 *
 * Ints (extents, coefficients) are plain or name a parameter p<k> of the kernel by the encoding of sym.h
 * (sym_make(k)); `params` says what each is, an expression of the graph's SymEnv evaluated on every call. Float
 * runtime values are parameters too (their bits), read by LI_param. */
#ifndef SINTER_IR_LOOP_H
#define SINTER_IR_LOOP_H
#include "ir/dtype.h"
#include "ir/order.h"
#include "ir/sym.h"
#include "ir/template.h"
#include "runtime/base/arena.h"
#include "runtime/base/text.h"

enum { MAX_LOOP_DIMS = 12 };
enum { MAX_PHASE_REDS = 16 }; /* reductions in one phase: their accumulators live in registers */

typedef enum Prim {
#define SCALAR(name, arity, types, result, llvm, bound, doc) PRIM_##name,
#include "ir/scalar.def"
#undef SCALAR
    PRIM_COUNT
} Prim;

const char *prim_name(Prim prim);
int prim_arity(Prim prim);
bool prim_has_type(Prim prim, SType type);
bool prim_returns_bool(Prim prim);
double prim_ulps(Prim prim, SType type);   /* the row's bound, f32 or f64; 0.5 where the exact value is rounded once */
int prim_find(const char *name, size_t n); /* -1 when unknown */

typedef enum RedKind {
    RED_sum,
    RED_dot,
    RED_prod,
    RED_max,
    RED_min,
    RED_any,
    RED_all,
    RED_argmax,
    RED_argmin,
    RED_COUNT
} RedKind;
/* sum: plain adds from +0. dot: an fma chain per lane over a and b. prod: multiplies from 1, in the same orders.
 * max, min: of scalar.def. any, all: bools. argmax/argmin: i64 position in the merged sequence of inner dims (first of
 * the largest; NaN above all; -0 equal to +0). Ints sum with wrap. */
const char *red_name(RedKind kind);

typedef enum LoopOp {
    LI_const,  /* type, f or i */
    LI_param,  /* type f64 or i64: parameter `param` (f64: its bits) */
    LI_index,  /* i64: value of the affine expression `at` (no buffer) */
    LI_load,   /* buffer `buf` at `at`, converted to the compute type */
    LI_gather, /* the same plus a[inst] * `scale`, where inst a (i64) is checked against [0, `bound`) with negative
                  values wrapped once if `wrap_negative`; a miss stops the nest with an error */
    LI_prim,   /* `prim` of a, b, c */
    LI_cast,   /* a to `type`: float to int (i32, i64) saturates, NaN to 0; to b: != 0; f64 to f32 rounds */
    LI_reduce, /* `red` of a (and b for dot) over the inner dims */
    LI_store   /* a to buffer `buf` at `at`, rounded to the buffer's dtype */
} LoopOp;

typedef struct Affine {
    int64_t offset;
    int64_t coef[MAX_LOOP_DIMS]; /* per nest dim, outer first */
} Affine;

typedef struct Inst {
    uint8_t op;   /* LoopOp */
    uint8_t type; /* SType of the result; store: of the value */
    uint8_t prim; /* Prim or RedKind */
    bool inner;   /* varies with the inner dims */
    bool wrap_negative;
    int16_t a, b, c; /* operand instructions of the same nest, -1: none */
    int16_t buf, param;
    int64_t scale, bound; /* gather: plain or parameters */
    union {
        double f;
        int64_t i;
    };
    Affine *at;
    int source; /* id of the graph node it comes from, or -1: for names and errors */
} Inst;

typedef enum PhaseKind { PHASE_map, PHASE_reduce } PhaseKind;
typedef struct Phase {
    PhaseKind kind;
    bool over_outer; /* map over the outer dims alone */
    int first, n;    /* instructions */
} Phase;

typedef struct Nest {
    int n_outer, n_inner, n_s; /* the first n_s inner dims are S, the rest L */
    int64_t extent[MAX_LOOP_DIMS];
    int n_phases, n_insts;
    Phase *phases;
    Inst *insts;
    const char *name; /* "k0_gelu_layer_norm_n0"; set by lowering */
} Nest;

typedef enum BufRole { BUF_in, BUF_out, BUF_inout, BUF_temp, BUF_tile } BufRole;
typedef struct Buf {
    DType dtype;
    /* tile: the accumulator tile of a template: f32/f64, base adjusted so that b[row*ld + col] is right */
    BufRole role;
} Buf;

typedef struct Kernel {
    const char *name; /* "k3_add_gelu_sum": what it fuses */
    int n_bufs, n_params, n_nests;
    Buf *bufs;
    /* expressions of the graph's SymEnv, or NULL in a parsed kernel (then n_params are free) */
    int64_t *params;
    bool *param_is_float;  /* its value is a runtime float: params[i] is its index */
    TemplateUse *template; /* NULL: nests alone */
    Nest *nests;           /* of a template: nests[0] is its epilogue, if any */
    bool independent;      /* nests touch disjoint memory: they may run in any order, at once */
} Kernel;

bool nest_loads_from(const Nest *nest, int buf); /* or gathers */
uint64_t kernel_hash(const Kernel *kernel);      /* of its structure */
/* What an executor can see of a nest, as words: equal nests have the same ones. Returns how many there are; `words`
 * (room for all) and `hash` (of them) may be NULL. */
int nest_words(const Nest *nest, const Buf *bufs, int64_t *words, uint64_t *hash);
void kernel_print(const Kernel *kernel, Text *text);
Status kernel_parse(Arena *arena, const char *text, const char **end, Kernel **out);
Status
kernel_verify(const Kernel *kernel); /* types, phases, dims in range; raises ST_INTERNAL naming the instruction */

/* Writing nests: loop_* append to a builder, phases are formed by loop_finish (each reduction's operands first). */
typedef struct LoopBuilder LoopBuilder;
LoopBuilder *loop_new(Arena *arena, int n_outer, int n_inner, int n_s, const int64_t *extent);
/* f for floats, i for ints and bools */
int loop_const(LoopBuilder *b, SType type, double f, int64_t i);
int loop_double(LoopBuilder *b, SType type, double value); /* the constant that a cast of the f64 gives */
int loop_param(LoopBuilder *b, SType type, int param);
int loop_index(LoopBuilder *b, const Affine *at);
int loop_load(LoopBuilder *b, int buf, DType dtype, const Affine *at);
int loop_gather(LoopBuilder *b, int buf, DType dtype, const Affine *at, int index, int64_t scale, int64_t bound,
                bool wrap);
/* -1: none; folds nothing, shares equal instructions */
int loop_prim(LoopBuilder *b, Prim prim, int x, int y, int z);
int loop_cast(LoopBuilder *b, SType to, int x);
int loop_reduce(LoopBuilder *b, RedKind kind, int x, int y);
void loop_store(LoopBuilder *b, int buf, DType dtype, const Affine *at, int x, bool over_outer);
SType loop_type(const LoopBuilder *b, int inst);
int loop_count(const LoopBuilder *b);                  /* instructions so far */
const Inst *loop_inst(const LoopBuilder *b, int inst); /* valid until the next is written */
/* Is an element read at `index` (checked against bound) among what inst is computed from? */
bool loop_gathers(const LoopBuilder *b, int inst, int index, int64_t bound);
/* some primitive does not exist for its operands' type */
bool loop_ill_typed(const LoopBuilder *b);
void loop_source(LoopBuilder *b, int node); /* given to what follows */
void loop_finish(LoopBuilder *b, Nest *out);

/* How an executor runs a nest: over the rectangle lo..hi of the outer dims (inner dims always whole). */
typedef struct NestError {
    int32_t inst;         /* -1: none; else the gather that missed */
    int64_t index, bound; /* its value and bound */
} NestError;
typedef void NestFn(void *const *bufs, const int64_t *params, const int64_t *lo, const int64_t *hi, NestError *error);

#endif
