/* test_embed.c: Sinter inside a host program with its own buffers, threads and log: a denoiser in an audio
 * server. The first half is what the host's author writes; the second is a small server and what must hold:
 * right samples, every buffer given back once, nothing on stderr, streams on any worker thread. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "kernels/kernels.h"
#include "runtime/compile/llvm_module.h"
#include "tests/unit/contract.h"

/* what the server offers ---------------------------------------------------------------------- */

typedef struct Server {
    _Atomic int lines;
    char last[512];
} Server;

typedef struct Buffer {
    float *samples;
    _Atomic int references;
} Buffer;

static void server_log(void *context, int level, const char *topic, const char *line) {
    Server *const server = context;
    (void)level;
    server->lines++;
    snprintf(server->last, sizeof server->last, "%s: %s", topic, line);
}

static Buffer *buffer_ref(Buffer *b) {
    b->references++;
    return b;
}
static void buffer_unref(Buffer *b) { b->references--; }

/* what its author writes ---------------------------------------------------------------------- */

enum { SAMPLES = 480 };
typedef struct {
    sn_dict *weights;
    sn_tensor *w1, *w2;
    sn_function *run;
} Denoiser; /* shared */
typedef struct {
    sn_state *state;
    sn_tensor *in, *out;
} Stream; /* one per client */

static sn_status denoise(sn_frame *f) { /* writes input 1: the server's memory */
    const Denoiser *d = sn_closure(f);
    sn_tensor *mask = sn_sigmoid(sn_linear(sn_relu(sn_linear(sn_in(f, 0), d->w1, NULL)), d->w2, NULL));
    sn_copy_(sn_in(f, 1), sn_mul(sn_in(f, 0), mask));
    return sn_check();
}

static bool good(Server *server, const char *doing) { /* errors: logged, handled */
    if (!sn_check()) return true;
    server_log(server, 1, doing, sn_error_take()->message);
    return false;
}

static bool denoiser_open(Denoiser *d, Server *server, const char *path) { /* before threads start */
    sn_init(SN_INIT_OPTIONS(.ignore_environment = true, .threads = 1, .cache_dir = "", .log = server_log,
                            .log_context = server));
    d->weights = sn_dict_load(path);
    d->w1 = sn_dict_get(d->weights, "w1");
    d->w2 = sn_dict_get(d->weights, "w2");
    d->run = sn_compile(denoise, d, SN_COMPILE_OPTIONS(.full_graph = true));
    return good(server, "denoiser_open");
}

static void give_back(void *samples, void *buffer) {
    (void)samples;
    buffer_unref(buffer);
}

static sn_tensor *wrap(Buffer *b) {
    sn_tensor *t = sn_wrap(SN_BLOB(.data = b->samples, .bytes = SAMPLES * sizeof(float), .dtype = SN_F32,
                                   .sizes = SN_INTS(1, SAMPLES), .free = give_back, .context = buffer_ref(b)));
    if (!t) buffer_unref(b); /* failed: took nothing over */
    return sn_keep(t);
}

static bool stream_open(Stream *s, Server *server, Buffer *in, Buffer *out) {
    s->state = sn_state_new(); /* this client's scopes, error, modes, random numbers */
    sn_state *before = sn_state_use(s->state);
    sn_grad_mode_set(SN_INFERENCE);
    s->in = wrap(in);
    s->out = wrap(out);
    bool ok = good(server, "stream_open");
    sn_state_use(before);
    return ok;
}

static bool stream_process(Stream *s, Server *server, const Denoiser *d) { /* on any worker */
    sn_state *before = sn_state_use(s->state);
    sn_scope scope = sn_scope_begin();
    sn_touch(s->in); /* the server wrote new samples */
    sn_call(d->run, (sn_tensor *[]){s->in, s->out}, 2, NULL, 0);
    sn_scope_end(scope);
    bool ok = good(server, "stream_process"); /* the output buffer is filled */
    sn_state_use(before);
    return ok;
}

static void stream_close(Stream *s) {
    sn_release(s->in);
    sn_release(s->out);
    sn_state_free(s->state);
}

static void denoiser_close(Denoiser *d) {
    sn_function_free(d->run);
    sn_dict_free(d->weights);
    sn_shutdown();
}

/* what must hold ------------------------------------------------------------------------------ */

enum { STREAMS = 3, ROUNDS = 40 };

static void fill_buffer(Buffer *b, uint64_t seed) { fill_floats(b->samples, SAMPLES, seed); }

