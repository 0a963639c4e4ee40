/* test_eager_programs.c: eager's programs do not grow with the numbers that ops are called with, nor beyond a bound of
 * bytes. Programs are counted, never timed; what they give is what a compiled function gives. */
#include "runtime/base/alloc.h"
#include "ir/op_ids.h"
#include "runtime/base/bail.h"
#include "runtime/core/state.h"
#include "runtime/eager/eager.h"
#include "tests/unit/contract.h"

typedef struct World {
    sn_tensor *x, *y, *mask, *ints, *half, *wide, *out;
    sn_tensor *row, *half_row, *square, *at, *at_rows;
    double number;
    int64_t whole;
} World;

static sn_tensor *number_tensor(const World *w) { return sn_mul_scalar(w->x, sn_float(w->number)); }
static sn_tensor *whole_number(const World *w) { return sn_mul_scalar(w->x, sn_int(w->whole)); }
static sn_tensor *added(const World *w) { return sn_add_scalar(w->x, sn_float(w->number)); }
static sn_tensor *added_alpha(const World *w) { return sn_add_ex(w->x, w->y, sn_float(w->number)); }
static sn_tensor *powered(const World *w) { return sn_pow_scalar(w->y, sn_float(w->number)); }
static sn_tensor *filled(const World *w) { return sn_masked_fill(w->x, w->mask, sn_float(w->number)); }
static sn_tensor *ints_filled(const World *w) { return sn_masked_fill(w->ints, w->mask, sn_int(w->whole)); }
static sn_tensor *clamped(const World *w) { return sn_clamp(w->x, sn_float(-w->number), sn_float(w->number)); }
static sn_tensor *clamped_ints(const World *w) { return sn_clamp(w->ints, sn_int(-w->whole), sn_int(w->whole)); }
static sn_tensor *full_of(const World *w) { return sn_full(SN_INTS(3, 5), sn_float(w->number), SN_F32); }
static sn_tensor *ints_times(const World *w) { return sn_mul_scalar(w->ints, sn_int(w->whole)); }
static sn_tensor *ints_times_float(const World *w) { return sn_mul_scalar(w->ints, sn_float(w->number)); }
static sn_tensor *half_times(const World *w) { return sn_mul_scalar(w->half, sn_float(w->number)); }
static sn_tensor *compared(const World *w) { return sn_gt_scalar(w->x, sn_float(w->number)); }
static sn_tensor *divided(const World *w) { return sn_div_scalar(w->x, sn_float(w->number)); }
static sn_tensor *in_place(const World *w) { return sn_mul_scalar_(sn_clone(w->x), sn_float(w->number)); }
static sn_tensor *into(const World *w) { return sn_mul_scalar_out(w->out, w->x, sn_float(w->number)); }
/* Numbers of rules that compute with them in ops of their own. */
static double share(const World *w) { return w->number > 0 ? w->number / (1 + w->number) : w->number; }
static sn_tensor *rows_normed(const World *w) {
    return sn_layer_norm_ex(w->x, SN_INTS(5), NULL, NULL, w->number, false);
}
static sn_tensor *half_normed(const World *w) {
    return sn_layer_norm_ex(w->half, SN_INTS(5), w->half_row, NULL, w->number, false);
}
static sn_tensor *groups_normed(const World *w) { return sn_group_norm_ex(w->x, 1, w->row, w->row, w->number, false); }
static sn_tensor *batch_normed(const World *w) {
    return sn_batch_norm(w->x, NULL, w->row, w->row, w->row, false, 0.1, w->number);
}
static sn_tensor *by_the_batch(const World *w) {
    return sn_batch_norm(w->x, w->row, NULL, sn_clone(w->row), sn_clone(w->row), true, w->number, w->number);
}
static sn_tensor *statistics_moved(const World *w) {
    sn_tensor *const mean = sn_clone(w->row);
    return sn_batch_norm(w->x, NULL, NULL, mean, sn_clone(w->row), true, w->number, 1e-5) ? mean : NULL;
}
static sn_tensor *batch_norm_back(const World *w) {
    static const int64_t all[] = {1, 1, 1};
    const Arg args[] = {A_VAL(&w->x->base),
                        A_VAL(&w->y->base),
                        A_VAL(&w->row->base),
                        A_VAL(&w->row->base),
                        A_VAL(&w->row->base),
                        A_NONE,
                        A_NONE,
                        A_BOOL(false),
                        A_FLOAT(w->number),
                        A_INTS(all, 3)};
    sn_tensor *outs[MAX_OUTS];
    return dispatch(op_row(OP_native_batch_norm_backward), FORM_functional, args, NULL, outs) == ST_OK ? outs[0] : NULL;
}
static sn_tensor *dropped(const World *w) { return sn_seed(3), sn_dropout(w->x, share(w), true); }
static sn_tensor *half_dropped(const World *w) { return sn_seed(3), sn_dropout(w->half, share(w), true); }
static sn_tensor *wide_dropped(const World *w) { return sn_seed(3), sn_dropout(w->wide, share(w), true); }
static sn_tensor *ints_chosen(const World *w) { return sn_seed(3), sn_bernoulli_p(w->ints, share(w)); }
static sn_tensor *chosen(const World *w) { return sn_seed(3), sn_bernoulli_p(w->x, share(w)); }
static sn_tensor *wide_chosen(const World *w) { return sn_seed(3), sn_bernoulli_p(w->wide, share(w)); }
static sn_tensor *scattered(const World *w) {
    const Arg args[] = {A_VAL(&w->x->base), A_INT(0), A_VAL(&w->at->base), A_FLOAT(w->number), A_STR("multiply")};
    sn_tensor *out;
    return dispatch(op_row(OP_scatter_value_reduce), FORM_functional, args, NULL, &out) == ST_OK ? out : NULL;
}
static sn_tensor *ints_scattered(const World *w) {
    const Arg args[] = {A_VAL(&w->ints->base), A_INT(0), A_VAL(&w->at->base), A_FLOAT(w->number), A_STR("add")};
    sn_tensor *out;
    return dispatch(op_row(OP_scatter_value_reduce), FORM_functional, args, NULL, &out) == ST_OK ? out : NULL;
}
static sn_tensor *int_rows_added(const World *w) {
    return sn_index_add_ex(w->ints, 0, w->at_rows, sn_clone(w->ints), sn_int(w->whole));
}
static sn_tensor *rows_added(const World *w) { return sn_index_add_ex(w->x, 0, w->at_rows, w->y, sn_float(w->number)); }
static sn_tensor *product_added(const World *w) {
    return sn_addmm_ex(w->row, w->x, w->square, sn_float(w->number), sn_float(w->number));
}
static sn_tensor *products_added(const World *w) {
    return sn_baddbmm_ex(w->ints, sn_unsqueeze(w->ints, 0), sn_unsqueeze(sn_to(w->square, SN_I32), 0), sn_int(w->whole),
                         sn_int(w->whole));
}
static sn_tensor *range(const World *w) { return sn_arange(sn_int(w->whole), SN_DTYPE_DEFAULT); }

