/* test_begun.c: what a callback may begin: in each kind of callback each thing that has a context of its own (a
 * transform, a mode, a region, a function, a backward) is begun, and gives what it gives outside; or the error that the
 * table says. Contexts of callbacks leave keys out: what is begun inside of one has its key again. */
#include <sinter/sparse.h>
#include <stdio.h>

#include "tests/unit/callback_kinds.h"

enum { ELEMENTS = 8 };

/* things ------------------------------------------------------------------------------------------ */

/* What it gives, as f32; NULL: the error is pending. */
typedef sn_tensor *Thing(void);

static sn_tensor *data(void) { return sn_from_data((const float[]){0.5f, -1, 2, 3}, SN_INTS(4), SN_F32); }
static sn_tensor *rows(void) { return sn_from_data((const float[]){1, 2, 3, 4, 5, 6, 7, 8}, SN_INTS(2, 4), SN_F32); }
static sn_tensor *own_leaf(void) { return sn_requires_grad_(data(), true); }

static sn_status squares(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 0))); }
static sn_status cube_sum(sn_frame *f) {
    sn_tensor *const t = sn_in(f, 0);
    return sn_out(f, 0, sn_sum(sn_mul(t, sn_mul(t, t))));
}
static sn_status is_under_nine(sn_frame *f) { return sn_out(f, 0, sn_lt_scalar(sn_sum(sn_in(f, 0)), sn_float(9))); }
static sn_status doubled(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 0))); }
static sn_status sums(sn_frame *f) {
    sn_tensor *const y = sn_add(sn_in(f, 0), sn_in(f, 1));
    sn_out(f, 0, y);
    return sn_out(f, 1, sn_mul(y, y));
}
static sn_status gradient_of_cube(sn_frame *f) {
    return sn_out(f, 0, FIRST(sn_func_grad(cube_sum, NULL, NULL, SN_TENSORS(sn_in(f, 0)), out, 1)));
}

static sn_tensor *vmap_of_squares(void) { return FIRST(sn_vmap(squares, NULL, NULL, SN_TENSORS(rows()), out, 1)); }
static sn_tensor *vmap_of_gradient(void) {
    return FIRST(sn_vmap(gradient_of_cube, NULL, NULL, SN_TENSORS(rows()), out, 1));
}
static sn_tensor *gradient_function(void) {
    return FIRST(sn_func_grad(cube_sum, NULL, NULL, SN_TENSORS(data()), out, 1));
}
static sn_tensor *vjp_function(void) {
    return FIRST(
        sn_func_vjp(squares, NULL, SN_FUNC_VJP_OPTIONS(.cotangents = SN_TENSORS(data())), SN_TENSORS(data()), out, 1));
}
static sn_tensor *jvp_function(void) {
    return FIRST(
        sn_func_jvp(squares, NULL, SN_FUNC_JVP_OPTIONS(.tangents = SN_TENSORS(data())), SN_TENSORS(data()), out, 1));
}
static sn_tensor *first_row(sn_tensor *t) { return t ? sn_sum_dim(t, SN_INTS(0), false) : NULL; }
static sn_tensor *jacobian_of_squares(void) {
    return first_row(FIRST(sn_jacobian(squares, NULL, NULL, SN_TENSORS(data()), out, 1)));
}
static sn_tensor *forward_jacobian(void) {
    return first_row(
        FIRST(sn_jacobian(squares, NULL, SN_JACOBIAN_OPTIONS(.forward = true), SN_TENSORS(data()), out, 1)));
}
static sn_tensor *hessian_of_cube(void) {
    return first_row(FIRST(sn_hessian(cube_sum, NULL, NULL, SN_TENSORS(data()), out, 1)));
}

static sn_tensor *condition(void) {
    return FIRST(
        sn_cond(sn_lt_scalar(sn_sum(data()), sn_float(9)), squares, doubled, NULL, NULL, SN_TENSORS(data()), out, 1));
}
static sn_tensor *while_loop(void) {
    return FIRST(sn_while_loop(is_under_nine, doubled, NULL, NULL, SN_TENSORS(data()), out, 1));
}
static sn_tensor *scan_of_rows(void) { return FIRST(sn_scan(sums, NULL, NULL, SN_TENSORS(data(), rows()), out, 2)); }
static sn_tensor *map_of_rows(void) { return FIRST(sn_map(squares, NULL, NULL, SN_TENSORS(rows()), out, 1)); }

static sn_status negates_plain_backward(sn_frame *f) { return sn_set_grad_of(f, 0, sn_neg(sn_grad_of(f, 0))); }

