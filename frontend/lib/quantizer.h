/* quantizer.h: the pass of sinter/quant.h: which products it is about, and what it puts in their place. */
#ifndef SINTER_FRONTEND_QUANTIZER_H
#define SINTER_FRONTEND_QUANTIZER_H
#include "frontend/lib/observer.h"

typedef enum QuantStage { QUANT_observed, QUANT_fake, QUANT_converted } QuantStage;

/* A value that products take, with what observes it. */
typedef struct QuantValue {
    sn_node *node, *observe;
    sn_observer *observer;
    int64_t number; /* of the observer */
    sn_qparams params;
    sn_node *fake, *rounded; /* where they are made */
} QuantValue;

typedef struct QuantProduct {
    sn_node *node; /* what stands for it now */
    QuantValue *x;
    sn_node *weight, *bias; /* as the product has them; no bias: NULL */
    sn_node *input;         /* the weight, or what it is the transpose of; products may share both */
    sn_tensor *given;       /* its values, borrowed from the graph */
    bool transposed;        /* given is [n,k], the product's [k,n] */
    bool image;             /* a convolution */
    sn_qparams params;      /* of the weight */
    sn_node *fake;          /* of the weight */
} QuantProduct;

struct sn_quantizer {
    sn_graph *graph;
    sn_observer_options activation, weight;
    QuantValue **values;
    QuantProduct *products;
    int n_values, n_products;
    QuantStage stage;
};

/* The op of observers, registered when it is first asked for. */
Status quant_observe_op(void);
int64_t quant_observe_number(sn_observer *o); /* 0: no memory */
void quant_observe_end(int64_t number);
/* Convolutions (quant_image.c): why it cannot be converted, or NULL; its windows as rows of what was rounded; rows of
 * results as an image; the numbers behind its tensors, 7 at most. NULL is the pending error. */
const char *quant_image_refuses(sn_node *n);
sn_node *quant_image_rows(sn_quantizer *q, const QuantProduct *p);
sn_node *quant_image_of_rows(sn_quantizer *q, const QuantProduct *p, sn_node *rows);
Status quant_image_numbers(const QuantProduct *p, sn_value *numbers, int *n);
/* Puts integers in the place of one product. */
Status quant_convert_product(sn_quantizer *q, QuantProduct *p);
/* What stands for the product from here on, in its place; the old node goes. NULL is the pending error. */
Status quant_put(sn_quantizer *q, QuantProduct *p, sn_node *made);
/* Erases it if nothing uses it. */
void quant_drop(sn_node *n);

#endif
