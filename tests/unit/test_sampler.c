/* test_sampler.c: columns, grids and bags [B2.11 to B2.13]: every layout, a row alone and its batch have the same bits;
 * bags of several sizes, whose offsets the op table's samples cannot say. */
#include <sinter/ops.h>

#include "tests/unit/contract.h"

static sn_tensor *channels_last(sn_tensor *x) {
    return sn_permute(sn_contiguous(sn_permute(x, SN_INTS(0, 2, 3, 1))), SN_INTS(0, 3, 1, 2));
}
static sn_tensor *row_of(sn_tensor *x, int64_t i) { return sn_narrow(x, 0, i, 1); }
static sn_tensor *i64s(const int64_t *data, int64_t n) { return sn_from_data(data, SN_INTS(n), SN_I64); }
#define I64S(...) i64s((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* layouts and batches ------------------------------------------------------------------------- */

static sn_tensor *columns(sn_tensor *x) {
    return sn_im2col(x, SN_INTS(2, 3), SN_INTS(1, 2), SN_INTS(1, 0), SN_INTS(2, 1));
}
static sn_tensor *images(sn_tensor *x) {
    return sn_col2im(x, SN_INTS(7, 8), SN_INTS(2, 3), SN_INTS(1, 2), SN_INTS(1, 0), SN_INTS(2, 1));
}

START_TEST(columns_know_no_layout_and_no_batch) {
    sn_tensor *const x = F32(1, 3, 5, 7, 8), *const all = columns(x), *const back = images(all);
    ck_assert(same_bits(columns(channels_last(x)), all));
    ck_assert(same_bits(images(sn_transpose(sn_contiguous(sn_transpose(all, 1, 2)), 1, 2)), back));
    for (int64_t i = 0; i < 3; i++) {
        ck_assert(same_bits(columns(row_of(x, i)), row_of(all, i)));
        ck_assert(same_bits(columns(sn_select(x, 0, i)), sn_select(all, 0, i)));
        ck_assert(same_bits(images(row_of(all, i)), row_of(back, i)));
        ck_assert(same_bits(images(sn_select(all, 0, i)), sn_select(back, 0, i)));
    }
}
END_TEST

/* A convolution is a product with the columns. */
START_TEST(columns_are_those_of_a_convolution) {
    sn_tensor *const x = F32(1, 2, 3, 6, 6), *const w = F32(2, 4, 3, 3, 3);
    sn_tensor *const by =
        sn_matmul(sn_view(w, SN_INTS(4, 27)), sn_im2col(x, SN_INTS(3, 3), SN_INTS(1, 1), SN_INTS(0, 0), SN_INTS(1, 1)));
    sn_tensor *const y =
        sn_convolution(x, w, NULL, SN_INTS(1, 1), SN_INTS(0, 0), SN_INTS(1, 1), false, SN_INTS(0, 0), 1);
    ck_assert(same_bits(sn_view(by, SN_INTS(2, 4, 4, 4)), y));
}
END_TEST

START_TEST(grids_know_no_layout_and_no_batch) {
    sn_tensor *const x = F32(1, 3, 5, 6, 7), *const grid = F32(2, 3, 4, 5, 2), *const turned = channels_last(x);
    for (int64_t mode = 0; mode < 3; mode++)
        for (int64_t padding = 0; padding < 3; padding++)
            for (int align = 0; align < 2; align++) {
                sn_tensor *const all = sn_grid_sampler_2d(x, grid, mode, padding, align);
                ck_assert(same_bits(sn_grid_sampler_2d(turned, channels_last(grid), mode, padding, align), all));
                for (int64_t i = 0; i < 3; i++)
                    ck_assert(same_bits(sn_grid_sampler_2d(row_of(x, i), row_of(grid, i), mode, padding, align),
                                        row_of(all, i)));
            }
}
END_TEST

/* A volume of one layer, read in its middle, is a plane: of weights 1 and 0 along z nothing is left but the plane's. */
START_TEST(volumes_of_one_layer_are_planes) {
    sn_tensor *const x = F32(1, 2, 3, 5, 6), *const grid = F32(2, 2, 3, 4, 2);
    sn_tensor *const middle = sn_cat(SN_TENSORS(grid, sn_zeros(SN_INTS(2, 3, 4, 1), SN_F32)), -1);
    for (int64_t mode = 0; mode < 3; mode++)
        for (int64_t padding = 0; padding < 3; padding++)
            for (int align = 0; align < 2; align++) {
                sn_tensor *const plane = sn_grid_sampler_2d(x, grid, mode, padding, align);
                sn_tensor *const volume =
                    sn_grid_sampler_3d(sn_unsqueeze(x, 2), sn_unsqueeze(middle, 1), mode, padding, align);
                ck_assert(same_bits(sn_grid_sampler(sn_unsqueeze(x, 2), sn_unsqueeze(middle, 1), mode, padding, align),
                                    volume));
                ck_assert(sn_item(sn_all(sn_isclose(sn_squeeze_dim(volume, 2), plane, 1e-5, 1e-6, false))));
            }
}
END_TEST

