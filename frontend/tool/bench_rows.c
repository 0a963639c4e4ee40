/* bench_rows.c: the table of the benchmark's rows, and the work of those that are one op or a few: overhead, fused
 * kernels, reductions, products. All f32, random inputs, statements in a fixed order. */
#include <stdlib.h>

#include "frontend/tool/bench_make.h"

/* overhead ------------------------------------------------------------------------------------ */

enum { LOOP = 1000, CHAIN = 100 };

static sn_status add16(sn_frame *f) {
    sn_tensor *a = sn_in(f, 0), *b = sn_in(f, 1);
    for (int i = 0; i < LOOP / CHAIN; i++) {
        sn_scope scope = sn_scope_begin();
        for (int k = 0; k < CHAIN; k++) sn_add(a, b);
        sn_scope_end(scope);
    }
    return sn_check();
}
#define UNARY_LOOP(name, call)                                                                                         \
    static sn_status name(sn_frame *f) {                                                                               \
        sn_tensor *a = sn_in(f, 0);                                                                                    \
        for (int i = 0; i < LOOP / CHAIN; i++) {                                                                       \
            sn_scope scope = sn_scope_begin();                                                                         \
            for (int k = 0; k < CHAIN; k++) call;                                                                      \
            sn_scope_end(scope);                                                                                       \
        }                                                                                                              \
        return sn_check();                                                                                             \
    }
UNARY_LOOP(relu16, sn_relu(a))
UNARY_LOOP(view16, sn_view(a, SN_INTS(4, 4)))
UNARY_LOOP(sum16, sn_sum(a))
UNARY_LOOP(mm4, sn_mm(a, a))

static sn_status chain100(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0), *b = sn_in(f, 1);
    for (int i = 0; i < CHAIN; i++) x = sn_add(x, b);
    sn_backward(sn_sum(x));
    return sn_grad_set(sn_in(f, 0), NULL);
}

static void overhead(Work *w, sn_body body, int ops) {
    w->kind = WORK_overhead;
    w->body = body;
    w->ops = ops;
}
static void bench_make_add16(Work *w, const int64_t *s) {
    overhead(w, add16, LOOP);
    normal(w, SN_INTS(s[0]));
    normal(w, SN_INTS(s[0]));
}
static void bench_make_add16_grad(Work *w, const int64_t *s) {
    overhead(w, add16, LOOP);
    leaf(w, SN_INTS(s[0]));
    normal(w, SN_INTS(s[0]));
}
static void bench_make_relu16(Work *w, const int64_t *s) { overhead(w, relu16, LOOP), normal(w, SN_INTS(s[0])); }
static void bench_make_view16(Work *w, const int64_t *s) { overhead(w, view16, LOOP), normal(w, SN_INTS(s[0])); }
static void bench_make_sum16(Work *w, const int64_t *s) { overhead(w, sum16, LOOP), normal(w, SN_INTS(s[0])); }
static void bench_make_mm4(Work *w, const int64_t *s) { overhead(w, mm4, LOOP), normal(w, SN_INTS(s[0], s[0])); }
static void bench_make_chain100(Work *w, const int64_t *s) {
    overhead(w, chain100, CHAIN);
    leaf(w, SN_INTS(s[0]));
    normal(w, SN_INTS(s[0]));
}

/* The same number in every call, or one that never came before. */
typedef struct Changing {
    bool changes;
    double number;
    int n; /* sizes */
    sn_tensor **at;
} Changing;
static void changing_free(void *closure) {
    Changing *const c = closure;
    for (int i = 0; i < c->n; i++) sn_release(c->at[i]);
    free(c->at);
    free(c);
}

enum { NUMBER_OPS = 6, SIZE_OPS = 10, SIDE_LEAST = 2, SIDES = 12 };

