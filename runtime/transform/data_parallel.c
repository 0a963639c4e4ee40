/* data_parallel.c: see data_parallel.h. Parameters lie in buckets from the last to the first, as gradients mostly come.
 * Whatever the order in which a rank's gradients are there, buckets are reduced in theirs, which is the same on all
 * ranks:
 *
 *   params  0 1 2 3 4      buckets  {4 3} {2} {1 0}
 *   there   1, 4, 3 -> bucket 0 goes; 0 -> bucket 2 is full and waits; 2 -> buckets 1 and 2 go
 *
 * That is a round. One backward goes through it, or some do, or one and sn_data_parallel_finish; what is left of it
 * where a backward has failed is forgotten, and the next one begins anew. */
#include "runtime/transform/data_parallel.h"

#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"
#include "runtime/core/context_enter.h"
#include "runtime/core/frame.h"
#include "runtime/transform/collective.h"

typedef struct ParallelParam {
    sn_data_parallel *of;
    sn_tensor *leaf; /* owned */
    int64_t hook;
    int bucket;
    bool ready; /* its gradient is there, in this backward */
} ParallelParam;

struct sn_data_parallel {
    sn_comm *rank;
    sn_data_parallel_options options;
    bool synced;
    int n, n_buckets;
    int next;                  /* the bucket that is reduced next */
    bool done;                 /* all are, and no gradient has come since: nothing to finish */
    uint32_t failed;           /* backwards of this thread, when the last gradient came */
    sn_tensor **grads, **sums; /* room for a bucket */
    ParallelParam params[];
};

/* buckets ---------------------------------------------------------------------------------------- */

static void fill_buckets(sn_data_parallel *dp) {
    const int64_t most = dp->options.bucket_bytes;
    int64_t bytes = 0;
    for (int i = dp->n - 1; i >= 0; i--) {
        const int64_t own = (int64_t)meta_bytes(dp->params[i].leaf->base.meta);
        if (dp->n_buckets == 0 || bytes + own > most) dp->n_buckets++, bytes = 0;
        dp->params[i].bucket = dp->n_buckets - 1;
        bytes += own;
    }
}

static bool bucket_is_ready(const sn_data_parallel *dp, int bucket) {
    for (int i = 0; i < dp->n; i++)
        if (dp->params[i].bucket == bucket && !dp->params[i].ready) return false;
    return true;
}

/* A gradient that is not there counts as zeros. NULL raised. */
static sn_tensor *gradient_of(sn_tensor *leaf) {
    sn_tensor *const grad = tape_grad(leaf);
    return grad ? grad : tensor_new_zero(tape_grad_meta(leaf));
}

/* Into the tensor that is there, whoever holds it; one with a history (SN_CREATE_GRAPH) is a rank's own. */
static Status set_gradient(sn_tensor *leaf, sn_tensor *grad) {
    sn_tensor *const there = tape_grad(leaf), *written;
    if (!there || tape_tracks(there)) return tape_grad_set(leaf, grad);
    const Arg args[] = {V(&there->base), V(&grad->base), A_BOOL(false)};
    return tape_dispatch(OP_ROW(copy), FORM_inplace, args, &written);
}

static Status reduce_bucket(sn_data_parallel *dp) {
    int n = 0;
    for (int i = dp->n - 1; i >= 0; i--)
        if (dp->params[i].bucket == dp->next && !(dp->grads[n++] = gradient_of(dp->params[i].leaf))) return ST_MEMORY;
    TRY(collective_run(dp->rank, COLLECTIVE_reduce, dp->grads, n, !dp->options.sum, dp->sums));
    n = 0;
    for (int i = dp->n - 1; i >= 0; i--) {
        if (dp->params[i].bucket != dp->next) continue;
        TRY(set_gradient(dp->params[i].leaf, dp->sums[n++]));
        dp->params[i].ready = false;
    }
    return ST_OK;
}

typedef struct BucketReduced {
    const sn_data_parallel_options *options;
    int bucket;
} BucketReduced;

