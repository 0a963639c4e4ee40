/* vmap_args.c: the arguments of a call on all examples: tensors with the batch dim in front, dims one further, sizes
 * with the batch's before them. Whether that is the same call is asked of the meta rule. */
#include "ir/meta_rules.h"
#include "runtime/base/alloc.h"
#include "runtime/transform/vmap.h"

int vmap_rank(const OpCall *call) {
    int rank = 0;
    for (int i = 0; i < call->row->n_params; i++) {
        const Arg *const arg = &call->args[i];
        if (arg->kind == ARG_tensor && arg->val && arg->val->meta->rank > rank) rank = arg->val->meta->rank;
        for (int k = 0; arg->kind == ARG_tensors && k < arg->n; k++)
            if (arg->vals[k] && arg->vals[k]->meta->rank > rank) rank = arg->vals[k]->meta->rank;
    }
    return rank;
}

/* tensors ------------------------------------------------------------------------------------- */

Val *vmap_repeat(const Level *level, Val *val) {
    int64_t sizes[MAX_RANK + 1] = {level->size};
    memcpy(sizes + 1, val->meta->sizes, sizeof *sizes * (size_t)val->meta->rank);
    return E(eager_builder(), expand, V(val), A_INTS(sizes, val->meta->rank + 1));
}

static Val *aligned(const Level *level, Val *val, int rank, bool expand) {
    if (!val) return NULL;
    const int pad = rank - val->meta->rank;
    sn_tensor *const inner = level_inner(level, val);
    if (!inner && !expand) return val;
    Val *all = inner ? &inner->base : vmap_repeat(level, val);
    for (int i = 0; i < pad && all; i++) all = E(eager_builder(), unsqueeze, V(all), I(1));
    return all;
}

Status vmap_args_align(VmapArgs *a, const Level *level, const OpCall *call, int rank, bool expand) {
    *a = (VmapArgs){.level = level, .call = call, .rows = level->size};
    const int items = call_list_items(call);
    if (items && !(a->lists = mem_alloc(sizeof *a->lists * (size_t)items))) return ST_MEMORY;
    Val **buffer = a->lists;
    memcpy(a->args, call->args, sizeof *a->args * (size_t)call->row->n_params);
    for (int i = 0; i < call->row->n_params; i++) {
        Arg *const arg = &a->args[i];
        if (arg->kind == ARG_tensor && arg->val && !(arg->val = aligned(level, arg->val, rank, expand)))
            return error_pending();
        if (arg->kind != ARG_tensors) continue;
        for (int k = 0; k < arg->n; k++) {
            buffer[k] = aligned(level, arg->vals[k], rank, expand);
            if (!buffer[k] && arg->vals[k]) return error_pending();
        }
        arg->vals = buffer;
        buffer += arg->n;
    }
    return ST_OK;
}

void vmap_args_end(VmapArgs *a) { mem_free(a->lists); }

/* ints ---------------------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names; names++)
        if (!strcmp(name, *names)) return true;
    return false;
}

/* Parameters that name dims have one of these names, in every schema. */
static bool is_dim(const Param *param) {
    static const char *const names[] = {"dim",       "dims",        "dim0",      "dim1",     "dim2",
                                        "start_dim", "end_dim",     "axis0",     "axis1",    "axis",
                                        "source",    "destination", "dimension", "dim_self", NULL};
    switch (param->type) {
    case PT_int:
    case PT_int_opt:
    case PT_ints:
    case PT_ints_opt:
    case PT_int1:
    case PT_int1_opt:
        return is_one_of(param->name, names);
    default:
        return false;
    }
}

static bool is_sizes(const Param *param) {
    static const char *const names[] = {"size", "sizes", "shape", "input_sizes", NULL};
    return (param->type == PT_ints || param->type == PT_ints_opt) && is_one_of(param->name, names);
}

bool vmap_names_dims(const OpRow *row) {
    for (int i = 0; i < row->n_params; i++)
        if (is_dim(&row->params[i])) return true;
    return false;
}

/* Room for n ints; NULL: there is none. */
static int64_t *ints_buffer(VmapArgs *a, int n) {
    if (a->n_ints + n > COUNT_OF(a->ints)) return NULL;
    int64_t *const buffer = &a->ints[a->n_ints];
    a->n_ints += n;
    return buffer;
}

/* Counted from the end it is the same. */
static int64_t further(int64_t dim) { return dim < 0 ? dim : dim + 1; }

static bool shift_list(VmapArgs *a, Arg *arg) {
    int64_t *const buffer = ints_buffer(a, arg->n);
    for (int k = 0; buffer && k < arg->n; k++) buffer[k] = further(arg->ints[k]);
    arg->ints = buffer;
    return buffer != NULL;
}

/* Where an absent or empty list stands for all dims. */
static bool list_all(VmapArgs *a, Arg *arg) {
    const Val *const self = a->call->args[0].kind == ARG_tensor ? a->call->args[0].val : NULL;
    const int rank = self ? self->meta->rank : 0;
    int64_t *const buffer = rank ? ints_buffer(a, rank) : NULL;
    for (int d = 0; buffer && d < rank; d++) buffer[d] = d + 1;
    *arg = A_INTS(buffer, rank);
    return buffer != NULL;
}

