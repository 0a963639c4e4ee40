/* test_cuda_planes.c: convolutions, pools and bags on a CUDA device by kernels written by hand: results and gradients
 * have the CPU's bits where the samples of test_ops are too small to show it: tiles, groups, phases, chunks, what is
 * not finite, other dtypes and layouts. NVRTC compiles each text for both architectures without warnings and spills. */
#include <stdio.h>

#include "ir/dtype.h"
#include "kernels/cuda/prelude.h"
#include "runtime/base/text.h"
#include "runtime/cuda/nvrtc.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0) };

static void expect_ok(void) { ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message); }
static sn_tensor *there(sn_tensor *x) { return x ? sn_to_device(x, GPU) : NULL; }
static sn_tensor *here(sn_tensor *x) { return sn_to_device(x, SN_CPU); }
static sn_tensor *numbers(sn_ints sizes, sn_dtype dtype) { return sn_to(sn_randn(sizes, SN_F32), dtype); }

static void expect_same(const char *name, const char *what, sn_tensor *gpu, sn_tensor *cpu) {
    sn_tensor *const back = gpu ? here(gpu) : NULL;
    expect_ok();
    ck_assert_msg(same_bits(sn_contiguous(back), sn_contiguous(cpu)), "%s: %s differs", name, what);
}

/* convolutions ---------------------------------------------------------------------------------- */

typedef enum Layout { PLAIN, LAST, SLICED, EXPANDED } Layout;

typedef struct ConvCase {
    const char *name;
    int rank; /* of input and weight */
    int64_t x[5], w[5];
    int64_t stride[3], padding[3], dilation[3], more[3]; /* more: output_padding */
    int64_t groups;                                      /* 0: 1 */
    bool transposed;
    sn_dtype dtype;
    Layout layout;
    bool odd; /* inf and NaN among weights and gradients */
} ConvCase;

#define ALL(n)                                                                                                         \
    { n, n, n }
#define SINGLE .dtype = SN_F32
static const ConvCase convolutions[] = {
    {"tiles", 4, {2, 20, 9, 8}, {70, 20, 3, 3}, ALL(1), ALL(1), ALL(1), SINGLE},
    {"strides, dilation", 4, {2, 18, 11, 10}, {17, 18, 3, 2}, {2, 1}, {1, 2}, {2, 3}, SINGLE},
    {"groups", 4, {2, 32, 6, 7}, {40, 16, 3, 3}, ALL(1), ALL(0), ALL(1), .groups = 2, SINGLE},
    {"depthwise", 4, {2, 6, 9, 9}, {12, 1, 3, 3}, ALL(2), ALL(1), ALL(1), .groups = 6, SINGLE},
    {"more than a chunk", 4, {1, 470, 5, 4}, {16, 470, 3, 3}, ALL(1), ALL(1), ALL(1), SINGLE},
    {"chunks of positions", 4, {3, 2, 50, 40}, {3, 2, 3, 3}, ALL(1), ALL(1), ALL(1), SINGLE},
    {"chunks of tiles", 4, {2, 3, 60, 50}, {18, 3, 3, 3}, ALL(1), ALL(1), ALL(1), SINGLE},
    {"1-D", 3, {3, 4, 40}, {20, 4, 5}, {3}, {2}, {1}, SINGLE},
    {"3-D", 5, {1, 3, 4, 5, 4}, {18, 3, 2, 3, 2}, {1, 2, 1}, {1, 1, 0}, {1, 1, 2}, SINGLE},
    {"transposed", 4, {2, 18, 5, 6}, {18, 20, 3, 3}, ALL(2), ALL(1), ALL(1), {1, 1}, .transposed = true, SINGLE},
    {"transposed, dilation", 4, {1, 17, 5, 4}, {17, 18, 3, 3}, {3, 4}, {1, 2}, {2, 2}, {1}, .transposed = true, SINGLE},
    {"transposed, chunks", 4, {1, 1100, 3, 2}, {1100, 16, 2, 2}, {1, 2}, ALL(0), ALL(1), .transposed = true, SINGLE},
    {"transposed, depthwise",
     4,
     {2, 4, 5, 5},
     {4, 1, 4, 4},
     ALL(2),
     ALL(1),
     ALL(1),
     .groups = 4,
     .transposed = true,
     SINGLE},
    {"padding alone", 4, {1, 16, 1, 1}, {16, 16, 2, 2}, ALL(2), ALL(3), ALL(1), SINGLE},
    {"not finite", 4, {2, 16, 5, 5}, {18, 16, 3, 3}, ALL(1), ALL(1), ALL(1), .odd = true, SINGLE},
    {"not finite, few", 4, {2, 3, 5, 5}, {2, 3, 3, 3}, ALL(1), ALL(1), ALL(1), .odd = true, SINGLE},
    {"f16", 4, {2, 17, 6, 6}, {16, 17, 3, 3}, ALL(1), ALL(1), ALL(1), .dtype = SN_F16},
    {"bf16", 4, {2, 16, 6, 6}, {16, 16, 3, 3}, ALL(2), ALL(1), ALL(1), .dtype = SN_BF16},
    {"f64", 4, {2, 17, 6, 6}, {18, 17, 3, 3}, ALL(1), ALL(1), ALL(1), .dtype = SN_F64},
    {"channels last", 4, {2, 17, 6, 6}, {16, 17, 3, 3}, ALL(1), ALL(1), ALL(1), .layout = LAST, SINGLE},
    {"sliced", 4, {2, 17, 6, 6}, {16, 17, 3, 3}, ALL(1), ALL(1), ALL(1), .layout = SLICED, SINGLE},
    {"expanded", 4, {2, 17, 6, 6}, {16, 17, 3, 3}, ALL(1), ALL(1), ALL(1), .layout = EXPANDED, SINGLE},
    {"no images", 4, {0, 17, 6, 6}, {16, 17, 3, 3}, ALL(1), ALL(1), ALL(1), SINGLE},
    {"one by one", 4, {2, 33, 7, 5}, {66, 33, 1, 1}, ALL(1), ALL(0), ALL(1), SINGLE},
};

