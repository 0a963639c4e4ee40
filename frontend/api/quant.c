/* quant.c: int8 products in captured graphs (sinter/quant.h), by the public functions for graphs alone: which
 * products, their observers, fake_quantize. What a product becomes is in quant_convert.c. A failing prepare leaves the
 * graph as it was, also where memory is out, by what the public functions do not have. */
#include <sinter/ops.h>
#include <string.h>

#include "frontend/api/enter.h"
#include "frontend/api/graph_handle.h"
#include "frontend/lib/options.h"
#include "frontend/lib/quantizer.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/text.h"
#include "runtime/core/state.h"

/* products ------------------------------------------------------------------------------------ */

static bool is_op(sn_node *n, const char *op) { return n && !strcmp(sn_node_op(n), op); }

/* A number that is this one, whatever its kind. */
static bool arg_is(sn_node *n, const char *name, int64_t number) {
    sn_value v;
    if (sn_node_arg(n, name, &v) != SN_OK) return sn_error_take(), false;
    return v.kind == SN_KIND_FLOAT ? v.f == (double)number : v.kind == SN_KIND_INT && v.i == number;
}

static const char *why_not_f32(sn_node *n) {
    if (sn_node_dtype(n) == SN_F32) return NULL;
    return is_op(n, "aten::_to_copy") ? "what it takes is cast (autocast?), not f32" : "what it takes is not f32";
}

/* A weight as it is, or its transpose, of f32. */
static const char *adopt_weight(QuantProduct *p, sn_node *operand, int rank) {
    p->weight = operand;
    p->transposed = is_op(operand, "aten::t");
    p->input = p->transposed ? sn_node_in(operand, 0) : operand;
    p->given = sn_node_tensor(p->input);
    const char *const why = why_not_f32(p->input);
    if (why) return why;
    if (!p->given) return "its weight is no tensor that the function closes over, and no input that is bound to one";
    return sn_node_rank(p->input) == rank ? NULL : "its weight has another rank";
}

/* These give why a product cannot be converted, or NULL and *x. */
static const char *match_linear(QuantProduct *p, sn_node *n, sn_node **x) {
    const bool adds = is_op(n, "aten::addmm");
    if (adds && !(arg_is(n, "beta", 1) && arg_is(n, "alpha", 1))) return "beta or alpha is not 1";
    *p = (QuantProduct){.node = n, .bias = adds ? sn_node_in(n, 0) : NULL};
    *x = sn_node_in(n, adds);
    return adopt_weight(p, sn_node_in(n, adds + 1), 2);
}

static const char *adopt_image(QuantProduct *p, sn_node *n, sn_node **x) {
    const char *const why = quant_image_refuses(n);
    if (why) return why;
    *p = (QuantProduct){.node = n, .image = true, .bias = sn_node_in_count(n) == 3 ? sn_node_in(n, 2) : NULL};
    *x = sn_node_in(n, 0);
    return adopt_weight(p, sn_node_in(n, 1), 4);
}

static const char *choose_product(QuantProduct *p, sn_node *n, sn_node **x) {
    const char *const why = is_op(n, "aten::convolution") ? adopt_image(p, n, x) : match_linear(p, n, x);
    return why ? why : why_not_f32(*x);
}

static bool is_product(sn_node *n) {
    return is_op(n, "aten::mm") || is_op(n, "aten::addmm") || is_op(n, "aten::convolution");
}

static QuantValue *value_of_node(sn_quantizer *q, sn_node *node) {
    for (int i = 0; i < q->n_values; i++)
        if (q->values[i]->node == node) return q->values[i];
    QuantValue *const made = mem_alloc(sizeof *made);
    if (made) *made = (QuantValue){.node = node}, q->values[q->n_values++] = made;
    return made;
}

static Status find_products(sn_quantizer *q, Text *left_out) {
    const int count = sn_graph_count(q->graph);
    q->values = mem_alloc((size_t)count * sizeof *q->values);
    q->products = mem_alloc((size_t)count * sizeof *q->products);
    if (!q->values || !q->products) return ST_MEMORY;
    for (int i = 0; i < count; i++) {
        sn_node *const n = sn_graph_node(q->graph, i), *x;
        if (!is_product(n)) continue;
        QuantProduct *const p = &q->products[q->n_products];
        const char *const why = choose_product(p, n, &x);
        if (why) text_printf(left_out, "; %%%d %s: %s", i, sn_node_op(n), why);
        if (why) continue;
        if (!(p->x = value_of_node(q, x))) return ST_MEMORY;
        q->n_products++;
    }
    return error_pending();
}

/* What nobody hears of would be a model that is as slow and as large as before. */
static void report_left_out(const sn_quantizer *q, const Text *left_out) {
    if (q->n_products && left_out->n)
        LOG(general, INFO, "sn_quant_prepare: products that stay as they are%s", text_str(left_out));
    if (!q->n_products)
        LOG(general, WARNING, "sn_quant_prepare: the graph has no product that can be converted%s",
            left_out->n ? text_str(left_out) : "");
}

