/* groups.c: which dims run as one loop. Dim d joins the group to its right when stepping d is stepping the group by its
 * whole extent, in every access. In columns only the last outer group merges: the lanes run along it, and the code runs
 * it as one loop where the caller's rectangle covers its trailing dims wholly, by the values of lo and hi; inner dims
 * always run whole. */
#include "codegen/shape/parts.h"

static bool steps_whole(int64_t coefficient, int64_t of_group, const DimGroup *group, const int64_t *extent) {
    if (coefficient == 0 && of_group == 0) return true;
    if (sym_is(of_group)) return false;
    int64_t whole;
    if (group->extent >= 0)
        return !sym_is(coefficient) && mul_ok(of_group, group->extent, &whole) && coefficient == whole;
    return group->n == 1 && of_group == 1 && coefficient == extent[group->coef];
}

bool group_may_add(const Nest *nest, int d, const DimGroup *group) {
    if (nest->extent[d] == 1 || group->extent == 1) return true;
    for (int i = 0; i < nest->n_insts; i++) {
        const Affine *const at = nest->insts[i].at;
        if (at && !steps_whole(at->coef[d], at->coef[group->coef], group, nest->extent)) return false;
    }
    return true;
}

/* Dim d becomes the group's first. The dim that counts is the last one that has more than one index. */
static void absorb(DimGroup *group, int d, int64_t extent) {
    if (group->extent == 1 && extent != 1) {
        group->coef = (int8_t)d;
        group->extent = sym_is(extent) ? -1 : extent;
    } else if (extent != 1) {
        if (sym_is(extent) || group->extent < 0 || !mul_ok(group->extent, extent, &group->extent)) group->extent = -1;
    }
    group->first = (int8_t)d;
    group->n++;
}

static DimGroup empty_before(int end) { return (DimGroup){(int8_t)end, 0, (int8_t)(end - 1), 1}; }

DimGroup group_of(const Nest *nest, int first, int n) {
    DimGroup group = empty_before(first + n);
    for (int d = first + n - 1; d >= first; d--) absorb(&group, d, nest->extent[d]);
    return group;
}

typedef enum Merge { MERGE_none, MERGE_last, MERGE_all } Merge;

/* Dims first..last-1 as groups, found from the right. */
static int group_dims(const Nest *nest, int first, int last, Merge merge, DimGroup *out) {
    DimGroup found[MAX_LOOP_DIMS];
    int n = 0, n_out = 0;
    for (int d = last - 1; d >= first; d--) {
        const bool may = n > 0 && (merge == MERGE_all || (merge == MERGE_last && n == 1));
        if (!may || !group_may_add(nest, d, &found[n - 1])) found[n++] = empty_before(d + 1);
        absorb(&found[n - 1], d, nest->extent[d]);
    }
    while (n > 0) out[n_out++] = found[--n];
    return n_out;
}

int dims_merge(const Nest *nest, int first, int last, DimGroup *out) {
    return group_dims(nest, first, last, MERGE_all, out);
}

static void add_groups(const Nest *nest, NestMapping *shape, int first, int last, Merge merge) {
    shape->n_groups += group_dims(nest, first, last, merge, shape->group + shape->n_groups);
}

void groups_decide(const Nest *nest, NestMapping *shape) {
    const int inner = nest->n_outer, l = inner + nest->n_s, end = inner + nest->n_inner;
    shape->mode = l < end ? SHAPE_rows : SHAPE_columns;
    add_groups(nest, shape, 0, inner, shape_is_rows(shape) ? MERGE_none : MERGE_last);
    shape->n_outer_groups = shape->n_groups;
    add_groups(nest, shape, inner, l, MERGE_all);
    shape->n_s_groups = shape->n_groups - shape->n_outer_groups;
    add_groups(nest, shape, l, end, MERGE_all);
}

int lane_group(const NestMapping *shape, const Nest *nest) {
    if (!shape_is_rows(shape)) return nest->n_inner ? -1 : shape->n_outer_groups - 1;
    return shape->n_s_groups == 0 && shape->n_groups == shape->n_outer_groups + 1 ? shape->n_outer_groups : -1;
}
