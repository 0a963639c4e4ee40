/* transform.h: what all functions of functions check. */
#ifndef SINTER_FRONTEND_API_TRANSFORM_H
#define SINTER_FRONTEND_API_TRANSFORM_H
#include "runtime/core/frame.h"

Status transform_check_lists(const char *what, sn_body body, sn_tensors in, sn_tensor *const *out, int n_out);

#endif
