/* test_contract_c_queries.c: what a query has shown to a body is a guard of the replayed call [semantics C6, C7]. Every
 * function of class `meta` in frontend/api.def has a probe here, else a test fails by its name: the body's
 * result depends on the answer, the answer changes between calls, and the replayed call must see it. */
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

#define REPLAY(...) SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY, __VA_ARGS__)

/* Probes -------------------------------------------------------------------------------------- */

typedef struct Probe {
    const char *name;
    int64_t (*ask)(sn_frame *f, sn_tensor *t);
    /* The argument that is asked about, 0 or 1: answers differ. */
    sn_value (*make)(int which);
    /* The same of a closed-over tensor, or of the program; NULL: nothing can change it. */
    void (*change)(sn_tensor *t, int which);
    bool counts; /* which 1 is one more argument */
} Probe;

static int64_t hash_text(const char *text) {
    int64_t hash = 7;
    while (*text) hash = (hash * 31 + *text++) % 65521;
    return hash;
}
static int64_t mix(sn_ints ints) {
    int64_t mixed = ints.n;
    for (int64_t i = 0; i < ints.n; i++) mixed = (mixed * 31 + ints.data[i]) % 65521;
    return mixed;
}

static int64_t ask_rank(sn_frame *f, sn_tensor *t) { return sn_rank(t); }
static int64_t ask_size(sn_frame *f, sn_tensor *t) { return sn_size(t, -1); }
static int64_t ask_numel(sn_frame *f, sn_tensor *t) { return sn_numel(t); }
static int64_t ask_sizes(sn_frame *f, sn_tensor *t) { return mix(sn_sizes(t)); }
static int64_t ask_strides(sn_frame *f, sn_tensor *t) { return mix(sn_strides(t)); }
static int64_t ask_dtype(sn_frame *f, sn_tensor *t) { return sn_dtype_of(t); }
static int64_t ask_device(sn_frame *f, sn_tensor *t) { return sn_device_of(t); }
static int64_t ask_contiguous(sn_frame *f, sn_tensor *t) { return sn_is_contiguous(t); }
static int64_t ask_contiguous_as(sn_frame *f, sn_tensor *t) { return sn_is_contiguous_as(t, SN_CHANNELS_LAST); }
static int64_t ask_layout(sn_frame *f, sn_tensor *t) { return sn_layout_of(t); }
static int64_t ask_requires_grad(sn_frame *f, sn_tensor *t) { return sn_requires_grad(t); }
static int64_t ask_grad(sn_frame *f, sn_tensor *t) { return sn_grad(t) != NULL; }
static int64_t ask_keys(sn_frame *f, sn_tensor *t) { return hash_text(sn_keys(t)); }
static int64_t ask_setting(sn_frame *f, sn_tensor *t) { return hash_text(sn_setting_get("root_scope_warning")); }
static int64_t ask_sym_size(sn_frame *f, sn_tensor *t) { return sn_sym_arg(sn_sym_size(t, -1)); }
static int64_t ask_sym_stride(sn_frame *f, sn_tensor *t) { return sn_sym_arg(sn_sym_stride(t, 0)); }
static int64_t ask_sym_numel(sn_frame *f, sn_tensor *t) { return sn_sym_arg(sn_sym_numel(t)); }
static int64_t ask_sym_offset(sn_frame *f, sn_tensor *t) { return sn_sym_arg(sn_sym_storage_offset(t)); }
static int64_t ask_sym_value(sn_frame *f, sn_tensor *t) { return sn_sym_value(sn_sym_size(t, -1)) > 4 ? 10 : 20; }
static int64_t ask_sym_op(sn_frame *f, sn_tensor *t) {
    return sn_sym_arg(sn_sym_op(sn_sym_size(t, -1), '*', sn_sym_int(7)));
}
static int64_t ask_sym_int(sn_frame *f, sn_tensor *t) { return sn_sym_arg(sn_sym_int(sn_size(t, -1))); }
static int64_t ask_in_sym(sn_frame *f, sn_tensor *t) { return sn_sym_arg(sn_in_sym(f, 1)); }
static int64_t ask_in_count(sn_frame *f, sn_tensor *t) { return sn_in_count(f); }
static int64_t ask_in(sn_frame *f, sn_tensor *t) { return sn_rank(sn_in(f, 1)); }
static int64_t ask_in_opt(sn_frame *f, sn_tensor *t) { return sn_in_opt(f, 1) != NULL; }
static int64_t ask_in_int(sn_frame *f, sn_tensor *t) { return sn_in_int(f, 1) * 3; }
static int64_t ask_in_float(sn_frame *f, sn_tensor *t) { return (int64_t)(sn_in_float(f, 1) * 100); }
static int64_t ask_in_value(sn_frame *f, sn_tensor *t) { return sn_in_value(f, 1).kind; }

