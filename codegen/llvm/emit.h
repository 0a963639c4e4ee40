/* emit.h: the inside of the LLVM emitter: one nest and its shape [codegen/shape] become one function of explicit vector
 * IR. Nothing is decided here: what shape a nest takes is in the record, this spells it.
 *
 * Every value is a vector of `lanes` elements of its compute type (bools: i1), also where all lanes
 * are equal. What a lane means is the shape's mode: columns, panels or rows.
 * The frame says which index values the lanes of the current vector have.
 *
 *   emit_nest.c    loops, phases                    emit_reduce.c  orders L and S
 *   emit_value.c   instructions                     emit_fold.c    sums of more chunks than one level holds
 *   emit_memory.c  loads, stores, gathers           module.c       linking, passes, object bytes */
#ifndef SINTER_CODEGEN_LLVM_EMIT_H
#define SINTER_CODEGEN_LLVM_EMIT_H
#include <llvm-c/Core.h>

#include "codegen/codegen.h"
#include "codegen/shape/shape.h"

typedef LLVMValueRef Value;

enum {
    MAX_REDS = MAX_PHASE_REDS,
    MAX_UNROLL = SHAPE_COPIES,
    EMIT_MAX_BUFS = 256,
    EMIT_MAX_PARAMS = 256,
    EMIT_MAX_PARTS = 256
};

/* Where the lanes of the current vector are. */
typedef struct IndexFrame {
    Value base[MAX_LOOP_DIMS]; /* per group: i64, index of lane 0 */
    Value each[MAX_LOOP_DIMS]; /* per group: one i64 per lane, instead of base; NULL: base */
    int linear;                /* the group in which lane k is at base + k; -1: none */
    Value full;                /* i1, with a mask: all lanes exist (of all contexts); stores then branch around
                       masking, which is slow */
    bool on_full;              /* inside that branch */
    Value mask;                /* <lanes x i1> of lanes that exist; NULL: all do */
    Value row, s_row;          /* i64: positions in the L sequence (of lane 0) and the S sequence */
} IndexFrame;

/* The LLVM module that all nests of a request go to. */
typedef struct Unit {
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMModuleRef parts[EMIT_MAX_PARTS]; /* bitcode of the primitives that were named */
    int n_parts;
    char missing[64]; /* a bitcode function that was asked for and is not there */
} Unit;

typedef struct Types {
    LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, ptr;
} Types;

/* What a call of the nest's function gives; what never changes is loaded on first use, in the entry block. */
typedef struct CallValues {
    Value function, arg[5]; /* bufs, params, lo, hi, error */
    Value buf[EMIT_MAX_BUFS], param[EMIT_MAX_PARAMS];
    Value extent[MAX_LOOP_DIMS]; /* of the shape's groups */
} CallValues;

/* Vectors side by side (columns; rows have one), each with what was made for it. */
typedef struct Contexts {
    int n;
    Value *memos[MAX_UNROLL], *places[MAX_UNROLL];
    Value masks[MAX_UNROLL]; /* of lanes that exist, per context; NULL: all do */
    Value column;            /* index of the first context's lane 0 in the last outer group */
    Value *memo;             /* of the current context, per instruction: its value, or NULL */
    Value *place;            /* likewise: address without the inner dims' part */
} Contexts;

/* Stores past the caches, as far as a call has them. */
typedef struct StreamValues {
    Value large; /* i1: the nest touches more than the caches keep; NULL: it does not */
    Value here;  /* i1, at the current places: stores go past the caches; NULL: none */
    Value lead;  /* ragged rows: elements from an aligned address to the row; NULL: not ragged */
    bool past;   /* inside that branch */
    bool fences; /* there is such a branch */
} StreamValues;

typedef struct Emitter {
    const CodegenRequest *request;
    const Nest *nest;
    const Buf *bufs;
    const NestMapping *shape;
    Arena *arena;
    LLVMBuilderRef b, entry; /* entry: the end of the first block, for what never changes */
    int lanes, phase;
    Value *row_buffer; /* per instruction: kept values of the row, or NULL */
    IndexFrame frame;
    Unit unit;
    Types type;
    CallValues call;
    Contexts side;
    StreamValues stream;
} Emitter;

/* module.c */
/* A declaration of a bitcode function; NULL: there is none. */
Value emit_library(Emitter *e, const char *name);

/* Address of element `index`. */
static inline Value emit_gep(LLVMBuilderRef b, LLVMTypeRef type, Value pointer, Value index) {
    return LLVMBuildGEP2(b, type, pointer, &index, 1, "");
}

/* refusal.c */
/* why it cannot be emitted, or NULL */
const char *emit_refusal(const CodegenRequest *request, int nest);

