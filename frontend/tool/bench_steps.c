/* bench_steps.c: rows that are a whole training step: forward, cross entropy, backward, AdamW; and AdamW alone. */
#include <stdio.h>
#include <stdlib.h>

#include "frontend/tool/bench_make.h"

enum { NET_PARAMS = 160 };

typedef struct Net {
    sn_dict *params;
    sn_optim *opt;
    sn_tensor *at[NET_PARAMS]; /* borrowed from params: of a layer its weight, then its bias */
    int n;
} Net;

static void net_free(void *closure) {
    Net *net = closure;
    sn_optim_free(net->opt);
    sn_dict_free(net->params);
    free(net);
}

static Net *net_new(Work *w, sn_body body) {
    Net *net = calloc(1, sizeof *net);
    net->params = w->params = sn_dict_new();
    w->kind = WORK_step;
    w->body = body;
    w->closure = net;
    w->closure_free = net_free;
    return net;
}

static void net_linear(Net *net, const char *name, int64_t in, int64_t out) {
    sn_param_linear(net->params, name, in, out, &net->at[net->n], &net->at[net->n + 1]);
    net->n += 2;
}

static void net_param(Net *net, sn_tensor *init) {
    char name[16];
    snprintf(name, sizeof name, "p%03d", net->n);
    net->at[net->n++] = sn_param(net->params, name, init);
}

/* Sinter's optimizers take what the dictionary has when they are made. */
static void net_ready(Net *net) { net->opt = sn_adamw(net->params, 1e-3, 0.01); }

static sn_tensor *layer(const Net *net, int i, sn_tensor *x) {
    return sn_linear(x, net->at[2 * i], net->at[2 * i + 1]);
}

static sn_status train(const Net *net, sn_frame *f, sn_tensor *logits, sn_tensor *target) {
    sn_tensor *loss = sn_cross_entropy(logits, target);
    sn_optim_zero_grad(net->opt);
    sn_backward(loss);
    sn_optim_step(net->opt);
    return sn_out(f, 0, loss);
}

static sn_status mlp_step(sn_frame *f) {
    const Net *net = sn_closure(f);
    sn_tensor *h = sn_relu(layer(net, 0, sn_in(f, 0)));
    h = sn_relu(layer(net, 1, h));
    return train(net, f, layer(net, 2, h), sn_in(f, 1));
}
void bench_make_mlp_step(Work *w, const int64_t *s) {
    Net *net = net_new(w, mlp_step);
    net_linear(net, "fc1", 784, 512);
    net_linear(net, "fc2", 512, 512);
    net_linear(net, "fc3", 512, 10);
    net_ready(net);
    normal(w, SN_INTS(s[0], 784));
    classes(w, SN_INTS(s[0]), 10);
}

/* That of samples/digits.c. */
static sn_status digits_step(sn_frame *f) {
    const Net *net = sn_closure(f);
    sn_tensor *h = sn_dropout(sn_relu(layer(net, 0, sn_in(f, 0))), 0.2, true);
    return train(net, f, layer(net, 1, h), sn_in(f, 1));
}
void bench_make_digits_step(Work *w, const int64_t *s) {
    Net *net = net_new(w, digits_step);
    net_linear(net, "fc1", 64, 128);
    net_linear(net, "fc2", 128, 10);
    net_ready(net);
    normal(w, SN_INTS(s[0], 64));
    classes(w, SN_INTS(s[0]), 10);
}

/* Two convolutions of 3x3 with a maximum of 2x2 behind each, two layers. */
static sn_tensor *convolve(const Net *net, int i, sn_tensor *x) {
    x = sn_conv2d_ex(x, net->at[2 * i], net->at[2 * i + 1], SN_INTS(1, 1), SN_INTS(1, 1), SN_INTS(1, 1), 1);
    return sn_max_pool2d(sn_relu(x), SN_INTS(2, 2), SN_INTS(2, 2), SN_INTS(0, 0));
}
static sn_status convnet_step(sn_frame *f) {
    const Net *net = sn_closure(f);
    sn_tensor *h = convolve(net, 1, convolve(net, 0, sn_in(f, 0)));
    h = sn_relu(layer(net, 2, sn_flatten(h, 1, -1)));
    return train(net, f, layer(net, 3, h), sn_in(f, 1));
}
static void convolution_params(Net *net, int64_t in, int64_t out) {
    net_param(net, sn_mul_scalar(sn_randn(SN_INTS(out, in, 3, 3), SN_F32), sn_float(in == 1 ? 0.3 : 0.06)));
    net_param(net, sn_zeros(SN_INTS(out), SN_F32));
}
void bench_make_convnet_step(Work *w, const int64_t *s) {
    Net *net = net_new(w, convnet_step);
    convolution_params(net, 1, 32);
    convolution_params(net, 32, 64);
    net_linear(net, "q1", 3136, 128); /* behind p... in the order of names */
    net_linear(net, "q2", 128, 10);
    net_ready(net);
    normal(w, SN_INTS(s[0], 1, 28, 28));
    classes(w, SN_INTS(s[0]), 10);
}

/* GPT-2: embeddings of tokens and places, blocks, a norm, the tokens' embedding again as the head. */
enum { GPT2_PLACES = 1024, GPT2_FIRST = 4 };

static sn_status gpt2_step(sn_frame *f) {
    const Net *net = sn_closure(f);
    sn_tensor *const *const w = net->at, *ids = sn_in(f, 0);
    sn_tensor *const places = sn_embedding(w[1], sn_arange(sn_int(sn_size(ids, 1)), SN_I64));
    sn_tensor *x = sn_add(sn_embedding(w[0], ids), places);
    for (int i = GPT2_FIRST; i < net->n; i += BENCH_BLOCK_WEIGHTS) x = bench_block(x, w + i);
    sn_tensor *logits = sn_linear(sn_layer_norm(x, SN_INTS(BENCH_WIDTH), w[2], w[3]), w[0], NULL);
    logits = sn_view(logits, SN_INTS(-1, sn_size(w[0], 0)));
    return train(net, f, logits, sn_view(sn_in(f, 1), SN_INTS(-1)));
}
void bench_make_gpt2_step(Work *w, const int64_t *s) {
    Net *net = net_new(w, gpt2_step);
    net_param(net, sn_mul_scalar(sn_randn(SN_INTS(s[3], BENCH_WIDTH), SN_F32), sn_float(0.02)));
    net_param(net, sn_mul_scalar(sn_randn(SN_INTS(GPT2_PLACES, BENCH_WIDTH), SN_F32), sn_float(0.02)));
    for (int i = 0; i < 2; i++) net_param(net, bench_block_weight(i));
    for (int i = 0; i < s[0] * BENCH_BLOCK_WEIGHTS; i++) net_param(net, bench_block_weight(i % BENCH_BLOCK_WEIGHTS));
    net_ready(net);
    classes(w, SN_INTS(s[1], s[2]), s[3]);
    classes(w, SN_INTS(s[1], s[2]), s[3]);
}

static sn_status adamw(sn_frame *f) {
    const Net *net = sn_closure(f);
    return sn_optim_step(net->opt);
}
void bench_make_adamw(Work *w, const int64_t *s) {
    Net *net = net_new(w, adamw);
    for (int i = 0; i < 20; i++) {
        net_param(net, sn_randn(SN_INTS(s[0], s[1]), SN_F32));
        sn_grad_set(net->at[i], sn_randn(SN_INTS(s[0], s[1]), SN_F32));
    }
    net_ready(net);
}