/* Gradients, which it switches on. */
static sn_tensor *in_scope(Thing *thing) {
    const sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(SN_GRAD_ON);
    sn_tensor *const t = thing();
    return sn_scope_return(scope, t);
}
static sn_tensor *slope_of_leaf(sn_tensor *y, sn_tensor *leaf) {
    return y && sn_backward(sn_sum(y)) == SN_OK ? sn_clone(sn_grad(leaf)) : NULL;
}
static sn_tensor *backward(void) {
    sn_tensor *const leaf = own_leaf();
    return slope_of_leaf(sn_mul(leaf, leaf), leaf);
}
static sn_tensor *own_backward(void) { return in_scope(backward); }
static sn_tensor *checkpointed(void) {
    sn_tensor *const leaf = own_leaf();
    return slope_of_leaf(FIRST(sn_checkpoint(squares, NULL, NULL, SN_TENSORS(leaf), out, 1)), leaf);
}
static sn_tensor *own_checkpoint(void) { return in_scope(checkpointed); }
static sn_tensor *custom_called(void) {
    const sn_custom custom = {
        .size = sizeof custom, .name = "f", .forward = negates, .backward = negates_plain_backward};
    sn_tensor *leaf = own_leaf();
    return slope_of_leaf(FIRST(sn_custom_call(&custom, NULL, &leaf, 1, out, 1)), leaf);
}
static sn_tensor *own_custom_call(void) { return in_scope(custom_called); }
static sn_tensor *saved_by_hooks(void) {
    sn_saved_hooks_set(same, same, NULL);
    return backward();
}
static sn_tensor *own_saved_hooks(void) { return in_scope(saved_by_hooks); }
static sn_tensor *function_called(void) {
    static sn_function *fn;
    if (!fn) fn = sn_compile(squares, NULL, NULL);
    return sn_call1(fn, SN_TENSORS(data()));
}
static sn_tensor *function_with_gradient(void) {
    static sn_function *fn;
    if (!fn) fn = sn_compile(squares, NULL, NULL);
    sn_tensor *const leaf = own_leaf();
    return slope_of_leaf(sn_call1(fn, SN_TENSORS(leaf)), leaf);
}
static sn_tensor *own_function_gradient(void) { return in_scope(function_with_gradient); }

/* Modes: what they have seen is a part of what the thing gives. */
static int n_seen;
static sn_status counts(sn_frame *f) { return n_seen++, sn_redispatch(f); }
static sn_tensor *with_count(sn_tensor *t) { return t ? sn_add_scalar(t, sn_float(100 * n_seen)) : NULL; }
static sn_tensor *in_mode_scope(sn_status began, Thing *thing) {
    n_seen = 0;
    return began == SN_OK ? thing() : NULL;
}
static sn_tensor *some_ops(void) {
    sn_tensor *const t = data();
    return sn_add(sn_mul(t, t), sn_exp(t));
}
static sn_tensor *user_mode_begun(void) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t = in_mode_scope(sn_user_mode_push(counts, NULL), some_ops);
    sn_scope_return(scope, t);
    return with_count(t);
}
static sn_tensor *api_mode_begun(void) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t = in_mode_scope(sn_api_mode_push(counts, NULL), some_ops);
    sn_scope_return(scope, t);
    return with_count(t);
}
static sn_status begins_vmap(sn_frame *f) {
    sn_tensor *const t = vmap_of_gradient();
    return n_seen++, t ? sn_redispatch(f) : sn_check();
}
static sn_tensor *transform_in_handler(void) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const t = in_mode_scope(sn_user_mode_push(begins_vmap, NULL), some_ops);
    return sn_scope_return(scope, t);
}
static sn_tensor *autocast_begun(void) {
    const sn_scope scope = sn_scope_begin();
    sn_autocast_set(SN_CPU, SN_BF16);
    sn_tensor *const t = sn_mm(rows(), sn_t(rows()));
    const bool cast = t && sn_dtype_of(t) == SN_BF16;
    sn_scope_return(scope, t);
    return t ? sn_add_scalar(sn_to(t, SN_F32), sn_float(cast ? 1000 : 0)) : NULL;
}
static sn_status names_in_place(sn_frame *f) { /* counts those that write */
    const char *const name = sn_op_name(sn_frame_op(f));
    n_seen += strstr(name, "_.") != NULL;
    return sn_redispatch(f);
}
static sn_tensor *functional_begun(void) {
    const sn_scope scope = sn_scope_begin();
    sn_functional_mode_set(true);
    n_seen = 0;
    sn_user_mode_push(names_in_place, NULL);
    sn_tensor *const t = sn_add_(sn_clone(data()), data());
    sn_scope_return(scope, t);
    return with_count(t);
}
static sn_tensor *anomaly_begun(void) {
    const sn_scope scope = sn_scope_begin();
    sn_anomaly_set(true);
    sn_log(sn_neg(sn_full(SN_INTS(2), sn_float(1), SN_F32)));
    const sn_status status = sn_check();
    if (status == SN_ERR_VALUE) sn_error_take();
    sn_scope_end(scope);
    return status == SN_ERR_VALUE ? data() : sn_neg(data());
}
static sn_tensor *fake_begun(void) {
    const sn_scope scope = sn_scope_begin();
    sn_fake_mode_set(true);
    sn_tensor *const t = sn_mm(sn_empty(SN_INTS(2, 3), SN_F32), sn_empty(SN_INTS(3, 5), SN_F32));
    const int64_t n = t ? sn_numel(t) : -1;
    sn_scope_end(scope);
    return n < 0 ? NULL : sn_full(SN_INTS(1), sn_float((double)n), SN_F32);
}
static sn_tensor *without_gradients(void) {
    const sn_scope scope = sn_no_grad_begin();
    sn_tensor *const leaf = own_leaf(), *const t = sn_mul(leaf, leaf);
    const bool recorded = sn_requires_grad(t);
    sn_scope_return(scope, t);
    return recorded ? sn_neg(t) : t;
}
static sn_tensor *sparse_product(void) {
    const int64_t at[] = {0, 1, 1, 3};
    sn_tensor *const positions = sn_from_data(at, SN_INTS(2, 2), SN_I64);
    sn_tensor *const values = sn_from_data((const float[]){2, 3}, SN_INTS(2), SN_F32);
    sn_tensor *const m = sn_sparse_coo(positions, values, SN_INTS(2, 4));
    return m ? sn_mv(m, data()) : NULL;
}
static sn_tensor *random_forked(void) {
    const sn_scope scope = sn_rng_fork_begin();
    sn_seed(7);
    return sn_scope_return(scope, sn_rand(SN_INTS(4), SN_F32));
}
static sn_tensor *optimizer_steps(void) {
    sn_dict *const params = sn_dict_new();
    sn_tensor *const leaf = own_leaf();
    sn_dict_set(params, "w", leaf);
    sn_optim *const optim = sn_adam(params, 0.1, 0);
    sn_grad_set(leaf, data());
    const sn_status status = sn_optim_step(optim);
    sn_optim_free(optim);
    sn_dict_free(params);
    return status == SN_OK ? sn_clone(sn_detach(leaf)) : NULL;
}

