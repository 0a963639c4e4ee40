/* op_tags.c: what can be said of an op in a word, from its row. */
#include <pthread.h>

#include "ir/op.h"

typedef struct Tag {
    const char *name;
    int kind;       /* of the row; -1: a flag says it */
    uint32_t flags; /* any of them */
} Tag;

static const Tag tags[] = {{"core", -1, 0}, /* by PyTorch's list, which has overloads and two written forms */
                           {"pointwise", KIND_pointwise, 0},
                           {"reduction", KIND_reduction, 0},
                           {"view", KIND_view, 0},
                           {"kernel", KIND_kernel, 0},
                           {"decomposition", KIND_decomposition, 0},
                           {"composite", KIND_composite, 0},
                           {"random", -1, OPF_random},
                           {"checked", -1, OPF_check},
                           {"reads_values", -1, OPF_host},
                           {"never_differentiable", -1, OPF_nodiff},
                           {"maybe_copy", -1, OPF_maybe_copy},
                           {"ordered", -1, OPF_ordered}};

int op_tag_count(void) { return COUNT_OF(tags); }
const char *op_tag_name(int tag) { return tags[tag].name; }

int op_tag_find(const char *name) {
    for (int i = 0; name && i < COUNT_OF(tags); i++)
        if (!strcmp(tags[i].name, name)) return i;
    return -1;
}

static bool core[OP_COUNT][FORM_COUNT];

static void fill_core(void) {
    static const char *const names[] = {
#define CORE(name) name,
#include "ir/core_aten.def"
#undef CORE
    };
    for (int i = 0; i < COUNT_OF(names); i++) {
        OpForm form;
        const OpRow *const row = op_find(names[i], strlen(names[i]), &form);
        if (row) core[row->id][form] = true;
    }
}

static bool is_core(const OpRow *row, OpForm form) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_core);
    return row->id < OP_COUNT && core[row->id][form];
}

bool op_has_tag(const OpRow *row, OpForm form, int tag) {
    const Tag *const t = &tags[tag];
    if (!t->flags && t->kind < 0) return is_core(row, form);
    const OpRow *const worker = row->alias_of ? row->alias_of : row;
    return t->kind >= 0 ? (int)worker->kind == t->kind : ((row->flags | worker->flags) & t->flags) != 0;
}

int op_tag_members(int tag, bool of_core) {
    int n = 0;
    for (int id = 0; id < OP_COUNT; id++)
        for (int form = 0; form < FORM_COUNT; form++) {
            const OpRow *const row = op_row((OpId)id);
            const bool listed = is_core(row, (OpForm)form);
            if (row->flags & OPF_internal || (!listed && (of_core || form != FORM_functional))) continue;
            n += op_has_tag(row, (OpForm)form, tag);
        }
    return n;
}
