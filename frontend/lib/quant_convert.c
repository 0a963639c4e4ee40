/* quant_convert.c: a product of floats becomes one of integers. With x = sx (qx - zx) and w = sw qw, rounding aside,
 *
 *     sum_k x w = sx sw (sum_k qx qw - zx sum_k qw)
 *
 * where the first sum is exact in i32 (_int_mm) and the second is known: it is an input of the graph, like qw. */
#include <sinter/ops.h>
#include <stdio.h>

#include "frontend/lib/quantizer.h"

/* Rounded where the first of its products is. */
static Status round_value(sn_quantizer *q, QuantProduct *p) {
    QuantValue *const x = p->x;
    const sn_qparams *const s = &x->params;
    const sn_value numbers[] = {sn_float(s->scale), sn_int(s->zero_point), sn_int(s->quant_min), sn_int(s->quant_max),
                                sn_int(s->dtype)};
    if (x->rounded) return ST_OK;
    x->rounded =
        sn_graph_insert(q->graph, p->node, "quantized_decomposed::quantize_per_tensor", &x->node, 1, numbers, 5);
    return x->rounded ? ST_OK : error_pending();
}

static sn_node *bound(sn_quantizer *q, const QuantProduct *p, const char *what, sn_tensor *t) {
    char name[48];
    snprintf(name, sizeof name, "%s%d", what, (int)(p - q->products));
    return t ? sn_graph_bind(q->graph, name, t) : NULL;
}

static sn_tensor *rounded_weight(const QuantProduct *p) {
    const sn_qparams *const s = &p->params;
    sn_tensor *const own = sn_detach(p->given), *const flat = p->image ? sn_flatten(own, 1, -1) : own;
    sn_tensor *const w = p->transposed || p->image ? sn_t(flat) : flat;
    return sn_contiguous(sn_quantize_per_tensor(w, s->scale, s->zero_point, s->quant_min, s->quant_max, s->dtype));
}

/* zx sum_k qw, for each column. */
static sn_tensor *offsets(const QuantProduct *p, sn_tensor *rounded) {
    sn_tensor *const sums = sn_sum_dim(sn_to(rounded, SN_I64), SN_INTS(0), false);
    return sn_to(sn_mul_scalar(sums, sn_int(p->x->params.zero_point)), SN_I32);
}

/* The sums without the offsets, as floats. */
static sn_node *scaled_sums(sn_quantizer *q, QuantProduct *p, sn_node *weight, sn_node *offset) {
    sn_graph *const g = q->graph;
    sn_node *const in[] = {p->image ? quant_image_rows(q, p) : p->x->rounded, weight};
    sn_node *sums = in[0] ? sn_graph_insert(g, p->node, "aten::_int_mm", in, 2, NULL, 0) : NULL;
    if (offset) {
        sn_node *const both[] = {sums, offset};
        sums = sums ? sn_graph_insert(g, p->node, "aten::sub.Tensor", both, 2, NULL, 0) : NULL;
    }
    const sn_value scale = sn_float(p->x->params.scale * p->params.scale);
    return sums ? sn_graph_insert(g, p->node, "aten::mul.Tensor", &sums, 1, &scale, 1) : NULL;
}

static sn_node *with_bias(sn_quantizer *q, const QuantProduct *p, sn_node *y) {
    sn_node *const both[] = {y, p->bias};
    return !y || !p->bias ? y : sn_graph_insert(q->graph, p->node, "aten::add.Tensor", both, 2, NULL, 0);
}

static Status put_integers(sn_quantizer *q, QuantProduct *p) {
    sn_tensor *const rounded = rounded_weight(p);
    sn_node *const weight = bound(q, p, "weight", rounded), *offset = NULL;
    if (p->x->params.zero_point && !(offset = bound(q, p, "offset", offsets(p, rounded)))) return error_pending();
    if (!weight) return error_pending();
    TRY(round_value(q, p));
    sn_node *const y = with_bias(q, p, scaled_sums(q, p, weight, offset));
    return quant_put(q, p, p->image && y ? quant_image_of_rows(q, p, y) : y);
}

Status quant_convert_product(sn_quantizer *q, QuantProduct *p) {
    const sn_scope scope = sn_scope_begin();
    const Status status = put_integers(q, p);
    sn_scope_end(scope);
    return status;
}
