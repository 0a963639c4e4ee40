/* test_modes.c: fake and functional mode: the row 5.09 of the acceptance list, by public headers, eagerly and inside of
 * and around compiled functions. */
#include <stdio.h>

#include "tests/unit/contract.h"

static const sn_compile_mode compile_modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};

static void expect_layout(sn_tensor *t, sn_device device, sn_dtype dtype, sn_ints sizes) {
    ck_assert_msg(t != NULL, "%s", sn_error_take()->message);
    ck_assert(sn_is_fake(t));
    ck_assert_int_eq(sn_device_of(t), device);
    ck_assert_int_eq(sn_dtype_of(t), dtype);
    const sn_ints got = sn_sizes(t);
    ck_assert_int_eq(got.n, sizes.n);
    for (int64_t i = 0; i < sizes.n; i++) ck_assert_int_eq(got.data[i], sizes.data[i]);
    sn_storage s = {.size = sizeof s};
    ck_assert_int_eq(sn_storage_of(t, &s), SN_OK);
    ck_assert_ptr_null(s.id);
    ck_assert_int_eq(s.bytes, 0);
}

/* Fake ---------------------------------------------------------------------------------------- */

START_TEST(a5_09_fake_tensors_claim_devices_and_have_no_values) {
    sn_tensor *const real = F32(1, 3);
    const sn_scope scope = sn_scope_begin();
    ck_assert(!sn_fake_mode_set(true) && sn_fake_mode());
    sn_default_device_set(SN_CUDA(1)); /* there is none here */
    sn_tensor *const w = sn_randn(SN_INTS(1 << 20, 1 << 20), SN_BF16), *const x = F32(1, 4, 3);
    expect_layout(w, SN_CUDA(1), SN_BF16, SN_INTS(1 << 20, 1 << 20));
    expect_layout(x, SN_CUDA(1), SN_F32, SN_INTS(4, 3));
    expect_layout(sn_mm(w, w), SN_CUDA(1), SN_BF16, SN_INTS(1 << 20, 1 << 20));
    expect_layout(sn_softmax(sn_t(x), 0), SN_CUDA(1), SN_F32, SN_INTS(3, 4));
    expect_layout(sn_to_device(x, SN_CPU), SN_CPU, SN_F32, SN_INTS(4, 3));
    expect_layout(sn_add(sn_to_device(x, SN_CPU), real), SN_CPU, SN_F32, SN_INTS(4, 3));
    expect_layout(sn_add_(x, sn_mul_scalar(x, sn_float(2))), SN_CUDA(1), SN_F32, SN_INTS(4, 3));
    expect_layout(sn_cat(SN_TENSORS(x, x), 1), SN_CUDA(1), SN_F32, SN_INTS(4, 6));
    ck_assert_ptr_null(sn_add(x, real));
    expect_error(SN_ERR_DEVICE, "all tensors must be on one device");
    ck_assert_ptr_null(sn_mm(x, x));
    expect_error(SN_ERR_SHAPE, "aten::mm");
    ck_assert(isnan(sn_item(sn_sum(x))));
    expect_error(SN_ERR_STATE, "sn_item: a fake tensor (sn_fake_mode_set) on cuda:1 has no values");
    ck_assert_ptr_null(sn_nonzero(x));
    expect_error(SN_ERR_UNSUPPORTED, "the sizes of its results follow from values, and a fake tensor has none");
    ck_assert_ptr_null(sn_zero_(real));
    expect_error(SN_ERR_STATE, "a tensor with values would be written");
    ck_assert(!sn_is_fake(real) && sn_is_fake(x));
    sn_tensor *const kept = sn_scope_return(scope, x);
    ck_assert(!sn_fake_mode());
    expect_layout(sn_relu(kept), SN_CUDA(1), SN_F32, SN_INTS(4, 3));
    ck_assert(!sn_is_fake(sn_relu(real)) && same_bits(real, F32(1, 3)));
    ck_assert_ptr_null(sn_copy_(real, sn_to_device(kept, SN_CPU)));
    expect_error(SN_ERR_STATE, "a tensor with values would be written");
    ck_assert(!sn_is_fake(NULL));
    expect_error(SN_ERR_ARGUMENT, "sn_is_fake: the tensor is NULL");
}
END_TEST

