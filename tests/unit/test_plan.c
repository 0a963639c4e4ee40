/* test_plan.c: plans: steps on devices and copies between them, workspace in the arena, what lowering refuses, and what
 * the parser and the verifier refuse of an edited text. That texts run is for test_lower.c and `test_ops text`. */
#include <stdio.h>

#include "passes/calendar.h"
#include "passes/lower.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/device/execute.h"
#include "tests/unit/contract.h"

/* A device whose addresses are no memory: they are BIAS away from where its bytes lie. */
enum { BIAS = 1 << 12 };
static int copies, blocks;
static void *board_allocate(void *context, size_t bytes) { return blocks++, (char *)calloc(1, bytes) + BIAS; }
static void board_free(void *context, void *memory, size_t bytes) {
    blocks--;
    free((char *)memory - BIAS);
}
static sn_status board_copy(void *context, void *to, const void *from, size_t bytes, sn_copy_way way) {
    copies++;
    memcpy((char *)to - (way == SN_COPY_TO_HOST ? 0 : BIAS), (const char *)from - (way == SN_COPY_FROM_HOST ? 0 : BIAS),
           bytes);
    return SN_OK;
}

static sn_device board(void) {
    static sn_device device;
    if (!device)
        device = sn_device_register(
            SN_DEVICE_DESC(.name = "board", .allocate = board_allocate, .free = board_free, .copy = board_copy));
    return device;
}

/* The graph's plan, or NULL and *why. */
static Plan *plan_of(Arena *arena, const char *text, Bail *exit) {
    Graph *graph;
    if (graph_parse(arena, text, strlen(text), &graph) != ST_OK) ck_abort_msg("%s\n%s", error_slot()->message, text);
    exit->code = BAIL_none;
    exit->scratch = NULL;
    graph->bail = exit;
    if (setjmp(exit->exit)) return NULL;
    const Status status =
        passes_run(graph, "functionalize,decompose,fold,cse,dce,plan", &(PassOptions){.verify = true});
    ck_assert_msg(status == ST_OK, "%s", error_slot()->message);
    return graph->plan;
}

static Plan *made_plan(Arena *arena, const char *text) {
    Bail exit;
    Plan *const plan = plan_of(arena, text, &exit);
    ck_assert_msg(plan != NULL, "%s", exit.message);
    return plan;
}

static char *text_of(const Plan *plan) {
    Text text = {0};
    plan_print(plan, &text);
    return text.at;
}

static void run(Plan *plan, sn_tensor *const *in, sn_tensor **out) {
    Executable *executable;
    ck_assert_int_eq(executable_new(plan, false, NULL, NULL, &executable), ST_OK);
    const Status status = execute(executable, in, NULL, NULL, out);
    ck_assert_msg(status == ST_OK, "%s", error_slot()->message);
    executable_free(executable);
}

/* Kernels on the host before and after a part on the board: there is none there, so that only copies are. */
static const char spanning[] = "graph f(%x: f32[6,4], %there: f32[4]@board) {\n"
                               "  %0 = aten::relu(%x)\n"
                               "  %1 = aten::_to_copy(%0, device=board)\n"
                               "  %2 = aten::_to_copy(%there, device=cpu)\n"
                               "  %3 = aten::add.Tensor(%0, %2)\n"
                               "  %4 = aten::t(%3)\n"
                               "  %5 = aten::_to_copy(%4, dtype=f64, device=board)\n"
                               "  %6 = aten::_to_copy(%5, device=cpu)\n"
                               "  return %1, %5, %6\n"
                               "}\n";

