/* cpu_launch.c: the CPU runs a kernel of a plan: loop nests, by generated code or the interpreter, or a GEMM with its
 * epilogue; split over the pool.
 *
 * A nest is split along one outer dim into parts whose results do not depend on the split: the inner dims, which carry
 * the canonical orders, stay whole. */
#include "runtime/cpu/cpu_launch.h"

#include <stdatomic.h>

#include "runtime/base/alloc.h"
#include "runtime/base/room.h"
#include "runtime/cpu/cpu_gemm.h"
#include "runtime/cpu/interp.h"
#include "runtime/cpu/pool.h"

enum {
    FEW = 256, /* buffers that fusion puts into one kernel; a long cat of its own has more */
    PART_WORK = 1 << 16
}; /* instruction-elements below which a part is not worth a thread */

typedef struct Bound { /* a kernel's buffers and parameters for this call */
    void **bufs;
    int64_t *params;
    void *few_bufs[FEW];
    int64_t few_params[FEW];
} Bound;

static bool bound_begin(Bound *bound, const Kernel *kernel) {
    bound->bufs = ROOM(bound->few_bufs, kernel->n_bufs);
    bound->params = ROOM(bound->few_params, kernel->n_params);
    return bound->bufs && bound->params;
}

static void bound_end(Bound *bound) {
    room_give(bound->few_bufs, bound->bufs);
    room_give(bound->few_params, bound->params);
}

static void bind(const Launch *launch, const Step *step, Bound *bound) {
    const Kernel *const kernel = step->kernel;
    for (int i = 0; i < kernel->n_bufs; i++) bound->bufs[i] = step->bufs[i] < 0 ? NULL : launch->slots[step->bufs[i]];
    for (int i = 0; i < kernel->n_params; i++) {
        if (kernel->param_is_float && kernel->param_is_float[i])
            memcpy(&bound->params[i], &launch->floats[kernel->params[i]], sizeof(int64_t));
        else
            bound->params[i] = launch_int(launch, kernel->params[i]);
    }
}

/* Kernel ints are plain or name a parameter. */
static int64_t kernel_int(const Bound *bound, int64_t value) {
    return sym_is(value) ? bound->params[sym_id(value)] : value;
}

static inline void run_code(const NestCode *code, const Bound *bound, const int64_t *lo, const int64_t *hi,
                            NestError *error) {
    if (code->native)
        code->native(bound->bufs, bound->params, lo, hi, error);
    else
        interp_run(code->program, bound->bufs, bound->params, lo, hi, error);
}

/* The op that the user called and that the failed instruction comes from; NULL: unknown. */
static const OpRow *checked_op(const Graph *graph, const Nest *nest, int inst) {
    const int source = inst >= 0 && inst < nest->n_insts ? nest->insts[inst].source : -1;
    for (const Node *node = graph->first; node; node = node->next)
        if (node->id == source) return node->origin ? node->origin : node->row;
    return NULL;
}

static Status raise_check(const Launch *launch, const Step *step, const Nest *nest, const NestError *error) {
    if (error->inst == INTERP_NO_MEMORY) return ST_MEMORY;
    const OpRow *const row = checked_op(launch->e->plan->graph, nest, error->inst);
    const char *const op = row ? row->name : step->kernel->name;
    const char *const param = row ? op_checked_param(row) : "index";
    if (!strcmp(param, "other")) /* the check of body_nonzero */
        return error_raise(ST_VALUE, "%s: an integer is divided by zero in other", op);
    return error_raise(ST_VALUE, "%s: %s %lld is out of range for %lld %s", op, param, (long long)error->index,
                       (long long)error->bound, strcmp(param, "target") ? "elements" : "classes");
}

/* nests --------------------------------------------------------------------------------------- */

typedef struct Split {
    const NestCode *code;
    const Bound *bound;
    int dim, n_outer, n_parts;
    int64_t extent[MAX_LOOP_DIMS], part; /* part: iterations of `dim` each */
    NestError *errors;
} Split;

