/* size_expr.h: what a .pt2 file says of sizes: expressions as sympy writes them (srepr: "Add(Symbol('s0',
 * positive=True), Integer(1))"), and guards as Python ("L['x'].size()[0] == 2*L['y'].size()[1]"). Both become one
 * tree, which is printed as graphs have it, or evaluated. Floats stand inside of what makes ints or truths of them
 * ("math.trunc(0.5*torch.sym_float(n))"; size_real.c). */
#ifndef SINTER_IMPORT_SIZE_EXPR_H
#define SINTER_IMPORT_SIZE_EXPR_H
#include "runtime/base/arena.h"
#include "runtime/base/text.h"

typedef enum SizeOp {
    SIZE_number,
    SIZE_symbol, /* value: its number in the table of symbols */
    SIZE_dim,    /* of an input's sizes: value: the input, dim */
    SIZE_given,  /* an int among the inputs: value: the input */
    SIZE_add,
    SIZE_mul,
    SIZE_floordiv,
    SIZE_mod,
    SIZE_ceildiv,
    SIZE_max,
    SIZE_min,
    SIZE_power,
    SIZE_real,  /* real: a float */
    SIZE_float, /* its part as a float */
    SIZE_truediv,
    SIZE_sqrt,
    SIZE_trunc, /* of a float the int toward 0; the following: other ints near it, of halves the even one */
    SIZE_floor,
    SIZE_ceil,
    SIZE_round,
    SIZE_eq,
    SIZE_ne,
    SIZE_lt,
    SIZE_le,
    SIZE_and,
    SIZE_or,
    SIZE_not
} SizeOp;

typedef struct SizeExpr {
    SizeOp op;
    int n, dim;
    int64_t value;
    double real;
    const struct SizeExpr *const *parts;
} SizeExpr;

/* The symbols of a program in the order in which they are first met: s77 is the graph's s0. */
typedef struct SizeSymbol {
    const char *name;       /* "s77"; unbacked ones begin with u */
    int64_t hint, min, max; /* what it was in the export, 0: none; what it may be */
    int number;             /* in the graph's text; -1: not there yet */
} SizeSymbol;
typedef struct SizeSymbols {
    Arena *arena;
    VEC(SizeSymbol) list;
} SizeSymbols;

/* Its place in the list, where it is put if it is new. -1: memory is out. */
int size_symbol(SizeSymbols *all, const char *name, size_t n);
/* Raise ST_PARSE, or ST_UNSUPPORTED for a function that sizes of graphs don't have. */
Status size_parse_sympy(SizeSymbols *all, const char *text, const SizeExpr **out);
/* paths: as Python writes them ("L['lst'][0]"), by input; NULL where an input has none. */
Status size_parse_guard(SizeSymbols *all, const char *text, const char *const *paths, int n_paths,
                        const SizeExpr **out);
/* As a graph's text has it, what is true or false as 1 or 0; false: a symbol that the graph has not,
 * or what its sizes have not (a large power). */
bool size_print(const SizeSymbols *all, const SizeExpr *e, Text *text);
typedef struct SizeValues {
    const int64_t *symbols; /* by place in the list */
} SizeValues;
/* False: a division by 0, too large a number, or a size of an input, which only its symbols are. */
bool size_eval(const SizeExpr *e, const SizeValues *values, int64_t *out);
/* Whether it is a float. */
bool size_is_real(const SizeExpr *e);
bool size_eval_real(const SizeExpr *e, const SizeValues *values, double *out);
/* Of SIZE_trunc to SIZE_round; false: it is too large, too. */
bool size_eval_whole(const SizeExpr *e, const SizeValues *values, int64_t *out);
/* The same without floats, where their constants have few binary digits: 3*n//2 of trunc(1.5*n). NULL: they haven't. */
const SizeExpr *size_whole(const SizeSymbols *all, const SizeExpr *e);
/* The only symbol of an expression; -1: it has none, -2: several. */
int size_one_symbol(const SizeExpr *e);
/* Sums and products alone (s0*s0 is one, too). */
bool size_is_linear(const SizeExpr *e);
/* What the symbol is where e, linear in it, is `size` (rounded; whoever asks compares); values: of the others, and
 * room for its own. False: it is not linear. */
bool size_solve(const SizeExpr *e, int symbol, int64_t size, int64_t *values, int64_t *out);
static inline bool size_is_number(const SizeExpr *e) { return e->op == SIZE_number; }
static inline bool size_is_whole(SizeOp op) { return op >= SIZE_trunc && op <= SIZE_round; }
static inline bool size_is_relation(SizeOp op) { return op >= SIZE_eq && op <= SIZE_le; }

#endif
