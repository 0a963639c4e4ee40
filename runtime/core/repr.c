/* repr.c: a tensor as PyTorch prints it (torch/_tensor_str.py): four digits, one format for all
 * elements, scientific where magnitudes need it, 80 columns, more than 1,000 elements summarised by
 * three at each edge.
 *
 * The format is decided from the elements that will be printed: all integers -> "1.", else "%.4f";
 * "%.4e" where the largest is above 1e8 or 1,000 times the smallest, or (not all integers) the
 * smallest below 1e-4. */
#include "runtime/core/repr.h"

#include <math.h>
#include <stdio.h>

#include "runtime/core/element.h"

enum { EDGE = 3, THRESHOLD = 1000, LINE_WIDTH = 80, INDENT = 7 /* "tensor(" */ };

typedef struct Format {
    DType dtype;
    bool summarize, integers, scientific;
    double least, most; /* of the nonzero finite magnitudes */
    bool any;
    int width;
} Format;

typedef struct SubTensor { /* a sub-tensor: dims from `dim` on, at `at` */
    const Meta *meta;
    const char *at;
    int dim;
} SubTensor;

static SubTensor inner(const SubTensor *w, int64_t i) {
    return (SubTensor){w->meta, w->at + i * w->meta->strides[w->dim] * dtype_bytes(w->meta->dtype), w->dim + 1};
}

/* Which indices of a dim are printed: printed_index is -1 where the dots stand. */
static bool is_cut(const Format *f, int64_t n) { return f->summarize && n > 2 * EDGE; }
static int64_t printed_count(const Format *f, int64_t n) { return is_cut(f, n) ? 2 * EDGE + 1 : n; }
static int64_t printed_index(const Format *f, int64_t n, int64_t k) {
    if (!is_cut(f, n) || k < EDGE) return k;
    return k == EDGE ? -1 : n - 2 * EDGE - 1 + k;
}

/* the format ---------------------------------------------------------------------------------- */

typedef void Visit(Format *f, const char *element);

static void each_printed(Format *f, const SubTensor *w, Visit *visit) {
    if (w->dim == w->meta->rank) {
        visit(f, w->at);
        return;
    }
    const int64_t n = w->meta->sizes[w->dim];
    for (int64_t k = 0; k < printed_count(f, n); k++) {
        const int64_t i = printed_index(f, n, k);
        const SubTensor part = inner(w, i < 0 ? 0 : i);
        if (i >= 0) each_printed(f, &part, visit);
    }
}

static void look_at_element(Format *f, const char *element) {
    const double value = element_double(f->dtype, element), size = fabs(value);
    if (!isfinite(value) || value == 0) return;
    f->integers &= value == ceil(value);
    f->least = f->any && f->least < size ? f->least : size;
    f->most = f->any && f->most > size ? f->most : size;
    f->any = true;
}

static int print_element(const Format *f, const char *element, char *text, size_t capacity) {
    if (f->dtype == DT_bool) return snprintf(text, capacity, "%s", *element ? "True" : "False");
    if (!dtype_is_float(f->dtype)) return snprintf(text, capacity, "%lld", (long long)element_int(f->dtype, element));
    const double value = element_double(f->dtype, element);
    if (isnan(value)) return snprintf(text, capacity, "nan");
    if (isinf(value)) return snprintf(text, capacity, value < 0 ? "-inf" : "inf");
    if (f->scientific) return snprintf(text, capacity, "%.4e", value);
    return f->integers ? snprintf(text, capacity, "%.0f.", value) : snprintf(text, capacity, "%.4f", value);
}

static void measure_element(Format *f, const char *element) {
    char text[400];
    const double value = dtype_is_float(f->dtype) ? element_double(f->dtype, element) : 1;
    if (!isfinite(value) || value == 0) return; /* PyTorch measures the others only */
    const int n = print_element(f, element, text, sizeof text);
    f->width = n > f->width ? n : f->width;
}

static Format decide(const SubTensor *whole) {
    Format f = {.dtype = whole->meta->dtype, .summarize = whole->meta->numel > THRESHOLD, .integers = true, .width = 1};
    if (dtype_is_float(f.dtype)) {
        each_printed(&f, whole, look_at_element);
        f.scientific = f.any && (f.most / f.least > 1000 || f.most > 1e8 || (!f.integers && f.least < 1e-4));
    }
    each_printed(&f, whole, measure_element);
    return f;
}

/* the text ------------------------------------------------------------------------------------ */

static void print_spaces(Text *text, int64_t n) { text_printf(text, "%*s", (int)n, ""); }

static void put_element(const Format *f, const char *element, Text *text) {
    char value[400];
    const int n = print_element(f, element, value, sizeof value);
    print_spaces(text, f->width > n ? f->width - n : 0);
    text_puts(text, value);
}

static void print_vector(const Format *f, const SubTensor *w, int indent, Text *text) {
    const int64_t n = w->meta->sizes[w->dim], per_line = max_i64(1, (LINE_WIDTH - indent) / (f->width + 2));
    text_puts(text, "[");
    for (int64_t k = 0; k < printed_count(f, n); k++) {
        if (k && k % per_line == 0) {
            text_puts(text, ",\n");
            print_spaces(text, indent + 1);
        } else if (k)
            text_puts(text, ", ");
        const int64_t i = printed_index(f, n, k);
        if (i < 0)
            text_puts(text, " ...");
        else
            put_element(f, inner(w, i).at, text);
    }
    text_puts(text, "]");
}