static void run_part(void *context, int i) {
    const Split *const split = context;
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
static void decide(const Nest *nest, Split *split, int64_t inner) {
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
    Split split = {.code = code, .bound = bound, .n_outer = nest->n_outer, .errors = errors};
    int64_t inner = 1;
    for (int d = 0; d < nest->n_outer + nest->n_inner; d++) {
        const int64_t extent = kernel_int(bound, nest->extent[d]);
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
        if (UNLIKELY(errors[i].inst != -1)) return raise_check(launch, step, nest, &errors[i]);
    return ST_OK;
}

/* GEMM ---------------------------------------------------------------------------------------- */

typedef struct Product {
    GemmCall call;
    const Kernel *kernel;
    const NestCode *epilogue; /* NULL: stored by gemm() */
    const Bound *bound;
    bool batched;
    NestError error; /* an epilogue's failed check; any of them, the message names one */
    _Atomic int failed;
} Product;

/* The epilogue sees the tile as a buffer based so that b[row * ld + column] is right. */
static void bind_tile(const Product *product, const GemmTile *tile, Bound *bound) {
    const GemmDesc *const desc = product->kernel->gemm;
    const int bytes = stype_bytes(dtype_compute(desc->dtype));
    memcpy(bound->bufs, product->bound->bufs, (size_t)product->kernel->n_bufs * sizeof(void *));
    memcpy(bound->params, product->bound->params, (size_t)product->kernel->n_params * sizeof(int64_t));
    bound->bufs[desc->tile] = (char *)(uintptr_t)tile->at - (tile->row * tile->ld + tile->column) * bytes;
    if (desc->tile_ld >= 0) bound->params[desc->tile_ld] = tile->ld;
}

/* One finished tile. */
static void run_tile(void *context, const GemmTile *tile) {
    Product *const product = context;
    Bound bound;
    NestError error = {.inst = -1};
    const int64_t lo[3] = {product->batched ? tile->batch : tile->row, product->batched ? tile->row : tile->column,
                           tile->column};
    const int64_t hi[3] = {product->batched ? tile->batch + 1 : tile->row + tile->rows,
                           product->batched ? tile->row + tile->rows : tile->column + tile->columns,
                           tile->column + tile->columns};
    if (LIKELY(bound_begin(&bound, product->kernel))) {
        bind_tile(product, tile, &bound);
        run_code(product->epilogue, &bound, lo, hi, &error);
    } else {
        error.inst = INTERP_NO_MEMORY;
    }
    bound_end(&bound);
    if (UNLIKELY(error.inst != -1) && !atomic_exchange(&product->failed, 1)) product->error = error;
}

static void *offset_by(void *base, int64_t elements, DType dtype) {
    return base ? (char *)base + elements * dtype_bytes(dtype) : NULL;
}

static void describe(const GemmDesc *desc, const Bound *bound, GemmCall *call) {
    int64_t a[3], b[3], c[3];
    for (int i = 0; i < 3; i++) {
        a[i] = kernel_int(bound, desc->a_stride[i]);
        b[i] = kernel_int(bound, desc->b_stride[i]);
        c[i] = kernel_int(bound, desc->c_stride[i]);
    }
    *call = (GemmCall){
        .dtype = desc->dtype,
        .m = kernel_int(bound, desc->m),
        .n = kernel_int(bound, desc->n),
        .k = kernel_int(bound, desc->k),
        .batch = kernel_int(bound, desc->batch),
        .a = offset_by(bound->bufs[desc->a], kernel_int(bound, desc->a_offset), desc->dtype),
        .b = offset_by(bound->bufs[desc->b], kernel_int(bound, desc->b_offset), desc->dtype),
        .c = desc->c < 0 ? NULL : offset_by(bound->bufs[desc->c], kernel_int(bound, desc->c_offset), desc->dtype),
        .a_batch = a[0],
        .a_row = a[1],
        .a_col = a[2],
        .b_batch = b[0],
        .b_row = b[1],
        .b_col = b[2],
        .c_batch = c[0],
        .c_row = c[1],
        .c_col = c[2],
    };
}

static Status run_gemm(Launch *launch, const Step *step, const NestCode *codes, const Bound *bound) {
    const Kernel *const kernel = step->kernel;
    Product product = {.kernel = kernel, .bound = bound, .batched = kernel->n_nests && kernel->nests[0].n_outer == 3};
    describe(kernel->gemm, bound, &product.call);
    if (kernel->gemm->tile >= 0) {
        product.epilogue = &codes[0];
        product.call.tile = run_tile;
        product.call.context = &product;
    }
    TRY(gemm_run(&product.call));
    return product.failed ? raise_check(launch, step, &kernel->nests[0], &product.error) : ST_OK;
}

static Status run_kernel(Launch *launch, const Step *step, const NestCode *codes, const Bound *bound) {
    if (step->kernel->kind == KERNEL_gemm) return run_gemm(launch, step, codes, bound);
    for (int i = 0; i < step->kernel->n_nests; i++)
        TRY(run_nest(launch, step, &step->kernel->nests[i], &codes[i], bound));
    return ST_OK;
}

Status cpu_launch(Launch *launch, int at) {
    const Step *const step = &launch->e->plan->steps.at[at];
    Bound bound;
    Status status = ST_MEMORY;
    if (LIKELY(bound_begin(&bound, step->kernel))) {
        bind(launch, step, &bound);
        status = run_kernel(launch, step, &launch->e->codes[launch->e->first_code[at]], &bound);
    }
    bound_end(&bound);
    return status;
}
