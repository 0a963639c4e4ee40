/* cpu_where.c: where with a condition alone: one i64 tensor per dim with the positions of what is not 0, in row-major
 * order. How many there are is known from the values only, so this is no program: the row's kernel is the key's
 * entry. */
#include "runtime/core/element.h"
#include "runtime/core/dispatch.h"

typedef struct Found {
    const Meta *meta;
    int64_t n;             /* found so far */
    int64_t number;        /* of the element, row-major */
    int64_t *at[MAX_RANK]; /* by dim; [0] NULL: they are counted only */
} Found;

static void look_for_true(void *context, const char *element, size_t bytes) {
    Found *const found = context;
    const Meta *const meta = found->meta;
    int64_t rest = found->number++;
    (void)bytes;
    if (element_double(meta->dtype, element) == 0) return;
    for (int d = meta->rank - 1; d >= 0 && found->at[0]; d--) {
        found->at[d][found->n] = rest % meta->sizes[d];
        rest /= meta->sizes[d];
    }
    if (!meta->rank && found->at[0]) found->at[0][found->n] = 0;
    found->n++;
}

/* A tensor without dims counts as one of a single element. */
Status cpu_where_positions(OpCall *call) {
    sn_tensor *const condition = tensor_of(call->args[0].val);
    TRY(tensor_ready(condition, call->row->name));
    Found found = {.meta = condition->base.meta};
    const int n_outs = found.meta->rank ? found.meta->rank : 1;
    each_element(condition, look_for_true, &found);
    const Meta *const meta = meta_intern_contiguous(DT_i64, DEV_cpu, &found.n, 1);
    for (int d = 0; d < n_outs; d++) {
        call->outs[d] = meta ? tensor_new(meta) : NULL;
        if (!call->outs[d]) return error_pending();
        found.at[d] = tensor_data(call->outs[d]);
    }
    found.n = found.number = 0;
    each_element(condition, look_for_true, &found);
    call->n_outs = n_outs;
    return ST_OK;
}