static sn_status with_numbers(sn_frame *f) {
    Changing *const c = sn_closure(f);
    sn_tensor *x = sn_in(f, 0), *mask = sn_in(f, 1);
    for (int i = 0; i < LOOP; i++) {
        sn_scope scope = sn_scope_begin();
        const sn_scalar number = sn_float(c->changes ? c->number += 0x1p-20 : c->number);
        sn_mul_scalar(x, number);
        sn_add_scalar(x, number);
        sn_pow_scalar(x, number);
        sn_clamp(x, sn_float(0), number);
        sn_masked_fill(x, mask, number);
        sn_full(SN_INTS(16), number, SN_F32);
        sn_scope_end(scope);
    }
    return sn_check();
}
static void bench_make_numbers(Work *w, const int64_t *s) {
    Changing *const c = calloc(1, sizeof *c);
    *c = (Changing){.changes = s[1], .number = 1.25};
    overhead(w, with_numbers, LOOP * NUMBER_OPS);
    w->closure = c;
    w->closure_free = changing_free;
    keep(w, sn_abs(sn_randn(SN_INTS(s[0]), SN_F32)));
    keep(w, sn_gt_scalar(w->in[0], sn_float(0)));
}

/* So many that no size is remembered when it comes again. */
static sn_status with_sizes(sn_frame *f) {
    const Changing *const c = sn_closure(f);
    for (int i = 0; i < c->n; i++) {
        sn_scope scope = sn_scope_begin();
        sn_tensor *x = c->at[i];
        sn_add(x, x);
        sn_mul_scalar(x, sn_float(1.5));
        sn_relu(x);
        sn_gelu(x);
        sn_sum_dim(x, SN_INTS(-1), false);
        sn_softmax(x, -1);
        sn_layer_norm(x, SN_INTS(sn_size(x, 2)), NULL, NULL);
        sn_cat(SN_TENSORS(x, x), 1);
        sn_view(x, SN_INTS(sn_size(x, 0), -1));
        sn_transpose(x, 0, 1);
        sn_scope_end(scope);
    }
    return sn_check();
}
static void bench_make_sizes(Work *w, const int64_t *s) {
    Changing *const c = calloc(1, sizeof *c);
    *c = (Changing){.changes = s[0], .n = SIDES * SIDES * SIDES};
    c->at = calloc((size_t)c->n, sizeof *c->at);
    for (int i = 0; i < c->n; i++) {
        const int k = i * 1009 % c->n; /* neighbours differ in all sizes */
        const int64_t a = SIDE_LEAST + k % SIDES, b = SIDE_LEAST + k / SIDES % SIDES,
                      d = SIDE_LEAST + k / SIDES / SIDES;
        c->at[i] = sn_keep(sn_randn(c->changes ? SN_INTS(a, b, d) : SN_INTS(7, 8, 8), SN_F32));
    }
    overhead(w, with_sizes, c->n * SIZE_OPS);
    w->closure = c;
    w->closure_free = changing_free;
}

static sn_status sum_of_inputs(sn_frame *f) {
    sn_tensor *y = sn_in(f, 0);
    for (int i = 1; i < sn_in_count(f); i++) y = sn_add(y, sn_in(f, i));
    return sn_out(f, 0, y);
}
static void bench_make_call16(Work *w, const int64_t *s) {
    w->kind = WORK_call;
    w->body = sum_of_inputs;
    for (int i = 0; i < 16; i++) normal(w, SN_INTS(s[0]));
}

/* 10,000 small ops, as of a net's forward: in each ten a product, two views, the rest elementwise. */
enum { FORWARD_OPS = 10000, FORWARD_GROUP = 10 };
static sn_status small_forward(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0), *const b = sn_in(f, 1);
    for (int i = 0; i < FORWARD_OPS / FORWARD_GROUP; i++) {
        x = sn_mm(sn_relu(sn_add(x, b)), b);
        x = sn_transpose(sn_sub(sn_tanh(x), b), 0, 1);
        x = sn_transpose(sn_neg(sn_sigmoid(sn_mul(x, b))), 0, 1);
    }
    return sn_out(f, 0, x);
}
static void bench_make_forward(Work *w, const int64_t *s) {
    w->kind = WORK_call;
    w->body = small_forward;
    w->ops = FORWARD_OPS;
    sn_setting_set("pending_ops", "20000"); /* one graph, which replay wants; no other row has as many ops */
    normal(w, SN_INTS(s[0], s[0]));
    normal(w, SN_INTS(s[0], s[0]));
}

