/* test_sparse.c: sparse tensors: the row 1.14 of the acceptance list, by public headers, eagerly and in compiled
 * functions, beside naive loops (bit for bit) and dense tensors. */
#include "tests/unit/contract.h"

enum { ROWS = 7, COLUMNS = 9, WIDTH = 5, ENTRIES = 24 };

typedef struct Coo { /* in no order, some positions twice */
    int64_t at[2 * ENTRIES];
    float values[ENTRIES];
} Coo;

static Coo make_coo(uint64_t seed) {
    Coo c;
    uint64_t s = seed * 977 + 13;
    fill_floats(c.values, ENTRIES, seed);
    for (int e = 0; e < ENTRIES; e++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        c.at[e] = (int64_t)(s >> 33) % (ROWS - 1); /* the last row is empty */
        c.at[ENTRIES + e] = (int64_t)(s >> 45) % COLUMNS;
    }
    return c;
}

static sn_tensor *positions_of(const Coo *c) { return sn_from_data(c->at, SN_INTS(2, ENTRIES), SN_I64); }
static sn_tensor *values_of(const Coo *c) { return sn_from_data(c->values, SN_INTS(ENTRIES), SN_F32); }
static sn_tensor *tensor_of_coo(const Coo *c) {
    return sn_sparse_coo(positions_of(c), values_of(c), SN_INTS(ROWS, COLUMNS));
}

/* Duplicates one by one in their order, from +0. */
static void dense_loop(const Coo *c, float *dense, bool *there) {
    memset(dense, 0, sizeof(float) * ROWS * COLUMNS);
    memset(there, 0, ROWS * COLUMNS);
    for (int e = 0; e < ENTRIES; e++) {
        const int64_t at = c->at[e] * COLUMNS + c->at[ENTRIES + e];
        dense[at] += c->values[e];
        there[at] = true;
    }
}

static sn_tensor *product_loop(const Coo *c, const float *b, int width) {
    float dense[ROWS * COLUMNS], out[ROWS * WIDTH] = {0};
    bool there[ROWS * COLUMNS];
    dense_loop(c, dense, there);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < width; i++)
            for (int k = 0; k < COLUMNS; k++)
                if (there[r * COLUMNS + k])
                    out[r * width + i] = fmaf(dense[r * COLUMNS + k], b[k * width + i], out[r * width + i]);
    return sn_from_data(out, SN_INTS(ROWS, width), SN_F32);
}

START_TEST(a1_14_layouts_are_made_and_turned_into_each_other) {
    const Coo c = make_coo(1);
    float dense[ROWS * COLUMNS];
    bool there[ROWS * COLUMNS];
    dense_loop(&c, dense, there);
    sn_tensor *const want = sn_from_data(dense, SN_INTS(ROWS, COLUMNS), SN_F32), *const a = tensor_of_coo(&c);
    ck_assert_int_eq(sn_layout_of(a), SN_SPARSE_COO);
    ck_assert(sn_rank(a) == 2 && sn_size(a, 0) == ROWS && sn_dtype_of(a) == SN_F32 && !sn_is_coalesced(a));
    ck_assert(same_bits(sn_to_dense(a), want));
    sn_tensor *const once = sn_coalesce(a), *const csr = sn_to_sparse_csr(a);
    int64_t n = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) n += there[i];
    ck_assert(n < ENTRIES && sn_size(sn_sparse_values(once), 0) == n && sn_is_coalesced(once));
    ck_assert(sn_coalesce(once) == once && same_bits(sn_to_dense(once), want));
    ck_assert_int_eq(sn_layout_of(csr), SN_SPARSE_CSR);
    ck_assert(same_bits(sn_to_dense(csr), want) && sn_size(sn_sparse_rows(csr), 0) == ROWS + 1);
    ck_assert(same_bits(sn_sparse_values(csr), sn_sparse_values(once)));
    ck_assert(same_bits(sn_sparse_positions(sn_to_sparse(csr)), sn_sparse_positions(once)));
    sn_tensor *const x = sn_relu(F32(3, 4, 3, 5)), *const of_x = sn_to_sparse(x);
    ck_assert(sn_is_coalesced(of_x) && sn_size(sn_sparse_positions(of_x), 0) == 3 && same_bits(sn_to_dense(of_x), x));
    ck_assert(same_bits(sn_to_dense(sn_to_sparse_csr(want)), want) && sn_to_dense(want) == want);
    sn_tensor *const again =
        sn_sparse_csr(sn_sparse_rows(csr), sn_sparse_columns(csr), sn_sparse_values(csr), SN_INTS(ROWS, COLUMNS));
    ck_assert(same_bits(sn_to_dense(again), want));
}
END_TEST

