/* test_explain.c: what a program learns of its functions: explain as text and JSON, stages, stats. */
#include <pthread.h>
#include <stdio.h>

#include "passes/passes.h"
#include "runtime/base/json.h"
#include "runtime/capture/variant/guards_text.h"
#include "tests/unit/contract.h"

typedef struct Linear {
    sn_tensor *w, *b;
} Linear;

static sn_status linear_gelu(sn_frame *f) {
    const Linear *const m = sn_closure(f);
    return sn_out(f, 0, sn_gelu(sn_linear(sn_in(f, 0), m->w, m->b)));
}

static sn_status softmax_chain(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    return sn_out(f, 0, sn_mm(sn_softmax(sn_add(x, x), -1), x));
}

static const Json *get(const Json *object, const char *key) {
    const Json *const value = json_get(object, key);
    ck_assert_msg(value != NULL, "key '%s' is missing", key);
    return value;
}

static const Json *explained(Arena *arena, sn_function *fn) {
    const char *const text = sn_explain_json(fn);
    const Json *json;
    ck_assert_msg(json_parse(arena, text, strlen(text), &json) == ST_OK, "not JSON: %s", text);
    return json;
}

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

START_TEST(kernels_have_their_ops_and_bytes) {
    sn_function *const fn = sn_compile(softmax_chain, NULL, SN_COMPILE_OPTIONS(.name = "chain"));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 8, 8));
    Arena *const arena = arena_new();
    const Json *const json = explained(arena, fn);
    ck_assert_str_eq(json_string(get(json, "name")), "chain");
    ck_assert_int_eq(get(json, "calls")->i, 3);
    const Json *const graphs = get(json, "graphs");
    ck_assert_int_eq(graphs->n, 1);
    const Json *const parts = get(&graphs->items[0], "parts");
    ck_assert_int_eq(parts->n, 1);
    const Json *const kernels = get(&parts->items[0], "kernels");
    ck_assert_int_eq(kernels->n, 2);
    const Json *const softmax = &kernels->items[0], *const product = &kernels->items[1];
    ck_assert_str_eq(json_string(get(softmax, "kind")), "loops");
    ck_assert_str_eq(json_string(&get(softmax, "ops")->items[0]), "aten::add.Tensor");
    ck_assert_int_eq(get(softmax, "bytes")->i, 2 * 8 * 8 * 4);
    ck_assert_str_eq(json_string(get(product, "kind")), "gemm");
    ck_assert_str_eq(json_string(&get(product, "ops")->items[0]), "aten::mm");
    ck_assert_int_eq(get(product, "bytes")->i, 3 * 8 * 8 * 4);
    ck_assert_int_eq(get(&parts->items[0], "moved_bytes")->i, 5 * 8 * 8 * 4);
    ck_assert_int_gt(get(&parts->items[0], "saved_bytes")->i, 0);
    ck_assert_int_eq(get(&parts->items[0], "arena_bytes")->i, 8 * 8 * 4); /* softmax's result */
    ck_assert_int_eq(stats_of(fn).arena_bytes, 8 * 8 * 4);
    arena_free(arena);
    sn_function_free(fn);
}
END_TEST

START_TEST(every_compile_stage_has_its_time) {
    sn_function *const fn = sn_compile(softmax_chain, NULL, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 9, 9));
    Arena *const arena = arena_new();
    const Json *const graph = &get(explained(arena, fn), "graphs")->items[0];
    PassList list;
    ck_assert_int_eq(passes_list("compile", &list), ST_OK);
    const Json *const passes = get(graph, "passes");
    ck_assert_int_eq(passes->n, list.n);
    double sum = 0;
    for (int i = 0; i < passes->n; i++) {
        ck_assert_str_eq(json_string(get(&passes->items[i], "name")), list.at[i]->name);
        sum += get(&passes->items[i], "ms")->number;
    }
    ck_assert_double_le(sum, get(graph, "passes_ms")->number + get(graph, "lower_ms")->number + 0.001);
    ck_assert_double_gt(get(graph, "codegen_ms")->number, 0);
    ck_assert_double_gt(get(graph, "codegen_build_ms")->number, 0);
    ck_assert_double_gt(get(graph, "codegen_emit_ms")->number, 0);
    ck_assert_double_gt(get(graph, "load_ms")->number, 0);
    ck_assert_double_lt(get(graph, "trace_ms")->number, get(graph, "codegen_ms")->number);
    arena_free(arena);
    sn_function_free(fn);
}
END_TEST

