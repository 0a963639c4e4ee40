/* body_index.c: ops that read at positions of their own: rows given by data (checked), reversed dims. A body asks
 * lowering for an element at a position of the argument's row-major space (passes/lower.h). */
#include "passes/lower.h"
#include "passes/rules/body.h"

BodyFn body_embedding;

/* weight[indices[...], j]: the last dim of the result is weight's. */
int body_embedding(BodyCall *c) {
    const Meta *const weight = c->args[0].val->meta, *const indices = c->args[1].val->meta;
    int64_t strides[MAX_RANK] = {0};
    Pos row, column;
    strides[indices->rank] = 1;
    if (!body_address(c, strides, &column)) return K(0);
    row_major(body_env(c), indices->sizes, indices->rank, strides);
    strides[indices->rank] = 0;
    if (!body_address(c, strides, &row)) return K(0);
    column.gather = body_cast(c, body_element_at(c, 1, &row), S_i64);
    column.stride = weight->sizes[1];
    column.bound = weight->sizes[0];
    column.wrap = false;
    return body_element_at(c, 0, &column);
}
