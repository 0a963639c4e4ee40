/* gpt: a small GPT over the bytes of a text: trains with autocast, gradient accumulation, clipping and a learning
 * rate that warms up and falls, writes text from a cache of keys and values, and compares compiled with eager.
 *
 * The model and its training are the files of gpt/. The first --compare steps run eagerly, too, from the same seed:
 * every loss and every parameter must be equal to the last bit. A training saved by --save goes on by --resume with
 * the bits of one that never stopped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpt/gpt.h"
#include "sample.h"
#include "work.h"

const char sample_arguments[] =
    "[--json] [--steps N] [--until N] [--compare N] [--shape=small|tiny|124m] [--dtype=bf16|f16|f32] [--checkpoint]\n"
    "    [--batch N] [--accumulate N] [--save FILE] [--resume FILE] [--svg FILE] [--generate N] [--device=cuda]";

static const GptShape shapes[] = {
    {"small", 4, 128, 4, 128, 256}, {"124m", 12, 768, 12, 1024, 50257}, {"tiny", 2, 32, 2, 32, 256}, /* for tests */
};

static const char prompt[] = "The LORD is good ";

typedef struct Options {
    bool json, checkpoint;
    GptPlan plan;
    int until, compare, generate;
    const GptShape *shape;
    sn_dtype dtype;
    sn_device device;
    const char *save, *resume, *svg;
} Options;

typedef struct Measured {
    double tokens_per_second;
    int64_t peak_bytes;
} Measured;

typedef struct Result {
    Measured eager, compiled;
    int64_t differing, compared, decode_compiles;
    sn_stats stats;
    uint64_t digest; /* of the parameters at the end */
    char text[4096]; /* what was generated */
    int asked;       /* so many bytes of it */
} Result;

static void training_new(GptTraining *t, const Options *o) {
    sn_seed(7);
    *t = (GptTraining){.plan = o->plan};
    gpt_new(&t->model, o->shape, o->device);
    t->model.dtype = o->dtype;
    t->model.checkpoint = o->checkpoint;
    gpt_training_new(t);
}

void sample_work(SampleWork *work) {
    static GptTraining t;
    const Options o = {.plan = {.steps = 100, .warm_up = 10, .batch = 8, .accumulate = 1, .rate = 1e-3, .clip = 1},
                       .shape = &shapes[0],
                       .dtype = SN_BF16};
    training_new(&t, &o);
    *work = (SampleWork){.kind = SAMPLE_STEP, .body = gpt_train_step, .closure = &t, .n_in = 1, .n_out = 1};
    work->in[0] = gpt_rate(&t.plan, 0);
}

static sn_function *compile_step(GptTraining *t, sn_compile_mode mode) {
    return sn_compile(gpt_train_step, t, SN_COMPILE_OPTIONS(.mode = mode, .name = "gpt_step"));
}

/* Up to step `until`; of a run that only compiled there is no speed. */
static void measure(GptTraining *t, sn_function *step, int until, Measured *m) {
    const int64_t tokens = (int64_t)t->plan.batch * t->plan.accumulate * t->model.shape->context;
    const int before = t->step;
    sn_memory memory = {.size = sizeof memory};
    sn_memory_reset_peak(t->model.device);
    const double seconds = gpt_train(t, step, until, true);
    sn_memory_get(t->model.device, &memory);
    if (memory.peak > m->peak_bytes) m->peak_bytes = memory.peak;
    const int timed = until - before - 2;
    if (timed > 0 && seconds > 0) m->tokens_per_second = (double)(timed * tokens) / seconds;
}

static int64_t count_params(const GptTraining *t) {
    int64_t n = 0;
    for (int i = 0; i < sn_dict_count(t->model.params); i++) n += sn_numel(sn_dict_at(t->model.params, i));
    return n;
}

/* All parameters in a row; the caller's to free. */
static float *read_params(const GptTraining *t) {
    float *const all = malloc((size_t)count_params(t) * sizeof *all), *to = all;
    for (int i = 0; all && i < sn_dict_count(t->model.params); i++) {
        sn_tensor *const p = sn_dict_at(t->model.params, i);
        sn_read(p, to, (size_t)sn_numel(p) * sizeof *to);
        to += sn_numel(p);
    }
    return all;
}

static int64_t count_differing(const float *a, const float *b, int64_t n) {
    int64_t differing = 0;
    for (int64_t i = 0; i < n; i++) differing += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    return differing;
}

/* A training at its beginning, or where the file left it. */
static bool begin(const Options *o, GptTraining *t) {
    training_new(t, o);
    if (o->resume && !sn_check()) gpt_resume(t, o->resume);
    return !sn_check();
}

static int first_of(int a, int b) { return a < b ? a : b; }

/* What the first steps gave eagerly. */
typedef struct Reference {
    int step; /* so many were done */
    float *losses, *params;
} Reference;

