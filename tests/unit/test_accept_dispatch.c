/* test_accept_dispatch.c: rows of the acceptance list about the dispatcher, one test each, named by its
 * number. Row 2.02 has another in test_dispatch.c; 2.13 has its in test_accept_inspect.c, 2.16 in
 * test_autocast.c. */
#include <stdio.h>

#include "tests/unit/contract.h"

static char trace[8192];
static void note(const char *what) { strncat(trace, what, sizeof trace - strlen(trace) - 1); }
static void log_into_trace(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    if (!strcmp(topic, "dispatch")) note(line), note(";");
}

/* The keys that ran for an op, without what came before. */
static const char *traced(sn_tensor *(*op)(sn_tensor *, sn_tensor *), sn_tensor *x, sn_tensor *y) {
    trace[0] = '\0';
    ck_assert_ptr_nonnull(op(x, y));
    return trace;
}

START_TEST(a2_01_the_trace_variable_prints_keys_in_order) {
    setenv("SINTER_DISPATCH_TRACE", "1", 1);
    ck_assert_int_eq(sn_init(SN_INIT_OPTIONS(.threads = 1, .log = log_into_trace)), SN_OK);
    sn_tensor *const x = F32(1, 4);
    ck_assert_str_eq(traced(sn_add, x, x), "aten::add.Tensor: autograd;aten::add.Tensor: cpu;");
}
END_TEST

/* 2.02: sets by chance, against the naive rule. Of tensors: keys of a program's, and which kernels there are; of the
 * thread: mode and autocast come in, inference takes autograd out. */
typedef struct KeyCase {
    sn_key key;
    const char *name;
    sn_override *kernel; /* in this round; or NULL */
    bool in_set;
} KeyCase;
enum { CASE_CPU, CASE_AUTOGRAD, CASE_AUTOCAST, CASE_MODE, FIRST_SLOT };
static KeyCase key_cases[] = {{SN_KEY_CPU, "cpu"},
                              {SN_KEY_AUTOGRAD, "autograd"},
                              {SN_KEY_AUTOCAST, "autocast"},
                              {SN_KEY_MODE, "mode"},
                              {SN_KEY_XLA, "xla"},
                              {SN_KEY_MPS, "mps"},
                              {SN_KEY_QUANTIZED, "quantized"},
                              {SN_KEY_MKLDNN, "mkldnn"},
                              {SN_KEY_NESTED, "nested"},
                              {SN_KEY_NAMED, "named"},
                              {SN_KEY_CONJUGATE, "conjugate"},
                              {SN_KEY_ZERO_TENSOR, "zero_tensor"}};
enum { KEY_CASES = sizeof key_cases / sizeof *key_cases };
static const char *key_that_ran; /* the first one: a kernel's own ops meet the mode as well */
static void note_key(const char *name) { key_that_ran = key_that_ran ? key_that_ran : name; }

static sn_status says_its_key(sn_frame *f) {
    note_key(sn_closure(f));
    return sn_out(f, 0, sn_ones(SN_INTS(2), SN_F32));
}
static sn_status walk_cpu(sn_frame *f) {
    note_key("cpu");
    return sn_out(f, 0, sn_clone(sn_in(f, 0)));
}

static uint64_t chance = 7;
static bool coin(void) {
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return chance >> 63;
}

/* With keys of some slots, noted in the union. */
static sn_tensor *with_some_keys(void) {
    sn_tensor *t = F32(1, 2);
    for (int i = FIRST_SLOT; i < KEY_CASES; i++) {
        if (coin() || coin()) continue;
        t = sn_with_key(t, key_cases[i].key);
        key_cases[i].in_set = true;
    }
    return t;
}

/* The dump has a line per key, highest first. */
static int place_of(const char *dump, const char *name) {
    char line[32];
    snprintf(line, sizeof line, "\n%s: ", name);
    const char *const at = strstr(dump, line);
    ck_assert_msg(at != NULL, "%s is not in %s", name, dump);
    return (int)(at - dump);
}

