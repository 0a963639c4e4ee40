/* per_sample: the gradient of each example's loss, as differentially private training clips them: sn_func_grad of one
 * example's loss, under sn_vmap, compiled. Beside it a loop over examples, and every bit is compared. */
#include <sinter/sinter.h>
#include <sinter/transform.h>
#include <stdio.h>
#include <string.h>

#include "work.h"

enum { EXAMPLES = 16, INPUTS = 20, HIDDEN = 32, CLASSES = 5, N_PARAMS = 4 };
static const char *const names[N_PARAMS] = {"w1", "b1", "w2", "b2"};

static sn_status loss_of(sn_frame *f) { /* parameters, x [INPUTS], its class [] */
    sn_tensor *x = sn_unsqueeze(sn_in(f, 4), 0), *class = sn_unsqueeze(sn_in(f, 5), 0);
    sn_tensor *h = sn_tanh(sn_linear(x, sn_in(f, 0), sn_in(f, 1)));
    return sn_out(f, 0, sn_cross_entropy(sn_linear(h, sn_in(f, 2), sn_in(f, 3)), class));
}

static sn_tensors inputs_of(sn_frame *f, sn_tensor **buffer) {
    for (int i = 0; i < N_PARAMS + 2; i++) buffer[i] = sn_in(f, i);
    return (sn_tensors){buffer, N_PARAMS + 2};
}

static sn_status return_all(sn_frame *f, sn_status status, sn_tensor **grads) {
    for (int i = 0; i < N_PARAMS && status == SN_OK; i++) status = sn_out(f, i, grads[i]);
    return status;
}

static sn_status grads_of_one(sn_frame *f) {
    sn_tensor *buffer[N_PARAMS + 2], *grads[N_PARAMS];
    return return_all(f,
                      sn_func_grad(loss_of, NULL, SN_FUNC_GRAD_OPTIONS(.argnums = SN_INTS(0, 1, 2, 3)),
                                   inputs_of(f, buffer), grads, N_PARAMS),
                      grads);
}

static sn_status grads_of_each(sn_frame *f) { /* x [EXAMPLES, INPUTS], classes; the same parameters for all */
    sn_tensor *const *p = sn_closure(f), *grads[N_PARAMS];
    const sn_vmap_options *each = SN_VMAP_OPTIONS(.in_dims = SN_INTS(SN_NO_INT, SN_NO_INT, SN_NO_INT, SN_NO_INT, 0, 0));
    const sn_tensors in = SN_TENSORS(p[0], p[1], p[2], p[3], sn_in(f, 0), sn_in(f, 1));
    return return_all(f, sn_vmap(grads_of_one, NULL, each, in, grads, N_PARAMS), grads);
}

void sample_work(SampleWork *work) {
    static sn_tensor *p[N_PARAMS];
    int64_t classes[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) classes[i] = i * 3 % CLASSES;
    p[0] = sn_randn(SN_INTS(HIDDEN, INPUTS), SN_F32); /* statements: random ops must have an order */
    p[1] = sn_randn(SN_INTS(HIDDEN), SN_F32);
    p[2] = sn_randn(SN_INTS(CLASSES, HIDDEN), SN_F32);
    p[3] = sn_randn(SN_INTS(CLASSES), SN_F32);
    sn_tensor *x = sn_randn(SN_INTS(EXAMPLES, INPUTS), SN_F32);
    sn_tensor *y = sn_from_data(classes, SN_INTS(EXAMPLES), SN_I64);
    *work = (SampleWork){.body = grads_of_each, .closure = p, .in = {x, y}, .n_in = 2, .n_out = N_PARAMS};
}

static int differing(sn_tensor *a, sn_tensor *b) { /* elements whose bits differ */
    static float x[HIDDEN * INPUTS], y[HIDDEN * INPUTS];
    int n = 0;
    if (sn_read(a, x, sizeof *x * sn_numel(a)) != SN_OK || sn_read(b, y, sizeof *y * sn_numel(b)) != SN_OK) return -1;
    for (int64_t i = 0; i < sn_numel(a); i++) n += memcmp(&x[i], &y[i], sizeof *x) != 0;
    return n;
}

static int beside_the_loop(const SampleWork *work, sn_tensor *const *all) { /* differing values */
    sn_tensor *const *p = work->closure, *one[N_PARAMS];
    sn_function *alone = sn_compile(grads_of_one, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    int n = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        sn_tensor *x = sn_select(work->in[0], 0, i), *class = sn_select(work->in[1], 0, i);
        if (sn_call(alone, (sn_tensor *[]){p[0], p[1], p[2], p[3], x, class}, N_PARAMS + 2, one, N_PARAMS)) break;
        for (int k = 0; k < N_PARAMS; k++) n += differing(sn_select(all[k], 0, i), one[k]);
    }
    sn_function_free(alone);
    return n;
}

int main(void) {
    SampleWork work;
    sample_work(&work);
    sn_tensor *all[N_PARAMS];
    sn_function *fast = sn_compile(work.body, work.closure, NULL);
    for (int call = 0; call < 2; call++) sn_call(fast, work.in, work.n_in, all, work.n_out);
    const int n = beside_the_loop(&work, all);
    for (int k = 0; k < N_PARAMS; k++) {
        sn_tensor *flat = sn_reshape(all[k], SN_INTS(EXAMPLES, -1));
        sn_tensor *squares = sn_sum_dim(sn_mul(flat, flat), SN_INTS(1), false);
        printf("%s: norms of %d gradients up to %.3f\n", names[k], EXAMPLES, sn_item(sn_sqrt(sn_max(squares))));
    }
    sn_stats stats = {.size = sizeof stats};
    sn_function_stats(fast, &stats);
    printf("%lld graph, %lld breaks, %d values differ from the loop's\n", (long long)stats.graphs,
           (long long)stats.breaks, n);
    sn_function_free(fast);
    return sn_finish(); /* says what failed first, if anything */
}