typedef sn_tensor *Call(const World *w);
static Call *const calls[] = {
    number_tensor,   whole_number, added,         added_alpha,    powered,      filled,
    ints_filled,     clamped,      clamped_ints,  full_of,        ints_times,   ints_times_float,
    half_times,      compared,     divided,       in_place,       into,         range,
    rows_normed,     half_normed,  groups_normed, batch_normed,   by_the_batch, statistics_moved,
    batch_norm_back, dropped,      half_dropped,  wide_dropped,   chosen,       wide_chosen,
    scattered,       rows_added,   product_added, products_added, ints_chosen,  ints_scattered,
    int_rows_added};

static World world_new(void) {
    World w = {.x = F32(1, 3, 5), .half = sn_to(F32(2, 3, 5), SN_F16), .out = sn_zeros(SN_INTS(3, 5), SN_F32)};
    w.y = sn_abs(w.x);
    w.wide = sn_to(w.x, SN_F64);
    w.row = sn_abs(F32(3, 5));
    w.half_row = sn_to(w.row, SN_F16);
    w.square = F32(4, 5, 5);
    w.at = sn_zeros(SN_INTS(3, 5), SN_I64);
    w.at_rows = sn_zeros(SN_INTS(3), SN_I64);
    w.mask = sn_gt_scalar(w.x, sn_float(0));
    w.ints = sn_to(sn_mul_scalar(w.x, sn_float(50)), SN_I32);
    return w;
}

