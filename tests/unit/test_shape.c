/* test_shape.c: shapes without any emitter: what is decided for small nests on named machines, text identity of random
 * nests' shapes, what the verifier and the reader refuse. */
#include "codegen/shape/plan_shapes.h"
#include "runtime/base/error.h"
#include "tests/ref/random_nest.h"
#include "tests/ref/random_shape.h"
#include "tests/unit/suite.h"

static Arena *arena;
static void setup(void) { arena = arena_new(); }
static void teardown(void) {
    arena_free(arena);
    error_clear();
}

static const char *text_of(const NestMapping *shape, const Nest *nest) {
    Text text = {0};
    shape_print(shape, nest, &text);
    const char *const copy = arena_strdup(arena, text_str(&text));
    text_free(&text);
    return copy;
}

static NestMapping *read_shape(const char *text, const Nest *nest) {
    TextReader in = {.what = "shapes", .between = BETWEEN_comments, .start = text, .at = text};
    NestMapping *shape = NULL;
    return shape_parse(arena, &in, nest, &shape) == ST_OK ? shape : NULL;
}

START_TEST(machines_print_and_parse) {
    for (int i = 0; machine_at(i); i++) {
        Text text = {0}, again = {0};
        machine_print(machine_at(i), &text);
        TextReader in = {.what = "m", .between = BETWEEN_comments, .start = text_str(&text), .at = text_str(&text)};
        Machine m;
        ck_assert_int_eq(machine_parse(&in, &m), ST_OK);
        machine_print(&m, &again);
        ck_assert_str_eq(text_str(&text), text_str(&again));
        ck_assert_int_eq(m.level, machine_at(i)->level);
        ck_assert_ptr_eq(machine_find(m.name, strlen(m.name)), machine_at(i));
        text_free(&text), text_free(&again);
    }
    ck_assert_ptr_null(machine_find("v44", 3));
    ck_assert_ptr_nonnull(strstr(error_slot()->message, "'v44' is unknown; machines: v2, v3, v4"));
    error_clear();
    static const char *const wrong[] = {"machine v4: lanes 8, near 1, ahead 1, keep 1, stream 1, fma",
                                        "machine v2: lanes 4, near 1, ahead 1, keep 1, stream 1, fma",
                                        "machine v4: lanes 16, near -1, ahead 1, keep 1, stream 1, fma", "machine"};
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        TextReader in = {.what = "m", .between = BETWEEN_comments, .start = wrong[i], .at = wrong[i]};
        Machine m;
        ck_assert_int_eq(machine_parse(&in, &m), ST_PARSE);
        error_clear();
    }
}
END_TEST

/* The same nest and machine, the same shape, on any computer; as text too, and so are its changes. */
START_TEST(random_shapes_print_and_parse) {
    int differ = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        arena_reset(arena);
        const RandomNest *const random = random_nest(arena, seed);
        const Nest *const nest = random->kernel.nests;
        const Buf *const bufs = random->kernel.bufs;
        for (int m = 0; machine_at(m); m++) {
            const NestMapping *const decided = shape_decide(arena, nest, bufs, machine_at(m));
            const char *const text = text_of(decided, nest);
            ck_assert_str_eq(text, text_of(shape_decide(arena, nest, bufs, machine_at(m)), nest));
            ck_assert_msg(shape_verify(decided, nest, bufs, machine_at(m)) == ST_OK, "seed %d: %s\n%s", (int)seed,
                          error_slot()->message, text);
            const NestMapping *const other = random_shape(arena, nest, bufs, machine_at(m), seed);
            const char *const texts[2] = {text, text_of(other, nest)};
            differ += strcmp(texts[0], texts[1]) != 0;
            for (int k = 0; k < 2; k++) {
                const NestMapping *const again = read_shape(texts[k], nest);
                ck_assert_msg(again != NULL, "%s\n%s", error_slot()->message, texts[k]);
                ck_assert_str_eq(text_of(again, nest), texts[k]);
                ck_assert_int_eq(shape_verify(again, nest, bufs, machine_at(m)), ST_OK);
            }
        }
    }
    ck_assert_int_gt(differ, 450);
}
END_TEST

static Kernel *kernel_of(const char *text) {
    Kernel *kernel = NULL;
    const char *end;
    ck_assert_msg(kernel_parse(arena, text, &end, &kernel) == ST_OK, "%s", error_slot()->message);
    ck_assert_msg(kernel_verify(kernel) == ST_OK, "%s", error_slot()->message);
    return kernel;
}