static sn_value of_rank(int which) { return sn_val(which ? F32(1, 2, 3) : F32(1, 6)); }
static sn_value of_size(int which) { return sn_val(which ? F32(1, 2, 7) : F32(1, 3, 4)); }
static sn_value of_layout(int which) { return sn_val(which ? sn_t(F32(1, 3, 4)) : F32(1, 4, 3)); }
static sn_value of_images(int which) {
    return sn_val(which ? sn_permute(F32(1, 2, 3, 3, 4), SN_INTS(0, 3, 1, 2)) : F32(1, 2, 4, 3, 3));
}
static sn_value of_dtype(int which) { return sn_val(sn_zeros(SN_INTS(3), which ? SN_F64 : SN_F32)); }
static sn_value of_flag(int which) { return sn_val(sn_requires_grad_(F32(1, 4), which)); }
static sn_value of_grad(int which) {
    sn_tensor *const t = LEAF(1, 4);
    if (which) sn_grad_set(t, F32(2, 4));
    return sn_val(t);
}
static sn_value of_keys(int which) {
    const sn_grad_mode before = sn_grad_mode_set(which ? SN_INFERENCE : SN_GRAD_ON);
    sn_tensor *const t = sn_zeros(SN_INTS(4), SN_F32);
    sn_grad_mode_set(before);
    return sn_val(t);
}
static sn_value of_place(int which) { return sn_val(sn_narrow(F32(1, 9), 0, which, 4)); }
static sn_value of_int(int which) { return sn_int(which ? 9 : 5); }
static sn_value of_float(int which) { return sn_float(which ? 2.5 : 0.5); }
static sn_value of_kind(int which) { return which ? sn_int(2) : sn_float(2); }
static sn_value of_presence(int which) { return which ? sn_val(F32(1, 4)) : (sn_value){.kind = SN_KIND_NONE}; }
static sn_value any_tensor(int which) { return sn_val(F32(1, 4)); }

static void change_rank(sn_tensor *t, int which) { which ? sn_unsqueeze_(t, 0) : sn_squeeze_(t); }
static void change_layout(sn_tensor *t, int which) { sn_t_(t); }
static void change_numel(sn_tensor *t, int which) { /* as an out form does */
    sn_tensor *const ones = which ? sn_ones(SN_INTS(2, 9), SN_F32) : sn_ones(SN_INTS(4, 3), SN_F32);
    sn_add_out(t, ones, ones);
}
static void change_place(sn_tensor *t, int which) { sn_as_strided_(t, SN_INTS(4, 3), SN_INTS(3, 1), which); }
static void change_flag(sn_tensor *t, int which) { sn_requires_grad_(t, which); }
static void change_grad(sn_tensor *t, int which) { sn_grad_set(t, which ? sn_zeros_like(sn_detach(t)) : NULL); }
static void change_setting(sn_tensor *t, int which) { sn_setting_set("root_scope_warning", which ? "20000" : "10000"); }

static const Probe probes[] = {{"sn_rank", ask_rank, of_rank, change_rank},
                               {"sn_size", ask_size, of_size, change_layout},
                               {"sn_numel", ask_numel, of_size, change_numel},
                               {"sn_sizes", ask_sizes, of_size, change_layout},
                               {"sn_strides", ask_strides, of_layout, change_layout},
                               {"sn_dtype_of", ask_dtype, of_dtype, NULL},
                               {"sn_device_of", ask_device, any_tensor, NULL},
                               {"sn_is_contiguous", ask_contiguous, of_layout, change_layout},
                               {"sn_is_contiguous_as", ask_contiguous_as, of_images, NULL},
                               {"sn_layout_of", ask_layout, any_tensor, NULL},
                               {"sn_requires_grad", ask_requires_grad, of_flag, change_flag},
                               {"sn_grad", ask_grad, of_grad, change_grad},
                               {"sn_keys", ask_keys, of_keys, NULL},
                               {"sn_setting_get", ask_setting, any_tensor, change_setting},
                               {"sn_sym_size", ask_sym_size, of_size, change_layout},
                               {"sn_sym_stride", ask_sym_stride, of_layout, change_layout},
                               {"sn_sym_numel", ask_sym_numel, of_size, change_numel},
                               {"sn_sym_storage_offset", ask_sym_offset, of_place, change_place},
                               {"sn_sym_value", ask_sym_value, of_size, change_numel},
                               {"sn_sym_op", ask_sym_op, of_size, change_layout},
                               {"sn_sym_arg", ask_sym_size, of_size, change_numel},
                               {"sn_sym_int", ask_sym_int, of_size, change_layout},
                               {"sn_in_sym", ask_in_sym, of_int, NULL},
                               {"sn_in_count", ask_in_count, any_tensor, NULL, .counts = true},
                               {"sn_in", ask_in, of_rank, NULL},
                               {"sn_in_opt", ask_in_opt, of_presence, NULL},
                               {"sn_in_int", ask_in_int, of_int, NULL},
                               {"sn_in_float", ask_in_float, of_float, NULL},
                               {"sn_in_value", ask_in_value, of_kind, NULL}};
