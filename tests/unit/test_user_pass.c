/* Passes of the program's own, and patterns [acceptance 5.22]: what they may edit, what they are told, what is
 * refused. */
#define _GNU_SOURCE /* mkdtemp */
#include <dirent.h>
#include <stdio.h>

#include "tests/unit/contract.h"

static bool has(const char *text, const char *part) { return strstr(text, part) != NULL; }

/* Patterns ------------------------------------------------------------------------------------ */

static const char linear_relu[] = "graph p(%x: f32[s0,s1], %w: f32[s1,s2], %b: f32[s2]) {\n"
                                  "  %0 = aten::mm(%x, %w)\n"
                                  "  %1 = aten::add.Tensor(%0, %b)\n"
                                  "  %2 = aten::relu(%1)\n"
                                  "  return %2\n}\n";
static const char addmm_relu[] = "graph r(%x: f32[s0,s1], %w: f32[s1,s2], %b: f32[s2]) {\n"
                                 "  %0 = aten::addmm(%b, %x, %w)\n"
                                 "  %1 = aten::relu(%0)\n"
                                 "  return %1\n}\n";

static sn_graph *parsed(const char *text) {
    sn_graph *const g = sn_graph_parse(text, strlen(text));
    ck_assert_msg(g != NULL, "%s", sn_error_take()->message);
    return g;
}

static sn_graph *two_layers(void) {
    return parsed("graph f(%x: f32[3,4], %w: f32[4,5], %b: f32[5], %v: f32[5,5]) {\n"
                  "  %0 = aten::mm(%x, %w)\n  %1 = aten::add.Tensor(%0, %b)\n  %2 = aten::relu(%1)\n"
                  "  %3 = aten::mm(%2, %v)\n  %4 = aten::add.Tensor(%3, %b)\n  %5 = aten::relu(%4)\n"
                  "  return %5\n}\n");
}

START_TEST(a5_22_a_pattern_given_as_text_is_found) {
    sn_graph *const g = two_layers();
    sn_node *found[8];
    ck_assert_int_eq(sn_graph_match(g, linear_relu, NULL, found, 8), 6); /* three inputs, three ops */
    ck_assert_str_eq(sn_node_name(found[0]), "x");
    ck_assert_str_eq(sn_node_name(found[2]), "b");
    ck_assert_str_eq(sn_node_op(found[3]), "aten::mm");
    ck_assert_ptr_eq(sn_node_in(found[5], 0), found[4]);
    ck_assert_int_eq(sn_graph_match(g, linear_relu, found[5], found, 8), 6);
    ck_assert_str_eq(sn_node_op(found[0]), "aten::relu");
    ck_assert_int_eq(sn_graph_match(g, linear_relu, found[5], found, 8), 0);
    ck_assert_int_eq(sn_graph_match(g, linear_relu, NULL, NULL, 0), 6);
    sn_graph_free(g);
}
END_TEST

START_TEST(a5_22_a_pattern_is_replaced_everywhere_and_the_graph_recompiled) {
    sn_graph *const g = two_layers(), *const before = two_layers();
    ck_assert_int_eq(sn_graph_rewrite(g, linear_relu, addmm_relu), 2);
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    ck_assert_int_eq(sn_graph_count(g), 4 + 4);
    ck_assert_msg(!has(sn_graph_text(g), "aten::mm(") && has(sn_graph_text(g), "aten::addmm(%b, %x, %w)"), "%s",
                  sn_graph_text(g));
    sn_function *const fn = sn_graph_compile(g, NULL), *const was = sn_graph_compile(before, NULL);
    for (int i = 0; i < 3; i++)
        ck_assert(same_bits(SN_CALL(fn, F32(i, 3, 4), F32(1, 4, 5), F32(2, 5), F32(3, 5, 5)),
                            SN_CALL(was, F32(i, 3, 4), F32(1, 4, 5), F32(2, 5), F32(3, 5, 5))));
    ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
    ck_assert_int_eq(sn_graph_rewrite(g, linear_relu, addmm_relu), 0);
    sn_function_free(fn);
    sn_function_free(was);
    sn_graph_free(g);
    sn_graph_free(before);
}
END_TEST