/* The dims of a volume have their coordinates from last to first: x of W, y of H, z of D. */
START_TEST(turned_volumes_have_turned_grids) {
    sn_tensor *const x = F32(1, 2, 3, 3, 4, 5), *const grid = F32(2, 2, 2, 3, 2, 3);
    sn_tensor *const turned = sn_contiguous(sn_permute(x, SN_INTS(0, 1, 4, 2, 3)));
    sn_tensor *const about = sn_index_select(grid, -1, sn_from_data(((int64_t[]){1, 2, 0}), SN_INTS(3), SN_I64));
    for (int64_t mode = 0; mode < 2; mode++)
        for (int64_t padding = 0; padding < 3; padding++) {
            sn_tensor *const one = sn_grid_sampler_3d(x, grid, mode, padding, false);
            sn_tensor *const other = sn_grid_sampler_3d(turned, about, mode, padding, false);
            ck_assert(sn_item(sn_all(sn_isclose(one, other, 1e-5, 1e-6, false))));
        }
}
END_TEST

/* Outside of the plane there is nothing, whatever stands at its border; what is no position reads nothing. */
START_TEST(infinite_borders_stay_outside) {
    sn_tensor *const x = sn_full(SN_INTS(1, 1, 2, 2), sn_float(INFINITY), SN_F32);
    static const float far[] = {-9, 0, NAN, 0.5f, INFINITY, 3};
    sn_tensor *const grid = sn_from_data(far, SN_INTS(1, 1, 3, 2), SN_F32);
    for (int64_t mode = 0; mode < 3; mode++) {
        sn_tensor *const y = sn_grid_sampler_2d(x, grid, mode, 0, false);
        ck_assert(same_bits(y, sn_zeros(SN_INTS(1, 1, 1, 3), SN_F32)));
    }
}
END_TEST

/* The gradient in grid depends on input: where a position is NaN or infinite, by nothing. */
START_TEST(places_that_are_none_spoil_no_second_gradient) {
    static const float places[] = {NAN, 0, INFINITY, 0.5f, 0.25f, -INFINITY, 0.25f, 0.5f};
    for (int64_t mode = 0; mode < 3; mode += 2) {
        sn_tensor *const x = F32(1, 1, 1, 3, 3), *const grid = sn_from_data(places, SN_INTS(1, 1, 4, 2), SN_F32);
        sn_requires_grad_(x, true), sn_requires_grad_(grid, true);
        sn_tensor *const y = sn_sum(sn_grid_sampler_2d(x, grid, mode, 0, false)), *first = NULL, *second = NULL;
        ck_assert_int_eq(sn_gradients(SN_TENSORS(y), SN_TENSORS(grid), (sn_tensors){0}, SN_CREATE_GRAPH, &first),
                         SN_OK);
        ck_assert_int_eq(sn_gradients(SN_TENSORS(sn_sum(first)), SN_TENSORS(x), (sn_tensors){0}, 0, &second), SN_OK);
        ck_assert(sn_item(sn_all(sn_isfinite(second))));
        ck_assert(!sn_item(sn_all(sn_eq(second, sn_zeros_like(second)))));
    }
}
END_TEST