enum { PROBES = sizeof probes / sizeof *probes };

START_TEST(c7_every_query_has_a_probe) {
    static const char *const queries[] = {
#define op                          NULL
#define event                       NULL
#define flush                       NULL
#define neutral                     NULL
#define refused                     NULL
#define meta                        ""
#define API(function, class, entry) (class) ? #function : NULL,
#include "frontend/api.def"
#undef API
#undef op
#undef event
#undef flush
#undef neutral
#undef refused
#undef meta
    };
    int n = 0;
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++) {
        bool found = !queries[i];
        for (int p = 0; p < PROBES && !found; p++) found = !strcmp(probes[p].name, queries[i]);
        ck_assert_msg(found, "%s is a query without a probe here", queries[i] ? queries[i] : "");
        n += queries[i] != NULL;
    }
    ck_assert_int_eq(n, PROBES);
}
END_TEST

/* A body that asks ---------------------------------------------------------------------------- */

typedef struct Host {
    const Probe *probe;
    sn_tensor *closed; /* asked about it; NULL: about argument 1 */
    bool uses;         /* an op reads it too */
    int runs;
} Host;

static sn_status asks(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    const sn_grad_mode before = sn_grad_mode_set(SN_GRAD_OFF);
    sn_tensor *const x = sn_in(f, 0);
    const bool tensor = host->closed || (sn_in_count(f) > 1 && sn_in_value(f, 1).kind == SN_KIND_TENSOR);
    sn_tensor *const t = host->closed ? host->closed : tensor ? sn_in(f, 1) : NULL;
    const int64_t answer = host->probe->ask(f, t);
    sn_tensor *y = sn_add_scalar(x, sn_int(answer));
    if (host->uses && t) y = sn_add(y, sn_sum(sn_to(t, SN_F32)));
    sn_grad_mode_set(before);
    return sn_out(f, 0, y);
}

typedef struct Both {
    Host fast, slow;
    Twin twin;
} Both;

static void both_begin(Both *b, const Probe *probe, bool uses) {
    b->fast.probe = b->slow.probe = probe;
    b->fast.uses = b->slow.uses = uses;
    b->twin = twin_new(asks, &b->fast, &b->slow, REPLAY(0));
}

static sn_tensor *call(sn_function *fn, const sn_value *in, int n_in) {
    sn_tensor *y = NULL;
    sn_call_values(fn, in, n_in, &y, 1);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    return y;
}

static void both_call(Both *b, const sn_value *in, int n_in, int at) {
    sn_tensor *const want = call(b->twin.eager, in, n_in);
    ck_assert_msg(same_bits(call(b->twin.fast, in, n_in), want), "%s: call %d serves an old answer",
                  b->fast.probe->name, at);
}

static const int order[] = {0, 0, 0, 1, 1, 1, 0, 1, 0, 1};
enum { CALLS = sizeof order / sizeof *order, LEARNING = 6 };

START_TEST(c7_what_an_argument_showed_is_a_guard) {
    Both b = {0};
    both_begin(&b, &probes[_i / 2], _i % 2);
    for (int i = 0; i < CALLS; i++) {
        const sn_value in[] = {sn_val(F32(i, 4)), b.fast.probe->make(order[i]), sn_val(F32(i, 3))};
        both_call(&b, in, b.fast.probe->counts ? 2 + order[i] : 2, i);
        if (i == LEARNING - 1) b.fast.runs = 0;
    }
    ck_assert_msg(b.fast.runs == 0, "%s: both answers were learnt, and the body ran %d times", b.fast.probe->name,
                  b.fast.runs);
    twin_free(b.twin);
}
END_TEST

