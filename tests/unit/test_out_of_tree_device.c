/* test_out_of_tree_device.c: a device that Sinter knows nothing of, made with the public headers only [acceptance 1.16,
 * 8.06]. Its addresses are no memory: who follows one crashes. The device's own functions know what lies behind it. */
#include <check.h>
#include <math.h>
#include <sinter/sinter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/unit/public_check.h"

/* A window of addresses that nobody may touch, and as many bytes elsewhere that hold the values. */
enum { WINDOW = 1 << 20, GRAIN = 64 };
typedef struct Board {
    char *window, *bytes;
    size_t used;
    int blocks; /* allocated and not freed */
    int from_host, to_host, within, fills;
    bool broken;
} Board;
static Board boards[2];
static sn_device board, other;

static void board_make(Board *b) {
    *b = (Board){.window = mmap(NULL, WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
                 .bytes = calloc(1, WINDOW)};
    ck_assert(b->window != MAP_FAILED && b->bytes);
}

static void *at(const Board *b, const void *address) { return b->bytes + ((const char *)address - b->window); }

static void *board_allocate(void *context, size_t bytes) {
    Board *const b = context;
    if (bytes > WINDOW - b->used) return NULL;
    void *const address = b->window + b->used;
    memset(at(b, address), 0x7f, bytes);
    b->used += (bytes + GRAIN - 1) / GRAIN * GRAIN;
    b->blocks++;
    return address;
}

static void board_free(void *context, void *memory, size_t bytes) {
    Board *const b = context;
    memset(at(b, memory), 0x7e, bytes);
    b->blocks--;
}

static sn_status board_copy(void *context, void *to, const void *from, size_t bytes, sn_copy_way way) {
    Board *const b = context;
    if (b->broken) return SN_ERR_IO;
    if (way == SN_COPY_FROM_HOST) b->from_host++;
    if (way == SN_COPY_TO_HOST) b->to_host++;
    if (way == SN_COPY_WITHIN) b->within++;
    memcpy(way == SN_COPY_TO_HOST ? to : at(b, to), way == SN_COPY_FROM_HOST ? from : at(b, from), bytes);
    return SN_OK;
}

static sn_status board_fill(void *context, void *memory, int byte, size_t bytes) {
    Board *const b = context;
    b->fills++;
    memset(at(b, memory), byte, bytes);
    return SN_OK;
}

/* The device's own kernel of one op: everything else runs on the CPU. */
static int own_adds;
static sn_status board_op(sn_frame *f) {
    if (strncmp(sn_op_schema(sn_frame_op(f)), "aten::add.Tensor(", 17) != 0) return sn_run_on_cpu(f);
    sn_tensor *const x = sn_in(f, 0), *const y = sn_in(f, 1);
    const bool plain = sn_dtype_of(x) == SN_F32 && sn_dtype_of(y) == SN_F32 && sn_is_contiguous(x) &&
                       sn_is_contiguous(y) && sn_numel(x) == sn_numel(y) && sn_device_of(y) == board;
    if (!plain) return sn_run_on_cpu(f);
    const sn_value none = {.kind = SN_KIND_NONE};
    sn_tensor *const sum = sn_empty_ex(sn_sizes(x), SN_F32, none, sn_int(board), none, none);
    float *const out = at(&boards[0], sn_data_raw(sum));
    const float *const a = at(&boards[0], sn_data_raw(x)), *const b = at(&boards[0], sn_data_raw(y));
    for (int64_t i = 0; i < sn_numel(x); i++) out[i] = a[i] + b[i];
    own_adds++;
    return sn_out(f, 0, sum);
}

static void set_up(void) {
    static bool done;
    if (done) return;
    done = true;
    board_make(&boards[0]);
    board_make(&boards[1]);
    board = sn_device_register(SN_DEVICE_DESC(.name = "board", .allocate = board_allocate, .free = board_free,
                                              .copy = board_copy, .fill = board_fill, .context = &boards[0]));
    other = sn_device_register(SN_DEVICE_DESC(.name = "other", .allocate = board_allocate, .free = board_free,
                                              .copy = board_copy, .context = &boards[1]));
    ck_assert(board > 0 && other > board);
    ck_assert_ptr_nonnull(sn_fallback_set(sn_device_key(board), board_op, NULL));
}

static bool same(sn_tensor *a, sn_tensor *b) {
    expect_ok();
    const size_t bytes = (size_t)sn_numel(a) * 4;
    char *const x = malloc(bytes + 1), *const y = malloc(bytes + 1);
    const bool equal = sn_numel(a) == sn_numel(b) && sn_dtype_of(a) == sn_dtype_of(b) &&
                       sn_read(a, x, bytes) == SN_OK && sn_read(b, y, bytes) == SN_OK && !memcmp(x, y, bytes);
    free(x), free(y);
    expect_ok();
    return equal;
}

START_TEST(names_and_numbers) {
    ck_assert_str_eq(sn_device_name(board), "board");
    ck_assert_str_eq(sn_device_name(SN_META), "meta");
    ck_assert_str_eq(sn_device_name(SN_CUDA(2)), "cuda:2");
    ck_assert_int_eq(sn_device_key(board), SN_KEY_SPARE);
    ck_assert_int_ne(sn_device_key(other), SN_KEY_SPARE);
    ck_assert_str_eq(sn_device_name(12), "");
    expect_error(SN_ERR_ARGUMENT, "12 is no device");
    ck_assert_ptr_null(sn_to_device(range(2), 12));
    expect_error(SN_ERR_ARGUMENT, "sn_to_device: 12 is no device");
    ck_assert_ptr_null(sn_to(range(2), (sn_dtype)board));
    expect_error(SN_ERR_ARGUMENT, "dtype is no dtype: 65");
    ck_assert_int_eq(sn_device_register(SN_DEVICE_DESC(.name = "board", .allocate = board_allocate, .free = board_free,
                                                       .copy = board_copy)),
                     -1);
    expect_error(SN_ERR_ARGUMENT, "there is a device board already");
    ck_assert_int_eq(sn_device_register(SN_DEVICE_DESC(.name = "half")), -1);
    expect_error(SN_ERR_ARGUMENT, "needs a name, allocate, free and copy");
    ck_assert_int_eq(sn_device_register(SN_DEVICE_DESC(.name = "a b", .allocate = board_allocate, .free = board_free,
                                                       .copy = board_copy)),
                     -1);
    expect_error(SN_ERR_ARGUMENT, "'a b' is no name");
    ck_assert_int_eq(sn_device_synchronize(board), SN_OK);
}
END_TEST

START_TEST(there_and_back) {
    sn_tensor *const x = range(6), *const there = sn_to_device(x, board);
    expect_ok();
    ck_assert_int_eq(sn_device_of(there), board);
    ck_assert_str_eq(sn_keys(there), "autograd, board");
    ck_assert_ptr_eq(sn_to_device(there, board), there);
    ck_assert(same(sn_to_device(there, SN_CPU), x));
    sn_tensor *const matrix = sn_t(sn_reshape(x, SN_INTS(2, 3)));
    sn_tensor *const moved = sn_to_device(matrix, board);
    ck_assert_int_eq(sn_strides(moved).data[0], 1); /* dense strides stay */
    ck_assert(same(moved, matrix));
    sn_tensor *const part = sn_slice(x, 0, 1, 6, 2); /* has gaps */
    ck_assert(same(sn_to_device(part, board), part));
    sn_tensor *const doubles = sn_to_device(sn_to(x, SN_F64), board);
    ck_assert(same(sn_to(sn_to_device(doubles, SN_CPU), SN_F32), x));
    sn_tensor *const far = sn_to_device(there, other); /* by way of the host */
    ck_assert_int_eq(sn_device_of(far), other);
    ck_assert(same(sn_to_device(far, board), x));
    ck_assert_int_eq(sn_numel(sn_to_device(sn_zeros(SN_INTS(0, 3), SN_F32), board)), 0);
    expect_ok();
}
END_TEST

START_TEST(what_the_host_sees) {
    sn_tensor *const there = sn_to_device(range(3), board);
    ck_assert_str_eq(sn_repr(there), "tensor([-2.5000, -1.5000, -0.5000], device='board')");
    ck_assert(sn_item(sn_select(there, 0, 1)) == -1.5);
    ck_assert_int_eq(sn_item_int(sn_to(sn_select(there, 0, 1), SN_I64)), -1);
    ck_assert_ptr_null(sn_data(there, SN_F32));
    expect_error(SN_ERR_DEVICE, "sn_data: the tensor is on board");
    ck_assert_ptr_null(sn_data_mut(there, SN_F32));
    expect_error(SN_ERR_DEVICE, "sn_data_mut: the tensor is on board");
    ck_assert_ptr_null(sn_to_dlpack(there));
    expect_error(SN_ERR_DEVICE, "sn_to_dlpack: the tensor is on board");
    ck_assert_ptr_null(sn_wrap(SN_BLOB(.data = &boards, .bytes = 4, .dtype = SN_F32, .device = board)));
    expect_error(SN_ERR_DEVICE, "sn_wrap: board is neither the CPU nor a CUDA device");
    const char *const raw = sn_data_raw(there);
    ck_assert(raw >= boards[0].window && raw < boards[0].window + WINDOW);
    boards[0].broken = true;
    ck_assert(isnan(sn_item(sn_select(there, 0, 1))));
    expect_error(SN_ERR_DEVICE, "board: its copy failed with status 10");
    ck_assert_str_eq(sn_repr(there), "");
    expect_error(SN_ERR_DEVICE, "board: its copy failed");
    boards[0].broken = false;
}
END_TEST

START_TEST(views_and_writes) {
    sn_tensor *const x = range(6), *const there = sn_to_device(x, board);
    sn_tensor *const column = sn_select(sn_reshape(there, SN_INTS(2, 3)), 1, 2);
    ck_assert_int_eq(sn_device_of(column), board);
    ck_assert(sn_data_raw(column) == (char *)sn_data_raw(there) + 8);
    sn_copy_(column, range(2)); /* from the CPU into a view with gaps */
    sn_copy_(sn_select(sn_reshape(x, SN_INTS(2, 3)), 1, 2), range(2));
    ck_assert(same(there, x));
    sn_copy_(x, sn_mul_scalar(there, sn_int(2))); /* and back */
    ck_assert(sn_item(sn_select(x, 0, 0)) == -5);
    sn_add_(there, there);
    ck_assert(same(there, x));
    sn_add_scalar_(column, sn_int(1));
    ck_assert(sn_item(sn_select(there, 0, 2)) == -4 && sn_item(sn_select(there, 0, 1)) == -3);
    ck_assert(same(sn_clone(column), sn_to_device(column, SN_CPU)));
    const sn_value none = {.kind = SN_KIND_NONE};
    sn_tensor *const out = sn_empty_ex(SN_INTS(0), SN_F32, none, sn_int(board), none, none);
    ck_assert_ptr_eq(sn_mul_out(out, there, there), out); /* laid out anew */
    ck_assert(same(out, sn_mul(there, there)));
    expect_ok();
}
END_TEST

START_TEST(ops_by_the_fallback) {
    sn_tensor *const x = range(6), *const y = sn_reshape(sn_add_scalar(x, sn_int(3)), SN_INTS(3, 2));
    sn_tensor *const m = sn_reshape(x, SN_INTS(2, 3));
    sn_tensor *const m_there = sn_to_device(m, board), *const y_there = sn_to_device(y, board);
    own_adds = 0;
    ck_assert(same(sn_add(m_there, m_there), sn_add(m, m)));
    ck_assert_int_eq(own_adds, 1);
    sn_tensor *const product = sn_mm(m_there, y_there);
    ck_assert_int_eq(sn_device_of(product), board);
    ck_assert(same(product, sn_mm(m, y)));
    ck_assert(same(sn_cat(SN_TENSORS(m_there, m_there), 1), sn_cat(SN_TENSORS(m, m), 1)));
    ck_assert(same(sn_softmax(m_there, 1), sn_softmax(m, 1)));
    sn_tensor *const zeros = sn_zeros_like(m_there);
    ck_assert_int_eq(sn_device_of(zeros), board);
    ck_assert(same(sn_mul(m_there, sn_sum(m)), sn_mul(m, sn_sum(m)))); /* a 0-dim CPU tensor goes anywhere */
    expect_ok();
    ck_assert_ptr_null(sn_add(m_there, m));
    expect_error(SN_ERR_DEVICE, "'self' is on board, 'other' on cpu");
    ck_assert_ptr_null(sn_add(m_there, sn_to_device(m, other)));
    expect_error(SN_ERR_DEVICE, "'self' is on board, 'other' on other");
    ck_assert_ptr_null(sn_relu(sn_to_device(m, other))); /* which has no ops */
    expect_error(SN_ERR_UNSUPPORTED, "aten::relu: it is not implemented for key other");
}
END_TEST

/* x and w are leaves on the CPU, the middle is on the board. */
static sn_tensor *network(sn_tensor *x, sn_tensor *w, sn_device device) {
    sn_tensor *const h = sn_mm(sn_to_device(x, device), sn_to_device(w, device));
    return sn_sum(sn_to_device(sn_mul(sn_tanh(h), h), SN_CPU));
}

static sn_tensor *leaf(sn_ints sizes) { return sn_requires_grad_(sn_keep(sn_reshape(range(6), sizes)), true); }

START_TEST(gradients_come_back) {
    sn_tensor *grads[2][2];
    for (int i = 0; i < 2; i++) {
        sn_tensor *const x = leaf(SN_INTS(2, 3)), *const w = leaf(SN_INTS(3, 2));
        ck_assert_int_eq(sn_backward(network(x, w, i ? board : SN_CPU)), SN_OK);
        grads[i][0] = sn_grad(x), grads[i][1] = sn_grad(w);
        ck_assert_int_eq(sn_device_of(grads[i][0]), SN_CPU);
    }
    ck_assert(same(grads[0][0], grads[1][0]));
    ck_assert(same(grads[0][1], grads[1][1]));
    sn_tensor *const there = sn_requires_grad_(sn_to_device(range(4), board), true); /* a leaf there */
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(there, there))), SN_OK);
    ck_assert_int_eq(sn_device_of(sn_grad(there)), board);
    ck_assert(same(sn_grad(there), sn_mul_scalar(range(4), sn_int(2))));
    sn_tensor *const source = sn_requires_grad_(range(4), true); /* through copy_ */
    sn_tensor *const target = sn_mul_scalar(sn_to_device(range(4), board), sn_int(1));
    sn_copy_(target, source);
    ck_assert_int_eq(sn_backward(sn_sum(sn_mul(target, target))), SN_OK);
    ck_assert(same(sn_grad(source), sn_mul_scalar(range(4), sn_int(2))));
    expect_ok();
}
END_TEST

