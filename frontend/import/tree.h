/* tree.h: how a program's arguments and results are nested, as the file says it (a text of JSON: "[1, {type, context,
 * children_spec}]"): the name of each leaf, in order. */
#ifndef SINTER_IMPORT_TREE_H
#define SINTER_IMPORT_TREE_H
#include "runtime/base/json.h"

typedef struct TreeNames {
    Arena *arena;
    const Json *fields; /* of namedtuples: {"b.P": {"field_names": ["a", "b"]}}; NULL: none */
    VEC(const char *) leaves;
} TreeNames;

/* Results: keys and fields by name, all else by number: "last_hidden_state", "z.1", "0". */
Status tree_results(TreeNames *names, const char *spec);
/* Arguments as guards name them: "L['lst'][0]"; forward: the names of the positional ones. */
Status tree_arguments(TreeNames *names, const char *spec, const Json *forward);

#endif