static int64_t built(void) { return eager_counts(state_get()).built; }

START_TEST(numbers_share_a_program) {
    World w = world_new();
    Call *const call = calls[_i];
    int64_t before = 0;
    for (int i = 0; i < 1000; i++) {
        const sn_scope scope = sn_scope_begin();
        w.number = 0.37 + 1.013 * i;
        w.whole = 4 + i;
        if (!call(&w)) ck_abort_msg("%s", sn_error_take()->message);
        if (i == 0) before = built();
        sn_scope_end(scope);
    }
    ck_assert_int_eq(built() - before, 0);
}
END_TEST

/* Each in a function of its own, which is compiled for this number. */
typedef struct Closed {
    World *world;
    Call *call;
} Closed;
static sn_status body(sn_frame *f) {
    const Closed *const closed = sn_closure(f);
    return sn_out(f, 0, closed->call(closed->world));
}

START_TEST(a_number_gives_the_bits_of_a_constant) {
    static const double numbers[] = {0.1, -0.0, 2, 1.5, 1e-40, 3e38, -7.25, 1, 1e300, INFINITY, 0.30000001192092896};
    World w = world_new();
    Closed closed = {&w, calls[_i]};
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++) {
        w.number = numbers[i];
        w.whole = 2 + 3 * i;
        sn_tensor *const want = sn_clone(closed.call(&w));
        if (!want && sn_error_take()) continue; /* refused for what it is */
        sn_function *const fn = sn_compile(body, &closed, NULL);
        for (int k = 0; k < 2; k++) ck_assert_msg(same_bits(SN_CALL(fn), want), "case %d, number %g", _i, w.number);
        sn_function_free(fn);
    }
}
END_TEST

/* Sizes ----------------------------------------------------------------------------------------- */

static sn_tensor *sum_of_two(const World *w) { return sn_add(w->x, w->y); }
static sn_tensor *root(const World *w) { return sn_sqrt(w->y); }
static sn_tensor *positive(const World *w) { return sn_relu(w->x); }
static sn_tensor *product_into(const World *w) { return sn_mul_out(w->out, w->x, w->y); }
static sn_tensor *sum_in_place(const World *w) { return sn_add_(product_into(w), w->y); }
static sn_tensor *square(const World *w) { return sn_mul(w->x, w->x); }

