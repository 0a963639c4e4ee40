/* meta.c: tensor metadata: PyTorch's rules for row-major strides and contiguity, and the text
 * "f32[2,3]{1,2}@meta".
 *
 * Dims of size 1 may have any stride; a tensor without elements is contiguous; contiguous strides
 * treat size 0 as 1 (c10/core/TensorImpl.h, c10/util/strides.h). A wrapped number prints with a '!'
 * behind its sizes. */
#include "ir/meta.h"

#include <stdio.h>
#include <stdlib.h>

#include "ir/schema.h"
#include "runtime/base/error.h"
#include "runtime/base/text_reader.h"

void meta_contiguous_strides(SymEnv *env, const int64_t *sizes, int rank, int64_t *strides) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = step;
        step = sym_mul(env, step, sym_max(env, sizes[i], 1));
    }
}

bool meta_is_row_major(const Meta *meta) {
    int64_t expected = 1;
    for (int d = meta->rank - 1; d >= 0; d--) {
        if (meta->strides[d] != expected) return false;
        if (meta->sizes[d] > 1) expected *= meta->sizes[d];
    }
    return true;
}

static bool has_no_elements(SymEnv *env, const int64_t *sizes, int rank) {
    for (int i = 0; i < rank; i++)
        if (sym_same(env, sizes[i], 0)) return true;
    return false;
}

/* Walks the dims from the fastest one; `dims` lists them slowest first, NULL: in order. */
static bool in_order(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank, const int *dims) {
    int64_t expected = 1;
    for (int i = rank - 1; i >= 0; i--) {
        const int dim = dims ? dims[i] : i;
        if (!sym_identical(strides[dim], expected)) { /* else it steps so, if it does */
            if (sym_same(env, sizes[dim], 1)) continue;
            if (!sym_same(env, strides[dim], expected)) return false;
        }
        expected = sym_mul(env, expected, sizes[dim]);
    }
    return true;
}

/* The dim that steps by `step`, the last of several; -1: none. */
static int dim_of_stride(const int64_t *sizes, const int64_t *strides, int rank, int64_t step, const bool *used) {
    int dim = rank - 1;
    while (dim >= 0 && (used[dim] || sizes[dim] == 1 || !sym_identical(strides[dim], step))) dim--;
    return dim;
}

bool meta_is_dense(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank) {
    bool used[MAX_RANK] = {false};
    int64_t step = 1;
    for (int dim; (dim = dim_of_stride(sizes, strides, rank, step, used)) >= 0; used[dim] = true)
        step = sym_mul(env, step, sizes[dim]);
    bool all = true, none = false;
    for (int dim = 0; dim < rank; dim++) {
        none |= sizes[dim] == 0;
        all &= used[dim] || sizes[dim] == 1;
    }
    return all || none;
}

bool meta_is_contiguous(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank) {
    return has_no_elements(env, sizes, rank) || in_order(env, sizes, strides, rank, NULL);
}

bool meta_decide_contiguous(SymEnv *env, const Meta *meta) {
    if (meta->contiguous) return true;
    bool open = false;
    for (int i = 0; i < meta->rank; i++) open |= sym_is(meta->sizes[i]) || sym_is(meta->strides[i]);
    return open && meta_is_contiguous(env, meta->sizes, meta->strides, meta->rank);
}

bool meta_is_channels_last(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank) {
    static const int nhwc[] = {0, 2, 3, 1}, ndhwc[] = {0, 2, 3, 4, 1};
    if (rank != 4 && rank != 5) return false;
    return in_order(env, sizes, strides, rank, rank == 4 ? nhwc : ndhwc);
}

bool meta_is_in_format(SymEnv *env, const Meta *meta, int64_t format) {
    if (format == MF_contiguous) return meta_is_contiguous(env, meta->sizes, meta->strides, meta->rank);
    return meta->rank == (format == MF_channels_last ? 4 : 5) &&
           meta_is_channels_last(env, meta->sizes, meta->strides, meta->rank);
}

bool meta_same_sizes(const Meta *a, const Meta *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!sym_identical(a->sizes[i], b->sizes[i])) return false;
    return true;
}

bool meta_same_layout(const Meta *a, const Meta *b) {
    if (a->dtype != b->dtype || !meta_same_sizes(a, b)) return false;
    return !a->rank || !memcmp(a->strides, b->strides, sizeof *a->strides * (size_t)a->rank);
}

/* Contiguous by structure alone: no guards. */
static bool looks_contiguous(SymEnv *env, const int64_t *sizes, const int64_t *strides, int rank) {
    int64_t expected = 1;
    bool dense = true;
    for (int i = rank - 1; i >= 0; i--) {
        if (sizes[i] == 0) return true;
        if (sizes[i] == 1) continue;
        dense = dense && sym_identical(strides[i], expected);
        expected = sym_mul(env, expected, sizes[i]);
    }
    return dense;
}

