/* capture_strided.c: as_strided inside a call. It names memory by an offset from the start of the
 * storage, which a graph doesn't know: there it counts from the root, the input or result whose
 * memory self is or views. That distance is the number that is recorded and matched [semantics C4],
 * so a function keeps its code when its input starts elsewhere and the distance stays.
 *
 * What reaches outside of the root's own elements, or whose root is not clear, breaks the graph. */
#include "runtime/capture/record/capture_strided.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/trace_graph.h"

typedef struct Root {
    const Meta *meta; /* NULL: of a value that is gone */
    int64_t offset;   /* of its first element in the storage */
    bool whole;       /* self is the root, not a view of it */
} Root;

/* Views lead to what they view; results of kernels and loop programs start their storage; what a
 * composite returns may be either. */
static bool root_of_value(const Trace *trace, Operand at, Root *out) {
    out->whole = true;
    while (!operand_is_input(at)) {
        const TraceOp *const op = trace_maker(trace, at);
        if (!op || op->row->kind == KIND_composite || at == OPERAND_ABSENT) return false;
        if (op->row->kind != KIND_view) {
            const sn_tensor *const value = trace->values.at[at]; /* may be gone when code is made */
            out->meta = value ? value->base.meta : NULL;
            out->offset = 0;
            return true;
        }
        at = op->operands[0];
        out->whole = false;
    }
    const TraceInput *const input = &trace->inputs.at[operand_input(at)];
    out->meta = input->meta;
    out->offset = input->offset;
    return true;
}

static bool root_of(const Trace *trace, const sn_tensor *t, Root *out) {
    const struct Placeholder *const p = t->placeholder;
    if (p && p->trace == trace) return root_of_value(trace, p->value, out);
    *out = (Root){t->base.meta, t->offset, true};
    return p == NULL;
}

/* Sizes and strides that the meta rule will refuse are left to it. */
static bool is_sane(const Arg *size, const Arg *stride, int64_t *span) {
    if (size->n != stride->n || size->n > MAX_RANK) return false;
    for (int i = 0; i < size->n; i++)
        if (size->ints[i] < 0 || stride->ints[i] < 0) return false;
    return meta_span(size->ints, stride->ints, size->n, span);
}

const char *strided_refusal(const Trace *trace, const OpCall *call) {
    const sn_tensor *const self = tensor_of(call->args[0].val);
    const Arg *const size = &call->args[1], *const stride = &call->args[2], *const offset = &call->args[3];
    Root root;
    if (!self || !root_of(trace, self, &root)) return "as_strided of what may be a view";
    if (!root.whole && (offset->kind == ARG_none || capture_requires_grad((sn_tensor *)self)))
        return "as_strided of a view, without an offset or with a gradient";
    int64_t span, whole;
    if (!is_sane(size, stride, &span)) return "as_strided of no valid layout";
    const int64_t at = offset->kind == ARG_none ? root.offset : offset->i;
    if (!meta_span(root.meta->sizes, root.meta->strides, root.meta->rank, &whole) || whole != root.meta->numel ||
        at < root.offset || at - root.offset > whole - span)
        return "as_strided reaches beyond its argument";
    return NULL;
}

int64_t strided_origin(const Trace *trace, Operand self) {
    Root root = {.offset = 0};
    return root_of_value(trace, self, &root) ? root.offset : 0;
}

bool strided_counts_from_an_input(const Trace *trace) {
    for (int i = 0; i < trace->ops.n; i++) {
        const TraceOp *const op = trace->ops.at[i].op;
        if (op->row->flags & OPF_storage && op->args[3].kind == ARG_int) return true;
    }
    return false;
}