static sn_tensor *in_all(const World *w) { return sn_sum(w->x); }
static sn_tensor *in_rows(const World *w) { return sn_sum_dim(w->x, SN_INTS(-1), false); }
static sn_tensor *in_columns(const World *w) { return sn_mean_dim(w->x, SN_INTS(0), true); }
static sn_tensor *soft(const World *w) { return sn_softmax(w->x, -1); }
static sn_tensor *normed(const World *w) { return sn_layer_norm(w->x, SN_INTS(sn_size(w->x, 1)), NULL, NULL); }
static sn_tensor *joined(const World *w) { return sn_cat(SN_TENSORS(w->x, w->y, w->x), 1); }
static sn_tensor *product(const World *w) { return sn_mm(w->x, sn_t(w->y)); }
static sn_tensor *smooth(const World *w) { return sn_gelu(w->x); }
static sn_tensor *lower(const World *w) { return sn_tril(w->x, 0); }
static sn_tensor *largest(const World *w) { return sn_argmax(w->x, 1, false); }
static sn_tensor *running(const World *w) { return sn_cumsum(w->x, 0, SN_F32); }
static sn_tensor *halved(const World *w) { return sn_to(w->x, SN_F16); }
static sn_tensor *across(const World *w) { return sn_add(sn_t(w->x), sn_t(w->y)); }
static sn_tensor *laid_out(const World *w) { return sn_contiguous(sn_t(w->x)); }
static sn_tensor *with_row(const World *w) { return sn_mul(w->x, sn_select(w->y, 0, 0)); }
static sn_tensor *as_line(const World *w) { return sn_neg(sn_view(w->x, SN_INTS(sn_numel(w->x)))); }
static sn_tensor *tail(const World *w) { return sn_narrow(w->x, 0, 1, sn_size(w->x, 0) - 1); }
static sn_tensor *repeated(const World *w) { return sn_expand(w->x, SN_INTS(3, -1, -1)); }
static sn_tensor *filled_with(const World *w) { return sn_full(SN_INTS(sn_size(w->x, 0), 7), sn_float(0.5), SN_F32); }
static sn_tensor *drawn(const World *w) { return sn_seed(3), sn_randn(SN_INTS(sn_size(w->x, 0), 3), SN_F32); }
/* Numbers that count pads, groups and pixels beside the sizes. */
static sn_tensor *padded(const World *w) { return sn_constant_pad_nd(w->x, SN_INTS(1, 2), sn_float(0.5)); }
static sn_tensor *cut(const World *w) { return sn_constant_pad_nd(w->x, SN_INTS(-1, 2), sn_float(0)); }
static sn_tensor *padded_by_a_size(const World *w) {
    return sn_constant_pad_nd(w->x, SN_INTS(0, sn_size(w->x, 0)), sn_float(0));
}
static sn_tensor *enlarged(const World *w) {
    return sn_upsample_nearest1d(sn_unsqueeze(sn_contiguous(sn_narrow(w->x, 1, 0, 3)), 0), SN_INTS(5));
}
static sn_tensor *on_diagonal(const World *w) { return sn_diagonal_scatter(w->x, sn_diagonal(w->y, 0, 0, 1), 0, 0, 1); }
static sn_tensor *gradient(const World *w, bool of_norm) {
    sn_tensor *const leaf = sn_requires_grad_(sn_detach(w->x), true);
    sn_backward(sn_sum(of_norm ? sn_group_norm(sn_cat(SN_TENSORS(leaf, leaf), 1), 2, NULL, NULL)
                               : sn_reflection_pad1d(leaf, SN_INTS(2, 1))));
    return sn_grad(leaf);
}
static sn_tensor *mirrored_back(const World *w) { return gradient(w, false); }
static sn_tensor *group_norm_back(const World *w) { return gradient(w, true); }

/* Their programs take the sizes as parameters, whatever they do with them. */
static Call *const any_size[] = {in_all,   in_rows,     in_columns,    soft,           normed, joined, product,
                                 smooth,   lower,       largest,       running,        halved, across, laid_out,
                                 with_row, as_line,     filled_with,   drawn,          padded, cut,    padded_by_a_size,
                                 enlarged, on_diagonal, mirrored_back, group_norm_back};

static sn_tensor *turned(const World *w) { return sn_transpose(w->x, 0, 1); }
static sn_tensor *in_line(const World *w) { return sn_view(w->x, SN_INTS(sn_numel(w->x))); }
static sn_tensor *last_row(const World *w) { return sn_select(w->x, 0, -1); }
static sn_tensor *with_a_dim(const World *w) { return sn_unsqueeze(w->x, 1); }
static sn_tensor *placed(const World *w) { return sn_as_strided(w->x, SN_INTS(2, 2), SN_INTS(1, 2), 1); }
static sn_tensor *unset(const World *w) { return sn_empty(SN_INTS(sn_size(w->x, 0), 7), SN_F32); }
static sn_tensor *unset_alike(const World *w) { return sn_empty_like(w->x); }

/* Their results are layouts, which need no program. */
static Call *const layouts[] = {tail, repeated, turned, in_line, last_row, with_a_dim, placed, unset, unset_alike};

static Call *const sized[] = {sum_of_two,    root,    positive,     product_into, sum_in_place, square,
                              number_tensor, powered, whole_number, ints_times,   divided};

/* A world of other sizes; the inputs are views of another's memory, which makes no program. */
static World world_of(const World *w, int64_t rows, int64_t columns) {
    const int64_t n = rows * columns;
    const sn_ints sizes = SN_INTS(rows, columns);
    return (World){.x = sn_view(sn_narrow(w->x, 0, 0, n), sizes),
                   .y = sn_view(sn_narrow(w->y, 0, 0, n), sizes),
                   .ints = sn_view(sn_narrow(w->ints, 0, 0, n), sizes),
                   .out = sn_view(sn_narrow(w->out, 0, 0, n), sizes)};
}