static sn_ints three(const int64_t *of, int rank) { return (sn_ints){of, rank - 2}; }

static sn_tensor *laid_out(const ConvCase *c, sn_tensor *x) {
    if (c->layout == LAST) return sn_contiguous_ex(x, sn_int(SN_CHANNELS_LAST));
    if (c->layout == SLICED) return sn_slice(sn_cat(SN_TENSORS(x, x), 3), 3, 1, 2 * c->x[3], 2);
    if (c->layout == EXPANDED) return sn_expand(sn_slice(x, 1, 0, 1, 1), (sn_ints){c->x, c->rank});
    return x;
}

/* One element inf, another NaN. */
static sn_tensor *odd(sn_tensor *x) {
    float values[4096];
    const int64_t n = sn_numel(x);
    memcpy(values, sn_data(x, SN_F32), (size_t)n * sizeof *values);
    values[n / 3] = 1 / 0.0f, values[n / 2] = 0 / 0.0f;
    int64_t sizes[5];
    for (int d = 0; d < sn_rank(x); d++) sizes[d] = sn_size(x, d);
    return sn_from_data(values, (sn_ints){sizes, sn_rank(x)}, SN_F32);
}

typedef struct ConvResult {
    sn_tensor *out, *x, *w, *b;
} ConvResult;

static ConvResult convolve(const ConvCase *c, sn_tensor *x, sn_tensor *w, sn_tensor *b, sn_tensor *weights) {
    const sn_ints stride = three(c->stride, c->rank), padding = three(c->padding, c->rank);
    x = sn_requires_grad_(sn_detach(x), true);
    w = sn_requires_grad_(sn_detach(w), true);
    b = sn_requires_grad_(sn_detach(b), true);
    ConvResult r = {.out = sn_convolution(x, w, b, stride, padding, three(c->dilation, c->rank), c->transposed,
                                          three(c->more, c->rank), c->groups ? c->groups : 1)};
    expect_ok();
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(r.out, weights ? weights : r.out))), SN_OK);
    r.x = sn_grad(x), r.w = sn_grad(w), r.b = sn_grad(b);
    return r;
}