START_TEST(c7_what_a_closed_over_tensor_showed_is_a_guard) {
    Both b = {0};
    both_begin(&b, &probes[_i / 2], _i % 2);
    const Probe *const probe = b.fast.probe;
    const bool of_leaf = probe->change == change_flag || probe->change == change_grad;
    sn_tensor *const t = of_leaf                        ? LEAF(1, 3, 4)
                         : probe->change == change_rank ? F32(1, 4)
                                                        : sn_narrow(F32(1, 5, 3), 0, 0, 4);
    b.fast.closed = b.slow.closed = t;
    int before = probe->change == change_flag ? 1 : 0;
    for (int i = 0; probe->change && i < CALLS; i++) {
        if (order[i] != before) probe->change(t, order[i]);
        before = order[i];
        both_call(&b, (sn_value[]){sn_val(F32(i, 4))}, 1, i);
        if (i == LEARNING - 1) b.fast.runs = 0;
    }
    ck_assert_msg(b.fast.runs == 0, "%s: both answers were learnt, and the body ran %d times", probe->name,
                  b.fast.runs);
    twin_free(b.twin);
}
END_TEST

/* Of results: they follow from the arguments, other sizes of which may change the answer. */
static sn_status asks_a_result(sn_frame *f) {
    Host *const host = sn_closure(f);
    host->runs++;
    const sn_sym n = sn_in_sym(f, 1);
    sn_tensor *const part = sn_narrow(sn_in(f, 0), 1, 0, sn_sym_arg(n));
    const bool whole = sn_is_contiguous(part);
    return sn_out(f, 0, sn_add_scalar(sn_sum(part), sn_int(whole ? 100 : 200)));
}

START_TEST(c7_a_results_contiguity_is_a_guard) {
    Both b = {0};
    b.twin = twin_new(asks_a_result, &b.fast, &b.slow, REPLAY(0));
    static const int64_t taken[] = {3, 4, 2, 5, 6, 3, 6};
    for (int i = 0; i < (int)(sizeof taken / sizeof *taken); i++)
        both_call(&b, (sn_value[]){sn_val(F32(i, 5, 6)), sn_int(taken[i])}, 2, i);
    twin_free(b.twin);
}
END_TEST

/* Strides that nothing is reached by: contiguous tensors may have any of them ---------------------- */

static sn_status shows_strides(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    int64_t shown[3];
    for (int d = 0; d < 3; d++) shown[d] = sn_sym_arg(sn_sym_stride(x, d));
    return sn_out(f, 0, sn_full((sn_ints){shown, 3}, sn_float(1), SN_F32));
}

START_TEST(c7_strides_of_ones_and_of_empties_are_shown_as_they_are) {
    static const int64_t sizes[][3] = {{1, 4, 3}, {5, 5, 0}, {4, 1, 3}, {0, 2, 6}};
    static const int64_t strides[][4][3] = {{{12, 3, 1}, {7, 3, 1}, {12, 3, 1}, {1, 3, 1}},
                                            {{5, 1, 1}, {1, 5, 25}, {0, 0, 0}, {5, 1, 1}},
                                            {{3, 3, 1}, {3, 9, 1}, {3, 0, 1}, {3, 3, 1}},
                                            {{12, 6, 1}, {2, 1, 2}, {12, 6, 1}, {6, 1, 0}}};
    const Twin twin = twin_new(shows_strides, NULL, NULL, REPLAY());
    for (int round = 0; round < 4; round++)
        for (int s = 0; s < 4; s++)
            for (int k = 0; k < 4; k++) {
                sn_tensor *const x = sn_as_strided(F32(1, 200), (sn_ints){sizes[s], 3}, (sn_ints){strides[s][k], 3}, 0);
                sn_tensor *const want = SN_CALL(twin.eager, x), *const got = SN_CALL(twin.fast, x);
                ck_assert_msg(got && same_bits(want, got), "sizes %d, strides %d, round %d: %s", s, k, round,
                              got ? sn_repr(got) : sn_error_take()->message);
            }
    twin_free(twin);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("queries");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, c7_every_query_has_a_probe);
    tcase_add_loop_test(tests, c7_what_an_argument_showed_is_a_guard, 0, 2 * PROBES);
    tcase_add_loop_test(tests, c7_what_a_closed_over_tensor_showed_is_a_guard, 0, 2 * PROBES);
    tcase_add_test(tests, c7_a_results_contiguity_is_a_guard);
    tcase_add_test(tests, c7_strides_of_ones_and_of_empties_are_shown_as_they_are);
    return suite_run("test_contract_c_queries", tests);
}
