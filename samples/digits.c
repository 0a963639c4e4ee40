/* digits: trains a 64-128-10 perceptron with dropout on handwritten digits, eagerly and compiled,
 * and compares every bit.
 *
 * A training step is forward, cross entropy, backward and AdamW, captured as one graph. Both runs
 * start from the same seed; every loss and every final parameter must be equal to the last bit.
 * Options: --json, --steps N, --save FILE: what was learnt as a plan, which the sample infer runs; --device=cuda: all
 * of it on a GPU, which gives the same bits; --preset=reduce-overhead: a step there is one launch. */
#include <sinter/device.h>
#include <sinter/sinter.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sample.h"
#include "work.h"

const char sample_arguments[] = "[--json] [--steps N] [--save FILE] [--device=cuda] [--preset=reduce-overhead]";

enum { BATCH = 64, CLASSES = 10, MAX_STEPS = 100000, PARAMS = 64 * 128 + 128 + 128 * 10 + 10 };

static sn_device device = SN_CPU;
static sn_preset preset = SN_PRESET_DEFAULT;

typedef struct Model {
    sn_dict *params;
    sn_tensor *w1, *b1, *w2, *b2;
    sn_optim *opt;
} Model;

typedef struct Data {
    sn_tensor *train_x, *train_y, *test_x, *test_y;
} Data;

typedef struct Result {
    float *losses; /* one per step */
    float params[PARAMS];
    double accuracy, step_ms;
    uint64_t logits; /* digest, of a run that saves */
    sn_stats stats;
    double share;
} Result;

static sn_tensor *forward(const Model *m, sn_tensor *x, bool train) {
    sn_tensor *h = sn_relu(sn_linear(x, m->w1, m->b1));
    return sn_linear(sn_dropout(h, 0.2, train), m->w2, m->b2);
}

static sn_status train_step(sn_frame *f) {
    const Model *m = sn_closure(f);
    sn_tensor *loss = sn_cross_entropy(forward(m, sn_in(f, 0), true), sn_in(f, 1));
    sn_optim_zero_grad(m->opt);
    sn_backward(loss);
    sn_optim_step(m->opt);
    return sn_out(f, 0, loss);
}

static sn_status count_right(sn_frame *f) {
    sn_tensor *guess = sn_argmax(forward(sn_closure(f), sn_in(f, 0), false), -1, false);
    return sn_out(f, 0, sn_sum(sn_eq(guess, sn_in(f, 1))));
}

static sn_status logits(sn_frame *f) { return sn_out(f, 0, forward(sn_closure(f), sn_in(f, 0), false)); }

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Pixels of 0..16 as floats of 0..1, labels as i64; kept until the end. */
static bool load(Data *d) {
    char path[1024];
    snprintf(path, sizeof path, "%s/digits/digits.safetensors", sample_data_dir());
    sn_dict *file = sn_dict_load(path);
    sn_tensor *x = sn_to(sn_dict_get(file, "train.x"), SN_F32);
    d->train_x = sn_keep(sn_mul_scalar(x, sn_float(1.0 / 16)));
    x = sn_to(sn_dict_get(file, "test.x"), SN_F32);
    d->test_x = sn_keep(sn_mul_scalar(x, sn_float(1.0 / 16)));
    d->train_y = sn_keep(sn_to(sn_dict_get(file, "train.y"), SN_I64));
    d->test_y = sn_keep(sn_to(sn_dict_get(file, "test.y"), SN_I64));
    sn_dict_free(file);
    sn_tensor **const all[] = {&d->train_x, &d->train_y, &d->test_x, &d->test_y};
    for (int i = 0; device != SN_CPU && i < 4; i++) {
        sn_tensor *there = sn_keep(sn_to_device(*all[i], device));
        sn_release(*all[i]);
        *all[i] = there;
    }
    return !sn_check();
}

static void drop(Data *d) {
    sn_release(d->train_x), sn_release(d->train_y);
    sn_release(d->test_x), sn_release(d->test_y);
}

static void batch_at(const Data *d, int64_t at, sn_tensor **in) {
    in[0] = sn_narrow(d->train_x, 0, at, BATCH);
    in[1] = sn_narrow(d->train_y, 0, at, BATCH);
}

/* The parameter on the device, in the place of the one on the CPU. */
static void move(sn_dict *params, const char *name, sn_tensor **t) {
    if (device != SN_CPU) *t = sn_param(params, name, sn_to_device(sn_detach(*t), device));
}