START_TEST(copies_between_devices_are_steps) {
    const sn_device device = board();
    Arena *const arena = arena_new(), *const other = arena_new();
    Plan *const plan = made_plan(arena, spanning), *again;
    int between = 0;
    for (int i = 0; i < plan->steps.n; i++) between += plan->steps.at[i].kind == STEP_copy;
    ck_assert_int_eq(between, 4);
    char *const text = text_of(plan);
    ck_assert_msg(strstr(text, "out0 = copy(") && strstr(text, ") to board  1 op"), "%s", text);
    const char *end;
    ck_assert_msg(plan_parse(other, text, &end, &again) == ST_OK, "%s\n%s", error_slot()->message, text);
    char *const twice = text_of(again);
    ck_assert_str_eq(twice, text);
    Plan *const plans[] = {plan, again};
    for (int k = 0; k < 2; k++) {
        const sn_scope scope = sn_scope_begin();
        sn_tensor *const x = F32(1, 6, 4), *const v = F32(2, 4), *out[3];
        run(plans[k], (sn_tensor *[]){x, sn_to_device(v, device)}, out);
        sn_tensor *const sum = sn_to(sn_t(sn_add(sn_relu(x), v)), SN_F64);
        ck_assert_int_eq(sn_device_of(out[0]), device);
        ck_assert(same_bits(sn_to_device(out[0], SN_CPU), sn_relu(x)));
        ck_assert(same_bits(sn_to_device(out[1], SN_CPU), sum) && same_bits(out[2], sum));
        sn_scope_end(scope);
    }
    mem_free(text);
    mem_free(twice);
    arena_free(arena);
    arena_free(other);
    ck_assert_int_eq(blocks, 0);
}
END_TEST

/* Values between copies lie in an arena of their device. */
START_TEST(a_device_has_an_arena_of_its_own) {
    const sn_device device = board();
    static const char there_and_back[] = "graph f(%x: f32[64]) {\n"
                                         "  %0 = aten::_to_copy(%x, device=board)\n"
                                         "  %1 = aten::_to_copy(%0, device=cpu)\n"
                                         "  %2 = aten::neg(%1)\n"
                                         "  return %2\n"
                                         "}\n";
    Arena *const arena = arena_new();
    Plan *const plan = made_plan(arena, there_and_back);
    ck_assert_int_eq(plan->arenas.n, 2);
    ck_assert_int_eq(plan->arenas.at[1].device, device);
    ck_assert_int_eq(plan->arenas.at[1].bytes, 256);
    sn_tensor *const x = F32(3, 64), *out[1];
    run(plan, &x, out);
    ck_assert(same_bits(out[0], sn_neg(x)));
    ck_assert_int_eq(blocks, 0);
    arena_free(arena);
}
END_TEST

START_TEST(lowering_says_what_no_device_runs) {
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"graph f(%x: f32[4]@board) {\n  %0 = aten::relu(%x)\n  return %0\n}\n",
         "aten::relu on board: this device has no executor of plans"},
        {"graph f(%x: f32[4]@board) {\n  %0, %1 = aten::topk(%x, 2)\n  return %0\n}\n",
         "aten::topk on board: this device has no executor of plans"},
        {"graph f(%x: f32[4], %y: f32[]@board) {\n  %0 = aten::_to_copy(%x, device=board)\n"
         "  %1 = aten::add.Tensor(%0, %y)\n  return %1\n}\n",
         "aten::add.Tensor on board: this device has no executor of plans"},
    };
    board();
    for (int i = 0; i < COUNT_OF(rows); i++) {
        Arena *const arena = arena_new();
        Bail exit;
        ck_assert_ptr_null(plan_of(arena, rows[i].text, &exit));
        ck_assert_str_eq(exit.message, rows[i].why);
        arena_free(arena);
        /* by the public door, where a pass that gives up is an error */
        sn_graph *const g = sn_graph_parse(rows[i].text, strlen(rows[i].text));
        ck_assert_int_eq(sn_graph_run(g, "functionalize,decompose,plan"), SN_ERR_UNSUPPORTED);
        expect_error(SN_ERR_UNSUPPORTED, rows[i].why);
        ck_assert_int_eq(sn_graph_run(g, "dce"), SN_OK);
        sn_graph_free(g);
    }
}
END_TEST

