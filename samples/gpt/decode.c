/* decode.c: text from the model of the sample gpt, byte by byte. Keys and values of what was seen are kept in caches
 * that every byte's call writes at its position, a runtime number: one compiled graph serves all of them. A byte's
 * logits have the bits that the whole text at once gives (semantics B7), which is checked at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt.h"

typedef struct Decoder {
    const Gpt *model;
    sn_tensor *keys[GPT_MOST_LAYERS], *values[GPT_MOST_LAYERS]; /* [1, heads, context + 1, head] */
} Decoder;

/* A row more than is ever seen: all that is seen would be a layout of its own, compiled for the last byte alone. */
static void decoder_new(Decoder *d, const Gpt *m) {
    const GptShape *const s = m->shape;
    d->model = m;
    for (int64_t i = 0; i < s->layers; i++) {
        d->keys[i] = sn_zeros(SN_INTS(1, s->heads, s->context + 1, s->width / s->heads), m->dtype);
        d->values[i] = sn_zeros(SN_INTS(1, s->heads, s->context + 1, s->width / s->heads), m->dtype);
    }
}

/* Part 0, 1 or 2 of [1, T, 3, heads, head] as [1, heads, T, head]. */
static sn_tensor *part(sn_tensor *parts, int64_t which) { return sn_transpose(sn_select(parts, 2, which), 1, 2); }

/* x [1, T, width] stands at positions `at` and on. Several see themselves and what is before them; then at is 0. */
static sn_tensor *attend(const Decoder *d, int64_t layer, sn_tensor *x, sn_sym at, bool several) {
    const GptShape *const s = d->model->shape;
    const GptBlock *const b = &d->model->blocks[layer];
    const sn_sym length = sn_sym_size(x, 1);
    const int64_t from = sn_sym_arg(at), n = sn_sym_arg(length), seen = sn_sym_arg(sn_sym_op(at, '+', length));
    sn_tensor *const all = sn_linear(x, b->attention.in_weight, b->attention.in_bias);
    sn_tensor *const parts = sn_view(all, SN_INTS(1, n, 3, s->heads, s->width / s->heads));
    sn_copy_(sn_narrow(d->keys[layer], 2, from, n), part(parts, 1));
    sn_copy_(sn_narrow(d->values[layer], 2, from, n), part(parts, 2));
    sn_tensor *const keys = sn_narrow(d->keys[layer], 2, 0, seen);
    sn_tensor *const values = sn_narrow(d->values[layer], 2, 0, seen);
    sn_tensor *const y =
        sn_scaled_dot_product_attention_ex(part(parts, 0), keys, values, NULL, 0, several, sn_none(), false);
    return sn_linear(sn_flatten(sn_transpose(y, 1, 2), 2, 3), b->attention.out_weight, b->attention.out_bias);
}

/* tokens i64 [1, T] at positions `at` and on -> logits f32 [T, vocabulary]. */
static sn_tensor *logits_of(const Decoder *d, sn_tensor *tokens, sn_sym at, bool several) {
    const Gpt *const m = d->model;
    const sn_scope scope = sn_scope_begin();
    sn_autocast_set(m->device, m->dtype);
    const int64_t n = sn_sym_arg(sn_sym_size(tokens, 1));
    sn_tensor *x = sn_add(sn_embedding(m->tokens, tokens), sn_narrow(m->places, 0, sn_sym_arg(at), n));
    for (int64_t i = 0; i < m->shape->layers; i++) {
        const GptBlock *const b = &m->blocks[i];
        sn_tensor *const normed = sn_layer_norm(x, SN_INTS(m->shape->width), b->norm1, b->norm1_bias);
        x = gpt_feed_forward(b, sn_add(x, attend(d, i, normed, at, several)));
    }
    x = sn_layer_norm(x, SN_INTS(m->shape->width), m->norm, m->norm_bias);
    return sn_scope_return(scope, sn_to(sn_select(sn_linear(x, m->tokens, NULL), 0, 0), SN_F32));
}

/* A token by the probabilities of the last row, sharpened: the largest of logit plus Gumbel's noise. A vocabulary may
 * be larger than what a text has, bytes. i64 [1, 1] */
