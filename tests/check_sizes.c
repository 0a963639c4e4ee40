/* check_sizes.c: no file above 1,000 lines, no function above 100, no line above 120 (style). A function of the house
 * format begins at a line in the first column that ends in "{" and holds a "(", and ends at the next line that is "}".
 * Folders named by a version (tests/abi/0.1) hold headers as that version had them, generated ones among them.
 * Usage: check_sizes ROOT. */
#define _GNU_SOURCE
#include <ctype.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FILE_LINES = 1000, FUNCTION_LINES = 100, LINE_COLUMNS = 120 };

static int problems;

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

static bool opens_body(const char *line) { return strchr("# \t/*}\n", line[0]) == NULL && ends_with(line, "{\n"); }

static void check_function(const char *path, const char *head, int first, int last) {
    const int lines = last - first + 1;
    if (lines <= FUNCTION_LINES || !strchr(head, '(')) return;
    printf("%s:%d: a function of %d lines (at most %d): %s", path, first, lines, FUNCTION_LINES, head);
    problems++;
}

/* Columns, not bytes: the tail of a UTF-8 character takes none. */
static void check_line(const char *path, int line, const char *text) {
    int columns = 0;
    for (const char *p = text; *p && *p != '\n'; p++) columns += (*p & 0xc0) != 0x80;
    if (columns <= LINE_COLUMNS) return;
    printf("%s:%d: %d columns (at most %d)\n", path, line, columns, LINE_COLUMNS);
    problems++;
}

static void check_file(const char *path) {
    FILE *const file = fopen(path, "r");
    if (!file) return;
    char text[4096], head[4096] = "";
    int line = 0, start = 0, signature = 0;
    while (fgets(text, sizeof text, file)) {
        line++;
        check_line(path, line, text);
        if (strchr("# \t/*}\n", text[0]) == NULL && !start && strchr(text, '(')) {
            memcpy(head, text, sizeof head); /* a signature may take several lines */
            signature = line;
        }
        if (!start && ends_with(text, "{\n") && (opens_body(text) || (signature && line - signature < 6)))
            start = strchr(text, '(') || !signature ? line : signature;
        if (start && !strcmp(text, "}\n")) {
            check_function(path, head, start, line);
            start = signature = 0;
            head[0] = '\0';
        } else if (start && !strncmp(text, "};", 2)) {
            start = signature = 0;
        }
    }
    fclose(file);
    if (line <= FILE_LINES) return;
    printf("%s: %d lines (at most %d)\n", path, line, FILE_LINES);
    problems++;
}

static int visit(const char *path, const struct stat *info, int type, struct FTW *ftw) {
    (void)info;
    const char *const name = path + ftw->base;
    const bool skipped = name[0] == '.' || !strncmp(name, "build", 5) || isdigit((unsigned char)name[0]);
    if (type == FTW_D && ftw->level > 0 && skipped) return FTW_SKIP_SUBTREE;
    if (type == FTW_F && (ends_with(name, ".c") || ends_with(name, ".h") || ends_with(name, ".def"))) check_file(path);
    return FTW_CONTINUE;
}

int main(int argc, char **argv) {
    if (argc != 2 || nftw(argv[1], visit, 16, FTW_ACTIONRETVAL | FTW_PHYS)) return 2;
    printf("%d problems\n", problems);
    return problems != 0;
}