START_TEST(convolutions_have_the_bits_of_the_cpu) {
    const ConvCase *const c = &convolutions[_i];
    sn_tensor *const x = numbers((sn_ints){c->x, c->rank}, c->dtype);
    sn_tensor *w = numbers((sn_ints){c->w, c->rank}, c->dtype), *weights = NULL;
    const int64_t rows = c->transposed ? c->w[1] * (c->groups ? c->groups : 1) : c->w[0];
    sn_tensor *const b = numbers(SN_INTS(rows), c->dtype);
    if (c->odd) w = odd(w), weights = odd(numbers(SN_INTS(2, rows, 5, 5), SN_F32));
    const ConvResult cpu = convolve(c, laid_out(c, x), w, b, weights);
    const ConvResult gpu = convolve(c, laid_out(c, there(x)), there(w), there(b), there(weights));
    expect_same(c->name, "the result", gpu.out, cpu.out);
    expect_same(c->name, "the gradient of input", gpu.x, cpu.x);
    expect_same(c->name, "the gradient of weight", gpu.w, cpu.w);
    expect_same(c->name, "the gradient of bias", gpu.b, cpu.b);
}
END_TEST

/* pools ----------------------------------------------------------------------------------------- */

typedef struct PoolCase {
    const char *name;
    sn_dtype dtype;
    int64_t x[4], kernel[2], stride[2], padding[2], dilation[2];
    bool ceil_mode;
} PoolCase;
static const PoolCase pools[] = {
    {"large", SN_F32, {2, 3, 40, 33}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {"overlapping, dilation", SN_F32, {2, 3, 12, 13}, {3, 2}, {1, 1}, {1, 0}, {2, 3}},
    {"ceil_mode", SN_F32, {1, 3, 11, 10}, {4, 3}, {3, 2}, {2, 1}, {1, 1}, true},
    {"f16", SN_F16, {2, 3, 12, 13}, {3, 2}, {2, 1}, {1, 0}, {1, 1}},
    {"bf16", SN_BF16, {2, 3, 12, 13}, {3, 2}, {2, 1}, {1, 0}, {1, 1}},
    {"f64", SN_F64, {2, 3, 12, 13}, {3, 2}, {2, 1}, {1, 0}, {1, 1}},
};
typedef struct PoolResult {
    sn_tensor *most, *at, *mean, *adaptive, *grads[3];
} PoolResult;

static sn_tensor *gradient(sn_tensor *x, sn_tensor *out) {
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(out, out))), SN_OK);
    sn_tensor *const grad = sn_clone(sn_grad(x));
    sn_zero_(sn_grad(x));
    return grad;
}

static PoolResult pool(const PoolCase *c, sn_tensor *x) {
    PoolResult r;
    const sn_ints kernel = {c->kernel, 2}, stride = {c->stride, 2}, padding = {c->padding, 2};
    x = sn_requires_grad_(sn_detach(x), true);
    const sn_value in[] = {sn_val(x),
                           sn_ints_value(kernel),
                           sn_ints_value(stride),
                           sn_ints_value(padding),
                           sn_ints_value((sn_ints){c->dilation, 2}),
                           sn_bool(c->ceil_mode)};
    sn_value out[2];
    int n = 2;
    ck_assert_int_eq(sn_op_call(sn_op_find("aten::max_pool2d_with_indices"), in, 6, out, &n), SN_OK);
    r.most = out[0].tensor, r.at = out[1].tensor;
    const sn_value mean[] = {in[0], in[1], in[2], in[3], in[5], sn_bool(false)};
    r.mean = sn_op_call1(sn_op_find("aten::avg_pool2d"), mean, 6);
    r.adaptive = sn_adaptive_avg_pool2d(x, SN_INTS(5, 4));
    expect_ok();
    r.grads[0] = gradient(x, r.most), r.grads[1] = gradient(x, r.mean), r.grads[2] = gradient(x, r.adaptive);
    return r;
}

static void compare_pools(const PoolCase *c, PoolResult gpu, PoolResult cpu) {
    expect_same(c->name, "the largest", gpu.most, cpu.most);
    expect_same(c->name, "where it is", gpu.at, cpu.at);
    expect_same(c->name, "the mean", gpu.mean, cpu.mean);
    expect_same(c->name, "the adaptive mean", gpu.adaptive, cpu.adaptive);
    for (int i = 0; i < 3; i++) expect_same(c->name, "a gradient", gpu.grads[i], cpu.grads[i]);
}

START_TEST(pools_have_the_bits_of_the_cpu) {
    const PoolCase *const c = &pools[_i];
    sn_tensor *const x = numbers((sn_ints){c->x, 4}, c->dtype);
    compare_pools(c, pool(c, there(x)), pool(c, x));
    sn_tensor *const turned = sn_transpose(x, 2, 3), *const turned_there = sn_transpose(there(x), 2, 3);
    compare_pools(c, pool(c, turned_there), pool(c, turned));
    const sn_value last = sn_int(SN_CHANNELS_LAST);
    compare_pools(c, pool(c, sn_contiguous_ex(there(x), last)), pool(c, sn_contiguous_ex(x, last)));
}
END_TEST

