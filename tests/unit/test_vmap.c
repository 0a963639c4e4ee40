/* test_vmap.c: sn_vmap by public functions alone [semantics T4, T5]: row 2.20 of the acceptance list, what bodies may
 * and may not, randomness, compiled functions and gradients. That every op has the loop's bits is test_ops vmap. */
#include <sinter/transform.h>
#include <stdio.h>

#include "tests/unit/contract.h"

static sn_tensor *batch(sn_body body, void *closure, const sn_vmap_options *options, sn_tensors in) {
    sn_tensor *out = NULL;
    const sn_status status = sn_vmap(body, closure, options, in, &out, 1);
    ck_assert_msg(status == SN_OK, "%s", status ? sn_error_take()->message : "");
    return out;
}
#define VMAP(body, closure, options, ...) batch(body, closure, options, SN_TENSORS(__VA_ARGS__))

/* 2.20 ---------------------------------------------------------------------------------------- */

static char keys[128];
static sn_status shows_keys(sn_frame *f) {
    snprintf(keys, sizeof keys, "%s", sn_keys(sn_in(f, 0)));
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 0));
    snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "; %s", sn_keys(y));
    return sn_out(f, 0, y);
}

static sn_status vmap_of(sn_frame *f) { /* of the body in the closure */
    sn_tensor *out = NULL;
    sn_vmap((sn_body)sn_closure(f), NULL, NULL, SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}

START_TEST(a2_20_inside_vmap_the_batched_key_is_printed) {
    sn_tensor *const x = F32(1, 3, 4);
    ck_assert_str_eq(sn_keys(x), "autograd, cpu");
    sn_tensor *const y = VMAP(shows_keys, NULL, NULL, x);
    ck_assert_str_eq(keys, "vmap, autograd, cpu; vmap, autograd, cpu");
    ck_assert_str_eq(sn_keys(y), "autograd, cpu");
    ck_assert(same_bits(y, sn_mul(x, x)));
    const Twin twin = twin_new(vmap_of, (void *)shows_keys, (void *)shows_keys, NULL);
    for (int i = 0; i < 3; i++) {
        keys[0] = '\0';
        ck_assert(same_bits(TWIN_CALL(twin, x), y));
        ck_assert_str_eq(keys, "vmap, autograd, cpu; vmap, autograd, cpu");
    }
    twin_free(twin);
}
END_TEST

/* sizes, dims, levels ------------------------------------------------------------------------- */

static sn_status dot_of(sn_frame *f) {
    ck_assert_int_eq(sn_rank(sn_in(f, 0)), 1);
    ck_assert_int_eq(sn_size(sn_in(f, 0), 0), 4);
    ck_assert_int_eq(sn_numel(sn_in(f, 0)), 4);
    return sn_out(f, 0, sn_sum(sn_mul(sn_in(f, 0), sn_in(f, 1))));
}

START_TEST(t5_sizes_show_one_example) {
    sn_tensor *const x = F32(1, 3, 4), *const y = F32(2, 4, 3), *const w = F32(3, 4);
    sn_tensor *const z = VMAP(dot_of, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, -1)), x, y);
    sn_tensor *const u = VMAP(dot_of, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT)), x, w);
    for (int i = 0; i < 3; i++) {
        ck_assert(same_bits(sn_select(z, 0, i), sn_sum(sn_mul(sn_select(x, 0, i), sn_select(y, 1, i)))));
        ck_assert(same_bits(sn_select(u, 0, i), sn_sum(sn_mul(sn_select(x, 0, i), w))));
    }
}
END_TEST

static sn_status adds(sn_frame *f) { return sn_out(f, 0, sn_add(sn_in(f, 0), sn_in(f, 1))); }
static sn_status adds_to_all(sn_frame *f) { /* in 0 one row, in 1 all rows */
    sn_tensor *out = NULL;
    sn_vmap(adds, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(SN_NO_INT, 0), .out_dims = SN_INTS(1)),
            SN_TENSORS(sn_in(f, 0), sn_in(f, 1)), &out, 1);
    return sn_out(f, 0, out);
}

