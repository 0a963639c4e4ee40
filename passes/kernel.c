/* kernel.c: one group of clusters becomes one Kernel: its nests over a common list of buffers and
 * parameters, or a GEMM with the cluster's other nodes as the epilogue that runs on each finished
 * tile. */
#include "passes/lower.h"

/* buffers and parameters ---------------------------------------------------------------------- */

int draft_param(Draft *draft, int64_t value, bool is_float) {
    for (int i = 0; i < draft->params.n; i++)
        if (draft->params.at[i] == value && draft->is_float.at[i] == is_float && i != draft->tile_param) return i;
    VEC_PUSH(draft->arena, &draft->params, value);
    VEC_PUSH(draft->arena, &draft->is_float, is_float);
    return draft->params.n - 1;
}

int64_t draft_int(Draft *draft, int64_t value) {
    return sym_is(value) ? sym_make(draft_param(draft, value, false)) : value;
}

int draft_buf(Draft *draft, const GVal *base, bool written) {
    GVal *const home = val_info(draft->l, base)->home;
    for (int i = 0; i < draft->bufs.n; i++) {
        Buf *const buf = &draft->bufs.at[i];
        if (draft->homes.at[i] != home) continue;
        if (written ? buf->role == BUF_in : buf->role == BUF_out) buf->role = BUF_inout;
        return i;
    }
    VEC_PUSH(draft->arena, &draft->homes, home);
    VEC_PUSH(draft->arena, &draft->slots, -1);
    VEC_PUSH(draft->arena, &draft->bufs, ((Buf){home->base.meta->dtype, written ? BUF_out : BUF_in}));
    return draft->bufs.n - 1;
}

/* products ------------------------------------------------------------------------------------ */

typedef struct Product {
    const char *base;
    int a, b, self; /* arguments; -1: none */
} Product;

static const Product *product_of(const Node *node) {
    static const Product products[] = {{"mm", 0, 1, -1}, {"bmm", 0, 1, -1}, {"addmm", 1, 2, 0}, {"baddbmm", 1, 2, 0}};
    for (int i = 0; i < COUNT_OF(products); i++)
        if (!strcmp(node->row->base, products[i].base)) return &products[i];
    return NULL;
}

bool gemm_known(const Node *node) {
    const Product *const p = product_of(node);
    if (!p || node->args[p->a].kind != ARG_tensor) return false;
    switch (node->args[p->a].val->meta->dtype) {
    case DT_f64:
    case DT_f32:
    case DT_f16:
    case DT_bf16:
    case DT_i64:
    case DT_i32:
        return true;
    default:
        return false;
    }
}

static bool is_number(const Arg *a, double value) {
    return (a->kind == ARG_int || a->kind == ARG_float) && arg_double(a) == value;
}

/* beta self + alpha product, each rounded in the compute type; beta 0 ignores self. */
int gemm_body(BodyCall *call, int product) {
    const int alpha = op_param_find(call->row, "alpha"), beta = op_param_find(call->row, "beta");
    const SType type = loop_type(call->lb, product);
    if (alpha >= 0 && !is_number(&call->args[alpha], 1))
        product = loop_prim(call->lb, PRIM_mul, product, call->number(call, alpha, type), -1);
    if (beta < 0 || is_number(&call->args[beta], 0)) return product;
    int self = loop_cast(call->lb, type, call->element(call, 0));
    if (!is_number(&call->args[beta], 1))
        self = loop_prim(call->lb, PRIM_mul, self, call->number(call, beta, type), -1);
    return loop_prim(call->lb, PRIM_add, self, product, -1);
}

static int operand(Draft *draft, const GVal *v, int64_t stride[3], int64_t *offset, bool written) {
    const ValInfo *const info = val_info(draft->l, v);
    const int rank = v->base.meta->rank;
    stride[0] = rank == 3 ? draft_int(draft, info->strides[0]) : 0;
    stride[1] = draft_int(draft, info->strides[rank - 2]);
    stride[2] = draft_int(draft, info->strides[rank - 1]);
    *offset = draft_int(draft, info->offset);
    return draft_buf(draft, info->base, written);
}

static DType compute_dtype(DType dtype) { return dtype == DT_f16 || dtype == DT_bf16 ? DT_f32 : dtype; }