static const char sorting[] = "graph f(%x: f32[8,s0], %w: f32[16,16], %i: i64[s0]) {\n"
                              "  %0 = aten::exp(%x)\n"
                              "  %1, %2 = aten::topk(%0, 2, 1)\n"
                              "  %3 = aten::embedding(%w, %i)\n"
                              "  %4 = aten::mm(%3, %w)\n"
                              "  %5 = aten::mm(%4, %w)\n"
                              "  %6 = aten::mm(%w, %w)\n"
                              "  %7 = aten::copy_(%w, %6)\n"
                              "  return %1, %2, %5\n"
                              "}\n";

/* Two pairs of an int64 for each element of a line, alive while the op runs. */
START_TEST(workspace_is_known_before_memory) {
    Arena *const arena = arena_new();
    Plan *const plan = made_plan(arena, sorting);
    const Step *sort = NULL;
    for (int i = 0; i < plan->steps.n; i++)
        if (plan->steps.at[i].kind == STEP_native) sort = &plan->steps.at[i];
    ck_assert(sort && sort->workspace >= 0);
    const Slot *const slot = &plan->slots.at[sort->workspace];
    ck_assert_int_eq(slot->first, slot->last);
    ck_assert_int_eq(sym_eval(plan->env, slot->bytes, (int64_t[]){5}), 5 * 32);
    ck_assert_int_ge(sym_eval(plan->env, plan->arenas.at[0].bytes, (int64_t[]){5}),
                     sym_eval(plan->env, slot->offset, (int64_t[]){5}) + 5 * 32);
    arena_free(arena);
}
END_TEST

/* Every line of the text is read: one edit of it, and what is said of it. */
START_TEST(an_edited_text_is_refused) {
    static const struct {
        const char *from, *to, *says;
    } edits[] = {
        {"symbols s0=2", "symbols s1=2", "expected the next symbol before this"},
        {"symbols s0=2>=2", "symbols s0=2>=9", "expected a hint in bounds before this"},
        {"kernels\n", "kernels\nkernel k(b0: in f32) {\n}\n", "kernel k: no nest"},
        {"steps\n  0", "steps\n  1", "expected the next step before this"},
        {"k0_exp(in0", "k1_exp(in0", "expected a call of the next kernel"},
        {"k0_exp(in0, arena0)", "k0_exp(in0, arena9)", "no slot 'arena9'"},
        {"k0_exp(in0, arena0)", "k0_exp(in2, arena0)", "step 0: a slot outside of its lifetime"},
        {"in0  f32[8,s0]", "in0  i64[8,s0]", "a buffer of another dtype than its slot"},
        {"k5_mm(in1, arena3)", "k5_mm(in1, in1)", "step 5: an input is written by a step that does not write back"},
        {"k0_exp(in0, arena0)", "k0_exp(in0)", "expected"},
        {"p0 = s0*8", "p1 = s0*8", "expected the next parameter before this"},
        {"aten::topk(", "aten::top(", "expected an op that is a step, with its results"},
        {"aten::topk(", "aten::mm(", "expected an op that is a step, with its results"},
        {"out0, out1 = ", "out0 = ", "expected an op that is a step, with its results"},
        {", 2, 1, True, True)", ", 1, 1, True, True)", "result 0 is not what its rule says"},
        {", 2, 1, True, True)", ", 2, 1, True)", "expected"},
        {", 2, 1, True, True)", ", 2, 7, True, True)", "aten::topk: "},
        {", 2, 1, True, True)", ", None, 1, True, True)", "k must be"},
        {"workspace arena4", "workspace arena0", "a workspace that is not what the op needs"},
        {", writes back", "", "step"},
        {"f32[8,s0]  at 1024, s0*32 bytes, steps 0..1", "f32[8,s0]  at 1024, s0*32 bytes, steps 0..0",
         "step 1: a slot outside of its lifetime"},
        {"out2  f32[s0,16]", "out2  f64[s0,16]", "not a new output's"},
        {"memory\n", "memory\n  in7  f32[2]\n", "not an input's place"},
        {"  u8[s0*32]", "  u8[s0*32,-1]", "expected sizes before this"},
        {"outputs f32[8,2]", "outputs f32[8,2] is input 9", "output 0 refers to number 9"},
        {"outputs f32[8,2]", "outputs None", "not a new output's"},
        {"%w written", "%w", "an input is written that the plan does not say so of"},
        {"ops\n  0  step 0", "ops\n  0  step 99", "expected a smaller number before this"},
        {"ops\n  0  step 0  aten::exp", "ops\n  0  step 0  aten::axp", "expected an op of the table"},
        {"checks\n", "checks\n  step 0 nest 3 %0 is 0\n", "expected an instruction and an op before this"},
    };
    Arena *const arena = arena_new();
    char *const text = text_of(made_plan(arena, sorting));
    for (int i = 0; i < COUNT_OF(edits); i++) {
        const char *const at = strstr(text, edits[i].from), *end;
        ck_assert_msg(at != NULL, "'%s' is not in\n%s", edits[i].from, text);
        Text edited = {0};
        text_put(&edited, text, (size_t)(at - text));
        text_puts(&edited, edits[i].to);
        text_puts(&edited, at + strlen(edits[i].from));
        Arena *const other = arena_new();
        Plan *plan;
        ck_assert_msg(plan_parse(other, text_str(&edited), &end, &plan) == ST_PARSE, "'%s' for '%s' passed",
                      edits[i].to, edits[i].from);
        ck_assert_msg(strstr(error_slot()->message, edits[i].says) != NULL, "'%s': %s, not %s", edits[i].to,
                      error_slot()->message, edits[i].says);
        error_clear();
        text_free(&edited);
        arena_free(other);
    }
    mem_free(text);
    arena_free(arena);
}
END_TEST

