/* test_checkpoint_compiled.c: checkpoints in compiled functions [semantics T6, 3.17]: regions that the partitioner
 * computes again, with eager's bits and errors and without a break; less is saved, and less memory is held. */
#include <setjmp.h>
#include <stdio.h>

#include "tests/unit/checkpoint_net.h"

static sn_function *eager_of(sn_body body, void *closure) {
    return sn_compile(body, closure, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
}

static void expect_whole(sn_function *fn) {
    const sn_stats stats = stats_of(fn);
    ck_assert_msg(!stats.breaks && last_path() == SN_PATH_COMPILED, "%s", sn_explain(fn));
}

/* Bytes that explain says are saved for the backward. */
static int64_t saved_bytes(sn_function *fn) {
    long long tensors, bytes;
    const char *at = strstr(sn_explain(fn), "saved for backward:");
    while (at && sscanf(at, " %lld tensors, %lld bytes", &tensors, &bytes) != 2) at = strchr(at + 1, '\n');
    ck_assert_msg(at != NULL, "%s", sn_explain(fn));
    return bytes;
}

/* Nets ------------------------------------------------------------------------------------------------------------- */

typedef Ran RunFn(sn_function *fn, Net *net, uint64_t seed);

static sn_status step_body(sn_frame *f) {
    Net *const net = sn_closure(f);
    sn_tensor *x = sn_in(f, 0);
    for (int i = 0; i < BLOCKS; i++) x = block_call(&net->blocks[i], x, net->checkpoints, net->options);
    sn_tensor *const loss = sn_sum(sn_mul(x, x));
    const sn_status status = sn_backward(loss);
    return status == SN_OK ? sn_out(f, 0, loss) : status;
}

/* The backward is in the body. */
static Ran step(sn_function *fn, Net *net, uint64_t seed) {
    Ran ran = {0};
    for (int i = 0; i < 5 * BLOCKS; i++) sn_grad_set(weight(net, i), NULL);
    sn_seed(seed);
    const int64_t before = memory_now().current;
    sn_memory_reset_peak(SN_CPU);
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const x = LEAF(500 + seed, ROWS, WIDTH);
    sn_tensor *const y = SN_CALL(fn, x);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    ran.of_input = sn_keep(sn_grad(x));
    ran.y = sn_keep(y);
    sn_scope_end(scope);
    ran.peak = memory_now().peak - before;
    ran.drawn = sn_rand(SN_INTS(4), SN_F32);
    for (int i = 0; i < 5 * BLOCKS; i++) ran.grads[i] = sn_clone(sn_grad(weight(net, i)));
    return ran;
}

/* The net without checkpoints, with them, and with them in eager. */
typedef struct Three {
    Net nets[3];
    sn_function *fns[3];
} Three;

static void three_make(Three *t, sn_body body, const sn_checkpoint_options *options) {
    for (int i = 0; i < 3; i++) {
        net_fill(&t->nets[i], 0.25F);
        t->nets[i].checkpoints = i > 0;
        t->nets[i].options = options;
        t->fns[i] = i == 2 ? eager_of(body, &t->nets[i]) : sn_compile(body, &t->nets[i], NULL);
    }
}

/* Same bits; warm calls are one graph, and hold less. */
static void three_run(Three *t, RunFn *go) {
    for (uint64_t i = 0; i < 4; i++) {
        const sn_scope scope = sn_scope_begin();
        const Ran plain = go(t->fns[0], &t->nets[0], i), fast = go(t->fns[1], &t->nets[1], i);
        if (i) expect_whole(t->fns[1]);
        const Ran eager = go(t->fns[2], &t->nets[2], i);
        same_runs(&plain, &fast);
        same_runs(&eager, &fast);
        ck_assert_msg(fast.peak < plain.peak * 6 / 10, "%lld of %lld bytes", (long long)fast.peak,
                      (long long)plain.peak);
        release(&plain), release(&fast), release(&eager);
        sn_scope_end(scope);
    }
}

static void three_free(const Three *t) {
    for (int i = 0; i < 3; i++) sn_function_free(t->fns[i]);
}

START_TEST(a3_17_a_region_of_a_compiled_function_is_computed_again) {
    static Three t;
    three_make(&t, net_body, NULL);
    three_run(&t, run);
    ck_assert_int_lt(saved_bytes(t.fns[1]), saved_bytes(t.fns[0]) / 2);
    three_free(&t);
}
END_TEST

START_TEST(a3_17_a_backward_in_the_body_computes_again_too) {
    static Three t;
    three_make(&t, step_body, NULL);
    three_run(&t, step);
    ck_assert_msg(strstr(sn_explain(t.fns[1]), "computed again for a backward"), "%s", sn_explain(t.fns[1]));
    three_free(&t);
}
END_TEST

START_TEST(t6_a_policy_says_what_is_saved) {
    static const char *const products[] = {"aten::mm", "aten::addmm", NULL};
    static Three all, some;
    three_make(&all, net_body, NULL);
    three_make(&some, net_body, SN_CHECKPOINT_OPTIONS(.save = products));
    for (uint64_t i = 0; i < 3; i++) {
        const sn_scope scope = sn_scope_begin();
        const Ran a = run(all.fns[1], &all.nets[1], i), b = run(some.fns[1], &some.nets[1], i);
        same_runs(&a, &b);
        release(&a), release(&b);
        sn_scope_end(scope);
    }
    expect_whole(some.fns[1]);
    ck_assert_int_lt(saved_bytes(all.fns[1]), saved_bytes(some.fns[1]));
    three_free(&all), three_free(&some);
}
END_TEST

/* Small regions ---------------------------------------------------------------------------------------------------- */

typedef struct World {
    sn_tensor *w, *other;
    int runs, freed;
    bool asks, writes, leaves;
    jmp_buf out;
} World;

static sn_tensor *checkpointed(sn_body body, World *w, sn_tensor *x) {
    sn_tensor *out = NULL;
    sn_checkpoint(body, w, NULL, SN_TENSORS(x), &out, 1);
    return out;
}

static sn_status gated(sn_frame *f) {
    World *const w = sn_closure(f);
    w->runs++;
    sn_tensor *h = sn_exp(sn_mul(sn_in(f, 0), w->w));
    if (w->asks) h = sn_mul_scalar(h, sn_float(sn_item(sn_sum(h)) > 0 ? 0.5 : 2));
    if (w->writes) sn_add_(w->other, sn_detach(h));
    if (w->leaves) longjmp(w->out, 1);
    sn_tensor *const own = sn_zeros_like(h);
    sn_add_(own, sn_detach(h)); /* what it made it may write */
    return sn_out(f, 0, sn_add(sn_sin(sn_mul(h, sn_dropout(h, 0.5, true))), own));
}

static sn_status nested(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_tanh(sn_mul(sn_in(f, 0), w->w));
    return sn_out(f, 0, sn_mul(sn_cos(checkpointed(gated, w, h)), h));
}

static sn_status one(sn_frame *f) { return sn_out(f, 0, checkpointed(gated, sn_closure(f), sn_in(f, 0))); }
static sn_status two(sn_frame *f) { return sn_out(f, 0, checkpointed(nested, sn_closure(f), sn_in(f, 0))); }

typedef struct Pair { /* of worlds, alike: compiled and eager */
    World worlds[2];
    sn_function *fns[2];
} Pair;

static void pair_make(Pair *p, sn_body body, const sn_compile_options *options) {
    for (int k = 0; k < 2; k++) p->worlds[k] = (World){.w = LEAF(7, 8, 4), .other = F32(9, 8, 4)};
    p->fns[0] = sn_compile(body, &p->worlds[0], options);
    p->fns[1] = eager_of(body, &p->worlds[1]);
}
static void pair_free(const Pair *p) {
    for (int k = 0; k < 2; k++) sn_function_free(p->fns[k]);
}

/* One training step of each; the gradients agree. */
static void pair_step(Pair *p, uint64_t seed) {
    sn_tensor *xs[2], *ys[2];
    for (int k = 0; k < 2; k++) {
        sn_seed(seed);
        sn_grad_set(p->worlds[k].w, NULL);
        xs[k] = LEAF(20 + seed, 8, 4);
        ys[k] = SN_CALL(p->fns[k], xs[k]);
        ck_assert_msg(ys[k] && sn_backward(sn_sum(ys[k])) == SN_OK, "%s", sn_error_take()->message);
    }
    ck_assert(same_bits(ys[0], ys[1]) && same_bits(sn_grad(xs[0]), sn_grad(xs[1])));
    ck_assert(same_bits(sn_grad(p->worlds[0].w), sn_grad(p->worlds[1].w)));
}

START_TEST(t6_regions_in_each_other_are_one_graph) {
    for (int k = 0; k < 2; k++) {
        Pair p;
        pair_make(&p, two, k ? SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY) : NULL);
        for (uint64_t i = 0; i < 3; i++) pair_step(&p, i);
        ck_assert_msg(!stats_of(p.fns[0]).breaks, "%s", sn_explain(p.fns[0]));
        pair_free(&p);
    }
}
END_TEST