/* What has no kernel: the library's keys pass the call on; a slot says that it has none. */
static const KeyCase *naive_winner(const char *dump) {
    const KeyCase *best = NULL;
    for (int i = 0; i < KEY_CASES; i++) {
        const KeyCase *const c = &key_cases[i];
        const bool serves = c->kernel || i >= FIRST_SLOT || i == CASE_CPU || i == CASE_MODE;
        if (c->in_set && serves && (!best || place_of(dump, c->name) < place_of(dump, best->name))) best = c;
    }
    return best;
}

static void choose_kernels(const sn_op *op) {
    for (int i = 0; i < KEY_CASES; i++) {
        KeyCase *const c = &key_cases[i];
        c->kernel =
            i != CASE_MODE && coin() ? sn_op_override(op, c->key, says_its_key, (void *)(uintptr_t)c->name) : NULL;
    }
}

/* Until the scope ends. */
static void choose_modes(void) {
    for (int i = CASE_AUTOGRAD; i <= CASE_MODE; i++) key_cases[i].in_set = coin();
    if (!key_cases[CASE_AUTOGRAD].in_set) sn_grad_mode_set(SN_INFERENCE);
    if (key_cases[CASE_AUTOCAST].in_set) sn_autocast_set(SN_CPU, SN_BF16);
    if (key_cases[CASE_MODE].in_set) sn_user_mode_push(says_its_key, (void *)(uintptr_t)key_cases[CASE_MODE].name);
}

static void expect_winner(const sn_tensor *got, const KeyCase *want) {
    char refused[64];
    snprintf(refused, sizeof refused, "it is not implemented for key %s", want->name);
    if (want >= key_cases + FIRST_SLOT && !want->kernel) {
        ck_assert_ptr_null(got);
        expect_error(SN_ERR_UNSUPPORTED, refused);
    } else {
        ck_assert_msg(got != NULL, "%s: %s", want->name, sn_error_take()->message);
        ck_assert_str_eq(key_that_ran, want->name);
    }
}

START_TEST(a2_02_the_highest_key_of_the_set_runs) {
    const sn_op *const op = sn_op_register(
        SN_OP_DESC(.schema = "accept::walk(Tensor x, Tensor y) -> Tensor", .flags = SN_OP_PURE, .cpu = walk_cpu));
    const char *const dump = sn_dispatch_dump(op);
    int won[KEY_CASES] = {0};
    for (int round = 0; round < 1000; round++) {
        const sn_scope scope = sn_scope_begin();
        for (int i = 0; i < KEY_CASES; i++) key_cases[i].in_set = i == CASE_CPU;
        sn_tensor *const x = with_some_keys(), *const y = with_some_keys();
        choose_kernels(op);
        choose_modes();
        const KeyCase *const want = naive_winner(dump);
        key_that_ran = NULL;
        expect_winner(sn_op_call1(op, (const sn_value[]){sn_val(x), sn_val(y)}, 2), want);
        sn_scope_end(scope);
        for (int i = 0; i < KEY_CASES; i++) sn_override_free(key_cases[i].kernel);
        won[want - key_cases]++;
    }
    for (int i = 0; i < KEY_CASES; i++) ck_assert_msg(won[i], "%s never won", key_cases[i].name);
}
END_TEST

START_TEST(a2_03_unsupported_dtypes_name_op_and_dtype) {
    sn_tensor *const x = sn_ones(SN_INTS(3), SN_I32);
    ck_assert_ptr_null(sn_gelu(x));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_DTYPE);
    ck_assert_str_eq(error->op, "aten::gelu");
    ck_assert_msg(strstr(error->message, "i32") != NULL, "%s", error->message);
}
END_TEST

static sn_status counts_then_on(sn_frame *f) {
    note("wrapper;");
    return sn_redispatch(f);
}

START_TEST(a2_04_a_wrapper_runs_once_then_the_next_key) {
    sn_override *const o = sn_op_override(sn_op_find("aten::add.Tensor"), SN_KEY_AUTOGRAD, counts_then_on, NULL);
    sn_tensor *const x = F32(1, 4);
    trace[0] = '\0';
    sn_tensor *const y = sn_add(x, x);
    sn_override_free(o);
    ck_assert_str_eq(trace, "wrapper;");
    ck_assert(same_bits(y, sn_mul_scalar(x, sn_int(2))));
}
END_TEST

