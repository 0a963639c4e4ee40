/* gpt.h: the parts of the sample gpt (../gpt.c): the model, its training, its file, what it writes.
 *
 * A decoder as GPT-2's over bytes: every byte of the text is a token, so there is nothing to tokenize. The parts
 * call each other in this order: gpt.c -> train.c, decode.c -> model.c; file.c and chart.c stand beside them. */
#ifndef SINTER_SAMPLES_GPT_H
#define SINTER_SAMPLES_GPT_H
#include <sinter/sinter.h>

enum { GPT_MOST_LAYERS = 48, GPT_MOST_STEPS = 100000 };

typedef struct GptShape {
    const char *name;
    int64_t layers, width, heads, context, vocabulary;
} GptShape;

typedef struct GptBlock {
    sn_attention attention;
    sn_tensor *norm1, *norm1_bias, *norm2, *norm2_bias;
    sn_tensor *up, *up_bias, *down, *down_bias;
} GptBlock;

typedef struct Gpt {
    const GptShape *shape;
    sn_device device;
    sn_dtype dtype;  /* of products, by autocast; SN_F32: as the parameters are */
    bool checkpoint; /* blocks are computed again in the backward */
    sn_dict *params; /* has all of these */
    sn_tensor *tokens, *places, *norm, *norm_bias;
    GptBlock blocks[GPT_MOST_LAYERS];
} Gpt;

/* How a run trains. */
typedef struct GptPlan {
    int steps, warm_up, batch, accumulate;
    double rate, clip, weight_decay;
} GptPlan;

/* A model in training: all that a file holds. */
typedef struct GptTraining {
    Gpt model;
    GptPlan plan;
    sn_optim *optim;
    sn_tensor *text; /* u8 [bytes], on the device */
    int step;        /* done so far */
    float *losses;   /* of each, room for plan.steps */
} GptTraining;

/* model.c: parameters from the state's generator, as PyTorch's modules begin, but for embeddings of deviation 0.02. */
void gpt_new(Gpt *model, const GptShape *shape, sn_device device);
void gpt_free(Gpt *model);
/* tokens i64 [B, T] -> logits [B, T, vocabulary]. */
sn_tensor *gpt_forward(const Gpt *model, sn_tensor *tokens);
sn_tensor *gpt_feed_forward(const GptBlock *block, sn_tensor *x);

/* train.c: the text of the sample's folder; NULL on error. */
sn_tensor *gpt_text(sn_device device);
void gpt_training_new(GptTraining *t);
void gpt_training_free(GptTraining *t);
/* One step: a batch drawn from the text, gradients of `accumulate` parts, clipping, AdamW. rate -> loss. */
sn_status gpt_train_step(sn_frame *f);
/* f64, of no dims, on the CPU, as the optimizer has it. */
sn_tensor *gpt_rate(const GptPlan *plan, int step);
/* Steps up to plan.steps or `until`; seconds that they took, without the first two, which compile. */
double gpt_train(GptTraining *t, sn_function *step, int until, bool progress);

/* decode.c: writes n bytes that follow `prompt` into `to`; compiles counts what was compiled for them. False and
 * an error where logits of decoding differ by a bit from those of the whole text at once. */
bool gpt_generate(const Gpt *model, const char *prompt, char *to, int n, int64_t *compiles);

/* file.c: parameters, optimizer, generator, step and losses, as safetensors. */
sn_status gpt_save(const GptTraining *t, const char *path);
sn_status gpt_resume(GptTraining *t, const char *path);

/* chart.c: the losses as a curve, an SVG of its own. */
bool gpt_chart(const char *path, const float *losses, int n);

#endif
