/* tape_sites.c: where the program called the ops that nodes record, for what anomaly mode says of a backward. The last
 * ones only, by sequence number: nothing has to be taken out when a node goes. */
#include "runtime/autograd/tape.h"
#include "runtime/base/alloc.h"

enum { MOST_SITES = 1 << 16 };

typedef struct TapeSites {
    struct TapeSite {
        uint64_t sequence;
        const void *site;
    } at[MOST_SITES];
} TapeSites;

void tape_site_record(sn_state *state, const TapeNode *node) {
    if (!state->tape.sites && !(state->tape.sites = mem_zero(sizeof *state->tape.sites))) {
        error_clear(); /* memory is out, and the op has run: its place will not be known */
        return;
    }
    state->tape.sites->at[node->sequence % MOST_SITES] = (struct TapeSite){node->sequence, state->site};
}

const void *tape_site_of(const sn_state *state, const TapeNode *node) {
    const struct TapeSite *const at = state->tape.sites ? &state->tape.sites->at[node->sequence % MOST_SITES] : NULL;
    return at && at->sequence == node->sequence && node->state == state->id ? at->site : NULL;
}
