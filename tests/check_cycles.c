/* check_cycles.c: the graph of folders, from what each object file defines and asks of others (nm). An edge from A to
 * B is a symbol that an object of A leaves undefined and one of B defines, called or only named. Fails where folders
 * reach each other in a circle, and prints the symbols on its edges: what goes up has to be a row of
 * runtime/core/hooks.h, and a function that stands in the wrong folder shows.
 *
 *   check_cycles NM BUILD OBJECT...     BUILD/runtime/CMakeFiles/sn_runtime.dir/core/state.c.o is of runtime/core */
#define _XOPEN_SOURCE 700
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Objects below a folder of this list count as of one: outside of runtime a top-level folder is a layer. All others
 * count by their folder; start.c, the only file of runtime itself, stands above all of runtime's. */
static const char *const whole[][2] = {{"ir", "ir"},           {"kernels", "kernels"},   {"passes", "passes"},
                                       {"codegen", "codegen"}, {"frontend", "frontend"}, {"generated", "frontend"}};

enum { MAX_FOLDERS = 64, MAX_SYMBOLS = 1 << 16, NAME = 128, SHOWN = 12 };

typedef struct Symbol {
    char name[NAME];
    int folder;
} Symbol;

static char folders[MAX_FOLDERS][NAME];
static int n_folders;
static Symbol defined[MAX_SYMBOLS], wanted[MAX_SYMBOLS]; /* sorted by name once they are read */
static int n_defined, n_wanted;
static bool edge[MAX_FOLDERS][MAX_FOLDERS], reach[MAX_FOLDERS][MAX_FOLDERS];

static int folder_number(const char *name) {
    for (int i = 0; i < n_folders; i++)
        if (!strcmp(folders[i], name)) return i;
    if (n_folders == MAX_FOLDERS) exit(2);
    snprintf(folders[n_folders], NAME, "%s", name);
    return n_folders++;
}

static void cut(char *from, char *to) { memmove(from, to, strlen(to) + 1); }

/* "runtime/CMakeFiles/sn_runtime.dir/./core/state.c.o" is runtime/core/state.c.o; "__" stands for "..". */
static void plain_path(char *path) {
    char *const cmake = strstr(path, "CMakeFiles/"), *const inside = cmake ? strstr(cmake, ".dir/") : NULL;
    if (inside) cut(cmake, inside + 5);
    for (char *at; (at = strstr(path, "/./"));) cut(at, at + 2);
    for (char *at; (at = strstr(path, "/__/"));) {
        char *up = at;
        while (up > path && up[-1] != '/') up--;
        cut(up, at + 4);
    }
}

static int folder_of(const char *object, const char *build) {
    char path[4096];
    const size_t skip = strlen(build);
    snprintf(path, sizeof path, "%s", strncmp(object, build, skip) ? object : object + skip + 1);
    plain_path(path);
    char *const file = strrchr(path, '/');
    if (file) *file = '\0';
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        const size_t n = strlen(whole[i][0]);
        if (!strncmp(path, whole[i][0], n) && (path[n] == '/' || !path[n])) return folder_number(whole[i][1]);
    }
    return folder_number(path);
}

static void add(Symbol *list, int *n, const char *name, int folder) {
    if (*n == MAX_SYMBOLS) exit(2);
    snprintf(list[*n].name, NAME, "%s", name);
    list[(*n)++].folder = folder;
}

/* nm -P -A: "object: name type [value size]"; a weak or common definition is one too. */
static bool read_objects(const char *command, const char *build) {
    char line[8192], object[4096], name[NAME], type;
    FILE *const pipe = popen(command, "r");
    if (!pipe) return false;
    while (fgets(line, sizeof line, pipe)) {
        if (sscanf(line, "%4095[^:]: %127s %c", object, name, &type) != 3) continue;
        if (strchr("Uwv", type))
            add(wanted, &n_wanted, name, folder_of(object, build));
        else
            add(defined, &n_defined, name, folder_of(object, build));
    }
    return pclose(pipe) == 0;
}

/* So many at once as a shell's command holds. */
static bool read_all(const char *nm, const char *build, char **objects, int n) {
    static char command[1 << 16];
    for (int i = 0; i < n;) {
        int at = snprintf(command, sizeof command, "%s -P -A -g", nm);
        for (; i < n && at + strlen(objects[i]) + 4 < sizeof command; i++)
            at += snprintf(command + at, sizeof command - (size_t)at, " '%s'", objects[i]);
        if (!read_objects(command, build)) return false;
    }
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const Symbol *)a)->name, ((const Symbol *)b)->name);
}

static int by_name_and_folder(const void *a, const void *b) {
    const int names = by_name(a, b);
    return names ? names : ((const Symbol *)a)->folder - ((const Symbol *)b)->folder;
}

static int home_of(const Symbol *symbol) {
    const Symbol *const home = bsearch(symbol, defined, (size_t)n_defined, sizeof *defined, by_name);
    return home ? home->folder : symbol->folder; /* of libc and the like: no edge */
}

static void find_edges(void) {
    qsort(defined, (size_t)n_defined, sizeof *defined, by_name);
    qsort(wanted, (size_t)n_wanted, sizeof *wanted, by_name_and_folder);
    for (int i = 0; i < n_wanted; i++)
        if (home_of(&wanted[i]) != wanted[i].folder) edge[wanted[i].folder][home_of(&wanted[i])] = true;
    memcpy(reach, edge, sizeof reach);
    for (int k = 0; k < n_folders; k++)
        for (int a = 0; a < n_folders; a++)
            for (int b = 0; reach[a][k] && b < n_folders; b++) reach[a][b] |= reach[k][b];
}

static void print_edge(int a, int b) {
    printf("%s -> %s:", folders[a], folders[b]);
    int n = 0;
    for (int i = 0; i < n_wanted; i++) {
        const bool first = !i || strcmp(wanted[i - 1].name, wanted[i].name) || wanted[i - 1].folder != wanted[i].folder;
        if (wanted[i].folder != a || home_of(&wanted[i]) != b || !first) continue;
        if (n++ < SHOWN) printf(" %s", wanted[i].name);
    }
    printf(n > SHOWN ? " and %d more\n" : "\n", n - SHOWN);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    if (!read_all(argv[1], argv[2], argv + 3, argc - 3)) return 2;
    find_edges();
    int n_edges = 0, in_circles = 0;
    for (int a = 0; a < n_folders; a++)
        for (int b = 0; b < n_folders; b++) {
            n_edges += edge[a][b];
            if (!edge[a][b] || !reach[b][a]) continue;
            print_edge(a, b);
            in_circles++;
        }
    printf("%d objects, %d folders, %d edges, %d of them in circles\n", argc - 3, n_folders, n_edges, in_circles);
    /* Objects that were not read, or read wrongly, would show no circle either. */
    return in_circles != 0 || n_folders < 12 || n_edges < 30;
}
