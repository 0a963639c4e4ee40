/* check_cycles.c: who calls whom, from what each object file defines and asks of others (nm). An edge from A to B is a
 * symbol that an object of A leaves undefined and one of B defines, called or only named.
 *
 * Folders may not reach each other in a circle: the symbols on the edges of one are printed, and a function that stands
 * in the wrong folder shows.
 *
 * Files of runtime may, in circles that grow no larger. There a call through a variable that holds a function
 * (function_tables.h) counts too: a row of core/hooks.h is an edge from who calls it to the function that has its name.
 * What an object carries (a storage, a variant, a function) is no such variable; those are listed apart. start.c, which
 * knows every module, stands above all files and is in no circle.
 *
 *   check_cycles NM BUILD ROOT OBJECT...   BUILD/runtime/CMakeFiles/sn_runtime.dir/core/state.c.o is of runtime/core */
#define _XOPEN_SOURCE 700
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/function_tables.h"

/* Rows of tables that point upwards, and files of the largest circle in runtime: what has been reached. */
enum { MOST_ROWS = 2, MOST_FILES = 24 };

/* Variables of runtime that hold functions. Others are calls upwards that nobody sees. */
static const struct {
    const char *name, *path;
    bool hooks; /* rows with the names of the functions that fill them */
} known_tables[] = {
    {"runtime_hooks", "runtime/core/hooks.c", true},
    /* what is registered: kernels by op and key, ops, kernels and devices of the program */
    {"table", "runtime/core/dispatch.c", false},
    {"dynamic", "runtime/core/dispatch.c", false},
    {"fallbacks", "runtime/core/dispatch.c", false},
    {"ops", "runtime/core/custom_op.c", false},
    {"withdrawers", "runtime/core/custom_op.c", false},
    {"overrides", "runtime/core/override.c", false},
    {"memory_by_key", "runtime/core/memory.h", false},
    /* what a run or a program gives for a while */
    {"current", "runtime/core/pool.c", false},
    {"last", "runtime/core/background.c", false},
    {"told", "runtime/device/watch.c", false},
    {"handler_takes", "runtime/base/log.c", false},
    /* of functions below, or of the same file */
    {"builder", "runtime/core/dispatch.c", false},
    {"resolved", "runtime/cpu/interp.c", false},
    {"inner", "runtime/compile/llvm_module.c", false}, /* the library of LLVM, which is loaded */
    {"outer", "runtime/compile/llvm_module.c", false},
};

/* Objects below a folder of this list count as of one: outside of runtime a top-level folder is a layer. All others
 * count by their folder; start.c, the only file of runtime itself, stands above all of runtime's. */
static const char *const whole[][2] = {{"ir", "ir"},           {"kernels", "kernels"},   {"passes", "passes"},
                                       {"codegen", "codegen"}, {"frontend", "frontend"}, {"generated", "frontend"}};

enum { MAX_FOLDERS = 64, MAX_FILES = 512, MAX_SYMBOLS = 1 << 16, NAME = 128, SHOWN = 12 };

typedef struct Symbol {
    char name[NAME];
    int folder;
    int file; /* of runtime; -1: of another folder */
} Symbol;

static char folders[MAX_FOLDERS][NAME];
static int n_folders;
static Symbol defined[MAX_SYMBOLS], wanted[MAX_SYMBOLS]; /* sorted by name once they are read */
static int n_defined, n_wanted;
static char files[MAX_FILES][NAME];
static int n_files;
static bool calls[MAX_FILES][MAX_FILES], meets[MAX_FILES][MAX_FILES];
static int problems;
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

/* "runtime/core/state.c" has a number; start.c and files of other folders have none. */
static int file_number(const char *path) {
    if (strncmp(path, "runtime/", 8) || !strcmp(path, "runtime/start.c")) return -1;
    for (int i = 0; i < n_files; i++)
        if (!strcmp(files[i], path)) return i;
    if (n_files == MAX_FILES) exit(2);
    snprintf(files[n_files], NAME, "%s", path);
    return n_files++;
}

static int folder_of_path(char *path) {
    char *const file = strrchr(path, '/');
    if (file) *file = '\0';
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        const size_t n = strlen(whole[i][0]);
        if (!strncmp(path, whole[i][0], n) && (path[n] == '/' || !path[n])) return folder_number(whole[i][1]);
    }
    return folder_number(path);
}

static Symbol symbol_of(const char *name, const char *object, const char *build) {
    Symbol symbol;
    char path[4096];
    const size_t skip = strlen(build);
    snprintf(path, sizeof path, "%s", strncmp(object, build, skip) ? object : object + skip + 1);
    plain_path(path);
    char *const ending = strrchr(path, '.');
    if (ending) *ending = '\0';
    snprintf(symbol.name, NAME, "%s", name);
    symbol.file = file_number(path);
    symbol.folder = folder_of_path(path);
    return symbol;
}

static void add(Symbol *list, int *n, Symbol symbol) {
    if (*n == MAX_SYMBOLS) exit(2);
    list[(*n)++] = symbol;
}

