/* test_import.c: programs of torch.export (oracle/torch_export.py, recorded in oracle/pt2): each is called as the file
 * beside it says, and gives PyTorch's values; buffers live from call to call; names, sizes, ranges and guards are the
 * file's; what can't be imported is refused by name. */
#include <math.h>
#include <sinter/import.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/unit/contract.h"

static const char *const programs[] = {
    "state",   "state_aten",   "state_rows",  "sizes",       "half",     "half_aten",    "ints",        "tied",
    "cond",    "while",        "scan",        "joint",       "autocast", "writes",       "kinds",       "block",
    "net",     "net_aten",     "writes_aten", "where",       "lists",    "lists_aten",   "nested",      "strided",
    "cache",   "cache_aten",   "only_state",  "through",     "checked",  "checked_aten", "numbers",     "numbers_aten",
    "sums",    "rows",         "draft",       "guarded",     "item",     "values",       "values_aten", "totals",
    "floats",  "floats_aten",  "variadic",    "counts",      "running",  "running_aten", "scaled",      "scaled_aten",
    "scalars", "scalars_aten", "rounded",     "rounded_aten"};
enum { PROGRAMS = sizeof programs / sizeof *programs, MOST_VALUES = 16 };
static const sn_compile_mode modes[] = {SN_COMPILE_EAGER, SN_COMPILE_VERIFY, SN_COMPILE_REPLAY};
enum { MODES = sizeof modes / sizeof *modes };

static const char *path_of(const char *name, const char *suffix) {
    static char path[512];
    snprintf(path, sizeof path, "%s/pt2/%s%s", SINTER_ORACLE, name, suffix);
    return path;
}

static sn_program *imported(const char *name, sn_compile_mode mode) {
    sn_program *const p =
        sn_import(path_of(name, ".pt2"), SN_IMPORT_OPTIONS(.compile = SN_COMPILE_OPTIONS(.mode = mode)));
    ck_assert_msg(p != NULL, "%s: %s", name, sn_error_take()->message);
    return p;
}

static sn_dict *recorded(const char *name) {
    sn_dict *const d = sn_dict_load(path_of(name, ".safetensors"));
    ck_assert_msg(d != NULL, "%s", sn_error_take()->message);
    return d;
}