/* Of what is used outside, written in between, another number or type, nothing is found. */
START_TEST(a5_22_only_what_can_be_replaced_is_found) {
    static const char *const others[] = {
        /* %0 is returned, too */
        "graph f(%x: f32[3,4], %w: f32[4,5], %b: f32[5]) {\n  %0 = aten::mm(%x, %w)\n"
        "  %1 = aten::add.Tensor(%0, %b)\n  %2 = aten::relu(%1)\n  return %2, %0\n}\n",
        /* a write in between */
        "graph f(%x: f32[3,4], %w: f32[4,5], %b: f32[5]) {\n  %0 = aten::mm(%x, %w)\n  %1 = aten::mul_.Tensor(%b, 2)\n"
        "  %2 = aten::add.Tensor(%0, %b)\n  %3 = aten::relu(%2)\n  return %3\n}\n",
        /* alpha is not 1 */
        "graph f(%x: f32[3,4], %w: f32[4,5], %b: f32[5]) {\n  %0 = aten::mm(%x, %w)\n"
        "  %1 = aten::add.Tensor(%0, %b, alpha=2)\n  %2 = aten::relu(%1)\n  return %2\n}\n",
        /* another dtype, another rank */
        "graph f(%x: f64[3,4], %w: f64[4,5], %b: f64[5]) {\n  %0 = aten::mm(%x, %w)\n"
        "  %1 = aten::add.Tensor(%0, %b)\n  %2 = aten::relu(%1)\n  return %2\n}\n",
        "graph f(%x: f32[3,4], %w: f32[4,5], %b: f32[3,5]) {\n  %0 = aten::mm(%x, %w)\n"
        "  %1 = aten::add.Tensor(%0, %b)\n  %2 = aten::relu(%1)\n  return %2\n}\n",
    };
    for (int i = 0; i < (int)(sizeof others / sizeof *others); i++) {
        sn_graph *const g = parsed(others[i]);
        ck_assert_msg(sn_graph_match(g, linear_relu, NULL, NULL, 0) == 0, "%s", others[i]);
        sn_graph_free(g);
    }
}
END_TEST

/* A symbol is one number: sizes, dims and results follow it. */
START_TEST(a5_22_symbols_of_a_pattern_are_numbers_of_the_graph) {
    sn_graph *const g =
        parsed("graph f(%x: f32[s0,6]) {\n  %0 = aten::view(%x, [s0*6])\n  %1 = aten::view(%0, [s0*2,3])\n"
               "  %2 = aten::sum.dim_IntList(%1, [1], False)\n  return %2\n}\n");
    const char *const pattern = "graph p(%x: f32[s0,s1], s2: int, s3: int) {\n  %0 = aten::view(%x, [s0*s1])\n"
                                "  %1 = aten::view(%0, [s2,s3])\n  return %1\n}\n";
    const char *const one = "graph r(%x: f32[s0,s1], s2: int, s3: int) {\n  %0 = aten::view(%x, [s2,s3])\n"
                            "  return %0\n}\n";
    ck_assert_msg(sn_graph_rewrite(g, pattern, one) == 1, "%s", sn_error_take()->message);
    ck_assert_msg(has(sn_graph_text(g), "aten::view(%x, [s0*2, 3])") ||
                      has(sn_graph_text(g), "aten::view(%x, [s0*2,3])"),
                  "%s", sn_graph_text(g));
    ck_assert_int_eq(sn_graph_check(g), SN_OK);
    sn_graph_free(g);
}
END_TEST

