/* sparse_tensor.c: sparse handles, and the kernel of their keys: an op on one becomes ops on its parts. */
#include "frontend/api/sparse.h"

#include <pthread.h>
#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/base/small_array.h"
#include "runtime/core/element.h"

/* handles ------------------------------------------------------------------------------------- */

static void free_parts(void *data, void *context) {
    SparseFields *const parts = data;
    tensor_release(parts->values);
    tensor_release(parts->positions);
    tensor_release(parts->rows);
    tensor_release(parts->columns);
    mem_free(parts);
}

/* Memory that is no tensor's: it is there to be freed with the last handle. */
static Storage *storage_of_parts(const SparseFields *given) {
    SparseFields *const parts = mem_alloc(sizeof *parts);
    if (!parts) return NULL;
    *parts = *given;
    Storage *const storage = storage_wrap(DEV_cpu, parts, 0, free_parts, NULL);
    if (!storage) return mem_free(parts), NULL;
    tensor_retained(parts->values);
    tensor_retained(parts->positions);
    tensor_retained(parts->rows);
    tensor_retained(parts->columns);
    return storage;
}

sn_tensor *sparse_new(const SparseFields *parts, const int64_t *sizes, int rank) {
    sparse_start();
    const Meta *const meta = meta_intern_contiguous(parts->values->base.meta->dtype, DEV_cpu, sizes, rank);
    Storage *const storage = meta ? storage_of_parts(parts) : NULL;
    sn_tensor *const t = storage ? tensor_from_storage(storage, meta, 0) : NULL;
    if (storage) storage_release(storage);
    if (t) tensor_add_key(t, parts->rows ? KEY_BIT(sparse_csr) : KEY_BIT(sparse));
    return t;
}

/* text ---------------------------------------------------------------------------------------- */

Status sparse_print(sn_tensor *t, const char *gradient, Text *text) {
    const SparseFields *const parts = sparse_fields(t);
    const bool coo = parts->positions != NULL;
    const ReprField of_coo[] = {{"indices", parts->positions}, {"values", parts->values}};
    const ReprField of_csr[] = {
        {"crow_indices", parts->rows}, {"col_indices", parts->columns}, {"values", parts->values}};
    const ReprFields all = {.at = coo ? of_coo : of_csr,
                            .n = coo ? COUNT_OF(of_coo) : COUNT_OF(of_csr),
                            .layout = coo ? "torch.sparse_coo" : "torch.sparse_csr",
                            .entries = parts->values->base.meta->sizes[0],
                            .apart = coo};
    for (int i = 0; i < all.n; i++) TRY(tensor_ready(all.at[i].tensor, "sn_repr"));
    return tensor_print_parts(t, &all, gradient, text);
}

/* parts --------------------------------------------------------------------------------------- */

static sn_tensor *made(Val *val) { return tensor_of(val); }
static Builder *builder(void) { return eager_builder(); }

static sn_tensor *row_of_positions(const SparseFields *parts, int64_t dim) {
    return made(E(builder(), select_int, V(&parts->positions->base), I(0), I(dim)));
}

/* sum over dims of position * stride. */
static sn_tensor *places_of_positions(const SparseFields *parts, const Meta *meta) {
    sn_tensor *sum = NULL;
    for (int d = 0; d < meta->rank; d++) {
        sn_tensor *const row = row_of_positions(parts, d);
        sn_tensor *const at = row ? made(E(builder(), mul_Scalar, V(&row->base), I(meta->strides[d]))) : NULL;
        sum = !at ? NULL : sum ? made(E(builder(), add_Tensor, V(&sum->base), V(&at->base))) : at;
        if (!sum) return NULL;
    }
    return sum;
}

sn_tensor *sparse_to_coo(sn_tensor *t) {
    const SparseFields *const parts = sparse_fields(t);
    if (!parts->rows) return t;
    sn_tensor *const rows = sparse_row_of_each(parts->rows, parts->columns);
    if (!rows) return NULL;
    sn_tensor *const positions =
        made(E(builder(), stack, A_VALS(((Val *[]){&rows->base, &parts->columns->base}), 2), I(0)));
    const SparseFields coo = {.values = parts->values, .positions = positions, .coalesced = true};
    return positions ? sparse_new(&coo, t->base.meta->sizes, t->base.meta->rank) : NULL;
}

sn_tensor *sparse_places(sn_tensor *t) {
    sn_tensor *const coo = sparse_to_coo(t);
    return coo ? places_of_positions(sparse_fields(coo), t->base.meta) : NULL;
}

