/* callback_kinds.h: a program's callbacks, of each kind that the library calls: who includes this has
 * `called_back`, which each of them calls. A kind is a function that calls the library, which calls back. */
#ifndef SINTER_TESTS_UNIT_CALLBACK_KINDS_H
#define SINTER_TESTS_UNIT_CALLBACK_KINDS_H
#include <sinter/graph.h>
#include <sinter/transform.h>

#include "tests/unit/contract.h"

static void called_back(void);
typedef sn_tensor *Run(sn_tensor *x);

/* bodies ------------------------------------------------------------------------------------------ */

static sn_tensor *weight; /* a leaf that bodies close over */

static sn_status body(sn_frame *f) { /* x -> w exp(x) */
    sn_tensor *const y = sn_mul(weight, sn_exp(sn_in(f, 0)));
    called_back();
    return sn_out(f, 0, y);
}

static sn_status loss(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0));
    called_back();
    return sn_out(f, 0, sn_sum(sn_mul(y, sn_in(f, 0))));
}

static sn_status small(sn_frame *f) {
    called_back();
    return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_float(100)));
}

static sn_status triple(sn_frame *f) { return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(3))); }
static sn_status triple_called(sn_frame *f) { return called_back(), triple(f); }
static sn_status is_small(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_float(100))); }

static sn_status carry(sn_frame *f) {
    sn_tensor *const y = sn_add(sn_in(f, 0), sn_in(f, 1));
    called_back();
    sn_out(f, 0, y);
    return sn_out(f, 1, sn_mul(y, y));
}

static sn_status hook(sn_frame *f) {
    called_back();
    return sn_out(f, 0, sn_in(f, 0));
}

static sn_status no_out(sn_frame *f) { return called_back(), sn_check(); }
static sn_status passes_on(sn_frame *f) { return called_back(), sn_redispatch(f); }
static sn_status same(sn_frame *f) { return sn_out(f, 0, sn_clone(sn_in(f, 0))); }
static sn_status like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }
static sn_status like_called(sn_frame *f) { return called_back(), like(f); }
static sn_status negates(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }
static sn_status negates_called(sn_frame *f) { return called_back(), negates(f); }

static sn_status negates_backward(sn_frame *f) {
    called_back();
    return sn_set_grad_of(f, 0, sn_neg(sn_grad_of(f, 0)));
}

/* kinds ------------------------------------------------------------------------------------------- */

static sn_tensor *first(sn_status status, sn_tensor **out) { return status == SN_OK ? out[0] : NULL; }
#define FIRST(call)                                                                                                    \
    ({                                                                                                                 \
        sn_tensor *out[4] = {0};                                                                                       \
        first(call, out);                                                                                              \
    })

/* Compiled functions live through all runs of a test: what was compiled before the jump, or could not be, is used. */
static sn_function *kept[64];
static sn_tensor *by_function(int slot, sn_body run, const sn_compile_options *options, sn_tensor *x) {
    if (!kept[slot]) kept[slot] = sn_compile(run, NULL, options);
    return sn_call1(kept[slot], SN_TENSORS(x));
}

static sn_tensor *compiled(sn_tensor *x) { return by_function(0, body, NULL, x); }
static sn_tensor *eagerly(sn_tensor *x) {
    return by_function(1, body, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER), x);
}
static sn_tensor *replayed(sn_tensor *x) {
    return by_function(2, body, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY), x);
}