START_TEST(a5_22_patterns_that_are_none_are_errors) {
    static const struct {
        const char *pattern, *replacement, *says;
        sn_status status;
    } rows[] = {
        {NULL, addmm_relu, "sn_graph_rewrite: the pattern is NULL", SN_ERR_ARGUMENT},
        {linear_relu, NULL, "the replacement is NULL", SN_ERR_ARGUMENT},
        {"graph p(%x: f32[2]", addmm_relu, "the pattern: ", SN_ERR_PARSE},
        {linear_relu, "graph r() {\n  %0 = aten::nonsense()\n  return %0\n}\n", "line 2", SN_ERR_PARSE},
        {"graph p(%x: f32[s0]) {\n  return %x\n}\n", addmm_relu, "a pattern has 1 to 256 ops, not 0", SN_ERR_ARGUMENT},
        {"graph p(%x: f32[s0]) {\n  %0 = aten::relu(%x)\n  %1 = aten::exp(%x)\n  return %0, %1\n}\n", addmm_relu,
         "aten::relu of the pattern does not lead to its last op, aten::exp", SN_ERR_ARGUMENT},
        {"graph p(%x: f32[s0]) {\n  %0 = aten::relu_(%x)\n  return %0\n}\n", addmm_relu, "aten::relu_ has an effect",
         SN_ERR_ARGUMENT},
        {"graph p(%x: f32[s0], %y: f32[s0]) {\n  %0 = aten::relu(%x)\n  return %0\n}\n", addmm_relu,
         "no op of the pattern reads %y", SN_ERR_ARGUMENT},
        {"graph p(%x: f32[s0]) {\n  %0 = aten::relu(%x)\n  return %0\n}\n", addmm_relu,
         "the pattern has 1 tensors, 0 ints and 1 results, its replacement 3, 0 and 1", SN_ERR_ARGUMENT},
        {linear_relu, "graph r(%x: f32[s0,s1], %w: f32[s1,s2], %b: f32[s2]) {\n  %0 = aten::sum(%x)\n  return %0\n}\n",
         "result 0 of the replacement is f32[], what it replaces f32[3,5]", SN_ERR_SHAPE},
        {linear_relu, "graph r(%x: f32[s0], %w: f32[s0], %b: f32[s0]) {\n  %0 = aten::exp(%x)\n  return %0\n}\n",
         "the replacement does not take what the pattern's inputs stand for", SN_ERR_SHAPE},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        sn_graph *const g = two_layers();
        const sn_scope scope = sn_scope_begin();
        char before[2048];
        snprintf(before, sizeof before, "%s", sn_graph_text(g));
        ck_assert_int_eq(sn_graph_rewrite(g, rows[i].pattern, rows[i].replacement), -1);
        expect_error(rows[i].status, rows[i].says);
        ck_assert_str_eq(sn_graph_text(g), before);
        sn_scope_end(scope);
        sn_graph_free(g);
    }
    ck_assert_int_eq(sn_graph_match(NULL, linear_relu, NULL, NULL, 0), -1);
    expect_error(SN_ERR_ARGUMENT, "sn_graph_match: the graph is NULL");
}
END_TEST

/* Passes -------------------------------------------------------------------------------------- */

typedef struct Seen {
    int runs, changes;
    char text[8192];
} Seen;

/* x * 2 is x + x, of the same bits. */
static const char doubled[] = "graph p(%x: f32[s0,s1]) {\n  %0 = aten::mul.Tensor(%x, 2.0)\n  return %0\n}\n";
static const char added[] = "graph r(%x: f32[s0,s1]) {\n  %0 = aten::add.Tensor(%x, %x)\n  return %0\n}\n";

static sn_status adds(sn_graph *g, void *closure) {
    Seen *const seen = closure;
    seen->runs++;
    snprintf(seen->text, sizeof seen->text, "%s", sn_graph_text(g));
    const int n = sn_graph_rewrite(g, doubled, added);
    if (n > 0) seen->changes += n;
    return sn_graph_check(g);
}

static sn_status doubles(sn_frame *f) { return sn_out(f, 0, sn_tanh(sn_mul_scalar(sn_exp(sn_in(f, 0)), sn_float(2)))); }

static const sn_pass_stage all_stages[] = {SN_PASS_CAPTURED, SN_PASS_JOINT, SN_PASS_DECOMPOSED};