static sn_tensor *choose(sn_tensor *logits) {
    sn_tensor *const last = sn_narrow(sn_narrow(logits, 0, -1, 1), 1, 0, 256);
    sn_tensor *const unit = sn_rand(sn_sizes(last), SN_F32);
    sn_tensor *const noise = sn_neg(sn_log(sn_neg(sn_log(unit))));
    return sn_argmax(sn_add(sn_mul_scalar(last, sn_float(1.25)), noise), -1, true);
}

/* tokens [1, T] -> the next one, the logits of all. */
static sn_status prefill(sn_frame *f) {
    sn_tensor *const logits = logits_of(sn_closure(f), sn_in(f, 0), sn_sym_int(0), true);
    sn_out(f, 0, choose(logits));
    return sn_out(f, 1, logits);
}

/* A token [1, 1], its position -> the next one, its logits. */
static sn_status one_more(sn_frame *f) {
    sn_tensor *const logits = logits_of(sn_closure(f), sn_in(f, 0), sn_in_sym(f, 1), false);
    sn_out(f, 0, choose(logits));
    return sn_out(f, 1, logits);
}

static sn_tensor *tokens_of(const Gpt *m, const unsigned char *bytes, int n) {
    sn_tensor *const tokens = sn_from_data(bytes, SN_INTS(1, n), SN_U8);
    return sn_to(sn_to_device(tokens, m->device), SN_I64);
}

typedef struct Written {
    unsigned char text[4096]; /* prompt and what follows */
    int prompt, n;
    float *logits; /* of each position, [n, vocabulary] */
} Written;

/* Every byte behind the prompt by a call of its own. */
static void write_bytes(const Gpt *m, sn_function *first, sn_function *next, Written *w) {
    const int64_t row = m->shape->vocabulary;
    sn_tensor *out[2], *in = tokens_of(m, w->text, w->prompt);
    sn_call(first, &in, 1, out, 2);
    sn_read(out[1], w->logits, (size_t)(w->prompt * row) * sizeof *w->logits);
    for (int at = w->prompt; at < w->n && !sn_check(); at++) {
        sn_tensor *const token = out[0];
        w->text[at] = (unsigned char)sn_item_int(token);
        sn_call_values(next, (sn_value[]){sn_val(token), sn_int(at)}, 2, out, 2);
        sn_read(out[1], w->logits + at * row, (size_t)row * sizeof *w->logits);
    }
}

/* The logits of the whole text at once, beside those of its bytes one by one. */
static void compare_whole(const Gpt *m, sn_function *first, const Written *w) {
    const size_t bytes = (size_t)(w->n * m->shape->vocabulary) * sizeof(float);
    float *const whole = malloc(bytes);
    sn_tensor *out[2], *in = tokens_of(m, w->text, w->n);
    sn_call(first, &in, 1, out, 2);
    if (whole && sn_read(out[1], whole, bytes) == SN_OK && memcmp(whole, w->logits, bytes))
        sn_fail(SN_ERR_INTERNAL, "gpt: decoding and the whole text at once differ");
    free(whole);
}

static int64_t compiles_of(sn_function *fn) {
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fn, &stats);
    return stats.compiles;
}

bool gpt_generate(const Gpt *m, const char *prompt, char *to, int n, int64_t *compiles) {
    static Written w;
    Decoder d;
    const sn_scope scope = sn_no_grad_begin();
    sn_default_device_set(m->device);
    w.prompt = (int)strlen(prompt);
    w.n = w.prompt + n < (int)m->shape->context ? w.prompt + n : (int)m->shape->context;
    memcpy(w.text, prompt, (size_t)w.prompt);
    w.logits = malloc((size_t)(w.n * m->shape->vocabulary) * sizeof *w.logits);
    decoder_new(&d, m);
    sn_compile_options options = {.size = sizeof options, .mode = SN_COMPILE_REPLAY, .dynamic = SN_DYNAMIC_ALWAYS};
    sn_function *const first = sn_compile(prefill, &d, &options), *const next = sn_compile(one_more, &d, &options);
    write_bytes(m, first, next, &w);
    *compiles = compiles_of(next);
    compare_whole(m, first, &w);
    memcpy(to, w.text + w.prompt, (size_t)(w.n - w.prompt));
    to[w.n - w.prompt] = 0;
    sn_function_free(first);
    sn_function_free(next);
    free(w.logits);
    return sn_scope_end(scope) == SN_OK;
}
