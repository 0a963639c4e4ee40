/* safetensors.c: see the header. Every offset is checked before use; tensors must tile the data exactly. */
#include "runtime/core/safetensors.h"

#include <stdlib.h>

#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"

enum { MAX_HEADER = 100 << 20, MAX_SAFE_RANK = 64 };

static const char *const names[DT_COUNT] = {
    [DT_f64] = "F64", [DT_f32] = "F32", [DT_f16] = "F16", [DT_bf16] = "BF16", [DT_i64] = "I64",
    [DT_i32] = "I32", [DT_i16] = "I16", [DT_i8] = "I8",   [DT_u8] = "U8",     [DT_bool] = "BOOL",
};

static DType dtype_of(const char *name) {
    for (int i = DT_default + 1; i < DT_COUNT; i++)
        if (name && !strcmp(names[i], name)) return (DType)i;
    return DT_default;
}

static Status bad(const char *what, const char *name) {
    return error_raise(ST_PARSE, "safetensors: %s%s%s", what, *name ? " of tensor " : "", name);
}

static Status read_sizes(SafeFile *file, const Json *shape, SafeTensor *tensor) {
    if (!shape || shape->kind != JSON_list || shape->n > MAX_SAFE_RANK) return bad("bad shape", tensor->name);
    int64_t *sizes = ARENA_ARRAY(file->arena, int64_t, shape->n ? shape->n : 1);
    if (!sizes) return ST_MEMORY;
    int64_t bytes = tensor->dtype ? dtype_bytes(tensor->dtype) : 1;
    for (int i = 0; i < shape->n; i++) {
        const Json *size = &shape->items[i];
        if (size->kind != JSON_number || !size->is_int || size->i < 0) return bad("bad shape", tensor->name);
        sizes[i] = size->i;
        if (!mul_ok(bytes, size->i, &bytes)) return bad("the shape is too large", tensor->name);
    }
    tensor->rank = shape->n;
    tensor->sizes = sizes;
    tensor->bytes = (size_t)bytes;
    return ST_OK;
}

