/* op_near.c: what somebody may have meant by a name that no op has: an op of ATen that waits for something, the
 * overloads of a base name, else names that a few letters make of it. */
#include <stdio.h>

#include "ir/op.h"
#include "runtime/base/near.h"

enum { MAX_NEAR = 8 };

/* "aten::" goes without saying. */
static const char *short_name(const char *name) { return strncmp(name, "aten::", 6) ? name : name + 6; }

/* How far a form's name is from the one that was given: from its base name where that has no overload, so that
 * "softmx" finds softmax.int. 0: it is an overload of it. */
static int far_from(const OpRow *row, OpForm form, const char *given) {
    const char *const name = short_name(op_form_name(row, form));
    return near_distance(given, name, strchr(given, '.') ? strlen(name) : strcspn(name, "."));
}

static const struct {
    const char *name, *what; /* base names */
} waiting[] = {{"_fft_r2c", "complex dtypes"}, {"_fft_c2r", "complex dtypes"}, {"_fft_c2c", "complex dtypes"}};

const char *op_waits_for(const char *name, size_t n) {
    char given[NEAR_NAME];
    if (n >= sizeof given) return NULL;
    snprintf(given, sizeof given, "%.*s", (int)n, name);
    const char *const base = short_name(given);
    for (int i = 0; i < COUNT_OF(waiting); i++)
        if (strcspn(base, ".") == strlen(waiting[i].name) && !strncmp(base, waiting[i].name, strlen(waiting[i].name)))
            return waiting[i].what;
    return NULL;
}

static void near_names(Text *text, const char *name) {
    const char *const wanted = short_name(name);
    const int most = near_most(wanted);
    int listed = 0;
    for (int far = 0; far <= most && !listed; far++)
        for (int id = 0; id < op_row_count() && listed < MAX_NEAR; id++)
            for (int form = FORM_functional; form <= FORM_inplace && listed < MAX_NEAR; form++) {
                const OpRow *const row = op_row_at(id);
                if (row->flags & OPF_internal || (form == FORM_inplace && !row->inplace)) continue;
                if (far_from(row, (OpForm)form, wanted) != far) continue;
                text_printf(text, "%s%s", listed++ ? ", " : "; there is ", short_name(op_form_name(row, (OpForm)form)));
            }
}

void op_unknown_hint(Text *text, const char *name, size_t n) {
    char given[NEAR_NAME];
    if (n >= sizeof given) return;
    snprintf(given, sizeof given, "%.*s", (int)n, name);
    const char *const awaited = op_waits_for(given, n);
    if (awaited)
        text_printf(text, "; it waits for %s", awaited);
    else
        near_names(text, given);
}
