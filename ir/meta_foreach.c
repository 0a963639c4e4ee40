/* meta_foreach.c: ops of lists: the rule of the op of one element, for each; steps of optimizers over lists. */
#include "ir/foreach.h"
#include "ir/meta_rules.h"

static Status lists_fit(const MetaCall *call) {
    const int n = foreach_count(call->row, call->args);
    if (!n) return meta_fail(call, ST_ARGUMENT, "the lists must have an element at least");
    if (n > MAX_LIST) return meta_fail(call, ST_UNSUPPORTED, "%d tensors; at most %d", n, MAX_LIST);
    for (int i = 0; i < call->row->n_params; i++)
        if (foreach_is_list(&call->row->params[i]) && call->args[i].n != n)
            return meta_fail(call, ST_ARGUMENT, "%s has %d elements, but the first list %d", arg_name(call, i),
                             call->args[i].n, n);
    const Val *const factors = foreach_factors(call->row, call->args);
    if (factors && (factors->meta->rank != 1 || !sym_same(call->env, factors->meta->sizes[0], n)))
        return meta_fail(call, ST_SHAPE, "scalars %s must be %d numbers", SIZES(call, factors->meta), n);
    const Arg *const other = arg_named(call, "other");
    if (other && other->kind == ARG_tensor && other->val->meta->rank)
        return meta_fail(call, ST_SHAPE, "other must have no dims, not sizes %s", SIZES(call, other->val->meta));
    return ST_OK;
}

static Status rule_of_each(const MetaCall *call, int i, MetaOut *out) {
    Arg given[MAX_ARGS], full[MAX_ARGS];
    int n;
    const OpRow *const of = foreach_each(call->row, call->args, i, given, &n);
    TRY(op_args_normalize(of, given, n, full));
    MetaCall one = {.row = of, .args = full, .env = call->env, .out = out, .n_out = 1};
    return op_meta(&one);
}

Status meta_foreach(MetaCall *call) {
    const int n = foreach_count(call->row, call->args), room = call->n_out;
    TRY(lists_fit(call));
    for (int i = 0; i < n && i < room; i++) TRY(rule_of_each(call, i, &call->out[i]));
    call->n_out = n;
    return ST_OK;
}

/* In place each must have the sizes of self, and a dtype that can become self's. */
Status meta_foreach_write(MetaCall *call) {
    const int n = foreach_count(call->row, call->args);
    TRY(lists_fit(call));
    for (int i = 0; i < n; i++) {
        const Meta *const self = call->args[0].vals[i]->meta;
        MetaOut out = {0};
        TRY(rule_of_each(call, i, &out));
        if (out.rank != self->rank || !all_same(call->env, out.sizes, self->sizes, self->rank))
            return meta_fail(call, ST_SHAPE, "self[%d] %s can't hold sizes %s", i, SIZES(call, self),
                             sizes_text(call, out.sizes, out.rank).at);
        if (!can_cast(out.dtype, self->dtype))
            return meta_fail(call, ST_DTYPE, "self[%d] is %s and can't hold %s", i, dtype_name(self->dtype),
                             dtype_name(out.dtype));
    }
    return ST_OK;
}

/* steps of optimizers ------------------------------------------------------------------------- */

static Status one_number(const MetaCall *call, const char *name) {
    const Arg *const arg = arg_named(call, name);
    if (!arg || arg->kind != ARG_tensor || sym_same(call->env, arg->val->meta->numel, 1)) return ST_OK;
    return meta_fail(call, ST_SHAPE, "%s must be one element, not %s", name, SIZES(call, arg->val->meta));
}

/* What is kept of a parameter has its sizes; a step is one number. A list that the step does without is empty. */
static Status state_fits(const MetaCall *call, int arg, int i) {
    const Meta *const param = call->args[0].vals[i]->meta, *const state = call->args[arg].vals[i]->meta;
    const bool is_step = !strcmp(call->row->params[arg].name, "state_steps");
    if (is_step ? sym_same(call->env, state->numel, 1)
                : state->rank == param->rank && all_same(call->env, state->sizes, param->sizes, param->rank))
        return same_device(call, param, state);
    return meta_fail(call, ST_SHAPE, "%s[%d] %s does not fit the parameter %s", arg_name(call, arg), i,
                     SIZES(call, state), SIZES(call, param));
}

Status meta_fused(MetaCall *call) {
    const int n = call->args[0].n;
    for (int arg = 0; arg < call->row->n_params; arg++) {
        if (call->row->params[arg].type != PT_tensors) continue;
        const char *const name = call->row->params[arg].name;
        const Arg *const amsgrad = arg_named(call, "amsgrad"), *const momentum = arg_named(call, "momentum");
        const bool absent =
            !call->args[arg].n && ((!strcmp(name, "max_exp_avg_sqs") && !amsgrad->i) ||
                                   (!strcmp(name, "momentum_buffer_list") && arg_double(momentum) == 0));
        if (absent) continue;
        if (call->args[arg].n != n)
            return meta_fail(call, ST_ARGUMENT, "%s has %d tensors for %d parameters", name, call->args[arg].n, n);
        for (int i = 0; i < n; i++) TRY(state_fits(call, arg, i));
    }
    for (int i = 0; i < n; i++)
        if (!dtype_is_float(call->args[0].vals[i]->meta->dtype))
            return meta_fail(call, ST_DTYPE, "self[%d] is %s", i, dtype_name(call->args[0].vals[i]->meta->dtype));
    TRY(one_number(call, "lr"));
    TRY(one_number(call, "grad_scale"));
    return one_number(call, "found_inf");
}
