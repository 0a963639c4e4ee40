/* check_cuda.c: every row on a CUDA device against the CPU: results and what is written, bit for bit [semantics B1,
 * B6], metadata with them; rows with native kernels in all dtypes and layouts. A row without a kernel there fails. Runs
 * where SINTER_CUDA_DRIVER and SINTER_CUDA_NVRTC name the emulated device, and on a GPU. */
#include <sinter/device.h>

#include "runtime/base/error.h"
#include "tests/ops/ops.h"

/* Laid out as it is here, with what lies around it in memory. */
static sn_tensor *moved(sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    int64_t strides[MAX_RANK];
    meta_contiguous_strides(NULL, meta->sizes, meta->rank, strides);
    if (!meta->rank || !memcmp(meta->strides, strides, 8 * (size_t)meta->rank)) return sn_to_device(t, SN_CUDA(0));
    const int64_t n = (int64_t)t->storage->bytes / dtype_bytes(meta->dtype);
    sn_tensor *const whole = sn_to_device(sn_as_strided(t, SN_INTS(n), SN_INTS(1), 0), SN_CUDA(0));
    return sn_as_strided(whole, (sn_ints){meta->sizes, meta->rank}, (sn_ints){meta->strides, meta->rank}, t->offset);
}

static bool make_there(const Case *c, const SampleCall *call, SampleCall *there) {
    sn_tensor *tensors[SAMPLE_TENSORS];
    for (int i = 0; i < call->n_tensors; i++) {
        tensors[i] = moved(call->tensors[i]);
        if (tensors[i]) continue;
        ops_fail(c, "input %d does not go to the device: %s", i, sn_error_take()->message);
        return false;
    }
    sample_with(call, tensors, there);
    if (c->row->device >= 0) there->args[c->row->device] = A_INT(DEV_cuda);
    return true;
}

static bool same_layout(const Meta *a, const Meta *b) {
    return a->dtype == b->dtype && meta_same_sizes(a, b) && !memcmp(a->strides, b->strides, 8 * (size_t)a->rank);
}

/* Layouts, then elements in order. */
static void compare(const Case *c, const char *what, int i, sn_tensor *here, sn_tensor *there) {
    Text wanted = {0}, got = {0};
    sn_tensor *const back = sn_device_of(there) == SN_CPU ? there : sn_to_device(there, SN_CPU);
    if (!back) {
        ops_fail(c, "%s %d does not come back: %s", what, i, sn_error_take()->message);
        return;
    }
    if (!same_layout(here->base.meta, there->base.meta)) {
        ops_show(&wanted, here);
        ops_show(&got, there);
        ops_fail(c, "%s %d: layouts: CPU %s, CUDA %s", what, i, text_str(&wanted), text_str(&got));
    }
    text_free(&wanted);
    text_free(&got);
    ops_show(&wanted, sn_contiguous(sn_reshape(here, SN_INTS(-1))));
    ops_show(&got, sn_contiguous(sn_reshape(back, SN_INTS(-1))));
    if (strcmp(text_str(&wanted), text_str(&got)))
        ops_fail(c, "%s %d\n  CPU  %.300s\n  CUDA %.300s", what, i, text_str(&wanted), text_str(&got));
    text_free(&wanted);
    text_free(&got);
}

/* Only written ones can differ; a copy there may be laid out anew. */
static void compare_input(const Case *c, int i, sn_tensor *here, sn_tensor *there) {
    if (!same_layout(here->base.meta, there->base.meta)) here = sn_contiguous(here), there = sn_contiguous(there);
    compare(c, "input", i, here, there);
}

void check_cuda(const Case *c) {
    SampleCall call, there;
    sn_tensor *outs[MAX_LIST], *outs_there[MAX_LIST];
    int n, n_there;
    if (!ops_run(c, &call, outs, &n) || !make_there(c, &call, &there)) return;
    sn_seed(3);
    if (sample_run(&there, outs_there, &n_there) != ST_OK) {
        ops_fail(c, "on CUDA: %s", sn_error_take()->message);
        return;
    }
    for (int i = 0; i < n && !(c->row->flags & OPF_unset); i++)
        if (ops_wanted(&call, i)) compare(c, "result", i, outs[i], outs_there[i]);
    for (int i = 0; i < call.n_tensors; i++) compare_input(c, i, call.tensors[i], there.tensors[i]);
}
