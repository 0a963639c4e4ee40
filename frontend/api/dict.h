/* dict.h: the ordered dictionary of tensors behind sn_dict; the optimizers (optim.c) walk it. Beside its entries it
 * carries what a file had that is no tensor here: metadata, and entries of dtypes that we do not have (opaque), which
 * are written again at their places. */
#ifndef SINTER_FRONTEND_DICT_H
#define SINTER_FRONTEND_DICT_H
#include <sinter/nn.h>

#include "runtime/core/safetensors.h"

typedef struct DictEntry {
    char *name;
    sn_tensor *tensor; /* one reference */
} DictEntry;

typedef struct DictOpaque {
    SafeTensor tensor; /* with texts, sizes and data of its own */
    int before;        /* so many entries stand before it */
} DictOpaque;

typedef struct DictNote {
    char *key, *value;
} DictNote;

struct sn_dict {
    DictEntry *entries;
    int n, capacity;
    NameIndex names; /* of the entries */
    DictOpaque *opaque;
    int n_opaque;
    DictNote *metadata;
    int n_metadata;
};

/* NULL: absent. */
const DictEntry *dict_find(const sn_dict *d, const char *name);
Status dict_set(sn_dict *d, const char *name, sn_tensor *t);
/* *first: no call with this map saw the tensor. Fails for memory alone. */
Status dict_see(Map *seen, const sn_tensor *t, bool *first);
/* t as a file has it, row-major on the host: its own data where they lie so, else a copy of the innermost scope. */
Status dict_safe(sn_tensor *t, const char *name, const char *what, SafeTensor *out);

/* dict_carried.c: what is carried beside the entries. */
Status dict_adopt_carried(sn_dict *d, const SafeFile *file); /* once, of a dictionary that has the file's tensors */
const DictOpaque *dict_find_opaque(const sn_dict *d, const char *name);
void dict_drop_opaque(sn_dict *d, const char *name);
void dict_free_carried(sn_dict *d);

#endif
