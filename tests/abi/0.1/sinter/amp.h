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
#include <sinter/nn.h>
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

/* A scaler keeps small gradients of f16 from vanishing: the loss is multiplied by a large number and the gradients of
   the parameters are divided by it; a step whose gradients hold an infinity or a NaN does not happen, and the number
   shrinks; after so many good steps it grows. As torch.amp.GradScaler:

       sn_backward(sn_scaler_scale(scaler, loss));
       sn_scaler_unscale(scaler, optim);            only where the gradients are looked at before the step
       sn_clip_grad_norm(params, 1);
       sn_scaler_step(scaler, optim);
       sn_scaler_update(scaler);                    once, behind all optimizers' steps

   Nothing is read on the host: whether a step happens is a value, by which parameters, moments and the step count are
   selected. So all of it is one graph in a compiled function; and versions advance by steps that do not happen, too. */
typedef struct sn_scaler sn_scaler;
typedef struct sn_scaler_options { /* 0: PyTorch's, 65536, 2, 0.5 and 2000 */
    size_t size;
    double init_scale, growth_factor, backoff_factor; /* above 0, above 1, below 1 */
    int64_t growth_interval;
    /* For a switch in the program: a loss stays as it is, steps are the optimizer's own, the rest does nothing. */
    bool disabled;
} sn_scaler_options;
#define SN_SCALER_OPTIONS(...) SN_STRUCT(sn_scaler_options, __VA_ARGS__)
/* options NULL: defaults. Its tensors lie on the thread's default device. [event] */
sn_scaler *sn_scaler_new(const sn_scaler_options *options);
void sn_scaler_free(sn_scaler *s);
/* loss * scale; of a disabled scaler the loss itself. [op] */
sn_tensor *sn_scaler_scale(sn_scaler *s, sn_tensor *loss);
/* The optimizer's gradients, in place, by 1 / scale, and whether any of them holds an infinity or a NaN. Once
   between updates, before the step; where no parameter had a gradient, once more when some have. Gradients of f16 are
   an error: f32 parameters with autocast have f32 ones. [op] */
sn_status sn_scaler_unscale(sn_scaler *s, sn_optim *optim);
/* Unscales what is not yet, and steps; nothing but versions changes where an infinity was found. Once between updates.
   [op] */
sn_status sn_scaler_step(sn_scaler *s, sn_optim *optim);
/* The scale for the next round: times backoff_factor where any optimizer's gradients held an infinity, times
   growth_factor after growth_interval rounds without. [op] */
sn_status sn_scaler_update(sn_scaler *s);
/* What the last unscale of this round found: 0-dim bool, borrowed, to select by in a formula of one's own (its
   parameters in an optimizer that only unscales); a branch on it breaks a graph. NULL, without an error, of a disabled
   scaler, which looks at no gradient. [event] */
sn_tensor *sn_scaler_found_inf(sn_scaler *s, sn_optim *optim);
/* Borrowed: "scale" f32, "growth_tracker" i64, 0-dim; save it, sn_dict_copy into it. [neutral] */
sn_dict *sn_scaler_dict(sn_scaler *s);
SN_END
#endif
