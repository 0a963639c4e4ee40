/* op.h: the op table. ir/ops.def (and the family files it includes) is the only list of ops; everything that needs to
 * know something about an op asks its row. See the head of ops.def for the columns. Only op.c and the tables of rules
 * paste rows, and only code that names ops includes their ids (op_ids.h), so that an edit of a row, or a new one,
 * rebuilds a few files. */
#ifndef SINTER_IR_OP_H
#define SINTER_IR_OP_H
#include <stdatomic.h>

#include "ir/arg.h"
#include "runtime/base/text.h"

enum {
    MAX_ARGS = 16,
    MAX_OUTS = 8,
    MAX_LIST = 1024 /* room for the results of a Tensor[] op */
};

/* The number of a row: op_ids.h has their names. Those of the table are below OP_IDS, with gaps; those of ops that the
 * program registers begin there. */
typedef int OpId;
enum { OP_IDS = 4096 };

typedef enum OpKind {
    KIND_pointwise,     /* body_x: a scalar graph, one value per element of the broadcast inputs (passes/) */
    KIND_reduction,     /* body_x: scalar graph, then one reduction over the row's dims (passes/) */
    KIND_view,          /* the meta rule is the stride rule; no data moves */
    KIND_kernel,        /* cpu_x: native code on tensors (runtime/) */
    KIND_decomposition, /* decomp_x: other ops; lowered whole, run as one program; keeps its identity (passes/) */
    KIND_composite,     /* decomp_x: expands above Autograd, in eager and capture alike (passes/) */
    KIND_number         /* number_x: its result is a number for host code, which no graph holds (frontend/) */
} OpKind;

typedef enum OpForm { FORM_functional, FORM_inplace, FORM_out, FORM_COUNT } OpForm;

enum {                        /* flags */
       OPF_core = 1,          /* in the core ATen set */
       OPF_random = 2,        /* takes one sequence number from the generator */
       OPF_check = 4,         /* set where .check is: an error may depend on values [semantics C8] */
       OPF_nodiff = 8,        /* results never require grad (comparisons, argmax, integer results) */
       OPF_host = 16,         /* reads values on the host: no graph holds it. Of an alias: it takes a tensor where
                          its row has a number */
       OPF_maybe_copy = 32,   /* a view where strides allow, else a copy (reshape, contiguous, flatten, to) */
       OPF_internal = 64,     /* sn:: rows that only the IR uses */
       OPF_ordered = 128,     /* has an effect: keeps program order, never merged, removed or recomputed [C12] */
       OPF_parts_write = 256, /* a composite whose parts write arguments, which its schema does not say */
       OPF_user = 512,        /* registered by the program: its kernel may fail for reasons of its own */
       /* traits that passes and the runtime ask for */
       OPF_fresh = 1 << 11,        /* reads no element of any argument: they give sizes and numbers */
       OPF_fills = 1 << 12,        /* reads no element of self: it gives sizes and dtype of what is filled */
       OPF_copy = 1 << 13,         /* the values of its last tensor argument, in a dtype and layout of their own */
       OPF_reshape = 1 << 14,      /* a view of all elements, in row-major order, at the sizes that argument 1 gives */
       OPF_places = 1 << 15,       /* names a part of self's memory by strides and an offset */
       OPF_none_of_none = 1 << 19, /* an empty list of dims reduces none */
       OPF_product = 1 << 20,      /* a composite whose parts save arguments, never the result */
       OPF_slices = 1 << 21,       /* reads slices of its first argument at the positions in its checked one */
       OPF_branches = 1 << 22,     /* its rule computes some numbers in ways of their own: they are guarded */
       OPF_across = 1 << 23,       /* copies: its tensors may be on two devices */
       OPF_unset = 1 << 24,        /* memory whose elements are not set: no code runs */
       OPF_passes_numbers = 1 << 26, /* its rule only computes with its floats and scalars */
       OPF_flow = 1 << 27,           /* control flow: its bodies are graphs, as texts among its arguments */
       OPF_limits_numbers = 1 << 28, /* its meta rule refuses some floats, of results of any dtype */
       OPF_moves = 1 << 29,          /* each element of its result is one of its tensors', or a number's */
       OPF_may_fail = OPF_check | OPF_user | OPF_flow
};