static World world_flat(int64_t n) {
    World w = {.x = F32(1, 4096), .out = sn_zeros(SN_INTS(n), SN_F32)};
    w.y = sn_abs(w.x);
    w.ints = sn_to(sn_mul_scalar(w.x, sn_float(50)), SN_I32);
    return w;
}

START_TEST(sizes_share_a_program) {
    const World all = world_flat(4096);
    int64_t before = 0;
    for (int i = 0; i < 1000; i++) {
        const sn_scope scope = sn_scope_begin();
        World w = world_of(&all, 2 + i, 1 + i % 4);
        w.number = 0.37 + 1.013 * i;
        w.whole = 4 + i;
        if (!sized[_i](&w)) ck_abort_msg("%s", sn_error_take()->message);
        if (i == 8) before = built(); /* one column, and more: two of each, then one for all */
        sn_scope_end(scope);
    }
    ck_assert_int_eq(built() - before, 0);
}
END_TEST

START_TEST(programs_take_sizes_as_parameters) {
    const World all = world_flat(4096);
    const int64_t first = eager_counts(state_get()).sized;
    EagerCounts before = {0};
    for (int i = 0; i < 300; i++) {
        const sn_scope scope = sn_scope_begin();
        const World w = world_of(&all, 11 + i, 4 + i % 5);
        if (!any_size[_i](&w)) ck_abort_msg("%s", sn_error_take()->message);
        if (i == 4) before = eager_counts(state_get());
        sn_scope_end(scope);
    }
    ck_assert_int_eq(built(), before.built);
    ck_assert_int_eq(eager_counts(state_get()).sized, before.sized);
    ck_assert_int_gt(before.sized, first);
}
END_TEST

/* The first call of a size asks the rule and keeps nothing; blocks of new layouts come many at a time. */
START_TEST(a_layout_of_a_new_size_makes_no_entry) {
    keep_no_handles();
    const World all = world_flat(4096);
    int64_t made = 0;
    for (int i = 0; i < 300; i++) {
        const sn_scope scope = sn_scope_begin();
        const World w = world_of(&all, 11 + i, 4 + i % 5);
        const EagerCounts before = eager_counts(state_get());
        const int64_t allocations = mem_count();
        if (!layouts[_i](&w)) ck_abort_msg("%s", sn_error_take()->message);
        if (i > 0) made += mem_count() - allocations;
        const EagerCounts after = eager_counts(state_get());
        if (i > 0) ck_assert_int_eq(after.entries, before.entries);
        ck_assert_int_eq(after.built, before.built);
        ck_assert_int_eq(after.sized, before.sized);
        sn_scope_end(scope);
    }
#ifndef SINTER_PLAIN_MALLOC /* which keeps no blocks of tensors */
    ck_assert_int_lt(made, 60);
#endif
}
END_TEST

/* By the rule, by the entry that the second call makes, and by that entry found. */
START_TEST(a_layout_is_the_same_at_each_call) {
    const World all = world_flat(4096);
    for (int i = 1; i < 40; i++) {
        const World w = world_of(&all, 3 + i, 1 + i % 5);
        sn_tensor *got[3];
        for (int call = 0; call < 3; call++) {
            const EagerCounts before = eager_counts(state_get());
            got[call] = layouts[_i](&w);
            ck_assert_ptr_nonnull(got[call]);
            const EagerCounts after = eager_counts(state_get());
            const bool makes = call == 1 && layouts[_i] != placed; /* which depends on where w.x begins */
            ck_assert_int_eq(after.entries - before.entries, makes);
            ck_assert_msg((after.bytes > before.bytes) == makes, "an entry's bytes are counted");
            ck_assert(got[call]->base.meta == got[0]->base.meta);
            ck_assert_int_eq(sn_storage_offset(got[call]), sn_storage_offset(got[0]));
        }
    }
}
END_TEST