bool vmap_args_shift(VmapArgs *a) {
    const OpRow *const row = a->call->row;
    bool some = false;
    for (int i = 0; i < row->n_params; i++) {
        Arg *const arg = &a->args[i];
        if (!is_dim(&row->params[i])) continue;
        some = true;
        if (arg->kind == ARG_int) {
            arg->i = further(arg->i);
        } else if (arg->kind == ARG_ints && (arg->n || row->kind == KIND_pointwise)) {
            if (!shift_list(a, arg)) return false;
        } else {
            const ParamType type = row->params[i].type;
            if (type == PT_int || type == PT_int_opt || row->flags & OPF_none_of_none || !list_all(a, arg))
                return false;
        }
    }
    return some;
}

static bool put_front(VmapArgs *a, Arg *arg, int64_t first) {
    int64_t *const buffer = ints_buffer(a, arg->n + 1);
    if (!buffer) return false;
    buffer[0] = first;
    if (arg->n) memcpy(buffer + 1, arg->ints, sizeof *buffer * (size_t)arg->n);
    *arg = A_INTS(buffer, arg->n + 1);
    return true;
}

/* Into each list of such a parameter; false: there is none, or no room. */
static bool put_in_lists(VmapArgs *a, bool (*is_meant)(const Param *param), int64_t first) {
    const OpRow *const row = a->call->row;
    bool some = false;
    for (int i = 0; i < row->n_params; i++) {
        if (!is_meant(&row->params[i]) || a->args[i].kind != ARG_ints) continue;
        some = true;
        if (!put_front(a, &a->args[i], first)) return false;
    }
    return some;
}

bool vmap_args_enlarge(VmapArgs *a) { return put_in_lists(a, is_sizes, a->rows); }
bool vmap_args_keep_front(VmapArgs *a) { return put_in_lists(a, is_dim, 0); }

/* the same call? ------------------------------------------------------------------------------ */

static bool extends(const VmapArgs *a, const MetaOut *all, const MetaOut *one) {
    const bool view = a->call->row->kind == KIND_view;
    if (all->rank != one->rank + 1 || all->sizes[0] != a->rows || all->dtype != one->dtype ||
        all->device != one->device)
        return false;
    for (int d = 0; d < one->rank; d++)
        if (all->sizes[d + 1] != one->sizes[d] || (view && all->strides[d + 1] != one->strides[d])) return false;
    if (!view) return true;
    const sn_tensor *const inner = level_inner(a->level, a->call->args[0].val);
    return inner && all->alias == one->alias && all->offset == one->offset &&
           all->strides[0] == inner->base.meta->strides[0];
}

static DType common_of(const OpRow *row, const Arg *args) {
    Elementwise e = {0};
    for (int i = 0; i < row->n_params && e.n < MAX_OPERANDS; i++)
        if (args[i].kind == ARG_tensor && args[i].val) e.in[e.n++] = args[i].val->meta;
    return promoted(&e);
}

/* 0-dim tensors are weaker in promotion; with a batch dim they are not. The result's dtype does not show it all:
 * comparisons have one of their own. */
static bool promotes_alike(const VmapArgs *a) {
    const OpRow *const row = a->call->row;
    return row->kind != KIND_pointwise || common_of(row, a->args) == common_of(row, a->call->args);
}

bool vmap_args_fit(VmapArgs *a, const MetaCall *one) {
    MetaOut outs[MAX_OUTS];
    if (!promotes_alike(a)) return false;
    const OpForm form = a->call->form == FORM_out ? FORM_functional : a->call->form;
    for (int i = 0; i < MAX_OUTS; i++) outs[i] = (MetaOut){.alias = -1};
    MetaCall all = {.row = a->call->row,
                    .form = form,
                    .args = a->args,
                    .out = outs,
                    .n_out = one->row->returns_list ? MAX_OUTS : a->call->row->n_out};
    if (op_meta(&all) != ST_OK) {
        error_clear();
        return false;
    }
    if (all.n_out != one->n_out || all.order != one->order) return false;
    for (int i = 0; i < all.n_out && i < MAX_OUTS; i++)
        if (!extends(a, &outs[i], &one->out[i])) return false;
    return true;
}

Status vmap_args_run(VmapArgs *a, OpCall *call) {
    sn_tensor *outs[MAX_LIST];
    int n = call->row->n_out;
    const OpForm form = call->form == FORM_inplace ? FORM_inplace : FORM_functional;
    memset(outs, 0, sizeof *outs * (size_t)n);
    TRY(call->row->returns_list ? dispatch_list(call->row, a->args, outs, &n)
                                : dispatch(call->row, form, a->args, NULL, outs));
    if (form == FORM_functional) return vmap_set_results(call, a->level, outs, n);
    call->outs[0] = tensor_of(call->args[0].val);
    return ST_OK;
}

Status vmap_set_results(OpCall *call, const Level *level, sn_tensor *const *outs, int n) {
    for (int i = 0; i < n; i++) {
        call->outs[i] = outs[i] ? tensor_batched(outs[i], level->id) : NULL;
        if (!call->outs[i] && outs[i]) return error_pending() != ST_OK ? error_pending() : ST_MEMORY;
    }
    call->n_outs = n;
    return ST_OK;
}
