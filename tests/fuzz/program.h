/* program.h: a random program as data: what the fuzzer runs eagerly and compiled. Prints as text
 * that parses back, so a failing program is a file.
 *
 *   sizes 4 3 / 7 3                          two settings of the size variables: calls change sizes
 *   input f32[n0,2*n1] grad transposed       a tensor input, its layout; also: closed, alias 0,
 *   input i64[n1] range 0 2                  and the range of integers
 *   input f32[n0,3] alias 0 shifted          of the memory that input 0 lies in, at another offset in each call
 *   input f32[3] grad held                   closed over, one tensor for all calls, between which it changes
 *   v2 = aten::add.Tensor v0 v1 f:0.5        numbers: i:3, i:n0 (a size variable), f:0.5*n0, b:1,
 *   v3 = aten::mul_.Tensor v2 v0             s:tanh, none, [1,n0], (v0,v1)
 *   v4 = aten::mul.Tensor v0 f:2 ask size v3   the number is larger by what a query answers
 *   v5 = aten::mul.Tensor v0 f:2 of_grad     of v0's gradient, where it has one
 *   v6 = aten::mul.Tensor v0 f:2 in_eager    by a callee in mode EAGER, each time with another number
 *   v6 = aten::mul.Tensor v0 f:2 guarded     the number is larger by what a guard of the program's own reads
 *   v7 = aten::mul.Tensor v0 f:2 in_cond     in a branch; in_map, in_scan, in_while: in rounds
 *                                            in_vmap, in_grad, in_vjp, in_jvp: of a body of it (func.c);
 *                                            in_chunks: of one that draws numbers, some examples at a time
 *   v8 = aten::mul.Tensor v0 f:2 in_sparse   of what is there of v0, twice
 *   step                                     of the optimizer of all held leaves
 *   item v3                                  a graph break
 *   checkpoint 2                             the 2 steps after it; `checkpoint 2 saving`: with a policy
 *   vary 3 1 [0,-1]                          in some calls step 3's argument 1 is this (vary.c)
 *   given                                    those that are numbers are arguments of the call
 *   loop 1 3                                 run steps from the 1st up to here 3 times in all
 *   backward v5
 *   grad 1                                   a sn_grad_mode
 *   rng back                                 the generator: save its state, back to that, jump, fork
 *   autocast 1                               to bf16 from here on; 2: f16, 0: off
 *   keep v5                                  a reference that outlives the call
 *   print v5                                 sn_debug_print
 *   return v3 v5
 *   optim 1                                  which is SGD; 2: with momentum, 3: AdamW, 4: Adam
 *   scaler                                   its steps are a scaler's, of gradients that may be infinite
 *   no_grad                                  calls are made with gradients off
 *   region 1                                 and in a region of autocast to bf16; 2: f16
 *   functional                               and in functional mode
 *   packs                                    and under hooks of saved tensors, which copy
 *   hooked                                   leaves have hooks that halve .grad when it has been added to
 *   crowd 700                                so many small tensors more are arguments
 *   marked                                   sizes of inputs are marked as dynamic, some within bounds
 *   outer_write
 *   outer_backward */
#ifndef SINTER_TESTS_FUZZ_PROGRAM_H
#define SINTER_TESTS_FUZZ_PROGRAM_H
#include <sinter/device.h>
#include <sinter/sinter.h>
#include <string.h>

#include "ir/op.h"
#include "runtime/base/text.h"

extern sn_device fz_device; /* where all tensors of programs are; SN_CPU */

enum {
    FZ_INPUTS = 6,
    FZ_STEPS = 40,
    FZ_VALUES = 80,
    FZ_ARGS = 14,
    FZ_LIST = 6,
    FZ_SIZES = 4,
    FZ_DIMS = 5,
    FZ_VARIES = 8,
    FZ_RETURNS = 8,
    FZ_CROWD = 1200,
    FZ_SETTINGS = 2
};

typedef struct FzInt { /* var < 0: value; else value * size variable */
    int64_t value;
    int var;
} FzInt;

typedef enum FzKind { FZ_none, FZ_value, FZ_int, FZ_float, FZ_bool, FZ_string, FZ_ints, FZ_values } FzKind;
typedef struct FzArg {
    FzKind kind;
    int n;
    int value;
    FzInt i;
    double f; /* times the size variable i.var */
    char s[12];
    FzInt ints[FZ_LIST];
    int values[FZ_LIST];
} FzArg;

typedef enum FzLayout {
    FZ_contiguous,
    FZ_transposed,
    FZ_sliced,
    FZ_expanded,
    FZ_channels_last, /* of rank 4, and 5: channels_last_3d */
    FZ_LAYOUTS
} FzLayout;
typedef struct FzInput {
    sn_dtype dtype;
    int rank;
    FzInt sizes[FZ_DIMS];
    FzLayout layout;
    bool grad, closed, held; /* held: closed, too */
    bool shifted;            /* an alias: at an offset that differs between calls */
    int alias;               /* a view of that input's memory: its first row, or the whole; -1 */
    int64_t low, high;       /* ints: range of values */
} FzInput;

