/* help_settings.c: `sinter help settings`, or of one by its name: the rows of runtime/core/settings.def, then the
 * variables of the environment that are no settings (variables.def). The manual page and --json have them from here. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "frontend/tool/colour.h"
#include "frontend/tool/tool.h"
#include "runtime/base/text.h"

typedef struct SettingLine {
    const char *name, *kind, *value, *doc;
} SettingLine;

static const SettingLine settings[] = {
#define SETTING(name, kind, value, doc) {#name, #kind, value, doc},
#include "runtime/core/settings.def"
#undef SETTING
    {.name = NULL}};

const VariableRow variable_rows[] = {
#define VARIABLE(name, value, doc) {#name, value, doc},
#include "runtime/core/variables.def"
#undef VARIABLE
    {.name = NULL}};

const char *help_setting_variable(int i, char *out, size_t capacity, const char **doc) {
    const SettingLine *const row = &settings[i];
    if (!row->name) return NULL;
    snprintf(out, capacity, "SINTER_%s", row->name);
    for (char *c = out; *c; c++) *c = (char)toupper((unsigned char)*c);
    *doc = row->doc;
    return row->value;
}

static void print_setting(const SettingLine *row) {
    printf("%s%s%s  %s, at first %s\n       %s\n", colour_begin(stdout, COLOUR_heading), row->name, colour_end(stdout),
           row->kind, *row->value ? row->value : "empty", row->doc);
}

static void print_variable(const VariableRow *row) {
    printf("%s%s%s=%s\n       %s\n", colour_begin(stdout, COLOUR_heading), row->name, colour_end(stdout), row->value,
           row->doc);
}

static void print_all(void) {
    puts("Settings: sn_setting_set(name, value) for one sn_state, or SINTER_<NAME> in the environment.\n");
    for (const SettingLine *row = settings; row->name; row++) print_setting(row);
    puts("\nThe environment beside them.\n");
    for (const VariableRow *row = variable_rows; row->name; row++) print_variable(row);
}

static bool is_asked_name(const char *word, const char *asked) { return !strcmp(word, asked); }

bool help_settings(const char *name) {
    if (!strcmp(name, "settings")) return print_all(), true;
    for (const SettingLine *row = settings; row->name; row++)
        if (is_asked_name(row->name, name)) return print_setting(row), true;
    for (const VariableRow *row = variable_rows; row->name; row++)
        if (is_asked_name(row->name, name)) return print_variable(row), true;
    return false;
}

static void put_setting(Text *text, const char *before, const SettingLine *row) {
    put_json_pair(text, before, "name", row->name);
    put_json_pair(text, ", ", "kind", row->kind);
    put_json_pair(text, ", ", "default", row->value);
    put_json_pair(text, ", ", "doc", row->doc);
    text_puts(text, "}");
}

static void put_variable(Text *text, const char *before, const VariableRow *row) {
    put_json_pair(text, before, "name", row->name);
    put_json_pair(text, ", ", "value", row->value);
    put_json_pair(text, ", ", "doc", row->doc);
    text_puts(text, "}");
}

void help_settings_json(Text *text) {
    text_puts(text, "\"settings\": [");
    for (const SettingLine *row = settings; row->name; row++) put_setting(text, row == settings ? "{" : ",\n{", row);
    text_puts(text, "],\n\"environment\": [");
    for (const VariableRow *row = variable_rows; row->name; row++)
        put_variable(text, row == variable_rows ? "{" : ",\n{", row);
    text_puts(text, "]");
}

bool help_setting_json(Text *text, const char *name) {
    if (!strcmp(name, "settings")) return text_puts(text, "{"), help_settings_json(text), text_puts(text, "}"), true;
    for (const SettingLine *row = settings; row->name; row++)
        if (is_asked_name(row->name, name)) return put_setting(text, "{", row), true;
    for (const VariableRow *row = variable_rows; row->name; row++)
        if (is_asked_name(row->name, name)) return put_variable(text, "{", row), true;
    return false;
}
