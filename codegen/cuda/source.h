/* source.h: inside codegen/cuda: one nest becomes text.
 *
 *   program.c    kernels as functions
 *   part.c       a part: its arguments, what it does
 *   task.c       a whole nest, or a task of one that is split
 *   reduce.c     reductions in orders L and S
 *   phase.c      maps and loops
 *   value.c      instructions
 *   workspace.c  where results of tasks lie
 *   lines.c      lines, names of types
 *
 * Each uses those below it. All spell what the part says; nothing is decided here (mapping.h). kernel_args.c says what
 * a launch is given.
 *
 * An instruction's value is `v<number>` in the text, declared where it is first needed in a scope that its users see.
 * Its loop level says where: once for an outer index, once for an index of S, or once for each of the four elements
 * that a thread has along the quad group (the last outer one of maps, the L dims of rows). */
#ifndef SINTER_CODEGEN_CUDA_SOURCE_H
#define SINTER_CODEGEN_CUDA_SOURCE_H
#include "codegen/cuda/cuda.h"

typedef enum LoopLevel { LOOP_outer, LOOP_s, LOOP_quad } LoopLevel;

typedef struct CudaSource {
    Text *text;
    const Nest *nest;
    const Buf *bufs;
    int n_bufs;
    const CudaNestMapping *mapping; /* of the part */
    LoopLevel *loop_level;          /* per instruction */
    bool *done;                     /* per instruction: its value is in scope */
    bool *loaded;                   /* per instruction: four elements of it are in scope */
    int *visited_by;                /* per instruction: the last traversal of operands that came by */
    int traversal; /* the number of this one: without it a value used twice would be visited twice at each level */
    int indent;
    bool in_quad; /* inside the loop over the four elements */
    bool alone;   /* it is a function by itself */
    const CudaPart *part;
    bool shared;           /* 16 threads have one task together */
    const int *buf_number; /* by the kernel's: its name in the text */
} CudaSource;

/* A piece of workspace that a part takes. */
typedef struct WorkspaceUse {
    int inst;
    CudaStage stage;
} WorkspaceUse;

/* A part as text: what follows its name, as a function by itself or as a struct of arguments that has a method
 * `run`. */
typedef struct PartText {
    const char *at;
    int n_args;
    const KernelArg *args; /* of part 0; `at` of a workspace: of `workspaces` */
    const WorkspaceUse *workspaces;
} PartText;

/* lines.c */
void print_line(CudaSource *s, const char *format, ...) PRINTF_LIKE(2, 3);
void print_open(CudaSource *s, const char *format, ...) PRINTF_LIKE(2, 3); /* a line that ends in { */
void print_close(CudaSource *s);
void print_unroll(CudaSource *s, int n); /* of the loop that comes next */
const char *type_text(SType type);       /* "v_f32" */
/* What is so where the thread's task exists, and what one thread of a task does. */
static inline const char *live_condition(const CudaSource *s) { return s->shared ? "live" : "true"; }
static inline const char *once_condition(const CudaSource *s) { return s->shared ? "if (live && t == 0) " : ""; }

/* workspace.c */
int workspace_uses(const Nest *nest, const CudaPart *part, WorkspaceUse *out); /* room for all reductions thrice */
void workspace_name(const WorkspaceUse *use, char name[32]);
int workspace_element_bytes(const Nest *nest, const WorkspaceUse *use);
void workspace_type(const Nest *nest, const WorkspaceUse *use, char type[32]);

/* value.c */
typedef struct CExpr {
    char at[512];
} CExpr;
const char *expr_int(CExpr *expr, int64_t value); /* "768", "p3" */
const char *expr_affine(CExpr *expr, const CudaSource *s, const Affine *at);
const char *expr_extent(CExpr *expr, const CudaSource *s, int first, int last); /* product over groups */
void loop_levels_find(CudaSource *s);
/* The values of `inst` and what it needs, as far as this loop level has them. */
void print_value(CudaSource *s, int inst, LoopLevel loop_level);
void forget(CudaSource *s, LoopLevel from); /* values of this level and of those inside it go out of scope */
/* "const int64_t d0 = ...": the indices of groups first..last-1 at position `from` of them all. */
void print_indices(CudaSource *s, int first, int last, const char *from);

/* phase.c */
void print_map(CudaSource *s, const Phase *phase);
void print_once(CudaSource *s, const Phase *phase); /* a map over outer */
/* Stores along from..to-1 of a row's L; what does not differ along it under `once`. */
void print_row_stores(CudaSource *s, const Phase *phase, const char *from, const char *to, const char *once);
void print_s_stores(CudaSource *s, const Phase *phase);
/* The values that the phase's stores or reductions need, of this loop level and of those around it. */
void print_needed(CudaSource *s, const Phase *phase, LoopLevel loop_level);
/* A loop over the four elements at `i`, of which `left` exist: loads before it, values in it. */
void print_quad_open(CudaSource *s, const Phase *phase);
void print_quad_close(CudaSource *s);
/* The loop over S, where there is one. */
void print_s_open(CudaSource *s);
void print_s_close(CudaSource *s);

/* reduce.c */
void print_reductions(CudaSource *s, const Phase *phase);
void print_chunk_of_l(CudaSource *s, const Phase *phase); /* from..to-1, to its workspace at `me` */
void print_chunk_of_s(CudaSource *s, const Phase *phase);
void print_join_l(CudaSource *s, const Phase *phase); /* n_list results from `base` on */
void print_join_s(CudaSource *s, const Phase *phase); /* n_s results from `base` on, `step` apart */

/* task.c */
void print_task(CudaSource *s);

/* part.c */
Status part_print(Arena *arena, const CudaKernel *of, const CudaPart *part, bool alone, PartText *out);

#endif