static void gemm_begin(Draft *draft, const Node *node, GemmDesc *gemm, bool epilogue) {
    const Product *const p = product_of(node);
    const GVal *const a = gval(node->args[p->a].val), *const b = gval(node->args[p->b].val);
    const Meta *const ma = a->base.meta, *const mb = b->base.meta;
    *gemm = (GemmDesc){.dtype = ma->dtype, .c = -1, .tile = -1, .tile_ld = -1};
    gemm->batch = ma->rank == 3 ? draft_int(draft, ma->sizes[0]) : 1;
    gemm->m = draft_int(draft, ma->sizes[ma->rank - 2]);
    gemm->k = draft_int(draft, ma->sizes[ma->rank - 1]);
    gemm->n = draft_int(draft, mb->sizes[mb->rank - 1]);
    gemm->a = operand(draft, a, gemm->a_stride, &gemm->a_offset, false);
    gemm->b = operand(draft, b, gemm->b_stride, &gemm->b_offset, false);
    if (!epilogue) return;
    gemm->tile = draft->tile = draft->bufs.n;
    VEC_PUSH(draft->arena, &draft->homes, NULL);
    VEC_PUSH(draft->arena, &draft->slots, -1);
    VEC_PUSH(draft->arena, &draft->bufs, ((Buf){compute_dtype(ma->dtype), BUF_tile}));
    gemm->tile_ld = draft->tile_param = draft->params.n;
    VEC_PUSH(draft->arena, &draft->params, 0);
    VEC_PUSH(draft->arena, &draft->is_float, false);
}

static Node *gemm_node(const Lower *l, const Cluster *cluster) {
    for (int i = 0; i < cluster->nodes.n; i++)
        if (l->vals[cluster->nodes.at[i]->outs[0].id].kind == VAL_gemm) return cluster->nodes.at[i];
    return NULL;
}

/* Without other ops, alpha and beta the template stores by itself. */
static bool is_plain_product(const Cluster *cluster) {
    return cluster->nodes.n == 1 && product_of(cluster->nodes.at[0])->self < 0;
}

/* All of the cluster as one nest; says why not. */
static const char *only_nest(Draft *draft, const Cluster *cluster, Kernel *kernel, NestCost *cost) {
    const char *why = NULL;
    Nest *const nest = nest_build(draft, cluster, &why, cost);
    if (!nest) return why;
    kernel->nests = nest;
    kernel->n_nests = 1;
    return NULL;
}

static const char *gemm_nests(Draft *draft, const Cluster *cluster, Kernel *kernel, NestCost *cost) {
    Node *const node = gemm_node(draft->l, cluster);
    const bool plain = is_plain_product(cluster);
    const Product *const p = product_of(node);
    for (int side = 0; side < 2; side++) {
        const GVal *const v = gval(node->args[side ? p->b : p->a].val);
        if (cluster_has(draft->l, cluster, val_info(draft->l, v)->base)) return "a product's operand must be in memory";
    }
    kernel->kind = KERNEL_gemm;
    kernel->gemm = ARENA_NEW(draft->arena, GemmDesc);
    gemm_begin(draft, node, kernel->gemm, !plain);
    if (plain) {
        GVal *const c = &node->outs[0];
        kernel->gemm->c = operand(draft, c, kernel->gemm->c_stride, &kernel->gemm->c_offset, true);
        return NULL;
    }
    return only_nest(draft, cluster, kernel, cost);
}

/* the kernel ---------------------------------------------------------------------------------- */

const char *draft_cluster(Draft *draft, const Cluster *cluster, Kernel *kernel, NestCost *cost) {
    if (cluster->kind == VAL_gemm) return gemm_nests(draft, cluster, kernel, cost);
    return only_nest(draft, cluster, kernel, cost);
}

static void kernel_name(Lower *l, const Group *group, Kernel *kernel) {
    enum { NAMES = 5 };
    const char *names[NAMES + 1];
    int n = 0;
    for (int c = 0; c < group->clusters.n; c++) {
        const Cluster *const cluster = group->clusters.at[c];
        for (int i = 0; i < cluster->nodes.n && n <= NAMES; i++) {
            const char *const name = cluster->nodes.at[i]->row->base;
            bool named = false;
            for (int k = 0; k < n; k++) named |= !strcmp(names[k], name);
            if (!named) names[n++] = name;
        }
        if (cluster->copy && cluster->nodes.n == 0 && n == 0) names[n++] = "copy";
    }
    const char *name = arena_printf(l->arena, "k%d", l->plan->steps.n);
    for (int k = 0; k < n && k < NAMES; k++) name = arena_printf(l->arena, "%s_%s", name, names[k]);
    if (n > NAMES) name = arena_printf(l->arena, "%s_more", name);
    kernel->name = name;
    for (int i = 0; i < kernel->n_nests; i++) kernel->nests[i].name = arena_printf(l->arena, "%s_n%d", name, i);
}

