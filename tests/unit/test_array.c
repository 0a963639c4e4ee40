/* test_array.c: calls on arrays (sinter/array.h): what lands where, by addresses and counts of allocations; what
 * results show; sizes asked beforehand; wrong arrays; threads. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/device/execute.h"
#include "tests/unit/contract.h"

enum { ROWS = 6, COLUMNS = 50 }; /* beyond what lies in a handle's block */

static sn_array room(float *data, int64_t *sizes) {
    return (sn_array){.dtype = SN_F32, .rank = 2, .data = data, .sizes = sizes};
}

static int bodies;

/* y = relu(x w + b), z = y * 2 */
static sn_status net(sn_frame *f) {
    sn_tensor *const *w = sn_closure(f);
    bodies++;
    sn_tensor *const y = sn_relu(sn_add(sn_mm(sn_in(f, 0), w[0]), w[1]));
    sn_out(f, 0, y);
    return sn_out(f, 1, sn_mul_scalar(y, sn_float(2)));
}

typedef struct Net {
    sn_tensor *w[2], **closure;
    sn_function *fn, *eager;
} Net;

static Net net_new(sn_compile_mode mode) {
    Net n = {.w = {sn_keep(F32(1, COLUMNS, COLUMNS)), sn_keep(F32(2, COLUMNS))}, .closure = malloc(sizeof n.w)};
    sn_tensor **const w = memcpy(n.closure, n.w, sizeof n.w);
    n.fn = sn_compile(net, w, SN_COMPILE_OPTIONS(.mode = mode, .name = "net"));
    n.eager = sn_compile(net, w, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    return n;
}

static void net_free(Net n) {
    sn_function_free(n.fn);
    sn_function_free(n.eager);
    for (int i = 0; i < 2; i++) sn_release(n.w[i]);
    free(n.closure);
}

static void check_values(sn_function *eager, const float *x, const int64_t *sizes, const float *y, const float *z) {
    const sn_scope scope = sn_scope_begin();
    sn_tensor *in = sn_from_data(x, (sn_ints){sizes, 2}, SN_F32), *want[2];
    ck_assert_int_eq(sn_call(eager, &in, 1, want, 2), SN_OK);
    ck_assert(same_bits(want[0], sn_from_data(y, (sn_ints){sizes, 2}, SN_F32)));
    ck_assert(same_bits(want[1], sn_from_data(z, (sn_ints){sizes, 2}, SN_F32)));
    sn_scope_end(scope);
}

static void call_net(sn_function *fn, sn_function *eager, int64_t rows, uint32_t want_flags) {
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS], z[ROWS * COLUMNS];
    int64_t sizes[] = {rows, COLUMNS};
    fill_floats(x, rows * COLUMNS, (uint64_t)rows);
    const sn_array in = room(x, sizes);
    sn_array out[] = {room(y, sizes), room(z, sizes)};
    const int64_t before = execute_counts()->allocations;
    ck_assert_msg(sn_call_arrays(fn, &in, 1, out, 2, NULL) == SN_OK, "%s", sn_error_take()->message);
    const int64_t made = execute_counts()->allocations - before;
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_eq(out[i].data, i ? z : y);
        ck_assert_ptr_null(out[i].owner);
        ck_assert(out[i].alias == SN_ALIAS_NONE || (want_flags && out[i].alias == SN_ALIAS_OTHER)); /* a history's */
        ck_assert_int_eq(out[i].flags, want_flags);
    }
    if (!want_flags) ck_assert_int_eq(made, 0); /* nothing beside the caller's memory */
    check_values(eager, x, sizes, y, z);
}

START_TEST(a_replayed_call_writes_where_it_is_told) {
    Net n = net_new(SN_COMPILE_REPLAY);
    bodies = 0;
    call_net(n.fn, n.eager, 4, SN_ARRAY_COPIED);
    const int first = bodies;
    for (int i = 0; i < 3; i++) call_net(n.fn, n.eager, 4, 0); /* no handle is the same as before */
    ck_assert_int_eq(bodies - first, 3);                       /* eager's */
    call_net(n.fn, n.eager, 5, SN_ARRAY_COPIED);
    call_net(n.fn, n.eager, 5, 0);
    call_net(n.fn, n.eager, 6, 0); /* sizes are free by now */
    call_net(n.fn, n.eager, 6, 0);
    net_free(n);
}
END_TEST

START_TEST(verify_and_eager_copy_once) {
    for (int mode = 0; mode < 2; mode++) {
        Net n = net_new(mode ? SN_COMPILE_EAGER : SN_COMPILE_VERIFY);
        for (int i = 0; i < 3; i++) call_net(n.fn, n.eager, 4, SN_ARRAY_COPIED);
        net_free(n);
    }
}
END_TEST

