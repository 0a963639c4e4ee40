/* cuda_gemm_core.c: see cuda_gemm_core.h. Large tiles need the fewest reads of memory and registers for the most
 * multiplications; medium ones fill a device that few large ones would leave idle, and need fewer registers (for
 * operands that both lie anyhow, and for types of 8 bytes); small ones are for a handful of rows, where reading B is
 * all the work. */
#include "runtime/cuda/cuda_gemm_core.h"

#include <stdio.h>

#include "runtime/base/log.h"

enum { QUAD_BYTES = 16, SMALL_ROWS = 16 };

static const struct {
    int m, n, k, thread_m, thread_n;
    int blocks; /* that are to fit on a multiprocessor together */
} tiles[CORE_TILES] = {
    [CORE_large] = {128, 128, 8, 8, 8, 2},     [CORE_medium] = {64, 64, 16, 4, 4, 2},
    [CORE_small] = {16, 32, 64, 2, 2, 4},      [CORE_medium_long] = {64, 64, 16, 4, 4, 1},
    [CORE_small_long] = {16, 32, 32, 2, 2, 2},
};

static int threads_of(CoreTile tile) {
    return tiles[tile].m / tiles[tile].thread_m * (tiles[tile].n / tiles[tile].thread_n);
}

static int64_t blocks_of(CoreTile tile, const CudaProduct *product) {
    return product->batches * ceil_div(product->g.m, tiles[tile].m) * ceil_div(product->g.n, tiles[tile].n);
}

/* choosing ------------------------------------------------------------------------------------ */

/* An operand's dims: x, of which C has as many, and k. */
typedef struct CoreOperand {
    const void *at;
    int64_t x, k, batch_step, x_step, k_step;
} CoreOperand;

static bool quads(int64_t count, int64_t other_step, int64_t batch_step) {
    return count % 4 == 0 && other_step % 4 == 0 && batch_step % 4 == 0;
}

static CoreLies lies(const CoreOperand *operand, int bytes) {
    const int64_t batch_step = operand->batch_step, x_step = operand->x > 1 ? operand->x_step : 0;
    if ((uintptr_t)operand->at % (uintptr_t)min_i64(QUAD_BYTES, 4 * bytes)) return LIES_anyhow;
    if (operand->k_step == 1 && quads(operand->k, x_step, batch_step)) return LIES_along_k;
    if (operand->x_step == 1 && quads(operand->x, operand->k_step, batch_step)) return LIES_along_x;
    return LIES_anyhow;
}

/* C' = B' A': each element's products are the same, with their factors in the other order. */
static void swap_operands(CudaProduct *product) {
    const CudaGemm g = product->g;
    const void *const a = product->a;
    product->a = product->b, product->b = a;
    product->g = (CudaGemm){.m = g.n,
                            .n = g.m,
                            .k = g.k,
                            .a_batch = g.b_batch,
                            .a_row = g.b_col,
                            .a_col = g.b_row,
                            .b_batch = g.a_batch,
                            .b_row = g.a_col,
                            .b_col = g.a_row,
                            .c_batch = g.c_batch,
                            .c_row = g.c_col,
                            .c_col = g.c_row};
}

static CoreTile choose_tile(const CudaProduct *product, const CudaCore *core, int multiprocessors) {
    const bool is_long = stype_bytes(dtype_compute(core->dtype)) == 8, small = product->g.m <= SMALL_ROWS;
    if (is_long) return small ? CORE_small_long : CORE_medium_long;
    if (small) return CORE_small;
    const bool takes_large =
        (core->dtype == DT_f32 || core->dtype == DT_i32) && (core->left != LIES_anyhow || core->right != LIES_anyhow);
    return takes_large && 2 * blocks_of(CORE_large, product) >= multiprocessors ? CORE_large : CORE_medium;
}

CudaCore cuda_core_choose(CudaProduct *product, int multiprocessors) {
    if (product->g.n <= SMALL_ROWS && product->g.n < product->g.m) swap_operands(product);
    const CudaGemm *const g = &product->g;
    const int64_t apart = product->batches > 1;
    const CoreOperand a = {product->a, g->m, g->k, apart * g->a_batch, g->a_row, g->a_col};
    const CoreOperand b = {product->b, g->n, g->k, apart * g->b_batch, g->b_col, g->b_row};
    const int bytes = dtype_bytes(product->dtype);
    CudaCore core = {.dtype = product->dtype, .left = lies(&a, bytes), .right = lies(&b, bytes)};
    core.tile = choose_tile(product, &core, multiprocessors);
    return core;
}

/* printing ------------------------------------------------------------------------------------ */

static const struct {
    char letter;
    const char *word;
} lies_words[CORE_LIES] = {{'k', "ALONG_K"}, {'x', "ALONG_X"}, {'a', "ANYHOW"}};

