/* ranks.h: threads of one process that work on shares of the same data, and where they meet [semantics T10]. Between
 * meetings a rank is an ordinary thread with a state of its own. */
#ifndef SINTER_RUNTIME_RANKS_H
#define SINTER_RUNTIME_RANKS_H
#include <sinter/parallel.h>

#include "runtime/core/dispatch.h"

/* What a rank brings to a meeting. */
typedef struct RankOffer {
    const char *what; /* for errors, and the same on all ranks: "sn_all_reduce" */
    sn_tensor *const *tensors;
    int n;
    bool mean;
} RankOffer;
typedef struct RankMeeting {
    int rank, n_ranks;
    const RankOffer *const *offers; /* by rank; none changes until all ranks have left */
    sn_tensor **outs;               /* this rank's */
} RankMeeting;

/* As sn_ranks_run. */
Status ranks_run(int n, sn_rank_body body, void *closure, int64_t timeout_ms);
int rank_index(const sn_comm *rank);
int rank_count(const sn_comm *rank);
/* What refers to a rank retains it; its meetings end with its body. */
void rank_retain(sn_comm *rank);
void rank_release(sn_comm *rank);
/* Waits until all ranks have come, calls `use`, which may read all offers and calls no user code, and waits until all
 * are done with that. An error on all ranks where one cannot come any more. */
Status rank_meet(sn_comm *rank, const RankOffer *offer, sn_tensor **outs, Status (*use)(const RankMeeting *meeting));

#endif
