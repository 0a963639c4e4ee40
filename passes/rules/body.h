/* body.h: what scalar bodies are written with. A body returns the instruction of one element; X(i)
 * is operand i, brought to the promoted dtype, in the op's compute type, N(i) a number argument, K(v) a
 * constant, P1, P2, P3 a primitive. */
#ifndef SINTER_PASSES_RULES_BODY_H
#define SINTER_PASSES_RULES_BODY_H
#include "passes/passes.h"

static inline int as_type(BodyCall *c, int inst, SType type) {
    return loop_type(c->lb, inst) == type ? inst : loop_cast(c->lb, type, inst);
}
/* A number, or what has no dims: it may be wider than the promoted dtype. */
static inline bool body_is_weak(const BodyCall *c, int arg) {
    const Arg *const a = &c->args[arg];
    return a->kind != ARG_tensor || (a->val && !a->val->meta->rank);
}
int body_operand(BodyCall *c, int arg); /* in the promoted dtype [semantics B9], in the compute type of it or its own */
static inline int body_arg(BodyCall *c, int arg) { return as_type(c, body_operand(c, arg), c->type); }
/* A factor or divisor: a weak one is taken beside halves as it is, in f32, as PyTorch takes it. */
static inline int body_factor(BodyCall *c, int arg) {
    const bool as_it_is = body_is_weak(c, arg) && dtype_is_float(c->common);
    return as_it_is ? as_type(c, c->element(c, arg), c->type) : body_arg(c, arg);
}
static inline int body_const(BodyCall *c, SType type, double value) { return loop_double(c->lb, type, value); }
static inline bool body_is_float(const BodyCall *c) { return c->type == S_f32 || c->type == S_f64; }
static inline bool body_has(const BodyCall *c, int arg) {
    const Arg *const a = &c->args[arg];
    return a->kind != ARG_none && a->kind != ARG_default && !(a->kind == ARG_tensor && !a->val);
}
SymEnv *body_env(BodyCall *call);
/* A number that is known now and equals v: what a rule branches on. A symbolic one is guarded. */
static inline bool body_number_is(BodyCall *c, int arg, double v) {
    const Arg *const a = &c->args[arg];
    if (a->kind == ARG_int && sym_is(a->i))
        return double_is_i64(v) && sym_decide(body_env(c), SYM_eq, a->i, double_to_i64(v));
    return (a->kind == ARG_int || a->kind == ARG_float || a->kind == ARG_bool) && arg_double(a) == v;
}

#define X(i)              body_arg(c, (i))
#define W(i)              body_factor(c, (i))
#define K(v)              body_const(c, c->type, (v))
#define N(i)              c->number(c, (i), c->type)
#define R(i)              loop_stored(c->lb, c->common, N(i)) /* the number as one of the op's dtype */
#define P1(prim, x)       loop_prim(c->lb, PRIM_##prim, (x), -1, -1)
#define P2(prim, x, y)    loop_prim(c->lb, PRIM_##prim, (x), (y), -1)
#define P3(prim, x, y, z) loop_prim(c->lb, PRIM_##prim, (x), (y), (z))

#endif
