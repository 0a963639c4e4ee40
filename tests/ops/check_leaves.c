/* check_leaves.c: a backward inside a compiled function, from one float result of a row to one of its float tensors,
 * which alone requires a gradient: eager gives it one or leaves it without, and compiled code the same bits, the same
 * none or the same error; by compiled code, also with all sizes symbolic and with ops that eager runs in the middle of
 * it, and op by op where compiling fails. */
#include "runtime/base/bail.h"
#include "runtime/base/error.h"
#include "tests/ops/ops.h"
#include "tests/ops/symbolic.h"

typedef struct OneEdge { /* the closure of the function */
    const SampleCall *call;
    int result; /* whose sum is the root */
} OneEdge;

static sn_status body(sn_frame *f) {
    const OneEdge *const edge = sn_closure(f);
    sn_tensor *outs[MAX_LIST];
    int n;
    sn_tensor *in[SAMPLE_TENSORS];
    SampleCall call;
    for (int i = 0; i < edge->call->n_tensors; i++) in[i] = sn_in(f, i);
    sample_with(edge->call, in, &call);
    if (sample_run(&call, outs, &n) != ST_OK) return sn_check();
    sn_tensor *const root = edge->result < n ? outs[edge->result] : NULL;
    if (root && sn_requires_grad(root)) sn_backward(sn_sum(root));
    return sn_check();
}

/* One call with tensor `leaf` as the leaf; text gets its gradient. */
static void see_call(const Case *c, sn_function *fn, OneEdge *edge, int leaf, Text *text) {
    const sn_scope scope = sn_scope_begin();
    SampleCall call;
    if (ops_make(c, &call)) {
        edge->call = &call;
        sn_requires_grad_(call.tensors[leaf], true);
        sn_seed(3);
        if (sn_call(fn, call.tensors, call.n_tensors, NULL, 0) == SN_OK) ops_show(text, sn_grad(call.tensors[leaf]));
    }
    if (sn_check() != SN_OK) {
        const sn_error *const error = sn_error_take();
        text_printf(text, "error %d: %s\n", (int)error->status, error->message);
    }
    sn_scope_end(scope);
}

/* That a segment runs eagerly is what the second way is for. */
static void stay_silent(void *context, int level, const char *topic, const char *line) {
    (void)context, (void)level, (void)topic, (void)line;
}

typedef struct BackwardWay {
    const char *failpoint;
    sn_dynamic dynamic;
    bool whole; /* all of it is compiled */
} BackwardWay;

static bool ran_eagerly(sn_function *fn) {
    const char *const said = sn_explain(fn);
    return strstr(said, "runs by itself") || strstr(said, "\nnot compiled: ");
}

static void check_way(const Case *c, const BackwardWay *way, OneEdge *edge, int leaf, const char *want) {
    sn_function *const fn = sn_compile(body, edge, SN_COMPILE_OPTIONS(.dynamic = way->dynamic));
    failpoint_set(way->failpoint);
    for (int i = 0; i < 2; i++) {
        Text got = {0};
        see_call(c, fn, edge, leaf, &got);
        if (strcmp(want, text_str(&got)))
            ops_fail(c, "%s, result %d, tensor %d, call %d\n  eager    %.300s  compiled %.300s", way->failpoint,
                     edge->result, leaf, i + 1, want, text_str(&got));
        text_free(&got);
    }
    if (way->whole && ran_eagerly(fn) && !symbolic_listed(c->row, SYMBOLIC_backward))
        ops_fail(c, "result %d, tensor %d, all sizes symbolic: %.300s", edge->result, leaf, sn_explain(fn));
    failpoint_set("");
    sn_function_free(fn);
}

static void check_edge(const Case *c, int result, int leaf) {
    static const BackwardWay ways[] = {{"codegen", SN_DYNAMIC_AUTO, false},
                                       {"codegen", SN_DYNAMIC_ALWAYS, true},
                                       {"codegen,some_alone", SN_DYNAMIC_ALWAYS, false},
                                       {"pass:joint", SN_DYNAMIC_AUTO, false}};
    OneEdge edge = {.result = result};
    Text want = {0};
    sn_function *const eager = sn_compile(body, &edge, SN_COMPILE_OPTIONS(.mode = SN_COMPILE_EAGER));
    see_call(c, eager, &edge, leaf, &want);
    sn_function_free(eager);
    sn_logging_set(stay_silent, NULL, NULL);
    for (int way = 0; way < COUNT_OF(ways); way++) check_way(c, &ways[way], &edge, leaf, text_str(&want));
    sn_logging_set(NULL, NULL, NULL);
    ops_count();
    text_free(&want);
}

void check_leaves(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    bool is_root[MAX_LIST] = {false}, is_leaf[SAMPLE_TENSORS] = {false};
    int n;
    if (c->row->flags & OPF_internal) ops_count(); /* only graphs have them */
    if (c->row->flags & OPF_internal || !ops_run(c, &call, outs, &n)) return;
    const int n_tensors = call.n_tensors;
    for (int i = 0; i < n; i++) is_root[i] = outs[i] && dtype_is_float(outs[i]->base.meta->dtype);
    for (int i = 0; i < n_tensors; i++) is_leaf[i] = dtype_is_float(call.tensors[i]->base.meta->dtype);
    for (int result = 0; result < n; result++)
        for (int leaf = 0; is_root[result] && leaf < n_tensors; leaf++)
            if (is_leaf[leaf]) check_edge(c, result, leaf);
}
