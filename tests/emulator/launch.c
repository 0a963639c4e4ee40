/* launch.c: what a launch may ask for, as sm_80 has it, and its blocks one after another, in an order that a seed
 * shuffles (EMULATED_CUDA="seed=7"): a program that needs one of them to run before another goes wrong. */
#include <stdlib.h>
#include <string.h>

#include "tests/emulator/gpu.h"
#include "tests/emulator/planted.h"

static bool is_within(Dim3 size, Dim3 most) {
    return size.x && size.y && size.z && size.x <= most.x && size.y <= most.y && size.z <= most.z;
}

static uint64_t volume(Dim3 size) { return (uint64_t)size.x * size.y * size.z; }

static CuResult check_limits(const GpuLaunch *l) {
    const GpuKernel *const kernel = l->kernel;
    const int bound = kernel->entry->most_threads;
    const bool grid = is_within(l->grid, (Dim3){INT32_MAX, 65535, 65535});
    const bool block = is_within(l->block, (Dim3){1024, 1024, 64}) && volume(l->block) <= LAUNCH_THREADS;
    if (!grid || !block || volume(l->grid) > UINT64_C(1) << 40) return CU_invalid_value;
    if (l->dynamic > (unsigned)kernel->most_dynamic) return CU_invalid_value;
    return bound && volume(l->block) > (unsigned)bound ? GPU_out_of_resources : CU_success;
}

static const char *why_refused(const GpuLaunch *l) {
    if (l->dynamic > (unsigned)l->kernel->most_dynamic) return "more shared memory than it may have";
    return check_limits(l) == GPU_out_of_resources ? "more threads than its __launch_bounds__"
                                                   : "no grid or block that sm_80 can have";
}

/* The arguments are copied: they are the caller's only until the call returns. */
static CuResult copy_arguments(GpuLaunch *l, void **arguments) {
    const int n = l->kernel->n_parameters;
    const int *const sizes = l->kernel->entry->sizes;
    l->arguments = calloc((size_t)n + 1, sizeof *l->arguments);
    for (int i = 0; i < n; i++) {
        if (!arguments || !arguments[i]) return CU_invalid_value;
        l->arguments[i] = aligned_alloc(64, ((size_t)sizes[i] + 63) / 64 * 64);
        memcpy(l->arguments[i], arguments[i], (size_t)sizes[i]);
    }
    return CU_success;
}

CuResult launch_new(GpuLaunch request, void **arguments, GpuLaunch **out) {
    CuResult result = check_limits(&request);
    if (result != CU_success) {
        const Dim3 g = request.grid, b = request.block;
        emulator_tell("%s: a launch of %u x %u x %u blocks of %u x %u x %u threads and %u bytes: %s",
                      request.kernel->entry->name, g.x, g.y, g.z, b.x, b.y, b.z, request.dynamic,
                      why_refused(&request));
        return result;
    }
    GpuLaunch *const launch = malloc(sizeof *launch);
    *launch = request;
    launch->kernel->queued++;
    result = copy_arguments(launch, arguments);
    if (result == CU_success)
        *out = launch;
    else
        launch_free(launch);
    return result;
}

void launch_free(GpuLaunch *launch) {
    for (int i = 0; i < launch->kernel->n_parameters; i++) free(launch->arguments[i]);
    free(launch->arguments);
    launch->kernel->queued--;
    free(launch);
}

/* Every block once: from any one on in steps that have no divisor in common with their number. */
CuResult launch_run(Gpu *gpu, GpuLaunch *launch) {
    static uint64_t launches;
    const Dim3 g = launch->grid;
    const uint64_t n = volume(g);
    uint64_t state = (uint64_t)gpu_option("seed=", 1) + 977 * launches++;
    uint64_t at = fiber_random(&state) % n, step = fiber_random(&state) % n;
    while (common_divisor((int64_t)step, (int64_t)n) != 1) step++;
    CuResult result = CU_success;
    access_begin(gpu, launch);
    gpu_open_window(gpu, true);
    const uint64_t left_out = n > 1 && planted(PLANTED_block_missing), again = planted(PLANTED_block_twice);
    for (uint64_t i = left_out; i < n + again && result == CU_success; i++, at = (at + step) % n) {
        const Dim3 block = {(unsigned)(at % g.x), (unsigned)(at / g.x % g.y), (unsigned)(at / g.x / g.y)};
        result = fiber_block(launch, block, fiber_random(&state));
    }
    gpu_open_window(gpu, false);
    return result;
}
