/* function_tables.c: see function_tables.h. A file's text without comments, literals and preprocessor lines is cut into
 * its declarations; bodies of functions are left out. Types come first, from all folders, then variables. */
#include "tests/function_tables.h"

#include <ctype.h>
#include <stdlib.h>

#include "tests/tree_files.h"

enum { MAX_TEXT = 1 << 18, MAX_TYPES = 1024 };

FunctionTable function_tables[MAX_TABLES];
TableCall table_calls[MAX_TABLE_CALLS];
Carrier carriers[MAX_CARRIERS];
int n_function_tables, n_table_calls, n_carriers;

typedef struct Types {
    char at[MAX_TYPES][TABLE_NAME];
    int n;
} Types;
static Types functions, pointers, structs; /* typedefs of functions, of pointers to them; structs that have some */

static char text[MAX_TEXT], item[MAX_TEXT];

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static const char *word_before(const char *end) {
    while (is_word(end[-1])) end--;
    return end;
}

static size_t word_length(const char *at) {
    size_t n = 0;
    while (is_word(at[n])) n++;
    return n;
}

static bool has_type(const Types *types, const char *word, size_t n) {
    for (int i = 0; i < types->n; i++)
        if (strlen(types->at[i]) == n && !memcmp(types->at[i], word, n)) return true;
    return false;
}

static void add_type(Types *types, const char *word, size_t n) {
    if (!n || n >= TABLE_NAME || has_type(types, word, n) || !strncmp(word, "_Atomic", n)) return;
    if (types->n == MAX_TYPES) exit(2);
    snprintf(types->at[types->n++], TABLE_NAME, "%.*s", (int)n, word);
}

/* text ----------------------------------------------------------------------------------------- */

static void blank(char **at, const char *end) {
    for (; **at && *at < end; (*at)++)
        if (**at != '\n') **at = ' ';
}

static void blank_literal(char **at) {
    char *end = *at + 1;
    while (*end && *end != **at) end += *end == '\\' ? 2 : 1;
    blank(at, end + 1);
}

static void blank_line(char **at) { /* with those that a backslash continues */
    char *end = *at;
    do end = strchr(end + 1, '\n');
    while (end && end[-1] == '\\');
    blank(at, end ? end : *at + strlen(*at));
}

static void keep_code(char *at) {
    for (bool fresh = true; *at;) {
        const char *const close = !strncmp(at, "/*", 2) ? strstr(at, "*/") : NULL;
        if (close)
            blank(&at, close + 2);
        else if (*at == '"' || *at == '\'')
            blank_literal(&at);
        else if (*at == '#' && fresh)
            blank_line(&at);
        else {
            fresh = *at == '\n' || (fresh && isspace((unsigned char)*at));
            at++;
        }
    }
}

static bool read_code(const char *root, const char *path) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *const file = fopen(full, "r");
    if (!file) return false;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    if (n == sizeof text - 1) exit(2); /* more than this reads */
    text[n] = '\0';
    keep_code(text);
    return true;
}

/* The next declaration, its white space squeezed, without what functions have in their braces. NULL: the end. */
static const char *next_item(const char *at) {
    int depth = 0;
    size_t n = 0;
    for (bool body = false; *at; at++) {
        const char c = isspace((unsigned char)*at) ? ' ' : *at;
        if (c == '{' && !depth++) body = n && item[item[n - 1] == ' ' ? n - 2 : n - 1] == ')';
        if (c == '}' && !--depth && body) {
            n = 0, body = false;
            continue;
        }
        if (body || (c == ' ' && (!n || item[n - 1] == ' '))) continue;
        item[n++] = c;
        if (c != ';' || depth) continue;
        item[n] = '\0';
        return at + 1;
    }
    return NULL;
}

static void each_item(void (*visit)(const char *path), const char *path) {
    for (const char *at = text; (at = next_item(at));) visit(path);
}

/* types ---------------------------------------------------------------------------------------- */

static bool starts(const char *at, const char *with) { return !strncmp(at, with, strlen(with)); }

static int count_pointers(const char *body) {
    int n = 0;
    for (const char *at = body; (at = strstr(at, "(*")); at += 2) n++;
    for (const char *at = body; *at;) {
        const size_t length = word_length(at);
        n += length && has_type(&functions, at, length) && starts(at + length, " *");
        n += length && has_type(&pointers, at, length);
        at += length ? length : 1;
    }
    return n;
}

static void note_struct(const char *path, const char *name) {
    const size_t length = strcspn(name, " {;");
    const char *const body = name + length + strspn(name + length, " ");
    const int n = *body == '{' ? count_pointers(body) : 0;
    if (!n) return;
    add_type(&structs, name, length);
    for (int i = 0; i < n_carriers; i++)
        if (strlen(carriers[i].name) == length && !memcmp(carriers[i].name, name, length)) return;
    if (!starts(path, "runtime/")) return;
    if (n_carriers == MAX_CARRIERS) exit(2);
    snprintf(carriers[n_carriers].name, TABLE_NAME, "%.*s", (int)length, name);
    carriers[n_carriers++].n = n;
}