static void run_reduced(void *argument) {
    const BucketReduced *const r = argument;
    r->options->reduced(r->options->context, r->bucket);
}

static Status next_bucket(sn_data_parallel *dp) {
    sn_state *const state = state_get();
    TRY(scope_push(state, false));
    context_enter_scope(state, CONTEXT_library);
    const Status status = reduce_bucket(dp);
    scope_pop(state);
    TRY(status);
    BucketReduced reduced = {&dp->options, dp->next++};
    if (dp->next == dp->n_buckets) dp->next = 0, dp->done = true;
    return dp->options.reduced ? callback_run("`reduced` of sn_data_parallel_new", run_reduced, &reduced) : ST_OK;
}

static void forget_failed(sn_data_parallel *dp) {
    const uint32_t failed = state_get()->tape.failed_backwards;
    if (dp->failed == failed) return;
    for (int i = 0; i < dp->n; i++) dp->params[i].ready = false;
    dp->failed = failed, dp->next = 0;
}

static sn_status gradient_is_there(sn_frame *f) {
    ParallelParam *const param = f->closure;
    sn_data_parallel *const dp = param->of;
    if (!dp->synced) return SN_OK;
    forget_failed(dp);
    dp->done = false;
    param->ready = true;
    do {
        if (!bucket_is_ready(dp, dp->next)) return SN_OK;
        const Status status = next_bucket(dp);
        if (status != ST_OK) return (sn_status)status;
    } while (dp->next);
    return SN_OK;
}

Status data_parallel_finish(sn_data_parallel *dp) {
    forget_failed(dp);
    while (!dp->done) TRY(next_bucket(dp));
    dp->done = false;
    return ST_OK;
}

void data_parallel_sync(sn_data_parallel *dp, bool on) { dp->synced = on; }

int data_parallel_bucket(const sn_data_parallel *dp, int i) { return i >= 0 && i < dp->n ? dp->params[i].bucket : -1; }

/* life ------------------------------------------------------------------------------------------- */

static Status add_param(sn_data_parallel *dp, sn_tensor *leaf) {
    ParallelParam *const param = &dp->params[dp->n];
    TRY(tensor_valid(leaf, "sn_data_parallel_new"));
    TRY(tensor_ready(leaf, "sn_data_parallel_new"));
    if (!tape_is_wanted_leaf(leaf))
        return error_raise(ST_ARGUMENT, "sn_data_parallel_new: parameter %d is no leaf that requires gradients", dp->n);
    *param = (ParallelParam){.of = dp, .leaf = tensor_retained(leaf)};
    dp->n++;
    param->hook = tape_hook_add(leaf, true, gradient_is_there, param);
    return param->hook ? ST_OK : error_pending();
}

sn_data_parallel *data_parallel_new(sn_comm *rank, sn_tensors params, const sn_data_parallel_options *options) {
    sn_data_parallel *const dp = mem_zero(sizeof *dp + (size_t)params.n * sizeof *dp->params);
    if (!dp) return NULL;
    dp->rank = rank, dp->options = *options, dp->synced = true, dp->failed = state_get()->tape.failed_backwards;
    if (!dp->options.bucket_bytes) dp->options.bucket_bytes = 25 << 20;
    rank_retain(rank);
    dp->grads = mem_zero((size_t)(2 * params.n + 1) * sizeof *dp->grads);
    Status status = dp->grads ? ST_OK : ST_MEMORY;
    for (int64_t i = 0; i < params.n && status == ST_OK; i++) status = add_param(dp, params.data[i]);
    if (status != ST_OK) return data_parallel_free(dp), NULL;
    dp->sums = dp->grads + params.n;
    fill_buckets(dp);
    return dp;
}

void data_parallel_free(sn_data_parallel *dp) {
    for (int i = 0; i < dp->n; i++) {
        tape_hook_remove(dp->params[i].leaf, dp->params[i].hook);
        tensor_release(dp->params[i].leaf);
    }
    rank_release(dp->rank);
    mem_free(dp->grads);
    mem_free(dp);
}