const char *cuda_core_name(const CudaCore *core, CoreName *name) {
    snprintf(name->buffer, sizeof name->buffer, "product_%s_%dx%d_%c%c", dtype_name(core->dtype), tiles[core->tile].m,
             tiles[core->tile].n, lies_words[core->left].letter, lies_words[core->right].letter);
    return name->buffer;
}

void cuda_core_print(Text *text, const CudaCore *core) {
    CoreName name;
    const char *const dtype = dtype_name(core->dtype), *const type = stype_name(dtype_compute(core->dtype));
    const int sizes[] = {tiles[core->tile].m, tiles[core->tile].n, tiles[core->tile].k, tiles[core->tile].thread_m,
                         tiles[core->tile].thread_n};
    static const char *const words[] = {"TILE_M", "TILE_N", "TILE_K", "THREAD_M", "THREAD_N"};
    text_printf(text, "typedef memory_%s Element;\ntypedef v_%s Value;\n", dtype, type);
    text_printf(text,
                "#define VALUE_OF of_%s\n#define ELEMENT_OF to_%s\n#define CHAIN chain_%s\n#define ADD vec_add_%s\n",
                dtype, dtype, type, type);
    for (int i = 0; i < COUNT_OF(words); i++) text_printf(text, "#define %s %d\n", words[i], sizes[i]);
    text_printf(text, "#define LEFT %s\n#define RIGHT %s\n", lies_words[core->left].word, lies_words[core->right].word);
    text_puts(text, cuda_gemm);
    text_printf(text,
                "KERNEL __launch_bounds__(%d, %d) %s(const Element *a, const Element *b, void *c, Gemm g, int wide, "
                "int later, int visible, Failed *failed) {\n"
                "    if (visible && __syncthreads_or(failed->launch >= 0)) return;\n"
                "    product(a, b, c, g, wide, later);\n}\n",
                threads_of(core->tile), tiles[core->tile].blocks, cuda_core_name(core, &name));
}

/* running ------------------------------------------------------------------------------------- */

/* Of each device, for the process's time; NULL: not compiled yet. */
static _Atomic(CuFunction) functions[CUDA_MOST_DEVICES][DT_COUNT][CORE_TILES][CORE_LIES][CORE_LIES];

/* Two threads may come first: the program that they get is one. */
static Status function_of(CudaDevice *device, const CudaCore *core, CuFunction *out) {
    _Atomic(CuFunction) *const cached =
        &functions[device->row.memory.device - DEV_cuda][core->dtype][core->tile][core->left][core->right];
    if ((*out = atomic_load_explicit(cached, memory_order_acquire))) return ST_OK;
    CoreName name;
    CudaProgram *program;
    Text source = {0};
    cuda_core_print(&source, core);
    Status status = source.at ? cuda_program(device, cuda_core_name(core, &name), &source, &program) : ST_MEMORY;
    text_free(&source);
    if (status == ST_OK) status = cuda_program_function(device, program, name.buffer, out);
    if (status == ST_OK) atomic_store_explicit(cached, *out, memory_order_release);
    return status;
}

static Status launch_chunk(CudaDevice *device, CoreTile tile, CuFunction function, CudaProduct *product, int later) {
    CudaStream *const stream = cuda_stream(device);
    int is_wide = product->wide, visible = product->visible;
    void *values[] = {&product->a, &product->b, &product->c, &product->g,
                      &is_wide,    &later,      &visible,    &stream->checks.word};
    const CudaStart start = {function, (unsigned)blocks_of(tile, product), (unsigned)threads_of(tile), 0, values};
    return cuda_launch_function(device, &start);
}

static void trace(const CudaCore *core, const CudaProduct *given) {
    CoreName name;
    LOG(dispatch, INFO, "product %s: %s: M=%lld N=%lld K=%lld batches=%lld", dtype_name(core->dtype),
        cuda_core_name(core, &name), (long long)given->g.m, (long long)given->g.n, (long long)given->g.k,
        (long long)given->batches);
}

/* Large tiles take a chunk of k at a time. */
Status cuda_core_launch(CudaDevice *device, const CudaProduct *given) {
    CudaProduct product = *given;
    const CudaCore core = cuda_core_choose(&product, device->multiprocessors);
    const int64_t k = product.g.k, most = core.tile == CORE_large ? CUDA_GEMM_CHUNK : k,
                  bytes = dtype_bytes(core.dtype);
    CuFunction function;
    if (!blocks_of(core.tile, &product)) return ST_OK;
    TRY(function_of(device, &core, &function));
    trace(&core, given);
    int64_t p = 0;
    do {
        product.g.k = min_i64(most, k - p);
        TRY(launch_chunk(device, core.tile, function, &product, p > 0));
        product.a = (const char *)product.a + product.g.k * product.g.a_col * bytes;
        product.b = (const char *)product.b + product.g.k * product.g.b_row * bytes;
        p += product.g.k;
    } while (p < k);
    return ST_OK;
}
