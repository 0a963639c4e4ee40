/* check_bools.c: a bool byte that is not 0 is true, and what an op writes to a bool is 0 or 1 [semantics B1]: every row
 * that takes bools gives of bytes such as 255 what it gives of 0 and 1, eagerly, and compiled by interpreter and
 * generated code at every instruction set. Views show what they view. */
#include <stdlib.h>

#include "tests/ops/ops.h"

static bool takes_bools(const SampleCall *call) {
    for (int i = 0; i < call->n_tensors; i++)
        if (call->tensors[i]->base.meta->dtype == DT_bool) return true;
    return false;
}

static bool is_argument(const SampleCall *call, const sn_tensor *t) {
    for (int i = 0; i < call->n_tensors; i++)
        if (call->tensors[i]->storage == t->storage) return true;
    return false;
}

/* Results in memory of their own. False: refused. */
static bool shown(const Case *c, Text *text) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    int n;
    if (!ops_run(c, &call, outs, &n)) return false;
    for (int i = 0; i < n; i++)
        if (outs[i] && !is_argument(&call, outs[i])) ops_show(text, outs[i]);
    return true;
}

void check_bools(const Case *c) {
    SampleCall call;
    Case loose = *c;
    loose.style.loose = true;
    if (!ops_make(c, &call)) return;
    if (!takes_bools(&call) || (c->row->kind == KIND_kernel && !strcmp(c->row->body, "empty"))) {
        ops_count();
        return;
    }
    Text want = {0}, got = {0};
    if (shown(c, &want) && shown(&loose, &got)) {
        if (strcmp(text_str(&want), text_str(&got)))
            ops_fail(c, "bytes other than 0 and 1\n  want %.300s\n  got  %.300s", text_str(&want), text_str(&got));
        check_compiled(&loose);
        check_native_code(&loose);
    }
    text_free(&want);
    text_free(&got);
}