static void run_eager(const Options *o, Reference *ref, Result *r) {
    GptTraining t;
    if (begin(o, &t)) {
        sn_function *const step = compile_step(&t, SN_COMPILE_EAGER);
        measure(&t, step, first_of(t.step + o->compare, o->until), &r->eager);
        *ref = (Reference){.step = t.step, .losses = t.losses, .params = read_params(&t)};
        t.losses = NULL;
        sn_function_free(step);
    }
    gpt_training_free(&t);
}

/* The rest, compiled, from where both were compared. */
static void finish(const Options *o, GptTraining *t, sn_function *step, Result *r) {
    measure(t, step, o->until, &r->compiled);
    r->stats.size = sizeof r->stats;
    sn_function_stats(step, &r->stats);
    float *const params = read_params(t);
    if (params) r->digest = sample_digest(params, (size_t)count_params(t) * sizeof *params);
    free(params);
    if (o->save && !sn_check()) gpt_save(t, o->save);
    if (o->svg && !sn_check() && !gpt_chart(o->svg, t->losses, t->step)) sn_fail(SN_ERR_IO, "the SVG file fails");
    r->asked = o->generate;
    if (o->generate && !sn_check()) gpt_generate(&t->model, prompt, r->text, o->generate, &r->decode_compiles);
}

static void run_compiled(const Options *o, GptTraining *t, const Reference *ref, Result *r) {
    if (!begin(o, t)) return;
    sn_function *const step = compile_step(t, SN_COMPILE_VERIFY);
    measure(t, step, ref->step, &r->compiled);
    float *const params = read_params(t);
    const int64_t n = count_params(t);
    r->compared = n + t->step;
    if (params && ref->params)
        r->differing = count_differing(params, ref->params, n) + count_differing(t->losses, ref->losses, t->step);
    free(params);
    if (!sn_check()) finish(o, t, step, r);
    if (getenv("SAMPLE_EXPLAIN")) fputs(sn_explain(step), stderr);
    sn_function_free(step);
}

/* printing ------------------------------------------------------------------------------------ */

static double share_of(const sn_stats *s) {
    const int64_t ops = s->ops_generated + s->ops_interpreted + s->ops_eager;
    return ops ? (double)s->ops_generated / (double)ops : 0;
}

/* Text as a JSON string: the bytes are those of a model, so any. */
static void print_quoted(const char *text) {
    putchar('"');
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < ' ' || *p >= 127 || *p == '"' || *p == '\\')
            printf("\\u%04x", *p);
        else
            putchar(*p);
    }
    putchar('"');
}

static void print_json(const GptTraining *t, const Result *r) {
    const sn_stats *const s = &r->stats;
    printf("{\"differing_values\": %lld, \"values_compared\": %lld, \"eager_tokens_per_second\": %.1f, "
           "\"tokens_per_second\": %.1f, \"eager_peak_bytes\": %lld, \"peak_bytes\": %lld, \"graphs\": %lld, "
           "\"breaks\": %lld, \"kernels_per_step\": %lld, \"compile_ms\": %.2f, \"compiled_share\": %.4f, "
           "\"decode_compiles\": %lld, \"digest\": \"%016llx\", \"steps\": %d, \"generated\": ",
           (long long)r->differing, (long long)r->compared, r->eager.tokens_per_second, r->compiled.tokens_per_second,
           (long long)r->eager.peak_bytes, (long long)r->compiled.peak_bytes, (long long)s->graphs,
           (long long)s->breaks, (long long)s->kernels, (double)(s->passes_ns + s->codegen_ns) * 1e-6, share_of(s),
           (long long)r->decode_compiles, (unsigned long long)r->digest, t->step);
    print_quoted(r->text);
    printf(", \"losses\": [");
    for (int i = 0; i < t->step; i++) printf("%s%.6f", i ? ", " : "", (double)t->losses[i]);
    printf("]}\n");
}

static void print_text(const GptTraining *t, const Result *r) {
    const sn_stats *const s = &r->stats;
    for (int i = 0; i<t->step; i += t->step> 10 ? t->step / 10 : 1)
        printf("step %-6d loss %.4f\n", i, (double)t->losses[i]);
    printf("step %-6d loss %.4f\n", t->step - 1, (double)t->losses[t->step - 1]);
    printf("parameters         %lld, digest %016llx\n", (long long)count_params(t), (unsigned long long)r->digest);
    printf("values that differ %lld of %lld (parameters and losses of the steps that ran eagerly, too)\n",
           (long long)r->differing, (long long)r->compared);
    printf("tokens per second  eager %.0f, compiled %.0f\n", r->eager.tokens_per_second, r->compiled.tokens_per_second);
    printf("peak memory        eager %.1f MiB, compiled %.1f MiB\n", (double)r->eager.peak_bytes / (1 << 20),
           (double)r->compiled.peak_bytes / (1 << 20));
    printf("a step             %lld kernels in %lld graph%s, compiled in %.1f ms\n", (long long)s->kernels,
           (long long)s->graphs, s->graphs == 1 ? "" : "s", (double)(s->passes_ns + s->codegen_ns) * 1e-6);
    if (*r->text) printf("generated          %s%s\n", prompt, r->text);
    if (*r->text && strlen(prompt) + (size_t)r->asked > (size_t)t->model.shape->context)
        printf("                   (%d bytes were asked for: the context, of %lld, is full)\n", r->asked,
               (long long)t->model.shape->context);
}