static sn_tensor *cond(sn_tensor *x) {
    return FIRST(sn_cond(sn_gt_scalar(sn_sum(x), sn_float(-1e9)), body, triple, NULL, NULL, SN_TENSORS(x), out, 1));
}
static sn_tensor *while_condition(sn_tensor *x) {
    return FIRST(sn_while_loop(small, triple, NULL, NULL, SN_TENSORS(sn_exp(sn_detach(x))), out, 1));
}
static sn_tensor *while_body(sn_tensor *x) {
    return FIRST(sn_while_loop(is_small, triple_called, NULL, NULL, SN_TENSORS(sn_exp(sn_detach(x))), out, 1));
}
static sn_tensor *scan(sn_tensor *x) {
    return FIRST(sn_scan(carry, NULL, NULL, SN_TENSORS(sn_select(x, 0, 0), x), out, 2));
}
static sn_tensor *map(sn_tensor *x) {
    return FIRST(sn_map(body, NULL, NULL, SN_TENSORS(sn_stack(SN_TENSORS(x, x), 0)), out, 1));
}
static sn_tensor *vmap(sn_tensor *x) {
    return FIRST(sn_vmap(body, NULL, NULL, SN_TENSORS(sn_stack(SN_TENSORS(x, x), 0)), out, 1));
}
static sn_tensor *func_grad(sn_tensor *x) { return FIRST(sn_func_grad(loss, NULL, NULL, SN_TENSORS(x), out, 1)); }
static sn_tensor *func_vjp(sn_tensor *x) {
    return FIRST(
        sn_func_vjp(body, NULL, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(sn_ones_like(x))), SN_TENSORS(x), out, 1));
}
static sn_tensor *func_jvp(sn_tensor *x) {
    return FIRST(
        sn_func_jvp(body, NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(sn_ones_like(x))), SN_TENSORS(x), out, 1));
}
static sn_tensor *jacobian(sn_tensor *x) { return FIRST(sn_jacobian(body, NULL, NULL, SN_TENSORS(x), out, 1)); }
static sn_tensor *hessian(sn_tensor *x) { return FIRST(sn_hessian(loss, NULL, NULL, SN_TENSORS(x), out, 1)); }

/* The gradient by x of the sum of y. */
static sn_tensor *slope(sn_tensor *y, sn_tensor *x) {
    return y ? FIRST(sn_gradients(SN_TENSORS(sn_sum(y)), SN_TENSORS(x), (sn_tensors){0}, SN_ALLOW_UNUSED, out)) : NULL;
}

static sn_tensor *checkpoint(sn_tensor *x) {
    return slope(FIRST(sn_checkpoint(body, NULL, NULL, SN_TENSORS(x), out, 1)), x);
}

static bool in_second;
static sn_status second_called(sn_frame *f) {
    sn_tensor *const y = sn_mul(weight, sn_exp(sn_in(f, 0)));
    if (in_second) called_back();
    return sn_out(f, 0, sn_mul(y, y));
}
static sn_tensor *checkpoint_again(sn_tensor *x) {
    in_second = false;
    sn_tensor *const y = FIRST(sn_checkpoint(second_called, NULL, NULL, SN_TENSORS(x), out, 1));
    in_second = true;
    return slope(y, x);
}

static sn_checkpoint_choice choose(void *context, const char *op) {
    (void)context, (void)op;
    called_back();
    return SN_CHECKPOINT_SAVE;
}
static sn_status plain_body(sn_frame *f) { return sn_out(f, 0, sn_mul(weight, sn_exp(sn_in(f, 0)))); }
static sn_tensor *policy(sn_tensor *x) {
    return slope(FIRST(sn_checkpoint(plain_body, NULL, SN_CHECKPOINT_OPTIONS(.policy = choose), SN_TENSORS(x), out, 1)),
                 x);
}

static const sn_op *negation, *rule_called, *meta_called, *pieces;
static sn_tensor *by_op(const sn_op *op, sn_tensor *x) { return sn_op_call1(op, (sn_value[]){sn_val(x)}, 1); }
static sn_tensor *kernel(sn_tensor *x) { return by_op(negation, x); }
static sn_tensor *derivative(sn_tensor *x) { return slope(by_op(rule_called, x), x); }
static sn_status calls_meta(sn_frame *f) { return sn_out(f, 0, sn_exp(by_op(meta_called, sn_in(f, 0)))); }
static sn_tensor *meta(sn_tensor *x) { /* at each first call of a function */
    sn_function *const fn = sn_compile(calls_meta, NULL, NULL);
    sn_tensor *const y = sn_call1(fn, SN_TENSORS(x));
    sn_function_free(fn);
    return y;
}
static sn_tensor *decomposition(sn_tensor *x) { return by_op(pieces, x); }
static sn_status calls_kernel(sn_frame *f) {
    return sn_out(f, 0, sn_mul(sn_exp(sn_in(f, 0)), by_op(negation, sn_in(f, 0))));
}
static sn_status calls_rule(sn_frame *f) {
    return sn_out(f, 0, sn_mul(sn_exp(sn_in(f, 0)), by_op(rule_called, sn_in(f, 0))));
}
static sn_tensor *kernel_of_segment(sn_tensor *x) { return by_function(3, calls_kernel, NULL, sn_detach(x)); }
static sn_tensor *derivative_compiled(sn_tensor *x) { return slope(by_function(4, calls_rule, NULL, x), x); }

