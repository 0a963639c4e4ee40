/* quant_image.c: a convolution of images as a product: each window is a row of (channel, kernel position), as the
 * weight's columns are. What was rounded is padded by its zero point, which stands for 0, and looked at through
 * overlapping views; one copy makes rows of them. */
#include <string.h>

#include "frontend/lib/quantizer.h"

static bool list_arg(sn_node *n, const char *name, int64_t *pair) {
    sn_value v;
    if (sn_node_arg(n, name, &v) != SN_OK) return sn_error_take(), false;
    if (v.kind != SN_KIND_INTS || v.n != 2) return false;
    memcpy(pair, v.ints, 2 * sizeof *pair);
    return true;
}

static bool number_is(sn_node *n, const char *name, int64_t number) {
    sn_value v;
    if (sn_node_arg(n, name, &v) != SN_OK) return sn_error_take(), false;
    return (v.kind == SN_KIND_INT || v.kind == SN_KIND_BOOL) && v.i == number;
}

/* All sizes but the first are known, and lie row by row. */
static const char *why_not_plain(sn_node *n) {
    int64_t stride = 1;
    for (int d = 1; d < 4; d++)
        if (sn_node_size(n, d) < 1) return "its sizes are not known (SN_DYNAMIC_ALWAYS?)";
    for (int d = 3; d >= 0; d--) {
        if (sn_node_stride(n, d) != stride) return "its images do not lie row by row (channels_last?)";
        stride *= d ? sn_node_size(n, d) : 1;
    }
    return NULL;
}

const char *quant_image_refuses(sn_node *n) {
    int64_t stride[2], padding[2], dilation[2];
    if (sn_node_rank(n) != 4 || !list_arg(n, "stride", stride) || !list_arg(n, "padding", padding) ||
        !list_arg(n, "dilation", dilation))
        return "it is not of 2 dims";
    if (!number_is(n, "transposed", 0)) return "it is transposed";
    if (!number_is(n, "groups", 1)) return "it has groups";
    return dilation[0] != 1 || dilation[1] != 1 ? "it is dilated" : why_not_plain(n);
}

static sn_node *put_before(sn_quantizer *q, const QuantProduct *p, const char *op, sn_node *x, const sn_value *numbers,
                           int n) {
    return x ? sn_graph_insert(q->graph, p->node, op, &x, 1, numbers, n) : NULL;
}

static sn_node *with_ints(sn_quantizer *q, const QuantProduct *p, const char *op, sn_node *x, sn_ints ints) {
    const sn_value list = sn_ints_value(ints);
    return put_before(q, p, op, x, &list, 1);
}

static sn_node *padded_rounded(sn_quantizer *q, const QuantProduct *p) {
    int64_t pad[2];
    if (!list_arg(p->node, "padding", pad)) return NULL;
    if (!pad[0] && !pad[1]) return p->x->rounded;
    const sn_value numbers[] = {sn_ints_value(SN_INTS(pad[1], pad[1], pad[0], pad[0])),
                                sn_int(p->x->params.zero_point)};
    return put_before(q, p, "aten::constant_pad_nd", p->x->rounded, numbers, 2);
}

sn_node *quant_image_rows(sn_quantizer *q, const QuantProduct *p) {
    int64_t stride[2];
    sn_node *x = padded_rounded(q, p);
    if (!list_arg(p->node, "stride", stride)) return NULL;
    for (int d = 0; d < 2; d++) {
        const sn_value numbers[] = {sn_int(2 + d), sn_int(sn_size(p->given, 2 + d)), sn_int(stride[d])};
        x = put_before(q, p, "aten::unfold", x, numbers, 3);
    }
    x = with_ints(q, p, "aten::permute", x, SN_INTS(0, 2, 3, 1, 4, 5));
    return with_ints(q, p, "aten::reshape", x, SN_INTS(-1, sn_numel(p->given) / sn_size(p->given, 0)));
}

sn_node *quant_image_of_rows(sn_quantizer *q, const QuantProduct *p, sn_node *rows) {
    const int64_t height = sn_node_size(p->node, 2), width = sn_node_size(p->node, 3);
    sn_node *y = with_ints(q, p, "aten::view", rows, SN_INTS(-1, height, width, sn_size(p->given, 0)));
    y = with_ints(q, p, "aten::permute", y, SN_INTS(0, 3, 1, 2));
    return put_before(q, p, "aten::contiguous", y, NULL, 0);
}

Status quant_image_numbers(const QuantProduct *p, sn_value *numbers, int *n) {
    static const char *const names[] = {"stride", "padding", "dilation", "transposed", "output_padding", "groups"};
    *n = 0;
    if (!p->bias) numbers[(*n)++] = sn_none();
    for (int i = 0; i < 6; i++) TRY((Status)sn_node_arg(p->node, names[i], &numbers[(*n)++]));
    return ST_OK;
}