/* emit_nest.c */
void emit_nest(Emitter *e, const char *symbol);
LLVMBasicBlockRef emit_block(Emitter *e, const char *name);
Value emit_int(Emitter *e, int64_t v); /* i64: a plain number, or a parameter of the call */
Value emit_entry_alloca(Emitter *e, LLVMTypeRef type, int64_t n, int align);
void emit_forget_inner(Emitter *e);
void emit_phases_from(Emitter *e, int phase); /* at the current places */
/* columns: which vector memo, place and frame are of */
void emit_use_context(Emitter *e, int context);
/* all contexts: the operands of the phase's stores and reductions */
void emit_lockstep(Emitter *e);
Value emit_const(Emitter *e, int64_t v);
Value emit_add(Emitter *e, Value x, int64_t v);

/* A loop `for (i = from; i < to; i += step)`, with values carried around it. */
typedef struct Loop {
    LLVMBasicBlockRef head, body, exit;
    Value i, to; /* i is still valid after the loop: the first index not run */
    int n;
    Value carried[2 * MAX_REDS * 16]; /* phis; after the loop: their last values */
} Loop;
void emit_loop_begin(Emitter *e, Loop *loop, Value from, Value to);
/* after begin, before the body's first instruction */
Value emit_loop_carry(Emitter *e, Loop *loop, Value initial);
void emit_loop_body(Emitter *e, Loop *loop);
void emit_loop_end(Emitter *e, Loop *loop, int64_t step, const Value *next);

/* emit_value.c */
LLVMTypeRef emit_scalar(Emitter *e, SType type);
LLVMTypeRef emit_vector(Emitter *e, SType type);
Value emit_splat(Emitter *e, Value scalar);
Value emit_iota(Emitter *e, LLVMTypeRef element);
Value emit_value(Emitter *e, int inst); /* of the current frame, made at most once per frame */
void emit_wide(Emitter *e, int inst);   /* a shared primitive: one call for all contexts */
Value emit_prim(Emitter *e, int prim, SType type, Value x, Value y, Value z);
Value emit_first_lane(Emitter *e, Value vector);
Value emit_call(Emitter *e, const char *name, const Value *operands, int n, LLVMTypeRef result);
Value emit_intrinsic(Emitter *e, const char *name, LLVMTypeRef *types, int n_types, Value *args, int n);
Value emit_zero(LLVMTypeRef type);

/* emit_memory.c */
Value emit_load(Emitter *e, int inst);
/* The contiguous ones of all contexts, which may be partial. */
void emit_loads(Emitter *e, const bool *needed);
Value emit_gather(Emitter *e, int inst);
/* What it stores, as it is in memory; before emit_store. */
void emit_store_value(Emitter *e, int inst);
void emit_store(Emitter *e, int inst);
Value emit_index(Emitter *e, const Affine *at);
void emit_places(Emitter *e); /* the outer part of every address, at the current outer indices */
void emit_row_keep(Emitter *e, int inst);
Value emit_row_read(Emitter *e, int inst);

Value emit_next_address(Emitter *e, int inst, Value step); /* lane 0, `step` elements further */

/* emit_stream.c */
void emit_stream_begin(Emitter *e);  /* of a nest */
void emit_stream_choose(Emitter *e); /* at the current places: sets `here` */
void emit_stream_end(Emitter *e);
bool emit_streams_in(const Emitter *e, const Phase *phase);
bool emit_may_stream(const Emitter *e, int inst);
void emit_stream_store(Emitter *e, int inst, Value v, Value pointer);
void emit_prefetch(Emitter *e, int copy); /* at the frame's vector, the `copy`-th of an iteration */

/* emit_reduce.c */
void emit_reduce_phase(Emitter *e, const Phase *phase); /* leaves the results in memo */
typedef void EmitBody(Emitter *e, void *context);       /* called with the frame set to one vector */
void emit_loop_L(Emitter *e, EmitBody *body, void *context);
void emit_loop_S(Emitter *e, EmitBody *body, void *context); /* frame set to one S row */
void emit_set_S(Emitter *e, Value row);
Value emit_lanes_below(Emitter *e, Value end, Value at); /* the mask of lanes at + k < end */
Value emit_least(Emitter *e, Value x, Value y);
Value emit_L_total(Emitter *e);
Value emit_S_total(Emitter *e);

/* One partial result: a vector or scalar, for argmax and argmin with its position. */
typedef struct Acc {
    Value v, at;
} Acc;
Acc red_identity(Emitter *e, const Inst *red, bool vector);
Acc red_join(Emitter *e, const Inst *red, Acc a, Acc b);            /* of two partial results, vectors */
Acc red_step(Emitter *e, const Inst *red, Acc acc);                 /* one more element per lane */
Acc red_start(Emitter *e, const Inst *red, int level, Value total); /* of S, `total` rows in all */
Acc red_tree(Emitter *e, const Inst *red, Acc *part, int n);        /* 64 lanes in n vectors -> splat */

/* emit_panel.c */
Value emit_panels(Emitter *e, Value begin, Value end); /* the first column not done */

/* emit_fold.c: partial sums of more than one chunk */
Value fold_new(Emitter *e, const Inst *red);
void fold_reset(Emitter *e, Value state);
void fold_push(Emitter *e, const Inst *red, Value state, Value scalar);
Value fold_finish(Emitter *e, const Inst *red, Value state);

#endif