START_TEST(a5_22_a_pass_edits_what_is_compiled_at_each_stage) {
    for (int i = 0; i < 3; i++) {
        Seen seen = {0};
        ck_assert_int_eq(sn_pass_register(all_stages[i], adds, &seen, "adds", "1"), SN_OK);
        const Twin twin = twin_new(doubles, NULL, NULL, NULL);
        for (int call = 0; call < 6; call++) TWIN_CALL(twin, F32(call, call < 3 ? 3 : 3 + call, 5));
        ck_assert_int_eq(last_path(), SN_PATH_COMPILED);
        ck_assert_int_eq(seen.runs, 2); /* one size, then any */
        ck_assert_int_eq(seen.changes, 2);
        ck_assert_msg(has(sn_dump(twin.fast, "loops"), "add"), "%s", sn_dump(twin.fast, "loops"));
        ck_assert(has(sn_explain(twin.fast), "pass adds 1"));
        ck_assert_int_eq(sn_pass_remove("adds"), SN_OK);
        twin_free(twin);
    }
}
END_TEST

static sn_status loss_of(sn_frame *f) {
    return sn_out(f, 0, sn_sum(sn_mul_scalar(sn_sin(sn_mul_scalar(sn_in(f, 0), sn_float(2))), sn_float(2))));
}

START_TEST(a5_22_passes_see_gradients_too) {
    for (int i = 0; i < 3; i++) {
        Seen seen = {0};
        sn_pass_register(all_stages[i], adds, &seen, "adds", NULL);
        const Twin twin = twin_new(loss_of, NULL, NULL, NULL);
        for (int call = 0; call < 4; call++) {
            sn_tensor *const x = LEAF(call, 3, 4), *const y = LEAF(call, 3, 4);
            ck_assert_int_eq(sn_backward(SN_CALL(twin.fast, x)), SN_OK);
            ck_assert_int_eq(sn_backward(SN_CALL(twin.eager, y)), SN_OK);
            ck_assert_msg(same_bits(sn_grad(x), sn_grad(y)), "stage %d", i);
        }
        const int runs[] = {1, 1, 2};
        ck_assert_int_eq(seen.runs, runs[i]);
        ck_assert_int_ge(seen.changes, 2);
        ck_assert_int_gt(stats_of(twin.fast).ops_generated, 0);
        ck_assert_int_eq(stats_of(twin.fast).ops_eager, 0);
        sn_pass_remove("adds");
        twin_free(twin);
    }
}
END_TEST

/* What breaks a graph ------------------------------------------------------------------------- */

static sn_status fails_with_error(sn_graph *g, void *closure) {
    (void)g, (void)closure;
    return sn_fail(SN_ERR_IO, "the rules are lost");
}

static sn_status fails_with_status(sn_graph *g, void *closure) {
    (void)g, (void)closure;
    return SN_ERR_VALUE;
}

static sn_node *last_of(sn_graph *g) { return sn_graph_node(g, sn_graph_count(g) - 1); }

static sn_status changes_type(sn_graph *g, void *closure) {
    (void)closure;
    sn_node *in[] = {sn_node_in(last_of(g), 0)};
    const sn_value dtype = sn_int(SN_F64);
    return sn_node_replace(last_of(g), sn_graph_insert(g, last_of(g), "aten::_to_copy", in, 1, &dtype, 1));
}

static sn_status returns_input(sn_graph *g, void *closure) {
    (void)closure;
    return sn_node_replace(last_of(g), sn_graph_node(g, 0));
}

static sn_status writes_input(sn_graph *g, void *closure) {
    (void)closure;
    sn_node *const in[] = {sn_graph_node(g, 0)};
    return sn_graph_insert(g, sn_graph_node(g, 1), "aten::exp_", in, 1, NULL, 0) ? SN_OK : sn_check();
}

static sn_status draws_numbers(sn_graph *g, void *closure) {
    (void)closure;
    sn_node *const in[] = {sn_graph_node(g, 0)};
    return sn_graph_insert(g, sn_graph_node(g, 1), "aten::rand_like", in, 1, NULL, 0) ? SN_OK : sn_check();
}

static sn_status lowers_itself(sn_graph *g, void *closure) {
    (void)closure;
    return sn_graph_run(g, "compile");
}

static sn_status erases_input(sn_graph *g, void *closure) {
    (void)closure;
    return sn_node_erase(sn_graph_node(g, 0));
}

