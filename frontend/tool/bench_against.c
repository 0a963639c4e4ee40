/* bench_against.c: `sinter bench --against BUILD NAME...`: this program and that of another build time the same rows
 * and samples in turn, each in fresh processes, and every figure's ratio, this / that, is the median of the rounds'.
 * Which of the two goes first alternates, so that a slow moment of the machine hits both. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "frontend/tool/bench.h"
#include "frontend/tool/sample.h"
#include "frontend/tool/tool.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

enum { MOST_ROUNDS = 99, THIS = 0, THAT = 1 };

/* What may be compared; minima and counts are not. */
static const char *const figures[] = {"eager_ns",    "verify_ns", "call_ns",   "eager_ms",
                                      "compiled_ms", "cold_ms",   "compile_ms"};
enum { FIGURES = COUNT_OF(figures) };

typedef struct Rounds { /* by build, figure and round; 0: the build does not have it */
    double at[2][FIGURES][MOST_ROUNDS];
} Rounds;

static double figure_of(const Json *line, int figure) {
    const Json *const value = json_get(line, figures[figure]);
    return value && value->kind == JSON_number ? value->number : 0;
}

/* The line of `name` among a run's. A row's name is the beginning of others'. */
static const Json *line_of(Arena *arena, const char *text, const char *name) {
    while (*text) {
        const size_t n = strcspn(text, "\n");
        const Json *line = NULL;
        if (*text == '{' && json_parse(arena, text, n, &line) != ST_OK) return NULL;
        const char *const row = line ? json_string(json_get(line, "row")) : NULL;
        if (row && !strcmp(row, name)) return line;
        text += n + (text[n] == '\n');
    }
    return NULL;
}

static bool time_once(const Against *a, int build, const char *name, int round, Rounds *rounds) {
    Arena *const arena = arena_new();
    if (!arena) return false;
    char seconds[32];
    snprintf(seconds, sizeof seconds, "--seconds=%g", a->seconds);
    char *const program = build == THIS ? "/proc/self/exe" : (char *)a->program;
    Text out = {0};
    const bool found = bench_spawn(program, (char *[]){"sinter", "bench", (char *)name, "--json", seconds, NULL}, &out);
    const Json *const line = found ? line_of(arena, text_str(&out), name) : NULL;
    for (int f = 0; line && f < FIGURES; f++) rounds->at[build][f][round] = figure_of(line, f);
    text_free(&out);
    arena_free(arena);
    return line != NULL;
}

static double median(const double *values, int n) {
    double sorted[MOST_ROUNDS];
    memcpy(sorted, values, sizeof *values * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, bench_by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static void print_figure(const Against *a, const char *name, int figure, const Rounds *rounds) {
    const double *const mine = rounds->at[THIS][figure], *const theirs = rounds->at[THAT][figure];
    double ratios[MOST_ROUNDS];
    for (int i = 0; i < a->rounds; i++) {
        if (!(mine[i] > 0 && theirs[i] > 0)) return;
        ratios[i] = mine[i] / theirs[i];
    }
    const double ratio = median(ratios, a->rounds), here = median(mine, a->rounds), there = median(theirs, a->rounds);
    if (a->json)
        printf(
            "{\"row\": \"%s\", \"figure\": \"%s\", \"ratio\": %.4f, \"this\": %.6g, \"that\": %.6g, \"rounds\": %d}\n",
            name, figures[figure], ratio, here, there, a->rounds);
    else
        printf("%-30s %-12s %.3f  (this %.6g, that %.6g)\n", name, figures[figure], ratio, here, there);
    fflush(stdout);
}

static bool compare_row(const Against *a, const char *name) {
    static Rounds rounds;
    memset(&rounds, 0, sizeof rounds);
    for (int i = 0; i < a->rounds; i++)
        for (int k = 0; k < 2; k++) {
            const int build = (i + k) % 2 ? THAT : THIS;
            if (time_once(a, build, name, i, &rounds)) continue;
            fprintf(stderr, "sinter: %s: %s build cannot time it\n", name, build == THIS ? "this" : "the other");
            return false;
        }
    for (int f = 0; f < FIGURES; f++) print_figure(a, name, f, &rounds);
    return true;
}

/* BUILD is a build folder or its program. */
static bool find_program(const char *build, char *path, size_t capacity) {
    struct stat info;
    snprintf(path, capacity, "%s", build);
    if (!stat(path, &info) && S_ISDIR(info.st_mode)) snprintf(path, capacity, "%s/bin/sinter", build);
    return !stat(path, &info) && S_ISREG(info.st_mode) && info.st_mode & S_IXUSR;
}

int bench_against(Against *a, char **names, int n) {
    char path[4096];
    if (!find_program(a->program, path, sizeof path)) {
        fprintf(stderr, "sinter: --against: no program '%s'\n", path);
        return EXIT_environment;
    }
    a->program = path;
    bool all = true;
    for (const BenchRow *row = bench_rows; row->name; row++)
        for (int i = 0; i < n; i++)
            if (!strncmp(row->name, names[i], strlen(names[i]))) {
                all &= compare_row(a, row->name);
                break;
            }
    for (int i = 0; i < n; i++)
        if (sample_exists(names[i])) all &= compare_row(a, names[i]);
    return all ? EXIT_done : EXIT_wrong;
}
