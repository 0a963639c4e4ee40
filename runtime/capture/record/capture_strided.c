/* capture_strided.c: the door of as_strided into a trace. It names memory by an offset from the start of the storage,
 * which a graph doesn't know: what is recorded is sn::view_of its base, told from the base's first element. So a
 * function keeps its code when its input starts elsewhere and the distance stays.
 *
 * The base is what self is a view of with the same history: the traversal ends at what was detached or made while
 * gradients were off. What reaches outside of the root's own elements, or whose root is not of this segment, breaks the
 * graph. */
#include "runtime/capture/record/capture_strided.h"
#include "ir/meta_rules.h"
#include "runtime/base/error.h"
#include "runtime/capture/record/capture.h"
#include "runtime/capture/record/capture_thread.h"
#include "runtime/autograd/query.h"
#include "runtime/capture/record/symbols.h"
#include "runtime/capture/record/trace_graph.h"
#include "runtime/core/breaks.h"

typedef struct Strided {
    sn_tensor *base;
    const Meta *root;            /* NULL: of a value that is gone */
    int64_t storage;             /* where the root begins in its storage */
    int64_t base_offset, offset; /* of the base and of self, from the root's first element */
    bool input, whole;           /* the root is an input; self is the base, not a view of it */
} Strided;

static Operand base_of(const Trace *trace, Operand at) {
    while (at >= 0 && trace->places.at[at].memory != OPERAND_ABSENT) {
        const TraceOp *const op = trace_maker(trace, at);
        if (!tape_keeps(op->row, op->modes)) break;
        at = trace->places.at[at].memory;
    }
    return at;
}

static int64_t offset_of(const Trace *trace, Operand at) { return at < 0 ? 0 : trace->places.at[at].offset; }

/* What an operand of the trace lies in; false: a handle is gone. */
static bool find_value(const Trace *trace, Operand self, Strided *out) {
    const Operand base = base_of(trace, self), root = trace_root(trace, self);
    const sn_tensor *const of = trace_tensor(trace, root);
    *out = (Strided){.base = trace_tensor(trace, base),
                     .root = of ? of->base.meta : NULL,
                     .storage = operand_is_input(root) ? trace->inputs.at[operand_input(root)].offset : 0,
                     .base_offset = offset_of(trace, base),
                     .offset = offset_of(trace, self),
                     .input = operand_is_input(root),
                     .whole = base == self};
    return out->base && out->root;
}

static bool find_self(const Trace *trace, sn_tensor *t, Strided *out) {
    const struct Placeholder *const p = t->placeholder;
    if (p) return p->trace == trace && find_value(trace, p->value, out);
    *out = (Strided){.base = t, .root = t->base.meta, .storage = t->offset, .input = true, .whole = true};
    return true;
}

/* Sizes and strides that the meta rule will refuse are left to it. */
static bool is_sane(const Arg *size, const Arg *stride, int64_t *span) {
    int64_t numel = 1; /* strides of 0 reach any number of elements */
    if (size->n != stride->n || size->n > MAX_RANK) return false;
    for (int i = 0; i < size->n; i++)
        if (size->ints[i] < 0 || stride->ints[i] < 0 || !mul_ok(numel, max_i64(size->ints[i], 1), &numel)) return false;
    return mul_ok(numel, 8, &numel) && meta_span(size->ints, stride->ints, size->n, span);
}

/* `span` elements from `at` on are the root's own. */
static bool is_inside(const Meta *root, int64_t at, int64_t span) {
    return meta_is_dense(NULL, root->sizes, root->strides, root->rank) && at >= 0 && at <= root->numel - span;
}

static void set_view(const OpCall *call, const Arg *symbolic, const Strided *self, int64_t at, StridedView *view) {
    const bool given = call->args[3].kind == ARG_int;
    const int64_t shift = self->storage + self->base_offset, number = at - self->base_offset;
    view->from_storage = given ? self->input || shift : number != 0;
    memcpy(view->args, call->args, sizeof view->args);
    memcpy(view->symbolic, symbolic, sizeof view->symbolic);
    view->args[0] = view->symbolic[0] = A_VAL(&self->base->base);
    view->args[3] = A_INT(number);
    if (!given || view->from_storage) view->symbolic[3] = view->args[3];
    view->call = *call;
    view->call.row = OP_ROW(view_of);
    view->call.args = view->args;
}

Reason strided_view(const Capture *c, const OpCall *call, const Arg *symbolic, StridedView *view) {
    const Arg *const size = &call->args[1], *const stride = &call->args[2], *const offset = &call->args[3];
    sn_tensor *const t = tensor_of(call->args[0].val);
    Strided self;
    int64_t span;
    if (!t || !find_self(c->trace, t, &self)) return BREAK_REASON(strided_earlier);
    const bool tracks = !self.whole && capture_requires_grad(t); /* that may end the segment, whose value self is */
    if (tracks || !find_self(c->trace, t, &self)) return BREAK_REASON(strided_grad);
    if (!is_sane(size, stride, &span)) return BREAK_REASON(strided_layout);
    const int64_t at = offset->kind == ARG_int ? offset->i - self.storage : self.offset;
    if (!is_inside(self.root, at, span)) return BREAK_REASON(strided_reach);
    set_view(call, symbolic, &self, at, view);
    return NULL;
}

static bool find_place(const Trace *trace, Operand self, DType dtype, PendingPlace *out) {
    const Operand at = trace_root(trace, self);
    const bool is_input = operand_is_input(at);
    sn_tensor *const of = trace_tensor(trace, at);
    if (!of || dtype_bytes(of->base.meta->dtype) != dtype_bytes(dtype)) return false; /* other elements are counted */
    if (is_input && of->offset != trace->inputs.at[operand_input(at)].offset) return false; /* laid anew since */
    *out = (PendingPlace){is_input ? of : NULL, offset_of(trace, self), at == self};
    return true;
}

bool capture_place(sn_tensor *t, PendingPlace *out) {
    Capture *const c = capture_of(state_get()->tracer);
    if (!c || t->placeholder->tracer != &c->tracer) return false;
    const bool entered = capture_enter(c);
    const struct Placeholder *const p = t->placeholder; /* another thread may have made it meanwhile */
    const bool found = p && p->trace == c->trace && find_place(p->trace, p->value, t->base.meta->dtype, out);
    capture_leave(c, entered);
    return found;
}

/* Where a replay function's view begins may follow from numbers of the call, and no expression is kept of it. */
static bool is_placed(sn_tensor *t, PendingPlace *place) {
    return !t->placeholder || (capture_place(t, place) && (place->whole || !symbols_current()));
}

int64_t capture_storage_offset(sn_tensor *t, const char *what) {
    PendingPlace place = {.root = t};
    if (!is_placed(t, &place)) {
        if (tensor_ready(t, what) != ST_OK) return 0;
        place = (PendingPlace){.root = t};
    }
    return place.distance + (place.root ? query_ask(QUERY_storage_offset, place.root, 0) : 0);
}