Meta *meta_new(Arena *arena, SymEnv *env, DType dtype, Device device, const int64_t *sizes, const int64_t *strides,
               int rank) {
    Meta *const meta = ARENA_NEW(arena, Meta);
    int64_t *const dims = ARENA_ARRAY(arena, int64_t, 2 * rank);
    if (!meta || !dims) return NULL;
    for (int i = 0; i < rank; i++) {
        dims[i] = sizes[i];
        dims[rank + i] = strides[i];
    }
    *meta = (Meta){.dtype = dtype,
                   .device = device,
                   .rank = rank,
                   .contiguous = looks_contiguous(env, sizes, strides, rank),
                   .numel = sym_product(env, sizes, rank),
                   .sizes = dims,
                   .strides = dims + rank};
    return meta;
}

bool meta_span(const int64_t *sizes, const int64_t *strides, int rank, int64_t *span) {
    *span = 0;
    for (int i = 0; i < rank; i++)
        if (sizes[i] == 0) return true;
    *span = 1;
    for (int i = 0; i < rank; i++) {
        int64_t reach;
        if (!mul_ok(sizes[i] - 1, strides[i], &reach) || !add_ok(*span, reach, span)) return false;
    }
    return true;
}

/* text ---------------------------------------------------------------------------------------- */

static void print_list(const SymEnv *env, Text *text, const int64_t *list, int n, const char *comma) {
    for (int i = 0; i < n; i++) {
        if (i) text_puts(text, comma);
        sym_print(env, text, list[i]);
    }
}

void sizes_print(const SymEnv *env, Text *text, const int64_t *sizes, int n) {
    text_puts(text, "[");
    print_list(env, text, sizes, n, ", ");
    text_puts(text, "]");
}

/* The strides that a reader of the sizes alone would assume. Size expressions were all made before,
 * so that nothing new but products enters the environment. */
static bool has_default_strides(const SymEnv *env, const Meta *meta) {
    int64_t strides[MAX_RANK];
    meta_contiguous_strides((SymEnv *)env, meta->sizes, meta->rank, strides);
    for (int i = 0; i < meta->rank; i++)
        if (!sym_identical(strides[i], meta->strides[i])) return false;
    return true;
}

static void print_device(Text *text, Device device) {
    if (device != DEV_cpu) text_printf(text, "@%s", DEVICE_TEXT(device));
}

void meta_print(const SymEnv *env, Text *text, const Meta *meta) {
    text_printf(text, "%s[", dtype_name(meta->dtype));
    print_list(env, text, meta->sizes, meta->rank, ",");
    text_puts(text, "]");
    if (!has_default_strides(env, meta)) {
        text_puts(text, "{");
        print_list(env, text, meta->strides, meta->rank, ",");
        text_puts(text, "}");
    }
    if (meta->wrapped) text_puts(text, "!");
    print_device(text, meta->device);
}

static Status parse_list(SymEnv *env, const char **at, char close, int64_t *list, int *n) {
    *n = 0;
    while (**at != close) {
        if (*n && **at != ',')
            return error_raise(ST_PARSE, "expected ',' or '%c' at \"%.*s\"", close, reader_quoted(*at, 20), *at);
        if (*n) (*at)++;
        while (**at == ' ') (*at)++;
        if (*n == MAX_RANK) return error_raise(ST_PARSE, "more than %d dims", MAX_RANK);
        TRY(sym_parse(env, *at, at, &list[(*n)++]));
    }
    (*at)++;
    return ST_OK;
}

static Status parse_device(const char **at, Device *device) {
    *device = DEV_cpu;
    if (**at != '@') return ST_OK;
    const char *end;
    if (!device_parse(*at + 1, &end, device))
        return error_raise(ST_PARSE, "unknown device at \"%.*s\"", reader_quoted(*at, 20), *at);
    *at = end;
    return ST_OK;
}

Status meta_parse(Arena *arena, SymEnv *env, const char *text, const char **end, Meta **out) {
    const char *at = text + strcspn(text, "[ \n");
    const DType dtype = dtype_find(text, (size_t)(at - text));
    if (dtype == DT_default || *at != '[')
        return error_raise(ST_PARSE, "expected dtype[sizes] at \"%.*s\"", reader_quoted(text, 20), text);
    int64_t sizes[MAX_RANK], strides[MAX_RANK];
    int rank, n_strides;
    Device device;
    at++;
    TRY(parse_list(env, &at, ']', sizes, &rank));
    meta_contiguous_strides(env, sizes, rank, strides);
    if (*at == '{') {
        at++;
        TRY(parse_list(env, &at, '}', strides, &n_strides));
        if (n_strides != rank) return error_raise(ST_PARSE, "%d strides for %d sizes", n_strides, rank);
    }
    const bool wrapped = *at == '!';
    if (wrapped) at++;
    TRY(parse_device(&at, &device));
    Meta *const meta = meta_new(arena, env, dtype, device, sizes, strides, rank);
    if (!meta) return ST_MEMORY;
    meta->wrapped = wrapped;
    *end = at;
    *out = meta;
    return ST_OK;
}
