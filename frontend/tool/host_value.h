/* host_value.h: results of calls on the host, compared bit by bit [semantics B1]: all bits are equal, but that a NaN
 * equals any NaN; dtype, sizes and strides count, too. What hangs on memory that no op has set (unset.h) is equal to
 * anything. */
#ifndef SINTER_TOOL_HOST_VALUE_H
#define SINTER_TOOL_HOST_VALUE_H
#include <sinter/sinter.h>

#include "ir/meta.h"

typedef struct HostValue {
    DType dtype; /* DT_default: there is none (NULL) */
    int rank;
    int64_t n, sizes[MAX_RANK], strides[MAX_RANK];
    char *bytes;   /* row-major; mem_free */
    bool *unset;   /* by element: hangs on what no op has set; NULL: none does; mem_free */
    bool any_type; /* so does its type */
} HostValue;

/* Of a tensor, or of none. Errors are left pending. */
HostValue host_value(sn_tensor *t);
void host_value_free(HostValue *value);
/* Elements, or the type, that are others in the value that the same code made with other bytes in unset memory. */
void host_value_mark(HostValue *value, const HostValue *other);
void host_value_type(const HostValue *value, Text *text); /* "f32[2,3]", "none" */
/* *element: the first that differs, -1: the type does; *n: how many differ. */
bool host_values_same(const HostValue *a, const HostValue *b, int64_t *element, int64_t *n);
/* Of two that are not the same: "element 12 [1,4]: 0.5, eager 0.25; 3 of 64 differ". */
void host_values_print(const HostValue *got, const HostValue *eager, Text *text);

/* How far floats lie from more exact ones of the same sizes: the most, and in units of the last place of their own
 * dtype at that size. Where one is finite and the other is not both are infinite. */
typedef struct HostError {
    double most, ulps;
} HostError;
HostError host_element_error(DType dtype, double value, double exact);
double host_last_place(DType dtype, double exact); /* of a number of this size */
HostError host_value_error(const HostValue *value, const HostValue *exact);
/* Whether there is anything to be measured. */
bool host_value_measured(const HostValue *value, const HostValue *exact);

#endif
