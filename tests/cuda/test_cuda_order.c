/* test_cuda_order.c: writes at positions, scans, sorts and lists of positions on a CUDA device by kernels written by
 * hand: the CPU's bits where the samples of test_ops are too small to show it: sorted lines of positions, more than one
 * chunk or part of a line, merges, NaN and zeros of both signs, other layouts; what failed checks leave alone. */
#include <stdio.h>

#include "ir/op_ids.h"
#include "runtime/core/dispatch.h"
#include "runtime/cuda/cuda_native.h"
#include "tests/cuda/emulated_control.h"
#include "tests/unit/contract.h"
#include "tests/unit/suite.h"

enum { GPU = SN_CUDA(0) };

static void expect_ok(void) { ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message); }
static sn_tensor *there(sn_tensor *x) { return x ? sn_to_device(x, GPU) : NULL; }
static sn_tensor *here(sn_tensor *x) { return sn_to_device(x, SN_CPU); }

/* From -60 to 60 in steps, of both signs: NaN, infinities and zeros among floats. */
static sn_tensor *numbers(sn_ints sizes, sn_dtype dtype) {
    return sn_to(sn_mul(sn_randn(sizes, SN_F32), sn_full(SN_INTS(), sn_float(20), SN_F32)), dtype);
}
static sn_tensor *bools(sn_ints sizes) {
    return sn_gt(sn_randn(sizes, SN_F32), sn_full(SN_INTS(), sn_float(0.3), SN_F32));
}
static sn_tensor *values(sn_ints sizes, sn_dtype dtype) {
    return dtype == SN_BOOL ? bools(sizes) : numbers(sizes, dtype);
}
static sn_tensor *positions(sn_ints sizes, int64_t below, sn_dtype dtype) {
    return sn_to(sn_mul(sn_rand(sizes, SN_F32), sn_full(SN_INTS(), sn_int(below), SN_F32)), dtype);
}

static void expect_same(const char *name, sn_tensor *gpu, sn_tensor *cpu) {
    expect_ok();
    sn_tensor *const back = here(gpu);
    expect_ok();
    ck_assert_msg(same_bits(sn_contiguous(back), sn_contiguous(cpu)), "%s differs", name);
}

/* rows ----------------------------------------------------------------------------------------- */

START_TEST(every_row_has_a_kernel) {
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        if (row->flags & OPF_internal && row->flags & OPF_host) continue; /* a part of a rule that runs on the CPU */
        if (row->id == OP_attention || row->id == OP_attention_backward) continue; /* the CPU's alone: decomp_sdpa */
        if (row->kind == KIND_kernel && !row->alias_of && !op_is_product(row))
            ck_assert_msg(cuda_native(row) != NULL, "%s has no kernel on cuda", row->name);
    }
}
END_TEST

/* writes --------------------------------------------------------------------------------------- */

typedef enum Layout { PLAIN, TURNED, SLICED } Layout;

/* Of the same elements. */
static sn_tensor *laid_out(sn_tensor *x, Layout layout) {
    const int64_t last = sn_rank(x) - 1;
    if (layout == TURNED) return sn_transpose(sn_contiguous(sn_transpose(x, 0, last)), 0, last);
    if (layout == SLICED) return sn_slice(sn_cat(SN_TENSORS(x, x), last), last, 0, sn_size(x, last), 1);
    return x;
}

typedef struct WriteCase {
    const char *name, *reduce; /* NULL: written */
    int64_t dim;
    int64_t self[3], index[3]; /* ends at 0 */
    sn_dtype dtype;
    Layout layout;
    bool alone; /* without self */
    bool narrow;
} WriteCase;