/* accept::scale(Tensor x, float by=2.0) -> Tensor on the host, with a derivative. */
static sn_status scale_cpu(sn_frame *f) {
    note("cpu;");
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(sn_in_float(f, 1))));
}
static sn_status scale_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status scale_derivative(sn_frame *f) {
    note("derivative;");
    return sn_set_grad_of(f, 0, sn_mul_scalar(sn_grad_of(f, 0), sn_float(sn_in_float(f, 1))));
}

START_TEST(a2_05_a_users_op_runs_by_its_schema_and_is_defined_once) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "accept::scale(Tensor x, float by=2.0) -> Tensor", .flags = SN_OP_PURE,
                                  .meta = scale_meta, .cpu = scale_cpu, .derivative = scale_derivative, .saves = ""));
    ck_assert_msg(op && sn_op_find("accept::scale") == op, "%s", sn_error_take()->message);
    ck_assert_str_eq(sn_op_schema(op), "accept::scale(Tensor x, float by=2.0) -> Tensor");
    sn_tensor *const x = LEAF(1, 4);
    trace[0] = '\0';
    sn_tensor *const y = sn_op_call1(op, (sn_value[]){sn_val(x), sn_float(3)}, 2);
    ck_assert(same_bits(y, sn_mul_scalar(x, sn_float(3))));
    ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
    ck_assert_str_eq(trace, "cpu;derivative;");
    ck_assert(same_bits(sn_grad(x), sn_full(SN_INTS(4), sn_float(3), SN_F32)));
    ck_assert(same_bits(sn_op_call1(op, (sn_value[]){sn_val(x)}, 1), sn_mul_scalar(x, sn_float(2)))); /* the default */
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "accept::scale(Tensor x) -> Tensor", .cpu = scale_cpu)));
    expect_error(SN_ERR_ARGUMENT, "exists already");
}
END_TEST

static sn_status constant_seven(sn_frame *f) { return sn_out(f, 0, sn_full_like(sn_in(f, 0), sn_int(7))); }

START_TEST(a2_06_a_built_in_op_is_replaced_and_restored) {
    sn_tensor *const x = F32(1, 4), *const want = sn_add(x, x);
    sn_override *const o = sn_op_override(sn_op_find("aten::add.Tensor"), SN_KEY_CPU, constant_seven, NULL);
    ck_assert(sn_item(sn_amax(sn_add(x, x))) == 7);
    sn_override_free(o);
    ck_assert(same_bits(sn_add(x, x), want));
}
END_TEST

static sn_tensor *factory(const char *name, sn_device device) {
    const int64_t sizes[] = {2, 3};
    const sn_value in[] = {
        {.kind = SN_KIND_INTS, .n = 2, .ints = sizes}, sn_int(SN_F32), {.kind = SN_KIND_NONE}, sn_int(device)};
    return sn_op_call1(sn_op_find(name), in, 4);
}

START_TEST(a2_07_factories_go_where_their_device_says) {
    static const char *const names[] = {"aten::empty.memory_format", "aten::ones", "aten::randn"};
    for (int i = 0; i < 3; i++) {
        sn_tensor *const here = factory(names[i], SN_CPU);
        ck_assert_msg(here != NULL, "%s: %s", names[i], sn_error_take()->message);
        ck_assert_int_eq(sn_device_of(here), SN_CPU);
        sn_tensor *const there = factory(names[i], SN_META);
        ck_assert_msg(there != NULL, "%s: %s", names[i], sn_error_take()->message);
        ck_assert_int_eq(sn_device_of(there), SN_META);
        ck_assert_int_eq(sn_size(there, 1), 3);
        ck_assert_ptr_null(factory(names[i], SN_CUDA(0))); /* these tests see no driver */
        expect_error(SN_ERR_DEVICE, "no NVIDIA driver");
    }
}
END_TEST

