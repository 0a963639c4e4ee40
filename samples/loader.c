/* loader: batches that reach the GPU while it computes on the ones before. Two pinned slots take turns: the host fills
 * one, a stream of its own copies it, and the device's stream waits for that copy alone. Runs the digits through a
 * compiled function by plain copies and by the loader, and prints a digest of the results, which must be the same, and
 * both times. --device=cuda: on the first GPU; else on the CPU, where the same program runs and nothing overlaps. */
#include <sinter/sinter.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sample.h"
#include "work.h"

const char sample_arguments[] = "[--device=cuda]";

enum { BATCH = 128, PIXELS = 64, HIDDEN = 256, EPOCHS = 4, SLOTS = 2 };

static sn_device device = SN_CPU;

typedef struct Loader {
    sn_tensor *rows; /* f32[n,64], on the CPU */
    int64_t n_batches;
    sn_stream *side;
    sn_tensor *pinned[SLOTS], *there[SLOTS];
    sn_event *copied[SLOTS];
} Loader;

static sn_tensor *batch_of(sn_tensor *rows, int64_t i) { return sn_narrow(rows, 0, i * BATCH, BATCH); }

static void loader_open(Loader *l, sn_tensor *rows) {
    *l = (Loader){.rows = rows, .n_batches = sn_size(rows, 0) / BATCH, .side = sn_stream_new(device)};
    for (int s = 0; s < SLOTS; s++) {
        l->pinned[s] = sn_keep(sn_pin(sn_clone(batch_of(rows, 0)), device));
        l->copied[s] = sn_event_new(device);
    }
}

/* Begins the copy of batch i. The slot's last copy has passed before the host writes there again. */
static void loader_begin(Loader *l, int64_t i) {
    const int slot = (int)(i % SLOTS);
    sn_event_synchronize(l->copied[slot]);
    sn_copy_(l->pinned[slot], batch_of(l->rows, i % l->n_batches));
    sn_scope scope = sn_scope_begin();
    sn_stream_use(l->side);
    l->there[slot] = sn_keep(sn_to_device_async(l->pinned[slot], device));
    sn_event_record(l->copied[slot], l->side);
    sn_scope_end(scope);
}

/* Batch i, for work on the device's own stream; its memory is used again when that is done. */
static sn_tensor *loader_take(Loader *l, int64_t i) {
    const int slot = (int)(i % SLOTS);
    sn_tensor *batch = l->there[slot];
    sn_stream_wait(sn_stream_own(device), l->copied[slot]);
    sn_record_stream(batch, sn_stream_own(device));
    l->there[slot] = NULL;
    return batch;
}

static void loader_close(Loader *l) {
    for (int s = 0; s < SLOTS; s++) {
        sn_release(l->pinned[s]), sn_release(l->there[s]);
        sn_event_free(l->copied[s]);
    }
    sn_stream_free(l->side);
}

/* What a batch adds to: the sums of its features' activations. */
static sn_status features(sn_frame *f) {
    sn_tensor *h = sn_relu(sn_mm(sn_in(f, 0), sn_in(f, 1)));
    return sn_out(f, 0, sn_add(sn_in(f, 2), sn_sum_dim(sn_mul(h, h), SN_INTS(0), false)));
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

typedef struct Run {
    float sums[HIDDEN];
    double ms;
} Run;

static void run(sn_function *fn, Loader *l, sn_tensor *w, bool prefetch, Run *result) {
    const double start = now_ms();
    sn_tensor *sums = sn_keep(sn_to_device(sn_zeros(SN_INTS(HIDDEN), SN_F32), device));
    int64_t n = EPOCHS * l->n_batches;
    if (prefetch) loader_begin(l, 0);
    for (int64_t i = 0; i < n && !sn_check(); i++) {
        sn_scope scope = sn_scope_begin();
        sn_tensor *x =
            prefetch ? loader_take(l, i) : sn_keep(sn_to_device(batch_of(l->rows, i % l->n_batches), device));
        sn_tensor *in[] = {x, w, sums}, *next = sn_keep(sn_call1(fn, (sn_tensors){in, 3}));
        if (prefetch && i + 1 < n) loader_begin(l, i + 1);
        sn_release(x), sn_release(sums);
        sums = next;
        sn_scope_end(scope);
    }
    sn_read(sums, result->sums, sizeof result->sums); /* waits for all of it */
    sn_release(sums);
    result->ms = now_ms() - start;
}

static sn_tensor *load_rows(void) {
    char path[1024];
    snprintf(path, sizeof path, "%s/digits/digits.safetensors", sample_data_dir());
    sn_dict *file = sn_dict_load(path);
    sn_tensor *rows = sn_mul_scalar(sn_to(sn_dict_get(file, "train.x"), SN_F32), sn_float(1.0 / 16));
    sn_dict_free(file);
    return rows;
}

static sn_tensor *weights(void) {
    sn_seed(3);
    return sn_to_device(sn_randn(SN_INTS(PIXELS, HIDDEN), SN_F32), device);
}

void sample_work(SampleWork *work) {
    sn_tensor *rows = load_rows(), *w = weights();
    *work = (SampleWork){.kind = SAMPLE_FORWARD,
                         .body = features,
                         .in = {batch_of(rows, 0), w, sn_zeros(SN_INTS(HIDDEN), SN_F32)},
                         .n_in = 3,
                         .n_out = 1};
}

int main(int argc, char **argv) {
    if (argc > 2 || (argc == 2 && strcmp(argv[1], "--device=cuda"))) {
        fprintf(stderr, "loader: unexpected '%s'; arguments: %s\n", argv[argc > 2 ? 2 : 1], sample_arguments);
        return 2;
    }
    if (argc == 2) device = SN_CUDA(0);
    static Run first, plain, loaded;
    Loader loader = {0};
    sn_tensor *rows = sn_keep(load_rows()), *w = sn_keep(weights());
    sn_function *fn = sn_compile(features, NULL, SN_COMPILE_OPTIONS(.name = "features"));
    if (!sn_check()) loader_open(&loader, rows);
    if (!sn_check()) run(fn, &loader, w, false, &first); /* compiles */
    if (!sn_check()) run(fn, &loader, w, false, &plain);
    if (!sn_check()) run(fn, &loader, w, true, &loaded);
    if (!sn_check()) {
        if (memcmp(plain.sums, loaded.sums, sizeof plain.sums)) sn_fail(SN_ERR_INTERNAL, "the loader's results differ");
        printf("%s: %" PRId64 " batches, digest %016" PRIx64 "\n", sn_device_name(device), EPOCHS * loader.n_batches,
               sample_digest(loaded.sums, sizeof loaded.sums));
        printf("plain copies %.2f ms, prefetched %.2f ms\n", plain.ms, loaded.ms);
    }
    loader_close(&loader);
    sn_function_free(fn);
    sn_release(rows), sn_release(w);
    return sn_finish();
}
