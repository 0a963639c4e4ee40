/* parallel.c: ranks and what they do together (sinter/parallel.h), thin over runtime/transform. */
#include <sinter/parallel.h>

#include "frontend/api/enter.h"
#include "frontend/lib/options.h"
#include "runtime/core/tracer.h"
#include "runtime/transform/collective.h"
#include "runtime/transform/data_parallel.h"
#include "runtime/transform/sharded.h"

enum { MOST_RANKS = 256 };

sn_status sn_ranks_run(int ranks, sn_rank_body body, void *closure, const sn_ranks_options *options) {
    API_ENTER(sn_ranks_run);
    sn_ranks_options known = {0};
    Status status = error_pending();
    if (status == ST_OK) status = options_copy_in(&known, sizeof known, options, "sn_ranks_run");
    if (status == ST_OK && (ranks < 1 || ranks > MOST_RANKS))
        status = error_raise(ST_ARGUMENT, "sn_ranks_run: %d ranks, not 1 to %d", ranks, MOST_RANKS);
    if (status == ST_OK && (!body || known.timeout_ms < 0))
        status = !body ? error_raise(ST_ARGUMENT, "sn_ranks_run: body is NULL")
                       : error_raise(ST_ARGUMENT, "sn_ranks_run: timeout_ms is %lld: it is not negative",
                                     (long long)known.timeout_ms);
    return (sn_status)(status == ST_OK ? ranks_run(ranks, body, closure, known.timeout_ms) : status);
}

int sn_comm_rank(const sn_comm *comm) { return comm ? rank_index(comm) : -1; }
int sn_comm_size(const sn_comm *comm) { return comm ? rank_count(comm) : 0; }

static sn_tensor *collective(sn_comm *comm, CollectiveKind kind, sn_tensor *t, sn_reduction how) {
    if (how != SN_REDUCE_SUM && how != SN_REDUCE_MEAN) {
        error_raise(ST_ARGUMENT, "there is no reduction %d", (int)how);
        return NULL;
    }
    return collective_call(comm, kind, t, how == SN_REDUCE_MEAN);
}

sn_tensor *sn_all_reduce(sn_comm *comm, sn_tensor *t, sn_reduction how) {
    API_ENTER(sn_all_reduce);
    return collective(comm, COLLECTIVE_reduce, t, how);
}
sn_tensor *sn_all_gather(sn_comm *comm, sn_tensor *t) {
    API_ENTER(sn_all_gather);
    return collective(comm, COLLECTIVE_gather, t, SN_REDUCE_SUM);
}
sn_tensor *sn_reduce_scatter(sn_comm *comm, sn_tensor *t, sn_reduction how) {
    API_ENTER(sn_reduce_scatter);
    return collective(comm, COLLECTIVE_scatter, t, how);
}

/* What adds hooks, or is told of a rank, is no part of a graph. */
static Status check_new(sn_comm *comm, sn_tensors params, const char *what) {
    TRY(error_pending());
    TRY(state_untraced(what));
    TRY(tracer_event(reason_called(what)));
    if (!comm) return error_raise(ST_ARGUMENT, "%s: comm is NULL", what);
    if (params.n < 1 || params.n > INT32_MAX || !params.data)
        return error_raise(ST_ARGUMENT, "%s: the list of parameters is NULL or has none: it says %lld", what,
                           (long long)params.n);
    return ST_OK;
}

/* averaging ---------------------------------------------------------------------------------------- */

sn_data_parallel *sn_data_parallel_new(sn_comm *comm, sn_tensors params, const sn_data_parallel_options *options) {
    API_ENTER(sn_data_parallel_new);
    sn_data_parallel_options known = {0};
    if (check_new(comm, params, "sn_data_parallel_new") != ST_OK ||
        options_copy_in(&known, sizeof known, options, "sn_data_parallel_new") != ST_OK)
        return NULL;
    if (known.bucket_bytes < 0) {
        error_raise(ST_ARGUMENT, "sn_data_parallel_new: bucket_bytes is %lld: it is not negative",
                    (long long)known.bucket_bytes);
        return NULL;
    }
    return data_parallel_new(comm, params, &known);
}