static sn_status raised(sn_frame *f) {
    const World *const w = sn_closure(f);
    return sn_out(f, 0, sn_exp(sn_mul(sn_in(f, 0), w->w)));
}
static sn_status rises(sn_frame *f) { return sn_out(f, 0, checkpointed(raised, sn_closure(f), sn_in(f, 0))); }
static sn_checkpoint_choice all_saved(void *context, const char *op) { return SN_CHECKPOINT_SAVE; }
static sn_status rises_saved(sn_frame *f) {
    sn_tensor *out = NULL;
    sn_checkpoint(raised, sn_closure(f), SN_CHECKPOINT_OPTIONS(.policy = all_saved), SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}
static sn_status rises_and_is_read(sn_frame *f) {
    sn_tensor *const h = checkpointed(raised, sn_closure(f), sn_in(f, 0));
    sn_out(f, 1, sn_sin(h));
    return sn_out(f, 0, h);
}

/* The result is written before the backward of one of the results; what that raises, if it does. */
static const char *write_first(Pair *p, int k, int n_out, int from, bool twice, sn_tensor **grad) {
    sn_tensor *outs[2], *const x = LEAF(20, 8, 4);
    sn_grad_set(p->worlds[k].w, NULL);
    ck_assert_int_eq(sn_call(p->fns[k], &x, 1, outs, n_out), SN_OK);
    sn_mul_scalar_(outs[0], sn_float(3));
    sn_tensor *const sum = sn_sum(outs[from]);
    const sn_status status =
        sn_gradients(SN_TENSORS(sum), SN_TENSORS(x), (sn_tensors){0}, twice ? SN_CREATE_GRAPH : 0, grad);
    if (twice && status == SN_OK) sn_gradients(SN_TENSORS(sn_sum(*grad)), SN_TENSORS(x), (sn_tensors){0}, 0, grad);
    return sn_check() == SN_OK ? "" : sn_error_take()->message;
}

/* The second run makes it again, wherever the first one has its memory; what a policy saves and what others hold is
 * that memory. */
START_TEST(t6_a_written_result_is_made_again) {
    static const struct {
        sn_body body;
        int n_out, from;
        const char *says;
    } cases[] = {{rises, 1, 0, ""},
                 {rises_saved, 1, 0, "sn_checkpoint needs the f32[8,4]"},
                 {rises_and_is_read, 2, 0, ""},
                 {rises_and_is_read, 2, 1, "SinBackward needs the f32[8,4]"}};
    for (int i = 0; i < 4; i++) {
        Pair p;
        pair_make(&p, cases[i].body, NULL);
        for (int call = 0; call < 3; call++) {
            sn_tensor *grads[2];
            for (int k = 0; k < 2; k++) {
                const char *const said =
                    write_first(&p, k, cases[i].n_out, cases[i].from, call == 2 && !*cases[i].says, &grads[k]);
                ck_assert_msg(*cases[i].says ? strstr(said, cases[i].says) != NULL : !*said, "%d %d: %s", i, k, said);
            }
            ck_assert(*cases[i].says || same_bits(grads[0], grads[1]));
        }
        ck_assert_msg(!stats_of(p.fns[0]).breaks, "%s", sn_explain(p.fns[0]));
        if (!i) ck_assert_int_eq(saved_bytes(p.fns[0]), 2 * 8 * 4 * sizeof(float)); /* x and w alone */
        pair_free(&p);
    }
}
END_TEST

/* A region that the body breaks goes on as another one. */
START_TEST(t6_a_value_asked_for_in_a_region_breaks_there) {
    Pair p;
    pair_make(&p, one, NULL);
    p.worlds[0].asks = p.worlds[1].asks = true;
    for (uint64_t i = 0; i < 3; i++) pair_step(&p, i);
    ck_assert_msg(strstr(sn_explain(p.fns[0]), "needed on the host"), "%s", sn_explain(p.fns[0]));
    pair_free(&p);
}
END_TEST

/* Behind the break the region goes on with h and a view of it, which it may write, and others once it is done. */
static sn_status cut_in_two(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_mul(sn_in(f, 0), w->w), *const row = sn_select(h, 0, 1);
    if (sn_item(sn_sum(h)) < -1e9) return SN_OK;
    if (w->writes) sn_mul_scalar_(row, sn_float(3));
    sn_tensor *const y = sn_mul(sn_sin(h), h);
    sn_out(f, 0, h);
    return sn_out(f, 1, sn_add(sn_mul(y, h), sn_mul(row, row)));
}
static sn_status cut(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *out[2] = {NULL};
    sn_checkpoint(cut_in_two, w, NULL, SN_TENSORS(sn_in(f, 0)), out, 2);
    if (w->asks) sn_zero_(out[0]);
    return sn_out(f, 0, out[1]);
}

START_TEST(t6_what_a_region_made_before_a_break_may_be_written) {
    for (int what = 0; what < 4; what++) {
        Pair p;
        pair_make(&p, cut, NULL);
        for (int k = 0; k < 2; k++) p.worlds[k].writes = what & 1, p.worlds[k].asks = what & 2;
        for (uint64_t i = 0; i < 3; i++) {
            sn_tensor *grads[2][2];
            for (int k = 0; k < 2; k++) {
                sn_tensor *const x = LEAF(20 + i, 8, 4), *const sum = sn_sum(SN_CALL(p.fns[k], x));
                for (int again = 0; again < 2; again++) /* the second run is done twice: nothing it reads has changed */
                    ck_assert_msg(sn_gradients(SN_TENSORS(sum), SN_TENSORS(x), (sn_tensors){0}, SN_RETAIN_GRAPH,
                                               &grads[k][again]) == SN_OK,
                                  "%d: %s", what, sn_error_take()->message);
            }
            for (int again = 0; again < 2; again++) ck_assert(same_bits(grads[0][0], grads[1][again]));
            ck_assert(same_bits(grads[0][0], grads[0][1]));
        }
        ck_assert_msg(what || strstr(sn_explain(p.fns[0]), "a checkpoint that a break cut in two"), "%s",
                      sn_explain(p.fns[0]));
        pair_free(&p);
    }
}
END_TEST

/* The error without the place. */
static void same_errors(char (*texts)[512]) {
    for (int k = 0; k < 2; k++) {
        char *const at = strstr(texts[k], " at ");
        const char *const behind = at ? strstr(at, " needs ") : NULL;
        if (behind) memmove(at, behind, strlen(behind) + 1);
    }
    ck_assert_str_eq(texts[0], texts[1]);
}

START_TEST(t6_what_a_compiled_region_read_is_checked_for_writes) {
    Pair p;
    pair_make(&p, one, NULL);
    for (uint64_t i = 0; i < 2; i++) pair_step(&p, i);
    for (int what = 0; what < 4; what++) {
        char texts[2][512];
        for (int k = 0; k < 2; k++) {
            /* The first call of a case runs op by op. */
            sn_tensor *const x = what % 2 ? LEAF(8, 8, 4) : F32(8, 8, 4);
            sn_tensor *const y = SN_CALL(p.fns[k], x);
            const sn_scope off = sn_no_grad_begin();
            sn_tensor *const written = what / 2 ? p.worlds[k].w : x;
            sn_mul_(written, written);
            sn_scope_end(off);
            ck_assert_int_eq(sn_backward(sn_sum(y)), SN_ERR_STATE);
            snprintf(texts[k], sizeof texts[k], "%s", sn_error_take()->message);
        }
        ck_assert_msg(strstr(texts[1], "sn_checkpoint: aten::mul"), "%s", texts[1]);
        same_errors(texts);
    }
    pair_free(&p);
}
END_TEST

/* Its sum's rule holds nothing of w, but the region reads it. */
static sn_status shifted(sn_frame *f) {
    World *const w = sn_closure(f);
    return sn_out(f, 0, sn_exp(sn_sin(sn_add(sn_in(f, 0), w->w))));
}
static sn_status shifted_by_other(sn_frame *f) {
    World *const w = sn_closure(f);
    return sn_out(f, 0, sn_exp(sn_sin(sn_add(sn_in(f, 0), w->other))));
}
static sn_status shifts(sn_frame *f) { return sn_out(f, 0, checkpointed(shifted, sn_closure(f), sn_in(f, 0))); }

START_TEST(t6_what_no_rule_holds_is_checked_too) {
    Pair p;
    pair_make(&p, shifts, NULL);
    for (uint64_t i = 0; i < 3; i++) {
        pair_step(&p, i);
        for (int k = 0; k < 2; k++) {
            sn_tensor *const y = SN_CALL(p.fns[k], LEAF(8, 8, 4));
            const sn_scope off = sn_no_grad_begin();
            sn_mul_(p.worlds[k].w, p.worlds[k].w);
            sn_scope_end(off);
            ck_assert_int_eq(sn_backward(sn_sum(y)), SN_ERR_STATE);
            expect_error(SN_ERR_STATE, "sn_checkpoint: aten::add");
        }
    }
    pair_free(&p);
}
END_TEST

static sn_status shifts_and_writes(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const y = checkpointed(shifted, w, sn_in(f, 0));
    const sn_scope off = sn_no_grad_begin();
    sn_mul_(w->other, w->other);
    sn_scope_end(off);
    return w->asks ? sn_backward(sn_sum(y)) : sn_out(f, 0, y);
}

START_TEST(t6_a_write_in_the_body_is_seen_by_its_backward) {
    for (int inside = 0; inside < 2; inside++) {
        Pair p;
        pair_make(&p, shifts_and_writes, NULL);
        for (int k = 0; k < 2; k++) {
            World *const w = &p.worlds[k];
            w->other = w->w = F32(7, 8, 4);
            w->asks = inside;
            for (int i = 0; i < 3; i++) {
                sn_tensor *const y = SN_CALL(p.fns[k], LEAF(8, 8, 4));
                if (!inside) ck_assert_int_eq(sn_backward(sn_sum(y)), SN_ERR_STATE);
                expect_error(SN_ERR_STATE, "sn_checkpoint: aten::add");
            }
        }
        pair_free(&p);
    }
}
END_TEST

START_TEST(t6_a_compiled_region_writes_nothing_from_outside) {
    Pair p;
    pair_make(&p, one, NULL);
    for (uint64_t i = 0; i < 2; i++) pair_step(&p, i);
    char texts[2][512];
    for (int k = 0; k < 2; k++) {
        p.worlds[k].writes = true;
        sn_tensor *const before = sn_clone(p.worlds[k].other);
        ck_assert(!SN_CALL(p.fns[k], F32(8, 8, 4)));
        snprintf(texts[k], sizeof texts[k], "%s", sn_error_take()->message);
        ck_assert(same_bits(before, p.worlds[k].other));
        p.worlds[k].writes = false;
    }
    ck_assert_str_eq(texts[0], texts[1]);
    pair_step(&p, 3);
    pair_free(&p);
}
END_TEST

static void gradients(sn_tensor *root, sn_tensor *x, uint32_t flags, sn_tensor **out) {
    const sn_status status = sn_gradients(SN_TENSORS(root), SN_TENSORS(x), (sn_tensors){0}, flags, out);
    ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message);
}

