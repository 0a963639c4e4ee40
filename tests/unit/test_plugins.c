/* test_plugins.c: plug-ins: which are loaded and which refused before their code runs, that nothing is left of those
 * that fail, the compiler of sn_plugin_build, and files changed at random. The program holds the library whole, as the
 * tool does, so that plug-ins find its functions. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/core/plugin_file.h"
#include "tests/unit/contract.h"

#define PLUGIN(name) SINTER_PLUGINS "/libplugin_" #name ".so"

static char folder[] = "/tmp/sinter-test-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[8][128];
    static int next;
    snprintf(path[next = (next + 1) % 8], sizeof *path, "%s/%s", folder, name);
    return path[next];
}

static const char *written(const char *name, const char *bytes, size_t n) {
    const char *const path = in_folder(name);
    ck_assert_int_eq(file_replace(path, &(FileSpan){bytes, n}, 1), ST_OK);
    return path;
}
static const char *source(const char *name, const char *text) { return written(name, text, strlen(text)); }

static sn_tensor *call_op(const char *name, sn_tensor *x, double by) {
    const sn_op *const op = sn_op_find(name);
    ck_assert_msg(op != NULL, "%s", sn_error_take()->message);
    const sn_value in[] = {sn_val(x), sn_float(by)};
    sn_tensor *const y = sn_op_call1(op, in, 2);
    ck_assert_msg(y != NULL, "%s", sn_error_take()->message);
    return y;
}

static void expect_loaded(sn_status status) { ck_assert_msg(status == SN_OK, "%s", sn_error_take()->message); }

static void expect_no_op(const char *name) {
    ck_assert_ptr_null(sn_op_find(name));
    expect_error(SN_ERR_ARGUMENT, "is unknown");
}

/* versions ------------------------------------------------------------------------------------ */

static sn_status swishes(sn_frame *f) { return sn_out(f, 0, sn_sum(call_op("old::swish", sn_exp(sn_in(f, 0)), 3))); }

START_TEST(a6_07_a_plugin_of_an_earlier_minor_version_runs) {
    expect_loaded(sn_plugin_load(PLUGIN(old)));
    sn_tensor *const x = F32(1, 5);
    ck_assert(same_bits(call_op("old::swish", x, 3), sn_mul_scalar(x, sn_float(3))));
    const Twin twin = twin_new(swishes, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 5));
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0); /* its meta rule and flags were understood */
    sn_tensor *const leaf = LEAF(4, 5);
    ck_assert_int_eq(sn_backward(SN_CALL(twin.fast, leaf)), SN_OK);
    ck_assert(same_bits(sn_grad(leaf), sn_mul_scalar(sn_exp(sn_detach(leaf)), sn_float(3))));
    twin_free(twin);
}
END_TEST

START_TEST(a6_07_other_versions_are_refused_before_they_run) {
    static const struct {
        const char *path, *says;
    } rows[] = {{PLUGIN(newer), "was built for Sinter 0.99 (ABI 0), this is 0.2 (ABI 0): the plug-in is newer"},
                {PLUGIN(major), "was built for Sinter 3.0 (ABI 0), this is 0.2 (ABI 0): another major version"},
                {PLUGIN(abi), "was built for Sinter 0.2 (ABI 1), this is 0.2 (ABI 0): another ABI"}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        ck_assert_int_eq(sn_plugin_load(rows[i].path), SN_ERR_UNSUPPORTED);
        expect_error(SN_ERR_UNSUPPORTED, rows[i].says);
    }
    expect_no_op("newer::swish");
    ck_assert_int_eq(sn_plugin_load(PLUGIN(missing)), SN_ERR_IO);
    expect_error(SN_ERR_IO, "sn_of_a_later_version");
}
END_TEST

