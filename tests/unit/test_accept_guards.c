/* test_accept_guards.c: guards on the length of a list, on which object it is, and on the device: each with a program
 * that is wrong without it, and the text that says why a call is compiled anew [acceptance 9.04, semantics C7]. */
#include "tests/unit/contract.h"

static void expect_recompile(sn_function *fn, const char *says) {
    const char *const text = strstr(sn_explain(fn), "\nrecompile: ");
    ck_assert_msg(text && strstr(text, says) != NULL, "'%s' is not in %.800s", says, text);
}

/* A list of as many tensors as the host says: another op, and another result, for each length. */
typedef struct List {
    sn_tensor *at[4];
    int n;
} List;

static sn_status joins(sn_frame *f) {
    List *const list = sn_closure(f);
    sn_tensor *all[5] = {sn_in(f, 0)};
    for (int i = 0; i < list->n; i++) all[1 + i] = list->at[i];
    return sn_out(f, 0, sn_cat((sn_tensors){all, 1 + list->n}, 0));
}

static sn_tensor *joined(const List *list, sn_tensor *x) {
    sn_tensor *all[5] = {x};
    for (int i = 0; i < list->n; i++) all[1 + i] = list->at[i];
    return sn_cat((sn_tensors){all, 1 + list->n}, 0);
}

START_TEST(a9_04_the_length_of_a_list) {
    List list = {{F32(1, 2), F32(2, 2), F32(3, 2), F32(4, 2)}, 2};
    sn_function *const fn = sn_compile(joins, &list, NULL);
    static const int lengths[] = {2, 2, 3, 3, 2, 4, 1, 3};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        sn_tensor *const x = F32(i, 2);
        list.n = lengths[i];
        ck_assert(same_bits(SN_CALL(fn, x), joined(&list, x)));
    }
    expect_recompile(fn, "recompile: a new path: aten::cat at test_accept_guards.c:");
    expect_recompile(fn, "with 4 tensors in 'tensors', ");
    ck_assert_int_eq(stats_of(fn).compiles, 4);
    sn_function_free(fn);
}
END_TEST

/* The same object given twice, where one of the two is written. */
static sn_status writes_then_reads(sn_frame *f) {
    sn_add_scalar_(sn_in(f, 0), sn_float(1));
    return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_in(f, 1)));
}

START_TEST(a9_04_the_identity_of_an_object) {
    sn_function *const fn = sn_compile(writes_then_reads, NULL, NULL);
    for (int i = 0; i < 6; i++) {
        const bool once = i < 2 || i == 4; /* two objects, or one */
        sn_tensor *const x = F32(i, 3), *const y = once ? F32(9, 3) : x, *const a = sn_clone(x);
        sn_tensor *const b = once ? sn_clone(y) : a;
        sn_add_scalar_(a, sn_float(1));
        ck_assert(same_bits(SN_CALL(fn, x, y), sn_mul(a, b)));
    }
    expect_recompile(fn, "with another 'other' than before");
    ck_assert_int_eq(stats_of(fn).compiles, 2);
    sn_function_free(fn);
}
END_TEST

/* A dictionary's entry is another object: by its name. */
static sn_status uses_entry(sn_frame *f) { return sn_out(f, 0, sn_mul(sn_in(f, 0), sn_dict_get(sn_closure(f), "w"))); }

START_TEST(a9_04_another_object_by_its_name) {
    sn_dict *const d = sn_dict_new();
    sn_dict_set(d, "w", F32(1, 3));
    sn_function *const fn = sn_compile(uses_entry, d, NULL);
    for (int i = 0; i < 6; i++) {
        if (i == 3) sn_dict_set(d, "w", F32(2, 1)); /* broadcasts: another size */
        ck_assert(same_bits(SN_CALL(fn, F32(i, 3)), sn_mul(F32(i, 3), sn_dict_get(d, "w"))));
    }
    expect_recompile(fn, "closed over: w: f32[3], now f32[1]");
    sn_function_free(fn);
    sn_dict_free(d);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a9_04_the_length_of_a_list, a9_04_the_identity_of_an_object,
                                  a9_04_another_object_by_its_name};
    return contract_main("accept_guards", tests, sizeof tests / sizeof *tests);
}
