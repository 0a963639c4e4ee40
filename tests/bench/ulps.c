/* ulps.c: the largest error of each elementary function, and where (`./dev ulps`): of f32 over all 2^32 inputs, of f64
 * over a sample, of halves how many of all 65,536 are not correctly rounded; beside them what PyTorch's CPU kernels
 * give for the inputs of a sample. Not a test: unit/test_ulps.c takes 2^20 inputs each.
 *
 *     ulps [--every=N] [FUNCTION...]  lines of a table (markdown), of every Nth f32
 *     ulps --pairs=N [FUNCTION...]    the same of functions of two arguments, over N pairs (2^26 where N is 0)
 *     ulps --inputs DIR               writes that sample's inputs, for oracle/torch_ulps.py
 *     ulps --record DIR               reads PyTorch's results there, and prints what oracle/torch_ulps.txt holds */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/ref/ulps.h"

enum { SAMPLES = 1 << 20, EVERY = 4093, F64_INPUTS = 1 << 24 };

static const char *const types[] = {[S_f32] = "f32", [S_f64] = "f64"};

static FILE *opened(const char *folder, const char *name, const char *type, const char *mode) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, type);
    FILE *const file = fopen(path, mode);
    if (!file) perror(path), exit(3);
    return file;
}

static void write_inputs(const char *folder) {
    for (int type = S_f32; type <= S_f64; type++) {
        FILE *const file = opened(folder, "inputs", types[type], "wb");
        for (uint64_t i = 0; i < SAMPLES; i++) {
            const double x = ulps_input((SType)type, i, EVERY);
            const float single = (float)x;
            fwrite(type == S_f32 ? (const void *)&single : &x, type == S_f32 ? 4 : 8, 1, file);
        }
        fclose(file);
    }
}

static void record(const UlpsRow *row, SType type, const char *folder) {
    FILE *const file = opened(folder, row->name, types[type], "rb");
    double worst = 0, at = 0;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const double x = ulps_input(type, i, EVERY);
        float single = 0;
        double got = 0;
        if (!fread(type == S_f32 ? (void *)&single : &got, type == S_f32 ? 4 : 8, 1, file)) perror(row->name), exit(3);
        if (type == S_f32) got = (double)single;
        const double error = ulps_between(type, got, type == S_f32 ? (long double)row->near(x) : row->wide(x));
        if (error > worst) worst = error, at = x;
    }
    fclose(file);
    printf("%s %s %.3g %.9g\n", row->name, types[type], worst, at);
}

/* "1.03 at -0.5" of the recorded lines, or "" */
static void print_recorded(const UlpsRow *row, SType type) {
    FILE *const file = fopen(TORCH_ULPS, "r");
    char name[32], of[8];
    double ulps, at;
    while (file && fscanf(file, "%31s %7s %lf %lf", name, of, &ulps, &at) == 4)
        if (!strcmp(name, row->name) && !strcmp(of, types[type])) printf("%.3g at %.6g", ulps, at);
    if (file) fclose(file);
}

static void print_row(const UlpsRow *row, uint64_t every) {
    UlpsWorst f32 = {0}, f64 = {0};
    ulps_sweep(row, S_f32, 0, (1ll << 32) / (int64_t)every, every, &f32);
    ulps_sweep(row, S_f64, 1 << 30, F64_INPUTS, 0, &f64);
    printf("| %s | %.4f at %.9g | %.4f at %.17g | %d | %d | ", row->name, f32.ulps, f32.at, f64.ulps, f64.at,
           ulps_wrong_halves(row, DT_f16), ulps_wrong_halves(row, DT_bf16));
    if (f32.wrong_way + f64.wrong_way) printf("%ld, %ld | ", (long)f32.wrong_way, (long)f64.wrong_way);
    if (!(f32.wrong_way + f64.wrong_way)) printf("%s | ", row->trend == TREND_none ? "-" : "yes");
    print_recorded(row, S_f32);
    printf(" | ");
    print_recorded(row, S_f64);
    printf(" |\n");
    fflush(stdout);
}

static void print_pair(const UlpsPair *row, int64_t n) {
    UlpsWorst f32 = {0}, f64 = {0};
    ulps_sweep_pairs(row, S_f32, 1 << 30, n, &f32);
    ulps_sweep_pairs(row, S_f64, 1 << 30, n, &f64);
    printf("| %s | %.4f at %.9g, %.9g | %.4f at %.17g, %.17g |\n", row->name, f32.ulps, f32.at, f32.at_second, f64.ulps,
           f64.at, f64.at_second);
    fflush(stdout);
}

static bool is_named(const char *name, int n, char **names) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return n == 0;
}

static int print_pairs(int64_t n, int names, char **named) {
    int found = 0;
    printf("| | f32 | f64 |\n|---|---|---|\n");
    for (int i = 0; i < ulps_pair_count(); i++)
        if (is_named(ulps_pairs[i].name, names, named)) found++, print_pair(&ulps_pairs[i], n ? n : 1 << 26);
    return found ? 0 : 2;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--inputs")) return write_inputs(argv[2]), 0;
    if (argc > 1 && !strncmp(argv[1], "--pairs=", 8))
        return print_pairs(strtoll(argv[1] + 8, NULL, 10), argc - 2, argv + 2);
    uint64_t every = 1;
    if (argc > 1 && !strncmp(argv[1], "--every=", 8)) every = strtoull(argv[1] + 8, NULL, 10), argc--, argv++;
    if (!every) return 2;
    const bool records = argc == 3 && !strcmp(argv[1], "--record");
    int found = 0;
    if (!records) {
        printf("| | f32 | f64, 2^24 inputs | f16 off | bf16 off | monotone | PyTorch f32 | PyTorch f64 |\n");
        printf("|---|---|---|---|---|---|---|---|\n");
    }
    for (int i = 0; i < ulps_row_count(); i++) {
        const UlpsRow *const row = &ulps_rows[i];
        if (records) record(row, S_f32, argv[2]), record(row, S_f64, argv[2]);
        if (!records && is_named(row->name, argc - 1, argv + 1)) found++, print_row(row, every);
    }
    if (records || found) return 0;
    fprintf(stderr, "ulps: no such function: %s\n", argv[1]);
    return 2;
}
