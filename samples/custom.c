/* custom: an op of one's own with meta rule and derivative, one that gives a list and a number, and a function with
 * its own gradient. Trains nothing: it compares the gradient of a compiled function with the eager one, bit for bit,
 * and prints the joint graph, in which the op's derivative has become ordinary ops. */
#include <sinter/sinter.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "work.h"

enum { LENGTH = 8, CALLS = 3 };

/* my::swish(Tensor x, float beta=1.0) -> Tensor: a host kernel, captured as one node. */
static sn_status swish_meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }

static sn_status swish_cpu(sn_frame *f) {
    sn_tensor *x = sn_contiguous(sn_in(f, 0)), *y = sn_empty_like(x);
    const float *from = sn_data(x, SN_F32);
    float *to = sn_data_mut(y, SN_F32);
    double beta = sn_in_float(f, 1);
    if (!from || !to) return sn_check(); /* not f32: the error says so */
    for (int64_t i = 0; i < sn_numel(x); i++) to[i] = from[i] / (1 + expf((float)-beta * from[i]));
    return sn_out(f, 0, y);
}
static sn_status swish_derivative(sn_frame *f) { /* s = sigmoid(beta x): g (s + beta y (1 - s)) */
    sn_tensor *g = sn_grad_of(f, 0), *x = sn_in(f, 0), *y = sn_result(f, 0);
    sn_scalar beta = sn_in_value(f, 1);
    sn_tensor *s = sn_sigmoid(sn_mul_scalar(x, beta));
    sn_tensor *slope = sn_add(s, sn_mul_scalar(sn_mul(y, sn_rsub_scalar(s, sn_int(1))), beta));
    return sn_set_grad_of(f, 0, sn_mul(g, slope));
}

static const sn_op *swish_op;
static sn_tensor *swish(sn_tensor *x, double beta) {
    sn_value in[] = {sn_val(x), sn_float(beta)};
    return sn_op_call1(swish_op, in, 2);
}

/* my::halves(Tensor x) -> (Tensor[], int): a list and a number. The number follows from sizes, as the meta rule says:
 * it is there before the kernel has run. */
static sn_status halves_meta(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    int64_t n = sn_size(x, 0) / 2;
    for (int i = 0; i < 2; i++) sn_out(f, i, sn_empty_like(sn_narrow(x, 0, i * n, n)));
    return sn_out_value(f, 2, sn_int(n));
}
static sn_status halves_cpu(sn_frame *f) {
    sn_tensor *x = sn_in(f, 0);
    int64_t n = sn_size(x, 0) / 2;
    for (int i = 0; i < 2; i++) sn_out(f, i, sn_clone(sn_narrow(x, 0, i * n, n)));
    return sn_out_value(f, 2, sn_int(n));
}
static void print_halves(sn_tensor *x) {
    const sn_op *op = sn_op_register(SN_OP_DESC(.schema = "my::halves(Tensor x) -> (Tensor[], int)",
                                                .flags = SN_OP_PURE, .meta = halves_meta, .cpu = halves_cpu));
    sn_value in = sn_val(x), out[3];
    int n = 3;
    if (sn_op_call(op, &in, 1, out, &n) == SN_OK)
        printf("%d halves of %lld elements: %s\n", n - 1, (long long)out[2].i, sn_repr(out[0].tensor));
}

/* Clamp whose gradient is scaled inside the interval: a custom function, no new op. */
typedef struct {
    double low, high, scale;
} Clamp;
static sn_status clamp_forward(sn_frame *f) {
    const Clamp *c = sn_closure(f);
    sn_tensor *x = sn_in(f, 0), *y = sn_clamp(x, sn_float(c->low), sn_float(c->high));
    sn_save(f, sn_eq(x, y));
    return sn_out(f, 0, y);
}
static sn_status clamp_backward(sn_frame *f) {
    const Clamp *c = sn_closure(f);
    sn_tensor *g = sn_mul_scalar(sn_grad_of(f, 0), sn_float(c->scale));
    return sn_set_grad_of(f, 0, sn_mul(g, sn_saved(f, 0)));
}

static sn_status loss(sn_frame *f) {
    static const sn_custom clamp = {
        .size = sizeof clamp, .name = "clamp_scale", .forward = clamp_forward, .backward = clamp_backward};
    sn_tensor *h = swish(sn_in(f, 0), 1.5), *y;
    sn_custom_call(&clamp, sn_closure(f), &h, 1, &y, 1);
    return sn_out(f, 0, sn_sum(y));
}

static sn_status gradient(sn_function *fn, sn_tensor *x, float *to) {
    sn_grad_set(x, NULL);
    sn_backward(SN_CALL(fn, x));
    return sn_read(sn_grad(x), to, LENGTH * sizeof *to);
}

void sample_work(SampleWork *work) {
    static Clamp c = {-1, 1, 0.5};
    swish_op = sn_op_register(SN_OP_DESC(.schema = "my::swish(Tensor x, float beta=1.0) -> Tensor", .flags = SN_OP_PURE,
                                         .meta = swish_meta, .cpu = swish_cpu, .derivative = swish_derivative,
                                         .saves = "x, result"));
    sn_tensor *x = sn_requires_grad_(sn_randn(SN_INTS(LENGTH), SN_F32), true);
    *work = (SampleWork){.kind = SAMPLE_BACKWARD, .body = loss, .closure = &c, .in = {x}, .n_in = 1, .n_out = 1};
}

int main(void) {
    SampleWork work;
    sample_work(&work);
    sn_tensor *x = work.in[0];
    sn_function *eager = sn_compile(work.body, work.closure, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *fast = sn_compile(work.body, work.closure, SN_COMPILE_OPTIONS(.name = "loss"));
    float want[LENGTH] = {0}, got[LENGTH] = {0};
    gradient(eager, x, want);
    for (int i = 0; i < CALLS && !sn_check(); i++) {
        gradient(fast, x, got);
        if (memcmp(got, want, sizeof want)) sn_fail(SN_ERR_INTERNAL, "the gradients differ");
    }
    puts(sn_repr(sn_grad(x)));
    puts(sn_dump(fast, "joint"));
    print_halves(sn_detach(x));
    sn_function_free(eager);
    sn_function_free(fast);
    return sn_finish();
}
