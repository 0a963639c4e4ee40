/* test_entries.c: what a public function begins with (frontend/api.def): the place of a call stays that of the program,
 * also where the function is made of others; and the first call after a jump [semantics C13] answers for the caller. */
#include <setjmp.h>
#include <sinter/parallel.h>
#include <stdio.h>

#include "runtime/core/site.h"
#include "runtime/core/state.h"
#include "tests/unit/contract.h"

static const char *place(void) {
    static char name[256];
    site_name(state_get()->site, name, sizeof name);
    return name;
}

#define HERE_(line) "test_entries.c:" #line
#define HERE(line)  HERE_(line)
/* The place that the thread knows of is that of the call. */
#define KEEPS_PLACE(call)                                                                                              \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        ck_assert_str_eq(place(), HERE(__LINE__));                                                                     \
        ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);                                            \
    } while (0)

START_TEST(a_function_made_of_others_keeps_its_place) {
    sn_dict *const d = sn_dict_new(), *const copy = sn_dict_new();
    sn_tensor *weight, *bias;
    sn_attention attention = {.size = sizeof attention};
    KEEPS_PLACE(sn_param_linear(d, "a", 4, 3, &weight, &bias));
    KEEPS_PLACE(sn_param_embedding(d, "e", 4, 3));
    KEEPS_PLACE(sn_param_layer_norm(d, "n", 4, NULL, NULL));
    KEEPS_PLACE(sn_param_attention(d, "s", 4, 2, true, &attention));
    KEEPS_PLACE(sn_self_attention(&attention, F32(3, 1, 2, 4), true));
    KEEPS_PLACE(sn_param_linear(copy, "a", 4, 3, NULL, NULL));
    sn_optim *const adam = sn_adam(d, 0.1, 0.01);
    sn_scaler *const scaler = sn_scaler_new(NULL);
    sn_optim *sgd;
    sn_scaler *other;
    KEEPS_PLACE(sgd = sn_sgd(d, 0.1, 0.9));
    KEEPS_PLACE(other = sn_scaler_new(NULL));
    sn_tensor *const loss = sn_sum(sn_linear(F32(4, 2, 4), weight, bias));
    sn_tensor *scaled;
    KEEPS_PLACE(scaled = sn_scaler_scale(scaler, loss));
    KEEPS_PLACE(sn_backward(scaled));
    KEEPS_PLACE(sn_clip_grad_norm(d, 1));
    KEEPS_PLACE(sn_scaler_unscale(scaler, adam));
    KEEPS_PLACE(sn_scaler_step(scaler, adam));
    KEEPS_PLACE(sn_scaler_update(scaler));
    KEEPS_PLACE(sn_optim_step(adam));
    KEEPS_PLACE(sn_allclose(weight, weight, 0, 0));
    KEEPS_PLACE(sn_to_dense(sn_to_sparse(F32(5, 3, 3))));
    sn_optim_free(adam);
    sn_optim_free(sgd);
    sn_scaler_free(scaler);
    sn_scaler_free(other);
    sn_dict_free(copy);
    sn_dict_free(d);
}
END_TEST

/* What a callback sees of the place: before its own call, and behind it. */
static char seen[2][256];
static bool jumps;
static jmp_buf out;

static sn_status mode(sn_frame *f) {
    snprintf(seen[0], sizeof seen[0], "%s", place());
    const sn_status status = sn_redispatch(f);
    sn_neg(sn_result(f, 0)), snprintf(seen[1], sizeof seen[1], "%s", place());
    if (jumps) sn_grad_mode_set(SN_GRAD_OFF), sn_autocast_set(SN_CPU, SN_BF16), longjmp(out, 1);
    return status;
}
enum { MODE_CALLS_AT = __LINE__ - 4 };

