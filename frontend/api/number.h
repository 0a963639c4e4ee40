/* number.h: the boxed call's way to rows whose result is a number. */
#ifndef SINTER_FRONTEND_API_NUMBER_H
#define SINTER_FRONTEND_API_NUMBER_H
#include "runtime/core/dispatch.h"

/* args: normalised. */
Status number_call(const OpRow *row, const Arg *args, sn_value *out);
/* The value of the tensor args[0], for which what is pending runs. */
Status number_item(const OpRow *row, const Arg *args, sn_value *out);

#endif
