/* data_parallel.h: gradients averaged over ranks, bucket by bucket, by post-accumulate hooks. */
#ifndef SINTER_RUNTIME_DATA_PARALLEL_H
#define SINTER_RUNTIME_DATA_PARALLEL_H
#include "runtime/transform/ranks.h"

/* NULL raised; what is wrong with options is the caller's to check. */
sn_data_parallel *data_parallel_new(sn_comm *rank, sn_tensors params, const sn_data_parallel_options *options);
void data_parallel_free(sn_data_parallel *dp);
void data_parallel_sync(sn_data_parallel *dp, bool on);
Status data_parallel_finish(sn_data_parallel *dp);
int data_parallel_bucket(const sn_data_parallel *dp, int i); /* -1: there is none */

#endif