START_TEST(t4_levels_nest) {
    sn_tensor *const x = F32(1, 3, 4), *const y = F32(2, 5, 4);
    sn_tensor *const z = VMAP(adds_to_all, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT)), x, y);
    ck_assert(same_bits(z, sn_transpose(sn_add(sn_unsqueeze(x, 1), sn_unsqueeze(y, 0)), 1, 2)));
    sn_tensor *const parts =
        VMAP(adds_to_all, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT), .chunk_size = 2), x, y);
    ck_assert(same_bits(parts, z));
}
END_TEST

static sn_status transposes(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_t(sn_in(f, 0)))); }
static sn_status transposes_all(sn_frame *f) {
    sn_tensor *out = NULL;
    sn_vmap(transposes, NULL, NULL, SN_TENSORS(sn_in(f, 0)), &out, 1);
    return sn_out(f, 0, out);
}
static int lines;
static void note_line(void *context, int level, const char *topic, const char *line) { lines++; }

START_TEST(t4_a_view_that_names_no_dim_in_an_inner_level_and_compiled) {
    sn_tensor *const x = F32(1, 2, 3, 4, 5), *const want = sn_exp(sn_transpose(x, -1, -2));
    sn_logging_set(note_line, NULL, "vmap");
    ck_assert(same_bits(VMAP(transposes_all, NULL, NULL, x), want));
    const Twin twin = twin_new(transposes_all, NULL, NULL, NULL);
    ck_assert(same_bits(TWIN_CALL(twin, sn_select(x, 0, 1)), sn_select(want, 0, 1)));
    ck_assert_int_eq(lines, 0);
    twin_free(twin);
}
END_TEST

static sn_status takes_a_part(sn_frame *f) {
    return sn_out(f, 0, sn_as_strided(sn_in(f, 0), SN_INTS(2, 2), SN_INTS(1, 2), 1));
}

/* A view by strides counts from where the example begins, wherever in the memory the examples are. */
START_TEST(t4_a_part_by_strides_of_examples_in_the_middle) {
    sn_tensor *const all = F32(1, 5, 3, 4);
    for (int64_t first = 0; first < 3; first++) {
        sn_tensor *const x = sn_narrow(all, 0, first, 3), *const out = VMAP(takes_a_part, NULL, NULL, x);
        for (int64_t i = 0; i < 3; i++) {
            sn_tensor *const one = sn_clone(sn_select(x, 0, i));
            ck_assert(same_bits(sn_select(out, 0, i), sn_as_strided(one, SN_INTS(2, 2), SN_INTS(1, 2), 1)));
        }
    }
}
END_TEST

/* what a body may not ------------------------------------------------------------------------- */

static sn_status asks(sn_frame *f) {
    const char *const what = sn_closure(f);
    sn_tensor *const x = sn_in(f, 0);
    char buffer[64];
    if (!strcmp(what, "sn_item")) sn_item(sn_sum(x));
    if (!strcmp(what, "sn_data")) sn_data(x, SN_F32);
    if (!strcmp(what, "sn_read")) sn_read(x, buffer, 16);
    if (!strcmp(what, "sn_repr")) sn_repr(x);
    if (!strcmp(what, "sn_data_mut")) sn_data_mut(x, SN_F32);
    if (!strcmp(what, "sn_touch")) sn_touch(x);
    if (!strcmp(what, "sn_requires_grad_")) sn_requires_grad_(x, true);
    if (!strcmp(what, "sn_backward")) sn_backward(sn_sum(x));
    return sn_out(f, 0, x);
}

START_TEST(t5_values_are_an_error) {
    static const char *const names[] = {"sn_item",     "sn_data",  "sn_read",           "sn_repr",
                                        "sn_data_mut", "sn_touch", "sn_requires_grad_", "sn_backward"};
    sn_tensor *const x = F32(1, 3, 4), *out = x;
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(sn_vmap(asks, (void *)(uintptr_t)names[i], NULL, SN_TENSORS(x), &out, 1), SN_ERR_STATE);
        ck_assert_ptr_null(out);
        expect_error(SN_ERR_STATE, names[i]);
    }
}
END_TEST