START_TEST(a6_07_what_is_no_plugin_is_told) {
    char self[512] = "";
    ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    const struct {
        const char *path, *says;
        sn_status status;
    } rows[] = {
        {"/no/such.so", "cannot open the plug-in '/no/such.so'", SN_ERR_IO},
        {folder, "cannot read", SN_ERR_IO},
        {source("text.so", "a text\n"), "it is no ELF file", SN_ERR_PARSE},
        {source("empty.so", ""), "it is no ELF file", SN_ERR_PARSE},
        {source("short.so", "\177ELF\2\1\1"), "its head is not whole", SN_ERR_PARSE},
        {self, "it is a program, no shared library", SN_ERR_PARSE},
        {SINTER_PLUGINS "/libtool_library.so", "it is no plug-in: it defines no sn_plugin_version", SN_ERR_PARSE}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        ck_assert_int_eq(sn_plugin_load(rows[i].path), rows[i].status);
        expect_error(rows[i].status, rows[i].says);
    }
    ck_assert_int_eq(sn_plugin_load(NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "sn_plugin_load: the path is NULL");
}
END_TEST

/* failing starts ------------------------------------------------------------------------------ */

static sn_status gives_x(sn_frame *f) { return sn_out(f, 0, sn_in(f, 0)); }

START_TEST(a6_05_nothing_is_left_of_a_plugin_that_fails) {
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(sn_plugin_load(PLUGIN(twice)), SN_ERR_ARGUMENT);
        expect_error(SN_ERR_ARGUMENT, "op twice::swish exists already");
        expect_no_op("twice::swish");
        ck_assert_ptr_null(strstr(sn_op_list(), "twice::swish"));
        ck_assert_int_eq(sn_plugin_load(PLUGIN(fails)), SN_ERR_CALLBACK);
        expect_error(SN_ERR_CALLBACK, "its start returned 'value'");
        expect_no_op("fails::swish");
    }
    ck_assert_ptr_nonnull(sn_op_register(SN_OP_DESC(.schema = "twice::swish(Tensor x) -> Tensor", .cpu = gives_x)));
    ck_assert_int_eq(sn_plugin_load(PLUGIN(twice)), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "op twice::swish exists already");
    ck_assert_ptr_nonnull(sn_op_find("twice::swish")); /* the program's stays */
}
END_TEST

static sn_status pass_rests(sn_graph *g, void *closure) { return (void)g, (void)closure, SN_OK; }
static sn_status exp_of(sn_frame *f) { return sn_out(f, 0, sn_exp(sn_in(f, 0))); }

START_TEST(a6_05_a_failed_start_leaves_no_passes_backends_and_devices) {
    sn_tensor *const x = F32(1, 5);
    sn_pass_register(SN_PASS_JOINT, pass_rests, NULL, "of the program", "1");
    for (int round = 0; round < 10; round++) { /* more than there is room for devices */
        ck_assert_int_eq(sn_plugin_load(PLUGIN(fails)), SN_ERR_CALLBACK);
        expect_error(SN_ERR_CALLBACK, "its start returned 'value'");
        ck_assert_int_ne(sn_pass_remove("of a plug-in"), SN_OK);
        expect_error(SN_ERR_ARGUMENT, "there is no pass 'of a plug-in'");
        ck_assert_ptr_null(sn_compile(exp_of, NULL, SN_COMPILE_OPTIONS(.backend = "of_a_plugin")));
        expect_error(SN_ERR_ARGUMENT, "there is no backend 'of_a_plugin'");
        sn_device_name((sn_device)65);
        expect_error(SN_ERR_ARGUMENT, "65 is no device");
    }
    sn_function *const fn = sn_compile(exp_of, NULL, NULL);
    for (int i = 0; i < 3; i++) ck_assert(same_bits(SN_CALL(fn, x), sn_exp(x)));
    ck_assert(last_path() == SN_PATH_COMPILED);
    ck_assert_int_eq(sn_pass_remove("of the program"), SN_OK);
    sn_function_free(fn);
}
END_TEST

