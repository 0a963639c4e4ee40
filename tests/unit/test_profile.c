/* test_profile.c: profiles (sinter/profile.h): what is told, what the table, the trace and the hints make of it. The
 * sums are held against timelines made by hand; tests/cuda/test_cuda_profile.c has a device. */
#include <pthread.h>
#include <setjmp.h>
#include <sinter/dispatch.h>
#include <stdio.h>
#include <unistd.h>

#include "frontend/api/profile.h"
#include "runtime/base/alloc.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/device/execute.h"
#include "tests/unit/contract.h"
#include "tests/unit/profile_json.h"
#include "tests/unit/suite.h"

/* what is told ---------------------------------------------------------------------------------- */

enum { TOLD_MOST = 4096 };

typedef struct Told {
    sn_profile_span spans[TOLD_MOST];
    char names[TOLD_MOST][64];
    bool begins[TOLD_MOST];
    int n, open;
} Told;

static Told told;

static void note_span(void *context, const sn_profile_span *span, bool begins) {
    Told *const t = context;
    ck_assert_int_lt(t->n, TOLD_MOST);
    if (!begins) t->open--;
    ck_assert_int_eq(span->depth, t->open);
    ck_assert_int_eq(span->to != 0, !begins);
    if (begins) t->open++;
    t->spans[t->n] = *span, t->begins[t->n] = begins;
    snprintf(t->names[t->n++], sizeof *t->names, "%s", span->name);
}

static sn_profile *start_told(void) {
    told = (Told){.n = 0};
    sn_profile *const p = sn_profile_start(SN_PROFILE_OPTIONS(.seen = note_span, .context = &told));
    ck_assert_ptr_nonnull(p);
    return p;
}

static int find_told(const char *name, sn_profile_kind kind, int from) {
    for (int i = from; i < told.n; i++)
        if (told.begins[i] && told.spans[i].kind == kind && !strcmp(told.names[i], name)) return i;
    return -1;
}

static int end_told(int begin) {
    for (int i = begin + 1; i < told.n; i++)
        if (!told.begins[i] && told.spans[i].depth == told.spans[begin].depth) return i;
    return -1;
}

/* One is inside of the other. */
static void expect_inside(int inner, int outer) {
    ck_assert_int_ge(outer, 0);
    ck_assert_int_gt(inner, outer);
    ck_assert_int_lt(end_told(inner), end_told(outer));
    ck_assert_str_eq(told.names[end_told(inner)], told.names[inner]);
}

START_TEST(a7_12_ops_within_ops_are_told_as_they_begin_and_end) {
    sn_tensor *const x = sn_requires_grad_(F32(1, 4, 8), true), *const w = F32(2, 3, 8), *const b = F32(3, 3);
    sn_profile *const p = start_told();
    sn_tensor *const y = sn_linear(x, w, b);
    sn_backward(sn_sum(sn_add_(sn_mul(y, y), y)));
    sn_profile_stop(p);
    sn_add(x, x); /* nobody is told */
    ck_assert_int_eq(told.open, 0);
    const int linear = find_told("aten::linear", SN_PROFILE_OP, 0),
              backward = find_told("backward", SN_PROFILE_RULE, 0);
    expect_inside(find_told("aten::addmm", SN_PROFILE_OP, linear), linear);
    ck_assert_int_gt(find_told("aten::add_.Tensor", SN_PROFILE_OP, linear), linear);
    const int rule = find_told("AddmmBackward", SN_PROFILE_RULE, backward);
    expect_inside(rule, backward);
    expect_inside(find_told("aten::mm", SN_PROFILE_OP, rule), rule);
    for (int i = 0; i < told.n; i++) ck_assert_ptr_null(told.spans[i].function);
    sn_profile_free(p);
}
END_TEST

static sn_status two_steps(sn_frame *f) {
    sn_tensor *const y = sn_mm(sn_in(f, 0), sn_in(f, 1));
    return sn_out(f, 0, sn_relu(sn_cumsum(sn_mul(y, y), 0, SN_F32)));
}

