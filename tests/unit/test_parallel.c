/* test_parallel.c: ranks of one process [semantics T10], hooks behind .grad, buckets, parts of parameters. Rows of the
   acceptance list, by public headers. */
#include <sinter/parallel.h>
#include <stdio.h>
#include <time.h>

#include "tests/unit/contract.h"

enum { RANKS = 3, ROWS = 4, WIDTH = 5 };

/* Results of ranks, kept. */
typedef struct Kept {
    sn_tensor *at[RANKS][8];
    int fails; /* the rank that does */
    int order[RANKS][16], n[RANKS];
} Kept;

static void keep(Kept *k, sn_comm *comm, int i, sn_tensor *t) { k->at[sn_comm_rank(comm)][i] = sn_keep(t); }
static void kept_free(Kept *k) {
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < 8; i++) sn_release(k->at[r][i]);
}
static void run(int ranks, sn_rank_body body, void *closure) {
    ck_assert_msg(sn_ranks_run(ranks, body, closure, NULL) == SN_OK, "%s", sn_error_take()->message);
}

/* Hooks behind .grad ----------------------------------------------------------------------------------- */

typedef struct Seen {
    sn_tensor *leaf, *grad;
    int n, order[8];
    struct Seen *all;
    int number;
} Seen;

static sn_status sees(sn_frame *f) {
    Seen *const seen = sn_closure(f);
    ck_assert_ptr_eq(sn_in(f, 0), seen->leaf);
    seen->all->order[seen->all->n++] = seen->number;
    seen->grad = sn_keep(sn_clone(sn_grad(seen->leaf)));
    return SN_OK;
}
static sn_status doubles_grad(sn_frame *f) {
    sn_mul_scalar_(sn_grad(sn_in(f, 0)), sn_float(2));
    return SN_OK;
}

START_TEST(a3_18_a_hook_runs_when_the_gradient_is_there) {
    for (int way = 0; way < 2; way++) {
        sn_tensor *const w = LEAF(1, WIDTH), *const b = LEAF(2, WIDTH), *const x = F32(3, ROWS, WIDTH);
        Seen seen[2] = {{.leaf = w}, {.leaf = b, .number = 1}};
        for (int i = 0; i < 2; i++) {
            seen[i].all = seen;
            ck_assert(sn_post_accumulate_hook_add(seen[i].leaf, sees, &seen[i]) > 0);
        }
        for (int i = 0; i < 2; i++) {
            sn_tensor *const y = sn_sum(sn_add(sn_mul(x, w), sn_sin(b)));
            if (way)
                ck_assert_int_eq(sn_backward(y), SN_OK);
            else
                ck_assert_int_eq(sn_backward_ex(SN_TENSORS(y), (sn_tensors){0}, SN_RETAIN_GRAPH), SN_OK);
            for (int k = 0; k < 2; k++) {
                ck_assert(same_bits(seen[k].grad, sn_grad(seen[k].leaf))); /* with the second's added */
                sn_release(seen[k].grad);
            }
        }
        ck_assert_int_eq(seen[0].n, 4);
        sn_tensor *g;
        ck_assert_int_eq(sn_gradients(SN_TENSORS(sn_sum(sn_mul(x, w))), SN_TENSORS(w), (sn_tensors){0}, 0, &g), SN_OK);
        ck_assert_int_eq(seen[0].n, 4); /* .grad is not touched */
    }
}
END_TEST

START_TEST(a3_18_a_hook_may_change_the_gradient_and_goes) {
    sn_tensor *const w = LEAF(1, WIDTH), *const v = LEAF(1, WIDTH);
    const int64_t id = sn_post_accumulate_hook_add(w, doubles_grad, NULL);
    for (int i = 0; i < 2; i++) {
        if (i) sn_hook_remove(w, id);
        sn_backward(sn_sum(sn_sin(w)));
        sn_backward(sn_sum(sn_sin(v)));
        if (!i) ck_assert(same_bits(sn_grad(w), sn_mul_scalar(sn_grad(v), sn_float(2))));
    }
    sn_tensor *const g = sn_div_scalar(sn_grad(v), sn_float(2)); /* one step's: 2 g + g */
    ck_assert(same_bits(sn_grad(w), sn_add(sn_mul_scalar(g, sn_float(2)), g)));
    ck_assert(!sn_post_accumulate_hook_add(sn_sin(w), doubles_grad, NULL));
    expect_error(SN_ERR_STATE, "sn_post_accumulate_hook_add: the tensor is no leaf");
    ck_assert(!sn_post_accumulate_hook_add(w, NULL, NULL));
    expect_error(SN_ERR_ARGUMENT, "the hook is NULL");
}
END_TEST

static sn_status trains(sn_frame *f) {
    sn_tensor *const w = sn_closure(f);
    sn_tensor *const y = sn_sum(sn_sin(sn_mul(sn_in(f, 0), w)));
    if (sn_backward(y) != SN_OK) return sn_check();
    return sn_out(f, 0, sn_grad(w));
}

START_TEST(a3_18_hooks_run_for_compiled_functions) {
    sn_tensor *const w[] = {LEAF(1, WIDTH), LEAF(1, WIDTH)};
    const Twin twin = twin_new(trains, w[0], w[1], NULL);
    for (int i = 0; i < 2; i++) sn_post_accumulate_hook_add(w[i], doubles_grad, NULL);
    for (uint64_t i = 0; i < 4; i++) TWIN_CALL(twin, F32(i, ROWS, WIDTH));
    ck_assert_msg(strstr(sn_explain(twin.fast), "backward"), "%s", sn_explain(twin.fast));
    twin_free(twin);
}
END_TEST

