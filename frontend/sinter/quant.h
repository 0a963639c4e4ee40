/* quant.h: 8-bit integers in the place of floats: observers, and a pass that puts int8 products into graphs. The ops
   (sn_fake_quantize_per_tensor_affine, sn_quantize_per_tensor, sn_dequantize_per_tensor, sn_int_mm and those of a
   scale per channel) are in ops.h. A value x stands for q = round(x / scale) + zero_point, limited to
   quant_min..quant_max. */
#ifndef SINTER_QUANT_H
#define SINTER_QUANT_H
#include <sinter/graph.h>
SN_BEGIN
/* Observers see tensors and choose scale and zero point for all of them, by the formulas of torch.ao.quantization's
   MinMaxObserver, MovingAverageMinMaxObserver and HistogramObserver: one scale for a whole tensor (observers of each
   channel are not there). */
typedef struct sn_observer sn_observer;
typedef enum sn_observer_kind {
    /* The least and the largest value of all. */
    SN_OBSERVE_MIN_MAX,
    /* Of each tensor, averaged: the older ones count less and less. */
    SN_OBSERVE_MOVING_AVERAGE,
    /* The part of a histogram whose values, rounded, differ least from what was seen (squares added up): values far
       outside are limited. */
    SN_OBSERVE_HISTOGRAM
} sn_observer_kind;
typedef struct sn_observer_options {
    size_t size;
    sn_observer_kind kind;
    /* SN_U8 or SN_I8; 0: SN_U8. */
    sn_dtype dtype;
    /* The range is the same to both sides of 0, which zero_point stands for: 0, of u8 128. Else it goes from the least
       to the largest value, and has 0 in it. */
    bool symmetric;
    /* Of the moving average: how much a new tensor counts; 0: 0.01. */
    double averaging;
    /* Of the histogram; 0: 2048. */
    int32_t bins;
} sn_observer_options;
#define SN_OBSERVER_OPTIONS(...) SN_STRUCT(sn_observer_options, __VA_ARGS__)
/* options NULL: all defaults. Free it by sn_observer_free. [neutral] */
sn_observer *sn_observer_new(const sn_observer_options *options);
void sn_observer_free(sn_observer *o);
/* Floats of any sizes, on any device, whose values it waits for; infinities and NaNs are left out. [refused] */
sn_status sn_observer_observe(sn_observer *o, sn_tensor *t);
/* How values are rounded; scale is an f32. */
typedef struct sn_qparams {
    double scale;
    int64_t zero_point, quant_min, quant_max;
    sn_dtype dtype;
} sn_qparams;
/* SN_ERR_STATE where no value was seen yet; *out is zeros then. [event] */
sn_status sn_observer_qparams(sn_observer *o, sn_qparams *out);
/* The least and the largest value that it goes by (averages of these, if it averages); SN_ERR_STATE as above.
   [event] */
sn_status sn_observer_range(sn_observer *o, double *min, double *max);

/* A captured graph with int8 products, in four steps: prepare, calls with data, convert, compile.

       sn_graph *g = sn_graph_capture(fn, in, 1);
       sn_quantizer *q = sn_quant_prepare(g, NULL);
       sn_function *seen = sn_graph_compile(g, NULL);
       for (...) sn_call(seen, batch...);
       sn_quant_convert(q);
       sn_function *fast = sn_graph_compile(g, NULL);

   What is converted are products of f32 with a weight that fn closes over (or an input that is bound to one): linear
   (mm and addmm whose mat2 is the weight, or its transpose), and convolutions of contiguous images in one group,
   neither transposed nor dilated, of sizes that are known (not under SN_DYNAMIC_ALWAYS).
   The weight, of finite values, is rounded once, with one scale, what comes in in each call; their product is exact in
   i32 (up to a depth of 65,793, where 255 times 128 fill it) and multiplied by both scales. All else stays in f32. */
typedef struct sn_quantizer sn_quantizer;
typedef struct sn_quant_options {
    size_t size;
    /* What observes what comes in, and the weights, which must become i8, symmetric. NULL: range (SN_OBSERVE_MIN_MAX),
       u8, not symmetric; range, i8, symmetric. */
    const sn_observer_options *activation, *weight;
} sn_quant_options;
#define SN_QUANT_OPTIONS(...) SN_STRUCT(sn_quant_options, __VA_ARGS__)
/* Puts an observer (quant::observe) before each product that can be converted, and binds the inputs that were closed
   over. What cannot be converted stays as it is: the log says which and why, as a warning where nothing is left. g must
   live as long as the quantizer and is to be edited by it alone. Call what is compiled of g with what is
   typical, gradients off. [refused] */
sn_quantizer *sn_quant_prepare(sn_graph *g, const sn_quant_options *options);
/* How many products it is about. [neutral] */
int sn_quant_count(sn_quantizer *q);
/* In the place of each observer fake_quantize of what comes in and of the weight: floats with the values of the
   integers, to train with or to look at. An observer that has seen nothing is SN_ERR_STATE. [refused] */
sn_status sn_quant_fake(sn_quantizer *q);
/* Products of integers, from observers or fake_quantize; weights in f32 that nothing else uses are no inputs any more.
   Once. [refused] */
sn_status sn_quant_convert(sn_quantizer *q);
/* The graph stays. [neutral] */
void sn_quantizer_free(sn_quantizer *q);
SN_END
#endif
