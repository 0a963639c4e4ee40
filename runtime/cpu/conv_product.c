/* conv_product.c: see conv_product.h. A block is some lines of one image, or several small images, of a group: its
 * source lines are filled, rows of the weight pass over them (kernels.h: OffsetProduct), and the sums, + 0 + bias, go
 * where they belong. fma(w, 0, sum) is sum as in cpu_convolution.c, so weights are finite. */
#include "runtime/cpu/conv_product.h"

#include "runtime/core/pool.h"
#include "runtime/cpu/conv_lines.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/alloc_cpu.h"

enum {
    SOURCE_BYTES = 512 << 10, /* of lines at once: with the sums a part of L2 */
    SUM_BYTES = 256 << 10,
    LEAST_COLUMNS = 64,
    MOST_COLUMNS = 1024,
    MOST_IMAGES = 16, /* of a block */
};

typedef struct ProductPlan {
    ConvSum *s;
    ConvLines b;
    const int64_t *offsets; /* [channel][tap] */
    int64_t k;              /* channels * taps */
    int64_t images;         /* of a block */
    int64_t ld;             /* of a row of sums: columns of one image's block, up to whole vectors */
    int64_t across, down;   /* blocks of an image */
    int64_t source_elements;
} ProductPlan;

/* What a part works in. */
typedef struct ProductScratch {
    char *source, *sums, *more; /* [image][lines]; [image][row][column]; a later chunk's */
    size_t bytes;
} ProductScratch;

static Status product_scratch_begin(const ProductPlan *plan, ProductScratch *w) {
    const ConvSum *const s = plan->s;
    const size_t source = (size_t)(plan->images * plan->source_elements * s->g->bytes);
    const size_t sums = (size_t)(plan->images * s->rows * plan->ld * s->g->bytes);
    w->bytes = source + sums + (s->channels * kernel_size(s->g) > CONV_CHUNK ? sums : 0);
    if (!(w->source = cpu_alloc(w->bytes))) return ST_MEMORY;
    w->sums = w->source + source, w->more = w->sums + sums;
    return ST_OK;
}

/* Where a block is. */
typedef struct ProductBlock {
    int64_t group, image, images, y, lines, x, columns;
} ProductBlock;

static ProductBlock block_of(const ProductPlan *plan, int64_t number) {
    const Patches *const p = &plan->s->patches;
    const int64_t groups = plan->s->g->groups, each = plan->across * plan->down;
    const int64_t place = number % each, rest = number / each;
    ProductBlock block = {.group = rest % groups, .image = rest / groups * plan->images};
    block.y = place / plan->across * plan->b.lines, block.x = place % plan->across * plan->b.columns;
    block.images = min_i64(plan->images, plan->s->g->batch - block.image);
    block.lines = min_i64(plan->b.lines, p->columns[1] - block.y);
    block.columns = min_i64(plan->b.columns, p->columns[2] - block.x);
    return block;
}

static void multiply_chunk(const ProductPlan *plan, const ProductBlock *block, int64_t q0, int64_t q1,
                           const ProductScratch *w, char *sums) {
    const ConvSum *const s = plan->s;
    OffsetRun runs[MOST_IMAGES];
    for (int64_t i = 0; i < block->images; i++)
        runs[i] = (OffsetRun){.b = w->source + i * plan->source_elements * s->g->bytes,
                              .c = sums + i * s->rows * plan->ld * s->g->bytes,
                              .ld = plan->ld,
                              .n = conv_lines_run(&plan->b, block->lines, block->columns)};
    gemm_offsets(s->g->type, &(OffsetProduct){.a = s->weight + (block->group * s->rows * plan->k + q0) * s->g->bytes,
                                              .a_ld = plan->k,
                                              .m = s->rows,
                                              .k = q1 - q0,
                                              .offset = plan->offsets + q0,
                                              .run = runs,
                                              .runs = block->images});
}

static void multiply_block(const ProductPlan *plan, const ProductBlock *block, const ProductScratch *w) {
    const ConvSum *const s = plan->s;
    const Patches *const p = &s->patches;
    for (int64_t i = 0; i < block->images; i++)
        conv_lines_fill(&plan->b,
                        p->source +
                            ((block->image + i) * p->batch_stride + block->group * s->channels * p->channel_stride) *
                                p->bytes,
                        block->y, block->lines, block->x, w->source + i * plan->source_elements * p->bytes);
    for (int64_t q = 0, end; q < plan->k; q = end) {
        end = conv_sums_chunk_end(s, q);
        multiply_chunk(plan, block, q, end, w, q ? w->more : w->sums);
        if (q) add_elements(s->g, w->sums, w->more, block->images * s->rows * plan->ld);
    }
}

