/* scale: a plug-in with one op, my::scale(x, by), for the CPU and for CUDA devices, differentiable and with a meta
 * rule, so compiled functions have it as a node. Its kernel there is scale.cu, whose text is compiled when it is first
 * asked for. `make` builds it against an installed Sinter. */
#include <sinter/sinter.h>

extern const char scale_cu[]; /* the text of scale.cu */
static sn_kernel *kernel;

static sn_status scale_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_contiguous(sn_in(f, 0)))); }

static sn_status scale_cpu(sn_frame *f) {
    SN_REQUIRE(sn_dtype_of(sn_in(f, 0)) == SN_F32, SN_ERR_DTYPE, "x must be f32");
    sn_tensor *x = sn_contiguous(sn_in(f, 0)), *y = sn_empty_like(x);
    const float *from = sn_data(x, SN_F32), by = (float)sn_in_float(f, 1);
    float *to = sn_data_mut(y, SN_F32);
    if (!from || !to) return sn_check();
    for (int64_t i = 0; i < sn_numel(x); i++) to[i] = by * from[i];
    return sn_out(f, 0, y);
}

static sn_status scale_cuda(sn_frame *f) {
    SN_REQUIRE(sn_dtype_of(sn_in(f, 0)) == SN_F32, SN_ERR_DTYPE, "x must be f32");
    if (!kernel && !(kernel = sn_cuda_kernel(scale_cu, "scale"))) return sn_check();
    sn_tensor *x = sn_contiguous(sn_in(f, 0)), *y = sn_empty_like(x);
    int64_t n = sn_numel(x);
    sn_value in[] = {sn_val(x), sn_val(y), sn_int(n), sn_in_value(f, 1)};
    sn_cuda_launch(f, kernel, SN_CUDA_GRID(.blocks = {(uint32_t)((n + 255) / 256)}, .threads = {256}), in, 4);
    return sn_out(f, 0, y);
}

static sn_status scale_derivative(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_in_value(f, 1)));
}

SN_PLUGIN {
    sn_op_register(SN_OP_DESC(.schema = "my::scale(Tensor x, float by=2.0) -> Tensor", .flags = SN_OP_PURE,
                              .meta = scale_meta, .cpu = scale_cpu, .cuda = scale_cuda,
                              .derivative = scale_derivative));
    return sn_check();
}
