/* check_infer.c: what sn_op_infer says, of tensors and of their descriptions as text, against what eager makes. */
#include <sinter/infer.h>

#include "runtime/base/error.h"
#include "tests/ops/ops.h"

enum { MAX_INFERRED = 64 };

static bool equal_numbers(const int64_t *a, const int64_t *b, int n) {
    return !n || !memcmp(a, b, (size_t)n * sizeof *a);
}

static bool shares(const SampleCall *call, const sn_tensor *t) {
    for (int i = 0; i < call->n_tensors; i++)
        if (call->tensors[i]->storage == t->storage) return true;
    return false;
}

static void compare_inferred(const Case *c, const SampleCall *call, int i, const sn_inferred *said, sn_tensor *t) {
    const Meta *const meta = t->base.meta;
    if (said->dtype != (sn_dtype)meta->dtype || said->device != meta->device)
        ops_fail(c, "result %d: inferred %s, eager %s", i, said->type, dtype_name(meta->dtype));
    else if (said->rank != meta->rank || !equal_numbers(said->sizes, meta->sizes, meta->rank) ||
             !equal_numbers(said->strides, meta->strides, meta->rank))
        ops_fail(c, "result %d: inferred %s, eager has other sizes or strides", i, said->type);
    else if ((said->alias_of >= 0) != shares(call, t))
        ops_fail(c, "result %d: inferred the memory of argument %d, eager differs", i, said->alias_of);
}

static void infer_and_compare(const Case *c, const SampleCall *call, const sn_value *in, sn_tensor **outs, int n) {
    sn_inferred said[MAX_INFERRED];
    int n_said = MAX_INFERRED;
    const sn_op *const op = sn_op_find(op_form_name(c->row, FORM_functional));
    if (sn_op_infer(op, in, c->row->n_params, said, &n_said, NULL) != SN_OK) {
        ops_fail(c, "sn_op_infer refuses what eager runs: %s", sn_error_take()->message);
        return;
    }
    if (n_said != n) ops_fail(c, "inferred %d results, eager %d", n_said, n);
    for (int i = 0; i < n && i < n_said; i++) compare_inferred(c, call, i, &said[i], outs[i]);
}

/* "[f32[2,3], None]" */
static void describe_argument(const Arg *arg, Text *text) {
    const bool list = arg->kind == ARG_tensors;
    if (list) text_puts(text, "[");
    for (int i = 0; i < (list ? arg->n : 1); i++) {
        const Val *const val = list ? arg->vals[i] : arg->val;
        if (i) text_puts(text, ", ");
        if (val)
            meta_print(NULL, text, val->meta);
        else
            text_puts(text, "None");
    }
    if (list) text_puts(text, "]");
}

static bool has_wrapped(const SampleCall *call) {
    for (int i = 0; i < call->n_tensors; i++)
        if (call->tensors[i]->base.meta->wrapped) return true; /* no text says so */
    return false;
}

void check_infer(const Case *c) {
    SampleCall call;
    sn_tensor *outs[MAX_LIST];
    sn_value in[MAX_ARGS];
    Text texts[MAX_ARGS] = {{0}};
    int n;
    if (!ops_run(c, &call, outs, &n) || c->row->flags & OPF_internal) return; /* that only graphs have */
    memcpy(in, call.args, sizeof *in * (size_t)c->row->n_params);
    infer_and_compare(c, &call, in, outs, n);
    for (int i = 0; i < c->row->n_params; i++) {
        if (in[i].kind != SN_KIND_TENSOR && in[i].kind != SN_KIND_TENSORS) continue;
        describe_argument(&call.args[i], &texts[i]);
        in[i] = sn_str(text_str(&texts[i]));
    }
    if (!has_wrapped(&call)) infer_and_compare(c, &call, in, outs, n);
    for (int i = 0; i < c->row->n_params; i++) text_free(&texts[i]);
}