static sn_tensor *custom_forward(sn_tensor *x) {
    const sn_custom custom = {
        .size = sizeof custom, .name = "f", .forward = negates_called, .backward = negates_backward};
    return slope(FIRST(sn_custom_call(&custom, NULL, &x, 1, out, 1)), x);
}
static sn_tensor *custom_backward(sn_tensor *x) {
    const sn_custom custom = {.size = sizeof custom, .name = "f", .forward = negates, .backward = negates_backward};
    return slope(FIRST(sn_custom_call(&custom, NULL, &x, 1, out, 1)), x);
}

static sn_tensor *under_scope(sn_tensor *x, Run *begin, sn_tensor *(*end)(sn_tensor *x, sn_tensor *y)) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *y = begin(x);
    if (end && y) y = end(x, y);
    return sn_scope_return(scope, y);
}
static sn_tensor *in_user_mode(sn_tensor *x) { return sn_user_mode_push(passes_on, NULL), sn_exp(x); }
static sn_tensor *in_api_mode(sn_tensor *x) { return sn_api_mode_push(passes_on, NULL), sn_exp(x); }
static sn_tensor *in_pack(sn_tensor *x) { return sn_saved_hooks_set(hook, same, NULL), sn_exp(x); }
static sn_tensor *in_unpack(sn_tensor *x) { return sn_saved_hooks_set(same, hook, NULL), sn_exp(x); }
static sn_tensor *back(sn_tensor *x, sn_tensor *y) { return slope(y, x); }
static sn_tensor *user_mode(sn_tensor *x) { return under_scope(x, in_user_mode, NULL); }
static sn_tensor *api_mode(sn_tensor *x) { return under_scope(x, in_api_mode, NULL); }
static sn_tensor *pack(sn_tensor *x) { return under_scope(x, in_pack, back); }
static sn_tensor *unpack(sn_tensor *x) { return under_scope(x, in_unpack, back); }

static sn_tensor *tensor_hook(sn_tensor *x) {
    sn_tensor *const y = sn_exp(x);
    sn_hook_add(y, hook, NULL);
    return slope(sn_mul(y, y), x);
}
static sn_tensor *accumulated_hook(sn_tensor *x) {
    sn_tensor *const own = sn_requires_grad_(sn_clone(sn_detach(x)), true);
    sn_post_accumulate_hook_add(own, no_out, NULL);
    return sn_backward(sn_sum(sn_mul(own, own))) == SN_OK ? sn_grad(own) : NULL;
}

static sn_override *override;
static sn_tensor *overridden(sn_tensor *x) {
    if (!override) override = sn_op_override(sn_op_find("aten::cosh"), SN_KEY_CPU, negates_called, NULL);
    return sn_cosh(x);
}

static sn_status do_nothing(sn_graph *g, void *closure) { return (void)g, (void)closure, called_back(), SN_OK; }
static sn_tensor *pass(sn_tensor *x) {
    static bool there;
    if (!there) there = sn_pass_register(SN_PASS_JOINT, do_nothing, NULL, "called", "1") == SN_OK;
    return by_function(5, plain_body, NULL, x);
}
static sn_function *make(sn_graph *g, void *closure) {
    (void)closure;
    called_back();
    return sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}
static sn_tensor *backend(sn_tensor *x) {
    static bool there;
    if (!there) there = sn_backend_register("called", "1", make, NULL) == SN_OK;
    return by_function(6, plain_body, SN_COMPILE_OPTIONS(.backend = "called"), sn_detach(x));
}
static sn_function *make_calling(sn_graph *g, void *closure) {
    (void)g, (void)closure;
    return sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}
