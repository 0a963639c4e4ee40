/* op_tags.c: what can be said of an op in a word. `core` and `pointwise` are PyTorch's tags, overload by overload, as
 * recorded; the other words are the row's kind and flags. A pointwise row is no matter of the tag: cat and arange are
 * made element by element and PyTorch's pointwise leaves them out. */
#include <pthread.h>

#include "ir/op.h"

typedef enum Recorded { RECORDED_none, RECORDED_core = 1, RECORDED_pointwise = 2 } Recorded;

typedef struct Tag {
    const char *name;
    Recorded recorded; /* PyTorch's list says it */
    int kind;          /* of the row; -1: a flag says it */
    uint32_t flags;    /* any of them */
} Tag;

static const Tag tags[] = {{"core", RECORDED_core, -1, 0},
                           {"pointwise", RECORDED_pointwise, -1, 0},
                           {"reduction", RECORDED_none, KIND_reduction, 0},
                           {"view", RECORDED_none, KIND_view, 0},
                           {"kernel", RECORDED_none, KIND_kernel, 0},
                           {"decomposition", RECORDED_none, KIND_decomposition, 0},
                           {"composite", RECORDED_none, KIND_composite, 0},
                           {"random", RECORDED_none, -1, OPF_random},
                           {"checked", RECORDED_none, -1, OPF_check},
                           {"reads_values", RECORDED_none, -1, OPF_host},
                           {"never_differentiable", RECORDED_none, -1, OPF_nodiff},
                           {"maybe_copy", RECORDED_none, -1, OPF_maybe_copy},
                           {"ordered", RECORDED_none, -1, OPF_ordered}};

static const struct {
    const char *name;
    Recorded tag;
} listed[] = {
#define CORE(name)      {name, RECORDED_core},
#define POINTWISE(name) {name, RECORDED_pointwise},
#include "ir/aten_tags.def"
#undef CORE
#undef POINTWISE
};

const char *op_kind_name(OpKind kind) {
    static const char *const words[] = {
        [KIND_pointwise] = "pointwise", [KIND_reduction] = "reduction",         [KIND_view] = "view",
        [KIND_kernel] = "kernel",       [KIND_decomposition] = "decomposition", [KIND_composite] = "composite",
        [KIND_number] = "number"};
    return words[kind];
}

int op_tag_count(void) { return COUNT_OF(tags); }
const char *op_tag_name(int tag) { return tags[tag].name; }

int op_tag_find(const char *name) {
    for (int i = 0; name && i < COUNT_OF(tags); i++)
        if (!strcmp(tags[i].name, name)) return i;
    return -1;
}

static uint8_t recorded[OP_IDS][FORM_COUNT]; /* bits of Recorded */

static const OpRow *listed_row(int i, OpForm *form) {
    const OpRow *const row = op_find(listed[i].name, strlen(listed[i].name), form);
    return row && !op_is_made(row) ? row : NULL;
}

static void fill_recorded(void) {
    for (int i = 0; i < COUNT_OF(listed); i++) {
        OpForm form;
        const OpRow *const row = listed_row(i, &form);
        if (row) recorded[row->id][form] |= (uint8_t)listed[i].tag;
    }
}

static bool is_recorded(const OpRow *row, OpForm form, Recorded tag) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_recorded);
    return !op_is_made(row) && recorded[row->id][form] & tag;
}

bool op_has_tag(const OpRow *row, OpForm form, int tag) {
    const Tag *const t = &tags[tag];
    if (t->recorded)
        return is_recorded(row, form, t->recorded) || (row->expression && t->recorded & RECORDED_pointwise);
    const OpRow *const worker = row->alias_of ? row->alias_of : row;
    return t->kind >= 0 ? (int)worker->kind == t->kind : ((row->flags | worker->flags) & t->flags) != 0;
}

int op_tag_members(int tag, bool of_core) {
    int n = 0;
    for (int id = 0; id < op_row_count(); id++)
        for (int form = 0; form < FORM_COUNT; form++) {
            const OpRow *const row = op_row_at(id);
            const bool core = is_recorded(row, (OpForm)form, RECORDED_core);
            if (row->flags & OPF_internal || (!core && (of_core || form != FORM_functional))) continue;
            n += op_has_tag(row, (OpForm)form, tag);
        }
    return n;
}

int op_tag_listed(int tag, int *present) {
    int n = 0;
    *present = 0;
    for (int i = 0; i < COUNT_OF(listed); i++) {
        OpForm form;
        if (listed[i].tag != tags[tag].recorded) continue;
        n++;
        *present += listed_row(i, &form) != NULL;
    }
    return n;
}