/* Collectives -------------------------------------------------------------------------------------------- */

static sn_tensor *share(int rank) { return F32(10 + (uint64_t)rank, RANKS * 2, WIDTH); }

static sn_status reduces(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    ck_assert_int_eq(sn_comm_size(comm), RANKS);
    sn_tensor *const t = share(sn_comm_rank(comm));
    keep(k, comm, 0, sn_all_reduce(comm, t, SN_REDUCE_SUM));
    keep(k, comm, 1, sn_all_reduce(comm, sn_t(t), SN_REDUCE_MEAN));
    keep(k, comm, 2, sn_all_gather(comm, t));
    keep(k, comm, 3, sn_reduce_scatter(comm, t, SN_REDUCE_MEAN));
    keep(k, comm, 4, sn_all_reduce(comm, sn_to(t, SN_BF16), SN_REDUCE_SUM));
    return sn_check();
}

START_TEST(a3_18_collectives_add_in_rank_order) {
    Kept k = {0};
    run(RANKS, reduces, &k);
    sn_tensor *sum = sn_clone(share(0)), *low = sn_to(share(0), SN_BF16);
    for (int r = 1; r < RANKS; r++) sum = sn_add(sum, share(r)), low = sn_add(low, sn_to(share(r), SN_BF16));
    sn_tensor *const mean = sn_div_scalar(sum, sn_float(RANKS));
    sn_tensor *const all = sn_cat(SN_TENSORS(share(0), share(1), share(2)), 0);
    for (int r = 0; r < RANKS; r++) {
        ck_assert(same_bits(k.at[r][0], sum));
        ck_assert(same_bits(k.at[r][1], sn_contiguous(sn_t(mean))));
        ck_assert(same_bits(k.at[r][2], all));
        ck_assert(same_bits(k.at[r][3], sn_contiguous(sn_narrow(mean, 0, 2 * r, 2))));
        ck_assert(same_bits(k.at[r][4], low));
    }
    kept_free(&k);
}
END_TEST

static sn_status differentiates(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    for (int i = 0; i < 3; i++) {
        sn_tensor *const t = sn_requires_grad_(share(sn_comm_rank(comm)), true);
        sn_tensor *const y = i == 0   ? sn_all_reduce(comm, t, SN_REDUCE_MEAN)
                             : i == 1 ? sn_all_gather(comm, t)
                                      : sn_reduce_scatter(comm, t, SN_REDUCE_MEAN);
        sn_backward(sn_sum(sn_mul_scalar(y, sn_float(1 + sn_comm_rank(comm)))));
        keep(k, comm, i, sn_grad(t));
    }
    return sn_check();
}

START_TEST(a3_18_gradients_go_through_collectives) {
    Kept k = {0};
    run(RANKS, differentiates, &k);
    for (int r = 0; r < RANKS; r++) {
        ck_assert(same_bits(k.at[r][0], sn_full_like(share(0), sn_float(2)))); /* (1 + 2 + 3) / 3 */
        ck_assert(same_bits(k.at[r][1], sn_full_like(share(0), sn_float(6))));
        for (int part = 0; part < RANKS; part++) {
            sn_tensor *const want =
                sn_div_scalar(sn_full(SN_INTS(2, WIDTH), sn_float(part + 1), SN_F32), sn_float(RANKS));
            ck_assert(same_bits(sn_contiguous(sn_narrow(k.at[r][2], 0, 2 * part, 2)), want));
        }
    }
    kept_free(&k);
}
END_TEST

/* x^3, twice: the derivative of a mean of cubes' sum, by all ranks. */
static sn_status differentiates_twice(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    sn_tensor *const x = sn_requires_grad_(share(sn_comm_rank(comm)), true), *g, *gg;
    sn_tensor *const m = sn_all_reduce(comm, x, SN_REDUCE_SUM), *const y = sn_sum(sn_mul(m, sn_mul(m, m)));
    sn_gradients(SN_TENSORS(y), SN_TENSORS(x), (sn_tensors){0}, SN_CREATE_GRAPH, &g);
    if (!g || sn_gradients(SN_TENSORS(sn_sum(g)), SN_TENSORS(x), (sn_tensors){0}, 0, &gg) != SN_OK) return sn_check();
    keep(k, comm, 0, gg);
    return sn_check();
}

START_TEST(a3_18_gradients_of_gradients_go_through_collectives) {
    Kept k = {0};
    run(RANKS, differentiates_twice, &k);
    sn_tensor *const m = sn_add(sn_add(share(0), share(1)), share(2));
    for (int r = 0; r < RANKS; r++) /* 6 m, through both all-reduces of RANKS equal gradients each */
        ck_assert(sn_allclose(k.at[r][0], sn_mul_scalar(m, sn_float(6 * RANKS * RANKS)), 1e-5, 1e-4));
    kept_free(&k);
}
END_TEST