/* What one row alone is, where generic code asks for it: a trait that a second row could have is a flag. */
typedef enum OpRole {
    ROLE_none,
    ROLE_bits,      /* a view in another dtype: no graph holds one, it breaks */
    ROLE_gradients, /* asks for gradients: the joint pass expands it */
    ROLE_puts,      /* (self, src, size, stride, offset): self with that part replaced by src */
    ROLE_storage,   /* its offset counts from where the storage begins */
    ROLE_new_base,  /* a view whose result the tape takes for a base, as if it had memory of its own */
    ROLE_resizes,   /* in place it gives self other sizes, and more memory where they need it */
    ROLE_told_place /* a composite whose last argument, an offset, counts from where the first one's storage begins; its
                       rules get it from that one's first element on */
} OpRole;

/* OPF_check: what the values of a parameter are checked to be. */
typedef enum CheckKind {
    CHECK_index,     /* a position in a dim */
    CHECK_class,     /* a position among the classes of a loss */
    CHECK_divisor,   /* no integer 0 */
    CHECK_unit,      /* probabilities: from 0 to 1 */
    CHECK_enough,    /* as many elements as a mask has ones */
    CHECK_weight,    /* finite and not negative */
    CHECK_deviation, /* not negative, and no NaN */
    CHECK_true       /* not 0; the op's string says what is wrong */
} CheckKind;

/* What a checked position must lie below: a size of the parameter that `check.of` names. */
typedef enum BoundKind {
    BOUND_none,    /* no positions */
    BOUND_rows,    /* the size of a tensor's first dim */
    BOUND_dim,     /* of the dim that the parameter "dim" says, of a tensor or in a list of sizes */
    BOUND_each,    /* of the dim that an element of a list of positions stands for; a mask stands for several */
    BOUND_all,     /* all elements */
    BOUND_plane,   /* all elements of the last 2 dims */
    BOUND_volume,  /* all elements of the last 3 dims */
    BOUND_classes, /* dim 1, or 0 where it is the only one */
    BOUND_number   /* the parameter itself */
} BoundKind;

/* Which numbers of a row's Scalars PyTorch takes for values of the result's dtype: others are refused. Infinities and
 * NaN are values of every float dtype. */
typedef enum NumberLimit {
    LIMIT_none,
    LIMIT_dtype,   /* the dtype's own */
    LIMIT_compute, /* the own ones of the dtype that it is computed in: of halves f32 [semantics B5] */
    LIMIT_wide,    /* the dtype's own, of halves any: they become infinite */
    LIMIT_narrow,  /* the dtype's own, of f32 any: it is computed in f64 */
    LIMIT_reach /* of floats the dtype's own; an int limit must leave a value of the dtype between it and the other */
} NumberLimit;

/* The number that leaves self as it is as argument 1. */
typedef enum Neutral { NEUTRAL_none, NEUTRAL_zero, NEUTRAL_one } Neutral;

/* Of what a bound of a result counts units of the last place (ops/bounds.def). */
typedef enum BoundUnit {
    UNIT_unstated, /* composites, and what computes nothing */
    UNIT_result,
    UNIT_one,
    UNIT_tail,
    UNIT_scaled_other,
    UNIT_scaled_self,
    UNIT_power,
    UNIT_largest,
    UNIT_form,
    UNIT_terms,
    UNIT_places,
    UNIT_exact,
    UNIT_none
} BoundUnit;

/* A product of matrices: its operands, and the addend that it may have. */
typedef struct ProductArgs {
    int8_t a, b, self; /* arguments; a == b: the row is none; self -1: no addend */
} ProductArgs;

