/* test_meta.c: tensor metadata: strides, contiguity, text. */
#include "ir/meta.h"
#include "runtime/base/error.h"
#include "tests/unit/suite.h"

static Arena *arena;
static SymEnv *env;
static void setup(void) {
    arena = arena_new();
    env = sym_env_new(arena);
}
static void teardown(void) { arena_free(arena); }

#define LIST(...) ((const int64_t[]){__VA_ARGS__})

START_TEST(contiguity_ignores_dims_of_one_and_empty_tensors) {
    int64_t strides[3];
    meta_contiguous_strides(NULL, LIST(2, 0, 3), 3, strides);
    ck_assert_int_eq(strides[0], 3);
    ck_assert_int_eq(strides[1], 3);
    ck_assert(meta_is_contiguous(NULL, LIST(2, 1, 3), LIST(3, 99, 1), 3));
    ck_assert(!meta_is_contiguous(NULL, LIST(2, 2, 3), LIST(3, 99, 1), 3));
    ck_assert(meta_is_contiguous(NULL, LIST(0, 5), LIST(7, 7), 2));
    ck_assert(meta_is_contiguous(NULL, NULL, NULL, 0));
    ck_assert(meta_is_channels_last(NULL, LIST(2, 3, 4, 5), LIST(60, 1, 15, 3), 4));
    ck_assert(!meta_is_channels_last(NULL, LIST(2, 3, 4, 5), LIST(60, 20, 5, 1), 4));
}
END_TEST

START_TEST(symbolic_strides_are_found_contiguous_without_guards) {
    const int64_t s0 = sym_free(env, 5, 2), s1 = sym_free(env, 6, 2);
    int64_t strides[3];
    meta_contiguous_strides(env, LIST(4, s0, s1), 3, strides);
    ck_assert_int_eq(strides[0], sym_mul(env, s0, s1));
    const Meta *const meta = meta_new(arena, env, DT_f32, DEV_cpu, LIST(4, s0, s1), strides, 3);
    ck_assert(meta->contiguous);
    ck_assert_int_eq(sym_hint(env, meta->numel), 120);
    ck_assert_int_eq(sym_guard_count(env), 0);
}
END_TEST

START_TEST(text_reads_back) {
    static const char *const lines[] = {"f32[2,3]",     "f32[2,3]{1,2}",          "bf16[s0,768]@cuda:1", "i64[]!",
                                        "bool[0]@meta", "f64[s0*2+1,s1]{s1*4,4}", "u8[2,1]{5,1}@cuda:0"};
    for (int i = 0; i < COUNT_OF(lines); i++) {
        Meta *meta;
        const char *end;
        Text text = {0};
        ck_assert_int_eq(meta_parse(arena, env, lines[i], &end, &meta), ST_OK);
        ck_assert(*end == '\0');
        meta_print(env, &text, meta);
        ck_assert_str_eq(text_str(&text), lines[i]);
        text_free(&text);
    }
}
END_TEST

START_TEST(bad_text_is_refused) {
    static const char *const lines[] = {"f33[2]", "f32", "f32[2", "f32[2,]", "f32[2]{1,1}", "f32[2]@moon"};
    for (int i = 0; i < COUNT_OF(lines); i++) {
        Meta *meta;
        const char *end;
        ck_assert_int_eq(meta_parse(arena, env, lines[i], &end, &meta), ST_PARSE);
        error_clear();
    }
}
END_TEST

START_TEST(sizes_print_as_in_messages) {
    Text text = {0};
    sizes_print(NULL, &text, LIST(2, 3), 2);
    ck_assert_str_eq(text_str(&text), "[2, 3]");
    text_free(&text);
}
END_TEST

int main(void) {
    TCase *const all = tcase_create("all");
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, contiguity_ignores_dims_of_one_and_empty_tensors);
    tcase_add_test(all, symbolic_strides_are_found_contiguous_without_guards);
    tcase_add_test(all, text_reads_back);
    tcase_add_test(all, bad_text_is_refused);
    tcase_add_test(all, sizes_print_as_in_messages);
    return suite_run("meta", all);
}
