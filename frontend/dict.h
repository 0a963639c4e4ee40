/* dict.h: the ordered dictionary of tensors behind sn_dict; the optimizers (api_optim.c) walk it. */
#ifndef SINTER_FRONTEND_DICT_H
#define SINTER_FRONTEND_DICT_H
#include <sinter/nn.h>

#include "runtime/base/base.h"

typedef struct DictEntry {
    char *name;
    sn_tensor *tensor; /* one reference */
} DictEntry;

struct sn_dict {
    DictEntry *entries;
    int n, room;
};

Status dict_set(sn_dict *d, const char *name, sn_tensor *t);

#endif