/* What a check says of the op that the user called is in the text. */
START_TEST(checks_name_their_op) {
    Arena *const arena = arena_new(), *const other = arena_new();
    Plan *plan = made_plan(arena, "graph f(%w: f32[5,2], %i: i64[3]) {\n  %0 = aten::embedding(%w, %i)\n"
                                  "  %1 = aten::neg(%0)\n  return %1\n}\n");
    char *const text = text_of(plan);
    arena_free(arena);
    const char *end;
    ck_assert_int_eq(plan_parse(other, text, &end, &plan), ST_OK);
    Executable *executable;
    sn_tensor *out[1] = {NULL}, *in[] = {F32(1, 5, 2), sn_from_data((int64_t[]){0, 5, 1}, SN_INTS(3), SN_I64)};
    ck_assert_int_eq(executable_new(plan, false, NULL, NULL, &executable), ST_OK);
    ck_assert_int_eq(execute(executable, in, NULL, NULL, out), ST_VALUE);
    ck_assert_ptr_nonnull(strstr(error_slot()->message, "aten::embedding: indices 5 is out of range for 5"));
    error_clear();
    executable_free(executable);
    mem_free(text);
    arena_free(other);
}
END_TEST

/* slots of the arena at random: few places and steps, so that about half of the plans are right */
enum { SLOTS = 6, STEPS = 8 };

static int below(uint64_t *state, int n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)n);
}

static void add_random_slot(Plan *plan, uint64_t *state, const Meta *meta, const int64_t *symbols) {
    Slot slot = {.kind = SLOT_arena, .index = plan->slots.n, .meta = meta};
    slot.first = below(state, STEPS + 1) - 1; /* -1: in no step */
    slot.last = slot.first + (slot.first >= 0 ? below(state, 3) : 0);
    slot.offset = below(state, 8) ? 64 * below(state, 12) : symbols[below(state, 2)];
    slot.bytes = below(state, 8) ? 64 * below(state, 4) : symbols[0];
    VEC_PUSH(plan->arena, &plan->slots, slot);
}