/* Positions that no pool makes: some twice, some outside of their windows, and one outside of the plane. */
static sn_tensor *go_back(sn_tensor *grad, sn_tensor *x, sn_tensor *index) {
    const sn_value two = sn_ints_value(SN_INTS(2));
    const sn_value in[] = {sn_val(grad),   sn_val(x),    two, two, sn_ints_value(SN_INTS(0)), sn_ints_value(SN_INTS(1)),
                           sn_bool(false), sn_val(index)};
    return sn_op_call1(sn_op_find("aten::max_pool2d_with_indices_backward"), in, 8);
}

/* The CPU's bits, with every position anywhere in planes of `side` squared. */
static void send_anywhere(int64_t side) {
    const int64_t half = side / 2, n = 2 * half * half;
    int64_t *const at = calloc((size_t)n, sizeof *at);
    for (int64_t i = 0; i < n; i++) at[i] = i % 5 ? i * 29 % (side * side) : side * side - 1;
    sn_tensor *const x = numbers(SN_INTS(1, 2, side, side), SN_F32), *const grad =
                                                                         numbers(SN_INTS(1, 2, half, half), SN_F32);
    sn_tensor *const index = sn_from_data(at, SN_INTS(1, 2, half, half), SN_I64);
    expect_same("positions", "the gradient", go_back(there(grad), there(x), there(index)), go_back(grad, x, index));
    free(at);
}

START_TEST(gradients_go_to_any_position) {
    send_anywhere(8);
    send_anywhere(50); /* three blocks to a plane, the last of them not full */
}
END_TEST

START_TEST(no_gradient_goes_outside_of_its_plane) {
    int64_t at[2 * 4 * 4];
    for (int i = 0; i < 32; i++) at[i] = i * 29 % 64;
    sn_tensor *const x = numbers(SN_INTS(1, 2, 8, 8), SN_F32), *const grad = numbers(SN_INTS(1, 2, 4, 4), SN_F32);
    at[9] = 64;
    go_back(there(grad), there(x), there(sn_from_data(at, SN_INTS(1, 2, 4, 4), SN_I64)));
    expect_ok();
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "max_pool2d_with_indices_backward: indices 64 is out of range for 64 elements");
}
END_TEST

/* bags ------------------------------------------------------------------------------------------ */

static sn_tensor *list(const int64_t *of, int n) { return sn_from_data(of, SN_INTS(n), SN_I64); }

/* What the next wait says of a bag with these offsets and indices of a table of 4 rows, whose sum goes to `out`. */
static void expect_wrong_bag(sn_tensor *indices, sn_tensor *offsets, const char *says) {
    sn_tensor *const weight = there(numbers(SN_INTS(4, 3), SN_F32)), *none[4], *kept;
    for (int i = 0; i < 4; i++) none[i] = there(sn_zeros(i ? SN_INTS(2) : SN_INTS(2, 3), i ? SN_I64 : SN_F32));
    none[1] = there(sn_zeros(SN_INTS(0), SN_I64));
    sn_embedding_bag_with_sizes_out(none[0], none[1], none[2], none[3], weight, there(indices), there(offsets));
    expect_ok();
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, says);
    kept = here(none[0]);
    expect_ok();
    ck_assert_msg(same_bits(kept, sn_zeros(SN_INTS(2, 3), SN_F32)), "what others see was written");
}

START_TEST(wrong_bags_are_told_and_write_nothing) {
    const int64_t indices[] = {0, 3, 1, 2}, wrong[] = {0, 3, 4, 2}, offsets[] = {0, 2}, late[] = {1, 2},
                  descending[] = {0, -1}, beyond[] = {0, 5};
    expect_wrong_bag(list(wrong, 4), list(offsets, 2),
                     "aten::_embedding_bag: indices 4 is out of range for 4 elements");
    expect_wrong_bag(list(indices, 4), list(late, 2), "offsets[0] is 1: the first must be 0");
    expect_wrong_bag(list(indices, 4), list(descending, 2), "offsets[1] is -1: they must not descend");
    expect_wrong_bag(list(indices, 4), list(beyond, 2), "offsets[1] is 5: there are fewer indices");
}
END_TEST