typedef enum FzStepKind {
    FZ_op,
    FZ_item,
    FZ_break,
    FZ_loop,
    FZ_backward,
    FZ_grad_mode,
    FZ_autocast,
    FZ_keep,
    FZ_print,
    FZ_optim_step,
    FZ_rng,
    FZ_checkpoint
} FzStepKind;
typedef enum FzRng { FZ_rng_save, FZ_rng_back, FZ_rng_jump, FZ_rng_fork, FZ_RNGS } FzRng;
extern const char *const fz_rng_words[FZ_RNGS];
/* How an op's call depends on what is not an argument. */
typedef enum FzHow {
    FZ_plainly,
    FZ_asking,
    FZ_of_grad,
    FZ_in_eager,
    FZ_guarded,
    FZ_in_cond, /* from here on: control flow, functions of bodies */
    FZ_in_map,
    FZ_in_scan,
    FZ_in_while,
    FZ_in_sparse, /* as a sum of sparse tensors, and a product of a sparse matrix */
    FZ_in_vmap,   /* from here on: transforms of functions */
    FZ_in_grad,
    FZ_in_vjp,
    FZ_in_jvp,
    FZ_in_chunks,
    FZ_HOWS
} FzHow;
extern const char *const fz_how_words[FZ_HOWS]; /* NULL: it is said otherwise */
typedef struct FzStep {
    FzStepKind kind;
    char op[96]; /* with its form: "aten::add_.Tensor" */
    FzArg args[FZ_ARGS];
    int n_args;
    int out, n_out; /* first value slot, count */
    int value;      /* item, backward, keep, print */
    /* loop; grad_mode: times = sn_grad_mode; rng: times = FzRng; autocast: of fz_autocast; checkpoint: of so many
       steps, value: with a policy */
    int from, times;
    FzHow how; /* of an op whose first two arguments are a value and a number */
    int query; /* asking: of state.c, about `value` */
} FzStep;

typedef struct FzVary { /* what an argument of a step is in some of the calls */
    int step, arg;
    FzArg to;
} FzVary;

typedef struct FzProgram {
    int n_sizes, n_inputs, n_steps, n_values, n_returns;
    int64_t sizes[FZ_SETTINGS][FZ_SIZES];
    FzInput inputs[FZ_INPUTS];
    FzStep steps[FZ_STEPS];
    int returns[FZ_RETURNS];
    int n_varies;
    FzVary varies[FZ_VARIES];
    bool given;          /* arguments that are numbers in all calls come as arguments of the call (fz_given) */
    int optim;           /* 1: SGD, 2: with momentum, 3: AdamW, 4: Adam; 0: none */
    bool scaler;         /* the optimizer's steps are a scaler's */
    bool no_grad;        /* calls are made with gradients off */
    int region;          /* and in this region of autocast: 1: bf16, 2: f16; 0: none */
    bool functional;     /* and in functional mode */
    bool packs;          /* and under hooks of saved tensors */
    bool hooked;         /* leaves that are no held ones have post-accumulate hooks */
    int crowd;           /* so many more tensors are arguments (crowd.c) */
    bool marked;         /* sizes of inputs are marked as dynamic */
    bool api_mode;       /* every other call is made under an API mode that passes all on */
    bool outer_write;    /* after the call, results are multiplied in place by a leaf */
    bool outer_backward; /* then, backward through the results that carry gradients */
} FzProgram;

void fz_print(const FzProgram *p, Text *text);
bool fz_parse(const char *text, FzProgram *out, int *line); /* false: *line is wrong */
static inline int64_t fz_int(const FzProgram *p, FzInt i, int setting) {
    return i.var < 0 ? i.value : i.value * p->sizes[setting][i.var];
}

static inline sn_dtype fz_autocast(int mode) { return mode == 1 ? SN_BF16 : mode == 2 ? SN_F16 : SN_F32; }

/* generate.c */
void fz_generate(FzProgram *p, uint64_t seed, int64_t *form_uses);
/* One that closes over tensors that outlive a call, and depends on what is no argument (state.c). */
void fz_generate_stateful(FzProgram *p, uint64_t seed, int64_t *form_uses);
/* net.c: a net that is trained. */
void fz_generate_net(FzProgram *p, uint64_t seed);
/* Another program with the same inputs and the same first `keep` steps. */
void fz_variant(const FzProgram *p, int keep, uint64_t seed, int64_t *form_uses, FzProgram *out);
int fz_form_count(void); /* rows and forms that programs draw from */
const char *fz_form_name(int i);
bool fz_form_has_run(const uint8_t *ran, int i); /* FzWatch's */

/* vary.c: the program of one call. */
void fz_vary(const FzProgram *p, uint64_t seed, FzProgram *out);
bool fz_varies(const FzProgram *p, FzKind kind, bool dims); /* whether such an argument differs; dims: of dims alone */

/* Which arguments are given, one by one: their step and place, and what they are in the first calls. How many; room
 * FZ_VARIES. */
int fz_given(const FzProgram *p, FzVary *out);
bool fz_all_given(const FzProgram *p); /* what differs between calls comes as arguments */

