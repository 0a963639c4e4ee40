/* dims.c: groups of dims as text, and what they may be: the part of a record that every kind of machine has. */
#include "codegen/shape/parts.h"
#include "runtime/base/error.h"

static int first_of_l(const DimGroups *dims) { return dims->n_outer + dims->n_s; }

void dims_print(const DimGroups *dims, const Nest *nest, Text *text) {
    if (!dims->n) return;
    text_puts(text, "  dims");
    for (int g = 0; g < dims->n; g++) {
        const DimGroup *const group = &dims->group[g];
        if (g == dims->n_outer && dims->n_s) text_puts(text, " S");
        if (g == first_of_l(dims)) text_puts(text, " L");
        for (int d = group->first; d < group->first + group->n; d++) {
            const bool outer = d < nest->n_outer;
            text_printf(text, "%s%c%d", d == group->first ? " (" : " ", outer ? 'i' : 'j',
                        outer ? d : d - nest->n_outer);
        }
        text_puts(text, ")");
    }
    text_puts(text, "\n");
}

/* reading --------------------------------------------------------------------------------------- */

static Status read_dim(TextReader *in, const Nest *nest, int d) {
    const bool outer = d < nest->n_outer;
    const char name[] = {outer ? 'i' : 'j', '\0'};
    int number;
    reader_skip(in);
    if (d >= nest->n_outer + nest->n_inner || *in->at != name[0]) return reader_expected(in, "the next dim");
    in->at++;
    TRY(reader_count(in, &number));
    return number == (outer ? d : d - nest->n_outer) ? ST_OK : reader_expected(in, "the next dim before this");
}

static bool begins_group(TextReader *in) {
    reader_skip(in);
    return *in->at == '(';
}

static Status read_groups(TextReader *in, const Nest *nest, DimGroup *group, int *n_groups) {
    while (begins_group(in)) {
        int first = 0, n = 0;
        for (int g = 0; g < *n_groups; g++) first += group[g].n;
        EAT(in, "(");
        do TRY(read_dim(in, nest, first + n++));
        while (!reader_eat(in, ")"));
        group[(*n_groups)++] = group_of(nest, first, n);
    }
    return ST_OK;
}

Status dims_parse(TextReader *in, const Nest *nest, DimGroup *group, DimGroups *out) {
    *out = (DimGroups){.group = group};
    if (!reader_eat(in, "dims")) return ST_OK;
    TRY(read_groups(in, nest, group, &out->n));
    out->n_outer = out->n;
    if (reader_eat(in, "S")) TRY(read_groups(in, nest, group, &out->n));
    out->n_s = out->n - out->n_outer;
    return reader_eat(in, "L") ? read_groups(in, nest, group, &out->n) : ST_OK;
}

/* checking -------------------------------------------------------------------------------------- */

static Status refuse_group(const Nest *nest, int group, const char *why) {
    const char *const name = nest->name ? nest->name : "?";
    return group < 0 ? error_raise(ST_INTERNAL, "shape of %s: dims: %s", name, why)
                     : error_raise(ST_INTERNAL, "shape of %s: dims, group %d: %s", name, group, why);
}

static bool walked_as_one(const Nest *nest, const DimGroup *group) {
    for (int n = 1; n < group->n; n++) {
        const DimGroup inside = group_of(nest, group->first + group->n - n, n);
        if (!group_may_add(nest, inside.first - 1, &inside)) return false;
    }
    return true;
}

/* Groups g..end-1 cover dims first..last-1; `merges`: the first group that may hold several. */
static Status check_groups(const DimGroups *dims, const Nest *nest, int g, int end, int first, int last, int merges) {
    for (; g < end; g++) {
        const DimGroup *const group = &dims->group[g];
        if (group->n <= 0 || group->first != first || first + group->n > last)
            return refuse_group(nest, g, "not the next dims");
        if (group->n > 1 && g < merges) return refuse_group(nest, g, "these dims run as loops of their own");
        const DimGroup whole = group_of(nest, first, group->n);
        if (group->coef != whole.coef || group->extent != whole.extent) return refuse_group(nest, g, "another extent");
        if (!walked_as_one(nest, group)) return refuse_group(nest, g, "not every access walks these dims as one");
        first += group->n;
    }
    return first == last ? ST_OK : refuse_group(nest, -1, "some are in no group");
}

Status dims_verify(const DimGroups *dims, const Nest *nest, int merges) {
    const int outer = nest->n_outer, s_end = outer + nest->n_s, end = outer + nest->n_inner, l = first_of_l(dims);
    if (dims->n > MAX_LOOP_DIMS || dims->n_outer < 0 || dims->n_s < 0 || l > dims->n)
        return refuse_group(nest, -1, "more groups than there are");
    TRY(check_groups(dims, nest, 0, dims->n_outer, 0, outer, merges));
    TRY(check_groups(dims, nest, dims->n_outer, l, outer, s_end, 0));
    return check_groups(dims, nest, l, dims->n, s_end, end, 0);
}