/* Its calls are the program's, and have places of their own; the rest of the outer one has its again. */
START_TEST(a_callback_has_places_of_its_own) {
    char own[64];
    sn_dict *const d = sn_dict_new();
    sn_param(d, "w", F32(1, 4));
    sn_backward(sn_sum(sn_mul(sn_dict_at(d, 0), sn_dict_at(d, 0))));
    jumps = false;
    ck_assert_int_eq(sn_user_mode_push(mode, NULL), SN_OK);
    sn_clip_grad_norm(d, 1);
    ck_assert_int_eq(sn_user_mode_pop(), SN_OK);
    snprintf(own, sizeof own, "test_entries.c:%d", MODE_CALLS_AT);
    ck_assert_str_eq(seen[1], own);
    KEEPS_PLACE(sn_clip_grad_norm(d, 1));
    KEEPS_PLACE(sn_neg(F32(1, 4)));
    sn_dict_free(d);
}
END_TEST

/* The same of what is told of moves and sums, which no frame is made for; places of ranks, of which there is one. */
static int n_told;
static void is_told(void) {
    char own[64];
    sn_neg(F32(1, 4)), snprintf(own, sizeof own, "test_entries.c:%d", __LINE__);
    ck_assert_str_eq(place(), own);
    n_told++;
}
static void is_moved(void *context, sn_shard_move move) { (void)context, (void)move, is_told(); }
static void is_reduced(void *context, int bucket) { (void)context, (void)bucket, is_told(); }
static sn_status sum_of_squares(sn_frame *f) { return sn_out(f, 0, sn_sum(sn_mul(sn_in(f, 0), sn_in(f, 0)))); }

static sn_status runs_as_rank(sn_comm *comm, void *closure) {
    (void)closure;
    sn_tensor *const w = LEAF(1, 4), *y = NULL;
    sn_sharded *const s = sn_sharded_new(comm, SN_TENSORS(w), SN_SHARDED_OPTIONS(.moved = is_moved));
    sn_sharded_call(s, sum_of_squares, NULL, (sn_tensors){0}, &y, 1);
    sn_backward(y);
    ck_assert_int_eq(n_told, 4);
    sn_sharded_free(s);
    sn_tensor *const v = LEAF(2, 4);
    sn_data_parallel *const dp =
        sn_data_parallel_new(comm, SN_TENSORS(w, v), SN_DATA_PARALLEL_OPTIONS(.reduced = is_reduced));
    sn_backward(sn_sum(w)); /* the bucket is finished without v */
    sn_data_parallel_finish(dp);
    ck_assert_int_gt(n_told, 4);
    sn_data_parallel_free(dp);
    return sn_check();
}

START_TEST(what_is_told_of_something_has_places_of_its_own) {
    n_told = 0;
    ck_assert_msg(sn_ranks_run(1, runs_as_rank, NULL, NULL) == SN_OK, "%s", sn_error_take()->message);
}
END_TEST

static void jump_out_of_mode(sn_dict *d) {
    jumps = true;
    ck_assert_int_eq(sn_user_mode_push(mode, NULL), SN_OK);
    if (!setjmp(out)) {
        sn_clip_grad_norm(d, 1);
        ck_abort_msg("nothing jumped");
    }
    jumps = false;
}

/* Functions that give what belongs to a scope, or say what a mode is, as the first call of all. */
typedef bool Answers(sn_tensor *t);
static bool autocast_is_off(sn_tensor *t) { return sn_autocast_get(SN_CPU) == SN_F32; }
static bool size_is_known(sn_tensor *t) { return sn_size(t, 0) == 4; }
static bool text_stays(sn_tensor *t) {
    const char *const keys = sn_keys(t);
    sn_check();
    return strstr(keys, "cpu") != NULL;
}
static bool list_stays(sn_tensor *t) {
    const char *const ops = sn_op_list();
    sn_check();
    return strstr(ops, "aten::add") != NULL;
}
static bool wrapped_stays(sn_tensor *t) {
    static float data[4] = {1, 2, 3, 4};
    sn_tensor *const w = sn_wrap(SN_BLOB(.data = data, .bytes = sizeof data, .sizes = SN_INTS(4), .dtype = SN_F32));
    sn_check();
    ck_assert_msg(w, "%s", sn_error_take()->message);
    return ((const float *)sn_data(w, SN_F32))[3] == 4;
}
static Answers *const answers[] = {autocast_is_off, size_is_known, text_stays, list_stays, wrapped_stays};

