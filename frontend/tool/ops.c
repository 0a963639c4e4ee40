/* ops.c: `sinter ops`: the op table as text or JSON; other languages' bindings are generated from
 * the JSON.
 *   [{"name": "aten::add.Tensor", "schema": "...", "kind": "pointwise", "inplace": true, "out":
 * "out", "c": "add", "short": 2, "derivative": "add", "core": true, "doc": "...", "alias_of":
 * null}, ...] */
#include "ir/op.h"

#include <stdio.h>

#include "frontend/tool/tool.h"

static const char *const kinds[] = {"pointwise", "reduction",     "view",
                                    "kernel",    "decomposition", "composite"};

static void json_string(Text *text, const char *key, const char *value) {
    text_printf(text, "\"%s\": ", key);
    if (value)
        text_json_string(text, value);
    else
        text_puts(text, "null");
    text_puts(text, ", ");
}

static void json_row(Text *text, const OpRow *row) {
    text_puts(text, "{");
    json_string(text, "name", row->name);
    json_string(text, "schema", row->schema);
    json_string(text, "kind", kinds[row->kind]);
    json_string(text, "out", row->out_name);
    json_string(text, "c", row->c_name);
    json_string(text, "derivative", row->derivative);
    json_string(text, "doc", row->doc);
    json_string(text, "alias_of", row->alias_of ? row->alias_of->name : NULL);
    text_printf(
        text,
        "\"short\": %d, \"inplace\": %s, \"core\": %s, \"random\": %s, \"checks\": %s, "
        "\"internal\": %s}",
        row->c_short, row->inplace ? "true" : "false", row->flags & OPF_core ? "true" : "false",
        row->flags & OPF_random ? "true" : "false", row->flags & OPF_check ? "true" : "false",
        row->flags & OPF_internal ? "true" : "false");
}

static void text_row(Text *text, const OpRow *row) {
    text_printf(text, "%s\n    %s%s%s\n", row->schema,
                row->alias_of ? "alias of " : kinds[row->kind],
                row->alias_of ? row->alias_of->name : "", row->inplace ? ", in place too" : "");
    if (row->doc) text_printf(text, "    %s\n", row->doc);
}

static bool is_named(const OpRow *row, const char *name) {
    return !name || !strcmp(row->base, name) || !strcmp(row->name, name) ||
           (!strncmp(row->name, "aten::", 6) && !strcmp(row->name + 6, name));
}

int command_ops(const Command *self, int argc, char **argv) {
    bool json = false;
    const char *name = NULL;
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (argv[i][0] != '-' && !name)
            name = argv[i];
        else
            return usage_error(self, "unexpected argument", argv[i]);
    }
    Text text = {0};
    int shown = 0;
    if (json) text_puts(&text, "[");
    for (int id = 0; id < OP_COUNT; id++) {
        const OpRow *const row = op_row((OpId)id);
        if (!is_named(row, name)) continue;
        if (json) text_puts(&text, shown ? ",\n " : "");
        (json ? json_row : text_row)(&text, row);
        shown++;
    }
    if (json) text_puts(&text, "]\n");
    fputs(text_str(&text), stdout);
    text_free(&text);
    if (name && !shown) fprintf(stderr, "sinter ops: no op is named '%s'\n", name);
    return name && !shown ? EXIT_wrong : EXIT_done;
}
