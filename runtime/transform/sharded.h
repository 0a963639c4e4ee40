/* sharded.h: parameters of a block of which each rank keeps a part. */
#ifndef SINTER_RUNTIME_SHARDED_H
#define SINTER_RUNTIME_SHARDED_H
#include "runtime/transform/ranks.h"

sn_sharded *sharded_new(sn_comm *rank, sn_tensors params, const sn_sharded_options *options); /* NULL raised */
void sharded_free(sn_sharded *s);
sn_tensor *sharded_at(sn_sharded *s, int i);    /* NULL: there is none */
sn_tensor *sharded_whole(sn_sharded *s, int i); /* NULL raised */
Status sharded_call(sn_sharded *s, sn_body body, void *closure, sn_tensors in, sn_tensor **out, int n_out);

#endif