static const char sums[] = "kernel k(b0: in f32, b1: out f32) params(p0) {\n"
                           "  nest n outer(4, p0) inner(2, 3; 5, 7) order LS {\n"
                           "    reduce inner:\n"
                           "      %0 = load f32 b0[105*j0 + 35*j1 + 7*j2 + j3]\n"
                           "      %1 = reduce sum.f32 %0\n"
                           "    map outer:\n"
                           "      store b1[p0*i0 + i1], %1\n"
                           "  }\n"
                           "}\n";
static const char bias[] = "kernel k(b0: in f32, b1: in f32, b2: out f32) {\n"
                           "  nest n outer(3, 8, 16) {\n"
                           "    map:\n"
                           "      %0 = load f32 b0[128*i0 + 16*i1 + i2]\n"
                           "      %1 = load f32 b1[i0]\n"
                           "      %2 = add.f32 %0, %1\n"
                           "      store b2[128*i0 + 16*i1 + i2], %2\n"
                           "  }\n"
                           "}\n";
static const char steps[] = "kernel k(b0: in f32, b1: out f32, b2: out f32) params(p0) {\n"
                            "  nest n outer(p0) inner(128) order L {\n"
                            "    reduce inner:\n"
                            "      %0 = load f32 b0[128*i0 + j0]\n"
                            "      %1 = exp.f32 %0\n"
                            "      %2 = exp.f32 %1\n"
                            "      %3 = reduce sum.f32 %2\n"
                            "    map inner:\n"
                            "      %4 = mul.f32 %2, %3\n"
                            "      store b1[128*i0 + j0], %4\n"
                            "    map outer:\n"
                            "      store b2[i0], %3\n"
                            "  }\n"
                            "}\n";

static const char wide[] = "kernel k(b0: in f32, b1: out f32) {\n"
                           "  nest n outer(768) inner(64) order S {\n"
                           "    reduce inner:\n"
                           "      %0 = load f32 b0[i0 + 768*j0]\n"
                           "      %1 = reduce sum.f32 %0\n"
                           "    map outer:\n"
                           "      store b1[i0], %1\n"
                           "  }\n"
                           "}\n";
static const char huge[] = "kernel k(b0: in f32, b1: out f32) {\n"
                           "  nest n outer(4) inner(65536, 32768) order L {\n"
                           "    reduce inner:\n"
                           "      %0 = load f32 b0[i0 + 4*j0 + 524288*j1]\n"
                           "      %1 = reduce sum.f32 %0\n"
                           "    map outer:\n"
                           "      store b1[i0], %1\n"
                           "  }\n"
                           "}\n";

START_TEST(dims_that_are_walked_as_one_are_one_loop) {
    const Kernel *const ls = kernel_of(sums), *const map = kernel_of(bias);
    const NestMapping *const rows = shape_decide(arena, ls->nests, ls->bufs, machine_at(2));
    ck_assert_ptr_nonnull(strstr(text_of(rows, ls->nests), "dims (i0) (i1) S (j0 j1) L (j2 j3)\n"));
    ck_assert_int_eq(shape_L_total(rows), 35);
    ck_assert_int_eq(shape_S_total(rows), 6);
    const NestMapping *const columns = shape_decide(arena, map->nests, map->bufs, machine_at(2));
    ck_assert_ptr_nonnull(strstr(text_of(columns, map->nests), "dims (i0) (i1 i2)\n"));
    ck_assert_int_eq(columns->group[1].extent, 128);
}
END_TEST