START_TEST(t6_gradients_of_gradients_go_through_a_compiled_region) {
    Pair p;
    pair_make(&p, two, NULL);
    sn_tensor *seen[2][3];
    for (uint64_t i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            sn_seed(i);
            sn_tensor *const x = LEAF(8, 8, 4);
            sn_tensor *const y = SN_CALL(p.fns[k], x), *const root = sn_sum(sn_mul(y, y));
            sn_tensor *const w = p.worlds[k].w;
            gradients(root, x, SN_CREATE_GRAPH, &seen[k][0]);
            gradients(sn_sum(seen[k][0]), w, SN_RETAIN_GRAPH, &seen[k][1]);
            gradients(root, w, 0, &seen[k][2]);
        }
        for (int g = 0; g < 3; g++) ck_assert_msg(same_bits(seen[0][g], seen[1][g]), "%d", g);
    }
    pair_free(&p);
}
END_TEST

static sn_status may_leave(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *volatile x = sn_sin(sn_in(f, 0));
    const sn_scope scope = sn_scope_begin();
    w->leaves = true;
    if (!setjmp(w->out)) checkpointed(gated, w, x);
    w->leaves = false;
    sn_scope_end(scope);
    sn_mul_(x, x); /* no region is open: it may be written */
    return sn_out(f, 0, sn_exp(sn_mul(x, w->w)));
}

