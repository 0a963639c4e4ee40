/* bench_nvrtc.c: rows nvrtc/...: from the text of a function's kernels that are no products to code for sm_90 by NVRTC,
 * each plan a program, as on a device; none is asked for. Processor time of all its threads: machines are shared. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frontend/tool/bench.h"
#include "kernels/cuda/prelude.h"
#include "runtime/base/error.h"
#include "runtime/cuda/nvrtc.h"

enum { ARCH = 90, RUNS = 7 };

static double processor_ms(void) { return (double)clock() * 1e3 / CLOCKS_PER_SEC; }

static Status compile_one(const char *text, size_t n) {
    CudaCode code;
    Text source = {0};
    text_puts(&source, cuda_prelude);
    text_put(&source, text, n);
    const Status status = source.at ? cuda_compile(source.at, "bench", ARCH, &code) : ST_MEMORY;
    text_free(&source);
    if (status == ST_OK) cuda_code_free(&code);
    return status;
}

/* The end of the text under one head line of a dump ("# graph 0"). */
static const char *end_of_part(const char *text) {
    const char *at = text;
    while (at && strncmp(at, "# ", 2)) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    return at ? at : text + strlen(text);
}

static Status compile_all(const char *text, int *n) {
    for (*n = 0; *text;) {
        const char *const end = end_of_part(text);
        const bool has_kernels = memmem(text, (size_t)(end - text), "KERNEL ", 7) != NULL;
        if (has_kernels) TRY(compile_one(text, (size_t)(end - text)));
        *n += has_kernels;
        text = *end ? strchr(end, '\n') : end;
        if (!text) break;
    }
    return ST_OK;
}

BenchNvrtc bench_nvrtc(const char *text) {
    BenchNvrtc out = {0};
    double ms[RUNS];
    if (compile_all(text, &out.programs) != ST_OK) return out; /* opens NVRTC, which is not counted */
    for (int i = 0; i < RUNS; i++) {
        const double start = processor_ms();
        if (compile_all(text, &out.programs) != ST_OK) return out;
        ms[i] = processor_ms() - start;
    }
    qsort(ms, RUNS, sizeof *ms, bench_by_value);
    out.ms = ms[RUNS / 2], out.min_ms = ms[0];
    return out;
}