/* One image's sums, which have their bias, to the result. */
static void store_image(const ProductPlan *plan, const ProductBlock *block, int64_t image, const char *sums) {
    const ConvSum *const s = plan->s;
    const int64_t *const strides = s->out->base.meta->strides;
    const int64_t apart = conv_sums_apart(s, 2) * s->step[2], line = conv_sums_apart(s, 1) * s->step[1];
    const int64_t first = image * strides[0] + block->group * s->rows * strides[1] +
                          s->first[1] * conv_sums_apart(s, 1) + s->first[2] * conv_sums_apart(s, 2) + block->y * line +
                          block->x * apart;
    for (int64_t i = 0; i < block->lines; i++)
        conv_sums_store(s, first + i * line, apart, sums + i * plan->b.pitch * s->g->bytes, plan->ld, block->columns);
}

static void product_part(void *context, int number) {
    const ProductPlan *const plan = context;
    const ConvSum *const s = plan->s;
    const ProductBlock block = block_of(plan, number);
    const int64_t n = conv_lines_run(&plan->b, block.lines, block.columns);
    ProductScratch w;
    if (product_scratch_begin(plan, &w) != ST_OK) {
        atomic_store(&plan->s->no_memory, true);
        return;
    }
    multiply_block(plan, &block, &w);
    for (int64_t i = 0; i < block.images; i++) {
        char *const sums = w.sums + i * s->rows * plan->ld * s->g->bytes;
        for (int64_t m = 0; m < s->rows; m++)
            conv_sums_add_bias(s, block.group * s->rows + m, sums + m * plan->ld * s->g->bytes, n);
        store_image(plan, &block, block.image + i, sums);
    }
    cpu_free(w.source, w.bytes);
}

static ProductPlan plan_product(ConvSum *s) {
    const Patches *const p = &s->patches;
    const int64_t fits = max_i64(SUM_BYTES / (s->rows * s->g->bytes), LEAST_COLUMNS);
    ProductPlan plan = {.s = s, .k = s->channels * patches_taps(p)};
    plan.b = conv_lines_of(p, s->channels, SOURCE_BYTES, min_i64(fits, MOST_COLUMNS));
    plan.across = ceil_div(p->columns[2], plan.b.columns), plan.down = ceil_div(p->columns[1], plan.b.lines);
    plan.ld = round_up(conv_lines_run(&plan.b, plan.b.lines, plan.b.columns), 64 / s->g->bytes);
    plan.source_elements = round_up(conv_lines_elements(&plan.b), 64 / s->g->bytes);
    const int64_t some = min_i64(fits / plan.ld, SOURCE_BYTES / (plan.source_elements * s->g->bytes));
    const int64_t share = ceil_div(s->g->batch, pool_threads()); /* every thread has an image, if there are enough */
    if (plan.across * plan.down == 1) plan.images = min_i64(min_i64(some, share), MOST_IMAGES);
    plan.images = max_i64(plan.images, 1);
    return plan;
}

/* Of an image of 7 x 7, whose lines have 8 columns, a quarter would be lost; at 14 x 14 both take the same time. */
bool conv_product_serves(const ConvSum *s) {
    if (!conv_lines_serve(s)) return false;
    const ProductPlan plan = plan_product((ConvSum *)(uintptr_t)s);
    return plan.b.lines * plan.b.columns * 10 >= plan.ld * 9;
}

Status conv_product_run(ConvSum *s) {
    ProductPlan plan = plan_product(s);
    const size_t bytes = (size_t)plan.k * sizeof *plan.offsets;
    int64_t *const offsets = cpu_alloc(bytes);
    if (!offsets) return ST_MEMORY;
    conv_lines_offsets(&plan.b, offsets);
    plan.offsets = offsets;
    pool_run((int)(ceil_div(s->g->batch, plan.images) * s->g->groups * plan.across * plan.down), product_part, &plan);
    cpu_free(offsets, bytes);
    return s->no_memory ? error_raise(ST_MEMORY, "out of memory for lines of a convolution's input") : ST_OK;
}