/* NULL: there is none. */
static sn_tensor *entry(sn_dict *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static sn_tensor *entry(sn_dict *d, const char *format, ...) {
    char name[256];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    for (int i = 0; i < sn_dict_count(d); i++)
        if (!strcmp(sn_dict_name(d, i), name)) return sn_dict_at(d, i);
    return NULL;
}

/* Halves were rounded in another order of sums. */
static double tolerance(sn_dtype dtype) {
    return dtype == SN_BF16 || dtype == SN_F16 ? 2e-2 : dtype == SN_F64 ? 1e-12 : 2e-5;
}

static void same_values(const char *program, const char *what, sn_tensor *got, sn_tensor *want) {
    ck_assert_msg(got && want, "%s: %s is not there", program, what);
    ck_assert_msg(sn_dtype_of(got) == sn_dtype_of(want) && sn_rank(got) == sn_rank(want), "%s: %s is %s, not %s",
                  program, what, sn_repr(got), sn_repr(want));
    const double most = tolerance(sn_dtype_of(want));
    ck_assert_msg(sn_allclose(sn_detach(got), want, most, most), "%s: %s is %s, not %s", program, what, sn_repr(got),
                  sn_repr(want));
}

/* Inputs of call n, in order; those that are tensors are copies. How many. */
static int inputs_of(sn_program *p, sn_dict *d, int n, sn_value *in) {
    int n_in = 0;
    for (int i = 0; i < sn_program_in_count(p); i++) {
        sn_program_input about = {.size = sizeof about};
        ck_assert(sn_program_in(p, i, &about) == SN_OK);
        if (about.fixed) continue;
        sn_tensor *const given = entry(d, "%d.in.%s", n, about.name);
        ck_assert_msg(given != NULL, "nothing recorded is called %s", about.name);
        in[n_in++] = about.dtype == SN_DTYPE_DEFAULT ? sn_int(sn_item_int(given)) : sn_val(sn_clone(given));
    }
    return n_in;
}

static void check_written(const char *name, sn_program *p, sn_dict *d, int n, const sn_value *in) {
    for (int i = 0, at = 0; i < sn_program_in_count(p); i++) {
        sn_program_input about = {.size = sizeof about};
        ck_assert(sn_program_in(p, i, &about) == SN_OK);
        if (about.fixed) continue;
        sn_tensor *const want = entry(d, "%d.written.%s", n, about.name);
        if (want) same_values(name, about.name, in[at].tensor, want);
        at++;
    }
}

/* False: nothing is recorded of that call. */
static bool call_once(const char *name, sn_program *p, sn_dict *d, int n) {
    sn_value in[MOST_VALUES];
    sn_tensor *out[MOST_VALUES];
    const int n_out = sn_program_out_count(p);
    bool any = false;
    for (int i = 0; i < sn_dict_count(d); i++) any |= sn_dict_name(d, i)[0] == '0' + n && sn_dict_name(d, i)[1] == '.';
    if (!any) return false;
    const int n_in = inputs_of(p, d, n, in);
    ck_assert_msg(sn_call_values(sn_program_function(p), in, n_in, out, n_out) == SN_OK, "%s, call %d: %s", name, n,
                  sn_error_take()->message);
    for (int i = 0; i < n_out; i++) {
        sn_tensor *const want = entry(d, "%d.out.%s", n, sn_program_out_name(p, i));
        if (want)
            same_values(name, sn_program_out_name(p, i), out[i], want);
        else
            ck_assert_msg(!out[i], "%s: %s is no None", name, sn_program_out_name(p, i));
    }
    check_written(name, p, d, n, in);
    return true;
}

static void check_after(const char *name, sn_program *p, sn_dict *d) {
    for (int i = 0; i < sn_dict_count(d); i++) {
        const char *const key = sn_dict_name(d, i);
        if (!strncmp(key, "after.", 6)) {
            sn_tensor *const got = entry(sn_program_dict(p), "%s", key + 6);
            ck_assert_msg(got != NULL, "%s: the dictionary has no %s", name, key + 6);
            same_values(name, key, got, sn_dict_at(d, i));
        }
    }
}

START_TEST(a_program_gives_pytorchs_values) {
    const char *const name = programs[_i];
    for (size_t m = 0; m < MODES; m++) {
        const sn_scope scope = sn_scope_begin();
        sn_program *const p = imported(name, modes[m]);
        sn_dict *const d = recorded(name);
        int calls = 1;
        while (call_once(name, p, d, calls)) calls++;
        ck_assert_int_gt(calls, 1);
        check_after(name, p, d);
        sn_dict_free(d);
        sn_program_free(p);
        ck_assert(sn_scope_end(scope) == SN_OK);
    }
}
END_TEST

/* State, which goes on, has no part in these: the first call again and again, compiled from the second on. */
START_TEST(a_program_is_compiled) {
    static const char *const stateless[] = {"block",  "half",    "sizes",    "ints",  "cond",
                                            "scan",   "kinds",   "autocast", "joint", "lists",
                                            "nested", "strided", "numbers",  "rows",  "totals"};
    for (size_t k = 0; k < sizeof stateless / sizeof *stateless; k++) {
        const sn_scope scope = sn_scope_begin();
        sn_program *const p = imported(stateless[k], SN_COMPILE_VERIFY);
        sn_dict *const d = recorded(stateless[k]);
        for (int i = 0; i < 4; i++) call_once(stateless[k], p, d, 1);
        sn_call_report report = {.size = sizeof report};
        ck_assert(sn_last_call(&report) == SN_OK);
        ck_assert_msg(report.path == SN_PATH_COMPILED, "%s: %s", stateless[k], report.reason);
        sn_dict_free(d);
        sn_program_free(p);
        ck_assert(sn_scope_end(scope) == SN_OK);
    }
}
END_TEST

START_TEST(a_program_trains) {
    static const char *const trained[] = {"block", "net", "cond", "strided"};
    for (size_t k = 0; k < sizeof trained / sizeof *trained; k++)
        for (int again = 0; again < 3; again++) {
            sn_program *const p = imported(trained[k], SN_COMPILE_VERIFY);
            sn_dict *const d = recorded(trained[k]);
            sn_value in[MOST_VALUES];
            sn_tensor *out[MOST_VALUES];
            for (int call = 0; call <= again; call++) {
                for (int i = 0; i < sn_dict_count(sn_program_dict(p)); i++)
                    sn_grad_set(sn_dict_at(sn_program_dict(p), i), NULL);
                ck_assert(sn_call_values(sn_program_function(p), in, inputs_of(p, d, 1, in), out,
                                         sn_program_out_count(p)) == SN_OK);
                ck_assert(sn_backward(sn_sum(out[0])) == SN_OK);
            }
            for (int i = 0; i < sn_dict_count(d); i++) {
                const char *const key = sn_dict_name(d, i);
                if (!strncmp(key, "grad.", 5))
                    same_values(trained[k], key, sn_grad(sn_dict_get(sn_program_dict(p), key + 5)), sn_dict_at(d, i));
            }
            sn_dict_free(d);
            sn_program_free(p);
        }
}
END_TEST

START_TEST(inputs_have_names_and_types) {
    static const struct {
        const char *name, *type;
        bool fixed;
    } wanted[] = {
        {"x", "f32[s0,4]", false}, {"lst_0", "f32[s0]", false}, {"d_q", "f32[s0]", false}, {"d_i", "i64[2]", false},
        {"k", "3", true},          {"n", "None", true},         {"scale", "2.0", true}};
    sn_program *const p = imported("state_rows", SN_COMPILE_VERIFY);
    ck_assert_int_eq(sn_program_in_count(p), 7);
    ck_assert_int_eq(sn_function_result_count(sn_program_function(p)), sn_program_out_count(p));
    for (int i = 0; i < 7; i++) {
        sn_program_input in = {.size = sizeof in};
        ck_assert(sn_program_in(p, i, &in) == SN_OK);
        ck_assert_str_eq(in.name, wanted[i].name);
        ck_assert(in.fixed == wanted[i].fixed);
        if (i >= 3) ck_assert_str_eq(in.type, wanted[i].type);
        if (!i) ck_assert(in.rank == 2 && in.sizes[0] == -1 && in.sizes[1] == 4 && in.hints[0] == 2);
    }
    static const char *const results[] = {"out", "z.0", "z.1", "n", "none", "sum", "at", "b"};
    ck_assert_int_eq(sn_program_out_count(p), 8);
    for (int i = 0; i < 8; i++) ck_assert_str_eq(sn_program_out_name(p, i), results[i]);
    sn_program_in(p, 7, &(sn_program_input){.size = sizeof(sn_program_input)});
    expect_error(SN_ERR_ARGUMENT, "there is no input 7");
    ck_assert_str_eq(sn_program_out_name(p, 8), "");
    expect_error(SN_ERR_ARGUMENT, "there is no result 8");
    sn_program_free(p);
}
END_TEST

/* Of sizes that are no sums, like min(s0, 6) % 4, no symbol follows. */
START_TEST(hints_are_sizes_of_the_export) {
    sn_program *const p = imported("sums", SN_COMPILE_VERIFY);
    sn_program_input in = {.size = sizeof in};
    ck_assert(sn_program_in(p, 0, &in) == SN_OK);
    ck_assert(in.hints[0] == 4 && in.hints[1] == 3);
    sn_program_free(p);
}
END_TEST

START_TEST(results_have_names_and_types) {
    static const struct {
        const char *name, *type;
        bool fixed;
    } wanted[] = {{"0.a", "f32[2]", false},
                  {"0.b.0", "f32[2]", false},
                  {"0.b.1", "f32[2]", false},
                  {"1.z", "f32[2]", false},
                  {"1.a", "f32[2]", false},
                  {"2.text", "'sum'", true},
                  {"2.7", "f32[2]", false},
                  {"2.list.0.none", "None", true},
                  {"2.list.0.bool", "True", true},
                  {"2.list.0.float", "2.5", true},
                  {"2.list.1.0", "f32[2]", false},
                  {"3", "'done'", true},
                  {"4", "3", true}};
    enum { N = sizeof wanted / sizeof *wanted };
    sn_program *const p = imported("nested", SN_COMPILE_VERIFY), *const sizes = imported("ints", SN_COMPILE_VERIFY);
    sn_program_output out = {.size = sizeof out};
    ck_assert_int_eq(sn_program_out_count(p), N);
    for (int i = 0; i < N; i++) {
        ck_assert(sn_program_out(p, i, &out) == SN_OK);
        ck_assert_str_eq(out.name, wanted[i].name);
        ck_assert_str_eq(out.type, wanted[i].type);
        ck_assert(out.fixed == wanted[i].fixed);
    }
    ck_assert(sn_program_out(sizes, 0, &out) == SN_OK && !out.fixed);
    ck_assert_msg(!strncmp(out.type, "f32[s", 5) && strstr(out.type, ",2]"), "%s", out.type);
    ck_assert(sn_program_out(sizes, 3, &out) == SN_OK && !out.fixed);
    ck_assert_str_eq(out.type, "int");
    sn_program_out(p, N, &out);
    expect_error(SN_ERR_ARGUMENT, "there is no result 13");
    sn_program_out(NULL, 0, &out);
    expect_error(SN_ERR_ARGUMENT, "NULL argument");
    sn_program_free(p), sn_program_free(sizes);
}
END_TEST

START_TEST(tied_weights_are_one_tensor) {
    sn_program *const p = imported("tied", SN_COMPILE_VERIFY);
    sn_dict *const d = sn_program_dict(p);
    ck_assert_ptr_eq(sn_dict_get(d, "e.weight"), sn_dict_get(d, "o.weight"));
    ck_assert(sn_requires_grad(sn_dict_get(d, "e.weight")) && !sn_requires_grad(sn_dict_get(d, "tail")));
    ck_assert_int_eq(sn_storage_offset(sn_dict_get(d, "tail")), 6);
    ck_assert_int_eq(sn_strides(sn_dict_get(d, "every_other")).data[0], 2);
    sn_program_free(p);
}
END_TEST

/* The same file as a zip64 archive. */
START_TEST(wide_archives_are_the_same) {
    const sn_scope scope = sn_scope_begin();
    sn_program *const p = imported("tied_wide", SN_COMPILE_VERIFY), *const narrow = imported("tied", SN_COMPILE_VERIFY);
    sn_dict *const d = recorded("tied"), *const all = sn_program_dict(p);
    for (int n = 1; n <= 2; n++) ck_assert(call_once("tied", p, d, n));
    check_after("tied_wide", p, d);
    ck_assert_int_eq(sn_dict_count(all), sn_dict_count(sn_program_dict(narrow)));
    ck_assert_ptr_eq(sn_dict_get(all, "e.weight"), sn_dict_get(all, "o.weight"));
    sn_dict_free(d);
    sn_program_free(p), sn_program_free(narrow);
    ck_assert(sn_scope_end(scope) == SN_OK);
}
END_TEST

/* The tensors of a program hold the mapped file; what is written does not reach it. */
START_TEST(the_file_stays_as_it_is) {
    for (int i = 0; i < 2; i++) {
        sn_program *const p = imported("state", SN_COMPILE_VERIFY);
        sn_tensor *const count = sn_retain(sn_dict_get(sn_program_dict(p), "count"));
        ck_assert(sn_equal(count, sn_zeros(SN_INTS(3), SN_F32)));
        sn_add_scalar_(count, sn_float(2));
        sn_program_free(p);
        ck_assert(sn_equal(count, sn_full(SN_INTS(3), sn_float(2), SN_F32)));
        sn_release(count);
    }
}
END_TEST

/* What calls may not give. */
static void refuse_call(const char *name, const sn_value *in, int n_in, sn_status status, const char *says) {
    sn_program *const p = imported(name, SN_COMPILE_VERIFY);
    sn_tensor *out[MOST_VALUES];
    ck_assert_msg(sn_call_values(sn_program_function(p), in, n_in, out, sn_program_out_count(p)) != SN_OK,
                  "%s: not refused: %s", name, says);
    expect_error(status, says);
    sn_program_free(p);
}

START_TEST(sizes_are_those_of_the_export) {
    sn_tensor *const x = sn_randn(SN_INTS(2, 5, 16), SN_F32);
    refuse_call("block", (sn_value[]){sn_val(sn_randn(SN_INTS(3, 5, 16), SN_F32))}, 1, SN_ERR_SHAPE,
                "input 'x': the size of dim 0 is 3, 2 is wanted");
    refuse_call("block", (sn_value[]){sn_val(sn_to(x, SN_F64))}, 1, SN_ERR_DTYPE, "input 'x' is f32, not f64");
    refuse_call("block", (sn_value[]){sn_val(sn_randn(SN_INTS(2, 5), SN_F32))}, 1, SN_ERR_SHAPE,
                "input 'x' has 3 dims, not 2");
    refuse_call("block", (sn_value[]){sn_int(3)}, 1, SN_ERR_ARGUMENT, "");
    refuse_call("block", (sn_value[]){sn_val(x), sn_val(x)}, 2, SN_ERR_ARGUMENT, "takes 1 inputs, given are 2");
    refuse_call("half", (sn_value[]){sn_val(sn_randn(SN_INTS(5, 6), SN_F32))}, 1, SN_ERR_SHAPE,
                "input 'x': the size of dim 0 is 5, (2*s");
    refuse_call("half", (sn_value[]){sn_val(sn_randn(SN_INTS(2, 6), SN_F32))}, 1, SN_ERR_SHAPE, " = 1, but 2 <= s");
    refuse_call("sizes",
                (sn_value[]){sn_val(sn_randn(SN_INTS(10, 3), SN_F32)), sn_val(sn_randn(SN_INTS(2, 3), SN_F32))}, 2,
                SN_ERR_SHAPE, "dim 0 of input 'x' has s");
    sn_tensor *const row = sn_randn(SN_INTS(2, 2), SN_F32), *const at = sn_zeros(SN_INTS(1), SN_I64);
    refuse_call("cache", (sn_value[]){sn_val(row), sn_val(at), sn_int(1), sn_int(2)}, 4, SN_ERR_VALUE,
                "input 'fixed' is 2, 0 is wanted: the export fixed it");
    refuse_call("cache", (sn_value[]){sn_val(row), sn_val(at), sn_int(3), sn_int(0)}, 4, SN_ERR_SHAPE,
                "input 'place' has s");
    refuse_call("guarded", (sn_value[]){sn_val(sn_randn(SN_INTS(4), SN_F32)), sn_val(sn_randn(SN_INTS(3), SN_F32))}, 2,
                SN_ERR_SHAPE, "the sizes of the inputs do not satisfy ");
    refuse_call("guarded", (sn_value[]){sn_val(sn_randn(SN_INTS(5), SN_F32)), sn_val(sn_randn(SN_INTS(5), SN_F32))}, 2,
                SN_ERR_SHAPE, "the sizes of the inputs do not satisfy ");
}
END_TEST

/* One call of two tensors, and what it says; NULL: nothing. */
static const char *said_by(sn_program *p, sn_tensor *a, sn_tensor *b, sn_status status) {
    static char text[512];
    sn_tensor *out[MOST_VALUES];
    const sn_value in[] = {sn_val(a), sn_val(b)};
    if (sn_call_values(sn_program_function(p), in, 2, out, sn_program_out_count(p)) == SN_OK) return NULL;
    const sn_error *const e = sn_error_take();
    ck_assert_msg(e->status == status, "%s", e->message);
    snprintf(text, sizeof text, "%s at %s", e->message, e->where);
    return text;
}

static void expect_said(const char *says, const char *wanted) {
    ck_assert_msg(says && strstr(says, wanted), "'%s' is not in: %s", wanted, says ? says : "nothing was said");
}

/* So many of ten are not 0. */
static sn_tensor *some_of_ten(int n) {
    const int64_t all[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return sn_cat(
        (sn_tensors){(sn_tensor *[]){sn_from_data(all, SN_INTS(n), SN_I64), sn_zeros(SN_INTS(10 - n), SN_I64)}, 2}, 0);
}

/* What the program asserts of sizes that only values say: in each call, compiled or not, in the file's words and with
 * the user's line. */
START_TEST(values_are_asked_in_each_call) {
    static const char *const names[] = {"checked", "checked_aten"};
    for (size_t k = 0; k < 2 * MODES; k++) {
        const sn_scope scope = sn_scope_begin();
        sn_program *const p = imported(names[k / MODES], modes[k % MODES]);
        sn_tensor *const y = sn_randn(SN_INTS(8), SN_F32), *const few = sn_randn(SN_INTS(5), SN_F32);
        for (int call = 0; call < 4; call++) {
            ck_assert_ptr_null(said_by(p, some_of_ten(3), y, SN_OK));
            const char *says = said_by(p, some_of_ten(1), y, SN_ERR_VALUE);
            expect_said(says, "u0 >= 3");
            expect_said(says, "torch_export.py:");
            expect_said(said_by(p, some_of_ten(4), y, SN_ERR_VALUE), "Eq(Mod(u0, 2), 1)");
            expect_said(said_by(p, some_of_ten(5), few, SN_ERR_VALUE), "u0 < s");
        }
        sn_program_free(p);
        ck_assert(sn_scope_end(scope) == SN_OK);
    }
}
END_TEST

/* Of *a, whose values the guard calls L['a'][0]. */
START_TEST(guards_of_variadic_arguments_are_asked) {
    const sn_value long_ones[] = {sn_val(sn_randn(SN_INTS(12), SN_F32)), sn_val(sn_randn(SN_INTS(9), SN_F32))};
    refuse_call("variadic", long_ones, 2, SN_ERR_SHAPE, "20");
}
END_TEST

START_TEST(guards_have_floats) {
    static const char *const names[] = {"rounded", "rounded_aten"};
    static const char *const says[] = {"0.5*torch.sym_float", "/ 3) < 3.5", "math.ceil("};
    const int64_t sizes[] = {3, 11, 7};
    for (int i = 0; i < 6; i++) {
        const sn_value in[] = {sn_val(sn_randn(SN_INTS(1, 2, sizes[i % 3]), SN_F32))};
        refuse_call(names[i / 3], in, 1, SN_ERR_SHAPE, says[i % 3]);
    }
}
END_TEST

START_TEST(strides_may_be_others) {
    sn_program *const p = imported("block", SN_COMPILE_VERIFY);
    sn_tensor *const x = sn_randn(SN_INTS(2, 5, 16), SN_F32);
    sn_tensor *const turned = sn_transpose(sn_contiguous(sn_transpose(x, 0, 1)), 0, 1);
    ck_assert(sn_strides(turned).data[0] != sn_strides(x).data[0]);
    for (int i = 0; i < 3; i++)
        ck_assert(sn_allclose(SN_CALL(sn_program_function(p), x), SN_CALL(sn_program_function(p), turned), 1e-5, 1e-5));
    sn_program_free(p);
}
END_TEST

/* Where no overload takes a tensor. */
START_TEST(a_float_of_sizes_where_a_number_is_wanted_is_refused) {
    ck_assert_ptr_null(sn_import(path_of("alpha", ".pt2"), NULL));
    expect_error(SN_ERR_UNSUPPORTED,
                 "aten::add.Tensor has a number that values give for 'alpha', which is no tensor (torch_export.py:");
}
END_TEST

/* What the export checked of numbers that values say is asked again, with the expression. */
START_TEST(numbers_of_values_are_checked) {
    static const char *const names[] = {"values", "values_aten"};
    for (int i = 0; i < 2; i++) {
        sn_tensor *const x =
            sn_reshape(sn_arange_start(sn_int(-1), sn_int(5), SN_F32), SN_INTS(3, 2)); /* rows 1 and 2 are positive */
        const sn_value three[] = {sn_val(x), sn_val(sn_full(SN_INTS(2), sn_int(2), SN_I64))};
        refuse_call(names[i], three, 2, SN_ERR_SHAPE, "the sizes are 4 and 3 where the header assumes s1==s0");
        const sn_value none[] = {sn_val(sn_neg(sn_abs(x))), sn_val(sn_arange_start(sn_int(1), sn_int(3), SN_I64))};
        refuse_call(names[i], none, 2, SN_ERR_VALUE, "u1 >= 1");
        const sn_value all[] = {sn_val(sn_add_scalar(sn_abs(x), sn_float(1))), none[1]};
        refuse_call(names[i], all, 2, SN_ERR_VALUE, "u1 < ");
    }
}
END_TEST

/* Each error, and each break, has the line of torch_export.py. */
START_TEST(errors_name_the_python_line) {
    ck_assert_ptr_null(sn_import(path_of("spectrum", ".pt2"), NULL));
    expect_error(SN_ERR_UNSUPPORTED, "'aten::fft_fft' (torch_export.py:");
    sn_program *const p = imported("block", SN_COMPILE_VERIFY);
    ck_assert_ptr_nonnull(strstr(sn_graph_text(sn_program_graph(p)), "at='torch_export.py:"));
    sn_program_free(p);
}
END_TEST

START_TEST(wrong_calls_are_errors) {
    ck_assert_ptr_null(sn_import(NULL, NULL));
    expect_error(SN_ERR_ARGUMENT, "sn_import: the path is NULL");
    ck_assert_ptr_null(sn_import("/nowhere/m.pt2", NULL));
    expect_error(SN_ERR_IO, "cannot open '/nowhere/m.pt2'");
    ck_assert_ptr_null(sn_import(path_of("block", ".safetensors"), NULL));
    expect_error(SN_ERR_PARSE, "no zip file that can be read: it has no end record");
    ck_assert_ptr_null(sn_import(path_of("block", ".pt2"), SN_IMPORT_OPTIONS(.model = "other")));
    expect_error(SN_ERR_ARGUMENT, "no program 'other', but model.json");
    ck_assert_ptr_null(sn_program_function(NULL));
    expect_error(SN_ERR_ARGUMENT, "the program is NULL");
    sn_program_free(NULL);
}
END_TEST

int main(void) {
    TCase *const tests = tcase_create("import");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, a_program_gives_pytorchs_values, 0, PROGRAMS);
    tcase_add_test(tests, a_program_is_compiled);
    tcase_add_test(tests, a_program_trains);
    tcase_add_test(tests, inputs_have_names_and_types);
    tcase_add_test(tests, hints_are_sizes_of_the_export);
    tcase_add_test(tests, results_have_names_and_types);
    tcase_add_test(tests, tied_weights_are_one_tensor);
    tcase_add_test(tests, wide_archives_are_the_same);
    tcase_add_test(tests, the_file_stays_as_it_is);
    tcase_add_test(tests, sizes_are_those_of_the_export);
    tcase_add_test(tests, values_are_asked_in_each_call);
    tcase_add_test(tests, guards_of_variadic_arguments_are_asked);
    tcase_add_test(tests, guards_have_floats);
    tcase_add_test(tests, strides_may_be_others);
    tcase_add_test(tests, a_float_of_sizes_where_a_number_is_wanted_is_refused);
    tcase_add_test(tests, numbers_of_values_are_checked);
    tcase_add_test(tests, errors_name_the_python_line);
    tcase_add_test(tests, wrong_calls_are_errors);
    return suite_run("import", tests);
}
