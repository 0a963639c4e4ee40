/* gen.h: what generate.c knows while it writes a program: every value's metadata under both
 * settings of the sizes, got from the meta rules, so that proposals can be checked before they are
 * made steps. */
#ifndef SINTER_TESTS_FUZZ_GEN_H
#define SINTER_TESTS_FUZZ_GEN_H
#include "tests/fuzz/program.h"

enum { GEN_RANK = 8, GEN_OUTS = 6 };

typedef struct GenVal {
    struct {
        Val val;
        Meta meta;
        int64_t sizes[GEN_RANK], strides[GEN_RANK];
    } at[FZ_SETTINGS];
    int memory;           /* the value whose memory it may share, itself if none */
    int handle;           /* the first value that named this tensor: forms return what they write */
    bool grad;            /* requires it */
    bool leaf;            /* or a view of one: not to be written */
    bool overlaps;        /* expanded: not to be written */
    bool saved;           /* a backward may need it as it is: mostly not to be written */
    int64_t low, high;    /* ints of known range, else high < low */
    FzInt dims[GEN_RANK]; /* var FZ_SIZES: no expression of the size variables */
} GenVal;

typedef struct Gen {
    FzProgram *p;
    uint64_t random;
    GenVal v[FZ_VALUES];
    int64_t *uses; /* by form */
    bool grad_on;
    int autocast;   /* as FzProgram's, of the steps that come */
    bool training;  /* some inputs require gradients; then most ops write nothing */
    bool stateful;  /* held inputs, and steps that read what is no argument; few others, so that calls are replayed */
    bool one_graph; /* no breaks, backwards and kept values, no input returned: such a function can be saved */
    bool varied;    /* some arguments differ between calls: of ops with dims, sizes and positions more often */
    bool callees;   /* stateful: some steps are those of a callee in mode EAGER, each of which is a break */
    bool went_back; /* there is a backward: what a second one needs may be gone */
    bool wild;      /* varied: one argument may be what makes a later step fail */
    int result;     /* a value to return; 0: any */
} Gen;

int64_t gen_below(Gen *g, int64_t n); /* 0 .. n - 1 */
bool gen_chance(Gen *g, int percent);
bool gen_live(const Gen *g, int v);
DType gen_dtype(const Gen *g, int v);
int gen_rank(const Gen *g, int v);
/* Some value that exists, recent ones more often; -1: none. */
int gen_any(Gen *g);
/* A value of these sizes and dtype: one that exists, a new input, or made by a step; -1: no room.
 * low <= high asks for ints in that range. */
int gen_value(Gen *g, DType dtype, const FzInt *dims, int rank, int64_t low, int64_t high);
/* Appends the step if its op's meta rule allows it under both settings. */
bool gen_try(Gen *g, FzStep *step);
/* What the positions that the call would check must lie below under both settings; NO_INT: the call is not possible. */
int64_t gen_bound(Gen *g, const OpRow *row, const FzStep *step, int item);
/* A random dim: a number or a size variable. */
FzInt gen_dim(Gen *g);
DType gen_float(Gen *g);

/* autocast.c: puts what the region of g makes of a functional call's arguments in their place; room is theirs. */
typedef struct GenCasts {
    Val vals[MAX_ARGS];
    Meta metas[MAX_ARGS];
} GenCasts;
void gen_autocast(const Gen *g, const OpRow *row, Arg *args, GenCasts *buffer);

/* vary.c: which arguments of the program's steps differ between its calls. */
void gen_varies(Gen *g);
/* By bits, what rules of the row branch on: ints, symbolic ones, lists, symbolic ones, flags, words. */
enum { GEN_STRUCTURES = 6 };
uint32_t gen_structure(const OpRow *row);
/* generate.c: whether all steps are possible with this one. */
bool gen_remains_valid(const FzProgram *p, const FzVary *vary);

/* patterns.c: adds some steps that belong together, or the first of them. */
void gen_pattern(Gen *g);
void gen_bools(Gen *g);      /* bools in order */
void gen_branching(Gen *g);  /* a float that the rule of a composite branches on */
void gen_read_again(Gen *g); /* memory that is read again behind kernels that might have taken it */
void gen_cast_leaf(Gen *g);  /* a leaf that is written between two uses in a region of autocast */
void gen_shifted(Gen *g);    /* writes into memory that inputs share at changing offsets */
void gen_generator(Gen *g);  /* random numbers around changes of the generator's state */
/* weave.c: pointwise ops over the sizes of an input, with others between. */
void gen_weave(Gen *g, int steps);
/* user_ops.c: an op of the program's own: one by a scalar expression, or one that writes an argument. */
void gen_user_op(Gen *g);
/* region.c: some of the steps become bodies of checkpoints. */
void gen_regions(Gen *g);

/* propose.c: arguments for a row and form; false: nothing fits this time. */
bool gen_propose(Gen *g, const OpRow *row, OpForm form, FzStep *step);

#endif
