/* ops.c: `sinter ops`: the op table as text or JSON: every overload with its schema, kind, flags and
 * rules, so that gaps show; other languages' bindings are generated from the JSON.
 *   [{"name": "aten::add.Tensor", "schema": "...", "kind": "pointwise", "meta": "pointwise2",
 *     "body": "add", "derivative": "add", "saves": "", "samples": "...", "flags": ["core"],
 *     "autocast": "none", "autocast_cpu_list": "none", "inplace": true, "out": "out", "c": "add", "short": 2,
 *     "doc": "...", "alias_of": null}, ...]
 * A rule that a row does without is null; an alias has none of its own. --autocast lists rows by policy,
 * --decompositions those that are other ops put together. */
#include "ir/op.h"

#include <stdio.h>

#include "frontend/tool/ops.h"
#include "frontend/tool/arguments.h"

static void json_string(Text *text, const char *key, const char *value) {
    text_printf(text, "\"%s\": ", key);
    if (value)
        text_json_string(text, value);
    else
        text_puts(text, "null");
    text_puts(text, ", ");
}

static const struct {
    uint32_t bit;
    const char *name;
} flag_names[] = {
    {OPF_core, "core"}, {OPF_random, "random"},     {OPF_check, "check"},     {OPF_nodiff, "nodiff"},
    {OPF_host, "host"}, {OPF_internal, "internal"}, {OPF_ordered, "ordered"}, {OPF_maybe_copy, "maybe_copy"}};

/* A rule's word, or NULL where the row does without. */
static const char *rule_of(const OpRow *row, const char *word) {
    return row->alias_of || !word || !strcmp(word, "none") ? NULL : word;
}

static void json_flags(Text *text, const OpRow *row) {
    int n = 0;
    text_puts(text, "\"flags\": [");
    for (int i = 0; i < COUNT_OF(flag_names); i++)
        if (row->flags & flag_names[i].bit) text_printf(text, "%s\"%s\"", n++ ? ", " : "", flag_names[i].name);
    if (row->role == ROLE_bits) text_printf(text, "%s\"bits\"", n ? ", " : "");
    text_puts(text, "], ");
}

static void json_row(Text *text, const OpRow *row) {
    text_puts(text, "{");
    json_string(text, "name", row->name);
    json_string(text, "schema", row->schema);
    json_string(text, "kind", op_kind_name(row->kind));
    json_string(text, "meta", row->meta_rule);
    json_string(text, "body", rule_of(row, row->body));
    json_string(text, "derivative", rule_of(row, row->derivative));
    json_string(text, "saves", rule_of(row, row->saves));
    json_string(text, "samples", rule_of(row, row->samples));
    json_flags(text, row);
    json_string(text, "autocast", cast_policy_name(row->autocast));
    json_string(text, "autocast_cpu_list", cast_policy_name(row->autocast_list));
    json_string(text, "out", row->out);
    json_string(text, "c", row->c.name);
    json_string(text, "doc", row->doc);
    json_string(text, "alias_of", row->alias_of ? row->alias_of->name : NULL);
    text_printf(text, "\"short\": %d, \"inplace\": %s}", row->c.shown, row->inplace ? "true" : "false");
}

static void text_rules(Text *text, const OpRow *row) {
    const char *const derivative = rule_of(row, row->derivative), *const body = rule_of(row, row->body);
    const char *const saves = rule_of(row, row->saves);
    text_printf(text, "    meta %s", row->meta_rule);
    if (body) text_printf(text, ", body %s", body);
    text_printf(text, ", derivative %s", derivative ? derivative : row->flags & OPF_nodiff ? "never" : "none");
    if (derivative && saves && *saves) text_printf(text, " (saves %s)", saves);
    for (int i = 0; i < COUNT_OF(flag_names); i++)
        if (row->flags & flag_names[i].bit) text_printf(text, ", %s", flag_names[i].name);
    text_puts(text, "\n");
}

static void text_row(Text *text, const OpRow *row) {
    text_printf(text, "%s\n    %s%s%s%s%s\n", row->schema, row->alias_of ? "alias of " : op_kind_name(row->kind),
                row->alias_of ? row->alias_of->name : "", row->inplace ? ", in place too" : "",
                row->out ? ", out form " : "", row->out ? row->out : "");
    if (!row->alias_of) text_rules(text, row);
    if (row->doc) text_printf(text, "    %s\n", row->doc);
}

/* How many overloads have each tag, and how many of those are core; of PyTorch's tags, how many overloads it has with
 * them and how many of those, in all their forms, are here. */
static void print_tag(int tag, bool json) {
    int present;
    const int all = op_tag_listed(tag, &present);
    printf(json ? "\"%s\": {\"ops\": %d, \"core\": %d" : "%-20s %4d ops, %3d of them core", op_tag_name(tag),
           op_tag_members(tag, false), op_tag_members(tag, true));
    if (all) printf(json ? ", \"present\": %d, \"listed\": %d" : "; %d of the %d that PyTorch tags", present, all);
    printf(json ? "}" : "\n");
}