/* Each bound of the machine does what it says. */
START_TEST(bounds_of_the_machine_count) {
    const Kernel *const kernel = kernel_of(steps);
    Machine m = *machine_at(1);
    const char *text = text_of(shape_decide(arena, kernel->nests, kernel->bufs, &m), kernel->nests);
    ck_assert_ptr_nonnull(strstr(text, "keep %2 phase 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "ahead %0 phase 0 near\n"));
    ck_assert_ptr_nonnull(strstr(text, "stream %5 when bytes > 16777216\n"));
    m.keep_bytes = 511, m.near_bytes = 511, m.stream_bytes = 0;
    text = text_of(shape_decide(arena, kernel->nests, kernel->bufs, &m), kernel->nests);
    ck_assert_ptr_null(strstr(text, "keep"));
    ck_assert_ptr_nonnull(strstr(text, "ahead %0 phase 0\n"));
    ck_assert_ptr_null(strstr(text, "stream"));
    m.keep_bytes = 512, m.prefetch_bytes = 511;
    text = text_of(shape_decide(arena, kernel->nests, kernel->bufs, &m), kernel->nests);
    ck_assert_ptr_nonnull(strstr(text, "keep"));
    ck_assert_ptr_null(strstr(text, "ahead"));
}
END_TEST

START_TEST(shapes_that_do_not_fit_are_refused) {
    static const struct {
        const char *kernel, *shape, *why;
    } rows[] = {
        {bias, "columns lanes 8 copies 4 dims (i0) (i1 i2)", NULL},
        {bias, "columns lanes 8 copies 2 masked dims (i0) (i1) (i2) stream %3", NULL},
        {bias, "columns lanes 16 copies 4 dims (i0) (i1 i2)", "lanes: not those of the machine"},
        {bias, "columns lanes 8 copies 3 dims (i0) (i1 i2)", "copies: not 1, 2 or 4"},
        {bias, "columns lanes 8 copies 4 dims (i0 i1 i2)", "dims, group 0: not every access walks these dims as one"},
        {bias, "columns lanes 8 copies 4 dims (i0 i1) (i2)", "dims, group 0: these dims run as loops of their own"},
        {bias, "columns lanes 8 copies 4 dims (i0) (i1)", "dims: some are in no group"},
        {bias, "columns lanes 8 copies 4 dims (i0) L (i1 i2)", "dims: some are in no group"},
        {bias, "rows lanes 8 dims (i0) (i1) (i2)", "mode: L dims run as rows, all others as columns or panels"},
        {bias, "panels lanes 8 columns 1024 rows 4 dims (i0) (i1 i2)",
         "panels: not a reduction along the rows of memory"},
        {wide, "panels lanes 8 columns 1024 rows 4 dims (i0) S (j0)", NULL},
        {wide, "panels lanes 8 columns 40 rows 1 dims (i0) S (j0)", NULL},
        {wide, "panels lanes 8 columns 36 rows 4 dims (i0) S (j0)", "panels, columns: not whole vectors"},
        {wide, "panels lanes 8 columns 2048 rows 4 dims (i0) S (j0)",
         "panels, columns: not whole vectors, 1024 columns"},
        {wide, "panels lanes 8 columns 0 rows 4 dims (i0) S (j0)", "panels, columns: not whole vectors"},
        {wide, "panels lanes 8 columns 1024 rows 5 dims (i0) S (j0)", "panels, rows: not 1 to 4"},
        {wide, "panels lanes 8 columns 1024 rows 0 dims (i0) S (j0)", "panels, rows: not 1 to 4"},
        {bias, "columns lanes 8 copies 4 dims (i0) (i1 i2) phase 0 copies 4", "phase 0: has no row"},
        {bias, "columns lanes 8 copies 4 dims (i0) (i1 i2) keep %2 phase 0", "keep %2: only rows of one known length"},
        {bias, "columns lanes 8 copies 4 dims (i0) (i1 i2) ahead %0 phase 0", "ahead %0: not a load along rows"},
        {bias, "columns lanes 8 copies 4 dims (i0) (i1 i2) shared %2", "shared %2: not a library primitive"},
        {bias, "columns lanes 8 copies 4 dims (i0) (i1 i2) stream %3 ragged", "stream: only rows begin between"},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 copies 1", NULL},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 masked keep %1 phase 0, %2 phase 0", NULL},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory", "phase 1: goes along a row, in one way"},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 registers", "phase 1: stores go in copies"},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 masked phase 2 masked", "phase 2: has no row"},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 masked keep %1 phase 0, %2 phase 1",
         NULL}, /* nobody reads it later */
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 masked keep %2 phase 0, %1 phase 1",
         "keep %1: that phase does not make it"},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 masked keep %3 phase 0",
         "keep %3: not a value of a row"},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 masked ahead %0 phase 2",
         "ahead %0: not a phase that goes along a row"},
        {steps, "rows lanes 8 dims (i0) L (j0) phase 0 memory phase 1 masked stream %6",
         "stream %6: not a store of whole vectors"},
        {sums, "rows lanes 8 index 32 dims (i0) (i1) S (j0) (j1) L (j2) (j3) phase 0 memory", NULL},
        {sums, "rows lanes 8 index 64 dims (i0) (i1) S (j0) (j1) L (j2) (j3) phase 0 memory", NULL},
        {sums, "rows lanes 8 index 16 dims (i0) (i1) S (j0) (j1) L (j2) (j3) phase 0 memory", "index: not 64 bits"},
        {sums, "rows lanes 8 dims (i0) (i1) S (j0) (j1) L (j2) (j3) phase 0 memory", "index: not 64 bits"},
        {sums, "rows lanes 8 index 32 dims (i0) (i1) S (j0 j1) L (j2 j3) phase 0 memory",
         "index: no position is taken apart"},
        {huge, "rows lanes 8 index 64 dims (i0) L (j0) (j1) phase 0 memory", NULL},
        {huge, "rows lanes 8 index 32 dims (i0) L (j0) (j1) phase 0 memory", "index: not 64 bits"},
        {sums, "rows lanes 8 dims (i0 i1) S (j0 j1) L (j2 j3) phase 0 memory", "these dims run as loops of their own"},
        {sums, "rows lanes 8 dims (i0) (i1) S (j0 j1 j2) L (j3) phase 0 memory", "dims, group 2: not the next dims"},
        {sums, "rows lanes 8 dims (i0) (i1) S (j0 j1) L (j2 j3) phase 0 memory keep %0 phase 0", "keep %0: only rows"},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        const Kernel *const kernel = kernel_of(rows[i].kernel);
        const NestMapping *const shape =
            read_shape(arena_printf(arena, "shape n { %s }", rows[i].shape), kernel->nests);
        ck_assert_msg(shape != NULL, "%s: %s", rows[i].shape, error_slot()->message);
        const Status status = shape_verify(shape, kernel->nests, kernel->bufs, machine_at(1));
        if (!rows[i].why) {
            ck_assert_msg(status == ST_OK, "%s: %s", rows[i].shape, error_slot()->message);
            continue;
        }
        ck_assert_msg(status == ST_INTERNAL, "%s is accepted", rows[i].shape);
        ck_assert_msg(strstr(error_slot()->message, rows[i].why) != NULL, "%s: %s", rows[i].shape,
                      error_slot()->message);
        error_clear();
    }
}
END_TEST