START_TEST(split_graphs_list_what_they_save) {
    Linear m = {LEAF(1, 6, 5), LEAF(2, 6)};
    sn_function *const fn = sn_compile(linear_gelu, &m, NULL);
    for (int i = 0; i < 3; i++) sn_backward(sn_sum(SN_CALL(fn, F32(i, 4, 5))));
    ck_assert_int_eq(sn_check(), SN_OK);
    Arena *const arena = arena_new();
    const Json *const graph = &get(explained(arena, fn), "graphs")->items[0];
    const Json *const parts = get(graph, "parts"), *const saved = get(graph, "saved_tensors");
    ck_assert_int_eq(parts->n, 2);
    ck_assert_str_eq(json_string(get(&parts->items[0], "part")), "forward");
    ck_assert_str_eq(json_string(get(&parts->items[1], "part")), "backward");
    int64_t bytes = 0;
    bool op = false;
    for (int i = 0; i < saved->n; i++) {
        bytes += get(&saved->items[i], "bytes")->i;
        op |= json_get(&saved->items[i], "op") != NULL;
    }
    ck_assert(op);                                /* gelu's argument */
    ck_assert_int_eq(bytes, (4 * 6 + 4 * 5) * 4); /* that, and x for the weight */
    ck_assert(has(sn_explain(fn), "saved for backward"));
    arena_free(arena);
    sn_function_free(fn);
}
END_TEST

static sn_status breaks(sn_frame *f) {
    sn_tensor *const x = sn_mul_scalar(sn_in(f, 0), sn_float(2));
    const double top = sn_item(sn_amax(x));
    return sn_out(f, 0, sn_add_scalar(x, sn_float(top)));
}
enum { BREAK_LINE = __LINE__ - 3 };