static sn_status graph_like_body(sn_frame *f) { return sn_out(f, 0, sn_mul(weight, sn_exp(sn_in(f, 0)))); }
static sn_tensor *backend_runs(sn_tensor *x) {
    static bool there;
    if (!there) there = sn_backend_register("runs", "1", make_calling, NULL) == SN_OK;
    const sn_scope scope = sn_no_grad_begin();
    return sn_scope_return(scope, by_function(7, graph_like_body, SN_COMPILE_OPTIONS(.backend = "runs"), x));
}

/* In each other: of the inner one to outside of both. */
static sn_status maps(sn_frame *f) { return sn_out(f, 0, map(sn_in(f, 0))); }
static sn_status conds(sn_frame *f) { return sn_out(f, 0, cond(sn_in(f, 0))); }
static sn_tensor *cond_in_vmap(sn_tensor *x) {
    return FIRST(sn_vmap(conds, NULL, NULL, SN_TENSORS(sn_stack(SN_TENSORS(x, x), 0)), out, 1));
}
static sn_status vmaps(sn_frame *f) { return sn_out(f, 0, vmap(sn_in(f, 0))); }
static sn_tensor *vmap_in_cond(sn_tensor *x) {
    return FIRST(sn_cond(sn_gt_scalar(sn_sum(x), sn_float(-1e9)), vmaps, vmaps, NULL, NULL, SN_TENSORS(x), out, 1));
}
static sn_tensor *map_in_checkpoint(sn_tensor *x) {
    return slope(FIRST(sn_checkpoint(maps, NULL, NULL, SN_TENSORS(x), out, 1)), x);
}
static sn_tensor *cond_in_function(sn_tensor *x) { return by_function(8, conds, NULL, x); }
static sn_tensor *map_in_function(sn_tensor *x) { return by_function(9, maps, NULL, x); }

typedef struct Kind {
    const char *name;
    Run *run;
    bool once;  /* its callback runs where something is compiled, and not again */
    bool later; /* in a captured body it runs with the segment, or not at all */
} Kind;
#define KIND(name)                                                                                                     \
    { #name, name, false, false }
#define LATER(name)                                                                                                    \
    { #name, name, false, true }
#define ONCE(name)                                                                                                     \
    { #name, name, true, true }
static const Kind kinds[] = {/* those that run once come last */
                             KIND(compiled),
                             KIND(eagerly),
                             KIND(replayed),
                             KIND(cond),
                             KIND(while_condition),
                             KIND(while_body),
                             KIND(scan),
                             KIND(map),
                             KIND(vmap),
                             KIND(func_grad),
                             KIND(func_vjp),
                             KIND(func_jvp),
                             KIND(jacobian),
                             KIND(hessian),
                             KIND(checkpoint),
                             LATER(checkpoint_again),
                             KIND(policy),
                             LATER(kernel),
                             KIND(derivative),
                             KIND(meta),
                             KIND(decomposition),
                             LATER(kernel_of_segment),
                             KIND(custom_forward),
                             KIND(custom_backward),
                             KIND(user_mode),
                             KIND(api_mode),
                             KIND(pack),
                             KIND(unpack),
                             KIND(tensor_hook),
                             KIND(accumulated_hook),
                             KIND(overridden),
                             LATER(backend_runs),
                             KIND(cond_in_vmap),
                             KIND(vmap_in_cond),
                             KIND(map_in_checkpoint),
                             KIND(cond_in_function),
                             KIND(map_in_function),
                             ONCE(derivative_compiled),
                             ONCE(pass),
                             ONCE(backend)};
enum { N_ONCE = 3, KINDS = sizeof kinds / sizeof *kinds };

/* what they are called on --------------------------------------------------------------------- */

static sn_tensor *x;

static void make_callbacks(void) {
    if (x) return;
#define OP(text, ...) sn_op_register(SN_OP_DESC(.schema = "called::" text "(Tensor x) -> Tensor", __VA_ARGS__))
    negation = OP("negation", .cpu = negates_called, .meta = like, .flags = SN_OP_PURE);
    rule_called = OP("rule_called", .cpu = negates, .meta = like, .derivative = negates_backward, .flags = SN_OP_PURE);
    meta_called = OP("meta_called", .cpu = negates, .meta = like_called, .flags = SN_OP_PURE);
    pieces = OP("pieces", .decomposition = negates_called);
    weight = sn_keep(LEAF(1, 4));
    x = sn_keep(LEAF(2, 4));
    ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
}

#endif
