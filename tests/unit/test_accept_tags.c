/* test_accept_tags.c: what ops say of themselves in words: PyTorch's tags, as recorded (oracle/torch_tags.py), and the
 * kinds of rows. */
#include <stdio.h>

#include "ir/op.h"
#include "tests/unit/contract.h"

static sn_status own_op(sn_frame *f) { return sn_out(f, 0, sn_neg(sn_in(f, 0))); }

START_TEST(a2_13_tags_can_be_asked_for) {
    ck_assert_str_eq(sn_op_tags(sn_op_find("aten::mul.Tensor")), "core, pointwise");
    ck_assert(sn_op_has_tag(sn_op_find("aten::mul.Scalar"), "pointwise"));
    ck_assert(sn_op_has_tag(sn_op_find("aten::sum.dim_IntList"), "reduction"));
    ck_assert(!sn_op_has_tag(sn_op_find("aten::sum.dim_IntList"), "pointwise"));
    ck_assert(sn_op_has_tag(sn_op_find("aten::linear"), "composite"));
    ck_assert(!sn_op_has_tag(sn_op_find("aten::linear"), "core"));
    ck_assert(sn_op_has_tag(sn_op_find("aten::rand_like"), "random"));
    ck_assert(sn_op_has_tag(sn_op_find("aten::resize_"), "core"));
    ck_assert(sn_op_has_tag(sn_op_find("aten::transpose.int"), "view"));
    ck_assert_str_eq(sn_op_tags(sn_op_find("aten::cat")), "core"); /* made element by element, but no tag says it */
    ck_assert_str_eq(sn_op_kind(sn_op_find("aten::cat")), "pointwise");
    ck_assert_str_eq(sn_op_kind(sn_op_find("aten::mul.Scalar")), "pointwise"); /* as the row that serves it */
    ck_assert_str_eq(sn_op_kind(sn_op_find("aten::selu")), "composite");
    ck_assert_str_eq(sn_op_tags(sn_op_find("aten::selu")), "pointwise, composite");
    ck_assert_str_eq(sn_op_kind(NULL), "");
    expect_error(SN_ERR_ARGUMENT, "sn_op_kind: the op is NULL");
    int listed = 0;
    for (const char *at = sn_op_list(); (at = strstr(at, "\"kind\": \"view\"")); at++) listed++;
    ck_assert_int_gt(listed, 0);
    const int ordered = sn_op_tag_count("ordered");
    const sn_op *const own = sn_op_register(
        SN_OP_DESC(.schema = "tags::own(Tensor x) -> Tensor", .flags = SN_OP_ORDERED, .meta = own_op, .cpu = own_op));
    ck_assert_str_eq(sn_op_tags(own), "kernel, ordered");
    ck_assert_int_eq(sn_op_tag_count("ordered"), ordered + 1);
    ck_assert(!sn_op_has_tag(own, "fast"));
    expect_error(SN_ERR_ARGUMENT, "there is no tag 'fast'; tags: core, pointwise, ");
    ck_assert_int_eq(sn_op_tag_count(NULL), 0);
    expect_error(SN_ERR_ARGUMENT, "there is no tag 'NULL'");
}
END_TEST

/* PyTorch's tags by oracle/aten_tags.txt, "aten::abs core pointwise": of each overload that the table has, in each of
 * its forms, and of no other; how many there are is counted alike. */
typedef struct TagList {
    char text[1 << 16];
    int core, pointwise, missing; /* overloads of ours that have it; core ones that the table lacks */
} TagList;

static void read_tags(TagList *list) {
    FILE *const file = fopen(SINTER_ORACLE "/aten_tags.txt", "r");
    ck_assert_ptr_nonnull(file);
    const size_t n = fread(list->text, 1, sizeof list->text - 1, file);
    fclose(file);
    ck_assert_uint_gt(n, 1000);
    ck_assert_uint_lt(n, sizeof list->text - 1);
}

/* In a line's words behind the name. */
static bool list_has(const TagList *list, const char *name, const char *tag) {
    char line[128];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *const at = strstr(list->text, line);
    const char *const end = at ? strchr(at + 1, '\n') : NULL;
    const char *const word = at ? strstr(at, tag) : NULL;
    return word && word < end;
}

static void same_tags(TagList *list, const OpRow *row, OpForm form) {
    const char *const name = op_form_name(row, form);
    const bool core = list_has(list, name, " core"), pointwise = list_has(list, name, " pointwise");
    ck_assert_msg(sn_op_has_tag(sn_op_find(name), "core") == core, "%s is%s core", name, core ? "" : " not");
    ck_assert_msg(sn_op_has_tag(sn_op_find(name), "pointwise") == pointwise, "%s is%s pointwise", name,
                  pointwise ? "" : " not");
    list->core += core;
    list->pointwise += pointwise && (form == FORM_functional || core);
}

START_TEST(a2_13_tags_are_those_that_pytorch_gives) {
    static TagList list;
    read_tags(&list);
    for (int id = 0; id < op_row_count(); id++)
        for (OpForm form = FORM_functional; form < FORM_COUNT; form++) {
            const OpRow *const row = op_row_at(id);
            const bool exists = form == FORM_functional || (form == FORM_out ? row->out != NULL : row->inplace);
            if (exists && !(row->flags & OPF_internal)) same_tags(&list, row, form);
        }
    ck_assert_int_eq(sn_op_tag_count("core"), list.core);
    ck_assert_int_eq(sn_op_tag_count("pointwise"), list.pointwise);
    for (const char *at = list.text; (at = strchr(at, '\n')) && at[1]; at++) {
        char name[64];
        if (sscanf(at + 1, "%63s core", name) != 1 || !list_has(&list, name, " core") || sn_op_find(name)) continue;
        const sn_error *const e = sn_error_take();
        ck_assert_msg(strstr(e->message, "; it waits for complex dtypes") != NULL, "%s", e->message);
        list.missing++;
    }
    ck_assert_int_eq(list.missing, 2); /* _fft_r2c and _fft_c2r */
    int core = 0;
    sscanf(list.text, "# Tags of ATen's overloads: torch 2.15.0, torch.Tag.core (%d)", &core);
    ck_assert_int_eq(core, list.core + list.missing);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a2_13_tags_can_be_asked_for,
        a2_13_tags_are_those_that_pytorch_gives,
    };
    return contract_main("test_accept_tags", tests, (int)(sizeof tests / sizeof *tests));
}