START_TEST(texts_that_are_none_are_refused) {
    static const char *const wrong[] = {
        "shape m { columns lanes 8 copies 4 dims (i0) (i1 i2) }",
        "shape n { lanes 8 }",
        "shape n { columns lanes 8 dims (i0) (i1 i2) }",
        "shape n { panels lanes 8 dims (i0) (i1 i2) }",
        "shape n { panels lanes 8 columns 1024 dims (i0) (i1 i2) }",
        "shape n { columns lanes 8 copies 4 index 32 dims (i0) (i1 i2) }",
        "shape n { columns lanes 8 copies 4 dims (i1) }",
        "shape n { columns lanes 8 copies 4 dims (i0) () }",
        "shape n { columns lanes 8 copies 4 dims (i0 i1 i2 j0) }",
        "shape n { columns lanes 8 copies 4 dims (i0) (i1 i2) phase 1 memory }",
        "shape n { columns lanes 8 copies 4 dims (i0) (i1 i2) phase 0 slow }",
        "shape n { columns lanes 8 copies 4 dims (i0) (i1 i2) stream %4 }",
        "shape n { columns lanes 8 copies 4 dims (i0) (i1 i2) keep %1 phase 0, %1 phase 0 }",
        "shape n { columns lanes 8 copies 4 dims (i0) (i1 i2) stream when bytes 7 }",
        "shape n { columns lanes 8 copies 4 dims (i0) (i1 i2)"};
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        ck_assert_msg(!read_shape(wrong[i], kernel_of(bias)->nests), "%s is read", wrong[i]);
        ck_assert_int_eq(error_pending(), ST_PARSE);
        error_clear();
    }
}
END_TEST

int main(void) {
    TCase *tests = tcase_create("shape");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, machines_print_and_parse);
    tcase_add_test(tests, random_shapes_print_and_parse);
    tcase_add_test(tests, dims_that_are_walked_as_one_are_one_loop);
    tcase_add_test(tests, bounds_of_the_machine_count);
    tcase_add_test(tests, shapes_that_do_not_fit_are_refused);
    tcase_add_test(tests, texts_that_are_none_are_refused);
    return suite_run("shape", tests);
}