START_TEST(breaks_and_recompiles_say_where_and_why) {
    sn_function *const fn = sn_compile(breaks, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    for (int i = 0; i < 4; i++) SN_CALL(fn, F32(7, 4 + i / 2));
    Arena *const arena = arena_new();
    const Json *const json = explained(arena, fn);
    const Json *const row = &get(json, "breaks")->items[0];
    const char *const where = json_string(get(row, "where"));
    char line[64];
    snprintf(line, sizeof line, "test_explain.c:%d", BREAK_LINE);
    if (strstr(where, ".c:")) ck_assert_str_eq(where, line); /* libdw is there */
    ck_assert_int_eq(get(row, "count")->i, 4);
    ck_assert(has(json_string(get(row, "reason")), "host"));
    ck_assert_str_eq(json_string(get(row, "code")), "SB101");
    ck_assert(get(json, "recompiles")->n >= 1);
    ck_assert_str_eq(json_string(&get(json, "recompiles")->items[0]), "argument 0: f32[4], now f32[5]");
    const Json *const fallbacks = get(json, "fallbacks"); /* the second size's first calls */
    ck_assert_int_eq(fallbacks->n, 1);
    ck_assert(has(json_string(get(&fallbacks->items[0], "reason")), "first run"));
    ck_assert_str_eq(json_string(get(&fallbacks->items[0], "code")), "SB212");
    ck_assert_int_eq(get(&fallbacks->items[0], "ops")->i, get(json, "ops_eager")->i);
    arena_free(arena);
    sn_function_free(fn);
}
END_TEST

START_TEST(fallbacks_say_why) {
    sn_setting_set("recompile_limit", "1");
    sn_function *const fn = sn_compile(softmax_chain, NULL, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    for (int i = 0; i < 4; i++) SN_CALL(fn, F32(i, 4 + i, 4 + i));
    ck_assert(has(sn_explain(fn), "not from a compiled call sequence: 9 ops: the recompile limit"));
    sn_function_free(fn);
    sn_setting_set("recompile_limit", "8");
}
END_TEST

/* What a call says of itself: the newest one's path, reason and ops. */
static void expect_report(sn_function *fn, sn_path path, const char *reason, int64_t eager) {
    ck_assert_int_eq(last_path(), path);
    ck_assert_msg(has(last_reason(), reason), "'%s', not '%s'", last_reason(), reason);
    ck_assert_int_eq(stats_of(fn).ops_eager, eager);
    if (eager) ck_assert(has(sn_explain(fn), reason));
}

static sn_status picks(sn_frame *f) { return sn_out(f, 0, sn_sin(sn_index_select(sn_in(f, 0), 0, sn_in(f, 1)))); }

START_TEST(a_failed_value_check_is_the_reason) {
    sn_function *const fn = sn_compile(picks, NULL, NULL);
    for (int64_t i = 0; i < 3; i++) {
        const int64_t at = i == 2 ? 9 : i;
        SN_CALL(fn, F32(1, 5), sn_from_data(&at, SN_INTS(1), SN_I64));
    }
    expect_error(SN_ERR_VALUE, "index 9");
    expect_report(fn, SN_PATH_EAGER, "a value check failed", 2);
    sn_function_free(fn);
}
END_TEST

static void *sums(void *t) {
    sn_sum(t);
    sn_finish();
    return NULL;
}

static sn_status is_touched(sn_frame *f) {
    sn_tensor *const h = sn_sin(sn_in(f, 0));
    pthread_t other;
    pthread_create(&other, NULL, sums, h);
    pthread_join(other, NULL);
    return sn_out(f, 0, sn_add(h, h));
}

START_TEST(a_touch_by_another_thread_is_the_reason) {
    sn_function *const fn = sn_compile(is_touched, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 5));
    expect_report(fn, SN_PATH_MIXED, "another thread asked for a value", 2);
    sn_function_free(fn);
}
END_TEST

static sn_status passes(sn_frame *f) { return sn_redispatch(f); }

START_TEST(a_user_mode_is_the_reason_and_its_ops_count) {
    sn_function *const fn = sn_compile(softmax_chain, NULL, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 6, 6));
    sn_user_mode_push(passes, NULL);
    SN_CALL(fn, F32(2, 6, 6));
    sn_user_mode_pop();
    expect_report(fn, SN_PATH_EAGER, "a user mode is active", 3);
    SN_CALL(fn, F32(3, 6, 6));
    expect_report(fn, SN_PATH_COMPILED, "", 3);
    sn_function_free(fn);
}
END_TEST

static sn_status adds_a_hook(sn_frame *f) {
    sn_tensor *const h = sn_sin(sn_in(f, 0));
    sn_hook_add(h, passes, NULL);
    return sn_out(f, 0, sn_mul(h, h));
}

START_TEST(a_hook_is_no_value_on_the_host) {
    sn_function *const fn = sn_compile(adds_a_hook, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(fn, LEAF(i, 5));
    ck_assert(has(sn_explain(fn), ": sn_hook_add (3 times)"));
    ck_assert(!has(sn_explain(fn), "host"));
    ck_assert_int_eq(stats_of(fn).breaks, 1);
    sn_function_free(fn);
}
END_TEST

/* Why replay turned into verify ---------------------------------------------------------------- */

static char warned[512];
static void note_warning(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)topic, (void)level;
    if (has(line, "turned into verify")) snprintf(warned, sizeof warned, "%s", line);
}

static sn_status turns(sn_frame *f) {
    sn_tensor *const x = sn_in(f, 0);
    sn_transpose_(x, 0, 1);
    return sn_out(f, 0, sn_sin(x));
}

static sn_status negates(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }

static void expect_turned(sn_function *fn, const char *reason) {
    warned[0] = '\0';
    SN_CALL(fn, F32(1, 6, 6));
    ck_assert_msg(has(warned, reason), "'%s', not '%s'", warned, reason);
    sn_function_free(fn);
}

START_TEST(replay_says_why_it_turned_into_verify) {
    const sn_compile_options *const replay = SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY);
    sn_logging_set(note_warning, NULL, "");
    expect_turned(sn_compile(turns, NULL, replay), "the layout of an older tensor changes");
    sn_override *const override = sn_op_override(sn_op_find("aten::mm"), SN_KEY_CPU, negates, NULL);
    expect_turned(sn_compile(softmax_chain, NULL, replay), "the op is overridden");
    sn_override_free(override);
}
END_TEST

