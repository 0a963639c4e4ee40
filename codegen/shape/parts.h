/* parts.h: inside codegen/shape: what deciding, checking and reading share. Questions of the form "may" ask the nest
 * alone; decisions weigh costs, too. */
#ifndef SINTER_CODEGEN_SHAPE_PARTS_H
#define SINTER_CODEGEN_SHAPE_PARTS_H
#include "codegen/shape/shape.h"

enum { LONG_BODY = 12 }; /* simple instructions: more copies of such a body cost more time to compile than they save */

static inline bool is_root(const Inst *inst) { return inst->op == LI_store || inst->op == LI_reduce; }
static inline bool is_access(const Inst *inst) {
    return inst->op == LI_load || inst->op == LI_gather || inst->op == LI_store;
}
static inline bool is_positional(const Inst *red) { return red->prim == RED_argmax || red->prim == RED_argmin; }

/* shape.c */
NestMapping *shape_new(Arena *arena, const Nest *nest); /* nothing decided; NULL: memory is out */

/* groups.c */
/* The dims first..first+n-1 as a group of the shape: which dim counts, and the extent. */
DimGroup group_of(const Nest *nest, int first, int n);
bool group_may_add(const Nest *nest, int dim, const DimGroup *group); /* the group begins at dim + 1 */
void groups_decide(const Nest *nest, NestMapping *shape);
int lane_group(const NestMapping *shape,
               const Nest *nest); /* along which whole vectors run; -1: they are taken apart */

/* columns.c */
bool panels_may(const Nest *nest, const NestMapping *shape);
bool shared_may(const Nest *nest, const NestMapping *shape, const Machine *machine, int inst);

/* rows.c */
bool row_may_keep(const NestMapping *shape); /* rows of one known length */
int64_t row_bytes(const NestMapping *shape, const Inst *inst);
bool prefetch_may(const Nest *nest, const NestMapping *shape, int inst);
bool narrow_may(const NestMapping *shape); /* 32 bits hold all positions of a row, and those of its last vector */

/* stream.c */
bool stream_may(const Nest *nest, const Buf *bufs, const NestMapping *shape, int inst);
bool stream_may_at_all(const Nest *nest, const Buf *bufs);

/* The steps of shape_decide, in this order, after groups_decide. */
typedef struct Decider {
    const Nest *nest;
    const Buf *bufs;
    const Machine *machine;
    NestMapping *shape;
    bool *seen;       /* per instruction: room for a visit */
    int *cost;        /* likewise */
    int *first_phase; /* per instruction: phase that needs it first; -1: none of a row's */
} Decider;
void kept_decide(Decider *d);
void prefetch_decide(Decider *d);
void stream_decide(Decider *d);
void columns_decide(Decider *d);
void strategies_decide(Decider *d);

/* cost.c: in simple instructions, of one vector */
int nest_cost(const Decider *d);
int phase_cost(const Decider *d, int phase); /* of what it makes per inner index, kept values read back */

#endif