static sn_status writes(sn_frame *f) { return sn_out(f, 0, sn_add_(sn_in(f, 1), sn_in(f, 0))); }

START_TEST(t5_a_batched_value_written_into_an_unbatched_tensor_is_an_error) {
    sn_tensor *const x = F32(1, 3, 4), *const y = F32(2, 4), *const was = sn_clone(y), *out;
    const sn_vmap_options *const unbatched = SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT));
    ck_assert_int_eq(sn_vmap(writes, NULL, unbatched, SN_TENSORS(x, y), &out, 1), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "not batched");
    ck_assert(same_bits(y, was));
    sn_tensor *const z = F32(3, 3, 4), *const want = sn_add(z, x); /* all of a batched one */
    ck_assert(same_bits(VMAP(writes, NULL, NULL, x, z), want));
    ck_assert(same_bits(z, want));
}
END_TEST

static sn_status lays_out_anew(sn_frame *f) {
    sn_tensor *const x = sn_relu(sn_in(f, 0));
    sn_unsqueeze_(x, 0);
    ck_assert_int_eq(sn_rank(x), 2);
    sn_cumsum_(x, 1, SN_DTYPE_DEFAULT);
    sn_addmm_(x, sn_ones(SN_INTS(1, 2), SN_F32), sn_ones(SN_INTS(2, 4), SN_F32));
    sn_mul_out(x, x, x);
    return sn_out(f, 0, x);
}

START_TEST(t5_forms_that_write) {
    sn_tensor *const x = F32(1, 3, 4), *const y = VMAP(lays_out_anew, NULL, NULL, x);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const one = sn_unsqueeze(sn_relu(sn_select(x, 0, i)), 0);
        sn_addmm_(sn_cumsum_(one, 1, SN_DTYPE_DEFAULT), sn_ones(SN_INTS(1, 2), SN_F32), sn_ones(SN_INTS(2, 4), SN_F32));
        ck_assert(same_bits(sn_select(y, 0, i), sn_mul(one, one)));
    }
}
END_TEST

static sn_tensor *stray;
static sn_status escapes(sn_frame *f) {
    stray = sn_retain(sn_in(f, 0));
    return sn_out(f, 0, sn_in(f, 0));
}

START_TEST(t5_a_handle_that_outlived_its_vmap_says_so) {
    VMAP(escapes, NULL, NULL, F32(1, 3, 4));
    ck_assert_ptr_null(sn_add(stray, stray));
    expect_error(SN_ERR_STATE, "has ended");
    sn_release(stray);
}
END_TEST

static sn_status identity(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }

START_TEST(t5_bad_calls_name_inputs_and_sizes) {
    sn_tensor *const x = F32(1, 3, 4), *const y = F32(2, 5, 4), *out;
    sn_vmap(adds, NULL, NULL, SN_TENSORS(x, y), &out, 1);
    expect_error(SN_ERR_SHAPE, "input 0 of sizes [3, 4] has 3 examples, input 1 of sizes [5, 4] has 5");
    sn_vmap(adds, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, 2)), SN_TENSORS(x, y), &out, 1);
    expect_error(SN_ERR_SHAPE, "in_dims[1] is 2, out of range for input 1 of sizes [5, 4]");
    sn_vmap(adds, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0)), SN_TENSORS(x, y), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "in_dims has 1 entries for 2 inputs");
    sn_vmap(identity, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(SN_NO_INT)), SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "no input is batched");
    sn_vmap(identity, NULL, SN_VMAP_OPTIONS(.out_dims = SN_INTS(2)), SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_SHAPE, "out_dims[0] is 2");
    sn_vmap(identity, NULL, SN_VMAP_OPTIONS(.out_dims = SN_INTS(SN_NO_INT)), SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "output 0 differs");
    sn_vmap(identity, NULL, SN_VMAP_OPTIONS(.chunk_size = -1), SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "chunk_size is -1");
    sn_vmap(NULL, NULL, NULL, SN_TENSORS(x), &out, 1);
    expect_error(SN_ERR_ARGUMENT, "body is NULL");
}
END_TEST

