/* test_checkpoint_recorded.c: gradients through checkpoints beside PyTorch's [acceptance 3.17]:
 * tests/oracle/checkpoint.safetensors holds results and gradients of small functions (tests/oracle/torch_checkpoint.py,
 * whose kinds these are, line by line). Ours are within the tolerance of the recorded cases, eagerly, where the bodies
 * must have run again, and compiled, with eager's bits. */
#include <sinter/transform.h>
#include <stdio.h>

#include "tests/unit/contract.h"

enum { MOST_WEIGHTS = 5, MOST_OUTS = 4, LEAVES = MOST_WEIGHTS + 1 };

typedef struct World {
    sn_tensor *w[MOST_WEIGHTS];
    int runs; /* of bodies */
} World;

static World *world_of(sn_frame *f) {
    World *const w = sn_closure(f);
    w->runs++;
    return w;
}

static sn_tensor *region(World *w, sn_body body, sn_tensor *x) {
    sn_tensor *out = NULL;
    sn_checkpoint(body, w, NULL, SN_TENSORS(x), &out, 1);
    return out;
}

/* kinds ------------------------------------------------------------------------------------------- */

static sn_status mlp_body(sn_frame *f) {
    World *const w = world_of(f);
    return sn_out(f, 0, sn_linear(sn_gelu(sn_linear(sn_in(f, 0), w->w[0], w->w[1])), w->w[2], w->w[3]));
}
static sn_status mlp(sn_frame *f) { return sn_out(f, 0, region(sn_closure(f), mlp_body, sn_in(f, 0))); }

static sn_status inner(sn_frame *f) { return sn_out(f, 0, sn_tanh(sn_matmul(sn_in(f, 0), world_of(f)->w[1]))); }
static sn_status outer(sn_frame *f) {
    World *const w = world_of(f);
    sn_tensor *const h = sn_sigmoid(sn_matmul(sn_in(f, 0), w->w[0]));
    sn_tensor *const product = sn_mul(h, region(w, inner, h));
    return sn_out(f, 0, sn_add(product, region(w, inner, sn_sin(h))));
}
static sn_status nested(sn_frame *f) { return sn_out(f, 0, region(sn_closure(f), outer, sn_in(f, 0))); }

static sn_status bell(sn_frame *f) {
    return sn_out(f, 0, sn_exp(sn_neg(sn_square(sn_matmul(sn_in(f, 0), world_of(f)->w[0])))));
}
static sn_status shared(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = region(w, bell, sn_in(f, 0));
    return sn_out(f, 0, region(w, bell, sn_add(sn_matmul(h, w->w[0]), sn_in(f, 0))));
}

static sn_status four(sn_frame *f) {
    sn_tensor *const p = sn_mul(sn_in(f, 0), world_of(f)->w[0]);
    sn_tensor *const q = sn_cumsum(sn_mul(p, sn_in(f, 1)), 1, SN_DTYPE_DEFAULT);
    sn_out(f, 0, p);
    sn_out(f, 1, sn_softmax(q, -1));
    sn_out(f, 2, sn_log1p(sn_mul(p, p)));
    return sn_out(f, 3, sn_argmax(q, 1, false));
}
static sn_status several(sn_frame *f) {
    sn_tensor *out[MOST_OUTS] = {NULL};
    sn_checkpoint(four, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0), sn_cos(sn_in(f, 0))), out, 4);
    sn_out(f, 0, out[1]);
    return sn_out(f, 1, sn_add(sn_sum_dim(sn_mul(out[0], out[1]), SN_INTS(1), false), out[3]));
}

static sn_status layer(sn_frame *f) {
    World *const w = world_of(f);
    sn_tensor *x = sn_in(f, 0), *qkv[3] = {NULL};
    sn_tensor *const n = sn_layer_norm(x, SN_INTS(sn_size(x, -1)), w->w[0], w->w[1]);
    sn_chunk(sn_linear(n, w->w[2], NULL), 3, -1, qkv, 3);
    sn_tensor *const scores = sn_mul_scalar(sn_matmul(qkv[0], sn_transpose(qkv[1], -2, -1)), sn_float(0.5));
    x = sn_add(x, sn_matmul(sn_softmax(scores, -1), qkv[2]));
    return sn_out(f, 0, sn_add(x, sn_linear(sn_gelu_ex(sn_linear(x, w->w[3], NULL), "tanh"), w->w[4], NULL)));
}
static sn_status block(sn_frame *f) {
    World *const w = sn_closure(f);
    return sn_out(f, 0, region(w, layer, region(w, layer, sn_in(f, 0))));
}

static sn_status writes(sn_frame *f) {
    World *const w = world_of(f);
    sn_tensor *const h = sn_mul_scalar_(sn_matmul(sn_in(f, 0), w->w[0]), sn_float(0.5));
    sn_mul_(sn_slice(h, 1, 1, 3, 1), w->w[1]);
    sn_out(f, 0, sn_sub_scalar_(sn_contiguous(sn_t(h)), sn_float(0.5)));
    return sn_out(f, 1, h);
}
static sn_status written(sn_frame *f) {
    sn_tensor *out[2] = {NULL};
    sn_checkpoint(writes, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), out, 2);
    return sn_out(f, 0, sn_matmul(out[0], out[1]));
}