/* A part on the CPU, one on the board, one on the CPU again. */
static sn_status mixed_body(sn_frame *f) {
    sn_tensor *const here = sn_exp(sn_relu(sn_in(f, 0)));
    sn_tensor *const there = sn_mul(sn_to_device(here, board), sn_to_device(here, board));
    return sn_out(f, 0, sn_neg(sn_to_device(sn_sin(there), SN_CPU)));
}
static sn_status board_body(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_tanh(sn_add(x, x)));
}

static void compiled(sn_body body, sn_compile_mode mode, sn_device device) {
    sn_function *const fn = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = mode));
    for (int call = 0; call < 4; call++) {
        sn_function *const eager = sn_compile(body, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
        sn_tensor *const x = sn_to_device(sn_mul_scalar(range(6), sn_float(call + 0.5)), device);
        sn_tensor *const result = sn_call1(fn, SN_TENSORS(x));
        expect_ok();
        ck_assert(same(result, sn_call1(eager, SN_TENSORS(x))));
        ck_assert_int_eq(sn_device_of(result), device);
        sn_function_free(eager);
    }
    ck_assert_msg(strstr(sn_explain(fn), "on board") != NULL, "%s", sn_explain(fn));
    sn_function_free(fn);
}

/* A call with tensors elsewhere is another case, with the reason [acceptance 9.04]. */
START_TEST(a9_04_the_device) {
    sn_function *const fn = sn_compile(board_body, NULL, NULL);
    for (int call = 0; call < 6; call++) {
        const sn_device device = call < 3 ? SN_CPU : board;
        sn_tensor *const x = sn_to_device(sn_mul_scalar(range(6), sn_float(call + 0.5)), device);
        sn_tensor *const y = sn_call1(fn, SN_TENSORS(x));
        ck_assert_int_eq(sn_device_of(y), device);
        ck_assert(same(y, sn_tanh(sn_add(x, x))));
    }
    ck_assert_msg(strstr(sn_explain(fn), "aten::add.Tensor: a tensor on board, for which there is no code gen"), "%s",
                  sn_explain(fn));
    sn_function_free(fn);
}
END_TEST