/* What PyTorch gives for these bytes: weights of 14 and 15 bits, a byte after each dim. */
START_TEST(images_of_bytes_have_whole_weights) {
    static const uint8_t x[] = {7,  96,  185, 18,  107, 196, 29,  118, 207, 40,  129, 218,
                                95, 184, 17,  106, 195, 28,  117, 206, 39,  128, 217, 50};
    static const uint8_t larger[] = {7,   39,  90,  141, 173, 78,  18,  47,  79,  130, 130, 118, 81,  58,
                                     107, 139, 190, 113, 35,  86,  118, 167, 144, 107, 96,  95,  146, 178,
                                     207, 147, 52,  85,  135, 186, 218, 95,  127, 178, 101, 23,  74,  106,
                                     135, 130, 123, 90,  63,  114, 146, 195, 135, 40,  73,  123, 174, 206,
                                     101, 97,  89,  133, 172, 136, 112, 39,  71,  122, 173, 205, 110, 50};
    static const uint8_t aligned[] = {7,  40, 74,  107, 141, 174, 143, 81,  18,  207, 144, 82,
                                      51, 85, 118, 151, 185, 218, 95,  128, 162, 163, 101, 38,
                                      39, 73, 106, 39,  72,  106, 139, 173, 206, 175, 113, 50};
    sn_tensor *const image = sn_from_data(x, SN_INTS(1, 2, 3, 4), SN_U8);
    sn_tensor *const turned = channels_last(image);
    ck_assert(same_bits(sn_upsample_bilinear2d(image, SN_INTS(5, 7), false),
                        sn_from_data(larger, SN_INTS(1, 2, 5, 7), SN_U8)));
    ck_assert(same_bits(sn_upsample_bilinear2d(turned, SN_INTS(2, 9), true),
                        sn_from_data(aligned, SN_INTS(1, 2, 2, 9), SN_U8)));
}
END_TEST

/* bags ---------------------------------------------------------------------------------------- */

typedef struct BagCall {
    int64_t mode, padding;
    bool weighted;
} BagCall;

static sn_tensor *bags_of(const BagCall *call, sn_tensor *w, sn_tensor *indices, sn_tensor *offsets, sn_tensor *by) {
    const sn_value none = {.kind = SN_KIND_NONE};
    const sn_value in[] = {sn_val(w),
                           sn_val(indices),
                           sn_val(offsets),
                           sn_bool(false),
                           sn_int(call->mode),
                           sn_bool(false),
                           call->weighted ? sn_val(by) : none,
                           sn_bool(false),
                           sn_int(call->padding)};
    sn_value outs[4];
    int n = 4;
    if (sn_op_call(sn_op_find("aten::_embedding_bag"), in, 9, outs, &n) != SN_OK) return NULL;
    return outs[0].tensor;
}

static const BagCall calls[] = {{0, -1, false}, {0, 3, true},   {0, -1, true}, {1, -1, false},
                                {1, 2, false},  {2, -1, false}, {2, 2, false}};
enum { CALLS = sizeof calls / sizeof *calls };
static const int64_t ends[] = {0, 3, 3, 8, 11};

static sn_tensor *some_indices(void) { return I64S(1, 2, 4, 0, 0, 2, 3, 2, 2, 2, 2); }

/* The same by ops of one bag. */
static sn_tensor *by_hand(const BagCall *call, sn_tensor *w, sn_tensor *indices, sn_tensor *by, int bag) {
    sn_tensor *joined = sn_zeros(SN_INTS(sn_size(w, 1)), SN_F32);
    int64_t at[11], size = 0;
    sn_read(indices, at, sizeof at);
    for (int64_t i = ends[bag]; i < ends[bag + 1]; i++) {
        if (at[i] == call->padding) continue;
        sn_tensor *const row = sn_select(w, 0, at[i]);
        sn_tensor *const part = call->weighted ? sn_mul(row, sn_select(by, 0, i)) : row;
        joined = call->mode == 2 ? size ? sn_maximum(joined, part) : part : sn_add(joined, part);
        size++;
    }
    return call->mode == 1 && size ? sn_div_scalar(joined, sn_float((double)size)) : joined;
}

START_TEST(bags_are_chains_of_their_rows) {
    sn_tensor *const w = F32(1, 5, 6), *const indices = some_indices(), *const by = F32(2, 11);
    sn_tensor *const offsets = I64S(0, 3, 3, 8), *const turned = sn_t(sn_contiguous(sn_t(w)));
    const BagCall *const call = &calls[_i];
    sn_tensor *const all = bags_of(call, w, indices, offsets, by);
    ck_assert_msg(all != NULL, "%s", sn_error_take()->message);
    ck_assert(same_bits(bags_of(call, turned, indices, offsets, by), all));
    for (int bag = 0; bag < 4; bag++)
        ck_assert_msg(same_bits(sn_select(all, 0, bag), by_hand(call, w, indices, by, bag)), "bag %d", bag);
}
END_TEST

static sn_status body(sn_frame *f) {
    return sn_out(
        f, 0,
        sn_mul_scalar(bags_of(sn_closure(f), sn_mul(sn_in(f, 0), sn_in(f, 0)), sn_in(f, 1), sn_in(f, 2), sn_in(f, 3)),
                      sn_float(2)));
}