typedef struct Inside {
    sn_comm *comm;
    int calls;
} Inside;
static sn_status reduces_inside(sn_frame *f) {
    const Inside *const in = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    return sn_out(f, 0, sn_sin(sn_all_reduce(in->comm, sn_mul(h, h), SN_REDUCE_MEAN)));
}
static sn_status compiled(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    const Inside in = {.comm = comm};
    sn_function *const fns[] = {sn_compile(reduces_inside, (void *)&in, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER)),
                                sn_compile(reduces_inside, (void *)&in, NULL)};
    for (int i = 0; i < 4; i++)
        for (int way = 0; way < 2; way++) keep(k, comm, 2 * i + way, SN_CALL(fns[way], share(sn_comm_rank(comm) + i)));
    if (!strstr(sn_explain(fns[1]), "sn_all_reduce")) return sn_fail(SN_ERR_STATE, sn_explain(fns[1]));
    sn_function_free(fns[0]), sn_function_free(fns[1]);
    return sn_check();
}

static sn_status negates(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }

/* Before threads are there: LLVM makes what it shares without a word to the sanitizer. */
static void open_compiler(void) {
    sn_function *const fn = sn_compile(negates, NULL, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, share(0));
    sn_function_free(fn);
}

START_TEST(a3_18_a_collective_breaks_a_compiled_function) {
    Kept k = {0};
    open_compiler();
    run(RANKS, compiled, &k);
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < 4; i++) ck_assert(k.at[r][2 * i] && same_bits(k.at[r][2 * i], k.at[r][2 * i + 1]));
    kept_free(&k);
}
END_TEST

/* Failures -------------------------------------------------------------------------------------------------- */

static sn_status fails(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    const int rank = sn_comm_rank(comm);
    if (k->fails == rank && k->n[0] == 0) return sn_fail(SN_ERR_IO, "the disk is full");
    if (k->fails == rank && k->n[0] == 1) return SN_OK; /* leaves early */
    sn_tensor *const t = k->n[0] == 2 && rank == k->fails ? sn_sum(share(rank)) : share(rank);
    if (k->n[0] == 3 && rank == k->fails)
        sn_all_gather(comm, t);
    else
        sn_all_reduce(comm, t, SN_REDUCE_SUM);
    const sn_error *const error = sn_error_take();
    snprintf((char *)k->order[rank], sizeof k->order[rank], "%.60s", error->message);
    return error->status == SN_OK ? SN_OK : sn_fail(error->status, error->message);
}

START_TEST(a3_18_a_rank_that_fails_gives_the_others_an_error) {
    static const char *const said[] = {"rank 1: the disk is full", "rank 1 has ended", "rank 1 calls sn_all_reduce",
                                       "rank 1 calls sn_all_gather"};
    for (int how = 0; how < 4; how++) {
        Kept k = {.fails = 1, .n = {how}};
        ck_assert_int_ne(sn_ranks_run(RANKS, fails, &k, NULL), SN_OK);
        ck_assert_msg(strstr(sn_error_take()->message, said[how]), "%d: %s", how, sn_error_take()->message);
        for (int r = 0; r < RANKS; r += 2)
            ck_assert_msg(strstr((char *)k.order[r], "sn_all_reduce: rank 1"), "%s", (char *)k.order[r]);
    }
}
END_TEST

static sn_status never_comes(sn_comm *comm, void *closure) {
    if (sn_comm_rank(comm) == 1)
        for (_Atomic int *const over = closure; !*over;) {}
    else if (!sn_all_reduce(comm, share(0), SN_REDUCE_SUM) && sn_comm_rank(comm) == 0)
        *(_Atomic int *)closure = 1;
    return sn_check();
}

START_TEST(a3_18_a_rank_that_does_not_come_is_not_waited_for) {
    _Atomic int over = 0;
    ck_assert_int_eq(sn_ranks_run(2, never_comes, &over, SN_RANKS_OPTIONS(.timeout_ms = 20)), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "rank 0: sn_all_reduce: rank 1 did not come in time");
}
END_TEST

/* On all ranks alike, before they meet. */
static sn_status reduces_nothing(sn_comm *comm, void *closure) {
    static const int64_t at[] = {0, 2, 1, 1};
    sn_tensor *const t = share(sn_comm_rank(comm)), *const places = sn_from_data(at, SN_INTS(2, 2), SN_I64);
    sn_tensor *const odd[] = {sn_sparse_coo(places, F32(1, 2), SN_INTS(3, 4)), sn_with_key(t, SN_KEY_XLA), sn_sum(t),
                              sn_narrow(t, 0, 0, 4)};
    static const char *const says[] = {"no memory of its own", "kernels are a program's", "without dims",
                                       "4 rows do not go to 3 ranks"};
    for (int i = 0; i < 4; i++) {
        if (!odd[i] || sn_reduce_scatter(comm, odd[i], SN_REDUCE_SUM)) return sn_fail(SN_ERR_STATE, "taken");
        const sn_error *const error = sn_error_take();
        if (!strstr(error->message, says[i])) return sn_fail(error->status, error->message);
    }
    (void)closure;
    return sn_check();
}

static sn_status means_of_ints(sn_comm *comm, void *closure) {
    sn_all_reduce(comm, sn_to(share(sn_comm_rank(comm)), SN_I64), SN_REDUCE_MEAN);
    (void)closure;
    return sn_check();
}

static sn_status no_status(sn_comm *comm, void *closure) {
    (void)comm, (void)closure;
    return (sn_status)99;
}

