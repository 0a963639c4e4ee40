/* kernel: an op of one's own whose kernel on a GPU is CUDA C in this file, compiled when the program runs. Calls it in
 * a compiled function, with its gradient, on the first GPU, or on the CPU where there is none, and prints a digest of
 * the results: the same one on both, for every operation in it rounds alike. */
#include <sinter/sinter.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"
#include "work.h"

enum { ROWS = 40, COLUMNS = 25, CALLS = 3, THREADS = 128 };

/* my::hinge(Tensor x, float slope) -> Tensor: x where it is above its row's first element, else slope x. */
static const char *const hinge_source =
    "extern \"C\" __global__ void hinge(const float *x, float *y, long long rows, long long columns, float slope) {\n"
    "    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i >= rows * columns) return;\n"
    "    const float first = x[i / columns * columns];\n"
    "    y[i] = x[i] > first ? x[i] : slope * x[i];\n"
    "}\n";
static sn_kernel *hinge_kernel;

static sn_status hinge_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_contiguous(sn_in(f, 0)))); }

static sn_status hinge_cuda(sn_frame *f) {
    sn_tensor *x = sn_contiguous(sn_in(f, 0)), *y = sn_empty_like(x);
    int64_t rows = sn_size(x, 0), columns = sn_size(x, 1);
    sn_value in[] = {sn_val(x), sn_val(y), sn_int(rows), sn_int(columns), sn_in_value(f, 1)};
    uint32_t blocks = (uint32_t)((rows * columns + THREADS - 1) / THREADS);
    sn_cuda_launch(f, hinge_kernel, SN_CUDA_GRID(.blocks = {blocks}, .threads = {THREADS}), in, 5);
    return sn_out(f, 0, y);
}

static sn_status hinge_cpu(sn_frame *f) {
    sn_tensor *x = sn_contiguous(sn_in(f, 0)), *y = sn_empty_like(x);
    const float *from = sn_data(x, SN_F32), slope = (float)sn_in_float(f, 1);
    float *to = sn_data_mut(y, SN_F32);
    if (!from || !to) return sn_check();
    int64_t n = sn_numel(x), columns = sn_size(x, 1);
    for (int64_t i = 0; i < n; i++) to[i] = from[i] > from[i / columns * columns] ? from[i] : slope * from[i];
    return sn_out(f, 0, y);
}

static sn_status hinge_derivative(sn_frame *f) {
    sn_tensor *g = sn_grad_of(f, 0), *x = sn_in(f, 0);
    sn_tensor *above = sn_gt(x, sn_narrow(x, 1, 0, 1));
    return sn_set_grad_of(f, 0, sn_where(above, g, sn_mul_scalar(g, sn_in_value(f, 1))));
}

static const sn_op *hinge_op;

static sn_status loss(sn_frame *f) {
    sn_value in[] = {sn_val(sn_add(sn_in(f, 0), sn_in(f, 0))), sn_float(0.25)};
    sn_tensor *y = sn_op_call1(hinge_op, in, 2);
    return sn_out(f, 0, sn_sum(sn_mul(y, y)));
}

static sn_device chosen_device(void) { return sn_device_count(SN_KEY_CUDA) ? SN_CUDA(0) : SN_CPU; }

void sample_work(SampleWork *work) {
    sn_device device = chosen_device();
    hinge_op = sn_op_register(SN_OP_DESC(.schema = "my::hinge(Tensor x, float slope) -> Tensor", .flags = SN_OP_PURE,
                                         .meta = hinge_meta, .cpu = hinge_cpu, .cuda = hinge_cuda,
                                         .derivative = hinge_derivative, .saves = "x"));
    if (device != SN_CPU) hinge_kernel = sn_cuda_kernel(hinge_source, "hinge");
    sn_seed(1);
    sn_tensor *x = sn_to_device(sn_randn(SN_INTS(ROWS, COLUMNS), SN_F32), device);
    *work =
        (SampleWork){.kind = SAMPLE_BACKWARD, .body = loss, .in = {sn_requires_grad_(x, true)}, .n_in = 1, .n_out = 1};
}

int main(void) {
    SampleWork work;
    float results[1 + ROWS * COLUMNS] = {0};
    sample_work(&work);
    sn_tensor *x = work.in[0];
    sn_function *fn = sn_compile(work.body, NULL, SN_COMPILE_OPTIONS(.name = "loss"));
    for (int i = 0; i < CALLS && !sn_check(); i++) {
        sn_tensor *y = SN_CALL(fn, x);
        sn_grad_set(x, NULL);
        sn_backward(y);
        sn_read(y, results, sizeof *results);
        sn_read(sn_grad(x), results + 1, sizeof results - sizeof *results);
    }
    if (!sn_device_count(SN_KEY_CUDA)) puts("there is no GPU: the op's CPU kernel ran");
    printf("%s: digest %016" PRIx64 "\n", sn_device_name(chosen_device()), sample_digest(results, sizeof results));
    puts(sn_explain(fn));
    sn_function_free(fn);
    sn_kernel_free(hinge_kernel);
    return sn_finish();
}