START_TEST(a1_14_products_are_one_chain_over_a_rows_entries) {
    for (uint64_t seed = 1; seed < 6; seed++) {
        const Coo c = make_coo(seed);
        float b[COLUMNS * WIDTH];
        fill_floats(b, COLUMNS * WIDTH, seed + 50);
        b[0] = INFINITY; /* what no entry meets does not count */
        sn_tensor *const dense = sn_from_data(b, SN_INTS(COLUMNS, WIDTH), SN_F32), *const a = tensor_of_coo(&c);
        sn_tensor *const v = sn_from_data(b, SN_INTS(COLUMNS), SN_F32), *const want = product_loop(&c, b, WIDTH);
        ck_assert(same_bits(sn_mm(a, dense), want) && same_bits(sn_matmul(a, dense), want));
        ck_assert(same_bits(sn_mm(sn_to_sparse_csr(a), dense), want));
        ck_assert(same_bits(sn_mv(a, v), sn_select(product_loop(&c, b, 1), 1, 0)));
        sn_tensor *const bias = F32(9, WIDTH);
        ck_assert(same_bits(sn_addmm(bias, a, dense), sn_add(bias, want)));
        sn_tensor *const f64 = sn_sparse_coo(positions_of(&c), sn_to(values_of(&c), SN_F64), SN_INTS(ROWS, COLUMNS));
        sn_tensor *const x = sn_to(F32(4, COLUMNS, 2), SN_F64);
        ck_assert(sn_allclose(sn_mm(f64, x), sn_mm(sn_to_dense(f64), x), 1e-12, 1e-12));
    }
}
END_TEST

START_TEST(a1_14_sums) {
    const Coo c = make_coo(2), d = make_coo(3);
    sn_tensor *const a = tensor_of_coo(&c), *const b = tensor_of_coo(&d), *const dense = F32(4, ROWS, COLUMNS);
    sn_tensor *const sum = sn_add(a, b);
    ck_assert_int_eq(sn_size(sn_sparse_values(sum), 0), 2 * ENTRIES);
    ck_assert(sn_allclose(sn_to_dense(sum), sn_add(sn_to_dense(a), sn_to_dense(b)), 1e-6, 1e-6));
    ck_assert(same_bits(sn_to_dense(sn_coalesce(sum)), sn_to_dense(sum)));
    ck_assert(sn_allclose(sn_add(dense, a), sn_add(dense, sn_to_dense(a)), 1e-6, 1e-6));
    ck_assert(sn_allclose(sn_to_dense(sn_add_ex(a, b, sn_float(-2))),
                          sn_sub(sn_to_dense(a), sn_mul_scalar(sn_to_dense(b), sn_float(2))), 1e-6, 1e-6));
    sn_tensor *const csr = sn_add(sn_to_sparse_csr(a), sn_to_sparse_csr(b));
    ck_assert(sn_layout_of(csr) == SN_SPARSE_CSR &&
              same_bits(sn_to_dense(csr), sn_add(sn_to_dense(a), sn_to_dense(b))));
}
END_TEST

typedef struct Problem {
    sn_tensor *positions;
} Problem;

/* A layer whose weights are sparse: values and dense require gradients. */
static sn_status layer(sn_frame *f) {
    const Problem *const p = sn_closure(f);
    sn_tensor *const a = sn_sparse_coo(p->positions, sn_in(f, 0), SN_INTS(ROWS, COLUMNS));
    return sn_out(f, 0, sn_relu(sn_mm(a, sn_in(f, 1))));
}

static sn_status dense_layer(sn_frame *f) {
    const Problem *const p = sn_closure(f);
    sn_tensor *const a = sn_sparse_coo(p->positions, sn_in(f, 0), SN_INTS(ROWS, COLUMNS));
    return sn_out(f, 0, sn_relu(sn_mm(sn_to_dense(a), sn_in(f, 1))));
}