START_TEST(a6_05_a_start_leaves_no_modes_and_a_failed_one_no_overrides) {
    sn_tensor *const x = F32(1, 5), *const sine = sn_sin(x), *const cosine = sn_cos(x);
    sn_override *const own = sn_op_override(sn_op_find("aten::cos"), SN_KEY_CPU, gives_x, NULL);
    ck_assert_int_eq(sn_plugin_load(PLUGIN(fails)), SN_ERR_CALLBACK);
    expect_error(SN_ERR_CALLBACK, "its start returned 'value'");
    ck_assert_int_eq(sn_grad_mode_set(SN_GRAD_ON), SN_GRAD_ON);
    ck_assert(same_bits(sn_sin(x), sine));
    ck_assert(same_bits(sn_cos(x), x)); /* the program's override stays */
    sn_override_free(own);
    ck_assert(same_bits(sn_cos(x), cosine));
    expect_loaded(sn_plugin_load(PLUGIN(modes)));
    ck_assert_int_eq(sn_grad_mode_set(SN_GRAD_ON), SN_GRAD_ON);
    ck_assert(same_bits(sn_sin(x), sn_ones_like(x))); /* those of one that is loaded are in force */
    ck_assert(sn_requires_grad(sn_exp(LEAF(2, 3))));
}
END_TEST

static sn_status halves_added(sn_frame *f) {
    const sn_value in = sn_val(sn_exp(sn_in(f, 0)));
    sn_value out[3];
    int n = 3;
    if (sn_op_call(sn_op_find("modes::halves"), &in, 1, out, &n) != SN_OK || n != 3) return sn_check();
    return sn_out(f, 0, sn_mul_scalar(sn_add(out[0].tensor, out[1].tensor), out[2]));
}

START_TEST(a6_07_an_op_of_a_plugin_gives_a_list_and_a_number) {
    expect_loaded(sn_plugin_load(PLUGIN(modes)));
    ck_assert_str_eq(sn_op_schema(sn_op_find("modes::halves")), "modes::halves(Tensor x) -> (Tensor[], int)");
    const Twin twin = twin_new(halves_added, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        sn_tensor *const x = F32(i, 5), *const y = TWIN_CALL(twin, x);
        ck_assert(sn_allclose(y, sn_mul_scalar(sn_exp(x), sn_float(2 * 5)), 1e-6, 0)); /* 0.5 + 1.5, of 5 elements */
    }
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
}
END_TEST

static sn_status loads(sn_frame *f) {
    sn_plugin_load(PLUGIN(old));
    return sn_out(f, 0, sn_in(f, 0));
}

START_TEST(a6_05_a_plugin_is_started_once) {
    expect_loaded(sn_plugin_load(PLUGIN(old)));
    expect_loaded(sn_plugin_load(PLUGIN(old))); /* a second start would meet its own op */
    sn_function *const fn = sn_compile(loads, NULL, NULL);
    ck_assert_ptr_null(SN_CALL(fn, F32(1, 2)));
    expect_error(SN_ERR_STATE, "sn_plugin_load");
    sn_function_free(fn);
}
END_TEST

/* building ------------------------------------------------------------------------------------ */

static const char *const scale_sources[] = {SINTER_SOURCE_DIR "/samples/plugin/scale.c",
                                            SINTER_SOURCE_DIR "/samples/plugin/scale.cu"};

static sn_status scales(sn_frame *f) { return sn_out(f, 0, sn_relu(call_op("my::scale", sn_exp(sn_in(f, 0)), 3))); }

START_TEST(a6_05_a_plugin_is_built_and_loaded_at_run_time) {
    expect_loaded(sn_plugin_build(scale_sources, 2));
    const Twin twin = twin_new(scales, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 4, 5));
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
    ck_assert_int_eq(sn_plugin_build(scale_sources, 2), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "op my::scale exists already");
}
END_TEST

static void fails_to_build(const char *path, sn_status status, const char *says) {
    ck_assert_int_eq(sn_plugin_build(&path, 1), status);
    expect_error(status, says);
}