START_TEST(compiled_functions_say_why) {
    compiled(mixed_body, SN_COMPILE_VERIFY, SN_CPU);
    compiled(mixed_body, SN_COMPILE_REPLAY, SN_CPU);
    compiled(board_body, SN_COMPILE_VERIFY, board);
    compiled(board_body, SN_COMPILE_REPLAY, board);
}
END_TEST

/* A graph's text says devices by name, and runs as the function does. */
START_TEST(graphs_name_devices) {
    static const char text[] = "graph f(%x: f32[6]) {\n"
                               "  %0 = aten::_to_copy(%x, device=board)\n"
                               "  %1 = aten::relu(%0)\n"
                               "  %2 = aten::_to_copy(%1, device=cpu)\n"
                               "  return %2, %1\n"
                               "}\n";
    sn_graph *const g = sn_graph_parse(text, sizeof text - 1);
    expect_ok();
    ck_assert_str_eq(sn_graph_text(g), text);
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    sn_function *const fn = sn_graph_compile(g, NULL);
    for (int call = 0; call < 3; call++) {
        sn_tensor *const x = range(6), *out[2];
        ck_assert_int_eq(sn_call(fn, &x, 1, out, 2), SN_OK);
        ck_assert(same(out[0], sn_relu(x)) && same(out[1], out[0]));
        ck_assert_int_eq(sn_device_of(out[0]), SN_CPU);
        ck_assert_int_eq(sn_device_of(out[1]), board);
    }
    sn_function_free(fn);
    sn_graph_free(g);
    static const char there[] = "graph f(%x: f32[6]@board) {\n  %0 = aten::relu(%x)\n  return %0\n}\n";
    sn_graph *const h = sn_graph_parse(there, sizeof there - 1);
    ck_assert_str_eq(sn_graph_text(h), there);
    sn_function *const on_board = sn_graph_compile(h, NULL);
    ck_assert(same(sn_call1(on_board, SN_TENSORS(sn_to_device(range(6), board))), sn_relu(range(6))));
    ck_assert_ptr_null(sn_call1(on_board, SN_TENSORS(range(6))));
    expect_error(SN_ERR_SHAPE, "wants f32[6]@board, got f32[6]");
    sn_function_free(on_board);
    sn_graph_free(h);
    static const char unknown[] = "graph f(%x: f32[6]@moon) {\n  return %x\n}\n";
    ck_assert_ptr_null(sn_graph_parse(unknown, sizeof unknown - 1));
    expect_error(SN_ERR_PARSE, "@moon");
}
END_TEST

