/* op_check_layouts.c: a rule of sn_op_check: the same values in other places of memory are refused, or give the same
 * bits. A kernel that walks its argument as if it were contiguous is right for a fresh tensor and wrong for others. */
#include "frontend/api/op_check.h"
#include "runtime/base/error.h"

/* The values of t as a view of fresh memory; NULL: not for such a tensor. */
typedef sn_tensor *Relay(sn_tensor *t);

static sn_tensor *exchange_strides(sn_tensor *t) {
    return sn_rank(t) < 2 ? NULL : sn_transpose(sn_contiguous(sn_transpose(t, 0, 1)), 0, 1);
}

static sn_tensor *spread_out(sn_tensor *t) { return sn_select(sn_stack(SN_TENSORS(t, t), sn_rank(t)), sn_rank(t), 0); }

static sn_tensor *move_behind(sn_tensor *t) {
    sn_tensor *const flat = sn_reshape(t, SN_INTS(-1)), *const others = sn_zeros_like(flat);
    return sn_view(sn_narrow(sn_cat(SN_TENSORS(others, flat), 0), 0, sn_numel(t), sn_numel(t)), sn_sizes(t));
}

static sn_tensor *channels_last(sn_tensor *t) {
    return sn_rank(t) == 4 ? sn_permute(sn_contiguous(sn_permute(t, SN_INTS(0, 2, 3, 1))), SN_INTS(0, 3, 1, 2)) : NULL;
}

/* The first row in the place of all. */
static sn_tensor *overlap(sn_tensor *t) {
    return sn_rank(t) && sn_size(t, 0) > 1 ? sn_expand(sn_narrow(t, 0, 0, 1), sn_sizes(t)) : NULL;
}

typedef struct CheckLayout {
    Relay *relay;
    bool writes; /* also of what the op writes */
    const char *how;
} CheckLayout;
static const CheckLayout layouts[] = {
    {exchange_strides, true, "for the same values in other strides"},
    {spread_out, true, "for the same values with gaps between them"},
    {move_behind, true, "for the same values behind others in their storage"},
    {channels_last, true, "for the same values in channels_last"},
    {overlap, false, "for the same values where rows share their memory (strides of 0)"}};

/* Laid out so in `again`, plainly in `plain`; *any: there is such a tensor. */
static Status relay(const OpCheck *c, const CheckLayout *layout, CheckedCall *plain, CheckedCall *again, bool *any) {
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, plain));
    TRY(op_check_copies(c, SN_DTYPE_DEFAULT, again));
    for (int i = 0; i < c->n; i++) {
        sn_tensor *const t = op_check_tensor(c, i) && (layout->writes || !op_check_writes_arg(c, i))
                                 ? layout->relay(sn_contiguous(again->in[i].tensor))
                                 : NULL;
        if (!t) continue;
        again->in[i] = sn_val(t);
        plain->in[i] = sn_val(sn_contiguous(sn_clone(t)));
        *any = true;
    }
    return error_pending();
}

static Status check_one_layout(OpCheck *c, const CheckLayout *layout) {
    CheckedCall plain, again;
    bool any = false;
    TRY(relay(c, layout, &plain, &again, &any));
    if (!any) return ST_OK;
    if (op_check_call(c, &again) == ST_OK) return op_check_compare(c, &plain, &again, layout->how);
    error_clear();
    return ST_OK;
}

Status op_check_layouts(OpCheck *c) {
    for (int i = 0; i < COUNT_OF(layouts); i++) TRY(check_one_layout(c, &layouts[i]));
    return ST_OK;
}