static void gradients(sn_function *fn, sn_tensor *values, sn_tensor *dense, sn_tensor *got[3]) {
    sn_tensor *const v = sn_requires_grad_(sn_clone(values), true), *const b = sn_requires_grad_(sn_clone(dense), true);
    got[0] = SN_CALL(fn, v, b);
    ck_assert_msg(got[0] && sn_backward(sn_sum(sn_mul(got[0], got[0]))) == SN_OK, "%s", sn_error_take()->message);
    got[1] = sn_grad(v), got[2] = sn_grad(b);
}

START_TEST(a1_14_gradients_of_products) {
    const Coo c = make_coo(4);
    Problem p = {positions_of(&c)};
    const Twin twin = twin_new(layer, &p, &p, NULL);
    sn_function *const dense = sn_compile(dense_layer, &p, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *want[3], *eager[3], *fast[3], *const values = values_of(&c), *const x = F32(6, COLUMNS, WIDTH);
    for (int i = 0; i < 3; i++) {
        gradients(dense, values, x, want);
        gradients(twin.eager, values, x, eager);
        gradients(twin.fast, values, x, fast);
        for (int k = 0; k < 3; k++) {
            ck_assert_msg(sn_allclose(eager[k], want[k], 1e-5, 1e-5), "gradient %d", k);
            ck_assert_msg(same_bits(fast[k], eager[k]), "compiled gradient %d", k);
        }
    }
    ck_assert_msg(!strstr(sn_explain(twin.fast), "has no data"), "%s", sn_explain(twin.fast));
    twin_free(twin);
    sn_function_free(dense);
}
END_TEST

static sn_status on_sparse(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 1)), *const z = sn_mm(sn_in(f, 0), y);
    return sn_out(f, 0, sn_mul(sn_add(sn_in(f, 2), sn_in(f, 0)), sn_sum(z)));
}

static sn_status to_and_fro(sn_frame *f) {
    sn_tensor *const a = sn_to_sparse(sn_relu(sn_in(f, 0)));
    return sn_out(f, 0, sn_mm(sn_add(a, a), sn_in(f, 1)));
}

static sn_status gives_sparse(sn_frame *f) { return sn_out(f, 0, sn_coalesce(sn_add(sn_in(f, 0), sn_in(f, 0)))); }