START_TEST(a_plan_and_a_graph_too) {
    Net n = net_new(SN_COMPILE_REPLAY);
    char path[64];
    snprintf(path, sizeof path, "test_array.%d.plan", (int)getpid());
    const sn_scope off = sn_no_grad_begin();
    call_net(n.fn, n.eager, 4, SN_ARRAY_COPIED);
    call_net(n.fn, n.eager, 5, SN_ARRAY_COPIED);
    ck_assert_msg(sn_plan_save(n.fn, path, SN_PLAN_OPTIONS(.embed = true)) == SN_OK, "%s", sn_error_take()->message);
    sn_function *const plan = sn_plan_load(path, NULL);
    remove(path);
    for (int rows = 4; rows < 7; rows++) call_net(plan, n.eager, rows, 0);
    sn_function_free(plan);
    sn_scope_end(off);
    static const char text[] = "graph g(%x: f32[s0,50], %w: f32[50,50], %b: f32[50]) {\n"
                               "  %0 = aten::mm(%x, %w)\n"
                               "  %1 = aten::add.Tensor(%0, %b)\n"
                               "  %2 = aten::relu(%1)\n"
                               "  %3 = aten::mul.Scalar(%2, 2)\n"
                               "  return %2, %3\n"
                               "}\n";
    sn_graph *const g = sn_graph_parse(text, sizeof text - 1);
    ck_assert_int_eq(sn_node_bind(sn_graph_node(g, 1), n.w[0]), SN_OK);
    ck_assert_int_eq(sn_node_bind(sn_graph_node(g, 2), n.w[1]), SN_OK);
    sn_function *const graph = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    call_net(graph, n.eager, 4, SN_ARRAY_COPIED);
    call_net(graph, n.eager, 4, 0);
    /* a bound parameter that its owner writes in place is what the next call computes with; so is one that says so */
    sn_fill_(n.w[1], sn_float(0.25));
    call_net(graph, n.eager, 4, 0);
    float *const raw = sn_data_raw(n.w[0]);
    sn_touch(n.w[0]);
    for (int i = 0; i < COLUMNS * COLUMNS; i++) raw[i] *= 0.5f;
    call_net(graph, n.eager, 4, 0);
    sn_function_free(graph);
    sn_graph_free(g);
    net_free(n);
}
END_TEST

/* Results that share memory -------------------------------------------------------------------- */

static sn_status shared(sn_frame *f) {
    sn_tensor *const *w = sn_closure(f), *x = sn_in(f, 0);
    sn_out(f, 0, x);
    sn_out(f, 1, sn_select(x, 0, 2));
    sn_tensor *const y = sn_sin(x);
    sn_out(f, 2, y);
    sn_out(f, 3, sn_narrow(y, 0, 1, 2));
    sn_out(f, 4, sn_select(w[0], 0, 1));
    return sn_out(f, 5, y);
}

static void check_shared(sn_function *fn, sn_tensor *closed, bool with_room) {
    float x[ROWS * COLUMNS], rooms[6][ROWS * COLUMNS];
    int64_t all[] = {ROWS, COLUMNS}, row[] = {COLUMNS}, two[] = {2, COLUMNS};
    fill_floats(x, ROWS * COLUMNS, 3);
    const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
    sn_array out[6] = {room(rooms[0], all), room(rooms[1], row), room(rooms[2], all),
                       room(rooms[3], two), room(rooms[4], row), room(rooms[5], all)};
    out[1].rank = out[4].rank = 1;
    for (int i = 0; !with_room && i < 6; i++) out[i] = (sn_array){0};
    ck_assert_msg(sn_call_arrays(fn, &in, 1, out, 6, NULL) == SN_OK, "%s", sn_error_take()->message);
    ck_assert(out[0].alias == SN_ALIAS_INPUT && out[0].alias_of == 0 && out[0].alias_bytes == 0);
    ck_assert(out[1].alias == SN_ALIAS_INPUT && out[1].alias_bytes == 2 * COLUMNS * 4);
    ck_assert_int_eq(out[2].alias, SN_ALIAS_NONE);
    ck_assert(out[3].alias == SN_ALIAS_RESULT && out[3].alias_of == 2 && out[3].alias_bytes == COLUMNS * 4);
    ck_assert_int_eq(out[4].alias, SN_ALIAS_OTHER);
    ck_assert(out[5].alias == SN_ALIAS_RESULT && out[5].alias_of == 2 && out[5].alias_bytes == 0);
    for (int i = 0; with_room && i < 6; i++) {
        ck_assert_ptr_eq(out[i].data, rooms[i]);
        ck_assert_ptr_null(out[i].owner);
    }
    const float *const y = out[2].data;
    ck_assert(!memcmp(out[0].data, x, sizeof x) && !memcmp(out[1].data, x + 2 * COLUMNS, COLUMNS * 4));
    ck_assert(!memcmp(out[3].data, y + COLUMNS, 2 * COLUMNS * 4) && !memcmp(out[5].data, y, sizeof x));
    if (!with_room) {
        ck_assert(out[0].data == x && out[1].data == x + 2 * COLUMNS && !out[0].owner && !out[1].owner);
        ck_assert(out[3].data == y + COLUMNS && out[5].data == y);
        ck_assert(out[2].owner && out[4].owner);
        ck_assert_ptr_eq(out[4].data, (float *)sn_data_raw(closed) + COLUMNS);
    }
    for (int i = 0; i < 6; i++) sn_release(out[i].owner);
}

START_TEST(results_that_share_memory_say_so) {
    for (int mode = 0; mode < 3; mode++) {
        sn_tensor *w = sn_keep(F32(9, 3, COLUMNS));
        sn_function *const fn = sn_compile(shared, &w, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)mode));
        for (int i = 0; i < 3; i++) {
            check_shared(fn, w, true);
            check_shared(fn, w, false);
        }
        sn_function_free(fn);
        sn_release(w);
    }
}
END_TEST

static sn_status empties(sn_frame *f) {
    sn_tensor *const y = sn_sin(sn_in(f, 0));
    sn_out(f, 0, sn_index_select(y, 0, sn_in(f, 1)));
    sn_out(f, 1, sn_narrow(y, 0, 0, 0));
    sn_out(f, 2, sn_nonzero(sn_gt_scalar(y, sn_float(2.0))));
    return sn_out(f, 3, sn_narrow(sn_in(f, 0), 0, 1, 0));
}