/* The most bytes that 100 results took, with what was made on the way. */
static int64_t bytes_of(sn_tensor *(*make)(sn_tensor *), sn_tensor *x) {
    sn_memory before = {.size = sizeof before}, after = before;
    const sn_scope scope = sn_scope_begin();
    sn_memory_get(SN_CPU, &before);
    sn_memory_reset_peak(SN_CPU);
    for (int i = 0; i < 100; i++) make(x);
    sn_memory_get(SN_CPU, &after);
    ck_assert_int_eq(after.peak, after.current);
    sn_scope_end(scope);
    return after.peak - before.current;
}
static sn_tensor *doubled(sn_tensor *x) { return sn_add(x, x); }

/* Its time is a row of the benchmark (eager/add16), as no test asserts one. It goes through two keys (a2_01); nothing
 * is recorded, nor made beside the result. */
START_TEST(a2_21_an_add_takes_the_memory_of_its_result) {
    for (int64_t n = 1; n <= 4096; n *= 8) {
        sn_tensor *const x = F32(1, n);
        sn_add(x, x);
        const int64_t bytes = bytes_of(doubled, x);
        if (n > 256) ck_assert_int_ge(bytes, 100 * 4 * n); /* a few elements lie in the handle */
        ck_assert_int_eq(bytes, bytes_of(sn_empty_like, x));
    }
}
END_TEST

START_TEST(a2_22_mixed_devices_name_both) {
    sn_tensor *const here = F32(1, 2, 3), *const there = factory("aten::ones", SN_META);
    ck_assert_ptr_null(sn_add(here, there));
    expect_error(SN_ERR_DEVICE, "'self' is on cpu");
    ck_assert_ptr_null(sn_mm(there, sn_t(here)));
    expect_error(SN_ERR_DEVICE, "'self' is on meta");
    ck_assert_ptr_null(sn_mm(there, sn_t(here)));
    expect_error(SN_ERR_DEVICE, "on cpu");
}
END_TEST

START_TEST(a2_08_composites_need_no_backend_kernel) {
    sn_tensor *const x = LEAF(1, 2, 3), *const w = LEAF(2, 4, 3);
    const char *const dump = sn_dispatch_dump(sn_op_find("aten::linear"));
    ck_assert_ptr_nonnull(strstr(dump, "autograd: kernel of the op")); /* its expansion */
    sn_tensor *const y = sn_linear(x, w, NULL);
    ck_assert(same_bits(y, sn_mm(x, sn_t(w))));
    ck_assert_int_eq(sn_backward(sn_sum(y)), SN_OK);
    ck_assert(same_bits(sn_grad(x), sn_mm(sn_ones(SN_INTS(2, 4), SN_F32), w)));
    ck_assert_ptr_nonnull(sn_grad(w));
}
END_TEST

static int logged;
static sn_status boxed_logger(sn_frame *f) {
    logged++;
    note(sn_op_schema(sn_frame_op(f)));
    note("\n");
    return sn_redispatch(f);
}

START_TEST(a2_09_one_boxed_fallback_serves_every_schema) {
    sn_tensor *const x = F32(1, 2, 4), *const y = F32(2, 2, 4), *const row = F32(3, 4);
    sn_override *const o = sn_fallback_set(SN_KEY_AUTOCAST, boxed_logger, NULL);
    sn_autocast_set(SN_CPU, SN_BF16);
    trace[0] = '\0';
    logged = 0;
    sn_tensor *pieces[2];
    const sn_tensor *const results[] = {sn_add(x, y),
                                        sn_relu(x),
                                        sn_sum(x),
                                        sn_mm(x, sn_t(y)),
                                        sn_transpose(x, 0, 1),
                                        sn_where(sn_gt(x, y), x, y),
                                        sn_clamp(x, sn_float(-1), sn_float(1)),
                                        sn_cat(SN_TENSORS(x, y), 0),
                                        sn_ones(SN_INTS(3), SN_F32),
                                        sn_layer_norm(x, SN_INTS(4), row, row),
                                        sn_add_(y, x)};
    ck_assert_int_eq(sn_split(x, 1, 0, pieces, 2), 2);
    sn_autocast_set(SN_CPU, SN_F32);
    sn_override_free(o);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        ck_assert_msg(results[i] != NULL, "%zu: %s", i, sn_error_take()->message);
    ck_assert_int_ge(logged, 10);
    static const char *const seen[] = {"aten::add.Tensor(", "aten::mm(",          "aten::cat(",  "aten::where.self(",
                                       "aten::ones(",       "aten::add_.Tensor(", "aten::split", "aten::layer_norm("};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        ck_assert_msg(strstr(trace, seen[i]) != NULL, "%s is not in:\n%s", seen[i], trace);
}
END_TEST