START_TEST(every_stage_dumps_and_others_are_errors) {
    sn_function *const fn = sn_compile(softmax_chain, NULL, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 8, 8));
    int n = 0;
    for (const char *stage; (stage = sn_stage_name(n)); n++)
        ck_assert_msg(strlen(sn_dump(fn, stage)) > 20, "stage %s is empty", stage);
    ck_assert_int_ge(n, 10);
    ck_assert(has(sn_dump(fn, "capture"), "aten::_softmax"));
    ck_assert(has(sn_dump(fn, "fused"), "aten::amax"));
    ck_assert(has(sn_dump(fn, "memory"), "arena0  f32[8,8]"));
    ck_assert(has(sn_dump(fn, "guards"), "argument 0: f32[8,8] leaf storage 0"));
    ck_assert_str_eq(sn_dump(fn, "nonsense"), "");
    expect_error(SN_ERR_ARGUMENT, "stage 'nonsense' is unknown");
    sn_function_free(fn);
}
END_TEST

/* The forward writes rows of zeros; the diagonal's gradient is placed in zeros. */
static sn_status writes_rows(sn_frame *f) {
    sn_tensor *const base = sn_zeros(SN_INTS(4, 4), SN_F32);
    sn_copy_(sn_slice(base, 0, 1, 3, 1), sn_exp(sn_in(f, 0)));
    return sn_out(f, 0, sn_mul(base, sn_diagonal(sn_in(f, 1), 0, 0, 1)));
}

START_TEST(both_parts_write_scatters_in_place) {
    const Twin twin = twin_new(writes_rows, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const fast[] = {LEAF(i, 2, 4), LEAF(9, 4, 6)}, *const eager[] = {LEAF(i, 2, 4), LEAF(9, 4, 6)};
        sn_backward(sn_sum(SN_CALL(twin.fast, fast[0], fast[1])));
        sn_backward(sn_sum(SN_CALL(twin.eager, eager[0], eager[1])));
        for (int k = 0; k < 2; k++) ck_assert(same_bits(sn_grad(fast[k]), sn_grad(eager[k])));
    }
    ck_assert(has(sn_dump(twin.fast, "forward"), "sn::view_scatter_("));
    ck_assert(has(sn_dump(twin.fast, "backward"), "sn::view_scatter_("));
    ck_assert_int_eq(sn_check(), SN_OK);
    twin_free(twin);
}
END_TEST

/* Four paths; the first call takes the first one. */
static sn_status forks(sn_frame *f) {
    const int path = *(const int *)sn_closure(f);
    sn_tensor *const x = sn_relu(sn_in(f, 0));
    if (path == 0) return sn_out(f, 0, sn_sum_dim(x, SN_INTS(0), false));
    if (path == 1) return sn_out(f, 0, sn_tanh(x));
    if (path == 2) return sn_out(f, 0, sn_sum_dim(x, SN_INTS(0), true));
    return sn_out(f, 0, x);
}
enum { TANH_LINE = __LINE__ - 4 };

START_TEST(a_new_path_says_where_it_leaves_the_known_ones) {
    static const char *const lines[] = {"after aten::relu, where aten::sum.dim_IntList was before",
                                        "after aten::relu, with another 'keepdim' than before",
                                        "the segment ends after aten::relu, where aten::sum.dim_IntList followed"};
    int path = 0;
    sn_function *const fn = sn_compile(forks, &path, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    for (; path < 4; path++)
        for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 4));
    sn_stats stats = {sizeof stats};
    sn_function_stats(fn, &stats);
    ck_assert_int_eq(stats.compiles, 4);
    ck_assert_int_eq(stats.recompiles, 3);
    Arena *const arena = arena_new();
    const Json *const rows = get(explained(arena, fn), "recompiles");
    ck_assert_int_eq(rows->n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(has(json_string(&rows->items[i]), lines[i]), "%s", json_string(&rows->items[i]));
    char line[64];
    snprintf(line, sizeof line, "a new path: aten::tanh at test_explain.c:%d ", TANH_LINE);
    const char *const first = json_string(&rows->items[0]);
    if (strstr(first, ".c:")) ck_assert_msg(has(first, line), "%s", first); /* libdw is there */
    arena_free(arena);
    sn_function_free(fn);
}
END_TEST