START_TEST(results_without_elements_show_nothing) {
    float x[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 3);
    for (int mode = 0; mode < 3; mode++) {
        sn_function *const fn = sn_compile(empties, NULL, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)mode));
        for (int i = 0; i < 3; i++) {
            const sn_array in[] = {SN_ARRAY(x, SN_F32, ROWS, COLUMNS), SN_ARRAY(x, SN_I64, 0)};
            sn_array out[4] = {{0}};
            ck_assert_msg(!sn_call_arrays(fn, in, 2, out, 4, NULL), "%s", sn_error_take()->message);
            for (int k = 0; k < 4; k++) {
                ck_assert(out[k].alias == SN_ALIAS_NONE && !out[k].data && !out[k].owner && !out[k].sizes[0]);
                ck_assert_int_eq(out[k].dtype, k == 2 ? SN_I64 : SN_F32);
            }
        }
        sn_function_free(fn);
    }
}
END_TEST

/* Views of memory that no result is: the first one is empty. */
static sn_status behind_an_empty_one(sn_frame *f) {
    sn_tensor *const y = sn_sin(sn_sum(sn_in(f, 0)));
    sn_out(f, 0, sn_expand(y, SN_INTS(2, 0)));
    sn_out(f, 1, sn_expand(y, SN_INTS(2, 3)));
    return sn_out(f, 2, sn_expand(y, SN_INTS(4)));
}

START_TEST(no_result_shows_one_without_elements) {
    float x[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 3);
    const sn_scope off = sn_no_grad_begin();
    for (int mode = 0; mode < 3; mode++) {
        sn_function *const fn =
            sn_compile(behind_an_empty_one, NULL, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)mode));
        const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
        for (int i = 0; i < 3; i++) {
            sn_array out[3] = {{0}};
            ck_assert_msg(!sn_call_arrays(fn, &in, 1, out, 3, NULL), "%s", sn_error_take()->message);
            ck_assert(out[0].alias == SN_ALIAS_NONE && out[1].alias != SN_ALIAS_RESULT && out[1].owner);
            ck_assert(out[2].alias == SN_ALIAS_RESULT && out[2].alias_of == 1 && out[2].alias_bytes == 0);
            const sn_scope scope = sn_scope_begin();
            ck_assert(sn_item(sn_select(sn_select(out[1].owner, 0, 1), 0, 2)) != 0);
            sn_scope_end(scope);
            for (int k = 0; k < 3; k++) sn_release(out[k].owner);
        }
        sn_function_free(fn);
    }
    sn_scope_end(off);
}
END_TEST

static sn_status views(sn_frame *f) {
    sn_tensor *const y = sn_sin(sn_in(f, 0));
    sn_out(f, 0, y);
    sn_out(f, 1, sn_t(y));
    return sn_out(f, 2, sn_select(sn_in(f, 0), 0, 1));
}

START_TEST(views_are_told_in_replay_and_by_plans) {
    char path[64];
    snprintf(path, sizeof path, "test_array_views.%d.plan", (int)getpid());
    const sn_scope off = sn_no_grad_begin();
    sn_function *const fn = sn_compile(views, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY)), *plan = NULL;
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    int64_t sizes[] = {ROWS, COLUMNS};
    fill_floats(x, ROWS * COLUMNS, 5);
    const sn_array in = room(x, sizes);
    for (int i = 0; i < 4; i++) {
        sn_array out[3] = {room(y, sizes)};
        ck_assert_int_eq(sn_call_arrays(plan ? plan : fn, &in, 1, out, 3, NULL), SN_OK);
        ck_assert(out[1].alias == SN_ALIAS_RESULT && out[1].alias_of == 0 && out[1].data == y);
        ck_assert(out[1].sizes[0] == COLUMNS && out[1].strides[0] == 1 && out[1].strides[1] == COLUMNS);
        ck_assert(out[2].alias == SN_ALIAS_INPUT && out[2].data == x + COLUMNS && !out[2].owner && !out[1].owner);
        ck_assert_int_eq(out[0].flags, i ? 0 : SN_ARRAY_COPIED);
        if (i == 2) {
            ck_assert_msg(sn_plan_save(fn, path, NULL) == SN_OK, "%s", sn_error_take()->message);
            ck_assert_ptr_nonnull(plan = sn_plan_load(path, NULL));
        }
        sn_array asked[3] = {{0}};
        ck_assert_int_eq(sn_call_infer(plan ? plan : fn, &in, 1, asked, 3), SN_OK);
        ck_assert(asked[1].alias == SN_ALIAS_RESULT && asked[1].alias_of == 0 && asked[1].strides[0] == 1);
        ck_assert(asked[2].alias == SN_ALIAS_INPUT && asked[2].alias_bytes == COLUMNS * 4 && asked[2].rank == 1);
        ck_assert(asked[0].alias == SN_ALIAS_NONE && asked[0].sizes[0] == ROWS && asked[0].bytes == sizeof y);
    }
    remove(path);
    sn_function_free(plan);
    sn_function_free(fn);
    sn_scope_end(off);
}
END_TEST

/* Absent ones, numbers ------------------------------------------------------------------------- */

static sn_status numbers(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const bias = sn_in_opt(f, 1);
    sn_tensor *y = sn_mul_scalar(x, sn_in_value(f, 2));
    if (bias) y = sn_add(y, bias);
    return sn_out(f, 1, sn_narrow(y, 0, 0, sn_in_int(f, 3)));
}

static const char none_text[] = "graph g(%x: f32[4]) {\n  %0 = aten::sin(%x)\n  return None, %0\n}\n";