static void print_tags(bool json) {
    if (json) printf("{");
    for (int tag = 0; tag < op_tag_count(); tag++) {
        if (json && tag) printf(", ");
        print_tag(tag, json);
    }
    if (json) printf("}\n");
}

static bool is_named(const OpRow *row, const char *name) {
    return !name || !strcmp(row->base, name) || !strcmp(row->name, name) ||
           (!strncmp(row->name, "aten::", 6) && !strcmp(row->name + 6, name));
}

/* By policy; a star where PyTorch's own list for the CPU has another one. */
static void text_autocast(Text *text) {
    for (CastPolicy policy = CAST_lower; policy <= CAST_promote; policy++) {
        text_printf(text, "%s\n", cast_policy_name(policy));
        for (int id = 0; id < op_row_count(); id++) {
            const OpRow *const row = op_row_at(id);
            if (row->autocast != policy) continue;
            const bool same = row->autocast_list == policy;
            text_printf(text, same ? "    %s\n" : "  * %-36s %s\n", row->name, cast_policy_name(row->autocast_list));
        }
    }
    text_puts(text, "none: all others, of which PyTorch's list for the CPU has\n");
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        if (row->autocast == CAST_none && row->autocast_list != CAST_none)
            text_printf(text, "  * %-36s %s\n", row->name, cast_policy_name(row->autocast_list));
    }
}

static void json_autocast(Text *text) {
    bool first = true;
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        if (row->autocast == CAST_none && row->autocast_list == CAST_none) continue;
        text_printf(text, "%s{\"name\": \"%s\", \"autocast\": \"%s\", \"autocast_cpu_list\": \"%s\"}",
                    first ? "[" : ",\n ", row->name, cast_policy_name(row->autocast),
                    cast_policy_name(row->autocast_list));
        first = false;
    }
    text_puts(text, "]\n");
}

static int print_autocast(bool json) {
    Text text = {0};
    (json ? json_autocast : text_autocast)(&text);
    fputs(text_str(&text), stdout);
    text_free(&text);
    return EXIT_done;
}

/* Rows that are other ops put together, with the rule's word: as they go through autograd, and above it. */
static int print_decompositions(bool json) {
    static const OpKind split[] = {KIND_decomposition, KIND_composite};
    static const char *const says[] = {"decomposition: one op to programs and autograd, lowered as its parts",
                                       "composite: its parts before autograd sees it"};
    if (json) printf("[");
    for (int k = 0, n = 0; k < COUNT_OF(split); k++) {
        if (!json) printf("%s\n", says[k]);
        for (int id = 0; id < op_row_count(); id++) {
            const OpRow *const row = op_row_at(id);
            if (row->kind != split[k] || row->alias_of || row->flags & OPF_internal) continue;
            printf(json ? "%s{\"name\": \"%s\", \"kind\": \"%s\", \"rule\": \"%s\"}" : "%s    %-52s %s%s\n",
                   json && n ? ",\n " : "", row->name, json ? op_kind_name(row->kind) : row->body,
                   json ? row->body : "");
            n++;
        }
    }
    if (json) printf("]\n");
    return EXIT_done;
}

/* What is of the whole table. */
static const char *const whole_options[] = {"core", "autocast", "tags", "decompositions"};

static bool whole_argument(const CommandLine *a, const char **whole) {
    for (int i = 0; i < COUNT_OF(whole_options) && !*whole; i++)
        if (argument_is(a, whole_options[i])) return (*whole = whole_options[i]) != NULL;
    return false;
}

static int print_whole(const char *what, bool json) {
    if (!strcmp(what, "autocast")) return print_autocast(json);
    if (!strcmp(what, "decompositions")) return print_decompositions(json);
    if (!strcmp(what, "core"))
        ops_print_core(json);
    else
        print_tags(json);
    return EXIT_done;
}

static int no_such_op(const char *name) {
    Text near = {0};
    op_unknown_hint(&near, name, strlen(name));
    fprintf(stderr, "sinter ops: no op is named '%s'%s\n", name, text_str(&near));
    text_free(&near);
    return EXIT_wrong;
}

static int print_rows(const char *name, bool json) {
    Text text = {0};
    int shown = 0;
    if (json) text_puts(&text, "[");
    for (int id = 0; id < op_row_count(); id++) {
        const OpRow *const row = op_row_at(id);
        if (!is_named(row, name)) continue;
        if (json) text_puts(&text, shown ? ",\n " : "");
        (json ? json_row : text_row)(&text, row);
        shown++;
    }
    if (json) text_puts(&text, "]\n");
    fputs(text_str(&text), stdout);
    text_free(&text);
    return name && !shown ? no_such_op(name) : EXIT_done;
}

int command_ops(const Command *self, int argc, char **argv) {
    bool json = false;
    const char *name = NULL, *whole = NULL;
    CommandLine a = arguments_begin(self, argc, argv);
    while (arguments_next(&a))
        if (!(argument_flag(&a, "json", &json) || whole_argument(&a, &whole) || argument_name(&a, &name)))
            arguments_refuse(&a, "unexpected");
    if (a.ended) return a.code;
    if (whole && name) return usage_error(self, "this option is about the whole table, not about", name);
    return whole ? print_whole(whole, json) : print_rows(name, json);
}
