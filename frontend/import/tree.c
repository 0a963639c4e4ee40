/* tree.c: see tree.h. */
#include "frontend/import/tree.h"

#include "runtime/base/error.h"

typedef struct TreeWalk {
    TreeNames *names;
    bool python; /* "['q']" and "[0]", not ".q" and ".0" */
    int depth;
} TreeWalk;

enum { MOST_TREE_DEPTH = 32 };

static Status tree_wrong(const char *what) { return error_raise(ST_PARSE, "a tree of arguments or results: %s", what); }

/* Strings, or ints: a dict may have both. */
static bool are_keys(const Json *list, int n) {
    bool all = list && list->kind == JSON_list && list->n == n;
    for (int i = 0; all && i < n; i++) all = list->items[i].kind == JSON_string || list->items[i].is_int;
    return all;
}

/* The names of its children: a dict's keys, which its context is (of a default dict a part of that); the fields of a
 * registered class, which lead its context; NULL: they have numbers. */
static const Json *keys_of(const TreeNames *names, const Json *node, const Json *context, int n) {
    const char *const type = json_string(json_get(node, "context"));
    const Json *const fields = type ? json_get(json_get(names->fields, type), "field_names") : NULL;
    const Json *const inner = json_get(context, "dict_context");
    if (!n) return NULL;
    if (are_keys(fields, n)) return fields;
    if (are_keys(inner, n)) return inner;
    if (are_keys(context, n)) return context;
    return context && context->kind == JSON_list && context->n && are_keys(&context->items[0], n) ? &context->items[0]
                                                                                                  : NULL;
}

/* A context is a text of JSON, JSON itself, or, of a namedtuple, its name. */
static const Json *context_of(Arena *arena, const Json *node) {
    const Json *const said = json_get(node, "context"), *parsed = NULL;
    const char *const text = json_string(said);
    if (!text) return said;
    if (*text != '[' && *text != '{') return NULL;
    return json_parse(arena, text, strlen(text), &parsed) == ST_OK ? parsed : NULL;
}

static bool is_field_type(const char *type) {
    return type && strncmp(type, "builtins.", 9) && !strstr(type, "Dict") && !strstr(type, "dict");
}

/* key: NULL: it has the number i. */
static const char *child_name(const TreeWalk *w, const char *type, const char *path, const Json *key, int i) {
    Arena *const arena = w->names->arena;
    const char *const word = key ? key->string : NULL;
    const long long number = key ? (long long)key->i : i;
    if (!w->python)
        return word ? arena_printf(arena, "%s%s%s", path, *path ? "." : "", word)
                    : arena_printf(arena, "%s%s%lld", path, *path ? "." : "", number);
    if (word && is_field_type(type)) return arena_printf(arena, "%s.%s", path, word);
    return word ? arena_printf(arena, "%s['%s']", path, word) : arena_printf(arena, "%s[%lld]", path, number);
}

static Status walk(TreeWalk *w, const Json *node, const char *path) {
    const Json *const children = json_get(node, "children_spec"), *const type = json_get(node, "type");
    if (!type || !children || children->kind != JSON_list) return tree_wrong("a node has no type or no children");
    if (type->kind == JSON_null) {
        VEC_PUSH(w->names->arena, &w->names->leaves, path);
        return error_pending();
    }
    if (++w->depth > MOST_TREE_DEPTH) return tree_wrong("it is too deep");
    const Json *const context = context_of(w->names->arena, node);
    TRY(error_pending());
    const Json *const keys = keys_of(w->names, node, context, children->n);
    for (int i = 0; i < children->n; i++) {
        const char *const name = child_name(w, json_string(type), path, keys ? &keys->items[i] : NULL, i);
        if (!name) return ST_MEMORY;
        TRY(walk(w, &children->items[i], name));
    }
    w->depth--;
    return ST_OK;
}

static Status root_of(TreeNames *names, const char *spec, const Json **out) {
    const Json *both;
    if (!spec) return tree_wrong("it is missing");
    TRY(json_parse(names->arena, spec, strlen(spec), &both));
    if (both->kind != JSON_list || both->n != 2) return tree_wrong("no version and root");
    if (!both->items[0].is_int || both->items[0].i != 1)
        return error_raise(ST_UNSUPPORTED, "trees of arguments are of version 1, not of this file's");
    *out = &both->items[1];
    return ST_OK;
}

Status tree_results(TreeNames *names, const char *spec) {
    const Json *root;
    TRY(root_of(names, spec, &root));
    const Json *const type = json_get(root, "type");
    return walk(&(TreeWalk){.names = names}, root, type && type->kind == JSON_null ? "0" : "");
}

static Status walk_positional(TreeWalk *w, const Json *args, const Json *forward) {
    const Json *const children = json_get(args, "children_spec");
    if (!children || children->kind != JSON_list) return tree_wrong("no arguments");
    for (int i = 0; i < children->n; i++) {
        const char *const name = forward && i < forward->n ? json_string(&forward->items[i]) : NULL;
        const char *const path =
            name ? arena_printf(w->names->arena, "L['%s']", name) : arena_printf(w->names->arena, "L[%d]", i);
        if (!path) return ST_MEMORY;
        TRY(walk(w, &children->items[i], path));
    }
    return ST_OK;
}

Status tree_arguments(TreeNames *names, const char *spec, const Json *forward) {
    const Json *root;
    TreeWalk w = {.names = names, .python = true};
    TRY(root_of(names, spec, &root));
    const Json *const both = json_get(root, "children_spec");
    if (!both || both->kind != JSON_list || both->n != 2) return tree_wrong("arguments are a tuple and a dict");
    TRY(walk_positional(&w, &both->items[0], forward && forward->kind == JSON_list ? forward : NULL));
    return walk(&w, &both->items[1], "L");
}