/* Letters, digits and '_', as all names of dtypes have. */
static bool is_dtype_name(const char *name) {
    const size_t n = name ? strlen(name) : 0;
    return n && n < 32 && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static Status read_tensor(SafeFile *file, const Json *entry, size_t data_at, SafeTensor *tensor) {
    tensor->name = entry->key;
    tensor->dtype_name = json_string(json_get(entry, "dtype"));
    if (!is_dtype_name(tensor->dtype_name)) return bad("bad dtype", tensor->name);
    tensor->dtype = dtype_of(tensor->dtype_name);
    if (name_index_find(&file->names, tensor->name) >= 0) return bad("a second entry", tensor->name);
    TRY(name_index_add(&file->names, tensor->name));
    TRY(read_sizes(file, json_get(entry, "shape"), tensor));
    const Json *offsets = json_get(entry, "data_offsets");
    if (!offsets || offsets->kind != JSON_list || offsets->n != 2 || !offsets->items[0].is_int ||
        !offsets->items[1].is_int)
        return bad("bad data_offsets", tensor->name);
    const int64_t begin = offsets->items[0].i, end = offsets->items[1].i;
    if (begin < 0 || end < begin || (uint64_t)end > file->bytes - data_at)
        return bad("data_offsets outside the file", tensor->name);
    if (!tensor->dtype) tensor->bytes = (size_t)(end - begin);
    if ((uint64_t)(end - begin) != tensor->bytes) return bad("data_offsets do not fit the shape", tensor->name);
    tensor->data = file->content + data_at + begin;
    return ST_OK;
}

static int by_data(const void *a, const void *b) {
    const SafeTensor *const x = *(const SafeTensor *const *)a, *const y = *(const SafeTensor *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* No holes, no overlaps, nothing behind the last. */
static Status check_tiling(const SafeFile *file, size_t data_at) {
    const char *at = file->content + data_at;
    const SafeTensor **const sorted = ARENA_ARRAY(file->arena, const SafeTensor *, file->n ? file->n : 1);
    if (!sorted) return ST_MEMORY;
    for (int i = 0; i < file->n; i++) sorted[i] = &file->tensors[i];
    qsort(sorted, (size_t)file->n, sizeof *sorted, by_data);
    for (int i = 0; i < file->n; i++) {
        if (sorted[i]->data != at) return bad("a hole or an overlap before the data", sorted[i]->name);
        at += sorted[i]->bytes;
    }
    return at == file->content + file->bytes ? ST_OK : bad("bytes behind the last tensor", "");
}

static Status read_metadata(SafeFile *file, const Json *metadata) {
    if (file->metadata) return bad("a second __metadata__", "");
    if (metadata->kind != JSON_object) return bad("__metadata__ is no object", "");
    for (int i = 0; i < metadata->n; i++)
        if (metadata->items[i].kind != JSON_string) return bad("a value of __metadata__ is no string", "");
    file->metadata = metadata;
    return ST_OK;
}

static Status read_header(SafeFile *file) {
    uint64_t length = 0;
    if (file->bytes < 8) return bad("the file is too short", "");
    for (int i = 0; i < 8; i++) length |= (uint64_t)(unsigned char)file->content[i] << 8 * i;
    if (length > MAX_HEADER || length > file->bytes - 8) return bad("the header is longer than the file", "");
    const Json *header;
    TRY(json_parse(file->arena, file->content + 8, length, &header));
    if (header->kind != JSON_object) return bad("the header is no object", "");
    file->tensors = ARENA_ARRAY(file->arena, SafeTensor, header->n ? header->n : 1);
    if (!file->tensors) return ST_MEMORY;
    for (int i = 0; i < header->n; i++) {
        if (!strcmp(header->items[i].key, SAFE_METADATA))
            TRY(read_metadata(file, &header->items[i]));
        else
            TRY(read_tensor(file, &header->items[i], 8 + length, &file->tensors[file->n++]));
    }
    return check_tiling(file, 8 + length);
}

static Status read_safe(const char *content, char *owned, size_t bytes, SafeFile **out) {
    SafeFile *const file = mem_zero(sizeof *file);
    Status status = ST_MEMORY;
    if (file) *file = (SafeFile){.content = content, .owned = owned, .bytes = bytes, .arena = arena_new()};
    if (file && file->arena) status = read_header(file);
    if (status == ST_OK) {
        *out = file;
        return ST_OK;
    }
    if (!file) mem_free(owned);
    safetensors_close(file);
    return status;
}

Status safetensors_adopt(char *content, size_t bytes, SafeFile **out) {
    return read_safe(content, content, bytes, out);
}

Status safetensors_view(const void *content, size_t bytes, SafeFile **out) {
    return read_safe(content, NULL, bytes, out);
}

Status safetensors_open(const char *path, SafeFile **out) {
    char *content;
    size_t bytes;
    TRY(file_read(path, &content, &bytes));
    const Status status = safetensors_adopt(content, bytes, out);
    if (status == ST_PARSE) error_add_path(path);
    return status;
}

void safetensors_close(SafeFile *file) {
    if (!file) return;
    if (file->arena) arena_free(file->arena);
    name_index_free(&file->names);
    mem_free(file->owned);
    mem_free(file);
}

const SafeTensor *safetensors_find(const SafeFile *file, const char *name) {
    const int i = name_index_find(&file->names, name);
    return i >= 0 ? &file->tensors[i] : NULL;
}

/* writing ------------------------------------------------------------------------------------- */

static void metadata_print(Text *text, const char *const (*metadata)[2], int n) {
    text_puts(text, "\"__metadata__\":{");
    for (int i = 0; i < n; i++) {
        text_puts(text, i ? "," : "");
        text_json_string(text, metadata[i][0]);
        text_puts(text, ":");
        text_json_string(text, metadata[i][1]);
    }
    text_puts(text, "}");
}

static void header_print(Text *text, const SafeTensor *tensors, int n, const char *const (*metadata)[2],
                         int n_metadata) {
    size_t at = 0;
    text_puts(text, "{");
    if (n_metadata) metadata_print(text, metadata, n_metadata);
    for (int i = 0; i < n; i++) {
        const SafeTensor *tensor = &tensors[i];
        text_puts(text, i || n_metadata ? "," : "");
        text_json_string(text, tensor->name);
        text_printf(text, ":{\"dtype\":\"%s\",\"shape\":[", tensor->dtype ? names[tensor->dtype] : tensor->dtype_name);
        for (int k = 0; k < tensor->rank; k++) text_printf(text, k ? ",%lld" : "%lld", (long long)tensor->sizes[k]);
        text_printf(text, "],\"data_offsets\":[%zu,%zu]}", at, at + tensor->bytes);
        at += tensor->bytes;
    }
    text_puts(text, "}");
    while (text->n % 8) text_puts(text, " "); /* so that data starts aligned */
}

void safetensors_print(Text *text, const SafeTensor *tensors, int n, const char *const (*metadata)[2], int n_metadata) {
    Text header = {0};
    header_print(&header, tensors, n, metadata, n_metadata);
    char length[8];
    for (int i = 0; i < 8; i++) length[i] = (char)(unsigned char)(header.n >> 8 * i);
    text_put(text, length, sizeof length);
    text_put(text, text_str(&header), header.n);
    text_free(&header);
}

Status safetensors_save(const char *path, const SafeTensor *tensors, int n, const char *const (*metadata)[2],
                        int n_metadata) {
    Text header = {0};
    safetensors_print(&header, tensors, n, metadata, n_metadata);
    FileSpan *const parts = mem_alloc(((size_t)n + 1) * sizeof *parts);
    Status status = parts ? error_pending() : ST_MEMORY;
    if (status == ST_OK) {
        parts[0] = (FileSpan){header.at, header.n};
        for (int i = 0; i < n; i++) parts[i + 1] = (FileSpan){tensors[i].data, tensors[i].bytes};
        status = file_replace(path, parts, n + 1);
    }
    mem_free(parts);
    text_free(&header);
    return status;
}
