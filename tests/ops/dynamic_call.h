/* dynamic_call.h: which sizes and numbers of a sample's call may be symbols, tried on eager: each size above 1 of its
 * tensors that may differ without an error, and the SymInts that have to follow it, as expressions. */
#ifndef SINTER_TESTS_OPS_DYNAMIC_CALL_H
#define SINTER_TESTS_OPS_DYNAMIC_CALL_H
#include "tests/ops/ops.h"

enum { DYNAMIC_SYMBOLS = 12, DYNAMIC_SLOTS = 24, DYNAMIC_CALLS = 3 };

typedef struct DynamicSymbol {
    int64_t size;  /* in the sample's line */
    bool multiple; /* calls have multiples of it; else any larger number */
    bool number;   /* a number of the call and no size: an int input of the graph */
} DynamicSymbol;

typedef struct DynamicSlot { /* a SymInt of the call: value = times * its symbols / over */
    int param, item;         /* item: of a list; -1: it is none */
    int64_t value, times, over;
    uint32_t symbols; /* bits */
} DynamicSlot;

typedef struct DynamicCall {
    const Case *of;
    DynamicSymbol symbols[DYNAMIC_SYMBOLS];
    DynamicSlot slots[DYNAMIC_SLOTS];
    int n_symbols, n_slots;
    int n_outs; /* of every call */
} DynamicCall;

/* False: the row's dtype is refused, or the case failed. n_symbols is 0 where nothing may differ. */
bool dynamic_find(const Case *c, DynamicCall *d);
/* What a symbol is in call k: 0 is the sample's line. */
int64_t dynamic_size(const DynamicCall *d, int symbol, int k);
/* The call k, and what eager gives. The status is pending. */
Status dynamic_make(const DynamicCall *d, int k, SampleCall *call);
/* "s0*2//3", "4" */
void dynamic_slot_text(const DynamicSlot *slot, Text *text);
/* The symbol that a size of the sample's tensors is, -1: none. */
int dynamic_symbol_of(const DynamicCall *d, int64_t size);

#endif