START_TEST(a6_05_what_does_not_build_says_why) {
    fails_to_build(source("bad.c", "int f(void) { return nothing; }\n"), SN_ERR_ARGUMENT, "nothing");
    fails_to_build(source("link.c", "#include <sinter/sinter.h>\nvoid g(void);\nSN_PLUGIN { g(); return SN_OK; }\n"),
                   SN_ERR_IO, "undefined symbol: g");
    fails_to_build(source("none.c", "int f(void) { return 1; }\n"), SN_ERR_PARSE, "it is no plug-in");
    fails_to_build(in_folder("absent.c"), SN_ERR_IO, "cannot open");
    fails_to_build("plugin.cpp", SN_ERR_ARGUMENT, "is no .c and no .cu file");
    fails_to_build(source("2 kernels.cu", ""), SN_ERR_ARGUMENT, "the name of a .cu file is one of C's");
    ck_assert_int_eq(sn_plugin_build(NULL, 0), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "0 sources");
    sn_setting_set("plugin_compiler", "/no/such/cc");
    fails_to_build(source("good.c", ""), SN_ERR_IO, "cannot start the compiler '/no/such/cc'");
    sn_setting_set("plugin_compiler", "cc");
    sn_setting_set("plugin_include", "");
    fails_to_build(source("good.c", ""), SN_ERR_IO, "set plugin_include");
}
END_TEST

/* Texts --------------------------------------------------------------------------------------- */

static const char halve_text[] =
    "#include <sinter/sinter.h>\n"
    "static sn_status same(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }\n"
    "static sn_status halve(sn_frame *f) {\n"
    "    sn_tensor *x = sn_contiguous(sn_in(f, 0)), *y = sn_empty_like(x);\n"
    "    const float *from = sn_data(x, SN_F32);\n"
    "    float *to = sn_data_mut(y, SN_F32);\n"
    "    if (!from || !to) return sn_check();\n"
    "    for (int64_t i = 0; i < sn_numel(x); i++) to[i] = 0.5f * from[i];\n"
    "    return sn_out(f, 0, y);\n"
    "}\n"
    "SN_PLUGIN {\n"
    "    sn_op_register(SN_OP_DESC(.schema = \"text::halve(Tensor x) -> Tensor\",\n"
    "                              .flags = SN_OP_PURE, .meta = same, .cpu = halve));\n"
    "    return sn_check();\n"
    "}\n";

static sn_tensor *halved(sn_tensor *x) { return sn_op_call1(sn_op_find("text::halve"), (sn_value[]){sn_val(x)}, 1); }
static sn_status halves(sn_frame *f) { return sn_out(f, 0, sn_relu(halved(sn_exp(sn_in(f, 0))))); }