/* state.c: what a body may ask of a tensor or the program */
int fz_query_count(void);
const char *fz_query_name(int query);
bool fz_has_state(const FzProgram *p); /* held inputs, or steps that read what is no argument */

/* user_ops.c: ops of the program's own; false: an error is pending. Without them programs have none. */
bool fz_user_ops_register(void);
static inline bool fz_user_op_writes(const OpRow *row) {
    return row->flags & OPF_user && strchr(row->params[0].alias, '!');
}

/* func.c: bodies that draw numbers run on all examples at once in the calls that follow, not on some at a time. */
void fz_func_at_once(bool value);

/* features.c: what programs are made of besides ops; each is to be used */
int fz_feature_count(void);
const char *fz_feature_name(int i);
bool fz_has_feature(const FzProgram *p, int i);

/* shrink.c: a smaller program of which `fails` still holds. */
typedef bool FzFails(void *context, const FzProgram *p, const FzProgram *variant);
void fz_shrink(FzProgram *p, FzProgram *variant, FzFails *fails, void *context);

/* run.c: everything that can be seen of a call */
typedef struct FzSeen {
    Text bytes;       /* metadata and data, canonical NaNs */
    Text story;       /* the same for people */
    Text kept;        /* of what the body kept, like bytes */
    Text items;       /* what host code read in the body, in order */
    bool failed;      /* an error was raised */
    bool call_failed; /* by the call itself */
    bool random;      /* the call took random numbers */
} FzSeen;
/* One call of fn (whose closure is the FzRun that fz_run_new made) with fresh inputs of this
 * setting and seed. */
typedef struct FzRun FzRun;
FzRun *fz_run_new(const FzProgram *p, const sn_compile_options *options);
/* The stories of the calls that follow show every element, and the inputs before the call. */
void fz_run_whole(FzRun *run);
/* The calls that follow run this program, as if the function had taken another branch. */
void fz_run_program(FzRun *run, const FzProgram *p);
void fz_run_call(FzRun *run, int setting, uint64_t seed, FzSeen *seen);
bool fz_run_refused(const FzRun *run);
uint64_t fz_run_shown(const FzRun *run); /* what it shows of its stages, hashed; 0: not what explain counts */
void fz_run_share(FzRun *run, int64_t *generated, int64_t *all); /* ops, the first call left out */
void fz_run_wait(FzRun *run);                                    /* for code that is made in the background */
int fz_run_bodies(const FzRun *run);                             /* how many of its calls ran the body */
void fz_run_free(FzRun *run);
void fz_seen_free(FzSeen *seen);

/* arrays.c: the calls that follow are made with memory in the place of tensors, or, of eager beside it, are seen as
 * such. */
typedef enum FzArrays { FZ_no_arrays, FZ_by_arrays, FZ_as_arrays } FzArrays;
void fz_run_arrays(FzRun *run, FzArrays how);

/* watch.c: what is seen of the ops while eager runs a program. */
typedef struct FzWatch {
    uint8_t ran[OP_IDS * FORM_COUNT / 8]; /* forms that ran without an error, as bits: by row and form */
    bool infers, memory;                  /* sn_op_infer is asked of each op; and whose memory results show */
    int inferred, symbolic;               /* calls of which all was compared; and by symbols */
    Text story;                           /* the first difference */
} FzWatch;
void fz_run_watch(FzRun *run, FzWatch *watch); /* the calls that follow; NULL: no more */
bool fz_has_run(const uint8_t *ran, const OpRow *row, OpForm form);

/* plan.c: how a plan gets what the function closes over; replaced: others are given than those that are embedded. */
typedef enum FzPlanWay {
    FZ_plan_embedded,
    FZ_plan_given,
    FZ_plan_given_others,
    FZ_plan_replaced,
    FZ_PLAN_WAYS
} FzPlanWay;
bool fz_can_be_saved(const FzProgram *p);
/* Saves the function, of mode REPLAY, as a file. False: it has no plan. */
bool fz_run_save(FzRun *run, FzPlanWay way);
/* The calls that follow are as those of a plan are: also eager's, beside which they are seen. */
void fz_run_freeze(FzRun *run, FzPlanWay way);
/* The calls that follow are those of the plan that was saved; memory: it is read by the program. */
void fz_run_load(FzRun *run, FzPlanWay way, bool memory);

/* record.c: DIR/SEED.fz, the program, and DIR/SEED.txt, the whole story of its first call, eager: for comparing with
 * other implementations (tests/oracle/torch_programs.py). Programs that take random numbers, or autocast, are left out.
 * False: cannot write. */
bool fz_record(const FzProgram *p, uint64_t seed, const char *dir);
/* The graphs that calls of it capture, as texts of sn_dump; false: the file cannot be written. */
bool fz_dump(const FzProgram *p, uint64_t seed, const char *dir);

/* build.c: such graphs built by <sinter/graph.h>: false: a text, or a call of one, differs; the story says how. */
typedef struct FzBuilt {
    int built, left_out, imported, unworded; /* graphs; unworded: no .pt2 file has words for it */
} FzBuilt;
bool fz_built(const FzProgram *p, uint64_t seed, Text *story, FzBuilt *count);

#endif