typedef struct Kind {
    const char *name;
    sn_body body;
    int n_weights, n_outs;
} Kind;
static const Kind kinds[] = {{"mlp", mlp, 4, 1},         {"nested", nested, 2, 1}, {"shared", shared, 1, 1},
                             {"several", several, 1, 2}, {"block", block, 5, 1},   {"written", written, 2, 1}};

/* a run ------------------------------------------------------------------------------------------- */

typedef struct Ran {
    sn_tensor *outs[MOST_OUTS], *grads[LEAVES];
    int forward_runs, runs; /* of bodies; the latter with the backward */
} Ran;

/* "mlp.", then as `what` has it. */
static sn_tensor *recorded(sn_dict *file, const Kind *kind, const char *what, int i) {
    char part[32], name[64];
    snprintf(part, sizeof part, what, i);
    snprintf(name, sizeof name, "%s.%s", kind->name, part);
    sn_tensor *const t = sn_dict_get(file, name);
    ck_assert_msg(t != NULL, "%s: %s", name, sn_error_take()->message);
    return t;
}

/* New leaves: nothing is left of another run. */
static Ran run(sn_function *fn, const Kind *kind, World *w, sn_dict *file) {
    Ran ran = {.runs = 0};
    sn_tensor *leaves[LEAVES], *with[MOST_OUTS];
    for (int i = 0; i < kind->n_weights; i++) {
        sn_copy_(sn_detach(w->w[i]), recorded(file, kind, "w%d", i));
        leaves[i] = w->w[i];
    }
    sn_tensor *const x = sn_requires_grad_(sn_clone(recorded(file, kind, "in0", 0)), true);
    leaves[kind->n_weights] = x;
    w->runs = 0;
    ck_assert_msg(sn_call(fn, &x, 1, ran.outs, kind->n_outs) == SN_OK, "%s", sn_error_take()->message);
    ran.forward_runs = w->runs;
    for (int i = 0; i < kind->n_outs; i++) with[i] = recorded(file, kind, "go%d", i);
    const sn_status status =
        sn_gradients((sn_tensors){ran.outs, kind->n_outs}, (sn_tensors){leaves, kind->n_weights + 1},
                     (sn_tensors){with, kind->n_outs}, 0, ran.grads);
    ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
    ran.runs = w->runs;
    return ran;
}

/* As the recorded cases have it for f32 (tests/oracle/cases.md). */
static int count_failed(const Ran *ran, const Kind *kind, sn_dict *file) {
    int failed = 0;
    for (int i = 0; i < kind->n_outs; i++)
        failed += !sn_allclose(sn_detach(ran->outs[i]), recorded(file, kind, "out%d", i), 1.3e-6, 1e-5);
    for (int i = 0; i < kind->n_weights; i++)
        failed += !sn_allclose(ran->grads[i], recorded(file, kind, "grad.w%d", i), 1e-5, 1e-5);
    failed += !sn_allclose(ran->grads[kind->n_weights], recorded(file, kind, "grad.in0", 0), 1e-5, 1e-5);
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
    return failed;
}

static void expect_same(const Ran *a, const Ran *b, const Kind *kind) {
    for (int i = 0; i < kind->n_outs; i++) ck_assert(same_bits(sn_detach(a->outs[i]), sn_detach(b->outs[i])));
    for (int i = 0; i <= kind->n_weights; i++) ck_assert(same_bits(a->grads[i], b->grads[i]));
}

static World world_new(const Kind *kind, sn_dict *file) {
    World w = {{NULL}, 0};
    for (int i = 0; i < kind->n_weights; i++)
        w.w[i] = sn_requires_grad_(sn_zeros_like(recorded(file, kind, "w%d", i)), true);
    return w;
}

START_TEST(a3_17_recorded_gradients_of_pytorch) {
    sn_dict *const file = sn_dict_load(SINTER_ORACLE "/checkpoint.safetensors");
    ck_assert_msg(file != NULL, "%s", sn_error_take()->message);
    const Kind *const kind = &kinds[_i];
    World plain = world_new(kind, file), fast = world_new(kind, file);
    const Twin twin = twin_new(kind->body, &fast, &plain, NULL);
    const Ran eager = run(twin.eager, kind, &plain, file);
    const int failed = count_failed(&eager, kind, file);
    for (int i = 0; i < 3; i++) {
        const Ran compiled = run(twin.fast, kind, &fast, file);
        expect_same(&compiled, &eager, kind);
        if (i) ck_assert_int_eq(compiled.runs, eager.forward_runs); /* the graph computes again */
    }
    printf("%s: %d of %d failed; bodies ran %d and %d times\n", kind->name, failed, kind->n_outs + kind->n_weights + 1,
           eager.forward_runs, eager.runs - eager.forward_runs);
    ck_assert_int_eq(failed, 0);
    ck_assert_int_ge(eager.runs, 2 * eager.forward_runs);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
    sn_dict_free(file);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("checkpoint_recorded");
    tcase_add_loop_test(tests, a3_17_recorded_gradients_of_pytorch, 0, (int)(sizeof kinds / sizeof *kinds));
    return suite_run("checkpoint_recorded", tests);
}
