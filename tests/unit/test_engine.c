/* test_engine.c: several workers in the backward of the tape [semantics G1], by public headers: rules of independent
   branches overlap in time, and nothing else depends on it: bits, order of callbacks, their thread, errors. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "tests/unit/contract.h"

enum { N = 192 }; /* N x N is large enough for a worker */

static void use_threads(int n) {
    char text[8];
    snprintf(text, sizeof text, "%d", n);
    ck_assert_int_eq(sn_setting_set("threads", text), SN_OK);
}

/* Two branches and a shared use. */
static sn_tensor *branches(sn_tensor *x, sn_tensor *w) {
    sn_tensor *const left = sn_gelu(sn_matmul(x, w)), *const right = sn_sin(sn_matmul(x, sn_t(w)));
    sn_tensor *const middle = sn_tanh(sn_mul(x, x));
    return sn_sum(sn_add(sn_add(left, right), sn_mul(middle, x)));
}

/* What is said of rules (topic autograd). Two that begin wait for each other, for a while: neither has ended then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int by_worker, by_caller; /* that have begun and not ended */
static int said_lines, overlaps;

static void meet(const char *line) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    int *const own = strstr(line, "on a worker") ? &by_worker : &by_caller;
    if (strstr(line, "ends")) {
        --*own;
        return;
    }
    ++*own;
    overlaps += by_worker && by_caller;
    pthread_cond_broadcast(&changed);
    while (!overlaps && pthread_cond_timedwait(&changed, &lock, &until) == 0) {}
}
static void two_meet(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    if (strcmp(topic, "autograd") != 0) return;
    pthread_mutex_lock(&lock);
    said_lines++;
    meet(line);
    pthread_mutex_unlock(&lock);
}

START_TEST(a3_11_rules_of_independent_branches_overlap_in_time) {
    use_threads(2);
    sn_tensor *const x = LEAF(1, N, N), *const y = branches(x, F32(2, N, N));
    sn_logging_set(two_meet, NULL, "+autograd");
    ck_assert_msg(sn_backward(y) == SN_OK, "%s", sn_error_take()->message);
    sn_logging_set(NULL, NULL, "-autograd");
    ck_assert_int_ge(overlaps, 1);
    ck_assert(!by_worker && !by_caller);
    use_threads(1);
    sn_tensor *const alone = LEAF(1, N, N);
    const int lines = said_lines;
    sn_logging_set(two_meet, NULL, "+autograd");
    sn_backward(branches(alone, F32(2, N, N)));
    sn_logging_set(NULL, NULL, "-autograd");
    ck_assert_int_eq(said_lines, lines);
    ck_assert(same_bits(sn_grad(x), sn_grad(alone)));
}
END_TEST

/* A wide graph by numbers: values used several times, large and small, views and writes in place. */
static sn_tensor *wide(sn_tensor *x, sn_tensor *w, uint64_t seed) {
    sn_tensor *at[8] = {x, sn_mul(x, w), sn_t(x), sn_sin(w), sn_narrow(x, 0, 0, 4)};
    uint64_t s = seed;
    for (int i = 5; i < 60; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        sn_tensor *const a = at[s >> 33 & 3], *const b = at[s >> 40 & 3];
        sn_tensor *const made = s >> 50 & 1 ? sn_tanh(sn_mul(a, b)) : sn_sub(sn_sin(a), b);
        if (!(s >> 50 & 1) && s >> 52 & 1) sn_add_(made, at[3]); /* nobody has saved it */
        at[s >> 44 & 3] = made;
        at[4] = sn_mul(at[4], sn_narrow(made, 0, 0, 4));
    }
    return sn_add(sn_sum(sn_tanh(at[4])), sn_sum(sn_add(sn_add(at[0], at[1]), sn_add(at[2], at[3]))));
}