static void save_weights(const char *path) {
    sn_dict *const d = sn_dict_new();
    sn_dict_set(d, "w1", sn_mul_scalar(F32(1, 32, SAMPLES), sn_float(0.05)));
    sn_dict_set(d, "w2", sn_mul_scalar(F32(2, SAMPLES, 32), sn_float(0.1)));
    ck_assert_int_eq(sn_dict_save(d, path), SN_OK);
    sn_dict_free(d);
}

typedef struct Client {
    Server *server;
    const Denoiser *denoiser;
    Stream *stream;
    Buffer *in, *out;
    float *want; /* ROUNDS x SAMPLES */
    int round, wrong;
} Client;

/* Half of the rounds; the other half runs on another thread. */
static void *work(void *context) {
    Client *const c = context;
    for (const int end = c->round + ROUNDS / 2; c->round < end; c->round++) {
        fill_buffer(c->in, 100 + (uint64_t)c->round);
        if (!stream_process(c->stream, c->server, c->denoiser) ||
            memcmp(c->out->samples, c->want + (int64_t)c->round * SAMPLES, SAMPLES * sizeof(float)))
            c->wrong++;
    }
    return NULL;
}

static void expect_samples(const Denoiser *d, float *want) {
    sn_function *const eager = sn_compile(denoise, (void *)d, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int round = 0; round < ROUNDS; round++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const in[] = {F32(100 + (uint64_t)round, 1, SAMPLES), sn_empty(SN_INTS(1, SAMPLES), SN_F32)};
        ck_assert_int_eq(sn_call(eager, in, 2, NULL, 0), SN_OK);
        sn_read(in[1], want + (int64_t)round * SAMPLES, SAMPLES * sizeof(float));
        sn_scope_end(scope);
    }
    sn_function_free(eager);
}

static void run_threads(Client *clients) {
    pthread_t threads[STREAMS];
    for (int i = 0; i < STREAMS; i++) pthread_create(&threads[i], NULL, work, &clients[i]);
    for (int i = 0; i < STREAMS; i++) pthread_join(threads[i], NULL);
}

START_TEST(a_denoiser_in_an_audio_server) {
    char path[] = "/tmp/sinter_embed_XXXXXX";
    const int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    Server server = {0};
    Denoiser denoiser = {0};
    save_weights(path);
    ck_assert_msg(denoiser_open(&denoiser, &server, path), "%s", server.last);
    unlink(path);
    static float want[ROUNDS * SAMPLES], memory[STREAMS][2][SAMPLES];
    expect_samples(&denoiser, want);
    Buffer buffers[STREAMS][2];
    Stream streams[STREAMS];
    Client clients[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        for (int k = 0; k < 2; k++) buffers[i][k] = (Buffer){memory[i][k], 1};
        ck_assert_msg(stream_open(&streams[i], &server, &buffers[i][0], &buffers[i][1]), "%s", server.last);
        ck_assert_int_eq(buffers[i][0].references, 2);
        clients[i] = (Client){&server, &denoiser, &streams[i], &buffers[i][0], &buffers[i][1], want, 0, 0};
    }
    run_threads(clients);
    run_threads(clients); /* other threads, the same states */
    for (int i = 0; i < STREAMS; i++) {
        ck_assert_msg(clients[i].wrong == 0, "stream %d: %d wrong; %s", i, clients[i].wrong, server.last);
        stream_close(&streams[i]);
        for (int k = 0; k < 2; k++) ck_assert_int_eq(buffers[i][k].references, 1);
    }
    ck_assert_int_eq(stats_of(denoiser.run).compiles, 1);
    ck_assert_msg(server.lines == 0, "%s", server.last);
    denoiser_close(&denoiser);
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

START_TEST(errors_reach_the_servers_log) {
    Server server = {0};
    Denoiser denoiser = {0};
    ck_assert(!denoiser_open(&denoiser, &server, "/nonexistent/weights"));
    ck_assert_int_eq(server.lines, 1);
    ck_assert_ptr_nonnull(strstr(server.last, "denoiser_open"));
    denoiser_close(&denoiser);
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

START_TEST(an_ignored_environment_counts_for_nothing) {
    setenv("SINTER_LLVM_MODULE", "/nowhere", 1);
    setenv("SINTER_ISA", "v2", 1);
    setenv("SINTER_RECOMPILE_LIMIT", "1", 1);
    sn_init(SN_INIT_OPTIONS(.ignore_environment = true));
    ck_assert(!strstr(llvm_module_reason(), "/nowhere"));
    ck_assert_int_eq(isa_used(), isa_host());
    ck_assert_str_ne(sn_setting_get("recompile_limit"), "1");
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a_denoiser_in_an_audio_server, errors_reach_the_servers_log,
                                  an_ignored_environment_counts_for_nothing};
    return contract_main("test_embed", tests, (int)(sizeof tests / sizeof *tests));
}