static const WriteCase writes[] = {
    {"few sources", NULL, 1, {5, 9}, {4, 60}, SN_F32},
    {"sorted, one line", NULL, 0, {50}, {10000}, SN_F32},
    {"sorted, moved bools", NULL, 0, {50}, {10000}, SN_BOOL},
    {"sorted lines, the last", NULL, 1, {9, 40}, {7, 1500}, SN_F16, TURNED},
    {"sorted lines, the first", NULL, 0, {40, 9}, {1500, 7}, SN_I64, SLICED, .narrow = true},
    {"sums, one line", "sum", 0, {50}, {10000}, SN_F32},
    {"sums of a few", "sum", 0, {3000}, {4000}, SN_F64},
    {"sums, lines within", "sum", 1, {3, 40, 5}, {3, 1100, 4}, SN_F32, TURNED},
    {"sums, bf16", "sum", 1, {9, 40}, {7, 1500}, SN_BF16, SLICED, .narrow = true},
    {"sums, u8", "sum", 0, {30}, {2000}, SN_U8},
    {"sums, bools", "sum", 0, {300}, {500}, SN_BOOL},
    {"products", "prod", 0, {500, 2}, {900, 2}, SN_F32},
    {"products, alone", "prod", 0, {500, 2}, {900, 2}, SN_F32, .alone = true},
    {"means", "mean", 0, {50}, {10000}, SN_F16},
    {"means, alone", "mean", 1, {9, 40}, {7, 1500}, SN_I32, .alone = true},
    {"maxima", "amax", 0, {50}, {3000}, SN_F32, .alone = true},
    {"minima", "amin", 0, {5000}, {3000}, SN_I8},
};

static sn_ints sizes_of(const int64_t *sizes) {
    int64_t n = 0;
    while (n < 3 && sizes[n]) n++;
    return (sn_ints){sizes, n};
}

static sn_tensor *write(const WriteCase *c, sn_tensor *self, sn_tensor *index, sn_tensor *src) {
    return c->reduce ? sn_scatter_reduce_ex(self, c->dim, index, src, c->reduce, !c->alone)
                     : sn_scatter(self, c->dim, index, src);
}

START_TEST(writes_at_positions_have_the_bits_of_the_cpu) {
    const WriteCase *const c = &writes[_i];
    sn_tensor *const self = values(sizes_of(c->self), c->dtype), *const src = values(sizes_of(c->index), c->dtype);
    sn_tensor *const index = positions(sizes_of(c->index), c->self[c->dim], c->narrow ? SN_I32 : SN_I64);
    sn_tensor *const at = laid_out(there(index), c->layout);
    expect_same(c->name, write(c, laid_out(there(self), c->layout), at, laid_out(there(src), c->layout)),
                write(c, self, index, src));
    if (c->reduce && !c->alone && !strcmp(c->reduce, "sum")) {
        sn_tensor *const cpu = sn_clone(self), *const gpu = laid_out(there(self), c->layout);
        sn_scatter_add_(cpu, c->dim, index, src), sn_scatter_add_(gpu, c->dim, at, there(src));
        expect_same(c->name, gpu, cpu);
    }
    expect_same(c->name, sn_scatter_value(there(self), c->dim, at, sn_float(1.7)),
                sn_scatter_value(self, c->dim, index, sn_float(1.7)));
}
END_TEST

static const struct RowsCase {
    const char *name;
    int64_t rows, columns, n;
    sn_dtype dtype;
    double alpha;
    int64_t padding;
    bool by_count;
} rows_cases[] = {
    {"few", 6, 5, 40, SN_F32, 1, -1, false},          {"many", 40, 7, 3000, SN_F32, 2.5, 3, false},
    {"by count", 40, 7, 3000, SN_F32, -1, -1, true},  {"halves", 300, 3, 2000, SN_F16, 0.3, 299, true},
    {"doubles", 20, 1, 1030, SN_F64, 0.1, 500, true}, {"ints", 20, 3, 1030, SN_I64, 3, 0, true},
};

static sn_tensor *embedding_backward(sn_tensor *grad, sn_tensor *index, const struct RowsCase *c) {
    sn_tensor *out;
    const Arg args[] = {A_VAL(&grad->base), A_VAL(&index->base), A_INT(c->rows), A_INT(c->padding),
                        A_BOOL(c->by_count)};
    return dispatch(op_row(OP_embedding_dense_backward), FORM_functional, args, NULL, &out) == ST_OK ? out : NULL;
}