START_TEST(absent_arguments_and_results) {
    float x[4] = {1, 2, 3, 4}, y[4];
    const sn_array in = SN_ARRAY(x, SN_F32, 4);
    sn_graph *const g = sn_graph_parse(none_text, sizeof none_text - 1);
    sn_function *const fn = sn_graph_compile(g, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 3; i++) {
        sn_array out[] = {SN_ARRAY(y, SN_F32, 4), SN_ARRAY(y, SN_F32, 4)};
        out[0].data = i == 1 ? NULL : x; /* room that nothing needs */
        ck_assert_msg(sn_call_arrays(fn, &in, 1, out, 2, NULL) == SN_OK, "%s", sn_error_take()->message);
        ck_assert(out[0].kind == SN_KIND_NONE && !out[0].data && !out[0].owner && y[0] > 0.8f && y[0] < 0.9f);
    }
    sn_function_free(fn);
    sn_graph_free(g);
    sn_array many[] = {in, {.kind = SN_KIND_NONE}, {.kind = SN_KIND_FLOAT, .f = 3}, {.kind = SN_KIND_INT, .i = 2}};
    sn_function *const other = sn_compile(numbers, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_VERIFY));
    sn_array out[2] = {{0}};
    ck_assert_int_eq(sn_call_arrays(other, many, 4, out, 2, NULL), SN_ERR_CALLBACK); /* result 0 is not set */
    sn_error_take();
    sn_function_free(other);
}
END_TEST

/* Allocators ----------------------------------------------------------------------------------- */

typedef struct Pool {
    int calls, fail_at;
    void *blocks[8];
    size_t bytes[8];
} Pool;

static void *pool_take(void *context, int result, const sn_array *wanted) {
    Pool *const pool = context;
    ck_assert(wanted->dtype == SN_F32 && wanted->rank == 2 && wanted->device == SN_CPU && result < 3);
    if (++pool->calls == pool->fail_at) return NULL;
    pool->bytes[result] = wanted->bytes;
    return pool->blocks[result] = malloc(wanted->bytes);
}

static void pool_free(Pool *pool) {
    for (int i = 0; i < 8; i++) free(pool->blocks[i]);
    *pool = (Pool){0};
}

START_TEST(an_allocator_gives_the_memory) {
    Net n = net_new(SN_COMPILE_REPLAY);
    float x[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 7);
    const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
    Pool pool = {0};
    const int64_t sizes[] = {ROWS, COLUMNS};
    for (int i = 0; i < 4; i++) {
        sn_array out[2] = {{0}};
        const int64_t before = execute_counts()->allocations;
        ck_assert_int_eq(
            sn_call_arrays(n.fn, &in, 1, out, 2, SN_ARRAY_OPTIONS(.allocate = pool_take, .context = &pool)), SN_OK);
        ck_assert(pool.calls == 2 && out[0].data == pool.blocks[0] && out[1].data == pool.blocks[1]);
        ck_assert(!out[0].owner && !out[1].owner && out[0].sizes[0] == ROWS && pool.bytes[0] == sizeof x);
        ck_assert_int_eq(out[0].flags, i ? 0 : SN_ARRAY_COPIED);
        if (i) ck_assert_int_eq(execute_counts()->allocations, before);
        check_values(n.eager, x, sizes, out[0].data, out[1].data);
        pool_free(&pool);
    }
    for (int i = 0; i < 4; i++) { /* one result has room, and then there is no memory */
        float y[ROWS * COLUMNS];
        sn_array out[2] = {SN_ARRAY(y, SN_F32, ROWS, COLUMNS)};
        pool.fail_at = i % 2 ? 1 : 0;
        sn_call_arrays(n.fn, &in, 1, out, 2, SN_ARRAY_OPTIONS(.allocate = pool_take, .context = &pool));
        ck_assert_int_eq(pool.calls, 1);
        if (i % 2)
            expect_error(SN_ERR_MEMORY, "out[1]");
        else
            check_values(n.eager, x, sizes, y, out[1].data);
        pool_free(&pool);
    }
    net_free(n);
}
END_TEST

/* One handle as several results, and an argument's: told in every mode. */
static sn_status the_same_again(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0), *const y = sn_exp(x);
    sn_out(f, 0, y);
    sn_out(f, 1, y);
    return sn_out(f, 2, x);
}

START_TEST(one_handle_as_several_results) {
    for (int mode = 0; mode < 3; mode++) {
        static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY, SN_COMPILE_EAGER};
        sn_function *const fn = sn_compile(the_same_again, NULL, SN_COMPILE_OPTIONS(.mode = modes[mode]));
        float x[ROWS * COLUMNS];
        fill_floats(x, ROWS * COLUMNS, 7);
        const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
        for (int i = 0; i < 3; i++) {
            sn_array out[3] = {{0}};
            ck_assert_int_eq(sn_call_arrays(fn, &in, 1, out, 3, NULL), SN_OK);
            ck_assert(out[1].alias == SN_ALIAS_RESULT && out[1].alias_of == 0 && out[1].data == out[0].data);
            ck_assert(out[2].alias == SN_ALIAS_INPUT && out[2].alias_of == 0 && out[2].data == x && !out[2].owner);
            for (int k = 0; k < 3; k++) sn_release(out[k].owner);
        }
        sn_function_free(fn);
    }
}
END_TEST

typedef struct OneBlock {
    char *memory;
    int calls, second; /* bytes behind the first one's */
} OneBlock;
static void *same_block(void *context, int result, const sn_array *wanted) {
    OneBlock *const b = context;
    (void)result, (void)wanted;
    return b->memory + (b->calls++ ? b->second : 0);
}

