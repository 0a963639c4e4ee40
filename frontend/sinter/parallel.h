/* parallel.h: ranks: threads of this process that work on shares of the same data, each with a state of its own, and
   what they do together. An all-reduce adds in rank order: its bits are those of one process that accumulates the
   ranks' shares in that order and divides.

       sn_status step(sn_comm *comm, void *closure) {          on every rank
           sn_tensor *w = ...the same on all...
           sn_data_parallel *dp = sn_data_parallel_new(comm, SN_TENSORS(w), NULL);
           sn_backward(loss of this rank's share);             sn_grad(w) is the mean over the ranks
           sn_data_parallel_free(dp);
           return sn_check();
       }
       sn_ranks_run(2, step, &data, NULL);

   All ranks call the same collectives in the same order, with tensors of the same sizes, dtype and device; where they
   do not, all get the same error. A rank that fails, or whose body ends while others wait for it, gives these an
   error, never a hang. In a compiled body a collective ends the segment (sn_explain names it) and runs by itself. */
#ifndef SINTER_PARALLEL_H
#define SINTER_PARALLEL_H
#include <sinter/autograd.h>
SN_BEGIN
/* A rank's place among the others. */
typedef struct sn_comm sn_comm;
/* Runs on a thread of its own, whose generator begins as any thread's: with the same seed on all ranks. Results that
   are to outlive it are kept (sn_keep). */
typedef sn_status (*sn_rank_body)(sn_comm *comm, void *closure);
typedef struct sn_ranks_options {
    size_t size;
    /* How long a rank waits for others, in milliseconds; 0: as long as they run. Then all get an error. */
    int64_t timeout_ms;
} sn_ranks_options;
#define SN_RANKS_OPTIONS(...) SN_STRUCT(sn_ranks_options, __VA_ARGS__)
/* Runs body on `ranks` threads, 1 to 256, with the same closure, and waits for all. The error is that of the rank that
   failed by itself, "rank 1: ...". [refused] */
sn_status sn_ranks_run(int ranks, sn_rank_body body, void *closure, const sn_ranks_options *options);
/* Which rank this is, from 0; how many there are. The functions that follow are for the rank's own thread while its
   body runs. [neutral] */
int sn_comm_rank(const sn_comm *comm);
int sn_comm_size(const sn_comm *comm);

/* Collectives, of dense tensors. Results are row-major tensors of the innermost scope, never the arguments; gradients
   go through. NULL on error. */
typedef enum sn_reduction { SN_REDUCE_SUM, SN_REDUCE_MEAN } sn_reduction;
/* The sum over ranks, ((t0 + t1) + t2)... in t's dtype, or that divided by their number. [op] */
sn_tensor *sn_all_reduce(sn_comm *comm, sn_tensor *t, sn_reduction how);
/* All ranks' t one behind the other along dim 0, in rank order. [op] */
sn_tensor *sn_all_gather(sn_comm *comm, sn_tensor *t);
/* This rank's part of the rows (dim 0) of the sum or mean: rows are a multiple of the number of ranks. [op] */
sn_tensor *sn_reduce_scatter(sn_comm *comm, sn_tensor *t, sn_reduction how);

/* Averaging of gradients. */
typedef struct sn_data_parallel sn_data_parallel;
typedef struct sn_data_parallel_options {
    size_t size;
    /* Parameters go into buckets from the last to the first, a new one where it would be larger; 0: 25 MiB. */
    int64_t bucket_bytes;
    /* Gradients are added up, not averaged. */
    bool sum;
    /* Told of each bucket, in order, when its gradients are there; may be NULL. */
    void (*reduced)(void *context, int bucket);
    void *context;
} sn_data_parallel_options;
#define SN_DATA_PARALLEL_OPTIONS(...) SN_STRUCT(sn_data_parallel_options, __VA_ARGS__)
/* From now on each backward ends with the means over the ranks in .grad of params, leaves that require gradients and
   are retained: by post-accumulate hooks, a bucket when all of its gradients and all buckets before it are done. params
   begin with the same values on all ranks. The means have no history (SN_CREATE_GRAPH). [event] */
sn_data_parallel *sn_data_parallel_new(sn_comm *comm, sn_tensors params, const sn_data_parallel_options *options);
/* Takes the hooks off. NULL: nothing. [event] */
void sn_data_parallel_free(sn_data_parallel *dp);
/* Off: backwards only add to this rank's .grad; the first one with it on again reduces the sums. [event] */
sn_status sn_data_parallel_sync(sn_data_parallel *dp, bool on);
/* After a backward that may not have reached all params: reduces the buckets that it left, where a param without
   .grad counts as zeros. On all ranks or none. [event] */
sn_status sn_data_parallel_finish(sn_data_parallel *dp);
/* Of parameter i, from 0; -1 on error. [neutral] */
int sn_data_parallel_bucket(const sn_data_parallel *dp, int i);

/* Parameters of a block, of which each rank keeps a part. */
typedef struct sn_sharded sn_sharded;
typedef enum sn_shard_move {
    SN_UNSHARD_FORWARD,
    SN_RESHARD_FORWARD,
    SN_UNSHARD_BACKWARD,
    SN_RESHARD_BACKWARD
} sn_shard_move;
typedef struct sn_sharded_options {
    size_t size;
    /* Told when the whole parameters have come (UNSHARD), and before they go (RESHARD); may be NULL. */
    void (*moved)(void *context, sn_shard_move move);
    void *context;
} sn_sharded_options;
#define SN_SHARDED_OPTIONS(...) SN_STRUCT(sn_sharded_options, __VA_ARGS__)
/* Takes this rank's part of each of params, floats that are the same on all ranks and can go afterwards. [event] */
sn_sharded *sn_sharded_new(sn_comm *comm, sn_tensors params, const sn_sharded_options *options);
/* What the tape still needs lives on. NULL: nothing. [event] */
void sn_sharded_free(sn_sharded *s);
/* The part of parameter i: a leaf [ceil(elements / ranks)], row-major, zeros behind the last element; for an optimizer.
   Borrowed; NULL on error. [neutral] */
sn_tensor *sn_sharded_at(sn_sharded *s, int i);
/* Parameter i as a whole, gathered for the caller. On all ranks. NULL on error. [op] */
sn_tensor *sn_sharded_whole(sn_sharded *s, int i);
/* Calls body with the inputs `in` and then the whole parameters, which are gathered before it and let go of after it.
   What ops save of them is not kept: the backward gathers them again when it comes to the block, lets go of them when
   it has passed it, and gives each part the mean over the ranks of its gradient. The parts are not written in between:
   SN_ERR_STATE. The body writes no parameter; in it compiled functions run eagerly. There are no gradients of gradients
   (SN_CREATE_GRAPH: SN_ERR_UNSUPPORTED). out has room n_out, all NULL on error. [op] */
sn_status sn_sharded_call(sn_sharded *s, sn_body body, void *closure, sn_tensors in, sn_tensor **out, int n_out);
SN_END
#endif