START_TEST(nothing_is_left) {
    ck_assert_int_eq(sn_shutdown(), SN_OK);
    const int before = boards[0].blocks;
    const sn_scope scope = sn_scope_begin();
    sn_tensor *const there = sn_to_device(range(5), board);
    sn_relu(sn_add(there, there)), sn_repr(there), sn_item(sn_sum(there));
    ck_assert_int_gt(boards[0].blocks, before);
    sn_scope_end(scope);
    ck_assert_int_eq(boards[0].blocks, before);
    void *const huge = sn_to_device(sn_zeros(SN_INTS(WINDOW), SN_F32), board);
    ck_assert_ptr_null(huge);
    expect_error(SN_ERR_MEMORY, "board is out of memory: 4194304 bytes");
}
END_TEST

int main(void) {
    Suite *const suite = suite_create("out_of_tree_device");
    TCase *const tests = tcase_create("out_of_tree_device");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, names_and_numbers);
    tcase_add_test(tests, there_and_back);
    tcase_add_test(tests, what_the_host_sees);
    tcase_add_test(tests, views_and_writes);
    tcase_add_test(tests, ops_by_the_fallback);
    tcase_add_test(tests, gradients_come_back);
    tcase_add_test(tests, compiled_functions_say_why);
    tcase_add_test(tests, a9_04_the_device);
    tcase_add_test(tests, graphs_name_devices);
    tcase_add_test(tests, nothing_is_left);
    suite_add_tcase(suite, tests);
    SRunner *const runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
