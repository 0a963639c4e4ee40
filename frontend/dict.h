/* dict.h: the ordered dictionary of tensors behind sn_dict; the optimizers (api_optim.c) walk it. */
#ifndef SINTER_FRONTEND_DICT_H
#define SINTER_FRONTEND_DICT_H
#include <sinter/nn.h>

#include "runtime/core/safetensors.h"

typedef struct DictEntry {
    char *name;
    sn_tensor *tensor; /* one reference */
} DictEntry;

struct sn_dict {
    DictEntry *entries;
    int n, room;
};

/* Among its first n entries. */
bool dict_holds(const sn_dict *d, int n, const sn_tensor *t);
Status dict_set(sn_dict *d, const char *name, sn_tensor *t);
/* t as a file has it, row-major on the host: its own data where they lie so, else a copy of the innermost scope. */
Status dict_safe(sn_tensor *t, const char *name, const char *what, SafeTensor *out);

#endif
