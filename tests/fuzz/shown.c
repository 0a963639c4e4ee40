/* shown.c: what a compiled function shows of itself is what runs [semantics C16]: neither passes that went nor
 * failpoints of now change it, and the plans that it shows have the kernels that explain counts. What broke it has a
 * row of runtime/core/breaks.def: only the text of a program's own sn_graph_break has none. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "tests/fuzz/run.h"

/* Lines of all parts "steps", which end where "memory" begins. */
static int64_t shown_kernels(const char *loops) {
    int64_t n = 0;
    for (const char *at = loops; (at = strstr(at, "\nsteps\n"));) {
        const char *const end = strstr(at += sizeof "\nsteps" - 1, "\nmemory\n");
        while (end && at < end) n++, at += 1 + strcspn(at + 1, "\n");
    }
    return n;
}

/* Of all graphs, by explain. */
static int64_t counted_kernels(sn_function *fn) {
    static const char key[] = "\"kernels\": ";
    int64_t n = 0;
    for (const char *at = sn_explain_json(fn); (at = strstr(at, key));) n += strtoll(at += sizeof key - 1, NULL, 10);
    return n;
}

static bool breaks_have_rows(sn_function *fn) {
    static const char own[] = "\", \"code\": \"SB151\"", text[] = "\"fuzz";
    for (const char *at = sn_explain_json(fn); (at = strstr(at, own)); at++)
        if (strncmp(at - (sizeof text - 1), text, sizeof text - 1) != 0) return false;
    return true;
}

uint64_t fz_run_shown(const FzRun *run) {
    static const char *const stages[] = {"capture", "functional", "joint",  "decomposed", "fused",
                                         "forward", "backward",   "memory", "shapes",     "loops"};
    uint64_t hash = 1;
    int64_t kernels = 0;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const char *const text = sn_dump(run->fn, stages[i]);
        hash = hash_bytes(hash, text, strlen(text));
        kernels = shown_kernels(text);
    }
    const bool failed = sn_check() != SN_OK;
    if (failed) sn_error_take();
    return failed || kernels != counted_kernels(run->fn) || !breaks_have_rows(run->fn) ? 0 : hash;
}
