/* ops_core.c: `sinter ops --core`: which core ATen overloads the op table has, as rows, aliases or forms of rows, and
 * what those that it has not wait for; which rows say `core` of themselves without being in that list, or the other way
 * round. */
#include <stdio.h>

#include "frontend/tool/ops.h"
#include "ir/op.h"

static const char *const core_names[] = {
#define CORE(name) name,
#define POINTWISE(name)
#include "ir/aten_tags.def"
#undef CORE
#undef POINTWISE
};

static const OpRow *core_row(const char *name, OpForm *form) { return op_find(name, strlen(name), form); }

static bool is_core(const OpRow *row) {
    for (int i = 0; i < COUNT_OF(core_names); i++) {
        OpForm form;
        if (core_row(core_names[i], &form) == row && form == FORM_functional) return true;
    }
    return false;
}

/* Rows whose flag `core` disagrees with the list; of an alias the row that does the work has the flag. */
static void list_misflagged(Text *text, bool json, int *n) {
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        if (row->alias_of || is_core(row) == ((row->flags & OPF_core) != 0)) continue;
        text_printf(text, json ? "%s\"%s\"" : "%s%s", *n ? ", " : "", row->name);
        ++*n;
    }
}

static void list_missing(Text *text, bool json, int *n) {
    for (int i = 0; i < COUNT_OF(core_names); i++) {
        OpForm form;
        if (core_row(core_names[i], &form)) continue;
        const char *const awaited = op_waits_for(core_names[i], strlen(core_names[i]));
        text_printf(text, json ? "%s\"%s\"" : "%s%s", *n ? ", " : "", core_names[i]);
        if (awaited && !json) text_printf(text, " (waits for %s)", awaited);
        ++*n;
    }
}

void ops_print_core(bool json) {
    Text missing = {0}, misflagged = {0};
    int n_missing = 0, n_misflagged = 0;
    list_missing(&missing, json, &n_missing);
    list_misflagged(&misflagged, json, &n_misflagged);
    const int all = COUNT_OF(core_names), present = all - n_missing;
    if (json) {
        printf("{\"core\": %d, \"present\": %d, \"missing\": [%s], \"misflagged\": [%s]}\n", all, present,
               text_str(&missing), text_str(&misflagged));
    } else {
        if (n_missing) printf("missing: %s\n", text_str(&missing));
        if (n_misflagged) printf("flag and list disagree: %s\n", text_str(&misflagged));
        printf("%d of %d core ATen overloads\n", present, all);
    }
    text_free(&missing);
    text_free(&misflagged);
}