/* "typedef Status OpKernel(OpCall *call);", "typedef void (*Visit)(Node *);", "typedef _Atomic(OpKernel *) Entry;" */
static void note_function(const char *typedef_item) {
    const char *const pointer = strstr(typedef_item, "(*"), *const open = strchr(typedef_item, '(');
    const char *const last = word_before(strchr(typedef_item, ';'));
    if (count_pointers(typedef_item) && !pointer)
        add_type(&pointers, last, word_length(last));
    else if (pointer)
        add_type(&pointers, pointer + 2, word_length(pointer + 2));
    else if (open)
        add_type(&functions, word_before(open), word_length(word_before(open)));
}

static void note_type(const char *path) {
    const char *at = item;
    const bool is_typedef = starts(at, "typedef ");
    if (is_typedef) at += strlen("typedef ");
    if (starts(at, "struct ") && strchr(at, '{'))
        note_struct(path, at + strlen("struct "));
    else if (is_typedef && !strchr(at, '{'))
        note_function(at);
}

/* variables ------------------------------------------------------------------------------------ */

static void drop(char *from, const char *to) { memmove(from, to, strlen(to) + 1); }

/* "_Atomic(X *) a" as "X * a". */
static void unwrap(char *head) {
    for (char *at; (at = strstr(head, "_Atomic("));) {
        char *const end = strchr(at, ')');
        if (!end) return;
        *end = ' ';
        drop(at, at + strlen("_Atomic("));
    }
}

/* Whose type has functions; *whole: itself is a struct of them. */
static bool is_table(const char *head, const char *last_star, bool *whole) {
    *whole = false;
    for (const char *at = head; *at;) {
        const size_t n = word_length(at);
        if (n && has_type(&structs, at, n)) return *whole = !last_star, true;
        if (n && (has_type(&pointers, at, n) || (has_type(&functions, at, n) && last_star))) return true;
        at += n ? n : 1;
    }
    return false;
}

static void note_variable(const char *path) {
    static char head[MAX_TEXT];
    snprintf(head, sizeof head, "%.*s", (int)strcspn(item, "=;"), item);
    unwrap(head);
    if (starts(head, "typedef ") || strchr(head, '{') || !*head) return;
    if (starts(head, "struct ") && !strchr(head + strlen("struct "), ' ')) return; /* declared before it is known */
    char *const pointer = strstr(head, "(*"), *const star = strrchr(head, '*');
    bool whole = false;
    if (strchr(head, '(') && (!pointer || strchr(head, '(') != pointer)) return; /* a function */
    if (pointer ? starts(pointer, "(*const ") : !is_table(head, star, &whole)) return;
    if (strstr(star ? star : head, "const ")) return;
    char *end = head + strcspn(head, "[");
    while (end > head && end[-1] == ' ') end--;
    const char *const name = pointer ? pointer + 2 : word_before(end);
    const size_t n = word_length(name);
    for (int i = 0; i < n_function_tables; i++)
        if (strlen(function_tables[i].name) == n && !memcmp(function_tables[i].name, name, n)) return;
    if (!n || n >= TABLE_NAME) return;
    if (n_function_tables == MAX_TABLES) exit(2);
    FunctionTable *const table = &function_tables[n_function_tables++];
    snprintf(table->name, TABLE_NAME, "%.*s", (int)n, name);
    snprintf(table->path, TABLE_PATH, "%s", path);
    table->whole = whole;
}

static void note_calls(const char *path, const FunctionTable *table) {
    const size_t n = strlen(table->name);
    for (const char *at = text; (at = strstr(at, table->name)); at += n) {
        if ((at > text && is_word(at[-1])) || at[n] != '.') continue;
        const size_t length = word_length(at + n + 1);
        if (n_table_calls == MAX_TABLE_CALLS) exit(2);
        snprintf(table_calls[n_table_calls].table, TABLE_NAME, "%s", table->name);
        snprintf(table_calls[n_table_calls].row, TABLE_NAME, "%.*s", (int)length, at + n + 1);
        snprintf(table_calls[n_table_calls++].path, TABLE_PATH, "%s", path);
    }
}

/* ---------------------------------------------------------------------------------------------- */

static void read_types(const char *root, const char *path) {
    if (read_code(root, path)) each_item(note_type, path);
}

/* Those in functions, too, that live as long as the process. */
static void read_variables(const char *root, const char *path) {
    if (!read_code(root, path)) return;
    each_item(note_variable, path);
    for (const char *at = text; (at = strstr(at, "    static ")); at++) {
        snprintf(item, sizeof item, "%.*s", (int)strcspn(at + 4, ";") + 1, at + 4);
        note_variable(path);
    }
}

static void read_calls(const char *root, const char *path) {
    if (!read_code(root, path)) return;
    for (int i = 0; i < n_function_tables; i++)
        if (function_tables[i].whole) note_calls(path, &function_tables[i]);
}

void function_tables_read(const char *root) {
    static const char *const folders[] = {"frontend/sinter/", "ir/", "kernels/", "passes/", "codegen/", "runtime/"};
    for (int twice = 0; twice < 2; twice++) /* a struct may have a type that comes later */
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) each_file(root, folders[i], " h c ", read_types);
    each_file(root, "runtime/", " h c ", read_variables);
    each_file(root, "runtime/", " c h ", read_calls);
}