static Status quant_find(sn_quantizer *q) {
    Text left_out = {0};
    const Status status = find_products(q, &left_out);
    if (status == ST_OK) report_left_out(q, &left_out);
    text_free(&left_out);
    return status;
}

/* observers ----------------------------------------------------------------------------------- */

static Status read_quant_options(sn_quantizer *q, const sn_quant_options *given) {
    static const sn_observer_options whole = {.size = sizeof whole};
    static const sn_observer_options weight = {.size = sizeof weight, .dtype = SN_I8, .symmetric = true};
    sn_quant_options o = {0};
    TRY(options_copy_in(&o, sizeof o, given, "sn_quant_prepare"));
    q->activation = o.activation ? *o.activation : whole;
    q->weight = o.weight ? *o.weight : weight;
    q->activation.size = q->weight.size = sizeof q->weight;
    if (q->weight.dtype == SN_I8 && q->weight.symmetric) return ST_OK;
    return error_raise(ST_ARGUMENT, "sn_quant_prepare: weights must become i8, symmetric");
}

/* Where the first product that takes it is. */
static Status observe_value(sn_quantizer *q, QuantProduct *p) {
    QuantValue *const x = p->x;
    if (x->observe) return ST_OK;
    if (!(x->observer = sn_observer_new(&q->activation))) return error_pending();
    if (!(x->number = quant_observe_number(x->observer))) return ST_MEMORY;
    const sn_value number = sn_int(x->number);
    x->observe = sn_graph_insert(q->graph, p->node, "quant::observe", &x->node, 1, &number, 1);
    return x->observe ? ST_OK : error_pending();
}

static Status prepare(sn_quantizer *q, const sn_quant_options *options) {
    TRY(read_quant_options(q, options));
    TRY(quant_observe_op());
    TRY(quant_find(q));
    for (int i = 0; i < q->n_products; i++) TRY(observe_value(q, &q->products[i]));
    return graph_bind_known(q->graph);
}

static void take_back(sn_quantizer *q) {
    for (int i = 0; i < q->n_values; i++)
        if (q->values[i]->observe) graph_remove_node(q->values[i]->observe);
    sn_quantizer_free(q);
}

sn_quantizer *sn_quant_prepare(sn_graph *g, const sn_quant_options *options) {
    API_ENTER(sn_quant_prepare);
    if (entered.refused) return NULL;
    if (!g) {
        error_raise(ST_ARGUMENT, "sn_quant_prepare: the graph is NULL");
        return NULL;
    }
    sn_quantizer *const q = mem_alloc(sizeof *q);
    if (!q) return NULL;
    *q = (sn_quantizer){.graph = g};
    if (prepare(q, options) == ST_OK) return q;
    take_back(q);
    return NULL;
}

int sn_quant_count(sn_quantizer *q) { return q ? q->n_products : 0; }

void sn_quantizer_free(sn_quantizer *q) {
    if (!q) return;
    for (int i = 0; i < q->n_values; i++) {
        quant_observe_end(q->values[i]->number);
        sn_observer_free(q->values[i]->observer);
        mem_free(q->values[i]);
    }
    mem_free(q->values);
    mem_free(q->products);
    mem_free(q);
}

/* what they saw ------------------------------------------------------------------------------- */

/* Integers have neither infinities nor NaN. */
static Status check_finite(const QuantProduct *p) {
    const sn_scope scope = scope_begin_own();
    const bool finite = sn_item_int(sn_all(sn_isfinite(sn_detach(p->given))));
    TRY((Status)sn_scope_end(scope));
    return finite ? ST_OK
                  : error_raise(ST_VALUE, "quantization: the weight '%s' has values that are not finite",
                                sn_node_name(p->input));
}

static Status weight_params(sn_quantizer *q, QuantProduct *p) {
    sn_observer *const o = sn_observer_new(&q->weight);
    Status status = o ? observer_add(o, p->given) : error_pending();
    if (status == ST_OK) status = (Status)sn_observer_qparams(o, &p->params);
    sn_observer_free(o);
    return status;
}

/* Before anything is edited: an observer that has seen nothing leaves the graph as it is. */
static Status compute_qparams(sn_quantizer *q) {
    for (int i = 0; i < q->n_values; i++)
        TRY((Status)sn_observer_qparams(q->values[i]->observer, &q->values[i]->params));
    for (int i = 0; i < q->n_products; i++) {
        TRY(check_finite(&q->products[i]));
        TRY(weight_params(q, &q->products[i]));
    }
    return ST_OK;
}

Status quant_put(sn_quantizer *q, QuantProduct *p, sn_node *made) {
    sn_node *const old = p->node;
    if (!made) return error_pending();
    TRY((Status)sn_node_replace(old, made));
    TRY((Status)sn_node_erase(old));
    p->node = made;
    for (int i = 0; i < q->n_values; i++)
        if (q->values[i]->node == old) q->values[i]->node = made;
    for (int i = 0; i < q->n_products; i++)
        if (q->products[i].bias == old) q->products[i].bias = made;
    return ST_OK;
}