/* randomness ---------------------------------------------------------------------------------- */

static sn_status noisy(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const noise = sn_rand(SN_INTS(4), SN_F32);
    return sn_out(f, 0, sn_add(sn_dropout(x, 0.5, true), noise));
}

static sn_tensor *random_vmap(sn_vmap_randomness randomness, int64_t chunk, uint64_t *numbers) {
    sn_seed(7);
    const sn_vmap_options *const options = SN_VMAP_OPTIONS(.randomness = randomness, .chunk_size = chunk);
    sn_tensor *const y = VMAP(noisy, NULL, options, F32(1, 5, 4));
    *numbers = sn_rng_get().sequence;
    return y;
}

START_TEST(t5_randomness) {
    uint64_t numbers;
    sn_tensor *const x = F32(1, 5, 4), *out;
    ck_assert_int_eq(sn_vmap(noisy, NULL, NULL, SN_TENSORS(x), &out, 1), SN_ERR_STATE);
    expect_error(SN_ERR_STATE, "randomness");
    sn_seed(7); /* in the order of the body */
    sn_tensor *const noise = sn_rand(SN_INTS(5, 4), SN_F32), *const want = sn_add(sn_dropout(x, 0.5, true), noise);
    for (int64_t chunk = 0; chunk < 4; chunk++) {
        ck_assert(same_bits(random_vmap(SN_VMAP_RANDOM_DIFFERENT, chunk, &numbers), want));
        ck_assert_int_eq((int)numbers, 2);
    }
    sn_tensor *const same = random_vmap(SN_VMAP_RANDOM_SAME, 0, &numbers);
    ck_assert_int_eq((int)numbers, 2);
    for (int i = 0; i < 5; i++) {
        sn_seed(7);
        sn_tensor *const one = sn_rand(SN_INTS(4), SN_F32);
        ck_assert(same_bits(sn_select(same, 0, i), sn_add(sn_dropout(sn_select(x, 0, i), 0.5, true), one)));
    }
    ck_assert(same_bits(random_vmap(SN_VMAP_RANDOM_SAME, 2, &numbers), same));
    ck_assert_int_eq((int)numbers, 2);
}
END_TEST

/* gradients, compiled functions, autocast ----------------------------------------------------- */

static sn_status layer(sn_frame *f) { return sn_out(f, 0, sn_gelu(sn_linear(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)))); }

static sn_status batched_layer(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_vmap(layer, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT, SN_NO_INT)),
            SN_TENSORS(sn_in(f, 0), sn_in(f, 1), sn_in(f, 2)), &y, 1);
    return sn_out(f, 0, y);
}

static void same_gradients(sn_function *fn, sn_tensors in, sn_tensor *want, sn_tensor *const *gradients) {
    sn_tensor *const y = sn_call1(fn, in), *got[3];
    ck_assert_msg(y && same_bits(y, want), "%s", sn_check() ? sn_error_take()->message : "other bits");
    ck_assert_int_eq(sn_gradients(SN_TENSORS(sn_sum(y)), in, (sn_tensors){0}, 0, got), SN_OK);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(got[i], gradients[i]));
}