/* The bits and the layout that a program of this size alone gives. */
START_TEST(any_size_gives_the_bits_of_one) {
    static const int64_t sides[] = {5, 7, 2, 3, 16, 1, 0, 33};
    enum { N = sizeof sides / sizeof *sides };
    const World all = world_flat(4096);
    sn_tensor *got[N * N] = {NULL};
    for (int pass = 0; pass < 2; pass++) {
        failpoint_set(pass ? "any_size" : "one_size");
        for (int i = 0; i < N * N; i++) {
            const World w = world_of(&all, sides[i / N], sides[i % N]);
            sn_tensor *const result = any_size[_i](&w);
            const bool refused = !result && sn_error_take();
            if (!pass)
                got[i] = result;
            else
                ck_assert_msg(refused ? !got[i] : same_bits(got[i], result), "case %d, %d", _i, i);
        }
    }
    failpoint_set(NULL);
}
END_TEST

/* Alone, with a program of its own: the whole and its parts have the same elements. The third call of a size runs an
 * entry of that size. */
START_TEST(a_size_gives_the_bits_of_the_whole) {
    World all = world_flat(4096);
    all.number = -1.75;
    all.whole = 7;
    sn_tensor *const want = sn_clone(sized[_i](&all));
    for (int i = 0; i < 60; i++) {
        const int64_t rows = 1 + i / 3 * 61, columns = 1 + i / 3 % 3;
        World w = world_of(&all, rows, columns);
        w.number = all.number;
        w.whole = all.whole;
        sn_tensor *const part = sn_view(sn_narrow(want, 0, 0, rows * columns), SN_INTS(rows, columns));
        ck_assert_msg(same_bits(sized[_i](&w), sn_clone(part)), "case %d, %d", _i, i);
    }
}
END_TEST

/* Shapes that differ, gaps and formats give layouts of their own. */
START_TEST(layouts_are_told_apart) {
    sn_tensor *const x = F32(1, 2, 1, 1, 1);
    sn_tensor *const one = sn_clone_ex(x, sn_int(2));
    ck_assert_ptr_nonnull(one);
    sn_tensor *const y = F32(2, 2, 3, 4, 5);
    ck_assert_int_eq(sn_strides(sn_clone_ex(y, sn_int(2))).data[1], 1); /* channels last */
    sn_tensor *const a = F32(3, 6, 5), *const b = F32(4, 1, 5), *const c = F32(5, 5, 6);
    ck_assert_ptr_nonnull(sn_add(a, a));
    sn_tensor *const wide = sn_contiguous(sn_expand(b, SN_INTS(6, 5)));
    ck_assert(same_bits(sn_add(a, b), sn_add(a, wide)));
    ck_assert(same_bits(sn_add(a, sn_t(c)), sn_add(a, sn_contiguous(sn_t(c)))));
    ck_assert_ptr_null(sn_add(a, c));
    ck_assert_ptr_nonnull(sn_error_take());
}
END_TEST

/* The rule is asked of each number. */
START_TEST(a_number_that_does_not_fit_is_refused_as_ever) {
    World w = world_new();
    sn_tensor *const bytes = sn_to(w.ints, SN_I8);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(sn_masked_fill(bytes, w.mask, sn_int(77 + i)));
        ck_assert_ptr_null(sn_masked_fill(bytes, w.mask, sn_int(777 + i)));
        ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "can't be converted to"));
        ck_assert_ptr_nonnull(sn_masked_fill(bytes, w.mask, sn_float(77.5 + i)));
        ck_assert_ptr_null(sn_masked_fill(bytes, w.mask, sn_float(777.5 + i)));
        ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "can't be converted to"));
        ck_assert_ptr_nonnull(sn_pow_scalar(w.ints, sn_int(5 + i)));
        ck_assert_ptr_null(sn_pow_scalar(w.ints, sn_int(-5 - i)));
        ck_assert_ptr_nonnull(strstr(sn_error_take()->message, "negative power"));
        ck_assert_ptr_nonnull(sn_dropout(w.x, 0.3 + 0.01 * i, true));
        ck_assert_ptr_null(sn_dropout(w.x, 1.3 + 0.01 * i, true));
        expect_error(SN_ERR_VALUE, "p must be between 0 and 1");
        ck_assert_ptr_nonnull(sn_bernoulli_p(w.x, 0.3 + 0.01 * i));
        ck_assert_ptr_null(sn_bernoulli_p(w.x, -0.3 - 0.01 * i));
        expect_error(SN_ERR_VALUE, "p must be from 0 to 1");
        ck_assert_ptr_null(sn_bernoulli_p(w.x, NAN));
        expect_error(SN_ERR_VALUE, "p must be from 0 to 1");
        ck_assert_ptr_nonnull(sn_arange(sn_int(5 + i), SN_DTYPE_DEFAULT));
        ck_assert_ptr_null(sn_arange(sn_int(-5 - i), SN_DTYPE_DEFAULT));
        ck_assert_int_ne(sn_error_take()->code, SN_OK);
    }
}
END_TEST

