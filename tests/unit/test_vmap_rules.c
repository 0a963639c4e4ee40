/* test_vmap_rules.c: under sn_vmap a program's op by a scalar expression, mv, index_select and convolution run for all
 * examples at once, with the bits of a loop [acceptance 9.18]. */
#include "tests/unit/contract.h"

enum { EXAMPLES = 3 };

static int loops;
static void count_loops(void *context, int level, const char *topic, const char *line) {
    loops += !strcmp(topic, "vmap");
}

static sn_tensor *example(sn_tensor *t, bool batched, int i) { return t && batched ? sn_select(t, 0, i) : t; }

/* Tensor k has examples where bit k of `batched` is set. The op in rows of its own call. */
typedef sn_tensor *Call(sn_tensor *const *in, const void *how);
typedef struct Mapped {
    Call *call;
    const void *how;
    int n;
} Mapped;

static sn_status body(sn_frame *f) {
    const Mapped *const m = sn_closure(f);
    sn_tensor *in[3] = {NULL};
    for (int i = 0; i < m->n; i++) in[i] = sn_in(f, i);
    return sn_out(f, 0, m->call(in, m->how));
}

static void same_as_loop(Call *call, const void *how, sn_tensor *const *in, int n, unsigned batched) {
    Mapped m = {call, how, n};
    int64_t dims[3];
    sn_tensor *out = NULL, *each[EXAMPLES];
    for (int i = 0; i < n; i++) dims[i] = batched >> i & 1 ? 0 : SN_NO_INT;
    loops = 0;
    sn_logging_set(count_loops, NULL, NULL);
    const sn_vmap_options options = {.size = sizeof options, .in_dims = {dims, n}};
    sn_vmap(body, &m, &options, (sn_tensors){(sn_tensor **)(uintptr_t)in, n}, &out, 1);
    sn_logging_set(NULL, NULL, NULL);
    ck_assert_msg(out != NULL, "batched %u: %s", batched, sn_error_take()->message);
    ck_assert_msg(!loops, "batched %u: it runs example by example", batched);
    for (int e = 0; e < EXAMPLES; e++) {
        sn_tensor *one[3] = {NULL};
        for (int i = 0; i < n; i++) one[i] = example(in[i], batched >> i & 1, e);
        each[e] = call(one, how);
    }
    ck_assert_msg(same_bits(out, sn_stack((sn_tensors){each, EXAMPLES}, 0)), "batched %u", batched);
}

/* a program's op -------------------------------------------------------------------------------- */

static sn_tensor *gate(sn_tensor *const *in, const void *how) {
    const sn_value values[] = {sn_val(in[0]), sn_val(in[1]), sn_float(0.25)};
    return sn_op_call1(how, values, 3);
}

START_TEST(a9_18_a_scalar_expressions_rule_is_derived) {
    const sn_op *const op = sn_op_register(SN_OP_DESC(.schema = "rules::gate(Tensor x, Tensor y, float by) -> Tensor",
                                                      .flags = SN_OP_PURE, .scalar = "max(x, 0) * y + by"));
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    same_as_loop(gate, op, (sn_tensor *[]){F32(1, EXAMPLES, 4), F32(2, EXAMPLES, 4)}, 2, 3);
    same_as_loop(gate, op, (sn_tensor *[]){F32(1, EXAMPLES, 4), F32(2, 4)}, 2, 1);
    same_as_loop(gate, op, (sn_tensor *[]){F32(1, 4), F32(2, EXAMPLES, 4)}, 2, 2);
    same_as_loop(gate, op, (sn_tensor *[]){F32(1, EXAMPLES, 5, 4), F32(2, EXAMPLES, 4)}, 2, 3); /* it broadcasts */
    same_as_loop(gate, op, (sn_tensor *[]){F32(1, EXAMPLES), F32(2, EXAMPLES, 4)}, 2, 3);       /* one of no dims */
}
END_TEST

/* rows --------------------------------------------------------------------------------------------- */

static sn_tensor *times(sn_tensor *const *in, const void *how) { return sn_mv(in[0], in[1]); }

static sn_tensor *dots(sn_tensor *const *in, const void *how) { return sn_dot(in[0], in[1]); }
static sn_tensor *vector(int64_t seed, int64_t k, bool each) { return each ? F32(seed, EXAMPLES, k) : F32(seed, k); }

