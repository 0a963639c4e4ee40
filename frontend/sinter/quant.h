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
/* SN_ERR_STATE where no value was seen yet; *out is zeros then. [neutral] */
sn_status sn_observer_qparams(sn_observer *o, sn_qparams *out);
/* The least and the largest value that it goes by (averages of these, if it averages); SN_ERR_STATE as above.
   [neutral] */
sn_status sn_observer_range(sn_observer *o, double *min, double *max);
SN_END
#endif