START_TEST(t6_a_region_that_is_left_is_none) {
    Pair p;
    pair_make(&p, may_leave, NULL);
    for (uint64_t i = 0; i < 3; i++) pair_step(&p, i);
    pair_free(&p);
}
END_TEST

static sn_status writes_its_base(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_mul(sn_in(f, 0), w->w), *const view = sn_unsqueeze(h, 0);
    sn_sin_(h);
    sn_out(f, 0, h);
    return sn_out(f, 1, view);
}
static sn_status gives_a_view(sn_frame *f) {
    sn_tensor *out[2] = {NULL};
    sn_checkpoint(writes_its_base, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), out, 2);
    return sn_out(f, 0, out[1]);
}

START_TEST(t6_a_view_has_the_history_of_what_was_written) {
    Pair p;
    pair_make(&p, gives_a_view, NULL);
    for (uint64_t i = 0; i < 3; i++) pair_step(&p, i);
    pair_free(&p);
}
END_TEST

/* Handed over, and closed over. */
static sn_status reads_inference(sn_frame *f) {
    World *const w = sn_closure(f);
    const sn_scope scope = sn_scope_begin();
    sn_grad_mode_set(SN_INFERENCE);
    sn_tensor *const made = sn_keep(sn_exp(sn_in(f, 0)));
    sn_scope_end(scope);
    w->other = made;
    sn_tensor *const out = checkpointed(w->asks ? shifted_by_other : shifted, w, w->asks ? sn_in(f, 0) : made);
    sn_release(made);
    return sn_out(f, 0, out);
}

