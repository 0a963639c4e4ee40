/* dict.c: named tensors in order (sinter/nn.h): set, look up, load and save as safetensors. */
#include <sinter/device.h>
#include <sinter/ops.h>

#include "frontend/api/enter.h"
#include "frontend/api/dict.h"
#include "runtime/base/alloc.h"
#include "runtime/base/escape.h"
#include "runtime/base/text.h"
#include "runtime/core/tracer.h"
#include "runtime/core/breaks.h"
#include "runtime/core/safetensors.h"
#include "runtime/core/tensor_names.h"

sn_dict *sn_dict_new(void) { return error_pending() == ST_OK ? mem_zero(sizeof(sn_dict)) : NULL; }

void sn_dict_free(sn_dict *d) {
    if (!d) return;
    for (int i = d->n - 1; i >= 0; i--) { /* a tensor's newest name is found first */
        tensor_unnamed(d->entries[i].tensor, d->entries[i].name);
        mem_free(d->entries[i].name);
        tensor_release(d->entries[i].tensor);
    }
    dict_free_carried(d);
    name_index_free(&d->names);
    mem_free(d->entries);
    mem_free(d);
}

const DictEntry *dict_find(const sn_dict *d, const char *name) {
    const int i = name_index_find(&d->names, name);
    return i >= 0 ? &d->entries[i] : NULL;
}

static Status append_entry(sn_dict *d, const char *name, sn_tensor *t) {
    if (d->n == d->capacity) {
        const int capacity = d->capacity ? d->capacity * 2 : 16;
        DictEntry *const entries = mem_resize(d->entries, (size_t)capacity * sizeof *entries);
        if (!entries) return ST_MEMORY;
        d->entries = entries, d->capacity = capacity;
    }
    char *const copy = mem_strdup(name);
    if (!copy) return ST_MEMORY;
    if (name_index_add(&d->names, copy) != ST_OK) {
        mem_free(copy);
        return ST_MEMORY;
    }
    d->entries[d->n++] = (DictEntry){copy, t};
    tensor_retain(t);
    return ST_OK;
}

Status dict_see(Map *seen, const sn_tensor *t, bool *first) {
    const uint64_t key = (uint64_t)(uintptr_t)t;
    *first = !map_get(seen, key);
    return !*first || map_set(seen, key, seen) ? ST_OK : ST_MEMORY;
}

Status dict_set(sn_dict *d, const char *name, sn_tensor *t) {
    TRY(error_pending());
    if (!d || !name) return error_raise(ST_ARGUMENT, "sn_dict_set: the dictionary or the name is NULL");
    TRY(tensor_valid(t, "sn_dict_set"));
    TRY(state_untraced("sn_dict_set"));
    tracer_outside(BREAK_REASON(dict_changed));
    DictEntry *const entry = (DictEntry *)dict_find(d, name);
    TRY(tensor_named(t, name));
    if (!entry) {
        const Status status = append_entry(d, name, t);
        if (status != ST_OK)
            tensor_unnamed(t, name);
        else
            dict_drop_opaque(d, name);
        return status;
    }
    tensor_retain(t);
    tensor_unnamed(entry->tensor, name);
    tensor_release(entry->tensor);
    entry->tensor = t;
    return ST_OK;
}

sn_status sn_dict_set(sn_dict *d, const char *name, sn_tensor *t) {
    API_ENTER(sn_dict_set);
    return (sn_status)dict_set(d, name, t);
}

int sn_dict_count(sn_dict *d) { return d ? d->n : 0; }

static bool has_entry(const sn_dict *d, int i, const char *what) {
    if (d && i >= 0 && i < d->n) return true;
    error_raise(ST_ARGUMENT, "%s: the dictionary has no entry %d, only %d", what, i, d ? d->n : 0);
    return false;
}

const char *sn_dict_name(sn_dict *d, int i) { return has_entry(d, i, "sn_dict_name") ? d->entries[i].name : ""; }
sn_tensor *sn_dict_at(sn_dict *d, int i) { return has_entry(d, i, "sn_dict_at") ? d->entries[i].tensor : NULL; }

/* look-up with near names --------------------------------------------------------------------- */

enum { MAX_NAME = 128, NEAR = 3 };

/* Edit distance (Levenshtein), of names up to MAX_NAME letters. */
static int distance(const char *a, const char *b) {
    int row[MAX_NAME + 1];
    const int n = (int)strnlen(b, MAX_NAME);
    for (int k = 0; k <= n; k++) row[k] = k;
    for (int i = 0; a[i] && i < MAX_NAME; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int k = 0; k < n; k++) {
            const int up = row[k + 1], changed = diagonal + (a[i] != b[k]);
            const int shorter = (up < row[k] ? up : row[k]) + 1;
            row[k + 1] = changed < shorter ? changed : shorter;
            diagonal = up;
        }
    }
    return row[n];
}

/* The nearest names, nearest first, in dictionary order among equals. */
static int nearest(const sn_dict *d, const char *name, int *near) {
    int distances[NEAR], n = 0;
    for (int i = 0; i < d->n; i++) {
        const int far = distance(name, d->entries[i].name);
        int at = n < NEAR ? n++ : NEAR;
        for (; at > 0 && far < distances[at - 1]; at--)
            if (at < NEAR) distances[at] = distances[at - 1], near[at] = near[at - 1];
        if (at < NEAR) distances[at] = far, near[at] = i;
    }
    return n;
}

