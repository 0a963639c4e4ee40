/* spatial.h: what native kernels of convolutions and pools read from a call, whatever device runs them. Lists of one
 * number speak of all spatial dims; there are 3, missing ones are filled up in front. */
#ifndef SINTER_RUNTIME_DEVICE_SPATIAL_H
#define SINTER_RUNTIME_DEVICE_SPATIAL_H
#include "runtime/core/dispatch.h"

enum { SPATIAL_DIMS = 3 };

const sn_tensor *named_tensor(const OpCall *call, const char *name); /* NULL: None */
int64_t spatial_sizes(const Meta *meta, int dims, int64_t *sizes);   /* the last `dims`; their product */

/* Dims of a convolution from input to result, whatever is computed of it. */
typedef struct ConvGeometry {
    DType dtype; /* of the tensors */
    SType type;
    int bytes; /* of the compute type */
    int64_t batch, groups;
    int64_t kernel[SPATIAL_DIMS], stride[SPATIAL_DIMS], padding[SPATIAL_DIMS], dilation[SPATIAL_DIMS];
} ConvGeometry;
ConvGeometry conv_geometry(const OpCall *call, const int64_t *weight_sizes);
bool conv_is_transposed(const OpCall *call);

/* The windows of a pool. */
typedef struct PoolReach {
    int64_t kernel, stride, padding, dilation;
} PoolReach;
PoolReach pool_reach(const OpCall *call, int i); /* of spatial dim i */
int pool_dims(const OpCall *call, int list);     /* n of parameter `list`, an int[n] */
int64_t pool_divisor(const OpCall *call);        /* divisor_override; 0: none */
bool pool_is_padded(const OpCall *call);         /* count_include_pad */

#endif