/* What is recorded of as_strided is a view by numbers, of t_ the view t. */
static sn_status forks_by_view(sn_frame *f) {
    const int path = *(const int *)sn_closure(f);
    sn_tensor *const x = sn_relu(sn_in(f, 0));
    if (path == 0) return sn_out(f, 0, sn_tanh(x));
    if (path == 3) return sn_out(f, 0, sn_tanh(sn_t_(x)));
    return sn_out(f, 0, sn_exp(sn_as_strided(x, SN_INTS(path, 2), SN_INTS(2, 1), 0)));
}

START_TEST(ops_have_the_names_that_the_body_called) {
    static const char *const lines[] = {"a new path: aten::as_strided at ", ", size[0]: 1, now 2", "aten::t_ at "};
    int path = 0;
    sn_function *const fn = sn_compile(forks_by_view, &path, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
    for (; path < 4; path++)
        for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 2, 2));
    Arena *const arena = arena_new();
    const Json *const rows = get(explained(arena, fn), "recompiles");
    ck_assert_int_eq(rows->n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_msg(has(json_string(&rows->items[i]), lines[i]), "%s", json_string(&rows->items[i]));
    arena_free(arena);
    sn_function_free(fn);
}
END_TEST

/* Two breaks on one line, and an op that no graph holds. */
static sn_status breaks_thrice(sn_frame *f) {
    sn_tensor *const x = sn_mul_scalar(sn_in(f, 0), sn_float(2));
    const double both = sn_item(sn_amax(x)) + sn_item(sn_amin(x));
    return sn_out(f, 0, sn_view_dtype(sn_add_scalar(x, sn_float(both)), SN_I32));
}

START_TEST(a_break_names_its_op_and_is_listed_once) {
    sn_function *const fn = sn_compile(breaks_thrice, NULL, NULL);
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 4));
    ck_assert_int_eq(sn_check(), SN_OK);
    Arena *const arena = arena_new();
    const Json *const rows = get(explained(arena, fn), "breaks");
    const bool lines = strstr(json_string(get(&rows->items[0], "where")), ".c:"); /* libdw is there */
    ck_assert_int_eq(rows->n, lines ? 2 : 3);
    ck_assert_str_eq(json_string(get(&rows->items[0], "reason")), "sn_item: a value is needed on the host");
    ck_assert_int_eq(get(&rows->items[0], "count")->i, lines ? 6 : 3);
    ck_assert(has(json_string(get(&rows->items[rows->n - 1], "reason")), "aten::view.dtype: "));
    ck_assert(!lines || has(sn_explain(fn), " 2 breaks, "));
    arena_free(arena);
    sn_function_free(fn);
}
END_TEST

/* A mask's positions are needed: the op that the body called is named, not its parts; forms that write, too. */
static sn_status breaks_in_parts(sn_frame *f) {
    const int which = *(const int *)sn_closure(f);
    sn_tensor *const x = sn_exp(sn_in(f, 0)), *const mask = sn_gt_scalar(x, sn_float(1)),
                     *const zero = sn_zeros_like(x);
    const sn_tensors masks = {&mask, 1};
    sn_tensor *const few = sn_zeros(SN_INTS(1), SN_F32);
    switch (which) {
    case 0:
        return sn_out(f, 0, sn_index(x, masks));
    case 1:
        return sn_out(f, 0, sn_index_put_(zero, masks, few));
    case 2:
        return sn_out(f, 0, sn_masked_select(x, mask));
    case 3:
        return sn_out(f, 0, sn_nonzero(mask));
    default:
        return sn_out(f, 0, sn_add(x, x));
    }
}