START_TEST(t4_a_compiled_function_holds_the_ops_on_all_examples) {
    sn_tensor *const x = LEAF(1, 6, 2, 8), *const w = LEAF(2, 5, 8), *const b = LEAF(3, 5), *gradients[3];
    sn_tensor *const want = sn_gelu(sn_linear(x, w, b));
    ck_assert_int_eq(sn_gradients(SN_TENSORS(sn_sum(want)), SN_TENSORS(x, w, b), (sn_tensors){0}, 0, gradients), SN_OK);
    sn_function *const eager = sn_compile(batched_layer, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_function *const fast = sn_compile(batched_layer, NULL, NULL);
    same_gradients(eager, SN_TENSORS(x, w, b), want, gradients);
    for (int i = 0; i < 3; i++) same_gradients(fast, SN_TENSORS(x, w, b), want, gradients);
    ck_assert_int_eq((int)stats_of(fast).graphs, 1);
    ck_assert_int_eq((int)stats_of(fast).breaks, 0);
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    sn_function_free(eager);
    sn_function_free(fast);
}
END_TEST

static sn_status calls_compiled(sn_frame *f) { return sn_out(f, 0, SN_CALL(sn_closure(f), sn_in(f, 0))); }
static sn_status squares(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 0))); }

START_TEST(t4_a_compiled_function_in_a_body) {
    sn_tensor *const x = F32(1, 3, 4);
    sn_function *const fn = sn_compile(squares, NULL, NULL);
    ck_assert(same_bits(VMAP(calls_compiled, fn, NULL, x), sn_mul(x, x)));
    sn_function_free(fn);
}
END_TEST

static sn_status cast_layer(sn_frame *f) {
    return sn_out(f, 0, sn_softmax(sn_linear(sn_in(f, 0), sn_in(f, 1), NULL), -1));
}

START_TEST(t4_autocast_casts_one_example) {
    sn_tensor *const x = F32(1, 3, 8), *const w = F32(2, 5, 8);
    const sn_scope mark = sn_scope_begin();
    sn_autocast_set(SN_CPU, SN_BF16);
    sn_tensor *const y = VMAP(cast_layer, NULL, SN_VMAP_OPTIONS(.in_dims = SN_INTS(0, SN_NO_INT)), x, w);
    ck_assert_int_eq(sn_dtype_of(y), SN_F32);
    for (int i = 0; i < 3; i++)
        ck_assert(same_bits(sn_select(y, 0, i), sn_softmax(sn_linear(sn_select(x, 0, i), w, NULL), -1)));
    sn_scope_end(mark);
}
END_TEST

/* other functions of functions ---------------------------------------------------------------- */

