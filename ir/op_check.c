/* op_check.c: what the positions that a row checks must lie below (column .check of ops.def): a size, by the arguments
 * of a call, as the row's body, kernel or decomposition has it. `test_ops domain` holds it to what calls refuse. */
#include "ir/op.h"

static const Arg *named_argument(const OpRow *row, const Arg *args, const char *name) {
    return &args[op_param_find(row->alias_of ? row->alias_of : row, name)];
}

static int64_t size_at(const Arg *of, int64_t dim) {
    const int rank = of->kind == ARG_ints ? of->n : of->val->meta->rank;
    if (!rank) return 1;
    return (of->kind == ARG_ints ? of->ints : of->val->meta->sizes)[dim_wrap(dim, rank)];
}

/* The dim that element `item` of a list of positions is for. */
static int dim_of_item(const Arg *list, int item) {
    int dim = 0;
    for (int i = 0; i < item; i++) {
        const Meta *const meta = list->vals[i] ? list->vals[i]->meta : NULL;
        dim += meta && dtype_category(meta->dtype) == CAT_bool ? meta->rank : 1;
    }
    return dim;
}

static int64_t last_dims(const Meta *meta, int dims, SymEnv *env) {
    int64_t n = 1;
    for (int d = meta->rank - dims; d < meta->rank; d++) n = sym_mul(env, n, meta->sizes[d]);
    return n;
}

int64_t op_check_bound(const OpRow *row, const Arg *args, int item, SymEnv *env) {
    if (!row->check.bound) return NO_INT;
    const Arg *const of = named_argument(row, args, row->check.of);
    switch (row->check.bound) {
    case BOUND_rows:
        return size_at(of, 0);
    case BOUND_dim:
        return size_at(of, named_argument(row, args, "dim")->i);
    case BOUND_each:
        return size_at(of, dim_of_item(named_argument(row, args, row->check.param), item));
    case BOUND_all:
        return of->val->meta->numel;
    case BOUND_plane:
        return last_dims(of->val->meta, 2, env);
    case BOUND_volume:
        return last_dims(of->val->meta, 3, env);
    case BOUND_classes:
        return size_at(of, of->val->meta->rank > 1);
    case BOUND_number:
        return of->i;
    default:
        return NO_INT;
    }
}
