/* internal.c: rules of the rows that only graphs and derivatives use (ir/ops/internal.def). */
#include "passes/internal.h"
#include "passes/rules/body.h"
#include "passes/rules/deriv.h"

BodyFn body_restride, body_zeros_strided;
DecompFn decomp_gradients;

int body_restride(BodyCall *c) { return c->element(c, 0); }
int body_zeros_strided(BodyCall *c) { return K(0); }

/* The joint pass expands these nodes; no builder can. */
Status decomp_gradients(Builder *b, const OpRow *row, const Arg *args, Val **outs) {
    return error_raise(ST_UNSUPPORTED, "%s outside the joint pass", row->name);
}

Status deriv_restride(Deriv *d) { return deriv_set(d, 0, grad_of(d)); }

static Val *zeros_like_meta(Builder *b, const Meta *meta) {
    return E(b, zeros_strided, A_INTS(meta->sizes, meta->rank), A_INTS(meta->strides, meta->rank), I(meta->dtype),
             I(meta->device));
}

/* The gradient of a value with gaps, in memory whose gaps are 0: what was written there nobody sees. */
static Val *above_zeros(Builder *b, Val *grad, const Meta *meta, int64_t span) {
    const Meta *const own = grad->meta;
    Val *const zeros = E(b, zeros_strided, A_INTS(&span, 1), A_INTS(&(int64_t){1}, 1), I(own->dtype), I(own->device));
    const Arg sizes = A_INTS(meta->sizes, meta->rank), strides = A_INTS(meta->strides, meta->rank);
    return E(b, view_of, V(E(b, view_scatter, V(zeros), V(grad), sizes, strides, I(0))), sizes, strides, I(0));
}

static bool has_plain_layout(const Meta *meta) {
    bool plain = true;
    for (int i = 0; i < meta->rank; i++) plain = plain && !sym_is(meta->sizes[i]) && !sym_is(meta->strides[i]);
    return plain;
}

/* A gradient in the layout of the value it belongs to, so that (size, stride, offset) name the same
 * elements. */
static Val *in_layout_of(Builder *b, Val *grad, const Meta *meta) {
    int64_t span;
    if (!grad) return NULL;
    if (has_plain_layout(meta) && meta_span(meta->sizes, meta->strides, meta->rank, &span) && span > meta->numel)
        return above_zeros(b, grad, meta, span);
    for (int i = 0; i < meta->rank; i++)
        if (grad->meta->strides[i] != meta->strides[i])
            return E(b, restride, V(grad), A_INTS(meta->strides, meta->rank));
    return grad;
}

/* self: the gradient but zero where src was written; src: the gradient there. */
Status deriv_view_scatter(Deriv *d) {
    Builder *const b = d->b;
    Val *const grad = in_layout_of(b, grad_of(d), d->result_meta[0]);
    if (wants(d, 0)) {
        Val *const zeros = zeros_like_meta(b, d->arg_meta[1]);
        TRY(deriv_set(d, 0, E(b, view_scatter, V(grad), V(zeros), d->args[2], d->args[3], d->args[4])));
    }
    if (!wants(d, 1)) return ST_OK;
    return deriv_set(d, 1, E(b, view_of, V(grad), d->args[2], d->args[3], d->args[4]));
}

Status internal_write(Builder *self, Val *to, Val *from) {
    const Arg args[] = {V(to), V(from), A_BOOL(false)};
    return graph_append((Graph *)self, OP_ROW(copy), FORM_inplace, args) ? ST_OK : error_pending();
}