static sn_status scaled_silu(sn_frame *f) {
    const double *const scale = sn_closure(f);
    sn_tensor *const h = sn_mul_scalar(sn_in(f, 0), sn_float(*scale));
    return sn_out(f, 0, sn_silu(sn_add(h, sn_in(f, 1))));
}
static void bench_make_compile(Work *w, const int64_t *s) {
    w->kind = WORK_compile;
    w->body = scaled_silu;
    w->closure = calloc(1, sizeof(double));
    w->closure_free = free;
    normal(w, SN_INTS(s[0], s[1]));
    normal(w, SN_INTS(s[1]));
}

/* fused kernels ------------------------------------------------------------------------------- */

static sn_status residual_norm(sn_frame *f, const char *approximate) {
    sn_tensor *h = sn_gelu_ex(sn_add(sn_in(f, 0), sn_in(f, 1)), approximate);
    return sn_out(f, 0, sn_layer_norm(sn_add(h, sn_in(f, 2)), SN_INTS(sn_size(h, 1)), sn_in(f, 3), sn_in(f, 4)));
}
static sn_status residual_norm_tanh(sn_frame *f) { return residual_norm(f, "tanh"); }
static sn_status residual_norm_erf(sn_frame *f) { return residual_norm(f, "none"); }

static void residual_inputs(Work *w, const int64_t *s) {
    w->kind = WORK_forward;
    normal(w, SN_INTS(s[0], s[1]));
    normal(w, SN_INTS(s[1]));
    normal(w, SN_INTS(s[0], s[1]));
    normal(w, SN_INTS(s[1]));
    normal(w, SN_INTS(s[1]));
}
static void bench_make_residual_tanh(Work *w, const int64_t *s) { residual_inputs(w, s), w->body = residual_norm_tanh; }
static void bench_make_residual_erf(Work *w, const int64_t *s) { residual_inputs(w, s), w->body = residual_norm_erf; }

static sn_status silu_mul(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_silu(sn_in(f, 0)), sn_in(f, 1))); }
static sn_status chain20(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < 5; i++) {
        x = sn_tanh(sn_add_scalar(sn_mul_scalar(x, sn_float(1.01)), sn_float(0.5)));
        x = sn_sqrt(sn_add_scalar(sn_abs(x), sn_float(1)));
    }
    return sn_out(f, 0, x);
}
static sn_status softmax(sn_frame *f) { return sn_out(f, 0, sn_softmax(sn_in(f, 0), -1)); }
static sn_status layer_norm(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    return sn_out(f, 0, sn_layer_norm(x, SN_INTS(sn_size(x, 1)), sn_in(f, 1), sn_in(f, 2)));
}
static sn_status row_sum(sn_frame *f) { return sn_out(f, 0, sn_sum_dim(sn_in(f, 0), SN_INTS(-1), false)); }
static sn_status col_sum(sn_frame *f) { return sn_out(f, 0, sn_sum_dim(sn_in(f, 0), SN_INTS(0), false)); }
static sn_status cross_entropy(sn_frame *f) { return sn_out(f, 0, sn_cross_entropy(sn_in(f, 0), sn_in(f, 1))); }

static void forward(Work *w, sn_body body) {
    w->kind = WORK_forward;
    w->body = body;
}
static void bench_make_silu_mul(Work *w, const int64_t *s) {
    forward(w, silu_mul);
    normal(w, SN_INTS(s[0], s[1]));
    normal(w, SN_INTS(s[0], s[1]));
}
static void bench_make_chain20(Work *w, const int64_t *s) { forward(w, chain20), normal(w, SN_INTS(s[0], s[1])); }
static void bench_make_softmax(Work *w, const int64_t *s) { forward(w, softmax), normal(w, SN_INTS(s[0], s[1])); }
static void bench_make_col_sum(Work *w, const int64_t *s) { forward(w, col_sum), normal(w, SN_INTS(s[0], s[1])); }
static void bench_make_row_sum(Work *w, const int64_t *s) { forward(w, row_sum), normal(w, SN_INTS(s[0], s[1])); }
static void bench_make_layer_norm(Work *w, const int64_t *s) {
    forward(w, layer_norm);
    normal(w, SN_INTS(s[0], s[1]));
    normal(w, SN_INTS(s[1]));
    normal(w, SN_INTS(s[1]));
}
static void bench_make_layer_norm_backward(Work *w, const int64_t *s) {
    w->kind = WORK_backward;
    w->body = layer_norm;
    leaf(w, SN_INTS(s[0], s[1]));
    leaf(w, SN_INTS(s[1]));
    leaf(w, SN_INTS(s[1]));
}
static void bench_make_cross_entropy_backward(Work *w, const int64_t *s) {
    w->kind = WORK_backward;
    w->body = cross_entropy;
    leaf(w, SN_INTS(s[0], s[1]));
    classes(w, SN_INTS(s[0]), s[1]);
}