START_TEST(a3_11_workers_change_no_bit) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        sn_tensor *want[3] = {NULL};
        static const int threads[] = {1, 2, 3, 8};
        for (int i = 0; i < 4; i++) {
            use_threads(threads[i]);
            sn_tensor *const x = LEAF(seed, N, N), *const w = LEAF(seed + 9, N, N), *got[3];
            sn_tensor *const y = wide(x, w, seed);
            ck_assert_int_eq(sn_backward_ex(SN_TENSORS(y), (sn_tensors){0}, SN_RETAIN_GRAPH), SN_OK);
            ck_assert_int_eq(sn_gradients(SN_TENSORS(y), SN_TENSORS(w), (sn_tensors){0}, 0, &got[2]), SN_OK);
            got[0] = sn_grad(x), got[1] = sn_grad(w);
            for (int k = 0; k < 3; k++) {
                if (i) ck_assert_msg(same_bits(got[k], want[k]), "seed %d, %d threads", (int)seed, threads[i]);
                want[k] = got[k];
            }
        }
    }
    use_threads(1);
}
END_TEST

/* Callbacks -------------------------------------------------------------------------------------------- */

typedef struct Heard {
    pthread_t thread;
    char said[64];
    sn_tensor *writes;
} Heard;
typedef struct Voice {
    Heard *heard;
    char letter;
} Voice;

static void hear(const Voice *v) {
    ck_assert(pthread_equal(v->heard->thread, pthread_self()));
    const size_t n = strlen(v->heard->said);
    v->heard->said[n] = v->letter;
}
static sn_status speaks(sn_frame *f) {
    hear(sn_closure(f));
    return SN_OK;
}
static sn_status passes(sn_frame *f) { return sn_out(f, 0, sn_clone(sn_in(f, 0))); }
static sn_status passes_back(sn_frame *f) {
    const Voice *const v = sn_closure(f);
    hear(v);
    if (v->heard->writes) sn_mul_scalar_(v->heard->writes, sn_float(2));
    return sn_set_grad_of(f, 0, sn_grad_of(f, 0));
}

static sn_tensor *through(const Voice *v, sn_tensor *t) {
    const sn_custom fn = {.size = sizeof fn, .name = "Through", .forward = passes, .backward = passes_back};
    sn_tensor *out;
    ck_assert_int_eq(sn_custom_call(&fn, (void *)(uintptr_t)v, &t, 1, &out, 1), SN_OK);
    return out;
}

START_TEST(a3_11_callbacks_keep_their_thread_and_order) {
    char want[64] = "";
    for (int threads = 1; threads <= 4; threads++) {
        use_threads(threads);
        Heard heard = {.thread = pthread_self()};
        const Voice a = {&heard, 'a'}, b = {&heard, 'b'}, c = {&heard, 'c'}, d = {&heard, 'd'};
        sn_tensor *const x = LEAF(1, N, N), *const w = F32(2, N, N);
        sn_tensor *const left = sn_sin(through(&a, sn_mul(sn_sin(x), w))), *const right =
                                                                               through(&b, sn_sin(sn_tanh(x)));
        sn_hook_add(left, speaks, (void *)(uintptr_t)&c);
        sn_hook_add(right, speaks, (void *)(uintptr_t)&d);
        sn_backward(sn_sum(sn_add(sn_sin(left), sn_add(sn_tanh(right), sn_mul(x, w)))));
        ck_assert_int_eq(sn_check(), SN_OK);
        if (threads > 1) ck_assert_str_eq(heard.said, want);
        memcpy(want, heard.said, sizeof want);
    }
    ck_assert_int_eq(strlen(want), 4);
    use_threads(1);
}
END_TEST

/* A callback writes what an older node, of another branch, has saved: that node must see it. */
START_TEST(a3_11_a_write_by_a_callback_is_seen_by_older_nodes) {
    for (int threads = 1; threads <= 4; threads++) {
        use_threads(threads);
        Heard heard = {.thread = pthread_self()};
        const Voice a = {&heard, 'a'};
        sn_tensor *const x = LEAF(1, N, N), *const v = sn_detach(F32(2, N, N));
        sn_tensor *const old = sn_mul(x, v), *const young = through(&a, sn_sin(x));
        heard.writes = v;
        ck_assert_int_eq(sn_backward(sn_sum(sn_add(old, sn_sin(young)))), SN_ERR_STATE);
        expect_error(SN_ERR_STATE, "MulBackward");
    }
    use_threads(1);
}
END_TEST

/* Callbacks that change what older nodes do, by the time that these could have begun on a worker. */
typedef struct Change {
    sn_tensor *hooked, *writes;
    sn_override *override;
    pthread_t thread;
    int n_cos;
} Change;