START_TEST(breaks_in_the_parts_of_an_op_name_the_op) {
    static const char *const names[] = {
        "aten::index.Tensor: ", "aten::index_put_: ", "aten::masked_select: ", "aten::nonzero: "};
    for (int which = 0; which < COUNT_OF(names); which++) {
        sn_function *const fn = sn_compile(breaks_in_parts, &which, NULL);
        for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 6));
        ck_assert_msg(sn_check() == SN_OK, "%s", sn_error_take()->message);
        Arena *const arena = arena_new();
        const Json *const rows = get(explained(arena, fn), "breaks");
        ck_assert_int_eq(rows->n, 1);
        const char *const reason = json_string(get(&rows->items[0], "reason"));
        ck_assert_msg(!strncmp(reason, names[which], strlen(names[which])), "%s", reason);
        ck_assert_ptr_null(strstr(reason, "aten::where"));
        ck_assert_int_eq(get(&rows->items[0], "count")->i, 2);
        arena_free(arena);
        sn_function_free(fn);
    }
}
END_TEST

static sn_status calls_strict(sn_frame *f) { return sn_out(f, 0, SN_CALL(sn_closure(f), sn_neg(sn_in(f, 0)))); }

START_TEST(a_break_inside_of_a_callee_says_why_and_where) {
    int which = 2;
    sn_function *const strict =
        sn_compile(breaks_in_parts, &which, SN_COMPILE_OPTIONS(.name = "strict", .full_graph = true));
    sn_function *const fn = sn_compile(calls_strict, strict, SN_COMPILE_OPTIONS(.name = "caller"));
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 6)));
    const char *const message = sn_error_take()->message;
    ck_assert_msg(has(message, "strict: full_graph, but its graph breaks inside caller at "), "%s", message);
    ck_assert_msg(has(message, ": aten::masked_select: a value is needed on the host"), "%s", message);
    sn_function_free(fn);
    sn_function_free(strict);
}
END_TEST

START_TEST(what_was_not_fused_says_whose_numbers_it_has) {
    sn_function *const fn = sn_compile(softmax_chain, NULL, NULL);
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 8, 8));
    ck_assert_msg(has(sn_explain(fn), "not fused in the graph, by the numbers of stage fused:"), "%s", sn_explain(fn));
    ck_assert(has(sn_explain_json(fn), "\"not_fused\": [\"fused: "));
    for (int i = 0; i < 2; i++) sn_backward(sn_sum(SN_CALL(fn, LEAF(i, 8, 8))));
    ck_assert_msg(has(sn_explain(fn), "not fused in forward, by the numbers of stage forward:"), "%s", sn_explain(fn));
    ck_assert(has(sn_explain(fn), "not fused in backward, by the numbers of stage backward:"));
    sn_function_free(fn);
}
END_TEST

/* Refused before any pass ran, which would have given a code of its own. */
static sn_status writes_what_is_saved(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    sn_add_scalar_(y, sn_float(1));
    return sn_out(f, 0, y);
}

START_TEST(a_refused_segment_has_a_reason_of_its_own) {
    sn_function *const fn = sn_compile(writes_what_is_saved, NULL, NULL);
    SN_CALL(fn, LEAF(1, 4));
    ck_assert_int_eq(sn_check(), SN_OK);
    ck_assert_msg(has(sn_explain(fn), "not compiled: unsupported: a write to what the tape saved"), "%s",
                  sn_explain(fn));
    sn_function_free(fn);
}
END_TEST

/* Touches its arguments backward, two closed-over tensors between them, and one argument not at all. */
static sn_status touches_backward(sn_frame *f) {
    const Linear *const m = sn_closure(f);
    sn_tensor *const y = sn_mul(sn_add(sn_in(f, 2), m->w), sn_in(f, 0));
    return sn_out(f, 0, sn_add(y, m->b));
}

