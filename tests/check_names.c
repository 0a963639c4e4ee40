/* check_names.c: a name means one thing [style]. In the folders of the library, by line as the house format writes it:
 *
 *   type     what `struct X {`, `} X;` or a typedef of another type defines: in one file
 *   static   a function of one word: in at most two files; of several: in at most three, so that grep, profilers and
 *            readers find it. Else it is one function, or its file's prefix says whose it is: `run` of replay.c becomes
 *            replay_run, not a rarer verb. A static that has the prefix and two words more is not counted
 *   global   what other files see begins with the first word of its file's name (or of its folder's), and so says where
 *            it is: schedule_ of schedule.c, setting_ of settings.c, cuda_ in cuda/. At most MOST_FOREIGN names do not:
 *            their number may only fall
 *
 * A forward declaration defines nothing. Public names (sn_) have their own prefix. Tests are programs of their own and
 * not looked at.
 * Usage: check_names ROOT [list]: the names without their file's prefix. */
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
    bool with_prefix;                    /* names with their file's prefix and two words more count, too */
    regex_t compiled, compiled_except;
} Rule;

#define WORD "([A-Za-z_][A-Za-z0-9_]*)"
static Rule rules[] = {
    {.what = "type",
     .pattern = "^\\} " WORD "(\\[[^]]*\\])?;",
     .except = "^$",
     .group = 1,
     .most = 1,
     .with_prefix = true},
    {.what = "type",
     .pattern = "^(struct|union|enum) " WORD " \\{",
     .except = "^$",
     .group = 2,
     .most = 1,
     .with_prefix = true},
    {.what = "type",
     .pattern = "^typedef [^(;]*[ *(]\\*?" WORD "[);([]",
     .except = "^typedef (struct|union|enum) .*;|__attribute__",
     .group = 1,
     .most = 1,
     .with_prefix = true},
    {.what = "static", .pattern = "^static [^=(]*[ *]([a-z0-9]+)\\(", .except = "\\);$", .group = 1, .most = 2},
    {.what = "static",
     .pattern = "^static [^=(]*[ *]([a-z0-9]+_[a-z0-9_]+)\\(",
     .except = "\\);$",
     .group = 1,
     .most = 3},
};
static Rule global = {.what = "global",
                      .pattern = "^[A-Za-z_][^=(;]*[ *]([a-z][A-Za-z0-9_]*)\\(",
                      .except = "^(static|typedef|extern) |\\);( */\\*.*)?$",
                      .group = 1};
enum { N_RULES = sizeof rules / sizeof *rules, NAME = 64, PATH = 2048, MAX_DEFINITIONS = 1 << 15 };
enum { MOST_FOREIGN = 620 }; /* today's: lower it when names get their file's prefix, never raise it */

typedef struct Definition {
    const Rule *rule;
    char name[NAME], file[PATH];
} Definition;

static Definition found[MAX_DEFINITIONS];
static int n_found, problems, n_foreign;
static bool lists; /* names without their file's prefix are printed */

static void add(const Rule *rule, const char *path, const char *name) {
    for (int i = n_found; i-- && !strcmp(found[i].file, path);) /* a declaration and its definition */
        if (!strcmp(found[i].name, name)) return;
    if (n_found == MAX_DEFINITIONS) exit(2);
    Definition *const d = &found[n_found++];
    d->rule = rule;
    snprintf(d->name, NAME, "%s", name);
    snprintf(d->file, sizeof d->file, "%s", path);
}

/* Does the name begin with the first word at `stem`, or with that less an s (setting_ of settings.c)? */
static bool has_word(const char *name, const char *stem) {
    const size_t n = strcspn(stem, "_./");
    const size_t same = n && !strncmp(name, stem, n)                                 ? n
                        : n > 1 && stem[n - 1] == 's' && !strncmp(name, stem, n - 1) ? n - 1
                                                                                     : 0;
    return same && (!name[same] || name[same] == '_');
}

/* The file's prefix, or its folder's. */
static bool has_prefix(const char *name, const char *path) {
    const char *const slash = strrchr(path, '/');
    const char *folder = slash;
    while (folder > path && folder[-1] != '/') folder--;
    return has_word(name, slash + 1) || has_word(name, folder);
}

static bool has_two_more(const char *name) {
    const char *const second = strchr(name, '_');
    return second && strchr(second + 1, '_');
}

static void check_global(const char *path, const char *name) {
    const char *const dot = strrchr(path, '.');
    if (!dot || strcmp(dot, ".c") || !strncmp(name, "sn_", 3) || !strcmp(name, "main") || has_prefix(name, path))
        return;
    n_foreign++;
    if (lists) printf("%s: %s\n", path, name);
}

static bool matches(const Rule *rule, const char *line, char name[NAME]) {
    regmatch_t match[4];
    if (regexec(&rule->compiled, line, 4, match, 0) || !regexec(&rule->compiled_except, line, 0, NULL, 0)) return false;
    const regmatch_t *const at = &match[rule->group];
    snprintf(name, NAME, "%.*s", (int)(at->rm_eo - at->rm_so), line + at->rm_so);
    return true;
}

static void check_file(const char *root, const char *path) {
    char name[NAME], full[4096], line[4096];
    snprintf(full, sizeof full, "%s/%s", root, path);
    FILE *const file = fopen(full, "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < N_RULES; i++)
            if (matches(&rules[i], line, name) &&
                (rules[i].with_prefix || !has_prefix(name, path) || !has_two_more(name)))
                add(&rules[i], path, name);
        if (matches(&global, line, name)) check_global(path, name);
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
    printf(!strcmp(first->rule->what, "static") ? "; a name that begins with its file's prefix is one of its own\n"
                                                : "\n");
    problems++;
}

static bool compile(Rule *rule) {
    return !regcomp(&rule->compiled, rule->pattern, REG_EXTENDED) &&
           !regcomp(&rule->compiled_except, rule->except, REG_EXTENDED | REG_NOSUB);
}

int main(int argc, char **argv) {
    static const char *const folders[] = {"ir/", "kernels/", "passes/", "codegen/", "runtime/", "frontend/"};
    if (argc != 2 && argc != 3) return fprintf(stderr, "usage: check_names ROOT [list]\n"), 2;
    lists = argc == 3;
    for (int i = 0; i < N_RULES; i++)
        if (!compile(&rules[i])) return fprintf(stderr, "a bad pattern\n"), 2;
    if (!compile(&global)) return fprintf(stderr, "a bad pattern\n"), 2;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        each_file(argv[1], folders[i], " c h def ", check_file);
    qsort(found, (size_t)n_found, sizeof *found, by_rule_and_name);
    for (int i = 0, end = 0; i < n_found; i = end) {
        while (end < n_found && found[end].rule->what == found[i].rule->what && !strcmp(found[end].name, found[i].name))
            end++;
        report(&found[i], end - i);
    }
    if (n_foreign > MOST_FOREIGN) {
        printf("%d functions that other files see do not begin with their file's prefix, %d are allowed; 'list' shows "
               "them\n",
               n_foreign, MOST_FOREIGN);
        problems++;
    }
    printf("%d names, %d without their file's prefix (at most %d), %d problems\n", n_found, n_foreign, MOST_FOREIGN,
           problems);
    return problems || !n_found;
}