/* matrix products ----------------------------------------------------------------------------- */

static sn_status linear(sn_frame *f) { return sn_out(f, 0, sn_linear(sn_in(f, 0), sn_in(f, 1), NULL)); }
static sn_status linear_gelu(sn_frame *f) {
    return sn_out(f, 0, sn_gelu_ex(sn_linear(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)), "tanh"));
}
static sn_status row_product(sn_frame *f) { return sn_out(f, 0, sn_mm(sn_in(f, 0), sn_in(f, 1))); }
static sn_status product_transposed(sn_frame *f) { return sn_out(f, 0, sn_mm(sn_t(sn_in(f, 0)), sn_in(f, 1))); }

static void bench_make_linear(Work *w, const int64_t *s) { /* M, N, K */
    forward(w, linear);
    normal(w, SN_INTS(s[0], s[2]));
    normal(w, SN_INTS(s[1], s[2]));
}
static void bench_make_linear_gelu(Work *w, const int64_t *s) {
    bench_make_linear(w, s);
    w->body = linear_gelu;
    normal(w, SN_INTS(s[1]));
}
/* The same without gradients and in inference mode: many small ops, and one that is large. */
enum { SMALL_OPS = 50 };
static sn_status small_ops(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < SMALL_OPS; i++) x = i % 2 ? sn_relu(x) : sn_add(x, sn_in(f, 1));
    return sn_out(f, 0, x);
}
static void bench_make_small_ops(Work *w, const int64_t *s) { /* elements, mode */
    forward(w, small_ops);
    w->mode = (sn_grad_mode)s[1];
    normal(w, SN_INTS(s[0]));
    leaf(w, SN_INTS(s[0]));
}
static void bench_make_mode_product(Work *w, const int64_t *s) { /* M, N, K, mode */
    forward(w, row_product);
    w->mode = (sn_grad_mode)s[3];
    normal(w, SN_INTS(s[0], s[2]));
    leaf(w, SN_INTS(s[2], s[1]));
}

/* Each example is one row: sn_vmap, and the batched call. */
static sn_status mapped_linear_gelu(sn_frame *f) {
    sn_tensor *out = NULL;
    sn_vmap(linear_gelu, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT, SN_NO_INT)),
            SN_TENSORS(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)), &out, 1);
    return sn_out(f, 0, out);
}
static void bench_make_examples(Work *w, const int64_t *s) { /* examples, N, K, mapped */
    forward(w, s[3] ? mapped_linear_gelu : linear_gelu);
    normal(w, SN_INTS(s[0], 1, s[2]));
    normal(w, SN_INTS(s[1], s[2]));
    normal(w, SN_INTS(s[1]));
}
static void bench_make_product(Work *w, const int64_t *s) {
    forward(w, row_product);
    normal(w, SN_INTS(s[0], s[2]));
    normal(w, SN_INTS(s[2], s[1]));
}
static void bench_make_product_transposed(Work *w, const int64_t *s) {
    forward(w, product_transposed);
    normal(w, SN_INTS(s[2], s[0]));
    normal(w, SN_INTS(s[2], s[1]));
}

/* A recurrent net as sn_scan: h = tanh(h w + x v) along dim 0 of x. */
typedef struct Recurrent {
    sn_tensor *w, *v;
} Recurrent;
static sn_status recurrent_cell(sn_frame *f) {
    const Recurrent *const r = sn_closure(f);
    sn_tensor *const carried = sn_mm(sn_in(f, 0), r->w);
    sn_tensor *const next = sn_tanh(sn_add(carried, sn_mm(sn_in(f, 1), r->v)));
    sn_out(f, 0, next);
    return sn_out(f, 1, sn_mul(next, sn_sigmoid(next)));
}
static sn_status recurrent(sn_frame *f) {
    Recurrent r = {sn_in(f, 2), sn_in(f, 3)};
    sn_tensor *out[2] = {NULL};
    sn_scan(recurrent_cell, &r, NULL, SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), out, 2);
    return sn_out(f, 0, out[1]);
}
static void bench_make_scan(Work *w, const int64_t *s) { /* rounds, batch, width, with a backward */
    w->kind = s[3] ? WORK_backward : WORK_forward;
    w->body = recurrent;
    sn_tensor *(*const input)(Work * work, sn_ints sizes) = s[3] ? leaf : normal;
    input(w, SN_INTS(s[1], s[2]));
    input(w, SN_INTS(s[0], s[1], s[2]));
    input(w, SN_INTS(s[2], s[2]));
    input(w, SN_INTS(s[2], s[2]));
}