static sn_status not_called(sn_frame *f) {
    (void)f;
    return sn_fail(SN_ERR_INTERNAL, "nobody calls it");
}

/* A program's ops, whose schemas read as PyTorch prints its own. */
START_TEST(a2_10_a_program_writes_schemas_as_pytorch_does) {
    static const char *const texts[] = {
        "accept::add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        "accept::max(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        "accept::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float "
        "eps) -> (Tensor, Tensor, Tensor)",
        "accept::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float "
        "eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
        "accept::pool(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=[0, 0], bool ceil_mode=False) "
        "-> Tensor",
        "accept::gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
        "accept::to(Tensor self, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
        "accept::rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331) -> Tensor",
        "accept::put(Tensor(a!) self, Tensor[] values, bool accumulate=False) -> Tensor"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = texts[i], .cpu = not_called, .meta = not_called));
        ck_assert_msg(op != NULL, "%s: %s", texts[i], sn_error_take()->message);
        ck_assert_str_eq(sn_op_schema(op), texts[i]);
    }
    ck_assert_ptr_null(sn_op_register(SN_OP_DESC(.schema = "accept::bad(Tensr x) -> Tensor", .cpu = not_called)));
    expect_error(SN_ERR_PARSE, "Tensr");
}
END_TEST

/* Schemas of written forms follow from the row; PyTorch writes them so. */
START_TEST(a2_10_forms_have_pytorchs_schemas) {
    static const char *const texts[] = {
        "aten::native_layer_norm.out(Tensor input, SymInt[] normalized_shape, Tensor? weight, "
        "Tensor? bias, float eps, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2) -> "
        "(Tensor(a!), Tensor(b!), Tensor(c!))",
        "aten::gelu_backward.grad_input(Tensor grad_output, Tensor self, *, str "
        "approximate=\"none\", Tensor(a!) grad_input) -> Tensor(a!)",
        "aten::sum.IntList_out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? "
        "dtype=None, Tensor(a!) out) -> Tensor(a!)",
        "aten::zeros.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)",
        "aten::arange.start_out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> "
        "Tensor(a!)",
        "aten::empty.out(SymInt[] size, *, MemoryFormat? memory_format=None, Tensor(a!) out) -> "
        "Tensor(a!)",
        "aten::_to_copy.out(Tensor self, *, bool non_blocking=False, MemoryFormat? "
        "memory_format=None, Tensor(a!) out) -> Tensor(a!)",
        "aten::rand.generator_out(SymInt[] size, *, Generator? generator, Tensor(a!) out) -> "
        "Tensor(a!)",
        "aten::floor_divide_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        "aten::pow_.Scalar(Tensor(a!) self, Scalar exponent) -> Tensor(a!)",
        "aten::bitwise_left_shift_.Tensor_Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(texts[i], "("), texts[i]);
        const sn_op *const op = sn_op_find(name);
        ck_assert_msg(op != NULL, "%s", name);
        ck_assert_str_eq(sn_op_schema(op), texts[i]);
    }
}
END_TEST

/* The in-place form of "aten::add.Tensor", "aten::add_.Tensor"; 0: its overload has another name (pow_.Tensor). */
static int expect_in_place(const char *name) {
    char written[132];
    const int base = (int)strcspn(name, ".");
    snprintf(written, sizeof written, "%.*s_%s", base, name, name + base);
    const sn_op *const op = sn_op_find(written);
    if (!op) return sn_error_take(), 0;
    ck_assert_msg(!strncmp(sn_op_schema(op), written, strlen(written)), "%s: %s", written, sn_op_schema(op));
    ck_assert_msg(strstr(sn_op_schema(op), "(Tensor(a!) ") && strstr(sn_op_schema(op), "-> Tensor(a!)"), "%s",
                  sn_op_schema(op));
    return 1;
}

START_TEST(a2_10_every_op_has_a_schema_that_marks_what_it_writes) {
    static const char head[] = "{\"name\": \"";
    int n = 0, n_in_place = 0;
    for (const char *at = sn_op_list(); (at = strstr(at, head)); n++) {
        char name[128];
        at += strlen(head);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "\""), at);
        const char *const in_place = strstr(at, "\"inplace\": true"), *const next = strstr(at, head);
        if (strncmp(name, "sn::", 4) == 0) continue; /* only graphs have it */
        const sn_op *const op = sn_op_find(name);
        ck_assert_msg(op != NULL, "%s", name);
        const char *const schema = sn_op_schema(op);
        ck_assert_msg(!strncmp(schema, name, strlen(name)) && schema[strlen(name)] == '(' && strstr(schema, ") -> "),
                      "%s: %s", name, schema);
        if (!in_place || (next && in_place > next)) continue;
        n_in_place += expect_in_place(name);
    }
    ck_assert_int_gt(n, 400);
    ck_assert_int_gt(n_in_place, 100);
}
END_TEST