START_TEST(rows_have_the_bits_of_the_cpu) {
    const struct RowsCase *const c = &rows_cases[_i];
    sn_tensor *const self = values(SN_INTS(c->columns, c->rows), c->dtype),
                     *const index = positions(SN_INTS(c->n), c->rows, SN_I64),
                     *const source = values(SN_INTS(c->columns, c->n), c->dtype);
    sn_tensor *const turned = sn_contiguous(sn_transpose(source, 0, 1));
    const sn_scalar alpha = c->dtype == SN_I64 ? sn_int((int64_t)c->alpha) : sn_float(c->alpha);
    expect_same(c->name, sn_index_add_ex(there(self), 1, there(index), sn_transpose(there(turned), 0, 1), alpha),
                sn_index_add_ex(self, 1, index, source, alpha));
    expect_same(c->name, sn_index_add(sn_transpose(there(self), 0, 1), 0, there(index), there(turned)),
                sn_index_add(sn_transpose(self, 0, 1), 0, index, turned));
    /* (position, column) at one stride, then not */
    sn_tensor *const index2 = sn_reshape(index, SN_INTS(10, -1)), *const grad =
                                                                      sn_reshape(turned, SN_INTS(10, -1, c->columns));
    expect_same(c->name, embedding_backward(there(grad), there(index2), c), embedding_backward(grad, index2, c));
    sn_tensor *const grad_turned = sn_transpose(grad, 0, 1), *const index_turned = sn_transpose(index2, 0, 1);
    expect_same(c->name, embedding_backward(sn_transpose(there(grad), 0, 1), sn_transpose(there(index2), 0, 1), c),
                embedding_backward(grad_turned, index_turned, c));
}
END_TEST

START_TEST(a_tensor_without_dims_has_one_position) {
    sn_tensor *const zero = sn_zeros(SN_INTS(), SN_I64), *const two = sn_full(SN_INTS(), sn_int(2), SN_I64);
    sn_tensor *const one = sn_full(SN_INTS(), sn_float(5), SN_F32), *const three = sn_arange(sn_int(3), SN_F32);
    expect_same("into none",
                sn_scatter_add(there(one), 0, there(sn_reshape(zero, SN_INTS(1))), there(sn_reshape(one, SN_INTS(1)))),
                sn_full(SN_INTS(), sn_float(10), SN_F32));
    sn_tensor *const written = sn_scatter(three, 0, two, one);
    ck_assert_float_eq(((const float *)sn_data(written, SN_F32))[2], 5);
    ck_assert_float_eq(((const float *)sn_data(written, SN_F32))[0], 0);
    expect_same("from none", sn_scatter(there(three), 0, there(two), there(one)), written);
    expect_same("rows of none", sn_index_add(there(one), 0, there(zero), there(one)), sn_index_add(one, 0, zero, one));
}
END_TEST

/* The source is the tensor that is written: what it was before counts. */
START_TEST(a_source_may_be_what_is_written) {
    sn_tensor *const x = numbers(SN_INTS(200), SN_F32), *const index = positions(SN_INTS(200), 200, SN_I64),
                     *const gpu = there(x);
    sn_tensor *const wanted = sn_scatter_add(x, 0, index, x);
    sn_scatter_add_(gpu, 0, there(index), gpu);
    expect_same("scatter_add_", gpu, wanted);
    sn_tensor *const cpu = sn_clone(x), *const at = sn_zeros(SN_INTS(200), SN_I64), *const at_gpu = there(at),
                     *const y = there(x);
    sn_sort_out(cpu, at, cpu, 0, true), sn_sort_out(y, at_gpu, y, 0, true);
    expect_same("sorted", y, cpu);
    expect_same("places", at_gpu, at);
}
END_TEST

static void expect_refused(const char *says) {
    ck_assert_int_eq(sn_device_synchronize(GPU), SN_ERR_VALUE);
    const sn_error *const error = sn_error_take();
    ck_assert_msg(strstr(error->message, says) != NULL, "%s", error->message);
}

START_TEST(a_wrong_position_is_told_and_nothing_is_written) {
    sn_tensor *const self = numbers(SN_INTS(4, 300), SN_F32), *const src = numbers(SN_INTS(4, 300), SN_F32);
    sn_tensor *const gpu = there(self), *const good = there(positions(SN_INTS(4, 300), 300, SN_I64));
    sn_tensor *const wrong = sn_scatter_value(good, 1, sn_slice(good, 1, 7, 8, 1), sn_int(300));
    sn_scatter_add_(gpu, 1, wrong, there(src));
    expect_refused("aten::scatter_add: index 300 is out of range for 300 elements of dim 1");
    sn_scatter_(gpu, 1, wrong, there(src));
    expect_refused("aten::scatter.src: index 300 is out of range for 300 elements of dim 1");
    sn_index_add_(gpu, 1, sn_select(wrong, 0, 1), there(src));
    expect_refused("aten::index_add: index 300 is out of range for 300 elements of dim 1");
    expect_same("self", gpu, self);
    embedding_backward(there(src), there(sn_full(SN_INTS(4), sn_int(7), SN_I64)), &(struct RowsCase){.rows = 7});
    expect_refused("aten::embedding_dense_backward: indices 7 is out of range for 7 elements of dim 0");
    sn_index(gpu, SN_TENSORS(NULL, there(sn_full(SN_INTS(4), sn_int(-301), SN_I64))));
    expect_refused("aten::index: index -301 is out of range for 300 elements of dim 1");
    sn_scatter_add_(gpu, 1, good, there(src));
    expect_same("afterwards", gpu, sn_scatter_add(self, 1, here(good), src));
}
END_TEST

