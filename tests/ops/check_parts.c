/* check_parts.c: a row that keeps its identity runs as one program; its decomposition, emitted into eager, runs part by
 * part. Both give the same bits (the strides of parts are their own affair). */
#include "runtime/base/error.h"
#include "tests/ops/ops.h"

static sn_tensor *flat(sn_tensor *t) { return sn_reshape(t, SN_INTS(sn_numel(t))); }

void check_parts(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    Val *parts[MAX_OUTS] = {NULL};
    int n;
    ops_count();
    if (c->row->kind != KIND_decomposition) return;
    SampleCall again;
    if (!ops_run(c, &call, outs, &n) || !ops_make(c, &again)) return;
    sn_seed(3);
    if (decomp_rule(c->row)(eager_builder(), c->row, again.args, parts) != ST_OK) {
        ops_fail(c, "part by part: %s", sn_error_take()->message);
        return;
    }
    for (int i = 0; i < n; i++) {
        Text whole = {0}, split = {0};
        if (!parts[i]) continue; /* a gradient that is not wanted */
        ops_show(&whole, flat(outs[i]));
        ops_show(&split, flat(tensor_of(parts[i])));
        if (strcmp(text_str(&whole), text_str(&split)))
            ops_fail(c, "result %d\n  whole %.300s\n  parts %.300s", i, text_str(&whole), text_str(&split));
        text_free(&whole);
        text_free(&split);
    }
}