START_TEST(a3_18_errors_of_ranks_begin_with_the_rank) {
    ck_assert_int_eq(sn_ranks_run(RANKS, means_of_ints, NULL, NULL), SN_ERR_DTYPE);
    ck_assert_msg(strstr(sn_error_take()->message, "sn_all_reduce: a mean of i64"), "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_ranks_run(1, no_status, NULL, NULL), 99);
    ck_assert_str_eq(sn_error_take()->message, "rank 0: its body returned status 99 and raised no error");
}
END_TEST

START_TEST(a3_18_what_cannot_be_reduced_is_an_error) { run(RANKS, reduces_nothing, NULL); }
END_TEST

static sn_status reduces_slices(sn_frame *f) {
    sn_tensor *const all = sn_all_reduce(sn_closure(f), sn_in(f, 0), SN_REDUCE_SUM);
    return all ? sn_out(f, 0, all) : sn_check();
}
static sn_status reduces_in_vmap(sn_comm *comm, void *closure) {
    sn_tensor *t = share(sn_comm_rank(comm)), *out;
    (void)closure;
    if (sn_vmap(reduces_slices, comm, NULL, (sn_tensors){&t, 1}, &out, 1) == SN_OK)
        return sn_fail(SN_ERR_STATE, "taken");
    const sn_error *const error = sn_error_take();
    const bool told =
        error->status == SN_ERR_UNSUPPORTED && strstr(error->message, "sn_all_reduce: not inside of sn_vm");
    return told ? SN_OK : sn_fail(error->status, error->message);
}

START_TEST(a3_18_no_collective_of_slices) { run(2, reduces_in_vmap, NULL); }
END_TEST

/* Rank 0 lends its own to rank 1, as soon as that has begun, and waits until it has been used. */
typedef struct Lent {
    sn_comm *_Atomic comm;
    _Atomic int used;
} Lent;
static sn_status lends(sn_comm *comm, void *closure) {
    Lent *const lent = closure;
    if (sn_comm_rank(comm) == 0) {
        lent->comm = comm;
        while (!lent->used) {}
        return SN_OK;
    }
    while (!lent->comm) {}
    sn_all_reduce(lent->comm, share(1), SN_REDUCE_SUM);
    lent->used = 1;
    return sn_check();
}

START_TEST(a3_18_a_rank_is_of_one_thread) {
    Lent lent = {0};
    ck_assert_int_eq(sn_ranks_run(2, lends, &lent, NULL), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "sn_all_reduce: rank 0 is another thread");
}
END_TEST

START_TEST(a3_18_bad_calls_are_errors) {
    ck_assert_int_eq(sn_ranks_run(0, reduces, NULL, NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "0 ranks, not 1 to 256");
    ck_assert_int_eq(sn_ranks_run(2, NULL, NULL, NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "body is NULL");
    ck_assert(!sn_all_reduce(NULL, share(0), SN_REDUCE_SUM));
    expect_error(SN_ERR_ARGUMENT, "sn_all_reduce: comm is NULL");
    ck_assert(!sn_data_parallel_new(NULL, SN_TENSORS(share(0)), NULL));
    expect_error(SN_ERR_ARGUMENT, "comm is NULL");
}
END_TEST

/* The rule T10 -------------------------------------------------------------------------------------------------- */

/* Sums of these depend on their order. */
static sn_tensor *uneven(int rank) {
    static const double scales[RANKS] = {1, 1e-2, 1e4};
    return sn_mul_scalar(F32(1 + 7 * (uint64_t)rank, 16, WIDTH), sn_float(scales[rank]));
}
static void idle(int ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL); }

typedef struct Ordered {
    Kept *kept;
    int late; /* the rank that comes last */
} Ordered;

static sn_status adds_uneven(sn_comm *comm, void *closure) {
    const Ordered *const o = closure;
    const int rank = sn_comm_rank(comm);
    if (rank == o->late) idle(2);
    sn_tensor *const t = uneven(rank);
    keep(o->kept, comm, 0, sn_all_reduce(comm, t, SN_REDUCE_SUM));
    keep(o->kept, comm, 1, sn_all_reduce(comm, t, SN_REDUCE_MEAN));
    return sn_check();
}

static sn_tensor *sum_in_order(int first, int second, int third) {
    sn_tensor *const sum = sn_clone(uneven(first));
    sn_add_(sum, uneven(second));
    return sn_add_(sum, uneven(third));
}

START_TEST(t10_an_all_reduce_has_the_bits_of_shares_added_in_rank_order) {
    sn_tensor *const want = sum_in_order(0, 1, 2);
    ck_assert(!same_bits(sum_in_order(2, 1, 0), want) && !same_bits(sum_in_order(1, 2, 0), want));
    for (int late = 0; late < RANKS; late++) {
        Kept k = {0};
        Ordered o = {.kept = &k, .late = late};
        run(RANKS, adds_uneven, &o);
        for (int r = 0; r < RANKS; r++) {
            ck_assert(same_bits(k.at[r][0], want));
            ck_assert(same_bits(k.at[r][1], sn_div_scalar(want, sn_float(RANKS))));
        }
        kept_free(&k);
    }
}
END_TEST

/* Between writes, each sees what was written before it, and no more. */
static sn_status reduces_between_writes(sn_frame *f) {
    sn_comm *const comm = sn_closure(f);
    sn_tensor *const x = sn_exp(sn_in(f, 0)), *const before = sn_all_reduce(comm, x, SN_REDUCE_SUM);
    sn_mul_(x, sn_in(f, 0));
    sn_tensor *const after = sn_all_gather(comm, x);
    sn_add_scalar_(x, sn_float(1));
    return sn_out(f, 0, sn_cat(SN_TENSORS(sn_sin(before), after, x), 0));
}
static sn_status reduces_in_order(sn_comm *comm, void *closure) {
    (void)closure;
    const Twin twin = twin_new(reduces_between_writes, comm, comm, NULL);
    sn_tensor *const x = F32(20 + (uint64_t)sn_comm_rank(comm), 4, WIDTH);
    for (int i = 0; i < 4; i++) {
        sn_tensor *const eager = SN_CALL(twin.eager, x), *const fast = SN_CALL(twin.fast, x);
        if (!eager || !fast || !same_bits(eager, fast)) return sn_fail(SN_ERR_VALUE, "compiled and eager differ");
    }
    const bool ran = stats_of(twin.fast).ops_generated > 0 && stats_of(twin.fast).breaks >= 2;
    twin_free(twin);
    return ran ? sn_check() : sn_fail(SN_ERR_STATE, "nothing was compiled around the collectives");
}

START_TEST(t10_collectives_are_ordered_in_compiled_functions) {
    open_compiler();
    run(RANKS, reduces_in_order, NULL);
}
END_TEST

/* Rank 1 fails in its third call, in between the others' collectives. */
static sn_status fails_in_the_third(sn_frame *f) {
    Inside *const in = sn_closure(f);
    sn_tensor *const h = sn_exp(sn_in(f, 0));
    if (in->calls++ == 2 && sn_comm_rank(in->comm) == 1) return sn_fail(SN_ERR_IO, "the disk is full");
    return sn_out(f, 0, sn_sin(sn_all_reduce(in->comm, h, SN_REDUCE_SUM)));
}
static sn_status fails_compiled(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    Inside in = {.comm = comm};
    sn_function *const fn = sn_compile(fails_in_the_third, &in, NULL);
    for (int i = 0; i < 5 && SN_CALL(fn, share(sn_comm_rank(comm)));) k->n[sn_comm_rank(comm)] = ++i;
    const sn_error error = *sn_error_take();
    snprintf((char *)k->order[sn_comm_rank(comm)], sizeof *k->order, "%.60s", error.message);
    sn_function_free(fn);
    return error.status == SN_OK ? SN_OK : sn_fail(error.status, error.message);
}

START_TEST(t10_a_rank_that_fails_in_a_compiled_function_gives_the_others_an_error) {
    Kept k = {0};
    open_compiler();
    ck_assert_int_eq(sn_ranks_run(RANKS, fails_compiled, &k, NULL), SN_ERR_IO);
    expect_error(SN_ERR_IO, "rank 1: the disk is full");
    for (int r = 0; r < RANKS; r++) {
        ck_assert_int_eq(k.n[r], 2);
        if (r != 1) ck_assert_msg(strstr((char *)k.order[r], "rank 1 has failed"), "%s", (char *)k.order[r]);
    }
}
END_TEST

/* Averaging ---------------------------------------------------------------------------------------------------- */

typedef struct Net {
    sn_tensor *at[4]; /* weight, bias, weight, bias */
} Net;
/* Small, so that gradients are no larger than 1. */
static sn_tensor *small(sn_tensor *t) { return sn_requires_grad_(sn_mul_scalar(t, sn_float(0.125)), true); }
static Net net_new(void) {
    return (Net){{small(F32(1, 6, WIDTH)), small(F32(2, 6)), small(F32(3, 3, 6)), small(F32(4, 3))}};
}
static sn_tensor *net_loss(const Net *net, sn_tensor *x) {
    sn_tensor *const h = sn_gelu(sn_linear(x, net->at[0], net->at[1]));
    sn_tensor *const y = sn_linear(h, net->at[2], net->at[3]);
    return sn_mean(sn_mul(y, y));
}
static sn_tensor *batch(int rank) { return F32(20 + (uint64_t)rank, ROWS, WIDTH); }
static sn_tensor *whole_batch(int ranks) {
    return sn_cat((sn_tensors){(sn_tensor *[]){batch(0), batch(1), batch(2)}, ranks}, 0);
}

static Kept *told_of;
static _Thread_local int told_rank;
static void told(void *context, int bucket) {
    (void)context;
    told_of->order[told_rank][told_of->n[told_rank]++] = bucket;
}

static sn_status averages(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    const Net net = net_new();
    told_rank = sn_comm_rank(comm);
    sn_data_parallel *const dp = sn_data_parallel_new(comm, (sn_tensors){net.at, 4},
                                                      SN_DATA_PARALLEL_OPTIONS(.bucket_bytes = 100, .reduced = told));
    if (!dp) return sn_check();
    for (int i = 0; i < 4; i++) k->order[told_rank][8 + i] = sn_data_parallel_bucket(dp, i);
    sn_backward(net_loss(&net, batch(told_rank)));
    for (int i = 0; i < 4; i++) keep(k, comm, i, sn_clone(sn_grad(net.at[i])));
    sn_data_parallel_sync(dp, false); /* two more steps, reduced with the second */
    for (int i = 0; i < 4; i++) sn_grad_set(net.at[i], NULL);
    sn_backward(net_loss(&net, batch(told_rank)));
    sn_data_parallel_sync(dp, true);
    sn_backward(net_loss(&net, batch(told_rank)));
    for (int i = 0; i < 4; i++) keep(k, comm, 4 + i, sn_grad(net.at[i]));
    sn_data_parallel_free(dp);
    return sn_check();
}

START_TEST(a3_18_ranks_average_gradients_in_bucket_order) {
    for (int ranks = 2; ranks <= RANKS; ranks++) {
        Kept k = {0};
        told_of = &k;
        run(ranks, averages, &k);
        const Net one = net_new(), whole = net_new();
        for (int r = 0; r < ranks; r++) sn_backward(net_loss(&one, batch(r)));
        sn_backward(net_loss(&whole, whole_batch(ranks)));
        for (int r = 0; r < ranks; r++) {
            static const int buckets[] = {2, 1, 0, 0}; /* 120, 24, 72 and 12 bytes: from the last one on */
            for (int i = 0; i < 4; i++) ck_assert_int_eq(k.order[r][8 + i], buckets[i]);
            for (int i = 0; i < k.n[r]; i++) ck_assert_int_eq(k.order[r][i], i % 3);
            ck_assert_int_eq(k.n[r], 6);
            for (int i = 0; i < 4; i++) {
                sn_tensor *const mean = sn_div_scalar(sn_grad(one.at[i]), sn_float(ranks));
                ck_assert_msg(same_bits(k.at[r][i], mean), "rank %d, parameter %d", r, i);
                ck_assert(sn_allclose(k.at[r][i], sn_grad(whole.at[i]), 0, 1e-6));
                ck_assert(sn_allclose(k.at[r][4 + i], sn_mul_scalar(mean, sn_float(2)), 1e-6, 1e-6));
            }
        }
        kept_free(&k);
    }
}
END_TEST

/* Rank 1 uses one parameter less. */
static sn_status uses_less(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    const Net net = net_new();
    sn_data_parallel *const dp =
        sn_data_parallel_new(comm, (sn_tensors){net.at, 2}, SN_DATA_PARALLEL_OPTIONS(.bucket_bytes = 4));
    for (int step = 0; step < 2; step++) {
        sn_tensor *y = sn_sum(sn_sin(net.at[0]));
        if (sn_comm_rank(comm) == 0) y = sn_add(y, sn_sum(net.at[1]));
        sn_backward(y);
        sn_data_parallel_finish(dp);
    }
    for (int i = 0; i < 2; i++) keep(k, comm, i, sn_grad(net.at[i]));
    sn_data_parallel_free(dp);
    return sn_check();
}

START_TEST(a3_18_a_parameter_that_a_rank_does_not_use_counts_as_zeros) {
    Kept k = {0};
    run(2, uses_less, &k);
    for (int r = 0; r < 2; r++) { /* 1 / 2, and (1 / 2 + 1 + 1 / 2) / 2 */
        ck_assert(same_bits(k.at[r][1], sn_full(SN_INTS(6), sn_float(1), SN_F32)));
        ck_assert(same_bits(k.at[r][0], k.at[0][0]));
    }
    kept_free(&k);
}
END_TEST

/* Steps that need no call, and one that does: rank 1 uses one parameter less. */
static sn_status finishes_late(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    const Net net = net_new();
    const int rank = sn_comm_rank(comm);
    sn_data_parallel *const dp =
        sn_data_parallel_new(comm, (sn_tensors){net.at, 2}, SN_DATA_PARALLEL_OPTIONS(.bucket_bytes = 4));
    for (int step = 0; step < 4; step++) {
        sn_tensor *y = sn_sum(sn_mul_scalar(net.at[0], sn_float(1 + rank)));
        if (step < 3 || rank == 0) y = sn_add(y, sn_sum(net.at[1]));
        for (int i = 0; i < 2; i++) sn_grad_set(net.at[i], NULL);
        sn_backward(y);
        if (step == 3) sn_data_parallel_finish(dp);
    }
    for (int i = 0; i < 2; i++) keep(k, comm, i, sn_grad(net.at[i]));
    sn_data_parallel_free(dp);
    return sn_check();
}

START_TEST(a3_18_a_step_is_finished_after_steps_that_were_not) {
    Kept k = {0};
    run(2, finishes_late, &k);
    for (int r = 0; r < 2; r++) {
        ck_assert(same_bits(k.at[r][0], sn_full(SN_INTS(6, WIDTH), sn_float(1.5), SN_F32)));
        ck_assert(same_bits(k.at[r][1], sn_full(SN_INTS(6), sn_float(0.5), SN_F32)));
    }
    kept_free(&k);
}
END_TEST

static sn_status fails_once(sn_frame *f) {
    int *const left = sn_closure(f);
    return (*left)-- > 0 ? sn_fail(SN_ERR_VALUE, "not this time") : SN_OK;
}

/* The last parameter's bucket is reduced, then the hook of the one before it fails; `finish`: the next backward reaches
 * nothing of it, and the call does all. */
static sn_status fails_between(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    const Net net = net_new();
    int left = 1;
    sn_post_accumulate_hook_add(net.at[2], fails_once, &left);
    sn_data_parallel *const dp = sn_data_parallel_new(comm, (sn_tensors){net.at + 1, 3},
                                                      SN_DATA_PARALLEL_OPTIONS(.bucket_bytes = 4, .reduced = told));
    told_rank = sn_comm_rank(comm);
    for (int step = 0; step < 2; step++) {
        sn_tensor *y = sn_sum(net.at[0]);
        for (int i = 1; i < 4; i++) sn_grad_set(net.at[i], NULL);
        for (int i = 1; i < 4 && !(step && k->fails); i++)
            y = sn_add(y, sn_sum(sn_mul_scalar(net.at[i], sn_float(1 + told_rank))));
        if (sn_backward(y) != SN_OK && (step || !strstr(sn_error_take()->message, "not this time"))) return sn_check();
    }
    if (k->fails) sn_data_parallel_finish(dp);
    for (int i = 1; i < 4; i++) keep(k, comm, i, sn_grad(net.at[i]));
    sn_data_parallel_free(dp);
    return sn_check();
}

START_TEST(a3_18_buckets_begin_anew_after_a_backward_that_failed) {
    static const int order[] = {0, 0, 1, 2};
    for (int finish = 0; finish < 2; finish++) {
        Kept k = {.fails = finish};
        told_of = &k;
        run(2, fails_between, &k);
        for (int r = 0; r < 2; r++) {
            ck_assert_int_eq(k.n[r], 4);
            for (int i = 0; i < 4; i++) ck_assert_int_eq(k.order[r][i], order[i]);
            for (int i = 1; i < 4; i++)
                ck_assert(same_bits(k.at[r][i], sn_full_like(k.at[0][i], sn_float(finish ? 0 : 1.5))));
        }
        kept_free(&k);
    }
}
END_TEST

/* Parts of parameters ------------------------------------------------------------------------------------------- */

static void moved(void *context, sn_shard_move move) {
    Kept *const k = context;
    k->order[told_rank][k->n[told_rank]++] = move;
}
static sn_status sharded_body(sn_frame *f) {
    const Net net = {{sn_in(f, 1), sn_in(f, 2), sn_in(f, 3), sn_in(f, 4)}};
    return sn_out(f, 0, net_loss(&net, sn_in(f, 0)));
}

static sn_status shards(sn_comm *comm, void *closure) {
    Kept *const k = closure;
    const Net net = net_new();
    told_rank = sn_comm_rank(comm);
    sn_sharded *const s =
        sn_sharded_new(comm, (sn_tensors){net.at, 4}, SN_SHARDED_OPTIONS(.moved = moved, .context = k));
    if (!s) return sn_check();
    sn_tensor *y;
    if (sn_sharded_call(s, sharded_body, NULL, SN_TENSORS(batch(told_rank)), &y, 1) != SN_OK) return sn_check();
    keep(k, comm, 4, y);
    sn_backward(y);
    for (int i = 0; i < 4; i++) {
        keep(k, comm, i, sn_grad(sn_sharded_at(s, i)));
        if (!same_bits(sn_sharded_whole(s, i), net.at[i])) return sn_fail(SN_ERR_VALUE, "not what was given");
    }
    if (sn_sharded_call(s, sharded_body, NULL, SN_TENSORS(batch(told_rank)), &y, 1) != SN_OK) return sn_check();
    sn_grad_mode_set(SN_GRAD_OFF);
    sn_mul_scalar_(sn_sharded_at(s, 0), sn_float(2)); /* between forward and backward */
    sn_grad_mode_set(SN_GRAD_ON);
    sn_backward(y);
    if (!strstr(sn_error_take()->message, "version")) return sn_fail(SN_ERR_STATE, "a write was not noticed");
    sn_sharded_free(s);
    return sn_check();
}

START_TEST(a3_18_a_block_has_its_parameters_around_forward_and_backward) {
    for (int ranks = 2; ranks <= RANKS; ranks++) {
        Kept k = {0};
        run(ranks, shards, &k);
        const Net one = net_new();
        for (int r = 0; r < ranks; r++) {
            sn_tensor *const loss = net_loss(&one, batch(r));
            ck_assert(same_bits(k.at[r][4], loss));
            sn_backward(loss);
        }
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i < 4; i++) ck_assert_int_eq(k.order[r][i], i); /* each move once, in order */
            for (int i = 0; i < 4; i++) {
                sn_tensor *const mean = sn_div_scalar(sn_grad(one.at[i]), sn_float(ranks));
                const int64_t n = sn_numel(mean), part = (n + ranks - 1) / ranks, first = part * r;
                ck_assert_int_eq(sn_numel(k.at[r][i]), part);
                const int64_t own = first + part <= n ? part : n - first;
                if (own <= 0) continue;
                sn_tensor *const flat = sn_reshape(mean, SN_INTS(n));
                ck_assert(same_bits(sn_contiguous(sn_narrow(k.at[r][i], 0, 0, own)),
                                    sn_contiguous(sn_narrow(flat, 0, first, own))));
            }
        }
        kept_free(&k);
    }
}
END_TEST