/* Of elements that lie in one place the last one stands. */
START_TEST(a_view_that_overlaps_itself_is_written_in_order) {
    sn_tensor *const self = numbers(SN_INTS(12), SN_F32), *const src = numbers(SN_INTS(3, 40, 2), SN_F32);
    sn_tensor *out[2], *const from[2] = {self, there(self)}, *const by[2] = {src, there(src)};
    const int64_t sizes[] = {3, 40, 2}, strides[] = {4, 0, 1};
    for (int i = 0; i < 2; i++) {
        const Arg args[] = {A_VAL(&from[i]->base), A_VAL(&by[i]->base), A_INTS(sizes, 3), A_INTS(strides, 3), A_INT(1)};
        ck_assert_int_eq(dispatch(op_row(OP_view_scatter), FORM_functional, args, NULL, &out[i]), ST_OK);
    }
    expect_same("the view", out[1], out[0]);
}
END_TEST

/* lines ---------------------------------------------------------------------------------------- */

/* Every other element is NaN, infinite or a zero of either sign. */
static sn_tensor *odd(sn_ints sizes, sn_dtype dtype) {
    if (dtype != SN_F32 && dtype != SN_F64 && dtype != SN_F16 && dtype != SN_BF16) return values(sizes, dtype);
    sn_tensor *const x = sn_to(sn_round(numbers(sizes, SN_F32)), dtype), *kind = positions(sizes, 10, SN_I64);
    const double special[] = {0.0, -0.0, NAN, -INFINITY, INFINITY};
    sn_tensor *out = x;
    for (int i = 0; i < 5; i++)
        out = sn_where(sn_eq(kind, sn_full(SN_INTS(), sn_int(i), SN_I64)),
                       sn_full(SN_INTS(), sn_float(special[i]), dtype), out);
    return out;
}

typedef struct LineCase {
    const char *name;
    int64_t sizes[3], dim;
    sn_dtype dtype;
    bool descending;
    int64_t k;
    Layout layout;
} LineCase;

static const LineCase lines[] = {
    {"one part", {1000}, 0, SN_F32, false, 7},           {"merges", {5000}, 0, SN_F32, false, 10},
    {"merges, down", {5000}, 0, SN_F32, true, 1500},     {"merges, whole parts", {4096}, 0, SN_F64, false, 1024},
    {"merges, one more", {4097}, 0, SN_I64, true, 4097}, {"lines within", {3, 2500, 2}, 1, SN_F16, true, 1100, TURNED},
    {"short lines", {700, 7}, 1, SN_F32, false, 3},      {"short lines, turned", {7, 700}, 0, SN_BF16, true, 7, SLICED},
    {"bytes", {2, 2500}, 1, SN_I8, false, 20},           {"unsigned bytes", {2, 2500}, 1, SN_U8, true, 2000},
    {"bools", {3000}, 0, SN_BOOL, false, 2999},
};

START_TEST(sorts_have_the_bits_of_the_cpu) {
    const LineCase *const c = &lines[_i];
    sn_tensor *const x = odd(sizes_of(c->sizes), c->dtype), *const y = laid_out(there(x), c->layout);
    sn_tensor *at, *at_gpu;
    sn_tensor *const sorted = sn_sort(x, c->dim, c->descending, &at), *const gpu =
                                                                          sn_sort(y, c->dim, c->descending, &at_gpu);
    expect_same(c->name, gpu, sorted);
    expect_same(c->name, at_gpu, at);
    sn_tensor *const top = sn_topk(x, c->k, c->dim, c->descending, true, &at), *const top_gpu = sn_topk(y, c->k, c->dim,
                                                                                                        c->descending,
                                                                                                        true, &at_gpu);
    expect_same(c->name, top_gpu, top);
    expect_same(c->name, at_gpu, at);
}
END_TEST