START_TEST(texts_call_inputs_as_the_caller_does) {
    const Linear m = {F32(1, 4, 2), F32(2, 2)};
    sn_function *const fn = sn_compile(touches_backward, (void *)&m, SN_COMPILE_OPTIONS(.name = "f"));
    SN_CALL(fn, F32(3, 4, 2), F32(4, 7), F32(5, 4, 2));
    ck_assert_msg(has(sn_dump(fn, "capture"),
                      "graph f(%x0: f32[4,2], %x1: f32[7], %x2: f32[4,2], %closed0: f32[4,2], %closed1: f32[2]) {"),
                  "%s", sn_dump(fn, "capture"));
    ck_assert(has(sn_dump(fn, "capture"), "aten::add.Tensor(%x2, %closed0)"));
    ck_assert(has(sn_dump(fn, "guards"),
                  "  argument 2: f32[4,2] leaf storage 0\n  closed over 0: f32[4,2] leaf storage 1\n"
                  "  argument 0: f32[4,2] leaf storage 2\n  closed over 1: f32[2] leaf storage 3\n"));
    SN_CALL(fn, LEAF(3, 4, 2), F32(4, 7), F32(5, 4, 2));
    sn_requires_grad_(m.w, true);
    SN_CALL(fn, LEAF(3, 4, 2), F32(4, 7), F32(5, 4, 2));
    ck_assert_msg(has(sn_explain(fn), "recompile: requires_grad of argument 0: 0, now 1"), "%s", sn_explain(fn));
    ck_assert_msg(has(sn_explain(fn), "recompile: requires_grad of closed over by aten::add.Tensor at test_explain.c:"),
                  "%s", sn_explain(fn));
    sn_function_free(fn);
}
END_TEST

/* The second graph begins with a value of the first. */
START_TEST(values_of_earlier_graphs_are_called_so) {
    sn_function *const fn = sn_compile(breaks, NULL, NULL);
    SN_CALL(fn, F32(1, 4));
    ck_assert_msg(has(sn_dump(fn, "guards"), "  value 0 of an earlier graph: f32[4] leaf storage 0"), "%s",
                  sn_dump(fn, "guards"));
    ck_assert_msg(has(sn_dump(fn, "capture"), "graph fn(%x0: f32[4], %value0: f32[4]) {"), "%s",
                  sn_dump(fn, "capture"));
    sn_function_free(fn);
}
END_TEST

static sn_status clamped(sn_frame *f) {
    return sn_out(f, 0, sn_clamp_min(sn_in(f, 0), sn_float(*(const double *)sn_closure(f))));
}

START_TEST(numbers_that_are_special_floats_print_as_such) {
    const struct {
        double number;
        const char *printed;
    } cases[] = {{INFINITY, " == inf\n"}, {-INFINITY, " == -inf\n"}, {-0.0, " == -0.0\n"}, {(double)NAN, "nan\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sn_function *const fn =
            sn_compile(clamped, (void *)&cases[i].number, SN_COMPILE_OPTIONS(.dynamic = SN_DYNAMIC_NEVER));
        SN_CALL(fn, F32(1, 4));
        const char *const text = strstr(sn_dump(fn, "guards"), "guards {"), *end;
        ck_assert_msg(text && strstr(text, cases[i].printed), "%s", sn_dump(fn, "guards"));
        Text again = {0};
        ck_assert_int_eq(guards_reprint(text, &end, &again), ST_OK);
        ck_assert_int_eq(strncmp(text_str(&again), text, again.n), 0);
        text_free(&again);
        sn_function_free(fn);
    }
}
END_TEST

int main(void) {
    const TTest *const tests[] = {numbers_that_are_special_floats_print_as_such,
                                  kernels_have_their_ops_and_bytes,
                                  every_compile_stage_has_its_time,
                                  split_graphs_list_what_they_save,
                                  both_parts_write_scatters_in_place,
                                  breaks_and_recompiles_say_where_and_why,
                                  fallbacks_say_why,
                                  every_stage_dumps_and_others_are_errors,
                                  a_failed_value_check_is_the_reason,
                                  a_touch_by_another_thread_is_the_reason,
                                  a_user_mode_is_the_reason_and_its_ops_count,
                                  a_new_path_says_where_it_leaves_the_known_ones,
                                  a_break_names_its_op_and_is_listed_once,
                                  breaks_in_the_parts_of_an_op_name_the_op,
                                  a_break_inside_of_a_callee_says_why_and_where,
                                  ops_have_the_names_that_the_body_called,
                                  what_was_not_fused_says_whose_numbers_it_has,
                                  a_refused_segment_has_a_reason_of_its_own,
                                  texts_call_inputs_as_the_caller_does,
                                  values_of_earlier_graphs_are_called_so,
                                  a_hook_is_no_value_on_the_host,
                                  replay_says_why_it_turned_into_verify};
    return contract_main("explain", tests, COUNT_OF(tests));
}