static void model_new(Model *m) {
    sn_seed(7);
    m->params = sn_dict_new();
    sn_param_linear(m->params, "fc1", 64, 128, &m->w1, &m->b1);
    sn_param_linear(m->params, "fc2", 128, 10, &m->w2, &m->b2);
    move(m->params, "fc1.weight", &m->w1), move(m->params, "fc1.bias", &m->b1);
    move(m->params, "fc2.weight", &m->w2), move(m->params, "fc2.bias", &m->b2);
    m->opt = sn_adamw(m->params, 1e-3, 0.01);
}

static void model_free(Model *m) {
    sn_optim_free(m->opt);
    sn_dict_free(m->params);
}

void sample_work(SampleWork *work) {
    static Data d;
    static Model m;
    *work = (SampleWork){.kind = SAMPLE_STEP, .body = train_step, .closure = &m, .n_in = 2, .n_out = 1};
    if (!load(&d)) return;
    model_new(&m);
    batch_at(&d, 0, work->in);
}

static void train(sn_function *step, const Data *d, int steps, Result *r) {
    const int64_t batches = sn_size(d->train_x, 0) / BATCH;
    double start = now_ms();
    for (int i = 0; i < steps && !sn_check(); i++) {
        if (i == 10) start = now_ms(); /* warm: the first steps capture and compile */
        sn_scope scope = sn_scope_begin();
        const int64_t at = i % batches * BATCH;
        sn_tensor *in[2], *loss;
        batch_at(d, at, in);
        sn_call(step, in, 2, &loss, 1);
        r->losses[i] = (float)sn_item(loss);
        sn_scope_end(scope);
    }
    r->step_ms = (now_ms() - start) / (steps > 10 ? steps - 10 : 1);
}

static double test(sn_function *count, const Data *d) {
    sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(SN_GRAD_OFF); /* until the scope ends */
    sn_tensor *in[] = {d->test_x, d->test_y}, *right;
    sn_call(count, in, 2, &right, 1);
    const double accuracy = sn_item(right) / (double)sn_numel(d->test_y);
    sn_scope_end(scope);
    return accuracy;
}

static void read_params(const Model *m, float *to) {
    for (int i = 0; i < sn_dict_count(m->params); i++) {
        sn_tensor *p = sn_dict_at(m->params, i);
        sn_read(p, to, (size_t)sn_numel(p) * sizeof *to);
        to += sn_numel(p);
    }
}

/* Two sizes of batches: the plan is for any. */
static void save_plan(Model *m, const Data *d, const char *path, Result *r) {
    static float bits[1000 * CLASSES];
    sn_scope scope = sn_no_grad_begin();
    sn_function *infer = sn_compile(logits, m, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, .name = "digits"));
    SN_CALL(infer, sn_narrow(d->train_x, 0, 0, BATCH));
    sn_tensor *y = SN_CALL(infer, d->test_x);
    const size_t bytes = (size_t)sn_numel(y) * sizeof *bits;
    if (bytes <= sizeof bits && sn_read(y, bits, bytes) == SN_OK) r->logits = sample_digest(bits, bytes);
    sn_plan_save(infer, path, SN_PLAN_OPTIONS(.embed = true, .tensors = m->params));
    sn_function_free(infer);
    sn_scope_end(scope);
}

static bool run(sn_compile_mode mode, const Data *d, int steps, const char *save, Result *r) {
    Model m;
    model_new(&m);
    r->losses = calloc((size_t)steps, sizeof *r->losses);
    sn_function *step = sn_compile(train_step, &m, SN_COMPILE_OPTIONS(.mode = mode, .preset = preset, .name = "train"));
    sn_function *count = sn_compile(count_right, &m, SN_COMPILE_OPTIONS(.mode = mode, .name = "test"));
    train(step, d, steps, r);
    r->accuracy = test(count, d);
    read_params(&m, r->params);
    if (save) save_plan(&m, d, save, r);
    r->stats.size = sizeof r->stats;
    sn_function_stats(step, &r->stats);
    const int64_t ops = r->stats.ops_generated + r->stats.ops_interpreted + r->stats.ops_eager;
    r->share = ops ? (double)r->stats.ops_generated / (double)ops : 0;
    if (mode != SN_COMPILE_EAGER && getenv("SAMPLE_EXPLAIN")) fputs(sn_explain(step), stderr);
    sn_function_free(step);
    sn_function_free(count);
    model_free(&m);
    return !sn_check();
}

static int64_t count_differing(const float *a, const float *b, int n) {
    int64_t differing = 0;
    for (int i = 0; i < n; i++) differing += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    return differing;
}