#define DEVICE(name, make, columns, n)                                                                                 \
    {"device/" name, make, {0, columns}, .streams = n}, {                                                              \
        "device/" name "_bf16", make, {0, columns}, .streams = n, .dtype = SN_BF16                                     \
    }

/* What other systems are compared on comes first; models through PyTorch are none of ours. */
#define ROW(name, maker, reads, writes, products, ...) {name, bench_make_##maker, {__VA_ARGS__}, .flops = (products)},
#define MODEL(name, maker, ...)

const BenchRow bench_rows[] = {
#include "frontend/tool/bench_peers.def"
    {"eager/number", bench_make_numbers, {16, false}},
    {"eager/new_number", bench_make_numbers, {16, true}},
    {"eager/size", bench_make_sizes, {false}},
    {"eager/new_size", bench_make_sizes, {true}},
    {"call/10000ops", bench_make_forward, {4}},
    {"compile/pointwise", bench_make_compile, {64, 256}},
    {"warm/softmax", bench_make_softmax, {1024, 768}, .warm = true},
    {"warm/gpt2_block_fwd", bench_make_gpt2_block, {4, 256, 0}, .warm = true},
    {"warm/gpt2_block_fwd_bwd", bench_make_gpt2_block, {4, 256, 1}, .warm = true},
    {"nvrtc/silu_mul", bench_make_silu_mul, {64, 64}, .nvrtc = true},
    {"nvrtc/softmax", bench_make_softmax, {1024, 768}, .nvrtc = true},
    {"nvrtc/digits_step", bench_make_digits_step, {64}, .nvrtc = true},
    {"nvrtc/gpt2_block_fwd_bwd", bench_make_gpt2_block, {4, 256, 1}, .nvrtc = true},
    {"mode/small50_no_grad", bench_make_small_ops, {16, SN_GRAD_OFF}},
    {"mode/small50_inference", bench_make_small_ops, {16, SN_INFERENCE}},
    {"mode/mm4096_no_grad",
     bench_make_mode_product,
     {4096, 4096, 4096, SN_GRAD_OFF},
     .flops = 2.0 * 4096 * 4096 * 4096},
    {"mode/mm4096_inference",
     bench_make_mode_product,
     {4096, 4096, 4096, SN_INFERENCE},
     .flops = 2.0 * 4096 * 4096 * 4096},
    {"transform/linear_gelu", bench_make_examples, {64, 3072, 768, 0}},
    {"transform/linear_gelu_vmap", bench_make_examples, {64, 3072, 768, 1}},
    {"transform/blocks", bench_make_blocks, {4, 256, 0}},
    {"transform/blocks_checkpointed", bench_make_blocks, {4, 256, 1}},
    {"transform/scan", bench_make_scan, {64, 16, 64, 0}},
    {"transform/scan_fwd_bwd", bench_make_scan, {64, 16, 64, 1}},
    DEVICE("silu_mul", bench_make_silu_mul, 4096, 3),
    DEVICE("bias_gelu_res_ln", bench_make_residual_tanh, 768, 3),
    DEVICE("bias_gelu_erf_res_ln", bench_make_residual_erf, 768, 3),
    DEVICE("chain20", bench_make_chain20, 1024, 2),
    DEVICE("softmax", bench_make_softmax, 1024, 2),
    DEVICE("softmax_wide", bench_make_softmax, 50257, 2),
    DEVICE("layer_norm", bench_make_layer_norm, 768, 2),
    DEVICE("row_sum", bench_make_row_sum, 1024, 1),
    DEVICE("col_sum", bench_make_col_sum, 768, 1),
    {.name = NULL},
};