START_TEST(scans_have_the_bits_of_the_cpu) {
    const LineCase *const c = &lines[_i];
    sn_tensor *const x = values(sizes_of(c->sizes), c->dtype), *const y = laid_out(there(x), c->layout);
    const sn_dtype own = c->dtype == SN_BOOL ? SN_I64 : c->dtype, dtypes[] = {0, own, SN_F32, SN_I32};
    for (int i = 0; i < 4; i++) {
        expect_same(c->name, sn_cumsum(y, c->dim, dtypes[i]), sn_cumsum(x, c->dim, dtypes[i]));
        expect_same(c->name, sn_cumprod(y, c->dim, dtypes[i]), sn_cumprod(x, c->dim, dtypes[i]));
    }
    if (c->dtype == SN_BOOL) return;
    sn_tensor *const cpu = sn_clone(x);
    sn_cumsum_(cpu, c->dim, 0), sn_cumsum_(y, c->dim, 0);
    expect_same(c->name, y, cpu);
}
END_TEST

/* positions ------------------------------------------------------------------------------------ */

static const LineCase lists[] = {
    {"many", {40000}, 0, SN_BOOL},
    {"three dims", {7, 30, 50}, 0, SN_BOOL, .layout = TURNED},
    {"floats", {9, 700}, 0, SN_F32, .layout = SLICED},
    {"halves", {9, 700}, 0, SN_F16},
    {"bytes", {700}, 0, SN_U8},
};

START_TEST(positions_have_the_bits_of_the_cpu) {
    const LineCase *const c = &lists[_i];
    sn_tensor *const x = odd(sizes_of(c->sizes), c->dtype), *const y = laid_out(there(x), c->layout);
    sn_tensor *cpu[3], *gpu[3];
    expect_same(c->name, sn_nonzero(y), sn_nonzero(x));
    const int64_t n = sn_where_positions(x, cpu, 3);
    ck_assert_int_eq(sn_where_positions(y, gpu, 3), n);
    for (int64_t i = 0; i < n; i++) expect_same(c->name, gpu[i], cpu[i]);
    sn_tensor *const mask = sn_ne(x, sn_zeros(SN_INTS(), c->dtype));
    expect_same(c->name, sn_masked_select(y, there(mask)), sn_masked_select(x, mask));
    sn_tensor *const put = sn_zeros(SN_INTS(), c->dtype);
    expect_same(c->name, sn_index_put(y, SN_TENSORS(there(mask)), there(put)), sn_index_put(x, SN_TENSORS(mask), put));
}
END_TEST

START_TEST(resizing_keeps_what_was_there) {
    sn_tensor *const x = numbers(SN_INTS(3, 4), SN_F32), *const y = there(x);
    sn_resize_(x, SN_INTS(5, 7)), sn_resize_(y, SN_INTS(5, 7));
    expect_same("larger", y, x);
    sn_resize_(x, SN_INTS(2)), sn_resize_(y, SN_INTS(2));
    expect_same("smaller", y, x);
}
END_TEST

/* compiled ------------------------------------------------------------------------------------- */

/* Two results: what all of these rows make of the first three inputs, and places of a sort. */
static sn_status order_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const index = sn_in(f, 1), *const rows = sn_in(f, 2), *places;
    sn_tensor *const sums = sn_cumsum(sn_tanh(x), 1, SN_F32);
    sn_tensor *const sorted = sn_sort(sums, 1, true, &places);
    sn_tensor *const written = sn_scatter_add(sn_exp(x), 1, index, sorted);
    sn_tensor *const added = sn_index_add(written, 0, rows, sn_mul(x, x));
    sn_tensor *const read = sn_index(added, SN_TENSORS(NULL, sn_select(index, 0, 1)));
    sn_tensor *const reduced =
        sn_scatter_reduce_ex(read, 0, sn_remainder(index, sn_full_like(index, sn_int(20))), added, "amax", false);
    sn_out(f, 0, sn_mul(reduced, sn_embedding(added, rows)));
    return sn_out(f, 1, places);
}

typedef struct OrderStep {
    sn_tensor *out[2], *grad;
} OrderStep;