static sn_status projects(sn_frame *f) {
    sn_tensor *const h = sn_tanh(sn_linear(sn_in(f, 0), sn_in(f, 1), NULL));
    return sn_out(f, 0, sn_sum(sn_to(sn_mul(h, h), SN_F32)));
}

static int64_t bytes_now(void) {
    sn_memory memory = {.size = sizeof memory};
    sn_memory_get(SN_CPU, &memory);
    return memory.current;
}

static sn_status casts(sn_comm *comm, void *closure) {
    enum { SIDE = 256 };
    sn_tensor *const w = sn_requires_grad_(sn_mul_scalar(F32(1, SIDE, SIDE), sn_float(0.1)), true), *y = NULL;
    sn_tensor *const x = sn_requires_grad_(F32(2, 3, SIDE), true);
    sn_autocast_set(SN_CPU, SN_BF16);
    sn_tensor *const plain = sn_tanh(sn_linear(x, w, NULL)), *const want = sn_sum(sn_to(sn_mul(plain, plain), SN_F32));
    sn_backward(want);
    Kept k = {0};
    told_rank = sn_comm_rank(comm);
    sn_sharded *const s = sn_sharded_new(comm, SN_TENSORS(w), SN_SHARDED_OPTIONS(.moved = moved, .context = &k));
    const int64_t before = bytes_now();
    ck_assert_int_eq(sn_sharded_call(s, projects, NULL, SN_TENSORS(x), &y, 1), SN_OK);
    const int64_t kept = bytes_now() - before;
    sn_autocast_set(SN_CPU, SN_F32);
    ck_assert_msg(kept < SIDE * SIDE * 2, "%lld bytes", (long long)kept); /* no copy of w in either dtype */
    ck_assert(same_bits(y, want));
    sn_backward(y);
    for (int i = 0; i < 4; i++) ck_assert_int_eq(k.order[told_rank][i], i);
    ck_assert(same_bits(sn_reshape(sn_grad(sn_sharded_at(s, 0)), SN_INTS(SIDE, SIDE)), sn_grad(w)));
    sn_sharded_free(s);
    (void)closure;
    return sn_check();
}