START_TEST(a1_14_compiled_functions_take_and_give_sparse_tensors) {
    const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    for (int m = 0; m < 2; m++) {
        const Twin twin = twin_new(on_sparse, NULL, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        const Twin fro = twin_new(to_and_fro, NULL, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        const Twin gives = twin_new(gives_sparse, NULL, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        for (uint64_t i = 0; i < 4; i++) {
            const Coo c = make_coo(i + 1);
            sn_tensor *const a = sn_coalesce(tensor_of_coo(&c)), *const x = F32(i, COLUMNS, WIDTH);
            TWIN_CALL(twin, a, x, F32(i + 9, ROWS, COLUMNS));
            TWIN_CALL(twin, sn_to_sparse_csr(a), x, F32(i + 9, ROWS, COLUMNS));
            TWIN_CALL(fro, F32(i + 5, ROWS, COLUMNS), x);
            sn_tensor *const got = SN_CALL(gives.fast, a), *const want = SN_CALL(gives.eager, a);
            ck_assert(same_bits(sn_to_dense(got), sn_to_dense(want)));
        }
        ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
        ck_assert(stats_of(twin.fast).graphs > 0);
        ck_assert_msg(strstr(sn_explain(fro.fast), "nonzero") != NULL, "%s", sn_explain(fro.fast));
        twin_free(twin);
        twin_free(fro);
        twin_free(gives);
    }
}
END_TEST

/* The first n entries, coalesced: how many there are in the end differs as well. */
static sn_tensor *first_entries(const Coo *c, int64_t n) {
    sn_tensor *const at = sn_contiguous(sn_narrow(positions_of(c), 1, 0, n));
    return sn_coalesce(sn_sparse_coo(at, sn_narrow(values_of(c), 0, 0, n), SN_INTS(ROWS, COLUMNS)));
}

static sn_status trained_product(sn_frame *f) { return sn_out(f, 0, sn_sum(sn_exp(sn_mm(sn_in(f, 0), sn_in(f, 1))))); }

/* Of the values, four in each row while they last, and of what they are multiplied with. */
static void trained(sn_function *fn, const Coo *c, int64_t n, sn_tensor **grads) {
    int64_t rows[ROWS + 1], columns[ENTRIES];
    for (int64_t r = 0; r <= ROWS; r++) rows[r] = 4 * r < n ? 4 * r : n;
    for (int e = 0; e < ENTRIES; e++) columns[e] = e % 4 * 2;
    sn_tensor *const starts = sn_from_data(rows, SN_INTS(ROWS + 1), SN_I64), *const x = LEAF(4, COLUMNS, WIDTH);
    sn_tensor *const at = sn_from_data(columns, SN_INTS(n), SN_I64);
    sn_tensor *const values = sn_requires_grad_(sn_clone(sn_narrow(values_of(c), 0, 0, n)), true);
    sn_tensor *const y = SN_CALL(fn, sn_sparse_csr(starts, at, values, SN_INTS(ROWS, COLUMNS)), x);
    ck_assert_msg(y && sn_backward(y) == SN_OK, "%s", sn_error_take()->message);
    grads[0] = sn_grad(values), grads[1] = sn_grad(x);
}

START_TEST(a1_14_the_count_of_entries_is_a_symbol) {
    const Twin twin = twin_new(on_sparse, NULL, NULL, NULL), back = twin_new(trained_product, NULL, NULL, NULL);
    const Coo c = make_coo(3);
    int64_t compiles[2] = {0};
    for (int i = 0; i < 8; i++) {
        sn_tensor *want[2], *got[2];
        TWIN_CALL(twin, first_entries(&c, 3 + 2 * i), F32(i, COLUMNS, WIDTH), F32(i + 9, ROWS, COLUMNS));
        trained(back.eager, &c, 5 + 2 * i, want);
        trained(back.fast, &c, 5 + 2 * i, got);
        ck_assert(same_bits(want[0], got[0]) && same_bits(want[1], got[1]));
        if (i == 1) compiles[0] = stats_of(twin.fast).compiles, compiles[1] = stats_of(back.fast).compiles;
    }
    ck_assert(compiles[0] > 0 && stats_of(twin.fast).compiles == compiles[0]);
    ck_assert(compiles[1] > 0 && stats_of(back.fast).compiles == compiles[1]);
    twin_free(twin);
    twin_free(back);
}
END_TEST

START_TEST(a1_14_what_has_no_rule_says_so) {
    const Coo c = make_coo(5);
    sn_tensor *const a = tensor_of_coo(&c), *const csr = sn_to_sparse_csr(a), *const x = F32(1, COLUMNS, COLUMNS);
    ck_assert_ptr_null(sn_relu(a));
    expect_error(SN_ERR_UNSUPPORTED, "aten::relu: it is not implemented for key sparse");
    ck_assert_ptr_null(sn_relu(csr));
    expect_error(SN_ERR_UNSUPPORTED, "aten::relu: it is not implemented for key sparse_csr");
    ck_assert_ptr_null(sn_mm(x, a));
    expect_error(SN_ERR_UNSUPPORTED, "aten::mm: it is not implemented for key sparse");
    ck_assert_ptr_null(sn_add_(a, a));
    expect_error(SN_ERR_UNSUPPORTED, "aten::add_.Tensor: it is not implemented for key sparse");
    ck_assert_ptr_null(sn_mm(a, F32(1, ROWS, 2)));
    expect_error(SN_ERR_SHAPE, "aten::mm: a sparse matrix of 2 dims, 9 columns, and a dense one of 2 dims, 7 rows");
    ck_assert_ptr_null(sn_mm(a, sn_to(x, SN_F64)));
    expect_error(SN_ERR_DTYPE, "a sparse matrix of f32 and a dense one of f64");
    ck_assert_ptr_null(sn_data(a, SN_F32));
    expect_error(SN_ERR_UNSUPPORTED, "sn_data: a sparse tensor has no memory of its own");
    ck_assert_ptr_null(sn_requires_grad_(a, true));
    expect_error(SN_ERR_UNSUPPORTED, "belong to sn_sparse_values");
    ck_assert_ptr_null(sn_sparse_values(x));
    expect_error(SN_ERR_ARGUMENT, "sn_sparse_values: the tensor is dense");
    ck_assert_ptr_null(sn_sparse_rows(a));
    expect_error(SN_ERR_ARGUMENT, "sn_sparse_rows: a tensor of layout COO has none");
}
END_TEST

#define I64(...) sn_from_data((const int64_t[]){__VA_ARGS__}, SN_INTS(SN_COUNT(int64_t, __VA_ARGS__)), SN_I64)

/* Positions share their memory with the program: whoever uses them looks again. */
START_TEST(a1_14_a_handle_is_asked_for) {
    sn_tensor *const s = sn_to_sparse(F32(1, 3, 4));
    ck_assert_int_eq(sn_use_count(s), 1);
    sn_storage several = {.size = sizeof several};
    ck_assert_int_eq(sn_storage_of(s, &several), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "sn_storage_of: a sparse tensor has several");
    ck_assert(strstr(sn_tensor_report(s, NULL, NULL), "f32[3,4] on cpu, sparse\nstorage: those of its parts") != NULL);
}
END_TEST

START_TEST(a1_14_positions_that_were_written_since) {
    for (int coalesced = 0; coalesced < 2; coalesced++) {
        sn_tensor *const at = sn_view(I64(0, 1, 2, 1, 0, 3), SN_INTS(2, 3)), *const ones =
                                                                                 sn_ones(SN_INTS(4, 1), SN_F32);
        sn_tensor *a = sn_sparse_coo(at, F32(1, 3), SN_INTS(3, 4));
        if (coalesced) a = sn_coalesce(a);
        sn_mul_scalar_(coalesced ? sn_sparse_positions(a) : at, sn_int(5));
        ck_assert_ptr_null(sn_mm(a, ones));
        expect_error(SN_ERR_VALUE,
                     coalesced ? "rows of entries do not ascend" : "position 5 of entry 1 is outside of dim 0");
        ck_assert_ptr_null(coalesced ? sn_to_sparse_csr(a) : sn_coalesce(a));
        expect_error(SN_ERR_VALUE,
                     coalesced ? "rows of entries do not ascend" : "position 5 of entry 1 is outside of dim 0");
    }
}
END_TEST

START_TEST(a1_14_bad_positions) {
    sn_tensor *const v = F32(1, 2), *const at = sn_view(I64(0, 1, 2, 5), SN_INTS(2, 2));
    ck_assert_ptr_null(sn_sparse_coo(at, v, SN_INTS(3, 5)));
    expect_error(SN_ERR_VALUE, "sn_sparse_coo: position 5 of entry 1 is outside of dim 1, of size 5");
    ck_assert_ptr_null(sn_sparse_coo(at, F32(1, 3), SN_INTS(3, 6)));
    expect_error(SN_ERR_SHAPE, "2 positions for 3 values");
    ck_assert_ptr_null(sn_sparse_coo(at, v, SN_INTS(3, 6, 2)));
    expect_error(SN_ERR_SHAPE, "positions has 2 dims and sizes 3");
    ck_assert_ptr_null(sn_sparse_coo(v, v, SN_INTS(3)));
    expect_error(SN_ERR_SHAPE, "positions must have 2 dims, not 1");
    ck_assert_ptr_null(sn_sparse_csr(I64(0, 2), I64(1, 3), v, SN_INTS(1, 3)));
    expect_error(SN_ERR_VALUE, "sn_sparse_csr: column 3 of entry 1 is outside of dim 1, of size 3");
    ck_assert_ptr_null(sn_sparse_csr(I64(0, 2), I64(1, 1), v, SN_INTS(1, 3)));
    expect_error(SN_ERR_VALUE, "sn_sparse_csr: columns[1] is 1, behind 1 in one row");
    ck_assert_ptr_null(sn_sparse_csr(I64(0, 1, 1), I64(0, 1), v, SN_INTS(2, 3)));
    expect_error(SN_ERR_VALUE, "rows[2] is 1; rows ascend from 0 to the 2 entries");
    sn_tensor *const columns = I64(0, 1), *const a = sn_sparse_csr(I64(0, 2), columns, v, SN_INTS(1, 3));
    ((int64_t *)sn_data_mut(columns, SN_I64))[1] = 7; /* its memory is shared: a product looks again */
    ck_assert_ptr_null(sn_mm(a, F32(1, 3, 2)));
    expect_error(SN_ERR_VALUE, "a column is outside of it");
}
END_TEST

/* What a caller of the ops by name gets wrong: two rows, three entries, of five columns. */
typedef struct Wrong {
    const char *op;
    sn_value in[5];
    sn_status status;
    const char *says;
} Wrong;

static void expect_wrong(const Wrong *w) {
    int n = 0;
    while (n < 5 && w->in[n].kind != SN_KIND_DEFAULT) n++;
    ck_assert_ptr_null(sn_op_call1(sn_op_find(w->op), w->in, n));
    expect_error(w->status, w->says);
}

START_TEST(a1_14_ops_by_name_take_what_fits_only) {
    const Coo c = make_coo(6);
    ck_assert_ptr_nonnull(tensor_of_coo(&c)); /* the first one registers them */
    sn_tensor *const r = I64(0, 1, 3), *const k = I64(4, 0, 2), *const v = F32(1, 3), *const d = F32(2, 5, 2);
    sn_tensor *const g = F32(3, 2, 2), *const wide = F32(4, 2, 7), *const none = sn_zeros(SN_INTS(0), SN_I64);
#define V(t)      sn_val(t)
#define TO(t, to) sn_val(sn_to(t, to))
    const Wrong wrong[] = {
        {"sparse::product", {V(r), V(k), TO(v, SN_I32), TO(d, SN_I32)}, SN_ERR_DTYPE, "product: 'values' is i32"},
        {"sparse::product", {V(r), V(k), TO(v, SN_BF16), TO(d, SN_BF16)}, SN_ERR_DTYPE, "'values' is bf16, where it"},
        {"sparse::product", {V(r), V(k), V(v), TO(d, SN_I8)}, SN_ERR_DTYPE, "'dense' is i8, where it must be f32"},
        {"sparse::product", {V(r), V(k), V(v), TO(d, SN_F64)}, SN_ERR_DTYPE, "'values' is f32 and 'dense' is f64"},
        {"sparse::product", {V(r), V(k), V(F32(1, 2)), V(d)}, SN_ERR_SHAPE, "'values' has size 2 in dim 0, where rows"},
        {"sparse::product", {V(r), V(k), V(v), V(v)}, SN_ERR_SHAPE, "'dense' has 1 dims, where it must have 2"},
        {"sparse::product", {TO(r, SN_I32), V(k), V(v), V(d)}, SN_ERR_DTYPE, "'rows' is i32, where it must be i64"},
        {"sparse::product", {V(r), TO(k, SN_F64), V(v), V(d)}, SN_ERR_DTYPE, "'columns' is f64, where it must be i64"},
        {"sparse::product", {V(none), V(k), V(v), V(d)}, SN_ERR_SHAPE, "'rows' is empty"},
        {"sparse::product", {V(r), V(k), V(v), V(F32(1, 4, 2))}, SN_ERR_VALUE, "a column is outside of it"},
        {"sparse::transposed", {V(r), V(k), V(v), V(d), sn_int(5)}, SN_ERR_SHAPE, "'grad' has size 5 in dim 0, where "},
        {"sparse::transposed", {V(r), V(k), V(v), V(g), sn_int(-1)}, SN_ERR_VALUE, "transposed: 'n' is -1, where it"},
        {"sparse::transposed", {V(r), V(k), V(v), V(g), sn_int(4)}, SN_ERR_VALUE, "a column is outside of it"},
        {"sparse::sampled", {V(r), V(k), V(d), V(d)}, SN_ERR_SHAPE, "sampled: 'grad' has size 5 in dim 0, where rows"},
        {"sparse::sampled", {V(r), V(k), V(wide), V(d)}, SN_ERR_SHAPE, "'grad' has size 7 in dim 1 and 'dense' 2"},
        {"sparse::sampled", {V(r), V(k), TO(g, SN_F64), V(d)}, SN_ERR_DTYPE, "'grad' is f64 and 'dense' is f32"},
        {"sparse::row_starts", {TO(k, SN_F32), sn_int(2)}, SN_ERR_DTYPE, "row_starts: 'row' is f32, where it"},
        {"sparse::row_starts", {V(k), sn_int(-2)}, SN_ERR_VALUE, "row_starts: 'rows' is -2, where it counts rows"},
        {"sparse::row_starts", {V(k), sn_int(INT64_MAX)}, SN_ERR_VALUE, "'rows' is 9223372036854775807"},
        {"sparse::row_of_each", {V(r), V(g)}, SN_ERR_SHAPE, "row_of_each: 'columns' has 2 dims, where it must have 1"},
        {"sparse::row_of_each", {V(I64(0, 4)), V(k)}, SN_ERR_VALUE, "rows do not ascend"},
    };
#undef V
#undef TO
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) expect_wrong(&wrong[i]);
    const sn_value right[] = {sn_val(r), sn_val(k), sn_val(v), sn_val(d)};
    sn_tensor *const a = sn_sparse_csr(r, k, v, SN_INTS(2, 5));
    ck_assert(same_bits(sn_op_call1(sn_op_find("sparse::product"), right, 4), sn_mm(a, d)));
    ck_assert_int_eq(sn_check(), SN_OK);
}
END_TEST

/* The same op and operands in a body, recorded and then compiled. */
static sn_status by_name(sn_frame *f) {
    const sn_value in[] = {sn_in_value(f, 0), sn_in_value(f, 1), sn_in_value(f, 2), sn_in_value(f, 3)};
    return sn_out(f, 0, sn_op_call1(sn_op_find("sparse::product"), in, 4));
}

START_TEST(a1_14_ops_by_name_are_refused_in_compiled_functions) {
    const Coo c = make_coo(7);
    ck_assert_ptr_nonnull(tensor_of_coo(&c));
    const Twin twin = twin_new(by_name, NULL, NULL, NULL);
    sn_tensor *const r = I64(0, 1, 3), *const k = I64(4, 0, 2), *const d = sn_to(F32(2, 5, 2), SN_BF16);
    for (int i = 0; i < 3; i++) {
        TWIN_CALL(twin, r, k, F32(1, 3), F32(2, 5, 2));
        ck_assert_ptr_null(SN_CALL(twin.eager, r, k, sn_to(F32(1, 3), SN_BF16), d));
        expect_error(SN_ERR_DTYPE, "sparse::product: 'values' is bf16");
        ck_assert_ptr_null(SN_CALL(twin.fast, r, k, sn_to(F32(1, 3), SN_BF16), d));
        expect_error(SN_ERR_DTYPE, "sparse::product: 'values' is bf16");
    }
    twin_free(twin);
}
END_TEST

/* What torch 2.15 prints. */
START_TEST(a1_14_text_is_pytorchs) {
    static const int64_t at[] = {0, 1, 1, 2, 0, 2};
    static const float of[] = {3, 4.5f, 5};
    sn_tensor *const i = sn_from_data(at, SN_INTS(2, 3), SN_I64), *const v = sn_from_data(of, SN_INTS(3), SN_F32);
    ck_assert_str_eq(sn_repr(sn_sparse_coo(i, v, SN_INTS(2, 3))),
                     "tensor(indices=tensor([[0, 1, 1],\n"
                     "                       [2, 0, 2]]),\n"
                     "       values=tensor([3.0000, 4.5000, 5.0000]),\n"
                     "       size=(2, 3), nnz=3, layout=torch.sparse_coo)");
    ck_assert_str_eq(sn_repr(sn_to_sparse_csr(sn_sparse_coo(i, sn_to(v, SN_BF16), SN_INTS(2, 3)))),
                     "tensor(crow_indices=tensor([0, 1, 3]),\n"
                     "       col_indices=tensor([2, 0, 2]),\n"
                     "       values=tensor([3.0000, 4.5000, 5.0000]), size=(2, 3), nnz=3,\n"
                     "       dtype=torch.bfloat16, layout=torch.sparse_csr)");
    sn_tensor *const none = sn_sparse_coo(sn_zeros(SN_INTS(2, 0), SN_I64), sn_zeros(SN_INTS(0), SN_F32), SN_INTS(2, 3));
    ck_assert_str_eq(sn_repr(none), "tensor(indices=tensor([], size=(2, 0)),\n"
                                    "       values=tensor([], size=(0,)),\n"
                                    "       size=(2, 3), nnz=0, layout=torch.sparse_coo)");
    sn_requires_grad_(v, true);
    ck_assert_ptr_nonnull(strstr(sn_repr(sn_sparse_coo(i, v, SN_INTS(2, 3))), "requires_grad=True)"));
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a1_14_layouts_are_made_and_turned_into_each_other,
        a1_14_products_are_one_chain_over_a_rows_entries,
        a1_14_sums,
        a1_14_gradients_of_products,
        a1_14_compiled_functions_take_and_give_sparse_tensors,
        a1_14_the_count_of_entries_is_a_symbol,
        a1_14_what_has_no_rule_says_so,
        a1_14_bad_positions,
        a1_14_a_handle_is_asked_for,
        a1_14_positions_that_were_written_since,
        a1_14_ops_by_name_take_what_fits_only,
        a1_14_ops_by_name_are_refused_in_compiled_functions,
        a1_14_text_is_pytorchs,
    };
    return contract_main("test_sparse", tests, (int)(sizeof tests / sizeof *tests));
}