static OrderStep order_step(sn_function *fn, sn_tensor *const *given, sn_device device) {
    sn_tensor *in[3];
    OrderStep step = {0};
    for (int i = 0; i < 3; i++) in[i] = sn_detach(sn_to_device(given[i], device));
    sn_requires_grad_(in[0], true);
    ck_assert_int_eq(sn_call(fn, in, 3, step.out, 2), SN_OK);
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(step.out[0], step.out[0]))), SN_OK);
    step.grad = sn_grad(in[0]);
    expect_ok();
    return step;
}

/* Step by step, and from the third call on as a graph. */
START_TEST(compiled_calls_have_the_bits_of_the_cpu) {
    static const sn_preset presets[] = {SN_PRESET_DEFAULT, SN_PRESET_REDUCE_OVERHEAD};
    sn_function *const fn = sn_compile(order_body, NULL, SN_COMPILE_OPTIONS(.preset = presets[_i]));
    sn_function *const twin = sn_compile(order_body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    for (int call = 0; call < 5; call++) {
        sn_tensor *const given[] = {numbers(SN_INTS(20, 200), SN_F32), positions(SN_INTS(20, 200), 200, SN_I64),
                                    positions(SN_INTS(20), 20, SN_I64)};
        const OrderStep cpu = order_step(twin, given, SN_CPU), gpu = order_step(fn, given, GPU);
        for (int i = 0; i < 2; i++) expect_same("a result", gpu.out[i], cpu.out[i]);
        expect_same("the gradient", gpu.grad, cpu.grad);
    }
    ck_assert_msg(strstr(sn_explain(fn), "compiled share 1.0000") != NULL, "%s", sn_explain(fn));
    sn_function_free(fn), sn_function_free(twin);
}
END_TEST

/* One long line is sorted in the plan's own memory: a call takes the arena and its two results. */
static sn_status sort_body(sn_frame *f) {
    sn_tensor *places, *const sorted = sn_sort(sn_in(f, 0), 0, false, &places);
    sn_out(f, 0, sorted);
    return sn_out(f, 1, places);
}

static int64_t blocks_taken(void) {
    sn_memory memory = {.size = sizeof memory};
    ck_assert_int_eq(sn_memory_get(GPU, &memory), SN_OK);
    return memory.blocks[SN_MEMORY_ALLOCATED].total;
}

START_TEST(a_compiled_sort_has_workspace_of_its_plan) {
    sn_function *const fn = sn_compile(sort_body, NULL, NULL);
    for (int call = 0; call < 4; call++) {
        sn_tensor *const x = odd(SN_INTS(5000), SN_F64), *in[] = {there(x)}, *out[2], *at;
        const int64_t before = blocks_taken();
        ck_assert_int_eq(sn_call(fn, in, 1, out, 2), SN_OK);
        if (call > 1) ck_assert_int_eq(blocks_taken() - before, 3);
        expect_same("sorted", out[0], sn_sort(x, 0, false, &at));
        expect_same("places", out[1], at);
    }
    sn_function_free(fn);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("cuda_order");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, every_row_has_a_kernel);
    if (!lacks_compiler()) {
        tcase_add_loop_test(tests, writes_at_positions_have_the_bits_of_the_cpu, 0, COUNT_OF(writes));
        tcase_add_loop_test(tests, rows_have_the_bits_of_the_cpu, 0, COUNT_OF(rows_cases));
        tcase_add_test(tests, a_tensor_without_dims_has_one_position);
        tcase_add_test(tests, a_source_may_be_what_is_written);
        tcase_add_test(tests, a_wrong_position_is_told_and_nothing_is_written);
        tcase_add_test(tests, a_view_that_overlaps_itself_is_written_in_order);
        tcase_add_loop_test(tests, sorts_have_the_bits_of_the_cpu, 0, COUNT_OF(lines));
        tcase_add_loop_test(tests, scans_have_the_bits_of_the_cpu, 0, COUNT_OF(lines));
        tcase_add_loop_test(tests, positions_have_the_bits_of_the_cpu, 0, COUNT_OF(lists));
        tcase_add_test(tests, resizing_keeps_what_was_there);
        tcase_add_loop_test(tests, compiled_calls_have_the_bits_of_the_cpu, 0, 2);
        tcase_add_test(tests, a_compiled_sort_has_workspace_of_its_plan);
    } else {
        puts("skipped: running them: no clang here, by which the emulated device runs kernels");
    }
    return suite_run("cuda_order", tests);
}
