/* element.h: single elements of a tensor on the host: for sn_item, sn_read, sn_repr and small
 * native kernels. */
#ifndef SINTER_RUNTIME_ELEMENT_H
#define SINTER_RUNTIME_ELEMENT_H
#include "runtime/core/tensor.h"

double element_double(DType dtype, const void *at); /* ints of more than 53 bits round */
int64_t element_int(DType dtype, const void *at);   /* of a float: double_to_i64 */

/* Calls visit for each element, in row-major order of the logical index. */
typedef void EachElement(void *context, const char *element, size_t bytes);
void each_element(const sn_tensor *t, EachElement *visit, void *context);

#endif