static uint64_t digest(const float *params) { return sample_digest(params, PARAMS * sizeof *params); }

static void print_json(const Result *e, const Result *c, int64_t differing, int64_t compared) {
    const sn_stats *s = &c->stats;
    printf("{\"accuracy\": %.4f, \"differing_values\": %lld, \"values_compared\": %lld, "
           "\"kernels_per_step\": %lld, "
           "\"eager_ms_per_step\": %.4f, \"compiled_ms_per_step\": %.4f, \"compile_ms\": %.3f, "
           "\"compiled_share\": %.4f, \"digest\": \"%016llx\", \"logits\": \"%016llx\"}\n",
           c->accuracy, (long long)differing, (long long)compared, (long long)s->kernels, e->step_ms, c->step_ms,
           (double)(s->passes_ns + s->codegen_ns) * 1e-6, c->share, (unsigned long long)digest(c->params),
           (unsigned long long)c->logits);
}

static void print_text(const Result *e, const Result *c, int steps, int64_t differing, int64_t compared) {
    const sn_stats *s = &c->stats;
    printf("%-8s %-12s %-12s\n", "step", "eager loss", "compiled loss");
    for (int i = 0; i<steps; i += steps> 10 ? steps / 10 : 1)
        printf("%-8d %-12.6f %-12.6f\n", i, (double)e->losses[i], (double)c->losses[i]);
    printf("test accuracy            eager %.2f %%, compiled %.2f %%\n", 100 * e->accuracy, 100 * c->accuracy);
    printf("values that differ       %lld of %lld (parameters and every loss, to the last bit)\n", (long long)differing,
           (long long)compared);
    printf("kernels per step         %lld in %lld graph%s\n", (long long)s->kernels, (long long)s->graphs,
           s->graphs == 1 ? "" : "s");
    printf("time per step            eager %.3f ms, compiled %.3f ms (%.2f times)\n", e->step_ms, c->step_ms,
           e->step_ms / c->step_ms);
    printf("compile time             trace %.2f ms, passes %.2f ms, code %.2f ms\n", (double)s->trace_ns * 1e-6,
           (double)s->passes_ns * 1e-6, (double)s->codegen_ns * 1e-6);
    printf("compiled share           %.3f of all ops after the first call\n", c->share);
    printf("digest of the parameters eager %016llx, compiled %016llx\n", (unsigned long long)digest(e->params),
           (unsigned long long)digest(c->params));
    if (c->logits) printf("digest of saved logits   %016llx\n", (unsigned long long)c->logits);
}

/* A number of steps and nothing else; 0: it is none. */
static int steps_read(const char *text) {
    char *end;
    const long steps = strtol(text, &end, 10);
    return *end || steps < 1 || steps > MAX_STEPS ? 0 : (int)steps;
}

int main(int argc, char **argv) {
    int steps = 1000;
    bool json = false;
    const char *save = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json")) {
            json = true;
        } else if (!strcmp(argv[i], "--steps") && i + 1 < argc) {
            steps = steps_read(argv[++i]);
        } else if (!strcmp(argv[i], "--save") && i + 1 < argc) {
            save = argv[++i];
        } else if (!strcmp(argv[i], "--device=cuda")) {
            device = SN_CUDA(0);
        } else if (!strcmp(argv[i], "--preset=reduce-overhead")) {
            preset = SN_PRESET_REDUCE_OVERHEAD;
        } else {
            fprintf(stderr, "digits: unexpected '%s'; arguments: %s\n", argv[i], sample_arguments);
            return 2;
        }
        if (!steps) {
            fprintf(stderr, "digits: --steps wants 1 to %d, not '%s'\n", MAX_STEPS, argv[i]);
            return 2;
        }
    }
    static Result eager, compiled;
    Data data = {0};
    if (load(&data) && run(SN_COMPILE_EAGER, &data, steps, NULL, &eager) &&
        run(SN_COMPILE_VERIFY, &data, steps, save, &compiled)) {
        const int64_t differing = count_differing(eager.losses, compiled.losses, steps) +
                                  count_differing(eager.params, compiled.params, PARAMS);
        if (json)
            print_json(&eager, &compiled, differing, steps + PARAMS);
        else
            print_text(&eager, &compiled, steps, differing, steps + PARAMS);
        if (differing) sn_fail(SN_ERR_INTERNAL, "compiled and eager differ");
    }
    drop(&data);
    free(eager.losses);
    free(compiled.losses);
    return sn_finish();
}