typedef enum ParamType {
    PT_tensor,
    PT_tensor_opt,
    PT_tensors,
    PT_scalar,
    PT_scalar_opt,
    PT_int,
    PT_int_opt,
    PT_ints,
    PT_ints_opt,
    PT_float,
    PT_float_opt,
    PT_bool,
    PT_bool_opt,
    PT_string,
    PT_string_opt,
    PT_dtype_opt,
    PT_dtype,
    PT_device_opt,
    PT_layout_opt,
    PT_memory_format_opt,
    PT_generator_opt,
    PT_floats_opt,
    PT_int1 /* int[1], int[2]...: an int or a list */,
    PT_int1_opt,
    PT_tensors_opt, /* Tensor?[]: elements may be NULL */
    PT_scalars      /* Scalar[]: a list of ints or of floats */
} ParamType;

typedef struct Param {
    const char *name;
    const char *word, *alias, *suffix; /* the type as written: SymInt, "" or a! (in parentheses), [2]? */
    ParamType type;
    Arg fallback;  /* the default; kind ARG_default: required */
    bool keyword;  /* after '*' */
    bool symbolic; /* SymInt in the schema: rules take a symbol here [semantics C5] */
} Param;
/* Its schema says that the op writes it: Tensor(a!). */
static inline bool param_is_written(const Param *param) { return param->alias && strchr(param->alias, '!') != NULL; }

/* What autocast does with the tensors of a call (ops/autocast.def). */
typedef enum CastPolicy { CAST_none, CAST_lower, CAST_f32, CAST_f32_dtype, CAST_promote } CastPolicy;
const char *cast_policy_name(CastPolicy policy); /* "none", "lower", "f32", "f32_dtype", "promote" */

/* The order of additions of a node [semantics B2], computed by its meta rule, printed in the IR. */
typedef enum Order {
    ORDER_none,
    ORDER_L,     /* trailing dims: 64 lanes, chunks of 1,024 */
    ORDER_S,     /* other dims: 64 rows a chunk */
    ORDER_LS,    /* both: L first, then S over its results */
    ORDER_chain, /* matmul: fma chain over ascending k in chunks of 4,096 */
    ORDER_index  /* scatter-add: ascending row-major index position */
} Order;
const char *order_name(Order order);

typedef struct OpRow OpRow;

typedef struct MetaOut {
    DType dtype;
    Device device;
    int rank;
    int alias; /* argument index whose storage the result shares, or -1 */
    bool wrapped;
    int64_t offset; /* views: elements added to the aliased tensor's offset */
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
} MetaOut;

/* What is kept of it with a value: ir/alias.h. */
typedef struct AliasFact {
    int arg; /* whose memory it has; -1: its own */
    int64_t offset;
} AliasFact;

/* A number that only values give: the size of a result (nonzero, an index by masks), or what item says. */
typedef struct Unbacked {
    int64_t symbol; /* that it is, or 0: a new one, which is put there */
    bool used;      /* by the rule */
} Unbacked;

typedef struct MetaCall {
    const OpRow *row;
    OpForm form;
    /* n_params of them, defaults filled in; out form: followed by the n_out tensors to write */
    const Arg *args;
    SymEnv *env;               /* NULL: everything is plain */
    int64_t base_offset;       /* as_strided: the storage offset of the tensor argument */
    struct Unbacked *unbacked; /* NULL: a call whose sizes only values give is refused */
    /* row->n_out of them; Tensor[] results: n_out is the room, then the count, which may be more */
    MetaOut *out;
    int n_out;
    Order order;
} MetaCall;
typedef Status MetaFn(MetaCall *call);
DType operands_promoted(const OpRow *row, const Arg *args); /* the dtype of all that stands for tensors */