/* 2.11: function, in-place form (a method of self), out form. */
typedef sn_tensor *Unary(sn_tensor *x);
typedef sn_tensor *UnaryOut(sn_tensor *out, sn_tensor *x);
typedef sn_tensor *Binary(sn_tensor *x, sn_tensor *y);
typedef sn_tensor *BinaryOut(sn_tensor *out, sn_tensor *x, sn_tensor *y);
#define UNARY(name)                                                                                                    \
    { #name, sn_##name, sn_##name##_, sn_##name##_out }
#define BINARY(name)                                                                                                   \
    { #name, sn_##name, sn_##name##_, sn_##name##_out }

START_TEST(a2_11_variants_of_an_op_agree) {
    static const struct {
        const char *name;
        Unary *function, *in_place;
        UnaryOut *out;
    } unary[] = {UNARY(exp),   UNARY(log), UNARY(sin),     UNARY(cos),   UNARY(tanh), UNARY(sqrt),
                 UNARY(rsqrt), UNARY(neg), UNARY(sigmoid), UNARY(floor), UNARY(ceil), UNARY(reciprocal)};
    static const struct {
        const char *name;
        Binary *function, *in_place;
        BinaryOut *out;
    } binary[] = {BINARY(add), BINARY(sub), BINARY(mul), BINARY(div)};
    sn_tensor *const y = F32(2, 2, 3);
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
        sn_tensor *const x = F32(1, 2, 3), *const want = unary[i].function(x),
                         *const out = sn_empty(SN_INTS(0), SN_F32);
        ck_assert_msg(unary[i].out(out, x) == out && same_bits(out, want), "%s: out", unary[i].name);
        ck_assert_msg(unary[i].in_place(x) == x && same_bits(x, want), "%s: in place", unary[i].name);
    }
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) {
        sn_tensor *const x = F32(1, 2, 3), *const want = binary[i].function(x, y), *const out = sn_empty_like(y);
        ck_assert_msg(binary[i].out(out, x, y) == out && same_bits(out, want), "%s: out", binary[i].name);
        ck_assert_msg(binary[i].in_place(x, y) == x && same_bits(x, want), "%s: in place", binary[i].name);
        char name[64];
        snprintf(name, sizeof name, "aten::%s_.Tensor", binary[i].name); /* and boxed, by name */
        sn_tensor *const boxed = F32(1, 2, 3);
        ck_assert_ptr_eq(sn_op_call1(sn_op_find(name), (sn_value[]){sn_val(boxed), sn_val(y)}, 2), boxed);
        ck_assert_msg(same_bits(boxed, want), "%s", name);
    }
}
END_TEST