/* A step of training, without a value anywhere. */
static void fake_step(sn_device device) {
    sn_default_device_set(device);
    sn_dict *const d = sn_dict_new();
    sn_tensor *w = NULL, *b = NULL;
    ck_assert_int_eq(sn_param_linear(d, "l", 3, 5, &w, &b), SN_OK);
    sn_autocast_set(device, SN_BF16); /* w is cast once, for both */
    expect_layout(sn_linear(F32(1, 7, 3), w, b), device, SN_BF16, SN_INTS(7, 5));
    sn_tensor *const y = sn_relu(sn_linear(F32(1, 7, 3), w, b));
    sn_autocast_set(device, SN_F32);
    sn_optim *const optim = sn_adamw(d, 0.1, 0.01);
    sn_tensor *const loss = sn_mean(sn_mul(y, y));
    expect_layout(loss, device, SN_BF16, (sn_ints){(const int64_t[]){0}, 0});
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(sn_backward_ex(SN_TENSORS(loss), (sn_tensors){0}, SN_RETAIN_GRAPH) == SN_OK, "%s",
                      sn_error_take()->message);
        expect_layout(sn_grad(w), device, SN_F32, SN_INTS(5, 3));
        expect_layout(sn_grad(b), device, SN_F32, SN_INTS(5));
        ck_assert_msg(sn_optim_step(optim) == SN_OK, "%s", sn_error_take()->message);
    }
    sn_optim_free(optim);
    sn_dict_free(d);
}

/* A view begins where one with values would. */
static void expect_places(sn_tensor *t) {
    sn_tensor *const rows = sn_narrow(t, 0, 2, 2);
    ck_assert_int_eq(sn_storage_offset(t), 0);
    ck_assert_int_eq(sn_storage_offset(rows), 10);
    ck_assert_int_eq(sn_storage_offset(sn_select(rows, 1, 3)), 13);
    ck_assert_int_eq(sn_storage_offset(sn_as_strided(rows, SN_INTS(2), SN_INTS(1), 7)), 7);
    ck_assert_int_eq(sn_storage_offset(sn_clone(rows)), 0);
    ck_assert_int_eq(sn_check(), SN_OK);
}

START_TEST(offsets_of_tensors_without_values) {
    expect_places(sn_zeros(SN_INTS(4, 5), SN_F32));
    expect_places(sn_to_device(sn_zeros(SN_INTS(4, 5), SN_F32), SN_META));
    sn_fake_mode_set(true);
    expect_places(sn_zeros(SN_INTS(4, 5), SN_F32));
    sn_fake_mode_set(false);
}
END_TEST

/* The handle that an in-place view changes keeps its memory: it cannot be what is fake. */
START_TEST(in_place_views_of_tensors_with_values) {
    sn_tensor *const plain = F32(1, 2, 3), *const leaf = LEAF(2, 2, 3), *const before = sn_clone(plain);
    sn_fake_mode_set(true);
    sn_tensor *const fake = sn_exp(plain);
    ck_assert_ptr_eq(sn_t_(fake), fake);
    ck_assert_int_eq(sn_size(fake, 0), 3);
    ck_assert_ptr_null(sn_t_(plain));
    expect_error(SN_ERR_STATE, "a tensor with values would become one that is fake and has none");
    ck_assert_ptr_null(sn_unsqueeze_(plain, 0));
    expect_error(SN_ERR_STATE, "a tensor with values would become one that is fake and has none");
    ck_assert_ptr_eq(sn_detach_(leaf), leaf);
    sn_fake_mode_set(false);
    ck_assert(same_bits(plain, before));
    ck_assert(same_bits(leaf, F32(2, 2, 3)));
}
END_TEST

START_TEST(a5_09_gradients_and_optimizers_of_fake_tensors) {
    const sn_rng before = sn_rng_get();
    const sn_scope scope = sn_scope_begin();
    sn_fake_mode_set(true);
    fake_step(SN_CPU);
    fake_step(SN_CUDA(0));
    sn_scope_end(scope);
    ck_assert_int_eq((int64_t)sn_rng_get().sequence, (int64_t)before.sequence);
}
END_TEST

static sn_status square(sn_frame *f) {
    sn_save(f, sn_in(f, 0));
    sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 0)));
    return sn_out(f, 1, sn_in(f, 0)); /* gets a handle of its own */
}
static sn_status square_back(sn_frame *f) {
    return sn_set_grad_of(f, 0, sn_add(sn_mul(sn_grad_of(f, 0), sn_saved(f, 0)), sn_grad_of(f, 1)));
}

static sn_status count_hook(sn_frame *f) {
    ++*(int *)sn_closure(f);
    expect_layout(sn_in(f, 0), SN_CUDA(1), SN_F32, SN_INTS(2, 3));
    return SN_OK;
}

