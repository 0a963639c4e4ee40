/* amp.h: mixed precision: ops in bf16 or f16 where that is worth it, in f32 where it has to be.

       sn_scope region = sn_scope_begin();
       sn_autocast_set(SN_CPU, SN_BF16);
       y = sn_linear(x, w, b);                bf16: a product casts its tensors
       loss = sn_cross_entropy(y, target);    f32: so does a loss, the other way
       sn_scope_end(region);
       sn_backward(loss);                     w's gradient is f32, as w

   What an op does is one table for all devices, PyTorch's generic list (`sinter ops --autocast`): products, linear,
   convolutions and attention to the region's dtype; exp, log, pow, norms, losses, softmax and sums to f32; a few to the
   widest dtype among their tensors; all others take what they get. f64 and ints stay. In-place and out forms cast
   nothing. Casts are ops: gradients go through them, compiled functions record and fuse them, and a call in another
   region is another path through the function. Products of bf16 and f16 are summed in f32. */
#ifndef SINTER_AMP_H
#define SINTER_AMP_H
#include <sinter/tensor.h>
SN_BEGIN
/* From here to the end of the scope, this thread's ops on devices of this kind (all CUDA devices are one) are cast to
   SN_BF16 or SN_F16; SN_F32: not at all. The dtype before; one that is none of the three is an error. Compiled
   functions follow the mode of their call, and a body may set it for a part of itself. A backward's rules never cast;
   hooks have the mode of the backward, a custom function's backward that of its forward. [event] */
sn_dtype sn_autocast_set(sn_device device, sn_dtype dtype);
/* SN_F32: off. [neutral] */
sn_dtype sn_autocast_get(sn_device device);
/* Of this thread's eager ops. A region casts each f32 leaf that requires gradients once, keeps the cast until the
   outermost region ends, and casts again what was written since; uses share the value, while each has its gradient cast
   back by itself, so that they add up in f32. */
typedef struct sn_autocast_stats {
    size_t size;
    int64_t casts, shared;    /* computed; uses of one that was kept */
    int64_t kept, kept_bytes; /* now */
} sn_autocast_stats;
/* [neutral] */
sn_status sn_autocast_stats_get(sn_autocast_stats *out);
SN_END
#endif
