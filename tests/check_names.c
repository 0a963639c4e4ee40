/* check_names.c: a name means one thing [style]. In the folders of the library, by line as the house format writes it:
 *
 *   type     what `struct X {`, `} X;` or a typedef of another type defines: in one file
 *   static   a function of one word: in at most two files; of several: in at most three; else a further word says whose
 *            it is, so that grep, profilers and readers find it, or it is one function
 *
 * A forward declaration defines nothing. Tests are programs of their own and not looked at.
 * Usage: check_names ROOT. */
#define _XOPEN_SOURCE 700
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tree_files.h"

typedef struct Rule {
    const char *what, *pattern, *except; /* lines that match `except` define nothing */
    int group;                           /* of the pattern: the name */
    int most;                            /* files that may have it */
    regex_t compiled, compiled_except;
} Rule;

#define WORD "([A-Za-z_][A-Za-z0-9_]*)"
static Rule rules[] = {
    {.what = "type", .pattern = "^\\} " WORD "(\\[[^]]*\\])?;", .except = "^$", .group = 1, .most = 1},
    {.what = "type", .pattern = "^(struct|union|enum) " WORD " \\{", .except = "^$", .group = 2, .most = 1},
    {.what = "type",
     .pattern = "^typedef [^(;]*[ *(]\\*?" WORD "[);([]",
     .except = "^typedef (struct|union|enum) .*;|__attribute__",
     .group = 1,
     .most = 1},
    {.what = "static", .pattern = "^static [^=(]*[ *]([a-z0-9]+)\\(", .except = "\\);$", .group = 1, .most = 2},
    {.what = "static",
     .pattern = "^static [^=(]*[ *]([a-z0-9]+_[a-z0-9_]+)\\(",
     .except = "\\);$",
     .group = 1,
     .most = 3},
};
enum { N_RULES = sizeof rules / sizeof *rules, NAME = 64, PATH = 2048, MAX_DEFINITIONS = 1 << 15 };

typedef struct Definition {
    const Rule *rule;
    char name[NAME], file[PATH];
} Definition;

static Definition found[MAX_DEFINITIONS];
static int n_found, problems;

static void add(const Rule *rule, const char *path, const char *name, size_t n) {
    for (int i = n_found; i-- && !strcmp(found[i].file, path);) /* a declaration and its definition */
        if (strlen(found[i].name) == n && !strncmp(found[i].name, name, n)) return;
    if (n_found == MAX_DEFINITIONS) exit(2);
    Definition *const d = &found[n_found++];
    d->rule = rule;
    snprintf(d->name, NAME, "%.*s", (int)n, name);
    snprintf(d->file, sizeof d->file, "%s", path);
}

static void check_file(const char *root, const char *path) {
    char full[4096], line[4096];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *const file = fopen(full, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < N_RULES; i++) {
            regmatch_t match[4];
            if (regexec(&rules[i].compiled, line, 4, match, 0)) continue;
            const regmatch_t *const name = &match[rules[i].group];
            if (regexec(&rules[i].compiled_except, line, 0, NULL, 0))
                add(&rules[i], path, line + name->rm_so, (size_t)(name->rm_eo - name->rm_so));
        }
    }
    if (file) fclose(file);
}

static int by_rule_and_name(const void *a, const void *b) {
    const Definition *const x = a, *const y = b;
    const int rules_order = strcmp(x->rule->what, y->rule->what), names = strcmp(x->name, y->name);
    return rules_order ? rules_order : names ? names : strcmp(x->file, y->file);
}

static void report(const Definition *first, int n) {
    if (n <= first->rule->most) return;
    printf("%s %s in %d files:", first->rule->what, first->name, n);
    for (int i = 0; i < n; i++) printf(" %s", first[i].file);
    printf("\n");
    problems++;
}

int main(int argc, char **argv) {
    static const char *const folders[] = {"ir/", "kernels/", "passes/", "codegen/", "runtime/", "frontend/"};
    if (argc != 2) return fprintf(stderr, "usage: check_names ROOT\n"), 2;
    for (int i = 0; i < N_RULES; i++)
        if (regcomp(&rules[i].compiled, rules[i].pattern, REG_EXTENDED) ||
            regcomp(&rules[i].compiled_except, rules[i].except, REG_EXTENDED | REG_NOSUB))
            return fprintf(stderr, "a bad pattern\n"), 2;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        each_file(argv[1], folders[i], " c h def ", check_file);
    qsort(found, (size_t)n_found, sizeof *found, by_rule_and_name);
    for (int i = 0, end = 0; i < n_found; i = end) {
        while (end < n_found && found[end].rule->what == found[i].rule->what && !strcmp(found[end].name, found[i].name))
            end++;
        report(&found[i], end - i);
    }
    printf("%d names, %d problems\n", n_found, problems);
    return problems || !n_found;
}
