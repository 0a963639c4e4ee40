/* body.h: what scalar bodies are written with. A body returns the instruction of one element; X(i)
 * is argument i cast to the op's compute type, N(i) a number argument, K(v) a constant, P1, P2, P3
 * a primitive. */
#ifndef SINTER_PASSES_RULES_BODY_H
#define SINTER_PASSES_RULES_BODY_H
#include "passes/passes.h"

static inline int as_type(BodyCall *c, int inst, SType type) {
    return loop_type(c->lb, inst) == type ? inst : loop_cast(c->lb, type, inst);
}
static inline int body_arg(BodyCall *c, int arg) { return as_type(c, c->element(c, arg), c->type); }
static inline int body_const(BodyCall *c, SType type, double value) {
    return loop_const(c->lb, type, type == S_f32 ? (float)value : value, (int64_t)value);
}
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
        return v == (double)(int64_t)v && sym_decide(body_env(c), SYM_eq, a->i, (int64_t)v);
    return (a->kind == ARG_int || a->kind == ARG_float || a->kind == ARG_bool) && arg_double(a) == v;
}

#define X(i)              body_arg(c, (i))
#define K(v)              body_const(c, c->type, (v))
#define N(i)              c->number(c, (i), c->type)
#define P1(prim, x)       loop_prim(c->lb, PRIM_##prim, (x), -1, -1)
#define P2(prim, x, y)    loop_prim(c->lb, PRIM_##prim, (x), (y), -1)
#define P3(prim, x, y, z) loop_prim(c->lb, PRIM_##prim, (x), (y), (z))

#endif
