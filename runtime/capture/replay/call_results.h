/* call_results.h: what the results of a replayed call will be, known before it is launched: so they can be
 * described without a run, and computed into memory of the caller's. */
#ifndef SINTER_RUNTIME_CALL_RESULTS_H
#define SINTER_RUNTIME_CALL_RESULTS_H
#include "runtime/capture/replay/specialized_call.h"

/* Who calls has memory for results. */
typedef struct ResultSink ResultSink;
struct ResultSink {
    /* Result i will be a new tensor of this layout: *place is memory for it, borrowed until the call's end, or NULL: it
     * goes into memory of its own.
     * An error ends the call, of which nothing has run. May call nothing of the library. */
    Status (*place)(ResultSink *sink, int i, const Meta *meta, Storage **place);
};

typedef struct CallResult {
    OutKind kind;   /* OUT_none: absent */
    int base;       /* of an input or a view of one: which argument; of a result: which result; -1: of another tensor */
    int64_t offset; /* of views: elements behind the first one of base */
    const Meta *meta; /* borrowed (meta_intern) */
} CallResult;

/* Of a call that was matched. */
Status call_results_describe(const SpecializedMatch *match, CallResult *results);
/* Asks for places: given, by graph output, zeroed, is where launch takes them. What an input shares is left out. */
Status call_results_place(const SpecializedMatch *match, sn_tensor *const *inputs, const int64_t *symbols,
                          Storage **given);

#endif