typedef struct Begun {
    const char *name;
    Thing *thing;
} Begun;
#define BEGUN(name)                                                                                                    \
    { #name, name }
static const Begun things[] = {BEGUN(vmap_of_squares),  BEGUN(vmap_of_gradient),  BEGUN(gradient_function),
                               BEGUN(vjp_function),     BEGUN(jvp_function),      BEGUN(jacobian_of_squares),
                               BEGUN(forward_jacobian), BEGUN(hessian_of_cube),   BEGUN(condition),
                               BEGUN(while_loop),       BEGUN(scan_of_rows),      BEGUN(map_of_rows),
                               BEGUN(own_backward),     BEGUN(own_checkpoint),    BEGUN(own_custom_call),
                               BEGUN(own_saved_hooks),  BEGUN(function_called),   BEGUN(own_function_gradient),
                               BEGUN(user_mode_begun),  BEGUN(api_mode_begun),    BEGUN(transform_in_handler),
                               BEGUN(autocast_begun),   BEGUN(functional_begun),  BEGUN(anomaly_begun),
                               BEGUN(fake_begun),       BEGUN(without_gradients), BEGUN(sparse_product),
                               BEGUN(random_forked),    BEGUN(optimizer_steps)};
enum { THINGS = sizeof things / sizeof *things };

static void say_nothing(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic, (void)line;
}

/* what is refused --------------------------------------------------------------------------------- */

/* An error that the docs name; NULL as text: it is not tried there. */
typedef struct Refused {
    const char *things, *kinds, *text; /* names between spaces; "*": all */
} Refused;
#define OF_FUNCTIONS " func_grad func_vjp func_jvp jacobian hessian "
#define BACKWARDS    " own_backward own_checkpoint own_saved_hooks own_function_gradient "
static const Refused refusals[] = {
    {"*", " checkpoint_again ", NULL}, /* its second run does what the first one did */
    {"*", " cond_in_vmap ", "sn_"},    /* its body must be such as can be traced */
    {" own_custom_call ", OF_FUNCTIONS " vmap vmap_in_cond ", "not inside of sn_vmap"},
    {BACKWARDS, OF_FUNCTIONS, "sn_backward: inside of sn_func_grad"},
    {" optimizer_steps ", OF_FUNCTIONS, "a tensor from outside would be written in place"},
    {BACKWARDS " own_custom_call optimizer_steps ", " checkpoint policy map_in_checkpoint ",
     "not in the body of sn_checkpoint"},
    {" functional_begun ", " policy ", "it would write a result that the policy of sn_checkpoint saves"},
    {" random_forked ", " vmap vmap_in_cond ", "a random op inside of sn_vmap"},
};

static bool is_named(const char *names, const char *name) {
    char word[80];
    snprintf(word, sizeof word, " %s ", name);
    return !strcmp(names, "*") || strstr(names, word);
}

static const Refused *refusal(const char *kind, const char *thing) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (is_named(refusals[i].kinds, kind) && is_named(refusals[i].things, thing)) return &refusals[i];
    return NULL;
}