static sn_status frees_it(sn_graph *g, void *closure) {
    (void)closure;
    sn_graph_free(g);
    return sn_check();
}

START_TEST(a5_22_a_pass_that_breaks_the_graph_is_named) {
    static const struct {
        sn_pass_fn fn;
        sn_pass_stage stage;
        const char *why;
    } rows[] = {
        {fails_with_error, SN_PASS_JOINT, "pass 'bad' failed: the rules are lost"},
        {fails_with_status, SN_PASS_DECOMPOSED, "pass 'bad' failed: it returned status 5"},
        {changes_type, SN_PASS_CAPTURED, "pass 'bad' broke the graph: "},
        {returns_input, SN_PASS_CAPTURED,
         "pass 'bad' broke the graph: result 0 has another type, or shows other memory"},
        {writes_input, SN_PASS_CAPTURED, "pass 'bad' broke the graph: it has other inputs, or writes others"},
        {writes_input, SN_PASS_DECOMPOSED,
         "pass 'bad' broke the graph: verify decomposed: node 0, aten::exp_: only functional forms are allowed"},
        {draws_numbers, SN_PASS_CAPTURED, "pass 'bad' broke the graph: verify capture: node 0, aten::rand_like"},
        {lowers_itself, SN_PASS_CAPTURED, "pass 'bad' failed: sn_graph_run: not in a pass"},
        {erases_input, SN_PASS_CAPTURED, "pass 'bad' failed: sn_node_erase: not in a pass"},
        {frees_it, SN_PASS_CAPTURED, "pass 'bad' failed: sn_graph_free: not in a pass"},
    };
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        ck_assert_int_eq(sn_pass_register(rows[i].stage, rows[i].fn, NULL, "bad", "1"), SN_OK);
        const Twin twin = twin_new(doubles, NULL, NULL, NULL);
        for (int call = 0; call < 3; call++) TWIN_CALL(twin, F32(call, 3, 5));
        ck_assert_int_eq(last_path(), SN_PATH_EAGER);
        ck_assert_msg(has(last_reason(), "could not be compiled") || has(last_reason(), rows[i].why), "%s",
                      last_reason());
        ck_assert_msg(has(sn_explain(twin.fast), rows[i].why), "%s\n%s", rows[i].why, sn_explain(twin.fast));
        ck_assert_int_eq(sn_pass_remove("bad"), SN_OK);
        twin_free(twin);
    }
}
END_TEST

START_TEST(a5_22_bad_registrations_are_errors) {
    Seen seen = {0};
    sn_pass_register(SN_PASS_JOINT, adds, &seen, NULL, NULL);
    expect_error(SN_ERR_ARGUMENT, "sn_pass_register: the name is NULL");
    sn_pass_register(SN_PASS_JOINT, NULL, &seen, "x", NULL);
    expect_error(SN_ERR_ARGUMENT, "the callback is NULL");
    sn_pass_register((sn_pass_stage)9, adds, &seen, "x", NULL);
    expect_error(SN_ERR_ARGUMENT, "there is no stage 9");
    sn_pass_register(SN_PASS_JOINT, adds, &seen, "x", "1 2");
    expect_error(SN_ERR_ARGUMENT, "the version '1 2' of 'x' is no word");
    ck_assert_int_eq(sn_pass_register(SN_PASS_JOINT, adds, &seen, "x", "1"), SN_OK);
    sn_pass_register(SN_PASS_JOINT, adds, &seen, "x", "1");
    expect_error(SN_ERR_ARGUMENT, "there is a pass 'x' already");
    ck_assert_int_eq(sn_pass_remove("x"), SN_OK);
    sn_pass_remove("x");
    expect_error(SN_ERR_ARGUMENT, "there is no pass 'x'");
}
END_TEST

/* Plans --------------------------------------------------------------------------------------- */

static sn_function *learnt(Seen *seen, const char *version) {
    ck_assert_int_eq(sn_pass_register(SN_PASS_DECOMPOSED, adds, seen, "adds", version), SN_OK);
    sn_function *const fn = sn_compile(doubles, NULL, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_REPLAY));
    for (int i = 0; i < 3; i++) SN_CALL(fn, F32(i, 3, 5));
    return fn;
}