static sn_path compiled_as_eager(const Twin *twin, int i) {
    sn_tensor *const w[] = {LEAF(i, 5, 6), LEAF(i, 5, 6)}, *const by[] = {LEAF(i + 9, 11), LEAF(i + 9, 11)};
    sn_tensor *const indices = some_indices(), *const offsets = I64S(0, 3, 3, 8), *y[2];
    sn_path path = SN_PATH_EAGER;
    for (int k = 0; k < 2; k++) {
        y[k] = SN_CALL(k ? twin->eager : twin->fast, w[k], indices, offsets, by[k]);
        if (k == 0) path = last_path();
        ck_assert_msg(y[k] && sn_backward(sn_sum(sn_mul(y[k], y[k]))) == SN_OK, "%s", sn_error_take()->message);
    }
    ck_assert(same_bits(y[0], y[1]));
    ck_assert(same_bits(sn_grad(w[0]), sn_grad(w[1])));
    ck_assert(same_bits(sn_grad(by[0]), sn_grad(by[1])));
    return path;
}

START_TEST(bags_and_their_gradients_compile) {
    BagCall call = calls[_i];
    const Twin twin = twin_new(body, &call, &call, NULL);
    sn_path path = SN_PATH_EAGER;
    for (int i = 0; i < 3; i++) path = compiled_as_eager(&twin, i);
    ck_assert_int_eq(path, SN_PATH_COMPILED);
    twin_free(twin);
}
END_TEST

/* In a sum f32 rows leave offset2bag out, f64 rows do not: both ways to the gradient. */
START_TEST(gradients_know_the_bags) {
    sn_tensor *const indices = some_indices(), *const offsets = I64S(0, 3, 3, 8), *const narrow = LEAF(1, 5, 2);
    sn_tensor *const wide = sn_requires_grad_(sn_to(sn_detach(narrow), SN_F64), true);
    sn_tensor *const factor = sn_reshape(sn_arange(sn_int(8), SN_F32), SN_INTS(4, 2));
    sn_backward(sn_sum(sn_mul(bags_of(&calls[0], narrow, indices, offsets, NULL), factor)));
    sn_backward(sn_sum(sn_mul(bags_of(&calls[0], wide, indices, offsets, NULL), factor)));
    static const float want[] = {8, 10, 0, 1, 26, 32, 4, 5, 0, 1}; /* rows 0 to 4 */
    ck_assert(same_bits(sn_grad(narrow), sn_to(sn_grad(wide), SN_F32)));
    ck_assert(same_bits(sn_grad(narrow), sn_from_data(want, SN_INTS(5, 2), SN_F32)));
}
END_TEST

START_TEST(wrong_bags_are_errors) {
    sn_tensor *const w = F32(1, 5, 2), *const indices = some_indices();
    ck_assert_ptr_null(bags_of(&calls[0], w, indices, I64S(1, 2), NULL));
    expect_error(SN_ERR_VALUE, "the first must be 0");
    ck_assert_ptr_null(bags_of(&calls[0], w, indices, I64S(0, 5, 4), NULL));
    expect_error(SN_ERR_VALUE, "must not descend");
    ck_assert_ptr_null(bags_of(&calls[0], w, indices, I64S(0, 12), NULL));
    expect_error(SN_ERR_VALUE, "fewer indices");
    ck_assert_ptr_null(bags_of(&calls[0], w, I64S(0, 5), I64S(0), NULL));
    expect_error(SN_ERR_VALUE, "indices 5 is out of range");
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("sampler");
    tcase_add_test(tests, columns_know_no_layout_and_no_batch);
    tcase_add_test(tests, columns_are_those_of_a_convolution);
    tcase_add_test(tests, grids_know_no_layout_and_no_batch);
    tcase_add_test(tests, volumes_of_one_layer_are_planes);
    tcase_add_test(tests, turned_volumes_have_turned_grids);
    tcase_add_test(tests, infinite_borders_stay_outside);
    tcase_add_test(tests, places_that_are_none_spoil_no_second_gradient);
    tcase_add_test(tests, images_of_bytes_have_whole_weights);
    tcase_add_loop_test(tests, bags_are_chains_of_their_rows, 0, CALLS);
    tcase_add_loop_test(tests, bags_and_their_gradients_compile, 0, CALLS);
    tcase_add_test(tests, gradients_know_the_bags);
    tcase_add_test(tests, wrong_bags_are_errors);
    return suite_run("sampler", tests);
}