/* The body's ops are matched; what runs are as many steps as were launched. */
START_TEST(a7_12_calls_of_functions_hold_their_kernels) {
    sn_function *const fn = sn_compile(two_steps, NULL, SN_COMPILE_OPTIONS(.name = "two"));
    sn_tensor *const a = sn_requires_grad_(F32(1, 5, 6), true), *const b = F32(2, 6, 7);
    for (int call = 0; call < 2; call++) sn_backward(sn_sum(SN_CALL(fn, a, b)));
    sn_profile *const p = start_told();
    const int64_t before = execute_counts()->launches;
    SN_CALL(fn, a, b);
    sn_profile_stop(p);
    const int call = find_told("two", SN_PROFILE_CALL, 0);
    int steps = 0;
    ck_assert_int_eq(call, 0);
    for (int i = 0; i < told.n; i++) {
        if (!told.begins[i] || told.spans[i].kind != SN_PROFILE_STEP) continue;
        ck_assert_str_eq(told.spans[i].function, "two");
        expect_inside(i, call);
        steps++;
    }
    ck_assert_int_ge(steps, 2);
    ck_assert_int_eq(steps, execute_counts()->launches - before);
    ck_assert_int_lt(find_told("aten::mm", SN_PROFILE_OP, 0), 0);
    sn_profile_free(p);
    sn_function_free(fn);
}
END_TEST

START_TEST(a7_12_compiling_is_told_stage_by_stage) {
    static const char *const stages[] = {"cse", "schedule", "lower", "codegen", "load"};
    sn_function *const fn = sn_compile(two_steps, NULL, SN_COMPILE_OPTIONS(.name = "two"));
    sn_tensor *const a = F32(1, 5, 6), *const b = F32(2, 6, 7);
    sn_profile *const p = start_told();
    SN_CALL(fn, a, b);
    const char *const table = sn_profile_table(p, SN_PROFILE_TABLE_OPTIONS(.rows = -1));
    ck_assert_int_ge(find_told("compile", SN_PROFILE_STAGE, 0), 0);
    ck_assert_msg(strstr(table, "  trace\n") != NULL, "%s", table);
    for (int i = 0; i < COUNT_OF(stages); i++) {
        char row[32];
        snprintf(row, sizeof row, "  %s\n", stages[i]);
        ck_assert_msg(strstr(table, row) != NULL, "%s: %s", stages[i], table);
    }
    ck_assert_msg(strstr(sn_profile_hints(p), "compiling: ") != NULL, "%s", sn_profile_hints(p));
    sn_profile_free(p);
    sn_function_free(fn);
}
END_TEST

/* tables of timelines made by hand -------------------------------------------------------------- */

/* main | f | g | f | h |    f holds g, which holds f again; then h alone */
static const TimelineSpan tree[] = {
    {.name = "f", .kind = PROFILE_op, .parent = -1, .from = 100, .to = 1100},
    {.name = "g", .kind = PROFILE_op, .parent = 0, .from = 200, .to = 900},
    {.name = "f", .kind = PROFILE_op, .parent = 1, .from = 300, .to = 500},
    {.name = "h", .kind = PROFILE_copy, .parent = 1, .from = 500, .to = 600},
    {.name = "h", .kind = PROFILE_copy, .parent = -1, .from = 1100, .to = 3100},
    {.name = "k0", .owner = "fn", .kind = PROFILE_step, .parent = -1, .from = 3200, .to = 3300}};

static Timeline by_hand(TimelineSpan *spans, const TimelineSpan *from, int n) {
    memcpy(spans, from, (size_t)n * sizeof *from);
    Timeline t = {.spans = spans, .n_spans = n, .n_threads = 1, .to = 4000};
    timeline_sum(&t);
    return t;
}

static const Json *table_of(const Timeline *t, Arena *arena, sn_profile_table_options options) {
    Text text = {0};
    options.size = sizeof options, options.json = true;
    ck_assert_int_eq(profile_table(t, &options, &text), ST_OK);
    const Json *const root = strict_json(arena, text_str(&text), text.n);
    text_free(&text);
    return root;
}