sn_tensor *sn_dict_get(sn_dict *d, const char *name) {
    if (error_pending() != ST_OK) return NULL;
    if (!d || !name) {
        error_raise(ST_ARGUMENT, "sn_dict_get: the dictionary or the name is NULL");
        return NULL;
    }
    const DictEntry *const entry = dict_find(d, name);
    const DictOpaque *const opaque = dict_find_opaque(d, name);
    if (entry) return entry->tensor;
    if (opaque) {
        error_raise(ST_DTYPE, "sn_dict_get: '%s' has the dtype %s, which Sinter does not have; it is kept for saving",
                    name, opaque->tensor.dtype_name);
        return NULL;
    }
    int near[NEAR];
    Text text = {0};
    const int n = nearest(d, name, near);
    for (int k = 0; k < n; k++) text_printf(&text, "%s '%s'", k ? "," : "; near it:", d->entries[near[k]].name);
    error_raise(ST_ARGUMENT, "sn_dict_get: the dictionary has no '%s'%s", name, text_str(&text));
    text_free(&text);
    return NULL;
}

/* Values in place, below autograd's sight. */
sn_status sn_dict_copy(sn_dict *to, sn_dict *from) {
    API_ENTER(sn_dict_copy);
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (!to || !from) return (sn_status)error_raise(ST_ARGUMENT, "sn_dict_copy: a dictionary is NULL");
    const sn_scope scope = scope_begin_library();
    for (int i = 0; i < to->n; i++) {
        sn_tensor *const source = sn_dict_get(from, to->entries[i].name);
        if (!source) break;
        if (meta_same_sizes(source->base.meta, to->entries[i].tensor->base.meta))
            sn_copy_(to->entries[i].tensor, source);
        else
            error_raise(ST_SHAPE, "sn_dict_copy: the sizes of '%s' differ", to->entries[i].name);
    }
    return sn_scope_end(scope);
}

/* files --------------------------------------------------------------------------------------- */

static Status load_into(sn_dict *d, const SafeFile *file) {
    for (int i = 0; i < file->n; i++) {
        const SafeTensor *const from = &file->tensors[i];
        if (!from->dtype) continue;
        sn_tensor *const t = sn_from_data(from->data, (sn_ints){from->sizes, from->rank}, (sn_dtype)from->dtype);
        if (!t) return error_pending();
        TRY(dict_set(d, from->name, t));
    }
    return dict_adopt_carried(d, file);
}

sn_dict *sn_dict_load(const char *path) {
    API_ENTER(sn_dict_load);
    SafeFile *file;
    if (error_pending() != ST_OK) return NULL;
    if (!path) {
        error_raise(ST_ARGUMENT, "sn_dict_load: the path is NULL");
        return NULL;
    }
    if (safetensors_open(path, &file) != ST_OK) return NULL;
    sn_dict *d = sn_dict_new();
    const sn_scope scope = scope_begin_own();
    if (d && load_into(d, file) != ST_OK) {
        sn_dict_free(d);
        d = NULL;
    }
    sn_scope_end(scope);
    safetensors_close(file);
    return d;
}

Status dict_safe(sn_tensor *t, const char *name, const char *what, SafeTensor *out) {
    TRY(tensor_ready(t, what));
    if (!strcmp(name, SAFE_METADATA))
        return error_raise(ST_ARGUMENT, "%s: the name '%s' is the format's own, for metadata", what, name);
    if (!utf8_valid(name))
        return error_raise(ST_ARGUMENT, "%s: the name '%s' is no UTF-8, as names in files must be", what, name);
    sn_tensor *const flat = sn_contiguous(sn_to_device(t, SN_CPU));
    TRY(tensor_ready(flat, what));
    const Meta *const meta = flat->base.meta;
    *out = (SafeTensor){.name = name,
                        .dtype = meta->dtype,
                        .rank = meta->rank,
                        .sizes = meta->sizes,
                        .data = tensor_data(flat),
                        .bytes = (size_t)(meta->numel * dtype_bytes(meta->dtype))};
    return ST_OK;
}

/* Entries of unknown dtypes at the places that they had. */
static Status list_all(const sn_dict *d, SafeTensor *out) {
    int carried = 0;
    for (int i = 0; i <= d->n; i++) {
        for (; carried < d->n_opaque && d->opaque[carried].before <= i; carried++) *out++ = d->opaque[carried].tensor;
        if (i < d->n) TRY(dict_safe(d->entries[i].tensor, d->entries[i].name, "sn_dict_save", out++));
    }
    return ST_OK;
}

static void list_metadata(const sn_dict *d, const char *(*out)[2]) {
    for (int i = 0; i < d->n_metadata; i++) out[i][0] = d->metadata[i].key, out[i][1] = d->metadata[i].value;
}

sn_status sn_dict_save(sn_dict *d, const char *path) {
    API_ENTER(sn_dict_save);
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (!d || !path) return (sn_status)error_raise(ST_ARGUMENT, "sn_dict_save: the dictionary or the path is NULL");
    SafeTensor *const tensors = mem_alloc((size_t)(d->n + d->n_opaque + 1) * sizeof *tensors);
    const char *(*const metadata)[2] = mem_alloc((size_t)(d->n_metadata + 1) * sizeof *metadata);
    const sn_scope scope = scope_begin_own();
    Status status = tensors && metadata ? list_all(d, tensors) : ST_MEMORY;
    if (status == ST_OK) {
        list_metadata(d, metadata);
        status = safetensors_save(path, tensors, d->n + d->n_opaque, metadata, d->n_metadata);
    }
    sn_scope_end(scope);
    mem_free(tensors);
    mem_free(metadata);
    return (sn_status)status;
}