static int64_t under(const Plan *plan, int64_t v, const int64_t *values) {
    return sym_is(v) ? sym_eval(plan->env, v, values) : v;
}

static bool share_memory(const Plan *plan, const Slot *a, const Slot *b, const int64_t *values) {
    if (a->first < 0 || b->first < 0 || a->first > b->last || b->first > a->last) return false;
    const int64_t from = under(plan, a->offset, values), until = from + under(plan, a->bytes, values);
    const int64_t at = under(plan, b->offset, values), end = at + under(plan, b->bytes, values);
    return from < until && at < end && from < end && at < until;
}

static bool any_share(const Plan *plan, const int64_t *values) {
    for (int i = 0; i < plan->slots.n; i++)
        for (int k = 0; k < i; k++)
            if (share_memory(plan, &plan->slots.at[i], &plan->slots.at[k], values)) return true;
    return false;
}

/* The verifier's sweep finds slots that overlap where a comparison of all pairs does, by the hints, by the least that
 * the symbols may be, and by others. */
START_TEST(overlapping_slots_are_found) {
    Arena *const arena = arena_new();
    SymEnv *const env = sym_env_new(arena);
    const int64_t symbols[2] = {sym_free(env, 64, 1), sym_free(env, 128, 1)}, one = 1;
    const Meta *const meta = meta_new(arena, env, DT_f32, DEV_host, &one, &one, 1);
    uint64_t state = 7;
    int refused = 0;
    for (int run = 0; run < 4000; run++) {
        Plan plan = {.arena = arena, .env = env};
        for (int i = 0; i < SLOTS; i++) add_random_slot(&plan, &state, meta, symbols);
        const bool wrong = any_share(&plan, (int64_t[]){64, 128}) || any_share(&plan, (int64_t[]){1, 1}) ||
                           any_share(&plan, (int64_t[]){6, 17});
        const Status status = plan_verify(&plan, true);
        ck_assert_msg((status != ST_OK) == wrong, "plan %d: %s", run, status ? error_slot()->message : "not refused");
        if (wrong) ck_assert_ptr_nonnull(strstr(error_slot()->message, "overlap while both are alive"));
        refused += wrong;
        error_clear();
    }
    ck_assert_int_gt(refused, 400);
    ck_assert_int_lt(refused, 3600);
    arena_free(arena);
}
END_TEST

/* Multiples of one expression, in whole lines or not; of more kinds, sizes of which none is known to be larger, too. */
static int64_t random_bytes(SymEnv *env, uint64_t *state, const int64_t *symbols, int n_kinds) {
    const int64_t times[] = {1, 2, 4, 8, 12, 16, 64, 192, 256, 4096}, by = times[below(state, 10)];
    const int64_t a = symbols[below(state, 3)], b = symbols[below(state, 3)];
    const int64_t kinds[] = {sym_mul(env, symbols[0], symbols[1]),
                             a,
                             sym_mul(env, a, b),
                             sym_mul(env, a, sym_add(env, b, 3)),
                             sym_div(env, a, 2),
                             sym_max(env, a, b),
                             symbols[0],
                             64};
    return sym_mul(env, kinds[below(state, n_kinds)], by);
}

enum { PACKED = 24, PACKED_STEPS = 16, PACKED_RUNS = 400, ALL_KINDS = 7 };

static void add_unplaced_slot(Plan *plan, uint64_t *state, const Meta *meta, const int64_t *symbols, int n_kinds) {
    Slot slot = {.kind = SLOT_arena, .index = plan->slots.n, .meta = meta, .first = below(state, PACKED_STEPS)};
    slot.last = min_i64(PACKED_STEPS - 1, slot.first + below(state, 6));
    slot.bytes = random_bytes(plan->env, state, symbols, n_kinds);
    VEC_PUSH(plan->arena, &plan->slots, slot);
}