/* In every mode; also memory that another result was given by the caller; a place behind it is fine. */
START_TEST(an_allocator_that_gives_memory_twice) {
    static const sn_compile_mode modes[] = {SN_COMPILE_VERIFY, SN_COMPILE_REPLAY, SN_COMPILE_EAGER};
    float x[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 7);
    const int bytes = sizeof x;
    const int64_t sizes[] = {ROWS, COLUMNS};
    const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
    for (int m = 0; m < 3; m++) {
        Net n = net_new(modes[m]);
        for (int i = 0; i < 4; i++) {
            OneBlock b = {.memory = aligned_alloc(64, 8192), .second = i == 3 ? bytes : i * 4};
            sn_array out[2] = {{0}};
            sn_call_arrays(n.fn, &in, 1, out, 2, SN_ARRAY_OPTIONS(.allocate = same_block, .context = &b));
            if (i < 3)
                expect_error(SN_ERR_ARGUMENT, "the memory allocated for out[1] is, in part, that of out[0]");
            else
                check_values(n.eager, x, sizes, out[0].data, out[1].data);
            sn_array given[2] = {SN_ARRAY(b.memory, SN_F32, ROWS, COLUMNS)};
            b.calls = 0;
            sn_call_arrays(n.fn, &in, 1, given, 2, SN_ARRAY_OPTIONS(.allocate = same_block, .context = &b));
            expect_error(SN_ERR_ARGUMENT, "the memory allocated for out[1] is, in part, that of out[0]");
            free(b.memory);
        }
        net_free(n);
    }
}
END_TEST

static void *calls_the_library(void *context, int result, const sn_array *wanted) {
    (void)result;
    sn_zeros(SN_INTS(2), SN_F32);
    return *(void **)context = malloc(wanted->bytes);
}

START_TEST(an_allocator_may_not_call_the_library) {
    Net n = net_new(SN_COMPILE_REPLAY);
    float x[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 7);
    const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
    for (int i = 0; i < 3; i++) {
        void *block = NULL;
        sn_array out[2] = {{0}};
        sn_call_arrays(n.fn, &in, 1, out, 2, SN_ARRAY_OPTIONS(.allocate = calls_the_library, .context = &block));
        expect_error(SN_ERR_STATE, "what allocates out[0] calls Sinter");
        ck_assert(block && out[0].data == block); /* it is the program's all the same */
        free(block);
    }
    net_free(n);
}
END_TEST

/* Gradients that are recorded for what is closed over are no matter of arrays. */
START_TEST(results_with_a_history) {
    for (int mode = 0; mode < 3; mode++) {
        Net n = net_new((sn_compile_mode)mode);
        for (int i = 0; i < 2; i++) sn_requires_grad_(n.w[i], true);
        for (int i = 0; i < 3; i++) call_net(n.fn, n.eager, 4 + i, SN_ARRAY_COPIED);
        net_free(n);
    }
}
END_TEST

START_TEST(the_library_lends_what_nobody_has_room_for) {
    Net n = net_new(SN_COMPILE_REPLAY);
    float x[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 7);
    const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
    for (int i = 0; i < 3; i++) {
        sn_array out[2] = {{0}};
        ck_assert_int_eq(sn_call_arrays(n.fn, &in, 1, out, 2, NULL), SN_OK);
        ck_assert(out[0].owner && out[1].owner && !out[0].flags);
        ck_assert_ptr_eq(sn_data(out[0].owner, SN_F32), out[0].data);
        check_values(n.eager, x, (int64_t[]){ROWS, COLUMNS}, out[0].data, out[1].data);
        for (int k = 0; k < 2; k++) sn_release(out[k].owner);
    }
    net_free(n);
}
END_TEST

/* Memory of results that is others' ------------------------------------------------------------ */

static sn_status swapped(sn_frame *f) {
    sn_out(f, 0, sn_add(sn_in(f, 1), sn_in(f, 0)));
    sn_out(f, 1, sn_select(sn_in(f, 0), 0, 0));
    return sn_out(f, 2, sn_neg(sn_in(f, 1)));
}

/* Results lie in the arguments' memory: read before it is written. */
START_TEST(results_in_the_memory_of_arguments) {
    for (int mode = 0; mode < 2; mode++) {
        sn_function *const fn = sn_compile(swapped, NULL, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)mode));
        for (int i = 0; i < 3; i++) {
            float x[ROWS * COLUMNS], y[ROWS * COLUMNS], x0[ROWS * COLUMNS], y0[ROWS * COLUMNS], row[COLUMNS];
            fill_floats(x, ROWS * COLUMNS, 7), fill_floats(y, ROWS * COLUMNS, 8);
            memcpy(x0, x, sizeof x), memcpy(y0, y, sizeof y);
            const sn_array in[] = {SN_ARRAY(x, SN_F32, ROWS, COLUMNS), SN_ARRAY(y, SN_F32, ROWS, COLUMNS)};
            sn_array out[] = {SN_ARRAY(x, SN_F32, ROWS, COLUMNS), SN_ARRAY(row, SN_F32, COLUMNS),
                              SN_ARRAY(y, SN_F32, ROWS, COLUMNS)};
            ck_assert_int_eq(sn_call_arrays(fn, in, 2, out, 3, NULL), SN_OK);
            for (int k = 0; k < ROWS * COLUMNS; k++) ck_assert(x[k] == y0[k] + x0[k] && y[k] == -y0[k]);
            ck_assert(!memcmp(row, x0, sizeof row));
            ck_assert(out[0].flags & SN_ARRAY_COPIED);
            out[2].data = x + COLUMNS; /* reaches into out[0] */
            ck_assert_int_eq(sn_call_arrays(fn, in, 2, out, 3, NULL), SN_ERR_ARGUMENT);
            expect_error(SN_ERR_ARGUMENT, "shares memory with another result");
        }
        sn_function_free(fn);
    }
}
END_TEST

