/* body_index.c: ops that read at positions of their own: rows given by data (checked), reversed
 * dims, triangles. A body asks lowering for an element at a position of the argument's row-major
 * space (passes/lower.h). */
#include "passes/lower.h"
#include "passes/rules/body.h"

BodyFn body_embedding, body_index_select, body_gather, body_flip, body_tril, body_triu;

static int wrapped_dim(const Arg *dim, int rank) { return (int)dim_wrap(dim->i, rank); }

/* weight[indices[...], j]: the last dim of the result is weight's. */
int body_embedding(BodyCall *c) {
    const Meta *const indices = c->args[1].val->meta;
    int64_t strides[MAX_RANK] = {0};
    Pos row, column;
    strides[indices->rank] = 1;
    if (!body_address(c, strides, &column)) return K(0);
    row_major(body_env(c), indices->sizes, indices->rank, strides);
    strides[indices->rank] = 0;
    if (!body_address(c, strides, &row)) return K(0);
    return body_gathered(c, 0, column, as_type(c, body_element_at(c, 1, &row), S_i64), 0);
}

/* The result's dims are self's, but `dim` runs over index. */
int body_index_select(BodyCall *c) {
    const Meta *const self = c->args[0].val->meta;
    const int dim = wrapped_dim(&c->args[1], self->rank);
    int64_t strides[MAX_RANK] = {0};
    Pos rest, at;
    row_major(body_env(c), self->sizes, self->rank, strides);
    if (self->rank) strides[dim] = 0;
    if (!body_address(c, strides, &rest)) return K(0);
    memset(strides, 0, sizeof strides);
    if (self->rank) strides[dim] = 1;
    if (!body_address(c, strides, &at)) return K(0);
    return body_gathered(c, 0, rest, as_type(c, body_element_at(c, 2, &at), S_i64), dim);
}

/* self[i, index[i, j], k]: the other dims are the result's own index, which may be shorter. */
int body_gather(BodyCall *c) {
    const Meta *const self = c->args[0].val->meta;
    const int dim = wrapped_dim(&c->args[1], self->rank);
    int64_t strides[MAX_RANK] = {0};
    Pos rest;
    row_major(body_env(c), self->sizes, self->rank, strides);
    if (self->rank) strides[dim] = 0;
    if (!body_address(c, strides, &rest)) return K(0);
    return body_gathered(c, 0, rest, as_type(c, c->element(c, 2), S_i64), dim);
}

int body_flip(BodyCall *c) {
    const Meta *const self = c->args[0].val->meta;
    const Arg *const dims = &c->args[1];
    SymEnv *const env = body_env(c);
    int64_t strides[MAX_RANK] = {0}, offset = 0;
    row_major(env, self->sizes, self->rank, strides);
    for (int i = 0; i < dims->n && self->rank; i++) {
        const int d = (int)dim_wrap(dims->ints[i], self->rank);
        if (self->sizes[d] == 0) return c->element(c, 0);
        offset = sym_add(env, offset, sym_mul(env, sym_sub(env, self->sizes[d], 1), strides[d]));
        strides[d] = sym_mul(env, strides[d], -1);
    }
    Pos at;
    if (!body_address(c, strides, &at)) return K(0);
    at.at.offset = sym_add(env, at.at.offset, offset);
    return body_element_at(c, 0, &at);
}

/* column - row, of the last two dims. */
static int column_minus_row(BodyCall *c) {
    const int rank = c->args[0].val->meta->rank;
    int64_t strides[MAX_RANK] = {0};
    Pos at;
    strides[rank - 1] = 1;
    strides[rank - 2] = -1;
    if (!body_address(c, strides, &at)) return loop_const(c->lb, S_i64, 0, 0);
    return body_index_inst(c, &at);
}

static int triangle(BodyCall *c, Prim keep) {
    const int away = column_minus_row(c), diagonal = c->number(c, 1, S_i64);
    const int x = X(0);
    return P3(select, loop_prim(c->lb, keep, away, diagonal, -1), x, K(0));
}

int body_tril(BodyCall *c) { return triangle(c, PRIM_le); }
int body_triu(BodyCall *c) { return triangle(c, PRIM_ge); }
