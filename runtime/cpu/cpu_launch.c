/* cpu_launch.c: the CPU runs a kernel of a plan: loop nests, by generated code or the interpreter, or a
 * template with its epilogue; split over the pool.
 *
 * A nest is split along one outer dim into parts whose results do not depend on the split: the inner dims, which carry
 * the canonical orders, stay whole. */
#include "runtime/cpu/cpu_launch.h"

#include <stdatomic.h>

#include "kernels/kernels.h"
#include "runtime/base/alloc.h"
#include "runtime/cpu/cpu_code.h"
#include "runtime/cpu/interp.h"
#include "runtime/core/pool.h"
#include "runtime/cpu/template.h"
#include "runtime/device/launch_bind.h"
#include "runtime/device/repeat.h"

enum {
    FEW = 256, /* parts */
    PART_WORK = 1 << 16
}; /* instruction-elements below which a part is not worth a thread */

static inline void run_code(const NestCode *code, const Bound *bound, const int64_t *lo, const int64_t *hi,
                            NestError *error) {
    if (code->native)
        code->native(bound->bufs, bound->params, lo, hi, error);
    else
        interp_run(code->program, bound->bufs, bound->params, lo, hi, error);
}

static Status raise_error(const Launch *launch, const Step *step, const Nest *nest, const NestError *error) {
    if (error->inst == INTERP_NO_MEMORY) return ST_MEMORY;
    return raise_check(checked_op(launch->e->plan, nest, error->inst), step->kernel->name, error->index, error->bound);
}

/* nests --------------------------------------------------------------------------------------- */

typedef struct LaunchSplit {
    const NestCode *code;
    const Bound *bound;
    int dim, n_outer, n_parts;
    int64_t extent[MAX_LOOP_DIMS], part; /* part: iterations of `dim` each */
    NestError *errors;
} LaunchSplit;

static void run_part(void *context, int i) {
    const LaunchSplit *const split = context;
    int64_t lo[MAX_LOOP_DIMS] = {0}, hi[MAX_LOOP_DIMS];
    for (int d = 0; d < split->n_outer; d++) hi[d] = split->extent[d];
    if (split->n_outer) {
        lo[split->dim] = split->part * i;
        hi[split->dim] = min_i64(split->part * (i + 1), split->extent[split->dim]);
    }
    run_code(split->code, split->bound, lo, hi, &split->errors[i]);
}

/* The outer dim with the most iterations, in parts of whole blocks where it is the last one. Columns
 * of a reduction over rows get one part per thread: narrow ones read short pieces of every row. */
static void decide(const Nest *nest, LaunchSplit *split, int64_t inner) {
    int64_t total = inner * nest->n_insts;
    for (int d = 0; d < nest->n_outer; d++) {
        total *= split->extent[d];
        if (split->extent[d] > split->extent[split->dim]) split->dim = d;
    }
    split->n_parts = 1;
    split->part = nest->n_outer ? split->extent[split->dim] : 1;
    const int64_t most = total / PART_WORK;
    if (!nest->n_outer || most < 2 || pool_threads() == 1) return;
    const bool last = split->dim == nest->n_outer - 1;
    const bool elements = last && !nest->n_inner;
    const bool columns = last && nest->n_inner && nest->n_s == nest->n_inner;
    const int64_t parts = pool_threads() * (columns ? 1 : 4);
    const int64_t wanted = min_i64(min_i64(most, parts), FEW);
    split->part = round_up(ceil_div(split->part, wanted), elements ? BLOCK : columns ? LANES_L : 1);
    split->n_parts = (int)ceil_div(split->extent[split->dim], split->part);
}

static Status run_nest(Launch *launch, const Step *step, const Nest *nest, const NestCode *code, const Bound *bound) {
    NestError errors[FEW];
    LaunchSplit split = {.code = code, .bound = bound, .n_outer = nest->n_outer, .errors = errors};
    int64_t inner = 1;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) {
        const int64_t extent = bound_int(bound, nest->extent[d]);
        if (d >= nest->n_outer)
            inner *= extent;
        else if (!extent)
            return ST_OK;
        else
            split.extent[d] = extent;
    }
    decide(nest, &split, inner ? inner : 1);
    for (int i = 0; i < split.n_parts; i++) errors[i] = (NestError){.inst = -1};
    pool_run(split.n_parts, run_part, &split);
    for (int i = 0; i < split.n_parts; i++)
        if (UNLIKELY(errors[i].inst != -1)) return raise_error(launch, step, nest, &errors[i]);
    return ST_OK;
}