START_TEST(a7_13_totals_are_self_and_what_is_inside) {
    Arena *const arena = arena_new();
    TimelineSpan spans[COUNT_OF(tree)];
    const Timeline t = by_hand(spans, tree, COUNT_OF(tree));
    const Json *const rows = json_get(table_of(&t, arena, (sn_profile_table_options){0}), "rows");
    ck_assert_int_eq(rows->n, 4);
    expect_row(&rows->items[0], "h", 2, 2100, 2100);
    expect_row(&rows->items[1], "f", 2, 500, 1000); /* 300 of the outer, 200 of the inner, which is in its total */
    expect_row(&rows->items[2], "g", 1, 400, 700);
    expect_row(&rows->items[3], "k0", 1, 100, 100);
    ck_assert_str_eq(json_string(json_get(&rows->items[3], "function")), "fn");
    int64_t self = 0, roots = 0;
    for (int i = 0; i < rows->n; i++) self += json_get(&rows->items[i], "self_ns")->i;
    for (int i = 0; i < t.n_spans; i++) roots += t.spans[i].parent < 0 ? t.spans[i].to - t.spans[i].from : 0;
    ck_assert_int_eq(self, roots);
    arena_free(arena);
}
END_TEST

START_TEST(a7_13_rows_are_sorted_and_limited) {
    static const struct {
        sn_profile_sort sort;
        const char *first;
    } sorts[] = {{SN_PROFILE_BY_SELF, "h"},  {SN_PROFILE_BY_TOTAL, "h"},  {SN_PROFILE_BY_DEVICE, "f"},
                 {SN_PROFILE_BY_CALLS, "f"}, {SN_PROFILE_BY_BYTES, "k0"}, {SN_PROFILE_BY_MEMORY, "g"},
                 {SN_PROFILE_BY_NAME, "f"}};
    Arena *const arena = arena_new();
    TimelineSpan spans[COUNT_OF(tree)];
    ProfileMore much = {.bytes = 1000, .flops = 50}, held = {.memory = 64};
    TimelineWork work = {.name = "k0", .device = DEV_cuda, .launched = 1, .from = 250, .to = 280};
    Timeline t = by_hand(spans, tree, COUNT_OF(tree));
    spans[5].more = &much, spans[1].more = &held;
    t.work = &work, t.n_work = t.n_streams = 1, t.has_shapes = t.has_memory = true;
    timeline_sum(&t);
    for (int i = 0; i < COUNT_OF(sorts); i++) {
        const sn_profile_table_options options = {.sort = sorts[i].sort, .rows = 2, .peak_gflops = 1, .peak_gbs = 20};
        const Json *const rows = json_get(table_of(&t, arena, options), "rows");
        ck_assert_int_eq(rows->n, 2);
        ck_assert_str_eq(json_string(json_get(&rows->items[0], "name")), sorts[i].first);
        if (sorts[i].sort != SN_PROFILE_BY_BYTES) continue;
        ck_assert_int_eq(json_get(&rows->items[0], "bytes")->i, 1000);
        ck_assert_double_eq(json_get(&rows->items[0], "roofline")->number, 0.5); /* 10 of 20 GB/s; 0.5 of 1 GFLOP/s */
    }
    arena_free(arena);
}
END_TEST

START_TEST(a7_13_what_is_asked_for_stands_in_the_table) {
    sn_profile *const p = sn_profile_start(SN_PROFILE_OPTIONS(.shapes = true, .memory = true, .stacks = true));
    Arena *const arena = arena_new();
    sn_tensor *const x = F32(1, 512, 256), *const w = F32(2, 256, 128);
    for (int i = 0; i < 3; i++) sn_mm(x, w);
    sn_mm(w, F32(3, 128, 8));
    const sn_profile_table_options by = {
        .size = sizeof by, .by_shapes = true, .by_stack = true, .rows = -1, .json = true};
    const char *const text = sn_profile_table(p, &by);
    const Json *const root = strict_json(arena, text, strlen(text));
    const Json *const row = row_named(root, "aten::mm", "f32[512, 256], f32[256, 128]");
    ck_assert_int_eq(json_get(row, "calls")->i, 3);
    ck_assert_int_eq(json_get(row, "flops")->i, 3 * 2 * INT64_C(512) * 256 * 128);
    ck_assert_int_eq(json_get(row, "bytes")->i, 3 * 4 * (512 * 256 + 256 * 128 + 512 * 128));
    ck_assert_int_ge(json_get(row, "memory")->i, 3 * 4 * 512 * 128);
    ck_assert_ptr_nonnull(strstr(json_string(json_get(row, "detail")), "test_profile"));
    ck_assert_int_eq(json_get(row_named(root, "aten::mm", "f32[256, 128], f32[128, 8]"), "calls")->i, 1);
    arena_free(arena);
    sn_profile_free(p);
}
END_TEST