/* The message behind the name of the form. */
static const char *what_of(const sn_error *error) {
    const char *const after = strstr(error->message, ": ");
    return after ? after : error->message;
}

START_TEST(a2_12_forms_share_their_meta_rule_and_its_errors) {
    sn_tensor *const x = F32(1, 2, 3), *const y = F32(2, 4);
    char want[512];
    ck_assert_ptr_null(sn_add(x, y));
    const sn_error *error = sn_error_take();
    const sn_status status = error->status;
    strcpy(want, what_of(error));
    ck_assert_ptr_null(sn_add_(x, y));
    error = sn_error_take();
    ck_assert_int_eq(error->status, status);
    ck_assert_str_eq(what_of(error), want);
    ck_assert_ptr_null(sn_add_out(F32(3, 2, 3), x, y));
    error = sn_error_take();
    ck_assert_int_eq(error->status, status);
    ck_assert_str_eq(what_of(error), want);
}
END_TEST

START_TEST(a2_14_keys_and_kernels_print) {
    sn_tensor *const x = LEAF(1, 4);
    ck_assert_str_eq(sn_keys(x), "autograd, cpu");
    sn_tensor *const y = sn_detach(sn_mul(x, x));
    ck_assert(!sn_requires_grad(y)); /* no history: nothing is recorded for it */
    ck_assert_int_ne(sn_backward(sn_sum(y)), SN_OK);
    sn_error_take();
    const char *const dump = sn_dispatch_dump(sn_op_find("aten::addmm"));
    ck_assert_ptr_nonnull(strstr(dump, "autograd: fallback"));
    ck_assert_ptr_nonnull(strstr(dump, "cpu: fallback"));
    ck_assert_ptr_nonnull(strstr(dump, "spare: not implemented"));
}
END_TEST

START_TEST(a2_15_no_grad_enters_autograd_and_inference_does_not) {
    sn_setting_set("dispatch_trace", "1");
    sn_logging_set(log_into_trace, NULL, "");
    sn_tensor *const x = LEAF(1, 4);
    sn_grad_mode_set(SN_GRAD_OFF);
    ck_assert_str_eq(traced(sn_mul, x, x), "aten::mul.Tensor: autograd;aten::mul.Tensor: cpu;");
    ck_assert(!sn_requires_grad(sn_mul(x, x)));
    sn_grad_mode_set(SN_INFERENCE);
    ck_assert_str_eq(traced(sn_mul, x, x), "aten::mul.Tensor: cpu;");
}
END_TEST

/* 2.17 to 2.19: user modes */
static void note_sizes(sn_tensor *t) {
    char text[64];
    note("(");
    for (int i = 0; i < sn_rank(t); i++) {
        snprintf(text, sizeof text, i ? ",%lld" : "%lld", (long long)sn_size(t, i));
        note(text);
    }
    note(")");
}

static const char *base_name(sn_frame *f) {
    static char name[64];
    const char *const schema = sn_op_schema(sn_frame_op(f));
    snprintf(name, sizeof name, "%.*s", (int)strcspn(schema, "(.") - 6, schema + 6);
    return name;
}

/* The results of a frame are seen by calling the op again from the handler, below the mode. */
static sn_status shape_tracker(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0), *y = sn_in(f, 1);
    const sn_value in[] = {sn_val(x), sn_val(y)};
    sn_tensor *const z = sn_op_call1(sn_frame_op(f), in, 2);
    note(base_name(f)), note(": ["), note_sizes(x), note(","), note_sizes(y), note("] -> ");
    if (z) note_sizes(z);
    return sn_out(f, 0, z);
}