START_TEST(t6_tensors_of_inference_mode_are_refused) {
    for (int closed = 0; closed < 2; closed++) {
        Pair p;
        pair_make(&p, reads_inference, NULL);
        for (int k = 0; k < 2; k++) {
            p.worlds[k].asks = closed;
            for (int i = 0; i < 3; i++) {
                ck_assert(!SN_CALL(p.fns[k], LEAF(8, 8, 4)));
                expect_error(SN_ERR_STATE, "Inference tensors cannot be saved");
            }
        }
        pair_free(&p);
    }
}
END_TEST

/* tanh's result is what its rule reads. */
static sn_status overwrites(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *const h = sn_tanh(sn_mul(sn_in(f, 0), w->w));
    sn_mul_scalar_(h, sn_float(2));
    return sn_out(f, 0, sn_sin(h));
}
static sn_status overwriting(sn_frame *f) { return sn_out(f, 0, checkpointed(overwrites, sn_closure(f), sn_in(f, 0))); }

START_TEST(t6_a_write_of_what_a_region_saves_is_an_error) {
    Pair p;
    pair_make(&p, overwriting, NULL);
    char texts[2][512];
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) {
            sn_tensor *const y = SN_CALL(p.fns[k], LEAF(8, 8, 4));
            ck_assert_int_eq(sn_backward(sn_sum(y)), SN_ERR_STATE);
            snprintf(texts[k], sizeof texts[k], "%s", sn_error_take()->message);
        }
        ck_assert_msg(strstr(texts[1], "TanhBackward needs"), "%s", texts[1]);
        ck_assert_str_eq(texts[0], texts[1]);
    }
    pair_free(&p);
}
END_TEST