START_TEST(a5_22_a_plan_says_which_passes_made_it) {
    char path[] = "user_pass_plan_XXXXXX";
    Seen seen = {0};
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    sn_function *const none = learnt(&seen, NULL);
    ck_assert_int_eq(sn_plan_save(none, path, NULL), SN_ERR_UNSUPPORTED);
    expect_error(SN_ERR_UNSUPPORTED, "an extension without a version took part");
    sn_pass_remove("adds");
    sn_function *const fn = learnt(&seen, "1");
    ck_assert_msg(sn_plan_save(fn, path, NULL) == SN_OK, "%s", sn_error_take()->message);
    sn_function *const loaded = sn_plan_load(path, NULL);
    ck_assert_msg(loaded != NULL, "%s", sn_error_take()->message);
    ck_assert(same_bits(SN_CALL(loaded, F32(4, 3, 5)), SN_CALL(fn, F32(4, 3, 5))));
    sn_function_free(loaded);
    sn_pass_remove("adds");
    sn_function_free(learnt(&seen, "2"));
    ck_assert_ptr_null(sn_plan_load(path, NULL));
    expect_error(SN_ERR_ARGUMENT, "the plan was made with version 1 of pass 'adds', which is 2 here");
    sn_pass_remove("adds");
    sn_function *const without = sn_plan_load(path, NULL); /* a program that does not have the pass runs it */
    ck_assert_ptr_nonnull(without);
    remove(path);
    sn_function_free(without);
    sn_function_free(fn);
    sn_function_free(none);
}
END_TEST

/* The disk ------------------------------------------------------------------------------------- */

/* Entries of code in a folder of the cache; *named: one of them has the text in it. */
static int count_entries(const char *folder, const char *text, bool *named) {
    static char bytes[1 << 16];
    DIR *const dir = opendir(folder);
    int n = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *const file = *entry->d_name == '.' ? NULL : fopen(path, "rb");
        if (!file) continue;
        const size_t read = fread(bytes, 1, sizeof bytes - 1, file);
        bytes[read] = 0;
        n++;
        for (size_t i = 0; i + strlen(text) < read; i++) *named |= !memcmp(bytes + i, text, strlen(text));
        fclose(file);
    }
    if (dir) closedir(dir);
    return n;
}

/* What an extension without a version has changed is not stored; one with a version is part of the key. */
START_TEST(a5_22_code_on_disk_is_known_by_passes) {
    char folder[] = "user_pass_cache_XXXXXX";
    Seen seen = {0};
    bool named = false;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(sn_setting_set("cache_dir", folder), SN_OK);
    sn_function_free(learnt(&seen, NULL));
    ck_assert_int_eq(count_entries(folder, "pass adds 7", &named), 0);
    sn_pass_remove("adds");
    sn_pass_register(SN_PASS_DECOMPOSED, adds, &seen, "adds", "7");
    sn_function *const fn = sn_compile(loss_of, NULL, NULL); /* other code than that above, which is there already */
    for (int i = 0; i < 2; i++) SN_CALL(fn, F32(i, 3, 5));
    ck_assert_int_eq(count_entries(folder, "pass adds 7", &named), 1);
    ck_assert(named);
    sn_function_free(fn);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a5_22_a_pattern_given_as_text_is_found,   a5_22_a_pattern_is_replaced_everywhere_and_the_graph_recompiled,
        a5_22_only_what_can_be_replaced_is_found, a5_22_symbols_of_a_pattern_are_numbers_of_the_graph,
        a5_22_patterns_that_are_none_are_errors,  a5_22_a_pass_edits_what_is_compiled_at_each_stage,
        a5_22_passes_see_gradients_too,           a5_22_a_pass_that_breaks_the_graph_is_named,
        a5_22_bad_registrations_are_errors,       a5_22_a_plan_says_which_passes_made_it,
        a5_22_code_on_disk_is_known_by_passes,
    };
    return contract_main("user passes", tests, sizeof tests / sizeof *tests);
}
