/* dict_carried.c: what a dictionary carries beside its tensors (dict.h): metadata, and entries of unknown dtypes. */
#include <sinter/nn.h>

#include "frontend/api/dict.h"
#include "runtime/base/alloc.h"
#include "runtime/base/error.h"
#include "runtime/base/escape.h"
#include "runtime/core/state.h"

/* metadata ------------------------------------------------------------------------------------ */

static DictNote *find_note(const sn_dict *d, const char *key) {
    for (int i = 0; i < d->n_metadata; i++)
        if (!strcmp(d->metadata[i].key, key)) return &d->metadata[i];
    return NULL;
}

static void free_note(DictNote *note) {
    mem_free(note->key);
    mem_free(note->value);
}

static void remove_note(sn_dict *d, DictNote *note) {
    free_note(note);
    memmove(note, note + 1, (size_t)(&d->metadata[--d->n_metadata] - note) * sizeof *note);
}

static Status append_note(sn_dict *d, DictNote note) {
    DictNote *const buffer = mem_resize(d->metadata, (size_t)(d->n_metadata + 1) * sizeof *buffer);
    if (buffer) d->metadata = buffer;
    if (!buffer || !note.key || !note.value) return ST_MEMORY;
    d->metadata[d->n_metadata++] = note;
    return ST_OK;
}

static Status set_note(sn_dict *d, const char *key, const char *value) {
    DictNote *const old = find_note(d, key);
    DictNote fresh = {mem_strdup(key), mem_strdup(value)};
    if (old && fresh.key && fresh.value) {
        free_note(old);
        *old = fresh;
        return ST_OK;
    }
    const Status status = old ? ST_MEMORY : append_note(d, fresh);
    if (status != ST_OK) free_note(&fresh);
    return status;
}

const char *sn_dict_metadata(sn_dict *d, const char *key) {
    const DictNote *const note = d && key ? find_note(d, key) : NULL;
    return note ? note->value : NULL;
}

const char *sn_dict_metadata_key(sn_dict *d, int i) {
    return d && i >= 0 && i < d->n_metadata ? d->metadata[i].key : NULL;
}

sn_status sn_dict_set_metadata(sn_dict *d, const char *key, const char *value) {
    if (error_pending() != ST_OK) return (sn_status)error_pending();
    if (!d || !key)
        return (sn_status)error_raise(ST_ARGUMENT, "sn_dict_set_metadata: the dictionary or the key is NULL");
    if (!utf8_valid(key) || (value && !utf8_valid(value)))
        return (sn_status)error_raise(ST_ARGUMENT,
                                      "sn_dict_set_metadata: '%s': '%s' is no UTF-8, as texts in files must be", key,
                                      value ? value : "");
    DictNote *const note = find_note(d, key);
    if (value) return (sn_status)set_note(d, key, value);
    if (note) remove_note(d, note);
    return SN_OK;
}

/* opaque entries ------------------------------------------------------------------------------ */

static void free_opaque(DictOpaque *o) {
    mem_free((void *)o->tensor.name);
    mem_free((void *)o->tensor.dtype_name);
    mem_free((void *)o->tensor.sizes);
    mem_free((void *)o->tensor.data);
}

static void *copy_of(const void *from, size_t bytes) {
    void *const copy = mem_alloc(bytes ? bytes : 1);
    if (copy && bytes) memcpy(copy, from, bytes);
    return copy;
}

static Status copy_opaque(const SafeTensor *from, SafeTensor *to) {
    to->name = mem_strdup(from->name);
    to->dtype_name = mem_strdup(from->dtype_name);
    to->sizes = copy_of(from->sizes, (size_t)from->rank * sizeof *from->sizes);
    to->data = copy_of(from->data, from->bytes);
    to->rank = from->rank, to->bytes = from->bytes;
    return to->name && to->dtype_name && to->sizes && to->data ? ST_OK : ST_MEMORY;
}

static Status add_opaque(sn_dict *d, const SafeTensor *from, int before) {
    DictOpaque *const o = &d->opaque[d->n_opaque];
    *o = (DictOpaque){.before = before};
    const Status status = copy_opaque(from, &o->tensor);
    if (status == ST_OK)
        d->n_opaque++;
    else
        free_opaque(o);
    return status;
}

const DictOpaque *dict_find_opaque(const sn_dict *d, const char *name) {
    for (int i = 0; i < d->n_opaque; i++)
        if (!strcmp(d->opaque[i].tensor.name, name)) return &d->opaque[i];
    return NULL;
}

void dict_drop_opaque(sn_dict *d, const char *name) {
    DictOpaque *const o = (DictOpaque *)dict_find_opaque(d, name);
    if (!o) return;
    free_opaque(o);
    memmove(o, o + 1, (size_t)(&d->opaque[--d->n_opaque] - o) * sizeof *o);
}

const char *sn_dict_opaque(sn_dict *d, int i) {
    return d && i >= 0 && i < d->n_opaque ? d->opaque[i].tensor.name : NULL;
}

/* both ---------------------------------------------------------------------------------------- */

Status dict_adopt_carried(sn_dict *d, const SafeFile *file) {
    int carried = 0;
    for (int i = 0; file->metadata && i < file->metadata->n; i++)
        TRY(set_note(d, file->metadata->items[i].key, file->metadata->items[i].string));
    for (int i = 0; i < file->n; i++) carried += !file->tensors[i].dtype;
    d->opaque = mem_alloc((size_t)(carried + 1) * sizeof *d->opaque);
    if (!d->opaque) return ST_MEMORY;
    for (int i = 0, before = 0; i < file->n; i++)
        if (file->tensors[i].dtype)
            before++;
        else
            TRY(add_opaque(d, &file->tensors[i], before));
    return ST_OK;
}

void dict_free_carried(sn_dict *d) {
    for (int i = 0; i < d->n_metadata; i++) free_note(&d->metadata[i]);
    for (int i = 0; i < d->n_opaque; i++) free_opaque(&d->opaque[i]);
    mem_free(d->metadata);
    mem_free(d->opaque);
}
