/* train.c: training of the sample gpt. A step is one compiled function: it draws its batch from the text by the
 * state's generator, adds the gradients of several parts, clips them and updates; the host gives it the learning
 * rate and reads the loss. */
#include <math.h>
#include <sinter/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../sample.h"
#include "gpt.h"

sn_tensor *gpt_text(sn_device device) {
    char path[1024];
    snprintf(path, sizeof path, "%s/gpt/text.txt", sample_data_dir());
    FILE *const file = fopen(path, "rb");
    static char text[1 << 20];
    const size_t n = file ? fread(text, 1, sizeof text, file) : 0;
    if (file) fclose(file);
    if (!n) {
        fprintf(stderr, "gpt: %s cannot be read\n", path);
        sn_fail(SN_ERR_IO, "the text cannot be read");
        return NULL;
    }
    return sn_to_device(sn_from_data(text, SN_INTS((int64_t)n), SN_U8), device);
}

void gpt_training_new(GptTraining *t) {
    t->optim = sn_adamw(t->model.params, t->plan.rate, t->plan.weight_decay);
    t->text = sn_keep(gpt_text(t->model.device));
    t->losses = calloc((size_t)t->plan.steps, sizeof *t->losses);
    t->step = 0;
}

void gpt_training_free(GptTraining *t) {
    sn_optim_free(t->optim);
    sn_release(t->text);
    free(t->losses);
    gpt_free(&t->model);
}

/* Pieces of context + 1 bytes from places that the generator draws: i64 [batch, context + 1]. */
static sn_tensor *draw(const GptTraining *t) {
    const int64_t length = t->model.shape->context + 1, last = sn_numel(t->text) - length;
    sn_tensor *const unit = sn_rand(SN_INTS(t->plan.batch, 1), SN_F32);
    sn_tensor *const at = sn_to(sn_mul_scalar(unit, sn_float((double)last)), SN_I64);
    sn_tensor *const places = sn_add(at, sn_arange(sn_int(length), SN_I64));
    return sn_to(sn_take(t->text, places), SN_I64);
}

static sn_tensor *part_loss(const GptTraining *t) {
    const int64_t context = t->model.shape->context;
    sn_tensor *const bytes = draw(t);
    sn_tensor *const logits = gpt_forward(&t->model, sn_narrow(bytes, 1, 0, context));
    sn_tensor *const wanted = sn_flatten(sn_narrow(bytes, 1, 1, context), 0, 1);
    sn_tensor *const loss = sn_cross_entropy(sn_to(sn_flatten(logits, 0, 1), SN_F32), wanted);
    return sn_mul_scalar(loss, sn_float(1.0 / t->plan.accumulate));
}

sn_status gpt_train_step(sn_frame *f) {
    const GptTraining *const t = sn_closure(f);
    sn_copy_(sn_optim_lr(t->optim), sn_in(f, 0));
    sn_optim_zero_grad(t->optim);
    sn_tensor *total = NULL;
    for (int i = 0; i < t->plan.accumulate; i++) {
        sn_tensor *const loss = part_loss(t);
        sn_backward(loss);
        total = total ? sn_add(total, sn_detach(loss)) : sn_detach(loss);
    }
    sn_clip_grad_norm(t->model.params, t->plan.clip);
    sn_optim_step(t->optim);
    return sn_out(f, 0, total);
}

/* Linear up to plan->rate, then half a cosine down to a tenth of it. */
static double rate_at(const GptPlan *plan, int step) {
    const double pi = 3.14159265358979323846, least = plan->rate / 10;
    if (step < plan->warm_up) return plan->rate * (step + 1) / plan->warm_up;
    const double falling = plan->steps > plan->warm_up ? plan->steps - plan->warm_up : 1;
    return least + (plan->rate - least) * (1 + cos(pi * (step - plan->warm_up) / falling)) / 2;
}

sn_tensor *gpt_rate(const GptPlan *plan, int step) {
    return sn_full_ex((sn_ints){NULL, 0}, sn_float(rate_at(plan, step)), SN_F64, sn_none(), sn_int(SN_CPU), sn_none());
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show_progress(const GptTraining *t) {
    fprintf(stderr, "\rstep %d of %d, loss %.4f ", t->step, t->plan.steps, (double)t->losses[t->step - 1]);
    if (t->step == t->plan.steps) fputc('\n', stderr);
}

double gpt_train(GptTraining *t, sn_function *step, int until, bool progress) {
    const bool show = progress && isatty(STDERR_FILENO);
    double start = seconds_now();
    const int warm = t->step + 2;
    while (t->step < until && !sn_check()) {
        if (t->step == warm) start = seconds_now();
        const sn_scope scope = sn_scope_begin();
        sn_default_device_set(t->model.device); /* until the scope ends: where batches are drawn */
        sn_tensor *const loss = SN_CALL(step, gpt_rate(&t->plan, t->step));
        t->losses[t->step++] = (float)sn_item(loss);
        sn_scope_end(scope);
        if (show) show_progress(t);
    }
    return seconds_now() - start;
}