/* Each call is another program. */
START_TEST(programs_stay_within_their_bound) {
    size_t most = 0;
    failpoint_set("any_size");
    for (int i = 0; i < 6000; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = sn_zeros(SN_INTS(1 + i % 3000, 2), SN_F32);
        ck_assert_ptr_nonnull(sn_softmax(x, i % 2));
        sn_scope_end(scope);
        if (eager_counts(state_get()).bytes > most) most = eager_counts(state_get()).bytes;
    }
    failpoint_set(NULL);
    ck_assert_uint_le(most, EAGER_MOST_BYTES);
    ck_assert_uint_gt(most, EAGER_MOST_BYTES / 2);
}
END_TEST

/* More sizes in rotation than have room for entries of their own, whose last programs come late; then one that stays
 * gets its program all the same. */
START_TEST(entries_of_one_size_stay_within_their_bound) {
    enum { N_SIZES = 3001, TURNS = 17, LARGEST = 64 << 10 };
    sn_tensor *const x = F32(1, N_SIZES + 8);
    size_t most = 0;
    for (int i = 0; i < N_SIZES * TURNS + 20; i++) {
        const sn_scope scope = sn_scope_begin();
        const bool stays = i >= N_SIZES * TURNS;
        const int64_t before = built();
        sn_tensor *const part = sn_narrow(x, 0, 0, stays ? N_SIZES + 7 : 2 + i % N_SIZES);
        ck_assert_ptr_nonnull(sn_softmax(sn_neg(part), 0));
        if (stays) ck_assert_int_eq(built() - before, i == N_SIZES * TURNS + 16);
        const size_t bytes = eager_counts(state_get()).can_go;
        if (bytes > most) most = bytes;
        sn_scope_end(scope);
    }
    ck_assert_uint_gt(most, EAGER_MOST_CAN_GO);
    ck_assert_uint_lt(most, EAGER_MOST_CAN_GO + LARGEST);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("eager programs");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, numbers_share_a_program, 0, sizeof calls / sizeof *calls);
    tcase_add_loop_test(tests, a_number_gives_the_bits_of_a_constant, 0, sizeof calls / sizeof *calls);
    tcase_add_loop_test(tests, sizes_share_a_program, 0, sizeof sized / sizeof *sized);
    tcase_add_loop_test(tests, programs_take_sizes_as_parameters, 0, sizeof any_size / sizeof *any_size);
    tcase_add_loop_test(tests, a_layout_of_a_new_size_makes_no_entry, 0, sizeof layouts / sizeof *layouts);
    tcase_add_loop_test(tests, a_layout_is_the_same_at_each_call, 0, sizeof layouts / sizeof *layouts);
    tcase_add_loop_test(tests, any_size_gives_the_bits_of_one, 0, sizeof any_size / sizeof *any_size);
    tcase_add_loop_test(tests, a_size_gives_the_bits_of_the_whole, 0, sizeof sized / sizeof *sized);
    tcase_add_test(tests, layouts_are_told_apart);
    tcase_add_test(tests, a_number_that_does_not_fit_is_refused_as_ever);
    tcase_add_test(tests, programs_stay_within_their_bound);
    tcase_add_test(tests, entries_of_one_size_stay_within_their_bound);
    return suite_run("test_eager_programs", tests);
}