static sn_status writes(sn_frame *f) {
    const Change *const c = sn_closure(f);
    sn_mul_scalar_(c->writes, sn_float(2));
    return SN_OK;
}
static sn_status adds_a_hook(sn_frame *f) {
    const Change *const c = sn_closure(f);
    sn_hook_add(c->hooked, writes, (void *)(uintptr_t)c);
    return SN_OK;
}

START_TEST(a3_11_a_hook_that_a_callback_adds_is_waited_for) {
    for (int round = 0; round < 20; round++) {
        use_threads(1 + round % 4);
        sn_tensor *const x = LEAF(1, N, N), *const v = sn_detach(F32(2, N, N));
        sn_tensor *const old = sn_mul(x, v), *const middle = sn_sin(x), *const next = sn_tanh(x),
                         *const young = sn_exp(x);
        const Change change = {.hooked = middle, .writes = v};
        sn_hook_add(young, adds_a_hook, (void *)(uintptr_t)&change);
        sn_tensor *const y = sn_sum(sn_add(sn_add(old, middle), sn_add(next, young)));
        ck_assert_int_eq(sn_backward(y), SN_ERR_STATE);
        expect_error(SN_ERR_STATE, "MulBackward");
    }
    use_threads(1);
}
END_TEST

static sn_status counts_cos(sn_frame *f) {
    Change *const c = sn_closure(f);
    ck_assert(pthread_equal(c->thread, pthread_self()));
    c->n_cos++;
    return sn_out(f, 0, sn_zeros_like(sn_in(f, 0)));
}
static sn_status overrides_cos(sn_frame *f) {
    Change *const c = sn_closure(f);
    c->override = sn_op_override(sn_op_find("aten::cos"), SN_KEY_CPU, counts_cos, c);
    return SN_OK;
}

START_TEST(a3_11_an_override_that_a_callback_makes_keeps_its_thread) {
    for (int round = 0; round < 12; round++) {
        use_threads(1 + round % 4);
        Change change = {.thread = pthread_self()};
        sn_tensor *const x = LEAF(1, N, N), *sin[4];
        for (int i = 0; i < 4; i++) sin[i] = sn_sin(x);
        sn_tensor *const young = sn_exp(x);
        sn_hook_add(young, overrides_cos, &change);
        sn_tensor *const sum = sn_add(sn_add(sn_add(sin[0], sin[1]), sn_add(sin[2], sin[3])), young);
        ck_assert_int_eq(sn_backward(sn_sum(sum)), SN_OK);
        sn_override_free(change.override);
        ck_assert_int_eq(change.n_cos, 4);
    }
    use_threads(1);
}
END_TEST

/* Both branches fail; the newer node's error is the one. */
START_TEST(a3_11_the_newest_nodes_error_wins) {
    for (int threads = 1; threads <= 4; threads++) {
        use_threads(threads);
        sn_tensor *const x = LEAF(1, N, N), *const v = F32(2, N, N), *const u = F32(3, N, N);
        sn_tensor *const a = sn_mul(x, v), *const b = sn_div(x, u), *const c = sn_sin(x);
        sn_tensor *const y = sn_sum(sn_add(sn_add(sn_sin(a), sn_sin(b)), c));
        sn_mul_scalar_(v, sn_float(2));
        sn_mul_scalar_(u, sn_float(2));
        ck_assert_int_eq(sn_backward(y), SN_ERR_STATE);
        expect_error(SN_ERR_STATE, "DivBackward");
        ck_assert_int_eq(sn_backward(sn_sum(sn_sin(LEAF(1, N, N)))), SN_OK); /* nothing is left of it */
    }
    use_threads(1);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a3_11_rules_of_independent_branches_overlap_in_time,
        a3_11_workers_change_no_bit,
        a3_11_callbacks_keep_their_thread_and_order,
        a3_11_a_write_by_a_callback_is_seen_by_older_nodes,
        a3_11_a_hook_that_a_callback_adds_is_waited_for,
        a3_11_an_override_that_a_callback_makes_keeps_its_thread,
        a3_11_the_newest_nodes_error_wins,
    };
    return contract_main("test_engine", tests, (int)(sizeof tests / sizeof *tests));
}