/* traces ---------------------------------------------------------------------------------------- */

static sn_profile *of_two_ranges(void) {
    sn_profile *const p = sn_profile_start(SN_PROFILE_OPTIONS(.shapes = true, .stacks = true));
    sn_function *const fn = sn_compile(two_steps, NULL, SN_COMPILE_OPTIONS(.name = "two \"quoted\"\n"));
    sn_tensor *const a = sn_requires_grad_(F32(1, 5, 6), true), *const b = F32(2, 6, 7);
    for (int i = 0; i < 3; i++) {
        const sn_scope step = sn_scope_begin();
        ck_assert_int_eq(sn_profile_range("step"), SN_OK);
        const sn_scope forward = sn_scope_begin();
        ck_assert_int_eq(sn_profile_range("forward \\ \x01 \xff"), SN_OK);
        sn_tensor *const loss = sn_keep(sn_sum(SN_CALL(fn, a, b)));
        sn_scope_end(forward);
        sn_backward(loss);
        sn_release(loss);
        sn_scope_end(step);
    }
    sn_function_free(fn);
    return p;
}

START_TEST(a7_14_ranges_end_with_their_scopes) {
    sn_profile *const p = of_two_ranges();
    Arena *const arena = arena_new();
    const char *const text = sn_profile_table(p, SN_PROFILE_TABLE_OPTIONS(.json = true, .rows = -1));
    const Json *const root = strict_json(arena, text, strlen(text));
    const Json *const step = row_named(root, "step", NULL), *const backward = row_named(root, "backward", NULL);
    ck_assert_int_eq(json_get(step, "calls")->i, 3);
    ck_assert_int_gt(json_get(step, "total_ns")->i, json_get(backward, "total_ns")->i);
    ck_assert_int_ge(json_get(step, "total_ns")->i, json_get(step, "self_ns")->i + json_get(backward, "total_ns")->i);
    arena_free(arena);
    sn_profile_free(p);
}
END_TEST

START_TEST(a7_14_traces_are_strict_json_whose_spans_nest) {
    sn_profile *const p = of_two_ranges();
    Arena *const arena = arena_new();
    const char *const text = sn_profile_trace(p);
    const Json *const events = json_get(strict_json(arena, text, strlen(text)), "traceEvents");
    ck_assert_int_gt(trace_check(events, NULL), 40);
    ck_assert_ptr_nonnull(trace_event(events, "X", "step"));
    ck_assert_ptr_nonnull(trace_event(events, "X", "codegen"));
    char path[] = "/tmp/sinter-profile-XXXXXX";
    close(mkstemp(path));
    ck_assert_int_eq(sn_profile_trace_save(p, path), SN_OK);
    size_t n;
    char *content;
    ck_assert_int_eq(file_read(path, &content, &n), ST_OK);
    ck_assert_str_eq(content, text);
    mem_free(content);
    unlink(path);
    arena_free(arena);
    sn_profile_free(p);
}
END_TEST

START_TEST(a7_14_an_arrow_goes_from_a_launch_to_what_ran) {
    Arena *const arena = arena_new();
    TimelineSpan spans[COUNT_OF(tree)];
    TimelineWork work[] = {{.name = "k1", .device = DEV_cuda, .launched = 1, .from = 950, .to = 1280},
                           {.name = "k2", .device = DEV_cuda, .stream = 1, .launched = 4, .from = 1200, .to = 1300},
                           {.name = "lost", .device = DEV_cuda, .launched = -1, .from = 2000, .to = 2001}};
    Timeline t = by_hand(spans, tree, COUNT_OF(tree));
    Text text = {0};
    t.work = work, t.n_work = 3, t.n_streams = 2;
    profile_trace(&t, &text);
    const Json *const events = json_get(strict_json(arena, text_str(&text), text.n), "traceEvents");
    int arrows = 0;
    trace_check(events, &arrows);
    ck_assert_int_eq(arrows, 2);
    const Json *const from = trace_event(events, "s", "launch"), *const to = trace_event(events, "f", "launch");
    ck_assert_double_eq(json_get(from, "ts")->number, 0.2);
    ck_assert_double_eq(json_get(to, "ts")->number, 0.95);
    text_free(&text);
    arena_free(arena);
}
END_TEST