static void print_tensor(const Format *f, const SubTensor *w, int indent, Text *text) {
    const int rank = w->meta->rank - w->dim;
    if (!rank) {
        put_element(f, w->at, text);
        return;
    }
    if (rank == 1) {
        print_vector(f, w, indent, text);
        return;
    }
    const int64_t n = w->meta->sizes[w->dim];
    text_puts(text, "[");
    for (int64_t k = 0; k < printed_count(f, n); k++) {
        if (k) text_puts(text, ",");
        for (int i = 0; k && i < rank - 1; i++) text_puts(text, "\n");
        if (k) print_spaces(text, indent + 1);
        const int64_t i = printed_index(f, n, k);
        const SubTensor part = inner(w, i < 0 ? 0 : i);
        if (i < 0)
            text_puts(text, "...");
        else
            print_tensor(f, &part, indent + 1, text);
    }
    text_puts(text, "]");
}

/* suffixes ------------------------------------------------------------------------------------ */

static const char *torch_dtype(DType dtype) {
    static const char *const names[DT_COUNT] = {
        [DT_f64] = "torch.float64",   [DT_f32] = "torch.float32", [DT_f16] = "torch.float16",
        [DT_bf16] = "torch.bfloat16", [DT_i64] = "torch.int64",   [DT_i32] = "torch.int32",
        [DT_i16] = "torch.int16",     [DT_i8] = "torch.int8",     [DT_u8] = "torch.uint8",
        [DT_bool] = "torch.bool"};
    return names[dtype];
}

static size_t last_line(const Text *text) {
    const char *const newline = strrchr(text_str(text), '\n');
    return newline ? text->n - (size_t)(newline - text->at) + 1 : text->n + 2;
}

typedef struct Suffixes {
    Text *text;
    size_t line; /* length of the last line, as PyTorch counts it */
    bool apart;  /* the next one begins a line */
} Suffixes;

static void print_suffix(Suffixes *s, const char *suffix) {
    const size_t n = strlen(suffix);
    if (s->apart || s->line + n + 2 > LINE_WIDTH) {
        text_puts(s->text, ",\n");
        print_spaces(s->text, INDENT);
        s->line = INDENT + n;
    } else {
        text_puts(s->text, ", ");
        s->line += n + 2;
    }
    text_puts(s->text, suffix);
    s->apart = false;
}

static void print_dtype(Suffixes *s, DType dtype) {
    char text[40];
    snprintf(text, sizeof text, "dtype=%s", torch_dtype(dtype));
    print_suffix(s, text);
}

static void print_size(Suffixes *s, const Meta *meta) {
    Text size = {0};
    text_puts(&size, "size=(");
    for (int d = 0; d < meta->rank; d++) text_printf(&size, "%s%lld", d ? ", " : "", (long long)meta->sizes[d]);
    text_puts(&size, meta->rank == 1 ? ",)" : ")");
    print_suffix(s, text_str(&size));
    text_free(&size);
}

static void print_suffixes(sn_tensor *t, bool with_data, const char *gradient, Text *text) {
    const Meta *const meta = t->base.meta;
    Suffixes s = {text, last_line(text)};
    const bool plain =
        meta->dtype == DT_f32 || (meta->numel && with_data && (meta->dtype == DT_i64 || meta->dtype == DT_bool));
    if (!device_is_host(meta->device)) {
        char device[DEVICE_NAME_MAX + 12];
        snprintf(device, sizeof device, "device='%s'", DEVICE_TEXT(meta->device));
        print_suffix(&s, device);
    }
    if (!with_data || (!meta->numel && meta->rank != 1)) print_size(&s, meta);
    if (!plain) print_dtype(&s, meta->dtype);
    if (gradient && *gradient) print_suffix(&s, gradient);
    text_puts(text, ")");
}

/* The whole of t's elements from its host copy, or itself. */
static Status print_elements(sn_tensor *t, int indent, Text *text) {
    if (!t->base.meta->numel) return text_puts(text, "[]"), ST_OK;
    sn_tensor *const here = tensor_on_host(t);
    if (!here) return error_pending();
    const SubTensor whole = {here->base.meta, tensor_data(here), 0};
    const Format format = decide(&whole);
    print_tensor(&format, &whole, indent, text);
    tensor_release(here);
    return ST_OK;
}

Status tensor_print(sn_tensor *t, const char *gradient, Text *text) {
    const bool with_data = t->storage != NULL;
    text_puts(text, "tensor(");
    if (with_data)
        TRY(print_elements(t, INDENT, text));
    else
        text_puts(text, "...");
    print_suffixes(t, with_data, gradient, text);
    return ST_OK;
}

static Status print_part(const ReprField *part, Text *text) {
    const Meta *const meta = part->tensor->base.meta;
    text_printf(text, "%s=tensor(", part->name);
    TRY(print_elements(part->tensor, INDENT + (int)strlen(part->name) + 8, text));
    if (!meta->numel) print_size(&(Suffixes){.text = text}, meta);
    text_puts(text, ")");
    return ST_OK;
}

Status tensor_print_parts(const sn_tensor *t, const ReprFields *parts, const char *gradient, Text *text) {
    char entries[40], layout[64];
    text_puts(text, "tensor(");
    for (int i = 0; i < parts->n; i++) {
        if (i) text_puts(text, ",\n"), print_spaces(text, INDENT);
        TRY(print_part(&parts->at[i], text));
    }
    snprintf(entries, sizeof entries, "nnz=%lld", (long long)parts->entries);
    snprintf(layout, sizeof layout, "layout=%s", parts->layout);
    Suffixes s = {text, last_line(text), parts->apart};
    print_size(&s, t->base.meta);
    print_suffix(&s, entries);
    if (t->base.meta->dtype != DT_f32) print_dtype(&s, t->base.meta->dtype);
    print_suffix(&s, layout);
    if (gradient && *gradient) print_suffix(&s, gradient);
    text_puts(text, ")");
    return ST_OK;
}