START_TEST(a9_13_a_string_of_c_becomes_an_op) {
    expect_loaded(sn_plugin_build_text("halve", halve_text, NULL));
    sn_tensor *const x = F32(1, 4, 5);
    ck_assert(same_bits(halved(x), sn_mul_scalar(x, sn_float(0.5))));
    const Twin twin = twin_new(halves, NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) TWIN_CALL(twin, F32(i, 4, 5));
    ck_assert_int_eq(stats_of(twin.fast).breaks, 0);
    twin_free(twin);
    ck_assert_int_eq(sn_plugin_build_text("halve", halve_text, NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "op text::halve exists already");
}
END_TEST

/* The text of NAME.cu is NAME_cu in the C text, for sn_cuda_kernel; here it is shown as a number of its letters. */
START_TEST(a9_13_the_cuda_text_goes_along) {
    static const char cuda[] = "extern \"C\" __global__ void half_of(float *x) { x[threadIdx.x] *= 0.5f; }\n";
    static const char c[] =
        "#include <sinter/sinter.h>\n#include <string.h>\nextern const char both_cu[];\n"
        "static sn_status meta(sn_frame *f) { return sn_out(f, 0, sn_empty_like(sn_in(f, 0))); }\n"
        "static sn_status letters(sn_frame *f) {\n"
        "    return sn_out(f, 0, sn_full_like(sn_in(f, 0), sn_float((double)strlen(both_cu))));\n}\n"
        "SN_PLUGIN {\n"
        "    sn_op_register(SN_OP_DESC(.schema = \"text::letters(Tensor x) -> Tensor\", .meta = meta, .cpu = "
        "letters));\n"
        "    return sn_check();\n}\n";
    expect_loaded(sn_plugin_build_text("both", c, cuda));
    sn_tensor *const y = sn_op_call1(sn_op_find("text::letters"), (sn_value[]){sn_val(F32(1, 2))}, 1);
    ck_assert(same_bits(y, sn_full_like(y, sn_float((double)strlen(cuda)))));
}
END_TEST

/* A compiler of the test's own; its path. */
static const char *compiler(const char *text) {
    const char *const path = source("fake_cc", text);
    chmod(path, 0700);
    sn_setting_set("plugin_compiler", path);
    return path;
}

static void text_fails(const char *name, const char *text, sn_status status, const char *says) {
    ck_assert_int_eq(sn_plugin_build_text(name, text, NULL), status);
    expect_error(status, says);
}

START_TEST(a9_13_a_compiler_that_does_not_fit_is_named) {
    text_fails("bad", "int f(void) { return nothing; }\n", SN_ERR_ARGUMENT, "bad.c:1");
    text_fails("a/b", halve_text, SN_ERR_ARGUMENT, "the name 'a/b' is no word of C's");
    text_fails("", halve_text, SN_ERR_ARGUMENT, "the name '' is no word of C's");
    ck_assert_int_eq(sn_plugin_build_text("halve", NULL, NULL), SN_ERR_ARGUMENT);
    expect_error(SN_ERR_ARGUMENT, "the text is NULL");
    sn_setting_set("plugin_compiler", "/no/such/cc");
    text_fails("halve", halve_text, SN_ERR_IO, "cannot start the compiler '/no/such/cc'");
    compiler("#!/bin/sh\necho \"unrecognized option '-std=c17'\" >&2\nexit 1\n");
    text_fails("halve", halve_text, SN_ERR_ARGUMENT, "fake_cc: unrecognized option '-std=c17'");
    compiler("#!/bin/sh\ncc \"$@\"\nfor o in \"$@\"; do [ \"$last\" = -o ] && so=$o; last=$o; done\n"
             "printf '\\267' | dd of=\"$so\" bs=1 seek=18 conv=notrunc 2>/dev/null\n");
    text_fails("halve", halve_text, SN_ERR_UNSUPPORTED, "makes code for another machine: ELF machine 183");
    sn_setting_set("plugin_compiler", "cc");
}
END_TEST

/* A name is an argument, never a shell's text. */
START_TEST(a6_05_no_shell_reads_the_names) {
    const char *const marked = in_folder("marked");
    char name[64], text[300];
    snprintf(name, sizeof name, "a $(touch marked) ; b'.c");
    snprintf(text, sizeof text, "#include <sinter/sinter.h>\nSN_PLUGIN { return SN_OK; }\n");
    const char *const path = source(name, text);
    expect_loaded(sn_plugin_build(&path, 1));
    ck_assert_int_ne(access(marked, F_OK), 0);
    ck_assert_int_ne(access("marked", F_OK), 0);
}
END_TEST

/* sealed files -------------------------------------------------------------------------------- */

typedef struct FileBytes {
    char *at;
    size_t n;
} FileBytes;

static FileBytes sealed_file(void) {
    FileBytes file;
    ck_assert_int_eq(file_read(PLUGIN(sealed), &file.at, &file.n), ST_OK);
    const char *const path = written("sealed.so", file.at, file.n);
    expect_loaded(sn_plugin_seal(path));
    mem_free(file.at);
    ck_assert_int_eq(file_read(path, &file.at, &file.n), ST_OK);
    return file;
}

START_TEST(a6_05_a_sealed_plugin_loads_as_it_is_or_not_at_all) {
    FileBytes file = sealed_file();
    file.at[file.n / 2] ^= 1;
    const char *const changed = written("changed.so", file.at, file.n);
    ck_assert_int_eq(sn_plugin_load(changed), SN_ERR_PARSE);
    expect_error(SN_ERR_PARSE, "it was changed after it was sealed");
    expect_no_op("sealed::same");
    expect_loaded(sn_plugin_load(in_folder("sealed.so")));
    ck_assert_ptr_nonnull(sn_op_find("sealed::same"));
    ck_assert_int_eq(sn_plugin_seal(PLUGIN(old)), SN_ERR_PARSE);
    expect_error(SN_ERR_PARSE, "it has no place for a seal");
    mem_free(file.at);
}
END_TEST

static uint64_t next_number(uint64_t *s) {
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 20;
}

/* A place where tables are, mostly: the head and its segments, the tables at the end, the mark. */
static size_t some_place(const FileBytes *file, uint64_t *s) {
    const uint64_t which = next_number(s) % 4;
    const size_t tables = file->n < 4096 ? file->n : 4096;
    if (which == 0) return next_number(s) % 120;
    if (which == 1) return next_number(s) % tables;
    return which == 2 ? file->n - 1 - next_number(s) % tables : next_number(s) % file->n;
}

static void mutate(FileBytes *file, size_t whole, uint64_t *s) {
    static const uint64_t words[] = {0, 1, UINT64_MAX, INT64_MAX, UINT32_MAX, 0x8000000000000000, 0x1000, 63};
    for (uint64_t k = 1 + next_number(s) % 3; k > 0; k--) {
        const size_t at = some_place(file, s), left = file->n - at;
        const uint64_t word = next_number(s) % 2 ? words[next_number(s) % COUNT_OF(words)] : next_number(s);
        const uint64_t how = next_number(s) % 8;
        if (how == 0) file->at[at] ^= (char)(1 << next_number(s) % 8);
        if (how > 0 && how < 6) memcpy(file->at + at, &word, left < 8 ? left : how == 1 ? 2 : how == 2 ? 4 : 8);
        if (how == 6) memset(file->at + at, 0, left < 64 ? left : next_number(s) % 64);
        if (how == 7 && file->n == whole && next_number(s) % 2) file->n = at;
        if (!file->n) return;
    }
}

/* 10,000 files: what is not the sealed one is refused, sealed anew it is read without a fault. */
START_TEST(a6_05_mutated_plugins_are_refused) {
    const FileBytes whole = sealed_file();
    FileBytes file = {malloc(whole.n), 0};
    uint64_t s = 11;
    int resealed = 0;
    for (int round = 0; round < 10000; round++) {
        file.n = whole.n;
        memcpy(file.at, whole.at, whole.n);
        mutate(&file, whole.n, &s);
        const bool same = file.n == whole.n && !memcmp(file.at, whole.at, whole.n);
        const Status status = plugin_file_check("file", file.at, file.n);
        ck_assert_msg(same == (status == ST_OK), "round %d: status %d", round, status);
        error_clear();
        if (!same && round % 50 == 0) {
            ck_assert_int_ne(sn_plugin_load(written("mutated.so", file.at, file.n)), SN_OK);
            ck_assert_str_ne(sn_error_take()->message, "");
        }
        if (plugin_file_seal("file", file.at, file.n) == ST_OK) {
            resealed++;
            plugin_file_check("file", file.at, file.n);
        }
        error_clear();
    }
    ck_assert_int_gt(resealed, 500);
    expect_no_op("sealed::same");
    free(file.at);
    mem_free(whole.at);
}
END_TEST

/* SN_REQUIRE ---------------------------------------------------------------------------------- */

static sn_status careful(sn_frame *f) {
    SN_REQUIRE(sn_dtype_of(sn_in(f, 0)) == SN_F32, SN_ERR_DTYPE, "x must be f32");
    SN_REQUIRE(sn_in_float(f, 1) >= 0, SN_ERR_VALUE, "by must not be negative");
    SN_REQUIRE(sn_device_of(sn_in(f, 0)) == SN_CPU, SN_ERR_DEVICE, "x must be on the CPU");
    return sn_out(f, 0, sn_mul_scalar(sn_in(f, 0), sn_in_value(f, 1)));
}

START_TEST(a6_06_a_failed_requirement_names_op_values_and_line) {
    const sn_op *const op =
        sn_op_register(SN_OP_DESC(.schema = "r::careful(Tensor x, float by) -> Tensor", .cpu = careful));
    const sn_value good[] = {sn_val(F32(1, 3)), sn_float(2)};
    ck_assert_ptr_nonnull(sn_op_call1(op, good, 2));
    const sn_value doubles[] = {sn_val(sn_zeros(SN_INTS(2, 3), SN_F64)), sn_float(2.5)};
    ck_assert_ptr_null(sn_op_call1(op, doubles, 2));
    const sn_error *const error = sn_error_take();
    ck_assert_int_eq(error->status, SN_ERR_DTYPE);
    ck_assert_str_eq(error->message,
                     "r::careful: x must be f32 (sn_dtype_of(sn_in(f, 0)) == SN_F32 is false; x = f64[2,3], by = 2.5)");
    ck_assert_str_eq(error->op, "r::careful");
    ck_assert_ptr_nonnull(strstr(error->where, "test_plugins.c:"));
    const sn_value below[] = {sn_val(F32(1, 3)), sn_float(-1)};
    ck_assert_ptr_null(sn_op_call1(op, below, 2));
    expect_error(SN_ERR_VALUE, "by must not be negative (sn_in_float(f, 1) >= 0 is false; x = f32[3], by = -1)");
    ck_assert_int_eq(sn_require_failed(SN_ERR_VALUE, "outside", "false", "here.c", 3), SN_ERR_VALUE);
    expect_error(SN_ERR_VALUE, "outside (false is false)");
}
END_TEST

static void make_folder(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
    sn_setting_set("plugin_include", SINTER_HEADERS);
}
static void remove_folder(void) {
    static const char *const names[] = {"text.so",      "empty.so",   "short.so",
                                        "bad.c",        "link.c",     "none.c",
                                        "2 kernels.cu", "good.c",     "a $(touch marked) ; b'.c",
                                        "sealed.so",    "changed.so", "mutated.so",
                                        "fake_cc"};
    for (int i = 0; i < COUNT_OF(names); i++) unlink(in_folder(names[i]));
    ck_assert_int_eq(rmdir(folder), 0);
}

int main(void) {
    TCase *const tests = tcase_create("plugins");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, a6_07_a_plugin_of_an_earlier_minor_version_runs);
    tcase_add_test(tests, a6_07_other_versions_are_refused_before_they_run);
    tcase_add_test(tests, a6_07_what_is_no_plugin_is_told);
    tcase_add_test(tests, a6_05_nothing_is_left_of_a_plugin_that_fails);
    tcase_add_test(tests, a6_05_a_failed_start_leaves_no_passes_backends_and_devices);
    tcase_add_test(tests, a6_05_a_start_leaves_no_modes_and_a_failed_one_no_overrides);
    tcase_add_test(tests, a6_05_a_plugin_is_started_once);
    tcase_add_test(tests, a6_07_an_op_of_a_plugin_gives_a_list_and_a_number);
    tcase_add_test(tests, a6_05_a_plugin_is_built_and_loaded_at_run_time);
    tcase_add_test(tests, a6_05_what_does_not_build_says_why);
    tcase_add_test(tests, a9_13_a_string_of_c_becomes_an_op);
    tcase_add_test(tests, a9_13_the_cuda_text_goes_along);
    tcase_add_test(tests, a9_13_a_compiler_that_does_not_fit_is_named);
    tcase_add_test(tests, a6_05_no_shell_reads_the_names);
    tcase_add_test(tests, a6_05_a_sealed_plugin_loads_as_it_is_or_not_at_all);
    tcase_add_test(tests, a6_05_mutated_plugins_are_refused);
    tcase_add_test(tests, a6_06_a_failed_requirement_names_op_values_and_line);
    return suite_run("test_plugins", tests);
}