static sn_status checkpoints(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_checkpoint(sn_closure(f) ? vmap_of : squares, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}
static sn_status branches(sn_frame *f) {
    sn_tensor *y = NULL;
    sn_cond(sn_any(sn_in(f, 0)), vmap_of, vmap_of, sn_closure(f), NULL, SN_TENSORS(sn_in(f, 0)), &y, 1);
    return sn_out(f, 0, y);
}

static void same_inside(sn_body around) {
    sn_tensor *const x = LEAF(1, 3, 4), *gradient, *want;
    sn_function *const fn = sn_compile(around, (void *)squares, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    sn_tensor *const y = SN_CALL(fn, x);
    ck_assert_msg(y && same_bits(y, sn_mul(x, x)), "%s", sn_error_take()->message);
    ck_assert_int_eq(sn_gradients(SN_TENSORS(sn_sum(y)), SN_TENSORS(x), (sn_tensors){0}, 0, &gradient), SN_OK);
    sn_gradients(SN_TENSORS(sn_sum(sn_mul(x, x))), SN_TENSORS(x), (sn_tensors){0}, 0, &want);
    ck_assert(same_bits(gradient, want));
    sn_function_free(fn);
}

START_TEST(t4_vmap_inside_of_a_checkpoint_and_a_branch) {
    same_inside(checkpoints);
    same_inside(branches);
}
END_TEST

/* slow, and said so --------------------------------------------------------------------------- */

static int said;
static void count_lines(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level;
    said += !strcmp(topic, "vmap") && strstr(line, "aten::embedding ") != NULL;
}

static sn_tensor *row_of(sn_tensor *rows) { return sn_embedding(rows, sn_full(SN_INTS(2), sn_int(1), SN_I64)); }
static sn_status second_rows(sn_frame *f) { return sn_out(f, 0, row_of(sn_in(f, 0))); }

START_TEST(t5_a_slow_loop_says_so_once) {
    sn_tensor *const x = F32(1, 3, 4, 2);
    sn_logging_set(count_lines, NULL, NULL);
    for (int k = 0; k < 2; k++) {
        sn_tensor *const z = VMAP(second_rows, NULL, NULL, x);
        for (int i = 0; i < 3; i++) ck_assert(same_bits(sn_select(z, 0, i), row_of(sn_select(x, 0, i))));
    }
    ck_assert_int_eq(said, 1);
}
END_TEST

static int loops;
static void count_loops(void *context, int level, const char *topic, const char *line) {
    loops += !strcmp(topic, "vmap");
}

static sn_status sums_and_orders(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    return sn_out(f, 0, sn_where(sn_gt(x, y), sn_add(x, y), sn_mul(x, y)));
}

/* 0-dim tensors are weaker in promotion; examples are 0-dim where the whole is not. Runs on all examples at once where
 * that promotes alike: wherever nothing but 0-dim tensors is given, for one. */
START_TEST(t5_promotion_is_that_of_one_example) {
    static const sn_dtype dtypes[] = {SN_BF16, SN_F16, SN_F32, SN_F64, SN_I32, SN_U8};
    enum { N = sizeof dtypes / sizeof *dtypes };
    sn_tensor *const x = sn_mul_scalar(F32(1, 3), sn_float(100)), *const y = sn_mul_scalar(F32(2, 3), sn_float(100));
    sn_logging_set(count_loops, NULL, NULL);
    for (int pair = 0; pair < N * N; pair++)
        for (int kind = 0; kind < 3; kind++) { /* the other: batched, one number, or of one dim */
            sn_tensor *const a = sn_to(x, dtypes[pair / N]), *const all = sn_to(y, dtypes[pair % N]);
            sn_tensor *const b = kind == 1 ? sn_select(all, 0, 0) : all;
            const sn_vmap_options options = {.size = sizeof options, .in_dims = SN_INTS(0, kind ? SN_NO_INT : 0)};
            loops = 0;
            sn_tensor *const out = VMAP(sums_and_orders, NULL, &options, a, b);
            ck_assert_msg(kind == 2 || loops == 0, "dtypes %d and %d, kind %d", pair / N, pair % N, kind);
            for (int i = 0; i < 3; i++) {
                sn_tensor *const one = sn_select(a, 0, i), *const other = kind ? b : sn_select(b, 0, i);
                sn_tensor *const want = sn_where(sn_gt(one, other), sn_add(one, other), sn_mul(one, other));
                ck_assert_msg(same_bits(sn_select(out, 0, i), want), "dtypes %d and %d, kind %d", pair / N, pair % N,
                              kind);
            }
        }
    sn_logging_set(NULL, NULL, NULL);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a2_20_inside_vmap_the_batched_key_is_printed,
                                  t5_sizes_show_one_example,
                                  t4_levels_nest,
                                  t4_a_part_by_strides_of_examples_in_the_middle,
                                  t4_a_view_that_names_no_dim_in_an_inner_level_and_compiled,
                                  t5_values_are_an_error,
                                  t5_a_batched_value_written_into_an_unbatched_tensor_is_an_error,
                                  t5_forms_that_write,
                                  t5_a_handle_that_outlived_its_vmap_says_so,
                                  t5_bad_calls_name_inputs_and_sizes,
                                  t5_randomness,
                                  t4_a_compiled_function_holds_the_ops_on_all_examples,
                                  t4_a_compiled_function_in_a_body,
                                  t4_autocast_casts_one_example,
                                  t4_vmap_inside_of_a_checkpoint_and_a_branch,
                                  t5_a_slow_loop_says_so_once,
                                  t5_promotion_is_that_of_one_example};
    return contract_main("test_vmap", tests, (int)(sizeof tests / sizeof *tests));
}
