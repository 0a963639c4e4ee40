/* program: a program in a form of its own becomes a graph, node by node: a net of layers from a list, and a recurrent
 * cell along a sequence, trained through; its text, and the digest of its gradients beside that of the text's. */
#include <inttypes.h>
#include <sinter/sinter.h>
#include <stdio.h>
#include <string.h>

#include "sample.h"
#include "work.h"

enum { INPUTS = 4, WEIGHTS = 3 }; /* the input, then the weights */

/* What the program is in its own form. */
typedef struct Layer {
    const char *op, *weight, *type;
    int line;
} Layer;
static const Layer layers[] = {
    {"aten::linear", "w1", "f32[16,16]", 12}, {"aten::gelu", NULL, NULL, 13}, {"aten::linear", "w2", "f32[4,16]", 14}};

/* h = tanh(x + h @ u): the body of the scan. */
static sn_graph *cell(void) {
    sn_graph *body = sn_graph_new("cell");
    sn_node *h = sn_graph_input(body, "h", "f32[s0,16]"), *x = sn_graph_input(body, "x", "f32[s0,16]");
    sn_node *u = sn_graph_input(body, "u", "f32[16,16]");
    const sn_value product[] = {sn_node_result(x, 0), sn_node_result(h, 0), sn_node_result(u, 0)};
    const sn_value sum = sn_node_result(sn_graph_op(body, "aten::addmm", product, 3), 0);
    const sn_value next = sn_node_result(sn_graph_op(body, "aten::tanh", &sum, 1), 0), results[] = {next, next};
    sn_graph_return(body, results, 2);
    return body;
}

/* The last state of the cell, which begins with zeros, for any number of rows. */
static sn_value add_scan(sn_graph *g, sn_node *x) {
    sn_graph *body = cell();
    sn_node *u = sn_graph_input(g, "u", "f32[16,16]");
    const sn_value sizes[] = {sn_graph_sym(g, "s0"), sn_int(16)}, list = sn_values(sizes, 2);
    const sn_value zeros = sn_node_result(sn_graph_op(g, "aten::zeros", &list, 1), 0);
    const sn_value operands[] = {zeros, sn_node_result(x, 0), sn_node_result(u, 0)};
    sn_node *scan = sn_graph_scan(g, body, SN_GRAPH_LOOP_OPTIONS(.carries = 1, .scanned = 1, .dim = 1), operands, 3);
    sn_graph_free(body);
    return sn_node_result(scan, 0);
}

static sn_value add_layer(sn_graph *g, const Layer *layer, sn_value x) {
    sn_value args[] = {x, sn_none()};
    if (layer->weight) args[1] = sn_node_result(sn_graph_input(g, layer->weight, layer->type), 0);
    sn_node *made = sn_graph_op(g, layer->op, args, layer->weight ? 2 : 1);
    sn_node_place(made, "net.txt", layer->line, "forward");
    return sn_node_result(made, 0);
}

static sn_graph *build(void) {
    sn_graph *g = sn_graph_new("net");
    sn_graph_range(g, "s0", 1, 1024, 8);
    sn_value y = add_scan(g, sn_graph_input(g, "x", "f32[s0,6,16]"));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) y = add_layer(g, &layers[i], y);
    const sn_value logits[] = {y, sn_int(1)};
    const sn_value loss = sn_node_result(sn_graph_op(g, "aten::log_softmax.int", logits, 2), 0);
    const sn_value mean = sn_node_result(sn_graph_op(g, "aten::mean", &loss, 1), 0), results[] = {mean, y};
    sn_graph_return(g, results, 2);
    return g;
}

void sample_work(SampleWork *work) {
    sn_seed(1);
    *work = (SampleWork){.kind = SAMPLE_BACKWARD, .graph = build(), .n_in = INPUTS, .n_out = 2};
    work->in[0] = sn_randn(SN_INTS(8, 6, 16), SN_F32);
    work->in[1] = sn_mul_scalar(sn_randn(SN_INTS(16, 16), SN_F32), sn_float(0.25));
    work->in[2] = sn_mul_scalar(sn_randn(SN_INTS(16, 16), SN_F32), sn_float(0.25));
    work->in[3] = sn_mul_scalar(sn_randn(SN_INTS(4, 16), SN_F32), sn_float(0.25));
    for (int i = 1; i < INPUTS; i++) sn_requires_grad_(work->in[i], true);
}

/* Of the weights' gradients, after `calls` of this many rows. */
static uint64_t gradients(sn_function *fn, const SampleWork *work, int64_t rows) {
    float values[16 * 16];
    uint64_t digest = 0;
    for (int call = 0; call < 2; call++) {
        sn_tensor *in[INPUTS] = {sn_narrow(work->in[0], 0, 0, rows)}, *out[2], *grads[WEIGHTS];
        memcpy(in + 1, work->in + 1, sizeof *in * WEIGHTS);
        if (sn_call(fn, in, INPUTS, out, 2)) return 0;
        if (sn_gradients(SN_TENSORS(out[0]), (sn_tensors){in + 1, WEIGHTS}, (sn_tensors){NULL, 0}, 0, grads)) return 0;
        digest = 0;
        for (int i = 0; i < WEIGHTS; i++) {
            const size_t bytes = sizeof *values * (size_t)sn_numel(grads[i]);
            if (sn_read(grads[i], values, bytes)) return 0;
            digest = digest * 31 + sample_digest(values, bytes);
        }
    }
    return digest;
}

int main(void) {
    SampleWork work;
    sample_work(&work);
    const char *text = sn_graph_text(work.graph);
    fputs(text, stdout);
    sn_graph *parsed = sn_graph_parse(text, strlen(text));
    sn_function *built = sn_graph_compile(work.graph, NULL), *read = sn_graph_compile(parsed, NULL);
    for (int64_t rows = 8; rows > 1; rows -= 3) {
        const uint64_t a = gradients(built, &work, rows), b = gradients(read, &work, rows);
        printf("%d rows: gradients %016" PRIx64 ", %s\n", (int)rows, a,
               a == b ? "as of the text" : "NOT as of the text");
    }
    sn_function_free(built);
    sn_function_free(read);
    sn_graph_free(parsed);
    sn_graph_free(work.graph);
    return sn_finish();
}