/* Custom functions and hooks ask for no value by themselves. */
START_TEST(a5_09_custom_functions_and_hooks_of_fake_tensors) {
    static const sn_custom fn = {sizeof fn, "square", square, square_back, NULL};
    int hooks = 0;
    sn_fake_mode_set(true);
    sn_default_device_set(SN_CUDA(1));
    sn_tensor *const w = sn_requires_grad_(sn_ones(SN_INTS(2, 3), SN_F32), true), *out[2] = {NULL};
    ck_assert_msg(sn_custom_call(&fn, NULL, &w, 1, out, 2) == SN_OK, "%s", sn_error_take()->message);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_ne(out[i], w);
        expect_layout(out[i], SN_CUDA(1), SN_F32, SN_INTS(2, 3));
        ck_assert_int_ne(sn_hook_add(out[i], count_hook, &hooks), 0);
    }
    ck_assert_int_ne(sn_hook_add(w, count_hook, &hooks), 0);
    ck_assert_int_ne(sn_post_accumulate_hook_add(w, count_hook, &hooks), 0);
    ck_assert_msg(sn_backward(sn_sum(sn_mul(out[0], out[1]))) == SN_OK, "%s", sn_error_take()->message);
    ck_assert_int_eq(hooks, 4);
    expect_layout(sn_grad(w), SN_CUDA(1), SN_F32, SN_INTS(2, 3));
}
END_TEST

static sn_status product(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_mul(sn_in(f, 0), sn_in(f, 0)))); }

static sn_status fake_part(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_mul(x, x);
    const sn_scope scope = sn_scope_begin();
    sn_fake_mode_set(true);
    const int64_t rows = sn_size(sn_cat(SN_TENSORS(y, sn_zeros(SN_INTS(5, 4), SN_F32)), 0), 0);
    sn_scope_end(scope);
    return sn_out(f, 0, sn_add_scalar(y, sn_float((double)rows)));
}

START_TEST(a5_09_fake_mode_and_compiled_functions) {
    for (int m = 0; m < 2; m++) {
        sn_function *const fn = sn_compile(product, NULL, SN_COMPILE_OPTIONS(.mode = compile_modes[m]));
        sn_tensor *const x = F32(1, 3, 4), *const want = SN_CALL(fn, x);
        const sn_scope scope = sn_scope_begin();
        sn_fake_mode_set(true);
        sn_tensor *const y = SN_CALL(fn, x);
        expect_layout(y, SN_CPU, SN_F32, SN_INTS(3, 4));
        ck_assert(strstr(last_reason(), "fake mode") != NULL);
        sn_tensor *const fake = sn_scope_return(scope, y);
        for (int i = 0; i < 3; i++) expect_layout(SN_CALL(fn, fake), SN_CPU, SN_F32, SN_INTS(3, 4));
        ck_assert(same_bits(SN_CALL(fn, x), want) && same_bits(SN_CALL(fn, x), want));
        sn_function_free(fn);
        const Twin twin = twin_new(fake_part, NULL, NULL, SN_COMPILE_OPTIONS(.mode = compile_modes[m]));
        for (int i = 0; i < 4; i++) ck_assert(same_bits(TWIN_CALL(twin, x), sn_add_scalar(sn_mul(x, x), sn_float(8))));
        ck_assert(strstr(sn_explain(twin.fast), "sn_fake_mode_set") != NULL);
        twin_free(twin);
    }
    sn_tensor *out;
    const sn_scope scope = sn_scope_begin();
    sn_fake_mode_set(true);
    ck_assert_int_eq(sn_map(product, NULL, NULL, SN_TENSORS(F32(1, 2)), &out, 1), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "sn_map: not in fake mode");
    sn_scope_end(scope);
}
END_TEST

/* Functional ---------------------------------------------------------------------------------- */

typedef struct OpLog {
    char text[4096];
    int writes, views; /* in-place and out forms; rows that are views */
} OpLog;

static sn_status log_op(sn_frame *f) {
    OpLog *const log = sn_closure(f);
    const sn_op *const op = sn_frame_op(f);
    const char *const name = sn_op_name(op);
    const size_t n = strlen(log->text);
    snprintf(log->text + n, sizeof log->text - n, "%s ", name);
    const char *const schema = sn_op_schema(op);
    log->writes += strstr(schema, "!)") != NULL;
    log->views += strstr(schema, "(a) self") != NULL;
    return sn_redispatch(f);
}

