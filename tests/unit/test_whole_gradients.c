/* test_whole_gradients.c: gradients of whole random programs against central differences, so that eager itself is
 * checked and not only "compiled equals eager" [semantics G5]. A program of doubles takes views, writes through them,
 * into what they view and into fresh memory, and goes on using all of them; some go backward twice. It follows from its
 * number alone, so that it runs again on other inputs, inside a compiled function, with breaks or without. */
#include "tests/unit/contract.h"

enum { N = 6, MOST_VALUES = 40, PROGRAMS = 2000 };

typedef struct Program {
    uint64_t random;
    sn_tensor *values[MOST_VALUES];
    bool fixed[MOST_VALUES]; /* the leaf and its views, which may not be written */
    int n;
} Program;

static int below(Program *p, int n) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((p->random >> 33) % (uint64_t)n);
}

static int pick(Program *p) { /* newer ones more often */
    return below(p, 2) ? p->n - 1 - below(p, p->n < 4 ? p->n : 4) : below(p, p->n);
}

static void add(Program *p, sn_tensor *t, bool fixed) {
    if (!t || p->n == MOST_VALUES) return;
    p->fixed[p->n] = fixed;
    p->values[p->n++] = t;
}

static bool same_sizes(sn_tensor *a, sn_tensor *b) {
    const sn_ints x = sn_sizes(a), y = sn_sizes(b);
    return x.n == y.n && (!x.n || !memcmp(x.data, y.data, (size_t)x.n * sizeof *x.data));
}

/* One of t's sizes, made from it if there is none; mostly a copy, so that few writes meet what backward needs. */
static sn_tensor *partner(Program *p, sn_tensor *t) {
    sn_tensor *found = t;
    for (int i = 0; i < 6; i++) {
        sn_tensor *const other = p->values[pick(p)];
        if (same_sizes(other, t)) found = other;
    }
    return below(p, 4) ? sn_clone(found) : found;
}

static sn_tensor *view_of(Program *p, sn_tensor *t) {
    const int64_t rank = sn_rank(t), dim = rank ? below(p, (int)rank) : 0;
    const int64_t size = rank ? sn_size(t, dim) : 1;
    switch (rank ? below(p, 6) : 0) {
    case 1:
        return sn_narrow(t, dim, size > 1 ? below(p, 2) : 0, size > 1 ? size - 1 : size);
    case 2:
        return sn_select(t, dim, below(p, (int)size));
    case 3:
        return sn_transpose(t, 0, rank - 1);
    case 4:
        return rank < 3 ? sn_unsqueeze(t, dim) : sn_alias(t);
    case 5:
        return sn_slice(t, dim, 0, size, 2);
    default:
        return sn_alias(t);
    }
}

static sn_tensor *nonlinear(Program *p, sn_tensor *t) {
    switch (below(p, 3)) {
    case 0:
        return sn_sin(t);
    case 1:
        return sn_tanh(t);
    default:
        return sn_mul(t, partner(p, t));
    }
}

static sn_status wave(sn_frame *f) {
    sn_save(f, sn_in(f, 0));
    return sn_out(f, 0, sn_sin(sn_in(f, 0)));
}
static sn_status wave_backward(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_mul(sn_grad_of(f, 0), sn_cos(sn_saved(f, 0))));
}

static sn_tensor *pure(Program *p, sn_tensor *t) {
    static const sn_custom fn = {.size = sizeof fn, .name = "wave", .forward = wave, .backward = wave_backward};
    sn_tensor *out = NULL;
    switch (below(p, 6)) {
    case 0:
        return sn_add(t, partner(p, t));
    case 1:
        return sn_neg(t);
    case 2:
        return sn_mul_scalar(t, sn_float(0.25 + 0.5 * below(p, 3)));
    case 3:
        sn_custom_call(&fn, NULL, (sn_tensor *const[]){sn_clone(t)}, 1, &out, 1);
        return out;
    default:
        return nonlinear(p, below(p, 8) ? sn_clone(t) : t);
    }
}

static sn_tensor *fresh(Program *p, sn_tensor *like) {
    sn_tensor *const memory = below(p, 2) ? sn_zeros(sn_sizes(like), SN_F64) : sn_clone(like);
    add(p, memory, false);
    return view_of(p, memory);
}