void sn_data_parallel_free(sn_data_parallel *dp) {
    API_ENTER(sn_data_parallel_free);
    if (!dp) return;
    tracer_outside(REASON_CALLED(sn_data_parallel_free));
    data_parallel_free(dp);
}

static Status check_parallel(const sn_data_parallel *dp, const char *what) {
    TRY(error_pending());
    TRY(state_untraced(what));
    return dp ? tracer_event(reason_called(what)) : error_raise(ST_ARGUMENT, "%s: NULL", what);
}

sn_status sn_data_parallel_sync(sn_data_parallel *dp, bool on) {
    API_ENTER(sn_data_parallel_sync);
    const Status status = check_parallel(dp, "sn_data_parallel_sync");
    if (status == ST_OK) data_parallel_sync(dp, on);
    return (sn_status)status;
}

sn_status sn_data_parallel_finish(sn_data_parallel *dp) {
    API_ENTER(sn_data_parallel_finish);
    const Status status = check_parallel(dp, "sn_data_parallel_finish");
    return (sn_status)(status == ST_OK ? data_parallel_finish(dp) : status);
}

int sn_data_parallel_bucket(const sn_data_parallel *dp, int i) {
    const int bucket = dp ? data_parallel_bucket(dp, i) : -1;
    if (bucket < 0) error_raise(ST_ARGUMENT, "sn_data_parallel_bucket: there is no parameter %d", i);
    return bucket;
}

/* parts -------------------------------------------------------------------------------------------- */

sn_sharded *sn_sharded_new(sn_comm *comm, sn_tensors params, const sn_sharded_options *options) {
    API_ENTER(sn_sharded_new);
    sn_sharded_options known = {0};
    if (check_new(comm, params, "sn_sharded_new") != ST_OK ||
        options_copy_in(&known, sizeof known, options, "sn_sharded_new") != ST_OK)
        return NULL;
    return sharded_new(comm, params, &known);
}

void sn_sharded_free(sn_sharded *s) {
    API_ENTER(sn_sharded_free);
    if (!s) return;
    tracer_outside(REASON_CALLED(sn_sharded_free));
    sharded_free(s);
}

static sn_tensor *sharded_part(sn_sharded *s, int i, const char *what) {
    sn_tensor *const t = s ? sharded_at(s, i) : NULL;
    if (!t) error_raise(ST_ARGUMENT, "%s: there is no parameter %d", what, i);
    return t;
}

sn_tensor *sn_sharded_at(sn_sharded *s, int i) { return sharded_part(s, i, "sn_sharded_at"); }

sn_tensor *sn_sharded_whole(sn_sharded *s, int i) {
    API_ENTER(sn_sharded_whole);
    return error_pending() == ST_OK && sharded_part(s, i, "sn_sharded_whole") ? sharded_whole(s, i) : NULL;
}

static Status check_sharded_call(const sn_sharded *s, sn_body body, sn_tensors in, sn_tensor *const *out, int n_out) {
    TRY(error_pending());
    TRY(state_untraced("sn_sharded_call"));
    TRY(state_outside_vmap("sn_sharded_call"));
    if (!s || !body) return error_raise(ST_ARGUMENT, "sn_sharded_call: %s is NULL", s ? "body" : "s");
    if (in.n < 0 || in.n > INT32_MAX || n_out < 0 || (in.n && !in.data) || (n_out && !out))
        return error_raise(
            ST_ARGUMENT, "sn_sharded_call: a list is NULL, or its length negative: it says %lld inputs and %d outputs",
            (long long)in.n, n_out);
    for (int64_t i = 0; i < in.n; i++)
        if (in.data[i]) TRY(tensor_valid(in.data[i], "sn_sharded_call"));
    return ST_OK;
}

sn_status sn_sharded_call(sn_sharded *s, sn_body body, void *closure, sn_tensors in, sn_tensor **out, int n_out) {
    API_ENTER(sn_sharded_call);
    for (int i = 0; out && i < n_out; i++) out[i] = NULL;
    const Status status = check_sharded_call(s, body, in, out, n_out);
    return (sn_status)(status == ST_OK ? sharded_call(s, body, closure, in, out, n_out) : status);
}