/* What is saved of the whole parameter in a region of autocast is a cast of it. */
START_TEST(a3_18_a_block_in_a_region_of_autocast_keeps_no_cast) { run(1, casts, NULL); }
END_TEST

static sn_status writing_body(sn_frame *f) {
    sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 1)));
    const sn_scope scope = sn_no_grad_begin();
    sn_mul_scalar_(sn_in(f, 1), sn_float(2));
    return sn_scope_end(scope);
}

static sn_status writes_whole(sn_comm *comm, void *closure) {
    sn_tensor *const w = F32(1, 5), *y = NULL;
    sn_sharded *const s = sn_sharded_new(comm, SN_TENSORS(w), NULL);
    ck_assert_int_eq(sn_sharded_call(s, writing_body, NULL, SN_TENSORS(F32(2, 5)), &y, 1), SN_ERR_STATE);
    ck_assert(!y && strstr(sn_error_take()->message, "sn_sharded_call: the body writes parameter 0"));
    ck_assert(same_bits(sn_sharded_whole(s, 0), F32(1, 5)));
    sn_sharded_free(s);
    (void)closure;
    return sn_check();
}

START_TEST(a3_18_a_body_writes_no_sharded_parameter) { run(2, writes_whole, NULL); }
END_TEST

static sn_status means_with_graph(sn_comm *comm, void *closure) {
    sn_tensor *const w = sn_requires_grad_(F32(1, 3), true), *const x = F32(10 + (uint64_t)sn_comm_rank(comm), 3);
    sn_data_parallel *const dp = sn_data_parallel_new(comm, SN_TENSORS(w), NULL);
    sn_backward_ex(SN_TENSORS(sn_sum(sn_mul(sn_mul(w, w), x))), (sn_tensors){0}, SN_CREATE_GRAPH);
    ck_assert(!sn_requires_grad(sn_grad(w)));
    keep(closure, comm, 0, sn_grad(w));
    sn_data_parallel_free(dp);
    return sn_check();
}