/* to + alpha t, entries one by one, as [n]. */
static sn_tensor *added(sn_tensor *to, sn_tensor *t, Arg alpha) {
    sn_tensor *const places = sparse_places(t);
    const SparseFields *const parts = sparse_fields(t);
    const Meta *const meta = t->base.meta;
    const int64_t all = meta->numel;
    Val *const flat = places ? E(builder(), reshape, V(&to->base), A_INTS(&all, 1)) : NULL;
    Val *const sum =
        flat ? E(builder(), index_add, V(flat), I(0), V(&places->base), V(&parts->values->base), alpha) : NULL;
    return sum ? made(E(builder(), view, V(sum), A_INTS(meta->sizes, meta->rank))) : NULL;
}

sn_tensor *sparse_dense(sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    sn_tensor *const zeros =
        made(E(builder(), new_zeros, V(&sparse_fields(t)->values->base), A_INTS(meta->sizes, meta->rank)));
    return zeros ? added(zeros, t, I(1)) : NULL;
}

/* coalescing: the order of entries is the host's ------------------------------------------------ */

typedef struct Entry {
    int64_t place, at;
} Entry;

static int by_place(const void *a, const void *b) {
    const Entry *const x = a, *const y = b;
    if (x->place != y->place) return x->place < y->place ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static sn_tensor *i64_tensor(int64_t n) {
    const Meta *const meta = meta_intern_contiguous(DT_i64, DEV_cpu, &n, 1);
    return meta ? tensor_new(meta) : NULL;
}

/* slots[i]: which of the places, ascending and each once, entry i has; their count, -1 raised. */
static int64_t sort_places(const int64_t *places, int64_t n, int64_t *slots, int64_t *distinct) {
    Entry *const entries = mem_alloc(sizeof *entries * (size_t)(n + 1));
    int64_t count = 0;
    if (!entries) return -1;
    for (int64_t i = 0; i < n; i++) entries[i] = (Entry){places[i], i};
    qsort(entries, (size_t)n, sizeof *entries, by_place);
    for (int64_t i = 0; i < n; i++) {
        if (!i || entries[i].place != entries[i - 1].place) distinct[count++] = entries[i].place;
        slots[entries[i].at] = count - 1;
    }
    mem_free(entries);
    return count;
}

/* [rank, n] of places. */
static sn_tensor *positions_of(const int64_t *places, int64_t n, const Meta *meta) {
    const Meta *const layout = meta_intern_contiguous(DT_i64, DEV_cpu, (const int64_t[]){meta->rank, n}, 2);
    sn_tensor *const t = layout ? tensor_new(layout) : NULL;
    int64_t *const to = t ? tensor_data(t) : NULL;
    for (int d = 0; to && d < meta->rank; d++)
        for (int64_t i = 0; i < n; i++)
            to[d * n + i] = meta->sizes[d] ? places[i] / meta->strides[d] % meta->sizes[d] : 0;
    return t;
}

static sn_tensor *with_sums(sn_tensor *t, sn_tensor *slots, const int64_t *distinct, int64_t n) {
    const SparseFields *const parts = sparse_fields(t);
    SparseFields out = {.coalesced = true, .positions = positions_of(distinct, n, t->base.meta)};
    Val *const zeros = E(builder(), new_zeros, V(&parts->values->base), A_INTS(&n, 1));
    if (!out.positions || !zeros) return NULL;
    out.values = made(E(builder(), index_add, V(zeros), I(0), V(&slots->base), V(&parts->values->base), I(1)));
    return out.values ? sparse_new(&out, t->base.meta->sizes, t->base.meta->rank) : NULL;
}

int64_t sparse_element(const sn_tensor *t, int64_t i, int64_t k) {
    const Meta *const meta = t->base.meta;
    const int64_t at = meta->rank == 2 ? i * meta->strides[0] + k * meta->strides[1] : k * meta->strides[0];
    return ((const int64_t *)tensor_data(t))[at];
}

Status sparse_check_range(sn_tensor *t, const char *noun, int64_t first, sn_ints sizes, const char *what) {
    TRY(tensor_ready(t, what));
    const Meta *const meta = t->base.meta;
    for (int64_t d = 0; d < sizes.n; d++)
        for (int64_t k = 0; k < meta->sizes[meta->rank - 1]; k++) {
            const int64_t at = sparse_element(t, d, k);
            if (at < 0 || at >= sizes.data[d])
                return error_raise(ST_VALUE, "%s: %s %lld of entry %lld is outside of dim %lld, of size %lld", what,
                                   noun, (long long)at, (long long)k, (long long)(first + d), (long long)sizes.data[d]);
        }
    return ST_OK;
}

/* Their memory can be written. */
static Status check_positions(sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    return sparse_check_range(sparse_fields(t)->positions, "position", 0, (sn_ints){meta->sizes, meta->rank},
                              "sn_coalesce");
}

sn_tensor *sparse_coalesced(sn_tensor *t) {
    if (sparse_fields(t)->coalesced) return t;
    sn_tensor *places = sparse_places(t);
    if (!places || tensor_ready(places, "sn_coalesce") != ST_OK) return NULL;
    if (!(places = made(E(builder(), clone, V(&places->base), A_NONE)))) return NULL;
    if (tensor_ready(places, "sn_coalesce") != ST_OK) return NULL;
    if (check_positions(t) != ST_OK) return NULL;
    const int64_t n = places->base.meta->numel;
    sn_tensor *const slots = i64_tensor(n), *const distinct = i64_tensor(n);
    if (!slots || !distinct) return NULL;
    const int64_t count = sort_places(tensor_data(places), n, tensor_data(slots), tensor_data(distinct));
    return count < 0 ? NULL : with_sums(t, slots, tensor_data(distinct), count);
}

sn_tensor *sparse_to_csr(sn_tensor *t) {
    if (sparse_fields(t)->rows) return t;
    sn_tensor *const coo = sparse_coalesced(t);
    if (!coo) return NULL;
    const SparseFields *const parts = sparse_fields(coo);
    sn_tensor *const row = row_of_positions(parts, 0), *const columns = row_of_positions(parts, 1);
    const SparseFields csr = {.values = parts->values,
                              .columns = columns,
                              .rows = row ? sparse_row_starts(row, t->base.meta->sizes[0]) : NULL,
                              .coalesced = true};
    return csr.rows && columns ? sparse_new(&csr, t->base.meta->sizes, 2) : NULL;
}

/* the key's kernel ---------------------------------------------------------------------------- */

static sn_tensor *sparse_argument(const OpCall *call, int i) { return tensor_of(call->args[i].val); }

static Status missing(const OpCall *call) {
    return error_raise(ST_UNSUPPORTED, "%s: it is not implemented for key %s", op_form_name(call->row, call->form),
                       key_name(call->key));
}

/* a dense, with the checks that mm of dense tensors has; the second is [k, n]. */
static Status sparse_times(const OpCall *call, sn_tensor *a, sn_tensor *dense, sn_tensor **out) {
    const Meta *const x = a->base.meta, *const y = dense->base.meta;
    if (!sparse_fields(a) || sparse_fields(dense)) return missing(call);
    if (x->rank != 2 || y->rank != 2 || x->sizes[1] != y->sizes[0])
        return error_raise(ST_SHAPE,
                           "%s: a sparse matrix of %d dims, %lld columns, and a dense one of %d dims, %lld rows",
                           call->row->name, x->rank, x->rank == 2 ? (long long)x->sizes[1] : -1, y->rank,
                           y->rank ? (long long)y->sizes[0] : -1);
    if (x->dtype != y->dtype || (x->dtype != DT_f32 && x->dtype != DT_f64))
        return error_raise(ST_DTYPE, "%s: a sparse matrix of %s and a dense one of %s: both f32, or both f64",
                           call->row->name, dtype_name(x->dtype), dtype_name(y->dtype));
    sn_tensor *const csr = sparse_to_csr(a);
    if (!csr) return error_pending();
    const SparseFields *const parts = sparse_fields(csr);
    *out = sparse_product(parts->rows, parts->columns, parts->values, dense);
    return *out ? ST_OK : error_pending();
}

static Status mm_rule(OpCall *call) {
    return sparse_times(call, sparse_argument(call, 0), sparse_argument(call, 1), &call->outs[0]);
}

static Status mv_rule(OpCall *call) {
    sn_tensor *out = NULL, *const vec = sparse_argument(call, 1);
    if (vec->base.meta->rank != 1)
        return error_raise(ST_SHAPE, "aten::mv: the vector has %d dims, not 1", vec->base.meta->rank);
    if (sparse_fields(vec)) return missing(call);
    Val *const column = E(builder(), unsqueeze, V(&vec->base), I(1));
    if (!column) return error_pending();
    TRY(sparse_times(call, sparse_argument(call, 0), tensor_of(column), &out));
    call->outs[0] = made(E(builder(), select_int, V(&out->base), I(1), I(0)));
    return call->outs[0] ? ST_OK : error_pending();
}

static bool is_one(const Arg *arg) { return arg->kind == ARG_float ? arg->f == 1 : arg->i == 1; }

/* beta self + alpha (mat1 mat2), each rounded. */
static Status addmm_rule(OpCall *call) {
    sn_tensor *out = NULL, *self = sparse_argument(call, 0);
    if (sparse_fields(self)) return missing(call);
    TRY(sparse_times(call, sparse_argument(call, 1), sparse_argument(call, 2), &out));
    if (!is_one(&call->args[3])) self = made(E(builder(), mul_Scalar, V(&self->base), call->args[3]));
    if (!self) return error_pending();
    call->outs[0] = made(E(builder(), add_Tensor, V(&self->base), V(&out->base), call->args[4]));
    return call->outs[0] ? ST_OK : error_pending();
}

static Status same_sizes(const OpCall *call, const sn_tensor *a, const sn_tensor *b) {
    if (meta_same_sizes(a->base.meta, b->base.meta) && a->base.meta->dtype == b->base.meta->dtype) return ST_OK;
    return error_raise(ST_SHAPE, "%s: sparse tensors are added to what has the same sizes and dtype", call->row->name);
}

/* Entries of both, those of the first first; CSR stays CSR. */
static sn_tensor *joined_entries(sn_tensor *a, sn_tensor *b, Arg alpha) {
    const bool csr = sparse_fields(a)->rows && sparse_fields(b)->rows;
    const Meta *const meta = a->base.meta;
    if (!(a = sparse_to_coo(a)) || !(b = sparse_to_coo(b))) return NULL;
    const SparseFields *const x = sparse_fields(a), *const y = sparse_fields(b);
    Val *const scaled = is_one(&alpha) ? &y->values->base : E(builder(), mul_Scalar, V(&y->values->base), alpha);
    if (!scaled) return NULL;
    Val *const positions = E(builder(), cat, A_VALS(((Val *[]){&x->positions->base, &y->positions->base}), 2), I(1));
    Val *const values = E(builder(), cat, A_VALS(((Val *[]){&x->values->base, scaled}), 2), I(0));
    if (!positions || !values) return NULL;
    sn_tensor *const sum =
        sparse_new(&(SparseFields){.values = made(values), .positions = made(positions)}, meta->sizes, meta->rank);
    return sum && csr ? sparse_to_csr(sum) : sum;
}

static Status add_rule(OpCall *call) {
    sn_tensor *const a = sparse_argument(call, 0), *const b = sparse_argument(call, 1);
    TRY(same_sizes(call, a, b));
    if (!sparse_fields(b)) return missing(call); /* as in PyTorch: sparse + dense is dense + sparse */
    call->outs[0] = sparse_fields(a) ? joined_entries(a, b, call->args[2]) : added(a, b, call->args[2]);
    return call->outs[0] ? ST_OK : error_pending();
}

/* A composite is its parts, of which some may have a rule. */
static Status no_rule(OpCall *call) {
    return call->row->kind == KIND_composite ? composite_expand(call, call->args, NULL, NULL) : missing(call);
}

/* What a rule makes on its way is its own. */
static Status with_rule(OpCall *call, OpKernel *rule) {
    sn_state *const state = state_get();
    const uint32_t depth = state->n_scopes;
    if (call->form != FORM_functional) return missing(call);
    TRY(scope_push(state, false));
    const Status status = rule(call);
    scope_pop_passing(state, depth, call->outs, status == ST_OK ? call->n_outs : 0);
    return status;
}

static Status sparse_mm(OpCall *call) { return with_rule(call, mm_rule); }
static Status sparse_mv(OpCall *call) { return with_rule(call, mv_rule); }
static Status sparse_addmm(OpCall *call) { return with_rule(call, addmm_rule); }
static Status sparse_add(OpCall *call) { return with_rule(call, add_rule); }
static Status sparse_other(OpCall *call) { return with_rule(call, no_rule); }

static void register_at(Key key) {
    dispatch_fallback(key, sparse_other);
    dispatch_register(OP_ROW(mm), key, sparse_mm);
    dispatch_register(OP_ROW(mv), key, sparse_mv);
    dispatch_register(OP_ROW(addmm), key, sparse_addmm);
    dispatch_register(OP_ROW(add_Tensor), key, sparse_add);
}

static void start_all(void) {
    sparse_ops_start();
    register_at(KEY_sparse);
    register_at(KEY_sparse_csr);
}

void sparse_start(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_all);
}
