/* library.c: a user's library, for `sinter run library.so:swiglu` and `sinter opt --library`: it sees the public
 * headers and takes the functions of the program that opens it. */
#include <sinter/sinter.h>
#include <sinter/target.h>
#include <stdbool.h>

__attribute__((visibility("default"))) sn_status swiglu(sn_frame *f);

__attribute__((visibility("default"))) sn_status twice_in_place(sn_frame *f);

sn_status twice_in_place(sn_frame *f) {
    sn_add_(sn_in(f, 0), sn_in(f, 0));
    return sn_check();
}

sn_status swiglu(sn_frame *f) {
    sn_tensor *const gate = sn_silu(sn_in(f, 0));
    return sn_out(f, 0, sn_mul(gate, sn_in(f, 1)));
}

static sn_status same_layout(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status triple(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(3))); }

__attribute__((constructor)) static void register_ops(void) {
    sn_op_register(SN_OP_DESC(.schema = "my::triple(Tensor x) -> Tensor", .flags = SN_OP_PURE, .meta = same_layout,
                              .cpu = triple));
}

/* What the library says of itself (sinter/target.h): a function with a closure, real inputs and a number among them; a
 * step; one that says nothing sensible. */
typedef struct Model {
    sn_tensor *w, *b;
} Model;

__attribute__((visibility("default"))) sn_status forward(sn_frame *f);

sn_status forward(sn_frame *f) {
    const Model *const m = sn_closure(f);
    return sn_out(f, 0, sn_mul_scalar(sn_relu(sn_linear(sn_in(f, 0), m->w, m->b)), sn_in_value(f, 1)));
}

static sn_status step(sn_frame *f) {
    const Model *const m = sn_closure(f);
    sn_tensor *const loss = sn_sum(sn_relu(sn_linear(sn_in(f, 0), m->w, m->b)));
    sn_backward(loss);
    const sn_grad_mode mode = sn_grad_mode_set(SN_GRAD_OFF);
    sn_sub_(m->w, sn_mul_scalar(sn_grad(m->w), sn_float(0.01)));
    sn_grad_mode_set(mode);
    sn_grad_set(m->w, NULL);
    return sn_out(f, 0, sn_detach(loss));
}

static void fill(Model *m, bool learns) {
    m->w = sn_randn(SN_INTS(16, 8), SN_F32);
    m->b = sn_ones(SN_INTS(16), SN_F32);
    if (learns) sn_requires_grad_(m->w, true);
}

SN_TARGET(forward, target) {
    static Model m;
    fill(&m, false);
    target->body = forward;
    target->closure = &m;
    sn_target_input(target, sn_val(sn_randn(SN_INTS(4, 8), SN_F32)));
    sn_target_input(target, sn_float(0.5));
}

SN_TARGET(train, target) {
    static Model m;
    fill(&m, true);
    target->kind = SN_TARGET_STEP;
    target->body = step;
    target->closure = &m;
    sn_target_input(target, sn_val(sn_randn(SN_INTS(4, 8), SN_F32)));
}

SN_TARGET(gradients, target) {
    static Model m;
    fill(&m, false);
    target->kind = SN_TARGET_BACKWARD;
    target->body = forward;
    target->closure = &m;
    sn_target_input(target, sn_val(sn_requires_grad_(sn_randn(SN_INTS(4, 8), SN_F32), true)));
    sn_target_input(target, sn_float(0.5));
}

SN_TARGET(graph, target) {
    static const char text[] = "graph g(%x: f32[4]) {\n  %0 = aten::exp(%x)\n  return %0\n}\n";
    target->graph = sn_graph_parse(text, sizeof text - 1);
    sn_target_input(target, sn_val(sn_randn(SN_INTS(4), SN_F32)));
}

/* Nothing that is an input requires gradients: those of what is closed over are computed. */
SN_TARGET(parameters, target) {
    static Model m;
    fill(&m, true);
    target->kind = SN_TARGET_BACKWARD;
    target->body = forward;
    target->closure = &m;
    sn_target_input(target, sn_val(sn_randn(SN_INTS(4, 8), SN_F32)));
    sn_target_input(target, sn_float(0.5));
}

/* Exported, it is bound to libc's function of this name. */
__attribute__((visibility("default"))) sn_status advance(sn_frame *f);
sn_status advance(sn_frame *f) { return sn_out(f, 0, sn_relu(sn_in(f, 0))); }
SN_TARGET(taken, target) {
    target->body = advance;
    sn_target_input(target, sn_val(sn_randn(SN_INTS(4, 8), SN_F32)));
}

SN_TARGET(nothing, target) { target->outputs = 3; }

SN_TARGET(broken, target) {
    target->body = forward;
    sn_fail(SN_ERR_IO, "the weights are not there");
}

/* It is no target: without one its closure is missing. */
__attribute__((visibility("default"))) sn_status wants_closure(sn_frame *f);
sn_status wants_closure(sn_frame *f) { return forward(f); }