/* In the memory of a closed-over tensor, which the code reads. */
START_TEST(results_in_the_memory_of_what_is_closed_over) {
    Net n = net_new(SN_COMPILE_REPLAY);
    float x[ROWS * COLUMNS], z[ROWS * COLUMNS], want[ROWS * COLUMNS], want_z[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 7);
    const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
    sn_array plain[] = {SN_ARRAY(want, SN_F32, ROWS, COLUMNS), SN_ARRAY(want_z, SN_F32, ROWS, COLUMNS)};
    for (int i = 0; i < 2; i++) ck_assert_int_eq(sn_call_arrays(n.fn, &in, 1, plain, 2, NULL), SN_OK);
    sn_array out[] = {SN_ARRAY(sn_data_raw(n.w[0]), SN_F32, ROWS, COLUMNS), SN_ARRAY(z, SN_F32, ROWS, COLUMNS)};
    ck_assert_int_eq(sn_call_arrays(n.fn, &in, 1, out, 2, NULL), SN_OK);
    ck_assert_int_eq(out[0].flags, SN_ARRAY_COPIED);
    ck_assert_int_eq(out[1].flags, 0);
    ck_assert(!memcmp(out[0].data, want, sizeof want) && !memcmp(z, want_z, sizeof z));
    net_free(n);
}
END_TEST

/* Strides of the caller's, and no alignment but that of the elements. */
START_TEST(other_strides_are_copied_and_any_alignment_is_fine) {
    Net n = net_new(SN_COMPILE_REPLAY);
    float x[ROWS * COLUMNS + 1], y[ROWS * COLUMNS], z[ROWS * COLUMNS + 3], turned[ROWS * COLUMNS];
    const int64_t sizes[] = {ROWS, COLUMNS}, strides[] = {1, ROWS};
    for (int i = 0; i < 3; i++) {
        fill_floats(x + 1, ROWS * COLUMNS, 7);
        const sn_array in = SN_ARRAY(x + 1, SN_F32, ROWS, COLUMNS);
        sn_array out[] = {SN_ARRAY(turned, SN_F32, ROWS, COLUMNS), SN_ARRAY(z + 3, SN_F32, ROWS, COLUMNS)};
        out[0].strides = strides;
        ck_assert_int_eq(sn_call_arrays(n.fn, &in, 1, out, 2, NULL), SN_OK);
        ck_assert_int_eq(out[0].flags, SN_ARRAY_COPIED);
        ck_assert_int_eq(out[1].flags, i ? 0 : SN_ARRAY_COPIED);
        for (int k = 0; k < ROWS * COLUMNS; k++) y[k] = turned[k / COLUMNS + k % COLUMNS * ROWS];
        check_values(n.eager, x + 1, sizes, y, z + 3);
    }
    net_free(n);
}
END_TEST

/* Written arguments ---------------------------------------------------------------------------- */

static sn_status steps(sn_frame *f) {
    sn_add_(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_float(2)));
}

START_TEST(arguments_are_written_where_they_lie) {
    for (int mode = 0; mode < 3; mode++) {
        sn_function *const fn = sn_compile(steps, NULL, SN_COMPILE_OPTIONS(.mode = (sn_compile_mode)mode));
        float p[COLUMNS] = {0}, g[COLUMNS], y[COLUMNS];
        fill_floats(g, COLUMNS, 3);
        sn_array in[] = {SN_ARRAY(p, SN_F32, COLUMNS), SN_ARRAY(g, SN_F32, COLUMNS)};
        in[1].flags = SN_ARRAY_READ_ONLY;
        sn_array out = SN_ARRAY(y, SN_F32, COLUMNS);
        for (int i = 1; i < 5; i++) {
            ck_assert_int_eq(sn_call_arrays(fn, in, 2, &out, 1, NULL), SN_OK);
            for (int k = 0; k < COLUMNS; k++) ck_assert(fabsf(p[k] - (float)i * g[k]) < 1e-5f && y[k] == 2 * p[k]);
        }
        in[0].flags = SN_ARRAY_READ_ONLY;
        float before[COLUMNS];
        memcpy(before, p, sizeof p);
        ck_assert_int_ne(sn_call_arrays(fn, in, 2, &out, 1, NULL), SN_OK);
        ck_assert(strstr(sn_error_take()->message, "read-only"));
        ck_assert(!memcmp(before, p, sizeof p));
        sn_function_free(fn);
    }
}
END_TEST

/* Wrong arrays --------------------------------------------------------------------------------- */