void quant_drop(sn_node *n) {
    if (n && sn_node_erase(n) != SN_OK && sn_check() == SN_ERR_STATE) sn_error_take(); /* used elsewhere */
}

static Status drop_observers(sn_quantizer *q) {
    for (int i = 0; i < q->n_values; i++) {
        if (q->values[i]->observe) TRY((Status)sn_node_erase(q->values[i]->observe));
        q->values[i]->observe = NULL;
    }
    return ST_OK;
}

static Status check_stage(const sn_quantizer *q, QuantStage last, const char *what) {
    if (!q) return error_raise(ST_ARGUMENT, "%s: the quantizer is NULL", what);
    if (q->stage <= last) return ST_OK;
    return error_raise(ST_STATE, "%s: its products are %s already", what,
                       q->stage == QUANT_fake ? "fake_quantize" : "converted");
}

/* fake_quantize ------------------------------------------------------------------------------- */

static sn_node *faked(sn_graph *g, sn_node *before, sn_node *n, const sn_qparams *p) {
    const sn_value numbers[] = {sn_float(p->scale), sn_int(p->zero_point), sn_int(p->quant_min), sn_int(p->quant_max)};
    return sn_graph_insert(g, before, "aten::fake_quantize_per_tensor_affine", &n, 1, numbers, 4);
}

static sn_node *faked_product(sn_quantizer *q, const QuantProduct *p) {
    sn_node *const in[] = {p->bias, p->x->fake, p->fake};
    const int adds = p->bias != NULL;
    return sn_graph_insert(q->graph, p->node, adds ? "aten::addmm" : "aten::mm", in + !adds, 2 + adds, NULL, 0);
}

static sn_node *faked_image(sn_quantizer *q, const QuantProduct *p) {
    sn_node *const in[] = {p->x->fake, p->fake, p->bias};
    sn_value numbers[7];
    int n;
    if (quant_image_numbers(p, numbers, &n) != ST_OK) return NULL;
    return sn_graph_insert(q->graph, p->node, "aten::convolution", in, p->bias ? 3 : 2, numbers, n);
}

static Status fake_product(sn_quantizer *q, QuantProduct *p) {
    QuantValue *const x = p->x;
    if (!x->fake) x->fake = faked(q->graph, p->node, x->node, &x->params);
    p->fake = faked(q->graph, p->node, p->weight, &p->params);
    if (!x->fake || !p->fake) return error_pending();
    return quant_put(q, p, p->image ? faked_image(q, p) : faked_product(q, p));
}

sn_status sn_quant_fake(sn_quantizer *q) {
    API_ENTER(sn_quant_fake);
    Status status = entered.refused ? error_pending() : check_stage(q, QUANT_observed, "sn_quant_fake");
    if (status == ST_OK) status = compute_qparams(q);
    for (int i = 0; status == ST_OK && i < q->n_products; i++) status = fake_product(q, &q->products[i]);
    if (status == ST_OK) status = drop_observers(q);
    if (status == ST_OK) q->stage = QUANT_fake;
    return (sn_status)status;
}

/* integers ------------------------------------------------------------------------------------ */

/* Those that fake_quantize is no longer used by. */
static void drop_fakes(sn_quantizer *q) {
    for (int i = 0; i < q->n_products; i++) quant_drop(q->products[i].fake);
    for (int i = 0; i < q->n_values; i++) quant_drop(q->values[i]->fake);
}

/* No product has it any more: nodes that are erased may not be asked for again. */
static void drop_weight(sn_quantizer *q, sn_node *n) {
    quant_drop(n);
    for (int i = 0; i < q->n_products; i++) {
        QuantProduct *const p = &q->products[i];
        if (p->weight == n) p->weight = NULL;
        if (p->input == n) p->input = NULL;
    }
}

/* Transposes first: they use the others. */
static void drop_weights(sn_quantizer *q) {
    for (int i = 0; i < q->n_products; i++)
        if (q->products[i].transposed) drop_weight(q, q->products[i].weight);
    for (int i = 0; i < q->n_products; i++) drop_weight(q, q->products[i].input);
}

sn_status sn_quant_convert(sn_quantizer *q) {
    API_ENTER(sn_quant_convert);
    Status status = entered.refused ? error_pending() : check_stage(q, QUANT_fake, "sn_quant_convert");
    if (status == ST_OK && q->stage == QUANT_observed) status = compute_qparams(q);
    for (int i = 0; status == ST_OK && i < q->n_products; i++) status = quant_convert_product(q, &q->products[i]);
    if (status != ST_OK) return (sn_status)status;
    q->stage = QUANT_converted;
    drop_fakes(q);
    status = drop_observers(q);
    if (status == ST_OK) drop_weights(q);
    return (sn_status)(status == ST_OK ? error_pending() : status);
}