/* templates ----------------------------------------------------------------------------------- */

typedef struct Filled {
    const Kernel *kernel;
    const NestCode *epilogue; /* NULL: the template stores */
    const Bound *bound;
    NestError error; /* an epilogue's failed check; any of them, the message names one */
    _Atomic int failed;
} Filled;

/* The epilogue sees the tile as a buffer based so that b[row * ld + column] is right. */
static void bind_tile(const Filled *filled, const TemplateTile *tile, Bound *bound) {
    const TemplateUse *const use = filled->kernel->template;
    const int bytes = stype_bytes(dtype_compute(use->dtype)), rank = (int)strlen(use->row->hole);
    memcpy(bound->bufs, filled->bound->bufs, (size_t)filled->kernel->n_bufs * sizeof(void *));
    memcpy(bound->params, filled->bound->params, (size_t)filled->kernel->n_params * sizeof(int64_t));
    bound->bufs[use->tile] = (char *)(uintptr_t)tile->at - (tile->lo[rank - 2] * tile->ld + tile->lo[rank - 1]) * bytes;
    if (use->tile_ld >= 0) bound->params[use->tile_ld] = tile->ld;
}

/* One finished tile. */
static void run_tile(void *context, const TemplateTile *tile) {
    Filled *const filled = context;
    Bound bound;
    NestError error = {.inst = -1};
    const int skip = (int)strlen(filled->kernel->template->row->hole) - filled->kernel->nests[0].n_outer;
    if (LIKELY(bound_begin(&bound, filled->kernel))) {
        bind_tile(filled, tile, &bound);
        run_code(filled->epilogue, &bound, tile->lo + skip, tile->hi + skip, &error);
    } else {
        error.inst = INTERP_NO_MEMORY;
    }
    bound_end(&bound);
    if (UNLIKELY(error.inst != -1) && !atomic_exchange(&filled->failed, 1)) filled->error = error;
}

static Status run_template(Launch *launch, const Step *step, const CpuStep *code, const Bound *bound) {
    static TemplateFn *const run_of[] = {
#define TEMPLATE(name, ...) [TEMPLATE_##name] = template_run_##name,
#include "ir/templates.def"
#undef TEMPLATE
    };
    const Kernel *const kernel = step->kernel;
    Filled filled = {.kernel = kernel, .bound = bound};
    TemplateRun run = {0};
    template_bind(kernel->template, bound, &run);
    if (kernel->template->tile >= 0) {
        filled.epilogue = &code->nests[0];
        run.tile = run_tile;
        run.context = &filled;
    }
    TRY(run_of[template_id(kernel->template->row)](&run));
    return filled.failed ? raise_error(launch, step, &kernel->nests[0], &filled.error) : ST_OK;
}

static Status run_kernel(Launch *launch, const Step *step, const CpuStep *code, const Bound *bound) {
    if (step->kernel->template) return run_template(launch, step, code, bound);
    for (int i = 0; i < step->kernel->n_nests; i++)
        TRY(run_nest(launch, step, &step->kernel->nests[i], &code->nests[i], bound));
    return ST_OK;
}

Status cpu_launch(Launch *launch, int at) {
    const Step *const step = &launch->e->plan->steps.at[at];
    Bound bound;
    Status status = ST_MEMORY;
    if (LIKELY(bound_begin(&bound, step->kernel))) {
        bound_fill(launch, step, &bound);
        status = run_kernel(launch, step, launch->e->codes[at], &bound);
    }
    bound_end(&bound);
    return status;
}

Status cpu_repeat(Launch *launch, struct Repeat *repeat) {
    const Plan *const plan = launch->e->plan;
    execute_counts()->launches++;
    for (int s = 0; s < plan->steps.n; s++)
        TRY(plan->steps.at[s].kind == STEP_kernel ? cpu_launch(launch, s) : launch_native(launch, &plan->steps.at[s]));
    atomic_fetch_add_explicit(&repeat->launches, 1, memory_order_relaxed);
    return ST_OK;
}
