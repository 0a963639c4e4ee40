/* guard.h: does a variant fit a call? Rows of guard.def; each can be switched off by a test, which
 * shows that something else would then go wrong. */
#ifndef SINTER_RUNTIME_GUARD_H
#define SINTER_RUNTIME_GUARD_H
#include "runtime/capture/variant/variant.h"

typedef enum GuardId {
#define GUARD(name, doc) GUARD_##name,
#include "runtime/capture/variant/guard.def"
#undef GUARD
    GUARD_COUNT
} GuardId;

const char *guard_name(GuardId guard);
void guard_disable(uint32_t guards); /* tests only: a bit per GuardId; 0 enables all */

/* Does a variant fit this trace? If not and `why` is given, the guard that failed with
 * both values. */
bool variant_fits(const Variant *variant, const Trace *trace, Text *why);
/* Symbols of a graph's header for which it does not fit, as Trace.as_now. */
uint64_t variant_unfit_symbols(const Variant *variant, const Trace *trace);
/* Of variant_fits, for the search of a variant to generalise. */
bool guard_flags_fit(const Variant *variant, const Trace *trace, int i, Text *why);
bool guard_outputs_fit(const Variant *variant, const Trace *trace, Text *why);
/* Two of n storages name the same bytes; only memory that users own can. Sorts the list, which may name one several
 * times. */
bool storages_overlap(const Storage **list, int n);
/* Elements from the first input of the same storage. */
int64_t trace_alias_offset(const Trace *trace, int input);

#endif
