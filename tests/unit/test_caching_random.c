/* test_caching_random.c: random calls on a caching allocator beside an oracle that knows bytes and streams alone:
 * blocks in use never overlap and lie in memory of the source; memory that a stream may still be working on is given to
 * nobody but work behind it; the allocator's own state is whole after each call (check_whole). Then the same with a
 * source, or the host's memory, that fails at each of its calls in turn. */
#include "tests/unit/fake_memory.h"
#include "tests/unit/suite.h"

enum { LIVE = 200, BUSY = 4000 };

typedef struct Live {
    uintptr_t at;
    size_t bytes;
    int last[FAKE_STREAMS]; /* number of the last work on it; 0: none */
} Live;

typedef struct Oracle {
    Caching *caching;
    Live live[LIVE], busy[BUSY]; /* busy: freed, with work that may go on */
    int n_live, n_busy;
    uint64_t random;
} Oracle;

static uint32_t pick(Oracle *o, uint32_t below) {
    o->random = o->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(o->random >> 33) % below;
}

static bool overlap(const Live *a, const Live *b) { return a->at < b->at + b->bytes && b->at < a->at + a->bytes; }

static bool is_in_a_range(const Live *live) {
    size_t covered = 0; /* of expandable segments: pages side by side */
    for (int i = 0; i < fake.n_ranges; i++) {
        const uintptr_t from = fake.ranges[i].at > live->at ? fake.ranges[i].at : live->at;
        const uintptr_t range_end = fake.ranges[i].at + fake.ranges[i].bytes, end = live->at + live->bytes;
        const uintptr_t to = range_end < end ? range_end : end;
        if (to > from) covered += to - from;
    }
    return covered == live->bytes;
}

/* A stream that has begun and not done work on these bytes must be the new owner, which comes behind it. */
static void check_free_of_work(Oracle *o, const Live *live, int stream) {
    for (int i = 0; i < o->n_busy; i++) {
        if (!overlap(live, &o->busy[i])) continue;
        for (int s = 0; s < FAKE_STREAMS; s++) HOLDS(s == stream || o->busy[i].last[s] <= fake.done[s]);
    }
}

static void forget_done(Oracle *o) {
    for (int i = 0; i < o->n_busy; i++) {
        bool is_done = true;
        for (int s = 0; s < FAKE_STREAMS; s++) is_done &= o->busy[i].last[s] <= fake.done[s];
        if (is_done) o->busy[i--] = o->busy[--o->n_busy];
    }
}

static size_t some_bytes(Oracle *o) {
    const uint32_t kind = pick(o, 10);
    if (kind < 4) return pick(o, 5000);
    if (kind < 7) return pick(o, 1200) * KIB;
    return kind < 9 ? pick(o, 9) * MIB + pick(o, 3) * 512 : pick(o, 50) * MIB;
}

static void allocate_one(Oracle *o) {
    const int stream = (int)pick(o, FAKE_STREAMS);
    Live live = {.bytes = some_bytes(o)};
    if (o->n_live == LIVE) return;
    live.at = caching_allocate(o->caching, live.bytes, fake_stream(stream));
    if (!live.at) {
        HOLDS(error_pending() != ST_OK);
        error_clear();
        return;
    }
    HOLDS(error_pending() == ST_OK);
    for (int i = 0; i < o->n_live; i++) HOLDS(!overlap(&live, &o->live[i]));
    HOLDS(is_in_a_range(&live));
    check_free_of_work(o, &live, stream);
    fake_work(stream);
    live.last[stream] = fake.begun[stream];
    o->live[o->n_live++] = live;
}

static void free_one(Oracle *o) {
    if (!o->n_live) return;
    const int i = (int)pick(o, (uint32_t)o->n_live);
    const Live live = o->live[i];
    o->live[i] = o->live[--o->n_live];
    forget_done(o);
    HOLDS(o->n_busy < BUSY);
    o->busy[o->n_busy++] = live; /* before, so that work that the free waits for is seen as done */
    caching_free(o->caching, live.at);
    HOLDS(error_pending() == ST_OK);
}

static void use_one(Oracle *o) {
    const int stream = (int)pick(o, FAKE_STREAMS);
    if (!o->n_live) return;
    Live *const live = &o->live[pick(o, (uint32_t)o->n_live)];
    if (caching_used(o->caching, live->at, fake_stream(stream)) != ST_OK) return error_clear();
    fake_work(stream);
    live->last[stream] = fake.begun[stream];
}

static void one_call(Oracle *o) {
    const uint32_t what = pick(o, 100);
    if (what < 45)
        allocate_one(o);
    else if (what < 80)
        free_one(o);
    else if (what < 92)
        use_one(o);
    else if (what < 99)
        fake_finish((int)pick(o, FAKE_STREAMS));
    else
        caching_trim(o->caching, 0);
    error_clear(); /* a trim's, where the host has no memory */
    check_whole(o->caching);
}

static const CachingConfig configs[] = {
    {0}, {.max_split = 8 << 20}, {.expandable = true}, {.expandable = true, .max_split = 20 << 20}, {.direct = true}};

static void give_back_all(Oracle *o) {
    fake.fail_at = -1;
    while (o->n_live) free_one(o);
    caching_trim(o->caching, 0);
    check_whole(o->caching);
    ck_assert_int_eq(o->caching->stats.bytes[CACHING_all][MEASURE_allocated].current, 0);
    ck_assert_int_eq(o->caching->stats.bytes[CACHING_all][MEASURE_active].current, 0);
    ck_assert_int_eq(o->caching->stats.bytes[CACHING_all][MEASURE_reserved].current, 0);
    ck_assert_uint_eq(fake.used, 0);
    fake_end(o->caching);
    free(o);
}

static Oracle *oracle_new(CachingConfig config, uint64_t seed) {
    Oracle *const o = calloc(1, sizeof *o);
    o->caching = fake_begin(400 * MIB, config), o->random = seed;
    return o;
}

START_TEST(a7_01_random_calls_beside_an_oracle) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        Oracle *const o = oracle_new(configs[_i], seed);
        for (int call = 0; call < 1500; call++) one_call(o);
        give_back_all(o);
    }
}
END_TEST

START_TEST(the_source_fails_at_each_call) {
    for (int at = 0; at < 150; at++) {
        Oracle *const o = oracle_new(configs[_i], 7);
        fake.fail_at = at, fake.fails_full = at % 2;
        for (int call = 0; call < 300; call++) one_call(o);
        give_back_all(o);
    }
}
END_TEST

START_TEST(the_host_has_no_memory) {
    for (int at = 0; at < 150; at++) {
        Oracle *const o = oracle_new(configs[_i], 11);
        for (int call = 0; call < 100; call++) one_call(o);
        mem_fail_after(at);
        for (int call = 0; call < 100; call++) one_call(o);
        mem_fail_after(-1);
        for (int call = 0; call < 50; call++) one_call(o);
        give_back_all(o);
    }
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("caching_random");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a7_01_random_calls_beside_an_oracle, 0, COUNT_OF(configs));
    tcase_add_loop_test(tests, the_source_fails_at_each_call, 0, COUNT_OF(configs));
    tcase_add_loop_test(tests, the_host_has_no_memory, 0, COUNT_OF(configs));
    return suite_run("caching_random", tests);
}
