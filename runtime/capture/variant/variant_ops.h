/* variant_ops.h: a case of a saved plan whose launches run the ops of its graph one by one, as eager does: what its
 * code is compared with (sinter verify). */
#ifndef SINTER_RUNTIME_VARIANT_OPS_H
#define SINTER_RUNTIME_VARIANT_OPS_H
#include "runtime/capture/variant/variant.h"

/* From its next launch on. Raises ST_UNSUPPORTED where its file has no graph. */
Status variant_run_by_ops(Variant *variant);

#endif