struct OpRow {
    OpId id;
    const char *name;     /* "aten::add.Tensor" */
    const char *base;     /* "add" */
    const char *overload; /* "Tensor" or "" */
    const char *schema;   /* whole: "aten::add.Tensor(Tensor self, ...) -> Tensor" */
    OpKind kind;
    bool inplace;    /* the form base_ exists */
    const char *out; /* overload name of the out form, NULL: none */
    struct {
        const char *name; /* "add": sn_add, sn_add_ex, sn_add_, sn_add_out; NULL: boxed only */
        int shown;        /* arguments of the short form */
    } c;
    const char *inplace_as; /* overload name of the in-place form where it is another than the row's */
    struct {
        CheckKind kind;
        const char *param; /* NULL: no values are checked; else OPF_check is set */
        BoundKind bound;   /* of positions */
        const char *of;    /* whose size that is; of probabilities: a parameter with others, or NULL */
    } check;
    struct {
        double ulps;
        BoundUnit unit;
        const char *why; /* of UNIT_none */
    } bound;
    struct {
        NumberLimit kind;
        const char *params; /* "min max"; NULL: those whose type is Scalar or float */
        uint32_t args;      /* bits: for which of the row's parameters a number is limited */
    } limit;
    Neutral neutral;
    ProductArgs product;
    MetaFn *meta;
    uint32_t flags;
    OpRole role;
    const char *meta_rule;  /* the bare word of the rule; NULL of an alias */
    const char *body;       /* the bare word of the rule; NULL of a view */
    const char *derivative; /* the bare word; NULL: not differentiable */
    /* "self/other other/self result": what it saves, and for whose gradient only; "" without one */
    const char *saves;
    const char *samples;   /* the bare word of the sample generator */
    const char *doc;       /* one sentence */
    const OpRow *alias_of; /* Scalar overloads: the row that does the work */
    int n_params, n_out;
    int options;       /* where dtype, layout, device and pin_memory begin; 0: it has none of them */
    int device;        /* the parameter that says what the results are on, -1: it has none */
    bool returns_list; /* Tensor[] */
    bool shares;       /* a result may be a view of an argument, says the schema: Tensor(a) */
    uint8_t prepares;  /* by form, as bits: the arguments of a call say only then which keys it has (op.c) */
    const Param *params;
    const struct Expression *expression; /* of a user's pointwise op (expression.h); else NULL */
    CastPolicy autocast;                 /* on every device */
    CastPolicy autocast_list;            /* of the list that PyTorch has for the CPU */
};
enum { N_OPTIONS = 4 };

extern const OpRow *op_rows_by_id[OP_IDS]; /* op_row's */
extern _Atomic bool op_rows_ready;
void op_rows_init(void);
static inline const OpRow *op_row(OpId id) {
    if (UNLIKELY(!atomic_load_explicit(&op_rows_ready, memory_order_acquire))) op_rows_init();
    return op_rows_by_id[id];
}
/* OP_ROW(add_Tensor), OP_ID(add_Tensor): the row and its number by name, where no constant is needed. The number is a
 * symbol of op.c's: an op that comes or goes rebuilds nothing that names others so. */
#define OP_ID(name)                                                                                                    \
    ({                                                                                                                 \
        extern HIDDEN const OpId op_id_##name;                                                                         \
        op_id_##name;                                                                                                  \
    })
#define OP_ROW(name) op_row(OP_ID(name))
/* The rows of the table, in its order: i from 0 to op_row_count() - 1. */
int op_row_count(void);
const OpRow *op_row_at(int i);
/* A program's own, registered at run time (custom_op.h): no row of the table. */
static inline bool op_is_made(const OpRow *row) { return row->id >= OP_IDS; }
/* "aten::add.Tensor", "add.Tensor", "aten::add_.Tensor", "aten::add.out"; *form says which form was named. Ops made at
 * run time come after the table's, through the hook that the runtime sets at start-up. */
const OpRow *op_find(const char *name, size_t n, OpForm *form);
/* For an error, behind a name that is unknown: "; there is add.Tensor, add.Scalar" for "add"; of an op of ATen that is
 * not there yet what it waits for, "; it waits for complex dtypes"; nothing where neither is known. */