START_TEST(a3_18_means_have_no_history) {
    Kept k = {0};
    run(2, means_with_graph, &k);
    ck_assert(same_bits(k.at[0][0], k.at[1][0]));
    kept_free(&k);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a3_18_a_hook_runs_when_the_gradient_is_there,
        a3_18_a_hook_may_change_the_gradient_and_goes,
        a3_18_hooks_run_for_compiled_functions,
        a3_18_collectives_add_in_rank_order,
        a3_18_gradients_go_through_collectives,
        a3_18_gradients_of_gradients_go_through_collectives,
        a3_18_a_collective_breaks_a_compiled_function,
        a3_18_a_rank_that_fails_gives_the_others_an_error,
        a3_18_a_rank_that_does_not_come_is_not_waited_for,
        a3_18_errors_of_ranks_begin_with_the_rank,
        a3_18_what_cannot_be_reduced_is_an_error,
        a3_18_no_collective_of_slices,
        a3_18_a_rank_is_of_one_thread,
        a3_18_bad_calls_are_errors,
        t10_an_all_reduce_has_the_bits_of_shares_added_in_rank_order,
        t10_collectives_are_ordered_in_compiled_functions,
        t10_a_rank_that_fails_in_a_compiled_function_gives_the_others_an_error,
        a3_18_ranks_average_gradients_in_bucket_order,
        a3_18_a_parameter_that_a_rank_does_not_use_counts_as_zeros,
        a3_18_a_step_is_finished_after_steps_that_were_not,
        a3_18_buckets_begin_anew_after_a_backward_that_failed,
        a3_18_a_block_has_its_parameters_around_forward_and_backward,
        a3_18_a_body_writes_no_sharded_parameter,
        a3_18_a_block_in_a_region_of_autocast_keeps_no_cast,
        a3_18_means_have_no_history,
    };
    return contract_main("test_parallel", tests, (int)(sizeof tests / sizeof *tests));
}
