/* clip.c: sn_clip_grad_norm (sinter/nn.h), made of ordinary ops with gradients off. */
#include <sinter/autograd.h>
#include <sinter/device.h>
#include <sinter/ops.h>

#include "frontend/api/enter.h"
#include "frontend/api/dict.h"
#include "runtime/base/alloc.h"
#include "runtime/core/autocast.h"

typedef struct Grads {
    sn_tensor **grad, **norm;
    int n;
} Grads;

/* A tensor that is set under two names has one gradient. The norms lie on the first gradient's device. */
static Status collect_grads(const sn_dict *d, Grads *all) {
    Map seen = {0};
    bool first;
    for (int i = 0; i < d->n && dict_see(&seen, d->entries[i].tensor, &first) == ST_OK; i++) {
        sn_tensor *const g = first ? sn_grad(d->entries[i].tensor) : NULL;
        if (!g) continue;
        all->grad[all->n] = g;
        all->norm[all->n] = sn_linalg_vector_norm(g, sn_float(2), (sn_ints){NULL, 0}, false);
        if (all->n) all->norm[all->n] = sn_to_device(all->norm[all->n], sn_device_of(all->grad[0]));
        all->n++;
    }
    map_free(&seen);
    return error_pending();
}

static sn_tensor *clip(const Grads *all, double max_norm) {
    if (all->n == 0) return sn_zeros((sn_ints){(const int64_t[]){0}, 0}, SN_F32);
    sn_tensor *const total =
        sn_linalg_vector_norm(sn_stack((sn_tensors){all->norm, all->n}, 0), sn_float(2), (sn_ints){NULL, 0}, false);
    /* PyTorch divides a number by a tensor so. */
    sn_tensor *const scale = sn_mul_scalar(sn_reciprocal(sn_add_scalar(total, sn_float(1e-6))), sn_float(max_norm));
    sn_tensor *const factor = sn_clamp_max(scale, sn_float(1));
    for (int i = 0; i < all->n; i++)
        sn_mul_(all->grad[i], i ? sn_to_device(factor, sn_device_of(all->grad[i])) : factor);
    return total;
}

sn_tensor *sn_clip_grad_norm(sn_dict *d, double max_norm) {
    API_ENTER(sn_clip_grad_norm);
    if (error_pending() != ST_OK) return NULL;
    if (!d || !(max_norm >= 0)) {
        if (d)
            error_raise(ST_ARGUMENT, "sn_clip_grad_norm: max_norm %g: it must be at least 0", max_norm);
        else
            error_raise(ST_ARGUMENT, "sn_clip_grad_norm: the dictionary is NULL");
        return NULL;
    }
    Grads all = {mem_zero((size_t)d->n * sizeof(sn_tensor *) + 1), mem_zero((size_t)d->n * sizeof(sn_tensor *) + 1), 0};
    const sn_scope scope = scope_begin_library();
    sn_tensor *total = NULL;
    if (all.grad && all.norm && collect_grads(d, &all) == ST_OK) total = clip(&all, max_norm);
    mem_free(all.grad);
    mem_free(all.norm);
    return sn_scope_return(scope, total);
}
