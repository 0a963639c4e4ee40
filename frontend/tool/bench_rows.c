/* bench_rows.c: the work of each benchmark row; sizes and names are those of the other systems'
 * scripts, so that one table compares them. All f32, random inputs, statements in a fixed order. */
#include "frontend/tool/bench.h"

#include <stdlib.h>

static sn_tensor *keep(Work *w, sn_tensor *t) { return w->in[w->n_in++] = sn_keep(t); }
static sn_tensor *normal(Work *w, sn_ints sizes) { return keep(w, sn_randn(sizes, SN_F32)); }
static sn_tensor *leaf(Work *w, sn_ints sizes) { return sn_requires_grad_(normal(w, sizes), true); }

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
static void make_add16(Work *w, const int64_t *s) {
    overhead(w, add16, LOOP);
    normal(w, SN_INTS(s[0]));
    normal(w, SN_INTS(s[0]));
}
static void make_add16_grad(Work *w, const int64_t *s) {
    overhead(w, add16, LOOP);
    leaf(w, SN_INTS(s[0]));
    normal(w, SN_INTS(s[0]));
}
static void make_relu16(Work *w, const int64_t *s) { overhead(w, relu16, LOOP), normal(w, SN_INTS(s[0])); }
static void make_view16(Work *w, const int64_t *s) { overhead(w, view16, LOOP), normal(w, SN_INTS(s[0])); }
static void make_sum16(Work *w, const int64_t *s) { overhead(w, sum16, LOOP), normal(w, SN_INTS(s[0])); }
static void make_mm4(Work *w, const int64_t *s) { overhead(w, mm4, LOOP), normal(w, SN_INTS(s[0], s[0])); }
static void make_chain100(Work *w, const int64_t *s) {
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
static void make_numbers(Work *w, const int64_t *s) {
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
static void make_sizes(Work *w, const int64_t *s) {
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
static void make_call16(Work *w, const int64_t *s) {
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
static void make_forward(Work *w, const int64_t *s) {
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
static void make_compile(Work *w, const int64_t *s) {
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
static void make_residual_tanh(Work *w, const int64_t *s) { residual_inputs(w, s), w->body = residual_norm_tanh; }
static void make_residual_erf(Work *w, const int64_t *s) { residual_inputs(w, s), w->body = residual_norm_erf; }

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
static void make_silu_mul(Work *w, const int64_t *s) {
    forward(w, silu_mul);
    normal(w, SN_INTS(s[0], s[1]));
    normal(w, SN_INTS(s[0], s[1]));
}
static void make_chain20(Work *w, const int64_t *s) { forward(w, chain20), normal(w, SN_INTS(s[0], s[1])); }
static void make_softmax(Work *w, const int64_t *s) { forward(w, softmax), normal(w, SN_INTS(s[0], s[1])); }
static void make_col_sum(Work *w, const int64_t *s) { forward(w, col_sum), normal(w, SN_INTS(s[0], s[1])); }
static void make_row_sum(Work *w, const int64_t *s) { forward(w, row_sum), normal(w, SN_INTS(s[0], s[1])); }
static void make_layer_norm(Work *w, const int64_t *s) {
    forward(w, layer_norm);
    normal(w, SN_INTS(s[0], s[1]));
    normal(w, SN_INTS(s[1]));
    normal(w, SN_INTS(s[1]));
}
static void make_layer_norm_backward(Work *w, const int64_t *s) {
    w->kind = WORK_backward;
    w->body = layer_norm;
    leaf(w, SN_INTS(s[0], s[1]));
    leaf(w, SN_INTS(s[1]));
    leaf(w, SN_INTS(s[1]));
}
static sn_tensor *classes(Work *w, int64_t n, int64_t count) {
    sn_tensor *u = sn_mul_scalar(sn_rand(SN_INTS(n), SN_F32), sn_float((double)count));
    return keep(w, sn_to(u, SN_I64));
}
static void make_cross_entropy_backward(Work *w, const int64_t *s) {
    w->kind = WORK_backward;
    w->body = cross_entropy;
    leaf(w, SN_INTS(s[0], s[1]));
    classes(w, s[0], s[1]);
}

/* matrix products ----------------------------------------------------------------------------- */

static sn_status linear(sn_frame *f) { return sn_out(f, 0, sn_linear(sn_in(f, 0), sn_in(f, 1), NULL)); }
static sn_status linear_gelu(sn_frame *f) {
    return sn_out(f, 0, sn_gelu_ex(sn_linear(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)), "tanh"));
}
static sn_status row_product(sn_frame *f) { return sn_out(f, 0, sn_mm(sn_in(f, 0), sn_in(f, 1))); }
static sn_status product_transposed(sn_frame *f) { return sn_out(f, 0, sn_mm(sn_t(sn_in(f, 0)), sn_in(f, 1))); }

static void make_linear(Work *w, const int64_t *s) { /* M, N, K */
    forward(w, linear);
    normal(w, SN_INTS(s[0], s[2]));
    normal(w, SN_INTS(s[1], s[2]));
}
static void make_linear_gelu(Work *w, const int64_t *s) {
    make_linear(w, s);
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
static void make_small_ops(Work *w, const int64_t *s) { /* elements, mode */
    forward(w, small_ops);
    w->mode = (sn_grad_mode)s[1];
    normal(w, SN_INTS(s[0]));
    leaf(w, SN_INTS(s[0]));
}
static void make_mode_product(Work *w, const int64_t *s) { /* M, N, K, mode */
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
static void make_examples(Work *w, const int64_t *s) { /* examples, N, K, mapped */
    forward(w, s[3] ? mapped_linear_gelu : linear_gelu);
    normal(w, SN_INTS(s[0], 1, s[2]));
    normal(w, SN_INTS(s[1], s[2]));
    normal(w, SN_INTS(s[1]));
}
static void make_product(Work *w, const int64_t *s) {
    forward(w, row_product);
    normal(w, SN_INTS(s[0], s[2]));
    normal(w, SN_INTS(s[2], s[1]));
}
static void make_product_transposed(Work *w, const int64_t *s) {
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
static void make_scan(Work *w, const int64_t *s) { /* rounds, batch, width, with a backward */
    w->kind = s[3] ? WORK_backward : WORK_forward;
    w->body = recurrent;
    sn_tensor *(*const input)(Work * work, sn_ints sizes) = s[3] ? leaf : normal;
    input(w, SN_INTS(s[1], s[2]));
    input(w, SN_INTS(s[0], s[1], s[2]));
    input(w, SN_INTS(s[2], s[2]));
    input(w, SN_INTS(s[2], s[2]));
}

/* convolutions: ResNet-18's distinct ones, batch 8, padding k/2, no bias -------------------------- */

typedef struct ConvShape {
    int64_t in, out, kernel, stride, size;
} ConvShape;
static const ConvShape resnet18[] = {{3, 64, 7, 2, 224},   {64, 64, 3, 1, 56},   {64, 128, 3, 2, 56},
                                     {64, 128, 1, 2, 56},  {128, 128, 3, 1, 28}, {128, 256, 3, 2, 28},
                                     {128, 256, 1, 2, 28}, {256, 256, 3, 1, 14}, {256, 512, 3, 2, 14},
                                     {256, 512, 1, 2, 14}, {512, 512, 3, 1, 7}};

static sn_status convolved(sn_frame *f) {
    const ConvShape *const c = sn_closure(f);
    const int64_t half = c->kernel / 2;
    return sn_out(f, 0,
                  sn_conv2d_ex(sn_in(f, 0), sn_in(f, 1), NULL, SN_INTS(c->stride, c->stride), SN_INTS(half, half),
                               SN_INTS(1, 1), 1));
}

static void image_leaf(Work *w, int64_t n, int64_t channels, int64_t side, bool channels_last) {
    sn_tensor *const t = channels_last
                             ? sn_permute(sn_randn(SN_INTS(n, side, side, channels), SN_F32), SN_INTS(0, 3, 1, 2))
                             : sn_randn(SN_INTS(n, channels, side, side), SN_F32);
    sn_requires_grad_(keep(w, t), true);
}

static void make_convolution(Work *w, const int64_t *s) { /* which of them, channels_last */
    const ConvShape *const c = &resnet18[s[0]];
    w->kind = WORK_backward;
    w->body = convolved;
    w->closure = (void *)(uintptr_t)c;
    image_leaf(w, 8, c->in, c->size, s[1]);
    image_leaf(w, c->out, c->in, c->kernel, s[1]);
}

/* A pre-norm GPT-2 block: gelu by tanh, causal. Its weights: norm 1, qkv, projection, norm 2, both layers of the
 * perceptron, each a weight and a bias. */
enum { WIDTH = 768, HEADS = 12, BLOCK_WEIGHTS = 12 };

static sn_tensor *block_norm(sn_tensor *x, sn_tensor *const *w) { return sn_layer_norm(x, SN_INTS(WIDTH), w[0], w[1]); }
static sn_tensor *block_linear(sn_tensor *x, sn_tensor *const *w) { return sn_linear(x, w[0], w[1]); }
static sn_tensor *block_attention(sn_tensor *x, sn_tensor *const *w) {
    const int64_t b = sn_size(x, 0), t = sn_size(x, 1);
    sn_tensor *parts = sn_view(block_linear(x, w), SN_INTS(b, t, 3, HEADS, WIDTH / HEADS));
    parts = sn_permute(parts, SN_INTS(2, 0, 3, 1, 4));
    sn_tensor *q = sn_select(parts, 0, 0), *k = sn_select(parts, 0, 1), *v = sn_select(parts, 0, 2);
    sn_tensor *y = sn_scaled_dot_product_attention_ex(q, k, v, NULL, 0, true, (sn_value){0}, false);
    return block_linear(sn_reshape(sn_transpose(y, 1, 2), SN_INTS(b, t, WIDTH)), w + 2);
}
static sn_tensor *block(sn_tensor *x, sn_tensor *const *w) {
    x = sn_add(x, block_attention(block_norm(x, w), w + 2));
    sn_tensor *h = sn_gelu_ex(block_linear(block_norm(x, w + 6), w + 8), "tanh");
    return sn_add(x, block_linear(h, w + 10));
}
/* Inputs: x, then its weights. */
static sn_status gpt2_block(sn_frame *f) {
    sn_tensor *w[BLOCK_WEIGHTS];
    for (int i = 0; i < BLOCK_WEIGHTS; i++) w[i] = sn_in(f, 1 + i);
    return sn_out(f, 0, block(sn_in(f, 0), w));
}
/* The i-th one. */
static sn_tensor *block_weight(int i) {
    static const int64_t layers[][2] = {{0, 0}, {3 * WIDTH, WIDTH}, {WIDTH, WIDTH},
                                        {0, 0}, {4 * WIDTH, WIDTH}, {WIDTH, 4 * WIDTH}};
    const int64_t rows = layers[i / 2][0], columns = layers[i / 2][1];
    if (i % 2) return sn_randn(SN_INTS(rows ? rows : WIDTH), SN_F32);
    sn_tensor *const weight = rows ? sn_randn(SN_INTS(rows, columns), SN_F32) : sn_randn(SN_INTS(WIDTH), SN_F32);
    return sn_mul_scalar(weight, sn_float(rows ? 0.02 : 1));
}
static void make_gpt2_block(Work *w, const int64_t *s) {
    const bool grad = s[2] != 0;
    w->kind = grad ? WORK_backward : WORK_forward;
    w->body = gpt2_block;
    keep(w, sn_requires_grad_(sn_randn(SN_INTS(s[0], s[1], WIDTH), SN_F32), grad));
    for (int i = 0; i < BLOCK_WEIGHTS; i++) keep(w, sn_requires_grad_(block_weight(i), grad));
}

/* 12 of them: all that they make is kept for the backward, or each is a checkpoint. */
enum { STACKED = 12 };

static sn_status stacked_blocks(sn_frame *f) {
    const bool *const checkpoints = sn_closure(f);
    sn_tensor *in[1 + BLOCK_WEIGHTS] = {sn_in(f, 0)};
    for (int i = 0; i < STACKED; i++) {
        for (int k = 1; k <= BLOCK_WEIGHTS; k++) in[k] = sn_in(f, BLOCK_WEIGHTS * i + k);
        sn_tensor *out = NULL;
        if (*checkpoints)
            sn_checkpoint(gpt2_block, NULL, NULL, (sn_tensors){in, 1 + BLOCK_WEIGHTS}, &out, 1);
        else
            out = block(in[0], in + 1);
        in[0] = out;
    }
    return sn_out(f, 0, in[0]);
}

static void make_blocks(Work *w, const int64_t *s) { /* b, t, with checkpoints */
    static bool checkpoints[] = {false, true};
    w->kind = WORK_backward;
    w->body = stacked_blocks;
    w->closure = &checkpoints[s[2]];
    normal(w, SN_INTS(s[0], s[1], WIDTH));
    for (int i = 0; i < STACKED * BLOCK_WEIGHTS; i++) keep(w, sn_requires_grad_(block_weight(i % BLOCK_WEIGHTS), true));
}

/* training steps ------------------------------------------------------------------------------ */

typedef struct Net {
    sn_dict *params;
    sn_optim *opt;
    sn_tensor *weight[3], *bias[3];
} Net;

static void net_free(void *closure) {
    Net *net = closure;
    sn_optim_free(net->opt);
    sn_dict_free(net->params);
    free(net);
}

static Net *net_new(Work *w, sn_body body) {
    Net *net = calloc(1, sizeof *net);
    net->params = sn_dict_new();
    w->kind = WORK_step;
    w->body = body;
    w->closure = net;
    w->closure_free = net_free;
    return net;
}

static sn_status mlp_step(sn_frame *f) {
    const Net *net = sn_closure(f);
    sn_tensor *h = sn_in(f, 0);
    for (int i = 0; i < 3; i++) {
        h = sn_linear(h, net->weight[i], net->bias[i]);
        if (i < 2) h = sn_relu(h);
    }
    sn_tensor *loss = sn_cross_entropy(h, sn_in(f, 1));
    sn_optim_zero_grad(net->opt);
    sn_backward(loss);
    sn_optim_step(net->opt);
    return sn_out(f, 0, loss);
}
static void make_mlp_step(Work *w, const int64_t *s) {
    static const int64_t widths[] = {784, 512, 512, 10};
    static const char *const names[] = {"fc1", "fc2", "fc3"};
    Net *net = net_new(w, mlp_step);
    for (int i = 0; i < 3; i++)
        sn_param_linear(net->params, names[i], widths[i], widths[i + 1], &net->weight[i], &net->bias[i]);
    net->opt = sn_adamw(net->params, 1e-3, 0.01);
    normal(w, SN_INTS(s[0], 784));
    classes(w, s[0], 10);
}

/* That of samples/digits.c. */
static sn_status digits_step(sn_frame *f) {
    const Net *net = sn_closure(f);
    sn_tensor *h = sn_relu(sn_linear(sn_in(f, 0), net->weight[0], net->bias[0]));
    sn_tensor *loss = sn_cross_entropy(sn_linear(sn_dropout(h, 0.2, true), net->weight[1], net->bias[1]), sn_in(f, 1));
    sn_optim_zero_grad(net->opt);
    sn_backward(loss);
    sn_optim_step(net->opt);
    return sn_out(f, 0, loss);
}
static void make_digits_step(Work *w, const int64_t *s) {
    Net *net = net_new(w, digits_step);
    sn_param_linear(net->params, "fc1", 64, 128, &net->weight[0], &net->bias[0]);
    sn_param_linear(net->params, "fc2", 128, 10, &net->weight[1], &net->bias[1]);
    net->opt = sn_adamw(net->params, 1e-3, 0.01);
    normal(w, SN_INTS(s[0], 64));
    classes(w, s[0], 10);
}

static sn_status adamw(sn_frame *f) {
    const Net *net = sn_closure(f);
    return sn_optim_step(net->opt);
}
static void make_adamw(Work *w, const int64_t *s) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                                        "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"};
    Net *net = net_new(w, adamw);
    for (int i = 0; i < 20; i++) {
        sn_tensor *p = sn_param(net->params, names[i], sn_randn(SN_INTS(s[0], s[1]), SN_F32));
        sn_tensor *g = sn_randn(SN_INTS(s[0], s[1]), SN_F32);
        sn_grad_set(p, g);
    }
    net->opt = sn_adamw(net->params, 1e-3, 0.01);
}

#define GEMM(m, n, k)                                                                                                  \
    { "gemm/" #m "x" #n "x" #k, make_linear, {m, n, k}, true }
#define R18(i)                                                                                                         \
    {"conv/r18_" #i, make_convolution, {i, 0}}, {                                                                      \
        "conv/r18_" #i "_cl", make_convolution, { i, 1 }                                                               \
    }
#define GEMMS(m) GEMM(m, 768, 768), GEMM(m, 3072, 768), GEMM(m, 768, 3072)

#define DEVICE(name, make, columns, streams)                                                                           \
    {"device/" name, make, {0, columns}, false, streams, SN_DTYPE_DEFAULT}, {                                          \
        "device/" name "_bf16", make, {0, columns}, false, streams, SN_BF16                                            \
    }

const BenchRow bench_rows[] = {
    {"eager/add16", make_add16, {16}},
    {"eager/add16_grad", make_add16_grad, {16}},
    {"eager/relu16", make_relu16, {16}},
    {"eager/view16", make_view16, {16}},
    {"eager/sum16", make_sum16, {16}},
    {"eager/mm4", make_mm4, {4}},
    {"eager/chain100", make_chain100, {16}},
    {"eager/number", make_numbers, {16, false}},
    {"eager/new_number", make_numbers, {16, true}},
    {"eager/size", make_sizes, {false}},
    {"eager/new_size", make_sizes, {true}},
    {"call/16in", make_call16, {16}},
    {"call/10000ops", make_forward, {4}},
    {"compile/pointwise", make_compile, {64, 256}},
    {"warm/softmax", make_softmax, {1024, 768}, .warm = true},
    {"warm/gpt2_block_fwd", make_gpt2_block, {4, 256, 0}, .warm = true},
    {"warm/gpt2_block_fwd_bwd", make_gpt2_block, {4, 256, 1}, .warm = true},
    {"nvrtc/silu_mul", make_silu_mul, {64, 64}, .nvrtc = true},
    {"nvrtc/softmax", make_softmax, {1024, 768}, .nvrtc = true},
    {"nvrtc/digits_step", make_digits_step, {64}, .nvrtc = true},
    {"nvrtc/gpt2_block_fwd_bwd", make_gpt2_block, {4, 256, 1}, .nvrtc = true},
    {"fuse/bias_gelu_res_ln", make_residual_tanh, {8192, 768}},
    {"fuse/bias_gelu_res_ln_1k", make_residual_tanh, {1024, 768}},
    {"fuse/bias_gelu_erf_res_ln", make_residual_erf, {8192, 768}},
    {"fuse/silu_mul", make_silu_mul, {4096, 4096}},
    {"fuse/chain20", make_chain20, {4096, 1024}},
    {"reduce/softmax", make_softmax, {8192, 1024}},
    {"reduce/layer_norm", make_layer_norm, {8192, 768}},
    {"reduce/layer_norm_fwd_bwd", make_layer_norm_backward, {8192, 768}},
    {"reduce/col_sum", make_col_sum, {8192, 768}},
    {"reduce/cross_entropy_fwd_bwd", make_cross_entropy_backward, {512, 50257}},
    {"gemm/linear_gelu", make_linear_gelu, {1024, 3072, 768}, true},
    GEMMS(1),
    GEMMS(8),
    GEMMS(64),
    GEMMS(256),
    GEMMS(1024),
    {"gemm/nn_1024", make_product, {1024, 1024, 1024}, true},
    {"gemm/tn_1024", make_product_transposed, {1024, 1024, 1024}, true},
    R18(0),
    R18(1),
    R18(2),
    R18(3),
    R18(4),
    R18(5),
    R18(6),
    R18(7),
    R18(8),
    R18(9),
    R18(10),
    {"model/mlp_step", make_mlp_step, {256}},
    {"model/gpt2_block_fwd", make_gpt2_block, {4, 256, 0}},
    {"model/gpt2_block_fwd_bwd", make_gpt2_block, {4, 256, 1}},
    {"mode/small50_no_grad", make_small_ops, {16, SN_GRAD_OFF}},
    {"mode/small50_inference", make_small_ops, {16, SN_INFERENCE}},
    {"mode/mm4096_no_grad", make_mode_product, {4096, 4096, 4096, SN_GRAD_OFF}, true},
    {"mode/mm4096_inference", make_mode_product, {4096, 4096, 4096, SN_INFERENCE}, true},
    {"optim/adamw", make_adamw, {512, 1024}},
    {"transform/linear_gelu", make_examples, {64, 3072, 768, 0}},
    {"transform/linear_gelu_vmap", make_examples, {64, 3072, 768, 1}},
    {"transform/blocks", make_blocks, {4, 256, 0}},
    {"transform/blocks_checkpointed", make_blocks, {4, 256, 1}},
    {"transform/scan", make_scan, {64, 16, 64, 0}},
    {"transform/scan_fwd_bwd", make_scan, {64, 16, 64, 1}},
    DEVICE("silu_mul", make_silu_mul, 4096, 3),
    DEVICE("bias_gelu_res_ln", make_residual_tanh, 768, 3),
    DEVICE("bias_gelu_erf_res_ln", make_residual_erf, 768, 3),
    DEVICE("chain20", make_chain20, 1024, 2),
    DEVICE("softmax", make_softmax, 1024, 2),
    DEVICE("softmax_wide", make_softmax, 50257, 2),
    DEVICE("layer_norm", make_layer_norm, 768, 2),
    DEVICE("row_sum", make_row_sum, 1024, 1),
    DEVICE("col_sum", make_col_sum, 768, 1),
    {.name = NULL},
};
