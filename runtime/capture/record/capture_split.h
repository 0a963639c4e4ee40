/* capture_split.h: an op call split into structure, which the trie is matched by, and numbers, which
 * are kept beside. */
#ifndef SINTER_RUNTIME_CAPTURE_SPLIT_H
#define SINTER_RUNTIME_CAPTURE_SPLIT_H
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/capture/record/capture.h"

enum {
    USUAL_OPERANDS = 32, /* of one op; more are in the arena */
    USUAL_NUMBERS = 64
};

typedef struct OpSplit {
    int n_operands, n_fixed, n_numbers;
    Operand *operands;
    const Meta **metas; /* of the operands */
    int64_t *numbers;   /* lists, then single ones */
    int64_t fixed[2 * MAX_ARGS + 1];
    Operand usual_operands[USUAL_OPERANDS];
    const Meta *usual_metas[USUAL_OPERANDS];
    int64_t usual_numbers[USUAL_NUMBERS];
} OpSplit;

/* How many results a user's op gives its meta rule says, by sizes and numbers of the call: calls of other counts are
 * other steps. -1: the rule fails, which is said as the call is recorded. */
int capture_list_length(const OpCall *call);
Status capture_split(Capture *capture, const OpCall *call, OpSplit *out);
/* What capture_follow compares the next call with, in the order of capture_split; NULL: it shall not. */
const ExpectedArg *capture_expected_args(Arena *arena, const OpCall *call, const OpSplit *split);

static inline int64_t capture_string_word(const Arg *a) { return (int64_t)hash_bytes(1, a->string, strlen(a->string)); }

#endif