/* options ------------------------------------------------------------------------------------- */

static const GptShape *shape_named(const char *name) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (!strcmp(shapes[i].name, name)) return &shapes[i];
    return NULL;
}

static sn_dtype dtype_named(const char *name) {
    static const char *const names[] = {"f32", "bf16", "f16"};
    static const sn_dtype dtypes[] = {SN_F32, SN_BF16, SN_F16};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return dtypes[i];
    return SN_DTYPE_DEFAULT;
}

/* "--NAME N", a whole number of least to most; 0: another option; -1: a bad number. */
static int number_option(char **argv, const char *name, int least, int most, int *to) {
    if (strcmp(argv[0], name)) return 0;
    char *end = NULL;
    const long value = argv[1] && *argv[1] ? strtol(argv[1], &end, 10) : 0;
    if (!end || *end || value < least || value > most) {
        fprintf(stderr, "gpt: %s wants %d to %d, not '%s'\n", name, least, most, argv[1] ? argv[1] : "");
        return -1;
    }
    *to = (int)value;
    return 2;
}

static int text_option(char **argv, const char *name, const char **to) {
    if (strcmp(argv[0], name)) return 0;
    if (!argv[1]) {
        fprintf(stderr, "gpt: %s wants a file\n", name);
        return -1;
    }
    *to = argv[1];
    return 2;
}

/* "--NAME" or "--NAME=VALUE". */
static int word_option(const char *arg, Options *o) {
    if (!strcmp(arg, "--json")) return o->json = true;
    if (!strcmp(arg, "--checkpoint")) return o->checkpoint = true;
    if (!strcmp(arg, "--device=cuda")) return o->device = SN_CUDA(0), 1;
    if (!strncmp(arg, "--shape=", 8)) return (o->shape = shape_named(arg + 8)) != NULL;
    if (!strncmp(arg, "--dtype=", 8)) return (o->dtype = dtype_named(arg + 8)) != SN_DTYPE_DEFAULT;
    return 0;
}

/* How many of argv it took; 0: none of them is an option; -1: said what is wrong. */
static int option(char **argv, Options *o) {
    const struct {
        const char *name;
        int least, most, *to;
    } numbers[] = {{"--steps", 1, GPT_MOST_STEPS, &o->plan.steps}, {"--until", 0, GPT_MOST_STEPS, &o->until},
                   {"--compare", 0, GPT_MOST_STEPS, &o->compare},  {"--batch", 1, 1024, &o->plan.batch},
                   {"--accumulate", 1, 64, &o->plan.accumulate},   {"--generate", 0, 4000, &o->generate}};
    const struct {
        const char *name, **to;
    } files[] = {{"--save", &o->save}, {"--resume", &o->resume}, {"--svg", &o->svg}};
    int n = word_option(argv[0], o);
    for (size_t i = 0; !n && i < sizeof numbers / sizeof *numbers; i++)
        n = number_option(argv, numbers[i].name, numbers[i].least, numbers[i].most, numbers[i].to);
    for (size_t i = 0; !n && i < sizeof files / sizeof *files; i++) n = text_option(argv, files[i].name, files[i].to);
    return n;
}

static bool read_options(char **argv, Options *o) {
    for (argv++; *argv;) {
        const int n = option(argv, o);
        if (!n) fprintf(stderr, "gpt: unexpected '%s'; arguments: %s\n", *argv, sample_arguments);
        if (n < 1) return false;
        argv += n;
    }
    if (o->until < 0 || o->until > o->plan.steps) o->until = o->plan.steps;
    return true;
}

int main(int argc, char **argv) {
    (void)argc;
    Options o = {
        .plan =
            {.steps = 200, .warm_up = 20, .batch = 8, .accumulate = 2, .rate = 1e-3, .clip = 1, .weight_decay = 0.1},
        .until = -1,
        .compare = 5,
        .generate = 100,
        .shape = &shapes[0],
        .dtype = SN_BF16,
        .device = SN_CPU};
    if (!read_options(argv, &o)) return 2;
    GptTraining t = {0};
    Reference ref = {0};
    Result r = {0};
    run_eager(&o, &ref, &r);
    if (!sn_check()) run_compiled(&o, &t, &ref, &r);
    if (!sn_check()) (o.json ? print_json : print_text)(&t, &r);
    if (r.differing) sn_fail(SN_ERR_INTERNAL, "compiled and eager differ");
    free(ref.params), free(ref.losses);
    gpt_training_free(&t);
    return sn_finish();
}
