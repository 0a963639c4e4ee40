/* nn.h: named tensors, parameters, optimizers. */
#ifndef SINTER_NN_H
#define SINTER_NN_H
#include <sinter/tensor.h>
SN_BEGIN
/* Ordered; holds a reference to each tensor. */
typedef struct sn_dict sn_dict;
typedef struct sn_optim sn_optim;
/* NULL where memory is out. [neutral] */
sn_dict *sn_dict_new(void);
/* NULL: nothing. [neutral] */
void sn_dict_free(sn_dict *d);
/* safetensors files: written next to path, then renamed; read strictly: an error for anything the format does not
   allow. Saved row-major, whatever the strides. [flush] */
sn_dict *sn_dict_load(const char *path);
sn_status sn_dict_save(sn_dict *d, const char *path);
int sn_dict_count(sn_dict *d); /* [neutral] */
/* Of entry i from 0, else an error and "": lives until the entry is freed. [neutral] */
const char *sn_dict_name(sn_dict *d, int i);
/* Of entry i from 0, borrowed, else an error. [neutral] */
sn_tensor *sn_dict_at(sn_dict *d, int i);
/* Borrowed; missing: an error with near names. [neutral] */
sn_tensor *sn_dict_get(sn_dict *d, const char *name);
/* At the end, or in place of the old one; t is retained. [event] */
sn_status sn_dict_set(sn_dict *d, const char *name, sn_tensor *t);
/* Values in place, by name, cast; all names of `to` must be there, sizes must match. [op] */
sn_status sn_dict_copy(sn_dict *to, sn_dict *from);
/* A leaf that requires gradients, set in d and borrowed: init itself if it is a leaf of its own, else init detached.
   [event] */
sn_tensor *sn_param(sn_dict *d, const char *name, sn_tensor *init);
/* "name.weight" [out, in] and "name.bias" [out] (bias NULL: none), f32, uniform in +-1/sqrt(in): PyTorch's default.
 * [op] */
sn_status sn_param_linear(sn_dict *d, const char *name, int64_t in, int64_t out, sn_tensor **weight, sn_tensor **bias);
/* "name.weight" [rows, width], f32, normal of mean 0 and deviation 1: PyTorch's default. For sn_embedding. NULL on
   error. [op] */
sn_tensor *sn_param_embedding(sn_dict *d, const char *name, int64_t rows, int64_t width);
/* "name.weight" [width], ones, and "name.bias" [width], zeros (bias NULL: none), f32. For sn_layer_norm. [op] */
sn_status sn_param_layer_norm(sn_dict *d, const char *name, int64_t width, sn_tensor **weight, sn_tensor **bias);
/* Multi-head self-attention by its parameters, as torch.nn.MultiheadAttention names and fills them. */
typedef struct sn_attention {
    size_t size;
    int64_t heads;
    sn_tensor *in_weight, *in_bias;   /* [3 width, width]: query, key, value; [3 width] or NULL */
    sn_tensor *out_weight, *out_bias; /* [width, width]; [width] or NULL */
} sn_attention;
/* "name.in_proj_weight", "name.in_proj_bias", "name.out_proj.weight", "name.out_proj.bias", f32, borrowed into *out;
   width must be a multiple of heads. [op] */
sn_status sn_param_attention(sn_dict *d, const char *name, int64_t width, int64_t heads, bool bias, sn_attention *out);
/* x [batch, time, width] gives the same sizes: linear, scaled_dot_product_attention over the heads, linear. causal: a
   position sees itself and those before it. NULL on error. [op] */
sn_tensor *sn_self_attention(const sn_attention *a, sn_tensor *x, bool causal);

/* Optimizers hold those tensors of d that require gradients when they are made, each once. Formulas of torch.optim:
   SGD with momentum (0: none), Adam (weight decay is added to the gradient) and AdamW (it shrinks the parameter) with
   betas 0.9 and 0.999, eps 1e-8. Parameters without a gradient are left alone; the step count is one for all, where
   torch.optim has one for each: a parameter whose first gradient comes late is corrected by the steps of the others,
   too. [event] */
sn_optim *sn_sgd(sn_dict *d, double lr, double momentum);
sn_optim *sn_adam(sn_dict *d, double lr, double weight_decay);
sn_optim *sn_adamw(sn_dict *d, double lr, double weight_decay);
void sn_optim_free(sn_optim *o);
/* Removes the gradients. [event] */
sn_status sn_optim_zero_grad(sn_optim *o);
/* In place, as ordinary ops with gradients off. [op] */
sn_status sn_optim_step(sn_optim *o);
/* As torch.nn.utils.clip_grad_norm_: the norm of all gradients of d's tensors together, 0-dim, and each of them times
   max_norm / (norm + 1e-6) where that is below 1, in place; nothing is read on the host. Tensors without a gradient are
   left out, one under two names counts once; where none has a gradient the norm is 0. A norm that is no number spoils
   all gradients. [op] */
sn_tensor *sn_clip_grad_norm(sn_dict *d, double max_norm);
/* Borrowed, 0-dim f64: sn_fill_ it. [neutral] */
sn_tensor *sn_optim_lr(sn_optim *o);
/* Borrowed: "lr", "step", "exp_avg.NAME"...; save it, sn_dict_copy into it. [neutral] */
sn_dict *sn_optim_dict(sn_optim *o);
SN_END
#endif