START_TEST(wrong_arrays_are_named) {
    Net n = net_new(SN_COMPILE_REPLAY);
    float x[ROWS * COLUMNS + 1], y[ROWS * COLUMNS + 1], z[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 7);
    const int64_t sizes[] = {ROWS, COLUMNS}, fewer[] = {ROWS - 1, COLUMNS}, negative[] = {-1, 2}, none[] = {0, 1};
    const sn_array good[] = {SN_ARRAY(x, SN_F32, ROWS, COLUMNS), SN_ARRAY(y, SN_F32, ROWS, COLUMNS),
                             SN_ARRAY(z, SN_F32, ROWS, COLUMNS)};
    for (int round = 0; round < 3; round++) {
        for (int kind = 0; kind < 16; kind++) {
            sn_array a[3];
            memcpy(a, good, sizeof a);
            sn_status status = SN_ERR_ARGUMENT;
            const char *text = "";
            switch (kind) {
            case 0:
                a[0].data = NULL, text = "in[0] has no data";
                break;
            case 1:
                a[0].data = (char *)x + 1, text = "in[0] is not aligned";
                break;
            case 2:
                a[0].sizes = NULL, text = "in[0] has no sizes";
                break;
            case 3:
                a[0].sizes = negative, text = "size -1 in dim 0", status = SN_ERR_SHAPE;
                break;
            case 4:
                a[0].strides = negative, text = "stride -1";
                break;
            case 5:
                a[0].bytes = 1000, text = "in[0] has 1000 bytes, its sizes and strides reach 1200";
                break;
            case 6:
                a[0].dtype = SN_DTYPE_DEFAULT, text = "dtype 0", status = SN_ERR_DTYPE;
                break;
            case 7:
                a[0].rank = 65, text = "rank of 65", status = SN_ERR_SHAPE;
                break;
            case 8:
                a[0].device = 77, text = "in[0] is on 77, which is no device";
                break;
            case 9:
                a[0].kind = SN_KIND_STRING, text = "in[0] has kind";
                break;
            case 10:
                a[1].sizes = fewer, text = "out[0] has room for f32[5,50], the result is f32[6,50]",
                status = SN_ERR_SHAPE;
                break;
            case 11:
                a[1].dtype = SN_I32, text = "out[0] has room for i32[6,50]", status = SN_ERR_DTYPE;
                break;
            case 12:
                a[1].bytes = 1199, text = "out[0] has 1199 bytes";
                break;
            case 13:
                a[1].strides = none, text = "out[0] overlaps itself";
                break;
            case 14:
                a[1].data = z + 1, a[1].bytes = 0, text = "shares memory with another result";
                break;
            default:
                a[0].kind = SN_KIND_TENSOR, a[0].tensor = NULL, text = "in[0] is a tensor that is NULL";
                break;
            }
            ck_assert_int_eq(sn_call_arrays(n.fn, a, 1, a + 1, 2, NULL), status);
            expect_error(status, text);
            ck_assert(!a[1].owner && !a[2].owner);
        }
        sn_array out[2];
        memcpy(out, good + 1, sizeof out);
        ck_assert_int_eq(sn_call_arrays(NULL, good, 1, out, 2, NULL), SN_ERR_ARGUMENT);
        expect_error(SN_ERR_ARGUMENT, "the function is NULL");
        ck_assert_int_eq(sn_call_arrays(n.fn, NULL, 1, out, 2, NULL), SN_ERR_ARGUMENT);
        expect_error(SN_ERR_ARGUMENT, "arguments is NULL");
        ck_assert_int_eq(sn_call_arrays(n.fn, good, 1, NULL, 2, NULL), SN_ERR_ARGUMENT);
        expect_error(SN_ERR_ARGUMENT, "results is NULL");
        ck_assert_int_eq(sn_call_arrays(n.fn, good, -1, out, 2, NULL), SN_ERR_ARGUMENT);
        sn_error_take();
        ck_assert_int_ne(sn_call_arrays(n.fn, good, 1, out, 1, NULL), SN_OK);
        sn_error_take();
        const sn_array_options bad = {0};
        ck_assert_int_eq(sn_call_arrays(n.fn, good, 1, out, 2, &bad), SN_ERR_ARGUMENT);
        sn_error_take();
        ck_assert_int_eq(sn_call_arrays(n.fn, good, 1, out, 2, NULL), SN_OK); /* and it still works */
        check_values(n.eager, x, sizes, y, z);
    }
    net_free(n);
}
END_TEST

static void expect_no_owner(Net n, const sn_array *in, sn_array *out, const char *text) {
    ck_assert_int_ne(sn_call_arrays(n.fn, in, 1, out, 2, NULL), SN_OK);
    ck_assert(strstr(sn_error_take()->message, text));
    ck_assert(!out[0].owner && !out[1].owner);
}

/* A result that is refused leaves those behind it: their memory of the call before, and owners, the caller's. */
START_TEST(a_wrong_result_leaves_the_others_alone) {
    Net n = net_new(SN_COMPILE_REPLAY);
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS], z[ROWS * COLUMNS];
    fill_floats(x, ROWS * COLUMNS, 7);
    const int64_t sizes[] = {ROWS, COLUMNS}, negative[] = {-1, 2};
    const sn_array in = SN_ARRAY(x, SN_F32, ROWS, COLUMNS);
    for (int round = 0; round < 40; round++) {
        sn_array out[] = {SN_ARRAY(y, SN_F32, ROWS, COLUMNS), SN_ARRAY(z, SN_F32, ROWS, COLUMNS)};
        ck_assert_int_eq(sn_call_arrays(n.fn, &in, 1, out, 2, NULL), SN_OK);
        check_values(n.eager, x, sizes, y, z);
        out[0].strides = negative;
        expect_no_owner(n, &in, out, "stride -1");

        sn_array lent[2] = {{0}};
        ck_assert_int_eq(sn_call_arrays(n.fn, &in, 1, lent, 2, NULL), SN_OK);
        sn_tensor *const kept = lent[1].owner;
        sn_release(lent[0].owner);
        lent[0] = out[0]; /* the second one's owner is still named */
        expect_no_owner(n, &in, lent, "stride -1");
        ck_assert_int_eq(sn_numel(kept), ROWS * COLUMNS);
        sn_release(kept);
    }
    net_free(n);
}
END_TEST