/* training -------------------------------------------------------------------------------------- */

enum { IMAGES = 6, CLASSES = 5, N_PARAMS = 8, STEPS = 4 };

/* A step of a small network: convolutions, batch norm, both pools, cross entropy, and the descent. */
typedef struct Network {
    sn_tensor *params[N_PARAMS], *mean, *variance;
} Network;

static sn_tensor *forward(const Network *net, sn_tensor *x) {
    sn_tensor *const *const p = net->params;
    x = sn_conv2d_ex(x, p[0], p[1], SN_INTS(1), SN_INTS(1), SN_INTS(1), 1);
    x = sn_relu(sn_batch_norm(x, p[2], p[3], net->mean, net->variance, true, 0.1, 1e-5));
    x = sn_max_pool2d(x, SN_INTS(2), SN_INTS(2), SN_INTS(0));
    x = sn_relu(sn_conv2d_ex(x, p[4], p[5], SN_INTS(2), SN_INTS(1), SN_INTS(1), 2));
    x = sn_adaptive_avg_pool2d(sn_avg_pool2d(x, SN_INTS(2), SN_INTS(1), SN_INTS(1)), SN_INTS(2, 1));
    return sn_linear(sn_reshape(x, SN_INTS(IMAGES, -1)), p[6], p[7]);
}

static sn_status train_step(sn_frame *f) {
    Network *const net = sn_closure(f);
    sn_tensor *const loss = sn_cross_entropy(forward(net, sn_in(f, 0)), sn_in(f, 1));
    sn_backward(loss);
    const sn_scope off = sn_no_grad_begin();
    for (int i = 0; i < N_PARAMS; i++) {
        sn_add_ex_(net->params[i], sn_grad(net->params[i]), sn_float(-0.05));
        sn_zero_(sn_grad(net->params[i]));
    }
    sn_scope_end(off);
    return sn_out(f, 0, loss);
}

static Network network(sn_device device) {
    static const int64_t sizes[N_PARAMS][4] = {{8, 3, 3, 3}, {8}, {8},           {8},
                                               {6, 4, 3, 3}, {6}, {CLASSES, 12}, {CLASSES}};
    static const int ranks[N_PARAMS] = {4, 1, 1, 1, 4, 1, 2, 1};
    Network net = {.mean = sn_to_device(sn_zeros(SN_INTS(8), SN_F32), device),
                   .variance = sn_to_device(sn_ones(SN_INTS(8), SN_F32), device)};
    sn_seed(11);
    for (int i = 0; i < N_PARAMS; i++) {
        sn_tensor *const p = sn_mul_scalar(numbers((sn_ints){sizes[i], ranks[i]}, SN_F32), sn_float(0.3));
        net.params[i] = sn_requires_grad_(sn_to_device(p, device), true);
    }
    return net;
}

static sn_tensor *classes_of(int step) {
    int64_t classes[IMAGES];
    for (int i = 0; i < IMAGES; i++) classes[i] = (3 * i + step) % CLASSES;
    return list(classes, IMAGES);
}

/* Trains; the parameters afterwards on the CPU, and the share of compiled ops. */
static double train(sn_device device, sn_compile_mode mode, Network *after) {
    Network net = network(device);
    sn_function *const step = sn_compile(train_step, &net, SN_COMPILE_OPTIONS(.mode = mode));
    for (int i = 0; i < STEPS; i++) {
        sn_seed(100 + i);
        sn_tensor *const x = numbers(SN_INTS(IMAGES, 3, 12, 10), SN_F32);
        sn_tensor *const y = classes_of(i);
        sn_call1(step, SN_TENSORS(sn_to_device(x, device), sn_to_device(y, device)));
        expect_ok();
    }
    const sn_stats stats = stats_of(step);
    sn_function_free(step);
    *after = net;
    const int64_t all = stats.ops_generated + stats.ops_interpreted + stats.ops_eager;
    return all ? (double)stats.ops_generated / (double)all : 0;
}

static void compare_networks(const char *name, const Network *gpu, const Network *cpu) {
    for (int i = 0; i < N_PARAMS; i++) {
        char what[32];
        snprintf(what, sizeof what, "parameter %d", i);
        expect_same(name, what, sn_detach(gpu->params[i]), sn_detach(cpu->params[i]));
    }
    expect_same(name, "the mean", gpu->mean, cpu->mean);
    expect_same(name, "the variance", gpu->variance, cpu->variance);
}