START_TEST(the_first_call_after_a_jump_is_the_callers) {
    sn_dict *const d = sn_dict_new();
    sn_tensor *const w = sn_param(d, "w", F32(1, 4));
    sn_backward(sn_sum(sn_mul(w, w)));
    const uint32_t scopes = state_get()->n_scopes;
    jump_out_of_mode(d);
    ck_assert(answers[_i](w));
    ck_assert_uint_eq(state_get()->n_scopes, scopes);
    ck_assert_int_eq(sn_user_mode_pop(), SN_OK);
    KEEPS_PLACE(sn_neg(w));
    sn_dict_free(d);
}
END_TEST

/* Callbacks without a frame of their own leave functions that keep their place: a scalar body, a device's copy. */
static void jump_if_armed(void) {
    if (!jumps) return;
    jumps = false;
    longjmp(out, 1);
}
static int scalar_body(sn_expr *e, void *closure) { return jump_if_armed(), sn_expr_arg(e, "x"); }
static void *take_block(void *closure, size_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }
static void free_block(void *closure, void *block, size_t bytes) { free(block); }
static sn_status copy_block(void *closure, void *to, const void *from, size_t bytes, sn_copy_way way) {
    jump_if_armed();
    memcpy(to, from, bytes);
    return SN_OK;
}

static sn_tensor *there; /* on the program's device */
static void register_op(void) {
    sn_op_register(SN_OP_DESC(.schema = "left::a(Tensor x) -> Tensor", .scalar_body = scalar_body));
}
static void move_there(void) { sn_to_device(F32(1, 4), sn_device_of(there)); }
static void show(void) { sn_repr(there); }
static void save_dict(void) {
    sn_dict *const d = sn_dict_new(); /* lost by the jump */
    sn_dict_set(d, "a", there);
    sn_dict_save(d, "test_entries.none");
}
typedef void Leaves(void);
static Leaves *const leavers[] = {register_op, move_there, show, save_dict};

static sn_status jumper(sn_frame *f) { longjmp(out, 1); }

START_TEST(a_function_that_was_left_keeps_its_place_no_more) {
    const sn_device mine = sn_device_register(
        SN_DEVICE_DESC(.name = "mine", .allocate = take_block, .free = free_block, .copy = copy_block));
    there = sn_keep(sn_to_device(F32(1, 4), mine));
    ck_assert_msg(there, "%s", sn_error_take()->message);
    const sn_scope scope = sn_scope_begin();
    jumps = true;
    if (!setjmp(out)) {
        leavers[_i]();
        ck_abort_msg("nothing jumped");
    }
    KEEPS_PLACE(sn_neg(F32(1, 4)));
    const sn_scope off = sn_no_grad_begin(); /* the program's own, which another jump does not end */
    sn_autocast_set(SN_CPU, SN_BF16);
    sn_tensor *result;
    if (!setjmp(out)) sn_vmap(jumper, NULL, NULL, SN_TENSORS(F32(1, 4)), &result, 1);
    ck_assert_int_eq(state_get()->grad_mode, SN_GRAD_OFF);
    ck_assert_int_eq(sn_autocast_get(SN_CPU), SN_BF16);
    ck_assert_int_eq(sn_scope_end(off), SN_OK);
    ck_assert_int_eq(sn_scope_end(scope), SN_OK);
    ck_assert_int_eq(state_get()->grad_mode, SN_GRAD_ON);
    sn_release(there);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("entries");
    tcase_add_test(tests, a_function_made_of_others_keeps_its_place);
    tcase_add_test(tests, a_callback_has_places_of_its_own);
    tcase_add_test(tests, what_is_told_of_something_has_places_of_its_own);
    tcase_add_loop_test(tests, the_first_call_after_a_jump_is_the_callers, 0, sizeof answers / sizeof *answers);
    tcase_add_loop_test(tests, a_function_that_was_left_keeps_its_place_no_more, 0, sizeof leavers / sizeof *leavers);
    return suite_run("entries", tests);
}