typedef sn_tensor *FunctionalProgram(sn_tensor *x, sn_tensor *w);

static sn_tensor *writes_views(sn_tensor *x, sn_tensor *w) {
    sn_tensor *const y = sn_mul(x, w), *const row = sn_select(y, 0, 1), *const part = sn_slice(row, 0, 1, 4, 2);
    sn_tensor *const turned = sn_transpose(y, 0, 1);
    sn_mul_scalar_(part, sn_float(3));
    sn_add_(row, sn_select(w, 0, 0));
    sn_tensor *const seen = sn_add(sn_sum(turned), sn_sum(part));
    sn_exp_(sn_unsqueeze(sn_select(turned, 0, 2), 0));
    return sn_mul(sn_add(y, seen), sn_t(turned));
}

static sn_tensor *writes_whole(sn_tensor *x, sn_tensor *w) {
    sn_tensor *const y = sn_mul(x, x), *const flat = sn_view(y, SN_INTS(-1));
    sn_add_(y, w);
    sn_mul_scalar_(y, sn_float(0.5));
    sn_tensor *const out = sn_empty_like(y);
    const sn_scope scope = sn_no_grad_begin();
    sn_mul_out(out, y, w);
    sn_scope_end(scope);
    sn_copy_(sn_narrow(flat, 0, 2, 3), sn_slice(sn_view(out, SN_INTS(-1)), 0, 0, 3, 1));
    sn_fill_(sn_diagonal(y, 0, 0, 1), sn_float(0.5));
    return sn_add(y, out);
}

static sn_tensor *draws(sn_tensor *x, sn_tensor *w) {
    sn_tensor *const y = sn_mul(x, w);
    sn_dropout_(sn_select(y, 0, 0), 0.5, true);
    return sn_add(y, sn_rand_like(y));
}

static FunctionalProgram *const programs[] = {writes_views, writes_whole, draws};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

/* Result and gradients of both. */
static void run_program(FunctionalProgram *program, bool functional, OpLog *log, sn_tensor *got[3]) {
    const sn_scope scope = sn_scope_begin();
    sn_seed(5);
    if (functional) ck_assert(!sn_functional_mode_set(true) && sn_functional_mode());
    if (log) sn_user_mode_push(log_op, log);
    sn_tensor *const x = LEAF(1, 5, 5), *const w = LEAF(2, 5, 5), *const y = program(x, w);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    ck_assert_msg(sn_backward(sn_sum(y)) == SN_OK, "%s", sn_error_take()->message);
    got[0] = sn_keep(sn_detach(y)), got[1] = sn_retain(sn_grad(x)), got[2] = sn_retain(sn_grad(w));
    sn_scope_end(scope);
    ck_assert(!sn_functional_mode());
}

START_TEST(a5_09_functional_mode_has_eagers_bits_without_writes_and_views) {
    for (int p = 0; p < N_PROGRAMS; p++) {
        sn_tensor *want[3], *got[3];
        OpLog plain = {0}, functional = {0};
        run_program(programs[p], false, &plain, want);
        run_program(programs[p], true, &functional, got);
        ck_assert_msg(plain.writes && plain.views, "%s", plain.text);
        ck_assert_msg(!functional.writes && !functional.views, "%s", functional.text);
        for (int i = 0; i < 3; i++) {
            ck_assert_msg(same_bits(got[i], want[i]), "program %d, result %d: %s", p, i, functional.text);
            sn_release(got[i]);
            sn_release(want[i]);
        }
    }
}
END_TEST

START_TEST(a5_09_functional_mode_shows_what_ops_became) {
    OpLog log = {0};
    sn_tensor *const x = F32(1, 3, 4), *const outside = sn_select(x, 0, 1), *const was = sn_clone(x);
    const sn_scope scope = sn_scope_begin();
    sn_functional_mode_set(true);
    sn_user_mode_push(log_op, &log);
    sn_tensor *const v = sn_slice(x, 0, 1, 3, 1);
    ck_assert_str_eq(log.text, "");
    sn_add_scalar_(v, sn_float(1));
    ck_assert_str_eq(log.text, "aten::slice_copy.Tensor aten::add.Tensor sn::view_scatter ");
    sn_scope_end(scope);
    ck_assert(same_bits(outside, sn_add_scalar(sn_select(was, 0, 1), sn_float(1)))); /* aliases of before */
    ck_assert(same_bits(sn_select(x, 0, 0), sn_select(was, 0, 0)));
}
END_TEST