/* hints ----------------------------------------------------------------------------------------- */

static void expect_hint(const Timeline *t, const char *wanted, const char *unwanted) {
    Text text = {0};
    profile_hints(t, &text);
    ck_assert_msg(strstr(text_str(&text), wanted) != NULL, "%s: %s", wanted, text_str(&text));
    if (unwanted) ck_assert_msg(strstr(text_str(&text), unwanted) == NULL, "%s: %s", unwanted, text_str(&text));
    text_free(&text);
}

enum { ROUNDS = 200 };

/* As many calls, each of `host` ns, `every` ns apart, whose work begins behind it and takes `device` ns. */
typedef struct Beat {
    ProfileKind kind;
    int64_t every, host, device;
} Beat;

static Timeline beats(Arena *arena, const Beat *beat) {
    Timeline t = {.n_threads = 1, .n_streams = beat->device > 0};
    t.spans = ARENA_ARRAY(arena, TimelineSpan, ROUNDS);
    t.work = ARENA_ARRAY(arena, TimelineWork, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t from = 1000 + i * beat->every;
        t.spans[t.n_spans++] =
            (TimelineSpan){.name = "aten::op", .kind = beat->kind, .parent = -1, .from = from, .to = from + beat->host};
        if (!beat->device) continue;
        t.work[t.n_work++] = (TimelineWork){.name = "k0",
                                            .device = DEV_cuda,
                                            .launched = i,
                                            .from = from + beat->host,
                                            .to = from + beat->host + beat->device};
    }
    t.to = t.spans[ROUNDS - 1].to;
    timeline_sum(&t);
    return t;
}

START_TEST(a7_15_hints_name_what_bounds_a_device) {
    Arena *const arena = arena_new();
    const Timeline launches = beats(arena, &(Beat){PROFILE_op, 10000, 9900, 1000});
    expect_hint(&launches, "launch-bound: ", "kernel-bound");
    const Timeline kernels = beats(arena, &(Beat){PROFILE_op, 10000, 500, 9900});
    expect_hint(&kernels, "kernel-bound: devices compute 99 % of the time, 100 % of that in k0", "launch-bound");
    const Timeline copies = beats(arena, &(Beat){PROFILE_copy, 10000, 500, 9900});
    expect_hint(&copies, "copy-bound: 100 %", "kernel-bound");
    arena_free(arena);
}
END_TEST

START_TEST(a7_11_hints_name_a_host_that_prepares) {
    Arena *const arena = arena_new();
    const Timeline device = beats(arena, &(Beat){PROFILE_op, 10000, 500, 2000});
    expect_hint(&device, "idle while the host prepares: devices have nothing to do for 7", "launch-bound");
    const Timeline fed = beats(arena, &(Beat){PROFILE_op, 10000, 500, 9900});
    expect_hint(&fed, "kernel-bound", "idle");
    const Timeline host = beats(arena, &(Beat){PROFILE_op, 10000, 3000, 0});
    expect_hint(&host, "idle while the host prepares: no op runs for 70 %", NULL);
    arena_free(arena);
}
END_TEST

START_TEST(a7_15_hints_name_what_bounds_the_host) {
    Arena *const arena = arena_new();
    const Timeline calls = beats(arena, &(Beat){PROFILE_op, 300, 290, 0});
    expect_hint(&calls, "launch-bound: 200 ops take 290 ns each", "idle");
    const Timeline copies = beats(arena, &(Beat){PROFILE_copy, 10000, 9900, 0});
    expect_hint(&copies, "copy-bound: 100 %", "kernel-bound");
    const Timeline kernels = beats(arena, &(Beat){PROFILE_op, 10000, 9900, 0});
    expect_hint(&kernels, "kernel-bound: 100 % of the time is in kernels, 100 % in aten::op", "launch-bound");
    const Timeline none = {.n_threads = 0};
    expect_hint(&none, "nothing stands out", NULL);
    arena_free(arena);
}
END_TEST