START_TEST(a_dispatch_mode_prints_shapes) {
    sn_tensor *const x = F32(1, 3, 4), *const y = F32(2, 4, 5), *const want = sn_mm(x, y);
    ck_assert_int_eq(sn_user_mode_push(shape_tracker, NULL), SN_OK);
    trace[0] = '\0';
    sn_tensor *const z = sn_mm(x, y);
    sn_user_mode_pop();
    ck_assert_str_eq(trace, "mm: [(3,4),(4,5)] -> (3,5)");
    ck_assert(same_bits(z, want));
}
END_TEST

static sn_status dispatch_logger(sn_frame *f) {
    if (sn_closure(f)) note(sn_closure(f));
    note(base_name(f)), note(";");
    return sn_redispatch(f);
}

START_TEST(a2_18_the_logger_sees_t_then_addmm) {
    sn_tensor *const x = F32(1, 2, 3), *const w = F32(2, 4, 3), *const b = F32(3, 4);
    sn_tensor *const want = sn_linear(x, w, b);
    sn_user_mode_push(dispatch_logger, NULL);
    trace[0] = '\0';
    ck_assert(same_bits(sn_linear(x, w, b), want));
    ck_assert_str_eq(trace, "t;addmm;");
    trace[0] = '\0';
    sn_linear(x, w, NULL);
    ck_assert_str_eq(trace, "t;mm;");
    sn_user_mode_pop();
    sn_user_mode_push(dispatch_logger, "outer ");
    sn_user_mode_push(dispatch_logger, "inner ");
    trace[0] = '\0';
    sn_relu(x);
    ck_assert_str_eq(trace, "inner relu;outer relu;");
}
END_TEST

typedef struct Counts {
    int t, addmm, relu, other;
} Counts;

static sn_status op_counter(sn_frame *f) {
    Counts *const counts = sn_closure(f);
    const char *const name = base_name(f);
    int *const count = !strcmp(name, "t")       ? &counts->t
                       : !strcmp(name, "addmm") ? &counts->addmm
                       : !strcmp(name, "relu")  ? &counts->relu
                                                : &counts->other;
    ++*count;
    return sn_redispatch(f);
}

START_TEST(a2_19_a_two_layer_mlp_counts_five_ops) {
    sn_tensor *const x = F32(1, 2, 3), *const w1 = F32(2, 8, 3), *const b1 = F32(3, 8);
    sn_tensor *const w2 = F32(4, 4, 8), *const b2 = F32(5, 4);
    Counts counts = {0};
    sn_user_mode_push(op_counter, &counts);
    ck_assert_ptr_nonnull(sn_linear(sn_relu(sn_linear(x, w1, b1)), w2, b2));
    sn_user_mode_pop();
    ck_assert_int_eq(counts.t, 2);
    ck_assert_int_eq(counts.addmm, 2);
    ck_assert_int_eq(counts.relu, 1);
    ck_assert_int_eq(counts.other, 0);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a2_01_the_trace_variable_prints_keys_in_order,
        a2_02_the_highest_key_of_the_set_runs,
        a2_03_unsupported_dtypes_name_op_and_dtype,
        a2_04_a_wrapper_runs_once_then_the_next_key,
        a2_05_a_users_op_runs_by_its_schema_and_is_defined_once,
        a2_06_a_built_in_op_is_replaced_and_restored,
        a2_07_factories_go_where_their_device_says,
        a2_08_composites_need_no_backend_kernel,
        a2_21_an_add_takes_the_memory_of_its_result,
        a2_22_mixed_devices_name_both,
        a2_09_one_boxed_fallback_serves_every_schema,
        a2_10_a_program_writes_schemas_as_pytorch_does,
        a2_10_forms_have_pytorchs_schemas,
        a2_10_every_op_has_a_schema_that_marks_what_it_writes,
        a2_11_variants_of_an_op_agree,
        a2_12_forms_share_their_meta_rule_and_its_errors,
        a2_14_keys_and_kernels_print,
        a2_15_no_grad_enters_autograd_and_inference_does_not,
        a_dispatch_mode_prints_shapes,
        a2_18_the_logger_sees_t_then_addmm,
        a2_19_a_two_layer_mlp_counts_five_ops,
    };
    return contract_main("test_accept_dispatch", tests, (int)(sizeof tests / sizeof *tests));
}