/* `plain`: what the arena needs where the sizes are known to be the hints. */
static Plan *packed_plan(Arena *arena, uint64_t *state, int n_kinds, int64_t *plain) {
    SymEnv *const env = sym_env_new(arena);
    const int64_t symbols[3] = {sym_free(env, 64, 2), sym_free(env, 24, 2), sym_free(env, 5, 1)}, one = 1;
    const Meta *const meta = meta_new(arena, env, DT_f32, DEV_host, &one, &one, 1);
    Plan *const plan = ARENA_NEW(arena, Plan);
    Slot **const order = ARENA_ARRAY(arena, Slot *, PACKED);
    *plan = (Plan){.arena = arena, .env = env};
    for (int i = 0; i < PACKED; i++) add_unplaced_slot(plan, state, meta, symbols, n_kinds);
    for (int i = 0; i < PACKED_STEPS; i++) VEC_PUSH(arena, &plan->steps, (Step){.kind = STEP_kernel});
    plan_arena(plan, DEV_host);
    Plan known = *plan;
    known.slots.at = ARENA_ARRAY(arena, Slot, PACKED);
    for (int i = 0; i < PACKED; i++) known.slots.at[i] = plan->slots.at[i];
    for (int i = 0; i < PACKED; i++) known.slots.at[i].bytes = sym_hint(env, known.slots.at[i].bytes);
    *plain = pack_arena(&known, DEV_host, order, &(int64_t){0});
    plan->arenas.at[0].bytes = pack_arena(plan, DEV_host, order, &(int64_t){0});
    return plan;
}

static void check_places(const Plan *plan, const int64_t *values) {
    const int64_t whole = under(plan, plan->arenas.at[0].bytes, values);
    ck_assert(!any_share(plan, values));
    for (int i = 0; i < plan->slots.n; i++) {
        const Slot *const slot = &plan->slots.at[i];
        const int64_t at = under(plan, slot->offset, values), end = at + under(plan, slot->bytes, values);
        ck_assert_msg(at >= 0 && at % 64 == 0 && end <= whole, "slot %d at %lld of %lld", i, (long long)at,
                      (long long)whole);
    }
}

/* How many times the memory that known sizes need, at the hints. */
static double pack_many(int n_kinds) {
    static const int64_t values[][3] = {{64, 24, 5}, {2, 2, 1}, {3, 2, 1}, {2, 97, 1}, {129, 2, 64}, {5, 7, 333}};
    uint64_t state = 3;
    double times = 0;
    for (int run = 0; run < PACKED_RUNS; run++) {
        Arena *const arena = arena_new();
        int64_t plain;
        const Plan *const plan = packed_plan(arena, &state, n_kinds, &plain);
        for (int v = 0; v < COUNT_OF(values); v++) check_places(plan, values[v]);
        times += (double)sym_hint(plan->env, plan->arenas.at[0].bytes) / (double)plain;
        arena_free(arena);
    }
    return times / PACKED_RUNS;
}

/* What is packed lies apart, at whole lines and in the arena, whatever the symbols are. Multiples of one expression
 * share memory as known sizes do; sizes of which none is known to be the larger one do not. */
START_TEST(slots_of_symbolic_size_are_packed) {
    const double of_one = pack_many(1), of_all = pack_many(ALL_KINDS);
    ck_assert_msg(of_one <= 1.01, "%.3f times what known sizes need", of_one);
    ck_assert_msg(of_all <= 1.4, "%.3f times what known sizes need", of_all);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {copies_between_devices_are_steps,  a_device_has_an_arena_of_its_own,
                                  lowering_says_what_no_device_runs, workspace_is_known_before_memory,
                                  an_edited_text_is_refused,         checks_name_their_op,
                                  overlapping_slots_are_found,       slots_of_symbolic_size_are_packed};
    return contract_main("test_plan", tests, COUNT_OF(tests));
}