/* Products of this size are what the time goes into, on any machine. */
START_TEST(a7_15_hints_of_a_real_program) {
    sn_tensor *const x = F32(1, 256, 256);
    sn_mm(x, x);
    sn_profile *const p = sn_profile_start(NULL);
    for (int i = 0; i < 20; i++) sn_mm(x, x);
    const char *const hints = sn_profile_hints(p);
    ck_assert_msg(strstr(hints, "kernel-bound: ") && strstr(hints, "in aten::mm\n"), "%s", hints);
    sn_profile_free(p);
}
END_TEST

/* what goes wrong ------------------------------------------------------------------------------- */

START_TEST(errors_say_what_is_wrong) {
    sn_profile *const p = sn_profile_start(NULL);
    ck_assert_ptr_null(sn_profile_start(NULL));
    expect_error(SN_ERR_STATE, "somebody watches the steps already");
    ck_assert_int_eq(sn_profile_range(NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_profile_range: the name is NULL");
    ck_assert_str_eq(sn_profile_table(p, SN_PROFILE_TABLE_OPTIONS(.sort = 99)), "");
    expect_error(SN_ERR_ARGUMENT, "sn_profile_table: sort 99");
    ck_assert_str_eq(sn_profile_table(p, SN_PROFILE_TABLE_OPTIONS(.rows = -2)), "");
    expect_error(SN_ERR_ARGUMENT, "sn_profile_table: rows is -2");
    ck_assert_int_eq(sn_profile_trace_save(p, "/nowhere/at/all.json"), SN_ERR_IO);
    expect_error(SN_ERR_IO, "/nowhere/at/all.json");
    sn_profile_free(p);
    ck_assert_ptr_null(sn_profile_start(SN_PROFILE_OPTIONS(.most = -1)));
    expect_error(SN_ERR_ARGUMENT, "sn_profile_start: most is -1");
    ck_assert_int_eq(sn_profile_stop(NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_profile_stop");
    sn_profile_free(NULL);
}
END_TEST

static sn_status starts_a_profile(sn_frame *f) {
    sn_profile_start(NULL);
    return sn_out(f, 0, sn_in(f, 0));
}

START_TEST(a_body_starts_no_profile) {
    sn_function *const fn = sn_compile(starts_a_profile, NULL, NULL);
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 4)));
    expect_error(SN_ERR_STATE, "sn_profile_start: not inside a compiled function");
    sn_function_free(fn);
}
END_TEST

START_TEST(what_there_is_no_room_for_is_counted) {
    sn_tensor *const x = F32(1, 4);
    sn_profile *const p = sn_profile_start(SN_PROFILE_OPTIONS(.most = 1024));
    for (int i = 0; i < 2000; i++) sn_add(x, x);
    const char *const table = sn_profile_table(p, NULL);
    ck_assert_msg(strstr(table, "1024 spans of 1 thread") && strstr(table, "976 more were not kept"), "%s", table);
    sn_profile_free(p);
}
END_TEST

static sn_profile *ended;
static sn_status ends_the_profile(sn_frame *f) {
    sn_tensor *const y = sn_exp(sn_in(f, 0));
    sn_profile_free(ended);
    ended = sn_profile_start(NULL);
    return sn_out(f, 0, sn_exp(y));
}
static sn_status meta_like(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }

START_TEST(a_profile_ends_and_another_begins_within_an_op_and_a_range) {
    const sn_op *const op = sn_op_register(
        SN_OP_DESC(.schema = "own::ends_it(Tensor x) -> Tensor", .meta = meta_like, .cpu = ends_the_profile));
    const sn_value in = sn_val(F32(1, 4));
    ended = sn_profile_start(NULL);
    const sn_scope scope = sn_scope_begin();
    sn_profile_range("outer");
    ck_assert_ptr_nonnull(sn_op_call1(op, &in, 1));
    sn_scope_end(scope);
    const char *const table = sn_profile_table(ended, NULL);
    ck_assert_msg(strstr(table, "aten::exp") && !strstr(table, "own::ends_it") && !strstr(table, "outer"), "%s", table);
    sn_profile_free(ended);
}
END_TEST

/* Bits and outcomes are as without, whatever the recorder lacks. */
START_TEST(a_profile_without_memory_is_no_error) {
    sn_tensor *const x = F32(1, 4);
    sn_add(x, x);
    sn_profile *const p = sn_profile_start(SN_PROFILE_OPTIONS(.shapes = true));
    mem_fail_after(0);
    const Status none = error_pending();
    sn_profile_range("named");
    mem_fail_after(-1);
    if (sn_check()) sn_error_take();
    ck_assert_int_eq(none, ST_OK);
    ck_assert_ptr_nonnull(sn_add(x, x));
    ck_assert_int_eq(sn_check(), SN_OK);
    sn_profile_free(p);
}
END_TEST

enum { THREADS = 4, OPS = 200 };

static void *adding(void *unused) {
    (void)unused;
    sn_tensor *const x = F32(1, 4, 8);
    for (int i = 0; i < OPS; i++) {
        const sn_scope scope = sn_scope_begin();
        sn_profile_range("round");
        sn_add(x, x);
        sn_scope_end(scope);
    }
    return NULL;
}

START_TEST(threads_have_logs_of_their_own) {
    pthread_t threads[THREADS];
    Arena *const arena = arena_new();
    sn_profile *const p = sn_profile_start(NULL);
    for (int i = 0; i < THREADS; i++) ck_assert_int_eq(pthread_create(&threads[i], NULL, adding, NULL), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    const char *const text = sn_profile_table(p, SN_PROFILE_TABLE_OPTIONS(.json = true));
    ck_assert_int_eq(json_get(row_named(strict_json(arena, text, strlen(text)), "aten::add.Tensor", NULL), "calls")->i,
                     THREADS * OPS);
    const char *const trace = sn_profile_trace(p);
    trace_check(json_get(strict_json(arena, trace, strlen(trace)), "traceEvents"), NULL);
    arena_free(arena);
    sn_profile_free(p);
}
END_TEST

static jmp_buf out;
static sn_status jumps(sn_frame *f) {
    sn_profile_range("left");
    sn_exp(sn_in(f, 0));
    longjmp(out, 1);
}

START_TEST(a_jump_out_of_an_op_leaves_a_whole_trace) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "own::jumps(Tensor x) -> Tensor", .meta = meta_like, .cpu = jumps));
    Arena *const arena = arena_new();
    sn_tensor *const x = F32(1, 4);
    const sn_value in = sn_val(x);
    sn_profile *const p = sn_profile_start(NULL);
    const sn_scope scope = sn_scope_begin();
    if (!setjmp(out)) sn_op_call1(op, &in, 1);
    sn_scope_end(scope);
    sn_exp(x);
    const char *const trace = sn_profile_trace(p);
    trace_check(json_get(strict_json(arena, trace, strlen(trace)), "traceEvents"), NULL);
    arena_free(arena);
    sn_profile_free(p);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("profile");
    tcase_add_test(tests, a7_12_ops_within_ops_are_told_as_they_begin_and_end);
    tcase_add_test(tests, a7_12_calls_of_functions_hold_their_kernels);
    tcase_add_test(tests, a7_12_compiling_is_told_stage_by_stage);
    tcase_add_test(tests, a7_13_totals_are_self_and_what_is_inside);
    tcase_add_test(tests, a7_13_rows_are_sorted_and_limited);
    tcase_add_test(tests, a7_13_what_is_asked_for_stands_in_the_table);
    tcase_add_test(tests, a7_14_ranges_end_with_their_scopes);
    tcase_add_test(tests, a7_14_traces_are_strict_json_whose_spans_nest);
    tcase_add_test(tests, a7_14_an_arrow_goes_from_a_launch_to_what_ran);
    tcase_add_test(tests, a7_15_hints_name_what_bounds_a_device);
    tcase_add_test(tests, a7_11_hints_name_a_host_that_prepares);
    tcase_add_test(tests, a7_15_hints_name_what_bounds_the_host);
    tcase_add_test(tests, a7_15_hints_of_a_real_program);
    tcase_add_test(tests, errors_say_what_is_wrong);
    tcase_add_test(tests, a_body_starts_no_profile);
    tcase_add_test(tests, what_there_is_no_room_for_is_counted);
    tcase_add_test(tests, a_profile_ends_and_another_begins_within_an_op_and_a_range);
    tcase_add_test(tests, a_profile_without_memory_is_no_error);
    tcase_add_test(tests, threads_have_logs_of_their_own);
    tcase_add_test(tests, a_jump_out_of_an_op_leaves_a_whole_trace);
    return suite_run("profile", tests);
}
