/* model.c: a decoder of bytes as GPT-2's: embeddings of token and place, blocks of attention and feed-forward with
 * norms before each, the token embedding again as the head. */
#include <stdio.h>

#include "gpt.h"

static const char *name_of(char *to, size_t capacity, int64_t layer, const char *part) {
    snprintf(to, capacity, "h%lld.%s", (long long)layer, part);
    return to;
}

static void block_new(sn_dict *d, int64_t layer, const GptShape *shape, GptBlock *b) {
    char name[32];
    const int64_t width = shape->width;
    sn_param_layer_norm(d, name_of(name, sizeof name, layer, "norm1"), width, &b->norm1, &b->norm1_bias);
    sn_param_attention(d, name_of(name, sizeof name, layer, "attention"), width, shape->heads, true, &b->attention);
    sn_param_layer_norm(d, name_of(name, sizeof name, layer, "norm2"), width, &b->norm2, &b->norm2_bias);
    sn_param_linear(d, name_of(name, sizeof name, layer, "up"), width, 4 * width, &b->up, &b->up_bias);
    sn_param_linear(d, name_of(name, sizeof name, layer, "down"), 4 * width, width, &b->down, &b->down_bias);
}

static sn_tensor *embedding_new(sn_dict *d, const char *name, int64_t rows, int64_t width) {
    sn_tensor *const weight = sn_param_embedding(d, name, rows, width);
    sn_scope scope = sn_no_grad_begin();
    sn_mul_scalar_(weight, sn_float(0.02));
    sn_scope_end(scope);
    return weight;
}

void gpt_new(Gpt *m, const GptShape *shape, sn_device device) {
    const sn_scope scope = sn_scope_begin();
    sn_default_device_set(device);
    m->shape = shape;
    m->device = device;
    m->params = sn_dict_new();
    m->tokens = embedding_new(m->params, "tokens", shape->vocabulary, shape->width);
    m->places = embedding_new(m->params, "places", shape->context, shape->width);
    for (int64_t i = 0; i < shape->layers; i++) block_new(m->params, i, shape, &m->blocks[i]);
    sn_param_layer_norm(m->params, "norm", shape->width, &m->norm, &m->norm_bias);
    sn_scope_end(scope);
}

void gpt_free(Gpt *m) { sn_dict_free(m->params); }

sn_tensor *gpt_feed_forward(const GptBlock *b, sn_tensor *x) {
    sn_tensor *const normed = sn_layer_norm(x, SN_INTS(sn_size(x, -1)), b->norm2, b->norm2_bias);
    return sn_add(x, sn_linear(sn_gelu(sn_linear(normed, b->up, b->up_bias)), b->down, b->down_bias));
}

static sn_tensor *block_of(const GptBlock *b, sn_tensor *x) {
    sn_tensor *const normed = sn_layer_norm(x, SN_INTS(sn_size(x, -1)), b->norm1, b->norm1_bias);
    return gpt_feed_forward(b, sn_add(x, sn_self_attention(&b->attention, normed, true)));
}

static sn_status block_body(sn_frame *f) { return sn_out(f, 0, block_of(sn_closure(f), sn_in(f, 0))); }

/* With checkpoint a block keeps its input alone, and runs again in the backward. */
static sn_tensor *run_block(const Gpt *m, const GptBlock *b, sn_tensor *x) {
    sn_tensor *y = NULL;
    if (m->checkpoint)
        sn_checkpoint(block_body, (void *)b, NULL, SN_TENSORS(x), &y, 1);
    else
        y = block_of(b, x);
    return y;
}

sn_tensor *gpt_forward(const Gpt *m, sn_tensor *tokens) {
    const sn_scope scope = sn_scope_begin();
    sn_autocast_set(m->device, m->dtype); /* until the scope ends */
    sn_tensor *const places = sn_narrow(m->places, 0, 0, sn_sym_arg(sn_sym_size(tokens, 1)));
    sn_tensor *x = sn_add(sn_embedding(m->tokens, tokens), places);
    for (int64_t i = 0; i < m->shape->layers; i++) x = run_block(m, &m->blocks[i], x);
    x = sn_layer_norm(x, SN_INTS(m->shape->width), m->norm, m->norm_bias);
    return sn_scope_return(scope, sn_linear(x, m->tokens, NULL));
}