/* the matrix -------------------------------------------------------------------------------------- */

typedef struct Given {
    sn_status status;
    int64_t n;
    double elements[ELEMENTS];
    char text[300];
} Given;

/* One by one: inside of sn_func_grad a tensor stands for another, and only its items can be asked for. */
static void give(Given *to, Thing *thing) {
    sn_tensor *const t = thing(), *const flat = t ? sn_reshape(t, SN_INTS(-1)) : NULL;
    *to = (Given){.n = flat ? sn_numel(flat) : 0};
    ck_assert(to->n <= ELEMENTS);
    for (int64_t i = 0; i < to->n && sn_check() == SN_OK; i++) to->elements[i] = sn_item(sn_select(flat, 0, i));
    to->status = sn_check();
    if (to->status != SN_OK) snprintf(to->text, sizeof to->text, "%s", sn_error_take()->message);
}

static Given wanted[THINGS]; /* outside */
static Thing *armed;
static Given given;
static char said[1000]; /* errors of all tries */
static int n_begun;

/* A body that cannot do it as a graph runs itself, and does it then. */
static void called_back(void) {
    Thing *const thing = armed;
    if (!thing) return;
    armed = NULL; /* what it begins calls back, too */
    n_begun++;
    give(&given, thing);
    if (given.status == SN_OK) return;
    armed = thing;
    strncat(said, given.text, sizeof said - strlen(said) - 1);
}

static void begin_in(const Kind *kind, const Begun *begun) {
    const Refused *const refused = refusal(kind->name, begun->name);
    const Given want = wanted[begun - things];
    if (refused && !refused->text) return;
    said[0] = '\0';
    armed = begun->thing;
    n_begun = 0;
    const sn_scope scope = sn_scope_begin();
    kind->run(x);
    if (sn_check() != SN_OK) sn_error_take(); /* of a body that was refused, and does not run itself */
    sn_scope_end(scope);
    armed = NULL;
    ck_assert_msg(n_begun > 0, "%s does not call back, for %s", kind->name, begun->name);
    if (refused) {
        ck_assert_msg(given.status != SN_OK && strstr(said, refused->text), "%s in %s: not refused, %s", begun->name,
                      kind->name, said);
        return;
    }
    ck_assert_msg(given.status == SN_OK, "%s in %s: %s", begun->name, kind->name, given.text);
    const bool same = given.n == want.n && !memcmp(given.elements, want.elements, sizeof want.elements);
    ck_assert_msg(same, "%s in %s: other values, %g for %g", begun->name, kind->name, given.elements[0],
                  want.elements[0]);
}

static void make_world(void) {
    make_callbacks();
    sn_logging_set(say_nothing, NULL, "");
    for (int i = 0; i < THINGS; i++) {
        give(&wanted[i], things[i].thing);
        ck_assert_msg(wanted[i].status == SN_OK, "%s outside: %s", things[i].name, wanted[i].text);
    }
}

START_TEST(a_callback_begins_what_it_likes) {
    make_world();
    sn_tensor *const before = sn_keep(kinds[_i].run(x));
    for (int i = 0; i < THINGS; i++) begin_in(&kinds[_i], &things[i]);
    sn_tensor *const after = kinds[_i].run(x);
    ck_assert_msg(after && same_bits(after, before), "%s gives something else afterwards", kinds[_i].name);
    sn_release(before);
}
END_TEST

START_TEST(one_that_runs_once_begins_what_it_likes) {
    make_world();
    begin_in(&kinds[_i / THINGS], &things[_i % THINGS]);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("begun");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_callback_begins_what_it_likes, 0, KINDS - N_ONCE);
    tcase_add_loop_test(tests, one_that_runs_once_begins_what_it_likes, (KINDS - N_ONCE) * THINGS, KINDS * THINGS);
    return suite_run("test_begun", tests);
}