/* Asked beforehand ----------------------------------------------------------------------------- */

START_TEST(sizes_are_asked_without_a_run) {
    for (int mode = 0; mode < 2; mode++) {
        Net n = net_new((sn_compile_mode)mode);
        for (int rows = 3; rows < 7; rows++) {
            const int64_t sizes[] = {rows, COLUMNS};
            const sn_array in = room(NULL, (int64_t *)sizes);
            sn_array out[2] = {{0}};
            const int64_t before = execute_counts()->allocations, launches = execute_counts()->launches;
            ck_assert_msg(sn_call_infer(n.fn, &in, 1, out, 2) == SN_OK, "%s", sn_error_take()->message);
            ck_assert(execute_counts()->allocations == before && execute_counts()->launches == launches);
            for (int i = 0; i < 2; i++) {
                ck_assert(out[i].rank == 2 && out[i].sizes[0] == rows && out[i].sizes[1] == COLUMNS);
                ck_assert(out[i].strides[0] == COLUMNS && out[i].dtype == SN_F32 && !out[i].data);
                ck_assert(out[i].bytes == (size_t)rows * COLUMNS * 4 && out[i].kind == SN_KIND_DEFAULT);
            }
            if (rows > 3) call_net(n.fn, n.eager, rows, mode && rows > 5 ? 0 : SN_ARRAY_COPIED);
        }
        const sn_array wrong = room(NULL, (int64_t[]){3, COLUMNS - 1});
        sn_array out[2] = {{0}};
        ck_assert_int_ne(sn_call_infer(n.fn, &wrong, 1, out, 2), SN_OK);
        ck_assert(strstr(sn_error_take()->message, "mm"));
        net_free(n);
    }
}
END_TEST

/* Threads -------------------------------------------------------------------------------------- */

static Net common;

static void *calls_often(void *rows) {
    for (int i = 0; i < 60; i++) {
        float x[ROWS * COLUMNS], y[ROWS * COLUMNS], z[ROWS * COLUMNS];
        int64_t sizes[] = {*(int *)rows, COLUMNS};
        fill_floats(x, sizes[0] * COLUMNS, (uint64_t)i);
        const sn_array in = room(x, sizes);
        sn_array out[] = {room(y, sizes), room(z, sizes)};
        ck_assert_int_eq(sn_call_arrays(common.fn, &in, 1, out, 2, NULL), SN_OK);
        check_values(common.eager, x, sizes, y, z);
    }
    return NULL;
}

START_TEST(threads_call_one_function) {
    pthread_t threads[4];
    int rows[] = {3, 4, 5, 4};
    common = net_new(SN_COMPILE_REPLAY);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, calls_often, &rows[i]);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    net_free(common);
}
END_TEST

/* x *= 2: the argument itself; then it again, and a new one twice */
static sn_status gives_itself(sn_frame *f) {
    sn_tensor *const x = sn_mul_scalar_(sn_in(f, 0), sn_float(2)), *const y = sn_add(x, x);
    for (int i = 0; i < 4; i++) sn_out(f, i, i < 2 ? x : y);
    return sn_check();
}

/* Of a handle that is an argument's, or an earlier result's, nobody else holds the storage. */
START_TEST(a_result_that_is_an_argument_is_told) {
    static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
    for (int m = 0; m < 3; m++) {
        sn_function *const fn = sn_compile(gives_itself, NULL, SN_COMPILE_OPTIONS(.mode = modes[m]));
        for (int call = 0; call < 3; call++) {
            float x[4] = {1, 2, 3, 4};
            const sn_array in = SN_ARRAY(x, SN_F32, 4);
            sn_array out[4] = {{0}};
            ck_assert_msg(sn_call_arrays(fn, &in, 1, out, 4, NULL) == SN_OK, "%s", sn_error_take()->message);
            for (int i = 0; i < 2; i++)
                ck_assert(out[i].alias == SN_ALIAS_INPUT && out[i].alias_of == 0 && out[i].data == x && !out[i].owner);
            ck_assert(out[2].alias == SN_ALIAS_NONE && out[2].data != x && x[0] == 2);
            ck_assert(out[3].alias == SN_ALIAS_RESULT && out[3].alias_of == 2 && out[3].data == out[2].data);
            for (int i = 2; i < 4; i++) sn_release(out[i].owner);
        }
        sn_function_free(fn);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a_replayed_call_writes_where_it_is_told,
        a_result_that_is_an_argument_is_told,
        verify_and_eager_copy_once,
        a_plan_and_a_graph_too,
        results_that_share_memory_say_so,
        results_without_elements_show_nothing,
        no_result_shows_one_without_elements,
        views_are_told_in_replay_and_by_plans,
        absent_arguments_and_results,
        an_allocator_gives_the_memory,
        one_handle_as_several_results,
        an_allocator_that_gives_memory_twice,
        an_allocator_may_not_call_the_library,
        results_with_a_history,
        the_library_lends_what_nobody_has_room_for,
        results_in_the_memory_of_arguments,
        results_in_the_memory_of_what_is_closed_over,
        other_strides_are_copied_and_any_alignment_is_fine,
        arguments_are_written_where_they_lie,
        wrong_arrays_are_named,
        a_wrong_result_leaves_the_others_alone,
        sizes_are_asked_without_a_run,
        threads_call_one_function,
    };
    return contract_main("test_array", tests, (int)(sizeof tests / sizeof *tests));
}