static sn_tensor *bad_write(sn_tensor *x) { return sn_add_scalar_(sn_expand(x, SN_INTS(3, 2)), sn_float(1)); }

/* What is wrong in eager is wrong in the mode. */
START_TEST(a5_09_functional_mode_has_eagers_errors) {
    const int32_t ints[2] = {1, 2};
    for (int functional = 0; functional < 2; functional++) {
        const sn_scope scope = sn_scope_begin();
        sn_functional_mode_set(functional);
        ck_assert_ptr_null(bad_write(F32(1, 1, 2)));
        expect_error(SN_ERR_VALUE, "aten::add_.Tensor: self [3, 2] with strides [0, 1] has several elements");
        ck_assert_ptr_null(sn_add_scalar_(LEAF(1, 2), sn_float(1)));
        expect_error(SN_ERR_STATE, "a leaf that requires gradients would be written in place");
        ck_assert_ptr_null(sn_add_scalar_(sn_from_data(ints, SN_INTS(2), SN_I32), sn_float(1.5)));
        sn_error_take();
        sn_tensor *const x = LEAF(1, 3), *const y = sn_exp(x), *const z = sn_mul(y, y);
        sn_add_scalar_(y, sn_float(1));
        ck_assert_int_ne(sn_backward(sn_sum(z)), SN_OK);
        expect_error(SN_ERR_STATE, "saved at version 0");
        sn_scope_end(scope);
    }
}
END_TEST

static sn_status writes_a_view(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 1));
    sn_add_(sn_select(y, 0, 1), sn_select(sn_in(f, 1), 0, 0));
    return sn_out(f, 0, sn_exp(y));
}

static sn_status functional_part(sn_frame *f) {
    sn_tensor *const y = sn_mul(sn_in(f, 0), sn_in(f, 1));
    const sn_scope scope = sn_scope_begin();
    sn_functional_mode_set(true);
    sn_add_(sn_select(y, 0, 1), sn_select(sn_in(f, 1), 0, 0));
    sn_scope_end(scope);
    return sn_out(f, 0, sn_exp(y));
}

START_TEST(a5_09_functional_mode_and_compiled_functions) {
    for (int m = 0; m < 2; m++) {
        sn_tensor *const x = F32(1, 3, 4), *const w = F32(2, 3, 4);
        const Twin part = twin_new(functional_part, NULL, NULL, SN_COMPILE_OPTIONS(.mode = compile_modes[m]));
        const Twin whole = twin_new(writes_a_view, NULL, NULL, SN_COMPILE_OPTIONS(.mode = compile_modes[m]));
        sn_tensor *const want = TWIN_CALL(whole, x, w);
        for (int i = 0; i < 4; i++) {
            const sn_scope scope = sn_scope_begin();
            ck_assert(same_bits(TWIN_CALL(part, x, w), want));
            sn_functional_mode_set(i & 1);
            ck_assert(same_bits(TWIN_CALL(whole, x, w), want));
            sn_scope_end(scope);
        }
        ck_assert_int_eq(stats_of(part.fast).breaks, 0);
        twin_free(part);
        twin_free(whole);
    }
    sn_tensor *got, *const x = F32(1, 5, 3, 4), *const w = F32(2, 5, 3, 4);
    const sn_scope scope = sn_scope_begin();
    sn_functional_mode_set(true);
    ck_assert_int_eq(sn_vmap(writes_a_view, NULL, NULL, SN_TENSORS(x, w), &got, 1), SN_OK);
    got = sn_scope_return(scope, got);
    sn_tensor *want;
    ck_assert_int_eq(sn_vmap(writes_a_view, NULL, NULL, SN_TENSORS(x, w), &want, 1), SN_OK);
    ck_assert(same_bits(got, want));
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a5_09_fake_tensors_claim_devices_and_have_no_values,
        offsets_of_tensors_without_values,
        in_place_views_of_tensors_with_values,
        a5_09_gradients_and_optimizers_of_fake_tensors,
        a5_09_custom_functions_and_hooks_of_fake_tensors,
        a5_09_fake_mode_and_compiled_functions,
        a5_09_functional_mode_has_eagers_bits_without_writes_and_views,
        a5_09_functional_mode_shows_what_ops_became,
        a5_09_functional_mode_has_eagers_errors,
        a5_09_functional_mode_and_compiled_functions,
    };
    return contract_main("test_modes", tests, (int)(sizeof tests / sizeof *tests));
}