START_TEST(a_network_trains_to_the_bits_of_the_cpu) {
    Network cpu, eager, compiled;
    const double share = train(SN_CPU, SN_COMPILE_VERIFY, &cpu);
    train(GPU, SN_COMPILE_EAGER, &eager);
    compare_networks("eager", &eager, &cpu);
    ck_assert_double_eq(train(GPU, SN_COMPILE_VERIFY, &compiled), share);
    ck_assert_double_gt(share, 0.6); /* the second call is the first to find gradients */
    compare_networks("compiled", &compiled, &cpu);
}
END_TEST

/* NVIDIA's own compiler ------------------------------------------------------------------------- */

static const struct {
    const char *name, *text;
    DType dtypes[6]; /* one of each compute type, and halves */
} texts[] = {
    {"windows", cuda_text_windows, {DT_f32, DT_f64, DT_i64, DT_bf16}},
    {"convolution", cuda_text_convolution, {DT_f32, DT_f64, DT_f16, DT_bf16}},
    {"bags", cuda_text_bags, {DT_f32, DT_f64, DT_f16, DT_bf16}},
    {"products", cuda_text_products, {DT_f32, DT_f64, DT_f16, DT_bf16}},
    {"moves", cuda_text_moves, {DT_f32, DT_f64, DT_i64, DT_u8, DT_bf16, DT_bool}},
    {"sorts", cuda_text_sorts, {DT_f32, DT_f64, DT_i64, DT_u8, DT_f16, DT_bool}},
    {"scatter", cuda_text_scatter, {DT_f32, DT_f64, DT_i64, DT_u8, DT_bf16, DT_bool}},
    {"scans", cuda_text_scans, {DT_f32, DT_f64, DT_i64, DT_u8, DT_f16}},
    {"positions", cuda_text_positions, {DT_f32, DT_f64, DT_i64, DT_u8, DT_bf16, DT_bool}},
};

static void expect_clean(const char *name, DType dtype, const char *text, int arch) {
    CudaCode code;
    Text source = {0};
    text_puts(&source, cuda_prelude);
    text_printf(&source, "#define DTYPE %s\n#define TYPE %s\n", dtype_name(dtype), stype_name(dtype_compute(dtype)));
    text_puts(&source, text);
    ck_assert_msg(cuda_compile_verbose(source.at, name, arch, &code) == ST_OK, "%s", sn_error_take()->message);
    ck_assert_msg(!strstr(code.log, "warning"), "%s", code.log);
    ck_assert_ptr_nonnull(strstr(code.log, " bytes spill"));
    for (const char *at = strstr(code.log, " bytes spill"); at; at = strstr(at + 1, " bytes spill"))
        ck_assert_msg(at[-1] == '0' && at[-2] == ' ', "%s of %s: %.60s", name, dtype_name(dtype), at - 12);
    cuda_code_free(&code);
    text_free(&source);
}

START_TEST(compiles_without_spills) {
    const char *why;
    use_real_nvrtc();
    if (!nvrtc_find(&why)) {
        printf("skipped: %s\n", why);
        return;
    }
    for (int i = 0; i < COUNT_OF(texts); i++)
        for (int k = 0; k < COUNT_OF(texts[i].dtypes) && texts[i].dtypes[k]; k++)
            expect_clean(texts[i].name, texts[i].dtypes[k], texts[i].text, _i);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_planes");
    tcase_set_timeout(tests, 300);
    if (!lacks_compiler()) {
        tcase_add_loop_test(tests, convolutions_have_the_bits_of_the_cpu, 0, COUNT_OF(convolutions));
        tcase_add_loop_test(tests, pools_have_the_bits_of_the_cpu, 0, COUNT_OF(pools));
        tcase_add_test(tests, gradients_go_to_any_position);
        tcase_add_test(tests, no_gradient_goes_outside_of_its_plane);
        tcase_add_test(tests, wrong_bags_are_told_and_write_nothing);
        tcase_add_test(tests, a_network_trains_to_the_bits_of_the_cpu);
    } else {
        puts("skipped: running them: no clang here, by which the emulated device runs kernels");
    }
    tcase_add_loop_test(tests, compiles_without_spills, 80, 81);
    tcase_add_loop_test(tests, compiles_without_spills, 90, 91);
    return suite_run("cuda_planes", tests);
}