static void write(Program *p, sn_tensor *t) {
    switch (below(p, 6)) {
    case 0:
        sn_add_(t, partner(p, t));
        break;
    case 1:
        sn_copy_(t, sn_clone(partner(p, t)));
        break;
    case 2:
        sn_mul_(t, partner(p, t));
        break;
    case 3:
        sn_sin_(t);
        break;
    default:
        sn_mul_scalar_(t, sn_float(0.5 + 0.25 * below(p, 3)));
    }
}

static void step(Program *p) {
    const int i = pick(p), which = below(p, 10);
    sn_tensor *const t = p->values[i];
    if (which < 3)
        add(p, view_of(p, t), p->fixed[i]);
    else if (which < 7 && !p->fixed[i])
        write(p, t);
    else if (which < 8)
        add(p, fresh(p, t), false);
    else
        add(p, pure(p, t), false);
}

/* Of all values, each used twice, in an order of its own. */
static sn_tensor *loss_of(Program *p) {
    sn_tensor *loss = NULL;
    for (int i = 0; i < 2 * p->n; i++) {
        sn_tensor *const t = p->values[(i * 7 + below(p, 2)) % p->n];
        sn_tensor *const part = sn_sum(below(p, 3) ? sn_mul_scalar(t, sn_float(0.3 + i)) : sn_sin(t));
        loss = loss ? sn_add(loss, part) : part;
    }
    return loss;
}

static sn_tensor *run(uint64_t number, sn_tensor *x) {
    Program p = {.random = number * 0x9E3779B97F4A7C15u + 1};
    add(&p, x, true);
    add(&p, sn_mul_scalar(x, sn_float(2)), false);
    const int steps = 3 + below(&p, 12);
    for (int i = 0; i < steps && !sn_check(); i++) step(&p);
    sn_tensor *const loss = loss_of(&p);
    sn_tensor *grad = NULL;
    if (below(&p, 5) || sn_check()) return loss;
    sn_gradients(SN_TENSORS(loss), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &grad);
    return sn_sum(sn_mul_scalar(grad, sn_float(0.25)));
}

static const double somewhere[N] = {0.3, -0.7, 1.1, 0.45, -0.2, 0.9};

static sn_tensor *leaf_at(const double *x) { return sn_requires_grad_(sn_from_data(x, SN_INTS(2, 3), SN_F64), true); }

static double value_at(uint64_t number, const double *x) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const f = run(number, leaf_at(x));
    const double value = f ? *(const double *)sn_data(f, SN_F64) : 0;
    sn_scope_end(scope);
    return value;
}

static double difference(uint64_t number, int i, double step) {
    double x[N];
    memcpy(x, somewhere, sizeof x);
    x[i] = somewhere[i] + step;
    const double above = value_at(number, x);
    x[i] = somewhere[i] - step;
    return (above - value_at(number, x)) / (2 * step);
}

/* False: the program is too wild for differences, which says nothing. */
static bool expect_derivative(uint64_t number, int i, double got) {
    const double want = difference(number, i, 0x1p-17), other = difference(number, i, 0x1p-15);
    if (!(fabs(want - other) < 1e-5 * (1 + fabs(want)))) return false;
    ck_assert_msg(fabs(got - want) < 1e-4 * (1 + fabs(want)), "program %d: %g for x[%d], differences say %g",
                  (int)number, got, i, want);
    return true;
}

/* Whether the program has a gradient to compare: a write may meet what backward needs. */
static bool check_program(uint64_t number) {
    sn_tensor *const x = leaf_at(somewhere), *const f = run(number, x);
    if (f) sn_backward(f);
    const double *const grad = !sn_check() && sn_grad(x) ? sn_data(sn_grad(x), SN_F64) : NULL;
    if (sn_check()) sn_error_take();
    bool tame = grad != NULL;
    for (int i = 0; i < N && tame; i++) tame = expect_derivative(number, i, grad[i]);
    return tame;
}

START_TEST(g5_eager_gradients_are_those_of_the_whole_program) {
    int checked = 0;
    for (uint64_t number = 0; number < PROGRAMS; number++) {
        const sn_scope scope = sn_scope_begin();
        checked += check_program(number);
        sn_scope_end(scope);
    }
    ck_assert_msg(checked > PROGRAMS / 2, "only %d programs say something", checked);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {g5_eager_gradients_are_those_of_the_whole_program};
    return contract_main("test_whole_gradients", tests, 1);
}