static void group_ops(Lower *l, const Group *group, Step *step) {
    VEC(int) ops = {0};
    for (int c = 0; c < group->clusters.n; c++)
        for (int i = 0; i < group->clusters.at[c]->nodes.n; i++)
            VEC_PUSH(l->arena, &ops, group->clusters.at[c]->nodes.at[i]->id);
    int n = 0;
    for (int i = 0; i < ops.n; i++) { /* the parts of one cat share its node */
        bool again = false;
        for (int k = 0; k < n; k++) again |= ops.at[k] == ops.at[i];
        if (!again) ops.at[n++] = ops.at[i];
    }
    step->ops = ops.at;
    step->n_ops = n;
}

static void kernel_finish(Draft *draft, Kernel *kernel) {
    kernel->n_bufs = draft->bufs.n;
    kernel->bufs = draft->bufs.at;
    kernel->n_params = draft->params.n;
    kernel->params = draft->params.at;
    kernel->param_is_float = draft->is_float.at;
}

typedef struct Parts {
    VEC(Cluster *) clusters;
} Parts;

/* A node made of pieces becomes one cluster per piece. */
static void expand_pieces(Lower *l, Cluster *cluster, Parts *parts) {
    enum { ROOM = 1024 };
    if (cluster->kind != VAL_pieces) {
        VEC_PUSH(l->arena, &parts->clusters, cluster);
        return;
    }
    Copy *const copies = ARENA_ARRAY(l->arena, Copy, ROOM);
    const int n = pieces_of(l, cluster->nodes.at[0], copies, ROOM);
    if (n < 0) lower_bail(l, cluster->nodes.at[0], "no loop program for these arguments");
    for (int i = 0; i < n; i++) {
        Cluster *const part = ARENA_NEW(l->arena, Cluster);
        part->kind = VAL_pointwise;
        part->copy = &copies[i];
        VEC_PUSH(l->arena, &part->nodes, cluster->nodes.at[0]);
        VEC_PUSH(l->arena, &parts->clusters, part);
    }
}

void lower_group(Lower *l, const Group *group, Step *step) {
    Draft draft = {.l = l, .arena = l->arena, .tile = -1, .tile_param = -1};
    Kernel *const kernel = ARENA_NEW(l->arena, Kernel);
    Parts parts = {0};
    VEC(Nest) nests = {0};
    for (int c = 0; c < group->clusters.n; c++) expand_pieces(l, group->clusters.at[c], &parts);
    for (int c = 0; c < parts.clusters.n; c++) {
        const Cluster *const cluster = parts.clusters.at[c];
        Kernel part = *kernel;
        part.n_nests = 0;
        const char *const why = draft_cluster(&draft, cluster, &part, NULL);
        if (why) lower_bail(l, cluster->nodes.n ? cluster->nodes.at[0] : NULL, why);
        for (int i = 0; i < part.n_nests; i++) VEC_PUSH(l->arena, &nests, part.nests[i]);
        *kernel = part;
    }
    kernel->nests = nests.at;
    kernel->n_nests = nests.n;
    const Cluster *const first = group->clusters.at[0];
    kernel->independent = group->independent || (first->kind == VAL_pieces && pieces_independent(first->nodes.at[0]));
    kernel_finish(&draft, kernel);
    kernel_name(l, group, kernel);
    *step = (Step){.kind = STEP_kernel, .kernel = kernel, .write_back = group->write_back};
    step->bufs = ARENA_ARRAY(l->arena, int, draft.bufs.n + 1);
    for (int i = 0; i < draft.bufs.n; i++)
        step->bufs[i] = draft.homes.at[i] ? val_info(l, draft.homes.at[i])->slot : draft.slots.at[i];
    group_ops(l, group, step);
}
