/* conv_sums.c: see conv_sums.h. */
#include "runtime/cpu/conv_sums.h"

#include "ir/loop.h"
#include "runtime/cpu/cpu_copy.h"
#include "runtime/device/alloc_cpu.h"

int64_t conv_plane(const Meta *meta, int64_t *sizes) { return spatial_sizes(meta, meta->rank - 2, sizes); }

Status plain_begin(const sn_tensor *t, DenseData *p) {
    p->at = compute_buffer(t, &p->owned);
    return p->at ? ST_OK : ST_MEMORY;
}

void plain_end(DenseData *p) {
    if (p->at && p->owned) cpu_free(p->at, p->owned);
}

/* x * 0 is 0, but NaN for inf and NaN. Many sums at once, as each waits for its last addition. */
typedef float ManySingles __attribute__((vector_size(64)));
typedef double ManyDoubles __attribute__((vector_size(64)));
#define SUM_OF_ZEROS(many, type)                                                                                       \
    many sums = {0}, some;                                                                                             \
    type all = 0;                                                                                                      \
    const int64_t lanes = sizeof some / sizeof all;                                                                    \
    int64_t i = 0;                                                                                                     \
    for (; i + lanes <= n; i += lanes) memcpy(&some, at + i, sizeof some), sums += some * 0;                           \
    for (; i < n; i++) all += at[i] * 0;                                                                               \
    for (int64_t k = 0; k < lanes; k++) all += sums[k];                                                                \
    return all

static float zeros_of_singles(const float *at, int64_t n) { SUM_OF_ZEROS(ManySingles, float); }
static double zeros_of_doubles(const double *at, int64_t n) { SUM_OF_ZEROS(ManyDoubles, double); }

bool all_finite(const char *at, SType type, int64_t n) {
    return type == S_f32   ? zeros_of_singles((const float *)(const void *)at, n) == 0
           : type == S_f64 ? zeros_of_doubles((const double *)(const void *)at, n) == 0
                           : true;
}

Status conv_multiply(const Chunk *c) {
    GemmCall call = {.dtype = compute_dtype(c->g->dtype),
                     .m = c->m,
                     .n = c->n,
                     .k = c->k,
                     .batch = 1,
                     .a = c->left,
                     .b = c->patch,
                     .c = c->to,
                     .a_row = c->left_row,
                     .a_col = c->left_column,
                     .b_row = c->patch_row,
                     .b_col = c->patch_column,
                     .c_row = c->to_ld,
                     .c_col = 1,
                     .part_rows = c->m,
                     .row_end = c->m};
    const size_t bytes = max_i64((int64_t)gemm_workspace(&call), 64);
    if (!(call.workspace = cpu_alloc(bytes))) return ST_MEMORY;
    gemm(&call);
    cpu_free(call.workspace, bytes);
    return ST_OK;
}

void conv_splat(char *to, const char *value, int bytes, int64_t n) {
    kernel_table()->load(bytes == 4 ? DT_f32 : DT_f64)(to, value, 0, n); /* bits as they are */
}

static void left_out_block(const ConvGeometry *g, const char *values, const char *patch, const char *mask, char *sum,
                           int64_t n) {
    static const char zero[8];
    BlockBuffer next;
    kernel_table()->prim(PRIM_fma, g->type)(next.at, values, patch, sum, n);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(mask + i * g->bytes, zero, (size_t)g->bytes))
            memcpy(sum + i * g->bytes, next.at + i * g->bytes, (size_t)g->bytes);
}

void add_left_out(const ConvGeometry *g, const char *value, const char *patch, const char *mask, char *sum, int64_t n) {
    BlockBuffer values;
    conv_splat(values.at, value, g->bytes, min_i64(n, BLOCK));
    for (int64_t i = 0; i < n; i += BLOCK)
        left_out_block(g, values.at, patch + i * g->bytes, mask + i * g->bytes, sum + i * g->bytes,
                       min_i64(BLOCK, n - i));
}

void add_elements(const ConvGeometry *g, char *to, const char *from, int64_t n) {
    BlockFn *const add = kernel_table()->prim(PRIM_add, g->type);
    for (int64_t i = 0; i < n; i += BLOCK)
        add(to + i * g->bytes, to + i * g->bytes, from + i * g->bytes, NULL, min_i64(BLOCK, n - i));
}

void add_number(const ConvGeometry *g, char *to, const char *number, int64_t n) {
    BlockFn *const add = kernel_table()->prim(PRIM_add, g->type);
    BlockBuffer numbers;
    conv_splat(numbers.at, number, g->bytes, min_i64(n, BLOCK));
    for (int64_t i = 0; i < n; i += BLOCK)
        add(to + i * g->bytes, to + i * g->bytes, numbers.at, NULL, min_i64(BLOCK, n - i));
}

void fill_ones(const ConvGeometry *g, char *to, int64_t n) {
    for (int64_t i = 0; i < n; i += BLOCK)
        number_to_block(g->type, &A_INT(1), to + i * g->bytes, (int)min_i64(BLOCK, n - i));
}

/* The chunk of the order that row q of the patches is in. */
static int64_t chunk_of(const ConvSum *s, int64_t q) {
    const int64_t taps = patches_taps(&s->patches);
    return (q / taps * kernel_size(s->g) + s->whole[q % taps]) / CONV_CHUNK;
}

int64_t conv_sums_chunk_end(const ConvSum *s, int64_t q) {
    const int64_t all = s->channels * patches_taps(&s->patches), chunk = chunk_of(s, q);
    int64_t end = min_i64(q + CONV_CHUNK, all);
    while (chunk_of(s, end - 1) != chunk) end--;
    return end;
}

int64_t conv_sums_apart(const ConvSum *s, int d) {
    const Meta *const meta = s->out->base.meta;
    const int lead = CONV_DIMS + 2 - meta->rank;
    return d < lead ? 0 : meta->strides[2 + d - lead];
}

void conv_sums_add_bias(const ConvSum *s, int64_t channel, char *sums, int64_t n) {
    static const char zero[8];
    add_number(s->g, sums, s->bias ? s->bias + channel * s->g->bytes : zero, n);
}

void conv_sums_store(const ConvSum *s, int64_t at, int64_t apart, const char *sums, int64_t ld, int64_t n) {
    const Meta *const meta = s->out->base.meta;
    const int64_t bytes = dtype_bytes(meta->dtype), channel = meta->strides[1];
    char *const to = (char *)tensor_data(s->out) + at * bytes;
    StoreFn *const store = kernel_table()->store(meta->dtype);
    if (channel == 1 && apart != 1 && s->rows > 1 && compute_dtype(meta->dtype) == meta->dtype) {
        copy_transposed(to, apart, sums, ld, n, s->rows, s->g->bytes);
        return;
    }
    for (int64_t m = 0; m < s->rows; m++) store(to + m * channel * bytes, apart, sums + m * ld * s->g->bytes, n);
}