void op_unknown_hint(Text *text, const char *name, size_t n);
const char *op_waits_for(const char *name, size_t n); /* "complex dtypes"; NULL: nothing that is known */
extern const OpRow *(*op_find_made)(const char *name, size_t n);
/* Numbers for which some rule has a way of its own (a factor of 1, the power 2): never a parameter of code that such a
 * rule made. bits: an int, or those of a float. */
bool number_is_special(bool is_float, int64_t bits);
/* May a number of this parameter differ between the calls of one program, as a symbol or runtime value [semantics C4]?
 * The schema's type decides: a SymInt may, and of rows that compute with it element by element, or only pass it on, a
 * Scalar, a float and a number that stands for a Tensor. Dims, modes and flags are what rules branch on. */
bool op_number_may_vary(const OpRow *row, const Param *param);
/* What the positions in a checked parameter, or in element `item` of a list of them, must lie below; may be symbolic.
 * NO_INT: the row checks no positions, or the argument is none. */
int64_t op_check_bound(const OpRow *row, const Arg *args, int item, SymEnv *env);
/* Is a number that stands for parameter i limited by the row's column .limit? */
static inline bool op_limits_number(const OpRow *row, int i) { return row->limit.args >> i & 1; }
/* Raises ST_UNSUPPORTED where an argument is a symbol or a runtime value and its parameter's number may not vary: the
 * row's rules would take it for a plain one. */
Status op_numbers_check(const OpRow *row, const Arg *args);
/* The name of a form: "aten::add_.Tensor"; a pointer that lives as long as the process. */
const char *op_form_name(const OpRow *row, OpForm form);
const char *op_form_schema(const OpRow *row, OpForm form);
const char *op_kind_name(OpKind kind); /* "pointwise" */
/* What an op is, in words (op_tags.c): "core" and "pointwise" as PyTorch has them (aten_tags.def; of a program's own op
 * "pointwise" says that an expression computes it), the others by the row. */
int op_tag_count(void);
const char *op_tag_name(int tag);
int op_tag_find(const char *name); /* -1: there is none */
/* An overload that another row serves is what that one is; PyTorch's tags are its own. */
bool op_has_tag(const OpRow *row, OpForm form, int tag);
/* Overloads of the table that have it, and written forms that are core by themselves; of_core: of core ATen alone. */
int op_tag_members(int tag, bool of_core);
/* How many overloads PyTorch gives the tag (0: it has no such tag), and how many of those the table has. */
int op_tag_listed(int tag, int *present);
static inline bool op_is_product(const OpRow *row) { return row->product.a != row->product.b; }
bool op_shares(const Param *params, int n);            /* OpRow.shares, from the parsed schema */
int op_param_find(const OpRow *row, const char *name); /* -1 when absent; also of NULL */
int op_device_param(const OpRow *row);                 /* fills OpRow's field */
/* How many parameters a form's schema has before its out tensors, and which of the row's the i-th is: an out form has
 * no options, which the tensor that it writes decides. */
int op_form_params(const OpRow *row, OpForm form);
int op_form_param(const OpRow *row, OpForm form, int i);

/* Fills defaults, converts int to float where a float is wanted, checks kinds and required ones; raises ST_ARGUMENT
 * naming op and argument. args has row->n_params entries after it. */
Status op_args_normalize(const OpRow *row, const Arg *given, int n_given, Arg *args);
/* The same for arguments in the order of a form's schema, without its out tensors. */
Status op_args_of_form(const OpRow *row, OpForm form, const Arg *given, int n_given, Arg *args);
/* The options of a row that has them, from the tensor that its out form writes. */
void op_args_fill_options(const OpRow *row, const Meta *out, Arg *args);
/* Runs the meta rule of the row (its alias' for aliases); in-place and out forms check what they write to. */
Status op_meta(MetaCall *call);
/* Layouts depend on sizes and strides of 0 and 1, and what looks for these is not guarded: an expression that may
 * become one is one by its hint, or never [semantics C5]. So are the results of every node and step. */
void meta_specialize_small(SymEnv *env, MetaOut *out);

#endif