static void count_free(void *data, void *context) {
    (void)context;
    ((World *)data)->freed++;
}
static sn_status frees(sn_frame *f) {
    World *const w = sn_closure(f);
    sn_tensor *out = NULL;
    sn_checkpoint(gated, w, SN_CHECKPOINT_OPTIONS(.closure_free = count_free), SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}

START_TEST(t6_a_compiled_regions_closure_is_freed_once_a_call) {
    Pair p;
    pair_make(&p, frees, NULL);
    for (uint64_t i = 0; i < 3; i++) pair_step(&p, i);
    ck_assert_int_eq(p.worlds[0].freed, 3);
    ck_assert_int_eq(p.worlds[0].runs, 3); /* nobody runs it again */
    pair_free(&p);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a3_17_a_region_of_a_compiled_function_is_computed_again,
        a3_17_a_backward_in_the_body_computes_again_too,
        t6_a_policy_says_what_is_saved,
        t6_a_written_result_is_made_again,
        t6_regions_in_each_other_are_one_graph,
        t6_a_value_asked_for_in_a_region_breaks_there,
        t6_what_a_region_made_before_a_break_may_be_written,
        t6_what_a_compiled_region_read_is_checked_for_writes,
        t6_what_no_rule_holds_is_checked_too,
        t6_a_write_in_the_body_is_seen_by_its_backward,
        t6_a_compiled_region_writes_nothing_from_outside,
        t6_gradients_of_gradients_go_through_a_compiled_region,
        t6_a_write_of_what_a_region_saves_is_an_error,
        t6_a_view_has_the_history_of_what_was_written,
        t6_tensors_of_inference_mode_are_refused,
        t6_a_region_that_is_left_is_none,
        t6_a_compiled_regions_closure_is_freed_once_a_call,
    };
    return contract_main("test_checkpoint_compiled", tests, (int)(sizeof tests / sizeof *tests));
}
