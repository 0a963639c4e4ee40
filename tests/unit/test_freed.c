/* test_freed.c: a program's tape and memory go with its handles, whatever it wrote in place: what an op saved does not
 * hold what is made of its result, also where a tensor that was saved, or what it views, takes that result in place. No
 * program goes backward, which would free what the nodes save; there the write is the version error. Each runs eagerly
 * and compiled, and in a compiled function with breaks. */
#include "runtime/autograd/tape.h"
#include "tests/unit/contract.h"

enum { N = 128 };   /* such that memory comes from the allocator, which counts it */
static bool breaks; /* behind the op that saves */

static sn_tensor *product(sn_tensor *a, sn_tensor *b) {
    sn_tensor *const u = sn_mul(a, b);
    if (breaks) sn_graph_break("a test");
    return u;
}

/* Programs of a leaf x and data d, of N doubles each. */
typedef sn_tensor *(*Program)(sn_tensor *x, sn_tensor *d);

static sn_tensor *a_view_is_saved(sn_tensor *x, sn_tensor *d) {
    sn_tensor *const b = sn_mul(x, d), *const v = sn_view(b, SN_INTS(2, N / 2));
    sn_tensor *const u = product(v, sn_view(x, SN_INTS(2, N / 2)));
    return sn_add_(b, sn_view(u, SN_INTS(N)));
}

static sn_tensor *a_view_of_data_is_saved(sn_tensor *x, sn_tensor *d) {
    sn_tensor *const b = sn_clone(d), *const v = sn_narrow(b, 0, 0, N / 2);
    sn_add_(sn_narrow(b, 0, 1, N / 2), product(v, sn_narrow(x, 0, 0, N / 2)));
    return b;
}

static sn_tensor *a_view_takes_it(sn_tensor *x, sn_tensor *d) {
    sn_tensor *const b = sn_mul(x, d), *const v = sn_narrow(b, 0, 0, N);
    return sn_add_(v, product(v, x));
}

static sn_tensor *a_result_takes_it(sn_tensor *x, sn_tensor *d) {
    sn_tensor *const b = sn_mul(x, d);
    return sn_add_(b, product(b, x));
}

static sn_tensor *data_takes_it(sn_tensor *x, sn_tensor *d) {
    sn_tensor *const b = sn_clone(d);
    return sn_add_(b, product(b, x));
}

static sn_tensor *the_argument_takes_it(sn_tensor *x, sn_tensor *d) { return sn_add_(d, product(d, x)); }

static sn_tensor *a_view_of_the_argument_is_saved(sn_tensor *x, sn_tensor *d) {
    return sn_add_(d, product(sn_narrow(d, 0, 0, N), x));
}

static sn_tensor *rounds_of_it(sn_tensor *x, sn_tensor *d) {
    sn_tensor *const b = sn_mul(x, d);
    for (int i = 0; i < 3; i++)
        sn_add_(sn_narrow(b, 0, 0, N / 2), product(sn_narrow(b, 0, 1, N / 2), sn_narrow(x, 0, 0, N / 2)));
    return b;
}

static sn_status wave(sn_frame *f) {
    for (int i = 0; i < 2; i++) sn_save(f, sn_in(f, i));
    return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 1)));
}
static sn_status wave_backward(sn_frame *f) { return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_saved(f, 1))); }

static sn_tensor *custom_of(sn_tensor *a, sn_tensor *b) {
    static const sn_custom fn = {.size = sizeof fn, .name = "wave", .forward = wave, .backward = wave_backward};
    sn_tensor *out = NULL;
    sn_custom_call(&fn, NULL, (sn_tensor *const[]){a, b}, 2, &out, 1);
    return out;
}

static sn_tensor *a_custom_function_saves_it(sn_tensor *x, sn_tensor *d) {
    sn_tensor *const b = sn_mul(x, d);
    return sn_add_(b, custom_of(b, sn_narrow(b, 0, 0, N)));
}

static sn_tensor *a_custom_function_saves_data(sn_tensor *x, sn_tensor *d) {
    sn_tensor *const b = sn_clone(d);
    return sn_add_(b, custom_of(x, b));
}

static const Program programs[] = {a_view_is_saved,
                                   a_view_of_data_is_saved,
                                   a_view_takes_it,
                                   a_result_takes_it,
                                   data_takes_it,
                                   the_argument_takes_it,
                                   a_view_of_the_argument_is_saved,
                                   rounds_of_it,
                                   a_custom_function_saves_it,
                                   a_custom_function_saves_data};
enum { PROGRAMS = sizeof programs / sizeof *programs };

typedef struct Held { /* by live tensors and nodes */
    int64_t bytes, nodes;
} Held;

static Held held(void) {
    sn_memory memory = {.size = sizeof memory};
    if (sn_memory_get(SN_CPU, &memory) != SN_OK) ck_abort_msg("%s", sn_error_take()->message);
    return (Held){memory.current, tape_live_nodes()};
}

static sn_tensor *doubles(double first) {
    double data[N];
    for (int i = 0; i < N; i++) data[i] = first + i;
    return sn_from_data(data, SN_INTS(N), SN_F64);
}

typedef sn_tensor *(*Run)(void *how, sn_tensor *x, sn_tensor *d);

/* What a run leaves when its handles are gone. */
static void expect_freed(int i, Run run, void *how) {
    const Held before = held();
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = sn_requires_grad_(doubles(1), true), *const d = doubles(5);
    sn_tensor *const y = run(how, x, d);
    ck_assert_msg(y && !sn_check(), "program %d: %s", i, sn_error_take()->message);
    ck_assert_msg(sn_requires_grad(y) && held().nodes > before.nodes, "program %d", i);
    sn_scope_end(scope);
    const Held after = held();
    ck_assert_msg(after.nodes == before.nodes, "program %d: %d nodes are left", i, (int)(after.nodes - before.nodes));
    ck_assert_msg(after.bytes == before.bytes, "program %d: %d bytes are left", i, (int)(after.bytes - before.bytes));
}

static sn_tensor *run_eagerly(void *how, sn_tensor *x, sn_tensor *d) { return ((const Program *)how)[0](x, d); }

static sn_tensor *run_compiled(void *how, sn_tensor *x, sn_tensor *d) { return SN_CALL(how, x, d); }

static sn_status body(sn_frame *f) {
    const Program *const program = sn_closure(f);
    return sn_out(f, 0, (*program)(sn_in(f, 0), sn_in(f, 1)));
}

/* With gradients on the whole way. */
static void check_compiled(void) {
    for (int i = 0; i < PROGRAMS; i++) {
        sn_function *const fn = sn_compile(body, (void *)&programs[i], NULL);
        for (int k = 0; k < 4; k++) expect_freed(i, run_compiled, fn);
        sn_function_free(fn);
    }
}

START_TEST(eager_frees_all) {
    for (int i = 0; i < PROGRAMS; i++) expect_freed(i, run_eagerly, (void *)&programs[i]);
}
END_TEST

START_TEST(compiled_frees_all) { check_compiled(); }
END_TEST

START_TEST(with_breaks_frees_all) {
    breaks = true;
    check_compiled();
    breaks = false;
}
END_TEST

int main(void) {
    const TTest *const tests[] = {eager_frees_all, compiled_frees_all, with_breaks_frees_all};
    return contract_main("test_freed", tests, 3);
}