/* nm -P -A: "object: name type [value size]"; a weak or common definition is one too. */
static bool read_objects(const char *command, const char *build) {
    char line[8192], object[4096], name[NAME], type;
    FILE *const pipe = popen(command, "r");
    if (!pipe) return false;
    while (fgets(line, sizeof line, pipe)) {
        if (sscanf(line, "%4095[^:]: %127s %c", object, name, &type) != 3) continue;
        if (strchr("Uwv", type))
            add(wanted, &n_wanted, symbol_of(name, object, build));
        else
            add(defined, &n_defined, symbol_of(name, object, build));
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

/* files of runtime ------------------------------------------------------------------------------ */

static const Symbol *definition(const char *name) {
    Symbol symbol;
    snprintf(symbol.name, NAME, "%s", name);
    return bsearch(&symbol, defined, (size_t)n_defined, sizeof *defined, by_name);
}

static void complain(const char *path, const char *name, const char *why) {
    printf("%s: %s: %s\n", path, name, why);
    problems++;
}

static bool is_known(const FunctionTable *table, bool *hooks) {
    for (size_t i = 0; i < sizeof known_tables / sizeof *known_tables; i++)
        if (!strcmp(known_tables[i].name, table->name)) return *hooks = known_tables[i].hooks, true;
    return false;
}

static void check_tables(void) {
    for (int i = 0; i < n_function_tables; i++) {
        bool hooks;
        if (!is_known(&function_tables[i], &hooks))
            complain(function_tables[i].path, function_tables[i].name,
                     "holds functions for the whole process: what is called through it is a call that no linker sees. "
                     "Let the object in hand carry them (runtime/README.md), or say in check_cycles.c what it is");
    }
    for (size_t k = 0; k < sizeof known_tables / sizeof *known_tables; k++) {
        int i = 0;
        while (i < n_function_tables && strcmp(function_tables[i].name, known_tables[k].name)) i++;
        if (i == n_function_tables) complain(known_tables[k].path, known_tables[k].name, "is gone, and still listed");
    }
}

static bool is_of_hooks(const TableCall *call) {
    for (int i = 0; i < n_function_tables; i++) {
        bool hooks = false;
        if (!strcmp(function_tables[i].name, call->table) && is_known(&function_tables[i], &hooks)) return hooks;
    }
    return false;
}

/* Edges of rows; how many rows there are. */
static int add_rows(void) {
    int n = 0;
    for (int i = 0; i < n_table_calls; i++) {
        const TableCall *const call = &table_calls[i];
        if (!is_of_hooks(call)) continue;
        const Symbol *const function = definition(call->row);
        if (!function) complain(call->path, call->row, "a row that has not the name of the function that fills it");
        const int from = file_number(call->path), to = function ? function->file : -1;
        if (from >= 0 && to >= 0 && from != to) calls[from][to] = true;
        int before = 0;
        while (before < i && strcmp(table_calls[before].row, call->row)) before++;
        if (before == i) printf("%s %s", n++ ? "," : "rows that point upwards:", call->row);
    }
    printf("%s", n ? "\n" : "");
    return n;
}

/* How many files reach each other around the largest circle; prints it where there are more than `most`. */
static int largest_circle(int most) {
    int largest = 0, at = 0;
    memcpy(meets, calls, sizeof meets);
    for (int k = 0; k < n_files; k++)
        for (int a = 0; a < n_files; a++)
            for (int b = 0; meets[a][k] && b < n_files; b++) meets[a][b] |= meets[k][b];
    for (int a = 0; a < n_files; a++) {
        int n = 0;
        for (int b = 0; b < n_files; b++) n += meets[a][b] && meets[b][a];
        if (n > largest) largest = n, at = a;
    }
    for (int b = 0; largest > most && b < n_files; b++)
        if (meets[at][b] && meets[b][at]) printf("  %s\n", files[b]);
    return largest;
}

static void check_files(const char *root) {
    function_tables_read(root);
    check_tables();
    for (int i = 0; i < n_wanted; i++) {
        const Symbol *const home = definition(wanted[i].name);
        if (home && wanted[i].file >= 0 && home->file >= 0 && home->file != wanted[i].file)
            calls[wanted[i].file][home->file] = true;
    }
    const int rows = add_rows(), circle = largest_circle(MOST_FILES);
    printf("functions that objects carry:");
    for (int i = 0, n = 0; i < n_carriers; i++)
        if (!strstr(carriers[i].name, "Hooks")) printf("%s %s %d", n++ ? "," : "", carriers[i].name, carriers[i].n);
    printf("\n%d files of runtime, %d in the largest circle (at most %d), %d rows that point upwards (at most %d)\n",
           n_files, circle, MOST_FILES, rows, MOST_ROWS);
    if (circle < MOST_FILES || rows < MOST_ROWS) printf("fewer than that: lower MOST_FILES or MOST_ROWS\n");
    /* What reads no sources would find no table. */
    problems += circle > MOST_FILES || rows > MOST_ROWS || n_files < 200 || n_carriers < 20;
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    if (!read_all(argv[1], argv[2], argv + 4, argc - 4)) return 2;
    find_edges();
    int n_edges = 0, in_circles = 0;
    for (int a = 0; a < n_folders; a++)
        for (int b = 0; b < n_folders; b++) {
            n_edges += edge[a][b];
            if (!edge[a][b] || !reach[b][a]) continue;
            print_edge(a, b);
            in_circles++;
        }
    printf("%d objects, %d folders, %d edges, %d of them in circles\n", argc - 4, n_folders, n_edges, in_circles);
    check_files(argv[3]);
    /* Objects that were not read, or read wrongly, would show no circle either. */
    return problems || in_circles != 0 || n_folders < 12 || n_edges < 30;
}