START_TEST(a9_18_mv) {
    for (int64_t k = 1; k < 70; k += 17)
        same_as_loop(times, NULL, (sn_tensor *[]){F32(1, EXAMPLES, 5, k), F32(2, k)}, 2, 1);
    same_as_loop(times, NULL, (sn_tensor *[]){sn_transpose(F32(1, EXAMPLES, 7, 5), 1, 2), F32(2, 7)}, 2, 1);
    for (int64_t k = 1; k < 1200; k = 5 * k + 2) {
        same_as_loop(times, NULL, (sn_tensor *[]){F32(1, EXAMPLES, 5, k), F32(2, EXAMPLES, k)}, 2, 3);
        same_as_loop(times, NULL, (sn_tensor *[]){F32(1, 5, k), F32(2, EXAMPLES, k)}, 2, 2);
        for (unsigned batched = 1; batched < 4; batched++)
            same_as_loop(dots, NULL, (sn_tensor *[]){vector(1, k, batched & 1), vector(2, k, batched & 2)}, 2, batched);
    }
}
END_TEST

static sn_tensor *select_rows(sn_tensor *const *in, const void *how) {
    return sn_index_select(in[0], *(const int *)how, in[1]);
}

START_TEST(a9_18_index_select) {
    static const int64_t places[] = {0, 2, 1, 1, 3, 0, 2, 2, 0, 1, 1, 3};
    sn_tensor *const each = sn_from_data(places, SN_INTS(EXAMPLES, 4), SN_I64), *const common = sn_select(each, 0, 0);
    for (int dim = -2; dim < 2; dim++) {
        same_as_loop(select_rows, &dim, (sn_tensor *[]){F32(1, EXAMPLES, 4, 4), each}, 2, 3);
        same_as_loop(select_rows, &dim, (sn_tensor *[]){F32(1, 4, 4), each}, 2, 2);
        same_as_loop(select_rows, &dim, (sn_tensor *[]){F32(1, EXAMPLES, 4, 4), common}, 2, 1);
    }
    sn_tensor *const outside = sn_add_scalar(each, sn_int(9)), *in[] = {F32(1, EXAMPLES, 4, 4), outside}, *out = NULL;
    int dim = 0;
    Mapped m = {select_rows, &dim, 2};
    ck_assert_int_ne(sn_vmap(body, &m, NULL, (sn_tensors){in, 2}, &out, 1), SN_OK);
    expect_error(SN_ERR_VALUE, "out of range");
}
END_TEST

typedef struct Convolution {
    int64_t stride, padding, groups;
    bool transposed;
} Convolution;

static sn_tensor *convolve(sn_tensor *const *in, const void *how) {
    const Convolution *const c = how;
    const int64_t n = sn_rank(in[0]) - 2;
    const int64_t stride[] = {c->stride, c->stride, c->stride}, padding[] = {c->padding, c->padding, c->padding};
    const int64_t one[] = {1, 1, 1}, none[] = {0, 0, 0};
    return sn_convolution(in[0], in[1], in[2], (sn_ints){stride, n}, (sn_ints){padding, n}, (sn_ints){one, n},
                          c->transposed, (sn_ints){none, n}, c->groups);
}

static sn_tensor *with_examples(uint64_t seed, bool batched, const int64_t *sizes, int n) {
    int64_t all[6] = {EXAMPLES};
    for (int d = 0; d < n; d++) all[d + batched] = sizes[d];
    return make_f32((sn_ints){all, n + batched}, seed);
}

START_TEST(a9_18_convolution) {
    static const Convolution how[] = {
        {1, 0, 1, false}, {2, 1, 1, false}, {1, 1, 2, false}, {2, 1, 1, true}, {1, 0, 2, true}};
    for (int k = 0; k < (int)(sizeof how / sizeof *how); k++)
        for (int dims = 1; dims <= 2; dims++)
            for (unsigned batched = 1; batched < 8; batched++) {
                const int64_t g = how[k].groups, image[] = {2, 4, 7, 6};
                const int64_t weight[] = {how[k].transposed ? 4 : 6, how[k].transposed ? 6 / g : 4 / g, 3, 2};
                sn_tensor *const in[] = {with_examples(1, batched & 1, image, 2 + dims),
                                         with_examples(2, batched >> 1 & 1, weight, 2 + dims),
                                         with_examples(3, batched >> 2 & 1, (int64_t[]){6}, 1)};
                same_as_loop(convolve, &how[k], in, 3, batched);
            }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a9_18_a_scalar_expressions_rule_is_derived, a9_18_mv, a9_18_index_select,
                                  a9_18_convolution};
    return contract_main("vmap_rules", tests, sizeof tests / sizeof *tests);
}
